//! Keywords of frontend, backend, listen and defaults sections (section 4 of the manual).
//!
//! Lines of a defaults section are run again for each proxy that starts from it, before the proxy's own lines; so
//! inheritance needs no copying and every value has one place where it is read.

pub(crate) mod balance;
pub(crate) mod bandwidth;
pub(crate) mod checks;
pub(crate) mod content;
pub(crate) mod errors;
pub(crate) mod logging;
pub(crate) mod options;
pub(crate) mod removed;
pub(crate) mod rules;
pub(crate) mod stats;
pub(crate) mod stick;
pub(crate) mod timeouts;

use weir_rules::{Condition, Diagnostic, Place, Pos, Scope, Shared, Word};

use crate::bind;
use crate::keyword::{self, How, Keyword, Places, keyword as entry};
use crate::language::address;
use crate::language::args::{self, Args, MOST_A_SECOND, Parsed, Prefix, choice, fail, fail_hint};
use crate::language::tree::Line;
use crate::model::{
    BackendTarget, BindAddr, Global, KeepAliveProbes, Mode, Proxy, Server, ServerAddr, StateOrigin,
    UseBackend,
};
use crate::sections::{ProxyDraft, ServerDraft};
use crate::server;

impl ProxyDraft<'_> {
    fn add_server(&mut self, draft: &ServerDraft, name: String, pos: Pos) -> Parsed {
        let mut server = draft.finish(self.world.global);
        server.name = name.as_str().into();
        server.pos = pos;
        if let Some(first) = self.server_names.get(&name) {
            let line = self.proxy.servers[*first].pos.line;
            return fail_hint(
                pos,
                format!(
                    "another server named '{name}' was already defined at line {line} in {}",
                    self.section()
                ),
                "use distinct names",
            );
        }
        self.server_names.insert(name, self.proxy.servers.len());
        self.proxy.servers.push(server);
        Ok(())
    }
}

/// The mode a section ends up with: rules are read knowing it.
pub(crate) fn mode_of<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Mode {
    let mut mode = Mode::Tcp;
    for line in lines {
        if let [keyword, value, ..] = line.words.as_slice()
            && *keyword == "mode"
        {
            mode = parse_mode(value).unwrap_or(mode);
        }
    }
    mode
}

fn parse_mode(word: &Word) -> Parsed<Mode> {
    if *word == "health" {
        return fail_hint(
            word.pos,
            "mode 'health' is no longer supported",
            "use 'http-request return status 200'",
        );
    }
    let known = [("tcp", Mode::Tcp), ("http", Mode::Http), ("log", Mode::Log), ("spop", Mode::Spop)];
    choice(word, "mode", &known)
}

/// Words of `ssl-f-use` lines that stand alone, and those with a value.
const CERTIFICATE_FLAGS: &[&str] = &["allow-0rtt", "no-alpn", "no-ca-names"];

const CERTIFICATE_WORDS: &[&str] = &[
    "alpn",
    "ca-file",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "crt",
    "curves",
    "ecdhe",
    "issuer",
    "key",
    "npn",
    "ocsp",
    "ocsp-update",
    "sigalgs",
    "ssl-max-ver",
    "ssl-min-ver",
    "verify",
];

/// `ssl-f-use` and `crt`: a line of the frontend's own crt-list.
fn frontend_certificate(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, mut file: Option<String>) -> Parsed {
    let mut words = Vec::new();
    while let Some(word) = a.next() {
        let keyword = word.as_str();
        if matches!(&*keyword, "ktls" | "sctl") {
            return Err(keyword::not_yet(word, &format!("ssl-f-use {keyword}")));
        }
        if CERTIFICATE_FLAGS.contains(&&*keyword) {
            words.push(keyword.into_owned());
        } else if CERTIFICATE_WORDS.contains(&&*keyword) {
            let value = a.value_of(word, "a value")?.as_str().into_owned();
            match &*keyword {
                "crt" => file = Some(value),
                _ => words.extend([keyword.into_owned(), value]),
            }
        } else {
            let known = CERTIFICATE_WORDS.iter().chain(CERTIFICATE_FLAGS).copied();
            return Err(vec![Diagnostic::unknown("word", word, known)]);
        }
    }
    let Some(file) = file else {
        return fail_hint(a.keyword_pos, "the line names no certificate", "write 'ssl-f-use crt FILE'");
    };
    words.insert(0, file);
    d.certificates.push(words);
    Ok(())
}

fn bind_line(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let binds = bind::parse(a, d.world.global)?;
    if let Some(bind) = binds.iter().find(|bind| bind.datagram) {
        return fail(bind.pos, "a proxy cannot listen for datagrams");
    }
    let reverse = binds.iter().find(|bind| matches!(bind.addr, BindAddr::Reverse(_)));
    if let Some(bind) = reverse {
        experimental(d, bind.pos)?;
    }
    d.proxy.binds.extend(binds);
    Ok(())
}

/// Reverse HTTP has to be asked for.
fn experimental(d: &ProxyDraft<'_>, pos: Pos) -> Parsed {
    if d.world.global.expose_experimental_directives {
        return Ok(());
    }
    let hint = "add 'expose-experimental-directives' to the global section";
    fail_hint(pos, "'rhttp@' addresses are experimental", hint)
}

fn server_line(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a name and an address")?;
    let address = a.need("an address after the name")?;
    let mut draft = d.default_server.clone();
    draft.address(address)?;
    if draft.server.addr == ServerAddr::Reverse {
        experimental(d, address.pos)?;
    }
    draft.words(a, &mut d.scope, d.world.global)?;
    check_name(name)?;
    d.add_server(&draft, name.as_str().into_owned(), name.pos)
}

fn check_name(word: &Word) -> Parsed {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b':' | b'-' | b'_');
    match word.text.iter().find(|b| !allowed(b)) {
        None if !word.text.is_empty() => Ok(()),
        None => fail(word.pos, "the name is empty"),
        Some(bad) => fail_hint(
            word.pos,
            format!("character '{}' is not allowed in the name '{}'", char::from(*bad), word.as_str()),
            "letters, digits, '.', ':', '-' and '_' are",
        ),
    }
}

fn default_server(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut draft = d.default_server.clone();
    draft.words(a, &mut d.scope, d.world.global)?;
    d.default_server = draft;
    Ok(())
}

/// `server-template PREFIX NUMBERS FQDN[:PORT] ...`
fn server_template(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let prefix = a.need("a prefix, numbers and an address")?;
    let numbers = server::template_numbers(a.need("a number of servers or a range such as 1-10")?)?;
    let address = a.need("an address")?;
    let mut draft = d.default_server.clone();
    draft.address(address)?;
    draft.words(a, &mut d.scope, d.world.global)?;
    check_name(prefix)?;
    for number in numbers {
        d.add_server(&draft, format!("{}{number}", prefix.as_str()), prefix.pos)?;
    }
    Ok(())
}

/// The index of a backend, or an error that names the nearest one.
pub(crate) fn backend(d: &ProxyDraft<'_>, word: &Word, keyword: &str) -> Parsed<usize> {
    let name = word.as_str();
    if let Some(index) = d.world.backends.get(&*name) {
        return Ok(*index);
    }
    let near = weir_rules::words::diagnostic::nearest(&name, d.world.backends.keys().copied());
    let message = match keyword {
        "default_backend" => format!("unable to find required default_backend: '{name}'"),
        _ => format!("unable to find required use_backend: '{name}'"),
    };
    let error = Diagnostic::error(word.pos, message);
    Err(vec![Diagnostic { hint: near.map(|near| format!("did you mean '{near}'?")), ..error }])
}

fn default_backend(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("the name of a backend")?;
    d.default_backend = Some(word.clone());
    a.end()
}

fn use_backend(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("the name of a backend")?;
    let dynamic = word.text.windows(2).any(|pair| pair == b"%[");
    let target = if dynamic {
        d.format(word, Place::FrontendRequest).map(BackendTarget::Dynamic)
    } else {
        backend(d, word, "use_backend").map(BackendTarget::Known)
    };
    // Both halves of the line are read, so that both are reported.
    let condition = d.condition(a, Place::FrontendRequest);
    match (target, condition) {
        (Ok(target), Ok(condition)) => {
            d.proxy.use_backend.push(UseBackend { target, condition, pos: a.keyword_pos });
            Ok(())
        }
        (target, condition) => Err(target.err().into_iter().chain(condition.err()).flatten().collect()),
    }
}

fn use_server(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("the name of a server")?.clone();
    let condition = d.condition(a, Place::BackendRequest)?;
    d.use_servers.push((word, condition));
    Ok(())
}

fn persist_condition(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed<Condition> {
    match d.condition(a, Place::BackendRequest)? {
        Some(condition) => Ok(condition),
        None => fail(a.pos(), format!("'{}' requires a condition: 'if' or 'unless'", a.keyword)),
    }
}

fn source(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("an address")?;
    d.proxy.source = d.at(Place::BackendRequest, |d| server::source_words(word, a, &mut d.scope))?;
    if d.proxy.source.ports.is_some() {
        return server::one_port_only(word);
    }
    a.end()
}

/// `persist rdp-cookie[(NAME)]`
fn persist(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = parenthesised(&a.line[1]).unwrap_or_else(|| b"msts".to_vec());
    d.proxy.persist_rdp_cookie = Some(name);
    a.end()
}

/// What stands in parentheses at the end of a word.
pub(crate) fn parenthesised(word: &Word) -> Option<Vec<u8>> {
    let open = word.text.iter().position(|b| *b == b'(')?;
    Some(word.text[open + 1..].strip_suffix(b")")?.to_vec())
}

fn description(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    a.need("a text")?;
    d.proxy.description = Some(args::joined(a.words));
    Ok(())
}

fn load_server_state(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("global, local or none")?;
    let known = [("global", Some(StateOrigin::Global)), ("local", Some(StateOrigin::Local)), ("none", None)];
    d.proxy.load_server_state = choice(word, "origin", &known)?;
    a.end()
}

fn probes(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, which: fn(&mut Proxy) -> &mut KeepAliveProbes) -> Parsed {
    let probes = which(&mut d.proxy);
    if a.keyword.ends_with("-cnt") {
        probes.count = Some(a.number(1..=u32::MAX)?);
    } else if a.keyword.ends_with("-idle") {
        probes.idle = Some(args::time(a.need("a time")?, crate::language::units::Unit::Seconds)?);
    } else {
        probes.interval = Some(args::time(a.need("a time")?, crate::language::units::Unit::Seconds)?);
    }
    a.end()
}

/// `declare capture request|response len N`
fn declare_capture(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let direction = a.need("request or response")?;
    let response = choice(direction, "direction", &[("request", false), ("response", true)])?;
    let len = capture_length(a)?;
    let slots = if response { &mut d.scope.response_captures } else { &mut d.scope.request_captures };
    slots.push((Vec::new(), len));
    a.end()
}

fn capture_length(a: &mut Args<'_>) -> Parsed<usize> {
    let word = a.need("'len' and a length")?;
    if *word != "len" {
        return fail(word.pos, format!("'len' was expected, not '{}'", word.as_str()));
    }
    a.number(1..=65535)
}

fn capture_cookie(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a cookie's name")?;
    d.proxy.captures.cookie = Some((name.text.clone(), capture_length(a)?));
    a.end()
}

fn capture_header(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a field name")?;
    let len = capture_length(a)?;
    let request = a.keyword == "capture request header";
    let slots = if request { &mut d.scope.request_captures } else { &mut d.scope.response_captures };
    slots.push((name.text.clone(), len));
    a.end()
}

fn monitor_fail(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    match d.condition(a, Place::FrontendRequest)? {
        Some(condition) => d.proxy.monitor_fail.push(condition),
        None => return fail(a.pos(), "'monitor fail' requires a condition: 'if' or 'unless'"),
    }
    Ok(())
}

const LISTENING: Places = Places::FRONTEND.or(Places::LISTEN);

const SERVING: Places = Places::LISTEN.or(Places::BACKEND);

/// The proxy's own keywords; families have files of their own.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "acl",
        Places::PROXIES,
        "<name> <criterion> [<flags>] [<values>...]",
        "Names a condition",
        How::Proxy(|_, _| Ok(())),
    ).example("acl is_api path_beg /api"),
    entry(
        "backlog",
        Places::FRONT,
        "<number>",
        "Connections waiting to be accepted",
        How::Proxy(|d, a| {
            d.proxy.backlog = Some(a.number(0..=i32::MAX as u32)?);
            a.end()
        }),
    ).example("backlog 1024"),
    entry(
        "be-unpublished",
        SERVING,
        "",
        "Keeps the backend from being chosen",
        How::Proxy(|d, a| {
            d.proxy.unpublished = true;
            a.end()
        }),
    ).example("be-unpublished"),
    entry("bind", LISTENING, "<address>[,...] [<word>...]", "Listens for clients", How::Proxy(bind_line)).example("bind :8080"),
    entry(
        "capture cookie",
        LISTENING,
        "<name> len <length>",
        "Keeps a cookie for the log",
        How::Proxy(capture_cookie),
    ).example("capture cookie SESSION len 32"),
    entry(
        "capture request header",
        LISTENING,
        "<name> len <length>",
        "Keeps a request's field for the log",
        How::Proxy(capture_header),
    ).example("capture request header host len 64"),
    entry(
        "capture response header",
        LISTENING,
        "<name> len <length>",
        "Keeps a response's field for the log",
        How::Proxy(capture_header),
    ).example("capture response header server len 20"),
    entry(
        "clitcpka-cnt",
        Places::FRONT,
        "<count>",
        "TCP keep-alive probes to clients",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.clitcpka)),
    ).example("clitcpka-cnt 3"),
    entry(
        "clitcpka-idle",
        Places::FRONT,
        "<time>",
        "Idle time before TCP keep-alive probes to clients",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.clitcpka)),
    ).example("clitcpka-idle 60s"),
    entry(
        "clitcpka-intvl",
        Places::FRONT,
        "<time>",
        "Time between TCP keep-alive probes to clients",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.clitcpka)),
    ).example("clitcpka-intvl 10s"),
    entry(
        "crt",
        LISTENING,
        "<file> [<word>...]",
        "Certificate of the TLS listeners",
        How::Proxy(|d, a| {
            let file = a.text("a file name")?;
            frontend_certificate(d, a, Some(file))
        }),
    ),
    entry(
        "declare capture",
        LISTENING,
        "<request|response> len <length>",
        "Reserves a capture slot",
        How::Proxy(declare_capture),
    ).example("declare capture request len 32"),
    entry(
        "default-server",
        Places::BACK,
        "<word>...",
        "Words of all following server lines",
        How::Proxy(default_server),
    ).example("default-server check inter 1s"),
    entry(
        "default_backend",
        Places::FRONT,
        "<backend>",
        "Backend when no use_backend rule matches",
        How::Proxy(default_backend),
    ).example("default_backend api"),
    entry("description", Places::NAMED, "<text>", "Describes the proxy", How::Proxy(description)).example("description the shop"),
    entry(
        "disabled",
        Places::PROXIES,
        "",
        "Does not start the proxy",
        How::Proxy(|d, a| {
            d.proxy.disabled = true;
            a.end()
        }),
    ).example("disabled"),
    entry(
        "dispatch",
        SERVING,
        "<address>:<port>",
        "Server for all requests, without balancing",
        How::Removed("use 'server' with this address"),
    ),
    entry(
        "enabled",
        Places::PROXIES,
        "",
        "Undoes disabled",
        How::Proxy(|d, a| {
            d.proxy.disabled = false;
            a.end()
        }),
    ).example("enabled"),
    entry(
        "force-persist",
        SERVING,
        "<if|unless> <condition>",
        "Sends to the cookie's server even when it is down",
        How::Proxy(|d, a| {
            let condition = persist_condition(d, a)?;
            d.proxy.force_persist.push(condition);
            Ok(())
        }),
    ).example("force-persist if { src 192.0.2.0/24 }"),
    entry(
        "force-be-switch",
        Places::FRONTEND.or(Places::LISTEN),
        "<if|unless> <condition>",
        "Chooses unpublished backends too",
        How::Proxy(|d, a| {
            let Some(condition) = d.condition(a, Place::FrontendRequest)? else {
                return fail(a.pos(), "'force-be-switch' requires a condition: 'if' or 'unless'");
            };
            d.proxy.force_be_switch.push(condition);
            Ok(())
        }),
    ).example("force-be-switch if { src 192.0.2.0/24 }"),
    entry(
        "fullconn",
        Places::BACK,
        "<count>",
        "Connections at which servers reach maxconn",
        How::Proxy(|d, a| {
            d.proxy.fullconn = a.limit(usize::MAX)?;
            a.end()
        }),
    ).default("a tenth of the maxconn of the frontends that lead to it").example("fullconn 1000"),
    entry(
        "guid",
        Places::NAMED,
        "<string>",
        "Identifier that stays the same over reloads",
        How::Proxy(|d, a| {
            d.proxy.guid = Some(a.text("an identifier")?);
            a.end()
        }),
    ).example("guid shop"),
    entry(
        "id",
        Places::NAMED,
        "<value>",
        "Number of the proxy in statistics",
        How::Proxy(|d, a| {
            d.proxy.id = a.number(1..=i32::MAX as u32)?;
            a.end()
        }),
    ).example("id 7"),
    entry(
        "ignore-persist",
        SERVING,
        "<if|unless> <condition>",
        "Ignores the persistence cookie",
        How::Proxy(|d, a| {
            let condition = persist_condition(d, a)?;
            d.proxy.ignore_persist.push(condition);
            Ok(())
        }),
    ).example("ignore-persist if { path_beg /static }"),
    entry(
        "load-server-state-from-file",
        Places::BACK,
        "<global|local|none>",
        "Takes the servers' states from a file",
        How::Proxy(load_server_state),
    ).default("none").example("load-server-state-from-file global"),
    entry(
        "max-keep-alive-queue",
        Places::BACK,
        "<value>",
        "Queue length above which another server is tried",
        How::Proxy(|d, a| {
            d.proxy.max_keep_alive_queue = a.number(-1..=i32::MAX)?;
            a.end()
        }),
    ).default("-1, no limit").example("max-keep-alive-queue 10"),
    entry(
        "max-session-srv-conns",
        Places::FRONT,
        "<number>",
        "Idle server connections kept for a client",
        How::NoEffect("idle connections belong to the server, not to a client"),
    ),
    entry(
        "maxconn",
        Places::FRONT,
        "<count>",
        "Most client connections at a time",
        How::Proxy(|d, a| {
            d.proxy.maxconn = a.limit(usize::MAX)?;
            a.end()
        }),
    ).default("that of the process").example("maxconn 1000"),
    entry(
        "mode",
        Places::PROXIES,
        "<tcp|http|log|spop>",
        "Traffic of the proxy",
        How::Proxy(|d, a| {
            d.proxy.mode = parse_mode(a.need("tcp, http, log or spop")?)?;
            a.end()
        }),
    ).default("tcp").example("mode http"),
    entry(
        "monitor fail",
        LISTENING,
        "<if|unless> <condition>",
        "Makes monitor-uri answer 503",
        How::Proxy(monitor_fail),
    ).example("monitor-uri /alive\nmonitor fail if { nbsrv lt 1 }"),
    entry(
        "monitor-uri",
        Places::FRONT,
        "<uri>",
        "URI answered with 200 by the proxy itself",
        How::Proxy(|d, a| {
            d.proxy.monitor_uri = Some(a.need("a URI")?.text.clone());
            a.end()
        }),
    ).example("monitor-uri /alive"),
    entry(
        "persist rdp-cookie",
        Places::BACK,
        "[(<name>)]",
        "Sends RDP clients to the server of their cookie",
        How::Proxy(persist),
    ).example("mode tcp\npersist rdp-cookie"),
    entry(
        "rate-limit sessions",
        Places::FRONT,
        "<rate>",
        "Most new sessions a second",
        How::Proxy(|d, a| {
            d.proxy.rate_limit_sessions = a.limit(MOST_A_SECOND)?;
            a.end()
        }),
    ).default("0, no limit").example("rate-limit sessions 100"),
    entry("server", SERVING, "<name> <address>[:<port>] [<word>...]", "A server", How::Proxy(server_line)).example("server one 192.0.2.10:80 check"),
    entry(
        "server-state-file-name",
        Places::BACK,
        "[<file>|use-backend-name]",
        "File with the states of this backend's servers",
        How::Proxy(|d, a| {
            let name = a.next().map_or_else(|| d.proxy.name.to_string(), |word| word.as_str().into_owned());
            let name = if name == "use-backend-name" { d.proxy.name.to_string() } else { name };
            d.proxy.server_state_file = Some(name.into());
            a.end()
        }),
    ).example("server-state-file-name shop.state"),
    entry(
        "server-template",
        SERVING,
        "<prefix> <number|range> <fqdn>[:<port>] [<word>...]",
        "Several servers of one kind",
        How::Proxy(server_template),
    ).example("server-template web 1-3 192.0.2.10:80 check"),
    entry(
        "source",
        Places::BACK,
        "<address>[:<port>] [interface <name>]",
        "Address connections to servers come from",
        How::Proxy(source),
    ).example("source 192.0.2.100"),
    entry(
        "srvtcpka-cnt",
        Places::BACK,
        "<count>",
        "TCP keep-alive probes to servers",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.srvtcpka)),
    ).example("srvtcpka-cnt 3"),
    entry(
        "srvtcpka-idle",
        Places::BACK,
        "<time>",
        "Idle time before TCP keep-alive probes to servers",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.srvtcpka)),
    ).example("srvtcpka-idle 60s"),
    entry(
        "srvtcpka-intvl",
        Places::BACK,
        "<time>",
        "Time between TCP keep-alive probes to servers",
        How::Proxy(|d, a| probes(d, a, |p| &mut p.srvtcpka)),
    ).example("srvtcpka-intvl 10s"),
    entry(
        "transparent",
        SERVING,
        "",
        "Forwards to the client's destination (old form)",
        How::Removed("use 'option transparent'"),
    ),
    entry(
        "use_backend",
        LISTENING,
        "<backend> [<if|unless> <condition>]",
        "Chooses a backend",
        How::Proxy(use_backend),
    ).example("use_backend api if { path_beg /api }"),
    entry("use-fcgi-app", SERVING, "<name>", "Talks FastCGI to the servers", How::Proxy(use_fcgi_app)).example("use-fcgi-app php\nserver app 192.0.2.5:9000 proto fcgi"),
    entry(
        "dynamic-cookie-key",
        Places::BACK,
        "<string>",
        "Secret of dynamic cookies",
        How::Proxy(|d, a| {
            d.proxy.dynamic_cookie_key = Some(a.need("a secret")?.text.clone());
            a.end()
        }),
    ).example("dynamic-cookie-key secret"),
    entry(
        "ssl-f-use",
        LISTENING,
        "[<word>...]",
        "Certificates of the TLS listeners",
        How::Proxy(|d, a| frontend_certificate(d, a, None)),
    ),
    entry(
        "use-server",
        SERVING,
        "<server> [<if|unless> <condition>]",
        "Chooses a server",
        How::Proxy(use_server),
    ).example("use-server s if { path_beg /one }"),
    entry(
        "email-alert from",
        Places::PROXIES,
        "<address>",
        "Sender of alerts",
        How::Proxy(|d, a| {
            d.proxy.email_alert.from = Some(a.text("an address")?);
            a.end()
        }),
    ).example("email-alert from weir@example.org\nemail-alert to admin@example.org\nemail-alert mailers mail"),
    entry(
        "email-alert level",
        Places::PROXIES,
        "<level>",
        "Level of alerts",
        How::Proxy(|d, a| {
            d.proxy.email_alert.level = logging::level(a.need("a level")?)?;
            a.end()
        }),
    ).default("alert").example("email-alert from weir@example.org\nemail-alert to admin@example.org\nemail-alert mailers mail\nemail-alert level notice"),
    entry(
        "email-alert mailers",
        Places::PROXIES,
        "<section>",
        "Mail servers of alerts",
        How::Proxy(|d, a| {
            d.proxy.email_alert.mailers = Some(a.text("a mailers section's name")?);
            a.end()
        }),
    ).example("email-alert from weir@example.org\nemail-alert to admin@example.org\nemail-alert mailers mail"),
    entry(
        "email-alert myhostname",
        Places::PROXIES,
        "<name>",
        "Host name told to mail servers",
        How::Proxy(|d, a| {
            d.proxy.email_alert.myhostname = Some(a.text("a host name")?);
            a.end()
        }),
    ).example("email-alert from weir@example.org\nemail-alert to admin@example.org\nemail-alert mailers mail\nemail-alert myhostname edge.example.org"),
    entry(
        "email-alert to",
        Places::PROXIES,
        "<address>",
        "Receiver of alerts",
        How::Proxy(|d, a| {
            d.proxy.email_alert.to = Some(a.text("an address")?);
            a.end()
        }),
    ).example("email-alert from weir@example.org\nemail-alert to admin@example.org\nemail-alert mailers mail"),
];

fn use_fcgi_app(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("the name of an 'fcgi-app' section")?;
    content::fcgi_app(d, word)?;
    a.end()
}

/// A server line by itself, for servers added at run time.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn dynamic_server(words: &[Word], global: &Global, shared: &Shared<'_>) -> Parsed<Server> {
    let mut args = Args::new(words, "server", 0, Prefix::None);
    let name = args.need("a name and an address")?;
    let address = args.need("an address after the name")?;
    check_name(name)?;
    let mut draft = ServerDraft::new(global);
    let variable = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok()?;
        global.environment.get(name).map(String::as_bytes)
    };
    match address::expand(&address.text, variable) {
        Some(text) => draft.address(&Word { text, pos: address.pos })?,
        None => draft.address(address)?,
    }
    let mut scope = Scope::new(shared, "");
    draft.words(&mut args, &mut scope, global)?;
    let mut server = draft.finish(global);
    if server.healthcheck.is_some() {
        return fail(name.pos, "'healthcheck' for a server added at run time is not implemented yet");
    }
    server.name = name.as_str().into();
    server.pos = name.pos;
    Ok(server)
}
