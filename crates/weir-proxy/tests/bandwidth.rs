//! Limits of bandwidth, over real sockets: that everything still arrives, both ways and in every protocol, that nobody
//! is late while a limit makes them wait, and what is counted where streams share a limit. How fast it goes is
//! weir-balance's to decide and tested there, with a clock that is stepped.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use harness::Running;
use harness::reading::read_head;

const BODY_BYTES: usize = 100_000;

/// An origin that answers with what it was sent and as much again of its own; `Upgrade` makes it an echo.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                while let Some(head) = read_head(&mut stream) {
                    answer(&mut stream, &head)?;
                }
                Some(())
            });
        }
    });
    address
}

fn answer(stream: &mut TcpStream, head: &str) -> Option<()> {
    if head.contains("pgrade: echo") {
        stream.write_all(b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").ok()?;
        std::io::copy(&mut stream.try_clone().ok()?, stream).ok()?;
        stream.shutdown(Shutdown::Write).ok()?;
    }
    let body = read_body(stream, head)?;
    let own = vec![b'o'; BODY_BYTES];
    let length = body.len() + own.len();
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes()).ok()?;
    stream.write_all(&body).ok()?;
    stream.write_all(&own).ok()
}

fn read_body(stream: &mut TcpStream, head: &str) -> Option<Vec<u8>> {
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Sends a body and returns the answer's.
fn exchange(address: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(sent).unwrap();
    let head = read_head(&mut stream).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    read_body(&mut stream, &head).unwrap()
}

fn proxy(mode: &str, bind: &str, lines: &str, server: &str) -> Running {
    harness::start(&format!(
        "global\n nbthread 1\ndefaults\n mode {mode}\n timeout connect 20s\n timeout server 20s\n timeout client 20s\n\
         listen l\n bind 127.0.0.1:0 {bind}\n{lines}\n server s {server}\n\
         cache c\n total-max-size 1\n max-object-size {}\n\
         backend t\n stick-table type ip size 10 store bytes_in_rate(1h),bytes_out_rate(1h)\n",
        2 * BODY_BYTES
    ))
}

/// Some ten waits for a body.
const RATE: &str = "default-limit 1000000 default-period 100ms";

#[test]
fn limited_bodies_arrive() {
    let check = |mode: &str, lines: &str| {
        let running = proxy(mode, "", lines, &origin().to_string());
        let sent: Vec<u8> = (0..BODY_BYTES).map(|at| at as u8).collect();
        let got = exchange(running.address, &sent);
        assert_eq!(got.len(), 2 * BODY_BYTES, "{mode} {lines}");
        assert!(got.starts_with(&sent), "{mode} {lines}");
    };
    let both = format!(" filter bwlim-in up {RATE}\n filter bwlim-out down {RATE}\n");
    let with = |rules: &str| format!("{both}{rules}");
    let request = " http-request set-bandwidth-limit up\n http-request set-bandwidth-limit down limit 2m";
    check("http", &with(request));
    check("http", &with(" tcp-request content set-bandwidth-limit down period 50ms"));
    check("http", &with(" http-response set-bandwidth-limit down\n http-response set-bandwidth-limit up"));
    check("tcp", &with(" tcp-request content set-bandwidth-limit up"));
    check("tcp", &with(" tcp-response content set-bandwidth-limit down"));
    // Behind and before other filters, which get what passes in pieces.
    check(
        "http",
        &with(&format!(
            " filter trace quiet random-forwarding\n filter bwlim-out more {RATE}\n{request}\n http-request set-bandwidth-limit more"
        )),
    );
    // One that no rule turns on, and one whose key has no value.
    check("http", &both);
    let shared =
        " filter bwlim-out f limit 1 key req.hdr(x-none) table t\n http-request set-bandwidth-limit f";
    check("http", shared);
}

#[test]
fn limited_streams_of_http2_arrive() {
    let lines = format!(
        " filter bwlim-in up {RATE}\n filter bwlim-out down {RATE}\n http-request set-bandwidth-limit up\n \
         http-request set-bandwidth-limit down"
    );
    let inner = proxy("http", "proto h2", &lines, &origin().to_string());
    let outer = proxy("http", "", &lines, &format!("{} proto h2", inner.address));
    assert_eq!(exchange(outer.address, &[7; BODY_BYTES]).len(), 2 * BODY_BYTES);
}

#[test]
fn what_follows_a_change_of_protocol_is_limited_too() {
    let lines = " filter bwlim-in up limit 10m key src table t\n filter bwlim-out down limit 10m key src table t\n \
                 http-request set-bandwidth-limit up\n http-response set-bandwidth-limit down";
    let running = proxy("http", "", lines, &origin().to_string());
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").unwrap();
    assert!(read_head(&mut stream).unwrap().starts_with("HTTP/1.1 101"));
    stream.write_all(&[b'e'; 5000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo).unwrap();
    assert_eq!(echo.len(), 5000);
    assert_eq!(counted(&running), [5000, 5000]);
}

/// What the entry of our address has: bytes in and out.
fn counted(running: &Running) -> [u64; 2] {
    let table = running.shared.tables.named("t").unwrap();
    let key = table.parse_key("127.0.0.1").unwrap();
    let data = table.row(&key).unwrap().data;
    ["bytes_in_rate", "bytes_out_rate"].map(|name| {
        let found = data.iter().find(|(known, _)| known.starts_with(name));
        found.map_or(0, |(_, value)| value.parse().unwrap())
    })
}

#[test]
fn streams_that_share_a_limit_are_counted_together() {
    let lines = " filter bwlim-out f limit 1g key src table t\n http-request set-bandwidth-limit f";
    let running = proxy("http", "", lines, &origin().to_string());
    for round in 1..=3 {
        exchange(running.address, b"");
        assert_eq!(counted(&running), [0, round * BODY_BYTES as u64]);
    }
}

#[test]
fn nobody_is_late_while_a_limit_makes_them_wait() {
    // A piece takes longer than any timeout.
    let lines = " timeout client 20ms\n timeout server 20ms\n filter bwlim-in up default-limit 50k default-period 100ms min-size 20k\n \
                 filter bwlim-out down default-limit 100k default-period 100ms min-size 60k\n";
    for (mode, rules) in [
        ("http", " http-request set-bandwidth-limit up\n http-request set-bandwidth-limit down"),
        (
            "tcp",
            " tcp-request content set-bandwidth-limit up\n tcp-response content set-bandwidth-limit down",
        ),
    ] {
        let running = proxy(mode, "", &format!("{lines}{rules}"), &origin().to_string());
        assert_eq!(exchange(running.address, &[1; BODY_BYTES]).len(), 2 * BODY_BYTES, "{mode}");
    }
}

#[test]
fn what_comes_out_of_a_cache_is_limited_too() {
    let lines = " timeout client 20ms\n filter cache c\n filter bwlim-out f limit 1g key src table t\n \
                 filter bwlim-out slow default-limit 100k default-period 100ms min-size 60k\n \
                 http-request set-bandwidth-limit f\n http-request set-bandwidth-limit slow\n http-request cache-use c\n \
                 http-response set-header Cache-Control max-age=60\n http-response cache-store c\n";
    let running = proxy("http", "", lines, &origin().to_string());
    for round in 1..=3 {
        let mut stream = TcpStream::connect(running.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let head = read_head(&mut stream).unwrap();
        assert_eq!(head.contains("age: "), round > 1, "{head}");
        assert_eq!(read_body(&mut stream, &head).unwrap().len(), BODY_BYTES);
        assert_eq!(counted(&running), [0, round * BODY_BYTES as u64]);
    }
}
