//! Both ends in memory: what a peer sends against what happens and what is answered.

use super::*;
use crate::h2::error::{Gone, Refused};
use crate::h2::frame::{HEADER_LEN, flag, kind};
use crate::h2::hpack::encode_for_tests;
use crate::{FieldName, Method};

type Lines<'a> = &'a [(&'a str, &'a str)];

const GET: Lines<'_> = &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")];
const POST: Lines<'_> = &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "h")];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = FrameHeader { len: payload.len(), kind, flags, stream }.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A block of literals that are not indexed.
fn block(lines: Lines<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in lines {
        out.push(0);
        for part in [name, value] {
            assert!(part.len() < 127);
            out.push(part.len() as u8);
            out.extend_from_slice(part.as_bytes());
        }
    }
    out
}

fn headers(stream: u32, lines: Lines<'_>, end: bool) -> Vec<u8> {
    let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, stream, &block(lines))
}

fn data(stream: u32, payload: &[u8], end: bool) -> Vec<u8> {
    frame(kind::DATA, if end { flag::END_STREAM } else { 0 }, stream, payload)
}

fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = parameters
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn rst(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// What is in the output, a line for each frame.
fn output(connection: &mut Connection) -> String {
    let mut text = String::new();
    let mut rest = connection.output();
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::parse(header);
        let (payload, after) = after.split_at(header.len);
        rest = after;
        let number = frame::number(payload).unwrap_or_default();
        let stream = header.stream;
        let end = if header.flags & 1 != 0 { " end" } else { "" };
        text += &match header.kind {
            kind::DATA => format!("DATA {stream} {}{end}", header.len),
            kind::HEADERS => format!("HEADERS {stream}{end}"),
            kind::RST_STREAM => format!("RST_STREAM {stream} {}", ErrorCode(number).name()),
            kind::SETTINGS if end.is_empty() => "SETTINGS".to_owned(),
            kind::SETTINGS => "SETTINGS ack".to_owned(),
            kind::PING => format!("PING{}", if end.is_empty() { "" } else { " ack" }),
            kind::GOAWAY => {
                format!("GOAWAY {number} {}", ErrorCode(frame::number(&payload[4..]).unwrap()).name())
            }
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {number}"),
            kind::CONTINUATION => format!("CONTINUATION {stream}"),
            other => format!("type {other}"),
        };
        text += "\n";
    }
    assert!(rest.is_empty());
    connection.advance_output(connection.output().len());
    text
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn describe_fields(fields: &Fields) -> String {
    fields.iter().map(|(n, v)| format!(" [{}: {}]", text(n), text(v))).collect()
}

/// What happened, a line for each event; data is read and consumed.
fn events(connection: &mut Connection) -> String {
    let mut lines = String::new();
    while let Some(event) = connection.poll_event() {
        let (stream, line) = match event {
            Event::Request { stream, request, end } => (
                stream,
                format!(
                    "request {} {}{}{}",
                    text(request.method_bytes()),
                    text(request.uri_bytes()),
                    describe_fields(&request.fields),
                    if end { " end" } else { "" }
                ),
            ),
            Event::Invalid { stream, status, .. } => (stream, format!("invalid {status}")),
            Event::Response { stream, response, end } => (
                stream,
                format!(
                    "response {}{}{}",
                    response.status,
                    describe_fields(&response.fields),
                    if end { " end" } else { "" }
                ),
            ),
            Event::Informational { stream, response } => (stream, format!("interim {}", response.status)),
            Event::Data { stream } => {
                let data = text(connection.received(stream));
                connection.consume(stream, data.len());
                (stream, format!("data {data}"))
            }
            Event::Trailers { stream, fields } => (stream, format!("trailers{}", describe_fields(&fields))),
            Event::End { stream } => (stream, "end".to_owned()),
            Event::Reset { stream, code, by_peer } => {
                (stream, format!("reset {} by_peer={by_peer}", code.name()))
            }
            Event::Writable { stream } => (stream, "writable".to_owned()),
            Event::GoAway { last, code } => {
                lines += &format!("goaway {last} {}\n", code.name());
                continue;
            }
        };
        lines += &format!("{} {line}\n", stream.number());
    }
    lines
}

fn give(connection: &mut Connection, input: &[u8]) {
    assert_eq!(connection.receive(input), Ok(input.len()));
}

fn established(mut connection: Connection, peer: &[(u16, u32)]) -> Connection {
    if connection.role == Role::Server {
        give(&mut connection, PREFACE);
    }
    give(&mut connection, &settings(peer));
    connection.advance_output(connection.output().len());
    connection
}

fn server() -> Connection {
    established(Connection::server(Settings::default()), &[])
}

fn client() -> Connection {
    established(Connection::client(Settings::default()), &[])
}

fn request(uri: &str) -> Request {
    let mut request = Request::default();
    request.set_method(b"GET");
    request.set_uri(uri.as_bytes());
    request.fields.push(b"Host", b"h");
    request
}

fn stream_of(event: Option<Event>) -> StreamId {
    match event {
        Some(Event::Request { stream, .. }) => stream,
        other => panic!("not a request: {other:?}"),
    }
}

/// A server with one request of which the body is still to come.
fn server_with_post() -> (Connection, StreamId) {
    let mut server = server();
    give(&mut server, &headers(1, POST, false));
    let stream = stream_of(server.poll_event());
    (server, stream)
}

#[test]
fn requests_become_messages() {
    let check = |lines: Lines<'_>, expected: &str| {
        let mut server = server();
        give(&mut server, &headers(1, lines, true));
        let happened = events(&mut server) + &output(&mut server);
        assert_eq!(happened.trim_end(), expected, "{lines:?}");
    };
    let get = |more: Lines<'_>, expected: &str| check(&[GET, more].concat(), expected);
    const REFUSED: &str = "RST_STREAM 1 PROTOCOL_ERROR";
    get(&[], "1 request GET http://h/ [host: h] end");
    get(&[("a", "1"), ("a", "2")], "1 request GET http://h/ [host: h] [a: 1] [a: 2] end");
    get(&[("a", " x \t")], "1 request GET http://h/ [host: h] [a: x] end");
    get(&[("te", "trailers")], "1 request GET http://h/ [host: h] [te: trailers] end");
    get(&[("content-length", "0")], "1 request GET http://h/ [host: h] [content-length: 0] end");
    // Cookies become one, Host gives way to :authority.
    get(
        &[("cookie", "c1=foo"), ("x", "y"), ("cookie", "c2=bar"), ("cookie", "c3=baz")],
        "1 request GET http://h/ [host: h] [cookie: c1=foo; c2=bar; c3=baz] [x: y] end",
    );
    get(&[("host", "other")], "1 request GET http://h/ [host: h] end");
    // What breaks HTTP/1 or concerns one connection only.
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("Upper", "1"),
        ("", "1"),
        ("a b", "1"),
        ("a:b", "1"),
        ("a", "1\r\nb: 2"),
        ("a", "1\n2"),
        ("a", "1\0"),
        (":method", "GET"),
        (":path", "/"),
        (":status", "200"),
        (":unknown", "1"),
        ("content-length", "0,"),
        ("content-length", ""),
        ("content-length", "+0"),
        ("content-length", "1"),
        ("content-length", "99999999999999999999"),
    ] {
        get(&[(name, value)], REFUSED);
    }
    get(
        &[("content-length", "0"), ("content-length", "0")],
        "1 request GET http://h/ [host: h] [content-length: 0] end",
    );
    get(&[("a", "1"), (":protocol", "x")], REFUSED);

    let full = |method, scheme, path, authority, expected: &str| {
        let lines = [(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)];
        check(&lines, expected);
    };
    full("PUT", "https", "/a?b", "h:8", "1 request PUT https://h:8/a?b [host: h:8] end");
    full("GET", "http", "/", "h:80", "1 request GET http://h/ [host: h] end");
    full("GET", "https", "/", "h:443", "1 request GET https://h/ [host: h] end");
    full("GET", "https", "/", "h:80", "1 request GET https://h:80/ [host: h:80] end");
    full("OPTIONS", "http", "*", "h", "1 request OPTIONS * [host: h] end");
    full("GET?", "http", "/", "h", "1 invalid 400");
    full("GET", "http://localhost/?", "/", "h", "1 invalid 400");
    full("GE T", "http", "/", "h", REFUSED);
    full("GET", "ht\r\ntp", "/", "h", REFUSED);
    for path in ["", "hello-world", "*", "/a b", "/a#b", "/a\r\nb", "//\0"] {
        full("GET", "http", path, "h", REFUSED);
    }
    for authority in ["h/", "u@h", "h#", "h?", "h,i", "h\\i", "[::1", "[::1]x"] {
        full("GET", "http", "/", authority, "1 invalid 400");
        check(&[&GET[..3], &[("host", authority)]].concat(), "1 invalid 400");
    }
    for authority in ["h h", "h\t", "h\u{e9}"] {
        full("GET", "http", "/", authority, REFUSED);
    }
    for (at, _) in GET.iter().enumerate().take(3) {
        let mut lines = GET.to_vec();
        lines.remove(at);
        check(&lines, REFUSED);
    }
    let no_authority = &GET[..3];
    check(no_authority, "1 request GET / end");
    check(&[no_authority, &[("host", "x")]].concat(), "1 request GET / [host: x] end");
    check(&[no_authority, &[("host", "x"), ("host", "x")]].concat(), "1 request GET / [host: x] end");
    check(&[no_authority, &[("host", "x"), ("host", "y")]].concat(), REFUSED);
    check(&[(":method", "CONNECT"), (":authority", "h:1")], "1 request CONNECT h:1 [host: h:1] end");
    check(&[(":method", "CONNECT")], REFUSED);
    check(&[(":method", "CONNECT"), (":authority", "h:1"), (":path", "/")], REFUSED);
}

#[test]
fn huffman_and_indexed_requests() {
    let mut server = server();
    let mut first = vec![0x82, 0x86, 0x84, 0x41];
    let authority = encode_for_tests(b"www.example.com");
    first.push(0x80 | authority.len() as u8);
    first.extend_from_slice(&authority);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    give(&mut server, &frame(kind::HEADERS, flags, 1, &first));
    give(&mut server, &frame(kind::HEADERS, flags, 3, &[0x82, 0x86, 0x84, 0xbe]));
    let expected = "request GET http://www.example.com/ [host: www.example.com] end\n";
    assert_eq!(events(&mut server), format!("1 {expected}3 {expected}"));
}

#[test]
fn too_large_sections_are_answered() {
    let settings = Settings { max_header_list: 250, max_fields: 3, ..Settings::default() };
    let check = |more: Lines<'_>, expected: &str| {
        let mut server = established(Connection::server(settings), &[]);
        give(&mut server, &headers(1, &[GET, more].concat(), true));
        give(&mut server, &headers(3, &[GET, more].concat(), true));
        let happened = events(&mut server);
        match happened.starts_with("1 invalid") {
            false => assert!(happened.starts_with(expected), "{happened}"),
            // The first of them is answered, and the connection closes.
            true => {
                assert_eq!(happened, expected);
                let sent = output(&mut server);
                assert_eq!(sent, "GOAWAY 1 ENHANCE_YOUR_CALM\nRST_STREAM 3 REFUSED_STREAM\n");
            }
        }
    };
    check(
        &[("a", "1"), ("b", "1"), ("c", "1")],
        "1 request GET http://h/ [host: h] [a: 1] [b: 1] [c: 1] end\n",
    );
    check(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")], "1 invalid 431\n");
    let long = "x".repeat(100);
    check(&[("a", &long), ("b", &long)], "1 invalid 431\n");
}

#[test]
fn responses_become_messages() {
    let check = |lines: Lines<'_>, end: bool, expected: &str| {
        let mut client = client();
        client.send_request(&request("/"), true).unwrap();
        output(&mut client);
        give(&mut client, &headers(1, lines, end));
        let happened = events(&mut client) + &output(&mut client);
        assert_eq!(happened.trim_end(), expected, "{lines:?}");
    };
    const BROKEN: &str = "1 reset PROTOCOL_ERROR by_peer=false\nRST_STREAM 1 PROTOCOL_ERROR";
    check(&[(":status", "200"), ("a", "b")], true, "1 response 200 [a: b] end");
    check(&[(":status", "103")], false, "1 interim 103");
    check(&[(":status", "103")], true, BROKEN);
    check(&[(":status", "101")], false, BROKEN);
    check(&[(":status", "20")], true, BROKEN);
    check(&[(":status", "2000")], true, BROKEN);
    check(&[(":status", "abc")], true, BROKEN);
    check(&[("a", "b")], true, BROKEN);
    check(&[(":status", "200"), (":status", "200")], true, BROKEN);
    check(&[(":status", "200"), ("connection", "close")], true, BROKEN);
    check(&[(":status", "200"), ("content-length", "5")], true, BROKEN);
    check(&[(":status", "304"), ("content-length", "5")], true, "1 response 304 [content-length: 5] end");
}

#[test]
fn requests_cross_both_ends() {
    let check = |change: fn(&mut Request), expected: &str| {
        let (mut client, mut server) = (client(), server());
        let mut request = request("/p?q");
        change(&mut request);
        client.send_request(&request, true).unwrap();
        give(&mut server, client.output());
        assert_eq!(events(&mut server).trim_end(), expected);
    };
    check(|_| (), "1 request GET https://h/p?q [host: h] end");
    check(|r| r.set_uri(b"http://other/x"), "1 request GET http://h/x [host: h] end");
    check(|r| r.set_uri(b"*"), "1 request GET https://h/ [host: h] end");
    check(|r| r.fields.push(b"X-Upper", b"V"), "1 request GET https://h/p?q [host: h] [x-upper: V] end");
    check(
        |r| {
            for name in ["Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Proxy-Connection"] {
                r.fields.push(name.as_bytes(), b"x");
            }
            r.fields.push(b"TE", b"gzip, trailers");
        },
        "1 request GET https://h/p?q [host: h] [te: trailers] end",
    );
    check(
        |r| {
            r.set_method(b"CONNECT");
            r.set_uri(b"h:9");
            r.fields.set(b"host", b"h:9");
        },
        "1 request CONNECT h:9 [host: h:9] end",
    );
    check(
        |r| {
            r.set_method(b"OPTIONS");
            r.set_uri(b"*");
        },
        "1 request OPTIONS * [host: h] end",
    );
}

#[test]
fn an_exchange_with_bodies_and_trailers() {
    let (mut client, mut server) = (client(), server());
    let mut post = request("/");
    post.set_method(b"POST");
    let at_client = client.send_request(&post, false).unwrap();
    assert_eq!(client.send_data(at_client, b"ask", true), Ok(3));
    assert_eq!(client.send_data(at_client, b"more", true), Err(Gone));
    give(&mut server, client.output());
    client.advance_output(client.output().len());
    let at_server = stream_of(server.poll_event());
    assert_eq!(server.received(at_server), b"ask");
    assert_eq!(events(&mut server), "1 data ask\n1 end\n");
    // A stream whose message has ended gets its window back before the answer.
    assert_eq!(output(&mut server), "WINDOW_UPDATE 0 1572865\nWINDOW_UPDATE 1 3\n");
    server.send_response(at_server, &Response::new(103, ""), false).unwrap();
    server.send_response(at_server, &Response::new(200, ""), false).unwrap();
    assert_eq!(server.send_response(at_server, &Response::new(200, ""), false), Err(Gone));
    assert_eq!(server.send_data(at_server, b"answer", false), Ok(6));
    let mut trailers = Fields::default();
    trailers.push(b"Grpc-Status", b"0");
    server.send_trailers(at_server, &trailers).unwrap();
    give(&mut client, server.output());
    server.advance_output(server.output().len());
    assert_eq!(
        events(&mut client),
        "1 interim 103\n1 response 200\n1 data answer\n1 trailers [grpc-status: 0]\n1 end\n"
    );
    assert_eq!((client.active_streams(), server.active_streams()), (0, 0));
    assert_eq!(server.send_data(at_server, b"x", true), Err(Gone));
    assert!(server.is_idle());
}

#[test]
fn trailers_carry_nothing_that_belongs_to_the_head() {
    let check = |lines: Lines<'_>, expected: &str| {
        let mut server = server();
        give(&mut server, &headers(1, POST, false));
        events(&mut server);
        give(&mut server, &headers(1, lines, true));
        assert_eq!(events(&mut server), expected, "{lines:?}");
    };
    check(&[("x-a", "1"), ("grpc-status", "0")], "1 trailers [x-a: 1] [grpc-status: 0]\n1 end\n");
    for name in ["host", "authorization", "content-type", "cookie", "proxy-authorization", "content-range"] {
        check(&[(name, "z"), ("x-a", "1")], "1 trailers [x-a: 1]\n1 end\n");
        check(&[(name, "z")], "1 end\n");
    }
    check(&[("content-length", "3")], "1 end\n");
}

#[test]
fn the_last_data_frame_ends_the_stream_while_it_waits() {
    let check = |between: &dyn Fn(&mut Connection), expected: &str| {
        let mut client = client();
        let stream = client.send_request(&request("/"), false).unwrap();
        output(&mut client);
        assert_eq!(client.send_data(stream, b"body", false), Ok(4));
        between(&mut client);
        assert_eq!(client.send_data(stream, b"", true), Ok(0));
        assert_eq!(output(&mut client), expected);
        assert_eq!(client.send_data(stream, b"", true), Err(Gone));
    };
    check(&|_| {}, "DATA 1 4 end\n");
    check(&|client| client.advance_output(13), "DATA 1 0 end\n");
    check(
        &|client| give(client, &frame(kind::PING, 0, 0, b"12345678")),
        "DATA 1 4\nPING ack\nDATA 1 0 end\n",
    );
    let mut client = client();
    let stream = client.send_request(&request("/"), false).unwrap();
    output(&mut client);
    assert_eq!(client.send_data(stream, b"body", false), Ok(4));
    client.advance_output(5);
    let left = client.output().len();
    assert_eq!(client.send_data(stream, b"", true), Ok(0));
    assert_eq!(client.output().len(), left + HEADER_LEN);
}

#[test]
fn unread_data_outlives_its_stream() {
    let mut client = client();
    let stream = client.send_request(&request("/"), true).unwrap();
    give(&mut client, &headers(1, &[(":status", "200")], false));
    give(&mut client, &data(1, b"body", true));
    while client.poll_event().is_some() {}
    assert_eq!(client.received(stream), b"body");
    client.consume(stream, 1);
    assert_eq!((client.received(stream), client.active_streams()), (&b"ody"[..], 1));
    client.consume(stream, 3);
    assert_eq!((client.received(stream), client.active_streams()), (&b""[..], 0));
}

#[test]
fn any_split_of_the_octets_gives_the_same_events() {
    let mut input = PREFACE.to_vec();
    let padded = [&[3][..], b"dat", &[0; 3]].concat();
    let long_value = "v".repeat(100);
    for bytes in [
        settings(&[(4, 100_000), (0x99, 1)]),
        headers(1, GET, true),
        headers(3, POST, false),
        frame(kind::DATA, flag::PADDED, 3, &padded),
        frame(kind::PING, 0, 0, b"12345678"),
        data(3, &[b'x'; 300], false),
        frame(kind::HEADERS, flag::END_STREAM, 5, &block(GET)[..10]),
        frame(kind::CONTINUATION, 0, 5, &block(GET)[10..20]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 5, &block(GET)[20..]),
        headers(7, &[GET, &[("a", &long_value)]].concat(), false),
        rst(7),
        frame(0x77, 0, 3, b"unknown"),
        frame(kind::PRIORITY, 0, 9, &[0, 0, 0, 1, 5]),
        headers(3, &[("trailer-field", "1")], true),
        window_update(0, 1000),
        headers(9, &[("bad", "1")], true),
    ] {
        input.extend_from_slice(&bytes);
    }
    let run = |cut: &mut dyn FnMut() -> usize| {
        let mut server = Connection::server(Settings::default());
        let (mut happened, mut body) = (String::new(), String::new());
        let (mut from, mut to) = (0, 0);
        while to < input.len() {
            to = (to + cut().max(1)).min(input.len());
            from += server.receive(&input[from..to]).unwrap();
            for line in events(&mut server).lines() {
                match line.strip_prefix("3 data ") {
                    Some(data) => body += data,
                    // Reset before it was told, where both came at once.
                    None if line.starts_with("7 ") => {}
                    None => happened += &format!("{line}\n"),
                }
            }
        }
        assert_eq!(from, input.len());
        // When the end of a body comes apart from its data, its window is not given back.
        let sent = output(&mut server).replace("WINDOW_UPDATE 3 307\n", "");
        (happened, body, sent, server.send_window, server.glitches())
    };
    let whole = run(&mut || usize::MAX / 2);
    assert!(whole.0.contains("5 request GET") && whole.1.len() == 303, "{whole:?}");
    for size in 1..50 {
        assert_eq!(run(&mut || size), whole, "pieces of {size}");
    }
    let mut random = 1u32;
    for _ in 0..200 {
        let mut cut = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 20) as usize % 200
        };
        assert_eq!(run(&mut cut), whole);
    }
}

#[test]
fn broken_octets_never_panic() {
    let mut good = PREFACE.to_vec();
    for bytes in [
        settings(&[(4, 100_000)]),
        headers(1, GET, true),
        headers(3, POST, false),
        frame(kind::DATA, flag::PADDED, 3, &[2, 1, 2, 3, 0, 0]),
        frame(kind::HEADERS, 0, 5, &block(GET)[..10]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 5, &block(GET)[10..]),
        headers(3, &[("trailer-field", "1")], true),
        window_update(1, 1000),
        rst(5),
        frame(kind::GOAWAY, 0, 0, &[0; 8]),
    ] {
        good.extend_from_slice(&bytes);
    }
    let mut random = 99u32;
    let mut next = |below: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % below
    };
    for round in 0..20_000 {
        let mut input = good.clone();
        for _ in 0..1 + next(4) {
            let at = PREFACE.len() + next(input.len() - PREFACE.len());
            input[at] = next(256) as u8;
        }
        let mut connection = if round % 4 == 0 {
            let mut client = Connection::client(Settings::default());
            client.send_request(&request("/"), false).ok();
            input.drain(..PREFACE.len());
            client
        } else {
            Connection::server(Settings::default())
        };
        let cut = next(input.len());
        if let Ok(taken) = connection.receive(&input[..cut]) {
            connection.receive(&input[taken..]).ok();
        }
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Request { stream, .. } | Event::Invalid { stream, .. } => {
                    connection.send_response(stream, &Response::new(200, ""), false).ok();
                    connection.send_data(stream, &[0; 100], next(2) == 0).ok();
                }
                Event::Data { stream } => connection.consume(stream, next(10)),
                Event::End { stream } => connection.release(stream),
                _ => {}
            }
        }
        connection.release_buffers();
    }
}

#[test]
fn connection_errors() {
    let check = |input: &[u8], code: &str| {
        let (mut server, _) = server_with_post();
        let error = server.receive(input).expect_err("an error");
        assert_eq!(error.code.name(), code, "{error}");
        let last = output(&mut server).lines().last().unwrap().to_owned();
        assert!(last.starts_with("GOAWAY ") && last.ends_with(code), "{last}");
        assert!(server.is_closing() && !server.is_receiving());
        assert_eq!(server.receive(&headers(3, GET, true)), Err(error));
    };
    check(&frame(kind::DATA, 0, 0, b""), "PROTOCOL_ERROR");
    check(&data(3, b"idle", false), "PROTOCOL_ERROR");
    check(&data(2, b"even", false), "PROTOCOL_ERROR");
    check(&frame(kind::DATA, flag::PADDED, 1, &[5, 0]), "PROTOCOL_ERROR");
    check(&frame(kind::DATA, flag::PADDED, 1, &[]), "FRAME_SIZE_ERROR");
    check(&headers(0, GET, true), "PROTOCOL_ERROR");
    check(&headers(2, GET, true), "PROTOCOL_ERROR");
    check(&frame(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 3, &[9, 0x82]), "PROTOCOL_ERROR");
    check(&frame(kind::HEADERS, flag::END_HEADERS, 3, &[0xff]), "COMPRESSION_ERROR");
    check(&[headers(9, GET, true), headers(5, GET, true)].concat(), "PROTOCOL_ERROR");
    check(&[rst(1), headers(1, GET, true)].concat(), "STREAM_CLOSED");
    check(&frame(kind::PRIORITY, 0, 0, &[0; 5]), "PROTOCOL_ERROR");
    check(&frame(kind::RST_STREAM, 0, 1, &[0; 3]), "FRAME_SIZE_ERROR");
    check(&rst(0), "PROTOCOL_ERROR");
    check(&rst(3), "PROTOCOL_ERROR");
    check(&frame(kind::SETTINGS, 0, 1, &[]), "PROTOCOL_ERROR");
    check(&frame(kind::SETTINGS, 0, 0, &[0; 5]), "FRAME_SIZE_ERROR");
    check(&frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), "FRAME_SIZE_ERROR");
    check(&settings(&[(2, 2)]), "PROTOCOL_ERROR");
    check(&settings(&[(4, 1 << 31)]), "FLOW_CONTROL_ERROR");
    check(&settings(&[(5, 16_383)]), "PROTOCOL_ERROR");
    check(&settings(&[(5, 1 << 24)]), "PROTOCOL_ERROR");
    check(&settings(&[(8, 2)]), "PROTOCOL_ERROR");
    check(&[window_update(1, 1000), settings(&[(4, MAX_WINDOW)])].concat(), "FLOW_CONTROL_ERROR");
    check(&frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 4]), "PROTOCOL_ERROR");
    check(&frame(kind::PING, 0, 1, &[0; 8]), "PROTOCOL_ERROR");
    check(&frame(kind::PING, 0, 0, &[0; 7]), "FRAME_SIZE_ERROR");
    check(&frame(kind::GOAWAY, 0, 1, &[0; 8]), "PROTOCOL_ERROR");
    check(&frame(kind::GOAWAY, 0, 0, &[0; 7]), "FRAME_SIZE_ERROR");
    check(&window_update(0, 0), "PROTOCOL_ERROR");
    check(&window_update(3, 1), "PROTOCOL_ERROR");
    check(&window_update(0, MAX_WINDOW), "FLOW_CONTROL_ERROR");
    check(&frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), "FRAME_SIZE_ERROR");
    check(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), "PROTOCOL_ERROR");
    check(&[frame(kind::HEADERS, 0, 3, &[]), frame(kind::PING, 0, 0, &[0; 8])].concat(), "PROTOCOL_ERROR");
    check(
        &[frame(kind::HEADERS, 0, 3, &[]), frame(kind::CONTINUATION, 4, 5, &[])].concat(),
        "PROTOCOL_ERROR",
    );
    check(&frame(kind::HEADERS, 4, 3, &[0; 16_385]), "FRAME_SIZE_ERROR");

    let mut server = Connection::server(Settings::default());
    assert!(server.receive(b"GET / HTTP/1.1\r\n").is_err());
    let mut server = Connection::server(Settings::default());
    assert_eq!(server.receive(b"PRI * "), Ok(0));
    assert!(server.receive(&[&PREFACE[..], &frame(kind::PING, 0, 0, &[0; 8])].concat()).is_err());
}

#[test]
fn stream_errors() {
    let check = |input: &[u8], expected: &str| {
        let (mut server, _) = server_with_post();
        give(&mut server, input);
        let happened = events(&mut server) + &output(&mut server);
        assert!(happened.ends_with(expected), "{happened}");
        assert!(server.glitches() > 0);
        // The connection goes on.
        give(&mut server, &headers(9, GET, true));
        assert!(events(&mut server).starts_with("9 request"));
    };
    const PROTOCOL: &str = "1 reset PROTOCOL_ERROR by_peer=false\nRST_STREAM 1 PROTOCOL_ERROR\n";
    check(&headers(1, &[("a", "1")], false), PROTOCOL);
    check(&headers(1, &[(":path", "/")], true), PROTOCOL);
    check(&window_update(1, 0), PROTOCOL);
    check(&frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 5]), PROTOCOL);
    check(
        &frame(kind::PRIORITY, 0, 1, &[0; 4]),
        "1 reset FRAME_SIZE_ERROR by_peer=false\nRST_STREAM 1 FRAME_SIZE_ERROR\n",
    );
    check(
        &window_update(1, MAX_WINDOW),
        "1 reset FLOW_CONTROL_ERROR by_peer=false\nRST_STREAM 1 FLOW_CONTROL_ERROR\n",
    );
    check(&[data(1, b"", true), data(1, b"x", false)].concat(), "RST_STREAM 1 STREAM_CLOSED\n");
    check(&[data(1, b"", true), headers(1, GET, true)].concat(), "RST_STREAM 1 STREAM_CLOSED\n");
    check(&[rst(1), data(1, b"x", false)].concat(), "RST_STREAM 1 STREAM_CLOSED\n");
}

#[test]
fn frames_on_a_stream_reset_from_here_are_ignored() {
    let (mut server, stream) = server_with_post();
    server.reset(stream, ErrorCode::CANCEL);
    output(&mut server);
    for input in [data(1, b"late", false), window_update(1, 5), headers(1, &[("t", "1")], true), rst(1)] {
        give(&mut server, &input);
    }
    assert_eq!(events(&mut server) + &output(&mut server), "WINDOW_UPDATE 0 1572865\n");
    assert_eq!(server.glitches(), 0);
}

#[test]
fn content_length_is_held_against_data() {
    let check = |length: &str, frames: &[(&[u8], bool)], expected: &str| {
        let mut server = server();
        give(&mut server, &headers(1, &[POST, &[("content-length", length)]].concat(), false));
        server.poll_event();
        for (payload, end) in frames {
            give(&mut server, &data(1, payload, *end));
        }
        assert_eq!(events(&mut server).lines().last().unwrap(), expected);
    };
    const BROKEN: &str = "1 reset PROTOCOL_ERROR by_peer=false";
    check("4", &[(b"ab", false), (b"cd", true)], "1 end");
    check("4", &[(b"abcd", false), (b"", true)], "1 end");
    check("4, 04", &[(b"abcd", true)], "1 end");
    for malformed in ["4, 5", "4,", "4;4"] {
        let mut server = server();
        give(&mut server, &headers(1, &[POST, &[("content-length", malformed)]].concat(), false));
        assert!(!events(&mut server).contains("request"), "{malformed}");
    }
    check("4", &[(b"ab", false), (b"cde", false)], BROKEN);
    check("4", &[(b"ab", false), (b"c", true)], BROKEN);
    check("4", &[(b"ab", false), (b"", true)], BROKEN);
    check("2", &[(b"this is sent and ignored", true)], BROKEN);

    let mut server = server();
    give(&mut server, &headers(1, &[POST, &[("content-length", "4")]].concat(), false));
    assert!(server.poll_event().is_some());
    give(&mut server, &headers(1, &[("trailer", "1")], true));
    assert!(events(&mut server).ends_with("1 reset PROTOCOL_ERROR by_peer=false\n"));
}

#[test]
fn sending_keeps_to_the_windows() {
    let mut server = established(Connection::server(Settings::default()), &[(4, 10), (5, 20_000)]);
    give(&mut server, &[headers(1, GET, true), headers(3, GET, true)].concat());
    let one = stream_of(server.poll_event());
    let three = stream_of(server.poll_event());
    for stream in [one, three] {
        server.send_response(stream, &Response::new(200, ""), false).unwrap();
    }
    output(&mut server);
    let body = vec![b'x'; 200_000];
    assert_eq!(server.send_data(one, &body, true), Ok(10));
    assert_eq!(server.send_data(one, &body[10..], true), Ok(0));
    assert_eq!(output(&mut server) + &events(&mut server), "DATA 1 10\n");
    // The initial window may become smaller than what is on its way, and the stream's negative.
    give(&mut server, &settings(&[(4, 5)]));
    give(&mut server, &window_update(1, 5));
    assert_eq!(server.send_data(one, &body[10..], true), Ok(0));
    give(&mut server, &window_update(1, 3));
    assert_eq!(events(&mut server), "1 writable\n");
    assert_eq!(server.send_data(one, &body[10..], true), Ok(3));
    output(&mut server);
    // The connection's window is what both wait for, and they get it in turn.
    give(&mut server, &settings(&[(4, 1_000_000)]));
    assert_eq!(events(&mut server), "1 writable\n");
    assert_eq!(server.send_data(one, &body[13..], true), Ok(65_535 - 13));
    assert_eq!(server.send_data(three, &body, true), Ok(0));
    assert_eq!(output(&mut server), "SETTINGS ack\nDATA 1 20000\nDATA 1 20000\nDATA 1 20000\nDATA 1 5522\n");
    assert_eq!(events(&mut server), "");
    give(&mut server, &window_update(0, 100));
    assert!(matches!(server.poll_event(), Some(Event::Writable { stream }) if stream == one));
    assert_eq!(server.send_data(one, &body, true), Ok(100));
    assert_eq!(events(&mut server), "");
    give(&mut server, &window_update(0, 1_000_000));
    assert!(matches!(server.poll_event(), Some(Event::Writable { stream }) if stream == three));
    // The mark on the output comes before the windows.
    assert_eq!(server.send_data(three, &body, true), Ok(128 * 1024 - output_len(&[100])));
    assert_eq!(server.send_data(three, &body, true), Ok(0));
    assert_eq!(events(&mut server), "");
    output(&mut server);
    assert_eq!(events(&mut server), "1 writable\n3 writable\n");
    assert_eq!(server.send_data(three, b"end", true), Ok(3));
    assert_eq!(output(&mut server), "DATA 3 3 end\n");
    assert_eq!(server.active_streams(), 1);
}

/// Octets of DATA frames with these payloads.
fn output_len(payloads: &[usize]) -> usize {
    payloads.iter().map(|len| len + HEADER_LEN).sum()
}

#[test]
fn windows_are_given_back_when_data_is_consumed() {
    let settings = Settings { initial_window: 1000, connection_window: 65_535, ..Settings::default() };
    let mut server = established(Connection::server(settings), &[]);
    give(&mut server, &headers(1, POST, false));
    let stream = stream_of(server.poll_event());
    give(&mut server, &data(1, &[b'x'; 900], false));
    assert_eq!(output(&mut server), "");
    server.consume(stream, 500);
    assert_eq!(output(&mut server), "");
    // From here on the stream gets most of the connection's window: 7/8 of it, less 300 unread, less the
    // 100 that it has not used.
    server.consume(stream, 100);
    assert_eq!(output(&mut server), "WINDOW_UPDATE 1 56937\n");
    let mut left = 57_037;
    while left > 0 {
        let octets = left.min(16_384);
        give(&mut server, &data(1, &vec![b'y'; octets], false));
        left -= octets;
    }
    assert_eq!(server.received(stream).len(), 57_337);
    give(&mut server, &data(1, b"z", false));
    assert!(output(&mut server).contains("RST_STREAM 1 FLOW_CONTROL_ERROR"));
    // A second stream halves it.
    let mut server = established(Connection::server(settings), &[]);
    give(&mut server, &[headers(1, POST, false), headers(3, GET, true)].concat());
    let stream = stream_of(server.poll_event());
    give(&mut server, &data(1, &[b'x'; 900], false));
    server.consume(stream, 900);
    assert_eq!(output(&mut server), "WINDOW_UPDATE 1 28568\n");
    // The connection's window: 65 535 octets, of which nothing is consumed.
    let mut server = established(
        Connection::server(Settings { initial_window: 100_000, connection_window: 65_535, ..settings }),
        &[],
    );
    give(&mut server, &headers(1, POST, false));
    for _ in 0..4 {
        give(&mut server, &data(1, &[0; 16_000], false));
    }
    let error = server.receive(&data(1, &[0; 16_000], false)).expect_err("too much");
    assert_eq!(error.code, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn a_response_that_nobody_takes_leaves_the_connection_to_the_others() {
    let settings = Settings { initial_window: 40_000, connection_window: 65_535, ..Settings::default() };
    let mut client = established(Connection::client(settings), &[]);
    let streams: Vec<StreamId> = (0..3).map(|_| client.send_request(&request("/"), true).unwrap()).collect();
    client.advance_output(client.output().len());
    for number in [1, 3, 5] {
        give(&mut client, &headers(number, &[(":status", "200")], false));
    }
    // Twice as much as the connection's window, of which nothing is consumed: each stream has its own window.
    for number in [1, 3, 5] {
        for _ in 0..4 {
            give(&mut client, &data(number, &[0; 10_000], false));
        }
    }
    assert!(streams.iter().all(|stream| client.received(*stream).len() == 40_000));
    assert!(output(&mut client).contains("WINDOW_UPDATE 0 "));
    // A stream's own window is no larger for it.
    give(&mut client, &data(1, b"z", false));
    assert!(output(&mut client).contains("RST_STREAM 1 FLOW_CONTROL_ERROR"));
}

#[test]
fn early_answers_decline_the_rest_of_a_request() {
    let (mut server, stream) = server_with_post();
    server.send_response(stream, &Response::new(413, ""), true).unwrap();
    server.release(stream);
    assert_eq!(output(&mut server), "HEADERS 1 end\nRST_STREAM 1 NO_ERROR\n");
    assert_eq!(server.active_streams(), 0);
    // The other end keeps the answer and learns that it may stop.
    let mut client = client();
    let mut post = request("/");
    post.set_method(b"POST");
    let stream = client.send_request(&post, false).unwrap();
    give(&mut client, &headers(1, &[(":status", "413")], false));
    give(&mut client, &data(1, b"no", true));
    give(&mut client, &frame(kind::RST_STREAM, 0, 1, &[0; 4]));
    assert_eq!(client.send_data(stream, b"x", false), Err(Gone));
    assert_eq!(events(&mut client), "1 response 413\n1 data no\n1 end\n1 reset NO_ERROR by_peer=true\n");
    assert_eq!(client.active_streams(), 0);
}

#[test]
fn concurrency_is_limited() {
    let settings = Settings { max_concurrent_streams: 2, ..Settings::default() };
    let mut server = established(Connection::server(settings), &[]);
    give(&mut server, &[headers(1, GET, true), headers(3, GET, true), headers(5, GET, true)].concat());
    assert_eq!(output(&mut server), "RST_STREAM 5 REFUSED_STREAM\n");
    let one = stream_of(server.poll_event());
    server.send_response(one, &Response::new(204, ""), true).unwrap();
    give(&mut server, &headers(7, GET, true));
    assert_eq!(output(&mut server), "HEADERS 1 end\n");

    let mut client = established(Connection::client(Settings::default()), &[(3, 1)]);
    assert_eq!(client.can_open(), 1);
    client.send_request(&request("/"), true).unwrap();
    assert_eq!(client.send_request(&request("/"), true), Err(Refused::Full));
    give(&mut client, &headers(1, &[(":status", "204")], true));
    assert!(client.send_request(&request("/"), true).is_ok());
}

#[test]
fn floods_end_the_connection() {
    let check = |mut make: Box<dyn FnMut(u32) -> Vec<u8>>| {
        let (mut server, _) = server_with_post();
        for round in 0..100_000 {
            // Frames come many to a read.
            let reads: Vec<u8> = (0..100).flat_map(|n| make(round * 100 + n)).collect();
            let received = server.receive(&reads);
            while server.poll_event().is_some() {}
            server.advance_output(usize::MAX / 2);
            if let Err(error) = received {
                assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM, "{error}");
                return;
            }
        }
        panic!("no end");
    };
    check(Box::new(|_| frame(kind::PING, 0, 0, &[0; 8])));
    check(Box::new(|_| settings(&[(3, 100)])));
    check(Box::new(|_| data(1, b"", false)));
    check(Box::new(|_| frame(kind::PRIORITY, 0, 99, &[0; 5])));
    check(Box::new(|_| frame(0x55, 0, 0, &[])));
    check(Box::new(|n| [headers(2 * n + 3, GET, true), rst(2 * n + 3)].concat()));
    check(Box::new(|_| window_update(1, 1)));
    let mut first = true;
    check(Box::new(move |_| {
        let kind = if std::mem::take(&mut first) { kind::HEADERS } else { kind::CONTINUATION };
        frame(kind, 0, 3, &[])
    }));
}

#[test]
fn streams_that_a_client_makes_the_server_reset_count_as_its_own_resets() {
    type Break = fn(u32) -> Vec<u8>;
    // Each begins a stream, has it told, and makes the server reset it.
    let check = |break_it: Break, answered: bool| {
        let mut server = server();
        for round in 0..1000 {
            let number = 2 * round + 1;
            give(&mut server, &headers(number, &[POST, &[("content-length", "1")]].concat(), false));
            let stream = stream_of(server.poll_event());
            if answered {
                // An error of the client's is no useful answer, and makes up for no reset.
                server.send_response(stream, &Response::new(400, ""), false).unwrap();
            }
            let broken = server.receive(&break_it(number));
            while server.poll_event().is_some() {}
            if let Err(error) = broken {
                assert_eq!((error.code, round), (ErrorCode::ENHANCE_YOUR_CALM, 200));
                assert!(output(&mut server).contains("GOAWAY 401 ENHANCE_YOUR_CALM\n"));
                return;
            }
            output(&mut server);
        }
        panic!("no end");
    };
    let ways: [Break; 7] = [
        |n| window_update(n, 0),
        |n| [window_update(n, MAX_WINDOW), window_update(n, MAX_WINDOW)].concat(),
        |n| [data(n, b"x", true), data(n, b"x", false)].concat(),
        |n| [data(n, b"x", true), headers(n, &[("a", "b")], true)].concat(),
        |n| frame(kind::PRIORITY, 0, n, &[&n.to_be_bytes()[..], &[1]].concat()),
        |n| data(n, b"more than was announced", true),
        |n| headers(n, &[(":path", "/")], true),
    ];
    for way in ways {
        check(way, false);
        check(way, true);
    }
    check(rst, false);
}

#[test]
fn answers_that_refuse_do_not_make_up_for_resets() {
    let rounds = |status: u16| {
        let mut server = server();
        for round in 0..1000 {
            let number = 4 * round + 1;
            give(&mut server, &headers(number, GET, true));
            let stream = stream_of(server.poll_event());
            server.send_response(stream, &Response::new(status, ""), true).unwrap();
            give(&mut server, &headers(number + 2, GET, true));
            stream_of(server.poll_event());
            if server.receive(&rst(number + 2)).is_err() {
                return round;
            }
            events(&mut server);
            output(&mut server);
        }
        1000
    };
    assert_eq!([200, 404, 400, 431].map(rounds), [1000, 1000, 200, 200]);
}

#[test]
fn what_is_opened_and_reset_at_once_is_never_told() {
    let mut server = server();
    let opened_and_reset = |n| [headers(n, POST, false), data(n, b"x", false), rst(n)].concat();
    give(&mut server, &[opened_and_reset(1), headers(3, GET, true), opened_and_reset(5)].concat());
    let broken = [headers(7, POST, false), window_update(7, 0)].concat();
    give(&mut server, &broken);
    let told: String = events(&mut server)
        .lines()
        .filter(|line| !line.contains("data"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(told, "3 request GET http://h/ [host: h] end\n");
    assert_eq!(server.active_streams(), 1);
    assert!(server.events.is_empty());
}

#[test]
fn heads_beyond_the_allowance_are_refused() {
    let mut server = server();
    let long = "x".repeat(120);
    let large = |n| headers(n, &[GET, &[("a", &long), ("b", &long), ("c", &long)]].concat(), true);
    server.allow_heads(1500);
    give(&mut server, &[large(1), large(3), large(5), large(7)].concat());
    let refused = output(&mut server);
    assert_eq!(refused, "RST_STREAM 5 REFUSED_STREAM\nRST_STREAM 7 REFUSED_STREAM\n");
    assert!(events(&mut server).starts_with("1 request"));
    // What is taken back makes room again, and so does who is asked.
    server.allow_heads(800);
    give(&mut server, &[large(9), rst(9), large(11), rst(11), large(13)].concat());
    assert!(events(&mut server).starts_with("13 request"));
}

#[test]
fn cookies_are_stored_once() {
    let crumbs: Vec<(String, String)> = (0..90).map(|_| ("cookie".to_owned(), "y".repeat(100))).collect();
    let lines: Vec<(&str, &str)> = crumbs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let mut server = server();
    give(&mut server, &headers(1, &[GET, &[("x", "y")], &lines].concat(), true));
    let Some(Event::Request { request, .. }) = server.poll_event() else { panic!("no request") };
    assert_eq!(request.fields.first(FieldName::Cookie).unwrap().len(), 90 * 102 - 2);
    assert!(request.fields.memory_bytes() < 90 * 102 * 5 / 4 + 1000, "{}", request.fields.memory_bytes());
    // What compression contexts may not remember stays so.
    let mut block = block(GET);
    block.extend_from_slice(b"\x00\x06cookie\x01a\x10\x06cookie\x01b");
    give(&mut server, &frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &block));
    let Some(Event::Request { request, .. }) = server.poll_event() else { panic!("no request") };
    let cookie = request.fields.list().iter().find(|field| field.id == FieldName::Cookie).unwrap();
    assert!(cookie.sensitive && request.fields.bytes(cookie.value) == b"a; b");
}

#[test]
fn large_heads_leave_no_memory_behind() {
    let mut server = server();
    let long = "x".repeat(120);
    let lines: Vec<(&str, &str)> = (0..90).map(|_| ("a", long.as_str())).collect();
    for n in 0..100 {
        give(&mut server, &headers(2 * n + 1, &[GET, &lines].concat(), true));
        let Some(Event::Request { stream, request, .. }) = server.poll_event() else { panic!("no request") };
        server.recycle_request(request);
        server.release(stream);
        output(&mut server);
    }
    assert!(server.pool.iter().all(|fields| fields.memory_bytes() <= POOLED_FIELDS_OCTETS));
}

#[test]
fn a_ping_is_answered() {
    let mut client = Connection::client(Settings::default());
    client.advance_output(client.output().len());
    client.receive(&frame(kind::SETTINGS, 0, 0, &[])).unwrap();
    client.advance_output(client.output().len());
    client.send_ping();
    let asked = client.output().to_vec();
    assert_eq!((asked[3], asked[4]), (kind::PING, 0));
    // An answer to something else says nothing about this question.
    client.receive(&frame(kind::PING, flag::ACK, 0, &[0; 8])).unwrap();
    assert!(!client.take_ping_answer());
    client.receive(&frame(kind::PING, flag::ACK, 0, &asked[9..])).unwrap();
    assert!(client.take_ping_answer());
    assert!(!client.take_ping_answer());
}

#[test]
fn a_peer_that_does_not_read_is_not_read() {
    let mut server = server();
    let pings: Vec<u8> = (0..20_000).flat_map(|_| frame(kind::PING, 0, 0, &[0; 8])).collect();
    let mut from = 0;
    while server.is_receiving() && from < pings.len() {
        from += server.receive(&pings[from..(from + 1700).min(pings.len())]).unwrap_or(pings.len());
    }
    assert!(server.output().len() < 200 * 1024);
}

#[test]
fn glitches_have_a_threshold() {
    let settings = Settings { glitches_threshold: 8, ..Settings::default() };
    let mut server = established(Connection::server(settings), &[]);
    let bad = [(":method", "GET"), (":scheme", "http"), (":path", "hello-world")];
    for n in 0..5 {
        give(&mut server, &headers(2 * n + 1, &bad, true));
    }
    assert_eq!((server.glitches(), server.is_closing()), (5, false));
    give(&mut server, &headers(11, &bad, true));
    assert!(server.is_closing());
    give(&mut server, &headers(13, GET, true));
    assert!(events(&mut server).starts_with("13 request"));
    give(&mut server, &headers(15, &bad, true));
    assert_eq!(server.receive(&headers(17, &bad, true)).unwrap_err().code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn graceful_closing_serves_what_is_on_its_way() {
    let (mut client, mut server) = (client(), server());
    server.go_away(true);
    client.send_request(&request("/"), true).unwrap();
    let goaway = server.output().to_vec();
    assert_eq!(output(&mut server), "GOAWAY 2147483647 NO_ERROR\nPING\n");
    give(&mut server, client.output());
    client.advance_output(client.output().len());
    let stream = stream_of(server.poll_event());
    give(&mut client, &goaway);
    assert_eq!(events(&mut client), "goaway 2147483647 NO_ERROR\n");
    assert_eq!(client.send_request(&request("/"), true), Err(Refused::Closing));
    give(&mut server, client.output());
    assert_eq!(output(&mut server), "GOAWAY 1 NO_ERROR\n");
    give(&mut server, &headers(3, GET, true));
    assert_eq!(output(&mut server), "RST_STREAM 3 REFUSED_STREAM\n");
    server.send_response(stream, &Response::new(204, ""), true).unwrap();
    assert!(!server.is_finished());
    assert_eq!(output(&mut server), "HEADERS 1 end\n");
    assert!(server.is_closing() && server.is_finished());
}

#[test]
fn goaway_gives_unprocessed_requests_back() {
    let mut client = client();
    for _ in 0..3 {
        client.send_request(&request("/"), true).unwrap();
    }
    give(&mut client, &frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
    assert_eq!(
        events(&mut client),
        "3 reset REFUSED_STREAM by_peer=true\n5 reset REFUSED_STREAM by_peer=true\ngoaway 1 NO_ERROR\n"
    );
    assert_eq!((client.active_streams(), client.can_open()), (1, 0));
}

#[test]
fn total_streams_are_limited() {
    let settings = Settings { max_total_streams: 2, max_concurrent_streams: 1, ..Settings::default() };
    let mut server = established(Connection::server(settings), &[]);
    for (number, expected) in [(1, ""), (3, "GOAWAY 2147483647 NO_ERROR\n"), (5, "")] {
        give(&mut server, &headers(number, GET, true));
        assert_eq!(output(&mut server), expected);
        let stream = stream_of(server.poll_event());
        server.release(stream);
        output(&mut server);
    }
    assert!(server.receive(&headers(7, GET, true)).is_err());
}

const WEBSOCKET: Lines<'_> = &[
    (":method", "CONNECT"),
    (":scheme", "http"),
    (":path", "/chat"),
    (":authority", "h"),
    (":protocol", "websocket"),
    ("sec-websocket-version", "13"),
];

#[test]
fn extended_connect_is_an_upgrade_at_the_server() {
    let mut server = server();
    give(&mut server, &headers(1, WEBSOCKET, false));
    let Some(Event::Request { stream, request, end: false }) = server.poll_event() else { panic!() };
    assert_eq!((request.method, request.method_bytes()), (Method::Get, &b"GET"[..]));
    assert_eq!(request.fields.bytes(request.protocol), b"websocket");
    assert_eq!(request.uri_bytes(), b"http://h/chat");
    assert_eq!(
        describe_fields(&request.fields),
        " [host: h] [connection: upgrade] [upgrade: websocket] [sec-websocket-version: 13]"
    );
    let mut switching = Response::new(101, "Switching Protocols");
    switching.fields.push(b"Upgrade", b"websocket");
    switching.fields.push(b"Connection", b"upgrade");
    switching.fields.push(b"Sec-WebSocket-Accept", b"x");
    server.send_response(stream, &switching, false).unwrap();
    assert_eq!(&server.output()[HEADER_LEN..], [0x88]);
    assert_eq!(server.send_data(stream, b"frame", false), Ok(5));

    give(&mut server, &headers(3, GET, true));
    let plain = stream_of(server.poll_event());
    output(&mut server);
    assert_eq!(server.send_response(plain, &switching, false), Err(Gone));
    assert_eq!(output(&mut server), "RST_STREAM 3 INTERNAL_ERROR\n");

    let refused = |lines: Lines<'_>, settings| {
        let mut server = established(Connection::server(settings), &[]);
        give(&mut server, &headers(1, lines, false));
        assert_eq!(output(&mut server), "RST_STREAM 1 PROTOCOL_ERROR\n");
    };
    refused(WEBSOCKET, Settings { extended_connect: false, ..Settings::default() });
    refused(&[GET, &[(":protocol", "websocket")]].concat(), Settings::default());
    let h2c: Vec<_> =
        WEBSOCKET.iter().map(|l| if l.0 == ":protocol" { (":protocol", "h2c") } else { *l }).collect();
    refused(&h2c, Settings::default());
}

#[test]
fn upgrades_are_extended_connect_at_the_client() {
    let upgrade = || {
        let mut request = request("/chat");
        request.fields.push(b"Connection", b"upgrade");
        request.fields.push(b"Upgrade", b"websocket");
        request.fields.push(b"Sec-WebSocket-Key", b"k");
        request.protocol = request.fields.store(b"websocket");
        request
    };
    let mut unknown = Connection::client(Settings::default());
    assert_eq!(unknown.send_request(&upgrade(), false), Err(Refused::AwaitSettings));
    let mut unable = client();
    assert_eq!(unable.send_request(&upgrade(), false), Err(Refused::NoExtendedConnect));
    assert_eq!(output(&mut unable), "RST_STREAM 1 CANCEL\nGOAWAY 0 NO_ERROR\n");

    let mut client = established(Connection::client(Settings::default()), &[(8, 1)]);
    let mut with_body = upgrade();
    with_body.fields.push(b"content-length", b"5");
    client.send_request(&request("/"), true).unwrap();
    assert_eq!(client.send_request(&with_body, false), Err(Refused::NoExtendedConnect));
    let stream = client.send_request(&upgrade(), false).unwrap();
    let mut server = server();
    give(&mut server, client.output());
    stream_of(server.poll_event());
    assert_eq!(
        events(&mut server),
        "3 request GET https://h/chat [host: h] [connection: upgrade] [upgrade: websocket]\n"
    );
    give(&mut client, &headers(3, &[(":status", "200")], false));
    assert_eq!(events(&mut client), "3 response 101 [connection: upgrade] [upgrade: websocket]\n");
    assert_eq!(client.send_data(stream, b"frame", false), Ok(5));
    assert!(client.upgrades.is_empty());
}

#[test]
fn large_heads_are_continued() {
    let (mut client, mut server) = (client(), server());
    let mut large = request("/");
    let value = vec![b'v'; 30_000];
    large.fields.push(b"x-large", &value);
    client.send_request(&large, true).unwrap();
    give(&mut server, client.output());
    assert_eq!(output(&mut client), "HEADERS 1 end\nCONTINUATION 1\n");
    let Some(Event::Request { request, .. }) = server.poll_event() else { panic!() };
    assert_eq!(request.fields.get(b"x-large"), Some(&value[..]));
}

#[test]
fn repeated_requests_are_the_same_requests() {
    let (mut client, mut server) = (client(), server());
    let mut random = 5u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 12) % below
    };
    let mut post = request("/1");
    for round in 0..3000 {
        match next(8) {
            0 => {
                post = request(&format!("/{}", next(3)));
                for name in ["user-agent", "x-a", "x-b"] {
                    let value = if next(4) == 0 { next(1 << 20) } else { next(2) };
                    post.fields.push(name.as_bytes(), value.to_string().as_bytes());
                }
            }
            1 if next(10) == 0 => client.release_buffers(),
            2 if next(10) == 0 => server.release_buffers(),
            _ => {}
        }
        let number = client.send_request(&post, true).unwrap().number();
        let sent = client.output().to_vec();
        client.advance_output(sent.len());
        give(&mut server, &sent);
        let Some(Event::Request { stream, request, .. }) = server.poll_event() else { panic!() };
        assert_eq!(stream.number(), number);
        assert_eq!(request.path(), post.path(), "round {round}");
        assert_eq!(describe_fields(&request.fields), describe_fields(&post.fields).replace("Host", "host"));
        server.recycle_request(request);
        server.send_response(stream, &Response::new(204, ""), true).unwrap();
        let answer = server.output().to_vec();
        server.advance_output(answer.len());
        give(&mut client, &answer);
        while client.poll_event().is_some() {}
    }
}

#[test]
fn head_requests_have_no_body() {
    let mut client = client();
    let mut head = request("/");
    head.set_method(b"HEAD");
    client.send_request(&head, true).unwrap();
    give(&mut client, &headers(1, &[(":status", "200"), ("content-length", "5")], false));
    give(&mut client, &data(1, b"", true));
    assert_eq!(events(&mut client), "1 response 200 [content-length: 5]\n1 end\n");
}

#[test]
fn never_indexed_fields_stay_so() {
    let mut server = server();
    let mut literal = block(GET);
    literal.extend_from_slice(b"\x10\x03key\x01k");
    give(&mut server, &frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &literal));
    let Some(Event::Request { request, .. }) = server.poll_event() else { panic!() };
    assert!(request.fields.list().last().is_some_and(|f| f.sensitive && f.id == FieldName::Other));
    let mut client = client();
    for _ in 0..3 {
        output(&mut client);
        client.send_request(&request, true).unwrap();
    }
    assert!(client.output().ends_with(b"\x10\x03key\x01k"));
}

#[test]
fn idle_connections_are_small() {
    let mut server = server();
    for n in 0..50 {
        give(&mut server, &headers(2 * n + 1, GET, true));
        let Some(Event::Request { stream, request, .. }) = server.poll_event() else { panic!() };
        server.recycle_request(request);
        server.send_response(stream, &Response::new(204, ""), true).unwrap();
        output(&mut server);
    }
    server.release_buffers();
    assert_eq!(server.output.capacity() + server.pool.capacity() + server.events.capacity(), 0);
    assert!(size_of::<Connection>() <= 800, "{}", size_of::<Connection>());
    // And goes on where it was.
    give(&mut server, &headers(101, GET, true));
    assert!(events(&mut server).starts_with("101 request"));
}

#[test]
fn ends_change_roles() {
    let pass = |from: &mut Connection, to: &mut Connection| {
        let bytes = from.output().to_vec();
        from.advance_output(bytes.len());
        give(to, &bytes);
    };
    let (mut dialler, mut reached) =
        (Connection::client(Settings::default()), Connection::server(Settings::default()));
    assert!(!dialler.reverse() && !reached.reverse(), "SETTINGS have not come yet");
    pass(&mut dialler, &mut reached);
    pass(&mut reached, &mut dialler);
    pass(&mut dialler, &mut reached);
    assert!(dialler.reverse() && reached.reverse());
    let stream = reached.send_request(&request("/over"), true).unwrap();
    pass(&mut reached, &mut dialler);
    assert_eq!(events(&mut dialler), "1 request GET https://h/over [host: h] end\n");
    dialler.send_response(stream, &Response::new(204, ""), true).unwrap();
    pass(&mut dialler, &mut reached);
    assert_eq!(events(&mut reached), "1 response 204 end\n");
    assert!(!reached.reverse(), "a request has gone over it");
}
