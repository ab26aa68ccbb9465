//! WebSockets between clients and servers of either version of HTTP: the handshake is completed where the versions
//! differ, and bytes go both ways.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_http::h2::{Connection, Event, Settings};
use weir_http::{FieldName, Response};

use harness::Running;
use harness::h2_client::*;

/// RFC 6455 section 1.3
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn proxy(server: SocketAddr, options: &str) -> Running {
    harness::start(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n timeout client 5s\n\
         listen l\n bind 127.0.0.1:0\n server s {server} {options}\n"
    ))
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// What proves that a server has read the key (RFC 6455 section 4.2.2).
fn accept(key: &str) -> String {
    let proof =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    STANDARD.encode(proof)
}

/// Sends back what comes, until that ends.
fn echo(mut stream: TcpStream) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        if stream.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

/// A server of HTTP/1 that answers the handshake so, and then echoes.
fn h1_server(answer: fn(&str) -> String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head = read_head(&mut stream);
            assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
            assert_eq!(field(&head, "upgrade"), Some("websocket"), "{head}");
            assert_eq!(field(&head, "sec-websocket-version"), Some("13"), "{head}");
            let key = field(&head, "sec-websocket-key").expect("a key");
            assert_eq!(STANDARD.decode(key).expect("base64").len(), 16);
            stream.write_all(answer(key).as_bytes()).unwrap();
            echo(stream);
        }
    });
    address
}

fn switched(proof: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
    )
}

/// A server of HTTP/2 that agrees, and then echoes.
fn h2_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_h2(stream));
        }
    });
    address
}

fn serve_h2(mut stream: TcpStream) {
    let mut core = Connection::server(Settings::default());
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(event) = core.poll_event() {
            match event {
                Event::Request { stream, request, end } => {
                    assert!(!end);
                    assert_eq!(request.fields.bytes(request.protocol), b"websocket");
                    assert_eq!(request.path_and_query(), b"/chat");
                    assert!(!request.fields.has(FieldName::SecWebSocketKey));
                    let mut response = Response::new(101, "");
                    response.fields.push(b"sec-websocket-protocol", b"chat");
                    core.send_response(stream, &response, false).unwrap();
                }
                Event::Data { stream } => {
                    let data = core.received(stream).to_vec();
                    core.consume(stream, data.len());
                    assert_eq!(core.send_data(stream, &data, false), Ok(data.len()));
                }
                _ => {}
            }
        }
        if stream.write_all(core.output()).is_err() {
            return;
        }
        core.advance_output(usize::MAX / 2);
        let Ok(count @ 1..) = stream.read(&mut piece) else { return };
        input.extend_from_slice(&piece[..count]);
        let Ok(taken) = core.receive(&input) else { return };
        input.drain(..taken);
    }
}

/// A client of HTTP/1: its handshake, then an echo.
fn h1_client(running: &Running) {
    let mut client = TcpStream::connect(running.address).unwrap();
    let request = format!(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    let head = read_head(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(field(&head, "sec-websocket-accept"), Some(ACCEPT), "{head}");
    assert_eq!(field(&head, "sec-websocket-protocol"), Some("chat"), "{head}");
    assert_eq!(field(&head, "upgrade"), Some("websocket"), "{head}");
    client.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

/// The client's part of the handshake over HTTP/2.
fn extended_connect(running: &Running) -> Client {
    let mut client = Client::connect(running.address);
    let lines = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "a"),
        ("sec-websocket-version", "13"),
    ];
    let block: Vec<u8> = lines.iter().flat_map(|(name, value)| line(name, value)).collect();
    assert!(client.say(&frame(HEADERS, END_HEADERS, 1, &block)));
    client
}

/// A client of HTTP/2: its handshake, then an echo.
fn h2_client(running: &Running) {
    let mut client = extended_connect(running);
    let answer = client.until(HEADERS).expect("an answer");
    assert_eq!((answer.payload[0], answer.flags & END_STREAM), (STATUS_200, 0), "{answer:?}");
    assert!(client.say(&frame(DATA, 0, 1, b"hello")));
    assert_eq!(client.until(DATA).expect("the echo").payload, b"hello");
}

#[test]
fn all_four_combinations_open_and_carry_bytes() {
    let h1 = h1_server(|key| switched(&accept(key)));
    for running in [proxy(h1, ""), proxy(h2_server(), "proto h2")] {
        h1_client(&running);
        h2_client(&running);
    }
}

#[test]
fn a_server_that_does_not_agree_gives_a_client_of_http2_no_tunnel() {
    let check = |answer: fn(&str) -> String| {
        let running = proxy(h1_server(answer), "");
        let mut client = extended_connect(&running);
        let head = client.until(HEADERS).expect("an answer").payload;
        // `:status` is a literal with the name of index 8, or an indexed one.
        let status = head.windows(3).find(|three| three.iter().all(u8::is_ascii_digit));
        assert_eq!(status, Some(&b"502"[..]), "{head:?}");
    };
    // A proof for another key, none at all, and a page.
    check(|_| switched(ACCEPT));
    check(|_| "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_owned());
    check(|_| "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned());
    // What it says otherwise is the answer.
    let running = proxy(h1_server(|_| "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()), "");
    let mut client = extended_connect(&running);
    // `:status 404`, indexed.
    assert_eq!(client.until(HEADERS).expect("an answer").payload[0], 0x8d);
}

#[test]
fn a_page_made_here_opens_no_tunnel() {
    let running = harness::start(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n\
         listen l\n bind 127.0.0.1:0\n http-request return status 200 content-type text/plain string hello\n",
    );
    let mut client = extended_connect(&running);
    let kinds: Vec<u8> = std::iter::from_fn(|| client.frame())
        .map(|frame| frame.kind)
        .take_while(|kind| *kind != RST_STREAM)
        .collect();
    assert!(!kinds.contains(&HEADERS), "{kinds:?}");
}

/// Programs of others at both ends: the Python packages `websockets` and `h2`, where they are installed.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket_peers.py");

/// A server of another program, ended with this.
struct Peer {
    process: Child,
    address: SocketAddr,
}

impl Peer {
    fn start(role: &str) -> Self {
        let mut process = python(&[PEERS, role]).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], port.trim().parse().unwrap())) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}

#[test]
fn peers_of_others_speak_through_it_in_all_four_combinations() {
    let installed = python(&["-c", "import websockets.asyncio.server, h2"]).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("skipped: python3 with the packages websockets and h2 is not installed");
        return;
    }
    for (server, options) in [("serve_h1", ""), ("serve_h2", "proto h2")] {
        let peer = Peer::start(server);
        let running = proxy(peer.address, options);
        for client in ["ask_h1", "ask_h2"] {
            let asked = python(&[PEERS, client, &running.address.port().to_string()]).status().unwrap();
            assert!(asked.success(), "{client} through the proxy to {server}");
        }
    }
}
