//! Requests as they are sent, prepared once.

use std::sync::Arc;

use weir_http::h1::{Connection, Framing, WriteOptions, write_request};
use weir_http::{Method, Request, Version};

use crate::url::Url;

/// The most bytes of a body that is sent with each request.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Fields that say something of the connection: sent over HTTP/1 as they are given, and never over HTTP/2
/// (RFC 9113 section 8.2.2).
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "te", "upgrade"];

/// What a request says, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestText {
    /// The method.
    pub method: String,
    /// Where to.
    pub url: Url,
    /// Header fields, names in any case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request in both wire forms, as far as each can be prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    /// Head and body for HTTP/1.
    pub(crate) h1: Box<[u8]>,
    /// The head for HTTP/2, whose compression depends on the connection.
    pub(crate) h2: Request,
    pub(crate) body: Arc<[u8]>,
}

impl Prepared {
    /// `old` is HTTP/1.0; `close` asks an HTTP/1 server to close the connection after its answer.
    pub(crate) fn new(text: &RequestText, old: bool, close: bool) -> Self {
        let version = if old { Version::Http10 } else { Version::Http11 };
        let mut request = Request { version, normalized_uri: true, ..Request::default() };
        request.set_method(text.method.as_bytes());
        request.set_uri(text.url.to_string().as_bytes());
        let given = |name: &str| text.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !given("host") {
            request.fields.push(b"host", text.url.origin.authority().as_bytes());
        }
        let of_connection = |name: &str| OF_CONNECTION.iter().any(|known| known.eq_ignore_ascii_case(name));
        for (name, value) in text.headers.iter().filter(|(name, _)| !of_connection(name)) {
            request.fields.push(name.to_ascii_lowercase().as_bytes(), value.as_bytes());
        }
        if !given("user-agent") {
            request.fields.push(b"user-agent", b"weir-load");
        }
        let has_body = !text.body.is_empty() || matches!(text.method.as_str(), "POST" | "PUT" | "PATCH");
        let framing = if has_body { Framing::Length(text.body.len() as u64) } else { Framing::None };
        let connection = match (given("connection"), close, old) {
            (true, ..) | (false, false, false) | (false, true, true) => Connection::Implied,
            (false, true, false) => Connection::Close,
            (false, false, true) => Connection::KeepAlive,
        };
        let mut h1 = Vec::new();
        write_request(&request, &mut h1, WriteOptions { framing, connection, ..WriteOptions::default() });
        h1.truncate(h1.len() - b"\r\n".len());
        for (name, value) in text.headers.iter().filter(|(name, _)| of_connection(name)) {
            h1.extend_from_slice(format!("{}: {value}\r\n", name.to_ascii_lowercase()).as_bytes());
        }
        h1.extend_from_slice(b"\r\n");
        h1.extend_from_slice(&text.body);
        if has_body {
            request.fields.push(b"content-length", text.body.len().to_string().as_bytes());
        }
        let body = text.body.as_slice().into();
        Self { method: request.method, h1: h1.into_boxed_slice(), h2: request, body }
    }
}

/// Reads `Name: value` of a `-H` option.
///
/// # Errors
/// What is wrong with it, in words.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("'{text}': expected 'Name: value'"))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("'{name}' is no header name"));
    }
    let value = value.trim();
    if value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
        return Err(format!("'{text}': control characters cannot be sent in a header"));
    }
    if matches!(name.to_ascii_lowercase().as_str(), "content-length" | "transfer-encoding") {
        return Err(format!("'{name}' follows from the body and is not set"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a method.
///
/// # Errors
/// What is wrong with it, in words.
pub fn method(text: &str) -> Result<String, String> {
    let known = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if !known || text == "CONNECT" {
        return Err(format!("'{text}': expected a method as GET, HEAD or POST"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(method: &str, headers: &[(&str, &str)], body: &str) -> RequestText {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let url = Url::parse("http://h:81/p?q").unwrap();
        RequestText { method: method.into(), url, headers, body: body.into() }
    }

    #[test]
    fn heads() {
        let check = |text: RequestText, close, expected: &str| {
            let prepared = Prepared::new(&text, false, close);
            assert_eq!(String::from_utf8_lossy(&prepared.h1), expected);
        };
        check(
            text("GET", &[], ""),
            false,
            "GET /p?q HTTP/1.1\r\nhost: h:81\r\nuser-agent: weir-load\r\n\r\n",
        );
        check(
            text("POST", &[("Host", "x"), ("User-Agent", "u")], "ab"),
            true,
            "POST /p?q HTTP/1.1\r\nhost: x\r\nuser-agent: u\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab",
        );
    }

    #[test]
    fn connections() {
        let check = |headers: &[(&str, &str)], old, close, expected: &str| {
            let prepared = Prepared::new(&text("GET", headers, ""), old, close);
            let head =
                String::from_utf8_lossy(&prepared.h1).replace("host: h:81\r\nuser-agent: weir-load\r\n", "");
            assert_eq!(head, format!("GET /p?q {expected}\r\n\r\n"), "{headers:?} {old} {close}");
            assert_eq!(prepared.h2.fields.list().len(), 2, "nothing of it is for HTTP/2");
        };
        check(&[], false, false, "HTTP/1.1");
        check(&[], false, true, "HTTP/1.1\r\nconnection: close");
        check(&[], true, false, "HTTP/1.0\r\nconnection: keep-alive");
        check(&[], true, true, "HTTP/1.0");
        check(&[("Connection", "close")], false, false, "HTTP/1.1\r\nconnection: close");
        check(
            &[("Connection", "TE"), ("TE", "trailers")],
            true,
            true,
            "HTTP/1.0\r\nconnection: TE\r\nte: trailers",
        );
    }

    #[test]
    fn options() {
        assert_eq!(header("A-b:  c d "), Ok(("A-b".into(), "c d".into())));
        for wrong in ["", "a", ":x", "a b: c", "a: b\r\nc: d", "Content-Length: 3"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
        assert!(method("PURGE").is_ok());
        for wrong in ["", "G ET", "CONNECT", "G\r\n"] {
            assert!(method(wrong).is_err(), "{wrong}");
        }
    }
}
