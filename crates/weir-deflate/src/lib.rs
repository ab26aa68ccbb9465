//! A deflate encoder for streams that must cost nothing while they wait: bytes in, bytes out.
//!
//! A stream keeps 16 bytes between calls and no heap; everything large (tables, tokens, window) lives in a
//! [`Scratch`] that a thread owns once and lends to each call. A call compresses all it was given: matches never
//! reach into an earlier call's bytes, which also keeps secrets of different pieces from meeting in one window;
//! a caller that still has those bytes may lend them ([`Encoder::after`]).
//!
//! This crate knows RFC 1951 (deflate), RFC 1950 (zlib) and RFC 1952 (gzip). When to compress, and what, is decided
//! by its callers.
#![no_std]

extern crate alloc;

mod engine;

mod parse;

mod arena;

mod probe;

mod tokens;

mod code;

mod presets;

mod huffman;

mod symbols;

mod bits;

mod checksum;

use alloc::vec::Vec;

use bits::Partial;
use checksum::Checksum;
pub use engine::Scratch;
use engine::{Input, Position, encode};

pub use arena::WINDOW;

/// The envelope around the deflate blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// RFC 1952, with CRC-32 and length at the end.
    Gzip,
    /// RFC 1950, with Adler-32 at the end.
    Zlib,
    /// RFC 1951 blocks alone.
    Raw,
}

/// How much work to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One pass with a code known beforehand.
    Fast,
    /// Two passes and the cheapest code for each block.
    Default,
    /// As the default, with two candidates for each match.
    High,
}

/// What the bytes are likely to be: selects the code that is tried first. A wrong hint costs size, never correctness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Content {
    /// Nothing is known.
    #[default]
    Unknown,
    /// HTML pages.
    Html,
    /// JavaScript and style sheets.
    Script,
    /// JSON.
    Json,
    /// XML and SVG.
    Xml,
    /// Plain text in a natural language, logs.
    Text,
}

/// Bytes that one call may add beyond its input whatever the input: the envelope's header (10) and trailer (8), the
/// end of a block left open (2), a last empty block or a flush (6), what one block may add (8).
const CALL_OVERHEAD: usize = 64;

/// The most bytes that one call can append to its output for `input` bytes.
///
/// A block is written in a code only where that is no larger than storing it: it adds at most 8 bytes (the end of the
/// block before, 2; its header, padding and length, 6). There is a block for each 32 kB or less, so that one 1024th
/// of the input is more than all but the first can add.
pub const fn max_output(input: usize) -> usize {
    input.saturating_add(input / 1024).saturating_add(CALL_OVERHEAD)
}

/// What a call leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    Sync,
    Finish,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encoder {
    /// Of all input so far.
    checksum: u32,
    /// Input bytes so far, modulo 2^32 (RFC 1952 section 2.3.1, ISIZE).
    length: u32,
    /// The bits of the last byte that are not written yet, and the block that is open.
    position: Position,
    format: Format,
    level: Level,
    content: Content,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Start,
    Body,
    Finished,
}

impl Encoder {
    /// A stream before its first byte.
    pub const fn new(format: Format, level: Level) -> Self {
        let checksum = match format {
            Format::Gzip | Format::Raw => 0,
            Format::Zlib => 1,
        };
        Self {
            checksum,
            length: 0,
            position: Position { partial: Partial { bits: 0, count: 0 }, open: None },
            format,
            level,
            content: Content::Unknown,
            stage: Stage::Start,
        }
    }

    /// Says what the bytes are likely to be.
    #[must_use]
    pub const fn with_content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// The level in use.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Changes the level from the next call on; possible at any time, as no call depends on an earlier one's work.
    pub const fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Whether [`Encoder::finish`] was called: further calls do nothing.
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// The next call may refer to `window`, the bytes that this stream was given last: all of the piece before, or its
    /// end; of more than [`WINDOW`] bytes the last are used. Other bytes would come out of the inflater in their place.
    ///
    /// A window makes small pieces up to a tenth smaller, and the stream still keeps nothing: it is for callers that
    /// have the piece before in memory anyway. It costs some time, and part of what having none protects from: where
    /// a secret and bytes that an attacker chooses come in different pieces of one response, the length now tells
    /// whether they are alike (the attack known as BREACH). Leave it off where pages hold secrets beside echoed input.
    ///
    /// ```
    /// # use weir_deflate::{Encoder, Format, Level, Scratch};
    /// let (mut out, mut scratch) = (Vec::new(), Scratch::new());
    /// let mut encoder = Encoder::new(Format::Gzip, Level::Default);
    /// let pieces = [b"first piece".as_slice(), b"second piece".as_slice()];
    /// encoder.push_and_flush(pieces[0], &mut out, &mut scratch);
    /// encoder.after(pieces[0]).push_and_finish(pieces[1], &mut out, &mut scratch);
    /// ```
    pub const fn after<'a>(&'a mut self, window: &'a [u8]) -> After<'a> {
        After { encoder: self, window }
    }

    /// Compresses `input` and appends what is complete to `out`: at most [`max_output`] of its length. Up to 7 bits
    /// stay back until the next call.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encode(&[], input, Ending::Open, out, scratch);
    }

    /// Ends at a byte boundary, so that all bytes pushed so far can be read by the other side (zlib's sync flush).
    pub fn flush(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encode(&[], &[], Ending::Sync, out, scratch);
    }

    /// Ends the stream and writes the envelope's trailer.
    pub fn finish(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encode(&[], &[], Ending::Finish, out, scratch);
    }

    /// [`Encoder::push`] and [`Encoder::flush`] in one call, somewhat smaller than the two.
    pub fn push_and_flush(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encode(&[], input, Ending::Sync, out, scratch);
    }

    /// [`Encoder::push`] and [`Encoder::finish`] in one call, somewhat smaller than the two.
    pub fn push_and_finish(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encode(&[], input, Ending::Finish, out, scratch);
    }

    fn encode(
        &mut self,
        window: &[u8],
        input: &[u8],
        ending: Ending,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) {
        if self.stage == Stage::Finished {
            return;
        }
        if self.stage == Stage::Start {
            self.stage = Stage::Body;
            self.write_header(out);
        }
        self.checksum = match self.format {
            Format::Gzip => Checksum::Crc32.update(self.checksum, input),
            Format::Zlib => Checksum::Adler32.update(self.checksum, input),
            Format::Raw => 0,
        };
        // RFC 1952 section 2.3.1: the length is taken modulo 2^32, so the truncation is meant.
        self.length = self.length.wrapping_add(input.len() as u32);
        let input = Input::new(window, input);
        self.position = encode(input, ending, self.level, self.content, self.position, out, scratch);
        if ending == Ending::Finish {
            self.stage = Stage::Finished;
            self.write_trailer(out);
        }
    }

    fn write_header(&self, out: &mut Vec<u8>) {
        match self.format {
            // RFC 1952 section 2.3: magic, deflate, no flags, no time, no extra flags, system unknown.
            Format::Gzip => out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]),
            // RFC 1950 section 2.2: deflate with a 32 kB window, fastest; the pair is a multiple of 31.
            Format::Zlib => out.extend_from_slice(&[0x78, 0x01]),
            Format::Raw => {}
        }
    }

    fn write_trailer(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::Gzip => {
                out.extend_from_slice(&self.checksum.to_le_bytes());
                out.extend_from_slice(&self.length.to_le_bytes());
            }
            // RFC 1950 section 2.2: the most significant byte first.
            Format::Zlib => out.extend_from_slice(&self.checksum.to_be_bytes()),
            Format::Raw => {}
        }
    }
}

/// A stream whose next call may refer to earlier bytes: see [`Encoder::after`].
#[derive(Debug)]
pub struct After<'a> {
    encoder: &'a mut Encoder,
    window: &'a [u8],
}

impl After<'_> {
    /// As [`Encoder::push`].
    pub fn push(self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encoder.encode(self.window, input, Ending::Open, out, scratch);
    }

    /// As [`Encoder::push_and_flush`].
    pub fn push_and_flush(self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encoder.encode(self.window, input, Ending::Sync, out, scratch);
    }

    /// As [`Encoder::push_and_finish`].
    pub fn push_and_finish(self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.encoder.encode(self.window, input, Ending::Finish, out, scratch);
    }
}

#[cfg(test)]
mod tests;
