//! Frames that cost the sender nothing: control frames, empty ones, header blocks without an end, tables that change size.

use super::arena::Arena;
use super::frames::{self, Block, END_STREAM, HEADER_TABLE_SIZE, frame, kind};
use super::http2::Http2;
use super::resets::{BURST, Burst, Trigger, repeat, repeat_after};
use super::rows::Outcome;
use super::wire::Gone;

/// Frames that each connection sends.
const FRAMES: usize = 50_000;

const FLOOD: Burst = Burst { steps: FRAMES, batch: 500, ..BURST };

pub(super) const FLOODS: &[Trigger] = &[
    Trigger {
        name: "h2-settings-flood",
        does: "200,000 SETTINGS",
        run: |arena| repeat(arena, &FLOOD, |_, out| frames::settings(out, &[])),
    },
    Trigger {
        name: "h2-ping-flood",
        does: "200,000 PING",
        run: |arena| repeat(arena, &FLOOD, |_, out| frame(out, kind::PING, 0, 0, b"12345678")),
    },
    Trigger {
        name: "h2-priority-flood",
        does: "200,000 PRIORITY of idle streams",
        run: |arena| {
            repeat(arena, &FLOOD, |client, out| {
                let stream = client.stream();
                frame(out, kind::PRIORITY, 0, stream, &[0, 0, 0, 0, 16]);
            })
        },
    },
    Trigger {
        name: "h2-empty-data-flood",
        does: "200,000 empty DATA on an open stream",
        run: |arena| repeat_after(arena, &FLOOD, post, |_, out| frame(out, kind::DATA, 0, 1, b"")),
    },
    Trigger {
        name: "h2-window-flood",
        does: "200,000 WINDOW_UPDATE of 1 for the connection",
        run: |arena| repeat(arena, &FLOOD, |_, out| frames::window_update(out, 0, 1)),
    },
    Trigger {
        name: "h2-unknown-flood",
        does: "200,000 frames of an unknown type",
        run: |arena| repeat(arena, &FLOOD, |_, out| frame(out, 0xbb, 0, 0, b"12345678")),
    },
    Trigger {
        name: "h2-continuation-flood",
        does: "header blocks that never end, 40 MB of CONTINUATION",
        run: continuation,
    },
    Trigger {
        name: "h2-empty-continuation",
        does: "a header block that goes on with 200,000 empty CONTINUATION",
        run: |arena| {
            repeat_after(arena, &FLOOD, open_block, |_, out| frame(out, kind::CONTINUATION, 0, 1, b""))
        },
    },
    Trigger {
        name: "h2-table-resizing",
        does: "20,000 requests, each resizing the header tables of both sides",
        run: table_resizing,
    },
];

/// A request whose body may come.
fn post(client: &mut Http2) -> Result<(), Gone> {
    let stream = client.stream();
    let mut bytes = Vec::new();
    Block::request("POST", super::probe::PATH).headers(&mut bytes, stream, 0);
    client.send(&bytes, super::wire::within(std::time::Duration::from_secs(1)))
}

/// A header block whose end does not come.
fn open_block(client: &mut Http2) -> Result<(), Gone> {
    let stream = client.stream();
    let mut bytes = Vec::new();
    frame(&mut bytes, kind::HEADERS, END_STREAM, stream, &Block::get("/").0);
    client.send(&bytes, super::wire::within(std::time::Duration::from_secs(1)))
}

fn continuation(arena: &Arena<'_>) -> Outcome {
    // Many small lines: each of them costs an entry where they are kept.
    let mut lines = Block::default();
    while lines.0.len() < 16_000 {
        lines = lines.literal("x-flood", "0123456789abcdef");
    }
    let burst = Burst { steps: 640, batch: 8, ..BURST };
    repeat_after(arena, &burst, open_block, |_, out| frame(out, kind::CONTINUATION, 0, 1, &lines.0))
}

fn table_resizing(arena: &Arena<'_>) -> Outcome {
    let large = "v".repeat(3000);
    let burst = Burst { steps: 5000, batch: 10, ..BURST };
    repeat(arena, &burst, |client, out| {
        let stream = client.stream();
        frames::settings(out, &[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4096 * (stream % 4))]);
        let block = Block::default().table_size(0).table_size(4096);
        let line = block.remembered("x-large", &large);
        let rest = Block::get(super::probe::PATH);
        // Pseudo-header fields come first; what is remembered behind them fills the table anew each time.
        let mut block = Block::default().table_size(0).table_size(4096);
        block.0.extend_from_slice(&rest.0);
        block.0.extend_from_slice(line.0.get(4..).unwrap_or_default());
        block.headers(out, stream, END_STREAM);
    })
}
