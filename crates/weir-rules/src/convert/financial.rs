//! FIX (Financial Information eXchange): tags and values of the first message in a buffer.

use std::borrow::Cow;

use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

use super::string::slice;

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "fix_is_valid",
        NONE,
        Type::Bin,
        Type::Bool,
        "Whether the bytes start with a valid FIX message.",
        fix_is_valid,
    ),
    converter(
        "fix_tag_value",
        args(1, &[K::Str]),
        Type::Bin,
        Type::Bin,
        "Value of a tag of a FIX message, by number or name.",
        fix_tag_value,
    )
    .prepare(prepare_tag),
];

/// Delimits fields.
const SOH: u8 = 1;
/// BeginString: `8=FIX.4.0|9=`; BodyLength and checksum have fixed places around the body.
const VERSIONS: [&[u8]; 6] = [b"FIX.4.0", b"FIX.4.1", b"FIX.4.2", b"FIX.4.3", b"FIX.4.4", b"FIXT.1.1"];
/// Tags that may be named.
const NAMES: [(&str, i64); 7] = [
    ("BeginString", 8),
    ("BodyLength", 9),
    ("CheckSum", 10),
    ("MsgType", 35),
    ("SenderCompID", 49),
    ("TargetCompID", 56),
    ("SenderComID", 49),
];

/// One field: tag, range of the value, end behind the delimiter.
fn field(bytes: &[u8], at: usize) -> Option<(i64, std::ops::Range<usize>, usize)> {
    let end = at + memchr::memchr(SOH, bytes.get(at..)?)?;
    let equals = at + memchr::memchr(b'=', &bytes[at..end])?;
    let digits = &bytes[at..equals];
    if !digits.iter().all(u8::is_ascii_digit) || digits.is_empty() || equals + 1 == end {
        return None;
    }
    let tag = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((tag, equals + 1..end, end + 1))
}

fn number(bytes: &[u8]) -> Option<usize> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// They may still become one when more arrive.
    Incomplete,
    Invalid,
}

/// Length of the valid message at the start.
fn message_len(bytes: &[u8]) -> Result<usize, Wrong> {
    let next = |at: usize| match field(bytes, at) {
        Some(field) => Ok(field),
        None if bytes.get(at..).is_some_and(|rest| rest.contains(&SOH)) => Err(Wrong::Invalid),
        None => Err(Wrong::Incomplete),
    };
    let (tag, version, at) = next(0)?;
    if tag != 8 || !VERSIONS.contains(&&bytes[version]) {
        return Err(Wrong::Invalid);
    }
    let (tag, length, body) = next(at)?;
    let length = number(&bytes[length]).filter(|_| tag == 9).ok_or(Wrong::Invalid)?;
    let checksum_at = body.checked_add(length).ok_or(Wrong::Invalid)?;
    let (tag, checksum, end) = next(checksum_at)?;
    if tag != 10 || checksum.len() != 3 {
        return Err(Wrong::Invalid);
    }
    // Each field of the body is whole; the first one is the message's type.
    let (mut at, mut first) = (body, true);
    while at < checksum_at {
        let (tag, _, after) = next(at)?;
        if std::mem::take(&mut first) && tag != 35 {
            return Err(Wrong::Invalid);
        }
        at = after;
    }
    let sum = bytes[..checksum_at].iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
    let right = at == checksum_at && !first && number(&bytes[checksum]) == Some(usize::from(sum));
    if right { Ok(end) } else { Err(Wrong::Invalid) }
}

fn fix_is_valid<'a>(value: Value<'a>, _: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    match message_len(&value.into_binary()) {
        Err(Wrong::Incomplete) if txn.inspecting => None,
        found => Some(Value::Bool(found.is_ok())),
    }
}

fn prepare_tag(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let Some(word) = call.args().first() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'fix_tag_value' needs a tag")]);
    };
    let text = word.as_str();
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text)).map(|(_, tag)| *tag);
    let tag = named.or_else(|| text.parse().ok().filter(|n| *n > 0));
    tag.map(|tag| vec![Arg::Int(tag)])
        .ok_or_else(|| vec![Diagnostic::unknown("FIX tag", word, NAMES.map(|(n, _)| n))])
}

fn fix_tag_value<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes: Cow<'a, [u8]> = value.into_binary();
    let wanted = args.int(0)?;
    let mut at = 0;
    loop {
        let (tag, range, next) = field(&bytes, at)?;
        if tag == wanted {
            return Some(Value::Bin(slice(bytes, range)));
        }
        // The checksum ends the message.
        if tag == 10 {
            return None;
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let check = |text: &str, expected: Result<(), Wrong>| {
            let found = message_len(text.replace('|', "\x01").as_bytes());
            assert_eq!(found.map(|_| ()), expected, "{text}");
        };
        let (incomplete, invalid) = (Err(Wrong::Incomplete), Err(Wrong::Invalid));
        let good = "8=FIX.4.4|9=102|35=A|49=CLIENT1|56=EXECUTOR|34=1|52=20201029-13:02:44.528|98=0|108=30|141=Y|553=Username|554=Password|10=252|";
        check(good, Ok(()));
        check(&good.replace("10=252", "10=253"), invalid);
        check(&good.replace("10=252", "10=25"), invalid);
        check(&good.replace("9=102", "9=100"), invalid);
        check(&good.replace("98=0", "98="), invalid);
        check(&good.replace("98=0", "=0"), invalid);
        check(&good.replace("98=0", "98"), invalid);
        check(&good.replace("FIX.4.4", "FIX.9.9"), invalid);
        check("9=102|8=FIX.4.4|", invalid);
        for len in 0..good.len() {
            check(&good[..len], incomplete);
        }
    }
}
