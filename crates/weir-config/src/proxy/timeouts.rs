//! `timeout` keywords of proxies.

use std::time::Duration;

use weir_rules::Diagnostic;

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{Args, Parsed};
use crate::model::Timeouts;
use crate::sections::ProxyDraft;

/// Reads a time; zero is no limit.
fn set(
    d: &mut ProxyDraft<'_>,
    a: &mut Args<'_>,
    field: fn(&mut Timeouts) -> &mut Option<Duration>,
) -> Parsed {
    let time = a.time()?;
    let name = a.keyword.strip_prefix("timeout ").unwrap_or_default();
    if let Some(line) = d.timeout_lines.insert(name.to_owned(), a.keyword_pos.line)
        && !d.inherited
    {
        let message = format!("'{}' overwrites the one of line {line}", a.keyword);
        d.warnings.push(Diagnostic::warning(a.keyword_pos, message));
    }
    *field(&mut d.proxy.timeouts) = Some(time).filter(|time| !time.is_zero());
    a.end()
}

const fn entry(name: &'static str, places: Places, doc: &'static str, how: How) -> Keyword {
    keyword(name, places, "<time>", doc, how)
}

/// `timeout` keywords.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "timeout check",
        Places::BACK,
        "Longest wait for a check's response after its connection",
        How::Proxy(|d, a| set(d, a, |t| &mut t.check)),
    )
    .example("timeout check 2s"),
    entry(
        "timeout client",
        Places::FRONT,
        "Longest inactivity of a client",
        How::Proxy(|d, a| set(d, a, |t| &mut t.client)),
    )
    .example("timeout client 30s"),
    entry(
        "timeout client-fin",
        Places::FRONT,
        "Longest inactivity of a client after one side closed",
        How::Proxy(|d, a| set(d, a, |t| &mut t.client_fin)),
    )
    .example("timeout client-fin 10s"),
    entry(
        "timeout client-hs",
        Places::FRONT,
        "Longest TLS handshake of a client",
        How::Proxy(|d, a| set(d, a, |t| &mut t.client_hs)),
    )
    .example("timeout client-hs 5s"),
    entry(
        "timeout connect",
        Places::BACK,
        "Longest connection attempt to a server",
        How::Proxy(|d, a| set(d, a, |t| &mut t.connect)),
    )
    .example("timeout connect 5s"),
    entry(
        "timeout http-keep-alive",
        Places::PROXIES,
        "Longest wait for the next request",
        How::Proxy(|d, a| set(d, a, |t| &mut t.http_keep_alive)),
    )
    .example("timeout http-keep-alive 10s"),
    entry(
        "timeout http-request",
        Places::PROXIES,
        "Longest wait for a complete request head",
        How::Proxy(|d, a| set(d, a, |t| &mut t.http_request)),
    )
    .example("timeout http-request 5s"),
    entry(
        "timeout queue",
        Places::BACK,
        "Longest wait for a free connection slot",
        How::Proxy(|d, a| set(d, a, |t| &mut t.queue)),
    )
    .example("timeout queue 30s"),
    entry(
        "timeout server",
        Places::BACK,
        "Longest inactivity of a server",
        How::Proxy(|d, a| set(d, a, |t| &mut t.server)),
    )
    .example("timeout server 30s"),
    entry(
        "timeout server-fin",
        Places::BACK,
        "Longest inactivity of a server after one side closed",
        How::Proxy(|d, a| set(d, a, |t| &mut t.server_fin)),
    )
    .example("timeout server-fin 10s"),
    entry(
        "timeout tarpit",
        Places::PROXIES,
        "Time a tarpitted request is held",
        How::Proxy(|d, a| set(d, a, |t| &mut t.tarpit)),
    )
    .example("timeout tarpit 20s"),
    entry(
        "timeout tunnel",
        Places::BACK,
        "Longest inactivity of a tunnel",
        How::Proxy(|d, a| set(d, a, |t| &mut t.tunnel)),
    )
    .example("timeout tunnel 1h"),
];
