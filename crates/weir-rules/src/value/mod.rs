//! Typed values on their way through an expression, and how one type becomes another.
//!
//! Owns the types of the manual's section 7.3 and their conversions; leaves where values come from to the fetches.

pub(crate) mod codec;
pub(crate) mod date;
pub mod hash;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A typed value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// `bool`
    Bool(bool),
    /// `sint`
    Int(i64),
    /// `ipv4`, `ipv6`
    Ip(IpAddr),
    /// `str`
    Str(Cow<'a, [u8]>),
    /// `bin`
    Bin(Cow<'a, [u8]>),
    /// `meth`
    Method(Cow<'a, [u8]>),
}

/// Type of a value, as fetches and converters declare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the type of the same name in the manual")]
pub enum Type {
    Any,
    Bool,
    Int,
    Ip,
    Str,
    Bin,
    Method,
}

impl Type {
    /// The type's name in the manual.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Ip => "ip",
            Self::Str => "string",
            Self::Bin => "binary",
            Self::Method => "method",
        }
    }

    /// Whether a value of this type can be made one of type `to`.
    #[must_use]
    pub fn converts_to(self, to: Self) -> bool {
        match self {
            Self::Any | Self::Str => true,
            Self::Bool => matches!(to, Self::Any | Self::Bool | Self::Int | Self::Str | Self::Bin),
            Self::Int | Self::Ip => to != Self::Method && (self == Self::Int || to != Self::Bool),
            Self::Bin | Self::Method => {
                matches!(to, Self::Any | Self::Str | Self::Bin | Self::Method)
            }
        }
    }
}

impl<'a> Value<'a> {
    /// Its type.
    #[must_use]
    pub fn kind(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Ip(_) => Type::Ip,
            Self::Str(_) => Type::Str,
            Self::Bin(_) => Type::Bin,
            Self::Method(_) => Type::Method,
        }
    }

    /// A string without a copy.
    pub(crate) fn text(bytes: &'a [u8]) -> Self {
        Self::Str(Cow::Borrowed(bytes))
    }

    /// A string that was made.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self::Str(Cow::Owned(bytes))
    }

    /// The value as bytes: strings as they are, numbers in decimal, addresses as text, booleans as `0` or `1`.
    #[must_use]
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        match self {
            Self::Str(b) | Self::Bin(b) | Self::Method(b) => b,
            Self::Bool(b) => Cow::Borrowed(if b { b"1" } else { b"0" }),
            Self::Int(n) => Cow::Owned(itoa::Buffer::new().format(n).as_bytes().to_vec()),
            Self::Ip(ip) => Cow::Owned(ip.to_string().into_bytes()),
        }
    }

    /// The value as a string: like [`Self::into_bytes`], but a block of bytes ends at its first zero.
    #[must_use]
    pub fn into_text(self) -> Cow<'a, [u8]> {
        match self {
            Self::Bin(bytes) => match memchr::memchr(0, &bytes) {
                None => bytes,
                Some(end) => match bytes {
                    Cow::Borrowed(b) => Cow::Borrowed(&b[..end]),
                    Cow::Owned(mut b) => {
                        b.truncate(end);
                        Cow::Owned(b)
                    }
                },
            },
            other => other.into_bytes(),
        }
    }

    /// Appends the value as bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Str(b) | Self::Bin(b) | Self::Method(b) => out.extend_from_slice(b),
            Self::Bool(b) => out.push(if *b { b'1' } else { b'0' }),
            Self::Int(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
            Self::Ip(ip) => append_ip(*ip, out),
        }
    }

    /// The value as a number.
    #[must_use]
    pub fn to_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Bool(b) => Some(i64::from(*b)),
            Self::Ip(IpAddr::V4(ip)) => Some(i64::from(u32::from(*ip))),
            Self::Str(b) => Some(leading_int(b)),
            Self::Ip(IpAddr::V6(_)) | Self::Bin(_) | Self::Method(_) => None,
        }
    }

    /// The value as a condition: true numbers and strings of such.
    #[must_use]
    pub fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            other => other.to_int().map(|n| n != 0),
        }
    }

    /// The value as an address.
    #[must_use]
    pub fn to_ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(*ip),
            Self::Int(n) => Some(IpAddr::V4(Ipv4Addr::from(*n as u32))),
            Self::Str(b) => parse_ip(b),
            Self::Bool(_) | Self::Bin(_) | Self::Method(_) => None,
        }
    }

    /// The value as one of type `to`.
    #[must_use]
    pub fn cast(self, to: Type) -> Option<Self> {
        if to == Type::Any || self.kind() == to {
            return Some(self);
        }
        match to {
            Type::Any => Some(self),
            Type::Bool => self.to_bool().map(Self::Bool),
            Type::Int => self.to_int().map(Self::Int),
            Type::Ip => self.to_ip().map(Self::Ip),
            Type::Str => Some(Self::Str(self.into_text())),
            Type::Bin => Some(Self::Bin(self.into_binary())),
            Type::Method => match self {
                Self::Str(b) | Self::Bin(b) => Some(Self::Method(b)),
                _ => None,
            },
        }
    }

    /// The value as binary: numbers as 8 bytes, addresses as 4 or 16, big end first.
    #[must_use]
    pub fn into_binary(self) -> Cow<'a, [u8]> {
        match self {
            Self::Str(b) | Self::Bin(b) | Self::Method(b) => b,
            Self::Bool(b) => Cow::Owned(i64::from(b).to_be_bytes().to_vec()),
            Self::Int(n) => Cow::Owned(n.to_be_bytes().to_vec()),
            Self::Ip(IpAddr::V4(ip)) => Cow::Owned(ip.octets().to_vec()),
            Self::Ip(IpAddr::V6(ip)) => Cow::Owned(ip.octets().to_vec()),
        }
    }

    /// The value with its bytes copied, so that it outlives the transaction.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Bool(b) => Value::Bool(b),
            Self::Int(n) => Value::Int(n),
            Self::Ip(ip) => Value::Ip(ip),
            Self::Str(b) => Value::Str(Cow::Owned(b.into_owned())),
            Self::Bin(b) => Value::Bin(Cow::Owned(b.into_owned())),
            Self::Method(b) => Value::Method(Cow::Owned(b.into_owned())),
        }
    }

    /// Without bytes: empty strings and blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Str(b) | Self::Bin(b) | Self::Method(b) if b.is_empty())
    }
}

/// Appends an address as text without an allocation.
pub(crate) fn append_ip(ip: IpAddr, out: &mut Vec<u8>) {
    use std::io::Write;
    if let IpAddr::V4(ip) = ip {
        for (at, octet) in ip.octets().into_iter().enumerate() {
            if at > 0 {
                out.push(b'.');
            }
            out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
        }
        return;
    }
    // Writing to a Vec cannot fail.
    drop(write!(out, "{ip}"));
}

/// The number a string starts with, as C reads it: an optional sign and digits, 0 without any, bounded by 64 bits.
pub(crate) fn leading_int(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut n: i64 = 0;
    for d in digits.iter().take_while(|d| d.is_ascii_digit()) {
        let d = i64::from(d - b'0');
        n = n.saturating_mul(10);
        n = if negative { n.saturating_sub(d) } else { n.saturating_add(d) };
    }
    n
}

/// A whole string as a number.
pub(crate) fn strict_int(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An address in its usual form; IPv4 also in the short forms of `inet_aton` with the last number filling up
/// (`127.1`) is left to [`crate::data::matcher`]: samples are addresses of messages and written in full.
pub(crate) fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok()
}

/// IPv4 address inside an IPv6 one: mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`) or 6to4 (`2002:`).
pub(crate) fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let o = ip.octets();
    if o[0] == 0x20 && o[1] == 0x02 {
        return Some(Ipv4Addr::new(o[2], o[3], o[4], o[5]));
    }
    let mapped = o[..10] == [0; 10] && o[10..12] == [0xff, 0xff];
    let compatible = o[..12] == [0; 12];
    (mapped || compatible).then(|| Ipv4Addr::new(o[12], o[13], o[14], o[15]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_start() {
        let check = |text: &str, expected| assert_eq!(leading_int(text.as_bytes()), expected, "{text}");
        check("12", 12);
        check("-12x", -12);
        check("x", 0);
        check("", 0);
        check("99999999999999999999", i64::MAX);
        check("-99999999999999999999", i64::MIN);
    }

    #[test]
    fn casts() {
        let check = |from: Value<'static>, to, expected: Option<Value<'static>>| {
            assert_eq!(from.clone().cast(to), expected, "{from:?}");
        };
        check(Value::Int(5), Type::Str, Some(Value::text(b"5")));
        check(Value::Bool(true), Type::Str, Some(Value::text(b"1")));
        check(Value::text(b"1.2.3.4"), Type::Ip, Some(Value::Ip([1, 2, 3, 4].into())));
        check(Value::Ip([1, 2, 3, 4].into()), Type::Int, Some(Value::Int(0x0102_0304)));
        check(Value::Bin(Cow::Borrowed(b"1")), Type::Int, None);
        check(Value::Bin(Cow::Borrowed(b"ab\0c")), Type::Str, Some(Value::text(b"ab")));
    }
}
