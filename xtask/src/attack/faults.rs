//! What breaks in operation, under load: the origin, the configuration, the limit of descriptors.

use super::arena::Arena;
use super::probe;
use super::rows::Outcome;
use super::wire::{Gone, Reading, Wire, within};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// Clients that ask all the time, each on one connection as long as that lasts.
const CLIENTS: usize = 16;

const PATIENCE: Duration = Duration::from_secs(3);

/// Somebody who asks as soon as there is an answer would take the whole machine.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks until the end while something is done to the subject; counts what was lost.
fn under_load(arena: &Arena<'_>, fault: impl FnOnce()) -> Outcome {
    let over = AtomicBool::new(false);
    let (asked, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| ask_until(arena, &over, &asked, &lost));
        }
        fault();
        over.store(true, Ordering::Relaxed);
    });
    arena.hold();
    let (asked, lost) = (asked.into_inner(), lost.into_inner());
    let notes = vec![format!("of {asked} requests")];
    let answered = Some(asked - lost);
    Outcome { count: Some(lost), answered, notes, ..Outcome::default() }
}

fn ask_until(arena: &Arena<'_>, over: &AtomicBool, asked: &AtomicU64, lost: &AtomicU64) {
    let mut kept: Option<Wire> = None;
    while !over.load(Ordering::Relaxed) {
        let Some(mut wire) = kept.take().or_else(|| Wire::open(arena.ports.http, Reading::Always).ok())
        else {
            asked.fetch_add(1, Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
            sleep(PAUSE);
            continue;
        };
        let answered = ask(&mut wire);
        match answered {
            // A kept connection may be closed between two requests; the request was not sent then.
            Err(Gone::Closed) if wire.received.is_empty() && wire.used => continue,
            Ok(()) => {}
            Err(_) => {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        asked.fetch_add(1, Ordering::Relaxed);
        kept = answered.is_ok().then_some(wire).filter(|wire| !says_close(&wire.received));
        sleep(PAUSE);
    }
}

fn says_close(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).to_ascii_lowercase().contains("connection: close")
}

fn ask(wire: &mut Wire) -> Result<(), Gone> {
    let until = within(PATIENCE);
    wire.used = !wire.received.is_empty();
    wire.received.clear();
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", probe::PATH);
    wire.send(request.as_bytes(), until)?;
    while !wire.received.ends_with(b"\r\n\r\nok") {
        wire.more(until)?;
    }
    if probe::is_good(&wire.received) { Ok(()) } else { Err(Gone::TimedOut) }
}

pub(super) fn origin_killed(arena: &Arena<'_>) -> Outcome {
    under_load(arena, || {
        for _ in 0..10 {
            sleep(Duration::from_millis(200));
            arena.origin.kill_connections();
        }
        sleep(Duration::from_millis(200));
    })
}

pub(super) fn reload(arena: &Arena<'_>) -> Outcome {
    under_load(arena, || {
        for _ in 0..3 {
            sleep(Duration::from_millis(500));
            let signal = if arena.name == "nginx" { Signal::HUP } else { Signal::USR2 };
            let process = Pid::from_raw(arena.running.id().cast_signed());
            if let Some(process) = process {
                // A master that is gone is noticed by the probes.
                let _asked = kill_process(process, signal);
            }
        }
        sleep(Duration::from_millis(700));
    })
}

pub(super) fn descriptors(arena: &Arena<'_>) -> Outcome {
    let request = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let open = |_| {
        let mut wire = Wire::open(arena.ports.http, Reading::Always).ok()?;
        wire.send(request.as_bytes(), within(Duration::from_millis(50))).ok()?;
        Some(wire)
    };
    let mut wires: Vec<Wire> = (0..1000).filter_map(open).collect();
    while arena.going() {
        sleep(Duration::from_millis(50));
    }
    wires.iter_mut().for_each(Wire::read_now);
    let served = wires.iter().filter(|wire| wire.received.starts_with(b"HTTP/1.1 200")).count();
    Outcome { notes: vec![format!("{served} of 1,000 served meanwhile")], ..Outcome::default() }
}
