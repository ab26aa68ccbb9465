//! Regular expressions: PCRE's syntax as configurations write it, run by the linear-time `regex` crate.
//!
//! Owns the few spellings that differ; what needs back-tracking (look-around, back-references) is refused.

use regex::bytes::{Captures, Regex, RegexBuilder};

use crate::value::codec::hex_byte;

/// Largest compiled expression, bytes: bounds what one pattern may cost.
const MAX_COMPILED: usize = 8 << 20;

/// Compiles a pattern; the error says why it cannot be used.
pub fn compile_bytes(pattern: &[u8], ignore_case: bool) -> Result<Regex, String> {
    let text = String::from_utf8_lossy(pattern);
    if let Some(what) = backtracking(&text) {
        return Err(format!("regular expression '{text}' uses {what}, which is not supported"));
    }
    RegexBuilder::new(&translate(pattern))
        .unicode(false)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|e| {
            let reason = e.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("invalid regular expression '{text}': {reason}")
        })
}

/// What in a pattern needs back-tracking.
fn backtracking(text: &str) -> Option<&'static str> {
    let found = |list: &[&str]| list.iter().any(|w| text.contains(w));
    if found(&["(?=", "(?!", "(?<=", "(?<!"]) {
        return Some("look-around");
    }
    if found(&["(?>", "*+", "++", "?+"]) && !text.contains("\\+") {
        return Some("an atomic group or possessive quantifier");
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] == b'\\' {
            if bytes[at + 1].is_ascii_digit() && bytes[at + 1] != b'0' {
                return Some("a back-reference");
            }
            at += 1;
        }
        at += 1;
    }
    None
}

/// Rewrites what the two syntaxes spell differently: bytes above 127, literal braces, brackets inside classes.
fn translate(pattern: &[u8]) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut class_start = None;
    while let Some(&b) = pattern.get(at) {
        let next = pattern.get(at + 1).copied();
        match b {
            b'\\' => {
                at += push_escape(&mut out, next);
                continue;
            }
            0x80.. => out.push_str(&format!("\\x{b:02x}")),
            b'[' if class_start.is_none() => {
                class_start = Some(at);
                out.push('[');
                if next == Some(b'^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket that closes nothing yet is a member.
                if pattern.get(at + 1) == Some(&b']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            b'[' if next == Some(b':') => match pattern[at..].windows(2).position(|w| w == b":]") {
                Some(end) => {
                    out.push_str(&String::from_utf8_lossy(&pattern[at..at + end + 2]));
                    at += end + 2;
                    continue;
                }
                None => out.push_str("\\["),
            },
            b'[' => out.push_str("\\["),
            b']' if class_start.is_some() => {
                class_start = None;
                out.push(']');
            }
            b'&' | b'~' if class_start.is_some() => {
                out.push('\\');
                out.push(char::from(b));
            }
            b'{' if class_start.is_none() && !is_repetition(&pattern[at..]) => out.push_str("\\{"),
            _ => out.push(char::from(b)),
        }
        at += 1;
    }
    out
}

/// One escape; returns the bytes read.
fn push_escape(out: &mut String, next: Option<u8>) -> usize {
    match next {
        Some(b'Z') => out.push_str("\\z"),
        Some(b'h') => out.push_str("[ \\t]"),
        Some(b'e') => out.push_str("\\x1b"),
        Some(n) if n.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(char::from(n));
        }
        Some(n) if n.is_ascii() => {
            // Any other escaped character stands for itself.
            if regex_syntax_is_meta(n) {
                out.push('\\');
            }
            out.push(char::from(n));
        }
        Some(n) => out.push_str(&format!("\\x{n:02x}")),
        None => {
            out.push_str("\\\\");
            return 1;
        }
    }
    2
}

fn regex_syntax_is_meta(b: u8) -> bool {
    b"\\.+*?()|[]{}^$#&-~".contains(&b)
}

/// Whether a brace starts `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(text: &[u8]) -> bool {
    let Some(end) = text.iter().position(|b| *b == b'}') else { return false };
    let inner = &text[1..end];
    inner.first().is_some_and(u8::is_ascii_digit) && inner.iter().all(|b| b.is_ascii_digit() || *b == b',')
}

/// Appends a replacement with `\0` to `\9`, `\xHH` and `\\` resolved.
pub(crate) fn expand(replacement: &[u8], groups: &Captures<'_>, out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&b) = replacement.get(at) {
        at += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match replacement.get(at) {
            Some(d) if d.is_ascii_digit() => {
                if let Some(group) = groups.get(usize::from(d - b'0')) {
                    out.extend_from_slice(group.as_bytes());
                }
                at += 1;
            }
            Some(b'x') => match replacement.get(at + 1..at + 3).and_then(hex_byte) {
                Some(byte) => {
                    out.push(byte);
                    at += 3;
                }
                None => {
                    out.push(b'x');
                    at += 1;
                }
            },
            Some(&other) => {
                out.push(other);
                at += 1;
            }
            None => out.push(b'\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, text: &[u8], expected| {
            let regex = compile_bytes(pattern.as_bytes(), false).expect(pattern);
            assert_eq!(regex.is_match(text), expected, "{pattern}");
        };
        check(r"^/a\/b", b"/a/b", true);
        check(r"a{b", b"a{b", true);
        check(r"^a{2}$", b"aa", true);
        check(r"[[]x", b"[x", true);
        check(r"[]x]y", b"]y", true);
        check(r"[[:digit:]]+$", b"a12", true);
        check(r"[a&&b]", b"&", true);
        check(r"\d+\.js$", b"x12.js", true);
        check("\u{e9}", "\u{e9}".as_bytes(), true);
        check(r"foo\ bar", b"foo bar", true);
    }

    #[test]
    fn refused_patterns() {
        let check = |pattern: &str, what: &str| {
            let error = compile_bytes(pattern.as_bytes(), false).expect_err(pattern);
            assert!(error.contains(what), "{error}");
        };
        check("(?!x)y", "look-around");
        check(r"(a)\1", "back-reference");
        check("(a", "unclosed");
    }

    #[test]
    fn replacements() {
        let check = |pattern: &str, text: &str, replacement: &str, expected: &str| {
            let regex = compile_bytes(pattern.as_bytes(), false).expect(pattern);
            let groups = regex.captures(text.as_bytes()).expect(text);
            let mut out = Vec::new();
            expand(replacement.as_bytes(), &groups, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check("(a)(b)?", "a", r"<\1\2>", "<a>");
        check("a", "a", r"\x41\\", r"A\");
    }
}
