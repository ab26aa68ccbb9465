//! A TLS client, and the certificate that it trusts.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};

/// What a client starts from that trusts a new certificate for localhost, and a file with that and its key; whoever
/// asked for it removes it.
pub(crate) fn with_certificate(name: &str) -> (ClientConfig, PathBuf) {
    let file = std::env::temp_dir().join(format!("weir-proxy-{}-{name}.pem", std::process::id()));
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(&file, format!("{}{}", certificate.pem(), key.serialize_pem())).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    (builder.unwrap().with_root_certificates(trusted).with_no_client_auth(), file)
}
