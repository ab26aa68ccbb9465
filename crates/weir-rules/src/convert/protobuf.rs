//! Protocol buffers and gRPC: a field by its path of numbers.

use crate::expr::args::{Arg, ArgKind as K, Args, args};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "protobuf",
        args(1, &[K::Str, K::Str]),
        Type::Bin,
        Type::Any,
        "A field of a protocol buffers message, raw or as a number.",
        field,
    )
    .prepare(prepare)
    .examples(&[
        ("bin(08960112050a03616263),protobuf(1,int32)", Some("150")),
        ("bin(08960112050a03616263),protobuf(2.1)", Some("abc")),
        ("bin(0896),protobuf(1)", None),
    ]),
    converter(
        "ungrpc",
        args(1, &[K::Str, K::Str]),
        Type::Bin,
        Type::Any,
        "A field of a gRPC message, raw or as a number.",
        field,
    )
    .prepare(prepare)
    .examples(&[("bin(0000000003089601),ungrpc(1,uint64)", Some("150"))]),
];

/// Types a field can be read as; the place in the list is the argument.
const TYPES: [&str; 14] = [
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum", "fixed64", "sfixed64",
    "double", "fixed32", "sfixed32", "float",
];

/// Deepest path of field numbers.
const MAX_DEPTH: usize = 32;

/// A field's value on the wire.
enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for (at, b) in bytes.iter().enumerate().take(10) {
        n |= u64::from(b & 0x7f) << (7 * at as u32).min(63);
        if *b < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some(n);
        }
    }
    None
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<[u8; N]> {
    let (head, rest): (&'a [u8; N], &'a [u8]) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

/// The first field with this number.
fn find(mut message: &[u8], number: u64) -> Option<Wire<'_>> {
    loop {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => Wire::Varint(varint(&mut message)?),
            1 => Wire::Fixed64(take(&mut message)?),
            2 => {
                let len = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(len)?;
                message = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed32(take(&mut message)?),
            _ => return None,
        };
        if key >> 3 == number {
            return Some(value);
        }
    }
}

fn zigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// The value as a number of a type; `None` when the wire type does not fit.
fn as_number(wire: &Wire<'_>, kind: &str) -> Option<i64> {
    Some(match (wire, kind) {
        (Wire::Varint(n), "int32" | "enum") => i64::from(*n as i32),
        (Wire::Varint(n), "uint32") => i64::from(*n as u32),
        (Wire::Varint(n), "int64" | "uint64") => *n as i64,
        (Wire::Varint(n), "sint32" | "sint64") => zigzag(*n),
        (Wire::Varint(n), "bool") => i64::from(*n != 0),
        (Wire::Fixed64(b), "fixed64" | "sfixed64") => i64::from_le_bytes(*b),
        (Wire::Fixed64(b), "double") => f64::from_le_bytes(*b) as i64,
        (Wire::Fixed32(b), "fixed32") => i64::from(u32::from_le_bytes(*b)),
        (Wire::Fixed32(b), "sfixed32") => i64::from(i32::from_le_bytes(*b)),
        (Wire::Fixed32(b), "float") => f32::from_le_bytes(*b) as i64,
        _ => return None,
    })
}

/// Arguments: the type's place or nothing, then the field numbers.
fn prepare(call: &Call, _: &mut Scope<'_>, keyword: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let [path, kind @ ..] = call.args() else {
        return Err(vec![Diagnostic::error(call.name.pos, format!("'{keyword}' needs a field number"))]);
    };
    let mut list = vec![match kind {
        [] => Arg::None,
        [word, ..] => {
            let at = TYPES.iter().position(|t| t.as_bytes() == word.text);
            Arg::Choice(at.ok_or_else(|| vec![Diagnostic::unknown("field type", word, TYPES)])? as u8)
        }
    }];
    let wrong =
        || vec![Diagnostic::error(path.pos, format!("'{}' is no path of field numbers", path.as_str()))];
    for number in path.as_str().split('.') {
        let number = number.parse::<i64>().ok().filter(|n| (1..1 << 29).contains(n)).ok_or_else(wrong)?;
        list.push(Arg::Int(number));
    }
    if list.len() > MAX_DEPTH + 1 { Err(wrong()) } else { Ok(list) }
}

fn field<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_binary();
    let mut message: &[u8] = &bytes;
    if args.variant == "ungrpc" {
        // A flag for compression, which is not undone here, and the message's length.
        let header: [u8; 5] = take(&mut message)?;
        if header[0] != 0 {
            return None;
        }
        let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        message = &message[..message.len().min(len)];
    }
    let (last, path) = args.list.get(1..)?.split_last()?;
    let number = |arg: &Arg| if let Arg::Int(n) = arg { Some(*n as u64) } else { None };
    for step in path {
        let Wire::Bytes(inner) = find(message, number(step)?)? else { return None };
        message = inner;
    }
    let found = find(message, number(last)?)?;
    if let Some(Arg::Choice(at)) = args.get(0) {
        return as_number(&found, TYPES.get(usize::from(*at))?).map(Value::Int);
    }
    Some(Value::Bin(match found {
        Wire::Bytes(bytes) => bytes.to_vec().into(),
        Wire::Fixed64(b) => b.to_vec().into(),
        Wire::Fixed32(b) => b.to_vec().into(),
        Wire::Varint(n) => {
            let mut out = Vec::with_capacity(10);
            let mut n = n;
            while n >= 0x80 {
                out.push(n as u8 | 0x80);
                n >>= 7;
            }
            out.push(n as u8);
            out.into()
        }
    }))
}
