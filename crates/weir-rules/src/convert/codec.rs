//! Encodings: base64, hexadecimal, URL, decimal dumps.

use std::borrow::Cow;

use crate::Txn;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::codec::{
    decode_base64, decode_base64url, decode_url, encode_base64, encode_base64url, is_unreserved, push_hex,
    to_hex,
};
use crate::value::{Type, Value};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter("b64dec", NONE, Type::Str, Type::Bin, "Decodes base64.", b64dec)
        .examples(&[("str(YWJj),b64dec", Some("abc"))]),
    converter("base2", NONE, Type::Bin, Type::Str, "Eight binary digits per byte.", base2)
        .examples(&[("str(A),base2", Some("01000001"))]),
    converter("base64", NONE, Type::Bin, Type::Str, "Encodes as base64.", base64_encode)
        .examples(&[("str(a),base64", Some("YQ=="))]),
    converter(
        "be2dec",
        args(2, &[K::Str, K::Int, K::Int]),
        Type::Bin,
        Type::Str,
        "Big-endian chunks as decimal numbers.",
        to_dec,
    )
    .examples(&[
        ("bin(01020304050607),be2dec(:,2)", Some("258:772:1286:7")),
        ("bin(01020304050607),be2dec(-,2,1)", Some("258-772-1286")),
        ("bin(01020304050607),be2dec(,2,1)", Some("2587721286")),
        ("bin(7f000001),be2dec(.,1)", Some("127.0.0.1")),
    ]),
    converter(
        "be2hex",
        args(0, &[K::Str, K::Int, K::Int]),
        Type::Bin,
        Type::Str,
        "Chunks as hexadecimal digits.",
        be2hex,
    )
    .examples(&[
        ("bin(01020304050607),be2hex", Some("01020304050607")),
        ("bin(01020304050607),be2hex(:,2)", Some("0102:0304:0506:07")),
        ("bin(01020304050607),be2hex(--,2,1)", Some("0102--0304--0506")),
        ("bin(0102030405060708),be2hex(,3,1)", Some("010203040506")),
    ]),
    converter("hex", NONE, Type::Bin, Type::Str, "Two hexadecimal digits per byte.", hex)
        .examples(&[("str(abc),hex", Some("616263")), ("int(5),hex", Some("0000000000000005"))]),
    converter(
        "le2dec",
        args(2, &[K::Str, K::Int, K::Int]),
        Type::Bin,
        Type::Str,
        "Little-endian chunks as decimal numbers.",
        to_dec,
    )
    .examples(&[
        ("bin(01020304050607),le2dec(:,2)", Some("513:1027:1541:7")),
        ("bin(7f000001),le2dec(.,1)", Some("127.0.0.1")),
    ]),
    converter("ub64dec", NONE, Type::Str, Type::Str, "Decodes base64url.", ub64dec)
        .examples(&[("str(YWJj),ub64dec", Some("abc"))]),
    converter("ub64enc", NONE, Type::Str, Type::Str, "Encodes as base64url without padding.", ub64enc)
        .examples(&[("str(a),ub64enc", Some("YQ"))]),
    converter(
        "url_dec",
        args(0, &[K::Int]),
        Type::Str,
        Type::Str,
        "Decodes percent-encoding; 1 also decodes + everywhere.",
        url_dec,
    )
    .examples(&[
        ("str(a%20b+c?d+e),url_dec", Some("a b+c?d e")),
        ("str(a+b),url_dec(1)", Some("a b")),
        ("str(a%2),url_dec", None),
    ]),
    converter(
        "url_enc",
        args(0, &[K::OneOf(&["query"])]),
        Type::Str,
        Type::Str,
        "Percent-encodes all but unreserved characters.",
        url_enc,
    )
    .examples(&[("str(a b&c/%),url_enc", Some("a%20b%26c%2F%25"))]),
];

fn b64dec<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    decode_base64(&value.into_bytes()).map(|b| Value::Bin(b.into()))
}

fn base64_encode<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::owned(encode_base64(&value.into_binary()).into_bytes()))
}

fn ub64dec<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    decode_base64url(&value.into_bytes()).map(Value::owned)
}

fn ub64enc<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::owned(encode_base64url(&value.into_bytes()).into_bytes()))
}

fn base2<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let mut out = String::new();
    for b in value.into_binary().iter() {
        out.push_str(&format!("{b:08b}"));
    }
    Some(Value::owned(out.into_bytes()))
}

fn hex<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::owned(to_hex(&value.into_binary())))
}

/// The chunks of a dump: all, or with "truncate" only full ones.
fn chunks(bytes: &[u8], size: usize, truncate: bool) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(size).filter(move |c| !truncate || c.len() == size)
}

fn to_dec<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let size = usize::try_from(args.int(1)?).ok().filter(|s| (1..=8).contains(s))?;
    let little = args.variant == "le2dec";
    let mut out = Vec::new();
    let bytes = value.into_binary();
    for (at, chunk) in chunks(&bytes, size, args.int(2) == Some(1)).enumerate() {
        if at > 0 {
            out.extend_from_slice(args.str(0).unwrap_or_default());
        }
        let add = |n: u64, b: &u8| n << 8 | u64::from(*b);
        let n = if little { chunk.iter().rev().fold(0, add) } else { chunk.iter().fold(0, add) };
        out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    }
    Some(Value::owned(out))
}

fn be2hex<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_binary();
    let size = args.int(1).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let mut out = Vec::with_capacity(2 * bytes.len());
    for (at, chunk) in chunks(&bytes, size.unwrap_or(1), args.int(2) == Some(1)).enumerate() {
        if at > 0 && size.is_some() {
            out.extend_from_slice(args.str(0).unwrap_or_default());
        }
        chunk.iter().for_each(|b| push_hex(*b, &mut out));
    }
    Some(Value::owned(out))
}

fn url_dec<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let text = value.into_bytes();
    if memchr::memchr2(b'%', b'+', &text).is_none() {
        return Some(Value::Str(text));
    }
    decode_url(&text, args.int(0).unwrap_or(0) != 0).map(Value::owned)
}

fn url_enc<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let text: Cow<'a, [u8]> = value.into_bytes();
    let mut out = Vec::with_capacity(text.len() + 16);
    for b in text.iter() {
        if is_unreserved(*b) {
            out.push(*b);
        } else {
            out.push(b'%');
            push_hex(*b, &mut out);
        }
    }
    Some(Value::owned(out))
}
