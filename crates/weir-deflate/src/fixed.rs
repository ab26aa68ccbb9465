//! Blocks with the fixed code of RFC 1951 section 3.2.6: the first, simple engine.

use alloc::{boxed::Box, vec, vec::Vec};

use crate::Ending;

const HASH_BITS: u32 = 12;
const WINDOW: usize = 32768;
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
/// Input bytes of one block.
const BLOCK: usize = 32768;

/// What a thread lends to each call; it carries nothing from one call to the next.
#[derive(Debug)]
pub struct Scratch {
    table: Box<[u32]>,
}

impl Scratch {
    /// Allocates everything that encoding will ever need.
    pub fn new() -> Self {
        Self { table: vec![0; 1 << HASH_BITS].into_boxed_slice() }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

struct Bits<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    count: u32,
}

impl Bits<'_> {
    fn put(&mut self, value: u32, count: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn align(&mut self) {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
    }

    fn put_code(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    fn literal_or_length(&mut self, symbol: u32) {
        match symbol {
            0..144 => self.put_code(0x30 + symbol, 8),
            144..256 => self.put_code(0x190 + symbol - 144, 9),
            256..280 => self.put_code(symbol - 256, 7),
            _ => self.put_code(0xc0 + symbol - 280, 8),
        }
    }

    fn matched(&mut self, length: usize, distance: usize) {
        let (symbol, extra, extra_bits) = length_symbol(length as u32);
        self.literal_or_length(symbol);
        self.put(extra, extra_bits);
        let (symbol, extra, extra_bits) = distance_symbol(distance as u32);
        self.put_code(symbol, 5);
        self.put(extra, extra_bits);
    }

    fn stored(&mut self, block: &[u8], last: bool) {
        self.put(u32::from(last), 3);
        self.align();
        let length = block.len() as u16;
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.extend_from_slice(&(!length).to_le_bytes());
        self.out.extend_from_slice(block);
    }
}

fn length_symbol(length: u32) -> (u32, u32, u32) {
    let l = length - 3;
    match l {
        0..8 => (257 + l, 0, 0),
        255.. => (285, 0, 0),
        _ => {
            let extra = 29 - l.leading_zeros();
            (257 + 4 * extra + (l >> extra), l & ((1 << extra) - 1), extra)
        }
    }
}

fn distance_symbol(distance: u32) -> (u32, u32, u32) {
    let d = distance - 1;
    if d < 4 {
        return (d, 0, 0);
    }
    let extra = 30 - d.leading_zeros();
    (2 * extra + (d >> extra), d & ((1 << extra) - 1), extra)
}

pub(crate) fn encode(
    input: &[u8],
    ending: Ending,
    bits: u8,
    bit_count: u8,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> (u8, u8) {
    let mut bits = Bits { out, pending: u64::from(bits), count: u32::from(bit_count) };
    scratch.table.fill(0);
    let mut start = 0;
    while start < input.len() {
        let end = input.len().min(start + BLOCK);
        let before = (bits.out.len(), bits.pending, bits.count);
        bits.put(2, 3);
        block(input, start, end, &mut scratch.table, &mut bits);
        bits.literal_or_length(256);
        if bits.out.len() - before.0 > end - start {
            bits.out.truncate(before.0);
            (bits.pending, bits.count) = (before.1, before.2);
            bits.stored(&input[start..end], false);
        }
        start = end;
    }
    match ending {
        Ending::Open => {}
        Ending::Sync => bits.stored(&[], false),
        Ending::Finish => {
            bits.put(3, 3);
            bits.literal_or_length(256);
            bits.align();
        }
    }
    (bits.pending as u8, bits.count as u8)
}

fn block(input: &[u8], start: usize, end: usize, table: &mut [u32], bits: &mut Bits<'_>) {
    let mut at = start;
    while at < end {
        let Some(word) = input.get(at..at + MIN_MATCH).and_then(|bytes| bytes.try_into().ok()) else {
            bits.literal_or_length(u32::from(input[at]));
            at += 1;
            continue;
        };
        let hash = u32::from_le_bytes(word).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        // Entries are one more than the position; 0 is none.
        let entry = core::mem::replace(&mut table[hash as usize], at as u32 + 1) as usize;
        let limit = (end - at).min(MAX_MATCH);
        let length = if entry == 0 || at - (entry - 1) > WINDOW {
            0
        } else {
            let candidate = &input[entry - 1..];
            candidate.iter().zip(&input[at..at + limit]).take_while(|(a, b)| a == b).count()
        };
        if length >= MIN_MATCH {
            bits.matched(length, at - (entry - 1));
            at += length;
        } else {
            bits.literal_or_length(u32::from(input[at]));
            at += 1;
        }
    }
}
