//! The client's first message, read before a configuration is chosen for it: RFC 8446 section 4.1.2.
//!
//! Owns finding the hello message in the first bytes of a connection and the name asked for in it. Whether
//! the message is right in everything else is left to the handshake itself.

use std::borrow::Cow;
use std::ops::Range;

use super::record::{HEADER_BYTES, MAX_PLAINTEXT_BYTES};

/// The longest hello that is taken, in as many records as it needs: as long as peers and rustls take a handshake message.
/// Post-quantum key shares and padding make about 2 kB; tickets and certificates' names make it longer.
const MAX_HELLO_BYTES: usize = 0xffff;

/// Most records that a hello is spread over: each is looked at again whenever more arrives.
const MAX_HELLO_RECORDS: usize = 64;

/// Record type and message type of a client's hello.
const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_NAME_EXTENSION: u16 = 0;
const ALPN_EXTENSION: u16 = 16;
const HOST_NAME: u8 = 0;

/// What the first bytes of a connection turn out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start<'a> {
    /// Not all of it is there yet.
    Incomplete,
    /// The hello's body, from its version field on.
    Hello(Cow<'a, [u8]>),
    /// Anything else, a hello that is too long too: there is nothing to choose a configuration by.
    Other,
}

/// Reads the hello message from the records at the start of a connection.
pub(crate) fn read_hello(mut records: &[u8]) -> Start<'_> {
    let mut message = Cow::Borrowed(&[][..]);
    for _ in 0..MAX_HELLO_RECORDS {
        let Some((header, rest)) = records.split_first_chunk::<HEADER_BYTES>() else {
            return Start::Incomplete;
        };
        let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != HANDSHAKE_RECORD || body == 0 || body > MAX_PLAINTEXT_BYTES {
            return Start::Other;
        }
        let Some((body, rest)) = rest.split_at_checked(body) else { return Start::Incomplete };
        // Nearly always the message is in one record, and then it is not copied.
        if message.is_empty() {
            message = Cow::Borrowed(body);
        } else {
            message.to_mut().extend_from_slice(body);
        }
        records = rest;
        match find_body(&message) {
            None => {}
            Some(None) => return Start::Other,
            Some(Some(range)) => {
                return Start::Hello(match message {
                    Cow::Borrowed(message) => Cow::Borrowed(message.get(range).unwrap_or_default()),
                    Cow::Owned(message) => Cow::Owned(message.get(range).unwrap_or_default().to_vec()),
                });
            }
        }
    }
    Start::Other
}

/// Where the hello's body is; nothing while it is incomplete, and nowhere when this is another message.
fn find_body(message: &[u8]) -> Option<Option<Range<usize>>> {
    let [kind, a, b, c, rest @ ..] = message else { return None };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if *kind != CLIENT_HELLO || length > MAX_HELLO_BYTES {
        return Some(None);
    }
    (rest.len() >= length).then_some(Some(4..4 + length))
}

/// The host name asked for, in lower case.
pub(crate) fn server_name(hello: &[u8]) -> Option<String> {
    let mut names = Input(Input(extension(hello, SERVER_NAME_EXTENSION)?).block16()?);
    let kind = names.take(1)?;
    let name = names.block16()?;
    let is_host = kind == [HOST_NAME] && !name.is_empty();
    std::str::from_utf8(name).ok().filter(|_| is_host).map(str::to_ascii_lowercase)
}

/// Whether the client offers protocols by ALPN and none of them is `ours` (RFC 7301 section 3.1).
pub(crate) fn offers_only_other_protocols(hello: &[u8], ours: &[Vec<u8>]) -> bool {
    let Some(mut offered) =
        extension(hello, ALPN_EXTENSION).and_then(|body| Some(Input(Input(body).block16()?)))
    else {
        return false;
    };
    while let Some(protocol) = offered.block8() {
        if ours.iter().any(|ours| ours == protocol) {
            return false;
        }
    }
    true
}

/// The client's random bytes.
pub(crate) fn random(hello: &[u8]) -> Option<&[u8]> {
    hello.get(2..2 + 32)
}

/// The cipher suites offered, two bytes each.
pub(crate) fn cipher_suites(hello: &[u8]) -> Option<&[u8]> {
    let mut input = Input(hello);
    input.take(2 + 32)?;
    input.block8()?;
    input.block16()
}

/// The types of all extensions, two bytes each, in their order.
pub(crate) fn extension_types(hello: &[u8]) -> Vec<u8> {
    let kinds = extensions(hello).into_iter().flat_map(Extensions);
    kinds.flat_map(|(kind, _)| kind.to_be_bytes()).collect()
}

/// The body of an extension.
pub(crate) fn extension(hello: &[u8], wanted: u16) -> Option<&[u8]> {
    Extensions(extensions(hello)?).find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
}

fn extensions(hello: &[u8]) -> Option<Input<'_>> {
    let mut input = Input(hello);
    input.take(2 + 32)?;
    input.block8()?;
    input.block16()?;
    input.block8()?;
    input.block16().map(Input)
}

struct Extensions<'a>(Input<'a>);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.number16()?, self.0.block16()?))
    }
}

/// The random bytes and the session identifier of a server's hello in a record, unless it asks to try again.
pub(crate) fn read_server_hello(record: &[u8]) -> Option<([u8; 32], &[u8])> {
    /// RFC 8446 section 4.1.3: the random bytes of a HelloRetryRequest start so.
    const RETRY: [u8; 8] = [0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11];
    let mut input = Input(record);
    let header = input.take(HEADER_BYTES)?;
    let kind = input.take(1)?;
    if header.first() != Some(&HANDSHAKE_RECORD) || kind != [SERVER_HELLO] {
        return None;
    }
    input.take(3 + 2)?;
    let random: [u8; 32] = input.take(32)?.try_into().ok()?;
    (!random.starts_with(&RETRY)).then_some((random, input.block8()?))
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn number16(&mut self) -> Option<u16> {
        let (number, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*number))
    }

    fn block8(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        self.0 = rest;
        self.take(usize::from(*length))
    }

    fn block16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([5; 32]);
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        let mut extension = vec![0, 0];
        extension.extend(((name.len() + 5) as u16).to_be_bytes());
        extension.extend(((name.len() + 3) as u16).to_be_bytes());
        extension.push(0);
        extension.extend((name.len() as u16).to_be_bytes());
        extension.extend(name);
        body.extend(((extension.len() + 11) as u16).to_be_bytes());
        body.extend([0, 16, 0, 7, 0, 5, 2, b'h', b'2', 1, b'x']);
        body.extend(extension);
        body
    }

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        message
    }

    fn record(fragment: &[u8]) -> Vec<u8> {
        let mut record = vec![22, 3, 1];
        record.extend((fragment.len() as u16).to_be_bytes());
        record.extend(fragment);
        record
    }

    #[test]
    fn a_hello_is_found_in_one_record_and_in_many() {
        let body = hello(b"WWW.example.org");
        let message = message(&body);
        let whole = record(&message);
        let split: Vec<u8> = message.chunks(7).flat_map(record).collect();
        for records in [whole, split] {
            assert_eq!(read_hello(&records), Start::Hello(body.clone().into()));
            for length in 0..records.len() {
                assert_eq!(read_hello(&records[..length]), Start::Incomplete);
            }
        }
        assert_eq!(server_name(&body).as_deref(), Some("www.example.org"));
        assert_eq!(cipher_suites(&body), Some(&[0x13, 1][..]));
        assert_eq!(extension_types(&body), [0, 16, 0, 0]);
        assert_eq!(random(&body), Some(&[5; 32][..]));
        assert!(!offers_only_other_protocols(&body, &[b"http/1.1".to_vec(), b"h2".to_vec()]));
        assert!(offers_only_other_protocols(&body, &[b"http/1.1".to_vec()]));
    }

    #[test]
    fn a_hello_may_be_longer_than_a_record() {
        let long = |length: usize| {
            let mut message = vec![CLIENT_HELLO, 0];
            message.extend((length as u16).to_be_bytes());
            message.resize(4 + length, 7);
            message.chunks(MAX_PLAINTEXT_BYTES).flat_map(record).collect::<Vec<u8>>()
        };
        for length in [MAX_PLAINTEXT_BYTES + 1, MAX_HELLO_BYTES] {
            assert_eq!(read_hello(&long(length)), Start::Hello(vec![7; length].into()), "{length}");
        }
        let mut longer = long(MAX_HELLO_BYTES);
        longer[HEADER_BYTES + 1] = 1;
        assert_eq!(read_hello(&longer), Start::Other);
    }

    #[test]
    fn what_is_no_hello_is_left_to_the_handshake() {
        let check = |bytes: &[u8]| assert_eq!(read_hello(bytes), Start::Other);
        check(b"GET / HTTP/1.1\r\n");
        check(&[22, 3, 1, 0, 0]);
        check(&record(&[2, 0, 0, 1, 0]));
        check(&record(&[1, 9, 0, 0, 0]));
        let truncated = hello(b"a");
        for length in 0..truncated.len() {
            assert_eq!(server_name(&truncated[..length]), None);
        }
    }
}
