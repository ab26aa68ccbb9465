//! Data that a client sends before its handshake is complete (RFC 8446 section 2.3).
//!
//! Owns that data until somebody reads it, and the word on whether the handshake was completed since: until then the
//! data may be somebody else's copy of it.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

const PENDING: u8 = 0;
const COMPLETE: u8 = 1;
const FAILED: u8 = 2;

/// What is known of a handshake that early data came with; shared with whoever waits for its end.
#[derive(Debug, Default)]
pub struct EarlyHandshake {
    state: AtomicU8,
    /// Tasks to wake at its end: at most one for each request of the connection.
    waiting: Mutex<Vec<Waker>>,
}

impl EarlyHandshake {
    /// Whether the client has not proved yet that it is there.
    pub fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) != COMPLETE
    }

    /// Ready at the end of the handshake: true when it is complete, false when it failed.
    pub fn poll_complete(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match self.state.load(Ordering::Acquire) {
            PENDING => {
                if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
            state => Poll::Ready(state == COMPLETE),
        }
    }

    fn end(&self, state: u8) {
        let waiting = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            self.state.store(state, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The data of one connection. Dropping it before the handshake is complete is a failure of the handshake.
pub(crate) struct EarlyData {
    data: Vec<u8>,
    /// What of it was not read yet.
    unread: Range<usize>,
    handshake: Arc<EarlyHandshake>,
}

impl EarlyData {
    pub(crate) fn new() -> Self {
        Self { data: Vec::new(), unread: 0..0, handshake: Arc::default() }
    }

    pub(crate) fn handshake(&self) -> &Arc<EarlyHandshake> {
        &self.handshake
    }

    /// More arrived; how much may is the library's to say (`max_early_data_size`).
    pub(crate) fn arrived(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.unread.end = self.data.len();
    }

    pub(crate) fn waits(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Moves at most `max` bytes to the end of `buf`.
    pub(crate) fn take(&mut self, buf: &mut Vec<u8>, max: usize) -> usize {
        let count = self.unread.len().min(max);
        let taken = self.unread.start..self.unread.start + count;
        buf.extend_from_slice(self.data.get(taken).unwrap_or_default());
        self.unread.start += count;
        if self.unread.is_empty() {
            (self.data, self.unread) = (Vec::new(), 0..0);
        }
        count
    }

    pub(crate) fn complete(&self) {
        self.handshake.end(COMPLETE);
    }
}

impl Drop for EarlyData {
    fn drop(&mut self) {
        if self.handshake.is_pending() {
            self.handshake.end(FAILED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_read_in_order() {
        let mut early = EarlyData::new();
        let mut read = Vec::new();
        assert_eq!(early.take(&mut read, 10), 0);
        early.arrived(b"abc");
        assert_eq!(early.take(&mut read, 2), 2);
        early.arrived(b"de");
        assert!(early.waits());
        assert_eq!((early.take(&mut read, 10), &read[..]), (3, &b"abcde"[..]));
        assert!(!early.waits());
    }

    #[test]
    fn those_who_wait_are_told_the_end() {
        let check = |complete: bool| {
            let early = EarlyData::new();
            let handshake = Arc::clone(early.handshake());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(handshake.is_pending() && handshake.poll_complete(&mut cx).is_pending());
            if complete {
                early.complete();
            }
            drop(early);
            assert_eq!(handshake.is_pending(), !complete, "what failed never becomes safe");
            assert_eq!(handshake.poll_complete(&mut cx), Poll::Ready(complete));
        };
        check(true);
        check(false);
    }
}
