//! A byte queue: bytes enter at the end and leave at the front.
//!
//! Owns the position of the first unread byte, so that taking bytes never moves the rest.

/// Received or to-be-sent bytes of one connection; holds no memory while it is empty and released.
#[derive(Default, Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// The bytes not taken yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Number of bytes not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// No bytes wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Takes `n` bytes from the front.
    pub(crate) fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Where new bytes go; unread ones are moved to the front when the tail gets short.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.start > 0 && self.bytes.capacity() - self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Makes sure that memory for `n` bytes is there, taking it from `pool`.
    pub(crate) fn claim(&mut self, pool: &mut BufferPool) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.take();
        }
    }

    /// Gives the memory back when no bytes wait.
    pub(crate) fn release(&mut self, pool: &mut BufferPool) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.start = 0;
            pool.give(std::mem::take(&mut self.bytes));
        }
    }
}

/// Free buffers of one thread.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Vec<Vec<u8>>,
    size: usize,
}

impl BufferPool {
    /// Buffers kept for the next use; more are freed.
    const MOST_KEPT: usize = 64;

    /// A pool of buffers of `size` bytes (`tune.bufsize`).
    pub(crate) fn new(size: usize) -> Self {
        Self { free: Vec::new(), size }
    }

    /// An empty buffer of the pool's size.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| Vec::with_capacity(self.size))
    }

    /// Takes a buffer back; one that grew is not kept.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if self.free.len() < Self::MOST_KEPT && buffer.capacity() <= 4 * self.size && buffer.capacity() > 0 {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// Buffers that wait for a user, and what they take in bytes.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.free.len(), self.free.iter().map(Vec::capacity).sum())
    }

    /// Size of its buffers.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_leave_in_order_and_memory_goes_back() {
        let mut pool = BufferPool::new(64);
        let mut buffer = Buffer::default();
        buffer.claim(&mut pool);
        buffer.tail().extend_from_slice(b"hello world");
        buffer.consume(6);
        assert_eq!(buffer.unread(), b"world");
        buffer.tail().extend_from_slice(b"!");
        buffer.consume(6);
        assert!(buffer.is_empty());
        buffer.release(&mut pool);
        assert_eq!(pool.free.len(), 1);
    }

    /// Receives pieces and takes some bytes from the front after each; returns all that came out.
    fn through(pool: &mut BufferPool, steps: &[(Vec<u8>, usize)]) -> Vec<u8> {
        let (mut buffer, mut out) = (Buffer::default(), Vec::new());
        for (piece, taken) in steps {
            buffer.claim(pool);
            buffer.tail().extend_from_slice(piece);
            let taken = (*taken).min(buffer.len());
            out.extend_from_slice(&buffer.unread()[..taken]);
            buffer.consume(taken);
            buffer.release(pool);
        }
        out.extend_from_slice(buffer.unread());
        buffer.consume(buffer.len());
        buffer.release(pool);
        out
    }

    fn steps() -> impl Strategy<Value = Vec<(Vec<u8>, usize)>> {
        let piece = (0..300_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
        prop::collection::vec((piece, 0..400_usize), 0..6)
    }

    proptest! {
        #[test]
        fn a_buffer_that_others_had_holds_only_its_own_bytes(before in steps(), after in steps()) {
            let mut pool = BufferPool::new(64);
            through(&mut pool, &before);
            let expected: Vec<u8> = after.iter().flat_map(|(piece, _)| piece.clone()).collect();
            prop_assert_eq!(through(&mut pool, &after), expected);
        }
    }
}
