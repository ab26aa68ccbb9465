//! `redirect location|prefix|scheme`.

use weir_http::{FieldName, Response};

use super::answer::end_with;
use super::phases::{REQUEST, RESPONSE};
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::expr::log_style::Style;
use crate::facts::Reply;
use crate::{Diagnostic, LogFormat, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[action(
    "redirect",
    REQUEST | RESPONSE,
    "redirect { location FMT | prefix FMT | scheme FMT } [code CODE] [drop-query] [append-slash] [keep-query] \
     [ignore-empty] [set-cookie NAME[=VALUE]] [set-cookie-fmt FMT] [clear-cookie NAME[=]]",
    "Sends the client elsewhere.",
    parse,
)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Location,
    Prefix,
    Scheme,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the manual")]
struct Redirect {
    kind: Kind,
    target: LogFormat,
    code: u16,
    drop_query: bool,
    append_slash: bool,
    keep_query: bool,
    ignore_empty: bool,
    cookie: Option<(LogFormat, &'static str)>,
}

/// Reason phrases of the statuses a redirect may have.
fn reason(code: u16) -> &'static str {
    match code {
        301 => "Moved Permanently",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => "Found",
    }
}

impl Redirect {
    fn location(&self, txn: &Txn) -> Vec<u8> {
        let mut location = Vec::with_capacity(64);
        self.target.render(txn, &mut location);
        let request = &txn.request;
        match self.kind {
            Kind::Location => {
                if self.keep_query && !request.query().is_empty() {
                    location.push(if location.contains(&b'?') { b'&' } else { b'?' });
                    location.extend_from_slice(request.query());
                }
            }
            Kind::Prefix => {
                // The prefix "/" alone means the same place.
                if location == b"/" {
                    location.clear();
                }
                self.append_path(txn, &mut location);
            }
            Kind::Scheme => {
                location.extend_from_slice(b"://");
                location.extend_from_slice(request.fields.first(FieldName::Host).unwrap_or_default());
                self.append_path(txn, &mut location);
            }
        }
        location
    }

    /// Path and query of the request, as the options have it.
    fn append_path(&self, txn: &Txn, location: &mut Vec<u8>) {
        let path = if self.drop_query { txn.request.path() } else { txn.request.path_and_query() };
        let path: &[u8] = if path.starts_with(b"/") { path } else { b"/" };
        location.extend_from_slice(path);
        if self.append_slash && location.last() != Some(&b'/') {
            location.push(b'/');
        }
    }
}

impl Action for Redirect {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let location = self.location(txn);
        if location.is_empty() && self.ignore_empty {
            return Step::Next;
        }
        let mut response = Response::new(self.code, reason(self.code));
        response.fields.push(b"location", &location);
        if !matches!(self.code, 301 | 308) {
            response.fields.push(b"cache-control", b"no-cache");
        }
        if let Some((cookie, suffix)) = &self.cookie {
            let mut value = cookie.to_vec(txn);
            value.extend_from_slice(suffix.as_bytes());
            response.fields.push(b"set-cookie", &value);
        }
        end_with(Some(Reply::new(response, [])), false)
    }
}

fn parse(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let mut target = None;
    let mut redirect = Redirect {
        kind: Kind::Location,
        target: LogFormat::default(),
        code: 302,
        drop_query: false,
        append_slash: false,
        keep_query: false,
        ignore_empty: false,
        cookie: None,
    };
    while let Some(word) = words.next() {
        match word.text.as_slice() {
            b"location" | b"prefix" | b"scheme" => {
                redirect.kind = match word.text.as_slice() {
                    b"prefix" => Kind::Prefix,
                    b"scheme" => Kind::Scheme,
                    _ => Kind::Location,
                };
                if words.phase.is_response() && redirect.kind != Kind::Location {
                    return Err(vec![Diagnostic::error(
                        word.pos,
                        "responses can only be redirected to a 'location'",
                    )]);
                }
                target = Some(words.format(Style::Http, scope)?);
            }
            b"code" => {
                let code = words.expect("a status")?;
                redirect.code = match code.text.as_slice() {
                    b"301" => 301,
                    b"302" => 302,
                    b"303" => 303,
                    b"307" => 307,
                    b"308" => 308,
                    _ => {
                        let message = format!("'{}' is no status of a redirect", code.as_str());
                        return Err(vec![
                            Diagnostic::error(code.pos, message).hint("use 301, 302, 303, 307 or 308"),
                        ]);
                    }
                };
            }
            b"drop-query" => redirect.drop_query = true,
            b"append-slash" => redirect.append_slash = true,
            b"keep-query" => redirect.keep_query = true,
            b"ignore-empty" => redirect.ignore_empty = true,
            b"set-cookie" | b"clear-cookie" => {
                let clear = word.text == b"clear-cookie";
                let name = words.expect("a cookie")?;
                let cookie = LogFormat::literal(&name.text);
                redirect.cookie = Some((cookie, if clear { "; path=/; Max-Age=0;" } else { "; path=/;" }));
            }
            b"set-cookie-fmt" => redirect.cookie = Some((words.format(Style::Http, scope)?, "; path=/;")),
            _ => {
                let known = [
                    "location",
                    "prefix",
                    "scheme",
                    "code",
                    "drop-query",
                    "append-slash",
                    "keep-query",
                    "ignore-empty",
                    "set-cookie",
                    "set-cookie-fmt",
                    "clear-cookie",
                ];
                return Err(vec![Diagnostic::unknown("word of 'redirect'", word, known)]);
            }
        }
    }
    redirect.target = target.ok_or_else(|| {
        vec![Diagnostic::error(words.pos, "'redirect' needs 'location', 'prefix' or 'scheme'")]
    })?;
    Ok(Box::new(redirect))
}
