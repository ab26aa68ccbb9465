//! Commands: what the user has to say to the peer.

use super::receive::{GOAWAY_PING, LIVENESS_PING};
use super::{Closing, Connection, LastData, Role};
use crate::h2::error::{ErrorCode, Gone, Refused};
use crate::h2::frame::{self, FLAGS_AT, FrameHeader, HEADER_LEN, flag, kind};
use crate::h2::head;
use crate::h2::settings::MAX_WINDOW;
use crate::h2::stream::{State, StreamId};
use crate::{FieldName, Fields, Method, Request, Response};

/// The least that output above half its mark still takes at once, so that frames do not get tiny.
const MIN_OUTPUT_ROOM: usize = 4096;

/// Octets of DATA from which on it makes up for the peer's window updates.
const MIN_USEFUL_DATA: usize = 256;

impl Connection {
    /// Sends a response's head: interim (1xx) as often as wanted, then the final one (server).
    /// `end` says that no body follows.
    ///
    /// # Errors
    ///
    /// The stream is gone or has got its final head.  It is reset for a 101 that was not asked for, and for success
    /// that is none: 101 alone opens what an extended CONNECT asks for.
    pub fn send_response(&mut self, stream: StreamId, response: &Response, end: bool) -> Result<(), Gone> {
        let state = self.streams.get_mut(stream).ok_or(Gone)?;
        if state.head_done || !state.state.can_send() {
            return Err(Gone);
        }
        // RFC 9113 section 8.6: HTTP/2 has no other use for it.
        if response.status == 101 && !state.extended_connect {
            self.reset(stream, ErrorCode::INTERNAL_ERROR);
            return Err(Gone);
        }
        // RFC 8441 section 5: success would open what nobody serves.
        if (200..300).contains(&response.status) && state.extended_connect {
            self.reset(stream, ErrorCode::CONNECT_ERROR);
            return Err(Gone);
        }
        let interim = matches!(response.status, 100 | 102..=199);
        let end = end && !interim;
        state.head_done = !interim;
        state.refused = matches!(response.status, 400 | 431);
        let start = self.start_headers();
        head::write_response(&mut self.encoder, &mut self.output, response);
        self.finish_headers(start, stream.number, end);
        if end {
            self.end_sent(stream);
        }
        Ok(())
    }

    /// Sends a request (client).  `end` says that no body follows.
    ///
    /// # Errors
    ///
    /// The request cannot go over this connection; nothing of it has left.
    pub fn send_request(&mut self, request: &Request, end: bool) -> Result<StreamId, Refused> {
        if self.is_closing() || self.role == Role::Server {
            return Err(Refused::Closing);
        }
        let upgrade = !request.protocol.is_empty();
        if upgrade {
            self.check_extended_connect(request, end)?;
        }
        let number = if self.last_stream == 0 { 1 } else { self.last_stream + 2 };
        if number > MAX_WINDOW {
            return Err(Refused::Closing);
        }
        if self.can_open() == 0 {
            return Err(Refused::Full);
        }
        if request.uri.is_empty() && !request.fields.has(FieldName::Host) {
            return Err(Refused::Unsendable);
        }
        let windows = (self.peer.initial_window as i32, self.settings.initial_window as i32);
        let stream = self.streams.open(number, windows.0, windows.1).ok_or(Refused::Full)?;
        self.last_stream = number;
        self.total_streams = self.total_streams.saturating_add(1);
        if let Some(state) = self.streams.get_mut(stream) {
            state.head_request = request.method == Method::Head;
        }
        if upgrade {
            self.upgrades.push((number, request.fields.bytes(request.protocol).into()));
        }
        let start = self.start_headers();
        head::write_request(&mut self.encoder, &mut self.output, request);
        self.finish_headers(start, number, end);
        if end {
            self.end_sent(stream);
        }
        Ok(stream)
    }

    /// RFC 8441: the peer has to have offered it, and only what HTTP/1 starts with a bodiless GET fits.
    fn check_extended_connect(&mut self, request: &Request, end: bool) -> Result<(), Refused> {
        if !self.peer_settings_received {
            return Err(Refused::AwaitSettings);
        }
        let body = [FieldName::ContentLength, FieldName::TransferEncoding].map(|id| request.fields.has(id));
        if self.peer.extended_connect && request.method == Method::Get && !end && body == [false; 2] {
            return Ok(());
        }
        if self.last_stream == 0 {
            // As HAProxy does on a connection that was made for this request alone: the stream is
            // cancelled before it starts, and the connection is not used any more.
            self.last_stream = 1;
            frame::write_rst_stream(&mut self.output, 1, ErrorCode::CANCEL);
            self.go_away(false);
        }
        Err(Refused::NoExtendedConnect)
    }

    /// Sends as much of a body as the windows and the output's high-water mark allow, and returns how
    /// much.  `end` counts when that is all.  When it is less, a `Writable` event tells when to go on.
    ///
    /// # Errors
    ///
    /// The stream is gone, or its sending side has ended.
    pub fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> Result<usize, Gone> {
        let queued = self.output.len() - self.written;
        let high_water = self.settings.output_high_water as usize;
        let max_frame = self.peer.max_frame_size as usize;
        let state = self.streams.get_mut(stream).ok_or(Gone)?;
        if !state.state.can_send() {
            return Err(Gone);
        }
        let room = if queued >= high_water { 0 } else { (high_water - queued).max(MIN_OUTPUT_ROOM) };
        let window = i64::from(state.send_window).min(self.send_window).max(0) as usize;
        let taken = data.len().min(room).min(window);
        let all = taken == data.len();
        let end = end && all;
        if taken == 0 && !end {
            if !all {
                self.short_write(stream);
            }
            return Ok(0);
        }
        state.send_window -= taken as i32;
        self.send_window -= taken as i64;
        if taken == 0 && self.end_last_data(stream.number) {
            self.data_sent(stream, 0, true);
            return Ok(0);
        }
        self.output.reserve(taken + (taken / max_frame + 1) * HEADER_LEN);
        let mut rest = &data[..taken];
        loop {
            let (payload, after) = rest.split_at(rest.len().min(max_frame));
            let flags = if end && after.is_empty() { flag::END_STREAM } else { 0 };
            let header = FrameHeader { len: payload.len(), kind: kind::DATA, flags, stream: stream.number };
            let start = self.output.len();
            self.output.extend_from_slice(&header.bytes());
            self.output.extend_from_slice(payload);
            self.last_data = LastData { stream: stream.number, start, end: self.output.len() };
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        self.data_sent(stream, taken, end);
        if !all {
            self.short_write(stream);
        }
        Ok(taken)
    }

    /// Notes that body octets were written, or the body's end.
    fn data_sent(&mut self, stream: StreamId, octets: usize, end: bool) {
        // A peer that opens its window octet by octet gets no credit for it.
        if octets >= MIN_USEFUL_DATA || end {
            self.control_debt = self.control_debt.saturating_sub(2);
        }
        if end {
            self.end_sent(stream);
        }
    }

    /// Makes the last DATA frame the stream's end, when it is the stream's and nothing of it has left.
    fn end_last_data(&mut self, stream: u32) -> bool {
        let last = self.last_data;
        let waits = last.stream == stream && last.end == self.output.len() && last.start >= self.written;
        if waits {
            self.output[last.start + FLAGS_AT] |= flag::END_STREAM;
        }
        waits
    }

    /// Whether [`Connection::send_data`] would take at least one octet; where not, `Writable` will say when.
    pub fn can_send(&mut self, stream: StreamId) -> bool {
        let queued = self.output.len() - self.written;
        let full = queued >= self.settings.output_high_water as usize;
        let Some(state) = self.streams.get_mut(stream) else { return true };
        if full || state.send_window <= 0 || self.send_window <= 0 {
            self.short_write(stream);
            return false;
        }
        true
    }

    /// The user has more than could be taken.
    fn short_write(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.get_mut(stream) {
            state.wants_write = true;
            // Its own window is the stream's own matter: WINDOW_UPDATE brings it back.
            if state.send_window > 0 {
                self.wait_to_write(stream);
            }
        }
    }

    /// Puts a stream at the end of those that wait for their turn.
    pub(super) fn wait_to_write(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.get_mut(stream)
            && !state.queued
        {
            state.queued = true;
            self.blocked.push_back(stream);
        }
    }

    /// Ends a message with a trailer section.
    ///
    /// # Errors
    ///
    /// The stream is gone, or its sending side has ended.
    pub fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> Result<(), Gone> {
        let state = self.streams.get(stream).ok_or(Gone)?;
        if !state.state.can_send() {
            return Err(Gone);
        }
        let start = self.start_headers();
        head::write_trailers(&mut self.encoder, &mut self.output, fields);
        self.finish_headers(start, stream.number, true);
        self.end_sent(stream);
        Ok(())
    }

    /// Resets a stream, whatever its state; nothing more is told about it.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        let Some(state) = self.streams.get(stream) else { return };
        if state.state != State::Closed {
            frame::write_rst_stream(&mut self.output, stream.number, code);
            self.remember_reset(stream.number);
        }
        self.forget(stream);
    }

    /// The user is through with a stream: what is left of it is dropped, and a peer that goes on is told
    /// to stop.  Harmless for streams that are gone; every exchange may end with it.
    pub fn release(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get(stream) else { return };
        // RFC 9113 section 8.1: after a complete response the rest of a request is declined without error.
        let complete = self.role == Role::Server && !state.state.can_send();
        self.reset(stream, if complete { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL });
    }

    /// Announces the end of the connection.  Gracefully, what the peer has sent meanwhile is still served,
    /// and a second GOAWAY follows by itself; otherwise nothing beyond the streams of now is.
    pub fn go_away(&mut self, graceful: bool) {
        if graceful {
            if self.closing == Closing::No {
                self.announce_closing();
                if self.role == Role::Server {
                    frame::write_ping(&mut self.output, false, GOAWAY_PING);
                }
            }
        } else {
            self.take_no_more(ErrorCode::NO_ERROR, "");
        }
    }

    /// Streams beyond those of now are refused; these still get their answers.
    pub(super) fn take_no_more(&mut self, code: ErrorCode, reason: &str) {
        if self.closing != Closing::Final {
            self.closing = Closing::Final;
            self.goaway_last = self.peer_last_stream();
            frame::write_goaway(&mut self.output, self.goaway_last, code, reason);
        }
    }

    /// Asks the peer for an answer, whatever else it does (RFC 9113 section 6.7).
    pub fn send_ping(&mut self) {
        frame::write_ping(&mut self.output, false, LIVENESS_PING);
    }

    /// Whether the peer has answered a [`Self::send_ping`] since this was asked last.
    pub fn take_ping_answer(&mut self) -> bool {
        std::mem::take(&mut self.ping_answered)
    }

    /// RFC 9113 section 6.8: a GOAWAY that excludes no stream yet.
    pub(super) fn announce_closing(&mut self) {
        self.closing = Closing::Announced;
        frame::write_goaway(&mut self.output, MAX_WINDOW, ErrorCode::NO_ERROR, "");
    }

    /// The last stream for a GOAWAY; it never grows from one to the next.
    pub(super) fn announced_last(&self) -> u32 {
        self.goaway_last.min(self.peer_last_stream())
    }

    /// The highest stream that the peer has opened: servers open none.
    fn peer_last_stream(&self) -> u32 {
        if self.role == Role::Server { self.last_stream } else { 0 }
    }

    fn end_sent(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(stream) else { return };
        state.state = state.state.end_sent();
        state.wants_write = false;
        if self.role == Role::Server && !state.refused {
            self.reset_debt = self.reset_debt.saturating_sub(1);
        }
        if state.state == State::Closed && state.unread().is_empty() {
            self.streams.close(stream);
        }
    }

    /// Leaves room for a HEADERS frame's header and returns where it stands.
    #[inline]
    fn start_headers(&mut self) -> usize {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEADER_LEN]);
        start
    }

    /// Writes the header of the HEADERS frame whose block ends the output.
    #[inline]
    fn finish_headers(&mut self, start: usize, stream: u32, end: bool) {
        let len = self.output.len() - start - HEADER_LEN;
        let mut flags = if end { flag::END_STREAM } else { 0 };
        let max_frame = self.peer.max_frame_size as usize;
        if len > max_frame {
            return self.split_headers(start, stream, flags);
        }
        flags |= flag::END_HEADERS;
        let header = FrameHeader { len, kind: kind::HEADERS, flags, stream };
        self.output[start..start + HEADER_LEN].copy_from_slice(&header.bytes());
    }

    /// A block that needs CONTINUATION frames (RFC 9113 section 6.10).
    #[cold]
    fn split_headers(&mut self, start: usize, stream: u32, flags: u8) {
        let max_frame = self.peer.max_frame_size as usize;
        let block = self.output.split_off(start + HEADER_LEN);
        self.output.truncate(start);
        let fragments = block.len().div_ceil(max_frame);
        for (at, fragment) in block.chunks(max_frame).enumerate() {
            let first = at == 0;
            let header = FrameHeader {
                len: fragment.len(),
                kind: if first { kind::HEADERS } else { kind::CONTINUATION },
                flags: if first { flags } else { 0 }
                    | if at + 1 == fragments { flag::END_HEADERS } else { 0 },
                stream,
            };
            self.output.extend_from_slice(&header.bytes());
            self.output.extend_from_slice(fragment);
        }
    }
}
