//! Arguments of fetches, converters and actions with their types.
//!
//! Owns giving them types; they are split in `words::call`.

use std::net::IpAddr;
use std::sync::Arc;

use crate::data::auth::UserList;
use crate::data::json_path::JsonPath;
use crate::data::pattern::PatternView;
use crate::expr::acl::Acl;
use crate::expr::scope::Target;
use crate::facts::vars::VarName;
use crate::words::call::{Call, mask4, mask6, number, parse_time};
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
            Arg::Regex(Box::new(scope.regex(word, ignore_case)?))
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
