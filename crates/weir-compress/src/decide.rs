//! The response's part: is it compressed, and what changes in its head.

use crate::etag::Etag;
use crate::{Algorithm, RequestOffer, Settings, Step};
use weir_deflate::Content;

/// How long a message's body is, as far as its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunked, or an HTTP/2 stream without a length: the end is marked.
    Streamed,
    /// Until the connection closes.
    UntilClose,
}

impl BodyFraming {
    pub(crate) fn accept(self, min_size: u64) -> Result<(), Refusal> {
        match self {
            Self::None | Self::Length(0) => Err(Refusal::NoBody),
            Self::UntilClose => Err(Refusal::Unframed),
            Self::Length(length) if length < min_size => Err(Refusal::TooSmall),
            Self::Length(_) | Self::Streamed => Ok(()),
        }
    }
}

/// What counts of a response's start line and framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFacts {
    /// The status code.
    pub status: u16,
    /// Whether the response came as HTTP/1.1 or above.
    pub at_least_http_11: bool,
    /// How its body is framed.
    pub framing: BodyFraming,
}

/// Why a message is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No algorithm is configured for this direction.
    NotConfigured,
    /// The client does not accept a configured algorithm.
    NotAccepted,
    /// The client is a browser known to fail.
    UserAgent,
    /// The answer to HEAD has no body.
    Head,
    /// The client speaks HTTP/1.0: it may not know how to read what has no length.
    OldClient,
    /// The message is HTTP/1.0.
    OldMessage,
    /// The status is not 200, 201, 202 or 203.
    Status,
    /// There is no body.
    NoBody,
    /// The body ends with its connection: where it is cut off could not be told any more.
    Unframed,
    /// The body is smaller than the configured size.
    TooSmall,
    /// The message has a Content-Encoding already.
    AlreadyEncoded,
    /// Cache-Control: no-transform.
    NoTransform,
    /// The entity tag cannot be made weak: it is invalid, or there are several.
    Etag,
    /// A multipart type.
    Multipart,
    /// The type is not listed.
    Type,
    /// The limits on rate or processor time are reached.
    Throttled,
    /// Too many streams keep a window, and the client accepts no algorithm without one.
    NoRoom,
}

/// What happens to the entity tag: a compressed representation is another one (RFC 9110 section 8.8.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtagEdit {
    /// There is none, or it is weak.
    Keep,
    /// `W/` is put before its value.
    Weaken,
}

/// What changes in the head of a message whose body is compressed. Content-Length is always removed; on HTTP/1 the
/// message becomes chunked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadEdits {
    /// The body's algorithm.
    pub algorithm: Algorithm,
    /// The Content-Encoding to set; none for identity.
    pub content_encoding: Option<&'static str>,
    /// What happens to the entity tag.
    pub etag: EtagEdit,
    /// Whether `Vary: Accept-Encoding` is added.
    pub add_vary: bool,
    /// What the body is likely to be, for the encoder.
    pub content: Content,
}

impl HeadEdits {
    pub(crate) fn new(algorithm: Algorithm, etag: EtagEdit, vary: bool, content_type: Option<&[u8]>) -> Self {
        let changes = algorithm != Algorithm::Identity;
        Self {
            algorithm,
            content_encoding: changes.then(|| algorithm.coding()),
            etag: if changes { etag } else { EtagEdit::Keep },
            add_vary: changes && vary,
            content: content_type.map_or(Content::Unknown, content_of),
        }
    }

    /// What is left of the decision at a step of the throttle: below [`Step::Best`], and without room for another
    /// window ([`crate::Scratch::has_room`]), an algorithm that keeps no window takes the place of one that does.
    pub fn under(self, step: Step, has_room: bool, fallback: Option<Algorithm>) -> Result<Self, Refusal> {
        if step == Step::Off {
            return Err(Refusal::Throttled);
        }
        if !self.algorithm.keeps_window() || (step == Step::Best && has_room) {
            return Ok(self);
        }
        let refusal = if step == Step::Best { Refusal::NoRoom } else { Refusal::Throttled };
        let algorithm = fallback.filter(|fallback| *fallback != Algorithm::Identity).ok_or(refusal)?;
        Ok(Self { algorithm, content_encoding: Some(algorithm.coding()), ..self })
    }
}

impl Settings {
    /// Whether the response is compressed, and what then changes in its head. `field` gives all values of a response
    /// header field, in order.
    pub fn decide<'a, I>(
        &self,
        offer: RequestOffer,
        facts: ResponseFacts,
        field: impl Fn(&'static str) -> I,
    ) -> Result<HeadEdits, Refusal>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let algorithm = offer.algorithm?;
        if !facts.at_least_http_11 {
            return Err(Refusal::OldMessage);
        }
        if !matches!(facts.status, 200..=203) {
            return Err(Refusal::Status);
        }
        facts.framing.accept(self.response.min_size)?;
        if field("content-encoding").into_iter().next().is_some() {
            return Err(Refusal::AlreadyEncoded);
        }
        // RFC 9110 section 7.7: a proxy MUST NOT transform the content under no-transform.
        if field("cache-control").into_iter().any(|value| has_token(value, "no-transform")) {
            return Err(Refusal::NoTransform);
        }
        let etag = etag_edit(field("etag"))?;
        let content_type = field("content-type").into_iter().next();
        self.response.accept_type(content_type)?;
        let varies = field("vary").into_iter().any(|v| has_token(v, "accept-encoding") || has_token(v, "*"));
        Ok(HeadEdits::new(algorithm, etag, !varies, content_type))
    }
}

fn etag_edit<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<EtagEdit, Refusal> {
    let mut values = values.into_iter();
    let Some(value) = values.next() else { return Ok(EtagEdit::Keep) };
    if values.next().is_some() {
        return Err(Refusal::Etag);
    }
    match Etag::of(value.trim_ascii()) {
        Etag::Strong => Ok(EtagEdit::Weaken),
        Etag::Weak => Ok(EtagEdit::Keep),
        Etag::Invalid => Err(Refusal::Etag),
    }
}

/// Whether a comma-separated list has the token.
pub(crate) fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// The kind of content behind a media type: a hint for the encoder, never a condition.
fn content_of(content_type: &[u8]) -> Content {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    let Some(slash) = essence.iter().position(|&byte| byte == b'/') else { return Content::Unknown };
    let (top, sub) = (&essence[..slash], &essence[slash + 1..]);
    match sub {
        b"html" => Content::Html,
        b"javascript" | b"x-javascript" | b"ecmascript" | b"css" | b"js" => Content::Script,
        b"json" => Content::Json,
        _ if sub.ends_with(b"+json") => Content::Json,
        b"xml" => Content::Xml,
        b"xhtml+xml" => Content::Html,
        _ if sub.ends_with(b"+xml") => Content::Xml,
        _ if top == b"text" => Content::Text,
        _ => Content::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    const OK: ResponseFacts =
        ResponseFacts { status: 200, at_least_http_11: true, framing: BodyFraming::Length(100) };
    const PLAIN: (&str, &str) = ("content-type", "text/plain");

    fn settings() -> Settings {
        let types = vec!["text/html".to_owned(), "text/plain".to_owned()];
        let response = Rules { algorithms: vec![Algorithm::Gzip], types, min_size: 10 };
        Settings { response, ..Settings::default() }
    }

    fn decide(facts: ResponseFacts, list: &[(&str, &str)]) -> Result<HeadEdits, Refusal> {
        let offer =
            RequestOffer { algorithm: Ok(Algorithm::Gzip), fallback: None, remove_accept_encoding: false };
        settings().decide(offer, facts, |name| {
            list.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.as_bytes()).collect::<Vec<_>>()
        })
    }

    #[test]
    fn responses_are_compressed_or_refused() {
        let check = |facts, list: &[(&str, &str)], expected: Result<(), Refusal>| {
            assert_eq!(decide(facts, list).map(|_| ()), expected, "{facts:?} {list:?}");
        };
        check(OK, &[PLAIN], Ok(()));
        check(ResponseFacts { status: 201, ..OK }, &[PLAIN], Ok(()));
        check(ResponseFacts { status: 202, ..OK }, &[PLAIN], Ok(()));
        check(ResponseFacts { status: 203, ..OK }, &[PLAIN], Ok(()));
        check(ResponseFacts { framing: BodyFraming::Streamed, ..OK }, &[PLAIN], Ok(()));
        check(ResponseFacts { status: 204, ..OK }, &[PLAIN], Err(Refusal::Status));
        check(ResponseFacts { status: 206, ..OK }, &[PLAIN], Err(Refusal::Status));
        check(ResponseFacts { status: 304, ..OK }, &[PLAIN], Err(Refusal::Status));
        check(ResponseFacts { status: 400, ..OK }, &[PLAIN], Err(Refusal::Status));
        check(ResponseFacts { status: 500, ..OK }, &[PLAIN], Err(Refusal::Status));
        check(ResponseFacts { at_least_http_11: false, ..OK }, &[PLAIN], Err(Refusal::OldMessage));
        check(ResponseFacts { framing: BodyFraming::UntilClose, ..OK }, &[PLAIN], Err(Refusal::Unframed));
        check(ResponseFacts { framing: BodyFraming::None, ..OK }, &[PLAIN], Err(Refusal::NoBody));
        check(ResponseFacts { framing: BodyFraming::Length(0), ..OK }, &[PLAIN], Err(Refusal::NoBody));
        check(ResponseFacts { framing: BodyFraming::Length(9), ..OK }, &[PLAIN], Err(Refusal::TooSmall));
        check(ResponseFacts { framing: BodyFraming::Length(10), ..OK }, &[PLAIN], Ok(()));
        check(OK, &[("content-type", "text/css")], Err(Refusal::Type));
        check(OK, &[], Err(Refusal::Type));
        check(OK, &[("content-type", "multipart/mixed")], Err(Refusal::Multipart));
        check(OK, &[PLAIN, ("content-encoding", "something")], Err(Refusal::AlreadyEncoded));
        check(OK, &[PLAIN, ("cache-control", "no-transform")], Err(Refusal::NoTransform));
        check(OK, &[PLAIN, ("cache-control", "public, No-Transform")], Err(Refusal::NoTransform));
        check(OK, &[PLAIN, ("cache-control", "public")], Ok(()));
        check(OK, &[PLAIN, ("etag", "invalid")], Err(Refusal::Etag));
        check(OK, &[PLAIN, ("etag", "\"1\""), ("etag", "\"1\"")], Err(Refusal::Etag));
    }

    #[test]
    fn another_algorithm_is_used_under_pressure() {
        use Algorithm::*;
        let check = |algorithm, fallback, step, has_room, expected: Result<Algorithm, Refusal>| {
            let edits = HeadEdits::new(algorithm, EtagEdit::Keep, true, None);
            let found = edits.under(step, has_room, fallback);
            assert_eq!(found.map(|edits| edits.algorithm), expected, "{algorithm:?} {fallback:?} {step:?}");
            assert_eq!(found.ok().and_then(|e| e.content_encoding), expected.ok().map(Algorithm::coding));
        };
        check(Zstd, Some(Gzip), Step::Best, true, Ok(Zstd));
        check(Zstd, Some(Gzip), Step::Best, false, Ok(Gzip));
        check(Zstd, None, Step::Best, false, Err(Refusal::NoRoom));
        check(Brotli, Some(Deflate), Step::High, true, Ok(Deflate));
        check(Brotli, None, Step::High, true, Err(Refusal::Throttled));
        check(Brotli, Some(Identity), Step::Fast, true, Err(Refusal::Throttled));
        check(Gzip, Some(Gzip), Step::Fast, false, Ok(Gzip));
        check(Gzip, Some(Gzip), Step::Off, true, Err(Refusal::Throttled));
    }

    #[test]
    fn heads_are_edited() {
        let check = |list: &[(&str, &str)], etag, add_vary| {
            let edits = decide(OK, list).unwrap();
            assert_eq!((edits.etag, edits.add_vary), (etag, add_vary), "{list:?}");
            assert_eq!(edits.content_encoding, Some("gzip"));
        };
        check(&[PLAIN], EtagEdit::Keep, true);
        check(&[PLAIN, ("etag", "\"1\"")], EtagEdit::Weaken, true);
        check(&[PLAIN, ("etag", "W/\"1\"")], EtagEdit::Keep, true);
        check(&[PLAIN, ("vary", "Accept-Language")], EtagEdit::Keep, true);
        check(&[PLAIN, ("vary", "Origin, accept-encoding")], EtagEdit::Keep, false);
        check(&[PLAIN, ("vary", "Origin"), ("vary", "Accept-Encoding")], EtagEdit::Keep, false);
        check(&[PLAIN, ("vary", "*")], EtagEdit::Keep, false);
    }

    #[test]
    fn identity_changes_nothing_but_the_framing() {
        let edits = HeadEdits::new(Algorithm::Identity, EtagEdit::Weaken, true, None);
        assert_eq!((edits.content_encoding, edits.etag, edits.add_vary), (None, EtagEdit::Keep, false));
    }

    #[test]
    fn media_types_hint_at_content() {
        let check = |value: &str, expected| assert_eq!(content_of(value.as_bytes()), expected, "{value}");
        check("text/html; charset=utf-8", Content::Html);
        check("application/xhtml+xml", Content::Html);
        check("Application/JSON", Content::Json);
        check("application/problem+json", Content::Json);
        check("text/css", Content::Script);
        check("image/svg+xml", Content::Xml);
        check("text/plain", Content::Text);
        check("image/png", Content::Unknown);
        check("nonsense", Content::Unknown);
    }
}
