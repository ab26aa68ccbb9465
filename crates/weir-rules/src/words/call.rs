//! A keyword with its arguments, `name(a,"b,c",txn.d)`, and the plain values that arguments are written as.
//!
//! Owns splitting them (a second level of quotes, section 2.2 of the manual); leaves their types to `expr::args`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{Diagnostic, Word};

/// A keyword with its raw arguments, cut from a word.
#[derive(Debug)]
pub(crate) struct Call {
    /// The keyword.
    pub(crate) name: Word,
    /// Its arguments, unquoted; `None` without parentheses.
    pub(crate) args: Option<Vec<Word>>,
}

impl Call {
    /// The arguments; none without parentheses.
    pub(crate) fn args(&self) -> &[Word] {
        self.args.as_deref().unwrap_or(&[])
    }
}

/// A part of a word as a word, for diagnostics that point into it.
pub(crate) fn sub_word(word: &Word, from: usize, to: usize) -> Word {
    let mut pos = word.pos;
    // Quotes and escapes make source and text differ; then pointing at the whole word is the best there is.
    if pos.len as usize == word.text.len() {
        pos.column += from as u32;
        pos.len = (to - from) as u32;
    }
    Word { text: word.text[from..to].to_vec(), pos }
}

/// Cuts `name` or `name(args)` at `at`; returns it and where it ends.
pub(crate) fn cut_call(word: &Word, at: usize) -> Result<(Call, usize), Diagnostic> {
    let text = &word.text[at..];
    let end = text.iter().position(|b| matches!(b, b'(' | b',' | b' ' | b'\t')).unwrap_or(text.len());
    let name = sub_word(word, at, at + end);
    if text.get(end) != Some(&b'(') {
        return Ok((Call { name, args: None }, at + end));
    }
    let (args, end) = cut_args(word, at + end)?;
    Ok((Call { name, args: Some(args) }, end))
}

/// Cuts the arguments between the parenthesis at `open` and the one that closes it.
fn cut_args(word: &Word, open: usize) -> Result<(Vec<Word>, usize), Diagnostic> {
    let text = &word.text;
    let mut list = Vec::new();
    let mut current = Vec::new();
    let (mut quote, mut start, mut at) = (None, open + 1, open + 1);
    while let Some(&b) = text.get(at) {
        match (quote, b) {
            (Some(q), _) if q == b => quote = None,
            (None, b'"' | b'\'') => quote = Some(b),
            (None | Some(b'"'), b'\\') => {
                at += unescape(&text[at..], quote.is_some(), &mut current);
                continue;
            }
            (None, b',' | b')') => {
                let mut arg = sub_word(word, start, at);
                arg.text = std::mem::take(&mut current);
                list.push(arg);
                if b == b')' {
                    return Ok((list, at + 1));
                }
                start = at + 1;
            }
            _ => current.push(b),
        }
        at += 1;
    }
    let what = if quote.is_some() { "a closing quote" } else { "')'" };
    Err(Diagnostic::error(
        word.pos,
        format!("missing {what} after '{}'", String::from_utf8_lossy(&text[..=open])),
    ))
}

/// One backslash sequence inside arguments; returns the bytes read.
fn unescape(text: &[u8], quoted: bool, out: &mut Vec<u8>) -> usize {
    let plain = match text.get(1) {
        Some(b @ (b'\\' | b'"')) => Some(*b),
        Some(b @ (b'\'' | b' ')) if !quoted => Some(*b),
        Some(b'n') if !quoted => Some(b'\n'),
        Some(b'r') if !quoted => Some(b'\r'),
        Some(b't') if !quoted => Some(b'\t'),
        _ => None,
    };
    match plain {
        Some(b) => {
            out.push(b);
            2
        }
        None => {
            out.push(b'\\');
            1
        }
    }
}

/// A number in decimal or `0x` form.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A mask in dotted form or as the number of bits.
pub(crate) fn mask4(text: &str) -> Option<Ipv4Addr> {
    if let Ok(bits) = text.parse::<u32>() {
        return (bits <= 32).then(|| Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)));
    }
    text.parse().ok()
}

/// A mask in colon form or as the number of bits.
pub(crate) fn mask6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(bits) = text.parse::<u32>() {
        return (bits <= 128).then(|| Ipv6Addr::from(u128::MAX.checked_shl(128 - bits).unwrap_or(0)));
    }
    text.parse().ok()
}

/// A duration of section 2.5 in milliseconds; without a unit it is milliseconds.
pub(crate) fn parse_time(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let n: i64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let ms = match &text[digits..] {
        b"us" => return Some((n + 999) / 1000),
        b"" | b"ms" => 1,
        b"s" => 1000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        _ => return None,
    };
    n.checked_mul(ms)
}

/// A size of section 2.6 in bytes.
pub(crate) fn parse_size(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let n: usize = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let unit = match &text[digits..] {
        b"" => 1,
        b"k" | b"K" => 1 << 10,
        b"m" | b"M" => 1 << 20,
        b"g" | b"G" => 1 << 30,
        _ => return None,
    };
    n.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut() {
        let check = |text: &str, expected: &[&str]| {
            let word = Word { text: text.as_bytes().to_vec(), ..Word::default() };
            let (call, end) = cut_call(&word, 0).expect(text);
            let list: Vec<_> = call.args().iter().map(|w| w.as_str().into_owned()).collect();
            assert_eq!(list, expected, "{text}");
            assert_eq!(end, text.len() - text.bytes().rev().take_while(|b| *b != b')').count(), "{text}");
        };
        check("f(a,b)", &["a", "b"]);
        check("f(\"a,b\")", &["a,b"]);
        check("f('a\\,b',c),lower", &["a\\,b", "c"]);
        check("f(a\\\\b)", &["a\\b"]);
        check("f(\"a\\1b\")", &["a\\1b"]);
        check("f(\"\\'a\\'\")", &["\\'a\\'"]);
        check("f(,)", &["", ""]);
        check("f()", &[""]);
    }

    #[test]
    fn times() {
        let check = |text: &str, expected| assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
        check("5", Some(5));
        check("5s", Some(5000));
        check("1m", Some(60_000));
        check("x", None);
        check("5x", None);
    }
}
