//! What a thread counts until it is asked.

use crate::client::Answer;
use crate::histogram::Histogram;
use crate::pending::Pending;
use crate::result::{Errors, Times, Totals};
use crate::sample::Sample;

/// What became of a request without an answer, or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Tls,
    Timeout,
    Reset,
    Protocol,
}

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

    /// Counts an answer.
    #[inline]
    pub(crate) fn answered(&mut self, answer: &Answer) {
        let totals = &mut self.totals;
        totals.answers += 1;
        if let Some(count) = totals.statuses.get_mut(usize::from(answer.status / 100).wrapping_sub(1)) {
            *count += 1;
        }
        totals.errors.bad_status += u64::from(answer.status >= 400);
        totals.head_bytes += u64::from(answer.head_bytes);
        totals.body_bytes += answer.body_bytes;
    }

    /// Counts how long a request has taken until now: since it was sent and, at a rate, since it was due.
    #[inline]
    pub(crate) fn time(&mut self, request: &Pending, paced: bool, now_ns: u64) {
        self.times.uncorrected.record_ns(now_ns.saturating_sub(request.sent_ns));
        if paced {
            self.times.corrected.record_ns(now_ns.saturating_sub(request.due_ns));
        }
    }

    /// Counts failures for one reason.
    pub(crate) fn failed(&mut self, failures: u64, failure: Failure, why: &str) {
        if failures == 0 {
            return;
        }
        let errors = &mut self.totals.errors;
        let (count, name) = match failure {
            Failure::Connect => (&mut errors.connect, "connect"),
            Failure::Tls => (&mut errors.tls, "TLS"),
            Failure::Timeout => (&mut errors.timeout, "timeout"),
            Failure::Reset => (&mut errors.reset, "reset"),
            Failure::Protocol => (&mut errors.protocol, "protocol"),
        };
        *count += failures;
        errors.example(format!("{name}: {why}"));
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
