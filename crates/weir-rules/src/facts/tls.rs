//! What is known of the TLS layer of a connection.

use std::borrow::Cow;
use std::task::{Context, Poll};

/// Facts of the TLS layer of a connection, read by the `ssl_fc_*`, `ssl_c_*`, `ssl_bc_*` fetches.
pub trait TlsFacts {
    /// `TLSv1.3`, `TLSv1.2`.
    fn version(&self) -> &'static str;
    /// Cipher suite under OpenSSL's name.
    fn cipher(&self) -> &str;
    /// Server name the client asked for.
    fn sni(&self) -> Option<&str>;
    /// Negotiated application protocol.
    fn alpn(&self) -> Option<&[u8]>;
    /// Resumed from a session or ticket.
    fn resumed(&self) -> bool;
    /// Certificate of the peer in DER.
    fn peer_certificate(&self) -> Option<&[u8]>;
    /// What the peer presented behind its certificate, each in DER.
    fn peer_intermediates(&self) -> &[Box<[u8]>];
    /// Certificate we presented in DER.
    fn own_certificate(&self) -> Option<&[u8]>;
    /// Name of the key exchange group.
    fn group(&self) -> Option<&str>;
    /// Verification error of the client's certificate (0 = none), as `ssl_c_verify`.
    fn verify_error(&self) -> u32;
    /// What was objected to in the peer's certificates, let pass or not.
    fn objections(&self) -> TlsObjections;
    /// What the TLS layer found wrong, if anything: the handshake failed then.
    fn failure(&self) -> Option<TlsFailure>;
    /// Early data came, and the client has not completed the handshake yet (`ssl_fc_has_early`).
    fn has_early(&self) -> bool;
    /// Early data came, however long ago (`ssl_fc_early_rcvd`).
    fn received_early(&self) -> bool;
    /// Ready at the end of a handshake that early data came with: false when it failed.
    fn poll_complete(&self, cx: &mut Context<'_>) -> Poll<bool>;
    /// Name of the certificate we presented, as `show ssl cert` has it.
    fn own_certificate_name(&self) -> Option<&str>;
    /// A part of the hello messages, where it was kept.
    fn hello(&self, part: HelloPart) -> Option<Cow<'_, [u8]>>;
    /// A secret by its label in key logs (`CLIENT_TRAFFIC_SECRET_0`), where it was kept.
    fn secret(&self, label: &str) -> Option<&[u8]>;
}

/// Parts of the hello messages.  All but the random bytes and the session's identifier are the client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of the messages, RFC 8446 sections 4.1 and 4.2")]
pub enum HelloPart {
    ClientRandom,
    ServerRandom,
    SessionId,
    Version,
    /// As much of the list as `tune.ssl.capture-buffer-size` keeps, like those below.
    Ciphers,
    /// The whole list.
    AllCiphers,
    Extensions,
    Groups,
    PointFormats,
    SupportedVersions,
    SignatureAlgorithms,
}

/// First objections to the peer's certificates, as OpenSSL numbers them; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlsObjections {
    /// About its own (`ssl_c_err`).
    pub certificate: u32,
    /// About those above it (`ssl_c_ca_err`).
    pub authorities: u32,
    /// Where that one stands, 1 for the issuer of its own (`ssl_c_ca_err_depth`).
    pub depth: u32,
}

/// Why a handshake failed, as OpenSSL has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsFailure {
    /// The packed error (`ssl_fc_err`).
    pub number: u32,
    /// Its reason, as in `error:0A000086:SSL routines::certificate verify failed` (`ssl_fc_err_str`).
    pub reason: &'static str,
}
