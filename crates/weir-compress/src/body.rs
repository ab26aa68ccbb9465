//! A body on its way through.

use std::fmt;
use std::io::Write;
use std::rc::Rc;

use weir_deflate::{Content, Encoder, Format};

use crate::{Algorithm, Level};

/// What a worker thread lends to each call: tables and buffers of all algorithms. One per worker; a stream in a
/// deflate format keeps 16 bytes itself.
#[derive(Debug, Default)]
pub struct Scratch {
    deflate: weir_deflate::Scratch,
    /// One reference here, and one for each stream that keeps a window.
    windows: Rc<()>,
}

/// Brotli and Zstandard streams of a worker at a time: at 1 to 2 MB each some 100 MB.
pub const MAX_WINDOWS: usize = 64;

impl Scratch {
    /// Allocates what the algorithms need.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether another stream may keep a window: where not, [`crate::ResponseFacts::has_room`] chooses another
    /// algorithm.
    pub fn has_room(&self) -> bool {
        Rc::strong_count(&self.windows) <= MAX_WINDOWS
    }
}

/// The most bytes that one call can append to its output for `input` bytes, with identity and the deflate formats.
/// Brotli and Zstandard hold input back and may append that of several calls.
pub const fn max_output(input: usize) -> usize {
    weir_deflate::max_output(input)
}

/// The body of one message: pieces in, pieces out.
///
/// With the deflate formats each [`BodyEncoder::push`] compresses all that it is given, without reference to earlier
/// pieces: larger pieces (16 to 64 kB) compress better. Brotli and Zstandard keep a window of their own.
#[derive(Debug)]
pub struct BodyEncoder {
    coder: Coder,
}

enum Coder {
    Identity,
    Deflate(Encoder),
    Brotli(Box<Brotli>, Windowed),
    Zstd(Box<Zstd>, Windowed),
    /// A Brotli or Zstandard stream after its end.
    Finished,
}

/// Beside a stream with a window.
struct Windowed {
    level: Level,
    /// Held for the count.
    _window: Rc<()>,
}

type Brotli = brotli::CompressorWriter<Vec<u8>>;
type Zstd = zstd::stream::write::Encoder<'static, Vec<u8>>;

/// log2 of Brotli's window: with more the ratio hardly gains, but memory grows.
const BROTLI_WINDOW: i32 = 16;
/// What the Brotli encoder passes on at a time.
const BROTLI_BUFFER: usize = 4096;
/// log2 of Zstandard's window. RFC 9659: at most 23.
const ZSTD_WINDOW: u32 = 17;

/// Writing to a vector cannot fail, and a context fails only for want of memory.
const INFALLIBLE: &str = "an encoder into memory fails only without memory";

fn brotli(level: Level) -> Box<Brotli> {
    let quality = match level {
        Level::Fast => 0,
        Level::Default => 2,
        Level::High => 4,
    };
    let parameters = brotli::enc::BrotliEncoderParams { quality, lgwin: BROTLI_WINDOW, ..Default::default() };
    Box::new(Brotli::with_params(Vec::new(), BROTLI_BUFFER, &parameters))
}

fn zstd(level: Level) -> Box<Zstd> {
    let level = match level {
        Level::Fast => 1,
        Level::Default => 3,
        Level::High => 5,
    };
    let mut encoder = Zstd::new(Vec::new(), level).expect(INFALLIBLE);
    encoder.window_log(ZSTD_WINDOW).expect("a window that Zstandard allows");
    Box::new(encoder)
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "Identity",
            Self::Deflate(_) => "Deflate",
            Self::Brotli(..) => "Brotli",
            Self::Zstd(..) => "Zstd",
            Self::Finished => "Finished",
        })
    }
}

impl BodyEncoder {
    /// An encoder before the first byte.
    pub fn new(algorithm: Algorithm, level: Level, content: Content, scratch: &Scratch) -> Self {
        let windowed = || Windowed { level, _window: Rc::clone(&scratch.windows) };
        let deflate = |format| Coder::Deflate(Encoder::new(format, level).with_content(content));
        let coder = match algorithm {
            Algorithm::Identity => Coder::Identity,
            Algorithm::Gzip => deflate(Format::Gzip),
            Algorithm::Deflate => deflate(Format::Zlib),
            Algorithm::RawDeflate => deflate(Format::Raw),
            Algorithm::Brotli => Coder::Brotli(brotli(level), windowed()),
            Algorithm::Zstd => Coder::Zstd(zstd(level), windowed()),
        };
        Self { coder }
    }

    /// The level in use; [`Level::Fast`] where there is none.
    pub const fn level(&self) -> Level {
        match &self.coder {
            Coder::Identity | Coder::Finished => Level::Fast,
            Coder::Deflate(encoder) => encoder.level(),
            Coder::Brotli(_, windowed) | Coder::Zstd(_, windowed) => windowed.level,
        }
    }

    /// Changes the level for the pieces to come, where the algorithm can: Brotli and Zstandard stay at theirs.
    pub const fn set_level(&mut self, level: Level) {
        if let Coder::Deflate(encoder) = &mut self.coder {
            encoder.set_level(level);
        }
    }

    /// Compresses a piece and appends the result to `out`.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity => out.extend_from_slice(input),
            Coder::Deflate(encoder) => encoder.push(input, out, &mut scratch.deflate),
            Coder::Brotli(encoder, _) => {
                encoder.write_all(input).expect(INFALLIBLE);
                out.append(encoder.get_mut());
            }
            Coder::Zstd(encoder, _) => {
                encoder.write_all(input).expect(INFALLIBLE);
                out.append(encoder.get_mut());
            }
            Coder::Finished => {}
        }
    }

    /// Makes everything pushed so far readable by the client: wanted when the server pauses, not after each piece.
    pub fn flush(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity | Coder::Finished => {}
            Coder::Deflate(encoder) => encoder.flush(out, &mut scratch.deflate),
            Coder::Brotli(encoder, _) => {
                encoder.flush().expect(INFALLIBLE);
                out.append(encoder.get_mut());
            }
            Coder::Zstd(encoder, _) => {
                encoder.flush().expect(INFALLIBLE);
                out.append(encoder.get_mut());
            }
        }
    }

    /// Ends the body. Further calls do nothing.
    pub fn finish(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.push_and_finish(&[], out, scratch);
    }

    /// [`BodyEncoder::push`] and [`BodyEncoder::finish`] in one: smaller and faster where the last piece is known to
    /// be the last, above all when it is the whole body.
    pub fn push_and_finish(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        if let Coder::Deflate(encoder) = &mut self.coder {
            encoder.push_and_finish(input, out, &mut scratch.deflate);
            return;
        }
        self.push(input, out, scratch);
        match std::mem::replace(&mut self.coder, Coder::Finished) {
            Coder::Brotli(encoder, _) => out.append(&mut encoder.into_inner()),
            Coder::Zstd(encoder, _) => out.append(&mut encoder.finish().expect(INFALLIBLE)),
            Coder::Identity | Coder::Deflate(_) | Coder::Finished => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decode(algorithm: Algorithm, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match algorithm {
            Algorithm::Identity => return data.to_vec(),
            Algorithm::Gzip => flate2::read::GzDecoder::new(data).read_to_end(&mut out),
            Algorithm::Deflate => flate2::read::ZlibDecoder::new(data).read_to_end(&mut out),
            Algorithm::RawDeflate => flate2::read::DeflateDecoder::new(data).read_to_end(&mut out),
            Algorithm::Brotli => brotli::Decompressor::new(data, 4096).read_to_end(&mut out),
            Algorithm::Zstd => zstd::stream::read::Decoder::new(data).unwrap().read_to_end(&mut out),
        }
        .unwrap();
        out
    }

    #[test]
    fn windows_are_counted_while_their_streams_live() {
        let mut scratch = Scratch::new();
        let encoder =
            |scratch: &Scratch| BodyEncoder::new(Algorithm::Brotli, Level::Fast, Content::Html, scratch);
        let mut streams: Vec<_> = (0..MAX_WINDOWS - 1).map(|_| encoder(&scratch)).collect();
        assert!(scratch.has_room());
        streams.push(encoder(&scratch));
        assert!(!scratch.has_room());
        streams[0].finish(&mut Vec::new(), &mut scratch);
        assert!(scratch.has_room());
    }

    #[test]
    fn a_flushed_piece_is_all_there() {
        let mut scratch = Scratch::new();
        let piece = b"<li>one</li><li>two</li>".repeat(20);
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Default, Content::Html, &scratch);
            let mut out = Vec::new();
            encoder.push(&piece, &mut out, &mut scratch);
            encoder.flush(&mut out, &mut scratch);
            // The stream is cut here: a reader gets the piece and then sees the end missing.
            let mut back = vec![0; piece.len()];
            let read = |reader: &mut dyn Read, back: &mut [u8]| reader.read_exact(back).unwrap();
            match algorithm {
                Algorithm::Identity => back.copy_from_slice(&out),
                Algorithm::Gzip => read(&mut flate2::read::GzDecoder::new(&out[..]), &mut back),
                Algorithm::Deflate => read(&mut flate2::read::ZlibDecoder::new(&out[..]), &mut back),
                Algorithm::RawDeflate => read(&mut flate2::read::DeflateDecoder::new(&out[..]), &mut back),
                Algorithm::Brotli => read(&mut brotli::Decompressor::new(&out[..], 4096), &mut back),
                Algorithm::Zstd => read(&mut zstd::stream::read::Decoder::new(&out[..]).unwrap(), &mut back),
            }
            assert_eq!(back, piece, "{algorithm:?}");
        }
    }

    #[test]
    fn calls_after_the_end_do_nothing() {
        let mut scratch = Scratch::new();
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Fast, Content::Html, &scratch);
            let mut out = Vec::new();
            encoder.push_and_finish(b"body", &mut out, &mut scratch);
            let length = out.len();
            encoder.push(b"more", &mut out, &mut scratch);
            encoder.flush(&mut out, &mut scratch);
            encoder.finish(&mut out, &mut scratch);
            assert_eq!(out.len(), length, "{algorithm:?}");
        }
    }

    #[test]
    fn bodies_come_back() {
        let mut scratch = Scratch::new();
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Default, Content::Html, &scratch);
            let mut out = Vec::new();
            let mut expected = Vec::new();
            for i in 0..50 {
                let piece = format!("<li class=\"item\"><a href=\"/{i}\">{i}</a></li>\n").repeat(i);
                encoder.push(piece.as_bytes(), &mut out, &mut scratch);
                expected.extend_from_slice(piece.as_bytes());
                if i % 7 == 0 {
                    encoder.flush(&mut out, &mut scratch);
                    encoder.set_level(Level::Fast);
                }
            }
            encoder.finish(&mut out, &mut scratch);
            assert_eq!(decode(algorithm, &out), expected, "{algorithm:?}");
        }
    }
}
