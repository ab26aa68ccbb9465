//! Nothing that is used again changes an output: a message read or written after others is what it is alone.

use proptest::prelude::*;
use weir_http::h1::{
    ParseOptions, WriteOptions, parse_request, parse_response, write_request, write_response,
};
use weir_http::h2::{Connection, Event, Settings};
use weir_http::{Fields, Method, Request, Response, Version};

/// Header lines; few names and values, so that tables have them from before.
fn lines() -> impl Strategy<Value = Vec<(String, String)>> {
    let name =
        prop::sample::select(vec!["x-a", "x-b", "user-agent", "cookie", "accept", "authorization", "etag"]);
    let value = prop_oneof![
        prop::sample::select(vec!["", "1", "gzip, deflate", "secret"]).prop_map(str::to_owned),
        "[a-z0-9]{1,60}",
    ];
    prop::collection::vec((name.prop_map(str::to_owned), value), 0..6)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown_fields(fields: &Fields) -> String {
    let line = |field: &weir_http::Field| {
        let (name, value) = (text(fields.bytes(field.name)), text(fields.bytes(field.value)));
        format!("{name}: {value} {:?} {}\n", field.id, field.sensitive)
    };
    fields.list().iter().map(line).collect()
}

fn shown_request(request: &Request) -> String {
    let Request { method, normalized_uri, version, proxied, .. } = request;
    let [name, uri] = [request.method_bytes(), request.uri_bytes()].map(text);
    let protocol = text(request.fields.bytes(request.protocol));
    let fields = shown_fields(&request.fields);
    format!("{name} {method:?} {uri} {normalized_uri} {protocol} {version:?} {proxied}\n{fields}")
}

fn shown_response(response: &Response) -> String {
    let reason = text(response.reason_bytes());
    format!("{} {reason} {:?}\n{}", response.status, response.version, shown_fields(&response.fields))
}

/// A head of HTTP/1, whole or not.
fn h1_head(start: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let end = prop::sample::select(vec![
        "\r\n",
        "",
        "Content-Length: 5\r\n\r\n",
        "Upgrade: x\r\nConnection: upgrade\r\n\r\n",
    ]);
    (prop::sample::select(start), lines(), end).prop_map(|(start, lines, end)| {
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{start}\r\n{lines}{end}").into_bytes()
    })
}

const REQUEST_LINES: &[&str] =
    &["GET / HTTP/1.1", "POST /a?b HTTP/1.0", "OPTIONS * HTTP/1.1", "CONNECT a:1 HTTP/1.1", "G@T / HTTP/1.1"];
const STATUS_LINES: &[&str] = &["HTTP/1.1 200 OK", "HTTP/1.0 404 ", "HTTP/1.1 101 Switching", "HTTP/1.1 x"];

/// What reading a request into `request` gives, and what is written of it.
fn read_request(input: &[u8], request: &mut Request) -> String {
    let found = parse_request(input, request, &ParseOptions::default());
    // What is left of one that cannot be read is nobody's.
    let Ok(Some(head)) = found else { return format!("{found:?}") };
    let mut out = Vec::new();
    write_request(request, &mut out, WriteOptions { framing: head.framing, ..WriteOptions::default() });
    format!("{found:?} {} {}", shown_request(request), text(&out))
}

fn read_response(input: &[u8], response: &mut Response) -> String {
    let found = parse_response(input, response, Method::Get, &ParseOptions::default());
    // What is left of one that cannot be read is nobody's.
    let Ok(Some(head)) = found else { return format!("{found:?}") };
    let mut out = Vec::new();
    write_response(response, &mut out, WriteOptions { framing: head.framing, ..WriteOptions::default() });
    format!("{found:?} {} {}", shown_response(response), text(&out))
}

/// The two ends of an HTTP/2 connection.
struct Ends {
    client: Connection,
    server: Connection,
}

/// What is sent over it: a request's path and lines, and an answer's lines.
type Asked = (&'static str, Vec<(String, String)>, Vec<(String, String)>);

fn asked() -> impl Strategy<Value = Asked> {
    (prop::sample::select(vec!["/", "/a", "/secret?1"]), lines(), lines())
}

impl Ends {
    fn new() -> Self {
        let settings = Settings { header_table_size: 300, ..Settings::default() };
        let (client, server) = (Connection::client(settings), Connection::server(settings));
        Self { client, server }
    }

    /// Asks and answers; returns both as they arrived. What held them is used again.
    fn ask(&mut self, (path, request_lines, response_lines): &Asked) -> String {
        let Self { client, server } = self;
        let mut request = Request::default();
        request.set_method(b"GET");
        request.set_uri(format!("http://host{path}").as_bytes());
        request.version = Version::Http2;
        request_lines.iter().for_each(|(name, value)| request.fields.push(name.as_bytes(), value.as_bytes()));
        client.send_request(&request, true).expect("a request");
        give(client, server);
        let mut shown = String::new();
        while let Some(event) = server.poll_event() {
            let Event::Request { stream, request, .. } = event else { continue };
            shown += &shown_request(&request);
            server.recycle_request(request);
            let mut response = Response::new(200, "");
            response_lines
                .iter()
                .for_each(|(name, value)| response.fields.push(name.as_bytes(), value.as_bytes()));
            server.send_response(stream, &response, true).expect("a stream");
        }
        give(server, client);
        while let Some(event) = client.poll_event() {
            let Event::Response { response, .. } = event else { continue };
            shown += &shown_response(&response);
            client.recycle_response(response);
        }
        shown
    }
}

/// Hands what one end has to send to the other.
fn give(from: &mut Connection, to: &mut Connection) {
    let bytes = from.output().to_vec();
    from.advance_output(bytes.len());
    let mut left = &bytes[..];
    while !left.is_empty() {
        let taken = to.receive(left).expect("frames");
        left = &left[taken..];
    }
}

proptest! {
    #[test]
    fn a_request_read_where_another_was_is_the_same(before in h1_head(REQUEST_LINES), input in h1_head(REQUEST_LINES)) {
        let mut used = Request::default();
        read_request(&before, &mut used);
        prop_assert_eq!(read_request(&input, &mut used), read_request(&input, &mut Request::default()));
    }

    #[test]
    fn a_response_read_where_another_was_is_the_same(before in h1_head(STATUS_LINES), input in h1_head(STATUS_LINES)) {
        let mut used = Response::default();
        read_response(&before, &mut used);
        prop_assert_eq!(read_response(&input, &mut used), read_response(&input, &mut Response::default()));
    }

    /// Tables and scratch of HPACK, requests that repeat, and the memory of heads.
    #[test]
    fn a_stream_after_others_is_the_same(
        before in prop::collection::vec((asked(), 1..4_usize, any::<bool>()), 0..8),
        last in asked(),
    ) {
        let mut used = Ends::new();
        for (asked, times, released) in &before {
            (0..*times).for_each(|_| drop(used.ask(asked)));
            if *released {
                used.client.release_buffers();
                used.server.release_buffers();
            }
        }
        let alone = Ends::new().ask(&last);
        prop_assert!(alone.contains(last.0) && alone.contains("200"));
        for _ in 0..3 {
            prop_assert_eq!(used.ask(&last), alone.clone());
        }
    }
}
