//! What bodies are made of.

use std::fmt;
use std::sync::LazyLock;

/// What an answer's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The status in words.
    Phrase,
    /// So many bytes of the plan's filling.
    Filled(u64),
    /// The list of what this server does.
    Index,
    /// A source text.
    Source,
    /// Server-sent events.
    Events,
    /// The request itself.
    Echo,
}

/// What a body of a given length is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    Text,
    Random,
    Zero,
}

/// How a body is encoded by this server itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
}

/// The length of a filling, after which it repeats: more than the window of any deflate, and enough for one write.
pub(crate) const BLOCK_BYTES: usize = 128 * 1024;

/// The seed of what does not compress; any number but zero.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The source texts that `/source` shows and that text bodies are made of.
pub(crate) const SOURCE: &str = concat!(
    include_str!("url.rs"),
    include_str!("answer.rs"),
    include_str!("delivery.rs"),
    include_str!("h1.rs"),
    include_str!("h2.rs"),
    include_str!("serve.rs")
);

static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| SOURCE.bytes().cycle().take(BLOCK_BYTES).collect());
static ZERO: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
static RANDOM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = SEED;
    let words = std::iter::repeat_with(|| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.flat_map(u64::to_le_bytes).take(BLOCK_BYTES).collect()
});

impl Fill {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "random" => Ok(Self::Random),
            "zero" => Ok(Self::Zero),
            _ => Err(format!("'{name}' fills nothing: expected text, random or zero")),
        }
    }

    /// One block, [`BLOCK_BYTES`] long.
    pub(crate) fn block(self) -> &'static [u8] {
        match self {
            Self::Text => &TEXT,
            Self::Random => &RANDOM,
            Self::Zero => &ZERO,
        }
    }
}

impl Encoding {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "gzip" => Ok(Self::Gzip),
            "deflate" => Ok(Self::Deflate),
            _ => Err(format!("'{name}' is not done here: expected gzip or deflate")),
        }
    }

    pub(crate) fn encode(self, body: &[u8]) -> Vec<u8> {
        use weir_deflate::{Encoder, Format, Level, Scratch};
        let format = match self {
            Self::Gzip => Format::Gzip,
            Self::Deflate => Format::Zlib,
        };
        let mut out = Vec::new();
        Encoder::new(format, Level::Default).push_and_finish(body, &mut out, &mut Scratch::new());
        out
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        })
    }
}

/// A media type by its short name or in full.
pub(crate) fn media_type(name: &str) -> Result<String, String> {
    let known = match name {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "text" => "text/plain; charset=utf-8",
        _ if name.contains('/') && name.bytes().all(|byte| matches!(byte, b' '..=b'~')) => name,
        _ => return Err(format!("'{name}' is no media type: expected html, json, ... or one in full")),
    };
    Ok(known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_what_they_say() {
        for fill in [Fill::Text, Fill::Random, Fill::Zero] {
            assert_eq!(fill.block().len(), BLOCK_BYTES);
        }
        let packed = |fill: Fill| Encoding::Gzip.encode(fill.block()).len();
        assert!(packed(Fill::Random) >= BLOCK_BYTES);
        assert!((BLOCK_BYTES / 10..BLOCK_BYTES / 2).contains(&packed(Fill::Text)));
        assert!(packed(Fill::Zero) < 1000);
    }
}
