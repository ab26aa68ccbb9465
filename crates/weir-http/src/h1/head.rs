//! Heads: start line and fields, from the bytes of a connection into a message.

use super::ParseOptions;
use super::error::{Fault, ParseError, ParseErrorKind as Kind, Stop};
use super::fields::{Section, line_end, parse_fields};
use super::framing::{Framing, Signals, is_h2c};
use super::scan;
use super::target::check_target;
use crate::message::{FieldName, Fields, Method, Request, Response, Span, Version};

/// What a request's head says beyond the message itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHead {
    /// Bytes of input it took, empty lines before it included.
    pub len: usize,
    /// Where its body ends.
    pub framing: Framing,
    /// The client may send another request on this connection.
    pub keep_alive: bool,
    /// The client asks to change protocol; `Request::protocol` names it.
    pub upgrade: bool,
    /// The client waits for 100 (Continue) before it sends the body.
    pub expect_continue: bool,
    /// Transfer-Encoding with Content-Length or in HTTP/1.0: a smuggler's framing, made safe.
    pub insecure_framing: bool,
    /// The first violation accepted because of `accept_unsafe`, to be captured.
    pub tolerated: Option<ParseError>,
}

/// What a response's head says beyond the message itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// Bytes of input it took.
    pub len: usize,
    /// Where its body ends.
    pub framing: Framing,
    /// The server's connection may carry another request.
    pub keep_alive: bool,
    /// The connection is a tunnel from here on: 101, or 2xx to CONNECT.
    pub upgrade: bool,
    /// Transfer-Encoding with Content-Length or in HTTP/1.0: close both sides after it.
    pub insecure_framing: bool,
    /// The first violation accepted because of `accept_unsafe`, to be captured.
    pub tolerated: Option<ParseError>,
}

/// Reads a request's head.  `None`: the input ends before the head does.
///
/// The message is cleared first; field names are lower-cased.
///
/// # Errors
/// Whatever the grammar, the framing rules or the bounds refuse.
pub fn parse_request(
    input: &[u8],
    request: &mut Request,
    options: &ParseOptions,
) -> Result<Option<RequestHead>, ParseError> {
    request.clear();
    let bytes = &input[..input.len().min(options.max_head)];
    match request_head(bytes, request, options) {
        Ok(head) => Ok(Some(head)),
        Err(stop) => stopped(stop, input.len(), options, Fault::Client),
    }
}

/// Reads a response's head.  `None`: the input ends before the head does.
///
/// `request_method` is the method the server was sent: it decides whether a body follows.
///
/// # Errors
/// Whatever the grammar, the framing rules or the bounds refuse.
pub fn parse_response(
    input: &[u8],
    response: &mut Response,
    request_method: Method,
    options: &ParseOptions,
) -> Result<Option<ResponseHead>, ParseError> {
    response.clear();
    let bytes = &input[..input.len().min(options.max_head)];
    match response_head(bytes, response, request_method, options) {
        Ok(head) => Ok(Some(head)),
        Err(stop) => stopped(stop, input.len(), options, Fault::Server),
    }
}

#[cold]
#[inline(never)]
pub(super) fn stopped<T>(
    stop: Stop,
    received: usize,
    options: &ParseOptions,
    fault: Fault,
) -> Result<Option<T>, ParseError> {
    match stop {
        Stop::NeedMore if received < options.max_head => Ok(None),
        Stop::NeedMore => Err(ParseError::new(Kind::HeadTooLarge, options.max_head, fault)),
        Stop::Refused(kind, position) => Err(ParseError::new(kind, position, fault)),
    }
}

fn request_head(bytes: &[u8], request: &mut Request, options: &ParseOptions) -> Result<RequestHead, Stop> {
    let line = request_line(bytes, options)?;
    let mut section = Section::default();
    parse_fields(bytes, line.end, options, &mut request.fields, &mut section)?;
    let (end, signals) = (section.end, &mut section.signals);
    let refused = |kind| Stop::Refused(kind, end);

    request.fields.fill_received(&bytes[..end], section.folded);
    request.method_name = Span::new(line.method.0, line.method.1);
    request.method = line.method_id;
    request.uri = Span::new(line.target.0, line.target.1);
    request.version = line.version;

    request.proxied = options.use_proxy_connection && !matches!(bytes[line.target.0], b'/' | b'*');
    if signals.unread {
        let persistence = persistence(request.proxied);
        signals.read(&mut request.fields, line.version, persistence, options).map_err(refused)?;
    }
    check_target(request, signals, options).map_err(refused)?;
    check_payload(request, signals, options).map_err(refused)?;
    if signals.has_upgrade {
        take_upgrade(request, signals, options).map_err(refused)?;
    }

    Ok(RequestHead {
        len: end,
        framing: request_framing(signals),
        keep_alive: signals.keeps_alive(line.version, options),
        upgrade: signals.upgrade,
        expect_continue: signals.expect_continue && line.version != Version::Http10,
        insecure_framing: signals.insecure,
        tolerated: tolerated(line.tolerated, &section, Fault::Client),
    })
}

/// The field that says whether the connection lives on.
fn persistence(proxied: bool) -> FieldName {
    if proxied { FieldName::ProxyConnection } else { FieldName::Connection }
}

/// RFC 9112 section 2.2: empty lines before a start line are skipped.
fn skip_empty_lines(bytes: &[u8]) -> Result<usize, Stop> {
    let mut at = 0;
    while let Some(next) = line_end(bytes, at)? {
        at = next;
    }
    Ok(at)
}

/// Where the parts of a request line are.
struct RequestLine {
    method: (usize, usize),
    method_id: Method,
    target: (usize, usize),
    version: Version,
    tolerated: Option<(Kind, usize)>,
    end: usize,
}

/// The first line, read in the one way that nearly all have, else in every way they may have.
#[inline]
fn request_line(bytes: &[u8], options: &ParseOptions) -> Result<RequestLine, Stop> {
    match usual_request_line(bytes) {
        Some(line) => Ok(line),
        None => any_request_line(bytes, options),
    }
}

/// A method, a target and a usual version, with one space between them, and CR LF.
#[inline]
fn usual_request_line(bytes: &[u8]) -> Option<RequestLine> {
    let (method_id, method_end) = method(bytes)?;
    let target = (method_end + 1, scan::target_end(bytes, method_end + 1));
    let [b' ', version @ .., b'\r', b'\n'] = bytes.get(target.1..)?.first_chunk::<11>()? else { return None };
    if target.1 == target.0 {
        return None;
    }
    let version = usual_version(*version)?;
    Some(RequestLine {
        method: (0, method_end),
        method_id,
        target,
        version,
        tolerated: None,
        end: target.1 + 11,
    })
}

/// The method that the input starts with, and its end; a space follows.
#[inline]
fn method(bytes: &[u8]) -> Option<(Method, usize)> {
    // Most requests need no look into the table of tokens.
    if bytes.starts_with(b"GET ") {
        return Some((Method::Get, 3));
    }
    let end = scan::token_end(bytes, 0);
    (end > 0 && *bytes.get(end)? == b' ').then(|| (Method::from_bytes(&bytes[..end]), end))
}

/// The two versions in use, compared as a word each.
#[inline]
fn usual_version(bytes: [u8; 8]) -> Option<Version> {
    const HTTP_11: u64 = u64::from_le_bytes(*b"HTTP/1.1");
    const HTTP_10: u64 = u64::from_le_bytes(*b"HTTP/1.0");
    match u64::from_le_bytes(bytes) {
        HTTP_11 => Some(Version::Http11),
        HTTP_10 => Some(Version::Http10),
        _ => None,
    }
}

/// Method, target and version, with the white space between them as tolerant as RFC 9112 section 3 allows.
#[cold]
#[inline(never)]
fn any_request_line(bytes: &[u8], options: &ParseOptions) -> Result<RequestLine, Stop> {
    let start = skip_empty_lines(bytes)?;
    let method_end = scan::token_end(bytes, start);
    match bytes.get(method_end) {
        None => return Err(Stop::NeedMore),
        Some(b' ' | b'\t') if method_end > start => {}
        Some(_) => return Err(Stop::Refused(Kind::Method, method_end)),
    }
    let target_start = scan::blank_end(bytes, method_end);
    let (target_end, tolerated_byte) = target_end(bytes, target_start, options)?;
    let version_start = scan::blank_end(bytes, target_end);
    let (version, version_end, tolerated_version) = version(bytes, version_start, options)?;
    let Some(end) = line_end(bytes, version_end)? else {
        return Err(Stop::Refused(Kind::Version, version_end));
    };
    Ok(RequestLine {
        method: (start, method_end),
        method_id: Method::from_bytes(&bytes[start..method_end]),
        target: (target_start, target_end),
        version,
        tolerated: tolerated_byte.or(tolerated_version),
        end,
    })
}

/// Behind the target; a fragment and bytes above 127 are only tolerated.
fn target_end(
    bytes: &[u8],
    start: usize,
    options: &ParseOptions,
) -> Result<(usize, Option<(Kind, usize)>), Stop> {
    let mut tolerated = None;
    let mut at = start;
    loop {
        at = scan::target_end(bytes, at);
        match bytes.get(at) {
            None => return Err(Stop::NeedMore),
            Some(b' ' | b'\t') if at > start => return Ok((at, tolerated)),
            Some(b'#' | 0x80..) if options.accept_unsafe => {
                tolerated.get_or_insert((Kind::TargetByte, at));
                at += 1;
            }
            Some(_) => return Err(Stop::Refused(Kind::TargetByte, at)),
        }
    }
}

type VersionRead = (Version, usize, Option<(Kind, usize)>);

/// `HTTP/1.0`, `HTTP/1.1`, and whatever digits a peer may claim: above 1.0 it is spoken to as 1.1.
fn version(bytes: &[u8], start: usize, options: &ParseOptions) -> Result<VersionRead, Stop> {
    let rest = &bytes[start..];
    if let Some(&[b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9']) =
        rest.first_chunk()
    {
        match rest.get(8) {
            None => return Err(Stop::NeedMore),
            Some(b'0'..=b'9') => {}
            Some(_) => return Ok((version_of(major - b'0', minor - b'0'), start + 8, None)),
        }
    }
    let name = rest.iter().position(|b| !matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.'));
    if !options.accept_unsafe {
        // The first byte that differs decides, so that it does not matter how much has arrived.
        return match b"HTTP/0.0".iter().zip(rest).position(|(&want, &have)| match want {
            b'0' => !have.is_ascii_digit(),
            _ => want != have,
        }) {
            Some(at) => Err(Stop::Refused(Kind::Version, start + at)),
            None if rest.len() <= 8 => Err(Stop::NeedMore),
            None => Err(Stop::Refused(Kind::Version, start + 8)),
        };
    }
    let Some(len) = name else { return Err(Stop::NeedMore) };
    let refused = Err(Stop::Refused(Kind::Version, start + len));
    let Some(slash) = rest[..len].iter().position(|&b| b == b'/') else { return refused };
    let mut numbers = rest[slash + 1..len].split(|&b| b == b'.').map(small_number);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(major)), Some(Some(minor)), None) => {
            Ok((version_of(major, minor), start + len, Some((Kind::Version, start))))
        }
        _ => refused,
    }
}

fn small_number(digits: &[u8]) -> Option<u8> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn version_of(major: u8, minor: u8) -> Version {
    if (major, minor) > (1, 0) { Version::Http11 } else { Version::Http10 }
}

fn request_framing(signals: &Signals) -> Framing {
    match signals.content_length {
        _ if signals.chunked => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::None,
    }
}

/// HTTP/1.0 servers do not look for a payload with these methods: refused, it cannot be taken for a request.
fn check_payload(request: &Request, signals: &Signals, options: &ParseOptions) -> Result<(), Kind> {
    let payload = signals.chunked || signals.content_length.is_some_and(|length| length > 0);
    // RFC 9110 section 9.3.6: what follows a CONNECT is the tunnel's, which a length would cut in two.
    if payload && request.method == Method::Connect {
        return Err(Kind::UnexpectedPayload);
    }
    let unexpected = matches!(request.method, Method::Get | Method::Head | Method::Delete);
    if payload && unexpected && request.version == Version::Http10 && !options.accept_payload_with_any_method
    {
        return Err(Kind::UnexpectedPayload);
    }
    Ok(())
}

/// Takes the protocol asked for from Upgrade, without h2c.
#[cold]
#[inline(never)]
fn take_upgrade(request: &mut Request, signals: &mut Signals, options: &ParseOptions) -> Result<(), Kind> {
    drop_h2c(&mut request.fields);
    // A CONNECT asks for a tunnel already; with a protocol it would be written as the extended CONNECT of RFC 8441.
    signals.upgrade &= request.method != Method::Connect;
    if !signals.upgrade {
        return Ok(());
    }
    // RFC 6455 section 4.1: a WebSocket client must send a key.
    if signals.websocket && !signals.websocket_key {
        if !options.accept_unsafe {
            return Err(Kind::WebSocketKey);
        }
        signals.tolerated.get_or_insert(Kind::WebSocketKey);
    }
    let upgrade = request.fields.list().iter().find(|field| field.id == FieldName::Upgrade);
    request.protocol = upgrade.map_or(Span::EMPTY, |field| field.value);
    Ok(())
}

fn drop_h2c(fields: &mut Fields) {
    for at in (0..fields.len()).rev() {
        if fields.list()[at].id != FieldName::Upgrade || !scan::elements(fields.value(at)).any(is_h2c) {
            continue;
        }
        let others: Vec<&[u8]> =
            scan::elements(fields.value(at)).filter(|p| !p.is_empty() && !is_h2c(p)).collect();
        let others = others.join(&b", "[..]);
        if others.is_empty() {
            fields.remove_at(at);
        } else {
            fields.set_value(at, &others);
        }
    }
}

fn tolerated(line: Option<(Kind, usize)>, section: &Section, fault: Fault) -> Option<ParseError> {
    let (kind, position) =
        line.or(section.tolerated).or_else(|| Some((section.signals.tolerated?, section.end)))?;
    Some(ParseError::new(kind, position, fault))
}

fn response_head(
    bytes: &[u8],
    response: &mut Response,
    request_method: Method,
    options: &ParseOptions,
) -> Result<ResponseHead, Stop> {
    let line = status_line(bytes, options)?;
    let mut section = Section::default();
    parse_fields(bytes, line.end, options, &mut response.fields, &mut section)?;
    let (end, signals) = (section.end, &mut section.signals);
    let refused = |kind| Stop::Refused(kind, end);

    response.fields.fill_received(&bytes[..end], section.folded);
    response.status = line.status;
    response.reason = Span::new(line.reason.0, line.reason.1);
    response.version = line.version;

    if signals.unread {
        let persistence = persistence(options.use_proxy_connection);
        signals.read(&mut response.fields, line.version, persistence, options).map_err(refused)?;
    }
    if line.status == 101 && signals.upgrade && signals.websocket && !signals.websocket_key {
        // RFC 6455 section 4.2.2: a WebSocket server must prove that it read the key.
        if !options.accept_unsafe {
            return Err(refused(Kind::WebSocketKey));
        }
        signals.tolerated.get_or_insert(Kind::WebSocketKey);
    }
    let framing = response_framing(signals, line.status, request_method);
    let tunnel =
        line.status == 101 || (request_method == Method::Connect && (200..300).contains(&line.status));
    Ok(ResponseHead {
        len: end,
        framing,
        keep_alive: framing != Framing::UntilClose && signals.keeps_alive(line.version, options),
        upgrade: tunnel,
        insecure_framing: signals.insecure,
        tolerated: tolerated(line.tolerated, &section, Fault::Server),
    })
}

/// RFC 9112 section 6.3, in its order.
fn response_framing(signals: &Signals, status: u16, request_method: Method) -> Framing {
    match status {
        100..200 | 204 | 304 => Framing::None,
        _ if request_method == Method::Head => Framing::None,
        200..300 if request_method == Method::Connect => Framing::None,
        _ if signals.chunked => Framing::Chunked,
        _ => signals.content_length.map_or(Framing::UntilClose, Framing::Length),
    }
}

/// Where the parts of a status line are.
struct StatusLine {
    version: Version,
    status: u16,
    reason: (usize, usize),
    tolerated: Option<(Kind, usize)>,
    end: usize,
}

/// The first line, read in the one way that nearly all have, else in every way they may have.
#[inline]
fn status_line(bytes: &[u8], options: &ParseOptions) -> Result<StatusLine, Stop> {
    match usual_status_line(bytes) {
        Some(line) => Ok(line),
        None => any_status_line(bytes, options),
    }
}

/// A usual version, a status code and a reason phrase, with one space between them, and CR LF.
#[inline]
fn usual_status_line(bytes: &[u8]) -> Option<StatusLine> {
    let (start, rest) = bytes.split_first_chunk::<13>()?;
    let [version @ .., b' ', hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b' '] = start
    else {
        return None;
    };
    let status =
        [hundreds, tens, ones].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let reason_end = scan::value_end(bytes, start.len());
    if !bytes[reason_end..].starts_with(b"\r\n") || matches!(rest[0], b' ' | b'\t') {
        return None;
    }
    let version = usual_version(*version)?;
    let reason = (start.len(), reason_end);
    Some(StatusLine { version, status, reason, tolerated: None, end: reason_end + 2 })
}

/// Version, status code and reason phrase (RFC 9112 section 4).
#[cold]
#[inline(never)]
fn any_status_line(bytes: &[u8], options: &ParseOptions) -> Result<StatusLine, Stop> {
    let start = skip_empty_lines(bytes)?;
    let (version, version_end, tolerated_version) = version(bytes, start, options)?;
    let status_start = scan::blank_end(bytes, version_end);
    if status_start == version_end && status_start < bytes.len() {
        return Err(Stop::Refused(Kind::Version, version_end));
    }
    let (status, status_end, tolerated_status) = status_code(bytes, status_start, options)?;
    let reason_start = scan::blank_end(bytes, status_end);
    let reason_end = scan::value_end(bytes, reason_start);
    let Some(end) = line_end(bytes, reason_end)? else { return Err(Stop::Refused(Kind::Status, reason_end)) };
    Ok(StatusLine {
        version,
        status,
        reason: (reason_start, reason_end),
        tolerated: tolerated_version.or(tolerated_status),
        end,
    })
}

type StatusRead = (u16, usize, Option<(Kind, usize)>);

/// Three digits from 100 on; longer ones that fit in 16 bits are only tolerated.
fn status_code(bytes: &[u8], start: usize, options: &ParseOptions) -> Result<StatusRead, Stop> {
    let mut status = 0u16;
    let mut at = start;
    loop {
        match bytes.get(at) {
            None => return Err(Stop::NeedMore),
            Some(digit @ b'0'..=b'9') => {
                let longer =
                    status.checked_mul(10).and_then(|status| status.checked_add(u16::from(digit - b'0')));
                let most = if options.accept_unsafe { 5 } else { 3 };
                status = longer.filter(|_| at - start < most).ok_or(Stop::Refused(Kind::Status, at))?;
                at += 1;
            }
            Some(b' ' | b'\t' | b'\r' | b'\n') if at - start >= 3 && status >= 100 => {
                let tolerated = (at - start > 3).then_some((Kind::Status, start));
                return Ok((status, at, tolerated));
            }
            Some(_) => return Err(Stop::Refused(Kind::Status, at)),
        }
    }
}
