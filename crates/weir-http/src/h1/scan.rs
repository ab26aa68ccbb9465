//! Byte classes, and searches that look at eight bytes at a time.

use crate::token::is_token_byte;

/// `token` of RFC 9110 section 5.6.2.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = is_token_byte(byte as u8);
        byte += 1;
    }
    table
};

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// True for bytes of a token.
#[inline]
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Offset of the first byte from `at` on that is no token byte, or the length.
#[inline]
pub(super) fn token_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && is_token(bytes[at]) {
        at += 1;
    }
    at
}

/// Offset of the first byte from `at` on that is neither space nor tab, or the length.
#[inline]
pub(super) fn blank_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && matches!(bytes[at], b' ' | b'\t') {
        at += 1;
    }
    at
}

/// The high bit of each byte of `word` that is below `limit` (at most 128) is set in the result;
/// bytes from 128 on may be flagged by a borrow, which the callers' second look sorts out.
#[inline]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH
}

/// Offset of the first CR, LF or NUL from `at` on, or the length.
#[inline]
pub(super) fn value_end(bytes: &[u8], at: usize) -> usize {
    let stops = |b: u8| matches!(b, b'\r' | b'\n' | 0);
    search(bytes, at, stops, |word| below(word, 0x0e))
}

/// Offset of the first byte from `at` on that strict parsing does not take in a target, or the length:
/// controls, space, `#`, DEL and everything above.
#[inline]
pub(super) fn target_end(bytes: &[u8], at: usize) -> usize {
    let stops = |b: u8| b <= b' ' || b >= 0x7f || b == b'#';
    search(bytes, at, stops, |word| {
        let hash = word ^ (ONES * u64::from(b'#'));
        let del = word ^ (ONES * 0x7f);
        below(word, 0x21) | (word & HIGH) | below(hash, 1) | below(del, 1)
    })
}

/// First byte for which `stops` holds.  `flags` must flag every such byte of a word, and may flag others.
#[inline]
fn search(bytes: &[u8], mut at: usize, stops: impl Fn(u8) -> bool, flags: impl Fn(u64) -> u64) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let flagged = flags(u64::from_le_bytes(*chunk));
        if flagged != 0 {
            let first = flagged.trailing_zeros() as usize / 8;
            if let Some(found) = chunk[first..].iter().position(|&b| stops(b)) {
                return at + first + found;
            }
        }
        at += 8;
    }
    while at < bytes.len() && !stops(bytes[at]) {
        at += 1;
    }
    at
}

/// Without spaces and tabs at both ends.
#[inline]
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list, trimmed, empty ones included.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_agree_with_their_naive_twins() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                for fill in [b'a', 0x80, 0xff, b'\t'] {
                    let mut bytes = [fill; 20];
                    bytes[place] = byte;
                    let value = bytes.iter().position(|b| matches!(b, b'\r' | b'\n' | 0)).unwrap_or(20);
                    assert_eq!(value_end(&bytes, 0), value, "{byte} at {place} in {fill}");
                    let target = bytes.iter().position(|&b| b <= 32 || b >= 127 || b == b'#').unwrap_or(20);
                    assert_eq!(target_end(&bytes, 0), target, "{byte} at {place} in {fill}");
                }
            }
        }
    }
}
