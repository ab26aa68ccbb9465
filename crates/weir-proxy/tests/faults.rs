//! Faults at every point of an exchange, over real sockets: what the client is told, what the log says, and
//! that nothing stays behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use harness::Running;
use harness::reading::read_head;
use weir_net::Stream;
use weir_net::tls::certificate::CertificateStore;
use weir_net::tls::server::{CertificateSource, ServerOptions, TlsServer};

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// What a peer of the proxy does on its connection, in turn.
#[derive(Clone)]
enum Do {
    /// Sends.
    Say(Vec<u8>),
    /// Sends byte by byte.
    Spell(Vec<u8>),
    /// Sends chunks of one byte, a little apart, for so long, and the last one.
    Trickle(Duration),
    /// Sends as much as goes.
    Pour(usize),
    /// Receives until these bytes came.
    Hear(&'static [u8]),
    /// Receives byte by byte, so many.
    Sip(usize),
    /// Receives to the end.
    Drain,
    /// Says that nothing follows.
    HalfClose,
    /// Closes at once, with a reset.
    Reset,
    /// Closes.
    Close,
}

use Do::{Close, Drain, HalfClose, Hear, Pour, Reset, Sip, Spell};

fn say(bytes: &[u8]) -> Do {
    Do::Say(bytes.to_vec())
}

fn trickle(stream: &mut TcpStream, time: Duration) -> std::io::Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        stream.write_all(b"1\r\nx\r\n")?;
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.write_all(b"0\r\n\r\n")
}

/// Plays a script; what was received. A peer that went away earlier ends it.
fn play(mut stream: TcpStream, script: &[Do]) -> Vec<u8> {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    let mut received = Vec::new();
    for step in script {
        let done = match step {
            Do::Say(bytes) => stream.write_all(bytes),
            Spell(bytes) => bytes.iter().try_for_each(|byte| stream.write_all(&[*byte])),
            Do::Trickle(time) => trickle(&mut stream, *time),
            Pour(bytes) => (0..bytes / 65_536).try_for_each(|_| stream.write_all(&[b'x'; 65_536])),
            Hear(end) => {
                let (mut byte, heard) = ([0], received.len());
                loop {
                    match stream.read(&mut byte) {
                        Ok(1..) => received.push(byte[0]),
                        Ok(0) => return received,
                        Err(error) => break Err(error),
                    }
                    if received[heard..].ends_with(end) {
                        break Ok(());
                    }
                }
            }
            Sip(count) => (0..*count).try_for_each(|_| {
                let mut byte = [0];
                stream.read_exact(&mut byte).map(|()| received.push(byte[0]))
            }),
            Drain => stream.read_to_end(&mut received).map(drop),
            HalfClose => stream.shutdown(Shutdown::Write),
            Reset => set_socket_linger(&stream, Some(Duration::ZERO)).map_err(Into::into),
            Close => break,
        };
        if done.is_err() {
            break;
        }
    }
    received
}

/// An origin that plays a script on every connection.
fn origin(script: Vec<Do>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            std::thread::spawn(move || play(stream, &script));
        }
    });
    address
}

/// A proxy under test and its log.
struct Bench {
    running: Running,
    log: UdpSocket,
}

impl Bench {
    /// A `listen` section with these lines; `LIVE` in them stands for an origin's address.
    fn new(lines: &str) -> Self {
        let log = UdpSocket::bind("127.0.0.1:0").unwrap();
        log.set_read_timeout(Some(LIMIT)).unwrap();
        let text = format!(
            "global\n nbthread 1\n log {} format raw local0\ndefaults\n mode http\n log global\n \
             log-format \"%ST %ts\"\n timeout connect 20s\n timeout server 20s\n timeout client 20s\n\
             listen l\n bind 127.0.0.1:0\n{lines}\n",
            log.local_addr().unwrap()
        );
        Self { running: harness::start(&text), log }
    }

    /// In front of an origin that plays a script.
    fn before(script: &[Do], lines: &str) -> Self {
        Self::new(&format!("{lines}\n server s {}", origin(script.to_vec())))
    }

    fn client(&self, script: &[Do]) -> Vec<u8> {
        play(TcpStream::connect(self.running.address).unwrap(), script)
    }

    /// The next line of the log.
    fn logged(&self) -> String {
        let mut line = [0; 1024];
        let length = self.log.recv(&mut line).expect("a line of the log");
        String::from_utf8_lossy(&line[..length]).trim_end().to_owned()
    }

    /// Waits until nothing is left of what was going on.
    #[track_caller]
    fn settles(&self) {
        let state = &self.running.shared.proxies[0];
        let current = || {
            let load = std::sync::atomic::Ordering::Relaxed;
            let servers = state.servers.load();
            let served: i64 = servers.iter().map(|server| server.served.now()).sum();
            let queued: usize = servers.iter().map(|server| server.queue.len()).sum();
            let levels = [state.front_current.now(), state.back_current.now(), served];
            (self.running.shared.connections.load(load), levels, queued + state.queue.len())
        };
        let start = Instant::now();
        while current() != (0, [0; 3], 0) {
            assert!(start.elapsed() < LIMIT, "this stays behind: {:?}", current());
            std::thread::yield_now();
        }
    }
}

/// Plays something whose times are short, and once more with longer ones where the machine was too slow for them.
#[track_caller]
fn patiently(expected: &str, play: impl Fn(u32) -> String) {
    let mut logged = String::new();
    for time_ms in [50, 500, 5000] {
        logged = play(time_ms);
        if logged == expected {
            return;
        }
    }
    assert_eq!(logged, expected);
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-net/tests/version1/good.pem");
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn status(answer: &[u8]) -> u16 {
    let line = String::from_utf8_lossy(answer);
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn servers_that_fail() {
    /// What the origin does once it has the request, what the client gets, what the log says.
    #[track_caller]
    fn check(lines: &str, steps: &[Do], answer: (u16, &str), logged: &str) {
        let script = [&[Hear(HEAD_END)], steps].concat();
        let bench = Bench::before(&script, lines);
        let got = bench.client(&[say(GET_CLOSE), Drain]);
        assert_eq!(status(&got), answer.0, "{}", String::from_utf8_lossy(&got));
        assert!(got.ends_with(answer.1.as_bytes()), "{}", String::from_utf8_lossy(&got));
        assert_eq!(bench.logged(), logged);
        bench.settles();
    }
    // The answer's head: nothing of it, a part, nonsense.
    check("", &[Close], (502, ""), "502 SH");
    check("", &[Reset], (502, ""), "502 SH");
    for part in [
        "H",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nA: b\r\n",
    ] {
        check("", &[say(part.as_bytes()), Close], (502, ""), "502 SH");
        check("", &[say(part.as_bytes()), Reset], (502, ""), "502 SH");
        check(" timeout server 50ms", &[say(part.as_bytes()), Drain], (504, ""), "504 sH");
    }
    check(" timeout server 50ms", &[Drain], (504, ""), "504 sH");
    check("", &[say(b"SSH-2.0-OpenSSH\r\n"), Drain], (502, ""), "502 PH");
    check("", &[Spell(OK.to_vec()), Close], (200, "hello"), "200 --");
    check("", &[say(OK), HalfClose, Drain], (200, "hello"), "200 --");
    // What was said before the answer is no answer.
    let bench = Bench::before(&[Hear(HEAD_END), say(b"HTTP/1.1 100 Continue\r\n\r\n"), Close], "");
    let got = bench.client(&[say(GET_CLOSE), Hear(HEAD_END), Drain]);
    assert!(
        got.starts_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 "),
        "{}",
        String::from_utf8_lossy(&got)
    );
    assert_eq!(bench.logged(), "502 SH");
    // The body: a client must be able to tell that it was cut short.
    let exact = |body: &str| say(format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{body}").as_bytes());
    let chunked =
        |body: &str| say(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").as_bytes());
    for start in [
        exact(""),
        exact("abc"),
        chunked(""),
        chunked("5"),
        chunked("5\r\nab"),
        chunked("5\r\nabcde\r\n"),
        chunked("5\r\nabcde\r\n0\r\n"),
    ] {
        for last in [Close, Reset] {
            let bench = Bench::before(&[Hear(HEAD_END), start.clone(), last], "");
            let got = bench.client(&[say(GET_CLOSE), Drain]);
            assert!(!got.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&got));
            assert_eq!(bench.logged(), "200 SD");
            bench.settles();
        }
        let script = [Hear(HEAD_END), start.clone(), Drain];
        patiently("200 sD", |time_ms| {
            let bench = Bench::before(&script, &format!(" timeout server {time_ms}ms"));
            bench.client(&[say(GET_CLOSE), Drain]);
            let logged = bench.logged();
            bench.settles();
            logged
        });
    }
    // Without a length the end of the connection is the end of the body.
    check("", &[say(b"HTTP/1.1 200 OK\r\n\r\nabc"), Close], (200, "\r\n\r\nabc"), "200 --");
    check(
        "",
        &[say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), Drain],
        (200, ""),
        "200 SD",
    );
}

#[test]
fn clients_that_fail_in_a_request() {
    #[track_caller]
    fn check(lines: &str, steps: &[Do], expected: u16, logged: &str) {
        let bench = Bench::before(&[Hear(HEAD_END), Drain, say(OK)], lines);
        assert_eq!(status(&bench.client(steps)), expected);
        if !logged.is_empty() {
            assert_eq!(bench.logged(), logged);
        }
        bench.settles();
    }
    // A connection on which nothing was said is nobody's failure.
    check("", &[Close], 0, "");
    check("", &[Reset], 0, "");
    // The end of what the client says at every byte of the request's head.
    for length in 1..GET.len() {
        check("", &[say(&GET[..length]), HalfClose, Drain], 400, "400 CR");
        check("", &[say(&GET[..length]), Reset], 0, "400 CR");
    }
    check(" timeout http-request 50ms", &[say(&GET[..9]), Drain], 408, "408 cR");
    check(" timeout http-request 50ms", &[Drain], 408, "408 cR");
    check("", &[say(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"), Drain], 400, "400 PR");
    // In the body.
    let exact =
        |body: &str| say(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{body}").as_bytes());
    let chunked = |body: &str| {
        say(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}").as_bytes())
    };
    for start in [
        exact(""),
        exact("abc"),
        chunked(""),
        chunked("5"),
        chunked("5\r\nab"),
        chunked("5\r\nabcde\r\n0\r\n"),
    ] {
        // With `option abortonclose` it may be seen while the connection to the server is opened (CC).
        check(" no option abortonclose", &[start.clone(), Reset], 0, "-1 CD");
        check(" no option abortonclose", &[start.clone(), HalfClose, Drain], 0, "-1 CD");
        patiently("408 cD", |time_ms| {
            let bench = Bench::before(&[Hear(HEAD_END), Drain], &format!(" timeout client {time_ms}ms"));
            assert_eq!(status(&bench.client(&[start.clone(), Drain])), 408);
            let logged = bench.logged();
            bench.settles();
            logged
        });
    }
    check("", &[chunked("xyz\r\n"), Drain], 400, "400 PR");
}

#[test]
fn clients_that_fail_while_they_are_answered() {
    const LARGE: usize = 64 << 20;
    let large = || {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
        [Hear(HEAD_END), say(head.as_bytes()), Pour(LARGE), Drain]
    };
    // Reads nothing: the pipe is full, and the client's time is over.
    patiently("200 cD", |time_ms| {
        let bench = Bench::before(&large(), &format!(" timeout client {time_ms}ms"));
        let mut idle = TcpStream::connect(bench.running.address).unwrap();
        idle.write_all(GET).unwrap();
        let logged = bench.logged();
        bench.settles();
        logged
    });
    // Goes away in the middle.
    let bench = Bench::before(&large(), "");
    bench.client(&[say(GET), Sip(500), Reset]);
    assert_eq!(bench.logged(), "200 CD");
    bench.client(&[say(GET), Sip(500), Close]);
    assert_eq!(bench.logged(), "200 CD");
    // Reads slowly, then all.
    assert!(bench.client(&[say(GET_CLOSE), Sip(3000), Drain]).len() > LARGE);
    assert_eq!(bench.logged(), "200 --");
    bench.settles();
}

#[test]
fn clients_that_fail_between_requests() {
    let bench = Bench::before(&[Hear(HEAD_END), say(OK), Hear(HEAD_END), say(OK), Drain], "");
    for last in [Close, Reset, HalfClose] {
        bench.client(&[say(GET), Hear(b"hello"), last.clone()]);
        assert_eq!(bench.logged(), "200 --");
        // And after a part of the next one.
        bench.client(&[say(GET), Hear(b"hello"), say(&GET[..9]), last]);
        assert_eq!((bench.logged(), bench.logged()), ("200 --".to_owned(), "400 CR".to_owned()));
        bench.settles();
    }
    // The time for the next one is over: that is no failure.
    let bench = Bench::before(&[Hear(HEAD_END), say(OK), Drain], " timeout http-keep-alive 20ms");
    assert!(bench.client(&[say(GET), Drain]).ends_with(b"hello"));
    assert_eq!(bench.logged(), "200 --");
    bench.settles();
}

#[test]
fn slow_clients_and_halves() {
    let bench = Bench::before(&[Hear(HEAD_END), say(OK), Drain], "");
    let got = bench.client(&[Spell(GET_CLOSE.to_vec()), Sip(10), Sip(10), Drain]);
    assert!(got.ends_with(b"hello"));
    assert_eq!(bench.logged(), "200 --");
    // A client that says nothing more still gets its answer, where it is waited for.
    let bench = Bench::before(&[Hear(HEAD_END), say(OK), Drain], " no option abortonclose");
    let got = bench.client(&[say(GET), HalfClose, Drain]);
    assert!(got.ends_with(b"hello"));
    assert_eq!(bench.logged(), "200 --");
    bench.settles();
    // A client that waits for the 100 of the server before it sends the body.
    const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    let script = [Hear(HEAD_END), say(b"HTTP/1.1 100 Continue\r\n\r\n"), Hear(b"body"), say(OK), Drain];
    let bench = Bench::before(&script, "");
    let got = bench.client(&[say(POST), Hear(HEAD_END), say(b"body"), Hear(b"hello"), Close]);
    assert!(
        got.starts_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&got)
    );
    assert_eq!(bench.logged(), "200 --");
    bench.settles();
}

#[test]
fn an_upload_may_take_longer_than_the_clients_timeout() {
    patiently("200 --", |time_ms| {
        const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let script = [Hear(b"0\r\n\r\n"), say(OK), Drain];
        let bench = Bench::before(&script, &format!(" timeout client {time_ms}ms"));
        let time = Duration::from_millis(u64::from(3 * time_ms));
        bench.client(&[say(POST), Do::Trickle(time), Hear(b"hello"), Close]);
        bench.logged()
    });
}

#[test]
fn clients_that_leave_before_the_answer() {
    for lines in ["", " option abortonclose", " option http-buffer-request"] {
        let bench = Bench::before(&[Hear(HEAD_END), Drain], lines);
        for last in [Close, Reset] {
            bench.client(&[say(GET), last]);
            // It may be gone while the connection to the server is being made.
            let logged = bench.logged();
            assert!(["400 CH", "-1 CC"].contains(&logged.as_str()), "{logged}");
            bench.settles();
        }
    }
    // Those who wait for a slot leave the queue.
    let lines = format!(" server s {} maxconn 1", origin(vec![Drain]));
    let bench = Bench::new(&lines);
    let server = bench.running.shared.proxies[0].server("s").unwrap();
    let mut holder = TcpStream::connect(bench.running.address).unwrap();
    holder.write_all(GET).unwrap();
    let until = |queued: usize| {
        let start = Instant::now();
        let queue = &bench.running.shared.proxies[0].queue;
        while (server.served.now(), queue.len()) != (1, queued) {
            assert!(start.elapsed() < LIMIT, "{} served, {} wait", server.served.now(), queue.len());
            std::thread::yield_now();
        }
    };
    until(0);
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let mut client = TcpStream::connect(bench.running.address).unwrap();
            client.write_all(GET).unwrap();
            client
        })
        .collect();
    until(5);
    drop(waiting);
    until(0);
    drop(holder);
    bench.settles();
}

#[test]
fn bytes_without_a_protocol() {
    // Each side's half ends on its own.
    let bench = Bench::before(&[Hear(b"question"), say(b"answer"), Drain, say(b"last words")], " mode tcp");
    let got = bench.client(&[say(b"question"), Hear(b"answer"), HalfClose, Drain]);
    assert_eq!(got, b"answerlast words");
    assert_eq!(bench.logged(), "-1 --");
    let bench = Bench::before(&[say(b"greeting"), HalfClose, Drain], " mode tcp");
    let got = bench.client(&[Hear(b"greeting"), Pour(1 << 20), Close]);
    assert_eq!(got, b"greeting");
    assert_eq!(bench.logged(), "-1 --");
    bench.settles();
    // Both pipes are full, then one end goes.
    const MUCH: usize = 64 << 20;
    let check = |server: &[Do], client: &[Do], logged: &[&str]| {
        let bench = Bench::before(server, " mode tcp");
        bench.client(client);
        let line = bench.logged();
        assert!(logged.contains(&&line[..]), "{line}");
        bench.settles();
    };
    check(&[Sip(1), Reset], &[Pour(MUCH), Drain], &["-1 SD"]);
    check(&[Sip(1), Close], &[Pour(MUCH), Drain], &["-1 SD"]);
    check(&[Pour(MUCH)], &[Sip(1), Reset], &["-1 CD"]);
    check(&[Pour(MUCH)], &[Sip(1), Close], &["-1 CD"]);
    // A server that is not there.
    let bench = Bench::new(" mode tcp\n retries 1\n timeout connect 20ms\n server s 127.0.0.1:1");
    assert_eq!(bench.client(&[say(b"question"), Drain]), b"");
    assert_eq!(bench.logged(), "-1 SC");
    bench.settles();
    // Nobody says anything.
    let bench = Bench::before(&[Drain], " mode tcp\n timeout client 50ms\n timeout server 50ms");
    assert_eq!(bench.client(&[Drain]), b"");
    assert_eq!(bench.logged(), "-1 cD");
    bench.settles();
}

#[test]
fn idle_connections_leave_descriptors_for_clients() {
    let check = |global: &str, kept: usize| {
        let server = origin(vec![Hear(HEAD_END), say(OK), Drain]);
        let bench = Bench::new(&format!(" server s {server}\nglobal\n nbthread 1\n{global}"));
        assert!(bench.client(&[say(GET), Hear(b"hello"), Close]).ends_with(b"hello"));
        assert_eq!(bench.logged(), "200 --");
        let server = bench.running.shared.proxies[0].server("s").unwrap();
        assert_eq!(server.idle.load(std::sync::atomic::Ordering::Relaxed), kept, "{global}");
        bench.settles();
    };
    check("", 1);
    check(" tune.pool-low-fd-ratio 100", 1);
    check(" tune.pool-low-fd-ratio 0", 0);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn of_two_idle_connections_the_one_used_last_is_kept() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        // The first connection is closed by the server while it is idle in the proxy.
        let (mut first, _) = listener.accept().unwrap();
        read_head(&mut first).unwrap();
        first.write_all(ANSWER).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        second.set_read_timeout(Some(LIMIT)).unwrap();
        (0..2).map_while(|_| read_head(&mut second).map(|_| second.write_all(ANSWER).unwrap())).count()
    });
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 20s\n\
         listen l\n bind 127.0.0.1:0\n server s {address}\n"
    );
    let running = harness::start(&text);
    let ask = |client: &mut TcpStream| {
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut answer = vec![0; ANSWER.len()];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER);
    };
    let [mut one, mut other] = [(); 2].map(|()| TcpStream::connect(running.address).unwrap());
    ask(&mut one);
    ask(&mut other);
    ask(&mut other);
    assert_eq!(server.join().unwrap(), 2, "both requests came over the second connection");
}

/// An HTTP/2 frame.
#[test]
fn when_all_idle_connections_are_dead_a_new_one_is_opened() {
    const IDLE: usize = 6;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let all_asked = Arc::new(Barrier::new(IDLE));
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let all_asked = Arc::clone(&all_asked);
            std::thread::spawn(move || {
                let mut stream = stream;
                read_head(&mut stream);
                // The first ones are in use together, so that all of them are kept.
                if number < IDLE {
                    all_asked.wait();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
                // A second request on the same connection meets a reset.
                read_head(&mut stream);
                set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            });
        }
    });
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 20s\n\
         http-reuse always\nlisten l\n bind 127.0.0.1:0\n server s {address}\n"
    );
    let running = harness::start(&text);
    let ask = || {
        let mut client = TcpStream::connect(running.address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        client
    };
    let answer = |mut client: TcpStream| {
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        status(&answer)
    };
    let clients: Vec<TcpStream> = (0..IDLE).map(|_| ask()).collect();
    assert!(clients.into_iter().all(|client| answer(client) == 200));
    assert_eq!(answer(ask()), 200);
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:method` (2 GET, 3 POST), `:scheme http`, `:path /`, `:authority a`.
fn head(method: u8) -> [u8; 6] {
    [0x80 | method, 0x86, 0x84, 0x41, 1, b'a']
}

#[test]
fn http2_clients_that_fail_at_every_byte() {
    let bench = Bench::before(&[Hear(HEAD_END), say(OK), Drain], "");
    let get = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_STREAM | END_HEADERS, 1, &head(2))]
        .concat();
    for length in 1..=get.len() {
        for last in [Close, Reset, HalfClose] {
            bench.client(&[say(&get[..length]), last]);
            bench.settles();
        }
    }
    let post = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[]),
        &frame(HEADERS, END_HEADERS, 1, &head(3)),
        &frame(DATA, 0, 1, b"abc"),
    ]
    .concat();
    for length in post.len() - 12..=post.len() {
        for last in [Close, Reset, HalfClose] {
            bench.client(&[say(&post[..length]), last]);
            bench.settles();
        }
    }
    // The stream alone is given up.
    let given_up = [&post[..], &frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])].concat();
    bench.client(&[say(&given_up), HalfClose, Drain]);
    bench.settles();
}

#[test]
fn http2_servers_that_fail_after_every_frame() {
    #[track_caller]
    fn check(frames: &[Vec<u8>], last: &Do, status_expected: u16, logged: &str) {
        // The request is there once its last frame is: HEADERS that end the stream.
        let mut script = vec![Hear(b"a")];
        script.extend(frames.iter().map(|frame| say(frame)));
        script.push(last.clone());
        let server = origin(script);
        let bench = Bench::new(&format!(" server s {server} proto h2"));
        let got = bench.client(&[say(GET_CLOSE), Drain]);
        assert_eq!(status(&got), status_expected, "{}", String::from_utf8_lossy(&got));
        assert_eq!(bench.logged(), logged);
        bench.settles();
    }
    let settings = || frame(SETTINGS, 0, 0, &[]);
    let acknowledged = || frame(SETTINGS, 1, 0, &[]);
    // `:status 200`.
    let ok = || frame(HEADERS, END_HEADERS, 1, &[0x88]);
    let reset = |code: u8| frame(RST_STREAM, 0, 1, &[0, 0, 0, code]);
    for last in [Close, Reset] {
        check(&[], &last, 502, "502 SH");
        check(&[settings()], &last, 502, "502 SH");
        check(&[settings(), acknowledged()], &last, 502, "502 SH");
        check(&[settings(), ok()[..5].to_vec()], &last, 502, "502 SH");
        check(&[settings(), ok()], &last, 200, "200 SD");
        check(&[settings(), ok(), frame(DATA, 0, 1, b"abc")], &last, 200, "200 SD");
    }
    check(&[settings(), reset(2)], &Drain, 502, "502 SH");
    check(&[settings(), ok(), reset(2)], &Drain, 200, "200 SD");
    let goaway = |last: u8| frame(GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    check(&[settings(), goaway(1), ok(), frame(DATA, END_STREAM, 1, b"abc")], &Drain, 200, "200 --");
    // Not processed: every connection says so until no try is left.
    check(&[settings(), goaway(0)], &Drain, 502, "502 SH");
    check(&[settings(), ok(), frame(DATA, END_STREAM, 1, b"abc")], &Drain, 200, "200 --");
    // Refused alone: the request comes again on the same connection.
    let again = frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0x88]);
    let script = [Hear(b"a"), say(&settings()), say(&reset(7)), Hear(b"a"), say(&again), Drain];
    let bench = Bench::new(&format!(" server s {} proto h2", origin(script.to_vec())));
    assert_eq!(status(&bench.client(&[say(GET_CLOSE), Drain])), 200);
    assert_eq!(bench.logged(), "200 --");
    bench.settles();
}

#[test]
fn handshakes_that_fail() {
    let lines = |more: &str| format!("{more} bind 127.0.0.1:0 ssl crt {CERTIFICATE}");
    let bench = Bench::before(&[Drain], &lines(""));
    let hello = client_hello();
    let client = |script: &[Do]| play(TcpStream::connect(bench.running.addresses[1]).unwrap(), script);
    for length in (1..hello.len()).step_by(5).chain([hello.len()]) {
        for last in [Close, Reset, HalfClose] {
            client(&[say(&hello[..length]), last]);
            bench.settles();
        }
    }
    // The server's part is there, and ends with the client.
    let flight = client(&[say(&hello), Hear(&[14, 0, 0, 0]), Close]);
    assert_eq!(flight[..3], [22, 3, 3], "a record of the handshake");
    bench.settles();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 0, 4, 2, 0, 0, 0], &[21, 3, 1, 0, 2, 1, 0]] {
        // A fatal alert.
        assert_eq!(client(&[say(nonsense), Drain]), [21, 3, 3, 0, 2, 2, 10]);
        bench.settles();
    }
    // Says nothing more.
    let bench = Bench::before(&[Drain], &lines(" timeout client 50ms\n"));
    for length in [0, 3, 20, hello.len()] {
        play(TcpStream::connect(bench.running.addresses[1]).unwrap(), &[say(&hello[..length]), Drain]);
        bench.settles();
    }
}

#[test]
fn handshakes_with_servers_that_fail() {
    let check = |script: &[Do], expected: &str| {
        patiently(expected, |time_ms| {
            let server = origin(script.to_vec());
            // The turn-around before the second try takes as long as a connection may.
            let bench = Bench::new(&format!(
                " retries 1\n timeout connect {time_ms}ms\n server s {server} ssl verify none"
            ));
            assert_eq!(status(&bench.client(&[say(GET_CLOSE), Drain])), 503);
            let logged = bench.logged();
            bench.settles();
            logged
        });
    };
    check(&[Close], "503 SC");
    check(&[Reset], "503 SC");
    check(&[say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Drain], "503 SC");
    check(&[say(&[22, 3, 3, 0, 4, 14, 0, 0, 0]), Drain], "503 SC");
    check(&[say(&[21, 3, 3, 0, 2, 2, 40]), Drain], "503 SC");
    // Never complete.
    check(&[say(&[22, 3, 3, 64, 0, 2]), Drain], "503 sC");
    check(&[Drain], "503 sC");
}

/// An origin over TLS that ends its answer with the connection, and says so or not.
fn tls_origin(says_so: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = ServerOptions {
            certificates: vec![CertificateSource::Crt(CERTIFICATE.into())],
            ..ServerOptions::default()
        };
        let (server, _) = TlsServer::new(&options, &CertificateStore::default()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        runtime.block_on(async {
            let mut stream = Stream::from_tcp(socket).unwrap();
            stream.start_server_tls(&server, &[]);
            let mut request = Vec::new();
            while !request.ends_with(HEAD_END) && stream.read(&mut request, 4096).await.unwrap() > 0 {}
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").await.unwrap();
            if says_so {
                stream.shutdown_write().await.unwrap();
            }
        });
    });
    address
}

#[test]
fn a_body_that_ends_with_a_tls_connection_is_whole_when_the_server_says_so() {
    for (says_so, logged) in [(true, "200 --"), (false, "200 SD")] {
        let bench = Bench::new(&format!(" server s {} ssl verify none", tls_origin(says_so)));
        let got = bench.client(&[say(GET_CLOSE), Drain]);
        assert!(got.ends_with(b"\r\n\r\nall of it"), "{}", String::from_utf8_lossy(&got));
        assert_eq!(bench.logged(), logged);
        bench.settles();
    }
}

/// A hello for TLS 1.2 with what a server needs to go on.
fn client_hello() -> Vec<u8> {
    let extensions: [&[u8]; 3] = [
        // The group X25519.
        &[0, 10, 0, 4, 0, 2, 0, 29],
        // Signatures with ECDSA and RSA.
        &[0, 13, 0, 10, 0, 8, 4, 3, 5, 3, 8, 4, 4, 1],
        // Extended master secret.
        &[0, 23, 0, 0],
    ];
    let extensions = extensions.concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 8, 0xC0, 0x2B, 0xC0, 0x2C, 0xC0, 0x2F, 0xC0, 0x30, 1, 0, 0]);
    body.push(extensions.len() as u8);
    body.extend(extensions);
    let message = [&[1, 0, 0, body.len() as u8], &body[..]].concat();
    [&[22, 3, 1, 0, message.len() as u8], &message[..]].concat()
}
