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
    /// The lowest two bytes are literals.
    fn two_literals(&mut self, arena: &mut Arena, word: u64);
    /// A copy.
    fn copy(&mut self, arena: &mut Arena, length: usize, distance: usize);
}

/// The least copy with one candidate, where literals are cheap: shorter ones cost more time than they save bytes.
pub(crate) const LEAST: usize = 6;
/// The least copy in the fixed code, whose literals are dear.
pub(crate) const LEAST_IN_FIXED: usize = 4;
/// The least copy with two candidates.
pub(crate) const LEAST_OF_TWO: usize = 5;

/// A multiplier for as many of a word's low bytes.
const fn multiplier(bytes: usize) -> u64 {
    0x9e37_79b9_7f4a_7c15 << (64 - 8 * bytes)
}

/// As many of a word's low bytes.
const fn mask(bytes: usize) -> u64 {
    (1 << (8 * bytes)) - 1
}
/// Bytes without a copy after which the search begins to skip.
const PATIENCE: usize = 256;
/// Each so many further bytes without a copy skip two more at each step.
const SKIP_STEP: usize = 64;
/// The most literal pairs skipped at a step.
const MAX_SKIP: usize = 32;
/// What a step may need ahead of it: a step begins only where a copy of this length is possible.
const STEP_ROOM: usize = 8;
/// Lengths below this are found without a loop.
const SHORT: usize = 24;

#[inline(always)]
fn hash<const SIZE: usize, const LEAST: usize>(word: u64) -> usize {
    // Only the least copy's bytes count; the result is below SIZE, which the compiler sees.
    (word.wrapping_mul(const { multiplier(LEAST) }) >> (64 - SIZE.trailing_zeros())) as usize
}

/// Puts a position in the place of its hash and returns the one before.
#[inline(always)]
fn replace<const SIZE: usize, const LEAST: usize>(arena: &mut Arena, word: u64, at: usize) -> u16 {
    core::mem::replace(&mut arena.newest[hash::<SIZE, LEAST>(word) & (TABLE - 1)], at as u16)
}

/// Puts a position in the place of its hash and returns the two before, the newer first.
#[inline(always)]
fn replace_two<const SIZE: usize>(arena: &mut Arena, word: u64, at: usize) -> [u16; 2] {
    let entry = &mut arena.two_newest[hash::<SIZE, LEAST_OF_TWO>(word) & (TABLE - 1)];
    let before = *entry;
    *entry = before << 16 | (at as u32 & 0xffff);
    [before as u16, (before >> 16) as u16]
}

/// Each so many positions of the window are in the table: copies are long, so that most are found a little later.
const WINDOW_STEP: usize = 3;

/// Puts the positions of the bytes before the input in the table.
pub(crate) fn insert_window<const SIZE: usize, const TWO: bool, const LEAST: usize>(
    arena: &mut Arena,
    end: usize,
) {
    for at in (0..end).step_by(WINDOW_STEP) {
        let word = arena.word(at);
        if TWO {
            replace_two::<SIZE>(arena, word, at);
        } else {
            replace::<SIZE, LEAST>(arena, word, at);
        }
    }
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
        Self { position, differing: word ^ arena.word_after::<0>(position) }
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
    fn is_enough(self, least: usize) -> bool {
        self.differing & mask(least) == 0
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
        if !self.is_long() {
            // A step begins only where there is room for as much.
            return self.short_length();
        }
        let (place, position) = (from as u16, self.position);
        let next = arena.word_after::<8>(place) ^ arena.word_after::<8>(position);
        if next != 0 {
            return (8 + equal_bytes(next)).min(limit);
        }
        let after = arena.word_after::<16>(place) ^ arena.word_after::<16>(position);
        if after != 0 {
            return (16 + equal_bytes(after)).min(limit);
        }
        arena.extend(from, usize::from(position), SHORT, limit)
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
/// Two positions are looked at together, so that their loads overlap. A step begins only when it is known where the
/// one before ended, so what follows a copy waits for its length: branches let the processor go on with what it expects,
/// selections would make it wait for the bytes that are compared.
#[inline(always)]
pub(crate) fn parse<const SIZE: usize, const LEAST: usize, S: Sink>(
    arena: &mut Arena,
    start: usize,
    end: usize,
    mut sink: S,
) -> S {
    let mut at = start;
    let last_step = end.saturating_sub(STEP_ROOM);
    let mut patience_ends = at + PATIENCE;
    while at < last_step {
        let place = at as u16;
        let word = arena.word_after::<0>(place);
        let next = arena.word_after::<1>(place);
        let position = replace::<SIZE, LEAST>(arena, word, at);
        let next_position = replace::<SIZE, LEAST>(arena, next, at + 1);
        let here = Candidate::at(arena, word, position);
        let there = Candidate::at(arena, next, next_position);
        // Tests in this order cost one misprediction a copy; a long one there before a short one here is a lazy match
        // for free.
        let (skipped, candidate) = if here.is_long() {
            (false, here)
        } else if there.is_long() {
            (true, there)
        } else if here.is_enough(LEAST) {
            (false, here)
        } else if there.is_enough(LEAST) {
            (true, there)
        } else {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        };
        let from = at + usize::from(skipped);
        let distance = candidate.distance(from);
        if distance > WINDOW {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        }
        if skipped {
            sink.literal(arena, word);
        }
        let length = candidate.length(arena, from, (end - from).min(MAX_MATCH));
        sink.copy(arena, length, distance);
        let inside = arena.word_after::<2>(from as u16);
        replace::<SIZE, LEAST>(arena, inside, from + 2);
        at = from + length;
        patience_ends = at + PATIENCE;
        let tail_place = (at - 2) as u16;
        let tail = arena.word_after::<0>(tail_place);
        let last = arena.word_after::<1>(tail_place);
        replace::<SIZE, LEAST>(arena, tail, at - 2);
        replace::<SIZE, LEAST>(arena, last, at - 1);
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
        let place = at as u16;
        let word = arena.word_after::<0>(place);
        let next = arena.word_after::<1>(place);
        let positions = replace_two::<SIZE>(arena, word, at);
        let next_positions = replace_two::<SIZE>(arena, next, at + 1);
        let here = positions.map(|position| Candidate::at(arena, word, position));
        let there = next_positions.map(|position| Candidate::at(arena, next, position));
        // The order is that of one candidate.
        let (skipped, (length, distance)) = if here[0].is_long() | here[1].is_long() {
            (false, longest(arena, here, at, end))
        } else if there[0].is_long() | there[1].is_long() {
            (true, longest(arena, there, at + 1, end))
        } else if here[0].is_enough(LEAST_OF_TWO) | here[1].is_enough(LEAST_OF_TWO) {
            (false, longer(here, at))
        } else if there[0].is_enough(LEAST_OF_TWO) | there[1].is_enough(LEAST_OF_TWO) {
            (true, longer(there, at + 1))
        } else {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        };
        let from = at + usize::from(skipped);
        if length < LEAST_OF_TWO {
            at = step_on(arena, at, end, patience_ends, &mut sink);
            continue;
        }
        if skipped {
            sink.literal(arena, word);
        }
        sink.copy(arena, length, distance);
        let inside = arena.word_after::<2>(from as u16);
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
            let length = candidate.length(arena, from, limit);
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
    let [newer, older] = candidates;
    let (length, more) = (newer.short_length(), older.short_length());
    let candidate = Candidate::select(more > length, older, newer);
    let distance = candidate.distance(from);
    if distance > WINDOW { (0, 0) } else { (length.max(more), distance) }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Found {
        Literal(u8),
        Copy(usize, usize),
    }

    #[derive(Default)]
    struct Record(Vec<Found>);

    impl Sink for Record {
        fn literal(&mut self, _: &mut Arena, word: u64) {
            self.0.push(Found::Literal(word as u8));
        }

        fn two_literals(&mut self, arena: &mut Arena, word: u64) {
            self.literal(arena, word);
            self.literal(arena, word >> 8);
        }

        fn copy(&mut self, _: &mut Arena, length: usize, distance: usize) {
            self.0.push(Found::Copy(length, distance));
        }
    }

    /// Loads and parses as the engine does; the first bytes are the window.
    fn fast(input: &[u8], window: usize, two: bool) -> Vec<Found> {
        let mut arena = Box::new(Arena::EMPTY);
        let mut sink = Record::default();
        for start in (0..input.len()).step_by(WINDOW) {
            let end = input.len().min(start + WINDOW);
            arena.load(start, &input[start..end]);
            if start == 0 && two {
                insert_window::<TABLE, true, LEAST>(&mut arena, window);
            } else if start == 0 {
                insert_window::<TABLE, false, LEAST>(&mut arena, window);
            }
            let start = start.max(window);
            sink = if two {
                parse_two::<TABLE, _>(&mut arena, start, end, sink)
            } else {
                parse::<TABLE, LEAST, _>(&mut arena, start, end, sink)
            };
        }
        sink.0
    }

    /// The same search in the plainest words, without ring, masks and selection.
    struct Naive<'a> {
        input: &'a [u8],
        /// What is loaded; behind it are zeroes.
        end: usize,
        two: bool,
        table: Vec<Vec<usize>>,
        found: Vec<Found>,
    }

    impl Naive<'_> {
        fn byte(&self, at: usize) -> u8 {
            if at < self.end { self.input[at] } else { 0 }
        }

        fn insert(&mut self, at: usize) -> Vec<usize> {
            let word = (0..8).fold(0u64, |word, i| word | u64::from(self.byte(at + i)) << (8 * i));
            let hash = if self.two { hash::<TABLE, LEAST_OF_TWO>(word) } else { hash::<TABLE, LEAST>(word) };
            let entries = &mut self.table[hash];
            let before = entries.clone();
            entries.insert(0, at);
            entries.truncate(before.len());
            before
        }

        fn equal(&self, at: usize, position: usize, limit: usize) -> usize {
            (0..limit).take_while(|&i| self.byte(position + i) == self.byte(at + i)).count()
        }

        /// The longest copy, if one of the positions has `least` bytes, near or not, and one of them that is near.
        fn best(&self, at: usize, positions: &[usize], least: usize) -> Option<Option<(usize, usize)>> {
            let limit = (self.end - at).min(MAX_MATCH);
            let lengths: Vec<_> = positions.iter().map(|&position| self.equal(at, position, limit)).collect();
            lengths.iter().find(|&&length| length >= least)?;
            let near = |position: usize| position < at && at - position <= WINDOW;
            let longest_short = lengths.iter().copied().max().filter(|_| least < 8);
            let mut best = None;
            for (&length, &position) in lengths.iter().zip(positions) {
                if length >= longest_short.unwrap_or(least)
                    && near(position)
                    && best.is_none_or(|(longest, _)| length > longest)
                {
                    best = Some((length, at - position));
                }
            }
            Some(best)
        }

        fn literal(&mut self, at: usize) {
            self.found.push(Found::Literal(self.input[at]));
        }

        fn parse(&mut self, start: usize) {
            let mut at = start;
            let mut since = start;
            let least = if self.two { LEAST_OF_TWO } else { LEAST };
            while at + STEP_ROOM < self.end {
                let here = self.insert(at);
                let there = self.insert(at + 1);
                let long = self.best(at, &here, 8).map(|found| (at, found));
                let long = long.or_else(|| self.best(at + 1, &there, 8).map(|found| (at + 1, found)));
                let short = || self.best(at, &here, least).map(|found| (at, found));
                let short =
                    || short().or_else(|| self.best(at + 1, &there, least).map(|found| (at + 1, found)));
                let Some((from, Some((length, distance)))) = long.or_else(short) else {
                    self.literal(at);
                    self.literal(at + 1);
                    at += 2;
                    if at > since + PATIENCE {
                        let pairs =
                            ((at - since - PATIENCE) / SKIP_STEP).min(MAX_SKIP).min((self.end - at) / 2);
                        (at..at + 2 * pairs).for_each(|at| self.literal(at));
                        at += 2 * pairs;
                    }
                    continue;
                };
                if from > at {
                    self.literal(at);
                }
                self.found.push(Found::Copy(length, distance));
                at = from + length;
                since = at;
                self.insert(from + 2);
                self.insert(at - 2);
                self.insert(at - 1);
            }
            (at..self.end).for_each(|at| self.literal(at));
        }
    }

    fn naive(input: &[u8], window: usize, two: bool) -> Vec<Found> {
        let table = alloc::vec![alloc::vec![0; if two { 2 } else { 1 }]; TABLE];
        let mut naive = Naive { input, end: 0, two, table, found: Vec::new() };
        for start in (0..input.len()).step_by(WINDOW) {
            naive.end = input.len().min(start + WINDOW);
            if start == 0 {
                (0..window).step_by(WINDOW_STEP).for_each(|at| drop(naive.insert(at)));
            }
            naive.parse(start.max(window));
        }
        naive.found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        // Up to just below 64 kB: beyond, what lies behind the loaded bytes is no longer zeroes.
        #[test]
        fn the_search_is_its_naive_twin(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..600),
                prop::collection::vec(prop::sample::select(b"ab<>/ ".to_vec()), 0..200),
                Just(b"<div class=\"row\"><a href=\"/".to_vec()),
                Just(b"</a></div>\n the of and ".to_vec()),
            ], 0..1500),
            window in any::<prop::sample::Index>(),
            two in any::<bool>(),
        ) {
            let mut input = pieces.concat();
            input.truncate(2 * WINDOW - 64);
            let window = window.index(input.len().min(WINDOW) + 1);
            prop_assert_eq!(fast(&input, window, two), naive(&input, window, two));
        }
    }
}
