//! Targets, hosts, methods and upgrades (RFC 9110 sections 7 and 9, RFC 9112 section 3).

use super::{Case, one, two};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = targets();
    cases.extend(hosts());
    cases.extend(upgrades());
    cases
}

fn target(name: &'static str, line: &str) -> Case {
    one(name, format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

fn targets() -> Vec<Case> {
    vec![
        target("an absolute target", "GET http://localhost/get"),
        target("an absolute target of another host", "GET http://other/get"),
        target("an absolute target with userinfo", "GET http://user:word@localhost/get"),
        target("an absolute target without a path", "GET http://localhost"),
        target("an absolute target with a query alone", "GET http://localhost?query"),
        target("an absolute target without a host", "GET http:///get"),
        target("an absolute target of another scheme", "GET ftp://localhost/get"),
        target("an absolute target with a bad port", "GET http://localhost:99999/get"),
        target("an absolute target with a space", "GET http://local host/get"),
        target("a star for GET", "GET *"),
        target("a star for OPTIONS", "OPTIONS *"),
        target("a path without a slash", "GET get"),
        target("a path with a fragment", "GET /get#part"),
        target("a path with NUL", "GET /g\0et"),
        target("a path with a tab", "GET /g\tet"),
        target("a path with a carriage return", "GET /g\ret"),
        target("a path with DEL", "GET /g\x7fet"),
        target("a path with a backslash", "GET \\get"),
        target("a path with letters beyond ASCII", "GET /g\u{e9}t"),
        target("a path with two slashes", "GET //localhost/get"),
        target("a path with an escaped line end", "GET /get%0d%0aX:%20y"),
        target("CONNECT to a path", "CONNECT /get"),
        target("CONNECT without a port", "CONNECT localhost"),
        target("CONNECT with userinfo", "CONNECT user@localhost:80"),
        target("TRACE", "TRACE /get"),
    ]
}

fn host(name: &'static str, lines: &str) -> Case {
    one(name, format!("GET /get HTTP/1.1\r\n{lines}\r\n"))
}

fn hosts() -> Vec<Case> {
    vec![
        host("no host", ""),
        host("a host that is empty", "Host:\r\n"),
        host("the same host twice", "Host: localhost\r\nHost: localhost\r\n"),
        host("two hosts", "Host: localhost\r\nHost: other\r\n"),
        host("two hosts in a list", "Host: localhost, other\r\n"),
        host("a host of two words", "Host: localhost other\r\n"),
        host("a host with a slash", "Host: localhost/other\r\n"),
        host("a host with userinfo", "Host: user@localhost\r\n"),
        host("a host with a fragment", "Host: localhost#other\r\n"),
        host("a host with a query", "Host: localhost?other\r\n"),
        host("a host with a backslash", "Host: localhost\\other\r\n"),
        host("a host with two ports", "Host: localhost:80:81\r\n"),
        host("a host with a port beyond all", "Host: localhost:99999\r\n"),
        host("a host with a word for a port", "Host: localhost:http\r\n"),
        host("a host with half a bracket", "Host: [::1\r\n"),
        host("a host with NUL", "Host: local\0host\r\n"),
        host("a host that is folded", "Host: localhost\r\n other\r\n"),
        host("a host with a space before its colon", "Host : localhost\r\n"),
        host("a host behind a space", " Host: localhost\r\n"),
        host("a host that Connection names", "Host: localhost\r\nConnection: Host\r\n"),
        one("HTTP/1.0 without a host", "GET /get HTTP/1.0\r\n\r\n"),
        one("HTTP/1.0 with two hosts", "GET /get HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    ]
}

fn upgrades() -> Vec<Case> {
    let next = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    vec![
        two(
            "an upgrade and a request behind it",
            format!(
                "GET /get HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n{next}"
            ),
        ),
        two(
            "an upgrade of an unknown version",
            format!(
                "GET /get HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 77\r\n\r\n{next}"
            ),
        ),
        two(
            "an upgrade to HTTP/2",
            format!(
                "GET /get HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n{next}"
            ),
        ),
        one(
            "an upgrade with a body",
            "POST /post HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello",
        ),
        one(
            "a length that Connection names",
            "POST /post HTTP/1.1\r\nHost: localhost\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        ),
        one(
            "an expectation",
            "POST /post HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        ),
        one(
            "an expectation that nobody knows",
            "POST /post HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\nContent-Length: 5\r\n\r\nhello",
        ),
        one("the preface of HTTP/2 in part", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
        one("PRI in HTTP/1.1", "PRI * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ]
}
