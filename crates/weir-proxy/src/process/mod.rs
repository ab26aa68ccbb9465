//! The running data plane: its threads, their start, and how they stop.

pub(crate) mod cpus;
pub(crate) mod loading;

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use weir_config::model::{AdminLevel, CloseSpread, Config, SeverityOutput};
use weir_net::Stream;
use weir_net::timers::now_ms;
use weir_rules::{Reply, Txn};

use crate::accept;
use crate::accept::listeners::{Listening, Role};
use crate::client::Entry;
use crate::client::reverse;
use crate::control::certificates::BindLine;
use crate::control::check;
use crate::control::dns;
use crate::control::mail;
use crate::control::ocsp;
use crate::control::peers;
use crate::control::stats_file;
use crate::exchange::running;
use crate::log::forwarder::{self, Datagram};
use crate::log::hub;
use crate::log::level;
use crate::process::loading::{Acceptors, Loaded};
use crate::server::reach::takeover;
use crate::server::reach::tls::Acceptor;
use crate::state::Shared;
use crate::state::problem::Problem;
use crate::state::process_vars;
use crate::thread::closing;
use crate::thread::memory_pools;
use crate::thread::panics;
use crate::thread::task::{spawn_vital, vital};
use crate::thread::worker::Worker;

/// What a client of the runtime socket may do, and how it is answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// `level`
    pub level: AdminLevel,
    /// `severity-output`
    pub severity_output: SeverityOutput,
}

impl From<AdminLevel> for Terms {
    fn from(level: AdminLevel) -> Self {
        Self { level, severity_output: SeverityOutput::None }
    }
}

/// What the data plane asks of the administrative side.
pub trait Services: Send + Sync {
    /// The statistics page of a proxy that has one (`stats uri`), for this request.
    fn statistics(&self, shared: &Arc<Shared>, proxy: usize, txn: &Txn) -> Reply;

    /// The figures for Prometheus (`use-service prometheus-exporter`).
    fn metrics(&self, shared: &Arc<Shared>, txn: &Txn) -> Reply;

    /// Says something to whoever started the process in the foreground; levels are syslog's.
    fn say(&self, _level: u8, _text: &str) {}

    /// Serves one connection of the runtime socket until it is over.
    fn administer(
        &self,
        shared: Arc<Shared>,
        stream: Stream,
        terms: Terms,
    ) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// A started data plane.
pub struct Process {
    /// The state all threads share.
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A data plane with everything loaded that takes rights, such as keys, and no thread yet: the process can still
/// change its root folder and its user.
pub struct Prepared {
    plan: Arc<Plan>,
    listening: Vec<Place>,
    datagrams: Vec<Datagram>,
    remarks: Vec<Problem>,
}

/// A listening socket with its certificates.
type Place = (Listening, Option<Arc<Acceptor>>);

/// Why the data plane cannot start.
#[derive(Debug)]
pub enum StartError {
    /// The system refused a thread or an event loop.
    System(io::Error),
    /// The configuration names what is not there or cannot be used.
    Configuration(Vec<Problem>),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(error) => write!(f, "cannot start the worker threads: {error}"),
            Self::Configuration(found) => {
                let sentences: Vec<_> = found.iter().map(|problem| problem.message.as_str()).collect();
                f.write_str(&sentences.join("\n"))
            }
        }
    }
}

impl std::error::Error for StartError {}

/// How often idle connections to servers are looked through.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);

/// Everything a thread needs to begin.
struct Plan {
    shared: Arc<Shared>,
    services: Arc<dyn Services>,
    /// Where each thread may run; anywhere without any.
    cpus: Vec<Vec<usize>>,
}

impl Process {
    /// Loads what sockets that listen already need.
    ///
    /// # Errors
    /// All that the configuration names and that cannot be used.
    pub fn prepare(
        config: Arc<Config>,
        listening: Vec<Listening>,
        services: Arc<dyn Services>,
    ) -> Result<Prepared, StartError> {
        let cpus = cpus::plan(&config.global);
        let Loaded { shared, acceptors, remarks } =
            loading::load(&config, cpus.len()).map_err(StartError::Configuration)?;
        shared.logs.open_files(&config).map_err(StartError::Configuration)?;
        process_vars::set_at_start(&shared);
        stats_file::load(&shared);
        let addresses = listening.iter().filter_map(|one| one.listener.address().socket_addr());
        shared.own.listen_on(addresses.map(|address| address.port()).collect());
        let listening = with_tls(&shared, listening, &acceptors);
        let datagrams = forwarder::bind_all(&config).map_err(StartError::Configuration)?;
        Ok(Prepared { plan: Arc::new(Plan { shared, services, cpus }), listening, datagrams, remarks })
    }

    /// Loads everything that a start would load, without a socket.  Returns all that is wrong or worth knowing.
    #[must_use]
    pub fn check(config: &Arc<Config>) -> Vec<Problem> {
        loading::load(config, 1).map_or_else(|found| found, |loaded| loaded.remarks)
    }

    /// Starts the worker threads on sockets that listen already.
    ///
    /// # Errors
    /// When TLS material is unusable or the system refuses threads.
    pub fn start(
        config: Arc<Config>,
        listening: Vec<Listening>,
        services: Arc<dyn Services>,
    ) -> Result<Self, StartError> {
        Self::prepare(config, listening, services)?.start()
    }

    /// Begins the soft stop: no new connections, running requests are finished.
    pub fn soft_stop(&self) {
        self.shared.stop();
    }

    /// Ends everything now, running requests included.
    pub fn hard_stop(&self) {
        self.shared.stop();
        self.shared.hard_stop.send_replace(true);
    }

    /// Waits until every thread has ended.
    pub fn wait(self) {
        for thread in self.threads {
            // A thread that panicked has printed why; the others end all the same.
            let _ended = thread.join();
        }
    }

    /// Every thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl Prepared {
    /// What could not be used and is not needed.
    #[must_use]
    pub fn remarks(&self) -> &[Problem] {
        &self.remarks
    }

    /// Starts the worker threads.
    ///
    /// # Errors
    /// When the system refuses threads.
    pub fn start(self) -> Result<Process, StartError> {
        let shared = Arc::clone(&self.plan.shared);
        let mut threads = Vec::new();
        let mut datagrams = self.datagrams;
        for thread in 0..shared.threads {
            let (plan, listening) = (Arc::clone(&self.plan), self.listening.clone());
            // The first thread serves them all.
            let datagrams = std::mem::take(&mut datagrams);
            let spawned = std::thread::Builder::new()
                .name(format!("worker-{thread}"))
                .spawn(move || run_thread(&plan, listening, datagrams, thread));
            threads.push(spawned.map_err(StartError::System)?);
        }
        Ok(Process { shared, threads })
    }
}

/// Adds the certificates of every bind line that has them.
fn with_tls(shared: &Shared, listening: Vec<Listening>, acceptors: &Acceptors) -> Vec<Place> {
    let config = &shared.config;
    let place = |one: Listening| {
        let acceptor = one.bind.ssl.as_ref().and_then(|ssl| acceptors.of(ssl)).cloned();
        if let (Some(acceptor), Role::Frontend(front)) = (&acceptor, &one.role) {
            let pos = one.bind.pos;
            let file = config.sources.get(pos.file as usize).map_or("", AsRef::as_ref);
            let line = BindLine {
                frontend: config.proxies.get(*front).map_or_else(String::new, |proxy| proxy.name.to_string()),
                place: format!("{file}:{}", pos.line),
            };
            shared.certificates.name_line(line, acceptor.server());
        }
        (one, acceptor)
    };
    listening.into_iter().map(place).collect()
}

/// A worker thread, from its event loop's start to its end.
fn run_thread(plan: &Plan, listening: Vec<Place>, datagrams: Vec<Datagram>, thread: usize) {
    pin_thread(&plan.cpus[thread]);
    let (parks, unparks) = (Arc::clone(&plan.shared), Arc::clone(&plan.shared));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(31)
        .on_thread_park(move || parks.load.waits(thread))
        .on_thread_unpark(move || unparks.load.works(thread))
        .build();
    let Ok(runtime) = runtime else {
        // Without an event loop nothing can be served; the process reports that it is stopping.
        plan.shared.stop();
        return;
    };
    if listening.iter().any(|(_, tls)| tls.is_some()) {
        weir_net::tls::seed_thread();
    }
    let local = LocalSet::new();
    local.block_on(&runtime, vital(serve(plan, listening, datagrams, thread)));
}

fn pin_thread(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    // A machine with fewer processors than the configuration names runs all the same, unpinned.
    let _pinned = rustix::thread::sched_setaffinity(None, &set);
}

async fn serve(plan: &Plan, listening: Vec<Place>, datagrams: Vec<Datagram>, thread: usize) {
    let shared = &plan.shared;
    let worker = Worker::new(Arc::clone(shared), thread, Arc::clone(&plan.services));
    spawn_vital(weir_net::timers::drive());
    if thread == 0 {
        worker.peers.replace(peers::start(&worker));
        hub::start(&worker);
        shared.certificates.plan_updates();
        spawn_vital(ocsp::run(Rc::clone(&worker)));
        dns::start(&worker);
        mail::start(&worker);
    }
    for datagram in datagrams {
        spawn_vital(forwarder::receive(Rc::clone(&worker), datagram));
    }
    let places = Arc::new(Semaphore::new(shared.config.global.stats_maxconn));
    for (listening, tls) in &listening {
        listen(plan, &worker, listening, tls.as_ref(), &places);
    }
    // Each thread has its own end now.  Nobody may keep the sockets open beyond a soft stop: connections
    // would go on arriving in a queue that is never served.
    drop(listening);
    if shared.config.global.busy_polling {
        tokio::task::spawn_local(stay_awake());
    }
    spawn_vital(maintain(Rc::clone(&worker)));
    spawn_vital(takeover::serve(Rc::clone(&worker)));
    spawn_vital(running::serve(Rc::clone(&worker)));
    reverse::start(&worker);
    check::start(&worker);
    let mut hard = shared.hard_stop.subscribe();
    tokio::select! {
        // The sender lives in `shared`: it cannot be gone.
        _ = hard.wait_for(|now| *now) => {}
        () = drained(&worker) => {}
    }
    worker.pool.clear();
}

/// Puts one thread's end of a socket to work.
fn listen(
    plan: &Plan,
    worker: &Rc<Worker>,
    listening: &Listening,
    tls: Option<&Arc<Acceptor>>,
    places: &Arc<Semaphore>,
) {
    if !serves(&listening.bind.threads, worker.thread, worker.shared.threads) {
        return;
    }
    match listening.role {
        Role::Frontend(front) => {
            let Ok(acceptor) = listening.listener.acceptor() else { return };
            let proxy = worker.proxy(front);
            let Some(state) = worker.state(front).listener(listening.bind.id) else { return };
            let entry = Entry {
                front,
                bind: listening.bind.clone(),
                name: listening.bind.name.clone().unwrap_or_else(|| "".into()),
                tls: tls.cloned(),
                parse: worker.request_options(proxy),
                state: Arc::clone(state),
                queues: Arc::clone(&listening.queues),
            };
            spawn_vital(accept::run(Rc::clone(worker), Rc::new(entry), acceptor));
        }
        // Commands are rare: one thread serves them.
        Role::Admin if worker.thread == 0 => {
            let Ok(mut acceptor) = listening.listener.acceptor() else { return };
            let bind = &listening.bind;
            let terms = Terms { level: bind.level, severity_output: bind.severity_output };
            let (shared, services) = (Arc::clone(&plan.shared), Arc::clone(&plan.services));
            let places = Arc::clone(places);
            spawn_vital(async move {
                loop {
                    // `stats maxconn`: further clients wait.
                    let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                    let accepted = tokio::select! {
                        // A successor has the same socket: its clients are not to meet this process.
                        () = shared.stopped() => return,
                        accepted = acceptor.accept() => accepted,
                    };
                    if let Ok(accepted) = accepted {
                        let serving = services.administer(Arc::clone(&shared), accepted.stream, terms);
                        tokio::task::spawn_local(async move {
                            serving.await;
                            drop(place);
                        });
                    }
                }
            });
        }
        Role::Peers(at) if worker.thread == 0 => {
            let group = worker.peers.borrow().get(at).cloned().flatten();
            let (Some(group), Ok(acceptor)) = (group, listening.listener.acceptor()) else { return };
            spawn_vital(peers::accept(group, acceptor, tls.cloned()));
        }
        Role::LogForward(at) if worker.thread == 0 => {
            let Ok(acceptor) = listening.listener.acceptor() else { return };
            spawn_vital(forwarder::accept(Rc::clone(worker), at, acceptor, tls.cloned()));
        }
        Role::Admin | Role::Peers(_) | Role::LogForward(_) => {}
    }
}

/// Whether a thread serves a line with such a set of threads, which count from 1; a set of threads that do not
/// exist is as good as none.
fn serves(set: &[usize], thread: usize, threads: usize) -> bool {
    !set.iter().any(|number| *number <= threads) || set.contains(&(thread + 1))
}

/// `busy-polling`: a task that is always ready makes the event loop look for events without ever sleeping.
async fn stay_awake() {
    loop {
        tokio::task::yield_now().await;
    }
}

/// Regular work of a thread: closing idle connections, telling idle clients of the soft stop.
async fn maintain(worker: Rc<Worker>) {
    let stopping = async {
        worker.shared.stopped().await;
        worker.announce_stop();
        if worker.config().global.close_spread_time == CloseSpread::AtOnce {
            // From now on only what is left is watched.
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(closing::LOOK_INTERVAL).await;
            worker.announce_stop();
        }
    };
    let purging = async {
        loop {
            tokio::time::sleep(PURGE_INTERVAL).await;
            worker.pool.purge(now_ms(), worker.thread);
            worker.measure_load(now_ms());
            worker.shared.scarcity.give_back();
            memory_pools::publish(&worker);
            if worker.thread == 0 {
                worker.shared.tables.purge();
                panics::take().iter().for_each(|line| worker.shared.log(level::ALERT, line));
            }
        }
    };
    tokio::join!(stopping, purging);
}

/// Ready when the soft stop has begun and no connection is left, or the time for it is over.  Those of all threads
/// count: one may be on its way to this thread, or accepted and not begun.
async fn drained(worker: &Rc<Worker>) {
    worker.shared.stopped().await;
    let limit = worker.config().global.hard_stop_after;
    let started = now_ms();
    let over = |limit: Duration| now_ms().saturating_sub(started) >= limit.as_millis() as u64;
    let shared = &worker.shared;
    // The first thread delivers the log lines of the others.
    let log_lines = || worker.thread == 0 && shared.logs.is_used() && shared.logs.is_busy();
    while (shared.connections.load(Relaxed) > 0 || log_lines()) && !limit.is_some_and(over) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_bind_lines() {
        let check = |set: &[usize], threads: usize, expected: &[usize]| {
            let serving: Vec<usize> = (0..threads).filter(|thread| serves(set, *thread, threads)).collect();
            assert_eq!(serving, expected, "{set:?} of {threads}");
        };
        check(&[], 2, &[0, 1]);
        check(&[1], 2, &[0]);
        check(&[2], 2, &[1]);
        check(&[1, 3], 4, &[0, 2]);
        // Nobody would serve it otherwise.
        check(&[5], 2, &[0, 1]);
    }
}
