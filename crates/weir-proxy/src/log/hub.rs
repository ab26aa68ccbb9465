//! Log lines that other sections take further: rings, and backends in `mode log`.
//!
//! The thread that logs chooses the server; datagrams it sends itself, and streams are the first thread's.  Everything here is bounded: what a slow log server does not
//! take in time is lost, the oldest first, as a datagram would be.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use weir_balance::Algorithm;
use weir_config::model::{self, BalanceKey, Config, LogFraming, Mode};
use weir_net::Stream;
use weir_net::connect::{ConnectOptions, connect};
use weir_rules::facts::{Environment, ProxyName};
use weir_rules::{Session, Txn};

use super::backing_file::BackingFile;
use super::{Datagrams, MAX_QUEUED_LINES};
use crate::server::choose;
use crate::server::choose::key;
use crate::server::reach;
use crate::server::reach::tls;
use crate::state::counters::Counter;
use crate::state::farm::Farm;
use crate::state::problem::Problem;
use crate::state::{ProxyState, ServerState, Shared};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Pause after a log server was not reached.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Where lines wait for the thread that delivers them.
#[derive(Default)]
pub struct LogHub {
    rings: BTreeMap<String, Arc<Ring>>,
    /// Backends in `mode log`: index of the proxy.
    backends: BTreeMap<String, usize>,
    /// Lines that the first thread delivers.
    waiting: Mutex<VecDeque<(Target, Vec<u8>)>>,
    arrived: Notify,
}

/// Whom a line is for.
enum Target {
    /// Any server of the backend with this index.
    Backend(usize),
    Server(Arc<ServerState>),
}

/// A `ring` section: the last lines, for its servers and for whoever looks.
pub struct Ring {
    size: usize,
    max_len: usize,
    /// What it is called in lists.
    pub description: String,
    lines: Mutex<Lines>,
    /// Lines so far.
    count: watch::Sender<u64>,
    /// Where copies of the lines go.
    pub(crate) servers: Vec<Arc<ServerState>>,
    connect_time: Option<Duration>,
    send_time: Option<Duration>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Number of the first line that is kept.
    first: u64,
    /// Where they are written as well.
    file: Option<BackingFile>,
}

impl LogHub {
    pub(crate) fn new(config: &Config, threads: usize) -> Self {
        let farm = Arc::new(Farm::new(&model::Proxy::default(), 0));
        let ring = |(name, ring): (&String, &model::Ring)| {
            let servers = ring.servers.iter().enumerate();
            let servers =
                servers.map(|(at, server)| Arc::new(ServerState::new(server, 0, at, threads, &farm)));
            let description = ring.description.clone().unwrap_or_else(|| name.clone());
            let ring = Ring {
                size: ring.size,
                max_len: ring.max_len,
                description,
                lines: Mutex::default(),
                count: watch::Sender::new(0),
                servers: servers.collect(),
                connect_time: ring.timeout_connect,
                send_time: ring.timeout_server,
            };
            (name.clone(), Arc::new(ring))
        };
        let logging =
            config.proxies.iter().enumerate().filter(|(_, proxy)| proxy.mode == Mode::Log && proxy.backend);
        Self {
            rings: config.rings.iter().map(ring).collect(),
            backends: logging.map(|(at, proxy)| (proxy.name.to_string(), at)).collect(),
            ..Self::default()
        }
    }

    /// Opens the files of rings that have one, before the first line.
    pub(crate) fn open_files(&self, config: &Config) -> Result<(), Vec<Problem>> {
        let mut errors = Vec::new();
        for (name, section) in &config.rings {
            let (Some(path), Some(ring)) = (&section.backing_file, self.rings.get(name)) else { continue };
            match BackingFile::create(path, ring.size) {
                Ok(file) => ring.lines().file = Some(file),
                Err(error) => {
                    let message = format!("ring '{name}': cannot use '{}': {error}", path.display());
                    errors.push(Problem::error(section.pos, message).about_file(path));
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// The rings by name.
    pub fn rings(&self) -> impl Iterator<Item = (&str, &Arc<Ring>)> {
        self.rings.iter().map(|(name, ring)| (name.as_str(), ring))
    }

    /// Whether lines may come that the first thread has to deliver.
    pub(crate) fn is_used(&self) -> bool {
        !self.rings.is_empty() || !self.backends.is_empty()
    }

    /// Lines of other threads wait to be delivered.
    pub(crate) fn is_busy(&self) -> bool {
        !self.waiting().is_empty()
    }

    pub(super) fn to_ring(&self, name: &str, line: &[u8]) {
        if let Some(ring) = self.rings.get(name) {
            ring.push(line);
        }
    }

    /// The backend of this name.
    pub(super) fn backend(&self, name: &str) -> Option<usize> {
        self.backends.get(name).copied()
    }

    /// A line for a backend, from somebody who cannot choose a server.
    pub(super) fn to_backend(&self, name: &str, line: &[u8]) {
        if let Some(index) = self.backend(name) {
            self.wait(Target::Backend(index), line);
        }
    }

    /// A line for a server that is reached over a stream.
    pub(super) fn to_server(&self, server: Arc<ServerState>, line: &[u8]) {
        self.wait(Target::Server(server), line);
    }

    fn wait(&self, target: Target, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.len() < MAX_QUEUED_LINES {
            waiting.push_back((target, line.to_vec()));
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Target, Vec<u8>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let line = &line[..line.len().min(self.max_len)];
        let mut lines = self.lines();
        if let Some(file) = &mut lines.file {
            file.push(line);
        }
        lines.bytes += line.len();
        lines.kept.push_back(line.into());
        while lines.bytes > self.size {
            let Some(oldest) = lines.kept.pop_front() else { break };
            lines.bytes -= oldest.len();
            lines.first += 1;
        }
        drop(lines);
        self.count.send_modify(|count| *count += 1);
    }

    /// The line of this number, or the oldest one that is kept after it; with its number.
    fn line(&self, number: u64) -> Option<(u64, Arc<[u8]>)> {
        let lines = self.lines();
        let number = number.max(lines.first);
        let at = usize::try_from(number - lines.first).ok()?;
        lines.kept.get(at).map(|line| (number, Arc::clone(line)))
    }

    /// All lines that are kept.
    #[must_use]
    pub fn contents(&self) -> Vec<Arc<[u8]>> {
        self.lines().kept.iter().cloned().collect()
    }
}

/// Starts what delivers lines, on the thread that does.
pub(crate) fn start(worker: &Rc<Worker>) {
    let hub = &worker.shared.logs;
    for ring in hub.rings.values() {
        for server in &ring.servers {
            spawn_vital(follow(Arc::clone(ring), Arc::clone(server)));
        }
    }
    if !hub.backends.is_empty() {
        spawn_vital(distribute(Rc::clone(worker)));
    }
}

/// Sends a ring's lines to one of its servers.
async fn follow(ring: Arc<Ring>, server: Arc<ServerState>) {
    let mut count = ring.count.subscribe();
    let mut next = 0;
    loop {
        let Some((number, _)) = ring.line(next) else {
            // The sender is the ring's own: it cannot be gone.
            let _more = count.changed().await;
            continue;
        };
        next = number;
        if let Ok(mut stream) = in_time(ring.connect_time, open(&server, of_ring(&server))).await {
            while send_next(&ring, &mut next, &mut count, &server, &mut stream).await.is_ok() {}
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// Sends the line that is next, once there is one.
async fn send_next(
    ring: &Ring,
    next: &mut u64,
    count: &mut watch::Receiver<u64>,
    server: &ServerState,
    stream: &mut Stream,
) -> std::io::Result<()> {
    let Some((number, line)) = ring.line(*next) else {
        let _more = count.changed().await;
        return Ok(());
    };
    in_time(ring.send_time, send(stream, server, &line)).await?;
    *next = number + 1;
    Ok(())
}

async fn in_time<T>(
    limit: Option<Duration>,
    work: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await?,
        None => work.await,
    }
}

/// A ring's server belongs to no backend: its line says everything.
fn of_ring(server: &ServerState) -> ConnectOptions {
    let config = &server.config;
    ConnectOptions {
        source: config.source.address,
        interface: config.source.interface.clone(),
        namespace: server.namespace.clone(),
        md5_key: config.md5_key.clone(),
        user_timeout: config.tcp_ut,
        ..ConnectOptions::default()
    }
}

async fn open(server: &Arc<ServerState>, options: ConnectOptions) -> std::io::Result<Stream> {
    let Some(address) = server.addr.load().address.clone() else {
        return Err(std::io::ErrorKind::AddrNotAvailable.into());
    };
    let mut stream = connect(&address, &options).await?;
    if server.tls_settings().is_some() {
        tls::connect(&mut stream, server, None, None).await?;
    }
    Ok(stream)
}

/// Sends a line as `log-proto` says (RFC 6587): with its length, or ended by a line feed as lines are.
async fn send(stream: &mut Stream, server: &ServerState, line: &[u8]) -> std::io::Result<()> {
    if server.config.log_proto == LogFraming::OctetCount {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let framed = [text.len().to_string().as_bytes(), b" ", text].concat();
        stream.write_all(&framed).await?;
    } else {
        stream.write_all(line).await?;
    }
    stream.flush().await
}

/// Delivers the lines that wait.
async fn distribute(worker: Rc<Worker>) {
    let shared = Arc::clone(&worker.shared);
    let chooser = Chooser { shared: Arc::clone(&shared), env: Rc::clone(&worker.env) };
    let mut datagrams = Datagrams::new(&shared.config);
    let mut streams: BTreeMap<(usize, usize), mpsc::Sender<Vec<u8>>> = BTreeMap::new();
    loop {
        let next = shared.logs.waiting().pop_front();
        let (server, line) = match next {
            None => {
                shared.logs.arrived.notified().await;
                continue;
            }
            Some((Target::Server(server), line)) => (Some(server), line),
            Some((Target::Backend(index), line)) => (chooser.choose(index, &line), line),
        };
        let Some(server) = server else { continue };
        if server.config.datagram {
            datagrams.send_to(&server, &line);
            continue;
        }
        let stream = streams.entry((server.proxy, server.index)).or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED_LINES);
            spawn_vital(write(Rc::clone(&worker), Arc::clone(&server), receiver));
            sender
        });
        // A full queue drops the line, as with datagrams.
        let _queued = stream.try_send(line);
    }
}

/// Chooses servers of log backends, on one thread.
pub(super) struct Chooser {
    pub(super) shared: Arc<Shared>,
    pub(super) env: Rc<dyn Environment>,
}

impl Chooser {
    /// The server for a line.
    pub(super) fn choose(&self, index: usize, line: &[u8]) -> Option<Arc<ServerState>> {
        let (state, proxy) = (&self.shared.proxies[index], &self.shared.config.proxies[index]);
        let server = match proxy.balance {
            Algorithm::Sticky => stuck(state),
            _ => {
                let settings = state.picker.settings();
                let hash = match proxy.balance_key {
                    BalanceKey::None => None,
                    ref by => key::hash(by, settings.hash_type, &self.transaction(proxy, index, line)),
                };
                choose::server(state, hash, self.env.random())
            }
        }?;
        server.count(self.env.thread() as usize, Counter::Sessions, 1);
        Some(server)
    }

    /// The message as what a client sent.
    fn transaction(&self, proxy: &model::Proxy, index: usize, line: &[u8]) -> Txn {
        let name = ProxyName { name: Arc::clone(&proxy.name), id: proxy.id, index };
        let session = Session::new(name.clone(), "".into());
        let mut txn = Txn::new(Rc::new(session), Rc::clone(&self.env));
        txn.backend = Some(name);
        txn.request_body = line.to_vec();
        txn.request_body_complete = true;
        txn
    }
}

/// Manual, `balance sticky`: the first in line as long as it is up; who comes up goes to the end.
fn stuck(state: &ProxyState) -> Option<Arc<ServerState>> {
    let layout = state.fresh_layout();
    let usable = layout.picker.servers().map(|at| &layout.members.servers[at]);
    usable.min_by_key(|server| server.arrival.load(Relaxed)).cloned()
}

/// Sends lines to a server over a connection that is opened when there is something to send.
async fn write(worker: Rc<Worker>, server: Arc<ServerState>, mut lines: mpsc::Receiver<Vec<u8>>) {
    let mut stream = None;
    while let Some(line) = lines.recv().await {
        if stream.is_none() {
            stream = open(&server, reach::socket_options(&worker, &server)).await.ok();
        }
        if let Some(open) = &mut stream
            && send(open, &server, &line).await.is_err()
        {
            stream = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::{server, shared};

    #[test]
    fn a_ring_keeps_the_last_lines() {
        let shared = shared("ring r\n size 10\n maxlen 4");
        let ring = Arc::clone(shared.logs.rings().next().unwrap().1);
        for line in ["a\n", "bb\n", "too long\n", "c\n"] {
            shared.logs.to_ring("r", line.as_bytes());
        }
        let text: Vec<_> = ring.contents().iter().map(|l| String::from_utf8_lossy(l).into_owned()).collect();
        assert_eq!(text, ["bb\n", "too ", "c\n"]);
        // Who was slow goes on with the oldest that is left.
        assert_eq!(ring.line(0).map(|(number, _)| number), Some(1));
        assert_eq!(ring.line(3).map(|(_, line)| line.to_vec()), Some(b"c\n".to_vec()));
        assert!(ring.line(4).is_none());
    }

    #[test]
    fn lines_for_backends_are_bounded() {
        let shared = shared("backend l\n mode log\n server a udp@127.0.0.1:1");
        for _ in 0..2 * MAX_QUEUED_LINES {
            shared.logs.to_backend("l", b"x\n");
        }
        shared.logs.to_backend("nobody", b"x\n");
        assert_eq!(shared.logs.waiting().len(), MAX_QUEUED_LINES);
    }

    #[test]
    fn sticky_servers_take_turns_only_when_they_fail() {
        use crate::state::Health;
        let servers = ["a", "b", "c"].map(|name| format!(" server {name} udp@127.0.0.1:1\n")).concat();
        let shared = shared(&format!(
            "backend l\n mode log\n balance sticky\n{servers} server d udp@127.0.0.1:1 backup"
        ));
        let state = &shared.proxies[0];
        let check = |changes: &[(&str, Health)], expected: &str| {
            for (name, health) in changes {
                let server = server(state, name);
                server.set_health(*health);
                server.changed();
            }
            let found = stuck(state).map(|server| server.config.name.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{changes:?}");
        };
        check(&[], "a");
        check(&[("a", Health::Down)], "b");
        check(&[("a", Health::Up)], "b");
        check(&[("b", Health::Down)], "c");
        check(&[("a", Health::Down), ("c", Health::Down)], "d");
        check(&[("c", Health::Up)], "c");
    }
}
