//! Password hashes as crypt(3) writes them: SHA-256 (`$5$`), SHA-512 (`$6$`), yescrypt (`$y$`), bcrypt (`$2b$` and
//! its like) and MD5 (`$1$`).
//!
//! A hash is made to take long, and a client of basic authentication shows its password with every request. So a
//! thread remembers which passwords were right, as digests under a key that nobody else has.

use std::cell::RefCell;
use std::collections::VecDeque;

use aws_lc_rs::{constant_time, digest, hmac, rand};
use mcf::PasswordHashRef;
use md5::{Digest, Md5};
use sha_crypt::{PasswordVerifier, ShaCrypt};
use yescrypt::Yescrypt;

/// Right passwords that a thread remembers, the oldest of which goes first.
const MOST_REMEMBERED: usize = 1024;

/// Whether a hash can be verified; the error says why not.
pub(crate) fn check_format(hash: &str) -> Result<(), String> {
    let malformed = |error: &dyn std::fmt::Display| Err(format!("the password hash is malformed: {error}"));
    match scheme(hash) {
        Some("1") => Ok(()),
        Some("5" | "6" | "y") => {
            let fields = hash.split('$').count();
            let parsed = PasswordHashRef::new(hash).map(|_| ());
            parsed.or_else(|error| malformed(&error))?;
            if fields < 4 { malformed(&"the salt or the digest is missing") } else { Ok(()) }
        }
        Some("2" | "2a" | "2b" | "2x" | "2y") => {
            hash.parse::<bcrypt::HashParts>().map(|_| ()).or_else(|error| malformed(&error))
        }
        Some(other) => Err(format!("password hashes of type '${other}$' are not implemented yet")),
        None => {
            Err("DES password hashes are not implemented yet; use SHA-512 (mkpasswd -m sha-512)".to_owned())
        }
    }
}

/// Whether a password has this hash.
pub(crate) fn verify(hash: &str, password: &[u8]) -> bool {
    REMEMBERED.with_borrow_mut(|remembered| remembered.is_right(hash, password, is_right))
}

fn scheme(hash: &str) -> Option<&str> {
    hash.split('$').nth(1)
}

fn is_right(hash: &str, password: &[u8]) -> bool {
    match scheme(hash) {
        Some("1") => md5_crypt(hash, password).is_some_and(|made| {
            constant_time::verify_slices_are_equal(made.as_bytes(), hash.as_bytes()).is_ok()
        }),
        Some("5" | "6") => PasswordHashRef::new(hash)
            .is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok()),
        Some("y") => PasswordHashRef::new(hash)
            .is_ok_and(|hash| Yescrypt::default().verify_password(password, hash).is_ok()),
        _ => bcrypt::verify(password, hash).unwrap_or(false),
    }
}

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::new(Remembered::new());
}

/// Passwords that were right for their hashes.
struct Remembered {
    /// Nothing is remembered without one.
    key: Option<hmac::Key>,
    tags: VecDeque<hmac::Tag>,
}

impl Remembered {
    fn new() -> Self {
        let mut secret = [0; digest::SHA256_OUTPUT_LEN];
        let key = rand::fill(&mut secret).is_ok().then(|| hmac::Key::new(hmac::HMAC_SHA256, &secret));
        Self { key, tags: VecDeque::new() }
    }

    fn is_right(&mut self, hash: &str, password: &[u8], verify: impl FnOnce(&str, &[u8]) -> bool) -> bool {
        let Some(key) = &self.key else { return verify(hash, password) };
        // A hash holds no zero byte, so that it is clear where it ends.
        let tag = hmac::sign(key, &[hash.as_bytes(), b"\0", password].concat());
        if self.tags.iter().any(|known| known.as_ref() == tag.as_ref()) {
            return true;
        }
        let right = verify(hash, password);
        if right {
            self.tags.truncate(MOST_REMEMBERED - 1);
            self.tags.push_front(tag);
        }
        right
    }
}

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// In which order the bytes of an MD5 digest are encoded, three at a time; 255 is nothing.
const MD5_ORDER: [[u8; 3]; 6] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5], [255, 255, 11]];

/// The MD5 scheme of FreeBSD, for which there is no library that is kept.
fn md5_crypt(hash: &str, password: &[u8]) -> Option<String> {
    let salt = hash.split('$').nth(2)?;
    let salt = salt.get(..salt.len().min(8))?;
    let inner = Md5::digest([password, salt.as_bytes(), password].concat());
    let mut text = [password, b"$1$", salt.as_bytes()].concat();
    text.extend(inner.iter().cycle().take(password.len()));
    let mut bits = password.len();
    while bits > 0 {
        text.push(if bits & 1 == 1 { 0 } else { *password.first()? });
        bits >>= 1;
    }
    let mut digest = Md5::digest(&text);
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
        digest = Md5::digest(&text);
    }
    let mut out = format!("$1${salt}$");
    for group in MD5_ORDER {
        let byte = |at: u8| u32::from(digest.get(usize::from(at)).copied().unwrap_or(0));
        let mut bits = byte(group[0]) << 16 | byte(group[1]) << 8 | byte(group[2]);
        let letters = 4 - group.iter().filter(|at| **at == 255).count();
        for _ in 0..letters {
            out.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        // Made by glibc's crypt with libxcrypt; the salt of SHA-crypt ends after 16 letters.
        check(
            "$6$rounds=1234$longersaltthansi$e9jkA8pJ8xQTJOWo7f4.8I/mNV8IcbfM3Jkm4CHiFZ46VikjVisLXFZZUEpNbX08ygSoP3aGTBvSzCGYFT1T10",
            "secret",
            true,
        );
        for password in ["secret", "wrong"] {
            let right = password == "secret";
            check("$y$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9", password, right);
            check("$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a", password, right);
            check("$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a", password, right);
        }
    }

    #[test]
    fn formats() {
        let check = |hash: &str, expected: Result<(), &str>| match (check_format(hash), expected) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(why)) => assert!(found.contains(why), "{hash}: {found}"),
            (found, _) => panic!("{hash}: {found:?}"),
        };
        check("$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.", Ok(()));
        check("$y$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9", Ok(()));
        check("$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a", Ok(()));
        check("$2y$05$abc", Err("malformed"));
        check("$6$", Err("malformed"));
        check("$7$CU..../....abc$wAuEOYcLM7kO6uZQXQIbfiQLCU8Fy1YXPblM7CyxZH3", Err("'$7$' are not"));
        check("abcdefghijklm", Err("DES"));
    }

    #[test]
    fn right_passwords_are_remembered_and_no_others() {
        let mut remembered = Remembered::new();
        let mut asked = 0;
        let mut ask = |remembered: &mut Remembered, hash: &str, password: &str| {
            let right = remembered.is_right(hash, password.as_bytes(), |_, password| {
                asked += 1;
                password.starts_with(b"good")
            });
            (right, std::mem::take(&mut asked))
        };
        assert_eq!(ask(&mut remembered, "h", "good"), (true, 1));
        assert_eq!(ask(&mut remembered, "h", "good"), (true, 0));
        assert_eq!(ask(&mut remembered, "i", "good"), (true, 1));
        assert_eq!(ask(&mut remembered, "h", "bad"), (false, 1));
        assert_eq!(ask(&mut remembered, "h", "bad"), (false, 1));
        for number in 0..MOST_REMEMBERED {
            ask(&mut remembered, "h", &format!("good {number}"));
        }
        assert_eq!(remembered.tags.len(), MOST_REMEMBERED);
        assert_eq!(ask(&mut remembered, "h", "good"), (true, 1));
    }

    proptest! {
        #[test]
        fn what_others_were_right_with_makes_nobody_right(
            before in prop::collection::vec(("[ab$]{0,3}", "[ab$]{0,3}"), 0..40),
            asked in prop::collection::vec(("[ab$]{0,3}", "[ab$]{0,3}"), 1..10),
        ) {
            let is_right = |hash: &str, password: &[u8]| hash.len() == password.len();
            let mut used = Remembered::new();
            for (hash, password) in &before {
                used.is_right(hash, password.as_bytes(), is_right);
            }
            for (hash, password) in &asked {
                let password = password.as_bytes();
                prop_assert_eq!(used.is_right(hash, password, is_right), is_right(hash, password));
                prop_assert!(used.tags.len() <= MOST_REMEMBERED);
            }
        }
    }
}
