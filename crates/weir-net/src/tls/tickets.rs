//! Session tickets with keys from a file, so that several processes and machines share them: RFC 5077
//! section 4's recommended construction, with AES-CBC and HMAC-SHA256.
//!
//! Owns the keys and their rotation. What is in a ticket is left to rustls.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use rustls::server::ProducesTickets;

/// Keys in use: the newest is known for decryption before it encrypts, the middle one encrypts, the oldest
/// still decrypts.
const KEYS_IN_USE: usize = 3;

/// Key name, 128-bit AES key and 128-bit HMAC key.
const AES128_KEY_BYTES: usize = 48;

/// Key name, 256-bit HMAC key and 256-bit AES key.
const AES256_KEY_BYTES: usize = 80;

const NAME_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// A ticket is refused when it is longer; client certificates are in it.
const MAX_TICKET_BYTES: usize = 65_535;

/// Keys that a bind line, or several, make tickets with.
pub struct TicketKeys {
    keys: ArcSwap<Vec<Arc<TicketKey>>>,
    /// Held while the keys are replaced.
    writer: Mutex<()>,
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    bytes: usize,
    encrypt: PaddedBlockEncryptingKey,
    decrypt: PaddedBlockDecryptingKey,
    mac: hmac::Key,
}

impl TicketKeys {
    /// Reads a `tls-ticket-keys` file: one key in base64 on each line, at least three, all of one length.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Vec<_> = lines.map(TicketKey::from_base64).collect::<Result<_, _>>()?;
        if keys.len() < KEYS_IN_USE {
            return Err(format!("at least {KEYS_IN_USE} keys are needed, there are {}", keys.len()));
        }
        if keys.iter().any(|key| Some(key.bytes) != keys.first().map(|first| first.bytes)) {
            return Err("all keys must have the length of the first one".to_owned());
        }
        let in_use: Vec<_> = keys.into_iter().rev().take(KEYS_IN_USE).rev().map(Arc::new).collect();
        Ok(Self { keys: ArcSwap::from_pointee(in_use), writer: Mutex::new(()) })
    }

    /// Adds a key in base64 and forgets the oldest (`set ssl tls-key`).
    pub fn rotate(&self, base64: &str) -> Result<(), String> {
        let key = TicketKey::from_base64(base64.trim())?;
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.keys.load_full();
        if current.first().is_some_and(|first| first.bytes != key.bytes) {
            return Err("the key must have the length of the others".to_owned());
        }
        let kept = current.iter().skip(1).map(Arc::clone).chain([Arc::new(key)]).collect();
        self.keys.store(Arc::new(kept));
        Ok(())
    }

    /// The names of the keys in use, oldest first, for display.
    pub fn names(&self) -> Vec<[u8; NAME_BYTES]> {
        self.keys.load().iter().map(|key| key.name).collect()
    }
}

impl TicketKey {
    fn from_base64(line: &str) -> Result<Self, String> {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(line)
            .map_err(|error| format!("a key is not base64: {error}"))?;
        let (algorithm, mac, aes) = match bytes.len() {
            AES128_KEY_BYTES => (&AES_128, bytes.get(32..48), bytes.get(16..32)),
            AES256_KEY_BYTES => (&AES_256, bytes.get(16..48), bytes.get(48..80)),
            other => {
                return Err(format!("a key has {other} bytes, not {AES128_KEY_BYTES} or {AES256_KEY_BYTES}"));
            }
        };
        let unusable = |_| "a key cannot be used".to_owned();
        let aes = aes.unwrap_or_default();
        let key = || UnboundCipherKey::new(algorithm, aes).map_err(unusable);
        Ok(Self {
            name: bytes.first_chunk().copied().unwrap_or_default(),
            bytes: bytes.len(),
            encrypt: PaddedBlockEncryptingKey::cbc_pkcs7(key()?).map_err(unusable)?,
            decrypt: PaddedBlockDecryptingKey::cbc_pkcs7(key()?).map_err(unusable)?,
            mac: hmac::Key::new(hmac::HMAC_SHA256, mac.unwrap_or_default()),
        })
    }
}

/// Makes tickets for one configuration.
///
/// `context` stands for how clients are verified: a ticket from where nobody asks for a certificate is worth
/// nothing where one is required, although the keys are the same.
pub(crate) struct Ticketer {
    pub(crate) keys: Arc<TicketKeys>,
    pub(crate) context: [u8; 32],
    pub(crate) lifetime_s: u32,
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("lifetime_s", &self.lifetime_s).finish_non_exhaustive()
    }
}

impl Ticketer {
    /// RFC 5077 section 4: the name, the IV, the length of the encrypted state and that itself.
    fn mac_input(&self, ticket: &[u8]) -> Vec<u8> {
        let (front, state) = ticket.split_at(ticket.len().min(NAME_BYTES + IV_BYTES));
        let length = u32::try_from(state.len()).unwrap_or(u32::MAX).to_be_bytes();
        [&self.context[..], front, &length, state].concat()
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime_s
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys.keys.load();
        let key = keys.get(keys.len().checked_sub(2)?)?;
        let mut iv = [0; IV_BYTES];
        rand::fill(&mut iv).ok()?;
        let mut state = plain.to_vec();
        let context = EncryptionContext::Iv128(FixedLength::from(iv));
        key.encrypt.less_safe_encrypt(&mut state, context).ok()?;
        let mut ticket = [&key.name[..], &iv, &state].concat();
        let mac = hmac::sign(&key.mac, &self.mac_input(&ticket));
        ticket.extend_from_slice(mac.as_ref());
        (ticket.len() <= MAX_TICKET_BYTES).then_some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > MAX_TICKET_BYTES {
            return None;
        }
        let (body, mac) = ticket.split_at_checked(ticket.len().checked_sub(MAC_BYTES)?)?;
        let (name, rest) = body.split_first_chunk::<NAME_BYTES>()?;
        let (iv, state) = rest.split_first_chunk::<IV_BYTES>()?;
        let keys = self.keys.keys.load();
        let key = keys.iter().rev().find(|key| key.name == *name)?;
        hmac::verify(&key.mac, &self.mac_input(body), mac).ok()?;
        let mut state = state.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(*iv));
        let length = key.decrypt.decrypt(&mut state, context).ok()?.len();
        state.truncate(length);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seed: u8, bytes: usize) -> String {
        base64::engine::general_purpose::STANDARD.encode(vec![seed; bytes])
    }

    fn keys(seeds: &[u8], bytes: usize) -> Result<TicketKeys, String> {
        let lines: Vec<_> = seeds.iter().map(|seed| line(*seed, bytes)).collect();
        TicketKeys::from_text(&lines.join("\n"))
    }

    fn ticketer(keys: &Arc<TicketKeys>, context: u8) -> Ticketer {
        Ticketer { keys: Arc::clone(keys), context: [context; 32], lifetime_s: 300 }
    }

    #[test]
    fn tickets_come_back_and_only_unchanged() {
        for bytes in [AES128_KEY_BYTES, AES256_KEY_BYTES] {
            let keys = Arc::new(keys(&[1, 2, 3, 4], bytes).unwrap());
            let ticketer = ticketer(&keys, 0);
            for length in [0, 1, 15, 16, 17, 300] {
                let plain = vec![7; length];
                let ticket = ticketer.encrypt(&plain).unwrap();
                assert_eq!(ticket[0], 3, "the penultimate key encrypts");
                assert_eq!(ticketer.decrypt(&ticket).unwrap(), plain);
                for at in 0..ticket.len() {
                    let mut changed = ticket.clone();
                    changed[at] ^= 1;
                    assert_eq!(ticketer.decrypt(&changed), None, "byte {at}");
                    assert_eq!(ticketer.decrypt(&ticket[..at]), None);
                }
            }
        }
    }

    #[test]
    fn a_ticket_of_a_laxer_configuration_is_worth_nothing() {
        let keys = Arc::new(keys(&[1, 2, 3], AES256_KEY_BYTES).unwrap());
        let ticket = ticketer(&keys, 0).encrypt(b"state").unwrap();
        assert_eq!(ticketer(&keys, 1).decrypt(&ticket), None);
        assert!(ticketer(&keys, 0).decrypt(&ticket).is_some());
    }

    #[test]
    fn keys_rotate() {
        let keys = Arc::new(keys(&[1, 2, 3], AES128_KEY_BYTES).unwrap());
        let ticketer = ticketer(&keys, 0);
        let ticket = ticketer.encrypt(b"state").unwrap();
        keys.rotate(&line(4, AES128_KEY_BYTES)).unwrap();
        assert_eq!(keys.names(), [[2; 16], [3; 16], [4; 16]]);
        assert!(ticketer.decrypt(&ticket).is_some(), "the oldest key still decrypts");
        keys.rotate(&line(5, AES128_KEY_BYTES)).unwrap();
        assert_eq!(ticketer.decrypt(&ticket), None);
        assert!(keys.rotate(&line(6, AES256_KEY_BYTES)).is_err());
    }

    #[test]
    fn mistakes_in_the_file() {
        let check = |text: &str, expected: &str| {
            let error = TicketKeys::from_text(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("", "at least 3");
        check(&format!("{}\n{}", line(1, 48), line(2, 48)), "at least 3 keys are needed, there are 2");
        check(&format!("{}\n{}\n{}", line(1, 48), line(2, 48), line(3, 80)), "the length of the first");
        check("AAAA", "3 bytes, not 48 or 80");
        check("?", "not base64");
    }
}
