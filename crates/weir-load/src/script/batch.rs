//! What `request` returns: the text of one request or of several in a row.

use weir_http::h1::{BodyDecoder, Fault, Framing, ParseOptions, parse_request};
use weir_http::{Method, Request};

/// The most bytes that one call returns.
const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// The most requests that one call returns.
const MAX_REQUESTS: usize = 10_000;

/// Requests that leave in one write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: Vec<u8>,
    methods: Vec<Method>,
    request: Request,
}

impl Batch {
    /// The bytes to send.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The method of each request: whether its answer has a body depends on it.
    pub(crate) fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Takes a text.
    ///
    /// # Errors
    /// It is no request, or ends within one.
    pub(crate) fn set(&mut self, text: &[u8]) -> Result<(), String> {
        // Most scripts repeat themselves.
        if self.text == text && !text.is_empty() {
            return Ok(());
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("more than {MAX_TEXT_BYTES} bytes"));
        }
        self.text.clear();
        self.methods.clear();
        self.read(text)?;
        self.text.extend_from_slice(text);
        Ok(())
    }

    /// Finds the requests of a text.
    fn read(&mut self, text: &[u8]) -> Result<(), String> {
        let mut rest = text;
        while self.methods.is_empty() || !rest.is_empty() {
            if self.methods.len() == MAX_REQUESTS {
                return Err(format!("more than {MAX_REQUESTS} requests"));
            }
            let length = self.one(rest)?;
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    /// The length of the request that a text begins with.
    fn one(&mut self, text: &[u8]) -> Result<usize, String> {
        let incomplete = || "it ends before its request does".to_owned();
        let head = parse_request(text, &mut self.request, &ParseOptions::default());
        let head = head.map_err(|error| error.to_string())?.ok_or_else(incomplete)?;
        self.methods.push(self.request.method);
        let mut length = head.len;
        if head.framing == Framing::None {
            return Ok(length);
        }
        let mut body = BodyDecoder::with_options(head.framing, Fault::Client, &ParseOptions::default());
        while !body.is_done() {
            let rest = text.get(length..).filter(|rest| !rest.is_empty()).ok_or_else(incomplete)?;
            let decoded = body.decode(rest).map_err(|error| error.to_string())?;
            if decoded.consumed == 0 && !body.is_done() {
                return Err(incomplete());
            }
            length += decoded.consumed;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, expected: Result<&[Method], &str>| {
            let mut batch = Batch::default();
            match (batch.set(text.as_bytes()), expected) {
                (Ok(()), Ok(methods)) => assert_eq!(batch.methods(), methods, "{text:?}"),
                (Err(found), Err(why)) => assert!(found.contains(why), "{text:?}: {found}"),
                (found, expected) => panic!("{text:?}: {found:?}, expected {expected:?}"),
            }
        };
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
        let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        check(get, Ok(&[Method::Get]));
        check(
            &[get, post, chunked, get].concat(),
            Ok(&[Method::Get, Method::Post, Method::Put, Method::Get]),
        );
        check("", Err("ends before"));
        check("GET / HTTP/1.1\r\nHost: a\r\n", Err("ends before"));
        check(&post[..post.len() - 1], Err("ends before"));
        check(&chunked[..chunked.len() - 1], Err("ends before"));
        check("hello\r\n\r\n", Err("invalid"));
        check(&get.repeat(MAX_REQUESTS + 1), Err("more than"));
        let mut batch = Batch::default();
        for _ in 0..2 {
            assert!(batch.set(b"hello").is_err(), "what was refused is refused again");
        }
    }
}
