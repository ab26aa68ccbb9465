//! The figures of `show info`: one flat table about the whole process.
//!
//! Names, order, tags and types are HAProxy 3.0's, for the tools that read them by name or by number.

use std::sync::atomic::Ordering::Relaxed;

use weir_proxy::state::counters::Counter;
use weir_proxy::{Shared, panics};

use crate::object::Now;
use crate::value::Nature::{Average, Counter as Cumulated, Duration, Gauge, Limit, Max, Output, Rate};
use crate::value::Origin::{Config, Key, Metric, Product, Status};
use crate::value::Scope::{Process, Service};
use crate::value::{Tags, Value};

/// What the figures are read from.
pub(crate) struct About<'a> {
    pub(crate) shared: &'a Shared,
    /// The version shown, HAProxy's that is followed and Weir's.
    pub(crate) version: &'a str,
    pub(crate) now: Now,
}

/// One figure.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) tags: Tags,
    pub(crate) description: &'static str,
    /// Its value; `None` where it is not set.
    pub(crate) read: fn(&About<'_>) -> Option<Value<'static>>,
}

const fn field(
    name: &'static str,
    tags: Tags,
    description: &'static str,
    read: fn(&About<'_>) -> Option<Value<'static>>,
) -> Field {
    Field { name, tags, description, read }
}

const PRODUCT: Tags = Tags(Product, Output, Service);
const TOTAL: Tags = Tags(Metric, Cumulated, Process);
const LEVEL: Tags = Tags(Metric, Gauge, Process);
const HIGHEST: Tags = Tags(Metric, Max, Process);
const SPEED: Tags = Tags(Metric, Rate, Process);
const LIMIT: Tags = Tags(Config, Limit, Process);
const SETTING: Tags = Tags(Config, Gauge, Service);
const STATUS: Tags = Tags(Status, Output, Process);
const TIME: Tags = Tags(Metric, Duration, Process);

/// Zero, for what this process does not have.
fn none(_: &About<'_>) -> Option<Value<'static>> {
    Some(Value::U32(0))
}

/// The figures, in their order; their numbers must not change.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    // Tools look for this name to know whose words follow.
    field("Name", PRODUCT, "Whose figures these are", |_| Some(Value::text("HAProxy"))),
    field("Version", PRODUCT, "Version", |a| Some(Value::text(a.version.to_owned()))),
    field("Release_date", PRODUCT, "Date of the version", |_| Some(Value::text(RELEASE_DATE))),
    field("Nbthread", SETTING, "Worker threads", |a| Some(Value::count(a.shared.threads))),
    field("Nbproc", SETTING, "Worker processes, always 1", |_| Some(Value::U32(1))),
    field("Process_num", Tags(Key, Gauge, Process), "Number of this process, always 1", |_| Some(Value::U32(1))),
    field("Pid", Tags(Status, Gauge, Process), "Process identifier", |a| Some(Value::U32(a.shared.pid))),
    field("Uptime", TIME, "Time since the start", |a| Some(Value::text(uptime(seconds(a))))),
    field("Uptime_sec", TIME, "Seconds since the start", |a| Some(Value::U32(seconds(a)))),
    field("Memmax_MB", LIMIT, "Memory limit (-m), 0 without", |a| Some(megabytes(a.shared.scarcity.limit_bytes()))),
    field("PoolAlloc_MB", LEVEL, "Memory of the process, MB", |a| Some(megabytes(a.shared.scarcity.private_bytes()))),
    field("PoolUsed_MB", LEVEL, "Memory of the process in use, MB", |a| Some(megabytes(a.shared.used_bytes()))),
    field("PoolFailed", TOTAL, "Connections and requests refused for want of memory", |a| Some(cumulated(a.shared.scarcity.refused()))),
    field("Ulimit-n", LIMIT, "Most file descriptors", |_| Some(Value::U32(descriptors()))),
    field("Maxsock", LIMIT, "Most sockets", |_| Some(Value::U32(descriptors()))),
    field("Maxconn", LIMIT, "Most client connections", |a| Some(Value::count(a.shared.max_connections.load(Relaxed)))),
    field("Hard_maxconn", LIMIT, "Most client connections that can be set", |a| Some(Value::count(a.shared.max_connections_at_start))),
    field("CurrConns", LEVEL, "Client connections now", |a| Some(Value::count(a.shared.connections.load(Relaxed)))),
    field("CumConns", TOTAL, "Client connections since the start", |a| Some(cumulated(a.shared.total_connections.load(Relaxed)))),
    field("CumReq", TOTAL, "Requests since the start", |a| Some(cumulated(a.shared.total_requests.load(Relaxed)))),
    field("MaxSslConns", HIGHEST, "Most TLS connections, 0 for no limit", |a| Some(Value::count(a.shared.config.global.maxsslconn.or_zero()))),
    field("CurrSslConns", LEVEL, "TLS connections now", |a| Some(Value::count(a.shared.tls_connections.load(Relaxed)))),
    field("CumSslConns", TOTAL, "TLS connections since the start", |a| Some(cumulated(a.shared.total_tls.load(Relaxed)))),
    field("Maxpipes", LIMIT, "Most pipes", none),
    field("PipesUsed", LEVEL, "Pipes in use", none),
    field("PipesFree", LEVEL, "Pipes kept", none),
    field("ConnRate", SPEED, "Connections in the last second", |a| Some(Value::rate(a.shared.connection_rate.per_second(a.now.ms)))),
    field("ConnRateLimit", LIMIT, "Most connections a second", |a| Some(Value::count(a.shared.limits.connections_per_second.load(Relaxed).or_zero()))),
    field("MaxConnRate", HIGHEST, "Most connections in a second", |a| Some(Value::rate(a.shared.connection_rate.max()))),
    field("SessRate", SPEED, "Sessions in the last second", |a| Some(Value::rate(a.shared.session_rate.per_second(a.now.ms)))),
    field("SessRateLimit", LIMIT, "Most sessions a second", |a| Some(Value::count(a.shared.limits.sessions_per_second.load(Relaxed).or_zero()))),
    field("MaxSessRate", SPEED, "Most sessions in a second", |a| Some(Value::rate(a.shared.session_rate.max()))),
    field("SslRate", SPEED, "TLS handshakes in the last second", |a| Some(Value::rate(a.shared.tls_rate.per_second(a.now.ms)))),
    field("SslRateLimit", LIMIT, "Most TLS handshakes a second", |a| Some(Value::count(a.shared.limits.tls_per_second.load(Relaxed).or_zero()))),
    field("MaxSslRate", HIGHEST, "Most TLS handshakes in a second", |a| Some(Value::rate(a.shared.tls_rate.max()))),
    field("SslFrontendKeyRate", LEVEL, "Keys computed for clients in the last second", |a| Some(Value::rate(a.shared.tls_key_rate.per_second(a.now.ms)))),
    field("SslFrontendMaxKeyRate", HIGHEST, "Most keys computed for clients in a second", |a| Some(Value::rate(a.shared.tls_key_rate.max()))),
    field("SslFrontendSessionReuse_pct", LEVEL, "Percentage of clients that resume a TLS session", |a| Some(Value::U32(resumed_percent(a)))),
    field("SslBackendKeyRate", SPEED, "Keys computed for servers in the last second", none),
    field("SslBackendMaxKeyRate", HIGHEST, "Most keys computed for servers in a second", none),
    field("SslCacheLookups", TOTAL, "Sessions looked up in the TLS cache", none),
    field("SslCacheMisses", TOTAL, "Sessions not found in the TLS cache", none),
    field("CompressBpsIn", SPEED, "Bytes that went into compression in the last second", |a| Some(Value::rate(a.shared.load.rate_bytes_per_second()))),
    field("CompressBpsOut", SPEED, "Bytes that came out of compression in the last second", |a| Some(Value::rate(a.shared.load.compressed_bytes_per_second()))),
    field("CompressBpsRateLim", LIMIT, "Most bytes a second that go into compression", |a| Some(Value::count(a.shared.limits.compression_kb_per_second.load(Relaxed).or_zero().saturating_mul(1024)))),
    // Two numbers that belong to another compression library.
    field("ZlibMemUsage", LEVEL, "Memory of zlib", |_| None),
    field("MaxZlibMemUsage", LIMIT, "Most memory of zlib", |_| None),
    field("Tasks", LEVEL, "Tasks: one for each connection", |a| Some(Value::count(a.shared.connections.load(Relaxed) + a.shared.threads))),
    field("Run_queue", LEVEL, "Tasks that wait for a thread", none),
    field("Idle_pct", Tags(Metric, Average, Process), "Percentage of the time that threads wait", |a| Some(Value::U32(idle_percent(a)))),
    field("node", Tags(Config, Output, Service), "Name of the node", |a| Some(Value::text(node(a)))),
    field("description", Tags(Config, Output, Service), "Description of the node", |a| a.shared.config.global.description.clone().map(Value::text)),
    field("Stopping", LEVEL, "1 during a soft stop", |a| Some(Value::U32(u32::from(a.shared.is_stopping())))),
    field("Jobs", LEVEL, "Connections and listeners", |a| Some(Value::count(a.shared.connections.load(Relaxed) + listeners(a)))),
    field("Unstoppable Jobs", LEVEL, "What a soft stop does not wait for", none),
    field("Listeners", LEVEL, "Listeners", |a| Some(Value::count(listeners(a)))),
    field("ActivePeers", LEVEL, "Peers that work", none),
    field("ConnectedPeers", LEVEL, "Peers that are connected", none),
    field("DroppedLogs", LEVEL, "Log lines lost", none),
    field("BusyPolling", LEVEL, "1 while threads poll without waiting", none),
    field("FailedResolutions", LEVEL, "Names that could not be resolved", none),
    field("TotalBytesOut", LEVEL, "Bytes sent to clients", |a| Some(Value::U64(sum_of(a, |p| p.front.sum(Counter::BytesOut))))),
    field("TotalSplicedBytesOut", LEVEL, "Bytes sent without a copy", |_| Some(Value::U64(0))),
    field("BytesOutRate", SPEED, "Bytes sent in the last second", |_| Some(Value::U64(0))),
    field("DebugCommandsIssued", LEVEL, "Debugging commands run", none),
    field("CumRecvLogs", TOTAL, "Log lines received", none),
    field("Build info", PRODUCT, "Whose build this is", |_| Some(Value::text(concat!("weir ", env!("CARGO_PKG_VERSION"))))),
    field("Memmax_bytes", LIMIT, "Memory limit (-m) in bytes, 0 without", |a| Some(Value::U64(a.shared.scarcity.limit_bytes()))),
    field("PoolAlloc_bytes", LEVEL, "Memory of the process, bytes", |a| Some(Value::U64(a.shared.scarcity.private_bytes()))),
    field("PoolUsed_bytes", LEVEL, "Memory of the process in use, bytes", |a| Some(Value::U64(a.shared.used_bytes()))),
    field("Start_time_sec", TIME, "When the process started, seconds since 1970", |a| Some(cumulated(a.shared.started_at))),
    field("Tainted", Tags(Status, Gauge, Process), "Experimental features in use", |_| Some(Value::text("0"))),
    field("TotalWarnings", TOTAL, "Warnings since the start", none),
    field("MaxconnReached", TOTAL, "Times that the connection limit was reached", none),
    field("BootTime_ms", TIME, "Milliseconds the start took", none),
    field("Niced_tasks", LEVEL, "Tasks with a priority of their own", none),
    // Ours, from here on.
    field("CompressStep", STATUS, "Best compression that responses get: off, fast, default, high or best", |a| Some(Value::text(a.shared.load.compression().0.step.name()))),
    field("CompressStepShare_pct", LEVEL, "Percentage of responses that get it; the others get the step below", |a| Some(Value::U32(u32::from(a.shared.load.compression().0.share_percent)))),
    field("CompressStepReason", STATUS, "What holds it back: cpu (maxcompcpuusage), rate (maxcomprate) or nothing", |a| Some(Value::text(a.shared.load.compression().0.reason.name()))),
    field("CompressStepBusy_pct", LEVEL, "Percentage of the time that the thread with the lowest step works", |a| Some(Value::U32(u32::from(a.shared.load.compression().1)))),
    field("CompressReused_bytes", TOTAL, "Bytes that were compressed before and not again (tune.comp.reuse-memory)", |a| Some(Value::U64(a.shared.load.reused_bytes()))),
    field("Panics", TOTAL, "Faults of the program, each of which ended what met it", |_| Some(Value::U64(panics::count()))),
    field("CompressCpuLim", LIMIT, "Highest such percentage with compression, 100 for no limit", |a| Some(Value::U32(u32::from(a.shared.config.global.maxcompcpuusage_percent)))),
];

/// Date of the version, as HAProxy writes dates.
const RELEASE_DATE: &str = "2026/11/21";

fn seconds(about: &About<'_>) -> u32 {
    u32::try_from(about.shared.now_ms() / 1000).unwrap_or(u32::MAX)
}

/// `1d 2h03m04s`
pub(crate) fn uptime(seconds: u32) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days}d {hours}h{:02}m{:02}s", seconds / 60 % 60, seconds % 60)
}

fn cumulated(number: u64) -> Value<'static> {
    // HAProxy's counters of this type wrap as well.
    Value::U32(number as u32)
}

fn sum_of(about: &About<'_>, read: impl Fn(&weir_proxy::state::ProxyState) -> u64) -> u64 {
    about.shared.proxies.iter().map(read).sum()
}

/// Part of the handshakes of the last second that needed no new key.
fn resumed_percent(about: &About<'_>) -> u32 {
    let rate = |rate: &weir_proxy::state::counters::Rate| rate.per_second(about.now.ms);
    let (all, keys) = (rate(&about.shared.tls_rate), rate(&about.shared.tls_key_rate));
    let resumed = all.saturating_sub(keys) * 100;
    u32::try_from(resumed.checked_div(all).unwrap_or(0)).unwrap_or(100)
}

fn listeners(about: &About<'_>) -> usize {
    let config = &about.shared.config;
    let of_proxies = config.proxies.iter().filter(|p| !p.disabled).map(|p| p.binds.len()).sum::<usize>();
    config.global.stats_sockets.len() + of_proxies
}

fn node(about: &About<'_>) -> String {
    about.shared.config.global.node.clone().unwrap_or_else(|| about.shared.hostname.clone())
}

fn idle_percent(about: &About<'_>) -> u32 {
    let threads = about.shared.threads.max(1);
    let busy: u32 = (0..threads).map(|t| u32::from(about.shared.load.busy_percent(t))).sum();
    100_u32.saturating_sub(busy / u32::try_from(threads).unwrap_or(u32::MAX))
}

fn megabytes(bytes: u64) -> Value<'static> {
    Value::U32(u32::try_from(bytes / (1024 * 1024)).unwrap_or(u32::MAX))
}

fn descriptors() -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes() {
        let check = |seconds, expected: &str| assert_eq!(uptime(seconds), expected);
        check(4, "0d 0h00m04s");
        check(88, "0d 0h01m28s");
        check(90_061, "1d 1h01m01s");
    }

    #[test]
    fn numbers_of_figures_stay() {
        let check = |number: usize, name: &str| assert_eq!(FIELDS[number].name, name);
        check(17, "CurrConns");
        check(47, "Tasks");
        check(50, "node");
        check(71, "Tainted");
    }
}
