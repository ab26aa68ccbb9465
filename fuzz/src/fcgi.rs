//! FastCGI: what an application sends is the same however it is cut, and what is sent to it can be read.

use weir_http::fcgi::{Decoded, Event, MAX_CONTENT, Params, Receiver, Refusal, write_stdin};
use weir_http::h1::{ParseOptions, parse_cgi_response};
use weir_http::{Method, Response};

/// What an application sent for a request.
#[derive(Default, PartialEq, Debug)]
struct Received {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<Result<(), Refusal>>,
    refused: bool,
}

/// The first byte chooses how the rest is cut, which is what an application sends, and what it is sent.
pub fn fcgi(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else { return };
    let received = receive(data, usize::from(*cut).max(1));
    assert_eq!(received, receive(data, data.len().max(1)), "what is received depends on how it is cut");
    head(&received.stdout, if cut & 1 == 0 { Method::Get } else { Method::Head });
    params(data);
    body(&data.repeat(1 + usize::from(*cut) * 4));
}

fn receive(sent: &[u8], piece: usize) -> Received {
    let mut receiver = Receiver::default();
    let mut received = Received::default();
    let (mut start, mut end) = (0, 0);
    loop {
        let Ok(Decoded { consumed, event }) = receiver.decode(&sent[start..end]) else {
            received.refused = true;
            return received;
        };
        assert!(consumed <= end - start);
        let input = &sent[start..start + consumed];
        start += consumed;
        match event {
            Event::Stdout(range) => received.stdout.extend_from_slice(&input[range]),
            Event::Stderr(range) => received.stderr.extend_from_slice(&input[range]),
            Event::End(how) => {
                assert!(receiver.is_done());
                received.end = Some(how);
                return received;
            }
            Event::NeedMore if end == sent.len() => return received,
            Event::NeedMore => end = (end + piece).min(sent.len()),
        }
    }
}

/// A head ends in one place, and is a final response's.
fn head(bytes: &[u8], method: Method) {
    let options = ParseOptions::default();
    let mut response = Response::default();
    let Ok(Some(head)) = parse_cgi_response(bytes, &mut response, method, &options) else { return };
    assert!(head.len <= bytes.len() && response.status >= 200);
    let mut part = Response::default();
    let shorter = parse_cgi_response(&bytes[..head.len - 1], &mut part, method, &options);
    assert!(!matches!(shorter, Ok(Some(_))), "a head is read before its end");
    let whole = parse_cgi_response(&bytes[..head.len], &mut part, method, &options);
    assert_eq!(whole, Ok(Some(head)), "a head needs what follows it");
}

/// Names and values between zero bytes are read as they were written, the first value of each name.
fn params(data: &[u8]) {
    let mut params = Params::default();
    let mut expected: Vec<(&[u8], &[u8])> = Vec::new();
    let mut words = data.split(|byte| *byte == 0);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        params.add(name, value);
        if !expected.iter().any(|(known, _)| *known == name) {
            expected.push((name, value));
        }
    }
    let mut bytes = params.bytes();
    for (name, value) in expected {
        assert_eq!((length(&mut bytes), length(&mut bytes)), (name.len(), value.len()));
        bytes = bytes.strip_prefix(name).and_then(|rest| rest.strip_prefix(value)).expect("name and value");
    }
    assert!(bytes.is_empty());
}

fn length(bytes: &mut &[u8]) -> usize {
    let (length, rest) = match **bytes {
        [short @ 0..=127, ref rest @ ..] => (usize::from(short), rest),
        [a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a & 127, b, c, d]) as usize, rest),
        _ => panic!("no length"),
    };
    *bytes = rest;
    length
}

/// A body is whole records, none of them empty.
fn body(data: &[u8]) {
    let mut written = Vec::new();
    write_stdin(data, &mut written);
    let (mut rest, mut read) = (&written[..], Vec::new());
    while let [_, _, _, _, high, low, 0, _, ref content @ ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        assert!((1..=MAX_CONTENT).contains(&length));
        read.extend_from_slice(&content[..length]);
        rest = &content[length..];
    }
    assert!(rest.is_empty() && read == data);
}
