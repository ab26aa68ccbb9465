//! The PROXY protocol header sent to servers with `send-proxy` and `send-proxy-v2`.

use weir_config::model::SendProxy;
use weir_http::FieldName;
use weir_http::proxy_protocol::{self as wire, Addresses, Command, SslInfo, V2Options};
use weir_rules::Txn;
use weir_rules::data::certificate;

/// The header for a transaction's connection.
pub(crate) fn build(send: &SendProxy, txn: &Txn) -> Vec<u8> {
    let addresses = match (txn.src(), txn.dst()) {
        (Some(source), Some(destination)) => Addresses::Tcp { source, destination },
        _ => Addresses::Unspecified,
    };
    let mut out = Vec::new();
    if !send.v2 {
        wire::write_v1(&addresses, &mut out);
        return out;
    }
    let custom: Vec<(u8, Vec<u8>)> = send
        .tlvs
        .iter()
        .map(|(kind, format)| {
            let mut value = Vec::new();
            format.render(txn, &mut value);
            (*kind, value)
        })
        .collect();
    let tls = txn.session.tls.as_deref();
    let host = txn.request.fields.first(FieldName::Host);
    let authority = tls.and_then(|t| t.sni()).map(str::as_bytes).or(host);
    let fact = |wanted: bool, of: &dyn Fn() -> Option<String>| {
        if wanted { of().unwrap_or_default().into_bytes() } else { Vec::new() }
    };
    let client = || tls.and_then(|t| t.peer_certificate());
    let own = || tls.and_then(|t| t.own_certificate());
    let common_name = fact(send.cert_cn, &|| certificate::common_name(client()?));
    let key_algorithm = fact(send.cert_key, &|| certificate::key_kind(own()?));
    let signature_algorithm = fact(send.cert_sig, &|| certificate::signature_algorithm(own()?));
    let ssl = tls.filter(|_| send.ssl).map(|tls| SslInfo {
        client: wire::CLIENT_SSL
            | if tls.peer_certificate().is_some() {
                wire::CLIENT_CERT_CONN | wire::CLIENT_CERT_SESS
            } else {
                0
            },
        verify: tls.verify_error(),
        version: tls.version().as_bytes(),
        cipher: if send.ssl_cipher { tls.cipher().as_bytes() } else { b"" },
        common_name: &common_name,
        key_algorithm: &key_algorithm,
        signature_algorithm: &signature_algorithm,
    });
    let options = V2Options {
        alpn: tls.and_then(|t| t.alpn()),
        authority: authority.filter(|_| send.authority),
        unique_id: if send.unique_id { txn.unique_id() } else { None },
        ssl,
        custom: &custom,
        crc32c: send.crc32c,
        netns: None,
    };
    if wire::write_v2(Command::Proxy, &addresses, &options, &mut out).is_err() {
        // The extensions do not fit: the addresses alone always do.
        let _fits = wire::write_v2(Command::Proxy, &addresses, &V2Options::default(), &mut out);
    }
    out
}
