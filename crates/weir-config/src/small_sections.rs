//! The smaller sections: userlist, http-errors, cache, peers, resolvers, ring, log-forward, mailers, crt-store.

use std::path::PathBuf;

use weir_rules::expr::scope::Place;
use weir_rules::facts::LogOrigin;
use weir_rules::{Diagnostic, LogFormat, Word};

use crate::bind;
use crate::global::NO_ACME;
use crate::keyword::{self, How, Keyword, Places, keyword as entry};
use crate::language::address::Transport;
use crate::language::args::{
    self, Args, Parsed, Prefix, choice, fail, fail_hint, parse_address, socket_address,
};
use crate::language::units::Unit;
use crate::model::{CrtLoad, LogHost, Nameserver, ProfileLine, Server};
use crate::proxy::{errors, logging, stick};
use crate::sections::SectionDraft;
use crate::tls;

/// Why there are no `program` sections.
pub(crate) const NO_PROGRAMS: &str =
    "other programs are a service manager's business, as HAProxy found as well";

/// Most parts that the tables of peers are split into.
const MOST_SHARDS: usize = 4096;

/// Port of DNS.
const DNS_PORT: u16 = 53;

impl SectionDraft<'_> {
    fn server(&mut self, a: &mut Args<'_>, address: &Word, name: &Word) -> Parsed<Server> {
        let mut draft = self.default_server.clone();
        draft.address(address)?;
        draft.words(a, &mut self.scope, self.global)?;
        let mut server = draft.finish(self.global);
        server.name = name.as_str().into();
        server.pos = name.pos;
        Ok(server)
    }
}

fn cache_size(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a number of megabytes")?;
    d.cache.total_max_size_mb = match word.as_str().parse::<u64>() {
        Ok(size) if (1..=4095).contains(&size) => size as usize,
        Ok(_) => return fail(word.pos, "\"total-max-size\" (in megabytes) must be from 1 to 4095"),
        Err(_) => return fail(word.pos, format!("'{}' is not a number of megabytes", word.as_str())),
    };
    a.end()
}

/// `peer NAME ADDRESS ...`, `server NAME [ADDRESS] ...`
fn peer(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a name and an address")?;
    if name.as_str() == d.local_peer {
        return local_peer(d, a, name);
    }
    let Some(address) = a.next() else {
        return fail(a.pos(), format!("the address of peer '{}' is missing", name.as_str()));
    };
    let server = d.server(a, address, name)?;
    if d.peers.remotes.iter().any(|other| other.name == server.name) {
        let message = format!("peer '{}' is declared twice", name.as_str());
        d.warnings.push(Diagnostic::warning(name.pos, message).hint("use distinct names"));
    }
    d.peers.remotes.push(server);
    Ok(())
}

/// The local peer listens where its own line says, or where a `bind` line does.
fn local_peer(d: &mut SectionDraft<'_>, a: &mut Args<'_>, name: &Word) -> Parsed {
    d.peers.local = Some(name.as_str().into_owned());
    let Some(address) = a.next() else { return Ok(()) };
    let mut args = Args::new(std::slice::from_ref(address), "peer", 0, Prefix::None);
    let binds = bind::parse(&mut args, d.global)?;
    d.peers.binds.extend(binds);
    // The words after the address are a server's and matter to the other peers only.
    d.default_server.clone().words(a, &mut d.scope, d.global)
}

fn peers_table(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a name and the table's words")?;
    let full = format!("{}/{}", d.name, name.as_str());
    if d.peers.tables.iter().any(|table| table.name == full) {
        return fail(name.pos, format!("table '{}' is declared twice", name.as_str()));
    }
    let mut table = stick::table(&full, name.pos, a)?;
    table.peers = Some(d.name.clone());
    d.peers.tables.push(table);
    Ok(())
}

fn nameserver(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a name and an address")?;
    let address = a.need("an address")?;
    let tcp = parse_address(address)?.transport == Some(Transport::Stream);
    let addr = socket_address(address, DNS_PORT)?;
    if d.resolvers.nameservers.iter().any(|other| *name == other.name.as_str()) {
        return fail(name.pos, format!("name server '{}' is declared twice", name.as_str()));
    }
    if let Some(word) = a.peek() {
        return Err(keyword::not_yet(word, "words of servers after the address of a name server"));
    }
    d.resolvers.nameservers.push(Nameserver { name: name.as_str().into_owned(), addr, tcp });
    Ok(())
}

fn hold(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a status and a time")?;
    let r = &mut d.resolvers;
    let field = match word.text.as_slice() {
        b"nx" => &mut r.hold_nx,
        b"refused" => &mut r.hold_refused,
        b"timeout" => &mut r.hold_timeout,
        b"other" => &mut r.hold_other,
        b"valid" => &mut r.hold_valid,
        b"obsolete" => &mut r.hold_obsolete,
        _ => {
            return Err(vec![Diagnostic::unknown(
                "status",
                word,
                ["nx", "refused", "timeout", "other", "valid", "obsolete"],
            )]);
        }
    };
    *field = a.time()?;
    a.end()
}

/// `load [crt] FILE [key FILE] [alias NAME] ...`
fn load(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut load = CrtLoad { pos: a.keyword_pos, ..CrtLoad::default() };
    let mut named = false;
    while let Some(word) = a.next() {
        let crt_base = d.crt_base.as_ref();
        match word.text.as_slice() {
            b"crt" => {
                let file = a.value_of(word, "a file name")?;
                load.written = file.as_str().into_owned();
                load.crt = tls::in_base(file, crt_base);
                named = true;
            }
            b"key" => load.key = Some(tls::in_base(a.value_of(word, "a file name")?, d.key_base.as_ref())),
            b"ocsp" => load.ocsp = Some(tls::in_base(a.value_of(word, "a file name")?, crt_base)),
            b"issuer" => load.issuer = Some(tls::in_base(a.value_of(word, "a file name")?, crt_base)),
            b"sctl" => return Err(keyword::not_yet(word, "load ... sctl")),
            b"alias" => {
                let alias = a.value_of(word, "a name")?;
                if alias.text.contains(&b'/') {
                    return fail(alias.pos, "an alias cannot contain a '/'");
                }
                load.alias = Some(alias.as_str().into_owned());
            }
            b"ocsp-update" => {
                let value = a.value_of(word, "on or off")?;
                load.ocsp_update = Some(choice(value, "value", &[("on", true), ("off", false)])?);
            }
            b"acme" | b"domains" | b"ips" => {
                return Err(keyword::not_yet(word, &format!("load ... {}", word.as_str())));
            }
            _ if !named && load.crt.as_os_str().is_empty() => {
                load.written = word.as_str().into_owned();
                load.crt = tls::in_base(word, crt_base);
                named = true;
            }
            _ => {
                let known = ["crt", "key", "ocsp", "issuer", "alias", "ocsp-update"];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    if !named {
        return fail_hint(a.keyword_pos, "'load' names no certificate", "write 'load crt FILE'");
    }
    d.crt_store.loads.push(load);
    Ok(())
}

/// `on STEP [drop] [format FORMAT] [sd FORMAT]`
fn on_step(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let step = a.need("a step such as close")?;
    let mut line = ProfileLine::default();
    d.scope.place = Place::Log;
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"drop" => line.drop = true,
            b"format" => line.format = Some(LogFormat::parse(a.value_of(word, "a format")?, &mut d.scope)?),
            b"sd" => line.data = Some(LogFormat::parse(a.value_of(word, "a format")?, &mut d.scope)?),
            _ => return Err(vec![Diagnostic::unknown("word", word, ["drop", "format", "sd"])]),
        }
    }
    let name = step.as_str();
    let mut known = LogOrigin::STEPS.iter().chain(&LogOrigin::RULES);
    match (&*name, known.clone().find(|(known, _)| *known == name)) {
        (_, Some((_, origin))) => drop(d.log_profile.steps.insert(*origin, line)),
        ("error", None) => d.log_profile.error = Some(line),
        ("any", None) => d.log_profile.any = Some(line),
        _ => {
            let known = known.by_ref().map(|(name, _)| *name).chain(["error", "any"]);
            return Err(vec![Diagnostic::unknown("step", step, known)]);
        }
    }
    Ok(())
}

fn errorfile(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let code = a.need("a status and a file")?;
    let file = a.need("a file after the status")?;
    a.end()?;
    let message = errors::message(file)?;
    match errors::status(code)? {
        Some(status) => {
            d.errors.insert(status, message);
        }
        None => {
            let text =
                format!("status code '{}' not handled, error customization will be ignored", code.as_str());
            d.warnings.push(Diagnostic::warning(code.pos, text));
        }
    }
    Ok(())
}

fn dgram_bind(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut binds = bind::parse(a, d.global)?;
    binds.iter_mut().for_each(|bind| bind.datagram = true);
    d.log_forward.dgram_binds.extend(binds);
    Ok(())
}

fn log_forward_log(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix != Prefix::None {
        d.log_forward.logs.clear();
        return a.end();
    }
    d.log_forward.logs.push(logging::target(a)?);
    Ok(())
}

fn peers_log(d: &mut SectionDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix != Prefix::None {
        d.peers.logs.clear();
        return a.end();
    }
    d.peers.logs.push(logging::target(a)?);
    Ok(())
}

const ACME: Places = Places::ACME;

/// Keywords of the smaller sections.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "group",
        Places::USERLIST,
        "<name> [users <user>,...]",
        "A group of users",
        How::Section(|d, a| d.userlist.add_group(a.words)),
    ),
    entry(
        "user",
        Places::USERLIST,
        "<name> [password|insecure-password <password>] [groups <group>,...]",
        "A user",
        How::Section(|d, a| d.userlist.add_user(a.words)),
    ),
    entry(
        "errorfile",
        Places::HTTP_ERRORS,
        "<status> <file>",
        "Answer for a status, from a file with a whole response",
        How::Section(errorfile),
    ),
    // cache
    entry("total-max-size", Places::CACHE, "<megabytes>", "Memory of the cache", How::Section(cache_size)),
    entry(
        "max-age",
        Places::CACHE,
        "<seconds>",
        "Longest life of an object",
        How::Section(|d, a| {
            d.cache.max_age = args::time(a.need("a time in seconds")?, Unit::Seconds)?;
            a.end()
        }),
    ),
    entry(
        "max-object-size",
        Places::CACHE,
        "<bytes>",
        "Largest object",
        How::Section(|d, a| {
            d.cache.max_object_size = a.number(1..=usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "max-secondary-entries",
        Places::CACHE,
        "<number>",
        "Most variants of an object",
        How::Section(|d, a| {
            d.cache.max_secondary_entries = a.number(1..=usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "process-vary",
        Places::CACHE,
        "<on|off>",
        "Keeps variants by the Vary field",
        How::Section(|d, a| {
            d.cache.process_vary = a.switch()?;
            a.end()
        }),
    ),
    entry(
        "early-hints",
        Places::CACHE,
        "<on|off|only> [ratio <percent>]",
        "Sends 103 responses",
        How::NotYet,
    ),
    // peers
    entry(
        "bind",
        Places::PEERS,
        "<address> [<word>...]",
        "Where the local peer listens",
        How::Section(|d, a| {
            let binds = bind::parse(a, d.global)?;
            d.peers.binds.extend(binds);
            Ok(())
        }),
    ),
    entry(
        "default-bind",
        Places::PEERS,
        "<word>...",
        "Words of the local peer's bind line",
        How::Section(|d, a| {
            d.default_bind = Some(bind::parse_words(a, d.global)?);
            Ok(())
        }),
    ),
    entry(
        "default-server",
        Places::PEERS,
        "<word>...",
        "Words of all following peers",
        How::Section(|d, a| {
            let mut draft = d.default_server.clone();
            draft.words(a, &mut d.scope, d.global)?;
            d.default_server = draft;
            Ok(())
        }),
    ),
    entry(
        "disabled",
        Places::PEERS,
        "",
        "Does not start the section",
        How::Section(|d, a| {
            d.peers.disabled = true;
            a.end()
        }),
    ),
    entry(
        "enabled",
        Places::PEERS,
        "",
        "Undoes disabled",
        How::Section(|d, a| {
            d.peers.disabled = false;
            a.end()
        }),
    ),
    entry(
        "log",
        Places::PEERS,
        "global | <target> [len <n>] [format <f>] [sample <s>] <facility>",
        "Where connections from peers are logged",
        How::Section(peers_log),
    )
    .negatable(),
    entry(
        "peer",
        Places::PEERS,
        "<name> <address> [<word>...]",
        "A process that shares tables",
        How::Section(peer),
    ),
    entry(
        "server",
        Places::PEERS,
        "<name> [<address>] [<word>...]",
        "A process that shares tables",
        How::Section(peer),
    ),
    entry(
        "shards",
        Places::PEERS,
        "<number>",
        "Parts that tables are split into",
        How::Section(|d, a| {
            d.peers.shards = a.number(1..=MOST_SHARDS)?;
            a.end()
        }),
    ),
    entry(
        "table",
        Places::PEERS,
        "<name> type <type> size <size> ...",
        "A stick table",
        How::Section(peers_table),
    ),
    // resolvers
    entry(
        "accepted_payload_size",
        Places::RESOLVERS,
        "<bytes>",
        "Longest response",
        How::Section(|d, a| {
            d.resolvers.accepted_payload_size = a.number(512..=65535)?;
            a.end()
        }),
    ),
    entry(
        "nameserver",
        Places::RESOLVERS,
        "<name> <address>[:<port>]",
        "A name server",
        How::Section(nameserver),
    ),
    entry(
        "parse-resolv-conf",
        Places::RESOLVERS,
        "",
        "Uses the system's name servers too",
        How::Section(|d, a| {
            d.resolvers.parse_resolv_conf = true;
            a.end()
        }),
    ),
    entry(
        "hold",
        Places::RESOLVERS,
        "<status> <time>",
        "How long the last response of a kind counts",
        How::Section(hold),
    ),
    entry(
        "resolve_retries",
        Places::RESOLVERS,
        "<number>",
        "Queries before giving up",
        How::Section(|d, a| {
            d.resolvers.resolve_retries = a.number(1..=i32::MAX as u32)?;
            a.end()
        }),
    ),
    entry(
        "timeout resolve",
        Places::RESOLVERS,
        "<time>",
        "Time between resolutions",
        How::Section(|d, a| {
            d.resolvers.timeout_resolve = a.time()?;
            a.end()
        }),
    ),
    entry(
        "timeout retry",
        Places::RESOLVERS,
        "<time>",
        "Time between queries",
        How::Section(|d, a| {
            d.resolvers.timeout_retry = a.time()?;
            a.end()
        }),
    ),
    // mailers
    entry(
        "mailer",
        Places::MAILERS,
        "<name> <address>:<port>",
        "A mail server",
        How::Section(|d, a| {
            let name = a.text("a name and an address")?;
            let addr = socket_address(a.need("an address")?, 25)?;
            d.mailers.servers.push((name, addr));
            a.end()
        }),
    ),
    entry(
        "timeout mail",
        Places::MAILERS,
        "<time>",
        "Longest time for sending a mail",
        How::Section(|d, a| {
            d.mailers.timeout_mail = a.time()?;
            a.end()
        }),
    ),
    // ring
    entry(
        "backing-file",
        Places::RING,
        "<path>",
        "File that keeps the ring",
        How::Section(|d, a| {
            d.ring.backing_file = Some(PathBuf::from(a.text("a file name")?));
            a.end()
        }),
    ),
    entry(
        "description",
        Places::RING,
        "<text>",
        "Describes the ring",
        How::Section(|d, a| {
            d.ring.description = Some(args::joined(a.rest()));
            Ok(())
        }),
    ),
    entry(
        "format",
        Places::RING,
        "<format>",
        "Format of stored messages",
        How::Section(|d, a| {
            d.ring.format = logging::wire(a.need("a format such as rfc5424")?)?;
            a.end()
        }),
    ),
    entry(
        "maxlen",
        Places::RING,
        "<length>",
        "Longest stored message",
        How::Section(|d, a| {
            d.ring.max_len = a.size()?;
            a.end()
        }),
    ),
    entry(
        "server",
        Places::RING,
        "<name> <address> [<word>...]",
        "A server that messages are sent to",
        How::Section(|d, a| {
            let name = a.need("a name and an address")?;
            let address = a.need("an address after the name")?;
            let server = d.server(a, address, name)?;
            d.ring.servers.push(server);
            Ok(())
        }),
    ),
    entry(
        "size",
        Places::RING,
        "<size>",
        "Memory of the ring",
        How::Section(|d, a| {
            d.ring.size = a.size()?;
            a.end()
        }),
    ),
    entry(
        "timeout connect",
        Places::RING,
        "<time>",
        "Longest connection attempt",
        How::Section(|d, a| {
            d.ring.timeout_connect = Some(a.time()?);
            a.end()
        }),
    ),
    entry(
        "timeout server",
        Places::RING,
        "<time>",
        "Longest wait for the server to take data",
        How::Section(|d, a| {
            d.ring.timeout_server = Some(a.time()?);
            a.end()
        }),
    ),
    // log-forward
    entry(
        "backlog",
        Places::LOG_FORWARD,
        "<number>",
        "Connections waiting to be accepted",
        How::Section(|d, a| {
            d.log_forward.backlog = Some(a.number(0..=i32::MAX as u32)?);
            a.end()
        }),
    ),
    entry(
        "bind",
        Places::LOG_FORWARD,
        "<address> [<word>...]",
        "Listens for messages over streams",
        How::Section(|d, a| {
            let binds = bind::parse(a, d.global)?;
            d.log_forward.binds.extend(binds);
            Ok(())
        }),
    ),
    entry(
        "dgram-bind",
        Places::LOG_FORWARD,
        "<address> [<word>...]",
        "Listens for messages in datagrams",
        How::Section(dgram_bind),
    ),
    entry(
        "log",
        Places::LOG_FORWARD,
        "global | <target> [len <n>] [format <f>] [sample <s>] <facility>",
        "Where messages go",
        How::Section(log_forward_log),
    )
    .negatable(),
    entry(
        "maxconn",
        Places::LOG_FORWARD,
        "<number>",
        "Most connections at a time",
        How::Section(|d, a| {
            d.log_forward.maxconn = a.limit(usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "timeout client",
        Places::LOG_FORWARD,
        "<time>",
        "Longest inactivity of a client",
        How::Section(|d, a| {
            d.log_forward.timeout_client = Some(a.time()?).filter(|time| !time.is_zero());
            a.end()
        }),
    ),
    entry(
        "option assume-rfc6587-ntf",
        Places::LOG_FORWARD,
        "",
        "Messages end with a line feed always",
        How::Section(|d, a| {
            d.log_forward.assume_rfc6587_ntf = a.prefix == Prefix::None;
            a.end()
        }),
    )
    .negatable(),
    entry(
        "option dont-parse-log",
        Places::LOG_FORWARD,
        "",
        "Forwards messages as they are",
        How::Section(|d, a| {
            d.log_forward.dont_parse_log = a.prefix == Prefix::None;
            a.end()
        }),
    )
    .negatable(),
    entry(
        "option host",
        Places::LOG_FORWARD,
        "<replace|fill|keep|append>",
        "What happens with the host name of messages",
        How::Section(|d, a| {
            let known = [
                ("replace", LogHost::Replace),
                ("fill", LogHost::Fill),
                ("keep", LogHost::Keep),
                ("append", LogHost::Append),
            ];
            d.log_forward.host = choice(a.need("replace, fill, keep or append")?, "value", &known)?;
            a.end()
        }),
    ),
    // crt-store
    entry(
        "crt-base",
        Places::CRT_STORE,
        "<dir>",
        "Folder of relative crt names",
        How::Section(|d, a| {
            d.crt_base = Some(PathBuf::from(a.text("a path")?));
            a.end()
        }),
    ),
    entry(
        "key-base",
        Places::CRT_STORE,
        "<dir>",
        "Folder of relative key names",
        How::Section(|d, a| {
            d.key_base = Some(PathBuf::from(a.text("a path")?));
            a.end()
        }),
    ),
    entry(
        "load",
        Places::CRT_STORE,
        "[crt] <file> [key <file>] [alias <name>] ...",
        "Files of a certificate",
        How::Section(load),
    ),
    // traces
    entry(
        "trace",
        Places::TRACES,
        "<source> <arguments>",
        "Debugging traces",
        How::NoEffect("traces are HAProxy's internal events"),
    ),
    // Sections that are not there yet.
    entry(
        "command",
        Places::PROGRAM,
        "<command> [<arguments>...]",
        "Program to run",
        How::Never(NO_PROGRAMS),
    ),
    entry("user", Places::PROGRAM, "<name>", "User the program runs as", How::Never(NO_PROGRAMS)),
    entry("group", Places::PROGRAM, "<name>", "Group the program runs as", How::Never(NO_PROGRAMS)),
    entry(
        "option start-on-reload",
        Places::PROGRAM,
        "",
        "Starts the program again after a reload",
        How::Never(NO_PROGRAMS),
    ),
    entry("account-key", ACME, "<file>", "Key of the account", How::Never(NO_ACME)),
    entry("acme-vars", ACME, "<string>", "Variables of the DNS provider", How::Never(NO_ACME)),
    entry("bits", ACME, "<number>", "Length of RSA keys", How::Never(NO_ACME)),
    entry("challenge", ACME, "<type>", "Kind of challenge", How::Never(NO_ACME)),
    entry("challenge-ready", ACME, "<value>,...", "When a challenge is ready", How::Never(NO_ACME)),
    entry("contact", ACME, "<address>", "Mail address of the account", How::Never(NO_ACME)),
    entry("curves", ACME, "<curve>", "Curve of keys", How::Never(NO_ACME)),
    entry("directory", ACME, "<url>", "The authority's directory", How::Never(NO_ACME)),
    entry("dns-delay", ACME, "<time>", "Wait before a DNS challenge", How::Never(NO_ACME)),
    entry("dns-timeout", ACME, "<time>", "Longest wait for a DNS challenge", How::Never(NO_ACME)),
    entry("eab-key-id", ACME, "<file>", "External account", How::Never(NO_ACME)),
    entry("eab-mac-key", ACME, "<file>", "External account", How::Never(NO_ACME)),
    entry("eab-mac-alg", ACME, "<algorithm>", "External account", How::Never(NO_ACME)),
    entry("keytype", ACME, "<type>", "RSA or ECDSA", How::Never(NO_ACME)),
    entry("map", ACME, "<map>", "Map that holds the responses to challenges", How::Never(NO_ACME)),
    entry("profile", ACME, "<name>", "The authority's profile", How::Never(NO_ACME)),
    entry("provider-name", ACME, "<name>", "DNS provider", How::Never(NO_ACME)),
    entry("reuse-key", ACME, "<on|off>", "Keeps the key", How::Never(NO_ACME)),
    entry(
        "log-tag",
        Places::LOG_PROFILE,
        "<string>",
        "Program name in syslog headers",
        How::Section(|d, a| {
            d.log_profile.tag = Some(a.text("a tag")?);
            a.end()
        }),
    ),
    entry(
        "on",
        Places::LOG_PROFILE,
        "<step> [drop] [format <fmt>] [sd <fmt>]",
        "Format at a stage",
        How::Section(on_step),
    ),
];
