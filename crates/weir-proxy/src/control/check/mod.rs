//! Health checks: which servers are checked when, by which thread, and what becomes of the results.
//!
//! ```text
//! watch (one task a check) > attempt (sockets) > script (steps: expect, http, protocols)
//!                          > report > standing (state machine, effects) > sentence (the log)
//! ```
//! Owns the tasks and the ways into them; leaves deciding to `weir-balance` and to [`script`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use weir_balance::CheckResult;
use weir_net::timers::{Deadline, now_ms};

use crate::log::level;
use crate::state::problem::Problem;
use crate::state::{ServerState, Shared};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;
use standing::{RUNNING_AGENT, RUNNING_CHECK, ms};

mod agent;
mod attempt;
mod expect;
mod external;
mod fcgi;
mod http;
pub(crate) mod observe;
mod protocols;
mod report;
mod script;
mod sentence;
mod standing;
mod status;

pub use standing::{Standing, Target};
pub use status::Status;

/// Lines of the log that may wait for the thread that writes them; further ones are dropped.
const MAX_NOTICES: usize = 16_384;

/// Servers whose checks may wait to be started by their thread.
const MAX_STARTS: usize = 16_384;

/// What health checks of all threads share: the ways to the threads.
pub(crate) struct Hub {
    notices: mpsc::Sender<Notice>,
    notices_end: Mutex<Option<mpsc::Receiver<Notice>>>,
    starts: Vec<Start>,
    /// The thread that takes the next server.
    turn: AtomicUsize,
}

type Start = (mpsc::Sender<Arc<ServerState>>, Mutex<Option<mpsc::Receiver<Arc<ServerState>>>>);

/// A line for a backend's log.
struct Notice {
    proxy: usize,
    level: u8,
    text: String,
    /// How it is said in the foreground, where HAProxy's words are others there.
    aloud: Option<String>,
}

impl Hub {
    pub(crate) fn new(threads: usize) -> Self {
        let (notices, notices_end) = mpsc::channel(MAX_NOTICES);
        let start = || {
            let (sender, receiver) = mpsc::channel(MAX_STARTS);
            (sender, Mutex::new(Some(receiver)))
        };
        Self {
            notices,
            notices_end: Mutex::new(Some(notices_end)),
            starts: (0..threads).map(|_| start()).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Logs for a backend, from any thread.
    fn log(&self, proxy: usize, level: u8, text: String) {
        self.notify(Notice { proxy, level, text, aloud: None });
    }

    fn notify(&self, notice: Notice) {
        // With this many lines waiting the log is of no use any more.
        let _queued_or_dropped = self.notices.try_send(notice);
    }
}

pub(crate) fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Shared {
    /// Warns in a proxy's log, and on the terminal of a process in the foreground; from any thread.
    pub fn warn(&self, proxy: usize, text: String) {
        self.tell(proxy, level::WARNING, text);
    }

    /// The same at another level.
    pub(crate) fn tell(&self, proxy: usize, level: u8, text: String) {
        self.checks.log(proxy, level, text);
    }

    /// Starts the checks of a server that was added at run time, resolves its name, and follows the one that it tracks.
    pub fn watch(&self, server: &Arc<ServerState>) {
        self.dns.follow(server);
        if let Some(tracked) = tracked_by(self, server) {
            server.follow(&tracked);
            self.adopt(&tracked, server);
        }
        let checked = server.config.check.is_some() || server.config.agent_check.is_some();
        if !checked || server.standing.watched.swap(true, Relaxed) {
            return;
        }
        let at = self.checks.turn.fetch_add(1, Relaxed) % self.checks.starts.len().max(1);
        if let Some((start, _)) = self.checks.starts.get(at) {
            // The channel is as long as any sensible number of servers added at once.
            let _queued = start.try_send(Arc::clone(server));
        }
    }

    /// `enable health`, `disable health`.
    pub fn enable_check(&self, server: &Arc<ServerState>, on: bool) {
        server.check_enabled.store(on, Relaxed);
        server.standing.hurry.notify_one();
    }

    /// `enable agent`, `disable agent`.
    pub fn enable_agent(&self, server: &Arc<ServerState>, on: bool) {
        server.agent_enabled.store(on, Relaxed);
    }
}

/// Links servers that track others, and refuses what cannot be checked.
///
/// # Errors
/// A sentence for each problem.
pub(crate) fn prepare(shared: &Shared) -> Vec<Problem> {
    let mut errors = Vec::new();
    for (state, config) in shared.proxies.iter().zip(&shared.config.proxies) {
        let servers = state.servers.load();
        for server in servers.iter() {
            let Some(name) = &server.config.track else { continue };
            match tracked_by(shared, server) {
                Some(tracked) => server.follow(&tracked),
                None => {
                    let own = format!("{}/{}", config.name, server.config.name);
                    let message = format!("server '{own}' tracks '{name}', which does not exist");
                    errors.push(Problem::error(server.config.pos, message).about(name));
                }
            }
        }
    }
    for state in &shared.proxies {
        for server in state.servers.load().iter() {
            if let Some(tracked) = server.tracked() {
                shared.adopt(&tracked, server);
            }
        }
    }
    errors
}

/// `track [BACKEND/]SERVER`
fn tracked_by(shared: &Shared, server: &ServerState) -> Option<Arc<ServerState>> {
    let name = server.config.track.as_deref()?;
    let (proxy, name) = match name.split_once('/') {
        Some((backend, name)) => (shared.proxy_index(backend, true)?, name),
        None => (server.proxy, name),
    };
    shared.proxies[proxy].servers.load().iter().find(|other| &*other.config.name == name).cloned()
}

/// Starts the checks this thread is responsible for.
pub(crate) fn start(worker: &Rc<Worker>) {
    let hub = &worker.shared.checks;
    if worker.thread == 0
        && let Some(notices) = take(&hub.notices_end)
    {
        spawn_vital(write_log(Rc::clone(worker), notices));
    }
    let most = worker.config().global.tune.max_checks_per_thread;
    let slots = most.most().map(|most| Rc::new(Semaphore::new(most)));
    if let Some(mut starts) = take(&hub.starts[worker.thread].1) {
        let (worker, slots) = (Rc::clone(worker), slots.clone());
        spawn_vital(async move {
            while let Some(server) = starts.recv().await {
                for kind in kinds(&server) {
                    watch(&worker, &server, kind, Duration::ZERO, slots.clone());
                }
            }
        });
    }
    start_configured(worker, &slots);
}

/// Starts the checks of the configuration, spread over the shortest interval of all.
fn start_configured(worker: &Rc<Worker>, slots: &Option<Rc<Semaphore>>) {
    let shared = &worker.shared;
    let servers = || shared.proxies.iter().flat_map(|state| state.servers.load().to_vec());
    let checks = || servers().flat_map(|server| kinds(&server).map(move |kind| (Arc::clone(&server), kind)));
    let shortest = checks().map(|(server, kind)| kind.interval_ms(&server)).min().unwrap_or(0);
    let count = checks().count().max(1) as u64;
    for (at, (server, kind)) in checks().enumerate() {
        server.standing.watched.store(true, Relaxed);
        if at % shared.threads != worker.thread {
            continue;
        }
        let span_ms = shortest.max(kind.interval_ms(&server));
        let most_ms = shared.config.global.max_spread_checks.map_or(u64::MAX, |most| most.as_millis() as u64);
        let delay_ms = span_ms.min(most_ms).saturating_mul(at as u64) / count;
        watch(worker, &server, kind, Duration::from_millis(delay_ms), slots.clone());
    }
}

/// Writes what all threads have to say of servers.
async fn write_log(worker: Rc<Worker>, mut notices: mpsc::Receiver<Notice>) {
    while let Some(Notice { proxy, level, text, aloud }) = notices.recv().await {
        worker.services.say(level, aloud.as_ref().unwrap_or(&text));
        let proxy = worker.proxy(proxy);
        worker.logger.send(&proxy.logs, level, proxy.log_tag.as_deref(), text.as_bytes());
    }
}

/// The two kinds of checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Health,
    Agent,
}

/// What a server's line asks for.
fn kinds(server: &ServerState) -> impl Iterator<Item = Kind> + use<> {
    let health = server.config.check.is_some().then_some(Kind::Health);
    let agent = server.config.agent_check.is_some().then_some(Kind::Agent);
    health.into_iter().chain(agent)
}

impl Kind {
    fn interval_ms(self, server: &ServerState) -> u64 {
        let machine = server.standing();
        let health = match self {
            Self::Health => machine.health,
            Self::Agent => machine.agent,
        };
        health.map_or(0, |health| health.next_interval_ms())
    }

    fn is_due(self, server: &ServerState) -> bool {
        match self {
            Self::Health => server.check_enabled.load(Relaxed) && !server.in_maintenance(),
            // An agent may end the maintenance it is asked in.
            Self::Agent => server.agent_enabled.load(Relaxed),
        }
    }

    fn running(self) -> u8 {
        match self {
            Self::Health => RUNNING_CHECK,
            Self::Agent => RUNNING_AGENT,
        }
    }
}

/// Checks a server again and again until it is removed or the process stops.
fn watch(
    worker: &Rc<Worker>,
    server: &Arc<ServerState>,
    kind: Kind,
    delay: Duration,
    slots: Option<Rc<Semaphore>>,
) {
    let (worker, server) = (Rc::clone(worker), Arc::clone(server));
    spawn_vital(async move {
        let next_ms = Cell::new(now_ms().saturating_add(ms(delay)));
        let mut timer = Deadline::new();
        while wait(&server, kind, &mut timer, &next_ms).await {
            if worker.shared.is_stopping() || server.standing.removed.load(Relaxed) {
                return;
            }
            if kind.is_due(&server) {
                // Without slots there is no limit; they are never closed.
                let _slot = match &slots {
                    Some(slots) => slots.acquire().await.ok(),
                    None => None,
                };
                // A task of its own: thousands of tasks wait, few of them work, and a fault of the program over what a
                // server says ends this one check.
                let (worker, server) = (Rc::clone(&worker), Arc::clone(&server));
                let _ended = tokio::task::spawn_local(async move { run(&worker, &server, kind).await }).await;
            }
            server.standing.with(|machine| machine.tick(worker.shared.now_ms()));
            let interval_ms = kind.interval_ms(&server).max(1);
            next_ms.set(now_ms().saturating_add(spread(&worker, interval_ms)));
        }
    });
}

/// Waits until the next check is due; always true.
async fn wait(server: &ServerState, kind: Kind, timer: &mut Deadline, next_ms: &Cell<u64>) -> bool {
    loop {
        timer.set(next_ms.get());
        let hurried = async {
            match kind {
                Kind::Health => server.standing.hurry.notified().await,
                Kind::Agent => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = timer.expired() => return true,
            () = hurried => {
                let sooner = now_ms().saturating_add(kind.interval_ms(server));
                next_ms.set(next_ms.get().min(sooner));
            }
        }
    }
}

/// `spread-checks`: a part of the interval, added or taken away at random.
fn spread(worker: &Worker, interval_ms: u64) -> u64 {
    let percent = u64::from(worker.config().global.spread_checks_percent.min(50));
    let range = interval_ms.saturating_mul(percent) / 100;
    match range {
        0 => interval_ms,
        range => interval_ms - range + worker.env.random() % (2 * range + 1),
    }
}

/// One check and its report.
async fn run(worker: &Rc<Worker>, server: &Arc<ServerState>, kind: Kind) {
    let (shared, running) = (&worker.shared, &server.standing.running);
    running.fetch_or(kind.running(), Relaxed);
    let started = std::time::Instant::now();
    let duration_ms = || ms(started.elapsed());
    match kind {
        Kind::Health => {
            let outcome = attempt::check(worker, server).await;
            running.fetch_and(!kind.running(), Relaxed);
            report::check(shared, server, outcome, duration_ms());
        }
        Kind::Agent => {
            let answer = attempt::ask_agent(worker, server).await;
            running.fetch_and(!kind.running(), Relaxed);
            match answer {
                Ok(answer) => {
                    let orders = agent::parse(&answer);
                    orders.carry_out(shared, server);
                    let (outcome, result) = orders.outcome();
                    report::agent(shared, server, outcome, result, duration_ms());
                }
                // Manual, `agent-check`: an agent that cannot be reached says nothing of its server.
                Err(outcome) => report::agent(shared, server, outcome, CheckResult::Neutral, duration_ms()),
            }
        }
    }
}
