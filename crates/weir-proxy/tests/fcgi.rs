//! FastCGI over real sockets: what an application is told, and what the client gets of what it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::Running;
use weir_proxy::control::check::Status;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;

/// A request as an application sees it.
#[derive(Default)]
struct Asked {
    params: BTreeMap<String, String>,
    body: Vec<u8>,
    /// The connection is to stay open.
    keep: bool,
    /// Number of the connection, from 0.
    connection: usize,
    /// It was asked for its limits.
    values: bool,
}

impl Asked {
    fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
}

/// What an application sends, and whether it closes then, even if it was asked not to.
struct Answer {
    bytes: Vec<u8>,
    close: bool,
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    const PADDING: u8 = 5;
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let number = u8::from(kind < GET_VALUES);
    [&[1, kind, 0, number, high, low, PADDING, 0], content, &[0; PADDING as usize]].concat()
}

fn stdout(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(30_000).flat_map(|piece| record(STDOUT, piece)).collect()
}

fn end(status: u8) -> Vec<u8> {
    record(END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// An answer as it should be.
fn says(text: impl AsRef<[u8]>) -> Answer {
    Answer { bytes: [stdout(text.as_ref()), record(STDOUT, b""), end(0)].concat(), close: false }
}

fn read_record(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    stream.read_exact(&mut header).ok()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut content = vec![0; length + usize::from(header[6])];
    stream.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((header[1], content))
}

/// Names and values.
fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while !bytes.is_empty() {
        let mut length = || {
            let (len, rest) = match bytes[0] {
                0..=127 => (usize::from(bytes[0]), &bytes[1..]),
                high => {
                    let len = u32::from_be_bytes([high & 127, bytes[1], bytes[2], bytes[3]]);
                    (len as usize, &bytes[4..])
                }
            };
            bytes = rest;
            len
        };
        let (name, value) = (length(), length());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let known = found.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        assert_eq!(known, None, "a parameter stands twice");
        bytes = &bytes[name + value..];
    }
    found
}

fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Asked> {
    let mut asked = Asked { connection, ..Asked::default() };
    let mut params = Vec::new();
    loop {
        let (kind, content) = read_record(stream)?;
        match kind {
            BEGIN_REQUEST => asked.keep = content[2] == 1,
            PARAMS => params.extend_from_slice(&content),
            STDIN if content.is_empty() => break,
            STDIN => asked.body.extend_from_slice(&content),
            GET_VALUES => {
                asked.values = pairs(&content).contains_key("FCGI_MPXS_CONNS");
                stream.write_all(&record(GET_VALUES_RESULT, b"\x0d\x01FCGI_MAX_REQS5")).ok()?;
            }
            other => panic!("a record of type {other}"),
        }
    }
    asked.params = pairs(&params);
    Some(asked)
}

/// An application.
fn application(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                while let Some(asked) = read_request(&mut stream, connection) {
                    let Answer { bytes, close } = answer(&asked);
                    if stream.write_all(&bytes).is_err() || close || !asked.keep {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A proxy before an application with these lines in its section, and in its backend.
fn start(app: SocketAddr, section: &str, backend: &str) -> Running {
    harness::start(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout server 5s\n timeout client 5s\n\
         frontend f\n bind 127.0.0.1:0\n default_backend b\n\
         backend b\n use-fcgi-app a\n http-reuse always\n retries 0\n server s {app} proto fcgi\n{backend}\
         fcgi-app a\n docroot /srv/app\n{section}"
    ))
}

fn send(address: SocketAddr, request: impl AsRef<[u8]>) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_ref()).unwrap();
    client
}

/// Head and body, which had chunks.
fn receive(mut client: TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut rest = &bytes[(end + 4).min(bytes.len())..];
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (head, rest.to_vec());
    }
    let mut body = Vec::new();
    while let Some(line) = rest.iter().position(|byte| *byte == b'\r') {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
    (head, body)
}

/// What a GET of a target with these field lines gets.
fn get(running: &Running, target: &str, fields: &str) -> (String, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: site:81\r\nConnection: close\r\n{fields}\r\n");
    let (head, body) = receive(send(running.address, request));
    (head, String::from_utf8(body).unwrap())
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// An application that lists its parameters.
fn lister() -> SocketAddr {
    application(|asked| {
        let lines: String = asked.params.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        says(format!("Content-Type: text/plain\r\n\r\n{lines}"))
    })
}

#[test]
fn what_an_application_is_told() {
    let section = " index index.php\n path-info ^(/.+\\.php)(/.*)?$\n";
    let running = start(lister(), section, "");
    let check = |target: &str, fields: &str, expected: &[&str], absent: &[&str]| {
        let (head, body) = get(&running, target, fields);
        assert_eq!(status(&head), 200, "{target}");
        let lines: Vec<&str> = body.lines().collect();
        for line in expected {
            assert!(lines.contains(line), "{target} {fields}: no {line} in {lines:#?}");
        }
        for name in absent {
            assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}: {lines:#?}");
        }
    };
    check(
        "/x%2fy.php/info%20a?q=1&b",
        "X-A: 1\r\nx-a: 2\r\nCookie: a=1\r\nCookie: b=2\r\nTE: trailers\r\nProxy: evil\r\nX_B: 1\r\n",
        &[
            "SCRIPT_NAME=/x/y.php",
            "SCRIPT_FILENAME=/srv/app/x/y.php",
            "PATH_INFO=/info a",
            "PATH_TRANSLATED=/srv/app/info a",
            "DOCUMENT_ROOT=/srv/app",
            "REQUEST_URI=/x%2fy.php/info%20a?q=1&b",
            "QUERY_STRING=q=1&b",
            "REQUEST_METHOD=GET",
            "SERVER_PROTOCOL=HTTP/1.1",
            "GATEWAY_INTERFACE=CGI/1.1",
            "SERVER_NAME=site:81",
            &format!("SERVER_PORT={}", running.address.port()),
            "REMOTE_ADDR=127.0.0.1",
            "CONTENT_LENGTH=0",
            "HTTP_HOST=site:81",
            "HTTP_X_A=1, 2",
            "HTTP_COOKIE=a=1; b=2",
        ],
        &["HTTP_TE", "HTTP_PROXY", "HTTP_X_B", "HTTP_CONNECTION", "HTTPS", "AUTH_TYPE", "CONTENT_TYPE"],
    );
    check("/dir/", "", &["SCRIPT_FILENAME=/srv/app/dir/index.php"], &["PATH_INFO", "PATH_TRANSLATED"]);
    check(
        "/",
        "Authorization: Basic am9lOnB3\r\nContent-Type: a/b\r\n",
        &["AUTH_TYPE=Basic", "REMOTE_USER=joe", "CONTENT_TYPE=a/b"],
        &["HTTP_AUTHORIZATION", "HTTP_CONTENT_TYPE"],
    );
    for target in ["/a%0ab.php", "/a%00b.php", "/a%zz.php"] {
        assert_eq!(status(&get(&running, target, "").0), 400, "{target}");
    }
    let refused =
        receive(send(running.address, "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\n\r\n"));
    assert_eq!(status(&refused.0), 501);
    // A buffer full of fields, and one more of parameters made of them.
    let long = format!("X-Long: {}\r\n", "x".repeat(12_000));
    check("/", &long, &[], &[]);
    let param = "%[req.hdr(x-long)]".repeat(6);
    let running = start(lister(), &format!(" set-param MORE {param}\n"), "");
    assert_eq!(status(&get(&running, "/", &long).0), 431);
    assert_eq!(status(&get(&running, "/", "").0), 200);
}

#[test]
fn parameters_and_fields_by_rules() {
    let section = " acl hello path_beg /hello\n set-param ONE first\n set-param ONE %[src]-%[path]\n \
                   set-param TWO two if hello\n set-param EMPTY %[req.hdr(nothing)]\n \
                   set-param SERVER_SOFTWARE mine\n set-param HTTPS on unless hello\n \
                   pass-header Authorization if hello\n pass-header TE\n pass-header Content-Type\n";
    let running = start(lister(), section, "");
    let fields = "Authorization: Bearer xyz\r\nTE: trailers\r\nContent-Type: a/b\r\n";
    let check = |target: &str, expected: &[(&str, Option<&str>)]| {
        let (_, body) = get(&running, target, fields);
        let found: BTreeMap<&str, &str> = body.lines().filter_map(|line| line.split_once('=')).collect();
        for (name, value) in expected {
            assert_eq!(found.get(name), value.as_ref(), "{target} {name}");
        }
    };
    let always = [
        ("SERVER_SOFTWARE", Some("mine")),
        ("EMPTY", None),
        ("HTTP_TE", Some("trailers")),
        ("HTTP_CONTENT_TYPE", None),
    ];
    check("/hello", &always);
    let hello = [
        ("ONE", Some("127.0.0.1-/hello")),
        ("TWO", Some("two")),
        ("HTTPS", None),
        ("HTTP_AUTHORIZATION", Some("Bearer xyz")),
    ];
    check("/hello", &hello);
    check("/", &[("TWO", None), ("HTTPS", Some("on")), ("HTTP_AUTHORIZATION", None)]);
}

#[test]
fn bodies_both_ways() {
    // Sends back what it was sent, after what it was told of its length.
    let app = application(|asked| {
        let head = format!("X-Length: {}\r\n\r\n", asked.param("CONTENT_LENGTH"));
        says([head.as_bytes(), &asked.body].concat())
    });
    let running = start(app, "", "");
    let post = |framing: &str, body: &[u8]| {
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{framing}\r\n");
        let mut client = send(running.address, head);
        if framing.contains("Expect") {
            let mut interim = [0; 25];
            client.read_exact(&mut interim).unwrap();
            assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        // An answer may come before all is sent.
        let mut sender = client.try_clone().unwrap();
        let body = body.to_vec();
        let sending = std::thread::spawn(move || sender.write_all(&body));
        let received = receive(client);
        let _refused_early = sending.join().unwrap();
        received
    };
    let check = |framing: &str, sent: &[u8], expected: &[u8]| {
        let (head, body) = post(framing, sent);
        assert_eq!(status(&head), 200, "{framing}");
        assert!(head.contains(&format!("x-length: {}\r\n", expected.len())), "{framing}: {head}");
        assert!(body == expected, "{framing}: {} bytes", body.len());
    };
    check("Content-Length: 3\r\n", b"abc", b"abc");
    check("Content-Length: 3\r\nExpect: 100-continue\r\n", b"abc", b"abc");
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
    check(&format!("Content-Length: {}\r\n", large.len()), &large, &large);
    check("Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde");
    check("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", b"3\r\nabc\r\n0\r\nA: b\r\n\r\n", b"abc");
    // CGI cannot say a length that nobody knows.
    let chunks = [b"7530\r\n".to_vec(), vec![b'x'; 30_000], b"\r\n0\r\n\r\n".to_vec()].concat();
    assert_eq!(status(&post("Transfer-Encoding: chunked\r\n", &chunks).0), 400);
}

#[test]
fn answers() {
    let check = |method: &str, answer: fn() -> Answer, expected: u16, field: &str, body: &str| {
        let running = start(application(move |_| answer()), "", "");
        let request = format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let (head, found) = receive(send(running.address, request));
        assert_eq!(status(&head), expected, "{head}");
        assert!(head.contains(field), "{head}");
        if expected < 500 {
            assert_eq!(String::from_utf8_lossy(&found), body, "{head}");
        }
    };
    check("GET", || says("Content-Type: a/b\n\nbody"), 200, "content-type: a/b", "body");
    check("GET", || says("Status: 404 Nope\r\n\r\nbody"), 404, "404 Nope\r\n", "body");
    check("GET", || says("Status: 301\nLocation: /x\n\n"), 301, "301 Moved Permanently\r\n", "");
    check("GET", || says("Location: /other\n\n"), 302, "location: /other", "");
    check("GET", || says("Content-Length: 4\n\nbody"), 200, "content-length: 4", "body");
    check("GET", || says("Content-Length: 4\n\nbody and more"), 200, "content-length: 4", "body");
    check("GET", || says("Content-Length: 9\n\nbody"), 200, "content-length: 9", "body");
    check("GET", || says("Status: 204\n\nbody"), 204, "", "");
    check("HEAD", || says("A: b\n\nbody"), 200, "a: b", "");
    check("HEAD", || says("Content-Length: 4\n\n"), 200, "content-length: 4", "");
    check("GET", || says("Status: 101 Switching\n\n"), 502, "", "");
    check("GET", || says("HTTP/1.1 200 OK\r\n\r\n"), 502, "", "");
    check("GET", || says("Transfer-Encoding: chunked\n\n0\r\n\r\n"), 502, "", "");
    check("GET", || says("no head at all"), 502, "", "");
    check("GET", || says(""), 502, "", "");
    // A head in records of one byte.
    let bytewise = || {
        let records = b"A: b\r\n\r\nbody".iter().map(|byte| record(STDOUT, &[*byte]));
        Answer { bytes: records.flatten().chain(end(0)).collect(), close: false }
    };
    check("GET", bytewise, 200, "a: b", "body");
    // Applications that die, before the head, in it and behind it.
    check("GET", || Answer { bytes: Vec::new(), close: true }, 502, "", "");
    let in_head = || Answer { bytes: stdout(b"A: b\r\n"), close: true };
    check("GET", in_head, 502, "", "");
    let in_body = || Answer { bytes: stdout(b"Content-Length: 9\r\n\r\nbody"), close: true };
    check("GET", in_body, 200, "content-length: 9", "body");
    let in_record = || Answer { bytes: stdout(b"A: b\r\n\r\nbody")[..12].to_vec(), close: true };
    check("GET", in_record, 502, "", "");
    // Those that do not want it, and one that speaks something else.
    check("GET", || Answer { bytes: end(2), close: false }, 502, "", "");
    check("GET", || Answer { bytes: end(3), close: false }, 502, "", "");
    check("GET", || Answer { bytes: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), close: true }, 502, "", "");
}

#[test]
fn connections_are_kept() {
    let number = |section: &str, backend: &str, expected: [&str; 3]| {
        let app =
            application(|asked| says(format!("\n{} {} {}", asked.connection, asked.keep, asked.values)));
        let running = start(app, section, backend);
        let found = [0; 3].map(|_| get(&running, "/", "").1);
        assert_eq!(found, expected, "{section} {backend}");
    };
    number("", "", ["0 true false", "0 true false", "0 true false"]);
    number(" option keep-conn\n", "", ["0 true false", "0 true false", "0 true false"]);
    number(" no option keep-conn\n", "", ["0 false false", "1 false false", "2 false false"]);
    number("", " option http-server-close\n", ["0 false false", "1 false false", "2 false false"]);
    number(" option get-values\n", "", ["0 true true", "0 true false", "0 true false"]);
    number(" option mpxs-conns\n option max-reqs 10\n", "", ["0 true false", "0 true false", "0 true false"]);
}

#[test]
fn an_application_of_one_process_is_not_kept_busy_by_idle_connections() {
    // It serves one connection after the other, each until it closes.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            while read_request(&mut stream, 0).is_some() && stream.write_all(&says("\nserved").bytes).is_ok()
            {
            }
        }
    });
    // The first request of a client has a connection of its own.
    let running = start(address, "", " http-reuse safe\n");
    for _ in 0..3 {
        assert_eq!(get(&running, "/", "").1, "served");
    }
}

#[test]
fn a_busy_application_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&asked);
    let app = application(move |_| match times.fetch_add(1, Ordering::Relaxed) {
        0 => Answer { bytes: end(2), close: false },
        _ => says("\nthen"),
    });
    let running = start(app, "", " retries 1\n");
    assert_eq!(get(&running, "/", "").1, "then");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn error_messages_are_logged() {
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    let app = application(|_| {
        let messages =
            [record(STDERR, b"first line\nsecond "), record(STDERR, b"line\n\nthird"), record(STDERR, b"")];
        Answer { bytes: [messages.concat(), says("\nok").bytes].concat(), close: false }
    });
    let target = log.local_addr().unwrap();
    let running = start(app, &format!(" log-stderr {target} format raw local0\n"), "");
    assert_eq!(get(&running, "/", "").1, "ok");
    for expected in ["first line", "second line", "third"] {
        let mut line = [0; 1024];
        let length = log.recv(&mut line).unwrap();
        assert_eq!(String::from_utf8_lossy(&line[..length]).trim_end(), expected);
    }
}

#[test]
fn checks_over_http() {
    let app = application(|asked| match asked.param("SCRIPT_FILENAME") {
        "/srv/app/ping" => says(format!("Content-Type: text/plain\n\n{}", asked.param("ROLE"))),
        _ => says("Status: 404 None\n\n"),
    });
    let check = |lines: &str, expected: &str| {
        let running = start(
            app,
            " set-param ROLE pong\n",
            &format!(" option httpchk\n{lines} server c {app} proto fcgi check\n"),
        );
        let server = running.shared.proxies[1].server("c").unwrap();
        // The first check runs at once.
        let status = loop {
            match server.check.lock().unwrap().status {
                Status::Init | Status::Unknown => std::thread::yield_now(),
                status => break status,
            }
        };
        assert_eq!(status.name(), expected, "{lines}");
    };
    check(" http-check send meth GET uri /ping\n http-check expect string pong\n", "L7OK");
    check(" http-check send meth GET uri /ping\n http-check expect string ping\n", "L7RSP");
    check(" http-check send meth GET uri /other\n", "L7STS");
}
