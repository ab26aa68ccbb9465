//! The reader of HTTP/1 heads beside a plain twin, which looks at one byte after the other and knows nothing of how the
//! reader saves its work.  Of what the reader refuses, and where, of fields and of framing the two say the same.

use proptest::prelude::*;
use weir_http::h1::{Framing, ParseErrorKind as Kind, ParseOptions, parse_request, parse_response};
use weir_http::{Method, Request, Response};

/// Why a reader stopped.
#[derive(Debug, PartialEq)]
enum Stop {
    NeedMore,
    Refused(Kind, usize),
    /// The twin does not know: the target's form, other hosts and changes of protocol have their own tests.
    Unknown,
}

/// What a head says, as both understand it.
#[derive(Debug, PartialEq, Default)]
struct Head {
    len: usize,
    /// Method and target, or status code and reason.
    start: (Vec<u8>, Vec<u8>),
    fields: Vec<(String, Vec<u8>)>,
    framing: Framing,
    keep_alive: bool,
}

/// Whose head it is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    Client,
    Server,
}

struct Twin<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while value.first().is_some_and(|&byte| is_blank(byte)) {
        value = &value[1..];
    }
    while value.last().is_some_and(|&byte| is_blank(byte)) {
        value = &value[..value.len() - 1];
    }
    value
}

impl Twin<'_> {
    fn peek(&self) -> Result<u8, Stop> {
        self.bytes.get(self.at).copied().ok_or(Stop::NeedMore)
    }

    fn refused<T>(&self, kind: Kind) -> Result<T, Stop> {
        Err(Stop::Refused(kind, self.at))
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> Result<Vec<u8>, Stop> {
        let start = self.at;
        while wanted(self.peek()?) {
            self.at += 1;
        }
        Ok(self.bytes[start..self.at].to_vec())
    }

    /// Takes LF or CR LF; false when neither is there.
    fn line_end(&mut self) -> Result<bool, Stop> {
        match self.peek()? {
            b'\n' => self.at += 1,
            b'\r' => {
                self.at += 1;
                match self.peek()? {
                    b'\n' => self.at += 1,
                    _ => return self.refused(Kind::BareCr),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// True for a version above 1.0.
    fn version(&mut self) -> Result<bool, Stop> {
        let mut digits = Vec::new();
        for wanted in *b"HTTP/0.0" {
            let byte = self.peek()?;
            if wanted == b'0' && byte.is_ascii_digit() {
                digits.push(byte);
            } else if byte != wanted {
                return self.refused(Kind::Version);
            }
            self.at += 1;
        }
        if self.peek()?.is_ascii_digit() {
            return self.refused(Kind::Version);
        }
        Ok(digits > b"10".to_vec())
    }

    fn request_line(&mut self, head: &mut Head) -> Result<bool, Stop> {
        head.start.0 = self.take_while(is_token)?;
        if head.start.0.is_empty() || !is_blank(self.peek()?) {
            return self.refused(Kind::Method);
        }
        self.take_while(is_blank)?;
        head.start.1 = self.take_while(|byte| (b'!'..=b'~').contains(&byte) && byte != b'#')?;
        if head.start.1.is_empty() || !is_blank(self.peek()?) {
            return self.refused(Kind::TargetByte);
        }
        self.take_while(is_blank)?;
        let newer = self.version()?;
        if !self.line_end()? {
            return self.refused(Kind::Version);
        }
        Ok(newer)
    }

    fn status_line(&mut self, head: &mut Head) -> Result<bool, Stop> {
        let newer = self.version()?;
        if !is_blank(self.peek()?) {
            return self.refused(Kind::Version);
        }
        self.take_while(is_blank)?;
        for _ in 0..3 {
            let byte = self.peek()?;
            if !byte.is_ascii_digit() {
                return self.refused(Kind::Status);
            }
            head.start.0.push(byte);
            self.at += 1;
        }
        if !matches!(self.peek()?, b' ' | b'\t' | b'\r' | b'\n') || head.start.0[0] == b'0' {
            return self.refused(Kind::Status);
        }
        self.take_while(is_blank)?;
        head.start.1 = self.take_while(|byte| !matches!(byte, b'\r' | b'\n' | 0))?;
        if !self.line_end()? {
            return self.refused(Kind::Status);
        }
        Ok(newer)
    }

    /// A value, all its lines: the breaks between them are blanks.
    fn value(&mut self) -> Result<Vec<u8>, Stop> {
        let mut value = Vec::new();
        loop {
            value.extend(self.take_while(|byte| !matches!(byte, b'\r' | b'\n' | 0))?);
            let start = self.at;
            if !self.line_end()? {
                return self.refused(Kind::FieldValue);
            }
            if !is_blank(self.peek()?) {
                return Ok(trimmed(&value).to_vec());
            }
            value.resize(value.len() + self.at - start, b' ');
        }
    }

    fn fields(&mut self, head: &mut Head, options: &ParseOptions) -> Result<(), Stop> {
        while !self.line_end()? {
            if head.fields.len() + 1 >= options.max_fields {
                return self.refused(Kind::TooManyFields);
            }
            let start = self.at;
            let name = self.take_while(is_token)?;
            if name.is_empty() || self.peek()? != b':' {
                return self.refused(Kind::FieldName);
            }
            if name.len() > 255 {
                return Err(Stop::Refused(Kind::FieldName, start + 255));
            }
            self.at += 1;
            let value = self.value()?;
            head.fields
                .push((String::from_utf8(name).expect("tokens are ASCII").to_ascii_lowercase(), value));
        }
        head.len = self.at;
        Ok(())
    }
}

/// The elements of all lists with this name.
fn elements<'a>(head: &'a Head, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let lines = head.fields.iter().filter(move |(own, _)| own == name);
    lines.flat_map(|(_, value)| value.split(|&byte| byte == b',').map(trimmed))
}

/// Drops all lines with this name behind so many.
fn keep_first(head: &mut Head, name: &str, most: usize) {
    let mut count = 0;
    head.fields.retain(|(own, _)| {
        count += usize::from(own == name);
        own != name || count <= most
    });
}

/// RFC 9112 sections 6 and 9.3: where the body ends, and whether the connection lives on.
fn frame(head: &mut Head, side: Side, newer: bool) -> Result<(), Stop> {
    let refused = |kind| Err(Stop::Refused(kind, head.len));
    if head.fields.iter().any(|(name, _)| name == "upgrade") {
        return Err(Stop::Unknown);
    }
    // The first line that is wrong decides: one that is right until then, and no longer with it.
    let hosts: Vec<&[u8]> =
        head.fields.iter().filter(|(name, _)| name == "host").map(|(_, value)| &value[..]).collect();
    let contradicts = hosts.iter().any(|host| !host.eq_ignore_ascii_case(hosts[0]));
    let lengths: Vec<Option<u64>> = elements(head, "content-length")
        .map(|text| {
            let digits =
                std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            digits?.parse().ok()
        })
        .collect();
    let wrong_length = lengths.iter().any(|length| length.is_none() || *length != lengths[0]);
    let codings: Vec<Vec<u8>> = elements(head, "transfer-encoding").map(<[u8]>::to_ascii_lowercase).collect();
    let wrong_coding =
        codings.iter().any(Vec::is_empty) || codings.iter().rev().skip(1).any(|coding| coding == b"chunked");
    match [contradicts, wrong_length, wrong_coding].iter().filter(|&&wrong| wrong).count() {
        0 => {}
        1 if contradicts => return refused(Kind::Host),
        1 if wrong_length => return refused(Kind::ContentLength),
        1 => return refused(Kind::TransferEncoding),
        _ => return Err(Stop::Unknown),
    }
    let chunked = match codings.last() {
        None => false,
        Some(last) if last != b"chunked" => return refused(Kind::TransferEncoding),
        Some(_) if codings.len() > 1 => return refused(Kind::UnknownCoding),
        Some(_) => true,
    };
    let length = lengths.first().copied().flatten();
    let usual_host = |host: &[u8]| host.iter().all(|b| b.is_ascii_alphanumeric() || b".:-".contains(b));
    if side == Side::Client && !hosts.iter().all(|host| usual_host(host)) {
        return Err(Stop::Unknown);
    }
    let insecure = chunked && (length.is_some() || !newer);
    let says = |option: &[u8]| elements(head, "connection").any(|own| own.eq_ignore_ascii_case(option));
    let keeps = !says(b"close") && (newer || says(b"keep-alive")) && !insecure;
    head.framing = match (side, length) {
        _ if chunked => Framing::Chunked,
        (_, Some(length)) => Framing::Length(length),
        (Side::Client, None) => Framing::None,
        (Side::Server, None) => Framing::UntilClose,
    };
    if side == Side::Server && matches!(&head.start.0[..], [b'1', ..] | b"204" | b"304") {
        head.framing = Framing::None;
    }
    head.keep_alive = keeps && head.framing != Framing::UntilClose;
    let payload = chunked || length.is_some_and(|length| length > 0);
    if side == Side::Client
        && payload
        && !newer
        && [&b"GET"[..], b"HEAD", b"DELETE"].contains(&&head.start.0[..])
    {
        return refused(Kind::UnexpectedPayload);
    }
    keep_first(head, "host", 1);
    keep_first(head, "content-length", usize::from(!chunked));
    for (name, value) in &mut head.fields {
        if name == "content-length" && value.contains(&b',') {
            *value = length.expect("a list has elements").to_string().into_bytes();
        }
    }
    Ok(())
}

/// What the twin makes of the input.
fn twin(input: &[u8], side: Side, options: &ParseOptions) -> Result<Head, Stop> {
    let mut twin = Twin { bytes: &input[..input.len().min(options.max_head)], at: 0 };
    let mut head = Head::default();
    let read = (|| {
        while twin.line_end()? {}
        let newer = match side {
            Side::Client => twin.request_line(&mut head)?,
            Side::Server => twin.status_line(&mut head)?,
        };
        twin.fields(&mut head, options)?;
        frame(&mut head, side, newer)?;
        let (method, target) = &head.start;
        match side == Side::Client && (method == b"CONNECT" || !target.starts_with(b"/")) {
            true => Err(Stop::Unknown),
            false => Ok(()),
        }
    })();
    match read {
        Ok(()) => Ok(head),
        Err(Stop::NeedMore) if input.len() >= options.max_head => {
            Err(Stop::Refused(Kind::HeadTooLarge, options.max_head))
        }
        Err(stop) => Err(stop),
    }
}

/// What the reader makes of it.
fn reader(input: &[u8], side: Side, options: &ParseOptions) -> Result<Head, Stop> {
    let shown = |fields: &weir_http::Fields| {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let lines = fields.list().iter().map(|field| {
            let (name, value) = (fields.bytes(field.name), fields.bytes(field.value));
            assert_eq!(field.id, weir_http::FieldName::from_bytes(name));
            (text(name), value.to_vec())
        });
        lines.collect()
    };
    let head = match side {
        Side::Client => {
            let mut request = Request::default();
            parse_request(input, &mut request, options).map(|head| {
                head.map(|head| Head {
                    len: head.len,
                    start: (request.method_bytes().to_vec(), request.uri_bytes().to_vec()),
                    fields: shown(&request.fields),
                    framing: head.framing,
                    keep_alive: head.keep_alive,
                })
            })
        }
        Side::Server => {
            let mut response = Response::default();
            parse_response(input, &mut response, Method::Get, options).map(|head| {
                head.map(|head| Head {
                    len: head.len,
                    start: (response.status.to_string().into_bytes(), response.reason_bytes().to_vec()),
                    fields: shown(&response.fields),
                    framing: head.framing,
                    keep_alive: head.keep_alive,
                })
            })
        }
    };
    match head {
        Ok(head) => head.ok_or(Stop::NeedMore),
        Err(error) => Err(Stop::Refused(error.kind, error.position)),
    }
}

fn start_line(side: Side) -> impl Strategy<Value = &'static str> {
    prop::sample::select(match side {
        Side::Client => vec![
            "GET / HTTP/1.1\r\n",
            "GET /a/longer/path?with=query HTTP/1.1\r\n",
            "POST /x HTTP/1.0\r\n",
            "PATCH\t/x  HTTP/1.1\n",
            "\r\n\nHEAD /x HTTP/1.1\r\n",
            "DELETE /x HTTP/2.0\r\n",
            "GET / HTTP/1.12\r\n",
            "G@T / HTTP/1.1\r\n",
        ],
        Side::Server => vec![
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 404 Not Found\r\n",
            "HTTP/1.1 204\r\n",
            "HTTP/1.1\t304  Not Modified \n",
            "\r\nHTTP/1.1 500 \r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 099 OK\r\n",
        ],
    })
}

fn line() -> impl Strategy<Value = String> {
    let usual = prop::sample::select(vec![
        "Host: 127.0.0.1:8080\r\n",
        "host:a\r\n",
        "HOST: A \t\r\n",
        "Content-Length: 5\r\n",
        "content-length: 05\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "transfer-encoding: Chunked,\r\n",
        "Connection: keep-alive\r\n",
        "Connection: x, close\r\n",
        "Accept: */*\r\n",
        "Content-Type:text/html\n",
        "Cookie: a=b; c=d\r\n  e\r\n",
        "X-Folded:\r\n\t \r\n x\r\n",
        "name with blanks: x\r\n",
        "x: \ta\tb \r\n",
        "\u{e9}: x\r\n",
        "x: a\0b\r\n",
        "x: a\rb\r\n",
    ]);
    prop_oneof![
        4 => usual.prop_map(str::to_owned),
        1 => ("[a-zA-Z0-9_.-]{0,30}", "[ -~\t]{0,40}").prop_map(|(name, value)| format!("{name}: {value}\r\n")),
        1 => "[a-z]{250,260}: x\r\n",
    ]
}

/// A head that may be wrong, and bytes behind it.
fn head(side: Side) -> impl Strategy<Value = Vec<u8>> {
    let end = prop::sample::select(vec!["\r\n", "\n", "\r\nGET / HTTP/1.1\r\n\r\n", ""]);
    let change = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
    (start_line(side), prop::collection::vec(line(), 0..7), end, change).prop_map(
        |(start, lines, end, change)| {
            let mut head = format!("{start}{}{end}", lines.concat()).into_bytes();
            if let Some((at, byte)) = change {
                let at = at.index(head.len());
                head[at] = byte;
            }
            head
        },
    )
}

fn options() -> impl Strategy<Value = ParseOptions> {
    (prop_oneof![3 => Just(15_360), 1 => 1usize..150], prop_oneof![3 => Just(101), 1 => 1usize..6])
        .prop_map(|(max_head, max_fields)| ParseOptions { max_head, max_fields, ..ParseOptions::default() })
}

/// Both read the head as it arrives, byte after byte.
fn check(input: &[u8], side: Side, options: &ParseOptions) {
    for end in 0..=input.len() {
        let expected = twin(&input[..end], side, options);
        if expected != Err(Stop::Unknown) {
            let shown = String::from_utf8_lossy(&input[..end]);
            assert_eq!(reader(&input[..end], side, options), expected, "{shown:?}");
        }
    }
}

proptest! {
    #[test]
    fn requests_are_read_as_the_twin_reads_them(input in head(Side::Client), options in options()) {
        check(&input, Side::Client, &options);
    }

    #[test]
    fn responses_are_read_as_the_twin_reads_them(input in head(Side::Server), options in options()) {
        check(&input, Side::Server, &options);
    }
}

#[test]
fn every_byte_is_taken_as_the_twin_takes_it() {
    let request = b"GET /abc HTTP/1.1\r\nHost: a\r\nX-Some-Name: some value\r\nContent-Length: 12\r\n\r\n";
    let response =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Some-Name: v\r\nContent-Length: 12\r\n\r\n";
    for (side, head) in [(Side::Client, &request[..]), (Side::Server, &response[..])] {
        for at in 0..head.len() {
            for byte in 0..=255 {
                let mut input = head.to_vec();
                input[at] = byte;
                let expected = twin(&input, side, &ParseOptions::default());
                if expected != Err(Stop::Unknown) {
                    let read = reader(&input, side, &ParseOptions::default());
                    assert_eq!(read, expected, "{:?}", String::from_utf8_lossy(&input));
                }
            }
        }
    }
}
