//! What log formats print as JSON or CBOR (section 8.2.6, flags `json` and `cbor`).
//!
//! CBOR is RFC 8949's, of which this takes integers, text, byte strings, booleans, null and one map.

use crate::value::{Value, codec};

/// How an object is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Json,
    Cbor,
}

/// Type forced by `%(name:type)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forced {
    Str,
    Int,
    Bool,
}

impl Forced {
    /// The value as that type; what is none of its kind is 0 or false.
    pub(crate) fn on(self, value: Value<'_>) -> Value<'_> {
        match self {
            Self::Str => Value::Str(value.into_bytes()),
            Self::Int => Value::Int(value.to_int().unwrap_or(0)),
            Self::Bool => Value::Bool(value.to_bool().unwrap_or(false)),
        }
    }
}

/// Major types and the rest of an initial byte (RFC 8949 section 3).
mod cbor {
    pub(super) const UNSIGNED: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    /// The initial byte of something whose end is told by `BREAK`.
    pub(super) const fn open(major: u8) -> u8 {
        major << 5 | 31
    }
    pub(super) const MAP: u8 = open(5);
    pub(super) const FALSE: u8 = 0xf4;
    pub(super) const TRUE: u8 = 0xf5;
    pub(super) const NULL: u8 = 0xf6;
    pub(super) const BREAK: u8 = 0xff;
}

impl Encoding {
    /// Begins the object.
    pub(crate) fn open(self, out: &mut Vec<u8>) {
        out.push(if self == Self::Json { b'{' } else { cbor::MAP });
    }

    /// A name in front of its value.
    pub(crate) fn name(self, name: &str, is_first: bool, out: &mut Vec<u8>) {
        if self == Self::Cbor {
            return cbor_string(cbor::TEXT, name.as_bytes(), out);
        }
        if !is_first {
            out.extend_from_slice(b", ");
        }
        json_string(name.as_bytes(), out);
        out.extend_from_slice(b": ");
    }

    /// Ends the object.
    pub(crate) fn close(self, out: &mut Vec<u8>) {
        out.push(if self == Self::Json { b'}' } else { cbor::BREAK });
    }

    /// A value, or nothing.
    pub(crate) fn value(self, value: Option<Value<'_>>, out: &mut Vec<u8>) {
        match (self, value) {
            (Self::Json, None) => out.extend_from_slice(b"null"),
            (Self::Json, Some(Value::Bool(true))) => out.extend_from_slice(b"true"),
            (Self::Json, Some(Value::Bool(false))) => out.extend_from_slice(b"false"),
            (Self::Json, Some(value @ Value::Int(_))) => value.append_to(out),
            (Self::Json, Some(value)) => json_string(&value.into_bytes(), out),
            (Self::Cbor, None) => out.push(cbor::NULL),
            (Self::Cbor, Some(Value::Bool(value))) => out.push(if value { cbor::TRUE } else { cbor::FALSE }),
            (Self::Cbor, Some(Value::Int(number @ 0..))) => {
                cbor_head(cbor::UNSIGNED, number.unsigned_abs(), out);
            }
            // -1 is 0, -2 is 1, ...
            (Self::Cbor, Some(Value::Int(number))) => cbor_head(cbor::NEGATIVE, !number as u64, out),
            (Self::Cbor, Some(Value::Bin(bytes))) => {
                out.push(cbor::open(cbor::BYTES));
                cbor_string(cbor::BYTES, &bytes, out);
                out.push(cbor::BREAK);
            }
            (Self::Cbor, Some(value)) => cbor_string(cbor::TEXT, &value.into_bytes(), out),
        }
    }

    /// Text of which nobody said how long it would be; none is null.
    pub(crate) fn pieces(self, text: &[u8], out: &mut Vec<u8>) {
        if self == Self::Json {
            return json_string(text, out);
        }
        if text.is_empty() {
            return out.push(cbor::NULL);
        }
        out.push(cbor::open(cbor::TEXT));
        cbor_string(cbor::TEXT, text, out);
        out.push(cbor::BREAK);
    }

    /// Appends what `write` appends, in a form that can be printed.
    pub(crate) fn printable(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        if self == Self::Json {
            return write(out);
        }
        let mut binary = Vec::with_capacity(64);
        write(&mut binary);
        out.extend(codec::to_hex(&binary));
    }
}

/// A type and its number in as few bytes as there can be.
fn cbor_head(major: u8, number: u64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let (size, from) = match number {
        0..24 => return out.push(major << 5 | bytes[7]),
        24..=0xff => (24, 7),
        0x100..=0xffff => (25, 6),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 0),
    };
    out.push(major << 5 | size);
    out.extend_from_slice(&bytes[from..]);
}

fn cbor_string(major: u8, text: &[u8], out: &mut Vec<u8>) {
    cbor_head(major, text.len() as u64, out);
    out.extend_from_slice(text);
}

/// A JSON string with its quotes; bytes above 127 stay as they are.
fn json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for b in text {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(*b),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cbor_values() {
        let check = |value: Option<Value<'_>>, hex: &str| {
            let (mut out, shown) = (Vec::new(), format!("{value:?}"));
            Encoding::Cbor.printable(&mut out, |out| Encoding::Cbor.value(value, out));
            assert_eq!(String::from_utf8_lossy(&out), hex, "{shown}");
        };
        // RFC 8949, appendix A
        check(Some(Value::Int(0)), "00");
        check(Some(Value::Int(23)), "17");
        check(Some(Value::Int(24)), "1818");
        check(Some(Value::Int(1000)), "1903E8");
        check(Some(Value::Int(1_000_000)), "1A000F4240");
        check(Some(Value::Int(1_000_000_000_000)), "1B000000E8D4A51000");
        check(Some(Value::Int(-1)), "20");
        check(Some(Value::Int(-100)), "3863");
        check(Some(Value::Int(-1000)), "3903E7");
        check(Some(Value::Int(i64::MIN)), "3B7FFFFFFFFFFFFFFF");
        check(Some(Value::Bool(false)), "F4");
        check(Some(Value::Bool(true)), "F5");
        check(None, "F6");
        check(Some(Value::Str(b"IETF"[..].into())), "6449455446");
        check(Some(Value::Bin([1, 2, 3, 4][..].into())), "5F4401020304FF");
    }
}
