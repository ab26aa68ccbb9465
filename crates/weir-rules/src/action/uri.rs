//! Actions on the request line: method, path, query, URI.

use regex::bytes::Regex;
use weir_http::FieldName;

use super::phases::REQUEST;
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::data::pcre;
use crate::expr::log_style::Style;
use crate::facts::vars;
use crate::reply::is_token;
use crate::{Diagnostic, LogFormat, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[
    action(
        "replace-path",
        REQUEST,
        "replace-path REGEX FMT",
        "Replaces the path when it matches.",
        parse_replace,
    ),
    action(
        "replace-pathq",
        REQUEST,
        "replace-pathq REGEX FMT",
        "Replaces path and query when they match.",
        parse_replace,
    ),
    action(
        "replace-uri",
        REQUEST,
        "replace-uri REGEX FMT",
        "Replaces the URI when it matches.",
        parse_replace,
    ),
    action("set-method", REQUEST, "set-method FMT", "Sets the method.", parse_set),
    action("set-path", REQUEST, "set-path FMT", "Sets the path and keeps the query.", parse_set),
    action("set-pathq", REQUEST, "set-pathq FMT", "Sets path and query.", parse_set),
    action("set-query", REQUEST, "set-query FMT", "Sets the query and keeps the path.", parse_set),
    action("set-uri", REQUEST, "set-uri FMT", "Sets the whole URI.", parse_set),
];

/// A part of the request line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Method,
    Path,
    PathQ,
    Query,
    Uri,
}

impl Part {
    fn of(keyword: &[u8]) -> Self {
        match keyword.rsplit(|b| *b == b'-').next() {
            Some(b"method") => Self::Method,
            Some(b"path") => Self::Path,
            Some(b"pathq") => Self::PathQ,
            Some(b"query") => Self::Query,
            _ => Self::Uri,
        }
    }

    fn get(self, txn: &Txn) -> &[u8] {
        match self {
            Self::Method => txn.request.method_bytes(),
            Self::Path => txn.request.path(),
            Self::PathQ => txn.request.path_and_query(),
            Self::Query => txn.request.query(),
            Self::Uri => txn.request.uri_bytes(),
        }
    }

    /// Sets the part; false when the bytes cannot stand in a request line.
    fn set(self, txn: &mut Txn, new: &[u8]) -> bool {
        let valid = match self {
            Self::Method => !new.is_empty() && new.iter().all(|b| is_token(*b)),
            Self::Query => is_uri(new),
            _ => !new.is_empty() && is_uri(new),
        };
        if !valid || (txn.max_head > 0 && new.len() > txn.max_head) {
            return false;
        }
        txn.keep_received();
        match self {
            Self::Method => txn.request.set_method(new),
            Self::Path => set_path(txn, new),
            Self::PathQ => txn.request.set_path_and_query(new),
            Self::Query => set_query(txn, new),
            Self::Uri => {
                txn.request.set_uri(new);
                txn.request.normalized_uri = false;
                authority_changed(txn);
            }
        }
        true
    }
}

/// No character that would end the request target.
fn is_uri(text: &[u8]) -> bool {
    !text.iter().any(|b| *b <= b' ' || *b == 127)
}

fn set_path(txn: &mut Txn, path: &[u8]) {
    let request = &txn.request;
    let pathq = request.path_and_query();
    if pathq == b"*" {
        return txn.request.set_uri(path);
    }
    let query = memchr::memchr(b'?', pathq).map_or(&b""[..], |at| &pathq[at..]);
    let new = [path, query].concat();
    txn.request.set_path_and_query(&new);
}

fn set_query(txn: &mut Txn, query: &[u8]) {
    let pathq = txn.request.path_and_query();
    let mark = memchr::memchr(b'?', pathq);
    let mut new = pathq[..mark.unwrap_or(pathq.len())].to_vec();
    // A question mark is never taken away, and only added for something behind it.
    if mark.is_some() || !query.is_empty() {
        new.push(b'?');
    }
    new.extend_from_slice(query);
    txn.request.set_path_and_query(&new);
}

/// The Host field was changed: an authority in the URI follows it (RFC 9112 section 3.2.2: both say the same).
pub(super) fn host_changed(txn: &mut Txn) {
    let request = &txn.request;
    let Some(authority) = request.uri_authority().filter(|_| request.scheme().is_some()) else { return };
    let Some(host) = request.fields.first(FieldName::Host) else { return };
    if host == authority || !is_uri(host) {
        return;
    }
    let uri = request.uri_bytes();
    let start = request.scheme().map_or(0, <[u8]>::len) + 3;
    let new = [&uri[..start], host, &uri[start + authority.len()..]].concat();
    txn.keep_received();
    txn.request.set_uri(&new);
}

/// The URI was set: the Host field follows its authority.
fn authority_changed(txn: &mut Txn) {
    let Some(authority) = txn.request.uri_authority().map(<[u8]>::to_vec) else { return };
    let fields = &mut txn.request.fields;
    match (0..fields.len()).find(|at| fields.list()[*at].id == FieldName::Host) {
        Some(at) => fields.set_value(at, &authority),
        None => fields.push(b"host", &authority),
    }
}

/// Keeps a captured value.
pub(super) fn set_captured(txn: &mut Txn, response: bool, slot: usize, bytes: &[u8]) {
    vars::store_capture(txn, response, slot, bytes);
}

#[derive(Debug)]
struct Set {
    part: Part,
    value: LogFormat,
}

impl Action for Set {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = self.value.to_vec(txn);
        if self.part.set(txn, &value) { Step::Next } else { Step::Failed }
    }
}

fn parse_set(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let part = Part::of(&words.call.name.text);
    Ok(Box::new(Set { part, value: words.format(Style::Http, scope)? }))
}

#[derive(Debug)]
struct Replace {
    part: Part,
    regex: Regex,
    replacement: LogFormat,
}

impl Action for Replace {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let Some(groups) = self.regex.captures(self.part.get(txn)) else { return Step::Next };
        let mut new = Vec::new();
        pcre::expand(&self.replacement.to_vec(txn), &groups, &mut new);
        drop(groups);
        if self.part.set(txn, &new) { Step::Next } else { Step::Failed }
    }
}

fn parse_replace(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let part = Part::of(&words.call.name.text);
    let regex = scope.regex(words.expect("a regular expression")?, false).map_err(|e| vec![e])?;
    let replacement = words.format(Style::Http, scope)?;
    Ok(Box::new(Replace { part, regex, replacement }))
}
