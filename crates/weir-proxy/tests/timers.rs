//! The times that the log and the statistics tell: no shorter than what they measure, and of the right stage.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::Running;
use harness::reading::read_head;

/// A test that waits longer than this waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long things take here: between two ticks of any kernel's clock.
const WHILE: Duration = Duration::from_millis(6);

/// What a client or a scheduler may spoil happens in one of so many tries.
const TRIES: usize = 20;

/// Answers each request after a while.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                while read_head(&mut stream).is_some() {
                    sleep(WHILE);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    address
}

struct Bench {
    running: Running,
    log: UdpSocket,
}

type Times = HashMap<String, i64>;

impl Bench {
    fn new(bind: &str) -> Self {
        let log = UdpSocket::bind("127.0.0.1:0").unwrap();
        log.set_read_timeout(Some(PATIENCE)).unwrap();
        let text = format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 20s\n timeout server 20s\n timeout client 20s\n\
             listen l\n bind 127.0.0.1:0 {bind}\n log {} format raw local0\n server s {}\n\
             log-format \"Th=%Th Ti=%Ti TR=%TR Tw=%Tw Tc=%Tc Tr=%Tr Td=%Td Ta=%Ta Tt=%Tt Tu=%Tu\"\n",
            log.local_addr().unwrap(),
            origin()
        );
        Self { running: harness::start(&text), log }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.running.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request, with a pause in its head where that is asked for; returns what the log says of it.
    fn ask(&self, client: &mut TcpStream, pause: Duration) -> Times {
        client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        sleep(pause);
        client.write_all(b"Host: x\r\n\r\n").unwrap();
        assert!(read_head(client).is_some());
        let mut line = [0; 1024];
        let length = self.log.recv(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line[..length]).trim().to_owned();
        let time = |word: &str| word.split_once('=').map(|(name, ms)| (name.to_owned(), ms.parse().unwrap()));
        line.split(' ').filter_map(time).collect()
    }
}

#[test]
fn times_are_not_shorter_than_what_they_measure() {
    let bench = Bench::new("");
    let mut client = bench.connect();
    let a_while = WHILE.as_millis() as i64;
    for _ in 0..TRIES {
        let times = bench.ask(&mut client, Duration::ZERO);
        assert!(times["Tr"] >= a_while && times["Ta"] >= times["Tr"], "{times:?}");
        let stages: i64 = ["TR", "Tw", "Tc", "Tr", "Td"].iter().map(|name| times[*name]).sum();
        assert_eq!(stages, times["Ta"], "{times:?}");
        assert_eq!(times["Th"] + times["Ti"] + times["Ta"], times["Tt"], "{times:?}");
        assert_eq!(times["Th"] + times["Ta"], times["Tu"], "{times:?}");
    }
    let times = &bench.running.shared.proxies[0].times;
    assert!(times.response.value() >= a_while as u64 && times.total.value() >= times.response.value());
}

#[test]
fn a_new_connection_without_a_request_is_idle() {
    let bench = Bench::new("");
    let is_told = |_| {
        let mut client = bench.connect();
        sleep(WHILE);
        let times = bench.ask(&mut client, Duration::ZERO);
        times["Ti"] >= WHILE.as_millis() as i64 - 1 && times["TR"] < times["Ti"]
    };
    assert!((0..TRIES).any(is_told));
}

#[test]
fn times_of_the_client_are_told_apart() {
    let bench = Bench::new("accept-proxy");
    let (mut seen, a_while) = ([false; 3], WHILE.as_millis() as i64);
    for _ in 0..TRIES {
        let mut client = bench.connect();
        sleep(WHILE);
        client.write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n").unwrap();
        sleep(WHILE);
        let first = bench.ask(&mut client, WHILE);
        sleep(WHILE);
        let second = bench.ask(&mut client, Duration::ZERO);
        assert_eq!(second["Th"], 0, "the handshake is told once");
        let found = [first["Th"], first["Ti"].min(second["Ti"]), first["TR"]];
        (0..3).for_each(|at| seen[at] |= found[at] >= a_while - 1);
        if seen == [true; 3] {
            return;
        }
    }
    panic!("handshake, idle time, head: {seen:?}");
}

#[test]
fn rules_on_responses_pause() {
    const PAUSE: Duration = Duration::from_millis(150);
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 20s\n timeout server 20s\n timeout client 20s\n\
         listen l\n bind 127.0.0.1:0\n http-response pause 150ms if {{ path /slow }}\n\
         http-response set-header x-after yes\n server s {}\n",
        origin()
    );
    let running = harness::start(&text);
    for (path, least) in [("/slow", PAUSE), ("/", Duration::ZERO)] {
        let start = Instant::now();
        let mut client = TcpStream::connect(running.address).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("x-after: yes"), "{answer}");
        assert!(start.elapsed() >= least, "{path}");
    }
}

/// A client that takes a large answer slowly, and is never silent for as long as its time allows.
#[test]
fn a_slow_reader_gets_all_of_an_answer_made_here() {
    const LENGTH: usize = 3_000_000;
    let body = std::env::temp_dir().join(format!("weir-slow-{}", std::process::id()));
    std::fs::write(&body, vec![b'x'; LENGTH]).unwrap();
    let text = format!(
        "global\n nbthread 1\n tune.sndbuf.client 16384\ndefaults\n mode http\n timeout connect 20s\n timeout client 400ms\n\
         frontend f\n bind 127.0.0.1:0\n http-request return status 200 content-type text/plain file {}\n",
        body.display()
    );
    let running = harness::start(&text);
    std::fs::remove_file(&body).unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16_384).unwrap();
    socket.connect(&running.address.into()).unwrap();
    let mut client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let (mut heard, mut piece) = (0, vec![0; 200_000]);
    loop {
        match client.read(&mut piece).unwrap_or(0) {
            0 => break,
            some => heard += some,
        }
        if heard < LENGTH / 2 {
            sleep(Duration::from_millis(20));
        }
    }
    assert!(heard > LENGTH, "{heard}");
}
