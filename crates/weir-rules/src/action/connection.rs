//! Actions on the connection and the handling of the transaction: addresses, timeouts, marks, priorities, caches.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_http::FieldName;

use super::phases::{AFTER, ALL, CONNECTION, CONTENT, REQUEST, RES_CONTENT, RESPONSE, SESSION, TCP};
use super::stick::number_or_expr;
use super::{Action, ActionEntry, Flow, Phase, Step, Words, action};
use crate::expr::Expr;
use crate::expr::scope::Target;
use crate::facts::{AttachServer, CacheStore, CacheUse, ExpectedHeaders, LogOrigin, Marking};
use crate::words::call::parse_time;
use crate::{Diagnostic, Scope, Txn};

const ADDRESS: u8 = CONNECTION | SESSION | CONTENT | REQUEST;
const CLIENT: u8 = TCP | REQUEST | RESPONSE;

pub(super) static ACTIONS: &[ActionEntry] = &[
    action(
        "attach-srv",
        SESSION,
        "attach-srv BACKEND/SERVER [name EXPR]",
        "Makes the client's connection one to a server (reverse HTTP).",
        parse_attach,
    ),
    action("cache-store", RESPONSE, "cache-store NAME", "Stores the response in a cache.", parse_cache),
    action(
        "cache-use",
        REQUEST,
        "cache-use NAME [no-early-hints]",
        "Answers from a cache when it can.",
        parse_cache,
    ),
    action("disable-l7-retry", REQUEST, "disable-l7-retry", "Sends the request only once.", parse_no_retry),
    action(
        "expect-netscaler-cip",
        CONNECTION,
        "expect-netscaler-cip layer4",
        "Expects NetScaler's header with the client's address.",
        parse_expect,
    ),
    action(
        "expect-proxy",
        CONNECTION,
        "expect-proxy layer4",
        "Expects a header of the PROXY protocol.",
        parse_expect,
    ),
    action(
        "set-bc-mark",
        CONTENT | REQUEST,
        "set-bc-mark { MARK | EXPR }",
        "Sets the mark of the server's connection.",
        parse_number,
    ),
    action(
        "set-bc-tos",
        CONTENT | REQUEST,
        "set-bc-tos { TOS | EXPR }",
        "Sets the TOS of the server's connection.",
        parse_number,
    ),
    action("set-dst", ADDRESS, "set-dst EXPR", "Sets the destination address.", parse_address),
    action("set-dst-port", ADDRESS, "set-dst-port EXPR", "Sets the destination port.", parse_address),
    action(
        "set-fc-mark",
        CLIENT,
        "set-fc-mark { MARK | EXPR }",
        "Sets the mark of the client's connection.",
        parse_number,
    ),
    action(
        "set-fc-tos",
        CLIENT,
        "set-fc-tos { TOS | EXPR }",
        "Sets the TOS of the client's connection.",
        parse_number,
    ),
    action("do-log", ALL, "do-log [profile NAME]", "Makes a log line at once.", parse_log),
    action(
        "set-log-level",
        CONTENT | RES_CONTENT | REQUEST | RESPONSE | AFTER,
        "set-log-level LEVEL",
        "Sets the level of the log line, or silences it.",
        parse_level,
    ),
    action(
        "set-mark",
        CLIENT,
        "set-mark MARK",
        "Sets the mark of the client's connection (deprecated).",
        parse_number,
    ),
    action(
        "set-nice",
        CONTENT | RES_CONTENT | REQUEST | RESPONSE,
        "set-nice NICE",
        "Sets the scheduling factor (a hint without effect: requests of a thread take turns).",
        parse_number,
    ),
    action(
        "set-priority-class",
        CONTENT | REQUEST,
        "set-priority-class EXPR",
        "Sets the class in queues.",
        parse_number,
    ),
    action(
        "set-priority-offset",
        CONTENT | REQUEST,
        "set-priority-offset EXPR",
        "Sets the offset in queues, ms.",
        parse_number,
    ),
    action(
        "set-retries",
        CONTENT | REQUEST,
        "set-retries { NUMBER | EXPR }",
        "Sets how often a connection is tried again.",
        parse_number,
    ),
    action("set-src", ADDRESS, "set-src EXPR", "Sets the source address.", parse_address),
    action("set-src-port", ADDRESS, "set-src-port EXPR", "Sets the source port.", parse_address),
    action(
        "set-timeout",
        REQUEST | RESPONSE,
        "set-timeout { client | connect | queue | server | tarpit | tunnel } { TIME | EXPR }",
        "Sets a timeout of this request.",
        parse_timeout,
    ),
    action(
        "set-tos",
        CLIENT,
        "set-tos TOS",
        "Sets the TOS of the client's connection (deprecated).",
        parse_number,
    ),
];

type Parsed = Result<Box<dyn Action>, Vec<Diagnostic>>;

#[derive(Debug)]
struct Expect(ExpectedHeaders);

impl Action for Expect {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let before = txn.session.expects.get();
        txn.session.expects.set(ExpectedHeaders {
            proxy: before.proxy || self.0.proxy,
            netscaler_cip: before.netscaler_cip || self.0.netscaler_cip,
        });
        Step::Next
    }
}

fn parse_expect(words: &mut Words<'_>, _: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let layer = words.expect("'layer4'")?;
    if layer.text != b"layer4" {
        return Err(vec![Diagnostic::error(layer.pos, format!("'{}' is not 'layer4'", layer.as_str()))]);
    }
    let proxy = words.call.name.text == b"expect-proxy";
    Ok(Box::new(Expect(ExpectedHeaders { proxy, netscaler_cip: !proxy })))
}

#[derive(Debug)]
struct SetAddress {
    expr: Expr,
    port: bool,
    destination: bool,
}

impl SetAddress {
    /// The address with the new part.
    fn changed(&self, txn: &Txn) -> Option<SocketAddr> {
        let old = if self.destination { txn.dst() } else { txn.src() };
        let value = self.expr.eval(txn)?;
        if self.port {
            let port = u16::try_from(value.to_int()?).ok()?;
            let ip = old.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |a| a.ip());
            return Some(SocketAddr::new(ip, port));
        }
        Some(SocketAddr::new(value.to_ip()?, old.map_or(0, |a| a.port())))
    }
}

impl Action for SetAddress {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        let Some(address) = self.changed(txn) else { return Step::Next };
        match (phase, self.destination) {
            (Phase::TcpRequestConnection, true) => txn.session.dst.set(Some(address)),
            (Phase::TcpRequestConnection, false) => txn.session.src.set(Some(address)),
            (Phase::TcpRequestSession, true) => txn.session.override_with(None, Some(address)),
            (Phase::TcpRequestSession, false) => txn.session.override_with(Some(address), None),
            (_, true) => txn.dst = Some(address),
            (_, false) => txn.src = Some(address),
        }
        Step::Next
    }
}

fn parse_address(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let keyword = &words.call.name.text;
    let (port, destination) = (keyword.ends_with(b"-port"), keyword.starts_with(b"set-dst"));
    Ok(Box::new(SetAddress { expr: words.expr(scope)?, port, destination }))
}

/// What a number is set for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setting {
    ServerMark,
    ServerTos,
    ClientMark,
    ClientTos,
    Nice,
    PriorityClass,
    PriorityOffset,
    Retries,
}

#[derive(Debug)]
struct SetNumber {
    setting: Setting,
    value: Result<i64, Expr>,
}

impl Action for SetNumber {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = match &self.value {
            Ok(n) => Some(*n),
            Err(expr) => expr.eval(txn).and_then(|v| v.to_int()),
        };
        let Some(n) = value else { return Step::Next };
        match self.setting {
            Setting::ServerMark => txn.server_mark = Some(n as u32),
            Setting::ServerTos => txn.server_tos = Some(n as u8),
            Setting::ClientMark => txn.env.mark_client(&txn.session, Marking::Mark(n as u32)),
            Setting::ClientTos => txn.env.mark_client(&txn.session, Marking::Tos(n as u8)),
            // There are no priorities between the tasks of a thread: a hint without effect.
            Setting::Nice => {}
            Setting::PriorityClass => txn.priority_class = n.clamp(-2047, 2047) as i32,
            Setting::PriorityOffset => txn.priority_offset = n.clamp(-524_287, 524_287) as i32,
            Setting::Retries => {
                txn.set_retries = u32::try_from(n).ok().filter(|n| *n <= 100).or(txn.set_retries);
            }
        }
        Step::Next
    }
}

fn parse_number(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let setting = match words.call.name.text.as_slice() {
        b"set-bc-mark" => Setting::ServerMark,
        b"set-bc-tos" => Setting::ServerTos,
        b"set-fc-mark" | b"set-mark" => Setting::ClientMark,
        b"set-fc-tos" | b"set-tos" => Setting::ClientTos,
        b"set-nice" => Setting::Nice,
        b"set-priority-class" => Setting::PriorityClass,
        b"set-priority-offset" => Setting::PriorityOffset,
        _ => Setting::Retries,
    };
    Ok(Box::new(SetNumber { setting, value: number_or_expr(words, scope)? }))
}

/// `attach-srv`.
#[derive(Debug)]
struct Attach {
    backend: Arc<str>,
    server: Arc<str>,
    name: Option<Expr>,
}

impl Action for Attach {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let name = self.name.as_ref().and_then(|name| name.eval(txn));
        let attach = AttachServer {
            backend: Arc::clone(&self.backend),
            server: Arc::clone(&self.server),
            name: name.map(|name| name.into_bytes().into_owned().into()),
        };
        txn.session.attach.replace(Some(Box::new(attach)));
        Step::End(Flow::Allow)
    }
}

fn parse_attach(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let word = words.expect("a server as BACKEND/SERVER")?;
    let text = word.as_str();
    let Some((backend, server)) = text.split_once('/') else {
        return Err(vec![Diagnostic::error(
            word.pos,
            format!("'{text}' is no server: BACKEND/SERVER is expected"),
        )]);
    };
    let target = Target::ReverseServer { backend: backend.to_owned(), server: server.to_owned() };
    scope.refer(target, word.pos);
    let name = match words.accept("name") {
        true => Some(words.expr(scope)?),
        false => None,
    };
    Ok(Box::new(Attach { backend: backend.into(), server: server.into(), name }))
}

#[derive(Debug)]
struct SetTimeout {
    which: usize,
    value: Result<u32, Expr>,
}

/// Names of the timeouts; the first three and the others are kept apart in the transaction.
const TIMEOUTS: [&str; 6] = ["server", "tunnel", "client", "connect", "queue", "tarpit"];

impl Action for SetTimeout {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = match &self.value {
            Ok(ms) => Some(*ms),
            Err(expr) => expr.eval(txn).and_then(|v| u32::try_from(v.to_int()?).ok()).filter(|ms| *ms > 0),
        };
        if let Some(ms) = value {
            match self.which {
                at @ 0..3 => txn.set_timeouts[at] = Some(ms),
                at => txn.set_other_timeouts[at - 3] = Some(ms),
            }
        }
        Step::Next
    }
}

fn parse_timeout(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let word = words.expect("a timeout")?;
    let which = TIMEOUTS.iter().position(|t| t.as_bytes() == word.text);
    let which = which.ok_or_else(|| vec![Diagnostic::unknown("timeout", word, TIMEOUTS)])?;
    let backend_only = !matches!(TIMEOUTS[which], "client" | "tarpit");
    if (backend_only && !scope.backend) || (TIMEOUTS[which] == "client" && !scope.frontend) {
        let half = if backend_only { "backend" } else { "frontend" };
        let message = format!("'{}' is a timeout of a {half}", word.as_str());
        return Err(vec![Diagnostic::error(word.pos, message)]);
    }
    let plain = words.peek().and_then(|w| parse_time(&w.text));
    let value = match plain {
        Some(ms) if ms > 0 && ms <= i64::from(i32::MAX) => {
            words.next();
            Ok(ms as u32)
        }
        Some(_) => {
            return Err(vec![Diagnostic::error(
                words.peek().map_or(words.pos, |w| w.pos),
                "a timeout is not 0 and below 24 days",
            )]);
        }
        None => Err(words.expr(scope)?),
    };
    Ok(Box::new(SetTimeout { which, value }))
}

#[derive(Debug)]
struct LogLevel(u8);

impl Action for LogLevel {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        txn.log_level = Some(self.0);
        Step::Next
    }
}

/// Levels of syslog (RFC 5424 section 6.2.1), then "silent".
const LEVELS: [&str; 9] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug", "silent"];

fn parse_level(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let word = words.expect("a level")?;
    let level = LEVELS.iter().position(|l| l.as_bytes() == word.text);
    let level = level.ok_or_else(|| vec![Diagnostic::unknown("log level", word, LEVELS)])?;
    Ok(Box::new(LogLevel(level as u8)))
}

/// `do-log`, by this profile.
#[derive(Debug)]
struct Log(Option<String>);

impl Action for Log {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        txn.env.log(txn, LogOrigin::of(phase), self.0.as_deref());
        Step::Next
    }
}

fn parse_log(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    if !words.accept("profile") {
        return Ok(Box::new(Log(None)));
    }
    let word = words.expect("the name of a log-profile section")?;
    let name = word.as_str().into_owned();
    scope.refer(Target::LogProfile(name.clone()), word.pos);
    Ok(Box::new(Log(Some(name))))
}

#[derive(Debug)]
struct NoRetry;

impl Action for NoRetry {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        txn.no_l7_retry = true;
        Step::Next
    }
}

fn parse_no_retry(_: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    Ok(Box::new(NoRetry))
}

#[derive(Debug)]
struct Cache {
    name: Arc<str>,
    store: bool,
}

impl Action for Cache {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let cache = Arc::clone(&self.name);
        if !self.store {
            txn.cache_use = Some(Box::new(CacheUse { cache, key: cache_key(txn) }));
        } else if let Some(head) = txn.response.as_ref().filter(|head| head.status == 200).cloned() {
            txn.cache_store = Some(Box::new(CacheStore { cache, head }));
        }
        Step::Next
    }
}

/// The target URI (RFC 9111 section 2), with the scheme that the client used. Its user belongs to it: Host does not
/// say him, but a server may look at him.
fn cache_key(txn: &Txn) -> Box<[u8]> {
    let scheme: &[u8] = if txn.session.tls.is_some() { b"https://" } else { b"http://" };
    let authority = txn.request.uri_authority().unwrap_or_default();
    let user = memchr::memrchr(b'@', authority).map_or(&b""[..], |at| &authority[..=at]);
    let host = txn.request.fields.first(FieldName::Host).unwrap_or_else(|| &authority[user.len()..]);
    [scheme, user, &host.to_ascii_lowercase(), txn.request.path_and_query()].concat().into()
}

fn parse_cache(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let store = words.call.name.text == b"cache-store";
    let name = words.expect("a cache")?;
    if !store {
        words.accept("no-early-hints");
    }
    scope.refer(Target::Cache(name.as_str().into_owned()), name.pos);
    Ok(Box::new(Cache { name: name.as_str().as_ref().into(), store }))
}
