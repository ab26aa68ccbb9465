//! Parts of HTTP values: hosts, parameters, languages.

use crate::Txn;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::facts::Figure;
use crate::value::{Type, Value, codec};

use super::string::slice;

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "fe_exists",
        NONE,
        Type::Str,
        Type::Bool,
        "Whether there is a frontend of this name.",
        fe_exists,
    ),
    converter("host_only", NONE, Type::Str, Type::Str, "A Host value without its port.", host_only).examples(
        &[
            ("str(www.example.com:80),host_only", Some("www.example.com")),
            ("str([::1]:80),host_only", Some("[::1]")),
            ("str(a),host_only", Some("a")),
        ],
    ),
    converter(
        "language",
        args(1, &[K::Str, K::Str]),
        Type::Str,
        Type::Str,
        "The preferred one of a list of languages.",
        language,
    )
    .examples(&[
        ("str(fr;q=0.5),language(fr;en)", Some("fr")),
        ("str(\"en-US, fr;q=0.9\"),language(fr;en,de)", Some("en")),
        ("str(x),language(fr;en,de)", Some("de")),
        ("str(x),language(fr)", None),
    ]),
    converter("nbsrv", NONE, Type::Str, Type::Int, "Usable servers of the backend of this name.", nbsrv),
    converter(
        "param",
        args(1, &[K::Str, K::Str]),
        Type::Str,
        Type::Str,
        "A parameter by name, between & or another delimiter.",
        param,
    )
    .examples(&[
        ("str(a=b&c=d&a=r),param(a)", Some("b")),
        ("str(a&b=c),param(a)", Some("")),
        ("str(a=&b&c=a),param(b)", Some("")),
        ("str(a=1;b=2;c=4),param(b,;)", Some("2")),
        ("str(a=1),param(z)", None),
    ]),
    converter("port_only", NONE, Type::Str, Type::Int, "The port of a Host value, 0 without.", port_only)
        .examples(&[
            ("str(www.example.com:80),port_only", Some("80")),
            ("str([::1]:81),port_only", Some("81")),
            ("str(a),port_only", Some("0")),
        ]),
    converter(
        "srv_is_up",
        NONE,
        Type::Str,
        Type::Bool,
        "Whether the server [backend/]name is up.",
        server_figure,
    ),
    converter(
        "srv_queue",
        NONE,
        Type::Str,
        Type::Int,
        "Queued requests of the server [backend/]name.",
        server_figure,
    ),
];

fn fe_exists<'a>(value: Value<'a>, _: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let name = value.into_bytes();
    let known = std::str::from_utf8(&name).ok().and_then(|n| txn.env.proxy_figure(n, Figure::Connections));
    Some(Value::Bool(known.is_some()))
}

fn nbsrv<'a>(value: Value<'a>, _: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let name = value.into_bytes();
    txn.env.proxy_figure(std::str::from_utf8(&name).ok()?, Figure::UsableServers).map(Value::Int)
}

fn server_figure<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let bytes = value.into_bytes();
    let name = std::str::from_utf8(&bytes).ok()?;
    let own = txn.backend.as_ref().map_or(&*args.proxy, |b| &*b.name);
    let (backend, server) = name.split_once('/').unwrap_or((own, name));
    match args.variant {
        "srv_queue" => txn.env.server_figure(backend, server, Figure::Queued).map(Value::Int),
        _ => txn.env.server_figure(backend, server, Figure::IsUp).map(|n| Value::Bool(n != 0)),
    }
}

/// Where the host of a Host value ends: before `:port`, behind the bracket of an IPv6 address.
pub(crate) fn host_end(text: &[u8]) -> usize {
    let from = if text.starts_with(b"[") { memchr::memchr(b']', text).unwrap_or(0) } else { 0 };
    memchr::memchr(b':', &text[from..]).map_or(text.len(), |at| from + at)
}

fn host_only<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let text = value.into_bytes();
    let end = host_end(&text);
    Some(Value::Str(slice(text, 0..end)))
}

fn port_only<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let text = value.into_bytes();
    let port = text.get(host_end(&text) + 1..).unwrap_or_default();
    Some(Value::Int(std::str::from_utf8(port).ok().and_then(|p| p.parse().ok()).unwrap_or(0)))
}

fn param<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let name = args.str(0)?;
    let delimiter = match args.str(1) {
        Some([b'0', b'x' | b'X', digits @ ..]) => codec::hex_byte(digits)?,
        Some(text) => *text.first()?,
        None => b'&',
    };
    let text = value.into_bytes();
    let mut start = 0;
    loop {
        let end = memchr::memchr(delimiter, &text[start..]).map_or(text.len(), |at| start + at);
        let part = &text[start..end];
        if let Some(rest) = part.strip_prefix(name) {
            match rest.first() {
                None => return Some(Value::text(b"")),
                Some(b'=') => return Some(Value::Str(slice(text, start + name.len() + 1..end))),
                Some(_) => {}
            }
        }
        if end == text.len() {
            return None;
        }
        start = end + 1;
    }
}

/// The quality of one element of Accept-Language in thousandths.
fn quality(parameters: &[u8]) -> u32 {
    let Some(at) = memchr::memmem::find(parameters, b"q=") else { return 1000 };
    let text = parameters[at + 2..].trim_ascii();
    let text = std::str::from_utf8(&text[..text.len().min(5)]).unwrap_or("0");
    text.trim().parse::<f32>().map_or(0, |q| (q.clamp(0.0, 1.0) * 1000.0) as u32)
}

fn language<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let accepted = value.into_bytes();
    let offered = args.str(0)?;
    let find = |tag: &[u8]| offered.split(|b| *b == b';').find(|o| *o == tag);
    let mut best: Option<(u32, &[u8])> = None;
    for element in accepted.split(|b| *b == b',') {
        let mut parts = element.splitn(2, |b| *b == b';');
        let tag = parts.next().unwrap_or_default().trim_ascii();
        let quality = quality(parts.next().unwrap_or_default());
        let base = tag.split(|b| *b == b'-').next().unwrap_or_default();
        let found = if quality > 0 { find(tag).or_else(|| find(base)) } else { None };
        if let Some(found) = found.filter(|_| best.is_none_or(|(q, _)| quality > q)) {
            best = Some((quality, found));
        }
    }
    best.map(|(_, tag)| tag).or_else(|| args.str(1)).map(Value::text)
}
