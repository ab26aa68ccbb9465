//! Syslog messages as they are received (RFC 3164, RFC 5424) and how they are told apart on a stream (RFC 6587).
//!
//! Owns reading them, and writing them again; where they go is the logger's.

use std::net::IpAddr;

use weir_config::model::{LogHost, LogWire};

/// A message and what its header said; parts that were not there are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message<'m> {
    /// The form it had.
    pub(crate) format: LogWire,
    /// Facility times eight plus level.
    pub(crate) priority: Option<u8>,
    /// As it was written.
    pub(crate) time: &'m [u8],
    pub(crate) host: &'m [u8],
    pub(crate) tag: &'m [u8],
    pub(crate) pid: &'m [u8],
    /// MSGID and structured data of RFC 5424.
    pub(crate) id: &'m [u8],
    pub(crate) data: &'m [u8],
    pub(crate) text: &'m [u8],
}

/// What is known of a message besides itself: when it was received, and from whom.
pub(crate) struct Received {
    /// As RFC 3164 writes times.
    pub(crate) bsd: String,
    /// As RFC 5424 does.
    pub(crate) iso: String,
    pub(crate) from: Option<IpAddr>,
    /// How the host name is made of both.
    pub(crate) host: LogHost,
}

impl Message<'_> {
    /// Writes a header in a format; what the message does not say is when and from whom it was received.
    pub(crate) fn write_header(
        &self,
        format: LogWire,
        priority: u16,
        received: &Received,
        out: &mut Vec<u8>,
    ) {
        let is_bsd = matches!(self.format, LogWire::Local | LogWire::Rfc3164) && !self.time.is_empty();
        let is_iso = self.format == LogWire::Rfc5424 && !self.time.is_empty();
        let bsd = if is_bsd { self.time } else { received.bsd.as_bytes() };
        let iso = if is_iso { self.time } else { received.iso.as_bytes() };
        let (number, level) = (format!("<{priority}>"), format!("<{}>", priority & 7));
        let (number, level) = (number.as_bytes(), level.as_bytes());
        let host = |unknown: &[u8]| self.host(received, unknown);
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        match format {
            LogWire::Raw => {}
            LogWire::Priority => put(&[number]),
            LogWire::Short => put(&[level]),
            LogWire::Timed => put(&[level, iso, b" "]),
            LogWire::Iso => put(&[iso, b" "]),
            LogWire::Local => put(&[number, bsd, b" "]),
            LogWire::Rfc3164 => put(&[number, bsd, b" ", &host(b"localhost"), b" "]),
            LogWire::Rfc5424 => {
                let words = [iso, &host(b"-"), nil(self.tag), nil(self.pid), nil(self.id), nil(self.data)];
                put(&[number, b"1 ", &words.join(&b" "[..]), b" "]);
            }
        }
        if matches!(format, LogWire::Local | LogWire::Rfc3164) {
            match (self.tag, self.pid) {
                (b"", _) => {}
                (tag, b"") => put(&[tag, b": "]),
                (tag, pid) => put(&[tag, b"[", pid, b"]: "]),
            }
        }
    }
}

impl Message<'_> {
    /// The host name to write: `unknown` where neither the message nor its sender has one.
    fn host(&self, received: &Received, unknown: &[u8]) -> Vec<u8> {
        let sender = received.from.map(|from| from.to_canonical().to_string().into_bytes());
        match (self.host, sender, received.host) {
            (b"", _, LogHost::Keep) | (b"", None, _) => unknown.to_vec(),
            (b"", Some(sender), _) | (_, Some(sender), LogHost::Replace) => sender,
            (host, Some(sender), LogHost::Append) => [host, b",", &sender].concat(),
            (host, ..) => host.to_vec(),
        }
    }
}

impl<'m> Message<'m> {
    /// A message that nothing is known of.
    pub(crate) fn raw(text: &'m [u8]) -> Self {
        let none: &[u8] = b"";
        Self {
            format: LogWire::Raw,
            priority: None,
            time: none,
            host: none,
            tag: none,
            pid: none,
            id: none,
            data: none,
            text,
        }
    }

    /// Reads a message; what does not look like a header is text.
    pub(crate) fn parse(bytes: &'m [u8]) -> Self {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let Some((priority, rest)) = priority(bytes) else { return Self::raw(bytes) };
        let message = match rest.strip_prefix(b"1 ") {
            Some(rest) => Self::rfc5424(rest),
            None => Self::rfc3164(rest),
        };
        Self { priority: Some(priority), ..message }
    }

    /// RFC 5424 section 6: `TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG`; `-` stands for nothing.
    fn rfc5424(rest: &'m [u8]) -> Self {
        let mut rest = rest;
        let mut word = || {
            let (word, after) = split(rest);
            rest = after;
            if word == b"-" { b"" } else { word }
        };
        let (time, host, tag, pid, id) = (word(), word(), word(), word(), word());
        let (data, text) = structured_data(rest);
        Self { format: LogWire::Rfc5424, time, host, tag, pid, id, data, ..Self::raw(text) }
    }

    /// RFC 3164 section 4.1: `Mmm dd hh:mm:ss HOSTNAME TAG[PID]: MSG`; local programs leave the host name out.
    fn rfc3164(rest: &'m [u8]) -> Self {
        let Some((time, after)) = bsd_time(rest) else {
            return Self { format: LogWire::Priority, ..Self::raw(rest) };
        };
        let (first, behind) = split(after);
        if let Some((tag, pid)) = tag(first) {
            return Self { format: LogWire::Local, time, tag, pid, ..Self::raw(behind) };
        }
        let (second, text) = split(behind);
        match tag(second) {
            Some((tag, pid)) => {
                Self { format: LogWire::Rfc3164, time, host: first, tag, pid, ..Self::raw(text) }
            }
            None => Self { format: LogWire::Local, time, ..Self::raw(after) },
        }
    }
}

/// RFC 5424 section 6: `-` stands for nothing.
fn nil(part: &[u8]) -> &[u8] {
    if part.is_empty() { b"-" } else { part }
}

/// `<134>` and what follows.
fn priority(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let rest = bytes.strip_prefix(b"<")?;
    let end = rest.iter().take(4).position(|b| *b == b'>')?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    /// The highest facility (23) at the lowest level (7).
    const HIGHEST: u8 = 191;
    (number <= HIGHEST).then_some((number, &rest[end + 1..]))
}

/// The word up to the next space, and what follows that.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|b| *b == b' ') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, b""),
    }
}

/// `Nov 21 22:00:00`
fn bsd_time(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let time = bytes.get(..15)?;
    let shape = b"aaa nn nn:nn:nn";
    let fits = time.iter().zip(shape).all(|(byte, wanted)| match wanted {
        b'a' => byte.is_ascii_alphabetic(),
        b'n' => byte.is_ascii_digit() || *byte == b' ',
        other => byte == other,
    });
    let rest = bytes[15..].strip_prefix(b" ")?;
    fits.then_some((time, rest))
}

/// `TAG[PID]:` or `TAG:`
fn tag(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = word.strip_suffix(b":")?;
    match word.strip_suffix(b"]") {
        Some(inner) => {
            let open = inner.iter().position(|b| *b == b'[')?;
            Some((&inner[..open], &inner[open + 1..]))
        }
        None => (!word.is_empty()).then_some((word, b"")),
    }
}

/// Structured data and the text behind it: `-`, or elements in brackets whose quoted values may contain brackets.
fn structured_data(bytes: &[u8]) -> (&[u8], &[u8]) {
    if !bytes.starts_with(b"[") {
        let (word, text) = split(bytes);
        return if word == b"-" { (b"", text) } else { (b"", bytes) };
    }
    let (mut quoted, mut escaped, mut open) = (false, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' if !quoted => open = true,
            b']' if !quoted => open = false,
            b' ' if !open => return (&bytes[..at], &bytes[at + 1..]),
            _ => {}
        }
    }
    (bytes, b"")
}

/// Longest message on a stream, bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 65536;

/// What stands at the start of the bytes received.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// A message at this place; so many bytes are used up.
    Message(std::ops::Range<usize>, usize),
    /// More bytes are needed.
    Partial,
    /// No message starts like this, or it is too long.
    Invalid,
}

/// Finds the first message (RFC 6587 section 3.4): counted when it starts with a number, else up to a line feed.
pub(crate) fn frame(bytes: &[u8], lines_only: bool) -> Frame {
    let Some(first) = bytes.first() else { return Frame::Partial };
    if !first.is_ascii_digit() || lines_only {
        return match bytes.iter().position(|b| *b == b'\n') {
            Some(at) => Frame::Message(0..at, at + 1),
            None if bytes.len() > MAX_MESSAGE_BYTES => Frame::Invalid,
            None => Frame::Partial,
        };
    }
    /// Digits of the longest length.
    const MAX_DIGITS: usize = 5;
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    match bytes.get(digits) {
        _ if digits > MAX_DIGITS => Frame::Invalid,
        None => Frame::Partial,
        Some(b' ') => {
            let length = std::str::from_utf8(&bytes[..digits]).ok().and_then(|text| text.parse().ok());
            let Some(length) = length.filter(|length| (1..=MAX_MESSAGE_BYTES).contains(length)) else {
                return Frame::Invalid;
            };
            let (start, end) = (digits + 1, digits + 1 + length);
            if bytes.len() < end { Frame::Partial } else { Frame::Message(start..end, end) }
        }
        Some(_) => Frame::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        // Format, priority, time, host, tag, pid, data, text.
        let check = |bytes: &str, expected: &str| {
            let m = Message::parse(bytes.as_bytes());
            let part = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let parts = [m.time, m.host, m.tag, m.pid, m.data, m.text].map(part);
            let priority = m.priority.map_or_else(|| "-".to_owned(), |p| p.to_string());
            assert_eq!(format!("{:?}|{priority}|{}", m.format, parts.join("|")), expected, "{bytes}");
        };
        check("<134>Nov 21 22:00:00 haproxy[12]: a b\n", "Local|134|Nov 21 22:00:00||haproxy|12||a b");
        check("<134>Nov  1 22:00:00 h.example su: x", "Rfc3164|134|Nov  1 22:00:00|h.example|su|||x");
        check("<5>Nov 21 22:00:00 no tag at all", "Local|5|Nov 21 22:00:00|||||no tag at all");
        check(
            "<165>1 2003-10-11T22:14:15.003Z host evntslog 7 ID47 [a b=\"]\"][c] text",
            "Rfc5424|165|2003-10-11T22:14:15.003Z|host|evntslog|7|[a b=\"]\"][c]|text",
        );
        check("<13>1 - - - - - - hi", "Rfc5424|13||||||hi");
        check("<13>1 - - - - -", "Rfc5424|13||||||");
        check("<13>just text", "Priority|13||||||just text");
        check("<192>too high", "Raw|-||||||<192>too high");
        check("<x>y", "Raw|-||||||<x>y");
        check("", "Raw|-||||||");
    }

    #[test]
    fn headers_are_written_in_other_formats() {
        let check = |message: &str, format, from: Option<&str>, expected: &str| {
            let received = Received {
                bsd: "Jan  1 00:00:00".to_owned(),
                iso: "2026-01-01T00:00:00Z".to_owned(),
                from: from.map(|from| from.parse().unwrap()),
                host: LogHost::Fill,
            };
            let mut out = Vec::new();
            Message::parse(message.as_bytes()).write_header(format, 134, &received, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{message} {format:?}");
        };
        let local = "<134>Nov 21 22:00:00 haproxy[12]: text";
        let full = "<134>1 2003-10-11T22:14:15.003Z host app 7 ID47 [a b=\"c\"] text";
        check(local, LogWire::Local, None, "<134>Nov 21 22:00:00 haproxy[12]: ");
        check(local, LogWire::Rfc3164, Some("192.0.2.1"), "<134>Nov 21 22:00:00 192.0.2.1 haproxy[12]: ");
        check(local, LogWire::Rfc3164, None, "<134>Nov 21 22:00:00 localhost haproxy[12]: ");
        check(local, LogWire::Rfc5424, None, "<134>1 2026-01-01T00:00:00Z - haproxy 12 - - ");
        check(
            full,
            LogWire::Rfc5424,
            Some("::1"),
            "<134>1 2003-10-11T22:14:15.003Z host app 7 ID47 [a b=\"c\"] ",
        );
        check(full, LogWire::Rfc3164, None, "<134>Jan  1 00:00:00 host app[7]: ");
        check(full, LogWire::Timed, None, "<6>2003-10-11T22:14:15.003Z ");
        check("text", LogWire::Priority, None, "<134>");
        check("text", LogWire::Raw, None, "");
        check("text", LogWire::Short, None, "<6>");
    }

    #[test]
    fn hosts_are_kept_or_replaced() {
        let check = |strategy, host: &str, from: Option<&str>, expected: &str| {
            let received = Received {
                bsd: String::new(),
                iso: String::new(),
                from: from.map(|from| from.parse().unwrap()),
                host: strategy,
            };
            let message = Message { host: host.as_bytes(), ..Message::raw(b"") };
            let found = message.host(&received, b"-");
            assert_eq!(String::from_utf8_lossy(&found), expected, "{strategy:?} {host} {from:?}");
        };
        let sender = Some("192.0.2.1");
        check(LogHost::Replace, "h", sender, "192.0.2.1");
        check(LogHost::Replace, "h", None, "h");
        check(LogHost::Replace, "", sender, "192.0.2.1");
        check(LogHost::Fill, "h", sender, "h");
        check(LogHost::Fill, "", sender, "192.0.2.1");
        check(LogHost::Fill, "", None, "-");
        check(LogHost::Keep, "h", sender, "h");
        check(LogHost::Keep, "", sender, "-");
        check(LogHost::Append, "h", sender, "h,192.0.2.1");
        check(LogHost::Append, "h", None, "h");
        check(LogHost::Append, "", sender, "192.0.2.1");
        check(LogHost::Append, "", None, "-");
    }

    #[test]
    fn streams_are_cut_into_messages() {
        let check =
            |bytes: &str, lines_only, expected| assert_eq!(frame(bytes.as_bytes(), lines_only), expected);
        check("<1>a\n<2>b", false, Frame::Message(0..4, 5));
        check("5 <1>ab<2>", false, Frame::Message(2..7, 7));
        check("5 <1>", false, Frame::Partial);
        check("5", false, Frame::Partial);
        check("", false, Frame::Partial);
        check("5 a\n", true, Frame::Message(0..3, 4));
        check("123456 a", false, Frame::Invalid);
        check("99999 a", false, Frame::Invalid);
        check("0 a", false, Frame::Invalid);
        check("5x", false, Frame::Invalid);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_fine(bytes: Vec<u8>, lines_only: bool) {
            let _message = Message::parse(&bytes);
            if let Frame::Message(range, used) = frame(&bytes, lines_only) {
                assert!(range.end <= used && used <= bytes.len());
            }
        }
    }
}
