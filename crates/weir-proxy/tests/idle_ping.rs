//! `idle-ping`: a peer that answers keeps its HTTP/2 connection, one that does not loses it.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use weir_http::h2::PREFACE;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// The next frame that is a request or a PING; `None` when the connection is closed.
fn next(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).ok()?;
        if [HEADERS, PING].contains(&header[3]) && header[4] & ACK == 0 || header[3] == HEADERS {
            return Some((header[3], payload));
        }
    }
}

/// Answers so many probes, then none: how many came.
fn probes(stream: &mut TcpStream, answered: usize) -> usize {
    let mut probes = 0;
    while let Some((kind, payload)) = next(stream) {
        assert_eq!(kind, PING);
        probes += 1;
        if probes <= answered {
            stream.write_all(&frame(PING, ACK, 0, &payload)).unwrap();
        }
    }
    probes
}

fn config(lines: &str) -> String {
    format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n timeout client 60s\n\
         listen l\n{lines}\n"
    )
}

#[test]
fn clients_are_probed() {
    let running =
        harness::start(&config(" bind 127.0.0.1:0 proto h2 idle-ping 20ms\n http-request return status 200"));
    for answered in [0, 3] {
        let mut client = TcpStream::connect(running.address).unwrap();
        client.write_all(PREFACE).unwrap();
        client.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        assert_eq!(probes(&mut client, answered), answered + 1);
    }
}

#[test]
fn servers_are_probed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server =
        format!(" bind 127.0.0.1:0\n server s {} proto h2 idle-ping 20ms", listener.local_addr().unwrap());
    let running = harness::start(&config(&server));
    for answered in [0, 2] {
        let mut client = TcpStream::connect(running.address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // What was closed is not used again: each round has a connection of its own.
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        stream.read_exact(&mut vec![0; PREFACE.len()]).unwrap();
        assert_eq!(next(&mut stream).unwrap().0, HEADERS);
        // Status 200, at the end of headers and stream.
        stream.write_all(&frame(HEADERS, 5, 1, &[0x88])).unwrap();
        let mut status = [0; 12];
        client.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        assert_eq!(probes(&mut stream, answered), answered + 1);
    }
}
