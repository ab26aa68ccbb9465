//! Strings: parts, letter case, substitution.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::data::matcher::to_lower;
use crate::data::pcre;
use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args, typed};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

use super::number::operand;

const PART: &[K] = &[K::Int, K::Str, K::Int];

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "bytes",
        args(1, &[K::IntOrVar, K::IntOrVar]),
        Type::Bin,
        Type::Bin,
        "Bytes from an offset on, at most as many as asked for.",
        bytes,
    )
    .prepare(prepare_bytes)
    .examples(&[
        ("str(012345),bytes(1,3)", Some("123")),
        ("str(012345),bytes(0)", Some("012345")),
        ("str(hello),bytes(9)", Some("")),
    ]),
    converter("cut_crlf", NONE, Type::Str, Type::Str, "The string up to its first line end.", cut_crlf),
    converter(
        "field",
        args(2, PART),
        Type::Str,
        Type::Str,
        "Field by number between delimiters; empty fields count.",
        part,
    )
    .examples(&[
        ("str(f1_f2_f3__f5),field(5,_)", Some("f5")),
        ("str(f1_f2_f3__f5),field(2,_,0)", Some("f2_f3__f5")),
        ("str(f1_f2_f3__f5),field(2,_,2)", Some("f2_f3")),
        ("str(f1_f2_f3__f5),field(-2,_,3)", Some("f2_f3_")),
        ("str(f1_f2_f3__f5),field(-3,_,0)", Some("f1_f2_f3")),
        ("str(f1_f2_f3__f5),field(4,_)", Some("")),
        ("str(f1_f2_f3__f5),field(6,_)", None),
    ]),
    converter(
        "has_ctl",
        args(0, &[K::Int]),
        Type::Bin,
        Type::Bool,
        "Whether the bytes have control characters, or those of a mask.",
        has_ctl,
    ),
    converter(
        "iif",
        args(2, &[K::Str, K::Str]),
        Type::Bool,
        Type::Str,
        "One string for true, another for false.",
        iif,
    )
    .examples(&[("bool(1),iif(yes,no)", Some("yes")), ("bool(0),iif(yes,)", Some(""))]),
    converter("length", NONE, Type::Str, Type::Int, "Length in bytes.", length)
        .examples(&[("str(abc),length", Some("3"))]),
    converter("lower", NONE, Type::Str, Type::Str, "In lower case.", lower)
        .examples(&[("str(aBc),lower", Some("abc"))]),
    converter(
        "ltrim",
        args(1, &[K::Str]),
        Type::Str,
        Type::Str,
        "Without leading characters of a set.",
        trim,
    )
    .examples(&[("str(xxabxx),ltrim(x)", Some("abxx"))]),
    converter(
        "regsub",
        args(2, &[K::Regex, K::Str, K::Str]),
        Type::Str,
        Type::Str,
        "Replaces what a regular expression matches; flags g and i.",
        regsub,
    )
    .examples(&[
        ("str(foobar),regsub(o,0,g)", Some("f00bar")),
        ("str(foobar),regsub(o,0)", Some("f0obar")),
        ("str(foobar),regsub(\"(o+)(b)\",\"\\2\\1\")", Some("fbooar")),
        ("str(FOO),regsub(o,x,gi)", Some("Fxx")),
    ]),
    converter("reverse", NONE, Type::Str, Type::Str, "Byte by byte from the end.", reverse)
        .examples(&[("str(example.com),reverse", Some("moc.elpmaxe"))]),
    converter(
        "reverse_dom",
        NONE,
        Type::Str,
        Type::Str,
        "A host name with its labels from the end.",
        reverse_dom,
    )
    .examples(&[
        ("str(mail.example.com),reverse_dom", Some("com.example.mail")),
        ("str(example.com.),reverse_dom", Some("com.example")),
        ("str(a..b),reverse_dom", None),
    ]),
    converter(
        "rtrim",
        args(1, &[K::Str]),
        Type::Str,
        Type::Str,
        "Without trailing characters of a set.",
        trim,
    )
    .examples(&[("str(xxabxx),rtrim(x)", Some("xxab"))]),
    converter(
        "strcmp",
        args(1, &[K::Var]),
        Type::Str,
        Type::Int,
        "Compares with a variable: 0 when equal, else the sign of the order.",
        strcmp,
    )
    .examples(&[("str(hello),strcmp(txn.greeting)", Some("0")), ("str(x),strcmp(txn.none)", None)]),
    converter("upper", NONE, Type::Str, Type::Str, "In upper case.", upper)
        .examples(&[("str(aBc),upper", Some("ABC"))]),
    converter(
        "word",
        args(2, PART),
        Type::Str,
        Type::Str,
        "Word by number between delimiters; empty words do not count.",
        part,
    )
    .examples(&[
        ("str(f1_f2_f3__f5),word(4,_)", Some("f5")),
        ("str(f1_f2_f3__f5),word(5,_)", None),
        ("str(f1_f2_f3__f5),word(2,_,0)", Some("f2_f3__f5")),
        ("str(f1_f2_f3__f5),word(3,_,2)", Some("f3__f5")),
        ("str(f1_f2_f3__f5),word(-2,_,3)", Some("f1_f2_f3")),
        ("str(f1_f2_f3__f5),word(-3,_,0)", Some("f1_f2")),
        ("str(/f1/f2/f3/f4),word(1,/)", Some("f1")),
        ("str(/f1////f2/f3/f4),word(1,/)", Some("f1")),
    ]),
];

/// A part of a string without a copy when the string is borrowed.
pub(crate) fn slice<'a>(value: Cow<'a, [u8]>, range: std::ops::Range<usize>) -> Cow<'a, [u8]> {
    match value {
        Cow::Borrowed(b) => Cow::Borrowed(&b[range]),
        Cow::Owned(mut b) => {
            b.truncate(range.end);
            b.drain(..range.start);
            Cow::Owned(b)
        }
    }
}

/// An offset counts from 0, a length from 1; only a variable can hold less, and then nothing is cut out.
fn prepare_bytes(call: &Call, scope: &mut Scope<'_>, _: &str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let list = typed(call, args(1, &[K::IntOrVar, K::IntOrVar]), scope)?;
    for ((at, arg), word) in list.iter().enumerate().zip(call.args()) {
        if let Arg::Int(n) = arg
            && *n < at as i64
        {
            let what = ["an offset of at least 0", "a length of at least 1"][at.min(1)];
            let message = format!("'bytes' needs {what}, not {n}");
            return Err(vec![Diagnostic::error(word.pos, message)]);
        }
    }
    Ok(list)
}

fn bytes<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_binary();
    let empty = Some(Value::Bin(Cow::Borrowed(b"")));
    let offset = operand(args, 0, txn).and_then(|n| usize::try_from(n).ok());
    let Some(offset) = offset.filter(|o| *o < bytes.len()) else { return empty };
    let length = match args.get(1) {
        None => bytes.len(),
        Some(_) => match operand(args, 1, txn).and_then(|n| usize::try_from(n).ok()) {
            Some(n) => n,
            None => return empty,
        },
    };
    let end = bytes.len().min(offset.saturating_add(length));
    Some(Value::Bin(slice(bytes, offset..end)))
}

fn cut_crlf<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let end = memchr::memchr2(b'\r', b'\n', &bytes).unwrap_or(bytes.len());
    Some(Value::Str(slice(bytes, 0..end)))
}

/// Ranges of the parts between delimiters; words leave out empty ones.
fn parts(text: &[u8], delimiters: &[u8], words: bool) -> Vec<(usize, usize)> {
    let mut list = Vec::new();
    let mut start = 0;
    for end in (0..=text.len()).filter(|at| text.get(*at).is_none_or(|b| delimiters.contains(b))) {
        if !words || end > start {
            list.push((start, end));
        }
        start = end + 1;
    }
    list
}

/// First and last part of those asked for by number (negative: from the end) and count (0: all further ones).
fn selected(index: i64, count: usize, total: usize) -> Option<(usize, usize)> {
    let n = usize::try_from(index.unsigned_abs()).ok().filter(|n| (1..=total).contains(n))?;
    let limit = |available: usize| if count == 0 { available } else { count.min(available) };
    if index > 0 {
        let first = n - 1;
        return Some((first, first + limit(total - first) - 1));
    }
    let last = total - n;
    Some((last + 1 - limit(last + 1), last))
}

fn part<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let text = value.into_bytes();
    let words = args.variant == "word";
    let list = parts(&text, args.str(1)?, words);
    let count = usize::try_from(args.int(2).unwrap_or(1)).ok()?;
    let (first, last) = selected(args.int(0)?, count, list.len())?;
    Some(Value::Str(slice(text, list[first].0..list[last].1)))
}

fn has_ctl<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let mask = args.int(0).unwrap_or(0xffff_ffff) as u32;
    let found = value.into_binary().iter().any(|b| *b < 32 && mask >> b & 1 == 1);
    Some(Value::Bool(found))
}

fn iif<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let at = if value.to_bool()? { 0 } else { 1 };
    Some(Value::text(args.str(at).unwrap_or_default()))
}

fn length<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::Int(value.into_bytes().len() as i64))
}

fn lower<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(Value::Str(to_lower(value.into_bytes())))
}

fn upper<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let mut bytes = value.into_bytes();
    if bytes.iter().any(u8::is_ascii_lowercase) {
        bytes.to_mut().make_ascii_uppercase();
    }
    Some(Value::Str(bytes))
}

fn trim<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let (bytes, set) = (value.into_bytes(), args.str(0)?);
    let range = match args.variant {
        "ltrim" => bytes.iter().take_while(|b| set.contains(b)).count()..bytes.len(),
        _ => 0..bytes.len() - bytes.iter().rev().take_while(|b| set.contains(b)).count(),
    };
    Some(Value::Str(slice(bytes, range)))
}

fn regsub<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Regex(regex)) = args.get(0) else { return None };
    let replacement = args.str(1).unwrap_or_default();
    let all = args.str(2).is_some_and(|flags| flags.contains(&b'g'));
    let text = value.into_bytes();
    if !regex.is_match(&text) {
        return Some(Value::Str(text));
    }
    let (mut out, mut end) = (Vec::with_capacity(text.len()), 0);
    for groups in regex.captures_iter(&text).take(if all { usize::MAX } else { 1 }) {
        let Some(found) = groups.get(0) else { break };
        out.extend_from_slice(&text[end..found.start()]);
        pcre::expand(replacement, &groups, &mut out);
        end = found.end();
    }
    out.extend_from_slice(&text[end..]);
    Some(Value::owned(out))
}

fn reverse<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let mut bytes = value.into_bytes().into_owned();
    bytes.reverse();
    Some(Value::owned(bytes))
}

fn reverse_dom<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let name = bytes.strip_suffix(b".").unwrap_or(&bytes);
    let mut labels: Vec<_> = name.split(|b| *b == b'.').collect();
    if labels.iter().any(|l| l.is_empty()) {
        return None;
    }
    labels.reverse();
    Some(Value::owned(labels.join(&b'.')))
}

fn strcmp<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let other = args.var(0)?.get(txn)?.into_bytes();
    let order = value.into_bytes().as_ref().cmp(&other);
    Some(Value::Int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}
