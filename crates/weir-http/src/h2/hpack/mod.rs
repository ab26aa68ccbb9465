//! HPACK: header compression for HTTP/2 (RFC 7541).
//!
//! Owns the tables and the coding of field sections; what a section means for a message is `head`'s.
//! Each name and value is looked at once: an entry of the dynamic table remembers which field it is
//! and whether its octets are allowed, so that a repeated request costs copies only.

mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
mod integer;
mod static_table;

pub(super) use decoder::{Decoded, Decoder};
pub(super) use dynamic_table::MAX_TABLE_SIZE;
pub(super) use encoder::Encoder;
#[cfg(test)]
pub(super) use huffman::encode_for_tests;

use crate::FieldName;
use crate::authority::is_host;
use crate::h1::MAX_NAME;
use crate::token::is_token_byte;

/// The block cannot be decoded; the tables of both ends differ from here on (RFC 9113 section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CompressionError;

/// What a field line is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Field(FieldName),
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    Protocol,
    /// The name is not allowed: empty, upper case, not a token, or an unknown pseudo-field.
    Invalid,
}

/// What is wrong with a field line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Fault {
    #[default]
    None,
    /// Well-formed HTTP/2, but no request that could be answered otherwise than with 400.
    BadRequest,
    /// More fields, or larger ones, than are accepted: answered with 431.
    TooLarge,
    /// Malformed (RFC 9113 section 8.1.1): a stream error.
    Malformed,
}

static TOKEN: [bool; 256] = table(false);
static LOWER_TOKEN: [bool; 256] = table(true);

const fn table(lower: bool) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        table[at] = is_token_byte(byte) && !(lower && byte.is_ascii_uppercase());
        at += 1;
    }
    table
}

/// Which field or pseudo-field a received name is.
pub(super) fn classify(name: &[u8]) -> Kind {
    if let Some(b':') = name.first() {
        return match name {
            b":method" => Kind::Method,
            b":scheme" => Kind::Scheme,
            b":authority" => Kind::Authority,
            b":path" => Kind::Path,
            b":status" => Kind::Status,
            b":protocol" => Kind::Protocol,
            // RFC 9113 section 8.3: undefined pseudo-fields make a message malformed.
            _ => Kind::Invalid,
        };
    }
    match FieldName::from_lower(name) {
        // RFC 9113 section 8.2.1
        FieldName::Other
            if !(1..=MAX_NAME).contains(&name.len())
                || !name.iter().all(|&b| LOWER_TOKEN[usize::from(b)]) =>
        {
            Kind::Invalid
        }
        id => Kind::Field(id),
    }
}

/// What is wrong with a value, by itself.
pub(super) fn check_value(kind: Kind, value: &[u8]) -> Fault {
    let malformed_unless = |fine: bool| if fine { Fault::None } else { Fault::Malformed };
    // What can be shown in a log is answered, the rest is not.
    let bad_request_unless = |fine: bool| match fine {
        true => Fault::None,
        false if value.iter().all(u8::is_ascii_graphic) => Fault::BadRequest,
        false => Fault::Malformed,
    };
    match kind {
        // RFC 9113 section 8.2.1: the three octets that end things in HTTP/1.
        Kind::Field(_) => {
            malformed_unless(!value.iter().fold(false, |bad, &b| bad | matches!(b, 0 | b'\n' | b'\r')))
        }
        Kind::Invalid => Fault::Malformed,
        _ if value.is_empty() => malformed_unless(matches!(kind, Kind::Authority)),
        Kind::Method => bad_request_unless(value.iter().all(|&b| TOKEN[usize::from(b)])),
        Kind::Protocol => malformed_unless(value.iter().all(|&b| TOKEN[usize::from(b)])),
        // RFC 3986 section 3.1
        Kind::Scheme => bad_request_unless(
            value[0].is_ascii_alphabetic()
                && value.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')),
        ),
        // RFC 9113 section 8.3.1: no user information either.
        Kind::Authority => bad_request_unless(is_host(value)),
        Kind::Path => malformed_unless(
            (value[0] == b'/' || value == b"*")
                && value.iter().all(|&b| b > b' ' && !matches!(b, b'#' | 0x7f)),
        ),
        Kind::Status => malformed_unless(
            value.len() == 3 && value.iter().all(u8::is_ascii_digit) && matches!(value[0], b'1'..=b'9'),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let name = vec![b'a'; MAX_NAME + 1];
        assert_eq!(classify(&name[1..]), Kind::Field(FieldName::Other));
        assert_eq!(classify(&name), Kind::Invalid);
    }
}
