//! The vocabulary as one table: every fetch, converter, matching method and action.
//!
//! Owns the shape of the entries and looking them up; the entries stand in the file of their family.
//! The parser, the checker, the manual and the tests read the same entries.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::expr::Cursor;
use crate::expr::args::{Arg, ArgSpec, Args, Call};
use crate::value::{Type, Value};
use crate::words::manual;
use crate::{Diagnostic, Scope, Txn};

/// Code of a fetch.
pub(crate) type FetchFn = for<'a> fn(&'a Txn, &'a Args, &mut Cursor) -> Option<Value<'a>>;
/// Code of a converter.
pub(crate) type ConvertFn = for<'a> fn(Value<'a>, &'a Args, &'a Txn) -> Option<Value<'a>>;
/// Parses arguments that are more than a list of typed words.
pub(crate) type PrepareFn = fn(&Call, &mut Scope<'_>, &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>>;

/// An expression and what it renders to for the example request; `None` when it finds nothing.
pub type Example = (&'static str, Option<&'static str>);

/// What a fetch reads; decides where it may stand and whether a missing value may still come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing of the transaction.
    Nothing,
    /// The client's connection.
    Client,
    /// Bytes of the request in TCP mode.
    RequestBuffer,
    /// The request's head.
    RequestHead,
    /// The request's body.
    RequestBody,
    /// Facts of the request that are kept until the end (captures, method, URI for logs).
    RequestKept,
    /// The backend: in the rules of one.
    Backend,
    /// The server and the connection to it.
    Server,
    /// Bytes of the response in TCP mode.
    ResponseBuffer,
    /// The response's head.
    ResponseHead,
    /// The response's body.
    ResponseBody,
    /// Facts of the response that are kept until the end.
    ResponseKept,
}

impl Needs {
    /// What it needs, in words for diagnostics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Client => "the client's connection",
            Self::RequestBuffer => "request bytes",
            Self::RequestHead => "the request's headers",
            Self::RequestBody => "the request's body",
            Self::RequestKept => "the request",
            Self::Backend => "a backend",
            Self::Server => "the server's connection",
            Self::ResponseBuffer => "response bytes",
            Self::ResponseHead => "the response's headers",
            Self::ResponseBody => "the response's body",
            Self::ResponseKept => "the response",
        }
    }
}

/// A sample fetch.
pub struct Fetch {
    /// Keyword.
    pub name: &'static str,
    /// Arguments.
    pub args: ArgSpec,
    /// Type of its values.
    pub output: Type,
    /// What it reads.
    pub needs: Needs,
    /// What it returns, one line.
    pub doc: &'static str,
    /// Expressions with their results.
    pub examples: &'static [Example],
    /// May return several values, each tried by ACLs.
    pub(crate) multi: bool,
    pub(crate) variant: &'static str,
    pub(crate) prepare: Option<PrepareFn>,
    pub(crate) eval: FetchFn,
}

/// An entry for a fetch.
pub(crate) const fn fetch(
    name: &'static str,
    args: ArgSpec,
    output: Type,
    needs: Needs,
    doc: &'static str,
    eval: FetchFn,
) -> Fetch {
    Fetch { name, args, output, needs, doc, examples: &[], multi: false, variant: name, prepare: None, eval }
}

impl Fetch {
    pub(crate) const fn multi(mut self) -> Self {
        self.multi = true;
        self
    }

    pub(crate) const fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    pub(crate) const fn prepare(mut self, prepare: PrepareFn) -> Self {
        self.prepare = Some(prepare);
        self
    }

    pub(crate) const fn examples(mut self, examples: &'static [Example]) -> Self {
        self.examples = examples;
        self
    }
}

/// A converter.
pub struct Converter {
    /// Keyword.
    pub name: &'static str,
    /// Arguments.
    pub args: ArgSpec,
    /// Type it takes; others are converted to it first.
    pub input: Type,
    /// Type it returns; [`Type::Any`] keeps the input's.
    pub output: Type,
    /// What it does, one line.
    pub doc: &'static str,
    /// Expressions with their results.
    pub examples: &'static [Example],
    pub(crate) variant: &'static str,
    pub(crate) prepare: Option<PrepareFn>,
    pub(crate) eval: ConvertFn,
}

/// An entry for a converter.
pub(crate) const fn converter(
    name: &'static str,
    args: ArgSpec,
    input: Type,
    output: Type,
    doc: &'static str,
    eval: ConvertFn,
) -> Converter {
    Converter { name, args, input, output, doc, examples: &[], variant: name, prepare: None, eval }
}

impl Converter {
    pub(crate) const fn prepare(mut self, prepare: PrepareFn) -> Self {
        self.prepare = Some(prepare);
        self
    }

    pub(crate) const fn examples(mut self, examples: &'static [Example]) -> Self {
        self.examples = examples;
        self
    }
}

/// A matching method (`-m`).
pub struct Matcher {
    /// Its word behind `-m`, also the suffix of keywords like `path_beg`.
    pub name: &'static str,
    /// What it compares, one line.
    pub doc: &'static str,
}

/// What is known of a keyword of the manual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It works.
    Implemented,
    /// It is refused with "not implemented yet".
    Missing,
}

/// A keyword for the manual and its list of what works.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Keyword.
    pub name: &'static str,
    /// Whether it works.
    pub status: Status,
    /// What it does, one line; empty when it is missing.
    pub doc: &'static str,
}

type Table<T> = LazyLock<HashMap<&'static str, &'static T>>;

static FETCHES: Table<Fetch> =
    LazyLock::new(|| crate::fetch::families().into_iter().flatten().map(|f| (f.name, f)).collect());
static CONVERTERS: Table<Converter> =
    LazyLock::new(|| crate::convert::families().into_iter().flatten().map(|c| (c.name, c)).collect());

/// The fetch with this keyword.
#[must_use]
pub fn find_fetch(name: &[u8]) -> Option<&'static Fetch> {
    FETCHES.get(std::str::from_utf8(name).ok()?).copied()
}

/// The converter with this keyword.
#[must_use]
pub fn find_converter(name: &[u8]) -> Option<&'static Converter> {
    CONVERTERS.get(std::str::from_utf8(name).ok()?).copied()
}

/// Entries of a table together with the manual's keywords that it lacks, by name.
fn entries(known: Vec<(&'static str, &'static str)>, manual: &[&'static str]) -> Vec<Entry> {
    let missing = manual.iter().filter(|name| !known.iter().any(|(k, _)| k == *name));
    let missing = missing.map(|name| Entry { name, status: Status::Missing, doc: "" });
    let implemented = known.iter().map(|(name, doc)| Entry { name, status: Status::Implemented, doc });
    let mut all: Vec<_> = implemented.chain(missing).collect();
    all.sort_unstable_by_key(|e| e.name);
    all
}

/// All fetches of the manual, and ours.
#[must_use]
pub fn fetches() -> Vec<Entry> {
    let known = crate::fetch::families().into_iter().flatten().map(|f| (f.name, f.doc)).collect();
    entries(known, manual::FETCHES)
}

/// All converters of the manual, and ours.
#[must_use]
pub fn converters() -> Vec<Entry> {
    let known = crate::convert::families().into_iter().flatten().map(|c| (c.name, c.doc)).collect();
    entries(known, manual::CONVERTERS)
}

/// All actions of the manual, and ours.
#[must_use]
pub fn actions() -> Vec<Entry> {
    let known = crate::action::table().map(|a| (a.name, a.doc)).collect();
    entries(known, manual::ACTIONS)
}

/// All matching methods.
#[must_use]
pub fn matchers() -> Vec<Entry> {
    let known = crate::data::matcher::METHODS.iter().map(|m| (m.name, m.doc)).collect();
    entries(known, &[])
}

/// Full entries of the fetches that work, for the manual's pages.
pub fn implemented_fetches() -> impl Iterator<Item = &'static Fetch> {
    crate::fetch::families().into_iter().flatten()
}

/// Full entries of the converters that work, for the manual's pages.
pub fn implemented_converters() -> impl Iterator<Item = &'static Converter> {
    crate::convert::families().into_iter().flatten()
}
