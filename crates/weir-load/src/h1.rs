//! HTTP/1.1 on one connection: requests in a row, answers in the same order.

use std::collections::VecDeque;

use weir_http::h1::{BodyDecoder, BodyEvent, Fault, ParseOptions, parse_response};
use weir_http::{FieldName, Method, Response};

use crate::client::{Answer, Ticket, Told};
use crate::request::Prepared;
use crate::script::Answered;

/// The most bytes of an answer's body that are kept for a script.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// What is being read.
///
/// ```text
///  Head --final head--> Body --its end--> Head ... or Over, when the server closes after it
/// ```
enum Reading {
    Head,
    Body { decoder: BodyDecoder, status: u16, head_bytes: u32, body_bytes: u64, keep_alive: bool },
    Over,
}

/// A request without a complete answer.
struct Awaited {
    ticket: Ticket,
    method: Method,
    begun: bool,
}

/// One connection.
pub(crate) struct Http1 {
    /// Requests that may be on their way at once.
    depth: usize,
    awaited: VecDeque<Awaited>,
    reading: Reading,
    response: Response,
    options: ParseOptions,
    output: Vec<u8>,
    written: usize,
    /// Answers for a script; none where they are only counted.
    kept: Option<Box<Kept>>,
}

/// Answers as a script sees them.
#[derive(Default)]
struct Kept {
    current: Answered,
    complete: VecDeque<Answered>,
}

impl Http1 {
    pub(crate) fn new(depth: usize, keeps_answers: bool) -> Self {
        Self {
            depth,
            awaited: VecDeque::with_capacity(1),
            reading: Reading::Head,
            response: Response::default(),
            options: ParseOptions::default(),
            output: Vec::new(),
            written: 0,
            kept: keeps_answers.then(Box::default),
        }
    }

    pub(crate) fn room(&self) -> usize {
        if self.is_over() { 0 } else { self.depth.saturating_sub(self.awaited.len()) }
    }

    pub(crate) fn send(&mut self, ticket: Ticket, request: &Prepared) -> bool {
        self.output.extend_from_slice(&request.h1);
        self.awaited.push_back(Awaited { ticket, method: request.method, begun: false });
        true
    }

    /// Queues bytes in which a script has written requests; they are announced with `expect`.
    pub(crate) fn send_text(&mut self, text: &[u8]) {
        self.output.extend_from_slice(text);
    }

    /// Announces one of the requests of a text.
    pub(crate) fn expect(&mut self, ticket: Ticket, method: Method) {
        self.awaited.push_back(Awaited { ticket, method, begun: false });
    }

    /// The oldest complete answer, where they are kept.
    pub(crate) fn take_answer(&mut self) -> Option<Answered> {
        self.kept.as_mut()?.complete.pop_front()
    }

    pub(crate) fn output(&self) -> &[u8] {
        self.output.get(self.written..).unwrap_or_default()
    }

    pub(crate) fn advance_output(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written >= self.output.len() {
            self.output.clear();
            self.written = 0;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.reading, Reading::Over)
    }

    pub(crate) fn open(&self) -> Vec<Ticket> {
        self.awaited.iter().map(|awaited| awaited.ticket).collect()
    }

    pub(crate) fn software(&self) -> String {
        String::from_utf8_lossy(self.response.fields.first(FieldName::Server).unwrap_or_default())
            .into_owned()
    }

    pub(crate) fn receive(&mut self, input: &[u8], told: &mut Vec<Told>) -> Result<usize, String> {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let taken = match self.reading {
                Reading::Head if !self.awaited.is_empty() => self.head(rest, told)?,
                Reading::Body { .. } => Some(self.body(rest, told)?),
                // RFC 9112 section 9.6: requests behind the one after which the server closes get no answer.
                Reading::Over if !self.awaited.is_empty() => Some(rest.len()),
                Reading::Head | Reading::Over => return Err(self.excess(told)),
            };
            match taken {
                Some(taken) => at += taken,
                None => break,
            }
        }
        Ok(at)
    }

    /// Bytes have come that belong to no answer.  With the end of an answer before them in the same read, it is the one
    /// whose length is wrong: it has failed and not been answered.
    // RFC 9112 section 6.3: "A client MUST NOT process, cache, or forward such extra data as a separate response".
    fn excess(&mut self, told: &mut Vec<Told>) -> String {
        let Some(Told::Answered(answer)) = told.pop_if(|told| matches!(told, Told::Answered(_))) else {
            return "bytes that belong to no response".into();
        };
        if let Some(kept) = &mut self.kept {
            kept.complete.pop_back();
        }
        self.awaited.push_front(Awaited { ticket: answer.ticket, method: Method::Get, begun: true });
        "bytes behind the end of the response".into()
    }

    /// Takes a head; nothing while it is not there completely.
    fn head(&mut self, input: &[u8], told: &mut Vec<Told>) -> Result<Option<usize>, String> {
        let Some(awaited) = self.awaited.front_mut() else { return Ok(None) };
        if !awaited.begun {
            awaited.begun = true;
            told.push(Told::Begun(awaited.ticket));
        }
        let parsed = parse_response(input, &mut self.response, awaited.method, &self.options);
        let Some(head) = parsed.map_err(|error| error.kind.as_str().to_owned())? else { return Ok(None) };
        let status = self.response.status;
        match status {
            101 => return Err("a response that changes the protocol".into()),
            100..200 => return Ok(Some(head.len)),
            _ => {}
        }
        let decoder = BodyDecoder::with_options(head.framing, Fault::Server, &self.options);
        let is_done = decoder.is_done();
        let head_bytes = u32::try_from(head.len).unwrap_or(u32::MAX);
        let keep_alive = head.keep_alive;
        if let Some(kept) = &mut self.kept {
            let head = input.get(..head.len).unwrap_or_default().to_vec();
            kept.current = Answered { status, head, body: Vec::new() };
        }
        self.reading = Reading::Body { decoder, status, head_bytes, body_bytes: 0, keep_alive };
        if is_done {
            self.answered(told);
        }
        Ok(Some(head.len))
    }

    fn body(&mut self, input: &[u8], told: &mut Vec<Told>) -> Result<usize, String> {
        let Reading::Body { decoder, body_bytes, .. } = &mut self.reading else { return Ok(0) };
        let decoded = decoder.decode(input).map_err(|error| error.kind.as_str().to_owned())?;
        if let BodyEvent::Data(range) = &decoded.event {
            *body_bytes += range.len() as u64;
            if let Some(kept) = &mut self.kept {
                let data = input.get(range.clone()).unwrap_or_default();
                if kept.current.body.len() + data.len() > MAX_KEPT_BYTES {
                    return Err(format!("a body of more than {MAX_KEPT_BYTES} bytes for a script"));
                }
                kept.current.body.extend_from_slice(data);
            }
        }
        if decoder.is_done() {
            self.answered(told);
        }
        Ok(decoded.consumed)
    }

    fn answered(&mut self, told: &mut Vec<Told>) {
        let reading = std::mem::replace(&mut self.reading, Reading::Head);
        let Reading::Body { status, head_bytes, body_bytes, keep_alive, .. } = reading else { return };
        if let Some(kept) = &mut self.kept {
            kept.complete.push_back(std::mem::take(&mut kept.current));
        }
        if let Some(awaited) = self.awaited.pop_front() {
            told.push(Told::Answered(Answer {
                ticket: awaited.ticket,
                status,
                head_bytes,
                body_bytes,
                keep_alive,
            }));
        }
        if !keep_alive {
            self.reading = Reading::Over;
        }
    }

    pub(crate) fn end_of_input(&mut self, told: &mut Vec<Told>) {
        if let Reading::Body { decoder, .. } = &mut self.reading
            && decoder.end_of_input().is_ok()
        {
            self.answered(told);
        }
        self.reading = Reading::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestText;
    use crate::url::Url;

    fn prepared(method: &str) -> Prepared {
        let url = Url::parse("http://h/").unwrap();
        let text = RequestText { method: method.into(), url, headers: Vec::new(), body: Vec::new() };
        Prepared::new(&text, false, false)
    }

    /// What is told about requests 0 to `count` when `input` comes in pieces of `size` bytes and then the end.
    fn told(
        method: &str,
        count: u32,
        input: &str,
        size: usize,
    ) -> (Result<(), String>, Vec<Told>, Vec<Ticket>) {
        let mut client = Http1::new(8, false);
        (0..count).for_each(|ticket| assert!(client.send(ticket, &prepared(method))));
        let (mut told, mut rest) = (Vec::new(), Vec::new());
        for piece in input.as_bytes().chunks(size) {
            rest.extend_from_slice(piece);
            match client.receive(&rest, &mut told) {
                Ok(taken) => drop(rest.drain(..taken)),
                Err(error) => return (Err(error), told, client.open()),
            }
        }
        client.end_of_input(&mut told);
        (Ok(()), told, client.open())
    }

    fn check(method: &str, count: u32, input: &str, expected: &str) {
        for size in [1, 7, 10_000] {
            let (result, told, open) = told(method, count, input, size);
            let mut text = String::new();
            for told in told {
                text += &match told {
                    Told::Begun(ticket) => format!("begun {ticket} "),
                    Told::Answered(answer) => {
                        format!("{} {}+{} ", answer.ticket, answer.status, answer.body_bytes)
                    }
                    Told::Reset(ticket) => format!("reset {ticket} "),
                };
            }
            if !open.is_empty() {
                text += &format!("open {open:?} ");
            }
            if let Err(error) = result {
                text += &format!("error {error}");
            }
            assert_eq!(text.trim(), expected, "{input:?} in pieces of {size}");
        }
    }

    #[test]
    fn answers() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        check("GET", 1, ok, "begun 0 0 200+2");
        check("GET", 2, &[ok, ok].concat(), "begun 0 0 200+2 begun 1 1 200+2");
        check("HEAD", 1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "begun 0 0 200+0");
        check("GET", 1, "HTTP/1.1 204 No\r\n\r\n", "begun 0 0 204+0");
        check(
            "GET",
            1,
            "HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            "begun 0 0 404+0",
        );
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        check("GET", 1, chunked, "begun 0 0 200+3");
        check("GET", 1, "HTTP/1.1 200 OK\r\n\r\nabcd", "begun 0 0 200+4");
        check(
            "GET",
            2,
            &["HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", ok].concat(),
            "begun 0 0 200+0 open [1]",
        );
    }

    #[test]
    fn what_is_no_answer() {
        check("GET", 1, "", "open [0]");
        check("GET", 1, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "begun 0 open [0]");
        check("GET", 1, "SSH-2.0-x\r\n\r\n", "begun 0 open [0] error invalid protocol version");
        check(
            "GET",
            1,
            "HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "begun 0 open [0] error a response that changes the protocol",
        );
        check("GET", 0, "HTTP/1.1 200 OK\r\n\r\n", "error bytes that belong to no response");
    }

    #[test]
    fn bytes_behind_the_end_of_a_body_are_an_error() {
        let check = |method, count, input: &str, expected: &str| {
            let (result, told, open) = told(method, count, input, 10_000);
            let answered = told.iter().filter(|told| matches!(told, Told::Answered(_))).count();
            let found = format!("answered {answered}, open {open:?}, {}", result.unwrap_err());
            assert_eq!(found, expected, "{input:?}");
        };
        let (fault, ok) =
            ("bytes behind the end of the response", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
        let first = format!("answered 0, open [0], {fault}");
        check("GET", 1, &format!("{ok}\r\nabc"), &first);
        check("GET", 1, &format!("{ok}\r\nab\r\n"), &first);
        check("GET", 1, &format!("{ok}Connection: close\r\n\r\nabc"), &first);
        check("HEAD", 1, &format!("{ok}\r\nab"), &first);
        check("GET", 1, "HTTP/1.1 204 No\r\n\r\nab", &first);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx";
        check("GET", 1, chunked, &first);
        let second = format!("answered 1, open [1], {fault}");
        check("GET", 2, &format!("{ok}\r\nab{ok}\r\nabc"), &second);
    }
}
