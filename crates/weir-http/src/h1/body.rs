//! Bodies: which bytes of the connection are the body's, and where it ends.

use std::ops::Range;

use super::error::{Fault, ParseError, ParseErrorKind as Kind, Stop};
use super::fields::{Section, parse_fields};
use super::{Framing, ParseOptions};
use crate::message::Fields;
use crate::trailers::drop_forbidden;

/// Largest chunk: 2^52 bytes, far beyond any real one and far from overflow.
pub const MAX_CHUNK_SIZE: u64 = 1 << 52;

/// Most bytes of one chunk's extensions, which are ignored (RFC 9112 section 7.1.1).
pub const MAX_CHUNK_EXTENSION: u32 = 4096;

/// Most digits of a chunk size, leading zeros included.
const MAX_CHUNK_DIGITS: u8 = 32;

/// What one call found.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Bytes of input that are done with, those of `Data` included.
    pub consumed: usize,
    /// What they were.
    pub event: BodyEvent,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum BodyEvent {
    /// These bytes of the input are the body's.
    Data(Range<usize>),
    /// Nothing until more input arrives.
    NeedMore,
    /// The body is over.  With the trailer section, when there was one.
    End(Option<Box<Fields>>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// So many bytes of a body with a length.
    Length(u64),
    UntilClose,
    /// Digits of a chunk's size.
    Size {
        size: u64,
        digits: u8,
    },
    /// White space behind the size.
    SizeBlank {
        size: u64,
    },
    /// An extension, its bytes so far.
    Extension {
        size: u64,
        len: u32,
    },
    /// The LF of a size line.
    SizeLf {
        size: u64,
    },
    /// So many bytes of a chunk.
    Data(u64),
    DataCr,
    DataLf,
    Trailers,
    Done,
}

/// Takes a body out of its framing.  Holds no body bytes; only an unfinished trailer section.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    fault: Fault,
    options: ParseOptions,
    /// On the heap: hardly any body has trailers, and every idle connection has a decoder.
    trailers: Option<Box<Unfinished>>,
}

/// The bytes of a trailer section that has not ended yet.
#[derive(Clone, Default, Debug)]
struct Unfinished {
    bytes: Vec<u8>,
}

impl BodyDecoder {
    /// A decoder of a request's body.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self::with_options(framing, Fault::Client, &ParseOptions::default())
    }

    /// A decoder of a client's or a server's body, with the limits of a trailer section.
    #[must_use]
    pub fn with_options(framing: Framing, fault: Fault, options: &ParseOptions) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, fault, options: *options, trailers: None }
    }

    /// True when the body is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are the body's for certain, without looking at them: they may be spliced past
    /// [`Self::decode`] and reported with [`Self::passed`].
    #[must_use]
    pub fn pass_through(&self) -> u64 {
        match self.state {
            State::Length(left) | State::Data(left) => left,
            State::UntilClose => u64::MAX,
            _ => 0,
        }
    }

    /// So many bytes of the body went another way; at most [`Self::pass_through`].
    pub fn passed(&mut self, bytes: u64) {
        match self.state {
            State::Length(left) if bytes >= left => self.state = State::Done,
            State::Length(left) => self.state = State::Length(left - bytes),
            State::Data(left) if bytes >= left => self.state = State::DataCr,
            State::Data(left) => self.state = State::Data(left - bytes),
            _ => {}
        }
    }

    /// The connection ended.
    ///
    /// # Errors
    /// `Truncated`, when the body was not over.
    pub fn end_of_input(&mut self) -> Result<(), ParseError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(self.refused(Kind::Truncated, 0)),
        }
    }

    /// Looks at input that starts where the last call's `consumed` ended.
    ///
    /// # Errors
    /// Malformed chunks or trailers, or ones beyond their bounds.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ParseError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok(Decoded { consumed: at, event: BodyEvent::End(None) }),
                State::Length(_) | State::Data(_) | State::UntilClose => return Ok(self.data(input, at)),
                State::Trailers => return self.trailers(input, at),
                _ => {}
            }
            let Some(&byte) = input.get(at) else {
                return Ok(Decoded { consumed: at, event: BodyEvent::NeedMore });
            };
            self.state = self.step(byte).map_err(|kind| self.refused(kind, at))?;
            at += 1;
        }
    }

    fn refused(&self, kind: Kind, position: usize) -> ParseError {
        ParseError::new(kind, position, self.fault)
    }

    fn data(&mut self, input: &[u8], at: usize) -> Decoded {
        let available = (input.len() - at) as u64;
        let len = available.min(self.pass_through()) as usize;
        if len == 0 {
            return Decoded { consumed: at, event: BodyEvent::NeedMore };
        }
        self.passed(len as u64);
        Decoded { consumed: at + len, event: BodyEvent::Data(at..at + len) }
    }

    /// One byte of a size line or behind a chunk's data.  Only CR LF ends these lines: with a lone LF
    /// two readers could see different chunks.
    fn step(&self, byte: u8) -> Result<State, Kind> {
        match (self.state, byte) {
            (State::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                let size = size * 16 + u64::from(digit);
                if size > MAX_CHUNK_SIZE || digits >= MAX_CHUNK_DIGITS {
                    return Err(Kind::ChunkTooLarge);
                }
                Ok(State::Size { size, digits: digits + 1 })
            }
            (State::Size { digits: 0, .. }, _) => Err(Kind::Chunk),
            (State::Size { size, .. } | State::SizeBlank { size }, b' ' | b'\t') => {
                Ok(State::SizeBlank { size })
            }
            (State::Size { size, .. } | State::SizeBlank { size }, b';') => {
                Ok(State::Extension { size, len: 1 })
            }
            (State::Size { size, .. } | State::SizeBlank { size } | State::Extension { size, .. }, b'\r') => {
                Ok(State::SizeLf { size })
            }
            (State::Extension { .. } | State::Size { .. } | State::SizeBlank { .. }, b'\n') => {
                Err(Kind::BareLf)
            }
            (State::Extension { .. }, 0) => Err(Kind::Chunk),
            (State::Extension { size, len }, _) if len < MAX_CHUNK_EXTENSION => {
                Ok(State::Extension { size, len: len + 1 })
            }
            (State::Extension { .. }, _) => Err(Kind::ChunkExtensionTooLarge),
            (State::SizeLf { size: 0 }, b'\n') => Ok(State::Trailers),
            (State::SizeLf { size }, b'\n') => Ok(State::Data(size)),
            (State::SizeLf { .. } | State::DataLf, _) if byte != b'\n' => Err(Kind::BareCr),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, _) => Ok(State::Size { size: 0, digits: 0 }),
            _ => Err(Kind::Chunk),
        }
    }

    fn trailers(&mut self, input: &[u8], at: usize) -> Result<Decoded, ParseError> {
        if self.trailers.is_none() && input[at..].starts_with(b"\r\n") {
            self.state = State::Done;
            return Ok(Decoded { consumed: at + 2, event: BodyEvent::End(None) });
        }
        let mut unfinished = self.trailers.take().unwrap_or_default();
        let bytes = &mut unfinished.bytes;
        let known = bytes.len();
        let room = self.options.max_head - known.min(self.options.max_head);
        let taken = room.min(input.len() - at);
        bytes.extend_from_slice(&input[at..at + taken]);
        let mut fields = Fields::default();
        // Positions in `bytes` count from `known` before `at`.
        let mut section = Section::default();
        match parse_fields(bytes, 0, &self.options, &mut fields, &mut section) {
            Ok(()) => {
                fields.fill_received(&bytes[..section.end], section.folded);
                drop_forbidden(&mut fields);
                self.state = State::Done;
                let trailers = (!fields.is_empty()).then(|| Box::new(fields));
                Ok(Decoded { consumed: at + section.end - known, event: BodyEvent::End(trailers) })
            }
            Err(Stop::NeedMore) if taken < room => {
                self.trailers = Some(unfinished);
                Ok(Decoded { consumed: at + taken, event: BodyEvent::NeedMore })
            }
            Err(Stop::NeedMore) => Err(self.refused(Kind::TrailersTooLarge, at + taken)),
            Err(Stop::Refused(kind, position)) => {
                Err(self.refused(kind, (at + position).saturating_sub(known)))
            }
        }
    }
}
