//! What each log-format alias prints: `%ci`, `%tr`, `%ST`, `%hr`, ...

use std::net::{IpAddr, SocketAddr};

use crate::expr::log_style::{Options, Style, print_missing, print_text};
use crate::facts::Figure;
use crate::value::Value;
use crate::value::codec::push_hex;
use crate::value::date;
use crate::{Diagnostic, Txn, Word};

macro_rules! aliases {
    ($($variant:ident = $text:literal),* $(,)?) => {
        /// An alias of the table in section 8.2.6.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Alias { $($variant),* }

        impl Alias {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),*];
        }
    };
}

aliases! {
    AcceptUtc = "T", AcceptLocal = "Tl", AcceptSeconds = "Ts", AcceptMs = "t", AcceptMillis = "ms",
    RequestMs = "tr", RequestUtc = "trg", RequestLocal = "trl",
    Ta = "Ta", Tc = "Tc", Td = "Td", Th = "Th", Ti = "Ti", Tq = "Tq", TR = "TR", Tr = "Tr", Tt = "Tt", Tu = "Tu", Tw = "Tw",
    BytesRead = "B", BytesUploaded = "U", RequestCookie = "CC", ResponseCookie = "CS", Hostname = "H",
    HttpMethod = "HM", HttpPath = "HP", HttpPathOnly = "HPO", HttpQuery = "HQ", HttpUri = "HU", HttpVersion = "HV",
    UniqueId = "ID", Status = "ST", ActiveConn = "ac", Backend = "b", BackendConn = "bc", BackendIp = "bi", BackendPort = "bp",
    BackendQueue = "bq", ClientIp = "ci", ClientPort = "cp", Frontend = "f", FrontendConn = "fc", FrontendIp = "fi",
    FrontendPort = "fp", FrontendTransport = "ft", LogCounter = "lc", RequestHeaders = "hr", RequestHeaderList = "hrl",
    ResponseHeaders = "hs", ResponseHeaderList = "hsl", Origin = "OG", Pid = "pid", Request = "r", Retries = "rc",
    RequestCounter = "rt", Server = "s", ServerConn = "sc", ServerIp = "si", ServerPort = "sp", ServerQueue = "sq",
    TlsCipher = "sslc", TlsVersion = "sslv", Termination = "ts", TerminationCookie = "tsc",
}

/// What stands for a request that was none.
const BAD_REQUEST: &[u8] = b"<BADREQ>";

impl Alias {
    /// The alias with this name.
    pub(crate) fn parse(word: &Word) -> Result<Self, Diagnostic> {
        let found = Self::ALL.iter().find(|(name, _)| name.as_bytes() == word.text).map(|(_, alias)| *alias);
        found.ok_or_else(|| {
            Diagnostic::unknown("log format alias", word, Self::ALL.iter().map(|(name, _)| *name))
        })
    }

    /// Prints it.
    pub(crate) fn render(self, txn: &Txn, options: Options, out: &mut Vec<u8>) {
        match self {
            Self::RequestHeaders => print_captures(&txn.request_captures, options, out),
            Self::ResponseHeaders => print_captures(&txn.response_captures, options, out),
            Self::RequestHeaderList => print_capture_list(&txn.request_captures, options, out),
            Self::ResponseHeaderList => print_capture_list(&txn.response_captures, options, out),
            _ => self.render_plain(txn, options, out),
        }
    }

    fn render_plain(self, txn: &Txn, options: Options, out: &mut Vec<u8>) {
        match self.value(txn, options) {
            // Incomplete totals are marked, and retries that went to another server.
            Some(Value::Int(n)) => {
                let total = matches!(
                    self,
                    Self::BytesRead | Self::BytesUploaded | Self::Ta | Self::Td | Self::Tt | Self::Tu
                );
                if (total && txn.log_asap) || (self == Self::Retries && txn.redispatched) {
                    out.push(b'+');
                }
                Value::Int(n).append_to(out);
            }
            Some(value) => print_text(&value.into_bytes(), self.unquoted(options), out),
            None => print_missing(options, out),
        }
    }

    /// Dates and termination states are never quoted.
    fn unquoted(self, mut options: Options) -> Options {
        let never = matches!(
            self,
            Self::AcceptUtc
                | Self::AcceptLocal
                | Self::AcceptSeconds
                | Self::AcceptMs
                | Self::AcceptMillis
                | Self::RequestMs
                | Self::RequestUtc
                | Self::RequestLocal
                | Self::Termination
                | Self::TerminationCookie
                | Self::Pid
                | Self::RequestCounter
        );
        options.quote &= !never;
        options
    }

    /// Its value; `None` prints as missing.
    pub(crate) fn value<'a>(self, txn: &'a Txn, options: Options) -> Option<Value<'a>> {
        let t = &txn.timers;
        let ms = |ms: Option<u32>| Some(Value::Int(ms.map_or(-1, i64::from)));
        let accept = txn.session.accept_us;
        let start = if t.start_us > 0 { t.start_us } else { accept };
        match self {
            Self::AcceptUtc => Some(date_utc(accept)),
            Self::AcceptLocal => Some(date_local(accept, txn)),
            Self::AcceptSeconds if options.hex => Some(hex_number((accept / 1_000_000) as u32, 8)),
            Self::AcceptSeconds => Some(Value::Int((accept / 1_000_000) as i64)),
            Self::AcceptMs => Some(date_ms(accept, txn)),
            Self::AcceptMillis => Some(Value::owned(format!("{:03}", accept / 1000 % 1000).into_bytes())),
            Self::RequestMs => Some(date_ms(start, txn)),
            Self::RequestUtc => Some(date_utc(start)),
            Self::RequestLocal => Some(date_local(start, txn)),
            Self::Ta => ms(t.active_ms),
            Self::Tc => ms(t.connect_ms),
            Self::Td => ms(t.data_ms),
            Self::Th => Some(Value::Int(i64::from(t.handshake_ms.unwrap_or(0)))),
            Self::Ti => Some(Value::Int(i64::from(t.idle_ms.unwrap_or(0)))),
            Self::Tq => Some(Value::Int(t.tq_ms())),
            Self::TR => ms(t.request_ms),
            Self::Tr => ms(t.response_ms),
            Self::Tt => ms(t.total_ms),
            Self::Tu => ms(t.user_ms()),
            Self::Tw => ms(t.queue_ms),
            Self::BytesRead => Some(Value::Int(txn.bytes_out as i64)),
            Self::BytesUploaded => Some(Value::Int(txn.bytes_in as i64)),
            Self::RequestCookie => txn.cookie_captures[0].as_deref().map(Value::text),
            Self::ResponseCookie => txn.cookie_captures[1].as_deref().map(Value::text),
            Self::Hostname => Some(Value::text(txn.env.hostname().as_bytes())),
            Self::HttpMethod => Some(Value::text(start_line_part(txn.original_method()))),
            Self::HttpPath | Self::HttpPathOnly | Self::HttpQuery | Self::HttpUri | Self::Request => {
                Some(Value::owned(self.start_line(txn)))
            }
            Self::HttpVersion if txn.original_method().is_empty() => Some(Value::text(BAD_REQUEST)),
            Self::HttpVersion => Some(Value::text(txn.request.version.as_str().as_bytes())),
            Self::UniqueId => txn.unique_id().map(Value::text),
            // No status was ever there: HAProxy's -1.
            Self::Status if txn.status == 0 => Some(Value::Int(-1)),
            Self::Status => Some(Value::Int(i64::from(txn.status))),
            Self::LogCounter => Some(Value::Int(i64::from(txn.env.log_counter(txn.session.frontend.index)))),
            Self::Origin => Some(Value::text(txn.log_origin.get().name().as_bytes())),
            Self::Pid if options.hex => Some(hex_number(txn.env.pid(), 4)),
            Self::Pid => Some(Value::Int(i64::from(txn.env.pid()))),
            Self::Retries => Some(Value::Int(i64::from(txn.retries))),
            Self::RequestCounter if options.hex => Some(hex_number(txn.request_counter, 4)),
            Self::RequestCounter => Some(Value::Int(i64::from(txn.request_counter))),
            Self::TlsCipher => txn.session.tls.as_ref().map(|f| Value::text(f.cipher().as_bytes())),
            Self::TlsVersion => {
                let version = txn.session.tls.as_ref().map(|f| f.version());
                version.filter(|version| !version.is_empty()).map(|version| Value::text(version.as_bytes()))
            }
            Self::Termination => Some(Value::text(&txn.termination[..2])),
            Self::TerminationCookie => Some(Value::text(&txn.termination)),
            Self::RequestHeaders | Self::RequestHeaderList => {
                captures_value(&txn.request_captures, self == Self::RequestHeaderList, options)
            }
            Self::ResponseHeaders | Self::ResponseHeaderList => {
                captures_value(&txn.response_captures, self == Self::ResponseHeaderList, options)
            }
            _ => self.endpoint_value(txn, options),
        }
    }

    /// Addresses, names and figures of proxies and servers.
    fn endpoint_value<'a>(self, txn: &'a Txn, options: Options) -> Option<Value<'a>> {
        let frontend = &txn.session.frontend.name;
        let backend = txn.backend.as_ref().map(|b| &b.name);
        let server = || {
            let figure = |f| txn.env.server_figure(backend?, txn.server.as_ref()?, f);
            figure(Figure::Connections)
        };
        let conn = |name: &str| txn.env.proxy_figure(name, Figure::Connections).unwrap_or(0);
        Some(match self {
            Self::ClientIp => return ip(txn.src(), options),
            Self::ClientPort => return port(txn.src(), options),
            Self::FrontendIp => return ip(txn.dst(), options),
            Self::FrontendPort => return port(txn.dst(), options),
            Self::BackendIp => return ip(txn.server_local, options),
            Self::BackendPort => return port(txn.server_local, options),
            Self::ServerIp => return ip(txn.server_addr, options),
            Self::ServerPort => return port(txn.server_addr, options),
            Self::Backend => Value::text(backend.unwrap_or(frontend).as_bytes()),
            Self::Frontend => Value::text(frontend.as_bytes()),
            Self::FrontendTransport if txn.session.tls.is_some() => {
                Value::owned([frontend.as_bytes(), b"~"].concat())
            }
            Self::FrontendTransport => Value::text(frontend.as_bytes()),
            Self::Server => Value::text(txn.server.as_deref().unwrap_or("<NOSRV>").as_bytes()),
            Self::ActiveConn => Value::Int(i64::from(txn.env.process().0)),
            Self::FrontendConn => {
                let connections = txn.env.frontend_figure(frontend, Figure::Connections);
                Value::Int(connections.unwrap_or(0))
            }
            Self::BackendConn => Value::Int(backend.map_or(0, |name| conn(name))),
            Self::ServerConn => Value::Int(server().unwrap_or(0)),
            Self::BackendQueue => Value::Int(i64::from(txn.backend_queue)),
            Self::ServerQueue => Value::Int(i64::from(txn.server_queue)),
            _ => return None,
        })
    }

    /// Parts of the request line, as received, with unsafe characters as `#xx`.
    fn start_line(self, txn: &Txn) -> Vec<u8> {
        let (method, uri) = (txn.original_method(), txn.original_uri());
        if method.is_empty() {
            return BAD_REQUEST.to_vec();
        }
        // As in HAProxy, the whole line is cut: method, space, and as much of the URI as fits.
        let room = txn.env.log_uri_bytes().saturating_sub(method.len() + 2);
        let (uri, cut) = if uri.len() > room { (&uri[..room], true) } else { (uri, false) };
        let query = memchr::memchr(b'?', uri).unwrap_or(uri.len());
        let mut out = Vec::with_capacity(uri.len() + 24);
        match self {
            Self::HttpPath => push_safe(&uri[..query], false, &mut out),
            Self::HttpQuery => push_safe(&uri[query..], false, &mut out),
            Self::HttpUri => push_safe(uri, false, &mut out),
            Self::HttpPathOnly => {
                let authority = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
                let slash = memchr::memchr(b'/', &uri[authority..query]).map_or(query, |at| authority + at);
                push_safe(&uri[if authority == 0 { 0 } else { slash }..query], false, &mut out);
            }
            _ => {
                push_safe(method, false, &mut out);
                out.push(b' ');
                push_safe(uri, false, &mut out);
                if !cut {
                    out.push(b' ');
                    out.extend_from_slice(txn.request.version.as_str().as_bytes());
                }
            }
        }
        out
    }
}

fn start_line_part(part: &[u8]) -> &[u8] {
    if part.is_empty() { BAD_REQUEST } else { part }
}

/// Section 8.6: what is not printable, `"` and `#` become `#xx`; in captures also `{`, `|` and `}`.
fn push_safe(text: &[u8], capture: bool, out: &mut Vec<u8>) {
    for b in text {
        let escape = !(32..127).contains(b)
            || matches!(b, b'"' | b'#')
            || (capture && matches!(b, b'{' | b'|' | b'}'));
        if escape {
            out.push(b'#');
            push_hex(*b, out);
        } else {
            out.push(*b);
        }
    }
}

type Slots = [Option<Box<[u8]>>];

/// `{a|b}`; nothing at all without slots.
fn print_captures(slots: &Slots, options: Options, out: &mut Vec<u8>) {
    if slots.is_empty() {
        return;
    }
    let mut text = vec![b'{'];
    for (at, slot) in slots.iter().enumerate() {
        if at > 0 {
            text.push(b'|');
        }
        push_safe(slot.as_deref().unwrap_or_default(), true, &mut text);
    }
    text.push(b'}');
    print_text(&text, options, out);
}

/// One item per slot, as CLF has them.
fn print_capture_list(slots: &Slots, options: Options, out: &mut Vec<u8>) {
    for (at, slot) in slots.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        let mut text = Vec::new();
        push_safe(slot.as_deref().unwrap_or_default(), true, &mut text);
        let list = Options { style: Style::Log, ..options };
        print_text(&text, list, out);
    }
}

fn captures_value(slots: &Slots, list: bool, options: Options) -> Option<Value<'static>> {
    let mut out = Vec::new();
    let plain = Options { quote: false, ..options };
    if list {
        print_capture_list(slots, plain, &mut out);
    } else {
        print_captures(slots, plain, &mut out);
    }
    (!slots.is_empty()).then(|| Value::owned(out))
}

/// A number in upper-case hexadecimal, filled up with zeros.
fn hex_number(n: u32, width: usize) -> Value<'static> {
    Value::owned(format!("{n:0width$X}").into_bytes())
}

fn ip(address: Option<SocketAddr>, options: Options) -> Option<Value<'static>> {
    let ip = address?.ip().to_canonical();
    if !options.hex {
        return Some(Value::Ip(ip));
    }
    let mut out = Vec::with_capacity(32);
    match ip {
        IpAddr::V4(ip) => ip.octets().iter().for_each(|b| push_hex(*b, &mut out)),
        IpAddr::V6(ip) => ip.octets().iter().for_each(|b| push_hex(*b, &mut out)),
    }
    Some(Value::owned(out))
}

fn port(address: Option<SocketAddr>, options: Options) -> Option<Value<'static>> {
    let port = address?.port();
    Some(if options.hex { hex_number(u32::from(port), 4) } else { Value::Int(i64::from(port)) })
}

fn date_utc(us: u64) -> Value<'static> {
    dated(us, 0, |out| out.extend_from_slice(b" +0000"))
}

fn date_local(us: u64, txn: &Txn) -> Value<'static> {
    let offset = txn.env.utc_offset((us / 1_000_000) as i64);
    dated(us, offset, |out| {
        let minutes = offset.unsigned_abs() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        out.extend_from_slice(format!(" {sign}{:02}{:02}", minutes / 60, minutes % 60).as_bytes());
    })
}

fn date_ms(us: u64, txn: &Txn) -> Value<'static> {
    let ms = us / 1000 % 1000;
    dated(us, txn.env.utc_offset((us / 1_000_000) as i64), |out| {
        out.push(b'.');
        out.extend([ms / 100, ms / 10 % 10, ms % 10].map(|d| b'0' + d as u8));
    })
}

/// A date at an offset from UTC, and what stands behind it.
fn dated(us: u64, offset_s: i32, tail: impl FnOnce(&mut Vec<u8>)) -> Value<'static> {
    let mut out = Vec::with_capacity(32);
    date::push_log_date((us / 1_000_000) as i64 + i64::from(offset_s), &mut out);
    tail(&mut out);
    Value::owned(out)
}
