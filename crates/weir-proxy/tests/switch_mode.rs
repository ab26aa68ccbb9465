//! Connections that begin in TCP mode and go on in HTTP (manual, section 4 "Proxies" and action `switch-mode`).

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A rule switches on the first port, the backend's mode on the second; the third needs no switch.
const CONFIGURATION: &str = "\
defaults
 timeout client 20s
 timeout connect 5s
 timeout server 20s
frontend by-rule
 mode tcp
 bind 127.0.0.1:0
 tcp-request inspect-delay 20s
 tcp-request content switch-mode http if HTTP
 tcp-request content reject
 http-request deny if { path /denied }
 use_backend raw if { path /raw }
 default_backend web
frontend by-backend
 mode tcp
 bind 127.0.0.1:0
 default_backend web
frontend always
 mode http
 bind 127.0.0.1:0
 default_backend web
backend raw
 mode tcp
 server s 127.0.0.1:1
backend web
 mode http
 http-request return status 200 content-type text/plain lf-string \"web %[path] %[req.ver]\"
";

/// Sends, and receives to the end.
fn exchange(address: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(sent).unwrap();
    let mut received = Vec::new();
    // A reset ends it as well.
    let _end = client.read_to_end(&mut received);
    received
}

fn count(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn a_connection_in_tcp_mode_goes_on_in_http() {
    let running = harness::start(CONFIGURATION);
    let [by_rule, by_backend, always] = running.addresses[..] else { panic!("three listeners") };
    let check = |address: SocketAddr, sent: &[u8], expected: &[&[u8]]| {
        let received = exchange(address, sent);
        let text = String::from_utf8_lossy(&received);
        assert!(!expected.is_empty() || received.is_empty(), "{text}");
        for part in expected {
            assert_eq!(count(&received, part), 1, "{:?} in {text}", String::from_utf8_lossy(part));
        }
    };
    let two = b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let post = b"POST /0 HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    for address in [by_rule, by_backend, always] {
        check(address, two, &[b"web /1 1.1", b"web /2 1.1"]);
        check(address, post, &[b"web /0 1.1"]);
    }
    // The frontend's HTTP rules, and a backend that cannot serve what is HTTP by now.
    check(
        by_rule,
        b"GET /denied HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        &[b"HTTP/1.1 403 Forbidden"],
    );
    check(by_rule, b"GET /raw HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", &[b"HTTP/1.1 500 "]);
    // What is no HTTP: the rules close, a backend in HTTP mode says what it thinks of it.
    check(by_rule, b"SSH-2.0-OpenSSH_9.2\r\n", &[]);
    check(by_backend, b"SSH-2.0-OpenSSH_9.2\r\n", &[b"HTTP/1.1 400 Bad request"]);
}

#[test]
fn http_2_may_follow() {
    // Preface, empty SETTINGS, and HEADERS on stream 1: GET http://a/ (RFC 7541, appendix A).
    const REQUEST: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\0\x04\0\0\0\0\0\
        \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";
    // HEADERS on stream 1 whose first field is `:status: 200`.
    let is_answered = |received: &[u8]| {
        let head = received.windows(10).find(|frame| frame[3] == 1 && frame[5..9] == [0, 0, 0, 1]);
        head.is_some_and(|frame| frame[9] == 0x88)
    };
    let running = harness::start(CONFIGURATION);
    let answer = |address: SocketAddr, pieces: &[&[u8]]| {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        pieces.iter().for_each(|piece| client.write_all(piece).unwrap());
        let mut received = Vec::new();
        while count(&received, b"web / 2.0") == 0 {
            let mut piece = [0; 512];
            let length = client.read(&mut piece).unwrap();
            assert_ne!(length, 0, "{received:?}");
            received.extend(&piece[..length]);
        }
        received
    };
    for address in running.addresses.iter().copied() {
        // All at once; the preface in two parts: nobody decides on half of it; the request behind it.
        for cut in [0, 10, 24, 33] {
            let (first, second) = REQUEST.split_at(cut);
            let received = answer(address, &[first, second]);
            assert!(is_answered(&received), "{cut}: {received:?}");
        }
    }
}
