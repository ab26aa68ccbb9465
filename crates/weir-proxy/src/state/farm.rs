//! What the servers of a backend share, and the backend laid out for balancing.
//!
//! Owns the snapshot that picks are made from and when it is made anew; leaves the algorithms to
//! `weir-balance` and the way of a request to [`crate::server::choose`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;
use weir_balance::{ServerView, Settings, avalanche};
use weir_config::model::{BackendTarget, HashKey, Proxy, UseBackend};
use weir_net::timers::now_ms;
use xxhash_rust::xxh32::xxh32;

use crate::state::queue::Queue;
use crate::state::{Level, ServerState};

/// A moment that does not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// Laying out takes at most one part in so many of the time, however often servers change.
const REST_FACTOR: u64 = 8;

/// The part of a backend that its servers see.
pub struct Farm {
    /// Requests that wait for a slot of any server.
    pub queue: Arc<Queue>,
    /// Requests in the backend.
    pub current: Arc<Level>,
    /// Load at which servers reach their `maxconn` from `minconn`.
    pub fullconn: usize,
    /// `option persist`: persistent requests go to servers that are down, too.
    pub persist: bool,
    /// `option redispatch`: persistent requests leave a server that is down.
    pub redispatch: bool,
    /// `cookie ... dynamic` with its `dynamic-cookie-key`.
    pub(crate) dynamic_cookie_key: Option<Vec<u8>>,
    /// Usable servers that are not backups.
    pub(crate) active: AtomicUsize,
    /// Usable backups.
    pub(crate) backups: AtomicUsize,
    /// Times a server became usable.
    pub(crate) arrivals: AtomicU64,
    /// The layout does not show the servers as they are.
    stale: AtomicBool,
}

/// `fullconn` of a backend: its own, or a tenth of what the frontends that choose it by name let in (manual,
/// `fullconn`).
pub(crate) fn fullconn(proxies: &[Arc<Proxy>], index: usize, default_maxconn: usize) -> usize {
    let own = &proxies[index];
    if let Some(fullconn) = own.fullconn.most() {
        return fullconn;
    }
    let chooses = |at: usize, front: &Proxy| {
        let by_rule = |rule: &UseBackend| matches!(rule.target, BackendTarget::Known(to) if to == index);
        at == index || front.default_backend == Some(index) || front.use_backend.iter().any(by_rule)
    };
    let fronts = proxies.iter().enumerate().filter(|(at, proxy)| proxy.frontend && chooses(*at, proxy));
    let most: usize = fronts.map(|(_, front)| front.maxconn.most().unwrap_or(default_maxconn)).sum();
    most.div_ceil(10).max(1)
}

impl Farm {
    /// An empty farm with a backend's settings.
    #[must_use]
    pub fn new(proxy: &Proxy, fullconn: usize) -> Self {
        Self {
            queue: Arc::default(),
            current: Arc::default(),
            fullconn,
            persist: proxy.options.persist,
            redispatch: proxy.options.redispatch.is_some_and(|every| every != 0),
            dynamic_cookie_key: proxy
                .dynamic_cookie_key
                .clone()
                .filter(|_| proxy.cookie.as_ref().is_some_and(|cookie| cookie.dynamic)),
            active: AtomicUsize::new(0),
            backups: AtomicUsize::new(0),
            arrivals: AtomicU64::new(0),
            stale: AtomicBool::new(true),
        }
    }

    /// Usable servers that take part: the active ones, or the backups without any.
    #[must_use]
    pub fn usable(&self) -> usize {
        match self.active.load(Relaxed) {
            0 => self.backups.load(Relaxed),
            active => active,
        }
    }

    /// The layout does not show the servers as they are.
    pub(crate) fn is_outdated(&self) -> bool {
        self.stale.load(Acquire)
    }

    /// The next pick lays the farm out again.
    pub(crate) fn outdate(&self) {
        self.stale.store(true, Release);
    }
}

/// A set of servers and the ways to find them; changes only when servers are added or removed.
pub(crate) struct Members {
    pub(crate) servers: Arc<Vec<Arc<ServerState>>>,
    by_name: HashMap<Arc<str>, u32>,
    by_cookie: HashMap<Box<[u8]>, SmallVec<[u32; 1]>>,
    by_id: HashMap<u32, u32>,
}

impl Members {
    fn new(servers: Arc<Vec<Arc<ServerState>>>) -> Self {
        let mut members = Self {
            by_name: HashMap::with_capacity(servers.len()),
            by_id: HashMap::with_capacity(servers.len()),
            by_cookie: HashMap::new(),
            servers,
        };
        // Backwards, so that of two with the same name or number the first is found.
        for (at, server) in members.servers.iter().enumerate().rev() {
            members.by_name.insert(Arc::clone(&server.config.name), at as u32);
            members.by_id.insert(server.config.id, at as u32);
        }
        for (at, server) in members.servers.iter().enumerate() {
            if let Some(cookie) = server.cookie() {
                members.by_cookie.entry(Box::from(&*cookie)).or_default().push(at as u32);
            }
        }
        members
    }

    fn at(&self, at: Option<&u32>) -> Option<&Arc<ServerState>> {
        self.servers.get(*at? as usize)
    }

    /// By name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<ServerState>> {
        self.at(self.by_name.get(name))
    }

    /// By number.
    pub(crate) fn numbered(&self, id: u32) -> Option<&Arc<ServerState>> {
        self.at(self.by_id.get(&id))
    }

    /// By the value of the persistence cookie, in their order.
    pub(crate) fn with_cookie(&self, value: &[u8]) -> impl Iterator<Item = &Arc<ServerState>> {
        let found = self.by_cookie.get(value).into_iter().flatten();
        found.filter_map(|at| self.at(Some(at)))
    }
}

/// A farm as it was when it was laid out.
pub(crate) struct Layout {
    pub(crate) members: Arc<Members>,
    pub(crate) picker: weir_balance::Picker,
    /// When a slow start is due for its next step.
    next_step_ms: u64,
}

impl Layout {
    fn new(settings: &Settings, members: Arc<Members>, now_ms: u64) -> Self {
        let mut next_step_ms = NEVER;
        let views = members.servers.iter().map(|server| {
            next_step_ms = next_step_ms.min(server.next_step_ms(now_ms));
            ServerView {
                id: server.config.id,
                weight: server.weight.load(Relaxed),
                ramp: server.ramp(now_ms),
                usable: server.is_usable(),
                backup: server.config.backup,
                ring_key: ring_key(server),
            }
        });
        let views: Vec<ServerView> = views.collect();
        Self { picker: weir_balance::Picker::new(settings, &views), members, next_step_ms }
    }
}

/// `hash-key`: where on the ring a server stands, when not by its number.
fn ring_key(server: &ServerState) -> Option<u32> {
    match server.config.hash_key {
        HashKey::Addr => Some(ring_key_of(server.addr.load().ip()?.ip(), 0)),
        HashKey::AddrPort => {
            let addr = server.addr.load().ip()?;
            Some(ring_key_of(addr.ip(), avalanche(addr.port().into())))
        }
        HashKey::Guid => Some(xxh32(server.config.guid.as_ref()?.as_bytes(), 0)),
        HashKey::Id | HashKey::Id32 => None,
    }
}

/// HAProxy's keys of addresses, as measured: four bytes are added to the key so far and spread, sixteen are hashed with
/// it as the seed.
fn ring_key_of(ip: IpAddr, key: u32) -> u32 {
    match ip {
        IpAddr::V4(ip) => avalanche(key.wrapping_add(u32::from_le_bytes(ip.octets()))),
        IpAddr::V6(ip) => xxh32(&ip.octets(), key),
    }
}

/// A counter on its own cache line: all threads write it.
#[derive(Default)]
#[repr(align(64))]
struct Turn(AtomicU64);

/// The balancing state of a backend.
pub struct Picker {
    settings: Settings,
    layout: ArcSwap<Layout>,
    turn: Turn,
    /// Held by whoever lays out.
    laying_out: Mutex<()>,
    /// No new layout before this moment unless the one in force is of no use.
    rest_until_ms: AtomicU64,
}

impl Picker {
    /// For a backend's servers.
    pub(crate) fn new(proxy: &Proxy, servers: &Arc<Vec<Arc<ServerState>>>) -> Self {
        let settings = settings(proxy);
        let members = Arc::new(Members::new(Arc::clone(servers)));
        Self {
            layout: ArcSwap::from_pointee(Layout::new(&settings, members, now_ms())),
            settings,
            turn: Turn::default(),
            laying_out: Mutex::default(),
            rest_until_ms: AtomicU64::new(0),
        }
    }

    /// What the configuration says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The next turn; each is given out once, whichever thread asks.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.0.fetch_add(1, Relaxed)
    }

    /// The layout in force, made anew first when servers changed.
    pub(crate) fn layout(&self, farm: &Farm, servers: &ArcSwap<Vec<Arc<ServerState>>>) -> Guard<Arc<Layout>> {
        let layout = self.layout.load();
        if !farm.is_outdated() && (layout.next_step_ms == NEVER || now_ms() < layout.next_step_ms) {
            return layout;
        }
        // Somebody else at it, or too soon: the old one serves meanwhile.
        let rested = now_ms() >= self.rest_until_ms.load(Relaxed);
        if let (true, Ok(_at_it)) = (rested, self.laying_out.try_lock()) {
            self.lay_out(farm, servers);
        }
        self.layout.load()
    }

    /// A layout that shows every change made before the call.
    pub(crate) fn fresh_layout(
        &self,
        farm: &Farm,
        servers: &ArcSwap<Vec<Arc<ServerState>>>,
    ) -> Guard<Arc<Layout>> {
        let _at_it = self.laying_out.lock().unwrap_or_else(PoisonError::into_inner);
        if farm.is_outdated() {
            self.lay_out(farm, servers);
        }
        self.layout.load()
    }

    /// Only for the holder of `laying_out`.
    fn lay_out(&self, farm: &Farm, servers: &ArcSwap<Vec<Arc<ServerState>>>) {
        let started = std::time::Instant::now();
        // Before looking at the servers: what changes from here on makes it stale again.
        farm.stale.swap(false, AcqRel);
        let servers = servers.load_full();
        let old = self.layout.load();
        // Dynamic cookies follow the addresses.
        let same = Arc::ptr_eq(&old.members.servers, &servers) && farm.dynamic_cookie_key.is_none();
        let members = match same {
            true => Arc::clone(&old.members),
            false => Arc::new(Members::new(servers)),
        };
        drop(old);
        self.layout.store(Arc::new(Layout::new(&self.settings, members, now_ms())));
        let took_ms = started.elapsed().as_millis() as u64;
        self.rest_until_ms.store(now_ms() + took_ms * REST_FACTOR, Relaxed);
    }
}

/// `balance`, `hash-type` and their like for the balancing crate.
fn settings(proxy: &Proxy) -> Settings {
    Settings {
        algorithm: proxy.balance,
        hash_type: proxy.hash,
        balance_factor: proxy.hash_balance_factor,
        affinity: proxy.hash_preserve_affinity,
        all_backups: proxy.options.allbackups,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::state::{ProxyState, Shared};
    use weir_config::model;

    /// The state of a configuration.
    pub(crate) fn shared(config: &str) -> Arc<Shared> {
        let loaded = weir_config::load_str("test", config);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:?}"));
        Shared::new(Arc::new(loaded.config), 2, String::new())
    }

    #[test]
    fn addresses_stand_where_the_peer_puts_them() {
        let check =
            |ip: &str, key: u32, expected: u32| assert_eq!(ring_key_of(ip.parse().unwrap(), key), expected);
        check("127.0.0.1", 0, 259664325);
        check("127.0.0.1", avalanche(8080), 2580346307);
        check("::ffff:127.0.0.2", 0, 236128802);
        check("::ffff:127.0.0.2", avalanche(8080), 1931226220);
    }

    #[test]
    fn fullconn_is_a_tenth_of_what_frontends_let_in() {
        let check = |lines: &str, expected: usize| {
            let text = format!(
                "global\n maxconn 5000\nfrontend f\n bind :1\n maxconn 201\n default_backend b\n\
                 frontend g\n bind :2\n use_backend b if FALSE\nfrontend h\n bind :3\n{lines}\nbackend b\n"
            );
            let shared = shared(&text);
            assert_eq!(shared.proxies.last().unwrap().farm.fullconn, expected, "{lines}");
        };
        check("", 521);
        check("default_backend b", 1021);
        check("use_backend %[path]", 521);
        check("listen l\n maxconn 30", 521);
        assert_eq!(shared("listen l\n bind :1\n maxconn 30\n").proxies[0].farm.fullconn, 3);
        assert_eq!(shared("backend b\n").proxies[0].farm.fullconn, 1);
        assert_eq!(shared("backend b\n fullconn 7\n").proxies[0].farm.fullconn, 7);
    }

    /// The state of a configuration whose only proxy is a backend with these lines.
    pub(crate) fn backend(lines: &str) -> Arc<Shared> {
        shared(&format!("defaults\n mode http\n timeout connect 1s\n timeout server 1s\nbackend b\n{lines}"))
    }

    pub(crate) fn server(state: &ProxyState, name: &str) -> Arc<ServerState> {
        state.server(name).unwrap_or_else(|| panic!("no server {name}"))
    }

    fn usable(state: &ProxyState) -> Vec<usize> {
        state.layout().picker.servers().collect()
    }

    #[test]
    fn servers_that_start_in_maintenance_do_not_count() {
        let shared = backend(" server a 127.0.0.1:1\n server b 127.0.0.1:2 backup");
        let state = &shared.proxies[0];
        for (name, left) in [("a", 1), ("b", 0)] {
            let server = server(state, name);
            server.standing.start_with(&server, weir_balance::Admin::RESOLUTION_MAINT);
            assert_eq!(state.usable_servers(), left, "{name}");
        }
    }

    #[test]
    fn changes_are_seen_by_the_next_pick() {
        use crate::state::{Health, admin};
        let shared = backend(" server a 127.0.0.1:1\n server b 127.0.0.1:2\n server c 127.0.0.1:3 backup");
        let state = &shared.proxies[0];
        let (a, b) = (server(state, "a"), server(state, "b"));
        assert_eq!((usable(state), state.usable_servers()), (vec![0, 1], 2));
        a.set_health(Health::Down);
        a.changed();
        a.changed();
        assert_eq!((usable(state), state.usable_servers()), (vec![1], 1));
        b.weight.store(0, Relaxed);
        b.changed();
        assert_eq!((usable(state), state.usable_servers()), (vec![2], 1));
        a.set_health(Health::Up);
        a.admin.store(admin::DRAIN, Relaxed);
        a.changed();
        assert_eq!(usable(state), [2]);
        a.admin.store(0, Relaxed);
        a.changed();
        assert_eq!(usable(state), [0]);
        let line = a.config.clone();
        let d = state.add_server(&model::Server { name: "d".into(), id: 9, ..line });
        assert_eq!((usable(state), state.usable_servers()), (vec![0], 1), "it starts in maintenance");
        shared.set_ready(&d);
        assert_eq!((usable(state), state.usable_servers()), (vec![0, 3], 2));
        assert!(Arc::ptr_eq(&server(state, "d"), &d));
        assert!(state.remove_server(&a));
        assert!(!state.remove_server(&a));
        assert_eq!((usable(state), state.usable_servers()), (vec![2], 1));
        assert!(state.server("a").is_none());
    }

    #[test]
    fn servers_are_found() {
        let shared = backend(
            " server a 127.0.0.1:1 cookie x\n server b 127.0.0.1:2 id 7 cookie y\n server c 127.0.0.1:3 cookie x",
        );
        let layout = shared.proxies[0].layout();
        let members = &layout.members;
        let names =
            |value: &[u8]| members.with_cookie(value).map(|s| s.config.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(b"x"), ["a", "c"]);
        assert_eq!(names(b"z"), [""; 0]);
        assert_eq!(members.numbered(7).map(|s| &*s.config.name), Some("b"));
        assert_eq!(members.named("c").map(|s| s.index), Some(2));
        assert!(members.named("d").is_none() && members.numbered(99).is_none());
    }

    #[test]
    fn dynamic_cookies_follow_addresses() {
        let shared = backend(
            " cookie S insert dynamic\n dynamic-cookie-key secret\n server a 127.0.0.1:18912\n server b 127.0.0.1:81 cookie own",
        );
        let state = &shared.proxies[0];
        let a = server(state, "a");
        let cookie = |server: &ServerState| String::from_utf8_lossy(&server.cookie().unwrap()).into_owned();
        let before = cookie(&a);
        assert_eq!((before.as_str(), cookie(&server(state, "b")).as_str()), ("3f61b41a6fcb3926", "own"));
        let target = crate::state::ServerTarget {
            address: Some(weir_net::Address::Ip("127.0.0.2:18912".parse().unwrap())),
            name: None,
        };
        a.set_target(target);
        assert_ne!(cookie(&a), before);
        let layout = state.layout();
        assert!(layout.members.with_cookie(before.as_bytes()).next().is_none());
        assert!(layout.members.with_cookie(cookie(&a).as_bytes()).next().is_some());
    }

    #[test]
    fn a_slow_start_rises_in_steps() {
        use crate::state::Health;
        use weir_balance::Limit;
        let shared = backend(" server a 127.0.0.1:1 slowstart 16s maxconn 32\n server b 127.0.0.1:2");
        let state = &shared.proxies[0];
        let a = server(state, "a");
        assert_eq!((a.ramp(now_ms()), a.limit_now()), (16, Limit::new(32)));
        a.set_health(Health::Down);
        a.changed();
        a.set_health(Health::Up);
        a.changed();
        let now = now_ms();
        assert_eq!((a.ramp(now), a.limit_now()), (1, Limit::new(2)));
        assert_eq!([0, 1000, 8500, 15_999, 16_100].map(|later| a.ramp(now + later)), [1, 2, 9, 16, 16]);
        assert!(state.layout().next_step_ms <= now + 2000);
        // Over.
        assert_eq!(a.next_step_ms(now + 17_000), NEVER);
        assert_eq!(a.limit_now(), Limit::new(32));
    }
}
