//! The well-behaved client: one request on a fresh connection, and whether it got its answer in time.

use super::arena::Ports;
use super::frames::Block;
use super::http2::Http2;
use super::tls;
use super::wire::{Reading, Wire, within};
use std::time::Duration;

/// Nobody waits longer for a small page.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the well-behaved client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http1,
    Http2,
    Tls,
}

/// What is asked for: it is never answered by a script.
pub(super) const PATH: &str = "/probe";

/// One request; whether it was answered as it has to be.
pub(super) fn probe(speaks: Speaks, ports: &Ports) -> bool {
    match speaks {
        Speaks::Http1 => http1(ports.http),
        Speaks::Http2 => http2(ports.http2),
        Speaks::Tls => tls::get(ports.tls, PATH, within(PATIENCE)).is_some_and(|answer| is_good(&answer)),
    }
}

fn http1(port: u16) -> bool {
    let Ok(mut wire) = Wire::open(port, Reading::Always) else { return false };
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let until = within(PATIENCE);
    wire.send(request.as_bytes(), until).is_ok() && wire.drain(until) && is_good(&wire.received)
}

/// Whether these are a whole good answer.
pub(super) fn is_good(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\nok")
}

fn http2(port: u16) -> bool {
    let until = within(PATIENCE);
    let Ok(mut client) = Http2::open(port, &[], until) else { return false };
    let asked = client.ask(&Block::get(PATH), until).and_then(|_| client.wait_for(1, until));
    asked.is_ok() && client.seen.status == Some(200) && client.seen.resets == 0
}
