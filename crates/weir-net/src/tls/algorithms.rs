//! Names of cipher suites, groups and versions: OpenSSL's and the standards', and rustls' for the same.
//!
//! Owns the tables and the reading of `ciphers`, `ciphersuites`, `curves` and the version keywords. What is
//! well known but not supported here is skipped with a warning; a list that leaves nothing is an error.

use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{CipherSuite, NamedGroup, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion};

use super::p521;

/// A cipher suite, its names and the classes OpenSSL's cipher strings know it by.
struct Suite {
    suite: SupportedCipherSuite,
    openssl: &'static str,
    iana: &'static str,
    classes: &'static [&'static str],
}

const TLS13: &[&str] = &["ALL", "HIGH", "DEFAULT", "TLSv1.3"];

/// All suites in the order of preference: OpenSSL's, but AES-128 first. It is as safe for a connection's life, and
/// SHA-256 makes a handshake a sixth cheaper than SHA-384.
static SUITES: &[Suite] = &[
    Suite {
        suite: cipher_suite::TLS13_AES_128_GCM_SHA256,
        openssl: "TLS_AES_128_GCM_SHA256",
        iana: "TLS13_AES_128_GCM_SHA256",
        classes: TLS13,
    },
    Suite {
        suite: cipher_suite::TLS13_AES_256_GCM_SHA384,
        openssl: "TLS_AES_256_GCM_SHA384",
        iana: "TLS13_AES_256_GCM_SHA384",
        classes: TLS13,
    },
    Suite {
        suite: cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        openssl: "TLS_CHACHA20_POLY1305_SHA256",
        iana: "TLS13_CHACHA20_POLY1305_SHA256",
        classes: TLS13,
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        classes: &["ECDSA", "aECDSA", "AESGCM", "AES", "AES128", "SHA256", "SUITEB128", "SUITEB128ONLY"],
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        classes: &["aRSA", "AESGCM", "AES", "AES128", "SHA256"],
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        classes: &["ECDSA", "aECDSA", "AESGCM", "AES", "AES256", "SHA384", "SUITEB192"],
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        classes: &["aRSA", "AESGCM", "AES", "AES256", "SHA384"],
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        classes: &["ECDSA", "aECDSA", "CHACHA20", "SHA256"],
    },
    Suite {
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        classes: &["aRSA", "CHACHA20", "SHA256"],
    },
];

/// Classes that every TLS 1.2 suite here is in.
const TLS12_CLASSES: &[&str] = &[
    "ALL",
    "COMPLEMENTOFDEFAULT",
    "DEFAULT",
    "HIGH",
    "ECDHE",
    "EECDH",
    "kECDHE",
    "kEECDH",
    "ECDH",
    "TLSv1.2",
    "FIPS",
];

impl Suite {
    fn is_tls13(&self) -> bool {
        self.suite.tls13().is_some()
    }

    fn is_named(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.openssl) || name.eq_ignore_ascii_case(self.iana)
    }

    /// Whether it is in a class, or in all of several joined by `+`.
    fn is_in(&self, classes: &str) -> bool {
        classes.split('+').all(|class| {
            self.classes.contains(&class) || (!self.is_tls13() && TLS12_CLASSES.contains(&class))
        })
    }
}

/// Groups by name and aliases. Post-quantum ones without a classical half have to be asked for.
static GROUPS: &[(&[&str], &dyn SupportedKxGroup)] = &[
    (&["X25519"], kx_group::X25519),
    (&["P-256", "prime256v1", "secp256r1"], kx_group::SECP256R1),
    (&["P-384", "secp384r1"], kx_group::SECP384R1),
    (&["P-521", "secp521r1"], p521::SECP521R1),
    (&["X25519MLKEM768"], kx_group::X25519MLKEM768),
    (&["SecP256r1MLKEM768"], kx_group::SECP256R1MLKEM768),
    (&["MLKEM768"], kx_group::MLKEM768),
    (&["MLKEM1024"], kx_group::MLKEM1024),
];

/// The groups used when the configuration names none. What is recorded today must not be readable once there are quantum
/// computers: the hybrid group comes first, as in OpenSSL 3.5 and in browsers.
static DEFAULT_GROUPS: &[&dyn SupportedKxGroup] =
    &[kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1, p521::SECP521R1];

/// Signatures of handshakes and their names: the standard's and OpenSSL's.
static SCHEMES: &[(SignatureScheme, &[&str])] = &[
    (SignatureScheme::ED25519, &["ed25519"]),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &["ecdsa_secp256r1_sha256", "ECDSA+SHA256"]),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &["ecdsa_secp384r1_sha384", "ECDSA+SHA384"]),
    (SignatureScheme::ECDSA_NISTP521_SHA512, &["ecdsa_secp521r1_sha512", "ECDSA+SHA512"]),
    (SignatureScheme::RSA_PSS_SHA256, &["rsa_pss_rsae_sha256", "RSA-PSS+SHA256", "PSS+SHA256"]),
    (SignatureScheme::RSA_PSS_SHA384, &["rsa_pss_rsae_sha384", "RSA-PSS+SHA384", "PSS+SHA384"]),
    (SignatureScheme::RSA_PSS_SHA512, &["rsa_pss_rsae_sha512", "RSA-PSS+SHA512", "PSS+SHA512"]),
    (SignatureScheme::RSA_PKCS1_SHA256, &["rsa_pkcs1_sha256", "RSA+SHA256"]),
    (SignatureScheme::RSA_PKCS1_SHA384, &["rsa_pkcs1_sha384", "RSA+SHA384"]),
    (SignatureScheme::RSA_PKCS1_SHA512, &["rsa_pkcs1_sha512", "RSA+SHA512"]),
];

/// Signatures that OpenSSL knows and this does not: weak, or of keys that are not supported.
static UNSUPPORTED_SCHEMES: &[&str] = &[
    "ed448",
    "rsa_pss_pss_sha256",
    "rsa_pss_pss_sha384",
    "rsa_pss_pss_sha512",
    "rsa_pkcs1_sha1",
    "ecdsa_sha1",
    "RSA+SHA1",
    "RSA+SHA224",
    "ECDSA+SHA1",
    "ECDSA+SHA224",
    "DSA+SHA1",
    "DSA+SHA224",
    "DSA+SHA256",
    "DSA+SHA384",
    "DSA+SHA512",
    "ecdsa_brainpoolP256r1tls13_sha256",
    "ecdsa_brainpoolP384r1tls13_sha384",
    "ecdsa_brainpoolP512r1tls13_sha512",
    "mldsa44",
    "mldsa65",
    "mldsa87",
];

/// OpenSSL's name of a suite.
pub(crate) fn suite_name(suite: CipherSuite) -> &'static str {
    SUITES.iter().find(|known| known.suite.suite() == suite).map_or("UNKNOWN", |known| known.openssl)
}

/// A group's name as OpenSSL reports it.
pub(crate) fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519 => "X25519",
        NamedGroup::secp256r1 => "secp256r1",
        NamedGroup::secp384r1 => "secp384r1",
        NamedGroup::secp521r1 => "secp521r1",
        NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
        NamedGroup::secp256r1MLKEM768 => "SecP256r1MLKEM768",
        NamedGroup::MLKEM768 => "MLKEM768",
        NamedGroup::MLKEM1024 => "MLKEM1024",
        _ => "UNKNOWN",
    }
}

/// What the configuration says about algorithms, as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Algorithms {
    /// Cipher suites of TLS 1.2 (`ciphers`).
    pub ciphers: Option<String>,
    /// Cipher suites of TLS 1.3 (`ciphersuites`).
    pub ciphersuites: Option<String>,
    /// Groups for the key exchange (`curves`, `ecdhe`).
    pub curves: Option<String>,
    /// Signatures of handshakes (`sigalgs`).
    pub sigalgs: Option<String>,
    /// Those of the client's certificate (`client-sigalgs`).
    pub client_sigalgs: Option<String>,
    /// The lowest version (`ssl-min-ver`).
    pub min_version: Version,
    /// The highest version (`ssl-max-ver`).
    pub max_version: Version,
    /// Versions switched off one by one (`no-tlsv12`, `no-tlsv13`).
    pub without: Vec<Version>,
}

/// A protocol version that the configuration can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// Not said.
    #[default]
    Unset,
    /// SSL 3, which is not supported.
    Ssl3,
    /// TLS 1.0, which is not supported.
    Tls10,
    /// TLS 1.1, which is not supported.
    Tls11,
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Version {
    /// Reads `SSLv3` to `TLSv1.3`.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "SSLv3" => Self::Ssl3,
            "TLSv1.0" => Self::Tls10,
            "TLSv1.1" => Self::Tls11,
            "TLSv1.2" => Self::Tls12,
            "TLSv1.3" => Self::Tls13,
            _ => return None,
        })
    }
}

impl Algorithms {
    /// The versions that are left, and what was asked for in vain.
    pub(crate) fn versions(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        if matches!(self.min_version, Version::Ssl3 | Version::Tls10 | Version::Tls11) {
            warnings.push("versions below TLSv1.2 are not supported: TLSv1.2 is the lowest".to_owned());
        }
        let mut versions = Vec::new();
        if self.allows(Version::Tls13) {
            versions.push(&rustls::version::TLS13);
        }
        if self.allows(Version::Tls12) {
            versions.push(&rustls::version::TLS12);
        }
        if versions.is_empty() {
            return Err("no TLS version is left: only TLSv1.2 and TLSv1.3 are supported".to_owned());
        }
        Ok(versions)
    }

    fn allows(&self, version: Version) -> bool {
        version >= self.min_version
            && (self.max_version == Version::Unset || version <= self.max_version)
            && !self.without.contains(&version)
    }

    /// The algorithms to use, and what was asked for in vain.
    pub(crate) fn provider(&self, warnings: &mut Vec<String>) -> Result<CryptoProvider, String> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut suites = match &self.ciphersuites {
            Some(list) => select("ciphersuites", list, true, warnings)?,
            None => SUITES.iter().filter(|suite| suite.is_tls13()).map(|suite| suite.suite).collect(),
        };
        suites.extend(match &self.ciphers {
            Some(list) => select("ciphers", list, false, warnings)?,
            None => SUITES.iter().filter(|suite| !suite.is_tls13()).map(|suite| suite.suite).collect(),
        });
        // Those of other versions would be offered all the same, and a server would choose its key by them.
        suites.retain(|suite| {
            self.allows(if suite.tls13().is_some() { Version::Tls13 } else { Version::Tls12 })
        });
        provider.cipher_suites = suites;
        provider.kx_groups = match &self.curves {
            Some(list) => select_groups(list, warnings)?,
            None => DEFAULT_GROUPS.to_vec(),
        };
        Ok(provider)
    }
}

impl Algorithms {
    /// The signatures to make or accept, the preferred first; none for all (`sigalgs`).
    pub(crate) fn schemes(&self, warnings: &mut Vec<String>) -> Result<Option<Vec<SignatureScheme>>, String> {
        self.sigalgs.as_deref().map(|list| select_schemes("sigalgs", list, warnings)).transpose()
    }

    /// The same for the client's certificate (`client-sigalgs`).
    pub(crate) fn client_schemes(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Vec<SignatureScheme>>, String> {
        let list = self.client_sigalgs.as_deref();
        list.map(|list| select_schemes("client-sigalgs", list, warnings)).transpose()
    }
}

/// Reads a list of signature algorithms: schemes of TLS 1.3, or key and digest joined by `+`.
fn select_schemes(
    keyword: &str,
    list: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<SignatureScheme>, String> {
    let mut selected = Vec::new();
    let mut unsupported = Vec::new();
    // OpenSSL 3.3 also has '?' before algorithms that need not be known.
    let names = list.split(':').filter(|name| !name.is_empty());
    for (name, optional) in names.map(|name| (name.trim_start_matches('?'), name.starts_with('?'))) {
        let is_named = |known: &str| known.eq_ignore_ascii_case(name);
        match SCHEMES.iter().find(|(_, names)| names.iter().any(|known| is_named(known))) {
            Some((scheme, _)) if selected.contains(scheme) => {}
            Some((scheme, _)) => selected.push(*scheme),
            None if optional || UNSUPPORTED_SCHEMES.iter().any(|known| is_named(known)) => {
                unsupported.push(name);
            }
            None => {
                return Err(format!(
                    "'{keyword} {list}': '{name}' is no signature algorithm; supported are {}",
                    supported_schemes()
                ));
            }
        }
    }
    if selected.is_empty() {
        return Err(format!(
            "'{keyword} {list}' leaves no supported signature algorithm; supported are {}",
            supported_schemes()
        ));
    }
    if !unsupported.is_empty() {
        warnings.push(format!("'{keyword}': not supported and skipped: {}", unsupported.join(":")));
    }
    Ok(selected)
}

fn supported_schemes() -> String {
    SCHEMES.iter().filter_map(|(_, names)| names.first().copied()).collect::<Vec<_>>().join(":")
}

/// Reads an OpenSSL cipher string (`man 1 ciphers`).
fn select(
    keyword: &str,
    list: &str,
    tls13: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut selected: Vec<&Suite> = Vec::new();
    let mut banned: Vec<&str> = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    let candidates = || SUITES.iter().filter(|suite| suite.is_tls13() == tls13);
    for token in list.split([':', ',', ' ']).filter(|token| !token.is_empty()) {
        let matches = |name: &str, suite: &Suite| suite.is_named(name) || suite.is_in(name);
        match token.as_bytes().first() {
            // Security levels and sorting have nothing to choose from here.
            Some(b'@') => {}
            Some(b'!') => banned.push(&token[1..]),
            Some(b'-') => selected.retain(|suite| !matches(&token[1..], suite)),
            Some(b'+') => {
                let (moved, kept) = selected.iter().partition(|suite| matches(&token[1..], suite));
                selected = kept;
                selected.extend::<Vec<&Suite>>(moved);
            }
            _ => {
                let found: Vec<_> = candidates().filter(|suite| matches(token, suite)).collect();
                let known_elsewhere = SUITES.iter().any(|suite| suite.is_named(token));
                if found.is_empty() && !known_elsewhere {
                    unknown.push(token);
                }
                for suite in found {
                    if !selected.iter().any(|known| known.openssl == suite.openssl) {
                        selected.push(suite);
                    }
                }
            }
        }
    }
    selected.retain(|suite| !banned.iter().any(|name| suite.is_named(name) || suite.is_in(name)));
    let supported = || candidates().map(|suite| suite.openssl).collect::<Vec<_>>().join(":");
    if selected.is_empty() {
        return Err(format!("'{keyword} {list}' leaves no supported cipher; supported are {}", supported()));
    }
    if !unknown.is_empty() {
        warnings.push(format!("'{keyword}': not supported and skipped: {}", unknown.join(":")));
    }
    Ok(selected.into_iter().map(|suite| suite.suite).collect())
}

fn select_groups(
    list: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, String> {
    let mut selected: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    let mut unknown = Vec::new();
    // OpenSSL 3.5 also has '/' between groups of equal rank, '*' for key shares to send and '?' for optional ones.
    for token in list.split([':', ',', '/']).map(|token| token.trim_start_matches(['*', '?'])) {
        match GROUPS.iter().find(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(token))) {
            Some((_, group)) if selected.iter().any(|known| known.name() == group.name()) => {}
            Some((_, group)) => selected.push(*group),
            None if token.is_empty() => {}
            None => unknown.push(token),
        }
    }
    if selected.is_empty() {
        let supported: Vec<_> = GROUPS.iter().filter_map(|(names, _)| names.first().copied()).collect();
        return Err(format!(
            "'curves {list}' leaves no supported group; supported are {}",
            supported.join(":")
        ));
    }
    if !unknown.is_empty() {
        warnings.push(format!("'curves': not supported and skipped: {}", unknown.join(":")));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suites: &[SupportedCipherSuite]) -> Vec<&'static str> {
        suites.iter().map(|suite| suite_name(suite.suite())).collect()
    }

    #[test]
    fn cipher_strings() {
        let check = |list: &str, expected: &str, warned: usize| {
            let mut warnings = Vec::new();
            let suites = select("ciphers", list, false, &mut warnings).unwrap();
            assert_eq!(names(&suites).join(":"), expected, "{list}");
            assert_eq!(warnings.len(), warned, "{list}: {warnings:?}");
        };
        check("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", 0);
        check(
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-SHA:AES128-SHA",
            "ECDHE-RSA-AES128-GCM-SHA256",
            1,
        );
        check("AES128+AESGCM:!aRSA", "ECDHE-ECDSA-AES128-GCM-SHA256", 0);
        check(
            "EECDH+CHACHA20:!aNULL:!MD5:@STRENGTH",
            "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305",
            0,
        );
        check("HIGH:!AES:-ECDSA", "ECDHE-RSA-CHACHA20-POLY1305", 0);
        check("AES256:+ECDSA", "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384", 0);
        check("TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", 0);
        let error = select("ciphers", "AES128-SHA:DES-CBC3-SHA", false, &mut Vec::new()).unwrap_err();
        assert!(error.contains("supported are ECDHE-ECDSA-AES128-GCM-SHA256:"), "{error}");
        let suites = select("ciphersuites", "TLS_AES_128_GCM_SHA256", true, &mut Vec::new()).unwrap();
        assert_eq!(names(&suites), ["TLS_AES_128_GCM_SHA256"]);
    }

    #[test]
    fn signature_schemes() {
        let check = |list: &str, expected: Result<&[SignatureScheme], &str>, warned: usize| {
            let mut warnings = Vec::new();
            let schemes = select_schemes("sigalgs", list, &mut warnings);
            match expected {
                Ok(expected) => assert_eq!(schemes.as_deref(), Ok(expected), "{list}"),
                Err(part) => assert!(schemes.clone().unwrap_err().contains(part), "{schemes:?}"),
            }
            assert_eq!(warnings.len(), warned, "{list}: {warnings:?}");
        };
        use SignatureScheme as S;
        check("ECDSA+SHA256:ed25519", Ok(&[S::ECDSA_NISTP256_SHA256, S::ED25519]), 0);
        check("rsa_pss_rsae_sha256:RSA-PSS+SHA256", Ok(&[S::RSA_PSS_SHA256]), 0);
        check("RSA+SHA1:RSA+SHA256", Ok(&[S::RSA_PKCS1_SHA256]), 1);
        check("?new:RSA+SHA256", Ok(&[S::RSA_PKCS1_SHA256]), 1);
        check("RSA+SHA1", Err("leaves no supported signature algorithm"), 0);
        check("RSA+SHA256:RSA+MD17", Err("'RSA+MD17' is no signature algorithm"), 0);
        check("", Err("leaves no"), 0);
    }

    #[test]
    fn groups() {
        let check = |list: &str, expected: &[NamedGroup], warned: usize| {
            let mut warnings = Vec::new();
            let groups = select_groups(list, &mut warnings).unwrap();
            assert_eq!(groups.iter().map(|group| group.name()).collect::<Vec<_>>(), expected, "{list}");
            assert_eq!(warnings.len(), warned, "{list}");
        };
        check("X25519:P-256", &[NamedGroup::X25519, NamedGroup::secp256r1], 0);
        check("prime256v1:secp521r1", &[NamedGroup::secp256r1, NamedGroup::secp521r1], 0);
        check("prime256v1:X448", &[NamedGroup::secp256r1], 1);
        check("*X25519MLKEM768/?x25519:X25519", &[NamedGroup::X25519MLKEM768, NamedGroup::X25519], 0);
        assert!(select_groups("P-111", &mut Vec::new()).unwrap_err().contains("X25519:P-256:P-384"));
        let defaults: Vec<_> = DEFAULT_GROUPS.iter().map(|group| group_name(group.name())).collect();
        assert_eq!(defaults, ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1", "secp521r1"]);
    }

    #[test]
    fn versions() {
        let check = |min: &str, max: &str, without: &[Version], expected: Result<usize, ()>| {
            let algorithms = Algorithms {
                min_version: Version::parse(min).unwrap_or_default(),
                max_version: Version::parse(max).unwrap_or_default(),
                without: without.to_vec(),
                ..Algorithms::default()
            };
            let versions = algorithms.versions(&mut Vec::new());
            assert_eq!(versions.map(|versions| versions.len()).map_err(|_| ()), expected, "{min} to {max}");
        };
        check("", "", &[], Ok(2));
        check("TLSv1.3", "", &[], Ok(1));
        check("SSLv3", "TLSv1.2", &[], Ok(1));
        check("", "TLSv1.1", &[], Err(()));
        check("", "", &[Version::Tls12], Ok(1));
        check("", "", &[Version::Tls12, Version::Tls13], Err(()));
    }
}
