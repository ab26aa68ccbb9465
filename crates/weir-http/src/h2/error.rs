//! What may go wrong: error codes of RFC 9113 section 7, connection errors, refused commands.
//!
//! Owns the names; which input leads to which error stands with the frames' handlers.

use std::fmt;

/// An error code of RFC 9113 section 7; codes this proxy has no name for stay as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs, reason = "the names are the RFC's")]
impl ErrorCode {
    pub const NO_ERROR: Self = Self(0x0);
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    pub const INTERNAL_ERROR: Self = Self(0x2);
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    pub const STREAM_CLOSED: Self = Self(0x5);
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    pub const REFUSED_STREAM: Self = Self(0x7);
    pub const CANCEL: Self = Self(0x8);
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    pub const CONNECT_ERROR: Self = Self(0xa);
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The RFC's name, or `UNKNOWN`.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("UNKNOWN")
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#x})", self.name(), self.0)
    }
}

/// The peer broke the connection (RFC 9113 section 5.4.1): a GOAWAY is queued, nothing more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionError {
    /// The code sent in the GOAWAY.
    pub code: ErrorCode,
    /// What the peer did, for logs.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(super) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(super) const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    pub(super) const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }

    pub(super) const fn flow_control(reason: &'static str) -> Self {
        Self::new(ErrorCode::FLOW_CONTROL_ERROR, reason)
    }

    pub(super) const fn calm(reason: &'static str) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.reason)
    }
}

impl std::error::Error for ConnectionError {}

/// The stream a command names is not there any more, or its sending side has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream is gone")
    }
}

impl std::error::Error for Gone {}

/// Why a request was not sent on this connection; nothing of it has left, another connection may take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As many streams are open as the peer allows.
    Full,
    /// The connection is closing, or has no stream identifiers left.
    Closing,
    /// An extended CONNECT has to wait for the peer's SETTINGS (RFC 8441 section 3).
    AwaitSettings,
    /// The peer does not support extended CONNECT, or the request cannot become one.
    NoExtendedConnect,
    /// The request has no form in HTTP/2 (no target).
    Unsendable,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "no stream is free on the connection",
            Self::Closing => "the connection is closing",
            Self::AwaitSettings => "the peer's settings are not known yet",
            Self::NoExtendedConnect => "the peer does not support extended CONNECT",
            Self::Unsendable => "the request has no form in HTTP/2",
        })
    }
}

impl std::error::Error for Refused {}
