//! Facts of one certificate for rules and logs: names, dates, serial number, algorithms, fingerprint.
//!
//! Owns the forms HAProxy's fetches have (`ssl_c_*`, `ssl_f_*`, `ssl_s_*`). Every function takes the
//! certificate in DER; a malformed certificate has no facts.

use std::fmt::Write as _;

use x509_parser::der_parser::oid::Oid;
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// Which of a certificate's two names is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Whom the certificate is for.
    Subject,
    /// Who signed it.
    Issuer,
}

/// How a name is written when all of it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameFormat {
    /// `/C=FR/O=Example/CN=host`, OpenSSL's traditional form.
    #[default]
    OneLine,
    /// `CN=host,O=Example,C=FR` (RFC 2253).
    Rfc2253,
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

fn name_of<'a>(certificate: &'a X509Certificate<'_>, party: Party) -> &'a X509Name<'a> {
    match party {
        Party::Subject => certificate.subject(),
        Party::Issuer => certificate.issuer(),
    }
}

/// The whole distinguished name.
pub fn name(der: &[u8], party: Party, format: NameFormat) -> Option<String> {
    let certificate = parse(der)?;
    let attributes: Vec<_> = name_of(&certificate, party).iter_attributes().collect();
    let mut text = String::new();
    match format {
        NameFormat::OneLine => {
            for attribute in attributes {
                write!(text, "/{}={}", short_name(attribute.attr_type()), value(attribute)).ok()?;
            }
        }
        NameFormat::Rfc2253 => {
            for attribute in attributes.into_iter().rev() {
                let comma = if text.is_empty() { "" } else { "," };
                let value = escape_rfc2253(&value(attribute));
                write!(text, "{comma}{}={value}", short_name(attribute.attr_type())).ok()?;
            }
        }
    }
    Some(text)
}

/// One part of the distinguished name, such as `CN`. Parts of that type count from 1 for the first and from -1
/// for the last.
pub fn name_part(der: &[u8], party: Party, part: &str, occurrence: i32) -> Option<String> {
    let certificate = parse(der)?;
    let found: Vec<_> = name_of(&certificate, party)
        .iter_attributes()
        .filter(|attribute| short_name(attribute.attr_type()).eq_ignore_ascii_case(part))
        .collect();
    let distance = usize::try_from(occurrence.unsigned_abs()).ok()?;
    let index = match occurrence {
        0 => 0,
        1.. => distance - 1,
        _ => found.len().checked_sub(distance)?,
    };
    found.get(index).map(|attribute| value(attribute))
}

fn value(attribute: &AttributeTypeAndValue<'_>) -> String {
    attribute
        .as_str()
        .map_or_else(|_| String::from_utf8_lossy(attribute.attr_value().data).into_owned(), str::to_owned)
}

/// RFC 2253 section 2.4.
fn escape_rfc2253(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, character) in text.chars().enumerate() {
        let special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (character == '#' && at == 0)
            || (character == ' ' && (at == 0 || at == last));
        if special {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// OpenSSL's short name of an attribute, or the dotted number of one it does not know.
fn short_name(oid: &Oid<'_>) -> String {
    let dotted = oid.to_id_string();
    let known = match dotted.as_str() {
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
        "2.5.4.13" => "description",
        "2.5.4.15" => "businessCategory",
        "2.5.4.17" => "postalCode",
        "2.5.4.41" => "name",
        "2.5.4.42" => "GN",
        "2.5.4.43" => "initials",
        "2.5.4.44" => "generationQualifier",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.65" => "pseudonym",
        "2.5.4.97" => "organizationIdentifier",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "1.3.6.1.4.1.311.60.2.1.1" => "jurisdictionL",
        "1.3.6.1.4.1.311.60.2.1.2" => "jurisdictionST",
        "1.3.6.1.4.1.311.60.2.1.3" => "jurisdictionC",
        _ => return dotted,
    };
    known.to_owned()
}

/// The first moment of validity, as `YYMMDDhhmmssZ`.
pub fn not_before(der: &[u8]) -> Option<String> {
    Some(time(&parse(der)?.validity().not_before))
}

/// The last moment of validity, as `YYMMDDhhmmssZ`.
pub fn not_after(der: &[u8]) -> Option<String> {
    Some(time(&parse(der)?.validity().not_after))
}

/// The last moment of validity, in seconds since 1970.
pub fn not_after_s(der: &[u8]) -> Option<i64> {
    Some(parse(der)?.validity().not_after.timestamp())
}

/// RFC 5280 section 4.1.2.5: two digits for the year up to 2049, four from then on.
fn time(time: &ASN1Time) -> String {
    let time = time.to_datetime();
    let year = match time.year() {
        1950..=2049 => format!("{:02}", time.year() % 100),
        year => format!("{year:04}"),
    };
    let (month, day) = (u8::from(time.month()), time.day());
    format!("{year}{month:02}{day:02}{:02}{:02}{:02}Z", time.hour(), time.minute(), time.second())
}

/// The serial number's bytes.
pub fn serial(der: &[u8]) -> Option<Vec<u8>> {
    Some(parse(der)?.raw_serial().to_vec())
}

/// The certificate's version, 1 to 3.
pub fn version(der: &[u8]) -> Option<u32> {
    Some(parse(der)?.version().0 + 1)
}

/// OpenSSL's short name of the key's algorithm.
pub fn key_algorithm(der: &[u8]) -> Option<String> {
    let certificate = parse(der)?;
    let dotted = certificate.public_key().algorithm.algorithm.to_id_string();
    let known = match dotted.as_str() {
        "1.2.840.113549.1.1.1" => "rsaEncryption",
        "1.2.840.113549.1.1.10" => "RSASSA-PSS",
        "1.2.840.10045.2.1" => "id-ecPublicKey",
        "1.2.840.10040.4.1" => "DSA",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        _ => return Some(dotted),
    };
    Some(known.to_owned())
}

/// OpenSSL's short name of the signature's algorithm.
pub fn signature_algorithm(der: &[u8]) -> Option<String> {
    let certificate = parse(der)?;
    let dotted = certificate.signature_algorithm.algorithm.to_id_string();
    let known = match dotted.as_str() {
        "1.2.840.113549.1.1.4" => "RSA-MD5",
        "1.2.840.113549.1.1.5" => "RSA-SHA1",
        "1.2.840.113549.1.1.10" => "RSASSA-PSS",
        "1.2.840.113549.1.1.11" => "RSA-SHA256",
        "1.2.840.113549.1.1.12" => "RSA-SHA384",
        "1.2.840.113549.1.1.13" => "RSA-SHA512",
        "1.2.840.113549.1.1.14" => "RSA-SHA224",
        "1.2.840.10045.4.1" => "ecdsa-with-SHA1",
        "1.2.840.10045.4.3.1" => "ecdsa-with-SHA224",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        _ => return Some(dotted),
    };
    Some(known.to_owned())
}

/// The SHA-1 fingerprint.
pub fn sha1(der: &[u8]) -> [u8; 20] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    digest.as_ref().try_into().unwrap_or_default()
}

/// The SHA-256 fingerprint.
pub fn sha256(der: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    digest.as_ref().try_into().unwrap_or_default()
}

/// The key's size in bits, for display.
pub fn key_bits(der: &[u8]) -> Option<usize> {
    let certificate = parse(der)?;
    match certificate.public_key().parsed().ok()? {
        x509_parser::public_key::PublicKey::RSA(key) => Some(key.key_size()),
        x509_parser::public_key::PublicKey::EC(point) => Some(point.key_size()),
        _ => None,
    }
}

/// The alternative names as `DNS:a.example, IP Address:127.0.0.1`, OpenSSL's form.
pub fn alternative_names(der: &[u8]) -> Option<String> {
    use x509_parser::prelude::GeneralName;
    let certificate = parse(der)?;
    let names = &certificate.subject_alternative_name().ok()??.value.general_names;
    let texts = names.iter().filter_map(|name| {
        Some(match name {
            GeneralName::DNSName(name) => format!("DNS:{name}"),
            GeneralName::RFC822Name(name) => format!("email:{name}"),
            GeneralName::URI(name) => format!("URI:{name}"),
            GeneralName::IPAddress(bytes) => format!("IP Address:{}", address(bytes)?),
            _ => return None,
        })
    });
    Some(texts.collect::<Vec<_>>().join(", "))
}

fn address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SerialNumber, date_time_ymd};

    fn certificate() -> Vec<u8> {
        let mut params =
            CertificateParams::new(vec!["a.example".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let mut name = DistinguishedName::new();
        name.push(DnType::CountryName, "FR");
        name.push(DnType::OrganizationName, "One, Inc");
        name.push(DnType::OrganizationalUnitName, "Unit");
        name.push(DnType::CommonName, "a.example");
        params.distinguished_name = name;
        params.serial_number = Some(SerialNumber::from(0x1234_u64));
        params.not_before = date_time_ymd(2024, 2, 3);
        params.not_after = date_time_ymd(2050, 12, 31);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names() {
        let der = certificate();
        let check = |got: Option<String>, expected: Option<&str>| assert_eq!(got.as_deref(), expected);
        check(name(&der, Party::Subject, NameFormat::OneLine), Some("/C=FR/O=One, Inc/OU=Unit/CN=a.example"));
        check(name(&der, Party::Issuer, NameFormat::Rfc2253), Some("CN=a.example,OU=Unit,O=One\\, Inc,C=FR"));
        check(name_part(&der, Party::Subject, "CN", 1), Some("a.example"));
        check(name_part(&der, Party::Subject, "cn", -1), Some("a.example"));
        check(name_part(&der, Party::Issuer, "O", 0), Some("One, Inc"));
        check(name_part(&der, Party::Subject, "CN", 2), None);
        check(name_part(&der, Party::Subject, "CN", -2), None);
        check(name_part(&der, Party::Subject, "CN", i32::MIN), None);
        check(name_part(&der, Party::Subject, "L", 1), None);
        check(alternative_names(&der), Some("DNS:a.example, IP Address:127.0.0.1"));
    }

    #[test]
    fn everything_else() {
        let der = certificate();
        assert_eq!(not_before(&der).as_deref(), Some("240203000000Z"));
        assert_eq!(not_after(&der).as_deref(), Some("20501231000000Z"));
        assert_eq!(not_after_s(&der), Some(2_556_057_600));
        assert_eq!(serial(&der), Some(vec![0x12, 0x34]));
        assert_eq!(version(&der), Some(3));
        assert_eq!(key_algorithm(&der).as_deref(), Some("id-ecPublicKey"));
        assert_eq!(signature_algorithm(&der).as_deref(), Some("ecdsa-with-SHA256"));
        assert_eq!(key_bits(&der), Some(256));
        assert_ne!(sha1(&der), [0; 20]);
        assert_ne!(sha256(&der), [0; 32]);
    }

    #[test]
    fn malformed_certificates_have_no_facts() {
        let der = certificate();
        for length in [0, 1, der.len() / 2, der.len() - 1] {
            assert_eq!(name(&der[..length], Party::Subject, NameFormat::OneLine), None);
            assert_eq!(serial(&der[..length]), None);
        }
    }
}
