//! Integers with a prefix (RFC 7541 section 5.1).

use super::CompressionError;

/// Octets an integer may continue over.  Four hold 28 bits more than the prefix, far above every
/// length that is accepted here; longer ones are only ways to send nothing (RFC 7541 section 7.4).
const MAX_CONTINUATION_OCTETS: usize = 4;

/// Reads the integer whose first octet is `input[*at]`, with a prefix of `bits` bits.
#[inline]
pub(super) fn read(input: &[u8], at: &mut usize, bits: u32) -> Result<usize, CompressionError> {
    let mask = 0xff >> (8 - bits);
    let first = *input.get(*at).ok_or(CompressionError)? & mask;
    *at += 1;
    if first != mask {
        return Ok(usize::from(first));
    }
    read_rest(input, at, usize::from(mask))
}

#[inline(never)]
fn read_rest(input: &[u8], at: &mut usize, prefix: usize) -> Result<usize, CompressionError> {
    let mut value = prefix;
    for octet in 0..MAX_CONTINUATION_OCTETS {
        let byte = *input.get(*at).ok_or(CompressionError)?;
        *at += 1;
        value += usize::from(byte & 0x7f) << (7 * octet);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(CompressionError)
}

/// Appends `value` with a prefix of `bits` bits under the pattern `first`.
#[inline(always)]
pub(super) fn write(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    write_rest(out, first | mask as u8, value - mask);
}

#[inline(never)]
fn write_rest(out: &mut Vec<u8>, first: u8, rest: usize) {
    out.push(first);
    let mut rest = rest;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc7541_c1_integers() {
        let check = |value, bits, bytes: &[u8]| {
            let mut out = Vec::new();
            write(&mut out, 0, bits, value);
            assert_eq!(out, bytes);
            let mut at = 0;
            assert_eq!(read(bytes, &mut at, bits), Ok(value));
            assert_eq!(at, bytes.len());
        };
        check(10, 5, &[10]);
        check(1337, 5, &[31, 154, 10]);
        check(42, 8, &[42]);
        check(0, 7, &[0]);
        check(127, 7, &[127, 0]);
        check(1 << 20, 4, &[15, 0xf1, 0xff, 0x3f]);
    }

    #[test]
    fn endless_integers_are_refused() {
        let mut at = 0;
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0], &mut at, 7), Err(CompressionError));
        assert_eq!(read(&[0x7f, 0x80], &mut 0, 7), Err(CompressionError));
        assert_eq!(read(&[], &mut 0, 7), Err(CompressionError));
    }
}
