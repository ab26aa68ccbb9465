//! An HTTP/2 client on a [`Wire`]: says hello, answers SETTINGS and PING so that it looks alive, counts what it gets.

use super::frames::{self, ACK, Block, END_STREAM, frame, kind};
use super::wire::{Gone, Reading, Wire};
use std::time::Instant;
use weir_http::h2::PREFACE;

/// A setting's number and value.
pub(super) type Setting = (u16, u32);

/// What came on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) goaways: u64,
    pub(super) resets: u64,
    /// Response heads, interim ones too.
    pub(super) heads: u64,
    pub(super) ended: u64,
    pub(super) data_bytes: u64,
    /// The first head's first octets: an indexed `:status` in every peer's case.
    pub(super) status: Option<u16>,
}

pub(super) struct Http2 {
    pub(super) wire: Wire,
    pub(super) seen: Seen,
    next_stream: u32,
    answers: bool,
}

impl Http2 {
    /// Opens a connection that looks alive.
    pub(super) fn open(port: u16, settings: &[Setting], until: Instant) -> Result<Self, Gone> {
        Self::over(Wire::open(port, Reading::Always)?, settings, true, until)
    }

    /// Opens a connection that never reads.
    pub(super) fn open_deaf(port: u16, settings: &[Setting], until: Instant) -> Result<Self, Gone> {
        Self::over(Wire::open_narrow(port)?, settings, false, until)
    }

    fn over(wire: Wire, settings: &[Setting], answers: bool, until: Instant) -> Result<Self, Gone> {
        let mut client = Self { wire, seen: Seen::default(), next_stream: 1, answers };
        let mut hello = PREFACE.to_vec();
        frames::settings(&mut hello, settings);
        client.send(&hello, until)?;
        Ok(client)
    }

    /// The number of a new stream.
    pub(super) fn stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Sends bytes and looks at what came meanwhile.
    pub(super) fn send(&mut self, bytes: &[u8], until: Instant) -> Result<(), Gone> {
        let sent = self.wire.send(bytes, until);
        let looked = self.look(until);
        sent.and(looked)
    }

    /// One more request without a body; its stream.
    pub(super) fn ask(&mut self, block: &Block, until: Instant) -> Result<u32, Gone> {
        let stream = self.stream();
        let mut bytes = Vec::new();
        block.headers(&mut bytes, stream, END_STREAM);
        self.send(&bytes, until).map(|()| stream)
    }

    /// Reads until this many streams have ended, the connection is closed, or the time is up.
    pub(super) fn wait_for(&mut self, ended: u64, until: Instant) -> Result<(), Gone> {
        self.look(until)?;
        while self.seen.ended < ended {
            let more = self.wire.more(until);
            self.look(until)?;
            more?;
        }
        Ok(())
    }

    /// Counts what is there, and answers what has to be answered.
    fn look(&mut self, until: Instant) -> Result<(), Gone> {
        let mut answer = Vec::new();
        while let Some(frame) = frames::take(&mut self.wire.received) {
            self.count(&frame, &mut answer);
        }
        if self.answers && !answer.is_empty() && !self.wire.closed {
            self.wire.send(&answer, until)?;
        }
        Ok(())
    }

    fn count(&mut self, came: &frames::Received, answer: &mut Vec<u8>) {
        let ended = came.flags & END_STREAM != 0;
        match came.kind {
            kind::SETTINGS if came.flags & ACK == 0 => frame(answer, kind::SETTINGS, ACK, 0, &[]),
            kind::PING if came.flags & ACK == 0 => frame(answer, kind::PING, ACK, 0, &came.payload),
            kind::GOAWAY => self.seen.goaways += 1,
            kind::RST_STREAM => {
                self.seen.resets += 1;
                self.seen.ended += 1;
            }
            kind::HEADERS => {
                self.seen.heads += 1;
                self.seen.ended += u64::from(ended);
                let status = status(&came.payload);
                self.seen.status = self.seen.status.or(status);
            }
            kind::DATA => {
                self.seen.data_bytes += came.payload.len() as u64;
                self.seen.ended += u64::from(ended);
            }
            _ => {}
        }
    }
}

/// The status that a response's header block begins with, where it is in the static table or written without
/// Huffman's code.
fn status(block: &[u8]) -> Option<u16> {
    match behind_size_updates(block) {
        [indexed @ 0x88..=0x8e, ..] => {
            [200, 204, 206, 304, 400, 404, 500].get(usize::from(indexed - 0x88)).copied()
        }
        // A literal whose name is entry 8 to 14 of the static table, of three plain digits.
        [0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e, 3, digits @ ..] => digits_of(digits.get(..3)?),
        // The digits in Huffman's code take two or three octets.
        [0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e, length, coded @ ..] if length & 0x80 != 0 => {
            huffman_digits(coded.get(..usize::from(length & 0x7f))?)
        }
        _ => None,
    }
}

/// Updates of the table's size stand before everything else (RFC 7541 section 4.2).
fn behind_size_updates(mut block: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = block
        && first & 0xe0 == 0x20
    {
        // A prefix of ones goes on in the next octets, the last of which has no highest bit (section 5.1).
        let more = if first & 0x1f == 0x1f {
            rest.iter().take_while(|octet| **octet & 0x80 != 0).count() + 1
        } else {
            0
        };
        block = rest.get(more..).unwrap_or_default();
    }
    block
}

fn digits_of(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Three digits in Huffman's code (RFC 7541 appendix B): `0` to `2` have five bits, `3` to `9` six.
fn huffman_digits(coded: &[u8]) -> Option<u16> {
    let mut bits = coded.iter().flat_map(|octet| (0..8).rev().map(move |bit| u16::from(octet >> bit & 1)));
    let mut number = 0;
    for _ in 0..3 {
        let mut code = 0;
        for _ in 0..5 {
            code = code << 1 | bits.next()?;
        }
        let digit = match code {
            0..=2 => code,
            _ => (code << 1 | bits.next()?).checked_sub(0x19)? + 3,
        };
        number = number * 10 + digit;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_every_form() {
        let check = |block: &[u8], expected| assert_eq!(status(block), expected, "{block:?}");
        check(&[0x88], Some(200));
        check(&[0x3f, 0xe1, 0x1f, 0x88], Some(200));
        check(&[0x20, 0x8c], Some(400));
        check(b"\x08\x03403", Some(403));
        // RFC 7541 appendix C.6.1: 302.
        check(&[0x48, 0x82, 0x64, 0x02], Some(302));
        // Appendix C.6.2: 307.
        check(&[0x48, 0x83, 0x64, 0x0e, 0xff], Some(307));
        check(&[], None);
    }
}
