//! A body on its way through.

use weir_deflate::{Content, Encoder, Format};

use crate::{Algorithm, Level};

/// What a worker thread lends to each call: tables and buffers of all algorithms. One per worker; a stream itself
/// keeps some 16 bytes.
#[derive(Debug, Default)]
pub struct Scratch {
    deflate: weir_deflate::Scratch,
}

impl Scratch {
    /// Allocates what the algorithms need.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The most bytes that one call can append to its output for `input` bytes, with any algorithm.
pub const fn max_output(input: usize) -> usize {
    weir_deflate::max_output(input)
}

/// The body of one message: pieces in, pieces out.
///
/// Each [`BodyEncoder::push`] compresses all that it is given, without reference to earlier pieces: larger pieces
/// (16 to 64 kB) compress better.
#[derive(Debug)]
pub struct BodyEncoder {
    coder: Coder,
}

#[derive(Debug)]
enum Coder {
    Identity,
    Deflate(Encoder),
}

impl BodyEncoder {
    /// An encoder before the first byte.
    pub const fn new(algorithm: Algorithm, level: Level, content: Content) -> Self {
        let format = match algorithm {
            Algorithm::Identity => return Self { coder: Coder::Identity },
            Algorithm::Gzip => Format::Gzip,
            Algorithm::Deflate => Format::Zlib,
            Algorithm::RawDeflate => Format::Raw,
        };
        Self { coder: Coder::Deflate(Encoder::new(format, level).with_content(content)) }
    }

    /// The level in use; [`Level::Fast`] for identity.
    pub const fn level(&self) -> Level {
        match &self.coder {
            Coder::Identity => Level::Fast,
            Coder::Deflate(encoder) => encoder.level(),
        }
    }

    /// Changes the level for the pieces to come.
    pub const fn set_level(&mut self, level: Level) {
        if let Coder::Deflate(encoder) = &mut self.coder {
            encoder.set_level(level);
        }
    }

    /// Compresses a piece and appends the result, at most [`max_output`] bytes, to `out`.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity => out.extend_from_slice(input),
            Coder::Deflate(encoder) => encoder.push(input, out, &mut scratch.deflate),
        }
    }

    /// Makes everything pushed so far readable by the client: wanted when the server pauses, not after each piece.
    pub fn flush(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity => {}
            Coder::Deflate(encoder) => encoder.flush(out, &mut scratch.deflate),
        }
    }

    /// Ends the body. Further calls do nothing.
    pub fn finish(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.push_and_finish(&[], out, scratch);
    }

    /// [`BodyEncoder::push`] and [`BodyEncoder::finish`] in one: smaller and faster where the last piece is known to
    /// be the last, above all when it is the whole body.
    pub fn push_and_finish(&mut self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.coder {
            Coder::Identity => out.extend_from_slice(input),
            Coder::Deflate(encoder) => encoder.push_and_finish(input, out, &mut scratch.deflate),
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
        }
        .unwrap();
        out
    }

    #[test]
    fn bodies_come_back() {
        let mut scratch = Scratch::new();
        for algorithm in Algorithm::ALL {
            let mut encoder = BodyEncoder::new(algorithm, Level::Default, Content::Html);
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
