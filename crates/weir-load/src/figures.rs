//! What a thread counts until it is asked.

use crate::histogram::Histogram;
use crate::result::{Errors, Times, Totals};
use crate::sample::Sample;

/// Counts and times since they were last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) totals: Totals,
    pub(crate) times: Times,
    pub(crate) lag: Histogram,
    /// Requests one by one, where they are kept.
    pub(crate) samples: Vec<Sample>,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.times.add(&other.times);
        self.lag.add(&other.lag);
        self.samples.extend_from_slice(&other.samples);
    }

    /// What was learned about connections, which are mostly opened before the measuring begins.
    pub(crate) fn connections_only(self) -> Self {
        let errors = Errors {
            connect: self.totals.errors.connect,
            tls: self.totals.errors.tls,
            examples: self.totals.errors.examples,
            ..Errors::default()
        };
        let totals = Totals {
            errors,
            connections: self.totals.connections,
            handshakes: self.totals.handshakes,
            resumed: self.totals.resumed,
            ..Totals::default()
        };
        let times =
            Times { connect: self.times.connect, handshake: self.times.handshake, ..Times::default() };
        Self { totals, times, lag: Histogram::new(), samples: Vec::new() }
    }
}
