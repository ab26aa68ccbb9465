//! Rules: an action and the condition it stands under; running a list of them.
//!
//! Owns the rule sets, what running them may end in, and the words of an action; the actions stand in the file
//! of their family.

use std::fmt::Debug;

use crate::expr::Expr;
use crate::expr::acl::Truth;
use crate::expr::args::{self, Call};
use crate::expr::condition::find_start;
use crate::expr::log_format::Style;
use crate::expr::scope::Place;
use crate::facts::vars::{Effects, VarName};
use crate::words::manual;
use crate::{Condition, Diagnostic, LogFormat, Pos, Scope, Txn, Word, reply};

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

pub use crate::reply::{Reply, ReplyTemplate};

/// Where a rule stands; decides which actions and fetches it may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the rule set of the same name in the manual")]
pub enum Phase {
    TcpRequestConnection,
    TcpRequestSession,
    TcpRequestContent,
    TcpResponseContent,
    HttpRequest,
    HttpResponse,
    HttpAfterResponse,
}

impl Phase {
    /// The rule set's keywords.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpRequestConnection => "tcp-request connection",
            Self::TcpRequestSession => "tcp-request session",
            Self::TcpRequestContent => "tcp-request content",
            Self::TcpResponseContent => "tcp-response content",
            Self::HttpRequest => "http-request",
            Self::HttpResponse => "http-response",
            Self::HttpAfterResponse => "http-after-response",
        }
    }

    /// The rules run on the way of the response.
    #[must_use]
    pub fn is_response(self) -> bool {
        matches!(self, Self::TcpResponseContent | Self::HttpResponse | Self::HttpAfterResponse)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Sets of phases, as the manual's matrix of actions has them.
pub(crate) mod phases {
    use super::Phase;

    pub(crate) const CONNECTION: u8 = Phase::TcpRequestConnection.bit();
    pub(crate) const SESSION: u8 = Phase::TcpRequestSession.bit();
    pub(crate) const CONTENT: u8 = Phase::TcpRequestContent.bit();
    pub(crate) const RES_CONTENT: u8 = Phase::TcpResponseContent.bit();
    pub(crate) const REQUEST: u8 = Phase::HttpRequest.bit();
    pub(crate) const RESPONSE: u8 = Phase::HttpResponse.bit();
    pub(crate) const AFTER: u8 = Phase::HttpAfterResponse.bit();
    pub(crate) const TCP: u8 = CONNECTION | SESSION | CONTENT | RES_CONTENT;
    pub(crate) const HTTP: u8 = REQUEST | RESPONSE | AFTER;
    pub(crate) const ALL: u8 = TCP | HTTP;
}

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

/// The words of an action, read from left to right.
pub(crate) struct Words<'w> {
    list: &'w [Word],
    /// Arguments in the parentheses of the keyword.
    pub(crate) call: Call,
    /// Where the rule stands.
    pub(crate) pos: Pos,
    /// Rule set.
    pub(crate) phase: Phase,
}

impl<'w> Words<'w> {
    pub(crate) fn new(list: &'w [Word], pos: Pos) -> Self {
        let call = Call { name: Word { text: Vec::new(), pos }, args: None };
        Self { list, call, pos, phase: Phase::HttpRequest }
    }

    /// The next word, left where it is.
    pub(crate) fn peek(&self) -> Option<&'w Word> {
        self.list.first()
    }

    /// Takes the next word.
    pub(crate) fn next(&mut self) -> Option<&'w Word> {
        let (first, rest) = self.list.split_first()?;
        self.list = rest;
        Some(first)
    }

    /// Takes the next word when it is this one.
    pub(crate) fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|w| w.text == keyword.as_bytes());
        if found {
            self.next();
        }
        found
    }

    /// Takes the next word, which must be there.
    pub(crate) fn expect(&mut self, what: &str) -> Result<&'w Word, Vec<Diagnostic>> {
        let keyword = self.call.name.as_str().into_owned();
        let missing = match keyword.is_empty() {
            true => format!("{what} is missing"),
            false => format!("'{keyword}' needs {what}"),
        };
        let pos = self.list.first().map_or(self.pos, |w| w.pos);
        self.next().ok_or_else(|| vec![Diagnostic::error(pos, missing)])
    }

    /// Takes an expression.
    pub(crate) fn expr(&mut self, scope: &mut Scope<'_>) -> Result<Expr, Vec<Diagnostic>> {
        if self.list.is_empty() {
            self.expect("an expression")?;
        }
        let (expr, used) = Expr::parse(self.list, scope)?;
        self.list = &self.list[used..];
        Ok(expr)
    }

    /// Takes a log format.
    pub(crate) fn format(
        &mut self,
        style: Style,
        scope: &mut Scope<'_>,
    ) -> Result<LogFormat, Vec<Diagnostic>> {
        let word = self.expect("a value")?;
        LogFormat::parse_styled(word, style, scope)
    }

    /// Argument `at` of the keyword's parentheses, which must be there.
    pub(crate) fn arg(&self, at: usize, what: &str) -> Result<&Word, Vec<Diagnostic>> {
        let missing = || {
            vec![Diagnostic::error(
                self.call.name.pos,
                format!("'{}' needs {what} in parentheses", self.call.name.as_str()),
            )]
        };
        self.call.args().get(at).filter(|w| !w.text.is_empty()).ok_or_else(missing)
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self) -> Result<(), Vec<Diagnostic>> {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                let message = format!("unexpected '{}'", word.as_str());
                Err(vec![
                    Diagnostic::error(word.pos, message)
                        .hint("a rule may end with 'if' or 'unless' and a condition"),
                ])
            }
        }
    }
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
        let (call, end) = args::cut_call(first, 0).map_err(|e| vec![e])?;
        let entry = find_action(&call, phase)?;
        if end < first.text.len() {
            let rest = args::sub_word(first, end, first.text.len());
            return Err(vec![Diagnostic::error(rest.pos, format!("unexpected '{}'", rest.as_str()))]);
        }
        let condition_at = find_start(words);
        let mut own = Words { list: &words[1..condition_at.max(1)], call, pos: first.pos, phase };
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
            let others = ALL_PHASES.iter().filter(|p| entry.phases & p.bit() != 0).map(|p| p.name());
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

const ALL_PHASES: [Phase; 7] = [
    Phase::TcpRequestConnection,
    Phase::TcpRequestSession,
    Phase::TcpRequestContent,
    Phase::TcpResponseContent,
    Phase::HttpRequest,
    Phase::HttpResponse,
    Phase::HttpAfterResponse,
];

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
