//! A fault of the program itself (a panic): it ends the connection that met it, and no other.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_net::Stream;
use weir_proxy::{Services, Shared, Terms, panics};
use weir_rules::{Reply, Txn, reply};

const LIMIT: Duration = Duration::from_secs(20);

/// Somebody forgot something: the statistics page panics.
struct Faulty;

impl Services for Faulty {
    fn statistics(&self, _: &Arc<Shared>, _: usize, _: &Txn) -> Reply {
        panic!("the page of this test is faulty");
    }

    fn metrics(&self, _: &Arc<Shared>, _: &Txn) -> Reply {
        reply::default_error(404)
    }

    fn administer(&self, _: Arc<Shared>, _: Stream, _: Terms) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    }
}

fn open(to: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(to).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client
}

fn ask(client: &mut TcpStream, path: &str) -> String {
    write!(client, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let (mut heard, mut byte) = (Vec::new(), [0]);
    while !heard.ends_with(b"fine") && client.read(&mut byte).unwrap_or(0) > 0 {
        heard.push(byte[0]);
    }
    String::from_utf8(heard).unwrap()
}

#[test]
fn a_panic_ends_its_connection_is_counted_and_is_said_with_the_way_to_it() {
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(LIMIT)).unwrap();
    let text = format!(
        "global\n nbthread 1\n log {} format raw local0\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n \
         timeout connect 20s\nfrontend f\n bind 127.0.0.1:0\n stats uri /page\n \
         http-request return status 200 content-type text/plain string fine if {{ path / }}\n",
        log.local_addr().unwrap()
    );
    panics::watch(|text| eprintln!("{text}"));
    let running = harness::start_with(&text, Arc::new(Faulty));
    let before = panics::count();
    let mut other = open(running.address);
    assert!(ask(&mut other, "/").ends_with("fine"));
    for number in 1..=3 {
        assert_eq!(ask(&mut open(running.address), "/page"), "", "a connection without an answer");
        assert_eq!(panics::count() - before, number);
        // The connection that was there, on the same thread, goes on, and new ones are served.
        assert!(ask(&mut other, "/").ends_with("fine"));
        assert!(ask(&mut open(running.address), "/").ends_with("fine"));
    }
    let mut line = [0; 4096];
    let length = log.recv(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]).into_owned();
    assert!(line.contains("Internal error, please report it: the page of this test is faulty at "), "{line}");
    let (_, way) = line.split_once("; what it served is closed. in ").unwrap();
    let files: Vec<&str> =
        way.split(" < ").map(|place| place.rsplit_once(':').unwrap_or_default().0).collect();
    assert!(files[0].ends_with("tests/panics.rs") && files[1].ends_with("src/request/services.rs"), "{line}");
    drop(other);
    let start = Instant::now();
    // Nothing stays behind: the places of the connections are free again.
    while running.shared.connections.load(Relaxed) > 0 {
        assert!(start.elapsed() < LIMIT);
        std::thread::yield_now();
    }
}
