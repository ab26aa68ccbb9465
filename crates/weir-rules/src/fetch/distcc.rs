//! Fetches from the messages of distcc (section 7.3.5): tokens of four letters with a number in hexadecimal, which for
//! some of them is the length of a body that follows.

use crate::Txn;
use crate::expr::Cursor;
use crate::expr::args::{ArgKind as K, Args, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::value::{Type, Value};

const TOKEN: &[K] = &[K::Str, K::Int];

/// Four letters and eight digits.
const HEADER_BYTES: usize = 12;

/// Tokens whose number is the length of a body.
const WITH_BODY: [&[u8]; 9] =
    [b"ARGV", b"CDIR", b"DOTI", b"DOTO", b"FILE", b"LINK", b"NAME", b"SERR", b"SOUT"];

pub(crate) static FETCHES: &[Fetch] = &[
    fetch(
        "distcc_body",
        args(1, TOKEN),
        Type::Bin,
        N::RequestBuffer,
        "Body of a token of a distcc message, of its first or so-many-th occurrence.",
        body,
    ),
    fetch(
        "distcc_param",
        args(1, TOKEN),
        Type::Int,
        N::RequestBuffer,
        "Number of a token of a distcc message, of its first or so-many-th occurrence.",
        param,
    ),
];

/// The number of the occurrence that is asked for, and what follows it; nothing before that has arrived.
fn find<'a>(txn: &'a Txn, args: &Args) -> Option<(usize, &'a [u8])> {
    let wanted = args.str(0)?;
    let mut left = args.int(1).unwrap_or(1).max(1);
    let mut rest = &txn.request_body[..];
    loop {
        let (header, after) = rest.split_at_checked(HEADER_BYTES)?;
        let (token, digits) = header.split_at(4);
        let number = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        left -= i64::from(token == wanted);
        if left == 0 {
            return Some((number, after));
        }
        rest = if WITH_BODY.contains(&token) { after.get(number..)? } else { after };
    }
}

fn param<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    find(txn, args).map(|(number, _)| Value::Int(number as i64))
}

fn body<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (length, after) = find(txn, args).filter(|_| WITH_BODY.contains(&args.str(0).unwrap_or_default()))?;
    after.get(..length).map(|body| Value::Bin(body.into()))
}
