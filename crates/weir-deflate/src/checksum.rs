//! The checksums of the two envelopes: CRC-32 (RFC 1952) and Adler-32 (RFC 1950).

/// Which checksum an envelope wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Checksum {
    Crc32,
    Adler32,
}

impl Checksum {
    /// The checksum of all bytes so far, given the one before `input`.
    pub(crate) fn update(self, before: u32, input: &[u8]) -> u32 {
        match self {
            Self::Crc32 => {
                let mut hasher = crc32fast::Hasher::new_with_initial(before);
                hasher.update(input);
                hasher.finalize()
            }
            Self::Adler32 => adler32(before, input),
        }
    }
}

/// RFC 1950 section 9: the largest prime below 65536.
const ADLER_BASE: u32 = 65521;
/// The most bytes whose sums fit 32 bits before they are reduced (RFC 1950 section 9, NMAX).
const ADLER_RUN: usize = 5552;

fn adler32(before: u32, input: &[u8]) -> u32 {
    let (mut a, mut b) = (before & 0xffff, before >> 16);
    for run in input.chunks(ADLER_RUN) {
        let mut lanes = run.chunks_exact(16);
        for lane in &mut lanes {
            b += 16 * a;
            for (i, &byte) in lane.iter().enumerate() {
                a += u32::from(byte);
                b += (16 - i as u32) * u32::from(byte);
            }
        }
        for &byte in lanes.remainder() {
            a += u32::from(byte);
            b += a;
        }
        a %= ADLER_BASE;
        b %= ADLER_BASE;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adler_is_the_sum_of_the_rfc() {
        let check = |input: &[u8]| {
            let (mut a, mut b) = (1u64, 0u64);
            for &byte in input {
                a = (a + u64::from(byte)) % u64::from(ADLER_BASE);
                b = (b + a) % u64::from(ADLER_BASE);
            }
            assert_eq!(u64::from(adler32(1, input)), b << 16 | a);
        };
        check(b"");
        check(b"Wikipedia");
        check(&[0xff; 20_001]);
        assert_eq!(adler32(1, b"Wikipedia"), 0x11e6_0398);
    }
}
