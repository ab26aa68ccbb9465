//! HTTP/2 on one connection: requests side by side.

use std::sync::Arc;

use weir_http::h2::{Connection, ErrorCode, Event, Settings, StreamId};
use weir_http::{FieldName, Response};

use crate::client::{Answer, Ticket, Told};
use crate::request::Prepared;

/// Octets of body that a server may send ahead: bodies are dropped at once, so this costs no memory.
const CONNECTION_WINDOW: u32 = 1 << 24;

/// The same on one stream.
const STREAM_WINDOW: u32 = 1 << 20;

/// The largest stream numbers are left alone: a connection near them is replaced.
const MAX_REQUESTS: u32 = 1 << 29;

/// A request without a complete answer.
struct Exchange {
    stream: StreamId,
    ticket: Ticket,
    status: u16,
    head_bytes: u32,
    body_bytes: u64,
    /// What is left of the request's body.
    upload: Option<Upload>,
}

/// A body that is being sent.
struct Upload {
    body: Arc<[u8]>,
    sent: usize,
}

/// One connection.
pub(crate) struct Http2 {
    connection: Connection,
    /// Requests at once.
    streams: usize,
    /// By the place of their stream.
    exchanges: Vec<Option<Exchange>>,
    software: String,
}

impl Http2 {
    pub(crate) fn new(streams: usize) -> Self {
        let settings = Settings {
            max_concurrent_streams: u32::try_from(streams).unwrap_or(u32::MAX),
            initial_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            ..Settings::default()
        };
        Self {
            connection: Connection::client(settings),
            streams,
            exchanges: Vec::new(),
            software: String::new(),
        }
    }

    pub(crate) fn room(&self) -> usize {
        let used = self.connection.active_streams();
        let left = self.streams.saturating_sub(used).min(self.connection.can_open());
        if self.connection.total_streams() >= MAX_REQUESTS { 0 } else { left }
    }

    pub(crate) fn send(&mut self, ticket: Ticket, request: &Prepared) -> bool {
        let end = request.body.is_empty();
        let Ok(stream) = self.connection.send_request(&request.h2, end) else { return false };
        let upload = (!end).then(|| Upload { body: Arc::clone(&request.body), sent: 0 });
        let exchange = Exchange { stream, ticket, status: 0, head_bytes: 0, body_bytes: 0, upload };
        let place = stream.place();
        if self.exchanges.len() <= place {
            self.exchanges.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.exchanges.get_mut(place) {
            *slot = Some(exchange);
        }
        self.upload(stream);
        true
    }

    fn upload(&mut self, stream: StreamId) {
        let Some(exchange) = find(&mut self.exchanges, stream) else { return };
        let Some(upload) = &mut exchange.upload else { return };
        let rest = upload.body.get(upload.sent..).unwrap_or_default();
        match self.connection.send_data(stream, rest, true) {
            Ok(taken) if taken < rest.len() => upload.sent += taken,
            Ok(_) | Err(_) => exchange.upload = None,
        }
    }

    pub(crate) fn output(&self) -> &[u8] {
        self.connection.output()
    }

    pub(crate) fn advance_output(&mut self, bytes: usize) {
        self.connection.advance_output(bytes);
    }

    pub(crate) fn is_over(&self) -> bool {
        let spent = self.connection.is_closing() || self.connection.total_streams() >= MAX_REQUESTS;
        self.connection.is_finished() || spent && self.connection.active_streams() == 0
    }

    pub(crate) fn open(&self) -> Vec<Ticket> {
        self.exchanges.iter().flatten().map(|exchange| exchange.ticket).collect()
    }

    pub(crate) fn software(&self) -> String {
        self.software.clone()
    }

    pub(crate) fn give_up(&mut self, ticket: Ticket) -> bool {
        let mut slots = self.exchanges.iter_mut();
        let slot = slots.find(|slot| slot.as_ref().is_some_and(|exchange| exchange.ticket == ticket));
        if let Some(exchange) = slot.and_then(Option::take) {
            self.connection.reset(exchange.stream, ErrorCode::CANCEL);
        }
        true
    }

    pub(crate) fn receive(&mut self, input: &[u8], told: &mut Vec<Told>) -> Result<usize, String> {
        let taken = self.connection.receive(input);
        while let Some(event) = self.connection.poll_event() {
            self.handle(event, told);
        }
        taken.map_err(|error| error.reason.to_owned())
    }

    fn handle(&mut self, event: Event, told: &mut Vec<Told>) {
        match event {
            Event::Response { stream, response, end } => {
                self.head(stream, &response, told);
                self.connection.recycle_response(response);
                if end {
                    self.answered(stream, told);
                }
            }
            Event::Informational { response, .. } => self.connection.recycle_response(response),
            Event::Data { stream } => {
                let octets = self.connection.received(stream).len();
                self.connection.consume(stream, octets);
                if let Some(exchange) = find(&mut self.exchanges, stream) {
                    exchange.body_bytes += octets as u64;
                }
            }
            Event::Trailers { fields, .. } => self.connection.recycle_fields(fields),
            Event::End { stream } => self.answered(stream, told),
            Event::Reset { stream, .. } => {
                if let Some(exchange) = take(&mut self.exchanges, stream) {
                    told.push(Told::Reset(exchange.ticket));
                }
            }
            Event::Writable { stream } => self.upload(stream),
            // Streams that the server will not serve were reset before this.
            Event::GoAway { .. } => {}
            Event::Request { stream, .. } | Event::Invalid { stream, .. } => self.connection.release(stream),
        }
    }

    fn head(&mut self, stream: StreamId, response: &Response, told: &mut Vec<Told>) {
        let Some(exchange) = find(&mut self.exchanges, stream) else { return };
        exchange.status = response.status;
        exchange.head_bytes = u32::try_from(response.fields.arena().len()).unwrap_or(u32::MAX);
        told.push(Told::Begun(exchange.ticket));
        if self.software.is_empty()
            && let Some(server) = response.fields.first(FieldName::Server)
        {
            self.software = String::from_utf8_lossy(server).into_owned();
        }
    }

    fn answered(&mut self, stream: StreamId, told: &mut Vec<Told>) {
        let Some(exchange) = take(&mut self.exchanges, stream) else { return };
        let Exchange { ticket, status, head_bytes, body_bytes, upload, .. } = exchange;
        if upload.is_some() {
            self.connection.release(stream);
        }
        told.push(Told::Answered(Answer { ticket, status, head_bytes, body_bytes, keep_alive: true }));
    }
}

fn find(exchanges: &mut [Option<Exchange>], stream: StreamId) -> Option<&mut Exchange> {
    exchanges.get_mut(stream.place())?.as_mut().filter(|exchange| exchange.stream == stream)
}

fn take(exchanges: &mut [Option<Exchange>], stream: StreamId) -> Option<Exchange> {
    exchanges.get_mut(stream.place())?.take_if(|exchange| exchange.stream == stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestText;
    use crate::url::Url;

    fn prepared(body: &[u8]) -> Prepared {
        let url = Url::parse("http://h/x").unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" }.into();
        Prepared::new(&RequestText { method, url, headers: Vec::new(), body: body.into() }, false, false)
    }

    /// Moves bytes both ways until nothing moves any more; the server answers what is complete.
    fn settle(client: &mut Http2, server: &mut Connection, told: &mut Vec<Told>, status: u16) -> usize {
        let mut uploaded = 0;
        loop {
            let (mut moved, input) = (0, client.output().to_vec());
            let taken = server.receive(&input).unwrap();
            client.advance_output(taken);
            moved += taken;
            while let Some(event) = server.poll_event() {
                match event {
                    Event::Request { stream, end: true, .. } | Event::End { stream } => {
                        answer(server, stream, status);
                    }
                    Event::Data { stream } => {
                        let octets = server.received(stream).len();
                        uploaded += octets;
                        server.consume(stream, octets);
                    }
                    _ => {}
                }
            }
            let output = server.output().to_vec();
            let taken = client.receive(&output, told).unwrap();
            server.advance_output(taken);
            moved += taken;
            if moved == 0 {
                return uploaded;
            }
        }
    }

    fn answer(server: &mut Connection, stream: StreamId, status: u16) {
        if status == 0 {
            return server.reset(stream, ErrorCode::REFUSED_STREAM);
        }
        server.send_response(stream, &Response::new(status, ""), false).unwrap();
        server.send_data(stream, b"hello", true).unwrap();
    }

    fn statuses(told: &[Told]) -> Vec<(Ticket, u16, u64)> {
        let found = told.iter().filter_map(|told| match told {
            Told::Begun(_) => None,
            Told::Answered(answer) => Some((answer.ticket, answer.status, answer.body_bytes)),
            Told::Reset(ticket) => Some((*ticket, 0, 0)),
        });
        found.collect()
    }

    #[test]
    fn requests_side_by_side() {
        let mut client = Http2::new(2);
        let mut server = Connection::server(Settings::default());
        for round in 0..3 {
            let mut told = Vec::new();
            assert_eq!(client.room(), 2);
            assert!(client.send(round, &prepared(b"")) && client.send(10 + round, &prepared(b"")));
            assert!(client.room() == 0 && !client.send(99, &prepared(b"")));
            settle(&mut client, &mut server, &mut told, 200 + round as u16);
            let status = 200 + round as u16;
            assert_eq!(statuses(&told), [(round, status, 5), (10 + round, status, 5)]);
            assert!(client.open().is_empty() && !client.is_over());
        }
    }

    #[test]
    fn resets_and_timeouts() {
        let mut client = Http2::new(3);
        let mut server = Connection::server(Settings::default());
        let mut told = Vec::new();
        assert!(client.send(1, &prepared(b"")) && client.send(2, &prepared(b"")));
        assert!(client.give_up(1));
        assert_eq!(client.open(), [2]);
        settle(&mut client, &mut server, &mut told, 0);
        assert_eq!(statuses(&told), [(2, 0, 0)]);
        server.go_away(false);
        settle(&mut client, &mut server, &mut told, 0);
        assert!(client.is_over());
        assert!(client.receive(b"nonsense that is no frame at all", &mut told).is_ok() || client.is_over());
    }

    #[test]
    fn bodies_go_on_when_the_window_opens() {
        let mut client = Http2::new(1);
        let mut server = Connection::server(Settings { initial_window: 1000, ..Settings::default() });
        let mut told = Vec::new();
        settle(&mut client, &mut server, &mut told, 200);
        assert!(client.send(1, &prepared(&[7; 100_000])));
        assert_eq!(settle(&mut client, &mut server, &mut told, 200), 100_000);
        assert_eq!(statuses(&told), [(1, 200, 5)]);
    }
}
