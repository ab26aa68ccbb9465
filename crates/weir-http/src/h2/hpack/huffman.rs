//! The Huffman code for string literals (RFC 7541 section 5.2 and appendix B), reading only.
//!
//! The code is canonical: its lengths say everything, and the tables are made from them while
//! compiling.  This proxy does not write Huffman: a repeated field leaves as an index after its second
//! occurrence, and for the rest copying is cheaper than coding.

use super::CompressionError;

/// Bits of each octet's code.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26,
];

const LONGEST: usize = 30;

/// Codes of up to this many bits are found with one look-up; they cover all of printable text but
/// a few signs.
const DIRECT_BITS: usize = 10;

/// An octet takes five bits or more, so a literal grows at most by this much.
const SHORTEST: usize = 5;

struct Code {
    /// By the next `DIRECT_BITS` bits: length in the high octet and the symbol, or 0 for a longer code.
    direct: [u16; 1 << DIRECT_BITS],
    /// By length: the first code of that length.
    first: [u32; LONGEST + 1],
    /// By length: how many codes have it.
    count: [u32; LONGEST + 1],
    /// By length: where its symbols start.
    start: [u32; LONGEST + 1],
    /// Symbols by length, then by value.
    symbols: [u8; 256],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        direct: [0; 1 << DIRECT_BITS],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        symbols: [0; 256],
    };
    let mut next = 0u32;
    let mut placed = 0;
    let mut len = 1;
    while len <= LONGEST {
        next <<= 1;
        code.first[len] = next;
        code.start[len] = placed as u32;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == len {
                code.symbols[placed] = symbol as u8;
                if len <= DIRECT_BITS {
                    let from = (next as usize) << (DIRECT_BITS - len);
                    let mut at = 0;
                    while at < 1 << (DIRECT_BITS - len) {
                        code.direct[from + at] = (len as u16) << 8 | symbol as u16;
                        at += 1;
                    }
                }
                next += 1;
                placed += 1;
            }
            symbol += 1;
        }
        code.count[len] = next - code.first[len];
        len += 1;
    }
    code
}

/// Appends what `input` stands for to `out`.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
    out.reserve(input.len() * 8 / SHORTEST + 1);
    // The next bits, from the most significant one down; `bits` of them are there.
    let mut next = 0u64;
    let mut bits = 0usize;
    let mut at = 0;
    loop {
        if let Some(word) = input.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            next |= u64::from_be_bytes(*word) >> bits;
            let taken = (63 - bits) >> 3;
            at += taken;
            bits += taken * 8;
        } else {
            while bits <= 56 && at < input.len() {
                next |= u64::from(input[at]) << (56 - bits);
                at += 1;
                bits += 8;
            }
        }
        // As long as a longest code is there, no further look at the input is needed.
        loop {
            let direct = CODE.direct[(next >> (64 - DIRECT_BITS)) as usize];
            let (symbol, len) = match direct {
                0 => long(next)?,
                _ => (direct as u8, usize::from(direct >> 8)),
            };
            if len > bits {
                return end_of_literal(next, bits);
            }
            out.push(symbol);
            next <<= len;
            bits -= len;
            if bits < LONGEST {
                break;
            }
        }
        if bits == 0 && at == input.len() {
            return Ok(());
        }
    }
}

/// The symbol at the head of `next` whose code is longer than `DIRECT_BITS`.
#[cold]
fn long(next: u64) -> Result<(u8, usize), CompressionError> {
    for len in DIRECT_BITS + 1..=LONGEST {
        let offset = ((next >> (64 - len)) as u32).wrapping_sub(CODE.first[len]);
        if offset < CODE.count[len] {
            return Ok((CODE.symbols[(CODE.start[len] + offset) as usize], len));
        }
    }
    // RFC 7541 section 5.2: a literal that contains the EOS symbol is a decoding error.
    Err(CompressionError)
}

/// RFC 7541 section 5.2: what is left is at most seven bits, all ones.
fn end_of_literal(next: u64, bits: usize) -> Result<(), CompressionError> {
    if bits == 0 {
        return Ok(());
    }
    if bits < 8 && next >> (64 - bits) == (1 << bits) - 1 { Ok(()) } else { Err(CompressionError) }
}

#[cfg(test)]
pub(in crate::h2) use tests::encode as encode_for_tests;

#[cfg(test)]
mod tests {
    use super::*;

    /// The naive twin: codes written bit by bit from the lengths.
    pub(in crate::h2) fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let len = usize::from(LENGTHS[usize::from(byte)]);
            let rank = (0..usize::from(byte)).filter(|&s| usize::from(LENGTHS[s]) == len).count() as u32;
            let code = CODE.first[len] + rank;
            bits.extend((0..len).rev().map(|bit| code >> bit & 1 == 1));
        }
        while bits.len() % 8 != 0 {
            bits.push(true);
        }
        bits.chunks(8).map(|c| c.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
    }

    fn decoded(input: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn rfc7541_c4_literals() {
        let check = |text: &str, bytes: &[u8]| {
            assert_eq!(encode(text.as_bytes()), bytes);
            assert_eq!(decoded(bytes).unwrap(), text.as_bytes());
        };
        check("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]);
        check("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
        check("custom-value", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf]);
        check("", &[]);
    }

    #[test]
    fn every_octet_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        assert_eq!(decoded(&encode(&all)).unwrap(), all);
        for n in 0..all.len() {
            assert_eq!(decoded(&encode(&all[n..])).unwrap(), &all[n..]);
        }
    }

    #[test]
    fn bad_endings_are_refused() {
        let check = |bytes: &[u8]| assert_eq!(decoded(bytes), Err(CompressionError), "{bytes:x?}");
        check(&[0xff, 0xff, 0xff, 0xff]); // EOS
        check(&[0xff]); // eight bits of padding
        check(&[0x18]); // padding of zeros after 'a'
    }
}
