//! Settings (RFC 9113 section 6.5): what this end is configured to, what the peer announced.

use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, MAX_MAX_FRAME_SIZE, MIN_MAX_FRAME_SIZE};
use super::hpack::MAX_TABLE_SIZE;

/// Every flow-control window before SETTINGS and WINDOW_UPDATE change it (RFC 9113 section 6.9.2).
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

/// The largest flow-control window.
pub(super) const MAX_WINDOW: u32 = (1 << 31) - 1;

/// SETTINGS_HEADER_TABLE_SIZE before SETTINGS change it.
pub(super) const DEFAULT_TABLE_SIZE: usize = 4096;

/// Streams a connection may ever have open at once: their places are numbered with 16 bits.
pub(super) const MAX_STREAMS: u32 = 16_384;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(super) const ENABLE_PUSH: u16 = 0x2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    /// RFC 8441 section 3
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
}

/// How a connection is configured; each has HAProxy's name where it has one.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Streams that may be open at once (tune.h2.max-concurrent-streams): announced by a server,
    /// kept to by a client together with the peer's limit.
    pub max_concurrent_streams: u32,
    /// Octets a peer may send on one stream before they are consumed (tune.h2.initial-window-size), at
    /// first: one on which more comes gets its part of `connection_window`.
    pub initial_window: u32,
    /// Octets a peer may send on all streams before they are consumed (tune.h2.fe.rxbuf).
    pub connection_window: u32,
    /// Payload of a frame that is accepted (tune.h2.max-frame-size).
    pub max_frame_size: u32,
    /// Octets of the peer's dynamic table (tune.h2.header-table-size).
    pub header_table_size: u32,
    /// Octets of a section that is accepted, as it would be sent over HTTP/1.
    pub max_header_list: u32,
    /// Lines of a section that are accepted (tune.http.maxhdr).
    pub max_fields: u16,
    /// Streams a client may open before it is asked to come back with a new connection
    /// (tune.h2.fe.max-total-streams); 0 for no limit.
    pub max_total_streams: u32,
    /// Glitches at which the connection is closed (tune.h2.fe.glitches-threshold); 0 for no limit.
    pub glitches_threshold: u32,
    /// Octets of queued output above which no more body data is taken.
    pub output_high_water: u32,
    /// Offer extended CONNECT to clients (RFC 8441).
    pub extended_connect: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 100,
            initial_window: 65_536,
            connection_window: 1_600 * 1024,
            max_frame_size: 16_384,
            header_table_size: 4096,
            max_header_list: 65_536,
            max_fields: 101,
            max_total_streams: 0,
            glitches_threshold: 0,
            output_high_water: 128 * 1024,
            extended_connect: true,
        }
    }
}

impl Settings {
    /// Brings values into the ranges of the protocol and of this implementation.
    pub(super) fn clamped(mut self) -> Self {
        // 0 asks for no limit.
        if !(1..=MAX_STREAMS).contains(&self.max_concurrent_streams) {
            self.max_concurrent_streams = MAX_STREAMS;
        }
        self.initial_window = self.initial_window.min(MAX_WINDOW);
        self.connection_window = self.connection_window.clamp(DEFAULT_WINDOW, MAX_WINDOW);
        self.max_frame_size = self.max_frame_size.clamp(MIN_MAX_FRAME_SIZE as u32, MAX_MAX_FRAME_SIZE as u32);
        self.header_table_size = self.header_table_size.min(MAX_TABLE_SIZE as u32);
        self
    }

    /// Writes the SETTINGS frame of the connection preface: what differs from the protocol's defaults.
    pub(super) fn write(&self, out: &mut Vec<u8>, server: bool) {
        let mut payload = Vec::with_capacity(36);
        let mut put = |id: u16, value: u32| {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        if self.header_table_size as usize != DEFAULT_TABLE_SIZE {
            put(id::HEADER_TABLE_SIZE, self.header_table_size);
        }
        if server {
            put(id::MAX_CONCURRENT_STREAMS, self.max_concurrent_streams);
        } else {
            put(id::ENABLE_PUSH, 0);
        }
        if self.initial_window != DEFAULT_WINDOW {
            put(id::INITIAL_WINDOW_SIZE, self.initial_window);
        }
        if self.max_frame_size as usize != MIN_MAX_FRAME_SIZE {
            put(id::MAX_FRAME_SIZE, self.max_frame_size);
        }
        put(id::MAX_HEADER_LIST_SIZE, self.max_header_list);
        if server && self.extended_connect {
            put(id::ENABLE_CONNECT_PROTOCOL, 1);
        }
        frame::write_settings(out, &payload);
    }
}

/// What the peer announced.
#[derive(Clone, Copy, Debug)]
pub struct PeerSettings {
    /// SETTINGS_HEADER_TABLE_SIZE
    pub header_table_size: u32,
    /// SETTINGS_MAX_CONCURRENT_STREAMS
    pub max_concurrent_streams: u32,
    /// SETTINGS_INITIAL_WINDOW_SIZE
    pub initial_window: u32,
    /// SETTINGS_MAX_FRAME_SIZE
    pub max_frame_size: u32,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL
    pub extended_connect: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: DEFAULT_TABLE_SIZE as u32,
            max_concurrent_streams: u32::MAX,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: MIN_MAX_FRAME_SIZE as u32,
            extended_connect: false,
        }
    }
}

impl PeerSettings {
    /// Applies one parameter (RFC 9113 section 6.5.2); unknown ones are ignored.
    pub(super) fn apply(&mut self, id: u16, value: u32, from_server: bool) -> Result<(), ConnectionError> {
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_size = value,
            // Only a client may enable push, and this proxy never pushes.
            id::ENABLE_PUSH if value > 1 || (from_server && value == 1) => {
                return Err(ConnectionError::protocol("invalid SETTINGS_ENABLE_PUSH"));
            }
            id::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            id::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE too large";
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, reason));
            }
            id::INITIAL_WINDOW_SIZE => self.initial_window = value,
            id::MAX_FRAME_SIZE if !(MIN_MAX_FRAME_SIZE..=MAX_MAX_FRAME_SIZE).contains(&(value as usize)) => {
                return Err(ConnectionError::protocol("SETTINGS_MAX_FRAME_SIZE out of range"));
            }
            id::MAX_FRAME_SIZE => self.max_frame_size = value,
            // RFC 8441 section 3: 0 or 1, and never back to 0.
            id::ENABLE_CONNECT_PROTOCOL if value > 1 || (value == 0 && self.extended_connect) => {
                return Err(ConnectionError::protocol("invalid SETTINGS_ENABLE_CONNECT_PROTOCOL"));
            }
            id::ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
            _ => {}
        }
        Ok(())
    }
}
