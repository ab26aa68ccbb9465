//! NetScaler's client IP insertion: the IP and TCP headers of a client's packet before the first data.
//!
//! Owns reading them (Citrix CTX205670, and the specification that comes with HAProxy): the magic number, lengths, then
//! both headers as the client sent them. The legacy form has one length, the standard form two and a type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header: those of IP and TCP with all their options fit several times.
pub const MAX_HEADER: usize = 1024;

const TYPE: u16 = 1;
const TCP: u8 = 6;
const IPV6_HEADER: usize = 40;

/// The client, and what it connected to.
pub type Ends = (SocketAddr, SocketAddr);

/// What was received does not begin with such a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Reads a header: the client, what it connected to, and the header's length. `None` asks for more.
///
/// # Errors
/// Another magic number, a length that does not hold both headers, or no TCP.
pub fn parse(input: &[u8], magic: u32) -> Result<Option<(Ends, usize)>, Malformed> {
    // As much of the magic number as there is must fit, so that another protocol is refused at once.
    let magic = magic.to_be_bytes();
    let shown = input.len().min(magic.len());
    if input[..shown] != magic[..shown] {
        return Err(Malformed);
    }
    let Some(first) = input.get(8) else { return Ok(None) };
    let (start, length) = match first >> 4 {
        // The IP header's version follows the only length.
        4 | 6 => (8, number(&input[4..8])),
        _ => {
            let Some(standard) = input.get(8..12) else { return Ok(None) };
            if number(&standard[..2]) != usize::from(TYPE) {
                return Err(Malformed);
            }
            (12, number(&standard[2..]))
        }
    };
    let end = start + length;
    if end > MAX_HEADER {
        return Err(Malformed);
    }
    let Some(headers) = input.get(start..end) else { return Ok(None) };
    addresses(headers).map(|addresses| Some((addresses, end))).ok_or(Malformed)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Source and destination of an IP header (RFC 791 section 3.1, RFC 8200 section 3) and the TCP header behind it.
fn addresses(headers: &[u8]) -> Option<Ends> {
    let (protocol, source, destination, tcp): (u8, IpAddr, IpAddr, _) = match headers.first()? >> 4 {
        4 => {
            let length = usize::from(headers[0] & 0x0f) * 4;
            let address =
                |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(headers.get(at..at + 4)?).ok()?));
            (*headers.get(9)?, address(12)?.into(), address(16)?.into(), headers.get(length.max(20)..)?)
        }
        6 => {
            let address =
                |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(headers.get(at..at + 16)?).ok()?));
            (*headers.get(6)?, address(8)?.into(), address(24)?.into(), headers.get(IPV6_HEADER..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
    (protocol == TCP).then_some(())?;
    Some((SocketAddr::new(source, port(0)?), SocketAddr::new(destination, port(2)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: u32 = 0x0102_0304;

    /// An IPv4 header with `options` words of options, or an IPv6 header, and the start of a TCP header.
    fn headers(version: u8, options: u8, protocol: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        if version == 4 {
            bytes.extend([0x45 + options, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
            bytes.extend([192, 0, 2, 1, 198, 51, 100, 2]);
            bytes.extend(vec![0; usize::from(options) * 4]);
        } else {
            bytes.extend([0x60, 0, 0, 0, 0, 20, protocol, 64]);
            bytes.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
            bytes.extend("2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
        }
        bytes.extend([0x30, 0x39, 0x01, 0xbb]);
        bytes.extend([0; 16]);
        bytes
    }

    fn legacy(headers: &[u8]) -> Vec<u8> {
        [&MAGIC.to_be_bytes()[..], &(headers.len() as u32).to_be_bytes(), headers].concat()
    }

    fn standard(headers: &[u8]) -> Vec<u8> {
        let total = (headers.len() as u32 + 12).to_be_bytes();
        let length = (headers.len() as u16).to_be_bytes();
        [&MAGIC.to_be_bytes()[..], &total, &[0, 1], &length, headers].concat()
    }

    #[test]
    fn both_forms_of_both_families() {
        let check = |bytes: Vec<u8>, source: &str, destination: &str| {
            let addresses = (source.parse().unwrap(), destination.parse().unwrap());
            let input = [&bytes[..], b"GET /"].concat();
            assert_eq!(parse(&input, MAGIC), Ok(Some((addresses, bytes.len()))));
            // Cut anywhere, it waits for the rest.
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end], MAGIC), Ok(None), "{end}");
            }
        };
        let (v4, v6) =
            (("192.0.2.1:12345", "198.51.100.2:443"), ("[2001:db8::1]:12345", "[2001:db8::2]:443"));
        check(legacy(&headers(4, 0, TCP)), v4.0, v4.1);
        check(legacy(&headers(4, 3, TCP)), v4.0, v4.1);
        check(legacy(&headers(6, 0, TCP)), v6.0, v6.1);
        check(standard(&headers(4, 0, TCP)), v4.0, v4.1);
        check(standard(&headers(6, 0, TCP)), v6.0, v6.1);
    }

    #[test]
    fn what_is_refused() {
        let check = |bytes: &[u8]| assert_eq!(parse(bytes, MAGIC), Err(Malformed), "{bytes:?}");
        check(b"G");
        check(b"GET / HTTP/1.1");
        check(&legacy(&headers(4, 0, 17)));
        check(&legacy(&headers(4, 0, TCP)[..21]));
        check(&legacy(&headers(6, 0, TCP)[..42]));
        check(&legacy(&[&headers(4, 0, TCP)[..], &[0; MAX_HEADER]].concat()));
        let mut other = standard(&headers(4, 0, TCP));
        other[9] = 2;
        check(&other);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_fine(bytes: Vec<u8>) {
            let input = [&MAGIC.to_be_bytes()[..], &bytes].concat();
            if let Ok(Some((_, used))) = parse(&input, MAGIC) {
                assert!(used <= input.len());
            }
        }
    }
}
