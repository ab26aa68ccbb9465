//! Memory that threads keep for the next user, for `show pools` and `show info`.
//!
//! Each thread publishes once a second what it keeps; nobody counts on the way of a request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::thread::worker::Worker;

/// The pools of a thread by name, and the size of what is in them where it is one.
const NAMES: [&str; 4] = ["buffer", "fields", "tls_record", "tls_records"];

/// What all threads keep.
#[derive(Debug)]
pub struct MemoryPools(Vec<[Level; NAMES.len()]>);

#[derive(Debug, Default)]
struct Level {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

/// One pool over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: &'static str,
    /// Pieces that wait for a user.
    pub count: usize,
    /// What they take.
    pub bytes: usize,
}

impl MemoryPools {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Default::default()).collect())
    }

    /// What is kept, by pool.
    #[must_use]
    pub fn kept(&self) -> [Kept; NAMES.len()] {
        std::array::from_fn(|at| {
            let sum = |read: fn(&Level) -> &AtomicUsize| {
                self.0.iter().map(|pools| read(&pools[at]).load(Relaxed)).sum()
            };
            Kept { name: NAMES[at], count: sum(|level| &level.count), bytes: sum(|level| &level.bytes) }
        })
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept().iter().map(|pool| pool.bytes).sum()
    }
}

/// Says what a thread keeps.
pub(crate) fn publish(worker: &Worker) {
    let Some(levels) = worker.shared.memory_pools.0.get(worker.thread) else { return };
    let [small, large] = weir_net::kept_pieces();
    let found = [worker.buffers.borrow().kept(), worker.fields.borrow().kept(), small, large];
    for (level, (count, bytes)) in levels.iter().zip(found) {
        level.count.store(count, Relaxed);
        level.bytes.store(bytes, Relaxed);
    }
}
