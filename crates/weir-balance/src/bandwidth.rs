//! How many bytes may pass now under a limit of bytes per period, and how long the others wait.

use crate::rate::RateCounter;

/// A smaller piece is not worth a packet, ...
const SMALLEST_PIECE: u64 = 1448;
/// ... unless the limit is so small that a period has hardly more of them than this.
const FEWEST_PIECES: u64 = 16;
/// What passes at a time is a period's hundredth, so that the rate is even within it, ...
const PIECES_PER_PERIOD: u64 = 100;
/// ... but what this time brings at least, milliseconds: each piece costs a wake-up; ...
const SHORTEST_GAP_MS: u64 = 5;
/// ... and at most: a client would see a pause.
const LONGEST_GAP_MS: u64 = 50;
/// After this time a stream looks again, whatever it was told: limits and those who share them change.
const LONGEST_WAIT_MS: u64 = 1000;

/// A limit: so many bytes in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    /// Bytes; 0 counts as 1.
    pub limit_bytes: u64,
    /// 0 counts as 1.
    pub period_ms: u64,
    /// Fewer bytes do not pass at a time, unless no more are there; 0 for what suits the limit.
    pub min_bytes: u64,
}

/// What a stream may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// As many bytes may pass.
    Now(u64),
    /// None; ask again after as many milliseconds, at least 1.
    After(u64),
}

impl Bandwidth {
    /// How many of the `offered` bytes may pass. `past` has counted what passed, and `users` streams share the limit.
    #[must_use]
    pub fn passage(&self, past: &RateCounter, users: u32, offered: u64, now_ms: u64) -> Passage {
        let users = u64::from(users.max(1));
        let room = self.room(past, now_ms);
        let piece = self.piece(users).min(offered);
        // A clock that is a little behind must not cost a second wait.
        if room > 0 && room >= i128::from(piece / 2) {
            let room = u64::try_from(room).unwrap_or(u64::MAX);
            let fair = (room / users).max(self.piece(users).min(room));
            return Passage::Now(fair.max(self.min_bytes).clamp(1, offered.max(1)));
        }
        Passage::After(self.time_ms(i128::from(piece) - room).clamp(1, LONGEST_WAIT_MS))
    }

    /// How long a stream that has passed `bytes` leaves the limit to the other `users`.
    #[must_use]
    pub fn turn_ms(&self, bytes: u64, users: u32) -> u64 {
        match users {
            0 | 1 => 0,
            // Of a usual piece: who catches up with a late wake-up must not be late the more for it.
            users => {
                let piece = bytes.min(self.piece(u64::from(users)));
                self.time_ms(i128::from(piece) * i128::from(users)).min(LONGEST_WAIT_MS)
            }
        }
    }

    /// Counts bytes that pass.
    pub fn count(&self, past: &mut RateCounter, bytes: u64, now_ms: u64) {
        if let (_, 0, 0) = past.parts(now_ms, self.period_ms) {
            // The first period begins with its first byte: there is nothing to catch up with.
            *past = RateCounter::from_parts(now_ms, (0, 0, 0));
        }
        past.add(bytes, now_ms, self.period_ms);
    }

    /// Bytes that may pass now; below zero when too many did.
    fn room(&self, past: &RateCounter, now_ms: u64) -> i128 {
        let wide = i128::from;
        let (limit, period_ms) = (wide(self.limit_bytes.max(1)), wide(self.period_ms.max(1)));
        let (age_ms, current, previous) = match past.parts(now_ms, self.period_ms) {
            (_, 0, 0) => (0, 0, 0),
            parts => parts,
        };
        let age_ms = wide(age_ms);
        // Any period that ends now has at most the limit, ...
        let sliding = limit - wide(current) - wide(previous) * (period_ms - age_ms) / period_ms;
        // ... and it is not used up at once.
        let even = limit * age_ms / period_ms + wide(self.piece(1)) - wide(current);
        sliding.min(even)
    }

    /// What passes at a time.
    fn piece(&self, users: u64) -> u64 {
        let limit = self.limit_bytes.max(1);
        let period_ms = self.period_ms.max(1);
        let gap_ms = (period_ms / PIECES_PER_PERIOD).clamp(SHORTEST_GAP_MS, LONGEST_GAP_MS).min(period_ms);
        let even = u128::from(limit) * u128::from(gap_ms) / u128::from(period_ms) / u128::from(users);
        u64::try_from(even)
            .unwrap_or(u64::MAX)
            .max(SMALLEST_PIECE.min(limit.div_ceil(FEWEST_PIECES)))
            .max(self.min_bytes)
    }

    /// The time that as many bytes take.
    fn time_ms(&self, bytes: i128) -> u64 {
        let limit = i128::from(self.limit_bytes.max(1));
        let ms = bytes.saturating_mul(i128::from(self.period_ms.max(1))).saturating_add(limit - 1) / limit;
        u64::try_from(ms).unwrap_or(if ms < 0 { 0 } else { u64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that has something to send from a time on.
    #[derive(Clone, Copy)]
    struct Stream {
        from_ms: u64,
        until_ms: u64,
        wakes_ms: u64,
        passed: u64,
    }

    fn stream(from_ms: u64, until_ms: u64) -> Stream {
        Stream { from_ms, until_ms, wakes_ms: 0, passed: 0 }
    }

    /// Steps a clock as coarse as the kernel's, and as late as timers are.
    fn run(limit: Bandwidth, streams: &mut [Stream], end_ms: u64) -> (u64, u64) {
        let (mut past, mut wakes) = (RateCounter::default(), 0);
        for at_ms in 7_000..7_000 + end_ms {
            let now_ms = at_ms / 4 * 4;
            let active = |s: &Stream| (s.from_ms..s.until_ms).contains(&(at_ms - 7_000));
            let users = streams.iter().filter(|s| active(s)).count() as u32;
            for stream in streams.iter_mut().filter(|s| active(s) && s.wakes_ms <= at_ms) {
                wakes += 1;
                match limit.passage(&past, users, 64 * 1024, now_ms) {
                    Passage::Now(bytes) => {
                        assert!((1..=64 * 1024).contains(&bytes));
                        limit.count(&mut past, bytes, now_ms);
                        stream.passed += bytes;
                        stream.wakes_ms = at_ms + limit.turn_ms(bytes, users);
                    }
                    Passage::After(wait_ms) => stream.wakes_ms = at_ms + wait_ms + 1,
                }
            }
        }
        (streams.iter().map(|s| s.passed).sum(), wakes)
    }

    const fn limit(limit_bytes: u64, period_ms: u64, min_bytes: u64) -> Bandwidth {
        Bandwidth { limit_bytes, period_ms, min_bytes }
    }

    #[test]
    fn the_rate_is_held() {
        let check = |limit: Bandwidth, users: usize, end_ms: u64, percent: u64| {
            let mut streams = vec![stream(0, end_ms); users];
            let (passed, wakes) = run(limit, &mut streams, end_ms);
            let expected = limit.limit_bytes * end_ms / limit.period_ms;
            let off = passed.abs_diff(expected) * 100;
            assert!(off <= percent * expected, "{limit:?} {users}: {passed} instead of {expected}");
            assert!(wakes <= end_ms / 2 * users as u64, "{limit:?} {users}: {wakes} wakes");
            let (least, most) =
                streams.iter().fold((u64::MAX, 0), |(l, m), s| (l.min(s.passed), m.max(s.passed)));
            assert!(most - least <= most / 2, "{limit:?} {users}: from {least} to {most}");
        };
        check(limit(1_000_000, 1000, 0), 1, 5000, 2);
        check(limit(1_000_000, 1000, 2896), 1, 5000, 2);
        check(limit(10_000_000, 1000, 0), 1, 5000, 2);
        check(limit(100_000, 1000, 0), 1, 5000, 3);
        check(limit(10_000, 1000, 0), 1, 10_000, 5);
        check(limit(1000, 1000, 0), 1, 20_000, 5);
        check(limit(1_000_000, 10_000, 0), 1, 20_000, 3);
        check(limit(500_000, 60_000, 0), 1, 120_000, 2);
        check(limit(100_000, 100, 0), 1, 5000, 5);
        check(limit(1_000_000, 1000, 0), 2, 5000, 3);
        check(limit(1_000_000, 1000, 0), 10, 5000, 3);
        check(limit(10_000_000, 1000, 0), 100, 5000, 3);
        check(limit(1_000_000, 1000, 0), 100, 5000, 5);
        check(limit(1_000_000, 1000, 50_000), 1, 5000, 6);
    }

    #[test]
    fn any_period_has_at_most_the_limit() {
        let limit = limit(1_000_000, 1000, 0);
        for end_ms in [10, 100, 500, 1000, 1500] {
            let (passed, _) = run(limit, &mut [stream(0, end_ms)], end_ms);
            assert!(passed <= 1000 * end_ms + 10_000, "{end_ms}: {passed}");
        }
        // What was not used for a while is not made up for later.
        let (passed, _) = run(limit, &mut [stream(0, 1000), stream(5000, 6000)], 6000);
        assert!((1_900_000..=2_020_000).contains(&passed), "{passed}");
    }

    #[test]
    fn what_one_leaves_the_others_take() {
        let limit = limit(1_000_000, 1000, 0);
        let mut streams = [stream(0, 10_000), stream(0, 2000)];
        let (passed, _) = run(limit, &mut streams, 10_000);
        assert!((9_600_000..=10_100_000).contains(&passed), "{passed}");
        assert!((900_000..=1_100_000).contains(&streams[1].passed), "{}", streams[1].passed);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let check = |limit: Bandwidth, past: (u64, u64, u64), users, offered, expected: Passage| {
            let past = RateCounter::from_parts(5000, past);
            assert_eq!(limit.passage(&past, users, offered, 5000), expected, "{limit:?}");
        };
        check(limit(0, 0, 0), (0, 0, 0), 0, 10, Passage::Now(1));
        check(limit(1, u64::MAX, 0), (0, 1, 0), 1, 10, Passage::After(LONGEST_WAIT_MS));
        check(limit(1000, 1000, 0), (0, u64::MAX, u64::MAX), 1, 10, Passage::After(LONGEST_WAIT_MS));
        check(
            limit(u64::MAX, 1, 0),
            (0, 0, 0),
            u32::MAX,
            u64::MAX,
            Passage::Now(u64::MAX / u64::from(u32::MAX)),
        );
        check(limit(1000, 1000, u64::MAX), (0, 0, 0), 1, 500, Passage::Now(500));
        // The end of a body does not wait until a whole piece may pass.
        check(limit(1_000_000, 1000, 0), (500, 509_900, 0), 1, 100, Passage::Now(100));
        check(limit(1_000_000, 1000, 0), (500, 509_999, 0), 1, 100, Passage::After(1));
        check(limit(1_000_000, 1000, 0), (500, 510_000, 0), 1, 65_536, Passage::After(10));
    }
}
