//! Whether a peer's certificate is trusted: authorities, revocation, names, and what to let pass regardless.
//!
//! Owns the verifiers that rustls asks. Which of them a bind or server line gets is left to `server` and
//! `client`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError as Refusal, DigitallySignedStruct, DistinguishedName, Error, NamedGroup, OtherError,
    PeerMisbehaved, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::certificate::{CertificateError, read_certificates, read_file};
use super::info;
use super::path::{self, Objection, Purpose, Trust};
use super::trust_files::TrustFiles;

/// Stands for the system's own list of authorities.
const SYSTEM_AUTHORITIES: &str = "@system-ca";

/// Where systems keep that list in one file.
const SYSTEM_AUTHORITY_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Extensions of the files of a folder of authorities.
const AUTHORITY_EXTENSIONS: [&str; 4] = ["pem", "crt", "cer", "crl"];

/// What is asked of a client (`verify` on a bind line).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// No certificate is asked for.
    #[default]
    None,
    /// A certificate is asked for, and verified if there is one.
    Optional,
    /// A valid certificate is required.
    Required,
}

/// Objections to let pass (`ca-ignore-err`, `crt-ignore-err`), by OpenSSL's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IgnoreErrors {
    /// None.
    #[default]
    Nothing,
    /// These.
    These(Vec<u32>),
    /// All.
    All,
}

/// Which objections a bind line lets pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leniency {
    /// About the client's certificate (`crt-ignore-err`).
    pub certificate: IgnoreErrors,
    /// About the authorities above it (`ca-ignore-err`).
    pub authorities: IgnoreErrors,
}

impl Leniency {
    fn ignores(&self, objection: Objection) -> bool {
        let list = if objection.depth == 0 { &self.certificate } else { &self.authorities };
        list.ignores(objection.number)
    }
}

impl IgnoreErrors {
    fn ignores(&self, number: u32) -> bool {
        match self {
            Self::Nothing => false,
            Self::These(numbers) => numbers.contains(&number),
            Self::All => true,
        }
    }
}

/// The authorities of a `ca-file`.
pub(crate) fn load_authorities(
    path: &Path,
    known: &TrustFiles<CertificateDer<'static>>,
) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    // Lists of authorities hold old certificates that are of no use to anybody: they are skipped.
    roots.add_parsable_certificates(known.load(path)?.iter().cloned());
    if roots.is_empty() {
        return Err(CertificateError::new(path, "there is no usable certificate of an authority in it"));
    }
    Ok(roots)
}

/// Reads the certificates of a `ca-file`: a file, a folder, or the system's.
pub(crate) fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let mut certificates = Vec::new();
    for file in authority_files(path)? {
        let read = read_certificates(&read_file(&file)?);
        certificates.extend(read.map_err(|reason| CertificateError::new(&file, reason))?);
    }
    Ok(certificates)
}

fn authority_files(path: &Path) -> Result<Vec<PathBuf>, CertificateError> {
    if path == Path::new(SYSTEM_AUTHORITIES) {
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let mut known = named.into_iter().chain(SYSTEM_AUTHORITY_FILES.map(PathBuf::from));
        return match known.find(|file| file.is_file()) {
            Some(file) => Ok(vec![file]),
            None => Err(CertificateError::new(path, "the system has no list of authorities")),
        };
    }
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let fail = |error: std::io::Error| CertificateError::new(path, format_args!("cannot be read: {error}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        let hidden = file.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let extension = file.extension().map(|extension| extension.to_string_lossy().into_owned());
        if !hidden && extension.is_some_and(|extension| AUTHORITY_EXTENSIONS.contains(&extension.as_str())) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the lists of a `crl-file`.
pub(crate) fn read_revocations(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
    let pem = read_file(path)?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CertificateError::new(path, format_args!("cannot be read: {error}")))?;
    if lists.is_empty() {
        return Err(CertificateError::new(path, "there is no revocation list in it"));
    }
    Ok(lists)
}

/// What a bind line says of clients' certificates beside the authorities.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) leniency: Leniency,
    /// Names of authorities to send.
    pub(crate) names_sent: Vec<DistinguishedName>,
    /// The only signatures to accept in handshakes (`client-sigalgs`).
    pub(crate) schemes: Option<Vec<SignatureScheme>>,
    /// The only groups to accept, where the line says which (`curves`).
    pub(crate) groups: Option<Vec<NamedGroup>>,
}

/// Verifies clients' certificates.
pub(crate) fn client_verifier(
    provider: &Arc<CryptoProvider>,
    required: bool,
    authorities: RootCertStore,
    revocations: Vec<CertificateRevocationListDer<'static>>,
    terms: Terms,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let trust = Trust::new(authorities.clone(), revocations.clone(), provider);
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    let builder = if revocations.is_empty() || !trust.suits_webpki() {
        builder
    } else {
        builder.with_crls(revocations).enforce_revocation_expiration()
    };
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    let builder = builder.clear_root_hint_subjects().add_root_hint_subjects(terms.names_sent);
    let webpki = builder.build().map_err(|error| error.to_string())?;
    let Terms { leniency, schemes, groups, .. } = terms;
    let signatures = Signatures { supported: provider.signature_verification_algorithms, allowed: schemes };
    Ok(Arc::new(ClientVerifier { webpki, trust, leniency, signatures, groups }))
}

/// Asks webpki, except where it has no answer: see [`path`].
#[derive(Debug)]
struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    trust: Trust,
    leniency: Leniency,
    signatures: Signatures,
    groups: Option<Vec<NamedGroup>>,
}

/// A client of TLS 1.2 showed a certificate whose key is on a curve that the bind line does not have. In TLS 1.3 the
/// signature names the curve.
#[derive(Debug)]
pub(crate) struct WrongCurve;

impl std::fmt::Display for WrongCurve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the key of the client's certificate is on a curve that is not accepted")
    }
}

impl std::error::Error for WrongCurve {}

impl ClientVerifier {
    /// RFC 8422 section 5.1.1: the groups are those for certificates, too.
    fn require_known_curve(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        match curve_of(certificate) {
            Some(curve) if self.groups.as_ref().is_some_and(|groups| !groups.contains(&curve)) => {
                Err(OtherError(Arc::new(WrongCurve)).into())
            }
            _ => Ok(()),
        }
    }
}

/// The curve of a certificate's key; none when it has another kind of key, or is on a curve nobody can choose.
fn curve_of(certificate: &[u8]) -> Option<NamedGroup> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let parameters = parsed.public_key().algorithm.parameters.as_ref()?;
    match parameters.as_oid().ok()?.to_id_string().as_str() {
        "1.2.840.10045.3.1.7" => Some(NamedGroup::secp256r1),
        "1.3.132.0.34" => Some(NamedGroup::secp384r1),
        "1.3.132.0.35" => Some(NamedGroup::secp521r1),
        _ => None,
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut own_only = path::is_version_1(end_entity) || !self.trust.suits_webpki();
        if !own_only {
            match self.webpki.verify_client_cert(end_entity, intermediates, now) {
                // An authority's certificate, which a self-signed one mostly is; see `verify_server_cert`.
                Err(Error::InvalidCertificate(Refusal::Other(_))) => own_only = true,
                Err(_) if self.leniency != Leniency::default() => {}
                Err(error) => {
                    let objections = self.trust.objections(end_entity, intermediates, Purpose::Client, now);
                    // What webpki objects to and the path does not has no number of its own.
                    let unspecified = Objection { number: path::number::UNSPECIFIED, depth: 0 };
                    info::note_objections(&[*objections.first().unwrap_or(&unspecified)]);
                    info::note_refused(end_entity, intermediates);
                    return Err(error);
                }
                decided => return decided,
            }
        }
        let objections = self.trust.objections(end_entity, intermediates, Purpose::Client, now);
        if let Some(at) = objections.iter().position(|objection| !self.leniency.ignores(*objection)) {
            info::note_objections(&objections[..=at]);
            info::note_refused(end_entity, intermediates);
            return Err(objections[at].error());
        }
        info::note_objections(&objections);
        // What webpki objects to and the path does not is nothing that can be let pass.
        match objections.last() {
            None if !own_only => Err(Objection { number: path::number::UNSPECIFIED, depth: 0 }.error()),
            None => Ok(ClientCertVerified::assertion()),
            Some(last) => {
                info::note_verify_error(last.number);
                Ok(ClientCertVerified::assertion())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let valid = self.signatures.verify(message, cert, dss, false)?;
        self.require_known_curve(cert)?;
        Ok(valid)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify(message, cert, dss, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

/// How handshakes are signed that a verifier takes.
#[derive(Debug)]
struct Signatures {
    supported: WebPkiSupportedAlgorithms,
    /// The only ones to accept, the preferred first (`sigalgs`, `client-sigalgs`).
    allowed: Option<Vec<SignatureScheme>>,
}

impl Signatures {
    fn schemes(&self) -> Vec<SignatureScheme> {
        let supported = self.supported.supported_schemes();
        match &self.allowed {
            None => supported,
            Some(list) => list.iter().copied().filter(|scheme| supported.contains(scheme)).collect(),
        }
    }

    /// The signature of a handshake in TLS 1.3 or 1.2.
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        is_tls13: bool,
    ) -> Result<HandshakeSignatureValid, Error> {
        // RFC 8446 section 4.4.3: a signature of a kind that was not offered ends the handshake.
        if self.allowed.as_ref().is_some_and(|list| !list.contains(&signed.scheme)) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        if path::is_version_1(certificate) {
            path::verify_handshake(message, certificate, signed, &self.supported, is_tls13)?;
            return Ok(HandshakeSignatureValid::assertion());
        }
        match is_tls13 {
            true => rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.supported),
            false => rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.supported),
        }
    }
}

/// Verifies servers' certificates.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    /// Chain verification by webpki and, for certificates it does not read, by us; none with `verify none`.
    chain: Option<(Arc<WebPkiServerVerifier>, Trust)>,
    /// The name to look for instead of the one asked for (`verifyhost`).
    host: Option<String>,
    signatures: Signatures,
}

impl ServerVerifier {
    pub(crate) fn new(
        provider: &Arc<CryptoProvider>,
        trust: Option<(RootCertStore, Vec<CertificateRevocationListDer<'static>>)>,
        host: Option<String>,
        schemes: Option<Vec<SignatureScheme>>,
    ) -> Result<Self, String> {
        let chain = trust
            .map(|(authorities, revocations)| {
                let own = Trust::new(authorities.clone(), revocations.clone(), provider);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
                let builder = if revocations.is_empty() || !own.suits_webpki() {
                    builder
                } else {
                    builder.with_crls(revocations).enforce_revocation_expiration()
                };
                builder.build().map(|webpki| (webpki, own)).map_err(|error| error.to_string())
            })
            .transpose()?;
        let signatures =
            Signatures { supported: provider.signature_verification_algorithms, allowed: schemes };
        Ok(Self { chain, host, signatures })
    }
}

/// The name given to rustls when none is asked for; it is never sent nor looked for.
pub(crate) fn no_name() -> ServerName<'static> {
    ServerName::from(IpAddr::from([0, 0, 0, 0]))
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((webpki, own)) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verified_by_us = || {
            let objections = own.objections(end_entity, intermediates, Purpose::Server, now);
            objections.first().map_or(Ok(ServerCertVerified::assertion()), |objection| Err(objection.error()))
        };
        let verified = if path::is_version_1(end_entity) || !own.suits_webpki() {
            verified_by_us()
        } else {
            match webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                // It takes no authority's certificate for a server's, which a self-signed one mostly is. OpenSSL
                // does, so HAProxy's `ca-file` may name the server's own certificate.
                Err(Error::InvalidCertificate(Refusal::Other(_))) => verified_by_us(),
                other => other,
            }
        };
        match verified {
            // Names are the last thing it looks at, so the chain is right. HAProxy's rules for names differ:
            // another name may be meant, none may be asked for, and the common name counts too.
            Ok(_)
            | Err(Error::InvalidCertificate(
                Refusal::NotValidForName | Refusal::NotValidForNameContext { .. },
            )) => {}
            Err(error) => return Err(error),
        }
        let expected = match (&self.host, server_name) {
            (Some(host), _) => host.clone(),
            (None, name) if *name == no_name() => return Ok(ServerCertVerified::assertion()),
            (None, name) => name.to_str().into_owned(),
        };
        if is_for_host(end_entity, &expected) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Refusal::NotValidForName.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify(message, cert, dss, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify(message, cert, dss, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

/// Whether a certificate names this host: in its alternative names or, failing that, its common name.
fn is_for_host(certificate: &[u8], host: &str) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let address: Option<IpAddr> = host.parse().ok();
    if let Ok(Some(alternatives)) = parsed.subject_alternative_name() {
        let found = alternatives.value.general_names.iter().any(|name| match name {
            GeneralName::DNSName(name) => matches_host(name, host),
            GeneralName::IPAddress(bytes) => match address {
                Some(IpAddr::V4(address)) => address.octets() == *bytes,
                Some(IpAddr::V6(address)) => address.octets() == *bytes,
                None => false,
            },
            _ => false,
        });
        if found {
            return true;
        }
    }
    parsed.subject().iter_common_name().any(|name| name.as_str().is_ok_and(|name| matches_host(name, host)))
}

/// A certificate's name matches a host exactly, or with `*` in place of the first label.
fn matches_host(pattern: &str, host: &str) -> bool {
    if let Some(suffix) = pattern.strip_prefix("*.") {
        let is_address = host.parse::<IpAddr>().is_ok();
        let rest = host.split_once('.').filter(|(label, _)| !label.is_empty() && !is_address);
        return rest.is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(suffix));
    }
    pattern.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        let check = |pattern: &str, host: &str, expected: bool| {
            assert_eq!(matches_host(pattern, host), expected, "{pattern} {host}");
        };
        check("a.org", "A.ORG", true);
        check("a.org", "b.org", false);
        check("*.a.org", "x.a.org", true);
        check("*.a.org", "x.y.a.org", false);
        check("*.a.org", "a.org", false);
        check("*.a.org", ".a.org", false);
        check("*.0.0.1", "127.0.0.1", false);
        check("127.0.0.1", "127.0.0.1", true);
    }

    #[test]
    fn the_systems_authorities_can_be_missing_but_not_broken() {
        let known = TrustFiles::default();
        let loaded = load_authorities(Path::new(SYSTEM_AUTHORITIES), &known);
        assert!(loaded.is_ok() || loaded.unwrap_err().reason.contains("authorities"));
        assert!(load_authorities(Path::new("/nonexistent"), &known).is_err());
    }
}
