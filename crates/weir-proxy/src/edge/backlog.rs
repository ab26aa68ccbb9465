//! What the requests of a client's HTTP/2 connection hold while they run: places among those that may run at once, and
//! the memory of their heads.
//!
//! A stream that was reset is over for the protocol; its request is over when nothing here works for it any more. A
//! client that resets faster than requests end is not read from until they have.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes of memory that the heads of one connection's requests may have: a hundred of 5 kB. Requests beyond are refused
/// (`REFUSED_STREAM`), and clients send them again.
const CONNECTION_HEADS: usize = 512 * 1024;

/// Bytes that the heads of a process's requests may have before each connection has to do with fewer: some 100,000
/// requests of usual size at once. Each thread has its part of it.
const PROCESS_HEADS: usize = 256 * 1024 * 1024;

/// Bytes that one connection's heads may have then: a dozen of 5 kB.
const SCARCE_CONNECTION_HEADS: usize = 64 * 1024;

/// Largest heads that always fit: a head takes little more than twice its bytes, for its URI is kept as it came and as it
/// is shown.
const LEAST_HEADS: usize = 4;

/// The requests of one connection.
pub(crate) struct Backlog {
    running: Cell<usize>,
    most_running: usize,
    heads: Cell<usize>,
    least_heads: usize,
    /// The heads of all connections of the thread.
    thread: Rc<ThreadHeads>,
}

/// The heads of the requests that run on one thread.
pub(crate) struct ThreadHeads {
    bytes: Cell<usize>,
    budget: usize,
}

impl ThreadHeads {
    pub(crate) fn new(threads: usize) -> Self {
        Self { bytes: Cell::new(0), budget: PROCESS_HEADS / threads.max(1) }
    }
}

/// A request that runs, until this is dropped.
pub(crate) struct Running {
    backlog: Rc<Backlog>,
    head: usize,
}

impl Backlog {
    /// Of a connection that may have so many streams at once, with heads up to `head_limit` bytes.
    pub(crate) fn new(most_running: usize, head_limit: usize, thread: Rc<ThreadHeads>) -> Rc<Self> {
        let least_heads = LEAST_HEADS * head_limit;
        Rc::new(Self { running: Cell::new(0), most_running, heads: Cell::new(0), least_heads, thread })
    }

    /// More requests run than streams may be open: some that were reset have not ended yet.
    pub(crate) fn is_full(&self) -> bool {
        self.running.get() > self.most_running
    }

    /// Bytes that the heads of further requests may have now.
    pub(crate) fn room(&self) -> usize {
        let scarce = self.thread.bytes.get() > self.thread.budget;
        let limit = if scarce { SCARCE_CONNECTION_HEADS } else { CONNECTION_HEADS };
        limit.max(self.least_heads).saturating_sub(self.heads.get())
    }

    /// A request with a head of so many bytes begins.
    pub(crate) fn enter(self: &Rc<Self>, head: usize) -> Running {
        self.running.set(self.running.get() + 1);
        self.heads.set(self.heads.get() + head);
        self.thread.bytes.set(self.thread.bytes.get() + head);
        Running { backlog: Rc::clone(self), head }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Self { backlog, head } = self;
        backlog.running.set(backlog.running.get() - 1);
        backlog.heads.set(backlog.heads.get() - *head);
        backlog.thread.bytes.set(backlog.thread.bytes.get() - *head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_a_budget_for_the_connection_and_one_for_the_process() {
        let thread = Rc::new(ThreadHeads { bytes: Cell::new(0), budget: CONNECTION_HEADS });
        let backlog = |limit| Backlog::new(2, limit, Rc::clone(&thread));
        let (one, other) = (backlog(15_000), backlog(15_000));
        let held: Vec<_> = (0..8).map(|_| one.enter(64 * 1024)).collect();
        assert_eq!((one.room(), other.room()), (0, CONNECTION_HEADS));
        // Above the process's budget a connection that holds little still gets some.
        let more = other.enter(1);
        assert_eq!(other.room(), SCARCE_CONNECTION_HEADS - 1);
        drop((held, more));
        assert_eq!((one.room(), thread.bytes.get()), (CONNECTION_HEADS, 0));
        // However large a head may be, some fit.
        assert_eq!(backlog(1 << 20).room(), LEAST_HEADS << 20);
    }

    #[test]
    fn what_runs_counts_until_it_has_ended() {
        let backlog = Backlog::new(2, 0, Rc::new(ThreadHeads::new(1)));
        let mut running: Vec<_> = (0..2).map(|_| backlog.enter(0)).collect();
        // As many as streams: they may need more of what the client sends.
        assert!(!backlog.is_full());
        running.push(backlog.enter(0));
        assert!(backlog.is_full());
        running.pop();
        assert!(!backlog.is_full());
    }
}
