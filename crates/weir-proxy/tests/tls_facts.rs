//! What rules see of a client's handshake, where the configuration keeps it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod harness;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use harness::tls_client;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

/// The body of the answer to a client of this version, where `global` and the answer's format are these.
fn told(name: &str, global: &str, format: &str, tls13: bool) -> String {
    let (config, file) = tls_client::with_certificate(name);
    let running = harness::start(&format!(
        "global\n nbthread 1\n{global}defaults\n mode http\n timeout client 5s\n\
         frontend f\n bind 127.0.0.1:0 ssl crt {} {}\n\
         http-request return status 200 content-type text/plain lf-string \"{format}\"\n",
        file.display(),
        if tls13 { "" } else { "force-tlsv12" },
    ));
    std::fs::remove_file(&file).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(running.address).unwrap());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn facts_of_handshakes() {
    let check = |name: &str, global: &str, format: &str, tls13: bool, expected: &str| {
        assert_eq!(told(name, global, format, tls13), expected, "{name}");
    };
    // In hexadecimal digits: as text, bytes would end at the first zero.
    let lengths = |fetches: &[&str]| {
        let parts: Vec<String> = fetches.iter().map(|fetch| format!("<%[{fetch},hex,length]>")).collect();
        parts.concat()
    };
    let ids = lengths(&["ssl_fc_client_random", "ssl_fc_server_random", "ssl_fc_session_id"]);
    // With a ticket TLS 1.2 has no identifier, and TLS 1.3 has none of its own.
    check("ids-12", "", &ids, false, "<64><64><64>");
    check("ids-13", "", &ids, true, "<64><64><>");
    check("key-12", "", &lengths(&["ssl_fc_session_key"]), false, "<96>");
    check("key-13", "", &lengths(&["ssl_fc_session_key"]), true, "<>");
    let lists = ["ssl_fc_cipherlist_bin", "ssl_fc_cipherlist_hex", "ssl_fc_extlist_bin", "ssl_fc_eclist_bin"];
    let lists = format!("<%[ssl_fc_protocol_hello_id]>{}", lengths(&lists));
    check("none", "", &lists, true, "<><><><><>");
    // What is kept is cut in the order of the lists.
    check("short", " tune.ssl.capture-buffer-size 6\n", &lists, true, "<771><12><24><><>");
    let secrets = lengths(&["ssl_fc_client_traffic_secret_0", "ssl_fc_exporter_secret"]);
    check("secrets", " tune.ssl.keylog on\n", &secrets, true, "<128><128>");
    check("no-secrets", "", &secrets, true, "<><>");
    check("errors", "", "%[ssl_fc_err] %[ssl_fc_err_str] %[ssl_c_err] %[ssl_c_ca_err_depth]", true, "0  0 0");
}
