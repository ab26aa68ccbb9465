//! Frames from the peer: one handler for each type of RFC 9113 section 6.

use super::{Closing, Connection, Event, Expect, KEPT_CRUMBS, Role};
use crate::h2::error::{ConnectionError, ErrorCode};
use crate::h2::frame::{self, FrameHeader, HEADER_LEN, Opening, PREFACE, flag, kind};
use crate::h2::head::{ReadHead, RequestReader, ResponseReader, TrailerReader};
use crate::h2::hpack::{CompressionError, Fault};
use crate::h2::settings::MAX_WINDOW;
use crate::h2::stream::{State, StreamId, UNKNOWN_LENGTH};
use crate::{Request, Response};

/// CONTINUATION frames that one block may have: each costs a look, and a peer that has more to say
/// than fits into these has more than is accepted anyway.
const MAX_CONTINUATIONS: u32 = 16;

/// Frames without any use for a message (PING, SETTINGS, PRIORITY, empty DATA, ...) that a peer may be
/// ahead of the useful ones.
const MAX_CONTROL_DEBT: u32 = 10_000;

/// What each call of `receive` forgives of it: a peer that sends a few now and then is no flood.
const CONTROL_FORGIVEN: u32 = 16;

/// Requests that a client may have reset before their answer, beyond as many as were answered: the "rapid reset" makes
/// work that nobody waits for.  Those that it makes this end reset by breaking the protocol count as its own
/// ("MadeYouReset").
const MAX_RESET_DEBT: u32 = 200;

/// Part of the glitches threshold at which a graceful close is tried first, as HAProxy does.
const GRACEFUL_GLITCHES_PERCENT: u64 = 75;

/// What the PING carries that tells when the peer has seen the first GOAWAY.
pub(super) const GOAWAY_PING: &[u8; 8] = b"weir bye";

/// What the PING carries that asks whether the peer is there.
pub(super) const LIVENESS_PING: &[u8; 8] = b"weir ask";

impl Connection {
    /// Takes octets of the peer and returns how many: whole frames, parts of DATA.  What was not taken has
    /// to be offered again, together with what follows it; the buffer therefore has to hold a whole frame.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol.  A GOAWAY is in the output: send it and close.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        self.control_debt = self.control_debt.saturating_sub(CONTROL_FORGIVEN);
        let mut at = 0;
        while self.is_receiving() {
            match self.step(&input[at..]) {
                Ok(0) => return Ok(at),
                Ok(taken) => at += taken,
                Err(error) => {
                    self.fail(error);
                    return Err(error);
                }
            }
        }
        self.error().map_or(Ok(at), Err)
    }

    pub(super) fn fail(&mut self, error: ConnectionError) {
        self.glitches = self.glitches.saturating_add(1);
        let last = self.announced_last();
        frame::write_goaway(&mut self.output, last, error.code, error.reason);
        self.expect = Expect::Nothing(error);
    }

    /// Takes the next thing; 0 when it is not there completely.
    #[inline]
    fn step(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        match self.expect {
            Expect::Frame => self.frame(input, None),
            Expect::Data { stream, left, padding, end } => {
                Ok(self.data_payload(input, stream, left, padding, end))
            }
            Expect::Continuation { header, frames } => self.frame(input, Some((header, frames))),
            Expect::Preface => self.preface(input),
            Expect::Settings => self.first_frame(input),
            Expect::Nothing(error) => Err(error),
        }
    }

    /// RFC 9113 section 3.4
    fn preface(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        match Opening::of(input) {
            Opening::Preface => {
                self.expect = Expect::Settings;
                Ok(PREFACE.len())
            }
            Opening::PrefaceSoFar => Ok(0),
            Opening::Other => Err(ConnectionError::protocol("invalid connection preface")),
        }
    }

    fn first_frame(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        let Some(bytes) = input.first_chunk() else { return Ok(0) };
        let header = FrameHeader::parse(bytes);
        if header.kind != kind::SETTINGS || header.has(flag::ACK) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        let taken = self.frame(input, None)?;
        if taken > 0 {
            self.expect = Expect::Frame;
        }
        Ok(taken)
    }

    #[inline]
    fn frame(
        &mut self,
        input: &[u8],
        continued: Option<(FrameHeader, u32)>,
    ) -> Result<usize, ConnectionError> {
        let Some((bytes, rest)) = input.split_first_chunk::<HEADER_LEN>() else { return Ok(0) };
        let header = FrameHeader::parse(bytes);
        if header.len > self.settings.max_frame_size as usize {
            return Err(ConnectionError::frame_size("frame larger than announced"));
        }
        if let Some((first, frames)) = continued {
            if header.kind != kind::CONTINUATION || header.stream != first.stream {
                return Err(ConnectionError::protocol("header block not continued"));
            }
            let Some(payload) = rest.get(..header.len) else { return Ok(0) };
            self.continuation(first, frames, header, payload)?;
            return Ok(HEADER_LEN + header.len);
        }
        if header.kind == kind::DATA {
            return self.data(header, rest).map(|taken| taken.map_or(0, |taken| HEADER_LEN + taken));
        }
        let Some(payload) = rest.get(..header.len) else { return Ok(0) };
        match header.kind {
            kind::HEADERS => self.headers(header, payload)?,
            kind::PRIORITY => self.priority(header, payload)?,
            kind::RST_STREAM => self.rst_stream(header, payload)?,
            kind::SETTINGS => self.settings(header, payload)?,
            kind::PUSH_PROMISE => {
                return Err(ConnectionError::protocol("PUSH_PROMISE without being enabled"));
            }
            kind::PING => self.ping(header, payload)?,
            kind::GOAWAY => self.goaway(header, payload)?,
            kind::WINDOW_UPDATE => self.window_update(header, payload)?,
            kind::CONTINUATION => {
                return Err(ConnectionError::protocol("CONTINUATION without a header block"));
            }
            // RFC 9113 section 5.5: unknown types are ignored.
            _ => self.control(1)?,
        }
        Ok(HEADER_LEN + header.len)
    }

    /// Counts frames that help no message on.
    fn control(&mut self, cost: u32) -> Result<(), ConnectionError> {
        self.control_debt += cost;
        if self.control_debt > MAX_CONTROL_DEBT {
            return Err(ConnectionError::calm("too many control frames"));
        }
        Ok(())
    }

    fn glitch(&mut self) -> Result<(), ConnectionError> {
        self.glitches = self.glitches.saturating_add(1);
        let threshold = self.settings.glitches_threshold;
        if threshold == 0 {
            return Ok(());
        }
        if self.glitches >= threshold {
            return Err(ConnectionError::calm("too many glitches"));
        }
        if u64::from(self.glitches) * 100 >= u64::from(threshold) * GRACEFUL_GLITCHES_PERCENT
            && self.closing == Closing::No
        {
            self.go_away(true);
        }
        Ok(())
    }

    /// RFC 9113 section 5.4.2: resets the stream, and tells the user if it is known to it.
    fn stream_error(&mut self, number: u32, code: ErrorCode) -> Result<(), ConnectionError> {
        frame::write_rst_stream(&mut self.output, number, code);
        self.remember_reset(number);
        if let Some(stream) = self.streams.find(number) {
            self.lose(stream, code, false);
        }
        self.count_reset()?;
        self.glitch()
    }

    /// Forgets a stream that was reset.
    fn lose(&mut self, stream: StreamId, code: ErrorCode, by_peer: bool) {
        let told = !self.take_back(stream);
        self.forget(stream);
        if told {
            self.tell(Event::Reset { stream, code, by_peer });
        }
    }

    /// A request that was reset before anybody has heard of it leaves no trace; false when it was told.
    fn take_back(&mut self, stream: StreamId) -> bool {
        let Some(state) = self.streams.get(stream).filter(|state| state.untold) else { return false };
        let at = state.told_at.wrapping_sub(self.told) as usize;
        let event = self.events.get_mut(at).and_then(Option::take);
        if let Some(Event::Request { request, .. } | Event::Invalid { request, .. }) = event {
            self.head_allowance = self.head_allowance.saturating_add(request.fields.memory_bytes());
            self.recycle_request(request);
        }
        true
    }

    fn tell(&mut self, event: Event) {
        self.events.push_back(Some(event));
    }

    /// Counts a request that nobody waits for any more (server).
    fn count_reset(&mut self) -> Result<(), ConnectionError> {
        if self.role == Role::Client {
            return Ok(());
        }
        self.reset_debt += 1;
        if self.reset_debt > MAX_RESET_DEBT {
            return Err(ConnectionError::calm("too many requests reset"));
        }
        Ok(())
    }

    /// The stream was never opened (RFC 9113 section 5.1: idle).
    fn is_idle_stream(&self, number: u32) -> bool {
        // Streams are opened by clients only, with odd numbers (RFC 9113 section 5.1.1).
        number > self.last_stream || number.is_multiple_of(2) || self.was_skipped(number)
    }

    fn was_skipped(&self, number: u32) -> bool {
        number > self.skipped.0 && number < self.skipped.1
    }

    // DATA, section 6.1

    /// Takes a DATA frame's header and what is there of its payload; `None` when it cannot be begun.
    fn data(&mut self, header: FrameHeader, rest: &[u8]) -> Result<Option<usize>, ConnectionError> {
        let number = header.stream;
        if number == 0 || self.is_idle_stream(number) {
            return Err(ConnectionError::protocol("DATA on an idle stream"));
        }
        let mut padding = 0;
        let mut overhead = 0;
        if header.has(flag::PADDED) {
            if header.len == 0 {
                return Err(ConnectionError::frame_size("DATA without its pad length"));
            }
            let Some(&pad_length) = rest.first() else { return Ok(None) };
            padding = usize::from(pad_length);
            overhead = 1;
            if padding >= header.len {
                return Err(ConnectionError::protocol("padding as long as the frame"));
            }
        }
        self.receive_window -= header.len as i64;
        if self.receive_window < 0 {
            return Err(ConnectionError::flow_control("connection window exceeded"));
        }
        let end = header.has(flag::END_STREAM);
        if header.len == 0 && !end {
            self.control(1)?;
        }
        let left = header.len - padding - overhead;
        // Padding is consumed as it comes.
        self.unreturned = self.unreturned.saturating_add((padding + overhead) as u32);
        self.return_connection_window();
        let stream = self.data_stream(header, left, end)?;
        if let Some(state) = stream.and_then(|stream| self.streams.get_mut(stream)) {
            state.unreturned += (padding + overhead) as u32;
        }
        let taken = self.data_payload(&rest[overhead..], stream, left, padding, end);
        Ok(Some(overhead + taken))
    }

    /// Where a DATA frame's payload goes; `None` for nowhere.
    fn data_stream(
        &mut self,
        header: FrameHeader,
        octets: usize,
        end: bool,
    ) -> Result<Option<StreamId>, ConnectionError> {
        let number = header.stream;
        let Some(stream) = self.streams.find(number) else {
            // RFC 9113 section 5.1: what was on its way when the stream was reset is ignored.
            if self.was_reset(number) {
                self.control(1)?;
            } else {
                self.stream_error(number, ErrorCode::STREAM_CLOSED)?;
            }
            return Ok(None);
        };
        let client = self.role == Role::Client;
        let Some(state) = self.streams.get_mut(stream) else { return Ok(None) };
        let fault = if !state.state.can_receive() {
            Some(ErrorCode::STREAM_CLOSED)
        } else if client && !state.head_done {
            Some(ErrorCode::PROTOCOL_ERROR)
        } else if i64::from(state.receive_window) < header.len as i64 {
            Some(ErrorCode::FLOW_CONTROL_ERROR)
        } else if state.length_left != UNKNOWN_LENGTH
            && (octets as u64 > state.length_left || (end && octets as u64 != state.length_left))
        {
            // RFC 9113 section 8.1.1: the sum of DATA differs from Content-Length.
            Some(ErrorCode::PROTOCOL_ERROR)
        } else {
            None
        };
        if let Some(code) = fault {
            self.stream_error(number, code)?;
            return Ok(None);
        }
        state.receive_window -= header.len as i32;
        if state.length_left != UNKNOWN_LENGTH {
            state.length_left -= octets as u64;
        }
        Ok(Some(stream))
    }

    /// Takes what is there of a DATA frame's payload and padding.
    fn data_payload(
        &mut self,
        input: &[u8],
        stream: Option<StreamId>,
        mut left: usize,
        mut padding: usize,
        end: bool,
    ) -> usize {
        let octets = left.min(input.len());
        left -= octets;
        if octets > 0 {
            self.store_data(stream, &input[..octets]);
        }
        let padded = padding.min(input.len() - octets);
        padding -= padded;
        if left + padding > 0 {
            self.expect = Expect::Data { stream, left, padding, end };
        } else {
            self.expect = Expect::Frame;
            if end && let Some(stream) = stream {
                self.end_received(stream);
            }
        }
        octets + padded
    }

    fn store_data(&mut self, stream: Option<StreamId>, octets: &[u8]) {
        let found = stream.and_then(|id| Some((id, self.streams.get_mut(id)?)));
        let Some((stream, state)) = found else {
            return self.return_to_connection(octets.len() as u32);
        };
        if state.read > state.received.len() / 2 {
            state.received.drain(..state.read);
            state.read = 0;
        }
        state.received.extend_from_slice(octets);
        if !std::mem::replace(&mut state.data_event, true) {
            self.tell(Event::Data { stream });
        }
        self.count_arrived(octets.len() as u32);
        self.control_debt = self.control_debt.saturating_sub(1);
    }

    fn end_received(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(stream) else { return };
        state.state = state.state.end_received();
        let finished = state.state == State::Closed && state.unread().is_empty();
        self.tell(Event::End { stream });
        if finished {
            self.streams.close(stream);
        }
    }

    // HEADERS and CONTINUATION, sections 6.2 and 6.10

    fn headers(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("HEADERS on stream 0"));
        }
        let mut header = header;
        let mut block = payload;
        if header.flags & (flag::PADDED | flag::PRIORITY) != 0 {
            block = unpadded(header, block)?;
            if header.has(flag::PRIORITY) {
                let Some((priority, rest)) = block.split_first_chunk::<5>() else {
                    return Err(ConnectionError::frame_size("HEADERS without its priority"));
                };
                block = rest;
                // A stream that depends on itself; the block has to be read all the same.
                if frame::number(priority).is_some_and(|n| n & MAX_WINDOW == header.stream) {
                    header.kind = SELF_DEPENDENT;
                }
            }
        }
        if header.has(flag::END_HEADERS) {
            return self.section(header, block);
        }
        self.block.clear();
        self.block.extend_from_slice(block);
        self.expect = Expect::Continuation { header, frames: 0 };
        Ok(())
    }

    fn continuation(
        &mut self,
        first: FrameHeader,
        frames: u32,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        // Compressed, a section is hardly ever longer than it is large.
        if frames >= MAX_CONTINUATIONS
            || self.block.len() + payload.len() > self.settings.max_header_list as usize
        {
            return Err(ConnectionError::calm("header block too large"));
        }
        self.block.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.expect = Expect::Continuation { header: first, frames: frames + 1 };
            return self.control(1);
        }
        self.expect = Expect::Frame;
        let block = std::mem::take(&mut self.block);
        self.section(first, &block)
    }

    /// A whole field section: a request, a response, or trailers.
    fn section(&mut self, header: FrameHeader, block: &[u8]) -> Result<(), ConnectionError> {
        let number = header.stream;
        if let Some(stream) = self.streams.find(number) {
            return self.section_on(stream, header, block);
        }
        if self.role == Role::Server && number > self.last_stream && !number.is_multiple_of(2) {
            return self.request(header, block);
        }
        if self.is_idle_stream(number) {
            return Err(ConnectionError::protocol("HEADERS on a stream that cannot be opened"));
        }
        if self.was_reset(number) {
            self.control(1)?;
            return self.discard(block);
        }
        Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream"))
    }

    fn section_on(
        &mut self,
        stream: StreamId,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), ConnectionError> {
        let client = self.role == Role::Client;
        let Some(state) = self.streams.get(stream) else { return Ok(()) };
        let (can_receive, head_done) = (state.state.can_receive(), state.head_done);
        if !can_receive {
            self.discard(block)?;
            return self.stream_error(stream.number, ErrorCode::STREAM_CLOSED);
        }
        if header.kind == SELF_DEPENDENT {
            self.discard(block)?;
            return self.stream_error(stream.number, ErrorCode::PROTOCOL_ERROR);
        }
        if client && !head_done {
            return self.response(stream, header, block);
        }
        self.trailers(stream, header, block)
    }

    /// Reads a block only to keep the table in step.
    fn discard(&mut self, block: &[u8]) -> Result<(), ConnectionError> {
        self.decoder.decode(block, |_| {}).map_err(compression)
    }

    fn request(&mut self, header: FrameHeader, block: &[u8]) -> Result<(), ConnectionError> {
        let number = header.stream;
        if number - self.last_stream > 2 || self.last_stream == 0 && number > 1 {
            self.skipped = (self.last_stream, number);
        }
        self.last_stream = number;
        self.total_streams = self.total_streams.saturating_add(1);
        if self.closing == Closing::Final
            || self.streams.len() >= self.settings.max_concurrent_streams as usize
        {
            self.discard(block)?;
            return self.refuse(number);
        }
        self.check_total_streams()?;
        self.control_debt = self.control_debt.saturating_sub(1);
        let mut request = Request { fields: self.empty_fields(), ..Request::default() };
        let head = self.read_request(block, &mut request)?;
        let end = header.has(flag::END_STREAM);
        if head.fault == Fault::Malformed
            || header.kind == SELF_DEPENDENT
            || end && head.content_length.is_some_and(|length| length > 0)
        {
            self.recycle_request(request);
            return self.stream_error(number, ErrorCode::PROTOCOL_ERROR);
        }
        let Some(allowance) = self.head_allowance.checked_sub(request.fields.memory_bytes()) else {
            self.recycle_request(request);
            return self.refuse(number);
        };
        let Some(stream) =
            self.streams.open(number, self.peer.initial_window as i32, self.settings.initial_window as i32)
        else {
            self.recycle_request(request);
            return self.stream_error(number, ErrorCode::REFUSED_STREAM);
        };
        if let Some(state) = self.streams.get_mut(stream) {
            state.extended_connect = !request.protocol.is_empty();
            state.untold = true;
            state.told_at = self.told.wrapping_add(self.events.len() as u32);
            if end {
                state.state = State::RemoteClosed;
            } else {
                state.length_left = head.content_length.unwrap_or(UNKNOWN_LENGTH);
            }
        }
        self.head_allowance = allowance;
        self.tell(match head.fault {
            Fault::BadRequest => Event::Invalid { stream, request, status: 400 },
            Fault::TooLarge => Event::Invalid { stream, request, status: 431 },
            Fault::None | Fault::Malformed => Event::Request { stream, request, end },
        });
        if head.fault == Fault::TooLarge {
            // One answer says what was wrong; a hundred streams of such heads get no hundred answers.
            self.take_no_more(ErrorCode::ENHANCE_YOUR_CALM, "header list too large");
        }
        Ok(())
    }

    /// RFC 9113 section 8.7: nothing was done for it, the client may send it again.
    fn refuse(&mut self, number: u32) -> Result<(), ConnectionError> {
        frame::write_rst_stream(&mut self.output, number, ErrorCode::REFUSED_STREAM);
        self.remember_reset(number);
        self.control(1)
    }

    #[inline]
    fn read_request(&mut self, block: &[u8], request: &mut Request) -> Result<ReadHead, ConnectionError> {
        let generation = self.decoder.generation();
        if let Some(head) = self.repeat.read(block, generation, request) {
            return Ok(head);
        }
        self.block.clear();
        let mut reader = RequestReader::new(request, &self.settings, &mut self.block);
        self.decoder.decode(block, |line| reader.line(&line)).map_err(compression)?;
        let head = reader.finish();
        self.block.clear();
        self.block.shrink_to(KEPT_CRUMBS);
        if self.decoder.generation() == generation {
            self.repeat.note(block, generation, request, head);
        }
        Ok(head)
    }

    /// tune.h2.fe.max-total-streams: first a graceful GOAWAY, then no more patience.
    fn check_total_streams(&mut self) -> Result<(), ConnectionError> {
        let limit = self.settings.max_total_streams;
        if limit == 0 || self.total_streams < limit {
            return Ok(());
        }
        if self.total_streams > limit.saturating_add(self.settings.max_concurrent_streams) {
            return Err(ConnectionError::calm("too many streams after GOAWAY"));
        }
        if self.closing == Closing::No {
            self.announce_closing();
        }
        Ok(())
    }

    fn response(
        &mut self,
        stream: StreamId,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut response = Response { fields: self.empty_fields(), ..Response::default() };
        let mut reader = ResponseReader::new(&mut response, &self.settings);
        self.decoder.decode(block, |line| reader.line(&line)).map_err(compression)?;
        let head = reader.finish();
        let end = header.has(flag::END_STREAM);
        let interim = response.status < 200;
        let Some(state) = self.streams.get_mut(stream) else { return Ok(()) };
        let bodiless = state.head_request || matches!(response.status, 204 | 304);
        let length = if bodiless { Some(0) } else { head.content_length };
        let broken = head.fault == Fault::Malformed
            || interim && end
            || end && length.is_some_and(|length| length > 0);
        if broken || head.fault != Fault::None {
            self.recycle_response(response);
            let code = if broken { ErrorCode::PROTOCOL_ERROR } else { ErrorCode::ENHANCE_YOUR_CALM };
            return self.stream_error(stream.number, code);
        }
        if interim {
            self.tell(Event::Informational { stream, response });
            return self.control(1);
        }
        self.control_debt = self.control_debt.saturating_sub(1);
        state.head_done = true;
        state.length_left = length.unwrap_or(UNKNOWN_LENGTH);
        let mut finished = false;
        if end {
            state.state = state.state.end_received();
            finished = state.state == State::Closed;
        }
        self.switch_protocol(stream, &mut response);
        self.tell(Event::Response { stream, response, end });
        if finished {
            self.streams.close(stream);
        }
        Ok(())
    }

    /// RFC 8441 section 5: 2xx to an extended CONNECT is what 101 is in HTTP/1.
    fn switch_protocol(&mut self, stream: StreamId, response: &mut Response) {
        let Some(at) = self.upgrades.iter().position(|(number, _)| *number == stream.number) else { return };
        let (_, protocol) = self.upgrades.swap_remove(at);
        if (200..300).contains(&response.status) {
            response.set_status(101, b"");
            response.fields.push(b"connection", b"upgrade");
            response.fields.push(b"upgrade", &protocol);
        }
    }

    fn trailers(
        &mut self,
        stream: StreamId,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut fields = self.empty_fields();
        let mut reader = TrailerReader::new(&mut fields, &self.settings);
        self.decoder.decode(block, |line| reader.line(&line)).map_err(compression)?;
        let fault = reader.finish();
        let incomplete = self
            .streams
            .get(stream)
            .is_some_and(|state| state.length_left != UNKNOWN_LENGTH && state.length_left > 0);
        // RFC 9113 section 8.1: trailers end the message.
        if !header.has(flag::END_STREAM) || fault != Fault::None || incomplete {
            self.recycle_fields(fields);
            if fault == Fault::TooLarge && self.role == Role::Server {
                return Err(ConnectionError::calm("trailers too large"));
            }
            return self.stream_error(stream.number, ErrorCode::PROTOCOL_ERROR);
        }
        if fields.is_empty() {
            self.recycle_fields(fields);
        } else {
            self.tell(Event::Trailers { stream, fields });
        }
        self.end_received(stream);
        Ok(())
    }

    // The small frames

    /// Section 6.3.  Priorities are not used (RFC 9113 section 5.3.2).
    fn priority(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY on stream 0"));
        }
        let depends_on = frame::number(payload).map(|n| n & MAX_WINDOW);
        let error = if payload.len() != 5 {
            ConnectionError::frame_size("PRIORITY of a wrong size")
        } else if depends_on == Some(header.stream) {
            ConnectionError::protocol("stream depends on itself")
        } else {
            return self.control(1);
        };
        if self.streams.find(header.stream).is_some() {
            return self.stream_error(header.stream, error.code);
        }
        Err(error)
    }

    /// Section 6.4
    fn rst_stream(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("RST_STREAM of a wrong size"));
        }
        if header.stream == 0 || self.is_idle_stream(header.stream) {
            return Err(ConnectionError::protocol("RST_STREAM on an idle stream"));
        }
        let code = ErrorCode(frame::number(payload).unwrap_or_default());
        let server = self.role == Role::Server;
        let Some(stream) = self.streams.find(header.stream) else { return self.control(1) };
        let Some(state) = self.streams.get_mut(stream) else { return Ok(()) };
        // A client that has waited for the head may have seen enough.
        let waited = state.head_done;
        // RFC 9113 section 8.1: a complete response stays, only the rest of the request is not wanted.
        if !server && code == ErrorCode::NO_ERROR && !state.state.can_receive() {
            state.state = State::Closed;
            if state.unread().is_empty() {
                self.streams.close(stream);
            }
            self.tell(Event::Reset { stream, code, by_peer: true });
        } else {
            self.lose(stream, code, true);
        }
        if !waited {
            self.count_reset()?;
        }
        self.control(1)
    }

    /// Section 6.5
    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(ConnectionError::frame_size("SETTINGS acknowledgement with a payload"));
            }
            if !self.settings_acknowledged {
                self.settings_acknowledged = true;
                self.decoder.set_size_limit(self.settings.header_table_size as usize);
            }
            return self.control(1);
        }
        let (parameters, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::frame_size("SETTINGS of a wrong size"));
        }
        let old_window = self.peer.initial_window;
        let from_server = self.role == Role::Client;
        for &[i1, i0, v3, v2, v1, v0] in parameters {
            let id = u16::from_be_bytes([i1, i0]);
            self.peer.apply(id, u32::from_be_bytes([v3, v2, v1, v0]), from_server)?;
        }
        self.peer_settings_received = true;
        self.encoder.set_peer_table_size(self.peer.header_table_size as usize);
        let change = i64::from(self.peer.initial_window) - i64::from(old_window);
        if change != 0 {
            self.change_send_windows(change)?;
        }
        frame::write_settings_ack(&mut self.output);
        self.control(1 + parameters.len() as u32)
    }

    /// Section 6.9.2: a changed initial window changes that of every stream.
    fn change_send_windows(&mut self, change: i64) -> Result<(), ConnectionError> {
        let mut unblocked = Vec::new();
        for stream in self.streams.iter_mut() {
            let window = i64::from(stream.send_window) + change;
            stream.send_window = i32::try_from(window)
                .map_err(|_| ConnectionError::flow_control("initial window makes a stream's too large"))?;
            if stream.send_window > 0 && stream.wants_write && !stream.queued {
                unblocked.push(stream.number);
            }
        }
        for number in unblocked {
            if let Some(stream) = self.streams.find(number) {
                self.wait_to_write(stream);
            }
        }
        Ok(())
    }

    /// Section 6.7
    fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        if payload.len() != 8 {
            return Err(ConnectionError::frame_size("PING of a wrong size"));
        }
        if !header.has(flag::ACK) {
            frame::write_ping(&mut self.output, true, payload);
        } else if payload == GOAWAY_PING && self.closing == Closing::Announced {
            self.go_away(false);
        } else if payload == LIVENESS_PING {
            self.ping_answered = true;
        }
        self.control(1)
    }

    /// Section 6.8
    fn goaway(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number))
        else {
            return Err(ConnectionError::frame_size("GOAWAY of a wrong size"));
        };
        let last = last & MAX_WINDOW;
        self.peer_going_away = true;
        if self.role == Role::Client {
            for stream in self.streams.above(last) {
                self.forget(stream);
                // Not processed: safe to send again (RFC 9113 section 8.7).
                let code = ErrorCode::REFUSED_STREAM;
                self.tell(Event::Reset { stream, code, by_peer: true });
            }
        }
        self.tell(Event::GoAway { last, code: ErrorCode(code) });
        self.control(1)
    }

    /// Section 6.9
    fn window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("WINDOW_UPDATE of a wrong size"));
        }
        let increment = frame::number(payload).unwrap_or_default() & MAX_WINDOW;
        self.control(1)?;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE of nothing"));
            }
            self.send_window += i64::from(increment);
            if self.send_window > i64::from(MAX_WINDOW) {
                return Err(ConnectionError::flow_control("connection window too large"));
            }
            return Ok(());
        }
        if self.is_idle_stream(header.stream) {
            return Err(ConnectionError::protocol("WINDOW_UPDATE on an idle stream"));
        }
        let Some(stream) = self.streams.find(header.stream) else { return Ok(()) };
        let Some(state) = self.streams.get_mut(stream) else { return Ok(()) };
        let Some(window) = state.send_window.checked_add(increment as i32) else {
            return self.stream_error(header.stream, ErrorCode::FLOW_CONTROL_ERROR);
        };
        state.send_window = window;
        if increment == 0 {
            return self.stream_error(header.stream, ErrorCode::PROTOCOL_ERROR);
        }
        if window > 0 && state.wants_write {
            self.wait_to_write(stream);
        }
        Ok(())
    }
}

/// Stands in for the type of a HEADERS frame whose stream depends on itself.
const SELF_DEPENDENT: u8 = u8::MAX;

fn compression(_: CompressionError) -> ConnectionError {
    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, "invalid header block")
}

/// The payload without pad length and padding.
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let Some((&padding, rest)) = payload.split_first() else {
        return Err(ConnectionError::frame_size("HEADERS without its pad length"));
    };
    let len = rest
        .len()
        .checked_sub(usize::from(padding))
        .ok_or(ConnectionError::protocol("padding longer than the frame"))?;
    Ok(&rest[..len])
}
