//! What was wrong with received bytes, where, and who answers for it.

use std::fmt;

/// Whose message could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A request: the client is answered with 4xx.
    Client,
    /// A response: the client is answered with 502.
    Server,
}

/// What was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseErrorKind {
    /// The head does not fit in its bound.
    HeadTooLarge,
    /// More field lines than `tune.http.maxhdr` allows.
    TooManyFields,
    /// A byte that cannot stand in a method, or before it.
    Method,
    /// A byte that cannot stand in a request target.
    TargetByte,
    /// The target's form does not fit the method (RFC 9112 section 3.2).
    TargetForm,
    /// Not `HTTP/` digit `.` digit.
    Version,
    /// Not a status code of three digits.
    Status,
    /// A carriage return without its line feed.
    BareCr,
    /// A line feed where only CR LF is safe.
    BareLf,
    /// An invalid or empty field name, or white space before the colon.
    FieldName,
    /// A NUL in a field value.
    FieldValue,
    /// A Content-Length that is not one number, or several that differ.
    ContentLength,
    /// A Transfer-Encoding that does not end in exactly one `chunked`.
    TransferEncoding,
    /// A transfer coding other than chunked.
    UnknownCoding,
    /// Several Host fields, or one that is not the target's authority, or no host.
    Host,
    /// A payload with CONNECT, or with an HTTP/1.0 method that does not expect one.
    UnexpectedPayload,
    /// A WebSocket handshake without its key (RFC 6455 section 4).
    WebSocketKey,
    /// A 101 that no request asked for, or to a protocol that it did not name.
    Upgrade,
    /// A malformed chunk.
    Chunk,
    /// A chunk size beyond the bound.
    ChunkTooLarge,
    /// A chunk extension beyond the bound.
    ChunkExtensionTooLarge,
    /// The trailer section does not fit in its bound.
    TrailersTooLarge,
    /// Not a FastCGI record that an application may send.
    Record,
    /// The connection ended within the body.
    Truncated,
}

impl ParseErrorKind {
    /// One line for logs and for `show errors`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HeadTooLarge => "message head too large",
            Self::TooManyFields => "too many header fields",
            Self::Method => "invalid byte in the method",
            Self::TargetByte => "invalid byte in the request target",
            Self::TargetForm => "request target does not fit the method",
            Self::Version => "invalid protocol version",
            Self::Status => "invalid status code",
            Self::BareCr => "CR without LF",
            Self::BareLf => "LF without CR",
            Self::FieldName => "invalid header field name",
            Self::FieldValue => "NUL in a header field value",
            Self::ContentLength => "invalid or contradictory Content-Length",
            Self::TransferEncoding => "invalid Transfer-Encoding",
            Self::UnknownCoding => "unknown transfer coding",
            Self::Host => "Host is none, or contradicts the request target or another Host",
            Self::UnexpectedPayload => "payload with a method without one",
            Self::WebSocketKey => "WebSocket handshake without its key",
            Self::Upgrade => "switched to a protocol that was not asked for",
            Self::Chunk => "malformed chunk",
            Self::ChunkTooLarge => "chunk size too large",
            Self::ChunkExtensionTooLarge => "chunk extension too large",
            Self::TrailersTooLarge => "trailer section too large",
            Self::Record => "malformed FastCGI record",
            Self::Truncated => "body ended too early",
        }
    }
}

/// Received bytes that are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// What was wrong.
    pub kind: ParseErrorKind,
    /// Where: an offset into the input given to the parser.
    pub position: usize,
    /// Whose message it was.
    pub fault: Fault,
}

impl ParseError {
    pub(crate) fn new(kind: ParseErrorKind, position: usize, fault: Fault) -> Self {
        Self { kind, position, fault }
    }

    /// The status to answer the client with.
    #[must_use]
    pub fn status(&self) -> u16 {
        match (self.fault, self.kind) {
            (Fault::Server, _) => 502,
            (Fault::Client, ParseErrorKind::UnexpectedPayload) => 413,
            (Fault::Client, ParseErrorKind::UnknownCoding) => 422,
            (Fault::Client, _) => 400,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.as_str(), self.position)
    }
}

impl std::error::Error for ParseError {}

/// Why a parser stopped: nothing wrong yet, or refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The input ends before the message part does.
    NeedMore,
    /// Refused, with the position.
    Refused(ParseErrorKind, usize),
}
