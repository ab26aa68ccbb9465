//! Numbers that rules and logs tell of servers, queues and connections are HAProxy's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::programs::{Client, LIMIT, Program, difference, free_ports, ours, real};

const DEFAULTS: &str = "global\n stats socket SOCKET level admin\ndefaults\n mode http\n timeout client 60s\n \
    timeout server 60s\n timeout connect 60s\n";

/// Options, and words for each of four servers; the third one's origin never answers.
const FARMS: &[(&str, [&str; 4])] = &[
    ("", ["", "", "", ""]),
    ("", ["", "", "backup", "backup"]),
    ("", ["disabled", "disabled", "backup", "backup"]),
    ("option allbackups", ["disabled", "disabled", "backup", "backup"]),
    ("option allbackups", ["", "disabled", "backup", "backup"]),
    ("", ["disabled", "disabled", "disabled", "disabled"]),
    ("", ["weight 0", "weight 0", "weight 5", "weight 7"]),
    ("", ["weight 0", "weight 0", "weight 0", "weight 0"]),
    ("", ["maxconn 10", "maxconn 20", "maxconn 30", "maxconn 40"]),
    (
        "",
        [
            "maxconn 10 maxqueue 5",
            "maxconn 20 maxqueue 6",
            "maxconn 30 maxqueue 7",
            "maxconn 40 maxqueue 8 backup",
        ],
    ),
    ("", ["maxconn 10 maxqueue 5", "maxconn 20 maxqueue 6 disabled", "maxconn 30", "maxconn 40 backup"]),
    ("balance leastconn\n fullconn 10", ["minconn 1 maxconn 10", "maxconn 20", "disabled", "weight 256"]),
];

const OF_BACKENDS: &[&str] = &["nbsrv", "connslots", "avg_queue", "queue", "be_conn", "be_conn_free"];
const OF_SERVERS: &[&str] =
    &["srv_is_up", "srv_conn", "srv_conn_free", "srv_queue", "srv_weight", "srv_iweight", "srv_uweight"];

fn farms() -> String {
    let mut text = format!("{DEFAULTS}frontend f\n bind 127.0.0.1:PORT\n");
    let numbered = (0..FARMS.len()).map(|at| (format!("b{at}"), format!("/{at}")));
    for (at, path) in numbered.chain([("waits".to_owned(), "/waits".to_owned())]) {
        for name in OF_BACKENDS {
            text += &format!(" http-request set-var(txn.{at}{name}) {name}({at})\n");
        }
        let of_backend = OF_BACKENDS.iter().map(|name| format!("{name}=%[var(txn.{at}{name})]"));
        let of_servers = (1..=4).flat_map(|server| {
            let at = &at;
            OF_SERVERS.iter().map(move |name| format!("{name}{server}=%[{name}({at}/s{server})]"))
        });
        let figures: Vec<String> = of_backend.chain(of_servers).collect();
        text += &format!(
            " http-request return status 200 hdr x-figures \"{}\" if {{ path {path} }}\n",
            figures.join(" ")
        );
    }
    text += " use_backend %[hdr(x-be)]\n";
    for (at, (option, words)) in FARMS.iter().enumerate() {
        text += &format!("backend b{at}\n {option}\n");
        for (server, words) in (1..).zip(words) {
            text += &format!(" server s{server} 127.0.0.1:PORT1 {words}\n");
        }
    }
    text += "backend named\n http-request return status 200 hdr x-figures \"%[be_name] %[be_id] %[fe_name] %[nbsrv] \
             %[nbsrv(b1)] %[be_conn] %[fe_conn(f)]\"\n";
    text + "backend waits\n server s1 127.0.0.1:PORT1 maxconn 1\n server s2 127.0.0.1:PORT1 disabled\n server s3 127.0.0.1:PORT1 \
            disabled\n server s4 127.0.0.1:PORT1 disabled\nfrontend silent\n bind 127.0.0.1:PORT1\n timeout tarpit 60s\n http-request tarpit\n"
}

/// What a program says of all farms, and again after commands have changed them.
fn figures(program: &Path, ports: &[u16]) -> Vec<String> {
    let running = Program::start(program, "figures", ports, &farms());
    let mut client = Client::connect(running.address());
    let mut lines = Vec::new();
    let mut ask = |what: &str, headers: &str| {
        client.send(&format!("GET {what} HTTP/1.1\r\nhost: a\r\n{headers}\r\n"));
        lines.push(format!("{what} {}", client.answer().unwrap().field("x-figures")));
    };
    let mut all = |when: &str| {
        for at in 0..FARMS.len() {
            ask(&format!("/{at}"), "");
        }
        ask(&format!("/named{when}"), "x-be: named\r\n");
    };
    all("");
    for command in [
        "set server b0/s1 state drain",
        "set server b0/s2 state maint",
        "set server b1/s1 state maint",
        "set weight b6/s3 50%",
        "set server b8/s2 weight 0",
        "set server b8/s1 state maint",
        "disable server b9/s1",
    ] {
        running.command(command);
    }
    all("-changed");
    lines
}

fn assert_same(expected: &[String], found: &[String]) {
    let differ = expected.iter().zip(found).filter(|(expected, found)| expected != found);
    let differ: Vec<String> = differ.map(|(e, f)| difference(e, f)).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn rules_see_the_servers_that_haproxys_rules_see() {
    let Some(real) = real() else { return };
    let ports = free_ports(2);
    let (expected, found) = (figures(&real, &ports), figures(&ours(), &ports));
    assert_same(&expected, &found);
}

#[test]
fn requests_that_wait_are_counted_as_haproxy_counts_them() {
    let Some(real) = real() else { return };
    let counts = |program: &Path| {
        let running = Program::start(program, "queues", &free_ports(2), &farms());
        let waiting: Vec<TcpStream> = (0..4)
            .map(|_| {
                let mut client = TcpStream::connect(running.address()).unwrap();
                client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-be: waits\r\n\r\n").unwrap();
                client
            })
            .collect();
        let mut client = Client::connect(running.address());
        let start = Instant::now();
        loop {
            client.send("GET /waits HTTP/1.1\r\nhost: a\r\n\r\n");
            let answer = client.answer().unwrap().field("x-figures").to_owned();
            if answer.contains("be_conn=4 ") && answer.contains(" queue=3 ") || start.elapsed() > LIMIT / 10 {
                drop(waiting);
                return answer;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    assert_eq!(counts(&ours()), counts(&real));
}

const LOGS: &str = "frontend h\n bind 127.0.0.1:PORT\n log 127.0.0.1:PORT9 local0\n option dontlognull\n \
    log-format \"@@%ac/%fc/%bc/%sc/%rc %sq/%bq %ts %b/%s %ST\"\n retries 2\n http-request deny if { path /deny }\n \
    use_backend refused if { path /refused }\n use_backend redispatched if { path /redispatched }\n \
    use_backend down if { path /down }\n use_backend silent if { path /silent }\n default_backend origin\n\
    frontend t\n mode tcp\n bind 127.0.0.1:PORT1\n log 127.0.0.1:PORT9 local0\n option dontlognull\n \
    log-format \"@@%ac/%fc/%bc/%sc/%rc %sq/%bq %ts %b/%s\"\n default_backend tcp\n\
    frontend u\n mode tcp\n bind 127.0.0.1:PORT2\n log 127.0.0.1:PORT9 local0\n \
    log-format \"@@%ac/%fc/%bc/%sc/%rc %sq/%bq %ts %b/%s\"\n default_backend tcpdown\n\
    frontend v\n mode tcp\n bind 127.0.0.1:PORT3\n log 127.0.0.1:PORT9 local0\n retries 1\n \
    log-format \"@@%ac/%fc/%bc/%sc/%rc %sq/%bq %ts %b/%s\"\n default_backend tcprefused\n\
    listen w\n mode tcp\n bind 127.0.0.1:PORT4\n log 127.0.0.1:PORT9 local0\n option tcplog\n \
    log-format \"@@%ac/%fc/%bc/%sc/%rc %sq/%bq %ts %b/%s\"\n server s1 127.0.0.1:PORT8 maxconn 1\n\
    backend origin\n server s1 127.0.0.1:PORT7\n\
    backend refused\n timeout connect 100ms\n retries 2\n server s1 127.0.0.1:PORT6\n\
    backend redispatched\n timeout connect 100ms\n retries 1\n option redispatch 1\n balance first\n server s1 127.0.0.1:PORT6\n server s2 127.0.0.1:PORT7\n\
    backend down\n server s1 127.0.0.1:PORT6 disabled\n\
    backend silent\n timeout server 50ms\n server s1 127.0.0.1:PORT5\n\
    backend tcp\n mode tcp\n server s1 127.0.0.1:PORT8\n\
    backend tcpdown\n mode tcp\n server s1 127.0.0.1:PORT6 disabled\n\
    backend tcprefused\n mode tcp\n timeout connect 100ms\n retries 1\n server s1 127.0.0.1:PORT6\n";

/// The part of a log line behind its header.
fn line(socket: &UdpSocket) -> String {
    let mut bytes = [0; 2048];
    let length = socket.recv(&mut bytes).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    text.split_once("@@").map_or(&*text, |(_, line)| line.trim_end()).to_owned()
}

/// Serves each connection to a port on a thread of its own.
fn origin(port: u16, serve: fn(TcpStream)) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            std::thread::spawn(move || serve(client));
        }
    });
}

/// Sends back what it gets.
fn echo(mut client: TcpStream) {
    let mut reader = client.try_clone().unwrap();
    std::io::copy(&mut reader, &mut client).ok();
}

/// Answers one request.
fn http(client: TcpStream) {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    while client.read_line(&mut line).is_ok_and(|length| length > 2) {
        line.clear();
    }
    client.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
}

/// Reads and never answers.
fn silent(mut client: TcpStream) {
    client.read_to_end(&mut Vec::new()).ok();
}

/// Sends something through a TCP proxy and waits until it is back.
fn through(to: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(to).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client
}

fn log_lines(program: &Path, ports: &[u16]) -> Vec<String> {
    let running = Program::start(program, "logs", ports, &format!("{DEFAULTS}{LOGS}"));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, ports[9])).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut lines = Vec::new();
    let mut get = |path: &str| {
        let mut client = Client::connect(running.address());
        client.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"));
        client.answer();
        lines.push(format!("{path}: {}", line(&socket)));
        drop(client);
        if path != "/beside" {
            running.wait_until_idle();
        }
    };
    for path in ["/", "/deny", "/down", "/refused", "/redispatched", "/silent"] {
        get(path);
    }
    let beside = [Client::connect(running.address()), Client::connect(running.address())];
    get("/beside");
    drop(beside);
    let at = |port: usize| SocketAddr::from((Ipv4Addr::LOCALHOST, ports[port]));
    running.wait_until_idle();
    drop(through(at(1)));
    lines.push(format!("tcp: {}", line(&socket)));
    running.wait_until_idle();
    let beside = through(at(1));
    drop(through(at(1)));
    lines.push(format!("tcp beside another: {}", line(&socket)));
    drop(beside);
    lines.push(format!("the other: {}", line(&socket)));
    running.wait_until_idle();
    for port in [2, 3] {
        let mut client = TcpStream::connect(at(port)).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(b"x").unwrap();
        client.read_to_end(&mut Vec::new()).ok();
        lines.push(format!("tcp {port}: {}", line(&socket)));
    }
    drop(through(at(4)));
    lines.push(format!("listen: {}", line(&socket)));
    lines
}

#[test]
fn logs_count_connections_as_haproxys_do() {
    let Some(real) = real() else { return };
    let ports = free_ports(10);
    origin(ports[5], silent);
    origin(ports[7], http);
    origin(ports[8], echo);
    let (expected, found) = (log_lines(&real, &ports), log_lines(&ours(), &ports));
    assert_same(&expected, &found);
}

#[test]
fn a_backend_whose_servers_have_no_address_is_down() {
    let config = format!(
        "{DEFAULTS}frontend f\n bind 127.0.0.1:PORT\n http-request return status 200 hdr x-nbsrv %[nbsrv(b)]\n\
         resolvers r\n nameserver n 127.0.0.1:PORT1\n\
         backend b\n server s1 nowhere.example:80 resolvers r init-addr none\n \
         server s2 nowhere.example:80 resolvers r init-addr none backup\n"
    );
    for program in [Some(ours()), real()].into_iter().flatten() {
        let running = Program::start(&program, "resolution", &free_ports(2), &config);
        let mut client = Client::connect(running.address());
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.answer().unwrap().field("x-nbsrv"), "0", "{program:?}");
        let rows = running.command("show stat");
        let status = |row: &str| {
            let fields = rows.lines().find(|line| line.starts_with(row)).map(|line| line.split(','));
            fields.and_then(|mut fields| fields.nth(17)).unwrap_or_default().to_owned()
        };
        assert_eq!(["b,s1,", "b,BACKEND,"].map(status), ["MAINT (resolution)", "DOWN"], "{program:?}");
    }
}
