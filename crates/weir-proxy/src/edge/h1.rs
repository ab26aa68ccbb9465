//! An HTTP/1 connection as an edge: its socket, what was received and what waits to be sent.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_http::h1::{
    self, BodyDecoder, BodyEvent, Connection, Framing, ParseOptions, RequestHead, WriteOptions,
};
use weir_http::{FieldName, Fields, Method, Request, Response, Version};
use weir_net::Stream;

use super::output_limit::OutputLimit;
use super::{Body, BodyLength, EdgeError};
use crate::client::glitches::Glitches;
use crate::edge::buffer::Buffer;
use crate::thread::worker::Worker;

/// An HTTP/1 connection, from either side.
pub(crate) struct H1Edge {
    pub(crate) stream: Stream,
    worker: Rc<Worker>,
    /// Received, not used yet.
    pub(crate) input: Buffer,
    /// Written, not sent yet.
    pub(crate) output: Buffer,
    /// The body being received.
    decoder: BodyDecoder,
    framing: Framing,
    received_end: bool,
    trailers: Option<Box<Fields>>,
    /// Body bytes at the front of `input`.
    data: usize,
    /// The peer will send nothing more.
    pub(crate) read_closed: bool,
    /// The body being sent.
    sending: Sending,
    /// The connection can be used for another message after this one.
    pub(crate) keep_alive: bool,
    /// Version the peer speaks.
    pub(crate) peer_version: Version,
    /// Method of the request in progress: decides whether its response has a body.
    method: Method,
    /// The request in progress says with Proxy-Connection whether the connection lives on, and so does its response.
    proxied: bool,
    /// Violations of the server that were tolerated.
    glitches: u16,
    output_limit: OutputLimit,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expect_continue: bool,
    /// `100 Continue` was sent from here.
    continue_sent: bool,
    /// The response's body ends with the connection.
    close_delimited: bool,
    /// Plain bytes, of which nobody here knows when they are complete.
    is_tunnel: bool,
    /// Tell the peer that nothing follows once the output has left.
    half_close: bool,
    /// What was sent of the message in progress, for the log and for errors in the middle of it.
    pub(crate) head_sent: bool,
    /// The message received was framed in a way a smuggler would: nothing may follow it on either side.
    pub(crate) insecure_framing: bool,
    /// Field names to send in another letter case (`h1-case-adjust`).
    pub(crate) adjust_case: bool,
    /// Responses may break rules that are safe to break (`accept-unsafe-violations-in-http-response`).
    pub(crate) accept_unsafe: bool,
    /// A server is not told that its connection ends with the response (`option http-pretend-keepalive`).
    pub(crate) pretend_keep_alive: bool,
}

/// Framing of the body being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sending {
    /// Nothing, or nothing more.
    Nothing,
    /// That many bytes are left.
    Exact(u64),
    Chunked,
    UntilClose,
}

impl H1Edge {
    /// A connection on which nothing was exchanged yet.
    pub(crate) fn new(stream: Stream, worker: Rc<Worker>) -> Self {
        Self {
            stream,
            worker,
            input: Buffer::default(),
            output: Buffer::default(),
            decoder: BodyDecoder::new(Framing::None),
            framing: Framing::None,
            received_end: true,
            trailers: None,
            data: 0,
            read_closed: false,
            sending: Sending::Nothing,
            keep_alive: true,
            peer_version: Version::Http11,
            method: Method::Get,
            proxied: false,
            glitches: 0,
            output_limit: OutputLimit::default(),
            expect_continue: false,
            continue_sent: false,
            close_delimited: false,
            is_tunnel: false,
            half_close: false,
            head_sent: false,
            insecure_framing: false,
            adjust_case: false,
            accept_unsafe: false,
            pretend_keep_alive: false,
        }
    }

    /// Reads once into the input buffer; 0 is the peer's end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, EdgeError>> {
        if self.read_closed {
            return Poll::Ready(Ok(0));
        }
        let size = {
            let mut pool = self.worker.buffers.borrow_mut();
            self.input.claim(&mut pool);
            pool.size()
        };
        let Poll::Ready(read) = self.stream.poll_read(cx, self.input.tail(), size) else {
            // Waiting needs no memory: a thousand requests in progress hold none while their servers work.
            self.input.release(&mut self.worker.buffers.borrow_mut());
            return Poll::Pending;
        };
        let n = read?;
        self.read_closed = n == 0;
        Poll::Ready(Ok(n))
    }

    /// Waits without holding memory until something arrives.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        if !self.input.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.release();
        Ok(ready!(self.stream.poll_read_ready(cx))?).into()
    }

    /// Gives buffers back that hold nothing.
    pub(crate) fn release(&mut self) {
        let mut pool = self.worker.buffers.borrow_mut();
        self.input.release(&mut pool);
        self.output.release(&mut pool);
        self.stream.release_buffers();
    }

    /// The socket and what was received on it, for another protocol.
    pub(crate) fn into_parts(self) -> (Stream, Buffer) {
        (self.stream, self.input)
    }

    /// What was received before another layer takes the socket over.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        let bytes = self.input.unread().to_vec();
        self.input.consume(bytes.len());
        bytes
    }

    /// Parses a request's head from what was received; `None` asks for more.
    pub(crate) fn parse_request(
        &mut self,
        request: &mut Request,
        options: &ParseOptions,
    ) -> Result<Option<RequestHead>, h1::ParseError> {
        let Some(head) = h1::parse_request(self.input.unread(), request, options)? else { return Ok(None) };
        self.input.consume(head.len);
        self.input.release(&mut self.worker.buffers.borrow_mut());
        self.start_body(head.framing);
        self.insecure_framing = head.insecure_framing && !options.keep_insecure_transfer_encoding;
        self.keep_alive = head.keep_alive;
        self.expect_continue = head.expect_continue;
        self.peer_version = request.version;
        self.method = request.method;
        self.proxied = request.proxied;
        self.head_sent = false;
        self.sending = Sending::Nothing;
        Ok(Some(head))
    }

    /// Looks through what came of a chunked body with its head: what is wrong there is known before anybody is asked.
    pub(crate) fn check_first_chunks(&self) -> Result<(), h1::ParseError> {
        if self.framing != Framing::Chunked {
            return Ok(());
        }
        let (mut decoder, mut input) = (self.decoder.clone(), self.input.unread());
        loop {
            let decoded = decoder.decode(input)?;
            match decoded.event {
                BodyEvent::Data(_) => input = &input[decoded.consumed..],
                BodyEvent::NeedMore | BodyEvent::End(_) => return Ok(()),
            }
        }
    }

    fn start_body(&mut self, framing: Framing) {
        self.framing = framing;
        self.decoder = BodyDecoder::new(framing);
        self.received_end = framing == Framing::None || framing == Framing::Length(0);
        self.trailers = None;
        self.data = 0;
    }

    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Body, EdgeError>> {
        loop {
            if self.data > 0 {
                return Poll::Ready(Ok(Body::Data));
            }
            if self.received_end {
                return Poll::Ready(Ok(Body::End));
            }
            if self.decode()? {
                continue;
            }
            if self.read_closed {
                // RFC 9112 section 9.8: over TLS such a body is complete only if a closure alert says so.
                let whole = self.is_tunnel || self.stream.ended_cleanly();
                if self.framing == Framing::UntilClose && whole {
                    self.received_end = true;
                    continue;
                }
                return Poll::Ready(Err(EdgeError::Closed));
            }
            if self.continue_sent && !self.output.is_empty() {
                ready!(self.poll_flush(cx))?;
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    /// Reads body bytes to the end of `to` where more of them than a buffer holds follow without framing between them,
    /// and none wait in one: large bodies are read in large pieces and not copied. 0 where that is not so.
    pub(super) fn poll_read_past_input(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Vec<u8>,
        most: usize,
    ) -> Poll<Result<usize, EdgeError>> {
        let certain = usize::try_from(self.decoder.pass_through()).unwrap_or(usize::MAX);
        let buffer_size = self.worker.buffers.borrow().size();
        if certain <= buffer_size || !self.input.is_empty() || self.read_closed || self.continue_sent {
            return Poll::Ready(Ok(0));
        }
        let read = ready!(self.stream.poll_read(cx, to, most.min(certain)))?;
        self.read_closed = read == 0;
        self.decoder.passed(read as u64);
        self.received_end = self.decoder.is_done();
        Poll::Ready(Ok(read))
    }

    /// Decodes what was received; false when more is needed.
    fn decode(&mut self) -> Result<bool, EdgeError> {
        if self.input.is_empty() {
            return Ok(false);
        }
        let decoded = self.decoder.decode(self.input.unread()).map_err(EdgeError::Protocol)?;
        match decoded.event {
            BodyEvent::Data(range) => {
                self.input.consume(range.start);
                self.data = range.len();
                Ok(true)
            }
            BodyEvent::NeedMore => {
                self.input.consume(decoded.consumed);
                Ok(false)
            }
            BodyEvent::End(trailers) => {
                self.input.consume(decoded.consumed);
                self.trailers = trailers;
                self.received_end = true;
                Ok(true)
            }
        }
    }

    pub(super) fn with_data<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        let (taken, result) = take(&self.input.unread()[..self.data]);
        self.data -= taken;
        self.input.consume(taken);
        if self.data == 0 && taken > 0 {
            // An exact length ends with its last byte: no further read has to find that out.
            if let Framing::Length(_) = self.framing
                && self.decoder.is_done()
            {
                self.received_end = true;
            }
        }
        result
    }

    pub(super) fn take_trailers(&mut self) -> Option<Fields> {
        self.trailers.take().map(|trailers| *trailers)
    }

    pub(super) fn body_length(&self) -> BodyLength {
        match self.framing {
            Framing::None => BodyLength::None,
            Framing::Length(n) => BodyLength::Exact(n),
            Framing::Chunked => BodyLength::Unknown,
            Framing::UntilClose => BodyLength::Tunnel,
        }
    }

    /// The body being received ends with the connection.
    pub(crate) fn is_until_close(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// The body about to be sent ends with the connection.
    pub(crate) fn end_by_closing(&mut self) {
        self.keep_alive = false;
        self.close_delimited = true;
    }

    /// Tells a client that waits for it to send the body, because somebody here wants it before a server does.
    pub(crate) fn ask_for_body(&mut self) {
        if std::mem::take(&mut self.expect_continue) && !self.head_sent && self.input.is_empty() {
            self.output.claim(&mut self.worker.buffers.borrow_mut());
            self.output.tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.continue_sent = true;
        }
    }

    /// Drops what has come of a body that nobody reads; its bytes.
    pub(crate) fn discard_body(&mut self) -> u64 {
        let mut discarded = 0;
        // What is wrong with it does not matter any more: the connection ends then.
        while self.data > 0 || (!self.received_end && self.decode().unwrap_or(false)) {
            discarded += self.with_data(|data| (data.len(), data.len() as u64));
        }
        discarded
    }

    /// All of the received body was taken.
    pub(crate) fn is_body_received(&self) -> bool {
        self.received_end && self.data == 0
    }

    /// All of the message in progress was handed to the output.
    pub(crate) fn is_body_sent(&self) -> bool {
        self.sending == Sending::Nothing
    }

    pub(super) fn send_response(&mut self, response: &Response, body: BodyLength) -> Result<(), EdgeError> {
        let bodyless =
            self.method == Method::Head || matches!(response.status, 204 | 304) || response.status < 200;
        // Rules may answer with it too, without a tunnel behind it: it says to what it switches all the same.
        let switching = response.status == 101 && response.fields.has(FieldName::Upgrade);
        let framing = match body {
            BodyLength::Tunnel if response.status == 101 => Framing::None,
            // RFC 9110 section 9.3.6: the answer to CONNECT has no length; what follows is the tunnel's.
            BodyLength::Tunnel => Framing::UntilClose,
            BodyLength::None => Framing::Length(0),
            BodyLength::Exact(n) => Framing::Length(n),
            BodyLength::Unknown if self.peer_version >= Version::Http11 && !self.close_delimited => {
                Framing::Chunked
            }
            BodyLength::Unknown => Framing::UntilClose,
        };
        if framing == Framing::UntilClose && !bodyless && body != BodyLength::Tunnel {
            self.keep_alive = false;
        }
        self.sending = match (body, framing) {
            (BodyLength::Tunnel, _) => Sending::UntilClose,
            _ if bodyless => Sending::Nothing,
            (_, Framing::Length(0)) => Sending::Nothing,
            (_, Framing::Length(n)) => Sending::Exact(n),
            (_, Framing::Chunked) => Sending::Chunked,
            _ => Sending::UntilClose,
        };
        // RFC 9110 section 8.6: a head without its body keeps the length that GET would get.
        let framing = match framing {
            Framing::Length(_) | Framing::Chunked | Framing::UntilClose if bodyless => Framing::None,
            framing => framing,
        };
        let connection = match (self.keep_alive, self.peer_version >= Version::Http11) {
            _ if body == BodyLength::Tunnel => Connection::Implied,
            (true, true) => Connection::Implied,
            (true, false) => Connection::KeepAlive,
            (false, _) => Connection::Close,
        };
        self.write_response(response, framing, connection, switching);
        self.head_sent = true;
        Ok(())
    }

    pub(super) fn send_informational(&mut self, response: &Response) -> Result<(), EdgeError> {
        if self.peer_version < Version::Http11 {
            return Ok(());
        }
        if response.status == 100 {
            self.expect_continue = false;
        }
        self.write_response(response, Framing::None, Connection::Implied, false);
        Ok(())
    }

    fn write_response(
        &mut self,
        response: &Response,
        framing: Framing,
        connection: Connection,
        upgrade: bool,
    ) {
        let case = self.adjust_case.then_some(&self.worker.case_map);
        let options = WriteOptions { framing, connection, proxied: self.proxied, upgrade, case };
        self.output.claim(&mut self.worker.buffers.borrow_mut());
        h1::write_response(response, self.output.tail(), options);
    }

    pub(super) fn send_request(&mut self, request: &Request, body: BodyLength) -> Result<(), EdgeError> {
        let framing = match body {
            BodyLength::None | BodyLength::Tunnel => Framing::None,
            BodyLength::Exact(n) => Framing::Length(n),
            BodyLength::Unknown => Framing::Chunked,
        };
        self.sending = match framing {
            Framing::Length(0) | Framing::None | Framing::UntilClose => Sending::Nothing,
            Framing::Length(n) => Sending::Exact(n),
            Framing::Chunked => Sending::Chunked,
        };
        self.method = request.method;
        self.proxied = request.proxied;
        let keep_alive = self.keep_alive || self.pretend_keep_alive;
        let connection = match (keep_alive, request.version == Version::Http10) {
            (true, false) => Connection::Implied,
            (true, true) => Connection::KeepAlive,
            (false, _) => Connection::Close,
        };
        // Rules may have taken the field away since the request was read.
        let upgrade = !request.protocol.is_empty() && request.fields.has(FieldName::Upgrade);
        let case = self.adjust_case.then_some(&self.worker.case_map);
        let options = WriteOptions { framing, connection, proxied: self.proxied, upgrade, case };
        self.output.claim(&mut self.worker.buffers.borrow_mut());
        h1::write_request(request, self.output.tail(), options);
        self.head_sent = true;
        self.received_end = false;
        Ok(())
    }

    pub(super) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), EdgeError>> {
        loop {
            if !self.input.is_empty() {
                if response.fields.memory_bytes() == 0 {
                    response.fields = self.worker.fields.borrow_mut().take();
                }
                let options = ParseOptions {
                    accept_unsafe: self.accept_unsafe,
                    use_proxy_connection: self.proxied,
                    ..*self.worker.response_options()
                };
                let parsed = h1::parse_response(self.input.unread(), response, self.method, &options);
                if let Some(head) = parsed.map_err(EdgeError::Protocol)? {
                    self.input.consume(head.len);
                    self.start_body(head.framing);
                    self.peer_version = response.version;
                    self.insecure_framing = head.insecure_framing;
                    self.glitches = self.glitches.saturating_add(u16::from(head.tolerated.is_some()));
                    let threshold = self.worker.config().global.tune.h1_be_glitches_threshold;
                    // An idle connection has no room for a larger count, nor a server for so many.
                    let found =
                        Glitches { count: self.glitches.into(), threshold: threshold.min(u16::MAX.into()) };
                    self.keep_alive &= !found.are_many();
                    if response.status >= 200 || response.status == 101 {
                        self.keep_alive &= head.keep_alive;
                    } else {
                        self.received_end = false;
                    }
                    return Poll::Ready(Ok(()));
                }
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(EdgeError::Closed));
            }
        }
    }

    /// From here on both directions are plain bytes (101, CONNECT).
    pub(crate) fn start_tunnel(&mut self) {
        self.start_body(Framing::UntilClose);
        self.sending = Sending::UntilClose;
        self.keep_alive = false;
        self.is_tunnel = true;
    }

    /// What the client sends is HTTP after all.
    pub(crate) fn end_tunnel(&mut self) {
        self.start_body(Framing::None);
        self.sending = Sending::Nothing;
        self.keep_alive = true;
        self.is_tunnel = false;
    }

    pub(super) fn send_data(&mut self, data: &[u8]) -> Result<usize, EdgeError> {
        let take = data.len().min(self.room());
        if take == 0 {
            return Ok(0);
        }
        let data = &data[..take];
        self.output.claim(&mut self.worker.buffers.borrow_mut());
        match &mut self.sending {
            // The answer to HEAD, or more than was announced: swallowed.
            Sending::Nothing => {}
            Sending::Exact(left) => {
                let allowed = usize::try_from(*left).unwrap_or(usize::MAX).min(take);
                self.output.tail().extend_from_slice(&data[..allowed]);
                *left -= allowed as u64;
                if *left == 0 {
                    self.sending = Sending::Nothing;
                }
            }
            Sending::Chunked => h1::write_chunk(data, self.output.tail()),
            Sending::UntilClose => self.output.tail().extend_from_slice(data),
        }
        Ok(take)
    }

    pub(super) fn finish(&mut self, trailers: Option<&Fields>) -> Result<(), EdgeError> {
        match std::mem::replace(&mut self.sending, Sending::Nothing) {
            Sending::Nothing => {}
            Sending::Chunked => {
                self.output.claim(&mut self.worker.buffers.borrow_mut());
                h1::write_last_chunk(trailers, self.output.tail());
            }
            Sending::UntilClose => {
                self.keep_alive = false;
                self.half_close = true;
            }
            // Fewer bytes than announced: only closing tells the peer.
            Sending::Exact(_) => {
                self.keep_alive = false;
                return Err(EdgeError::Closed);
            }
        }
        Ok(())
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        while !self.output.is_empty() {
            ready!(self.poll_write(cx))?;
        }
        self.output.release(&mut self.worker.buffers.borrow_mut());
        ready!(self.stream.poll_flush(cx))?;
        if self.half_close {
            // A peer that is gone already needs not be told.
            let _told = ready!(self.stream.poll_shutdown_write(cx));
            self.half_close = false;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        while self.room() == 0 {
            ready!(self.poll_write(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Bytes of a body that are taken now.
    pub(super) fn room(&self) -> usize {
        self.output_limit.room(self.worker.buffers.borrow().size(), self.output.len())
    }

    /// Writes once.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        let length = self.output.len();
        let Poll::Ready(written) = self.stream.poll_write(cx, self.output.unread()) else {
            self.output_limit.blocked();
            return Poll::Pending;
        };
        self.output.consume(written?);
        if self.output.is_empty() {
            self.output_limit.all_taken(self.worker.buffers.borrow().size(), length);
        }
        Poll::Ready(Ok(()))
    }

    /// Bytes that arrive meanwhile (a pipelined request) are kept, up to a buffer.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.read_closed {
            if self.input.len() >= self.worker.buffers.borrow().size() {
                return Poll::Pending;
            }
            // Whoever waits for an answer looks here each time: a buffer is for what is there.
            let _failed_too = ready!(self.stream.poll_read_ready(cx));
            match ready!(self.poll_fill(cx)) {
                Ok(_) => {}
                Err(_) => self.read_closed = true,
            }
        }
        Poll::Ready(())
    }

    /// The same for a peer whose connection failed.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.read_closed && self.input.len() < self.worker.buffers.borrow().size() {
            if ready!(self.poll_fill(cx)).is_err() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_client_costs_a_quarter_of_a_kilobyte_here() {
        // The allocator's next size is larger by a quarter, for each idle client and each idle server connection.
        assert!(size_of::<H1Edge>() <= 256, "{}", size_of::<H1Edge>());
    }
}
