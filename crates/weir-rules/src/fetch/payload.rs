//! Fetches from buffer contents (section 7.3.5): raw bytes, TLS hellos, RDP cookies.

use crate::Txn;
use crate::data::client_hello;
use crate::expr::Cursor;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::value::{Type, Value, leading_int};
use weir_http::Fields;

const RANGE: &[K] = &[K::Int, K::Int];
const LV: &[K] = &[K::Int, K::Int, K::Str];

pub(crate) static FETCHES: &[Fetch] = &[
    fetch(
        "payload",
        args(2, RANGE),
        Type::Bin,
        N::RequestBuffer,
        "Bytes of the buffer: offset and length (0: all).",
        payload,
    )
    .variant("req"),
    fetch(
        "payload_lv",
        args(2, LV),
        Type::Bin,
        N::RequestBuffer,
        "Bytes of the buffer whose length stands in it.",
        payload_lv,
    )
    .variant("req"),
    fetch(
        "rdp_cookie",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestBuffer,
        "A cookie of an RDP connection request.",
        rdp_cookie,
    ),
    fetch(
        "rdp_cookie_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestBuffer,
        "Number of such RDP cookies: 0 or 1.",
        rdp_cookie_cnt,
    ),
    fetch(
        "rep_ssl_hello_type",
        NONE,
        Type::Int,
        N::ResponseBuffer,
        "Type of the TLS hello in the response.",
        hello_type,
    )
    .variant("res"),
    fetch("req.len", NONE, Type::Int, N::RequestBuffer, "Number of bytes in the request buffer.", len)
        .variant("req"),
    fetch(
        "req.payload",
        args(2, RANGE),
        Type::Bin,
        N::RequestBuffer,
        "Bytes of the request buffer: offset and length (0: all).",
        payload,
    )
    .variant("req"),
    fetch(
        "req.payload_lv",
        args(2, LV),
        Type::Bin,
        N::RequestBuffer,
        "Bytes of the request buffer whose length stands in it.",
        payload_lv,
    )
    .variant("req"),
    fetch(
        "req.rdp_cookie",
        args(0, &[K::Str]),
        Type::Str,
        N::RequestBuffer,
        "A cookie of an RDP connection request.",
        rdp_cookie,
    ),
    fetch(
        "req.rdp_cookie_cnt",
        args(0, &[K::Str]),
        Type::Int,
        N::RequestBuffer,
        "Number of such RDP cookies: 0 or 1.",
        rdp_cookie_cnt,
    ),
    fetch(
        "req.ssl_alpn",
        NONE,
        Type::Str,
        N::RequestBuffer,
        "Protocols of the ALPN extension in a TLS hello.",
        hello_alpn,
    ),
    fetch(
        "req.ssl_cipherlist",
        NONE,
        Type::Bin,
        N::RequestBuffer,
        "Cipher suites of a TLS hello.",
        hello_part,
    ),
    fetch(
        "req.ssl_ec_ext",
        NONE,
        Type::Bool,
        N::RequestBuffer,
        "Whether a TLS hello has the supported groups extension.",
        hello_ec,
    ),
    fetch(
        "req.ssl_hello_type",
        NONE,
        Type::Int,
        N::RequestBuffer,
        "Type of the TLS hello in the request: 1 for a client's.",
        hello_type,
    )
    .variant("req"),
    fetch(
        "req.ssl_keyshare_groups",
        NONE,
        Type::Bin,
        N::RequestBuffer,
        "Groups of the key shares in a TLS hello.",
        hello_part,
    ),
    fetch(
        "req.ssl_sigalgs",
        NONE,
        Type::Bin,
        N::RequestBuffer,
        "Signature algorithms of a TLS hello.",
        hello_part,
    ),
    fetch("req.ssl_sni", NONE, Type::Str, N::RequestBuffer, "Server name in a TLS hello.", hello_sni),
    fetch(
        "req.ssl_st_ext",
        NONE,
        Type::Int,
        N::RequestBuffer,
        "Session ticket extension of a TLS hello: 0 none, 1 empty, 2 with a ticket.",
        hello_ticket,
    ),
    fetch(
        "req.ssl_supported_groups",
        NONE,
        Type::Bin,
        N::RequestBuffer,
        "Supported groups of a TLS hello.",
        hello_part,
    ),
    fetch(
        "req.ssl_ver",
        NONE,
        Type::Int,
        N::RequestBuffer,
        "Version of a TLS hello as major << 16 + minor.",
        hello_version,
    ),
    fetch("req_len", NONE, Type::Int, N::RequestBuffer, "Number of bytes in the request buffer.", len)
        .variant("req"),
    fetch(
        "req_ssl_hello_type",
        NONE,
        Type::Int,
        N::RequestBuffer,
        "Type of the TLS hello in the request: 1 for a client's.",
        hello_type,
    )
    .variant("req"),
    fetch("req_ssl_sni", NONE, Type::Str, N::RequestBuffer, "Server name in a TLS hello.", hello_sni),
    fetch(
        "req_ssl_ver",
        NONE,
        Type::Int,
        N::RequestBuffer,
        "Version of a TLS hello as major << 16 + minor.",
        hello_version,
    ),
    fetch("res.len", NONE, Type::Int, N::ResponseBuffer, "Number of bytes in the response buffer.", len)
        .variant("res"),
    fetch(
        "res.payload",
        args(2, RANGE),
        Type::Bin,
        N::ResponseBuffer,
        "Bytes of the response buffer: offset and length (0: all).",
        payload,
    )
    .variant("res"),
    fetch(
        "res.payload_lv",
        args(2, LV),
        Type::Bin,
        N::ResponseBuffer,
        "Bytes of the response buffer whose length stands in it.",
        payload_lv,
    )
    .variant("res"),
    fetch(
        "res.ssl_hello_type",
        NONE,
        Type::Int,
        N::ResponseBuffer,
        "Type of the TLS hello in the response: 2 for a server's.",
        hello_type,
    )
    .variant("res"),
];

fn buffer<'a>(txn: &'a Txn, args: &Args) -> &'a [u8] {
    if args.variant == "res" { &txn.response_body } else { &txn.request_body }
}

/// In HTTP mode the head counts, too, in about the size that HAProxy keeps it in: `req.len gt 0` says that there is one.
fn len<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let head = match (args.variant, &txn.response) {
        // In TCP mode a head is only a view of the bytes.
        _ if txn.session.http_major == 0 || txn.request.uri.is_empty() => 0,
        ("res", None) => 0,
        ("res", Some(response)) => HEAD_BYTES + response.reason.len() + fields_len(&response.fields),
        _ => {
            let request = &txn.request;
            HEAD_BYTES + request.method_name.len() + request.uri.len() + fields_len(&request.fields)
        }
    };
    Some(Value::Int((head + buffer(txn, args).len()) as i64))
}

/// What a kept head takes beside its names, values and the start line's own words.
const HEAD_BYTES: usize = 29;

fn fields_len(fields: &Fields) -> usize {
    fields.list().iter().map(|field| field.name.len() + field.value.len()).sum()
}

fn payload<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let bytes = buffer(txn, args);
    let offset = usize::try_from(args.int(0)?).ok()?;
    let bytes = bytes.get(offset..)?;
    let bytes = match usize::try_from(args.int(1)?).ok()? {
        0 if bytes.is_empty() && txn.inspecting => return None,
        0 => bytes,
        len => bytes.get(..len)?,
    };
    Some(Value::Bin(bytes.into()))
}

fn payload_lv<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let bytes = buffer(txn, args);
    let offset = usize::try_from(args.int(0)?).ok()?;
    let size = usize::try_from(args.int(1)?).ok()?;
    let len =
        bytes.get(offset..offset.checked_add(size)?)?.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
    // The data starts behind the length, at an absolute offset, or relative to there with a sign.
    let start = match args.str(2) {
        None => offset + size,
        Some(text @ [b'+' | b'-', ..]) => (offset + size).checked_add_signed(leading_int(text) as isize)?,
        Some(text) => usize::try_from(leading_int(text)).ok()?,
    };
    bytes.get(start..start.checked_add(len)?).map(|b| Value::Bin(b.into()))
}

/// The value of `Cookie: NAME=VALUE` in an RDP connection request (TPKT and X.224 headers in front).
fn find_rdp_cookie<'a>(txn: &'a Txn, args: &Args) -> Option<&'a [u8]> {
    let bytes = &txn.request_body;
    // TPKT version 3, X.224 length, connection request (0xe0), 6 bytes of references and class.
    if bytes.first() != Some(&3) || bytes.get(5)? & 0xf0 != 0xe0 {
        return None;
    }
    let rest = bytes.get(11..)?;
    let line_end = memchr::memmem::find(rest, b"\r\n")?;
    let line = &rest[..line_end];
    let prefix = line.get(..7)?.eq_ignore_ascii_case(b"cookie:");
    let pair = prefix.then(|| line[7..].trim_ascii_start())?;
    let eq = memchr::memchr(b'=', pair)?;
    let name_matches = args.str(0).is_none_or(|name| pair[..eq].eq_ignore_ascii_case(name));
    name_matches.then(|| &pair[eq + 1..])
}

fn rdp_cookie<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    find_rdp_cookie(txn, args).map(Value::text)
}

fn rdp_cookie_cnt<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let found = find_rdp_cookie(txn, args).is_some();
    (found || !txn.inspecting).then_some(Value::Int(i64::from(found)))
}

fn hello_type<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    client_hello::handshake_type(buffer(txn, args)).map(|t| Value::Int(i64::from(t)))
}

fn hello_sni<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    client_hello::parse(&txn.request_body)?.sni.map(Value::text)
}

fn hello_alpn<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    client_hello::parse(&txn.request_body)?.alpn().map(Value::owned)
}

fn hello_ec<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    client_hello::parse(&txn.request_body).map(|h| Value::Bool(h.groups.is_some()))
}

fn hello_ticket<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let ticket = client_hello::parse(&txn.request_body)?.ticket;
    Some(Value::Int(ticket.map_or(0, |t| if t.is_empty() { 1 } else { 2 })))
}

fn hello_part<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let hello = client_hello::parse(&txn.request_body)?;
    let bytes = match args.variant {
        "req.ssl_cipherlist" => Some(hello.ciphers),
        "req.ssl_sigalgs" => hello.signature_algorithms,
        "req.ssl_supported_groups" => hello.groups,
        _ => return hello.key_share_groups().map(|g| Value::Bin(g.into())),
    };
    bytes.map(|b| Value::Bin(b.into()))
}

fn hello_version<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let [major, minor] = client_hello::parse(&txn.request_body)?.version;
    Some(Value::Int(i64::from(major) << 16 | i64::from(minor)))
}
