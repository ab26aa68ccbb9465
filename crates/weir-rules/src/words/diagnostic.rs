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
    let pattern = Pattern::new(word.as_bytes())?;
    let mut best = None;
    // A file full of unknown words compares each of them with every keyword: most are ruled out by their length.
    let mut limit = word.len() / 3 + 1;
    for candidate in known.into_iter().filter(|known| known.len() <= LONGEST_WORD) {
        if candidate.len().abs_diff(word.len()) > limit {
            continue;
        }
        let distance = pattern.distance(candidate.as_bytes());
        if distance < limit || (distance == limit && best.is_none()) {
            (limit, best) = (distance, Some(candidate));
        }
    }
    best
}

/// Longer words are not compared: a column of the table is the bits of one integer.
const LONGEST_WORD: usize = 64;

/// A word made ready to be compared with many.
struct Pattern {
    /// Bit i of a byte's mask: the word's letter i is that byte.
    masks: [u64; 256],
    len: usize,
}

impl Pattern {
    /// None for words that are empty or too long.
    fn new(word: &[u8]) -> Option<Self> {
        if word.is_empty() || word.len() > LONGEST_WORD {
            return None;
        }
        let mut masks = [0; 256];
        for (i, byte) in word.iter().enumerate() {
            masks[usize::from(*byte)] |= 1 << i;
        }
        Some(Self { masks, len: word.len() })
    }

    /// Insertions, deletions and replacements between two words (Levenshtein): a column of the table at a time, as
    /// the differences between its neighbours (Myers 1999, Hyyrö 2003).
    fn distance(&self, other: &[u8]) -> usize {
        let last = 1 << (self.len - 1);
        let (mut up, mut down) = (u64::MAX, 0);
        let mut distance = self.len;
        for byte in other {
            let equal = self.masks[usize::from(*byte)];
            let diagonal = (((equal & up).wrapping_add(up)) ^ up) | equal | down;
            let right_up = down | !(diagonal | up);
            let right_down = diagonal & up;
            distance += usize::from(right_up & last != 0);
            distance -= usize::from(right_down & last != 0);
            let right_up = right_up << 1 | 1;
            up = (right_down << 1) | !(diagonal | right_up);
            down = right_up & diagonal;
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word() {
        let check = |word: &str, expected| {
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
        check("", None);
        check(&"bind".repeat(20), None);
    }

    /// The table itself.
    fn distance_by_table(a: &[u8], b: &[u8]) -> usize {
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

    proptest::proptest! {
        #[test]
        fn distances_are_those_of_the_table(a in "[a-d]{1,64}", b in "[a-d]{0,64}") {
            let pattern = Pattern::new(a.as_bytes()).unwrap();
            proptest::prop_assert_eq!(
                pattern.distance(b.as_bytes()),
                distance_by_table(a.as_bytes(), b.as_bytes())
            );
        }
    }
}
