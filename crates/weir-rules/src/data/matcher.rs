//! Matching methods: a value against a set of patterns (`-m str`, `beg`, `ip`, `reg`, ...).
//!
//! Owns the compiled pattern set, shared by ACLs (does anything match?) and maps (which entry matches?).

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use regex::bytes::Regex;
use smallvec::SmallVec;

use crate::data::pcre;
use crate::value::codec::decode_hex;
use crate::value::{Type, Value, embedded_v4};

/// Matching methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the method of the same name")]
pub enum Method {
    Found,
    Bool,
    Int,
    Ip,
    Bin,
    Len,
    Str,
    Beg,
    Sub,
    Dir,
    Dom,
    End,
    Reg,
}

/// A matching method (`-m`).
pub struct Matcher {
    /// Its word behind `-m`, also the suffix of keywords like `path_beg`.
    pub name: &'static str,
    /// What it compares, one line.
    pub doc: &'static str,
}

/// All methods in the order of [`Method`].
pub(crate) static METHODS: &[Matcher] = &[
    Matcher { name: "found", doc: "The value exists." },
    Matcher { name: "bool", doc: "The value is true or a number other than 0." },
    Matcher {
        name: "int",
        doc: "The number is one of the values or ranges, or compares with eq, ge, gt, le, lt.",
    },
    Matcher { name: "ip", doc: "The address is one of the addresses or in one of the networks." },
    Matcher { name: "bin", doc: "The bytes equal one of the hexadecimal blocks." },
    Matcher { name: "len", doc: "The length is one of the numbers or ranges." },
    Matcher { name: "str", doc: "The string equals one of the values." },
    Matcher { name: "beg", doc: "The string begins with one of the values." },
    Matcher { name: "sub", doc: "The string contains one of the values." },
    Matcher { name: "dir", doc: "The string contains one of the values between slashes." },
    Matcher {
        name: "dom",
        doc: "The string contains one of the values between dots, slashes, colons or question marks.",
    },
    Matcher { name: "end", doc: "The string ends with one of the values." },
    Matcher { name: "reg", doc: "The string matches one of the regular expressions." },
];

impl Method {
    const ALL: [Self; 13] = [
        Self::Found,
        Self::Bool,
        Self::Int,
        Self::Ip,
        Self::Bin,
        Self::Len,
        Self::Str,
        Self::Beg,
        Self::Sub,
        Self::Dir,
        Self::Dom,
        Self::End,
        Self::Reg,
    ];

    /// The method with this word.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        let at = METHODS.iter().position(|m| m.name.as_bytes() == word)?;
        Some(Self::ALL[at])
    }

    /// The method used when none is named.
    pub(crate) fn of_type(kind: Type) -> Option<Self> {
        match kind {
            Type::Bool => Some(Self::Bool),
            Type::Int => Some(Self::Int),
            Type::Ip => Some(Self::Ip),
            Type::Str | Type::Method => Some(Self::Str),
            Type::Bin | Type::Any => None,
        }
    }

    /// Whether values of this type can be matched.
    pub(crate) fn accepts(self, kind: Type) -> bool {
        match self {
            Self::Found => true,
            Self::Bool => matches!(kind, Type::Bool | Type::Int | Type::Any | Type::Str),
            Self::Int => kind.converts_to(Type::Int),
            Self::Ip => kind.converts_to(Type::Ip),
            _ => true,
        }
    }

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        METHODS[self as usize].name
    }
}

/// A range of numbers; open ends are the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IntRange {
    min: i64,
    max: i64,
}

/// Comparison before numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
}

impl Operator {
    /// The operator with this word.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"eq" => Self::Eq,
            b"ge" => Self::Ge,
            b"gt" => Self::Gt,
            b"le" => Self::Le,
            b"lt" => Self::Lt,
            _ => return None,
        })
    }
}

/// A pattern as it is written, with what it takes to read it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its text.
    pub(crate) text: Box<[u8]>,
    /// Operator in force before it.
    pub(crate) operator: Operator,
}

/// How patterns are read and compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) method: Method,
    pub(crate) ignore_case: bool,
    /// Numbers are versions: `3.1` is 3 << 16 + 1.
    pub(crate) dotted: bool,
}

/// A compiled set of patterns; each is known by its place.
#[derive(Debug)]
pub(crate) struct Patterns {
    rules: Rules,
    index: Index,
}

/// The index behind the methods.  Places are of the first of equal patterns.
#[derive(Debug)]
enum Index {
    /// Everything that has a value (found, bool): no patterns.
    Always,
    Few(Vec<Box<[u8]>>),
    Exact(HashMap<Box<[u8]>, usize>),
    /// Few prefixes or suffixes, longest first, with their places.
    FewAffixes(Vec<(Box<[u8]>, usize)>),
    /// Prefixes or suffixes by length, longest first.
    Affix {
        lengths: Vec<usize>,
        map: HashMap<Box<[u8]>, usize>,
    },
    Linear(Vec<Box<[u8]>>),
    Int(Vec<IntRange>),
    Ip(Box<IpSet>),
    Reg(Vec<Regex>),
}

/// Sets up to this size are compared one by one: cheaper than hashing.
const FEW: usize = 6;

impl Patterns {
    /// Compiles patterns; the error names the one that cannot be read by its place.
    pub(crate) fn compile(rules: Rules, sources: &[Source]) -> Result<Self, (usize, String)> {
        let each = |f: &dyn Fn(&Source) -> Result<IntRange, String>| {
            sources.iter().enumerate().map(|(at, s)| f(s).map_err(|e| (at, e))).collect::<Result<Vec<_>, _>>()
        };
        let index = match rules.method {
            Method::Found | Method::Bool => Index::Always,
            Method::Int | Method::Len => Index::Int(each(&|s| parse_range(s, rules.dotted))?),
            Method::Ip => Index::Ip(Box::new(IpSet::compile(sources)?)),
            Method::Str => exact(texts(rules, sources)),
            Method::Bin => {
                let decode = |(at, s): (usize, &Source)| {
                    let text = String::from_utf8_lossy(&s.text);
                    decode_hex(&s.text)
                        .map(Vec::into_boxed_slice)
                        .ok_or_else(|| (at, format!("'{text}' is no hexadecimal block")))
                };
                exact(sources.iter().enumerate().map(decode).collect::<Result<_, _>>()?)
            }
            Method::Beg | Method::End => affix(texts(rules, sources)),
            Method::Sub | Method::Dir => Index::Linear(texts(rules, sources)),
            Method::Dom => {
                Index::Linear(texts(rules, sources).iter().map(|t| trim_domain(t).into()).collect())
            }
            Method::Reg => {
                let compile = |(at, s): (usize, &Source)| {
                    pcre::compile_bytes(&s.text, rules.ignore_case).map_err(|e| (at, e))
                };
                Index::Reg(sources.iter().enumerate().map(compile).collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { rules, index })
    }

    /// Whether any pattern matches.
    pub(crate) fn matches(&self, value: &Value<'_>) -> bool {
        match self.rules.method {
            Method::Found => true,
            Method::Bool => value.to_bool().unwrap_or(false),
            _ => self.find(value).is_some(),
        }
    }

    /// The regular expression at a place.
    pub(crate) fn regex(&self, at: usize) -> Option<&Regex> {
        match &self.index {
            Index::Reg(list) => list.get(at),
            _ => None,
        }
    }

    /// Place of the pattern that matches.
    pub(crate) fn find(&self, value: &Value<'_>) -> Option<usize> {
        match &self.index {
            Index::Always => Some(0),
            Index::Int(list) => {
                let n = match (self.rules.method, value) {
                    (Method::Len, other) => with_bytes(other, |b| b.len() as i64),
                    (_, other) => other.to_int()?,
                };
                list.iter().position(|r| r.min <= n && n <= r.max)
            }
            Index::Ip(set) => set.find(value.to_ip()?),
            _ => with_bytes(value, |bytes| self.find_bytes(bytes)),
        }
    }

    fn find_bytes(&self, bytes: &[u8]) -> Option<usize> {
        if let Index::Reg(list) = &self.index {
            return list.iter().position(|r| r.is_match(bytes));
        }
        if !self.rules.ignore_case || self.rules.method == Method::Bin {
            return self.find_folded(bytes);
        }
        let mut lower: SmallVec<[u8; 256]> = SmallVec::from_slice(bytes);
        lower.make_ascii_lowercase();
        self.find_folded(&lower)
    }

    /// Looks up bytes in the letter case the patterns were stored in.
    fn find_folded(&self, bytes: &[u8]) -> Option<usize> {
        match &self.index {
            Index::Few(list) => list.iter().position(|p| **p == *bytes),
            Index::Exact(map) => map.get(bytes).copied(),
            Index::FewAffixes(list) => {
                let suffix = self.rules.method == Method::End;
                let found =
                    list.iter().find(|(p, _)| if suffix { bytes.ends_with(p) } else { bytes.starts_with(p) });
                found.map(|(_, at)| *at)
            }
            Index::Affix { lengths, map } => {
                lengths.iter().filter(|len| **len <= bytes.len()).find_map(|len| {
                    let part = match self.rules.method {
                        Method::End => &bytes[bytes.len() - len..],
                        _ => &bytes[..*len],
                    };
                    map.get(part).copied()
                })
            }
            Index::Linear(list) => list.iter().position(|p| match self.rules.method {
                Method::Dir => contains_delimited(bytes, p, |b| b == b'/'),
                Method::Dom => contains_delimited(bytes, p, is_domain_delimiter),
                _ => memchr::memmem::find(bytes, p).is_some(),
            }),
            Index::Always | Index::Int(_) | Index::Ip(_) | Index::Reg(_) => None,
        }
    }
}

/// Runs `f` on the bytes of a value without copying strings.
fn with_bytes<T>(value: &Value<'_>, f: impl FnOnce(&[u8]) -> T) -> T {
    match value {
        Value::Str(b) | Value::Bin(b) | Value::Method(b) => f(b),
        other => {
            let mut text = Vec::with_capacity(40);
            other.append_to(&mut text);
            f(&text)
        }
    }
}

fn texts(rules: Rules, sources: &[Source]) -> Vec<Box<[u8]>> {
    let fold = |s: &Source| match rules.ignore_case {
        true => s.text.to_ascii_lowercase().into(),
        false => s.text.clone(),
    };
    sources.iter().map(fold).collect()
}

fn exact(texts: Vec<Box<[u8]>>) -> Index {
    if texts.len() <= FEW {
        return Index::Few(texts);
    }
    let mut map = HashMap::with_capacity(texts.len());
    for (at, text) in texts.into_iter().enumerate() {
        map.entry(text).or_insert(at);
    }
    Index::Exact(map)
}

fn affix(texts: Vec<Box<[u8]>>) -> Index {
    if texts.len() <= FEW {
        let mut list: Vec<_> = texts.into_iter().enumerate().map(|(at, text)| (text, at)).collect();
        list.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        return Index::FewAffixes(list);
    }
    let mut lengths: Vec<_> = texts.iter().map(|t| t.len()).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    let mut map = HashMap::with_capacity(texts.len());
    for (at, text) in texts.into_iter().enumerate() {
        map.entry(text).or_insert(at);
    }
    Index::Affix { lengths, map }
}

/// Whether `part` stands in `text` between delimiters or the ends.
fn contains_delimited(text: &[u8], part: &[u8], is_delimiter: impl Fn(u8) -> bool + Copy) -> bool {
    let part_start = part.iter().take_while(|b| is_delimiter(**b)).count();
    let part_end = part.len() - part[part_start..].iter().rev().take_while(|b| is_delimiter(**b)).count();
    let part = &part[part_start..part_end];
    if part.is_empty() {
        return false;
    }
    memchr::memmem::find_iter(text, part).any(|at| {
        let before = at == 0 || is_delimiter(text[at - 1]);
        let end = at + part.len();
        before && (end == text.len() || is_delimiter(text[end]))
    }) || overlapping(text, part, is_delimiter)
}

/// Occurrences that overlap an earlier one (`a/a` in `xa/a/a`) are not seen by the fast search.
fn overlapping(text: &[u8], part: &[u8], is_delimiter: impl Fn(u8) -> bool) -> bool {
    if part.len() < 3 || text.len() < part.len() {
        return false;
    }
    text.windows(part.len()).enumerate().any(|(at, w)| {
        let end = at + part.len();
        w == part && (at == 0 || is_delimiter(text[at - 1])) && (end == text.len() || is_delimiter(text[end]))
    })
}

fn is_domain_delimiter(b: u8) -> bool {
    matches!(b, b'/' | b'?' | b'.' | b':')
}

fn trim_domain(text: &[u8]) -> &[u8] {
    let start = text.iter().take_while(|b| is_domain_delimiter(**b)).count();
    let end = text.len() - text[start..].iter().rev().take_while(|b| is_domain_delimiter(**b)).count();
    &text[start..end]
}

/// `5`, `1:10`, `:10`, `1:`, `1-10`, `1-`, with versions in dotted form.
fn parse_range(source: &Source, dotted: bool) -> Result<IntRange, String> {
    let text = String::from_utf8_lossy(&source.text);
    let wrong = || format!("'{text}' is no number or range");
    let number = |t: &str| -> Result<i64, String> {
        if !dotted {
            return t.parse().map_err(|_| wrong());
        }
        let (major, minor) = t.split_once('.').unwrap_or((t, "0"));
        let part = |p: &str| p.parse::<u16>().map(i64::from).map_err(|_| wrong());
        Ok((part(major)? << 16) + part(minor)?)
    };
    // A hyphen in front is a sign.
    let hyphen = || text.get(1..)?.find('-').map(|at| (&text[..=at], &text[at + 2..]));
    let (min, max) = match text.split_once(':').or_else(hyphen) {
        Some((min, max)) => {
            let min = if min.is_empty() { i64::MIN } else { number(min)? };
            let max = if max.is_empty() { i64::MAX } else { number(max)? };
            (min, max)
        }
        None => {
            let n = number(&text)?;
            // A version without a minor part is all of its minors only as an upper bound of a range.
            (n, n)
        }
    };
    Ok(match source.operator {
        Operator::Eq => IntRange { min, max },
        Operator::Ge => IntRange { min, max: i64::MAX },
        Operator::Gt => IntRange { min: max.saturating_add(1), max: i64::MAX },
        Operator::Le => IntRange { min: i64::MIN, max },
        Operator::Lt => IntRange { min: i64::MIN, max: min.saturating_sub(1) },
    })
}

/// Addresses and networks: one hash table per prefix length, longest first.
#[derive(Debug, Default)]
struct IpSet {
    v4: Prefixes<u32>,
    v6: Prefixes<u128>,
    /// Networks whose mask has holes: (address, mask, place).
    odd: Vec<(u32, u32, usize)>,
}

#[derive(Debug)]
struct Prefixes<T> {
    lengths: Vec<u8>,
    map: HashMap<(u8, T), usize>,
}

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self { lengths: Vec::new(), map: HashMap::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Prefixes<T> {
    fn insert(&mut self, len: u8, address: T, at: usize) {
        if let Err(place) = self.lengths.binary_search_by(|l| len.cmp(l)) {
            self.lengths.insert(place, len);
        }
        self.map.entry((len, address)).or_insert(at);
    }

    fn find(&self, mask: impl Fn(u8) -> T) -> Option<usize> {
        self.lengths.iter().find_map(|len| self.map.get(&(*len, mask(*len))).copied())
    }
}

fn mask32(address: u32, len: u8) -> u32 {
    address & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

fn mask128(address: u128, len: u8) -> u128 {
    address & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

impl IpSet {
    fn compile(sources: &[Source]) -> Result<Self, (usize, String)> {
        let mut set = Self::default();
        for (at, source) in sources.iter().enumerate() {
            let text = String::from_utf8_lossy(&source.text);
            match parse_network(&text) {
                Some((IpAddr::V4(ip), mask)) => {
                    let (ip, mask) = (u32::from(ip), mask as u32);
                    match mask.leading_ones() {
                        len if len == mask.count_ones() => set.v4.insert(len as u8, ip & mask, at),
                        _ => set.odd.push((ip & mask, mask, at)),
                    }
                }
                Some((IpAddr::V6(ip), mask)) => {
                    let len = mask.leading_ones() as u8;
                    set.v6.insert(len, mask128(u128::from(ip), len), at);
                }
                None => {
                    let message =
                        format!("'{text}' is no address or network (host names are not implemented yet)");
                    return Err((at, message));
                }
            }
        }
        Ok(set)
    }

    fn find(&self, ip: IpAddr) -> Option<usize> {
        match ip {
            IpAddr::V4(ip) => self.find_v4(ip).or_else(|| self.find_v6(ip.to_ipv6_mapped())),
            IpAddr::V6(ip) => self.find_v6(ip).or_else(|| self.find_v4(embedded_v4(ip)?)),
        }
    }

    fn find_v4(&self, ip: Ipv4Addr) -> Option<usize> {
        let ip = u32::from(ip);
        self.v4.find(|len| mask32(ip, len)).or_else(|| {
            self.odd.iter().find(|(address, mask, _)| ip & mask == *address).map(|(_, _, at)| *at)
        })
    }

    fn find_v6(&self, ip: Ipv6Addr) -> Option<usize> {
        let ip = u128::from(ip);
        self.v6.find(|len| mask128(ip, len))
    }
}

/// An address with an optional mask; IPv4 masks count in the low 32 bits.
fn parse_network(text: &str) -> Option<(IpAddr, u128)> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    if address.contains(':') {
        let ip: Ipv6Addr = address.parse().ok()?;
        let mask = mask.map_or(Some(u128::MAX), |m| {
            m.parse::<u8>().ok().filter(|l| *l <= 128).map(|l| mask128(u128::MAX, l))
        })?;
        return Some((IpAddr::V6(ip), mask));
    }
    let ip = parse_short_v4(address)?;
    let mask = mask.map_or(Some(Ipv4Addr::BROADCAST), crate::words::call::mask4)?;
    Some((IpAddr::V4(ip), u128::from(u32::from(mask))))
}

/// IPv4 with left-out octets: `127.1` is 127.0.0.1, `192.168.1` is 192.168.0.1.
fn parse_short_v4(text: &str) -> Option<Ipv4Addr> {
    let parts = text.split('.').map(|p| p.parse::<u32>().ok()).collect::<Option<SmallVec<[u32; 4]>>>()?;
    let (last, head) = parts.split_last()?;
    if head.len() > 3 || head.iter().any(|p| *p > 255) {
        return None;
    }
    let room = 32 - 8 * head.len() as u32;
    if room < 32 && *last >= 1 << room {
        return None;
    }
    let head: u32 = head.iter().enumerate().map(|(at, p)| p << (24 - 8 * at)).sum();
    Some(Ipv4Addr::from(head | last))
}

/// Lower case without a copy when it is already.
pub(crate) fn to_lower(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if bytes.iter().any(u8::is_ascii_uppercase) {
        let mut owned = bytes.into_owned();
        owned.make_ascii_lowercase();
        return Cow::Owned(owned);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(method: &str, ignore_case: bool, list: &[&str]) -> Patterns {
        let method = Method::parse(method.as_bytes()).expect(method);
        let mut operator = Operator::Eq;
        let mut sources = Vec::new();
        for text in list {
            match Operator::parse(text.as_bytes()) {
                Some(found) => operator = found,
                None => sources.push(Source { text: text.as_bytes().into(), operator }),
            }
        }
        Patterns::compile(Rules { method, ignore_case, dotted: false }, &sources).expect("patterns")
    }

    #[test]
    fn strings() {
        let check = |method, list: &[&str], value: &str, expected| {
            let found = patterns(method, false, list).matches(&Value::text(value.as_bytes()));
            assert_eq!(found, expected, "{method} {list:?} {value}");
        };
        check("str", &["a", "b"], "b", true);
        check("str", &["a", "b"], "B", false);
        check("beg", &["/api/", "/static"], "/static/x", true);
        check("beg", &["/api/"], "/ap", false);
        check("end", &[".js", ".css"], "x.css", true);
        check("sub", &["ell"], "hello", true);
        let image = "/images/png/logo/32x32.png";
        check("dir", &["/images"], image, true);
        check("dir", &["images/png"], image, true);
        check("dir", &["32x32.png"], image, true);
        check("dir", &["png"], "/xpng", false);
        check("dir", &["32x32"], image, false);
        let url = "http://www1.dc-eu.example.com:80/blah";
        for part in [
            "http",
            "www1",
            ".www1",
            "dc-eu",
            "com",
            "80",
            "dc-eu.example",
            "blah",
            ":www1:",
            "example.com:80",
        ] {
            check("dom", &[part], url, true);
        }
        check("dom", &["eu"], url, false);
        check("dom", &["dc"], url, false);
        check("len", &["3"], "abc", true);
        check("len", &["gt", "3"], "abc", false);
        check("bin", &["616263"], "abc", true);
        check("reg", &["^a.c$"], "abc", true);
    }

    #[test]
    fn ignored_case() {
        assert!(patterns("str", true, &["ABC"]).matches(&Value::text(b"aBc")));
        assert!(patterns("end", true, &[".JPG"]).matches(&Value::text(b"x.jpg")));
        assert!(patterns("reg", true, &["^a"]).matches(&Value::text(b"A")));
    }

    #[test]
    fn numbers() {
        let check = |list: &[&str], n, expected| {
            assert_eq!(patterns("int", false, list).matches(&Value::Int(n)), expected, "{list:?} {n}");
        };
        check(&["5"], 5, true);
        check(&["1:3", "7"], 2, true);
        check(&["1:3", "7"], 4, false);
        check(&["gt", "5"], 5, false);
        check(&["gt", "5"], 6, true);
        check(&["ge", "5"], 5, true);
        check(&["lt", "0"], -1, true);
        check(&["le", "5"], 6, false);
        check(&["1024:"], 65535, true);
        check(&[":10"], 0, true);
    }

    #[test]
    fn addresses() {
        let check = |list: &[&str], ip: &str, expected| {
            let ip = Value::Ip(ip.parse().expect(ip));
            assert_eq!(patterns("ip", false, list).matches(&ip), expected, "{list:?} {ip:?}");
        };
        check(&["10.0.0.0/8"], "10.1.2.3", true);
        check(&["10.0.0.0/8"], "11.1.2.3", false);
        check(&["127.1"], "127.0.0.1", true);
        check(&["192.168.1/22"], "192.168.3.9", true);
        check(&["1.2.3.4/255.0.0.255"], "1.9.9.4", true);
        check(&["::1", "2001:db8::/32"], "2001:db8::7", true);
        check(&["10.0.0.0/8"], "::ffff:10.1.1.1", true);
        check(&["::ffff:10.0.0.0/104"], "10.9.9.9", true);
        check(&["10.0.0.0/8"], "2002:a00:1::", true);
    }

    #[test]
    fn longest_network_and_prefix_win() {
        let networks = patterns("ip", false, &["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!(networks.find(&Value::Ip([10, 1, 2, 3].into())), Some(1));
        let prefixes = patterns("beg", false, &["/", "/api/", "/a"]);
        assert_eq!(prefixes.find(&Value::text(b"/api/x")), Some(1));
    }
}
