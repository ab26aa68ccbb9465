//! Addresses as `bind`, `server`, `log` and the like write them (section 2.9 of the manual).
//!
//! Owns the syntax: prefixes, brackets, ports and port ranges.  Leaves to its callers which forms they accept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// What stands before the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Nothing or `*`: every local address (IPv4), or the client's destination for servers.
    Any,
    /// An address.
    Ip(IpAddr),
    /// A name to resolve.
    Name(String),
    /// `unix@path` or a path that starts with a slash.
    Unix(PathBuf),
    /// `abns@name`, `abnsz@name`
    Abstract(Vec<u8>),
    /// `fd@N`
    Fd(i32),
    /// `sockpair@N`
    Sockpair(i32),
    /// `rhttp@` and what follows.
    Reverse(String),
}

/// What stands after the colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Nothing.
    Absent,
    /// One port.
    Fixed(u16),
    /// `80-90`
    Range(u16, u16),
    /// `+10`, `-10`: relative to the client's destination port.
    Offset(i32),
}

/// Stream or datagram socket, when a prefix says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, unix stream.
    Stream,
    /// UDP, unix datagram.
    Datagram,
}

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Before the port.
    pub host: Host,
    /// After the colon.
    pub port: Port,
    /// Forced socket type.
    pub transport: Option<Transport>,
    /// `ipv4@` (or `tcp4@`, `udp4@`): `Some(false)`; `ipv6@`: `Some(true)`.
    pub v6: Option<bool>,
}

/// Words that an address follows, and how many words it stands behind them.
const BEFORE_ADDRESS: &[(&str, usize)] = &[
    ("bind", 1),
    ("dispatch", 1),
    ("log", 1),
    ("mailer", 2),
    ("nameserver", 2),
    ("peer", 2),
    ("server", 2),
    ("server-template", 3),
    ("source", 1),
];

/// Which word of a line is an address.
pub(crate) fn position(keyword: &[u8]) -> Option<usize> {
    BEFORE_ADDRESS.iter().find(|(known, _)| known.as_bytes() == keyword).map(|(_, at)| *at)
}

/// Replaces `$NAME` and `${NAME}`: addresses know variables outside of double quotes too, and unknown ones are
/// empty. None when there are none.
pub(crate) fn expand<'v>(text: &[u8], value: impl Fn(&[u8]) -> Option<&'v [u8]>) -> Option<Vec<u8>> {
    let mut parts = text.split(|byte| *byte == b'$');
    let mut expanded = parts.next()?.to_vec();
    let mut found = false;
    for part in parts {
        found = true;
        let (name_on, braced) = part.strip_prefix(b"{").map_or((part, false), |inside| (inside, true));
        let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = name_on.iter().position(|byte| !in_name(byte)).unwrap_or(name_on.len());
        let (name, mut rest) = name_on.split_at(length);
        if braced {
            rest = rest.strip_prefix(b"}").unwrap_or(rest);
        }
        expanded.extend_from_slice(value(name).unwrap_or_default());
        expanded.extend_from_slice(rest);
    }
    found.then_some(expanded)
}

/// Longest path of a unix socket, bytes: `sun_path` less room for a suffix while the socket is replaced.
const LONGEST_UNIX_PATH: usize = 97;

/// Parses an address.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse(text: &str) -> Result<Address, String> {
    let mut rest = text;
    let mut transport = None;
    if let Some(tail) = rest.strip_prefix("stream+") {
        (transport, rest) = (Some(Transport::Stream), tail);
    } else if let Some(tail) = rest.strip_prefix("dgram+") {
        (transport, rest) = (Some(Transport::Datagram), tail);
    } else if rest.starts_with("quic+") || rest.starts_with("quic4@") || rest.starts_with("quic6@") {
        return Err(format!("QUIC addresses such as '{text}' are not implemented yet"));
    }
    if rest.starts_with('/') {
        return unix(rest, transport);
    }
    let Some((prefix, tail)) = rest.split_once('@') else { return inet(rest, transport, None) };
    let (forced, v6) = match prefix {
        "unix" => return unix(tail, transport),
        "uxst" => return unix(tail, Some(Transport::Stream)),
        "uxdg" => return unix(tail, Some(Transport::Datagram)),
        "abns" | "abnsz" => return Ok(plain(Host::Abstract(abstract_name(prefix, tail)), transport)),
        "fd" => return Ok(plain(Host::Fd(descriptor(tail)?), transport)),
        "sockpair" => return Ok(plain(Host::Sockpair(descriptor(tail)?), transport)),
        "rhttp" | "rev" => return Ok(plain(Host::Reverse(tail.to_owned()), transport)),
        "ip" => (transport, None),
        "ipv4" => (transport, Some(false)),
        "ipv6" => (transport, Some(true)),
        "tcp" => (Some(Transport::Stream), None),
        "tcp4" => (Some(Transport::Stream), Some(false)),
        "tcp6" => (Some(Transport::Stream), Some(true)),
        "udp" => (Some(Transport::Datagram), None),
        "udp4" => (Some(Transport::Datagram), Some(false)),
        "udp6" => (Some(Transport::Datagram), Some(true)),
        "mptcp" | "mptcp4" | "mptcp6" => {
            return Err(format!("multipath TCP addresses such as '{text}' are not implemented yet"));
        }
        _ => return Err(format!("unknown address prefix '{prefix}@'")),
    };
    inet(tail, forced, v6)
}

/// The name in the abstract name space; `abnsz@` names end in a zero byte.
fn abstract_name(prefix: &str, name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    if prefix == "abnsz" {
        bytes.push(0);
    }
    bytes
}

fn plain(host: Host, transport: Option<Transport>) -> Address {
    Address { host, port: Port::Absent, transport, v6: None }
}

fn unix(path: &str, transport: Option<Transport>) -> Result<Address, String> {
    if path.is_empty() {
        return Err("the unix socket's path is empty".into());
    }
    if path.len() > LONGEST_UNIX_PATH {
        return Err(format!("the unix socket's path is longer than {LONGEST_UNIX_PATH} characters"));
    }
    Ok(plain(Host::Unix(PathBuf::from(path)), transport))
}

fn descriptor(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|n| *n >= 0);
    number.ok_or_else(|| format!("'{text}' is not a file descriptor's number"))
}

fn inet(text: &str, transport: Option<Transport>, v6: Option<bool>) -> Result<Address, String> {
    let (host, port) = split_port(text)?;
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host = match inner {
        Some(inner) => {
            Host::Ip(IpAddr::V6(inner.parse().map_err(|_| format!("'{inner}' is not an IPv6 address"))?))
        }
        None => plain_host(host, v6)?,
    };
    match (&host, v6) {
        (Host::Ip(IpAddr::V6(ip)), Some(false)) => Err(format!("'{ip}' is not an IPv4 address")),
        (Host::Ip(IpAddr::V4(ip)), Some(true)) => Err(format!("'{ip}' is not an IPv6 address")),
        _ => Ok(Address { host, port, transport, v6 }),
    }
}

fn plain_host(host: &str, v6: Option<bool>) -> Result<Host, String> {
    match (host, v6) {
        ("" | "*", Some(true)) => Ok(Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED))),
        ("" | "*", _) => Ok(Host::Any),
        _ => match host.parse() {
            Ok(ip) => Ok(Host::Ip(ip)),
            Err(_) if is_name(host) => Ok(Host::Name(host.to_owned())),
            Err(_) => Err(format!("'{host}' is neither an address nor a host name")),
        },
    }
}

/// Characters of host names, underscores of SRV records included; digits and dots alone are a mistyped address.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    text.bytes().all(allowed) && !text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Splits at the last colon that is not inside brackets; an IPv6 address without brackets ends at its last colon.
fn split_port(text: &str) -> Result<(&str, Port), String> {
    let Some(colon) = text.rfind(':').filter(|at| !text[*at..].contains(']')) else {
        return Ok((text, Port::Absent));
    };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    if port.is_empty() {
        return Ok((host, Port::Absent));
    }
    let number =
        |digits: &str| digits.parse::<u16>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    let wrong =
        || format!("'{port}' is not a port: 0 to 65535, a range 80-90, or an offset +10 was expected");
    if let Some(offset) = port.strip_prefix('+') {
        return Ok((host, Port::Offset(i32::from(number(offset).ok_or_else(wrong)?))));
    }
    if let Some(offset) = port.strip_prefix('-') {
        return Ok((host, Port::Offset(-i32::from(number(offset).ok_or_else(wrong)?))));
    }
    if let Some((low, high)) = port.split_once('-') {
        let (low, high) = number(low).zip(number(high)).ok_or_else(wrong)?;
        if low > high {
            return Err(format!("the port range '{port}' ends before it starts"));
        }
        return Ok((host, Port::Range(low, high)));
    }
    Ok((host, Port::Fixed(number(port).ok_or_else(wrong)?)))
}

impl Address {
    /// The address to listen on or connect to, where the host is one (`*` is every IPv4 address).
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Any => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            Host::Ip(ip) => Some(*ip),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, host: Host, port: Port| {
            let address = parse(text).unwrap();
            assert_eq!((address.host, address.port), (host, port), "{text}");
        };
        let ip = |text: &str| Host::Ip(text.parse().unwrap());
        check("*:80", Host::Any, Port::Fixed(80));
        check(":80", Host::Any, Port::Fixed(80));
        check(":::80", ip("::"), Port::Fixed(80));
        check("[::1]:80", ip("::1"), Port::Fixed(80));
        check("[::1]", ip("::1"), Port::Absent);
        check("::1:80", ip("::1"), Port::Fixed(80));
        check("127.0.0.1:80-90", ip("127.0.0.1"), Port::Range(80, 90));
        check("127.0.0.1", ip("127.0.0.1"), Port::Absent);
        check("10.0.0.1:+1000", ip("10.0.0.1"), Port::Offset(1000));
        check("10.0.0.1:-1000", ip("10.0.0.1"), Port::Offset(-1000));
        check("ipv4@10.0.0.1:1", ip("10.0.0.1"), Port::Fixed(1));
        check("ipv6@:1", ip("::"), Port::Fixed(1));
        check("tcp@h:1", Host::Name("h".into()), Port::Fixed(1));
        check("stream+fd@3", Host::Fd(3), Port::Absent);
        check("fd@3", Host::Fd(3), Port::Absent);
        check("unix@a/b", Host::Unix("a/b".into()), Port::Absent);
        check("/run/x", Host::Unix("/run/x".into()), Port::Absent);
        check("abns@x", Host::Abstract(b"x".to_vec()), Port::Absent);
        check("rhttp@", Host::Reverse(String::new()), Port::Absent);
        check("rhttp@be/s", Host::Reverse("be/s".into()), Port::Absent);
        check("example.com:443", Host::Name("example.com".into()), Port::Fixed(443));
        check("_http._tcp.x.org", Host::Name("_http._tcp.x.org".into()), Port::Absent);
    }

    #[test]
    fn addresses_that_are_none() {
        let check = |text: &str, expected: &str| {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        };
        check("1.2.3.4:99999", "not a port");
        check("1.2.3.4:90-80", "ends before");
        check("1.2.3:80", "neither");
        check("quic4@:443", "not implemented yet");
        check("foo@x", "unknown address prefix");
        check("fd@x", "not a file descriptor");
        check("ipv4@[::1]:1", "not an IPv4");
        check("a b:80", "neither");
        check(&format!("unix@/{}", "x".repeat(98)), "longer than");
    }

    #[test]
    fn variables_in_addresses() {
        let check = |text: &str, expected: Option<&str>| {
            let value = |name: &[u8]| (name == b"A").then_some(&b"::1"[..]);
            let expanded = expand(text.as_bytes(), value);
            assert_eq!(expanded.as_deref(), expected.map(str::as_bytes), "{text}");
        };
        check("127.0.0.1:80", None);
        check("${A}:80", Some("::1:80"));
        check("[$A]:80", Some("[::1]:80"));
        check("${unknown}:${unknown_too}", Some(":"));
        check("${A", Some("::1"));
        check("$", Some(""));
        check("$$A$", Some("::1"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            expand(text.as_bytes(), |_| None);
            prop_assert!(parse(&text).is_ok() || parse(&text).is_err());
        }
    }
}
