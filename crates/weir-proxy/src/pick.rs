//! Which server: persistence first, then the balancing algorithm; and the wait for a free slot.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use weir_balance::{Algorithm, Choice, Load, Pick};
use weir_config::model::Proxy;
use weir_net::timers::now_ms;

use crate::balance_key;
use crate::counters::Counter;
use crate::exchange::{Exchange, Stop};
use crate::farm::Layout;
use crate::queue::{Place, Urgency};
use crate::state::{ProxyState, ServerState};

/// Most picks for one request: another one follows when a server changes or fills up in between.
const MAX_PICKS: usize = 4;

/// Most times a request changes queues because its server went down.
const MAX_MOVES: usize = 16;

/// A request's place on a server: counted until dropped, then handed to the next in the queues.
pub(crate) struct Held {
    /// The server.
    pub server: Arc<ServerState>,
    /// Persistence chose it.
    pub(crate) direct: bool,
    counted: bool,
}

impl Held {
    /// Counts a request onto a server when its limit allows it.
    pub(crate) fn try_new(server: &Arc<ServerState>) -> Option<Self> {
        match server.limit_now() {
            0 => {
                server.served.enter();
            }
            limit => {
                if !server.served.enter_below(i64::try_from(limit).unwrap_or(i64::MAX)) {
                    return None;
                }
            }
        }
        Some(Self { server: Arc::clone(server), direct: false, counted: true })
    }

    /// Leaves without looking who waits.
    pub(crate) fn discard(mut self) {
        if std::mem::take(&mut self.counted) {
            self.server.served.leave();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.server.served.leave();
            self.server.dispatch();
        }
    }
}

/// Where a request goes next.
enum Outcome {
    /// There is a slot for it.
    Held(Held),
    /// It waits for one.
    Wait(Place),
    /// No server is usable.
    NoServer,
}

/// Chooses a server and takes a place on it, waiting in a queue when all are taken.
pub(crate) async fn assign(x: &mut Exchange, avoid: Option<&Arc<ServerState>>) -> Result<Held, Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    let mut direct = if avoid.is_none() { persistent(x, &proxy) } else { None };
    let mut entered_ms = None;
    for _ in 0..MAX_MOVES {
        let outcome = direct.take().and_then(|server| queue_for(x, &server));
        let mut place = match outcome.unwrap_or_else(|| balance(x, &proxy, avoid)) {
            Outcome::Held(held) => return Ok(selected(x, held, entered_ms)),
            Outcome::Wait(place) => place,
            Outcome::NoServer => return Err(refused(x, b'C')),
        };
        let entered_ms = *entered_ms.get_or_insert_with(now_ms);
        if let Some(held) = wait(x, &proxy, &mut place, entered_ms).await? {
            return Ok(selected(x, held, Some(entered_ms)));
        }
    }
    Err(refused(x, b'Q'))
}

/// The server that `use-server`, a cookie or a stick table asks for.
fn persistent(x: &mut Exchange, proxy: &Proxy) -> Option<Arc<ServerState>> {
    let by_rule = if proxy.use_server.is_empty() { None } else { by_rule(x, proxy) };
    crate::cookie::read(x, proxy);
    by_rule.or_else(|| x.cookie.server.clone().filter(|server| is_reachable(server, proxy)))
}

/// Persistence may bring requests.
fn is_reachable(server: &ServerState, proxy: &Proxy) -> bool {
    server.is_running() || proxy.options.persist
}

/// `use-server`
fn by_rule(x: &Exchange, proxy: &Proxy) -> Option<Arc<ServerState>> {
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
        if let Some(server) = server.filter(|server| is_reachable(server, proxy)) {
            return Some(server);
        }
    }
    None
}

/// A slot of one server, or a place in its queue; `None` when that is full.
fn queue_for(x: &mut Exchange, server: &Arc<ServerState>) -> Option<Outcome> {
    // Newcomers do not overtake those who wait.
    if server.queue.is_empty()
        && let Some(mut held) = Held::try_new(server)
    {
        held.direct = true;
        return Some(Outcome::Held(held));
    }
    let maxqueue = server.config.maxqueue;
    if maxqueue > 0 && server.queue.len() >= maxqueue {
        return None;
    }
    let (place, before) = server.queue.enter(urgency(x));
    x.txn.server_queue = u32::try_from(before).unwrap_or(u32::MAX);
    // A slot that became free just before has no waiter yet.
    server.dispatch();
    Some(Outcome::Wait(place))
}

/// Who came first is served first.
fn urgency(_x: &Exchange) -> Urgency {
    Urgency { class: 0, at_ms: i64::try_from(now_ms()).unwrap_or(i64::MAX) }
}

/// A slot on the server the algorithm prefers among those with room, or a place in the backend's queue.
fn balance(x: &mut Exchange, proxy: &Proxy, avoid: Option<&Arc<ServerState>>) -> Outcome {
    let worker = Rc::clone(&x.worker);
    let state = worker.state(x.back);
    match choose(x, proxy, state, avoid) {
        Chosen::Held(held) => return Outcome::Held(held),
        Chosen::NoServer => return Outcome::NoServer,
        Chosen::Queue(server) => {
            if let Some(outcome) = queue_for(x, &server) {
                return match outcome {
                    Outcome::Held(mut held) => {
                        held.direct = false;
                        Outcome::Held(held)
                    }
                    other => other,
                };
            }
        }
        Chosen::AllFull => {}
    }
    let (place, before) = state.queue.enter(urgency(x));
    // A slot that became free just before has no waiter yet.
    let layout = state.layout();
    let servers = &layout.members.servers;
    if let Some(free) = layout.picker.servers().find(|&at| !is_full(&servers[at])) {
        servers[free].dispatch();
    }
    x.txn.backend_queue = u32::try_from(before).unwrap_or(u32::MAX);
    Outcome::Wait(place)
}

/// What the algorithm says.
enum Chosen {
    Held(Held),
    /// This server, though it is full.
    Queue(Arc<ServerState>),
    AllFull,
    NoServer,
}

fn is_full(server: &ServerState) -> bool {
    match server.limit_now() {
        0 => false,
        limit => !server.queue.is_empty() || server.served.now() >= limit as i64,
    }
}

/// A server's load for the picker.  `queueing` algorithms fill queues up to `maxqueue`.
fn load_of(server: &ServerState, queueing: bool, with_rate: bool) -> Load {
    let served = u32::try_from(server.served.now()).unwrap_or(0);
    let limit = server.limit_now();
    let maxqueue = server.config.maxqueue;
    let queued = server.queue.len();
    let full = match limit {
        0 => false,
        _ if queueing && maxqueue > 0 => served as usize + queued >= limit + maxqueue,
        _ => queued > 0 || served as usize >= limit,
    };
    Load {
        served,
        queued: u32::try_from(queued).unwrap_or(u32::MAX),
        // A server that just went down may still be in the layout.
        full: full || !server.is_usable(),
        queue_full: maxqueue > 0 && queued >= maxqueue,
        rate: if with_rate { server.rate.per_second(now_ms()) as u32 } else { 0 },
    }
}

/// Picks until a slot is taken or there is none.
fn choose(x: &Exchange, proxy: &Proxy, state: &ProxyState, avoid: Option<&Arc<ServerState>>) -> Chosen {
    let settings = state.picker.settings();
    let hash = match settings.algorithm {
        Algorithm::Hash => balance_key::hash(&proxy.balance, settings.hash_type, &x.txn),
        _ => None,
    };
    let random = match settings.algorithm {
        Algorithm::Random { .. } => x.worker.env.random(),
        _ => 0,
    };
    pick(state, hash, random, avoid)
}

/// As [`choose`], from what the transaction has to say.
fn pick(state: &ProxyState, mut hash: Option<u32>, random: u64, avoid: Option<&Arc<ServerState>>) -> Chosen {
    let algorithm = state.picker.settings().algorithm;
    // Newcomers do not overtake those who wait.
    if hash.is_none() && !state.queue.is_empty() {
        return if state.usable_servers() == 0 { Chosen::NoServer } else { Chosen::AllFull };
    }
    let mut layout = state.layout();
    for _ in 0..MAX_PICKS {
        let choice = pick_from(&layout, state, algorithm, hash, random, avoid);
        let server = match choice {
            Choice::Server(at) => &layout.members.servers[at],
            // Perhaps of a layout that is out of date.
            Choice::AllFull | Choice::NoServer if state.farm.is_outdated() => {
                layout = state.fresh_layout();
                continue;
            }
            Choice::AllFull => return Chosen::AllFull,
            Choice::NoServer => return Chosen::NoServer,
        };
        if !server.is_usable() {
            layout = state.fresh_layout();
            continue;
        }
        let must_wait = !server.queue.is_empty() && server.maxconn.load(Relaxed) > 0;
        if !must_wait && let Some(held) = Held::try_new(server) {
            return Chosen::Held(held);
        }
        let maxqueue = server.config.maxqueue;
        let queue_full = maxqueue > 0 && server.queue.len() >= maxqueue;
        match algorithm {
            // The key belongs to this server.
            Algorithm::Hash if hash.is_some() && !queue_full => return Chosen::Queue(Arc::clone(server)),
            // No room where the key belongs: anywhere else.
            Algorithm::Hash if hash.is_some() => hash = None,
            Algorithm::LeastConn if maxqueue > 0 && !queue_full => return Chosen::Queue(Arc::clone(server)),
            _ => {}
        }
    }
    Chosen::AllFull
}

fn pick_from(
    layout: &Layout,
    state: &ProxyState,
    algorithm: Algorithm,
    hash: Option<u32>,
    random: u64,
    avoid: Option<&Arc<ServerState>>,
) -> Choice {
    let servers = &layout.members.servers[..];
    let takes_turns = match algorithm {
        Algorithm::RoundRobin | Algorithm::StaticRr | Algorithm::LeastConn => true,
        Algorithm::Hash => hash.is_none() || avoid.is_some(),
        Algorithm::First | Algorithm::Random { .. } => false,
    };
    let pick = Pick {
        turn: if takes_turns { state.picker.turn() } else { 0 },
        hash,
        random,
        avoid: avoid.and_then(|avoid| servers.iter().position(|server| Arc::ptr_eq(server, avoid))),
        farm_served: u32::try_from(state.back_current.now()).unwrap_or(0),
    };
    let queueing = algorithm == Algorithm::LeastConn;
    let with_rate = matches!(algorithm, Algorithm::Random { .. });
    layout.picker.pick(&pick, |at| load_of(&servers[at], queueing, with_rate))
}

/// Notes the server in the transaction.
fn selected(x: &mut Exchange, held: Held, entered_ms: Option<u64>) -> Held {
    let waited_ms = entered_ms.map_or(0, |entered_ms| now_ms().saturating_sub(entered_ms));
    let before_ms = x.txn.timers.queue_ms.unwrap_or(0);
    x.txn.timers.queue_ms = Some(before_ms.saturating_add(u32::try_from(waited_ms).unwrap_or(u32::MAX)));
    held.server.count(x.worker.thread, Counter::Selected, 1);
    x.txn.server = Some(Arc::clone(&held.server.config.name));
    x.txn.server_id = held.server.config.id;
    held
}

/// No server will have the request.
fn refused(x: &mut Exchange, stage: u8) -> Stop {
    x.terminated(b'S', stage);
    x.count_back(Counter::ConnectErrors, 1);
    x.error(503)
}

/// Waits for a slot; `None` when the queue was disbanded.
async fn wait(
    x: &mut Exchange,
    proxy: &Proxy,
    place: &mut Place,
    entered_ms: u64,
) -> Result<Option<Held>, Stop> {
    match proxy.timeouts.queue.or(proxy.timeouts.connect) {
        Some(time) => x.deadline.set(entered_ms.saturating_add(time.as_millis() as u64)),
        None => x.deadline.clear(),
    }
    let abort = proxy.options.abortonclose;
    enum Wait {
        Slot(Option<Held>),
        Timeout,
        Gone,
    }
    let outcome = poll_fn(|cx| {
        if let Poll::Ready(held) = place.poll_slot(cx) {
            return Poll::Ready(Wait::Slot(held));
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
        Wait::Slot(held) => Ok(held),
        Wait::Gone => {
            x.terminated(b'C', b'Q');
            x.count_back(Counter::ClientAborts, 1);
            Err(Stop::Client)
        }
        Wait::Timeout => {
            let waited_ms = now_ms().saturating_sub(entered_ms);
            x.txn.timers.queue_ms = Some(u32::try_from(waited_ms).unwrap_or(u32::MAX));
            x.terminated(b's', b'Q');
            x.count_back(Counter::ConnectErrors, 1);
            Err(x.error(503))
        }
    }
}
