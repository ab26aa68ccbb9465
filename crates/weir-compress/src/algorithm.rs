//! The algorithms that `compression algo` can name.

use std::fmt;
use std::str::FromStr;

/// One algorithm of `compression algo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// No change to the bytes; the message is still re-framed. For tests.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// deflate in zlib format (RFC 1950), as HTTP means it (RFC 9110 section 8.4.1.2).
    Deflate,
    /// deflate without the zlib wrapper, as some old browsers meant it.
    RawDeflate,
    /// Brotli (RFC 7932). A stream keeps 1 to 2 MB while it runs.
    Brotli,
    /// Zstandard (RFC 8878, RFC 9659). A stream keeps about 1 MB while it runs.
    Zstd,
}

impl Algorithm {
    /// All of them, HAProxy's first.
    pub const ALL: [Self; 6] =
        [Self::Identity, Self::Gzip, Self::Deflate, Self::RawDeflate, Self::Brotli, Self::Zstd];

    /// Whether a stream keeps a window of its own while it runs. Those that do are not HAProxy's.
    pub const fn keeps_window(self) -> bool {
        match self {
            Self::Identity | Self::Gzip | Self::Deflate | Self::RawDeflate => false,
            Self::Brotli | Self::Zstd => true,
        }
    }

    /// The configuration's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::RawDeflate => "raw-deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The content coding in Accept-Encoding and Content-Encoding (RFC 9110 section 8.4.1).
    pub const fn coding(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate | Self::RawDeflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// A word after `compression algo` that is no algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(pub String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown compression algorithm '{}' (supported:", self.0)?;
        for algorithm in Algorithm::ALL {
            write!(f, " {}", algorithm.name())?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        known.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_others_refused() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        let error = "lzma".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown compression algorithm 'lzma' (supported: identity gzip deflate raw-deflate br zstd)"
        );
    }
}
