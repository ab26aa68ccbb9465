//! Rules: an action and the condition it stands under; running a list of them.

use std::sync::Arc;

use weir_http::Response;

use crate::{Condition, Diagnostic, Pos, Scope, Txn, Word};

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

/// What is sent instead of going on: by deny, return, redirect, auth, errors.
#[derive(Debug)]
pub struct Reply {
    /// Head of the answer, without framing fields.
    pub response: Response,
    /// Its body.
    pub body: Arc<[u8]>,
}

/// A reply with log-format parts, rendered for each transaction (`http-error`, `return`, `deny`).
#[derive(Debug)]
pub struct ReplyTemplate;

impl ReplyTemplate {
    /// The reply for this transaction.
    #[must_use]
    pub fn render(&self, _txn: &Txn) -> Reply {
        Reply { response: Response::new(200, "OK"), body: Arc::new([]) }
    }
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
        /// Enough bytes.
        at_least: usize,
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
}

/// A rule of one of the sets.
#[derive(Debug)]
pub struct Rule {
    /// The condition it stands under.
    pub condition: Option<Condition>,
    /// Where it stands.
    pub pos: Pos,
}

impl Rule {
    /// Parses a rule from the word after `http-request` (or its like) to the end of the line.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(_phase: Phase, _words: &[Word], _scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        Err(vec![])
    }
}

/// Runs rules from number `from` on.
pub fn run(_rules: &[Rule], _from: usize, _txn: &mut Txn) -> Flow {
    Flow::Done
}
