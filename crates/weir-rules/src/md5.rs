//! MD5 (RFC 1321), for `digest(md5)` and old password hashes only: it protects nothing.

/// Shifts of the four rounds.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321 section 3.4: the integer part of 2^32 times abs(sin(i + 1)).
fn constants() -> &'static [u32; 64] {
    static TABLE: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(|| {
        std::array::from_fn(|i| (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32)
    });
    &TABLE
}

/// The digest of a message.
pub(crate) fn digest(message: &[u8]) -> [u8; 16] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    // Room for the length behind the padding.
    padded.resize((message.len() + 9).next_multiple_of(64), 0);
    let bits = (message.len() as u64).wrapping_mul(8);
    let at = padded.len() - 8;
    padded[at..].copy_from_slice(&bits.to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    let mut out = [0; 16];
    for (place, word) in out.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let word =
        |i: usize| u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]]);
    let [mut a, mut b, mut c, mut d] = *state;
    for (i, constant) in constants().iter().enumerate() {
        let (f, g) = match i / 16 {
            0 => (b & c | !b & d, i),
            1 => (d & b | !d & c, (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), 7 * i % 16),
        };
        let sum = a.wrapping_add(f).wrapping_add(*constant).wrapping_add(word(g));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d]) {
        *s = s.wrapping_add(v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suite_of_the_rfc() {
        let check = |text: &str, expected: &str| {
            let hex: String = digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, expected, "{text}");
        };
        check("", "d41d8cd98f00b204e9800998ecf8427e");
        check("a", "0cc175b9c0f1b6a831c399e269772661");
        check("message digest", "f96b697d7cb7938d525a2f31aaf161d0");
        check(
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        );
        check(&"x".repeat(55), "04364420e25c512fd958a70738aa8f72");
        check(&"x".repeat(56), "668a72d5ba17f08e62dabcafad6db14b");
        check(&"x".repeat(57), "693037871c4a9d3d8685018905cb530a");
        check(&"x".repeat(63), "7dc2ca208106a2f703567bdff99d8981");
        check(&"x".repeat(64), "c1bb4f81d892b2d57947682aeb252456");
        check(&"x".repeat(65), "1bc932052302d074bdec39795fe00cf6");
        check("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b");
    }
}
