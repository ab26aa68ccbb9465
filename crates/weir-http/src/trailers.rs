//! What may stand behind a body, whichever version carries it (RFC 9110 section 6.5.1).

use crate::message::{FieldName, Fields};

/// Drops what frames, routes, authenticates or describes the content: nobody who read the head expects it there, and
/// a server that merges trailers into the head would take it for what rules have looked at.
pub(crate) fn drop_forbidden(fields: &mut Fields) {
    fields.retain_fields(|field| !forbidden(field.id));
    fields.retain(|name, _| !forbidden_name(name));
}

fn forbidden(id: FieldName) -> bool {
    matches!(
        id,
        FieldName::Host
            | FieldName::Connection
            | FieldName::ContentLength
            | FieldName::TransferEncoding
            | FieldName::KeepAlive
            | FieldName::ProxyConnection
            | FieldName::Upgrade
            | FieldName::Te
            | FieldName::Trailer
            | FieldName::Expect
            | FieldName::Cookie
            | FieldName::SetCookie
            | FieldName::ContentType
            | FieldName::ContentEncoding
            | FieldName::CacheControl
            | FieldName::Location
            | FieldName::Authorization
    )
}

/// The same, for names without an identifier of their own.
fn forbidden_name(name: &[u8]) -> bool {
    [&b"content-range"[..], b"max-forwards", b"range", b"www-authenticate", b"proxy-authenticate"]
        .contains(&name)
        || name == b"proxy-authorization"
}
