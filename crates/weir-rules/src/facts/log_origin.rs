//! The step of a transaction at which a log line is made.

use crate::Phase;

/// The step of a transaction at which a log line is made (`%OG`, `log-steps`, `on` of log profiles).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the step of the same name in the manual")]
pub enum LogOrigin {
    #[default]
    Unspecified,
    Accept,
    Request,
    Connect,
    Response,
    Close,
    TcpRequestConnection,
    TcpRequestSession,
    TcpRequestContent,
    TcpResponseContent,
    HttpRequest,
    HttpResponse,
    HttpAfterResponse,
}

impl LogOrigin {
    /// The steps by their names.
    pub const STEPS: [(&'static str, Self); 5] = [
        ("accept", Self::Accept),
        ("request", Self::Request),
        ("connect", Self::Connect),
        ("response", Self::Response),
        ("close", Self::Close),
    ];

    /// Rule sets whose `do-log` makes a line.
    pub const RULES: [(&'static str, Self); 7] = [
        ("tcp-req-conn", Self::TcpRequestConnection),
        ("tcp-req-sess", Self::TcpRequestSession),
        ("tcp-req-cont", Self::TcpRequestContent),
        ("tcp-res-cont", Self::TcpResponseContent),
        ("http-req", Self::HttpRequest),
        ("http-res", Self::HttpResponse),
        ("http-after-res", Self::HttpAfterResponse),
    ];

    /// Of a rule.
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::TcpRequestConnection => Self::TcpRequestConnection,
            Phase::TcpRequestSession => Self::TcpRequestSession,
            Phase::TcpRequestContent => Self::TcpRequestContent,
            Phase::TcpResponseContent => Self::TcpResponseContent,
            Phase::HttpRequest => Self::HttpRequest,
            Phase::HttpResponse => Self::HttpResponse,
            Phase::HttpAfterResponse => Self::HttpAfterResponse,
        }
    }

    /// What `%OG` prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspec",
            Self::Accept => "txn_accept",
            Self::Request => "txn_request",
            Self::Connect => "txn_connect",
            Self::Response => "txn_response",
            Self::Close => "txn_close",
            rule => Self::RULES.iter().find(|(_, origin)| *origin == rule).map_or("unspec", |(name, _)| name),
        }
    }
}
