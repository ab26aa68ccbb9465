//! The search for matches: input as literals and copies.
//!
//! Positions in the table are the low 16 bits of the position in the call, which is also where the bytes are in the
//! ring: the bytes of a candidate are loaded without any arithmetic between, as it is their latency that a search
//! waits for. Only where they are equal is it looked at how far away they are. An entry that was never set is
//! position 0, which is as good a candidate as any.
//!
//! With two candidates there is a second table for copies of 8 bytes and more: the last place with the same bytes of
//! the least copy is often the start of something short, where an older one goes on.

use core::mem::replace;

use crate::arena::{Arena, LONG_TABLE, RING, TABLE, WINDOW};
use crate::symbols::MAX_MATCH;

/// Takes what the search finds.
pub(crate) trait Sink {
    /// The lowest byte is a literal.
    fn literal(&mut self, arena: &mut Arena, word: u64);
    /// The lowest two bytes are literals.
    fn two_literals(&mut self, arena: &mut Arena, word: u64);
    /// The lowest four bytes are literals.
    fn four_literals(&mut self, arena: &mut Arena, word: u64);
    /// A copy.
    fn copy(&mut self, arena: &mut Arena, length: usize, distance: usize);
}

/// The least copy with one candidate, where literals are cheap: shorter ones cost more time than they save bytes.
pub(crate) const LEAST: usize = 6;
/// The least copy in the fixed code, whose literals are dear.
pub(crate) const LEAST_IN_FIXED: usize = 4;
/// The least copy with two candidates.
pub(crate) const LEAST_OF_TWO: usize = 5;
/// The least copy of the second table.
const LONG: usize = 8;

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
/// What a step needs ahead of it, less one: at the last of its four positions 8 bytes are compared.
const STEP_ROOM: usize = 10;
/// Lengths below this are found without a loop.
const SHORT: usize = 24;

#[inline(always)]
fn hash<const SIZE: usize, const LEAST: usize>(word: u64) -> usize {
    // Only the least copy's bytes count; the result is below SIZE, which the compiler sees.
    (word.wrapping_mul(const { multiplier(LEAST) }) >> (64 - SIZE.trailing_zeros())) as usize
}

/// Puts a position in the place of its hash and returns the one before.
#[inline(always)]
fn insert<const SIZE: usize, const LEAST: usize>(arena: &mut Arena, word: u64, at: usize) -> u16 {
    replace(&mut arena.newest[hash::<SIZE, LEAST>(word) & (TABLE - 1)], at as u16)
}

/// The same in the table of long copies, which has twice the entries.
#[inline(always)]
fn insert_long<const SIZE: usize>(arena: &mut Arena, word: u64, at: usize) -> u16 {
    let hash = word.wrapping_mul(const { multiplier(LONG) }) >> (63 - SIZE.trailing_zeros());
    replace(&mut arena.newest_long[hash as usize & (LONG_TABLE - 1)], at as u16)
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
        insert::<SIZE, LEAST>(arena, word, at);
        if TWO {
            insert_long::<SIZE>(arena, word, at);
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
        let after = arena.word_after::<16>(place) ^ arena.word_after::<16>(position);
        if next | after != 0 {
            let both = u128::from(after) << 64 | u128::from(next);
            return (8 + (both.trailing_zeros() >> 3) as usize).min(limit);
        }
        arena.extend(from, usize::from(position), SHORT, limit)
    }
}

#[inline(always)]
fn equal_bytes(differing: u64) -> usize {
    (differing.trailing_zeros() >> 3) as usize
}

/// Literals where nothing has repeated for long: the more, the longer. Returns where to go on.
#[cold]
#[inline(always)]
fn skip<S: Sink>(arena: &mut Arena, mut at: usize, end: usize, patience_ends: usize, sink: &mut S) -> usize {
    let pairs = ((at - patience_ends) / SKIP_STEP).min(MAX_SKIP).min((end - at) / 2);
    for _ in 0..pairs {
        let word = arena.word(at);
        sink.two_literals(arena, word);
        at += 2;
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

/// Turns the loaded bytes from `start` to `end`, which are in one half of the ring, into literals and copies, with one
/// candidate for each position or two.
///
/// Two positions are looked at together, so that their loads overlap, and then the next two before anything is written:
/// most bytes are literals, and four of them cost one store. A step begins only when it is known where the one before
/// ended, so what follows a copy waits for its length: branches let the processor go on with what it expects,
/// selections would make it wait for the bytes that are compared.
#[inline(always)]
pub(crate) fn parse<const SIZE: usize, const TWO: bool, const LEAST: usize, S: Sink>(
    arena: &mut Arena,
    start: usize,
    end: usize,
    mut sink: S,
) -> S {
    // From here on positions are places in the ring, known to be inside by the loop's condition.
    let (end, mut at) = (end - (start - start % RING), start % RING);
    let last_step = end.saturating_sub(STEP_ROOM).min(RING - STEP_ROOM);
    let mut patience_ends = at + PATIENCE;
    // One comparison a step serves both the end and the patience.
    let mut stop = last_step.min(patience_ends + 1);
    loop {
        if at >= stop {
            if at < last_step {
                at = skip(arena, at, end, patience_ends, &mut sink);
            }
            if at >= last_step {
                break;
            }
            stop = at + 1;
        }
        let mut word = arena.word_at(at);
        let (skipped, candidate) = if let Some(found) = look::<SIZE, TWO, LEAST>(arena, word, at) {
            found
        } else {
            let next = arena.word_at(at + 2);
            let Some(found) = look::<SIZE, TWO, LEAST>(arena, next, at + 2) else {
                sink.four_literals(arena, word);
                at += 4;
                continue;
            };
            sink.two_literals(arena, word);
            (word, at) = (next, at + 2);
            found
        };
        let from = at + usize::from(skipped);
        let distance = candidate.distance(from);
        if distance > WINDOW {
            sink.two_literals(arena, word);
            at += 2;
            continue;
        }
        if skipped {
            sink.literal(arena, word);
        }
        let length = candidate.length(arena, from, (end - from).min(MAX_MATCH));
        sink.copy(arena, length, distance);
        insert_inside::<SIZE, TWO, LEAST>(arena, at, from);
        at = from + length;
        patience_ends = at + PATIENCE;
        stop = last_step.min(patience_ends + 1);
        insert_tail::<SIZE, TWO, LEAST>(arena, at);
    }
    literals(arena, at, end, &mut sink);
    sink
}

/// Looks for a copy at a place and at the next: whether it is at the next, and what is to be copied.
#[inline(always)]
fn look<const SIZE: usize, const TWO: bool, const LEAST: usize>(
    arena: &mut Arena,
    word: u64,
    at: usize,
) -> Option<(bool, Candidate)> {
    let next = arena.word_at(at + 1);
    let (mut long_here, mut long_there) = (0, 0);
    if TWO {
        (long_here, long_there) =
            (insert_long::<SIZE>(arena, word, at), insert_long::<SIZE>(arena, next, at + 1));
    }
    let (here, there) = (insert::<SIZE, LEAST>(arena, word, at), insert::<SIZE, LEAST>(arena, next, at + 1));
    if !TWO {
        (long_here, long_there) = (here, there);
    }
    let long_here = Candidate::at(arena, word, long_here);
    let long_there = Candidate::at(arena, next, long_there);
    let here = Candidate::at(arena, word, here);
    let there = Candidate::at(arena, next, there);
    // Tests in this order cost one misprediction a copy; a long one there before a short one here is a lazy match
    // for free.
    if long_here.is_long() {
        Some((false, long_here))
    } else if long_there.is_long() {
        Some((true, long_there))
    } else if here.is_enough(LEAST) {
        Some((false, here))
    } else if there.is_enough(LEAST) {
        Some((true, there))
    } else {
        None
    }
}

/// Some of the first positions inside a copy, that was found by a step at `at`.
#[inline(always)]
fn insert_inside<const SIZE: usize, const TWO: bool, const LEAST: usize>(
    arena: &mut Arena,
    at: usize,
    from: usize,
) {
    if TWO {
        // The step itself has put in `at` and the next. Long ones are worth more.
        let place = at as u16;
        let words =
            [arena.word_after::<2>(place), arena.word_after::<3>(place), arena.word_after::<4>(place)];
        insert::<SIZE, LEAST>(arena, words[0], at + 2);
        for (i, word) in words.into_iter().enumerate() {
            insert_long::<SIZE>(arena, word, at + 2 + i);
        }
    } else {
        let word = arena.word_after::<2>(from as u16);
        insert::<SIZE, LEAST>(arena, word, from + 2);
    }
}

/// The last two positions of a copy.
#[inline(always)]
fn insert_tail<const SIZE: usize, const TWO: bool, const LEAST: usize>(arena: &mut Arena, end: usize) {
    let place = (end - 2) as u16;
    let (word, last) = (arena.word_after::<0>(place), arena.word_after::<1>(place));
    if TWO {
        insert_long::<SIZE>(arena, word, end - 2);
        insert_long::<SIZE>(arena, last, end - 1);
    }
    insert::<SIZE, LEAST>(arena, word, end - 2);
    insert::<SIZE, LEAST>(arena, last, end - 1);
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

        fn four_literals(&mut self, arena: &mut Arena, word: u64) {
            self.two_literals(arena, word);
            self.two_literals(arena, word >> 16);
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
                insert_window::<TABLE, true, LEAST_OF_TWO>(&mut arena, window);
            } else if start == 0 {
                insert_window::<TABLE, false, LEAST>(&mut arena, window);
            }
            let start = start.max(window);
            sink = if two {
                parse::<TABLE, true, LEAST_OF_TWO, _>(&mut arena, start, end, sink)
            } else {
                parse::<TABLE, false, LEAST, _>(&mut arena, start, end, sink)
            };
        }
        sink.0
    }

    /// The same search in the plainest words, without ring and masks.
    struct Naive<'a> {
        input: &'a [u8],
        /// What is loaded; behind it are zeroes.
        end: usize,
        two: bool,
        newest: Vec<usize>,
        newest_long: Vec<usize>,
        found: Vec<Found>,
    }

    impl Naive<'_> {
        fn byte(&self, at: usize) -> u8 {
            if at < self.end { self.input[at] } else { 0 }
        }

        fn word(&self, at: usize) -> u64 {
            (0..8).fold(0, |word, i| word | u64::from(self.byte(at + i)) << (8 * i))
        }

        fn insert(&mut self, at: usize) -> usize {
            let word = self.word(at);
            let hash = if self.two { hash::<TABLE, LEAST_OF_TWO>(word) } else { hash::<TABLE, LEAST>(word) };
            replace(&mut self.newest[hash], at)
        }

        fn insert_long(&mut self, at: usize) -> usize {
            let hash = hash::<LONG_TABLE, LONG>(self.word(at));
            replace(&mut self.newest_long[hash], at)
        }

        fn equal(&self, at: usize, position: usize) -> usize {
            let limit = (self.end - at).min(MAX_MATCH);
            (0..limit).take_while(|&i| self.byte(position + i) == self.byte(at + i)).count()
        }

        fn literal(&mut self, at: usize) {
            self.found.push(Found::Literal(self.input[at]));
        }

        /// The first of the copies tried at two positions, near or far.
        fn look(&mut self, at: usize, least: usize) -> Option<(usize, usize)> {
            let here = self.insert(at);
            let there = self.insert(at + 1);
            let (mut long_here, mut long_there) = (here, there);
            if self.two {
                (long_here, long_there) = (self.insert_long(at), self.insert_long(at + 1));
            }
            let tried = [
                (at, long_here, LONG),
                (at + 1, long_there, LONG),
                (at, here, least),
                (at + 1, there, least),
            ];
            let found = tried.into_iter().find(|&(at, position, least)| self.equal(at, position) >= least);
            found.map(|(at, position, _)| (at, position))
        }

        fn parse(&mut self, start: usize) {
            let mut at = start;
            let mut since = start;
            let least = if self.two { LEAST_OF_TWO } else { LEAST };
            loop {
                if at > since + PATIENCE && at + STEP_ROOM < self.end {
                    let pairs = ((at - since - PATIENCE) / SKIP_STEP).min(MAX_SKIP).min((self.end - at) / 2);
                    (at..at + 2 * pairs).for_each(|at| self.literal(at));
                    at += 2 * pairs;
                }
                if at + STEP_ROOM >= self.end {
                    break;
                }
                let mut first = self.look(at, least);
                if first.is_none() {
                    self.literal(at);
                    self.literal(at + 1);
                    at += 2;
                    first = self.look(at, least);
                }
                let near = first.filter(|&(at, position)| position < at && at - position <= WINDOW);
                let Some((from, position)) = near else {
                    self.literal(at);
                    self.literal(at + 1);
                    at += 2;
                    continue;
                };
                if from > at {
                    self.literal(at);
                }
                let length = self.equal(from, position);
                self.found.push(Found::Copy(length, from - position));
                self.insert(if self.two { at + 2 } else { from + 2 });
                if self.two {
                    for at in at + 2..at + 5 {
                        self.insert_long(at);
                    }
                }
                at = from + length;
                since = at;
                for at in [at - 2, at - 1] {
                    self.insert(at);
                    self.insert_long(at);
                }
            }
            (at..self.end).for_each(|at| self.literal(at));
        }
    }

    fn naive(input: &[u8], window: usize, two: bool) -> Vec<Found> {
        let (newest, newest_long) = (alloc::vec![0; TABLE], alloc::vec![0; LONG_TABLE]);
        let mut naive = Naive { input, end: 0, two, newest, newest_long, found: Vec::new() };
        for start in (0..input.len()).step_by(WINDOW) {
            naive.end = input.len().min(start + WINDOW);
            if start == 0 {
                for at in (0..window).step_by(WINDOW_STEP) {
                    naive.insert(at);
                    naive.insert_long(at);
                }
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
