//! What all threads share: the configuration and the changing state of proxies and servers.
//!
//! Readers never lock on the request path: settings are snapshots, loads are atomics, counters are
//! per-thread blocks.  The queue of a backend is a lock that only requests without a free slot take.

pub mod counters;
pub(crate) mod farm;
pub mod load;
pub mod need;
pub(crate) mod number_hash;
pub mod problem;
pub mod process_vars;
pub(crate) mod queue;
pub mod stick_table;
pub(crate) mod stick_track;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Notify, watch};
use weir_balance::{AtomicLimit, Limit};
use weir_config::model::{self, Config, PortMap};
use weir_net::namespace::Namespace;
use weir_net::source_ports::SourcePorts;
use weir_net::tls::client::TlsClient;
use weir_rules::facts::vars::VarAccount;

use crate::accept::listeners;
use crate::control::certificates::Certificates;
use crate::control::check::{Hub, Standing};
use crate::control::dns::Directory;
use crate::control::mail::Mailers;
use crate::control::peers::{self, Remotes};
use crate::exchange::running::Asks;
use crate::filter::cache::Caches;
use crate::log::hub::LogHub;
use crate::server::choose::Held;
use crate::server::reach::own::OwnConnections;
use crate::server::reach::takeover::Exchangers;
use crate::state::counters::{Counter, Counters, Rate, Times};
use crate::state::farm::{Farm, Layout, NEVER, Picker};
use crate::state::load::ProcessLoad;
use crate::state::need::Need;
pub use crate::state::queue::Queue;
use crate::state::stick_table::StickTables;
use crate::thread::memory_pools::MemoryPools;
use crate::thread::scarcity::Scarcity;

/// The process's shared state.
pub struct Shared {
    /// The configuration in force.
    pub config: Arc<Config>,
    /// State of each proxy, parallel to `config.proxies`.
    pub proxies: Vec<ProxyState>,
    /// Certificates, and what is to become of them.
    pub certificates: Certificates,
    /// Stick tables.
    pub tables: StickTables,
    /// Log lines on their way through rings and backends.
    pub logs: Arc<LogHub>,
    /// Caches.
    pub caches: Caches,
    /// Other processes of each `peers` section.
    pub peers: Vec<Remotes>,
    /// Mail servers.
    pub(crate) mailers: Mailers,
    /// What runs out.
    pub scarcity: Scarcity,
    /// Memory that threads keep for the next user.
    pub memory_pools: MemoryPools,
    /// Name servers.
    pub dns: Directory,
    /// Worker threads.
    pub threads: usize,
    /// Soft stop has begun: no new connections, idle ones close.
    stopping: AtomicBool,
    /// When the soft stop began.
    stopped_at_ms: AtomicU64,
    /// Tells the threads of the soft stop.
    pub stop_signal: watch::Sender<bool>,
    /// Tells the threads to end now.
    pub hard_stop: watch::Sender<bool>,
    /// A connection ended while others waited to be accepted.
    pub freed: Notify,
    /// What health checks of all threads share.
    pub(crate) checks: Hub,
    /// Ways to ask the threads for their sessions.
    pub(crate) asks: Asks,
    /// Ways to take idle connections over from other threads.
    pub(crate) exchangers: Exchangers,
    /// Connections to our own listeners.
    pub(crate) own: Arc<OwnConnections>,
    /// How busy the threads are.
    pub load: ProcessLoad,
    /// Client connections now.
    pub connections: AtomicUsize,
    /// Most client connections at once (`global maxconn`).
    pub max_connections: AtomicUsize,
    /// The same as configured: `set maxconn global` does not go beyond.
    pub max_connections_at_start: usize,
    /// Rate limits, changeable at run time.
    pub limits: RateLimits,
    /// Connections accepted since start.
    pub total_connections: AtomicU64,
    /// Requests since start (`%rt`, `show info`).
    pub total_requests: AtomicU64,
    /// TLS connections now.
    pub tls_connections: AtomicUsize,
    /// Rates of the process.
    pub connection_rate: Rate,
    /// Sessions a second.
    pub session_rate: Rate,
    /// TLS handshakes a second.
    pub tls_rate: Rate,
    /// TLS handshakes a second that needed a new key: nothing was resumed.
    pub tls_key_rate: Rate,
    /// TLS handshakes since start.
    pub total_tls: AtomicU64,
    /// When the process started.
    pub started: Instant,
    /// Wall clock at start, seconds since 1970.
    pub started_at: u64,
    /// `proc.` variables.
    pub proc_vars: Mutex<Vec<(Box<[u8]>, weir_rules::Value<'static>)>>,
    /// What all variables take (`tune.vars.*`).
    pub var_account: Option<Arc<VarAccount>>,
    /// Host name, for logs and fetches.
    pub hostname: String,
    /// Process number.
    pub pid: u32,
}

/// Limits a second for the whole process (`set rate-limit`).
#[derive(Debug)]
pub struct RateLimits {
    /// `maxconnrate`
    pub connections_per_second: AtomicLimit,
    /// `maxsessrate`
    pub sessions_per_second: AtomicLimit,
    /// `maxsslrate`
    pub tls_per_second: AtomicLimit,
    /// `maxcomprate`, in kilobytes.
    pub compression_kb_per_second: AtomicLimit,
}

impl RateLimits {
    fn new(global: &model::Global) -> Self {
        Self {
            connections_per_second: AtomicLimit::new(global.maxconnrate),
            sessions_per_second: AtomicLimit::new(global.maxsessrate),
            tls_per_second: AtomicLimit::new(global.maxsslrate),
            compression_kb_per_second: AtomicLimit::new(global.maxcomprate_kbps),
        }
    }
}

/// Changing state of a proxy.
pub struct ProxyState {
    /// Index in `Shared::proxies`.
    index: usize,
    threads: usize,
    /// Frontend counters.
    pub front: Counters,
    /// Backend counters.
    pub back: Counters,
    /// Its bind lines, in their order.
    pub listeners: Vec<Arc<ListenerState>>,
    /// Times of the backend's last requests.
    pub times: Times,
    /// Connections of the frontend now.
    pub front_current: Level,
    /// Requests (HTTP) or connections (TCP) in the backend now.
    pub back_current: Arc<Level>,
    /// `maxconn` of the frontend, changeable at run time.
    pub front_limit: AtomicUsize,
    /// Sessions a second of the frontend.
    pub session_rate: Rate,
    /// Connections a second of the frontend.
    pub connection_rate: Rate,
    /// Requests a second of the frontend.
    pub request_rate: Rate,
    /// Sessions a second of the backend.
    pub backend_rate: Rate,
    /// Frontend stopped at run time (`disable frontend`, soft stop).
    pub disabled: AtomicBool,
    /// Rules of other proxies may choose it (`be-unpublished`, `publish backend`).
    pub published: AtomicBool,
    /// Index of the next server that is added.
    next_index: AtomicUsize,
    /// The servers; replaced as a whole when one is added or removed.
    pub servers: ArcSwap<Vec<Arc<ServerState>>>,
    /// Which server is next.
    pub picker: Picker,
    /// What the servers share.
    pub farm: Arc<Farm>,
    /// Requests that wait for a slot of any server.
    pub queue: Arc<Queue>,
    /// Log lines made for the frontend (`%lc`).
    pub log_counter: AtomicU32,
    /// Milliseconds (process clock) of the last session, for `lastsess`.
    pub last_session_ms: AtomicU64,
    /// Milliseconds of the last change of the backend's own up/down state.
    pub last_change_ms: AtomicU64,
    /// The backend has at least one usable server (or needs none).
    pub up: AtomicBool,
    /// Times the backend went down.
    pub down_transitions: AtomicU64,
}

/// A current number and its highest value.
#[derive(Debug, Default)]
pub struct Level {
    now: AtomicI64,
    max: AtomicI64,
}

impl Level {
    /// One more; returns the new value.
    pub fn enter(&self) -> i64 {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.note(now);
        now
    }

    /// One more unless the limit is reached; true when it was counted.
    pub fn enter_below(&self, limit: Limit) -> bool {
        let Some(most) = limit.most() else {
            self.enter();
            return true;
        };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut now = self.now.load(SeqCst);
        while now < most {
            match self.now.compare_exchange_weak(now, now + 1, SeqCst, SeqCst) {
                Ok(_) => {
                    self.note(now + 1);
                    return true;
                }
                Err(other) => now = other,
            }
        }
        false
    }

    /// The number now; never below zero, where a reader between two changes may see it.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.now()).unwrap_or(0)
    }

    fn note(&self, now: i64) {
        if now > self.max.load(Relaxed) {
            self.max.fetch_max(now, Relaxed);
        }
    }

    /// One less.  Ordered before the look at who waits for the slot, as joining the queue is ordered before
    /// the look for a free slot: one of both sees the other.
    pub fn leave(&self) {
        self.now.fetch_sub(1, SeqCst);
    }

    /// The value.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now.load(SeqCst)
    }

    /// The highest value.
    #[must_use]
    pub fn max(&self) -> i64 {
        self.max.load(Relaxed)
    }

    /// Starts the highest value anew (`clear counters`).
    pub fn clear_max(&self) {
        self.max.store(self.now(), Relaxed);
    }
}

/// Changing state of a bind line.
#[derive(Debug)]
pub struct ListenerState {
    /// Index of its frontend.
    front: usize,
    tls: bool,
    /// Number of the bind line in its frontend.
    pub id: u32,
    /// Connections on it now.
    pub current: Level,
    /// What is counted for it with `option socket-stats`.
    pub counters: Option<Counters>,
}

impl ListenerState {
    fn new(front: usize, proxy: &model::Proxy, bind: &model::Bind, threads: usize) -> Arc<Self> {
        let counters = proxy.options.socket_stats.then(|| Counters::new(threads));
        let tls = bind.ssl.is_some();
        Arc::new(Self { front, tls, id: bind.id, current: Level::default(), counters })
    }

    /// Counts a client in.  Accepting has counted it in [`Shared::connections`].
    pub(crate) fn enter(&self, shared: &Shared) {
        shared.proxies[self.front].front_current.enter();
        self.current.enter();
        if self.tls {
            shared.tls_connections.fetch_add(1, Relaxed);
        }
    }

    /// Counts it out, there as well.
    pub(crate) fn leave(&self, shared: &Shared) {
        shared.proxies[self.front].front_current.leave();
        self.current.leave();
        if self.tls {
            shared.tls_connections.fetch_sub(1, Relaxed);
        }
        shared.connection_ended();
    }

    /// Counts for this listener.
    pub(crate) fn count(&self, thread: usize, counter: Counter, by: u64) {
        if let Some(counters) = &self.counters {
            counters.add(thread, counter, by);
        }
    }
}

/// What health checks say of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Health {
    /// Failed `fall` times, or forced.
    Down = 0,
    /// Usable.
    Up = 1,
    /// Answers, but asks for no new sessions (404 with `disable-on-404`).
    Stopping = 2,
}

/// Reasons an administrator set, as bits (`set server ... state`).
pub mod admin {
    /// Maintenance forced from the configuration or the runtime socket.
    pub const MAINT: u8 = 1;
    /// Maintenance inherited from a tracked server.
    pub const MAINT_TRACKED: u8 = 2;
    /// Was disabled by the configuration; no restriction by itself.
    pub const MAINT_CONFIG: u8 = 4;
    /// Drain: no new sessions but persistent ones.
    pub const DRAIN: u8 = 8;
    /// Drain inherited from a tracked server.
    pub const DRAIN_TRACKED: u8 = 16;
    /// Name not resolved.
    pub const MAINT_RESOLUTION: u8 = 32;
    /// Any kind of maintenance.
    pub const ANY_MAINT: u8 = MAINT | MAINT_TRACKED | MAINT_RESOLUTION;
}

/// Changing state of a server.
///
/// What a pick looks at stands together at the start, on one cache line: with thousands of servers, each line
/// is a wait for memory.
#[repr(C, align(64))]
pub struct ServerState {
    /// Requests being served now.
    pub served: Level,
    /// Connections to it now, counted for `strict-maxconn` only.
    pub open: Level,
    /// Most requests at once; changed by `set maxconn server`.
    pub maxconn: AtomicLimit,
    /// When the slow start in progress began, milliseconds; [`NEVER`] without one.
    slow_since_ms: AtomicU64,
    /// What it shares with the other servers.
    pub farm: Arc<Farm>,
    /// Requests that must go to this server and wait for a slot.
    pub queue: Arc<Queue>,
    /// TLS to the server: 1 on, 0 off, -1 off by `no-ssl` (`srv_use_ssl`).
    pub(crate) tls_switch: AtomicI8,
    /// Changes when connections made before are of no use any more: another address, TLS turned on or off.
    pub(crate) generation: AtomicU32,
    /// Weight in force, 0..256 (user weight).
    pub weight: AtomicU32,
    /// Administrative bits of [`admin`].
    pub admin: AtomicU8,
    /// [`Health`] as a number.
    health: AtomicU8,
    /// Its line of the configuration.
    pub config: model::Server,
    /// Where connections to it are made from (`namespace`).
    pub(crate) namespace: Option<Namespace>,
    /// Ports that connections to it come from (`source` with a range).
    pub(crate) source_ports: Option<Arc<SourcePorts>>,
    /// Index in the backend's list.
    pub index: usize,
    /// Index of the backend.
    pub proxy: usize,
    /// Where to connect; changed by `set server addr` and name resolution.
    pub addr: ArcSwap<ServerTarget>,
    /// TLS towards it, when its line says `ssl`.
    pub tls: ArcSwapOption<TlsClient>,
    /// Its place in the order in which the servers became usable.
    pub(crate) arrival: AtomicU64,
    /// What [`Self::changed`] knew last: running, usable.
    known: Mutex<(bool, bool)>,
    /// Counters.
    pub counters: Counters,
    /// Times of its last requests.
    pub times: Times,
    /// Sessions a second.
    pub rate: Rate,
    /// Idle connections kept in pools now, all threads.
    pub idle: AtomicUsize,
    /// The same for each thread, for those who want to take one over.
    pub idle_by_thread: Box<[AtomicUsize]>,
    /// Multiplexed connections that each thread has, for the same.
    pub shared_by_thread: Box<[AtomicUsize]>,
    /// How many connections to it are needed at once.
    pub need: Need,
    /// The last health check, for `check_status` and its like.
    pub check: Mutex<CheckReport>,
    /// The last agent check.
    pub agent: Mutex<CheckReport>,
    /// State machine of checks and administrator.
    pub standing: Standing,
    /// Check state as `show servers state` numbers it: enabled bits.
    pub check_enabled: AtomicBool,
    /// Agent checks enabled.
    pub agent_enabled: AtomicBool,
    /// Milliseconds (process clock) of the last session.
    pub last_session_ms: AtomicU64,
    /// Milliseconds of the last state change, for `lastchg` and slow start.
    pub last_change_ms: AtomicU64,
    /// Seconds spent down before the last change.
    pub down_time_s: AtomicU64,
    /// Consecutive errors seen on live traffic (`observe`).
    pub observed_errors: AtomicU32,
    /// Has its name resolved sooner than planned, where that happens at run time.
    pub(crate) resolve_soon: OnceLock<Arc<Notify>>,
    /// The server was added at run time.
    pub dynamic: bool,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTarget {
    /// Address; `None` while its name is not resolved.
    pub address: Option<weir_net::Address>,
    /// The name it was resolved from.
    pub name: Option<String>,
}

impl ServerTarget {
    /// The IP address and port, when it is one.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        match &self.address {
            Some(weir_net::Address::Ip(ip)) => Some(*ip),
            _ => None,
        }
    }
}

/// The last health check's result, for statistics and logs.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// How it ended.
    pub status: crate::control::check::Status,
    /// Layer 7 code, when there is one.
    pub code: u16,
    /// How long the last check took, milliseconds; nothing before the first one.
    pub duration_ms: Option<u64>,
    /// What the server said, or what went wrong.
    pub description: Vec<u8>,
    /// `srv_check_result` of `show servers state`.
    pub result: u8,
}

impl CheckReport {
    /// Before the first check.
    fn first() -> Self {
        Self { status: crate::control::check::Status::Init, ..Self::default() }
    }
}

impl ServerState {
    /// State of a server line at start.
    #[must_use]
    pub fn new(config: &model::Server, proxy: usize, index: usize, threads: usize, farm: &Arc<Farm>) -> Self {
        let target = target_of(&config.addr);
        let admin_bits = if config.disabled { admin::MAINT | admin::MAINT_CONFIG } else { 0 };
        let standing = Standing::new(config);
        let health = standing.health();
        let running = admin_bits & admin::ANY_MAINT == 0 && health != Health::Down;
        let usable = running && config.weight > 0;
        let server = Self {
            index,
            proxy,
            farm: Arc::clone(farm),
            known: Mutex::new((running, usable)),
            slow_since_ms: AtomicU64::new(NEVER),
            addr: ArcSwap::from_pointee(target),
            tls: ArcSwapOption::empty(),
            tls_switch: AtomicI8::new(match (&config.ssl, config.no_ssl) {
                (Some(_), _) => 1,
                (None, true) => -1,
                (None, false) => 0,
            }),
            namespace: config.namespace.as_deref().map(Namespace::named),
            source_ports: config.source.ports.map(|(first, last)| Arc::new(SourcePorts::new(first, last))),
            generation: AtomicU32::new(0),
            weight: AtomicU32::new(config.weight),
            maxconn: AtomicLimit::new(config.maxconn),
            admin: AtomicU8::new(admin_bits),
            health: AtomicU8::new(health as u8),
            standing,
            served: Level::default(),
            open: Level::default(),
            queue: Arc::default(),
            counters: Counters::new(threads),
            times: Times::default(),
            rate: Rate::default(),
            idle: AtomicUsize::new(0),
            idle_by_thread: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            shared_by_thread: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            need: Need::default(),
            check: Mutex::new(CheckReport::first()),
            agent: Mutex::new(CheckReport::first()),
            check_enabled: AtomicBool::new(config.check.is_some()),
            agent_enabled: AtomicBool::new(config.agent_check.is_some()),
            last_session_ms: AtomicU64::new(u64::MAX),
            last_change_ms: AtomicU64::new(0),
            down_time_s: AtomicU64::new(0),
            observed_errors: AtomicU32::new(0),
            arrival: AtomicU64::new(0),
            resolve_soon: OnceLock::new(),
            dynamic: false,
            config: config.clone(),
        };
        server.count_usable(usable, false);
        server
    }

    /// Keeps the farm's number of usable servers.
    fn count_usable(&self, usable: bool, before: bool) {
        let count = if self.config.backup { &self.farm.backups } else { &self.farm.active };
        match (before, usable) {
            (false, true) => {
                self.arrival.store(self.farm.arrivals.fetch_add(1, SeqCst), SeqCst);
                count.fetch_add(1, SeqCst)
            }
            (true, false) => count.fetch_sub(1, SeqCst),
            _ => 0,
        };
    }

    /// Keeps the farm's numbers after the state was set; whether it went down, and whether it came up.
    pub(crate) fn recount(&self) -> (bool, bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.is_running(), self.is_usable());
        let before = std::mem::replace(&mut *known, now);
        self.count_usable(now.1, before.1);
        (before.0 && !now.0, !before.0 && now.0)
    }

    /// To be called after any change of health, administrative state, weight or `maxconn`: the next pick sees
    /// it, a slow start begins, those who wait for a server that went down look for another one, and those
    /// who wait for any server get the slots of one that came up.
    pub fn changed(self: &Arc<Self>) {
        let (went_down, came_up) = self.recount();
        if went_down || came_up {
            let slow = came_up && !self.config.slowstart.is_zero();
            self.slow_since_ms.store(if slow { weir_net::timers::now_ms() } else { NEVER }, Relaxed);
        }
        self.farm.outdate();
        if went_down && (self.in_maintenance() || self.farm.redispatch && !self.farm.persist) {
            self.queue.disband();
        }
        if self.farm.usable() == 0 {
            // Nobody could serve them: they are told now rather than when their time is over.
            self.farm.queue.disband();
        }
        self.dispatch();
    }

    /// Gives free slots to those who wait, the longest waiting first.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        while !self.queue.is_empty() || !self.farm.queue.is_empty() {
            let (own, any) = (self.queue.first(), self.farm.queue.first());
            let own_may = self.is_running() || self.farm.persist;
            let own = own.filter(|_| own_may);
            let any = any.filter(|_| self.is_usable());
            let queue = match (own, any) {
                (Some(own), Some(any)) if any < own => &self.farm.queue,
                (Some(_), _) => &self.queue,
                (None, Some(_)) => &self.farm.queue,
                (None, None) => return,
            };
            let Some(held) = Held::try_new(self) else { return };
            if let Some(unwanted) = queue.hand_over(held) {
                // Around again: somebody may have come between the look into the queue and this.
                unwanted.discard();
            }
        }
    }

    /// Sixteenths of weight and `maxconn` that apply now.
    pub(crate) fn ramp(&self, now_ms: u64) -> u32 {
        ramp(self.slow_since_ms.load(Relaxed), self.config.slowstart.as_millis() as u64, now_ms)
    }

    /// When the ramp of a slow start rises next; [`NEVER`] without one.
    pub(crate) fn next_step_ms(&self, now_ms: u64) -> u64 {
        let since_ms = self.slow_since_ms.load(Relaxed);
        let slowstart_ms = self.config.slowstart.as_millis() as u64;
        if since_ms == NEVER {
            return NEVER;
        }
        if now_ms.saturating_sub(since_ms) >= slowstart_ms {
            self.slow_since_ms.store(NEVER, Relaxed);
            return NEVER;
        }
        now_ms + (slowstart_ms / u64::from(weir_balance::WEIGHT_SCALE)).max(1)
    }

    /// Requests it takes now.
    #[must_use]
    pub fn limit_now(&self) -> Limit {
        let maxconn = self.maxconn.load(Relaxed);
        let slow = self.slow_since_ms.load(Relaxed) != NEVER;
        if !maxconn.is_set() || (self.config.minconn == 0 && !slow) {
            return maxconn;
        }
        let load = self.farm.current.count();
        let ramp = if slow { self.ramp(weir_net::timers::now_ms()) } else { weir_balance::WEIGHT_SCALE };
        weir_balance::dynamic_maxconn(self.config.minconn, maxconn, self.farm.fullconn, load, ramp)
    }

    /// Whether requests go over TLS: 1 yes, 0 no, -1 no because of `no-ssl`.
    #[must_use]
    pub fn tls_switch(&self) -> i8 {
        self.tls_switch.load(Relaxed)
    }

    /// The TLS words that hold for requests; none in clear.
    pub(crate) fn tls_settings(&self) -> Option<&model::SslServer> {
        let on = self.tls_switch() > 0;
        on.then(|| self.config.ssl.as_ref().unwrap_or(&self.config.ssl_settings))
    }

    /// What is added to the port that the client connected to, where that is the server's port too: manual, `server`,
    /// for lines without a port. One that came later, by an SRV record or `set server addr`, is the server's own.
    pub(crate) fn maps_ports(&self) -> Option<i32> {
        if self.config.is_service() || self.addr.load().ip()?.port() != 0 {
            return None;
        }
        match self.config.port_map {
            PortMap::Fixed => Some(0),
            PortMap::Offset(by) => Some(by),
        }
    }

    /// Changes where it is (`set server addr`); idle connections to the old place are not used again.
    pub fn set_target(self: &Arc<Self>, target: ServerTarget) {
        self.addr.store(Arc::new(target));
        self.generation.fetch_add(1, Relaxed);
        self.changed();
    }

    /// Its value of the persistence cookie: its own, or one made of its address and the backend's secret.
    #[must_use]
    pub fn cookie(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(own) = &self.config.cookie {
            return Some(Cow::Borrowed(own));
        }
        let key = self.farm.dynamic_cookie_key.as_ref()?;
        let address = self.addr.load().ip()?;
        let mut bytes = key.clone();
        match address.ip() {
            IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
        }
        bytes.extend_from_slice(&u32::from(address.port()).to_be_bytes());
        Some(Cow::Owned(format!("{:016x}", xxhash_rust::xxh64::xxh64(&bytes, 0)).into_bytes()))
    }

    /// What the checks say.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.health.load(Relaxed) {
            0 => Health::Down,
            2 => Health::Stopping,
            _ => Health::Up,
        }
    }

    /// Changes what the checks say; true when it was something else.
    pub fn set_health(&self, health: Health) -> bool {
        self.health.swap(health as u8, Relaxed) != health as u8
    }

    /// In maintenance, for any reason.
    #[must_use]
    pub fn in_maintenance(&self) -> bool {
        self.admin.load(Relaxed) & admin::ANY_MAINT != 0
    }

    /// Drained by an administrator.
    #[must_use]
    pub fn draining(&self) -> bool {
        self.admin.load(Relaxed) & (admin::DRAIN | admin::DRAIN_TRACKED) != 0
    }

    /// May be given persistent requests: up, or stopping, or draining.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.in_maintenance() && self.health() != Health::Down
    }

    /// May be given new requests by the load balancer.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_running() && !self.draining() && self.health() == Health::Up && self.weight.load(Relaxed) > 0
    }

    /// Counts for this server.
    pub fn count(&self, thread: usize, counter: Counter, by: u64) {
        self.counters.add(thread, counter, by);
    }
}

/// The address to connect to as far as it is known at start.
fn target_of(addr: &model::ServerAddr) -> ServerTarget {
    use weir_net::Address;
    match addr {
        model::ServerAddr::Inet(ip) => ServerTarget { address: Some(Address::Ip(*ip)), name: None },
        model::ServerAddr::Unix(path) => {
            ServerTarget { address: Some(Address::Unix(path.clone())), name: None }
        }
        model::ServerAddr::Abstract(name) => {
            ServerTarget { address: listeners::abstract_name(name).address(), name: None }
        }
        model::ServerAddr::Name(name, _) => ServerTarget { address: None, name: Some(name.clone()) },
        model::ServerAddr::Reverse | model::ServerAddr::Unset => ServerTarget { address: None, name: None },
    }
}

impl ProxyState {
    fn new(index: usize, proxies: &[Arc<model::Proxy>], threads: usize, default_limit: usize) -> Self {
        let proxy = &proxies[index];
        let farm = Arc::new(Farm::new(proxy, farm::fullconn(proxies, index, default_limit)));
        let servers = proxy.servers.iter().enumerate();
        let servers = servers.map(|(at, server)| ServerState::new(server, index, at, threads, &farm));
        let servers = Arc::new(servers.map(Arc::new).collect::<Vec<_>>());
        let picker = Picker::new(proxy, &servers);
        Self {
            index,
            threads,
            front: Counters::new(threads),
            back: Counters::new(threads),
            listeners: proxy
                .binds
                .iter()
                .map(|bind| ListenerState::new(index, proxy, bind, threads))
                .collect(),
            times: Times::default(),
            front_current: Level::default(),
            back_current: Arc::clone(&farm.current),
            front_limit: AtomicUsize::new(proxy.maxconn.most().unwrap_or(default_limit)),
            session_rate: Rate::default(),
            connection_rate: Rate::default(),
            request_rate: Rate::default(),
            backend_rate: Rate::default(),
            disabled: AtomicBool::new(proxy.disabled),
            published: AtomicBool::new(!proxy.unpublished),
            next_index: AtomicUsize::new(proxy.servers.len()),
            servers: ArcSwap::new(servers),
            picker,
            queue: Arc::clone(&farm.queue),
            farm,
            log_counter: AtomicU32::new(0),
            last_session_ms: AtomicU64::new(u64::MAX),
            last_change_ms: AtomicU64::new(0),
            up: AtomicBool::new(true),
            down_transitions: AtomicU64::new(0),
        }
    }

    /// The bind line of this number.
    #[must_use]
    pub fn listener(&self, id: u32) -> Option<&Arc<ListenerState>> {
        self.listeners.iter().find(|listener| listener.id == id)
    }

    /// Number of servers that take new requests: the active ones, or the backups without any.
    #[must_use]
    pub fn usable_servers(&self) -> usize {
        self.farm.usable()
    }

    /// The backend as it is balanced now.
    pub(crate) fn layout(&self) -> arc_swap::Guard<Arc<Layout>> {
        self.picker.layout(&self.farm, &self.servers)
    }

    /// The backend as it is balanced now, with every change made before.
    pub(crate) fn fresh_layout(&self) -> arc_swap::Guard<Arc<Layout>> {
        self.picker.fresh_layout(&self.farm, &self.servers)
    }

    /// Many servers changed: as [`ServerState::changed`] on each.
    pub fn changed(&self) {
        for server in self.servers.load().iter() {
            server.changed();
        }
    }

    /// Adds a server at run time; it starts in maintenance.
    pub fn add_server(&self, config: &model::Server) -> Arc<ServerState> {
        // Never one that was used before: idle connections are kept by it.
        let index = self.next_index.fetch_add(1, Relaxed);
        let mut server = ServerState::new(config, self.index, index, self.threads, &self.farm);
        server.dynamic = true;
        let unresolved = config.resolvers.is_some() && server.addr.load().address.is_none();
        server.standing.start_with(&server, weir_balance::Admin::FORCED_MAINT);
        if unresolved {
            server.standing.start_with(&server, weir_balance::Admin::RESOLUTION_MAINT);
        }
        let server = Arc::new(server);
        self.servers.rcu(|servers| {
            let mut servers = Vec::clone(servers);
            servers.push(Arc::clone(&server));
            servers
        });
        server.changed();
        server
    }

    /// Removes a server; false when it is not there.  Requests on it end as they are.
    pub fn remove_server(&self, server: &Arc<ServerState>) -> bool {
        let is_other = |other: &&Arc<ServerState>| !Arc::ptr_eq(other, server);
        let before = self.servers.rcu(|servers| servers.iter().filter(is_other).cloned().collect::<Vec<_>>());
        let found = before.iter().any(|other| Arc::ptr_eq(other, server));
        if found {
            server.standing.removed.store(true, Relaxed);
            server.admin.fetch_or(admin::MAINT, AcqRel);
            server.changed();
        }
        found
    }

    /// The server of this name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Arc<ServerState>> {
        self.layout().members.named(name).cloned()
    }
}

/// Sixteenths that apply after a start at `since_ms` that takes `slowstart_ms`.
fn ramp(since_ms: u64, slowstart_ms: u64, now_ms: u64) -> u32 {
    let scale = weir_balance::WEIGHT_SCALE;
    if since_ms == NEVER || slowstart_ms == 0 {
        return scale;
    }
    let elapsed_ms = now_ms.saturating_sub(since_ms).min(slowstart_ms);
    let sixteenths = (u64::from(scale) * elapsed_ms).saturating_add(slowstart_ms) / slowstart_ms;
    (sixteenths as u32).clamp(1, scale)
}

impl Shared {
    /// Fresh state for a configuration.
    #[must_use]
    pub fn new(config: Arc<Config>, threads: usize, hostname: String) -> Arc<Self> {
        /// `maxconn` where neither the configuration nor the descriptor limit says otherwise.
        const DEFAULT_MAXCONN: usize = 10_000;
        let max = config.global.maxconn.most().unwrap_or(DEFAULT_MAXCONN);
        let proxies =
            (0..config.proxies.len()).map(|at| ProxyState::new(at, &config.proxies, threads, max)).collect();
        Arc::new(Self {
            proxies,
            certificates: Certificates::new(&config.global.ocsp_update),
            tables: StickTables::new(&config),
            logs: Arc::new(LogHub::new(&config, threads)),
            caches: Caches::new(&config),
            peers: peers::remotes(&config, threads),
            dns: Directory::new(&config),
            mailers: Mailers::new(&config),
            memory_pools: MemoryPools::new(threads),
            scarcity: Scarcity::new(config.global.max_memory_mib),
            threads,
            stopping: AtomicBool::new(false),
            stopped_at_ms: AtomicU64::new(u64::MAX),
            stop_signal: watch::Sender::new(false),
            hard_stop: watch::Sender::new(false),
            freed: Notify::new(),
            checks: Hub::new(threads),
            asks: Asks::new(threads),
            exchangers: Exchangers::new(threads),
            own: Arc::default(),
            load: ProcessLoad::new(threads),
            connections: AtomicUsize::new(0),
            max_connections: AtomicUsize::new(max),
            max_connections_at_start: max,
            limits: RateLimits::new(&config.global),
            total_connections: AtomicU64::new(0),
            total_requests: AtomicU64::new(0),
            tls_connections: AtomicUsize::new(0),
            connection_rate: Rate::default(),
            session_rate: Rate::default(),
            tls_rate: Rate::default(),
            tls_key_rate: Rate::default(),
            total_tls: AtomicU64::new(0),
            started: Instant::now(),
            started_at: std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs()),
            proc_vars: Mutex::default(),
            var_account: VarAccount::new(config.global.tune.vars),
            pid: std::process::id(),
            hostname,
            config,
        })
    }

    /// Milliseconds since the process started.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Begins the soft stop.
    pub fn stop(&self) {
        self.stopped_at_ms.fetch_min(self.now_ms(), Relaxed);
        self.stopping.store(true, Relaxed);
        self.stop_signal.send_replace(true);
    }

    /// Ready when the soft stop has begun.
    pub async fn stopped(&self) {
        // The sender lives here: it cannot be gone.
        let mut signal = self.stop_signal.subscribe();
        let _stopping = signal.wait_for(|stopping| *stopping).await;
    }

    /// A client connection is over: another one may be accepted.
    pub(crate) fn connection_ended(&self) {
        self.connections.fetch_sub(1, Relaxed);
        self.freed.notify_waiters();
    }

    /// How long the soft stop has been going on.
    pub(crate) fn stopping_for(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.stopped_at_ms.load(Relaxed)))
    }

    /// A soft stop has begun.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Index of a proxy by name; `backend` asks for one with a backend's half.
    #[must_use]
    pub fn proxy_index(&self, name: &str, backend: bool) -> Option<usize> {
        let fits = |p: &model::Proxy| &*p.name == name && if backend { p.backend } else { p.frontend };
        self.config.proxies.iter().position(|p| fits(p))
    }
}
