//! Dates: from and to text.

use crate::Txn;
use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::date::{format, parse_http_date};
use crate::value::{Type, Value};

const FORMAT: &[K] = &[K::Str, K::Int];

const UNIT: K = K::OneOf(&["s", "ms", "us"]);

pub(crate) static CONVERTERS: &[Converter] = &[
    converter("date", NONE, Type::Str, Type::Int, "An HTTP date as seconds since 1970.", from_http).examples(
        &[
            ("str('Sun, 06 Nov 1994 08:49:37 GMT'),date", Some("784111777")),
            ("str('Sunday, 06-Nov-94 08:49:37 GMT'),date", Some("784111777")),
            ("str('Sun Nov  6 08:49:37 1994'),date", Some("784111777")),
        ],
    ),
    converter(
        "http_date",
        args(0, &[K::Int, UNIT]),
        Type::Int,
        Type::Str,
        "A date in HTTP's form.",
        http_date,
    )
    .examples(&[
        ("int(1700000000),http_date", Some("Tue, 14 Nov 2023 22:13:20 GMT")),
        ("int(1700000000123),http_date(0,ms)", Some("Tue, 14 Nov 2023 22:13:20.123 GMT")),
    ]),
    converter(
        "ltime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in seconds as local time by strftime.",
        format_date,
    ),
    converter(
        "ms_ltime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in milliseconds as local time by strftime.",
        format_date,
    ),
    converter(
        "ms_utime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in milliseconds as UTC by strftime; %3N are milliseconds.",
        format_date,
    )
    .examples(&[("int(1700000000123),ms_utime(\"%Y/%m/%d %H:%M:%S.%3N\")", Some("2023/11/14 22:13:20.123"))]),
    converter(
        "us_ltime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in microseconds as local time by strftime.",
        format_date,
    ),
    converter(
        "us_utime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in microseconds as UTC by strftime; %6N are microseconds.",
        format_date,
    )
    .examples(&[("int(1700000000123456),us_utime(%6N)", Some("123456"))]),
    converter(
        "utime",
        args(1, FORMAT),
        Type::Int,
        Type::Str,
        "A date in seconds as UTC by strftime.",
        format_date,
    )
    .examples(&[
        ("int(1700000000),utime(%Y%m%d%H%M%S)", Some("20231114221320")),
        ("int(1700000000),utime(%d/%b/%Y:%H:%M:%S %z)", Some("14/Nov/2023:22:13:20 +0000")),
    ]),
];

fn format_date<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let per_second: i64 = match args.variant.as_bytes() {
        [b'm', b's', ..] => 1000,
        [b'u', b's', ..] => 1_000_000,
        _ => 1,
    };
    let at = value.to_int()?.saturating_add(args.int(1).unwrap_or(0));
    let (seconds, rest) = (at.div_euclid(per_second), at.rem_euclid(per_second));
    let nanos = (rest * (1_000_000_000 / per_second)) as u32;
    let offset = if args.variant.ends_with("ltime") { txn.env.utc_offset(seconds) } else { 0 };
    Some(Value::owned(format(seconds, nanos, args.str(0)?, offset)))
}

fn http_date<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let (per_second, pattern): (i64, &[u8]) = match args.get(1) {
        Some(Arg::Choice(1)) => (1000, b"%a, %d %b %Y %H:%M:%S.%3N GMT"),
        Some(Arg::Choice(2)) => (1_000_000, b"%a, %d %b %Y %H:%M:%S.%6N GMT"),
        _ => (1, b"%a, %d %b %Y %H:%M:%S GMT"),
    };
    let at = value.to_int()?.saturating_add(args.int(0).unwrap_or(0));
    let nanos = (at.rem_euclid(per_second) * (1_000_000_000 / per_second)) as u32;
    Some(Value::owned(format(at.div_euclid(per_second), nanos, pattern, 0)))
}

fn from_http<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    parse_http_date(std::str::from_utf8(&bytes).ok()?).map(Value::Int)
}
