//! `normalize-uri`: rewrites of the URI that keep its meaning (RFC 3986 section 6).

use super::phases::REQUEST;
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::action::answer::end_with;
use crate::value::codec::hex_byte;
use crate::value::codec::{is_unreserved, push_hex};
use crate::{Diagnostic, Scope, Txn, reply};

pub(super) static ACTIONS: &[ActionEntry] = &[action(
    "normalize-uri",
    REQUEST,
    "normalize-uri { fragment-encode | fragment-strip | path-merge-slashes | path-strip-dot | path-strip-dotdot [full] | \
     percent-decode-unreserved [strict] | percent-to-uppercase [strict] | query-sort-by-name }",
    "Normalizes the URI.",
    parse,
)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Normalizer {
    FragmentEncode,
    FragmentStrip,
    MergeSlashes,
    StripDot,
    StripDotDot { full: bool },
    DecodeUnreserved { strict: bool },
    ToUppercase { strict: bool },
    SortQuery,
}

const WORDS: [&str; 8] = [
    "fragment-encode",
    "fragment-strip",
    "path-merge-slashes",
    "path-strip-dot",
    "path-strip-dotdot",
    "percent-decode-unreserved",
    "percent-to-uppercase",
    "query-sort-by-name",
];

impl Action for Normalizer {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let uri = txn.request.uri_bytes();
        let start = path_start(uri);
        let Some(normal) = self.normalize(&uri[start..]) else {
            // The strict forms refuse what cannot be decoded.
            return end_with(reply::error_page(txn, 400), true);
        };
        if normal == uri[start..] {
            return Step::Next;
        }
        let new = [&uri[..start], &normal].concat();
        txn.keep_received();
        txn.request.set_uri(&new);
        Step::Next
    }
}

/// Where path, query and fragment start in a URI.
fn path_start(uri: &[u8]) -> usize {
    let authority = match memchr::memmem::find(uri, b"://") {
        Some(at) if !uri.starts_with(b"/") => at + 3,
        _ => return 0,
    };
    let rest = &uri[authority..];
    authority + rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len())
}

impl Normalizer {
    /// Path, query and fragment in normal form; `None` when the strict form refuses them.
    fn normalize(self, text: &[u8]) -> Option<Vec<u8>> {
        let hash = memchr::memchr(b'#', text).unwrap_or(text.len());
        let mark = memchr::memchr(b'?', &text[..hash]).unwrap_or(hash);
        let on_path = |f: &dyn Fn(&[u8]) -> Vec<u8>| Some([f(&text[..mark]), text[mark..].to_vec()].concat());
        match self {
            Self::FragmentEncode => {
                let parts: Vec<&[u8]> = text.split(|b| *b == b'#').collect();
                Some(parts.join(&b"%23"[..]))
            }
            Self::FragmentStrip => Some(text[..hash].to_vec()),
            Self::MergeSlashes => on_path(&merge_slashes),
            Self::StripDot => on_path(&strip_dot),
            Self::StripDotDot { full } => on_path(&|path| strip_dotdot(path, full)),
            Self::DecodeUnreserved { strict } => percent(text, strict, |code, digits, out| {
                if is_unreserved(code) {
                    out.push(code);
                } else {
                    out.push(b'%');
                    out.extend_from_slice(digits);
                }
            }),
            Self::ToUppercase { strict } => percent(text, strict, |code, _, out| {
                out.push(b'%');
                push_hex(code, out);
            }),
            Self::SortQuery if mark == hash => Some(text.to_vec()),
            Self::SortQuery => {
                let mut parameters: Vec<&[u8]> = text[mark + 1..hash].split(|b| *b == b'&').collect();
                parameters.sort_by_key(|p| p.split(|b| *b == b'=').next().unwrap_or_default());
                Some([&text[..=mark], &parameters.join(&b'&'), &text[hash..]].concat())
            }
        }
    }
}

fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for b in path {
        if *b != b'/' || out.last() != Some(&b'/') {
            out.push(*b);
        }
    }
    out
}

/// Removes segments that are a dot; the slash before them stays.
fn strip_dot(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    for (at, segment) in segments.iter().enumerate() {
        match (*segment == b".", at + 1 == segments.len()) {
            (true, true) => kept.push(b""),
            (true, false) => {}
            (false, _) => kept.push(segment),
        }
    }
    kept.join(&b'/')
}

/// Removes segments that are two dots together with the one before; at the start they stay unless `full`.
fn strip_dotdot(path: &[u8], full: bool) -> Vec<u8> {
    let segments: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let mut kept: Vec<&[u8]> = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        if *segment != b".." {
            kept.push(segment);
            continue;
        }
        // The first segment is the empty one before the leading slash: there is nothing above it.
        if kept.len() > 1 && kept.last() != Some(&&b".."[..]) {
            kept.pop();
            if last {
                kept.push(b"");
            }
        } else if !full {
            kept.push(segment);
        } else if last {
            kept.push(b"");
        }
    }
    kept.join(&b'/')
}

/// Rewrites percent-encoded characters; broken ones stay, or refuse the whole when `strict`.
fn percent(text: &[u8], strict: bool, rewrite: impl Fn(u8, &[u8], &mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        at += 1;
        if b != b'%' {
            out.push(b);
            continue;
        }
        match text.get(at..at + 2).and_then(|digits| Some((hex_byte(digits)?, digits))) {
            Some((code, digits)) => {
                rewrite(code, digits, &mut out);
                at += 2;
            }
            None if strict => return None,
            None => out.push(b),
        }
    }
    Some(out)
}

fn parse(words: &mut Words<'_>, _: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let word = words.expect("a normalizer")?;
    let known = WORDS.iter().position(|w| w.as_bytes() == word.text);
    let normalizer = match known.ok_or_else(|| vec![Diagnostic::unknown("normalizer", word, WORDS)])? {
        0 => Normalizer::FragmentEncode,
        1 => Normalizer::FragmentStrip,
        2 => Normalizer::MergeSlashes,
        3 => Normalizer::StripDot,
        4 => Normalizer::StripDotDot { full: words.accept("full") },
        5 => Normalizer::DecodeUnreserved { strict: words.accept("strict") },
        6 => Normalizer::ToUppercase { strict: words.accept("strict") },
        _ => Normalizer::SortQuery,
    };
    Ok(Box::new(normalizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_manual() {
        use Normalizer as N;
        let check = |normalizer: N, text: &str, expected: Option<&str>| {
            let got = normalizer.normalize(text.as_bytes()).map(|t| String::from_utf8_lossy(&t).into_owned());
            assert_eq!(got.as_deref(), expected, "{normalizer:?} {text}");
        };
        check(N::FragmentEncode, "/#foo", Some("/%23foo"));
        check(N::FragmentStrip, "/#foo", Some("/"));
        check(N::StripDot, "/.", Some("/"));
        check(N::StripDot, "/./bar/", Some("/bar/"));
        check(N::StripDot, "/a/./a", Some("/a/a"));
        check(N::StripDot, "/.well-known/", Some("/.well-known/"));
        let (up, full) = (N::StripDotDot { full: false }, N::StripDotDot { full: true });
        check(up, "/foo/../", Some("/"));
        check(up, "/foo/../bar/", Some("/bar/"));
        check(up, "/foo/bar/../", Some("/foo/"));
        check(up, "/../bar/", Some("/../bar/"));
        check(up, "/bar/../../", Some("/../"));
        check(up, "/foo//../", Some("/foo/"));
        check(up, "/foo/..", Some("/"));
        check(full, "/../bar/", Some("/bar/"));
        check(full, "/bar/../../", Some("/"));
        check(N::MergeSlashes, "//", Some("/"));
        check(N::MergeSlashes, "/foo//bar?a//b", Some("/foo/bar?a//b"));
        let (decode, strict) = (N::DecodeUnreserved { strict: false }, N::DecodeUnreserved { strict: true });
        check(decode, "/%61dmin", Some("/admin"));
        check(decode, "/foo%3Fbar=baz", Some("/foo%3Fbar=baz"));
        check(decode, "/%%36%36", Some("/%66"));
        check(decode, "/%ZZ", Some("/%ZZ"));
        check(strict, "/%%36%36", None);
        check(N::ToUppercase { strict: false }, "/%6f", Some("/%6F"));
        check(N::ToUppercase { strict: false }, "/%zz", Some("/%zz"));
        check(N::ToUppercase { strict: true }, "/%zz", None);
        check(N::SortQuery, "/?c=3&a=1&b=2", Some("/?a=1&b=2&c=3"));
        check(N::SortQuery, "/?aaa=3&a=1&aa=2", Some("/?a=1&aa=2&aaa=3"));
        check(N::SortQuery, "/?a=3&b=4&a=1&b=5&a=2", Some("/?a=3&a=1&a=2&b=4&b=5"));
    }
}
