//! What the search found, kept for a second pass, or written at once.

use crate::arena::Arena;
use crate::bits::{BitWriter, ROOM};
use crate::code::{Code, ENTRIES, FIRST_COPY, FIRST_DISTANCE, NO_SECOND};
use crate::parse::Sink;
use crate::symbols::{DISTANCE_EXTRA, DISTANCES, MIN_MATCH, distance_symbol};

/// A token is an index to [`Code::first`], above it the distance less one as far as there is room, and on top an index
/// to [`Code::second`].
const FIRST_BITS: u32 = 9;
const FIRST_MASK: u32 = (1 << FIRST_BITS) - 1;
const SECOND: u32 = 32 - FIRST_BITS;
const DISTANCE_MASK: u32 = (1 << (SECOND - FIRST_BITS)) - 1;

#[inline(always)]
fn copy_token(first: usize, symbol: u32, distance: usize) -> u32 {
    let second = FIRST_DISTANCE as u32 + symbol;
    first as u32 | ((distance - 1) as u32 & DISTANCE_MASK) << FIRST_BITS | second << SECOND
}

/// What a token with this index to [`Code::second`] says above the extra bits of the distance: the rest of it, and the
/// index. The table holds it too, so that the exclusive or of both leaves the code and the extra bits: masking each
/// token would cost more.
pub(crate) fn above_extra(second: usize) -> u64 {
    let symbol = second.wrapping_sub(FIRST_DISTANCE);
    let rest = match symbol {
        0..4 => symbol as u32,
        4..DISTANCES => (2 + symbol as u32 % 2) << DISTANCE_EXTRA[symbol] & DISTANCE_MASK,
        _ => 0,
    };
    u64::from((second as u32) << SECOND >> FIRST_BITS | rest)
}

/// Keeps tokens and counts symbols.
#[derive(Default)]
pub(crate) struct Collect {
    pub(crate) count: usize,
}

impl Collect {
    #[inline(always)]
    fn push(&mut self, arena: &mut Arena, token: u32) {
        arena.set_token(self.count, token);
        self.count += 1;
    }
}

/// The token of the lowest two bytes, which are counted.
#[inline(always)]
fn literals_token(arena: &mut Arena, word: u64) -> u32 {
    let (byte, second) = (word as u8, (word >> 8) as u8);
    arena.frequencies.first[usize::from(byte)] += 1;
    arena.frequencies.first[usize::from(second)] += 1;
    u32::from(byte) | u32::from(second) << SECOND
}

impl Sink for Collect {
    #[inline(always)]
    fn literal(&mut self, arena: &mut Arena, word: u64) {
        let byte = word as u8;
        arena.frequencies.first[usize::from(byte)] += 1;
        self.push(arena, u32::from(byte) | (NO_SECOND as u32) << SECOND);
    }

    #[inline(always)]
    fn two_literals(&mut self, arena: &mut Arena, word: u64) {
        let token = literals_token(arena, word);
        self.push(arena, token);
    }

    #[inline(always)]
    fn four_literals(&mut self, arena: &mut Arena, word: u64) {
        let tokens = [literals_token(arena, word), literals_token(arena, word >> 16)];
        arena.set_two_tokens(self.count, tokens);
        self.count += 2;
    }

    #[inline(always)]
    fn copy(&mut self, arena: &mut Arena, length: usize, distance: usize) {
        let first = (FIRST_COPY - MIN_MATCH + length) % ENTRIES;
        let symbol = distance_symbol(distance);
        arena.frequencies.first[first] += 1;
        arena.frequencies.distances[symbol as usize % 32] += 1;
        self.push(arena, copy_token(first, symbol, distance));
    }
}

/// Writes what is found in a code known beforehand.
pub(crate) struct Write<'a> {
    pub(crate) writer: BitWriter,
    pub(crate) code: &'a Code,
}

impl Write<'_> {
    #[inline(always)]
    fn first(&self, word: u64) -> (u64, u32) {
        let byte = usize::from(word as u8);
        (u64::from(self.code.first[byte]), u32::from(self.code.first_count[byte]))
    }

    /// The lowest two bytes: at most 24 bits.
    #[inline(always)]
    fn pair(&self, word: u64) -> (u64, u32) {
        let (bits, count) = self.first(word);
        let (next_bits, next_count) = self.first(word >> 8);
        (bits | next_bits << (count & 63), count + next_count)
    }
}

impl Sink for Write<'_> {
    #[inline(always)]
    fn literal(&mut self, arena: &mut Arena, word: u64) {
        let (bits, count) = self.first(word);
        self.writer.put(arena.stage(), bits, count);
    }

    #[inline(always)]
    fn two_literals(&mut self, arena: &mut Arena, word: u64) {
        let (bits, count) = self.pair(word);
        self.writer.put(arena.stage(), bits, count);
    }

    #[inline(always)]
    fn four_literals(&mut self, arena: &mut Arena, word: u64) {
        let (low, low_count) = self.pair(word);
        let (high, high_count) = self.pair(word >> 16);
        self.writer.put(arena.stage(), low | high << (low_count & 63), low_count + high_count);
    }

    #[inline(always)]
    fn copy(&mut self, arena: &mut Arena, length: usize, distance: usize) {
        let first = (FIRST_COPY - MIN_MATCH + length) % ENTRIES;
        let token = copy_token(first, distance_symbol(distance), distance);
        let (bits, count) = token_bits(self.code, token);
        self.writer.put(arena.stage(), bits, count);
    }
}

/// At most 12 + 5 + 12 + 13 bits.
#[inline(always)]
fn token_bits(code: &Code, token: u32) -> (u64, u32) {
    let first = (token & FIRST_MASK) as usize;
    let second = (token >> SECOND) as usize;
    let extra = u64::from(token >> FIRST_BITS);
    let count = u32::from(code.first_count[first]);
    let second_bits = code.second[second] ^ extra << (code.second_length[second] & 63);
    let bits = u64::from(code.first[first]) | second_bits << (count & 63);
    (bits, count + u32::from(code.second_count[second]))
}

/// Writes a block's tokens.
#[inline(always)]
pub(crate) fn write_tokens(writer: &mut BitWriter, arena: &mut Arena, tokens: usize, code: &Code) {
    let (tokens, stage) = arena.tokens_and_stage(tokens);
    let mut bits_out = *writer;
    let mut pairs = tokens.chunks_exact(2);
    for pair in &mut pairs {
        let (bits, count) = token_bits(code, pair[0]);
        let (next_bits, next_count) = token_bits(code, pair[1]);
        bits_out.add(bits, count);
        if count + next_count > ROOM {
            bits_out.store(stage);
        }
        bits_out.put(stage, next_bits, next_count);
    }
    for &token in pairs.remainder() {
        let (bits, count) = token_bits(code, token);
        bits_out.put(stage, bits, count);
    }
    *writer = bits_out;
}
