//! Rules: an action and the condition it stands under; running a list of them.
//!
//! Owns what running them may end in, and the list of the families of actions, each of which has a file.

use std::fmt::Debug;

use crate::expr::acl::Truth;
use crate::expr::condition::find_start;
use crate::expr::rule_words::Words;
use crate::expr::scope::Place;
use crate::facts::vars::{Effects, VarName};
use crate::words::call::{self, Call};
use crate::words::manual;
use crate::words::phase::phases;
use crate::{Condition, Diagnostic, Phase, Pos, Reply, Scope, Txn, Word, reply};

mod answer;
mod bandwidth;
mod connection;
mod flow;
mod header;
mod map;
mod normalize;
mod redirect;
mod stick;
mod uri;
mod variable;

/// How running a list of rules ended.
#[derive(Debug)]
pub enum Flow {
    /// All rules ran.
    Done,
    /// A rule allowed the rest (`allow`, `accept`): later rules of this set are skipped.
    Allow,
    /// Answer the client with this and stop.  `denied` counts it as denied (PR--) instead of a local answer (LR--).
    Reply {
        /// The answer.
        reply: Box<Reply>,
        /// Deny, rather than an answer the configuration wants.
        denied: bool,
        /// Close the client's connection after it.
        close: bool,
    },
    /// Answer after the tarpit timeout.
    Tarpit(Box<Reply>),
    /// Close without an answer (`reject`, `silent-drop`).
    Drop {
        /// Do not even tell the client (no FIN, no RST).
        silent: bool,
    },
    /// Let a service answer (`use-service`).
    Service(std::sync::Arc<str>),
    /// Close the server's connection, then the client's (`tcp-response content close`).
    CloseServer,
    /// The connection, in TCP mode until now, goes on in HTTP (`switch-mode http`): in this major version, or as the
    /// client's first bytes say.
    Switch(Option<u8>),
    /// Wait, then run again from rule `next`.
    Wait {
        /// Rule to go on with.
        next: usize,
        /// What to wait for.
        what: WaitFor,
    },
}

/// What a suspended rule list waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// `wait-for-body time T [at-least N]`
    Body {
        /// Longest wait, milliseconds.
        time_ms: u32,
        /// Enough bytes; `usize::MAX` for all.
        at_least: usize,
        /// The body may be as long as `tune.bufsize.large` (`use-large-buffer`).
        large: bool,
    },
    /// `wait-for-handshake`
    Handshake,
    /// `pause`
    Pause {
        /// Milliseconds.
        time_ms: u32,
    },
    /// A content rule's condition needs more bytes (`tcp-request inspect-delay`).
    MoreData,
    /// `do-resolve`: the address goes to a variable, which stays unset without one.
    Resolve {
        /// Variable for the address.
        var: VarName,
        /// `resolvers` section.
        resolvers: std::sync::Arc<str>,
        /// Host name.
        host: Box<[u8]>,
        /// Preferred family: 4, 6 or 0 for none.
        family: u8,
    },
}

/// What one action did.
pub(crate) enum Step {
    /// Go on with the next rule.
    Next,
    /// The list ends.
    End(Flow),
    /// Go on with the next rule after waiting.
    Wait(WaitFor),
    /// A rewrite did not work; ends the list in strict mode.
    Failed,
}

/// An action, parsed.
pub(crate) trait Action: Debug + Send + Sync {
    /// Does it.
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step;
}

/// Parses an action's words.
type ParseFn = fn(&mut Words<'_>, &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>>;

/// An entry of the table of actions.
pub struct ActionEntry {
    /// Keyword.
    pub name: &'static str,
    /// Rule sets it may stand in, one bit per [`Phase`].
    pub phases: u8,
    /// Its words.
    pub syntax: &'static str,
    /// What it does, one line.
    pub doc: &'static str,
    parse: ParseFn,
}

/// An entry.
pub(crate) const fn action(
    name: &'static str,
    phases: u8,
    syntax: &'static str,
    doc: &'static str,
    parse: ParseFn,
) -> ActionEntry {
    ActionEntry { name, phases, syntax, doc, parse }
}

/// All actions.
pub(crate) fn table() -> impl Iterator<Item = &'static ActionEntry> {
    [
        flow::ACTIONS,
        answer::ACTIONS,
        redirect::ACTIONS,
        header::ACTIONS,
        uri::ACTIONS,
        normalize::ACTIONS,
        variable::ACTIONS,
        map::ACTIONS,
        stick::ACTIONS,
        connection::ACTIONS,
        bandwidth::ACTIONS,
    ]
    .into_iter()
    .flatten()
}

/// Actions of HTTP rules that end their set.
const FINAL: &[&str] =
    &["allow", "auth", "deny", "redirect", "reject", "return", "silent-drop", "tarpit", "use-service"];

/// A rule of one of the sets.
#[derive(Debug)]
pub struct Rule {
    /// The condition it stands under.
    pub condition: Option<Condition>,
    /// Where it stands.
    pub pos: Pos,
    /// Keyword of its action.
    pub keyword: &'static str,
    phase: Phase,
    action: Box<dyn Action>,
}

impl Rule {
    /// No rule of an HTTP rule set runs after this one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.condition.is_none() && FINAL.contains(&self.keyword)
    }

    /// Parses a rule from the word after `http-request` (or its like) to the end of the line.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(phase: Phase, words: &[Word], scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let outer = std::mem::replace(&mut scope.place, Place::Rule(phase));
        let rule = Self::parse_here(phase, words, scope);
        scope.place = outer;
        rule
    }

    fn parse_here(phase: Phase, words: &[Word], scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let Some(first) = words.first() else {
            return Err(vec![Diagnostic::error(
                Pos::default(),
                format!("'{}' needs an action", phase.name()),
            )]);
        };
        let (call, end) = call::cut_call(first, 0).map_err(|e| vec![e])?;
        let entry = find_action(&call, phase)?;
        if end < first.text.len() {
            let rest = call::sub_word(first, end, first.text.len());
            return Err(vec![Diagnostic::error(rest.pos, format!("unexpected '{}'", rest.as_str()))]);
        }
        let condition_at = find_start(words);
        let mut own = Words::of_rule(&words[1..condition_at.max(1)], call, first.pos, phase);
        let mut errors = Vec::new();
        let action = (entry.parse)(&mut own, scope).and_then(|action| own.finish().map(|()| action));
        let action = action.map_err(|e| errors.extend(e)).ok();
        let condition = match words.get(condition_at..) {
            None | Some([]) => None,
            Some(rest) => Condition::parse(rest, scope).map_err(|e| errors.extend(e)).ok(),
        };
        match action {
            Some(action) if errors.is_empty() => {
                Ok(Self { condition, pos: first.pos, keyword: entry.name, phase, action })
            }
            _ => Err(errors),
        }
    }
}

/// The entry of an action's keyword that may stand in this rule set.
fn find_action(call: &Call, phase: Phase) -> Result<&'static ActionEntry, Vec<Diagnostic>> {
    let name = &call.name;
    let text = name.as_str();
    // `track-sc3` and up are `track-sc` with another number.
    let plain = match text.strip_prefix("track-sc") {
        Some(digits) if digits.parse::<usize>().is_ok_and(|n| n > 2) => "track-sc2",
        _ => &text,
    };
    if let Some(entry) = table().find(|a| a.name == plain) {
        if entry.phases & phase.bit() == 0 {
            let message = format!("'{}' has no action '{text}'", phase.name());
            let others = Phase::ALL.iter().filter(|p| entry.phases & p.bit() != 0).map(|p| p.name());
            let hint = format!("it can stand in {}", others.collect::<Vec<_>>().join(", "));
            return Err(vec![Diagnostic::error(name.pos, message).hint(hint)]);
        }
        return Ok(entry);
    }
    if manual::ACTIONS.contains(&plain) {
        return Err(vec![Diagnostic::error(name.pos, format!("action '{text}' is not implemented yet"))]);
    }
    let known = table().filter(|a| a.phases & phase.bit() != 0).map(|a| a.name);
    Err(vec![Diagnostic::unknown("action", name, known)])
}

/// Runs rules from number `from` on.
pub fn run(rules: &[Rule], from: usize, txn: &mut Txn) -> Flow {
    if from == 0 {
        txn.strict_rewriting = true;
    }
    for (at, rule) in rules.iter().enumerate().skip(from) {
        let holds = rule.condition.as_ref().map_or(Truth::Yes, |c| c.evaluate(txn));
        let step = match holds {
            Truth::Yes => rule.action.run(txn, rule.phase),
            Truth::Perhaps => return Flow::Wait { next: at, what: WaitFor::MoreData },
            Truth::No => Step::Next,
        };
        Effects::apply(txn);
        match step {
            Step::Next => {}
            Step::Wait(WaitFor::MoreData) => return Flow::Wait { next: at, what: WaitFor::MoreData },
            Step::Wait(what) => return Flow::Wait { next: at + 1, what },
            Step::Failed if !txn.strict_rewriting => {}
            Step::Failed => {
                txn.rewrite_failed = true;
                return failure(txn);
            }
            Step::End(flow) => {
                txn.last_rule = Some(rule.pos);
                return flow;
            }
        }
    }
    Flow::Done
}

/// A rewrite that failed in strict mode is an error of ours.
fn failure(txn: &Txn) -> Flow {
    match reply::error_page(txn, 500) {
        Some(reply) => Flow::Reply { reply: Box::new(reply), denied: true, close: false },
        None => Flow::Drop { silent: false },
    }
}
