//! What well-behaved clients leave behind: connections to the origin that nobody uses.

use super::arena::Arena;
use super::probe::{self, Speaks};
use super::rows::Outcome;
use super::wire::{Gone, Reading, Wire, within};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn one_after_another(arena: &Arena<'_>) -> Outcome {
    let failed = (0..3000).filter(|_| arena.going() && !ask_once(arena)).count();
    left(arena, failed)
}

pub(super) fn fifty(arena: &Arena<'_>) -> Outcome {
    let failed = arena.at_once(50, |_| (0..80).filter(|_| arena.going() && !ask_once(arena)).count());
    left(arena, failed.into_iter().sum())
}

pub(super) fn kept(arena: &Arena<'_>) -> Outcome {
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", probe::PATH);
    let mut wires: Vec<Wire> =
        (0..50).filter_map(|_| Wire::open(arena.ports.http, Reading::Always).ok()).collect();
    let mut failed = 50 - wires.len();
    for _ in 0..60 {
        for wire in wires.iter_mut().filter(|_| arena.going()) {
            failed += usize::from(ask(wire, &request).is_err());
        }
    }
    left(arena, failed)
}

/// A request on a connection of its own.
fn ask_once(arena: &Arena<'_>) -> bool {
    probe::probe(Speaks::Http1, &arena.ports)
}

/// A request on a connection that stays.
fn ask(wire: &mut Wire, request: &str) -> Result<(), Gone> {
    let until = within(PATIENCE);
    wire.received.clear();
    wire.send(request.as_bytes(), until)?;
    while !probe::is_good(&wire.received) {
        wire.more(until)?;
    }
    Ok(())
}

/// The connections that are open at the origin when all is over.
fn left(arena: &Arena<'_>, failed: usize) -> Outcome {
    arena.hold();
    let mut outcome = Outcome { count: Some(arena.origin.connections()), ..Outcome::default() };
    if failed > 0 {
        outcome.notes.push(format!("{failed} requests failed"));
    }
    outcome
}
