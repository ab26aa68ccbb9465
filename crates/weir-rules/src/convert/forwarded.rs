//! RFC 7239: the Forwarded field and its nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Txn;
use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::reply::is_token;
use crate::value::{Type, Value};

const FIELD: K = K::OneOf(&NAMES);
const NAMES: [&str; 4] = ["proto", "host", "for", "by"];

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "rfc7239_field",
        args(1, &[FIELD]),
        Type::Str,
        Type::Str,
        "A parameter of a Forwarded value.",
        field,
    )
    .examples(&[
        ("str('proto=https;host=\"haproxy.org:80\"'),rfc7239_field(host)", Some("haproxy.org:80")),
        ("str(proto=https),rfc7239_field(for)", None),
    ]),
    converter(
        "rfc7239_is_valid",
        NONE,
        Type::Str,
        Type::Bool,
        "Whether a Forwarded value is valid.",
        is_valid,
    )
    .examples(&[
        ("str(for=127.0.0.1;proto=http),rfc7239_is_valid", Some("1")),
        ("str(proto=custom),rfc7239_is_valid", Some("0")),
    ]),
    converter(
        "rfc7239_n2nn",
        NONE,
        Type::Str,
        Type::Any,
        "Name of a node: an address, unknown or _obfuscated.",
        node_name,
    )
    .examples(&[
        ("str(127.0.0.1:9999),rfc7239_n2nn", Some("127.0.0.1")),
        ("str([ab:cd::1]:99),rfc7239_n2nn", Some("ab:cd::1")),
        ("str(_name:_port),rfc7239_n2nn", Some("_name")),
    ]),
    converter(
        "rfc7239_n2np",
        NONE,
        Type::Str,
        Type::Any,
        "Port of a node: a number or _obfuscated.",
        node_port,
    )
    .examples(&[
        ("str(127.0.0.1:9999),rfc7239_n2np", Some("9999")),
        ("str(_name:_port),rfc7239_n2np", Some("_port")),
    ]),
    converter(
        "rfc7239_nn",
        NONE,
        Type::Any,
        Type::Str,
        "An address or string as the name of a node.",
        to_node_name,
    )
    .examples(&[
        ("ipv6(::1),rfc7239_nn", Some("[::1]")),
        ("str(test),rfc7239_nn", Some("_test")),
        ("str(),rfc7239_nn", Some("unknown")),
    ]),
    converter(
        "rfc7239_np",
        NONE,
        Type::Any,
        Type::Str,
        "A number or string as the port of a node.",
        to_node_port,
    )
    .examples(&[("int(12),rfc7239_np", Some("12")), ("str(test),rfc7239_np", Some("_test"))]),
];

/// Splits a node into its name and port.
fn split_node(node: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let end = match node.first()? {
        b'[' => memchr::memchr(b']', node)? + 1,
        _ => memchr::memchr(b':', node).unwrap_or(node.len()),
    };
    match node.get(end) {
        None => Some((node, None)),
        Some(b':') => Some((&node[..end], Some(&node[end + 1..]))),
        Some(_) => None,
    }
}

/// RFC 7239 section 6.3: an underscore and at least one character.
fn is_obfuscated(text: &[u8]) -> bool {
    text.len() > 1 && text[0] == b'_' && text.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
}

/// A node's name.
enum Name<'a> {
    Ip(IpAddr),
    Text(&'a [u8]),
}

fn parse_name(name: &[u8]) -> Option<Name<'_>> {
    if name == b"unknown" || is_obfuscated(name) {
        return Some(Name::Text(name));
    }
    let text = std::str::from_utf8(name).ok()?;
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(|ip| Name::Ip(ip.into())),
        None => text.parse::<Ipv4Addr>().ok().map(|ip| Name::Ip(ip.into())),
    }
}

fn is_port(port: &[u8]) -> bool {
    let number = std::str::from_utf8(port).ok().and_then(|p| p.parse::<u16>().ok());
    (number.is_some() && port.iter().all(u8::is_ascii_digit)) || is_obfuscated(port)
}

fn is_node(node: &[u8]) -> bool {
    split_node(node).is_some_and(|(name, port)| parse_name(name).is_some() && port.is_none_or(is_port))
}

fn is_host(host: &[u8]) -> bool {
    let end = super::http::host_end(host);
    let port_is_good =
        host.get(end + 1..).is_none_or(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit));
    let name = &host[..end];
    !name.is_empty()
        && port_is_good
        && name.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]%".contains(b))
}

/// The parameters of one element: name's place and value without quotes; `None` when it is not valid.
fn parameters(text: &[u8]) -> Option<Vec<(usize, Vec<u8>)>> {
    let mut list: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let equals = memchr::memchr(b'=', rest)?;
        let at = NAMES.iter().position(|n| rest[..equals].eq_ignore_ascii_case(n.as_bytes()))?;
        let (value, after) = parameter_value(&rest[equals + 1..])?;
        let good = match NAMES[at] {
            "proto" => value == b"http" || value == b"https",
            "host" => is_host(&value),
            _ => is_node(&value),
        };
        // Each parameter stands once in an element (RFC 7239 section 4).
        if !good || list.iter().any(|(known, _)| *known == at) {
            return None;
        }
        list.push((at, value));
        rest = match after.split_first() {
            None => after,
            Some((b';', more)) if !more.is_empty() => more,
            Some(_) => return None,
        };
    }
    Some(list)
}

/// A token or quoted string, and what follows.
fn parameter_value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|b| !is_token(*b)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    loop {
        let (b, more) = rest.split_first()?;
        rest = more;
        match b {
            b'"' => return Some((value, rest)),
            b'\\' => {
                let (escaped, more) = rest.split_first()?;
                value.push(*escaped);
                rest = more;
            }
            other => value.push(*other),
        }
    }
}

fn field<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Choice(wanted)) = args.get(0) else { return None };
    let list = parameters(&value.into_bytes())?;
    list.into_iter().find(|(at, _)| at == &usize::from(*wanted)).map(|(_, value)| Value::owned(value))
}

fn is_valid<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let valid = parameters(&value.into_bytes()).is_some_and(|list| !list.is_empty());
    Some(Value::Bool(valid))
}

fn node_name<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let node = value.into_bytes();
    let (name, _) = split_node(&node)?;
    Some(match parse_name(name)? {
        Name::Ip(ip) => Value::Ip(ip),
        Name::Text(text) => Value::owned(text.to_vec()),
    })
}

fn node_port<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let node = value.into_bytes();
    let port = split_node(&node)?.1.filter(|p| is_port(p))?;
    match std::str::from_utf8(port).ok()?.parse() {
        Ok(n) => Some(Value::Int(n)),
        Err(_) => Some(Value::owned(port.to_vec())),
    }
}

fn obfuscated(text: &[u8]) -> Option<Vec<u8>> {
    let name = [b"_", text].concat();
    is_obfuscated(&name).then_some(name)
}

/// A sample as the name of a node (RFC 7239 section 6): an address, `unknown` for nothing, or an obfuscated name.
#[must_use]
pub fn forwarded_node_name(value: &Value<'_>) -> Option<Vec<u8>> {
    match value {
        Value::Ip(IpAddr::V6(ip)) => Some(format!("[{ip}]").into_bytes()),
        Value::Ip(ip) => Some(ip.to_string().into_bytes()),
        other if other.is_empty() => Some(b"unknown".to_vec()),
        other => obfuscated(&other.clone().into_bytes()),
    }
}

/// A sample as the port of a node: a number or an obfuscated name.
#[must_use]
pub fn forwarded_node_port(value: &Value<'_>) -> Option<Vec<u8>> {
    match value {
        Value::Int(n) => u16::try_from(*n).ok().map(|n| n.to_string().into_bytes()),
        other => obfuscated(&other.clone().into_bytes()),
    }
}

fn to_node_name<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    forwarded_node_name(&value).map(Value::owned)
}

fn to_node_port<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    forwarded_node_port(&value).map(Value::owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |text: &str, expected: bool| {
            assert_eq!(parameters(text.as_bytes()).is_some_and(|l| !l.is_empty()), expected, "{text}");
        };
        check("for=\"unknown:132\";host=\"[::1]:65535\";by=\"_obfs:_port\";proto=https", true);
        check("for=\"127.0.0.1\";host=v.test", true);
        check("fore=\"unknown:132\"", false);
        check("proto=http;proto=http", false);
        check("\"", false);
        check("by=[::1]", false);
        check("by=\"[::1]\"", true);
        check("by=\"[::1]:\"", false);
        check("by=\"[::1]:3\"", true);
        check("for=127.9.0.1", true);
        check("for=127.9.0.1;", false);
        check("", false);
    }
}
