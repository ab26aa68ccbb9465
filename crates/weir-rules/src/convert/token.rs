//! Ciphers and signed tokens: AES, JSON Web Tokens, names of verification errors.

use aws_lc_rs::aead;
use aws_lc_rs::cipher::{
    self, AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{hmac, signature};

use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Converter, converter};
use crate::facts::vars::VarName;
use crate::value::codec::{decode_base64, decode_base64url, encode_base64};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn, Word};

use super::crypto::secret;

const CBC: &[K] = &[K::Int, K::StrOrVar, K::StrOrVar, K::StrOrVar];
const GCM: &[K] = &[K::Int, K::StrOrVar, K::StrOrVar, K::StrOrVar, K::StrOrVar];

pub(crate) static CONVERTERS: &[Converter] = &[
    converter("aes_cbc_dec", args(3, CBC), Type::Bin, Type::Bin, "Decrypts AES-CBC: bits, nonce, key (base64).", aes_cbc).prepare(prepare_aes),
    converter("aes_cbc_enc", args(3, CBC), Type::Bin, Type::Bin, "Encrypts with AES-CBC: bits, nonce, key (base64).", aes_cbc).prepare(prepare_aes)
        .examples(&[("str(secret),aes_cbc_enc(128,MTIzNDU2Nzg5MDEyMzQ1Ng==,Zm9vb2Zvb29mb29wZm9vbw==),aes_cbc_dec(128,MTIzNDU2Nzg5MDEyMzQ1Ng==,Zm9vb2Zvb29mb29wZm9vbw==)", Some("secret"))]),
    converter("aes_gcm_dec", args(4, GCM), Type::Bin, Type::Bin, "Decrypts AES-GCM: bits, nonce, key, tag (base64).", aes_gcm_dec).prepare(prepare_aes),
    converter("aes_gcm_enc", args(4, GCM), Type::Bin, Type::Bin, "Encrypts with AES-GCM: bits, nonce, key (base64), variable for the tag.", aes_gcm_enc).prepare(prepare_aes)
        .examples(&[("str(secret),aes_gcm_enc(128,MTIzNDU2Nzg5MDEy,Zm9vb2Zvb29mb29wZm9vbw==,txn.tag),aes_gcm_dec(128,MTIzNDU2Nzg5MDEy,Zm9vb2Zvb29mb29wZm9vbw==,txn.tag)", Some("secret"))]),
    converter("jwt_verify", args(2, &[K::StrOrVar, K::StrOrVar]), Type::Str, Type::Int, "Verifies a JSON Web Token by algorithm and secret or public key: 1 good, 0 wrong, negative for errors.", jwt_verify).prepare(prepare_jwt)
        .examples(&[("str(eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ.3cfkx5KLw_uNTs2XNIxPGSGZ2sCqHaQYq1Nk5mV5J0o),jwt_verify(HS999,x)", Some("-1"))]),
    converter("x509_v_err_str", NONE, Type::Int, Type::Str, "Name of a certificate verification error.", verify_error_name)
        .examples(&[("int(10),x509_v_err_str", Some("X509_V_ERR_CERT_HAS_EXPIRED")), ("int(999),x509_v_err_str", Some("999"))]),
];

/// Arguments: bits, then secrets (base64 or variables).
fn prepare_aes(call: &Call, _: &mut Scope<'_>, keyword: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let least = if keyword.starts_with("aes_gcm") { 4 } else { 3 };
    let [bits, rest @ ..] = call.args() else {
        return Err(vec![Diagnostic::error(call.name.pos, format!("'{keyword}' needs {least} arguments"))]);
    };
    if rest.len() + 1 < least {
        return Err(vec![Diagnostic::error(call.name.pos, format!("'{keyword}' needs {least} arguments"))]);
    }
    let size = match bits.text.as_slice() {
        b"128" => 128,
        b"256" => 256,
        b"192" => {
            return Err(vec![
                Diagnostic::error(bits.pos, "AES with 192 bits is not implemented yet")
                    .hint("use 128 or 256"),
            ]);
        }
        _ => {
            return Err(vec![Diagnostic::error(
                bits.pos,
                format!("'{}' is no key size of AES", bits.as_str()),
            )]);
        }
    };
    let mut list = vec![Arg::Int(size)];
    for (at, word) in rest.iter().enumerate() {
        // The tag goes to a variable when encrypting.
        let arg = if keyword == "aes_gcm_enc" && at == 2 {
            VarName::parse(word).map(Arg::Var).map_err(|e| vec![e])?
        } else {
            secret(word)?
        };
        list.push(arg);
    }
    if keyword.starts_with("aes_cbc") && list.len() > 4 - 1 {
        return Err(vec![Diagnostic::error(
            rest[2].pos,
            "additional data with AES-CBC is not implemented yet",
        )]);
    }
    Ok(list)
}

/// The bytes of argument `at`: a secret decoded when it was parsed, or a variable's base64.
fn bytes(args: &Args, at: usize, txn: &Txn) -> Option<Vec<u8>> {
    match args.get(at)? {
        Arg::Str(b) => Some(b.to_vec()),
        Arg::Var(name) => decode_base64(&name.get(txn)?.into_bytes()),
        _ => None,
    }
}

fn aes_cbc<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let algorithm: &'static cipher::Algorithm = if args.int(0)? == 128 { &AES_128 } else { &AES_256 };
    let (nonce, key) = (bytes(args, 1, txn)?, bytes(args, 2, txn)?);
    let nonce = FixedLength::<16>::try_from(nonce.as_slice()).ok()?;
    let key = UnboundCipherKey::new(algorithm, &key).ok()?;
    let mut data = value.into_binary().into_owned();
    if args.variant == "aes_cbc_enc" {
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?;
        key.less_safe_encrypt(&mut data, EncryptionContext::Iv128(nonce)).ok()?;
    } else {
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        data = key.decrypt(&mut data, DecryptionContext::Iv128(nonce)).ok()?.to_vec();
    }
    Some(Value::Bin(data.into()))
}

fn gcm(args: &Args, txn: &Txn) -> Option<(aead::LessSafeKey, aead::Nonce)> {
    let algorithm = if args.int(0)? == 128 { &aead::AES_128_GCM } else { &aead::AES_256_GCM };
    let nonce = aead::Nonce::try_assume_unique_for_key(&bytes(args, 1, txn)?).ok()?;
    let key = aead::UnboundKey::new(algorithm, &bytes(args, 2, txn)?).ok()?;
    Some((aead::LessSafeKey::new(key), nonce))
}

fn aes_gcm_enc<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let (key, nonce) = gcm(args, txn)?;
    let aad = bytes(args, 4, txn).unwrap_or_default();
    let mut data = value.into_binary().into_owned();
    let tag = key.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), &mut data).ok()?;
    let tag = Value::owned(encode_base64(tag.as_ref()).into_bytes());
    txn.effects.set_var(args.var(3)?, Some(tag));
    Some(Value::Bin(data.into()))
}

fn aes_gcm_dec<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let (key, nonce) = gcm(args, txn)?;
    let aad = bytes(args, 4, txn).unwrap_or_default();
    let mut data = value.into_binary().into_owned();
    data.extend_from_slice(&bytes(args, 3, txn)?);
    let plain = key.open_in_place(nonce, aead::Aad::from(aad), &mut data).ok()?;
    Some(Value::Bin(plain.to_vec().into()))
}

/// Arguments: algorithm, key, and the public key's DER when the key names a file.
fn prepare_jwt(call: &Call, scope: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let [algorithm, key] = call.args() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'jwt_verify' needs an algorithm and a key")]);
    };
    let word = |w: &Word| VarName::parse(w).map_or_else(|_| Arg::Str(w.text.as_slice().into()), Arg::Var);
    let mut list = vec![word(algorithm), word(key)];
    let is_secret = algorithm.text.starts_with(b"HS") || algorithm.text == b"none";
    // A key in a variable, or for an algorithm in one, may be a secret as well as a file.
    if !is_secret && matches!(list[1], Arg::Str(_)) {
        match (scope.read(key), &list[0]) {
            (Ok(pem), _) => list.push(Arg::Str(public_key(&pem, key)?.into())),
            (Err(_), Arg::Var(_)) => {}
            (Err(e), _) => return Err(e),
        }
    }
    Ok(list)
}

/// The DER of the first key in PEM text.
fn public_key(pem: &[u8], word: &Word) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let wrong =
        || vec![Diagnostic::error(word.pos, format!("'{}' holds no public key in PEM form", word.as_str()))];
    let text = std::str::from_utf8(pem).map_err(|_| wrong())?;
    let begin = text.find("-----BEGIN ").ok_or_else(wrong)?;
    let mut lines = text[begin..].lines();
    let label = lines.next().unwrap_or_default();
    if !label.contains("PUBLIC KEY") {
        return Err(wrong());
    }
    let body: String = lines.take_while(|l| !l.starts_with("-----END")).map(str::trim).collect();
    decode_base64(body.as_bytes()).ok_or_else(wrong)
}

fn jwt_verify<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    Some(Value::Int(verify_token(&value.into_bytes(), args, txn)))
}

/// Results of `jwt_verify` in the manual's numbers.
fn verify_token(token: &[u8], args: &Args, txn: &Txn) -> i64 {
    const UNKNOWN_ALGORITHM: i64 = -1;
    const INVALID_TOKEN: i64 = -3;
    const UNKNOWN_KEY: i64 = -5;
    let text = |at: usize| match args.get(at) {
        Some(Arg::Str(s)) => Some(s.to_vec()),
        Some(Arg::Var(name)) => name.get(txn).map(|v| v.into_bytes().into_owned()),
        _ => None,
    };
    let algorithm = text(0).unwrap_or_default();
    let Some(kind) = TokenKey::of(&algorithm) else { return UNKNOWN_ALGORITHM };
    // RFC 7515 section 3.1: three parts, the first two are signed.
    let Some(dot) = memchr::memrchr(b'.', token) else { return INVALID_TOKEN };
    let (signed, tail) = (&token[..dot], &token[dot + 1..]);
    if signed.iter().filter(|b| **b == b'.').count() != 1 {
        return INVALID_TOKEN;
    }
    let Some(mac) = decode_base64url(tail) else { return INVALID_TOKEN };
    let good = match kind {
        TokenKey::None => mac.is_empty(),
        TokenKey::Secret(algorithm) => {
            let Some(key) = text(1) else { return UNKNOWN_KEY };
            hmac::verify(&hmac::Key::new(algorithm, &key), signed, &mac).is_ok()
        }
        TokenKey::Public(algorithm) => {
            let Some(key) = args.str(2) else { return UNKNOWN_KEY };
            signature::UnparsedPublicKey::new(algorithm, key).verify(signed, &mac).is_ok()
        }
    };
    i64::from(good)
}

/// How an algorithm of RFC 7518 section 3.1 verifies.
enum TokenKey {
    None,
    Secret(hmac::Algorithm),
    Public(&'static dyn signature::VerificationAlgorithm),
}

impl TokenKey {
    fn of(algorithm: &[u8]) -> Option<Self> {
        Some(match algorithm {
            b"none" => Self::None,
            b"HS256" => Self::Secret(hmac::HMAC_SHA256),
            b"HS384" => Self::Secret(hmac::HMAC_SHA384),
            b"HS512" => Self::Secret(hmac::HMAC_SHA512),
            b"RS256" => Self::Public(&signature::RSA_PKCS1_2048_8192_SHA256),
            b"RS384" => Self::Public(&signature::RSA_PKCS1_2048_8192_SHA384),
            b"RS512" => Self::Public(&signature::RSA_PKCS1_2048_8192_SHA512),
            b"PS256" => Self::Public(&signature::RSA_PSS_2048_8192_SHA256),
            b"PS384" => Self::Public(&signature::RSA_PSS_2048_8192_SHA384),
            b"PS512" => Self::Public(&signature::RSA_PSS_2048_8192_SHA512),
            b"ES256" => Self::Public(&signature::ECDSA_P256_SHA256_FIXED),
            b"ES384" => Self::Public(&signature::ECDSA_P384_SHA384_FIXED),
            b"ES512" => Self::Public(&signature::ECDSA_P521_SHA512_FIXED),
            _ => return None,
        })
    }
}

/// OpenSSL's names of the errors that clients' certificates usually meet.
const VERIFY_ERRORS: [(i64, &str); 24] = [
    (0, "X509_V_OK"),
    (1, "X509_V_ERR_UNSPECIFIED"),
    (2, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT"),
    (3, "X509_V_ERR_UNABLE_TO_GET_CRL"),
    (4, "X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE"),
    (7, "X509_V_ERR_CERT_SIGNATURE_FAILURE"),
    (8, "X509_V_ERR_CRL_SIGNATURE_FAILURE"),
    (9, "X509_V_ERR_CERT_NOT_YET_VALID"),
    (10, "X509_V_ERR_CERT_HAS_EXPIRED"),
    (11, "X509_V_ERR_CRL_NOT_YET_VALID"),
    (12, "X509_V_ERR_CRL_HAS_EXPIRED"),
    (18, "X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT"),
    (19, "X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN"),
    (20, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY"),
    (21, "X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE"),
    (22, "X509_V_ERR_CERT_CHAIN_TOO_LONG"),
    (23, "X509_V_ERR_CERT_REVOKED"),
    (24, "X509_V_ERR_INVALID_CA"),
    (25, "X509_V_ERR_PATH_LENGTH_EXCEEDED"),
    (26, "X509_V_ERR_INVALID_PURPOSE"),
    (27, "X509_V_ERR_CERT_UNTRUSTED"),
    (28, "X509_V_ERR_CERT_REJECTED"),
    (50, "X509_V_ERR_APPLICATION_VERIFICATION"),
    (62, "X509_V_ERR_HOSTNAME_MISMATCH"),
];

/// The number of an error of verification by OpenSSL's name of it.
#[must_use]
pub fn verify_error_number(name: &str) -> Option<u32> {
    let found = VERIFY_ERRORS.iter().find(|(_, known)| *known == name)?;
    u32::try_from(found.0).ok()
}

fn verify_error_name<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let n = value.to_int()?;
    let name =
        VERIFY_ERRORS.iter().find(|(code, _)| *code == n).map(|(_, name)| Value::text(name.as_bytes()));
    Some(name.unwrap_or_else(|| Value::owned(n.to_string().into_bytes())))
}
