//! HTTP fetches (section 7.3.6): start line, fields, cookies, parameters, body, authentication.

use std::borrow::Cow;
use std::net::IpAddr;

use weir_http::{FieldName, Fields, Version};

use crate::Txn;
use crate::data::auth;
use crate::expr::Cursor;
use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::value::hash;
use crate::value::{Type, Value, leading_int, parse_ip};

const NAME: &[K] = &[K::Str, K::Int];
const DATE_UNIT: K = K::OneOf(&["s", "ms", "us"]);

macro_rules! header_fetches {
    ($($name:literal, $needs:expr, $response:literal, $what:literal);* $(;)?) => { &[$(
        fetch(concat!($name, "hdr"), args(0, NAME), Type::Str, $needs, concat!("A comma-separated value of a ", $what, " field: the last, or the occurrence asked for."), hdr).variant($response).multi(),
        fetch(concat!($name, "hdr_cnt"), args(0, NAME), Type::Int, $needs, concat!("Number of comma-separated values of a ", $what, " field."), hdr_cnt).variant($response),
        fetch(concat!($name, "hdr_ip"), args(0, NAME), Type::Ip, $needs, concat!("A value of a ", $what, " field as an address."), hdr_ip).variant($response).multi(),
        fetch(concat!($name, "hdr_val"), args(0, NAME), Type::Int, $needs, concat!("A value of a ", $what, " field as a number."), hdr_val).variant($response).multi(),
    )*] };
}

/// `req.hdr` and its kin under all their names.
pub(crate) static HEADERS: &[Fetch] = header_fetches! {
    "req.", N::RequestHead, "req", "request";
    "", N::RequestHead, "req", "request";
    "res.", N::ResponseHead, "res", "response";
    "s", N::ResponseHead, "res", "response";
};

/// The other HTTP fetches.
pub(crate) static FETCHES: &[Fetch] = &[
    fetch("base", NONE, Type::Str, N::RequestHead, "Host and path.", base)
        .examples(&[("base", Some("www.example.com/a/b.html"))]),
    fetch("base32", NONE, Type::Int, N::RequestHead, "A 32-bit hash of base.", base32),
    fetch("base32+src", NONE, Type::Bin, N::RequestHead, "base32 and the client's address.", base32),
    fetch("baseq", NONE, Type::Str, N::RequestHead, "Host, path and query.", base)
        .examples(&[("baseq", Some("www.example.com/a/b.html?x=1&y=two"))]),
    fetch(
        "capture.req.hdr",
        args(1, &[K::Int]),
        Type::Str,
        N::RequestKept,
        "A captured request value by slot.",
        capture,
    ),
    fetch("capture.req.method", NONE, Type::Str, N::RequestKept, "The request's method, also later.", method),
    fetch(
        "capture.req.uri",
        NONE,
        Type::Str,
        N::RequestKept,
        "The request's path and query as received, also later.",
        capture_uri,
    ),
    fetch(
        "capture.req.ver",
        NONE,
        Type::Str,
        N::RequestKept,
        "The request's version as HTTP/1.1, also later.",
        capture_ver,
    ),
    fetch(
        "capture.res.hdr",
        args(1, &[K::Int]),
        Type::Str,
        N::RequestKept,
        "A captured response value by slot.",
        capture,
    ),
    fetch(
        "capture.res.ver",
        NONE,
        Type::Str,
        N::ResponseKept,
        "The response's version as HTTP/1.1.",
        capture_ver,
    ),
    fetch(
        "cook",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Value of a request cookie: the last of that name.",
        cook,
    )
    .variant("req")
    .multi(),
    fetch(
        "cook_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestHead,
        "Number of request cookies of that name.",
        cook_cnt,
    )
    .variant("req"),
    fetch(
        "cook_val",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestHead,
        "Value of a request cookie as a number.",
        cook_val,
    )
    .variant("req")
    .multi(),
    fetch(
        "cookie",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Value of a cookie of the message at hand.",
        cook,
    )
    .variant("req")
    .multi(),
    fetch(
        "http_auth",
        args(1, &[K::UserList]),
        Type::Bool,
        N::RequestHead,
        "Whether the credentials are those of a user of the list.",
        http_auth,
    ),
    fetch(
        "http_auth_bearer",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Token of the Bearer scheme.",
        http_auth_bearer,
    ),
    fetch(
        "http_auth_group",
        args(1, &[K::UserList]),
        Type::Str,
        N::RequestHead,
        "The authenticated user; in ACLs its groups.",
        http_auth_group,
    )
    .multi(),
    fetch("http_auth_pass", NONE, Type::Str, N::RequestHead, "Password of the Basic scheme.", http_auth_part)
        .examples(&[("http_auth_pass", Some("secret"))]),
    fetch("http_auth_type", NONE, Type::Str, N::RequestHead, "Authentication scheme.", http_auth_part)
        .examples(&[("http_auth_type", Some("Basic"))]),
    fetch(
        "http_auth_user",
        NONE,
        Type::Str,
        N::RequestHead,
        "User name of the Basic scheme.",
        http_auth_part,
    )
    .examples(&[("http_auth_user", Some("joe"))]),
    fetch(
        "http_first_req",
        NONE,
        Type::Bool,
        N::RequestKept,
        "Whether this is the connection's first request.",
        http_first_req,
    ),
    fetch("method", NONE, Type::Method, N::RequestHead, "The request's method.", method)
        .examples(&[("method", Some("GET"))]),
    fetch("path", NONE, Type::Str, N::RequestHead, "Path without host and query.", path)
        .examples(&[("path", Some("/a/b.html"))]),
    fetch("pathq", NONE, Type::Str, N::RequestHead, "Path with query.", path)
        .examples(&[("pathq", Some("/a/b.html?x=1&y=two"))]),
    fetch(
        "query",
        args(0, &[K::OneOf(&["with_qm"])]),
        Type::Str,
        N::RequestHead,
        "Query, without its question mark unless with_qm is given.",
        query,
    )
    .examples(&[("query", Some("x=1&y=two")), ("query(with_qm)", Some("?x=1&y=two"))]),
    fetch("req.body", NONE, Type::Bin, N::RequestBody, "Bytes of the request's body received so far.", body),
    fetch(
        "req.body_len",
        NONE,
        Type::Int,
        N::RequestBody,
        "Number of bytes of the request's body received so far.",
        body_len,
    ),
    fetch(
        "req.body_param",
        args(0, &[K::Str, K::OneOf(&["i"])]),
        Type::Str,
        N::RequestBody,
        "A parameter of a form in the request's body.",
        body_param,
    )
    .multi(),
    fetch(
        "req.body_size",
        NONE,
        Type::Int,
        N::RequestBody,
        "Announced length of the request's body.",
        body_size,
    ),
    fetch(
        "req.cook",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Value of a request cookie: the last of that name.",
        cook,
    )
    .variant("req")
    .multi()
    .examples(&[("req.cook(id)", Some("7")), ("req.cook(none)", None)]),
    fetch(
        "req.cook_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestHead,
        "Number of request cookies of that name.",
        cook_cnt,
    )
    .variant("req")
    .examples(&[("req.cook_cnt", Some("2"))]),
    fetch(
        "req.cook_names",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Names of all request cookies.",
        cook_names,
    )
    .variant("req")
    .examples(&[("req.cook_names", Some("id,theme"))]),
    fetch(
        "req.cook_val",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestHead,
        "Value of a request cookie as a number.",
        cook_val,
    )
    .variant("req")
    .multi(),
    fetch("req.fhdr", args(0, NAME), Type::Str, N::RequestHead, "A whole field line of the request.", fhdr)
        .variant("req")
        .multi()
        .examples(&[("req.fhdr(accept)", Some("text/html, image/png"))]),
    fetch(
        "req.fhdr_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestHead,
        "Number of field lines of the request.",
        fhdr_cnt,
    )
    .variant("req"),
    fetch(
        "req.hdr_names",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestHead,
        "Names of all request fields.",
        hdr_names,
    )
    .variant("req"),
    fetch(
        "req.hdrs",
        NONE,
        Type::Str,
        N::RequestHead,
        "All request fields as lines, with the empty one.",
        hdrs,
    )
    .variant("req"),
    fetch("req.hdrs_bin", NONE, Type::Bin, N::RequestHead, "All request fields in binary form.", hdrs_bin)
        .variant("req"),
    fetch("req.proto_http", NONE, Type::Bool, N::RequestHead, "Whether the request is HTTP.", proto_http),
    fetch("req_proto_http", NONE, Type::Bool, N::RequestHead, "Whether the request is HTTP.", proto_http),
    fetch(
        "req.timer.hdr",
        NONE,
        Type::Int,
        N::RequestKept,
        "Time to receive the request's head, ms (%TR).",
        super::connection::timer,
    ),
    fetch(
        "req.timer.idle",
        NONE,
        Type::Int,
        N::RequestKept,
        "Idle time before the request, ms (%Ti).",
        super::connection::timer,
    ),
    fetch(
        "req.timer.queue",
        NONE,
        Type::Int,
        N::RequestKept,
        "Time in queues, ms (%Tw).",
        super::connection::timer,
    ),
    fetch(
        "req.timer.tq",
        NONE,
        Type::Int,
        N::RequestKept,
        "Th + Ti + TR, ms (%Tq).",
        super::connection::timer,
    ),
    fetch("req.ver", NONE, Type::Str, N::RequestKept, "The request's version as 1.1.", ver)
        .variant("req")
        .examples(&[("req.ver", Some("1.1"))]),
    fetch("req_ver", NONE, Type::Str, N::RequestKept, "The request's version as 1.1.", ver).variant("req"),
    fetch(
        "request_date",
        args(0, &[DATE_UNIT]),
        Type::Int,
        N::RequestKept,
        "Date of the request's first byte, in s, ms or us since 1970.",
        request_date,
    ),
    fetch(
        "res.body",
        NONE,
        Type::Bin,
        N::ResponseBody,
        "Bytes of the response's body received so far.",
        body,
    ),
    fetch(
        "res.body_len",
        NONE,
        Type::Int,
        N::ResponseBody,
        "Number of bytes of the response's body received so far.",
        body_len,
    ),
    fetch(
        "res.body_size",
        NONE,
        Type::Int,
        N::ResponseBody,
        "Announced length of the response's body.",
        body_size,
    ),
    fetch(
        "res.cache_hit",
        NONE,
        Type::Bool,
        N::ResponseKept,
        "Whether the response came out of a cache.",
        cache_hit,
    ),
    fetch(
        "res.cache_name",
        NONE,
        Type::Str,
        N::ResponseKept,
        "Name of the cache the response came out of.",
        cache_name,
    ),
    fetch("res.comp", NONE, Type::Bool, N::ResponseKept, "Whether the response is compressed here.", comp),
    fetch(
        "res.comp_algo",
        NONE,
        Type::Str,
        N::ResponseKept,
        "Algorithm the response is compressed with here.",
        comp_algo,
    ),
    fetch(
        "res.cook",
        args(0, &[K::Str]),
        Type::Str,
        N::ResponseHead,
        "Value of a response cookie: the last of that name.",
        cook,
    )
    .variant("res")
    .multi(),
    fetch(
        "res.cook_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::ResponseHead,
        "Number of response cookies of that name.",
        cook_cnt,
    )
    .variant("res"),
    fetch(
        "res.cook_names",
        args(0, &[K::Str]),
        Type::Str,
        N::ResponseHead,
        "Names of all response cookies.",
        cook_names,
    )
    .variant("res"),
    fetch(
        "res.cook_val",
        args(0, &[K::Str]),
        Type::Int,
        N::ResponseHead,
        "Value of a response cookie as a number.",
        cook_val,
    )
    .variant("res")
    .multi(),
    fetch("res.fhdr", args(0, NAME), Type::Str, N::ResponseHead, "A whole field line of the response.", fhdr)
        .variant("res")
        .multi(),
    fetch(
        "res.fhdr_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::ResponseHead,
        "Number of field lines of the response.",
        fhdr_cnt,
    )
    .variant("res"),
    fetch(
        "res.hdr_names",
        args(0, &[K::Str]),
        Type::Str,
        N::ResponseHead,
        "Names of all response fields.",
        hdr_names,
    )
    .variant("res"),
    fetch(
        "res.hdrs",
        NONE,
        Type::Str,
        N::ResponseHead,
        "All response fields as lines, with the empty one.",
        hdrs,
    )
    .variant("res"),
    fetch("res.hdrs_bin", NONE, Type::Bin, N::ResponseHead, "All response fields in binary form.", hdrs_bin)
        .variant("res"),
    fetch(
        "res.timer.hdr",
        NONE,
        Type::Int,
        N::ResponseKept,
        "Time until the response's head, ms (%Tr).",
        super::connection::timer,
    ),
    fetch("res.ver", NONE, Type::Str, N::ResponseHead, "The response's version as 1.1.", ver).variant("res"),
    fetch("resp_ver", NONE, Type::Str, N::ResponseHead, "The response's version as 1.1.", ver).variant("res"),
    fetch(
        "scook",
        args(0, &[K::Str]),
        Type::Str,
        N::ResponseHead,
        "Value of a response cookie: the last of that name.",
        cook,
    )
    .variant("res")
    .multi(),
    fetch(
        "scook_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::ResponseHead,
        "Number of response cookies of that name.",
        cook_cnt,
    )
    .variant("res"),
    fetch(
        "scook_val",
        args(0, &[K::Str]),
        Type::Int,
        N::ResponseHead,
        "Value of a response cookie as a number.",
        cook_val,
    )
    .variant("res")
    .multi(),
    fetch(
        "server_status",
        NONE,
        Type::Int,
        N::ResponseKept,
        "Status as received from the server.",
        server_status,
    ),
    fetch(
        "set-cookie",
        args(0, &[K::Str]),
        Type::Str,
        N::ResponseHead,
        "Value of a response cookie: the last of that name.",
        cook,
    )
    .variant("res")
    .multi(),
    fetch("status", NONE, Type::Int, N::ResponseHead, "Status of the response.", status),
    fetch("txn.status", NONE, Type::Int, N::RequestKept, "Status as logged.", txn_status),
    fetch(
        "txn.timer.total",
        NONE,
        Type::Int,
        N::RequestKept,
        "Active time of the request, ms (%Ta).",
        super::connection::timer,
    ),
    fetch(
        "txn.timer.user",
        NONE,
        Type::Int,
        N::RequestKept,
        "Time as the client sees it, without idle time, ms (%Tu).",
        super::connection::timer,
    ),
    fetch("unique-id", NONE, Type::Str, N::RequestKept, "The request's unique ID.", unique_id),
    fetch("url", NONE, Type::Str, N::RequestHead, "The request target as received.", url)
        .examples(&[("url", Some("/a/b.html?x=1&y=two"))]),
    fetch("url32", NONE, Type::Int, N::RequestHead, "A 32-bit hash of host and URL.", url32),
    fetch("url32+src", NONE, Type::Bin, N::RequestHead, "url32 and the client's address.", url32),
    fetch("url_ip", NONE, Type::Ip, N::RequestHead, "Address in an absolute URL.", url_ip),
    fetch(
        "url_param",
        args(0, &[K::Str, K::Str, K::OneOf(&["i"])]),
        Type::Str,
        N::RequestHead,
        "A parameter of the query.",
        urlp,
    )
    .multi(),
    fetch("url_port", NONE, Type::Int, N::RequestHead, "Port in an absolute URL with an address.", url_port),
    fetch(
        "urlp",
        args(0, &[K::Str, K::Str, K::OneOf(&["i"])]),
        Type::Str,
        N::RequestHead,
        "A parameter of the query.",
        urlp,
    )
    .multi()
    .examples(&[("urlp(y)", Some("two")), ("urlp(Y,,i)", Some("two")), ("urlp(z)", None)]),
    fetch(
        "urlp_val",
        args(0, &[K::Str, K::Str, K::OneOf(&["i"])]),
        Type::Int,
        N::RequestHead,
        "A parameter of the query as a number.",
        urlp_val,
    )
    .multi()
    .examples(&[("urlp_val(x)", Some("1"))]),
];

/// Fields of the message that a keyword's variant names.
fn fields<'a>(txn: &'a Txn, variant: &str) -> Option<&'a Fields> {
    if variant == "res" { txn.response.as_ref().map(|r| &r.fields) } else { Some(&txn.request.fields) }
}

/// The comma-separated value of a field line that starts at `from`: its bytes and where the next one starts.
pub(crate) fn next_value(line: &[u8], from: usize) -> Option<(&[u8], usize)> {
    if from > line.len() {
        return None;
    }
    let (mut quoted, mut end) = (false, from);
    while let Some(&b) = line.get(end) {
        match b {
            b'\\' if quoted => end += 1,
            b'"' => quoted = !quoted,
            b',' if !quoted => break,
            _ => {}
        }
        end += 1;
    }
    let end = end.min(line.len());
    Some((line[from..end].trim_ascii(), end + 1))
}

/// The next value from the cursor on: of lines with this name, or of all.
fn next_field<'a>(
    fields: &'a Fields,
    name: Option<&[u8]>,
    whole: bool,
    cursor: &mut Cursor,
) -> Option<&'a [u8]> {
    let list = fields.list();
    while let Some(field) = list.get(cursor.line) {
        if name.is_none_or(|n| fields.bytes(field.name).eq_ignore_ascii_case(n)) {
            let line = fields.bytes(field.value);
            if whole {
                cursor.line += 1;
                // A rule may have set a value with white space around it, which is no part of it on the wire
                // (RFC 9110 section 5.5).
                return Some(line.trim_ascii());
            }
            if let Some((value, next)) = next_value(line, cursor.offset) {
                cursor.offset = next;
                return Some(value);
            }
        }
        cursor.line += 1;
        cursor.offset = 0;
    }
    None
}

/// One value: the next from the cursor on, or the occurrence asked for (the last by default).
fn field_value<'a>(txn: &'a Txn, args: &Args, cursor: &mut Cursor, whole: bool) -> Option<&'a [u8]> {
    let fields = fields(txn, args.variant)?;
    let name = args.str(0);
    let occurrence = match args.int(1) {
        None if !cursor.is_single() => return next_field(fields, name, whole, cursor),
        Some(n) if !cursor.is_single() => {
            // One certain occurrence is one value: there is no second to try.
            if std::mem::replace(&mut cursor.line, usize::MAX) == usize::MAX {
                return None;
            }
            n
        }
        n => n.unwrap_or(-1),
    };
    let mut walk = Cursor::default();
    let mut values = std::iter::from_fn(|| next_field(fields, name, whole, &mut walk));
    match occurrence {
        -1 => values.last(),
        1.. => values.nth(occurrence as usize - 1),
        _ => {
            let total = values.count() as i64;
            let at = total + occurrence;
            let mut walk = Cursor::default();
            let mut values = std::iter::from_fn(|| next_field(fields, name, whole, &mut walk));
            (at >= 0).then(|| values.nth(at as usize))?
        }
    }
}

fn hdr<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    field_value(txn, args, cursor, false).map(Value::text)
}

fn fhdr<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    field_value(txn, args, cursor, true).map(Value::text)
}

fn hdr_val<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    field_value(txn, args, cursor, false).map(|v| Value::Int(leading_int(v)))
}

fn hdr_ip<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    loop {
        let value = field_value(txn, args, cursor, false)?;
        match ip_with_port(value) {
            Some(ip) => return Some(Value::Ip(ip)),
            None if cursor.is_single() => return None,
            None => {}
        }
    }
}

/// An address with or without port: `1.2.3.4:80`, `[::1]:80`, `::1`.
fn ip_with_port(text: &[u8]) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix(b"[") {
        let end = memchr::memchr(b']', rest)?;
        return parse_ip(&rest[..end]);
    }
    parse_ip(text).or_else(|| {
        let colon = memchr::memchr(b':', text)?;
        text[colon + 1..].iter().all(u8::is_ascii_digit).then(|| parse_ip(&text[..colon]))?
    })
}

fn count(txn: &Txn, args: &Args, whole: bool) -> Option<i64> {
    let fields = fields(txn, args.variant)?;
    let mut cursor = Cursor::default();
    Some(std::iter::from_fn(|| next_field(fields, args.str(0), whole, &mut cursor)).count() as i64)
}

fn hdr_cnt<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    count(txn, args, false).map(Value::Int)
}

fn fhdr_cnt<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    count(txn, args, true).map(Value::Int)
}

/// The delimiter of `..._names`: the argument's first byte, or a comma.
fn delimiter(args: &Args) -> u8 {
    args.str(0).and_then(|d| d.first().copied()).unwrap_or(b',')
}

fn join<'n>(names: impl Iterator<Item = Cow<'n, [u8]>>, delimiter: u8) -> Value<'static> {
    let mut out = Vec::new();
    for (at, name) in names.enumerate() {
        if at > 0 {
            out.push(delimiter);
        }
        out.extend_from_slice(&name);
    }
    Value::owned(out)
}

fn hdr_names<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let names = fields(txn, args.variant)?.iter().map(|(name, _)| name.to_ascii_lowercase().into());
    Some(join(names, delimiter(args)))
}

fn hdrs<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let mut out = Vec::new();
    for (name, value) in fields(txn, args.variant)?.iter() {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Some(Value::owned(out))
}

fn hdrs_bin<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let mut out = Vec::new();
    for (name, value) in fields(txn, args.variant)?.iter() {
        push_varint(name.len() as u64, &mut out);
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        push_varint(value.len() as u64, &mut out);
        out.extend_from_slice(value);
    }
    out.extend_from_slice(&[0, 0]);
    Some(Value::Bin(out.into()))
}

/// The variable-length integers of SPOE: one byte below 240, then 4 bits and 7 at a time.
fn push_varint(mut n: u64, out: &mut Vec<u8>) {
    if n < 240 {
        out.push(n as u8);
        return;
    }
    out.push(n as u8 | 0xf0);
    n = (n - 240) >> 4;
    while n >= 128 {
        out.push(n as u8 | 0x80);
        n = (n - 128) >> 7;
    }
    out.push(n as u8);
}

/// Reads one such integer; returns it and the bytes used.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = u64::from(*bytes.first()?);
    if first < 240 {
        return Some((first, 1));
    }
    let (mut n, mut shift, mut at) = (first, 4, 1);
    loop {
        let byte = u64::from(*bytes.get(at)?);
        n = n.checked_add(byte.checked_shl(shift)?)?;
        at += 1;
        shift += 7;
        if byte < 128 {
            return (shift < 64).then_some((n, at));
        }
    }
}

/// The cookie from the cursor on: name and value.  Set-Cookie has one per line, Cookie many.
fn next_cookie<'a>(fields: &'a Fields, response: bool, cursor: &mut Cursor) -> Option<(&'a [u8], &'a [u8])> {
    let id = if response { FieldName::SetCookie } else { FieldName::Cookie };
    let list = fields.list();
    while let Some(field) = list.get(cursor.line) {
        let line = fields.bytes(field.value);
        if field.id == id && cursor.offset <= line.len() {
            let rest = &line[cursor.offset..];
            let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
            let pair = &rest[..end];
            cursor.offset = if response { usize::MAX } else { cursor.offset + end + 1 };
            if let Some(eq) = memchr::memchr(b'=', pair) {
                return Some((pair[..eq].trim_ascii(), pair[eq + 1..].trim_ascii()));
            }
            continue;
        }
        cursor.line += 1;
        cursor.offset = 0;
    }
    None
}

fn cookie_value<'a>(txn: &'a Txn, args: &Args, cursor: &mut Cursor) -> Option<&'a [u8]> {
    let fields = fields(txn, args.variant)?;
    let response = args.variant == "res";
    let name = args.str(0);
    let mut walk = *cursor;
    let mut values = std::iter::from_fn(|| next_cookie(fields, response, &mut walk))
        .filter(|(n, _)| name.is_none_or(|name| *n == name))
        .map(|(_, v)| v);
    let found = match cursor.is_single() && name.is_some() {
        true => values.last(),
        false => values.next(),
    };
    *cursor = walk;
    found
}

fn cook<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    cookie_value(txn, args, cursor).map(Value::text)
}

fn cook_val<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    cookie_value(txn, args, cursor).map(|v| Value::Int(leading_int(v)))
}

fn cook_cnt<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let fields = fields(txn, args.variant)?;
    let mut walk = Cursor::default();
    let all = std::iter::from_fn(|| next_cookie(fields, args.variant == "res", &mut walk));
    Some(Value::Int(all.filter(|(n, _)| args.str(0).is_none_or(|name| *n == name)).count() as i64))
}

fn cook_names<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let fields = fields(txn, args.variant)?;
    let mut walk = Cursor::default();
    let names =
        std::iter::from_fn(|| next_cookie(fields, args.variant == "res", &mut walk)).map(|(n, _)| n.into());
    Some(join(names, delimiter(args)))
}

fn method<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    if args.variant == "method" {
        let name = txn.request.method_bytes();
        return (!name.is_empty()).then_some(Value::Method(name.into()));
    }
    let name = txn.original_method();
    (!name.is_empty()).then_some(Value::text(name))
}

/// Path (and query) of an URI when it has one.
fn path_of(txn: &Txn, with_query: bool) -> Option<&[u8]> {
    let request = &txn.request;
    let path = if with_query { request.path_and_query() } else { request.path() };
    path.starts_with(b"/").then_some(path)
}

fn path<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    path_of(txn, args.variant == "pathq").map(Value::text)
}

fn query<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let pathq = txn.request.path_and_query();
    let mark = memchr::memchr(b'?', pathq)?;
    let with_mark = args.get(0).is_some() && pathq.len() > mark + 1;
    Some(Value::text(&pathq[if with_mark { mark } else { mark + 1 }..]))
}

fn host_and(txn: &Txn, rest: &[u8]) -> Vec<u8> {
    let mut out = txn.request.fields.first(FieldName::Host).unwrap_or_default().to_vec();
    out.extend_from_slice(rest);
    out
}

fn base<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let path = path_of(txn, args.variant == "baseq");
    let host = txn.request.fields.first(FieldName::Host);
    (path.is_some() || host.is_some()).then(|| Value::owned(host_and(txn, path.unwrap_or_default())))
}

/// A hash, alone or with the client's address behind it.
fn hash_and_src<'a>(txn: &Txn, bytes: &[u8], with_src: bool) -> Option<Value<'a>> {
    let hash = hash::avalanche(hash::sdbm(bytes));
    if !with_src {
        return Some(Value::Int(i64::from(hash)));
    }
    let mut out = hash.to_be_bytes().to_vec();
    match txn.src()?.ip().to_canonical() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    Some(Value::Bin(out.into()))
}

fn base32<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    hash_and_src(txn, &host_and(txn, path_of(txn, false).unwrap_or_default()), args.variant != "base32")
}

fn url32<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    hash_and_src(txn, &host_and(txn, txn.request.uri_bytes()), args.variant != "url32")
}

fn capture<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let slots =
        if args.variant == "capture.req.hdr" { &txn.request_captures } else { &txn.response_captures };
    let slot = usize::try_from(args.int(0)?).ok()?;
    slots.get(slot)?.as_deref().map(Value::text)
}

fn capture_uri<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let uri = txn.original_uri();
    let slash = match memchr::memmem::find(uri, b"://") {
        Some(at) => at + 3 + memchr::memchr(b'/', &uri[at + 3..])?,
        None => 0,
    };
    (!uri.is_empty()).then(|| Value::text(&uri[slash..]))
}

fn capture_ver<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let version =
        if args.variant == "capture.req.ver" { txn.request.version } else { txn.response.as_ref()?.version };
    Some(Value::text(version.as_str().as_bytes()))
}

fn ver<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let version = if args.variant == "req" { txn.request.version } else { txn.response.as_ref()?.version };
    Some(Value::text(match version {
        Version::Http10 => b"1.0",
        Version::Http11 => b"1.1",
        Version::Http2 => b"2.0",
        Version::Http3 => b"3.0",
    }))
}

fn body<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let bytes = if args.variant == "req.body" { &txn.request_body } else { &txn.response_body };
    Some(Value::Bin(bytes.as_slice().into()))
}

fn body_len<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let bytes = if args.variant == "req.body_len" { &txn.request_body } else { &txn.response_body };
    Some(Value::Int(bytes.len() as i64))
}

fn body_size<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    if args.variant == "req.body_size" {
        return Some(Value::Int(txn.request_body_len.map_or(txn.request_body.len() as i64, |n| n as i64)));
    }
    let announced = txn.response.as_ref()?.fields.first(FieldName::ContentLength);
    Some(Value::Int(announced.map_or(txn.response_body.len() as i64, leading_int)))
}

/// The parameter from the cursor on in `text`, by name or any.
fn next_param<'a>(
    text: &'a [u8],
    is_delimiter: impl Fn(u8) -> bool,
    args: &Args,
    ignore_case: bool,
    cursor: &mut Cursor,
) -> Option<&'a [u8]> {
    while cursor.offset < text.len() {
        let rest = &text[cursor.offset..];
        let end = rest.iter().position(|b| is_delimiter(*b)).unwrap_or(rest.len());
        let param = &rest[..end];
        cursor.offset += end + 1;
        let Some(eq) = memchr::memchr(b'=', param) else { continue };
        let (name, value) = (&param[..eq], &param[eq + 1..]);
        let matches = match args.str(0) {
            None => true,
            Some(wanted) if ignore_case => name.eq_ignore_ascii_case(wanted),
            Some(wanted) => name == wanted,
        };
        if matches {
            return Some(value);
        }
    }
    None
}

fn url_parameter<'a>(txn: &'a Txn, args: &Args, cursor: &mut Cursor) -> Option<&'a [u8]> {
    let delimiter = args.str(1).and_then(|d| d.first().copied()).unwrap_or(b'?');
    let uri = txn.request.path_and_query();
    let start = memchr::memchr(delimiter, uri)? + 1;
    let ignore_case = matches!(args.get(2), Some(Arg::Choice(_)));
    next_param(&uri[start..], |b| matches!(b, b'&' | b';') || b == delimiter, args, ignore_case, cursor)
}

fn urlp<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    url_parameter(txn, args, cursor).map(Value::text)
}

fn urlp_val<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    url_parameter(txn, args, cursor).map(|v| Value::Int(leading_int(v)))
}

fn body_param<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    let ignore_case = matches!(args.get(1), Some(Arg::Choice(_)));
    next_param(&txn.request_body, |b| b == b'&', args, ignore_case, cursor).map(Value::text)
}

fn url<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let uri = txn.request.uri_bytes();
    (!uri.is_empty()).then_some(Value::text(uri))
}

/// Address and port in an absolute URL.
fn url_endpoint(txn: &Txn) -> Option<(IpAddr, u16)> {
    let authority = txn.request.uri_authority()?;
    let ip = ip_with_port(authority)?;
    let colon = memchr::memrchr(b':', authority).filter(|at| !authority[*at..].contains(&b']'));
    let default = if txn.request.scheme() == Some(b"https") { 443 } else { 80 };
    let port = colon.and_then(|at| std::str::from_utf8(&authority[at + 1..]).ok()?.parse().ok());
    Some((ip, port.unwrap_or(default)))
}

fn url_ip<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    url_endpoint(txn).map(|(ip, _)| Value::Ip(ip))
}

fn url_port<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    url_endpoint(txn).map(|(_, port)| Value::Int(i64::from(port)))
}

fn proto_http<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let known = !txn.request.method_bytes().is_empty();
    (known || txn.not_http || !txn.inspecting).then_some(Value::Bool(known))
}

fn request_date<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(super::internal::in_unit(txn.timers.start_us as i64, 0, args.get(0))))
}

fn cache_hit<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.cache_hit.is_some()))
}

fn cache_name<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(txn.cache_hit.as_deref().unwrap_or("").as_bytes()))
}

fn comp<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.compression.is_some()))
}

fn comp_algo<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.compression.map(|name| Value::text(name.as_bytes()))
}

fn status<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.response.as_ref().map(|r| Value::Int(i64::from(r.status)))
}

fn server_status<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    (txn.server_status > 0).then(|| Value::Int(i64::from(txn.server_status)))
}

fn txn_status<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.status)))
}

fn unique_id<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.unique_id().map(Value::text)
}

fn http_first_req<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.session.requests.get() <= 1))
}

/// Scheme and credentials of the request: Authorization, or Proxy-Authorization for a forward proxy.
fn authorization(txn: &Txn) -> Option<(&[u8], &[u8])> {
    let fields = &txn.request.fields;
    let proxied = txn.request.scheme().is_some() && !txn.request.normalized_uri;
    let value = proxied.then(|| fields.get(b"proxy-authorization")).flatten();
    split_scheme(value.or_else(|| fields.first(FieldName::Authorization))?)
}

fn split_scheme(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', value)?;
    Some((&value[..space], value[space..].trim_ascii()))
}

/// User and password that the client gave by the Basic scheme; nobody has looked whether they are right.
#[must_use]
pub fn basic_credentials(txn: &Txn) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, token) = authorization(txn)?;
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let mut user = crate::value::codec::decode_base64(token)?;
    let colon = memchr::memchr(b':', &user)?;
    let password = user.split_off(colon + 1);
    user.pop();
    Some((user, password))
}

fn http_auth_part<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    match args.variant {
        "http_auth_type" => authorization(txn).map(|(scheme, _)| Value::text(scheme)),
        "http_auth_user" => basic_credentials(txn).map(|(user, _)| Value::owned(user)),
        _ => basic_credentials(txn).map(|(_, password)| Value::owned(password)),
    }
}

fn http_auth_bearer<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (scheme, token) = match args.str(0) {
        Some(name) => split_scheme(txn.request.fields.get(name)?)?,
        None => authorization(txn)?,
    };
    scheme.eq_ignore_ascii_case(b"bearer").then_some(Value::text(token))
}

fn authenticated<'a>(txn: &Txn, args: &'a Args) -> Option<&'a auth::User> {
    let Some(Arg::UserList(list)) = args.get(0) else { return None };
    let (user, password) = basic_credentials(txn)?;
    list.check(&user, &password)
}

fn http_auth<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(authenticated(txn, args).is_some()))
}

fn http_auth_group<'a>(txn: &'a Txn, args: &'a Args, cursor: &mut Cursor) -> Option<Value<'a>> {
    let user = authenticated(txn, args)?;
    if cursor.is_single() {
        return Some(Value::text(&user.name));
    }
    let group = user.groups.get(cursor.line)?;
    cursor.line += 1;
    Some(Value::text(group))
}
