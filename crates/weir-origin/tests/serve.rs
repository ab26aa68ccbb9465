//! The server over real sockets: what a client gets for what it sends.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use weir_http::Request;
use weir_http::h2::{Connection, Event, Settings, StreamId};
use weir_net::listen::BindAddress;
use weir_origin::{Options, Running, start};

fn server() -> (Running, SocketAddr) {
    let listen = vec![BindAddress::Ip(([127, 0, 0, 1], 0).into())];
    let running = start(&Options { listen, threads: Some(1), ..Options::default() }).unwrap();
    let address = running.addresses[0].socket_addr().unwrap();
    (running, address)
}

/// Everything until the end, or the kind of error at it.
fn converse(to: SocketAddr, sent: &[u8]) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(sent).unwrap();
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received);
    (received, end.err().map(|error| error.kind()))
}

#[test]
fn http1_answers() {
    let (_running, to) = server();
    let check = |request: &str, expected: &[&str]| {
        let (received, end) = converse(to, request.as_bytes());
        let text = String::from_utf8_lossy(&received);
        for part in expected {
            assert!(text.contains(part), "{request:?}: {part:?} is missing in {text:?}");
        }
        assert_eq!(end, None, "{request:?}");
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    check(
        &get("/bytes/5"),
        &["HTTP/1.1 200 OK\r\n", "content-length: 5\r\n", "connection: close\r\n\r\n//! F", "date: "],
    );
    check(
        &get("/status/503"),
        &["HTTP/1.1 503 Service Unavailable\r\n", "\r\n\r\n503 Service Unavailable\n"],
    );
    check(&get("/status/204"), &["HTTP/1.1 204 No Content\r\n"]);
    check(
        &get("/chunked/5?chunk=2&fill=zero"),
        &["transfer-encoding: chunked", "\r\n\r\n2\r\n\0\0\r\n2\r\n\0\0\r\n1\r\n\0\r\n0\r\n\r\n"],
    );
    check(
        &get("/live?count=2&every=1ms"),
        &["text/event-stream", "id: 2\ndata: {\"event\":2}\n\n\r\n0\r\n\r\n"],
    );
    check(&get("/bytes/5?header=x-a:b&type=json"), &["x-a: b\r\n", "content-type: application/json\r\n"]);
    check(&get("/bytes/5?encoding=gzip"), &["content-encoding: gzip\r\n"]);
    check(&get("/nothing"), &["HTTP/1.1 404 Not Found\r\n", "there is nothing at 'nothing'"]);
    check(&get("/bytes/x"), &["HTTP/1.1 400 Bad Request\r\n", "bytes: 'x' is no size"]);
    check(&get("/source?plain"), &["text/plain", "pub(crate) fn parse"]);
    check(&get("/"), &["text/plain", "/bytes/9000/stall/1000"]);
    check("GET / HTTP/1.0\r\naccept: text/html\r\n\r\n", &["text/html", "<a href='/delay/50ms'>"]);
    check("GET /chunked/3 HTTP/1.0\r\n\r\n", &["connection: close\r\n\r\n//!"]);
    check("HEAD /bytes/9 HTTP/1.0\r\n\r\n", &["content-length: 9\r\n"]);
    check(
        "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\nconnection: close\r\n\r\n",
        &["501 Not Implemented", "no tunnels"],
    );
    check("nonsense\r\n\r\n", &["HTTP/1.1 400 ", "connection: close"]);
}

#[test]
fn requests_follow_each_other() {
    let (_running, to) = server();
    let count = |sent: &str| {
        let (received, _) = converse(to, sent.as_bytes());
        String::from_utf8_lossy(&received).matches("HTTP/1.1 200 OK").count()
    };
    let kept = "GET /bytes/9 HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET /bytes/200000 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(count(&format!("{}{last}", kept.repeat(500))), 501);
    let old = "GET /bytes/9 HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
    assert_eq!(count(&format!("{old}{old}{last}")), 3);
    let post = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nabcd";
    assert_eq!(count(&format!("{post}{post}{last}")), 3);
    let chunked = "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    let (received, _) = converse(to, format!("{chunked}{last}").as_bytes());
    let text = String::from_utf8_lossy(&received);
    assert!(
        text.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
            && text.contains("\n4 bytes of body\n")
    );
}

#[test]
fn answers_go_wrong_as_asked() {
    let (_running, to) = server();
    let check = |path: &str, body: Option<usize>, end: Option<ErrorKind>| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        let (received, error) = converse(to, request.as_bytes());
        let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        // What was received before a reset may be lost with it.
        if error.is_none() {
            assert_eq!(head.map(|head| received.len() - head - 4), body, "{path}");
        }
        assert_eq!(error, end, "{path}");
    };
    check("/bytes/60?close", Some(60), None);
    check("/bytes/9000/cut/1000", Some(1000), None);
    check("/cut", None, None);
    check("/reset", None, Some(ErrorKind::ConnectionReset));
    check("/bytes/9000/reset/1000", Some(1000), Some(ErrorKind::ConnectionReset));
}

/// What stalls stays open: nothing comes until the client gives up.
#[test]
fn a_stall_lasts_as_long_as_the_client() {
    let (_running, to) = server();
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(b"GET /bytes/9/stall/4 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n//! ") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}

/// A client's HTTP/2 connection.
struct Client {
    core: Connection,
    stream: TcpStream,
    input: Vec<u8>,
    /// Status and bytes of body so far, and whether the stream has ended well.
    answers: HashMap<StreamId, (u16, usize)>,
    ended: HashMap<StreamId, bool>,
}

impl Client {
    fn new(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        let core = Connection::client(Settings::default());
        Self { core, stream, input: Vec::new(), answers: HashMap::new(), ended: HashMap::new() }
    }

    /// Asks for all paths at once: status and length of each, or none for a reset.
    fn ask(&mut self, paths: &[&str]) -> Vec<Option<(u16, usize)>> {
        let send = |path: &&str| {
            let mut request = Request::default();
            request.set_method(b"GET");
            request.set_uri(format!("http://a{path}").as_bytes());
            request.normalized_uri = true;
            self.core.send_request(&request, true).unwrap()
        };
        let ids: Vec<StreamId> = paths.iter().map(send).collect();
        while ids.iter().any(|id| !self.ended.contains_key(id)) {
            self.stream.write_all(self.core.output()).unwrap();
            self.core.advance_output(self.core.output().len());
            self.receive();
        }
        ids.iter().map(|id| self.ended[id].then(|| self.answers[id])).collect()
    }

    fn receive(&mut self) {
        let mut buffer = [0; 65_536];
        let count = self.stream.read(&mut buffer).unwrap();
        assert!(count > 0, "closed too early");
        self.input.extend_from_slice(&buffer[..count]);
        let taken = self.core.receive(&self.input).unwrap();
        self.input.drain(..taken);
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Response { stream, response, end } => {
                    self.answers.insert(stream, (response.status, 0));
                    if end {
                        self.ended.insert(stream, true);
                    }
                }
                Event::Data { stream } => {
                    let bytes = self.core.received(stream).len();
                    self.core.consume(stream, bytes);
                    self.answers.entry(stream).or_default().1 += bytes;
                }
                Event::End { stream } => drop(self.ended.insert(stream, true)),
                Event::Reset { stream, .. } => drop(self.ended.insert(stream, false)),
                _ => {}
            }
        }
    }
}

#[test]
fn http2_answers() {
    let (_running, to) = server();
    let check = |cases: &[(&str, Option<(u16, usize)>)]| {
        let paths: Vec<&str> = cases.iter().map(|(path, _)| *path).collect();
        for ((path, expected), found) in cases.iter().zip(Client::new(to).ask(&paths)) {
            assert_eq!(found, *expected, "{path}");
        }
    };
    check(&[
        ("/bytes/60", Some((200, 60))),
        ("/bytes/0", Some((200, 0))),
        ("/status/204", Some((204, 0))),
        ("/status/503?size=7", Some((503, 7))),
        ("/delay/5ms/bytes/9", Some((200, 9))),
        ("/chunked/1000?chunk=100&every=1ms", Some((200, 1000))),
        ("/bytes/3000000", Some((200, 3_000_000))),
        ("/live?count=3&every=2ms", Some((200, 75))),
        ("/nothing", Some((404, 53))),
        ("/reset", None),
        ("/bytes/9000/cut/1000", None),
    ]);
    check(&[("/bytes/200000", Some((200, 200_000))); 50]);
}

/// The connection is quiet while an answer is held back: only the alarm brings it.
#[test]
fn a_delay_on_a_quiet_http2_connection_ends() {
    let (_running, to) = server();
    let mut client = Client::new(to);
    for path in ["/bytes/9", "/delay/5ms/bytes/9", "/bytes/9?chunk=3&every=5ms", "/delay/5ms/bytes/9"] {
        assert_eq!(client.ask(&[path]), [Some((200, 9))], "{path}");
    }
}
