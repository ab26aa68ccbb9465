//! HTTP/2: both ends take any octets, and a server of ours understands every request that a client of ours
//! agrees to send.

use weir_http::h1::{Framing, ParseOptions, parse_request};
use weir_http::h2::{Connection, ErrorCode, Event, Settings, StreamId};
use weir_http::{Method, Request, Response};

/// What a client may make a server queue before it has to read.
const OUTPUT_BOUND: usize = 1 << 20;

/// A client's octets; the first says how they are cut, the second how the server answers.
pub fn h2_server(data: &[u8]) {
    let &[cut, policy, ref input @ ..] = data else { return };
    let mut server = Connection::server(settings());
    let mut wire = Wire::new(input, cut);
    while wire.feed(&mut server) {
        let mut response = Response { status: 200, ..Response::default() };
        response.fields.push(b"server", b"weir");
        while let Some(event) = server.poll_event() {
            match event {
                Event::Request { stream, request, .. } => {
                    server.recycle_request(request);
                    // What fails here fails because the stream is gone.
                    let _sent = server.send_response(stream, &response, policy & 1 == 0);
                    let _sent = server.send_data(stream, b"some data", policy & 2 == 0);
                }
                Event::Invalid { stream, status, .. } => {
                    assert!(matches!(status, 400 | 431));
                    response.status = status;
                    let _sent = server.send_response(stream, &response, true);
                }
                Event::Response { .. } | Event::Informational { .. } => panic!("a server got an answer"),
                other => handle(&mut server, other, policy),
            }
        }
        assert!(server.active_streams() <= settings().max_concurrent_streams as usize * 2);
        drain(&mut server, policy);
    }
}

/// A server's octets, with some requests under way.
pub fn h2_client(data: &[u8]) {
    let &[cut, policy, ref input @ ..] = data else { return };
    let mut client = Connection::client(settings());
    let mut wire = Wire::new(input, cut);
    let mut request = Request::default();
    for method in ["GET", "HEAD", "POST", "CONNECT"] {
        request.clear();
        request.set_method(method.as_bytes());
        request.set_uri(if method == "CONNECT" { b"a.test:443" } else { b"/a?b" });
        request.fields.push(b"host", b"a.test:443");
        let _sent = client.send_request(&request, method != "POST");
    }
    while wire.feed(&mut client) {
        while let Some(event) = client.poll_event() {
            match event {
                Event::Request { .. } | Event::Invalid { .. } => panic!("a client got a request"),
                Event::Response { response, .. } | Event::Informational { response, .. } => {
                    assert!((100..=999).contains(&response.status));
                    client.recycle_response(response);
                }
                other => handle(&mut client, other, policy),
            }
        }
        let _sent = client.send_request(&request, true);
        drain(&mut client, policy);
    }
}

/// A request that came over HTTP/1, sent on over HTTP/2: it is taken as it was meant or
/// not at all.
pub fn h2_pair(data: &[u8]) {
    let mut request = Request::default();
    let Ok(Some(head)) = parse_request(data, &mut request, &ParseOptions::default()) else { return };
    let roomy = Settings { max_fields: 1000, max_header_list: 1 << 20, ..settings() };
    let (mut client, mut server) = (Connection::client(roomy), Connection::server(roomy));
    exchange(&mut client, &mut server);
    let end = matches!(head.framing, Framing::None | Framing::Length(0));
    let Ok(stream) = client.send_request(&request, end) else { return };
    exchange(&mut client, &mut server);
    assert!(server.error().is_none(), "{:?} for {request:?}", server.error());
    let mut seen = 0;
    while let Some(event) = server.poll_event() {
        match event {
            Event::Request { stream: at, request: read, end: read_end } => {
                assert_eq!((at.number(), read_end), (stream.number(), end));
                let tunnel = head.upgrade;
                assert!(tunnel || read.method_bytes() == request.method_bytes());
                if request.method != Method::Connect && request.uri_bytes().starts_with(b"/") {
                    assert_eq!(read.path_and_query(), request.path_and_query());
                }
                seen += 1;
            }
            Event::Invalid { request: read, .. } => panic!("sent {request:?}\nread {read:?}"),
            _ => {}
        }
    }
    // None when the server reset the stream: HTTP/1 takes a Host that is no authority.
    assert!(seen <= 1, "{request:?}");
}

fn settings() -> Settings {
    Settings {
        max_concurrent_streams: 20,
        initial_window: 1000,
        output_high_water: 64 * 1024,
        ..Settings::default()
    }
}

/// Input that arrives in pieces.
struct Wire<'a> {
    input: &'a [u8],
    piece: usize,
    start: usize,
    end: usize,
}

impl<'a> Wire<'a> {
    fn new(input: &'a [u8], cut: u8) -> Self {
        let piece = if cut == 0 { usize::MAX } else { usize::from(cut) };
        Self { input, piece, start: 0, end: 0 }
    }

    /// Gives the connection one piece more; false when there is none or it wants none.
    fn feed(&mut self, connection: &mut Connection) -> bool {
        let before = (self.start, self.end);
        self.end = self.end.saturating_add(self.piece).min(self.input.len());
        let input = &self.input[self.start..self.end];
        match connection.receive(input) {
            Ok(taken) => {
                assert!(taken <= input.len());
                self.start += taken;
                (self.start, self.end) != before
            }
            Err(error) => {
                assert_eq!(connection.error(), Some(error));
                assert!(connection.is_closing());
                false
            }
        }
    }
}

fn handle(connection: &mut Connection, event: Event, policy: u8) {
    match event {
        Event::Data { stream } => {
            let unread = connection.received(stream).len();
            connection.consume(stream, if policy & 4 == 0 { unread } else { unread / 2 });
        }
        Event::Trailers { stream, fields } => {
            connection.recycle_fields(fields);
            end(connection, stream, policy);
        }
        Event::End { stream } => end(connection, stream, policy),
        Event::Writable { stream } => {
            let _sent = connection.send_data(stream, &[0; 5000], policy & 16 == 0);
        }
        _ => {}
    }
}

fn end(connection: &mut Connection, stream: StreamId, policy: u8) {
    if policy & 8 == 0 {
        connection.release(stream);
    } else {
        connection.reset(stream, ErrorCode::CANCEL);
    }
}

/// The peer reads what was sent; with one policy only some of it.
fn drain(connection: &mut Connection, policy: u8) {
    let queued = connection.output().len();
    assert!(queued <= OUTPUT_BOUND, "{queued} octets are queued");
    connection.advance_output(if policy & 32 == 0 { queued } else { queued.min(100) });
}

/// Carries what both ends have to say to the other.
fn exchange(client: &mut Connection, server: &mut Connection) {
    for _ in 0..4 {
        carry(client, server);
        carry(server, client);
    }
}

fn carry(from: &mut Connection, to: &mut Connection) {
    let taken = to.receive(from.output()).unwrap_or(0);
    from.advance_output(taken);
}
