//! The words after a keyword, read one by one; what is wrong with them.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use weir_balance::Limit;
use weir_rules::{Diagnostic, Pos, Word};

use crate::language::address::{self, Address, Port};
use crate::language::units::{self, Unit};

/// Outcome of reading something: everything that is wrong with it.
pub(crate) type Parsed<T = ()> = Result<T, Vec<Diagnostic>>;

/// Largest limit of events in a second.
pub(crate) const MOST_A_SECOND: usize = u32::MAX as usize;

/// Numbers that a word can be.
pub(crate) trait Number: FromStr + Display + PartialOrd {}

impl<T: FromStr + Display + PartialOrd> Number for T {}

/// `no` or `default` before a keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Prefix {
    #[default]
    None,
    No,
    Default,
}

/// One error as an outcome.
pub(crate) fn fail<T>(pos: Pos, message: impl Into<String>) -> Parsed<T> {
    Err(vec![Diagnostic::error(pos, message)])
}

/// One error with what to write instead.
pub(crate) fn fail_hint<T>(pos: Pos, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    Err(vec![Diagnostic::error(pos, message).hint(hint)])
}

/// Keywords whose line HAProxy does not read to its end: configurations in use have comments, second words of a name
/// without quotes and other things there.
const READ_IN_PART: &[&str] = &[
    "balance",
    "capture cookie",
    "compression direction",
    "declare capture",
    "dynamic-cookie-key",
    "email-alert from",
    "email-alert level",
    "email-alert mailers",
    "email-alert to",
    "hash-type",
    "hold",
    "http-send-name-header",
    "load-server-state-from-file",
    "log-send-hostname",
    "mailer",
    "max-keep-alive-queue",
    "option httpslog",
    "option redispatch",
    "rate-limit sessions",
    "resolve_retries",
    "server-state-base",
    "server-state-file",
    "stats auth",
    "stats enable",
    "stats maxconn",
    "stats realm",
    "stats refresh",
    "stats scope",
    "stats show-modules",
    "stats timeout",
    "stats uri",
    "tcp-request inspect-delay",
    "timeout mail",
    "timeout resolve",
    "timeout retry",
    "unique-id-header",
];

/// A cursor over the words of a line.
pub(crate) struct Args<'a> {
    /// The keyword as it is known (`timeout client`).
    pub(crate) keyword: &'a str,
    /// Where the keyword stands.
    pub(crate) keyword_pos: Pos,
    /// All words of the line after the keyword.
    pub(crate) words: &'a [Word],
    /// The whole line, keyword included, without `no` or `default`.
    pub(crate) line: &'a [Word],
    pub(crate) prefix: Prefix,
    at: usize,
}

impl<'a> Args<'a> {
    pub(crate) fn new(line: &'a [Word], keyword: &'a str, keyword_words: usize, prefix: Prefix) -> Self {
        let keyword_words = keyword_words.min(line.len());
        let mut keyword_pos = line.first().map_or_else(Pos::default, |word| word.pos);
        if let Some(last) = keyword_words.checked_sub(1).and_then(|i| line.get(i)) {
            keyword_pos.len = (last.pos.column + last.pos.len).saturating_sub(keyword_pos.column);
        }
        Self { keyword, keyword_pos, words: &line[keyword_words..], line, prefix, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<&'a Word> {
        self.words.get(self.at)
    }

    pub(crate) fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.at);
        self.at += usize::from(word.is_some());
        word
    }

    /// The words not yet read.
    pub(crate) fn rest(&mut self) -> &'a [Word] {
        let rest = &self.words[self.at..];
        self.at = self.words.len();
        rest
    }

    /// The words not yet read, which stay unread.
    pub(crate) fn ahead(&self) -> &'a [Word] {
        &self.words[self.at..]
    }

    pub(crate) fn skip(&mut self, words: usize) {
        self.at = (self.at + words).min(self.words.len());
    }

    /// Reads the next word when it is this one.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| *word == text);
        self.at += usize::from(found);
        found
    }

    /// Where the next word stands, or the end of the line.
    pub(crate) fn pos(&self) -> Pos {
        if let Some(word) = self.peek() {
            return word.pos;
        }
        let last = self.line.last().map_or(self.keyword_pos, |word| word.pos);
        Pos { column: last.column.saturating_add(last.len), len: 1, ..last }
    }

    /// The next word; `what` says what was expected.
    pub(crate) fn need(&mut self, what: &str) -> Parsed<&'a Word> {
        match self.next() {
            Some(word) => Ok(word),
            None => fail(self.pos(), format!("'{}' expects {what}", self.keyword)),
        }
    }

    /// Value of a word inside the line (`inter <time>`): the message names that word.
    pub(crate) fn value_of(&mut self, word: &Word, what: &str) -> Parsed<&'a Word> {
        match self.next() {
            Some(value) => Ok(value),
            None => fail(word.pos, format!("'{}' expects {what}", word.as_str())),
        }
    }

    pub(crate) fn text(&mut self, what: &str) -> Parsed<String> {
        Ok(self.need(what)?.as_str().into_owned())
    }

    pub(crate) fn time(&mut self) -> Parsed<Duration> {
        let word = self.need("a time such as 5s or 500ms")?;
        time(word, Unit::Millis)
    }

    pub(crate) fn size(&mut self) -> Parsed<usize> {
        let word = self.need("a size such as 16384 or 16k")?;
        size(word)
    }

    pub(crate) fn number<T: Number>(&mut self, range: RangeInclusive<T>) -> Parsed<T> {
        let word = self.need("a number")?;
        number(word, range)
    }

    /// A limit that is written as a number; 0 is none.
    pub(crate) fn limit(&mut self, most: usize) -> Parsed<Limit> {
        self.number(0..=most).map(Limit::new)
    }

    /// `on` or `off`.
    pub(crate) fn switch(&mut self) -> Parsed<bool> {
        let word = self.need("'on' or 'off'")?;
        match word.text.as_slice() {
            b"on" | b"enabled" => Ok(true),
            b"off" | b"disabled" => Ok(false),
            _ => fail(word.pos, format!("'{}' expects 'on' or 'off', not '{}'", self.keyword, word.as_str())),
        }
    }

    /// What stands behind the end of a keyword that is read in part.
    pub(crate) fn ignored(&self) -> Option<Diagnostic> {
        let word = self.peek().filter(|_| READ_IN_PART.contains(&self.keyword))?;
        let message = format!("'{}' and what follows is ignored", word.as_str());
        Some(Diagnostic::warning(word.pos, message).hint("put '#' before comments and quotes around spaces"))
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Parsed {
        match self.peek() {
            None => Ok(()),
            Some(_) if READ_IN_PART.contains(&self.keyword) => Ok(()),
            Some(word) => fail(
                word.pos,
                format!("'{}' takes no more arguments, but '{}' follows", self.keyword, word.as_str()),
            ),
        }
    }
}

/// A word as a time.
pub(crate) fn time(word: &Word, unit: Unit) -> Parsed<Duration> {
    units::time(&word.as_str(), unit).map_err(|message| vec![Diagnostic::error(word.pos, message)])
}

/// A key of TCP MD5 signatures, as long as the kernel takes them.
pub(crate) fn md5_key(word: &Word) -> Parsed<String> {
    /// TCP_MD5SIG_MAXKEYLEN
    const LONGEST: usize = 80;
    match word.text.len() {
        1..=LONGEST => Ok(word.as_str().into_owned()),
        _ => fail(word.pos, format!("a password of at most {LONGEST} bytes was expected")),
    }
}

/// The name of a network namespace.
pub(crate) fn namespace(word: &Word) -> Parsed<String> {
    if *word == "*" {
        return fail(word.pos, "taking the namespace from the client's PROXY header is not implemented yet");
    }
    Ok(word.as_str().into_owned())
}

/// A word as a size in bytes.
pub(crate) fn size(word: &Word) -> Parsed<usize> {
    let bytes = units::size(&word.as_str()).map_err(|message| vec![Diagnostic::error(word.pos, message)])?;
    usize::try_from(bytes).or_else(|_| fail(word.pos, "the size is too large"))
}

/// A word as a number of a range.
pub(crate) fn number<T: Number>(word: &Word, range: RangeInclusive<T>) -> Parsed<T> {
    let text = word.as_str();
    match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => {
            let (low, high) = (range.start(), range.end());
            fail(word.pos, format!("'{text}' is not a number from {low} to {high}"))
        }
    }
}

/// One of several words; the error lists them.
pub(crate) fn choice<T: Copy>(word: &Word, what: &str, known: &[(&str, T)]) -> Parsed<T> {
    let text = word.as_str();
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let mut found = Diagnostic::unknown(what, word, names.iter().copied());
    if found.hint.is_none() {
        found = found.hint(format!("one of {} was expected", names.join(", ")));
    }
    Err(vec![found])
}

/// A word's parts between commas.
pub(crate) fn list(word: &Word) -> Vec<Vec<u8>> {
    word.text.split(|b| *b == b',').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The words as one text with single spaces.
pub(crate) fn joined(words: &[Word]) -> String {
    let texts: Vec<Cow<'_, str>> = words.iter().map(Word::as_str).collect();
    texts.join(" ")
}

/// An address and port that must be numbers; a missing port is `default_port`.
pub(crate) fn socket_address(word: &Word, default_port: u16) -> Parsed<SocketAddr> {
    let address = parse_address(word)?;
    let port = match address.port {
        Port::Absent => default_port,
        Port::Fixed(port) => port,
        Port::Range(..) | Port::Offset(_) => return fail(word.pos, "a single port was expected"),
    };
    match address.ip() {
        Some(ip) => Ok(SocketAddr::new(ip, port)),
        None => fail(word.pos, format!("'{}' is not an IP address", word.as_str())),
    }
}

/// A word as an address.
pub(crate) fn parse_address(word: &Word) -> Parsed<Address> {
    address::parse(&word.as_str()).map_err(|message| vec![Diagnostic::error(word.pos, message)])
}

/// `no` and `default` before a keyword.
pub(crate) fn prefix(words: &[Word]) -> Parsed<(Prefix, &[Word])> {
    let prefix = match words[0].text.as_slice() {
        b"no" => Prefix::No,
        b"default" => Prefix::Default,
        _ => return Ok((Prefix::None, words)),
    };
    match words.get(1..) {
        Some(rest) if !rest.is_empty() => Ok((prefix, rest)),
        _ => fail(words[0].pos, format!("'{}' must be followed by a keyword", words[0].as_str())),
    }
}
