//! Reverse HTTP: connections whose ends have changed roles.
//!
//! A process that cannot be reached opens connections to one that can, and requests travel over them the other way.
//! [`attach`] is at the end that is reached (`tcp-request session attach-srv` and servers `rhttp@`), [`dial`] at the
//! other (`bind rhttp@backend/server`).  Both ends exchange HTTP/2's preface and SETTINGS as for any connection and
//! change roles before the first request.  Manual: "attach-srv", and "bind" for its addresses.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use weir_config::model::{Bind, BindAddr, Proxy};
use weir_net::timers::Deadline;
use weir_net::{Address, Stream};
use weir_rules::facts::{AttachServer, ProxyName};
use weir_rules::{Session, Txn};

use crate::client::{self, Entry};
use crate::edge::H1Edge;
use crate::edge::buffer::Buffer;
use crate::edge::h2::H2Shared;
use crate::edge::h2_settings;
use crate::log::level;
use crate::server::reach::pool::{ConnectionFacts, PoolKey, SharedH2};
use crate::server::reach::{self, Identity};
use crate::state::{ServerState, Shared};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Pause before another connection is opened in place of one that ended or could not be had.
const DIAL_PAUSE: Duration = Duration::from_secs(1);

/// Longest wait for connection, handshake and SETTINGS where the backend sets no `timeout connect`.
const DIAL_TIME: Duration = Duration::from_secs(5);

/// A connection over which the peer sends requests from now on.
pub(crate) struct Reversed {
    pub(crate) shared: Rc<H2Shared>,
    pub(crate) stream: Stream,
    pub(crate) input: Buffer,
    pub(crate) peer: Address,
}

/// Makes a client's connection one to a server of ours.
pub(crate) async fn attach(
    worker: &Rc<Worker>,
    front: &Proxy,
    session: &Session,
    to: &AttachServer,
    edge: Box<H1Edge>,
) {
    let Some(server) = find(&worker.shared, &to.backend, &to.server) else { return };
    let (mut stream, mut input) = edge.into_parts();
    let shared = H2Shared::new(h2_settings::server(worker.config()));
    if !change_roles(worker, &shared, &mut stream, &mut input, front.timeouts.client).await {
        return;
    }
    let facts = Box::new(ConnectionFacts {
        server: Arc::clone(&server),
        requests: 0,
        owner: 0,
        proven: true,
        idle_since_ms: 0,
        local: session.dst.get(),
        remote: session.src.get(),
        key: PoolKey {
            server: (server.proxy, server.index),
            generation: server.generation.load(Relaxed),
            identity: Identity::named(to.name.as_deref()).hash(),
        },
        // It was not opened from here.
        place: None,
        own: None,
    });
    let connection = SharedH2 { shared, tls: session.tls.clone(), facts };
    reach::multiplex(worker, connection, stream, input, true);
}

/// The server `backend/server`.
fn find(shared: &Shared, backend: &str, server: &str) -> Option<Arc<ServerState>> {
    let mut proxies = shared.config.proxies.iter().zip(&shared.proxies);
    let (_, state) = proxies.find(|(proxy, _)| proxy.backend && *proxy.name == *backend)?;
    state.server(server)
}

/// Exchanges SETTINGS and changes roles; false when the peer does not take part, or not in time.
async fn change_roles(
    worker: &Worker,
    shared: &H2Shared,
    stream: &mut Stream,
    input: &mut Buffer,
    time: Option<Duration>,
) -> bool {
    let mut deadline = Deadline::new();
    deadline.set_after(time.unwrap_or(DIAL_TIME));
    let established = poll_fn(|cx| {
        // A request before the roles are settled is not answered: the connection ends.
        let mut asked = false;
        let driven = shared.poll_drive(cx, stream, input, worker, &mut |_, _| asked = true);
        if driven.is_ready() || asked {
            return Poll::Ready(false);
        }
        if shared.core.borrow().is_established() {
            return Poll::Ready(true);
        }
        deadline.poll_expired(cx).map(|()| false)
    })
    .await;
    established && shared.core.borrow_mut().reverse()
}

/// Keeps `nbconn` connections open for each bind line `rhttp@` of the configuration, spread over the threads.
pub(crate) fn start(worker: &Rc<Worker>) {
    for (front, proxy) in worker.config().proxies.iter().enumerate() {
        for bind in proxy.binds.iter().filter(|_| proxy.frontend && !proxy.disabled) {
            let BindAddr::Reverse(name) = &bind.addr else { continue };
            let found = name.split_once('/').and_then(|(backend, name)| find(&worker.shared, backend, name));
            let Some(server) = found else { continue };
            let Some(entry) = entry(worker, front, bind).map(Rc::new) else { continue };
            let mine = (0..bind.nbconn as usize).filter(|n| n % worker.shared.threads == worker.thread);
            for _ in mine {
                let dialling = dial(Rc::clone(worker), Rc::clone(&entry), Arc::clone(&server));
                spawn_vital(dialling);
            }
        }
    }
}

fn entry(worker: &Worker, front: usize, bind: &Bind) -> Option<Entry> {
    Some(Entry {
        front,
        bind: bind.clone(),
        name: bind.name.clone().unwrap_or_else(|| "".into()),
        tls: None,
        parse: worker.request_options(worker.proxy(front)),
        state: Arc::clone(worker.state(front).listener(bind.id)?),
        // Its connections are not accepted: they stay on the thread that opened them.
        queues: Arc::default(),
    })
}

/// Opens a connection, serves what comes over it, opens the next one, until the soft stop.
async fn dial(worker: Rc<Worker>, entry: Rc<Entry>, server: Arc<ServerState>) {
    let mut failing = false;
    while !worker.shared.is_stopping() {
        match open(&worker, &entry, &server).await {
            Some(reversed) => {
                failing = false;
                client::serve_reversed(&worker, &entry, reversed).await;
            }
            None if failing => {}
            None => {
                failing = true;
                let front = worker.proxy(entry.front);
                let name = &server.config.name;
                let message =
                    format!("Proxy {}: no connection for requests through server {name}", front.name);
                worker.logger.send(&front.logs, level::NOTICE, front.log_tag.as_deref(), message.as_bytes());
            }
        }
        tokio::select! {
            () = worker.shared.stopped() => return,
            () = tokio::time::sleep(DIAL_PAUSE) => {}
        }
    }
}

/// A connection to the server that takes requests from there; `None` when it cannot be had now.
async fn open(worker: &Rc<Worker>, entry: &Entry, server: &Arc<ServerState>) -> Option<Reversed> {
    let front = worker.proxy(entry.front);
    let time = worker.proxy(server.proxy).timeouts.connect.unwrap_or(DIAL_TIME);
    let name = ProxyName { name: Arc::clone(&front.name), id: front.id, index: entry.front };
    let txn = Txn::new(Rc::new(Session::new(name, Arc::clone(&entry.name))), Rc::clone(&worker.env));
    let identity = Identity::without_client(&txn, server);
    let options = reach::socket_options(worker, server);
    let opened =
        tokio::time::timeout(time, reach::open(None, server, &identity, options)).await.ok()?.ok()?;
    let reach::Opened { mut stream, h2: true, .. } = opened else { return None };
    let mut input = Buffer::default();
    let shared = H2Shared::new(h2_settings::client(worker.config()));
    let reversed = change_roles(worker, &shared, &mut stream, &mut input, Some(time)).await;
    let peer = server.addr.load().address.clone()?;
    reversed.then_some(Reversed { shared, stream, input, peer })
}
