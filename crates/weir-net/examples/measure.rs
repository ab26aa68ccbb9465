//! What an idle connection, a handshake and an answer cost: `cargo run --release --example measure`.
//!
//! Server and client share one thread, so times are of both sides together; memory is per pair and printed
//! for clear connections first, which both sides have alike.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_net::stream::Stream;
use weir_net::tls::certificate::CertificateStore;
use weir_net::tls::client::{ClientOptions, TlsClient};
use weir_net::tls::server::{CertificateSource, ServerOptions, TlsServer};

thread_local! {
    static SERVER_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

const CONNECTIONS: usize = 400;
const HANDSHAKES: usize = 3000;
const ANSWERS: usize = 200_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let path = std::env::temp_dir().join(format!("weir-measure-{}.pem", std::process::id()));
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("parameters");
    let certificate = params.self_signed(&key).expect("a certificate");
    std::fs::write(&path, format!("{}{}", certificate.pem(), key.serialize_pem())).expect("a file");
    let options = ServerOptions {
        certificates: vec![CertificateSource::Crt(path.clone())],
        ..ServerOptions::default()
    };
    let (server, _) = TlsServer::new(&options, &CertificateStore::default()).expect("a server");
    std::fs::remove_file(path).expect("the file");
    let full = ClientOptions { no_resumption: true, ..ClientOptions::default() };
    let (full, _) = TlsClient::new(&full).expect("a client");
    let (resuming, _) = TlsClient::new(&ClientOptions::default()).expect("a client");

    let clear = memory_of_pairs(|| async { Stream::pair().expect("a pair") }).await;
    println!("clear pair: {clear} bytes, stream itself {}", size_of::<Stream>());
    let tls = memory_of_pairs(|| async { connected(&server, &full).await }).await;
    println!("TLS pair: {tls} bytes");

    for (name, client) in [("full", &full), ("resumed", &resuming)] {
        let start = Instant::now();
        SERVER_TIME.set(Duration::ZERO);
        for _ in 0..HANDSHAKES {
            connected(&server, client).await;
        }
        let (both, server) = (start.elapsed() / HANDSHAKES as u32, SERVER_TIME.get() / HANDSHAKES as u32);
        println!("{name} handshake and request, both sides: {both:?}, server {server:?}");
    }

    for bytes in [100, 9000, 65_536] {
        let (mut near, mut far) = connected(&server, &full).await;
        let clear = Stream::pair().expect("a pair");
        SERVER_TIME.set(Duration::ZERO);
        let tls_time = answers(&mut near, &mut far, bytes).await;
        let tls_server = SERVER_TIME.get().as_secs_f64() * 1e6 / (ANSWERS / 10) as f64;
        let (mut near, mut far) = clear;
        let clear_time = answers(&mut near, &mut far, bytes).await;
        println!(
            "{bytes} bytes answered, both sides: TLS {tls_time:.2} us (server {tls_server:.2}), clear {clear_time:.2} us"
        );
    }
}

async fn connected(server: &Arc<TlsServer>, client: &TlsClient) -> (Stream, Stream) {
    let (mut near, mut far) = Stream::pair().expect("a pair");
    near.start_client_tls(client, Some("a.example"), None).expect("a session");
    far.start_server_tls(server, &[]);
    exchange(&mut near, &mut far, 100).await;
    (near, far)
}

/// One request of 100 bytes and an answer.
async fn exchange(near: &mut Stream, far: &mut Stream, bytes: usize) {
    let answer = vec![b'a'; bytes];
    let request = async {
        near.write_all(&[b'r'; 100]).await.expect("sent");
        let mut buf = Vec::with_capacity(bytes);
        let mut left = bytes;
        while left > 0 {
            buf.clear();
            left -= near.read(&mut buf, left).await.expect("received");
        }
        near.release_buffers();
    };
    let serve = async {
        let mut buf = Vec::with_capacity(100);
        while buf.len() < 100 {
            let left = 100 - buf.len();
            far.read(&mut buf, left).await.expect("received");
        }
        far.write_all(&answer).await.expect("sent");
        far.release_buffers();
    };
    let mut serve = pin!(serve);
    let serve = std::future::poll_fn(|cx| {
        let start = Instant::now();
        let result = serve.as_mut().poll(cx);
        SERVER_TIME.set(SERVER_TIME.get() + start.elapsed());
        result
    });
    tokio::join!(request, serve);
}

async fn answers(near: &mut Stream, far: &mut Stream, bytes: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..ANSWERS / 10 {
        exchange(near, far, bytes).await;
    }
    start.elapsed().as_secs_f64() * 1e6 / (ANSWERS / 10) as f64
}

async fn memory_of_pairs<F: Future<Output = (Stream, Stream)>>(make: impl Fn() -> F) -> usize {
    drop(make().await);
    let before = resident_bytes();
    let mut pairs = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        pairs.push(make().await);
    }
    (resident_bytes() - before) / CONNECTIONS
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).expect("a number").parse().expect("a number");
    pages * 4096
}
