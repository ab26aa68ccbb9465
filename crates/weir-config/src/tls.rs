//! TLS words that bind lines, server lines and `global` have in common.

use std::path::{Path, PathBuf};

use weir_rules::Word;

use crate::args::{Parsed, choice};

/// Versions in their order.
const VERSIONS: &[&str] = &["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// `ssl-min-ver`'s argument.
pub(crate) fn version(word: &Word) -> Parsed<String> {
    let known: Vec<(&str, &str)> = VERSIONS.iter().map(|name| (*name, *name)).collect();
    Ok(choice(word, "TLS version", &known)?.to_owned())
}

/// `force-tlsv12`, `no-tlsv10` and their like as a range of versions; false for other words.
pub(crate) fn version_option(word: &str, min: &mut Option<String>, max: &mut Option<String>) -> bool {
    let number = |suffix: &str| match suffix {
        "sslv3" => Some(0),
        "tlsv10" => Some(1),
        "tlsv11" => Some(2),
        "tlsv12" => Some(3),
        "tlsv13" => Some(4),
        _ => None,
    };
    if let Some(at) = word.strip_prefix("force-").and_then(number) {
        *min = Some(VERSIONS[at].to_owned());
        *max = Some(VERSIONS[at].to_owned());
        return true;
    }
    let Some(at) = word.strip_prefix("no-").and_then(number) else { return false };
    let index = |version: &Option<String>| VERSIONS.iter().position(|v| Some(*v) == version.as_deref());
    let lowest = index(min).unwrap_or(0);
    let highest = index(max).unwrap_or(VERSIONS.len() - 1);
    // A hole in the middle cannot be expressed: what is above the hole wins, as in HAProxy.
    if at == highest && at > lowest {
        *max = Some(VERSIONS[at - 1].to_owned());
    } else if at >= lowest && at < highest {
        *min = Some(VERSIONS[at + 1].to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_words() {
        let check = |words: &[&str], expected: (Option<&str>, Option<&str>)| {
            let (mut min, mut max) = (None, None);
            for word in words {
                assert!(version_option(word, &mut min, &mut max), "{word}");
            }
            assert_eq!((min.as_deref(), max.as_deref()), expected, "{words:?}");
        };
        check(&["no-sslv3"], (Some("TLSv1.0"), None));
        check(&["no-sslv3", "no-tlsv10", "no-tlsv11"], (Some("TLSv1.2"), None));
        check(&["no-tlsv13"], (None, Some("TLSv1.2")));
        check(&["force-tlsv12"], (Some("TLSv1.2"), Some("TLSv1.2")));
        assert!(!version_option("no-tls-tickets", &mut None, &mut None));
    }
}
