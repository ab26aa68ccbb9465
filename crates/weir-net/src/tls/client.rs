//! TLS to servers: from a server line's options to the configuration of its connections.
//!
//! Owns verification of the server, the certificate to show it, and resumption of sessions. The handshake
//! itself is left to rustls and `session`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{
    ClientSessionMemoryCache, ResolvesClientCert, Resumption, Tls12Resumption, UnbufferedClientConnection,
};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureScheme};

use super::algorithms::Algorithms;
use super::certificate::{Certificate, CertificateStore};
use super::info::KeepSecrets;
use super::record::MAX_PLAINTEXT_BYTES;
use super::server::TlsConfigError;
use super::session::Session;
use super::signing;
use super::verify::{self, ServerVerifier, no_name};

/// Names for which sessions are kept to be resumed; a server usually has one.
const REMEMBERED_NAMES: usize = 64;

/// The options of a server line that concern TLS.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Versions, cipher suites and groups.
    pub algorithms: Algorithms,
    /// Verify the server's certificate (`verify required`).
    pub verify: bool,
    /// Authorities for the server's certificate; the system's when none.
    pub ca_file: Option<PathBuf>,
    /// Revocation lists.
    pub crl_file: Option<PathBuf>,
    /// The name to look for in the certificate instead of the one asked for (`verifyhost`).
    pub verify_host: Option<String>,
    /// The certificate to show to the server (`crt`).
    pub certificate: Option<Arc<Certificate>>,
    /// Protocols for ALPN, the preferred first.
    pub alpn: Vec<Vec<u8>>,
    /// Never resume a session (`no-ssl-reuse`).
    pub no_resumption: bool,
    /// Resume without tickets (`no-tls-tickets`).
    pub no_tickets: bool,
    /// The longest record's plaintext in bytes.
    pub max_record_bytes: Option<usize>,
    /// Keep the hello messages with the connection's facts.
    pub keep_hello: bool,
    /// Keep the secrets with the connection's facts.
    pub keep_secrets: bool,
}

/// TLS of one server line, shared by all threads.
#[derive(Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    max_record_bytes: usize,
    keep_hello: bool,
}

impl TlsClient {
    /// Reads all files of a server line. Returns what was asked for in vain too.
    pub fn new(options: &ClientOptions) -> Result<(Arc<Self>, Vec<String>), TlsConfigError> {
        Self::with_store(options, &CertificateStore::default())
    }

    /// The same with files of authorities that may be known already, and may have been replaced.
    pub fn with_store(
        options: &ClientOptions,
        store: &CertificateStore,
    ) -> Result<(Arc<Self>, Vec<String>), TlsConfigError> {
        let mut warnings = Vec::new();
        let provider = Arc::new(options.algorithms.provider(&mut warnings)?);
        let versions = options.algorithms.versions(&mut warnings)?;
        let trust = options.verify.then(|| trust(options, store)).transpose()?;
        let schemes = options.algorithms.schemes(&mut warnings)?;
        let own_schemes = options.algorithms.client_schemes(&mut warnings)?;
        let verifier = ServerVerifier::new(&provider, trust, options.verify_host.clone(), schemes)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &options.certificate {
            Some(certificate) => {
                let certificate = Arc::clone(certificate);
                builder.with_client_cert_resolver(Arc::new(OwnCertificate { certificate, own_schemes }))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn.clone();
        config.resumption = if options.no_resumption {
            Resumption::disabled()
        } else {
            let tls12 = if options.no_tickets {
                Tls12Resumption::SessionIdOnly
            } else {
                Tls12Resumption::SessionIdOrTickets
            };
            Resumption::store(Arc::new(ClientSessionMemoryCache::new(REMEMBERED_NAMES)))
                .tls12_resumption(tls12)
        };
        // The record layer of this crate takes the keys over after the handshake.
        config.enable_secret_extraction = true;
        if options.keep_secrets {
            config.key_log = Arc::new(KeepSecrets);
        }
        let max_record_bytes = options.max_record_bytes.unwrap_or(MAX_PLAINTEXT_BYTES);
        let keep_hello = options.keep_hello;
        Ok((Arc::new(Self { config: Arc::new(config), max_record_bytes, keep_hello }), warnings))
    }

    /// A session that asks for `server_name`, or for nobody by name. `alpn` replaces the line's own list.
    pub(crate) fn session(&self, server_name: Option<&str>, alpn: Option<&[Vec<u8>]>) -> io::Result<Session> {
        let name = match server_name {
            None | Some("") => no_name(),
            Some(name) => ServerName::try_from(name.to_owned())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
        };
        let config = Arc::clone(&self.config);
        let connection = match alpn {
            None => UnbufferedClientConnection::new(config, name),
            Some(alpn) => UnbufferedClientConnection::new_with_alpn(config, name, alpn.to_vec()),
        };
        let connection = connection.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut session = Session::client(connection, self.max_record_bytes, self.keep_hello);
        if let Some(name) = server_name {
            session.info.set_server_name(name);
        }
        Ok(session)
    }
}

fn trust(
    options: &ClientOptions,
    store: &CertificateStore,
) -> Result<(RootCertStore, Vec<rustls::pki_types::CertificateRevocationListDer<'static>>), TlsConfigError> {
    let system = PathBuf::from("@system-ca");
    let file = options.ca_file.as_ref().unwrap_or(&system);
    let authorities = verify::load_authorities(file, &store.authorities)?;
    let revocations = match &options.crl_file {
        Some(file) => store.revocations.load(file)?.to_vec(),
        None => Vec::new(),
    };
    Ok((authorities, revocations))
}

/// Shows the server line's certificate, as it is at that moment.
#[derive(Debug)]
struct OwnCertificate {
    certificate: Arc<Certificate>,
    /// The only signatures to make (`client-sigalgs`).
    own_schemes: Option<Vec<SignatureScheme>>,
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let loaded = self.certificate.current();
        match &self.own_schemes {
            None => loaded.suits(schemes).then(|| Arc::clone(loaded.certified_key())),
            Some(own) => {
                let schemes = signing::both(own, schemes);
                loaded.suits(&schemes).then(|| signing::restricted(loaded.certified_key(), own))
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}
