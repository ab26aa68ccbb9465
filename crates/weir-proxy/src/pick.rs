//! Which server: persistence first, then the balancing algorithm; and the wait for a free slot.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

use weir_config::model::{Balance, Proxy};
use weir_net::timers::now_ms;

use crate::counters::Counter;
use crate::exchange::{Exchange, Stop};
use crate::state::{ServerState, Shared};

/// A request's place on a server: counted until dropped, then handed to the next in the queues.
pub(crate) struct Held {
    /// The server.
    pub server: Arc<ServerState>,
    shared: Arc<Shared>,
    counted: bool,
}

impl Held {
    /// Counts a request onto a server when its limit allows it.
    fn try_new(shared: &Arc<Shared>, server: &Arc<ServerState>) -> Option<Self> {
        let backend = &shared.config.proxies[server.proxy];
        let load = shared.proxies[server.proxy].back_current.now();
        let limit = server.limit(load, backend.fullconn);
        let served = server.served.enter();
        if limit > 0 && served > limit as i64 {
            server.served.leave();
            return None;
        }
        Some(Self::counted(shared, server))
    }

    fn counted(shared: &Arc<Shared>, server: &Arc<ServerState>) -> Self {
        Self { server: Arc::clone(server), shared: Arc::clone(shared), counted: true }
    }

    /// Forgets the count without giving the place to anybody.
    pub(crate) fn defuse(mut self) {
        self.counted = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !std::mem::take(&mut self.counted) {
            return;
        }
        let backend = &self.shared.proxies[self.server.proxy];
        if self.server.queue.is_empty() && backend.queue.is_empty() {
            self.server.served.leave();
            return;
        }
        let next = Self::counted(&self.shared, &self.server);
        let Some(next) = self.server.queue.hand_over(next) else { return };
        let left = if self.server.is_usable() { backend.queue.hand_over(next) } else { Some(next) };
        if let Some(left) = left {
            left.defuse();
            self.server.served.leave();
        }
    }
}

/// The balancing state of a backend.
#[derive(Debug, Default)]
pub struct Picker {
    next: AtomicUsize,
}

impl Picker {
    /// For a backend's servers.
    #[must_use]
    pub fn new(_proxy: &Proxy, _servers: &[Arc<ServerState>]) -> Self {
        Self::default()
    }

    /// Weights or states changed: the next choice sees them.
    pub fn rebuild(&self, _proxy: &Proxy, _servers: &[Arc<ServerState>]) {}
}

/// Chooses a server and takes a place on it, waiting in a queue when all are taken.
pub(crate) async fn assign(x: &mut Exchange, avoid: Option<&Arc<ServerState>>) -> Result<Held, Stop> {
    let shared = Arc::clone(&x.worker.shared);
    let state = &shared.proxies[x.back];
    let proxy = Arc::clone(&shared.config.proxies[x.back]);
    let persistent = if avoid.is_none() { persistent(x, &proxy) } else { None };
    let entered = now_ms();
    if let Some(server) = persistent {
        if (server.queue.is_empty() || server.config.maxconn == 0)
            && let Some(held) = Held::try_new(&shared, &server)
        {
            return Ok(selected(x, held, entered));
        }
        let (place, before) = server.queue.enter();
        x.txn.server_queue = u32::try_from(before).unwrap_or(u32::MAX);
        return wait_in_queue(x, &proxy, place, entered).await;
    }
    let servers = state.servers.load_full();
    // Newcomers do not overtake those who wait.
    if state.queue.is_empty()
        && let Some(held) = choose(x, &proxy, &shared, &servers, avoid)
    {
        return Ok(selected(x, held, entered));
    }
    if !servers.iter().any(|s| s.is_usable()) {
        x.terminated(b'S', b'C');
        x.count_back(Counter::ConnectErrors, 1);
        return Err(x.error(503));
    }
    let (place, before) = state.queue.enter();
    x.txn.backend_queue = u32::try_from(before).unwrap_or(u32::MAX);
    wait_in_queue(x, &proxy, place, entered).await
}

/// The server that `use-server`, a cookie or a stick table asks for.
fn persistent(x: &mut Exchange, proxy: &Proxy) -> Option<Arc<ServerState>> {
    let state = x.worker.state(x.back);
    for rule in &proxy.use_server {
        if rule.condition.as_ref().is_some_and(|condition| !condition.holds(&x.txn)) {
            continue;
        }
        let server = match &rule.target {
            Ok(index) => state.servers.load().get(*index).cloned(),
            Err(format) => {
                let mut name = Vec::new();
                format.render(&x.txn, &mut name);
                state.server(&String::from_utf8_lossy(&name))
            }
        };
        // HAProxy goes on to the next rule when the server is down.
        if let Some(server) = server.filter(|s| s.is_running() || proxy.options.persist) {
            return Some(server);
        }
    }
    crate::cookie::read(x, proxy);
    x.cookie.server.clone().filter(|s| s.is_running() || proxy.options.persist)
}

fn selected(x: &mut Exchange, held: Held, entered_ms: u64) -> Held {
    x.txn.timers.queue_ms = Some(u32::try_from(now_ms().saturating_sub(entered_ms)).unwrap_or(u32::MAX));
    held.server.count(x.worker.thread, Counter::Selected, 1);
    x.txn.server = Some(Arc::clone(&held.server.config.name));
    x.txn.server_id = held.server.config.id;
    held
}

async fn wait_in_queue(
    x: &mut Exchange,
    proxy: &Proxy,
    mut place: tokio::sync::oneshot::Receiver<Held>,
    entered_ms: u64,
) -> Result<Held, Stop> {
    match proxy.timeouts.queue.or(proxy.timeouts.connect) {
        Some(time) => x.deadline.set_after(time),
        None => x.deadline.clear(),
    }
    let abort = proxy.options.abortonclose;
    enum Wait {
        Got(Held),
        Timeout,
        Gone,
    }
    let outcome = poll_fn(|cx| {
        if let Poll::Ready(held) = Future::poll(Pin::new(&mut place), cx) {
            return Poll::Ready(held.map_or(Wait::Timeout, Wait::Got));
        }
        if x.deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(Wait::Timeout);
        }
        if abort && x.client.poll_gone(cx).is_ready() {
            return Poll::Ready(Wait::Gone);
        }
        Poll::Pending
    })
    .await;
    match outcome {
        Wait::Got(held) => Ok(selected(x, held, entered_ms)),
        Wait::Gone => {
            x.terminated(b'C', b'Q');
            x.count_back(Counter::ClientAborts, 1);
            Err(Stop::Client)
        }
        Wait::Timeout => {
            x.txn.timers.queue_ms =
                Some(u32::try_from(now_ms().saturating_sub(entered_ms)).unwrap_or(u32::MAX));
            x.terminated(b's', b'Q');
            x.count_back(Counter::ConnectErrors, 1);
            Err(x.error(503))
        }
    }
}

/// A place on the server the balancing algorithm prefers among those with room.
fn choose(
    x: &Exchange,
    proxy: &Proxy,
    shared: &Arc<Shared>,
    servers: &[Arc<ServerState>],
    avoid: Option<&Arc<ServerState>>,
) -> Option<Held> {
    let picker = &x.worker.state(x.back).picker;
    let active = |s: &&Arc<ServerState>| s.is_usable() && !s.config.backup;
    let any_active = servers.iter().any(|s| active(&s));
    let fits = |s: &&Arc<ServerState>| {
        s.is_usable() && s.config.backup != any_active && avoid.is_none_or(|a| !Arc::ptr_eq(a, s))
    };
    let mut order: Vec<&Arc<ServerState>> = servers.iter().filter(fits).collect();
    if order.is_empty() {
        order = servers.iter().filter(|s| s.is_usable() && s.config.backup != any_active).collect();
    }
    if !any_active && !proxy.options.allbackups {
        order.truncate(1);
    }
    if order.is_empty() {
        return None;
    }
    match proxy.balance {
        Balance::LeastConn => {
            order.sort_by_key(|s| (s.served.now() + 1) * 256 / i64::from(s.weight.load(Relaxed).max(1)));
        }
        Balance::First => order.sort_by_key(|s| s.config.id),
        _ => {
            let at = picker.next.fetch_add(1, Relaxed) % order.len();
            order.rotate_left(at);
        }
    }
    order.into_iter().find_map(|server| Held::try_new(shared, server))
}
