//! The search for matches: input as literals and copies.
//!
//! Positions in the table are the low 16 bits of the position in the call, which is also where the bytes are in the
//! ring: the bytes of a candidate are loaded without any arithmetic between, as it is their latency that a search
//! waits for. Only where they are equal is it looked at how far away they are. An entry that was never set is
//! position 0, which is as good a candidate as any.

use crate::arena::{Arena, TABLE, WINDOW};
use crate::symbols::MAX_MATCH;

/// Takes what the search finds.
pub(crate) trait Sink {
    /// The lowest byte is a literal.
    fn literal(&mut self, arena: &mut Arena, word: u64);
    /// The lowest byte is a literal, if so.
    fn maybe_literal(&mut self, arena: &mut Arena, word: u64, so: bool);
    /// The lowest two bytes are literals.
    fn two_literals(&mut self, arena: &mut Arena, word: u64);
    /// A copy.
    fn copy(&mut self, arena: &mut Arena, length: usize, distance: usize);
}

/// What the table keeps for a hash: `N` positions, the newest first.
pub(crate) trait Bucket<const N: usize>: Copy {
    /// Puts a position in and returns what was there before.
    fn replace(arena: &mut Arena, hash: usize, at: usize) -> [u16; N];
}

impl Bucket<2> for u32 {
    #[inline(always)]
    fn replace(arena: &mut Arena, hash: usize, at: usize) -> [u16; 2] {
        let entry = &mut arena.two_newest[hash & (TABLE - 1)];
        let before = *entry;
        *entry = before << 16 | (at as Self & 0xffff);
        [before as u16, (before >> 16) as u16]
    }
}

/// The least copy: with a code of its own for each block, shorter ones cost more than they save.
const LEAST_COPY: usize = 5;
const LEAST_MASK: u64 = (1 << (8 * LEAST_COPY)) - 1;
/// A multiplier for the low 40 bits of a word.
const HASH: u64 = 889_523_592_379 << 24;
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
    (word.wrapping_mul(HASH) >> (64 - SIZE.trailing_zeros())) as usize
}

/// What a bucket has for one position: where, and how the first 8 bytes differ.
#[derive(Clone, Copy)]
struct Candidates<const N: usize> {
    positions: [u16; N],
    differing: [u64; N],
}

impl<const N: usize> Candidates<N> {
    #[inline(always)]
    fn of(arena: &Arena, word: u64, positions: [u16; N]) -> Self {
        Self { positions, differing: positions.map(|position| word ^ arena.word(usize::from(position))) }
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

    /// The longest copy, if one of at least 8 is near enough: length and distance.
    #[inline(always)]
    fn longest(&self, arena: &Arena, at: usize, end: usize) -> (usize, usize) {
        let limit = (end - at).min(MAX_MATCH);
        let mut best = (0, 0);
        for (&position, &differing) in self.positions.iter().zip(&self.differing) {
            let distance = distance(at, position);
            if (N == 1 || differing == 0) && distance <= WINDOW {
                let length = arena.match_length(at, distance, limit);
                if length > best.0 {
                    best = (length, distance);
                }
            }
        }
        best
    }

    /// The longest copy of less than 8, if near enough.
    #[inline(always)]
    fn short(&self, at: usize) -> (usize, usize) {
        let mut best = (0, 0);
        for (&position, &differing) in self.positions.iter().zip(&self.differing) {
            let distance = distance(at, position);
            let length = (differing.trailing_zeros() >> 3) as usize;
            if (N == 1 || length > best.0) && distance <= WINDOW {
                best = (length, distance);
            }
        }
        best
    }
}

/// From 1 to 65,536: how far back a position is of which the low 16 bits are known. Beyond the window it is not
/// there any more, or not yet.
#[inline(always)]
fn distance(at: usize, position: u16) -> usize {
    usize::from((at as u16).wrapping_sub(1).wrapping_sub(position)) + 1
}

/// Turns the loaded bytes from `start` to `end` into literals and copies.
#[inline(always)]
pub(crate) fn parse<B: Bucket<N>, const N: usize, const SIZE: usize, S: Sink>(
    arena: &mut Arena,
    start: usize,
    end: usize,
    mut sink: S,
) -> S {
    let mut at = start;
    let last_step = end.saturating_sub(STEP_ROOM);
    let mut patience_ends = at + PATIENCE;
    while at < last_step {
        let word = arena.word(at);
        let next = arena.word(at + 1);
        let here = B::replace(arena, hash::<SIZE>(word), at);
        let there = B::replace(arena, hash::<SIZE>(next), at + 1);
        let here = Candidates::of(arena, word, here);
        let there = Candidates::of(arena, next, there);
        // Long ones first: the order saves a misprediction, and a long one there before a short one here is a lazy
        // match for free.
        let (from, (length, distance)) = if here.is_long() {
            (at, here.longest(arena, at, end))
        } else if there.is_long() {
            (at + 1, there.longest(arena, at + 1, end))
        } else if here.is_enough() {
            (at, here.short(at))
        } else if there.is_enough() {
            (at + 1, there.short(at + 1))
        } else {
            (at, (0, 0))
        };
        if length < LEAST_COPY {
            sink.two_literals(arena, word);
            at += 2;
            if at > patience_ends {
                let pairs = ((at - patience_ends) / SKIP_STEP).min(MAX_SKIP).min((end - at) / 2);
                for _ in 0..pairs {
                    let word = arena.word(at);
                    sink.two_literals(arena, word);
                    at += 2;
                }
            }
            continue;
        }
        if from > at {
            sink.literal(arena, word);
        }
        sink.copy(arena, length, distance);
        let inside = arena.word(from + 2);
        B::replace(arena, hash::<SIZE>(inside), from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail = arena.word(at - 2);
        B::replace(arena, hash::<SIZE>(tail), at - 2);
        B::replace(arena, hash::<SIZE>(tail >> 8), at - 1);
    }
    while at < end {
        let word = arena.word(at);
        sink.literal(arena, word);
        at += 1;
    }
    sink
}

/// Looks up and replaces a hash's entry.
#[inline(always)]
fn look<const SIZE: usize>(arena: &mut Arena, word: u64, at: usize) -> u16 {
    let index = hash::<SIZE>(word);
    core::mem::replace(&mut arena.newest[index & (TABLE - 1)], at as u16)
}

const ONE: bool = false;

#[inline(always)]
pub(crate) fn parse_one<const SIZE: usize, S: Sink>(
    arena: &mut Arena,
    start: usize,
    end: usize,
    mut sink: S,
) -> S {
    let mut at = start;
    let last_step = end.saturating_sub(STEP_ROOM);
    let mut patience_ends = at + PATIENCE;
    while at < last_step {
        let word = arena.word(at);
        let next = arena.word(at + 1);
        let here = look::<SIZE>(arena, word, at);
        let there = look::<SIZE>(arena, next, at + 1);
        let x = word ^ arena.word(here as usize);
        let y = next ^ arena.word(there as usize);
        let e0 = x & LEAST_MASK == 0;
        let e1 = y & LEAST_MASK == 0;
        if !e0 && !e1 {
            sink.two_literals(arena, word);
            at += 2;
            if at > patience_ends {
                let pairs = ((at - patience_ends) / SKIP_STEP).min(MAX_SKIP).min((end - at) / 2);
                for _ in 0..pairs {
                    let word = arena.word(at);
                    sink.two_literals(arena, word);
                    at += 2;
                }
            }
            continue;
        }
        let skipped = if ONE {
            !e0 | ((x != 0) & (y == 0))
        } else if e0 {
            (x != 0) & (y == 0)
        } else {
            true
        };
        let position = core::hint::select_unpredictable(skipped, there, here);
        let differing = core::hint::select_unpredictable(skipped, y, x);
        let from = at + usize::from(skipped);
        let distance = distance(from, position);
        if distance > WINDOW {
            sink.two_literals(arena, word);
            at += 2;
            continue;
        }
        sink.maybe_literal(arena, word, skipped);
        let candidate = position as usize;
        let x1 = arena.word(from + 8) ^ arena.word(candidate + 8);
        let x2 = arena.word(from + 16) ^ arena.word(candidate + 16);
        let l0 = (differing.trailing_zeros() >> 3) as usize;
        let l1 = (x1.trailing_zeros() >> 3) as usize;
        let l2 = (x2.trailing_zeros() >> 3) as usize;
        let more = core::hint::select_unpredictable(x1 == 0, 8 + l2, l1);
        let more = core::hint::select_unpredictable(differing == 0, more, 0);
        let mut length = l0 + more;
        let limit = (end - from).min(MAX_MATCH);
        if length >= 24 {
            length = arena.extend(from, candidate, 24, limit);
        }
        let length = length.min(limit);
        sink.copy(arena, length, distance);
        let inside = arena.word(from + 2);
        look::<SIZE>(arena, inside, from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail = arena.word(at - 2);
        look::<SIZE>(arena, tail, at - 2);
        look::<SIZE>(arena, tail >> 8, at - 1);
    }
    while at < end {
        let word = arena.word(at);
        sink.literal(arena, word);
        at += 1;
    }
    sink
}
