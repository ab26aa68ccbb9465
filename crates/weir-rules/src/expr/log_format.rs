//! Log-format strings (section 8.2.6): text, `%aliases` and `%[expressions]`.
//!
//! Owns parsing and flags; leaves what an alias prints to `log_alias`, and the built-in formats to `table`.

use crate::expr::Expr;
use crate::expr::log_alias::Alias;
use crate::expr::log_encoding::{Encoding, Forced};
use crate::expr::log_style::{Options, Style, print_missing, print_text};
use crate::expr::scope::Place;
use crate::value::{Value, codec};
use crate::words::call;
use crate::{Diagnostic, Scope, Txn, Word};

/// A parsed log-format string.
#[derive(Debug, Default)]
pub struct LogFormat {
    items: Vec<Item>,
    /// All named items are encoded as one object.
    encoding: Option<Encoding>,
    /// What is encoded stays binary.
    binary: bool,
}

#[derive(Debug)]
struct Item {
    node: Node,
    options: Options,
    /// Name and forced type for encodings.
    name: String,
    forced: Option<Forced>,
}

#[derive(Debug)]
enum Node {
    Text(Box<[u8]>),
    /// White space of a log line: several in a row print one.
    Space,
    Alias(Alias),
    Expr(Box<Expr>),
}

impl LogFormat {
    /// Parses one word: as a log line where the scope says so, else as a field value.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(word: &Word, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let style = if scope.place == Place::Log { Style::Log } else { Style::Http };
        Self::parse_styled(word, style, scope)
    }

    /// Parses one word for a certain use.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse_styled(word: &Word, style: Style, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_blanks(word, style, style == Style::Log, scope)
    }

    /// Parses `unique-id-format`: text of a field, but blanks are merged as in a log line, so that what only sets flags
    /// (`%{+X}o %ci...`) leaves none at the beginning.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse_unique_id(word: &Word, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_blanks(word, Style::Http, true, scope)
    }

    fn parse_blanks(
        word: &Word,
        style: Style,
        merges_blanks: bool,
        scope: &mut Scope<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut parser = Parser {
            word,
            merges_blanks,
            at: 0,
            text: Vec::new(),
            global: Options { style, ..Options::default() },
            format: Self::default(),
            errors: Vec::new(),
        };
        parser.run(scope);
        match parser.errors.is_empty() {
            true => Ok(parser.format),
            false => Err(parser.errors),
        }
    }

    /// A format that prints these bytes, whatever they are.
    pub(crate) fn literal(text: &[u8]) -> Self {
        let node = Node::Text(text.into());
        Self {
            items: vec![Item { node, options: Options::default(), name: String::new(), forced: None }],
            ..Self::default()
        }
    }

    /// Appends the rendered text.
    pub fn render(&self, txn: &Txn, out: &mut Vec<u8>) {
        if let Some(encoding) = self.encoding {
            return self.render_object(encoding, txn, out);
        }
        let start = out.len();
        for item in &self.items {
            match &item.node {
                Node::Text(text) => out.extend_from_slice(text),
                Node::Space => {
                    if out.len() > start && out.last() != Some(&b' ') {
                        out.push(b' ');
                    }
                }
                Node::Alias(_) | Node::Expr(_) if let Some(encoding) = item.options.encoding => {
                    encoding.printable(out, |out| item.encode(encoding, txn, out));
                }
                Node::Alias(alias) => alias.render(txn, item.options, out),
                Node::Expr(expr) => match expr.eval(txn) {
                    Some(value @ Value::Bin(_)) if !item.options.binary => {
                        print_value(&Value::Str(value.into_text()), item.options, out);
                    }
                    Some(value) => print_value(&value, item.options, out),
                    None => print_missing(item.options, out),
                },
            }
        }
    }

    /// The rendered text.
    #[must_use]
    pub fn to_vec(&self, txn: &Txn) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.render(txn, &mut out);
        out
    }

    fn render_object(&self, encoding: Encoding, txn: &Txn, out: &mut Vec<u8>) {
        let named = || self.items.iter().filter(|item| !item.name.is_empty());
        let object = |out: &mut Vec<u8>| {
            encoding.open(out);
            for (at, item) in named().enumerate() {
                encoding.name(&item.name, at == 0, out);
                item.encode(encoding, txn, out);
            }
            encoding.close(out);
        };
        if self.binary { object(out) } else { encoding.printable(out, object) }
    }
}

impl Item {
    /// Appends the value.
    fn encode(&self, encoding: Encoding, txn: &Txn, out: &mut Vec<u8>) {
        let value = match &self.node {
            Node::Expr(expr) => expr.eval(txn),
            Node::Alias(alias) => alias.value(txn, self.options),
            Node::Text(_) | Node::Space => None,
        };
        let value = value.map(|value| match self.forced {
            None => value,
            Some(forced) => forced.on(value),
        });
        match value {
            // Its text is made piece by piece.
            Some(Value::Str(text)) if matches!(self.node, Node::Alias(_)) => encoding.pieces(&text, out),
            value => encoding.value(value, out),
        }
    }
}

/// Prints a sample.
fn print_value(value: &Value<'_>, options: Options, out: &mut Vec<u8>) {
    match (options.style, value) {
        (Style::Http, Value::Str(text) | Value::Bin(text) | Value::Method(text)) => encode_http(text, out),
        (Style::Http, other) => other.append_to(out),
        (Style::Raw, other) if !options.quote && !options.escape => other.append_to(out),
        (_, Value::Str(text) | Value::Bin(text) | Value::Method(text)) => print_text(text, options, out),
        (_, other) => {
            let mut text = Vec::with_capacity(40);
            other.append_to(&mut text);
            print_text(&text, options, out);
        }
    }
}

/// Percent-encodes what must not stand in a field: control characters.
fn encode_http(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(u8::is_ascii_control) {
        return out.extend_from_slice(text);
    }
    for b in text {
        if b.is_ascii_control() {
            out.push(b'%');
            codec::push_hex(*b, out);
        } else {
            out.push(*b);
        }
    }
}

struct Parser<'w> {
    word: &'w Word,
    merges_blanks: bool,
    at: usize,
    text: Vec<u8>,
    global: Options,
    format: LogFormat,
    errors: Vec<Diagnostic>,
}

impl Parser<'_> {
    fn run(&mut self, scope: &mut Scope<'_>) {
        while let Some(&b) = self.word.text.get(self.at) {
            self.at += 1;
            match b {
                b'%' if self.word.text.get(self.at) == Some(&b'%') => {
                    self.at += 1;
                    self.text.push(b'%');
                }
                b'%' => {
                    if let Err(e) = self.item(scope) {
                        self.errors.extend(e);
                    }
                }
                b' ' | b'\t' if self.merges_blanks => {
                    self.flush();
                    self.push(Node::Space, self.global, String::new(), None);
                }
                _ => self.text.push(b),
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text).into();
            self.push(Node::Text(text), self.global, String::new(), None);
        }
    }

    fn push(&mut self, node: Node, options: Options, name: String, forced: Option<Forced>) {
        self.format.items.push(Item { node, options, name, forced });
    }

    fn error(&self, from: usize, to: usize, message: String) -> Vec<Diagnostic> {
        let place = call::sub_word(self.word, from.min(to), to.min(self.word.text.len()).max(from.min(to)));
        vec![Diagnostic::error(place.pos, message)]
    }

    /// The text up to `end` from the current place, which is left behind it.
    fn until(&mut self, end: u8) -> Result<Word, Vec<Diagnostic>> {
        let rest = &self.word.text[self.at..];
        let Some(len) = memchr::memchr(end, rest) else {
            return Err(self.error(
                self.at - 1,
                self.at,
                format!("missing '{}' in a log format", char::from(end)),
            ));
        };
        let found = call::sub_word(self.word, self.at, self.at + len);
        self.at += len + 1;
        Ok(found)
    }

    /// What follows a percent sign: `(name:type)`, `{flags}`, then `[expression]` or an alias.
    fn item(&mut self, scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
        self.flush();
        let start = self.at - 1;
        let (mut name, mut forced) = (String::new(), None);
        if self.word.text.get(self.at) == Some(&b'(') {
            self.at += 1;
            let word = self.until(b')')?;
            let text = word.as_str().into_owned();
            let (plain, kind) = text.split_once(':').unwrap_or((&text, ""));
            plain.clone_into(&mut name);
            forced = match kind {
                "" => None,
                "str" => Some(Forced::Str),
                "sint" => Some(Forced::Int),
                "bool" => Some(Forced::Bool),
                _ => {
                    return Err(vec![Diagnostic::error(
                        word.pos,
                        format!("'{kind}' is no type (str, sint, bool)"),
                    )]);
                }
            };
        }
        let mut options = self.global;
        if self.word.text.get(self.at) == Some(&b'{') {
            self.at += 1;
            let word = self.until(b'}')?;
            parse_flags(&word, &mut options)?;
        }
        if self.word.text.get(self.at) == Some(&b'[') {
            self.at += 1;
            let end = expression_end(&self.word.text, self.at);
            let end =
                end.ok_or_else(|| self.error(start, self.at, "missing ']' in a log format".to_owned()))?;
            let word = call::sub_word(self.word, self.at, end);
            self.at = end + 1;
            let (expr, _) = Expr::parse(std::slice::from_ref(&word), scope)?;
            self.push(Node::Expr(Box::new(expr)), options, name, forced);
            return Ok(());
        }
        let rest = &self.word.text[self.at..];
        let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        let word = call::sub_word(self.word, self.at, self.at + len);
        self.at += len;
        match word.text.as_slice() {
            b"" => Err(self
                .error(start, self.at + 1, "'%' without a name".to_owned())
                .into_iter()
                .map(|e| e.hint("write '%%' for a percent sign"))
                .collect()),
            b"o" => {
                self.global = options;
                self.format.encoding = options.encoding.or(self.format.encoding);
                self.format.binary |= options.binary;
                Ok(())
            }
            _ => {
                let alias = Alias::parse(&word).map_err(|e| vec![e])?;
                self.push(Node::Alias(alias), options, name, forced);
                Ok(())
            }
        }
    }
}

/// Where the bracket of an expression closes: arguments in parentheses may hold brackets.
fn expression_end(text: &[u8], from: usize) -> Option<usize> {
    let (mut depth, mut quote, mut at) = (0usize, None, from);
    while let Some(&b) = text.get(at) {
        match (quote, b) {
            (Some(q), _) if q == b => quote = None,
            (Some(b'"') | None, b'\\') if depth > 0 => at += 1,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if depth > 0 => quote = Some(b),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            (None, b']') if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// `+Q,-E,...`
fn parse_flags(word: &Word, options: &mut Options) -> Result<(), Vec<Diagnostic>> {
    for flag in word.text.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
        let (on, name) = match flag {
            [b'-', name @ ..] => (false, name),
            [b'+', name @ ..] => (true, name),
            name => (true, name),
        };
        match name {
            b"Q" => options.quote = on,
            b"X" => options.hex = on,
            b"E" => options.escape = on,
            b"json" => options.encoding = on.then_some(Encoding::Json),
            b"cbor" => options.encoding = on.then_some(Encoding::Cbor),
            b"bin" => options.binary = on,
            b"" => {}
            _ => {
                return Err(vec![Diagnostic::unknown(
                    "log format flag",
                    word,
                    ["Q", "X", "E", "json", "cbor", "bin"],
                )]);
            }
        }
    }
    Ok(())
}
