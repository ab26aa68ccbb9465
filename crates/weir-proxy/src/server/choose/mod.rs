//! Which server: persistence first, then the balancing algorithm; and the wait for a free slot.

pub(crate) mod cookie;
pub(crate) mod key;
pub(crate) mod stick;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::Poll;
use std::time::Duration;

use weir_balance::{Algorithm, Choice, Load, Pick};
use weir_config::model::Proxy;
use weir_net::timers::{now_ms, now_us};
use weir_rules::Condition;

use crate::exchange::{Exchange, Stop, ms_between};
use crate::forward;
use crate::plan::Work;
use crate::state::counters::Counter;
use crate::state::farm::Layout;
use crate::state::queue::{Place, Urgency};
use crate::state::{ProxyState, ServerState};

/// Most picks for one request: another one follows when a server changes or fills up in between.
const MAX_PICKS: usize = 4;

/// Most times a request changes queues because its server went down.
const MAX_MOVES: usize = 16;

/// A request's place on a server: counted until dropped, then handed to the next in the queues.
pub(crate) struct Held {
    /// The server.
    pub(crate) server: Arc<ServerState>,
    /// Persistence chose it.
    pub(crate) direct: bool,
    counted: bool,
}

impl Held {
    /// Counts a request onto a server when its limit allows it.
    pub(crate) fn try_new(server: &Arc<ServerState>) -> Option<Self> {
        let counted = server.served.enter_below(server.limit_now());
        counted.then(|| Self { server: Arc::clone(server), direct: false, counted })
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
            // Nobody waits for a server without a limit: its queue is not even looked at.
            let own = self.server.maxconn.load(Acquire).is_set() && !self.server.queue.is_empty();
            if own || !self.server.farm.queue.is_empty() {
                self.server.dispatch();
            }
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
    let persists = avoid.is_none() && proxy.work.has(Work::PERSISTENCE);
    let direct = if persists { persistent(x, &proxy) } else { None };
    settle(x, &proxy, direct, avoid).await
}

/// A place on the server that is wanted, or on one that the algorithm chooses.
async fn settle(
    x: &mut Exchange,
    proxy: &Proxy,
    direct: Option<Arc<ServerState>>,
    avoid: Option<&Arc<ServerState>>,
) -> Result<Held, Stop> {
    match place(x, proxy, direct, avoid) {
        (Outcome::Held(held), balanced) => {
            count_choice(x, &held, balanced);
            Ok(selected(x, held, None))
        }
        // On the heap: a request that need not wait has no room for it.
        (outcome, balanced) => Box::pin(queue(x, proxy, outcome, balanced, avoid)).await,
    }
}

/// Where a request goes next, and whether it was the algorithm that said so.
fn place(
    x: &mut Exchange,
    proxy: &Proxy,
    direct: Option<Arc<ServerState>>,
    avoid: Option<&Arc<ServerState>>,
) -> (Outcome, bool) {
    let outcome = direct.and_then(|server| queue_for(x, &server));
    let balanced = outcome.is_none();
    (outcome.unwrap_or_else(|| balance(x, proxy, avoid)), balanced)
}

/// Waits in queues until there is a place.
async fn queue(
    x: &mut Exchange,
    proxy: &Proxy,
    mut outcome: Outcome,
    mut balanced: bool,
    avoid: Option<&Arc<ServerState>>,
) -> Result<Held, Stop> {
    let entered_us = now_us();
    for _ in 0..MAX_MOVES {
        let held = match outcome {
            Outcome::Held(held) => Some(held),
            Outcome::Wait(mut place) => wait(x, proxy, &mut place, entered_us).await?,
            Outcome::NoServer => return Err(refused(x, b'C')),
        };
        if let Some(held) = held {
            count_choice(x, &held, balanced);
            return Ok(selected(x, held, Some(entered_us)));
        }
        (outcome, balanced) = place(x, proxy, None, avoid);
    }
    Err(refused(x, b'Q'))
}

/// `lbtot`: what the algorithm chose, rather than a cookie, a table, a rule or the try before.
fn count_choice(x: &Exchange, held: &Held, balanced: bool) {
    if balanced {
        held.server.count(x.worker.thread, Counter::Selected, 1);
        x.count_back(Counter::Selected, 1);
    }
}

/// The next try of a request: a place on the server it was on, or on another one once that is down.
pub(crate) async fn assign_again(
    x: &mut Exchange,
    server: &Arc<ServerState>,
    direct: bool,
) -> Result<Held, Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    let stays = server.is_running() || direct && (proxy.options.persist || !server.farm.redispatch);
    let again = stays.then(|| Arc::clone(server));
    let mut held = settle(x, &proxy, again, None).await?;
    held.direct &= direct;
    Ok(held)
}

/// What persistence may do for a request.
#[derive(Clone, Copy)]
struct Persistence {
    /// `ignore-persist`: what the client says is not looked at.
    ignored: bool,
    /// `option persist`, `force-persist`: servers that are down are asked all the same.
    even_down: bool,
}

impl Persistence {
    fn of(x: &Exchange, proxy: &Proxy) -> Self {
        let any = |conditions: &[Condition]| conditions.iter().any(|condition| condition.holds(&x.txn));
        Self {
            ignored: any(&proxy.ignore_persist),
            even_down: proxy.options.persist || any(&proxy.force_persist),
        }
    }

    fn reaches(self, server: &ServerState) -> bool {
        server.is_running() || self.even_down
    }
}

/// The server that `use-server`, a cookie or a stick table asks for.
fn persistent(x: &mut Exchange, proxy: &Proxy) -> Option<Arc<ServerState>> {
    let rules = Persistence::of(x, proxy);
    let by_rule = if proxy.use_server.is_empty() { None } else { by_rule(x, proxy, rules) };
    crate::server::choose::cookie::read(x, proxy);
    let by_cookie = || x.cookie.server.clone().filter(|server| !rules.ignored && rules.reaches(server));
    let chosen = by_rule.or_else(by_cookie);
    let chosen = if proxy.stick_rules.is_empty() { chosen } else { by_table(x, proxy, rules, chosen) };
    let chosen = chosen.or_else(|| if rules.ignored { None } else { by_rdp_cookie(x, proxy, rules) });
    chosen.or_else(|| if proxy.options.prefer_last_server { last_server(x, proxy) } else { None })
}

/// `option prefer-last-server`: the server of the connection's last request, unless its queue is too long.
fn last_server(x: &Exchange, proxy: &Proxy) -> Option<Arc<ServerState>> {
    let (backend, id) = x.txn.session.last_server.get()?;
    let backend = backend as usize;
    let layout = x.worker.state(x.back).layout();
    let server = layout.members.numbered(id).filter(|server| backend == x.back && server.is_usable())?;
    let waiting = usize::try_from(proxy.max_keep_alive_queue);
    let admitted = !is_full(server) || waiting.map_or(true, |most| server.queue.len() < most);
    admitted.then(|| Arc::clone(server))
}

/// `stick match`, `stick on`: the keys to store are noted whoever chose the server.
fn by_table(
    x: &mut Exchange,
    proxy: &Proxy,
    rules: Persistence,
    chosen: Option<Arc<ServerState>>,
) -> Option<Arc<ServerState>> {
    let (found, stores) = {
        let layout = x.worker.state(x.back).layout();
        let fits = |server: &ServerState| rules.reaches(server);
        stick::request(&x.worker.shared, proxy, x.back, &x.txn, &layout.members, fits)
    };
    x.stick = stores;
    chosen.or(found)
}

/// `persist rdp-cookie`: the cookie that a terminal server gave out names an address and a port.
fn by_rdp_cookie(x: &Exchange, proxy: &Proxy, rules: Persistence) -> Option<Arc<ServerState>> {
    let value = key::rdp_cookie(&x.txn.request_body, proxy.persist_rdp_cookie.as_ref()?)?;
    let address = key::rdp_address(value)?;
    let servers = x.worker.state(x.back).servers.load();
    let mut found = servers.iter().filter(|server| server.addr.load().ip() == Some(address));
    found.find(|server| rules.reaches(server)).cloned()
}

/// `use-server`
fn by_rule(x: &Exchange, proxy: &Proxy, rules: Persistence) -> Option<Arc<ServerState>> {
    let state = x.worker.state(x.back);
    for rule in &proxy.use_server {
        if rule.condition.as_ref().is_some_and(|condition| !condition.holds(&x.txn)) {
            continue;
        }
        let server = match &rule.target {
            // Not its place in the list: servers before it may have been removed.
            Ok(index) => state.server(&proxy.servers[*index].name),
            Err(format) => {
                let mut name = Vec::new();
                format.render(&x.txn, &mut name);
                state.server(&String::from_utf8_lossy(&name))
            }
        };
        // HAProxy goes on to the next rule when the server is down.
        if let Some(server) = server.filter(|server| rules.reaches(server)) {
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
    if server.config.maxqueue.reached(server.queue.len()) {
        return None;
    }
    let (place, before) = server.queue.enter(urgency(x));
    x.txn.server_queue = u32::try_from(before).unwrap_or(u32::MAX);
    // A slot that became free just before has no waiter yet.
    server.dispatch();
    Some(Outcome::Wait(place))
}

/// Who came first is served first, unless rules set a priority.
fn urgency(x: &Exchange) -> Urgency {
    let now = i64::try_from(now_ms()).unwrap_or(i64::MAX);
    Urgency { class: x.txn.priority_class, at_ms: now.saturating_add(i64::from(x.txn.priority_offset)) }
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
    let limit = server.limit_now();
    limit.is_set() && (!server.queue.is_empty() || limit.reached(server.served.count()))
}

/// A server's load for the picker.  `queueing` algorithms fill queues up to `maxqueue`.
fn load_of(server: &ServerState, queueing: bool, with_rate: bool) -> Load {
    let served = u32::try_from(server.served.now()).unwrap_or(0);
    let limit = server.limit_now();
    let maxqueue = server.config.maxqueue;
    // Nobody waits for a server without a limit.
    let queued = if limit.is_set() { server.queue.len() } else { 0 };
    let full = match (limit.most(), maxqueue.most()) {
        (None, _) => false,
        (Some(limit), Some(maxqueue)) if queueing => served as usize + queued >= limit + maxqueue,
        (Some(limit), _) => queued > 0 || served as usize >= limit,
    };
    Load {
        served,
        queued: u32::try_from(queued).unwrap_or(u32::MAX),
        // A server that just went down may still be in the layout.
        full: full || !server.is_usable(),
        queue_full: maxqueue.reached(queued),
        rate: if with_rate { server.rate.per_second(now_ms()) as u32 } else { 0 },
    }
}

/// Picks until a slot is taken or there is none.
fn choose(x: &Exchange, proxy: &Proxy, state: &ProxyState, avoid: Option<&Arc<ServerState>>) -> Chosen {
    let settings = state.picker.settings();
    let hash = key::hash(&proxy.balance_key, settings.hash_type, &x.txn);
    let random = if settings.algorithm.needs_random() { x.worker.env.random() } else { 0 };
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
        let must_wait = !server.queue.is_empty() && server.maxconn.load(Relaxed).is_set();
        if !must_wait && let Some(held) = Held::try_new(server) {
            return Chosen::Held(held);
        }
        let maxqueue = server.config.maxqueue;
        let queue_full = maxqueue.reached(server.queue.len());
        match hash {
            // The key belongs to this server.
            Some(_) if !queue_full => return Chosen::Queue(Arc::clone(server)),
            // No room where the key belongs: anywhere else.
            Some(_) => hash = None,
            None if algorithm.queues() && maxqueue.is_set() && !queue_full => {
                return Chosen::Queue(Arc::clone(server));
            }
            None => {}
        }
    }
    Chosen::AllFull
}

/// A server for something that takes no place on it.
pub(crate) fn server(state: &ProxyState, hash: Option<u32>, random: u64) -> Option<Arc<ServerState>> {
    match pick(state, hash, random, None) {
        Chosen::Held(held) => Some(Arc::clone(&held.server)),
        Chosen::Queue(server) => Some(server),
        Chosen::AllFull | Chosen::NoServer => None,
    }
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
    // Without its key, or without the server that the key belongs to, a request takes a turn.
    let leaves_key = algorithm.hashes() && (hash.is_none() || avoid.is_some());
    let takes_turns = algorithm.takes_turns() || leaves_key;
    let pick = Pick {
        turn: if takes_turns { state.picker.turn() } else { 0 },
        hash,
        random,
        avoid: avoid.and_then(|avoid| servers.iter().position(|server| Arc::ptr_eq(server, avoid))),
        farm_served: u32::try_from(state.back_current.now()).unwrap_or(0),
    };
    let (queueing, with_rate) = (algorithm.queues(), algorithm.needs_random());
    layout.picker.pick(&pick, |at| load_of(&servers[at], queueing, with_rate))
}

/// Notes the server in the transaction.
fn selected(x: &mut Exchange, held: Held, entered_us: Option<u64>) -> Held {
    let waited_ms = entered_us.map_or(0, |entered_us| ms_between(entered_us, now_us()));
    let before_ms = x.txn.timers.queue_ms.unwrap_or(0);
    x.txn.timers.queue_ms = Some(before_ms.saturating_add(waited_ms));
    x.txn.server = Some(Arc::clone(&held.server.config.name));
    x.txn.server_id = held.server.config.id;
    x.place.on_server(held.server.config.id);
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
    entered_us: u64,
) -> Result<Option<Held>, Stop> {
    let set = x.txn.set_other_timeouts[1].map(|ms| Duration::from_millis(ms.into()));
    match set.or(proxy.timeouts.queue).or(proxy.timeouts.connect) {
        Some(time) => x.deadline.set((entered_us / 1000).saturating_add(time.as_millis() as u64)),
        None => x.deadline.clear(),
    }
    let abort = forward::aborts_on_close(proxy);
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
            x.txn.timers.queue_ms = Some(ms_between(entered_us, now_us()));
            x.terminated(b'C', b'Q');
            x.count_back(Counter::ClientAborts, 1);
            Err(Stop::Client)
        }
        Wait::Timeout => {
            x.txn.timers.queue_ms = Some(ms_between(entered_us, now_us()));
            x.terminated(b's', b'Q');
            x.count_back(Counter::ConnectErrors, 1);
            Err(x.error(503))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::{backend, server};
    use crate::state::{Health, Shared};
    use std::collections::BTreeMap;
    use std::task::{Context, Waker};

    /// Names of the servers that so many picks in a row chose; slots are kept when `keep`.
    fn picks(shared: &Shared, count: usize, hash: Option<u32>, kept: Option<&mut Vec<Held>>) -> String {
        let state = &shared.proxies[0];
        let mut held = Vec::new();
        let names = (0..count).map(|turn| match pick(state, hash, turn as u64, None) {
            Chosen::Held(slot) => {
                let name = slot.server.config.name.to_string();
                if kept.is_some() {
                    held.push(slot);
                }
                name
            }
            Chosen::Queue(server) => format!("({})", server.config.name),
            Chosen::AllFull => "-".to_owned(),
            Chosen::NoServer => "!".to_owned(),
        });
        let names = names.collect();
        if let Some(kept) = kept {
            kept.append(&mut held);
        }
        names
    }

    fn set_health(shared: &Shared, name: &str, health: Health) {
        let server = server(&shared.proxies[0], name);
        server.set_health(health);
        server.changed();
    }

    fn slot(place: &mut Place) -> Poll<Option<Held>> {
        place.poll_slot(&mut Context::from_waker(Waker::noop()))
    }

    fn now(class: i32) -> Urgency {
        Urgency { class, at_ms: 0 }
    }

    #[test]
    fn algorithms_choose() {
        let check = |lines: &str, count: usize, expected: &str| {
            let shared = backend(lines);
            assert_eq!(picks(&shared, count, None, Some(&mut Vec::new())), expected, "{lines}");
        };
        let three = " server a 127.0.0.1:1 maxconn 2\n server b 127.0.0.1:2 maxconn 2\n server c 127.0.0.1:3 maxconn 2";
        check(&format!(" balance roundrobin\n{three}"), 7, "abcabc-");
        check(&format!(" balance static-rr\n{three}"), 7, "abcabc-");
        check(&format!(" balance leastconn\n{three}"), 7, "abcabc-");
        check(&format!(" balance first\n{three}"), 7, "aabbcc-");
        check(" balance leastconn\n server a 127.0.0.1:1 maxconn 1 maxqueue 1", 2, "a(a)");
        check(" balance roundrobin\n server a 127.0.0.1:1 weight 2\n server b 127.0.0.1:2", 6, "aabaab");
        check(" balance roundrobin\n server a 127.0.0.1:1 backup\n server b 127.0.0.1:2 backup", 3, "aaa");
        check(
            " balance roundrobin\n option allbackups\n server a 127.0.0.1:1 backup\n server b 127.0.0.1:2 backup",
            3,
            "aba",
        );
        check(" balance roundrobin\n server a 127.0.0.1:1 disabled", 1, "!");
    }

    #[test]
    fn a_key_waits_where_it_belongs() {
        let lines =
            " balance source\n server a 127.0.0.1:1 maxconn 1 maxqueue 1\n server b 127.0.0.1:2 maxconn 1";
        let shared = backend(lines);
        let mut kept = Vec::new();
        assert_eq!(picks(&shared, 2, Some(0), Some(&mut kept)), "a(a)");
        let a = server(&shared.proxies[0], "a");
        let _place = a.queue.enter(now(0));
        // No room in its queue either: to another one.
        assert_eq!(picks(&shared, 2, Some(0), Some(&mut kept)), "b-");
        assert_eq!(picks(&shared, 1, Some(1), Some(&mut kept)), "(b)");
    }

    #[test]
    fn servers_that_go_down_are_not_chosen() {
        let shared = backend(
            " balance roundrobin\n server a 127.0.0.1:1\n server b 127.0.0.1:2\n server c 127.0.0.1:3",
        );
        set_health(&shared, "b", Health::Down);
        assert_eq!(picks(&shared, 4, None, None), "acac");
        set_health(&shared, "a", Health::Stopping);
        set_health(&shared, "c", Health::Down);
        assert_eq!(picks(&shared, 1, None, None), "!");
        set_health(&shared, "b", Health::Up);
        assert_eq!(picks(&shared, 2, None, None), "bb");
    }

    #[test]
    fn the_failed_server_is_avoided() {
        let check = |lines: &str, hash: Option<u32>, expected: &str| {
            let shared = backend(lines);
            let state = &shared.proxies[0];
            let avoid = server(state, "a");
            let Chosen::Held(held) = pick(state, hash, 1, Some(&avoid)) else { panic!("{lines}") };
            assert_eq!(&*held.server.config.name, expected, "{lines}");
        };
        let two = " server a 127.0.0.1:1\n server b 127.0.0.1:2";
        for algorithm in ["roundrobin", "static-rr", "leastconn", "first", "random", "source"] {
            check(&format!(" balance {algorithm}\n{two}"), Some(0), "b");
            check(&format!(" balance {algorithm}\n server a 127.0.0.1:1"), Some(0), "a");
        }
    }

    #[test]
    fn a_slot_goes_to_the_first_who_waits() {
        let shared = backend(" server a 127.0.0.1:1 maxconn 1");
        let state = &shared.proxies[0];
        let a = server(state, "a");
        let held = Held::try_new(&a).unwrap();
        assert!(Held::try_new(&a).is_none());
        let (mut late, before) = state.queue.enter(now(1));
        assert_eq!(before, 0);
        let (mut first, before) = state.queue.enter(now(0));
        assert_eq!(before, 0);
        let (gone, before) = state.queue.enter(now(0));
        assert_eq!((before, state.queue.len(), state.queue.max()), (1, 3, 3));
        // Newcomers queue up.
        assert_eq!(picks(&shared, 1, None, None), "-");
        drop(gone);
        drop(held);
        assert!(slot(&mut late).is_pending());
        let Poll::Ready(Some(held)) = slot(&mut first) else { panic!("no slot") };
        drop(first);
        // The server's own queue and the backend's: who came first.
        let (mut own, _) = a.queue.enter(now(0));
        drop(held);
        assert!(slot(&mut late).is_pending());
        let Poll::Ready(Some(held)) = slot(&mut own) else { panic!("no slot") };
        drop(held);
        assert!(matches!(slot(&mut late), Poll::Ready(Some(_))));
        assert_eq!((a.served.now(), state.queue.len()), (0, 0));
    }

    #[test]
    fn an_unwanted_slot_goes_on() {
        let shared = backend(" server a 127.0.0.1:1 maxconn 1");
        let state = &shared.proxies[0];
        let a = server(state, "a");
        let held = Held::try_new(&a).unwrap();
        let (first, _) = state.queue.enter(now(0));
        let (mut second, _) = state.queue.enter(now(0));
        drop(held);
        // Given up with the slot already in its hands.
        drop(first);
        assert!(matches!(slot(&mut second), Poll::Ready(Some(_))));
        assert_eq!(a.served.now(), 0);
    }

    #[test]
    fn queues_of_servers_that_go_down() {
        let check = |options: &str, admin: bool, moved: bool| {
            let shared = backend(&format!("{options} server a 127.0.0.1:1 maxconn 1\n server b 127.0.0.1:2"));
            let state = &shared.proxies[0];
            let a = server(state, "a");
            let held = Held::try_new(&a).unwrap();
            let (mut place, _) = a.queue.enter(now(0));
            match admin {
                true => a.admin.store(crate::state::admin::MAINT, Relaxed),
                false => assert!(a.set_health(Health::Down)),
            }
            a.changed();
            assert_eq!(matches!(slot(&mut place), Poll::Ready(None)), moved, "{options} {admin}");
            drop(held);
            if moved {
                return;
            }
            if !options.contains("persist") {
                assert!(slot(&mut place).is_pending());
                a.set_health(Health::Up);
                a.changed();
            }
            assert!(matches!(slot(&mut place), Poll::Ready(Some(_))), "{options} {admin}");
        };
        check(" option redispatch\n", false, true);
        check("", false, false);
        check(" option redispatch\n option persist\n", false, false);
        check("", true, true);
    }

    #[test]
    fn without_any_server_nobody_waits() {
        let shared = backend(" server a 127.0.0.1:1 maxconn 1\n server b 127.0.0.1:2 maxconn 1");
        let state = &shared.proxies[0];
        let mut kept = Vec::new();
        assert_eq!(picks(&shared, 3, None, Some(&mut kept)), "ab-");
        let (mut place, _) = state.queue.enter(now(0));
        set_health(&shared, "a", Health::Down);
        assert!(slot(&mut place).is_pending());
        set_health(&shared, "b", Health::Down);
        assert!(matches!(slot(&mut place), Poll::Ready(None)));
        // A server that comes up takes those who wait.
        let (mut place, _) = state.queue.enter(now(0));
        kept.clear();
        assert!(slot(&mut place).is_pending());
        set_health(&shared, "b", Health::Up);
        assert!(matches!(slot(&mut place), Poll::Ready(Some(_))));
    }

    #[test]
    fn limits_follow_the_load() {
        let shared = backend(
            " fullconn 100\n server a 127.0.0.1:1 minconn 2 maxconn 20\n server b 127.0.0.1:2 maxconn 20",
        );
        let state = &shared.proxies[0];
        let limits = |load: i64| {
            while state.back_current.now() < load {
                state.back_current.enter();
            }
            ["a", "b"].map(|name| server(state, name).limit_now().or_zero())
        };
        assert_eq!(limits(0), [2, 20]);
        assert_eq!(limits(50), [10, 20]);
        assert_eq!(limits(200), [20, 20]);
    }

    #[test]
    fn turns_hold_across_threads() {
        let lines: String = (1..=8).map(|at| format!(" server s{at} 127.0.0.1:{at}\n")).collect();
        let shared = backend(&format!(" balance roundrobin\n{lines}"));
        let totals = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut counts = BTreeMap::new();
                        for _ in 0..2000 {
                            let Chosen::Held(held) = pick(&shared.proxies[0], None, 0, None) else {
                                panic!()
                            };
                            *counts.entry(held.server.index).or_insert(0) += 1;
                        }
                        counts
                    })
                })
                .collect();
            let mut totals = BTreeMap::new();
            for counts in threads.into_iter().map(|thread| thread.join().unwrap()) {
                for (server, count) in counts {
                    *totals.entry(server).or_insert(0) += count;
                }
            }
            totals
        });
        assert_eq!(totals.into_values().collect::<Vec<_>>(), [1000; 8]);
    }

    /// Threads that take slots, wait for them and give them back: none may be lost, none taken twice.
    #[test]
    fn no_slot_is_lost_between_threads() {
        const THREADS: usize = 8;
        const ROUNDS: usize = 3000;
        let shared =
            backend(" balance roundrobin\n server a 127.0.0.1:1 maxconn 1\n server b 127.0.0.1:2 maxconn 2");
        let state = &shared.proxies[0];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(async {
                        for round in 0..ROUNDS {
                            let held = match pick(state, None, 0, None) {
                                Chosen::Held(held) => held,
                                _ => {
                                    let only = server(state, "a");
                                    // Some wait for one server, some for any.
                                    let own = (thread + round) % 3 == 0;
                                    let queue = if own { &only.queue } else { &state.queue };
                                    let (mut place, _) = queue.enter(now(0));
                                    only.dispatch();
                                    server(state, "b").dispatch();
                                    poll_fn(|cx| place.poll_slot(cx)).await.unwrap()
                                }
                            };
                            let limit = held.server.limit_now().or_zero() as i64;
                            assert!((1..=limit).contains(&held.server.served.now()));
                            if round % 7 == 0 {
                                tokio::task::yield_now().await;
                            }
                        }
                    });
                });
            }
        });
        let left: Vec<i64> = state.servers.load().iter().map(|server| server.served.now()).collect();
        assert_eq!((left, state.queue.len()), (vec![0, 0], 0));
    }

    /// A measurement: `cargo test -p weir-proxy --profile bench-dev -- --ignored --nocapture cost_of_a_pick`.
    #[test]
    #[ignore = "prints times, proves nothing"]
    fn cost_of_a_pick() {
        const PICKS: u32 = 1_000_000;
        let line = |count: usize, words: &str| -> String {
            (0..count).map(|at| format!(" server s{at} 127.0.0.1:1 {words}\n")).collect()
        };
        let measure = |name: &str, lines: String, hash: Option<u32>| {
            let shared = backend(&lines);
            let state = &shared.proxies[0];
            let started = std::time::Instant::now();
            for turn in 0..PICKS {
                let hash = hash.map(|_| turn.wrapping_mul(2_654_435_761));
                let Chosen::Held(held) = pick(state, hash, turn.into(), None) else { panic!("{name}") };
                drop(std::hint::black_box(held));
            }
            let ns = started.elapsed().as_nanos() as f64 / f64::from(PICKS);
            eprintln!("{name:40} {ns:>6.1} ns for taking and leaving a slot");
        };
        for count in [4, 10_000] {
            let plain = line(count, "");
            measure(&format!("roundrobin, {count} servers"), format!(" balance roundrobin\n{plain}"), None);
            measure(&format!("first, {count} servers"), format!(" balance first\n{plain}"), None);
            measure(&format!("random, {count} servers"), format!(" balance random\n{plain}"), None);
            measure(&format!("leastconn, {count} servers"), format!(" balance leastconn\n{plain}"), None);
            measure(&format!("source, {count} servers"), format!(" balance source\n{plain}"), Some(0));
            let ring = format!(" balance source\n hash-type consistent\n{plain}");
            measure(&format!("source consistent, {count} servers"), ring, Some(0));
            let limited = format!(" balance roundrobin\n{}", line(count, "maxconn 100"));
            measure(&format!("roundrobin with maxconn, {count} servers"), limited, None);
        }
    }
}
