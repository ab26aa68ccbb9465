//! `option` keywords of proxies, less those of logs and health checks.

use std::net::IpAddr;
use std::sync::Arc;

use weir_rules::{Diagnostic, Expr, Place, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{Args, Parsed, Prefix, choice, fail, fail_hint};
use crate::model::{ForwardFor, Forwarded, KeepAlive, Options, RestrictNames};
use crate::sections::ProxyDraft;

/// Turns a switch on, or off after `no` and `default`.
fn set(d: &mut ProxyDraft<'_>, a: &Args<'_>, field: fn(&mut Options) -> &mut bool) -> Parsed {
    *field(&mut d.proxy.options) = a.prefix == Prefix::None;
    a.end()
}

/// Manual, `option abortonclose`: what says nothing of it is left to the mode of the proxy.
fn abort_on_close(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.proxy.options.abortonclose = match a.prefix {
        Prefix::None => Some(true),
        Prefix::No => Some(false),
        Prefix::Default => None,
    };
    a.end()
}

/// The three ways connections live exclude each other; `no` of the one that is set restores keep-alive.
fn keep_alive(d: &mut ProxyDraft<'_>, a: &Args<'_>, mode: KeepAlive) -> Parsed {
    let current = &mut d.proxy.options.keep_alive;
    if a.prefix == Prefix::None {
        *current = mode;
    } else if *current == mode {
        *current = KeepAlive::KeepAlive;
    }
    a.end()
}

/// `option redispatch [INTERVAL]`
fn redispatch(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.proxy.options.redispatch = match (a.prefix, a.peek()) {
        (Prefix::None, None) => Some(-1),
        (Prefix::None, Some(_)) => Some(a.number(-1000..=1000)?).filter(|interval| *interval != 0),
        _ => None,
    };
    a.end()
}

fn restrict_names(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let known = [
        ("preserve", RestrictNames::Preserve),
        ("delete", RestrictNames::Delete),
        ("reject", RestrictNames::Reject),
    ];
    d.proxy.options.http_restrict_req_hdr_names =
        Some(choice(a.need("preserve, delete or reject")?, "value", &known)?);
    a.end()
}

/// `option forwardfor [except NETWORK] [header NAME] [if-none]`, and `originalto` with the same words.
fn forward_for(a: &mut Args<'_>, header: &str) -> Parsed<Option<ForwardFor>> {
    let mut forward = ForwardFor { header: header.into(), except: Vec::new(), if_none: false };
    if a.prefix != Prefix::None {
        a.end()?;
        return Ok(None);
    }
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"except" => forward.except.push(network(a.value_of(word, "a network such as 10.0.0.0/8")?)?),
            b"header" => forward.header = a.value_of(word, "a field name")?.text.clone(),
            b"if-none" => forward.if_none = true,
            _ => return Err(vec![Diagnostic::unknown("word", word, ["except", "header", "if-none"])]),
        }
    }
    Ok(Some(forward))
}

/// An address with an optional prefix length or dotted mask.
pub(crate) fn network(word: &Word) -> Parsed<(IpAddr, u8)> {
    let text = word.as_str();
    let wrong = || fail(word.pos, format!("'{text}' is not a network such as 10.0.0.0/8"));
    let (address, mask) =
        text.split_once('/').map_or((&*text, None), |(address, mask)| (address, Some(mask)));
    let Ok(ip) = address.parse::<IpAddr>() else { return wrong() };
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let length = match mask {
        None => longest,
        Some(mask) => match mask.parse::<u8>() {
            Ok(length) if length <= longest => length,
            Ok(_) => return wrong(),
            Err(_) => match mask.parse::<std::net::Ipv4Addr>() {
                Ok(dotted)
                    if ip.is_ipv4()
                        && u32::from(dotted).leading_ones() + u32::from(dotted).trailing_zeros() >= 32 =>
                {
                    u32::from(dotted).leading_ones() as u8
                }
                _ => return wrong(),
            },
        },
    };
    Ok((ip, length))
}

/// `option forwarded [proto] [host|host-expr E] [by|by-expr E] ...`
fn forwarded(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix != Prefix::None {
        d.proxy.options.forwarded = None;
        return a.end();
    }
    let mut header = Forwarded::default();
    if a.peek().is_none() {
        header.proto = true;
        header.r#for = Some(None);
    }
    while let Some(word) = a.next() {
        let text = word.as_str();
        if text == "proto" {
            header.proto = true;
            continue;
        }
        let (name, custom) = text.strip_suffix("-expr").map_or((&*text, false), |name| (name, true));
        let field = match name {
            "host" => &mut header.host,
            "by" => &mut header.by,
            "by_port" => &mut header.by_port,
            "for" => &mut header.r#for,
            "for_port" => &mut header.for_port,
            _ => {
                let known = [
                    "proto",
                    "host",
                    "host-expr",
                    "by",
                    "by-expr",
                    "by_port",
                    "by_port-expr",
                    "for",
                    "for-expr",
                    "for_port",
                    "for_port-expr",
                ];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        };
        if field.is_some() {
            return fail(word.pos, format!("'{name}' is given twice"));
        }
        *field = Some(if custom { Some(expression(d, word, a)?) } else { None });
    }
    // RFC 7239 section 6: a port belongs to a node.
    for (port, node, name) in [(&header.by_port, &header.by, "by"), (&header.for_port, &header.r#for, "for")]
    {
        if port.is_some() && node.is_none() {
            return fail_hint(
                a.keyword_pos,
                format!("'{name}_port' needs '{name}'"),
                format!("add '{name}' or '{name}-expr'"),
            );
        }
    }
    d.proxy.options.forwarded = Some(header);
    Ok(())
}

fn expression(d: &mut ProxyDraft<'_>, word: &Word, a: &mut Args<'_>) -> Parsed<Arc<Expr>> {
    if a.peek().is_none() {
        a.value_of(word, "an expression")?;
    }
    let (expr, used) =
        d.at(Place::Rule(weir_rules::Phase::HttpRequest), |d| Expr::parse(a.ahead(), &mut d.scope))?;
    a.skip(used);
    Ok(Arc::new(expr))
}

const fn entry(
    name: &'static str,
    places: Places,
    arguments: &'static str,
    doc: &'static str,
    how: How,
) -> Keyword {
    keyword(name, places, arguments, doc, how).negatable()
}

const ALL: Places = Places::PROXIES;
const FRONT: Places = Places::FRONT;
const BACK: Places = Places::BACK;

/// `option` keywords.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "option abortonclose",
        ALL,
        "",
        "Gives requests up whose client closed; on by default in HTTP backends",
        How::Proxy(abort_on_close),
    )
    .example("option abortonclose"),
    entry(
        "option accept-invalid-http-request",
        FRONT,
        "",
        "Accepts some malformed requests (old name)",
        How::Proxy(|d, a| set(d, a, |o| &mut o.accept_unsafe_violations_in_http_request)),
    ),
    entry(
        "option accept-invalid-http-response",
        BACK,
        "",
        "Accepts some malformed responses (old name)",
        How::Proxy(|d, a| set(d, a, |o| &mut o.accept_unsafe_violations_in_http_response)),
    ),
    entry(
        "option accept-unsafe-violations-in-http-request",
        FRONT,
        "",
        "Accepts some malformed requests",
        How::Proxy(|d, a| set(d, a, |o| &mut o.accept_unsafe_violations_in_http_request)),
    )
    .example("option accept-unsafe-violations-in-http-request"),
    entry(
        "option accept-unsafe-violations-in-http-response",
        BACK,
        "",
        "Accepts some malformed responses",
        How::Proxy(|d, a| set(d, a, |o| &mut o.accept_unsafe_violations_in_http_response)),
    )
    .example("option accept-unsafe-violations-in-http-response"),
    entry(
        "option allbackups",
        BACK,
        "",
        "Uses all backup servers at a time",
        How::Proxy(|d, a| set(d, a, |o| &mut o.allbackups)),
    )
    .example("option allbackups"),
    entry(
        "option checkcache",
        BACK,
        "",
        "Refuses cacheable responses that set cookies",
        How::Proxy(|d, a| set(d, a, |o| &mut o.checkcache)),
    )
    .example("option checkcache"),
    entry(
        "option clitcpka",
        FRONT,
        "",
        "TCP keep-alive to clients",
        How::Proxy(|d, a| set(d, a, |o| &mut o.clitcpka)),
    )
    .example("option clitcpka"),
    entry(
        "option contstats",
        FRONT,
        "",
        "Counts bytes while they flow",
        How::Proxy(|d, a| set(d, a, |o| &mut o.contstats)),
    )
    .example("option contstats"),
    entry(
        "option disable-h2-upgrade",
        FRONT,
        "",
        "Refuses HTTP/2 where HTTP/1 was expected",
        How::Proxy(|d, a| set(d, a, |o| &mut o.disable_h2_upgrade)),
    )
    .example("option disable-h2-upgrade"),
    entry(
        "option forwardfor",
        ALL,
        "[except <network>] [header <name>] [if-none]",
        "Adds X-Forwarded-For",
        How::Proxy(|d, a| {
            d.proxy.forwardfor = forward_for(a, "X-Forwarded-For")?;
            Ok(())
        }),
    )
    .example("option forwardfor except 127.0.0.0/8"),
    entry(
        "option forwarded",
        Places::BACK,
        "[proto] [host|host-expr <expr>] [by|by-expr <expr>] ...",
        "Adds Forwarded (RFC 7239)",
        How::Proxy(forwarded),
    )
    .example("option forwarded"),
    entry(
        "option h1-case-adjust-bogus-client",
        FRONT,
        "",
        "Sends field names as h1-case-adjust says",
        How::Proxy(|d, a| set(d, a, |o| &mut o.h1_case_adjust_bogus_client)),
    )
    .example("option h1-case-adjust-bogus-client"),
    entry(
        "option h1-case-adjust-bogus-server",
        BACK,
        "",
        "Sends field names as h1-case-adjust says",
        How::Proxy(|d, a| set(d, a, |o| &mut o.h1_case_adjust_bogus_server)),
    )
    .example("option h1-case-adjust-bogus-server"),
    entry(
        "option http-buffer-request",
        ALL,
        "",
        "Waits for the request's body before a server is chosen",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_buffer_request)),
    )
    .example("option http-buffer-request"),
    entry(
        "option http-drop-request-trailers",
        BACK,
        "",
        "Drops trailers of requests",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_drop_request_trailers)),
    )
    .example("option http-drop-request-trailers"),
    entry(
        "option http-drop-response-trailers",
        FRONT,
        "",
        "Drops trailers of responses",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_drop_response_trailers)),
    )
    .example("option http-drop-response-trailers"),
    entry(
        "option http-ignore-probes",
        FRONT,
        "",
        "Says nothing about connections without a request",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_ignore_probes)),
    )
    .example("option http-ignore-probes"),
    entry(
        "option http-keep-alive",
        ALL,
        "",
        "Keeps connections of both sides",
        How::Proxy(|d, a| keep_alive(d, a, KeepAlive::KeepAlive)),
    )
    .example("option http-keep-alive"),
    entry(
        "option http-no-delay",
        ALL,
        "",
        "Sends small pieces at once",
        How::NoEffect("small pieces are always sent at once"),
    )
    .example("option http-no-delay"),
    entry(
        "option http-pretend-keepalive",
        BACK,
        "",
        "Does not tell servers that the connection will close",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_pretend_keepalive)),
    )
    .example("option http-pretend-keepalive"),
    entry(
        "option http-restrict-req-hdr-names",
        ALL,
        "<preserve|delete|reject>",
        "What happens with field names beyond letters, digits and hyphens",
        How::Proxy(restrict_names),
    )
    .example("option http-restrict-req-hdr-names reject"),
    entry(
        "option http-server-close",
        ALL,
        "",
        "Closes the server's side after each response",
        How::Proxy(|d, a| keep_alive(d, a, KeepAlive::ServerClose)),
    )
    .example("option http-server-close"),
    entry(
        "option http-tunnel",
        ALL,
        "",
        "Tunnels after the first response",
        How::Removed("the first response never makes a tunnel"),
    ),
    entry(
        "option http-use-htx",
        ALL,
        "",
        "HAProxy's newer HTTP representation",
        How::NoEffect("there is one representation"),
    ),
    entry(
        "option http-use-proxy-header",
        FRONT,
        "",
        "Uses Proxy-Connection instead of Connection",
        How::Proxy(|d, a| set(d, a, |o| &mut o.http_use_proxy_header)),
    )
    .example("option http-use-proxy-header"),
    entry(
        "option http_proxy",
        ALL,
        "",
        "Forwards to the address in the request",
        How::Removed("use 'http-request set-dst' and 'set-dst-port'"),
    ),
    entry(
        "option httpclose",
        ALL,
        "",
        "Closes both sides after each response",
        How::Proxy(|d, a| keep_alive(d, a, KeepAlive::Close)),
    )
    .example("option httpclose"),
    entry(
        "option forceclose",
        ALL,
        "",
        "Closes both sides after each response (old name)",
        How::Proxy(|d, a| keep_alive(d, a, KeepAlive::Close)),
    ),
    entry(
        "option idle-close-on-response",
        FRONT,
        "",
        "Does not close idle clients at once when stopping",
        How::NoEffect("idle clients are always told with their next response, within the grace time"),
    )
    .example("option idle-close-on-response"),
    entry(
        "option independent-streams",
        ALL,
        "",
        "Data sent to a side does not refresh its timeout",
        How::Proxy(|d, a| set(d, a, |o| &mut o.independent_streams)),
    )
    .example("option independent-streams"),
    entry(
        "option nolinger",
        ALL,
        "",
        "Closes without waiting for the peer",
        How::Proxy(|d, a| set(d, a, |o| &mut o.nolinger)),
    )
    .example("option nolinger"),
    entry(
        "option originalto",
        ALL,
        "[except <network>] [header <name>]",
        "Adds X-Original-To",
        How::Proxy(|d, a| {
            d.proxy.originalto = forward_for(a, "X-Original-To")?;
            Ok(())
        }),
    )
    .example("option originalto"),
    entry(
        "option persist",
        BACK,
        "",
        "Sends to the cookie's server even when it is down",
        How::Proxy(|d, a| set(d, a, |o| &mut o.persist)),
    )
    .example("option persist"),
    entry(
        "option prefer-last-server",
        BACK,
        "",
        "Sends a client's next request to the same server",
        How::Proxy(|d, a| set(d, a, |o| &mut o.prefer_last_server)),
    )
    .example("option prefer-last-server"),
    entry(
        "option redispatch",
        BACK,
        "[<interval>]",
        "Tries another server after failures",
        How::Proxy(redispatch),
    )
    .example("option redispatch"),
    entry(
        "option socket-stats",
        FRONT,
        "",
        "Statistics for each socket",
        How::Proxy(|d, a| set(d, a, |o| &mut o.socket_stats)),
    )
    .example("option socket-stats"),
    entry(
        "option splice-auto",
        ALL,
        "",
        "Lets the kernel forward data when it pays",
        How::NoEffect("a hint: the kernel is never asked to forward bodies by itself"),
    )
    .example("option splice-auto"),
    entry(
        "option splice-request",
        ALL,
        "",
        "Lets the kernel forward requests",
        How::NoEffect("a hint: the kernel is never asked to forward bodies by itself"),
    )
    .example("option splice-request"),
    entry(
        "option splice-response",
        ALL,
        "",
        "Lets the kernel forward responses",
        How::NoEffect("a hint: the kernel is never asked to forward bodies by itself"),
    )
    .example("option splice-response"),
    entry(
        "option srvtcpka",
        BACK,
        "",
        "TCP keep-alive to servers",
        How::Proxy(|d, a| set(d, a, |o| &mut o.srvtcpka)),
    )
    .example("option srvtcpka"),
    entry(
        "option tcp-smart-accept",
        FRONT,
        "",
        "Delays the acknowledgement of the first data",
        How::NoEffect("a hint about packets: the system decides when it acknowledges"),
    )
    .example("option tcp-smart-accept"),
    entry(
        "option tcp-smart-connect",
        BACK,
        "",
        "Sends the first data with the handshake's end",
        How::NoEffect("a hint about packets: the system decides when it acknowledges"),
    )
    .example("option tcp-smart-connect"),
    entry(
        "option tcpka",
        ALL,
        "",
        "TCP keep-alive on both sides",
        How::Proxy(|d, a| {
            set(d, a, |o| &mut o.clitcpka)?;
            set(d, a, |o| &mut o.srvtcpka)
        }),
    )
    .example("option tcpka"),
    entry(
        "option transparent",
        BACK,
        "",
        "Forwards to the client's destination",
        How::Removed("use a server with the address 0.0.0.0: it stands for the one the client asked for"),
    ),
    entry(
        "option use-small-buffers",
        BACK,
        "[<queue|l7-retries|check>...]",
        "Smaller buffers where they suffice",
        How::NoEffect("buffers grow with what they hold"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let check = |text: &str, expected: Option<(&str, u8)>| {
            let word = Word { text: text.into(), ..Word::default() };
            assert_eq!(network(&word).ok(), expected.map(|(ip, len)| (ip.parse().unwrap(), len)), "{text}");
        };
        check("10.0.0.0/8", Some(("10.0.0.0", 8)));
        check("10.0.0.0/255.0.0.0", Some(("10.0.0.0", 8)));
        check("127.0.0.1", Some(("127.0.0.1", 32)));
        check("::1", Some(("::1", 128)));
        check("2001:db8::/32", Some(("2001:db8::", 32)));
        check("10.0.0.0/33", None);
        check("10.0.0.0/255.0.255.0", None);
        check("x", None);
    }
}
