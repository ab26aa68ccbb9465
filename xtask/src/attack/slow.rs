//! HTTP/1 clients that take their time, take nothing, or go away.

use super::arena::Arena;
use super::probe;
use super::rows::Outcome;
use super::wire::{Reading, Wire, within};
use std::thread::sleep;
use std::time::Duration;

/// What one connection may take for what it sends at first.
const START: Duration = Duration::from_millis(500);

/// A round of octets leaves this often.
const EVERY: Duration = Duration::from_millis(200);

fn many(arena: &Arena<'_>, connections: usize, first: &str) -> Vec<Wire> {
    let open = |_| {
        let mut wire = Wire::open(arena.ports.http, Reading::Always).ok()?;
        wire.send(first.as_bytes(), within(START)).ok()?;
        Some(wire)
    };
    (0..connections).filter_map(open).collect()
}

/// Sends an octet on every connection that is open, round after round.
fn drip(arena: &Arena<'_>, wires: &mut [Wire], octet: &[u8]) -> Outcome {
    while arena.going() {
        for wire in wires.iter_mut().filter(|wire| !wire.closed) {
            // One that was closed is left out of the next round.
            drop(wire.send(octet, within(Duration::from_millis(1))));
        }
        sleep(EVERY);
    }
    arena.hold();
    let closed = wires.iter().filter(|wire| wire.closed).count();
    Outcome { notes: vec![format!("{closed} of {} connections closed", wires.len())], ..Outcome::default() }
}

pub(super) fn heads(arena: &Arena<'_>) -> Outcome {
    let mut wires = many(arena, 5000, "GET /slow HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    drip(arena, &mut wires, b"a")
}

pub(super) fn bodies(arena: &Arena<'_>) -> Outcome {
    let head = "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    let mut wires = many(arena, 1000, head);
    drip(arena, &mut wires, b"b")
}

pub(super) fn readers(arena: &Arena<'_>) -> Outcome {
    arena.keep(deaf(arena, 200, "/big"))
}

pub(super) fn unread_interim(arena: &Arena<'_>) -> Outcome {
    arena.keep(deaf(arena, 20, "/evil"))
}

/// Clients that ask and read nothing.
fn deaf(arena: &Arena<'_>, connections: usize, path: &str) -> Vec<Wire> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let open = |_| {
        let mut wire = Wire::open_narrow(arena.ports.http).ok()?;
        wire.send(request.as_bytes(), within(START)).ok()?;
        Some(wire)
    };
    (0..connections).filter_map(open).collect()
}

pub(super) fn send_and_close(arena: &Arena<'_>) -> Outcome {
    for _ in 0..1500 {
        // Dropping it closes it.
        drop(many(arena, 1, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
    arena.hold();
    Outcome::default()
}

pub(super) fn half_closed(arena: &Arena<'_>) -> Outcome {
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", probe::PATH);
    let answered = |_: &usize| {
        let Ok(mut wire) = Wire::open(arena.ports.http, Reading::Always) else { return false };
        let sent = wire.send(request.as_bytes(), within(START)).is_ok();
        wire.finish();
        wire.drain(within(Duration::from_secs(2)));
        sent && probe::is_good(&wire.received)
    };
    let good = (0..300).filter(answered).count();
    arena.hold();
    Outcome { count: Some(300 - good as u64), ..Outcome::default() }
}

pub(super) fn pipelining(arena: &Arena<'_>) -> Outcome {
    let requests = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", probe::PATH).repeat(100);
    let wires = arena.at_once(20, |_| {
        let mut wire = Wire::open_narrow(arena.ports.http).ok()?;
        for _ in 0..20 {
            if wire.send(requests.as_bytes(), within(START)).is_err() {
                break;
            }
        }
        Some(wire)
    });
    arena.keep(wires)
}
