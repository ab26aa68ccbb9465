//! Records (FastCGI sections 3.3 to 5): a header of eight bytes, content, padding.

use std::ops::Range;

use super::params::Params;
use crate::h1::{Fault, ParseError, ParseErrorKind};

/// Most bytes of content that a record's length can say.
pub const MAX_CONTENT: usize = 0xffff;

/// Length of a header, and of the content of `BEGIN_REQUEST` and `END_REQUEST`.
const HEADER: usize = 8;

const VERSION: u8 = 1;

/// The number of every request: a connection carries one at a time.
const REQUEST: u16 = 1;

/// The number of records that are about the connection.
const MANAGEMENT: u16 = 0;

/// Types of records.
mod kind {
    pub(super) const BEGIN_REQUEST: u8 = 1;
    pub(super) const END_REQUEST: u8 = 3;
    pub(super) const PARAMS: u8 = 4;
    pub(super) const STDIN: u8 = 5;
    pub(super) const STDOUT: u8 = 6;
    pub(super) const STDERR: u8 = 7;
    pub(super) const GET_VALUES: u8 = 9;
}

fn write_header(kind: u8, request: u16, length: usize, out: &mut Vec<u8>) {
    let [number_high, number_low] = request.to_be_bytes();
    let [length_high, length_low] = (length as u16).to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, number_high, number_low, length_high, length_low, 0, 0]);
}

/// Begins a request; the application leaves the connection open behind it when `keep` says so.
pub fn write_begin(keep: bool, out: &mut Vec<u8>) {
    const RESPONDER: u8 = 1;
    write_header(kind::BEGIN_REQUEST, REQUEST, HEADER, out);
    out.extend_from_slice(&[0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
}

/// The request's parameters, all of them.
pub fn write_params(params: &Params, out: &mut Vec<u8>) {
    write_stream(kind::PARAMS, params.bytes(), out);
    write_header(kind::PARAMS, REQUEST, 0, out);
}

/// A piece of the request's body.
pub fn write_stdin(data: &[u8], out: &mut Vec<u8>) {
    write_stream(kind::STDIN, data, out);
}

/// The request's body is over.
pub fn write_end_of_stdin(out: &mut Vec<u8>) {
    write_header(kind::STDIN, REQUEST, 0, out);
}

/// A record without content would end the stream: nothing is written for nothing.
fn write_stream(kind: u8, data: &[u8], out: &mut Vec<u8>) {
    for piece in data.chunks(MAX_CONTENT) {
        write_header(kind, REQUEST, piece.len(), out);
        out.extend_from_slice(piece);
    }
}

/// Asks for the application's limits.
pub fn write_get_values(out: &mut Vec<u8>) {
    let mut names = Params::default();
    names.add(b"FCGI_MAX_REQS", b"");
    names.add(b"FCGI_MPXS_CONNS", b"");
    write_header(kind::GET_VALUES, MANAGEMENT, names.bytes().len(), out);
    out.extend_from_slice(names.bytes());
}

/// Why an application did not take a request (section 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It has too much to do, or takes no second request on a connection: another connection may be luckier.
    Busy,
    /// It is no Responder, or says something else.
    Unfit,
}

/// What one call found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Bytes of input that are done with, those of the event included.
    pub consumed: usize,
    /// What they were.
    pub event: Event,
}

/// What an application sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// These bytes of the input are its answer's.
    Stdout(Range<usize>),
    /// These bytes of the input are its error messages'.
    Stderr(Range<usize>),
    /// It is done with the request, or never took it.
    End(Result<(), Refusal>),
    /// Nothing until more input arrives.
    NeedMore,
}

/// Takes what an application sends for one request out of its records. Holds no bytes.
///
/// ```text
///  Header --> Stdout, Stderr, Skipped (content) --> Skipped (padding) --> Header
///     '-----> Done
/// ```
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Header,
    Content {
        stream: Stream,
        left: u16,
        padding: u8,
    },
    Skipped(u32),
    Done(Result<(), Refusal>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

impl Receiver {
    /// Looks at input that starts where the last call's `consumed` ended.
    ///
    /// # Errors
    /// A record that no application may send.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ParseError> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let found = |consumed: usize, event| Ok(Decoded { consumed, event });
            match self.state {
                State::Done(end) => return found(at, Event::End(end)),
                State::Content { left: 0, padding, .. } => self.state = State::Skipped(padding.into()),
                State::Skipped(0) => self.state = State::Header,
                _ if rest.is_empty() => return found(at, Event::NeedMore),
                State::Content { stream, left, padding } => {
                    let taken = rest.len().min(left.into());
                    self.state = State::Content { stream, left: left - taken as u16, padding };
                    let range = at..at + taken;
                    let event = match stream {
                        Stream::Stdout => Event::Stdout(range),
                        Stream::Stderr => Event::Stderr(range),
                    };
                    return found(at + taken, event);
                }
                State::Skipped(left) => {
                    let taken = rest.len().min(left as usize);
                    self.state = State::Skipped(left - taken as u32);
                    at += taken;
                }
                State::Header => {
                    let Some(taken) = self.header(rest).map_err(|Malformed| refused(at))? else {
                        return found(at, Event::NeedMore);
                    };
                    at += taken;
                }
            }
        }
    }

    /// Reads a header, and all of the record that ends the request; the bytes it took, or `None` for too few.
    fn header(&mut self, rest: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some((header, content)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let &[version, kind, number_high, number_low, length_high, length_low, padding, _] = header;
        let number = u16::from_be_bytes([number_high, number_low]);
        let left = u16::from_be_bytes([length_high, length_low]);
        if version != VERSION {
            return Err(Malformed);
        }
        self.state = match (kind, number) {
            // What is asked about a connection changes nothing while it carries one request at a time.
            (_, MANAGEMENT) => State::Skipped(u32::from(left) + u32::from(padding)),
            (kind::STDOUT, REQUEST) => State::Content { stream: Stream::Stdout, left, padding },
            (kind::STDERR, REQUEST) => State::Content { stream: Stream::Stderr, left, padding },
            (kind::END_REQUEST, REQUEST) if usize::from(left) == HEADER => {
                let length = HEADER + usize::from(padding);
                let Some(content) = content.get(..length) else { return Ok(None) };
                self.state = State::Done(outcome(content[4]));
                return Ok(Some(HEADER + length));
            }
            _ => return Err(Malformed),
        };
        Ok(Some(HEADER))
    }

    /// The request is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }
}

struct Malformed;

fn refused(position: usize) -> ParseError {
    ParseError::new(ParseErrorKind::Record, position, Fault::Server)
}

/// What `protocolStatus` says.
fn outcome(status: u8) -> Result<(), Refusal> {
    match status {
        0 => Ok(()),
        1 | 2 => Err(Refusal::Busy),
        _ => Err(Refusal::Unfit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, number: u16, content: &[u8], padding: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(kind, number, content.len(), &mut out);
        out[6] = padding as u8;
        out.extend_from_slice(content);
        out.resize(out.len() + padding, 0xff);
        out
    }

    /// Everything an application sent.
    #[derive(Default, PartialEq, Debug)]
    struct Received {
        stdout: Vec<u8>,
        stderr: Vec<u8>,
        end: Option<Result<(), Refusal>>,
        refused: bool,
    }

    /// Receives what is given in pieces.
    fn receive(sent: &[u8], piece: usize) -> Received {
        let mut receiver = Receiver::default();
        let mut received = Received::default();
        let mut input = Vec::new();
        for bytes in sent.chunks(piece) {
            input.extend_from_slice(bytes);
            loop {
                let Ok(Decoded { consumed, event }) = receiver.decode(&input) else {
                    received.refused = true;
                    return received;
                };
                match event {
                    Event::Stdout(range) => received.stdout.extend_from_slice(&input[range]),
                    Event::Stderr(range) => received.stderr.extend_from_slice(&input[range]),
                    Event::End(how) => {
                        assert!(receiver.is_done());
                        received.end = Some(how);
                        break;
                    }
                    Event::NeedMore => {
                        input.drain(..consumed);
                        break;
                    }
                }
                input.drain(..consumed);
            }
        }
        received
    }

    #[test]
    fn what_applications_send() {
        let end = |status: u8| record(3, 1, &[0, 0, 0, 0, status, 0, 0, 0], 0);
        let check = |records: &[Vec<u8>], out: &str, err: &str, end, refused| {
            let sent = records.concat();
            for piece in [1, 2, 7, 8, 9, 1000] {
                let expected = Received { stdout: out.into(), stderr: err.into(), end, refused };
                assert_eq!(receive(&sent, piece), expected, "{records:?} by {piece}");
            }
        };
        let stdout = |text: &str, padding| record(6, 1, text.as_bytes(), padding);
        let stderr = |text: &str| record(7, 1, text.as_bytes(), 1);
        check(&[stdout("ab", 0), stdout("", 0), end(0)], "ab", "", Some(Ok(())), false);
        check(&[stdout("ab", 255), stderr("x"), stdout("cd", 3)], "abcd", "x", None, false);
        check(&[record(3, 1, &[0; 8], 4)], "", "", Some(Ok(())), false);
        check(&[end(1)], "", "", Some(Err(Refusal::Busy)), false);
        check(&[end(2)], "", "", Some(Err(Refusal::Busy)), false);
        check(&[end(3)], "", "", Some(Err(Refusal::Unfit)), false);
        // The answer to what `option get-values` asks, and one that does not know the question.
        let values = record(10, 0, b"\x0d\x01FCGI_MAX_REQS5", 5);
        check(&[values, record(11, 0, &[9, 0, 0, 0, 0, 0, 0, 0], 0), end(0)], "", "", Some(Ok(())), false);
        check(&[stdout("ab", 0), record(6, 2, b"other", 0)], "ab", "", None, true);
        check(&[record(3, 1, &[0; 7], 0)], "", "", None, true);
        check(&[record(5, 1, b"ours", 0)], "", "", None, true);
        check(&[b"HTTP/1.1 400 Bad request".to_vec()], "", "", None, true);
    }

    #[test]
    fn what_is_sent() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        let begin = |keep| written(&|out| write_begin(keep, out));
        assert_eq!(begin(true), [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(begin(false), [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        let mut params = Params::default();
        assert_eq!(written(&|out| write_params(&params, out)), [1, 4, 0, 1, 0, 0, 0, 0]);
        params.add(b"A", b"b");
        let expected = [&[1, 4, 0, 1, 0, 4, 0, 0, 1, 1][..], b"Ab", &[1, 4, 0, 1, 0, 0, 0, 0]].concat();
        assert_eq!(written(&|out| write_params(&params, out)), expected);
        assert_eq!(written(&write_end_of_stdin), [1, 5, 0, 1, 0, 0, 0, 0]);
        assert!(written(&|out| write_stdin(b"", out)).is_empty());
        let large = written(&|out| write_stdin(&[7; MAX_CONTENT + 1], out));
        assert_eq!(large.len(), MAX_CONTENT + 1 + 2 * HEADER);
        assert_eq!(large[..HEADER], [1, 5, 0, 1, 0xff, 0xff, 0, 0]);
        assert_eq!(large[HEADER + MAX_CONTENT..], [1, 5, 0, 1, 0, 1, 0, 0, 7]);
        let values = written(&write_get_values);
        assert_eq!(values[..10], [1, 9, 0, 0, 0, 32, 0, 0, 13, 0]);
    }
}
