//! The PROXY protocol, versions 1 and 2: the addresses of a connection told by the proxy before.
//!
//! Owns the header's bytes in both directions.  Leaves to the caller from whom one is accepted,
//! when one is sent, and what the addresses are used for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest version 1 line, CR LF included (section 2.1).
pub const MAX_V1: usize = 107;

/// Longest version 2 header that is accepted: it has to fit in one receive buffer.
pub const MAX_V2: usize = 16 * 1024;

/// Longest unique ID (section 2.2.5).
pub const MAX_UNIQUE_ID: usize = 128;

/// Longest authority: that of a host name.
pub const MAX_AUTHORITY: usize = 255;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_V2: usize = 16;

/// Types of the extensions (section 2.2).
#[allow(missing_docs, reason = "named as in the specification")]
pub mod tlv_type {
    pub const ALPN: u8 = 0x01;
    pub const AUTHORITY: u8 = 0x02;
    pub const CRC32C: u8 = 0x03;
    pub const NOOP: u8 = 0x04;
    pub const UNIQUE_ID: u8 = 0x05;
    pub const SSL: u8 = 0x20;
    pub const SSL_VERSION: u8 = 0x21;
    pub const SSL_CN: u8 = 0x22;
    pub const SSL_CIPHER: u8 = 0x23;
    pub const SSL_SIG_ALG: u8 = 0x24;
    pub const SSL_KEY_ALG: u8 = 0x25;
    pub const SSL_GROUP: u8 = 0x26;
    pub const SSL_SIG_SCHEME: u8 = 0x27;
    pub const SSL_CLIENT_CERT: u8 = 0x28;
    pub const NETNS: u8 = 0x30;
}

/// The client connected over TLS.
pub const CLIENT_SSL: u8 = 0x01;
/// The client sent a certificate on this connection.
pub const CLIENT_CERT_CONN: u8 = 0x02;
/// The client sent a certificate at least once in this TLS session.
pub const CLIENT_CERT_SESS: u8 = 0x04;

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Command {
    /// The proxy's own, such as a health check: the real addresses apply.
    Local,
    /// A client's.
    #[default]
    Proxy,
}

/// The two ends of the connection that is spoken for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Addresses {
    /// Not told: the real addresses apply.
    #[default]
    Unspecified,
    /// TCP over IPv4 or IPv6.
    Tcp {
        /// The client.
        source: SocketAddr,
        /// What it connected to.
        destination: SocketAddr,
    },
    /// Unix sockets, by path; at most 108 bytes each.
    Unix {
        /// The client.
        source: Vec<u8>,
        /// What it connected to.
        destination: Vec<u8>,
    },
}

impl Addresses {
    /// Source and destination of an IP connection.
    #[must_use]
    pub fn ip(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Self::Tcp { source, destination } => Some((*source, *destination)),
            Self::Unspecified | Self::Unix { .. } => None,
        }
    }
}

/// A received header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// 1 or 2.
    pub version: u8,
    /// Whose connection it is.
    pub command: Command,
    /// Its ends.
    pub addresses: Addresses,
    /// The extensions as received, valid by construction.
    tlvs: Vec<u8>,
}

/// Extensions one after the other; stops at the first malformed one.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[kind, high, low], rest) = self.rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        self.rest = rest;
        Some((kind, value))
    }
}

/// The TLS part of a header.
#[derive(Clone, Debug)]
pub struct Ssl<'a> {
    /// Bits `CLIENT_SSL`, `CLIENT_CERT_CONN`, `CLIENT_CERT_SESS`.
    pub client: u8,
    /// Zero when the client's certificate was verified.
    pub verify: u32,
    sub: &'a [u8],
}

impl<'a> Ssl<'a> {
    /// A text within, by its type.
    #[must_use]
    pub fn sub(&self, kind: u8) -> Option<&'a [u8]> {
        Tlvs { rest: self.sub }.find(|&(k, _)| k == kind).map(|(_, value)| value)
    }
}

impl Header {
    /// All extensions in order.
    #[must_use]
    pub fn tlvs(&self) -> Tlvs<'_> {
        Tlvs { rest: &self.tlvs }
    }

    /// Value of the first extension of a type.
    #[must_use]
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        self.tlvs().find(|&(k, _)| k == kind).map(|(_, value)| value)
    }

    /// The application protocol.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tlv(tlv_type::ALPN)
    }

    /// The host name the client asked for (SNI).
    #[must_use]
    pub fn authority(&self) -> Option<&[u8]> {
        self.tlv(tlv_type::AUTHORITY)
    }

    /// The connection's unique ID.
    #[must_use]
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.tlv(tlv_type::UNIQUE_ID)
    }

    /// The TLS part.
    #[must_use]
    pub fn ssl(&self) -> Option<Ssl<'_>> {
        let (&[client, a, b, c, d], sub) = self.tlv(tlv_type::SSL)?.split_first_chunk()?;
        Some(Ssl { client, verify: u32::from_be_bytes([a, b, c, d]), sub })
    }
}

/// Why a header is refused; the connection is to be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Neither version's signature.
    NotProxy,
    /// A malformed version 1 line.
    Line,
    /// A version other than 2 behind the binary signature.
    Version,
    /// An unknown command.
    Command,
    /// An unknown family or transport.
    Family,
    /// Fewer bytes than the addresses need.
    AddressLength,
    /// The header does not fit in [`MAX_V2`].
    TooLong,
    /// Extensions that do not end where the header ends.
    Tlv,
    /// The checksum is wrong.
    Checksum,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotProxy => "no PROXY protocol header",
            Self::Line => "malformed PROXY line",
            Self::Version => "unknown PROXY protocol version",
            Self::Command => "unknown PROXY protocol command",
            Self::Family => "unknown address family in the PROXY header",
            Self::AddressLength => "PROXY header too short for its addresses",
            Self::TooLong => "PROXY header too long",
            Self::Tlv => "malformed extension in the PROXY header",
            Self::Checksum => "wrong checksum in the PROXY header",
        })
    }
}

impl std::error::Error for Error {}

/// Reads a header and how many bytes it took.  `None`: the input ends before the header does.
///
/// # Errors
/// Everything that is not a valid header of either version.
pub fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    let common = |start: &[u8]| input.iter().zip(start).all(|(a, b)| a == b);
    if common(&SIGNATURE) && !input.is_empty() {
        return parse_v2(input);
    }
    if common(b"PROXY ") && !input.is_empty() {
        return parse_v1(input);
    }
    if input.is_empty() { Ok(None) } else { Err(Error::NotProxy) }
}

fn parse_v1(input: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    let window = &input[..input.len().min(MAX_V1)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() < MAX_V1 { Ok(None) } else { Err(Error::Line) };
    };
    let line = std::str::from_utf8(&window[..end]).map_err(|_| Error::Line)?;
    let addresses = parse_line(line).ok_or(Error::Line)?;
    let header = Header { version: 1, command: Command::Proxy, addresses, tlvs: Vec::new() };
    Ok(Some((header, end + 2)))
}

fn parse_line(line: &str) -> Option<Addresses> {
    let mut words = line.split(' ');
    words.next().filter(|&word| word == "PROXY")?;
    let family = words.next()?;
    if family == "UNKNOWN" {
        // Section 2.1: whatever follows is ignored.
        return Some(Addresses::Unspecified);
    }
    let (source, destination) = match family {
        "TCP4" => (
            IpAddr::V4(words.next()?.parse::<Ipv4Addr>().ok()?),
            IpAddr::V4(words.next()?.parse::<Ipv4Addr>().ok()?),
        ),
        "TCP6" => (
            IpAddr::V6(words.next()?.parse::<Ipv6Addr>().ok()?),
            IpAddr::V6(words.next()?.parse::<Ipv6Addr>().ok()?),
        ),
        _ => return None,
    };
    let source = SocketAddr::new(source, port(words.next()?)?);
    let destination = SocketAddr::new(destination, port(words.next()?)?);
    words.next().is_none().then_some(Addresses::Tcp { source, destination })
}

fn port(digits: &str) -> Option<u16> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn parse_v2(input: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    let Some(fixed) = input.first_chunk::<FIXED_V2>() else { return Ok(None) };
    if fixed[12] >> 4 != 2 {
        return Err(Error::Version);
    }
    let command = match fixed[12] & 0x0f {
        0 => Command::Local,
        1 => Command::Proxy,
        _ => return Err(Error::Command),
    };
    let len = FIXED_V2 + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if len > MAX_V2 {
        return Err(Error::TooLong);
    }
    let Some(whole) = input.get(..len) else { return Ok(None) };
    let mut header = Header { version: 2, command, ..Header::default() };
    if command == Command::Proxy {
        let (addresses, tlvs) = parse_addresses(fixed[13], &whole[FIXED_V2..])?;
        check_tlvs(whole, tlvs)?;
        header.addresses = addresses;
        header.tlvs = tlvs.to_vec();
    }
    Ok(Some((header, len)))
}

/// Addresses, and the extensions behind them. What came over a stream speaks for a stream: datagrams (0x12, 0x22, 0x32)
/// are refused.
fn parse_addresses(family: u8, block: &[u8]) -> Result<(Addresses, &[u8]), Error> {
    let ends = match family {
        0x00 => return Ok((Addresses::Unspecified, b"")),
        0x11 => {
            let (&bytes, rest) = block.split_first_chunk::<12>().ok_or(Error::AddressLength)?;
            let [a, b, c, d, e, f, g, h, sh, sl, dh, dl] = bytes;
            let source = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([sh, sl])));
            let destination = SocketAddr::from(([e, f, g, h], u16::from_be_bytes([dh, dl])));
            (source, destination, rest)
        }
        0x21 => {
            let (source, rest) = block.split_first_chunk::<16>().ok_or(Error::AddressLength)?;
            let (destination, rest) = rest.split_first_chunk::<16>().ok_or(Error::AddressLength)?;
            let (&[sh, sl, dh, dl], rest) = rest.split_first_chunk().ok_or(Error::AddressLength)?;
            let source = SocketAddr::from((*source, u16::from_be_bytes([sh, sl])));
            let destination = SocketAddr::from((*destination, u16::from_be_bytes([dh, dl])));
            (source, destination, rest)
        }
        0x31 => {
            let (source, rest) = block.split_first_chunk::<108>().ok_or(Error::AddressLength)?;
            let (destination, rest) = rest.split_first_chunk::<108>().ok_or(Error::AddressLength)?;
            return Ok((Addresses::Unix { source: path(source), destination: path(destination) }, rest));
        }
        _ => return Err(Error::Family),
    };
    let (source, destination, rest) = ends;
    Ok((Addresses::Tcp { source, destination }, rest))
}

/// A path without its padding; an abstract name keeps the NUL it starts with.
fn path(bytes: &[u8; 108]) -> Vec<u8> {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    bytes[..end].to_vec()
}

/// The extensions fill their room exactly, keep their bounds, and the checksum holds.
fn check_tlvs(whole: &[u8], tlvs: &[u8]) -> Result<(), Error> {
    let mut all = Tlvs { rest: tlvs };
    while let Some((kind, value)) = all.next() {
        match kind {
            tlv_type::CRC32C => {
                let sent = u32::from_be_bytes(value.try_into().map_err(|_| Error::Tlv)?);
                let at = whole.len() - all.rest.len() - value.len();
                let sum =
                    Crc32c::default().update(&whole[..at]).update(&[0; 4]).update(&whole[at + 4..]).finish();
                if sum != sent {
                    return Err(Error::Checksum);
                }
            }
            tlv_type::UNIQUE_ID if value.len() > MAX_UNIQUE_ID => return Err(Error::Tlv),
            tlv_type::AUTHORITY if value.len() > MAX_AUTHORITY => return Err(Error::Tlv),
            tlv_type::SSL if value.len() < 5 => return Err(Error::Tlv),
            _ => {}
        }
    }
    if all.rest.is_empty() { Ok(()) } else { Err(Error::Tlv) }
}

/// CRC-32C (RFC 9260 appendix A), a byte at a time: headers are short and rare.
#[derive(Clone, Copy)]
struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32c {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut sum = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
                bit += 1;
            }
            table[byte] = sum;
            byte += 1;
        }
        table
    };

    fn update(self, bytes: &[u8]) -> Self {
        let step = |sum: u32, &byte: &u8| Self::TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
        Self(bytes.iter().fold(self.0, step))
    }

    fn finish(self) -> u32 {
        !self.0
    }
}

/// The TLS part of a header to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct SslInfo<'a> {
    /// Bits `CLIENT_SSL`, `CLIENT_CERT_CONN`, `CLIENT_CERT_SESS`.
    pub client: u8,
    /// Zero when the client's certificate was verified.
    pub verify: u32,
    /// `TLSv1.3`; left out when empty, as are the others.
    pub version: &'a [u8],
    /// `cert-cn`: Common Name of the client's certificate.
    pub common_name: &'a [u8],
    /// `ssl-cipher`.
    pub cipher: &'a [u8],
    /// `cert-sig`.
    pub signature_algorithm: &'a [u8],
    /// `cert-key`.
    pub key_algorithm: &'a [u8],
}

/// What `proxy-v2-options` and `set-proxy-v2-tlv-fmt` add to a version 2 header.
#[derive(Clone, Copy, Debug, Default)]
pub struct V2Options<'a> {
    /// The application protocol of the client's connection.
    pub alpn: Option<&'a [u8]>,
    /// `authority`: the host name the client asked for.
    pub authority: Option<&'a [u8]>,
    /// `unique-id`.
    pub unique_id: Option<&'a [u8]>,
    /// `ssl` and the options about the certificate.
    pub ssl: Option<SslInfo<'a>>,
    /// Name of the network namespace.
    pub netns: Option<&'a [u8]>,
    /// `set-proxy-v2-tlv-fmt`: types and values.
    pub custom: &'a [(u8, Vec<u8>)],
    /// `crc32c`.
    pub crc32c: bool,
}

/// Writes a version 1 line.  What it has no words for is `UNKNOWN`; of mixed families, IPv4 is mapped to IPv6.
pub fn write_v1(addresses: &Addresses, out: &mut Vec<u8>) {
    let line = match addresses {
        Addresses::Tcp { source, destination } => {
            let (source, destination, family) = same_family(*source, *destination);
            let (source_ip, destination_ip) = (source.ip(), destination.ip());
            let (source_port, destination_port) = (source.port(), destination.port());
            format!("PROXY {family} {source_ip} {destination_ip} {source_port} {destination_port}\r\n")
        }
        Addresses::Unspecified | Addresses::Unix { .. } => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

fn same_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr, &'static str) {
    if source.is_ipv4() && destination.is_ipv4() {
        return (source, destination, "TCP4");
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
        IpAddr::V6(_) => address,
    };
    (mapped(source), mapped(destination), "TCP6")
}

/// Writes a version 2 header.
///
/// # Errors
/// `TooLong` when the extensions do not fit; nothing is written then.
pub fn write_v2(
    command: Command,
    addresses: &Addresses,
    options: &V2Options<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut header = SIGNATURE.to_vec();
    header.push(0x20 | u8::from(command == Command::Proxy));
    header.extend_from_slice(&[0; 3]);
    // Section 2.2: a LOCAL connection presents no address.
    if command == Command::Proxy {
        header[13] = write_addresses(addresses, &mut header);
    }
    let mut checksum = None;
    // Without addresses, receivers could not tell where the extensions start.
    if header[13] != 0 {
        for (kind, value) in options.custom {
            write_tlv(*kind, value, &mut header)?;
        }
        if options.crc32c {
            write_tlv(tlv_type::CRC32C, &[0; 4], &mut header)?;
            checksum = Some(header.len() - 4);
        }
        let texts = [
            (tlv_type::ALPN, options.alpn),
            (tlv_type::AUTHORITY, options.authority),
            (tlv_type::UNIQUE_ID, options.unique_id),
            (tlv_type::NETNS, options.netns),
        ];
        for (kind, value) in texts {
            if let Some(value) = value {
                write_tlv(kind, value, &mut header)?;
            }
        }
        if let Some(ssl) = &options.ssl {
            write_ssl(ssl, &mut header)?;
        }
    }
    if header.len() > MAX_V2 {
        return Err(Error::TooLong);
    }
    let len = u16::try_from(header.len() - FIXED_V2).map_err(|_| Error::TooLong)?;
    header[14..16].copy_from_slice(&len.to_be_bytes());
    if let Some(at) = checksum {
        let sum = Crc32c::default().update(&header).finish();
        header[at..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
    out.extend_from_slice(&header);
    Ok(())
}

/// Appends the address block; returns the family byte.
fn write_addresses(addresses: &Addresses, header: &mut Vec<u8>) -> u8 {
    let (source, destination) = match addresses {
        Addresses::Unspecified => return 0,
        Addresses::Unix { source, destination } => {
            for path in [source, destination] {
                let mut padded = [0; 108];
                let len = path.len().min(padded.len());
                padded[..len].copy_from_slice(&path[..len]);
                header.extend_from_slice(&padded);
            }
            return 0x31;
        }
        Addresses::Tcp { source, destination } => (source, destination),
    };
    let (source, destination, family) = same_family(*source, *destination);
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(ip) => header.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => header.extend_from_slice(&ip.octets()),
        }
    }
    header.extend_from_slice(&source.port().to_be_bytes());
    header.extend_from_slice(&destination.port().to_be_bytes());
    if family == "TCP4" { 0x11 } else { 0x21 }
}

fn write_tlv(kind: u8, value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let len = u16::try_from(value.len()).map_err(|_| Error::TooLong)?;
    out.push(kind);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

fn write_ssl(ssl: &SslInfo<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut value = vec![ssl.client];
    value.extend_from_slice(&ssl.verify.to_be_bytes());
    let texts = [
        (tlv_type::SSL_VERSION, ssl.version),
        (tlv_type::SSL_CN, ssl.common_name),
        (tlv_type::SSL_KEY_ALG, ssl.key_algorithm),
        (tlv_type::SSL_SIG_ALG, ssl.signature_algorithm),
        (tlv_type::SSL_CIPHER, ssl.cipher),
    ];
    for (kind, text) in texts {
        if !text.is_empty() {
            write_tlv(kind, text, &mut value)?;
        }
    }
    write_tlv(tlv_type::SSL, &value, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(source: &str, destination: &str) -> Addresses {
        Addresses::Tcp { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn version_1() {
        let check = |input: &str, expected: Result<Option<(Addresses, usize)>, Error>| {
            let result =
                parse(input.as_bytes()).map(|header| header.map(|(header, len)| (header.addresses, len)));
            assert_eq!(result, expected, "{input:?}");
        };
        check("", Ok(None));
        check("PRO", Ok(None));
        check("PROXY TCP4 1.2.3.4 5.6.7.8 1 65535\r", Ok(None));
        check("PROXY TCP4 1.2.3.4 5.6.7.8 1 65535\r\nGET", Ok(Some((tcp("1.2.3.4:1", "5.6.7.8:65535"), 36))));
        check("PROXY TCP6 ::1 2001:db8::2 1 2\r\n", Ok(Some((tcp("[::1]:1", "[2001:db8::2]:2"), 32))));
        check("PROXY UNKNOWN\r\n", Ok(Some((Addresses::Unspecified, 15))));
        check("PROXY UNKNOWN x y\r\n", Ok(Some((Addresses::Unspecified, 19))));
        for bad in [
            "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
            "PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
        ] {
            check(bad, Err(Error::Line));
        }
        check(&format!("PROXY TCP4 {}", "1".repeat(100)), Err(Error::Line));
        check("GET / HTTP/1.1\r\n", Err(Error::NotProxy));
        check("PROXX", Err(Error::NotProxy));
    }

    /// A header for TCP over IPv4 with raw extensions and a length of its own.
    fn v2(len: u16, tlvs: &[u8]) -> Vec<u8> {
        let addresses = [0x7f, 0, 0, 1, 0x7f, 0, 0, 1, 0, 42, 5, 57];
        [&SIGNATURE[..], &[0x21, 0x11], &len.to_be_bytes(), &addresses, tlvs].concat()
    }

    #[test]
    fn version_2() {
        let (header, len) = parse(&v2(20, b"\x02\0\x0512345\x02\0\x0554321")).unwrap().unwrap();
        assert_eq!((header.authority(), len), (Some(&b"12345"[..]), 36));
        assert_eq!(header.addresses, tcp("127.0.0.1:42", "127.0.0.1:1337"));

        let check = |input: &[u8], expected: Error| assert_eq!(parse(input).unwrap_err(), expected);
        // The extension is longer, then shorter, than its room.
        check(&v2(20, b"\x02\0\x0a1234512345"), Error::Tlv);
        check(&v2(20, b"\x02\0\x041234G"), Error::Tlv);
        check(&v2(11, b""), Error::AddressLength);
        check(&v2(u16::MAX, b""), Error::TooLong);
        check(&v2(19, b"\x03\0\x041234"), Error::Checksum);
        check(&v2(17, b"\x03\0\x0212"), Error::Tlv);
        let patched = |at: usize, byte: u8| {
            let mut input = v2(12, b"");
            input[at] = byte;
            input
        };
        check(&patched(12, 0x31), Error::Version);
        check(&patched(12, 0x22), Error::Command);
        check(&patched(13, 0x41), Error::Family);
        check(&patched(13, 0x13), Error::Family);
        for datagram in [0x12, 0x22, 0x32] {
            check(&patched(13, datagram), Error::Family);
        }
        check(&patched(3, b'x'), Error::NotProxy);
        let (local, len) = parse(&patched(12, 0x20)).unwrap().unwrap();
        assert_eq!((local.command, local.addresses, len), (Command::Local, Addresses::Unspecified, 28));
    }

    #[test]
    fn checksum_of_the_well_known_digits() {
        assert_eq!(Crc32c::default().update(b"123456789").finish(), 0xe306_9283);
    }

    #[test]
    fn all_options_come_back() {
        let ssl = SslInfo {
            client: 7,
            verify: 1,
            version: b"TLSv1.3",
            common_name: b"cn",
            cipher: b"c",
            ..SslInfo::default()
        };
        let custom = [(0xe1, b"foo".to_vec()), (0xe2, Vec::new())];
        let options = V2Options {
            alpn: Some(b"h2"),
            authority: Some(b"host"),
            unique_id: Some(b"id"),
            ssl: Some(ssl),
            netns: Some(b"ns"),
            custom: &custom,
            crc32c: true,
        };
        for addresses in [
            tcp("1.2.3.4:5", "6.7.8.9:10"),
            tcp("[::1]:5", "[::2]:10"),
            Addresses::Unix { source: b"/a".to_vec(), destination: b"\0b".to_vec() },
        ] {
            let mut out = Vec::new();
            write_v2(Command::Proxy, &addresses, &options, &mut out).unwrap();
            assert_eq!(parse(&out[..out.len() - 1]), Ok(None));
            let (header, len) = parse(&out).unwrap().unwrap();
            assert_eq!((len, &header.addresses), (out.len(), &addresses));
            assert_eq!((header.alpn(), header.unique_id()), (Some(&b"h2"[..]), Some(&b"id"[..])));
            assert_eq!((header.tlv(0xe1), header.tlv(0xe2)), (Some(&b"foo"[..]), Some(&b""[..])));
            let ssl = header.ssl().unwrap();
            assert_eq!((ssl.client, ssl.verify, ssl.sub(tlv_type::SSL_CN)), (7, 1, Some(&b"cn"[..])));
            assert_eq!(ssl.sub(tlv_type::SSL_KEY_ALG), None);
            let last = out.len() - 1;
            out[last] ^= 1;
            assert_eq!(parse(&out), Err(Error::Checksum));
        }
    }

    #[test]
    fn lines_as_written() {
        let check = |addresses: &Addresses, expected: &str| {
            let mut out = Vec::new();
            write_v1(addresses, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check(&tcp("1.2.3.4:5", "6.7.8.9:10"), "PROXY TCP4 1.2.3.4 6.7.8.9 5 10\r\n");
        check(&tcp("[::1]:5", "6.7.8.9:10"), "PROXY TCP6 ::1 ::ffff:6.7.8.9 5 10\r\n");
        check(&Addresses::Unspecified, "PROXY UNKNOWN\r\n");
    }

    #[test]
    fn local_says_nothing_more() {
        let mut out = Vec::new();
        let options = V2Options { unique_id: Some(b"x"), ..V2Options::default() };
        write_v2(Command::Local, &tcp("1.2.3.4:5", "6.7.8.9:10"), &options, &mut out).unwrap();
        assert_eq!(out, [&SIGNATURE[..], &[0x20, 0, 0, 0]].concat());
    }

    proptest! {
        #[test]
        fn never_panics_and_a_prefix_never_knows_more(
            body in prop::collection::vec(any::<u8>(), 0..300), binary: bool, len in 0u16..300, family in 0u8..0x34,
        ) {
            let start = if binary {
                [&SIGNATURE[..], &[0x21, family], &len.to_be_bytes()].concat()
            } else {
                b"PROXY TCP4 ".to_vec()
            };
            let input = [start, body].concat();
            let whole = parse(&input);
            for end in 0..input.len() {
                match parse(&input[..end]) {
                    Ok(None) => {}
                    known => {
                        prop_assert_eq!(&known, &whole);
                        break;
                    }
                }
            }
        }
    }
}
