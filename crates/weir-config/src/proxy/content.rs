//! What happens with bodies: compression and filters.

use std::sync::Arc;

use weir_balance::Limit;
use weir_compress::Algorithm;
use weir_rules::expr::scope::{Reference, Target};
use weir_rules::{Diagnostic, Word};

use crate::keyword::{self, How, Keyword, Places, keyword as entry};
use crate::language::args::{self, Args, Parsed, choice, fail};
use crate::language::tree::SectionKind;
use crate::model::{Compression, Filter, TraceFilter};
use crate::proxy::bandwidth;
use crate::sections::ProxyDraft;

fn compression<'d>(d: &'d mut ProxyDraft<'_>) -> &'d mut Compression {
    d.proxy
        .compression
        .get_or_insert_with(|| Compression { direction_response: true, ..Compression::default() })
}

fn algo(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let first = a.need("one or more of identity, gzip, deflate, raw-deflate, br, zstd")?;
    let known = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    let mut algorithms = Vec::new();
    for word in std::iter::once(first).chain(a.rest()) {
        algorithms.push(choice(word, "compression algorithm", &known)?);
    }
    let settings = compression(d);
    if a.keyword == "compression algo-req" {
        if algorithms.len() > 1 {
            return fail(a.words[1].pos, "requests are compressed by one algorithm");
        }
        settings.algo_req = algorithms.pop();
    } else {
        algorithms.retain(|algorithm| !settings.algo_res.contains(algorithm));
        settings.algo_res.append(&mut algorithms);
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

fn offload(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if d.kind == SectionKind::Defaults || d.inherited {
        if !d.inherited {
            let message = "'compression offload' ignored in a 'defaults' section";
            d.warnings.push(Diagnostic::warning(a.keyword_pos, message));
        }
        return a.end();
    }
    compression(d).offload = true;
    a.end()
}

fn direction(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("request, response or both")?;
    let known = [("request", (true, false)), ("response", (false, true)), ("both", (true, true))];
    let (request, response) = choice(word, "direction", &known)?;
    let settings = compression(d);
    (settings.direction_request, settings.direction_response) = (request, response);
    a.end()
}

/// The filters there are; some are not implemented yet.
const FILTERS: &[&str] = &[
    "compression",
    "comp-req",
    "comp-res",
    "cache",
    "trace",
    "spoe",
    "fcgi-app",
    "opentracing",
    "bwlim-in",
    "bwlim-out",
];

/// Most filters of a proxy: each body is passed through all of them.
const MAX_FILTERS: usize = 16;

fn filter(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a filter's name")?;
    let filter = match word.text.as_slice() {
        b"compression" => Filter::Compression,
        b"comp-req" => Filter::CompressRequests,
        b"comp-res" => Filter::CompressResponses,
        b"cache" => {
            let name = a.need("a cache's name")?;
            let target = Target::Cache(name.as_str().into_owned());
            d.scope.references.push(Reference { target, pos: name.pos });
            Filter::Cache(name.as_str().into_owned())
        }
        b"trace" => Filter::Trace(trace(a)?),
        b"bwlim-in" | b"bwlim-out" => {
            let upload = *word == "bwlim-in";
            let filter = bandwidth::filter(d, a, upload)?;
            if d.proxy
                .filters
                .iter()
                .any(|known| known.bandwidth().is_some_and(|known| known.name == filter.name))
            {
                let message =
                    format!("{} has two bandwidth limitation filters '{}'", d.section(), filter.name);
                return fail(word.pos, message);
            }
            Filter::Bandwidth(Arc::new(filter))
        }
        b"fcgi-app" => {
            fcgi_app(d, a.need("the name of an 'fcgi-app' section")?)?;
            Filter::FcgiApp
        }
        b"spoe" | b"opentracing" => {
            return Err(keyword::not_yet(word, &format!("filter {}", word.as_str())));
        }
        _ => return Err(vec![Diagnostic::unknown("filter", word, FILTERS.iter().copied())]),
    };
    let repeated = |known: &Filter| {
        *known == filter || (known.compresses() && filter.compresses() && either_is_both(known, &filter))
    };
    if filter.compresses() && d.proxy.filters.iter().any(repeated) {
        return fail(word.pos, format!("{} supports only one compression filter", d.section()));
    }
    if d.proxy.filters.len() >= MAX_FILTERS {
        return fail(word.pos, format!("{} has more than {MAX_FILTERS} filters", d.section()));
    }
    d.proxy.filters.push(filter);
    a.end()
}

/// The FastCGI application of a backend, which its filter names again.
pub(crate) fn fcgi_app(d: &mut ProxyDraft<'_>, word: &Word) -> Parsed {
    let name = word.as_str().into_owned();
    match &d.proxy.use_fcgi_app {
        Some(other) if *other != name => {
            return fail(word.pos, format!("{} uses the fcgi-app '{other}' already", d.section()));
        }
        _ if !d.proxy.backend => return fail(word.pos, format!("{} has no servers", d.section())),
        _ => {}
    }
    d.scope.references.push(Reference { target: Target::FcgiApp(name.clone()), pos: word.pos });
    d.proxy.use_fcgi_app = Some(name);
    Ok(())
}

/// `filter compression` stands for both directions.
fn either_is_both(one: &Filter, other: &Filter) -> bool {
    *one == Filter::Compression || *other == Filter::Compression
}

fn trace(a: &mut Args<'_>) -> Parsed<TraceFilter> {
    let mut trace = TraceFilter { name: "TRACE".to_owned(), ..TraceFilter::default() };
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"name" => trace.name = a.value_of(word, "a name")?.as_str().into_owned(),
            b"random-forwarding" => trace.random_forwarding = true,
            b"max-fwd" => {
                let most = args::number(a.value_of(word, "a number of bytes")?, 0..=usize::MAX)?;
                trace.max_forward_bytes = Limit::new(most);
            }
            b"hexdump" => trace.hexdump = true,
            b"quiet" => trace.quiet = true,
            // Parsing has not been the filter's part for long; old configurations still say it.
            b"random-parsing" => {}
            _ => {
                let known = ["name", "quiet", "random-forwarding", "max-fwd", "hexdump"];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    Ok(trace)
}

fn sequence(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let direction = choice(a.need("request or response")?, "direction", &[("request", 0), ("response", 1)])?;
    let list = a.need("a list of filters")?;
    let names: Vec<String> = list.as_str().split(',').map(str::to_owned).collect();
    for name in &names {
        if !FILTERS.contains(&name.as_str()) {
            let word = Word { text: name.clone().into_bytes(), pos: list.pos };
            return Err(vec![Diagnostic::unknown("filter", &word, FILTERS.iter().copied())]);
        }
    }
    d.proxy.filter_sequence[direction] = Some(names);
    d.filter_sequence_pos = list.pos;
    a.end()
}

/// What can only be told when all lines were read.
pub(crate) fn finish(d: &mut ProxyDraft<'_>, found: &mut Vec<Diagnostic>) {
    let filters = &d.proxy.filters;
    // Manual, section 9.2: without a line of its own, compression would stand at an unknown place among the others.
    let others = filters.iter().any(|filter| !matches!(filter, Filter::Cache(_) | Filter::FcgiApp));
    if d.proxy.compression.is_some() && others && !filters.iter().any(Filter::compresses) {
        let message =
            format!("{}: require an explicit filter declaration to use HTTP compression", d.section());
        let hint = "add 'filter compression' among the other filters, where it shall work";
        found.push(Diagnostic::error(d.proxy.pos, message).hint(hint));
    }
    // What is stored is compressed for each client that gets it.
    let first = filters.iter().position(Filter::compresses);
    let last = filters.iter().rposition(|filter| matches!(filter, Filter::Cache(_)));
    if first.is_some() && first < last {
        let message =
            format!("{}: unable to enable the compression filter before any cache filter", d.section());
        found.push(Diagnostic::error(d.proxy.pos, message).hint("put 'filter cache' first"));
    }
    for name in d.proxy.filter_sequence.iter().flatten().flatten() {
        if !filters.iter().any(|filter| filter.name() == name) {
            let message = format!(
                "{}: 'filter-sequence' names '{name}', of which there is no filter line",
                d.section()
            );
            found.push(Diagnostic::error(d.filter_sequence_pos, message));
        }
    }
}

/// Keywords about bodies.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "compression algo",
        Places::PROXIES,
        "<algorithm>...",
        "Algorithms that responses are compressed with",
        How::Proxy(algo),
    )
    .example("compression algo gzip"),
    entry(
        "compression algo-res",
        Places::PROXIES,
        "<algorithm>...",
        "Algorithms that responses are compressed with",
        How::Proxy(algo),
    )
    .example("compression algo-res gzip deflate"),
    entry(
        "compression algo-req",
        Places::PROXIES,
        "<algorithm>",
        "Algorithm that requests are compressed with",
        How::Proxy(algo),
    )
    .example("compression algo-req gzip"),
    entry(
        "compression type",
        Places::PROXIES,
        "<type>...",
        "Media types that are compressed",
        How::Proxy(types),
    )
    .example("compression type text/html text/css"),
    entry(
        "compression type-res",
        Places::PROXIES,
        "<type>...",
        "Media types of responses that are compressed",
        How::Proxy(types),
    )
    .example("compression type-res text/html"),
    entry(
        "compression type-req",
        Places::PROXIES,
        "<type>...",
        "Media types of requests that are compressed",
        How::Proxy(types),
    )
    .example("compression type-req application/json"),
    entry(
        "compression offload",
        Places::PROXIES,
        "",
        "Removes Accept-Encoding from requests",
        How::Proxy(offload),
    )
    .example("compression algo gzip\ncompression offload"),
    entry(
        "compression direction",
        Places::PROXIES,
        "<request|response|both>",
        "What is compressed",
        How::Proxy(direction),
    )
    .default("response")
    .example("compression direction both"),
    entry(
        "compression minsize-req",
        Places::PROXIES,
        "<size>",
        "Shortest request body that is compressed",
        How::Proxy(|d, a| {
            compression(d).minsize_req = a.size()?;
            a.end()
        }),
    )
    .example("compression minsize-req 1k"),
    entry(
        "compression minsize-res",
        Places::PROXIES,
        "<size>",
        "Shortest response body that is compressed",
        How::Proxy(|d, a| {
            compression(d).minsize_res = a.size()?;
            a.end()
        }),
    )
    .example("compression minsize-res 1k"),
    entry("filter", Places::NAMED, "<name> [<words>]", "Adds a filter", How::Proxy(filter))
        .example("filter compression"),
    entry(
        "filter-sequence",
        Places::NAMED,
        "<request|response> <name>,...",
        "Order of filters",
        How::Proxy(sequence),
    ),
];
