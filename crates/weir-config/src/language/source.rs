//! The texts a configuration is made of: their names, their lines, where a position points.
//!
//! Owns file names and contents for as long as findings may have to quote them; reading from disk is
//! [`crate::language::files`]'s.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::{memchr, memmem};
use weir_rules::Pos;

use crate::language::files;

/// One configuration file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its name as given on the command line.
    pub name: Arc<str>,
    /// Its bytes.
    pub text: Arc<[u8]>,
}

/// All files of a configuration, in the order they are read; `Pos::file` is an index into them.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// One text under a name, for tests and for `-cc`.
    #[must_use]
    pub fn from_text(name: &str, text: impl Into<Vec<u8>>) -> Self {
        Self { files: vec![SourceFile { name: name.into(), text: text.into().into() }] }
    }

    /// Reads files; a folder stands for its `*.cfg` files in the order of their names.
    ///
    /// # Errors
    /// A sentence about each file that cannot be read.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Vec<String>> {
        let mut sources = Self::default();
        let mut problems = Vec::new();
        for path in paths {
            let found = if path.is_dir() { files::configurations_in(path) } else { Ok(vec![path.clone()]) };
            match found {
                Ok(found) => found.iter().for_each(|file| sources.add(file, &mut problems)),
                Err(error) => problems.push(format!("cannot list '{}': {error}", path.display())),
            }
        }
        if problems.is_empty() { Ok(sources) } else { Err(problems) }
    }

    fn add(&mut self, path: &Path, problems: &mut Vec<String>) {
        match files::read(path) {
            Ok(text) => {
                let name = path.display().to_string().into();
                self.files.push(SourceFile { name, text: text.into() });
            }
            Err(error) => {
                problems.push(format!("cannot open configuration file '{}': {error}", path.display()));
            }
        }
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Name of the file a position is in.
    #[must_use]
    pub fn name(&self, pos: Pos) -> &str {
        self.files.get(pos.file as usize).map_or("", |file| &file.name)
    }

    /// The place of a word in the line a position is on: of a path as much as the line has of it.  The whole line where
    /// the word is not in it, as when it comes from a variable.
    #[must_use]
    pub fn locate(&self, pos: Pos, word: &str) -> Pos {
        let Some(line) = self.line(pos) else { return pos };
        let name = word.rsplit('/').next().unwrap_or_default();
        let found = [word, name].into_iter().filter(|word| !word.is_empty()).find_map(|word| {
            let at = memmem::find(line, word.as_bytes())?;
            Some((at, word.len()))
        });
        let text = line.trim_ascii();
        let (at, len) = found.unwrap_or_else(|| (line.len() - line.trim_ascii_start().len(), text.len()));
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Pos { column: number(at + 1), len: number(len), ..pos }
    }

    /// The line a position is on, without its end.
    #[must_use]
    pub fn line(&self, pos: Pos) -> Option<&[u8]> {
        let file = self.files.get(pos.file as usize)?;
        let mut rest: &[u8] = &file.text;
        for _ in 1..pos.line {
            rest = &rest[memchr(b'\n', rest)? + 1..];
        }
        let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
        (pos.line > 0).then(|| line.strip_suffix(b"\r").unwrap_or(line))
    }
}
