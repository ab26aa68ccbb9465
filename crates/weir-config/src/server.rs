//! `server`, `default-server` and `server-template` lines (section 5.2 of the manual).

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_balance::{InitState, Limit, OnError};
use weir_rules::{Diagnostic, Expr, LogFormat, Place, Scope, Word};

use crate::keyword::{self, Found, How, Index, Keyword, Places, keyword};
use crate::language::address::{Host, Port, Transport};
use crate::language::args::{self, Args, Parsed, choice, fail, fail_hint, parse_address, socket_address};
use crate::language::units::Unit;
use crate::model::{
    ForeignSource, Global, HashKey, InitAddr, IpFamily, LogFraming, Network, ObservedLayer, OnMarkedDown,
    OnMarkedUp, PortMap, Proto, SendProxy, Server, ServerAddr, Source, SslServer, Verify, WebSocketVersion,
};
use crate::sections::{ServerArgs, ServerDraft};
use crate::tls;

/// Most servers one template may make.
const MOST_TEMPLATE_SERVERS: u32 = 65535;

impl<'a> ServerArgs<'_, 'a, '_> {
    fn need(&mut self, what: &str) -> Parsed<&'a Word> {
        self.args.value_of(self.word, what)
    }

    fn text(&mut self, what: &str) -> Parsed<String> {
        Ok(self.need(what)?.as_str().into_owned())
    }

    fn time(&mut self) -> Parsed<Duration> {
        args::time(self.need("a time such as 5s")?, Unit::Millis)
    }

    fn number<T: args::Number>(&mut self, range: std::ops::RangeInclusive<T>) -> Parsed<T> {
        args::number(self.need("a number")?, range)
    }

    fn limit(&mut self, most: usize) -> Parsed<Limit> {
        self.number(0..=most).map(Limit::new)
    }

    fn socket(&mut self) -> Parsed<SocketAddr> {
        let word = self.need("an address")?;
        socket_address(word, 0)
    }
}

impl ServerDraft {
    /// Reads the words after the address.
    pub(crate) fn words(&mut self, args: &mut Args<'_>, scope: &mut Scope<'_>, global: &Global) -> Parsed {
        let outer = std::mem::replace(&mut scope.place, Place::BackendRequest);
        let mut problems = Vec::new();
        while let Some(word) = args.peek() {
            if let Err(found) = self.word(word, args, scope, global) {
                problems.extend(found);
                break;
            }
        }
        scope.place = outer;
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn word<'a>(
        &mut self,
        word: &'a Word,
        args: &mut Args<'a>,
        scope: &mut Scope<'_>,
        global: &Global,
    ) -> Parsed {
        let one = std::slice::from_ref(word);
        let Found::Here(keyword, _) = WORDS.find(one, Places::SERVER) else {
            return Err(vec![WORDS.unknown(one, Places::SERVER, "a server line")]);
        };
        args.skip(1);
        match keyword.how {
            How::Server(parse) => parse(self, &mut ServerArgs { args, word, scope, global }),
            How::Tls => {
                let (ca_base, words) = (global.ca_base.as_ref(), &mut self.ssl().words);
                tls::read(words, keyword.name, ca_base, &mut |what| args.value_of(word, what)).map(|_| ())
            }
            How::NoEffect(_) => {
                if keyword.arguments.starts_with('<') {
                    args.value_of(word, keyword.arguments)?;
                }
                Ok(())
            }
            _ => keyword.refused(word.pos),
        }
    }

    /// Sets where the server is.
    pub(crate) fn address(&mut self, word: &Word) -> Parsed {
        let address = parse_address(word)?;
        self.server.datagram = address.transport == Some(Transport::Datagram);
        let (port, map) = match address.port {
            Port::Absent => (0, PortMap::Offset(0)),
            Port::Fixed(port) => (port, PortMap::Fixed),
            Port::Offset(offset) => (0, PortMap::Offset(offset)),
            Port::Range(..) => return fail(word.pos, "a server has one port, not a range"),
        };
        self.server.port_map = map;
        self.server.addr = match &address.host {
            Host::Any | Host::Ip(_) => {
                let ip = address.ip().unwrap_or(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
                ServerAddr::Inet(SocketAddr::new(ip, port))
            }
            Host::Name(name) => ServerAddr::Name(name.clone(), port),
            Host::Unix(path) => ServerAddr::Unix(path.clone()),
            Host::Abstract(name) => ServerAddr::Abstract(name.clone()),
            Host::Reverse(_) => ServerAddr::Reverse,
            Host::Fd(_) | Host::Sockpair(_) => {
                return fail(word.pos, format!("a server cannot be at '{}'", word.as_str()));
            }
        };
        if !matches!(self.server.addr, ServerAddr::Inet(_) | ServerAddr::Name(..)) {
            self.server.port_map = PortMap::Fixed;
        }
        Ok(())
    }

    /// The server as the data plane runs it.
    pub(crate) fn finish(&self, global: &Global) -> Server {
        let mut server = self.server.clone();
        server.check = self.check_on.then(|| self.check.clone());
        server.agent_check = self.agent_on.then(|| self.agent.clone());
        let settings = &mut server.ssl_settings;
        if settings.verify.is_none() {
            settings.verify =
                Some(if global.ssl_server_verify_none { Verify::None } else { Verify::Required });
        }
        if self.ssl_on {
            server.ssl = Some(server.ssl_settings.clone());
        }
        server
    }

    fn proxy_header(&mut self) -> &mut SendProxy {
        self.server.send_proxy.get_or_insert_with(SendProxy::default)
    }

    fn ssl(&mut self) -> &mut SslServer {
        &mut self.server.ssl_settings
    }
}

/// What `server-template` says: names and ids of the servers to make.
pub(crate) fn template_numbers(word: &Word) -> Parsed<std::ops::RangeInclusive<u32>> {
    let text = word.as_str();
    let (low, high) = text.split_once('-').unwrap_or(("1", &text));
    match (low.parse::<u32>(), high.parse::<u32>()) {
        (Ok(low), Ok(high)) if low >= 1 && high >= low && high - low < MOST_TEMPLATE_SERVERS => {
            Ok(low..=high)
        }
        _ => fail(word.pos, format!("'{text}' is neither a number of servers nor a range such as 1-10")),
    }
}

/// A protocol that is spoken to servers.
fn server_protocol(word: &Word) -> Parsed<Proto> {
    if *word == "fcgi" { Ok(Proto::Fcgi) } else { protocol(word) }
}

pub(crate) fn protocol(word: &Word) -> Parsed<Proto> {
    choice(
        word,
        "protocol",
        &[("h1", Proto::H1), ("h2", Proto::H2), ("none", Proto::None), ("raw", Proto::None)],
    )
    .map_err(|found| match word.text.as_slice() {
        b"fcgi" => {
            vec![Diagnostic::error(word.pos, "'fcgi' is only implemented on server lines")]
        }
        b"spop" | b"quic" => keyword::not_yet(word, &format!("proto {}", word.as_str())),
        _ => found,
    })
}

fn expression(a: &mut ServerArgs<'_, '_, '_>) -> Parsed<Arc<Expr>> {
    if a.args.peek().is_none() {
        a.need("an expression")?;
    }
    let (expr, used) = Expr::parse(a.args.ahead(), a.scope)?;
    a.args.skip(used);
    Ok(Arc::new(expr))
}

/// `init-addr last,libc,none,ADDRESS`; where no method is said, the usual ones are tried.
fn init_addr(word: &Word) -> Parsed<Vec<InitAddr>> {
    let text = word.as_str();
    let mut methods = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        let method = match (name, bare.parse()) {
            ("last", _) => InitAddr::Last,
            ("libc", _) => InitAddr::Libc,
            ("none", _) => InitAddr::None,
            (_, Ok(address)) => InitAddr::Ip(address),
            (_, Err(_)) => {
                let message = format!("unknown init-addr method '{name}'");
                return fail_hint(word.pos, message, "the methods are last, libc, none and an IP address");
            }
        };
        if let InitAddr::Ip(_) = method
            && methods.iter().any(|before| matches!(before, InitAddr::Ip(_)))
        {
            return fail(word.pos, format!("'init-addr' has an address already and cannot add '{name}'"));
        }
        methods.push(method);
    }
    Ok(if methods.is_empty() { InitAddr::DEFAULT.to_vec() } else { methods })
}

/// `resolve-opts allow-dup-ip,ignore-weight,prevent-dup-ip`
fn resolve_options(d: &mut ServerDraft, a: &mut ServerArgs<'_, '_, '_>) -> Parsed {
    let word = a.need("options between commas")?;
    for option in args::list(word) {
        match option.as_slice() {
            b"allow-dup-ip" => d.server.resolve_allow_dup_ip = true,
            b"prevent-dup-ip" => d.server.resolve_allow_dup_ip = false,
            b"ignore-weight" => d.server.resolve_ignore_weight = true,
            other => {
                let other = String::from_utf8_lossy(other);
                return fail_hint(
                    word.pos,
                    format!("unknown resolve-opts option '{other}'"),
                    "the options are allow-dup-ip, ignore-weight and prevent-dup-ip",
                );
            }
        }
    }
    Ok(())
}

/// `set-proxy-v2-tlv-fmt(0xE1) FORMAT`
fn tlv(d: &mut ServerDraft, a: &mut ServerArgs<'_, '_, '_>) -> Parsed {
    let text = a.word.as_str();
    let id = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or_default();
    let parsed = match id.strip_prefix("0x").or_else(|| id.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => id.parse(),
    };
    let Ok(id) = parsed else {
        return fail(
            a.word.pos,
            "the TLV's type must stand in parentheses, as in set-proxy-v2-tlv-fmt(0xE1)",
        );
    };
    // At the end of a line the value is empty.
    let empty = Word { text: Vec::new(), pos: a.word.pos };
    let format = LogFormat::parse(a.args.next().unwrap_or(&empty), a.scope)?;
    d.proxy_header().tlvs.push((id, Arc::new(format)));
    Ok(())
}

/// `proxy-v2-options ssl,cert-cn,...`
fn proxy_options(d: &mut ServerDraft, a: &mut ServerArgs<'_, '_, '_>) -> Parsed {
    let word = a.need("options between commas")?;
    for option in args::list(word) {
        let header = d.proxy_header();
        match option.as_slice() {
            b"ssl" => header.ssl = true,
            b"cert-cn" => (header.ssl, header.cert_cn) = (true, true),
            b"cert-key" => (header.ssl, header.cert_key) = (true, true),
            b"cert-sig" => (header.ssl, header.cert_sig) = (true, true),
            b"ssl-cipher" => (header.ssl, header.ssl_cipher) = (true, true),
            b"authority" => header.authority = true,
            b"crc32c" => header.crc32c = true,
            b"unique-id" => header.unique_id = true,
            other => {
                let other = String::from_utf8_lossy(other);
                return fail_hint(
                    word.pos,
                    format!("unknown PROXY protocol option '{other}'"),
                    "one of ssl, cert-cn, cert-key, cert-sig, ssl-cipher, authority, crc32c, unique-id",
                );
            }
        }
    }
    Ok(())
}

/// `source ADDR[:PORT[-PORT]] [usesrc FOREIGN] [interface NAME]`
fn source(d: &mut ServerDraft, a: &mut ServerArgs<'_, '_, '_>) -> Parsed {
    let word = a.need("an address")?;
    let mut source = source_words(word, a.args, a.scope)?;
    source.interface = source.interface.or_else(|| d.server.source.interface.take());
    d.server.source = source;
    Ok(())
}

/// The address a connection comes from and the interface it leaves by.
pub(crate) fn source_words(word: &Word, args: &mut Args<'_>, scope: &mut Scope<'_>) -> Parsed<Source> {
    let (address, ports) = source_address(word)?;
    let mut foreign = None;
    if let Some(usesrc) = args.peek().filter(|next| **next == "usesrc") {
        args.skip(1);
        let who = args.value_of(usesrc, "'client', 'clientip', 'hdr_ip(NAME)' or an address")?;
        foreign = Some(foreign_source(who, scope)?);
    }
    let interface = if args.take("interface") { Some(args.text("an interface's name")?) } else { None };
    let address = (!address.ip().is_unspecified() || address.port() != 0).then_some(address);
    Ok(Source { address, ports, foreign, interface })
}

/// The error for a range of ports where only one port can stand.
pub(crate) fn one_port_only<T>(word: &Word) -> Parsed<T> {
    fail_hint(
        word.pos,
        format!("a range of ports is not possible here in '{}'", word.as_str()),
        "server lines may have one: 'source ADDRESS:FIRST-LAST'",
    )
}

/// An address with its port, or the first of a range, and the range.
fn source_address(word: &Word) -> Parsed<(SocketAddr, Option<(u16, u16)>)> {
    let address = parse_address(word)?;
    let (port, range) = match address.port {
        Port::Absent => (0, None),
        Port::Fixed(port) => (port, None),
        Port::Range(first, last) => (first, Some((first, last))),
        Port::Offset(_) => {
            return fail(word.pos, format!("a port cannot be relative in '{}'", word.as_str()));
        }
    };
    match address.ip() {
        Some(ip) => Ok((SocketAddr::new(ip, port), range)),
        None => fail(word.pos, format!("'{}' is not an IP address", word.as_str())),
    }
}

/// What stands behind `usesrc` (manual, keyword `source`).
fn foreign_source(word: &Word, scope: &mut Scope<'_>) -> Parsed<ForeignSource> {
    match word.text.as_slice() {
        b"client" => return Ok(ForeignSource::Client),
        b"clientip" => return Ok(ForeignSource::ClientIp),
        _ => {}
    }
    if !word.text.starts_with(b"hdr_ip(") {
        return match source_address(word)? {
            (address, None) => Ok(ForeignSource::Address(address)),
            (_, Some(_)) => one_port_only(word),
        };
    }
    // The last address is the default, as it is for the fetch of that name.
    let fetch = Word { text: [b"req.", word.text.as_slice()].concat(), pos: word.pos };
    let (expr, _) = Expr::parse(std::slice::from_ref(&fetch), scope)?;
    Ok(ForeignSource::Field(Arc::new(expr)))
}

fn alpn(a: &mut ServerArgs<'_, '_, '_>) -> Parsed<Option<Vec<Vec<u8>>>> {
    let list = args::list(a.need("protocol names between commas")?);
    Ok(Some(list).filter(|list| !list.is_empty()))
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::SERVER, arguments, doc, how)
}

/// Words of server and default-server lines.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "addr",
        "<ip>",
        "Address that checks go to",
        How::Server(|d, a| {
            let addr = a.socket()?;
            d.check.addr = Some(addr.ip());
            d.agent.addr = Some(addr.ip().to_string());
            Ok(())
        }),
    )
    .example("check addr 192.0.2.8"),
    entry(
        "agent-check",
        "",
        "Asks an agent on the server for its state and weight",
        How::Server(|d, _| {
            d.agent_on = true;
            Ok(())
        }),
    )
    .example("agent-check agent-port 9000"),
    entry(
        "agent-send",
        "<string>",
        "What is sent to the agent first",
        How::Server(|d, a| {
            d.agent.send = a.need("a string")?.text.clone();
            Ok(())
        }),
    )
    .example("agent-check agent-port 9000 agent-send \"state\\n\""),
    entry(
        "agent-inter",
        "<time>",
        "Time between agent checks",
        How::Server(|d, a| {
            d.agent.inter = a.time()?;
            Ok(())
        }),
    )
    .default("2s")
    .example("agent-check agent-port 9000 agent-inter 5s"),
    entry(
        "agent-addr",
        "<addr>",
        "Address of the agent",
        How::Server(|d, a| {
            d.agent.addr = Some(a.text("an address")?);
            Ok(())
        }),
    )
    .example("agent-check agent-port 9000 agent-addr 192.0.2.8"),
    entry(
        "agent-port",
        "<port>",
        "Port of the agent",
        How::Server(|d, a| {
            d.agent.port = a.number(1..=65535)?;
            Ok(())
        }),
    )
    .example("agent-check agent-port 9000"),
    entry("allow-0rtt", "", "Sends early data", How::NotYet),
    entry(
        "alpn",
        "<protocols>",
        "Protocols offered to the server, the best first",
        How::Server(|d, a| {
            d.server.alpn = alpn(a)?;
            Ok(())
        }),
    )
    .example("ssl verify none alpn h2,http/1.1"),
    entry(
        "backup",
        "",
        "Used only when no other server can be",
        How::Server(|d, _| {
            d.server.backup = true;
            Ok(())
        }),
    )
    .example("backup"),
    entry("ca-file", "<file>", "Authorities that the server's certificate is verified with", How::Tls)
        .example("ssl ca-file @system-ca"),
    entry(
        "cc",
        "<algo>",
        "Congestion control algorithm",
        How::Server(|d, a| {
            d.server.congestion = Some(a.text("an algorithm's name")?);
            Ok(())
        }),
    )
    .example("cc cubic"),
    entry(
        "check",
        "",
        "Checks the server's health",
        How::Server(|d, _| {
            d.check_on = true;
            Ok(())
        }),
    )
    .example("check"),
    entry("check-reuse-pool", "", "Checks over idle connections", How::NotYet),
    entry(
        "check-send-proxy",
        "",
        "Checks send the PROXY protocol",
        How::Server(|d, _| {
            d.check.send_proxy = true;
            Ok(())
        }),
    )
    .example("check check-send-proxy"),
    entry(
        "check-alpn",
        "<protocols>",
        "Protocols offered by checks",
        How::Server(|d, a| {
            d.check.alpn = alpn(a)?;
            Ok(())
        }),
    )
    .example("check check-ssl verify none check-alpn http/1.1"),
    entry("check-pool-conn-name", "<name>", "Name of the idle connections that checks use", How::NotYet),
    entry(
        "check-proto",
        "<name>",
        "Protocol of checks",
        How::Server(|d, a| {
            d.check.proto = Some(server_protocol(a.need("a protocol")?)?);
            Ok(())
        }),
    )
    .example("check check-proto h2"),
    entry(
        "check-sni-auto",
        "",
        "Checks name the host they ask for",
        How::Server(|d, _| {
            d.check.no_sni_auto = false;
            Ok(())
        }),
    )
    .example("check check-ssl verify none check-sni-auto"),
    entry(
        "check-sni",
        "<sni>",
        "Server name that checks ask for",
        How::Server(|d, a| {
            let name = a.text("a name")?;
            d.check.sni = Some(name);
            Ok(())
        }),
    )
    .example("check check-ssl verify none check-sni example.org"),
    entry(
        "check-ssl",
        "",
        "Checks use TLS",
        How::Server(|d, _| {
            d.check.ssl = Some(true);
            Ok(())
        }),
    )
    .example("check check-ssl verify none"),
    entry(
        "check-via-socks4",
        "",
        "Checks go through the SOCKS4 proxy",
        How::Server(|d, _| {
            d.check.via_socks4 = true;
            Ok(())
        }),
    )
    .example("check socks4 192.0.2.9:1080 check-via-socks4"),
    entry("client-sigalgs", "<sigalgs>", "Signature algorithms for our certificate", How::Tls)
        .example("ssl verify none client-sigalgs ECDSA+SHA256"),
    entry(
        "cookie",
        "<value>",
        "Value of the persistence cookie that means this server",
        How::Server(|d, a| {
            d.server.cookie = Some(a.need("a value")?.text.clone());
            Ok(())
        }),
    )
    .example("cookie one"),
    entry("crl-file", "<file>", "Revoked certificates", How::Tls)
        .example("ssl ca-file ca.pem crl-file revoked.pem"),
    entry(
        "crt",
        "<file>",
        "Our certificate, when the server asks for one",
        How::Server(|d, a| {
            let word = a.need("a file name")?;
            d.ssl().crt = Some(tls::in_base(word, a.global.crt_base.as_ref()));
            Ok(())
        }),
    )
    .example("ssl verify none crt client.pem"),
    entry(
        "disabled",
        "",
        "Starts in maintenance",
        How::Server(|d, _| {
            d.server.disabled = true;
            Ok(())
        }),
    )
    .example("disabled"),
    entry(
        "enabled",
        "",
        "Undoes disabled",
        How::Server(|d, _| {
            d.server.disabled = false;
            Ok(())
        }),
    )
    .example("enabled"),
    entry(
        "error-limit",
        "<count>",
        "Errors in a row before on-error acts",
        How::Server(|d, a| {
            d.server.error_limit = a.number(1..=u32::MAX)?;
            Ok(())
        }),
    )
    .default("10")
    .example("check observe layer7 error-limit 5"),
    entry(
        "fall",
        "<count>",
        "Failed checks until it is down",
        How::Server(|d, a| {
            d.check.fall = a.number(1..=u32::MAX)?;
            Ok(())
        }),
    )
    .default("3")
    .example("check fall 2"),
    entry(
        "guid",
        "<string>",
        "Identifier that stays the same over reloads",
        How::Server(|d, a| {
            d.server.guid = Some(a.text("an identifier")?);
            Ok(())
        }),
    )
    .example("guid shop-one"),
    entry(
        "hash-key",
        "<key>",
        "What consistent hashing places the server by: id, id32, guid, addr, addr-port",
        How::Server(|d, a| {
            let word = a.need("id, id32, guid, addr or addr-port")?;
            let known = [
                ("id", HashKey::Id),
                ("id32", HashKey::Id32),
                ("guid", HashKey::Guid),
                ("addr", HashKey::Addr),
                ("addr-port", HashKey::AddrPort),
            ];
            d.server.hash_key = choice(word, "hash key", &known)?;
            Ok(())
        }),
    )
    .default("id")
    .example("hash-key addr"),
    entry(
        "healthcheck",
        "<name>",
        "Health check section to use",
        How::Server(|d, a| {
            d.server.healthcheck = Some(a.text("the name of a healthcheck section")?);
            Ok(())
        }),
    )
    .example("check healthcheck web"),
    entry(
        "id",
        "<value>",
        "Number of the server in statistics and tables",
        How::Server(|d, a| {
            d.server.id = a.number(1..=i32::MAX as u32)?;
            Ok(())
        }),
    )
    .example("id 7"),
    entry(
        "idle-ping",
        "<delay>",
        "Probes an idle HTTP/2 connection after this time",
        How::Server(|d, a| {
            d.server.idle_ping = Some(a.time()?).filter(|delay| !delay.is_zero());
            Ok(())
        }),
    )
    .default("off")
    .example("proto h2 idle-ping 10s"),
    entry(
        "init-addr",
        "<methods>",
        "How the address is found at start: last, libc, none, an address",
        How::Server(|d, a| {
            d.server.init_addr = init_addr(a.need("methods between commas")?)?;
            Ok(())
        }),
    )
    .default("last,libc")
    .example("init-addr last,libc,none"),
    entry(
        "inter",
        "<time>",
        "Time between checks",
        How::Server(|d, a| {
            d.check.inter = positive(a)?;
            Ok(())
        }),
    )
    .default("2s")
    .example("check inter 500ms"),
    entry(
        "fastinter",
        "<time>",
        "Time between checks while the state is changing",
        How::Server(|d, a| {
            d.check.fastinter = Some(positive(a)?);
            Ok(())
        }),
    )
    .default("inter")
    .example("check fastinter 200ms"),
    entry(
        "downinter",
        "<time>",
        "Time between checks while it is down",
        How::Server(|d, a| {
            d.check.downinter = Some(positive(a)?);
            Ok(())
        }),
    )
    .default("inter")
    .example("check downinter 10s"),
    entry(
        "init-state",
        "<state>",
        "State at start: fully-up, up, down, fully-down, none",
        How::Server(|d, a| {
            let word = a.need("a state")?;
            let known = [
                ("fully-up", InitState::FullyUp),
                ("up", InitState::Up),
                ("down", InitState::Down),
                ("fully-down", InitState::FullyDown),
                ("none", InitState::None),
            ];
            d.server.init_state = choice(word, "state", &known)?;
            Ok(())
        }),
    )
    .default("none")
    .example("check init-state down"),
    entry(
        "log-bufsize",
        "<size>",
        "Buffer of a log server",
        How::NoEffect("log buffers grow as needed, up to their bound"),
    ),
    entry(
        "log-proto",
        "<proto>",
        "Framing of log messages: octet-count or legacy",
        How::Server(|d, a| {
            let word = a.need("octet-count or legacy")?;
            let known = [("octet-count", LogFraming::OctetCount), ("legacy", LogFraming::Lines)];
            d.server.log_proto = choice(word, "log protocol", &known)?;
            Ok(())
        }),
    )
    .default("legacy")
    .example("log-proto octet-count"),
    entry(
        "maxconn",
        "<count>",
        "Most connections at a time; more wait in the queue",
        How::Server(|d, a| {
            d.server.maxconn = a.limit(usize::MAX)?;
            Ok(())
        }),
    )
    .default("0, no limit")
    .example("maxconn 100"),
    entry(
        "maxqueue",
        "<count>",
        "Most requests that wait for this server",
        How::Server(|d, a| {
            d.server.maxqueue = a.limit(usize::MAX)?;
            Ok(())
        }),
    )
    .default("0, no limit")
    .example("maxconn 100 maxqueue 50"),
    entry(
        "max-reuse",
        "<count>",
        "Requests a connection is reused for",
        How::Server(|d, a| {
            d.server.max_reuse = u32::try_from(a.number(-1..=i64::from(u32::MAX))?).ok();
            Ok(())
        }),
    )
    .default("-1, no limit")
    .example("max-reuse 1000"),
    entry(
        "minconn",
        "<count>",
        "Connections when the backend is idle; grows to maxconn with its load",
        How::Server(|d, a| {
            d.server.minconn = a.number(0..=usize::MAX)?;
            Ok(())
        }),
    )
    .default("0, always maxconn")
    .example("minconn 10 maxconn 100"),
    entry(
        "namespace",
        "<name>",
        "Network namespace connections are made in",
        How::Server(|d, a| {
            d.server.namespace =
                Some(crate::language::args::namespace(a.need("the name of a network namespace")?)?);
            Ok(())
        }),
    )
    .example("namespace blue"),
    entry(
        "no-agent-check",
        "",
        "Undoes agent-check",
        How::Server(|d, _| {
            d.agent_on = false;
            Ok(())
        }),
    )
    .example("no-agent-check"),
    entry(
        "no-backup",
        "",
        "Undoes backup",
        How::Server(|d, _| {
            d.server.backup = false;
            Ok(())
        }),
    )
    .example("no-backup"),
    entry(
        "no-check",
        "",
        "Undoes check",
        How::Server(|d, _| {
            d.check_on = false;
            Ok(())
        }),
    )
    .example("no-check"),
    entry(
        "no-check-reuse-pool",
        "",
        "Undoes check-reuse-pool",
        How::NoEffect("checks always open connections of their own"),
    ),
    entry(
        "no-check-send-proxy",
        "",
        "Undoes check-send-proxy",
        How::Server(|d, _| {
            d.check.send_proxy = false;
            Ok(())
        }),
    )
    .example("check no-check-send-proxy"),
    entry(
        "no-check-sni-auto",
        "",
        "Checks name no host by themselves",
        How::Server(|d, _| {
            d.check.no_sni_auto = true;
            Ok(())
        }),
    )
    .example("check no-check-sni-auto"),
    entry(
        "no-check-ssl",
        "",
        "Undoes check-ssl",
        How::Server(|d, _| {
            d.check.ssl = Some(false);
            Ok(())
        }),
    )
    .example("check no-check-ssl"),
    entry("no-renegotiate", "", "Refuses TLS renegotiation", How::NoEffect("renegotiation is never done")),
    entry("no-send-proxy", "", "Undoes send-proxy", How::Server(no_send_proxy)).example("no-send-proxy"),
    entry("no-send-proxy-v2", "", "Undoes send-proxy-v2", How::Server(no_send_proxy))
        .example("no-send-proxy-v2"),
    entry("no-send-proxy-v2-ssl", "", "Undoes send-proxy-v2-ssl", How::Server(no_send_proxy))
        .example("no-send-proxy-v2-ssl"),
    entry("no-send-proxy-v2-ssl-cn", "", "Undoes send-proxy-v2-ssl-cn", How::Server(no_send_proxy))
        .example("no-send-proxy-v2-ssl-cn"),
    entry(
        "no-sni-auto",
        "",
        "Sends no server name by itself",
        How::Server(|d, _| {
            d.ssl().no_sni_auto = true;
            Ok(())
        }),
    )
    .example("ssl verify none no-sni-auto"),
    entry(
        "no-ssl",
        "",
        "Undoes ssl",
        How::Server(|d, _| {
            d.ssl_on = false;
            d.server.no_ssl = true;
            Ok(())
        }),
    )
    .example("no-ssl"),
    entry(
        "no-ssl-reuse",
        "",
        "A full handshake for each connection",
        How::Server(|d, _| {
            d.ssl().no_ssl_reuse = true;
            Ok(())
        }),
    )
    .example("ssl verify none no-ssl-reuse"),
    entry(
        "no-verifyhost",
        "",
        "Undoes verifyhost",
        How::Server(|d, _| {
            d.ssl().verifyhost = None;
            Ok(())
        }),
    )
    .example("no-verifyhost"),
    entry(
        "no-tfo",
        "",
        "Undoes tfo",
        How::Server(|d, _| {
            d.server.tfo = false;
            Ok(())
        }),
    )
    .example("no-tfo"),
    entry(
        "non-stick",
        "",
        "Never stored in stick tables",
        How::Server(|d, _| {
            d.server.non_stick = true;
            Ok(())
        }),
    )
    .example("non-stick"),
    entry(
        "observe",
        "<mode>",
        "Takes the health from traffic: layer4 or layer7",
        How::Server(|d, a| {
            let word = a.need("layer4 or layer7")?;
            let known = [("layer4", ObservedLayer::Layer4), ("layer7", ObservedLayer::Layer7)];
            d.server.observe = Some(choice(word, "mode", &known)?);
            Ok(())
        }),
    )
    .example("check observe layer7"),
    entry(
        "on-error",
        "<mode>",
        "What happens after error-limit errors",
        How::Server(|d, a| {
            let word = a.need("a mode")?;
            let known = [
                ("fastinter", OnError::FastInter),
                ("fail-check", OnError::FailCheck),
                ("sudden-death", OnError::SuddenDeath),
                ("mark-down", OnError::MarkDown),
            ];
            d.server.on_error = choice(word, "mode", &known)?;
            Ok(())
        }),
    )
    .default("fail-check")
    .example("check observe layer7 on-error mark-down"),
    entry(
        "on-marked-down",
        "<action>",
        "What happens with sessions when it goes down",
        How::Server(|d, a| {
            let word = a.need("an action")?;
            let known = [("shutdown-sessions", OnMarkedDown::ShutdownSessions)];
            d.server.on_marked_down = Some(choice(word, "action", &known)?);
            Ok(())
        }),
    )
    .example("check on-marked-down shutdown-sessions"),
    entry(
        "on-marked-up",
        "<action>",
        "What happens with sessions of backups when it comes up",
        How::Server(|d, a| {
            let word = a.need("an action")?;
            let known = [("shutdown-backup-sessions", OnMarkedUp::ShutdownBackupSessions)];
            d.server.on_marked_up = Some(choice(word, "action", &known)?);
            Ok(())
        }),
    )
    .example("check on-marked-up shutdown-backup-sessions"),
    entry(
        "pool-conn-name",
        "<expr>",
        "Only connections of the same name are reused",
        How::Server(|d, a| {
            d.server.pool_conn_name = Some(expression(a)?);
            Ok(())
        }),
    )
    .example("pool-conn-name req.hdr(x-tenant)"),
    entry(
        "pool-low-conn",
        "<max>",
        "Idle connections below which threads do not take each other's",
        How::Server(|d, a| {
            d.server.pool_low_conn = a.number(0..=usize::MAX)?;
            Ok(())
        }),
    )
    .default("0")
    .example("pool-low-conn 4"),
    entry(
        "pool-max-conn",
        "<max>",
        "Most idle connections kept",
        How::Server(|d, a| {
            d.server.pool_max_conn = usize::try_from(a.number(-1..=i64::MAX)?).ok();
            Ok(())
        }),
    )
    .default("-1, no limit")
    .example("pool-max-conn 20"),
    entry(
        "pool-purge-delay",
        "<delay>",
        "Time between purges of idle connections",
        How::Server(|d, a| {
            d.server.pool_purge_delay = a.time()?;
            Ok(())
        }),
    )
    .default("5s")
    .example("pool-purge-delay 30s"),
    entry(
        "port",
        "<port>",
        "Port that checks go to",
        How::Server(|d, a| {
            d.check.port = Some(a.number(1..=65535)?);
            Ok(())
        }),
    )
    .default("that of the server")
    .example("check port 8081"),
    entry(
        "proto",
        "<name>",
        "Protocol spoken to the server",
        How::Server(|d, a| {
            d.server.proto = Some(server_protocol(a.need("a protocol")?)?);
            Ok(())
        }),
    )
    .example("proto h2"),
    entry(
        "redir",
        "<prefix>",
        "Redirects clients to the server instead",
        How::Server(|d, a| {
            d.server.redir = Some(a.need("a prefix")?.text.clone());
            Ok(())
        }),
    )
    .example("redir https://static.example.org"),
    entry("renegotiate", "", "Allows TLS renegotiation", How::NotYet),
    entry(
        "rise",
        "<count>",
        "Passed checks until it is up",
        How::Server(|d, a| {
            d.check.rise = a.number(1..=u32::MAX)?;
            Ok(())
        }),
    )
    .default("2")
    .example("check rise 3"),
    entry(
        "resolve-opts",
        "<options>",
        "How responses of name servers are used",
        How::Server(resolve_options),
    )
    .example("resolvers dns resolve-opts allow-dup-ip"),
    entry(
        "resolve-prefer",
        "<family>",
        "Wanted address family: ipv4 or ipv6",
        How::Server(|d, a| {
            let word = a.need("ipv4 or ipv6")?;
            d.server.resolve_prefer =
                Some(choice(word, "family", &[("ipv4", IpFamily::V4), ("ipv6", IpFamily::V6)])?);
            Ok(())
        }),
    )
    .example("resolvers dns resolve-prefer ipv4"),
    entry(
        "resolve-net",
        "<networks>",
        "Networks whose addresses are preferred",
        How::Server(|d, a| {
            let word = a.need("networks between commas")?;
            d.server.resolve_net.clear();
            for network in args::list(word) {
                let text = String::from_utf8_lossy(&network);
                let Some(network) = Network::parse(&text) else {
                    return fail(word.pos, format!("'{text}' is not a network such as 10.0.0.0/8"));
                };
                d.server.resolve_net.push(network);
            }
            Ok(())
        }),
    )
    .example("resolvers dns resolve-net 10.0.0.0/8"),
    entry(
        "resolvers",
        "<id>",
        "Name servers that find its address at run time",
        How::Server(|d, a| {
            d.server.resolvers = Some(a.text("a resolvers section's name")?);
            Ok(())
        }),
    )
    .example("resolvers dns"),
    entry(
        "send-proxy",
        "",
        "Sends the PROXY protocol, version 1",
        How::Server(|d, _| {
            d.proxy_header().v2 = false;
            Ok(())
        }),
    )
    .example("send-proxy"),
    entry(
        "send-proxy-v2",
        "",
        "Sends the PROXY protocol, version 2",
        How::Server(|d, _| {
            d.proxy_header().v2 = true;
            Ok(())
        }),
    )
    .example("send-proxy-v2"),
    entry(
        "set-proxy-v2-tlv-fmt",
        "<fmt>",
        "Adds a TLV to the PROXY protocol header: set-proxy-v2-tlv-fmt(<id>) <fmt>",
        How::Server(tlv),
    )
    .example("send-proxy-v2 set-proxy-v2-tlv-fmt(0xE1) %[src]"),
    entry("proxy-v2-options", "<options>", "Parts of the PROXY protocol header", How::Server(proxy_options))
        .example("send-proxy-v2 proxy-v2-options crc32c,unique-id"),
    entry(
        "send-proxy-v2-ssl",
        "",
        "Sends the PROXY protocol, version 2, with facts about TLS",
        How::Server(|d, _| {
            let header = d.proxy_header();
            (header.v2, header.ssl) = (true, true);
            Ok(())
        }),
    )
    .example("send-proxy-v2-ssl"),
    entry(
        "send-proxy-v2-ssl-cn",
        "",
        "Sends the PROXY protocol, version 2, with TLS facts and the certificate's name",
        How::Server(|d, _| {
            let header = d.proxy_header();
            (header.v2, header.ssl, header.cert_cn) = (true, true, true);
            Ok(())
        }),
    )
    .example("send-proxy-v2-ssl-cn"),
    entry(
        "shard",
        "<shard>",
        "Part of the stick tables this peer gets",
        How::Server(|d, a| {
            d.server.shard = a.number(0..=usize::MAX)?;
            Ok(())
        }),
    ),
    entry(
        "slowstart",
        "<time>",
        "Time in which the weight grows to its full value after it came up",
        How::Server(|d, a| {
            d.server.slowstart = a.time()?;
            Ok(())
        }),
    )
    .default("0")
    .example("slowstart 30s"),
    entry(
        "sni",
        "<expr>",
        "Server name sent in TLS handshakes",
        How::Server(|d, a| {
            d.ssl().sni = Some(expression(a)?);
            Ok(())
        }),
    )
    .example("ssl verify none sni req.hdr(host)"),
    entry(
        "sni-auto",
        "",
        "Sends the request's host as server name",
        How::Server(|d, _| {
            d.ssl().no_sni_auto = false;
            Ok(())
        }),
    )
    .example("ssl verify none sni-auto"),
    entry("source", "<addr>", "Address connections come from", How::Server(source))
        .example("source 192.0.2.100"),
    entry(
        "ssl",
        "",
        "Speaks TLS to the server",
        How::Server(|d, _| {
            d.ssl_on = true;
            d.server.ssl_possible = true;
            d.server.no_ssl = false;
            Ok(())
        }),
    )
    .example("ssl verify none"),
    entry(
        "ssl-reuse",
        "",
        "Undoes no-ssl-reuse",
        How::Server(|d, _| {
            d.ssl().no_ssl_reuse = false;
            Ok(())
        }),
    )
    .example("ssl verify none ssl-reuse"),
    entry(
        "stick",
        "",
        "Undoes non-stick",
        How::Server(|d, _| {
            d.server.non_stick = false;
            Ok(())
        }),
    )
    .example("stick"),
    entry(
        "strict-maxconn",
        "",
        "Idle connections count for maxconn",
        How::Server(|d, _| {
            d.server.strict_maxconn = true;
            Ok(())
        }),
    )
    .example("maxconn 10 strict-maxconn"),
    entry(
        "socks4",
        "<addr>",
        "Connects through a SOCKS4 proxy",
        How::Server(|d, a| {
            d.server.socks4 = Some(a.socket()?);
            Ok(())
        }),
    )
    .example("socks4 192.0.2.9:1080"),
    entry(
        "tcp-md5sig",
        "<password>",
        "Signs TCP segments",
        How::Server(|d, a| {
            d.server.md5_key = Some(crate::language::args::md5_key(a.need("a password")?)?);
            Ok(())
        }),
    )
    .example("tcp-md5sig secret"),
    entry(
        "tcp-ut",
        "<delay>",
        "Longest time without acknowledgement",
        How::Server(|d, a| {
            d.server.tcp_ut = Some(a.time()?);
            Ok(())
        }),
    )
    .example("tcp-ut 30s"),
    entry(
        "tfo",
        "",
        "TCP fast open",
        How::Server(|d, _| {
            d.server.tfo = true;
            Ok(())
        }),
    )
    .example("tfo"),
    entry(
        "track",
        "<server>",
        "Takes the state of another server: [backend/]server",
        How::Server(|d, a| {
            d.server.track = Some(a.text("[backend/]server")?);
            Ok(())
        }),
    )
    .example("track other"),
    entry(
        "verify",
        "<none|required>",
        "Whether the server's certificate is verified",
        How::Server(|d, a| {
            let word = a.need("none or required")?;
            d.ssl().verify = Some(choice(
                word,
                "verification",
                &[("none", Verify::None), ("required", Verify::Required)],
            )?);
            Ok(())
        }),
    )
    .default("required")
    .example("ssl verify none"),
    entry(
        "verifyhost",
        "<hostname>",
        "Name that must stand in the certificate",
        How::Server(|d, a| {
            d.ssl().verifyhost = Some(a.text("a host name")?);
            Ok(())
        }),
    )
    .example("ssl ca-file @system-ca verifyhost example.org"),
    entry(
        "weight",
        "<weight>",
        "Share of the load, 0 to 256",
        How::Server(|d, a| {
            d.server.weight = a.number(0..=256)?;
            Ok(())
        }),
    )
    .default("1")
    .example("weight 50"),
    entry(
        "ws",
        "<mode>",
        "HTTP version of WebSocket requests: auto, h1, h2",
        How::Server(|d, a| {
            let word = a.need("auto, h1 or h2")?;
            let known = [
                ("auto", WebSocketVersion::Auto),
                ("h1", WebSocketVersion::H1),
                ("h2", WebSocketVersion::H2),
            ];
            d.server.ws = choice(word, "mode", &known)?;
            Ok(())
        }),
    )
    .default("auto")
    .example("ws h2"),
];

fn positive(a: &mut ServerArgs<'_, '_, '_>) -> Parsed<Duration> {
    let time = a.time()?;
    if time.is_zero() {
        fail(a.word.pos, format!("'{}' must not be zero", a.word.as_str()))
    } else {
        Ok(time)
    }
}

fn no_send_proxy(d: &mut ServerDraft, _: &mut ServerArgs<'_, '_, '_>) -> Parsed {
    d.server.send_proxy = None;
    Ok(())
}

/// What may stand on a server line.
static WORDS: LazyLock<Index> = LazyLock::new(|| Index::new(&[KEYWORDS, tls::KEYWORDS]));
