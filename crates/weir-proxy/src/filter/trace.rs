//! The trace filter: prints on standard error what passes it, and can split bodies at random places, to test the
//! filters around it. Manual, section 9.1.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::rc::Rc;
use std::time::SystemTime;

use weir_compress::Ending;
use weir_config::model;
use weir_http::Fields;

use super::Direction;
use crate::exchange::Exchange;

/// Bytes of a line of a dump.
const DUMP_BYTES: usize = 16;

/// A `filter trace` line.
#[derive(Debug)]
pub(super) struct Settings {
    filter: model::TraceFilter,
    /// The filter's name and the proxy's.
    label: String,
}

impl Settings {
    pub(super) fn new(filter: &model::TraceFilter, proxy: &model::Proxy) -> Self {
        Self { filter: filter.clone(), label: format!("{}/{}", filter.name, proxy.name) }
    }

    #[cfg(test)]
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Prints lines, each after the time, the filter's name and the stream's number.
    fn print(&self, stream: u64, lines: &str) {
        if self.filter.quiet {
            return;
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let mut text = String::new();
        for line in lines.lines() {
            // A line of a dump belongs to the one before. Writing to memory cannot fail.
            let written = if line.starts_with("\t0x") {
                writeln!(text, "{line}")
            } else {
                let (seconds, micros) = (now.as_secs(), now.subsec_micros());
                writeln!(text, "{seconds}.{micros:06} [{:<20}] [strm {stream:#x}] {line}", self.label)
            };
            written.unwrap_or_default();
        }
        // A program whose standard error is closed has nobody to tell.
        let _told = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Prints a head.
pub(super) fn head(x: &Exchange, settings: &Settings, direction: Direction) {
    if settings.filter.quiet {
        return;
    }
    let lines = match (direction, &x.txn.response) {
        (Direction::Response, Some(response)) => {
            let reason = String::from_utf8_lossy(response.fields.bytes(response.reason)).into_owned();
            head_lines(direction, &format!("HTTP/1.1 {} {reason}", response.status), &response.fields)
        }
        _ => {
            let request = &x.txn.request;
            let method = String::from_utf8_lossy(request.fields.bytes(request.method_name));
            let uri = String::from_utf8_lossy(request.fields.bytes(request.uri));
            head_lines(direction, &format!("{method} {uri} HTTP/1.1"), &request.fields)
        }
    };
    settings.print(stream(x), &lines);
}

/// The number of the exchange, to tell lines of different ones apart.
fn stream(x: &Exchange) -> u64 {
    u64::from(x.txn.request_counter)
}

fn event(name: &str, direction: Direction) -> String {
    let channel = match direction {
        Direction::Request => "REQUEST",
        Direction::Response => "RESPONSE",
    };
    format!("{name:<25}: channel={channel:<10} - mode=HTTP")
}

fn head_lines(direction: Direction, start: &str, fields: &Fields) -> String {
    let mut lines = format!("{}\t{start}\n", event("trace_http_headers", direction));
    for field in fields.list() {
        let (name, value) = (fields.bytes(field.name), fields.bytes(field.value));
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        // Writing to memory cannot fail.
        writeln!(lines, "\t{name}: {value}").unwrap_or_default();
    }
    lines
}

/// A body that passes the filter.
#[derive(Debug)]
pub(super) struct Body {
    settings: Rc<Settings>,
    direction: Direction,
    stream: u64,
    offset: u64,
    random: Cell<u64>,
}

impl Body {
    pub(super) fn new(x: &Exchange, settings: &Rc<Settings>, direction: Direction) -> Box<Self> {
        Box::new(Self {
            settings: Rc::clone(settings),
            direction,
            stream: stream(x),
            offset: 0,
            random: Cell::new(x.worker.env.random() | 1),
        })
    }

    /// Passes a piece on, in as many parts as configured.
    pub(super) fn forward(&mut self, piece: &[u8], ending: Ending, mut next: impl FnMut(&[u8], Ending)) {
        let mut left = piece;
        while !left.is_empty() {
            let (part, rest) = left.split_at(self.part(left.len()));
            self.print_payload(left.len(), part);
            let ending = if rest.is_empty() { ending } else { Ending::Open };
            self.print_end(ending);
            next(part, ending);
            self.offset += part.len() as u64;
            left = rest;
        }
        if piece.is_empty() {
            self.print_end(ending);
            next(piece, ending);
        }
    }

    fn print_end(&self, ending: Ending) {
        if ending == Ending::Finish {
            self.settings.print(self.stream, &event("trace_http_end", self.direction));
        }
    }

    /// How much of what is there goes on now.
    fn part(&self, available: usize) -> usize {
        let filter = &self.settings.filter;
        let most = filter.max_forward_bytes.most().map_or(available, |most| available.min(most));
        if filter.random_forwarding { 1 + self.random() as usize % most } else { most }
    }

    /// xorshift64: any numbers do, as long as they differ.
    fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x >> 1
    }

    fn print_payload(&self, available: usize, part: &[u8]) {
        let Settings { filter, .. } = &*self.settings;
        if filter.quiet {
            return;
        }
        let mut lines = format!(
            "{} - offset={} - len={available} - forward={}\n",
            event("trace_http_payload", self.direction),
            self.offset,
            part.len()
        );
        if filter.hexdump {
            dump(part, &mut lines);
        }
        self.settings.print(self.stream, &lines);
    }
}

/// Sixteen bytes a line, as numbers and as text.
fn dump(bytes: &[u8], out: &mut String) {
    for (at, line) in bytes.chunks(DUMP_BYTES).enumerate() {
        let mut numbers = String::new();
        for (i, byte) in line.iter().enumerate() {
            let gap = if i == DUMP_BYTES / 2 { "  " } else { "" };
            // Writing to memory cannot fail.
            write!(numbers, "{gap}{byte:02x} ").unwrap_or_default();
        }
        let text: String = line
            .iter()
            .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
            .collect();
        writeln!(out, "\t0x{:06x}: {numbers:<52}|{text}|", at * DUMP_BYTES).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use weir_balance::Limit;

    use super::*;

    fn body(filter: model::TraceFilter) -> Body {
        let filter = model::TraceFilter { quiet: true, ..filter };
        Body {
            settings: Rc::new(Settings { filter, label: "t/f".to_owned() }),
            direction: Direction::Response,
            stream: 1,
            offset: 0,
            random: Cell::new(7),
        }
    }

    #[test]
    fn bodies_pass_in_parts() {
        let check = |random_forwarding, most: usize, expected: Option<&[usize]>| {
            let max_forward_bytes = Limit::new(most);
            let filter = model::TraceFilter { random_forwarding, max_forward_bytes, ..Default::default() };
            let (mut body, piece) = (body(filter), b"0123456789".repeat(5));
            let (mut passed, mut sizes, mut endings) = (Vec::new(), Vec::new(), Vec::new());
            body.forward(&piece, Ending::Finish, |part, ending| {
                passed.extend_from_slice(part);
                sizes.push(part.len());
                endings.push(ending);
            });
            assert_eq!(passed, piece);
            // Only the last part ends the body.
            assert_eq!(endings.pop(), Some(Ending::Finish));
            assert!(endings.iter().all(|ending| *ending == Ending::Open));
            match expected {
                Some(expected) => assert_eq!(sizes, expected),
                None => assert!(sizes.len() > 1 && sizes.iter().all(|n| *n <= most.max(50))),
            }
        };
        check(false, 0, Some(&[50]));
        check(false, 20, Some(&[20, 20, 10]));
        check(true, 0, None);
        check(true, 7, None);
    }

    #[test]
    fn an_end_without_bytes_passes() {
        let mut ends = 0;
        body(model::TraceFilter::default()).forward(b"", Ending::Finish, |part, ending| {
            assert!(part.is_empty() && ending == Ending::Finish);
            ends += 1;
        });
        assert_eq!(ends, 1);
    }

    #[test]
    fn dumps_have_numbers_and_text() {
        let mut out = String::new();
        dump(b"<p>hello world</p>\n", &mut out);
        assert_eq!(
            out,
            "\t0x000000: 3c 70 3e 68 65 6c 6c 6f   20 77 6f 72 6c 64 3c 2f   |<p>hello world</|\n\
             \t0x000010: 70 3e 0a                                            |p>.|\n"
        );
    }

    #[test]
    fn heads_are_shown_field_by_field() {
        let mut fields = Fields::default();
        fields.push(b"vary", b"Accept-Encoding");
        assert_eq!(
            head_lines(Direction::Response, "HTTP/1.1 200 OK", &fields),
            "trace_http_headers       : channel=RESPONSE   - mode=HTTP\tHTTP/1.1 200 OK\n\
             \tvary: Accept-Encoding\n"
        );
    }
}
