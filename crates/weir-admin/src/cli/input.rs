//! From bytes to commands: lines, `;`, escapes, and payloads after `<<`.
//!
//! Pure: bytes in, lines out. Bounds: a line holds at most [`MAX_LINE_BYTES`] and [`MAX_COMMANDS`] commands, a
//! payload at most [`MAX_PAYLOAD_BYTES`].

use super::Request;

/// Longest line, as large as HAProxy's buffer.
pub(crate) const MAX_LINE_BYTES: usize = 16_384;
/// Longest payload unless the configuration says otherwise: certificates and parts of maps fit.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// Most commands on a line.
pub(crate) const MAX_COMMANDS: usize = 1024;
/// Most characters of a payload's own end mark, after `<<`.
const MAX_MARK_CHARACTERS: usize = 64;

/// Why a client cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooMuch {
    Line,
    Payload,
    Commands,
}

impl TooMuch {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Line => format!("The command is too big: more than {MAX_LINE_BYTES} bytes."),
            Self::Payload => "The payload is too big: see tune.cli.max-payload-size.".to_owned(),
            Self::Commands => format!("More than {MAX_COMMANDS} commands on a line."),
        }
    }
}

/// What was received and not yet understood.
#[derive(Debug, Default)]
pub(crate) struct Input {
    received: Vec<u8>,
    /// A line whose payload is not complete.
    waiting: Option<Waiting>,
    max_payload_bytes: Option<usize>,
}

#[derive(Debug)]
struct Waiting {
    commands: Vec<Request>,
    /// The line that ends the payload.
    mark: Vec<u8>,
    payload: Vec<u8>,
}

impl Input {
    /// Nothing received yet; payloads have at most so many bytes (`tune.cli.max-payload-size`).
    pub(crate) fn new(max_payload_bytes: Option<usize>) -> Self {
        Self { max_payload_bytes, ..Self::default() }
    }

    /// Takes what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// A payload has begun.
    pub(crate) fn in_payload(&self) -> bool {
        self.waiting.is_some()
    }

    /// The next line's commands, once they are complete; `ended` when nothing more will come.
    pub(crate) fn next(&mut self, ended: bool) -> Option<Result<Vec<Request>, TooMuch>> {
        loop {
            let (line, rest) = match self.received.iter().position(|byte| *byte == b'\n') {
                Some(end) => (self.received[..end].to_vec(), end + 1),
                None if self.received.len() > MAX_LINE_BYTES => return Some(Err(TooMuch::Line)),
                // A last line without its end is run, a payload without its end is not.
                None if ended && self.waiting.is_none() && !self.received.is_empty() => {
                    (self.received.clone(), self.received.len())
                }
                None => return None,
            };
            self.received.drain(..rest);
            if let Some(done) = self.line(line.strip_suffix(b"\r").unwrap_or(&line)) {
                return Some(done);
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Option<Result<Vec<Request>, TooMuch>> {
        if let Some(waiting) = &mut self.waiting {
            if line == waiting.mark {
                let mut waiting = self.waiting.take()?;
                if let Some(last) = waiting.commands.last_mut() {
                    last.payload = Some(waiting.payload);
                }
                return Some(Ok(waiting.commands));
            }
            waiting.payload.extend_from_slice(line);
            waiting.payload.push(b'\n');
            if waiting.payload.len() > self.max_payload_bytes.unwrap_or(MAX_PAYLOAD_BYTES) {
                self.waiting = None;
                return Some(Err(TooMuch::Payload));
            }
            return None;
        }
        if line.len() > MAX_LINE_BYTES {
            return Some(Err(TooMuch::Line));
        }
        let (line, mark) = without_mark(line);
        let commands = commands(line);
        if commands.len() > MAX_COMMANDS {
            return Some(Err(TooMuch::Commands));
        }
        match mark {
            Some(mark) => {
                self.waiting = Some(Waiting { commands, mark: mark.to_vec(), payload: Vec::new() });
                None
            }
            None => Some(Ok(commands)),
        }
    }
}

/// Takes `<<` or `<<MARK` from the end of a line.
fn without_mark(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    let trimmed = line.trim_ascii_end();
    let start = trimmed.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    match trimmed[start..].strip_prefix(b"<<") {
        Some(mark) if start > 0 && mark.len() <= MAX_MARK_CHARACTERS => (&trimmed[..start], Some(mark)),
        _ => (line, None),
    }
}

/// The commands of a line. A backslash takes the meaning from what follows it.
fn commands(line: &[u8]) -> Vec<Request> {
    let mut found = vec![Request::default()];
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.iter().copied();
    let end = |word: &mut Option<Vec<u8>>, found: &mut Vec<Request>| {
        if let (Some(word), Some(last)) = (word.take(), found.last_mut()) {
            last.words.push(String::from_utf8_lossy(&word).into_owned());
        }
    };
    while let Some(byte) = bytes.next() {
        match byte {
            b';' => {
                end(&mut word, &mut found);
                found.push(Request::default());
            }
            b' ' | b'\t' => end(&mut word, &mut found),
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    end(&mut word, &mut found);
    // `a;` is one command; a line of nothing is a command of nothing.
    while found.len() > 1 && found.last().is_some_and(|last| last.words.is_empty()) {
        found.pop();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &mut Input, ended: bool) -> String {
        let mut out = Vec::new();
        while let Some(line) = input.next(ended) {
            out.push(match line {
                Err(error) => format!("{error:?}"),
                Ok(commands) => {
                    let show = |c: &Request| match &c.payload {
                        Some(payload) => {
                            format!("{}<{}>", c.words.join("|"), String::from_utf8_lossy(payload))
                        }
                        None => c.words.join("|"),
                    };
                    commands.iter().map(show).collect::<Vec<_>>().join(" ; ")
                }
            });
        }
        out.join("\n")
    }

    #[test]
    fn lines_become_commands() {
        let check = |text: &str, expected: &str| {
            let mut input = Input::default();
            input.push(text.as_bytes());
            assert_eq!(all(&mut input, true), expected, "{text:?}");
        };
        check("show info\n", "show|info");
        check("show  info\r\n", "show|info");
        check("show info", "show|info");
        check("a;b c\n", "a ; b|c");
        check("a;\n", "a");
        check("\n", "");
        check("add acl f Mon\\ User\\ Agent\\;\n", "add|acl|f|Mon User Agent;");
        check("a\\\\b\n", "a\\b");
        check("a\nb\n", "a\nb");
        check("add map m <<\nk v\nx y z\n\nnext\n", "add|map|m<k v\nx y z\n>\nnext");
        check("set x <<%EOF%\nk\n\nv\n%EOF%\n", "set|x<k\n\nv\n>");
        check("a;add map m <<\nk v\n\n", "a ; add|map|m<k v\n>");
        check("add map m<<\n", "add|map|m<<");
        // Cut off: not run.
        check("add map m <<\nk v\n", "");
    }

    #[test]
    fn pieces_make_the_same_lines() {
        let text = "add map m <<\nk v\n\nshow info; show stat\n";
        let mut input = Input::default();
        let mut seen = Vec::new();
        for byte in text.as_bytes() {
            input.push(&[*byte]);
            seen.push(all(&mut input, false));
        }
        seen.retain(|line| !line.is_empty());
        assert_eq!(seen, ["add|map|m<k v\n>", "show|info ; show|stat"]);
    }

    #[test]
    fn everything_has_a_bound() {
        let check = |text: String, expected: &str| {
            let mut input = Input::default();
            input.push(text.as_bytes());
            assert_eq!(all(&mut input, false).lines().next(), Some(expected));
        };
        check("x".repeat(MAX_LINE_BYTES + 1) + "\n", "Line");
        check(format!("a <<\n{}", "0123456789abcdef\n".repeat(MAX_PAYLOAD_BYTES / 16)), "Payload");
        check("a;".repeat(MAX_COMMANDS + 1) + "b\n", "Commands");
        let mut endless = Input::default();
        endless.push(&vec![b'x'; MAX_LINE_BYTES + 1]);
        assert_eq!(endless.next(false), Some(Err(TooMuch::Line)));
    }
}
