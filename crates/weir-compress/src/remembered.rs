//! Deflate streams that may refer to what they were given before.
//!
//! Each keeps the end of its input while there is memory for it within the worker's budget; without, it goes on as any
//! other stream, only somewhat larger. Bodies that come faster than they are sent keep a little of their last piece, as
//! a piece that begins with nothing before it is larger by a fiftieth; `tune.comp.window-memory` lets all streams keep
//! more.

use std::cell::Cell;
use std::rc::Rc;

use weir_deflate::{Encoder, WINDOW};

use crate::body::{Ending, push};

/// What a busy stream keeps: two thirds of what a whole window would gain, at an eighth of its time and memory.
const TAIL_BYTES: usize = 4 * 1024;

/// Memory for the tails of a worker's busy streams: a thousand of them.
const TAILS_BYTES: usize = 4 * 1024 * 1024;

/// Pieces below this are no sign of a busy stream.
const BUSY_PIECE_BYTES: usize = 32 * 1024;

/// Memory for windows of a worker's streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    limit_bytes: usize,
    /// Of one stream.
    window_bytes: usize,
    /// Whether streams keep it while they wait for their next piece.
    while_waiting: bool,
    used_bytes: Rc<Cell<usize>>,
}

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, window_bytes: WINDOW, while_waiting: true, used_bytes: Rc::default() }
    }

    /// For streams that are busy: one that waits keeps nothing.
    pub(crate) fn of_tails() -> Self {
        Self {
            limit_bytes: TAILS_BYTES,
            window_bytes: TAIL_BYTES,
            while_waiting: false,
            used_bytes: Rc::default(),
        }
    }

    /// Whether a stream that was given this is worth a tail: the next piece follows at once.
    pub(crate) fn suits(&self, piece: &[u8], ending: Ending) -> bool {
        ending == Ending::Open && piece.len() >= BUSY_PIECE_BYTES && self.used_bytes.get() < self.limit_bytes
    }

    pub(crate) fn is_none(&self) -> bool {
        self.limit_bytes == 0
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Remembering {
    encoder: Encoder,
    /// The end of its input.
    window: Vec<u8>,
    budget: Budget,
}

impl Remembering {
    pub(crate) fn new(encoder: Encoder, budget: &Budget) -> Self {
        Self { encoder, window: Vec::new(), budget: budget.clone() }
    }

    pub(crate) const fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    pub(crate) fn encode(
        &mut self,
        piece: &[u8],
        ending: Ending,
        out: &mut Vec<u8>,
        scratch: &mut weir_deflate::Scratch,
    ) {
        push(self.encoder.after(&self.window), piece, ending, out, scratch);
        match ending {
            Ending::Open => self.remember(piece),
            Ending::Flush if self.budget.while_waiting => self.remember(piece),
            Ending::Flush | Ending::Finish => self.forget(),
        }
    }

    pub(crate) fn remember(&mut self, piece: &[u8]) {
        let most = self.budget.window_bytes;
        let piece = &piece[piece.len().saturating_sub(most)..];
        let length = (self.window.len() + piece.len()).min(most);
        let others = self.budget.used_bytes.get() - self.window.capacity();
        if others + length > self.budget.limit_bytes {
            self.forget();
            return;
        }
        let surplus = self.window.len() + piece.len() - length;
        self.window.drain(..surplus);
        self.window.reserve_exact(piece.len());
        self.window.extend_from_slice(piece);
        self.budget.used_bytes.set(others + self.window.capacity());
    }

    fn forget(&mut self) {
        self.budget.used_bytes.set(self.budget.used_bytes.get() - self.window.capacity());
        self.window = Vec::new();
    }
}

impl Drop for Remembering {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use weir_deflate::{Format, Level, Scratch};

    use super::*;

    fn page(i: usize) -> Vec<u8> {
        format!("<li class=\"event\" id=\"{i}\">an event that looks like the one before it</li>\n")
            .into_bytes()
    }

    fn encode(budget: &Budget, pieces: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut scratch) = (Vec::new(), Scratch::new());
        let mut stream = Remembering::new(Encoder::new(Format::Gzip, Level::Default), budget);
        for piece in pieces {
            stream.encode(piece, Ending::Flush, &mut out, &mut scratch);
            assert!(budget.used_bytes.get() <= budget.limit_bytes);
        }
        stream.encode(&[], Ending::Finish, &mut out, &mut scratch);
        assert_eq!(budget.used_bytes.get(), 0);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut back).expect("a stream that inflates");
        assert_eq!(back, pieces.concat());
        out
    }

    #[test]
    fn pieces_that_repeat_earlier_ones_are_small() {
        let pieces: Vec<_> = (0..50).map(page).collect();
        let (without, with) = (encode(&Budget::new(0), &pieces), encode(&Budget::new(1 << 20), &pieces));
        assert!(with.len() * 2 < without.len(), "{} {}", with.len(), without.len());
    }

    #[test]
    fn windows_end_where_the_budget_does() {
        let long: Vec<_> = (0..9).map(|i| page(i).repeat(100 * i)).collect();
        for limit in [0, 1, 1000, 20_000, WINDOW, WINDOW + 1, 4 * WINDOW] {
            encode(&Budget::new(limit), &long);
        }
    }

    #[test]
    fn a_stream_left_in_the_middle_gives_its_memory_back() {
        let (budget, mut scratch) = (Budget::new(1 << 20), Scratch::new());
        let mut stream = Remembering::new(Encoder::new(Format::Raw, Level::Fast), &budget);
        stream.encode(&page(1), Ending::Open, &mut Vec::new(), &mut scratch);
        assert!(budget.used_bytes.get() >= page(1).len());
        drop(stream);
        assert_eq!(budget.used_bytes.get(), 0);
    }

    #[test]
    fn a_busy_stream_keeps_a_tail_until_it_waits() {
        let (budget, mut scratch) = (Budget::of_tails(), Scratch::new());
        let piece = page(7).repeat(BUSY_PIECE_BYTES / 64);
        assert!(budget.suits(&piece, Ending::Open) && !budget.suits(&piece, Ending::Flush));
        assert!(!budget.suits(&page(7), Ending::Open));
        let mut stream = Remembering::new(Encoder::new(Format::Gzip, Level::Default), &budget);
        let mut out = Vec::new();
        let mut kept = |piece: &[u8], ending| {
            stream.encode(piece, ending, &mut out, &mut scratch);
            budget.used_bytes.get()
        };
        let sizes = [Ending::Open, Ending::Open, Ending::Flush, Ending::Open, Ending::Finish]
            .map(|ending| kept(&piece, ending));
        assert_eq!(sizes, [TAIL_BYTES, TAIL_BYTES, 0, TAIL_BYTES, 0]);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut back).expect("a stream that inflates");
        assert_eq!(back, piece.repeat(5));
    }
}
