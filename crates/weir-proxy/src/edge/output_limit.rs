//! How much of a body waits to be sent: large writes are cheap, but a peer that takes nothing holds what waits for it
//! for as long as it likes.

/// Room for what frames a chunk.
const CHUNK_OVERHEAD: usize = 32;

/// Grows while the peer takes all there is, up to four buffers; a peer that lets bytes wait gets one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutputLimit {
    doublings: u8,
}

impl OutputLimit {
    const MOST_DOUBLINGS: u8 = 2;

    fn bytes(self, buffer_size: usize) -> usize {
        buffer_size << self.doublings
    }

    /// Bytes of a body to take while `waiting` wait; none where so few would not be worth a chunk.
    pub(super) fn room(self, buffer_size: usize, waiting: usize) -> usize {
        let limit = self.bytes(buffer_size);
        let room = limit.saturating_sub(waiting + CHUNK_OVERHEAD);
        if room < limit / 4 { 0 } else { room }
    }

    /// The peer took all of so many bytes.
    pub(super) fn all_taken(&mut self, buffer_size: usize, length: usize) {
        if length >= self.bytes(buffer_size) / 2 {
            self.doublings = Self::MOST_DOUBLINGS.min(self.doublings + 1);
        }
    }

    /// The peer lets bytes wait.
    pub(super) fn blocked(&mut self) {
        self.doublings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_how_fast_the_peer_is() {
        const SIZE: usize = 16 * 1024;
        let mut limit = OutputLimit::default();
        let check = |limit: OutputLimit, waiting: usize, expected: usize| {
            assert_eq!(limit.room(SIZE, waiting), expected, "{limit:?} {waiting}");
        };
        check(limit, 0, SIZE - 32);
        check(limit, SIZE / 2, SIZE / 2 - 32);
        check(limit, SIZE - SIZE / 8, 0);
        check(limit, 2 * SIZE, 0);
        // Small answers say nothing.
        limit.all_taken(SIZE, 500);
        check(limit, 0, SIZE - 32);
        limit.all_taken(SIZE, SIZE / 2);
        check(limit, 0, 2 * SIZE - 32);
        for _ in 0..3 {
            limit.all_taken(SIZE, 4 * SIZE);
        }
        check(limit, SIZE, 3 * SIZE - 32);
        limit.blocked();
        check(limit, SIZE, 0);
        check(limit, 0, SIZE - 32);
        // However small a buffer is, an empty one takes something.
        assert!(OutputLimit::default().room(1024, 0) > 0);
    }
}
