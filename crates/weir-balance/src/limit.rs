//! The most there may be of something, or no limit.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `maxconn` and its like: the most at once, or the most in a second.
///
/// The configuration and the statistics write 0 where there is no limit; only [`Limit::new`] and [`Limit::or_zero`] know
/// that.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit(Option<NonZeroUsize>);

impl Limit {
    /// No limit.
    pub const NONE: Self = Self(None);

    /// As the configuration writes it: 0 is no limit.
    #[must_use]
    pub const fn new(written: usize) -> Self {
        Self(NonZeroUsize::new(written))
    }

    /// There is a limit.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// The most there may be, where there is a limit.
    #[must_use]
    pub fn most(self) -> Option<usize> {
        self.0.map(NonZeroUsize::get)
    }

    /// As the configuration writes it.
    #[must_use]
    pub fn or_zero(self) -> usize {
        self.most().unwrap_or(0)
    }

    /// How many more there may be than there are.
    #[must_use]
    pub fn room(self, now: usize) -> usize {
        self.most().map_or(usize::MAX, |most| most.saturating_sub(now))
    }

    /// There may be no more than there are.
    #[must_use]
    pub fn reached(self, now: usize) -> bool {
        self.most().is_some_and(|most| now >= most)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.or_zero().fmt(f)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most() {
            Some(most) => most.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// A limit that commands change while threads read it.
#[derive(Debug, Default)]
pub struct AtomicLimit(AtomicUsize);

impl AtomicLimit {
    /// Starts with a limit.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self(AtomicUsize::new(limit.or_zero()))
    }

    /// The limit now.
    #[must_use]
    pub fn load(&self, order: Ordering) -> Limit {
        Limit::new(self.0.load(order))
    }

    /// Changes it.
    pub fn store(&self, limit: Limit, order: Ordering) {
        self.0.store(limit.or_zero(), order);
    }

    /// Changes it, and says what it was.
    pub fn swap(&self, limit: Limit, order: Ordering) -> Limit {
        Limit::new(self.0.swap(limit.or_zero(), order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_and_what_is_written() {
        let check = |written: usize, now: usize, room: usize, reached: bool| {
            let limit = Limit::new(written);
            assert_eq!((limit.room(now), limit.reached(now)), (room, reached), "{limit:?} {now}");
            assert_eq!(limit.to_string(), written.to_string());
            assert_eq!(AtomicLimit::new(limit).load(Ordering::Relaxed), limit);
        };
        check(0, 0, usize::MAX, false);
        check(0, 1000, usize::MAX, false);
        check(2, 0, 2, false);
        check(2, 1, 1, false);
        check(2, 2, 0, true);
        check(2, 3, 0, true);
    }

    #[test]
    fn a_command_changes_it() {
        let limit = AtomicLimit::new(Limit::new(5));
        assert_eq!(limit.swap(Limit::NONE, Ordering::Relaxed), Limit::new(5));
        assert!(!limit.load(Ordering::Relaxed).is_set());
        limit.store(Limit::new(7), Ordering::Relaxed);
        assert_eq!(limit.load(Ordering::Relaxed).most(), Some(7));
    }
}
