//! Keywords that a client can tell by the answer it gets: small configurations over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

use harness::Running;
use harness::reading::read_head;
use weir_proxy::state::counters::Counter;

/// A process with this configuration, and where its first line listens.
fn start(global: &str, proxies: &str) -> Running {
    let text = format!(
        "global\n nbthread 1\n{global}\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n \
         timeout client 5s\n{proxies}"
    );
    harness::start(&text)
}

/// Sends this and returns all that comes back until the connection closes.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// The status of the answer to a GET.
fn status(address: SocketAddr, path: &str) -> u16 {
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A server that answers one request with no more than the field of the request that is asked for.
fn echo(field: &'static str) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let head = read_head(&mut client).unwrap_or_default();
        let value = head.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        let answer = format!("HTTP/1.1 200 OK\r\nx-server{value}\r\ncontent-length: 0\r\n\r\n");
        client.write_all(answer.as_bytes()).unwrap();
    });
    address
}

#[test]
fn the_unique_id_is_made_on_first_use_and_stays() {
    let origin = echo("x-id");
    let format = "unique-id-format \"%{+X}o %rt-%[rand(1000000)]-%[req.hdr(x-a)]\"";
    let running = start(
        "",
        &format!(
            "frontend fe\n bind 127.0.0.1:0\n {format}\n unique-id-header x-id\n \
             http-request set-header x-a early\n http-request set-var(txn.id) unique-id\n \
             http-request set-header x-a late\n http-request return status 200 hdr x-rule %[unique-id] if {{ path /r }}\n \
             http-after-response set-header x-var %[var(txn.id)]\n http-after-response set-header x-alias %ID\n \
             default_backend be\nbackend be\n server s {origin}\n"
        ),
    );
    let fields = |path: &str| {
        let answer =
            ask(running.address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        let field =
            |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("none").to_owned();
        ["x-var: ", "x-alias: ", "x-server: ", "x-rule: "].map(field)
    };
    let [of_rule, in_log_words, at_server, _] = fields("/");
    assert!(of_rule.ends_with("-early") && !of_rule.starts_with(' '), "{of_rule}");
    assert_eq!([&in_log_words, &at_server], [&of_rule; 2]);
    let [second, _, _, in_reply] = fields("/r");
    assert_eq!(second, in_reply);
    assert_ne!(second, of_rule);
}

#[test]
fn unpublished_backends_are_passed_over() {
    let running = start(
        "",
        "frontend fe\n bind 127.0.0.1:0\n force-be-switch if { path -m sub force }\n \
         use_backend new if { path_beg /n }\n use_backend %[path,field(2,/)] if { path_beg /gone }\n \
         use_backend off if { path_beg /o }\n use_backend old if { path_end n }\n default_backend rest\n\
         backend new\n be-unpublished\n http-request return status 201\n\
         backend old\n http-request return status 202\n\
         backend gone\n be-unpublished\n http-request return status 400\n\
         backend off\n disabled\n http-request return status 403\n\
         backend rest\n http-request return status 200\n",
    );
    let new = running.shared.proxy_index("new", true).unwrap();
    let check = |path: &str, expected: u16| assert_eq!(status(running.address, path), expected, "{path}");
    check("/n", 202);
    check("/nx", 200);
    check("/n/force", 201);
    check("/gone", 200);
    check("/o", 200);
    check("/o/force", 403);
    running.shared.proxies[new].published.store(true, Relaxed);
    check("/n", 201);
    // Nothing is left: as without any rule.
    let rest = running.shared.proxy_index("rest", true).unwrap();
    running.shared.proxies[rest].published.store(false, Relaxed);
    check("/x", 503);
}

#[test]
fn variables_have_their_limits() {
    let running = start(
        " tune.vars.reqres-max-size 20\n tune.vars.txn-max-size 30\n tune.vars.sess-max-size 40\n \
         tune.vars.proc-max-size 50\n set-var-fmt proc.a 1234567890",
        "frontend fe\n bind 127.0.0.1:0\n \
         http-request set-var-fmt(req.a) %[path]\n http-request set-var-fmt(txn.a) %[path]\n \
         http-request set-var-fmt(sess.a) %[path]\n http-request set-var-fmt(txn.b) %[path] if { path -m sub again }\n \
         http-request return status 200 hdr x %[var(req.a)]|%[var(txn.a)]|%[var(sess.a)]|%[var(txn.b)]|%[var(proc.a)]\n",
    );
    let check = |path: &str, expected: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = ask(running.address, &request);
        let line = answer.lines().find_map(|line| line.strip_prefix("x: ")).map(str::to_owned);
        assert_eq!(line.as_deref(), Some(expected), "{answer}");
    };
    check("/234567890", "/234567890|/234567890|/234567890||1234567890");
    // 18 of 20, then 36 of 30, then 36 of 40; the process has 10 itself.
    check("/23456789012345678", "/23456789012345678||/23456789012345678||1234567890");
    check("/2345678901234567890123", "|/2345678901234567890123|||1234567890");
    check("/again", "/again|/again|/again|/again|1234567890");
    // Requests that are over count no more.
    check("/again/2345", "/again/2345|/again/2345|/again/2345||1234567890");
}

#[test]
fn forward_proxies_use_proxy_connection() {
    let running = start(
        "",
        "frontend fe\n bind 127.0.0.1:0\n option http-use-proxy-header\n \
         http-request auth realm r if { path /auth }\n http-request return status 200\n",
    );
    let check = |request: &str, expected: &str| {
        let answer = ask(running.address, request);
        assert!(answer.contains(expected), "{request}: {answer}");
    };
    let proxied = "Host: x\r\nProxy-Connection: close\r\n\r\n";
    check(&format!("GET http://x/ HTTP/1.1\r\n{proxied}"), "\r\nproxy-connection: close\r\n");
    check(&format!("GET http://x/auth HTTP/1.1\r\n{proxied}"), "HTTP/1.1 407 ");
    check("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "\r\nconnection: close\r\n");
}

/// Sends a request on an open connection and returns the head of the answer, which has no body.
fn head(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    read_head(client).unwrap()
}

#[test]
fn a_soft_stop_closes_connections_in_its_time() {
    let check = |global: &str, closes: bool| {
        let lines = "frontend fe\n bind 127.0.0.1:0\n http-request return status 200\n";
        let running = start(global, lines);
        let mut client = TcpStream::connect(running.address).unwrap();
        assert!(!head(&mut client).contains("connection: close"));
        running.soft_stop();
        assert_eq!(head(&mut client).contains("connection: close"), closes, "{global}");
        drop(client);
        running.wait();
    };
    check("", true);
    check(" close-spread-time infinite", false);
    check(" close-spread-time 0", true);
    check(" close-spread-time 1h", false);
}

#[test]
fn rules_may_wait_for_large_bodies() {
    let check = |global: &str, words: &str, expected: &str| {
        let lines = format!(
            "frontend fe\n bind 127.0.0.1:0\n http-request wait-for-body time 5s {words}\n \
             http-request return status 200 hdr x %[req.body,length]\n"
        );
        let running = start(global, &lines);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\nConnection: close\r\n\r\n{}",
            "b".repeat(50_000)
        );
        let answer = ask(running.address, &request);
        assert!(answer.contains(&format!("\r\nx: {expected}\r\n")), "{global} {words}: {answer}");
    };
    let large = " tune.bufsize.large 64k";
    check(large, "use-large-buffer", "50000");
    check(large, "", "16384");
    check("", "use-large-buffer", "16384");
    check(" tune.bufsize.large 32k", "use-large-buffer", "32768");
}

#[test]
fn netscaler_tells_the_clients_address() {
    let running = start(
        "",
        "frontend fe\n bind 127.0.0.1:0 accept-netscaler-cip 16909060\n \
         tcp-request connection reject unless { src 127.0.0.1 }\n \
         http-request return status 200 hdr x %[src]:%[src_port]-%[dst]:%[dst_port]\n",
    );
    let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
    let tcp = [&[0x30, 0x39, 0x01, 0xbb][..], &[0; 16]].concat();
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let check = |start: &[u8], expected: &str| {
        let mut client = TcpStream::connect(running.address).unwrap();
        client.write_all(&[start, &ip, &tcp, request].concat()).unwrap();
        let mut answer = String::new();
        let _reset = client.read_to_string(&mut answer);
        assert_eq!(answer.lines().find_map(|line| line.strip_prefix("x: ")).unwrap_or(""), expected);
    };
    check(&[1, 2, 3, 4, 0, 0, 0, 40], "192.0.2.1:12345-198.51.100.2:443");
    check(&[1, 2, 3, 4, 0, 0, 0, 52, 0, 1, 0, 40], "192.0.2.1:12345-198.51.100.2:443");
    check(&[1, 2, 3, 5, 0, 0, 0, 40], "");
    check(&[], "");
}

#[test]
fn rules_expect_a_header_from_some() {
    let check = |rules: &str, header: &str, expected: Option<&str>| {
        let running = start(
            "",
            &format!(
                "frontend fe\n bind 127.0.0.1:0\n{rules}\n http-request return status 200 content-type text/plain lf-string %[src]\n"
            ),
        );
        let request = format!("{header}GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = ask(running.address, &request);
        match expected {
            Some(expected) => assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{rules} {answer}"),
            None => assert!(!answer.contains("200 OK"), "{rules} {answer}"),
        }
    };
    const HEADER: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n";
    check(" tcp-request connection expect-proxy layer4", HEADER, Some("192.0.2.1"));
    check(" tcp-request connection expect-proxy layer4 if { src 127.0.0.1 }", HEADER, Some("192.0.2.1"));
    check(" tcp-request connection expect-proxy layer4 if { src 10.0.0.0/8 }", "", Some("127.0.0.1"));
    check(" tcp-request connection expect-proxy layer4", "", None);
    check(" tcp-request connection expect-netscaler-cip layer4", "", None);
    // Rules before the header see the connection's address, rules on the session the one that was told.
    let rules =
        " tcp-request connection expect-proxy layer4\n tcp-request connection reject if { src 192.0.2.1 }";
    check(rules, HEADER, Some("192.0.2.1"));
    let rules =
        " tcp-request connection expect-proxy layer4\n tcp-request session reject if { src 192.0.2.1 }";
    check(rules, HEADER, None);
}

#[test]
fn independent_streams_give_a_silent_server_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap();
    let running = start(
        "",
        &format!(
            "listen l\n mode tcp\n bind 127.0.0.1:0\n timeout server 200ms\n option independent-streams\n \
             server s {server}\n"
        ),
    );
    let mut client = TcpStream::connect(running.address).unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    // What is sent to the server does not keep the connection: this ends.
    loop {
        let sent = client.write_all(b"x");
        let over = matches!(client.read(&mut [0]), Ok(0)) || sent.is_err();
        if over {
            break;
        }
    }
}

#[test]
fn a_client_may_break_rules_only_so_often() {
    // Three quarters of the threshold end the connection with an answer, all of it without one.
    let check = |global: &str, expected: &[bool]| {
        let running = start(
            global,
            "frontend fe\n bind 127.0.0.1:0\n option accept-unsafe-violations-in-http-request\n \
             http-request return status 200 hdr x %[fc_glitches]\n",
        );
        let mut client = TcpStream::connect(running.address).unwrap();
        for (number, closes) in expected.iter().enumerate() {
            client.write_all(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let head = read_head(&mut client).unwrap();
            assert!(head.contains(&format!("x: {}\r\n", number + 1)), "{global} {number}: {head}");
            assert_eq!(head.contains("connection: close"), *closes, "{global} {number}: {head}");
        }
        drop(client);
    };
    check("", &[false, false, false, false]);
    check(" tune.h1.fe.glitches-threshold 4", &[false, false, true]);
    let running = start(
        " tune.h1.fe.glitches-threshold 1",
        "frontend fe\n bind 127.0.0.1:0\n option accept-unsafe-violations-in-http-request\n \
         http-request return status 200\n",
    );
    let mut client = TcpStream::connect(running.address).unwrap();
    client.write_all(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _closed = client.read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[test]
fn a_body_that_was_there_already_does_not_end_the_connection() {
    let running =
        start("", "frontend fe\n bind 127.0.0.1:0\n http-request return status 200 hdr x %[req.body_len]\n");
    // All at once, so that it comes in one piece; the proxy closes when it is done.
    let check = |sent: &str, expected: usize| {
        let mut client = TcpStream::connect(running.address).unwrap();
        client.write_all(sent.as_bytes()).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200").count(), expected, "{sent:?}: {answers}");
    };
    let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    check(&format!("{post}hello{last}"), 2);
    check(&format!("{chunked}{chunked}{last}"), 3);
    check(&format!("{post}hel"), 1);
}

#[test]
fn response_rules_do_not_see_the_cookie_of_persistence() {
    let origin = start(
        "",
        "frontend o\n bind 127.0.0.1:0\n http-request return status 200 hdr set-cookie a=b hdr etag x\n",
    );
    let running = start(
        "",
        &format!(
            "frontend fe\n bind 127.0.0.1:0\n default_backend be\n\
             backend be\n cookie SRV insert nocache\n server s {} cookie one\n \
             http-response replace-header Set-Cookie (.*) \\1;\\ Secure\n http-response set-header x %[res.cook(SRV)].\n \
             http-after-response set-header y %[res.cook(SRV)]\n",
            origin.address
        ),
    );
    let answer = ask(running.address, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for line in
        ["set-cookie: a=b; Secure", "set-cookie: SRV=one; path=/", "x: .", "y: one", "cache-control: private"]
    {
        assert!(answer.lines().any(|l| l == line), "{line}\n{answer}");
    }
}

#[test]
fn tcp_rules_see_later_bytes_and_capture_them() {
    let origin = start("", "frontend o\n bind 127.0.0.1:0\n http-request return status 201\n");
    let running = start(
        "",
        &format!(
            "frontend fe\n mode tcp\n bind 127.0.0.1:0\n tcp-request inspect-delay 5s\n \
             tcp-request content set-var(sess.method) req.payload(0,3)\n \
             tcp-request content capture req.payload(0,9) len 3\n \
             tcp-request content accept if {{ req.len gt 9 }}\n \
             use_backend %[var(sess.method)]-%[capture.req.hdr(0)]\n\
             backend GET-GET\n mode tcp\n server s {}\n",
            origin.address
        ),
    );
    let mut client = TcpStream::connect(running.address).unwrap();
    client.write_all(b"GE").unwrap();
    client.write_all(b"T / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[test]
fn answers_are_counted_by_what_happened() {
    let origin = start("", "frontend o\n bind 127.0.0.1:0\n http-request return status 200\n");
    let running = start(
        "",
        &format!(
            "frontend fe\n bind 127.0.0.1:0\n errorloc302 403 /elsewhere\n \
             http-request set-header x %[str(x),digest(sha512),hex]\n http-request deny if {{ path /deny }}\n \
             default_backend be\n\
             backend be\n http-response set-status 503\n use-server s if {{ path /named }}\n server s {}\n",
            origin.address
        ),
    );
    assert_eq!(status(running.address, "/deny"), 302);
    assert_eq!(status(running.address, "/"), 503);
    assert_eq!(status(running.address, "/named"), 503);
    let proxies = &running.shared.proxies;
    let front = |counter| proxies[running.shared.proxy_index("fe", false).unwrap()].front.sum(counter);
    let back = |counter| proxies[running.shared.proxy_index("be", true).unwrap()].back.sum(counter);
    assert_eq!([Counter::Status3xx, Counter::Status4xx, Counter::Status5xx].map(front), [0, 1, 2]);
    assert_eq!([Counter::Status2xx, Counter::Status5xx, Counter::Selected].map(back), [0, 2, 1]);
    // What came from the client, without the long field of the rule.
    let sent = ["/", "/named"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").len());
    assert!(back(Counter::BytesIn) <= sent.iter().sum::<usize>() as u64, "{}", back(Counter::BytesIn));
}
