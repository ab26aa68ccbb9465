//! Heads and chunks as bytes, framed anew and with names in lower case.

use std::collections::HashMap;
use std::ops::Range;

use super::framing::{Framing, decimal};
use super::scan;
use crate::message::{Field, FieldName, Fields, Method, Request, Response, Version};

/// What to say about the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Connection {
    /// Nothing: the version's default applies.
    #[default]
    Implied,
    /// `connection: keep-alive`, for HTTP/1.0 peers.
    KeepAlive,
    /// `connection: close`.
    Close,
}

/// How a head is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// How the body that follows is delimited.
    pub framing: Framing,
    /// What to say about the connection.
    pub connection: Connection,
    /// Say it with Proxy-Connection (`option http-use-proxy-header`).
    pub proxied: bool,
    /// Pass Upgrade on, with `connection: upgrade`.
    pub upgrade: bool,
    /// `h1-case-adjust`, when the proxy has it on for this side.
    pub case: Option<&'a CaseMap>,
}

/// `h1-case-adjust`: lower-case names to the letter case a bogus peer expects.
#[derive(Clone, Debug, Default)]
pub struct CaseMap {
    names: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl CaseMap {
    /// Adds a name as it is to be written.
    pub fn add(&mut self, name: &str) {
        self.names.insert(name.to_ascii_lowercase().into_bytes().into(), name.as_bytes().into());
    }
}

/// Writes a request's head.
///
/// A URI that was built from pseudo-fields is written in origin form; an extended CONNECT (RFC 8441)
/// as the GET with Upgrade that it stands for.
pub fn write_request(request: &Request, out: &mut Vec<u8>, options: WriteOptions<'_>) {
    out.reserve(request.fields.arena().len() + HEAD_SLACK);
    let extended_connect = request.method == Method::Connect && !request.protocol.is_empty();
    let fields = &request.fields;
    let mut run = match received_request_line(request) {
        Some(line) if !extended_connect && !request.normalized_uri => line,
        _ => write_request_line(request, extended_connect, out),
    };
    let (mut length_kept, mut te_kept, mut te_trailers) = (false, false, false);
    for field in fields.list() {
        let passes = match field.id {
            FieldName::ContentLength => {
                let keeps = !length_kept && says_length(fields.bytes(field.value), options.framing);
                length_kept |= keeps;
                keeps
            }
            FieldName::Te => {
                let keeps = !te_kept && fields.bytes(field.value) == b"trailers";
                te_kept |= keeps;
                te_trailers |= takes_trailers(fields.bytes(field.value));
                keeps
            }
            FieldName::Upgrade => options.upgrade && !extended_connect,
            id => !id.is_hop_by_hop(),
        };
        if passes {
            run = pass_line(fields, field, run, out, options.case);
        }
    }
    copy_run(fields, run, out);
    if extended_connect {
        write_field(b"upgrade", fields.bytes(request.protocol), out, options.case);
    }
    if te_trailers && !te_kept {
        write_field(b"te", b"trailers", out, options.case);
    }
    if !length_kept {
        write_framing(options, out);
    }
    write_connection(options, extended_connect || options.upgrade, out);
}

/// RFC 9110 section 2.5: a peer of ours is told what we speak, but an HTTP/1.0 client's server is not asked for more
/// than that client could take.
#[inline]
fn request_version(request: &Request) -> &'static [u8; 11] {
    if request.version == Version::Http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" }
}

/// Where the whole request line stands, when it is written as it was received.
#[inline]
fn received_request_line(request: &Request) -> Option<Range<usize>> {
    let (method, uri) = (request.method_name.range(), request.uri.range());
    let uri_start = request.fields.received_behind(method.end, b" ")?;
    let end = request.fields.received_behind(uri.end, request_version(request))?;
    (uri_start == uri.start).then_some(method.start..end)
}

#[cold]
#[inline(never)]
fn write_request_line(request: &Request, extended_connect: bool, out: &mut Vec<u8>) -> Range<usize> {
    out.extend_from_slice(if extended_connect { b"GET" } else { request.method_bytes() });
    out.push(b' ');
    if extended_connect || (request.normalized_uri && request.method != Method::Connect) {
        origin_form(request, out);
    } else {
        out.extend_from_slice(request.uri_bytes());
    }
    out.extend_from_slice(request_version(request));
    NO_RUN
}

#[cold]
#[inline(never)]
fn takes_trailers(te: &[u8]) -> bool {
    scan::elements(te).any(|te| te == b"trailers")
}

/// Room for what a head has beyond its arena.
const HEAD_SLACK: usize = 128;

fn origin_form(request: &Request, out: &mut Vec<u8>) {
    let path = request.path_and_query();
    if !path.starts_with(b"/") && path != b"*" {
        out.push(b'/');
    }
    out.extend_from_slice(path);
}

/// Writes a response's head, as HTTP/1.1 unless it was received as HTTP/1.0.
///
/// The older version stays where nothing in the head belongs to the newer one: clients may rely on what it tells
/// about the origin, as that nothing is known of the response's transfer codings and cache rules.
///
/// With `Framing::None` the Content-Length received is kept, for it describes what GET would answer
/// (RFC 9110 section 8.6); 1xx and 204 have none.
pub fn write_response(response: &Response, out: &mut Vec<u8>, options: WriteOptions<'_>) {
    out.reserve(response.fields.arena().len() + HEAD_SLACK);
    let old = response.version == Version::Http10 && options.framing != Framing::Chunked && !options.upgrade;
    write_status(old, response.status, out);
    let keep_length = options.framing == Framing::None && !matches!(response.status, 100..200 | 204);
    let fields = &response.fields;
    let mut run = match fields.received_behind(response.reason.range().end, b"\r\n") {
        Some(end) => response.reason.range().start..end,
        None => write_reason(response, out),
    };
    let mut length_kept = false;
    for field in fields.list() {
        let passes = match field.id {
            FieldName::ContentLength if keep_length => true,
            FieldName::ContentLength => {
                let keeps = !length_kept && says_length(fields.bytes(field.value), options.framing);
                length_kept |= keeps;
                keeps
            }
            FieldName::Te => false,
            FieldName::Upgrade => options.upgrade,
            id => !id.is_hop_by_hop(),
        };
        if passes {
            run = pass_line(fields, field, run, out, options.case);
        }
    }
    copy_run(fields, run, out);
    if !length_kept {
        write_framing(options, out);
    }
    let connection = match options.connection {
        // RFC 9112 section 9.3: what HTTP/1.1 implies, HTTP/1.0 has to say.
        Connection::Implied if old => Connection::KeepAlive,
        connection => connection,
    };
    write_connection(WriteOptions { connection, ..options }, options.upgrade, out);
}

/// Version, status code and a space.
#[inline]
fn write_status(old: bool, status: u16, out: &mut Vec<u8>) {
    let mut start = *if old { b"HTTP/1.0 000 " } else { b"HTTP/1.1 000 " };
    if !(100..1000).contains(&status) {
        return write_long_status(&start[..9], status, out);
    }
    start[9] += (status / 100) as u8;
    start[10] += (status / 10 % 10) as u8;
    start[11] += (status % 10) as u8;
    out.extend_from_slice(&start);
}

/// The same of a status code that is only tolerated.
#[cold]
#[inline(never)]
fn write_long_status(version: &[u8], status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(version);
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
}

#[cold]
#[inline(never)]
fn write_reason(response: &Response, out: &mut Vec<u8>) -> Range<usize> {
    out.extend_from_slice(response.reason_bytes());
    out.extend_from_slice(b"\r\n");
    NO_RUN
}

/// No received bytes wait to be copied.
const NO_RUN: Range<usize> = 0..0;

/// Writes a line, or adds it to the run of received bytes that are to be copied together.
#[inline(always)]
fn pass_line(
    fields: &Fields,
    field: &Field,
    run: Range<usize>,
    out: &mut Vec<u8>,
    case: Option<&CaseMap>,
) -> Range<usize> {
    match fields.received_line(field).filter(|_| case.is_none()) {
        Some(line) if line.start == run.end => run.start..line.end,
        Some(line) => {
            copy_run(fields, run, out);
            line
        }
        None => {
            copy_run(fields, run, out);
            write_field(fields.bytes(field.name), fields.bytes(field.value), out, case);
            NO_RUN
        }
    }
}

#[inline(never)]
fn copy_run(fields: &Fields, run: Range<usize>, out: &mut Vec<u8>) {
    out.extend_from_slice(&fields.arena()[run]);
}

/// Whether a Content-Length says what the framing does, in the only way to write it.
#[inline]
fn says_length(value: &[u8], framing: Framing) -> bool {
    let Framing::Length(length) = framing else { return false };
    let padded = value.len() > 1 && value[0] == b'0';
    !padded && decimal(value) == Some(length)
}

#[inline(never)]
fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>, case: Option<&CaseMap>) {
    match case.and_then(|case| case.names.get(name)) {
        Some(adjusted) => out.extend_from_slice(adjusted),
        None => {
            let start = out.len();
            out.extend_from_slice(name);
            out[start..].make_ascii_lowercase();
        }
    }
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_framing(options: WriteOptions<'_>, out: &mut Vec<u8>) {
    match options.framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(length) => {
            write_field(b"content-length", itoa::Buffer::new().format(length).as_bytes(), out, options.case);
        }
        Framing::Chunked => write_field(b"transfer-encoding", b"chunked", out, options.case),
    }
}

/// The Connection field, and the empty line.
fn write_connection(options: WriteOptions<'_>, upgrade: bool, out: &mut Vec<u8>) {
    let value: Option<&[u8]> = match options.connection {
        _ if upgrade => Some(b"upgrade"),
        Connection::Implied => None,
        Connection::KeepAlive => Some(b"keep-alive"),
        Connection::Close => Some(b"close"),
    };
    if let Some(value) = value {
        let name: &[u8] = if options.proxied && !upgrade { b"proxy-connection" } else { b"connection" };
        write_field(name, value, out, options.case);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the size line of a chunk; its data and a CR LF follow.
pub fn write_chunk_size(size: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 16];
    let mut at = text.len();
    let mut left = size;
    loop {
        at -= 1;
        text[at] = DIGITS[(left & 15) as usize];
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Writes a chunk.  Empty data writes nothing, for an empty chunk would end the body.
pub fn write_chunk(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    write_chunk_size(data.len() as u64, out);
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Writes the last chunk and the trailer section.
pub fn write_last_chunk(trailers: Option<&Fields>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        for (name, value) in trailers.iter() {
            write_field(name, value, out, None);
        }
    }
    out.extend_from_slice(b"\r\n");
}
