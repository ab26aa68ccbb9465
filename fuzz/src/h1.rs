//! HTTP/1: what was read and written anew is read the same again, so that no two readers of what the proxy
//! sends can take it apart differently.

use weir_http::h1::{
    BodyDecoder, BodyEvent, Framing, ParseOptions, WriteOptions, parse_request, parse_response,
    write_request, write_response,
};
use weir_http::{Method, Request, Response, Version};

/// What is written has a few fields and bytes more than what was read.
fn roomier() -> ParseOptions {
    let options = ParseOptions::default();
    ParseOptions { max_head: options.max_head * 2, max_fields: options.max_fields * 2, ..options }
}

/// A request's head, then its body.
pub fn h1_request(data: &[u8]) {
    let options = ParseOptions::default();
    let mut request = Request::default();
    let Ok(Some(head)) = parse_request(data, &mut request, &options) else { return };
    assert!(head.len <= data.len());
    let mut part = Request::default();
    assert!(
        !matches!(parse_request(&data[..head.len - 1], &mut part, &options), Ok(Some(_))),
        "a head is read before its end"
    );
    read_body(head.framing, &data[head.len..], data.len());

    if request.version != Version::Http11 {
        return;
    }
    let write = WriteOptions { framing: head.framing, upgrade: head.upgrade, ..WriteOptions::default() };
    let mut first = Vec::new();
    write_request(&request, &mut first, write);
    let mut again = Request::default();
    let read = parse_request(&first, &mut again, &roomier())
        .unwrap_or_else(|error| panic!("{error:?}: {:?}", String::from_utf8_lossy(&first)))
        .expect("a head that was written is whole");
    assert_eq!(read.len, first.len());
    assert_eq!(read.framing, head.framing);
    assert_eq!(again.method_bytes(), request.method_bytes());
    assert_eq!(again.uri_bytes(), request.uri_bytes());
    let mut second = Vec::new();
    write_request(&again, &mut second, write);
    assert_eq!(String::from_utf8_lossy(&second), String::from_utf8_lossy(&first));
}

/// A response's head, then its body; the first byte chooses the request's method.
pub fn h1_response(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let method = match choice % 3 {
        0 => Method::Get,
        1 => Method::Head,
        _ => Method::Connect,
    };
    let options = ParseOptions::default();
    let mut response = Response::default();
    let Ok(Some(head)) = parse_response(data, &mut response, method, &options) else { return };
    assert!(head.len <= data.len());
    read_body(head.framing, &data[head.len..], data.len());

    // Written, a 101 gets the Connection field that it may have lacked, and then must name a key as well.
    if head.upgrade && response.status == 101 {
        return;
    }
    let write = WriteOptions { framing: head.framing, upgrade: head.upgrade, ..WriteOptions::default() };
    let mut first = Vec::new();
    write_response(&response, &mut first, write);
    let mut again = Response::default();
    let read = parse_response(&first, &mut again, method, &roomier())
        .unwrap_or_else(|error| panic!("{error:?}: {:?}", String::from_utf8_lossy(&first)))
        .expect("a head that was written is whole");
    assert_eq!(read.framing, head.framing);
    assert_eq!(again.status, response.status);
    let mut second = Vec::new();
    write_response(&again, &mut second, write);
    assert_eq!(String::from_utf8_lossy(&second), String::from_utf8_lossy(&first));
}

/// A body: the first byte chooses the framing, the second how the input is cut.
pub fn h1_body(data: &[u8]) {
    let &[choice, cut, ref input @ ..] = data else { return };
    let framing = match choice % 4 {
        0 => Framing::UntilClose,
        1 => Framing::Length(u64::from(choice) * 7),
        _ => Framing::Chunked,
    };
    read_body(framing, input, usize::from(cut).max(1));
}

/// Takes a body out of its framing, whole and in pieces: it is the same body.
fn read_body(framing: Framing, input: &[u8], piece: usize) {
    let whole = collect(framing, input, input.len().max(1));
    let pieces = collect(framing, input, piece.max(1));
    assert_eq!(whole, pieces, "a body depends on how it is cut");
}

/// What a body held and whether it ended; `None` when it was refused.
fn collect(framing: Framing, input: &[u8], piece: usize) -> Option<(Vec<u8>, bool)> {
    let mut decoder = BodyDecoder::new(framing);
    let (mut body, mut start, mut end) = (Vec::new(), 0, 0);
    while !decoder.is_done() {
        let decoded = decoder.decode(&input[start..end]).ok()?;
        assert!(decoded.consumed <= end - start);
        match decoded.event {
            BodyEvent::Data(range) => {
                assert!(range.end <= decoded.consumed);
                body.extend_from_slice(&input[start..end][range]);
            }
            BodyEvent::NeedMore if end == input.len() => return Some((body, false)),
            BodyEvent::NeedMore => {}
            BodyEvent::End(_) => return Some((body, true)),
        }
        start += decoded.consumed;
        if start == end && end == input.len() {
            break;
        }
        end = (end + piece).min(input.len());
    }
    Some((body, decoder.is_done()))
}
