//! Frames (RFC 9113 sections 4.1 and 6): the header that all have, types, flags, and writing the small ones.

use super::error::ErrorCode;

/// Octets of a frame header.
pub(super) const HEADER_LEN: usize = 9;

/// Place of the flags in it.
pub(super) const FLAGS_AT: usize = 4;

/// The client's connection preface (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the first octets of a connection are: where nothing else says which protocol the client speaks, they tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// They begin with the whole [`PREFACE`].
    Preface,
    /// They may become it; nothing at all may, too.
    PrefaceSoFar,
    /// Not HTTP/2.
    Other,
}

impl Opening {
    /// What these octets are, the first that were received.
    #[must_use]
    pub fn of(input: &[u8]) -> Self {
        if input.starts_with(PREFACE) {
            Self::Preface
        } else if PREFACE.starts_with(input) {
            Self::PrefaceSoFar
        } else {
            Self::Other
        }
    }
}

/// The smallest allowed SETTINGS_MAX_FRAME_SIZE, and its value before the peer's SETTINGS.
pub(super) const MIN_MAX_FRAME_SIZE: usize = 16_384;

/// The largest allowed SETTINGS_MAX_FRAME_SIZE.
pub(super) const MAX_MAX_FRAME_SIZE: usize = (1 << 24) - 1;

/// Frame types.
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0x0;
    pub(in crate::h2) const HEADERS: u8 = 0x1;
    pub(in crate::h2) const PRIORITY: u8 = 0x2;
    pub(in crate::h2) const RST_STREAM: u8 = 0x3;
    pub(in crate::h2) const SETTINGS: u8 = 0x4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 0x5;
    pub(in crate::h2) const PING: u8 = 0x6;
    pub(in crate::h2) const GOAWAY: u8 = 0x7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 0x8;
    pub(in crate::h2) const CONTINUATION: u8 = 0x9;
}

/// Frame flags.
pub(super) mod flag {
    pub(in crate::h2) const ACK: u8 = 0x1;
    pub(in crate::h2) const END_STREAM: u8 = 0x1;
    pub(in crate::h2) const END_HEADERS: u8 = 0x4;
    pub(in crate::h2) const PADDED: u8 = 0x8;
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHeader {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = *bytes;
        Self {
            len: u32::from_be_bytes([0, l2, l1, l0]) as usize,
            kind,
            flags,
            // RFC 9113 section 4.1: the reserved bit is ignored.
            stream: u32::from_be_bytes([s3, s2, s1, s0]) & 0x7fff_ffff,
        }
    }

    #[inline]
    pub(super) fn bytes(self) -> [u8; HEADER_LEN] {
        let [_, l2, l1, l0] = (self.len as u32).to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHeader { len: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

pub(super) fn write_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub(super) fn write_ping(out: &mut Vec<u8>, ack: bool, opaque: &[u8]) {
    write(out, kind::PING, if ack { flag::ACK } else { 0 }, 0, opaque);
}

pub(super) fn write_settings_ack(out: &mut Vec<u8>) {
    write(out, kind::SETTINGS, flag::ACK, 0, &[]);
}

pub(super) fn write_settings(out: &mut Vec<u8>, payload: &[u8]) {
    write(out, kind::SETTINGS, 0, 0, payload);
}

pub(super) fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, debug: &str) {
    let mut payload = Vec::with_capacity(8 + debug.len());
    payload.extend_from_slice(&last_stream.to_be_bytes());
    payload.extend_from_slice(&code.0.to_be_bytes());
    payload.extend_from_slice(debug.as_bytes());
    write(out, kind::GOAWAY, 0, 0, &payload);
}

/// The first four octets of a payload as a number.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}
