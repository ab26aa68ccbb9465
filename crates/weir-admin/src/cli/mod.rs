//! The runtime commands: what a client of a `stats socket` may ask and change.
//!
//! ```text
//! bytes > input (lines, words, payload) > command (the table, rights) > its family's file > answer > bytes
//! ```

mod certificates;

mod command;

mod connection;

mod input;

// The families of commands.

mod dynamic;

mod frontend;

mod limits;

mod ocsp;

mod patterns;

mod process;

mod reports;

mod resolvers;

mod server;

mod session;

mod sessions;

mod tables;

mod trust;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use connection::{answers, serve};
pub(crate) use patterns::Versions;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{AdminLevel, SeverityOutput};
use weir_proxy::Shared;

/// What a connection to the socket remembers between its commands.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) version: Arc<str>,
    /// Versions of maps and ACL files that wait for their commit.
    pub(crate) versions: Arc<Versions>,
    pub(crate) level: AdminLevel,
    pub(crate) mode: Mode,
    /// The time is in the prompt.
    pub(crate) timed: bool,
    pub(crate) expert: bool,
    pub(crate) experimental: bool,
    pub(crate) severity: SeverityOutput,
    /// How long the client may be silent.
    pub(crate) timeout: Duration,
}

/// How many lines a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One.
    Single,
    /// As many as the client sends.
    Interactive,
    /// The same, with a prompt.
    Prompt,
}

/// How important a message is, as syslog numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// A command as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Request {
    /// All its words.
    pub(crate) words: Vec<String>,
    /// What followed `<<`.
    pub(crate) payload: Option<Vec<u8>>,
}

impl Request {
    /// A word by its place; empty when there are not so many.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// What a command answers.
pub(crate) enum Answer {
    /// Done, without a word.
    Done,
    /// A message for people.
    Message(Severity, String),
    /// Data for tools.
    Data(String),
    /// It takes time: waiting, or asking other threads.
    Later(Pin<Box<dyn Future<Output = Self>>>),
    /// Close the connection.
    Quit,
}

impl Answer {
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Message(Severity::Error, text.into())
    }

    pub(crate) fn later(work: impl Future<Output = Self> + 'static) -> Self {
        Self::Later(Box::pin(work))
    }

    pub(crate) fn info(text: impl Into<String>) -> Self {
        Self::Message(Severity::Info, text.into())
    }

    /// For what HAProxy has and this program does not have yet.
    pub(crate) fn missing(what: &str) -> Self {
        Self::error(format!("{what}: not implemented yet."))
    }
}

impl Session {
    /// The text of an answer: an empty line ends it, and stands nowhere inside.
    pub(crate) fn render(&self, answer: &Answer) -> String {
        let mut text = match answer {
            Answer::Done | Answer::Later(_) | Answer::Quit => String::new(),
            Answer::Data(data) => data.clone(),
            Answer::Message(severity, message) => match self.severity {
                SeverityOutput::None => message.clone(),
                SeverityOutput::Number => format!("[{}]: {message}", *severity as u8),
                SeverityOutput::Word => format!("[{}]: {message}", severity.word()),
            },
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "err",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}
