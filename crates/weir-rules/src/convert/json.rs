//! JSON: escaping strings, looking values up.

use std::borrow::Cow;

use crate::Txn;
use crate::data::json_path::{Json, JsonPath, unescape};
use crate::expr::args::{Arg, ArgKind as K, Args, args};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value, codec, leading_int};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "json",
        args(0, &[K::OneOf(&["ascii", "utf8", "utf8s", "utf8p", "utf8ps"])]),
        Type::Str,
        Type::Str,
        "Escapes for a JSON string.",
        json,
    )
    .examples(&[("str(\"a\\\"b/c\"),json", Some("a\\\"b\\/c"))]),
    converter(
        "json_query",
        args(1, &[K::JsonPath, K::OneOf(&["int"])]),
        Type::Str,
        Type::Any,
        "The value at a JSONPath.",
        json_query,
    )
    .examples(&[
        ("str('{\"a\":[1,\"x\"]}'),json_query($.a[1])", Some("x")),
        ("str('{\"a\":4}'),json_query('$.a','int'),add(1)", Some("5")),
    ]),
    converter(
        "jwt_header_query",
        args(0, &[K::JsonPath, K::OneOf(&["int"])]),
        Type::Str,
        Type::Any,
        "The header of a JSON Web Token, or a value in it.",
        jwt_query,
    ),
    converter(
        "jwt_payload_query",
        args(0, &[K::JsonPath, K::OneOf(&["int"])]),
        Type::Str,
        Type::Any,
        "The payload of a JSON Web Token, or a value in it.",
        jwt_query,
    ),
];

/// How bytes that are no characters are treated.
#[derive(Clone, Copy, PartialEq)]
enum Input {
    Ascii,
    Utf8 { silent: bool, permissive: bool },
}

/// Escapes a string; `None` when the input is no UTF-8 and must be.
pub(crate) fn escape(text: &[u8], code: u8) -> Option<Vec<u8>> {
    let input = match code {
        1 => Input::Utf8 { silent: false, permissive: false },
        2 => Input::Utf8 { silent: true, permissive: false },
        3 => Input::Utf8 { silent: false, permissive: true },
        4 => Input::Utf8 { silent: true, permissive: true },
        _ => Input::Ascii,
    };
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut at = 0;
    while at < text.len() {
        let (point, used) = match input {
            Input::Ascii => (Some(u32::from(text[at])), 1),
            Input::Utf8 { silent, permissive } => {
                let (point, used, error) = decode(&text[at..], permissive);
                match (error, silent) {
                    (true, false) => return None,
                    (true, true) => (None, used),
                    (false, _) => (Some(point), used),
                }
            }
        };
        if let Some(point) = point {
            push_escaped(point, &mut out)?;
        }
        at += used;
    }
    Some(out)
}

/// One UTF-8 sequence: code point, length, whether it is wrong.
fn decode(text: &[u8], permissive: bool) -> (u32, usize, bool) {
    let first = text[0];
    let (len, bits) = match first {
        0..0x80 => return (u32::from(first), 1, false),
        0xc0..0xe0 => (2, first & 0x1f),
        0xe0..0xf0 => (3, first & 0x0f),
        0xf0..0xf8 => (4, first & 0x07),
        _ => return (0, 1, true),
    };
    let mut point = u32::from(bits);
    for at in 1..len {
        match text.get(at) {
            Some(b) if b & 0xc0 == 0x80 => point = point << 6 | u32::from(b & 0x3f),
            _ => return (0, at, true),
        }
    }
    let shortest = [0, 0, 0x80, 0x800, 0x1_0000][len];
    let overlong = point < shortest && !permissive;
    let range = (0xd800..0xe000).contains(&point) || point > 0x10_ffff;
    (point, len, overlong || range)
}

fn push_escaped(point: u32, out: &mut Vec<u8>) -> Option<()> {
    match point {
        0x22 | 0x2f | 0x5c => out.extend_from_slice(&[b'\\', point as u8]),
        0x08 => out.extend_from_slice(b"\\b"),
        0x09 => out.extend_from_slice(b"\\t"),
        0x0a => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        0x0d => out.extend_from_slice(b"\\r"),
        0x20..=0x7e => out.push(point as u8),
        // The escape has only four digits.
        0x1_0000.. => return None,
        _ => out.extend_from_slice(format!("\\u{point:04x}").as_bytes()),
    }
    Some(())
}

fn json<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let code = if let Some(Arg::Choice(code)) = args.get(0) { *code } else { 0 };
    escape(&value.into_bytes(), code).map(Value::owned)
}

/// The value at a path as a sample.
fn query(text: &[u8], path: &JsonPath, as_int: bool) -> Option<Value<'static>> {
    Some(match path.find(text)? {
        Json::Str(s) => Value::owned(unescape(s)?),
        Json::Number(n) if as_int => Value::Int(leading_int(n)),
        Json::Number(n) => Value::owned(n.to_vec()),
        Json::True => Value::Bool(true),
        Json::False => Value::Bool(false),
        Json::Array(a) => Value::owned(a.to_vec()),
        Json::Null | Json::Object(_) => return None,
    })
}

fn json_query<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::JsonPath(path)) = args.get(0) else { return None };
    query(&value.into_bytes(), path, args.get(1).is_some())
}

fn jwt_query<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let token: Cow<'a, [u8]> = value.into_bytes();
    let mut parts = token.split(|b| *b == b'.');
    let part = if args.variant == "jwt_header_query" { parts.next() } else { parts.nth(1) };
    let text = codec::decode_base64url(part?)?;
    match args.get(0) {
        Some(Arg::JsonPath(path)) => query(&text, path, args.get(1).is_some()),
        _ => Some(Value::owned(text)),
    }
}
