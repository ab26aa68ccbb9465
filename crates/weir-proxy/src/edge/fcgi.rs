//! A connection to a FastCGI application as an edge: one request at a time, its body and its answer in records.
//!
//! The socket and its buffers are those of [`H1Edge`], and so is what waits in the pool between two requests.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use weir_config::model::FcgiApp;
use weir_http::fcgi::{self, Event, MAX_CONTENT, Params, Receiver, Refusal};
use weir_http::h1::{Framing, parse_cgi_response};
use weir_http::{Method, Request, Response};
use weir_rules::reply::status;

use super::{Body, BodyLength, EdgeError, H1Edge};
use crate::log::level;
use crate::thread::worker::Worker;

/// Longest unfinished line of error messages whose end is waited for.
const LONGEST_MESSAGE_BYTES: usize = 8192;

/// A connection to an application.
pub(crate) struct FcgiEdge {
    /// The connection; nothing of HTTP is written or read on it.
    pub(crate) wire: Box<H1Edge>,
    worker: Rc<Worker>,
    /// Number of the backend, whose application it is.
    backend: usize,
    receiver: Receiver,
    /// What the request says beside its body.
    params: Params,
    method: Method,
    /// The end of the request's body was not sent yet.
    stdin_open: bool,
    /// The application was asked to leave the connection open.
    kept: bool,
    /// No request was sent on the connection before.
    fresh: bool,
    /// The response's head so far.
    head: Vec<u8>,
    /// Bytes of the answer at the front of the input.
    data: usize,
    framing: Framing,
    /// Bytes of the body still to come, where its length is known.
    left: u64,
    /// The unfinished line of the application's error messages.
    message: Vec<u8>,
}

impl FcgiEdge {
    /// A connection that carries no request.
    pub(crate) fn new(wire: Box<H1Edge>, worker: &Rc<Worker>, backend: usize, fresh: bool) -> Self {
        Self {
            wire,
            worker: Rc::clone(worker),
            backend,
            receiver: Receiver::default(),
            params: Params::default(),
            method: Method::Get,
            stdin_open: false,
            kept: false,
            fresh,
            head: Vec::new(),
            data: 0,
            framing: Framing::None,
            left: 0,
            message: Vec::new(),
        }
    }

    /// What [`Self::send_request`] tells of the next request.
    pub(crate) fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    fn app(&self) -> Option<&FcgiApp> {
        self.worker.config().fcgi_app(self.worker.proxy(self.backend))
    }

    /// The connection for another request, if it can carry one.
    pub(crate) fn into_idle(self) -> Option<Box<H1Edge>> {
        let wire = self.wire;
        let free = self.kept && self.receiver.is_done() && !self.stdin_open && !wire.read_closed;
        (free && wire.input.is_empty() && wire.output.is_empty()).then_some(wire)
    }

    pub(super) fn send_request(&mut self, request: &Request, body: BodyLength) {
        let (keep, ask) = self.app().map_or((false, false), |app| (app.keep_conn, app.get_values));
        self.kept = keep && self.wire.keep_alive;
        self.method = request.method;
        self.stdin_open = true;
        self.wire.output.claim(&mut self.worker.buffers.borrow_mut());
        let out = self.wire.output.tail();
        if ask && self.fresh {
            fcgi::write_get_values(out);
        }
        fcgi::write_begin(self.kept, out);
        fcgi::write_params(&self.params, out);
        if body == BodyLength::None {
            self.finish();
        }
    }

    pub(super) fn send_data(&mut self, data: &[u8]) -> usize {
        if !self.stdin_open {
            // A request that wanted to change the protocol: what follows its head is for nobody.
            return data.len();
        }
        let taken = data.len().min(self.wire.room()).min(MAX_CONTENT);
        if taken > 0 {
            self.wire.output.claim(&mut self.worker.buffers.borrow_mut());
            fcgi::write_stdin(&data[..taken], self.wire.output.tail());
        }
        taken
    }

    /// Ends the request's body; CGI has no place for trailers.
    pub(super) fn finish(&mut self) {
        if std::mem::take(&mut self.stdin_open) {
            self.wire.output.claim(&mut self.worker.buffers.borrow_mut());
            fcgi::write_end_of_stdin(self.wire.output.tail());
        }
    }

    pub(super) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), EdgeError>> {
        while ready!(self.poll_answer(cx))? {
            let known = self.head.len();
            self.head.extend_from_slice(&self.wire.input.unread()[..self.data]);
            let options = self.worker.response_options();
            let parsed = parse_cgi_response(&self.head, response, self.method, options);
            let Some(head) = parsed.map_err(EdgeError::Protocol)? else {
                self.take(self.data);
                continue;
            };
            self.take(head.len.saturating_sub(known));
            self.head = Vec::new();
            self.framing = head.framing;
            self.left = if let Framing::Length(length) = head.framing { length } else { 0 };
            if response.reason.is_empty() {
                response.set_status(response.status, status::reason(response.status).as_bytes());
            }
            return Poll::Ready(Ok(()));
        }
        // It ended the request, and there was no head.
        Poll::Ready(Err(EdgeError::Closed))
    }

    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Body, EdgeError>> {
        while ready!(self.poll_answer(cx))? {
            if self.visible() > 0 {
                return Poll::Ready(Ok(Body::Data));
            }
            // A body that the response cannot have, or more than its head said.
            self.take(self.data);
        }
        match self.left {
            0 => Poll::Ready(Ok(Body::End)),
            _ => Poll::Ready(Err(EdgeError::Closed)),
        }
    }

    /// Bytes at the front of the input that are the body's.
    fn visible(&self) -> usize {
        match self.framing {
            Framing::None => 0,
            Framing::Length(_) => self.data.min(usize::try_from(self.left).unwrap_or(usize::MAX)),
            Framing::Chunked | Framing::UntilClose => self.data,
        }
    }

    pub(super) fn with_data<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        let (taken, result) = take(&self.wire.input.unread()[..self.visible()]);
        self.take(taken);
        self.left = self.left.saturating_sub(taken as u64);
        result
    }

    pub(super) fn body_length(&self) -> BodyLength {
        match self.framing {
            Framing::None => BodyLength::None,
            Framing::Length(length) => BodyLength::Exact(length),
            Framing::Chunked | Framing::UntilClose => BodyLength::Unknown,
        }
    }

    fn take(&mut self, bytes: usize) {
        self.data -= bytes;
        self.wire.input.consume(bytes);
    }

    /// Waits for bytes of the answer; false when the application has ended the request.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, EdgeError>> {
        while self.data == 0 {
            let decoded = self.receiver.decode(self.wire.input.unread()).map_err(EdgeError::Protocol)?;
            match decoded.event {
                Event::Stdout(range) => {
                    self.wire.input.consume(range.start);
                    self.data = range.len();
                }
                Event::Stderr(range) => {
                    self.message.extend_from_slice(&self.wire.input.unread()[range]);
                    self.wire.input.consume(decoded.consumed);
                    self.log_messages(false);
                }
                Event::End(outcome) => {
                    self.wire.input.consume(decoded.consumed);
                    self.log_messages(true);
                    return Poll::Ready(match outcome {
                        Ok(()) => Ok(false),
                        Err(Refusal::Busy) => Err(EdgeError::Reset { unprocessed: true }),
                        Err(Refusal::Unfit) => Err(EdgeError::Reset { unprocessed: false }),
                    });
                }
                Event::NeedMore => {
                    self.wire.input.consume(decoded.consumed);
                    if ready!(self.wire.poll_fill(cx))? == 0 {
                        self.log_messages(true);
                        return Poll::Ready(Err(EdgeError::Closed));
                    }
                }
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Logs the application's error messages line by line; the last one when it is complete or nothing follows.
    fn log_messages(&mut self, ended: bool) {
        let message = std::mem::take(&mut self.message);
        let Some(app) = self.app().filter(|app| !app.logs.is_empty()) else { return };
        let mut rest = &message[..];
        while let Some(end) = memchr::memchr(b'\n', rest).or_else(|| last(rest, ended)) {
            let line = rest[..end].trim_ascii_end();
            if !line.is_empty() {
                self.worker.logger.send(&app.logs, level::ERR, None, line);
            }
            rest = &rest[rest.len().min(end + 1)..];
        }
        self.message = rest.to_vec();
    }
}

/// Where a line ends that has no line feed.
fn last(line: &[u8], ended: bool) -> Option<usize> {
    let over = line.len() > LONGEST_MESSAGE_BYTES || (ended && !line.is_empty());
    over.then_some(line.len())
}
