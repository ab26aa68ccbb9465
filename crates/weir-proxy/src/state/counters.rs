//! Counters that threads add to without touching each other's cache lines.
//!
//! Each thread owns a block of cells and is the only one to write it; readers sum the blocks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident),* $(,)?) => {
        /// What is counted for a frontend, backend, listener or server; names as in the statistics.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Counter { $($(#[$doc])* $variant),* }
        /// All of them.
        pub(crate) const ALL: &[Counter] = &[$(Counter::$variant),*];
        /// Number of counters in a block.
        const COUNT: usize = ALL.len();
    };
}

counters! {
    /// `stot`: sessions (frontend: connections; backend and server: requests handed to them).
    Sessions,
    /// `conn_tot`: connections accepted (frontend).
    Connections,
    /// `bin`
    BytesIn,
    /// `bout`
    BytesOut,
    /// `dreq`: requests denied by rules.
    DeniedRequests,
    /// `dresp`: responses denied by rules.
    DeniedResponses,
    /// `dcon`: connections denied.
    DeniedConnections,
    /// `dses`: sessions denied.
    DeniedSessions,
    /// `ereq`: request errors.
    RequestErrors,
    /// `econ`: errors connecting to servers.
    ConnectErrors,
    /// `eresp`: response errors.
    ResponseErrors,
    /// `wretr`: connection retries.
    Retries,
    /// `wredis`: redispatches.
    Redispatches,
    /// `hrsp_1xx`
    Status1xx,
    /// `hrsp_2xx`
    Status2xx,
    /// `hrsp_3xx`
    Status3xx,
    /// `hrsp_4xx`
    Status4xx,
    /// `hrsp_5xx`
    Status5xx,
    /// `hrsp_other`
    StatusOther,
    /// `req_tot`
    Requests,
    /// `cli_abrt`
    ClientAborts,
    /// `srv_abrt`
    ServerAborts,
    /// `comp_in`
    CompressedIn,
    /// `comp_out`
    CompressedOut,
    /// `comp_byp`
    CompressionBypassed,
    /// `comp_rsp`
    CompressedResponses,
    /// `lbtot`: times selected by the load balancer.
    Selected,
    /// `connect`
    ConnectAttempts,
    /// `reuse`
    ConnectionReuses,
    /// `intercepted`
    Intercepted,
    /// `chkfail`
    FailedChecks,
    /// `chkdown`
    DownTransitions,
    /// `cache_lookups`
    CacheLookups,
    /// `cache_hits`
    CacheHits,
    /// `wrew`: failed header rewrites.
    FailedRewrites,
    /// `eint`: internal errors.
    InternalErrors,
    /// `h1sess`
    H1Sessions,
    /// `h2sess`
    H2Sessions,
    /// `h1req`
    H1Requests,
    /// `h2req`
    H2Requests,
}

/// One thread's cells; aligned so that two threads never share a cache line.
#[repr(align(64))]
#[derive(Debug)]
struct Block([AtomicU64; COUNT]);

/// A set of counters with a block for each thread.
#[derive(Debug)]
pub struct Counters {
    blocks: Box<[Block]>,
}

impl Counters {
    /// Zeroed counters for `threads` threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let block = || Block([const { AtomicU64::new(0) }; COUNT]);
        Self { blocks: (0..threads).map(|_| block()).collect() }
    }

    /// Adds to a counter of the calling thread's block; `thread` must be the caller's own number.
    pub fn add(&self, thread: usize, counter: Counter, by: u64) {
        let cell = &self.blocks[thread].0[counter as usize];
        // The only writer is this thread: a load and a store are cheaper than a locked addition.
        cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Starts a counter with a value, before any thread counts.
    pub(crate) fn preload(&self, counter: Counter, value: u64) {
        if let Some(block) = self.blocks.first() {
            block.0[counter as usize].store(value, Relaxed);
        }
    }

    /// Sum over all threads.
    #[must_use]
    pub fn sum(&self, counter: Counter) -> u64 {
        self.blocks.iter().map(|b| b.0[counter as usize].load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Sets all counters to zero (`clear counters all`).
    pub fn clear(&self) {
        for cell in self.blocks.iter().flat_map(|b| &b.0) {
            cell.store(0, Relaxed);
        }
    }

    /// The counter of a status class.
    #[must_use]
    pub fn of_status(status: u16) -> Counter {
        match status / 100 {
            1 => Counter::Status1xx,
            2 => Counter::Status2xx,
            3 => Counter::Status3xx,
            4 => Counter::Status4xx,
            5 => Counter::Status5xx,
            _ => Counter::StatusOther,
        }
    }
}

/// Events per second over a sliding second, as the statistics' `rate` columns show it.
///
/// Shared by all threads; an update is one addition, and the first one in a new second turns the page.
#[derive(Debug, Default)]
pub struct Rate {
    /// Second of the current page in the high half, its count in the low half.
    page: AtomicU64,
    previous: AtomicU64,
    max: AtomicU64,
}

impl Rate {
    /// Counts one event at `now_ms`.
    pub fn hit(&self, now_ms: u64) {
        let second = now_ms / 1000;
        let page = self.page.load(Relaxed);
        if page >> 32 == second & 0xffff_ffff {
            let count = (self.page.fetch_add(1, Relaxed) & 0xffff_ffff) + 1;
            if count > self.max.load(Relaxed) {
                self.max.fetch_max(count, Relaxed);
            }
            return;
        }
        let turned = (second << 32) | 1;
        if self.page.compare_exchange(page, turned, Relaxed, Relaxed).is_ok() {
            let adjacent = (page >> 32) + 1 == second & 0xffff_ffff;
            self.previous.store(if adjacent { page & 0xffff_ffff } else { 0 }, Relaxed);
            self.max.fetch_max(1, Relaxed);
        } else {
            self.page.fetch_add(1, Relaxed);
        }
    }

    /// Events in the last second, the elapsed part of the previous one weighed out.
    #[must_use]
    pub fn per_second(&self, now_ms: u64) -> u64 {
        let (second, into_ms) = (now_ms / 1000, now_ms % 1000);
        let page = self.page.load(Relaxed);
        let age = second.wrapping_sub(page >> 32);
        match age {
            0 => (page & 0xffff_ffff) + self.previous.load(Relaxed) * (1000 - into_ms) / 1000,
            1 => (page & 0xffff_ffff) * (1000 - into_ms) / 1000,
            _ => 0,
        }
    }

    /// Highest count seen in one second.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Forgets the highest count.
    pub fn clear_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Bytes per second over a sliding second. Shared by all threads; two that turn the page at once may lose a piece.
#[derive(Debug, Default)]
pub struct ByteRate {
    second: AtomicU64,
    current: AtomicU64,
    previous: AtomicU64,
}

impl ByteRate {
    /// Counts bytes at `now_ms`.
    pub fn add(&self, bytes: u64, now_ms: u64) {
        let second = now_ms / 1000;
        let page = self.second.load(Relaxed);
        if page != second && self.second.compare_exchange(page, second, Relaxed, Relaxed).is_ok() {
            let last = self.current.swap(0, Relaxed);
            self.previous.store(if page + 1 == second { last } else { 0 }, Relaxed);
        }
        self.current.fetch_add(bytes, Relaxed);
    }

    /// Bytes in the last second, the elapsed part of the previous one weighed out.
    #[must_use]
    pub fn per_second(&self, now_ms: u64) -> u64 {
        let left = |bytes: u64| bytes / 1000 * (1000 - now_ms % 1000);
        let current = self.current.load(Relaxed);
        match (now_ms / 1000).wrapping_sub(self.second.load(Relaxed)) {
            0 => current + left(self.previous.load(Relaxed)),
            1 => left(current),
            _ => 0,
        }
    }
}

/// Requests that an average looks back on.
const AVERAGE_SAMPLES: u64 = 1024;

/// Average over the last 1024 values or so, and the highest of all: each new value pushes a 1024th of the sum out.
///
/// Two threads that add at the same moment may lose one value, which an average can bear; while all values are zero
/// nothing is written, and the threads share the cache line for reading.
#[derive(Debug, Default)]
pub struct Average {
    /// Values added, up to [`AVERAGE_SAMPLES`], in the lowest bits; the sum above them.
    state: AtomicU64,
    max: AtomicU64,
}

/// Bits of the number of values.
const SAMPLES_BITS: u32 = 11;

impl Average {
    /// Adds a value in milliseconds.
    pub fn add(&self, value: u32) {
        let value = u64::from(value);
        let state = self.state.load(Relaxed);
        let (samples, sum) = (state & ((1 << SAMPLES_BITS) - 1), state >> SAMPLES_BITS);
        let (samples, sum) = match samples {
            AVERAGE_SAMPLES => (samples, sum - sum.div_ceil(AVERAGE_SAMPLES) + value),
            few => (few + 1, sum + value),
        };
        let new = (sum << SAMPLES_BITS) | samples;
        if new != state {
            self.state.store(new, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// The average.
    #[must_use]
    pub fn value(&self) -> u64 {
        let state = self.state.load(Relaxed);
        let samples = state & ((1 << SAMPLES_BITS) - 1);
        (state >> SAMPLES_BITS).div_ceil(samples.max(1))
    }

    /// The highest value since the start, or since it was cleared.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Forgets the highest value.
    pub fn clear_max(&self) {
        self.max.store(0, Relaxed);
    }
}

/// Times of the last requests in milliseconds: `qtime`, `ctime`, `rtime`, `ttime`.
#[derive(Debug, Default)]
pub struct Times {
    /// In queues.
    pub queue: Average,
    /// Until the server's connection was there.
    pub connect: Average,
    /// Until the response's head.
    pub response: Average,
    /// From the end of the response before, or from the accept, to the last byte.
    pub total: Average,
}

impl Times {
    /// Adds those of a request; stages it did not reach add nothing.
    pub(crate) fn add(&self, timers: &weir_rules::facts::Timers) {
        let stages = [
            (&self.queue, timers.queue_ms),
            (&self.connect, timers.connect_ms),
            (&self.response, timers.response_ms),
            (&self.total, timers.total_ms),
        ];
        for (average, time) in stages {
            if let Some(time) = time {
                average.add(time);
            }
        }
    }

    /// Forgets the highest values.
    pub fn clear_max(&self) {
        for average in [&self.queue, &self.connect, &self.response, &self.total] {
            average.clear_max();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_sum_over_threads() {
        let counters = Counters::new(2);
        counters.add(0, Counter::Requests, 2);
        counters.add(1, Counter::Requests, 3);
        assert_eq!(counters.sum(Counter::Requests), 5);
        counters.clear();
        assert_eq!(counters.sum(Counter::Requests), 0);
    }

    #[test]
    fn byte_rate_slides() {
        let rate = ByteRate::default();
        rate.add(6_000, 5_000);
        rate.add(4_000, 5_900);
        assert_eq!(rate.per_second(5_999), 10_000);
        assert_eq!(rate.per_second(6_500), 5_000);
        rate.add(100, 6_500);
        assert_eq!(rate.per_second(6_500), 5_100);
        assert_eq!(rate.per_second(9_000), 0);
    }

    #[test]
    fn averages_slide() {
        // Runs of values, the average after them, and the highest.
        let check = |runs: &[(usize, u32)], expected: u64, max: u64| {
            let average = Average::default();
            for (count, value) in runs {
                (0..*count).for_each(|_| average.add(*value));
            }
            assert_eq!((average.value(), average.max()), (expected, max), "{runs:?}");
        };
        check(&[], 0, 0);
        check(&[(1, 7)], 7, 7);
        check(&[(1, 10), (1, 20)], 15, 20);
        check(&[(2000, 100)], 100, 100);
        check(&[(1024, 0), (1024, 100)], 63, 100);
        check(&[(1024, 100), (20_000, 0)], 0, 100);
        check(&[(5000, u32::MAX)], u64::from(u32::MAX), u64::from(u32::MAX));
    }

    #[test]
    fn rate_slides() {
        let rate = Rate::default();
        for _ in 0..10 {
            rate.hit(5_000);
        }
        assert_eq!(rate.per_second(5_999), 10);
        assert_eq!(rate.per_second(6_500), 5);
        rate.hit(6_500);
        assert_eq!(rate.per_second(6_500), 6);
        assert_eq!(rate.per_second(9_000), 0);
        assert_eq!(rate.max(), 10);
    }
}
