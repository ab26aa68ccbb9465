//! HTTP/1 as seen from outside: what is accepted, what is refused, and what is written again.

use proptest::prelude::*;
use weir_http::h1::{
    BodyDecoder, BodyEvent, CaseMap, Connection, Fault, Framing, ParseError, ParseErrorKind as Kind,
    ParseOptions, RequestHead, WriteOptions, parse_request, parse_response, write_chunk, write_last_chunk,
    write_request, write_response,
};
use weir_http::{Fields, Method, Request, Response};

fn request(input: &[u8]) -> Result<Option<(RequestHead, Request)>, ParseError> {
    let mut request = Request::default();
    let head = parse_request(input, &mut request, &ParseOptions::default())?;
    Ok(head.map(|head| (head, request)))
}

/// Method, URI and fields of an accepted request, in one line.
fn shown(input: &str) -> String {
    let (head, request) = match request(input.as_bytes()) {
        Ok(Some(accepted)) => accepted,
        Ok(None) => return "incomplete".into(),
        Err(error) => return format!("{} {:?}", error.status(), error.kind),
    };
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let mut line = format!("{} {}", text(request.method_bytes()), text(request.uri_bytes()));
    for (name, value) in request.fields.iter() {
        line += &format!(" {}={}", text(name), text(value));
    }
    line += &match head.framing {
        Framing::None => String::new(),
        framing => format!(" {framing:?}"),
    };
    line += if head.keep_alive { "" } else { " close" };
    line
}

#[test]
fn requests() {
    let check = |input: &str, expected: &str| assert_eq!(shown(input), expected, "{input:?}");
    check("GET / HTTP/1.1\r\n\r\n", "GET /");
    check("GET / HTTP/1.1\r\nHost: a\r\n", "incomplete");
    check("\r\n\n\r\nGET / HTTP/1.1\r\nHOST:a \t\r\n\r\n", "GET / host=a");
    check("\nGET / HTTP/1.1\nHost: a\n\n", "GET / host=a");
    check("GET   /x\t HTTP/1.1\r\n\r\n", "GET /x");
    check("GET /x HTTP/1.1 \r\n\r\n", "400 Version");
    check("GET /x HTTP/2.0\r\n\r\n", "GET /x");
    check("GET /x HTTP/1.10\r\n\r\n", "400 Version");
    check("GET /x RTSP/1.0\r\n\r\n", "400 Version");
    check("GET /x http/1.0\r\n\r\n", "400 Version");
    check("GET /x\r\n\r\n", "400 TargetByte");
    check("GET /x#f HTTP/1.1\r\n\r\n", "400 TargetByte");
    check("GET /x\x7f HTTP/1.1\r\n\r\n", "400 TargetByte");
    check("GET /\u{e9} HTTP/1.1\r\n\r\n", "400 TargetByte");
    check("GET /\"<>` HTTP/1.1\r\n\r\n", "GET /\"<>`");
    check("G@T / HTTP/1.1\r\n\r\n", "400 Method");
    check(" GET / HTTP/1.1\r\n\r\n", "400 Method");
    check("GET / HTTP/1.1\r\nfoo : b\r\n\r\n", "400 FieldName");
    check("GET / HTTP/1.1\r\n: b\r\n\r\n", "400 FieldName");
    check("GET / HTTP/1.1\r\n foo: b\r\n\r\n", "400 FieldName");
    check("GET / HTTP/1.1\r\nfoo\r\n\r\n", "400 FieldName");
    check("GET / HTTP/1.1\r\nfoo: a\0\r\n\r\n", "400 FieldValue");
    check("GET / HTTP/1.1\r\nfoo: a\rb\r\n\r\n", "400 BareCr");
    check("GET / HTTP/1.1\r\nfoo: \x01\x0b\x7f\u{ff}\r\n\r\n", "GET / foo=\x01\x0b\x7f\u{ff}");
    check("GET / HTTP/1.1\r\nfoo:\r\n\r\n", "GET / foo=");
}

#[test]
fn folded_values_become_one_line() {
    let check = |input: &str, expected: &str| assert_eq!(shown(input), expected, "{input:?}");
    check("GET / HTTP/1.1\r\nfoo: a\r\n  b\r\n\tc\r\n\r\n", "GET / foo=a    b  \tc");
    check("GET / HTTP/1.1\r\nfoo:\r\n  b\r\n\r\n", "GET / foo=b");
    check("GET / HTTP/1.1\r\nfoo: a\r\n \r\n\r\n", "GET / foo=a");
    check("GET / HTTP/1.1\r\nfoo:\r\n \r\nx: y\r\n\r\n", "GET / foo= x=y");
    check("GET / HTTP/1.1\r\nContent-Length: 1\r\n 2\r\n\r\n", "400 ContentLength");
    check(
        "GET / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "GET / transfer-encoding=chunked Chunked",
    );
}

#[test]
fn request_framing() {
    let check = |version: &str, fields: &str, expected: &str| {
        assert_eq!(shown(&format!("POST / HTTP/{version}\r\n{fields}\r\n")), expected, "{fields:?}");
    };
    check("1.1", "Content-Length: 5, 5\r\n", "POST / content-length=5 Length(5)");
    check("1.1", "Content-Length: 5\r\ncontent-length: 5\r\n", "POST / content-length=5 Length(5)");
    for bad in ["5\r\nContent-Length: 6", "5, 6", "+5", "-5", "0x5", "", "0,", "5 5", "18446744073709551616"]
    {
        check("1.1", &format!("Content-Length: {bad}\r\n"), "400 ContentLength");
    }
    check("1.1", "Content-Length: 005\r\n", "POST / content-length=005 Length(5)");
    check("1.1", "Content-Length: 0\r\n", "POST / content-length=0 Length(0)");
    check("1.1", "Transfer-Encoding: Chunked\r\n", "POST / transfer-encoding=Chunked Chunked");
    // Both: chunked wins, Content-Length goes, and so does the connection.
    let both = "POST / transfer-encoding=chunked Chunked close";
    check("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", both);
    check("1.1", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", both);
    check(
        "1.0",
        "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n",
        "POST / transfer-encoding=chunked connection=keep-alive Chunked close",
    );
    check("1.1", "Transfer-Encoding: chunked\r\nContent-Length: x\r\n", "400 ContentLength");
    for bad in [
        "",
        ", chunked",
        "chunked,",
        "chunked, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked;q=1",
    ] {
        check("1.1", &format!("Transfer-Encoding: {bad}\r\n"), "400 TransferEncoding");
    }
    for bad in ["identity", "gzip", "chunked, gzip", "chunked, gzip, chunked", "xchunked", "chunked\x0b"] {
        check("1.1", &format!("Transfer-Encoding: {bad}\r\n"), "400 TransferEncoding");
    }
    check("1.1", "Transfer-Encoding: gzip, chunked\r\n", "422 UnknownCoding");
    check("1.1", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "422 UnknownCoding");
}

#[test]
fn payload_with_http_1_0() {
    let check = |input: &str, expected: &str| assert_eq!(shown(input), expected, "{input:?}");
    for method in ["GET", "HEAD", "DELETE"] {
        check(&format!("{method} / HTTP/1.0\r\nContent-Length: 1\r\n\r\n"), "413 UnexpectedPayload");
        check(&format!("{method} / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), "413 UnexpectedPayload");
    }
    check("GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "GET / content-length=0 Length(0) close");
    check("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", "GET / content-length=1 Length(1)");
}

#[test]
fn connection_lives_on() {
    let check = |version: &str, connection: &str, expected: bool| {
        let input = format!("GET / HTTP/{version}\r\nConnection: {connection}\r\n\r\n");
        let (head, _) = request(input.as_bytes()).unwrap().unwrap();
        assert_eq!(head.keep_alive, expected, "{version} {connection}");
    };
    check("1.1", "", true);
    check("1.1", "close", false);
    check("1.1", "x-foo, Close", false);
    check("1.1", "keep-alive, close", false);
    check("1.0", "", false);
    check("1.0", "Keep-Alive", true);
    check("1.0", "keep-alive, close", false);
}

#[test]
fn targets() {
    let check = |input: &str, expected: &str| {
        assert_eq!(shown(&format!("{input} HTTP/1.1\r\n\r\n")), expected, "{input:?}");
    };
    check("OPTIONS *", "OPTIONS *");
    check("OPTIONS /", "OPTIONS /");
    check("OPTIONS */test", "400 TargetForm");
    check("GET *", "400 TargetForm");
    check("GET admin", "400 TargetForm");
    check("GET admin/a/b", "400 TargetForm");
    check("GET h:80", "400 TargetForm");
    check("GET http:/h", "400 TargetForm");
    check("GET //h/x", "GET //h/x");
    check("GET http://h/x", "GET http://h/x host=h");
    check("GET http://u:p@h:80/x", "GET http://u:p@h/x host=h");
    check("GET http://h:81/x", "GET http://h:81/x host=h:81");
    check("GET http://h?q", "GET http://h/?q host=h");
    check("GET http://[::1]:80/x", "GET http://[::1]/x host=[::1]");
    check("GET http://[::1]", "GET http://[::1]/ host=[::1]");
    check("OPTIONS http://h", "OPTIONS http://h host=h");
    check("GET foo://h:80/x?y", "GET foo://h:80/x?y host=h:80");
    check("CONNECT h:80", "CONNECT h:80");
    check("CONNECT h", "400 TargetForm");
    check("CONNECT h:", "400 TargetForm");
    check("CONNECT :80", "400 TargetForm");
    check("CONNECT h:8x", "400 TargetForm");
    check("CONNECT /", "400 TargetForm");
    check("CONNECT http://h:80", "400 TargetForm");
    check("CONNECT http://h:80/", "400 TargetForm");
}

#[test]
fn host_and_authority_agree() {
    let check = |target: &str, host: &str, uri: &str, expected: &str| {
        let method = if target.contains('/') { "GET" } else { "CONNECT" };
        let input = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let expected = if uri.is_empty() { "400".into() } else { format!("{method} {uri} host={expected}") };
        let shown = shown(&input);
        assert_eq!(if uri.is_empty() { &shown[..3] } else { &shown }, expected, "{target} {host}");
    };
    check("http://toto:poue@hostname:80/c1", "hostname:80", "http://toto:poue@hostname/c1", "hostname");
    check("http://hostname:8080/c2", "hostname:8080", "http://hostname:8080/c2", "hostname:8080");
    check("https://hostname:443/c3", "hostname:443", "https://hostname/c3", "hostname");
    check("https://hostname:80/c4", "hostname:80", "https://hostname:80/c4", "hostname:80");
    for port in ["80", "443"] {
        let target = &format!("hostname:{port}");
        check(target, target, target, "hostname");
        check(target, "hostname", target, "hostname");
        check(target, "HOSTNAME:", target, "HOSTNAME:");
    }
    check("hostname:8443", "hostname:8443", "hostname:8443", "hostname:8443");
    for (target, host) in [
        ("http://hostname1/", "hostname2"),
        ("http://hostname:80/", "hostname:81"),
        ("http://hostname:8080/", "hostname"),
        ("http://hostname/", "hostname:81"),
        ("http://hostname1/", "hostname1\r\nhost: hostname2"),
        ("http://hostname1/", "hostname1:80\r\nhost: hostname1"),
        ("hostname1:80", "hostname2:80"),
        ("hostname:80", "hostname:443"),
        ("hostname:8080", "hostname"),
    ] {
        check(target, host, "", "");
    }
    for (scheme, port) in [("http", "80"), ("https", "443")] {
        let uri = &format!("{scheme}://hostname/");
        let at = |authority: &str| format!("{scheme}://{authority}");
        for (authority, host, expected) in [
            (format!("hostname:{port}/"), "hostname".into(), "hostname".into()),
            ("hostname/".into(), format!("hostname:{port}"), format!("hostname:{port}")),
            ("hostname:/".into(), "hostname".into(), "hostname".into()),
            ("hostname/".into(), "hostname:".into(), "hostname:".into()),
            (format!("hostname:{port}/"), "hostname:".into(), "hostname".into()),
            ("hostname:/".into(), format!("hostname:{port}"), "hostname".into()),
            ("hostname".into(), "hostname".into(), "hostname".into()),
            (format!("hostname:{port}"), "hostname".into(), "hostname".into()),
            ("hostname:".into(), "hostname".into(), "hostname".into()),
        ] {
            check(&at(&authority), &host, uri, &expected);
        }
        check(&at(":"), &format!(":{port}"), &at("/"), "");
        check(&at(":"), ":", &at("/"), "");
    }
    check("http://hostname:81", "hostname:81", "http://hostname:81/", "hostname:81");
    check("http://h/", "h\r\nhost: H", "http://h/", "h");
}

#[test]
fn the_host_line_is_found_behind_dropped_lines() {
    let input = "POST http://h:80/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\nHost: h:80\r\n\r\n";
    assert_eq!(shown(input), "POST http://h/ content-length=3 host=h Length(3)");
}

#[test]
fn upgrades() {
    let check = |fields: &str, expected: Option<&str>| {
        let input = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
        let (head, request) = request(input.as_bytes()).unwrap().unwrap();
        let protocol = head.upgrade.then(|| request.fields.bytes(request.protocol));
        assert_eq!(protocol, expected.map(str::as_bytes), "{fields}");
    };
    check("Connection: upgrade\r\nUpgrade: foo", Some("foo"));
    check("Connection: keep-alive, Upgrade\r\nUpgrade: h2c, foo", Some("foo"));
    check("Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x", Some("websocket"));
    check("Connection: upgrade\r\nUpgrade: h2c", None);
    check("Connection: upgrade", None);
    check("Upgrade: foo", None);
    let keyless = "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(shown(keyless), "400 WebSocketKey");
    assert_eq!(shown("GET / HTTP/1.1\r\nUpgrade: h2c\r\nx: y\r\n\r\n"), "GET / x=y");
}

#[test]
fn a_host_that_could_mean_two_places_is_refused() {
    let check = |host: &str, expected: &str| {
        assert_eq!(shown(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), expected, "{host:?}");
    };
    for wrong in
        ["a,b", "a b", "a/b", "a@b", "a\r\n b", "a\r\nHost: b", "a?b", "a\\b", "[::1", "\u{e9}", "a\0"]
    {
        let kind = if wrong == "a\0" { "FieldValue" } else { "Host" };
        check(wrong, &format!("400 {kind}"));
    }
    check("a\r\nHost: a", "GET / host=a");
    check("", "GET / host=");
    check("[::1]:80", "GET / host=[::1]:80");
    for target in ["http://a,b/", "http://a@b@c/", "http://a\\@c/", "http://[::1]x/", "http://a/b@c/"] {
        let shown = shown(&format!("GET {target} HTTP/1.1\r\n\r\n"));
        assert_eq!(&shown[..3], if target == "http://a/b@c/" { "GET" } else { "400" }, "{target} {shown}");
    }
    for target in ["u@a:80", "a,b:80", "[::1:80"] {
        assert_eq!(shown(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")), "400 TargetForm", "{target}");
    }
    let options = ParseOptions { accept_unsafe: true, ..ParseOptions::default() };
    let input = b"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n";
    let refused = parse_request(input, &mut Request::default(), &options);
    assert_eq!(refused.map_err(|error| error.kind), Err(Kind::Host), "not even on demand");
}

#[test]
fn names_are_bounded() {
    let head = |name: usize| format!("GET / HTTP/1.1\r\n{}: 1\r\n\r\n", "n".repeat(name));
    assert!(request(head(255).as_bytes()).is_ok());
    assert_eq!(request(head(256).as_bytes()).unwrap_err().kind, Kind::FieldName);
    let input = format!("0\r\n{}: 1\r\n\r\n", "n".repeat(256));
    assert_eq!(decoded(Framing::Chunked, input.as_bytes(), &[]).1.err(), Some(Kind::FieldName));
}

#[test]
fn a_connect_has_no_payload() {
    for fields in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let input = format!("CONNECT a:80 HTTP/1.1\r\n{fields}\r\n\r\n");
        assert_eq!(shown(&input), "413 UnexpectedPayload");
    }
    assert_eq!(&shown("CONNECT a:80 HTTP/1.1\r\nContent-Length: 0\r\n\r\n")[..12], "CONNECT a:80");
}

#[test]
fn bounds() {
    let options = ParseOptions { max_head: 64, max_fields: 4, ..ParseOptions::default() };
    let check = |input: &str, expected: Result<bool, Kind>| {
        let mut request = Request::default();
        let result = parse_request(input.as_bytes(), &mut request, &options);
        assert_eq!(result.map(|head| head.is_some()).map_err(|error| error.kind), expected, "{input:?}");
    };
    let line = "GET / HTTP/1.1\r\n";
    check(&format!("{line}a:\r\nb:\r\nc:\r\n\r\n"), Ok(true));
    check(&format!("{line}a:\r\nb:\r\nc:\r\nd:\r\n\r\n"), Err(Kind::TooManyFields));
    check(&format!("{line}a:{}\r\n\r\n", "x".repeat(64 - 22)), Ok(true));
    check(&format!("{line}a:{}\r\n\r\n", "x".repeat(64 - 21)), Err(Kind::HeadTooLarge));
    check(&format!("{line}a:{}", "x".repeat(64 - 19)), Ok(false));
    check(&format!("{line}a:{}", "x".repeat(64 - 18)), Err(Kind::HeadTooLarge));
    check(&"\r\n".repeat(32), Err(Kind::HeadTooLarge));
}

#[test]
fn unsafe_violations_are_accepted_on_demand() {
    let options = ParseOptions { accept_unsafe: true, ..ParseOptions::default() };
    let check = |input: &str, uri: &str, fields: usize, kind: Kind| {
        let mut request = Request::default();
        let head = parse_request(input.as_bytes(), &mut request, &options).unwrap().unwrap();
        assert_eq!(head.tolerated.map(|error| error.kind), Some(kind), "{input:?}");
        assert_eq!(String::from_utf8_lossy(request.uri_bytes()), uri);
        assert_eq!(request.fields.len(), fields);
    };
    check("GET /#\u{e9} HTTP/1.1\r\na: b\r\n\r\n", "/#\u{e9}", 1, Kind::TargetByte);
    check("GET / HTTP/1.1\r\na : b\r\nc: d\r\n\r\n", "/", 1, Kind::FieldName);
    check("GET / HTTP/1.1\r\na: \0\r\n\r\n", "/", 1, Kind::FieldValue);
    check("GET / RTSP/1.0\r\n\r\n", "/", 0, Kind::Version);
    check("GET / HTTP/1.10\r\n\r\n", "/", 0, Kind::Version);
    check("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "http://a/", 1, Kind::Host);
    check("CONNECT a HTTP/1.1\r\n\r\n", "a", 0, Kind::TargetForm);
}

#[test]
fn responses() {
    let check = |method: Method, input: &str, expected: &str| {
        let mut response = Response::default();
        let shown = match parse_response(input.as_bytes(), &mut response, method, &ParseOptions::default()) {
            Ok(Some(head)) => format!(
                "{} {} {:?} {}{}",
                response.status,
                String::from_utf8_lossy(response.reason_bytes()),
                head.framing,
                if head.keep_alive { "keep" } else { "close" },
                if head.upgrade { " tunnel" } else { "" }
            ),
            Ok(None) => "incomplete".into(),
            Err(error) => format!("{} {:?}", error.status(), error.kind),
        };
        assert_eq!(shown, expected, "{input:?}");
    };
    let get = Method::Get;
    check(get, "HTTP/1.1 200 OK\r\n\r\n", "200 OK UntilClose close");
    check(get, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "200 OK Length(3) keep");
    check(get, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", "200 OK Length(3) close");
    check(get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK Chunked keep");
    check(get, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK Chunked close");
    check(get, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200  Length(0) keep");
    check(get, "HTTP/1.1  200  A B\r\nContent-Length: 0\r\n\r\n", "200 A B Length(0) keep");
    check(get, "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", "204 No None keep");
    check(get, "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", "304 No None keep");
    check(get, "HTTP/1.1 100 Continue\r\n\r\n", "100 Continue None keep");
    check(get, "HTTP/1.1 101 Sw\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "101 Sw None keep tunnel");
    check(get, "HTTP/1.1 101 Sw\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "502 WebSocketKey");
    check(Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "200 OK None keep");
    check(Method::Connect, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "200 OK None keep tunnel");
    check(Method::Connect, "HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\n", "400 No Length(3) keep");
    for coding in ["gzip", "chunked, chunked", "chunked, gzip, chunked", "chunked, gzip"] {
        check(
            get,
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n"),
            "502 TransferEncoding",
        );
    }
    check(get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "502 UnknownCoding");
    check(get, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "502 ContentLength");
    for (line, kind) in [
        ("HTTP/1.1 20 OK", "Status"),
        ("HTTP/1.1 099 OK", "Status"),
        ("HTTP/1.1 2000 OK", "Status"),
        ("HTTP/1.1 2x0 OK", "Status"),
        ("HTTP/1.1200 OK", "Version"),
        ("HTTP/1.1x200 OK", "Version"),
        ("ICY 200 OK", "Version"),
    ] {
        check(get, &format!("{line}\r\n\r\n"), &format!("502 {kind}"));
    }
    check(get, "HTTP/1.1 200 OK", "incomplete");
}

/// The body, its trailers and what is left, when the input arrives in pieces of the given sizes.
fn decoded(
    framing: Framing,
    input: &[u8],
    pieces: &[usize],
) -> (Vec<u8>, Result<Option<Fields>, Kind>, usize) {
    let mut decoder = BodyDecoder::new(framing);
    let mut body = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut pieces = pieces.iter().copied();
    loop {
        match decoder.decode(&input[start..end]) {
            Err(error) => return (body, Err(error.kind), start + error.position),
            Ok(decoded) => {
                match decoded.event {
                    BodyEvent::Data(range) => body.extend_from_slice(&input[start..end][range]),
                    BodyEvent::End(trailers) => {
                        return (body, Ok(trailers.map(|fields| *fields)), start + decoded.consumed);
                    }
                    BodyEvent::NeedMore if end == input.len() => {
                        let result = decoder.end_of_input().map(|()| None).map_err(|error| error.kind);
                        return (body, result, end);
                    }
                    BodyEvent::NeedMore => {
                        end = input.len().min(end + pieces.next().unwrap_or(usize::MAX / 2).max(1));
                    }
                }
                start += decoded.consumed;
            }
        }
    }
}

#[test]
fn bodies() {
    let check = |framing: Framing, input: &str, expected: Result<&str, Kind>, rest: &str| {
        for pieces in [vec![], vec![1; input.len()], vec![3; input.len()]] {
            let (body, result, at) = decoded(framing, input.as_bytes(), &pieces);
            match expected {
                Ok(text) => {
                    assert_eq!(
                        (String::from_utf8_lossy(&body).as_ref(), result.err()),
                        (text, None),
                        "{input:?}"
                    );
                    assert_eq!(&input[at..], rest, "{input:?}");
                }
                Err(kind) => assert_eq!(result.err(), Some(kind), "{input:?}"),
            }
        }
    };
    check(Framing::None, "GET", Ok(""), "GET");
    check(Framing::Length(0), "GET", Ok(""), "GET");
    check(Framing::Length(3), "abcGET", Ok("abc"), "GET");
    check(Framing::Length(3), "ab", Err(Kind::Truncated), "");
    check(Framing::UntilClose, "abc", Ok("abc"), "");
    let chunked = Framing::Chunked;
    check(chunked, "0\r\n\r\nGET", Ok(""), "GET");
    check(chunked, "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET", Ok("abc0123456789"), "GET");
    check(chunked, "3;ext=\"a\"\r\nabc\r\n0;x\r\n\r\n", Ok("abc"), "");
    check(chunked, "3 \t\r\nabc\r\n00\r\n\r\n", Ok("abc"), "");
    check(chunked, "00000000000000000003\r\nabc\r\n0\r\n\r\n", Ok("abc"), "");
    check(chunked, "3\r\nabc\r\n0\r\n", Err(Kind::Truncated), "");
    check(chunked, "3\nabc\r\n", Err(Kind::BareLf), "");
    check(chunked, "3;a\nb\r\nabc\r\n", Err(Kind::BareLf), "");
    check(chunked, "3\r\nabc\n0\r\n", Err(Kind::Chunk), "");
    check(chunked, "3\r\nabcd\r\n", Err(Kind::Chunk), "");
    check(chunked, "3\rabc", Err(Kind::BareCr), "");
    check(chunked, " 3\r\nabc", Err(Kind::Chunk), "");
    check(chunked, "\r\nabc", Err(Kind::Chunk), "");
    check(chunked, "0x3\r\nabc", Err(Kind::Chunk), "");
    check(chunked, "-3\r\nabc", Err(Kind::Chunk), "");
    check(chunked, "3 3\r\nabc", Err(Kind::Chunk), "");
    check(chunked, "10000000000001\r\n", Err(Kind::ChunkTooLarge), "");
    check(chunked, &format!("{}3\r\n", "0".repeat(40)), Err(Kind::ChunkTooLarge), "");
    check(chunked, &format!("3;{}\r\n", "x".repeat(5000)), Err(Kind::ChunkExtensionTooLarge), "");
    check(chunked, &format!("0\r\na: {}\r\n\r\n", "x".repeat(20000)), Err(Kind::TrailersTooLarge), "");
    check(chunked, "0\r\na b\r\n\r\n", Err(Kind::FieldName), "");
}

#[test]
fn trailers_keep_only_what_may_stand_there() {
    let input =
        b"0\r\nX-A: 1\r\nContent-Length: 5\r\nHost: z\r\nx-b:\r\n 2\r\nCookie: c\r\nRange: r\r\n\r\nGET";
    for pieces in [vec![], vec![1; input.len()]] {
        let (_, trailers, at) = decoded(Framing::Chunked, input, &pieces);
        let trailers = trailers.unwrap().unwrap();
        let expected: [(&[u8], &[u8]); 2] = [(b"x-a", b"1"), (b"x-b", b"2")];
        assert_eq!(trailers.iter().collect::<Vec<_>>(), expected);
        assert_eq!(&input[at..], b"GET");
    }
}

#[test]
fn requests_are_written_framed_anew() {
    let check = |input: &str, options: WriteOptions<'_>, expected: &str| {
        let (_, request) = request(input.as_bytes()).unwrap().unwrap();
        let mut out = Vec::new();
        write_request(&request, &mut out, options);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{input:?}");
    };
    let plain = WriteOptions::default();
    check(
        "GET /x HTTP/1.1\r\nHost: A\r\nX-Y: Z\r\n\r\n",
        plain,
        "GET /x HTTP/1.1\r\nhost: A\r\nx-y: Z\r\n\r\n",
    );
    check(
        "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        WriteOptions { connection: Connection::KeepAlive, ..plain },
        "GET / HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n",
    );
    check(
        "POST / HTTP/1.1\r\nContent-Length: 005\r\nConnection: x-a\r\nX-A: 1\r\nKeep-Alive: 3\r\nProxy-Connection: x\r\n\r\n",
        WriteOptions { framing: Framing::Length(5), connection: Connection::Close, ..plain },
        "POST / HTTP/1.1\r\nx-a: 1\r\ncontent-length: 5\r\nconnection: close\r\n\r\n",
    );
    check(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTE: trailers, gzip\r\nTrailer: z\r\n\r\n",
        WriteOptions { framing: Framing::Chunked, ..plain },
        "POST / HTTP/1.1\r\ntrailer: z\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    check("GET / HTTP/1.1\r\nTE: gzip\r\nTE: trailers;q=0.5\r\n\r\n", plain, "GET / HTTP/1.1\r\n\r\n");
    // What is true and written in the only way stays where it stands, once.
    check(
        "POST / HTTP/1.1\r\nTE: trailers\r\nContent-Length: 5\r\nA: b\r\nTE: trailers\r\n\r\n",
        WriteOptions { framing: Framing::Length(5), ..plain },
        "POST / HTTP/1.1\r\nte: trailers\r\ncontent-length: 5\r\na: b\r\n\r\n",
    );
    check(
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nA: b\r\n\r\n",
        WriteOptions { framing: Framing::Length(6), ..plain },
        "POST / HTTP/1.1\r\na: b\r\ncontent-length: 6\r\n\r\n",
    );
    let upgrade = "GET / HTTP/1.1\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n";
    check(upgrade, plain, "GET / HTTP/1.1\r\n\r\n");
    check(
        upgrade,
        WriteOptions { upgrade: true, ..plain },
        "GET / HTTP/1.1\r\nupgrade: foo\r\nconnection: upgrade\r\n\r\n",
    );
    let mut case = CaseMap::default();
    case.add("Host");
    case.add("X-YZ");
    check(
        "GET / HTTP/1.1\r\nhOST: a\r\nX-yz: b\r\nX-A: c\r\n\r\n",
        WriteOptions { case: Some(&case), ..plain },
        "GET / HTTP/1.1\r\nHost: a\r\nX-YZ: b\r\nx-a: c\r\n\r\n",
    );
}

#[test]
fn proxy_connection_stands_for_connection_on_demand() {
    let options = ParseOptions { use_proxy_connection: true, ..ParseOptions::default() };
    // What the client says with either field, what is understood, and what the server is told.
    let check = |target: &str, fields: &str, keep_alive: bool, told: &str| {
        let input = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut request = Request::default();
        let head = parse_request(input.as_bytes(), &mut request, &options).unwrap().unwrap();
        assert_eq!(head.keep_alive, keep_alive, "{input:?}");
        let mut out = Vec::new();
        let connection = Connection::Close;
        write_request(
            &request,
            &mut out,
            WriteOptions { connection, proxied: request.proxied, ..WriteOptions::default() },
        );
        assert!(String::from_utf8_lossy(&out).ends_with(&format!("\r\n{told}\r\n\r\n")), "{input:?}");
    };
    check("http://a/", "Proxy-Connection: close\r\n", false, "proxy-connection: close");
    check("http://a/", "Connection: close\r\n", true, "proxy-connection: close");
    check("/", "Proxy-Connection: close\r\n", true, "connection: close");
    check("/", "Connection: close\r\n", false, "connection: close");
    let mut response = Response::default();
    let input = b"HTTP/1.1 200 OK\r\nProxy-Connection: close\r\nContent-Length: 0\r\n\r\n";
    for (options, keep_alive) in [(options, false), (ParseOptions::default(), true)] {
        let head = parse_response(input, &mut response, Method::Get, &options).unwrap().unwrap();
        assert_eq!(head.keep_alive, keep_alive);
    }
}

#[test]
fn requests_from_pseudo_fields_are_written_in_origin_form() {
    let check = |method: &str, uri: &str, protocol: &str, expected: &str| {
        let mut request = Request { normalized_uri: true, ..Request::default() };
        request.set_method(method.as_bytes());
        request.set_uri(uri.as_bytes());
        request.protocol = request.fields.store(protocol.as_bytes());
        let mut out = Vec::new();
        write_request(&request, &mut out, WriteOptions::default());
        assert_eq!(String::from_utf8_lossy(&out), expected);
    };
    check("GET", "https://h/a?b", "", "GET /a?b HTTP/1.1\r\n\r\n");
    check("GET", "https://h?b", "", "GET /?b HTTP/1.1\r\n\r\n");
    check("OPTIONS", "*", "", "OPTIONS * HTTP/1.1\r\n\r\n");
    check("CONNECT", "h:443", "", "CONNECT h:443 HTTP/1.1\r\n\r\n");
    let websocket = "GET /chat HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    check("CONNECT", "https://h/chat", "websocket", websocket);
}

#[test]
fn responses_are_written_framed_anew() {
    let check = |input: &str, options: WriteOptions<'_>, expected: &str| {
        let mut response = Response::default();
        parse_response(input.as_bytes(), &mut response, Method::Get, &ParseOptions::default())
            .unwrap()
            .unwrap();
        let mut out = Vec::new();
        write_response(&response, &mut out, options);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{input:?}");
    };
    let plain = WriteOptions::default();
    let closed = WriteOptions { framing: Framing::UntilClose, connection: Connection::Close, ..plain };
    let old = "HTTP/1.0 200 OK\r\nA: b\r\n\r\n";
    check(old, closed, "HTTP/1.0 200 OK\r\na: b\r\nconnection: close\r\n\r\n");
    // HTTP/1.0 has no chunks, and says when it goes on.
    let chunked = WriteOptions { framing: Framing::Chunked, ..plain };
    check(old, chunked, "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n");
    let kept = WriteOptions { framing: Framing::Length(0), ..plain };
    let expected = "HTTP/1.0 200 OK\r\na: b\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n";
    check(old, kept, expected);
    check(
        "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n",
        plain,
        "HTTP/1.1 304 No\r\ncontent-length: 3\r\n\r\n",
    );
    check("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", plain, "HTTP/1.1 204 No\r\n\r\n");
    check("HTTP/1.1 103 E\r\nLink: x\r\n\r\n", plain, "HTTP/1.1 103 E\r\nlink: x\r\n\r\n");
    check(
        "HTTP/1.1 200\r\nContent-Length: 3\r\nKeep-Alive: timeout=3\r\nUpgrade: h3\r\n\r\n",
        WriteOptions { framing: Framing::Chunked, ..plain },
        "HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n",
    );
    check(
        "HTTP/1.1 101 Sw\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n",
        WriteOptions { upgrade: true, ..plain },
        "HTTP/1.1 101 Sw\r\nupgrade: foo\r\nconnection: upgrade\r\n\r\n",
    );
}

#[test]
fn errors_say_whose_fault_they_are() {
    let mut response = Response::default();
    let error = parse_response(b"X", &mut response, Method::Get, &ParseOptions::default()).unwrap_err();
    assert_eq!((error.fault, error.status(), error.position), (Fault::Server, 502, 0));
    assert_eq!(error.to_string(), "invalid protocol version at byte 0");
    assert_eq!(request(b"GET / HTTP/1.1\r\na b: c\r\n\r\n").unwrap_err().position, 17);
}

/// Bytes that are likely to get far into a head.
fn nearly_a_head() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "GET ",
        "CONNECT ",
        "OPTIONS ",
        "/",
        "*",
        "http://h:80",
        "h:443",
        " HTTP/1.1",
        " HTTP/1.0",
        "\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "Host: ",
        "Content-Length: ",
        "Transfer-Encoding: ",
        "chunked",
        "5",
        ",",
        " ",
        "\t",
        ":",
        "a",
        "\0",
        "\u{e9}",
        "Connection: ",
        "upgrade",
        "Upgrade: ",
        "TE: trailers\r\n",
        "Content-Length: 05\r\n",
        "close",
        "#",
        "x-y: ",
        "GET / HTTP/1.1\r\n",
    ]);
    prop::collection::vec(token, 0..24).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #[test]
    fn the_first_answer_to_a_growing_input_is_the_answer_to_all_of_it(
        input in nearly_a_head(), max_head in 1usize..120, accept_unsafe: bool,
    ) {
        let options = ParseOptions { max_head, accept_unsafe, ..ParseOptions::default() };
        let mut message = Request::default();
        let whole = parse_request(&input, &mut message, &options);
        let mut grown = Ok(None);
        for end in 0..=input.len() {
            grown = parse_request(&input[..end], &mut message, &options);
            if grown != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(whole, grown);
    }

    #[test]
    fn the_same_of_responses(input in nearly_a_head(), status in 90u16..1100, accept_unsafe: bool) {
        let options = ParseOptions { max_head: 100, accept_unsafe, ..ParseOptions::default() };
        let input = [format!("HTTP/1.1 {status}").into_bytes(), input].concat();
        let mut message = Response::default();
        let whole = parse_response(&input, &mut message, Method::Get, &options);
        let mut grown = Ok(None);
        for end in 0..=input.len() {
            grown = parse_response(&input[..end], &mut message, Method::Get, &options);
            if grown != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(whole, grown);
    }

    #[test]
    fn what_is_written_reads_the_same_again(input in nearly_a_head()) {
        let Ok(Some((head, first))) = request(&input) else { return Ok(()) };
        let mut out = Vec::new();
        let options = WriteOptions { framing: head.framing, upgrade: head.upgrade, ..WriteOptions::default() };
        write_request(&first, &mut out, options);
        let (again, second) = request(&out).expect("own output is valid").expect("own output is complete");
        prop_assert_eq!(again.len, out.len());
        prop_assert_eq!(again.framing, head.framing);
        prop_assert_eq!(second.uri_bytes(), first.uri_bytes());
        let mut rewritten = Vec::new();
        write_request(&second, &mut rewritten, options);
        prop_assert_eq!(rewritten, out);
    }

    #[test]
    fn any_split_of_a_chunked_body_decodes_the_same(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        noise in prop::option::of((0usize..200, any::<u8>())),
        pieces in prop::collection::vec(1usize..20, 0..200),
        trailer: bool,
    ) {
        let mut input = Vec::new();
        for chunk in &chunks {
            write_chunk(chunk, &mut input);
        }
        let mut trailers = Fields::default();
        trailers.push(b"X-T", b"v");
        write_last_chunk(trailer.then_some(&trailers), &mut input);
        input.extend_from_slice(b"GET");
        if let Some((at, byte)) = noise
            && at < input.len()
        {
            input[at] = byte;
        }
        let shown = |(body, result, at): (Vec<u8>, Result<Option<Fields>, Kind>, usize)| {
            (body, result.map(|trailers| trailers.map(|fields| format!("{fields:?}"))), at)
        };
        let whole = shown(decoded(Framing::Chunked, &input, &[]));
        let split = shown(decoded(Framing::Chunked, &input, &pieces));
        prop_assert_eq!(&whole, &split);
        if noise.is_none() {
            prop_assert_eq!(whole.0, chunks.concat());
            prop_assert_eq!(whole.2, input.len() - 3);
        }
    }
}

#[test]
fn a_connect_that_asks_for_an_upgrade_is_not_written_as_get() {
    let input = b"CONNECT a:8443 HTTP/1.1\r\nHost: a:8443\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let mut request = Request::default();
    let head = parse_request(input, &mut request, &ParseOptions::default()).unwrap().unwrap();
    assert!(!head.upgrade);
    let mut written = Vec::new();
    let options = WriteOptions { framing: head.framing, upgrade: head.upgrade, ..WriteOptions::default() };
    write_request(&request, &mut written, options);
    assert_eq!(String::from_utf8_lossy(&written), "CONNECT a:8443 HTTP/1.1\r\nhost: a:8443\r\n\r\n");
}

#[test]
fn an_authority_with_two_ports_is_refused() {
    for target in ["GET http://a::/", "GET http://a:1:80/", "GET http://[::/", "CONNECT a:1:80"] {
        let input = format!("{target} HTTP/1.1\r\n\r\n");
        let mut request = Request::default();
        let refused = parse_request(input.as_bytes(), &mut request, &ParseOptions::default());
        assert!(refused.is_err(), "{target}");
    }
    let input = b"GET http://[::1]:80/ HTTP/1.1\r\n\r\n";
    assert!(parse_request(input, &mut Request::default(), &ParseOptions::default()).is_ok());
}
