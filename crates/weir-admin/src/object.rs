//! What has statistics: the frontends, listeners, servers and backends of a process, in their order.
//!
//! Owns the states that statistics show (`UP 1/3`, `MAINT`, ...); the figures are [`crate::stat`]'s.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::Status;
use weir_config::model::{Bind, BindAddr, Proxy};
use weir_net::timers::now_ms;
use weir_proxy::Shared;
use weir_proxy::state::{ListenerState, ProxyState, ServerState};

/// One line of the statistics.
pub(crate) struct Object<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) proxy: &'a Proxy,
    pub(crate) state: &'a ProxyState,
    pub(crate) part: Part,
    pub(crate) now: Now,
    /// Addresses, cookies and algorithms are shown.
    pub(crate) legends: bool,
}

/// Which part of a proxy a line is about.
#[derive(Clone)]
pub(crate) enum Part {
    Frontend,
    Listener(Arc<Bind>),
    Server(Arc<ServerState>),
    Backend,
}

/// The kinds of parts, as the `type` column and the filters of `show stat` number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Frontend = 0,
    Backend = 1,
    Server = 2,
    Listener = 3,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Frontend, Self::Listener, Self::Backend, Self::Server];

    /// Letter of typed output.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Frontend => 'F',
            Self::Backend => 'B',
            Self::Server => 'S',
            Self::Listener => 'L',
        }
    }

    /// Bit of the type filter.
    pub(crate) fn bit(self) -> i64 {
        1 << self as i64
    }
}

/// The time a report is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Milliseconds of the clock that rates and sessions are kept in.
    pub(crate) ms: u64,
    /// Milliseconds since the start, which changes of state are kept in.
    since_start_ms: u64,
}

impl Now {
    pub(crate) fn of(shared: &Shared) -> Self {
        Self { ms: now_ms(), since_start_ms: shared.now_ms() }
    }

    /// Milliseconds since a change of state.
    pub(crate) fn since_change_ms(self, then_ms: u64) -> u64 {
        self.since_start_ms.saturating_sub(then_ms)
    }

    /// Seconds since a change of state.
    pub(crate) fn seconds_since(self, then_ms: u64) -> u32 {
        u32::try_from(self.since_change_ms(then_ms) / 1000).unwrap_or(u32::MAX)
    }

    /// Seconds since the last session; -1 without any.
    pub(crate) fn since_session(self, then_ms: u64) -> i32 {
        match then_ms {
            u64::MAX => -1,
            then => i32::try_from(self.ms.saturating_sub(then) / 1000).unwrap_or(i32::MAX),
        }
    }
}

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Proxy number (`id`); `None` is all.
    pub(crate) proxy: Option<i64>,
    /// Bits of [`Kind::bit`]; `None` is all.
    pub(crate) kinds: Option<i64>,
    /// Number of a server or listener; `None` is all.
    pub(crate) part: Option<i64>,
    /// Only servers that are up.
    pub(crate) up: bool,
    /// No servers in maintenance.
    pub(crate) no_maint: bool,
    /// Only proxies with this in their name.
    pub(crate) name_part: Option<String>,
    /// Only these proxies (`stats scope`); empty is all.
    pub(crate) scope: Vec<String>,
}

impl Filter {
    /// Whether a proxy is in the scope.
    pub(crate) fn admits(&self, proxy: &Proxy) -> bool {
        let name = || proxy.name.to_ascii_lowercase();
        self.proxy.is_none_or(|id| id == i64::from(proxy.id))
            && (self.scope.is_empty() || self.scope.iter().any(|scope| **scope == *proxy.name))
            && self.name_part.as_ref().is_none_or(|part| name().contains(&part.to_ascii_lowercase()))
    }

    fn wants(&self, object: &Object<'_>) -> bool {
        let kind = object.kind();
        let shown = match &object.part {
            Part::Server(server) => {
                (!self.up || server.is_running()) && !(self.no_maint && server.in_maintenance())
            }
            Part::Frontend | Part::Listener(_) | Part::Backend => true,
        };
        let by_number = |id: i64| match kind {
            Kind::Server | Kind::Listener => id == i64::from(object.number()),
            Kind::Frontend | Kind::Backend => id == 0,
        };
        shown && self.kinds.is_none_or(|kinds| kinds & kind.bit() != 0) && self.part.is_none_or(by_number)
    }
}

/// The lines of the statistics: each proxy's frontend, listeners, servers and backend.
pub(crate) fn objects<'a>(shared: &'a Shared, filter: &'a Filter, legends: bool) -> Vec<Object<'a>> {
    let now = Now::of(shared);
    let mut found = Vec::new();
    for (proxy, state) in shared.config.proxies.iter().zip(&shared.proxies) {
        if proxy.disabled || !filter.admits(proxy) {
            continue;
        }
        let mut add = |part| {
            let object = Object { shared, proxy, state, part, now, legends };
            if filter.wants(&object) {
                found.push(object);
            }
        };
        if proxy.frontend {
            add(Part::Frontend);
            // Listeners are counted one by one only on demand.
            if proxy.options.socket_stats {
                for bind in &proxy.binds {
                    add(Part::Listener(Arc::new(bind.clone())));
                }
            }
        }
        if proxy.backend {
            for server in state.servers.load().iter() {
                add(Part::Server(Arc::clone(server)));
            }
            add(Part::Backend);
        }
    }
    found
}

impl Object<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self.part {
            Part::Frontend => Kind::Frontend,
            Part::Listener(_) => Kind::Listener,
            Part::Server(_) => Kind::Server,
            Part::Backend => Kind::Backend,
        }
    }

    /// The state of the listener, when it is one.
    pub(crate) fn listener(&self) -> Option<&ListenerState> {
        match &self.part {
            Part::Listener(bind) => self.state.listener(bind.id).map(|state| &**state),
            Part::Frontend | Part::Server(_) | Part::Backend => None,
        }
    }

    /// Number inside the proxy; 0 for the proxy's own lines.
    pub(crate) fn number(&self) -> u32 {
        match &self.part {
            Part::Frontend | Part::Backend => 0,
            Part::Listener(bind) => bind.id,
            Part::Server(server) => server.config.id,
        }
    }

    /// `svname`
    pub(crate) fn name(&self) -> String {
        match &self.part {
            Part::Frontend => "FRONTEND".to_owned(),
            Part::Backend => "BACKEND".to_owned(),
            Part::Server(server) => server.config.name.to_string(),
            Part::Listener(bind) => match &bind.name {
                Some(name) => name.to_string(),
                None => format!("sock-{}", bind.id),
            },
        }
    }

    /// `status`
    pub(crate) fn status(&self) -> String {
        match &self.part {
            Part::Frontend | Part::Listener(_) if self.shared.is_stopping() => "STOP".to_owned(),
            Part::Frontend if self.state.disabled.load(Relaxed) => "STOP".to_owned(),
            Part::Frontend => {
                let limit = self.state.front_limit.load(Relaxed);
                let full = self.state.front_current.count() >= limit;
                if full { "FULL" } else { "OPEN" }.to_owned()
            }
            Part::Listener(_) if self.state.disabled.load(Relaxed) => "WAITING".to_owned(),
            Part::Listener(_) => "OPEN".to_owned(),
            Part::Server(server) => server_status(server),
            Part::Backend => if backend_is_up(self.state) { "UP" } else { "DOWN" }.to_owned(),
        }
    }

    /// Where it listens or connects.
    pub(crate) fn address(&self) -> Option<String> {
        match &self.part {
            Part::Server(server) => match server.addr.load().ip() {
                Some(ip) => Some(ip.to_string()),
                None => Some(if server.addr.load().address.is_some() { "unix" } else { "" }.to_owned()),
            },
            Part::Listener(bind) => Some(match &bind.addr {
                BindAddr::Inet(ip) => ip.to_string(),
                BindAddr::Unix(_) | BindAddr::Abstract(_) => "unix".to_owned(),
                BindAddr::Name(name, port) => format!("{name}:{port}"),
                BindAddr::Fd(_) | BindAddr::Reverse(_) => String::new(),
            }),
            Part::Frontend | Part::Backend => None,
        }
    }
}

/// The servers that requests go to: the active ones, or the backup servers when there are none left.
pub(crate) fn in_use(state: &ProxyState) -> Vec<Arc<ServerState>> {
    let servers = state.servers.load();
    let usable = |backup: bool| {
        servers.iter().filter(move |s| s.is_usable() && s.config.backup == backup).cloned().collect()
    };
    let active: Vec<_> = usable(false);
    if active.is_empty() { usable(true) } else { active }
}

/// A backend without servers needs none (redirects, statistics).
pub(crate) fn backend_is_up(state: &ProxyState) -> bool {
    state.servers.load().is_empty() || state.usable_servers() > 0
}

/// The state of a server, in the words of the statistics.
pub(crate) fn server_status(server: &ServerState) -> String {
    let machine = server.standing();
    let tracked = server.config.track.as_deref();
    match (machine.status(), tracked) {
        (Status::MaintVia, Some(tracked)) => format!("MAINT (via {tracked})"),
        (status, _) => status.to_string(),
    }
}
