//! The checked configuration: what the data plane runs.
//!
//! Owns plain values only; nothing here opens a socket or reads a clock.  Durations are milliseconds
//! unless the type says otherwise, sizes are bytes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::status_set::StatusSet;
use weir_balance::{Affinity, DataType, HashType, InitState, Limit, OnError, UriKey};
use weir_rules::data::pattern::PatternFiles;
use weir_rules::facts::LogOrigin;
use weir_rules::facts::vars::VarLimits;
use weir_rules::{Condition, Expr, LogFormat, Pos, Rule};

/// A whole configuration, checked.
#[derive(Debug, Default)]
pub struct Config {
    /// The `global` sections, merged.
    pub global: Global,
    /// Names of the files it was read from; [`Pos::file`] is an index into them.
    pub sources: Vec<Arc<str>>,
    /// Frontends, backends and listens in their order; `default_backend` and the like are indexes into it.
    pub proxies: Vec<Arc<Proxy>>,
    /// Maps and ACL files by name, shared with the rules that use them; changed at run time.
    pub patterns: Arc<PatternFiles>,
    /// `cache` sections by name.
    pub caches: BTreeMap<String, Cache>,
    /// `peers` sections by name.
    pub peers: BTreeMap<String, Peers>,
    /// `resolvers` sections by name.
    pub resolvers: BTreeMap<String, Resolvers>,
    /// `ring` sections by name.
    pub rings: BTreeMap<String, Ring>,
    /// `log-forward` sections in their order.
    pub log_forwards: Vec<LogForward>,
    /// `log-profile` sections by name.
    pub log_profiles: BTreeMap<String, Arc<LogProfile>>,
    /// `mailers` sections by name.
    pub mailers: BTreeMap<String, Mailers>,
    /// `fcgi-app` sections by name.
    pub fcgi_apps: BTreeMap<String, FcgiApp>,
    /// `healthcheck` sections by name.
    pub healthchecks: BTreeMap<String, Checks>,
    /// `crt-store` sections: certificates that `crt @store/name` names.
    pub crt_stores: Vec<CrtStore>,
    /// What fetches somewhere in it ask of TLS connections.
    pub tls_wanted: TlsWanted,
}

impl Config {
    /// The health checks of a server: those that its line names, or its backend's.
    #[must_use]
    pub fn checks<'a>(&'a self, proxy: &'a Proxy, server: &Server) -> &'a Checks {
        let named = server.healthcheck.as_ref().and_then(|name| self.healthchecks.get(name));
        named.unwrap_or(&proxy.checks)
    }

    /// The application of a backend's FastCGI servers.
    #[must_use]
    pub fn fcgi_app(&self, proxy: &Proxy) -> Option<&FcgiApp> {
        self.fcgi_apps.get(proxy.use_fcgi_app.as_ref()?)
    }
}

/// What has to be kept of TLS handshakes because fetches ask for it: each is memory for every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsWanted {
    /// The hello messages: random bytes, identifiers of sessions.
    pub hello: bool,
    /// Secrets, without `tune.ssl.keylog`.
    pub secrets: bool,
}

/// `cache NAME`
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the cache keyword of the same name")]
pub struct Cache {
    pub name: String,
    pub pos: Pos,
    /// Megabytes.
    pub total_max_size_mb: usize,
    /// Bytes; a 256th of the whole without.
    pub max_object_size: usize,
    pub max_age: Duration,
    pub process_vary: bool,
    pub max_secondary_entries: usize,
}

/// `peers NAME`
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the peers keyword of the same name")]
pub struct Peers {
    pub name: String,
    pub pos: Pos,
    pub disabled: bool,
    /// Parts that the tables are split into; 0 for none.
    pub shards: usize,
    /// Where the local peer listens.
    pub binds: Vec<Bind>,
    /// Name of the entry that is this process.
    pub local: Option<String>,
    /// All other peers.
    pub remotes: Vec<Server>,
    pub tables: Vec<StickTable>,
    /// Where connections from peers are logged.
    pub logs: Vec<LogTarget>,
}

/// `mailers NAME`
#[derive(Debug, Clone)]
pub struct Mailers {
    /// Names and addresses of its mail servers: each gets every mail.
    pub servers: Vec<(String, SocketAddr)>,
    /// `timeout mail`
    pub timeout_mail: Duration,
}

impl Default for Mailers {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout_mail: Duration::from_secs(10) }
    }
}

/// `email-alert ...`
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the email-alert keyword of the same name")]
pub struct EmailAlert {
    pub from: Option<String>,
    pub to: Option<String>,
    /// Name of a `mailers` section.
    pub mailers: Option<String>,
    /// Syslog level: less important events are not mailed.
    pub level: u8,
    pub myhostname: Option<String>,
}

impl Default for EmailAlert {
    fn default() -> Self {
        const ALERT: u8 = 1;
        Self { from: None, to: None, mailers: None, level: ALERT, myhostname: None }
    }
}

impl EmailAlert {
    /// Sender, receiver and mailers: no mail is sent without all of them.
    #[must_use]
    pub fn complete(&self) -> Option<(&str, &str, &str)> {
        Some((self.from.as_deref()?, self.to.as_deref()?, self.mailers.as_deref()?))
    }
}

/// `fcgi-app NAME`
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the fcgi-app keyword of the same name")]
pub struct FcgiApp {
    pub pos: Pos,
    pub docroot: Vec<u8>,
    /// Empty for none.
    pub index: Vec<u8>,
    pub path_info: Option<regex::bytes::Regex>,
    pub keep_conn: bool,
    pub get_values: bool,
    /// `log-stderr`
    pub logs: Vec<LogTarget>,
    /// `set-param` and `pass-header`, in their order.
    pub rules: Vec<FcgiRule>,
}

/// A line of an `fcgi-app` section that is looked at for each request.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of the keywords of the same names")]
pub enum FcgiRule {
    SetParam {
        name: Vec<u8>,
        format: LogFormat,
        condition: Option<Condition>,
    },
    PassHeader {
        /// In lower case.
        name: Vec<u8>,
        condition: Option<Condition>,
    },
}

/// `resolvers NAME`
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the resolvers keyword of the same name")]
pub struct Resolvers {
    pub name: String,
    pub pos: Pos,
    pub nameservers: Vec<Nameserver>,
    pub parse_resolv_conf: bool,
    pub accepted_payload_size: usize,
    pub resolve_retries: u32,
    pub timeout_resolve: Duration,
    pub timeout_retry: Duration,
    pub hold_nx: Duration,
    pub hold_refused: Duration,
    pub hold_timeout: Duration,
    pub hold_other: Duration,
    pub hold_valid: Duration,
    pub hold_obsolete: Duration,
}

impl Resolvers {
    /// A section with nothing in it.
    pub(crate) fn new(name: &str, pos: Pos) -> Self {
        let second = Duration::from_secs(1);
        Self {
            name: name.to_owned(),
            pos,
            nameservers: Vec::new(),
            parse_resolv_conf: false,
            accepted_payload_size: 512,
            resolve_retries: 3,
            timeout_resolve: second,
            timeout_retry: second,
            hold_nx: 30 * second,
            hold_refused: 30 * second,
            hold_timeout: 30 * second,
            hold_other: 30 * second,
            hold_valid: 10 * second,
            hold_obsolete: Duration::ZERO,
        }
    }

    /// A section with the system's name servers.
    #[must_use]
    pub fn of_system(name: &str) -> Self {
        Self { parse_resolv_conf: true, ..Self::new(name, Pos::default()) }
    }
}

/// `dns-accept-family`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceptFamily {
    /// IPv4, and IPv6 where the system has a route for it.
    #[default]
    Auto,
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
    /// Both.
    Both,
}

/// An address and how many of its first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    addr: IpAddr,
    bits: u32,
}

impl Network {
    /// `ADDRESS[/BITS]`
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (addr, bits) = match text.split_once('/') {
            Some((addr, bits)) => (addr, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().ok()?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { addr, bits })
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        // Shifted by all of its bits a number is 0.
        let same = |a: u128, b: u128, width: u32| (a ^ b).checked_shr(width - self.bits).unwrap_or(0) == 0;
        match (self.addr, addr) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// A name server.
#[derive(Debug, Clone)]
pub struct Nameserver {
    /// Its name.
    pub name: String,
    /// Its address.
    pub addr: SocketAddr,
    /// Over TCP instead of UDP.
    pub tcp: bool,
}

/// `ring NAME`
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is the ring keyword of the same name")]
pub struct Ring {
    pub name: String,
    pub pos: Pos,
    pub backing_file: Option<PathBuf>,
    pub description: Option<String>,
    pub format: LogWire,
    pub max_len: usize,
    pub size: usize,
    pub timeout_connect: Option<Duration>,
    pub timeout_server: Option<Duration>,
    pub servers: Vec<Server>,
}

/// `log-forward NAME`
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the log-forward keyword of the same name")]
pub struct LogForward {
    pub name: String,
    pub pos: Pos,
    /// Stream listeners.
    pub binds: Vec<Bind>,
    /// Datagram listeners.
    pub dgram_binds: Vec<Bind>,
    pub logs: Vec<LogTarget>,
    pub maxconn: Limit,
    pub backlog: Option<u32>,
    pub timeout_client: Option<Duration>,
    pub assume_rfc6587_ntf: bool,
    pub dont_parse_log: bool,
    /// `option host`
    pub host: LogHost,
}

/// What becomes of the host name in a message (`option host`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the option's values")]
pub enum LogHost {
    Replace,
    #[default]
    Fill,
    Keep,
    Append,
}

/// `crt-store [NAME]`
#[derive(Debug, Clone, Default)]
pub struct CrtStore {
    /// Its name; empty for the one without.
    pub name: String,
    /// `load` lines.
    pub loads: Vec<CrtLoad>,
}

/// `load crt ...`: the files of one certificate.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the load keyword's word of the same name")]
pub struct CrtLoad {
    pub pos: Pos,
    /// `crt` as written, without the folder it is in.
    pub written: String,
    pub crt: PathBuf,
    pub key: Option<PathBuf>,
    pub alias: Option<String>,
    pub ocsp: Option<PathBuf>,
    pub issuer: Option<PathBuf>,
    pub ocsp_update: Option<bool>,
}

impl CrtLoad {
    /// What other lines call it: `@store/alias`, or `@store/file` when it has no alias.
    #[must_use]
    pub fn reference(&self, store: &CrtStore) -> String {
        format!("@{}/{}", store.name, self.alias.as_deref().unwrap_or(&self.written))
    }
}

/// Process-wide settings.
#[derive(Debug, Default)]
#[allow(
    missing_docs,
    reason = "each field is the global keyword of the same name; units in the type or name"
)]
pub struct Global {
    /// Environment variables as the configuration left them, for addresses given at run time.
    pub environment: BTreeMap<String, String>,
    pub nbthread: Option<usize>,
    /// CPU sets by thread (`cpu-map auto:1/1-2 0-1`), index = thread.
    pub cpu_map: Vec<Vec<usize>>,
    /// `cpu-set`, `cpu-policy` and `cpu-affinity`, which count where `cpu-map` does not.
    pub cpus: Cpus,
    pub maxconn: Limit,
    pub ulimit_n: Option<u64>,
    pub maxconnrate: Limit,
    pub maxsessrate: Limit,
    pub maxsslconn: Limit,
    pub maxsslrate: Limit,
    pub maxcomprate_kbps: Limit,
    pub maxcompcpuusage_percent: u8,
    pub user: Option<String>,
    pub user_pos: Pos,
    pub group: Option<String>,
    pub group_pos: Pos,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub chroot: Option<PathBuf>,
    pub pidfile: Option<PathBuf>,
    pub daemon: bool,
    pub quiet: bool,
    pub master_worker: bool,
    /// `master-worker no-exit-on-failure`
    pub no_exit_on_failure: bool,
    pub node: Option<String>,
    pub description: Option<String>,
    /// `log-send-hostname`: host name in syslog headers.
    pub log_send_hostname: Option<String>,
    pub log_tag: Option<String>,
    pub logs: Vec<LogTarget>,
    /// `stats socket` lines.
    pub stats_sockets: Vec<Bind>,
    pub stats_timeout: Option<Duration>,
    pub stats_maxconn: usize,
    pub hard_stop_after: Option<Duration>,
    pub grace: Option<Duration>,
    pub close_spread_time: CloseSpread,
    pub stats_file: Option<PathBuf>,
    pub spread_checks_percent: u32,
    pub max_spread_checks: Option<Duration>,
    pub ssl_server_verify_none: bool,
    pub ssl_default_bind: SslBind,
    pub ssl_default_server: SslServer,
    pub ca_base: Option<PathBuf>,
    pub crt_base: Option<PathBuf>,
    pub issuers_chain_path: Option<PathBuf>,
    pub ocsp_update: OcspUpdate,
    pub tune: Tune,
    /// `proc.` variables set by `set-var` (an expression) and `set-var-fmt` (a log format).
    pub set_vars: Vec<(Vec<u8>, StartValue)>,
    /// `h1-case-adjust FROM TO`, for `option h1-case-adjust-bogus-client|server`.
    pub h1_case_adjust: BTreeMap<Vec<u8>, Vec<u8>>,
    pub unix_bind: UnixBind,
    pub localpeer: Option<String>,
    pub server_state_base: Option<PathBuf>,
    pub server_state_file: Option<PathBuf>,
    pub key_base: Option<PathBuf>,
    pub external_check: bool,
    /// `external-check preserve-env`
    pub external_check_preserve_env: bool,
    pub insecure_setuid_wanted: bool,
    pub strict_limits: bool,
    /// `zero-warning`: warnings are fatal.
    pub zero_warning: bool,
    /// `-dr`: servers whose names cannot be resolved start without an address.
    pub ignore_unresolved: bool,
    /// `-m`: most memory in MiB.
    pub max_memory_mib: Option<u64>,
    pub fd_hard_limit: Option<u64>,
    pub busy_polling: bool,
    pub set_dumpable: bool,
    pub h1_accept_payload_with_any_method: bool,
    /// `h2-workaround-bogus-websocket-clients`: WebSockets over HTTP/2 are not announced.
    pub no_h2_websockets: bool,
    /// `tune.renice.startup` and `tune.renice.runtime`: priorities while starting and while serving.
    pub renice_startup: Option<i32>,
    pub renice_runtime: Option<i32>,
    pub pp2_never_send_local: bool,
    pub ssl_load_extra_del_ext: bool,
    pub ssl_load_extra_files: ExtraFiles,
    pub ssl_skip_self_issued_ca: bool,
    /// Program and arguments that tell passphrases of keys.
    pub ssl_passphrase_cmd: Vec<String>,
    pub mworker_max_reloads: Option<u32>,
    pub thread_groups: u32,
    pub thread_hard_limit: Option<usize>,
    pub dns_accept_family: AcceptFamily,
    /// Threads share ports by binding each on its own (`noreuseport` turns it off).
    pub reuseport: bool,
    /// `http-err-codes`; 400 to 499 without.
    pub http_err_codes: Option<StatusSet>,
    /// `http-fail-codes`; 500 to 599 less 501 and 505 without.
    pub http_fail_codes: Option<StatusSet>,
    /// `setcap`: capabilities kept after changing the user.
    pub setcap: Vec<String>,
    /// `harden.reject-privileged-ports.tcp`
    pub reject_privileged_ports_tcp: bool,
    /// `expose-experimental-directives`
    pub expose_experimental_directives: bool,
}

/// `ssl-load-extra-files`: what is looked for beside the file of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's words")]
pub struct ExtraFiles {
    pub bundle: bool,
    pub key: bool,
    pub ocsp: bool,
    pub issuer: bool,
}

impl ExtraFiles {
    /// `none`
    pub const NONE: Self = Self { bundle: false, key: false, ocsp: false, issuer: false };
    /// `all`
    pub const ALL: Self = Self { bundle: true, key: true, ocsp: true, issuer: true };
}

impl Default for ExtraFiles {
    fn default() -> Self {
        Self::ALL
    }
}

/// How threads are placed on CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpus {
    /// `cpu-set reset`: what the process inherited does not count.
    pub reset: bool,
    /// The other words of `cpu-set`.
    pub sets: Vec<CpuNumbers>,
    /// `cpu-policy`
    pub policy: Option<CpuPolicy>,
    /// `cpu-policy ... threads-per-core 1`
    pub one_thread_per_core: bool,
    /// `cpu-affinity`
    pub affinity: CpuAffinity,
}

/// `only-KIND SET` or `drop-KIND SET` of `cpu-set`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the directive")]
pub struct CpuNumbers {
    pub kind: CpuKind,
    pub only: bool,
    pub numbers: Vec<usize>,
}

/// What a `cpu-set` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the directive")]
pub enum CpuKind {
    Cpu,
    Node,
    Cluster,
    Core,
    Thread,
}

/// `cpu-policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum CpuPolicy {
    None,
    Efficiency,
    FirstUsableNode,
    /// With so many of them in a group.
    GroupByCcx(usize),
    GroupByCluster(usize),
    Performance,
    Resource,
}

/// `cpu-affinity`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum CpuAffinity {
    #[default]
    Auto,
    PerCcx,
    PerCore,
    PerGroup,
    PerThread,
}

/// `close-spread-time`: when a soft stop closes the connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloseSpread {
    /// Without it: with the next response, idle ones at once.
    #[default]
    AtOnce,
    /// One after another in this time.
    Over(Duration),
    /// `infinite`: they end by themselves.
    Never,
}

/// Value of a `set-var` (an expression) or a `set-var-fmt` (a log format) line.
pub type StartValue = Result<Arc<Expr>, Arc<LogFormat>>;

/// `tune.*`: limits and sizes.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the tune keyword of the same name; sizes in bytes")]
pub struct Tune {
    pub bufsize: usize,
    /// `tune.bufsize.large`, for `wait-for-body ... use-large-buffer`.
    pub bufsize_large: Option<usize>,
    pub maxrewrite: usize,
    pub http_maxhdr: usize,
    pub http_logurilen: usize,
    pub http_cookielen: usize,
    pub comp_maxlevel: u8,
    /// `tune.comp.window-memory`: for the whole process, 0 for no windows.
    pub comp_window_memory: usize,
    /// `tune.comp.reuse-memory`: for the whole process, 0 for none.
    pub comp_reuse_memory: usize,
    /// Of both sides; each side's own goes before it.
    pub h2_initial_window_size: u32,
    pub h2_max_concurrent_streams: u32,
    pub h2_fe: H2Side,
    pub h2_be: H2Side,
    pub h2_max_frame_size: u32,
    pub h2_header_table_size: u32,
    pub h1_fe_glitches_threshold: u32,
    pub h1_be_glitches_threshold: u32,
    /// Percent of a thread's time in use from which clients are closed that have too many.
    pub glitches_kill_cpu_usage: u32,
    pub h2_fe_glitches_threshold: u32,
    pub h2_be_glitches_threshold: u32,
    pub h2_fe_max_total_streams: u64,
    pub maxaccept: usize,
    /// Percent of the descriptors in use above which idle connections to servers are closed.
    pub pool_high_fd_ratio: u32,
    /// The same above which they are not kept.
    pub pool_low_fd_ratio: u32,
    pub max_checks_per_thread: Limit,
    pub ssl_cachesize: usize,
    pub ssl_lifetime: Duration,
    pub idle_pool_shared: bool,
    /// Bytes of lists in the client's hello that fetches see.
    pub ssl_capture_buffer_size: usize,
    /// Secrets of TLS connections are kept for fetches.
    pub ssl_keylog: bool,
    /// Longest record's plaintext, always; 0 for no limit.
    pub ssl_hard_maxrecord: usize,
    pub ssl_ctx_cache_size: usize,
    /// Longest record while a connection is young or after `idletimer`; 0: no limit.
    pub ssl_maxrecord: usize,
    pub idletimer: Duration,
    pub cli_max_payload_size: Option<usize>,
    pub stick_counters: usize,
    pub client_sockets: SocketBuffers,
    pub server_sockets: SocketBuffers,
    /// `tune.rcvbuf.frontend`, `tune.sndbuf.frontend`: sockets that datagrams are received on.
    pub frontend_datagrams: SocketBuffers,
    /// `tune.rcvbuf.backend`, `tune.sndbuf.backend`: sockets that datagrams are sent from.
    pub backend_datagrams: SocketBuffers,
    /// `tune.vars.*-max-size`
    pub vars: VarLimits,
}

/// `tune.h2.fe.*` and `tune.h2.be.*`, where they say something else than `tune.h2.*`.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs, reason = "each field is the tune keyword of the same name")]
pub struct H2Side {
    pub initial_window_size: Option<u32>,
    pub max_concurrent_streams: Option<u32>,
    /// `rxbuf`: bytes a peer may send on all streams before they are consumed.
    pub rxbuf: Option<u32>,
}

/// Sizes of the kernel's buffers for a connection, in bytes; the system's own without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SocketBuffers {
    /// `tune.rcvbuf.*`
    pub receive: Option<u32>,
    /// `tune.sndbuf.*`
    pub send: Option<u32>,
    /// `tune.notsent-lowat.*`
    pub unsent: Option<u32>,
}

impl Default for Tune {
    fn default() -> Self {
        Self {
            bufsize: 16384,
            bufsize_large: None,
            maxrewrite: 1024,
            http_maxhdr: 101,
            http_logurilen: 1024,
            http_cookielen: 63,
            comp_maxlevel: 1,
            comp_window_memory: 0,
            comp_reuse_memory: 0,
            h2_initial_window_size: 65536,
            h2_max_concurrent_streams: 100,
            h2_fe: H2Side::default(),
            h2_be: H2Side::default(),
            h2_max_frame_size: 16384,
            h2_header_table_size: 4096,
            h1_fe_glitches_threshold: 0,
            h1_be_glitches_threshold: 0,
            glitches_kill_cpu_usage: 0,
            h2_fe_glitches_threshold: 0,
            h2_be_glitches_threshold: 0,
            h2_fe_max_total_streams: 0,
            maxaccept: 100,
            pool_high_fd_ratio: 25,
            pool_low_fd_ratio: 20,
            max_checks_per_thread: Limit::NONE,
            ssl_cachesize: 20000,
            ssl_lifetime: Duration::from_secs(300),
            idle_pool_shared: true,
            ssl_capture_buffer_size: 0,
            ssl_keylog: false,
            ssl_hard_maxrecord: 0,
            ssl_ctx_cache_size: 1000,
            ssl_maxrecord: 0,
            idletimer: Duration::from_secs(1),
            cli_max_payload_size: None,
            stick_counters: 3,
            client_sockets: SocketBuffers::default(),
            server_sockets: SocketBuffers::default(),
            frontend_datagrams: SocketBuffers::default(),
            backend_datagrams: SocketBuffers::default(),
            vars: VarLimits::default(),
        }
    }
}

/// Traffic of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the mode keyword's values")]
pub enum Mode {
    #[default]
    Tcp,
    Http,
    Log,
    Spop,
}

/// A frontend, backend or listen section.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the proxy keyword of the same name; units in the type")]
pub struct Proxy {
    pub name: Arc<str>,
    /// `id`: number in statistics.
    pub id: u32,
    pub pos: Pos,
    /// Has a frontend's half (frontend, listen).
    pub frontend: bool,
    /// Has a backend's half (backend, listen).
    pub backend: bool,
    pub mode: Mode,
    pub disabled: bool,
    pub description: Option<String>,
    /// Known by it over reloads (`stats-file`).
    pub guid: Option<String>,

    // frontend
    pub binds: Vec<Bind>,
    pub maxconn: Limit,
    pub backlog: Option<u32>,
    pub rate_limit_sessions: Limit,
    /// Index into `Config::proxies`.
    pub default_backend: Option<usize>,
    pub use_backend: Vec<UseBackend>,
    /// When one holds, backends that are unpublished or disabled can be chosen too.
    pub force_be_switch: Vec<Condition>,
    pub monitor_uri: Option<Vec<u8>>,
    /// `monitor fail if ...`
    pub monitor_fail: Vec<Condition>,
    pub captures: Captures,
    pub unique_id_format: Option<LogFormat>,
    pub unique_id_header: Option<Vec<u8>>,

    // rules, in the order they run
    pub tcp_request_connection: Vec<Rule>,
    pub tcp_request_session: Vec<Rule>,
    pub tcp_request_content: Vec<Rule>,
    pub tcp_response_content: Vec<Rule>,
    pub tcp_request_inspect_delay: Option<Duration>,
    pub tcp_response_inspect_delay: Option<Duration>,
    pub http_request: Vec<Rule>,
    pub http_response: Vec<Rule>,
    pub http_after_response: Vec<Rule>,
    /// `redirect` lines; they run after `http_request`.
    pub redirect: Vec<Rule>,

    // backend
    /// `be-unpublished`: no other proxy's rule chooses it until it is published.
    pub unpublished: bool,
    pub servers: Vec<Server>,
    pub use_server: Vec<UseServer>,
    /// Name of an `fcgi-app` section.
    pub use_fcgi_app: Option<String>,
    pub balance: weir_balance::Algorithm,
    pub balance_key: BalanceKey,
    pub hash: HashType,
    pub cookie: Option<CookiePersistence>,
    pub fullconn: Limit,
    pub retries: u32,
    pub retry_on: RetryOn,
    pub http_reuse: HttpReuse,
    pub checks: Checks,
    pub source: Source,
    pub load_server_state: Option<StateOrigin>,
    pub email_alert: EmailAlert,
    pub hash_balance_factor: u32,

    // both
    pub options: Options,
    pub timeouts: Timeouts,
    pub logs: Vec<LogTarget>,
    pub log_tag: Option<String>,
    pub log_steps: LogSteps,
    pub log_format: Option<LogFormat>,
    pub error_log_format: Option<LogFormat>,
    pub log_format_sd: Option<LogFormat>,
    /// Custom answers by status (`errorfile`, `errorloc`, `http-error`, `errorfiles`).
    pub errors: BTreeMap<u16, ErrorReply>,
    pub stats: Option<Stats>,
    pub compression: Option<Compression>,
    /// Filters in the order of their lines.
    pub filters: Vec<Filter>,
    /// `filter-sequence request` and `response`: names of filters in the order they work, where it is not that of
    /// their lines.
    pub filter_sequence: [Option<Vec<String>>; 2],
    pub forwardfor: Option<ForwardFor>,
    pub originalto: Option<ForwardFor>,
    pub stick_table: Option<StickTable>,
    pub stick_rules: Vec<StickRule>,

    /// Name of the defaults section it starts from; empty for one without a name or without any.
    pub defaults: String,
    pub hash_preserve_affinity: Affinity,
    pub max_keep_alive_queue: i32,
    pub http_send_name_header: Option<Vec<u8>>,
    /// `persist rdp-cookie(NAME)`
    pub persist_rdp_cookie: Option<Vec<u8>>,
    pub ignore_persist: Vec<Condition>,
    pub force_persist: Vec<Condition>,
    pub server_state_file: Option<PathBuf>,
    pub clitcpka: KeepAliveProbes,
    pub srvtcpka: KeepAliveProbes,
    pub external_check_command: Option<String>,
    pub external_check_path: Option<String>,
    /// `dynamic-cookie-key`
    pub dynamic_cookie_key: Option<Vec<u8>>,
}

/// Where connections to a server come from (`source`); what is not said, the system chooses.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The address; port 0 where the system chooses one.
    pub address: Option<SocketAddr>,
    /// The first and the last of the ports they come from, in turn; of server lines only.
    pub ports: Option<(u16, u16)>,
    /// An address that need not be this machine's (`usesrc`).
    pub foreign: Option<ForeignSource>,
    /// The interface they leave by.
    pub interface: Option<String>,
}

/// `source ... usesrc`
#[derive(Debug, Clone)]
pub enum ForeignSource {
    /// This one.
    Address(SocketAddr),
    /// The client's address and port.
    Client,
    /// The client's address.
    ClientIp,
    /// An address that a request's field has: `hdr_ip(NAME[,OCCURRENCE])`.
    Field(Arc<Expr>),
}

/// `load-server-state-from-file`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum StateOrigin {
    Global,
    Local,
}

/// `clitcpka-cnt`, `clitcpka-idle`, `clitcpka-intvl` and the same for servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keywords' last words")]
pub struct KeepAliveProbes {
    pub count: Option<u32>,
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
}

/// `use_backend NAME [if ...]`
#[derive(Debug)]
pub struct UseBackend {
    /// The backend.
    pub target: BackendTarget,
    /// When.
    pub condition: Option<Condition>,
    /// Where it stands.
    pub pos: Pos,
}

/// A backend known at start or computed for each request.
#[derive(Debug)]
pub enum BackendTarget {
    /// Index into `Config::proxies`.
    Known(usize),
    /// Name by log format.
    Dynamic(LogFormat),
}

/// `use-server NAME if ...`
#[derive(Debug)]
pub struct UseServer {
    /// Index into `Proxy::servers`, or a name by log format.
    pub target: Result<usize, LogFormat>,
    /// When.
    pub condition: Option<Condition>,
}

/// Declared captures; the slots in the log.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the capture keyword of the same name")]
pub struct Captures {
    /// (header name, longest kept) by slot; empty name for `declare capture`.
    pub request: Vec<(Vec<u8>, usize)>,
    pub response: Vec<(Vec<u8>, usize)>,
    /// `capture cookie NAME len N`
    pub cookie: Option<(Vec<u8>, usize)>,
}

/// A listening address with its options.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the bind keyword of the same name")]
pub struct Bind {
    pub addr: BindAddr,
    pub name: Option<Arc<str>>,
    pub id: u32,
    pub pos: Pos,
    pub ssl: Option<SslBind>,
    pub accept_proxy: bool,
    /// `guid-prefix` and the socket's number on its line.
    pub guid: Option<String>,
    /// The magic number that the header begins with.
    pub accept_netscaler_cip: Option<u32>,
    /// `proto h1|h2`: no detection.
    pub proto: Option<Proto>,
    pub maxconn: Limit,
    pub backlog: Option<u32>,
    pub interface: Option<String>,
    pub namespace: Option<String>,
    /// `tcp-md5sig`
    pub md5_key: Option<String>,
    pub v4v6: bool,
    pub v6only: bool,
    pub transparent: bool,
    pub defer_accept: bool,
    pub tfo: bool,
    pub mss: Option<i32>,
    pub tcp_ut: Option<Duration>,
    /// How long an HTTP/2 connection may be idle before its client is asked for a sign of life.
    pub idle_ping: Option<Duration>,
    pub unix: UnixBind,
    /// `level` of a stats socket: user, operator, admin.
    pub level: AdminLevel,
    pub expose_fd_listeners: bool,
    pub severity_output: SeverityOutput,
    /// `bind ... process/thread`: threads that serve it; empty = all.
    pub threads: Vec<usize>,
    /// Datagrams instead of a stream (`dgram+`, `udp@`).
    pub datagram: bool,
    /// `cc`: congestion control algorithm.
    pub congestion: Option<String>,
    /// `tcp-ss`: SYN packets are kept, from the IP header (1) or the link header (2) on.
    pub save_syn: Option<i32>,
    /// `nbconn`: connections that a listener `rhttp@` keeps open.
    pub nbconn: u32,
}

/// Rights of a client of the runtime socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs, reason = "the level keyword's values")]
pub enum AdminLevel {
    User,
    #[default]
    Operator,
    Admin,
}

/// `severity-output`: how the command interface says how important an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeverityOutput {
    /// Not at all.
    #[default]
    None,
    /// As syslog's number.
    Number,
    /// As a word.
    Word,
}

impl SeverityOutput {
    /// The keyword's values; `set severity-output` takes them too.
    pub const NAMES: &[(&str, Self)] =
        &[("none", Self::None), ("number", Self::Number), ("string", Self::Word)];
}

/// Owner and rights of a unix socket.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "bind keywords of the same names")]
pub struct UnixBind {
    pub mode: Option<u32>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub prefix: Option<String>,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAddr {
    /// A name to resolve at start, and the port.
    Name(String, u16),
    /// Address and port; a range has been expanded to one `Bind` per port.
    Inet(SocketAddr),
    /// `unix@path`
    Unix(PathBuf),
    /// `abns@name` (`abnsz@`): abstract name space.
    Abstract(Vec<u8>),
    /// `fd@N`: inherited.
    Fd(i32),
    /// `rhttp@backend/server`: connections that this process opens to the server.
    Reverse(String),
}

/// Protocol fixed by `proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the proto keyword's values")]
pub enum Proto {
    H1,
    H2,
    Fcgi,
    None,
}

/// A version that `ssl-min-ver` and its like name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the keywords' values")]
pub enum TlsVersion {
    Ssl3,
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

/// TLS words that bind and server lines have in common.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "keywords of the same names")]
pub struct TlsWords {
    pub min_ver: Option<TlsVersion>,
    pub max_ver: Option<TlsVersion>,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    pub curves: Option<String>,
    pub sigalgs: Option<String>,
    pub client_sigalgs: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub crl_file: Option<PathBuf>,
    pub no_tls_tickets: bool,
}

/// TLS settings of a bind line.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "bind keywords of the same names")]
pub struct SslBind {
    pub words: TlsWords,
    pub crt: Vec<PathBuf>,
    pub crt_list: Vec<PathBuf>,
    pub default_crt: Vec<PathBuf>,
    pub strict_sni: bool,
    /// Protocol names, most wanted first.
    pub alpn: Option<Vec<Vec<u8>>>,
    pub no_alpn: bool,
    pub tls_ticket_keys: Option<PathBuf>,
    pub ca_verify_file: Option<PathBuf>,
    pub verify: Option<Verify>,
    pub crt_ignore_err: Option<String>,
    pub ca_ignore_err: Option<String>,
    pub prefer_client_ciphers: bool,
    pub no_ca_names: bool,
    pub generate_certificates: bool,
    pub ca_sign_file: Option<PathBuf>,
    pub ca_sign_pass: Option<String>,
    pub ocsp_update: Option<bool>,
    pub allow_0rtt: bool,
    /// The frontend's own certificates (`ssl-f-use`), as lines of a crt-list.
    pub frontend_list: Option<Arc<FrontendList>>,
}

/// Certificates that a frontend names for all its bind lines with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontendList {
    /// What commands call it: `@` and the frontend's name.
    pub name: String,
    /// Words of each `ssl-f-use` line, the certificate's file first.
    pub lines: Vec<Vec<String>>,
}

/// `ocsp-update.*`
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the keyword of the same name")]
pub struct OcspUpdate {
    pub disable: bool,
    /// Default for certificates whose line does not say it.
    pub mode: bool,
    pub mindelay: Duration,
    pub maxdelay: Duration,
    /// Host and port.
    pub httpproxy: Option<(String, u16)>,
}

impl Default for OcspUpdate {
    fn default() -> Self {
        Self {
            disable: false,
            mode: false,
            mindelay: Duration::from_secs(300),
            maxdelay: Duration::from_secs(3600),
            httpproxy: None,
        }
    }
}

/// `verify none|optional|required`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the verify keyword's values")]
pub enum Verify {
    None,
    Optional,
    Required,
}

/// TLS settings of a server line.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "server keywords of the same names")]
pub struct SslServer {
    pub words: TlsWords,
    pub verify: Option<Verify>,
    pub crt: Option<PathBuf>,
    pub sni: Option<Arc<Expr>>,
    pub verifyhost: Option<String>,
    pub no_ssl_reuse: bool,
    /// `sni-auto` was turned off (`no-sni-auto`).
    pub no_sni_auto: bool,
}

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddr {
    /// Address and port (port 0 with [`PortMap::Offset`]).
    Inet(SocketAddr),
    /// `unix@path`
    Unix(PathBuf),
    /// `abns@name`
    Abstract(Vec<u8>),
    /// Name to resolve at start, and the port.
    Name(String, u16),
    /// `rhttp@`: connections come from the server.
    Reverse,
    /// Not said yet.
    Unset,
}

/// How a server's port follows from the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortMap {
    /// The port of the address.
    #[default]
    Fixed,
    /// The client's destination port plus this (`server s 10.0.0.1:+1000`, or no port: +0).
    Offset(i32),
}

/// A server line (templates are expanded).
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the server keyword of the same name")]
pub struct Server {
    pub name: Arc<str>,
    /// `id`, as in statistics; assigned from 1 where not given.
    pub id: u32,
    pub pos: Pos,
    pub addr: ServerAddr,
    pub port_map: PortMap,
    pub weight: u32,
    pub maxconn: Limit,
    pub minconn: usize,
    pub maxqueue: Limit,
    /// `maxconn` is of connections, the idle ones too, and not only of requests.
    pub strict_maxconn: bool,
    /// How long an HTTP/2 connection may be idle before the server is asked for a sign of life.
    pub idle_ping: Option<Duration>,
    pub backup: bool,
    pub disabled: bool,
    pub cookie: Option<Vec<u8>>,
    pub check: Option<Check>,
    pub agent_check: Option<AgentCheck>,
    pub track: Option<String>,
    pub ssl: Option<SslServer>,
    /// The TLS words of the line, also without `ssl`: checks use them, and the runtime may turn TLS on.
    pub ssl_settings: SslServer,
    /// `ssl` stands in the line or in what it inherits from: the runtime may turn TLS on.
    pub ssl_possible: bool,
    /// `no-ssl`
    pub no_ssl: bool,
    pub alpn: Option<Vec<Vec<u8>>>,
    pub proto: Option<Proto>,
    pub send_proxy: Option<SendProxy>,
    pub source: Source,
    pub namespace: Option<String>,
    /// `tcp-md5sig`
    pub md5_key: Option<String>,
    pub slowstart: Duration,
    pub on_marked_down: Option<OnMarkedDown>,
    pub on_marked_up: Option<OnMarkedUp>,
    pub observe: Option<ObservedLayer>,
    pub on_error: OnError,
    pub error_limit: u32,
    /// Not a [`Limit`]: 0 keeps none, and -1 is no limit.
    pub pool_max_conn: Option<usize>,
    pub pool_purge_delay: Duration,
    pub pool_low_conn: usize,
    pub max_reuse: Option<u32>,
    pub redir: Option<Vec<u8>>,
    pub ws: WebSocketVersion,
    pub tfo: bool,
    pub tcp_ut: Option<Duration>,
    /// `cc`: congestion control algorithm.
    pub congestion: Option<String>,
    /// In the order they are tried.
    pub init_addr: Vec<InitAddr>,
    pub resolvers: Option<String>,
    pub socks4: Option<SocketAddr>,
    pub guid: Option<String>,
    /// Of a peer: the part of the stick tables that it gets, from 1; 0 for all.
    pub shard: usize,
    /// Name of a `healthcheck` section.
    pub healthcheck: Option<String>,
    /// `pool-conn-name EXPR`: identifies reusable connections.
    pub pool_conn_name: Option<Arc<Expr>>,
    pub hash_key: HashKey,
    /// A rule names it (`use-server`, `srv_is_up(b/s)`): it cannot be removed at run time.
    pub named_by_rules: bool,
    /// `udp@`: messages are sent in datagrams (servers of `mode log` backends).
    pub datagram: bool,
    pub log_proto: LogFraming,
    /// Left out of stickiness (`non-stick`).
    pub non_stick: bool,
    pub resolve_prefer: Option<IpFamily>,
    /// `resolve-net`: addresses in these networks are preferred.
    pub resolve_net: Vec<Network>,
    /// `resolve-opts allow-dup-ip`: may have the address of another server of the same name.
    pub resolve_allow_dup_ip: bool,
    /// `resolve-opts ignore-weight`: keeps its weight, whatever SRV records say.
    pub resolve_ignore_weight: bool,
    pub init_state: InitState,
}

impl Server {
    /// Its name is the label of an SRV record, which has the port, too (manual, section 5.3.1).
    #[must_use]
    pub fn is_service(&self) -> bool {
        matches!(&self.addr, ServerAddr::Name(name, _) if self.resolvers.is_some() && name.starts_with('_'))
    }
}

/// `on-marked-down`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum OnMarkedDown {
    ShutdownSessions,
}

/// `on-marked-up`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum OnMarkedUp {
    ShutdownBackupSessions,
}

/// `observe`: what of the traffic tells the health of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedLayer {
    /// Connections.
    Layer4,
    /// Responses too.
    Layer7,
}

/// `ws`: the version of HTTP that WebSockets are asked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum WebSocketVersion {
    #[default]
    Auto,
    H1,
    H2,
}

/// `hash-key`: what the place of a server on the ring follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum HashKey {
    #[default]
    Id,
    Id32,
    Guid,
    Addr,
    AddrPort,
}

/// A method of `init-addr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitAddr {
    /// The one of the state file.
    Last,
    /// What the system's resolver finds.
    Libc,
    /// The server starts without one.
    None,
    /// This one.
    Ip(IpAddr),
}

impl InitAddr {
    /// The methods of a line that says none.
    pub const DEFAULT: &[Self] = &[Self::Last, Self::Libc];
}

/// `resolve-prefer`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the keyword's values")]
pub enum IpFamily {
    V4,
    V6,
}

/// `log-proto`: how log messages are told apart on a stream (RFC 6587).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFraming {
    /// Each ends with a line feed.
    #[default]
    Lines,
    /// Each is preceded by its length.
    OctetCount,
}

/// `check` and its words on a server line.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "server keywords of the same names")]
pub struct Check {
    pub inter: Duration,
    pub fastinter: Option<Duration>,
    pub downinter: Option<Duration>,
    pub rise: u32,
    pub fall: u32,
    pub addr: Option<IpAddr>,
    pub port: Option<u16>,
    /// `check-ssl` (or the server is TLS and no other address is given).
    pub ssl: Option<bool>,
    pub send_proxy: bool,
    pub alpn: Option<Vec<Vec<u8>>>,
    pub proto: Option<Proto>,
    pub sni: Option<String>,
    pub no_sni_auto: bool,
    pub via_socks4: bool,
}

/// `agent-check` and its words.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "server keywords of the same names")]
pub struct AgentCheck {
    pub inter: Duration,
    pub addr: Option<String>,
    pub port: u16,
    pub send: Vec<u8>,
}

/// PROXY protocol header sent to a server.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "server keywords of the same names")]
pub struct SendProxy {
    pub v2: bool,
    pub ssl: bool,
    pub cert_cn: bool,
    pub crc32c: bool,
    pub unique_id: bool,
    pub authority: bool,
    pub ssl_cipher: bool,
    pub cert_key: bool,
    pub cert_sig: bool,
    /// `set-proxy-v2-tlv-fmt(ID) FMT`
    pub tlvs: Vec<(u8, Arc<LogFormat>)>,
}

/// The key by which a `balance` algorithm that hashes finds the server of a request.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the algorithms of the same names and their words")]
pub enum BalanceKey {
    /// The algorithm needs none.
    #[default]
    None,
    Source,
    Uri(UriKey),
    UrlParam {
        name: Vec<u8>,
        check_post: usize,
    },
    Hdr {
        name: Vec<u8>,
        use_domain_only: bool,
    },
    RdpCookie {
        name: Vec<u8>,
    },
    /// Of `hash`; and of `log-hash`, for a transaction whose request bytes are the message.
    Expr(Expr),
}

/// `cookie NAME ...`
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the cookie keyword's words")]
pub struct CookiePersistence {
    pub name: Vec<u8>,
    pub rewrite: bool,
    pub insert: bool,
    pub prefix: bool,
    pub indirect: bool,
    pub nocache: bool,
    pub postonly: bool,
    pub preserve: bool,
    pub httponly: bool,
    pub secure: bool,
    pub domains: Vec<Vec<u8>>,
    pub maxidle: Option<Duration>,
    pub maxlife: Option<Duration>,
    pub dynamic: bool,
    pub attrs: Vec<Vec<u8>>,
}

/// `http-reuse`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the http-reuse keyword's values")]
pub enum HttpReuse {
    Never,
    #[default]
    Safe,
    Aggressive,
    Always,
}

/// `retry-on`: the failures after which a request is sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the retry-on keyword's words")]
pub struct RetryOn {
    pub conn_failure: bool,
    pub empty_response: bool,
    pub junk_response: bool,
    pub response_timeout: bool,
    pub statuses: Vec<u16>,
}

/// `timeout ...`; `None` is no limit.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the timeout of the same name")]
pub struct Timeouts {
    pub client: Option<Duration>,
    pub client_fin: Option<Duration>,
    pub client_hs: Option<Duration>,
    pub server: Option<Duration>,
    pub server_fin: Option<Duration>,
    pub connect: Option<Duration>,
    pub queue: Option<Duration>,
    pub tunnel: Option<Duration>,
    pub http_request: Option<Duration>,
    pub http_keep_alive: Option<Duration>,
    pub check: Option<Duration>,
    pub tarpit: Option<Duration>,
}

/// How connections live after an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeepAlive {
    /// `option http-keep-alive` (the default)
    #[default]
    KeepAlive,
    /// `option http-server-close`
    ServerClose,
    /// `option httpclose`
    Close,
}

/// `option ...` switches.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the option of the same name")]
pub struct Options {
    pub keep_alive: KeepAlive,
    pub httplog: bool,
    pub httplog_clf: bool,
    pub httpslog: bool,
    pub tcplog: bool,
    pub tcplog_clf: bool,
    pub logasap: bool,
    pub dontlognull: bool,
    pub dontlog_normal: bool,
    pub log_separate_errors: bool,
    pub log_health_checks: bool,
    pub redispatch: Option<i32>,
    pub abortonclose: Option<bool>,
    pub http_buffer_request: bool,
    pub http_ignore_probes: bool,
    pub independent_streams: bool,
    pub http_pretend_keepalive: bool,
    pub http_use_proxy_header: bool,
    pub http_drop_request_trailers: bool,
    pub http_drop_response_trailers: bool,
    pub h1_case_adjust_bogus_client: bool,
    pub h1_case_adjust_bogus_server: bool,
    pub accept_unsafe_violations_in_http_request: bool,
    pub accept_unsafe_violations_in_http_response: bool,
    pub http_restrict_req_hdr_names: Option<RestrictNames>,
    pub disable_h2_upgrade: bool,
    pub persist: bool,
    pub prefer_last_server: bool,
    pub allbackups: bool,
    pub nolinger: bool,
    pub clitcpka: bool,
    pub srvtcpka: bool,
    pub contstats: bool,
    pub socket_stats: bool,
    pub checkcache: bool,
    pub forwarded: Option<Forwarded>,
}

/// `option http-restrict-req-hdr-names`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the option's values")]
pub enum RestrictNames {
    Preserve,
    Delete,
    Reject,
}

/// `option forwarded` (RFC 7239).
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the option's words")]
pub struct Forwarded {
    pub proto: bool,
    pub host: Option<Option<Arc<Expr>>>,
    pub by: Option<Option<Arc<Expr>>>,
    pub by_port: Option<Option<Arc<Expr>>>,
    pub r#for: Option<Option<Arc<Expr>>>,
    pub for_port: Option<Option<Arc<Expr>>>,
}

/// `option forwardfor`, `option originalto`
#[derive(Debug, Clone)]
pub struct ForwardFor {
    /// Field name to add.
    pub header: Vec<u8>,
    /// Networks whose clients are left alone (`except`): address and prefix length.
    pub except: Vec<(IpAddr, u8)>,
    /// Only when the field is not there (`if-none`).
    pub if_none: bool,
}

/// A custom answer for a status.
#[derive(Debug, Clone)]
pub enum ErrorReply {
    /// A whole HTTP/1 response as in a file of `errorfile`, already parsed.
    Message(Arc<(weir_http::Response, Arc<[u8]>)>),
    /// `errorloc`: redirect with this status.
    Location(u16, Vec<u8>),
    /// `errorfile /dev/null`: close silently.
    Silent,
    /// `http-error status ...`: rendered for each request.
    Rendered(Arc<weir_rules::reply::ReplyTemplate>),
}

/// A place log lines go to.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the log keyword's words")]
pub struct LogTarget {
    pub address: LogAddress,
    pub format: LogWire,
    /// The line says `format`; without, messages that are forwarded keep theirs.
    pub own_format: bool,
    pub max_len: usize,
    pub facility: u8,
    /// Least important level sent (0 emerg .. 7 debug).
    pub level: u8,
    /// More important ones are sent as this.
    pub min_level: u8,
    /// `sample RANGES:SIZE`
    pub sample: Option<(Vec<(u32, u32)>, u32)>,
    /// `profile NAME`
    pub profile: Option<ProfileName>,
    /// `log global`: replaced by the global list when checked.
    pub global: bool,
}

/// The log profile of a target.
#[derive(Debug, Clone)]
pub struct ProfileName {
    /// As the line has it.
    pub name: String,
    /// Where the line has it.
    pub pos: Pos,
    /// The profile itself, once all sections have been read.
    pub profile: Arc<LogProfile>,
}

/// A `log-profile` section: how the lines of a target are made.
#[derive(Debug, Default)]
pub struct LogProfile {
    /// `log-tag`
    pub tag: Option<String>,
    /// `on STEP` by step.
    pub steps: BTreeMap<LogOrigin, ProfileLine>,
    /// `on error`
    pub error: Option<ProfileLine>,
    /// `on any`
    pub any: Option<ProfileLine>,
}

/// What a log profile makes of a line; what it does not say is the proxy's.
#[derive(Debug, Default)]
pub struct ProfileLine {
    /// There is none.
    pub drop: bool,
    /// In place of `log-format` and `error-log-format`.
    pub format: Option<LogFormat>,
    /// In place of `log-format-sd`.
    pub data: Option<LogFormat>,
}

impl LogProfile {
    /// What stands for a step, or for the transactions that failed.
    #[must_use]
    pub fn line(&self, origin: LogOrigin, failed: bool) -> Option<&ProfileLine> {
        let own = if failed { self.error.as_ref() } else { self.steps.get(&origin) };
        own.or(self.any.as_ref())
    }
}

/// The steps at which a proxy logs (`log-steps`); none are said where all is left to the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSteps(u16);

impl LogSteps {
    /// One more step.
    pub fn add(&mut self, step: LogOrigin) {
        self.0 |= 1 << step as u8;
    }

    /// Nothing is said.
    #[must_use]
    pub fn is_default(self) -> bool {
        self.0 == 0
    }

    /// The step is among them.
    #[must_use]
    pub fn has(self, step: LogOrigin) -> bool {
        self.0 & 1 << step as u8 != 0
    }
}

/// Where a log target listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the log keyword's address forms")]
pub enum LogAddress {
    /// A name to resolve at start, and the port; over UDP, or TCP when true.
    Name(String, u16, bool),
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Unix(PathBuf),
    Fd(i32),
    Stdout,
    Stderr,
    Ring(String),
    Backend(String),
}

/// Framing of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the log keyword's formats")]
pub enum LogWire {
    Local,
    #[default]
    Rfc3164,
    Rfc5424,
    Priority,
    Short,
    Timed,
    Iso,
    Raw,
}

/// `stats ...` page settings.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the stats keyword of the same name")]
pub struct Stats {
    pub uri: Vec<u8>,
    pub refresh: Option<Duration>,
    pub auth: Vec<(Vec<u8>, Vec<u8>)>,
    pub realm: Vec<u8>,
    pub hide_version: bool,
    pub show_legends: bool,
    pub show_modules: bool,
    pub show_node: Option<String>,
    pub show_desc: Option<String>,
    pub scope: Vec<String>,
    /// `stats admin if ...`
    pub admin: Arc<Vec<Condition>>,
    /// `stats http-request ...`
    pub rules: Arc<Vec<Rule>>,
}

/// `compression ...`
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the compression keyword of the same name")]
pub struct Compression {
    pub algo_res: Vec<weir_compress::Algorithm>,
    pub algo_req: Option<weir_compress::Algorithm>,
    pub types_res: Vec<Vec<u8>>,
    pub types_req: Vec<Vec<u8>>,
    pub offload: bool,
    pub direction_request: bool,
    pub direction_response: bool,
    pub minsize_req: usize,
    pub minsize_res: usize,
}

/// `filter ...`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// `filter compression`: whichever direction the `compression` lines name.
    Compression,
    /// `filter comp-req`
    CompressRequests,
    /// `filter comp-res`
    CompressResponses,
    /// `filter trace`
    Trace(TraceFilter),
    /// `filter cache NAME`
    Cache(String),
    /// `filter fcgi-app NAME`: it sees the request last and the response first, wherever it stands.
    FcgiApp,
    /// `filter bwlim-in NAME` and `filter bwlim-out NAME`
    Bandwidth(Arc<BandwidthFilter>),
}

impl Filter {
    /// The word after `filter`, as `filter-sequence` says it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compression => "compression",
            Self::CompressRequests => "comp-req",
            Self::CompressResponses => "comp-res",
            Self::Trace(_) => "trace",
            Self::Cache(_) => "cache",
            Self::FcgiApp => "fcgi-app",
            Self::Bandwidth(filter) => match filter.upload {
                true => "bwlim-in",
                false => "bwlim-out",
            },
        }
    }

    /// The filter, when it limits bandwidth.
    #[must_use]
    pub fn bandwidth(&self) -> Option<&BandwidthFilter> {
        match self {
            Self::Bandwidth(filter) => Some(filter),
            _ => None,
        }
    }

    /// Whether it compresses.
    #[must_use]
    pub const fn compresses(&self) -> bool {
        matches!(self, Self::Compression | Self::CompressRequests | Self::CompressResponses)
    }
}

/// A filter that limits bandwidth, for the streams whose rules turn it on.
#[derive(Debug)]
pub struct BandwidthFilter {
    /// Its name, for `set-bandwidth-limit`; no other one of its proxy has it.
    pub name: Box<str>,
    /// `bwlim-in`: what the client sends.
    pub upload: bool,
    /// Whose limit it is.
    pub scope: BandwidthScope,
    /// `min-size`: 0 for none.
    pub min_bytes: u64,
}

impl PartialEq for BandwidthFilter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for BandwidthFilter {}

/// Who has a limit, and what it is where the rule does not say another.
#[derive(Debug)]
pub enum BandwidthScope {
    /// Each stream has its own.
    Stream {
        /// `default-limit`
        bytes: u64,
        /// `default-period`
        period: Duration,
    },
    /// All streams that have the same entry of a stick table; its byte rate has the period.
    Shared {
        /// `limit`
        bytes: u64,
        /// `key`
        key: Arc<Expr>,
        /// Name of the table.
        table: String,
    },
}

/// `filter trace`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the filter's words")]
pub struct TraceFilter {
    pub name: String,
    pub quiet: bool,
    pub random_forwarding: bool,
    /// `max-fwd`
    pub max_forward_bytes: Limit,
    pub hexdump: bool,
}

/// What the health checks of a backend's servers are, or those of a `healthcheck` section.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is the option of the same name")]
pub struct Checks {
    pub httpchk: Option<HttpCheck>,
    /// `option tcp-check`; with steps it starts with a connection, without any it is a connection only.
    pub tcpchk: Option<Vec<TcpCheckStep>>,
    /// Checks by other protocols: `ssl-hello-chk`, `mysql-check`, ...
    pub other_check: Option<OtherCheck>,
}

/// `option httpchk` with its `http-check` lines.  The steps are complete: they start with a connection (after set-var),
/// contain the request that `option httpchk` stands for, and end with an expectation.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the http-check keyword's words")]
pub struct HttpCheck {
    pub steps: Vec<TcpCheckStep>,
    pub disable_on_404: bool,
    pub send_state: bool,
}

/// How a check connects.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of `tcp-check connect`")]
pub struct CheckConnect {
    pub port: Option<u16>,
    /// `port` by expression.
    pub port_expr: Option<Expr>,
    pub via_socks4: bool,
    pub addr: Option<SocketAddr>,
    pub ssl: bool,
    pub sni: Option<String>,
    pub alpn: Option<Vec<Vec<u8>>>,
    pub send_proxy: bool,
    pub proto: Option<Proto>,
    /// Close with FIN instead of RST.
    pub linger: bool,
    /// What is not said here is as the server line says.
    pub default: bool,
    /// Put before a script that does not connect by itself: it has no line.
    pub implicit: bool,
    pub comment: Option<String>,
}

impl CheckConnect {
    /// A line without words.
    pub const PLAIN: Self = Self {
        port: None,
        port_expr: None,
        via_socks4: false,
        addr: None,
        ssl: false,
        sni: None,
        alpn: None,
        send_proxy: false,
        proto: None,
        linger: false,
        default: false,
        implicit: false,
        comment: None,
    };

    /// As the server line says, where a script does not connect by itself.
    pub const IMPLICIT: Self = Self { default: true, implicit: true, ..Self::PLAIN };
}

/// A step of a check script (`tcp-check`, `http-check`).
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "few exist, and they are never moved once made")]
#[allow(missing_docs, reason = "the check keywords' words")]
pub enum TcpCheckStep {
    Connect(CheckConnect),
    Send {
        data: CheckPayload,
        comment: Option<String>,
    },
    HttpSend {
        method: Vec<u8>,
        uri: CheckPayload,
        version: Vec<u8>,
        headers: Vec<(Vec<u8>, LogFormat)>,
        body: Option<CheckPayload>,
        comment: Option<String>,
    },
    Expect {
        negate: bool,
        what: Expect,
        min_recv: Option<usize>,
        comment: Option<String>,
        ok_status: Option<CheckStatus>,
        error_status: Option<CheckStatus>,
        tout_status: Option<CheckStatus>,
        on_success: Option<LogFormat>,
        on_error: Option<LogFormat>,
        status_code: Option<Expr>,
    },
    SetVar {
        name: Vec<u8>,
        value: Result<Expr, LogFormat>,
    },
    UnsetVar {
        name: Vec<u8>,
    },
}

/// How an expectation says that a check ended: `ok-status`, `error-status`, `tout-status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the status of the same name in the statistics")]
pub enum CheckStatus {
    L7Ok,
    L7OkConditional,
    L6Ok,
    L4Ok,
    L7Response,
    L7Status,
    L6Response,
    L4Connection,
    L7Timeout,
    L6Timeout,
    L4Timeout,
}

impl CheckStatus {
    /// As the configuration writes them.
    pub const NAMES: &[(&str, Self)] = &[
        ("L7OK", Self::L7Ok),
        ("L7OKC", Self::L7OkConditional),
        ("L6OK", Self::L6Ok),
        ("L4OK", Self::L4Ok),
        ("L7RSP", Self::L7Response),
        ("L7STS", Self::L7Status),
        ("L6RSP", Self::L6Response),
        ("L4CON", Self::L4Connection),
        ("L7TOUT", Self::L7Timeout),
        ("L6TOUT", Self::L6Timeout),
        ("L4TOUT", Self::L4Timeout),
    ];
}

/// Health checks by other protocols.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the option of the same name, with its words")]
pub enum OtherCheck {
    SslHello,
    Mysql {
        user: Option<String>,
        /// The protocol before MySQL 4.1.
        pre_41: bool,
    },
    Pgsql {
        user: String,
    },
    Redis,
    Smtp {
        /// `HELO` or `EHLO`.
        hello: String,
        domain: String,
    },
    Ldap,
    External,
}

/// Bytes sent by a check.
#[derive(Debug)]
pub enum CheckPayload {
    /// As they are.
    Plain(Vec<u8>),
    /// Rendered (`send-lf`, `uri-lf`, `body-lf`).
    Format(LogFormat),
    /// Rendered, then decoded from hexadecimal (`send-binary-lf`).
    HexFormat(LogFormat),
}

/// What a check expects.
#[derive(Debug)]
#[allow(missing_docs, reason = "the expect keyword's matches")]
pub enum Expect {
    String(Vec<u8>),
    Regex(regex::bytes::Regex),
    Binary(Vec<u8>),
    BinaryRegex(regex::bytes::Regex),
    StringFormat(LogFormat),
    BinaryFormat(LogFormat),
    /// Ranges of statuses.
    Status(Vec<(u16, u16)>),
    StatusRegex(regex::bytes::Regex),
    Header {
        name: CheckPayload,
        name_match: StringMatch,
        value: Option<(CheckPayload, StringMatch)>,
        full: bool,
    },
}

/// How a string is compared.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the -m keyword's values")]
pub enum StringMatch {
    Exact,
    Begin,
    End,
    Sub,
    Regex(regex::bytes::Regex),
}

/// `stick-table ...`
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the stick-table keyword's words")]
pub struct StickTable {
    pub name: String,
    pub key: KeyType,
    pub size: usize,
    pub expire: Option<Duration>,
    pub nopurge: bool,
    /// Data types stored, with the period of rates and the number of array elements (`gpc(3)`; 1 otherwise).
    pub store: Vec<(DataType, Option<Duration>, usize)>,
    pub peers: Option<String>,
    /// `srvkey addr`: servers are stored by address instead of by name.
    pub srvkey_addr: bool,
    pub brates_factor: u32,
    pub pos: Pos,
}

/// Key type of a stick table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the type keyword's values")]
pub enum KeyType {
    Ip,
    Ipv6,
    Integer,
    String(usize),
    Binary(usize),
}

/// `stick on|match|store-request|store-response`
#[derive(Debug)]
#[allow(missing_docs, reason = "the stick keyword's words")]
pub struct StickRule {
    pub matches: bool,
    pub store: bool,
    pub response: bool,
    pub expr: Expr,
    pub table: Option<String>,
    pub condition: Option<Condition>,
}
