//! The rules' view of the process around a transaction.

use std::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use weir_config::model::Proxy;
use weir_rules::Txn;
use weir_rules::Value;
use weir_rules::facts::vars::{VarAccount, bytes_of};
use weir_rules::facts::{Environment, ErrorPage, Figure, LogOrigin, Marking, Session, StickTable, TcpFigure};

use crate::finish::errors;
use crate::log::{self, Logger};
use crate::state::process_vars::MAX_PROC_VARS;
use crate::state::stick_track;
use crate::state::{ProxyState, ServerState, Shared};

/// Answers from the shared state.
pub(crate) struct WorkerEnvironment {
    shared: Arc<Shared>,
    /// The tables by their indexes, ready to be lent out.
    tables: Vec<Rc<dyn StickTable>>,
    /// Number of the thread it is used on.
    thread: usize,
    /// Its thread's, where that has one.
    logger: OnceCell<Weak<Logger>>,
    /// State of the random number generator (xorshift64*): for balancing and samples, not for secrets.
    random: Cell<u64>,
}

impl WorkerEnvironment {
    pub(crate) fn new(shared: &Arc<Shared>, thread: usize) -> Self {
        let seed = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64) | 1;
        let worker_seed = std::ptr::from_ref(&seed) as u64;
        Self {
            shared: Arc::clone(shared),
            thread,
            tables: stick_track::handles(&shared.tables),
            logger: OnceCell::new(),
            random: Cell::new(seed ^ worker_seed.rotate_left(32)),
        }
    }

    /// Lets rules make log lines.
    pub(crate) fn attach(&self, logger: &Rc<Logger>) {
        // Attached once, by its worker.
        let _attached = self.logger.set(Rc::downgrade(logger));
    }

    fn back(&self, name: &str) -> Option<usize> {
        self.shared.proxy_index(name, true)
    }

    /// A figure of a proxy, as a backend or as a frontend.
    fn figure(&self, index: usize, back: bool, figure: Figure) -> Option<i64> {
        let now = self.now_ms();
        let state = &self.shared.proxies[index];
        let config = &self.shared.config.proxies[index];
        let servers = state.servers.load();
        let queued = || (state.queue.len() + servers.iter().map(|s| s.queue.len()).sum::<usize>()) as i64;
        Some(match figure {
            Figure::UsableServers => taking_part(state, config).len() as i64,
            Figure::Connections if back => state.back_current.now(),
            Figure::Connections => state.front_current.now(),
            Figure::ConnectionRate => state.connection_rate.per_second(now) as i64,
            Figure::SessionRate if back => state.backend_rate.per_second(now) as i64,
            Figure::SessionRate => state.session_rate.per_second(now) as i64,
            Figure::RequestRate => state.request_rate.per_second(now) as i64,
            Figure::Queued => queued(),
            Figure::FreeSlots => sum_unless_unlimited(servers.iter().filter(|s| s.is_running()), slots_left),
            // Manual, "avg_queue": twice what is queued where nobody is there to serve it.
            Figure::AverageQueue => match taking_part(state, config).len() as i64 {
                0 => queued() * 2,
                active => (queued() + active - 1) / active,
            },
            Figure::IdleConnections => servers.iter().map(|s| s.idle.load(Relaxed) as i64).sum(),
            Figure::UsedConnections => servers.iter().map(|s| s.served.now()).sum(),
            Figure::TotalWeight => {
                taking_part(state, config).iter().map(|s| i64::from(s.weight.load(Relaxed))).sum()
            }
            Figure::IsUp => i64::from(state.usable_servers() > 0 || servers.is_empty()),
            Figure::Weight | Figure::InitialWeight | Figure::UserWeight => return None,
            Figure::MaxConnections => state.front_limit.load(Relaxed) as i64,
            Figure::FreeConnections => sum_unless_unlimited(&taking_part(state, config), connections_left),
            Figure::ServerTimeout => millis(config.timeouts.server)?,
            Figure::TunnelTimeout => millis(config.timeouts.tunnel)?,
            Figure::ConnectTimeout => millis(config.timeouts.connect)?,
            Figure::QueueTimeout => millis(config.timeouts.queue)?,
            Figure::ClientTimeout => millis(config.timeouts.client)?,
            Figure::TarpitTimeout => millis(config.timeouts.tarpit)?,
            Figure::Retries => i64::from(config.retries),
            Figure::Id => i64::from(config.id),
        })
    }
}

fn millis(time: Option<std::time::Duration>) -> Option<i64> {
    time.map(|time| time.as_millis() as i64)
}

/// The servers that requests go to: the active ones, or without any the first backup, or all of them.
fn taking_part(state: &ProxyState, config: &Proxy) -> Vec<Arc<ServerState>> {
    let servers = state.servers.load();
    let usable =
        |backup: bool| servers.iter().filter(move |s| s.is_usable() && s.config.backup == backup).cloned();
    let active: Vec<_> = usable(false).collect();
    match (active.is_empty(), config.options.allbackups) {
        (false, _) => active,
        (true, true) => usable(true).collect(),
        (true, false) => usable(true).take(1).collect(),
    }
}

/// What servers have left together; -1 where one of them has no limit.
fn sum_unless_unlimited<'a>(
    servers: impl IntoIterator<Item = &'a Arc<ServerState>>,
    left: fn(&ServerState) -> Option<i64>,
) -> i64 {
    servers.into_iter().map(|server| left(server)).sum::<Option<i64>>().unwrap_or(-1)
}

/// Connections that a server may have beside those that it has.
fn connections_left(server: &ServerState) -> Option<i64> {
    let limit = server.limit_now().most()?;
    Some((limit as i64 - server.served.now()).max(0))
}

/// Connections and places in its queue that a server has left (manual, "connslots").
fn slots_left(server: &ServerState) -> Option<i64> {
    let (maxconn, maxqueue) = (server.maxconn.load(Relaxed).most()?, server.config.maxqueue.most()?);
    Some((maxconn + maxqueue) as i64 - server.served.now() - server.queue.len() as i64)
}

impl Environment for WorkerEnvironment {
    fn proxy_figure(&self, proxy: &str, figure: Figure) -> Option<i64> {
        match self.back(proxy) {
            Some(index) => self.figure(index, true, figure),
            None => self.frontend_figure(proxy, figure),
        }
    }

    fn frontend_figure(&self, frontend: &str, figure: Figure) -> Option<i64> {
        self.figure(self.shared.proxy_index(frontend, false)?, false, figure)
    }

    fn server_figure(&self, backend: &str, server: &str, figure: Figure) -> Option<i64> {
        let server = self.shared.proxies[self.back(backend)?].server(server)?;
        Some(match figure {
            Figure::Connections => server.served.now(),
            Figure::SessionRate | Figure::ConnectionRate | Figure::RequestRate => {
                server.rate.per_second(self.now_ms()) as i64
            }
            Figure::Queued | Figure::AverageQueue => server.queue.len() as i64,
            Figure::FreeSlots => slots_left(&server).unwrap_or(-1),
            Figure::IdleConnections => server.idle.load(Relaxed) as i64,
            Figure::UsedConnections => server.served.now(),
            Figure::IsUp | Figure::UsableServers => i64::from(server.is_running()),
            Figure::Weight | Figure::UserWeight | Figure::TotalWeight => {
                i64::from(server.weight.load(Relaxed))
            }
            Figure::InitialWeight => i64::from(server.config.weight),
            Figure::MaxConnections => server.maxconn.load(Relaxed).or_zero() as i64,
            Figure::FreeConnections => connections_left(&server).unwrap_or(-1),
            Figure::Id => i64::from(server.config.id),
            Figure::ServerTimeout
            | Figure::TunnelTimeout
            | Figure::ConnectTimeout
            | Figure::QueueTimeout
            | Figure::ClientTimeout
            | Figure::TarpitTimeout
            | Figure::Retries => return None,
        })
    }

    fn now_ms(&self) -> u64 {
        weir_net::timers::now_ms()
    }

    fn wall_us(&self) -> u64 {
        SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_micros() as u64)
    }

    fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    fn pid(&self) -> u32 {
        self.shared.pid
    }

    fn thread(&self) -> u32 {
        self.thread as u32
    }

    fn threads(&self) -> u32 {
        self.shared.threads as u32
    }

    fn process(&self) -> (u32, u32, bool) {
        let shared = &self.shared;
        let rate = shared.connection_rate.per_second(self.now_ms());
        (shared.connections.load(Relaxed) as u32, rate as u32, shared.is_stopping())
    }

    fn proc_var(&self, name: &[u8]) -> Option<Value<'static>> {
        let vars = self.shared.proc_vars.lock().unwrap_or_else(PoisonError::into_inner);
        vars.iter().find(|(n, _)| &**n == name).map(|(_, v)| v.clone())
    }

    fn set_proc_var(&self, name: &[u8], value: Option<Value<'static>>) {
        let mut vars = self.shared.proc_vars.lock().unwrap_or_else(PoisonError::into_inner);
        let at = vars.iter().position(|(known, _)| **known == *name);
        let old = at.map_or(0, |at| bytes_of(&vars.swap_remove(at).1));
        let mut new = 0;
        if let Some(value) = value
            && vars.len() < MAX_PROC_VARS
        {
            new = bytes_of(&value);
            vars.push((name.into(), value));
        }
        if let Some(account) = &self.shared.var_account {
            account.change(old, new);
        }
    }

    fn var_account(&self) -> Option<&Arc<VarAccount>> {
        self.shared.var_account.as_ref()
    }

    fn table(&self, index: usize) -> Option<Rc<dyn StickTable>> {
        self.tables.get(index).cloned()
    }

    fn unique_id(&self, txn: &Txn) -> Option<Box<[u8]>> {
        let front = &self.shared.config.proxies[txn.session.frontend.index];
        let mut id = Vec::new();
        front.unique_id_format.as_ref()?.render(txn, &mut id);
        Some(id.into())
    }

    fn error_page(&self, txn: &Txn, status: u16) -> ErrorPage {
        let front = txn.session.frontend.index;
        let back = txn.backend.as_ref().map_or(front, |backend| backend.index);
        match errors::custom(&self.shared.config, front, back, status, txn) {
            errors::Custom::Page(reply) => ErrorPage::Reply(Box::new(reply)),
            errors::Custom::Silent => ErrorPage::Silent,
            errors::Custom::None => ErrorPage::Default,
        }
    }

    fn source_file(&self, file: u32) -> Option<&str> {
        self.shared.config.sources.get(file as usize).map(|name| &**name)
    }

    fn tcp_figure(&self, txn: &Txn, server: bool, figure: TcpFigure) -> Option<i64> {
        let number = if server { txn.server_socket } else { txn.session.socket.get() };
        let info = weir_net::kernel::tcp_info_of(number?).ok()?;
        Some(match figure {
            TcpFigure::Rtt => info.rtt.as_micros() as i64,
            TcpFigure::RttVar => info.rtt_variance.as_micros() as i64,
            TcpFigure::Unacked => i64::from(info.unacked),
            TcpFigure::Sacked => i64::from(info.sacked),
            TcpFigure::Lost => i64::from(info.lost),
            TcpFigure::Retrans => i64::from(info.retransmits),
            TcpFigure::Fackets => i64::from(info.fackets),
            TcpFigure::Reordering => i64::from(info.reordering),
        })
    }

    fn log(&self, txn: &Txn, origin: LogOrigin, profile: Option<&str>) {
        let Some(logger) = self.logger.get().and_then(Weak::upgrade) else { return };
        let config = &self.shared.config;
        let profile = profile.and_then(|name| config.log_profiles.get(name));
        let front = &config.proxies[txn.session.frontend.index];
        log::transaction_by(profile.map(|profile| &**profile), &logger, front, txn, origin);
    }

    fn saved_syn(&self, session: &Session) -> Option<Vec<u8>> {
        let packet = weir_net::kernel::saved_syn_of(session.socket.get()?).ok()?;
        (!packet.is_empty()).then_some(packet)
    }

    fn mark_client(&self, session: &Session, marking: Marking) {
        let Some(number) = session.socket.get() else { return };
        // Needs rights, and sense only on TCP: traffic that goes unmarked is better than none.
        let _marked = match marking {
            Marking::Mark(mark) => weir_net::kernel::set_mark_of(number, mark),
            Marking::Tos(tos) => weir_net::kernel::set_tos_of(number, tos),
        };
    }

    fn uptime(&self) -> u64 {
        self.shared.started.elapsed().as_secs()
    }

    fn default_backend(&self, frontend: &str) -> Option<Arc<str>> {
        let index = self.shared.proxy_index(frontend, false)?;
        let backend = self.shared.config.proxies[index].default_backend?;
        Some(Arc::clone(&self.shared.config.proxies[backend].name))
    }

    fn log_uri_bytes(&self) -> usize {
        self.shared.config.global.tune.http_logurilen
    }

    fn log_counter(&self, proxy: usize) -> u32 {
        self.shared.proxies[proxy].log_counter.fetch_add(1, Relaxed)
    }

    fn table_index(&self, name: &str) -> Option<usize> {
        self.shared.tables.index(name)
    }
}
