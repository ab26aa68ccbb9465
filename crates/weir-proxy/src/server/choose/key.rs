//! `balance`: what is hashed, taken from the transaction.

use std::net::{IpAddr, SocketAddr};

use weir_balance::{HashFunction, HashType, domain_only, url_param};
use weir_config::model::BalanceKey;
use weir_http::Method;
use weir_rules::{Txn, Value};

/// Hash of a transaction's key; `None` when it has none, or the algorithm needs none.
pub(crate) fn hash(key: &BalanceKey, hash_type: HashType, txn: &Txn) -> Option<u32> {
    match key {
        BalanceKey::None => None,
        BalanceKey::Source => match txn.src()?.ip().to_canonical() {
            IpAddr::V4(ip) => Some(hash_type.hash_source(&ip.octets())),
            IpAddr::V6(ip) => Some(hash_type.hash_source(&ip.octets())),
        },
        BalanceKey::Uri(key) => {
            let request = &txn.request;
            let uri = if key.path_only { request.path_and_query() } else { request.uri_bytes() };
            Some(hash_type.hash(key.key(uri)))
        }
        BalanceKey::UrlParam { name, check_post } => {
            let found = url_param(txn.request.query(), name);
            let posted = || match txn.request.method == Method::Post && *check_post > 0 {
                true => url_param(&txn.request_body, name),
                false => None,
            };
            found.or_else(posted).map(|value| hash_type.hash(value))
        }
        BalanceKey::Hdr { name, use_domain_only } => {
            let value = txn.request.fields.get(name)?;
            let value = value.split(|&byte| byte == b',').next()?.trim_ascii();
            Some(hash_type.hash(if *use_domain_only { domain_only(value) } else { value }))
        }
        BalanceKey::RdpCookie { name } => {
            rdp_cookie(&txn.request_body, name).map(|value| hash_type.hash(value))
        }
        BalanceKey::Expr(expr) => expr.eval(txn).map(|value| hash_value(hash_type, value)),
    }
}

/// A value is hashed in its binary form: numbers have eight bytes, addresses four or sixteen.
fn hash_value(hash_type: HashType, value: Value<'_>) -> u32 {
    match value {
        Value::Int(number) if hash_type.function == HashFunction::None => {
            hash_type.hash(number.to_string().as_bytes())
        }
        Value::Int(number) => hash_type.hash(&number.to_be_bytes()),
        Value::Bool(yes) => hash_type.hash(&i64::from(yes).to_be_bytes()),
        Value::Ip(IpAddr::V4(ip)) => hash_type.hash(&ip.octets()),
        Value::Ip(IpAddr::V6(ip)) => hash_type.hash(&ip.octets()),
        Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => hash_type.hash(&bytes),
    }
}

/// TPKT and X.224 headers before the cookie of a connection request (MS-RDPBCGR section 2.2.1.1).
const RDP_HEADERS: usize = 11;

/// The value of `Cookie: NAME=VALUE` in the first bytes of an RDP connection.
pub(crate) fn rdp_cookie<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (headers, rest) = bytes.split_at_checked(RDP_HEADERS)?;
    if headers[0] != 3 || headers[5] != 0xe0 {
        return None;
    }
    let cookie = rest.strip_prefix(b"Cookie:")?.trim_ascii_start();
    let line = &cookie[..cookie.windows(2).position(|pair| pair == b"\r\n")?];
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b"=")?;
    (found.eq_ignore_ascii_case(name) && !value.is_empty()).then_some(value)
}

/// The address in a cookie of a terminal server, `ADDRESS.PORT.0000`: both are decimal numbers in the
/// machine's (little-endian) order of octets that are meant big-endian.
pub(crate) fn rdp_address(value: &[u8]) -> Option<SocketAddr> {
    let mut parts = std::str::from_utf8(value).ok()?.split('.');
    let address: u32 = parts.next()?.parse().ok()?;
    let port: u16 = parts.next()?.parse().ok()?;
    Some(SocketAddr::from((address.to_le_bytes(), port.swap_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdp_cookies() {
        let check = |cookie: &str, expected: Option<&[u8]>| {
            let headers = b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00";
            let bytes = [&headers[..], cookie.as_bytes()].concat();
            assert_eq!(rdp_cookie(&bytes, b"mstshash"), expected, "{cookie:?}");
        };
        check("Cookie: mstshash=joe\r\n", Some(b"joe"));
        check("Cookie: MSTSHASH=joe\r\nmore", Some(b"joe"));
        check("Cookie: mstshash=joe", None);
        check("Cookie: mstshash=\r\n", None);
        check("Cookie: msts=1234567\r\n", None);
        check("", None);
        assert_eq!(rdp_cookie(b"\x03\x00", b"mstshash"), None);
    }

    #[test]
    fn rdp_addresses() {
        // 10.0.1.2:3389
        let expected = "10.0.1.2:3389".parse().ok();
        assert_eq!(rdp_address(b"33619978.15629.0000"), expected);
        assert_eq!(rdp_address(b"33619978"), None);
        assert_eq!(rdp_address(b"joe.1.2"), None);
    }

    #[test]
    fn values_are_hashed_in_binary() {
        let check = |hash_type, value: Value<'_>, expected: &[u8]| {
            assert_eq!(hash_value(hash_type, value), HashType::default().hash(expected));
        };
        let sdbm = HashType::default();
        check(sdbm, Value::Int(7), &[0, 0, 0, 0, 0, 0, 0, 7]);
        check(sdbm, Value::Bool(true), &[0, 0, 0, 0, 0, 0, 0, 1]);
        check(sdbm, Value::Ip([1, 2, 3, 4].into()), &[1, 2, 3, 4]);
        check(sdbm, Value::Str(b"abc".as_slice().into()), b"abc");
        let none = HashType { function: HashFunction::None, ..sdbm };
        assert_eq!(hash_value(none, Value::Int(42)), 42);
    }
}
