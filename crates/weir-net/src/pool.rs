//! Buffers of the thread: taken while bytes flow, given back when none do.
//!
//! Owns a byte queue in one piece of memory and the thread's stock of such pieces. An empty queue holds no
//! memory, which is what makes an idle TLS connection small.

use std::cell::RefCell;

/// One TLS record with its header and expansion (RFC 8446 section 5.2), rounded up.
pub(crate) const SMALL_BYTES: usize = 16_896;

/// Two records: what is gathered into one write.
pub(crate) const LARGE_BYTES: usize = 2 * SMALL_BYTES;

/// Pieces of each size that a thread keeps for the next user.
const MAX_KEPT: usize = 64;

thread_local! {
    static STOCK: RefCell<Stock> = const { RefCell::new(Stock { small: Vec::new(), large: Vec::new() }) };
}

struct Stock {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

/// Pieces of each size that this thread keeps, and what they take in bytes.
pub fn kept_pieces() -> [(usize, usize); 2] {
    STOCK.with_borrow(|stock| {
        [
            (stock.small.len(), stock.small.len() * SMALL_BYTES),
            (stock.large.len(), stock.large.len() * LARGE_BYTES),
        ]
    })
}

/// A queue of bytes: put in at the end, taken from the front.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The room behind the data.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Makes the first `count` bytes of the spare room data.
    pub(crate) fn commit(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Takes `count` bytes away from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Makes spare room for at least `count` bytes, by moving the data to the front or to a larger piece.
    pub(crate) fn reserve(&mut self, count: usize) {
        if self.bytes.len() - self.end >= count {
            return;
        }
        let needed = self.len() + count;
        if needed <= self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            let mut larger = take(needed);
            if let Some(front) = larger.get_mut(..self.len()) {
                front.copy_from_slice(self.data());
            }
            give_back(std::mem::replace(&mut self.bytes, larger));
        }
        self.end -= self.start;
        self.start = 0;
    }

    /// Gives the memory back if nothing is in it.
    pub(crate) fn release_if_empty(&mut self) {
        if self.is_empty() && !self.bytes.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
        }
    }

    /// Gives back all memory that the data does not need.
    pub(crate) fn shrink(&mut self) {
        if self.len() < self.bytes.len() {
            let exact: Box<[u8]> = self.data().into();
            self.end -= self.start;
            self.start = 0;
            give_back(std::mem::replace(&mut self.bytes, exact));
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
        }
    }
}

fn take(bytes: usize) -> Box<[u8]> {
    let (size, kept) = if bytes <= SMALL_BYTES {
        (SMALL_BYTES, STOCK.try_with(|stock| stock.borrow_mut().small.pop()))
    } else if bytes <= LARGE_BYTES {
        (LARGE_BYTES, STOCK.try_with(|stock| stock.borrow_mut().large.pop()))
    } else {
        (bytes, Ok(None))
    };
    kept.ok().flatten().unwrap_or_else(|| vec![0; size].into_boxed_slice())
}

fn give_back(bytes: Box<[u8]>) {
    // At the thread's end the stock may be gone: then the piece is simply freed.
    STOCK
        .try_with(|stock| {
            let mut stock = stock.borrow_mut();
            let kept = match bytes.len() {
                SMALL_BYTES => &mut stock.small,
                LARGE_BYTES => &mut stock.large,
                _ => return,
            };
            if kept.len() < MAX_KEPT {
                kept.push(bytes);
            }
        })
        .ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(buffer: &mut Buffer, data: &[u8]) {
        buffer.reserve(data.len());
        buffer.spare()[..data.len()].copy_from_slice(data);
        buffer.commit(data.len());
    }

    #[test]
    fn a_queue_keeps_its_bytes_through_every_size() {
        let check = |sizes: &[usize], consume: usize| {
            let mut buffer = Buffer::default();
            let mut expected = Vec::new();
            for (number, size) in sizes.iter().enumerate() {
                let data: Vec<u8> = (0..*size).map(|at| (at + number) as u8).collect();
                put(&mut buffer, &data);
                expected.extend_from_slice(&data);
                let gone = consume.min(expected.len());
                buffer.consume(gone);
                expected.drain(..gone);
                assert_eq!(buffer.data(), expected);
                buffer.shrink();
                assert_eq!(buffer.data(), expected);
            }
        };
        check(&[0, 1, 2], 0);
        check(&[SMALL_BYTES, 1, 10], 5);
        check(&[SMALL_BYTES, SMALL_BYTES, 10], 5);
        check(&[100_000, 100_000], 150_000);
        check(&[1000, 16_000, 16_000, 16_000], 15_000);
    }

    #[test]
    fn an_empty_queue_holds_nothing() {
        let mut buffer = Buffer::default();
        put(&mut buffer, b"abc");
        buffer.release_if_empty();
        assert_eq!(buffer.bytes.len(), SMALL_BYTES);
        buffer.consume(3);
        buffer.release_if_empty();
        assert_eq!(buffer.bytes.len(), 0);
    }

    /// Puts pieces in, takes some bytes from the front after each, and returns all that came out.
    fn through(buffer: &mut Buffer, steps: &[(Vec<u8>, usize)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (piece, taken) in steps {
            put(buffer, piece);
            let taken = (*taken).min(buffer.len());
            out.extend_from_slice(&buffer.data()[..taken]);
            buffer.consume(taken);
            buffer.release_if_empty();
        }
        out.extend_from_slice(buffer.data());
        out
    }

    fn steps() -> impl Strategy<Value = Vec<(Vec<u8>, usize)>> {
        let piece = (0..40_000_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
        prop::collection::vec((piece, 0..50_000_usize), 0..5)
    }

    proptest! {
        #[test]
        fn a_queue_in_the_memory_of_another_has_only_its_own_bytes(before in steps(), after in steps()) {
            through(&mut Buffer::default(), &before);
            let expected: Vec<u8> = after.iter().flat_map(|(piece, _)| piece.clone()).collect();
            prop_assert!(through(&mut Buffer::default(), &after) == expected);
        }
    }
}
