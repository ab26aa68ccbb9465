//! Heads of CGI responses (RFC 3875 section 6): HTTP/1's field lines, with a field in place of the status line.

use super::error::{Fault, ParseError, ParseErrorKind as Kind, Stop};
use super::fields::{Section, parse_fields};
use super::framing::Framing;
use super::{ParseOptions, head};
use crate::message::{FieldName, Method, Response, Version};

/// What a CGI response's head says beyond the message itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgiHead {
    /// Bytes of input it took.
    pub len: usize,
    /// Where its body ends; `UntilClose` is where the application ends it.
    pub framing: Framing,
}

/// Reads a CGI response's head. `None`: the input ends before the head does.
///
/// # Errors
/// Whatever the grammar, the framing rules or the bounds refuse.
pub fn parse_cgi_response(
    input: &[u8],
    response: &mut Response,
    request_method: Method,
    options: &ParseOptions,
) -> Result<Option<CgiHead>, ParseError> {
    response.clear();
    let bytes = &input[..input.len().min(options.max_head)];
    match cgi_head(bytes, response, request_method, options) {
        Ok(head) => Ok(Some(head)),
        Err(stop) => head::stopped(stop, input.len(), options, Fault::Server),
    }
}

fn cgi_head(
    bytes: &[u8],
    response: &mut Response,
    request_method: Method,
    options: &ParseOptions,
) -> Result<CgiHead, Stop> {
    let mut section = Section::default();
    parse_fields(bytes, 0, options, &mut response.fields, &mut section)?;
    let end = section.end;
    let refused = |kind| Stop::Refused(kind, end);
    response.fields.fill_received(&bytes[..end], section.folded);
    status(response).map_err(refused)?;
    // RFC 3875 section 6.3: how the message is transferred is not the script's to say.
    if response.fields.has(FieldName::TransferEncoding) {
        return Err(refused(Kind::TransferEncoding));
    }
    let signals = &mut section.signals;
    signals.read(&mut response.fields, Version::Http11, FieldName::Connection, options).map_err(refused)?;
    let framing = match signals.content_length {
        _ if request_method == Method::Head || matches!(response.status, 204 | 304) => Framing::None,
        Some(length) => Framing::Length(length),
        None => Framing::UntilClose,
    };
    Ok(CgiHead { len: end, framing })
}

/// RFC 3875 section 6.3.3: without `Status`, a response is 200, or a redirection where it has a Location.
fn status(response: &mut Response) -> Result<(), Kind> {
    let Some(value) = response.fields.get(b"status") else {
        match response.fields.has(FieldName::Location) {
            true => response.set_status(302, b"Found"),
            false => response.set_status(200, b"OK"),
        }
        return Ok(());
    };
    let (code, reason) = value.split_at_checked(3).ok_or(Kind::Status)?;
    let separated = reason.first().is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    let digits = code.iter().all(u8::is_ascii_digit);
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit.wrapping_sub(b'0')));
    // An interim response has no place here: nothing could follow it.
    if !separated || !digits || code < 200 {
        return Err(Kind::Status);
    }
    let reason = reason.trim_ascii().to_vec();
    response.set_status(code, &reason);
    response.fields.remove_named(b"status");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, method: Method) -> Result<Option<(CgiHead, Response)>, Kind> {
        let mut response = Response::default();
        let parsed = parse_cgi_response(text.as_bytes(), &mut response, method, &ParseOptions::default());
        parsed.map(|head| head.map(|head| (head, response))).map_err(|error| error.kind)
    }

    #[test]
    fn heads() {
        let check = |text: &str, status: u16, reason: &str, fields: usize, framing: Framing| {
            let (head, response) = parse(&format!("{text}body"), Method::Get).unwrap().unwrap();
            assert_eq!(head, CgiHead { len: text.len(), framing }, "{text}");
            assert_eq!((response.status, response.reason_bytes()), (status, reason.as_bytes()), "{text}");
            assert_eq!(response.fields.len(), fields, "{text}");
        };
        let end = Framing::UntilClose;
        check("Content-Type: a/b\r\n\r\n", 200, "OK", 1, end);
        check("Content-Type: a/b\n\n", 200, "OK", 1, end);
        check("Status: 404 Not Here\nA: b\n\n", 404, "Not Here", 1, end);
        check("A: b\nstatus: 301\nLocation: /x\n\n", 301, "", 2, end);
        check("Location: /x\n\n", 302, "Found", 1, end);
        check("Content-Length: 4\n\n", 200, "OK", 1, Framing::Length(4));
        check("Status: 304\nContent-Length: 4\n\n", 304, "", 1, Framing::None);
        check("\n", 200, "OK", 0, end);
    }

    #[test]
    fn answers_to_head_have_no_body() {
        let (head, _) = parse("Content-Length: 4\n\n", Method::Head).unwrap().unwrap();
        assert_eq!(head.framing, Framing::None);
    }

    #[test]
    fn heads_that_are_none() {
        let check = |text: &str, expected: Result<(), Kind>| {
            assert_eq!(parse(text, Method::Get).map(|head| assert!(head.is_none())), expected, "{text}");
        };
        check("", Ok(()));
        check("Status: 200\r\n", Ok(()));
        check("Status: 200\r\n\r", Ok(()));
        check("Status: 101 Switching\n\n", Err(Kind::Status));
        check("Status: 2000\n\n", Err(Kind::Status));
        check("Status: ok\n\n", Err(Kind::Status));
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", Err(Kind::FieldName));
        check("Transfer-Encoding: chunked\n\n", Err(Kind::TransferEncoding));
        check("Content-Length: 1\nContent-Length: 2\n\n", Err(Kind::ContentLength));
        check(&format!("A: {}\n\n", "x".repeat(20_000)), Err(Kind::HeadTooLarge));
    }
}
