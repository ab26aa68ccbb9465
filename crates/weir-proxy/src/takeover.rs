//! Idle connections to servers taken over from other threads.
//!
//! A connection lives on one thread.  Only when a thread has none that fits does it ask a thread that has:
//! the owner takes the connection off its event loop and sends it.  Under load every thread has its own
//! and nobody asks.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use weir_net::stream::Detached;

use crate::edge::H1Edge;
use crate::pool::{Asker, ConnectionFacts, IdleH1, PoolKey};
use crate::server_tls;
use crate::state::ServerState;
use crate::worker::Worker;

/// One thread asks another for an idle connection.
struct Request {
    key: PoolKey,
    asker: Asker,
    answer: oneshot::Sender<Option<Taken>>,
}

/// A connection on its way from one thread to another.
struct Taken {
    stream: Detached,
    server: Arc<ServerState>,
    requests: u32,
    owner: u64,
    proven: bool,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
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
        let taken = worker.pool.take_h1(&request.key, request.asker, worker.thread).and_then(detach);
        // Who asked may have gone: then the connection closes with the answer.
        let _answered = request.answer.send(taken);
    }
}

fn detach(idle: IdleH1) -> Option<Taken> {
    let IdleH1 { edge, facts, .. } = idle;
    let (stream, _) = edge.into_parts();
    let ConnectionFacts { server, requests, owner, proven, local, remote, .. } = facts;
    Some(Taken { stream: stream.detach().ok()?, server, requests, owner, proven, local, remote })
}

/// An idle connection of another thread that fits, when one has any for this server.
pub(crate) async fn take(
    worker: &Rc<Worker>,
    server: &ServerState,
    key: &PoolKey,
    asker: Asker,
) -> Option<IdleH1> {
    // Manual, `pool-low-conn`: with fewer idle connections than that, threads keep their own.
    let few = server.idle.load(Relaxed) < server.config.pool_low_conn;
    if few || !worker.config().global.tune.idle_pool_shared {
        return None;
    }
    for (thread, idle) in server.idle_by_thread.iter().enumerate() {
        if thread == worker.thread || idle.load(Relaxed) == 0 {
            continue;
        }
        let (answer, answered) = oneshot::channel();
        let request = Request { key: key.clone(), asker, answer };
        if worker.shared.exchangers.to[thread].send(request).is_err() {
            continue;
        }
        if let Ok(Some(taken)) = answered.await
            && let Some(idle) = attach(worker, taken, key)
        {
            return Some(idle);
        }
    }
    None
}

fn attach(worker: &Rc<Worker>, taken: Taken, key: &PoolKey) -> Option<IdleH1> {
    let stream = taken.stream.attach().ok()?;
    let tls = server_tls::facts(&stream).ok();
    let facts = ConnectionFacts {
        server: taken.server,
        requests: taken.requests,
        owner: taken.owner,
        proven: taken.proven,
        idle_since_ms: 0,
        local: taken.local,
        remote: taken.remote,
        key: key.clone(),
    };
    Some(IdleH1 { edge: Box::new(H1Edge::new(stream, Rc::clone(worker))), tls, facts })
}
