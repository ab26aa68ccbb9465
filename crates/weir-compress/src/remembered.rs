//! Deflate streams that may refer to what they were given before (`tune.comp.window-memory`).
//!
//! Each keeps the end of its input while there is memory for it within the worker's budget; without, it goes on as any
//! other stream, only somewhat larger.

use std::cell::Cell;
use std::rc::Rc;

use weir_deflate::{Encoder, WINDOW};

use crate::Ending;

/// Memory for windows of a worker's streams.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    limit_bytes: usize,
    used_bytes: Rc<Cell<usize>>,
}

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: Rc::default() }
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
    used_bytes: Rc<Cell<usize>>,
}

impl Remembering {
    pub(crate) fn new(encoder: Encoder, budget: &Budget) -> Self {
        Self { encoder, window: Vec::new(), used_bytes: Rc::clone(&budget.used_bytes) }
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
        budget: &Budget,
    ) {
        let after = self.encoder.after(&self.window);
        match ending {
            Ending::Open => after.push(piece, out, scratch),
            Ending::Flush => after.push_and_flush(piece, out, scratch),
            Ending::Finish => after.push_and_finish(piece, out, scratch),
        }
        match ending {
            Ending::Open | Ending::Flush => self.remember(piece, budget.limit_bytes),
            Ending::Finish => self.forget(),
        }
    }

    fn remember(&mut self, piece: &[u8], limit_bytes: usize) {
        let piece = &piece[piece.len().saturating_sub(WINDOW)..];
        let length = (self.window.len() + piece.len()).min(WINDOW);
        let others = self.used_bytes.get() - self.window.capacity();
        if others + length > limit_bytes {
            self.forget();
            return;
        }
        let surplus = self.window.len() + piece.len() - length;
        self.window.drain(..surplus);
        self.window.reserve_exact(piece.len());
        self.window.extend_from_slice(piece);
        self.used_bytes.set(others + self.window.capacity());
    }

    fn forget(&mut self) {
        self.used_bytes.set(self.used_bytes.get() - self.window.capacity());
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
            stream.encode(piece, Ending::Flush, &mut out, &mut scratch, budget);
            assert!(budget.used_bytes.get() <= budget.limit_bytes);
        }
        stream.encode(&[], Ending::Finish, &mut out, &mut scratch, budget);
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
        stream.encode(&page(1), Ending::Open, &mut Vec::new(), &mut scratch, &budget);
        assert!(budget.used_bytes.get() >= page(1).len());
        drop(stream);
        assert_eq!(budget.used_bytes.get(), 0);
    }
}
