//! The bit stream of a block.

use alloc::vec::Vec;

use crate::arena::{STAGE, store};

/// The bits of a byte that is not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Partial {
    pub(crate) bits: u8,
    pub(crate) count: u8,
}

/// The stage that bits are written to.
type Stage = [u8; STAGE + 8];

/// What fits beside the at most 7 bits of an unfinished byte; a store shifts by less than 64.
pub(crate) const ROOM: u32 = 63 - 7;

/// Writes bits to a stage, the least significant first (RFC 1951 section 3.1.1). It holds no reference to the stage,
/// so that a search keeps it in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitWriter {
    at: usize,
    bits: u64,
    count: u32,
}

impl BitWriter {
    #[inline]
    pub(crate) fn new(partial: Partial) -> Self {
        Self { at: 0, bits: u64::from(partial.bits), count: u32::from(partial.count) }
    }

    /// Adds bits without storing them; there must be room: [`ROOM`] since the last store.
    #[inline(always)]
    pub(crate) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count < 64, "{} + {count}", self.count);
        self.bits |= bits << (self.count & 63);
        self.count += count;
    }

    /// Stores the full bytes: less than 8 bits remain.
    #[inline(always)]
    pub(crate) fn store(&mut self, stage: &mut Stage) {
        store(stage, self.at, self.bits);
        self.at += (self.count >> 3) as usize;
        self.bits >>= self.count & 56;
        self.count &= 7;
    }

    /// Adds at most [`ROOM`] bits and stores.
    #[inline(always)]
    pub(crate) fn put(&mut self, stage: &mut Stage, bits: u64, count: u32) {
        self.add(bits, count);
        self.store(stage);
    }

    /// Full bytes so far.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.at
    }

    /// Appends the full bytes to `out`.
    #[inline]
    pub(crate) fn drain(self, stage: &Stage, out: &mut Vec<u8>) -> Partial {
        debug_assert!(self.at <= STAGE);
        out.extend_from_slice(&stage[..self.at.min(STAGE)]);
        Partial { bits: self.bits as u8, count: self.count as u8 }
    }
}

/// The most bytes of a stored block (RFC 1951 section 3.2.4).
const MOST_STORED: usize = u16::MAX as usize;

/// Appends bytes as stored blocks: one, and a second for what does not fit it.
pub(crate) fn stored(mut partial: Partial, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Partial {
    let (first, rest) = bytes.split_at(bytes.len().min(MOST_STORED));
    partial = stored_block(partial, first, last && rest.is_empty(), out);
    if rest.is_empty() { partial } else { stored(partial, rest, last, out) }
}

/// Appends a stored block (RFC 1951 section 3.2.4).
fn stored_block(partial: Partial, block: &[u8], last: bool, out: &mut Vec<u8>) -> Partial {
    // Three header bits after at most seven bits: one byte or two.
    let bits = u16::from(partial.bits) | u16::from(last) << partial.count;
    out.push(bits as u8);
    if partial.count > 5 {
        out.push((bits >> 8) as u8);
    }
    let length = block.len() as u16;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(block);
    Partial::default()
}
