//! The search for matches: input as literals and copies.
//!
//! Positions in the table are the low 16 bits of the position in the call. A distance is taken modulo the window, so
//! that every entry, even a stale one or the initial zero, points at real earlier bytes: there is no test whether an
//! entry is valid, only whether the bytes are equal.

use crate::symbols::MAX_MATCH;
use crate::window::{WINDOW, Window};

/// Takes what the search finds.
pub(crate) trait Sink {
    /// The lowest byte is a literal.
    fn literal(&mut self, word: u64);
    /// The lowest two bytes are literals.
    fn two_literals(&mut self, word: u64);
    /// A copy.
    fn copy(&mut self, length: usize, distance: usize);
}

/// What the table keeps for a hash: `N` positions, the newest first.
pub(crate) trait Bucket<const N: usize>: Copy {
    /// Puts a position in and returns what was there before.
    fn replace(&mut self, at: usize) -> Self;
    fn positions(self) -> [u16; N];
}

impl Bucket<1> for u16 {
    #[inline(always)]
    fn replace(&mut self, at: usize) -> Self {
        core::mem::replace(self, at as Self)
    }

    #[inline(always)]
    fn positions(self) -> [u16; 1] {
        [self]
    }
}

impl Bucket<2> for u32 {
    #[inline(always)]
    fn replace(&mut self, at: usize) -> Self {
        let before = *self;
        *self = before << 16 | (at as Self & 0xffff);
        before
    }

    #[inline(always)]
    fn positions(self) -> [u16; 2] {
        [self as u16, (self >> 16) as u16]
    }
}

/// The least copy: with a code of its own for each block, shorter ones cost more than they save.
const LEAST_COPY: usize = 5;
const LEAST_MASK: u64 = (1 << (8 * LEAST_COPY)) - 1;
/// A multiplier for the low 40 bits of a word.
const HASH: u64 = 889_523_592_379;
/// Bytes without a copy after which the search begins to skip.
const PATIENCE: usize = 256;
/// Each so many further bytes without a copy skip two more at each step.
const SKIP_STEP: usize = 64;
/// The most literal pairs skipped at a step.
const MAX_SKIP: usize = 32;
/// What a step may need ahead of it: a step begins only where a copy of this length is possible.
const STEP_ROOM: usize = 8;

#[inline(always)]
fn hash<const SIZE: usize>(word: u64) -> usize {
    // Only the least copy's bytes count; the result is below SIZE, which the compiler sees.
    ((word << 24).wrapping_mul(HASH) >> (64 - SIZE.trailing_zeros())) as usize
}

/// The distance back from `at` to a position of which the low 16 bits are known.
#[inline(always)]
fn distance(at: usize, position: u16) -> usize {
    ((at as u16).wrapping_sub(1).wrapping_sub(position) as usize & (WINDOW - 1)) + 1
}

/// What a bucket has for one position: distances, and how the first 8 bytes differ.
#[derive(Clone, Copy)]
struct Candidates<const N: usize> {
    distances: [usize; N],
    differing: [u64; N],
}

impl<const N: usize> Candidates<N> {
    #[inline(always)]
    fn of(window: &Window, at: usize, word: u64, bucket: impl Bucket<N>) -> Self {
        let distances = bucket.positions().map(|position| distance(at, position));
        Self { distances, differing: distances.map(|distance| word ^ window.u64(at - distance)) }
    }

    /// Whether 8 bytes are equal.
    #[inline(always)]
    fn is_long(&self) -> bool {
        self.differing.iter().fold(false, |any, &differing| any | (differing == 0))
    }

    /// Whether the least copy is possible.
    #[inline(always)]
    fn is_enough(&self) -> bool {
        self.differing.iter().fold(false, |any, &differing| any | (differing & LEAST_MASK == 0))
    }

    /// The longest copy, one of at least 8 being known to exist.
    #[inline(always)]
    fn longest(&self, window: &Window, at: usize, limit: usize) -> (usize, usize) {
        let mut best = (0, 0);
        for (&distance, &differing) in self.distances.iter().zip(&self.differing) {
            if N == 1 || differing == 0 {
                let length = window.match_length(at, distance, limit);
                if length > best.0 {
                    best = (length, distance);
                }
            }
        }
        best
    }

    /// The longest copy of less than 8.
    #[inline(always)]
    fn short(&self) -> (usize, usize) {
        let mut best = (0, 0);
        for (&distance, &differing) in self.distances.iter().zip(&self.differing) {
            let length = (differing.trailing_zeros() >> 3) as usize;
            if length > best.0 {
                best = (length, distance);
            }
        }
        best
    }
}

/// Turns the loaded bytes from `start` to `end` into literals and copies.
#[inline(always)]
pub(crate) fn parse<B: Bucket<N>, const N: usize, const SIZE: usize, S: Sink>(
    window: &Window,
    table: &mut [B; SIZE],
    start: usize,
    end: usize,
    sink: &mut S,
) {
    let mut at = start;
    let last_step = end.saturating_sub(STEP_ROOM);
    if at == 0 && at < last_step {
        // The first byte can have no candidate: from the second on, position 0 is one.
        let word = window.u64(0);
        table[hash::<SIZE>(word)].replace(0);
        sink.literal(word);
        at = 1;
    }
    let mut patience_ends = at + PATIENCE;
    while at < last_step {
        let word = window.u64(at);
        let next = window.u64(at + 1);
        let bucket = table[hash::<SIZE>(word)].replace(at);
        let next_bucket = table[hash::<SIZE>(next)].replace(at + 1);
        let here = Candidates::of(window, at, word, bucket);
        let there = Candidates::of(window, at + 1, next, next_bucket);
        let (from, (length, distance));
        // Long ones first: the order saves a misprediction, and a long one there before a short one here is a lazy
        // match for free.
        if here.is_long() {
            from = at;
            (length, distance) = here.longest(window, from, (end - from).min(MAX_MATCH));
        } else if there.is_long() {
            sink.literal(word);
            from = at + 1;
            (length, distance) = there.longest(window, from, (end - from).min(MAX_MATCH));
        } else if here.is_enough() {
            from = at;
            (length, distance) = here.short();
        } else if there.is_enough() {
            sink.literal(word);
            from = at + 1;
            (length, distance) = there.short();
        } else {
            sink.two_literals(word);
            at += 2;
            if at > patience_ends {
                at = skip(window, at, last_step, (at - patience_ends) / SKIP_STEP, sink);
            }
            continue;
        }
        sink.copy(length, distance);
        let inside = window.u64(from + 2);
        table[hash::<SIZE>(inside)].replace(from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail = window.u64(at - 2);
        table[hash::<SIZE>(tail)].replace(at - 2);
        table[hash::<SIZE>(tail >> 8)].replace(at - 1);
    }
    while at < end {
        sink.literal(window.u64(at));
        at += 1;
    }
}

/// Where nothing repeats, looks at fewer positions.
#[cold]
fn skip<S: Sink>(window: &Window, mut at: usize, end: usize, pairs: usize, sink: &mut S) -> usize {
    for _ in 0..pairs.min(MAX_SKIP) {
        if at + 2 > end {
            break;
        }
        sink.two_literals(window.u64(at));
        at += 2;
    }
    at
}
