//! Actions that end or suspend a rule set.

use std::sync::Arc;

use super::phases::{AFTER, CONNECTION, CONTENT, HTTP, REQUEST, RES_CONTENT, RESPONSE, SESSION, TCP};
use super::{Action, ActionEntry, Flow, Phase, Step, WaitFor, Words, action};
use crate::expr::Expr;
use crate::expr::scope::Target;
use crate::facts::vars::VarName;
use crate::words::call::{number, parse_size, parse_time};
use crate::{Diagnostic, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[
    action("accept", TCP, "accept", "Accepts; later rules of the set are skipped.", parse_end),
    action("allow", HTTP, "allow", "Allows; later rules of the set are skipped.", parse_end),
    action("close", RES_CONTENT, "close", "Closes the server's connection.", parse_end),
    action(
        "do-resolve",
        CONTENT | REQUEST,
        "do-resolve(VAR,RESOLVERS[,ipv4|ipv6]) EXPR",
        "Resolves a name and keeps the address in a variable.",
        parse_resolve,
    ),
    action("pause", REQUEST | RESPONSE, "pause { TIME | EXPR }", "Waits.", parse_pause),
    action(
        "reject",
        CONNECTION | SESSION | CONTENT | RES_CONTENT | REQUEST,
        "reject",
        "Closes the connection without a response.",
        parse_end,
    ),
    action(
        "silent-drop",
        TCP | REQUEST | RESPONSE,
        "silent-drop [rst-ttl TTL]",
        "Drops the connection without telling the client.",
        parse_silent,
    ),
    action(
        "strict-mode",
        REQUEST | RESPONSE | AFTER,
        "strict-mode { on | off }",
        "Whether a rewrite that fails ends in an error.",
        parse_strict,
    ),
    action(
        "switch-mode",
        CONTENT,
        "switch-mode http [proto h1|h2]",
        "Goes on in HTTP with a connection in TCP mode.",
        parse_switch,
    ),
    action("use-service", CONTENT | REQUEST, "use-service NAME", "Lets a service respond.", parse_service),
    action(
        "wait-for-body",
        REQUEST | RESPONSE,
        "wait-for-body time TIME [at-least SIZE]",
        "Waits for the message's body.",
        parse_body,
    ),
    action(
        "wait-for-handshake",
        REQUEST,
        "wait-for-handshake",
        "Waits for the end of the TLS handshake.",
        parse_handshake,
    ),
];

type Parsed = Result<Box<dyn Action>, Vec<Diagnostic>>;

/// An action that only ends the rule set.
#[derive(Debug)]
enum End {
    Allow,
    Close,
    Reject,
}

impl Action for End {
    fn run(&self, _: &mut Txn, _: Phase) -> Step {
        Step::End(match self {
            Self::Allow => Flow::Allow,
            Self::Close => Flow::CloseServer,
            Self::Reject => Flow::Drop { silent: false },
        })
    }
}

fn parse_end(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    Ok(Box::new(match words.call.name.text.as_slice() {
        b"close" => End::Close,
        b"reject" => End::Reject,
        _ => End::Allow,
    }))
}

/// `silent-drop`, and how far its reset goes if there is to be one.
#[derive(Debug)]
struct SilentDrop(Option<u8>);

impl Action for SilentDrop {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        txn.session.reset_ttl.set(self.0);
        Step::End(Flow::Drop { silent: true })
    }
}

fn parse_silent(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    if !words.accept("rst-ttl") {
        return Ok(Box::new(SilentDrop(None)));
    }
    let ttl = words.expect("a TTL")?;
    match number(&ttl.text).and_then(|n| u8::try_from(n).ok()) {
        Some(ttl @ 1..) => Ok(Box::new(SilentDrop(Some(ttl)))),
        _ => Err(vec![Diagnostic::error(ttl.pos, format!("'{}' is no TTL from 1 to 255", ttl.as_str()))]),
    }
}

#[derive(Debug)]
struct Switch(Option<u8>);

impl Action for Switch {
    fn run(&self, _: &mut Txn, _: Phase) -> Step {
        Step::End(Flow::Switch(self.0))
    }
}

fn parse_switch(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let mode = words.expect("'http'")?;
    if mode.text != b"http" {
        let message = format!("'switch-mode' cannot switch to '{}'", mode.as_str());
        return Err(vec![Diagnostic::error(mode.pos, message).hint("only 'http' is known")]);
    }
    if !words.accept("proto") {
        return Ok(Box::new(Switch(None)));
    }
    let proto = words.expect("'h1' or 'h2'")?;
    match proto.text.as_slice() {
        b"h1" => Ok(Box::new(Switch(Some(1)))),
        b"h2" => Ok(Box::new(Switch(Some(2)))),
        _ => {
            let message = format!("unknown protocol '{}'", proto.as_str());
            Err(vec![Diagnostic::error(proto.pos, message).hint("'h1' or 'h2'")])
        }
    }
}

#[derive(Debug)]
struct Strict(bool);

impl Action for Strict {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        txn.strict_rewriting = self.0;
        Step::Next
    }
}

fn parse_strict(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let word = words.expect("'on' or 'off'")?;
    match word.text.as_slice() {
        b"on" => Ok(Box::new(Strict(true))),
        b"off" => Ok(Box::new(Strict(false))),
        _ => Err(vec![Diagnostic::error(word.pos, format!("'{}' is neither 'on' nor 'off'", word.as_str()))]),
    }
}

#[derive(Debug)]
struct Service(Arc<str>);

impl Action for Service {
    fn run(&self, _: &mut Txn, _: Phase) -> Step {
        Step::End(Flow::Service(Arc::clone(&self.0)))
    }
}

fn parse_service(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let word = words.expect("a service")?;
    if word.text != b"prometheus-exporter" {
        let message = format!("service '{}' is not implemented yet", word.as_str());
        return Err(vec![Diagnostic::error(word.pos, message)]);
    }
    Ok(Box::new(Service("prometheus-exporter".into())))
}

#[derive(Debug)]
struct WaitForBody {
    time_ms: u32,
    at_least: usize,
    large: bool,
}

impl Action for WaitForBody {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        let (complete, have) = match phase.is_response() {
            true => (txn.response_body_complete, txn.response_body.len()),
            false => (txn.request_body_complete, txn.request_body.len()),
        };
        if complete || have >= self.at_least {
            return Step::Next;
        }
        let &Self { time_ms, at_least, large } = self;
        Step::Wait(WaitFor::Body { time_ms, at_least, large })
    }
}

/// A time in milliseconds that fits 32 bits.
fn time(word: &crate::Word) -> Result<u32, Vec<Diagnostic>> {
    let ms = parse_time(&word.text).and_then(|ms| u32::try_from(ms).ok());
    ms.ok_or_else(|| vec![Diagnostic::error(word.pos, format!("'{}' is no time", word.as_str()))])
}

fn parse_body(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let (mut time_ms, mut at_least, mut large) = (None, 0, false);
    while let Some(word) = words.peek() {
        match word.text.as_slice() {
            b"time" => {
                words.next();
                time_ms = Some(time(words.expect("a time")?)?);
            }
            b"at-least" => {
                words.next();
                let word = words.expect("a size")?;
                let size = parse_size(&word.text);
                at_least = size.ok_or_else(|| {
                    vec![Diagnostic::error(word.pos, format!("'{}' is no size", word.as_str()))]
                })?;
            }
            b"use-large-buffer" => {
                words.next();
                large = true;
            }
            _ => break,
        }
    }
    let missing = || vec![Diagnostic::error(words.pos, "'wait-for-body' needs 'time' and a duration")];
    let at_least = if at_least == 0 { usize::MAX } else { at_least };
    Ok(Box::new(WaitForBody { time_ms: time_ms.ok_or_else(missing)?, at_least, large }))
}

#[derive(Debug)]
struct Handshake;

impl Action for Handshake {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        match &txn.session.tls {
            Some(tls) if tls.has_early() => Step::Wait(WaitFor::Handshake),
            _ => Step::Next,
        }
    }
}

fn parse_handshake(_: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    Ok(Box::new(Handshake))
}

#[derive(Debug)]
struct Pause {
    time_ms: Result<u32, Expr>,
}

impl Action for Pause {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let time_ms = match &self.time_ms {
            Ok(ms) => Some(*ms),
            Err(expr) => expr.eval(txn).and_then(|v| u32::try_from(v.to_int()?).ok()),
        };
        match time_ms {
            Some(time_ms) if time_ms > 0 => Step::Wait(WaitFor::Pause { time_ms }),
            _ => Step::Next,
        }
    }
}

fn parse_pause(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let time_ms = match words.peek().map(time) {
        Some(Ok(ms)) => {
            words.next();
            Ok(ms)
        }
        _ => Err(words.expr(scope)?),
    };
    Ok(Box::new(Pause { time_ms }))
}

#[derive(Debug)]
struct Resolve {
    var: VarName,
    resolvers: Arc<str>,
    family: u8,
    expr: Expr,
}

impl Action for Resolve {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let host: Option<Box<[u8]>> = self.expr.eval(txn).map(|v| v.into_bytes().into());
        self.var.set(txn, None);
        let Some(host) = host.filter(|h| !h.is_empty()) else { return Step::Next };
        let resolvers = Arc::clone(&self.resolvers);
        Step::Wait(WaitFor::Resolve { var: self.var.clone(), resolvers, host, family: self.family })
    }
}

fn parse_resolve(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let var = VarName::parse(words.arg(0, "a variable")?).map_err(|e| vec![e])?;
    let section = words.arg(1, "a resolvers section")?.clone();
    scope.refer(Target::Resolvers(section.as_str().into_owned()), section.pos);
    let family = match words.call.args().get(2).map(|w| w.text.as_slice()) {
        None | Some(b"") => 0,
        Some(b"ipv4") => 4,
        Some(b"ipv6") => 6,
        Some(_) => {
            return Err(vec![Diagnostic::error(words.call.args()[2].pos, "the family is 'ipv4' or 'ipv6'")]);
        }
    };
    let expr = words.expr(scope)?;
    Ok(Box::new(Resolve { var, resolvers: section.as_str().as_ref().into(), family, expr }))
}
