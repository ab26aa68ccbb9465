//! Entity tags (RFC 9110 section 8.8.3).

/// What kind of entity tag a field value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Etag {
    Strong,
    Weak,
    Invalid,
}

impl Etag {
    pub(crate) fn of(value: &[u8]) -> Self {
        let (kind, quoted) = match value {
            [b'W', b'/', quoted @ ..] => (Self::Weak, quoted),
            quoted => (Self::Strong, quoted),
        };
        match quoted {
            [b'"', tag @ .., b'"'] if tag.iter().all(|&byte| is_etagc(byte)) => kind,
            _ => Self::Invalid,
        }
    }
}

/// RFC 9110 section 8.8.3: `etagc`, any visible character but the double quote, and bytes above ASCII.
const fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_strong_weak_or_invalid() {
        let check = |value: &str, expected| assert_eq!(Etag::of(value.as_bytes()), expected, "{value}");
        check("\"123\"", Etag::Strong);
        check("W/\"456\"", Etag::Weak);
        check("\"W/789\"", Etag::Strong);
        check("\"\"", Etag::Strong);
        check("W/\"\"", Etag::Weak);
        check("\"", Etag::Invalid);
        check("\"invalid", Etag::Invalid);
        check("invalid\"", Etag::Invalid);
        check("invalid", Etag::Invalid);
        check("W/\"invalid", Etag::Invalid);
        check("W/invalid\"", Etag::Invalid);
        check("w/\"1\"", Etag::Invalid);
        check("\"a\"b\"", Etag::Invalid);
        check("", Etag::Invalid);
    }
}
