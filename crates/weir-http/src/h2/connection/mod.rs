//! One connection: what it remembers, what its user may ask, and what it tells.
//!
//! `receive` handles the peer's frames, `send` the user's commands.

mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FrameHeader, PREFACE};
use super::hpack::{Decoder, Encoder};
use super::repeat::Repeat;
use super::settings::{DEFAULT_TABLE_SIZE, DEFAULT_WINDOW, MAX_WINDOW, PeerSettings, Settings};
use super::stream::{State, StreamId, Streams};
use crate::{Fields, Request, Response};

/// What happened on a connection.
#[derive(Debug)]
pub enum Event {
    /// A client asks (server).  `end` says that no body follows.
    Request {
        /// Where to answer.
        stream: StreamId,
        /// The head; give it back with [`Connection::recycle_request`].
        request: Request,
        /// No body follows.
        end: bool,
    },
    /// A request that can only be refused: answer with `status`, which is 400 or 431, and
    /// [`release`](Connection::release) the stream (server).  431 is the connection's last answer.
    Invalid {
        /// Where to answer.
        stream: StreamId,
        /// As much of the head as was understood.
        request: Request,
        /// What to answer.
        status: u16,
    },
    /// The final response's head (client).
    Response {
        /// Which request it answers.
        stream: StreamId,
        /// The head; give it back with [`Connection::recycle_response`].
        response: Response,
        /// No body follows.
        end: bool,
    },
    /// An interim response, 1xx (client).
    Informational {
        /// Which request it belongs to.
        stream: StreamId,
        /// The head.
        response: Response,
    },
    /// There is something new in [`Connection::received`].
    Data {
        /// On which stream.
        stream: StreamId,
    },
    /// The message's trailers; `End` follows.
    Trailers {
        /// On which stream.
        stream: StreamId,
        /// The trailer section.
        fields: Fields,
    },
    /// The peer has sent all of the message.  Octets that are not consumed yet stay readable.
    End {
        /// On which stream.
        stream: StreamId,
    },
    /// The stream is gone before its end, and so is what was not consumed.  A request that was reset before it was
    /// told is never told, and nor is its reset.
    Reset {
        /// Which stream.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
        /// The peer reset it; otherwise the peer broke it, and it was reset from here.
        by_peer: bool,
    },
    /// A stream of which [`Connection::send_data`] took less than offered takes more now.
    Writable {
        /// Which stream.
        stream: StreamId,
    },
    /// The peer wants no more streams.  Requests above `last` were reset before this: send them elsewhere.
    GoAway {
        /// The highest stream that the peer may have acted on.
        last: u32,
        /// Why.
        code: ErrorCode,
    },
}

/// Which end this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Server,
    Client,
}

/// What the next octets of the peer are.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// The client's preface (server).
    Preface,
    /// SETTINGS, as the first frame has to be (RFC 9113 section 3.4).
    Settings,
    /// The header of any frame.
    Frame,
    /// CONTINUATION of this block and no other frame (RFC 9113 section 6.10).
    Continuation { header: FrameHeader, frames: u32 },
    /// The rest of a DATA frame: payload, then padding.
    Data { stream: Option<StreamId>, left: usize, padding: usize, end: bool },
    /// Nothing any more.
    Nothing(ConnectionError),
}

/// Streams that were reset from here and of which the peer may still send frames.
const REMEMBERED_RESETS: usize = 16;

/// Octets of control frames that may be queued above the high-water mark before reading stops: a peer
/// that does not read our answers is not read either.
const CONTROL_OUTPUT: usize = 64 * 1024;

/// Empty messages that are kept for the next ones.
const POOLED_FIELDS: usize = 128;

/// Octets of memory of a message that is kept for the next one: what usual heads need.  Without this a client could
/// leave a hundred large ones behind on each connection.
const POOLED_FIELDS_OCTETS: usize = 4096;

/// Octets of memory that are kept for the next request's cookies.
const KEPT_CRUMBS: usize = 4096;

/// Output buffers are given back above this size when they are empty.
const KEPT_OUTPUT: usize = 256 * 1024;

/// How the connection is being closed from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Closing {
    No,
    /// Announced; streams that are on their way are still accepted (RFC 9113 section 6.8).
    Announced,
    /// Streams above the last one are refused.
    Final,
}

/// The DATA frame that was written last: a message whose end becomes known behind its last octet is ended by that
/// frame instead of an empty one, while it stands at the end of the output.
#[derive(Clone, Copy, Default)]
struct LastData {
    stream: u32,
    /// Where it stands in the output.
    start: usize,
    end: usize,
}

/// An HTTP/2 connection, either end of it.
pub struct Connection {
    role: Role,
    closing: Closing,
    /// The last stream of the last GOAWAY.
    goaway_last: u32,
    settings: Settings,
    peer: PeerSettings,
    peer_settings_received: bool,
    settings_acknowledged: bool,
    peer_going_away: bool,
    /// A PING of [`Self::send_ping`] was answered.
    ping_answered: bool,
    expect: Expect,
    decoder: Decoder,
    encoder: Encoder,
    /// The block of a HEADERS frame that CONTINUATION frames go on with.  While a block is read it is empty, and a
    /// request's cookie lines are joined in it.
    block: Vec<u8>,
    repeat: Repeat,
    streams: Streams,
    /// The highest stream that the peer has opened (server) or that was opened here (client).
    last_stream: u32,
    /// Streams between these, exclusively, were skipped by the peer and cannot be opened any more.
    skipped: (u32, u32),
    resets: [u32; REMEMBERED_RESETS],
    next_reset: u8,
    /// The highest stream of which `resets` has forgotten that it was reset.
    forgotten_reset: u32,
    total_streams: u32,
    send_window: i64,
    receive_window: i64,
    unreturned: u32,
    output: Vec<u8>,
    written: usize,
    last_data: LastData,
    /// What was not told yet; `None` for a request that was reset meanwhile.
    events: VecDeque<Option<Event>>,
    /// Places of `events` that were told, wrapping.
    told: u32,
    /// Streams that wait for the connection's window or for output to leave.
    blocked: VecDeque<StreamId>,
    pool: Vec<Fields>,
    /// Octets of memory that requests may have which are not told yet (server).
    head_allowance: usize,
    /// Protocols asked for with extended CONNECT and not answered yet (client).
    upgrades: Vec<(u32, Box<[u8]>)>,
    glitches: u32,
    control_debt: u32,
    reset_debt: u32,
}

impl Connection {
    /// The server's end; SETTINGS are in the output at once.
    #[must_use]
    pub fn server(settings: Settings) -> Self {
        Self::new(Role::Server, settings)
    }

    /// The client's end; preface and SETTINGS are in the output at once.
    #[must_use]
    pub fn client(settings: Settings) -> Self {
        Self::new(Role::Client, settings)
    }

    fn new(role: Role, settings: Settings) -> Self {
        let settings = settings.clamped();
        let mut output = Vec::new();
        if role == Role::Client {
            output.extend_from_slice(PREFACE);
        }
        settings.write(&mut output, role == Role::Server);
        Self {
            role,
            closing: Closing::No,
            goaway_last: MAX_WINDOW,
            settings,
            peer: PeerSettings::default(),
            peer_settings_received: false,
            settings_acknowledged: false,
            peer_going_away: false,
            ping_answered: false,
            expect: if role == Role::Server { Expect::Preface } else { Expect::Settings },
            decoder: Decoder::new(DEFAULT_TABLE_SIZE.max(settings.header_table_size as usize)),
            encoder: Encoder::new(),
            block: Vec::new(),
            repeat: Repeat::default(),
            streams: Streams::new(),
            last_stream: 0,
            skipped: (0, 0),
            resets: [0; REMEMBERED_RESETS],
            next_reset: 0,
            forgotten_reset: 0,
            total_streams: 0,
            send_window: i64::from(DEFAULT_WINDOW),
            receive_window: i64::from(DEFAULT_WINDOW),
            // The window is opened with the first DATA: most connections never see any.
            unreturned: settings.connection_window - DEFAULT_WINDOW,
            output,
            written: 0,
            last_data: LastData::default(),
            events: VecDeque::new(),
            told: 0,
            blocked: VecDeque::new(),
            pool: Vec::new(),
            head_allowance: usize::MAX,
            upgrades: Vec::new(),
            glitches: 0,
            control_debt: 0,
            reset_debt: 0,
        }
    }

    /// Changes roles with the peer (reverse HTTP): who was asked asks from now on, and the other way round.
    ///
    /// Both ends do so after the exchange of SETTINGS and before the first request; false when this end cannot.
    pub fn reverse(&mut self) -> bool {
        if !self.is_established() || self.is_closing() || self.last_stream != 0 {
            return false;
        }
        self.role = match self.role {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        };
        true
    }

    /// The next thing that happened.  Call it until it has nothing, after every [`receive`](Self::receive)
    /// and [`advance_output`](Self::advance_output).
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            self.told = self.told.wrapping_add(1);
            if let Some(event) = event {
                self.note_told(&event);
                return Some(event);
            }
        }
        self.next_writable()
    }

    #[inline]
    fn note_told(&mut self, event: &Event) {
        match event {
            Event::Data { stream } => {
                if let Some(stream) = self.streams.get_mut(*stream) {
                    stream.data_event = false;
                }
            }
            Event::Request { stream, .. } | Event::Invalid { stream, .. } => {
                if let Some(stream) = self.streams.get_mut(*stream) {
                    stream.untold = false;
                }
            }
            _ => {}
        }
    }

    /// One blocked stream at a time, in turn, as long as there is something to take.
    fn next_writable(&mut self) -> Option<Event> {
        while !self.blocked.is_empty() {
            let low_water = self.settings.output_high_water as usize / 2;
            if self.send_window <= 0 || self.output().len() > low_water {
                return None;
            }
            let stream = self.blocked.pop_front()?;
            if let Some(state) = self.streams.get_mut(stream) {
                state.queued = false;
                if state.send_window > 0 && state.state.can_send() {
                    state.wants_write = false;
                    return Some(Event::Writable { stream });
                }
            }
        }
        None
    }

    /// What is to be sent to the peer.
    #[must_use]
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// The first `n` octets of the output have been sent.  Streams may become writable by this.
    pub fn advance_output(&mut self, n: usize) {
        self.written = (self.written + n).min(self.output.len());
        if self.written == self.output.len() {
            self.written = 0;
            self.output.clear();
            self.output.shrink_to(KEPT_OUTPUT);
            self.last_data = LastData::default();
        } else if self.written > self.output.len() / 2 && self.written > KEPT_OUTPUT {
            self.output.drain(..self.written);
            self.written = 0;
            self.last_data = LastData::default();
        }
    }

    /// Reading makes sense: the connection has not failed, and the peer takes our output.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        !matches!(self.expect, Expect::Nothing(_))
            && self.output().len() < self.settings.output_high_water as usize + CONTROL_OUTPUT
    }

    /// Body octets of a stream that wait to be consumed.
    #[must_use]
    pub fn received(&self, stream: StreamId) -> &[u8] {
        self.streams.get(stream).map_or(&[], |stream| stream.unread())
    }

    /// The first `n` octets of [`received`](Self::received) have been dealt with.
    pub fn consume(&mut self, stream: StreamId, n: usize) {
        let due_from = self.settings.initial_window / 2;
        let wide_window = self.wide_stream_window();
        let Some(state) = self.streams.get_mut(stream) else { return };
        let n = n.min(state.unread().len());
        state.read += n;
        let drained = state.read == state.received.len();
        if drained {
            state.read = 0;
            state.received.clear();
        }
        state.unreturned += n as u32;
        let increment = if !state.state.can_receive() {
            // A stream that has ended gets its window back once, as HAProxy does: a peer may wait for it.
            if drained && state.state.can_send() { state.unreturned } else { 0 }
        } else if state.unreturned > due_from {
            let granted = i64::from(state.receive_window) + state.unread().len() as i64;
            state.unreturned.max((wide_window - granted).max(0) as u32)
        } else {
            0
        };
        if increment > 0 {
            frame::write_window_update(&mut self.output, stream.number, increment);
            state.receive_window += increment as i32;
            state.unreturned = 0;
        }
        let finished = drained && state.state == State::Closed;
        self.count_consumed(n as u32);
        if finished {
            self.streams.close(stream);
        }
    }

    /// The window of a stream on which much is received: its part of the connection's, most of which is
    /// shared by the streams that are there.
    fn wide_stream_window(&self) -> i64 {
        let shared = i64::from(self.settings.connection_window) / 8 * 7;
        shared / self.streams.len().max(1) as i64
    }

    /// Body octets arrived.  A server's give their part of the connection's window back at once: on a connection to a server
    /// are requests of many clients, and one that stops reading must not stop the others.  What is held is bounded by
    /// the windows of the streams.
    fn count_arrived(&mut self, octets: u32) {
        if self.role == Role::Client {
            self.return_to_connection(octets);
        }
    }

    /// Body octets have been dealt with.  A client's give their part of the connection's window back only now: all that
    /// one connection makes us hold is bounded by it.
    fn count_consumed(&mut self, octets: u32) {
        if self.role == Role::Server {
            self.return_to_connection(octets);
        }
    }

    fn return_to_connection(&mut self, octets: u32) {
        self.unreturned = self.unreturned.saturating_add(octets);
        self.return_connection_window();
    }

    fn return_connection_window(&mut self) {
        if self.unreturned > self.settings.connection_window / 2 && self.unreturned > 0 {
            self.open_connection_window();
        }
    }

    fn open_connection_window(&mut self) {
        let room = i64::from(MAX_WINDOW) - self.receive_window;
        let increment = i64::from(self.unreturned).min(room);
        if increment > 0 {
            frame::write_window_update(&mut self.output, 0, increment as u32);
            self.receive_window += increment;
        }
        self.unreturned = 0;
    }

    /// A request's memory for the next one.
    #[inline]
    pub fn recycle_request(&mut self, request: Request) {
        self.recycle_fields(request.fields);
    }

    /// A response's memory for the next one.
    #[inline]
    pub fn recycle_response(&mut self, response: Response) {
        self.recycle_fields(response.fields);
    }

    /// A section's memory for the next one.
    #[inline]
    pub fn recycle_fields(&mut self, mut fields: Fields) {
        if self.pool.len() < POOLED_FIELDS && fields.memory_bytes() <= POOLED_FIELDS_OCTETS {
            fields.clear();
            self.pool.push(fields);
        }
    }

    #[inline]
    fn empty_fields(&mut self) -> Fields {
        self.pool.pop().unwrap_or_default()
    }

    /// Octets of memory that the heads of requests may have which come before this is called again; requests beyond are
    /// refused, safely to be sent again (server).
    pub fn allow_heads(&mut self, octets: usize) {
        self.head_allowance = octets;
    }

    /// Streams that the peer may have open at once (server).
    #[must_use]
    pub fn max_concurrent_streams(&self) -> usize {
        self.settings.max_concurrent_streams as usize
    }

    /// Octets of output above half of the mark wait: whoever has more had better wait, too.
    #[must_use]
    pub fn is_output_high(&self) -> bool {
        self.output().len() > self.settings.output_high_water as usize / 2
    }

    /// Streams that are not finished.
    #[must_use]
    pub fn active_streams(&self) -> usize {
        self.streams.len()
    }

    /// No stream is active and nothing waits to be sent or told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.len() == 0 && self.output().is_empty() && self.events.is_empty()
    }

    /// No new streams: either end is closing.  See [`is_finished`](Self::is_finished) for the end.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing != Closing::No || self.peer_going_away || matches!(self.expect, Expect::Nothing(_))
    }

    /// Nothing more will happen: close.  An announced closing waits for the peer to have seen it.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let ended = self.closing == Closing::Final || self.peer_going_away || self.error().is_some();
        ended && self.is_idle() || self.error().is_some() && self.output().is_empty()
    }

    /// Why the connection failed, if it did.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        match self.expect {
            Expect::Nothing(error) => Some(error),
            _ => None,
        }
    }

    /// How many more requests may be sent now (client).
    #[must_use]
    pub fn can_open(&self) -> usize {
        if self.role == Role::Server || self.is_closing() || self.last_stream >= MAX_WINDOW - 2 {
            return 0;
        }
        let limit = self.settings.max_concurrent_streams.min(self.peer.max_concurrent_streams) as usize;
        limit.saturating_sub(self.streams.len())
    }

    /// Requests received (server) or sent (client) since the beginning.
    #[must_use]
    pub fn total_streams(&self) -> u32 {
        self.total_streams
    }

    /// The peer's SETTINGS have come.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.peer_settings_received
    }

    /// Oddities of the peer so far: allowed or harmless each, telling in numbers (fc_glitches, bc_glitches).
    #[must_use]
    pub fn glitches(&self) -> u32 {
        self.glitches
    }

    /// Gives back memory that an idle connection does not need.
    pub fn release_buffers(&mut self) {
        self.pool = Vec::new();
        self.repeat.shrink();
        self.block.shrink_to_fit();
        if self.output().is_empty() {
            self.output = Vec::new();
            self.written = 0;
        }
        self.events.shrink_to_fit();
        self.blocked.shrink_to_fit();
        self.upgrades.shrink_to_fit();
        self.streams.shrink();
        self.decoder.shrink();
        self.encoder.shrink();
    }

    /// Notes that a stream was reset from here, so that what the peer still sends on it is ignored.
    fn remember_reset(&mut self, number: u32) {
        let slot = &mut self.resets[usize::from(self.next_reset)];
        self.forgotten_reset = self.forgotten_reset.max(*slot);
        *slot = number;
        self.next_reset = (self.next_reset + 1) % REMEMBERED_RESETS as u8;
    }

    /// The stream was, or may have been, reset from here.
    fn was_reset(&self, number: u32) -> bool {
        number <= self.forgotten_reset || self.resets.contains(&number)
    }

    /// Frees a stream, and gives its unread octets back to the connection's window.
    fn forget(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.get(stream) {
            let unread = state.unread().len() as u32;
            self.streams.close(stream);
            if unread > 0 {
                self.count_consumed(unread);
            }
        }
    }
}
