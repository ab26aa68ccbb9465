//! Everything a search touches, in one place: the window, the tables, the tokens and their counts, the written bits.
//!
//! One structure, so that one register points at all of it. Sizes are powers of two that the compiler knows: a
//! masked index needs no test, so that the search is free of bounds checks without `unsafe`.

use crate::code::Frequencies;

/// The farthest distance of a match (RFC 1951 section 3.2.5).
pub const WINDOW: usize = 1 << 15;
/// Half is the window, half is being read.
pub(crate) const RING: usize = 2 * WINDOW;
/// The first bytes again after the last, for loads across the end.
const SLACK: usize = 32;
/// What is hashed from a position on.
const AHEAD: usize = 8;
/// Entries of the largest table, which two candidates are worth.
pub(crate) const TABLE: usize = 1 << 14;
/// Entries of the largest table of long copies: there are more different ones.
pub(crate) const LONG_TABLE: usize = 2 * TABLE;
/// The most input of a block that is kept as tokens; there is at most a token a byte.
pub(crate) const TOKENS: usize = 1 << 16;
/// Positions in the stage wrap at this size; a block never fills it.
pub(crate) const STAGE: usize = 1 << 17;
/// A store writes 8 bytes, of which the last may be ahead of the position.
const STORE: usize = 8;

pub(crate) struct Arena {
    /// For each hash of the least copy's bytes the last position.
    pub(crate) newest: [u16; TABLE],
    /// For each hash of 8 bytes the last position.
    pub(crate) newest_long: [u16; LONG_TABLE],
    pub(crate) frequencies: Frequencies,
    /// The last 64 kB of a call's input.
    ring: [u8; RING + SLACK],
    /// One more than are used: two are written together.
    tokens: [u32; TOKENS + 1],
    /// Written bits, before they are appended to the output.
    stage: [u8; STAGE + STORE],
}

impl Arena {
    pub(crate) const EMPTY: Self = Self {
        newest: [0; TABLE],
        newest_long: [0; LONG_TABLE],
        frequencies: Frequencies::NONE,
        ring: [0; RING + SLACK],
        tokens: [0; TOKENS + 1],
        stage: [0; STAGE + STORE],
    };

    #[cfg(test)]
    pub(crate) fn spoil(&mut self, byte: u8) {
        let word = u16::from_le_bytes([byte; 2]);
        self.newest.fill(word);
        self.newest_long.fill(word);
        self.frequencies = Frequencies { first: [u32::from(byte); 512], distances: [u32::from(byte); 32] };
        self.ring.fill(byte);
        self.tokens.fill(u32::from_le_bytes([byte; 4]));
        self.stage.fill(byte);
    }

    /// Puts bytes in their place, which must not reach across a multiple of [`WINDOW`].
    ///
    /// Hashes at the end of what is loaded take in up to [`AHEAD`] bytes more. In a call's first round through the ring
    /// there would stand what another stream was given: these are cleared, else its bytes would decide what this one
    /// finds, and could be told from the length of the output. In later rounds they are the call's own, and still part
    /// of its window.
    pub(crate) fn load(&mut self, at: usize, bytes: &[u8]) {
        let start = at & (RING - 1);
        self.ring[start..start + bytes.len()].copy_from_slice(bytes);
        if start < SLACK {
            let again = bytes.len().min(SLACK - start);
            self.ring[RING + start..RING + start + again].copy_from_slice(&bytes[..again]);
        }
        let end = at + bytes.len();
        if end < RING {
            self.ring[end..end + AHEAD].fill(0);
        }
    }

    /// Eight bytes from a position on. Beyond the end of the input they are arbitrary.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        let at = at & (RING - 1);
        u64::from_le_bytes(self.ring[at..at + 8].try_into().expect("a slice of 8"))
    }

    /// Eight bytes from a place in the ring. Where the caller has compared it with the ring's end, it costs no
    /// arithmetic, and a search waits for nothing as often as for these bytes.
    #[inline(always)]
    pub(crate) fn word_at(&self, place: usize) -> u64 {
        u64::from_le_bytes(self.ring[place..place + 8].try_into().expect("a slice of 8"))
    }

    /// Eight bytes a little after a place in the ring, which costs no arithmetic.
    #[inline(always)]
    pub(crate) fn word_after<const AHEAD: usize>(&self, place: u16) -> u64 {
        const { assert!(AHEAD + 8 <= SLACK) };
        let at = usize::from(place) + AHEAD;
        u64::from_le_bytes(self.ring[at..at + 8].try_into().expect("a slice of 8"))
    }

    /// How long the bytes at two positions are equal, beyond a number that is known: at most `limit`.
    #[inline(always)]
    pub(crate) fn extend(&self, at: usize, candidate: usize, mut length: usize, limit: usize) -> usize {
        while length < limit {
            let differing = self.word(at + length) ^ self.word(candidate + length);
            if differing != 0 {
                return (length + (differing.trailing_zeros() >> 3) as usize).min(limit);
            }
            length += 8;
        }
        limit
    }

    #[inline(always)]
    pub(crate) fn set_token(&mut self, index: usize, token: u32) {
        self.tokens[index & (TOKENS - 1)] = token;
    }

    /// Sets two tokens by one store.
    #[inline(always)]
    pub(crate) fn set_two_tokens(&mut self, index: usize, tokens: [u32; 2]) {
        let at = index & (TOKENS - 1);
        self.tokens[at..at + 2].copy_from_slice(&tokens);
    }

    /// The first tokens, and the stage to write them to.
    #[inline]
    pub(crate) fn tokens_and_stage(&mut self, count: usize) -> (&[u32], &mut [u8; STAGE + STORE]) {
        (&self.tokens[..count.min(TOKENS)], &mut self.stage)
    }

    #[inline(always)]
    pub(crate) fn stage(&mut self) -> &mut [u8; STAGE + STORE] {
        &mut self.stage
    }
}

/// Writes 8 bytes at a position of the stage.
#[inline(always)]
pub(crate) fn store(stage: &mut [u8; STAGE + STORE], at: usize, bits: u64) {
    let at = at & (STAGE - 1);
    stage[at..at + 8].copy_from_slice(&bits.to_le_bytes());
}
