//! Bodies that are compressed on their way, over real sockets: when they are and when not, what becomes of their
//! heads, that small pieces arrive at once, and how filters follow each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::Running;
use harness::reading::{exactly, read_chunk, read_head};
use weir_http::h2::{Connection, Event, Settings};
use weir_http::{Request, Version};
use weir_proxy::state::counters::Counter;

/// A test that waits longer than this waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message as text: its head, and its body with the framing taken off.
#[derive(Debug, Default, Clone)]
struct Message {
    head: String,
    body: Vec<u8>,
}

impl Message {
    /// Reads one from a stream; `None` when the peer closed before.
    fn read(stream: &mut TcpStream, has_body: bool) -> Option<Self> {
        let mut message = Self { head: read_head(stream)?, body: Vec::new() };
        let bodyless = ["HTTP/1.1 204", "HTTP/1.1 304"].iter().any(|start| message.head.starts_with(start));
        if !has_body || bodyless {
            return Some(message);
        }
        if let Some(length) = message.field("content-length") {
            message.body = exactly(stream, length.parse().unwrap());
        } else if message.field("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = read_chunk(stream) {
                message.body.extend_from_slice(&chunk);
            }
        } else if message.head.starts_with("HTTP/") {
            stream.read_to_end(&mut message.body).unwrap();
        }
        Some(message)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let values = self.fields(name);
        assert!(values.len() < 2, "{name} stands twice in {}", self.head);
        values.first().copied()
    }

    fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    /// The body as it was before it was encoded.
    fn decoded(&self) -> Vec<u8> {
        decode(self.field("content-encoding"), &self.body)
    }
}

fn decode(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        None => out.extend_from_slice(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap()),
        Some("deflate") => drop(flate2::read::ZlibDecoder::new(body).read_to_end(&mut out).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap()),
        Some("zstd") => out = zstd::stream::decode_all(body).unwrap(),
        Some(other) => panic!("unknown coding {other}"),
    }
    out
}

/// What an origin does with a request's connection.
type Answer = dyn Fn(&mut TcpStream, &Message) + Send + Sync;

/// An origin whose connections are answered by `answer`, and what it was sent.
fn origin(
    answer: impl Fn(&mut TcpStream, &Message) + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<Message>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), seen, answer) = (stream, Arc::clone(&seen), Arc::clone(&answer)) else {
                return;
            };
            std::thread::spawn(move || {
                while let Some(request) = Message::read(&mut stream, true) {
                    seen.lock().unwrap().push(request.clone());
                    answer(&mut stream, &request);
                }
            });
        }
    });
    (address, requests)
}

/// A proxy with these sections before its listener, and these lines in it.
fn start(global: &str, lines: &str) -> Running {
    let text = format!(
        "global\n nbthread 1\n{global}defaults\n mode http\n timeout connect 5s\n timeout server 20s\n timeout client 20s\n\
         listen l\n bind 127.0.0.1:0\n{lines}"
    );
    harness::start(&text)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request's head and body and reads the answer.
fn ask(address: SocketAddr, head: &str, body: &[u8]) -> Message {
    let mut stream = connect(address);
    stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).unwrap();
    Message::read(&mut stream, !head.starts_with("HEAD")).unwrap()
}

fn page() -> Vec<u8> {
    (0..60).map(|i| format!("<p id=\"{i}\">line {} of a page</p>\n", i * i)).collect::<String>().into_bytes()
}

/// An answer with this status line and these fields, and the page.
fn answer(status: &str, fields: &str) -> Vec<u8> {
    let page = page();
    [format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", page.len()).as_bytes(), &page]
        .concat()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n";
const HTML: &str = "Content-Type: text/html\r\n";

#[test]
fn responses_are_compressed_or_left_alone() {
    let lines =
        "compression algo gzip\n compression type text/html text/plain\n compression minsize-res 100\n";
    let current = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::clone(&current);
    let (server, _) = origin(move |stream, _| {
        stream.write_all(&script.lock().unwrap()).unwrap();
        let _closed = stream.shutdown(std::net::Shutdown::Both);
    });
    let running = start("", &format!(" {lines} server s {server}\n"));
    let check = |head: &str, response: &[u8], compressed: bool| -> Message {
        *current.lock().unwrap() = response.to_vec();
        let answer = ask(running.address, head, b"");
        let shown = format!("{head}{}\n{}", String::from_utf8_lossy(&response[..60]), answer.head);
        assert_eq!(answer.field("content-encoding") == Some("gzip"), compressed, "{shown}");
        if compressed {
            assert_eq!(answer.field("transfer-encoding"), Some("chunked"), "{shown}");
            assert_eq!(answer.field("content-length"), None, "{shown}");
            assert!(answer.fields("vary").iter().any(|v| v.to_ascii_lowercase().contains("accept-encoding")));
            assert_eq!(answer.decoded(), page(), "{shown}");
        }
        answer
    };
    let ok = |fields: &str| answer("200 OK", &format!("{HTML}{fields}"));
    check(GET, &ok(""), true);
    for status in ["201 Created", "202 Accepted", "203 Other"] {
        check(GET, &answer(status, HTML), true);
    }
    for status in ["206 Partial Content", "404 Not Found", "500 Oh"] {
        let left = check(GET, &answer(status, HTML), false);
        assert_eq!((left.fields("vary").len(), left.body), (0, page()));
    }
    let empty = |status: &str| format!("HTTP/1.1 {status}\r\n{HTML}Etag: \"1\"\r\nX-Long: {:060}\r\n\r\n", 0);
    check(GET, empty("204 No Content").as_bytes(), false);
    let unchanged = check(GET, empty("304 Not Modified").as_bytes(), false);
    assert_eq!(unchanged.field("etag"), Some("\"1\""));
    // The request.
    check("GET / HTTP/1.1\r\nHost: x\r\n", &ok(""), false);
    check("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=0\r\n", &ok(""), false);
    check("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br, *\r\n", &ok(""), true);
    check("GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\n", &ok(""), false);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n", &ok(""), false);
    check(&format!("{GET}User-Agent: Mozilla/4\r\n"), &ok(""), false);
    let head = check(&GET.replace("GET", "HEAD"), &ok(""), false);
    assert_eq!(head.field("content-length"), Some(page().len().to_string().as_str()));
    // The response's head.
    check(GET, &ok("Content-Encoding: br\r\n"), false);
    check(GET, &ok("Cache-Control: public, no-transform\r\n"), false);
    check(GET, &ok("Etag: unquoted\r\n"), false);
    check(GET, &ok("Etag: \"1\"\r\nEtag: \"2\"\r\n"), false);
    check(GET, &answer("200 OK", "Content-Type: image/png\r\n"), false);
    check(GET, &answer("200 OK", "Content-Type: multipart/mixed\r\n"), false);
    check(GET, &answer("200 OK", ""), false);
    check(GET, &[b"HTTP/1.0 200 OK\r\n", &ok("")[17..]].concat(), false);
    let short = format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 99\r\n\r\n{:099}", 0);
    assert_eq!(check(GET, short.as_bytes(), false).body.len(), 99);
    let until_close = format!("HTTP/1.1 200 OK\r\n{HTML}\r\n{:099}", 0);
    assert_eq!(check(GET, until_close.as_bytes(), false).body.len(), 99);
    // What changes in it.
    assert_eq!(check(GET, &ok("Etag: \"1\"\r\n"), true).field("etag"), Some("W/\"1\""));
    assert_eq!(check(GET, &ok("Etag: W/\"1\"\r\n"), true).field("etag"), Some("W/\"1\""));
    assert_eq!(check(GET, &ok(""), true).field("vary"), Some("Accept-Encoding"));
    assert_eq!(check(GET, &ok("Vary: Origin\r\n"), true).field("vary"), Some("Origin,Accept-Encoding"));
    assert_eq!(check(GET, &ok("Vary: accept-encoding\r\n"), true).field("vary"), Some("accept-encoding"));
}

#[test]
fn algorithms_are_chosen_in_the_order_of_the_configuration() {
    let (server, _) = origin(|stream, _| stream.write_all(&answer("200 OK", HTML)).unwrap());
    let lines = format!(
        " compression algo zstd br gzip\n http-response set-header algo %[res.comp_algo]\n http-after-response set-header algo %[res.comp_algo]\n server s {server}\n"
    );
    let running = start("", &lines);
    let check = |accepted: &str, expected: Option<&str>| {
        let answer = ask(
            running.address,
            &format!("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accepted}\r\n"),
            b"",
        );
        assert_eq!(answer.field("content-encoding"), expected, "{accepted}");
        assert_eq!(answer.field("algo").filter(|algo| !algo.is_empty()), expected, "{accepted}");
        assert_eq!(answer.decoded(), page(), "{accepted}");
    };
    check("gzip, deflate, br, zstd", Some("zstd"));
    check("gzip, br", Some("br"));
    check("gzip, br;q=0.5", Some("gzip"));
    check("*", Some("zstd"));
    check("zstd;q=0, *;q=0.1", Some("br"));
    check("identity", None);
    check("deflate", None);
}

/// An origin that sends a chunk for each message of the channel, the last one empty.
fn trickling_origin() -> (SocketAddr, Sender<&'static str>) {
    let (sender, receiver): (Sender<&'static str>, Receiver<&'static str>) = channel();
    let receiver = Mutex::new(receiver);
    let (server, _) = origin(move |stream, _| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        loop {
            let piece = receiver.lock().unwrap().recv().unwrap();
            stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).unwrap();
            if piece.is_empty() {
                return;
            }
        }
    });
    (server, sender)
}

const EVENTS: [&str; 3] = ["data: one\n\n", "data: two, somewhat longer\n\n", "data: 3\n\n"];

/// Everything that can be read of a stream whose end is missing.
fn decoded_so_far(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read> = match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(body)),
        "br" => Box::new(brotli::Decompressor::new(body, 4096)),
        _ => Box::new(zstd::stream::read::Decoder::new(body).unwrap()),
    };
    let (mut out, mut byte) = (Vec::new(), [0]);
    while matches!(reader.read(&mut byte), Ok(1)) {
        out.push(byte[0]);
    }
    out
}

/// Each event is sent only when the client has the one before: one that was held back would hang the test.
#[test]
fn events_arrive_at_once_over_http1() {
    for coding in ["gzip", "br", "zstd"] {
        let (server, send) = trickling_origin();
        let running = start("", &format!(" compression algo {coding}\n server s {server}\n"));
        let mut client = connect(running.address);
        client
            .write_all(format!("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n").as_bytes())
            .unwrap();
        let (mut body, mut expected) = (Vec::new(), String::new());
        for (at, event) in EVENTS.iter().enumerate() {
            send.send(event).unwrap();
            expected += event;
            if at == 0 {
                let head = Message::read(&mut client, false).unwrap();
                assert_eq!(head.field("content-encoding"), Some(coding));
            }
            while decoded_so_far(coding, &body) != expected.as_bytes() {
                body.extend(read_chunk(&mut client).expect("more of the body"));
            }
        }
        send.send("").unwrap();
        while let Some(chunk) = read_chunk(&mut client) {
            body.extend(chunk);
        }
        assert_eq!(decode(Some(coding), &body), expected.as_bytes());
    }
}

#[test]
fn events_are_smaller_with_memory_for_windows() {
    let mut sizes = Vec::new();
    for global in ["", " tune.comp.window-memory 1m\n"] {
        let (server, send) = trickling_origin();
        let running = start(global, &format!(" compression algo gzip\n server s {server}\n"));
        let mut client = connect(running.address);
        client.write_all(format!("{GET}\r\n").as_bytes()).unwrap();
        let event = "data: the same event, which says the same each time that it is sent\n\n";
        let (mut body, mut expected) = (Vec::new(), String::new());
        for at in 0..5 {
            send.send(event).unwrap();
            expected += event;
            if at == 0 {
                assert_eq!(
                    Message::read(&mut client, false).unwrap().field("content-encoding"),
                    Some("gzip")
                );
            }
            while decoded_so_far("gzip", &body) != expected.as_bytes() {
                body.extend(read_chunk(&mut client).expect("more of the body"));
            }
        }
        sizes.push(body.len());
    }
    assert!(sizes[1] < sizes[0] * 2 / 3, "{sizes:?}");
}

/// A client of HTTP/2 with one request on it.
struct H2Client {
    core: Connection,
    socket: TcpStream,
    body: Vec<u8>,
    coding: Option<Vec<u8>>,
    ended: bool,
    /// The proxy reset the stream.
    cut: bool,
    /// What is received of a frame that is not complete.
    part: Vec<u8>,
}

impl H2Client {
    fn ask(address: SocketAddr, coding: &str) -> Self {
        Self::ask_for(address, "/", coding)
    }

    fn ask_for(address: SocketAddr, path: &str, coding: &str) -> Self {
        let mut request = Request::default();
        request.set_method(b"GET");
        request.set_uri(format!("http://x{path}").as_bytes());
        request.version = Version::Http2;
        request.fields.push(b"host", b"x");
        request.fields.push(b"accept-encoding", coding.as_bytes());
        let mut core = Connection::client(Settings::default());
        core.send_request(&request, true).unwrap();
        Self {
            core,
            socket: connect(address),
            body: Vec::new(),
            coding: None,
            ended: false,
            cut: false,
            part: Vec::new(),
        }
    }

    /// Sends what waits, reads once.
    fn step(&mut self) {
        self.socket.write_all(self.core.output()).unwrap();
        let sent = self.core.output().len();
        self.core.advance_output(sent);
        let mut bytes = [0; 16 * 1024];
        let n = self.socket.read(&mut bytes).unwrap();
        assert!(n > 0, "the proxy closed");
        self.part.extend_from_slice(&bytes[..n]);
        // Frame by frame: what a reset leaves unread is gone.
        while let Some(length) = self.part.first_chunk().map(|[a, b, c]| u32::from_be_bytes([0, *a, *b, *c]))
            && let Some(frame) = self.part.get(..9 + length as usize)
        {
            let taken = self.core.receive(frame).unwrap();
            self.part.drain(..taken);
            while let Some(event) = self.core.poll_event() {
                self.event(event);
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Response { response, .. } => {
                assert!(response.fields.get(b"content-length").is_none());
                assert!(response.fields.get(b"transfer-encoding").is_none());
                self.coding = response.fields.get(b"content-encoding").map(<[u8]>::to_vec);
            }
            Event::Data { stream } => {
                let data = self.core.received(stream).to_vec();
                self.core.consume(stream, data.len());
                self.body.extend(data);
            }
            Event::End { .. } => self.ended = true,
            Event::Reset { .. } => self.cut = true,
            _ => {}
        }
    }
}

/// An origin that says it will send more than it does.
fn origin_that_cuts() -> SocketAddr {
    let (server, _) = origin(|stream, request| {
        let page = page();
        let framing = match request.head.starts_with("GET /chunked") {
            true => format!("Transfer-Encoding: chunked\r\n{HTML}\r\n{:x}\r\n", page.len()),
            false => format!("Content-Length: {}\r\n{HTML}\r\n", page.len() + 1),
        };
        // In one packet with the end of the connection, mostly.
        stream.write_all(&[b"HTTP/1.1 200 OK\r\n", framing.as_bytes(), &page].concat()).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    server
}

#[test]
fn what_came_before_the_origin_cut_is_sent_over_http2() {
    let server = origin_that_cuts();
    for coding in ["gzip", "br", "zstd"] {
        let running = start("", &format!(" compression algo {coding}\n server s {server}\n"));
        for path in ["/", "/chunked"] {
            let mut client = H2Client::ask_for(running.address, path, coding);
            while !client.ended && !client.cut {
                client.step();
            }
            assert_eq!((client.coding.as_deref(), client.cut), (Some(coding.as_bytes()), true));
            assert_eq!(decoded_so_far(coding, &client.body), page(), "{coding} {path}");
        }
    }
}

#[test]
fn what_came_before_the_origin_cut_is_sent_over_http1() {
    let server = origin_that_cuts();
    for coding in ["gzip", "br", "zstd"] {
        let running = start("", &format!(" compression algo {coding}\n server s {server}\n"));
        for path in ["/", "/chunked"] {
            let mut client = connect(running.address);
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n");
            client.write_all(request.as_bytes()).unwrap();
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            let at = all.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            let (head, mut chunks) = all.split_at(at);
            assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
            // No last chunk says that this is all.
            let mut body = Vec::new();
            while let Some(end) = chunks.windows(2).position(|end| end == b"\r\n") {
                let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
                assert!(length > 0, "{coding} {path}");
                body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
                chunks = &chunks[end + 2 + length + 2..];
            }
            assert_eq!(decoded_so_far(coding, &body), page(), "{coding} {path}");
        }
    }
}

#[test]
fn events_arrive_at_once_over_http2() {
    for coding in ["gzip", "br", "zstd"] {
        let (server, send) = trickling_origin();
        let running = start("", &format!(" compression algo {coding}\n server s {server}\n"));
        let mut client = H2Client::ask(running.address, coding);
        let mut expected = String::new();
        for event in EVENTS {
            send.send(event).unwrap();
            expected += event;
            while decoded_so_far(coding, &client.body) != expected.as_bytes() {
                client.step();
            }
            assert_eq!(client.coding.as_deref(), Some(coding.as_bytes()));
        }
        send.send("").unwrap();
        while !client.ended {
            client.step();
        }
        assert_eq!(decode(Some(coding), &client.body), expected.as_bytes());
    }
}

/// Large enough for several pieces, and for more than a connection's window.
fn large() -> Vec<u8> {
    (0..20_000_u32)
        .map(|i| format!("<li>{}</li>\n", i.wrapping_mul(2_654_435_761)))
        .collect::<String>()
        .into_bytes()
}

#[test]
fn large_bodies_come_through() {
    let (server, _) = origin(|stream, _| {
        let body = large();
        stream
            .write_all(format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: {}\r\n\r\n", body.len()).as_bytes())
            .unwrap();
        stream.write_all(&body).unwrap();
    });
    for (lines, coding) in [
        (" compression algo gzip\n", "gzip"),
        (" compression algo br\n", "br"),
        (" compression algo zstd\n", "zstd"),
        (
            " compression algo gzip\n filter trace quiet random-forwarding\n filter compression\n filter trace quiet max-fwd 999\n",
            "gzip",
        ),
    ] {
        let running = start("", &format!("{lines} server s {server}\n"));
        let answer =
            ask(running.address, &format!("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n"), b"");
        assert_eq!(answer.field("content-encoding"), Some(coding));
        assert!(answer.decoded() == large(), "{lines}");
        let mut client = H2Client::ask(running.address, coding);
        while !client.ended {
            client.step();
        }
        assert!(decode(Some(coding), &client.body) == large(), "{lines}");
    }
}

/// Large pieces are read past the connection's buffer: where they end, the framing is looked at again.
#[test]
fn large_bodies_end_where_their_framing_says() {
    let (server, requests) = origin(|stream, request| {
        let body = large();
        let (fields, chunks) = match request.head.split_whitespace().nth(1) {
            Some("/length") => (format!("Content-Length: {}", body.len()), vec![]),
            Some("/chunk") => ("Transfer-Encoding: chunked".into(), vec![body.len()]),
            Some("/chunks") => {
                ("Transfer-Encoding: chunked".into(), vec![16_385, 1, 70_000, body.len() - 86_386])
            }
            _ => panic!("{}", request.head),
        };
        let mut answer = format!("HTTP/1.1 200 OK\r\n{HTML}{fields}\r\n\r\n").into_bytes();
        let mut rest = &body[..];
        for length in &chunks {
            let (chunk, after) = rest.split_at(*length);
            answer.extend(format!("{length:x}\r\n").into_bytes());
            answer.extend([chunk, b"\r\n"].concat());
            rest = after;
        }
        if !chunks.is_empty() {
            rest = b"0\r\n\r\n";
        }
        answer.extend(rest);
        stream.write_all(&answer).unwrap();
    });
    let running = start("", &format!(" compression algo gzip\n http-reuse always\n server s {server}\n"));
    for path in ["/length", "/chunk", "/chunks", "/length", "/chunk", "/chunks"] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n");
        let answer = ask(running.address, &head, b"");
        assert_eq!(answer.field("content-encoding"), Some("gzip"));
        assert!(answer.decoded() == large(), "{path}");
    }
    assert_eq!(requests.lock().unwrap().len(), 6);
    assert_eq!(running.shared.proxies[0].back.sum(Counter::ConnectionReuses), 5);
}

const POST: &str = "POST / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n";

#[test]
fn requests_are_compressed_or_left_alone() {
    let (server, requests) = origin(|stream, _| stream.write_all(&answer("200 OK", HTML)).unwrap());
    let rules = " compression algo-req gzip\n compression type-req text/plain\n compression minsize-req 10\n";
    let check = |lines: &str, fields: &str, body: &[u8], request: bool, response: bool| {
        let running = start("", &format!("{lines} server s {server}\n"));
        let answer = ask(running.address, &format!("{POST}Content-Length: {}\r\n{fields}", body.len()), body);
        let sent = requests.lock().unwrap().pop().unwrap();
        let shown = format!("{lines}{fields}\n{}", sent.head);
        assert_eq!(sent.field("content-encoding") == Some("gzip"), request, "{shown}");
        assert_eq!(sent.field("content-length").is_none(), request, "{shown}");
        assert_eq!(sent.decoded(), body, "{shown}");
        assert_eq!(answer.field("content-encoding") == Some("gzip"), response, "{shown}");
        assert_eq!(answer.decoded(), page(), "{shown}");
        sent
    };
    let plain = "Content-Type: text/plain\r\n";
    let (body, large) = (b"a body that is long enough", large());
    let requests = format!("{rules} compression direction request\n");
    check(&requests, plain, body, true, false);
    check(&requests, plain, &large, true, false);
    check(&requests, plain, b"short", false, false);
    check(&requests, "", body, false, false);
    check(&requests, "Content-Type: text/html\r\n", body, false, false);
    check(&requests, &format!("{plain}Cache-Control: no-transform\r\n"), body, false, false);
    // Without a word on the direction, responses only.
    check(rules, plain, body, false, false);
    let both = format!("{rules} compression algo gzip\n");
    check(&both, plain, body, false, true);
    check(&format!("{both} compression direction both\n"), plain, body, true, true);
    check(&format!("{both} filter comp-req\n"), plain, body, true, false);
    check(&format!("{both} filter comp-res\n"), plain, body, false, true);
    check(&format!("{both} filter comp-res\n filter comp-req\n"), plain, body, true, true);
    let split = " filter trace quiet random-forwarding\n filter compression\n filter trace quiet max-fwd 3\n";
    let through = check(&format!("{both} compression direction both\n{split}"), plain, &large, true, true);
    assert_eq!(through.field("accept-encoding"), Some("gzip"));
    let offloaded = check(&format!("{both} compression offload\n"), plain, body, false, true);
    assert_eq!(offloaded.field("accept-encoding"), None);
}

#[test]
fn a_request_is_compressed_again_for_another_try() {
    let (server, requests) = origin(|stream, request| {
        let status = if request.field("x-try").is_none() { "500 Oh" } else { "200 OK" };
        stream.write_all(&answer(status, HTML)).unwrap();
    });
    let lines = format!(
        " compression algo-req gzip\n compression direction request\n retry-on 500\n retries 2\n server s {server}\n"
    );
    let running = start("", &lines);
    let body = b"a body that is sent three times";
    let head = format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", body.len());
    let answer = ask(running.address, &head, body);
    assert!(answer.head.starts_with("HTTP/1.1 500"));
    let sent = requests.lock().unwrap();
    assert_eq!(sent.len(), 3);
    for request in sent.iter() {
        assert_eq!((request.field("content-encoding"), request.decoded()), (Some("gzip"), body.to_vec()));
    }
}

#[test]
fn what_was_compressed_is_counted() {
    let (server, _) = origin(|stream, _| stream.write_all(&answer("200 OK", HTML)).unwrap());
    // A kilobyte a second: the first answer is more than that.
    let running = start(" maxcomprate 1\n", &format!(" compression algo gzip\n server s {server}\n"));
    let mut client = connect(running.address);
    client.write_all(format!("{GET}\r\n{GET}\r\n").as_bytes()).unwrap();
    let first = Message::read(&mut client, true).unwrap();
    let second = Message::read(&mut client, true).unwrap();
    assert_eq!((first.field("content-encoding"), second.field("content-encoding")), (Some("gzip"), None));
    drop(client);
    let shared = Arc::clone(&running.shared);
    drop(running);
    let size = page().len() as u64;
    for counters in [&shared.proxies[0].front, &shared.proxies[0].back] {
        assert_eq!(counters.sum(Counter::CompressedResponses), 1);
        assert_eq!(counters.sum(Counter::CompressedIn), size);
        assert_eq!(counters.sum(Counter::CompressedOut), first.body.len() as u64);
        assert_eq!(counters.sum(Counter::CompressionBypassed), size);
    }
}

#[test]
fn what_comes_again_is_not_compressed_again() {
    let (server, _) = origin(|stream, request| {
        // The page, and another that differs only in its last byte.
        let mut answer = answer("200 OK", HTML);
        if request.head.starts_with("GET /other") {
            answer.pop();
            answer.push(b'!');
        }
        stream.write_all(&answer).unwrap();
    });
    for (global, is_reused) in [("", false), (" tune.comp.reuse-memory 8m\n", true)] {
        let running = start(global, &format!(" compression algo gzip\n server s {server}\n"));
        for _ in 0..5 {
            let page = ask(running.address, &format!("{GET}\r\n"), b"").decoded();
            assert_eq!(page, self::page());
            let other = ask(running.address, &format!("{}\r\n", GET.replace("/ ", "/other ")), b"").decoded();
            assert_eq!(other, [&page[..page.len() - 1], b"!"].concat());
        }
        assert_eq!(running.shared.load.reused_bytes() > 0, is_reused);
        // It counts as compressed all the same.
        assert_eq!(running.shared.proxies[0].front.sum(Counter::CompressedIn), 10 * page().len() as u64);
    }
}

#[test]
fn what_one_client_got_is_not_kept_for_others() {
    let (server, _) = origin(|stream, request| {
        let fields = request.field("x-answer").map(|field| format!("{HTML}{field}\r\n"));
        stream.write_all(&answer("200 OK", fields.as_deref().unwrap_or(HTML))).unwrap();
    });
    let check = |request: &str, is_reused: bool| {
        let running =
            start(" tune.comp.reuse-memory 8m\n", &format!(" compression algo gzip\n server s {server}\n"));
        for _ in 0..4 {
            let page = ask(running.address, &format!("{GET}{request}\r\n"), b"").decoded();
            assert_eq!(page, self::page());
        }
        assert_eq!(running.shared.load.reused_bytes() > 0, is_reused, "{request}");
    };
    check("X-Answer: Cache-Control: public", true);
    check("X-Answer: Cache-Control: private", false);
    check("X-Answer: Cache-Control: max-age=1, no-store", false);
    check("X-Answer: Set-Cookie: id=1", false);
    check("Cookie: id=1", false);
    check("Authorization: Basic eDp5", false);
}

#[test]
fn what_a_client_sends_is_not_kept() {
    let (server, _) = origin(|stream, _| stream.write_all(&answer("200 OK", "")).unwrap());
    let lines = format!(" compression algo-req gzip\n compression direction request\n server s {server}\n");
    let running = start(" tune.comp.reuse-memory 8m\n", &lines);
    let body = page();
    for _ in 0..4 {
        let head = format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", body.len());
        assert!(ask(running.address, &head, &body).head.starts_with("HTTP/1.1 200"));
    }
    assert_eq!(running.shared.load.reused_bytes(), 0);
}
