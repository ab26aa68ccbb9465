//! Requests that wait for a free slot, first come first served.
//!
//! A slot that becomes free is handed to the first waiter directly, whichever thread it runs on, so that
//! no newcomer can take it in between.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::pick::Held;

/// The queue of a server (persistent requests) or of a backend (any server will do).
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<VecDeque<oneshot::Sender<Slot>>>,
    /// Number waiting, readable without the lock.
    len: AtomicUsize,
    max: AtomicUsize,
}

/// A slot on a server that was counted for its holder.
pub(crate) type Slot = Held;

impl Queue {
    /// Enters the queue; returns where the slot will arrive and how many were waiting before.
    pub(crate) fn enter(&self) -> (oneshot::Receiver<Slot>, usize) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who gave up are still in the list until their turn; count only the living.
        waiting.retain(|w| !w.is_closed());
        let before = waiting.len();
        waiting.push_back(sender);
        self.len.store(waiting.len(), Relaxed);
        self.max.fetch_max(waiting.len(), Relaxed);
        (receiver, before)
    }

    /// Gives a counted slot to the first who still waits; gives it back when nobody does.
    pub(crate) fn hand_over(&self, mut slot: Slot) -> Option<Slot> {
        if self.is_empty() {
            return Some(slot);
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(next) = waiting.pop_front() {
            self.len.store(waiting.len(), Relaxed);
            match next.send(slot) {
                Ok(()) => return None,
                Err(back) => slot = back,
            }
        }
        Some(slot)
    }

    /// Number waiting, those that just gave up included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
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
}
