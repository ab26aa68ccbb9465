//! Idle connections to servers taken over from other threads.
//!
//! A connection lives on one thread.  Only when a thread has none that fits does it ask a thread that has:
//! the owner takes the connection off its event loop and sends it; one over HTTP/2 only while no request is on
//! it.  Under load every thread has its own and nobody asks.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use weir_http::h2;
use weir_net::Stream;
use weir_net::stream::Detached;

use crate::edge::H1Edge;
use crate::edge::buffer::Buffer;
use crate::edge::h2::H2Shared;
use crate::server::reach;
use crate::server::reach::own::OwnConnection;
use crate::server::reach::pool::{Asker, ConnectionFacts, IdleH1, OpenPlace, PoolKey, SharedH2};
use crate::server::reach::tls;
use crate::state::ServerState;
use crate::thread::worker::Worker;

/// One thread asks another for an idle connection.
enum Request {
    Take {
        key: PoolKey,
        asker: Asker,
        answer: oneshot::Sender<Option<Taken>>,
    },
    /// To close one, whomever it fits; the answer says whether there was one.
    Close {
        server: Arc<ServerState>,
        answer: oneshot::Sender<bool>,
    },
}

/// A connection on its way from one thread to another.
struct Taken {
    stream: Detached,
    /// HTTP/2's state, on a connection that speaks it.
    h2: Option<Box<h2::Connection>>,
    server: Arc<ServerState>,
    requests: u32,
    owner: u64,
    proven: bool,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    place: Option<Arc<OpenPlace>>,
    own: Option<Arc<OwnConnection>>,
}

/// A connection that was taken over.
pub(crate) enum Found {
    H1(IdleH1),
    /// It is in this thread's pool now.
    H2(SharedH2),
}

/// The ways between threads.
pub(crate) struct Exchangers {
    to: Vec<mpsc::UnboundedSender<Request>>,
    /// Taken by each thread when it starts.
    inboxes: Mutex<Vec<Option<mpsc::UnboundedReceiver<Request>>>>,
}

impl Exchangers {
    pub(crate) fn new(threads: usize) -> Self {
        let (to, inboxes) = (0..threads)
            .map(|_| {
                // Bounded by the requests in progress: each waits for its own answer.
                let (sender, receiver) = mpsc::unbounded_channel();
                (sender, Some(receiver))
            })
            .unzip();
        Self { to, inboxes: Mutex::new(inboxes) }
    }
}

/// Answers other threads' requests, for as long as the thread runs.
pub(crate) async fn serve(worker: Rc<Worker>) {
    let inbox = {
        let mut inboxes = worker.shared.exchangers.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.get_mut(worker.thread).and_then(Option::take)
    };
    let Some(mut inbox) = inbox else { return };
    while let Some(request) = inbox.recv().await {
        // Who asked may have gone: then the connection closes with the answer.
        let _answered = match request {
            Request::Take { key, asker, answer } => answer.send(give(&worker, &key, asker)).is_ok(),
            Request::Close { server, answer } => {
                answer.send(worker.pool.close_idle_of(&server, worker.thread)).is_ok()
            }
        };
    }
}

/// An idle connection of this thread that fits.
fn give(worker: &Worker, key: &PoolKey, asker: Asker) -> Option<Taken> {
    match worker.pool.take_h1(key, asker, worker.thread) {
        Some(IdleH1 { edge, facts, .. }) => detach(edge.into_parts().0, None, *facts),
        None => {
            let (SharedH2 { facts, .. }, stream, core) = worker.pool.remove_h2(key, asker, worker.thread)?;
            detach(stream, Some(Box::new(core)), *facts)
        }
    }
}

fn detach(stream: Stream, h2: Option<Box<h2::Connection>>, facts: ConnectionFacts) -> Option<Taken> {
    let ConnectionFacts { server, requests, owner, proven, local, remote, place, own, .. } = facts;
    Some(Taken {
        stream: stream.detach().ok()?,
        h2,
        server,
        requests,
        owner,
        proven,
        local,
        remote,
        place,
        own,
    })
}

/// An idle connection of another thread that fits, when one has any for this server.
pub(crate) async fn take(
    worker: &Rc<Worker>,
    server: &ServerState,
    key: &PoolKey,
    asker: Asker,
) -> Option<Found> {
    // Manual, `pool-low-conn`: with fewer idle connections than that, threads keep their own.
    let few = server.idle.load(Relaxed) < server.config.pool_low_conn;
    if few || !worker.config().global.tune.idle_pool_shared {
        return None;
    }
    for thread in others_with_idle(worker, server) {
        let (answer, answered) = oneshot::channel();
        let request = Request::Take { key: key.clone(), asker, answer };
        if worker.shared.exchangers.to[thread].send(request).is_err() {
            continue;
        }
        if let Ok(Some(taken)) = answered.await
            && let Some(found) = attach(worker, taken, key)
        {
            return Some(found);
        }
    }
    None
}

/// Lets another thread close an idle connection to a server; false when none had one.
pub(crate) async fn close_one(worker: &Worker, server: &Arc<ServerState>) -> bool {
    for thread in others_with_idle(worker, server) {
        let (answer, answered) = oneshot::channel();
        let request = Request::Close { server: Arc::clone(server), answer };
        if worker.shared.exchangers.to[thread].send(request).is_ok() && answered.await.unwrap_or(false) {
            return true;
        }
    }
    false
}

/// The other threads that have idle connections to a server.
fn others_with_idle(worker: &Worker, server: &ServerState) -> impl Iterator<Item = usize> {
    let counts = server.idle_by_thread.iter().zip(&server.shared_by_thread);
    let with_some = counts.enumerate().filter(|(thread, (idle, shared))| {
        *thread != worker.thread && idle.load(Relaxed) + shared.load(Relaxed) > 0
    });
    with_some.map(|(thread, _)| thread)
}

fn attach(worker: &Rc<Worker>, taken: Taken, key: &PoolKey) -> Option<Found> {
    let stream = taken.stream.attach().ok()?;
    let tls = tls::facts(&stream).ok();
    let facts = Box::new(ConnectionFacts {
        server: taken.server,
        requests: taken.requests,
        owner: taken.owner,
        proven: taken.proven,
        idle_since_ms: 0,
        local: taken.local,
        remote: taken.remote,
        key: key.clone(),
        place: taken.place,
        own: taken.own,
    });
    Some(match taken.h2 {
        Some(core) => {
            let connection = SharedH2 { shared: H2Shared::new(*core), tls, facts };
            reach::multiplex(worker, connection.clone(), stream, Buffer::default(), true);
            Found::H2(connection)
        }
        None => Found::H1(IdleH1 { edge: Box::new(H1Edge::new(stream, Rc::clone(worker))), tls, facts }),
    })
}
