//! Answers the proxy makes itself, by status: errorfile, errorloc, errorfiles, http-error.

use std::path::Path;
use std::sync::Arc;

use weir_rules::expr::scope::ErrorMessage;
use weir_rules::{Diagnostic, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{self, Args, Parsed, fail, fail_hint};
use crate::language::files;
use crate::model::ErrorReply;
use crate::sections::ProxyDraft;

/// Statuses whose answers can be replaced.
pub(crate) const STATUSES: &[u16] = &[
    200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504,
];

/// A status; one that the proxy never answers with itself is `None` and deserves a warning.
pub(crate) fn status(word: &Word) -> Parsed<Option<u16>> {
    let status: u16 = args::number(word, 100..=999)?;
    Ok(Some(status).filter(|status| STATUSES.contains(status)))
}

/// Reads and parses a file with a whole HTTP/1 response.
pub(crate) fn message(word: &Word) -> Parsed<ErrorMessage> {
    let name = word.as_str();
    if name == "/dev/null" {
        return Ok(ErrorMessage::Silent);
    }
    let bytes = match files::read(Path::new(name.as_ref())) {
        Ok(bytes) => bytes,
        Err(error) => {
            return fail(word.pos, format!("error opening file '{name}' for custom error message: {error}"));
        }
    };
    match weir_rules::reply::parse_error_file(&bytes) {
        Ok(parsed) => Ok(ErrorMessage::Message(Arc::new(parsed))),
        Err(problem) => fail(word.pos, format!("'{name}' is not an HTTP/1 response: {problem}")),
    }
}

/// The same, read once for all proxies.
fn shared_message(d: &ProxyDraft<'_>, word: &Word) -> Parsed<ErrorMessage> {
    if let Some(known) = d.world.messages.borrow().get(&word.text) {
        return Ok(known.clone());
    }
    let parsed = message(word)?;
    d.world.messages.borrow_mut().insert(word.text.clone(), parsed.clone());
    Ok(parsed)
}

fn reply(message: &ErrorMessage) -> ErrorReply {
    match message {
        ErrorMessage::Message(parsed) => ErrorReply::Message(Arc::clone(parsed)),
        ErrorMessage::Silent => ErrorReply::Silent,
    }
}

fn unhandled(d: &mut ProxyDraft<'_>, word: &Word) {
    let text = word.as_str();
    let found = Diagnostic::warning(
        word.pos,
        format!("status code '{text}' not handled, error customization will be ignored"),
    );
    d.warnings.push(found.hint(format!("statuses that can be replaced: {STATUSES:?}")));
}

fn errorfile(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let code = a.need("a status and a file")?;
    let file = a.need("a file after the status")?;
    a.end()?;
    let parsed = shared_message(d, file)?;
    match status(code)? {
        Some(status) => {
            d.proxy.errors.insert(status, reply(&parsed));
        }
        None => unhandled(d, code),
    }
    Ok(())
}

/// `errorfiles NAME [STATUS...]`: messages of an http-errors section.
fn errorfiles(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("the name of an http-errors section")?;
    let section = d.world.shared.http_errors.get(&*name.as_str());
    let Some(section) = section else {
        return fail_hint(
            name.pos,
            format!("unable to find http-errors section '{}'", name.as_str()),
            "declare it with 'http-errors NAME'",
        );
    };
    let mut wanted = Vec::new();
    for word in a.rest() {
        match status(word)? {
            Some(status) if section.contains_key(&status) => wanted.push(status),
            Some(status) => {
                return fail(word.pos, format!("section '{}' has no message for {status}", name.as_str()));
            }
            None => unhandled(d, word),
        }
    }
    for (status, parsed) in section {
        if wanted.is_empty() || wanted.contains(status) {
            d.proxy.errors.insert(*status, reply(parsed));
        }
    }
    Ok(())
}

fn errorloc(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let redirect = if a.keyword == "errorloc303" { 303 } else { 302 };
    let code = a.need("a status and a URL")?;
    let url = a.need("a URL after the status")?;
    a.end()?;
    match status(code)? {
        Some(status) => {
            d.proxy.errors.insert(status, ErrorReply::Location(redirect, url.text.clone()));
        }
        None => unhandled(d, code),
    }
    Ok(())
}

/// `http-error status CODE ...`: the words of a `return` action.
fn http_error(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let Some(at) = a.words.iter().position(|word| *word == "status") else {
        return fail_hint(
            a.keyword_pos,
            "'http-error' expects a status",
            "write 'http-error status 404 ...'",
        );
    };
    let Some(code) = a.words.get(at + 1) else { return fail(a.words[at].pos, "'status' expects a number") };
    let Some(status) = status(code)? else {
        let known = format!("{STATUSES:?}");
        return fail_hint(
            code.pos,
            format!("status code '{}' cannot be replaced", code.as_str()),
            format!("one of {known}"),
        );
    };
    if a.words.iter().any(|word| *word == "default-errorfiles") {
        d.proxy.errors.remove(&status);
        return Ok(());
    }
    let words = a.rest();
    if let Some(done) = files_reply(d, words, status)? {
        d.proxy.errors.insert(status, done);
        return Ok(());
    }
    let template = weir_rules::reply::ReplyTemplate::parse(words, a.keyword_pos, &mut d.scope)?;
    d.proxy.errors.insert(status, ErrorReply::Rendered(Arc::new(template)));
    Ok(())
}

/// `errorfile FILE` and `errorfiles NAME` inside `http-error` are whole messages, not templates.
fn files_reply(d: &ProxyDraft<'_>, words: &[Word], status: u16) -> Parsed<Option<ErrorReply>> {
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)
    };
    if let Some(file) = value("errorfile") {
        return shared_message(d, file).map(|parsed| Some(reply(&parsed)));
    }
    let Some(name) = value("errorfiles") else { return Ok(None) };
    let section = d.world.shared.http_errors.get(&*name.as_str());
    match section.and_then(|section| section.get(&status)) {
        Some(parsed) => Ok(Some(reply(parsed))),
        None => {
            fail(name.pos, format!("no http-errors section '{}' with a message for {status}", name.as_str()))
        }
    }
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::PROXIES, arguments, doc, how)
}

/// Keywords about the proxy's own answers.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "errorfile",
        "<status> <file>",
        "Answer for a status, from a file with a whole response",
        How::Proxy(errorfile),
    ),
    entry(
        "errorfiles",
        "<section> [<status>...]",
        "Answers of an http-errors section",
        How::Proxy(errorfiles),
    ),
    entry("errorloc", "<status> <url>", "Redirects instead of an error, with 302", How::Proxy(errorloc))
        .example("errorloc 503 /sorry"),
    entry("errorloc302", "<status> <url>", "Redirects instead of an error, with 302", How::Proxy(errorloc))
        .example("errorloc302 503 /sorry"),
    entry("errorloc303", "<status> <url>", "Redirects instead of an error, with 303", How::Proxy(errorloc))
        .example("errorloc303 503 /sorry"),
    entry(
        "http-error",
        "status <code> [content-type <type>] [<payload>] [hdr <name> <fmt>]...",
        "Answer for a status",
        How::Proxy(http_error),
    )
    .example("http-error status 404 content-type text/plain string \"not here\""),
];
