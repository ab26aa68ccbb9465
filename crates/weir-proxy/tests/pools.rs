//! Nothing that a thread uses again changes an output: what a server is sent, what a client gets and what the log says of
//! a request is the same after others as it is alone. All of a request's way is in this: buffers, heads, pieces, encoders,
//! connections to servers, log lines.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use harness::Running;
use harness::reading::{exactly, read_chunk, read_head};
use proptest::prelude::*;

/// A test that waits longer than this waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client asks for.
#[derive(Clone, Debug)]
struct Asked {
    path: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes of the answer's body, and how it is framed.
    answer: usize,
    chunked: bool,
    /// The connection is closed behind it.
    closes: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let name = prop::sample::select(vec!["accept-encoding", "x-a", "x-b", "cookie", "authorization"]);
    let value = prop::sample::select(vec!["gzip", "gzip;q=0, deflate;q=0", "secret", "a=b; c=d"]);
    let fields = prop::collection::vec((name.prop_map(str::to_owned), value.prop_map(str::to_owned)), 0..4);
    let length = || prop_oneof![0..60_usize, 900..2500_usize, 32_700..33_000_usize];
    ("/[a-z]{0,30}", fields, length(), length(), any::<bool>(), any::<bool>(), any::<u8>()).prop_map(
        |(path, fields, body, answer, chunked, closes, byte)| {
            let body = (0..body).map(|at| byte.wrapping_add((at / 7) as u8)).collect();
            Asked { path, fields, body, answer, chunked, closes }
        },
    )
}

impl Asked {
    fn bytes(&self) -> Vec<u8> {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let connection = if self.closes { "Connection: close\r\n" } else { "" };
        let Self { path, answer, chunked, body, .. } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Answer: {answer} {chunked}\r\n{fields}{connection}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A message's head, and its body without framing and coding: how it is cut depends on when its parts arrive.
fn read_message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let head = read_head(stream)?;
    let mut body = match field(&head, "content-length") {
        Some(length) => exactly(stream, length.parse().unwrap()),
        None => std::iter::from_fn(|| read_chunk(stream)).flatten().collect(),
    };
    if field(&head, "content-encoding") == Some("gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    Some((head, body))
}

/// Mark-up of a length, the same each time.
fn page(length: usize) -> Vec<u8> {
    (0..).flat_map(|i: usize| format!("<p id=\"{i}\">{}</p>\n", i * i).into_bytes()).take(length).collect()
}

/// Answers as it is told, and says what it was sent.
fn origin() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, sent) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), seen) = (stream, seen.clone()) else { return };
            std::thread::spawn(move || {
                while let Some((head, body)) = read_message(&mut stream) {
                    let (length, chunked) = field(&head, "x-answer").unwrap().split_once(' ').unwrap();
                    let page = page(length.parse().unwrap());
                    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n".to_vec();
                    match chunked == "true" && !page.is_empty() {
                        true => {
                            answer.extend(
                                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", page.len()).bytes(),
                            );
                            answer.extend([&page[..], b"\r\n0\r\n\r\n"].concat());
                        }
                        false => {
                            answer.extend(format!("Content-Length: {}\r\n\r\n", page.len()).bytes());
                            answer.extend(page);
                        }
                    }
                    // Before the answer: who has that asks for this.
                    seen.send((head, body)).unwrap();
                    stream.write_all(&answer).unwrap();
                }
            });
        }
    });
    (address, sent)
}

/// A proxy with one thread, an origin behind it, and where its log goes.
struct Place {
    running: Running,
    log: UdpSocket,
    sent: Receiver<(String, Vec<u8>)>,
    client: Option<TcpStream>,
}

impl Place {
    fn new() -> Self {
        let (server, sent) = origin();
        let log = UdpSocket::bind("127.0.0.1:0").unwrap();
        log.set_read_timeout(Some(PATIENCE)).unwrap();
        let text = format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 20s\n timeout server 20s\n timeout client 20s\n\
             listen l\n bind 127.0.0.1:0\n log {} len 8000 format raw local0\n\
             log-format \"%{{+Q}}r %ST %B %U %hr %{{+Q}}hs %CC %ID %tsc\"\n\
             capture request header x-a len 20\n capture response header x-c len 20\n capture cookie a len 9\n\
             unique-id-format %{{+X}}o-%HU\n http-request set-header x-b-too %[req.hdr(x-b),upper]\n\
             http-response set-header x-c %[var(txn.path)] if {{ var(txn.path) -m found }}\n\
             http-request set-var(txn.path) path\n compression algo gzip\n\
             server s {server}\n",
            log.local_addr().unwrap()
        );
        Self { running: harness::start(&text), log, sent, client: None }
    }

    /// What the client gets, what the server was sent, and what the log says.
    fn ask(&mut self, asked: &Asked) -> [(String, Vec<u8>); 3] {
        let mut client = self.client.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(self.running.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        });
        client.write_all(&asked.bytes()).unwrap();
        let answer = read_message(&mut client).unwrap();
        if !asked.closes {
            self.client = Some(client);
        }
        let mut line = vec![0; 8192];
        let length = self.log.recv(&mut line).unwrap();
        line.truncate(length);
        [answer, self.sent.recv_timeout(PATIENCE).unwrap(), (String::from_utf8(line).unwrap(), Vec::new())]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_exchange_after_others_is_what_it_is_alone(
        before in prop::collection::vec(asked(), 1..6),
        last in asked(),
    ) {
        let alone = Place::new().ask(&last);
        let mut used = Place::new();
        for asked in &before {
            used.ask(asked);
        }
        for _ in 0..2 {
            let found = used.ask(&last);
            for (found, alone) in found.iter().zip(&alone) {
                prop_assert_eq!(&found.0, &alone.0);
                prop_assert!(found.1 == alone.1, "{} and {} bytes", found.1.len(), alone.1.len());
            }
        }
    }
}
