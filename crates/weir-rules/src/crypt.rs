//! Password hashes as crypt(3) writes them: SHA-256 (`$5$`), SHA-512 (`$6$`) and MD5 (`$1$`).

use aws_lc_rs::constant_time;
use aws_lc_rs::digest::{Algorithm, Context, SHA256, SHA512};

use crate::md5;

/// Rounds without `rounds=`.
const DEFAULT_ROUNDS: u32 = 5000;
/// Rounds are bounded by the scheme itself.
const MAX_ROUNDS: u32 = 999_999_999;

/// Whether a hash can be verified; the error says why not.
pub(crate) fn check_format(hash: &str) -> Result<(), String> {
    match hash.split('$').nth(1) {
        Some("1" | "5" | "6") => Ok(()),
        Some(other) => Err(format!("password hashes of type '${other}$' are not implemented yet")),
        None => {
            Err("DES password hashes are not implemented yet; use SHA-512 (mkpasswd -m sha-512)".to_owned())
        }
    }
}

/// Whether a password has this hash.
pub(crate) fn verify(hash: &str, password: &[u8]) -> bool {
    let made = match hash.split('$').nth(1) {
        Some("1") => md5_crypt(hash, password),
        Some("5") => sha_crypt(hash, password, &SHA256, &ORDER_256),
        Some("6") => sha_crypt(hash, password, &SHA512, &ORDER_512),
        _ => None,
    };
    made.is_some_and(|made| constant_time::verify_slices_are_equal(made.as_bytes(), hash.as_bytes()).is_ok())
}

/// Order in which the digest's bytes are encoded, three at a time; 255 is nothing.
const ORDER_256: [[u8; 3]; 11] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
    [255, 31, 30],
];

const ORDER_512: [[u8; 3]; 22] = [
    [0, 21, 42],
    [22, 43, 1],
    [44, 2, 23],
    [3, 24, 45],
    [25, 46, 4],
    [47, 5, 26],
    [6, 27, 48],
    [28, 49, 7],
    [50, 8, 29],
    [9, 30, 51],
    [31, 52, 10],
    [53, 11, 32],
    [12, 33, 54],
    [34, 55, 13],
    [56, 14, 35],
    [15, 36, 57],
    [37, 58, 16],
    [59, 17, 38],
    [18, 39, 60],
    [40, 61, 19],
    [62, 20, 41],
    [255, 255, 63],
];

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn encode(digest: &[u8], order: &[[u8; 3]], out: &mut String) {
    for group in order {
        let byte = |at: u8| u32::from(digest.get(usize::from(at)).copied().unwrap_or(0));
        let mut bits = byte(group[0]) << 16 | byte(group[1]) << 8 | byte(group[2]);
        let letters = 4 - group.iter().filter(|at| **at == 255).count();
        for _ in 0..letters {
            out.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
}

/// Fills `len` bytes with repetitions of a digest.
fn repeated(digest: &[u8], len: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(len).collect()
}

/// The SHA-crypt scheme of Ulrich Drepper ("Unix crypt using SHA-256 and SHA-512"), steps as numbered there.
fn sha_crypt(
    hash: &str,
    password: &[u8],
    algorithm: &'static Algorithm,
    order: &[[u8; 3]],
) -> Option<String> {
    let mut parts = hash.split('$').skip(1);
    let kind = parts.next()?;
    let mut salt = parts.next()?;
    let mut rounds = None;
    if let Some(n) = salt.strip_prefix("rounds=") {
        rounds = Some(n.parse::<u32>().ok()?.clamp(1000, MAX_ROUNDS));
        salt = parts.next()?;
    }
    let salt = salt.get(..salt.len().min(16))?;
    let digest = |chunks: &[&[u8]]| {
        let mut context = Context::new(algorithm);
        chunks.iter().for_each(|c| context.update(c));
        context.finish().as_ref().to_vec()
    };
    // Steps 4 to 8: digest B.
    let b = digest(&[password, salt.as_bytes(), password]);
    // Steps 1 to 3 and 9 to 12: digest A.
    let mut a = Context::new(algorithm);
    a.update(password);
    a.update(salt.as_bytes());
    a.update(&repeated(&b, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        a.update(if bits & 1 == 1 { &b } else { password });
        bits >>= 1;
    }
    let mut a = a.finish().as_ref().to_vec();
    // Steps 13 to 16: sequence P.
    let mut dp = Context::new(algorithm);
    (0..password.len()).for_each(|_| dp.update(password));
    let p = repeated(dp.finish().as_ref(), password.len());
    // Steps 17 to 20: sequence S.
    let mut ds = Context::new(algorithm);
    (0..16 + usize::from(a[0])).for_each(|_| ds.update(salt.as_bytes()));
    let s = repeated(ds.finish().as_ref(), salt.len());
    // Step 21: the rounds.
    for round in 0..rounds.unwrap_or(DEFAULT_ROUNDS) {
        let mut chunks: Vec<&[u8]> = Vec::with_capacity(4);
        chunks.push(if round & 1 == 1 { &p } else { &a });
        if round % 3 != 0 {
            chunks.push(&s);
        }
        if round % 7 != 0 {
            chunks.push(&p);
        }
        chunks.push(if round & 1 == 1 { &a } else { &p });
        a = digest(&chunks);
    }
    let mut out = format!("${kind}$");
    if let Some(rounds) = rounds {
        out.push_str(&format!("rounds={rounds}$"));
    }
    out.push_str(salt);
    out.push('$');
    encode(&a, order, &mut out);
    Some(out)
}

/// The MD5 scheme of FreeBSD.
fn md5_crypt(hash: &str, password: &[u8]) -> Option<String> {
    let salt = hash.split('$').nth(2)?;
    let salt = salt.get(..salt.len().min(8))?;
    let inner = md5::digest(&[password, salt.as_bytes(), password].concat());
    let mut text = [password, b"$1$", salt.as_bytes()].concat();
    text.extend(repeated(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        text.push(if bits & 1 == 1 { 0 } else { *password.first()? });
        bits >>= 1;
    }
    let mut digest = md5::digest(&text);
    for round in 0..1000 {
        let mut text = Vec::with_capacity(64);
        text.extend_from_slice(if round & 1 == 1 { password } else { &digest });
        if round % 3 != 0 {
            text.extend_from_slice(salt.as_bytes());
        }
        if round % 7 != 0 {
            text.extend_from_slice(password);
        }
        text.extend_from_slice(if round & 1 == 1 { &digest } else { password });
        digest = md5::digest(&text);
    }
    let mut out = format!("$1${salt}$");
    encode(&digest, &[[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5], [255, 255, 11]], &mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        let check = |hash: &str, password: &str, expected| {
            assert_eq!(verify(hash, password.as_bytes()), expected, "{hash}");
        };
        check("$1$saltsalt$9xy1btjgzLYfb7hivXtC//", "secret", true);
        check(
            "$1$saltsalt$yS09aIwGAe0tjDMbvLmxN0",
            "a much longer password than the digest has bytes, really longer than that, yes",
            true,
        );
        check("$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.", "secret", true);
        check(
            "$5$saltstring$fK0YInkSkfnFE0zb161r6qqII6JRvLbSzJqL202NL3.",
            "a much longer password than the digest has bytes, really longer than that, yes",
            true,
        );
        check(
            "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTITsuk0Ry5qulYz.",
            "secret",
            true,
        );
        check(
            "$6$saltstring$NhX2N0vnZyUpvQulgTvw820YTmr3EL/Y8THp9A1W19I9Nqr4QPS3pqXFBFvuKuzGdTHLF7yHf7Cf9Ub9m3s5F.",
            "a much longer password than the digest has bytes, really longer than that, yes",
            true,
        );
        check(
            "$6$saltstring$NhX2N0vnZyUpvQulgTvw820YTmr3EL/Y8THp9A1W19I9Nqr4QPS3pqXFBFvuKuzGdTHLF7yHf7Cf9Ub9m3s5F.",
            "wrong",
            false,
        );
        check("$9$x$y", "secret", false);
    }
}
