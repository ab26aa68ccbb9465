//! Headers of a packet, as `fc_saved_syn` gives them (section 7.3.1, `eth.*`, `ip.*`, `tcp.*`): Ethernet (IEEE 802.3, 802.1Q),
//! IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Txn;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{ConvertFn, Converter, converter};
use crate::value::{Type, Value};

/// A converter of a header's bytes to a number, to bytes or to an address.
const fn of(name: &'static str, output: Type, doc: &'static str, eval: ConvertFn) -> Converter {
    converter(name, NONE, Type::Bin, output, doc, eval)
}

pub(crate) static CONVERTERS: &[Converter] = &[
    of("eth.data", Type::Bin, "What follows the Ethernet header.", ethernet)
        .examples(&[("bin(0001020304050607080900AB81000007080045),eth.data,hex", Some("45"))]),
    of("eth.dst", Type::Bin, "Destination address of the Ethernet header.", ethernet)
        .examples(&[("bin(0001020304050607080900AB0800),eth.dst,hex", Some("000102030405"))]),
    of("eth.hdr", Type::Bin, "The Ethernet header, VLANs included.", ethernet).examples(&[(
        "bin(0001020304050607080900AB080045),eth.hdr,hex",
        Some("0001020304050607080900AB0800"),
    )]),
    of("eth.proto", Type::Int, "Protocol number of the Ethernet header.", ethernet)
        .examples(&[("bin(0001020304050607080900AB810000070800),eth.proto", Some("2048"))]),
    of("eth.src", Type::Bin, "Source address of the Ethernet header.", ethernet)
        .examples(&[("bin(0001020304050607080900AB0800),eth.src,hex", Some("0607080900AB"))]),
    of("eth.vlan", Type::Int, "The last VLAN of the Ethernet header.", ethernet).examples(&[
        ("bin(0001020304050607080900AB810000070800),eth.vlan", Some("7")),
        ("bin(0001020304050607080900AB0800),eth.vlan", None),
    ]),
    of("ip.data", Type::Bin, "What follows the IP header.", ip).examples(&[(EXAMPLE_IP_DATA, Some("0016"))]),
    of("ip.df", Type::Int, "1 when the packet must not be fragmented.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F000002),ip.df", Some("1"))]),
    of("ip.dst", Type::Ip, "Destination address of the IP header.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F000002),ip.dst", Some("127.0.0.2"))]),
    converter(
        "ip.fp",
        args(0, &[K::Int]),
        Type::Bin,
        Type::Bin,
        "What stays the same between connections of one host: IP and TCP headers in eight bytes and more.",
        fingerprint,
    )
    .examples(&[(EXAMPLE_FINGERPRINT, Some("005060FFFF05B401"))]),
    of("ip.hdr", Type::Bin, "The IP header with its options.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F0000020016),ip.hdr,hex,length", Some("40"))]),
    of("ip.proto", Type::Int, "Protocol number of the IP header.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F000002),ip.proto", Some("6"))]),
    of("ip.src", Type::Ip, "Source address of the IP header.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F000002),ip.src", Some("127.0.0.1"))]),
    of("ip.tos", Type::Int, "Type of service or traffic class.", ip)
        .examples(&[("bin(4510002800004000400600007F0000017F000002),ip.tos", Some("16"))]),
    of("ip.ttl", Type::Int, "Time to live or hop limit.", ip)
        .examples(&[("bin(4500002800004000400600007F0000017F000002),ip.ttl", Some("64"))]),
    of("ip.ver", Type::Int, "Version of IP.", ip).examples(&[
        ("bin(4500002800004000400600007F0000017F000002),ip.ver", Some("4")),
        ("bin(45),ip.ver", None),
    ]),
    of("tcp.dst", Type::Int, "Destination port of the TCP header.", tcp)
        .examples(&[(EXAMPLE_DST, Some("80"))]),
    of("tcp.flags", Type::Int, "Flags of the TCP header.", tcp)
        .examples(&[("bin(0016005000000001000000005002FFFF00000000),tcp.flags", Some("2"))]),
    of("tcp.options.mss", Type::Int, "Maximum segment size among the options, or 0.", tcp)
        .examples(&[("bin(0016005000000001000000006002FFFF00000000020405B4),tcp.options.mss", Some("1460"))]),
    of("tcp.options.sack", Type::Int, "1 when selective acknowledgements are permitted.", tcp)
        .examples(&[("bin(0016005000000001000000006002FFFF0000000001010402),tcp.options.sack", Some("1"))]),
    of("tcp.options.tsopt", Type::Int, "1 when there is a time stamp option.", tcp)
        .examples(&[("bin(0016005000000001000000005002FFFF00000000),tcp.options.tsopt", Some("0"))]),
    of("tcp.options.tsval", Type::Int, "The sender's time stamp.", tcp).examples(&[
        (
            "bin(0016005000000001000000008002FFFF000000000101080A0000000500000000),tcp.options.tsval",
            Some("5"),
        ),
        ("bin(0016005000000001000000005002FFFF00000000),tcp.options.tsval", None),
    ]),
    of("tcp.options.wscale", Type::Int, "Window scaling among the options, or 0.", tcp)
        .examples(&[("bin(0016005000000001000000006002FFFF0000000001030307),tcp.options.wscale", Some("7"))]),
    of("tcp.options.wsopt", Type::Int, "1 when there is a window scale option.", tcp)
        .examples(&[("bin(0016005000000001000000006002FFFF0000000001030307),tcp.options.wsopt", Some("1"))]),
    of("tcp.options_list", Type::Bin, "Kinds of the options in their order.", tcp).examples(&[(
        "bin(0016005000000001000000007002FFFF00000000020405B401030307),tcp.options_list,hex",
        Some("020103"),
    )]),
    of("tcp.seq", Type::Int, "Sequence number of the TCP header.", tcp)
        .examples(&[("bin(0016005000000001000000005002FFFF00000000),tcp.seq", Some("1"))]),
    of("tcp.src", Type::Int, "Source port of the TCP header.", tcp)
        .examples(&[("bin(0016005000000001000000005002FFFF00000000),tcp.src", Some("22"))]),
    of("tcp.win", Type::Int, "Window of the TCP header, not scaled.", tcp)
        .examples(&[("bin(0016005000000001000000005002FFFF00000000),tcp.win", Some("65535"))]),
];

const EXAMPLE_IP_DATA: &str = "bin(4500002800004000400600007F0000017F0000020016),ip.data,hex";
const EXAMPLE_DST: &str = "bin(0016005000000001000000005002FFFF00000000),tcp.dst";
/// An IPv4 packet with DF and a TTL of 64, and a SYN with one option.
const EXAMPLE_FINGERPRINT: &str =
    "bin(4500002C00004000400600007F0000017F0000020016005000000001000000006002FFFF00000000020405B4),ip.fp,hex";

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn int<'a>(number: impl Into<i64>) -> Value<'a> {
    Value::Int(number.into())
}

fn bin<'a>(bytes: &[u8]) -> Value<'a> {
    Value::Bin(bytes.to_vec().into())
}

/// Ethernet types that stand for a VLAN's tag (IEEE 802.1Q, 802.1ad).
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

fn ethernet<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let frame = value.into_bytes();
    let (mut at, mut vlan) = (12, None);
    let mut proto = be16(&frame, at)?;
    while VLAN_TAGS.contains(&proto) {
        vlan = Some(be16(&frame, at + 2)? & 0xfff);
        at += 4;
        proto = be16(&frame, at)?;
    }
    let (header, data) = frame.split_at_checked(at + 2)?;
    Some(match args.variant {
        "eth.data" => bin(data),
        "eth.dst" => bin(&header[..6]),
        "eth.src" => bin(&header[6..12]),
        "eth.hdr" => bin(header),
        "eth.vlan" => int(vlan?),
        _ => int(proto),
    })
}

/// What is read of an IP header.
struct Ip<'a> {
    version: u8,
    tos: u8,
    dont_fragment: bool,
    ttl: u8,
    proto: u8,
    has_options: bool,
    src: IpAddr,
    dst: IpAddr,
    header: &'a [u8],
    data: &'a [u8],
}

impl<'a> Ip<'a> {
    fn parse(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::v4(packet),
            6 => Self::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &'a [u8]) -> Option<Self> {
        let length = usize::from(packet[0] & 0xf) * 4;
        let (header, data) = packet.split_at_checked(length).filter(|_| length >= 20)?;
        let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(be32(header, at)?)));
        Some(Self {
            version: 4,
            tos: header[1],
            dont_fragment: header[6] & 0x40 != 0,
            ttl: header[8],
            proto: header[9],
            has_options: length > 20,
            src: address(12)?,
            dst: address(16)?,
            header,
            data,
        })
    }

    fn v6(packet: &'a [u8]) -> Option<Self> {
        let address = |at: usize| {
            let bytes: [u8; 16] = *packet.get(at..)?.first_chunk()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        };
        let (src, dst) = (address(8)?, address(24)?);
        let (mut proto, mut length) = (packet[6], 40);
        // Hop-by-hop options, routing, destination options and mobility are as long as their second byte says, in
        // units of 8 bytes beyond the first; a fragment's header is 8 bytes long.
        while matches!(proto, 0 | 43 | 44 | 60 | 135) {
            let extension = packet.get(length..length + 2)?;
            length += if proto == 44 { 8 } else { (usize::from(extension[1]) + 1) * 8 };
            proto = extension[0];
        }
        let (header, data) = packet.split_at_checked(length)?;
        Some(Self {
            version: 6,
            tos: (be16(header, 0)? >> 4) as u8,
            dont_fragment: true,
            ttl: header[7],
            proto,
            has_options: length > 40,
            src,
            dst,
            header,
            data,
        })
    }
}

fn ip<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let packet = value.into_bytes();
    let ip = Ip::parse(&packet)?;
    Some(match args.variant {
        "ip.data" => bin(ip.data),
        "ip.df" => int(u8::from(ip.dont_fragment)),
        "ip.dst" => Value::Ip(ip.dst),
        "ip.hdr" => bin(ip.header),
        "ip.proto" => int(ip.proto),
        "ip.src" => Value::Ip(ip.src),
        "ip.tos" => int(ip.tos),
        "ip.ttl" => int(ip.ttl),
        _ => int(ip.version),
    })
}

/// Kinds of TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOTHING: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const TIME_STAMP: u8 = 8;
}

/// A TCP header whose options are all there.
struct Tcp<'a> {
    header: &'a [u8],
    data: &'a [u8],
}

impl<'a> Tcp<'a> {
    fn parse(segment: &'a [u8]) -> Option<Self> {
        let length = usize::from(segment.get(12)? >> 4) * 4;
        let (header, data) = segment.split_at_checked(length).filter(|_| length >= 20)?;
        Some(Self { header, data })
    }

    fn flags(&self) -> u8 {
        self.header[13]
    }

    /// Each option's kind and value.
    fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = &self.header[20..];
        std::iter::from_fn(move || {
            let (&kind, after) = rest.split_first()?;
            let value = match kind {
                kind::END => return None,
                kind::NOTHING => &[][..],
                _ => after.get(1..usize::from(*after.first()?).checked_sub(1)?)?,
            };
            rest = if kind == kind::NOTHING { after } else { &after[value.len() + 1..] };
            Some((kind, value))
        })
    }

    fn option(&self, kind: u8) -> Option<&'a [u8]> {
        self.options().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    fn mss(&self) -> u16 {
        self.option(kind::MSS).and_then(|value| be16(value, 0)).unwrap_or(0)
    }

    fn window_scale(&self) -> Option<u8> {
        self.option(kind::WINDOW_SCALE)?.first().copied()
    }

    fn kinds(&self) -> Vec<u8> {
        self.options().map(|(kind, _)| kind).collect()
    }
}

fn tcp<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let segment = value.into_bytes();
    let tcp = Tcp::parse(&segment)?;
    let has = |kind| int(u8::from(tcp.option(kind).is_some()));
    Some(match args.variant {
        "tcp.dst" => int(be16(tcp.header, 2)?),
        "tcp.flags" => int(tcp.flags()),
        "tcp.options.mss" => int(tcp.mss()),
        "tcp.options.sack" => has(kind::SACK_PERMITTED),
        "tcp.options.tsopt" => has(kind::TIME_STAMP),
        "tcp.options.tsval" => int(be32(tcp.option(kind::TIME_STAMP)?, 0)?),
        "tcp.options.wscale" => int(tcp.window_scale().unwrap_or(0)),
        "tcp.options.wsopt" => has(kind::WINDOW_SCALE),
        "tcp.options_list" => Value::Bin(tcp.kinds().into()),
        "tcp.seq" => int(be32(tcp.header, 4)?),
        "tcp.src" => int(be16(tcp.header, 0)?),
        _ => int(be16(tcp.header, 14)?),
    })
}

/// What `ip.fp`'s argument asks for beyond the first eight bytes.
mod more {
    pub(super) const TTL: i64 = 1;
    pub(super) const OPTIONS: i64 = 2;
    pub(super) const SOURCE: i64 = 4;
}

/// The manual's converter `ip.fp` has the layout.
fn fingerprint<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let packet = value.into_bytes();
    let ip = Ip::parse(&packet)?;
    let tcp = Tcp::parse(ip.data)?;
    let mode = args.int(0).unwrap_or(0);
    let distance = match ip.ttl {
        0..=32 => 0,
        33..=64 => 1,
        65..=128 => 2,
        _ => 3,
    };
    let bit = |set: bool, at: u8| u8::from(set) << at;
    let kinds = tcp.kinds();
    let options = kinds.iter().fold(0, |bits, kind| match kind {
        2..=8 => bits | 1 << (kind - 2),
        9.. => bits | 0x80,
        _ => bits,
    });
    let mut out = vec![
        ip.tos,
        bit(ip.version == 6, 7)
            | bit(ip.dont_fragment, 6)
            | distance << 4
            | bit(ip.has_options, 3)
            | bit(!tcp.data.is_empty(), 2)
            | bit(tcp.flags() & 0x80 != 0, 1)
            | bit(tcp.flags() & 0x40 != 0, 0),
        (tcp.header[12] & 0xf0) | tcp.window_scale().map_or(0, |scale| scale.min(14) + 1),
    ];
    out.extend_from_slice(&tcp.header[14..16]);
    out.extend_from_slice(&tcp.mss().to_be_bytes());
    out.push(options);
    if mode & more::TTL != 0 {
        out.push(ip.ttl);
    }
    if mode & more::OPTIONS != 0 {
        out.extend_from_slice(&kinds);
    }
    if mode & more::SOURCE != 0 {
        match ip.src {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    Some(Value::Bin(out.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // A header that says more than there is.
        #[test]
        fn any_bytes_are_a_packet_or_none(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            start in prop_oneof![Just(0x45_u8), Just(0x4f), Just(0x60), any::<u8>()],
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = start;
            }
            if let Some(ip) = Ip::parse(&bytes) {
                prop_assert_eq!(ip.header.len() + ip.data.len(), bytes.len());
                if let Some(tcp) = Tcp::parse(ip.data) {
                    prop_assert!(tcp.kinds().len() <= 40 && tcp.header.len() <= 60);
                }
            }
            if let Some(tcp) = Tcp::parse(&bytes) {
                tcp.options().for_each(|(kind, value)| assert!(kind != kind::END && value.len() < 40));
            }
        }
    }
}
