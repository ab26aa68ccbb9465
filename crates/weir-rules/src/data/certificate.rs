//! Facts of a certificate for the `ssl_c_*`, `ssl_f_*` and `ssl_s_*` fetches.
//!
//! Owns the texts OpenSSL gives them; leaves the parsing of X.509 to the `x509-parser` crate.

use x509_parser::prelude::*;

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

/// The subject's common name.
#[must_use]
pub fn common_name(der: &[u8]) -> Option<String> {
    let certificate = parse(der)?;
    let mut names = certificate.subject().iter_common_name();
    names.next()?.as_str().ok().map(str::to_owned)
}

/// Kind and size of the key, as in `RSA2048` or `EC256`.
#[must_use]
pub fn key_kind(der: &[u8]) -> Option<String> {
    use x509_parser::public_key::PublicKey;
    let certificate = parse(der)?;
    let key = certificate.public_key().parsed().ok()?;
    Some(match &key {
        PublicKey::RSA(rsa) => format!("RSA{}", rsa.key_size()),
        PublicKey::EC(point) => format!("EC{}", point.key_size()),
        _ => return None,
    })
}

/// The subject as `/C=DE/CN=x`.
#[must_use]
pub fn subject(der: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(&name(der, false, None, None, false)?).into_owned())
}

/// A time in seconds since 1970 as certificates' times are written.
#[must_use]
pub fn readable_date(timestamp: i64) -> String {
    let text = crate::value::date::format(timestamp, 0, b"%b %e %H:%M:%S %Y GMT", 0);
    String::from_utf8_lossy(&text).into_owned()
}

/// What people want to know of a revocation list, a line for each fact (`show ssl crl-file`).
#[must_use]
pub fn list_description(der: &[u8]) -> Option<String> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    let oid = list.signature_algorithm.algorithm.to_id_string();
    let issuer = whole_name(&entries(list.issuer()), false);
    let mut text = format!(
        "Version {}\nSignature Algorithm: {}\nIssuer: {}\nLast Update: {}\nNext Update: {}\n",
        list.version().map_or(1, |version| version.0 + 1),
        algorithm(&oid).map_or_else(|| oid.clone(), str::to_owned),
        String::from_utf8_lossy(&issuer),
        readable_date(list.last_update().timestamp()),
        list.next_update().map_or_else(|| "NONE".to_owned(), |next| readable_date(next.timestamp())),
    );
    let revoked = list.iter_revoked_certificates().map(|revoked| {
        let serial: String = revoked.raw_serial().iter().map(|byte| format!("{byte:02X}")).collect();
        let date = readable_date(revoked.revocation_date.timestamp());
        format!("    Serial Number: {serial}\n        Revocation Date: {date}\n")
    });
    let revoked: String = revoked.collect();
    text.push_str(if revoked.is_empty() { "No Revoked Certificates.\n" } else { "Revoked Certificates:\n" });
    text.push_str(&revoked);
    Some(text)
}

/// A name in DER as `C = DE, CN = x`.
#[must_use]
pub fn name_in_line(der: &[u8]) -> Option<String> {
    let (_, name) = X509Name::from_der(der).ok()?;
    let parts = entries(&name).into_iter().map(|(kind, value)| format!("{kind} = {value}"));
    Some(parts.collect::<Vec<_>>().join(", "))
}

/// The parts of a name: OpenSSL's short names and the values.
fn entries(name: &X509Name<'_>) -> Vec<(String, String)> {
    name.iter_attributes()
        .map(|attribute| {
            let oid = attribute.attr_type().to_id_string();
            let short = short_name(&oid).map_or(oid, str::to_owned);
            let value = attribute
                .as_str()
                .map_or_else(|_| String::from_utf8_lossy(attribute.as_slice()).into_owned(), str::to_owned);
            (short, value)
        })
        .collect()
}

/// When a certificate begins and ends to be valid, in seconds since 1970.
#[must_use]
pub fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let certificate = parse(der)?;
    let validity = certificate.validity();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// What people want to know of a certificate, a line for each fact (`show ssl cert`).
#[must_use]
pub fn description(der: &[u8]) -> Option<String> {
    let certificate = parse(der)?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let validity = certificate.validity();
    let issuer = String::from_utf8_lossy(&name(der, true, None, None, false)?).into_owned();
    let fingerprint = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    Some(format!(
        "Serial: {}\nnotBefore: {}\nnotAfter: {}\nSubject Alternative Name: {}\nAlgorithm: {}\nSHA1 FingerPrint: {}\n\
         Subject: {}\nIssuer: {issuer}\n",
        hex(&serial(der)?),
        readable_date(validity.not_before.timestamp()),
        readable_date(validity.not_after.timestamp()),
        san(&certificate).unwrap_or_default(),
        key_kind(der).unwrap_or_default(),
        hex(fingerprint.as_ref()),
        subject(der)?,
    ))
}

/// The signature's algorithm.
#[must_use]
pub fn signature_algorithm(der: &[u8]) -> Option<String> {
    text(der, "sig_alg")
}

/// The serial number's bytes.
pub(crate) fn serial(der: &[u8]) -> Option<Vec<u8>> {
    let certificate = parse(der)?;
    let raw = certificate.raw_serial();
    let zeros = raw.iter().take_while(|b| **b == 0).count().min(raw.len().saturating_sub(1));
    Some(raw[zeros..].to_vec())
}

/// The version, from 1.
pub(crate) fn version(der: &[u8]) -> Option<i64> {
    Some(i64::from(parse(der)?.version().0) + 1)
}

/// `key_alg`, `sig_alg`, `notafter`, `notbefore` and `san`.
pub(crate) fn text(der: &[u8], what: &str) -> Option<String> {
    let certificate = parse(der)?;
    match what {
        "key_alg" => {
            let oid = certificate.public_key().algorithm.algorithm.to_id_string();
            Some(algorithm(&oid).map_or(oid, str::to_owned))
        }
        "sig_alg" => {
            let oid = certificate.signature_algorithm.algorithm.to_id_string();
            Some(algorithm(&oid).map_or(oid, str::to_owned))
        }
        "notafter" => Some(date(certificate.validity().not_after.timestamp())),
        "notbefore" => Some(date(certificate.validity().not_before.timestamp())),
        "san" => san(&certificate),
        _ => None,
    }
}

/// Follows the issuers from a certificate through those that came with it.
pub(crate) fn last_of_chain<'a>(der: &'a [u8], others: &'a [Box<[u8]>]) -> &'a [u8] {
    let mut last = der;
    // Each can be the issuer of one before it, so there are no more steps than certificates.
    for _ in others {
        let Some(certificate) = parse(last) else { break };
        let is_issuer = |other: &[u8]| parse(other).is_some_and(|o| o.subject() == certificate.issuer());
        match others.iter().find(|other| &***other != last && is_issuer(other)) {
            Some(issuer) => last = issuer,
            None => break,
        }
    }
    last
}

/// OpenSSL's long names of the usual algorithms.
fn algorithm(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "1.2.840.113549.1.1.1" => "rsaEncryption",
        "1.2.840.10045.2.1" => "id-ecPublicKey",
        "1.3.101.112" => "ED25519",
        "1.2.840.113549.1.1.5" => "RSA-SHA1",
        "1.2.840.113549.1.1.11" => "RSA-SHA256",
        "1.2.840.113549.1.1.12" => "RSA-SHA384",
        "1.2.840.113549.1.1.13" => "RSA-SHA512",
        "1.2.840.113549.1.1.10" => "RSASSA-PSS",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        _ => return None,
    })
}

/// `YYMMDDhhmmssZ`.
fn date(timestamp: i64) -> String {
    let text = crate::value::date::format(timestamp, 0, b"%y%m%d%H%M%SZ", 0);
    String::from_utf8_lossy(&text).into_owned()
}

fn san(certificate: &X509Certificate<'_>) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()??;
    let each = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(n) => Some(format!("DNS:{n}")),
        GeneralName::RFC822Name(n) => Some(format!("email:{n}")),
        GeneralName::URI(n) => Some(format!("URI:{n}")),
        GeneralName::IPAddress(octets) => Some(match octets {
            [a, b, c, d] => format!("IP Address:{a}.{b}.{c}.{d}"),
            other => format!("IP Address:{}", std::net::Ipv6Addr::from(<[u8; 16]>::try_from(*other).ok()?)),
        }),
        _ => None,
    });
    Some(each.collect::<Vec<_>>().join(", "))
}

/// A distinguished name as `/C=DE/CN=x`, as RFC 2253 writes it, or one entry of it.
pub(crate) fn name(
    der: &[u8],
    issuer: bool,
    entry: Option<&[u8]>,
    occurrence: Option<i64>,
    rfc2253: bool,
) -> Option<Vec<u8>> {
    let certificate = parse(der)?;
    let name = if issuer { certificate.issuer() } else { certificate.subject() };
    let entries = entries(name);
    let Some(entry) = entry else { return Some(whole_name(&entries, rfc2253)) };
    let wanted: Vec<_> = entries.iter().filter(|(n, _)| n.as_bytes().eq_ignore_ascii_case(entry)).collect();
    let at = match occurrence.unwrap_or(1) {
        0 => 0,
        n if n > 0 => n as usize - 1,
        n => wanted.len().checked_sub(n.unsigned_abs() as usize)?,
    };
    wanted.get(at).map(|(_, value)| value.clone().into_bytes())
}

fn whole_name(entries: &[(String, String)], rfc2253: bool) -> Vec<u8> {
    let one = |(n, v): &(String, String)| format!("{n}={v}");
    let text = match rfc2253 {
        // RFC 2253 section 2.1: the last entry comes first.
        true => entries.iter().rev().map(one).collect::<Vec<_>>().join(","),
        false => entries.iter().map(|e| format!("/{}", one(e))).collect(),
    };
    text.into_bytes()
}

/// Short names of the attributes in names.
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        _ => return None,
    })
}
