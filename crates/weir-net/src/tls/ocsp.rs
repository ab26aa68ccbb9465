//! OCSP (RFC 6960): what a certificate is asked for by, requests, and responses read and verified.
//!
//! Owns the bytes of requests and responses and the rules for using a response. Which certificate has which
//! response is left to `certificate`, fetching responses to the data plane.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::UnixTime;
use x509_parser::asn1_rs::{Any, Class};
use x509_parser::prelude::{ASN1Time, FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::path;

/// The longest response that is read: some carry a certificate or two of the responder.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The most certificates in a response that are tried as its signer's.
const MAX_SIGNERS: usize = 8;

/// How far a responder's clock may be ahead of ours, in seconds.
const MAX_CLOCK_SKEW_S: i64 = 300;

/// sha1, 1.3.14.3.2.26, in an AlgorithmIdentifier: what identifies a certificate is hashed with it, no secret is.
const SHA1_ALGORITHM: &[u8] = &[0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];
const SHA1_OID: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];
const SHA1_BYTES: usize = 20;

/// id-pkix-ocsp-basic, 1.3.6.1.5.5.7.48.1.1.
const BASIC_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// id-ad-ocsp, 1.3.6.1.5.5.7.48.1.
const RESPONDER_OID: &str = "1.3.6.1.5.5.7.48.1";

const INTEGER: u32 = 2;
const BIT_STRING: u32 = 3;
const OCTET_STRING: u32 = 4;
const OID: u32 = 6;
const ENUMERATED: u32 = 10;
const SEQUENCE: u32 = 16;

/// What identifies a certificate to a responder (RFC 6960 section 4.1.1, CertID).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateId {
    /// SHA-1 of the issuer's name.
    pub name_hash: [u8; SHA1_BYTES],
    /// SHA-1 of the issuer's key.
    pub key_hash: [u8; SHA1_BYTES],
    /// The serial number as in the certificate, with a zero in front of a high bit.
    pub serial: Vec<u8>,
}

impl CertificateId {
    /// The identity of a certificate, which its issuer is needed for.
    #[must_use]
    pub fn new(certificate: &[u8], issuer: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        Some(Self {
            name_hash: sha1(certificate.issuer().as_raw())?,
            key_hash: sha1(&issuer.public_key().subject_public_key.data)?,
            serial: certificate.raw_serial().to_vec(),
        })
    }

    /// In DER.
    #[must_use]
    pub fn to_der(&self) -> Vec<u8> {
        let fields = [
            SHA1_ALGORITHM,
            &tagged(0x04, &self.name_hash),
            &tagged(0x04, &self.key_hash),
            &tagged(0x02, &self.serial),
        ];
        tagged(0x30, &fields.concat())
    }

    /// In hexadecimal, as responses are named in commands.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.to_der().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A request about this certificate (RFC 6960 section 4.1): no extension, no signature.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        // OCSPRequest, TBSRequest, requestList and Request are sequences with one field each.
        let mut request = self.to_der();
        for _ in 0..4 {
            request = tagged(0x30, &request);
        }
        request
    }
}

/// The time by the system's clock.
#[must_use]
pub fn now() -> UnixTime {
    UnixTime::now()
}

fn sha1(bytes: &[u8]) -> Option<[u8; SHA1_BYTES]> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().try_into().ok()
}

/// An element in DER.
fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len();
    let mut der = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => der.push(short),
        _ => {
            let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            der.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
            der.extend(digits);
        }
    }
    der.extend_from_slice(contents);
    der
}

/// Where a certificate says that its responder is: the first `http` address.
#[must_use]
pub fn responder_uri(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    certificate.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else { return None };
        access.accessdescs.iter().find_map(|place| match &place.access_location {
            GeneralName::URI(uri) if place.access_method.to_id_string() == RESPONDER_OID => {
                Some((*uri).to_owned())
            }
            _ => None,
        })
    })
}

/// A response (RFC 6960 section 4.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// OCSPResponseStatus: 0 when there is an answer.
    pub status: u8,
    /// The answer.
    pub basic: Option<Basic>,
}

/// A signed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basic {
    /// The version, from 1.
    pub version: u8,
    /// Who answers.
    pub responder: Responder,
    /// When it was signed, in seconds since 1970.
    pub produced_at: i64,
    /// What it says of each certificate.
    pub singles: Vec<Single>,
    /// What is signed.
    signed: Vec<u8>,
    signature_algorithm: Vec<u8>,
    signature: Vec<u8>,
    certificates: Vec<Vec<u8>>,
}

/// Who signed a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responder {
    /// The subject of the certificate, in DER.
    Name(Vec<u8>),
    /// SHA-1 of the key.
    KeyHash(Vec<u8>),
}

/// The answer about one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Single {
    /// Which, when SHA-1 identifies it.
    pub id: Option<CertificateId>,
    /// What is known of it.
    pub status: CertificateStatus,
    /// When this was known, in seconds since 1970.
    pub this_update: i64,
    /// When more will be known.
    pub next_update: Option<i64>,
}

/// What a responder says of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateStatus {
    /// Not revoked.
    Good,
    /// Revoked at that time, in seconds since 1970, for that reason (RFC 5280 section 5.3.1).
    Revoked(i64, Option<u8>),
    /// Nothing.
    Unknown,
}

impl Response {
    /// Reads a response; none when it is malformed.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        if der.len() > MAX_RESPONSE_BYTES {
            return None;
        }
        let mut whole = Reader(Reader(der).universal(SEQUENCE)?);
        let status = *whole.universal(ENUMERATED)?.first()?;
        let Some(bytes) = whole.context(0) else { return Some(Self { status, basic: None }) };
        let mut bytes = Reader(Reader(bytes).universal(SEQUENCE)?);
        if bytes.universal(OID)? != BASIC_OID {
            return None;
        }
        let basic = Basic::parse(bytes.universal(OCTET_STRING)?)?;
        Some(Self { status, basic: Some(basic) })
    }

    /// The answer about a certificate, if the rules for stapling allow to use it (manual, `crt` on bind lines).
    pub fn answer(&self, id: &CertificateId, now: UnixTime) -> Result<&Single, String> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if self.status != 0 {
            return Err(format!("the responder answers with status {} only", self.status));
        }
        let basic = self.basic.as_ref().ok_or("there is no answer in it")?;
        let [single] = basic.singles.as_slice() else {
            return Err(format!("it answers for {} certificates instead of one", basic.singles.len()));
        };
        if single.id.as_ref() != Some(id) {
            return Err("it is about another certificate".to_owned());
        }
        if single.status == CertificateStatus::Unknown {
            return Err("the responder does not know the certificate".to_owned());
        }
        if single.this_update > now.saturating_add(MAX_CLOCK_SKEW_S) {
            return Err("it is not valid yet".to_owned());
        }
        if single.next_update.is_some_and(|next| next <= now) {
            return Err("it has expired".to_owned());
        }
        Ok(single)
    }

    /// Whether the issuer of a certificate or someone it appointed signed this (RFC 6960 section 4.2.2.2).
    #[must_use]
    pub fn is_signed_for(&self, issuer: &[u8], now: UnixTime) -> bool {
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let Some(basic) = &self.basic else { return false };
        let appointed = basic
            .certificates
            .iter()
            .take(MAX_SIGNERS)
            .map(Vec::as_slice)
            .filter(|signer| is_appointed(signer, issuer, now, &algorithms));
        std::iter::once(issuer).chain(appointed).any(|signer| basic.is_signed_by(signer, &algorithms))
    }
}

/// Whether an issuer lets the holder of a certificate sign responses.
fn is_appointed(signer: &[u8], issuer: &[u8], now: UnixTime, algorithms: &WebPkiSupportedAlgorithms) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(signer) else { return false };
    let signs_responses = matches!(parsed.extended_key_usage(), Ok(Some(usage)) if usage.value.ocsp_signing);
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    let is_valid = validity.not_before.timestamp() <= now && now <= validity.not_after.timestamp();
    signs_responses && is_valid && path::is_issued_by(signer, issuer, algorithms)
}

impl Basic {
    fn parse(der: &[u8]) -> Option<Self> {
        let mut outer = Reader(Reader(der).universal(SEQUENCE)?);
        let before = outer.0;
        let data = outer.universal(SEQUENCE)?;
        let signed = before.get(..before.len() - outer.0.len())?.to_vec();
        let signature_algorithm = outer.universal(SEQUENCE)?.to_vec();
        // The first byte counts the unused bits at the end: signatures are whole bytes.
        let signature = outer.universal(BIT_STRING)?.strip_prefix(&[0])?.to_vec();
        let mut certificates = Vec::new();
        if let Some(list) = outer.context(0) {
            let mut list = Reader(Reader(list).universal(SEQUENCE)?);
            while !list.0.is_empty() {
                certificates.push(list.whole(SEQUENCE)?.to_vec());
            }
        }
        let mut data = Reader(data);
        let version = match data.context(0) {
            Some(version) => Reader(version).universal(INTEGER)?.first()?.checked_add(1)?,
            None => 1,
        };
        let responder = match data.context(1) {
            Some(name) => Responder::Name(name.to_vec()),
            None => Responder::KeyHash(Reader(data.context(2)?).universal(OCTET_STRING)?.to_vec()),
        };
        let produced_at = data.time()?;
        let mut list = Reader(data.universal(SEQUENCE)?);
        let mut singles = Vec::new();
        while !list.0.is_empty() {
            singles.push(Single::parse(list.universal(SEQUENCE)?)?);
        }
        Some(Self {
            version,
            responder,
            produced_at,
            singles,
            signed,
            signature_algorithm,
            signature,
            certificates,
        })
    }

    fn is_signed_by(&self, signer: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(signer) else { return false };
        let is_named = match &self.responder {
            Responder::Name(name) => name == parsed.subject().as_raw(),
            Responder::KeyHash(hash) => {
                sha1(&parsed.public_key().subject_public_key.data).is_some_and(|own| hash == &own)
            }
        };
        is_named
            && path::has_signed(signer, &self.signed, &self.signature_algorithm, &self.signature, algorithms)
    }
}

impl Single {
    fn parse(der: &[u8]) -> Option<Self> {
        let mut fields = Reader(der);
        let mut id = Reader(fields.universal(SEQUENCE)?);
        let algorithm = Reader(id.universal(SEQUENCE)?).universal(OID)?;
        let (name_hash, key_hash) = (id.universal(OCTET_STRING)?, id.universal(OCTET_STRING)?);
        let serial = id.universal(INTEGER)?.to_vec();
        let id = match (name_hash.try_into(), key_hash.try_into()) {
            (Ok(name_hash), Ok(key_hash)) if algorithm == SHA1_OID => {
                Some(CertificateId { name_hash, key_hash, serial })
            }
            _ => None,
        };
        let status = fields.next().filter(|status| status.class() == Class::ContextSpecific)?;
        let status = match status.tag().0 {
            0 => CertificateStatus::Good,
            1 => {
                let mut revoked = Reader(status.data);
                let at = revoked.time()?;
                let reason = revoked.context(0).and_then(|reason| Reader(reason).universal(ENUMERATED));
                CertificateStatus::Revoked(at, reason.and_then(|reason| reason.first().copied()))
            }
            2 => CertificateStatus::Unknown,
            _ => return None,
        };
        let this_update = fields.time()?;
        let next_update = match fields.context(0) {
            Some(next) => Some(Reader(next).time()?),
            None => None,
        };
        Some(Self { id, status, this_update, next_update })
    }
}

/// Takes DER elements one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Any<'a>> {
        let (rest, element) = Any::from_der(self.0).ok()?;
        self.0 = rest;
        Some(element)
    }

    /// The contents of an element that must be of this type.
    fn universal(&mut self, tag: u32) -> Option<&'a [u8]> {
        let element = self.next()?;
        (element.class() == Class::Universal && element.tag().0 == tag).then_some(element.data)
    }

    /// The same with tag and length.
    fn whole(&mut self, tag: u32) -> Option<&'a [u8]> {
        let before = self.0;
        self.universal(tag)?;
        before.get(..before.len() - self.0.len())
    }

    /// The contents of an element with a tag of its context, if it is the next one.
    fn context(&mut self, number: u32) -> Option<&'a [u8]> {
        let (rest, element) = Any::from_der(self.0).ok()?;
        let found = element.class() == Class::ContextSpecific && element.tag().0 == number;
        found.then(|| {
            self.0 = rest;
            element.data
        })
    }

    /// A time in seconds since 1970.
    fn time(&mut self) -> Option<i64> {
        let (rest, time) = ASN1Time::from_der(self.0).ok()?;
        self.0 = rest;
        Some(time.timestamp())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, KeyPair, SigningKey};
    use std::time::Duration;

    const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
    /// In the middle of 2023 and of 2024; `NOW` lies between.
    const EARLIER: &[u8] = b"20230601000000Z";
    const LATER: &[u8] = b"20240601000000Z";

    /// An authority, a certificate of it, and one that it lets sign responses.
    pub(crate) struct World {
        pub(crate) authority: CertifiedIssuer<'static, KeyPair>,
        pub(crate) own: rcgen::Certificate,
        pub(crate) own_key: KeyPair,
        responder: rcgen::Certificate,
        responder_key: KeyPair,
    }

    impl World {
        pub(crate) fn new(appointed: bool) -> Self {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, "Test CA");
            let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let own = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            let own_key = KeyPair::generate().unwrap();
            let own = own.signed_by(&own_key, &authority).unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, "Responder");
            if appointed {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
            }
            let responder_key = KeyPair::generate().unwrap();
            let responder = params.signed_by(&responder_key, &authority).unwrap();
            Self { authority, own, own_key, responder, responder_key }
        }

        pub(crate) fn id(&self) -> CertificateId {
            CertificateId::new(self.own.der(), self.authority.der()).unwrap()
        }

        /// A response about `singles`, by the authority itself or by the responder.
        pub(crate) fn response(&self, singles: &[Vec<u8>], by_authority: bool) -> Vec<u8> {
            let (signer, key) = match by_authority {
                true => (self.authority.der(), self.authority.key()),
                false => (self.responder.der(), &self.responder_key),
            };
            let (_, parsed) = X509Certificate::from_der(signer).unwrap();
            let fields = [
                tagged(0xa1, parsed.subject().as_raw()),
                tagged(0x18, EARLIER),
                tagged(0x30, &singles.concat()),
            ];
            let data = tagged(0x30, &fields.concat());
            // ecdsa-with-SHA256, 1.2.840.10045.4.3.2.
            let algorithm = [0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
            let signature = [&[0][..], &key.sign(&data).unwrap()].concat();
            let certificates = tagged(0xa0, &tagged(0x30, self.responder.der()));
            let basic = [data, algorithm.to_vec(), tagged(3, &signature), certificates].concat();
            let bytes = [tagged(6, BASIC_OID), tagged(4, &tagged(0x30, &basic))].concat();
            tagged(0x30, &[tagged(10, &[0]), tagged(0xa0, &tagged(0x30, &bytes))].concat())
        }
    }

    pub(crate) fn single(id: &CertificateId, status: &[u8], this: &[u8], next: Option<&[u8]>) -> Vec<u8> {
        let next = next.map_or_else(Vec::new, |next| tagged(0xa0, &tagged(0x18, next)));
        tagged(0x30, &[id.to_der(), status.to_vec(), tagged(0x18, this), next].concat())
    }

    pub(crate) const GOOD: &[u8] = &[0x80, 0];
    const UNKNOWN: &[u8] = &[0x82, 0];

    #[test]
    fn rules_for_stapling() {
        let world = World::new(true);
        let id = world.id();
        let other = CertificateId { serial: vec![7], ..id.clone() };
        let revoked = tagged(0xa1, &[tagged(0x18, EARLIER), tagged(0xa0, &[10, 1, 4])].concat());
        let check = |singles: &[Vec<u8>], expected: Result<CertificateStatus, &str>| {
            let response = Response::parse(&world.response(singles, true)).unwrap();
            let status = response.answer(&id, NOW).map(|single| single.status);
            match expected {
                Ok(expected) => assert_eq!(status, Ok(expected)),
                Err(part) => assert!(status.clone().unwrap_err().contains(part), "{status:?}"),
            }
        };
        let at = 1_685_577_600;
        check(&[single(&id, GOOD, EARLIER, Some(LATER))], Ok(CertificateStatus::Good));
        check(&[single(&id, GOOD, EARLIER, None)], Ok(CertificateStatus::Good));
        check(&[single(&id, &revoked, EARLIER, Some(LATER))], Ok(CertificateStatus::Revoked(at, Some(4))));
        check(&[single(&id, UNKNOWN, EARLIER, Some(LATER))], Err("does not know"));
        check(&[single(&id, GOOD, LATER, None)], Err("not valid yet"));
        check(&[single(&id, GOOD, EARLIER, Some(EARLIER))], Err("expired"));
        check(&[single(&other, GOOD, EARLIER, Some(LATER))], Err("another certificate"));
        check(&[], Err("0 certificates"));
        check(
            &[single(&id, GOOD, EARLIER, None), single(&other, GOOD, EARLIER, None)],
            Err("2 certificates"),
        );
        let refused = Response::parse(&tagged(0x30, &tagged(10, &[6]))).unwrap();
        assert!(refused.answer(&id, NOW).unwrap_err().contains("status 6"));
    }

    #[test]
    fn only_the_issuer_and_whom_it_appoints_can_sign() {
        let now = UnixTime::now();
        let check = |appointed: bool, by_authority: bool, expected: bool| {
            let world = World::new(appointed);
            let singles = [single(&world.id(), GOOD, EARLIER, None)];
            let der = world.response(&singles, by_authority);
            let response = Response::parse(&der).unwrap();
            assert_eq!(
                response.is_signed_for(world.authority.der(), now),
                expected,
                "{appointed} {by_authority}"
            );
            assert!(!response.is_signed_for(World::new(true).authority.der(), now), "a namesake's key");
            // A response that was changed on the way.
            let mut forged = der;
            let at = forged.windows(2).position(|pair| pair == GOOD).unwrap();
            forged[at] = 0x82;
            assert!(!Response::parse(&forged).unwrap().is_signed_for(world.authority.der(), now));
        };
        check(true, true, true);
        check(true, false, true);
        check(false, false, false);
    }

    #[test]
    fn requests_and_identities() {
        let world = World::new(true);
        let id = CertificateId { name_hash: [1; 20], key_hash: [2; 20], serial: vec![0x10, 0x15] };
        let hex = id.to_hex();
        assert_eq!(hex.get(..34), Some("303b300906052b0e03021a050004140101"));
        assert!(hex.ends_with("020202021015"));
        assert_eq!(id.request().len(), id.to_der().len() + 8);
        assert_eq!(world.id().serial, X509Certificate::from_der(world.own.der()).unwrap().1.raw_serial());
        assert_eq!(responder_uri(world.own.der()), None);
    }

    #[test]
    fn what_is_malformed_is_no_response() {
        let world = World::new(true);
        let whole = world.response(&[single(&world.id(), GOOD, EARLIER, Some(LATER))], true);
        for length in 0..whole.len() {
            assert_eq!(Response::parse(&whole[..length]), None, "{length} bytes");
        }
        // Nothing may panic on any byte changed.
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            let response = Response::parse(&changed);
            drop(response.map(|response| response.answer(&world.id(), NOW).map(|_| ())));
        }
        assert_eq!(Response::parse(&vec![0x30; MAX_RESPONSE_BYTES + 1]), None);
    }
}
