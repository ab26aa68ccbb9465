//! The HTTP of a check: its request's bytes, and the response out of the bytes received; pure.

use weir_config::model::{CheckPayload, Config, FcgiApp, TcpCheckStep};
use weir_http::h1::{BodyDecoder, BodyEvent, ParseOptions, parse_response};
use weir_http::h2::{Connection, Event, StreamId};
use weir_http::{Method, Request, Response};
use weir_rules::{LogFormat, Txn};

use super::expect::{rendered, text};
use super::fcgi::Fcgi;
use crate::edge::h2_settings;

/// Most interim responses before the one that is judged: real servers send one or two.
const MAX_INTERIM: u8 = 16;

/// A `http-check send` line, completed.
#[derive(Clone, Copy)]
pub(crate) struct HttpSend<'a> {
    method: &'a [u8],
    uri: &'a CheckPayload,
    version: &'a [u8],
    headers: &'a [(Vec<u8>, LogFormat)],
    body: Option<&'a CheckPayload>,
}

/// A request with everything rendered.
struct Rendered {
    uri: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl<'a> HttpSend<'a> {
    /// The request of a step that is one.
    pub(crate) fn of(step: &'a TcpCheckStep) -> Option<Self> {
        let TcpCheckStep::HttpSend { method, uri, version, headers, body, .. } = step else { return None };
        Some(Self { method, uri, version, headers, body: body.as_ref() })
    }

    /// The value of its Host field, without a port.
    pub(crate) fn host(&self, txn: &Txn) -> Option<Vec<u8>> {
        let (_, format) = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"host"))?;
        let mut host = rendered(format, txn);
        if let Some(colon) = host.iter().rposition(|b| *b == b':').filter(|_| !host.ends_with(b"]")) {
            host.truncate(colon);
        }
        (!host.is_empty()).then_some(host)
    }

    fn render(&self, txn: &Txn, state: Option<&str>) -> Rendered {
        let mut uri = text(self.uri, txn);
        // What would end the request line early is left out.
        uri.retain(|byte| *byte > b' ' && *byte != 0x7f);
        if uri.is_empty() {
            uri.push(b'/');
        }
        let body = self.body.map(|body| text(body, txn)).unwrap_or_default();
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = self
            .headers
            .iter()
            .map(|(name, format)| (name.to_ascii_lowercase(), field_value(rendered(format, txn))))
            .collect();
        fields.retain(|(name, _)| name != b"content-length" && name != b"transfer-encoding");
        if let Some(state) = state {
            fields.push((b"x-haproxy-server-state".to_vec(), state.as_bytes().to_vec()));
        }
        if self.body.is_some() {
            fields.push((b"content-length".to_vec(), body.len().to_string().into_bytes()));
        }
        Rendered { uri, fields, body }
    }
}

/// A field value cannot hold line ends (RFC 9110 section 5.5).
fn field_value(mut value: Vec<u8>) -> Vec<u8> {
    value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    value
}

/// The protocol of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Wire<'a> {
    H1,
    H2,
    Fcgi(&'a FcgiApp),
}

/// How requests and responses of a connection stand on the wire.
pub(crate) enum Codec<'a> {
    H1(H1),
    H2(Box<H2>),
    Fcgi(Box<Fcgi<'a>>),
}

/// HTTP/1: one request, one response.
#[derive(Default)]
pub(crate) struct H1 {
    pending: Vec<u8>,
    method: Method,
    interim: u8,
    body: Option<BodyDecoder>,
}

/// HTTP/2.
pub(crate) struct H2 {
    core: Connection,
    /// Bytes received that the core has not taken.
    pending: Vec<u8>,
    stream: Option<StreamId>,
    /// Body of the request that the windows have not let out.
    upload: Vec<u8>,
    interim: u8,
}

/// A response as far as it is there.
#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) head: bool,
    pub(crate) complete: bool,
    /// What was received is no HTTP.
    pub(crate) broken: bool,
}

impl<'a> Codec<'a> {
    pub(crate) fn new(wire: Wire<'a>, config: &Config) -> Self {
        match wire {
            Wire::H1 => Self::H1(H1::default()),
            Wire::Fcgi(app) => Self::Fcgi(Box::new(Fcgi::new(app))),
            Wire::H2 => Self::H2(Box::new(H2 {
                core: h2_settings::client(config),
                pending: Vec::new(),
                stream: None,
                upload: Vec::new(),
                interim: 0,
            })),
        }
    }

    /// The bytes of a request; nothing when it has no form on this connection.
    pub(crate) fn send(&mut self, send: &HttpSend<'_>, txn: &Txn, state: Option<&str>) -> Option<Vec<u8>> {
        let request = send.render(txn, state);
        match self {
            Self::H1(h1) => {
                *h1 = H1 { method: Method::from_bytes(send.method), ..H1::default() };
                Some(write_h1(send, &request))
            }
            Self::H2(h2) => h2.send(&message(send, &request), request.body),
            Self::Fcgi(fcgi) => fcgi.send(message(send, &request), &request.body, txn),
        }
    }

    /// Takes received bytes in; the response and its body grow in `txn`.
    pub(crate) fn receive(&mut self, bytes: &[u8], reply: &mut Reply, txn: &mut Txn) {
        match self {
            Self::H1(h1) => h1.receive(bytes, reply, txn),
            Self::H2(h2) => h2.receive(bytes, reply, txn),
            Self::Fcgi(fcgi) => fcgi.receive(bytes, reply, txn),
        }
    }

    /// The peer sends no more.
    pub(crate) fn end(&mut self, reply: &mut Reply) {
        if let Self::H1(H1 { body: Some(body), .. }) = self {
            // A body that was cut short is judged as far as it came.
            let _whole = body.end_of_input();
        }
        reply.complete |= reply.head;
    }

    /// What has to be written before anything more can be received.
    pub(crate) fn output(&mut self) -> Option<Vec<u8>> {
        let Self::H2(h2) = self else { return None };
        h2.take_output()
    }
}

fn write_h1(send: &HttpSend<'_>, request: &Rendered) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    for part in [send.method, b" ", &request.uri, b" ", send.version, b"\r\n"] {
        out.extend_from_slice(part);
    }
    let named = |name: &[u8]| request.fields.iter().any(|(field, _)| field == name);
    if send.version != b"HTTP/1.0" && !named(b"connection") {
        out.extend_from_slice(b"connection: close\r\n");
    }
    for (name, value) in &request.fields {
        for part in [&name[..], b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&request.body);
    out
}

impl H1 {
    fn receive(&mut self, bytes: &[u8], reply: &mut Reply, txn: &mut Txn) {
        self.pending.extend_from_slice(bytes);
        while self.body.is_none() && !reply.broken {
            if !self.receive_head(reply, txn) {
                return;
            }
        }
        self.receive_body(reply, txn);
    }

    /// The head of a response; false when it is not there yet.  Interim ones are passed over.
    fn receive_head(&mut self, reply: &mut Reply, txn: &mut Txn) -> bool {
        let mut response = Response::default();
        let options = ParseOptions::default();
        let head = match parse_response(&self.pending, &mut response, self.method, &options) {
            Ok(Some(head)) => head,
            Ok(None) => return false,
            Err(_) => {
                reply.broken = true;
                return false;
            }
        };
        self.pending.drain(..head.len);
        if (100..200).contains(&response.status) && !head.upgrade && response.status != 101 {
            self.interim += 1;
            reply.broken = self.interim > MAX_INTERIM;
            return !reply.broken;
        }
        let body = BodyDecoder::with_options(head.framing, weir_http::h1::Fault::Server, &options);
        reply.head = true;
        // After an upgrade the bytes are another protocol's: the response ends with its head.
        reply.complete = head.upgrade || body.is_done();
        self.body = Some(body);
        txn.server_status = response.status;
        txn.status = response.status;
        txn.response = Some(response);
        true
    }

    fn receive_body(&mut self, reply: &mut Reply, txn: &mut Txn) {
        let Some(body) = &mut self.body else { return };
        let mut at = 0;
        while !reply.complete {
            let Ok(decoded) = body.decode(&self.pending[at..]) else {
                reply.broken = true;
                break;
            };
            match decoded.event {
                BodyEvent::Data(range) => {
                    txn.response_body.extend_from_slice(&self.pending[at + range.start..at + range.end]);
                    at += decoded.consumed;
                }
                BodyEvent::NeedMore => {
                    at += decoded.consumed;
                    break;
                }
                BodyEvent::End(_) => reply.complete = true,
            }
        }
        self.pending.drain(..at);
        txn.response_body_complete = reply.complete;
    }
}

/// The request's head as a message.
fn message(send: &HttpSend<'_>, rendered: &Rendered) -> Request {
    let mut request = Request::default();
    request.set_method(send.method);
    request.set_uri(&rendered.uri);
    for (name, value) in &rendered.fields {
        request.fields.push(name, value);
    }
    request
}

impl H2 {
    fn send(&mut self, request: &Request, body: Vec<u8>) -> Option<Vec<u8>> {
        let stream = self.core.send_request(request, body.is_empty()).ok()?;
        self.stream = Some(stream);
        self.upload = body;
        self.push_upload();
        Some(self.take_output().unwrap_or_default())
    }

    fn push_upload(&mut self) {
        if let (Some(stream), false) = (self.stream, self.upload.is_empty()) {
            // A stream that is gone shows in its events.
            let sent = self.core.send_data(stream, &self.upload, true).unwrap_or(0);
            self.upload.drain(..sent);
        }
    }

    fn take_output(&mut self) -> Option<Vec<u8>> {
        let output = self.core.output().to_vec();
        self.core.advance_output(output.len());
        (!output.is_empty()).then_some(output)
    }

    fn receive(&mut self, bytes: &[u8], reply: &mut Reply, txn: &mut Txn) {
        self.pending.extend_from_slice(bytes);
        match self.core.receive(&self.pending) {
            Ok(taken) => {
                self.pending.drain(..taken);
            }
            Err(_) => reply.broken |= !reply.complete,
        }
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Response { response, end, .. } => {
                    reply.head = true;
                    reply.complete |= end;
                    txn.server_status = response.status;
                    txn.status = response.status;
                    txn.response = Some(response);
                }
                Event::Data { stream } => {
                    let received = self.core.received(stream);
                    txn.response_body.extend_from_slice(received);
                    let taken = received.len();
                    self.core.consume(stream, taken);
                }
                Event::End { .. } => reply.complete = true,
                Event::Reset { .. } | Event::GoAway { .. } => reply.broken |= !reply.complete,
                Event::Writable { .. } => self.push_upload(),
                Event::Informational { .. } => {
                    self.interim = self.interim.saturating_add(1);
                    reply.broken |= self.interim > MAX_INTERIM;
                }
                Event::Trailers { .. } => {}
                // A server does not ask.
                Event::Request { .. } | Event::Invalid { .. } => reply.broken = true,
            }
        }
        txn.response_body_complete = reply.complete;
    }
}
