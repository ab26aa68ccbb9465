//! Actions on stick tables: tracking entries and changing their counters.

use super::phases::{ALL, CONNECTION, CONTENT, REQUEST, RESPONSE, SESSION};
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::expr::Expr;
use crate::expr::entry::Needs;
use crate::expr::scope::Target;
use crate::facts::MAX_TRACKED;
use crate::facts::Tracked;
use crate::fetch::stick::{table, tracked_entry};
use crate::words::call::number;
use crate::{Diagnostic, Scope, Txn, Word};

const TRACK: u8 = CONNECTION | SESSION | CONTENT | REQUEST | RESPONSE;

pub(super) static ACTIONS: &[ActionEntry] = &[
    action(
        "sc-add-gpc",
        ALL,
        "sc-add-gpc(INDEX,SLOT) { NUMBER | EXPR }",
        "Adds to a general purpose counter.",
        parse_change,
    ),
    action(
        "sc-inc-gpc",
        ALL,
        "sc-inc-gpc(INDEX,SLOT)",
        "Increments a general purpose counter.",
        parse_change,
    ),
    action("sc-inc-gpc0", ALL, "sc-inc-gpc0(SLOT)", "Increments general purpose counter 0.", parse_change),
    action("sc-inc-gpc1", ALL, "sc-inc-gpc1(SLOT)", "Increments general purpose counter 1.", parse_change),
    action(
        "sc-set-gpt",
        ALL,
        "sc-set-gpt(INDEX,SLOT) { NUMBER | EXPR }",
        "Sets a general purpose tag.",
        parse_change,
    ),
    action(
        "sc-set-gpt0",
        ALL,
        "sc-set-gpt0(SLOT) { NUMBER | EXPR }",
        "Sets general purpose tag 0.",
        parse_change,
    ),
    action(
        "track-sc0",
        TRACK,
        "track-sc0 EXPR [table NAME]",
        "Tracks an entry in the first slot.",
        parse_track,
    ),
    action(
        "track-sc1",
        TRACK,
        "track-sc1 EXPR [table NAME]",
        "Tracks an entry in the second slot.",
        parse_track,
    ),
    action(
        "track-sc2",
        TRACK,
        "track-sc2 EXPR [table NAME]",
        "Tracks an entry in the third slot.",
        parse_track,
    ),
];

#[derive(Debug)]
struct Track {
    slot: usize,
    expr: Expr,
    table: String,
}

impl Action for Track {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        // The first rule that tracks in a slot wins.
        if tracked_entry(txn, self.slot).is_some() {
            return Step::Next;
        }
        let Some((index, table)) = table(txn, &self.table) else { return Step::Next };
        let value = self.expr.eval(txn);
        if value.is_none() && self.expr.may_change(txn, false) {
            return Step::Wait(super::WaitFor::MoreData);
        }
        let Some(key) = value.and_then(|v| table.key_type().key(v)) else { return Step::Next };
        if !table.track(&key, matches!(phase, Phase::HttpRequest | Phase::HttpResponse)) {
            return Step::Next;
        }
        let entry = Some(Tracked { table: index, key });
        let store = |slots: &mut Vec<Option<Tracked>>| {
            if slots.len() <= self.slot {
                slots.resize(self.slot + 1, None);
            }
            slots[self.slot] = entry;
        };
        match phase {
            Phase::TcpRequestConnection | Phase::TcpRequestSession => {
                store(&mut txn.session.tracked.borrow_mut());
            }
            _ => store(&mut txn.tracked),
        }
        Step::Next
    }
}

fn parse_track(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let digits = words.call.name.text.strip_prefix(b"track-sc").unwrap_or_default();
    let most = scope.shared.tracked_slots.min(MAX_TRACKED);
    let slot = number(digits).and_then(|n| usize::try_from(n).ok()).filter(|n| *n < most);
    let slot = slot.ok_or_else(|| {
        let found = Diagnostic::error(words.pos, format!("there are only {most} slots to track in"));
        vec![found.hint("raise 'tune.stick-counters' in the global section")]
    })?;
    let start = words.pos;
    let expr = words.expr(scope)?;
    let early = !matches!(
        expr.fetch().needs,
        Needs::RequestBuffer | Needs::RequestHead | Needs::RequestBody | Needs::RequestKept
    );
    if words.phase == Phase::TcpRequestContent && scope.frontend && scope.http && early {
        // Requests that cannot be read end before these rules run.
        let message = "clients whose requests are invalid are not tracked here";
        let found = Diagnostic::warning(start, message);
        scope.warnings.push(found.hint("track what needs no request in a 'tcp-request session' rule"));
    }
    let (table, pos) = match words.accept("table") {
        true => {
            let word = words.expect("a table")?;
            (word.as_str().into_owned(), word.pos)
        }
        false => (scope.proxy.clone(), words.pos),
    };
    scope.refer(Target::Table { name: table.clone(), data: None }, pos);
    Ok(Box::new(Track { slot, expr, table }))
}

#[derive(Debug)]
struct Change {
    slot: usize,
    data: String,
    set: bool,
    value: Result<i64, Expr>,
}

impl Action for Change {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = match &self.value {
            Ok(n) => Some(*n),
            Err(expr) => expr.eval(txn).and_then(|v| v.to_int()),
        };
        let entry = tracked_entry(txn, self.slot);
        let (Some(value), Some(entry)) = (value, entry) else { return Step::Next };
        let Some(table) = txn.env.table(entry.table) else { return Step::Next };
        if self.set {
            table.set(&entry.key, &self.data, value);
        } else {
            table.add(&entry.key, &self.data, value);
        }
        Step::Next
    }
}

fn argument(word: &Word, most: usize) -> Result<usize, Vec<Diagnostic>> {
    let n = number(&word.text).and_then(|n| usize::try_from(n).ok()).filter(|n| *n < most);
    n.ok_or_else(|| {
        vec![Diagnostic::error(word.pos, format!("'{}' is no number below {most}", word.as_str()))]
    })
}

fn parse_change(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    /// Indexes of the arrays gpc and gpt.
    const MAX_INDEX: usize = 100;
    let keyword = words.call.name.as_str().into_owned();
    let kind = keyword.rsplit('-').next().unwrap_or_default();
    let indexed = matches!(kind, "gpc" | "gpt");
    let (slot, data) = if indexed {
        let index = argument(words.arg(0, "an index")?, MAX_INDEX)?;
        (argument(words.arg(1, "a slot")?, MAX_TRACKED)?, format!("{kind}({index})"))
    } else {
        (argument(words.arg(0, "a slot")?, MAX_TRACKED)?, kind.to_owned())
    };
    let value = match keyword.starts_with("sc-inc") {
        true => Ok(1),
        false => number_or_expr(words, scope)?,
    };
    Ok(Box::new(Change { slot, data, set: keyword.starts_with("sc-set"), value }))
}

/// A number, or an expression that returns one.
pub(super) fn number_or_expr(
    words: &mut Words<'_>,
    scope: &mut Scope<'_>,
) -> Result<Result<i64, Expr>, Vec<Diagnostic>> {
    if let Some(n) = words.peek().and_then(|w| number(&w.text)) {
        words.next();
        return Ok(Ok(n));
    }
    words.expr(scope).map(Err)
}
