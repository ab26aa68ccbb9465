//! Where a body ends: lengths, codings and chunks (RFC 9112 sections 6 and 7).

use super::{Case, one, two};

/// A POST with these lines and this body.
fn post(name: &'static str, lines: &str, body: &str) -> Case {
    one(name, format!("POST /post HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}"))
}

/// A POST in chunks.
fn chunks(name: &'static str, body: &str) -> Case {
    post(name, "Transfer-Encoding: chunked\r\n", body)
}

/// What is behind a body that ends too early for somebody.
const NEXT: &str = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = lengths();
    cases.extend(codings());
    cases.extend(chunked());
    cases
}

fn lengths() -> Vec<Case> {
    let chunked_then = format!("0\r\n\r\n{NEXT}");
    vec![
        post("length and chunks", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", &chunked_then),
        post(
            "chunks and length",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "1\r\nZ\r\nQ\r\n\r\n",
        ),
        post("the same length twice", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
        post("two lengths", "Content-Length: 5\r\nContent-Length: 0\r\n", NEXT),
        post("a list of the same length", "Content-Length: 5, 5\r\n", "hello"),
        post("a list of two lengths", "Content-Length: 0, 43\r\n", NEXT),
        post("a length with a sign", "Content-Length: +5\r\n", "hello"),
        post("a length below zero", "Content-Length: -5\r\n", "hello"),
        post("a length in hexadecimal", "Content-Length: 0x5\r\n", "hello"),
        post("a length of two words", "Content-Length: 5 0\r\n", "hello"),
        post("a length with a parameter", "Content-Length: 5;a\r\n", "hello"),
        post("a length that is empty", "Content-Length: \r\n", NEXT),
        post("a length that is a word", "Content-Length: five\r\n", NEXT),
        post("a length with a fraction", "Content-Length: 5.0\r\n", "hello"),
        post("a length beyond all numbers", "Content-Length: 99999999999999999999\r\n", "hello"),
        post("a length beyond 64 bits", "Content-Length: 18446744073709551621\r\n", "hello"),
        post("a length with zeroes", "Content-Length: 0005\r\n", "hello"),
        post("a length with a vertical tab", "Content-Length: \x0b5\r\n", "hello"),
        post("a length with NUL", "Content-Length: 5\0\r\n", "hello"),
        post("a length with underscore", "Content_Length: 5\r\n", ""),
        post("a length in quotes", "Content-Length: \"5\"\r\n", "hello"),
        post("a space before a length's colon", "Content-Length : 5\r\n", "hello"),
        post("a length behind a bare line feed", "X: y\nContent-Length: 5\r\n", "hello"),
        post("a length behind a bare carriage return", "X: y\rContent-Length: 43\r\n", NEXT),
        one("GET with a body", "GET /get HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"),
        two("two requests", NEXT.repeat(2)),
    ]
}

fn codings() -> Vec<Case> {
    let coded = |name, coding: &str| {
        let lines = format!("Content-Length: 5\r\n{coding}\r\n");
        post(name, &lines, "0\r\n\r\n")
    };
    let alone = |name, coding: &str| post(name, &format!("{coding}\r\n"), "0\r\n\r\n");
    vec![
        alone("chunked in capitals", "Transfer-Encoding: CHUNKED"),
        alone("chunked twice in a list", "Transfer-Encoding: chunked, chunked"),
        alone("chunked in two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        alone("chunked before identity", "Transfer-Encoding: chunked, identity"),
        alone("chunked behind identity", "Transfer-Encoding: identity, chunked"),
        alone("chunked behind gzip", "Transfer-Encoding: gzip, chunked"),
        alone("gzip alone", "Transfer-Encoding: gzip"),
        alone("a coding that is none", "Transfer-Encoding: xchunked"),
        alone("chunked in quotes", "Transfer-Encoding: \"chunked\""),
        alone("chunked with a parameter", "Transfer-Encoding: chunked;q=1"),
        alone("chunked with a comma behind", "Transfer-Encoding: chunked,"),
        alone("chunked with a comma before", "Transfer-Encoding: ,chunked"),
        alone("chunked with a vertical tab", "Transfer-Encoding: \x0bchunked"),
        alone("chunked with a tab", "Transfer-Encoding:\tchunked"),
        alone("chunked with NUL", "Transfer-Encoding: chunked\0"),
        alone("a coding that is empty", "Transfer-Encoding:"),
        coded("a coding with a space before its colon", "Transfer-Encoding : chunked"),
        coded("a coding with a tab before its colon", "Transfer-Encoding\t: chunked"),
        coded("a coding behind a space", " Transfer-Encoding: chunked"),
        coded("a coding that is folded", "Transfer-Encoding:\r\n chunked"),
        coded("a coding with underscore", "Transfer_Encoding: chunked"),
        coded("a coding behind a bare line feed", "X: y\nTransfer-Encoding: chunked"),
        coded("a coding behind a bare carriage return", "X: y\rTransfer-Encoding: chunked"),
        coded(
            "a coding that Connection names",
            "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
        ),
        coded("a coding in a value", "X: Transfer-Encoding: chunked"),
        one(
            "HTTP/1.0 with a coding",
            "POST /post HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        one(
            "HTTP/1.0 with a coding and a length",
            format!(
                "POST /post HTTP/1.0\r\nHost: localhost\r\nContent-Length: 48\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n{NEXT}"
            ),
        ),
    ]
}

fn chunked() -> Vec<Case> {
    vec![
        chunks("a good chunk", "5\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk with an extension", "5;a=b\r\nhello\r\n0\r\n\r\n"),
        chunks("a line feed in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        chunks("a carriage return in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        chunks("NUL in an extension", "5;a\0b\r\nhello\r\n0\r\n\r\n"),
        chunks("a quoted line end in an extension", "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk's size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk's size with a sign", "+5\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk's size below zero", "-5\r\nhello\r\n0\r\n\r\n"),
        chunks("a space before a chunk's size", " 5\r\nhello\r\n0\r\n\r\n"),
        chunks("a space behind a chunk's size", "5 \r\nhello\r\n0\r\n\r\n"),
        chunks("a tab behind a chunk's size", "5\t\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk's line with a bare line feed", "5\nhello\r\n0\r\n\r\n"),
        chunks("a chunk's line with a bare carriage return", "5\rhello\r\n0\r\n\r\n"),
        chunks("a chunk's size with zeroes", "00000000000000000005\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk beyond 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk of nearly 64 bits", "FFFFFFFFFFFFFFFE\r\nhello\r\n0\r\n\r\n"),
        chunks("a chunk without its line end", "5\r\nhello0\r\n\r\n"),
        chunks("a chunk with a bare line feed behind", "5\r\nhello\n0\r\n\r\n"),
        chunks("a chunk with other octets behind", "5\r\nhelloXX0\r\n\r\n"),
        chunks("a chunk without a size", ";a\r\nhello\r\n0\r\n\r\n"),
        chunks("an empty line for a chunk", "\r\n5\r\nhello\r\n0\r\n\r\n"),
        chunks("two zeroes for the end", "5\r\nhello\r\n00\r\n\r\n"),
        chunks("bare line feeds at the end", &format!("0\n\n{NEXT}")),
        chunks("garbage for the end", "5\r\nhello\r\n0\r\nX\r\n\r\n"),
        chunks("a trailer Host", "0\r\nHost: other\r\n\r\n"),
        chunks("a trailer Content-Length", "0\r\nContent-Length: 5\r\n\r\n"),
        chunks("a trailer Transfer-Encoding", "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        chunks("a trailer Authorization", "0\r\nAuthorization: Basic eDp5\r\n\r\n"),
        chunks("a trailer with a space before its colon", "0\r\nX : y\r\n\r\n"),
        chunks("a folded trailer", "0\r\nX: y\r\n z\r\n\r\n"),
        two(
            "a chunked request and another",
            format!(
                "POST /post HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{NEXT}"
            ),
        ),
    ]
}
