//! Origins that break the rules, each played to 50 clients: what they say is a script of bytes.

use super::arena::Arena;
use super::origin::{Script, Step, page};
use super::probe::Speaks;
use super::rows::{Count, Needs, Outcome, PLAIN, Probes, Row};
use super::wire::{Reading, Wire, within};
use std::time::Duration;

/// What the scripts answer.
const EVIL: &str = "/evil";

/// Clients that ask at once.
const CLIENTS: usize = 50;

/// Enough to exhaust what has no bound, and little enough to be sent in the time of a row.
const ENDLESS: u64 = 20_000;

/// A script for one path.
fn evil(path: &str, steps: impl FnOnce() -> Vec<Step>) -> Option<Vec<Step>> {
    (path == EVIL).then(steps)
}

fn say(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

pub(super) fn endless_interim(path: &str) -> Option<Vec<Step>> {
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\n\r\n".repeat(50);
    evil(path, || vec![Step::Repeat(interim, ENDLESS), Step::Close])
}

fn endless_head(path: &str) -> Option<Vec<Step>> {
    let lines = b"X-Endless: 0123456789abcdef0123456789abcdef\r\n".repeat(50);
    evil(path, || vec![say("HTTP/1.1 200 OK\r\n"), Step::Repeat(lines, ENDLESS), Step::Close])
}

fn endless_line(path: &str) -> Option<Vec<Step>> {
    evil(path, || {
        vec![say("HTTP/1.1 200 OK\r\nX-Endless: "), Step::Repeat(vec![b'a'; 4096], ENDLESS), Step::Close]
    })
}

fn endless_chunk_size(path: &str) -> Option<Vec<Step>> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    evil(path, || vec![say(head), Step::Repeat(vec![b'a'; 4096], ENDLESS), Step::Close])
}

fn endless_trailers(path: &str) -> Option<Vec<Step>> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    let lines = b"X-Trailer: 0123456789abcdef\r\n".repeat(50);
    evil(path, || vec![say(head), Step::Repeat(lines, ENDLESS), Step::Close])
}

fn tiny_chunks(path: &str) -> Option<Vec<Step>> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    evil(path, || vec![say(head), Step::Repeat(b"1\r\na\r\n".repeat(100), 200), say("0\r\n\r\n")])
}

fn unasked_upgrade(path: &str) -> Option<Vec<Step>> {
    evil(path, || {
        vec![say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n")]
    })
}

fn extra_bytes(path: &str) -> Option<Vec<Step>> {
    let second = [page(b"ok"), page(b"poison")].concat();
    evil(path, || vec![say(second)])
}

fn bad_chunks(path: &str) -> Option<Vec<Step>> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    evil(path, || vec![say(head), say("5\r\nhello\r\nzz\r\nworld\r\n0\r\n\r\n"), Step::Close])
}

fn early_close(path: &str) -> Option<Vec<Step>> {
    evil(path, || vec![say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), Step::Close])
}

fn two_lengths(path: &str) -> Option<Vec<Step>> {
    evil(path, || {
        vec![say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\nok"), Step::Close]
    })
}

fn slow_body(path: &str) -> Option<Vec<Step>> {
    evil(path, || {
        let mut steps = vec![say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")];
        steps.extend((0..500).flat_map(|_| [say("x"), Step::Pause(Duration::from_millis(5))]));
        steps.push(Step::Close);
        steps
    })
}

fn compressed_garbage(path: &str) -> Option<Vec<Step>> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 65536\r\n\r\n";
    evil(path, || vec![say(head), say(vec![0x8b; 65536])])
}

pub(super) const COMPRESSES: Needs = Needs {
    haproxy: "compression algo gzip\n    compression type text/html",
    nginx: "gzip on; gzip_comp_level 1; gzip_proxied any;",
    ..PLAIN
};

/// The configuration refuses a path.
const GUARDED: Needs = Needs {
    haproxy: "http-request deny if { path /admin }",
    nginx: "location /admin { return 403; }",
    ..PLAIN
};

pub(super) fn rows() -> Vec<Row> {
    let plain = |name, does, origin: Script, run| Row {
        name,
        does,
        probes: Probes::During(Speaks::Http1),
        needs: PLAIN,
        origin,
        seconds: None,
        count: None,
        run,
    };
    vec![
        Row {
            needs: GUARDED,
            count: Some(Count { of: "requests that passed a rule", slack: 0 }),
            ..plain(
                "origin-101",
                "the origin answers 101 unasked; a refused request follows on the connection",
                unasked_upgrade,
                behind_upgrade,
            )
        },
        Row {
            count: Some(Count { of: "answers that were another's", slack: 0 }),
            ..plain("origin-extra", "a second response behind each body", extra_bytes, after_extra)
        },
        plain("origin-1xx", "interim responses for ever", endless_interim, ask_all),
        plain("origin-head", "a head of lines without end", endless_head, ask_all),
        plain("origin-line", "a line without end", endless_line, ask_all),
        plain("origin-chunk-size", "a chunk's line without end", endless_chunk_size, ask_all),
        plain("origin-trailers", "trailers without end", endless_trailers, ask_all),
        plain("origin-tiny-chunks", "20,000 chunks of an octet each", tiny_chunks, ask_all),
        cut("origin-bad-chunks", "a chunk whose size is no number", bad_chunks),
        cut("origin-early-close", "a body that ends before its length", early_close),
        cut("origin-two-lengths", "two lengths that differ", two_lengths),
        plain("origin-slow-body", "a body octet by octet", slow_body, ask_all),
        Row {
            needs: COMPRESSES,
            ..plain(
                "origin-garbage",
                "gzip that is none, to clients that accept gzip",
                compressed_garbage,
                ask_all,
            )
        },
    ]
}

/// An answer that must not look whole to the client.
fn cut(name: &'static str, does: &'static str, origin: Script) -> Row {
    Row {
        name,
        does,
        probes: Probes::During(Speaks::Http1),
        needs: PLAIN,
        origin,
        seconds: Some(1),
        count: Some(Count { of: "broken answers that look whole", slack: 0 }),
        run: whole_answers,
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
}

fn ask(arena: &Arena<'_>, path: &str) -> Option<Wire> {
    let mut wire = Wire::open(arena.ports.http, Reading::Always).ok()?;
    wire.send(request(path).as_bytes(), arena.until).ok()?;
    Some(wire)
}

/// Clients that read what comes until the end of the attack.
fn ask_all(arena: &Arena<'_>) -> Outcome {
    let closed = arena.at_once(CLIENTS, |_| ask(arena, EVIL).is_some_and(|mut wire| wire.drain(arena.until)));
    arena.hold();
    let closed = closed.into_iter().filter(|closed| *closed).count();
    Outcome { notes: vec![format!("{closed} of {CLIENTS} connections closed")], ..Outcome::default() }
}

/// Answers that a client would take for whole.
fn whole_answers(arena: &Arena<'_>) -> Outcome {
    let looks = arena.at_once(CLIENTS, |_| {
        ask(arena, EVIL).is_some_and(|mut wire| {
            wire.drain(within(Duration::from_secs(1)));
            looks_whole(&wire.received)
        })
    });
    arena.hold();
    Outcome { count: Some(looks.into_iter().filter(|whole| *whole).count() as u64), ..Outcome::default() }
}

/// Whether a 200 with its whole body stands there.
fn looks_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    head.starts_with("http/1.1 200")
        && match length {
            Some(length) => body.len() >= length,
            None => body.ends_with("0\r\n\r\n"),
        }
}

/// What follows an unasked 101 must be a request like any other.
fn behind_upgrade(arena: &Arena<'_>) -> Outcome {
    arena.origin.ledger.record();
    arena.at_once(CLIENTS, |_| {
        let mut wire = ask(arena, EVIL)?;
        // The answer, whatever it is.
        drop(wire.more(within(Duration::from_secs(1))));
        drop(wire.send(request("/admin").as_bytes(), within(Duration::from_millis(200))));
        wire.drain(within(Duration::from_millis(500)));
        Some(())
    });
    let passed = |record: &&Vec<u8>| String::from_utf8_lossy(record).contains("GET /admin");
    let count = arena.origin.ledger.records().iter().filter(passed).count();
    arena.hold();
    Outcome { count: Some(count as u64), ..Outcome::default() }
}

/// Whether somebody gets the second response that came on a connection.
fn after_extra(arena: &Arena<'_>) -> Outcome {
    let mut poisoned = 0;
    for _ in 0..200 {
        let answers = [EVIL, "/innocent"].map(|path| {
            let mut wire = ask(arena, path)?;
            let until = within(Duration::from_millis(500));
            while !wire.received.ends_with(b"ok") && wire.more(until).is_ok() {}
            Some(wire.received)
        });
        let poison = |answer: &Option<Vec<u8>>| {
            answer.as_ref().is_some_and(|answer| String::from_utf8_lossy(answer).contains("poison"))
        };
        poisoned += answers.iter().filter(|answer| poison(answer)).count();
    }
    arena.hold();
    Outcome { count: Some(poisoned as u64), ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_answer_does_not_look_whole() {
        let check = |answer: &str, whole| assert_eq!(looks_whole(answer.as_bytes()), whole, "{answer:?}");
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", false);
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", false);
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true);
        check("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", false);
    }
}
