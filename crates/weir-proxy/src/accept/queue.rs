//! Which thread serves a client.
//!
//! A new connection wakes every thread, and the first one awake takes a burst of them whole: its clients would wait for
//! one core while others are idle.  So the thread that accepted passes a connection to the thread that serves the
//! fewest clients of the socket, before anything is read from it.  From then on it stays there.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use weir_net::Address;
use weir_net::stream::Detached;

use crate::client::Entry;
use crate::state::{ListenerState, Shared};

/// A thread keeps what it accepted unless it serves so many clients more than another: passing costs a wake-up.
const SLACK: usize = 1;

/// The threads that serve one listening socket.
#[derive(Debug, Default)]
pub struct AcceptQueues(OnceLock<Box<[Seat]>>);

#[derive(Debug, Default)]
struct Seat {
    /// Clients that it serves, and those on their way to it.
    clients: AtomicUsize,
    /// The way to it, once it serves the socket.  What lies in it was accepted within the limits on connections.
    way: OnceLock<mpsc::UnboundedSender<Passed>>,
}

/// A connection on its way to another thread.
pub(crate) struct Passed {
    pub(crate) stream: Detached,
    pub(crate) peer: Address,
    pub(crate) arrival: Arrival,
}

impl AcceptQueues {
    /// Clients by thread, those on their way included; none of a thread that does not serve the socket.
    #[must_use]
    pub fn clients(&self) -> Vec<Option<usize>> {
        self.seats().iter().map(Seat::clients).collect()
    }

    fn seats(&self) -> &[Seat] {
        self.0.get().map_or(&[], AsRef::as_ref)
    }

    /// A thread begins to serve the socket.
    pub(crate) fn open(&self, thread: usize, threads: usize) -> mpsc::UnboundedReceiver<Passed> {
        let seats = self.0.get_or_init(|| (0..threads).map(|_| Seat::default()).collect());
        let (way, queue) = mpsc::unbounded_channel();
        if let Some(seat) = seats.get(thread) {
            // A thread begins once.
            let _first = seat.way.set(way);
        }
        queue
    }

    /// The thread that serves the next connection accepted by `own`.
    pub(crate) fn choose(&self, own: usize) -> usize {
        choose(own, self.seats().iter().map(Seat::clients))
    }

    /// Sends a connection to a thread; back it comes when that thread no longer takes any.
    pub(crate) fn pass(&self, thread: usize, passed: Passed) -> Result<(), Passed> {
        match self.seats().get(thread).and_then(|seat| seat.way.get()) {
            Some(way) => way.send(passed).map_err(|refused| refused.0),
            None => Err(passed),
        }
    }

    pub(crate) fn enter(&self, thread: usize) {
        if let Some(seat) = self.seats().get(thread) {
            seat.clients.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn leave(&self, thread: usize) {
        if let Some(seat) = self.seats().get(thread) {
            seat.clients.fetch_sub(1, Relaxed);
        }
    }
}

impl Seat {
    fn clients(&self) -> Option<usize> {
        let open = self.way.get().is_some_and(|way| !way.is_closed());
        open.then(|| self.clients.load(Relaxed))
    }
}

/// The thread with the fewest clients where that is worth it, among those that take any.
fn choose(own: usize, clients: impl Iterator<Item = Option<usize>> + Clone) -> usize {
    let own_clients = clients.clone().nth(own).flatten();
    let fewest = clients.enumerate().filter_map(|(thread, clients)| Some((clients?, thread))).min();
    match (own_clients, fewest) {
        (Some(mine), Some((fewest, thread))) if mine > fewest + SLACK => thread,
        _ => own,
    }
}

/// Holds a connection's place in all counts while it is on its way, so that limits hold and the process waits for it.
pub(crate) struct Arrival {
    shared: Arc<Shared>,
    listener: Arc<ListenerState>,
    queues: Arc<AcceptQueues>,
    thread: usize,
}

impl Arrival {
    /// The place of a connection that is in [`Shared::connections`] already and goes to `thread`.
    pub(crate) fn new(shared: &Arc<Shared>, entry: &Entry, thread: usize) -> Self {
        entry.enter(shared, thread);
        let (listener, queues) = (Arc::clone(&entry.state), Arc::clone(&entry.queues));
        Self { shared: Arc::clone(shared), listener, queues, thread }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.queues.leave(self.thread);
        self.listener.leave(&self.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_shared_out() {
        let check = |own: usize, clients: &[Option<usize>], expected: usize| {
            assert_eq!(choose(own, clients.iter().copied()), expected, "{own} {clients:?}");
        };
        check(0, &[Some(0)], 0);
        check(0, &[Some(5)], 0);
        check(0, &[Some(1), Some(0)], 0);
        check(0, &[Some(2), Some(0)], 1);
        check(1, &[Some(2), Some(9)], 0);
        check(1, &[Some(9), Some(2)], 1);
        check(2, &[Some(4), Some(3), Some(9), Some(3)], 1);
        // A thread that does not serve the socket, or no longer, gets none.
        check(0, &[Some(7), None, Some(6)], 0);
        check(0, &[Some(7), None, Some(5)], 2);
        check(0, &[None, Some(0)], 0);
    }

    #[test]
    fn clients_are_counted_by_thread() {
        let queues = AcceptQueues::default();
        let (_first, second) = (queues.open(0, 2), queues.open(1, 2));
        (0..2).for_each(|_| queues.enter(0));
        assert_eq!(queues.choose(0), 1);
        queues.enter(1);
        assert_eq!(queues.choose(0), 0);
        queues.leave(1);
        drop(second);
        assert_eq!(queues.choose(0), 0);
    }
}
