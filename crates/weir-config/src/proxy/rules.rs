//! Rule sets of proxies: their words are the rules crate's; order and place are decided here.

use std::time::Duration;

use weir_rules::{Diagnostic, Phase, Rule, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{Args, Parsed, fail};
use crate::model::Proxy;
use crate::sections::ProxyDraft;

/// The first one counts, that of a defaults section before the proxy's own.
fn inspect_delay(
    d: &mut ProxyDraft<'_>,
    a: &mut Args<'_>,
    of: impl Fn(&mut Proxy) -> &mut Option<Duration>,
) -> Parsed {
    let delay = a.time()?;
    let known = *of(&mut d.proxy).get_or_insert(delay);
    if known != delay {
        let message = format!("'{}' ignored in {}: there is one before it", a.keyword, d.section());
        d.warnings.push(Diagnostic::warning(a.keyword_pos, message));
    }
    a.end()
}

fn rule(
    d: &mut ProxyDraft<'_>,
    a: &mut Args<'_>,
    phase: Phase,
    set: fn(&mut Proxy) -> &mut Vec<Rule>,
) -> Parsed {
    if a.peek().is_none() {
        return fail(a.pos(), format!("'{}' expects an action", a.keyword));
    }
    let rule = Rule::parse(phase, a.rest(), &mut d.scope)?;
    let rules = set(&mut d.proxy);
    let http = matches!(phase, Phase::HttpRequest | Phase::HttpResponse | Phase::HttpAfterResponse);
    if http && !d.inherited && rules.last().is_some_and(Rule::is_last) {
        let message =
            format!("the '{}' rule before is final and has no condition: no later one runs", phase.name());
        d.warnings.push(Diagnostic::warning(a.keyword_pos, message));
    }
    rules.push(rule);
    Ok(())
}

/// `redirect ...` is read like the action of the same name, but for its target, which is no log format.
fn redirect(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut words = a.line.to_vec();
    let kind = |word: &Word| *word == "location" || *word == "prefix" || *word == "scheme";
    let target = words.iter().position(kind).and_then(|at| words.get_mut(at + 1));
    if let Some(word) = target.filter(|word| word.text.contains(&b'%')) {
        if word.as_str().contains("%[") {
            let found = Diagnostic::warning(word.pos, "'%[' stands for itself in a 'redirect' rule");
            d.warnings.push(found.hint("use 'http-request redirect' to fill in values"));
        }
        word.text = word
            .text
            .iter()
            .flat_map(|byte| if *byte == b'%' { vec![b'%'; 2] } else { vec![*byte] })
            .collect();
    }
    let rule = Rule::parse(Phase::HttpRequest, &words, &mut d.scope)?;
    d.proxy.redirect.push(rule);
    Ok(())
}

fn bare_tcp_request(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let known = ["connection", "session", "content", "inspect-delay"];
    let Some(word) = a.peek() else {
        return fail(
            a.pos(),
            format!("'{}' expects one of connection, session, content, inspect-delay", a.keyword),
        );
    };
    if *word == "connection" || *word == "session" {
        let kind = word.as_str();
        return fail(
            word.pos,
            format!("'tcp-request {kind}' is not allowed: {} is no frontend", d.section()),
        );
    }
    Err(vec![Diagnostic::unknown("kind of rule", word, known)])
}

const RESPONSE: Places = Places::BACK;

/// Keywords of rule sets.
pub(crate) const KEYWORDS: &[Keyword] = &[
    keyword(
        "http-request",
        Places::PROXIES,
        "<action> [<if|unless> <condition>]",
        "A rule for each request",
        How::Proxy(|d, a| rule(d, a, Phase::HttpRequest, |p| &mut p.http_request)),
    )
    .example("http-request set-header x-client %[src]"),
    keyword(
        "http-response",
        Places::PROXIES,
        "<action> [<if|unless> <condition>]",
        "A rule for each response of a server",
        How::Proxy(|d, a| rule(d, a, Phase::HttpResponse, |p| &mut p.http_response)),
    )
    .example("http-response del-header server"),
    keyword(
        "http-after-response",
        Places::PROXIES,
        "<action> [<if|unless> <condition>]",
        "A rule for each response, the proxy's own included",
        How::Proxy(|d, a| rule(d, a, Phase::HttpAfterResponse, |p| &mut p.http_after_response)),
    )
    .example("http-after-response set-header x-frame-options DENY"),
    keyword(
        "redirect",
        Places::NAMED,
        "<location|prefix|scheme> <to> [code <code>] [<if|unless> <condition>]",
        "Redirects clients",
        How::Proxy(redirect),
    )
    .example("redirect scheme https unless { ssl_fc }"),
    keyword(
        "tcp-request connection",
        Places::FRONT,
        "<action> [<if|unless> <condition>]",
        "A rule for each new connection",
        How::Proxy(|d, a| rule(d, a, Phase::TcpRequestConnection, |p| &mut p.tcp_request_connection)),
    )
    .example("tcp-request connection reject if { src 192.0.2.0/24 }"),
    keyword(
        "tcp-request session",
        Places::FRONT,
        "<action> [<if|unless> <condition>]",
        "A rule for each connection after its handshakes",
        How::Proxy(|d, a| rule(d, a, Phase::TcpRequestSession, |p| &mut p.tcp_request_session)),
    )
    .example("tcp-request session reject if { src 192.0.2.0/24 }"),
    keyword(
        "tcp-request content",
        Places::PROXIES,
        "<action> [<if|unless> <condition>]",
        "A rule for the first bytes of a request",
        How::Proxy(|d, a| rule(d, a, Phase::TcpRequestContent, |p| &mut p.tcp_request_content)),
    )
    .example("tcp-request content accept if HTTP"),
    keyword(
        "tcp-request inspect-delay",
        Places::PROXIES,
        "<time>",
        "Longest wait for the bytes that rules need",
        How::Proxy(|d, a| inspect_delay(d, a, |p| &mut p.tcp_request_inspect_delay)),
    )
    .example("tcp-request inspect-delay 5s"),
    keyword(
        "tcp-request",
        Places::PROXIES,
        "<connection|session|content|inspect-delay> ...",
        "Rules for connections",
        How::Proxy(bare_tcp_request),
    ),
    keyword(
        "tcp-response content",
        RESPONSE,
        "<action> [<if|unless> <condition>]",
        "A rule for the first bytes of a response",
        How::Proxy(|d, a| rule(d, a, Phase::TcpResponseContent, |p| &mut p.tcp_response_content)),
    )
    .example("tcp-response content accept"),
    keyword(
        "tcp-response inspect-delay",
        RESPONSE,
        "<time>",
        "Longest wait for the bytes that rules need",
        How::Proxy(|d, a| inspect_delay(d, a, |p| &mut p.tcp_response_inspect_delay)),
    )
    .example("tcp-response inspect-delay 5s"),
    keyword(
        "quic-initial",
        Places::FRONT,
        "<action> [<if|unless> <condition>]",
        "A rule for each first QUIC packet",
        How::NotYet,
    ),
];
