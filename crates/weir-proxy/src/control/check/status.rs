//! How a check ended: the words of statistics and logs.

use weir_balance::CheckResult;
use weir_config::model::CheckStatus;

/// Outcome of a check, numbered as `show servers state` does (`srv_check_status`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    missing_docs,
    reason = "each variant is the status of the same name in the statistics (management.txt, 9.1)"
)]
pub enum Status {
    /// Not checked at all.
    #[default]
    Unknown = 0,
    /// Will be checked.
    Init = 1,
    /// An agent that said nothing of its server's health.
    Checked = 3,
    /// Real traffic failed (`observe`).
    HealthAnalyze = 4,
    SocketError = 5,
    L4Ok = 6,
    L4Timeout = 7,
    L4Connection = 8,
    L6Ok = 9,
    L6Timeout = 10,
    L6Response = 11,
    L7Timeout = 12,
    L7Response = 13,
    L7Ok = 15,
    L7OkConditional = 16,
    L7Status = 17,
    ProcessError = 18,
    ProcessTimeout = 19,
    ProcessOk = 20,
}

impl From<CheckStatus> for Status {
    fn from(named: CheckStatus) -> Self {
        match named {
            CheckStatus::L4Ok => Self::L4Ok,
            CheckStatus::L4Timeout => Self::L4Timeout,
            CheckStatus::L4Connection => Self::L4Connection,
            CheckStatus::L6Ok => Self::L6Ok,
            CheckStatus::L6Timeout => Self::L6Timeout,
            CheckStatus::L6Response => Self::L6Response,
            CheckStatus::L7Timeout => Self::L7Timeout,
            CheckStatus::L7Response => Self::L7Response,
            CheckStatus::L7Ok => Self::L7Ok,
            CheckStatus::L7OkConditional => Self::L7OkConditional,
            CheckStatus::L7Status => Self::L7Status,
        }
    }
}

impl Status {
    /// As in the statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// As in the logs.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.texts().1
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Unknown => ("UNK", "Unknown"),
            Self::Init => ("INI", "Initializing"),
            Self::Checked => ("", "No status change"),
            Self::HealthAnalyze => ("HANA", "Health analyze"),
            Self::SocketError => ("SOCKERR", "Socket error"),
            Self::L4Ok => ("L4OK", "Layer4 check passed"),
            Self::L4Timeout => ("L4TOUT", "Layer4 timeout"),
            Self::L4Connection => ("L4CON", "Layer4 connection problem"),
            Self::L6Ok => ("L6OK", "Layer6 check passed"),
            Self::L6Timeout => ("L6TOUT", "Layer6 timeout"),
            Self::L6Response => ("L6RSP", "Layer6 invalid response"),
            Self::L7Timeout => ("L7TOUT", "Layer7 timeout"),
            Self::L7Response => ("L7RSP", "Layer7 invalid response"),
            Self::L7Ok => ("L7OK", "Layer7 check passed"),
            Self::L7OkConditional => ("L7OKC", "Layer7 check conditionally passed"),
            Self::L7Status => ("L7STS", "Layer7 wrong status"),
            Self::ProcessError => ("PROCERR", "External check error"),
            Self::ProcessTimeout => ("PROCTOUT", "External check timeout"),
            Self::ProcessOk => ("PROCOK", "External check passed"),
        }
    }

    /// What it says of the server; nothing before the first check.
    #[must_use]
    pub fn result(self) -> Option<CheckResult> {
        match self {
            Self::Unknown | Self::Init => None,
            Self::Checked => Some(CheckResult::Neutral),
            Self::L4Ok | Self::L6Ok | Self::L7Ok | Self::ProcessOk => Some(CheckResult::Passed),
            Self::L7OkConditional => Some(CheckResult::ConditionallyPassed),
            Self::HealthAnalyze
            | Self::SocketError
            | Self::L4Timeout
            | Self::L4Connection
            | Self::L6Timeout
            | Self::L6Response
            | Self::L7Timeout
            | Self::L7Response
            | Self::L7Status
            | Self::ProcessError
            | Self::ProcessTimeout => Some(CheckResult::Failed),
        }
    }

    /// The server spoke the application's protocol: logs tell its code.
    #[must_use]
    pub fn has_code(self) -> bool {
        self as u8 >= Self::L7Ok as u8
    }
}

/// `srv_check_result` of `show servers state`.
pub(crate) fn result_number(result: Option<CheckResult>) -> u8 {
    match result {
        None => 0,
        Some(CheckResult::Neutral) => 1,
        Some(CheckResult::Failed) => 2,
        Some(CheckResult::Passed) => 3,
        Some(CheckResult::ConditionallyPassed) => 4,
    }
}

/// Longest description kept, in bytes.
pub(crate) const MAX_DESCRIPTION: usize = 127;

/// A finished check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// Code of the application's answer, where there was one.
    pub(crate) code: u16,
    /// What the server said, or what went wrong.
    pub(crate) description: Vec<u8>,
}

impl Outcome {
    pub(crate) fn new(status: Status, description: impl Into<Vec<u8>>) -> Self {
        let mut description = description.into();
        // The text ends at the first NUL, as texts on the wire of many protocols do.
        let end = description.iter().position(|b| *b == 0).unwrap_or(description.len());
        description.truncate(end.min(MAX_DESCRIPTION));
        Self { status, code: 0, description }
    }

    pub(crate) fn with_code(self, code: u16) -> Self {
        Self { code, ..self }
    }
}

/// Appends `text` with what is not printable, and double quotes, as `<0A>`.
pub(crate) fn push_quoted(out: &mut String, text: &[u8]) {
    use std::fmt::Write;
    for byte in text {
        if (b' '..=b'~').contains(byte) && *byte != b'"' {
            out.push(char::from(*byte));
        } else {
            // Writing to memory cannot fail.
            let _written = write!(out, "<{byte:02X}>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_results() {
        let check = |status: Status, name: &str, number: u8, result: u8| {
            let found = (status.name(), status as u8, result_number(status.result()));
            assert_eq!(found, (name, number, result));
        };
        check(Status::L4Ok, "L4OK", 6, 3);
        check(Status::L4Connection, "L4CON", 8, 2);
        check(Status::L6Response, "L6RSP", 11, 2);
        check(Status::L7OkConditional, "L7OKC", 16, 4);
        check(Status::L7Status, "L7STS", 17, 2);
        for (name, named) in CheckStatus::NAMES {
            assert_eq!(Status::from(*named).name(), *name);
        }
    }

    #[test]
    fn quoting() {
        let mut out = String::new();
        push_quoted(&mut out, b"it's \"ok\"\n");
        assert_eq!(out, "it's <22>ok<22><0A>");
    }
}
