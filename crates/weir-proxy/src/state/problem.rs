//! What is wrong with a configuration that only shows when its names and files are looked up, and where it stands.

use std::path::Path;

use weir_rules::{Level, Pos};

/// One finding: a sentence, the line that it is about, and the word of that line that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub level: Level,
    /// The line; its column and length are of no account.
    pub pos: Pos,
    /// What is looked for in the line: a name, or a file as it was found, which the line may call by a part of its path.
    pub word: Option<String>,
    /// What is wrong, one sentence without a final full stop.
    pub message: String,
}

impl Problem {
    /// Something that keeps the configuration from being served.
    #[must_use]
    pub fn error(pos: Pos, message: impl Into<String>) -> Self {
        Self { level: Level::Error, pos, word: None, message: message.into() }
    }

    /// Something that is worth knowing.
    #[must_use]
    pub fn notice(pos: Pos, message: impl Into<String>) -> Self {
        Self { level: Level::Notice, ..Self::error(pos, message) }
    }

    /// Something that is probably a mistake.
    #[must_use]
    pub fn warning(pos: Pos, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(pos, message) }
    }

    /// Adds the word that is meant.
    #[must_use]
    pub fn about(mut self, word: impl Into<String>) -> Self {
        self.word = Some(word.into());
        self
    }

    /// Adds the file that is meant.
    #[must_use]
    pub fn about_file(self, file: &Path) -> Self {
        self.about(file.to_string_lossy())
    }
}

/// Whether the configuration can be served all the same.
#[must_use]
pub fn are_harmless(found: &[Problem]) -> bool {
    found.iter().all(|problem| problem.level != Level::Error)
}
