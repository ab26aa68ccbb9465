//! The rule sets, by the step of a transaction at which their rules run.

/// Where a rule stands; decides which actions and fetches it may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the rule set of the same name in the manual")]
pub enum Phase {
    TcpRequestConnection,
    TcpRequestSession,
    TcpRequestContent,
    TcpResponseContent,
    HttpRequest,
    HttpResponse,
    HttpAfterResponse,
}

impl Phase {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::TcpRequestConnection,
        Self::TcpRequestSession,
        Self::TcpRequestContent,
        Self::TcpResponseContent,
        Self::HttpRequest,
        Self::HttpResponse,
        Self::HttpAfterResponse,
    ];

    /// The rule set's keywords.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpRequestConnection => "tcp-request connection",
            Self::TcpRequestSession => "tcp-request session",
            Self::TcpRequestContent => "tcp-request content",
            Self::TcpResponseContent => "tcp-response content",
            Self::HttpRequest => "http-request",
            Self::HttpResponse => "http-response",
            Self::HttpAfterResponse => "http-after-response",
        }
    }

    /// The rules run on the way of the response.
    #[must_use]
    pub fn is_response(self) -> bool {
        matches!(self, Self::TcpResponseContent | Self::HttpResponse | Self::HttpAfterResponse)
    }

    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Sets of phases, as the manual's matrix of actions has them.
pub(crate) mod phases {
    use super::Phase;

    pub(crate) const CONNECTION: u8 = Phase::TcpRequestConnection.bit();
    pub(crate) const SESSION: u8 = Phase::TcpRequestSession.bit();
    pub(crate) const CONTENT: u8 = Phase::TcpRequestContent.bit();
    pub(crate) const RES_CONTENT: u8 = Phase::TcpResponseContent.bit();
    pub(crate) const REQUEST: u8 = Phase::HttpRequest.bit();
    pub(crate) const RESPONSE: u8 = Phase::HttpResponse.bit();
    pub(crate) const AFTER: u8 = Phase::HttpAfterResponse.bit();
    pub(crate) const TCP: u8 = CONNECTION | SESSION | CONTENT | RES_CONTENT;
    pub(crate) const HTTP: u8 = REQUEST | RESPONSE | AFTER;
    pub(crate) const ALL: u8 = TCP | HTTP;
}
