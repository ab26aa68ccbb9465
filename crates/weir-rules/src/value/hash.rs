//! Non-cryptographic hashes that must give the same numbers everywhere: djb2, sdbm, wt6, crc32 and crc32c.

/// D. J. Bernstein's hash, `h * 33 + c` from 0 (the shift-and-add of 5381's cousin used for balancing).
#[must_use]
pub fn djb2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381, |h: u32, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)))
}

/// The sdbm library's hash, `h * 65599 + c`.
#[must_use]
pub fn sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |h: u32, b| h.wrapping_mul(65599).wrapping_add(u32::from(*b)))
}

/// W. Tarreau's hash: two words, rotated by amounts that come from the data.
#[must_use]
pub fn wt6(bytes: &[u8]) -> u32 {
    let (mut h0, mut h1): (u32, u32) = (0xa53c_965a, 0x5ca6_953a);
    let (mut step0, mut step1) = (6, 18);
    for b in bytes {
        let byte = u32::from(*b);
        h0 = !(h0 ^ byte);
        h1 = !h1.wrapping_add(byte);
        (h0, h1) = (h1.rotate_left(step0), h0.rotate_left(step1));
        let mixed = (h0 >> 16 ^ h1) & 0xffff;
        step0 = mixed & 0x1f;
        step1 = mixed >> 11;
    }
    h0 ^ h1
}

/// Spreads a hash over all 32 bits: Bob Jenkins' full avalanche, then a large prime near 3/4 of the range.
#[must_use]
pub fn avalanche(hash: u32) -> u32 {
    let mut h = hash;
    h = h.wrapping_add(0x7ed5_5d16).wrapping_add(h << 12);
    h = (h ^ 0xc761_c23c) ^ (h >> 19);
    h = h.wrapping_add(0x1656_67b1).wrapping_add(h << 5);
    h = h.wrapping_add(0xd3a2_646c) ^ (h << 9);
    h = h.wrapping_add(0xfd70_46c5).wrapping_add(h << 3);
    ((h ^ 0xb55a_4f09) ^ (h >> 16)).wrapping_mul(3_221_225_473)
}

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
}

static CRC32: [u32; 256] = table(0xedb8_8320);
static CRC32C: [u32; 256] = table(0x82f6_3b78);

fn crc(table: &[u32; 256], bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, b| table[usize::from(crc as u8 ^ b)] ^ crc >> 8)
}

/// The CRC of Ethernet, gzip and PNG.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc(&CRC32, bytes)
}

/// The CRC of iSCSI and SCTP (RFC 4960 appendix B).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc(&CRC32C, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        let check = |name: &str, got: u32, expected: u32| assert_eq!(got, expected, "{name}");
        check("crc32", crc32(b"a"), 3_904_355_907);
        check("crc32c", crc32c(b"a"), 3_251_651_376);
        check("djb2", djb2(b"a"), 177_670);
        check("sdbm", sdbm(b"a"), 97);
        check("wt6", wt6(b"a"), 1_900_802_597);
        check("wt6 long", wt6(b"hello world"), 1_866_899_626);
        check("crc32 spread", avalanche(crc32(b"a")), 1_288_200_982);
        check("djb2 spread", avalanche(djb2(b"a")), 3_548_763_807);
        check("sdbm spread", avalanche(sdbm(b"a")), 1_830_748_055);
        check("base32", avalanche(sdbm(b"Www.Example.com:8080/a/b")), 1_353_571_787);
    }
}
