//! `set-bandwidth-limit`: turns a bandwidth limitation filter on for the stream.

use std::sync::Arc;

use super::phases::{CONTENT, REQUEST, RES_CONTENT, RESPONSE};
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::expr::Expr;
use crate::expr::scope::Target;
use crate::facts::BandwidthLimit;
use crate::words::call::{parse_size, parse_time};
use crate::{Diagnostic, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[action(
    "set-bandwidth-limit",
    CONTENT | RES_CONTENT | REQUEST | RESPONSE,
    "set-bandwidth-limit NAME [limit { SIZE | EXPR }] [period { TIME | EXPR }]",
    "Limits the bandwidth of this stream.",
    parse,
)];

#[derive(Debug)]
struct SetLimit {
    proxy: Arc<str>,
    filter: Arc<str>,
    limit: Option<Number>,
    period: Option<Number>,
}

#[derive(Debug)]
enum Number {
    Fixed(u64),
    Of(Expr),
}

impl Number {
    /// What is no number above zero leaves the filter's own value in force.
    fn value(&self, txn: &Txn) -> Option<u64> {
        let number = match self {
            Self::Fixed(number) => *number,
            Self::Of(expr) => u64::try_from(expr.eval(txn)?.to_int()?).ok()?,
        };
        (number > 0).then_some(number)
    }
}

impl Action for SetLimit {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = |number: &Option<Number>| number.as_ref().and_then(|number| number.value(txn));
        let limit = BandwidthLimit {
            proxy: Arc::clone(&self.proxy),
            filter: Arc::clone(&self.filter),
            limit_bytes: value(&self.limit),
            period_ms: value(&self.period),
        };
        // The last rule about a filter counts.
        let same = |known: &BandwidthLimit| known.proxy == limit.proxy && known.filter == limit.filter;
        txn.bandwidth_limits.retain(|known| !same(known));
        txn.bandwidth_limits.push(limit);
        Step::Next
    }
}

fn parse(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let name = words.expect("a bandwidth limitation filter")?;
    let (mut limit, mut period) = (None, None);
    loop {
        if words.accept("limit") {
            limit = Some(number(words, scope, |text| parse_size(text).map(|bytes| bytes as u64))?);
        } else if words.accept("period") {
            let time = |text: &[u8]| parse_time(text).and_then(|ms| u64::try_from(ms).ok());
            period = Some(number(words, scope, time)?);
        } else {
            break;
        }
    }
    let filter: Arc<str> = name.as_str().into();
    let changed = limit.is_some() || period.is_some();
    let target =
        Target::BandwidthFilter { proxy: scope.proxy.clone(), name: filter.as_ref().to_owned(), changed };
    scope.refer(target, name.pos);
    Ok(Box::new(SetLimit { proxy: scope.proxy.as_str().into(), filter, limit, period }))
}

/// A number with its unit, or an expression that returns one.
fn number(
    words: &mut Words<'_>,
    scope: &mut Scope<'_>,
    read: fn(&[u8]) -> Option<u64>,
) -> Result<Number, Vec<Diagnostic>> {
    let Some(word) = words.peek().filter(|word| word.text.first().is_some_and(u8::is_ascii_digit)) else {
        return words.expr(scope).map(Number::Of);
    };
    words.next();
    match read(&word.text) {
        Some(number @ 1..) => Ok(Number::Fixed(number)),
        _ => Err(vec![Diagnostic::error(word.pos, format!("'{}' is no limit", word.as_str()))]),
    }
}
