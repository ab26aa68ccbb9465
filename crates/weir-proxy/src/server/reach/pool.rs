//! Idle connections to servers, kept by the thread that opened them.
//!
//! Takeover rules.  A connection stays on its thread until another thread without one that fits asks for it
//! (see [`crate::server::reach::takeover`]).  It is reused only for the same server and the same identity: TLS name, source address and PROXY
//! header contents are part of the key when the server line makes them vary.  `http-reuse` says for
//! whom: `never` for the client connection that opened it alone; `safe` for the first request of a
//! client connection only when the connection was shared by more than one client before; `aggressive`
//! also when it was reused at least once; `always` for everybody.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::HttpReuse;
use weir_http::h2;
use weir_net::Stream;

use crate::edge::H1Edge;
use crate::edge::h2::H2Shared;
use crate::server::reach::own::OwnConnection;
use crate::state::ServerState;
use crate::state::number_hash::NumberMap;
use weir_rules::facts::TlsFacts;

/// What makes two connections to a server interchangeable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PoolKey {
    /// Backend and server numbers.
    pub(crate) server: (usize, usize),
    /// Of the server's address and TLS.
    pub(crate) generation: u32,
    /// Hash of name, source and PROXY contents where they vary; 0 otherwise.
    pub(crate) identity: u64,
}

/// A connection that carries no request.
pub(crate) struct IdleH1 {
    pub(crate) edge: Box<H1Edge>,
    pub(crate) tls: Option<Rc<dyn TlsFacts>>,
    /// Boxed, for they move through the stages of a request.
    pub(crate) facts: Box<ConnectionFacts>,
}

/// What stays with a connection to a server from request to request.
#[derive(Clone)]
pub(crate) struct ConnectionFacts {
    /// The server, for its counters.
    pub(crate) server: Arc<ServerState>,
    /// Requests it carried.
    pub(crate) requests: u32,
    /// It was opened for a client connection of this number; 0 = shared since.
    pub(crate) owner: u64,
    /// It went through the pool and came back: safe for first requests with `aggressive`.
    pub(crate) proven: bool,
    /// When it became idle, milliseconds of the thread's clock.
    pub(crate) idle_since_ms: u64,
    /// Our address and the server's on it.
    pub(crate) local: Option<std::net::SocketAddr>,
    /// The server's address on it.
    pub(crate) remote: Option<std::net::SocketAddr>,
    /// The key it is found under.
    pub(crate) key: PoolKey,
    /// Its place among the connections to a server with `strict-maxconn`.
    pub(crate) place: Option<Arc<OpenPlace>>,
    /// It leads to a listener of this process.
    pub(crate) own: Option<Arc<OwnConnection>>,
}

/// A connection to a server with `strict-maxconn`, counted until this is dropped.
pub(crate) struct OpenPlace(Arc<ServerState>);

impl OpenPlace {
    /// One more, unless there are `maxconn` connections already.
    pub(crate) fn take(server: &Arc<ServerState>) -> Option<Arc<Self>> {
        server.open.enter_below(server.maxconn.load(Relaxed)).then(|| Arc::new(Self(Arc::clone(server))))
    }
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.0.open.leave();
    }
}

/// A multiplexed connection that may take more requests.
#[derive(Clone)]
pub(crate) struct SharedH2 {
    pub(crate) shared: Rc<H2Shared>,
    pub(crate) tls: Option<Rc<dyn TlsFacts>>,
    pub(crate) facts: Box<ConnectionFacts>,
}

/// One thread's idle connections.
#[derive(Default)]
pub(crate) struct Pool {
    h1: RefCell<NumberMap<PoolKey, Vec<IdleH1>>>,
    h2: RefCell<NumberMap<PoolKey, Vec<SharedH2>>>,
    /// Connections that belong to one client connection (`http-reuse never`), by its number.
    private: RefCell<NumberMap<u64, Vec<IdleH1>>>,
    /// Connections in `h1`.
    idle_h1: Cell<usize>,
}

/// Who asks for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Number of the client connection.
    pub(crate) client: u64,
    /// First request on it: the client would not send it again by itself.
    pub(crate) first_request: bool,
    /// The backend's `http-reuse`.
    pub(crate) reuse: HttpReuse,
}

impl Asker {
    /// The takeover rules above, as a function.
    pub(crate) fn may_take(&self, owner: u64, proven: bool) -> bool {
        use HttpReuse::{Aggressive, Always, Never, Safe};
        match self.reuse {
            _ if owner == self.client => true,
            Never => false,
            Always => true,
            Safe => !self.first_request,
            Aggressive => !self.first_request || proven,
        }
    }
}

impl Pool {
    /// The most recently used idle connection that fits and still looks alive.
    pub(crate) fn take_h1(&self, key: &PoolKey, asker: Asker, thread: usize) -> Option<IdleH1> {
        if asker.reuse == HttpReuse::Never {
            return self.take_private(key, asker.client);
        }
        let mut pools = self.h1.borrow_mut();
        let idle = pools.get_mut(key)?;
        let mut at = idle.len();
        while at > 0 {
            at -= 1;
            if !asker.may_take(idle[at].facts.owner, idle[at].facts.proven) {
                continue;
            }
            let mut found = idle.remove(at);
            self.leaves(&found, thread);
            if found.edge.stream.looks_alive() {
                return Some(found);
            }
        }
        None
    }

    /// The client connection's own connection to the server, if it still looks alive.
    fn take_private(&self, key: &PoolKey, client: u64) -> Option<IdleH1> {
        let mut private = self.private.borrow_mut();
        let own = private.get_mut(&client)?;
        let at = own.iter().position(|idle| idle.facts.key == *key)?;
        let mut found = own.swap_remove(at);
        found.edge.stream.looks_alive().then_some(found)
    }

    /// A client connection ended: what only it could use is closed.
    pub(crate) fn forget_client(&self, client: u64) {
        let mut private = self.private.borrow_mut();
        if !private.is_empty() {
            private.remove(&client);
        }
    }

    /// Keeps a connection for the next request, within the server's `pool-max-conn` and what is needed of them.
    pub(crate) fn give_h1(&self, mut idle: IdleH1, now_ms: u64, thread: usize, reuse: HttpReuse) {
        if reuse == HttpReuse::Never {
            idle.edge.release();
            self.private.borrow_mut().entry(idle.facts.owner).or_default().push(idle);
            return;
        }
        let server = Arc::clone(&idle.facts.server);
        let limit = server.config.pool_max_conn.unwrap_or(usize::MAX);
        let idle_now = server.idle.load(Relaxed);
        if idle_now >= limit || !server.is_running() {
            return;
        }
        // What was idle longest goes: the server may have closed it already, and this one it has not.
        if !is_needed(&server, idle_now, now_ms, thread) && !self.close_idle_h1_of(&server, thread) {
            return;
        }
        idle.edge.release();
        idle.facts.idle_since_ms = now_ms;
        server.idle.fetch_add(1, Relaxed);
        server.idle_by_thread[thread].fetch_add(1, Relaxed);
        let key = idle.facts.key.clone();
        self.idle_h1.set(self.idle_h1.get() + 1);
        self.h1.borrow_mut().entry(key).or_default().push(idle);
    }

    /// Counts a connection out of `h1`.
    fn leaves(&self, idle: &IdleH1, thread: usize) {
        idle.facts.server.idle.fetch_sub(1, Relaxed);
        idle.facts.server.idle_by_thread[thread].fetch_sub(1, Relaxed);
        self.idle_h1.set(self.idle_h1.get() - 1);
    }

    /// Idle HTTP/1 connections that anybody may use.
    pub(crate) fn idle_h1(&self) -> usize {
        self.idle_h1.get()
    }

    /// Closes the connection of some server that was idle longest.
    pub(crate) fn close_one(&self, thread: usize) {
        let mut pools = self.h1.borrow_mut();
        if let Some(idle) = pools.values_mut().find(|idle| !idle.is_empty()) {
            self.leaves(&idle.remove(0), thread);
        }
    }

    /// Closes an idle connection to a server, whoever may use it; false when there is none.
    pub(crate) fn close_idle_of(&self, server: &ServerState, thread: usize) -> bool {
        let wanted = |key: &PoolKey| key.server == (server.proxy, server.index);
        if self.close_idle_h1_of(server, thread) {
            return true;
        }
        let keys: Vec<PoolKey> = self.h2.borrow().keys().filter(|key| wanted(key)).cloned().collect();
        let anybody = Asker { client: 0, first_request: false, reuse: HttpReuse::Always };
        keys.iter().any(|key| self.remove_h2(key, anybody, thread).is_some())
    }

    /// Closes the HTTP/1 connection to a server that was idle longest of those that fit together; false when there is none.
    fn close_idle_h1_of(&self, server: &ServerState, thread: usize) -> bool {
        let mut pools = self.h1.borrow_mut();
        let wanted = |key: &PoolKey| key.server == (server.proxy, server.index);
        let found = pools.iter_mut().find(|(key, idle)| wanted(key) && !idle.is_empty());
        let Some((_, idle)) = found else { return false };
        self.leaves(&idle.remove(0), thread);
        true
    }

    /// A multiplexed connection with room for another stream.
    pub(crate) fn take_h2(&self, key: &PoolKey, asker: Asker, thread: usize) -> Option<SharedH2> {
        let mut pools = self.h2.borrow_mut();
        let shared = pools.get_mut(key)?;
        forget_dead(shared, thread);
        shared
            .iter()
            .find(|c| asker.may_take(c.facts.owner, c.facts.proven) && c.shared.core.borrow().can_open() > 0)
            .cloned()
    }

    /// Takes a multiplexed connection without requests off this thread, for another one.
    pub(crate) fn remove_h2(
        &self,
        key: &PoolKey,
        asker: Asker,
        thread: usize,
    ) -> Option<(SharedH2, Stream, h2::Connection)> {
        let mut pools = self.h2.borrow_mut();
        let shared = pools.get_mut(key)?;
        // Beside this list only the driver holds it: nobody is about to open a stream.
        let free = |c: &SharedH2| Rc::strong_count(&c.shared) <= 2;
        let found = shared.iter().enumerate().find_map(|(at, c)| {
            let wanted = asker.may_take(c.facts.owner, c.facts.proven) && free(c);
            wanted.then(|| c.shared.take_away()).flatten().map(|(stream, core)| (at, stream, core))
        });
        let (at, stream, core) = found?;
        let connection = shared.swap_remove(at);
        connection.facts.server.shared_by_thread[thread].fetch_sub(1, Relaxed);
        Some((connection, stream, core))
    }

    /// Offers a multiplexed connection to further requests.
    pub(crate) fn share_h2(&self, connection: SharedH2, thread: usize) {
        connection.facts.server.shared_by_thread[thread].fetch_add(1, Relaxed);
        self.h2.borrow_mut().entry(connection.facts.key.clone()).or_default().push(connection);
    }

    /// Closes connections that were idle longer than their server keeps them, or that died.
    pub(crate) fn purge(&self, now_ms: u64, thread: usize) {
        let mut pools = self.h1.borrow_mut();
        // Each list is looked through by itself: their order does not matter.
        pools.values_mut().for_each(|idle| {
            idle.retain_mut(|c| {
                let kept_ms = c.facts.server.config.pool_purge_delay.as_millis() as u64;
                let keep = now_ms.saturating_sub(c.facts.idle_since_ms) < kept_ms
                    && c.facts.server.is_running()
                    && c.edge.stream.looks_alive();
                if !keep {
                    self.leaves(c, thread);
                }
                keep
            });
        });
        pools.retain(|_, idle| !idle.is_empty());
        let mut shared = self.h2.borrow_mut();
        shared.values_mut().for_each(|connections| forget_dead(connections, thread));
        shared.retain(|_, connections| !connections.is_empty());
    }

    /// Closes everything, at the end of the thread.
    pub(crate) fn clear(&self) {
        self.h1.borrow_mut().clear();
        self.idle_h1.set(0);
        self.h2.borrow_mut().clear();
        self.private.borrow_mut().clear();
    }
}

/// Whether a connection that becomes idle will be used again: when this thread has none, or when all of them together
/// are no more than were needed at once.  Its request still counts as served.
fn is_needed(server: &ServerState, idle_now: usize, now_ms: u64, thread: usize) -> bool {
    let config = &server.config;
    let window_ms = config.pool_purge_delay.as_millis() as u64;
    if window_ms == 0 {
        // Manual, `pool-purge-delay`: 0 keeps none.
        return false;
    }
    let used = u64::try_from(server.served.now()).unwrap_or(0);
    let needed = server.need.estimate(used, now_ms, window_ms);
    let room = needed.saturating_add(config.pool_low_conn as u64);
    used + idle_now as u64 <= room || server.idle_by_thread[thread].load(Relaxed) == 0
}

fn forget_dead(connections: &mut Vec<SharedH2>, thread: usize) {
    connections.retain(|c| {
        let dead = c.shared.dead.get();
        if dead {
            c.facts.server.shared_by_thread[thread].fetch_sub(1, Relaxed);
        }
        !dead
    });
}
