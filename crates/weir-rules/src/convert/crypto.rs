//! Digests, message authentication, ciphers.

use aws_lc_rs::{constant_time, digest, hmac};
use md5::{Digest, Md5};

use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::value::codec::decode_base64;
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "digest",
        args(1, &[K::Str]),
        Type::Bin,
        Type::Bin,
        "Message digest by name: md5, sha1, sha256, sha3-256, ...",
        digest_value,
    )
    .prepare(prepare_digest)
    .examples(&[
        ("str(abc),digest(md5),hex", Some("900150983CD24FB0D6963F7D28E17F72")),
        (
            "str(abc),digest(sha256),hex",
            Some("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
        ),
    ]),
    converter(
        "hmac",
        args(2, &[K::Str, K::StrOrVar]),
        Type::Bin,
        Type::Bin,
        "Message authentication code by digest and base64 key.",
        hmac_value,
    )
    .prepare(prepare_hmac)
    .examples(&[(
        "str(abc),hmac(sha256,a2V5),hex",
        Some("9C196E32DC0175F86F4B1CB89289D6619DE6BEE699E4C378E68309ED97A1A6AB"),
    )]),
    converter(
        "secure_memcmp",
        args(1, &[K::Var]),
        Type::Bin,
        Type::Bool,
        "Compares with a variable in constant time.",
        secure_memcmp,
    )
    .examples(&[
        ("str(hello),secure_memcmp(txn.greeting)", Some("1")),
        ("str(x),secure_memcmp(txn.greeting)", Some("0")),
    ]),
    converter("sha1", NONE, Type::Bin, Type::Bin, "SHA-1 digest.", sha)
        .examples(&[("str(abc),sha1,hex", Some("A9993E364706816ABA3E25717850C26C9CD0D89D"))]),
    converter(
        "sha2",
        args(0, &[K::Int]),
        Type::Bin,
        Type::Bin,
        "SHA-2 digest of 224, 256, 384 or 512 bits.",
        sha,
    )
    .prepare(prepare_sha2)
    .examples(&[(
        "str(abc),sha2,hex",
        Some("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
    )]),
];

/// Digests by OpenSSL's names; the place in the list is the argument.
const DIGESTS: [&str; 10] =
    ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256", "sha3-256", "sha3-384", "sha3-512"];

fn algorithm(at: u8) -> Option<&'static digest::Algorithm> {
    Some(match at {
        1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        2 => &digest::SHA224,
        3 => &digest::SHA256,
        4 => &digest::SHA384,
        5 => &digest::SHA512,
        6 => &digest::SHA512_256,
        7 => &digest::SHA3_256,
        8 => &digest::SHA3_384,
        9 => &digest::SHA3_512,
        _ => return None,
    })
}

fn find_digest(call: &Call) -> Result<u8, Vec<Diagnostic>> {
    let Some(word) = call.args().first() else {
        return Err(vec![Diagnostic::error(
            call.name.pos,
            format!("'{}' needs a digest's name", call.name.as_str()),
        )]);
    };
    let name = word.text.to_ascii_lowercase();
    let at = DIGESTS.iter().position(|d| d.as_bytes() == name);
    at.map(|at| at as u8).ok_or_else(|| vec![Diagnostic::unknown("digest", word, DIGESTS)])
}

fn prepare_digest(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    Ok(vec![Arg::Choice(find_digest(call)?)])
}

fn digest_bytes(at: u8, bytes: &[u8]) -> Vec<u8> {
    match algorithm(at) {
        Some(algorithm) => digest::digest(algorithm, bytes).as_ref().to_vec(),
        None => Md5::digest(bytes).to_vec(),
    }
}

fn digest_value<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Choice(at)) = args.get(0) else { return None };
    Some(Value::Bin(digest_bytes(*at, &value.into_binary()).into()))
}

fn prepare_hmac(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let at = find_digest(call)?;
    let [_, key] = call.args() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'hmac' needs a digest's name and a key")]);
    };
    Ok(vec![Arg::Choice(at), secret(key)?])
}

/// A base64 secret, decoded once, or the variable that holds one.
pub(crate) fn secret(word: &crate::Word) -> Result<Arg, Vec<Diagnostic>> {
    if let Ok(name) = crate::facts::vars::VarName::parse(word) {
        return Ok(Arg::Var(name));
    }
    let key = decode_base64(&word.text);
    let key =
        key.ok_or_else(|| vec![Diagnostic::error(word.pos, format!("'{}' is no base64", word.as_str()))])?;
    Ok(Arg::Str(key.into()))
}

/// The secret of argument `at`.
fn secret_bytes(args: &Args, at: usize, txn: &Txn) -> Option<Vec<u8>> {
    match args.get(at)? {
        Arg::Str(key) => Some(key.to_vec()),
        Arg::Var(name) => decode_base64(&name.get(txn)?.into_bytes()),
        _ => None,
    }
}

fn hmac_value<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Choice(at)) = args.get(0) else { return None };
    let key = secret_bytes(args, 1, txn)?;
    let message = value.into_binary();
    let algorithm = match at {
        1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        2 => hmac::HMAC_SHA224,
        3 => hmac::HMAC_SHA256,
        4 => hmac::HMAC_SHA384,
        5 => hmac::HMAC_SHA512,
        other => return Some(Value::Bin(plain_hmac(*other, &key, &message).into())),
    };
    let tag = hmac::sign(&hmac::Key::new(algorithm, &key), &message);
    Some(Value::Bin(tag.as_ref().to_vec().into()))
}

/// RFC 2104 over digests that the cryptographic library has no HMAC of.
fn plain_hmac(at: u8, key: &[u8], message: &[u8]) -> Vec<u8> {
    let block = algorithm(at).map_or(64, digest::Algorithm::block_len);
    let mut key = if key.len() > block { digest_bytes(at, key) } else { key.to_vec() };
    key.resize(block, 0);
    let padded = |pad: u8| key.iter().map(|b| b ^ pad).collect::<Vec<_>>();
    let inner = digest_bytes(at, &[&padded(0x36), message].concat());
    digest_bytes(at, &[padded(0x5c), inner].concat())
}

fn secure_memcmp<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let other = args.var(0)?.get(txn)?.into_bytes();
    let equal = constant_time::verify_slices_are_equal(&value.into_binary(), &other).is_ok();
    Some(Value::Bool(equal))
}

fn prepare_sha2(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let at = match call.args().first().map(|w| w.text.as_slice()) {
        None | Some(b"" | b"256") => 3,
        Some(b"224") => 2,
        Some(b"384") => 4,
        Some(b"512") => 5,
        Some(_) => {
            let message = "'sha2' takes 224, 256, 384 or 512 bits";
            return Err(vec![Diagnostic::error(call.args()[0].pos, message)]);
        }
    };
    Ok(vec![Arg::Choice(at)])
}

fn sha<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let at = if let Some(Arg::Choice(at)) = args.get(0) { *at } else { 1 };
    Some(Value::Bin(digest_bytes(at, &value.into_binary()).into()))
}
