//! What a keyword is, and finding one in tables of them.
//!
//! Each family's file owns its entries; the list of families is `table`.

use std::collections::HashMap;

use weir_rules::words::diagnostic::nearest;
use weir_rules::{Diagnostic, Pos, Word};

use crate::language::args::{Args, Parsed, fail, fail_hint};
use crate::language::tree::SectionKind;
use crate::sections::{BindDraft, FcgiDraft, GlobalDraft, ProxyDraft, SectionDraft, ServerArgs, ServerDraft};

/// Places a keyword may stand in, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places(u32);

#[allow(missing_docs, reason = "each constant is the section of the same name")]
impl Places {
    pub const GLOBAL: Self = Self(1);
    pub const DEFAULTS: Self = Self(1 << 1);
    pub const FRONTEND: Self = Self(1 << 2);
    pub const LISTEN: Self = Self(1 << 3);
    pub const BACKEND: Self = Self(1 << 4);
    pub const BIND: Self = Self(1 << 5);
    pub const SERVER: Self = Self(1 << 6);
    pub const USERLIST: Self = Self(1 << 7);
    pub const PEERS: Self = Self(1 << 8);
    pub const RESOLVERS: Self = Self(1 << 9);
    pub const MAILERS: Self = Self(1 << 10);
    pub const CACHE: Self = Self(1 << 11);
    pub const RING: Self = Self(1 << 12);
    pub const LOG_FORWARD: Self = Self(1 << 13);
    pub const HTTP_ERRORS: Self = Self(1 << 14);
    pub const CRT_STORE: Self = Self(1 << 15);
    pub const PROGRAM: Self = Self(1 << 16);
    pub const FCGI_APP: Self = Self(1 << 17);
    pub const TRACES: Self = Self(1 << 18);
    pub const ACME: Self = Self(1 << 19);
    pub const LOG_PROFILE: Self = Self(1 << 20);
    pub const HEALTHCHECK: Self = Self(1 << 21);
    /// All four kinds of proxies.
    pub const PROXIES: Self = Self::DEFAULTS.or(Self::FRONTEND).or(Self::LISTEN).or(Self::BACKEND);
    /// defaults, frontend, listen.
    pub const FRONT: Self = Self::DEFAULTS.or(Self::FRONTEND).or(Self::LISTEN);
    /// defaults, listen, backend.
    pub const BACK: Self = Self::DEFAULTS.or(Self::LISTEN).or(Self::BACKEND);
    /// frontend, listen, backend.
    pub const NAMED: Self = Self::FRONTEND.or(Self::LISTEN).or(Self::BACKEND);

    /// Either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Both sets have a place in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Names of the places.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        PLACE_NAMES.iter().filter(|(place, _)| self.meets(*place)).map(|(_, name)| *name).collect()
    }

    /// Place of a kind of section.
    #[must_use]
    pub fn of(kind: SectionKind) -> Self {
        let word = kind.word();
        PLACE_NAMES.iter().find(|(_, name)| *name == word).map_or(Self(0), |(place, _)| *place)
    }
}

const PLACE_NAMES: &[(Places, &str)] = &[
    (Places::GLOBAL, "global"),
    (Places::DEFAULTS, "defaults"),
    (Places::FRONTEND, "frontend"),
    (Places::LISTEN, "listen"),
    (Places::BACKEND, "backend"),
    (Places::BIND, "bind line"),
    (Places::SERVER, "server line"),
    (Places::USERLIST, "userlist"),
    (Places::PEERS, "peers"),
    (Places::RESOLVERS, "resolvers"),
    (Places::MAILERS, "mailers"),
    (Places::CACHE, "cache"),
    (Places::RING, "ring"),
    (Places::LOG_FORWARD, "log-forward"),
    (Places::HTTP_ERRORS, "http-errors"),
    (Places::CRT_STORE, "crt-store"),
    (Places::PROGRAM, "program"),
    (Places::FCGI_APP, "fcgi-app"),
    (Places::TRACES, "traces"),
    (Places::ACME, "acme"),
    (Places::LOG_PROFILE, "log-profile"),
    (Places::HEALTHCHECK, "healthcheck"),
];

/// A keyword.
pub struct Keyword {
    /// As it is written, up to four words.
    pub name: &'static str,
    /// Where it may stand.
    pub places: Places,
    /// Its arguments, as in the manual.
    pub arguments: &'static str,
    /// What it does, in a sentence.
    pub doc: &'static str,
    /// `no` before it is allowed.
    pub negatable: bool,
    /// What holds where it does not stand, as it would be written.
    pub default: Option<&'static str>,
    /// Lines that are right in a section it may stand in; of bind and server lines, the words behind the address.
    pub example: Option<&'static str>,
    pub(crate) how: How,
}

/// What happens with a keyword.
pub(crate) enum How {
    Global(fn(&mut GlobalDraft<'_>, &mut Args<'_>) -> Parsed),
    Proxy(fn(&mut ProxyDraft<'_>, &mut Args<'_>) -> Parsed),
    Bind(fn(&mut BindDraft<'_>, &mut Args<'_>) -> Parsed),
    Server(fn(&mut ServerDraft, &mut ServerArgs<'_, '_, '_>) -> Parsed),
    /// Read by [`crate::tls`], for both kinds of lines.
    Tls,
    Section(fn(&mut SectionDraft<'_>, &mut Args<'_>) -> Parsed),
    Fcgi(fn(&mut FcgiDraft<'_>, &mut Args<'_>) -> Parsed),
    /// Read by [`crate::language::tree`] while lines are split.
    Tree,
    /// Accepted; the reason says why nothing changes.
    NoEffect(&'static str),
    /// Refused for now.
    NotYet,
    /// Refused for good; the reason says what to use instead.
    Removed(&'static str),
    /// Refused, although HAProxy has it: it belongs to a library or a program that this one does not have.
    Never(&'static str),
}

/// How far a keyword is supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is obeyed.
    Implemented,
    /// It is a hint for parts that this program does not have: accepted, and nothing that a user could observe
    /// differs from what it asks for, for this reason.
    NoEffect(&'static str),
    /// It is refused: not implemented yet.
    NotYet,
    /// It is refused as HAProxy refuses it, for this reason.
    Removed(&'static str),
    /// It is refused and will not come, for this reason.
    Never(&'static str),
}

impl Keyword {
    /// How far it is supported.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.how {
            How::NoEffect(reason) => Status::NoEffect(reason),
            How::NotYet => Status::NotYet,
            How::Removed(reason) => Status::Removed(reason),
            How::Never(reason) => Status::Never(reason),
            _ => Status::Implemented,
        }
    }

    /// The error for a keyword that is known and not obeyed.
    pub(crate) fn refused<T>(&self, pos: Pos) -> Parsed<T> {
        match self.how {
            How::Removed(reason) => fail_hint(pos, format!("'{}' is no longer supported", self.name), reason),
            How::Never(reason) => fail_hint(pos, format!("'{}' is not supported", self.name), reason),
            _ => fail(pos, format!("'{}' is not implemented yet", self.name)),
        }
    }

    /// The same keyword with `no` allowed.
    pub(crate) const fn negatable(mut self) -> Self {
        self.negatable = true;
        self
    }

    /// The same keyword with what holds where it does not stand.
    pub(crate) const fn default(mut self, written: &'static str) -> Self {
        self.default = Some(written);
        self
    }

    /// The same keyword with an example, which a test reads.
    pub(crate) const fn example(mut self, lines: &'static str) -> Self {
        self.example = Some(lines);
        self
    }
}

/// An entry of a table.
pub(crate) const fn keyword(
    name: &'static str,
    places: Places,
    arguments: &'static str,
    doc: &'static str,
    how: How,
) -> Keyword {
    Keyword { name, places, arguments, doc, negatable: false, default: None, example: None, how }
}

/// Outcome of a search.
pub(crate) enum Found {
    /// The keyword and the number of words it took.
    Here(&'static Keyword, usize),
    /// It exists, in other places.
    Elsewhere(&'static Keyword),
    Unknown,
}

/// Tables that keywords are looked up in: all of them, or those of one kind of lines.
pub(crate) struct Index {
    tables: &'static [&'static [Keyword]],
    by_name: HashMap<&'static str, Vec<&'static Keyword>>,
    /// Most words of a keyword that starts with this word.
    words: HashMap<&'static str, usize>,
}

impl Index {
    pub(crate) fn new(tables: &'static [&'static [Keyword]]) -> Self {
        let mut index = Self { tables, by_name: HashMap::new(), words: HashMap::new() };
        for keyword in tables.iter().flat_map(|table| table.iter()) {
            index.by_name.entry(keyword.name).or_default().push(keyword);
            let count = keyword.name.split(' ').count();
            let first = keyword.name.split(' ').next().unwrap_or_default();
            let most = index.words.entry(first).or_default();
            *most = count.max(*most);
        }
        index
    }

    /// Every keyword.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Keyword> + use<> {
        self.tables.iter().flat_map(|table| table.iter())
    }

    /// Keywords of that name in all places.
    pub(crate) fn named(&self, name: &str) -> &[&'static Keyword] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The longest keyword that a line starts with.
    pub(crate) fn find(&self, line: &[Word], place: Places) -> Found {
        let Some(first) = line.first() else { return Found::Unknown };
        let first_text = name_part(first);
        let longest = self.words.get(first_text.as_ref()).copied().unwrap_or(0);
        let mut elsewhere = Found::Unknown;
        for count in (1..=longest.min(line.len())).rev() {
            let mut name = first_text.clone().into_owned();
            for word in &line[1..count] {
                name.push(' ');
                name.push_str(&name_part(word));
            }
            let Some(list) = self.by_name.get(name.as_str()) else { continue };
            if let Some(keyword) = list.iter().find(|keyword| keyword.places.meets(place)) {
                return Found::Here(keyword, count);
            }
            if matches!(elsewhere, Found::Unknown) {
                let of_proxies = list.iter().find(|keyword| keyword.places.meets(Places::PROXIES));
                elsewhere = Found::Elsewhere(of_proxies.unwrap_or(&list[0]));
            }
        }
        elsewhere
    }

    /// A word that is no keyword of a place, with the nearest one that is.
    pub(crate) fn unknown(&self, line: &[Word], place: Places, where_: &str) -> Diagnostic {
        let first = &line[0];
        let text = first.as_str();
        let known = || self.all().filter(|keyword| keyword.places.meets(place));
        // When the first word is right, the second one is what is wrong.
        let prefix = format!("{text} ");
        let seconds: Vec<&str> = known().filter_map(|k| k.name.strip_prefix(&prefix)).collect();
        if seconds.is_empty() {
            let found = Diagnostic::error(first.pos, format!("unknown keyword '{text}' in {where_}"));
            return match nearest(&text, known().map(|keyword| keyword.name)) {
                Some(near) => found.hint(format!("did you mean '{near}'?")),
                None => found,
            };
        }
        let Some(second) = line.get(1) else {
            let mut names: Vec<&str> = seconds.iter().filter_map(|name| name.split(' ').next()).collect();
            names.dedup();
            return Diagnostic::error(first.pos, format!("'{text}' expects one more word in {where_}"))
                .hint(format!("one of {}", names.join(", ")));
        };
        let found = Diagnostic::error(
            second.pos,
            format!("unknown keyword '{text} {}' in {where_}", second.as_str()),
        );
        match nearest(&second.as_str(), seconds.iter().copied()) {
            Some(near) => found.hint(format!("did you mean '{text} {near}'?")),
            None => found.hint(format!("one of {} was expected", seconds.join(", "))),
        }
    }
}

/// The word without what stands in parentheses (`set-var(txn.a)`).
fn name_part(word: &Word) -> std::borrow::Cow<'_, str> {
    let end = word.text.iter().position(|b| *b == b'(').unwrap_or(word.text.len());
    String::from_utf8_lossy(&word.text[..end])
}

/// The error for a keyword that is known and not there yet.
pub(crate) fn not_yet(word: &Word, name: &str) -> Vec<Diagnostic> {
    vec![Diagnostic::error(word.pos, format!("'{name}' is not implemented yet"))]
}
