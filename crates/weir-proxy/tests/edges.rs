//! HTTP/1 at its edges, over real sockets: what must not become a tunnel, what must not be reused, what is refused before
//! a server hears of it, and how many connections are left to servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::Running;

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Counts of an origin's connections, and the heads and bodies it was sent.
#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    open: AtomicUsize,
    bytes: Mutex<Vec<u8>>,
}

impl Seen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Waits until it was sent this.
    #[track_caller]
    fn hears(&self, expected: &str) {
        wait_for(expected, || self.text().contains(expected));
    }
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "still waiting: {what:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An origin that answers whatever ends with an empty line with these bytes, on as many connections as come.
fn origin(answer: &'static str) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Seen::default()));
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            shared.accepted.fetch_add(1, SeqCst);
            shared.open.fetch_add(1, SeqCst);
            let seen = Arc::clone(&shared);
            std::thread::spawn(move || {
                serve(stream, answer, &seen);
                seen.open.fetch_sub(1, SeqCst);
            });
        }
    });
    (address, seen)
}

fn serve(mut stream: TcpStream, answer: &str, seen: &Seen) {
    let mut received = Vec::new();
    let mut bytes = [0; 65_536];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        seen.bytes.lock().unwrap().extend_from_slice(&bytes[..n]);
        received.extend_from_slice(&bytes[..n]);
        while let Some(end) = received.windows(4).position(|end| end == b"\r\n\r\n") {
            received.drain(..end + 4);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn proxy(lines: &str, server: SocketAddr) -> Running {
    harness::start(&format!(
        "global\n nbthread 2\ndefaults\n mode http\n timeout connect 10s\n timeout server 10s\n timeout client 10s\n\
         listen l\n bind 127.0.0.1:0\n{lines}\n server s {server}\n"
    ))
}

fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends and receives until the end, or until this came.
fn say(mut stream: &TcpStream, bytes: &str, until: &str) -> String {
    stream.write_all(bytes.as_bytes()).unwrap();
    hear(stream, until)
}

fn hear(mut stream: &TcpStream, until: &str) -> String {
    let (mut received, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if !until.is_empty() && text.contains(until) {
            return text;
        }
        match stream.read(&mut bytes) {
            Ok(n @ 1..) => received.extend_from_slice(&bytes[..n]),
            _ => return text,
        }
    }
}

const ADMIN: &str = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_101_that_nobody_asked_for_opens_no_tunnel_past_the_rules() {
    let check = |asked: &str, answer: &'static str, status: &str| {
        let (server, seen) = origin(answer);
        let running = proxy(" http-request deny if { path /admin }", server);
        let stream = client(running.address);
        let first = say(&stream, &format!("GET / HTTP/1.1\r\nHost: a\r\n{asked}\r\n"), "\r\n\r\n");
        assert!(first.starts_with(&format!("HTTP/1.1 {status} ")), "{asked:?} {answer:?}: {first}");
        if status == "101" {
            return;
        }
        let second = say(&stream, ADMIN, "403 Forbidden</h1>");
        assert!(second.contains("HTTP/1.1 403 "), "{second}");
        assert!(!seen.text().contains("/admin"), "{}", seen.text());
    };
    const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: foo\r\n";
    const SWITCH: &str = "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n";
    check("", SWITCH, "502");
    check("", "HTTP/1.1 101 S\r\n\r\n", "502");
    check("Upgrade: foo\r\n", SWITCH, "502");
    check("Connection: upgrade\r\nUpgrade: h2c\r\n", SWITCH, "502");
    check(UPGRADE, "HTTP/1.1 101 S\r\n\r\n", "502");
    check(UPGRADE, "HTTP/1.1 101 S\r\nUpgrade: foo\r\n\r\n", "502");
    check(UPGRADE, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: bar\r\n\r\n", "502");
    check(UPGRADE, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: foo, bar\r\n\r\n", "502");
    check(UPGRADE, SWITCH, "101");
    check("Connection: upgrade\r\nUpgrade: bar, Foo\r\n", SWITCH, "101");
}

#[test]
fn an_upgrade_that_a_rule_took_away_is_not_asked_for() {
    let (server, seen) = origin("HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n");
    let running = proxy(" http-request del-header upgrade", server);
    let stream = client(running.address);
    let got =
        say(&stream, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n", "\r\n\r\n");
    assert!(got.starts_with("HTTP/1.1 502 "), "{got}");
    assert!(!seen.text().contains("upgrade"), "{}", seen.text());
}

#[test]
fn a_request_framed_like_a_smugglers_ends_both_connections() {
    let check = |head: &str| {
        let (server, seen) = origin(OK);
        let running = proxy(" http-reuse always", server);
        let body = "2\r\nab\r\n0\r\n\r\n";
        let got = say(&client(running.address), &format!("{head}{body}"), "");
        assert!(got.contains("200 OK") && got.ends_with("ok"), "{got}");
        wait_for("the server's connection ends", || seen.open.load(SeqCst) == 0);
        let got = say(&client(running.address), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
        assert!(got.contains("200 OK"), "{got}");
        assert_eq!(seen.accepted.load(SeqCst), 2);
    };
    check("POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n");
    check("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n");
}

#[test]
fn a_bad_chunk_behind_the_head_is_refused_before_a_server_is_asked() {
    let (server, seen) = origin(OK);
    let running = proxy("", server);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "zz\r\nab\r\n0\r\n\r\n",
        "2\r\nabzz\r\n0\r\n\r\n",
        "2\nab\r\n0\r\n\r\n",
        "2\r\nab\r\n0\r\na b\r\n\r\n",
    ] {
        let got = say(&client(running.address), &format!("{post}{body}"), "");
        assert!(got.starts_with("HTTP/1.1 400 "), "{body:?} {got}");
    }
    assert_eq!(seen.accepted.load(SeqCst), 0);
    // What follows the body is the next request's, whatever it looks like.
    let stream = client(running.address);
    let got = say(&stream, &format!("{post}2\r\nab\r\n0\r\n\r\n{ADMIN}"), "okHTTP");
    assert!(got.contains("200 OK"), "{got}");
}

#[test]
fn the_answer_to_connect_has_no_length_and_the_tunnel_no_chunks() {
    let (server, seen) = origin("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let running = proxy("", server);
    let stream = client(running.address);
    let got = say(&stream, "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "hello");
    assert_eq!(got, "HTTP/1.1 200 OK\r\n\r\nhello");
    (&stream).write_all(b"plain").unwrap();
    seen.hears("plain");
}

#[test]
fn requests_one_after_another_leave_no_pile_of_connections() {
    let (server, seen) = origin(OK);
    let running = proxy("", server);
    for _ in 0..300 {
        let got = say(&client(running.address), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
        assert!(got.contains("200 OK"), "{got}");
    }
    // One for each thread, and those that are on their way out.
    wait_for("the rest is closed", || seen.open.load(SeqCst) <= 4);
}

#[test]
fn clients_without_keep_alive_leave_as_many_connections_as_there_were_clients() {
    const CLIENTS: usize = 20;
    let (server, seen) = origin(OK);
    let running = proxy("", server);
    let address = running.address;
    let most_open = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let (seen, most_open) = (Arc::clone(&seen), Arc::clone(&most_open));
            scope.spawn(move || {
                for _ in 0..30 {
                    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                    assert!(say(&client(address), request, "").ends_with("ok"));
                    most_open.fetch_max(seen.open.load(SeqCst), SeqCst);
                }
            });
        }
    });
    // In use, idle, and those that the origin has not yet seen closing.
    assert!(most_open.load(SeqCst) <= 4 * CLIENTS, "{}", most_open.load(SeqCst));
    wait_for("the rest is closed", || seen.open.load(SeqCst) <= CLIENTS + 2);
}

#[test]
fn a_connection_that_is_needed_is_found_again() {
    let (server, seen) = origin(OK);
    let running = proxy(" http-reuse always", server);
    for _ in 0..50 {
        let got = say(&client(running.address), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
        assert!(got.contains("200 OK"), "{got}");
    }
    assert!(seen.accepted.load(SeqCst) <= 2, "{}", seen.accepted.load(SeqCst));
}

#[test]
fn a_client_that_said_all_it_has_still_gets_its_answer() {
    let (server, _seen) = origin(OK);
    // Manual, `option abortonclose`: by default, who closes its half has given up.
    let running = proxy(" no option abortonclose", server);
    let stream = client(running.address);
    (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let got = hear(&stream, "");
    assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with("ok"), "{got}");
}

#[test]
fn a_request_that_goes_round_in_a_circle_is_ended_after_a_few_turns() {
    let log = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(LIMIT)).unwrap();
    for mode in ["http", "tcp"] {
        // The port that the client connected to is the listener's.
        let running = harness::start(&format!(
            "global\n nbthread 2\n log {} format raw local0\ndefaults\n mode {mode}\n timeout connect 10s\n \
             timeout server 10s\n timeout client 10s\nlisten l\n log global\n bind 127.0.0.1:0\n server s 127.0.0.1\n",
            log.local_addr().unwrap()
        ));
        let got = say(&client(running.address), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "</html>");
        if mode == "http" {
            assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
        }
        let accepted = running.shared.total_connections.load(SeqCst);
        assert!((2..200).contains(&accepted), "{mode}: {accepted}");
        let mut line = [0; 1024];
        let expected = "l/s leads back to this process at 127.0.0.1:";
        loop {
            let length = log.recv(&mut line).unwrap();
            if String::from_utf8_lossy(&line[..length]).contains(expected) {
                break;
            }
        }
    }
}

#[test]
fn a_chain_through_this_process_is_no_circle() {
    let (server, _seen) = origin(OK);
    // A port that is free now, for the second listener.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running = harness::start(&format!(
        "global\n nbthread 2\ndefaults\n mode http\n timeout connect 10s\n timeout server 10s\n timeout client 10s\n\
         listen a\n bind 127.0.0.1:0\n server s 127.0.0.1:{port}\n\
         listen b\n bind 127.0.0.1:{port}\n server s {server}\n"
    ));
    for _ in 0..40 {
        let stream = client(running.address);
        for _ in 0..3 {
            let got = say(&stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
            assert!(got.contains("200 OK"), "{got}");
        }
    }
}

#[test]
fn a_silent_drop_says_nothing_even_on_the_same_host() {
    let (server, _seen) = origin(OK);
    let running = proxy(" http-request silent-drop if { path /drop }", server);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    if weir_net::kernel::stay_silent(&client(elsewhere.local_addr().unwrap())).is_err() {
        // The system does not allow it to this user: a reset that goes over one link is all there is.
        return;
    }
    let stream = client(running.address);
    (&stream).write_all(b"GET /drop HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_for("the connection is gone here", || running.shared.connections.load(SeqCst) == 0);
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let heard = (&stream).read(&mut [0; 1]);
    assert!(heard.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn a_tarpit_holds_a_client_that_said_all_it_has() {
    let (server, _seen) = origin(OK);
    let running = proxy(" timeout tarpit 300ms\n http-request tarpit", server);
    let stream = client(running.address);
    let start = Instant::now();
    (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let got = hear(&stream, "");
    assert!(got.starts_with("HTTP/1.1 500 "), "{got}");
    assert!(start.elapsed() >= Duration::from_millis(290), "{:?}", start.elapsed());
}

#[test]
fn an_inserted_cookie_takes_the_place_of_the_servers_own() {
    let (server, _seen) = origin(
        "HTTP/1.1 200 OK\r\nSet-Cookie: S=x; Secure\r\nSet-Cookie: T=y\r\nContent-Length: 2\r\n\r\nok",
    );
    let check = |words: &str, sent: &str, expected: &[&str]| {
        let running = harness::start(&format!(
            "defaults\n mode http\n timeout connect 10s\n timeout server 10s\n timeout client 10s\n\
             listen l\n bind 127.0.0.1:0\n cookie S {words}\n server s {server} cookie a\n"
        ));
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {sent}\r\nConnection: close\r\n\r\n");
        let got = say(&client(running.address), &request, "");
        let cookies: Vec<&str> = got.lines().filter_map(|line| line.strip_prefix("set-cookie: ")).collect();
        assert_eq!(cookies, expected, "{words} {sent}");
    };
    check("insert", "q=1", &["T=y", "S=a; path=/"]);
    check("insert", "S=a", &["T=y"]);
    check("insert indirect nocache", "S=zz", &["T=y", "S=a; path=/"]);
    check("insert preserve", "q=1", &["S=x; Secure", "T=y"]);
    check("rewrite", "q=1", &["S=a; Secure", "T=y"]);
}

#[test]
fn the_user_in_a_target_has_cache_entries_of_his_own() {
    let (server, seen) =
        origin("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
    let running = harness::start(&format!(
        "cache c\n total-max-size 1\ndefaults\n mode http\n timeout connect 10s\n timeout server 10s\n \
         timeout client 10s\nlisten l\n bind 127.0.0.1:0\n http-request cache-use c\n http-response cache-store c\n \
         server s {server}\n"
    ));
    for target in ["http://a/x", "http://u@a/x", "http://v@a/x", "http://a/x", "http://u@a/x"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(say(&client(running.address), &request, "ok").contains("200 OK"), "{target}");
    }
    assert_eq!(seen.text().matches("GET ").count(), 3, "{}", seen.text());
}

#[test]
fn a_port_that_was_set_later_is_the_servers_own() {
    let (server, _seen) = origin(OK);
    // Without a port on its line a server has the client's, which here is the listener's.
    let running = harness::start(
        "defaults\n mode http\n timeout connect 10s\n timeout server 10s\n timeout client 10s\n\
         listen l\n bind 127.0.0.1:0\n server s 127.0.0.9\n",
    );
    let set = Arc::clone(&running.shared.proxies[0].servers.load()[0]);
    let address = Some(weir_net::Address::Ip(server));
    set.set_target(weir_proxy::state::ServerTarget { address, name: None });
    let got = say(&client(running.address), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
    assert!(got.contains("200 OK"), "{got}");
}

#[test]
fn a_connect_over_http2_sends_plain_bytes() {
    use weir_http::h2::{Connection, Event, Settings};
    let (server, seen) = origin("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nback");
    let running = harness::start(&format!(
        "defaults\n mode http\n timeout connect 10s\n timeout server 10s\n timeout client 10s\n\
         listen l\n bind 127.0.0.1:0 proto h2\n server s {server}\n"
    ));
    let mut stream = client(running.address);
    let mut core = Connection::client(Settings::default());
    let mut request = weir_http::Request::default();
    request.set_method(b"CONNECT");
    request.set_uri(b"a:80");
    request.fields.push(b"host", b"a:80");
    let tunnel = core.send_request(&request, false).unwrap();
    let (mut sent, mut came) = (false, Vec::new());
    let mut bytes = [0; 4096];
    while came != b"back" {
        stream.write_all(core.output()).unwrap();
        core.advance_output(core.output().len());
        let n = stream.read(&mut bytes).unwrap();
        assert!(n > 0, "{}", seen.text());
        core.receive(&bytes[..n]).unwrap();
        while let Some(event) = core.poll_event() {
            if let Event::Response { response, .. } = &event {
                assert_eq!(response.status, 200);
                assert!(!response.fields.has(weir_http::FieldName::TransferEncoding));
            }
        }
        came.extend_from_slice(core.received(tunnel));
        core.consume(tunnel, core.received(tunnel).len());
        if !std::mem::replace(&mut sent, true) {
            assert_eq!(core.send_data(tunnel, b"plain", false), Ok(5));
        }
    }
    stream.write_all(core.output()).unwrap();
    seen.hears("\r\n\r\nplain");
    assert!(!seen.text().contains("chunked"), "{}", seen.text());
}

#[test]
fn a_101_made_by_rules_says_to_what_it_switches() {
    let origin = harness::start(
        "defaults\n mode http\n timeout client 10s\nfrontend o\n bind 127.0.0.1:0\n \
         http-request return status 200 hdr connection upgrade hdr upgrade foo\n \
         http-after-response set-status 101\n",
    );
    let running = proxy("", origin.address);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n";
    let got = say(&client(running.address), request, "\r\n\r\n");
    assert!(got.starts_with("HTTP/1.1 101 "), "{got}");
    assert!(got.contains("\r\nupgrade: foo\r\nconnection: upgrade\r\n"), "{got}");
}
