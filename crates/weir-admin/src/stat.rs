//! The figures of `show stat`, the CSV of the statistics page and the page itself: one flat table.
//!
//! Names, order and types are HAProxy's (management.txt section 9.1 and the program itself, version 3.0);
//! everything that shows statistics reads this table.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::{Mode, Proxy};
use weir_proxy::state::counters::{Average as MovingAverage, Counter, Times};
use weir_proxy::state::{CheckReport, ServerState};

use crate::object::{self, Object, Part};
use crate::value::Nature::{
    Age, Average, Counter as Cumulated, Duration, Gauge, Limit, Max, Name, Output, Rate,
};
use crate::value::Origin::{Config, Key, Metric, Status};
use crate::value::Scope::{Process, Service};
use crate::value::{Tags, Value};

/// One column.
pub(crate) struct Field {
    /// Its title.
    pub(crate) name: &'static str,
    pub(crate) tags: Tags,
    /// What it means.
    pub(crate) description: &'static str,
    /// Its value for an object; `None` where it does not apply.
    pub(crate) read: fn(&Object<'_>) -> Option<Value<'static>>,
}

const fn field(
    name: &'static str,
    tags: Tags,
    description: &'static str,
    read: fn(&Object<'_>) -> Option<Value<'static>>,
) -> Field {
    Field { name, tags, description, read }
}

const TOTAL: Tags = Tags(Metric, Cumulated, Process);
const LEVEL: Tags = Tags(Metric, Gauge, Process);
const HIGHEST: Tags = Tags(Metric, Max, Process);
const SPEED: Tags = Tags(Metric, Rate, Process);
const LIMIT: Tags = Tags(Config, Limit, Process);
const MEAN: Tags = Tags(Metric, Average, Process);
const STATE: Tags = Tags(Status, Gauge, Process);
const NAME: Tags = Tags(Key, Name, Service);
const NUMBER: Tags = Tags(Key, Gauge, Service);
const SETTING: Tags = Tags(Config, Gauge, Service);
const TEXT: Tags = Tags(Metric, Output, Process);

/// The columns, in their order.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    field("pxname", NAME, "Name of the proxy", |o| Some(Value::text(o.proxy.name.to_string()))),
    field("svname", NAME, "FRONTEND, BACKEND, or name of the server or listener", |o| Some(Value::text(o.name()))),
    field("qcur", LEVEL, "Requests in the queue now", |o| queue(o, |q| q.len())),
    field("qmax", HIGHEST, "Most requests in the queue at once", |o| queue(o, |q| q.max())),
    field("scur", LEVEL, "Sessions now", |o| sessions(o, weir_proxy::state::Level::now)),
    field("smax", HIGHEST, "Most sessions at once", |o| sessions(o, weir_proxy::state::Level::max)),
    field("slim", LIMIT, "maxconn of the frontend, listener or server, fullconn of the backend", limit),
    field("stot", TOTAL, "Sessions since the start", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::Sessions)),
    field("bin", TOTAL, "Bytes of requests", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::BytesIn)),
    field("bout", TOTAL, "Bytes of responses", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::BytesOut)),
    field("dreq", TOTAL, "Requests denied by rules", |o| total(o, FRONT | BACK | LISTENER, Counter::DeniedRequests)),
    field("dresp", TOTAL, "Responses denied by rules", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::DeniedResponses)),
    field("ereq", TOTAL, "Requests in error", |o| total(o, FRONT | LISTENER, Counter::RequestErrors)),
    field("econ", TOTAL, "Requests that found no connection to a server", |o| total(o, BACK | SERVER, Counter::ConnectErrors)),
    field("eresp", TOTAL, "Responses in error", |o| total(o, BACK | SERVER, Counter::ResponseErrors)),
    field("wretr", TOTAL, "Connection attempts repeated", |o| total(o, BACK | SERVER, Counter::Retries)),
    field("wredis", TOTAL, "Requests sent to another server after failures", |o| total(o, BACK | SERVER, Counter::Redispatches)),
    field("status", STATE, "State: OPEN, FULL, STOP; UP, DOWN, NOLB, DRAIN, MAINT, no check", |o| Some(Value::text(o.status()))),
    field("weight", MEAN, "Weight in force; of a backend, the sum over the servers in use", weight),
    field("act", LEVEL, "Active servers that are up; of a server, whether it is active", |o| kind_of_server(o, false)),
    field("bck", LEVEL, "Backup servers that are up; of a server, whether it is a backup", |o| kind_of_server(o, true)),
    field("chkfail", TOTAL, "Failed checks", |o| checked(o)?.counters.sum(Counter::FailedChecks).into_value()),
    field("chkdown", TOTAL, "Times it went down", down_transitions),
    field("lastchg", Tags(Metric, Age, Process), "Seconds since the last change of state", last_change),
    field("downtime", TOTAL, "Seconds spent down", down_time),
    field("qlimit", LIMIT, "Most requests in the server's queue (maxqueue)", |o| server(o)?.config.maxqueue.most().map(Value::count)),
    field("pid", Tags(Key, Gauge, Process), "Number of the process, always 1", |_| Some(Value::U32(1))),
    field("iid", NUMBER, "Number of the proxy", |o| Some(Value::U32(o.proxy.id))),
    field("sid", NUMBER, "Number of the server or listener in the proxy", |o| Some(Value::U32(o.number()))),
    field("throttle", MEAN, "Percentage of its weight while it starts slowly (slowstart)", throttle),
    field("lbtot", TOTAL, "Requests that load balancing sent here", |o| total(o, BACK | SERVER, Counter::Selected)),
    field("tracked", NAME, "Server whose checks it follows", |o| server(o)?.config.track.clone().map(Value::text)),
    field("type", SETTING, "0 frontend, 1 backend, 2 server, 3 listener", |o| Some(Value::U32(o.kind() as u32))),
    field("rate", SPEED, "Sessions in the last second", session_rate),
    field("rate_lim", LIMIT, "Most sessions a second (rate-limit sessions)", |o| frontend(o).map(|o| Value::count(o.proxy.rate_limit_sessions.or_zero()))),
    field("rate_max", HIGHEST, "Most sessions in a second", session_rate_max),
    field("check_status", TEXT, "Last check's result; a star when one is under way", |o| check(o, |s, c| Some(Value::text(with_star(s.check_state(), c.status.name()))))),
    field("check_code", TEXT, "Code of the last check's answer", |o| check(o, |_, c| (c.code > 0).then_some(Value::U32(u32::from(c.code))))),
    field("check_duration", Tags(Metric, Duration, Process), "Milliseconds the last check took", |o| check(o, |_, c| c.duration_ms.map(Value::U64))),
    field("hrsp_1xx", TOTAL, "Responses with status 1xx", |o| http(o, FRONT | BACK | SERVER, Counter::Status1xx)),
    field("hrsp_2xx", TOTAL, "Responses with status 2xx", |o| http(o, FRONT | BACK | SERVER, Counter::Status2xx)),
    field("hrsp_3xx", TOTAL, "Responses with status 3xx", |o| http(o, FRONT | BACK | SERVER, Counter::Status3xx)),
    field("hrsp_4xx", TOTAL, "Responses with status 4xx", |o| http(o, FRONT | BACK | SERVER, Counter::Status4xx)),
    field("hrsp_5xx", TOTAL, "Responses with status 5xx", |o| http(o, FRONT | BACK | SERVER, Counter::Status5xx)),
    field("hrsp_other", TOTAL, "Responses with another status", |o| http(o, FRONT | BACK | SERVER, Counter::StatusOther)),
    field("hanafail", TEXT, "Errors of traffic that count as failed checks", |_| None),
    field("req_rate", SPEED, "Requests in the last second", |o| http_frontend(o).map(|o| Value::rate(o.state.request_rate.per_second(o.now.ms)))),
    field("req_rate_max", HIGHEST, "Most requests in a second", |o| http_frontend(o).map(|o| Value::rate(o.state.request_rate.max()))),
    field("req_tot", TOTAL, "Requests since the start", |o| http(o, FRONT | BACK | SERVER, Counter::Requests)),
    field("cli_abrt", TOTAL, "Transfers the client broke off", |o| total(o, BACK | SERVER, Counter::ClientAborts)),
    field("srv_abrt", TOTAL, "Transfers the server broke off", |o| total(o, BACK | SERVER, Counter::ServerAborts)),
    field("comp_in", TOTAL, "Bytes that went into compression", |o| total(o, FRONT | BACK, Counter::CompressedIn)),
    field("comp_out", TOTAL, "Bytes that came out of compression", |o| total(o, FRONT | BACK, Counter::CompressedOut)),
    field("comp_byp", TOTAL, "Bytes not compressed because of limits", |o| total(o, FRONT | BACK, Counter::CompressionBypassed)),
    field("comp_rsp", TOTAL, "Responses compressed", |o| total(o, FRONT | BACK, Counter::CompressedResponses)),
    field("lastsess", Tags(Metric, Age, Process), "Seconds since the last session, -1 without any", last_session),
    field("last_chk", TEXT, "What the last check received or failed on", |o| check(o, |_, c| said(c))),
    field("last_agt", TEXT, "What the agent said last", |o| agent(o, |_, c| said(c))),
    field("qtime", MEAN, "Average time in the queue, ms", |o| average(o, |t| &t.queue)),
    field("ctime", MEAN, "Average time to connect, ms", |o| average(o, |t| &t.connect)),
    field("rtime", MEAN, "Average time to respond, ms", |o| average(o, |t| &t.response)),
    field("ttime", MEAN, "Average total time, ms", |o| average(o, |t| &t.total)),
    field("agent_status", TEXT, "Last agent check's result; a star when one is under way", |o| agent(o, |s, c| Some(Value::text(with_star(s.agent_state(), c.status.name()))))),
    field("agent_code", TEXT, "Code of the agent, unused", |_| None),
    field("agent_duration", Tags(Metric, Duration, Process), "Milliseconds the last agent check took", |o| agent(o, |_, c| c.duration_ms.map(Value::U64))),
    field("check_desc", TEXT, "Last check's result in words", |o| check(o, |_, c| Some(Value::text(c.status.description())))),
    field("agent_desc", TEXT, "Last agent check's result in words", |o| agent(o, |_, c| Some(Value::text(c.status.description())))),
    field("check_rise", SETTING, "Passed checks until the server is up", |o| Some(Value::U32(checked(o)?.config.check.as_ref()?.rise))),
    field("check_fall", SETTING, "Failed checks until the server is down", |o| Some(Value::U32(checked(o)?.config.check.as_ref()?.fall))),
    field("check_health", SETTING, "Health of the server, 0 to rise + fall - 1", |o| Some(Value::U32(checked(o)?.standing().health?.counter()))),
    field("agent_rise", SETTING, "Passed agent checks until the server is up", |o| server(o)?.standing().agent.map(|_| Value::U32(1))),
    field("agent_fall", SETTING, "Failed agent checks until the server is down", |o| server(o)?.standing().agent.map(|_| Value::U32(1))),
    field("agent_health", SETTING, "Health of the server as the agent says", |o| server(o)?.standing().agent.map(|a| Value::U32(a.counter()))),
    field("addr", SETTING, "Address and port", |o| o.address().filter(|_| o.legends).map(Value::text)),
    field("cookie", Tags(Config, Name, Service), "Cookie name of the backend, cookie value of the server", cookie),
    field("mode", SETTING, "Mode of the proxy", |o| Some(Value::text(mode(o.proxy)))),
    field("algo", SETTING, "Load balancing algorithm", |o| backend(o).filter(|o| o.legends).map(|o| Value::text(o.proxy.balance.name()))),
    field("conn_rate", SPEED, "Connections in the last second", |o| frontend(o).map(|o| Value::rate(o.state.connection_rate.per_second(o.now.ms)))),
    field("conn_rate_max", HIGHEST, "Most connections in a second", |o| frontend(o).map(|o| Value::rate(o.state.connection_rate.max()))),
    field("conn_tot", TOTAL, "Connections accepted", |o| total(o, FRONT, Counter::Connections)),
    field("intercepted", TOTAL, "Requests the proxy answered itself", |o| total(o, FRONT, Counter::Intercepted)),
    field("dcon", TOTAL, "Connections denied by rules", |o| total(o, FRONT | LISTENER, Counter::DeniedConnections)),
    field("dses", TOTAL, "Sessions denied by rules", |o| total(o, FRONT | LISTENER, Counter::DeniedSessions)),
    field("wrew", TOTAL, "Header rewrites that failed", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::FailedRewrites)),
    field("connect", TOTAL, "Connections attempted", |o| total(o, BACK | SERVER, Counter::ConnectAttempts)),
    field("reuse", TOTAL, "Connections used again", |o| total(o, BACK | SERVER, Counter::ConnectionReuses)),
    field("cache_lookups", TOTAL, "Requests looked up in a cache", |o| total(o, FRONT | BACK, Counter::CacheLookups)),
    field("cache_hits", TOTAL, "Requests answered from a cache", |o| total(o, FRONT | BACK, Counter::CacheHits)),
    field("srv_icur", LEVEL, "Idle connections kept", |o| server(o).map(|s| Value::count(s.idle.load(Relaxed)))),
    field("src_ilim", LIMIT, "Most idle connections kept (pool-max-conn)", |o| server(o)?.config.pool_max_conn.map(Value::count)),
    field("qtime_max", HIGHEST, "Longest time in the queue, ms", |o| longest(o, |t| &t.queue)),
    field("ctime_max", HIGHEST, "Longest time to connect, ms", |o| longest(o, |t| &t.connect)),
    field("rtime_max", HIGHEST, "Longest time to respond, ms", |o| longest(o, |t| &t.response)),
    field("ttime_max", HIGHEST, "Longest total time, ms", |o| longest(o, |t| &t.total)),
    field("eint", TOTAL, "Internal errors", |o| total(o, FRONT | BACK | SERVER | LISTENER, Counter::InternalErrors)),
    field("idle_conn_cur", LEVEL, "Idle connections that served one client only", |o| server(o).map(|s| Value::count(s.idle.load(Relaxed)))),
    field("safe_conn_cur", LEVEL, "Idle connections that served several clients", |o| only(o, SERVER, Value::U32(0))),
    field("used_conn_cur", LEVEL, "Connections in use", |o| server(o).map(|s| Value::level(s.served.now()))),
    field("need_conn_est", LEVEL, "Connections needed as estimated", |o| server(o).map(|s| Value::count(s.need.known() as usize))),
    field("uweight", MEAN, "Weight as configured or set", weight),
    field("agg_server_status", LEVEL, "Unused", |o| only(o, BACK, Value::U32(0))),
    field("agg_server_check_status", LEVEL, "Unused", |o| only(o, BACK, Value::U32(0))),
    field("agg_check_status", LEVEL, "Unused", |o| only(o, BACK, Value::U32(0))),
    field("srid", NUMBER, "Times the server's number was used before", |o| only(o, SERVER, Value::U32(0))),
    field("sess_other", TOTAL, "Sessions that do not speak HTTP", other_sessions),
    field("h1sess", TOTAL, "HTTP/1 sessions", |o| total(o, FRONT, Counter::H1Sessions)),
    field("h2sess", TOTAL, "HTTP/2 sessions", |o| total(o, FRONT, Counter::H2Sessions)),
    field("h3sess", TOTAL, "HTTP/3 sessions", |o| only(o, FRONT, Value::U64(0))),
    field("req_other", TOTAL, "Requests that are not HTTP", |o| only(o, FRONT, Value::U64(0))),
    field("h1req", TOTAL, "HTTP/1 requests", |o| total(o, FRONT, Counter::H1Requests)),
    field("h2req", TOTAL, "HTTP/2 requests", |o| total(o, FRONT, Counter::H2Requests)),
    field("h3req", TOTAL, "HTTP/3 requests", |o| only(o, FRONT, Value::U64(0))),
    field("proto", SETTING, "Protocol of the listener", |o| matches!(o.part, Part::Listener(_)).then(|| Value::text("tcp"))),
    // The end of the columns with a fixed place.
    field("-", TEXT, "", |_| Some(Value::text("-"))),
];

/// Bits of the kinds of objects a counter exists for.
const FRONT: u8 = 1;
const BACK: u8 = 2;
const SERVER: u8 = 4;
const LISTENER: u8 = 8;

fn applies(object: &Object<'_>, to: u8) -> bool {
    let bit = match object.part {
        Part::Frontend => FRONT,
        Part::Backend => BACK,
        Part::Server(_) => SERVER,
        Part::Listener(_) => LISTENER,
    };
    to & bit != 0
}

fn only(object: &Object<'_>, to: u8, value: Value<'static>) -> Option<Value<'static>> {
    applies(object, to).then_some(value)
}

/// A counter of the object.
fn total(object: &Object<'_>, to: u8, counter: Counter) -> Option<Value<'static>> {
    if !applies(object, to) {
        return None;
    }
    Some(Value::U64(match &object.part {
        Part::Frontend => object.state.front.sum(counter),
        Part::Backend => object.state.back.sum(counter),
        Part::Server(server) => server.counters.sum(counter),
        Part::Listener(_) => object.listener()?.counters.as_ref().map_or(0, |counters| counters.sum(counter)),
    }))
}

/// A counter that means something for HTTP alone.
fn http(object: &Object<'_>, to: u8, counter: Counter) -> Option<Value<'static>> {
    if object.proxy.mode == Mode::Http { total(object, to, counter) } else { None }
}

trait IntoValue {
    fn into_value(self) -> Option<Value<'static>>;
}

impl IntoValue for u64 {
    fn into_value(self) -> Option<Value<'static>> {
        Some(Value::U64(self))
    }
}

fn frontend<'a, 'b>(object: &'a Object<'b>) -> Option<&'a Object<'b>> {
    matches!(object.part, Part::Frontend).then_some(object)
}

fn http_frontend<'a, 'b>(object: &'a Object<'b>) -> Option<&'a Object<'b>> {
    frontend(object).filter(|o| o.proxy.mode == Mode::Http)
}

fn backend<'a, 'b>(object: &'a Object<'b>) -> Option<&'a Object<'b>> {
    matches!(object.part, Part::Backend).then_some(object)
}

fn server<'a>(object: &'a Object<'_>) -> Option<&'a ServerState> {
    match &object.part {
        Part::Server(server) => Some(server),
        Part::Frontend | Part::Listener(_) | Part::Backend => None,
    }
}

/// The server, when it has health checks.
fn checked<'a>(object: &'a Object<'_>) -> Option<&'a ServerState> {
    server(object).filter(|s| s.config.check.is_some())
}

fn queue(object: &Object<'_>, read: fn(&weir_proxy::state::Queue) -> usize) -> Option<Value<'static>> {
    match &object.part {
        Part::Backend => Some(Value::count(read(&object.state.queue))),
        Part::Server(server) => Some(Value::count(read(&server.queue))),
        Part::Frontend | Part::Listener(_) => None,
    }
}

fn sessions(object: &Object<'_>, read: fn(&weir_proxy::state::Level) -> i64) -> Option<Value<'static>> {
    Some(Value::level(match &object.part {
        Part::Frontend => read(&object.state.front_current),
        Part::Backend => read(&object.state.back_current),
        Part::Server(server) => read(&server.served),
        Part::Listener(_) => read(&object.listener()?.current),
    }))
}

fn limit(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Frontend => Some(Value::count(object.state.front_limit.load(Relaxed))),
        Part::Backend => Some(Value::count(object.state.farm.fullconn)),
        Part::Listener(bind) => Some(Value::count(bind.maxconn.or_zero())),
        Part::Server(server) => server.maxconn.load(Relaxed).most().map(Value::count),
    }
}

fn weight(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(server) => Some(Value::U32(server.weight.load(Relaxed))),
        Part::Backend => {
            let servers = object::in_use(object.state);
            Some(Value::U32(servers.iter().map(|s| s.weight.load(Relaxed)).sum()))
        }
        Part::Frontend | Part::Listener(_) => None,
    }
}

fn kind_of_server(object: &Object<'_>, backup: bool) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(server) => Some(Value::U32(u32::from(server.config.backup == backup))),
        Part::Backend => {
            let servers = object.state.servers.load();
            Some(Value::count(servers.iter().filter(|s| s.is_usable() && s.config.backup == backup).count()))
        }
        Part::Frontend | Part::Listener(_) => None,
    }
}

fn down_transitions(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(_) => checked(object)?.counters.sum(Counter::DownTransitions).into_value(),
        Part::Backend => object.state.down_transitions.load(Relaxed).into_value(),
        Part::Frontend | Part::Listener(_) => None,
    }
}

fn last_change(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(server) => {
            Some(Value::U32(object.now.seconds_since(server.last_change_ms.load(Relaxed))))
        }
        Part::Backend => {
            Some(Value::U32(object.now.seconds_since(object.state.last_change_ms.load(Relaxed))))
        }
        Part::Frontend | Part::Listener(_) => None,
    }
}

/// Time down before the last change, and since then when it is down now.
fn down_time(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(_) => {
            let server = checked(object)?;
            let since = match server.is_running() {
                true => 0,
                false => object.now.seconds_since(server.last_change_ms.load(Relaxed)),
            };
            Some(Value::U32(
                u32::try_from(server.down_time_s.load(Relaxed)).unwrap_or(u32::MAX).saturating_add(since),
            ))
        }
        Part::Backend if object.state.servers.load().is_empty() => None,
        Part::Backend => Some(Value::U32(match object::backend_is_up(object.state) {
            true => 0,
            false => object.now.seconds_since(object.state.last_change_ms.load(Relaxed)),
        })),
        Part::Frontend | Part::Listener(_) => None,
    }
}

/// Part of its weight that a server has while `slowstart` lasts.
fn throttle(object: &Object<'_>) -> Option<Value<'static>> {
    let server = server(object)?;
    let whole_ms = server.config.slowstart.as_millis() as u64;
    let changed_ms = server.last_change_ms.load(Relaxed);
    if whole_ms == 0 || changed_ms == 0 || !server.is_usable() {
        return None;
    }
    let spent_ms = object.now.since_change_ms(changed_ms);
    (spent_ms < whole_ms).then(|| Value::U32((spent_ms * 100 / whole_ms).max(1) as u32))
}

fn session_rate(object: &Object<'_>) -> Option<Value<'static>> {
    let rate = match &object.part {
        Part::Frontend => &object.state.session_rate,
        Part::Backend => &object.state.backend_rate,
        Part::Server(server) => &server.rate,
        Part::Listener(_) => return None,
    };
    Some(Value::rate(rate.per_second(object.now.ms)))
}

fn session_rate_max(object: &Object<'_>) -> Option<Value<'static>> {
    let rate = match &object.part {
        Part::Frontend => &object.state.session_rate,
        Part::Backend => &object.state.backend_rate,
        Part::Server(server) => &server.rate,
        Part::Listener(_) => return None,
    };
    Some(Value::rate(rate.max()))
}

fn last_session(object: &Object<'_>) -> Option<Value<'static>> {
    match &object.part {
        Part::Server(server) => {
            Some(Value::S32(object.now.since_session(server.last_session_ms.load(Relaxed))))
        }
        Part::Backend => {
            Some(Value::S32(object.now.since_session(object.state.last_session_ms.load(Relaxed))))
        }
        Part::Frontend | Part::Listener(_) => None,
    }
}

/// The times of a server or backend.
fn times<'a>(object: &'a Object<'_>) -> Option<&'a Times> {
    match &object.part {
        Part::Server(server) => Some(&server.times),
        Part::Backend => Some(&object.state.times),
        Part::Frontend | Part::Listener(_) => None,
    }
}

fn average(object: &Object<'_>, which: fn(&Times) -> &MovingAverage) -> Option<Value<'static>> {
    Some(Value::rate(which(times(object)?).value()))
}

fn longest(object: &Object<'_>, which: fn(&Times) -> &MovingAverage) -> Option<Value<'static>> {
    Some(Value::rate(which(times(object)?).max()))
}

fn other_sessions(object: &Object<'_>) -> Option<Value<'static>> {
    let counters = &frontend(object)?.state.front;
    let http = counters.sum(Counter::H1Sessions) + counters.sum(Counter::H2Sessions);
    counters.sum(Counter::Sessions).saturating_sub(http).into_value()
}

fn cookie(object: &Object<'_>) -> Option<Value<'static>> {
    let bytes = match &object.part {
        Part::Server(server) => server.cookie(),
        Part::Backend => object.proxy.cookie.as_ref().map(|c| c.name.as_slice().into()),
        Part::Frontend | Part::Listener(_) => None,
    };
    let bytes = bytes.filter(|_| object.legends)?;
    Some(Value::text(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Something of the last health check, while the server is checked.
fn check(
    object: &Object<'_>,
    read: fn(&ServerState, &CheckReport) -> Option<Value<'static>>,
) -> Option<Value<'static>> {
    let server = checked(object).filter(|s| s.check_enabled.load(Relaxed) && !s.in_maintenance())?;
    read(server, &server.check.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Something of the last agent check, while the agent is asked.
fn agent(
    object: &Object<'_>,
    read: fn(&ServerState, &CheckReport) -> Option<Value<'static>>,
) -> Option<Value<'static>> {
    let server =
        server(object).filter(|s| s.config.agent_check.is_some() && s.agent_enabled.load(Relaxed))?;
    read(server, &server.agent.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Bit of a check's state: it is under way.
const IN_PROGRESS: u8 = 1;

fn with_star(state: u8, status: &str) -> String {
    if state & IN_PROGRESS != 0 { format!("* {status}") } else { status.to_owned() }
}

/// What a server said in a check, when it said something.
fn said(report: &CheckReport) -> Option<Value<'static>> {
    let text = String::from_utf8_lossy(&report.description).into_owned();
    (!text.is_empty()).then(|| Value::text(text))
}

/// The mode's keyword.
pub(crate) fn mode(proxy: &Proxy) -> &'static str {
    match proxy.mode {
        Mode::Tcp => "tcp",
        Mode::Http => "http",
        Mode::Log => "log",
        Mode::Spop => "spop",
    }
}
