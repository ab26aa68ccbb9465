//! `option forwarded`: the Forwarded field of RFC 7239.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::model::Forwarded;
use weir_http::FieldName;
use weir_rules::{Expr, Txn, Value, forwarded_node_name, forwarded_node_port};

/// The field's value for a transaction.
pub(crate) fn render(option: &Forwarded, txn: &Txn) -> Vec<u8> {
    let mut out = Vec::new();
    if option.proto {
        let proto: &[u8] = if txn.session.tls.is_some() { b"https" } else { b"http" };
        pair(&mut out, b"proto", proto);
    }
    if let Some(expr) = &option.host {
        let host = match expr {
            Some(expr) => value_of(expr, txn),
            None => txn.request.fields.first(FieldName::Host).map(<[u8]>::to_vec),
        };
        if let Some(host) = host {
            // Always quoted: most hosts that matter have a port or are addresses, and parsers expect it.
            pair(&mut out, b"host", &quoted_string(&host));
        }
    }
    node(&mut out, b"by", &option.by, &option.by_port, txn.dst(), txn);
    node(&mut out, b"for", &option.r#for, &option.for_port, txn.src(), txn);
    out
}

fn pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if !out.is_empty() {
        out.push(b';');
    }
    out.extend_from_slice(name);
    out.push(b'=');
    out.extend_from_slice(value);
}

fn value_of(expr: &Arc<Expr>, txn: &Txn) -> Option<Vec<u8>> {
    expr.eval(txn).map(|value| value.into_bytes().into_owned())
}

/// A node (RFC 7239 section 6): address and port, IPv6 in brackets, quoted where it has to be.
fn node(
    out: &mut Vec<u8>,
    name: &[u8],
    host: &Option<Option<Arc<Expr>>>,
    port: &Option<Option<Arc<Expr>>>,
    address: Option<SocketAddr>,
    txn: &Txn,
) {
    if host.is_none() && port.is_none() {
        return;
    }
    let name_part = match host {
        Some(Some(expr)) => expr.eval(txn).and_then(|value| forwarded_node_name(&value)),
        Some(None) => address.and_then(|a| forwarded_node_name(&Value::Ip(a.ip().to_canonical()))),
        None => None,
    };
    let mut value = name_part.unwrap_or_else(|| b"unknown".to_vec());
    let port = match port {
        Some(Some(expr)) => expr.eval(txn).and_then(|value| forwarded_node_port(&value)),
        Some(None) => address.map(|a| a.port().to_string().into_bytes()),
        None => None,
    };
    if let Some(port) = port {
        value.push(b':');
        value.extend_from_slice(&port);
    }
    pair(out, name, &quoted(&value));
}

/// A token as it is, anything else as a quoted string (RFC 9110 section 5.6).
fn quoted(value: &[u8]) -> Vec<u8> {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if value.iter().all(is_token) {
        return value.to_vec();
    }
    quoted_string(value)
}

fn quoted_string(value: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    out
}
