//! Requests that two readers may read differently: whatever the answer is, what reaches the origin has to be one
//! well-formed request, or none.
//!
//! The requests stand in `smuggling/`; HAProxy's answers are the oracle for what is refused.

mod downgrades;
mod framing;
mod syntax;
mod targets;

use super::arena::Arena;
use super::http2::Http2;
use super::lenient;
use super::probe::{self, Speaks};
use super::resets::Trigger;
use super::rows::Outcome;
use super::wire::{Reading, Wire, within};
use std::thread::sleep;
use std::time::Duration;

pub(super) const SETS: &[Trigger] = &[
    Trigger {
        name: "smuggling-framing",
        does: "lengths, codings and chunks that can be read in two ways",
        run: |arena| http1(arena, framing::cases()),
    },
    Trigger {
        name: "smuggling-syntax",
        does: "lines, names, values and versions that are none",
        run: |arena| http1(arena, syntax::cases()),
    },
    Trigger {
        name: "smuggling-targets",
        does: "targets, hosts, methods and upgrades that are none",
        run: |arena| http1(arena, targets::cases()),
    },
    Trigger {
        name: "smuggling-downgrades",
        does: "HTTP/2 requests that HTTP/1 cannot say",
        run: |arena| http2(arena, &downgrades::cases()),
    },
];

/// Octets that are sent, and the most requests that they are.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    most: u64,
}

/// One request.
fn one(name: &'static str, bytes: impl Into<Vec<u8>>) -> Case {
    Case { name, bytes: bytes.into(), most: 1 }
}

/// Two requests, one behind the other.
fn two(name: &'static str, bytes: impl Into<Vec<u8>>) -> Case {
    Case { name, bytes: bytes.into(), most: 2 }
}

/// An answer that does not come within this does not come.
const PATIENCE: Duration = Duration::from_millis(250);

/// What belongs to an answer comes right behind it.
const SETTLE: Duration = Duration::from_millis(20);

fn http1(arena: &Arena<'_>, cases: Vec<Case>) -> Outcome {
    let mut found = Outcome { count: Some(0), ..Outcome::default() };
    for case in cases {
        arena.origin.ledger.record();
        let said = say(arena, &case.bytes);
        found.look(arena, case.name, case.most, said);
    }
    found
}

fn http2(arena: &Arena<'_>, cases: &[(&'static str, downgrades::Frames)]) -> Outcome {
    let mut found = Outcome { count: Some(0), ..Outcome::default() };
    for (name, frames) in cases {
        arena.origin.ledger.record();
        let said = say_http2(arena, frames);
        found.look(arena, name, 1, said);
    }
    found
}

impl Outcome {
    /// Notes the answer to a case, and whether anything wrong has reached the origin.
    fn look(&mut self, arena: &Arena<'_>, name: &str, most: u64, said: String) {
        // The next client must not find anything of it.
        if !probe::probe(Speaks::Http1, &arena.ports) {
            *self.count.get_or_insert(0) += 1;
            self.notes.push(format!("{name}: the next client got no good answer"));
        }
        let found: Vec<_> =
            arena.origin.ledger.records().iter().map(|bytes| lenient::strict(bytes)).collect();
        let requests: u64 = found.iter().map(|found| found.requests).sum();
        let wrong = found.into_iter().find_map(|found| found.wrong);
        let split = || (requests > most).then(|| format!("{requests} requests"));
        if let Some(wrong) = wrong.or_else(split) {
            *self.count.get_or_insert(0) += 1;
            self.notes.push(format!("{name}: {wrong}"));
        }
        self.answers.insert(name.to_owned(), said);
        // The next one begins with connections that nothing is on.
        arena.origin.kill_connections();
        sleep(SETTLE);
    }
}

/// Sends octets; the statuses that come back, and whether the connection was closed.
fn say(arena: &Arena<'_>, bytes: &[u8]) -> String {
    let Ok(mut wire) = Wire::open(arena.ports.http, Reading::Always) else { return "refused".to_owned() };
    // Somebody who closes at once has answered, too.
    drop(wire.send(bytes, within(PATIENCE)));
    let answered = !wire.received.is_empty() || wire.more(within(PATIENCE)).is_ok();
    if answered {
        wire.drain(within(SETTLE));
    }
    let statuses = statuses(&wire.received);
    match (statuses.is_empty(), wire.closed) {
        (false, _) => statuses.join(" "),
        (true, true) => "closed".to_owned(),
        (true, false) => "nothing".to_owned(),
    }
}

/// The statuses of responses, interim ones left out.
fn statuses(answer: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let after = text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12));
    after.filter(|status| !status.starts_with('1') || *status == "101").map(str::to_owned).collect()
}

/// Sends frames; the status, or how the stream was refused.
fn say_http2(arena: &Arena<'_>, frames: &downgrades::Frames) -> String {
    let until = within(PATIENCE);
    let Ok(mut client) = Http2::open(arena.ports.http2, &[], until) else { return "refused".to_owned() };
    let mut bytes = Vec::new();
    frames(&mut bytes);
    // Somebody who closes at once has answered, too.
    drop(client.send(&bytes, until));
    drop(client.wait_for(1, until));
    match client.seen.status {
        Some(status) => status.to_string(),
        None if client.seen.resets > 0 => "reset".to_owned(),
        None if client.seen.goaways > 0 || client.wire.closed => "closed".to_owned(),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn statuses_are_found_in_a_row() {
        let answer =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nokHTTP/1.0 400 Bad Request\r\n\r\n";
        assert_eq!(statuses(answer), ["200", "400"]);
        assert!(statuses(b"").is_empty());
    }

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Vec::new();
        for set in [framing::cases(), syntax::cases(), targets::cases()] {
            names.extend(set.iter().map(|case| case.name));
        }
        names.extend(downgrades::cases().iter().map(|(name, _)| *name));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.len() >= 150, "{}", names.len());
    }
}
