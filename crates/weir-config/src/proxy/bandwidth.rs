//! `filter bwlim-in` and `filter bwlim-out`. Manual, section 9.7.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::expr::scope::{Place, Reference, Target};
use weir_rules::{Diagnostic, Expr, Word};

use crate::language::args::{self, Args, Parsed, fail_hint};
use crate::language::units::Unit;
use crate::model::{BandwidthFilter, BandwidthScope};
use crate::sections::ProxyDraft;

/// The words that say whose limit it is.
#[derive(Default)]
struct Words {
    default_limit: Option<u64>,
    default_period: Option<Duration>,
    limit: Option<u64>,
    key: Option<Expr>,
    table: Option<Word>,
    min_bytes: u64,
}

/// What follows `filter bwlim-in` or `filter bwlim-out`.
pub(crate) fn filter(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, upload: bool) -> Parsed<BandwidthFilter> {
    let name = a.need("the filter's name")?;
    let mut words = Words::default();
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"default-limit" => words.default_limit = Some(bytes(word, a)?),
            b"default-period" => {
                let value = a.value_of(word, "a time")?;
                words.default_period = Some(above_zero(value, args::time(value, Unit::Millis)?)?);
            }
            b"limit" => words.limit = Some(bytes(word, a)?),
            b"key" => words.key = Some(key(word, d, a)?),
            b"table" => words.table = Some(a.value_of(word, "a stick table")?.clone()),
            b"min-size" => words.min_bytes = args::size(a.value_of(word, "a size")?)? as u64,
            _ => {
                let known = ["default-limit", "default-period", "limit", "key", "table", "min-size"];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    let min_bytes = words.min_bytes;
    let scope = scope_of(words, upload, name, d)?;
    Ok(BandwidthFilter { name: name.as_str().as_ref().into(), upload, scope, min_bytes })
}

/// Whose limit it is: `key` and `limit` are those of a shared one, `default-limit` and `default-period` a stream's.
fn scope_of(words: Words, upload: bool, name: &Word, d: &mut ProxyDraft<'_>) -> Parsed<BandwidthScope> {
    match words {
        Words {
            default_limit: Some(bytes),
            default_period: Some(period),
            limit: None,
            key: None,
            table: None,
            ..
        } => Ok(BandwidthScope::Stream { bytes, period }),
        Words {
            default_limit: None,
            default_period: None,
            limit: Some(bytes),
            key: Some(key),
            table,
            ..
        } => {
            let (table, pos) = match &table {
                Some(word) => (word.as_str().into_owned(), word.pos),
                None => (d.scope.proxy.clone(), name.pos),
            };
            let data = Some(if upload { "bytes_in_rate" } else { "bytes_out_rate" }.to_owned());
            d.scope.references.push(Reference { target: Target::Table { name: table.clone(), data }, pos });
            Ok(BandwidthScope::Shared { bytes, key: Arc::new(key), table })
        }
        _ => fail_hint(
            name.pos,
            format!("the bandwidth limitation filter '{}' is neither a stream's nor shared", name.as_str()),
            "a stream's has 'default-limit' and 'default-period', a shared one 'limit' and 'key'",
        ),
    }
}

fn bytes(word: &Word, a: &mut Args<'_>) -> Parsed<u64> {
    let value = a.value_of(word, "a size")?;
    above_zero(value, args::size(value)? as u64)
}

fn above_zero<T: Default + PartialEq>(word: &Word, value: T) -> Parsed<T> {
    if value == T::default() { args::fail(word.pos, "it must be above zero") } else { Ok(value) }
}

fn key(word: &Word, d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed<Expr> {
    if a.peek().is_none() {
        a.value_of(word, "an expression")?;
    }
    let (expr, used) = d.at(Place::Any, |d| Expr::parse(a.ahead(), &mut d.scope))?;
    a.skip(used);
    Ok(expr)
}
