//! When requests are due, and which ones.
//!
//! Pure machines with the time as an argument, in nanoseconds of the run's clock.  Owns the arithmetic of
//! rates, the drawing of targets by weight and the list of a replay; who sends is `lane`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Which of the lane's requests.
    pub(crate) request: u32,
    /// Since when; in a closed loop, since now.
    pub(crate) at_ns: u64,
}

/// Requests of a thread that are due within this time are due together, at its beginning: waking up for one costs
/// more than sending it.  Half of the millisecond in which wrk2 counts: with twice as long, a request costs a tenth less
/// CPU time, and half of them would be late by 50 microseconds more.
const TOGETHER_NS: f64 = 500_000.0;

/// The most requests that are due together: they leave one after the other, and the last one is late by some ten
/// microseconds for each of the others.
const MOST_TOGETHER: f64 = 8.0;

/// A rate as points in time: the n-th request is due at `start + n / rate`, whatever happened to those before, or a
/// little earlier, together with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    start_ns: u64,
    gap_ns: f64,
    /// Requests that are due together.
    together: u64,
    taken: u64,
}

impl Pacer {
    /// `part` (0 to 1) of a gap is waited before the first one, so that threads do not send all at once.
    pub(crate) fn new(start_ns: u64, per_second: f64, part: f64) -> Self {
        let gap_ns = 1e9 / per_second;
        let together = (TOGETHER_NS / gap_ns).floor().clamp(1.0, MOST_TOGETHER);
        let start_ns = start_ns + (gap_ns * together * part) as u64;
        Self { start_ns, gap_ns, together: together as u64, taken: 0 }
    }

    fn at_ns(&self, number: u64) -> u64 {
        let first = number - number % self.together;
        self.start_ns + (first as f64 * self.gap_ns) as u64
    }

    fn next_ns(&self) -> u64 {
        self.at_ns(self.taken)
    }

    /// How many are due before `now_ns` and not taken.
    fn backlog(&self, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.start_ns) as f64;
        let mut due = (passed / self.gap_ns) as u64;
        due -= due % self.together;
        // Division and multiplication round differently: the points in time decide.
        while due > 0 && self.at_ns(due - 1) >= now_ns {
            due -= self.together;
        }
        while self.at_ns(due) < now_ns {
            due += self.together;
        }
        due.saturating_sub(self.taken)
    }
}

/// A request of a list, and when it is due after the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) request: u32,
    pub(crate) after_ns: u64,
}

/// What says when.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// Nothing is sent.
    Stopped,
    /// As soon as a connection is free.
    Closed,
    /// At a rate.
    Rate(Pacer),
    /// As a list says.
    List { start_ns: u64, speed: f64, list: Arc<[Listed]>, taken: usize },
}

/// Draws targets by weight, or takes them in turn.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    /// Sums of the weights up to and with each target; a target of one weight has one number.
    sums: Box<[u64]>,
    order: Order,
}

/// How targets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By lot; holds the state of the generator.
    Lot(u64),
    /// In turn; holds the next one.
    Turn(u32),
}

impl Picker {
    pub(crate) fn new(weights: &[u32], order: Order) -> Self {
        let mut sum = 0;
        let add = |weight: &u32| {
            sum += u64::from(*weight);
            sum
        };
        Self { sums: weights.iter().map(add).collect(), order }
    }

    fn pick(&mut self) -> u32 {
        if self.sums.len() <= 1 {
            return 0;
        }
        match &mut self.order {
            Order::Turn(next) => {
                let picked = *next;
                *next = (picked + 1) % self.sums.len() as u32;
                picked
            }
            Order::Lot(state) => {
                let total = self.sums.last().copied().unwrap_or(1).max(1);
                let drawn = splitmix(state) % total;
                self.sums.partition_point(|sum| *sum <= drawn) as u32
            }
        }
    }
}

/// SplitMix64: short, and good enough to draw targets.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a lane has to send, until when and how often.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) pace: Pace,
    pub(crate) picker: Picker,
    /// Requests that all lanes of the run may still begin.
    pub(crate) budget: Option<Arc<AtomicU64>>,
    /// Nothing is due from then on.
    pub(crate) end_ns: u64,
}

impl Schedule {
    /// When the next request is due; none when there is none any more.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let next = match &self.pace {
            Pace::Stopped => None,
            Pace::Closed => Some(0),
            Pace::Rate(pacer) => Some(pacer.next_ns()),
            Pace::List { start_ns, speed, list, taken } => {
                list.get(*taken).map(|listed| start_ns + (listed.after_ns as f64 / speed) as u64)
            }
        };
        next.filter(|next| *next < self.end_ns && !self.is_spent())
    }

    /// The next request, if it is due.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Due> {
        let at_ns = self.next_ns().filter(|next| *next <= now_ns && now_ns < self.end_ns)?;
        if !self.spend() {
            return None;
        }
        match &mut self.pace {
            Pace::Stopped => None,
            Pace::Closed => Some(Due { request: self.picker.pick(), at_ns: now_ns }),
            Pace::Rate(pacer) => {
                pacer.taken += 1;
                Some(Due { request: self.picker.pick(), at_ns })
            }
            Pace::List { list, taken, .. } => {
                let request = list.get(*taken)?.request;
                *taken += 1;
                Some(Due { request, at_ns })
            }
        }
    }

    /// Nothing is left to be sent.
    pub(crate) fn exhaust(&mut self) {
        self.budget = Some(Arc::default());
    }

    /// A request went out along with another and was not taken by itself.
    pub(crate) fn skip(&mut self) {
        self.spend();
        if let Pace::Rate(pacer) = &mut self.pace {
            pacer.taken += 1;
        }
    }

    /// How many requests are due now and not taken.
    pub(crate) fn backlog(&self, now_ns: u64) -> u64 {
        let until_ns = now_ns.min(self.end_ns);
        match &self.pace {
            Pace::Stopped | Pace::Closed => 0,
            Pace::Rate(pacer) => {
                // The one due at this very moment counts too.
                let until_ns = if now_ns < self.end_ns { now_ns + 1 } else { until_ns };
                let due = pacer.backlog(until_ns);
                self.budget.as_ref().map_or(due, |budget| due.min(budget.load(Ordering::Relaxed)))
            }
            Pace::List { start_ns, speed, list, taken } => {
                let passed = (until_ns.saturating_sub(*start_ns) as f64 * speed) as u64;
                let due = list.partition_point(|listed| listed.after_ns <= passed);
                due.saturating_sub(*taken) as u64
            }
        }
    }

    /// Since when the n-th request of the backlog is due.
    pub(crate) fn backlog_at_ns(&self, n: u64) -> u64 {
        match &self.pace {
            Pace::Stopped | Pace::Closed => 0,
            Pace::Rate(pacer) => pacer.at_ns(pacer.taken + n),
            Pace::List { start_ns, speed, list, taken } => {
                let listed = list.get(taken.saturating_add(n as usize));
                start_ns + listed.map_or(0, |listed| (listed.after_ns as f64 / speed) as u64)
            }
        }
    }

    /// Whether latency is counted from when a request was due.
    pub(crate) fn is_paced(&self) -> bool {
        matches!(self.pace, Pace::Rate(_) | Pace::List { .. })
    }

    /// Whether no request will come any more, before the end of time.
    pub(crate) fn is_exhausted(&self) -> bool {
        match &self.pace {
            Pace::Stopped => false,
            Pace::List { list, taken, .. } => self.is_spent() || *taken >= list.len(),
            Pace::Closed | Pace::Rate(_) => self.is_spent(),
        }
    }

    fn is_spent(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.load(Ordering::Relaxed) == 0)
    }

    /// Takes several from the budget, or what is left of it.
    pub(crate) fn spend_many(&self, requests: u64) {
        if let Some(budget) = &self.budget {
            let less = |left: u64| Some(left.saturating_sub(requests));
            // It always has a next value.
            budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
        }
    }

    /// Takes one from the budget; false when another thread took the last one.
    pub(crate) fn spend(&self) -> bool {
        let Some(budget) = &self.budget else { return true };
        let less = |left: u64| left.checked_sub(1);
        budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(pace: Pace, end_ns: u64, budget: Option<u64>) -> Schedule {
        let picker = Picker::new(&[1], Order::Turn(0));
        Schedule { pace, picker, budget: budget.map(|n| Arc::new(AtomicU64::new(n))), end_ns }
    }

    /// The moments at which requests are due when somebody asks at these times, as often as there is one.
    fn taken(mut schedule: Schedule, asked: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        for now in asked {
            while let Some(due) = schedule.take(*now) {
                found.push(due.at_ns);
                if !schedule.is_paced() && found.len() > 5 {
                    return found;
                }
            }
        }
        found
    }

    #[test]
    fn a_rate_does_not_wait_for_anybody() {
        let check = |part, end, budget, asked: &[u64], expected: &[u64]| {
            // 1000 a second from 1000 ns on: a gap is a million.
            let pacer = Pacer::new(1_000, 1000.0, part);
            assert_eq!(taken(schedule(Pace::Rate(pacer), end, budget), asked), expected, "{asked:?}");
        };
        check(0.0, u64::MAX, None, &[0, 999], &[]);
        check(0.0, u64::MAX, None, &[1_000, 1_001, 1_001_000], &[1_000, 1_001_000]);
        check(0.5, u64::MAX, None, &[500_999, 501_000], &[501_000]);
        check(0.0, u64::MAX, None, &[3_001_000], &[1_000, 1_001_000, 2_001_000, 3_001_000]);
        check(0.0, u64::MAX, Some(2), &[3_001_000], &[1_000, 1_001_000]);
        check(0.0, 1_001_000, None, &[1_000_999, 3_001_000], &[1_000]);
    }

    #[test]
    fn a_closed_loop_is_always_due() {
        assert_eq!(taken(schedule(Pace::Closed, 100, Some(3)), &[5]), [5, 5, 5]);
        assert_eq!(taken(schedule(Pace::Closed, 100, None), &[100]), [0u64; 0]);
        assert_eq!(taken(schedule(Pace::Stopped, 100, None), &[5]), [0u64; 0]);
        assert!(schedule(Pace::Closed, 100, Some(0)).is_exhausted());
        assert!(!schedule(Pace::Stopped, 100, None).is_exhausted());
    }

    #[test]
    fn at_a_high_rate_requests_are_due_together() {
        let check = |per_second: f64, expected: &[u64]| {
            let pacer = Pacer::new(7_000, per_second, 0.0);
            let found: Vec<u64> = (0..9).map(|number| pacer.at_ns(number) - 7_000).collect();
            assert_eq!(found, expected, "{per_second}");
        };
        // Each at its own time, as long as the thread has that much to wait between two of them.
        check(1_000.0, &[0, 1, 2, 3, 4, 5, 6, 7, 8].map(|gaps| gaps * 1_000_000));
        check(3_200.0, &[0, 1, 2, 3, 4, 5, 6, 7, 8].map(|gaps| gaps * 312_500));
        check(4_000.0, &[0, 0, 2, 2, 4, 4, 6, 6, 8].map(|gaps| gaps * 250_000));
        check(6_250.0, &[0, 0, 0, 3, 3, 3, 6, 6, 6].map(|gaps| gaps * 160_000));
        // Never many at once, however high the rate is.
        check(100_000.0, &[0, 0, 0, 0, 0, 0, 0, 0, 8].map(|gaps| gaps * 10_000));
        let schedule = schedule(Pace::Rate(Pacer::new(0, 8_000.0, 0.0)), u64::MAX, None);
        assert_eq!(taken(schedule, &[0, 499_999, 500_000]), [0, 0, 0, 0, 500_000, 500_000, 500_000, 500_000]);
    }

    #[test]
    fn a_list_keeps_its_times() {
        let list: Arc<[Listed]> =
            [0, 0, 400, 1000].map(|after_ns| Listed { request: after_ns as u32, after_ns }).into();
        let pace = Pace::List { start_ns: 100, speed: 2.0, list, taken: 0 };
        let mut schedule = schedule(pace, u64::MAX, None);
        assert_eq!(schedule.backlog(100), 2);
        assert_eq!(schedule.take(100), Some(Due { request: 0, at_ns: 100 }));
        assert_eq!(schedule.take(299), Some(Due { request: 0, at_ns: 100 }));
        assert_eq!(schedule.take(299), None);
        assert_eq!(schedule.next_ns(), Some(300));
        assert_eq!((schedule.backlog(1_000), schedule.backlog_at_ns(1)), (2, 600));
        assert_eq!(schedule.take(1000), Some(Due { request: 400, at_ns: 300 }));
        assert_eq!(schedule.take(1000), Some(Due { request: 1000, at_ns: 600 }));
        assert!(schedule.is_exhausted());
    }

    #[test]
    fn weights() {
        let mut picker = Picker::new(&[1, 0, 3], Order::Lot(7));
        let mut counts = [0u32; 3];
        (0..40_000).for_each(|_| counts[picker.pick() as usize] += 1);
        assert_eq!(counts[1], 0);
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
        let mut turn = Picker::new(&[1, 1, 1], Order::Turn(1));
        assert_eq!([turn.pick(), turn.pick(), turn.pick()], [1, 2, 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_early(
            per_second in 0.1f64..3_000_000.0,
            start in 0u64..1_000_000_000,
            steps in proptest::collection::vec(0u64..50_000_000, 1..20),
        ) {
            let mut schedule = schedule(Pace::Rate(Pacer::new(start, per_second, 0.0)), u64::MAX, None);
            let (mut now, mut count) = (start, 0u64);
            for step in steps {
                now += step;
                let backlog = schedule.backlog(now);
                let mut found = 0;
                while found < 100_000 && let Some(due) = schedule.take(now) {
                    prop_assert!(due.at_ns <= now);
                    found += 1;
                }
                prop_assert!(found == backlog || found == 100_000, "{found} of {backlog}");
                count += found;
                if found < 100_000 {
                    let expected = (now - start) as f64 / 1e9 * per_second + 1.0;
                    let early = if per_second < 4_000.0 { 0.0 } else { MOST_TOGETHER - 1.0 };
                    let found = count as f64 - expected;
                    prop_assert!((-1.5..=early + 1.5).contains(&found), "{count}, expected {expected}");
                }
            }
        }
    }
}
