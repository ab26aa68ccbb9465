//! HTTP/2 frames and header blocks as an attacker writes them, and the bench of counts: nothing is checked and everything can be said
//! (RFC 9113 section 4, RFC 7541 section 6).

/// Frame types (RFC 9113 section 6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
}

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

/// Settings (RFC 9113 section 6.5.2).
pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;

const HEADER_BYTES: usize = 9;

/// Writes one frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

pub(crate) fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    let mut payload = Vec::new();
    for (name, value) in values {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(out, kind::SETTINGS, 0, 0, &payload);
}

pub(crate) fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    frame(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

/// Resets a stream with CANCEL.
pub(crate) fn reset(out: &mut Vec<u8>, stream: u32) {
    frame(out, kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
}

/// A header block in the making.
#[derive(Clone, Default)]
pub(crate) struct Block(pub(crate) Vec<u8>);

impl Block {
    /// GET for a path, in clear, with the lines that every request has.
    pub(crate) fn get(path: &str) -> Self {
        Self::request("GET", path)
    }

    pub(crate) fn request(method: &str, path: &str) -> Self {
        Self::default()
            .literal(":method", method)
            .indexed(6)
            .literal(":path", path)
            .literal(":authority", "localhost")
    }

    /// A line of either table by its number (RFC 7541 section 6.1).
    pub(crate) fn indexed(mut self, index: usize) -> Self {
        integer(&mut self.0, 0x80, 7, index);
        self
    }

    /// A line that no table remembers, its name written out (section 6.2.2).
    pub(crate) fn literal(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.0.push(0);
        self.string(name.as_ref()).string(value.as_ref())
    }

    /// A line that the reader has to put into its table (section 6.2.1).
    pub(crate) fn remembered(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.0.push(0x40);
        self.string(name.as_ref()).string(value.as_ref())
    }

    /// The size of the reader's table from here on (section 6.3).
    pub(crate) fn table_size(mut self, size: usize) -> Self {
        integer(&mut self.0, 0x20, 5, size);
        self
    }

    fn string(mut self, text: &[u8]) -> Self {
        integer(&mut self.0, 0, 7, text.len());
        self.0.extend_from_slice(text);
        self
    }

    /// As one HEADERS frame.
    pub(crate) fn headers(&self, out: &mut Vec<u8>, stream: u32, flags: u8) {
        frame(out, kind::HEADERS, END_HEADERS | flags, stream, &self.0);
    }
}

/// An integer with a prefix of so many bits (section 5.1).
fn integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A frame that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Takes the first whole frame off what was received.
pub(crate) fn take(received: &mut Vec<u8>) -> Option<Received> {
    let &[a, b, c, kind, flags, s0, s1, s2, s3] = received.first_chunk::<HEADER_BYTES>()?;
    let end = HEADER_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
    let payload = received.get(HEADER_BYTES..end)?.to_vec();
    received.drain(..end);
    Some(Received { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind::DATA, END_STREAM, 7, b"hello");
        window_update(&mut bytes, 3, 0x7fff_ffff);
        bytes.extend_from_slice(&[0, 0, 9]);
        let data = Received { kind: kind::DATA, flags: END_STREAM, stream: 7, payload: b"hello".to_vec() };
        assert_eq!(take(&mut bytes), Some(data));
        assert_eq!(take(&mut bytes).map(|frame| frame.payload), Some(vec![0x7f, 0xff, 0xff, 0xff]));
        assert_eq!((take(&mut bytes), bytes.len()), (None, 3));
    }

    #[test]
    fn integers_are_those_of_the_rfc() {
        // RFC 7541 appendix C.1.
        let check = |first, bits, value, expected: &[u8]| {
            let mut out = Vec::new();
            integer(&mut out, first, bits, value);
            assert_eq!(out, expected);
        };
        check(0, 5, 10, &[10]);
        check(0, 5, 1337, &[31, 154, 10]);
        check(0, 8, 42, &[42]);
    }

    #[test]
    fn a_literal_is_that_of_the_rfc() {
        // RFC 7541 appendix C.2.1.
        let block = Block::default().remembered("custom-key", "custom-header");
        assert_eq!(block.0, b"\x40\x0acustom-key\x0dcustom-header");
    }
}
