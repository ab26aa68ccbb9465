//! Requests in early data: what rules and servers see of them, and what waits for the handshake.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod harness;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use harness::{Running, tls_client};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A server that tells which requests it got, and answers each with 200.
fn origin() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut bytes) = (Vec::new(), [0; 1024]);
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(count @ 1..) => head.extend_from_slice(&bytes[..count]),
                    _ => break,
                }
            }
            if seen.send(String::from_utf8(head).unwrap().to_ascii_lowercase()).is_err() {
                return;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").ok();
        }
    });
    (address, requests)
}

struct World {
    running: Running,
    requests: Receiver<String>,
    config: Arc<ClientConfig>,
}

impl World {
    fn new(name: &str, rules: &str) -> Self {
        let (mut config, file) = tls_client::with_certificate(name);
        let (origin, requests) = origin();
        let running = harness::start(&format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n timeout client 20s\n\
             listen l\n bind 127.0.0.1:0 ssl crt {} allow-0rtt\n{rules} server s {origin}\n",
            file.display()
        ));
        std::fs::remove_file(&file).unwrap();
        config.enable_early_data = true;
        Self { running, requests, config: Arc::new(config) }
    }

    fn connect(&self) -> (ClientConnection, TcpStream) {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        (client, TcpStream::connect(self.running.address).unwrap())
    }

    /// A request after the handshake; leaves a session to go on with.
    fn ask(&self, path: &str) {
        let (client, socket) = self.connect();
        let mut stream = StreamOwned::new(client, socket);
        stream.write_all(&request(path)).unwrap();
        assert!(answer(&mut stream).starts_with("HTTP/1.1 200"));
    }

    /// Sends a request in early data and not the end of the handshake.
    fn begin(&self, path: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let (mut client, mut socket) = self.connect();
        client.early_data().expect("a session").write_all(&request(path)).unwrap();
        while client.wants_write() {
            client.write_tls(&mut socket).unwrap();
        }
        StreamOwned::new(client, socket)
    }

    fn seen(&self) -> String {
        self.requests.recv().unwrap()
    }
}

fn request(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

fn answer(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn servers_get_the_request_before_the_handshake_is_complete() {
    let world =
        World::new("server", " http-request set-header X-Early %[ssl_fc_has_early],%[ssl_fc_early_rcvd]\n");
    world.ask("/first");
    let first = world.seen();
    assert!(first.contains("x-early: 0,0") && !first.contains("early-data"), "{first}");
    let mut stream = world.begin("/second");
    // It is there, and the client has not said more than its first words.
    let second = world.seen();
    assert!(second.starts_with("get /second ") && second.contains("x-early: 1,1"), "{second}");
    assert!(second.contains("early-data: 1\r\n"), "{second}");
    assert!(answer(&mut stream).starts_with("HTTP/1.1 200"));
    assert!(stream.conn.is_early_data_accepted());
}

#[test]
fn rules_can_wait_for_the_handshake() {
    let rules = " http-request wait-for-handshake if { path_beg /safe }\n\
                 http-request set-header X-Early %[ssl_fc_has_early],%[ssl_fc_early_rcvd]\n";
    let world = World::new("wait", rules);
    world.ask("/first");
    world.seen();
    // This client never completes its handshake: no server hears of it.
    drop(world.begin("/safe/gone"));
    let mut stream = world.begin("/safe/there");
    assert!(answer(&mut stream).starts_with("HTTP/1.1 200"));
    assert!(stream.conn.is_early_data_accepted());
    let seen = world.seen();
    assert!(seen.starts_with("get /safe/there ") && seen.contains("x-early: 0,1"), "{seen}");
    assert!(!seen.contains("early-data"), "{seen}");
    world.ask("/last");
    assert!(world.seen().starts_with("get /last "));
}

#[test]
fn rules_can_refuse_early_data() {
    let world = World::new("refuse", " http-request deny deny_status 425 if { ssl_fc_has_early }\n");
    world.ask("/first");
    world.seen();
    assert!(answer(&mut world.begin("/early")).starts_with("HTTP/1.1 425"));
    world.ask("/last");
    assert!(world.seen().starts_with("get /last "));
}
