//! Variants of a response (RFC 9111 section 4.1): which fields of the request it depends on, and whether another
//! request would have got the same one.

use weir_http::{FieldName, Fields};

/// Codings that are registered; what another one means is not known (manual, section 6.1).
const CODINGS: &[&str] = &[
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "gzip",
    "identity",
    "pack200-gzip",
    "x-compress",
    "x-gzip",
    "zstd",
];

/// Most codings of a request that are looked at; one with more is not answered from a cache.
const MAX_CODINGS: usize = 16;

/// What a stored response depends on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Variant {
    /// Codings of the body, when the response varies by Accept-Encoding.
    codings: Option<Vec<Box<[u8]>>>,
    /// The Referer it was made for, when it varies by that.
    referer: Option<Box<[u8]>>,
    /// The same for Origin.
    origin: Option<Box<[u8]>>,
}

impl Variant {
    /// Of a response to a request; `None` when it must not be stored: it varies by something that is not managed,
    /// or does not suit its own request.
    pub(super) fn of(request: &Fields, response: &Fields, process_vary: bool) -> Option<Self> {
        let mut variant = Self::default();
        let names = response.all(FieldName::Vary).flat_map(|line| line.split(|b| *b == b','));
        for name in names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
            if !process_vary {
                return None;
            }
            if name.eq_ignore_ascii_case(b"accept-encoding") {
                variant.codings = Some(codings(response)?);
            } else if name.eq_ignore_ascii_case(b"referer") {
                variant.referer = Some(joined(request, b"referer"));
            } else if name.eq_ignore_ascii_case(b"origin") {
                variant.origin = Some(joined(request, b"origin"));
            } else {
                return None;
            }
        }
        variant.suits(request).then_some(variant)
    }

    /// Whether a request would have got this variant.
    pub(super) fn suits(&self, request: &Fields) -> bool {
        let same = |kept: &Option<Box<[u8]>>, name: &[u8]| {
            kept.as_ref().is_none_or(|kept| *kept == joined(request, name))
        };
        same(&self.referer, b"referer")
            && same(&self.origin, b"origin")
            && self.codings.as_ref().is_none_or(|codings| accepts(request, codings))
    }

    /// A number for it in lists; 0 for a response that does not vary.
    pub(super) fn number(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        if *self == Self::default() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (&self.codings, &self.referer, &self.origin).hash(&mut hasher);
        hasher.finish()
    }
}

fn joined(fields: &Fields, name: &[u8]) -> Box<[u8]> {
    fields.get_all(name).collect::<Vec<_>>().join(&b","[..]).into()
}

/// The codings a body was put through; `None` when one of them is unknown.
fn codings(response: &Fields) -> Option<Vec<Box<[u8]>>> {
    let parts = response.all(FieldName::ContentEncoding).flat_map(|line| line.split(|b| *b == b','));
    let mut found = Vec::new();
    for coding in parts.map(|part| part.trim_ascii().to_ascii_lowercase()).filter(|coding| !coding.is_empty())
    {
        if !CODINGS.iter().any(|known| known.as_bytes() == coding) {
            return None;
        }
        found.push(coding.into());
    }
    if found.is_empty() {
        found.push(b"identity"[..].into());
    }
    Some(found)
}

/// RFC 9110 section 12.5.3: whether a request accepts a body with all of these codings.
fn accepts(request: &Fields, codings: &[Box<[u8]>]) -> bool {
    if !request.has(FieldName::AcceptEncoding) {
        return true;
    }
    let lines = request.all(FieldName::AcceptEncoding).flat_map(|line| line.split(|b| *b == b','));
    let parts = lines.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty());
    if parts.clone().count() > MAX_CODINGS {
        return false;
    }
    codings.iter().all(|coding| {
        let named = |name: &[u8]| {
            parts.clone().find_map(|part| {
                let (found, weight) = weighed(part);
                found.eq_ignore_ascii_case(name).then_some(weight)
            })
        };
        match named(coding).or_else(|| named(b"*")) {
            Some(wanted) => wanted || (**coding == *b"identity" && named(coding).is_none()),
            None => **coding == *b"identity",
        }
    })
}

/// A coding of Accept-Encoding and whether its weight is more than 0.
fn weighed(part: &[u8]) -> (&[u8], bool) {
    let mut words = part.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    let name = words.next().unwrap_or_default();
    let zero = |weight: &[u8]| weight.iter().all(|b| matches!(b, b'0' | b'.'));
    let weight = words.find_map(|word| word.strip_prefix(b"q=").or_else(|| word.strip_prefix(b"Q=")));
    (name, !weight.is_some_and(zero))
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::fields;
    use super::*;

    /// The request a response was made for, the response, and the other request.
    fn check(made_for: &str, response: &str, other: &str, expected: Option<bool>) {
        let variant = Variant::of(&fields(made_for), &fields(response), true);
        let found = variant.map(|variant| variant.suits(&fields(other)));
        assert_eq!(found, expected, "{made_for} | {response} | {other}");
    }

    #[test]
    fn codings_decide() {
        let gzip = "vary: Accept-Encoding\ncontent-encoding: gzip";
        let plain = "vary: accept-encoding";
        let br = "vary: accept-encoding\ncontent-encoding: br";
        check("accept-encoding: gzip", gzip, "accept-encoding: br, GZIP ; q=0.8", Some(true));
        check("accept-encoding: gzip", gzip, "accept-encoding: deflate, gzip;q=0.0", Some(false));
        check("accept-encoding: gzip", gzip, "accept-encoding: a\naccept-encoding: gzip", Some(true));
        check("accept-encoding: gzip", gzip, "", Some(true));
        check("accept-encoding: gzip", gzip, "accept-encoding: ", Some(false));
        check("accept-encoding: x", gzip, "", None);
        check("", plain, "accept-encoding: gzip", Some(true));
        check("", plain, "accept-encoding: gzip, identity;q=0", Some(false));
        check("accept-encoding: *", br, "accept-encoding: gzip;q=0, *;q=0.1, identity;q=0", Some(true));
        check("accept-encoding: *", br, "accept-encoding: deflate, *;q=0", Some(false));
        check("accept-encoding: br,gzip,xxx,jdcqiab", br, "accept-encoding: gzip", Some(false));
        check("", "vary: accept-encoding\ncontent-encoding: unheard-of", "", None);
        let both = "vary: accept-encoding\ncontent-encoding: deflate, gzip";
        check("accept-encoding: gzip, deflate", both, "accept-encoding: deflate;q=1, gzip", Some(true));
        check("accept-encoding: gzip, deflate", both, "accept-encoding: gzip", Some(false));
        let many = (0..17).map(|n| format!("a{n}")).collect::<Vec<_>>().join(",");
        check(&format!("accept-encoding: gzip,{many}"), gzip, "", None);
    }

    #[test]
    fn other_fields_are_compared() {
        check("referer: a", "vary: referer", "referer: a\nx: y", Some(true));
        check("referer: a", "vary: referer", "referer: b", Some(false));
        check("", "vary: origin, referer", "origin: a", Some(false));
        check("", "vary: user-agent", "", None);
        check("", "vary: *", "", None);
        assert_eq!(Variant::of(&fields(""), &fields("vary: referer"), false), None);
        assert_eq!(Variant::of(&fields(""), &fields(""), false).map(|v| v.number()), Some(0));
    }
}
