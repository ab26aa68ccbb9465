//! Peers: other processes that share stick tables.
//!
//! Owns connections to peers and from them, who is connected how, and when to learn and to teach; what is said
//! on a connection is [`session`]'s, its bytes are [`wire`]'s.  One thread does all of it.

mod session;

pub mod wire;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use weir_config::model::{self, BindAddr, Config, ServerAddr};
use weir_net::connect::{ConnectOptions, connect};
use weir_net::listen;
use weir_net::{Address, Stream};

use crate::control::peers::session::{Event, Learning, Session, Shard, Synced};
use crate::control::peers::wire::VERSION_LINE;
use crate::control::resolve;
use crate::log::{Logger, level};
use crate::server::reach::tls::{self, Acceptor};
use crate::state::farm::Farm;
use crate::state::stick_table::News;
use crate::state::{ServerState, Shared};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Longest time for a connection and its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Longest hello.
const MAX_HELLO_BYTES: usize = 1024;

/// Pause before another connection is tried.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// A side that has nothing to say says so this often.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// A side that says nothing for so long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// How long a new process waits for somebody who teaches it, and an old one for a successor to learn.
const LESSON_LIMIT: Duration = Duration::from_secs(5);

/// Pause before a successor is looked for again.
const LESSON_PAUSE: Duration = Duration::from_millis(50);

/// Most bytes received at a time.
const READ_BYTES: usize = 16 * 1024;

/// The other processes of a `peers` section.
pub struct Remotes {
    /// Name of the section.
    pub section: Arc<str>,
    /// The peers, as servers that are connected to.
    pub peers: Vec<Arc<ServerState>>,
}

/// The remotes of all sections, in the order of the configuration.
pub(crate) fn remotes(config: &Config, threads: usize) -> Vec<Remotes> {
    let sections = config.peers.iter().map(|(name, section)| {
        let farm = Arc::new(Farm::new(&model::Proxy::default(), 0));
        let peers = section.remotes.iter().enumerate();
        let peers = peers.map(|(at, peer)| Arc::new(ServerState::new(peer, 0, at, threads, &farm)));
        Remotes { section: name.as_str().into(), peers: peers.collect() }
    });
    sections.collect()
}

/// A `peers` section at work.
pub(crate) struct Group {
    shared: Arc<Shared>,
    /// Name of this process among its peers.
    local: String,
    tables: Vec<Synced>,
    news: Arc<News>,
    learning: Cell<Learning>,
    peers: Vec<Peer>,
    /// Parts that the tables are split into.
    shards: usize,
    binds: Vec<model::Bind>,
    /// Name of the section.
    section: Arc<str>,
    logs: Vec<model::LogTarget>,
}

/// Another process.
struct Peer {
    server: Arc<ServerState>,
    /// For each table, the changes that have arrived there.
    arrived: RefCell<Vec<u64>>,
    active: RefCell<Option<Active>>,
}

/// The connection that is in use with a peer, or being made.
struct Active {
    outgoing: bool,
    /// Ends it.
    end: Rc<Notify>,
}

impl Peer {
    fn name(&self) -> &str {
        &self.server.config.name
    }

    /// Makes a connection the one in use; another one ends.
    fn occupy(&self, outgoing: bool) -> Rc<Notify> {
        let end = Rc::new(Notify::new());
        let before = self.active.replace(Some(Active { outgoing, end: Rc::clone(&end) }));
        if let Some(before) = before {
            before.end.notify_one();
        }
        end
    }

    /// The connection is over, unless another one has taken its place.
    fn vacate(&self, end: &Rc<Notify>) {
        let mut active = self.active.borrow_mut();
        if active.as_ref().is_some_and(|active| Rc::ptr_eq(&active.end, end)) {
            *active = None;
        }
    }
}

/// Puts the sections to work that name this process and share tables; indexes are those of
/// [`crate::accept::listeners::Role::Peers`].
pub(crate) fn start(worker: &Rc<Worker>) -> Vec<Option<Rc<Group>>> {
    let shared = &worker.shared;
    let sections = shared.peers.iter().map(|remotes| {
        let section = shared.config.peers.get(&*remotes.section).filter(|section| !section.disabled)?;
        let group = Rc::new(group(shared, section, remotes)?);
        for at in 0..group.peers.len() {
            spawn_vital(keep_connected(Rc::clone(&group), at));
        }
        spawn_vital(give_up_learning(Rc::clone(&group)));
        spawn_vital(teach_successor(Rc::clone(worker), Rc::clone(&group)));
        Some(group)
    });
    sections.collect()
}

fn group(shared: &Arc<Shared>, section: &model::Peers, remotes: &Remotes) -> Option<Group> {
    let shares = shared.tables.section(&remotes.section)?;
    let tables = shares.tables.iter().filter_map(|&index| shared.tables.at(index)).map(|table| {
        // Tables of the section itself go by what follows the section's name.
        let name = table.name().strip_prefix(&*remotes.section).unwrap_or_else(|| table.name());
        let name = if name.starts_with('/') { name } else { table.name() };
        Synced { table: Arc::clone(table), name: name.into() }
    });
    let tables: Vec<Synced> = tables.collect();
    let peers = remotes.peers.iter().map(|server| Peer {
        server: Arc::clone(server),
        arrived: RefCell::new(vec![0; tables.len()]),
        active: RefCell::default(),
    });
    Some(Group {
        shared: Arc::clone(shared),
        local: section.local.clone()?,
        peers: peers.collect(),
        news: Arc::clone(&shares.news),
        learning: Cell::default(),
        shards: section.shards,
        binds: section.binds.clone(),
        section: Arc::clone(&remotes.section),
        logs: section.logs.clone(),
        tables,
    })
}

/// Accepts peers' connections until the soft stop.
pub(crate) async fn accept(group: Rc<Group>, mut acceptor: listen::Acceptor, tls: Option<Arc<Acceptor>>) {
    loop {
        let accepted = tokio::select! {
            () = group.shared.stopped() => return,
            accepted = acceptor.accept() => accepted,
        };
        // A failure to accept is the machine's, and has paused already.
        let Ok(accepted) = accepted else { continue };
        note(&group, &accepted);
        let (group, tls) = (Rc::clone(&group), tls.clone());
        tokio::task::spawn_local(async move {
            // Peers that go away are back soon.
            let _ended = receive(&group, accepted.stream, tls.as_deref()).await;
        });
    }
}

/// Logs a connection as HAProxy's frontends do that have no format of their own.
fn note(group: &Group, accepted: &listen::Accepted) {
    if group.logs.is_empty() {
        return;
    }
    let shown = |address: Option<Address>| address.map_or_else(|| "-".to_owned(), |a| a.to_string());
    let (from, to) = (shown(Some(accepted.peer.clone())), shown(accepted.stream.local_addr().ok()));
    let line = format!("Connect from {from} to {to} ({}/TCP)", group.section);
    Logger::new(&group.shared).send(&group.logs, level::INFO, None, line.as_bytes());
}

/// Who said hello.
enum Guest {
    Peer(usize),
    /// The process that this one takes over from.
    Predecessor,
}

async fn receive(group: &Group, mut stream: Stream, tls: Option<&Acceptor>) -> io::Result<()> {
    let mut input = Vec::new();
    let hello = async {
        if let Some(tls) = tls {
            tls.accept(&mut stream, &[], false).await?;
        }
        let lines = lines(&mut stream, &mut input, 3).await?;
        let guest = guest(group, &lines);
        let answer = match &guest {
            Ok(_) => "200\n".to_owned(),
            Err(status) => format!("{status}\n"),
        };
        stream.write_all(answer.as_bytes()).await?;
        guest.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
    };
    match timeout(HELLO_LIMIT, hello).await?? {
        Guest::Peer(at) => {
            let end = group.peers[at].occupy(false);
            let result =
                converse(group, Some(at), stream, input, &end, group.learning.get() == Learning::Needed)
                    .await;
            group.peers[at].vacate(&end);
            result
        }
        Guest::Predecessor => converse(group, None, stream, input, &Rc::new(Notify::new()), true).await,
    }
}

/// Who a hello is from, or the status it is answered with.
fn guest(group: &Group, lines: &[String]) -> Result<Guest, u16> {
    let [version, to, from] = lines else { return Err(501) };
    let (protocol, version) = version.split_once(' ').ok_or(501u16)?;
    if protocol != "HAProxyS" {
        return Err(501);
    }
    if !version.starts_with("2.") {
        return Err(502);
    }
    if *to != group.local {
        return Err(503);
    }
    let from = from.split(' ').next().unwrap_or_default();
    if from == group.local {
        return Ok(Guest::Predecessor);
    }
    let at = group.peers.iter().position(|peer| peer.name() == from).ok_or(504u16)?;
    // Two that connect to each other at once keep the connection of the one whose name comes first.
    let mutual = group.peers[at].active.borrow().as_ref().is_some_and(|active| active.outgoing);
    if mutual && group.local.as_str() < from { Err(300) } else { Ok(Guest::Peer(at)) }
}

/// Receives so many lines; what follows them stays in `input`.
async fn lines(stream: &mut Stream, input: &mut Vec<u8>, count: usize) -> io::Result<Vec<String>> {
    let end = |input: &[u8]| {
        let mut ends = input.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        ends.nth(count - 1).map(|(at, _)| at + 1)
    };
    loop {
        if let Some(end) = end(input) {
            let text: Vec<u8> = input.drain(..end).collect();
            let text = String::from_utf8_lossy(&text).into_owned();
            return Ok(text.lines().map(|line| line.trim_end().to_owned()).collect());
        }
        if input.len() > MAX_HELLO_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read(input, MAX_HELLO_BYTES).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Sees to it that there is a connection with a peer.
async fn keep_connected(group: Rc<Group>, at: usize) {
    let peer = &group.peers[at];
    while !group.shared.is_stopping() {
        if peer.active.borrow().is_none() {
            let end = peer.occupy(true);
            let said = tokio::select! {
                // The peer has connected meanwhile.
                () = end.notified() => None,
                said = call(&group, &peer.server, peer.name()) => said.ok(),
            };
            if let Some((stream, input)) = said {
                let ask = group.learning.get() == Learning::Needed;
                // Whatever ended it: another one is made.
                let _ended = converse(&group, Some(at), stream, input, &end, ask).await;
            }
            peer.vacate(&end);
        }
        tokio::select! {
            () = group.shared.stopped() => {}
            () = sleep(RECONNECT_PAUSE) => {}
        }
    }
}

/// Connects and says hello; returns the connection and what was received beyond the answer.
async fn call(group: &Group, server: &Arc<ServerState>, name: &str) -> io::Result<(Stream, Vec<u8>)> {
    let address = match &server.config.addr {
        ServerAddr::Name(host, port) => resolve::lookup(host, *port).map(Address::Ip),
        _ => server.addr.load().address.clone(),
    };
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let hello = format!("{VERSION_LINE}\n{name}\n{} {} 1\n", group.local, group.shared.pid);
    let call = async {
        let options = ConnectOptions {
            source: server.config.source.address,
            namespace: server.namespace.clone(),
            md5_key: server.config.md5_key.clone(),
            ..ConnectOptions::default()
        };
        let mut stream = connect(&address, &options).await?;
        if server.config.ssl.is_some() {
            tls::connect(&mut stream, server, None, None).await?;
        }
        stream.write_all(hello.as_bytes()).await?;
        let mut input = Vec::new();
        let answer = lines(&mut stream, &mut input, 1).await?;
        match answer.first().map(String::as_str) {
            Some("200") => Ok((stream, input)),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    };
    timeout(HELLO_LIMIT, call).await?
}

/// Talks until one side ends it.  Without a peer (`None`) only lessons are given and taken.
async fn converse(
    group: &Group,
    peer: Option<usize>,
    mut stream: Stream,
    mut input: Vec<u8>,
    end: &Notify,
    ask: bool,
) -> io::Result<()> {
    let arrived = match peer {
        Some(at) => group.peers[at].arrived.borrow().clone(),
        None => vec![u64::MAX; group.tables.len()],
    };
    let number = peer.map_or(0, |at| group.peers[at].server.config.shard);
    let shard = Shard { number, of: group.shards };
    let mut session = Session::new(group.tables.clone(), arrived).only(shard);
    if ask {
        group.learning.set(Learning::Asked);
        session.ask();
    }
    let result = talk(group, &mut session, &mut stream, &mut input, end).await;
    if let Some(at) = peer {
        group.peers[at].arrived.replace(session.arrived);
    }
    if ask && group.learning.get() == Learning::Asked {
        group.learning.set(Learning::Needed);
    }
    result
}

async fn talk(
    group: &Group,
    session: &mut Session,
    stream: &mut Stream,
    input: &mut Vec<u8>,
    end: &Notify,
) -> io::Result<()> {
    let mut heard = Instant::now();
    let mut said = Instant::now();
    loop {
        let events = session.handle(input).map_err(|_| io::ErrorKind::InvalidData)?;
        for event in events {
            match event {
                Event::Taught { complete: true } => group.learning.set(Learning::Done),
                Event::Taught { complete: false } => {}
                Event::Learned if group.shared.is_stopping() => return Ok(()),
                Event::Learned => {}
            }
        }
        let next = group.news.next();
        group.news.read();
        session.talk(group.learning.get() == Learning::Done);
        let idle = session.output.is_empty();
        tokio::select! {
            () = end.notified() => return Ok(()),
            () = group.shared.stopped(), if !group.shared.is_stopping() => return Ok(()),
            moved = exchange(stream, input, &mut session.output) => match moved? {
                Moved::Received => heard = Instant::now(),
                Moved::Sent => said = Instant::now(),
            },
            () = next, if idle => {}
            () = sleep_until(said + HEARTBEAT), if idle => session.beat(),
            () = sleep_until(heard + SILENCE_LIMIT) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// What an [`exchange`] did.
enum Moved {
    Received,
    Sent,
}

/// Receives or sends, whichever is possible first.
async fn exchange(stream: &mut Stream, input: &mut Vec<u8>, output: &mut Vec<u8>) -> io::Result<Moved> {
    std::future::poll_fn(|cx| {
        if let Poll::Ready(count) = stream.poll_read(cx, input, READ_BYTES) {
            return Poll::Ready(match count? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(Moved::Received),
            });
        }
        if output.is_empty() {
            // What TLS still holds back goes now.
            return match stream.poll_flush(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                _ => Poll::Pending,
            };
        }
        stream.poll_write(cx, output).map_ok(|count| {
            output.drain(..count);
            Moved::Sent
        })
    })
    .await
}

/// Nobody taught this process in time: it knows what there is to know.
async fn give_up_learning(group: Rc<Group>) {
    sleep(LESSON_LIMIT).await;
    group.learning.set(Learning::Done);
}

/// After a soft stop: hands the tables to the process that has taken over the address, if there is one.
async fn teach_successor(worker: Rc<Worker>, group: Rc<Group>) {
    let address = group.binds.iter().find_map(|bind| match &bind.addr {
        BindAddr::Inet(address) if bind.ssl.is_none() => Some(Address::Ip(*address)),
        BindAddr::Unix(path) if bind.ssl.is_none() => Some(Address::Unix(path.clone())),
        _ => None,
    });
    let Some(address) = address else { return };
    // The thread does not end before this, as with a connection.
    worker.connections.set(worker.connections.get() + 1);
    group.shared.stopped().await;
    group.learning.set(Learning::Done);
    let lesson = async {
        loop {
            match give_lesson(&group, &address).await {
                // Nobody listens, or all is said.
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return,
                // It went to this process's own socket, which is being closed.
                Err(_) => sleep(LESSON_PAUSE).await,
            }
        }
    };
    // A successor that does not learn in time goes without.
    let _in_time = timeout(LESSON_LIMIT, lesson).await;
    worker.connections.set(worker.connections.get() - 1);
}

async fn give_lesson(group: &Group, address: &Address) -> io::Result<()> {
    let mut stream = connect(address, &ConnectOptions::default()).await?;
    let hello = format!("{VERSION_LINE}\n{0}\n{0} {1} 1\n", group.local, group.shared.pid);
    stream.write_all(hello.as_bytes()).await?;
    let mut input = Vec::new();
    match lines(&mut stream, &mut input, 1).await?.first().map(String::as_str) {
        Some("200") => converse(group, None, stream, input, &Notify::new(), false).await,
        _ => Ok(()),
    }
}
