//! How clients are shared out among threads, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::TcpStream;

const CONFIGURATION: &str = "global\n nbthread 2\n\
                             defaults\n mode http\n timeout client 20s\n\
                             listen l\n bind 127.0.0.1:0\n http-request return status 200\n";

/// Makes a request and stays.
fn ask(client: &mut TcpStream) {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(END_OF_HEAD) {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_burst_of_clients_does_not_stay_on_one_thread() {
    const CLIENTS: usize = 40;
    let running = harness::start(CONFIGURATION);
    let (address, queues) = (running.address, &running.queues);
    // The socket takes connections before the threads do.
    while queues.clients().len() < 2 || queues.clients().contains(&None) {
        std::thread::yield_now();
    }
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    clients.iter_mut().for_each(ask);
    let served: Vec<usize> = queues.clients().into_iter().flatten().collect();
    assert_eq!(served.iter().sum::<usize>(), CLIENTS);
    // Both threads accept at once and may see each other's counts late: about even, not to the last one.
    assert!(served.iter().all(|clients| *clients >= CLIENTS / 4), "{served:?}");
    drop(clients);
}
