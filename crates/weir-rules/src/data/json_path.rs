//! JSONPath lookups in JSON text: `$.a.b[0]`, without building a tree.
//!
//! Owns the path syntax and a scanner that skips values; nesting is bounded.

/// Deepest nesting that is followed.
const MAX_DEPTH: usize = 64;

/// A parsed path.
#[derive(Debug)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Key(Vec<u8>),
    Index(usize),
}

/// A value found: the bytes it stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Json<'a> {
    /// Without its quotes, escapes still in.
    Str(&'a [u8]),
    Number(&'a [u8]),
    True,
    False,
    Null,
    /// With its brackets.
    Array(&'a [u8]),
    /// With its braces.
    Object(&'a [u8]),
}

impl JsonPath {
    /// Parses `$`, `.key`, `[n]` and `['key']`; a backslash before a dot makes it part of the key.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bytes = text.as_bytes();
        if bytes.first() != Some(&b'$') {
            return Err(format!("JSONPath '{text}' does not start with '$'"));
        }
        let mut steps = Vec::new();
        let mut at = 1;
        while let Some(&b) = bytes.get(at) {
            let rest = &bytes[at + 1..];
            match b {
                b'.' => {
                    let (key, used) = plain_key(rest);
                    if key.is_empty() {
                        return Err(format!("JSONPath '{text}' has an empty key"));
                    }
                    steps.push(Step::Key(key));
                    at += 1 + used;
                }
                b'[' => {
                    let end = rest.iter().position(|b| *b == b']');
                    let end = end.ok_or_else(|| format!("JSONPath '{text}' lacks a ']'"))?;
                    let inner = std::str::from_utf8(&rest[..end]).unwrap_or_default();
                    let quoted = inner.trim_matches(['\'', '"']);
                    match inner.parse() {
                        Ok(index) => steps.push(Step::Index(index)),
                        Err(_) if quoted.len() + 2 == inner.len() => steps.push(Step::Key(quoted.into())),
                        Err(_) => {
                            return Err(format!("'[{inner}]' in JSONPath '{text}' is not implemented yet"));
                        }
                    }
                    at += 2 + end;
                }
                _ => return Err(format!("unexpected '{}' in JSONPath '{text}'", char::from(b))),
            }
        }
        Ok(Self { steps })
    }

    /// The value at the path.
    pub(crate) fn find<'a>(&self, text: &'a [u8]) -> Option<Json<'a>> {
        let mut at = skip_space(text, 0);
        for step in &self.steps {
            at = match step {
                Step::Key(key) => find_key(text, at, key)?,
                Step::Index(index) => find_index(text, at, *index)?,
            };
        }
        value_at(text, at).map(|(value, _)| value)
    }
}

fn plain_key(text: &[u8]) -> (Vec<u8>, usize) {
    let mut key = Vec::new();
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        match b {
            b'\\' if at + 1 < text.len() => {
                at += 1;
                key.push(text[at]);
            }
            b'.' | b'[' => break,
            _ => key.push(b),
        }
        at += 1;
    }
    (key, at)
}

fn skip_space(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Position of the value of a key in the object at `at`.
fn find_key(text: &[u8], at: usize, key: &[u8]) -> Option<usize> {
    members(text, at, b'{', |name, value| (name == Some(key)).then_some(value))
}

/// Position of an element of the array at `at`.
fn find_index(text: &[u8], at: usize, index: usize) -> Option<usize> {
    let mut count = 0;
    members(text, at, b'[', |_, value| {
        count += 1;
        (count == index + 1).then_some(value)
    })
}

/// Goes through the members of the object or array at `at` until `found` returns something.
fn members<'a>(
    text: &'a [u8],
    at: usize,
    open: u8,
    mut found: impl FnMut(Option<&'a [u8]>, usize) -> Option<usize>,
) -> Option<usize> {
    if text.get(at) != Some(&open) {
        return None;
    }
    let mut at = skip_space(text, at + 1);
    loop {
        let mut name = None;
        if open == b'{' {
            let (Json::Str(key), end) = value_at(text, at)? else { return None };
            name = Some(key);
            at = skip_space(text, end);
            if text.get(at) != Some(&b':') {
                return None;
            }
            at = skip_space(text, at + 1);
        }
        if let Some(value) = found(name, at) {
            return Some(value);
        }
        let (_, end) = value_at(text, at)?;
        at = skip_space(text, end);
        if text.get(at) != Some(&b',') {
            return None;
        }
        at = skip_space(text, at + 1);
    }
}

/// The value that starts at `at`, and where it ends.
fn value_at(text: &[u8], at: usize) -> Option<(Json<'_>, usize)> {
    let rest = text.get(at..)?;
    let word = |w: &'static [u8]| rest.starts_with(w).then_some(at + w.len());
    match rest.first()? {
        b'"' => {
            let end = string_end(text, at)?;
            Some((Json::Str(&text[at + 1..end - 1]), end))
        }
        b'{' => nested_end(text, at).map(|end| (Json::Object(&text[at..end]), end)),
        b'[' => nested_end(text, at).map(|end| (Json::Array(&text[at..end]), end)),
        b't' => word(b"true").map(|end| (Json::True, end)),
        b'f' => word(b"false").map(|end| (Json::False, end)),
        b'n' => word(b"null").map(|end| (Json::Null, end)),
        b'-' | b'0'..=b'9' => {
            let len = rest.iter().take_while(|b| b.is_ascii_digit() || b"+-.eE".contains(b)).count();
            Some((Json::Number(&rest[..len]), at + len))
        }
        _ => None,
    }
}

fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// End of the object or array at `at`; brackets inside strings do not count.
fn nested_end(text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    let mut at = at;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' if depth == MAX_DEPTH => return None,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// A JSON string without its escapes.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        at += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let escaped = *text.get(at)?;
        at += 1;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                let (c, used) = unicode_escape(&text[at..])?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at += used;
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// The four digits after `\u`, together with the second half of a surrogate pair.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let code = |t: &[u8]| u32::from_str_radix(std::str::from_utf8(t.get(..4)?).ok()?, 16).ok();
    let first = code(text)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 4));
    }
    let second = code(text.get(4..)?.strip_prefix(b"\\u")?)?;
    let c = 0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
    char::from_u32(c).map(|c| (c, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups() {
        let text = br#" {"a": {"b": [1, "x\"y", {"c": true}]}, "my.key":"v", "n": -1.5e3, "z": null } "#;
        let check = |path: &str, expected: Option<Json<'_>>| {
            assert_eq!(JsonPath::parse(path).expect(path).find(text), expected, "{path}");
        };
        check("$.a.b[0]", Some(Json::Number(b"1")));
        check("$.a.b[1]", Some(Json::Str(br#"x\"y"#)));
        check("$.a.b[2].c", Some(Json::True));
        check("$.a.b[3]", None);
        check(r"$.my\.key", Some(Json::Str(b"v")));
        check("$['my.key']", Some(Json::Str(b"v")));
        check("$.n", Some(Json::Number(b"-1.5e3")));
        check("$.z", Some(Json::Null));
        check("$.a.b[2]", Some(Json::Object(br#"{"c": true}"#)));
        check("$.q", None);
        assert!(JsonPath::parse("a.b").is_err());
    }

    #[test]
    fn broken_text_finds_nothing() {
        for text in ["", "{", "{\"a\"", "{\"a\":", "[1,", "{\"a\":\"", "{\"a\":\"\\"] {
            assert_eq!(JsonPath::parse("$.a").expect("path").find(text.as_bytes()), None, "{text}");
        }
    }
}
