//! TLS words that bind lines, server lines and the defaults of `global` have in common: one reader for all of them, and
//! one entry for both kinds of lines where it means the same there.
//!
//! What differs from line to line (`verify`, `crt`, `alpn`) is read where the line is.

use std::path::{Path, PathBuf};

use weir_rules::Word;

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{Parsed, choice};
use crate::model::{TlsVersion, TlsWords};

/// Versions in their order.
const VERSIONS: &[(&str, TlsVersion)] = &[
    ("SSLv3", TlsVersion::Ssl3),
    ("TLSv1.0", TlsVersion::Tls10),
    ("TLSv1.1", TlsVersion::Tls11),
    ("TLSv1.2", TlsVersion::Tls12),
    ("TLSv1.3", TlsVersion::Tls13),
];

/// Reads one of the words; false when it is another one. `argument` gives the word behind it, and is told what that
/// should be.
pub(crate) fn read<'a>(
    words: &mut TlsWords,
    word: &str,
    ca_base: Option<&PathBuf>,
    argument: &mut dyn FnMut(&str) -> Parsed<&'a Word>,
) -> Parsed<bool> {
    let mut text = |what| argument(what).map(|word| Some(word.as_str().into_owned()));
    match word {
        "ciphers" => words.ciphers = text("cipher names")?,
        "ciphersuites" => words.ciphersuites = text("cipher suite names")?,
        "curves" => words.curves = text("group names")?,
        "ecdhe" => words.curves = text("a group's name")?,
        "sigalgs" => words.sigalgs = text("signature algorithms")?,
        "client-sigalgs" => words.client_sigalgs = text("signature algorithms")?,
        "ca-file" => words.ca_file = Some(in_base(argument("a file name")?, ca_base)),
        "crl-file" => words.crl_file = Some(in_base(argument("a file name")?, ca_base)),
        _ => return read_option(words, word, argument),
    }
    Ok(true)
}

/// The same for those that `ssl-default-bind-options` and `ssl-default-server-options` take: versions and tickets.
pub(crate) fn read_option<'a>(
    words: &mut TlsWords,
    word: &str,
    argument: &mut dyn FnMut(&str) -> Parsed<&'a Word>,
) -> Parsed<bool> {
    match word {
        "ssl-min-ver" => words.min_ver = Some(version(argument("a TLS version")?)?),
        "ssl-max-ver" => words.max_ver = Some(version(argument("a TLS version")?)?),
        "no-tls-tickets" => words.no_tls_tickets = true,
        "tls-tickets" => words.no_tls_tickets = false,
        _ => return Ok(version_option(word, &mut words.min_ver, &mut words.max_ver)),
    }
    Ok(true)
}

/// `ssl-min-ver`'s argument.
fn version(word: &Word) -> Parsed<TlsVersion> {
    choice(word, "TLS version", VERSIONS)
}

/// `force-tlsv12`, `no-tlsv10` and their like as a range of versions; false for other words.
fn version_option(word: &str, min: &mut Option<TlsVersion>, max: &mut Option<TlsVersion>) -> bool {
    let number = |suffix: &str| match suffix {
        "sslv3" => Some(0),
        "tlsv10" => Some(1),
        "tlsv11" => Some(2),
        "tlsv12" => Some(3),
        "tlsv13" => Some(4),
        _ => None,
    };
    if let Some(at) = word.strip_prefix("force-").and_then(number) {
        *min = Some(VERSIONS[at].1);
        *max = Some(VERSIONS[at].1);
        return true;
    }
    let Some(at) = word.strip_prefix("no-").and_then(number) else { return false };
    let lowest = min.map_or(0, |version| version as usize);
    let highest = max.map_or(VERSIONS.len() - 1, |version| version as usize);
    // A hole in the middle cannot be expressed: what is above the hole wins, as in HAProxy.
    if at == highest && at > lowest {
        *max = Some(VERSIONS[at - 1].1);
    } else if at >= lowest && at < highest {
        *min = Some(VERSIONS[at + 1].1);
    }
    true
}

/// A file name, relative ones inside the base folder; `@` names (`@system-ca`, `@store/name`) stay as they are.
pub(crate) fn in_base(word: &Word, base: Option<&PathBuf>) -> PathBuf {
    let text = word.as_str();
    let path = Path::new(text.as_ref());
    match base {
        Some(base) if !path.is_absolute() && !text.starts_with('@') => base.join(path),
        _ => path.to_path_buf(),
    }
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::BIND.or(Places::SERVER), arguments, doc, how)
}

/// Words of bind and server lines.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry("ciphers", "<ciphers>", "Cipher suites up to TLS 1.2", How::Tls)
        .example("ssl verify none ciphers ECDHE-RSA-AES128-GCM-SHA256"),
    entry("ciphersuites", "<suites>", "Cipher suites of TLS 1.3", How::Tls)
        .example("ssl verify none ciphersuites TLS_AES_128_GCM_SHA256"),
    entry("curves", "<curves>", "Key exchange groups", How::Tls)
        .example("ssl verify none curves X25519:P-256"),
    entry("ecdhe", "<curve>", "One key exchange group", How::Tls).example("ssl verify none ecdhe P-256"),
    entry("force-sslv3", "", "SSLv3 only", How::Removed("SSLv3 is not supported by the TLS library")),
    entry("force-tlsv10", "", "TLS 1.0 only", How::Tls).example("ssl verify none force-tlsv10"),
    entry("force-tlsv11", "", "TLS 1.1 only", How::Tls).example("ssl verify none force-tlsv11"),
    entry("force-tlsv12", "", "TLS 1.2 only", How::Tls).example("ssl verify none force-tlsv12"),
    entry("force-tlsv13", "", "TLS 1.3 only", How::Tls).example("ssl verify none force-tlsv13"),
    entry(
        "ktls",
        "<on|off>",
        "TLS in the kernel",
        How::NoEffect("TLS records are always made in the process"),
    ),
    entry("no-sslv3", "", "No SSLv3", How::NoEffect("SSLv3 is never spoken")),
    entry("no-tls-tickets", "", "No session tickets", How::Tls).example("ssl verify none no-tls-tickets"),
    entry("no-tlsv10", "", "No TLS 1.0", How::Tls).example("ssl verify none no-tlsv10"),
    entry("no-tlsv11", "", "No TLS 1.1", How::Tls).example("ssl verify none no-tlsv11"),
    entry("no-tlsv12", "", "No TLS 1.2", How::Tls).example("ssl verify none no-tlsv12"),
    entry("no-tlsv13", "", "No TLS 1.3", How::Tls).example("ssl verify none no-tlsv13"),
    entry(
        "npn",
        "<protocols>",
        "Protocols offered by the predecessor of ALPN",
        How::NoEffect("clients speak its successor, alpn"),
    ),
    entry("quic-cc-algo", "<algo>", "Congestion control of QUIC", How::NotYet),
    entry("sigalgs", "<sigalgs>", "Signature algorithms accepted", How::Tls)
        .example("ssl verify none sigalgs ECDSA+SHA256"),
    entry("ssl-max-ver", "<version>", "Highest TLS version", How::Tls)
        .example("ssl verify none ssl-max-ver TLSv1.2"),
    entry("ssl-min-ver", "<version>", "Lowest TLS version", How::Tls)
        .example("ssl verify none ssl-min-ver TLSv1.3"),
    entry("tls-tickets", "", "Undoes no-tls-tickets", How::Tls).example("ssl verify none tls-tickets"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::Pos;

    #[test]
    fn words_of_all_lines() {
        let words = |texts: &[&str]| -> Vec<Word> {
            texts.iter().map(|text| Word { text: text.as_bytes().to_vec(), pos: Pos::default() }).collect()
        };
        let read = |word: &str, value: &str| {
            let mut found = TlsWords::default();
            let values = words(&[value]);
            let base = PathBuf::from("/ca");
            let known = super::read(&mut found, word, Some(&base), &mut |_| Ok(&values[0]));
            (known.unwrap(), format!("{found:?}"))
        };
        let check = |word: &str, value: &str, expected: TlsWords| {
            assert_eq!(read(word, value), (true, format!("{expected:?}")), "{word}");
        };
        let (text, none) = (|text: &str| Some(text.to_owned()), TlsWords::default);
        check("ciphers", "A", TlsWords { ciphers: text("A"), ..none() });
        check("ciphersuites", "A", TlsWords { ciphersuites: text("A"), ..none() });
        check("curves", "P-256", TlsWords { curves: text("P-256"), ..none() });
        check("ecdhe", "P-384", TlsWords { curves: text("P-384"), ..none() });
        check("sigalgs", "A", TlsWords { sigalgs: text("A"), ..none() });
        check("client-sigalgs", "A", TlsWords { client_sigalgs: text("A"), ..none() });
        check("ca-file", "a", TlsWords { ca_file: Some("/ca/a".into()), ..none() });
        check("crl-file", "@x", TlsWords { crl_file: Some("@x".into()), ..none() });
        check("ssl-min-ver", "TLSv1.2", TlsWords { min_ver: Some(TlsVersion::Tls12), ..none() });
        check("ssl-max-ver", "TLSv1.3", TlsWords { max_ver: Some(TlsVersion::Tls13), ..none() });
        check("no-tls-tickets", "", TlsWords { no_tls_tickets: true, ..none() });
        check(
            "force-tlsv13",
            "",
            TlsWords { min_ver: Some(TlsVersion::Tls13), max_ver: Some(TlsVersion::Tls13), ..none() },
        );
        assert!(!read("verify", "none").0);
        let missing = super::read(&mut none(), "ciphers", None, &mut |what| {
            crate::language::args::fail(Pos::default(), what)
        });
        assert_eq!(missing.unwrap_err()[0].message, "cipher names");
    }

    #[test]
    fn version_words() {
        use TlsVersion::{Tls10, Tls12};
        let check = |words: &[&str], expected: (Option<TlsVersion>, Option<TlsVersion>)| {
            let (mut min, mut max) = (None, None);
            for word in words {
                assert!(version_option(word, &mut min, &mut max), "{word}");
            }
            assert_eq!((min, max), expected, "{words:?}");
        };
        check(&["no-sslv3"], (Some(Tls10), None));
        check(&["no-sslv3", "no-tlsv10", "no-tlsv11"], (Some(Tls12), None));
        check(&["no-tlsv13"], (None, Some(Tls12)));
        check(&["force-tlsv12"], (Some(Tls12), Some(Tls12)));
        assert!(!version_option("no-tls-tickets", &mut None, &mut None));
    }
}
