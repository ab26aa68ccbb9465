//! HTTP/1 messages as they come from a plain socket, byte by byte: nothing of the next one is taken.

use std::io::Read;
use std::net::TcpStream;

/// A head up to its empty line; `None` when the peer closed before.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).expect("a head in UTF-8"))
}

/// The next chunk of a body; `None` for the last.
pub(crate) fn read_chunk(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(exactly(stream, 1));
    }
    let length = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
    let chunk = exactly(stream, length);
    exactly(stream, 2);
    (length > 0).then_some(chunk)
}

/// So many bytes.
pub(crate) fn exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
