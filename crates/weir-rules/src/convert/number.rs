//! Arithmetic, bits and hashes.

use std::net::IpAddr;

use crate::Txn;
use crate::expr::args::{Arg, ArgKind as K, ArgSpec, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::hash;
use crate::value::{Type, Value};

const OPERAND: ArgSpec = args(1, &[K::IntOrVar]);
const OPTIONAL: ArgSpec = args(0, &[K::Int]);

pub(crate) static CONVERTERS: &[Converter] = &[
    converter("add", OPERAND, Type::Int, Type::Int, "Adds a number or variable.", arithmetic).examples(&[
        ("int(2),add(3)", Some("5")),
        ("int(9223372036854775807),add(1)", Some("9223372036854775807")),
    ]),
    converter("and", OPERAND, Type::Int, Type::Int, "Bitwise and with a number or variable.", arithmetic)
        .examples(&[("int(6),and(3)", Some("2"))]),
    converter("bool", NONE, Type::Int, Type::Bool, "True for numbers other than 0.", truth)
        .examples(&[("int(7),bool", Some("1"))]),
    converter("cpl", NONE, Type::Int, Type::Int, "All bits inverted.", unary)
        .examples(&[("int(5),cpl", Some("-6"))]),
    converter("crc32", OPTIONAL, Type::Bin, Type::Int, "CRC32 of the bytes; 1 spreads it.", hash32)
        .examples(&[("str(a),crc32", Some("3904355907")), ("str(a),crc32(1)", Some("1288200982"))]),
    converter("crc32c", OPTIONAL, Type::Bin, Type::Int, "CRC32C of the bytes; 1 spreads it.", hash32)
        .examples(&[("str(a),crc32c", Some("3251651376")), ("str(a),crc32c(1)", Some("626010576"))]),
    converter("div", OPERAND, Type::Int, Type::Int, "Divides by a number or variable.", arithmetic)
        .examples(&[("int(-7),div(2)", Some("-3")), ("int(7),div(0)", Some("9223372036854775807"))]),
    converter("djb2", OPTIONAL, Type::Bin, Type::Int, "DJB2 hash of the bytes; 1 spreads it.", hash32)
        .examples(&[("str(a),djb2", Some("177670")), ("str(a),djb2(1)", Some("3548763807"))]),
    converter("even", NONE, Type::Int, Type::Bool, "True for even numbers.", truth)
        .examples(&[("int(3),even", Some("0"))]),
    converter("hex2i", NONE, Type::Bin, Type::Int, "Hexadecimal digits as a number.", hex2i)
        .examples(&[("str(ff),hex2i", Some("255"))]),
    converter("htonl", NONE, Type::Int, Type::Bin, "The number as 4 bytes, big end first.", htonl),
    converter(
        "ipmask",
        args(1, &[K::Mask4, K::Mask6]),
        Type::Ip,
        Type::Ip,
        "The address with the bits outside the mask cleared.",
        ipmask,
    )
    .examples(&[
        ("ipv4(1.2.3.4),ipmask(24)", Some("1.2.3.0")),
        ("str(1.2.3.4),ipmask(16)", Some("1.2.0.0")),
        ("ipv6(2001:db8::1),ipmask(24,32)", Some("2001:db8::")),
        ("ipv6(2001:db8::1),ipmask(24)", None),
    ]),
    converter(
        "mod",
        OPERAND,
        Type::Int,
        Type::Int,
        "Remainder of the division by a number or variable.",
        arithmetic,
    )
    .examples(&[("int(-7),mod(3)", Some("-1")), ("int(7),mod(0)", Some("0"))]),
    converter("mul", OPERAND, Type::Int, Type::Int, "Multiplies by a number or variable.", arithmetic)
        .examples(&[
            ("int(3),mul(-4)", Some("-12")),
            ("int(9223372036854775807),mul(2)", Some("9223372036854775807")),
        ]),
    converter("neg", NONE, Type::Int, Type::Int, "The number with the other sign.", unary)
        .examples(&[("int(-5),neg", Some("5"))]),
    converter("not", NONE, Type::Int, Type::Bool, "True for 0.", truth)
        .examples(&[("int(0),not", Some("1"))]),
    converter("odd", NONE, Type::Int, Type::Bool, "True for odd numbers.", truth)
        .examples(&[("int(3),odd", Some("1"))]),
    converter("or", OPERAND, Type::Int, Type::Int, "Bitwise or with a number or variable.", arithmetic)
        .examples(&[("int(6),or(1)", Some("7"))]),
    converter("sdbm", OPTIONAL, Type::Bin, Type::Int, "SDBM hash of the bytes; 1 spreads it.", hash32)
        .examples(&[("str(a),sdbm", Some("97")), ("str(a),sdbm(1)", Some("1830748055"))]),
    converter("sub", OPERAND, Type::Int, Type::Int, "Subtracts a number or variable.", arithmetic)
        .examples(&[("int(2),sub(3)", Some("-1"))]),
    converter("wt6", OPTIONAL, Type::Bin, Type::Int, "WT6 hash of the bytes; 1 spreads it.", hash32)
        .examples(&[("str(a),wt6", Some("1900802597")), ("str(hello world),wt6", Some("1866899626"))]),
    converter(
        "xor",
        OPERAND,
        Type::Int,
        Type::Int,
        "Bitwise exclusive or with a number or variable.",
        arithmetic,
    )
    .examples(&[("int(6),xor(3)", Some("5"))]),
    converter("xxh3", OPTIONAL, Type::Bin, Type::Int, "XXH3 hash of the bytes, 64 bits, with a seed.", xxh)
        .examples(&[
            ("str(a),xxh3", Some("-1817709641818812897")),
            ("str(hello),xxh3(7)", Some("2263127920094649883")),
        ]),
    converter("xxh32", OPTIONAL, Type::Bin, Type::Int, "XXH32 hash of the bytes, with a seed.", xxh)
        .examples(&[("str(a),xxh32", Some("1426945110"))]),
    converter("xxh64", OPTIONAL, Type::Bin, Type::Int, "XXH64 hash of the bytes, with a seed.", xxh)
        .examples(&[
            ("str(a),xxh64", Some("-3292477735350538661")),
            ("str(hello world),xxh64(5)", Some("-8449769890646105876")),
        ]),
];

/// The number of argument `at`: a constant, or a variable's value.
pub(crate) fn operand(args: &Args, at: usize, txn: &Txn) -> Option<i64> {
    match args.get(at)? {
        Arg::Int(n) => Some(*n),
        Arg::Var(name) => name.get(txn)?.to_int(),
        _ => None,
    }
}

fn arithmetic<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let (a, b) = (value.to_int()?, operand(args, 0, txn)?);
    Some(Value::Int(match args.variant {
        "add" => a.saturating_add(b),
        "sub" => a.saturating_sub(b),
        "mul" => a.saturating_mul(b),
        "div" if b == 0 => i64::MAX,
        "div" => a.saturating_div(b),
        "mod" => a.checked_rem(b).unwrap_or(0),
        "and" => a & b,
        "or" => a | b,
        _ => a ^ b,
    }))
}

fn unary<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let n = value.to_int()?;
    Some(Value::Int(if args.variant == "cpl" { !n } else { n.saturating_neg() }))
}

fn truth<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let n = value.to_int()?;
    Some(Value::Bool(match args.variant {
        "even" => n & 1 == 0,
        "odd" => n & 1 == 1,
        "not" => n == 0,
        _ => n != 0,
    }))
}

fn hash32<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let hash = match args.variant {
        "crc32" => hash::crc32(&bytes),
        "crc32c" => hash::crc32c(&bytes),
        "djb2" => hash::djb2(&bytes),
        "sdbm" => hash::sdbm(&bytes),
        _ => hash::wt6(&bytes),
    };
    let hash = if args.int(0).unwrap_or(0) != 0 { hash::avalanche(hash) } else { hash };
    Some(Value::Int(i64::from(hash)))
}

fn xxh<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let seed = args.int(0).unwrap_or(0) as u64;
    Some(Value::Int(match args.variant {
        "xxh32" => i64::from(xxhash_rust::xxh32::xxh32(&bytes, seed as u32)),
        "xxh64" => xxhash_rust::xxh64::xxh64(&bytes, seed) as i64,
        _ => xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, seed) as i64,
    }))
}

fn hex2i<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let digits = std::str::from_utf8(&bytes).ok()?;
    u64::from_str_radix(digits, 16).ok().map(|n| Value::Int(n as i64))
}

fn htonl<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::Bin((value.to_int()? as u32).to_be_bytes().to_vec().into()))
}

fn ipmask<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let ip: IpAddr = match (value.to_ip()?, args.get(0)?, args.get(1)) {
        (IpAddr::V4(ip), Arg::Ip(IpAddr::V4(mask)), _) => (ip & *mask).into(),
        (IpAddr::V6(ip), _, Some(Arg::Ip(IpAddr::V6(mask)))) => (ip & *mask).into(),
        _ => return None,
    };
    Some(Value::Ip(ip))
}
