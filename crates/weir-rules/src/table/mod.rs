//! The vocabulary as one table: every fetch, converter, matching method and action.
//!
//! Owns the lists and looking things up; the entries stand in the file of their family.
//! The parser, the checker, the manual and the tests read the same entries.

pub mod log_formats;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::Shared;
use crate::expr::entry::Vocabulary;
use crate::expr::scope::ReadFile;
use crate::words::manual;

pub use crate::expr::entry::{Converter, Example, Fetch, Needs};

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

impl<'a> Shared<'a> {
    /// Nothing shared yet.
    #[must_use]
    pub fn new(read: &'a ReadFile<'a>) -> Self {
        Self::with(Vocabulary { fetch: find_fetch, converter: find_converter }, read)
    }
}

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
