//! The search for matches: input as literals and copies.
//!
//! Positions in the table are the low 16 bits of the position in the call, which is also where the bytes are in the
//! ring: the bytes of a candidate are loaded without any arithmetic between, as it is their latency that a search
//! waits for. Only where they are equal is it looked at how far away they are. An entry that was never set is
//! position 0, which is as good a candidate as any.

use core::hint::select_unpredictable;

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
/// Lengths below this are found without a branch.
const SHORT: usize = 24;

#[inline(always)]
fn hash<const SIZE: usize>(word: u64) -> usize {
    // Only the least copy's bytes count; the result is below SIZE, which the compiler sees.
    (word.wrapping_mul(HASH) >> (64 - SIZE.trailing_zeros())) as usize
}

/// Puts a position in the place of its hash and returns the one before.
#[inline(always)]
fn replace<const SIZE: usize>(arena: &mut Arena, word: u64, at: usize) -> u16 {
    core::mem::replace(&mut arena.newest[hash::<SIZE>(word) & (TABLE - 1)], at as u16)
}

/// Puts a position in the place of its hash and returns the two before, the newer first.
#[inline(always)]
fn replace_two<const SIZE: usize>(arena: &mut Arena, word: u64, at: usize) -> [u16; 2] {
    let entry = &mut arena.two_newest[hash::<SIZE>(word) & (TABLE - 1)];
    let before = *entry;
    *entry = before << 16 | (at as u32 & 0xffff);
    [before as u16, (before >> 16) as u16]
}

/// A place that may have the same bytes.
#[derive(Clone, Copy)]
struct Candidate {
    position: u16,
    /// How its first 8 bytes differ.
    differing: u64,
}

impl Candidate {
    #[inline(always)]
    fn at(arena: &Arena, word: u64, position: u16) -> Self {
        Self { position, differing: word ^ arena.word(usize::from(position)) }
    }

    #[inline(always)]
    fn select(condition: bool, yes: Self, no: Self) -> Self {
        Self {
            position: select_unpredictable(condition, yes.position, no.position),
            differing: select_unpredictable(condition, yes.differing, no.differing),
        }
    }

    /// Whether 8 bytes are the same.
    #[inline(always)]
    fn is_long(self) -> bool {
        self.differing == 0
    }

    /// Whether it is worth a copy.
    #[inline(always)]
    fn is_enough(self) -> bool {
        self.differing & LEAST_MASK == 0
    }

    /// From 1 to 65,536: how far back it is. Beyond the window it is not there any more, or not yet.
    #[inline(always)]
    fn distance(self, from: usize) -> usize {
        usize::from((from as u16).wrapping_sub(1).wrapping_sub(self.position)) + 1
    }

    /// How many of the first 8 bytes are the same.
    #[inline(always)]
    fn short_length(self) -> usize {
        equal_bytes(self.differing)
    }

    /// How many bytes are the same, up to `limit`.
    #[inline(always)]
    fn length(self, arena: &Arena, from: usize, limit: usize) -> usize {
        let position = usize::from(self.position);
        let next = arena.word(from + 8) ^ arena.word(position + 8);
        let after = arena.word(from + 16) ^ arena.word(position + 16);
        let more = select_unpredictable(next == 0, 8 + equal_bytes(after), equal_bytes(next));
        let length = self.short_length() + select_unpredictable(self.is_long(), more, 0);
        if length < SHORT { length.min(limit) } else { arena.extend(from, position, SHORT, limit) }
    }
}

#[inline(always)]
fn equal_bytes(differing: u64) -> usize {
    (differing.trailing_zeros() >> 3) as usize
}

/// Two literals, and more where nothing repeats: returns where to go on.
#[inline(always)]
fn step_on<S: Sink>(arena: &mut Arena, at: usize, end: usize, patience_ends: usize, sink: &mut S) -> usize {
    let word = arena.word(at);
    sink.two_literals(arena, word);
    let mut at = at + 2;
    if at > patience_ends {
        let pairs = ((at - patience_ends) / SKIP_STEP).min(MAX_SKIP).min((end - at) / 2);
        for _ in 0..pairs {
            let word = arena.word(at);
            sink.two_literals(arena, word);
            at += 2;
        }
    }
    at
}

#[inline(always)]
fn literals<S: Sink>(arena: &mut Arena, start: usize, end: usize, sink: &mut S) {
    for at in start..end {
        let word = arena.word(at);
        sink.literal(arena, word);
    }
}

/// Turns the loaded bytes from `start` to `end` into literals and copies, with one candidate for each position.
///
/// Two positions are looked at together, so that their loads overlap. What is unpredictable in the data is selected
/// instead of branched on, but for where the next copy begins.
#[inline(always)]
pub(crate) fn parse<const SIZE: usize, S: Sink>(
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
        let position = replace::<SIZE>(arena, word, at);
        let next_position = replace::<SIZE>(arena, next, at + 1);
        let here = Candidate::at(arena, word, position);
        let there = Candidate::at(arena, next, next_position);
        if !here.is_enough() && !there.is_enough() {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        }
        // A long one there before a short one here is a lazy match for free.
        let skipped = !here.is_enough() || (!here.is_long() & there.is_long());
        let candidate = Candidate::select(skipped, there, here);
        let from = at + usize::from(skipped);
        let distance = candidate.distance(from);
        if distance > WINDOW {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        }
        sink.maybe_literal(arena, word, skipped);
        let length = candidate.length(arena, from, (end - from).min(MAX_MATCH));
        sink.copy(arena, length, distance);
        let inside = arena.word(from + 2);
        replace::<SIZE>(arena, inside, from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail = arena.word(at - 2);
        replace::<SIZE>(arena, tail, at - 2);
        replace::<SIZE>(arena, tail >> 8, at - 1);
    }
    literals(arena, at, end, &mut sink);
    sink
}

/// As [`parse`], with two candidates for each position.
#[inline(always)]
pub(crate) fn parse_two<const SIZE: usize, S: Sink>(
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
        let positions = replace_two::<SIZE>(arena, word, at);
        let next_positions = replace_two::<SIZE>(arena, next, at + 1);
        let here = positions.map(|position| Candidate::at(arena, word, position));
        let there = next_positions.map(|position| Candidate::at(arena, next, position));
        // The order saves a misprediction; with two candidates, selecting costs more than it saves.
        let (from, (length, distance)) = if here[0].is_long() | here[1].is_long() {
            (at, longest(arena, here, at, end))
        } else if there[0].is_long() | there[1].is_long() {
            (at + 1, longest(arena, there, at + 1, end))
        } else if here[0].is_enough() | here[1].is_enough() {
            (at, longer(here, at))
        } else if there[0].is_enough() | there[1].is_enough() {
            (at + 1, longer(there, at + 1))
        } else {
            (at, (0, 0))
        };
        if length < LEAST_COPY {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        }
        if from > at {
            sink.literal(arena, word);
        }
        sink.copy(arena, length, distance);
        let inside = arena.word(from + 2);
        replace_two::<SIZE>(arena, inside, from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail = arena.word(at - 2);
        replace_two::<SIZE>(arena, tail, at - 2);
        replace_two::<SIZE>(arena, tail >> 8, at - 1);
    }
    literals(arena, at, end, &mut sink);
    sink
}

/// The longest of the copies of at least 8 that are near enough: length and distance.
#[inline(always)]
fn longest(arena: &Arena, candidates: [Candidate; 2], from: usize, end: usize) -> (usize, usize) {
    let limit = (end - from).min(MAX_MATCH);
    let mut best = (0, 0);
    for candidate in candidates {
        let distance = candidate.distance(from);
        if candidate.is_long() && distance <= WINDOW {
            let length = arena.extend(from, usize::from(candidate.position), 8, limit);
            if length > best.0 {
                best = (length, distance);
            }
        }
    }
    best
}

/// The longer of the copies of less than 8, if near enough: length and distance.
#[inline(always)]
fn longer(candidates: [Candidate; 2], from: usize) -> (usize, usize) {
    let mut best = (0, 0);
    for candidate in candidates {
        let distance = candidate.distance(from);
        if candidate.short_length() > best.0 && distance <= WINDOW {
            best = (candidate.short_length(), distance);
        }
    }
    best
}
