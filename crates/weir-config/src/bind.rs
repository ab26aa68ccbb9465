//! `bind` lines and everything that listens like one: stats sockets, peers, log forwarders (section 5.1).

use std::net::SocketAddr;
use std::sync::LazyLock;

use weir_rules::{Diagnostic, Word};

use crate::keyword::{self, Found, How, Index, Keyword, Places, keyword};
use crate::language::address::{self, Host, Port, Transport};
use crate::language::args::{self, Args, Parsed, choice, fail, fail_hint};
use crate::model::{AdminLevel, Bind, BindAddr, Global, SeverityOutput, Verify};
use crate::sections::{BindDraft, empty};
use crate::server::protocol;
use crate::tls;

/// Most connections that one listener `rhttp@` keeps open.
const MOST_REVERSE: u32 = 1024;

/// Most sockets one line may open.
const MOST_SOCKETS: usize = 65536;

/// Most threads a `thread` set may name.
const MOST_THREADS: usize = 4096;

/// Reads addresses and words: one `Bind` for each address and port.
pub(crate) fn parse(args: &mut Args<'_>, global: &Global) -> Parsed<Vec<Bind>> {
    let addresses = args.need("an address such as :80 or 10.0.0.1:443")?;
    let mut draft = BindDraft::new(global, addresses.pos);
    let mut found = expand(addresses, global.unix_bind.prefix.as_deref().unwrap_or_default())?;
    draft.words(args)?;
    let prototype = draft.finish();
    for (index, bind) in found.iter_mut().enumerate() {
        *bind = Bind {
            addr: bind.addr.clone(),
            guid: prototype.guid.as_ref().map(|prefix| format!("{prefix}-{index}")),
            datagram: bind.datagram || prototype.datagram,
            ..prototype.clone()
        };
    }
    Ok(found)
}

/// Reads words only (`default-bind` of peers).
pub(crate) fn parse_words(args: &mut Args<'_>, global: &Global) -> Parsed<Bind> {
    let mut draft = BindDraft::new(global, args.keyword_pos);
    draft.words(args)?;
    Ok(draft.finish())
}

/// The addresses of a word between commas; port ranges give one for each port.  The prefix (`unix-bind`) goes before
/// the paths of unix sockets.
fn expand(word: &Word, prefix: &str) -> Parsed<Vec<Bind>> {
    let mut found = Vec::new();
    for text in word.as_str().split(',') {
        let parsed = address::parse(text).map_err(|message| vec![Diagnostic::error(word.pos, message)])?;
        let datagram = parsed.transport == Some(Transport::Datagram);
        let mut add = |addr| found.push(Bind { datagram, ..empty(addr, word.pos) });
        match (&parsed.host, parsed.port) {
            (Host::Any | Host::Ip(_), Port::Fixed(port)) => add_inet(&parsed, port..=port, &mut add),
            (Host::Any | Host::Ip(_), Port::Range(low, high)) => add_inet(&parsed, low..=high, &mut add),
            (Host::Name(name), Port::Fixed(port)) => add(BindAddr::Name(name.clone(), port)),
            (Host::Any | Host::Ip(_) | Host::Name(_), Port::Absent) => {
                return fail_hint(
                    word.pos,
                    format!("missing port number in '{text}'"),
                    "write for instance ':80'",
                );
            }
            (Host::Any | Host::Ip(_) | Host::Name(_), Port::Offset(_) | Port::Range(..)) => {
                return fail(word.pos, format!("'{text}' is no port to listen on"));
            }
            (Host::Unix(path), _) => add(BindAddr::Unix(format!("{prefix}{}", path.display()).into())),
            (Host::Abstract(name), _) => add(BindAddr::Abstract(name.clone())),
            (Host::Fd(fd), _) => add(BindAddr::Fd(*fd)),
            (Host::Sockpair(_), _) => return Err(keyword::not_yet(word, "bind sockpair@")),
            (Host::Reverse(name), _) if name.split_once('/').is_none() => {
                return fail(word.pos, format!("'{text}' names no server: rhttp@BACKEND/SERVER is expected"));
            }
            (Host::Reverse(name), _) => add(BindAddr::Reverse(name.clone())),
        }
        if found.len() > MOST_SOCKETS {
            return fail(word.pos, format!("more than {MOST_SOCKETS} sockets on one line"));
        }
    }
    Ok(found)
}

fn add_inet(parsed: &address::Address, ports: std::ops::RangeInclusive<u16>, add: &mut impl FnMut(BindAddr)) {
    let Some(ip) = parsed.ip() else { return };
    for port in ports {
        add(BindAddr::Inet(SocketAddr::new(ip, port)));
    }
}

impl<'a> BindDraft<'a> {
    fn words(&mut self, args: &mut Args<'_>) -> Parsed {
        while let Some(word) = args.peek() {
            let one = std::slice::from_ref(word);
            let Found::Here(keyword, _) = WORDS.find(one, Places::BIND) else {
                return Err(vec![WORDS.unknown(one, Places::BIND, "a bind line")]);
            };
            args.skip(1);
            match keyword.how {
                How::Bind(parse) => parse(self, args)?,
                How::Tls => {
                    let ca_base = self.global.ca_base.as_ref();
                    tls::read(&mut self.ssl.words, keyword.name, ca_base, &mut |what| args.need(what))?;
                }
                How::NoEffect(_) => {
                    if keyword.arguments.starts_with('<') {
                        args.value_of(word, keyword.arguments)?;
                    }
                }
                _ => return keyword.refused(word.pos),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Bind {
        if self.ssl_on {
            self.bind.ssl = Some(self.ssl);
        }
        self.bind
    }

    fn file(&self, args: &mut Args<'_>, base: Option<&std::path::PathBuf>) -> Parsed<std::path::PathBuf> {
        Ok(tls::in_base(args.need("a file name")?, base))
    }
}

/// `thread [GROUP/]SET[,...]`: numbers from 1 in the whole process; odd, even and all are left to the listener.
fn threads(word: &Word) -> Parsed<Vec<usize>> {
    let mut found = Vec::new();
    for part in word.as_str().split(',') {
        let set = part.split_once('/').map_or(part, |(_, set)| set);
        match set {
            "all" => return Ok(Vec::new()),
            "odd" | "even" => {
                let first = if set == "odd" { 1 } else { 2 };
                found.extend((first..=MOST_THREADS).step_by(2));
            }
            _ => {
                let (low, high) = set.split_once('-').unwrap_or((set, set));
                let high = if high.is_empty() { "4096" } else { high };
                match (low.parse::<usize>(), high.parse::<usize>()) {
                    (Ok(low), Ok(high)) if low >= 1 && low <= high && high <= MOST_THREADS => {
                        found.extend(low..=high);
                    }
                    _ => {
                        return fail(
                            word.pos,
                            format!("'{part}' is not a set of threads such as 1-4, odd or all"),
                        );
                    }
                }
            }
        }
    }
    Ok(found)
}

fn mode(word: &Word) -> Parsed<u32> {
    u32::from_str_radix(&word.as_str(), 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .map_or_else(|| fail(word.pos, "a mode of three octal digits was expected, as in 660"), Ok)
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::BIND, arguments, doc, how)
}

/// Words of bind lines.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "accept-netscaler-cip",
        "<magic>",
        "Expects the NetScaler client IP header",
        How::Bind(|d, a| {
            d.bind.accept_netscaler_cip = Some(a.number(1..=u32::MAX)?);
            Ok(())
        }),
    )
    .example("accept-netscaler-cip 12289"),
    entry(
        "accept-proxy",
        "",
        "Expects the PROXY protocol",
        How::Bind(|d, _| {
            d.bind.accept_proxy = true;
            Ok(())
        }),
    )
    .example("accept-proxy"),
    entry(
        "allow-0rtt",
        "",
        "Accepts early data",
        How::Bind(|d, _| {
            d.ssl.allow_0rtt = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem allow-0rtt"),
    entry(
        "alpn",
        "<protocols>",
        "Protocols offered to clients, the best first",
        How::Bind(|d, a| {
            d.ssl.alpn = Some(args::list(a.need("protocol names between commas")?));
            d.ssl.no_alpn = false;
            Ok(())
        }),
    )
    .default("h2,http/1.1")
    .example("ssl crt site.pem alpn h2,http/1.1"),
    entry(
        "backlog",
        "<backlog>",
        "Connections waiting to be accepted",
        How::Bind(|d, a| {
            d.bind.backlog = Some(a.number(0..=i32::MAX as u32)?);
            Ok(())
        }),
    )
    .example("backlog 1024"),
    entry("ca-file", "<file>", "Authorities that client certificates are verified with", How::Tls)
        .example("ssl crt site.pem ca-file clients.pem verify required"),
    entry(
        "ca-ignore-err",
        "<errors>",
        "Verification errors of authorities that are ignored",
        How::Bind(|d, a| {
            d.ssl.ca_ignore_err = Some(a.text("error numbers or 'all'")?);
            Ok(())
        }),
    )
    .example("ssl crt site.pem ca-file clients.pem verify optional ca-ignore-err all"),
    entry(
        "ca-sign-file",
        "<file>",
        "Authority that generated certificates are signed with",
        How::Bind(|d, a| {
            d.ssl.ca_sign_file = Some(d.file(a, d.global.ca_base.as_ref())?);
            Ok(())
        }),
    )
    .example("ssl crt site.pem generate-certificates ca-sign-file ca.pem"),
    entry(
        "ca-sign-pass",
        "<passphrase>",
        "Passphrase of the signing key",
        How::Bind(|d, a| {
            d.ssl.ca_sign_pass = Some(a.text("a passphrase")?);
            Ok(())
        }),
    )
    .example("ssl crt site.pem generate-certificates ca-sign-file ca.pem ca-sign-pass secret"),
    entry(
        "ca-verify-file",
        "<file>",
        "Authorities used to verify and not sent to clients",
        How::Bind(|d, a| {
            d.ssl.ca_verify_file = Some(d.file(a, d.global.ca_base.as_ref())?);
            Ok(())
        }),
    )
    .example("ssl crt site.pem ca-verify-file roots.pem verify optional"),
    entry(
        "cc",
        "<algo>",
        "Congestion control algorithm",
        How::Bind(|d, a| {
            d.bind.congestion = Some(a.text("an algorithm's name")?);
            Ok(())
        }),
    )
    .example("cc cubic"),
    entry("client-sigalgs", "<sigalgs>", "Signature algorithms of client certificates", How::Tls)
        .example("ssl crt site.pem client-sigalgs ECDSA+SHA256"),
    entry("crl-file", "<file>", "Revoked client certificates", How::Tls)
        .example("ssl crt site.pem ca-file clients.pem verify required crl-file revoked.pem"),
    entry(
        "crt",
        "<cert>",
        "Certificate and key, or a folder of them",
        How::Bind(|d, a| {
            let file = d.file(a, d.global.crt_base.as_ref())?;
            d.ssl.crt.push(file);
            Ok(())
        }),
    )
    .example("ssl crt site.pem"),
    entry(
        "crt-ignore-err",
        "<errors>",
        "Verification errors of client certificates that are ignored",
        How::Bind(|d, a| {
            d.ssl.crt_ignore_err = Some(a.text("error numbers or 'all'")?);
            Ok(())
        }),
    )
    .example(
        "ssl crt site.pem ca-file clients.pem verify optional crt-ignore-err X509_V_ERR_CERT_HAS_EXPIRED",
    ),
    entry(
        "crt-list",
        "<file>",
        "List of certificates with their filters",
        How::Bind(|d, a| {
            let file = d.file(a, None)?;
            d.ssl.crt_list.push(file);
            Ok(())
        }),
    )
    .example("ssl crt-list sites.list"),
    entry(
        "default-crt",
        "<cert>",
        "Certificate for clients that name no known host",
        How::Bind(|d, a| {
            let file = d.file(a, d.global.crt_base.as_ref())?;
            d.ssl.default_crt.push(file);
            Ok(())
        }),
    )
    .example("ssl default-crt fallback.pem crt site.pem"),
    entry(
        "defer-accept",
        "",
        "Accepts when the first data is there",
        How::Bind(|d, _| {
            d.bind.defer_accept = true;
            Ok(())
        }),
    )
    .example("defer-accept"),
    entry("ech", "<dir>", "Encrypted client hello", How::NotYet),
    entry(
        "expose-fd",
        "listeners",
        "Hands the listening sockets to a new process",
        How::Bind(|d, a| {
            let word = a.need("'listeners'")?;
            choice(word, "kind of descriptors", &[("listeners", ())])?;
            d.bind.expose_fd_listeners = true;
            Ok(())
        }),
    )
    .example("expose-fd listeners"),
    entry(
        "generate-certificates",
        "",
        "Certificates made for unknown names",
        How::Bind(|d, _| {
            d.ssl.generate_certificates = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem generate-certificates ca-sign-file ca.pem"),
    entry(
        "gid",
        "<gid>",
        "Group of the unix socket, by number",
        How::Bind(|d, a| {
            d.bind.unix.gid = Some(a.number(0..=u32::MAX)?);
            Ok(())
        }),
    )
    .example("gid 100"),
    entry(
        "group",
        "<group>",
        "Group of the unix socket",
        How::Bind(|d, a| {
            d.bind.unix.group = Some(a.text("a group's name")?);
            Ok(())
        }),
    )
    .example("group www"),
    entry(
        "guid-prefix",
        "<string>",
        "Start of the listeners' identifiers",
        How::Bind(|d, a| {
            d.bind.guid = Some(a.text("the start of an identifier")?);
            Ok(())
        }),
    )
    .example("guid-prefix shop"),
    entry(
        "id",
        "<id>",
        "Number of the socket in statistics",
        How::Bind(|d, a| {
            d.bind.id = a.number(1..=i32::MAX as u32)?;
            Ok(())
        }),
    )
    .example("id 7"),
    entry(
        "idle-ping",
        "<delay>",
        "Probes an idle HTTP/2 connection after this time",
        How::Bind(|d, a| {
            d.bind.idle_ping = Some(a.time()?).filter(|delay| !delay.is_zero());
            Ok(())
        }),
    )
    .default("off")
    .example("idle-ping 10s"),
    entry(
        "interface",
        "<interface>",
        "Accepts from this network interface only",
        How::Bind(|d, a| {
            d.bind.interface = Some(a.text("an interface's name")?);
            Ok(())
        }),
    )
    .example("interface eth0"),
    entry(
        "label",
        "<label>",
        "Label in statistics",
        How::NoEffect("a name for groups of sockets, and nothing asks for groups"),
    ),
    entry(
        "level",
        "<level>",
        "Rights of clients of a stats socket: user, operator, admin",
        How::Bind(|d, a| {
            let known = [
                ("user", AdminLevel::User),
                ("operator", AdminLevel::Operator),
                ("admin", AdminLevel::Admin),
            ];
            d.bind.level = choice(a.need("a level")?, "level", &known)?;
            Ok(())
        }),
    )
    .default("operator")
    .example("level admin"),
    entry(
        "maxconn",
        "<maxconn>",
        "Most connections at a time",
        How::Bind(|d, a| {
            d.bind.maxconn = a.limit(usize::MAX)?;
            Ok(())
        }),
    )
    .default("0, no limit")
    .example("maxconn 1000"),
    entry(
        "mode",
        "<mode>",
        "Rights of the unix socket, octal",
        How::Bind(|d, a| {
            d.bind.unix.mode = Some(mode(a.need("a mode such as 660")?)?);
            Ok(())
        }),
    )
    .example("mode 660"),
    entry(
        "mss",
        "<maxseg>",
        "Longest TCP segment",
        How::Bind(|d, a| {
            d.bind.mss = Some(a.number(-65535..=65535)?);
            Ok(())
        }),
    )
    .example("mss 1400"),
    entry(
        "name",
        "<name>",
        "Name in statistics and logs",
        How::Bind(|d, a| {
            d.bind.name = Some(a.text("a name")?.into());
            Ok(())
        }),
    )
    .example("name public"),
    entry(
        "namespace",
        "<name>",
        "Network namespace to listen in",
        How::Bind(|d, a| {
            d.bind.namespace =
                Some(crate::language::args::namespace(a.need("the name of a network namespace")?)?);
            Ok(())
        }),
    )
    .example("namespace blue"),
    entry(
        "nbconn",
        "<nbconn>",
        "Connections a reverse listener keeps open",
        How::Bind(|d, a| {
            d.bind.nbconn = a.number(1..=MOST_REVERSE)?;
            Ok(())
        }),
    )
    .default("1")
    .example("nbconn 4"),
    entry(
        "nice",
        "<nice>",
        "Priority of its clients, -1024 to 1024",
        How::NoEffect("the connections of a thread take turns"),
    ),
    entry(
        "no-alpn",
        "",
        "Offers no protocols",
        How::Bind(|d, _| {
            d.ssl.alpn = None;
            d.ssl.no_alpn = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem no-alpn"),
    entry(
        "no-ca-names",
        "",
        "Does not send the names of authorities",
        How::Bind(|d, _| {
            d.ssl.no_ca_names = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem no-ca-names"),
    entry(
        "no-strict-sni",
        "",
        "Undoes strict-sni",
        How::Bind(|d, _| {
            d.ssl.strict_sni = false;
            Ok(())
        }),
    )
    .example("ssl crt site.pem no-strict-sni"),
    entry(
        "prefer-client-ciphers",
        "",
        "The client's order of cipher suites counts",
        How::Bind(|d, _| {
            d.ssl.prefer_client_ciphers = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem prefer-client-ciphers"),
    entry(
        "proto",
        "<name>",
        "Protocol without detection: h1, h2",
        How::Bind(|d, a| {
            d.bind.proto = Some(protocol(a.need("a protocol")?)?);
            Ok(())
        }),
    )
    .example("proto h2"),
    entry("quic-force-retry", "", "QUIC retries always", How::NotYet),
    entry("quic-socket", "<mode>", "Sockets of QUIC", How::NotYet),
    entry(
        "severity-output",
        "<format>",
        "Severity in responses of a stats socket: none, number, string",
        How::Bind(|d, a| {
            d.bind.severity_output = choice(a.need("a format")?, "format", SeverityOutput::NAMES)?;
            Ok(())
        }),
    )
    .default("none")
    .example("severity-output number"),
    entry(
        "shards",
        "<shards>",
        "Sockets that share the address: a number, by-thread, by-group",
        How::NoEffect("all threads take connections from one socket"),
    ),
    entry(
        "ssl",
        "",
        "Speaks TLS",
        How::Bind(|d, _| {
            d.ssl_on = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem"),
    entry(
        "strict-sni",
        "",
        "Refuses handshakes for unknown names",
        How::Bind(|d, _| {
            d.ssl.strict_sni = true;
            Ok(())
        }),
    )
    .example("ssl crt site.pem strict-sni"),
    entry(
        "tcp-md5sig",
        "<password>",
        "Signs TCP segments",
        How::Bind(|d, a| {
            d.bind.md5_key = Some(crate::language::args::md5_key(a.need("a password")?)?);
            Ok(())
        }),
    )
    .example("tcp-md5sig secret"),
    entry(
        "tcp-ss",
        "<mode>",
        "TCP stack of the kernel",
        How::Bind(|d, a| {
            d.bind.save_syn = Some(a.number(0..=2)?).filter(|mode| *mode > 0);
            Ok(())
        }),
    )
    .default("0")
    .example("tcp-ss 1"),
    entry(
        "tcp-ut",
        "<delay>",
        "Longest time without acknowledgement",
        How::Bind(|d, a| {
            d.bind.tcp_ut = Some(a.time()?);
            Ok(())
        }),
    )
    .example("tcp-ut 30s"),
    entry(
        "tfo",
        "",
        "TCP fast open",
        How::Bind(|d, _| {
            d.bind.tfo = true;
            Ok(())
        }),
    )
    .example("tfo"),
    entry(
        "thread",
        "<set>",
        "Threads that serve it",
        How::Bind(|d, a| {
            d.bind.threads = threads(a.need("a set of threads")?)?;
            Ok(())
        }),
    )
    .default("all")
    .example("thread 1-4"),
    entry("process", "<set>", "Threads that serve it, in the old form", How::Removed("use thread")),
    entry(
        "tls-ticket-keys",
        "<file>",
        "Keys of session tickets",
        How::Bind(|d, a| {
            d.ssl.tls_ticket_keys = Some(d.file(a, None)?);
            Ok(())
        }),
    )
    .example("ssl crt site.pem tls-ticket-keys tickets.keys"),
    entry(
        "transparent",
        "",
        "Accepts for addresses that are not local",
        How::Bind(|d, _| {
            d.bind.transparent = true;
            Ok(())
        }),
    )
    .example("transparent"),
    entry(
        "uid",
        "<uid>",
        "Owner of the unix socket, by number",
        How::Bind(|d, a| {
            d.bind.unix.uid = Some(a.number(0..=u32::MAX)?);
            Ok(())
        }),
    )
    .example("uid 100"),
    entry(
        "user",
        "<user>",
        "Owner of the unix socket",
        How::Bind(|d, a| {
            d.bind.unix.user = Some(a.text("a user's name")?);
            Ok(())
        }),
    )
    .example("user www"),
    entry(
        "v4v6",
        "",
        "IPv4 too on an IPv6 socket",
        How::Bind(|d, _| {
            d.bind.v4v6 = true;
            Ok(())
        }),
    )
    .example("v4v6"),
    entry(
        "v6only",
        "",
        "IPv6 only on an IPv6 socket",
        How::Bind(|d, _| {
            d.bind.v6only = true;
            Ok(())
        }),
    )
    .example("v6only"),
    entry(
        "verify",
        "<none|optional|required>",
        "Whether clients must have certificates",
        How::Bind(|d, a| {
            let known =
                [("none", Verify::None), ("optional", Verify::Optional), ("required", Verify::Required)];
            d.ssl.verify = Some(choice(a.need("none, optional or required")?, "verification", &known)?);
            Ok(())
        }),
    )
    .default("none")
    .example("ssl crt site.pem ca-file clients.pem verify optional"),
    entry(
        "ocsp-update",
        "<on|off>",
        "Updates the OCSP responses of the certificates",
        How::Bind(|d, a| {
            let word = a.need("on or off")?;
            d.ssl.ocsp_update = Some(choice(word, "value", &[("on", true), ("off", false)])?);
            Ok(())
        }),
    )
    .default("off")
    .example("ssl crt site.pem ocsp-update on"),
];

/// What may stand on a bind line.
static WORDS: LazyLock<Index> = LazyLock::new(|| Index::new(&[KEYWORDS, tls::KEYWORDS]));
