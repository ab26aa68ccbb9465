//! Codes made ready for writing, and the codes known beforehand.

use alloc::{boxed::Box, vec::Vec};
use core::mem;

use crate::Content;
use crate::bits::ROOM;
use crate::huffman::{Description, Lengths, Workspace, codes};
use crate::presets::PRESETS;
use crate::symbols::{
    DISTANCE_EXTRA, DISTANCES, END_OF_BLOCK, FIRST_LENGTH, LENGTH_EXTRA, LENGTH_PARTS, LENGTH_RANGES,
    LITERALS_AND_LENGTHS,
};
use crate::tokens::above_extra;

/// In a token and in [`Code::first`]: 0..256 are literals, from here on the lengths from 3 on.
pub(crate) const FIRST_COPY: usize = 256;
/// In a token's second part and in [`Code::second`]: 0..256 are literals, from here on distance symbols.
pub(crate) const FIRST_DISTANCE: usize = 256;
/// There is nothing at all in the second part.
pub(crate) const NO_SECOND: usize = FIRST_DISTANCE + DISTANCES;
/// Entries of either table: 9 bits of a token.
pub(crate) const ENTRIES: usize = 512;

/// A code as tables of what to write. Bits and their number stand apart: two loads are cheaper than taking one apart.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    /// Literals, and lengths with their extra bits.
    pub(crate) first: [u32; ENTRIES],
    pub(crate) first_count: [u8; ENTRIES],
    /// Distances and second literals, each with its [`above_extra`].
    pub(crate) second: [u64; ENTRIES],
    /// Where the distance's extra bits go.
    pub(crate) second_length: [u8; ENTRIES],
    /// The number of all bits.
    pub(crate) second_count: [u8; ENTRIES],
    /// The end of the block.
    end: (u16, u8),
}

impl Code {
    pub(crate) const EMPTY: Self = Self {
        first: [0; ENTRIES],
        first_count: [0; ENTRIES],
        second: [0; ENTRIES],
        second_length: [0; ENTRIES],
        second_count: [0; ENTRIES],
        end: (0, 0),
    };

    pub(crate) fn set(&mut self, lengths: &Lengths) {
        let mut code = [0u16; 288];
        codes(&lengths.literals, &lengths.literal_counts, &mut code);
        for (entry, &bits) in self.first[..FIRST_COPY].iter_mut().zip(&code) {
            *entry = u32::from(bits);
        }
        self.first_count[..FIRST_COPY].copy_from_slice(&lengths.literals[..FIRST_COPY]);
        for (i, (entry, &bits)) in self.second[..FIRST_COPY].iter_mut().zip(&code).enumerate() {
            *entry = u64::from(bits) ^ above_extra(i);
        }
        self.second_count[..FIRST_COPY].copy_from_slice(&lengths.literals[..FIRST_COPY]);
        let mut length_code = [(0u32, 0u8, 0u8); 32];
        for (symbol, &extra) in LENGTH_EXTRA.iter().enumerate() {
            let length = lengths.literals[FIRST_LENGTH + symbol];
            length_code[symbol] = (u32::from(code[FIRST_LENGTH + symbol]), length, length + extra);
        }
        for (i, &(symbol, extra)) in LENGTH_PARTS.iter().enumerate() {
            let (bits, length, count) = length_code[usize::from(symbol) % 32];
            self.first[FIRST_COPY + i] = bits | u32::from(extra) << (length & 31);
            self.first_count[FIRST_COPY + i] = count;
        }
        self.end = (code[END_OF_BLOCK], lengths.literals[END_OF_BLOCK]);
        let mut distance_code = [0u16; 32];
        codes(&lengths.distances, &lengths.distance_counts, &mut distance_code);
        self.second_length[FIRST_DISTANCE..][..DISTANCES].copy_from_slice(&lengths.distances[..DISTANCES]);
        for (symbol, &extra) in DISTANCE_EXTRA.iter().enumerate() {
            let length = lengths.distances[symbol];
            self.second[FIRST_DISTANCE + symbol] =
                u64::from(distance_code[symbol]) ^ above_extra(FIRST_DISTANCE + symbol) << (length & 15);
            self.second_count[FIRST_DISTANCE + symbol] = length + extra;
        }
        self.second[NO_SECOND] = above_extra(NO_SECOND);
        self.second_count[NO_SECOND] = 0;
    }

    #[cfg(test)]
    pub(crate) fn spoil(&mut self, byte: u8) {
        self.first.fill(u32::from(byte));
        self.first_count.fill(byte);
        self.second.fill(u64::from(byte));
        // Of the others no code has any: they stay as they were made.
        self.second_length[FIRST_DISTANCE..][..DISTANCES].fill(byte);
        self.second_count.fill(byte);
        self.end = (u16::from(byte), byte);
    }

    /// The bits that end a block, and their number.
    pub(crate) fn end(&self) -> (u64, u32) {
        (u64::from(self.end.0), u32::from(self.end.1))
    }
}

/// How often each symbol is used in a block.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    /// Indexed as [`Code::first`].
    pub(crate) first: [u32; ENTRIES],
    pub(crate) distances: [u32; 32],
}

impl Frequencies {
    pub(crate) const NONE: Self = Self { first: [0; ENTRIES], distances: [0; 32] };
}

/// What a counted symbol weighs.
const COUNTED_WEIGHT: u32 = 16;
/// What all the symbols weigh together that are expected.
const EXPECTED_WEIGHT: u32 = 128 * COUNTED_WEIGHT;

/// The same by symbol, with the end of the block counted.
pub(crate) struct Symbols {
    pub(crate) literals: [u32; 288],
    pub(crate) distances: [u32; 32],
    /// Bits that any code needs besides: the extra bits.
    pub(crate) extra_bits: u32,
}

impl Symbols {
    #[inline]
    pub(crate) fn of(frequencies: &Frequencies) -> Self {
        let mut literals = [0u32; 288];
        literals[..256].copy_from_slice(&frequencies.first[..256]);
        literals[END_OF_BLOCK] = 1;
        let mut extra_bits = 0;
        for (symbol, &(start, end)) in LENGTH_RANGES.iter().enumerate() {
            let sum: u32 = frequencies.first[FIRST_COPY + start..FIRST_COPY + end].iter().sum();
            literals[FIRST_LENGTH + symbol] = sum;
            extra_bits += sum * u32::from(LENGTH_EXTRA[symbol]);
        }
        for (&count, &extra) in frequencies.distances.iter().zip(&DISTANCE_EXTRA) {
            extra_bits += count * u32::from(extra);
        }
        Self { literals, distances: frequencies.distances, extra_bits }
    }

    /// Adds as many of each symbol as a code's lengths lead to expect: what was counted is a part of what is to come.
    #[inline]
    pub(crate) fn add_expected(&mut self, lengths: &Lengths) {
        let add = |counts: &mut [u32], lengths: &[u8]| {
            for (count, &length) in counts.iter_mut().zip(lengths) {
                *count = *count * COUNTED_WEIGHT + (EXPECTED_WEIGHT >> length).max(1);
            }
        };
        add(&mut self.literals[..LITERALS_AND_LENGTHS], &lengths.literals);
        add(&mut self.distances[..DISTANCES], &lengths.distances);
    }

    /// The bits of the block's tokens and end in a code of these lengths.
    #[inline]
    pub(crate) fn cost(&self, lengths: &Lengths) -> u32 {
        let sum = |counts: &[u32], lengths: &[u8]| -> u32 {
            counts.iter().zip(lengths).map(|(&count, &length)| count * u32::from(length)).sum()
        };
        self.extra_bits + sum(&self.literals, &lengths.literals) + sum(&self.distances, &lengths.distances)
    }
}

/// A code that is the same for all blocks: a block in it needs no second pass, and may stay open between calls.
#[derive(Debug)]
pub(crate) struct StaticCode {
    pub(crate) code: Code,
    pub(crate) lengths: Lengths,
    /// The block's header with its type: values and numbers of bits.
    header: Vec<(u64, u32)>,
    pub(crate) header_bits: u32,
}

/// Block types (RFC 1951 section 3.2.3) in their place above the bit that marks the last block.
const FIXED: u64 = 1 << 1;
pub(crate) const DYNAMIC: u64 = 2 << 1;

impl StaticCode {
    fn new(lengths: Lengths, mut header: Vec<(u64, u32)>) -> Self {
        let mut code = Code::EMPTY;
        code.set(&lengths);
        let header_bits = header.iter().map(|&(_, bits)| bits).sum();
        header.shrink_to_fit();
        Self { code, lengths, header, header_bits }
    }

    /// RFC 1951 section 3.2.6.
    fn fixed() -> Self {
        let mut literals = [8; 288];
        literals[144..256].fill(9);
        literals[256..280].fill(7);
        Self::new(Lengths::new(literals, [5; 32]), Vec::from([(FIXED, 3)]))
    }

    fn preset(text: &[u8; LITERALS_AND_LENGTHS + DISTANCES]) -> Self {
        let (mut literals, mut distances) = ([0; 288], [0; 32]);
        let length = |digit: &u8| if *digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
        let (first, second) = text.split_at(LITERALS_AND_LENGTHS);
        literals.iter_mut().zip(first).for_each(|(of, digit)| *of = length(digit));
        distances.iter_mut().zip(second).for_each(|(of, digit)| *of = length(digit));
        let lengths = Lengths::new(literals, distances);
        let mut description = Description::EMPTY;
        description.write(&lengths, &mut { Workspace::EMPTY });
        // As much together as one store writes.
        let (mut header, mut pending) = (Vec::new(), (DYNAMIC, 3));
        for &(value, bits) in description.pieces() {
            if pending.1 + u32::from(bits) > ROOM {
                header.push(mem::take(&mut pending));
            }
            pending = (pending.0 | u64::from(value) << pending.1, pending.1 + u32::from(bits));
        }
        header.push(pending);
        Self::new(lengths, header)
    }

    /// Values and numbers of bits of a block's header.
    pub(crate) fn header(&self, last: bool) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mark = move |i: usize| u64::from(last && i == 0);
        self.header.iter().enumerate().map(move |(i, &(value, bits))| (value | mark(i), bits))
    }
}

/// Which static code.
pub(crate) type StaticId = u8;
/// The fixed code of RFC 1951.
pub(crate) const FIXED_ID: StaticId = 0;

/// The code for text in Chinese and Japanese.
pub(crate) const CJK_ID: StaticId = 6;

/// The code that is made for this content; the fixed one where nothing is known.
pub(crate) const fn preset_for(content: Content) -> StaticId {
    match content {
        Content::Unknown => FIXED_ID,
        Content::Html => 1,
        Content::Script => 2,
        Content::Json => 3,
        Content::Xml => 4,
        Content::Text => 5,
    }
}

/// All static codes, by [`StaticId`].
pub(crate) fn static_codes() -> Box<[StaticCode]> {
    let mut all = Vec::with_capacity(1 + PRESETS.len());
    all.push(StaticCode::fixed());
    all.extend(PRESETS.iter().map(|text| StaticCode::preset(text)));
    all.into_boxed_slice()
}
