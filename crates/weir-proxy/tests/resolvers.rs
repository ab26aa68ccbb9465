//! Names resolved while running, over real sockets: a small name server whose records change, and what becomes of
//! the servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use simple_dns::rdata::{A, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use harness::Running;

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// What a name server says of a name; nothing for a name that is not there.
#[derive(Clone, Default)]
struct Records {
    addresses: Vec<&'static str>,
    /// Port, weight, host.
    services: Vec<(u16, u16, &'static str)>,
    /// Addresses of hosts that come along.
    additional: Vec<(&'static str, &'static str)>,
    /// Only over TCP.
    large: bool,
    /// Answers with an error.
    refused: bool,
    /// An answer to somebody else's question comes first.
    forged: bool,
}

fn at(addresses: &[&'static str]) -> Records {
    Records { addresses: addresses.to_vec(), ..Records::default() }
}

type Zone = Arc<Mutex<HashMap<&'static str, Records>>>;

/// A name server over UDP and TCP.
struct NameServer {
    address: SocketAddr,
    zone: Zone,
}

impl NameServer {
    fn start() -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            // The same port of TCP may be somebody else's.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let (address, zone) = (udp.local_addr().unwrap(), Zone::default());
        let records = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, client)) = udp.recv_from(&mut buffer) {
                for answer in answers(&records, &buffer[..length], false) {
                    // A client that is gone does not wait for it.
                    let _sent = udp.send_to(&answer, client);
                }
            }
        });
        let records = Arc::clone(&zone);
        std::thread::spawn(move || {
            for mut client in tcp.incoming().flatten() {
                let mut length = [0; 2];
                client.read_exact(&mut length).unwrap();
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                client.read_exact(&mut question).unwrap();
                for answer in answers(&records, &question, true) {
                    client.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
                    client.write_all(&answer).unwrap();
                }
            }
        });
        Self { address, zone }
    }

    fn set(&self, name: &'static str, records: Option<Records>) {
        let mut zone = self.zone.lock().unwrap();
        match records {
            Some(records) => zone.insert(name, records),
            None => zone.remove(name),
        };
    }
}

fn answers(zone: &Zone, question: &[u8], tcp: bool) -> Vec<Vec<u8>> {
    let asked = Packet::parse(question).unwrap();
    let mut reply = Packet::new_reply(asked.id());
    let (name, kind) = (asked.questions[0].qname.clone(), asked.questions[0].qtype);
    let records = zone.lock().unwrap().get(name.to_string().as_str()).cloned();
    reply.questions = asked.questions;
    let found = |name: &Name<'static>, rdata| ResourceRecord::new(name.clone(), CLASS::IN, 60, rdata);
    let owner = name.into_owned();
    match records {
        None => *reply.rcode_mut() = RCODE::NameError,
        Some(records) if records.refused => *reply.rcode_mut() = RCODE::Refused,
        Some(records) if records.large && !tcp => reply.set_flags(PacketFlag::TRUNCATION),
        Some(records) => {
            if kind == QTYPE::TYPE(TYPE::A) {
                reply.answers.extend(records.addresses.iter().map(|ip| found(&owner, address(ip))));
            }
            if kind == QTYPE::TYPE(TYPE::SRV) {
                for (port, weight, host) in &records.services {
                    let target = Name::new(host).unwrap();
                    let srv = SRV { priority: 1, weight: *weight, port: *port, target };
                    reply.answers.push(found(&owner, RData::SRV(srv)));
                }
                for (host, ip) in &records.additional {
                    reply.additional_records.push(found(&Name::new(host).unwrap(), address(ip)));
                }
            }
            if records.forged {
                let mut other = reply.clone();
                other.set_id(reply.id().wrapping_add(1));
                other.answers = vec![found(&owner, address("10.9.9.9"))];
                return vec![other.build_bytes_vec().unwrap(), reply.build_bytes_vec().unwrap()];
            }
        }
    }
    vec![reply.build_bytes_vec().unwrap()]
}

fn address(ip: &str) -> RData<'static> {
    RData::A(A { address: ip.parse::<Ipv4Addr>().unwrap().to_bits() })
}

/// A running proxy and its log.
struct Bench {
    names: NameServer,
    running: Running,
    log: UdpSocket,
}

impl Bench {
    /// A `listen` section with these lines, whose name servers' faults count at once.
    fn new(lines: &str, zone: &[(&'static str, Records)]) -> Self {
        Self::with_hold("0", lines, zone)
    }

    fn with_hold(hold: &str, lines: &str, zone: &[(&'static str, Records)]) -> Self {
        let names = NameServer::start();
        for (name, records) in zone {
            names.set(name, Some(records.clone()));
        }
        let log = UdpSocket::bind("127.0.0.1:0").unwrap();
        log.set_read_timeout(Some(LIMIT)).unwrap();
        let text = format!(
            "global\n nbthread 1\n dns-accept-family ipv4,ipv6\n log {} format raw local0\n\
             defaults\n mode http\n timeout connect 10s\n timeout client 10s\n timeout server 10s\n\
             resolvers d\n nameserver n1 {}\n timeout resolve 10ms\n timeout retry 10s\n resolve_retries 1\n \
             hold nx {hold}\n hold refused 0\n hold other 0\n hold valid 0\n\
             listen l\n bind 127.0.0.1:0\n log global\n {}\n",
            log.local_addr().unwrap(),
            names.address,
            lines.replace('\n', "\n ")
        );
        Self { names, running: harness::start(&text), log }
    }

    /// Waits for a line of the log; lines before it are of no interest.
    fn hear(&self, expected: &str) {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = self.log.recv(&mut buffer).unwrap_or_else(|e| panic!("{expected}: {e}: {heard:#?}"));
            let line = String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned();
            if line.starts_with(expected) {
                return;
            }
            heard.push(line);
        }
    }

    /// Addresses of the servers, `-` without.
    fn addresses(&self) -> String {
        let servers = self.running.shared.proxies[0].servers.load();
        let shown = |ip: Option<SocketAddr>| ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        let all: Vec<String> = servers.iter().map(|server| shown(server.addr.load().ip())).collect();
        all.join(" ")
    }

    fn counter(&self, name: &str) -> u64 {
        let server = &self.running.shared.dns.section("d").unwrap().servers[0];
        let names = weir_proxy::control::dns::COUNTS.iter();
        names.zip(server.counts()).find(|((known, _), _)| *known == name).unwrap().1
    }

    /// The answer to a request, up to its end.
    fn get(&self, host: &str) -> String {
        let mut client = TcpStream::connect(self.running.address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        write!(client, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn a_server_follows_its_name() {
    let bench = Bench::new("server s app.test:80 resolvers d init-addr none", &[]);
    bench.names.set("app.test", Some(at(&["127.0.0.2"])));
    bench.hear("l/s changed its IP from (none) to 127.0.0.2 by d/n1.");
    bench.hear("Server l/s ('app.test') is UP/READY (resolves again).");
    bench.hear("Server l/s administratively READY thanks to valid DNS answer.");
    assert_eq!(bench.addresses(), "127.0.0.2:80");
    bench.names.set("app.test", Some(at(&["127.0.0.3"])));
    bench.hear("l/s changed its IP from 127.0.0.2 to 127.0.0.3 by d/n1.");
    bench.names.set("app.test", None);
    bench.hear(
        "Server l/s is going DOWN for maintenance (DNS NX status). 0 active and 0 backup servers left.",
    );
    bench.hear("proxy l has no server available!");
    bench.names.set("app.test", Some(at(&["127.0.0.3"])));
    bench.hear("Server l/s ('app.test') is UP/READY (resolves again).");
    bench.names.set("app.test", Some(Records { refused: true, ..Records::default() }));
    bench.hear("Server l/s is going DOWN for maintenance (DNS refused status).");
    assert!(bench.counter("refused") > 0 && bench.counter("nx") > 0 && bench.counter("update") >= 3);
}

#[test]
fn servers_that_are_added_follow_their_names_too() {
    let bench = Bench::new(
        "server s app.test:80 resolvers d init-addr none",
        &[("app.test", at(&["127.0.0.2", "127.0.0.3"]))],
    );
    bench.hear("Server l/s administratively READY thanks to valid DNS answer.");
    let shared = &bench.running.shared;
    let add = |line: &str| {
        let word = |text: &str| weir_rules::Word { text: text.as_bytes().to_vec(), pos: Default::default() };
        let words: Vec<_> = line.split(' ').map(word).collect();
        let config = weir_config::parse_server(&words, &shared.config.global).unwrap();
        let server = shared.proxies[0].add_server(&config);
        shared.watch(&server);
        server
    };
    // The other address of a name that is known.
    let same = add("t app.test:81 resolvers d");
    bench.hear("l/t changed its IP from (none) to 127.0.0.");
    let found = bench.addresses();
    assert!(["127.0.0.2:80 127.0.0.3:81", "127.0.0.3:80 127.0.0.2:81"].contains(&found.as_str()), "{found}");
    assert!(same.in_maintenance(), "added servers start in maintenance");
    // A name that nobody had, and again after it was removed.
    bench.names.set("new.test", Some(at(&["127.0.0.4"])));
    for round in 0..2 {
        let other = add(&format!("u{round} new.test:82 resolvers d"));
        bench.hear(&format!("l/u{round} changed its IP from (none) to 127.0.0.4"));
        bench.names.set("new.test", Some(at(&["127.0.0.5"])));
        bench.hear(&format!("l/u{round} changed its IP from 127.0.0.4 to 127.0.0.5"));
        bench.names.set("new.test", Some(at(&["127.0.0.4"])));
        bench.hear(&format!("l/u{round} changed its IP from 127.0.0.5 to 127.0.0.4"));
        assert!(shared.proxies[0].remove_server(&other));
    }
}

#[test]
fn servers_of_a_template_share_the_addresses() {
    let bench = Bench::new(
        "server-template t 3 app.test:80 resolvers d init-addr none",
        &[("app.test", at(&["127.0.0.2", "127.0.0.3"]))],
    );
    bench.hear("l/t2 changed its IP from (none) to 127.0.0.3 by DNS cache.");
    bench.hear("Server l/t2 administratively READY");
    assert_eq!(bench.addresses(), "127.0.0.2:80 127.0.0.3:80 -");
    bench.names.set("app.test", Some(at(&["127.0.0.3", "127.0.0.4"])));
    bench.hear("l/t1 changed its IP from 127.0.0.2 to 127.0.0.4 by d/n1.");
    bench.names.set("app.test", Some(at(&["127.0.0.4"])));
    bench.hear("Server l/t2 is going DOWN for maintenance (No IP for server ).");
}

#[test]
fn services_fill_a_template() {
    let services = |list: &[(u16, u16, &'static str)]| Records {
        services: list.to_vec(),
        additional: vec![("a.test", "127.0.1.1")],
        ..Records::default()
    };
    let bench = Bench::new(
        "server-template v 3 _http._tcp.test resolvers d",
        &[
            ("_http._tcp.test", services(&[(9001, 300, "a.test"), (9002, 0, "b.test")])),
            ("b.test", at(&["127.0.1.2"])),
            ("c.test", at(&["127.0.1.3"])),
        ],
    );
    bench.hear("l/v1 changed its IP from (none) to 127.0.1.1 by DNS additional record.");
    bench.hear("l/v1 changed its FQDN from (null) to a.test by 'SRV record'");
    bench.hear("Server l/v1 ('a.test') is UP/READY (resolves again).");
    bench.hear("l/v2 changed its IP from (none) to 127.0.1.2 by d/n1.");
    bench.hear("Server l/v2 administratively READY");
    assert_eq!(bench.addresses(), "127.0.1.1:9001 127.0.1.2:9002 -");
    let weight = |at: usize| {
        bench.running.shared.proxies[0].servers.load()[at].weight.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!((weight(0), weight(1)), (2, 1));
    bench.names.set("_http._tcp.test", Some(services(&[(9003, 0, "c.test"), (9002, 0, "b.test")])));
    bench.hear("l/v1 changed its FQDN from a.test to c.test by 'SRV record'");
    assert_eq!(bench.addresses(), "127.0.1.3:9003 127.0.1.2:9002 -");
    bench.names.set("_http._tcp.test", Some(services(&[(9002, 0, "b.test")])));
    bench.hear("Server l/v1 is going DOWN for maintenance (entry removed from SRV record).");
}

#[test]
fn truncated_answers_are_asked_for_over_tcp_and_forged_ones_ignored() {
    let large = Records { large: true, ..at(&["127.0.0.2"]) };
    let bench = Bench::new("server s app.test:80 resolvers d init-addr none", &[("app.test", large)]);
    bench.hear("l/s changed its IP from (none) to 127.0.0.2 by d/n1.");
    assert!(bench.counter("truncated") > 0);
    bench.names.set("app.test", Some(Records { forged: true, ..at(&["127.0.0.3"]) }));
    bench.hear("l/s changed its IP from 127.0.0.2 to 127.0.0.3 by d/n1.");
}

#[test]
fn rules_resolve_names() {
    let bench = Bench::new(
        "http-request do-resolve(txn.ip,d,ipv4) hdr(host)\n\
         http-request return status 200 hdr x-ip %[var(txn.ip)]",
        &[("app.test", at(&["127.0.0.2"]))],
    );
    let check = |host: &str, expected: &str| {
        let answer = bench.get(host);
        let found = answer.lines().find_map(|line| line.strip_prefix("x-ip: "));
        assert_eq!(found.and_then(|ip| ip.parse::<IpAddr>().ok()), expected.parse().ok(), "{host}: {answer}");
    };
    check("app.test", "127.0.0.2");
    check("App.Test.", "127.0.0.2");
    check("nope.test", "none");
    check("..", "none");
    bench.names.set("app.test", Some(at(&["127.0.0.7"])));
    check("app.test", "127.0.0.7");
}

#[test]
fn a_valid_answer_outweighs_faults_for_a_while() {
    let zone = [("app.test", at(&["127.0.0.2"]))];
    let bench = Bench::with_hold("1h", "server s app.test:80 resolvers d init-addr none", &zone);
    bench.hear("Server l/s administratively READY");
    bench.names.set("app.test", None);
    // Several faults come and change nothing.
    while bench.counter("nx") < 10 {
        std::thread::yield_now();
    }
    assert_eq!(bench.addresses(), "127.0.0.2:80");
    bench.names.set("app.test", Some(at(&["127.0.0.4"])));
    bench.hear("l/s changed its IP from 127.0.0.2 to 127.0.0.4 by d/n1.");
}

#[test]
fn rules_of_connections_resolve_names() {
    let origin = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = origin.local_addr().unwrap().port();
    let lines = format!(
        "mode tcp\ntcp-request inspect-delay 30s\n\
         tcp-request content do-resolve(sess.ip,d,ipv4) str(origin.test)\n\
         tcp-request content set-dst var(sess.ip)\n\
         server s 0.0.0.0:{port}"
    );
    let bench = Bench::new(&lines, &[("origin.test", at(&["127.0.0.2"]))]);
    let mut client = TcpStream::connect(bench.running.address).unwrap();
    client.write_all(b"hello").unwrap();
    let (mut server, _) = origin.accept().unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

/// An origin that says its port.
fn origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let _head = stream.read(&mut bytes).unwrap();
            let body = port.to_string();
            let length = body.len();
            // A client that is gone needs no answer.
            let _told = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    port
}

#[test]
fn a_services_port_is_the_records_and_not_the_clients() {
    let port = origin();
    let services = Records {
        services: vec![(port, 0, "a.test")],
        additional: vec![("a.test", "127.0.0.1")],
        ..Records::default()
    };
    let bench =
        Bench::new("server-template v 1 _http._tcp.test resolvers d", &[("_http._tcp.test", services)]);
    bench.hear("Server l/v1 ('a.test') is UP/READY (resolves again).");
    let answer = bench.get("a");
    assert!(answer.ends_with(&format!("\r\n\r\n{port}")), "{answer}");
}

#[test]
fn a_renamed_server_is_asked_for_at_the_sections_name_servers() {
    let zone = [("old.test", at(&["127.0.0.2"])), ("new.test", at(&["127.0.0.3"]))];
    let bench = Bench::new("server s old.test:80 resolvers d init-addr none", &zone);
    bench.hear("l/s changed its IP from (none) to 127.0.0.2 by d/n1.");
    let shared = &bench.running.shared;
    let rename = |name: &str| {
        let server = Arc::clone(&shared.proxies[0].servers.load()[0]);
        let address = server.addr.load().address.clone();
        server.set_target(weir_proxy::state::ServerTarget { address, name: Some(name.to_owned()) });
        shared.dns.follow(&server);
    };
    rename("new.test");
    bench.hear("l/s changed its IP from 127.0.0.2 to 127.0.0.3 by d/n1.");
    // From now on it is the new name that counts, and after that the old one again.
    bench.names.set("old.test", Some(at(&["127.0.0.9"])));
    bench.names.set("new.test", Some(at(&["127.0.0.4"])));
    bench.hear("l/s changed its IP from 127.0.0.3 to 127.0.0.4 by d/n1.");
    rename("old.test");
    bench.hear("l/s changed its IP from 127.0.0.4 to 127.0.0.9 by d/n1.");
}
