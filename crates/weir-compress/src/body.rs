//! A body on its way through an algorithm: pieces in, pieces out.

use weir_deflate::{After, Content, Encoder, Format};

use crate::remembered::{Budget, Remembering};
use crate::reuse::{Before, Reuse};
use crate::windowed::{Coding, Pool, Windowed};
use crate::{Algorithm, Level};

/// What a worker thread lends to each call: tables and buffers of all algorithms. One per worker; a stream in a
/// deflate format keeps 16 bytes itself.
#[derive(Debug)]
pub struct Scratch {
    deflate: weir_deflate::Scratch,
    windowed: Pool,
    budget: Budget,
    /// Not for streams whose pieces are kept for the next time: these must not depend on each other.
    tails: Budget,
    pub(crate) reuse: Reuse,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Allocates what the algorithms need.
    pub fn new() -> Self {
        Self {
            deflate: weir_deflate::Scratch::new(),
            windowed: Pool::default(),
            budget: Budget::default(),
            tails: Budget::of_tails(),
            reuse: Reuse::default(),
        }
    }

    /// The same, with memory for windows of deflate streams: off where it is 0. Between pieces of one response a
    /// secret can then be told by the length of what is sent (the attack known as BREACH).
    pub fn with_window_memory(bytes: usize) -> Self {
        Self { budget: Budget::new(bytes), ..Self::default() }
    }

    /// The same, with memory for what is encoded more than once: off where it is 0. Of bodies that may be kept
    /// ([`BodyEncoder::with_reuse`]) the time that encoding takes tells whether they were sent before.
    #[must_use]
    pub fn with_reuse_memory(self, bytes: usize) -> Self {
        Self { reuse: Reuse::new(bytes), ..self }
    }

    /// Bytes of input that were not encoded again, as they were known, since this was asked before.
    pub fn take_reused(&mut self) -> u64 {
        self.reuse.take_reused()
    }

    /// Whether there is memory for what is encoded more than once.
    pub const fn has_reuse_memory(&self) -> bool {
        !self.reuse.is_none()
    }

    /// Whether another stream may keep a window: where not, [`crate::HeadEdits::under`] chooses another algorithm.
    pub fn has_room(&self) -> bool {
        self.windowed.has_room()
    }
}

/// What follows a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// More, at once: the encoder may hold back what it likes.
    Open,
    /// A pause: the other side must be able to read everything up to here.
    Flush,
    /// Nothing.
    Finish,
}

/// The most bytes that one call can append to its output for `input` bytes, with identity and the deflate formats.
/// Brotli and Zstandard hold input back and may append that of several calls.
pub const fn max_output(input: usize) -> usize {
    weir_deflate::max_output(input)
}

/// The body of one message.
///
/// With the deflate formats each call compresses all that it is given, without reference to earlier pieces, but for the
/// last 4 kB of a large piece that ended with [`Ending::Open`] (or more, where [`Scratch::with_window_memory`] allows
/// it): larger pieces (16 to 64 kB) compress better. Brotli and Zstandard keep a window of their own.
#[derive(Debug)]
pub struct BodyEncoder {
    coder: Coder,
}

#[derive(Debug)]
enum Coder {
    Identity,
    Deflate(Encoder),
    /// The same, of which pieces may be kept, and copied where they were kept before.
    Reusing(Box<Encoder>),
    Remembering(Box<Remembering>),
    Windowed(Box<Windowed>),
    /// A Brotli or Zstandard stream after its end.
    Finished,
}

impl BodyEncoder {
    /// An encoder before the first byte.
    pub fn new(algorithm: Algorithm, level: Level, content: Content, scratch: &Scratch) -> Self {
        let deflate = |format| {
            let encoder = Encoder::new(format, level).with_content(content);
            if scratch.budget.is_none() {
                return Coder::Deflate(encoder);
            }
            Coder::Remembering(Box::new(Remembering::new(encoder, &scratch.budget)))
        };
        let windowed = |coding| Coder::Windowed(Box::new(Windowed::new(coding, level, &scratch.windowed)));
        let coder = match algorithm {
            Algorithm::Identity => Coder::Identity,
            Algorithm::Gzip => deflate(Format::Gzip),
            Algorithm::Deflate => deflate(Format::Zlib),
            Algorithm::RawDeflate => deflate(Format::Raw),
            Algorithm::Brotli => windowed(Coding::Brotli),
            Algorithm::Zstd => windowed(Coding::Zstd),
        };
        Self { coder }
    }

    /// Lets its pieces be kept and copied where the scratch has memory for it: for what is the same for all clients
    /// ([`crate::may_be_kept`]). Without, pieces may depend on each other as any other's.
    #[must_use]
    pub fn with_reuse(self, scratch: &Scratch) -> Self {
        if !scratch.has_reuse_memory() {
            return self;
        }
        let coder = match self.coder {
            Coder::Deflate(encoder) => Coder::Reusing(Box::new(encoder)),
            Coder::Windowed(stream) => Coder::Windowed(Box::new(stream.with_reuse())),
            other => other,
        };
        Self { coder }
    }

    /// Changes the level for the pieces to come, where the algorithm can: Brotli and Zstandard stay at theirs.
    pub const fn set_level(&mut self, level: Level) {
        match &mut self.coder {
            Coder::Deflate(encoder) => encoder.set_level(level),
            Coder::Reusing(encoder) => encoder.set_level(level),
            Coder::Remembering(stream) => stream.encoder().set_level(level),
            Coder::Identity | Coder::Windowed(_) | Coder::Finished => {}
        }
    }

    /// Compresses a piece and appends the result to `out`. After [`Ending::Finish`] it does nothing.
    pub fn encode(&mut self, piece: &[u8], ending: Ending, out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity => out.extend_from_slice(piece),
            Coder::Deflate(encoder) => {
                push(encoder.after(&[]), piece, ending, out, &mut scratch.deflate);
                if scratch.tails.suits(piece, ending) {
                    let mut stream = Box::new(Remembering::new(encoder.clone(), &scratch.tails));
                    stream.remember(piece);
                    self.coder = Coder::Remembering(stream);
                }
            }
            Coder::Reusing(encoder) => {
                let before = Before::Deflate(Encoder::clone(encoder));
                let after = scratch.reuse.encode(before, piece, ending, out, |out| {
                    push(encoder.after(&[]), piece, ending, out, &mut scratch.deflate);
                    Some(Encoder::clone(encoder))
                });
                if let Some(after) = after {
                    **encoder = after;
                }
            }
            Coder::Remembering(stream) => {
                stream.encode(piece, ending, out, &mut scratch.deflate);
            }
            Coder::Windowed(stream) => match stream.before_the_first() {
                Some((coding, level)) if ending == Ending::Finish && stream.may_reuse() => {
                    scratch.reuse.encode(Before::Whole(coding, level), piece, ending, out, |out| {
                        stream.encode(piece, ending, out, &mut scratch.windowed);
                        None
                    });
                }
                _ => stream.encode(piece, ending, out, &mut scratch.windowed),
            },
            Coder::Finished => return,
        }
        let ends_itself = matches!(self.coder, Coder::Deflate(_) | Coder::Reusing(_) | Coder::Remembering(_));
        if ending == Ending::Finish
            && !ends_itself
            && let Coder::Windowed(stream) = std::mem::replace(&mut self.coder, Coder::Finished)
        {
            stream.give_back(&mut scratch.windowed);
        }
    }
}

pub(crate) fn push(
    encoder: After<'_>,
    piece: &[u8],
    ending: Ending,
    out: &mut Vec<u8>,
    scratch: &mut weir_deflate::Scratch,
) {
    match ending {
        Ending::Open => encoder.push(piece, out, scratch),
        Ending::Flush => encoder.push_and_flush(piece, out, scratch),
        Ending::Finish => encoder.push_and_finish(piece, out, scratch),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const WHOLE: &str = "a body that comes back whole";

    fn reader<'a>(algorithm: Algorithm, data: &'a [u8]) -> Box<dyn Read + 'a> {
        match algorithm {
            Algorithm::Identity => Box::new(data),
            Algorithm::Gzip => Box::new(flate2::read::GzDecoder::new(data)),
            Algorithm::Deflate => Box::new(flate2::read::ZlibDecoder::new(data)),
            Algorithm::RawDeflate => Box::new(flate2::read::DeflateDecoder::new(data)),
            Algorithm::Brotli => Box::new(brotli::Decompressor::new(data, 4096)),
            Algorithm::Zstd => Box::new(zstd::stream::read::Decoder::new(data).expect(WHOLE)),
        }
    }

    fn decode(algorithm: Algorithm, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        reader(algorithm, data).read_to_end(&mut out).expect(WHOLE);
        out
    }

    #[test]
    fn a_flushed_piece_is_all_there() {
        let mut scratch = Scratch::new();
        let piece = b"<li>one</li><li>two</li>".repeat(20);
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Default, Content::Html, &scratch);
            let mut out = Vec::new();
            for _ in 0..3 {
                encoder.encode(&piece, Ending::Flush, &mut out, &mut scratch);
                // The stream is cut here: a reader gets the piece and then sees the end missing.
                let mut back = vec![0; piece.len()];
                reader(algorithm, &out).read_exact(&mut back).unwrap();
                assert_eq!(back, piece, "{algorithm:?}");
            }
        }
    }

    #[test]
    fn calls_after_the_end_do_nothing() {
        let mut scratch = Scratch::new();
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Fast, Content::Html, &scratch);
            let mut out = Vec::new();
            encoder.encode(b"body", Ending::Finish, &mut out, &mut scratch);
            let length = out.len();
            for ending in [Ending::Open, Ending::Flush, Ending::Finish] {
                encoder.encode(b"more", ending, &mut out, &mut scratch);
            }
            assert_eq!(out.len(), length, "{algorithm:?}");
        }
    }

    #[test]
    fn bodies_come_back() {
        let mut scratch = Scratch::new();
        for (algorithm, level) in Algorithm::ALL
            .into_iter()
            .flat_map(|a| [Level::Fast, Level::Default, Level::High].map(|level| (a, level)))
        {
            let mut encoder = BodyEncoder::new(algorithm, level, Content::Html, &scratch);
            let mut out = Vec::new();
            let mut expected = Vec::new();
            for i in 0..50 {
                let piece = format!("<li class=\"item\"><a href=\"/{i}\">{i}</a></li>\n").repeat(i);
                expected.extend_from_slice(piece.as_bytes());
                let ending = if i % 7 == 0 { Ending::Flush } else { Ending::Open };
                encoder.encode(piece.as_bytes(), ending, &mut out, &mut scratch);
                if i == 20 {
                    encoder.set_level(Level::Fast);
                }
            }
            encoder.encode(b"", Ending::Finish, &mut out, &mut scratch);
            assert_eq!(decode(algorithm, &out), expected, "{algorithm:?}");
        }
    }

    #[test]
    fn a_large_body_is_smaller_for_the_end_of_the_piece_before() {
        let words = ["<div class=\"row\">", "</div>\n", "<a href=\"/item/", "\">", "of the ", "and "];
        let line = |i: usize| {
            format!("{}{}{}", words[i * i % 6], i.wrapping_mul(2_654_435_761) % 9973, words[i % 5])
        };
        let body = (0..30_000).map(line).collect::<String>().into_bytes();
        let encode = |level, reused| {
            let scratch = &mut Scratch::new().with_reuse_memory(1 << 20);
            let mut encoder = BodyEncoder::new(Algorithm::Gzip, level, Content::Html, scratch);
            if reused {
                encoder = encoder.with_reuse(scratch);
            }
            let mut out = Vec::new();
            body.chunks(64 * 1024).for_each(|piece| encoder.encode(piece, Ending::Open, &mut out, scratch));
            encoder.encode(b"", Ending::Finish, &mut out, scratch);
            assert_eq!(decode(Algorithm::Gzip, &out), body);
            out.len()
        };
        for level in [Level::Fast, Level::Default, Level::High] {
            let busy = encode(level, false);
            // Where what is encoded is kept for the next time, pieces do not depend on each other.
            let alone = encode(level, true);
            assert!(busy < alone, "{level:?}: {busy} {alone}");
        }
    }

    #[test]
    fn an_encoder_is_small() {
        assert!(size_of::<BodyEncoder>() <= 32, "{}", size_of::<BodyEncoder>());
    }
}
