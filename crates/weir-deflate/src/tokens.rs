//! What the search found, kept for a second pass, or written at once.

use crate::bits::BitWriter;
use crate::code::{Code, ENTRIES, FIRST_COPY, Frequencies, NO_SECOND, SECOND_LITERAL};
use crate::parse::Sink;
use crate::symbols::{MIN_MATCH, distance_symbol};

/// The most input of a block that is kept as tokens; there is at most a token a byte.
pub(crate) const TOKENS: usize = 1 << 16;

/// Bits of a token's parts: an index to [`Code::first`], one to [`Code::second`], the distance's extra bits.
const PART: u32 = 9;
const PART_MASK: u32 = (1 << PART) - 1;

/// Keeps tokens and counts symbols.
pub(crate) struct Collect<'a> {
    tokens: &'a mut [u32; TOKENS],
    count: usize,
    frequencies: &'a mut Frequencies,
}

impl<'a> Collect<'a> {
    pub(crate) fn new(tokens: &'a mut [u32; TOKENS], frequencies: &'a mut Frequencies) -> Self {
        Self { tokens, count: 0, frequencies }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn push(&mut self, token: u32) {
        self.tokens[self.count & (TOKENS - 1)] = token;
        self.count += 1;
    }
}

impl Sink for Collect<'_> {
    #[inline(always)]
    fn literal(&mut self, word: u64) {
        let byte = word as u8;
        self.frequencies.first[usize::from(byte)] += 1;
        self.push(u32::from(byte) | (NO_SECOND as u32) << PART);
    }

    #[inline(always)]
    fn two_literals(&mut self, word: u64) {
        let (byte, second) = (word as u8, (word >> 8) as u8);
        self.frequencies.first[usize::from(byte)] += 1;
        self.frequencies.first[usize::from(second)] += 1;
        self.push(u32::from(byte) | (SECOND_LITERAL as u32 + u32::from(second)) << PART);
    }

    #[inline(always)]
    fn copy(&mut self, length: usize, distance: usize) {
        let first = (FIRST_COPY - MIN_MATCH + length) % ENTRIES;
        let (symbol, extra) = distance_symbol(distance);
        self.frequencies.first[first] += 1;
        self.frequencies.distances[symbol as usize % 32] += 1;
        let extra_bits = (distance as u32 - 1) & ((1 << extra) - 1);
        self.push(first as u32 | symbol << PART | extra_bits << (2 * PART));
    }
}

/// Writes what is found in a code known beforehand.
pub(crate) struct Write<'a, 'b> {
    pub(crate) writer: &'a mut BitWriter<'b>,
    pub(crate) code: &'a Code,
}

impl Sink for Write<'_, '_> {
    #[inline(always)]
    fn literal(&mut self, word: u64) {
        let entry = self.code.first[usize::from(word as u8)];
        self.writer.put(u64::from(entry & 0xff_ffff), entry >> 24);
    }

    #[inline(always)]
    fn two_literals(&mut self, word: u64) {
        let entry = self.code.first[usize::from(word as u8)];
        let second = self.code.first[usize::from((word >> 8) as u8)];
        let count = entry >> 24;
        let bits = u64::from(entry & 0xff_ffff) | u64::from(second & 0xff_ffff) << count;
        self.writer.put(bits, count + (second >> 24));
    }

    #[inline(always)]
    fn copy(&mut self, length: usize, distance: usize) {
        let first = (FIRST_COPY - MIN_MATCH + length) % ENTRIES;
        let (symbol, extra) = distance_symbol(distance);
        let extra_bits = (distance as u32 - 1) & ((1 << extra) - 1);
        let (bits, count) = token_bits(self.code, first as u32 | symbol << PART | extra_bits << (2 * PART));
        self.writer.put(bits, count);
    }
}

/// At most 12 + 5 + 12 + 13 bits.
#[inline(always)]
fn token_bits(code: &Code, token: u32) -> (u64, u32) {
    let first = code.first[(token & PART_MASK) as usize];
    let second = code.second[(token >> PART & PART_MASK) as usize];
    let extra = u64::from(token >> (2 * PART));
    let count = first >> 24;
    let second_bits = u64::from(second & 0xffff) | extra << (second >> 16 & 31);
    (u64::from(first & 0xff_ffff) | second_bits << count, count + (second >> 24))
}

/// What fits beside the at most 7 bits of an unfinished byte; a store shifts by less than 64.
const ROOM: u32 = 63 - 7;

/// Writes a block's tokens.
#[inline(always)]
pub(crate) fn write_tokens(writer: &mut BitWriter<'_>, tokens: &[u32], code: &Code) {
    let mut pairs = tokens.chunks_exact(2);
    for pair in &mut pairs {
        let (bits, count) = token_bits(code, pair[0]);
        let (next_bits, next_count) = token_bits(code, pair[1]);
        writer.add(bits, count);
        if count + next_count > ROOM {
            writer.store();
        }
        writer.put(next_bits, next_count);
    }
    for &token in pairs.remainder() {
        let (bits, count) = token_bits(code, token);
        writer.put(bits, count);
    }
}
