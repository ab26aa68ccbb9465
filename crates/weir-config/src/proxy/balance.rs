//! Choice of the server and what happens when it fails: balance, hashing, persistence, retries, reuse.

use std::time::Duration;

use weir_balance::{Affinity, Algorithm, HashFunction, HashMethod, HashType, UriKey};
use weir_rules::{Diagnostic, Expr, Place, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{self, Args, Parsed, Prefix, choice, fail, fail_hint};
use crate::language::units::Unit;
use crate::model::{BalanceKey, CookiePersistence, HttpReuse, RetryOn};
use crate::proxy::parenthesised;
use crate::sections::ProxyDraft;

fn balance(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    (d.proxy.balance, d.proxy.balance_key) = match a.peek() {
        Some(_) => algorithm(d, a)?,
        None => (Algorithm::default(), BalanceKey::None),
    };
    a.end()
}

fn algorithm(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed<(Algorithm, BalanceKey)> {
    let word = a.need("an algorithm such as roundrobin")?;
    let text = word.as_str();
    let (name, argument) = text.split_once('(').map_or((&*text, None), |(name, rest)| (name, Some(rest)));
    let takes_argument =
        |it: &Algorithm| matches!(it, Algorithm::Random { .. } | Algorithm::Hdr | Algorithm::RdpCookie);
    let named = Algorithm::named(name).filter(|found| argument.is_none() || takes_argument(found));
    let Some(algorithm) = named else {
        let names = Algorithm::NAMES.iter().map(|(name, _)| *name);
        return Err(vec![Diagnostic::unknown("balancing algorithm", word, names)]);
    };
    if argument.is_some_and(|rest| !rest.ends_with(')')) {
        return fail(word.pos, format!("')' is missing at the end of '{text}'"));
    }
    let key = match algorithm {
        Algorithm::Random { .. } => return Ok((random(word, algorithm)?, BalanceKey::None)),
        Algorithm::Source => BalanceKey::Source,
        Algorithm::Uri => uri(a)?,
        Algorithm::UrlParam => url_param(a)?,
        Algorithm::Hdr => header(word, a)?,
        Algorithm::RdpCookie => rdp_cookie(word)?,
        Algorithm::Hash => BalanceKey::Expr(expression(d, a)?),
        Algorithm::LogHash => log_hash(d, a)?,
        // The others are a word and need no key; a test walks all of them.
        _ => BalanceKey::None,
    };
    Ok((algorithm, key))
}

fn expression(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed<Expr> {
    if a.peek().is_none() {
        a.need("an expression")?;
    }
    let (expr, used) = d.at(Place::BackendRequest, |d| Expr::parse(a.ahead(), &mut d.scope))?;
    a.skip(used);
    Ok(expr)
}

/// `balance log-hash CONVERTERS`: they are applied to the message, which stands where a request's bytes stand.
fn log_hash(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed<BalanceKey> {
    let word = a.need("converters between commas")?;
    let text = [b"req.payload(0,0),", word.text.as_slice()].concat();
    let words = [Word { text, pos: word.pos }];
    let (expr, _) = d.at(Place::Any, |d| Expr::parse(&words, &mut d.scope))?;
    Ok(BalanceKey::Expr(expr))
}

/// `balance uri [len N] [depth N] [whole] [path-only]`
fn uri(a: &mut Args<'_>) -> Parsed<BalanceKey> {
    let mut key = UriKey::default();
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"len" => key.len = args::number(a.value_of(word, "a number")?, 1..=usize::MAX)?,
            b"depth" => key.depth = args::number(a.value_of(word, "a number")?, 1..=usize::MAX)?,
            b"whole" => key.whole = true,
            b"path-only" => key.path_only = true,
            _ => return Err(vec![Diagnostic::unknown("word", word, ["len", "depth", "whole", "path-only"])]),
        }
    }
    Ok(BalanceKey::Uri(key))
}

/// `balance url_param NAME [check_post [N]]`
fn url_param(a: &mut Args<'_>) -> Parsed<BalanceKey> {
    let name = a.need("a parameter's name")?.text.clone();
    let mut check_post = 0;
    if a.take("check_post") {
        check_post = match a.peek() {
            Some(_) => a.number(3..=usize::MAX)?,
            None => 48,
        };
    }
    Ok(BalanceKey::UrlParam { name, check_post })
}

fn header(word: &Word, a: &mut Args<'_>) -> Parsed<BalanceKey> {
    let name = parenthesised(word).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return fail_hint(word.pos, "'hdr' needs a field name", "write for instance hdr(host)");
    };
    Ok(BalanceKey::Hdr { name, use_domain_only: a.take("use_domain_only") })
}

/// `rdp-cookie[(NAME)]`
fn rdp_cookie(word: &Word) -> Parsed<BalanceKey> {
    let name = parenthesised(word).unwrap_or_else(|| b"mstshash".to_vec());
    if name.is_empty() {
        return fail_hint(
            word.pos,
            "'rdp-cookie()' needs a cookie's name",
            "write rdp-cookie or rdp-cookie(name)",
        );
    }
    Ok(BalanceKey::RdpCookie { name })
}

/// `random[([DRAWS])]`
fn random(word: &Word, default: Algorithm) -> Parsed<Algorithm> {
    let Some(draws) = parenthesised(word).filter(|draws| !draws.is_empty()) else { return Ok(default) };
    let draws = Word { text: draws, pos: word.pos };
    Ok(Algorithm::Random { draws: args::number(&draws, 1..=1024)? })
}

/// `hash-type METHOD [FUNCTION [MODIFIER]]`
fn hash_type(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let method = a.need("map-based or consistent")?;
    let mut hash = HashType::default();
    hash.method = match method.text.as_slice() {
        b"avalanche" => {
            // The old single word for a map with avalanche.
            hash.avalanche = true;
            HashMethod::MapBased
        }
        _ => {
            let known = [("map-based", HashMethod::MapBased), ("consistent", HashMethod::Consistent)];
            choice(method, "hash type", &known)?
        }
    };
    if a.peek().is_none() && hash.method == HashMethod::Consistent {
        hash = HashType::CONSISTENT;
    }
    if let Some(function) = a.next() {
        let known = [
            ("sdbm", HashFunction::Sdbm),
            ("djb2", HashFunction::Djb2),
            ("wt6", HashFunction::Wt6),
            ("crc32", HashFunction::Crc32),
            ("none", HashFunction::None),
        ];
        hash.function = choice(function, "hash function", &known)?;
    }
    if let Some(modifier) = a.next() {
        hash.avalanche = choice(modifier, "modifier", &[("avalanche", true)])?;
    }
    d.proxy.hash = hash;
    a.end()
}

fn preserve_affinity(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let known =
        [("always", Affinity::Always), ("maxconn", Affinity::MaxConn), ("maxqueue", Affinity::MaxQueue)];
    d.proxy.hash_preserve_affinity = choice(a.need("always, maxconn or maxqueue")?, "value", &known)?;
    a.end()
}

fn cookie(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut cookie =
        CookiePersistence { name: a.need("a cookie's name")?.text.clone(), ..CookiePersistence::default() };
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"rewrite" => cookie.rewrite = true,
            b"insert" => cookie.insert = true,
            b"prefix" => cookie.prefix = true,
            b"indirect" => cookie.indirect = true,
            b"nocache" => cookie.nocache = true,
            b"postonly" => cookie.postonly = true,
            b"preserve" => cookie.preserve = true,
            b"httponly" => cookie.httponly = true,
            b"secure" => cookie.secure = true,
            b"dynamic" => cookie.dynamic = true,
            b"domain" => cookie.domains.push(a.value_of(word, "a domain")?.text.clone()),
            b"maxidle" => cookie.maxidle = Some(seconds(word, a)?),
            b"maxlife" => cookie.maxlife = Some(seconds(word, a)?),
            b"attr" => cookie.attrs.push(a.value_of(word, "an attribute")?.text.clone()),
            _ => {
                let known = [
                    "rewrite", "insert", "prefix", "indirect", "nocache", "postonly", "preserve", "httponly",
                    "secure", "domain", "maxidle", "maxlife", "dynamic", "attr",
                ];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    if [cookie.rewrite, cookie.insert, cookie.prefix].iter().filter(|set| **set).count() > 1 {
        return fail(a.keyword_pos, "'cookie' takes only one of rewrite, insert and prefix");
    }
    if (cookie.rewrite || cookie.prefix) && cookie.indirect {
        return fail(a.keyword_pos, "'indirect' goes with 'insert' only");
    }
    d.proxy.cookie = Some(cookie);
    Ok(())
}

fn seconds(word: &Word, a: &mut Args<'_>) -> Parsed<Duration> {
    args::time(a.value_of(word, "a time")?, Unit::Seconds)
}

/// Statuses that may be retried on.
const RETRIED_STATUSES: &[u16] = &[401, 403, 404, 408, 421, 425, 429, 500, 501, 502, 503, 504];

fn retry_on(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut retry = RetryOn::default();
    let first = a.need("one or more failures")?;
    for word in std::iter::once(first).chain(a.rest()) {
        match word.text.as_slice() {
            b"none" => retry = RetryOn::default(),
            b"conn-failure" => retry.conn_failure = true,
            b"empty-response" => retry.empty_response = true,
            b"junk-response" => retry.junk_response = true,
            b"response-timeout" => retry.response_timeout = true,
            // Requests are never sent as early data: it cannot happen.
            b"0rtt-rejected" => {}
            b"all-retryable-errors" => {
                retry = RetryOn {
                    conn_failure: true,
                    empty_response: true,
                    junk_response: true,
                    response_timeout: true,
                    statuses: vec![500, 502, 503, 504],
                }
            }
            _ => match word.as_str().parse().ok().filter(|status| RETRIED_STATUSES.contains(status)) {
                Some(status) => retry.statuses.push(status),
                None => {
                    let known = [
                        "none",
                        "conn-failure",
                        "empty-response",
                        "junk-response",
                        "response-timeout",
                        "0rtt-rejected",
                        "all-retryable-errors",
                    ];
                    return Err(vec![
                        Diagnostic::unknown("failure", word, known)
                            .hint("a failure such as conn-failure, or a status such as 503, was expected"),
                    ]);
                }
            },
        }
    }
    retry.statuses.sort_unstable();
    retry.statuses.dedup();
    d.proxy.retry_on = retry;
    Ok(())
}

fn http_reuse(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let known = [
        ("never", HttpReuse::Never),
        ("safe", HttpReuse::Safe),
        ("aggressive", HttpReuse::Aggressive),
        ("always", HttpReuse::Always),
    ];
    d.proxy.http_reuse = choice(a.need("never, safe, aggressive or always")?, "value", &known)?;
    a.end()
}

fn send_name_header(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.proxy.http_send_name_header = match a.prefix {
        Prefix::None => Some(a.need("a field name")?.text.clone()),
        _ => None,
    };
    a.end()
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::BACK, arguments, doc, how)
}

/// Keywords about the choice of servers.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry("balance", "<algorithm> [<arguments>]", "How servers are chosen", How::Proxy(balance))
        .default("roundrobin")
        .example("balance leastconn"),
    entry(
        "cookie",
        "<name> [rewrite|insert|prefix] [indirect] [nocache] ...",
        "Keeps clients on their server by a cookie",
        How::Proxy(cookie),
    )
    .example("cookie SERVER insert indirect nocache"),
    entry(
        "hash-balance-factor",
        "<percent>",
        "Most load of a server, compared with the average",
        How::Proxy(|d, a| {
            let word = a.need("0, or 101 and above")?;
            let factor = args::number(word, 0..=u32::MAX)?;
            if (1..=100).contains(&factor) {
                return fail(word.pos, "'hash-balance-factor' must be 0 or greater than 100");
            }
            d.proxy.hash_balance_factor = factor;
            a.end()
        }),
    )
    .default("0, off")
    .example("balance source\nhash-type consistent\nhash-balance-factor 150"),
    entry(
        "hash-preserve-affinity",
        "<always|maxconn|maxqueue>",
        "When hashing avoids a server that is full",
        How::Proxy(preserve_affinity),
    )
    .default("always")
    .example("balance source\nhash-preserve-affinity maxconn"),
    entry(
        "hash-type",
        "<map-based|consistent> [<function> [avalanche]]",
        "How hashes choose servers",
        How::Proxy(hash_type),
    )
    .default("map-based sdbm")
    .example("hash-type consistent sdbm avalanche"),
    entry(
        "http-reuse",
        "<never|safe|aggressive|always>",
        "When idle connections to servers are shared",
        How::Proxy(http_reuse),
    )
    .default("safe")
    .example("http-reuse always"),
    entry(
        "http-send-name-header",
        "<name>",
        "Field that tells the server its name",
        How::Proxy(send_name_header),
    )
    .example("http-send-name-header x-server")
    .negatable(),
    entry(
        "retries",
        "<number>",
        "Attempts after the first",
        How::Proxy(|d, a| {
            d.proxy.retries = a.number(0..=i32::MAX as u32)?;
            a.end()
        }),
    )
    .default("3")
    .example("retries 2"),
    entry("retry-on", "<failure>...", "Failures after which a request is sent again", How::Proxy(retry_on))
        .default("conn-failure")
        .example("retry-on conn-failure empty-response"),
    entry(
        "redispatch",
        "",
        "Tries another server after failures (old form)",
        How::Removed("use 'option redispatch'"),
    ),
    entry(
        "appsession",
        "<cookie> len <n> timeout <t>",
        "Learns cookies of the servers",
        How::Removed("use 'stick on' with a table"),
    ),
];
