//! Events in a sliding period, in constant room.

/// Counts events of the running period and of the one before; the rate weighs the latter by how much of it
/// the sliding window still covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateCounter {
    /// When the running period started, in milliseconds.
    start_ms: u64,
    current: u64,
    previous: u64,
}

impl RateCounter {
    /// Counts events.  `period_ms` must be the same for all calls on a counter; 0 counts as 1.
    pub fn add(&mut self, events: u64, now_ms: u64, period_ms: u64) {
        self.rotate(now_ms, period_ms.max(1));
        self.current = self.current.saturating_add(events);
    }

    /// Events in the period that ends now.
    #[must_use]
    pub fn rate(&self, now_ms: u64, period_ms: u64) -> u64 {
        let period_ms = period_ms.max(1);
        let mut at = *self;
        at.rotate(now_ms, period_ms);
        // With hardly any events, a weighed-down 1 would flap between 0 and 1.
        if at.current == 0 && at.previous <= 1 {
            return at.previous;
        }
        let covered = period_ms - now_ms.saturating_sub(at.start_ms).min(period_ms);
        let rest = u128::from(at.previous) * u128::from(covered) / u128::from(period_ms);
        at.current.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }

    /// How many more events fit under a limit of events per period, now.
    #[must_use]
    pub fn room(&self, limit: u64, now_ms: u64, period_ms: u64) -> u64 {
        limit.saturating_sub(self.rate(now_ms, period_ms))
    }

    /// How long until another event fits under a limit, in milliseconds.
    #[must_use]
    pub fn wait_ms(&self, limit: u64, now_ms: u64, period_ms: u64) -> u64 {
        let period_ms = period_ms.max(1);
        if self.room(limit, now_ms, period_ms) > 0 || limit == 0 {
            return 0;
        }
        // The rate only falls as time passes: search where it falls below the limit.
        let (mut low, mut high) = (0, period_ms.saturating_mul(2));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.room(limit, now_ms.saturating_add(middle), period_ms) > 0 {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Age of the running period in milliseconds, its events, and those of the period before: what peers
    /// tell each other.
    #[must_use]
    pub fn parts(&self, now_ms: u64, period_ms: u64) -> (u64, u64, u64) {
        let mut at = *self;
        at.rotate(now_ms, period_ms.max(1));
        (now_ms.saturating_sub(at.start_ms), at.current, at.previous)
    }

    /// A counter from its [`Self::parts`].
    #[must_use]
    pub fn from_parts(now_ms: u64, (age_ms, current, previous): (u64, u64, u64)) -> Self {
        Self { start_ms: now_ms.saturating_sub(age_ms), current, previous }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn rotate(&mut self, now_ms: u64, period_ms: u64) {
        let elapsed = now_ms.saturating_sub(self.start_ms);
        if elapsed < period_ms {
            return;
        }
        self.previous = if elapsed < period_ms.saturating_mul(2) { self.current } else { 0 };
        self.current = 0;
        self.start_ms = now_ms - elapsed % period_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates() {
        let check = |events: &[(u64, u64)], now_ms: u64, expected: u64| {
            let mut counter = RateCounter::default();
            for &(at_ms, count) in events {
                counter.add(count, at_ms, 1000);
            }
            assert_eq!(counter.rate(now_ms, 1000), expected, "{events:?} {now_ms}");
        };
        check(&[], 5000, 0);
        check(&[(5000, 10)], 5000, 10);
        check(&[(5000, 10)], 5999, 10);
        check(&[(5000, 10)], 6000, 10);
        check(&[(5000, 10)], 6500, 5);
        check(&[(5000, 10)], 7000, 0);
        check(&[(5000, 10), (6500, 3)], 6500, 8);
        check(&[(5000, 10)], 60_000, 0);
        // A single event does not flap.
        check(&[(5000, 1)], 6999, 1);
        check(&[(5000, 1)], 7000, 0);
    }

    #[test]
    fn parts_make_the_same_counter() {
        let mut counter = RateCounter::default();
        counter.add(10, 5000, 1000);
        counter.add(4, 6200, 1000);
        assert_eq!(counter.parts(6500, 1000), (500, 4, 10));
        // Elsewhere, on another clock.
        let copy = RateCounter::from_parts(90_500, counter.parts(6500, 1000));
        assert_eq!(copy.rate(90_700, 1000), counter.rate(6700, 1000));
        assert_eq!(RateCounter::from_parts(3, (100, 1, 0)).rate(3, 1000), 1);
    }

    #[test]
    fn waiting_for_room() {
        let mut counter = RateCounter::default();
        counter.add(10, 5000, 1000);
        assert_eq!(counter.wait_ms(11, 5000, 1000), 0);
        let wait_ms = counter.wait_ms(10, 5000, 1000);
        assert!(counter.room(10, 5000 + wait_ms, 1000) > 0);
        assert_eq!(counter.room(10, 5000 + wait_ms - 1, 1000), 0);
    }

    proptest! {
        #[test]
        fn a_steady_stream_has_its_own_rate(gap_ms in 1u64..100, start in 0u64..1_000_000) {
            let mut counter = RateCounter::default();
            let events = 5000 / gap_ms;
            for event in 0..events {
                counter.add(1, start + event * gap_ms, 1000);
            }
            let rate = counter.rate(start + (events - 1) * gap_ms, 1000);
            let expected = 1000 / gap_ms;
            prop_assert!(rate.abs_diff(expected) <= 2, "{rate} {expected}");
        }

        #[test]
        fn any_times_are_fine(events in prop::collection::vec((any::<u64>(), any::<u64>()), 0..10), period: u32, now: u64) {
            let mut counter = RateCounter::default();
            for (at, count) in events {
                counter.add(count, at, period.into());
            }
            let rate = counter.rate(now, period.into());
            prop_assert_eq!(counter.room(u64::MAX, now, period.into()), u64::MAX - rate);
        }
    }
}
