//! Log profiles and the steps at which lines are made (manual, section 8.3.5 and `log-steps`), over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// A test that waits longer than this waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// The lines of a configuration for what a client sends, up to the one that `ends` stands in.
fn lines(text: &str, sent: &[u8], ends: &str) -> Vec<String> {
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = origin.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in origin.incoming().flatten() {
            let mut head = [0; 1000];
            let _count = stream.read(&mut head);
            let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let text = text.replace("LOG", &format!("log {} format short", log.local_addr().unwrap()));
    let running = harness::start(&format!(
        "global\n nbthread 1\ndefaults\n timeout connect 5s\n timeout server 20s\n timeout client 20s\n{text}"
    ).replace("SERVER", &format!("server s {server}")));
    let mut client = TcpStream::connect(running.address).unwrap();
    client.write_all(sent).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    drop(client);
    let mut lines = Vec::new();
    loop {
        let mut line = [0; 1000];
        let count = log.recv(&mut line).unwrap();
        lines.push(String::from_utf8(line[..count].to_vec()).unwrap().trim_end().to_owned());
        if lines.last().is_some_and(|line| line.contains(ends)) {
            return lines;
        }
    }
}

const GET: &[u8] = b"GET /path HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn a_profile_makes_its_targets_lines() {
    let text = "log-profile p\n on error format \"%ST is wrong\"\n on connect drop\n on any format \"any %OG %HU\"\n\
                listen l\n mode http\n bind 127.0.0.1:0\n log-format \"own %OG %ST\"\n LOG local0\n LOG profile p local0\n SERVER\n";
    assert_eq!(lines(text, GET, "any"), ["<6>own txn_close 200", "<6>any txn_close /path"]);
    assert_eq!(lines(text, b"GET\r\n\r\n", "wrong"), ["<6>own txn_close 400", "<6>400 is wrong"]);
}

#[test]
fn lines_are_made_at_the_steps_that_are_named() {
    let of = |mode: &str, steps: &str| {
        format!(
            "log-profile p\n on request drop\n on close format \"close %B\"\n\
             listen l\n mode {mode}\n bind 127.0.0.1:0\n log-steps {steps}\n log-format \"%OG %s\"\n LOG profile p local0\n SERVER\n"
        )
    };
    assert_eq!(
        lines(&of("http", "all"), GET, "close"),
        ["<6>txn_accept <NOSRV>", "<6>txn_connect s", "<6>txn_response s", "<6>close 40"]
    );
    assert_eq!(lines(&of("http", "accept,close"), GET, "close"), ["<6>txn_accept <NOSRV>", "<6>close 40"]);
    assert_eq!(lines(&of("http", "response"), GET, "response"), ["<6>txn_response s"]);
    assert_eq!(
        lines(&of("tcp", "all"), GET, "close"),
        ["<6>txn_accept <NOSRV>", "<6>txn_connect s", "<6>close 40"]
    );
}

#[test]
fn rules_make_lines() {
    let text = "log-profile p\n on tcp-req-conn format \"from %ci\"\n on http-req drop\n log-tag never\n\
                log-profile q\n on any format \"q %OG %HU\"\n\
                listen l\n mode http\n bind 127.0.0.1:0\n log-format \"%OG %ST\"\n LOG profile p local0\n SERVER\n \
                tcp-request connection do-log\n tcp-request session do-log\n tcp-request content do-log profile q\n \
                http-request do-log\n http-request do-log profile q\n http-response do-log\n http-after-response do-log\n";
    let expected = [
        "<6>from 127.0.0.1",
        "<6>tcp-req-sess -1",
        "<6>q tcp-req-cont /path",
        "<6>q http-req /path",
        "<6>http-res 200",
        "<6>http-after-res 200",
        "<6>txn_close 200",
    ];
    assert_eq!(lines(text, GET, "close"), expected);
}
