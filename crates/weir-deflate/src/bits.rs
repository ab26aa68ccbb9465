//! The bit stream of a block, gathered in a buffer of fixed size.

use alloc::{boxed::Box, vec::Vec};

/// Positions wrap at this size; a block never fills it.
pub(crate) const STAGE: usize = 1 << 16;
/// A store writes 8 bytes, of which the last may be ahead of the position.
const SLACK: usize = 8;

/// Where bits are gathered before they are appended to the output: its size is known to the compiler, so that a
/// masked position needs no test.
pub(crate) type Stage = [u8; STAGE + SLACK];

/// The bits of a byte that is not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) bits: u8,
    pub(crate) count: u8,
}

/// Writes bits, the least significant first (RFC 1951 section 3.1.1).
pub(crate) struct BitWriter<'a> {
    stage: &'a mut Box<Stage>,
    at: usize,
    bits: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    #[inline]
    pub(crate) fn new(stage: &'a mut Box<Stage>, partial: Partial) -> Self {
        Self { stage, at: 0, bits: u64::from(partial.bits), count: u32::from(partial.count) }
    }

    /// Adds bits without storing them; there must be room: 56 since the last store.
    #[inline(always)]
    pub(crate) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count < 64, "{} + {count}", self.count);
        self.bits |= bits << self.count;
        self.count += count;
    }

    /// Stores the full bytes: less than 8 bits remain.
    #[inline(always)]
    pub(crate) fn store(&mut self) {
        let at = self.at & (STAGE - 1);
        self.stage[at..at + 8].copy_from_slice(&self.bits.to_le_bytes());
        self.at += (self.count >> 3) as usize;
        self.bits >>= self.count & 56;
        self.count &= 7;
    }

    /// Adds at most 56 bits and stores.
    #[inline(always)]
    pub(crate) fn put(&mut self, bits: u64, count: u32) {
        self.add(bits, count);
        self.store();
    }

    /// Full bytes so far.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.at
    }

    /// Appends the full bytes to `out`.
    #[inline]
    pub(crate) fn drain(self, out: &mut Vec<u8>) -> Partial {
        debug_assert!(self.at <= STAGE);
        out.extend_from_slice(&self.stage[..self.at.min(STAGE)]);
        Partial { bits: self.bits as u8, count: self.count as u8 }
    }
}

/// Appends a stored block (RFC 1951 section 3.2.4) of at most 65,535 bytes.
pub(crate) fn stored(partial: Partial, block: &[u8], last: bool, out: &mut Vec<u8>) -> Partial {
    debug_assert!(block.len() <= usize::from(u16::MAX));
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
