//! From a URL to what it asks for.
//!
//! A path is a row of words, each followed by its value (`/status/503/bytes/9000`); the query takes the same words as
//! `word=value`.  Owns the table of the words, which the index page prints too.

use std::time::Duration;

use crate::content::{self, Content, Encoding, Fill};
use crate::quantity;

/// Words of a path and a query together.
const MAX_WORDS: usize = 32;

/// Events of a stream that names no number.
const DEFAULT_EVENTS: u64 = u64::MAX;

/// The largest body that is encoded, in bytes: it is made whole before it is sent.
const MAX_ENCODED_BYTES: u64 = 1 << 20;

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Nothing more comes, and the connection stays open.
    Stall,
    /// The connection (HTTP/2: the stream) is reset.
    Reset,
    /// The connection is closed as if all was said (HTTP/2: the stream is reset).
    Cut,
}

/// What a URL asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The answer's status.
    pub(crate) status: u16,
    /// Media type of the body, if it is not the content's own.
    pub(crate) media_type: Option<String>,
    /// How long the answer is held back.
    pub(crate) delay: Duration,
    /// What goes wrong, and after how many bytes of the body; without a number instead of an answer.
    pub(crate) breaks: Option<(Break, Option<u64>)>,
    /// More fields of the head.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Content,
    pub(crate) fill: Fill,
    pub(crate) encoding: Option<Encoding>,
    /// The body's length is not told in advance.
    pub(crate) chunked: bool,
    /// Bytes of the body that are sent at once.
    pub(crate) piece: Option<u64>,
    /// Pause between two pieces.
    pub(crate) pause: Option<Duration>,
    /// The connection ends with the answer.
    pub(crate) close: bool,
    pub(crate) events: u64,
    /// `source` without its colours.
    pub(crate) plain: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            status: 200,
            media_type: None,
            delay: Duration::ZERO,
            breaks: None,
            fields: Vec::new(),
            content: Content::Phrase,
            fill: Fill::Text,
            encoding: None,
            chunked: false,
            piece: None,
            pause: None,
            close: false,
            events: DEFAULT_EVENTS,
            plain: false,
        }
    }
}

/// Why a URL cannot be answered as it wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// 400 or 404.
    pub(crate) status: u16,
    /// One line for a reader.
    pub(crate) text: String,
}

/// Whether a word is followed by a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// In a path it is there when the next segment starts with a digit.
    Maybe,
    Value,
}

/// A word of the language.
#[derive(Debug)]
pub(crate) struct Word {
    /// As it stands in a URL.
    pub(crate) name: &'static str,
    takes: Takes,
    /// What its value looks like.
    pub(crate) value: &'static str,
    /// What it asks for.
    pub(crate) doc: &'static str,
    /// A URL to try.
    pub(crate) example: &'static str,
    apply: fn(&mut Plan, &str) -> Result<(), String>,
}

/// All of them: bodies first, then what else may be said of an answer.
pub(crate) const WORDS: &[Word] = &[
    Word {
        name: "bytes",
        takes: Takes::Value,
        value: "SIZE",
        doc: "a body of that many bytes, up to 1g",
        example: "/bytes/9000",
        apply: |plan, value| quantity::bytes(value).map(|len| plan.content = Content::Filled(len)),
    },
    Word {
        name: "size",
        takes: Takes::Value,
        value: "SIZE",
        doc: "the same, for a query",
        example: "/status/404?size=140",
        apply: |plan, value| quantity::bytes(value).map(|len| plan.content = Content::Filled(len)),
    },
    Word {
        name: "chunked",
        takes: Takes::Value,
        value: "SIZE",
        doc: "the same without a Content-Length: chunks over HTTP/1.1",
        example: "/chunked/9000?chunk=1000",
        apply: |plan, value| {
            plan.chunked = true;
            quantity::bytes(value).map(|len| plan.content = Content::Filled(len))
        },
    },
    Word {
        name: "source",
        takes: Takes::Nothing,
        value: "",
        doc: "a source text of this server as a page; with ?plain as plain text",
        example: "/source?plain",
        apply: |plan, _| {
            plan.content = Content::Source;
            Ok(())
        },
    },
    Word {
        name: "live",
        takes: Takes::Nothing,
        value: "",
        doc: "a stream of events, one a second; ?every and ?count change that",
        example: "/live?every=100ms&count=50",
        apply: |plan, _| {
            plan.content = Content::Events;
            Ok(())
        },
    },
    Word {
        name: "echo",
        takes: Takes::Nothing,
        value: "",
        doc: "the request's head as it arrived, and the length of its body",
        example: "/echo",
        apply: |plan, _| {
            plan.content = Content::Echo;
            Ok(())
        },
    },
    Word {
        name: "status",
        takes: Takes::Value,
        value: "200..599",
        doc: "the response's status",
        example: "/status/503",
        apply: |plan, value| match value.parse() {
            Ok(status @ 200..=599) => {
                plan.status = status;
                Ok(())
            }
            _ => Err(format!("'{value}' is no status of a final response: expected 200 to 599")),
        },
    },
    Word {
        name: "delay",
        takes: Takes::Value,
        value: "TIME",
        doc: "hold the response back, up to 5m",
        example: "/delay/50ms",
        apply: |plan, value| quantity::time(value).map(|time| plan.delay = time),
    },
    Word {
        name: "chunk",
        takes: Takes::Value,
        value: "SIZE",
        doc: "send the body in pieces of that size",
        example: "/chunked/64k?chunk=1000",
        apply: |plan, value| match quantity::bytes(value)? {
            0 => Err("a piece has at least one byte".to_owned()),
            size => {
                plan.piece = Some(size);
                Ok(())
            }
        },
    },
    Word {
        name: "every",
        takes: Takes::Value,
        value: "TIME",
        doc: "pause between two pieces or events",
        example: "/bytes/1000?chunk=100&every=200ms",
        apply: |plan, value| quantity::time(value).map(|time| plan.pause = Some(time)),
    },
    Word {
        name: "count",
        takes: Takes::Value,
        value: "NUMBER",
        doc: "how many events /live sends",
        example: "/live?count=3",
        apply: |plan, value| {
            let number = value.parse().map_err(|_| format!("'{value}' is no number of events"));
            number.map(|number| plan.events = number)
        },
    },
    Word {
        name: "stall",
        takes: Takes::Maybe,
        value: "[SIZE]",
        doc: "say nothing more after that many bytes of the body; without a number, nothing at all",
        example: "/bytes/9000/stall/1000",
        apply: |plan, value| breaks(plan, Break::Stall, value),
    },
    Word {
        name: "reset",
        takes: Takes::Maybe,
        value: "[SIZE]",
        doc: "reset the connection (HTTP/2: the stream) after that many bytes; without a number, at once",
        example: "/bytes/9000/reset/1000",
        apply: |plan, value| breaks(plan, Break::Reset, value),
    },
    Word {
        name: "cut",
        takes: Takes::Maybe,
        value: "[SIZE]",
        doc: "close the connection after that many bytes, which is too early",
        example: "/bytes/9000/cut/1000",
        apply: |plan, value| breaks(plan, Break::Cut, value),
    },
    Word {
        name: "close",
        takes: Takes::Nothing,
        value: "",
        doc: "close the connection after the response",
        example: "/bytes/60?close",
        apply: |plan, _| {
            plan.close = true;
            Ok(())
        },
    },
    Word {
        name: "type",
        takes: Takes::Value,
        value: "html|css|js|json|xml|svg|png|text|A/B",
        doc: "the body's media type",
        example: "/bytes/9000?type=html",
        apply: |plan, value| content::media_type(value).map(|media_type| plan.media_type = Some(media_type)),
    },
    Word {
        name: "fill",
        takes: Takes::Value,
        value: "text|random|zero",
        doc: "what a body of so many bytes is made of: source text, bytes that do not compress, zeros",
        example: "/bytes/64k?fill=random",
        apply: |plan, value| Fill::parse(value).map(|fill| plan.fill = fill),
    },
    Word {
        name: "encoding",
        takes: Takes::Value,
        value: "gzip|deflate",
        doc: "encode the body, of at most 1m",
        example: "/bytes/64k?encoding=gzip",
        apply: |plan, value| Encoding::parse(value).map(|encoding| plan.encoding = Some(encoding)),
    },
    Word {
        name: "header",
        takes: Takes::Value,
        value: "NAME:VALUE",
        doc: "one more field of the response's head; may be repeated",
        example: "/bytes/60?header=cache-control:max-age%3D60",
        apply: |plan, value| field(value).map(|field| plan.fields.push(field)),
    },
    Word {
        name: "plain",
        takes: Takes::Nothing,
        value: "",
        doc: "for /source: plain text",
        example: "/source?plain",
        apply: |plan, _| {
            plan.plain = true;
            Ok(())
        },
    },
];

/// Reads a path with its query.
///
/// # Errors
/// 404 for a path that starts with no word, 400 for a value that cannot be.
pub(crate) fn parse(path_and_query: &[u8]) -> Result<Plan, Fault> {
    let text = std::str::from_utf8(path_and_query).map_err(|_| refused("the URL is not UTF-8"))?;
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let mut plan = Plan::default();
    let words = path_words(path)?;
    if words.is_empty() {
        plan.content = Content::Index;
    }
    let query = query.split('&').filter(|part| !part.is_empty() && !is_foreign(part));
    let query = query.map(|part| part.split_once('=').unwrap_or((part, "")));
    for (at, (name, value)) in words.into_iter().chain(query).enumerate() {
        if at == MAX_WORDS {
            return Err(refused(&format!("a URL has at most {MAX_WORDS} words")));
        }
        let word = find(name).ok_or_else(|| refused(&format!("'{name}' is no word here: / lists them")))?;
        let value = decode(value)?;
        if value.is_empty() && word.takes == Takes::Value {
            return Err(refused(&format!("'{name}' needs a value ({})", word.value)));
        }
        (word.apply)(&mut plan, &value).map_err(|text| refused(&format!("{name}: {text}")))?;
    }
    check(&plan)?;
    Ok(plan)
}

/// Parameters that begin with an underscore are the client's own: proxies that look at parameters can be tried with
/// them.
fn is_foreign(part: &str) -> bool {
    part.starts_with('_')
}

fn path_words(path: &str) -> Result<Vec<(&str, &str)>, Fault> {
    let mut words = Vec::new();
    let mut segments = path.split('/').filter(|segment| !segment.is_empty()).peekable();
    while let Some(name) = segments.next() {
        let Some(word) = find(name) else {
            let text = format!("there is nothing at '{}': / lists what there is", printable(name));
            return Err(Fault { status: 404, text });
        };
        let starts_with_digit = |next: &&str| next.starts_with(|first: char| first.is_ascii_digit());
        let value = match word.takes {
            Takes::Nothing => None,
            Takes::Maybe => segments.next_if(starts_with_digit),
            Takes::Value => segments.next(),
        };
        words.push((name, value.unwrap_or_default()));
    }
    Ok(words)
}

fn find(name: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.name == name)
}

fn check(plan: &Plan) -> Result<(), Fault> {
    let Some(encoding) = plan.encoding else { return Ok(()) };
    let possible = match plan.content {
        Content::Filled(len) => len <= MAX_ENCODED_BYTES,
        Content::Events => false,
        Content::Phrase | Content::Index | Content::Source | Content::Echo => true,
    };
    if possible { Ok(()) } else { Err(refused(&format!("encoding={encoding}: bodies of at most 1m only"))) }
}

fn refused(text: &str) -> Fault {
    Fault { status: 400, text: printable(text) }
}

/// What a client sent goes back to it as text only.
fn printable(text: &str) -> String {
    const MAX_SHOWN: usize = 200;
    text.chars().take(MAX_SHOWN).map(|char| if char.is_control() { '.' } else { char }).collect()
}

fn breaks(plan: &mut Plan, how: Break, value: &str) -> Result<(), String> {
    let after = (!value.is_empty()).then(|| quantity::bytes(value)).transpose()?;
    plan.breaks = Some((how, after));
    // What is broken needs something to break.
    if let (Content::Phrase, Some(bytes)) = (&plan.content, after) {
        plan.content = Content::Filled(bytes.saturating_mul(2).clamp(1, quantity::MAX_BYTES));
    }
    Ok(())
}

/// A field, its bytes such that nothing else of the head can be written with them (RFC 9110 section 5.5).
fn field(text: &str) -> Result<(String, String), String> {
    /// Fields that this server writes itself.
    const OWN: &[&str] = &["content-length", "transfer-encoding", "connection", "content-type", "date"];
    let (name, value) = text.split_once(':').ok_or("expected NAME:VALUE")?;
    let name = name.to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("the name of a field is letters, digits and dashes".to_owned());
    }
    if OWN.contains(&name.as_str()) {
        return Err(format!("'{name}' is written by this server itself"));
    }
    let value = value.trim();
    if value.chars().any(char::is_control) {
        return Err("the value of a field has no control characters".to_owned());
    }
    Ok((name, value.to_owned()))
}

/// Resolves percent-encoding (RFC 3986 section 2.1).
fn decode(text: &str) -> Result<String, Fault> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.split_at_checked(2).and_then(|(digits, after)| {
            rest = after;
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(digits.ok_or_else(|| refused("a percent sign is followed by two hexadecimal digits"))?);
    }
    String::from_utf8(bytes).map_err(|_| refused("the URL is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, change: fn(&mut Plan)| {
            let mut expected = Plan::default();
            change(&mut expected);
            assert_eq!(parse(url.as_bytes()), Ok(expected), "{url}");
        };
        check("/", |plan| plan.content = Content::Index);
        check("//?_a=b&_c", |plan| plan.content = Content::Index);
        check("/bytes/9000", |plan| plan.content = Content::Filled(9000));
        check("/bytes/9000?_user=7", |plan| plan.content = Content::Filled(9000));
        check("/delay/50ms", |plan| plan.delay = Duration::from_millis(50));
        check("/status/503", |plan| plan.status = 503);
        check("/status/503/bytes/7/delay/2s", |plan| {
            plan.status = 503;
            plan.content = Content::Filled(7);
            plan.delay = Duration::from_secs(2);
        });
        check("/status/404?size=1k&delay=5", |plan| {
            plan.status = 404;
            plan.content = Content::Filled(1024);
            plan.delay = Duration::from_millis(5);
        });
        check("/chunked/10?chunk=3&every=1s", |plan| {
            plan.content = Content::Filled(10);
            plan.chunked = true;
            plan.piece = Some(3);
            plan.pause = Some(Duration::from_secs(1));
        });
        check("/stall", |plan| plan.breaks = Some((Break::Stall, None)));
        check("/stall/bytes/5", |plan| {
            plan.breaks = Some((Break::Stall, None));
            plan.content = Content::Filled(5);
        });
        check("/bytes/9/reset/4", |plan| {
            plan.breaks = Some((Break::Reset, Some(4)));
            plan.content = Content::Filled(9);
        });
        check("/cut/4", |plan| {
            plan.breaks = Some((Break::Cut, Some(4)));
            plan.content = Content::Filled(8);
        });
        check("/source?plain", |plan| {
            plan.content = Content::Source;
            plan.plain = true;
        });
        check("/live?count=3", |plan| {
            plan.content = Content::Events;
            plan.events = 3;
        });
        check("/echo?close&header=X-A:%20b%3dc&type=html", |plan| {
            plan.content = Content::Echo;
            plan.close = true;
            plan.fields = vec![("x-a".to_owned(), "b=c".to_owned())];
            plan.media_type = Some("text/html; charset=utf-8".to_owned());
        });
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let check = |url: &[u8], status: u16, text: &str| {
            let fault = parse(url).unwrap_err();
            assert!(fault.status == status && fault.text.contains(text), "{fault:?}");
        };
        check(b"/nothing", 404, "nothing at 'nothing'");
        check(b"/bytes/9/nothing", 404, "nothing at 'nothing'");
        check(b"/a\x01b", 404, "'a.b'");
        check(b"/bytes", 400, "'bytes' needs a value (SIZE)");
        check(b"/bytes/9x", 400, "'9x' is no size");
        check(b"/bytes/2g", 400, "at most 1g");
        check(b"/delay/1d", 400, "is no time");
        check(b"/delay/10m", 400, "at most 300 seconds");
        check(b"/status/100", 400, "expected 200 to 599");
        check(b"/status/600", 400, "expected 200 to 599");
        check(b"/status/2x", 400, "expected 200 to 599");
        check(b"/bytes/9?sice=3", 400, "'sice' is no word");
        check(b"/bytes/9?chunk=0", 400, "at least one byte");
        check(b"/bytes/9?fill=foam", 400, "text, random or zero");
        check(b"/bytes/9?encoding=br", 400, "gzip or deflate");
        check(b"/bytes/2m?encoding=gzip", 400, "at most 1m");
        check(b"/live?encoding=gzip", 400, "at most 1m");
        check(b"/bytes/9?type=x", 400, "is no media type");
        check(b"/bytes/9?type=a/b%0d%0ac", 400, "is no media type");
        check(b"/bytes/9?header=a", 400, "expected NAME:VALUE");
        check(b"/bytes/9?header=a%20b:c", 400, "letters, digits and dashes");
        check(b"/bytes/9?header=a:b%0d%0ac:d", 400, "no control characters");
        check(b"/bytes/9?header=Content-Length:3", 400, "by this server itself");
        check(b"/bytes/9?header=a:%", 400, "two hexadecimal digits");
        check(b"/bytes/9?header=a:%+1", 400, "two hexadecimal digits");
        check(b"/bytes/9?header=a:%ff", 400, "not UTF-8");
        check(b"/\xff", 400, "not UTF-8");
        check("/close".repeat(MAX_WORDS + 1).as_bytes(), 400, "at most 32 words");
    }

    #[test]
    fn examples_are_understood_and_names_are_unique() {
        for (at, word) in WORDS.iter().enumerate() {
            assert!(parse(word.example.as_bytes()).is_ok(), "{}", word.example);
            assert!(WORDS[..at].iter().all(|other| other.name != word.name), "{}", word.name);
            assert!(word.example.contains(word.name) || word.name == "size", "{}", word.example);
        }
    }
}
