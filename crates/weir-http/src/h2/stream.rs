//! Streams: the state of one (RFC 9113 section 5.1), and where a connection keeps them.
//!
//! Streams stand in places that are used again; a small hash table leads from the number on the wire
//! to the place, and a [`StreamId`] carries both, so that commands find their stream directly.

use super::settings::MAX_STREAMS;

/// A stream of one connection: its number on the wire, and where its state is kept.
///
/// It stays safe to use after the stream is gone: commands then answer [`Gone`](super::Gone).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId {
    pub(super) number: u32,
    pub(super) place: u16,
}

impl StreamId {
    /// The stream identifier on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// A small number that no other open stream of the connection has: where a user may keep its own state.
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.place)
    }
}

/// The states of RFC 9113 section 5.1 that need memory.  Idle streams have none, and nothing is pushed.
///
/// ```text
///                idle
///                 |  HEADERS sent or received
///                 v
///    recv ES    Open    send ES
///      +---------+-----------+
///      v                     v
///  RemoteClosed         LocalClosed
///      | send ES             | recv ES
///      +------->  Closed  <--+        RST_STREAM either way: the stream is forgotten at once
/// ```
///
/// A closed stream keeps its place until its last received octets have been consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    #[default]
    Open,
    RemoteClosed,
    LocalClosed,
    Closed,
}

impl State {
    #[inline]
    pub(super) fn can_send(self) -> bool {
        matches!(self, Self::Open | Self::RemoteClosed)
    }

    #[inline]
    pub(super) fn can_receive(self) -> bool {
        matches!(self, Self::Open | Self::LocalClosed)
    }

    /// After END_STREAM from the peer.
    pub(super) fn end_received(self) -> Self {
        if self.can_send() { Self::RemoteClosed } else { Self::Closed }
    }

    /// After END_STREAM from here.
    pub(super) fn end_sent(self) -> Self {
        if self.can_receive() { Self::LocalClosed } else { Self::Closed }
    }
}

/// No Content-Length was announced.
pub(super) const UNKNOWN_LENGTH: u64 = u64::MAX;

/// A received body's buffer is given back above this many octets when its stream is gone.
const KEPT_BUFFER: usize = 16 * 1024;

/// One stream.
#[derive(Default)]
pub(super) struct Stream {
    /// Number on the wire; 0 for a free place.
    pub(super) number: u32,
    /// Octets the peer lets us send.
    pub(super) send_window: i32,
    /// Octets the peer may send.
    pub(super) receive_window: i32,
    /// Octets that were consumed and not yet given back to the peer.
    pub(super) unreturned: u32,
    /// Octets of the body that Content-Length still promises, or `UNKNOWN_LENGTH`.
    pub(super) length_left: u64,
    /// Body octets that were received; those before `read` are consumed.
    pub(super) received: Vec<u8>,
    pub(super) read: usize,
    next_free: u16,
    pub(super) state: State,
    /// The message's head has been received (client) or sent (server).
    pub(super) head_done: bool,
    /// The response has no body whatever its Content-Length says (client: HEAD).
    pub(super) head_request: bool,
    /// Began with an extended CONNECT (server): 101 is what HTTP/1 answers to that.
    pub(super) extended_connect: bool,
    /// Its request is in the queue of events, at the place of this number.
    pub(super) untold: bool,
    pub(super) told_at: u32,
    /// It is answered with an error of the client's, which makes up for nothing.
    pub(super) refused: bool,
    /// A `Data` event is in the queue.
    pub(super) data_event: bool,
    /// `send_data` took less than it was offered.
    pub(super) wants_write: bool,
    /// Stands in the connection's queue of blocked streams.
    pub(super) queued: bool,
}

impl Stream {
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.received[self.read..]
    }
}

/// The end of the list of free places, and an empty slot of the index.
const NONE: u16 = u16::MAX;

/// A connection's streams.
pub(super) struct Streams {
    places: Vec<Stream>,
    first_free: u16,
    open: u16,
    /// Places by stream number: open addressing, a power of two above twice the number of places.
    index: Vec<u16>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), first_free: NONE, open: 0, index: Vec::new() }
    }

    /// Streams that are in a place.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.open)
    }

    /// Scatters the numbers: consecutive ones would stand in one run, and a removal looks at all of it.
    #[inline]
    fn slot(&self, number: u32) -> usize {
        const GOLDEN_RATIO: u32 = 0x9e37_79b1;
        ((number >> 1).wrapping_mul(GOLDEN_RATIO) >> 16) as usize & (self.index.len() - 1)
    }

    #[inline]
    pub(super) fn find(&self, number: u32) -> Option<StreamId> {
        if self.index.is_empty() {
            return None;
        }
        let mut slot = self.slot(number);
        loop {
            let place = self.index[slot];
            if place == NONE {
                return None;
            }
            if self.places[usize::from(place)].number == number {
                return Some(StreamId { number, place });
            }
            slot = (slot + 1) & (self.index.len() - 1);
        }
    }

    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.places.get(usize::from(id.place)).filter(|stream| stream.number == id.number)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.places.get_mut(usize::from(id.place)).filter(|stream| stream.number == id.number)
    }

    /// Every stream.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| stream.number != 0)
    }

    /// The streams with numbers above `number`.
    pub(super) fn above(&self, number: u32) -> Vec<StreamId> {
        let mut above: Vec<_> = (0u16..)
            .zip(&self.places)
            .filter(|(_, stream)| stream.number > number)
            .map(|(place, stream)| StreamId { number: stream.number, place })
            .collect();
        above.sort_unstable_by_key(|id| id.number);
        above
    }

    /// Adds a stream in its first state; `None` when `MAX_STREAMS` are there.
    pub(super) fn open(&mut self, number: u32, send_window: i32, receive_window: i32) -> Option<StreamId> {
        debug_assert!(number != 0);
        let place = if self.first_free == NONE {
            if self.places.len() >= MAX_STREAMS as usize {
                return None;
            }
            self.places.push(Stream::default());
            if self.places.len() * 2 > self.index.len() {
                self.rebuild_index();
            }
            (self.places.len() - 1) as u16
        } else {
            let place = self.first_free;
            self.first_free = self.places[usize::from(place)].next_free;
            place
        };
        let stream = &mut self.places[usize::from(place)];
        stream.number = number;
        stream.send_window = send_window;
        stream.receive_window = receive_window;
        stream.unreturned = 0;
        stream.length_left = UNKNOWN_LENGTH;
        stream.state = State::Open;
        stream.head_done = false;
        stream.head_request = false;
        stream.extended_connect = false;
        stream.untold = false;
        stream.refused = false;
        stream.data_event = false;
        stream.wants_write = false;
        stream.queued = false;
        self.open += 1;
        self.enter(number, place);
        Some(StreamId { number, place })
    }

    fn enter(&mut self, number: u32, place: u16) {
        let mut slot = self.slot(number);
        while self.index[slot] != NONE {
            slot = (slot + 1) & (self.index.len() - 1);
        }
        self.index[slot] = place;
    }

    fn rebuild_index(&mut self) {
        const SMALLEST: usize = 8;
        let size = (self.places.len() * 4).next_power_of_two().max(SMALLEST);
        self.index.clear();
        self.index.resize(size, NONE);
        for place in 0..self.places.len() {
            let number = self.places[place].number;
            if number != 0 {
                self.enter(number, place as u16);
            }
        }
    }

    /// Frees a stream's place; its id is of no use from here on.
    pub(super) fn close(&mut self, id: StreamId) {
        let Some(stream) = self.get_mut(id) else { return };
        stream.number = 0;
        stream.read = 0;
        if stream.received.capacity() > KEPT_BUFFER {
            stream.received = Vec::new();
        } else {
            stream.received.clear();
        }
        self.leave(id);
        self.places[usize::from(id.place)].next_free = self.first_free;
        self.first_free = id.place;
        self.open -= 1;
    }

    /// Takes a place out of the index and moves those up that stood behind it only because of it.
    fn leave(&mut self, id: StreamId) {
        let mask = self.index.len() - 1;
        let mut hole = self.slot(id.number);
        while self.index[hole] != id.place {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.index[at];
            if place == NONE {
                break;
            }
            let home = self.slot(self.places[usize::from(place)].number);
            // It may move up when its home is not between the hole and where it stands.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = place;
                hole = at;
            }
        }
        self.index[hole] = NONE;
    }

    /// Gives back memory while no stream is there.
    pub(super) fn shrink(&mut self) {
        if self.open == 0 {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn places_are_found_like_in_a_map() {
        let mut streams = Streams::new();
        let mut twin = BTreeMap::new();
        let mut random = 1u32;
        for step in 0..20_000u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 8) % 400 * 2 + 1;
            match twin.remove(&number) {
                Some(id) => {
                    streams.close(id);
                    assert!(streams.get(id).is_none());
                }
                None => {
                    let id = streams.open(number, 0, 0).unwrap();
                    twin.insert(number, id);
                }
            }
            assert_eq!(streams.len(), twin.len());
            if step % 50 == 0 {
                for number in (1..800).step_by(2) {
                    assert_eq!(streams.find(number), twin.get(&number).copied());
                }
                let above: Vec<_> = streams.above(301).iter().map(|id| id.number).collect();
                assert_eq!(above, twin.range(302..).map(|(n, _)| *n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn streams_are_bounded() {
        let mut streams = Streams::new();
        for n in 0..MAX_STREAMS {
            assert!(streams.open(2 * n + 1, 0, 0).is_some());
        }
        assert!(streams.open(2 * MAX_STREAMS + 1, 0, 0).is_none());
    }
}
