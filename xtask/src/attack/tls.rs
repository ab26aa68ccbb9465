//! TLS from the outside: records as they are on the wire.

use super::arena::Arena;
use super::resets::Trigger;
use super::rows::Outcome;
use super::wire::{Reading, Wire, within};
use crate::tls_client::client;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What one connection may take for what it sends.
const START: Duration = Duration::from_millis(300);

/// Record types (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// The most that a record holds (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 1 << 14;

pub(super) const ATTACKS: &[Trigger] = &[
    Trigger { name: "tls-mutated", does: "1,500 hellos with octets changed", run: mutated },
    Trigger {
        name: "tls-half-hello",
        does: "1,500 connections that send half of a hello and stay",
        run: half_hellos,
    },
    Trigger { name: "tls-half-open", does: "1,000 hellos whose answer is never taken up", run: half_open },
    Trigger {
        name: "tls-slow-hello",
        does: "300 connections that send a hello octet by octet",
        run: slow_hellos,
    },
    Trigger {
        name: "tls-alerts",
        does: "20 connections with 20,000 warnings each",
        run: |arena| junk(arena, ALERT, &[1, 90]),
    },
    Trigger {
        name: "tls-empty-records",
        does: "20 connections with 20,000 empty records each",
        run: |arena| junk(arena, HANDSHAKE, &[]),
    },
    Trigger { name: "tls-fragments", does: "500 hellos in records of an octet each", run: fragments },
    Trigger { name: "tls-big-hello", does: "100 hellos of 60 kB", run: big_hellos },
    Trigger {
        name: "tls-endless-hello",
        does: "100 hellos that say 16 MB and send 200 kB",
        run: endless_hellos,
    },
    Trigger {
        name: "tls-key-updates",
        does: "20 connections whose first flight is followed by 200 kB of noise",
        run: noise,
    },
];

/// One request over a new connection; the answer up to its end.
pub(super) fn get(port: u16, path: &str, until: Instant) -> Option<Vec<u8>> {
    let mut tls = client()?;
    let mut wire = Wire::open(port, Reading::Always).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    tls.writer().write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    loop {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out).ok()?;
        }
        // What was said before the connection closed is still read below.
        drop(wire.send(&out, until));
        let came = std::mem::take(&mut wire.received);
        let mut rest = came.as_slice();
        while !rest.is_empty() {
            tls.read_tls(&mut rest).ok()?;
            let state = tls.process_new_packets().ok()?;
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plain).ok()?;
            answer.extend_from_slice(&plain);
            if state.peer_has_closed() {
                return Some(answer);
            }
        }
        if tls.wants_write() {
            continue;
        }
        if wire.closed {
            return Some(answer);
        }
        wire.more(until).ok().or_else(|| wire.closed.then_some(()))?;
    }
}

/// A good hello, as one record.
fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut client) = client() {
        // Writing into memory does not fail.
        drop(client.write_tls(&mut bytes));
    }
    bytes
}

/// A record of TLS.
fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 1];
    bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Numbers that are the same in every run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn open(arena: &Arena<'_>, bytes: &[u8]) -> Option<Wire> {
    let mut wire = Wire::open(arena.ports.tls, Reading::Always).ok()?;
    // One that was refused has been answered.
    drop(wire.send(bytes, within(START)));
    Some(wire)
}

fn mutated(arena: &Arena<'_>) -> Outcome {
    let good = hello();
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut wires = Vec::new();
    for number in 0..1500 {
        let mut bytes = good.clone();
        for _ in 0..=number % 8 {
            let (place, value) = (random(&mut state) as usize % bytes.len(), random(&mut state) as u8);
            bytes[place] = value;
        }
        if number % 10 == 0 {
            bytes.truncate(random(&mut state) as usize % bytes.len());
        }
        wires.extend(open(arena, &bytes));
        if wires.len() == 100 {
            wires.clear();
        }
    }
    arena.keep(wires)
}

fn half_hellos(arena: &Arena<'_>) -> Outcome {
    let hello = hello();
    let wires: Vec<Wire> = (0..1500).filter_map(|_| open(arena, &hello[..hello.len() / 2])).collect();
    arena.keep(wires)
}

fn half_open(arena: &Arena<'_>) -> Outcome {
    let hello = hello();
    let wires: Vec<Wire> = (0..1000).filter_map(|_| open(arena, &hello)).collect();
    arena.keep(wires)
}

fn slow_hellos(arena: &Arena<'_>) -> Outcome {
    let hello = hello();
    let mut wires: Vec<Wire> = (0..300).filter_map(|_| open(arena, &[])).collect();
    for octet in &hello {
        if !arena.going() {
            break;
        }
        for wire in wires.iter_mut().filter(|wire| !wire.closed) {
            drop(wire.send(&[*octet], within(Duration::from_millis(1))));
        }
        sleep(Duration::from_millis(20));
    }
    arena.keep(wires)
}

/// So many records that say nothing, before any hello.
fn junk(arena: &Arena<'_>, kind: u8, payload: &[u8]) -> Outcome {
    let flood = record(kind, payload).repeat(20_000);
    let wires: Vec<Option<Wire>> = arena.at_once(20, |_| open(arena, &flood));
    arena.keep(wires)
}

fn fragments(arena: &Arena<'_>) -> Outcome {
    let hello = hello();
    let bytes: Vec<u8> =
        hello.get(5..).unwrap_or_default().iter().flat_map(|octet| record(HANDSHAKE, &[*octet])).collect();
    let mut wires: Vec<Wire> = (0..500).filter_map(|_| open(arena, &bytes)).collect();
    arena.hold();
    answered(&mut wires)
}

fn big_hellos(arena: &Arena<'_>) -> Outcome {
    let bytes = padded(&hello(), 60_000);
    let mut wires: Vec<Wire> = (0..100).filter_map(|_| open(arena, &bytes)).collect();
    arena.hold();
    answered(&mut wires)
}

fn endless_hellos(arena: &Arena<'_>) -> Outcome {
    let mut first = hello();
    // The length of the handshake message stands behind the record's head and the message's type.
    first[6..9].copy_from_slice(&[0xff, 0xff, 0xff]);
    let more = record(HANDSHAKE, &[0; RECORD_BYTES]).repeat(12);
    let wires: Vec<Wire> =
        (0..100).filter_map(|_| open(arena, &[first.clone(), more.clone()].concat())).collect();
    arena.keep(wires)
}

fn noise(arena: &Arena<'_>) -> Outcome {
    let mut state = 88_172_645_463_325_252;
    let noise: Vec<u8> = (0..RECORD_BYTES).map(|_| random(&mut state) as u8).collect();
    // Application data (type 23) that nobody can decrypt.
    let bytes = [hello(), record(23, &noise).repeat(12)].concat();
    let wires: Vec<Wire> = (0..20).filter_map(|_| open(arena, &bytes)).collect();
    arena.keep(wires)
}

/// How many were answered with a handshake and not with an alert.
fn answered(wires: &mut [Wire]) -> Outcome {
    wires.iter_mut().for_each(Wire::read_now);
    let greeted = wires.iter().filter(|wire| wire.received.first() == Some(&HANDSHAKE)).count();
    Outcome { notes: vec![format!("{greeted} of {} greeted", wires.len())], ..Outcome::default() }
}

/// A hello with the padding extension (RFC 7685), in as many records as it takes.
fn padded(hello: &[u8], padding: usize) -> Vec<u8> {
    let mut message = hello.get(5..).unwrap_or_default().to_vec();
    let Some(at) = extensions_at(&message) else { return hello.to_vec() };
    let extensions = message.len() - at - 2 + 4 + padding;
    message[at..at + 2].copy_from_slice(&(extensions as u16).to_be_bytes());
    message.extend_from_slice(&21_u16.to_be_bytes());
    message.extend_from_slice(&(padding as u16).to_be_bytes());
    message.resize(message.len() + padding, 0);
    let length = (message.len() - 4) as u32;
    message[1..4].copy_from_slice(&length.to_be_bytes()[1..]);
    message.chunks(RECORD_BYTES).flat_map(|part| record(HANDSHAKE, part)).collect()
}

/// Where the length of a hello's extensions stands: behind version, random, session, suites and compressions.
fn extensions_at(message: &[u8]) -> Option<usize> {
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(*message.get(at)?);
    at += 2 + usize::from(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    at += 1 + usize::from(*message.get(at)?);
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_padded_hello_says_its_lengths() {
        let hello = hello();
        let at = extensions_at(&hello[5..]).unwrap();
        let said = usize::from(u16::from_be_bytes([hello[5 + at], hello[6 + at]]));
        assert_eq!(said, hello.len() - 5 - at - 2);
        let bytes = padded(&hello, 40_000);
        let records: usize = bytes.len().div_ceil(RECORD_BYTES + 5);
        assert_eq!(bytes.len(), hello.len() - 5 + 4 + 40_000 + 5 * records);
    }
}
