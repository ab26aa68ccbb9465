//! A client's connection: handshakes, the choice of protocol, and one exchange after another on it.

pub(crate) mod reverse;
pub(crate) mod tcp;

pub(crate) mod glitches;
mod h1;
mod h2;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, ready};
use std::time::Duration;

use weir_config::model::{Bind, Mode, Proto, Proxy};
use weir_http::h1::ParseOptions;
use weir_http::{Request, netscaler, proxy_protocol};
use weir_net::connect::KeepAlive;
use weir_net::listen::Accepted;
use weir_net::timers::{ClockHeld, Deadline, now_ms, now_us};
use weir_net::{Address, Stream};
use weir_rules::facts::ProxyName;
use weir_rules::{Flow, Rule, Session, Txn, action};

use crate::accept::queue::AcceptQueues;
use crate::client::reverse::Reversed;
use crate::client::tcp::Switch;
use crate::edge::{Edge, H1Edge};
use crate::exchange::{self, Exchange, Stop, ms_between};
use crate::finish;
use crate::log::early::{self, EarlyError};
use crate::server::reach::tls::{self, Acceptor};
use crate::state::counters::Counter;
use crate::state::stick_track;
use crate::state::{ListenerState, Shared};
use crate::thread::worker::Worker;

/// Grace for an idle connection when a soft stop begins: a request that is on its way is still answered.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Longest time spent on what a client still sends, or has not read yet, while it is being closed.
const LINGER: Duration = Duration::from_secs(1);

/// What is known of a bind line at run time.
pub(crate) struct Entry {
    /// Index of the frontend.
    pub(crate) front: usize,
    pub(crate) bind: Bind,
    pub(crate) name: Arc<str>,
    pub(crate) tls: Option<Arc<Acceptor>>,
    pub(crate) parse: ParseOptions,
    /// Its state, shared by all threads.
    pub(crate) state: Arc<ListenerState>,
    /// The threads that serve its socket.
    pub(crate) queues: Arc<AcceptQueues>,
}

impl Entry {
    /// Counts a connection in that `thread` serves.
    pub(crate) fn enter(&self, shared: &Shared, thread: usize) {
        self.state.enter(shared);
        self.queues.enter(thread);
    }

    /// Counts for the frontend and the listener.
    fn count(&self, worker: &Worker, counter: Counter) {
        worker.count_front(self.front, counter, 1);
        self.state.count(worker.thread, counter, 1);
    }
}

/// Counts a connection in and out.
struct Presence {
    worker: Rc<Worker>,
    entry: Rc<Entry>,
}

impl Presence {
    fn new(worker: &Rc<Worker>, entry: &Rc<Entry>) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        entry.enter(&worker.shared, worker.thread);
        Self { worker: Rc::clone(worker), entry: Rc::clone(entry) }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.worker.connections.set(self.worker.connections.get() - 1);
        self.entry.queues.leave(self.worker.thread);
        self.entry.state.leave(&self.worker.shared);
    }
}

/// Serves a connection from accept to close.  The accepting side has counted it in `Shared::connections`.
///
/// What an idle HTTP/1 client needs is small: everything else is on the heap while it lasts, what was accepted
/// included.
pub(crate) fn serve(
    worker: Rc<Worker>,
    entry: Rc<Entry>,
    accepted: Box<Accepted>,
) -> impl Future<Output = ()> {
    let presence = Presence::new(&worker, &entry);
    async move {
        // Bound first: what stands in a condition lives as long as what depends on it.
        let opened = Box::pin(open(&presence.worker, &presence.entry, *accepted)).await;
        if let Some((session, edge)) = opened {
            Client::new(&presence, session).requests(edge).await;
        }
    }
}

/// A client behind the handshakes, apart from its edge.
pub(crate) struct Client<'a> {
    worker: &'a Rc<Worker>,
    entry: &'a Rc<Entry>,
    session: Rc<Session>,
    /// Number of the connection.
    client_id: u64,
    /// Of the connection's waits; an exchange has its own.
    deadline: Deadline,
}

impl<'a> Client<'a> {
    fn new(presence: &'a Presence, session: Rc<Session>) -> Self {
        let Presence { worker, entry } = presence;
        Self { worker, entry, session, client_id: worker.next_client_id(), deadline: Deadline::new() }
    }

    /// Serves what the client asks for.  What is captured stays where it is: as a function's arguments it would stand
    /// in an idle client's task twice.
    fn requests(self, edge: Box<H1Edge>) -> impl Future<Output = ()> + 'a {
        let mut client = self;
        async move {
            match client.worker.proxy(client.entry.front).mode {
                Mode::Http if client.session.http_major == 2 => {
                    ClockHeld(Box::pin(h2::serve(&mut client, edge))).await;
                }
                Mode::Http => {
                    if let Some(edge) = client.h1(edge).await {
                        ClockHeld(Box::pin(h2::serve(&mut client, edge))).await;
                    }
                }
                _ => Box::pin(client.tcp(edge)).await,
            }
        }
    }

    /// Bytes both ways, unless the first ones turn out to be HTTP's.
    async fn tcp(&mut self, edge: Box<H1Edge>) {
        let Some(Switch { mut exchange, version }) = tcp::serve(self, edge).await else { return };
        let Edge::H1(edge) = &mut exchange.client else { return };
        edge.end_tunnel();
        let version = match version {
            Some(version) => version,
            None => self.version(edge).await,
        };
        if version == 2 {
            // Its streams are exchanges of their own.
            if let Edge::H1(edge) = finish::dissolve(exchange) {
                ClockHeld(Box::pin(h2::serve(self, edge))).await;
            }
            return;
        }
        self.session = Rc::new(upgraded(&self.session, version));
        exchange.txn.session = Rc::clone(&self.session);
        if let Some(edge) = self.h1_switched(exchange).await {
            ClockHeld(Box::pin(h2::serve(self, edge))).await;
        }
    }

    /// An exchange with this client.
    pub(crate) fn exchange(&self, edge: Edge, request: Request, started_us: u64) -> Box<Exchange> {
        Exchange::new(self.worker, &self.session, edge, request, self.client_id, started_us)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.worker.forget_client(self.client_id);
        stick_track::session_ends(&self.worker.shared, &self.session);
    }
}

/// Everything before the first request: rules on the connection, PROXY header, TLS, rules on the session.
async fn open(
    worker: &Rc<Worker>,
    entry: &Rc<Entry>,
    accepted: Accepted,
) -> Option<(Rc<Session>, Box<H1Edge>)> {
    let Accepted { stream, peer } = accepted;
    let accepted_us = now_us();
    let front = Rc::clone(worker.proxy(entry.front));
    let mut session = new_session(worker, entry, &front, &stream, peer);
    let Some(edge) = prepare(worker, entry, &front, &mut session, stream).await else {
        stick_track::session_ends(&worker.shared, &session);
        return None;
    };
    let ready_us = now_us();
    session.handshake_ms.set(ms_between(accepted_us, ready_us));
    session.idle_since_us.set(ready_us);
    stick_track::session_begins(&worker.shared, &session);
    Some((Rc::new(session), edge))
}

/// The steps of [`open`]; `None` when the connection ends with them.
async fn prepare(
    worker: &Rc<Worker>,
    entry: &Rc<Entry>,
    front: &Proxy,
    session: &mut Session,
    stream: Stream,
) -> Option<Box<H1Edge>> {
    let state = worker.state(entry.front);
    entry.count(worker, Counter::Connections);
    state.connection_rate.hit(now_ms());
    prepare_socket(front, &stream);
    let accepted = (session.src.get(), session.dst.get());
    if !run_connection_rules(worker, &front.tcp_request_connection, session, &stream) {
        entry.count(worker, Counter::DeniedConnections);
        return None;
    }
    let ruled = (session.src.get(), session.dst.get());
    let mut deadline = Deadline::new();
    if let Some(time) = front.timeouts.client_hs.or(front.timeouts.client) {
        deadline.set_after(time);
    }
    let mut edge = Box::new(H1Edge::new(stream, Rc::clone(worker)));
    edge.adjust_case = front.options.h1_case_adjust_bogus_client;
    let expects = session.expects.get();
    if (entry.bind.accept_proxy || expects.proxy)
        && let Err(error) = receive_proxy_header(&mut edge, session, &mut deadline).await
    {
        ended_early(worker, entry, session, error);
        return None;
    }
    // As HAProxy, a rule expects the magic number of the bind line, or 0 where that has none.
    let netscaler_magic = entry.bind.accept_netscaler_cip.or_else(|| expects.netscaler_cip.then_some(0));
    if let Some(magic) = netscaler_magic {
        match receive_header(&mut edge, &mut deadline, |bytes| netscaler::parse(bytes, magic)).await {
            Ok((src, dst)) => {
                session.src.set(Some(src));
                session.dst.set(Some(dst));
            }
            Err(error) => {
                ended_early(worker, entry, session, error);
                return None;
            }
        }
    }
    let told = session.proxy_header || netscaler_magic.is_some();
    // What a rule set stays the connection's; the PROXY header's addresses are the session's then.
    if ruled.0 != accepted.0 && told {
        session.override_with(session.src.replace(ruled.0), None);
    }
    if ruled.1 != accepted.1 && told {
        session.override_with(None, session.dst.replace(ruled.1));
    }
    if let Some(acceptor) = &entry.tls {
        worker.shared.tls_rate.hit(now_ms());
        worker.shared.total_tls.fetch_add(1, Relaxed);
        let received = edge.take_input();
        // RFC 8446 appendix E.5: only with a protocol that says what early data means, as RFC 8470 does for HTTP.
        let takes_early = front.mode == Mode::Http;
        let handshake = acceptor.accept(&mut edge.stream, &received, takes_early);
        let facts = match with_deadline(&mut deadline, handshake).await {
            Some(Ok(facts)) => facts,
            failed => {
                let error = failed.and_then(Result::err);
                session.tls = tls::facts_of_failed(&edge.stream);
                let error = EarlyError::of_client(error.as_ref(), session.tls.as_deref());
                ended_early(worker, entry, session, error);
                return None;
            }
        };
        if !facts.resumed() {
            worker.shared.tls_key_rate.hit(now_ms());
        }
        session.http_major = if facts.alpn() == Some(b"h2") { 2 } else { 1 };
        session.tls = Some(facts);
    }
    if entry.bind.proto == Some(Proto::H2) {
        session.http_major = 2;
    }
    if front.mode != Mode::Http {
        session.http_major = 0;
    }
    if !run_connection_rules(worker, &front.tcp_request_session, session, &edge.stream) {
        entry.count(worker, Counter::DeniedSessions);
        return None;
    }
    let attach = session.attach.take();
    if let Some(attach) = attach {
        reverse::attach(worker, front, session, &attach, edge).await;
        return None;
    }
    count_session(worker, entry);
    Some(edge)
}

/// Counts and logs a connection that ends before its first request.
fn ended_early(worker: &Rc<Worker>, entry: &Entry, session: &mut Session, error: EarlyError) {
    entry.count(worker, Counter::RequestErrors);
    let ended = std::mem::replace(session, placeholder(session));
    let env = Rc::clone(&worker.env);
    early::connection(&worker.logger, worker.proxy(entry.front), ended, env, error);
}

fn count_session(worker: &Worker, entry: &Entry) {
    entry.count(worker, Counter::Sessions);
    worker.state(entry.front).session_rate.hit(now_ms());
    worker.shared.session_rate.hit(now_ms());
}

/// Serves an HTTP/2 connection that this process opened and over which the peer sends requests.
pub(crate) async fn serve_reversed(worker: &Rc<Worker>, entry: &Rc<Entry>, reversed: Reversed) {
    let Reversed { shared, stream, input, peer } = reversed;
    worker.shared.connections.fetch_add(1, Relaxed);
    worker.shared.total_connections.fetch_add(1, Relaxed);
    let presence = Presence::new(worker, entry);
    let front = Rc::clone(worker.proxy(entry.front));
    entry.count(worker, Counter::Connections);
    let mut session = new_session(worker, entry, &front, &stream, peer);
    session.http_major = 2;
    session.idle_since_us.set(now_us());
    let rules = [
        (&front.tcp_request_connection, Counter::DeniedConnections),
        (&front.tcp_request_session, Counter::DeniedSessions),
    ];
    for (rules, denied) in rules {
        if !run_connection_rules(worker, rules, &mut session, &stream) {
            entry.count(worker, denied);
            return;
        }
    }
    count_session(worker, entry);
    stick_track::session_begins(&worker.shared, &session);
    let mut client = Client::new(&presence, Rc::new(session));
    ClockHeld(Box::pin(h2::streams(&mut client, shared, (stream, input)))).await;
}

/// `option clitcpka`
fn prepare_socket(front: &Proxy, stream: &Stream) {
    if front.options.clitcpka {
        let probes = &front.clitcpka;
        let probes = KeepAlive { idle: probes.idle, interval: probes.interval, count: probes.count };
        // Unix sockets have no probes and need none.
        let _set = weir_net::connect::set_keepalive(stream, probes);
    }
}

fn new_session(worker: &Worker, entry: &Entry, front: &Proxy, stream: &Stream, peer: Address) -> Session {
    let socket_addr = |address: Address| address.socket_addr();
    let dst = stream.local_addr().ok().and_then(socket_addr);
    let name = ProxyName { name: Arc::clone(&front.name), id: front.id, index: entry.front };
    Session {
        src: Cell::new(socket_addr(peer)),
        dst: Cell::new(dst),
        listener_id: entry.bind.id,
        http_major: 1,
        socket: Cell::new(Some(std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(stream)))),
        accept_us: worker.env.wall_us(),
        ..Session::new(name, Arc::clone(&entry.name))
    }
}

/// `tcp-request connection` or `session` rules; false closes the connection.
fn run_connection_rules(worker: &Rc<Worker>, rules: &[Rule], session: &mut Session, stream: &Stream) -> bool {
    if rules.is_empty() {
        return true;
    }
    // Rules look at transactions; the connection lends itself to one for as long as they run.
    let lent = std::mem::replace(session, placeholder(session));
    let mut txn = Txn::new(Rc::new(lent), Rc::clone(&worker.env));
    let flow = action::run(rules, 0, &mut txn);
    let Txn { session: back, .. } = txn;
    if let Some(back) = Rc::into_inner(back) {
        *session = back;
    }
    if let Flow::Drop { silent: true } = flow {
        stream.vanish(session.reset_ttl.get());
    }
    matches!(flow, Flow::Done | Flow::Allow)
}

/// Stands in for a session while rules hold the real one.
fn placeholder(session: &Session) -> Session {
    let names = (session.frontend.clone(), Arc::clone(&session.listener_name));
    Session { http_major: 1, ..Session::new(names.0, names.1) }
}

/// Waits for a future, at most until the deadline.
async fn with_deadline<T>(deadline: &mut Deadline, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(done) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        deadline.poll_expired(cx).map(|()| None)
    })
    .await
}

/// Receives the PROXY protocol's header into the session.
async fn receive_proxy_header(
    edge: &mut H1Edge,
    session: &mut Session,
    deadline: &mut Deadline,
) -> Result<(), EarlyError> {
    let header = receive_header(edge, deadline, proxy_protocol::parse).await?;
    session.proxy_header = true;
    if header.command == proxy_protocol::Command::Proxy
        && let Some((src, dst)) = header.addresses.ip()
    {
        session.src.set(Some(src));
        session.dst.set(Some(dst));
    }
    session.proxy_tlvs = header.tlvs().map(|(kind, value)| (kind, value.into())).collect();
    Ok(())
}

/// Receives what stands before the first data.
async fn receive_header<T, E>(
    edge: &mut H1Edge,
    deadline: &mut Deadline,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
) -> Result<T, EarlyError> {
    poll_fn(|cx| {
        loop {
            match parse(edge.input.unread()) {
                Ok(Some((header, used))) => {
                    edge.input.consume(used);
                    return Poll::Ready(Ok(header));
                }
                Err(_) => return Poll::Ready(Err(EarlyError::ProxyHeaderWrong)),
                Ok(None) => {}
            }
            if deadline.poll_expired(cx).is_ready() {
                return Poll::Ready(Err(EarlyError::ProxyHeaderLate));
            }
            match ready!(edge.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(EarlyError::ProxyHeaderMissing)),
                Ok(_) => {}
            }
        }
    })
    .await
}

/// The session of a connection that began in another version of HTTP, or in TCP mode.
fn upgraded(session: &Session, version: u8) -> Session {
    let mut upgraded = placeholder(session);
    upgraded.src.set(session.src.get());
    upgraded.dst.set(session.dst.get());
    upgraded.overrides = RefCell::new(session.overrides.take());
    upgraded.listener_id = session.listener_id;
    upgraded.tls.clone_from(&session.tls);
    upgraded.proxy_tlvs.clone_from(&session.proxy_tlvs);
    upgraded.proxy_header = session.proxy_header;
    upgraded.socket.set(session.socket.get());
    upgraded.accept_us = session.accept_us;
    upgraded.idle_since_us.set(session.idle_since_us.get());
    upgraded.vars = RefCell::new(session.vars.take());
    upgraded.tracked = RefCell::new(session.tracked.take());
    upgraded.log_level.set(session.log_level.get());
    upgraded.http_major = version;
    upgraded
}

/// Answers what is not a request.
async fn refused(mut x: Box<Exchange>, cause: u8, status: u16) -> exchange::Finished {
    // There is no request: rules on responses have nothing to look at.
    x.unread = true;
    x.terminated(cause, b'R');
    x.close_client = true;
    x.count_front(Counter::RequestErrors, 1);
    stick_track::request_begins(&x.worker.shared, &x.txn);
    let front = x.worker.proxy(x.front);
    let quiet = front.options.http_ignore_probes && cause != b'P';
    let stop = if quiet { Stop::Drop { silent: false } } else { x.error(status) };
    if quiet {
        x.txn.log_level = Some(crate::log::level::SILENT);
    }
    finish::finish(x, Some(stop)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl Fn(Rc<Worker>, Rc<Entry>, Box<Accepted>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_waits_for_a_request_is_small() {
        // With what the runtime adds it has to fit into 384 bytes: there is one for each idle client.
        assert!(size_of_future(serve) <= 256, "{}", size_of_future(serve));
    }
}
