//! CPU time of the HTTP/2 core alone, per request: what h2load sends, in memory.
//!
//! `cargo run --release -p weir-http --example h2_bench`

use std::hint::black_box;
use std::time::Instant;

use weir_http::h2::{Connection, Event, Settings, StreamId};
use weir_http::{Request, Response};

/// Requests that are under way at once, and arrive with one read.
const STREAMS: u32 = 100;

/// Reads per connection.
const BATCHES: u32 = 1000;

const ROUNDS: u32 = 20;

const BODY: &[u8] = b"Twenty-two octets, OK\n";

#[allow(clippy::print_stdout, reason = "its result is what it prints")]
fn main() {
    let plain = [("user-agent", "h2load nghttp2/1.52.0")];
    let browser = [
        ("sec-ch-ua", "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\""),
        ("upgrade-insecure-requests", "1"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en-US,en;q=0.9,de;q=0.8"),
        ("cache-control", "max-age=0"),
        ("sec-fetch-dest", "document"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-site", "none"),
    ];
    // With the name of one of them, only that is run.
    let wanted = std::env::args().nth(1);
    let wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    for (name, fields) in [("h2load", &plain[..]), ("browser", &browser[..])] {
        if !wanted(name) {
            continue;
        }
        let batches = recorded(fields);
        let times: Vec<f64> = (0..ROUNDS).map(|_| server(&batches)).collect();
        println!("server, {name}: {:.0} ns per request", times.iter().copied().fold(f64::MAX, f64::min));
    }
    if !wanted("pair") {
        return;
    }
    let times: Vec<f64> = (0..ROUNDS).map(|_| pair(&plain)).collect();
    println!("client and server: {:.0} ns per request", times.iter().copied().fold(f64::MAX, f64::min));
}

fn request(fields: &[(&str, &str)]) -> Request {
    let mut request = Request::default();
    request.set_method(b"GET");
    request.set_uri(b"http://127.0.0.1:8080/");
    request.fields.push(b"host", b"127.0.0.1:8080");
    for (name, value) in fields {
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    request
}

fn response() -> Response {
    let mut response = Response::new(200, "OK");
    response.fields.push(b"Server", b"weir");
    response.fields.push(b"Date", b"Thu, 01 Jan 1970 00:00:00 GMT");
    response.fields.push(b"Content-Type", b"text/plain");
    response.fields.push(b"Content-Length", b"22");
    response.fields.push(b"Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT");
    response.fields.push(b"Accept-Ranges", b"bytes");
    response
}

fn all_output(connection: &mut Connection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.advance_output(output.len());
    output
}

/// What a client sends: a batch of requests in each read.
fn recorded(fields: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let request = request(fields);
    let mut client = Connection::client(Settings::default());
    let mut server = Connection::server(Settings::default());
    let response = response();
    let mut batches = Vec::new();
    for batch in 0..BATCHES {
        for _ in 0..STREAMS {
            client.send_request(&request, true).expect("as many as are allowed");
        }
        let sent = all_output(&mut client);
        answer(&mut server, &sent, &response, batch == 0);
        let answers = all_output(&mut server);
        assert_eq!(client.receive(&answers), Ok(answers.len()));
        while let Some(event) = client.poll_event() {
            if let Event::Data { stream } = event {
                client.consume(stream, BODY.len());
            }
        }
        batches.push(sent);
    }
    batches
}

fn answer(server: &mut Connection, input: &[u8], response: &Response, open: bool) {
    assert_eq!(server.receive(input), Ok(input.len()));
    if open {
        // A window for all of the answers.
        let update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0];
        assert_eq!(server.receive(&update), Ok(update.len()));
    }
    let mut requests: Vec<StreamId> = Vec::new();
    while let Some(event) = server.poll_event() {
        if let Event::Request { stream, request, .. } = event {
            black_box(request.uri_bytes());
            server.recycle_request(request);
            requests.push(stream);
        }
    }
    for stream in requests {
        server.send_response(stream, response, false).expect("the stream is there");
        assert_eq!(server.send_data(stream, BODY, true), Ok(BODY.len()));
    }
}

fn server(batches: &[Vec<u8>]) -> f64 {
    let response = response();
    let mut server = Connection::server(Settings::default());
    let start = Instant::now();
    for (at, batch) in batches.iter().enumerate() {
        answer(&mut server, batch, &response, at == 0);
        let written = black_box(server.output()).len();
        server.advance_output(written);
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCHES * STREAMS)
}

fn pair(fields: &[(&str, &str)]) -> f64 {
    let (request, response) = (request(fields), response());
    let mut client = Connection::client(Settings::default());
    let mut server = Connection::server(Settings::default());
    let start = Instant::now();
    for batch in 0..BATCHES {
        for _ in 0..STREAMS {
            client.send_request(&request, true).expect("as many as are allowed");
        }
        answer(&mut server, client.output(), &response, batch == 0);
        client.advance_output(client.output().len());
        assert_eq!(client.receive(server.output()), Ok(server.output().len()));
        server.advance_output(server.output().len());
        while let Some(event) = client.poll_event() {
            match event {
                Event::Data { stream } => client.consume(stream, BODY.len()),
                Event::Response { response, .. } => client.recycle_response(response),
                _ => {}
            }
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCHES * STREAMS)
}
