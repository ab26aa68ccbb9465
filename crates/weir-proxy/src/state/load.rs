//! How busy each thread is and how much is compressed, for the limits on compression and for the statistics.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use weir_compress::Load;
pub use weir_compress::{InForce, Reason, Step};
use weir_net::timers::{now_ms, now_us, thread_cpu_ns};

use crate::state::counters::ByteRate;

/// Measurements of all threads.
#[derive(Debug)]
pub struct ProcessLoad {
    threads: Box<[ThreadLoad]>,
    compressed_in: ByteRate,
    compressed_out: ByteRate,
}

/// One thread's; only that thread writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ThreadLoad {
    /// When it began to wait, in nanoseconds.
    waits_since: AtomicU64,
    /// Time it has waited in all.
    waited_ns: AtomicU64,
    /// Both clocks at the last measurement.
    measured_at: AtomicU64,
    waited_before: AtomicU64,
    used_before: AtomicU64,
    busy_thousandths: AtomicU16,
    /// What its throttle is at: places in `Step::ALL` and `Reason::ALL`.
    step: AtomicU8,
    share_percent: AtomicU8,
    reason: AtomicU8,
    /// Bytes that did not have to be compressed again.
    reused_bytes: AtomicU64,
}

impl ProcessLoad {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let thread = || ThreadLoad {
            step: AtomicU8::new(Step::Best as u8),
            share_percent: AtomicU8::new(100),
            measured_at: AtomicU64::new(ns()),
            ..ThreadLoad::default()
        };
        Self {
            threads: (0..threads).map(|_| thread()).collect(),
            compressed_in: ByteRate::default(),
            compressed_out: ByteRate::default(),
        }
    }

    /// The calling thread has nothing to do.
    pub(crate) fn waits(&self, thread: usize) {
        self.threads[thread].waits_since.store(ns(), Relaxed);
    }

    /// The calling thread has something to do again.
    pub(crate) fn works(&self, thread: usize) {
        let load = &self.threads[thread];
        let waited = ns().saturating_sub(load.waits_since.load(Relaxed));
        load.waited_ns.store(load.waited_ns.load(Relaxed) + waited, Relaxed);
    }

    /// Measures the calling thread since its last call.
    pub(crate) fn measure(&self, thread: usize) -> Load {
        let load = &self.threads[thread];
        let since = |before: &AtomicU64, now: u64| now.saturating_sub(before.swap(now, Relaxed));
        let busy = Spent {
            elapsed_ns: since(&load.measured_at, ns()),
            waited_ns: since(&load.waited_before, load.waited_ns.load(Relaxed)),
            used_ns: since(&load.used_before, thread_cpu_ns()),
        }
        .busy_thousandths();
        load.busy_thousandths.store(busy, Relaxed);
        Load { rate_bytes_per_second: self.rate_bytes_per_second(), busy_thousandths: busy }
    }

    /// What the calling thread's throttle is at.
    pub(crate) fn publish(&self, thread: usize, in_force: InForce) {
        let load = &self.threads[thread];
        load.step.store(in_force.step as u8, Relaxed);
        load.share_percent.store(in_force.share_percent, Relaxed);
        load.reason.store(in_force.reason as u8, Relaxed);
    }

    /// Counts bytes that entered and left an encoder.
    pub(crate) fn compressed(&self, taken: u64, given: u64) {
        let now = now_ms();
        self.compressed_in.add(taken, now);
        self.compressed_out.add(given, now);
    }

    /// Counts bytes of the calling thread that were known, so that they were not compressed again.
    pub(crate) fn reused(&self, thread: usize, bytes: u64) {
        if bytes > 0 {
            let total = &self.threads[thread].reused_bytes;
            total.store(total.load(Relaxed) + bytes, Relaxed);
        }
    }

    /// Bytes that were not compressed again since the process began.
    #[must_use]
    pub fn reused_bytes(&self) -> u64 {
        self.threads.iter().map(|thread| thread.reused_bytes.load(Relaxed)).sum()
    }

    /// Bytes that entered encoders in the last second.
    #[must_use]
    pub fn rate_bytes_per_second(&self) -> u64 {
        self.compressed_in.per_second(now_ms())
    }

    /// Bytes that left encoders in the last second.
    #[must_use]
    pub fn compressed_bytes_per_second(&self) -> u64 {
        self.compressed_out.per_second(now_ms())
    }

    /// How busy a thread was when it was last measured, in percent.
    #[must_use]
    pub fn busy_percent(&self, thread: usize) -> u8 {
        (self.threads[thread].busy_thousandths.load(Relaxed) / 10) as u8
    }

    /// What the throttle of compression is at, and how busy the thread is, in percent: of the thread where it is lowest.
    #[must_use]
    pub fn compression(&self) -> (InForce, u8) {
        let of = |(at, thread): (usize, &ThreadLoad)| {
            let step = Step::ALL.get(usize::from(thread.step.load(Relaxed))).copied().unwrap_or_default();
            let reason =
                Reason::ALL.get(usize::from(thread.reason.load(Relaxed))).copied().unwrap_or_default();
            let share_percent = thread.share_percent.load(Relaxed);
            (InForce { step, share_percent, reason }, self.busy_percent(at))
        };
        let threads = self.threads.iter().enumerate().map(of);
        let lowest = threads.min_by_key(|(found, _)| (found.step, found.share_percent));
        lowest.unwrap_or_default()
    }
}

/// The clock of these measurements.
fn ns() -> u64 {
    now_us() * 1000
}

/// What a thread did with its time.
#[derive(Clone, Copy, Debug)]
struct Spent {
    elapsed_ns: u64,
    /// It had nothing to do.
    waited_ns: u64,
    /// It used the processor: also for waiting, as looking for events and handing them out is work.
    used_ns: u64,
}

impl Spent {
    /// The processor time it used. Where others use its processor, what counts is the time that it did not wait: it is late
    /// with everything when that is all.
    fn busy_thousandths(self) -> u16 {
        let worked_ns = self.elapsed_ns.saturating_sub(self.waited_ns);
        let busy_ns = worked_ns.max(self.used_ns).min(self.elapsed_ns);
        (busy_ns * 1000).checked_div(self.elapsed_ns).unwrap_or(0) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_for_events_is_work() {
        let check = |elapsed_ns, waited_ns, used_ns, expected| {
            let spent = Spent { elapsed_ns, waited_ns, used_ns };
            assert_eq!(spent.busy_thousandths(), expected, "{spent:?}");
        };
        check(0, 0, 0, 0);
        check(100, 100, 0, 0);
        check(100, 50, 40, 500);
        // A sixth of the processor's time went into the calls that wait.
        check(100, 50, 60, 600);
        check(100, 100, 10, 100);
        // Somebody else had the processor.
        check(100, 0, 30, 1000);
        // The clocks are not read at the same moment.
        check(100, 101, 0, 0);
        check(100, 0, 101, 1000);
        check(100, 100, 101, 1000);
        check(u64::MAX / 1000, 0, 0, 1000);
    }

    #[test]
    fn the_lowest_step_is_shown() {
        let load = ProcessLoad::new(2);
        let free = InForce { step: Step::Best, share_percent: 100, reason: Reason::Free };
        assert_eq!(load.compression(), (free, 0));
        let held = InForce { step: Step::Fast, share_percent: 43, reason: Reason::Cpu };
        load.publish(1, held);
        load.threads[1].busy_thousandths.store(842, Relaxed);
        assert_eq!(load.compression(), (held, 84));
    }

    #[test]
    fn waiting_is_not_work() {
        let load = ProcessLoad::new(1);
        load.threads[0].measured_at.store(0, Relaxed);
        load.threads[0].waited_ns.store(u64::MAX / 2, Relaxed);
        load.threads[0].used_before.store(u64::MAX, Relaxed);
        assert_eq!(load.measure(0).busy_thousandths, 0);
        assert_eq!(load.measure(0).busy_thousandths, 1000);
    }
}
