//! Whether what documents say of the source is there.
//!
//! In the documents of [`DOCUMENTS`] a path in backticks is one of this repository: a file, or with `/` at its end a
//! folder. Names in backticks directly behind a file, after a comma or `and`, are what that file declares: functions,
//! types, constants, and methods with their type (`Plan::between`). So is a name that stands alone in parentheses: it
//! belongs to the file that was named last.

use std::collections::{BTreeMap, BTreeSet};

/// Documents that are held to what they say.
const DOCUMENTS: &[&str] = &["docs/life-of-a-request.md", "docs/flow-control.md", "CONTRIBUTING.md"];

/// What paths begin with: other words with a slash are none.
const TOP_FOLDERS: &[&str] = &["crates/", "xtask/", "docs/", "fuzz/"];

/// Words before a declared name. An `impl` block's type may be declared in another file.
const DECLARING: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "impl", "macro_rules!"];

/// The sources and documents seen so far.
#[derive(Default)]
pub(crate) struct Documents {
    /// All files, with the names that sources declare.
    files: BTreeMap<String, BTreeSet<String>>,
    documents: BTreeMap<String, String>,
}

impl Documents {
    /// Takes note of a file.
    pub(crate) fn see(&mut self, name: &str, text: &str) {
        let code = text.lines().filter(|line| name.ends_with(".rs") && !line.trim_start().starts_with("//"));
        self.files.insert(name.to_owned(), code.flat_map(declared).collect());
        if DOCUMENTS.contains(&name) {
            self.documents.insert(name.to_owned(), text.to_owned());
        }
    }

    /// What is wrong, one line each.
    pub(crate) fn finish(&self, wrong: &mut Vec<String>) {
        for name in DOCUMENTS.iter().filter(|name| !self.documents.contains_key(**name)) {
            wrong.push(format!("{name}: is not there"));
        }
        for (name, text) in &self.documents {
            self.check(name, text, wrong);
        }
    }

    fn check(&self, document: &str, text: &str, wrong: &mut Vec<String>) {
        let mut file: Option<(&str, &BTreeSet<String>)> = None;
        // What stands next in backticks may be the file's.
        let mut follows = false;
        for Span { line, before, code, after } in spans(text) {
            if is_path(code) {
                file = self.files.get_key_value(code).map(|(path, names)| (path.as_str(), names));
                follows = true;
                if file.is_none() && !self.is_folder(code) {
                    wrong.push(format!("{document}:{line}: there is no {code}"));
                }
                continue;
            }
            follows &= matches!(before.trim(), "," | "and" | ", and");
            let alone = before.ends_with('(') && after.starts_with(')') && is_name(code);
            if let Some((path, names)) = file.filter(|_| follows || alone)
                && !code.split("::").all(|part| names.contains(part))
            {
                wrong.push(format!("{document}:{line}: {path} declares no '{code}'"));
            }
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        path.ends_with('/') && self.files.keys().any(|file| file.starts_with(path))
    }
}

fn is_path(code: &str) -> bool {
    TOP_FOLDERS.iter().any(|top| code.starts_with(top)) && !code.contains(char::is_whitespace)
}

/// `both_ways` or `Pool::take_h1`, and not `timeout client`.
fn is_name(code: &str) -> bool {
    code.chars().all(|character| character.is_alphanumeric() || matches!(character, '_' | ':'))
}

/// What stands in backticks, and the text around it up to other backticks.
struct Span<'a> {
    line: usize,
    before: &'a str,
    code: &'a str,
    after: &'a str,
}

fn spans(text: &str) -> Vec<Span<'_>> {
    let parts: Vec<&str> = text.split('`').collect();
    let mut line = 1;
    let lines = parts.iter().map(|part| {
        let start = line;
        line += part.matches('\n').count();
        start
    });
    let lines: Vec<usize> = lines.collect();
    let spans = parts.windows(3).zip(lines.into_iter().skip(1)).step_by(2);
    spans.map(|(around, line)| Span { line, before: around[0], code: around[1], after: around[2] }).collect()
}

/// Names that a line of source declares.
fn declared(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |at: usize| {
        // `impl<'a> Owner<'a>`, `impl Drop for Held`, `fn f<T>(...)`
        let rest = &words[at + 1..];
        let own = rest.iter().position(|word| *word == "for").filter(|_| words[at] == "impl");
        rest.get(own.map_or(0, |own| own + 1)).map(|word| name_of(word))
    };
    let declares = |at: &usize| {
        let word = words[*at].split('<').next().unwrap_or_default();
        DECLARING.contains(&word)
    };
    (0..words.len()).filter(declares).filter_map(after).filter(|name| !name.is_empty()).collect()
}

fn name_of(word: &str) -> String {
    word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "crates/a/src/life.rs";
    const CODE: &str = "// fn stage() is gone\npub(crate) async fn stages(x: &mut X) {}\nstruct Work(u16);\n\
                        impl<'a> Owner<'a> {\n    pub(crate) const REQUEST: Self = 1;\n}\nimpl Drop for Held {}\n";

    fn found(text: &str) -> Vec<String> {
        let mut documents = Documents::default();
        documents.see(SOURCE, CODE);
        for name in DOCUMENTS {
            documents.see(name, if *name == "CONTRIBUTING.md" { text } else { "" });
        }
        let mut wrong = Vec::new();
        documents.finish(&mut wrong);
        wrong
    }

    #[test]
    fn paths_are_there() {
        assert_eq!(found("see `crates/a/src/life.rs` in `crates/a/`"), [""; 0]);
        assert_eq!(
            found("a\n`crates/a/src/gone.rs`"),
            ["CONTRIBUTING.md:2: there is no crates/a/src/gone.rs"]
        );
        assert_eq!(found("`crates/b/`").len(), 1);
        // Words of the configuration, media types, and commands are no paths.
        assert_eq!(found("`text/html`, `life.rs` and `cargo xtask check crates/b.rs`"), [""; 0]);
    }

    #[test]
    fn names_behind_a_path_are_declared_in_it() {
        let check = |names: &str, wrong: usize| {
            let text = format!("(`{SOURCE}`, {names})");
            assert_eq!(found(&text).len(), wrong, "{text}");
        };
        check("`stages`", 0);
        check("`stages`,\n`Work` and `Owner::REQUEST`", 0);
        check("`Held`, and `stages`", 0);
        check("`stage`", 1);
        check("`stages` and `Work::REQUESTS`", 1);
        check("which waits for `timeout client`", 0);
        check("`stages` for `timeout client`, `rare`", 0);
        // Alone in parentheses.
        check("`stages`) runs (`Work`", 0);
        check("`stages`) waits (`timeout client`", 0);
        check("`stages`) runs (`rare`", 1);
        check("`stages`) runs rarely (`rare` or not", 0);
    }

    #[test]
    fn documents_have_to_be_there() {
        let mut wrong = Vec::new();
        Documents::default().finish(&mut wrong);
        assert_eq!(wrong.len(), DOCUMENTS.len());
    }
}
