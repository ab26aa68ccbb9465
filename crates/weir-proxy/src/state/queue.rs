//! Requests that wait for a free slot, in the order of their priority, then of their coming.
//!
//! A slot that becomes free is counted for the first waiter and handed to it, whichever thread it runs on,
//! so that no newcomer can take it in between.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::server::choose::Held;

/// A slot on a server that was counted for its holder.
pub(crate) type Slot = Held;

/// What decides who is next: the smallest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Urgency {
    /// `set-priority-class`
    pub(crate) class: i32,
    /// When it came, in milliseconds, moved by `set-priority-offset`.
    pub(crate) at_ms: i64,
}

/// An [`Urgency`] and a number that makes it unique.
type Key = (Urgency, u64);

#[derive(Default)]
struct Waiting {
    in_order: BTreeMap<Key, oneshot::Sender<Slot>>,
    serial: u64,
}

/// The queue of a server (persistent requests) or of a backend (any server will do).
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    /// Number waiting, readable without the lock.
    len: AtomicUsize,
    max: AtomicUsize,
}

/// A place in a queue; given up when dropped.
pub(crate) struct Place {
    queue: Arc<Queue>,
    key: Key,
    slot: oneshot::Receiver<Slot>,
}

impl Place {
    /// Ready with the slot when it is this one's turn; with `None` when the queue was disbanded.
    pub(crate) fn poll_slot(&mut self, cx: &mut Context<'_>) -> Poll<Option<Slot>> {
        Poll::Ready(ready!(Future::poll(Pin::new(&mut self.slot), cx)).ok())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        // Not there any more when it was served.
        if waiting.in_order.remove(&self.key).is_some() {
            self.queue.len.store(waiting.in_order.len(), SeqCst);
        }
    }
}

impl Queue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the queue; returns the place and how many will be served before it.
    ///
    /// The caller must look for a free slot again afterwards: one may have been freed meanwhile by somebody
    /// who saw nobody waiting.
    pub(crate) fn enter(self: &Arc<Self>, urgency: Urgency) -> (Place, usize) {
        let (sender, slot) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.serial += 1;
        let key = (urgency, waiting.serial);
        let is_last = waiting.in_order.last_key_value().is_none_or(|(last, _)| *last < key);
        let before = if is_last { waiting.in_order.len() } else { waiting.in_order.range(..key).count() };
        waiting.in_order.insert(key, sender);
        let len = waiting.in_order.len();
        self.len.store(len, SeqCst);
        drop(waiting);
        self.max.fetch_max(len, Relaxed);
        (Place { queue: Arc::clone(self), key, slot }, before)
    }

    /// Gives a counted slot to the first who waits; gives it back when nobody does.
    pub(crate) fn hand_over(&self, mut slot: Slot) -> Option<Slot> {
        loop {
            let (_, next) = {
                let mut waiting = self.lock();
                let Some(first) = waiting.in_order.pop_first() else { return Some(slot) };
                self.len.store(waiting.in_order.len(), SeqCst);
                first
            };
            match next.send(slot) {
                Ok(()) => return None,
                Err(back) => slot = back,
            }
        }
    }

    /// Sends everybody away, to look for a server again; returns how many.
    pub(crate) fn disband(&self) -> usize {
        let mut waiting = self.lock();
        let gone = std::mem::take(&mut waiting.in_order);
        self.len.store(0, SeqCst);
        drop(waiting);
        gone.len()
    }

    /// Who is next.
    pub(crate) fn first(&self) -> Option<Urgency> {
        if self.is_empty() {
            return None;
        }
        self.lock().in_order.first_key_value().map(|((urgency, _), _)| *urgency)
    }

    /// Number waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(SeqCst)
    }

    /// Nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most that waited at once.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// Starts the highest number anew (`clear counters`).
    pub fn clear_max(&self) {
        self.max.store(self.len(), Relaxed);
    }
}
