//! A client that says any HTTP/2 frame it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_http::h2::PREFACE;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// RFC 9113 section 7
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// `:status 200`, indexed.
pub(crate) const STATUS_200: u8 = 0x88;

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The number at the end of RST_STREAM's payload, or in GOAWAY's behind the last stream.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A frame's bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field line that no table remembers.
pub(crate) fn line(name: &str, value: &str) -> Vec<u8> {
    let string = |text: &str| {
        let mut bytes = vec![u8::try_from(text.len().min(127)).unwrap()];
        let mut rest = text.len().checked_sub(127);
        while let Some(left) = rest {
            bytes.push((left % 128) as u8 | if left >= 128 { 128 } else { 0 });
            rest = (left >= 128).then_some(left / 128);
        }
        [&bytes, text.as_bytes()].concat()
    };
    [vec![0], string(name), string(value)].concat()
}

/// The block of a request.
pub(crate) fn head(method: &str, path: &str) -> Vec<u8> {
    [line(":method", method), line(":scheme", "http"), line(":path", path), line(":authority", "a")].concat()
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// Number of the next request.
    pub(crate) next: u32,
}

impl Client {
    /// A connection on which both have said their SETTINGS.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::with(TcpStream::connect(address).unwrap(), &[])
    }

    pub(crate) fn with(stream: TcpStream, settings: &[u8]) -> Self {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self { stream, next: 1 };
        client.say(&[PREFACE, &frame(SETTINGS, 0, 0, settings)[..]].concat());
        while client.frame().expect("settings").kind != SETTINGS {}
        client
    }

    /// Sends, if the peer is still there.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The frames of a request without a body, and its number.
    pub(crate) fn get(&mut self, path: &str) -> (u32, Vec<u8>) {
        let number = self.next;
        self.next += 2;
        (number, frame(HEADERS, END_HEADERS | END_STREAM, number, &head("GET", path)))
    }

    /// The frames of a request whose body is still to come.
    pub(crate) fn post(&mut self, path: &str) -> (u32, Vec<u8>) {
        let (number, mut frame) = self.get(path);
        frame[4] &= !END_STREAM;
        (number, frame)
    }

    /// The next frame; none when the connection is closed.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).ok()?;
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, l2, l1, l0]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s3, s2, s1, s0]), payload })
    }

    /// The next frame of this kind.
    pub(crate) fn until(&mut self, kind: u8) -> Option<Frame> {
        std::iter::from_fn(|| self.frame()).find(|frame| frame.kind == kind)
    }

    /// Waits until the peer has taken everything that was said.
    pub(crate) fn sync(&mut self) -> bool {
        self.say(&frame(PING, 0, 0, b"are you?"))
            && std::iter::from_fn(|| self.frame()).any(|frame| frame.kind == PING && frame.flags == ACK)
    }
}
