//! What is known about an established TLS connection, for logs, rules and headers.
//!
//! Owns the facts of the handshake. The handshake's callbacks (certificate choice, verification, key log) run
//! on the connection's thread but do not know the connection: they leave notes which the session collects
//! right after.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{
    CertificateError, CommonState, HandshakeKind, NamedGroup, ProtocolVersion, SupportedCipherSuite,
};

use super::algorithms;
use super::certificate::Certificate;
use super::early::EarlyHandshake;
use super::failure::Failure;
use super::hello;
use super::path::Objection;

/// The result of verifying the peer's certificate that means "no objection" (X509_V_OK).
pub const VERIFY_OK: u32 = 0;

/// Facts about a connection whose handshake is complete.
#[derive(Debug, Clone, Default)]
pub struct TlsInfo {
    version: Option<ProtocolVersion>,
    suite: Option<SupportedCipherSuite>,
    group: Option<NamedGroup>,
    resumed: bool,
    verify_error: u32,
    objections: Objections,
    failure: Option<Failure>,
    server_name: Option<Box<str>>,
    name_is_unknown: bool,
    /// The peer's certificate is right, but for another host.
    other_host: bool,
    alpn: Option<Box<[u8]>>,
    peer_certificates: Box<[CertificateDer<'static>]>,
    local_certificate: Option<Arc<Certificate>>,
    details: Option<Box<Details>>,
    early: Option<Arc<EarlyHandshake>>,
}

/// What was objected to in the peer's certificates, by OpenSSL's numbers: let pass, or the end of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Objections {
    /// The first one about the peer's own certificate, [`VERIFY_OK`] without.
    pub certificate: u32,
    /// The first one about those above it.
    pub authorities: u32,
    /// Where that one stands: 1 is the issuer of the peer's certificate.
    pub depth: u32,
}

/// What is only kept when the configuration asks for it.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// The client's hello message, from its version field on.
    pub client_hello: Box<[u8]>,
    /// The server's random bytes.
    pub server_random: [u8; 32],
    /// The session identifier the server answered with.
    pub session_id: Box<[u8]>,
    /// Labels and secrets in the order of the handshake, as in the NSS key log format.
    pub secrets: Vec<(String, Vec<u8>)>,
}

impl Details {
    /// The version in the client's hello, two bytes.
    pub fn version(&self) -> Option<&[u8]> {
        self.client_hello.get(..2)
    }

    /// The client's random bytes.
    pub fn client_random(&self) -> Option<&[u8]> {
        hello::random(&self.client_hello)
    }

    /// The cipher suites the client offers, two bytes each.
    pub fn cipher_suites(&self) -> &[u8] {
        hello::cipher_suites(&self.client_hello).unwrap_or_default()
    }

    /// The types of the client's extensions, two bytes each.
    pub fn extension_types(&self) -> Vec<u8> {
        hello::extension_types(&self.client_hello)
    }

    /// The groups the client supports, two bytes each (RFC 8446 section 4.2.7).
    pub fn groups(&self) -> &[u8] {
        self.list(10, 2)
    }

    /// The point formats the client supports (RFC 8422 section 5.1.2).
    pub fn point_formats(&self) -> &[u8] {
        self.list(11, 1)
    }

    /// The signature algorithms the client supports, two bytes each (RFC 8446 section 4.2.3).
    pub fn signature_algorithms(&self) -> &[u8] {
        self.list(13, 2)
    }

    /// The versions the client supports, two bytes each (RFC 8446 section 4.2.1).
    pub fn supported_versions(&self) -> &[u8] {
        self.list(43, 1)
    }

    /// An extension that is a list behind its length.
    fn list(&self, extension: u16, length_bytes: usize) -> &[u8] {
        hello::extension(&self.client_hello, extension)
            .and_then(|body| body.get(length_bytes..))
            .unwrap_or_default()
    }

    /// The secret with this label of the NSS key log format.
    pub fn secret(&self, label: &str) -> Option<&[u8]> {
        self.secrets.iter().find(|(known, _)| known == label).map(|(_, secret)| secret.as_slice())
    }
}

impl TlsInfo {
    /// `TLSv1.3` or `TLSv1.2`; empty before the handshake is complete.
    pub fn version(&self) -> &'static str {
        match self.version {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        }
    }

    /// The cipher suite's OpenSSL name.
    pub fn cipher(&self) -> &'static str {
        self.suite.map_or("", |suite| algorithms::suite_name(suite.suite()))
    }

    /// The suite's strength: bits of the cipher's key.
    pub fn cipher_bits(&self) -> u32 {
        if self.cipher().contains("128") { 128 } else { 256 }
    }

    /// The suite's number in the protocol.
    pub fn cipher_id(&self) -> Option<u16> {
        self.suite.map(|suite| u16::from(suite.suite()))
    }

    /// The name of the key exchange group; none on a resumed TLS 1.2 session.
    pub fn group(&self) -> Option<&'static str> {
        self.group.map(algorithms::group_name)
    }

    /// Whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The name the client asked for, in lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The protocol agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    /// The peer's certificate and what came with it, each in DER.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.peer_certificates
    }

    /// The peer's own certificate in DER.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer_certificates.first().map(AsRef::as_ref)
    }

    /// The certificate this side presented as a server.
    pub fn local_certificate(&self) -> Option<&Arc<Certificate>> {
        self.local_certificate.as_ref()
    }

    /// Why the peer's certificate would have been refused, had the configuration not said to ignore it:
    /// OpenSSL's number, [`VERIFY_OK`] when there is nothing to object to.
    pub fn verify_error(&self) -> u32 {
        self.verify_error
    }

    /// What was objected to in the peer's certificates.
    pub fn objections(&self) -> Objections {
        self.objections
    }

    /// Why the handshake failed, unless it only ended.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The handshake, when data came before its end.
    pub fn early(&self) -> Option<&Arc<EarlyHandshake>> {
        self.early.as_ref()
    }

    pub(crate) fn set_early(&mut self, handshake: &Arc<EarlyHandshake>) {
        self.early = Some(Arc::clone(handshake));
    }

    /// Whether the handshake failed because the server's certificate is for another host.
    pub fn is_other_host(&self) -> bool {
        self.other_host
    }

    /// Handshake bytes and secrets, when the configuration asked to keep them.
    pub fn details(&self) -> Option<&Details> {
        self.details.as_deref()
    }

    pub(crate) fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    pub(crate) fn keeps_client_hello(&self) -> bool {
        self.details().is_some_and(|details| !details.client_hello.is_empty())
    }

    /// Keeps what a server says in its hello, if a record is one.
    pub(crate) fn keep_server_hello(&mut self, record: &[u8]) {
        if let Some((random, id)) = hello::read_server_hello(record) {
            let details = self.details_mut();
            details.server_random = random;
            details.session_id = id.into();
        }
    }

    pub(crate) fn is_tls13(&self) -> bool {
        self.version == Some(ProtocolVersion::TLSv1_3)
    }

    pub(crate) fn set_server_name(&mut self, name: &str) {
        self.server_name = Some(name.into());
    }

    /// The handshake ended with this.
    pub(crate) fn set_failure(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    /// Takes over what rustls knows of a handshake that failed; what our own checks noted says more.
    pub(crate) fn fail(&mut self, state: &CommonState, error: &rustls::Error) {
        self.version = state.protocol_version();
        // In TLS 1.2 a suite is in use from the end of the handshake on.
        self.suite = state.negotiated_cipher_suite().filter(|_| self.is_tls13());
        self.other_host = matches!(
            error,
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
        );
        self.failure = Some(Failure::of(error, self.is_tls13(), self.name_is_unknown));
    }

    /// Takes over what rustls knows at the end of the handshake.
    pub(crate) fn complete(&mut self, state: &CommonState) {
        self.version = state.protocol_version();
        self.suite = state.negotiated_cipher_suite();
        self.group = state.negotiated_key_exchange_group().map(|group| group.name());
        self.resumed = state.handshake_kind() == Some(HandshakeKind::Resumed);
        self.alpn = state.alpn_protocol().map(Into::into);
        self.peer_certificates = state.peer_certificates().unwrap_or_default().into();
    }

    /// Takes over what the callbacks noted since the last time.
    pub(crate) fn collect_notes(&mut self) {
        let notes = NOTES.with_borrow_mut(std::mem::take);
        if notes.server_name.is_some() {
            self.server_name = notes.server_name;
        }
        if notes.certificate.is_some() {
            self.local_certificate = notes.certificate;
        }
        if notes.verify_error != VERIFY_OK {
            self.verify_error = notes.verify_error;
        }
        if notes.objections != Objections::default() {
            self.objections = notes.objections;
        }
        if !notes.refused.is_empty() {
            self.peer_certificates = notes.refused;
        }
        self.name_is_unknown |= notes.name_is_unknown;
        if !notes.secrets.is_empty() {
            self.details_mut().secrets.extend(notes.secrets);
        }
    }
}

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::default();
}

#[derive(Default)]
struct Notes {
    server_name: Option<Box<str>>,
    certificate: Option<Arc<Certificate>>,
    verify_error: u32,
    objections: Objections,
    /// The peer's certificates, when they end the handshake.
    refused: Box<[CertificateDer<'static>]>,
    name_is_unknown: bool,
    secrets: Vec<(String, Vec<u8>)>,
}

/// The client asked for this name.
pub(crate) fn note_server_name(name: &str) {
    NOTES.with_borrow_mut(|notes| notes.server_name = Some(name.into()));
}

/// This certificate is presented to the client.
pub(crate) fn note_certificate(certificate: Arc<Certificate>) {
    NOTES.with_borrow_mut(|notes| notes.certificate = Some(certificate));
}

/// The peer's certificate was let pass in spite of this.
pub(crate) fn note_verify_error(number: u32) {
    NOTES.with_borrow_mut(|notes| notes.verify_error = number);
}

/// This was objected to in the peer's certificates, in the order of the objections.
pub(crate) fn note_objections(objections: &[Objection]) {
    let mut noted = Objections::default();
    for Objection { number, depth } in objections {
        if *depth == 0 && noted.certificate == VERIFY_OK {
            noted.certificate = *number;
        }
        if *depth > 0 && noted.authorities == VERIFY_OK {
            (noted.authorities, noted.depth) = (*number, u32::try_from(*depth).unwrap_or(u32::MAX));
        }
    }
    NOTES.with_borrow_mut(|notes| notes.objections = noted);
}

/// The peer is refused for these certificates.
pub(crate) fn note_refused(own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) {
    let all = std::iter::once(own).chain(others).map(|der| der.clone().into_owned()).collect();
    NOTES.with_borrow_mut(|notes| notes.refused = all);
}

/// There is no certificate for the name the client asked for.
pub(crate) fn note_unknown_name() {
    NOTES.with_borrow_mut(|notes| notes.name_is_unknown = true);
}

/// Forgets what a handshake that was given up left behind.
pub(crate) fn forget_notes() {
    NOTES.set(Notes::default());
}

/// Keeps the secrets of each connection with its facts, instead of in a file.
#[derive(Debug)]
pub(crate) struct KeepSecrets;

impl rustls::KeyLog for KeepSecrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        NOTES.with_borrow_mut(|notes| notes.secrets.push((label.to_owned(), secret.to_vec())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What callbacks may note in one step of a handshake.
    #[derive(Clone, Debug)]
    enum Note {
        Name(String),
        Error(u32),
        Objection(u32, usize),
        Refused(u8),
        UnknownName,
        Secret(u8),
    }

    impl Note {
        fn leave(&self) {
            match self {
                Self::Name(name) => note_server_name(name),
                Self::Error(number) => note_verify_error(*number),
                Self::Objection(number, depth) => {
                    note_objections(&[Objection { number: *number, depth: *depth }]);
                }
                Self::Refused(byte) => note_refused(&CertificateDer::from(vec![*byte]), &[]),
                Self::UnknownName => note_unknown_name(),
                Self::Secret(byte) => rustls::KeyLog::log(&KeepSecrets, "LABEL", &[], &[*byte]),
            }
        }
    }

    fn notes() -> impl Strategy<Value = Vec<Note>> {
        let note = prop_oneof![
            "[a-z]{1,3}".prop_map(Note::Name),
            (1..30_u32).prop_map(Note::Error),
            (1..30_u32, 0..3_usize).prop_map(|(number, depth)| Note::Objection(number, depth)),
            any::<u8>().prop_map(Note::Refused),
            Just(Note::UnknownName),
            any::<u8>().prop_map(Note::Secret),
        ];
        prop::collection::vec(note, 0..5)
    }

    /// One step of a handshake; one that is given up does not come to collecting its notes.
    fn step(info: &mut TlsInfo, notes: &[Note], is_given_up: bool) {
        forget_notes();
        notes.iter().for_each(Note::leave);
        if !is_given_up {
            info.collect_notes();
        }
    }

    proptest! {
        #[test]
        fn a_handshake_after_others_has_only_its_own_notes(
            before in prop::collection::vec((notes(), any::<bool>()), 0..4),
            own in prop::collection::vec(notes(), 1..3),
        ) {
            let all = |info: &mut TlsInfo| {
                own.iter().for_each(|notes| step(info, notes, false));
                format!("{info:?}")
            };
            step(&mut TlsInfo::default(), &[], false);
            let alone = all(&mut TlsInfo::default());
            for (notes, is_given_up) in &before {
                step(&mut TlsInfo::default(), notes, *is_given_up);
            }
            prop_assert_eq!(all(&mut TlsInfo::default()), alone);
        }
    }
}
