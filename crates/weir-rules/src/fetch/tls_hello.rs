//! Fetches of what a TLS handshake was made of (section 7.3.4): the hello messages and the secrets.
//!
//! The data plane keeps these only where the configuration asks for them.

use crate::Txn;
use crate::expr::Cursor;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, FetchFn, Needs as N, fetch};
use crate::facts::{HelloPart, TlsFacts};
use crate::value::codec::to_hex;
use crate::value::{Type, Value};

const FILTER: &[K] = &[K::Int];

const fn client(name: &'static str, doc: &'static str, run: FetchFn) -> Fetch {
    fetch(name, NONE, Type::Bin, N::Client, doc, run)
}

const fn server(name: &'static str, doc: &'static str, run: FetchFn) -> Fetch {
    fetch(name, NONE, Type::Bin, N::Server, doc, run)
}

const fn list(name: &'static str, doc: &'static str) -> Fetch {
    fetch(name, args(0, FILTER), Type::Bin, N::Client, doc, part)
}

const fn front_secret(name: &'static str) -> Fetch {
    fetch(
        name,
        NONE,
        Type::Str,
        N::Client,
        "A secret of the client's connection, with tune.ssl.keylog.",
        secret,
    )
}

const fn back_secret(name: &'static str) -> Fetch {
    fetch(
        name,
        NONE,
        Type::Str,
        N::Server,
        "A secret of the server's connection, with tune.ssl.keylog.",
        secret,
    )
}

pub(crate) static FETCHES: &[Fetch] = &[
    server("ssl_bc_client_random", "Our random bytes in the handshake with the server.", part),
    server("ssl_bc_server_random", "The server's random bytes in the handshake.", part),
    server("ssl_bc_session_id", "Session identifier of a TLS 1.2 server.", part),
    server("ssl_bc_session_key", "Master secret of a TLS 1.2 connection to the server.", master_secret),
    client("ssl_fc_client_random", "The client's random bytes in the handshake.", part),
    client("ssl_fc_server_random", "Our random bytes in the handshake with the client.", part),
    client("ssl_fc_session_id", "Session identifier of a TLS 1.2 client.", part),
    client("ssl_fc_session_key", "Master secret of a TLS 1.2 connection of the client.", master_secret),
    list("ssl_fc_cipherlist_bin", "Cipher suites the client offers; with 1, without GREASE."),
    fetch(
        "ssl_fc_cipherlist_hex",
        args(0, FILTER),
        Type::Str,
        N::Client,
        "The same in hexadecimal.",
        ciphers_hex,
    ),
    fetch(
        "ssl_fc_cipherlist_xxh",
        NONE,
        Type::Int,
        N::Client,
        "A hash (XXH64) of all of them.",
        ciphers_hash,
    ),
    list("ssl_fc_extlist_bin", "Types of the extensions in the client's hello; with 1, without GREASE."),
    list("ssl_fc_eclist_bin", "Groups the client supports; with 1, without GREASE."),
    client("ssl_fc_ecformats_bin", "Point formats the client supports.", part),
    list("ssl_fc_sigalgs_bin", "Signature algorithms the client supports; with 1, without GREASE."),
    list("ssl_fc_supported_versions_bin", "TLS versions the client supports; with 1, without GREASE."),
    fetch(
        "ssl_fc_protocol_hello_id",
        NONE,
        Type::Int,
        N::Client,
        "TLS version in the client's hello.",
        hello_version,
    ),
    front_secret("ssl_fc_client_early_traffic_secret"),
    front_secret("ssl_fc_client_handshake_traffic_secret"),
    front_secret("ssl_fc_client_traffic_secret_0"),
    front_secret("ssl_fc_exporter_secret"),
    front_secret("ssl_fc_server_handshake_traffic_secret"),
    front_secret("ssl_fc_server_traffic_secret_0"),
    back_secret("ssl_bc_client_early_traffic_secret"),
    back_secret("ssl_bc_client_handshake_traffic_secret"),
    back_secret("ssl_bc_client_traffic_secret_0"),
    back_secret("ssl_bc_exporter_secret"),
    back_secret("ssl_bc_server_handshake_traffic_secret"),
    back_secret("ssl_bc_server_traffic_secret_0"),
];

/// Where each keyword, without its side, looks.
const PARTS: &[(&str, HelloPart)] = &[
    ("client_random", HelloPart::ClientRandom),
    ("server_random", HelloPart::ServerRandom),
    ("session_id", HelloPart::SessionId),
    ("cipherlist_bin", HelloPart::Ciphers),
    ("cipherlist_hex", HelloPart::Ciphers),
    ("extlist_bin", HelloPart::Extensions),
    ("eclist_bin", HelloPart::Groups),
    ("ecformats_bin", HelloPart::PointFormats),
    ("sigalgs_bin", HelloPart::SignatureAlgorithms),
    ("supported_versions_bin", HelloPart::SupportedVersions),
];

fn facts<'a>(txn: &'a Txn, keyword: &'static str) -> Option<(&'a dyn TlsFacts, &'static str)> {
    let (tls, rest) = match keyword.strip_prefix("ssl_bc_") {
        Some(rest) => (&txn.server_tls, rest),
        None => (&txn.session.tls, keyword.strip_prefix("ssl_fc_")?),
    };
    Some((tls.as_deref()?, rest))
}

fn bytes(txn: &Txn, args: &Args) -> Option<Vec<u8>> {
    let (facts, rest) = facts(txn, args.variant)?;
    let (_, part) = PARTS.iter().find(|(name, _)| *name == rest)?;
    let found = facts.hello(*part)?;
    let found = if args.int(0) == Some(1) { without_grease(&found) } else { found.into_owned() };
    (!found.is_empty()).then_some(found)
}

/// RFC 8701 section 2: both bytes of such a value are the same and end in 10.
fn without_grease(list: &[u8]) -> Vec<u8> {
    let is_grease = |pair: &[u8]| matches!(pair, [a, b] if a == b && a & 0x0F == 0x0A);
    list.chunks(2).filter(|pair| !is_grease(pair)).flatten().copied().collect()
}

fn part<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    bytes(txn, args).map(|found| Value::Bin(found.into()))
}

fn ciphers_hex<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::owned(to_hex(&bytes(txn, args)?)))
}

fn ciphers_hash<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let list = facts(txn, args.variant)?.0.hello(HelloPart::AllCiphers)?;
    Some(Value::Int(xxhash_rust::xxh64::xxh64(&list, 0).cast_signed()))
}

fn hello_version<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let version = facts(txn, args.variant)?.0.hello(HelloPart::Version)?;
    Some(Value::Int(i64::from(u16::from_be_bytes(version.as_ref().try_into().ok()?))))
}

fn secret<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (facts, rest) = facts(txn, args.variant)?;
    // The key log's labels are the keywords in capitals.
    let secret = to_hex(facts.secret(&rest.to_ascii_uppercase())?);
    Some(Value::owned(secret.to_ascii_lowercase()))
}

/// TLS 1.3 has no master secret that stands for a connection.
fn master_secret<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant)?.0.secret("CLIENT_RANDOM").map(|secret| Value::Bin(secret.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grease_is_left_out() {
        let check = |list: &[u8], expected: &[u8]| assert_eq!(without_grease(list), expected, "{list:?}");
        check(&[0x0A, 0x0A, 0x13, 0x01, 0xFA, 0xFA], &[0x13, 0x01]);
        check(&[0x0A, 0x1A, 0x13, 0x13, 0x0B, 0x0B], &[0x0A, 0x1A, 0x13, 0x13, 0x0B, 0x0B]);
        check(&[0x0A, 0x0A, 0x13], &[0x13]);
        check(&[], &[]);
    }
}
