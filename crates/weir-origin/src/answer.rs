//! Answers: a head, a body, and how they are sent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use weir_http::h1::{Connection, Framing, WriteOptions, write_response};
use weir_http::{Method, Request, Response};
use weir_net::timers::now_ms;

use crate::content::{Content, Fill};
use crate::pages::{self, Page};
use crate::url::{self, Break, Plan};

/// Answers a request of which so many bytes of body have been received.
pub type Site = dyn Fn(&Request, u64) -> Rc<Answer>;

/// Answers that are kept ready, on each thread; URLs beyond that are worked out every time.
const MAX_READY: usize = 256;

/// The longest URL that is kept.
const MAX_READY_URL_BYTES: usize = 512;

/// The longest body that is sent in one write with its head and with other answers.
const GATHERED_BYTES: u64 = 64 * 1024;

/// Pause between two events of a stream that asks for none.
const EVENT_PAUSE: Duration = Duration::from_secs(1);

/// An answer, ready to be sent.
#[derive(Debug)]
pub struct Answer {
    pub(crate) head: Response,
    pub(crate) body: Body,
    /// The head tells how long the body is.
    pub(crate) length: Option<u64>,
    pub(crate) delay: Duration,
    pub(crate) breaks: Option<(Break, Option<u64>)>,
    pub(crate) piece: Option<u64>,
    pub(crate) pause: Option<Duration>,
    pub(crate) close: bool,
    /// Head and body in HTTP/1.1's form, where both can leave at once.
    whole: Option<Vec<u8>>,
}

/// A body that is not sent yet.
#[derive(Debug)]
pub(crate) enum Body {
    /// So many bytes of a filling.
    Filled(Fill, u64),
    Bytes(Vec<u8>),
    /// So many events.
    Events(u64),
}

impl Body {
    fn len(&self) -> Option<u64> {
        match self {
            Self::Filled(_, len) => Some(*len),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Events(_) => None,
        }
    }
}

impl Answer {
    /// An answer that is sent whole.
    #[must_use]
    pub fn page(status: u16, media_type: &str, body: Vec<u8>, delay: Duration) -> Rc<Self> {
        let plan = Plan { status, delay, ..Plan::default() };
        Rc::new(Self::new(&plan, Body::Bytes(body), media_type, &date()))
    }

    fn new(plan: &Plan, body: Body, media_type: &str, date: &str) -> Self {
        let bodiless = matches!(plan.status, 204 | 304);
        let body = if bodiless { Body::Bytes(Vec::new()) } else { body };
        let length = if plan.chunked { None } else { body.len() };
        let mut head = Response::new(plan.status, reason(plan.status));
        head.fields.push(b"server", b"weir-origin");
        head.fields.push(b"date", date.as_bytes());
        if !bodiless {
            head.fields.push(b"content-type", media_type.as_bytes());
        }
        if let Some(encoding) = plan.encoding {
            head.fields.push(b"content-encoding", encoding.to_string().as_bytes());
        }
        for (name, value) in &plan.fields {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        if let Some(length) = length.filter(|_| !bodiless) {
            head.fields.push(b"content-length", length.to_string().as_bytes());
        }
        let mut answer = Self {
            head,
            body,
            length,
            delay: plan.delay,
            breaks: plan.breaks,
            piece: plan.piece,
            pause: plan.pause.or_else(|| (plan.content == Content::Events).then_some(EVENT_PAUSE)),
            close: plan.close,
            whole: None,
        };
        answer.whole = answer.render_whole();
        answer
    }

    fn render_whole(&self) -> Option<Vec<u8>> {
        let simple = self.delay.is_zero() && self.breaks.is_none() && self.piece.is_none() && !self.close;
        let length = self.length.filter(|length| simple && *length <= GATHERED_BYTES)?;
        let mut whole = Vec::new();
        self.write_head(false, Connection::Implied, &mut whole);
        match &self.body {
            Body::Filled(fill, _) => whole.extend_from_slice(fill.block().get(..length as usize)?),
            Body::Bytes(bytes) => whole.extend_from_slice(bytes),
            Body::Events(_) => return None,
        }
        Some(whole)
    }

    /// The whole answer as HTTP/1.1, if nothing is to be waited for in it.
    #[inline]
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        self.whole.as_deref()
    }

    /// The body of a page.
    pub(crate) fn page_bytes(&self) -> &[u8] {
        match &self.body {
            Body::Bytes(bytes) => bytes,
            Body::Filled(..) | Body::Events(_) => &[],
        }
    }

    /// Writes the head in HTTP/1.1's form and returns how the body has to be framed. To an old client (HTTP/1.0) a
    /// body of unknown length ends with the connection.
    pub(crate) fn write_head(&self, old: bool, connection: Connection, out: &mut Vec<u8>) -> Framing {
        let framing = match self.length {
            _ if matches!(self.head.status, 204 | 304) => Framing::None,
            Some(length) => Framing::Length(length),
            None if old => Framing::UntilClose,
            None => Framing::Chunked,
        };
        let connection = if framing == Framing::UntilClose { Connection::Close } else { connection };
        write_response(&self.head, out, WriteOptions { framing, connection, ..WriteOptions::default() });
        framing
    }
}

/// The site that does what URLs ask for. It belongs to one thread.
#[must_use]
pub fn standard() -> Rc<Site> {
    let shelf = Shelf::default();
    Rc::new(move |request: &Request, body_bytes| shelf.answer(request, body_bytes))
}

/// Answers by URL, good for a second: each has the date in it.
#[derive(Default)]
struct Shelf {
    second: Cell<u64>,
    date: RefCell<String>,
    ready: RefCell<HashMap<Box<[u8]>, Rc<Answer>>>,
}

impl Shelf {
    fn answer(&self, request: &Request, body_bytes: u64) -> Rc<Answer> {
        let second = now_ms() / 1000;
        if self.second.replace(second) != second {
            self.ready.borrow_mut().clear();
            *self.date.borrow_mut() = date();
        }
        let target = request.path_and_query();
        if let Some(answer) = self.ready.borrow().get(target)
            && request.method != Method::Connect
        {
            return Rc::clone(answer);
        }
        let (answer, keep) = compose(request, body_bytes, &self.date.borrow());
        let answer = Rc::new(answer);
        let mut ready = self.ready.borrow_mut();
        if keep && target.len() <= MAX_READY_URL_BYTES && ready.len() < MAX_READY {
            ready.insert(target.into(), Rc::clone(&answer));
        }
        answer
    }
}

/// The answer to a request, and whether others with the same URL get the same.
fn compose(request: &Request, body_bytes: u64, date: &str) -> (Answer, bool) {
    let refuse = |status: u16, text: &str| {
        let plan = Plan { status, ..Plan::default() };
        Answer::new(&plan, Body::Bytes(format!("{text}\n").into_bytes()), PLAIN, date)
    };
    if request.method == Method::Connect {
        return (refuse(501, "there are no tunnels here"), false);
    }
    let plan = match url::parse(request.path_and_query()) {
        Ok(plan) => plan,
        Err(fault) => return (refuse(fault.status, &fault.text), true),
    };
    let (body, media_type) = match plan.content {
        Content::Phrase => {
            (Body::Bytes(format!("{} {}\n", plan.status, reason(plan.status)).into_bytes()), PLAIN)
        }
        Content::Filled(len) => (Body::Filled(plan.fill, len), filled_type(plan.fill)),
        Content::Events => (Body::Events(plan.events), "text/event-stream"),
        Content::Index => bytes(pages::index(request)),
        Content::Source => bytes(pages::source(plan.plain)),
        Content::Echo => bytes(pages::echo(request, body_bytes)),
    };
    let body = match plan.encoding {
        Some(encoding) => Body::Bytes(encoding.encode(&in_memory(&body))),
        None => body,
    };
    let keep = !matches!(plan.content, Content::Index | Content::Echo);
    (Answer::new(&plan, body, plan.media_type.as_deref().unwrap_or(media_type), date), keep)
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn bytes((bytes, media_type): Page) -> (Body, &'static str) {
    (Body::Bytes(bytes), media_type)
}

fn filled_type(fill: Fill) -> &'static str {
    match fill {
        Fill::Text => PLAIN,
        Fill::Random | Fill::Zero => "application/octet-stream",
    }
}

/// A body that the URL's check has found to be short.
fn in_memory(body: &Body) -> Vec<u8> {
    match body {
        Body::Filled(fill, len) => fill.block().iter().copied().cycle().take(*len as usize).collect(),
        Body::Bytes(bytes) => bytes.clone(),
        Body::Events(_) => Vec::new(),
    }
}

/// Now, as RFC 9110 section 5.6.7 writes it.
fn date() -> String {
    // Every time that a clock can show has a year of four digits.
    DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now()).unwrap_or_default()
}

/// RFC 9110 section 15.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        425 => "Too Early",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}
