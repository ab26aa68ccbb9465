//! How many connections to a server are needed at once: what is idle beyond that is of no use to anybody.
//!
//! The need is the most that were in use together within the last times, not the rate at which requests come: clients
//! that come one after another need one connection, whether each leaves one behind or not.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// An estimate that rises at once and falls by half with each time that needed less.  Several threads write to it; a
/// note that gets lost between two of them is made again by the next request.
#[derive(Debug, Default)]
pub struct Need {
    /// When the time in progress began, milliseconds.
    began_ms: AtomicU64,
    /// The most in use together since then.
    peak: AtomicU64,
    /// What the times before it needed.
    before: AtomicU64,
}

impl Need {
    /// So many are in use now.
    pub fn note(&self, used: u64) {
        if used > self.peak.load(Relaxed) {
            self.peak.fetch_max(used, Relaxed);
        }
    }

    /// The estimate, while `used` are in use and each time is `window_ms` long.
    pub fn estimate(&self, used: u64, now_ms: u64, window_ms: u64) -> u64 {
        self.note(used);
        self.end_window(used, now_ms, window_ms);
        self.known()
    }

    /// The estimate as it was last made.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.before.load(Relaxed).max(self.peak.load(Relaxed))
    }

    /// Begins a new time when the one in progress is over.
    fn end_window(&self, used: u64, now_ms: u64, window_ms: u64) {
        let began = self.began_ms.load(Relaxed);
        let elapsed = now_ms.saturating_sub(began);
        if elapsed < window_ms || self.began_ms.compare_exchange(began, now_ms, Relaxed, Relaxed).is_err() {
            return;
        }
        let peak = self.peak.swap(used, Relaxed);
        let halved = peak.max((self.before.load(Relaxed) + peak).div_ceil(2));
        // Times in which nobody asked needed nothing.
        let quiet = u32::try_from((elapsed / window_ms.max(1)).saturating_sub(1)).unwrap_or(u32::MAX);
        self.before.store(halved.checked_shr(quiet).unwrap_or(0), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_rises_at_once_and_falls_slowly() {
        // Each step: milliseconds, in use, the estimate.
        let need = Need::default();
        let check = |now_ms: u64, used: u64, expected: u64| {
            assert_eq!(need.estimate(used, now_ms, 1000), expected, "{used} at {now_ms}");
        };
        check(0, 1, 1);
        check(10, 40, 40);
        check(900, 1, 40);
        check(1000, 1, 40);
        check(2000, 1, 21);
        check(3000, 2, 12);
        check(3500, 30, 30);
        check(4000, 1, 30);
        // Eight times later nothing is left of it.
        check(12_000, 1, 1);
    }

    #[test]
    fn one_after_another_need_one() {
        let need = Need::default();
        for request in 0..10_000 {
            assert_eq!(need.estimate(1, request, 5000), 1);
        }
    }
}
