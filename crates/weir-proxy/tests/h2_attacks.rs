//! Clients that misuse what HTTP/2 allows: what they cost the server behind the proxy and the proxy itself, and that
//! others are served meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use harness::Running;
use harness::h2_client::*;

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Streams that a client may have open at once, and resets that it may have before the connection closes.
const MOST_STREAMS: usize = 100;
const MOST_RESETS: usize = 200;

/// A server: `/slow` is never answered, `/large` is without end, everything else is answered at once.
#[derive(Default)]
struct Origin {
    requests: AtomicUsize,
    alive: AtomicUsize,
    most_alive: AtomicUsize,
}

impl Origin {
    fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Arc::new(Self::default());
        let shared = Arc::clone(&origin);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = Arc::clone(&shared);
                std::thread::spawn(move || origin.serve(stream));
            }
        });
        (origin, address)
    }

    fn serve(&self, mut stream: TcpStream) {
        let alive = self.alive.fetch_add(1, SeqCst) + 1;
        self.most_alive.fetch_max(alive, SeqCst);
        // Whatever fails here fails because the proxy has closed.
        let _closed = self.answer(&mut stream);
        self.alive.fetch_sub(1, SeqCst);
    }

    fn answer(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
                match stream.read(&mut piece)? {
                    0 => return Ok(()),
                    count => received.extend_from_slice(&piece[..count]),
                }
                continue;
            };
            let head: Vec<u8> = received.drain(..end + 4).collect();
            self.requests.fetch_add(1, SeqCst);
            let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            match path {
                b"/slow" => while stream.read(&mut piece)? > 0 {},
                b"/large" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                    loop {
                        stream.write_all(&[b'x'; 65_536])?;
                    }
                }
                b"/interims" => {
                    let interim = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(8000));
                    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
                    loop {
                        // Each counts as a request, in lack of a counter for it.
                        stream.write_all(interim.as_bytes())?;
                        self.requests.fetch_add(1, SeqCst);
                    }
                }
                _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")?,
            }
        }
    }

    fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.load(SeqCst)
    }
}

/// A proxy before such a server; lines of its `listen` section.
fn proxy(lines: &str) -> (Running, Arc<Origin>) {
    let (origin, address) = Origin::start();
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 300s\n timeout server 300s\n timeout client 300s\n\
         listen l\n bind 127.0.0.1:0\n http-reuse never\n{lines}\n server s {address}\n"
    );
    (harness::start(&text), origin)
}

#[track_caller]
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// No connection and no request is left.
#[track_caller]
fn settles(running: &Running, origin: &Origin) {
    let shared = &running.shared;
    wait_until("nothing is left", || {
        let servers = shared.proxies[0].servers.load();
        let served: i64 = servers.iter().map(|server| server.served.now()).sum();
        (shared.connections.load(SeqCst), served, origin.alive()) == (0, 0, 0)
    });
}

/// Another client gets its answer.
#[track_caller]
fn is_served(address: SocketAddr) {
    let mut client = Client::connect(address);
    let (_, get) = client.get("/");
    assert!(client.say(&get));
    assert_eq!(client.until(HEADERS).expect("an answer").payload[0], STATUS_200);
    assert_eq!(client.until(DATA).expect("its body").payload, b"hello");
}

type Break = fn(u32) -> Vec<u8>;

/// Opens streams, waits until the server behind has them, and breaks each; how many there were before the end.
fn open_and_break(running: &Running, origin: &Origin, break_it: Break) -> usize {
    let mut client = Client::connect(running.address);
    for _ in 0..100 {
        let before = origin.requests();
        let (numbers, opened): (Vec<u32>, Vec<Vec<u8>>) = (0..50).map(|_| client.post("/slow")).unzip();
        if !client.say(&opened.concat()) {
            break;
        }
        wait_until("the server has them", || origin.requests() == before + 50);
        is_served(running.address);
        let broken: Vec<u8> = numbers.into_iter().flat_map(break_it).collect();
        if !client.say(&broken) || !client.sync() {
            break;
        }
    }
    let opened = client.next as usize / 2;
    let goaway = client.until(GOAWAY);
    // It may have been read already by `sync`.
    assert!(goaway.is_none_or(|frame| frame.code() == ENHANCE_YOUR_CALM));
    opened
}

#[test]
fn streams_that_a_client_gives_up_or_breaks_end_their_requests() {
    let ways: [Break; 6] = [
        |n| frame(RST_STREAM, 0, n, &8u32.to_be_bytes()),
        |n| frame(WINDOW_UPDATE, 0, n, &0u32.to_be_bytes()),
        |n| frame(WINDOW_UPDATE, 0, n, &0x7fff_ffff_u32.to_be_bytes()),
        |n| frame(PRIORITY, 0, n, &[&n.to_be_bytes()[..], &[0]].concat()),
        |n| [frame(DATA, END_STREAM, n, b""), frame(DATA, 0, n, b"x")].concat(),
        |n| frame(HEADERS, END_HEADERS, n, &line("a", "trailers that end nothing")),
    ];
    for (at, way) in ways.into_iter().enumerate() {
        // With and without the option: a reset leaves no doubt.
        let (running, origin) = proxy(if at % 2 == 0 { " no option abortonclose" } else { "" });
        let opened = open_and_break(&running, &origin, way);
        assert!((MOST_RESETS..=MOST_RESETS + MOST_STREAMS).contains(&opened), "{opened} streams, way {at}");
        // Beside what was opened last, there are those who were just given up, and the other client's.
        let most_alive = origin.most_alive.load(SeqCst);
        assert!(most_alive <= 2 * MOST_STREAMS, "{most_alive} connections to the server, way {at}");
        settles(&running, &origin);
    }
}

#[test]
fn what_is_opened_and_reset_at_once_is_never_sent_to_a_server() {
    let (running, origin) = proxy("");
    let ways: [Break; 2] = [
        |n| frame(RST_STREAM, 0, n, &8u32.to_be_bytes()),
        |n| frame(WINDOW_UPDATE, 0, n, &0u32.to_be_bytes()),
    ];
    for way in ways {
        let mut client = Client::connect(running.address);
        let before = origin.requests();
        let flood: Vec<u8> = (0..MOST_RESETS)
            .flat_map(|_| {
                let (number, opened) = client.get("/slow");
                [opened, way(number)].concat()
            })
            .collect();
        // What one read takes.
        assert!(flood.len() < 16 * 1024);
        assert!(client.say(&flood) && client.sync());
        let (_, get) = client.get("/");
        assert!(client.say(&get));
        assert_eq!(client.until(HEADERS).expect("an answer").payload[0], STATUS_200);
        assert_eq!(origin.requests(), before + 1);
    }
}

#[test]
fn requests_of_a_client_that_has_gone_do_not_live_on() {
    const CLIENTS: usize = 150;
    // In a server, in the queue before it, while the body is waited for.
    for lines in ["", " maxconn 1000\n default-server maxconn 10", " http-request wait-for-body time 300s"] {
        let (running, origin) = proxy(lines);
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(running.address).unwrap();
            client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        for _ in 0..CLIENTS {
            let mut client = Client::connect(running.address);
            let (_, post) = client.post("/slow");
            assert!(client.say(&post));
        }
        settles(&running, &origin);
        is_served(running.address);
    }
}

#[test]
fn http1_clients_that_close_may_be_waited_for() {
    // Half a connection is enough for who asks with `no option abortonclose`, and in TCP mode.
    let (running, origin) = proxy(" no option abortonclose");
    let mut client = TcpStream::connect(running.address).unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("the server has it", || origin.requests() == 1);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    is_served(running.address);
    assert_eq!(running.shared.proxies[0].server("s").unwrap().served.now(), 1);
}

/// A client that takes little at a time, and lets the server send what it likes.
fn narrow_client(address: SocketAddr) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&address.into()).unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut client = Client::with(socket.into(), &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    client.say(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    client
}

#[test]
fn a_client_that_reads_nothing_loses_its_connection() {
    let (running, origin) = proxy(" timeout client 300ms");
    let mut client = narrow_client(running.address);
    let (_, get) = client.get("/large");
    assert!(client.say(&get));
    wait_until("the server has it", || origin.requests() == 1);
    settles(&running, &origin);
    drop(client);
}

#[test]
fn a_client_that_says_nothing_does_not_keep_a_process_that_stops() {
    let (running, origin) = proxy("");
    let mut idle = Client::connect(running.address);
    // One that has been served: it would wait for `timeout client`.
    let (_, get) = idle.get("/");
    assert!(idle.say(&get));
    idle.until(DATA).expect("an answer");
    running.soft_stop();
    settles(&running, &origin);
    running.wait();
}

#[test]
fn interim_responses_wait_for_a_client_that_does_not_read() {
    // Far above what sockets hold.
    const MOST_BYTES: usize = 48 << 20;
    for http2 in [false, true] {
        let (running, origin) = proxy("");
        let mut client = narrow_client(running.address);
        let (_, get) = client.get("/interims");
        let mut plain = TcpStream::connect(running.address).unwrap();
        match http2 {
            true => assert!(client.say(&get)),
            false => plain.write_all(b"GET /interims HTTP/1.1\r\nHost: a\r\n\r\n").unwrap(),
        }
        wait_until("the server has it", || origin.requests() > 0);
        // It gives up when it cannot write for a second.
        wait_until("the server waits", || origin.alive() == 0 || origin.requests() * 8000 > MOST_BYTES);
        assert!(origin.requests() * 8000 < MOST_BYTES, "{} heads, http2 {http2}", origin.requests());
        is_served(running.address);
    }
}

/// Blocks that make the peer's table hold a large cookie, and that refer to it `times` times.
fn crumbs(path: &str, times: usize) -> (Vec<u8>, Vec<u8>) {
    let cookie = "c".repeat(3000);
    let length = cookie.len() - 127;
    // A cookie line with incremental indexing: the name stands at 32 in the static table.
    let literal =
        [&[0x60, 127, (length % 128) as u8 | 128, (length / 128) as u8], cookie.as_bytes()].concat();
    let first = [head("GET", path), literal].concat();
    let again = [head("GET", path), vec![0xbe; times]].concat();
    (first, again)
}

#[test]
fn a_head_over_the_limit_is_answered_once_and_closes_the_connection() {
    let (running, origin) = proxy("");
    let mut client = Client::connect(running.address);
    let (first, again) = crumbs("/", 6);
    let headers = |number, block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, number, block);
    assert!(client.say(&headers(1, &first)));
    assert_eq!(client.until(DATA).expect("an answer").payload, b"hello");
    let flood: Vec<u8> = (1..50).flat_map(|n| headers(2 * n + 1, &again)).collect();
    assert!(client.say(&flood));
    let frames: Vec<Frame> = std::iter::from_fn(|| client.frame()).collect();
    let goaway: Vec<_> = frames.iter().filter(|frame| frame.kind == GOAWAY).collect();
    assert_eq!(goaway.len(), 1, "{frames:?}");
    assert_eq!((&goaway[0].payload[..4], goaway[0].code()), (&3u32.to_be_bytes()[..], ENHANCE_YOUR_CALM));
    let answered: Vec<u32> = frames.iter().filter(|f| f.kind == HEADERS).map(|f| f.stream).collect();
    assert_eq!(answered, [3]);
    assert_eq!(origin.requests(), 1);
    // A head that fits in a buffer beside the room for rules does so over HTTP/2, too.
    let mut client = Client::connect(running.address);
    let (first, again) = crumbs("/", 4);
    assert!(client.say(&[headers(1, &first), headers(3, &again)].concat()));
    for _ in 0..2 {
        assert_eq!(client.until(DATA).expect("an answer").payload, b"hello");
    }
}

#[test]
fn heads_of_waiting_requests_have_a_budget() {
    let (running, origin) = proxy("");
    let mut client = Client::connect(running.address);
    let (first, again) = crumbs("/slow", 4);
    let headers = |number, block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, number, block);
    let flood: Vec<u8> = (1..MOST_STREAMS as u32).flat_map(|n| headers(2 * n + 1, &again)).collect();
    assert!(client.say(&headers(1, &first)) && client.sync());
    assert!(client.say(&flood) && client.say(&frame(PING, 0, 0, b"are you?")));
    let frames = std::iter::from_fn(|| client.frame()).take_while(|frame| frame.kind != PING);
    let refused = frames.filter(|frame| frame.kind == RST_STREAM && frame.code() == REFUSED_STREAM).count();
    // Each head takes more than 12 kB of the 512 kB.
    assert!(refused > 55, "{refused} refused");
    wait_until("the others are there", || origin.requests() == MOST_STREAMS - refused);
    is_served(running.address);
    drop(client);
    settles(&running, &origin);
}
