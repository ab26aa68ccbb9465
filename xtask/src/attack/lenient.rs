//! Requests as a lenient server reads them, and as a strict one does: the first says what a proxy's peers would have
//! taken, the second whether there was anything to be mistaken about.

/// What a lenient server makes of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    More,
    /// A head, and the length of the request with its body once that is there.
    Request {
        path: String,
        whole_bytes: Option<usize>,
    },
}

/// Reads a request with whatever ends its lines; chunked wins over a length.
pub(super) fn scan(input: &[u8]) -> Scan {
    let Some(head) = head_end(input) else { return Scan::More };
    let text = String::from_utf8_lossy(&input[..head]);
    let path = text.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let field = |wanted: &str| {
        let named = |line: &str| {
            line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
        };
        text.lines()
            .skip(1)
            .find(|line| named(line))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim())
    };
    let body = &input[head..];
    let whole =
        if field("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
            chunked_end(body)
        } else {
            let length: usize = field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
            (body.len() >= length).then_some(length)
        };
    Scan::Request { path, whole_bytes: whole.map(|length| head + length) }
}

fn head_end(input: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, _) in input.iter().enumerate().filter(|(_, octet)| **octet == b'\n') {
        let line = &input[line_start..at];
        if line.is_empty() || line == b"\r" {
            return Some(at + 1);
        }
        line_start = at + 1;
    }
    None
}

/// Where a chunked body ends, with its trailers.
fn chunked_end(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line_end = at + body.get(at..)?.iter().position(|octet| *octet == b'\n')?;
        let line = String::from_utf8_lossy(&body[at..line_end]);
        let digits = line.split(|char: char| !char.is_ascii_hexdigit()).next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).unwrap_or(0);
        at = line_end + 1;
        if size == 0 {
            return head_end(body.get(at..)?).map(|trailers| at + trailers);
        }
        // The chunk is followed by the end of a line.
        at = at.checked_add(size)?.checked_add(2)?;
    }
}

/// What a strict server would say of what it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Strict {
    /// Those of the well-behaved client are not counted.
    pub(super) requests: u64,
    /// What is wrong with the first request that is not well-formed.
    pub(super) wrong: Option<String>,
}

/// Reads requests as RFC 9112 has them; an incomplete body at the end is no mistake.
pub(super) fn strict(mut input: &[u8]) -> Strict {
    let mut found = Strict::default();
    let own = format!("GET {} ", super::probe::PATH);
    while !input.is_empty() {
        found.requests += u64::from(!input.starts_with(own.as_bytes()));
        match strict_request(input) {
            Ok(Some(length)) => input = &input[length..],
            Ok(None) => break,
            Err(wrong) => {
                found.wrong = Some(wrong);
                break;
            }
        }
    }
    found
}

/// The length of a well-formed request; none when its end has not come.
fn strict_request(input: &[u8]) -> Result<Option<usize>, String> {
    let Some(head) = find(input, b"\r\n\r\n").map(|at| at + 4) else {
        return if head_end(input).is_some() {
            Err("a head with bare line feeds".to_owned())
        } else {
            Ok(None)
        };
    };
    let text = &input[..head - 4];
    let mut lines = split_lines(text);
    let request_line = lines.next().unwrap_or_default();
    let old = strict_request_line(request_line)?;
    let fields = lines.map(strict_field).collect::<Result<Vec<_>, _>>()?;
    let body = &input[head..];
    match strict_framing(&fields)? {
        Framing::Length(length) => Ok((body.len() >= length).then_some(head + length)),
        Framing::Chunked => match strict_chunks(body)? {
            // RFC 9112 section 6.1: a server may take the length of such a body for unknown.
            Some(length) if old && body.len() > length => Err("more behind chunks in HTTP/1.0".to_owned()),
            length => Ok(length.map(|length| head + length)),
        },
    }
}

enum Framing {
    Length(usize),
    Chunked,
}

type Line<'a> = (String, &'a [u8]);

fn strict_framing(fields: &[Line<'_>]) -> Result<Framing, String> {
    let all =
        |wanted: &'static str| fields.iter().filter(move |(name, _)| name == wanted).map(|(_, value)| *value);
    let hosts: Vec<&[u8]> = all("host").collect();
    // A missing one leaves nothing to be mistaken about.
    let host = match hosts.as_slice() {
        [] => b"".as_slice(),
        [host] => host,
        _ => return Err(format!("{} Host lines", hosts.len())),
    };
    if host.iter().any(|octet| matches!(octet, b',' | b' ' | b'\t' | b'/' | b'@' | b'\\' | b'#' | b'?')) {
        return Err(format!("the Host '{}'", String::from_utf8_lossy(host)));
    }
    let lengths: Vec<&[u8]> = all("content-length").collect();
    let codings: Vec<&[u8]> = all("transfer-encoding").collect();
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Framing::Length(0)),
        ([length], []) if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            let length = String::from_utf8_lossy(length).parse();
            length.map(Framing::Length).map_err(|_| "a Content-Length beyond all numbers".to_owned())
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        _ => Err("ambiguous framing".to_owned()),
    }
}

/// Whether it is one of HTTP/1.0.
fn strict_request_line(line: &[u8]) -> Result<bool, String> {
    let wrong = || Err(format!("the request line '{}'", line.escape_ascii()));
    let words: Vec<&[u8]> = line.split(|octet| *octet == b' ').collect();
    let &[method, target, version] = words.as_slice() else { return wrong() };
    let visible =
        |word: &[u8]| !word.is_empty() && word.iter().all(|octet| octet.is_ascii_graphic() || *octet >= 0x80);
    let good = !method.is_empty() && method.iter().all(is_token) && visible(target);
    match version {
        b"HTTP/1.1" if good => Ok(false),
        b"HTTP/1.0" if good => Ok(true),
        _ => wrong(),
    }
}

fn strict_field(line: &[u8]) -> Result<Line<'_>, String> {
    let wrong = || format!("the line '{}'", line.escape_ascii());
    let colon = line.iter().position(|octet| *octet == b':').ok_or_else(wrong)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // RFC 9110 section 5.5: other control characters may be kept.
    let dangerous = |octet: &u8| matches!(octet, 0 | b'\r' | b'\n');
    if name.is_empty() || !name.iter().all(is_token) || value.iter().any(dangerous) {
        return Err(wrong());
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.trim_ascii()))
}

/// The length of a well-formed chunked body with its trailers.
fn strict_chunks(body: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(end) = find(&body[at..], b"\n").map(|end| at + end) else { return Ok(None) };
        let line = &body[at..end];
        let digits = line.iter().take_while(|octet| octet.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 8 || line.get(digits) != Some(&b'\r') || line.len() != digits + 1 {
            return Err(format!("the chunk '{}'", line.escape_ascii()));
        }
        let size = usize::from_str_radix(&String::from_utf8_lossy(&line[..digits]), 16);
        let size = size.map_err(|error| error.to_string())?;
        at = end + 1;
        if size == 0 {
            return strict_trailers(&body[at..]).map(|length| length.map(|length| at + length));
        }
        match body.get(at + size..at + size + 2) {
            None => return Ok(None),
            Some(b"\r\n") => at += size + 2,
            Some(other) => return Err(format!("'{}' behind a chunk", other.escape_ascii())),
        }
    }
}

fn strict_trailers(rest: &[u8]) -> Result<Option<usize>, String> {
    if rest.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    let Some(end) = find(rest, b"\r\n\r\n") else { return Ok(None) };
    for line in split_lines(&rest[..end]) {
        let (name, _) = strict_field(line)?;
        // RFC 9110 section 6.5.1.
        if ["host", "content-length", "transfer-encoding", "authorization", "content-type"]
            .contains(&name.as_str())
        {
            return Err(format!("the trailer '{name}'"));
        }
    }
    Ok(Some(end + 4))
}

fn is_token(octet: &u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(octet)
}

fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let (line, after) = match find(all, b"\r\n") {
            Some(at) => (&all[..at], Some(&all[at + 2..])),
            None => (all, None),
        };
        rest = after;
        Some(line)
    })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lenient_server_takes_what_it_can() {
        let check = |input: &str, path: &str, whole: Option<usize>| {
            let expected = Scan::Request { path: path.to_owned(), whole_bytes: whole };
            assert_eq!(scan(input.as_bytes()), expected, "{input:?}");
        };
        check("GET /a HTTP/1.1\n\nrest", "/a", Some(17));
        check("POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "/b", None);
        check("POST /c HTTP/1.1\r\nContent-Length : 3\r\n\r\nabcd", "/c", Some(43));
        check("POST /d X\r\nTransfer-Encoding: x, chunked\r\n\r\n1\r\na\r\n0\r\n\r\nmore", "/d", Some(55));
        assert_eq!(scan(b"GET / HTTP/1.1\r\nHost: a\r\n"), Scan::More);
    }

    #[test]
    fn a_strict_server_takes_nothing_that_can_be_mistaken() {
        let check = |input: &str, requests: u64, good: bool| {
            let found = strict(input.as_bytes());
            assert_eq!((found.requests, found.wrong.is_none()), (requests, good), "{input:?}: {found:?}");
        };
        let host = "Host: a\r\n";
        check(&format!("GET / HTTP/1.1\r\n{host}\r\n"), 1, true);
        check(&format!("GET / HTTP/1.1\r\n{host}\r\nGET /2 HTTP/1.1\r\n{host}\r\n"), 2, true);
        check("GET / HTTP/1.1\r\n\r\n", 1, true);
        check(&format!("GET /probe HTTP/1.1\r\n{host}\r\n"), 0, true);
        check(&format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 1, false);
        check("GET / HTTP/1.1\nHost: a\n\n", 1, false);
        check("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 1, false);
        check(&format!("GET / HTTP/1.1\r\n{host}A : b\r\n\r\n"), 1, false);
        check(&format!("GET / HTTP/1.1\r\n{host}A: b\rc\r\n\r\n"), 1, false);
        check(&format!("POST / HTTP/1.1\r\n{host}Content-Length: +3\r\n\r\nabc"), 1, false);
        check(&format!("POST / HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\na"), 1, true);
        let old = format!("POST / HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        check(&old, 1, true);
        check(&format!("{old}GET / HTTP/1.1\r\n{host}\r\n"), 1, false);
        let chunked = format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n");
        check(&format!("{chunked}\r\n3\r\nabc\r\n0\r\n\r\n"), 1, true);
        check(&format!("{chunked}\r\n3;x\r\nabc\r\n0\r\n\r\n"), 1, false);
        check(&format!("{chunked}\r\n3\nabc\r\n0\r\n\r\n"), 1, false);
        check(&format!("{chunked}\r\n0\r\nHost: b\r\n\r\n"), 1, false);
        check(&format!("{chunked}\r\n0\r\nX: b\r\n\r\n"), 1, true);
        check(&format!("{chunked}Content-Length: 3\r\n\r\n0\r\n\r\n"), 1, false);
    }
}
