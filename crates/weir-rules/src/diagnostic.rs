//! Where a word stands in a configuration and what may be said about it.
//!
//! Owns positions and findings; leaves rendering them (caret, colours) to the configuration crate.

use std::fmt;

/// A place in the configuration's source.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pos {
    /// Index into the list of source files.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// First column in bytes, from 1.
    pub column: u32,
    /// Length in the source, in bytes.
    pub len: u32,
}

/// One word of a configuration line after quotes, escapes and variables were resolved.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its bytes (any byte can be written with `\xHH`).
    pub text: Vec<u8>,
    /// Where it stands.
    pub pos: Pos,
}

impl Word {
    /// The word as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn as_str(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.text == other.as_bytes()
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Worth knowing.
    Notice,
    /// Probably a mistake; `-dW` makes it fatal.
    Warning,
    /// The configuration cannot be used.
    Error,
}

/// One finding: where, what, why, what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// Where.
    pub pos: Pos,
    /// What is wrong, one sentence without a final full stop.
    pub message: String,
    /// What to write instead, when it is known.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    #[must_use]
    pub fn error(pos: Pos, message: impl Into<String>) -> Self {
        Self { level: Level::Error, pos, message: message.into(), hint: None }
    }

    /// A warning at a place.
    #[must_use]
    pub fn warning(pos: Pos, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, pos, message: message.into(), hint: None }
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An unknown word, with the nearest known one as hint.
    #[must_use]
    pub fn unknown<'a>(what: &str, word: &Word, known: impl IntoIterator<Item = &'a str>) -> Self {
        let text = word.as_str();
        let found = Self::error(word.pos, format!("unknown {what} '{text}'"));
        match nearest(&text, known) {
            Some(near) => found.hint(format!("did you mean '{near}'?")),
            None => found,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.pos.line, self.pos.column, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// The known word with the smallest edit distance, when it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.len() / 3 + 1;
    let scored = known.into_iter().map(|k| (edit_distance(word.as_bytes(), k.as_bytes()), k));
    scored.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= limit).map(|(_, k)| k)
}

/// Insertions, deletions and replacements between two words (Levenshtein).
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    /// Longer words are not compared: the cost grows with the product of the lengths.
    const LONGEST_WORD: usize = 64;
    if a.len() > LONGEST_WORD || b.len() > LONGEST_WORD {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word() {
        let check = |word, expected| {
            assert_eq!(
                nearest(word, ["default_backend", "use_backend", "bind", "server"]),
                expected,
                "{word}"
            );
        };
        check("defualt_backend", Some("default_backend"));
        check("bnid", Some("bind"));
        check("servers", Some("server"));
        check("frobnicate", None);
    }
}
