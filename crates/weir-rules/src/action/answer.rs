//! Actions that answer the request: `return`, `deny`, `tarpit`, `auth`, `early-hint`.

use super::phases::{REQUEST, RESPONSE};
use super::{Action, ActionEntry, Flow, Phase, Step, Words, action};
use crate::expr::log_style::Style;
use crate::facts::Reply;
use crate::reply::{Kind, ReplyTemplate, error_page, field_name};
use crate::{Diagnostic, LogFormat, Scope, Txn};

const SYNTAX: &str = "[status CODE] [content-type TYPE] [default-errorfiles | errorfile FILE | errorfiles NAME | \
    file FILE | lf-file FILE | string TEXT | lf-string FMT] [hdr NAME FMT]*";

/// Most fields of 103 responses kept for one request.
const MAX_EARLY_HINTS: usize = 100;

pub(super) static ACTIONS: &[ActionEntry] = &[
    action("auth", REQUEST, "auth [realm REALM]", "Asks for user name and password.", parse_auth),
    action(
        "deny",
        REQUEST | RESPONSE,
        SYNTAX,
        "Refuses with 403 (502 for responses) or another response.",
        parse_reply,
    ),
    action(
        "early-hint",
        REQUEST,
        "early-hint NAME FMT",
        "Sends a field in a 103 response before the real one.",
        parse_hint,
    ),
    action("return", REQUEST | RESPONSE, SYNTAX, "Responds with 200 or another response.", parse_reply),
    action(
        "tarpit",
        REQUEST,
        SYNTAX,
        "Keeps the client waiting, then refuses with 500 or another response.",
        parse_reply,
    ),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Return,
    Deny,
    Tarpit,
}

#[derive(Debug)]
struct Answer {
    template: ReplyTemplate,
    ending: Ending,
}

/// Ends the rule set with a reply, or without one where the configuration wants none.
pub(super) fn end_with(reply: Option<Reply>, denied: bool) -> Step {
    Step::End(match reply {
        Some(reply) => {
            // These statuses say that the connection cannot be trusted any more.
            let close = matches!(reply.response.status, 400 | 408) && denied;
            Flow::Reply { reply: Box::new(reply), denied, close }
        }
        None => Flow::Drop { silent: false },
    })
}

impl Action for Answer {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let reply = self.template.answer(txn);
        match (self.ending, reply) {
            (Ending::Tarpit, Some(reply)) => Step::End(Flow::Tarpit(Box::new(reply))),
            (ending, reply) => end_with(reply, ending != Ending::Return),
        }
    }
}

fn parse_reply(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let (ending, status, kind) = match words.call.name.text.as_slice() {
        b"return" => (Ending::Return, 200, Kind::Return),
        b"tarpit" => (Ending::Tarpit, 500, Kind::Deny),
        _ if words.phase.is_response() => (Ending::Deny, 502, Kind::Deny),
        _ => (Ending::Deny, 403, Kind::Deny),
    };
    let template = ReplyTemplate::parse_words(words, status, kind, scope)?;
    Ok(Box::new(Answer { template, ending }))
}

#[derive(Debug)]
struct Auth {
    realm: LogFormat,
    default_realm: Box<[u8]>,
}

impl Action for Auth {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        // A forward proxy's client authenticates with Proxy-Authorization (RFC 9110 section 11.7).
        let proxied = txn.request.scheme().is_some()
            && !txn.request.normalized_uri
            && txn.request.fields.get(b"proxy-connection").is_some();
        let (status, name): (_, &[u8]) =
            if proxied { (407, b"proxy-authenticate") } else { (401, b"www-authenticate") };
        let Some(mut reply) = error_page(txn, status) else { return end_with(None, true) };
        let realm = self.realm.to_vec(txn);
        let realm = if realm.is_empty() { &self.default_realm } else { realm.as_slice() };
        reply.response.fields.set(name, &[b"Basic realm=\"", realm, b"\""].concat());
        end_with(Some(reply), true)
    }
}

fn parse_auth(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let realm = match words.accept("realm") {
        true => words.format(Style::Http, scope)?,
        false => LogFormat::default(),
    };
    Ok(Box::new(Auth { realm, default_realm: scope.proxy.as_bytes().into() }))
}

#[derive(Debug)]
struct EarlyHint {
    name: Box<[u8]>,
    value: LogFormat,
}

impl Action for EarlyHint {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = self.value.to_vec(txn);
        if txn.early_hints.len() == MAX_EARLY_HINTS {
            return Step::Failed;
        }
        txn.early_hints.push((self.name.clone(), value.into()));
        Step::Next
    }
}

fn parse_hint(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let name = field_name(words.expect("a field's name")?, scope)?;
    let value = words.format(Style::Http, scope)?;
    Ok(Box::new(EarlyHint { name, value }))
}
