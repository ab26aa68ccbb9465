//! What the program says on its standard streams.
//!
//! Owns the shape of a message (level and process number, as HAProxy writes them) and how much is said.
//! A closed or full stream is no reason to stop serving, so failures to write are dropped here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;

use crate::command_line::Verbosity;

/// Messages kept for `show startup-logs`; older ones go first.
const MAX_KEPT: usize = 1_000;

/// Writes text to the standard output.
pub(crate) fn print(text: &str) {
    write_all(std::io::stdout().lock(), text);
}

/// Writes text to the standard error stream.
pub(crate) fn complain(text: &str) {
    write_all(std::io::stderr().lock(), text);
}

fn write_all(mut stream: impl Write, text: &str) {
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok();
}

/// Messages about starting, stopping and reloading.
#[derive(Debug, Default)]
pub(crate) struct Console {
    verbosity: Verbosity,
    kept: RefCell<VecDeque<String>>,
}

/// How important a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Notice,
    Warning,
    Alert,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padded so that the process numbers line up.
        f.write_str(match self {
            Self::Notice => "[NOTICE]  ",
            Self::Warning => "[WARNING] ",
            Self::Alert => "[ALERT]   ",
        })
    }
}

impl Level {
    /// A message at this level as it is printed.
    pub(crate) fn line(self, message: &str) -> String {
        format!("{self} ({}) : {}\n", std::process::id(), message.trim_end())
    }
}

impl Console {
    /// A console that says as much as the command line asks for.
    pub(crate) fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, kept: RefCell::default() }
    }

    /// How much is said.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    pub(crate) fn notice(&self, message: &str) {
        self.say(Level::Notice, message);
    }

    pub(crate) fn warning(&self, message: &str) {
        self.say(Level::Warning, message);
    }

    pub(crate) fn alert(&self, message: &str) {
        self.say(Level::Alert, message);
    }

    /// Says it, unless the console is quiet and it is no error.
    pub(crate) fn say(&self, level: Level, message: &str) {
        let line = level.line(message);
        if level == Level::Alert || self.verbosity != Verbosity::Quiet {
            complain(&line);
        }
        self.keep(&line);
    }

    /// Remembers a line that somebody else has printed.
    pub(crate) fn keep(&self, line: &str) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(format!("{}\n", line.trim_end()));
    }

    /// Forgets what was said so far: a new start begins.
    pub(crate) fn forget(&self) {
        self.kept.borrow_mut().clear();
    }

    /// What was said since the last start began.
    pub(crate) fn startup_logs(&self) -> String {
        self.kept.borrow().iter().map(String::as_str).collect()
    }
}
