//! What bytes are written as: base64, hexadecimal digits, percent-encoding.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const STANDARD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

const URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Standard base64.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// base64url, with or without padding.
pub(crate) fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    URL.decode(text).ok()
}

/// Standard base64 with padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// base64url without padding.
pub(crate) fn encode_base64url(bytes: &[u8]) -> String {
    URL.encode(bytes)
}

/// Appends two upper-case hexadecimal digits.
pub(crate) fn push_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// The same for all of them.
pub(crate) fn to_hex(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| push_hex(*byte, &mut out));
    out
}

/// Two hexadecimal digits.
pub(crate) fn hex_byte(digits: &[u8]) -> Option<u8> {
    let value = |b: u8| char::from(b).to_digit(16);
    match digits {
        [high, low] => Some((value(*high)? * 16 + value(*low)?) as u8),
        _ => None,
    }
}

/// Hexadecimal digits as bytes.
pub(crate) fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    text.len().is_multiple_of(2).then(|| text.chunks(2).map(hex_byte).collect())?
}

/// Decodes percent-encoding; a plus sign is a space in forms, and behind a question mark. `None` for what is no encoding.
#[must_use]
pub fn decode_url(text: &[u8], in_form: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut form) = (0, in_form);
    while let Some(&b) = text.get(at) {
        match b {
            b'%' => {
                out.push(hex_byte(text.get(at + 1..at + 3)?)?);
                at += 2;
            }
            b'+' if form => out.push(b' '),
            b'?' => {
                form = true;
                out.push(b);
            }
            _ => out.push(b),
        }
        at += 1;
    }
    Some(out)
}

/// RFC 3986 section 2.3.
pub(crate) fn is_unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~')
}
