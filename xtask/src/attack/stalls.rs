//! HTTP/2 clients that ask for much and take nothing, or octet by octet.

use super::arena::{Arena, descriptors};
use super::frames::{self, Block, END_STREAM, INITIAL_WINDOW_SIZE, frame, kind};
use super::http2::{Http2, Setting};
use super::rows::Outcome;
use super::wire::within;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The largest window (RFC 9113 section 6.9.1).
const WIDE: &[Setting] = &[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)];

/// How long a connection may take for what it sends at first.
const START: Duration = Duration::from_millis(500);

/// Connections of the well-behaved client, and idle ones to the origin.
const FEW: usize = 8;

/// How long after the timeout everything has to be gone.
const GRACE: Duration = Duration::from_secs(4);

pub(super) fn zero_window(arena: &Arena<'_>) -> Outcome {
    let settings = &[(INITIAL_WINDOW_SIZE, 0)];
    let mut clients: Vec<Http2> = (0..40)
        .filter_map(|_| {
            let mut client = Http2::open(arena.ports.http2, settings, within(START)).ok()?;
            ask(&mut client, 10, "/big");
            Some(client)
        })
        .collect();
    held(arena, &mut clients)
}

pub(super) fn unread(arena: &Arena<'_>) -> Outcome {
    let mut clients = deaf(arena, 40, 10, "/big");
    held(arena, &mut clients)
}

pub(super) fn unread_interim(arena: &Arena<'_>) -> Outcome {
    arena.keep(deaf(arena, 20, 10, "/evil"))
}

/// Clients that open every window, ask, and read nothing.
fn deaf(arena: &Arena<'_>, connections: usize, streams: usize, path: &str) -> Vec<Http2> {
    let open = |_| {
        let mut client = Http2::open_deaf(arena.ports.http2, WIDE, within(START)).ok()?;
        let mut wide = Vec::new();
        frames::window_update(&mut wide, 0, 0x7fff_0000);
        drop(client.send(&wide, within(START)));
        ask(&mut client, streams, path);
        Some(client)
    };
    (0..connections).filter_map(open).collect()
}

pub(super) fn unread_pings(arena: &Arena<'_>) -> Outcome {
    let mut flood = Vec::new();
    for _ in 0..500 {
        frame(&mut flood, kind::PING, 0, 0, b"12345678");
        frames::settings(&mut flood, &[]);
    }
    let open = |_| {
        let mut client = Http2::open_deaf(arena.ports.http2, &[], within(START)).ok()?;
        // Until nothing more is taken, or 4 MB.
        for _ in 0..300 {
            if client.send(&flood, within(Duration::from_millis(20))).is_err() {
                break;
            }
        }
        Some(client)
    };
    let mut clients: Vec<Http2> = (0..50).filter_map(open).collect();
    held(arena, &mut clients)
}

/// What the subject still has open when all timeouts have expired.
fn held(arena: &Arena<'_>, clients: &mut [Http2]) -> Outcome {
    let late = within(arena.timeout + GRACE);
    let rest = arena.rest_descriptors;
    let mut open = usize::MAX;
    while open > rest + FEW && Instant::now() < late {
        sleep(Duration::from_millis(50));
        open = descriptors(arena.running);
    }
    arena.hold();
    let goaways = clients.iter().map(|client| client.seen.goaways).sum();
    Outcome { goaways, count: Some(open.saturating_sub(rest) as u64), ..Outcome::default() }
}

pub(super) fn slow_read(arena: &Arena<'_>) -> Outcome {
    let settings = &[(INITIAL_WINDOW_SIZE, 1)];
    let open = |_| {
        let mut client = Http2::open(arena.ports.http2, settings, within(START)).ok()?;
        ask(&mut client, 4, "/big");
        Some(client)
    };
    let mut clients: Vec<Http2> = (0..50).filter_map(open).collect();
    while arena.going() {
        for client in &mut clients {
            let mut one = Vec::new();
            for stream in [1, 3, 5, 7] {
                frames::window_update(&mut one, stream, 1);
            }
            drop(client.send(&one, within(Duration::from_millis(5))));
        }
        sleep(Duration::from_millis(10));
    }
    arena.hold();
    Outcome { goaways: clients.iter().map(|client| client.seen.goaways).sum(), ..Outcome::default() }
}

/// Asks for a path on so many streams.
fn ask(client: &mut Http2, streams: usize, path: &str) {
    let mut bytes = Vec::new();
    for _ in 0..streams {
        let stream = client.stream();
        Block::get(path).headers(&mut bytes, stream, END_STREAM);
    }
    // A connection that is closed is seen at the end.
    drop(client.send(&bytes, within(START)));
}
