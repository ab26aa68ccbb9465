//! The last 64 kB of a call's input, in a ring whose size the compiler knows: a masked index needs no test, so that
//! the search for matches is free of bounds checks without `unsafe`.

use alloc::{boxed::Box, vec};

/// The farthest distance of a match (RFC 1951 section 3.2.5).
pub(crate) const WINDOW: usize = 1 << 15;
/// Half is the window, half is being read.
const RING: usize = 2 * WINDOW;
/// The first bytes again after the last, for loads across the end.
const SLACK: usize = 32;

#[derive(Debug)]
pub(crate) struct Window {
    bytes: Box<[u8; RING + SLACK]>,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { bytes: boxed_array(0) }
    }

    /// Puts the input's bytes from position `at`, a multiple of [`WINDOW`], into their half.
    pub(crate) fn load(&mut self, at: usize, half: &[u8]) {
        let start = at & (RING - 1);
        self.bytes[start..start + half.len()].copy_from_slice(half);
        if start == 0 {
            let again = half.len().min(SLACK);
            self.bytes[RING..RING + again].copy_from_slice(&half[..again]);
        }
    }

    /// Eight bytes from a position on. Beyond the end of the input they are arbitrary.
    #[inline(always)]
    pub(crate) fn u64(&self, at: usize) -> u64 {
        let at = at & (RING - 1);
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("a slice of 8"))
    }

    /// Sixteen bytes from a position on.
    #[inline(always)]
    fn u128(&self, at: usize) -> u128 {
        let at = at & (RING - 1);
        u128::from_le_bytes(self.bytes[at..at + 16].try_into().expect("a slice of 16"))
    }

    /// How long the bytes at `at` equal those `distance` before, 8 being known: at most `limit`.
    #[inline(always)]
    pub(crate) fn match_length(&self, at: usize, distance: usize, limit: usize) -> usize {
        let mut length = 8;
        while length < limit {
            let differing = self.u128(at + length) ^ self.u128(at + length - distance);
            if differing != 0 {
                return (length + (differing.trailing_zeros() >> 3) as usize).min(limit);
            }
            length += 16;
        }
        limit
    }
}

/// A boxed array that was never on the stack.
pub(crate) fn boxed_array<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the vector has N elements"),
    }
}
