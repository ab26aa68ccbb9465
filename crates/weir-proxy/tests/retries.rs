//! Failed tries over real sockets: which server is asked next, and what is counted.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use harness::Running;
use harness::reading::read_head;
use weir_proxy::state::counters::Counter;

/// Nobody listens here.
const DEAD: &str = "127.0.0.1:1";

/// An origin that answers every connection's first request.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _head = read_head(&mut stream);
            let _gone =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    address
}

/// A proxy with these lines, and where it listens.
fn start(lines: &str) -> Running {
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 250ms\n timeout server 5s\n timeout client 5s\n\
         listen l\n bind 127.0.0.1:0\n balance roundrobin\n cookie SRV insert indirect\n{lines}"
    );
    harness::start(&text)
}

/// Sends a request.
fn send(address: SocketAddr, cookie: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: SRV={cookie}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    client
}

/// Waits for the answer's status.
fn status(mut client: TcpStream) -> u16 {
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Status, retries and redispatches of one request.
fn ask(lines: &str, live: SocketAddr, cookie: &str) -> (u16, u64, u64) {
    let running = start(&lines.replace("LIVE", &live.to_string()).replace("DEAD", DEAD));
    let status = status(send(running.address, cookie));
    let counters = &running.shared.proxies[0].back;
    (status, counters.sum(Counter::Retries), counters.sum(Counter::Redispatches))
}

#[test]
fn tries_with_a_dead_server() {
    let live = origin();
    let check = |lines: &str, cookie: &str, expected: (u16, u64, u64)| {
        assert_eq!(ask(lines, live, cookie), expected, "{lines} {cookie}");
    };
    let both = " server dead DEAD cookie d\n server live LIVE cookie l\n";
    // Nothing ties the request to the dead server: at once to the other one.
    check(&format!(" option redispatch\n{both}"), "", (200, 0, 1));
    // Without redispatch, the same server is asked until no try is left.
    check(&format!(" retries 2\n{both}"), "", (503, 2, 0));
    check(&format!(" retries 0\n{both}"), "", (503, 0, 0));
    // Persistence ties it: the last try goes elsewhere, or those that the option names.
    check(&format!(" retries 3\n option redispatch\n{both}"), "d", (200, 2, 1));
    check(&format!(" retries 3\n option redispatch 1\n{both}"), "d", (200, 0, 1));
    check(&format!(" retries 3\n option redispatch 2\n{both}"), "d", (200, 1, 1));
    check(&format!(" retries 1\n{both}"), "d", (503, 1, 0));
    check(both, "l", (200, 0, 0));
    // There is no other one.
    check(" retries 2\n option redispatch\n server dead DEAD\n", "", (503, 2, 0));
    // A server that is known to be down is not asked at all.
    check(" server dead DEAD disabled\n server live LIVE\n", "d", (200, 0, 0));
    check(" server dead DEAD disabled\n", "", (503, 0, 0));
}

/// An origin that takes connections and never answers.
fn silent_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let open: Vec<_> = listener.incoming().collect();
        drop(open);
    });
    address
}

/// Waits for another thread to get somewhere.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[test]
fn waiting_for_a_slot() {
    let (live, silent) = (origin(), silent_origin());
    let lines = format!(
        " option redispatch\n server slow {silent} cookie s maxconn 1 maxqueue 1\n server live {live} cookie l\n"
    );
    let running = start(&format!(" timeout queue 100ms\n{lines}"));
    let state = &running.shared.proxies[0];
    let slow = state.server("slow").unwrap();
    // One holds the slot, the other waits until its time is over.
    let _holder = send(running.address, "s");
    until(|| slow.served.now() == 1);
    assert_eq!(status(send(running.address, "s")), 503);
    assert_eq!((slow.queue.len(), slow.queue.max()), (0, 1));
    // No room in the queue: to another one.
    let waiting = send(running.address, "s");
    until(|| slow.queue.len() == 1);
    assert_eq!(status(send(running.address, "s")), 200);
    assert_eq!(status(waiting), 503);
    drop(running);

    let running = start(&format!(" timeout queue 1m\n{lines}"));
    let state = &running.shared.proxies[0];
    let slow = state.server("slow").unwrap();
    let _holder = send(running.address, "s");
    until(|| slow.served.now() == 1);
    let waiting = send(running.address, "s");
    until(|| slow.queue.len() == 1);
    // The server goes: those who wait for it do not.
    running.shared.set_maint(&slow);
    assert_eq!(status(waiting), 200);
    // And the last one goes, too: nobody waits for nothing.
    running.shared.set_maint(&state.server("live").unwrap());
    assert_eq!(status(send(running.address, "s")), 503);
}

/// An origin that answers every request on a connection.
fn lasting_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).is_ok_and(|n| n > 0)
                    && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
                {
                }
            });
        }
    });
    address
}

#[test]
fn a_strict_limit_counts_idle_connections() {
    // Status of the requests of two clients in turn, and most connections to the server at once.
    let check = |threads: usize, lines: &str, expected: ([u16; 2], i64)| {
        let running = harness::start(&format!(
            "global\n nbthread {threads}\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n \
             timeout client 5s\nlisten l\n bind 127.0.0.1:0\n{lines}\n server s {} maxconn 1 strict-maxconn",
            lasting_origin()
        ));
        let ask = || {
            let mut client = TcpStream::connect(running.address).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).unwrap();
            (std::str::from_utf8(&answer[9..]).unwrap().parse().unwrap(), client)
        };
        let (first, second) = (ask(), ask());
        let server = running.shared.proxies[0].server("s").unwrap();
        assert_eq!(([first.0, second.0], server.open.max()), expected, "{threads} {lines}");
    };
    // What the first client's request left idle does not fit the second one's: it is closed.
    check(1, " http-reuse safe", ([200, 200], 1));
    check(3, " http-reuse safe", ([200, 200], 1));
    check(1, " http-reuse always", ([200, 200], 1));
    // Nobody may close what belongs to another client.
    check(1, " http-reuse never", ([200, 503], 1));
}
