//! Certificates made for names that no certificate is for (`generate-certificates`), signed by an authority of ours.
//!
//! Owns the authority, the one key that all these certificates have, and how many of them are kept. When one is
//! needed is left to `sni`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Digest, SHA256, SHA256_OUTPUT_LEN, SHA384, SHA384_OUTPUT_LEN, digest};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData, SerialNumber, SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::SigningKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::certificate::{Certificate, CertificateError, Loaded, read_certificates, read_file};
use super::encrypted_key::open_with;
use super::path;

/// How long a generated certificate is valid.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// It is valid from a while ago, for clients whose clock is late.
const BACKDATED: Duration = Duration::from_secs(24 * 3600);

/// After this it is made anew.
const RENEWED_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// RFC 5280 appendix A.1, ub-common-name: longer names are alternative names only.
const MAX_COMMON_NAME: usize = 64;

/// RFC 5280 section 4.1.2.2: at most 20 bytes.
const SERIAL_BYTES: usize = 16;

/// Makes and keeps certificates.
pub(crate) struct Generator {
    issuer: Issuer<'static, AuthorityKey>,
    authority: CertificateDer<'static>,
    /// What the authority is called, one value for each type.
    subject: DistinguishedName,
    /// When the authority expires, in seconds since 1970.
    expires_s: u64,
    key_pair: KeyPair,
    key: Arc<dyn SigningKey>,
    kept: Mutex<Kept>,
    most_kept: usize,
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator").finish_non_exhaustive()
    }
}

/// The key of the authority. Whatever its size it signs with SHA-256, which every client knows, as HAProxy does.
struct AuthorityKey {
    pair: KeyPair,
    /// The same, when it is on the curve P-384.
    p384: Option<EcdsaKeyPair>,
}

impl AuthorityKey {
    fn new(key: &PrivateKeyDer<'_>) -> Result<Self, String> {
        let fail = |error: rcgen::Error| format!("the key to sign with cannot be used: {error}");
        let pair = KeyPair::try_from(key).map_err(fail)?;
        let p384 = match pair.is_compatible(&PKCS_ECDSA_P384_SHA384) {
            true => {
                EcdsaKeyPair::from_private_key_der(&ECDSA_P384_SHA384_ASN1_SIGNING, key.secret_der()).ok()
            }
            false => None,
        };
        Ok(Self { pair, p384 })
    }
}

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        self.pair.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        // It names the signature, ecdsa-with-SHA256, which leaves the curve to the key.
        if self.p384.is_some() { &PKCS_ECDSA_P256_SHA256 } else { self.pair.algorithm() }
    }
}

impl rcgen::SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let Some(p384) = &self.p384 else { return self.pair.sign(message) };
        // FIPS 186-5 section 6.4.1: what is signed is the digest as a number, the same with zeros in front.
        let mut padded = [0; SHA384_OUTPUT_LEN];
        padded[SHA384_OUTPUT_LEN - SHA256_OUTPUT_LEN..].copy_from_slice(digest(&SHA256, message).as_ref());
        let fail = |_| rcgen::Error::RemoteKeyError;
        let number = Digest::import_less_safe(&padded, &SHA384).map_err(fail)?;
        p384.sign_digest(&number).map(|signature| signature.as_ref().to_vec()).map_err(fail)
    }
}

/// The certificates used last.
#[derive(Default)]
struct Kept {
    by_name: HashMap<Arc<str>, Slot>,
    /// Names by when they were used: numbers that only grow.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
}

struct Slot {
    certificate: Arc<Certificate>,
    made_s: u64,
    used: u64,
}

impl Generator {
    /// Reads an authority's certificate and key (`ca-sign-file`).
    pub(crate) fn load(
        file: &Path,
        passphrase: Option<&str>,
        most_kept: usize,
    ) -> Result<Self, CertificateError> {
        Self::new(&read_file(file)?, passphrase, most_kept)
            .map_err(|reason| CertificateError::new(file, reason))
    }

    fn new(pem: &[u8], passphrase: Option<&str>, most_kept: usize) -> Result<Self, String> {
        let authority = read_certificates(pem)?
            .into_iter()
            .next()
            .ok_or("there is no certificate of an authority in it")?;
        let key = PrivateKeyDer::from_pem_slice(&open_with(pem, passphrase)?)
            .map_err(|error| format!("the key to sign with cannot be read: {error}"))?;
        let signing = AuthorityKey::new(&key)?;
        let wrong = |error: rcgen::Error| format!("the authority cannot be used: {error}");
        let issuer = Issuer::from_ca_cert_der(&authority, signing).map_err(wrong)?;
        let (_, parsed) =
            X509Certificate::from_der(&authority).map_err(|error| format!("it is malformed: {error}"))?;
        let mut subject = DistinguishedName::new();
        for attribute in parsed.subject().iter_attributes() {
            let oid = attribute.attr_type().iter().map(Iterator::collect::<Vec<u64>>);
            if let (Some(oid), Ok(value)) = (oid, attribute.as_str()) {
                subject.push(DnType::CustomDnType(oid), value);
            }
        }
        let expires_s = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let key_pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(wrong)?;
        let key = PrivateKeyDer::try_from(key_pair.serialize_der())?;
        let key =
            rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
        let kept = Mutex::default();
        let generator = Self { issuer, authority, subject, expires_s, key_pair, key, kept, most_kept };
        // What is made has to lead to the authority: its name is written anew, and its key must be the right one.
        let first = generator.make("example.invalid", now_s())?;
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        if !path::is_issued_by(first.certificate(), &generator.authority, &algorithms) {
            return Err("what its key signs does not lead to its certificate".to_owned());
        }
        Ok(generator)
    }

    /// A certificate for a name; none when that fails.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<Certificate>> {
        let now = now_s();
        if let Some(known) = self.kept().find(name, now) {
            return Some(known);
        }
        // Signing takes a while: other threads go on, at worst one makes the same.
        let loaded = self.make(name, now).ok()?;
        let certificate = Arc::new(Certificate::new(name.to_owned(), loaded));
        self.kept().keep(name, Arc::clone(&certificate), now, self.most_kept);
        Some(certificate)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, name: &str, now_s: u64) -> Result<Loaded, String> {
        let fail = |error: rcgen::Error| error.to_string();
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(fail)?;
        params.distinguished_name = self.subject.clone();
        if name.len() <= MAX_COMMON_NAME {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let since_1970 = rcgen::date_time_ymd(1970, 1, 1);
        let until_s = (now_s + LIFETIME.as_secs()).min(self.expires_s);
        params.not_before = since_1970 + Duration::from_secs(now_s.saturating_sub(BACKDATED.as_secs()));
        params.not_after = since_1970 + Duration::from_secs(until_s);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let mut serial = [0; SERIAL_BYTES];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| "there is no randomness".to_owned())?;
        // RFC 5280 section 4.1.2.2: positive, and not shorter than it seems.
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let made = params.signed_by(&self.key_pair, &self.issuer).map_err(fail)?;
        let chain = vec![made.der().clone(), self.authority.clone()];
        Loaded::assemble(chain, Arc::clone(&self.key), &[], &[])
    }
}

impl Kept {
    fn find(&mut self, name: &str, now_s: u64) -> Option<Arc<Certificate>> {
        let slot = self.by_name.get_mut(name)?;
        if now_s.saturating_sub(slot.made_s) > RENEWED_AFTER.as_secs() {
            return None;
        }
        let name = self.by_use.remove(&slot.used)?;
        self.uses += 1;
        slot.used = self.uses;
        self.by_use.insert(self.uses, name);
        Some(Arc::clone(&slot.certificate))
    }

    fn keep(&mut self, name: &str, certificate: Arc<Certificate>, now_s: u64, most: usize) {
        if most == 0 {
            return;
        }
        self.uses += 1;
        let name: Arc<str> = name.into();
        let slot = Slot { certificate, made_s: now_s, used: self.uses };
        if let Some(before) = self.by_name.insert(Arc::clone(&name), slot) {
            self.by_use.remove(&before.used);
        }
        self.by_use.insert(self.uses, name);
        while self.by_name.len() > most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_name.remove(&oldest);
        }
    }
}

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertifiedIssuer, IsCa};

    fn authority(algorithm: &'static rcgen::SignatureAlgorithm) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::OrganizationName, "Tests");
        params.distinguished_name.push(DnType::CommonName, "Own CA");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate_for(algorithm).unwrap()).unwrap();
        issuer.pem() + &issuer.key().serialize_pem()
    }

    #[test]
    fn what_is_made_is_for_the_name_and_from_the_authority() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_RSA_SHA256] {
            let generator = Generator::new(authority(algorithm).as_bytes(), None, 10).unwrap();
            let made = generator.certificate("a.example").unwrap().current();
            let (_, parsed) = X509Certificate::from_der(made.certificate()).unwrap();
            let names: Vec<_> = parsed.subject().iter_common_name().filter_map(|n| n.as_str().ok()).collect();
            assert_eq!(names, ["Own CA", "a.example"]);
            assert!(made.names().contains(&"a.example".to_owned()));
            assert!(!parsed.is_ca());
            assert!(parsed.validity().is_valid());
            assert_eq!(made.chain().len(), 2);
            let other = generator.certificate("b.example").unwrap().current();
            assert_ne!(X509Certificate::from_der(other.certificate()).unwrap().1.serial, parsed.serial);
            let long = format!("{}.example", "x".repeat(63));
            assert!(generator.certificate(&long).unwrap().current().names().contains(&long));
        }
    }

    #[test]
    fn only_the_last_used_are_kept() {
        let generator = Generator::new(authority(&PKCS_ECDSA_P256_SHA256).as_bytes(), None, 2).unwrap();
        let get = |name: &str| generator.certificate(name).unwrap();
        let (a, b) = (get("a.example"), get("b.example"));
        assert!(Arc::ptr_eq(&a, &get("a.example")));
        drop(get("c.example"));
        assert!(Arc::ptr_eq(&a, &get("a.example")), "used last");
        assert!(!Arc::ptr_eq(&b, &get("b.example")), "made anew");
        let kept = generator.kept();
        assert_eq!((kept.by_name.len(), kept.by_use.len()), (2, 2));
    }

    #[test]
    fn old_ones_are_made_anew() {
        let generator = Generator::new(authority(&PKCS_ECDSA_P256_SHA256).as_bytes(), None, 2).unwrap();
        drop(generator.certificate("a.example"));
        let month = RENEWED_AFTER.as_secs();
        assert!(generator.kept().find("a.example", now_s() + month - 10).is_some());
        assert!(generator.kept().find("a.example", now_s() + month + 10).is_none());
    }

    #[test]
    fn what_cannot_sign_is_refused() {
        let check = |pem: &str, expected: &str| {
            let error = Generator::new(pem.as_bytes(), None, 1).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let (one, other) = (authority(&PKCS_ECDSA_P256_SHA256), authority(&PKCS_ECDSA_P256_SHA256));
        let key_at = one.find("-----BEGIN PRIVATE").unwrap();
        check(&one[key_at..], "no certificate of an authority");
        check(&one[..key_at], "cannot be read");
        let mixed = format!("{}{}", &one[..key_at], &other[other.find("-----BEGIN PRIVATE").unwrap()..]);
        check(&mixed, "does not lead to its certificate");
    }
}
