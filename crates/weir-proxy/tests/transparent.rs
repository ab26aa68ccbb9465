//! Connections to servers that come from addresses of others (`source ... usesrc`), over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Socket, Type};

/// The right to take addresses that are not this machine's (CAP_NET_ADMIN or CAP_NET_RAW).
fn is_permitted() -> bool {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap().set_ip_transparent_v4(true).is_ok()
}

/// A client at this address.
fn client(at: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((at, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn servers_see_the_address_that_is_asked_for() {
    if !is_permitted() {
        eprintln!("skipped: transparent sockets need CAP_NET_ADMIN or CAP_NET_RAW");
        return;
    }
    let here = Ipv4Addr::new(127, 0, 0, 7);
    let check = |source: &str, fields: &str, expected: &str| {
        let origin = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!(
            "defaults\n mode http\n timeout client 20s\n timeout connect 5s\n timeout server 20s\n\
             listen l\n bind 127.0.0.1:0\n server s {} source {source}\n",
            origin.local_addr().unwrap()
        );
        let running = harness::start(&text);
        let mut client = client(here, running.address);
        write!(client, "GET / HTTP/1.1\r\nhost: a\r\n{fields}connection: close\r\n\r\n").unwrap();
        let (mut server, from) = origin.accept().unwrap();
        let _head = server.read(&mut [0; 1000]).unwrap();
        server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        assert_eq!(from.ip().to_string(), expected, "{source}");
    };
    check("0.0.0.0", "", "127.0.0.1");
    check("127.0.0.3", "", "127.0.0.3");
    check("0.0.0.0 usesrc 127.0.0.4", "", "127.0.0.4");
    check("0.0.0.0 usesrc clientip", "", "127.0.0.7");
    // `usesrc client` cannot be seen here: on the client's own machine its port is taken.
    let list = "x-forwarded-for: 127.0.0.5, 127.0.0.6\r\n";
    check("0.0.0.0 usesrc hdr_ip(x-forwarded-for)", list, "127.0.0.6");
    check("0.0.0.0 usesrc hdr_ip(x-forwarded-for,1)", list, "127.0.0.5");
    // Without such a field: what `source` says.
    check("127.0.0.3 usesrc hdr_ip(x-forwarded-for)", "", "127.0.0.3");
}
