//! Answers the proxy makes itself: built-in errors, error files, templates of `return`, `deny` and `http-error`.

pub mod status;

use std::sync::{Arc, LazyLock};

use weir_http::Response;

use crate::expr::rule_words::Words;

use crate::expr::log_style::Style;

use crate::expr::scope::ErrorMessage;

use crate::facts::ErrorPage;

use crate::reply::status::HANDLED;

use crate::{Diagnostic, LogFormat, Pos, Reply, Scope, Txn, Word};

/// Largest body that is loaded from a file: the answer has to fit into memory many times over.
const MAX_BODY: usize = 16 << 20;

/// Most fields of a template.
const MAX_FIELDS: usize = 100;

/// The built-in message of a status; statuses without one get an empty body.
#[must_use]
pub fn default_error(status: u16) -> Reply {
    static BUILT_IN: LazyLock<Vec<Reply>> = LazyLock::new(|| HANDLED.iter().map(|s| built_in(*s)).collect());
    let known = HANDLED.iter().position(|s| *s == status);
    known.map_or_else(|| built_in(status), |at| BUILT_IN[at].clone())
}

fn built_in(status: u16) -> Reply {
    let Some((heading, sentence)) = status::message(status) else {
        return Reply::new(Response::new(status, status::reason(status)), []);
    };
    let reason = heading.split_once(' ').map_or(heading, |(_, reason)| reason);
    let mut response = Response::new(status, reason);
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"content-type", b"text/html");
    let body = format!("<html><body><h1>{heading}</h1>\n{sentence}\n</body></html>\n");
    Reply::new(response, body.into_bytes())
}

/// What the configuration answers with a status: its error page, or the built-in message; `None` closes silently.
pub(crate) fn error_page(txn: &Txn, status: u16) -> Option<Reply> {
    match txn.env.error_page(txn, status) {
        ErrorPage::Default => Some(default_error(status)),
        ErrorPage::Silent => None,
        ErrorPage::Reply(reply) => Some(*reply),
    }
}

/// Reads an `errorfile`: a whole HTTP/1 response.  Framing fields are left out, they are made anew.
///
/// # Errors
/// Why it is none.
pub fn parse_error_file(bytes: &[u8]) -> Result<(Response, Arc<[u8]>), String> {
    let mut rest = bytes;
    let mut next_line = || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    };
    let start = next_line().ok_or("it has no status line")?;
    let start = std::str::from_utf8(start).map_err(|_| "its status line is no text")?;
    let mut words = start.splitn(3, ' ');
    if !words.next().is_some_and(|v| v.starts_with("HTTP/")) {
        return Err("it does not start with an HTTP version".to_owned());
    }
    let code = words.next().and_then(|code| code.parse().ok()).filter(|code| (200..=999).contains(code));
    let code = code.ok_or("its status line has no status")?;
    let mut response = Response::new(code, words.next().unwrap_or("").trim_end());
    loop {
        let line = next_line().ok_or("it has no empty line behind the fields")?;
        if line.is_empty() {
            break;
        }
        let colon = memchr::memchr(b':', line).ok_or("a field line has no colon")?;
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|b| !is_token(*b)) {
            return Err("a field's name is invalid".to_owned());
        }
        if !matches!(name.as_slice(), b"content-length" | b"transfer-encoding" | b"connection") {
            response.fields.push(&name, value);
        }
    }
    if rest.len() > MAX_BODY {
        return Err(format!("its body is larger than {MAX_BODY} bytes"));
    }
    Ok((response, rest.into()))
}

/// RFC 9110 section 5.6.2.
pub(crate) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A reply with log-format parts, rendered for each transaction (`http-error`, `return`, `deny`).
#[derive(Debug)]
pub struct ReplyTemplate {
    status: u16,
    body: Body,
    /// The head when nothing in it depends on the transaction.
    head: Response,
    fields: Vec<(Box<[u8]>, LogFormat)>,
    content_type: Option<Box<[u8]>>,
}

#[derive(Debug)]
enum Body {
    /// Only the status.
    None,
    /// The proxy's error page.
    DefaultErrors,
    /// The built-in message.
    BuiltIn,
    /// A whole message.
    Message(ErrorMessage),
    Raw(Arc<[u8]>),
    Format(LogFormat),
}

impl ReplyTemplate {
    /// Parses `status 404 content-type text/plain string x hdr a b`, the words of `http-error` and its like.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(words: &[Word], pos: Pos, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let mut words = Words::new(words, pos);
        let template = Self::parse_words(&mut words, 200, Kind::Error, scope)?;
        words.finish()?;
        Ok(template)
    }

    /// The status it answers with.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn parse_words(
        words: &mut Words<'_>,
        default_status: u16,
        kind: Kind,
        scope: &mut Scope<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut draft = Draft::default();
        while let Some(word) = words.peek() {
            match word.text.as_slice() {
                b"status" => draft.read_status(words)?,
                b"deny_status" if kind == Kind::Deny => draft.read_status(words)?,
                b"content-type" => {
                    words.next();
                    draft.content_type = Some(words.expect("a content type")?.text.as_slice().into());
                }
                b"hdr" => draft.read_field(words, scope)?,
                b"default-errorfiles"
                | b"errorfile"
                | b"errorfiles"
                | b"file"
                | b"lf-file"
                | b"string"
                | b"lf-string" => {
                    draft.read_body(words, scope)?;
                }
                _ => break,
            }
        }
        draft.finish(default_status, kind, words.pos, scope)
    }

    /// The reply for this transaction.
    #[must_use]
    pub fn render(&self, txn: &Txn) -> Reply {
        self.answer(txn).unwrap_or_else(|| default_error(self.status))
    }

    /// The reply for this transaction; `None` closes without one.
    pub(crate) fn answer(&self, txn: &Txn) -> Option<Reply> {
        let body = match &self.body {
            Body::DefaultErrors => return error_page(txn, self.status),
            Body::BuiltIn => return Some(default_error(self.status)),
            Body::Message(ErrorMessage::Silent) => return None,
            Body::Message(ErrorMessage::Message(message)) => {
                return Some(Reply::new(message.0.clone(), Arc::clone(&message.1)));
            }
            Body::None => Arc::new([]) as Arc<[u8]>,
            Body::Raw(bytes) => Arc::clone(bytes),
            Body::Format(format) => format.to_vec(txn).into(),
        };
        let mut response = self.head.clone();
        if !self.fields.is_empty() {
            let mut value = Vec::new();
            for (name, format) in &self.fields {
                value.clear();
                format.render(txn, &mut value);
                if !value.is_empty() {
                    response.fields.push(name, &value);
                }
            }
            if let Some(kind) = self.content_type.as_deref().filter(|_| !body.is_empty()) {
                response.fields.push(b"content-type", kind);
            }
        }
        Some(Reply::new(response, body))
    }
}

/// Which keyword a template belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `deny`, `tarpit`: without a body the error pages are used.
    Deny,
    /// `return`
    Return,
    /// `http-error`
    Error,
}

#[derive(Default)]
struct Draft {
    status: Option<(u16, Pos)>,
    plain_status: bool,
    content_type: Option<Box<[u8]>>,
    fields: Vec<(Box<[u8]>, LogFormat)>,
    body: Option<(Body, Pos)>,
    /// `errorfiles NAME`: looked up when the status is known.
    section: Option<Word>,
    needs_type: bool,
}

impl Draft {
    fn read_status(&mut self, words: &mut Words<'_>) -> Result<(), Vec<Diagnostic>> {
        let keyword = words.expect("status")?;
        self.plain_status = keyword.text == b"status";
        let word = words.expect("a status")?;
        let code = crate::words::call::number(&word.text).filter(|c| (200..=599).contains(c));
        let Some(code) = code else {
            return Err(vec![Diagnostic::error(
                word.pos,
                format!("'{}' is no status from 200 to 599", word.as_str()),
            )]);
        };
        self.status = Some((code as u16, word.pos));
        Ok(())
    }

    fn read_field(&mut self, words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
        let keyword = words.expect("hdr")?;
        let name = words.expect("a field's name")?;
        let value = words.expect("a field's value")?;
        if self.fields.len() == MAX_FIELDS {
            return Err(vec![Diagnostic::error(keyword.pos, format!("more than {MAX_FIELDS} fields"))]);
        }
        let pos = name.pos;
        let name = field_name(name, scope)?;
        if matches!(&*name, b"content-length" | b"transfer-encoding" | b"content-type") {
            let message = format!("'hdr' cannot set '{}'", name.escape_ascii());
            return Err(vec![
                Diagnostic::error(pos, message)
                    .hint("the framing is made by the proxy; use 'content-type' for the type"),
            ]);
        }
        let format = LogFormat::parse_styled(value, Style::Http, scope)?;
        self.fields.push((name, format));
        Ok(())
    }

    fn read_body(&mut self, words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
        let keyword = words.expect("a body")?;
        if self.body.is_some() || self.section.is_some() {
            let message = format!("'{}' is the second body of this response", keyword.as_str());
            return Err(vec![Diagnostic::error(keyword.pos, message)]);
        }
        if keyword.text == b"default-errorfiles" {
            self.body = Some((Body::DefaultErrors, keyword.pos));
            return Ok(());
        }
        let word = words.expect("the name of what to send")?;
        self.needs_type = !matches!(keyword.text.as_slice(), b"errorfile" | b"errorfiles");
        let body = match keyword.text.as_slice() {
            b"errorfiles" => {
                self.section = Some(word.clone());
                return Ok(());
            }
            b"errorfile" => Body::Message(load_error_file(word, scope)?),
            b"file" => Body::Raw(load(word, scope)?.into()),
            b"string" => Body::Raw(word.text.as_slice().into()),
            b"lf-file" => {
                let text = Word { text: load(word, scope)?, pos: word.pos };
                Body::Format(LogFormat::parse_styled(&text, Style::Http, scope)?)
            }
            _ => Body::Format(LogFormat::parse_styled(word, Style::Http, scope)?),
        };
        self.needs_type &= !matches!(&body, Body::Raw(bytes) if bytes.is_empty());
        self.body = Some((body, keyword.pos));
        Ok(())
    }

    fn finish(
        mut self,
        default: u16,
        kind: Kind,
        pos: Pos,
        scope: &mut Scope<'_>,
    ) -> Result<ReplyTemplate, Vec<Diagnostic>> {
        if kind == Kind::Error && self.status.is_none() {
            return Err(vec![Diagnostic::error(pos, "'http-error' needs a status")]);
        }
        let (status, status_pos) = self.status.unwrap_or((default, pos));
        if let Some(name) = self.section.take() {
            self.body = Some((section_message(&name, status, scope)?, name.pos));
        }
        // `deny` alone, or with nothing but `deny_status`, means the error page.
        let implied = match kind {
            Kind::Deny if !self.plain_status && self.fields.is_empty() => Body::DefaultErrors,
            _ => Body::None,
        };
        let (mut body, body_pos) = self.body.unwrap_or((implied, pos));
        if kind == Kind::Error && matches!(body, Body::DefaultErrors) {
            // This is the error page: falling back to the error page would not end.
            body = Body::BuiltIn;
        }
        if self.needs_type && self.content_type.is_none() {
            let message = "a body needs its type";
            return Err(vec![
                Diagnostic::error(body_pos, message).hint("add 'content-type text/plain' or another"),
            ]);
        }
        if matches!(body, Body::DefaultErrors | Body::BuiltIn | Body::Message(_))
            && !HANDLED.contains(&status)
        {
            let message = format!("there is no error page for status {status}");
            return Err(vec![Diagnostic::error(status_pos, message)]);
        }
        let mut head = Response::new(status, status::reason(status));
        let has_body = !matches!(body, Body::None) && !matches!(&body, Body::Raw(b) if b.is_empty());
        if !has_body {
            self.content_type = None;
        }
        if let Some(content_type) = self.content_type.as_deref().filter(|_| self.fields.is_empty()) {
            head.fields.push(b"content-type", content_type);
        }
        Ok(ReplyTemplate { status, body, head, fields: self.fields, content_type: self.content_type })
    }
}

/// A field's name, in lower case.  A colon after it is a common slip, which has a clear meaning.
pub(crate) fn field_name(word: &Word, scope: &mut Scope<'_>) -> Result<Box<[u8]>, Vec<Diagnostic>> {
    let name = word.text.strip_suffix(b":").unwrap_or(&word.text);
    if name.is_empty() || !name.iter().all(|b| is_token(*b)) {
        return Err(vec![Diagnostic::error(word.pos, format!("'{}' is no name of a field", word.as_str()))]);
    }
    if name.len() < word.text.len() {
        scope
            .warn(word.pos, format!("the colon of '{}' is left out: it is no part of a name", word.as_str()));
    }
    Ok(name.to_ascii_lowercase().into())
}

fn load(word: &Word, scope: &Scope<'_>) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let bytes = scope.read(word)?;
    if bytes.len() > MAX_BODY {
        let message = format!("'{}' is larger than {MAX_BODY} bytes", word.as_str());
        return Err(vec![Diagnostic::error(word.pos, message)]);
    }
    Ok(bytes)
}

fn load_error_file(word: &Word, scope: &Scope<'_>) -> Result<ErrorMessage, Vec<Diagnostic>> {
    if word.text == b"/dev/null" {
        return Ok(ErrorMessage::Silent);
    }
    let bytes = load(word, scope)?;
    let message = parse_error_file(&bytes).map_err(|e| {
        vec![Diagnostic::error(word.pos, format!("'{}' is no error file: {e}", word.as_str()))]
    })?;
    Ok(ErrorMessage::Message(Arc::new(message)))
}

fn section_message(name: &Word, status: u16, scope: &Scope<'_>) -> Result<Body, Vec<Diagnostic>> {
    let sections = &scope.shared.http_errors;
    let Some(section) = sections.get(&*name.as_str()) else {
        return Err(vec![Diagnostic::unknown(
            "http-errors section",
            name,
            sections.keys().map(String::as_str),
        )]);
    };
    let message = section.get(&status).cloned();
    // A section without this status leaves it to the proxy.
    Ok(message.map_or(Body::DefaultErrors, Body::Message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_files() {
        let check = |text: &str, expected: Result<(u16, &str, &str), &str>| match (
            parse_error_file(text.as_bytes()),
            expected,
        ) {
            (Ok((response, body)), Ok((status, kind, text))) => {
                assert_eq!(response.status, status);
                assert_eq!(response.fields.get(b"content-type").unwrap_or_default(), kind.as_bytes());
                assert_eq!(&*body, text.as_bytes());
            }
            (Err(e), Err(expected)) => assert!(e.contains(expected), "{e}"),
            (got, expected) => panic!("{got:?} is not {expected:?}"),
        };
        check(
            "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nbody",
            Ok((503, "text/plain", "body")),
        );
        check("HTTP/1.1 200 OK\nContent-Length: 0\n\n", Ok((200, "", "")));
        check("HTTP/1.1 xx\r\n\r\n", Err("no status"));
        check("<html>", Err("no status line"));
        check("HTTP/1.1 200 OK\r\na: b\r\n", Err("empty line"));
    }

    #[test]
    fn built_in_messages() {
        let reply = default_error(503);
        assert_eq!(
            &*reply.body,
            b"<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>\n"
        );
        assert_eq!(reply.response.reason_bytes(), b"Service Unavailable");
        assert_eq!(reply.response.fields.get(b"cache-control"), Some(&b"no-cache"[..]));
    }
}
