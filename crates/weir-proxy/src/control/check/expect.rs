//! What a check script expects of an answer: matching, pure.

use weir_config::model::{CheckPayload, Expect, StringMatch, TcpCheckStep};
use weir_http::Response;
use weir_rules::{Expr, LogFormat, Txn};

use super::status::Status;

/// A `tcp-check expect` or `http-check expect` line.
#[derive(Clone, Copy)]
pub(crate) struct Expectation<'a> {
    pub(crate) negate: bool,
    pub(crate) what: &'a Expect,
    /// Bytes needed before a mismatch is believed; without, a mismatch waits for more.
    pub(crate) min_recv: Option<usize>,
    pub(crate) ok_status: Option<Status>,
    pub(crate) error_status: Option<Status>,
    pub(crate) timeout_status: Option<Status>,
    pub(crate) on_success: Option<&'a LogFormat>,
    pub(crate) on_error: Option<&'a LogFormat>,
    pub(crate) status_code: Option<&'a Expr>,
}

/// What an expectation makes of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// As expected: on with the next step.
    Met,
    /// More bytes are needed.
    Wait,
    /// Not as expected, with the status and text of HTTP checks.
    Missed { status: Status, info: Option<Vec<u8>> },
}

impl<'a> Expectation<'a> {
    /// The expectation of a step that is one.
    pub(crate) fn of(step: &'a TcpCheckStep) -> Option<Self> {
        let TcpCheckStep::Expect {
            negate,
            what,
            min_recv,
            ok_status,
            error_status,
            tout_status,
            on_success,
            on_error,
            status_code,
            ..
        } = step
        else {
            return None;
        };
        Some(Self {
            negate: *negate,
            what,
            min_recv: *min_recv,
            ok_status: ok_status.map(Status::from),
            error_status: error_status.map(Status::from),
            timeout_status: tout_status.map(Status::from),
            on_success: on_success.as_ref(),
            on_error: on_error.as_ref(),
            status_code: status_code.as_ref(),
        })
    }

    /// Judges raw bytes; `last` when no more will come.
    pub(crate) fn judge_bytes(&self, input: &[u8], last: bool, txn: &Txn) -> Verdict {
        if !last && self.needs_more(input.len()) {
            return Verdict::Wait;
        }
        let matched = matches_bytes(self.what, input, txn);
        if !matched && !last && self.min_recv.is_none() {
            return Verdict::Wait;
        }
        self.verdict(matched, Status::L7Response, None)
    }

    /// Judges an HTTP response and the part of its body that is there.
    pub(crate) fn judge_response(&self, response: &Response, body: &[u8], last: bool, txn: &Txn) -> Verdict {
        match self.what {
            Expect::Status(ranges) => {
                let matched = ranges.iter().any(|(low, high)| (*low..=*high).contains(&response.status));
                self.verdict(matched, Status::L7Status, Some(response.reason_bytes()))
            }
            Expect::StatusRegex(regex) => {
                let matched = regex.is_match(response.status.to_string().as_bytes());
                self.verdict(matched, Status::L7Status, Some(response.reason_bytes()))
            }
            Expect::Header { name, name_match, value, full } => {
                let value = value.as_ref().map(|(value, how)| (text(value, txn), how));
                let pattern = Pattern { name: text(name, txn), name_match, value, full: *full };
                self.verdict(pattern.is_in(response), Status::L7Status, Some(response.reason_bytes()))
            }
            _ => self.judge_body(body, last, txn),
        }
    }

    fn judge_body(&self, body: &[u8], last: bool, txn: &Txn) -> Verdict {
        if body.is_empty() {
            let info = b"HTTP content check could not find a response body".to_vec();
            let status = self.error_status.unwrap_or(Status::L7Response);
            return if last { Verdict::Missed { status, info: Some(info) } } else { Verdict::Wait };
        }
        if !last && self.needs_more(body.len()) {
            return Verdict::Wait;
        }
        let matched = matches_bytes(self.what, body, txn);
        if !matched && !last && self.min_recv.is_none() {
            return Verdict::Wait;
        }
        let info: &[u8] = match self.negate {
            true => b"HTTP check matched unwanted content",
            false => b"HTTP content check did not match",
        };
        self.verdict(matched, Status::L7Response, Some(info))
    }

    /// Too little was received to say anything.
    fn needs_more(&self, len: usize) -> bool {
        let shortest = match self.what {
            Expect::String(text) | Expect::Binary(text) => text.len(),
            _ => 0,
        };
        len < shortest || self.min_recv.is_some_and(|min| len < min)
    }

    fn verdict(&self, matched: bool, status: Status, info: Option<&[u8]>) -> Verdict {
        match matched != self.negate {
            true => Verdict::Met,
            false => Verdict::Missed {
                status: self.error_status.unwrap_or(status),
                info: info.map(<[u8]>::to_vec),
            },
        }
    }

    /// What is told of a miss where the configuration has no words of its own.
    pub(crate) fn miss_text(&self, step: usize) -> Vec<u8> {
        let mut text = match self.negate {
            true => b"TCPCHK matched unwanted content".to_vec(),
            false => b"TCPCHK did not match content".to_vec(),
        };
        match self.what {
            Expect::String(pattern) => {
                text.extend_from_slice(b" '");
                text.extend_from_slice(pattern);
                text.extend_from_slice(b"'");
            }
            Expect::Binary(_) => text.extend_from_slice(b" (binary)"),
            Expect::Regex(_) | Expect::StatusRegex(_) => text.extend_from_slice(b" (regex)"),
            Expect::BinaryRegex(_) => text.extend_from_slice(b" (binary regex)"),
            Expect::StringFormat(_) => text.extend_from_slice(b" (log-format string)"),
            Expect::BinaryFormat(_) => text.extend_from_slice(b" (log-format binary)"),
            Expect::Status(_) => text.extend_from_slice(b" (status codes)"),
            Expect::Header { .. } => text.extend_from_slice(b" (header pattern)"),
        }
        text.extend_from_slice(format!(" at step {step}").as_bytes());
        text
    }

    /// What was waited for, in the text of a timeout.
    pub(crate) fn wait_text(&self) -> Vec<u8> {
        match self.what {
            Expect::String(pattern) => [&b" (expect string '"[..], pattern, b"')"].concat(),
            Expect::Binary(_) => b" (expect binary)".to_vec(),
            Expect::Regex(_) => b" (expect regex)".to_vec(),
            Expect::BinaryRegex(_) => b" (expect binary regex)".to_vec(),
            Expect::StringFormat(_) => b" (expect log-format string)".to_vec(),
            Expect::BinaryFormat(_) => b" (expect log-format binary)".to_vec(),
            Expect::Status(_) => b" (expect HTTP status codes)".to_vec(),
            Expect::StatusRegex(_) => b" (expect HTTP status regex)".to_vec(),
            Expect::Header { .. } => b" (expect HTTP header pattern)".to_vec(),
        }
    }
}

/// The bytes a payload stands for.
pub(crate) fn text(payload: &CheckPayload, txn: &Txn) -> Vec<u8> {
    match payload {
        CheckPayload::Plain(bytes) => bytes.clone(),
        CheckPayload::Format(format) => rendered(format, txn),
        CheckPayload::HexFormat(format) => from_hex(&rendered(format, txn)),
    }
}

pub(crate) fn rendered(format: &LogFormat, txn: &Txn) -> Vec<u8> {
    let mut out = Vec::new();
    format.render(txn, &mut out);
    out
}

/// Pairs of hexadecimal digits up to the first character that is none.
fn from_hex(text: &[u8]) -> Vec<u8> {
    let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
    text.chunks_exact(2).map_while(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect()
}

fn to_hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

fn contains(input: &[u8], pattern: &[u8]) -> bool {
    memchr::memmem::find(input, pattern).is_some()
}

fn matches_bytes(what: &Expect, input: &[u8], txn: &Txn) -> bool {
    match what {
        Expect::String(pattern) | Expect::Binary(pattern) => contains(input, pattern),
        Expect::Regex(regex) => regex.is_match(input),
        Expect::BinaryRegex(regex) => regex.is_match(&to_hex(input)),
        Expect::StringFormat(format) => contains(input, &rendered(format, txn)),
        Expect::BinaryFormat(format) => contains(input, &from_hex(&rendered(format, txn))),
        // Statuses and fields are judged elsewhere: there are none in raw bytes.
        Expect::Status(_) | Expect::StatusRegex(_) | Expect::Header { .. } => false,
    }
}

/// `hdr` or `fhdr` with its patterns rendered.
struct Pattern<'a> {
    name: Vec<u8>,
    name_match: &'a StringMatch,
    value: Option<(Vec<u8>, &'a StringMatch)>,
    full: bool,
}

impl Pattern<'_> {
    fn is_in(&self, response: &Response) -> bool {
        let name = self.name.to_ascii_lowercase();
        let mut named = response.fields.iter().filter(|(field, _)| matches(self.name_match, &name, field));
        let Some((value, how)) = &self.value else { return named.next().is_some() };
        named.any(|(_, field)| match self.full {
            true => matches(how, value, field),
            false => elements(field).any(|element| matches(how, value, element)),
        })
    }
}

/// RFC 9110 section 5.6.1: the elements of a list; commas in quoted strings do not part them.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = value.split(move |byte| {
        let was_escaped = std::mem::take(&mut escaped);
        match byte {
            b'\\' if quoted && !was_escaped => escaped = true,
            b'"' if !was_escaped => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    });
    parts.map(<[u8]>::trim_ascii)
}

fn matches(how: &StringMatch, pattern: &[u8], text: &[u8]) -> bool {
    match how {
        StringMatch::Exact => text == pattern,
        StringMatch::Begin => text.starts_with(pattern),
        StringMatch::End => text.ends_with(pattern),
        StringMatch::Sub => contains(text, pattern),
        StringMatch::Regex(regex) => regex.is_match(text),
    }
}
