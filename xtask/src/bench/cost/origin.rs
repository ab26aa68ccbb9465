//! The server behind the subjects: the same octets for every request, a thread a connection.
//!
//! Heads are fixed here so that no counted instruction depends on the version of a server or on the date.

use super::END_OF_HEAD;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A subject's request, its own additions included, is shorter.
const LONGEST_REQUEST: usize = 16 * 1024;

/// Starts a server with this body and says its port. Its threads end with this program, or with their connection.
pub(super) fn start(body: &[u8]) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let response: Arc<[u8]> = response(body).into();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let response = Arc::clone(&response);
            // A subject that goes away ends its connections.
            thread::spawn(move || drop(serve(stream, &response)));
        }
    });
    Ok(port)
}

fn response(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Answers requests without a body; a proxy sends one when the last has its response.
fn serve(mut stream: TcpStream, response: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; LONGEST_REQUEST];
    let mut length = 0;
    loop {
        match stream.read(&mut request[length..])? {
            0 => return Ok(()),
            count => length += count,
        }
        if request[..length].ends_with(END_OF_HEAD) {
            stream.write_all(response)?;
            length = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_two_pieces_has_one_response() {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, start(b"abc").unwrap())).unwrap();
        for piece in ["GET / HTTP/1.1\r\n", "Host: h\r\n\r\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
        }
        let expected = response(b"abc");
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, expected);
        assert!(got.ends_with(b"Content-Length: 3\r\n\r\nabc"));
    }
}
