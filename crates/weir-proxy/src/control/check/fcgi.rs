//! The FastCGI of a check: its request in records, and the response out of them; pure.

use weir_config::model::FcgiApp;
use weir_http::fcgi::{Event, Receiver, write_begin, write_end_of_stdin, write_params, write_stdin};
use weir_http::h1::{Framing, ParseOptions, parse_cgi_response};
use weir_http::{Request, Response};
use weir_rules::Txn;

use super::http::Reply;
use crate::request::fastcgi;

/// One request on a connection, which the application closes behind it.
pub(crate) struct Fcgi<'a> {
    app: &'a FcgiApp,
    request: Request,
    receiver: Receiver,
    /// Bytes received that are no whole record.
    pending: Vec<u8>,
    /// The answer's head as far as it is there.
    head: Vec<u8>,
    framing: Option<Framing>,
}

impl<'a> Fcgi<'a> {
    pub(crate) fn new(app: &'a FcgiApp) -> Self {
        Self {
            app,
            request: Request::default(),
            receiver: Receiver::default(),
            pending: Vec::new(),
            head: Vec::new(),
            framing: None,
        }
    }

    /// The bytes of a request; nothing when it cannot be put into parameters.
    pub(crate) fn send(&mut self, request: Request, body: &[u8], txn: &Txn) -> Option<Vec<u8>> {
        let params = fastcgi::describe(self.app, &request, txn, body.len() as u64).ok()?;
        *self = Self { request, ..Self::new(self.app) };
        let mut out = Vec::new();
        write_begin(false, &mut out);
        write_params(&params, &mut out);
        write_stdin(body, &mut out);
        write_end_of_stdin(&mut out);
        Some(out)
    }

    pub(crate) fn receive(&mut self, bytes: &[u8], reply: &mut Reply, txn: &mut Txn) {
        self.pending.extend_from_slice(bytes);
        while !reply.complete && !reply.broken {
            let Ok(decoded) = self.receiver.decode(&self.pending) else {
                reply.broken = true;
                return;
            };
            let answer = match &decoded.event {
                Event::Stdout(range) => self.pending[range.clone()].to_vec(),
                _ => Vec::new(),
            };
            self.pending.drain(..decoded.consumed);
            match decoded.event {
                Event::Stdout(_) => self.receive_answer(&answer, reply, txn),
                Event::Stderr(_) => {}
                Event::End(outcome) => {
                    reply.complete = true;
                    reply.broken = outcome.is_err() || !reply.head;
                }
                Event::NeedMore => break,
            }
        }
        txn.response_body_complete = reply.complete;
    }

    /// Bytes of the answer: of its head, then of its body.
    fn receive_answer(&mut self, answer: &[u8], reply: &mut Reply, txn: &mut Txn) {
        if let Some(framing) = self.framing {
            if framing != Framing::None {
                txn.response_body.extend_from_slice(answer);
            }
            return;
        }
        self.head.extend_from_slice(answer);
        let mut response = Response::default();
        let options = ParseOptions::default();
        match parse_cgi_response(&self.head, &mut response, self.request.method, &options) {
            Ok(None) => {}
            Err(_) => reply.broken = true,
            Ok(Some(head)) => {
                reply.head = true;
                txn.server_status = response.status;
                txn.status = response.status;
                txn.response = Some(response);
                self.framing = Some(head.framing);
                let rest = self.head.split_off(head.len);
                self.receive_answer(&rest, reply, txn);
            }
        }
    }
}
