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

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// The high bit of each byte of `word` that is below `limit` (at most 128) is set in the result. Those above the
/// first such byte may be set by a borrow.
#[inline]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH
}

/// The same for bytes that are equal to `byte`.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Offset of the first colon from `at` on, or the length.
#[inline]
pub(super) fn colon(bytes: &[u8], at: usize) -> usize {
    search(bytes, at, |b| b == b':', |word| equal(word, b':'))
}

/// Offset of the first CR, LF or NUL from `at` on, or the length.
#[inline]
pub(super) fn value_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = search(bytes, at, |b| b <= b'\r', |word| below(word, b'\r' + 1));
        match bytes.get(at) {
            Some(b'\r' | b'\n' | 0) | None => return at,
            // A tab, or what is hardly ever in a value.
            Some(_) => at += 1,
        }
    }
}

/// Offset of the first byte from `at` on that strict parsing does not take in a target, or the length:
/// controls, space, `#`, DEL and everything above.
#[inline]
pub(super) fn target_end(bytes: &[u8], at: usize) -> usize {
    let stops = |b| b <= b' ' || b >= 0x7f || b == b'#';
    search(bytes, at, stops, |word| below(word, b'!') | equal(word, b'#') | equal(word, 0x7f) | (word & HIGH))
}

/// First byte from `at` on for which `stops` holds, or the length.  The lowest bit that `flags` sets is in the first
/// such byte of a word.
#[inline(always)]
fn search(bytes: &[u8], at: usize, stops: impl Fn(u8) -> bool, flags: impl Fn(u64) -> u64) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((word, behind)) = rest.split_first_chunk() {
        let flags = flags(u64::from_le_bytes(*word));
        if flags != 0 {
            return bytes.len() - rest.len() + flags.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    while let [byte, behind @ ..] = rest
        && !stops(*byte)
    {
        rest = behind;
    }
    bytes.len() - rest.len()
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
        let check = |search: fn(&[u8], usize) -> usize, stops: fn(u8) -> bool, bytes: &[u8]| {
            for at in 0..=bytes.len() {
                let twin = bytes[at..].iter().position(|&b| stops(b)).map_or(bytes.len(), |found| at + found);
                assert_eq!(search(bytes, at), twin, "{bytes:?} from {at}");
            }
        };
        for byte in 0..=255u8 {
            for (len, place) in [(3, 1), (16, 15), (17, 0), (20, 11), (40, 7), (40, 31), (40, 39)] {
                for fill in [b'a', 0x80, 0xff, b'\t'] {
                    let mut bytes = vec![fill; len];
                    bytes[place] = byte;
                    check(value_end, |b| matches!(b, b'\r' | b'\n' | 0), &bytes);
                    check(target_end, |b| b <= 32 || b >= 127 || b == b'#', &bytes);
                    check(colon, |b| b == b':', &bytes);
                }
            }
        }
    }
}
