//! Checks by other protocols: what is said and which answers are good (`option smtpchk` and its like).
//!
//! Each is a short script for [`super::script`]; the judgements are functions of the bytes received so far.

use weir_config::model::OtherCheck;

use super::script::Step;
use super::status::Status;

/// An answer that a protocol expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// SMTP: 2xx on connecting.
    SmtpGreeting,
    /// SMTP: 2xx after HELO or EHLO, maybe on several lines.
    SmtpHello,
    /// SMTP: 2xx after QUIT.
    SmtpQuit,
    /// PostgreSQL: a request for authentication.
    Pgsql,
    Redis,
    /// LDAP: a bind response.
    Ldap,
    /// MySQL: the server's handshake.
    MysqlHandshake,
    /// MySQL: the packet after the handshake.
    MysqlReply,
    /// Any TLS record of a handshake or an alert.
    TlsHello,
}

/// What an answer is worth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// More bytes are needed.
    Wait,
    Passed {
        code: u16,
        info: Vec<u8>,
    },
    Failed {
        status: Status,
        code: u16,
        info: Vec<u8>,
    },
}

/// The script of a protocol.
pub(crate) fn steps(check: &OtherCheck) -> Vec<Step<'static>> {
    use Step::{Bytes, Protocol};
    match check {
        OtherCheck::SslHello => vec![Bytes(client_hello()), Protocol(Answer::TlsHello)],
        OtherCheck::Redis => vec![Bytes(b"*1\r\n$4\r\nPING\r\n".to_vec()), Protocol(Answer::Redis)],
        OtherCheck::Ldap => vec![Bytes(LDAP_BIND.to_vec()), Protocol(Answer::Ldap)],
        OtherCheck::Pgsql { user } => vec![Bytes(pgsql_startup(user)), Protocol(Answer::Pgsql)],
        OtherCheck::Mysql { user: None, .. } => vec![Protocol(Answer::MysqlHandshake)],
        OtherCheck::Mysql { user: Some(user), pre_41 } => {
            vec![
                Bytes(mysql_login(user, *pre_41)),
                Protocol(Answer::MysqlHandshake),
                Protocol(Answer::MysqlReply),
            ]
        }
        OtherCheck::Smtp { hello, domain } => vec![
            Protocol(Answer::SmtpGreeting),
            Bytes(format!("{hello} {domain}\r\n").into_bytes()),
            Protocol(Answer::SmtpHello),
            Bytes(b"QUIT\r\n".to_vec()),
            Protocol(Answer::SmtpQuit),
        ],
        // A program asks in its own way.
        OtherCheck::External => Vec::new(),
    }
}

impl Answer {
    /// Judges what was received; `last` when nothing more will come.
    pub(crate) fn judge(self, input: &[u8], last: bool) -> Judgement {
        let judged = match self {
            Self::SmtpGreeting | Self::SmtpHello | Self::SmtpQuit => smtp(input, self == Self::SmtpHello),
            Self::Pgsql => pgsql(input),
            Self::Redis => redis(input),
            Self::Ldap => ldap(input),
            Self::MysqlHandshake => mysql_packet(input, 0),
            Self::MysqlReply => mysql_packet(input, mysql_end(input, 0).unwrap_or(input.len())),
            Self::TlsHello => tls_hello(input),
        };
        match judged {
            Judgement::Wait if last => self.cut_short(input),
            judged => judged,
        }
    }

    /// The connection ended before the answer was whole.
    fn cut_short(self, input: &[u8]) -> Judgement {
        let failed = |status, info: &[u8]| Judgement::Failed { status, code: 0, info: info.to_vec() };
        match self {
            Self::SmtpGreeting | Self::SmtpHello | Self::SmtpQuit => {
                failed(Status::L7Response, first_line(input))
            }
            Self::Pgsql => failed(Status::L7Status, b"PostgreSQL unknown error"),
            Self::Redis => failed(Status::L7Status, first_line(input)),
            Self::Ldap => failed(Status::L7Response, b"Not LDAPv3 protocol"),
            Self::MysqlHandshake => failed(Status::L7Response, b"MySQL handshake packet too short"),
            Self::MysqlReply => failed(Status::L7Response, b"MySQL OK packet too short"),
            Self::TlsHello => failed(Status::L6Response, b""),
        }
    }

    /// Status of a check that ends with this answer.
    pub(crate) fn ok_status(self) -> Status {
        if self == Self::TlsHello { Status::L6Ok } else { Status::L7Ok }
    }

    /// Status when the answer does not come in time.
    pub(crate) fn timeout_status(self) -> Status {
        if self == Self::TlsHello { Status::L6Timeout } else { Status::L7Timeout }
    }

    /// Status when nothing is answered at all.
    pub(crate) fn empty_status(self) -> Status {
        if self == Self::TlsHello { Status::L6Response } else { Status::L7Response }
    }
}

fn passed(info: &[u8]) -> Judgement {
    Judgement::Passed { code: 0, info: info.to_vec() }
}

fn first_line(input: &[u8]) -> &[u8] {
    let end = input.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(input.len());
    &input[..end]
}

/// RFC 5321 section 4.2: three digits, then a space (or the line's end), or `-` when more lines follow.
fn smtp(input: &[u8], several_lines: bool) -> Judgement {
    let mut rest = input;
    loop {
        if rest.len() < 4 {
            return Judgement::Wait;
        }
        let line = first_line(rest);
        let code = rest[..3].iter().try_fold(0_u16, |code, digit| {
            digit.is_ascii_digit().then(|| code * 10 + u16::from(digit - b'0'))
        });
        let (Some(code), b' ' | b'-' | b'\r' | b'\n') = (code, rest[3]) else {
            if line.len() == rest.len() {
                return Judgement::Wait;
            }
            return Judgement::Failed { status: Status::L7Response, code: 0, info: line.to_vec() };
        };
        if line.len() == rest.len() {
            return Judgement::Wait;
        }
        let info = line.get(4..).unwrap_or_default().trim_ascii_start().to_vec();
        if !(200..300).contains(&code) {
            return Judgement::Failed { status: Status::L7Status, code, info };
        }
        if rest[3] != b'-' || !several_lines {
            return Judgement::Passed { code, info };
        }
        let Some(end) = rest.iter().position(|b| *b == b'\n') else { return Judgement::Wait };
        rest = &rest[end + 1..];
    }
}

/// The startup message of protocol 3.0, with the user as the only parameter.
fn pgsql_startup(user: &str) -> Vec<u8> {
    let mut body = Vec::from(196_608_u32.to_be_bytes());
    for text in ["user", user] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let mut message = Vec::from((body.len() as u32 + 4).to_be_bytes());
    message.append(&mut body);
    message
}

/// `R` asks for (or confirms) authentication, `E` is an error with fields, the first of which is its severity.
fn pgsql(input: &[u8]) -> Judgement {
    match input {
        [] => Judgement::Wait,
        [b'E', _, _, _, _, fields @ ..] if !fields.is_empty() => Judgement::Failed {
            status: Status::L7Response,
            code: 0,
            info: fields.get(1..).unwrap_or_default().to_vec(),
        },
        [b'E', ..] => Judgement::Wait,
        [b'R', _, _, _, _, kind @ ..] => match kind.get(..4) {
            None => Judgement::Wait,
            Some([0, 0, 0, 0..=12]) => passed(b"PostgreSQL server is ok"),
            Some(_) => pgsql_unknown(),
        },
        [b'R', ..] => Judgement::Wait,
        _ => pgsql_unknown(),
    }
}

fn pgsql_unknown() -> Judgement {
    let info = b"PostgreSQL unknown error".to_vec();
    Judgement::Failed { status: Status::L7Status, code: 0, info }
}

fn redis(input: &[u8]) -> Judgement {
    if input.starts_with(b"+PONG\r\n") {
        return passed(b"Redis server is ok");
    }
    match input.contains(&b'\n') {
        true => Judgement::Failed { status: Status::L7Status, code: 0, info: first_line(input).to_vec() },
        false => Judgement::Wait,
    }
}

/// RFC 4511 section 4.2: an anonymous bind of version 3, message 1.
const LDAP_BIND: &[u8] = &[0x30, 0x0c, 2, 1, 1, 0x60, 7, 2, 1, 3, 4, 0, 0x80, 0];

/// Length of a BER element's contents and what follows, or nothing while it is incomplete.
fn ber_length(input: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = input.split_first()?;
    if *first < 0x80 {
        return Some((usize::from(*first), rest));
    }
    let count = usize::from(first & 0x7f);
    let (octets, rest) = rest.split_at_checked(count)?;
    // A length beyond the machine's words is none that a check waits for.
    let length = octets.iter().fold(0_usize, |length, octet| length << 8 | usize::from(*octet));
    Some((length, rest))
}

/// RFC 4511 section 4.1.1 and 4.2.2: a message with a bind response and its result code.
fn ldap(input: &[u8]) -> Judgement {
    let foreign =
        || Judgement::Failed { status: Status::L7Response, code: 0, info: b"Not LDAPv3 protocol".to_vec() };
    let parse = || -> Option<Result<u8, ()>> {
        let (0x30, rest) = input.split_first()? else { return Some(Err(())) };
        let (_, rest) = ber_length(rest)?;
        let (0x02, rest) = rest.split_first()? else { return Some(Err(())) };
        let (id_length, rest) = ber_length(rest)?;
        let (_, rest) = rest.split_at_checked(id_length)?;
        let (0x61, rest) = rest.split_first()? else { return Some(Err(())) };
        let (_, rest) = ber_length(rest)?;
        match rest.get(..3)? {
            [0x0a, 1, code] => Some(Ok(*code)),
            _ => Some(Err(())),
        }
    };
    match parse() {
        None => Judgement::Wait,
        Some(Err(())) => foreign(),
        Some(Ok(0)) => passed(b"Success"),
        Some(Ok(code)) => Judgement::Failed {
            status: Status::L7Status,
            code: u16::from(code),
            info: b"See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9".to_vec(),
        },
    }
}

/// A handshake response with the user's name and no password, then QUIT.
fn mysql_login(user: &str, pre_41: bool) -> Vec<u8> {
    let mut body = Vec::new();
    if pre_41 {
        // Capabilities and largest packet.
        body.extend_from_slice(&[0x00, 0x80, 0x00, 0x00, 0x01]);
    } else {
        // Capabilities (protocol 4.1, secure connection), largest packet, character set, filler.
        body.extend_from_slice(&[0x00, 0x82, 0x00, 0x00, 0x00, 0x80, 0x00, 0x01, 0x21]);
        body.extend_from_slice(&[0; 23]);
    }
    body.extend_from_slice(user.as_bytes());
    body.extend_from_slice(&[0, 0]);
    let mut message = Vec::from(&(body.len() as u32).to_le_bytes()[..3]);
    message.push(1);
    message.append(&mut body);
    message.extend_from_slice(&[1, 0, 0, 0, 1]);
    message
}

/// Where the packet that starts at `start` ends.
fn mysql_end(input: &[u8], start: usize) -> Option<usize> {
    let length = input.get(start..start + 3)?;
    let length = usize::from(length[0]) | usize::from(length[1]) << 8 | usize::from(length[2]) << 16;
    Some(start + 4 + length)
}

/// A whole packet: an error is told, a handshake passes with the server's version.
fn mysql_packet(input: &[u8], start: usize) -> Judgement {
    let Some(body) = mysql_end(input, start).and_then(|end| input.get(start + 4..end)) else {
        return Judgement::Wait;
    };
    match body {
        [0xff, low, high, text @ ..] => {
            // Since 4.1 a state of five characters stands before the text.
            let text = match text {
                [b'#', rest @ ..] if rest.len() >= 5 => &rest[5..],
                text => text,
            };
            let code = u16::from_le_bytes([*low, *high]);
            Judgement::Failed { status: Status::L7Status, code, info: text.to_vec() }
        }
        [_, version @ ..] if start == 0 => passed(version.split(|b| *b == 0).next().unwrap_or_default()),
        [_, ..] => passed(b""),
        [] => Judgement::Failed {
            status: Status::L7Response,
            code: 0,
            info: b"MySQL handshake packet too short".to_vec(),
        },
    }
}

/// RFC 8446 section 5.1: a record of an alert (21) or a handshake (22).
fn tls_hello(input: &[u8]) -> Judgement {
    match input {
        [21 | 22, 3, _, _, _, ..] => passed(b""),
        [21 | 22, ..] if input.len() < 5 => Judgement::Wait,
        [] => Judgement::Wait,
        _ => Judgement::Failed { status: Status::L6Response, code: 0, info: Vec::new() },
    }
}

/// RFC 5246 section 7.4.1.2: a ClientHello without extensions.  Any TLS server answers it, be it with an alert.
fn client_hello() -> Vec<u8> {
    // ECDHE and RSA suites of TLS 1.2, the mandatory ones of 1.1 and 1.0.
    const SUITES: [u16; 12] =
        [0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d, 0x002f, 0x000a];
    let mut body = vec![0x03, 0x03];
    // The random need not be one: nothing is ever agreed upon.
    body.extend_from_slice(b"health check of a load balancer.");
    // No session.
    body.push(0);
    body.extend_from_slice(&(2 * SUITES.len() as u16).to_be_bytes());
    body.extend(SUITES.iter().flat_map(|suite| suite.to_be_bytes()));
    // No compression.
    body.extend_from_slice(&[1, 0]);
    let mut hello = vec![22, 0x03, 0x01];
    hello.extend_from_slice(&(body.len() as u16 + 4).to_be_bytes());
    hello.extend_from_slice(&[1, 0]);
    hello.extend_from_slice(&(body.len() as u16).to_be_bytes());
    hello.append(&mut body);
    hello
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
        digits.chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
    }

    fn told(answer: Answer, input: &[u8], last: bool) -> String {
        match answer.judge(input, last) {
            Judgement::Wait => "wait".into(),
            Judgement::Passed { code, info } => format!("ok {code} {}", info.escape_ascii()),
            Judgement::Failed { status, code, info } => {
                format!("{} {code} {}", status.name(), info.escape_ascii())
            }
        }
    }

    #[test]
    fn smtp_answers() {
        let check = |answer, input: &str, last, expected: &str| {
            assert_eq!(told(answer, input.as_bytes(), last), expected, "{input}");
        };
        check(Answer::SmtpGreeting, "22", false, "wait");
        check(Answer::SmtpGreeting, "220 ready\r\n", false, "ok 220 ready");
        check(Answer::SmtpGreeting, "220\r\n", false, "ok 220 ");
        check(Answer::SmtpGreeting, "220 rea", false, "wait");
        check(Answer::SmtpGreeting, "421 Try again later\r\n", false, "L7STS 421 Try again later");
        check(Answer::SmtpGreeting, "I'm not\r\n", false, "L7RSP 0 I\\'m not");
        check(Answer::SmtpGreeting, "I'm n", true, "L7RSP 0 I\\'m n");
        check(Answer::SmtpHello, "250-a\r\n250-b\r\n", false, "wait");
        check(Answer::SmtpHello, "250-a\r\n250-b\r\n250 c\r\n", false, "ok 250 c");
        check(Answer::SmtpHello, "512 DNS error\r\n", false, "L7STS 512 DNS error");
    }

    #[test]
    fn binary_answers() {
        let check = |answer, input: &str, expected: &str| {
            assert_eq!(told(answer, &bytes(input), false), expected, "{input}");
        };
        check(Answer::Ldap, "300C020101 61 070A01 00 04000400", "ok 0 Success");
        check(Answer::Ldap, "300C020101 60 070A01 00 04000400", "L7RSP 0 Not LDAPv3 protocol");
        check(
            Answer::Ldap,
            "300C020101 61 070A01 01 04000400",
            "L7STS 1 See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9",
        );
        check(Answer::Ldap, "308400000010020101 61 84000000070A01", "wait");
        check(Answer::Ldap, "308400000010020101 61 84000000070A0100", "ok 0 Success");
        check(Answer::Pgsql, "520000000800000000", "ok 0 PostgreSQL server is ok");
        check(
            Answer::Pgsql,
            "52000000170000000A534352414D2D5348412D3235360000",
            "ok 0 PostgreSQL server is ok",
        );
        check(Answer::Pgsql, "450000000B53464154414C00", "L7RSP 0 FATAL\\x00");
        check(Answer::Pgsql, "4E6F7420", "L7STS 0 PostgreSQL unknown error");
        check(Answer::MysqlHandshake, "060000000A382E302E00", "ok 0 8.0.");
        check(Answer::MysqlHandshake, "060000000A38", "wait");
        check(Answer::MysqlReply, "020000000A00 03000002000000", "ok 0 ");
        check(Answer::MysqlReply, "020000000A00 05000002FFE3044869", "L7STS 1251 Hi");
        check(Answer::MysqlReply, "020000000A00 0500", "wait");
        check(Answer::TlsHello, "1503000002", "ok 0 ");
        check(Answer::TlsHello, "485454502F", "L6RSP 0 ");
    }

    #[test]
    fn redis_answers() {
        assert_eq!(told(Answer::Redis, b"+PONG\r\n", false), "ok 0 Redis server is ok");
        assert_eq!(told(Answer::Redis, b"+PO", false), "wait");
        assert_eq!(told(Answer::Redis, b"-Error message\r\n", false), "L7STS 0 -Error message");
    }

    #[test]
    fn any_bytes_are_judged() {
        use Answer::*;
        let answers =
            [SmtpGreeting, SmtpHello, SmtpQuit, Pgsql, Redis, Ldap, MysqlHandshake, MysqlReply, TlsHello];
        let ff = "FF".repeat(140);
        for input in ["30FFFFFFFFFF", "3082FFFF020101", "450000000053", "FFFFFF000A", "00000000", &ff] {
            let input = bytes(input);
            for (answer, len) in answers.iter().flat_map(|a| (0..=input.len()).map(move |len| (a, len))) {
                let last = answer.judge(&input[..len], true);
                assert_ne!(last, Judgement::Wait, "{answer:?} {len}");
                answer.judge(&input[..len], false);
            }
        }
    }

    #[test]
    fn questions() {
        assert_eq!(pgsql_startup("postgres"), bytes("00000017000300007573657200706f7374677265730000"));
        assert_eq!(mysql_login("user", true), bytes("0B00000100800000017573657200000100000001"));
        let login = "2600000100820000008000012100000000000000000000000000000000000000000000007573657200\
                     000100000001";
        assert_eq!(mysql_login("user", false), bytes(login));
        let hello = client_hello();
        assert_eq!(hello.len(), 5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])));
    }
}
