//! Heads and chunks as bytes, framed anew and with names in lower case.

use std::collections::HashMap;

use super::framing::Framing;
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
    out.extend_from_slice(if extended_connect { b"GET" } else { request.method_bytes() });
    out.push(b' ');
    if extended_connect || (request.normalized_uri && request.method != Method::Connect) {
        origin_form(request, out);
    } else {
        out.extend_from_slice(request.uri_bytes());
    }
    // RFC 9110 section 2.5: a peer of ours is told what we speak, but an HTTP/1.0 client's server is not asked
    // for more than that client could take.
    let http10 = request.version == Version::Http10;
    out.extend_from_slice(if http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });

    let mut te_trailers = false;
    for field in request.fields.list() {
        match field.id {
            FieldName::ContentLength => continue,
            FieldName::Te => {
                te_trailers |= scan::elements(request.fields.bytes(field.value)).any(|te| te == b"trailers");
                continue;
            }
            FieldName::Upgrade if options.upgrade && !extended_connect => {}
            id if id.is_hop_by_hop() => continue,
            _ => {}
        }
        write_line(&request.fields, field, out, options.case);
    }
    if extended_connect {
        write_field(b"upgrade", request.fields.bytes(request.protocol), out, options.case);
    }
    if te_trailers {
        write_field(b"te", b"trailers", out, options.case);
    }
    write_framing(options, out);
    write_connection(options, extended_connect || options.upgrade, out);
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
    out.extend_from_slice(if old { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(digits.format(response.status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(response.reason_bytes());
    out.extend_from_slice(b"\r\n");

    let keep_length = options.framing == Framing::None && !matches!(response.status, 100..200 | 204);
    for field in response.fields.list() {
        match field.id {
            FieldName::ContentLength if keep_length => {}
            FieldName::Upgrade if options.upgrade => {}
            FieldName::ContentLength | FieldName::Te => continue,
            id if id.is_hop_by_hop() => continue,
            _ => {}
        }
        write_line(&response.fields, field, out, options.case);
    }
    write_framing(options, out);
    let connection = match options.connection {
        // RFC 9112 section 9.3: what HTTP/1.1 implies, HTTP/1.0 has to say.
        Connection::Implied if old => Connection::KeepAlive,
        connection => connection,
    };
    write_connection(WriteOptions { connection, ..options }, options.upgrade, out);
}

/// Writes a line of a message.
#[inline]
fn write_line(fields: &Fields, field: &Field, out: &mut Vec<u8>, case: Option<&CaseMap>) {
    match fields.received_line(field) {
        Some(line) if case.is_none() => out.extend_from_slice(line),
        _ => write_field(fields.bytes(field.name), fields.bytes(field.value), out, case),
    }
}

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
