//! What the fuzzer calls: one function a parser. A function returns or panics; what it asserts holds for
//! every input.

use weir_http::h2::{Connection, Event, Settings};
use weir_http::{Fields, Request, Response};

/// Every target by name, in the order they are run.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("message", message), ("h2", h2)];

/// A list of header fields as a sequence of edits: it stays in order and every span stays inside the arena.
pub fn message(data: &[u8]) {
    let mut fields = Fields::default();
    for line in data.split(|byte| *byte == b'\n') {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        match name.split_first() {
            Some((b'-', name)) => {
                fields.remove_named(name);
                assert!(fields.get(name).is_none());
            }
            Some((b'=', name)) => {
                fields.set(name, value);
                assert_eq!(fields.get(name), Some(value));
            }
            _ => fields.push(name, value),
        }
    }
    assert_eq!(fields.iter().count(), fields.len());
}

/// An HTTP/2 peer's octets.  The first octet says which end reads them and in pieces of which size; what was
/// received is answered, and the other end has to understand the answers.
pub fn h2(data: &[u8]) {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let client = how & 1 == 1;
    let piece = usize::from(how >> 1) * 8 + 1;
    let mut connection = if client {
        let mut connection = Connection::client(Settings::default());
        let mut request = Request::default();
        request.set_method(b"POST");
        request.set_uri(b"/");
        request.fields.push(b"host", b"h");
        connection.send_request(&request, false).expect("the first request is sent");
        connection
    } else {
        Connection::server(Settings::default())
    };
    let mut end = 0;
    while end < rest.len() {
        end = (end + piece).min(rest.len());
        let Ok(taken) = connection.receive(&rest[..end]) else { break };
        rest = &rest[taken..];
        end -= taken;
        while let Some(event) = connection.poll_event() {
            h2_event(&mut connection, event);
        }
        if !connection.is_receiving() {
            connection.advance_output(connection.output().len());
        }
    }
    connection.release_buffers();
}

fn h2_event(connection: &mut Connection, event: Event) {
    match event {
        Event::Request { stream, request, .. } | Event::Invalid { stream, request, .. } => {
            assert!(request.uri_bytes().iter().all(|byte| *byte > b' '));
            let clean = |text: &[u8]| !text.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
            assert!(request.fields.iter().all(|(name, value)| clean(name) && clean(value)));
            connection.recycle_request(request);
            if connection.send_response(stream, &Response::new(200, ""), false).is_ok() {
                connection.send_data(stream, b"answer", stream.number() % 4 == 1).ok();
            }
        }
        Event::Data { stream } => {
            let half = connection.received(stream).len().div_ceil(2);
            connection.consume(stream, half);
        }
        Event::End { stream } => connection.release(stream),
        _ => {}
    }
}
