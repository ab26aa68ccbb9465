//! Private keys under a passphrase: PKCS #8 with PBES2 (RFC 5958, RFC 8018), as OpenSSL 3 writes them.
//!
//! Owns opening such a key and remembering passphrases. Who tells them is left to the caller. OpenSSL's older form
//! (`Proc-Type: 4,ENCRYPTED`) rests on MD5 and is refused, with the command that writes the key anew.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use asn1_rs::{Any, DerSequence, FromDer, Oid, Sequence, oid};
use aws_lc_rs::cipher::{self, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512};
use pem::{EncodeConfig, LineEnding, Pem, PemError};

/// Rounds of key derivation that a file may ask for; OpenSSL makes 2048, careful users a million.
const MOST_ROUNDS: u32 = 10_000_000;

/// The most passphrases remembered: each is tried on each key.
const MOST_PASSPHRASES: usize = 64;

/// The longest key of a cipher, in bytes.
const LONGEST_KEY: usize = 32;

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";

/// Tells the passphrase of the key in a file.
pub type AskPassphrase = Box<dyn Fn(&Path) -> Result<Vec<u8>, String> + Send + Sync>;

/// What opens the keys of this process.
#[derive(Default)]
pub struct Passphrases {
    ask: OnceLock<AskPassphrase>,
    known: Mutex<Vec<Vec<u8>>>,
}

impl fmt::Debug for Passphrases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passphrases").finish_non_exhaustive()
    }
}

impl Passphrases {
    /// Asks for passphrases that are not known so (`ssl-passphrase-cmd`); only the first one counts.
    pub fn ask_with(&self, ask: AskPassphrase) {
        self.ask.get_or_init(|| ask);
    }

    /// The text of a file with the key in clear, if it has one under a passphrase. Those that opened a key before are
    /// tried first.
    pub(crate) fn open<'a>(&self, path: &Path, pem: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let Some(encrypted) = Encrypted::find(pem)? else { return Ok(pem.into()) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(der) = known.iter().find_map(|passphrase| encrypted.open(passphrase)) {
            return Ok(in_clear(&der).into());
        }
        let ask = self.ask.get().ok_or("the private key is encrypted: 'ssl-passphrase-cmd' can open it")?;
        let passphrase = ask(path)?;
        let der = encrypted.open(&passphrase).ok_or(WRONG)?;
        if known.len() < MOST_PASSPHRASES {
            known.push(passphrase);
        }
        Ok(in_clear(&der).into())
    }
}

const WRONG: &str = "the passphrase of the private key is wrong";

/// The same with a passphrase that is given (`ca-sign-pass`).
pub(crate) fn open_with<'a>(pem: &'a [u8], passphrase: Option<&str>) -> Result<Cow<'a, [u8]>, String> {
    let Some(encrypted) = Encrypted::find(pem)? else { return Ok(pem.into()) };
    let passphrase = passphrase.ok_or("the private key is encrypted: 'ca-sign-pass' can open it")?;
    let der = encrypted.open(passphrase.as_bytes()).ok_or(WRONG)?;
    Ok(in_clear(&der).into())
}

fn in_clear(der: &[u8]) -> Vec<u8> {
    pem_of("PRIVATE KEY", der).into_bytes()
}

/// A block of PEM (RFC 7468).
pub(crate) fn pem_of(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// A key that can be opened.
struct Encrypted {
    digest: pbkdf2::Algorithm,
    salt: Vec<u8>,
    rounds: NonZeroU32,
    cipher: &'static cipher::Algorithm,
    key_bytes: usize,
    iv: [u8; 16],
    data: Vec<u8>,
}

/// RFC 5958 section 3.
#[derive(DerSequence)]
struct EncryptedPrivateKeyInfo<'a> {
    scheme: AlgorithmIdentifier<'a>,
    data: &'a [u8],
}

/// RFC 5280 section 4.1.1.2.
#[derive(DerSequence)]
struct AlgorithmIdentifier<'a> {
    algorithm: Oid<'a>,
    parameters: Option<Any<'a>>,
}

/// RFC 8018 appendix A.4.
#[derive(DerSequence)]
struct Pbes2Parameters<'a> {
    derivation: AlgorithmIdentifier<'a>,
    encryption: AlgorithmIdentifier<'a>,
}

/// RFC 8018 appendix A.2.
#[derive(DerSequence)]
struct Pbkdf2Parameters<'a> {
    salt: Any<'a>,
    rounds: u32,
    /// The length of the key is the cipher's, whether it is said or not.
    _key_bytes: Option<u32>,
    digest: Option<AlgorithmIdentifier<'a>>,
}

impl Encrypted {
    /// The one in PEM text, if there is one.
    fn find(pem: &[u8]) -> Result<Option<Self>, String> {
        let text = String::from_utf8_lossy(pem);
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err("the private key is encrypted in OpenSSL's old form: \
                        'openssl pkcs8 -topk8' writes it in the one that is supported"
                .to_owned());
        }
        let Some(begin) = text.find(BEGIN) else { return Ok(None) };
        let block = pem::parse(&text[begin..]).map_err(|error| match error {
            PemError::MalformedFraming => "the encrypted private key has no end".to_owned(),
            error => format!("the private key cannot be read: {error}"),
        })?;
        Self::parse(block.contents()).map(Some)
    }

    fn parse(der: &[u8]) -> Result<Self, String> {
        let malformed = || "the encrypted private key is malformed".to_owned();
        let unsupported = || {
            "the private key is encrypted in a way that is not supported: \
             PBKDF2 with HMAC and SHA-1 or SHA-2, and AES in CBC mode are"
                .to_owned()
        };
        let (_, EncryptedPrivateKeyInfo { scheme, data }) =
            EncryptedPrivateKeyInfo::from_der(der).map_err(|_| malformed())?;
        if scheme.algorithm != PBES2 {
            return Err(unsupported());
        }
        let Pbes2Parameters { derivation, encryption } = scheme.parameters().ok_or_else(malformed)?;
        if derivation.algorithm != PBKDF2 {
            return Err(unsupported());
        }
        let terms: Pbkdf2Parameters<'_> = derivation.parameters().ok_or_else(malformed)?;
        let salt = terms.salt.as_octetstring().map_err(|_| unsupported())?;
        let rounds = NonZeroU32::new(terms.rounds)
            .filter(|rounds| rounds.get() <= MOST_ROUNDS)
            .ok_or_else(|| format!("the private key asks for more than {MOST_ROUNDS} rounds"))?;
        let digest = match terms.digest {
            // RFC 8018 appendix A.2: the default.
            None => PBKDF2_HMAC_SHA1,
            Some(AlgorithmIdentifier { algorithm, .. }) => {
                let known = DIGESTS.iter().find(|(oid, _)| *oid == algorithm);
                known.map(|(_, digest)| *digest).ok_or_else(unsupported)?
            }
        };
        let (_, cipher, key_bytes) =
            CIPHERS.iter().find(|(oid, ..)| *oid == encryption.algorithm).ok_or_else(unsupported)?;
        let iv: &[u8] = encryption.parameters().ok_or_else(malformed)?;
        let iv = iv.try_into().map_err(|_| malformed())?;
        let salt = salt.as_ref().to_vec();
        Ok(Self { digest, salt, rounds, cipher, key_bytes: *key_bytes, iv, data: data.to_vec() })
    }

    /// The key in clear; none with a wrong passphrase.
    fn open(&self, passphrase: &[u8]) -> Option<Vec<u8>> {
        let mut key = [0; LONGEST_KEY];
        let key = key.get_mut(..self.key_bytes)?;
        pbkdf2::derive(self.digest, self.rounds, &self.salt, passphrase, key);
        let key = UnboundCipherKey::new(self.cipher, key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let mut data = self.data.clone();
        let opened = key.decrypt(&mut data, DecryptionContext::Iv128((&self.iv).into())).ok()?;
        // One wrong passphrase in 256 leaves padding that seems right.
        Sequence::from_der(opened).is_ok().then(|| opened.to_vec())
    }
}

impl<'a> AlgorithmIdentifier<'a> {
    /// The parameters, if they are of the kind that the algorithm has.
    fn parameters<P: TryFrom<Any<'a>>>(self) -> Option<P> {
        P::try_from(self.parameters?).ok()
    }
}

// RFC 8018 appendix C.
const PBES2: Oid<'static> = oid!(1.2.840.113549.1.5.13);
const PBKDF2: Oid<'static> = oid!(1.2.840.113549.1.5.12);

/// HMAC with SHA-1 and with SHA-2 (RFC 8018 appendix B.1).
static DIGESTS: &[(Oid<'static>, pbkdf2::Algorithm)] = &[
    (oid!(1.2.840.113549.2.7), PBKDF2_HMAC_SHA1),
    (oid!(1.2.840.113549.2.9), PBKDF2_HMAC_SHA256),
    (oid!(1.2.840.113549.2.10), PBKDF2_HMAC_SHA384),
    (oid!(1.2.840.113549.2.11), PBKDF2_HMAC_SHA512),
];

/// AES in CBC mode, with the bytes of its keys.
static CIPHERS: &[(Oid<'static>, &cipher::Algorithm, usize)] = &[
    (oid!(2.16.840.1.101.3.4.1.2), &cipher::AES_128, 16),
    (oid!(2.16.840.1.101.3.4.1.22), &cipher::AES_192, 24),
    (oid!(2.16.840.1.101.3.4.1.42), &cipher::AES_256, 32),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
    /// An Ed25519 key under "secret", by `openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256`.
    const ED25519: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgpghHCxnViswICCAAw\n\
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHvLv90nG4hm0JxN/SntWxoEQNEb\n\
        95dyY/QRbeneJTgxVz+/krR7RMNLCZOglFNSq5Gvh1/K/gc5U0pXwTgO336i6mwX\n\
        ll1eMsrLgtD2uwTlOy0=\n\
        -----END ENCRYPTED PRIVATE KEY-----";
    /// One on P-256, by `openssl pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA1`.
    const P256: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAgMz5Bf18wwYgICCAAw\n\
        HQYJYIZIAWUDBAECBBCamfGiFUs7cvwE9s9w6vo2BIGQBF1WdwAtYFO8Slnf6IYz\n\
        Jh6Ia/lEohmeW7KJ35tlaOKojXhubbjlo1cnAleYtUYgWox1uNm6LTYMhQ2pEzx8\n\
        VXji0CTxtfieT1qpB3QZukdfSkpZBN79OpskbH4mgTImFE3e/rtUNa5AnTRVtB9P\n\
        VNSoyUICjIIsHo8r4HUWsZ62Q7GYPlKWyfIgS+CGTu3R\n\
        -----END ENCRYPTED PRIVATE KEY-----";
    /// The same by `-v2 aes-192-cbc -v2prf hmacWithSHA512`.
    const P256_SHA512: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAin2ScQOlkDBwICCAAw\n\
        DAYIKoZIhvcNAgsFADAdBglghkgBZQMEARYEEGNjL93etjz0MUe9IXmoe50EgZDn\n\
        h5sXaiHU1SZ0PsKiNSWZ/NeiYsndVsGqcLtDSOcUbdRQbGW/XwU8oVrz7yucvnV3\n\
        c1EPQitpB67YnHsUR7/N0GKXlcCVVhOJDdPoQA4Y7FUsTDP8gZMWrCsKHVLoR2jN\n\
        OycBClBjFFKqj0r68xLZq+YBBn10uvZqKCgWoR7R1s89Zg4RZzXa7mgfROACIKk=\n\
        -----END ENCRYPTED PRIVATE KEY-----";
    /// The same by `-scrypt`.
    const SCRYPT: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHjME4GCSqGSIb3DQEFDTBBMCAGCSsGAQQB2kcECzATBAizf5MRqlctBQIBEAIB\n\
        CAIBATAdBglghkgBZQMEASoEEIXuWB6rm0TNDOioyV62NKgEgZA0NvUC08e5sHbU\n\
        5tfPoL2//OpO12kPgT4tCtmwEW+ZmjcTZJuJ0EeXtcBfU8p0o20mLvgAusHYBiN8\n\
        Y0ngXsM1c5udMCOnq4Qom2xzsEY4YcIdLHDi0Q1TJbWIDR12huZxQa/KouGflq8g\n\
        IrDIimOry79daDgS4cf6+EPGFZ0wq7Ufgl0KIVwZzrzvMLlPROM=\n\
        -----END ENCRYPTED PRIVATE KEY-----";

    #[test]
    fn passphrases_open_keys() {
        let check = |pem: &str, passphrase: &str, expected: Result<(), &str>| {
            let opened = open_with(pem.as_bytes(), Some(passphrase));
            match expected {
                Ok(()) => {
                    let clear = opened.unwrap();
                    super::super::certificate::read_key(&clear).unwrap();
                }
                Err(reason) => assert!(opened.unwrap_err().contains(reason), "{reason}"),
            }
        };
        for pem in [ED25519, P256, P256_SHA512] {
            check(pem, "secret", Ok(()));
            check(pem, "Secret", Err("is wrong"));
            check(pem, "", Err("is wrong"));
        }
        check(SCRYPT, "secret", Err("in a way that is not supported"));
        check(&ED25519.replace("MI", "MA"), "secret", Err("malformed"));
        check(&ED25519.replace(END, ""), "secret", Err("has no end"));
        check("Proc-Type: 4,ENCRYPTED", "secret", Err("openssl pkcs8 -topk8"));
        assert!(open_with(ED25519.as_bytes(), None).unwrap_err().contains("ca-sign-pass"));
        assert_eq!(
            open_with(b"-----BEGIN PRIVATE KEY-----", None).unwrap(),
            &b"-----BEGIN PRIVATE KEY-----"[..]
        );
    }

    #[test]
    fn a_passphrase_that_is_known_is_not_asked_for() {
        let passphrases = Passphrases::default();
        let path = Path::new("x.pem");
        assert!(passphrases.open(path, P256.as_bytes()).unwrap_err().contains("ssl-passphrase-cmd"));
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        passphrases.ask_with(Box::new(move |path| {
            assert_eq!(path, Path::new("x.pem"));
            count.fetch_add(1, Relaxed);
            Ok(b"secret".to_vec())
        }));
        for pem in [P256, ED25519, P256] {
            passphrases.open(path, pem.as_bytes()).unwrap();
        }
        assert_eq!(asked.load(Relaxed), 1);
    }

    #[test]
    fn cut_and_changed_keys_are_refused() {
        let body: String = P256.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(body).unwrap();
        for length in 0..der.len() {
            assert!(Encrypted::parse(&der[..length]).is_err(), "{length}");
        }
        for at in 0..der.len() {
            let mut changed = der.clone();
            changed[at] ^= 0xFF;
            // Whatever it says, it ends.
            if let Ok(encrypted) = Encrypted::parse(&changed) {
                assert!(encrypted.rounds.get() <= MOST_ROUNDS);
            }
        }
    }
}
