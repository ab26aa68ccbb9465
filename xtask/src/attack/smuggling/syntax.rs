//! Lines, names, values and versions (RFC 9112 sections 2 to 5).

use super::{Case, one};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = fields();
    cases.extend(lines());
    cases.extend(versions());
    cases
}

/// A GET with one more line.
fn field(name: &'static str, line: &str) -> Case {
    one(name, format!("GET /get HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n"))
}

fn fields() -> Vec<Case> {
    let mut cases = vec![
        field("a name with a space", "X Y: z"),
        field("a name with a space behind", "X : z"),
        field("a name with a tab behind", "X\t: z"),
        field("a line without a colon", "X"),
        field("a name that is empty", ": z"),
        field("a name with NUL", "X\0Y: z"),
        field("a name with a line feed", "X\nY: z"),
        field("a name with a carriage return", "X\rY: z"),
        field("a name with a slash", "X/Y: z"),
        field("a name with parentheses", "X(Y): z"),
        field("a name with letters beyond ASCII", "X\u{e9}: z"),
        field("a value with NUL", "X: y\0z"),
        field("a value with a carriage return", "X: y\rz"),
        field("a value with a bare line feed", "X: y\nY: z"),
        field("a value with a control character", "X: y\x01z"),
        field("a value with DEL", "X: y\x7fz"),
        field("a value with a vertical tab", "X: y\x0bz"),
        field("a value with letters beyond ASCII", "X: \u{e9}"),
        field("a value that is empty", "X:"),
        field("a value with two lines", "X: y\r\n z"),
        field("a value with an empty folded line", "X: y\r\n \r\n z"),
        field("a first line that is folded", " X: y"),
        field("a line that ends with two carriage returns", "X: y\r"),
    ];
    cases.push(one(
        "a name of 300 octets",
        format!("GET /get HTTP/1.1\r\nHost: localhost\r\n{}: z\r\n\r\n", "n".repeat(300)),
    ));
    cases.push(one(
        "500 lines",
        format!("GET /get HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(500)),
    ));
    cases.push(one(
        "a head of 40 kB",
        format!("GET /get HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "v".repeat(40_000)),
    ));
    cases
}

fn lines() -> Vec<Case> {
    vec![
        one("a head with bare line feeds", "GET /get HTTP/1.1\nHost: localhost\n\n"),
        one("a head whose last line end is bare", "GET /get HTTP/1.1\r\nHost: localhost\r\n\n"),
        one("an empty line before", "\r\nGET /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("an empty bare line before", "\nGET /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a space before", " GET /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("two spaces before the target", "GET  /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("two spaces before the version", "GET /get  HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a tab before the target", "GET\t/get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a space behind the version", "GET /get HTTP/1.1 \r\nHost: localhost\r\n\r\n"),
        one("four words", "GET /get more HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a request line alone", "GET /get\r\n\r\n"),
        one("a method with NUL", "GE\0T /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a method with a colon", "GET: /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a method in small letters", "get /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a method that nobody knows", "BREW /get HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        one("a response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        one("TLS in clear", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
    ]
}

fn versions() -> Vec<Case> {
    let version = |name, version: &str| one(name, format!("GET /get {version}\r\nHost: localhost\r\n\r\n"));
    vec![
        version("HTTP/0.9 by name", "HTTP/0.9"),
        version("HTTP/1.0", "HTTP/1.0"),
        version("HTTP/1.2", "HTTP/1.2"),
        version("HTTP/1.10", "HTTP/1.10"),
        version("HTTP/01.1", "HTTP/01.1"),
        version("HTTP/2.0", "HTTP/2.0"),
        version("HTTP/3.0", "HTTP/3.0"),
        version("HTTP/9.9", "HTTP/9.9"),
        version("http/1.1 in small letters", "http/1.1"),
        version("HTTP /1.1", "HTTP /1.1"),
        version("HTTP/1,1", "HTTP/1,1"),
        version("ICY/1.1", "ICY/1.1"),
    ]
}
