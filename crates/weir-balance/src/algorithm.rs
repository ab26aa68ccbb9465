//! `balance`: the algorithms by name, and what each of them needs.
//!
//! A new one is a variant, its line in [`Algorithm::NAMES`], and its arm wherever the compiler asks for one, here and in
//! [`crate::Picker::pick`].

use std::mem::discriminant;

/// How the server of a request is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the algorithm of the same name")]
pub enum Algorithm {
    #[default]
    RoundRobin,
    StaticRr,
    LeastConn,
    First,
    Hash,
    Source,
    Uri,
    UrlParam,
    Hdr,
    Random {
        /// How many servers are drawn to choose the least loaded of.
        draws: u32,
    },
    RdpCookie,
    /// Logs stay with one server while it is there.
    Sticky,
    /// `hash` of log messages.
    LogHash,
}

impl Algorithm {
    /// The configuration's words. An algorithm's first word is its name.
    pub const NAMES: &[(&str, Self)] = &[
        ("roundrobin", Self::RoundRobin),
        ("static-rr", Self::StaticRr),
        ("leastconn", Self::LeastConn),
        ("first", Self::First),
        ("hash", Self::Hash),
        ("source", Self::Source),
        ("uri", Self::Uri),
        ("url_param", Self::UrlParam),
        ("hdr", Self::Hdr),
        ("random", Self::Random { draws: 2 }),
        ("rdp-cookie", Self::RdpCookie),
        ("sticky", Self::Sticky),
        ("log-hash", Self::LogHash),
        ("log-sticky", Self::Sticky),
    ];

    /// The algorithm that a word names.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| *name == word).map(|(_, algorithm)| *algorithm)
    }

    /// Its name, without arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        names.find(|(_, other)| discriminant(other) == discriminant(&self)).map_or("", |(name, _)| name)
    }

    /// A request with a key belongs to a server.
    #[must_use]
    pub const fn hashes(self) -> bool {
        match self {
            Self::Hash
            | Self::Source
            | Self::Uri
            | Self::UrlParam
            | Self::Hdr
            | Self::RdpCookie
            | Self::LogHash => true,
            Self::RoundRobin
            | Self::StaticRr
            | Self::LeastConn
            | Self::First
            | Self::Random { .. }
            | Self::Sticky => false,
        }
    }

    /// Each request is a turn of a counter that all threads share.
    #[must_use]
    pub const fn takes_turns(self) -> bool {
        matches!(self, Self::RoundRobin | Self::StaticRr | Self::LeastConn)
    }

    /// Any server is as good for a request as another: after a failure the next try goes to another one at once.
    #[must_use]
    pub const fn goes_round(self) -> bool {
        matches!(self, Self::RoundRobin | Self::StaticRr | Self::Random { .. })
    }

    /// Requests wait for the servers it chooses, up to their `maxqueue`, rather than for any server.
    #[must_use]
    pub const fn queues(self) -> bool {
        matches!(self, Self::LeastConn)
    }

    /// It draws servers.
    #[must_use]
    pub const fn needs_random(self) -> bool {
        matches!(self, Self::Random { .. })
    }

    /// Its key is a part of an HTTP request.
    #[must_use]
    pub const fn needs_http(self) -> bool {
        matches!(self, Self::Uri | Self::UrlParam | Self::Hdr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, HashType, Load, Pick, Picker, ServerView, Settings};

    #[test]
    fn every_word_names_an_algorithm_that_has_a_name() {
        for (word, algorithm) in Algorithm::NAMES {
            assert_eq!(Algorithm::named(word), Some(*algorithm), "{word}");
            let name = algorithm.name();
            assert_eq!(Algorithm::named(name), Some(*algorithm), "{word}");
            assert!(*word == name || word.strip_prefix("log-") == Some(name), "{word} {name}");
        }
        assert_eq!(Algorithm::named("roundrobbin"), None);
        assert_eq!(Algorithm::Random { draws: 7 }.name(), "random");
    }

    #[test]
    fn every_algorithm_picks_as_it_says() {
        let servers: Vec<ServerView> = (1..=3).map(|id| ServerView::new(id, 1)).collect();
        for (word, algorithm) in Algorithm::NAMES {
            for hash_type in [HashType::default(), HashType::CONSISTENT] {
                let settings = Settings { algorithm: *algorithm, hash_type, ..Settings::default() };
                let picker = Picker::new(&settings, &servers);
                let picked = |turn, hash, random| {
                    let pick = Pick { turn, hash, random, ..Pick::default() };
                    match picker.pick(&pick, |_| Load::default()) {
                        Choice::Server(server) => server,
                        choice => panic!("{word}: {choice:?}"),
                    }
                };
                let follows = |pick: &dyn Fn(u32) -> usize| (1..50).any(|at| pick(at) != pick(0));
                let key = Some(1_234_567);
                let by_turn = follows(&|at| picked(at.into(), key, 0));
                let by_key = follows(&|at| picked(0, Some(at.wrapping_mul(77_777_777)), 0));
                let by_random = follows(&|at| picked(0, key, at.into()));
                assert_eq!(by_turn, algorithm.takes_turns(), "{word}");
                assert_eq!(by_key, algorithm.hashes(), "{word}");
                assert_eq!(by_random, algorithm.needs_random(), "{word}");
            }
        }
    }
}
