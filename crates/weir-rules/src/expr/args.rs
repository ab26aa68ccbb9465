//! Arguments of fetches, converters and actions: `name(a,"b,c",txn.d)`.
//!
//! Owns splitting them (a second level of quotes, section 2.2 of the manual) and giving them types.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::data::auth::UserList;
use crate::data::json_path::JsonPath;
use crate::data::pattern::PatternView;
use crate::data::pcre;
use crate::expr::acl::Acl;
use crate::expr::scope::Target;
use crate::facts::vars::VarName;
use crate::{Diagnostic, Scope, Word};

/// What an argument may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// Any text.
    Str,
    /// A number.
    Int,
    /// A number or the name of a variable.
    IntOrVar,
    /// A variable's name.
    Var,
    /// Text or the name of a variable.
    StrOrVar,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An IPv4 mask or prefix length.
    Mask4,
    /// An IPv6 mask or prefix length.
    Mask6,
    /// A duration; milliseconds.
    Time,
    /// A proxy with a frontend's half.
    Frontend,
    /// A proxy with a backend's half.
    Backend,
    /// `[backend/]server`
    Server,
    /// A stick table.
    Table,
    /// A user list.
    UserList,
    /// A regular expression; compiled with the flags argument that follows the substitution.
    Regex,
    /// A JSONPath.
    JsonPath,
    /// One word of a fixed list.
    OneOf(&'static [&'static str]),
}

impl ArgKind {
    /// How the manual writes such an argument.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Str => "string",
            Self::Int => "integer",
            Self::IntOrVar => "integer or variable",
            Self::Var => "variable",
            Self::StrOrVar => "string or variable",
            Self::Ipv4 => "IPv4 address",
            Self::Ipv6 => "IPv6 address",
            Self::Mask4 => "IPv4 mask",
            Self::Mask6 => "IPv6 mask",
            Self::Time => "duration",
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Server => "server",
            Self::Table => "table",
            Self::UserList => "userlist",
            Self::Regex => "regular expression",
            Self::JsonPath => "JSONPath",
            Self::OneOf(_) => "word",
        }
    }
}

/// An argument with its type.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Left out.
    None,
    /// Text.
    Str(Box<[u8]>),
    /// Number.
    Int(i64),
    /// Variable.
    Var(VarName),
    /// Address or mask.
    Ip(IpAddr),
    /// User list.
    UserList(Arc<UserList>),
    /// Regular expression.
    Regex(Box<regex::bytes::Regex>),
    /// JSONPath.
    JsonPath(Arc<JsonPath>),
    /// Map, as the converter looks it up.
    Map(Arc<PatternView>),
    /// Backend and server.
    Server(Box<str>, Box<str>),
    /// Proxy or table.
    Name(Box<str>),
    /// Index of a word in its list.
    Choice(u8),
    /// Named ACLs, each perhaps negated.
    Acls(Vec<(bool, Arc<Acl>)>),
}

/// All arguments of one call, and what the registry's entry fixed.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// In their order; left-out ones at the end are not there.
    pub list: Vec<Arg>,
    /// Fixed by the entry: tells keywords apart that share their code.
    pub variant: &'static str,
    /// Name of the proxy the call stands in.
    pub proxy: Arc<str>,
}

impl Args {
    /// Argument `at`.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&Arg> {
        match self.list.get(at) {
            Some(Arg::None) | None => None,
            found => found,
        }
    }

    /// Text of argument `at`.
    #[must_use]
    pub fn str(&self, at: usize) -> Option<&[u8]> {
        match self.list.get(at) {
            Some(Arg::Str(s)) => Some(s),
            _ => None,
        }
    }

    /// Number of argument `at`.
    #[must_use]
    pub fn int(&self, at: usize) -> Option<i64> {
        match self.list.get(at) {
            Some(Arg::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// Name (proxy, table) of argument `at`.
    #[must_use]
    pub fn name(&self, at: usize) -> Option<&str> {
        match self.list.get(at) {
            Some(Arg::Name(n)) => Some(n),
            _ => None,
        }
    }

    /// Variable of argument `at`.
    #[must_use]
    pub fn var(&self, at: usize) -> Option<&VarName> {
        match self.list.get(at) {
            Some(Arg::Var(v)) => Some(v),
            _ => None,
        }
    }
}

/// Which arguments a keyword takes.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Fewest.
    pub min: u8,
    /// Type of each; its length is the most.
    pub kinds: &'static [ArgKind],
}

/// No arguments.
pub(crate) const NONE: ArgSpec = ArgSpec { min: 0, kinds: &[] };

/// At least `min` arguments of these types.
pub(crate) const fn args(min: u8, kinds: &'static [ArgKind]) -> ArgSpec {
    ArgSpec { min, kinds }
}

/// A keyword with its raw arguments, cut from a word.
#[derive(Debug)]
pub(crate) struct Call {
    /// The keyword.
    pub(crate) name: Word,
    /// Its arguments, unquoted; `None` without parentheses.
    pub(crate) args: Option<Vec<Word>>,
}

impl Call {
    /// The arguments; none without parentheses.
    pub(crate) fn args(&self) -> &[Word] {
        self.args.as_deref().unwrap_or(&[])
    }
}

/// A part of a word as a word, for diagnostics that point into it.
pub(crate) fn sub_word(word: &Word, from: usize, to: usize) -> Word {
    let mut pos = word.pos;
    // Quotes and escapes make source and text differ; then pointing at the whole word is the best there is.
    if pos.len as usize == word.text.len() {
        pos.column += from as u32;
        pos.len = (to - from) as u32;
    }
    Word { text: word.text[from..to].to_vec(), pos }
}

/// Cuts `name` or `name(args)` at `at`; returns it and where it ends.
pub(crate) fn cut_call(word: &Word, at: usize) -> Result<(Call, usize), Diagnostic> {
    let text = &word.text[at..];
    let end = text.iter().position(|b| matches!(b, b'(' | b',' | b' ' | b'\t')).unwrap_or(text.len());
    let name = sub_word(word, at, at + end);
    if text.get(end) != Some(&b'(') {
        return Ok((Call { name, args: None }, at + end));
    }
    let (args, end) = cut_args(word, at + end)?;
    Ok((Call { name, args: Some(args) }, end))
}

/// Cuts the arguments between the parenthesis at `open` and the one that closes it.
fn cut_args(word: &Word, open: usize) -> Result<(Vec<Word>, usize), Diagnostic> {
    let text = &word.text;
    let mut list = Vec::new();
    let mut current = Vec::new();
    let (mut quote, mut start, mut at) = (None, open + 1, open + 1);
    while let Some(&b) = text.get(at) {
        match (quote, b) {
            (Some(q), _) if q == b => quote = None,
            (None, b'"' | b'\'') => quote = Some(b),
            (None | Some(b'"'), b'\\') => {
                at += unescape(&text[at..], quote.is_some(), &mut current);
                continue;
            }
            (None, b',' | b')') => {
                let mut arg = sub_word(word, start, at);
                arg.text = std::mem::take(&mut current);
                list.push(arg);
                if b == b')' {
                    return Ok((list, at + 1));
                }
                start = at + 1;
            }
            _ => current.push(b),
        }
        at += 1;
    }
    let what = if quote.is_some() { "a closing quote" } else { "')'" };
    Err(Diagnostic::error(
        word.pos,
        format!("missing {what} after '{}'", String::from_utf8_lossy(&text[..=open])),
    ))
}

/// One backslash sequence inside arguments; returns the bytes read.
fn unescape(text: &[u8], quoted: bool, out: &mut Vec<u8>) -> usize {
    let plain = match text.get(1) {
        Some(b @ (b'\\' | b'"')) => Some(*b),
        Some(b @ (b'\'' | b' ')) if !quoted => Some(*b),
        Some(b'n') if !quoted => Some(b'\n'),
        Some(b'r') if !quoted => Some(b'\r'),
        Some(b't') if !quoted => Some(b'\t'),
        _ => None,
    };
    match plain {
        Some(b) => {
            out.push(b);
            2
        }
        None => {
            out.push(b'\\');
            1
        }
    }
}

/// Gives the arguments of a call their types.
pub(crate) fn typed(call: &Call, spec: ArgSpec, scope: &mut Scope<'_>) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let raw = call.args();
    // `name()` is `name` with one empty argument, which only keywords that want text take as such.
    let raw = match raw {
        [only] if only.text.is_empty() && spec.min == 0 => &[],
        _ => raw,
    };
    if raw.len() > spec.kinds.len() {
        let most = spec.kinds.len();
        let extra = &raw[most];
        let message = match most {
            0 => format!("'{}' takes no arguments", call.name.as_str()),
            _ => format!("'{}' takes at most {most} arguments", call.name.as_str()),
        };
        return Err(vec![Diagnostic::error(extra.pos, message)]);
    }
    if raw.len() < usize::from(spec.min) {
        let missing = spec.kinds[raw.len()].name();
        let message = format!("'{}' needs at least {} arguments", call.name.as_str(), spec.min);
        return Err(vec![Diagnostic::error(call.name.pos, message).hint(format!("a {missing} is missing"))]);
    }
    let mut list = Vec::with_capacity(raw.len());
    let mut errors = Vec::new();
    for (at, (word, kind)) in raw.iter().zip(spec.kinds).enumerate() {
        if word.text.is_empty() && at >= usize::from(spec.min) {
            list.push(Arg::None);
            continue;
        }
        match typed_one(word, *kind, raw, scope) {
            Ok(arg) => list.push(arg),
            Err(e) => errors.push(e),
        }
    }
    if errors.is_empty() { Ok(list) } else { Err(errors) }
}

fn typed_one(word: &Word, kind: ArgKind, all: &[Word], scope: &mut Scope<'_>) -> Result<Arg, Diagnostic> {
    let wrong = || Diagnostic::error(word.pos, format!("'{}' is no {}", word.as_str(), kind.name()));
    let text = || std::str::from_utf8(&word.text).map_err(|_| wrong());
    Ok(match kind {
        ArgKind::Str => Arg::Str(word.text.as_slice().into()),
        ArgKind::Int => Arg::Int(number(&word.text).ok_or_else(wrong)?),
        ArgKind::IntOrVar => match number(&word.text) {
            Some(n) => Arg::Int(n),
            None => Arg::Var(VarName::parse(word).map_err(|_| wrong())?),
        },
        ArgKind::Var => Arg::Var(VarName::parse(word)?),
        ArgKind::StrOrVar => match VarName::parse(word) {
            Ok(name) => Arg::Var(name),
            Err(_) => Arg::Str(word.text.as_slice().into()),
        },
        ArgKind::Ipv4 => Arg::Ip(IpAddr::V4(text()?.parse().map_err(|_| wrong())?)),
        ArgKind::Ipv6 => Arg::Ip(IpAddr::V6(text()?.parse().map_err(|_| wrong())?)),
        ArgKind::Mask4 => Arg::Ip(mask4(text()?).map(IpAddr::V4).ok_or_else(wrong)?),
        ArgKind::Mask6 => Arg::Ip(mask6(text()?).map(IpAddr::V6).ok_or_else(wrong)?),
        ArgKind::Time => Arg::Int(parse_time(&word.text).ok_or_else(wrong)?),
        ArgKind::Frontend => {
            scope.refer(Target::Frontend(text()?.to_owned()), word.pos);
            Arg::Name(text()?.into())
        }
        ArgKind::Backend => {
            scope.refer(Target::Backend(text()?.to_owned()), word.pos);
            Arg::Name(text()?.into())
        }
        ArgKind::Table => {
            scope.refer(Target::Table { name: text()?.to_owned(), data: None }, word.pos);
            Arg::Name(text()?.into())
        }
        ArgKind::Server => {
            let (backend, server) = text()?.split_once('/').unwrap_or((&scope.proxy, text()?));
            let (backend, server) = (backend.to_owned(), server.to_owned());
            scope.refer(Target::Server { backend: backend.clone(), server: server.clone() }, word.pos);
            Arg::Server(backend.into(), server.into())
        }
        ArgKind::UserList => {
            let known = scope.shared.user_lists.get(text()?);
            Arg::UserList(known.cloned().ok_or_else(|| {
                Diagnostic::unknown("userlist", word, scope.shared.user_lists.keys().map(String::as_str))
            })?)
        }
        ArgKind::Regex => {
            let ignore_case = all.get(2).is_some_and(|flags| flags.text.contains(&b'i'));
            Arg::Regex(Box::new(pcre::compile(word, ignore_case, scope)?))
        }
        ArgKind::JsonPath => {
            Arg::JsonPath(Arc::new(JsonPath::parse(text()?).map_err(|e| Diagnostic::error(word.pos, e))?))
        }
        ArgKind::OneOf(list) => {
            let at = list.iter().position(|w| w.as_bytes() == word.text);
            let at = at.ok_or_else(|| Diagnostic::unknown("argument", word, list.iter().copied()))?;
            Arg::Choice(at as u8)
        }
    })
}

/// A number in decimal or `0x` form.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A mask in dotted form or as the number of bits.
pub(crate) fn mask4(text: &str) -> Option<Ipv4Addr> {
    if let Ok(bits) = text.parse::<u32>() {
        return (bits <= 32).then(|| Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)));
    }
    text.parse().ok()
}

/// A mask in colon form or as the number of bits.
pub(crate) fn mask6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(bits) = text.parse::<u32>() {
        return (bits <= 128).then(|| Ipv6Addr::from(u128::MAX.checked_shl(128 - bits).unwrap_or(0)));
    }
    text.parse().ok()
}

/// A duration of section 2.5 in milliseconds; without a unit it is milliseconds.
pub(crate) fn parse_time(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let n: i64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let ms = match &text[digits..] {
        b"us" => return Some((n + 999) / 1000),
        b"" | b"ms" => 1,
        b"s" => 1000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        _ => return None,
    };
    n.checked_mul(ms)
}

/// A size of section 2.6 in bytes.
pub(crate) fn parse_size(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let n: usize = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let unit = match &text[digits..] {
        b"" => 1,
        b"k" | b"K" => 1 << 10,
        b"m" | b"M" => 1 << 20,
        b"g" | b"G" => 1 << 30,
        _ => return None,
    };
    n.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut() {
        let check = |text: &str, expected: &[&str]| {
            let word = Word { text: text.as_bytes().to_vec(), ..Word::default() };
            let (call, end) = cut_call(&word, 0).expect(text);
            let list: Vec<_> = call.args().iter().map(|w| w.as_str().into_owned()).collect();
            assert_eq!(list, expected, "{text}");
            assert_eq!(end, text.len() - text.bytes().rev().take_while(|b| *b != b')').count(), "{text}");
        };
        check("f(a,b)", &["a", "b"]);
        check("f(\"a,b\")", &["a,b"]);
        check("f('a\\,b',c),lower", &["a\\,b", "c"]);
        check("f(a\\\\b)", &["a\\b"]);
        check("f(\"a\\1b\")", &["a\\1b"]);
        check("f(\"\\'a\\'\")", &["\\'a\\'"]);
        check("f(,)", &["", ""]);
        check("f()", &[""]);
    }

    #[test]
    fn times() {
        let check = |text: &str, expected| assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
        check("5", Some(5));
        check("5s", Some(5000));
        check("1m", Some(60_000));
        check("x", None);
        check("5x", None);
    }
}
