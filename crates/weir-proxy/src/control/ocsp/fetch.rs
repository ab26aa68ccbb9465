//! Asking a responder: one HTTP/1.1 exchange (RFC 6960 appendix A).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_http::h1::{BodyDecoder, BodyEvent, Fault, ParseOptions, parse_response};
use weir_http::{Method, Response};
use weir_net::connect::{ConnectOptions, connect};
use weir_net::tls::ocsp::MAX_RESPONSE_BYTES;
use weir_net::{Address, Stream};

use super::Outcome;

/// How long a responder may take for everything.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// RFC 6960 appendix A.1: up to this length a request may travel in the address, where caches see it.
const MAX_GET_BYTES: usize = 255;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// The longest head and the longest body with chunk sizes.
const MAX_ANSWER_BYTES: usize = 2 * MAX_RESPONSE_BYTES;

/// Where a responder is.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    /// As it goes into `Host`.
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Place<'a> {
    /// Reads an `http` address; others cannot be used (manual, `ocsp-update`).
    fn parse(uri: &'a str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        // It comes from a certificate: nothing but an address may get into the request.
        let is_plain = uri.bytes().all(|byte| byte.is_ascii_graphic());
        if !scheme.eq_ignore_ascii_case("http") || !is_plain {
            return None;
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() || authority.contains(['@', '?', '#']) {
            return None;
        }
        let port_at =
            authority.rfind(':').filter(|at| !authority.get(*at..).unwrap_or_default().contains(']'));
        let (host, port) = match port_at {
            Some(at) => (authority.get(..at)?, authority.get(at + 1..)?.parse().ok()?),
            None => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self { authority, host, port, path: if path.is_empty() { "/" } else { path } })
    }

    /// The request; through a proxy it has the whole address.
    fn request(&self, ocsp: &[u8], through_proxy: bool) -> Vec<u8> {
        let origin = if through_proxy { format!("http://{}", self.authority) } else { String::new() };
        let fields = format!("host: {}\r\nconnection: close\r\n", self.authority);
        let encoded: String = STANDARD.encode(ocsp).chars().flat_map(escaped).collect();
        if encoded.len() <= MAX_GET_BYTES {
            let folder = self.path.trim_end_matches('/');
            return format!("GET {origin}{folder}/{encoded} HTTP/1.1\r\n{fields}\r\n").into_bytes();
        }
        let length = ocsp.len();
        let head = format!(
            "POST {origin}{} HTTP/1.1\r\n{fields}content-type: application/ocsp-request\r\n\
             content-length: {length}\r\n\r\n",
            self.path
        );
        [head.as_bytes(), ocsp].concat()
    }
}

/// What base64 has and paths do not mean literally is written in hexadecimal.
fn escaped(letter: char) -> impl Iterator<Item = char> {
    let (hexadecimal, literal) = match letter {
        '+' => ("%2B", None),
        '/' => ("%2F", None),
        '=' => ("%3D", None),
        other => ("", Some(other)),
    };
    hexadecimal.chars().chain(literal)
}

/// The responder's answer to a request, not looked at yet.
pub(super) async fn fetch(
    uri: &str,
    proxy: Option<&(String, u16)>,
    request: &[u8],
) -> Result<Vec<u8>, Outcome> {
    let place = Place::parse(uri).ok_or(Outcome::HttpError)?;
    let (host, port) = proxy.map_or((place.host, place.port), |(host, port)| (host, *port));
    let exchange = async {
        let ip = match host.parse() {
            Ok(ip) => ip,
            Err(_) => {
                crate::control::resolve::in_background(host.to_owned()).await.ok_or(Outcome::HttpError)?
            }
        };
        let to = Address::Ip(SocketAddr::new(ip, port));
        let options = ConnectOptions::default();
        let mut stream = connect(&to, &options).await.map_err(|_| Outcome::HttpError)?;
        stream.write_all(&place.request(request, proxy.is_some())).await.map_err(|_| Outcome::HttpError)?;
        stream.flush().await.map_err(|_| Outcome::HttpError)?;
        receive(&mut stream).await.map_err(|_| Outcome::HttpError).and_then(Answer::response)
    };
    tokio::time::timeout(TIME_LIMIT, exchange).await.map_err(|_| Outcome::HttpError)?
}

/// What a responder sent.
struct Answer {
    head: Response,
    body: Vec<u8>,
}

impl Answer {
    fn response(self) -> Result<Vec<u8>, Outcome> {
        let of_kind = |kind: &[u8]| kind.eq_ignore_ascii_case(b"application/ocsp-response");
        match self.head.status {
            200 if self.head.fields.get(b"content-type").is_some_and(of_kind) => Ok(self.body),
            200 => Err(Outcome::MissingHeader),
            _ => Err(Outcome::HttpError),
        }
    }
}

async fn receive(stream: &mut Stream) -> io::Result<Answer> {
    let mut input = Vec::new();
    let mut closed = false;
    loop {
        match parse(&input, closed) {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) if !closed && input.len() < MAX_ANSWER_BYTES => {}
            Ok(None) | Err(()) => return Err(io::ErrorKind::InvalidData.into()),
        }
        closed = stream.read(&mut input, READ_BYTES).await? == 0;
    }
}

/// The whole answer, when it is there.
fn parse(mut input: &[u8], closed: bool) -> Result<Option<Answer>, ()> {
    let options = ParseOptions::default();
    let mut head = Response::default();
    let framing = loop {
        match parse_response(input, &mut head, Method::Get, &options) {
            Ok(Some(parsed)) => {
                input = input.get(parsed.len..).unwrap_or_default();
                // Interim responses are passed over.
                if head.status >= 200 {
                    break parsed.framing;
                }
            }
            Ok(None) => return Ok(None),
            Err(_) => return Err(()),
        }
    };
    let mut decoder = BodyDecoder::with_options(framing, Fault::Server, &options);
    let mut body = Vec::new();
    loop {
        if decoder.is_done() {
            return Ok(Some(Answer { head, body }));
        }
        let decoded = decoder.decode(input).map_err(drop)?;
        match decoded.event {
            BodyEvent::Data(range) => {
                body.extend_from_slice(input.get(range).unwrap_or_default());
                if body.len() > MAX_RESPONSE_BYTES {
                    return Err(());
                }
            }
            BodyEvent::End(_) => return Ok(Some(Answer { head, body })),
            BodyEvent::NeedMore if closed && decoder.end_of_input().is_ok() => {
                return Ok(Some(Answer { head, body }));
            }
            BodyEvent::NeedMore => return Ok(None),
        }
        input = input.get(decoded.consumed..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let check = |uri: &str, expected: Option<(&str, u16, &str)>| {
            let place = Place::parse(uri);
            assert_eq!(place.as_ref().map(|p| (p.host, p.port, p.path)), expected, "{uri}");
        };
        check("http://ocsp.example", Some(("ocsp.example", 80, "/")));
        check("HTTP://ocsp.example:8080/a/b", Some(("ocsp.example", 8080, "/a/b")));
        check("http://[::1]:81/", Some(("::1", 81, "/")));
        check("http://[::1]/x", Some(("::1", 80, "/x")));
        check("https://ocsp.example/", None);
        check("http:///x", None);
        check("http://a@b/", None);
        check("http://a:x/", None);
        check("http://a/\r\nx: y", None);
    }

    #[test]
    fn requests() {
        let place = Place::parse("http://o.example:81/base/").unwrap();
        let text = |ocsp: &[u8], proxied: bool| String::from_utf8(place.request(ocsp, proxied)).unwrap();
        let fields = "host: o.example:81\r\nconnection: close\r\n";
        assert_eq!(text(&[0xfb, 0xff], false), format!("GET /base/%2B%2F8%3D HTTP/1.1\r\n{fields}\r\n"));
        assert!(text(b"x", true).starts_with("GET http://o.example:81/base/eA%3D%3D HTTP/1.1\r\n"));
        let long = text(&[b'a'; 200], false);
        assert!(long.starts_with("POST /base/ HTTP/1.1\r\n") && long.contains("content-length: 200\r\n"));
        assert!(long.ends_with(&"a".repeat(200)));
    }

    #[test]
    fn answers() {
        let kind = "content-type: application/ocsp-response\r\n";
        let check = |answer: &str, expected: Result<&[u8], Outcome>| {
            let parsed = parse(answer.as_bytes(), true).ok().flatten().ok_or(Outcome::HttpError);
            assert_eq!(parsed.and_then(Answer::response).as_deref(), expected.as_deref(), "{answer}");
        };
        check(&format!("HTTP/1.0 200 OK\r\n{kind}\r\nabc"), Ok(b"abc"));
        check(&format!("HTTP/1.1 200 OK\r\n{kind}content-length: 2\r\n\r\nabc"), Ok(b"ab"));
        check(&format!("HTTP/1.1 200 OK\r\n{kind}content-length: 9\r\n\r\nabc"), Err(Outcome::HttpError));
        check(
            &format!("HTTP/1.1 200 OK\r\n{kind}transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
            Ok(b"a"),
        );
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", Err(Outcome::MissingHeader));
        check("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", Err(Outcome::HttpError));
        check("nonsense\r\n\r\n", Err(Outcome::HttpError));
    }
}
