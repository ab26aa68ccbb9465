//! Fetches of the TLS layer (section 7.3.4).

use std::rc::Rc;

use crate::Txn;
use crate::data::certificate;
use crate::expr::Cursor;
use crate::expr::args::{ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::facts::{TlsFacts, TlsFailure};
use crate::value::{Type, Value};

const DN: &[K] = &[K::Str, K::Int, K::OneOf(&["rfc2253"])];

pub(crate) static FETCHES: &[Fetch] = &[
    fetch("ssl_bc", NONE, Type::Bool, N::Server, "Whether the server's connection is TLS.", present),
    fetch(
        "ssl_bc_alg_keysize",
        NONE,
        Type::Int,
        N::Server,
        "Key size of the server connection's cipher in bits.",
        keysize,
    ),
    fetch("ssl_bc_alpn", NONE, Type::Str, N::Server, "Protocol negotiated with the server.", alpn),
    fetch("ssl_bc_cipher", NONE, Type::Str, N::Server, "Cipher of the server's connection.", cipher),
    fetch(
        "ssl_bc_curve",
        NONE,
        Type::Str,
        N::Server,
        "Key exchange group of the server's connection.",
        curve,
    ),
    fetch(
        "ssl_bc_err",
        NONE,
        Type::Int,
        N::Server,
        "Error of the handshake with the server, as OpenSSL packs it; 0 without.",
        failure,
    ),
    fetch(
        "ssl_bc_err_str",
        NONE,
        Type::Str,
        N::Server,
        "The same in words, as OpenSSL has them.",
        failure_text,
    ),
    fetch(
        "ssl_bc_is_resumed",
        NONE,
        Type::Bool,
        N::Server,
        "Whether the server's TLS session was resumed.",
        resumed,
    ),
    fetch("ssl_bc_protocol", NONE, Type::Str, N::Server, "TLS version of the server's connection.", protocol),
    fetch("ssl_bc_sni", NONE, Type::Str, N::Server, "Server name sent to the server.", sni),
    fetch(
        "ssl_bc_use_keysize",
        NONE,
        Type::Int,
        N::Server,
        "Key size in use with the server in bits.",
        keysize,
    ),
    fetch(
        "ssl_c_chain_der",
        NONE,
        Type::Bin,
        N::Client,
        "The certificates the client presented behind its own.",
        chain_der,
    ),
    fetch("ssl_c_der", NONE, Type::Bin, N::Client, "The client's certificate.", der),
    fetch(
        "ssl_c_err",
        NONE,
        Type::Int,
        N::Client,
        "Verification error of the client's certificate, 0 without.",
        objection,
    ),
    fetch(
        "ssl_c_ca_err",
        NONE,
        Type::Int,
        N::Client,
        "First verification error of the certificates above the client's, 0 without.",
        objection,
    ),
    fetch(
        "ssl_c_ca_err_depth",
        NONE,
        Type::Int,
        N::Client,
        "Where the certificate of ssl_c_ca_err stands: 1 is the issuer of the client's.",
        objection,
    ),
    fetch(
        "ssl_c_i_dn",
        args(0, DN),
        Type::Str,
        N::Client,
        "Issuer of the client's certificate, or one entry of it.",
        dn,
    ),
    fetch(
        "ssl_c_key_alg",
        NONE,
        Type::Str,
        N::Client,
        "Key algorithm of the client's certificate.",
        certificate_text,
    ),
    fetch(
        "ssl_c_notafter",
        NONE,
        Type::Str,
        N::Client,
        "End date of the client's certificate, YYMMDDhhmmssZ.",
        certificate_text,
    ),
    fetch(
        "ssl_c_notbefore",
        NONE,
        Type::Str,
        N::Client,
        "Start date of the client's certificate, YYMMDDhhmmssZ.",
        certificate_text,
    ),
    fetch(
        "ssl_c_r_dn",
        args(0, DN),
        Type::Str,
        N::Client,
        "Authority the client's certificate leads to, or one entry of its name.",
        root_dn,
    ),
    fetch(
        "ssl_c_s_dn",
        args(0, DN),
        Type::Str,
        N::Client,
        "Subject of the client's certificate, or one entry of it.",
        dn,
    ),
    fetch(
        "ssl_c_san",
        NONE,
        Type::Str,
        N::Client,
        "Alternative names of the client's certificate.",
        certificate_text,
    ),
    fetch("ssl_c_serial", NONE, Type::Bin, N::Client, "Serial number of the client's certificate.", serial),
    fetch("ssl_c_sha1", NONE, Type::Bin, N::Client, "SHA-1 of the client's certificate.", sha1),
    fetch(
        "ssl_c_sig_alg",
        NONE,
        Type::Str,
        N::Client,
        "Signature algorithm of the client's certificate.",
        certificate_text,
    ),
    fetch(
        "ssl_c_used",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the client has a certificate.",
        has_certificate,
    ),
    fetch(
        "ssl_c_verify",
        NONE,
        Type::Int,
        N::Client,
        "Verification result of the client's certificate, 0 when good.",
        verify,
    ),
    fetch("ssl_c_version", NONE, Type::Int, N::Client, "Version of the client's certificate.", version),
    fetch("ssl_f_der", NONE, Type::Bin, N::Client, "The certificate we present.", der),
    fetch(
        "ssl_f_i_dn",
        args(0, DN),
        Type::Str,
        N::Client,
        "Issuer of the certificate we present, or one entry of it.",
        dn,
    ),
    fetch(
        "ssl_f_key_alg",
        NONE,
        Type::Str,
        N::Client,
        "Key algorithm of the certificate we present.",
        certificate_text,
    ),
    fetch(
        "ssl_f_notafter",
        NONE,
        Type::Str,
        N::Client,
        "End date of the certificate we present.",
        certificate_text,
    ),
    fetch(
        "ssl_f_notbefore",
        NONE,
        Type::Str,
        N::Client,
        "Start date of the certificate we present.",
        certificate_text,
    ),
    fetch(
        "ssl_f_s_dn",
        args(0, DN),
        Type::Str,
        N::Client,
        "Subject of the certificate we present, or one entry of it.",
        dn,
    ),
    fetch("ssl_f_serial", NONE, Type::Bin, N::Client, "Serial number of the certificate we present.", serial),
    fetch("ssl_f_sha1", NONE, Type::Bin, N::Client, "SHA-1 of the certificate we present.", sha1),
    fetch(
        "ssl_f_sig_alg",
        NONE,
        Type::Str,
        N::Client,
        "Signature algorithm of the certificate we present.",
        certificate_text,
    ),
    fetch("ssl_f_version", NONE, Type::Int, N::Client, "Version of the certificate we present.", version),
    fetch("ssl_fc", NONE, Type::Bool, N::Client, "Whether the client's connection is TLS.", present)
        .examples(&[("ssl_fc", Some("0"))]),
    fetch(
        "ssl_fc_alg_keysize",
        NONE,
        Type::Int,
        N::Client,
        "Key size of the client connection's cipher in bits.",
        keysize,
    ),
    fetch("ssl_fc_alpn", NONE, Type::Str, N::Client, "Protocol negotiated with the client.", alpn),
    fetch("ssl_fc_cipher", NONE, Type::Str, N::Client, "Cipher of the client's connection.", cipher),
    fetch(
        "ssl_fc_crtname",
        NONE,
        Type::Str,
        N::Client,
        "Name of the certificate we present, as in show ssl cert.",
        certificate_name,
    ),
    fetch(
        "ssl_fc_curve",
        NONE,
        Type::Str,
        N::Client,
        "Key exchange group of the client's connection.",
        curve,
    ),
    fetch(
        "ssl_fc_early_rcvd",
        NONE,
        Type::Bool,
        N::Client,
        "Whether early data came over this connection.",
        received_early,
    ),
    fetch(
        "ssl_fc_err",
        NONE,
        Type::Int,
        N::Client,
        "Error of the client's handshake, as OpenSSL packs it; 0 without.",
        failure,
    ),
    fetch(
        "ssl_fc_err_str",
        NONE,
        Type::Str,
        N::Client,
        "The same in words, as OpenSSL has them.",
        failure_text,
    ),
    fetch(
        "ssl_fc_has_crt",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the client sent a certificate on this connection.",
        has_certificate,
    ),
    fetch(
        "ssl_fc_has_early",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the request came in early data and the handshake is not complete yet.",
        has_early,
    ),
    fetch("ssl_fc_has_sni", NONE, Type::Bool, N::Client, "Whether the client sent a server name.", has_sni),
    fetch(
        "ssl_fc_is_resumed",
        NONE,
        Type::Bool,
        N::Client,
        "Whether the client's TLS session was resumed.",
        resumed,
    ),
    fetch("ssl_fc_protocol", NONE, Type::Str, N::Client, "TLS version of the client's connection.", protocol),
    fetch("ssl_fc_sni", NONE, Type::Str, N::Client, "Server name the client asked for.", sni),
    fetch(
        "ssl_fc_use_keysize",
        NONE,
        Type::Int,
        N::Client,
        "Key size in use with the client in bits.",
        keysize,
    ),
    fetch(
        "ssl_s_chain_der",
        NONE,
        Type::Bin,
        N::Server,
        "The certificates the server presented, its own first.",
        chain_der,
    ),
    fetch("ssl_s_der", NONE, Type::Bin, N::Server, "The server's certificate.", der),
    fetch(
        "ssl_s_i_dn",
        args(0, DN),
        Type::Str,
        N::Server,
        "Issuer of the server's certificate, or one entry of it.",
        dn,
    ),
    fetch(
        "ssl_s_key_alg",
        NONE,
        Type::Str,
        N::Server,
        "Key algorithm of the server's certificate.",
        certificate_text,
    ),
    fetch(
        "ssl_s_notafter",
        NONE,
        Type::Str,
        N::Server,
        "End date of the server's certificate.",
        certificate_text,
    ),
    fetch(
        "ssl_s_notbefore",
        NONE,
        Type::Str,
        N::Server,
        "Start date of the server's certificate.",
        certificate_text,
    ),
    fetch(
        "ssl_s_s_dn",
        args(0, DN),
        Type::Str,
        N::Server,
        "Subject of the server's certificate, or one entry of it.",
        dn,
    ),
    fetch("ssl_s_serial", NONE, Type::Bin, N::Server, "Serial number of the server's certificate.", serial),
    fetch("ssl_s_sha1", NONE, Type::Bin, N::Server, "SHA-1 of the server's certificate.", sha1),
    fetch(
        "ssl_s_sig_alg",
        NONE,
        Type::Str,
        N::Server,
        "Signature algorithm of the server's certificate.",
        certificate_text,
    ),
    fetch("ssl_s_version", NONE, Type::Int, N::Server, "Version of the server's certificate.", version),
];

/// The connection a keyword is about.
fn facts<'a>(txn: &'a Txn, keyword: &str) -> Option<&'a Rc<dyn TlsFacts>> {
    let server = keyword.starts_with("ssl_bc") || keyword.starts_with("ssl_s_");
    if server { txn.server_tls.as_ref() } else { txn.session.tls.as_ref() }
}

/// The certificate a keyword is about.
fn certificate<'a>(txn: &'a Txn, keyword: &str) -> Option<&'a [u8]> {
    let facts = facts(txn, keyword)?;
    if keyword.starts_with("ssl_f_") { facts.own_certificate() } else { facts.peer_certificate() }
}

fn objection<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let found = facts(txn, args.variant)?.objections();
    Some(Value::Int(i64::from(match args.variant {
        "ssl_c_ca_err" => found.authorities,
        "ssl_c_ca_err_depth" => found.depth,
        _ => found.certificate,
    })))
}

fn present<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some()))
}

fn keysize<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let cipher = facts(txn, args.variant)?.cipher();
    // All suites of TLS 1.2 and 1.3 name their key size, but for ChaCha20, which has 256 bits.
    Some(Value::Int(if cipher.contains("128") { 128 } else { 256 }))
}

fn alpn<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant)?.alpn().map(Value::text)
}

fn cipher<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant).map(|f| Value::text(f.cipher().as_bytes()))
}

fn curve<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant)?.group().map(|g| Value::text(g.as_bytes()))
}

fn certificate_name<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant)?.own_certificate_name().map(|name| Value::text(name.as_bytes()))
}

fn resumed<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some_and(|f| f.resumed())))
}

fn protocol<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let version = facts(txn, args.variant)?.version();
    (!version.is_empty()).then(|| Value::text(version.as_bytes()))
}

fn sni<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    facts(txn, args.variant)?.sni().map(|s| Value::text(s.as_bytes()))
}

fn has_sni<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some_and(|f| f.sni().is_some())))
}

fn has_early<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some_and(|f| f.has_early())))
}

fn received_early<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some_and(|f| f.received_early())))
}

fn failure<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let failure = facts(txn, args.variant)?.failure();
    Some(Value::Int(failure.map_or(0, |failure| i64::from(failure.number))))
}

fn failure_text<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let TlsFailure { number, reason } = facts(txn, args.variant)?.failure()?;
    Some(Value::owned(format!("error:{number:08X}:SSL routines::{reason}").into_bytes()))
}

fn has_certificate<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(facts(txn, args.variant).is_some_and(|f| f.peer_certificate().is_some())))
}

fn verify<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let facts = facts(txn, args.variant)?;
    // Of a handshake that ended before its end there is no result.
    let complete = facts.failure().is_none() && !facts.version().is_empty();
    complete.then(|| Value::Int(i64::from(facts.verify_error())))
}

fn der<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    certificate(txn, args.variant).map(|der| Value::Bin(der.into()))
}

fn sha1<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let der = certificate(txn, args.variant)?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    Some(Value::Bin(digest.as_ref().to_vec().into()))
}

fn serial<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    certificate::serial(certificate(txn, args.variant)?).map(|s| Value::Bin(s.into()))
}

fn version<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    certificate::version(certificate(txn, args.variant)?).map(Value::Int)
}

fn certificate_text<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (_, what) = args.variant.split_at(6);
    certificate::text(certificate(txn, args.variant)?, what).map(|t| Value::owned(t.into_bytes()))
}

/// As OpenSSL has it, the chain holds the peer's own certificate on the connecting side only.
fn chain_der<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let facts = facts(txn, args.variant)?;
    let own = facts.peer_certificate().filter(|_| args.variant.starts_with("ssl_s_"));
    let chain: Vec<&[u8]> =
        own.into_iter().chain(facts.peer_intermediates().iter().map(|der| &**der)).collect();
    (!chain.is_empty()).then(|| Value::Bin(chain.concat().into()))
}

/// The last certificate of the chain names who signed it: the authority, where the chain was verified.
fn root_dn<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let facts =
        facts(txn, args.variant).filter(|facts| facts.verify_error() == 0 && facts.failure().is_none())?;
    let der = certificate::last_of_chain(facts.peer_certificate()?, facts.peer_intermediates());
    certificate::name(der, true, args.str(0), args.int(1), args.get(2).is_some()).map(Value::owned)
}

fn dn<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let issuer = args.variant.ends_with("i_dn");
    let der = certificate(txn, args.variant)?;
    certificate::name(der, issuer, args.str(0), args.int(1), args.get(2).is_some()).map(Value::owned)
}
