//! How busy each thread is, for the limits on compression and for `show info`.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use weir_compress::Load;

/// Measurements of all threads.
#[derive(Debug)]
pub struct ProcessLoad {
    cpu_percent: Box<[AtomicU8]>,
    last: Box<[(AtomicU64, AtomicU64)]>,
    compressed_bytes: AtomicU64,
    rate_bytes_per_second: AtomicU64,
    rate_second: AtomicU64,
}

impl ProcessLoad {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            cpu_percent: (0..threads).map(|_| AtomicU8::new(0)).collect(),
            last: (0..threads).map(|_| Default::default()).collect(),
            compressed_bytes: AtomicU64::new(0),
            rate_bytes_per_second: AtomicU64::new(0),
            rate_second: AtomicU64::new(0),
        }
    }

    /// Measures the calling thread's processor use since its last call.
    pub fn measure(&self, thread: usize) {
        use rustix::time::{ClockId, clock_gettime};
        let ns = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let (wall, cpu) = (ns(ClockId::Monotonic), ns(ClockId::ThreadCPUTime));
        let (last_wall, last_cpu) = &self.last[thread];
        let wall_spent = wall.saturating_sub(last_wall.swap(wall, Relaxed));
        let cpu_spent = cpu.saturating_sub(last_cpu.swap(cpu, Relaxed));
        let percent = (cpu_spent * 100).checked_div(wall_spent).unwrap_or(0).min(100);
        self.cpu_percent[thread].store(percent as u8, Relaxed);
        if thread == 0 {
            let bytes = self.compressed_bytes.swap(0, Relaxed);
            let second = self.rate_second.swap(wall, Relaxed);
            let rate = (bytes * 1_000_000_000).checked_div(wall.saturating_sub(second)).unwrap_or(0);
            self.rate_bytes_per_second.store(rate, Relaxed);
        }
    }

    /// Counts bytes that entered an encoder.
    pub fn compressed(&self, bytes: u64) {
        self.compressed_bytes.fetch_add(bytes, Relaxed);
    }

    /// What was measured last for a thread.
    #[must_use]
    pub fn of(&self, thread: usize) -> Load {
        Load {
            rate_bytes_per_second: self.rate_bytes_per_second.load(Relaxed),
            cpu_percent: self.cpu_percent[thread].load(Relaxed),
        }
    }
}
