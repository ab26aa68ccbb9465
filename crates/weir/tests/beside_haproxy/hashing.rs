//! Keys go to the servers that HAProxy sends them to, whatever is hashed and however.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use crate::programs::{Client, LIMIT, Program, free_ports, ours, real};

/// Keys of each row.
const KEYS: usize = 20;

const DEFAULTS: &str =
    "defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n";

const METHODS: [&str; 2] = ["map-based", "consistent"];
const FUNCTIONS: [&str; 5] = ["sdbm", "djb2", "wt6", "crc32", "none"];

const NUMBER: &str = "hash req.hdr(x-num),add(3)";

const BALANCES: &[&str] = &[
    "source",
    "uri",
    "uri len 9",
    "uri depth 1",
    "uri depth 2",
    "uri whole",
    "uri path-only",
    "uri len 12 depth 2 whole",
    "url_param id",
    "url_param n",
    "hdr(x-key)",
    "hdr(host) use_domain_only",
    "hash path",
    "hash req.hdr(x-num)",
    NUMBER,
    "hash src",
    "hash always_true",
];

/// Words for each of four servers.
const FARMS: &[(&str, [&str; 4])] = &[
    ("", ["", "", "", ""]),
    ("", ["weight 10", "weight 1", "weight 100", "weight 37"]),
    ("", ["weight 3", "weight 2", "weight 1", "weight 0"]),
    ("", ["id 77", "id 5", "id 1000", "id 2"]),
    ("", ["", "disabled", "", ""]),
    ("", ["weight 10", "weight 1", "weight 100 disabled", "weight 37"]),
    ("", ["disabled", "disabled", "backup", "backup"]),
    ("option allbackups", ["disabled", "weight 1 backup", "weight 100 backup", "weight 37 backup"]),
    ("", ["hash-key addr", "hash-key addr", "hash-key addr", "hash-key addr"]),
    ("", ["hash-key addr-port", "hash-key addr-port", "hash-key addr-port", "hash-key addr-port"]),
    ("", ["hash-key addr weight 3", "hash-key id", "", "hash-key addr weight 256"]),
    ("hash-balance-factor 110", ["weight 10", "weight 1", "weight 100", "weight 37"]),
];

/// `hash-type` with and without its optional words.
fn hash_types() -> Vec<String> {
    let mut types: Vec<String> = METHODS.map(str::to_owned).into();
    for method in METHODS {
        for function in FUNCTIONS {
            types.push(format!("{method} {function}"));
            types.push(format!("{method} {function} avalanche"));
        }
    }
    types
}

/// One backend: `balance`, `hash-type`, its farm.
type Row = (&'static str, String, usize);

/// Every balance with every hash type on two farms, and every farm with every hash type.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for hash in hash_types() {
        rows.extend(BALANCES.iter().flat_map(|balance| (0..2).map(|farm| (*balance, hash.clone(), farm))));
        rows.extend((2..FARMS.len()).map(|farm| ("uri", hash.clone(), farm)));
    }
    // A number is its own hash here, as the manual says of `none`; HAProxy 3.0 reads its binary form as text: always 0.
    rows.retain(|(balance, hash, _)| *balance != NUMBER || !hash.contains("none"));
    rows
}

/// The rows whose results are frozen: all but those that depend on free ports, the common hash types alone where
/// another word matters.
fn frozen_rows() -> Vec<Row> {
    let common = ["map-based", "consistent", "consistent djb2 avalanche"];
    let mut rows = rows();
    rows.retain(|(balance, hash, farm)| {
        let plain = *balance == "uri" && *farm < 2;
        !FARMS[*farm].1[0].contains("port") && (plain || common.contains(&hash.as_str()))
    });
    rows
}

/// A frontend that chooses the backend by name, four origins that say who they are, and the backends.
fn config(rows: &[Row]) -> String {
    let mut text = format!(
        "{DEFAULTS} http-reuse always\nfrontend f\n bind 127.0.0.1:PORT\n http-request set-src hdr(x-src)\n \
         use_backend %[hdr(x-be)]\n"
    );
    for at in 1..=4 {
        text += &format!("frontend o{at}\n bind 127.0.0.{at}:PORT{at}\n");
        text += &format!(" http-request return status 200 hdr x-server {at}\n");
    }
    for (at, (balance, hash, farm)) in rows.iter().enumerate() {
        let (option, words) = FARMS[*farm];
        text += &format!("backend b{at}\n balance {balance}\n hash-type {hash}\n {option}\n");
        for (server, words) in (1..).zip(words) {
            text += &format!(" server s{server} 127.0.0.{server}:PORT{server} {words}\n");
        }
    }
    text
}

fn request(backend: usize, key: usize) -> String {
    let uri = format!("/d{}/e{}/f{key}?id=k{key}&n={}", key % 7, key % 5, key * 37);
    let host = format!("www{key}.dom{}.example.com", key * 3);
    let source = format!("10.{}.{}.{}", key % 3, key * 5, key * 11 % 256);
    format!(
        "GET {uri} HTTP/1.1\r\nhost: {host}\r\nx-be: b{backend}\r\nx-src: {source}\r\nx-key: key-{key}\r\n\
         x-num: {}\r\n\r\n",
        key * 12345
    )
}

/// For each row, the server of each key.
fn servers(program: &Path, ports: &[u16], rows: &[Row]) -> Vec<String> {
    let running = Program::start(program, "hashing", ports, &config(rows));
    let mut client = Client::connect(running.address());
    let of_row = |row: usize| {
        client.send(&(0..KEYS).map(|key| request(row, key)).collect::<String>());
        (0..KEYS).map(|_| client.answer().unwrap().field("x-server").to_owned()).collect()
    };
    (0..rows.len()).map(of_row).collect()
}

#[test]
fn keys_go_to_the_servers_that_haproxy_sends_them_to() {
    let Some(real) = real() else { return };
    let rows = rows();
    // The same ports: `hash-key addr-port` takes them into account.
    let ports = free_ports(5);
    let expected = servers(&real, &ports, &rows);
    let found = servers(&ours(), &ports, &rows);
    let differ =
        rows.iter().zip(expected.iter().zip(&found)).filter(|(_, (expected, found))| expected != found);
    let differ: Vec<String> = differ.map(|(row, (e, f))| format!("{row:?}\n {e}\n {f}")).collect();
    assert!(differ.is_empty(), "{} of {} rows:\n{}", differ.len(), rows.len(), differ.join("\n"));
}

/// What HAProxy 3.0.11 does with [`frozen_rows`].
const FROZEN: &str = include_str!("hashing.txt");

fn frozen(rows: &[Row], servers: &[String]) -> String {
    let line = |((balance, hash, farm), servers): (&Row, &String)| {
        format!("{servers} {balance} | {hash} | {farm}\n")
    };
    rows.iter().zip(servers).map(line).collect()
}

#[test]
fn keys_keep_the_servers_that_haproxy_sent_them_to() {
    let rows = frozen_rows();
    let found = frozen(&rows, &servers(&ours(), &free_ports(5), &rows));
    let differ: Vec<_> =
        FROZEN.lines().zip(found.lines()).filter(|(expected, found)| expected != found).collect();
    assert!(differ.is_empty() && FROZEN.lines().count() == rows.len(), "{differ:#?}");
}

#[test]
#[ignore = "writes the frozen table anew, from the real program"]
fn freeze() {
    let rows = frozen_rows();
    let table = frozen(&rows, &servers(&real().unwrap(), &free_ports(5), &rows));
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beside_haproxy/hashing.txt"), table).unwrap();
}

/// Servers that say which one they are and close.
fn speaking_servers() -> Vec<u16> {
    let speaks = |number: u8| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                client.write_all(&[b'0' + number]).unwrap();
                // Until whoever asked goes: closing before would take the answer back.
                client.read_to_end(&mut Vec::new()).ok();
            }
        });
        port
    };
    (1..=4).map(speaks).collect()
}

/// The servers of some terminal clients, by their cookies.
fn rdp_servers(program: &Path, ports: &[u16], hash: &str) -> String {
    let mut config = format!(
        "{DEFAULTS}listen l\n mode tcp\n bind 127.0.0.1:PORT\n balance rdp-cookie\n hash-type {hash}\n \
         tcp-request inspect-delay 60s\n tcp-request content accept if RDP_COOKIE\n"
    );
    for (number, port) in (1..).zip(ports) {
        config += &format!(" server s{number} 127.0.0.1:{port}\n");
    }
    let running = Program::start(program, "rdp", &free_ports(1), &config);
    let server = |user: usize| {
        let mut client = TcpStream::connect(running.address()).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00").unwrap();
        client.write_all(format!("Cookie: mstshash=user{user}\r\n").as_bytes()).unwrap();
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        char::from(answer[0])
    };
    (0..12).map(server).collect()
}

#[test]
fn terminal_clients_go_to_the_servers_that_haproxy_sends_them_to() {
    let Some(real) = real() else { return };
    let ports = speaking_servers();
    for hash in ["map-based", "consistent", "map-based wt6 avalanche", "consistent crc32"] {
        let expected = rdp_servers(&real, &ports, hash);
        assert_eq!(rdp_servers(&ours(), &ports, hash), expected, "{hash}");
    }
}
