//! Findings of a whole configuration and how they are shown: place, line, caret, what was expected.

use std::collections::HashSet;
use std::fmt::Write as _;

use weir_rules::{Diagnostic, Level};

use crate::language::source::Sources;

/// Most findings kept: a file that is not a configuration at all must not fill the screen.
pub const MOST_FINDINGS: usize = 200;

/// Longest part of a source line that is shown, bytes.
const LONGEST_QUOTE: usize = 160;

/// Findings in the order they were made, with the texts they point into.
#[derive(Debug, Default, Clone)]
pub struct Diagnostics {
    /// The findings.
    pub list: Vec<Diagnostic>,
    /// The texts.
    pub sources: Sources,
    /// Findings beyond [`MOST_FINDINGS`].
    pub dropped: usize,
    /// Findings already made: lines of `defaults` are read once for each proxy and must be reported once.
    seen: HashSet<(u32, u32, u32, String)>,
}

impl Diagnostics {
    /// None yet.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Adds a finding, once.
    pub fn push(&mut self, found: Diagnostic) {
        let key = (found.pos.file, found.pos.line, found.pos.column, found.message.clone());
        if self.list.len() >= MOST_FINDINGS {
            self.dropped += 1;
        } else if self.seen.insert(key) {
            self.list.push(found);
        }
    }

    /// Adds findings.
    pub fn extend(&mut self, found: impl IntoIterator<Item = Diagnostic>) {
        found.into_iter().for_each(|one| self.push(one));
    }

    /// The configuration cannot be used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|found| found.level == Level::Error)
    }

    /// Something is probably a mistake (`-dW` makes these fatal).
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.list.iter().any(|found| found.level == Level::Warning)
    }

    /// All findings as text, one block each, in the order of the files.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let mut sorted: Vec<&Diagnostic> = self.list.iter().collect();
        sorted.sort_by_key(|found| found.pos);
        let mut out = String::new();
        for found in sorted {
            self.render_one(found, color, &mut out);
        }
        if self.dropped > 0 {
            out.push_str(&format!("[ALERT]    config : and {} more findings\n", self.dropped));
        }
        out
    }

    fn render_one(&self, found: &Diagnostic, color: bool, out: &mut String) {
        let (label, paint) = match found.level {
            Level::Error => ("[ALERT]   ", "\x1b[31m"),
            Level::Warning => ("[WARNING] ", "\x1b[33m"),
            Level::Notice => ("[NOTICE]  ", "\x1b[36m"),
        };
        let (paint, plain) = if color { (paint, "\x1b[0m") } else { ("", "") };
        let pos = found.pos;
        if pos.line == 0 {
            push_line(out, format_args!("{paint}{label}{plain} config : {}", found.message));
        } else {
            let name = self.sources.name(pos);
            push_line(
                out,
                format_args!(
                    "{paint}{label}{plain} config : parsing [{name}:{}] : {}",
                    pos.line, found.message
                ),
            );
            self.quote(found, paint, plain, out);
        }
        if let Some(hint) = &found.hint {
            push_line(out, format_args!("       = {hint}"));
        }
    }

    /// The source line and a caret under the word.
    fn quote(&self, found: &Diagnostic, paint: &str, plain: &str, out: &mut String) {
        let Some(line) = self.sources.line(found.pos) else { return };
        let number = found.pos.line;
        let start = (found.pos.column as usize).saturating_sub(1);
        // Long lines are shown from a little before the word.
        let from = if start > LONGEST_QUOTE / 2 { start - LONGEST_QUOTE / 4 } else { 0 }.min(line.len());
        let to = (from + LONGEST_QUOTE).min(line.len());
        let shown: String = String::from_utf8_lossy(&line[from..to]).replace('\t', " ");
        push_line(out, format_args!("{number:>6} | {shown}"));
        let before = String::from_utf8_lossy(&line[from..start.clamp(from, line.len())]).chars().count();
        let end = start.saturating_add(found.pos.len as usize).clamp(start.min(to), to);
        let width = String::from_utf8_lossy(&line[start.clamp(from, line.len()).min(end)..end])
            .chars()
            .count()
            .max(1);
        push_line(out, format_args!("       | {}{paint}{}{plain}", " ".repeat(before), "^".repeat(width)));
    }
}

fn push_line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    if out.write_fmt(text).is_ok() {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use weir_rules::Pos;

    use super::*;

    #[test]
    fn place_line_caret_and_hint() {
        let mut found = Diagnostics::new(Sources::from_text("a.cfg", "global\n\tbnid :80\n"));
        let pos = Pos { file: 0, line: 2, column: 2, len: 4 };
        found.push(Diagnostic::error(pos, "unknown keyword 'bnid'").hint("did you mean 'bind'?"));
        found.push(Diagnostic::error(pos, "unknown keyword 'bnid'"));
        found.push(Diagnostic::warning(Pos::default(), "nothing listens"));
        assert!(found.has_errors() && found.has_warnings());
        assert_eq!(
            found.render(false),
            "[WARNING]  config : nothing listens\n\
             [ALERT]    config : parsing [a.cfg:2] : unknown keyword 'bnid'\n     2 |  bnid :80\n       |  ^^^^\n       = did you mean 'bind'?\n"
        );
        assert!(found.render(true).contains("\x1b[31m[ALERT]"));
    }
}
