//! The figures for Prometheus (`http-request use-service prometheus-exporter`).
//!
//! Owns the metrics' names, which are those of HAProxy's exporter, and the text format; the figures are the
//! tables of [`crate::stat`] and [`crate::info`].

use std::fmt::Write as _;
use std::sync::Arc;

use weir_http::Response;
use weir_proxy::Shared;
use weir_proxy::control::dns::COUNTS;
use weir_proxy::state::ServerState;
use weir_proxy::state::load::{InForce, Reason, Step};
use weir_proxy::state::stick_table::StickTable;
use weir_rules::{Reply, Txn, reply};

use crate::info::{self, About};
use crate::object::{self, Filter, Kind, Now, Object, Part};
use crate::stat;
use crate::value::Value;

/// Most `scope` and `metrics` words of a request.
const MAX_WORDS: usize = 64;

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    process: bool,
    tables: bool,
    /// Bits of [`Kind::bit`].
    kinds: i64,
    no_maint: bool,
    /// Name servers.
    resolvers: bool,
    /// Only these metrics; empty is all.
    names: Vec<String>,
}

impl Wanted {
    /// Reads a query; `None` when it is not understood.
    fn parse(query: &[u8]) -> Option<Self> {
        let all = Kind::ALL.iter().map(|kind| kind.bit()).sum();
        let mut wanted = Self {
            process: true,
            tables: true,
            resolvers: true,
            kinds: all,
            no_maint: false,
            names: Vec::new(),
        };
        let mut scoped = false;
        let text = String::from_utf8_lossy(query);
        for word in text.split('&').filter(|word| !word.is_empty()).take(MAX_WORDS) {
            match word.split_once('=') {
                Some(("scope", scope)) => {
                    if !std::mem::replace(&mut scoped, true) {
                        (wanted.process, wanted.tables, wanted.kinds) = (false, false, 0);
                        wanted.resolvers = false;
                    }
                    match scope {
                        "" => {}
                        "*" => {
                            (wanted.process, wanted.tables, wanted.kinds) = (true, true, all);
                            wanted.resolvers = true;
                        }
                        "resolver" => wanted.resolvers = true,
                        "global" => wanted.process = true,
                        "sticktable" => wanted.tables = true,
                        "frontend" => wanted.kinds |= Kind::Frontend.bit(),
                        "listener" => wanted.kinds |= Kind::Listener.bit(),
                        "backend" => wanted.kinds |= Kind::Backend.bit(),
                        "server" => wanted.kinds |= Kind::Server.bit(),
                        _ => return None,
                    }
                }
                Some(("metrics", names)) => {
                    wanted.names.extend(names.split(',').take(MAX_WORDS).map(str::to_owned));
                }
                None if word == "no-maint" => wanted.no_maint = true,
                None if word == "scope" => return None,
                _ => {}
            }
        }
        Some(wanted)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// Answers a request for metrics.
pub(crate) fn answer(shared: &Arc<Shared>, version: &str, txn: &Txn) -> Reply {
    let Some(wanted) = Wanted::parse(txn.request.query()) else { return reply::default_error(400) };
    let mut response = Response::new(200, "OK");
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"content-type", b"text/plain; version=0.0.4");
    Reply::new(response, text(shared, version, &wanted).as_bytes())
}

fn text(shared: &Arc<Shared>, version: &str, wanted: &Wanted) -> String {
    let mut out = String::new();
    if wanted.process {
        process(&About { shared, version, now: Now::of(shared) }, wanted, &mut out);
    }
    let filter = Filter { kinds: Some(wanted.kinds), no_maint: wanted.no_maint, ..Filter::default() };
    let objects = object::objects(shared, &filter, false);
    for kind in Kind::ALL {
        let of_kind: Vec<&Object<'_>> = objects.iter().filter(|object| object.kind() == kind).collect();
        if !of_kind.is_empty() {
            proxies(kind, &of_kind, wanted, &mut out);
        }
    }
    if wanted.tables {
        tables(shared, wanted, &mut out);
    }
    if wanted.resolvers {
        resolvers(shared, wanted, &mut out);
    }
    out
}

/// The process's metrics: name here, name in `show info`, and what a value is multiplied by.
#[rustfmt::skip]
const PROCESS: &[(&str, &str)] = &[
    ("nbthread", "Nbthread"),
    ("nbproc", "Nbproc"),
    ("relative_process_id", "Process_num"),
    ("uptime_seconds", "Uptime_sec"),
    ("start_time_seconds", "Start_time_sec"),
    ("max_memory_bytes", "Memmax_bytes"),
    ("pool_allocated_bytes", "PoolAlloc_bytes"),
    ("pool_used_bytes", "PoolUsed_bytes"),
    ("pool_failures_total", "PoolFailed"),
    ("max_fds", "Ulimit-n"),
    ("max_sockets", "Maxsock"),
    ("max_connections", "Maxconn"),
    ("hard_max_connections", "Hard_maxconn"),
    ("current_connections", "CurrConns"),
    ("connections_total", "CumConns"),
    ("requests_total", "CumReq"),
    ("max_ssl_connections", "MaxSslConns"),
    ("current_ssl_connections", "CurrSslConns"),
    ("ssl_connections_total", "CumSslConns"),
    ("current_connection_rate", "ConnRate"),
    ("limit_connection_rate", "ConnRateLimit"),
    ("max_connection_rate", "MaxConnRate"),
    ("current_session_rate", "SessRate"),
    ("limit_session_rate", "SessRateLimit"),
    ("max_session_rate", "MaxSessRate"),
    ("current_ssl_rate", "SslRate"),
    ("limit_ssl_rate", "SslRateLimit"),
    ("max_ssl_rate", "MaxSslRate"),
    ("current_frontend_ssl_key_rate", "SslFrontendKeyRate"),
    ("max_frontend_ssl_key_rate", "SslFrontendMaxKeyRate"),
    ("frontend_ssl_reuse", "SslFrontendSessionReuse_pct"),
    ("http_comp_bytes_in_total", "CompressBpsIn"),
    ("http_comp_bytes_out_total", "CompressBpsOut"),
    ("limit_http_comp", "CompressBpsRateLim"),
    ("http_comp_step_share_percent", "CompressStepShare_pct"),
    ("http_comp_reused_bytes_total", "CompressReused_bytes"),
    ("current_tasks", "Tasks"),
    ("current_run_queue", "Run_queue"),
    ("idle_time_percent", "Idle_pct"),
    ("stopping", "Stopping"),
    ("jobs", "Jobs"),
    ("unstoppable_jobs", "Unstoppable Jobs"),
    ("listeners", "Listeners"),
    ("active_peers", "ActivePeers"),
    ("connected_peers", "ConnectedPeers"),
    ("dropped_logs_total", "DroppedLogs"),
    ("busy_polling_enabled", "BusyPolling"),
    ("failed_resolutions", "FailedResolutions"),
    ("max_pipes", "Maxpipes"),
    ("pipes_used_total", "PipesUsed"),
    ("pipes_free_total", "PipesFree"),
    ("current_backend_ssl_key_rate", "SslBackendKeyRate"),
    ("max_backend_ssl_key_rate", "SslBackendMaxKeyRate"),
    ("ssl_cache_lookups_total", "SslCacheLookups"),
    ("ssl_cache_misses_total", "SslCacheMisses"),
    ("current_zlib_memory", "ZlibMemUsage"),
    ("max_zlib_memory", "MaxZlibMemUsage"),
    ("bytes_out_total", "TotalBytesOut"),
    ("spliced_bytes_out_total", "TotalSplicedBytesOut"),
    ("bytes_out_rate", "BytesOutRate"),
    ("recv_logs_total", "CumRecvLogs"),
];

fn process(about: &About<'_>, wanted: &Wanted, out: &mut String) {
    for (name, field) in PROCESS {
        let name = format!("haproxy_process_{name}");
        let Some(field) = info::FIELDS.iter().find(|known| known.name == *field) else { continue };
        if !wanted.wants(&name) {
            continue;
        }
        head(&name, field.description, out);
        line(&name, &[], (field.read)(about).as_ref(), 1.0, out);
    }
    compression(about, wanted, out);
    let name = "haproxy_process_build_info";
    if wanted.wants(name) {
        // Writing to memory cannot fail.
        writeln!(out, "# HELP {name} Version\n# TYPE {name} gauge").unwrap_or_default();
        line(name, &[("version", about.version)], Some(&Value::U32(1)), 1.0, out);
    }
}

/// The step of compression in force and what holds it back: one line for each there is, 1 for the one it is.
fn compression(about: &About<'_>, wanted: &Wanted, out: &mut String) {
    let InForce { step, reason, .. } = about.shared.load.compression().0;
    let steps = Step::ALL.map(Step::name);
    let reasons = Reason::ALL.map(Reason::name);
    for (name, description, states, current) in [
        ("haproxy_process_http_comp_step", "Best compression that responses get", &steps[..], step.name()),
        ("haproxy_process_http_comp_step_reason", "What holds compression back", &reasons[..], reason.name()),
    ] {
        if wanted.wants(name) {
            head(name, description, out);
            for state in states {
                let value = Value::U32(u32::from(*state == current));
                line(name, &[("state", state)], Some(&value), 1.0, out);
            }
        }
    }
}

/// What is counted for name servers.
fn resolvers(shared: &Shared, wanted: &Wanted, out: &mut String) {
    let servers = || {
        let sections = shared.dns.sections();
        sections.flat_map(|section| section.servers.iter().map(move |server| (section.name(), server)))
    };
    if servers().next().is_none() {
        return;
    }
    for (at, (_, counter)) in COUNTS.iter().enumerate() {
        let name = format!("haproxy_resolver_{counter}");
        if !wanted.wants(&name) {
            continue;
        }
        // Writing to memory cannot fail.
        writeln!(out, "# HELP {name} Counted for name servers\n# TYPE {name} gauge").unwrap_or_default();
        for (section, server) in servers() {
            let count = server.counts().nth(at).unwrap_or(0);
            let labels = [("resolver", section), ("nameserver", server.name.as_str())];
            line(&name, &labels, Some(&Value::U64(count)), 1.0, out);
        }
    }
}

const FRONTENDS: u8 = 1;
const LISTENERS: u8 = 2;
const BACKENDS: u8 = 4;
const SERVERS: u8 = 8;

/// What becomes of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    /// Milliseconds become seconds.
    Milliseconds,
    /// One line for each status class; the figure's name ends in it.
    Code(&'static str),
    /// One line for each state there is: 1 for the one it is in.
    State,
    /// The same for the last check's result.
    CheckState,
    /// Figures of checks, of those servers that are checked: the field that tells, and the shape.
    Checked(&'static str, &'static Self),
    /// One line for each state that servers can be in: how many of the backend's are in it.
    ServerStates,
    /// The same for their last checks' results.
    ServerCheckStates,
}

/// The proxies' metrics: name here, name in the statistics, for which objects, and how.
#[rustfmt::skip]
const PROXIES: &[(&str, &str, u8, Shape)] = &[
    ("current_queue", "qcur", BACKENDS | SERVERS, Shape::Number),
    ("max_queue", "qmax", BACKENDS | SERVERS, Shape::Number),
    ("current_sessions", "scur", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("max_sessions", "smax", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("limit_sessions", "slim", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("sessions_total", "stot", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("bytes_in_total", "bin", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("bytes_out_total", "bout", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("req_bytes_in_total", "bin", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("res_bytes_out_total", "bout", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("requests_denied_total", "dreq", FRONTENDS | LISTENERS | BACKENDS, Shape::Number),
    ("responses_denied_total", "dresp", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("request_errors_total", "ereq", FRONTENDS | LISTENERS, Shape::Number),
    ("connection_errors_total", "econ", BACKENDS | SERVERS, Shape::Number),
    ("response_errors_total", "eresp", BACKENDS | SERVERS, Shape::Number),
    ("retry_warnings_total", "wretr", BACKENDS | SERVERS, Shape::Number),
    ("redispatch_warnings_total", "wredis", BACKENDS | SERVERS, Shape::Number),
    ("status", "status", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::State),
    ("weight", "weight", BACKENDS | SERVERS, Shape::Number),
    ("active_servers", "act", BACKENDS, Shape::Number),
    ("backup_servers", "bck", BACKENDS, Shape::Number),
    ("active", "act", SERVERS, Shape::Number),
    ("backup", "bck", SERVERS, Shape::Number),
    ("agg_server_status", "agg_server_status", BACKENDS, Shape::ServerStates),
    ("agg_server_check_status", "agg_server_check_status", BACKENDS, Shape::ServerStates),
    ("agg_check_status", "agg_check_status", BACKENDS, Shape::ServerCheckStates),
    ("check_failures_total", "chkfail", SERVERS, Shape::Number),
    ("check_up_down_total", "chkdown", BACKENDS | SERVERS, Shape::Number),
    ("check_last_change_seconds", "lastchg", BACKENDS | SERVERS, Shape::Number),
    ("downtime_seconds_total", "downtime", BACKENDS | SERVERS, Shape::Number),
    ("queue_limit", "qlimit", SERVERS, Shape::Number),
    ("current_throttle", "throttle", SERVERS, Shape::Number),
    ("loadbalanced_total", "lbtot", BACKENDS | SERVERS, Shape::Number),
    ("current_session_rate", "rate", FRONTENDS | BACKENDS | SERVERS, Shape::Number),
    ("limit_session_rate", "rate_lim", FRONTENDS, Shape::Number),
    ("max_session_rate", "rate_max", FRONTENDS | BACKENDS | SERVERS, Shape::Number),
    ("check_status", "check_status", SERVERS, Shape::CheckState),
    ("check_code", "check_code", SERVERS, Shape::Checked("check_status", &Shape::Number)),
    ("check_duration_seconds", "check_duration", SERVERS, Shape::Checked("check_status", &Shape::Milliseconds)),
    ("agent_status", "agent_status", SERVERS, Shape::CheckState),
    ("agent_code", "agent_code", SERVERS, Shape::Checked("agent_status", &Shape::Number)),
    ("agent_duration_seconds", "agent_duration", SERVERS, Shape::Checked("agent_status", &Shape::Milliseconds)),
    ("http_responses_total", "hrsp_", FRONTENDS | BACKENDS | SERVERS, Shape::Code("1xx 2xx 3xx 4xx 5xx other")),
    ("http_requests_rate_current", "req_rate", FRONTENDS, Shape::Number),
    ("http_requests_rate_max", "req_rate_max", FRONTENDS, Shape::Number),
    ("http_requests_total", "req_tot", FRONTENDS | BACKENDS | SERVERS, Shape::Number),
    ("client_aborts_total", "cli_abrt", BACKENDS | SERVERS, Shape::Number),
    ("server_aborts_total", "srv_abrt", BACKENDS | SERVERS, Shape::Number),
    ("http_comp_bytes_in_total", "comp_in", FRONTENDS | BACKENDS, Shape::Number),
    ("http_comp_bytes_out_total", "comp_out", FRONTENDS | BACKENDS, Shape::Number),
    ("http_comp_bytes_bypassed_total", "comp_byp", FRONTENDS | BACKENDS, Shape::Number),
    ("http_comp_responses_total", "comp_rsp", FRONTENDS | BACKENDS, Shape::Number),
    ("last_session_seconds", "lastsess", BACKENDS | SERVERS, Shape::Number),
    ("queue_time_average_seconds", "qtime", BACKENDS | SERVERS, Shape::Milliseconds),
    ("connect_time_average_seconds", "ctime", BACKENDS | SERVERS, Shape::Milliseconds),
    ("response_time_average_seconds", "rtime", BACKENDS | SERVERS, Shape::Milliseconds),
    ("total_time_average_seconds", "ttime", BACKENDS | SERVERS, Shape::Milliseconds),
    ("connections_rate_current", "conn_rate", FRONTENDS, Shape::Number),
    ("connections_rate_max", "conn_rate_max", FRONTENDS, Shape::Number),
    ("connections_total", "conn_tot", FRONTENDS, Shape::Number),
    ("intercepted_requests_total", "intercepted", FRONTENDS, Shape::Number),
    ("denied_connections_total", "dcon", FRONTENDS | LISTENERS, Shape::Number),
    ("denied_sessions_total", "dses", FRONTENDS | LISTENERS, Shape::Number),
    ("failed_header_rewriting_total", "wrew", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("connection_attempts_total", "connect", BACKENDS | SERVERS, Shape::Number),
    ("connection_reuses_total", "reuse", BACKENDS | SERVERS, Shape::Number),
    ("http_cache_lookups_total", "cache_lookups", FRONTENDS | BACKENDS, Shape::Number),
    ("http_cache_hits_total", "cache_hits", FRONTENDS | BACKENDS, Shape::Number),
    ("idle_connections_current", "srv_icur", SERVERS, Shape::Number),
    ("idle_connections_limit", "src_ilim", SERVERS, Shape::Number),
    ("max_queue_time_seconds", "qtime_max", BACKENDS | SERVERS, Shape::Milliseconds),
    ("max_connect_time_seconds", "ctime_max", BACKENDS | SERVERS, Shape::Milliseconds),
    ("max_response_time_seconds", "rtime_max", BACKENDS | SERVERS, Shape::Milliseconds),
    ("max_total_time_seconds", "ttime_max", BACKENDS | SERVERS, Shape::Milliseconds),
    ("internal_errors_total", "eint", FRONTENDS | LISTENERS | BACKENDS | SERVERS, Shape::Number),
    ("unsafe_idle_connections_current", "idle_conn_cur", SERVERS, Shape::Number),
    ("safe_idle_connections_current", "safe_conn_cur", SERVERS, Shape::Number),
    ("used_connections_current", "used_conn_cur", SERVERS, Shape::Number),
    ("need_connections_current", "need_conn_est", SERVERS, Shape::Number),
    ("uweight", "uweight", BACKENDS | SERVERS, Shape::Number),
];

/// Results of checks that have a line each.
const CHECK_STATES: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK",
    "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

/// The states that objects of a kind can be in, and the word for the kind.
fn kind_words(kind: Kind) -> (&'static str, u8, &'static [&'static str]) {
    match kind {
        Kind::Frontend => ("frontend", FRONTENDS, &["DOWN", "UP"]),
        Kind::Listener => ("listener", LISTENERS, &["WAITING", "OPEN", "FULL"]),
        Kind::Backend => ("backend", BACKENDS, &["DOWN", "UP"]),
        Kind::Server => ("server", SERVERS, &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"]),
    }
}

fn proxies(kind: Kind, objects: &[&Object<'_>], wanted: &Wanted, out: &mut String) {
    let (word, bit, states) = kind_words(kind);
    for (name, field, kinds, shape) in PROXIES {
        let name = format!("haproxy_{word}_{name}");
        if kinds & bit == 0 || !wanted.wants(&name) {
            continue;
        }
        match *shape {
            Shape::Number | Shape::Milliseconds => figures(&name, field, *shape, objects, out),
            Shape::Checked(tells, shape) => {
                let is_checked =
                    |object: &&Object<'_>| named(tells).is_some_and(|f| (f.read)(object).is_some());
                let checked: Vec<&Object<'_>> = objects.iter().copied().filter(is_checked).collect();
                if !checked.is_empty() {
                    figures(&name, field, *shape, &checked, out);
                }
            }
            Shape::Code(codes) => responses(&name, field, codes, objects, out),
            Shape::State => {
                let Some(field) = named(field) else { continue };
                head(&name, field.description, out);
                each(objects, |object, labels| {
                    let state = state_word(kind, &object.status());
                    in_states(&name, labels, states, state, out);
                });
            }
            Shape::CheckState => check_states(&name, field, objects, out),
            Shape::ServerStates | Shape::ServerCheckStates => {
                head(&name, "Servers of the backend by their state", out);
                let has_servers = |object: &&Object<'_>| !object.state.servers.load().is_empty();
                let farms: Vec<&Object<'_>> = objects.iter().copied().filter(has_servers).collect();
                each(&farms, |object, labels| counted_servers(&name, labels, object, *shape, out));
            }
        }
    }
}

/// One line for each object.
fn figures(name: &str, field: &str, shape: Shape, objects: &[&Object<'_>], out: &mut String) {
    let Some(field) = named(field) else { return };
    let factor = if shape == Shape::Milliseconds {
        head(name, &in_seconds(field.description), out);
        0.001
    } else {
        head(name, field.description, out);
        1.0
    };
    each(objects, |object, labels| line(name, labels, (field.read)(object).as_ref(), factor, out));
}

/// What a figure in milliseconds is called when it is told in seconds.
fn in_seconds(description: &str) -> String {
    description.replace(", ms", ", seconds").replace("Milliseconds", "Seconds")
}

/// One line for each status class of each object.
fn responses(name: &str, field: &str, codes: &str, objects: &[&Object<'_>], out: &mut String) {
    head(name, "Responses by status", out);
    for code in codes.split(' ') {
        let Some(field) = named(&format!("{field}{code}")) else { continue };
        each(objects, |object, labels| {
            if let Some(value) = (field.read)(object) {
                let labels = [labels, &[("code", code)]].concat();
                line(name, &labels, Some(&value), 1.0, out);
            }
        });
    }
}

/// One line for each result that the last check can have, of the servers that are checked.
fn check_states(name: &str, field: &str, objects: &[&Object<'_>], out: &mut String) {
    let Some(field) = named(field) else { return };
    let results = objects.iter().map(|object| (*object, check_result(field, object)));
    let mut results = results.filter_map(|(object, result)| Some((object, result?))).peekable();
    if results.peek().is_some() {
        head(name, field.description, out);
    }
    for (object, result) in results {
        each(&[object], |_, labels| in_states(name, labels, CHECK_STATES, &result, out));
    }
}

/// The result of the last check, as it is called while the next one runs too.
fn check_result(field: &stat::Field, object: &Object<'_>) -> Option<String> {
    Some((field.read)(object)?.to_string().trim_start_matches("* ").to_owned())
}

/// How many servers of a backend are in each state, or have each result of their last check.
fn counted_servers(
    name: &str,
    labels: &[(&str, &str)],
    backend: &Object<'_>,
    shape: Shape,
    out: &mut String,
) {
    let checks = shape == Shape::ServerCheckStates;
    let states = if checks { CHECK_STATES } else { kind_words(Kind::Server).2 };
    let servers = backend.state.servers.load();
    let state_of = |server: &Arc<ServerState>| {
        let object = Object { part: Part::Server(Arc::clone(server)), ..*backend };
        match checks {
            false => Some(state_word(Kind::Server, &object.status()).to_owned()),
            true => check_result(named("check_status")?, &object),
        }
    };
    let found: Vec<String> = servers.iter().filter_map(state_of).collect();
    for state in states {
        let labels = [labels, &[("state", *state)]].concat();
        let count = found.iter().filter(|found| found == state).count();
        line(name, &labels, Some(&Value::count(count)), 1.0, out);
    }
}

fn named(name: &str) -> Option<&'static stat::Field> {
    stat::FIELDS.iter().find(|field| field.name == name)
}

/// The state of a status: without progress, and in the words that there are metrics for.
fn state_word(kind: Kind, status: &str) -> &'static str {
    let first = status.split([' ', '(']).next().unwrap_or_default();
    match (kind, first) {
        (Kind::Frontend, "OPEN" | "FULL") | (Kind::Backend, "UP") | (Kind::Server, "UP" | "no") => "UP",
        (Kind::Server, "MAINT") => "MAINT",
        (Kind::Server, "DRAIN") => "DRAIN",
        (Kind::Server, "NOLB") => "NOLB",
        (Kind::Listener, "OPEN") => "OPEN",
        (Kind::Listener, "FULL") => "FULL",
        (Kind::Listener, _) => "WAITING",
        _ => "DOWN",
    }
}

/// Runs something for each object with its labels.
fn each(objects: &[&Object<'_>], mut run: impl FnMut(&Object<'_>, &[(&str, &str)])) {
    for object in objects {
        let name = object.name();
        match object.kind() {
            Kind::Frontend | Kind::Backend => run(object, &[("proxy", &object.proxy.name)]),
            Kind::Listener => run(object, &[("proxy", &object.proxy.name), ("listener", &name)]),
            Kind::Server => run(object, &[("proxy", &object.proxy.name), ("server", &name)]),
        }
    }
}

fn in_states(name: &str, labels: &[(&str, &str)], states: &[&str], state: &str, out: &mut String) {
    for one in states {
        let labels = [labels, &[("state", *one)]].concat();
        line(name, &labels, Some(&Value::U32(u32::from(*one == state))), 1.0, out);
    }
}

/// A figure of a stick table.
type Read = fn(&StickTable) -> usize;

fn tables(shared: &Shared, wanted: &Wanted, out: &mut String) {
    let sizes: [(&str, &str, Read); 2] = [
        ("haproxy_sticktable_size", "Most entries of a stick table", |table| table.settings().size),
        ("haproxy_sticktable_used", "Entries of a stick table", StickTable::used),
    ];
    for (name, description, read) in sizes {
        if shared.tables.iter().next().is_none() || !wanted.wants(name) {
            continue;
        }
        // Writing to memory cannot fail.
        writeln!(out, "# HELP {name} {description}\n# TYPE {name} gauge").unwrap_or_default();
        for table in shared.tables.iter() {
            let labels = [("name", table.name()), ("type", table.type_name())];
            line(name, &labels, Some(&Value::count(read(table))), 1.0, out);
        }
    }
}

/// The lines before the samples.  The end of the name says what counts up, as Prometheus has it.
fn head(name: &str, description: &str, out: &mut String) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    // Writing to memory cannot fail.
    writeln!(out, "# HELP {name} {description}\n# TYPE {name} {kind}").unwrap_or_default();
}

/// A sample; what does not apply is not a number.
fn line(name: &str, labels: &[(&str, &str)], value: Option<&Value<'_>>, factor: f64, out: &mut String) {
    out.push_str(name);
    for (at, (label, value)) in labels.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        // Writing to memory cannot fail.
        write!(out, "{label}=\"{value}\"").unwrap_or_default();
    }
    out.push_str(if labels.is_empty() { " " } else { "} " });
    match value.and_then(Value::number) {
        None => out.push_str("NaN"),
        Some(number) if factor == 1.0 => write!(out, "{number:.0}").unwrap_or_default(),
        Some(number) => write!(out, "{:.6}", number * factor).unwrap_or_default(),
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes() {
        let check = |query: &str, expected: Option<(bool, bool, i64)>| {
            let parsed = Wanted::parse(query.as_bytes());
            assert_eq!(parsed.map(|w| (w.process, w.tables, w.kinds)), expected, "{query}");
        };
        check("", Some((true, true, 15)));
        check("scope=", Some((false, false, 0)));
        check("scope=server", Some((false, false, 4)));
        check("scope=frontend&scope=backend", Some((false, false, 3)));
        check("scope=global&scope=sticktable", Some((true, true, 0)));
        check("scope", None);
        check("scope=nonsense", None);
        check("no-maint", Some((true, true, 15)));
    }

    #[test]
    fn samples() {
        let shared = crate::cli::tests::shared();
        let wanted = Wanted::parse(b"").unwrap();
        let said = text(&shared, "1\"2", &wanted);
        for part in [
            "# TYPE haproxy_process_connections_total counter\nhaproxy_process_connections_total 0\n",
            "haproxy_process_build_info{version=\"1\\\"2\"} 1\n",
            "haproxy_process_http_comp_step{state=\"best\"} 1\n",
            "haproxy_process_http_comp_step{state=\"off\"} 0\n",
            "haproxy_process_http_comp_step_reason{state=\"free\"} 1\n",
            "haproxy_frontend_status{proxy=\"fe\",state=\"UP\"} 1\n",
            "haproxy_frontend_http_responses_total{proxy=\"fe\",code=\"4xx\"} 0\n",
            "haproxy_server_status{proxy=\"be\",server=\"s2\",state=\"MAINT\"} 1\n",
            "haproxy_server_check_failures_total{proxy=\"be\",server=\"s1\"} 0\n",
            "haproxy_server_check_failures_total{proxy=\"be\",server=\"s3\"} NaN\n",
            "haproxy_backend_agg_server_status{proxy=\"be\",state=\"MAINT\"} 1\n",
            "haproxy_backend_agg_check_status{proxy=\"be\",state=\"L7OK\"} 0\n",
            "haproxy_server_backup{proxy=\"be\",server=\"s1\"} 0\n",
            "haproxy_process_bytes_out_total counter\n",
            "haproxy_backend_total_time_average_seconds Average total time, seconds\n",
            "haproxy_server_limit_sessions{proxy=\"be\",server=\"s1\"} 5\n",
            "haproxy_backend_total_time_average_seconds{proxy=\"be\"} 0.000000\n",
            "haproxy_sticktable_size{name=\"fe\",type=\"ip\"} 100\n",
        ] {
            assert!(said.contains(part), "{part}");
        }
        let one = Wanted::parse(b"metrics=haproxy_server_weight").unwrap();
        assert_eq!(text(&shared, "", &one).lines().count(), 2 + 4);
    }

    /// The rules of Prometheus' text format, version 0.0.4, and of its linter.
    #[test]
    fn the_text_keeps_the_rules_of_its_format() {
        let shared = crate::cli::tests::shared();
        let said = text(&shared, "1", &Wanted::parse(b"").unwrap());
        let mut known = std::collections::BTreeSet::new();
        let (mut helped, mut current) = ("", "");
        for at in said.lines() {
            if let Some(help) = at.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(known.insert(name) && !words.is_empty(), "{at}");
                let bytes = name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
                assert!(bytes && name.starts_with("haproxy_"), "{at}");
                let milliseconds = words.ends_with(" ms") || words.starts_with("Milliseconds");
                assert!(!(milliseconds && name.contains("seconds")), "{at}");
                helped = name;
            } else if let Some(kind) = at.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                let expected = if name.ends_with("_total") { "counter" } else { "gauge" };
                assert_eq!((name, kind), (helped, expected), "{at}");
                current = name;
            } else {
                let (name, rest) = at.split_at(at.find(['{', ' ']).unwrap());
                let (labels, value) = rest.rsplit_once(' ').unwrap();
                assert_eq!(name, current, "{at}");
                assert!(labels.is_empty() || labels.starts_with('{') && labels.ends_with("\"}"), "{at}");
                assert!(value == "NaN" || value.parse::<f64>().is_ok(), "{at}");
            }
        }
        assert!(known.len() > 100);
    }

    #[test]
    fn every_metric_has_its_figure() {
        for (name, field) in PROCESS {
            assert!(info::FIELDS.iter().any(|known| known.name == *field), "{name}");
        }
        for (name, field, _, shape) in PROXIES {
            assert!(matches!(shape, Shape::Code(_)) || named(field).is_some(), "{name}");
        }
    }
}
