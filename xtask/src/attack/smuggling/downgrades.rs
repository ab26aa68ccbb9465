//! HTTP/2 requests with what HTTP/1 cannot say, or says differently (RFC 9113 sections 8.2 and 8.3).

use crate::attack::frames::{Block, END_STREAM, frame, kind};

/// Writes the frames of a request on stream 1.
pub(super) type Frames = Box<dyn Fn(&mut Vec<u8>)>;

type Case = (&'static str, Frames);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = fields();
    cases.extend(pseudo());
    cases.extend(bodies());
    cases
}

/// A request of a head alone.
fn head(name: &'static str, block: Block) -> Case {
    (name, Box::new(move |out| block.headers(out, 1, END_STREAM)))
}

/// A request with these for its four pseudo-header fields.
fn asked(method: &str, scheme: &str, authority: &str, path: &str) -> Block {
    Block::default()
        .literal(":method", method)
        .literal(":scheme", scheme)
        .literal(":authority", authority)
        .literal(":path", path)
}

fn fields() -> Vec<Case> {
    let with =
        |case: &'static str, name: &str, value: &str| head(case, Block::get("/get").literal(name, value));
    let mut cases = vec![
        with("h2: a value with a line end", "x", "y\r\nz: 1"),
        with("h2: a value with a line feed", "x", "y\nz: 1"),
        with("h2: a value with a carriage return", "x", "y\rz"),
        with("h2: a value with NUL", "x", "y\0z"),
        with("h2: a value with a control character", "x", "y\x01z"),
        with("h2: a value with a space before", "x", " y"),
        with("h2: a value with a space behind", "x", "y "),
        with("h2: a name with a line end", "x\r\ny", "z"),
        with("h2: a name with a colon", "x:y", "z"),
        with("h2: a name with a colon behind", "x:", "z"),
        with("h2: a name with a space", "x y", "z"),
        with("h2: a name with a space behind", "transfer-encoding ", "chunked"),
        with("h2: a name with NUL", "x\0y", "z"),
        with("h2: a name in capitals", "X-Y", "z"),
        with("h2: a name that is empty", "", "z"),
        with("h2: a name of 300 octets", &"n".repeat(300), "z"),
        with("h2: a name beyond ASCII", "x\u{e9}", "z"),
        with("h2: connection", "connection", "close"),
        with("h2: connection that names a line", "connection", "x"),
        with("h2: keep-alive", "keep-alive", "timeout=5"),
        with("h2: proxy-connection", "proxy-connection", "close"),
        with("h2: upgrade", "upgrade", "websocket"),
        with("h2: te with gzip", "te", "gzip"),
        with("h2: te with trailers", "te", "trailers"),
        with("h2: transfer-encoding", "transfer-encoding", "chunked"),
        with("h2: another host", "host", "other"),
        with("h2: the same host", "host", "localhost"),
        with("h2: http2-settings", "http2-settings", "AAMAAABk"),
        with("h2: a name with underscore", "transfer_encoding", "chunked"),
    ];
    cases.push(head(
        "h2: two hosts",
        Block::get("/get").literal("host", "localhost").literal("host", "other"),
    ));
    cases.push(head("h2: two cookies", Block::get("/get").literal("cookie", "a=b").literal("cookie", "c=d")));
    cases
}

fn pseudo() -> Vec<Case> {
    let asks = |case, method: &str, scheme: &str, authority: &str, path: &str| {
        head(case, asked(method, scheme, authority, path))
    };
    let path = |case, path: &str| head(case, asked("GET", "http", "localhost", path));
    let authority = |case, authority: &str| head(case, asked("GET", "http", authority, "/get"));
    let method = |case, method: &str| head(case, asked(method, "http", "localhost", "/get"));
    let scheme = |case, scheme: &str| head(case, asked("GET", scheme, "localhost", "/get"));
    vec![
        path("h2: a path with a space", "/get HTTP/1.1"),
        path("h2: a path with a line end", "/get HTTP/1.1\r\nX: y\r\n\r\nGET /"),
        path("h2: a path with a tab", "/g\tet"),
        path("h2: a path with NUL", "/g\0et"),
        path("h2: a path without a slash", "get"),
        path("h2: a path that is absolute", "http://other/get"),
        path("h2: a path that is empty", ""),
        path("h2: a path with a fragment", "/get#part"),
        path("h2: a star for GET", "*"),
        asks("h2: a star for OPTIONS", "OPTIONS", "http", "localhost", "*"),
        authority("h2: an authority with a space", "local host"),
        authority("h2: an authority with a line end", "localhost\r\nX: y"),
        authority("h2: an authority with userinfo", "user@localhost"),
        authority("h2: an authority with a slash", "localhost/other"),
        authority("h2: an authority with a comma", "localhost,other"),
        authority("h2: an authority with NUL", "local\0host"),
        authority("h2: an authority that is empty", ""),
        authority("h2: an authority with a bad port", "localhost:99999"),
        method("h2: a method with a space", "GET /x"),
        method("h2: a method with a line end", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"),
        method("h2: a method that is empty", ""),
        method("h2: a method in small letters", "get"),
        method("h2: CONNECT with a path", "CONNECT"),
        scheme("h2: a scheme with a line end", "http://x\r\nY: z"),
        scheme("h2: a scheme with a path", "http://other/get?"),
        scheme("h2: a scheme of another kind", "ftp"),
        scheme("h2: a scheme that is empty", ""),
        head(
            "h2: no path",
            Block::default().literal(":method", "GET").indexed(6).literal(":authority", "localhost"),
        ),
        head(
            "h2: no method",
            Block::default().indexed(6).literal(":authority", "localhost").literal(":path", "/get"),
        ),
        head(
            "h2: no scheme",
            Block::default()
                .literal(":method", "GET")
                .literal(":authority", "localhost")
                .literal(":path", "/get"),
        ),
        head(
            "h2: no authority",
            Block::default().literal(":method", "GET").indexed(6).literal(":path", "/get"),
        ),
        head("h2: two paths", Block::get("/get").literal(":path", "/other")),
        head("h2: two methods", Block::get("/get").literal(":method", "POST")),
        head("h2: two authorities", Block::get("/get").literal(":authority", "other")),
        head(
            "h2: a pseudo-header field behind a line",
            Block::default().literal(":method", "GET").indexed(6).literal("x", "y").literal(":path", "/get"),
        ),
        head("h2: an unknown pseudo-header field", Block::get("/get").literal(":unknown", "x")),
        head("h2: a status in a request", Block::get("/get").literal(":status", "200")),
        head("h2: a protocol for GET", Block::get("/get").literal(":protocol", "websocket")),
        head("h2: no line at all", Block::default()),
    ]
}

/// A request with a body and perhaps trailers.
fn body(name: &'static str, lines: &[(&str, &str)], data: &'static [u8], trailers: Option<Block>) -> Case {
    let mut block = Block::request("POST", "/post");
    for (name, value) in lines {
        block = block.literal(name, value);
    }
    let send = move |out: &mut Vec<u8>| {
        block.headers(out, 1, 0);
        frame(out, kind::DATA, if trailers.is_none() { END_STREAM } else { 0 }, 1, data);
        if let Some(trailers) = &trailers {
            trailers.headers(out, 1, END_STREAM);
        }
    };
    (name, Box::new(send))
}

fn bodies() -> Vec<Case> {
    let trailer = |name: &str, value: &str| Some(Block::default().literal(name, value));
    const NEXT: &[u8] = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    vec![
        body("h2: a body that looks like a request", &[], NEXT, None),
        body("h2: a body beyond its length", &[("content-length", "1")], b"hello", None),
        body("h2: a body below its length", &[("content-length", "10")], b"hello", None),
        body("h2: two lengths", &[("content-length", "5"), ("content-length", "6")], b"hello", None),
        body(
            "h2: the same length twice",
            &[("content-length", "5"), ("content-length", "5")],
            b"hello",
            None,
        ),
        body("h2: a length with a sign", &[("content-length", "+5")], b"hello", None),
        body("h2: a length that is a list", &[("content-length", "5, 5")], b"hello", None),
        body("h2: a body with a coding", &[("transfer-encoding", "chunked")], NEXT, None),
        body(
            "h2: a body with a coding and a length",
            &[("transfer-encoding", "chunked"), ("content-length", "5")],
            b"hello",
            None,
        ),
        body("h2: an expectation", &[("expect", "100-continue")], b"hello", None),
        body("h2: a trailer host", &[], b"hello", trailer("host", "other")),
        body("h2: a trailer content-length", &[], b"hello", trailer("content-length", "5")),
        body("h2: a trailer transfer-encoding", &[], b"hello", trailer("transfer-encoding", "chunked")),
        body("h2: a trailer with a line end", &[], b"hello", trailer("x", "y\r\nz: 1")),
        body("h2: a trailer with a pseudo-header field", &[], b"hello", trailer(":path", "/other")),
        body("h2: a trailer in capitals", &[], b"hello", trailer("X-Y", "z")),
        body("h2: a good trailer", &[], b"hello", trailer("x-checksum", "z")),
    ]
}
