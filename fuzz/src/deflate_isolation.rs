//! One scratch serves all streams of a thread: what an earlier one was given changes nothing of a later one's output.

use std::cell::RefCell;
use weir_deflate::{Content, Encoder, Format, Level, Scratch};

thread_local! {
    /// One that has seen every input so far, and one whose past is the same for each.
    static SCRATCHES: RefCell<[Scratch; 2]> = RefCell::new([Scratch::new(), Scratch::new()]);
}

/// Lengths about which something changes in the encoder: its ring, tables, blocks, pieces.
const EDGES: [usize; 8] = [0, 1024, 12_288, 32_768, 65_472, 65_536, 98_304, 131_072];

/// The first bytes choose format, level, hint, cuts and lengths; of the rest a part was encoded before.
pub fn deflate_isolation(data: &[u8]) {
    let &[choice, cut, edge, off, part, ref input @ ..] = data else { return };
    let (before, body) = input.split_at(input.len() * usize::from(part) / 256);
    if body.is_empty() {
        return;
    }
    let length = EDGES[usize::from(edge) % 8] + usize::from(off) % 32;
    let body = stretch(body, length.saturating_sub(16).max(body.len()));
    // Alike up to where the two differ, as a page is that somebody makes to guess another.
    let mut other = body.clone();
    let own = before.len().min(other.len());
    let from = EDGES[usize::from(edge) / 8 % 8].min(other.len() - own);
    other[from..from + own].copy_from_slice(&before[..own]);
    SCRATCHES.with_borrow_mut(|[used, cleared]| {
        encode(choice, cut, &other, used);
        // As long as any body here can be: it leaves the same behind, whatever was there.
        encode(choice, 0, &[0; 160_000], cleared);
        let (after, alone) = (encode(choice, cut, &body, used), encode(choice, cut, &body, cleared));
        assert!(after == alone, "{} bytes after another stream, {} alone", after.len(), alone.len());
    });
}

fn stretch(body: &[u8], length: usize) -> Vec<u8> {
    body.iter().copied().cycle().take(length).collect()
}

/// One stream, in pieces if it is said, each with a flush or a window or not.
fn encode(choice: u8, cut: u8, body: &[u8], scratch: &mut Scratch) -> Vec<u8> {
    let format = [Format::Gzip, Format::Zlib, Format::Raw][usize::from(choice) % 3];
    let level = [Level::Fast, Level::Default, Level::High][usize::from(choice) / 3 % 3];
    let contents =
        [Content::Unknown, Content::Html, Content::Script, Content::Json, Content::Xml, Content::Text];
    let mut encoder = Encoder::new(format, level).with_content(contents[usize::from(choice) / 9 % 6]);
    let mut output = Vec::new();
    let size = [usize::MAX, 65_536, 32_768, 32_769, 16_384, 40_000, 20_011, 4096][usize::from(cut) / 4 % 8];
    let mut before: &[u8] = &[];
    for piece in body.chunks(size) {
        encoder.after(before).push(piece, &mut output, scratch);
        if cut & 1 == 1 {
            encoder.flush(&mut output, scratch);
        }
        if cut & 2 == 2 {
            before = piece;
        }
    }
    encoder.finish(&mut output, scratch);
    output
}
