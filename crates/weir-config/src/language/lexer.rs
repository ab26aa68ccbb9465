//! One line to its words: quotes, escapes, comments, environment variables (section 2.2 and 2.3 of the manual).
//!
//! A total function: any bytes give words or findings.

use weir_rules::{Diagnostic, Pos, Word};

use crate::language::environment::Environment;

/// Most words of one line: a bound on memory, far above any real line.
pub const MOST_WORDS: usize = 4096;

/// Longest word after expansion, bytes.
const LONGEST_WORD: usize = 1 << 20;

/// What a line is read with.
pub struct LineContext<'a> {
    /// Source of variables.
    pub env: &'a Environment,
    /// Index of the file, and the line's number from 1.
    pub file: u32,
    /// Number of the line from 1.
    pub line: u32,
    /// Name of the file (`.FILE`).
    pub file_name: &'a str,
    /// Name of the section, or its type when it has none (`.SECTION`).
    pub section: &'a str,
}

impl LineContext<'_> {
    fn pos(&self, start: usize, end: usize) -> Pos {
        let len = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX);
        let column = u32::try_from(start + 1).unwrap_or(u32::MAX);
        Pos { file: self.file, line: self.line, column, len }
    }

    fn variable(&self, name: &[u8]) -> Option<Vec<u8>> {
        match name {
            b".FILE" => Some(self.file_name.as_bytes().to_vec()),
            b".LINE" => Some(self.line.to_string().into_bytes()),
            b".SECTION" => Some(self.section.as_bytes().to_vec()),
            _ => self.env.get(name).map(<[u8]>::to_vec),
        }
    }
}

/// Splits a line (without its line feed) into words.
///
/// # Errors
/// The first thing that cannot be read: an open quote, a bad escape, a bad variable.
pub fn split(line: &[u8], context: &LineContext<'_>) -> Result<Vec<Word>, Diagnostic> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut lexer = Lexer { line, at: 0, context, words: Vec::new(), word: None };
    lexer.run()?;
    Ok(lexer.words)
}

struct Lexer<'a> {
    line: &'a [u8],
    at: usize,
    context: &'a LineContext<'a>,
    words: Vec<Word>,
    /// The word being built: its bytes and where it starts.
    word: Option<(Vec<u8>, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Weak,
    Strong,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), Diagnostic> {
        let mut quote = Quote::None;
        let mut opened = 0;
        while let Some(byte) = self.peek(0) {
            let start = self.at;
            match (byte, quote) {
                (b'#', Quote::None) => break,
                (b' ' | b'\t', Quote::None) => {
                    self.at += 1;
                    self.finish_word(start)?;
                }
                (b'"', Quote::None) | (b'\'', Quote::None) => {
                    self.open();
                    opened = start;
                    quote = if byte == b'"' { Quote::Weak } else { Quote::Strong };
                    self.at += 1;
                }
                (b'"', Quote::Weak) | (b'\'', Quote::Strong) => {
                    quote = Quote::None;
                    self.at += 1;
                }
                (b'\\', Quote::None | Quote::Weak) => self.escape()?,
                (b'$', Quote::Weak) => self.expand()?,
                (b'$', Quote::None) if self.peek(1) == Some(b'{') && self.is_address() => self.expand()?,
                _ => {
                    self.push(byte);
                    self.at += 1;
                }
            }
        }
        if quote != Quote::None {
            let (what, mark) = if quote == Quote::Weak { ("double", '"') } else { ("single", '\'') };
            let pos = self.context.pos(opened, opened + 1);
            return Err(Diagnostic::error(pos, format!("{what} quote opened here is not closed"))
                .hint(format!("add a {mark} or escape this one with a backslash")));
        }
        self.finish_word(self.at)
    }

    /// The word being built is the address of its line: variables stand for their values there even outside
    /// of quotes (section 2.9 of the manual).
    fn is_address(&self) -> bool {
        let at = match self.words.first().map(|word| word.text.as_slice()) {
            Some(b"bind" | b"dispatch" | b"log" | b"source") => 1,
            Some(b"server" | b"peer" | b"nameserver" | b"mailer") => 2,
            _ => return false,
        };
        self.words.len() == at
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.line.get(self.at + ahead).copied()
    }

    fn open(&mut self) {
        let at = self.at;
        self.word.get_or_insert_with(|| (Vec::new(), at));
    }

    fn push(&mut self, byte: u8) {
        let at = self.at;
        self.word.get_or_insert_with(|| (Vec::new(), at)).0.push(byte);
    }

    fn finish_word(&mut self, end: usize) -> Result<(), Diagnostic> {
        let Some((text, start)) = self.word.take() else { return Ok(()) };
        let pos = self.context.pos(start, end);
        if self.words.len() >= MOST_WORDS {
            return Err(Diagnostic::error(pos, format!("more than {MOST_WORDS} words on one line")));
        }
        if text.len() > LONGEST_WORD {
            return Err(Diagnostic::error(pos, format!("a word longer than {LONGEST_WORD} bytes")));
        }
        self.words.push(Word { text, pos });
        Ok(())
    }

    /// A backslash outside of single quotes; pairs that mean nothing stay as they are (regular expressions need them).
    fn escape(&mut self) -> Result<(), Diagnostic> {
        let Some(next) = self.peek(1) else {
            // Lines cannot be continued.
            self.push(b'\\');
            self.at += 1;
            return Ok(());
        };
        let plain = match next {
            b' ' | b'\t' | b'\\' | b'#' | b'\'' | b'"' | b'$' => next,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => return self.hexadecimal(),
            _ => {
                self.push(b'\\');
                self.push(next);
                self.at += 2;
                return Ok(());
            }
        };
        self.push(plain);
        self.at += 2;
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<(), Diagnostic> {
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(self.peek(2)), digit(self.peek(3))) else {
            let pos = self.context.pos(self.at, (self.at + 4).min(self.line.len()));
            return Err(
                Diagnostic::error(pos, "'\\x' needs two hexadecimal digits").hint("for instance \\x20")
            );
        };
        self.push((high * 16 + low) as u8);
        self.at += 4;
        Ok(())
    }

    /// `$NAME`, `${NAME}`, `${NAME-default}`, `${NAME[*]}` inside double quotes.
    fn expand(&mut self) -> Result<(), Diagnostic> {
        let start = self.at;
        let brace = self.peek(1) == Some(b'{');
        let name_start = start + 1 + usize::from(brace);
        let mut end = name_start;
        let starts_name = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'.';
        if !self.line.get(end).copied().is_some_and(starts_name) {
            let pos = self.context.pos(start, (end + 1).min(self.line.len()));
            return Err(Diagnostic::error(pos, "a variable's name must follow '$' inside double quotes")
                .hint("write \\$ for a dollar, or use single quotes"));
        }
        end += 1;
        while self.line.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            end += 1;
        }
        let name = &self.line[name_start..end];
        let mut value = self.context.variable(name);
        let mut split = false;
        if brace {
            if self.line[end..].starts_with(b"[*]") {
                split = true;
                end += 3;
            }
            if self.line.get(end) == Some(&b'-') {
                let close = self.closing_brace(end, start)?;
                value = value.or_else(|| Some(self.line[end + 1..close].to_vec()));
                end = close;
            }
            if self.line.get(end) != Some(&b'}') {
                return Err(self.no_brace(start, end));
            }
            end += 1;
        }
        self.open();
        self.at = end;
        let value = value.unwrap_or_default();
        if split { self.insert_words(&value, start, end) } else { self.insert(&value) }
    }

    fn closing_brace(&self, from: usize, start: usize) -> Result<usize, Diagnostic> {
        let found = self.line[from..].iter().position(|b| *b == b'}');
        found.map(|at| from + at).ok_or_else(|| self.no_brace(start, self.line.len()))
    }

    fn no_brace(&self, start: usize, end: usize) -> Diagnostic {
        let pos = self.context.pos(start, end.min(self.line.len()));
        Diagnostic::error(pos, "missing '}' after the variable's name")
            .hint("write \"${NAME}\" or \"${NAME-default}\"")
    }

    fn insert(&mut self, value: &[u8]) -> Result<(), Diagnostic> {
        let at = self.at;
        let word = self.word.get_or_insert_with(|| (Vec::new(), at));
        word.0.extend_from_slice(value);
        if word.0.len() > LONGEST_WORD {
            let pos = self.context.pos(word.1, at);
            return Err(Diagnostic::error(pos, format!("a word longer than {LONGEST_WORD} bytes")));
        }
        Ok(())
    }

    /// The parts of a value between spaces become words of their own.
    fn insert_words(&mut self, value: &[u8], start: usize, end: usize) -> Result<(), Diagnostic> {
        let mut parts = value.split(|b| b.is_ascii_whitespace()).filter(|part| !part.is_empty());
        if let Some(first) = parts.next() {
            self.insert(first)?;
        }
        for part in parts {
            self.finish_word(end)?;
            self.word = Some((part.to_vec(), start));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &[u8]) -> Result<Vec<String>, String> {
        let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
        let env = Environment::from_variables([pair("A", "x y"), pair("E", "")], "here");
        let context = LineContext { env: &env, file: 0, line: 7, file_name: "f.cfg", section: "web" };
        let found = split(line, &context).map_err(|d| d.message)?;
        Ok(found.iter().map(|w| w.as_str().into_owned()).collect())
    }

    #[test]
    fn lines_to_words() {
        let check = |line: &str, expected: &[&str]| {
            assert_eq!(words(line.as_bytes()).unwrap(), expected, "{line}");
        };
        check("", &[]);
        check("  # comment", &[]);
        check("global#this is the global section", &["global"]);
        check("\tmode\t http  # or tcp", &["mode", "http"]);
        check(r"a\ b \# \' \t", &["a b", "#", "'", "\t"]);
        check(r"path_reg ^/a\.b$", &["path_reg", r"^/a\.b$"]);
        check("lines do not go on \\", &["lines", "do", "not", "go", "on", "\\"]);
        check(r#""a b"' c'd"#, &["a b cd"]);
        check(r#""" x"#, &["", "x"]);
        check(r"'\n$A'", &[r"\n$A"]);
        check(r"\x41\x20", &["A "]);
        check(r#""$A" $A "${A}z" "${A[*]}z""#, &["x y", "$A", "x yz", "x", "yz"]);
        check(r#""${NONE-7}" "${E-7}" "${NONE}""#, &["7", "", ""]);
        check(r#""${.FILE}:$.LINE:${.SECTION}""#, &["f.cfg:7:web"]);
        check(r#""\$A" "it's""#, &["$A", "it's"]);
        check("server s ${NONE-h}:${E} ${A}", &["server", "s", "h:", "${A}"]);
        check("bind ${A}:80", &["bind", "x y:80"]);
        check("x\r", &["x"]);
    }

    #[test]
    fn lines_that_cannot_be_read() {
        let check = |line: &str, expected: &str| {
            let message = words(line.as_bytes()).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        };
        check("a \"b", "double quote");
        check("a 'b", "single quote");
        check(r"\x4", "hexadecimal");
        check(r#""${A""#, "missing '}'");
        check(r#""cost: $5""#, "variable's name");
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Only that it returns matters; both outcomes are fine.
            prop_assert!(words(&line).is_ok() || words(&line).is_err());
        }
    }
}
