//! Sections and their lines, as written: conditional blocks are resolved, nothing is understood yet.
//!
//! Owns section headers, `.if` blocks, messages (`.warning` and its like) and the environment keywords of `global`,
//! because they decide how the following lines are read.

use weir_rules::{Diagnostic, Level, Pos, Word};

use crate::language::address;
use crate::language::conditional;
use crate::language::diagnostics::Diagnostics;
use crate::language::environment::Environment;
use crate::language::lexer::{self, LineContext};
use crate::language::source::{SourceFile, Sources};

/// Deepest nesting of `.if`, as in HAProxy.
const DEEPEST_BLOCK: usize = 16;

/// Kinds of sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs, reason = "each variant is the section of the same name")]
pub enum SectionKind {
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
    Userlist,
    Peers,
    Resolvers,
    Mailers,
    Cache,
    Ring,
    LogForward,
    LogProfile,
    HttpErrors,
    CrtStore,
    Program,
    FcgiApp,
    Traces,
    Acme,
    Healthcheck,
}

/// Whether a section has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Naming {
    Never,
    Optional,
    Required,
}

/// Word, kind, naming, what it is for.
const SECTIONS: &[(&str, SectionKind, Naming, &str)] = &[
    ("global", SectionKind::Global, Naming::Never, "Settings of the process"),
    ("defaults", SectionKind::Defaults, Naming::Optional, "Settings that following proxies start from"),
    ("frontend", SectionKind::Frontend, Naming::Required, "Where clients connect"),
    ("backend", SectionKind::Backend, Naming::Required, "Servers that requests are sent to"),
    ("listen", SectionKind::Listen, Naming::Required, "A frontend and a backend in one section"),
    ("userlist", SectionKind::Userlist, Naming::Required, "Users, groups and passwords"),
    ("peers", SectionKind::Peers, Naming::Required, "Processes that share stick tables"),
    ("resolvers", SectionKind::Resolvers, Naming::Required, "Name servers"),
    ("mailers", SectionKind::Mailers, Naming::Required, "Mail servers for alerts"),
    ("cache", SectionKind::Cache, Naming::Required, "A cache for small responses"),
    ("ring", SectionKind::Ring, Naming::Required, "A buffer for log lines"),
    ("log-forward", SectionKind::LogForward, Naming::Required, "A relay of syslog messages"),
    ("log-profile", SectionKind::LogProfile, Naming::Required, "Log formats by stage of a request"),
    ("http-errors", SectionKind::HttpErrors, Naming::Required, "A set of error responses"),
    ("crt-store", SectionKind::CrtStore, Naming::Optional, "Certificates under names"),
    ("program", SectionKind::Program, Naming::Required, "A program run beside the process"),
    ("fcgi-app", SectionKind::FcgiApp, Naming::Required, "How to talk to a FastCGI application"),
    ("traces", SectionKind::Traces, Naming::Never, "Debugging traces"),
    ("acme", SectionKind::Acme, Naming::Required, "A certificate authority that issues automatically"),
    ("healthcheck", SectionKind::Healthcheck, Naming::Required, "A health check under a name"),
];

impl SectionKind {
    /// The word that starts the section.
    #[must_use]
    pub fn word(self) -> &'static str {
        SECTIONS.iter().find(|(_, kind, ..)| *kind == self).map_or("", |(word, ..)| word)
    }

    /// What the section is for.
    #[must_use]
    pub fn doc(self) -> &'static str {
        SECTIONS.iter().find(|(_, kind, ..)| *kind == self).map_or("", |(.., doc)| doc)
    }

    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        SECTIONS.iter().map(|(_, kind, ..)| *kind)
    }

    /// frontend, backend or listen.
    #[must_use]
    pub fn is_proxy(self) -> bool {
        matches!(self, Self::Frontend | Self::Backend | Self::Listen)
    }
}

/// A line of a section.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its words, at least one.
    pub words: Vec<Word>,
}

/// A section.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its kind.
    pub kind: SectionKind,
    /// Its name; empty without.
    pub name: String,
    /// Where the name stands, or the keyword.
    pub pos: Pos,
    /// `from NAME`: the defaults section to start from.
    pub from: Option<Word>,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Splits sources into sections; `env` is changed by `setenv` and its like.
#[must_use]
pub fn parse(sources: &Sources, env: &mut Environment, diagnostics: &mut Diagnostics) -> Vec<Section> {
    let mut reader = Reader { env, diagnostics, sections: Vec::new(), blocks: Vec::new(), open: false };
    for (index, file) in sources.files().iter().enumerate() {
        reader.file(u32::try_from(index).unwrap_or(u32::MAX), file);
    }
    reader.sections
}

/// State of an open `.if`.
struct Block {
    /// Lines are read.
    active: bool,
    /// A branch was taken, or the whole block is inside one that is skipped.
    done: bool,
    /// `.else` was seen.
    last: bool,
    pos: Pos,
}

struct Reader<'a> {
    env: &'a mut Environment,
    diagnostics: &'a mut Diagnostics,
    sections: Vec<Section>,
    blocks: Vec<Block>,
    /// The last section may get lines (a file's end closes it).
    open: bool,
}

impl Reader<'_> {
    fn file(&mut self, index: u32, file: &SourceFile) {
        self.open = false;
        let text = file.text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&file.text);
        for (number, line) in text.split(|b| *b == b'\n').enumerate() {
            let number = u32::try_from(number + 1).unwrap_or(u32::MAX);
            self.line(index, number, file, line);
        }
        for block in std::mem::take(&mut self.blocks) {
            self.error(block.pos, "this '.if' has no '.endif'");
        }
    }

    fn error(&mut self, pos: Pos, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(pos, message));
    }

    fn skipping(&self) -> bool {
        self.blocks.last().is_some_and(|block| !block.active)
    }

    fn line(&mut self, file: u32, number: u32, source: &SourceFile, text: &[u8]) {
        if self.skipping() && !text.trim_ascii_start().starts_with(b".") {
            return;
        }
        let section = match self.sections.last() {
            Some(section) if self.open && section.name.is_empty() => section.kind.word(),
            Some(section) if self.open => &section.name,
            _ => "",
        };
        let context = LineContext { env: self.env, file, line: number, file_name: &source.name, section };
        let words = match lexer::split(text, &context) {
            Ok(words) => words,
            Err(found) => return self.diagnostics.push(found),
        };
        let Some(first) = words.first() else { return };
        if first.text.first() == Some(&b'.') {
            self.directive(&words);
        } else if !self.skipping() {
            self.statement(words);
        }
    }

    fn directive(&mut self, words: &[Word]) {
        let pos = words[0].pos;
        match words[0].text.as_slice() {
            b".if" => self.open_block(words),
            b".elif" => self.next_branch(words),
            b".else" => self.last_branch(words),
            b".endif" => {
                if self.blocks.pop().is_none() {
                    self.error(pos, "'.endif' without '.if'");
                }
            }
            _ if self.skipping() => {}
            b".diag" if self.env.diagnostic_mode => self.message(Level::Notice, words),
            b".diag" => {}
            b".notice" => self.message(Level::Notice, words),
            b".warning" => self.message(Level::Warning, words),
            b".alert" => self.message(Level::Error, words),
            _ => {
                let known = [".if", ".elif", ".else", ".endif", ".diag", ".notice", ".warning", ".alert"];
                self.diagnostics.push(Diagnostic::unknown("directive", &words[0], known));
            }
        }
    }

    fn condition(&mut self, words: &[Word]) -> bool {
        let texts: Vec<&[u8]> = words[1..].iter().map(|word| word.text.as_slice()).collect();
        match conditional::eval_condition(&String::from_utf8_lossy(&texts.join(&b' ')), self.env) {
            Ok(holds) => holds,
            Err(error) => {
                let pos = words.get(1).map_or(words[0].pos, |word| word.pos);
                self.diagnostics.push(conditional::finding(pos, error));
                false
            }
        }
    }

    fn open_block(&mut self, words: &[Word]) {
        if self.blocks.len() >= DEEPEST_BLOCK {
            self.error(words[0].pos, format!("'.if' is nested more than {DEEPEST_BLOCK} levels deep"));
        }
        let outer = self.skipping();
        let active = !outer && self.condition(words);
        self.blocks.push(Block { active, done: outer || active, last: false, pos: words[0].pos });
    }

    fn next_branch(&mut self, words: &[Word]) {
        let Some(block) = self.blocks.last() else {
            return self.error(words[0].pos, "'.elif' without '.if'");
        };
        if block.last {
            return self.error(words[0].pos, "'.elif' after '.else'");
        }
        let active = !block.done && self.condition(words);
        if let Some(block) = self.blocks.last_mut() {
            block.active = active;
            block.done |= active;
        }
    }

    fn last_branch(&mut self, words: &[Word]) {
        let Some(block) = self.blocks.last_mut() else {
            return self.error(words[0].pos, "'.else' without '.if'");
        };
        if block.last {
            return self.error(words[0].pos, "a second '.else'");
        }
        block.active = !block.done;
        block.done = true;
        block.last = true;
    }

    fn message(&mut self, level: Level, words: &[Word]) {
        let text = crate::language::args::joined(&words[1..]);
        self.diagnostics.push(Diagnostic { level, pos: words[0].pos, message: text, hint: None });
    }

    fn statement(&mut self, mut words: Vec<Word>) {
        let address = address::position(&words[0].text).and_then(|at| words.get_mut(at));
        if let Some(word) = address
            && let Some(expanded) = address::expand(&word.text, |name| self.env.get(name))
        {
            word.text = expanded;
        }
        let first = words[0].as_str();
        if let Some((_, kind, naming, _)) = SECTIONS.iter().find(|(word, ..)| *word == first) {
            return self.section(*kind, *naming, &words);
        }
        if !self.open {
            let known = SECTIONS.iter().map(|(word, ..)| *word);
            let found =
                Diagnostic::error(words[0].pos, format!("keyword '{first}' stands outside of a section"));
            let near = weir_rules::words::diagnostic::nearest(&first, known);
            let hint = near.map_or_else(
                || "start with a section such as 'frontend web'".to_owned(),
                |n| format!("did you mean '{n}'?"),
            );
            return self.diagnostics.push(found.hint(hint));
        }
        if self.sections.last().is_some_and(|section| section.kind == SectionKind::Global)
            && self.environment(&words)
        {
            return;
        }
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(Line { words });
        }
    }

    fn section(&mut self, kind: SectionKind, naming: Naming, words: &[Word]) {
        self.open = true;
        let mut rest = &words[1..];
        let mut section =
            Section { kind, name: String::new(), pos: words[0].pos, from: None, lines: Vec::new() };
        if naming != Naming::Never
            && rest.first().is_some_and(|word| *word != "from" || naming == Naming::Required)
        {
            section.name = rest[0].as_str().into_owned();
            section.pos = rest[0].pos;
            self.check_name(&rest[0], kind);
            rest = &rest[1..];
        } else if naming == Naming::Required {
            self.diagnostics.push(
                Diagnostic::error(words[0].pos, format!("a '{}' section needs a name", kind.word()))
                    .hint(format!("for instance '{} web'", kind.word())),
            );
        }
        let inherits = kind.is_proxy() || kind == SectionKind::Defaults;
        if inherits && rest.first().is_some_and(|word| *word == "from") {
            section.from = rest.get(1).cloned();
            if section.from.is_none() {
                self.error(rest[0].pos, "'from' needs the name of a defaults section");
            }
            rest = rest.get(2..).unwrap_or_default();
        }
        if let Some(extra) = rest.first() {
            self.unexpected(kind, extra);
        }
        self.sections.push(section);
    }

    /// A word after a section's name: once it was the address that the section listened on.
    fn unexpected(&mut self, kind: SectionKind, extra: &Word) {
        let message = format!("unexpected '{}' after the section's name", extra.as_str());
        // HAProxy reads these lines no further.
        let lenient = matches!(kind, SectionKind::Backend | SectionKind::Mailers | SectionKind::Resolvers);
        let found = match lenient {
            true => Diagnostic::warning(extra.pos, message),
            false => Diagnostic::error(extra.pos, message),
        };
        let address = kind.is_proxy() && extra.text.contains(&b':');
        self.diagnostics.push(if address {
            found.hint(format!("addresses stand in lines of their own: 'bind {}'", extra.as_str()))
        } else {
            found
        });
    }

    fn check_name(&mut self, word: &Word, kind: SectionKind) {
        let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b':' | b'-' | b'_');
        let strict = kind.is_proxy() || kind == SectionKind::Defaults;
        if let Some(bad) = word.text.iter().find(|b| strict && !allowed(b)) {
            let bad = char::from(*bad);
            self.diagnostics.push(
                Diagnostic::error(
                    word.pos,
                    format!("character '{bad}' is not allowed in the name '{}'", word.as_str()),
                )
                .hint("letters, digits, '.', ':', '-' and '_' are"),
            );
        }
    }

    /// `setenv` and its like act at once: the following lines may name the variables.
    fn environment(&mut self, words: &[Word]) -> bool {
        let keyword = words[0].as_str();
        let argument = |index: usize| words.get(index).map(|word| word.text.as_slice());
        match (&*keyword, argument(1), argument(2)) {
            ("setenv", Some(name), Some(value)) => self.env.set(name, value),
            ("presetenv", Some(name), Some(value)) => {
                if self.env.get(name).is_none() {
                    self.env.set(name, value);
                }
            }
            ("setenv" | "presetenv", ..) => {
                self.error(words[0].pos, format!("'{keyword}' expects a name and a value"));
            }
            ("unsetenv", Some(_), _) => words[1..].iter().for_each(|word| self.env.unset(&word.text)),
            ("unsetenv", None, _) => self.error(words[0].pos, "'unsetenv' expects at least one name"),
            ("resetenv", ..) => {
                let kept: Vec<&[u8]> = words[1..].iter().map(|word| word.text.as_slice()).collect();
                self.env.keep_only(&kept);
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Section>, Vec<String>) {
        let sources = Sources::from_text("t.cfg", text);
        let mut diagnostics = Diagnostics::new(sources.clone());
        let mut env = Environment::from_variables([(b"A".to_vec(), b"1".to_vec())], "here");
        let sections = parse(&sources, &mut env, &mut diagnostics);
        (sections, diagnostics.list.iter().map(ToString::to_string).collect())
    }

    fn lines(text: &str) -> Vec<String> {
        let (sections, errors) = read(text);
        assert_eq!(errors, Vec::<String>::new());
        let all = sections.iter().flat_map(|s| &s.lines);
        all.map(|line| crate::language::args::joined(&line.words)).collect()
    }

    #[test]
    fn blocks() {
        let check = |text: &str, expected: &[&str]| assert_eq!(lines(text), expected, "{text}");
        check("global\n.if 1\n a\n.else\n b\n.endif\n c", &["a", "c"]);
        check("global\n.if 0\n a\n.elif defined(A)\n b\n.elif 1\n c\n.else\n d\n.endif", &["b"]);
        check("global\n.if 0\n.if 1\n a\n.else\n b\n.endif\n.else\n c\n.endif", &["c"]);
        check("global\n setenv B 2\n.if streq(\"$B\",2)\n a \"$B\"\n.endif", &["a 2"]);
        check("global\n presetenv A 2\n unsetenv Z\n.if streq(\"$A\",1)\n a\n.endif", &["a"]);
        check("global\n resetenv\n.if !defined(A)\n a\n.endif", &["a"]);
        check("global\n.if 0\n \"open\n.endif", &[]);
        check("frontend f\n x \"$.SECTION\" \"$.LINE\"\nglobal\n y \"$.SECTION\"", &["x f 2", "y global"]);
    }

    #[test]
    fn what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let (_, errors) = read(text);
            assert!(errors.iter().any(|e| e.contains(expected)), "{text}: {errors:?}");
        };
        check("mode http", "outside of a section");
        check("frontend", "needs a name");
        check("frontend a b", "unexpected 'b'");
        check("frontend a from", "needs the name");
        check("frontend a/b", "'/' is not allowed");
        check(".if 1\nglobal", "no '.endif'");
        check(".endif", "without '.if'");
        check(".if 1\n.else\n.else\n.endif", "second '.else'");
        check(".if 1\n.else\n.elif 1\n.endif", "after '.else'");
        check(".if nosuch()\n.endif", "unknown predicate");
        check(".alert stop here", "stop here");
        check("global\n setenv A", "a name and a value");
        check(".fi", "unknown directive '.fi'");
        check("frontned web", "did you mean 'frontend'?");
    }

    #[test]
    fn headers() {
        let (sections, errors) = read("defaults\ndefaults a from b\nbackend x from a\ncrt-store\n");
        assert_eq!(errors, Vec::<String>::new());
        let names: Vec<_> = sections.iter().map(|s| (s.kind.word(), s.name.as_str())).collect();
        assert_eq!(names, [("defaults", ""), ("defaults", "a"), ("backend", "x"), ("crt-store", "")]);
        assert_eq!(sections[2].from.as_ref().map(|w| w.as_str().into_owned()), Some("a".into()));
    }
}
