//! Whether a certificate leads to a trusted authority, with every objection there is to it.
//!
//! Stands in for webpki in two cases: certificates of X.509 version 1, which webpki does not read, and lines that
//! let objections pass (`crt-ignore-err`), where the first objection must not hide the others. Owns the path from
//! the certificate to an authority, dates, purposes and revocation (RFC 5280 section 6). What webpki understands
//! and this does not (constraints on names, unknown critical extensions) is an objection here.

use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::{
    CertificateError as Refusal, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{
    CertificateRevocationList, FromDer, ParsedExtension, X509Certificate, X509Version,
};

/// The most certificates between the one presented and the authority, as in webpki.
const MAX_INTERMEDIATES: usize = 6;

/// The most signatures looked at for one certificate, as in webpki: a chain made up to keep us busy is refused.
const MAX_SIGNATURES: usize = 100;

/// OpenSSL's numbers (X509_V_ERR) of the objections found here.
pub(crate) mod number {
    pub(crate) const UNSPECIFIED: u32 = 1;
    pub(crate) const NO_REVOCATION_LIST: u32 = 3;
    pub(crate) const NOT_YET_VALID: u32 = 9;
    pub(crate) const EXPIRED: u32 = 10;
    pub(crate) const REVOCATION_LIST_EXPIRED: u32 = 12;
    pub(crate) const SELF_SIGNED: u32 = 18;
    pub(crate) const UNKNOWN_ISSUER: u32 = 20;
    pub(crate) const REVOKED: u32 = 23;
    pub(crate) const NOT_AN_AUTHORITY: u32 = 24;
    pub(crate) const PATH_TOO_LONG: u32 = 25;
    pub(crate) const WRONG_PURPOSE: u32 = 26;
    pub(crate) const UNKNOWN_CRITICAL_EXTENSION: u32 = 34;
    pub(crate) const CONSTRAINED_NAMES: u32 = 47;
}

/// What speaks against a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Objection {
    /// OpenSSL's number.
    pub(crate) number: u32,
    /// 0 for the certificate itself, 1 for its issuer, and so on.
    pub(crate) depth: usize,
}

impl Objection {
    /// The error that ends the handshake.
    pub(crate) fn error(self) -> Error {
        let refusal = match self.number {
            number::NO_REVOCATION_LIST => Refusal::UnknownRevocationStatus,
            number::NOT_YET_VALID => Refusal::NotValidYet,
            number::EXPIRED => Refusal::Expired,
            number::REVOCATION_LIST_EXPIRED => Refusal::ExpiredRevocationList,
            number::SELF_SIGNED | number::UNKNOWN_ISSUER => Refusal::UnknownIssuer,
            number::REVOKED => Refusal::Revoked,
            number::NOT_AN_AUTHORITY | number::PATH_TOO_LONG | number::WRONG_PURPOSE => {
                Refusal::InvalidPurpose
            }
            number::UNKNOWN_CRITICAL_EXTENSION => Refusal::UnhandledCriticalExtension,
            _ => Refusal::ApplicationVerificationFailure,
        };
        refusal.into()
    }
}

/// Which side presents the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Client,
    Server,
}

/// Whether webpki refuses the certificate for its version alone.
pub(crate) fn is_version_1(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, parsed)| parsed.version() == X509Version::V1)
}

/// Whether a certificate names itself as its issuer.
pub(crate) fn is_self_issued(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
}

/// Whether a certificate names another as its issuer.
pub(crate) fn names_issuer(der: &[u8], issuer: &[u8]) -> bool {
    match (X509Certificate::from_der(der), X509Certificate::from_der(issuer)) {
        (Ok((_, certificate)), Ok((_, issuer))) => certificate.issuer() == issuer.subject(),
        _ => false,
    }
}

/// Whether a certificate names another as its issuer, and that one's key signed it.
pub(crate) fn is_issued_by(der: &[u8], issuer: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
    let (Some(signed), Some(issuer)) = (Signed::certificate(der), Signed::certificate(issuer)) else {
        return false;
    };
    signed.issuer == issuer.subject && signed.is_signed_by(issuer.key, algorithms)
}

/// Whether the holder of a certificate signed a message; the algorithm is the contents of its identifier.
pub(crate) fn has_signed(
    signer: &[u8],
    message: &[u8],
    algorithm: &[u8],
    signature: &[u8],
    algorithms: &WebPkiSupportedAlgorithms,
) -> bool {
    let key = public_key(signer).and_then(contents);
    key.is_some_and(|key| is_signed(message, algorithm, signature, key, algorithms))
}

/// The public key of a certificate, as a SubjectPublicKeyInfo in DER.
pub(crate) fn public_key(der: &[u8]) -> Option<&[u8]> {
    X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed.tbs_certificate.subject_pki.raw)
}

/// The authorities to trust, and the certificates they took back.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    pub(crate) authorities: RootCertStore,
    pub(crate) revocations: Vec<CertificateRevocationListDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// Whether webpki reads all these lists.
    suits_webpki: bool,
}

impl Trust {
    pub(crate) fn new(
        authorities: RootCertStore,
        revocations: Vec<CertificateRevocationListDer<'static>>,
        provider: &CryptoProvider,
    ) -> Self {
        let suits_webpki = revocations.iter().all(|list| suits_webpki(list));
        Self {
            authorities,
            revocations,
            algorithms: provider.signature_verification_algorithms,
            suits_webpki,
        }
    }

    /// Whether webpki reads all the revocation lists; what is here does for those it does not.
    pub(crate) fn suits_webpki(&self) -> bool {
        self.suits_webpki
    }

    /// Everything that speaks against a certificate.
    pub(crate) fn objections(
        &self,
        certificate: &[u8],
        others: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Vec<Objection> {
        let Some(first) = Signed::certificate(certificate) else {
            return vec![Objection { number: number::UNSPECIFIED, depth: 0 }];
        };
        let others: Vec<_> = others.iter().filter_map(|der| Signed::certificate(der)).collect();
        let path = self.path(&first, &others);
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut found = Vec::new();
        for (depth, step) in path.steps.iter().enumerate() {
            let mut object = |number| found.push(Objection { number, depth });
            match depth {
                0 => object_to_end(&step.parsed, purpose, &mut object),
                _ => object_to_authority(&step.parsed, depth, &mut object),
            }
            let issuer_key = path.steps.get(depth + 1).map(|issuer| issuer.key).or(path.authority_key);
            if let Some(key) = issuer_key {
                self.object_to_revoked(step, key, now, &mut object);
            }
            let validity = step.parsed.validity();
            if now < validity.not_before.timestamp() {
                object(number::NOT_YET_VALID);
            }
            if now > validity.not_after.timestamp() {
                object(number::EXPIRED);
            }
        }
        let depth = path.steps.len() - 1;
        if path.authority_key.is_none() {
            let alone = depth == 0 && first.parsed.subject() == first.parsed.issuer();
            let number = if alone { number::SELF_SIGNED } else { number::UNKNOWN_ISSUER };
            found.insert(0, Objection { number, depth });
        } else if path.constrained {
            found.push(Objection { number: number::CONSTRAINED_NAMES, depth: depth + 1 });
        }
        found
    }

    /// Each certificate with its issuer behind it, up to one that an authority signed or nobody known did.
    fn path<'a>(&'a self, first: &'a Signed<'a>, others: &'a [Signed<'a>]) -> Path<'a> {
        let mut path = Path { steps: vec![first], authority_key: None, constrained: false };
        let mut budget = MAX_SIGNATURES;
        let mut last = first;
        while path.steps.len() <= MAX_INTERMEDIATES + 1 {
            let mut signed_by = |subject: &[u8], key: &[u8]| {
                if contents(last.issuer) != Some(subject) || budget == 0 {
                    return false;
                }
                budget -= 1;
                last.is_signed_by(key, &self.algorithms)
            };
            let authority = self
                .authorities
                .roots
                .iter()
                .find(|root| signed_by(root.subject.as_ref(), root.subject_public_key_info.as_ref()));
            if let Some(root) = authority {
                path.authority_key = Some(root.subject_public_key_info.as_ref());
                path.constrained = root.name_constraints.is_some();
                break;
            }
            let fresh = |other: &&Signed<'_>| !path.steps.iter().any(|step| step.whole == other.whole);
            let issuer = others
                .iter()
                .filter(fresh)
                .find(|other| contents(other.subject).is_some_and(|subject| signed_by(subject, other.key)));
            let Some(issuer) = issuer else { break };
            path.steps.push(issuer);
            last = issuer;
        }
        path
    }

    /// RFC 5280 section 6.3: by the lists that the certificate's issuer signed.
    fn object_to_revoked(
        &self,
        step: &Signed<'_>,
        issuer_key: &[u8],
        now: i64,
        object: &mut impl FnMut(u32),
    ) {
        if self.revocations.is_empty() {
            return;
        }
        let mut known = false;
        for der in &self.revocations {
            // RFC 5280 section 5.2: a list with an unknown critical extension, such as one for some reasons only,
            // must not be used.
            let Ok((_, list)) = CertificateRevocationList::from_der(der) else { continue };
            if list.extensions().iter().any(|extension| extension.critical) {
                continue;
            }
            let Some(signature_algorithm) = signature_algorithm(der) else { continue };
            let (message, signature) = (list.tbs_cert_list.as_ref(), &*list.signature_value.data);
            let genuine = || {
                is_signed(message, signature_algorithm, signature, issuer_key, &self.algorithms)
                    || is_signed_with_sha1(message, signature_algorithm, signature, issuer_key)
            };
            if list.issuer().as_raw() != step.issuer || !genuine() {
                continue;
            }
            known = true;
            if list.next_update().is_some_and(|next| now > next.timestamp()) {
                object(number::REVOCATION_LIST_EXPIRED);
            }
            let serial = step.parsed.raw_serial();
            if list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == serial) {
                object(number::REVOKED);
                return;
            }
        }
        if !known {
            object(number::NO_REVOCATION_LIST);
        }
    }
}

struct Path<'a> {
    /// The certificate first; never empty.
    steps: Vec<&'a Signed<'a>>,
    /// The key of the authority at the end, when there is one.
    authority_key: Option<&'a [u8]>,
    /// The authority may sign for some names only.
    constrained: bool,
}

fn object_to_end(certificate: &X509Certificate<'_>, purpose: Purpose, object: &mut impl FnMut(u32)) {
    object_to_extensions(certificate, object);
    let Ok(Some(usage)) = certificate.extended_key_usage() else { return };
    let fits = match purpose {
        Purpose::Client => usage.value.client_auth,
        Purpose::Server => usage.value.server_auth,
    };
    if !fits && !usage.value.any {
        object(number::WRONG_PURPOSE);
    }
}

fn object_to_authority(certificate: &X509Certificate<'_>, depth: usize, object: &mut impl FnMut(u32)) {
    object_to_extensions(certificate, object);
    match certificate.basic_constraints() {
        Ok(Some(constraints)) if constraints.value.ca => {
            let below = u32::try_from(depth - 1).unwrap_or(u32::MAX);
            if constraints.value.path_len_constraint.is_some_and(|longest| below > longest) {
                object(number::PATH_TOO_LONG);
            }
        }
        _ => object(number::NOT_AN_AUTHORITY),
    }
    if let Ok(Some(usage)) = certificate.key_usage()
        && !usage.value.key_cert_sign()
    {
        object(number::NOT_AN_AUTHORITY);
    }
}

fn object_to_extensions(certificate: &X509Certificate<'_>, object: &mut impl FnMut(u32)) {
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::NameConstraints(_) => object(number::CONSTRAINED_NAMES),
            ParsedExtension::UnsupportedExtension { .. }
            | ParsedExtension::ParseError { .. }
            | ParsedExtension::Unparsed
            | ParsedExtension::PolicyConstraints(_)
            | ParsedExtension::PolicyMappings(_)
                if extension.critical =>
            {
                object(number::UNKNOWN_CRITICAL_EXTENSION);
            }
            _ => {}
        }
    }
}

/// A certificate taken apart.
struct Signed<'a> {
    whole: &'a [u8],
    parsed: X509Certificate<'a>,
    issuer: &'a [u8],
    subject: &'a [u8],
    /// Contents of its SubjectPublicKeyInfo.
    key: &'a [u8],
    signature_algorithm: &'a [u8],
}

impl<'a> Signed<'a> {
    fn certificate(der: &'a [u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let fields = &parsed.tbs_certificate;
        Some(Self {
            whole: der,
            issuer: fields.issuer.as_raw(),
            subject: fields.subject.as_raw(),
            key: contents(fields.subject_pki.raw)?,
            signature_algorithm: signature_algorithm(der)?,
            parsed,
        })
    }

    fn is_signed_by(&self, key: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let message = self.parsed.tbs_certificate.as_ref();
        let signature: &[u8] = &self.parsed.signature_value.data;
        is_signed(message, self.signature_algorithm, signature, key, algorithms)
    }
}

/// Whether the owner of a key (the contents of its SubjectPublicKeyInfo) signed a message.
fn is_signed(
    message: &[u8],
    signature_algorithm: &[u8],
    signature: &[u8],
    key: &[u8],
    algorithms: &WebPkiSupportedAlgorithms,
) -> bool {
    let Some((key_algorithm, bits)) = key_parts(key) else { return false };
    algorithms.all.iter().any(|algorithm| {
        algorithm.signature_alg_id().as_ref() == signature_algorithm
            && algorithm.public_key_alg_id().as_ref() == key_algorithm
            && algorithm.verify_signature(bits, message, signature).is_ok()
    })
}

/// Revocation lists are still signed with SHA-1: who trusts them less would trust what they take back.
fn is_signed_with_sha1(message: &[u8], signature_algorithm: &[u8], signature: &[u8], key: &[u8]) -> bool {
    let Some((key_algorithm, bits)) = key_parts(key) else { return false };
    let algorithm = &aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY;
    signature_algorithm == SHA1_WITH_RSA
        && key_algorithm == rustls::pki_types::alg_id::RSA_ENCRYPTION.as_ref()
        && aws_lc_rs::signature::UnparsedPublicKey::new(algorithm, bits).verify(message, signature).is_ok()
}

/// sha1WithRSAEncryption, 1.2.840.113549.1.1.5, and its parameters, NULL (RFC 3279 section 2.2.1).
const SHA1_WITH_RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5, 5, 0];

/// Version 2 has extensions, and webpki wants a signature newer than SHA-1.
fn suits_webpki(list: &[u8]) -> bool {
    let is_version_2 = CertificateRevocationList::from_der(list)
        .is_ok_and(|(_, parsed)| parsed.version() == Some(X509Version::V2));
    is_version_2 && signature_algorithm(list) != Some(SHA1_WITH_RSA)
}

/// Whether the peer that presented a certificate of version 1 signed this part of the handshake.
///
/// RFC 8446 section 4.2.3: a scheme of TLS 1.3 belongs to one curve, one of TLS 1.2 to any.
pub(crate) fn verify_handshake(
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
    is_tls13: bool,
) -> Result<(), Error> {
    let bad_encoding = || Error::from(Refusal::BadEncoding);
    let key = public_key(certificate).and_then(contents).ok_or_else(bad_encoding)?;
    let (key_algorithm, bits) = key_parts(key).ok_or_else(bad_encoding)?;
    let known = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let (_, candidates) = known
        .filter(|(scheme, _)| !is_tls13 || is_for_tls13(*scheme))
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let candidates = if is_tls13 { candidates.get(..1).unwrap_or_default() } else { candidates };
    let valid = candidates.iter().any(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == key_algorithm
            && algorithm.verify_signature(bits, message, signed.signature()).is_ok()
    });
    if valid { Ok(()) } else { Err(Refusal::BadSignature.into()) }
}

/// RFC 8446 section 4.2.3: PKCS#1 version 1.5 signs certificates only, not handshakes.
fn is_for_tls13(scheme: SignatureScheme) -> bool {
    !matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    )
}

/// The contents of a certificate's or list's signature algorithm: the second field of its three.
fn signature_algorithm(der: &[u8]) -> Option<&[u8]> {
    let (_, rest) = element(contents(der)?)?;
    element(rest).map(|(algorithm, _)| algorithm)
}

/// Contents of the algorithm and the bits of a key, from the contents of its SubjectPublicKeyInfo.
fn key_parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = element(key)?;
    let (bits, _) = element(rest)?;
    // The first byte counts the unused bits at the end: keys are whole bytes.
    Some((algorithm, bits.strip_prefix(&[0])?))
}

/// The contents of a DER element.
fn contents(der: &[u8]) -> Option<&[u8]> {
    element(der).map(|(contents, _)| contents)
}

/// The contents of the first DER element, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, mut rest) = der.get(1..)?.split_first()?;
    let mut length = usize::from(length);
    if length >= 0x80 {
        let bytes = length - 0x80;
        if bytes == 0 || bytes > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(bytes)?;
        length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        rest = after;
    }
    rest.split_at_checked(length)
}
