//! What happens with bodies: compression and filters.

use weir_rules::{Diagnostic, Word};

use crate::args::{Args, Parsed, choice, fail};
use crate::keywords::{self, How, Keyword, Places, keyword};
use crate::model::Compression;
use crate::proxy::ProxyDraft;

/// Algorithms of `compression algo`.
const ALGORITHMS: &[(&str, &str)] = &[
    ("identity", "identity"),
    ("gzip", "gzip"),
    ("deflate", "deflate"),
    ("raw-deflate", "raw-deflate"),
    ("br", "br"),
    ("zstd", "zstd"),
];

fn compression<'d>(d: &'d mut ProxyDraft<'_>) -> &'d mut Compression {
    d.proxy
        .compression
        .get_or_insert_with(|| Compression { direction_response: true, ..Compression::default() })
}

fn algo(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let first = a.need("one or more of identity, gzip, deflate, raw-deflate, br, zstd")?;
    let mut names = Vec::new();
    for word in std::iter::once(first).chain(a.rest()) {
        names.push(choice(word, "compression algorithm", ALGORITHMS)?.to_owned());
    }
    let settings = compression(d);
    if a.keyword == "compression algo-req" {
        if names.len() > 1 {
            return fail(a.words[1].pos, "requests are compressed by one algorithm");
        }
        settings.algo_req = names.pop();
    } else {
        settings
            .algo_res
            .extend(names.into_iter().filter(|name| !settings.algo_res.contains(name)).collect::<Vec<_>>());
    }
    Ok(())
}

fn types(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    a.need("one or more media types")?;
    let names = a.words.iter().map(|word| word.text.clone());
    let settings = compression(d);
    if a.keyword == "compression type-req" {
        settings.types_req.extend(names);
    } else {
        settings.types_res.extend(names);
    }
    Ok(())
}

fn direction(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("request, response or both")?;
    let known = [("request", (true, false)), ("response", (false, true)), ("both", (true, true))];
    let (request, response) = choice(word, "direction", &known)?;
    let settings = compression(d);
    (settings.direction_request, settings.direction_response) = (request, response);
    a.end()
}

fn filter(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a filter's name")?;
    match word.text.as_slice() {
        // The compression keywords say what it does; there is one place for it.
        b"compression" | b"comp-req" | b"comp-res" => {}
        b"cache" => {
            let name = a.need("a cache's name")?;
            d.scope.references.push(weir_rules::scope::Reference {
                target: weir_rules::scope::Target::Cache(name.as_str().into_owned()),
                pos: name.pos,
            });
        }
        b"trace" => return trace(d, a, word),
        b"spoe" => return spoe(a),
        b"fcgi-app" | b"opentracing" | b"bwlim-in" | b"bwlim-out" => {
            return Err(keywords::not_yet(word, &format!("filter {}", word.as_str())));
        }
        _ => {
            let known =
                ["compression", "cache", "trace", "spoe", "fcgi-app", "opentracing", "bwlim-in", "bwlim-out"];
            return Err(vec![Diagnostic::unknown("filter", word, known)]);
        }
    }
    a.end()
}

/// `filter spoe [engine E] config FILE`: an agent's configuration, which has to be readable first of all.
fn spoe(a: &mut Args<'_>) -> Parsed {
    let pos = a.words[0].pos;
    Err(keywords::not_yet(&weir_rules::Word { text: b"spoe".to_vec(), pos }, "filter spoe"))
}

/// `filter trace`: HAProxy prints its internal events there.
fn trace(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, filter: &Word) -> Parsed {
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"name" => {
                a.value_of(word, "a name")?;
            }
            b"random-forwarding" | b"hexdump" | b"random-parsing" | b"quiet" => {}
            _ => {
                let known = ["name", "random-forwarding", "hexdump", "quiet"];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    let message = "'filter trace' has no effect: there are no internal events to print";
    d.warnings.push(Diagnostic::warning(filter.pos, message));
    Ok(())
}

const fn entry(
    name: &'static str,
    places: Places,
    arguments: &'static str,
    doc: &'static str,
    how: How,
) -> Keyword {
    keyword(name, places, arguments, doc, how)
}

/// Keywords about bodies.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "compression algo",
        Places::PROXIES,
        "<algorithm>...",
        "Algorithms that responses are compressed with",
        How::Proxy(algo),
    ),
    entry(
        "compression algo-res",
        Places::PROXIES,
        "<algorithm>...",
        "Algorithms that responses are compressed with",
        How::Proxy(algo),
    ),
    entry(
        "compression algo-req",
        Places::PROXIES,
        "<algorithm>",
        "Algorithm that requests are compressed with",
        How::Proxy(algo),
    ),
    entry(
        "compression type",
        Places::PROXIES,
        "<type>...",
        "Media types that are compressed",
        How::Proxy(types),
    ),
    entry(
        "compression type-res",
        Places::PROXIES,
        "<type>...",
        "Media types of responses that are compressed",
        How::Proxy(types),
    ),
    entry(
        "compression type-req",
        Places::PROXIES,
        "<type>...",
        "Media types of requests that are compressed",
        How::Proxy(types),
    ),
    entry(
        "compression offload",
        Places::PROXIES,
        "",
        "Removes Accept-Encoding from requests",
        How::Proxy(|d, a| {
            compression(d).offload = true;
            a.end()
        }),
    ),
    entry(
        "compression direction",
        Places::PROXIES,
        "<request|response|both>",
        "What is compressed",
        How::Proxy(direction),
    ),
    entry(
        "compression minsize-req",
        Places::PROXIES,
        "<size>",
        "Shortest request body that is compressed",
        How::Proxy(|d, a| {
            compression(d).minsize_req = a.size()?;
            a.end()
        }),
    ),
    entry(
        "compression minsize-res",
        Places::PROXIES,
        "<size>",
        "Shortest response body that is compressed",
        How::Proxy(|d, a| {
            compression(d).minsize_res = a.size()?;
            a.end()
        }),
    ),
    entry("filter", Places::NAMED, "<name> [<words>]", "Adds a filter", How::Proxy(filter)),
    entry("filter-sequence", Places::NAMED, "<request|response> <name>,...", "Order of filters", How::NotYet),
];
