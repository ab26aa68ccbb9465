//! The static table (RFC 7541 appendix A).

use super::Kind;
use crate::FieldName;

/// Entries of the static table; index 1 is the first.
pub(super) const STATIC_LEN: usize = 61;

/// Name, value, and which field it is.
pub(super) struct StaticEntry(pub(super) &'static str, pub(super) &'static str, pub(super) Kind);

const fn field(id: FieldName, value: &'static str) -> StaticEntry {
    StaticEntry(id.as_str(), value, Kind::Field(id))
}

/// By index minus one.
#[rustfmt::skip]
pub(super) static STATIC: [StaticEntry; STATIC_LEN] = [
    StaticEntry(":authority", "", Kind::Authority),
    StaticEntry(":method", "GET", Kind::Method),
    StaticEntry(":method", "POST", Kind::Method),
    StaticEntry(":path", "/", Kind::Path),
    StaticEntry(":path", "/index.html", Kind::Path),
    StaticEntry(":scheme", "http", Kind::Scheme),
    StaticEntry(":scheme", "https", Kind::Scheme),
    StaticEntry(":status", "200", Kind::Status),
    StaticEntry(":status", "204", Kind::Status),
    StaticEntry(":status", "206", Kind::Status),
    StaticEntry(":status", "304", Kind::Status),
    StaticEntry(":status", "400", Kind::Status),
    StaticEntry(":status", "404", Kind::Status),
    StaticEntry(":status", "500", Kind::Status),
    field(FieldName::AcceptCharset, ""),
    field(FieldName::AcceptEncoding, "gzip, deflate"),
    field(FieldName::AcceptLanguage, ""),
    field(FieldName::AcceptRanges, ""),
    field(FieldName::Accept, ""),
    field(FieldName::AccessControlAllowOrigin, ""),
    field(FieldName::Age, ""),
    field(FieldName::Allow, ""),
    field(FieldName::Authorization, ""),
    field(FieldName::CacheControl, ""),
    field(FieldName::ContentDisposition, ""),
    field(FieldName::ContentEncoding, ""),
    field(FieldName::ContentLanguage, ""),
    field(FieldName::ContentLength, ""),
    field(FieldName::ContentLocation, ""),
    field(FieldName::ContentRange, ""),
    field(FieldName::ContentType, ""),
    field(FieldName::Cookie, ""),
    field(FieldName::Date, ""),
    field(FieldName::Etag, ""),
    field(FieldName::Expect, ""),
    field(FieldName::Expires, ""),
    field(FieldName::From, ""),
    field(FieldName::Host, ""),
    field(FieldName::IfMatch, ""),
    field(FieldName::IfModifiedSince, ""),
    field(FieldName::IfNoneMatch, ""),
    field(FieldName::IfRange, ""),
    field(FieldName::IfUnmodifiedSince, ""),
    field(FieldName::LastModified, ""),
    field(FieldName::Link, ""),
    field(FieldName::Location, ""),
    field(FieldName::MaxForwards, ""),
    field(FieldName::ProxyAuthenticate, ""),
    field(FieldName::ProxyAuthorization, ""),
    field(FieldName::Range, ""),
    field(FieldName::Referer, ""),
    field(FieldName::Refresh, ""),
    field(FieldName::RetryAfter, ""),
    field(FieldName::Server, ""),
    field(FieldName::SetCookie, ""),
    field(FieldName::StrictTransportSecurity, ""),
    field(FieldName::TransferEncoding, ""),
    field(FieldName::UserAgent, ""),
    field(FieldName::Vary, ""),
    field(FieldName::Via, ""),
    field(FieldName::WwwAuthenticate, ""),
];

/// Index of the first entry with a field's name, 0 for none.
pub(super) static NAME_INDEX: [u8; FieldName::COUNT] = {
    let mut index = [0; FieldName::COUNT];
    let mut at = STATIC_LEN;
    while at > 0 {
        if let Kind::Field(id) = STATIC[at - 1].2 {
            index[id as usize] = at as u8;
        }
        at -= 1;
    }
    index
};

/// Indices that the encoder names itself.
pub(super) const AUTHORITY: usize = 1;
pub(super) const METHOD: usize = 2;
pub(super) const METHOD_POST: usize = 3;
pub(super) const PATH: usize = 4;
pub(super) const SCHEME_HTTP: usize = 6;
pub(super) const SCHEME_HTTPS: usize = 7;
pub(super) const STATUS: usize = 8;
pub(super) const ACCEPT_ENCODING: usize = 16;

/// Index of `:status` with this value, if there is one.
pub(super) fn status(status: u16) -> Option<usize> {
    Some(match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_the_rfcs() {
        assert_eq!(
            (STATIC[0].0, STATIC[15].0, STATIC[15].1),
            (":authority", "accept-encoding", "gzip, deflate")
        );
        assert_eq!((STATIC[31].0, STATIC[60].0), ("cookie", "www-authenticate"));
        assert_eq!(NAME_INDEX[FieldName::Other as usize], 0);
        assert_eq!(NAME_INDEX[FieldName::SetCookie as usize], 55);
        for code in 100..600u16 {
            if let Some(at) = status(code) {
                assert_eq!(STATIC[at - 1].1, code.to_string());
            }
        }
        assert_eq!(STATIC[METHOD_POST - 1].1, "POST");
        assert_eq!(STATIC[SCHEME_HTTPS - 1].1, "https");
        assert_eq!(STATIC[ACCEPT_ENCODING - 1].1, "gzip, deflate");
    }
}
