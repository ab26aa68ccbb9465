//! A client's connection: handshakes, the choice of protocol, and one exchange after another on it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, ready};
use std::time::Duration;

use weir_config::model::{Bind, Mode, Proto, Proxy};
use weir_http::h1::{ParseError, ParseOptions};
use weir_http::{Method, Request, netscaler, proxy_protocol};
use weir_net::connect::KeepAlive;
use weir_net::listen::Accepted;
use weir_net::timers::{ClockHeld, Deadline, now_ms};
use weir_net::{Address, Stream};
use weir_rules::txn::ProxyName;
use weir_rules::{Flow, Rule, Session, Txn, action};

use crate::accept_queue::AcceptQueues;
use crate::buffer::Buffer;
use crate::counters::Counter;
use crate::edge::h2::{H2Shared, Incoming};
use crate::edge::{Edge, EdgeError, H1Edge};
use crate::exchange::{self, Exchange, Stop};
use crate::reverse::Reversed;
use crate::server_tls::Acceptor;
use crate::state::{ListenerState, Shared};
use crate::stick_track::{self, SessionEnd};
use crate::worker::Worker;
use crate::{finish, h2_settings, reverse, tcp};

/// Grace for an idle connection when a soft stop begins: a request that is on its way is still answered.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Longest time and most bytes spent on reading what a client still sends while it is being closed.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_MAX_BYTES: usize = 1024 * 1024;

/// The HTTP/2 preface (RFC 9113 section 3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

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
        shared.proxies[self.front].front_current.enter();
        self.state.current.enter();
        self.queues.enter(thread);
        if self.tls.is_some() {
            shared.tls_connections.fetch_add(1, Relaxed);
        }
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
    tls: bool,
}

impl Presence {
    fn new(worker: &Rc<Worker>, entry: &Rc<Entry>) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        entry.enter(&worker.shared, worker.thread);
        Self { worker: Rc::clone(worker), entry: Rc::clone(entry), tls: entry.tls.is_some() }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let shared = &self.worker.shared;
        self.worker.connections.set(self.worker.connections.get() - 1);
        self.worker.state(self.entry.front).front_current.leave();
        self.entry.state.current.leave();
        self.entry.queues.leave(self.worker.thread);
        if self.tls {
            shared.tls_connections.fetch_sub(1, Relaxed);
        }
        shared.connection_ended();
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
            requests(&presence.worker, &presence.entry, session, edge).await;
        }
        drop(presence);
    }
}

/// Everything behind the handshakes.
async fn requests(worker: &Rc<Worker>, entry: &Rc<Entry>, session: Rc<Session>, edge: Box<H1Edge>) {
    let client_id = worker.next_client_id();
    let tracking = SessionEnd(Rc::clone(worker), Rc::clone(&session));
    match worker.proxy(entry.front).mode {
        Mode::Http if session.http_major == 2 => {
            ClockHeld(Box::pin(h2(worker, entry, session, edge, client_id))).await;
        }
        Mode::Http => {
            let upgraded = h1(worker, entry, session, edge, client_id).await;
            if let Some((session, edge)) = upgraded {
                ClockHeld(Box::pin(h2(worker, entry, session, edge, client_id))).await;
            }
        }
        _ => Box::pin(tcp::serve(worker, entry, session, edge, client_id)).await,
    }
    worker.forget_client(client_id);
    drop(tracking);
}

/// Everything before the first request: rules on the connection, PROXY header, TLS, rules on the session.
async fn open(
    worker: &Rc<Worker>,
    entry: &Rc<Entry>,
    accepted: Accepted,
) -> Option<(Rc<Session>, Box<H1Edge>)> {
    let Accepted { stream, peer } = accepted;
    let front = Rc::clone(worker.proxy(entry.front));
    let mut session = new_session(worker, entry, &front, &stream, peer);
    let Some(edge) = prepare(worker, entry, &front, &mut session, stream).await else {
        stick_track::session_ends(&worker.shared, &session);
        return None;
    };
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
    if entry.bind.accept_proxy && !receive_proxy_header(&mut edge, session, &mut deadline).await {
        entry.count(worker, Counter::RequestErrors);
        return None;
    }
    if let Some(magic) = entry.bind.accept_netscaler_cip {
        let header = receive_header(&mut edge, &mut deadline, |bytes| netscaler::parse(bytes, magic)).await;
        let Some((src, dst)) = header else {
            entry.count(worker, Counter::RequestErrors);
            return None;
        };
        session.src.set(Some(src));
        session.dst.set(Some(dst));
    }
    let told = session.proxy_header || entry.bind.accept_netscaler_cip.is_some();
    // What a rule set stays the connection's; the PROXY header's addresses are the session's then.
    if ruled.0 != accepted.0 && told {
        session.session_src.set(session.src.replace(ruled.0));
    }
    if ruled.1 != accepted.1 && told {
        session.session_dst.set(session.dst.replace(ruled.1));
    }
    if let Some(acceptor) = &entry.tls {
        worker.shared.tls_rate.hit(now_ms());
        worker.shared.total_tls.fetch_add(1, Relaxed);
        let received = edge.take_input();
        let handshake = acceptor.accept(&mut edge.stream, &received);
        let Some(Ok(facts)) = with_deadline(&mut deadline, handshake).await else {
            entry.count(worker, Counter::RequestErrors);
            return None;
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
    let client_id = worker.next_client_id();
    ClockHeld(Box::pin(h2_streams(worker, entry, Rc::new(session), shared, (stream, input), client_id)))
        .await;
    worker.forget_client(client_id);
    drop(presence);
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
        stream.vanish();
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

/// Receives the PROXY protocol's header into the session; false when it is missing or wrong.
async fn receive_proxy_header(edge: &mut H1Edge, session: &mut Session, deadline: &mut Deadline) -> bool {
    let Some(header) = receive_header(edge, deadline, proxy_protocol::parse).await else { return false };
    session.proxy_header = true;
    if header.command == proxy_protocol::Command::Proxy
        && let Some((src, dst)) = header.addresses.ip()
    {
        session.src.set(Some(src));
        session.dst.set(Some(dst));
    }
    session.proxy_tlvs = header.tlvs().map(|(kind, value)| (kind, value.into())).collect();
    true
}

/// Receives what stands before the first data; `None` when it is not there.
async fn receive_header<T, E>(
    edge: &mut H1Edge,
    deadline: &mut Deadline,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
) -> Option<T> {
    poll_fn(|cx| {
        loop {
            match parse(edge.input.unread()) {
                Ok(Some((header, used))) => {
                    edge.input.consume(used);
                    return Poll::Ready(Some(header));
                }
                Err(_) => return Poll::Ready(None),
                Ok(None) => {}
            }
            if deadline.poll_expired(cx).is_ready() {
                return Poll::Ready(None);
            }
            match ready!(edge.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(None),
                Ok(_) => {}
            }
        }
    })
    .await
}

/// HTTP/1 requests one after another; gives the edge back when the client turns out to speak HTTP/2.
async fn h1(
    worker: &Rc<Worker>,
    entry: &Rc<Entry>,
    session: Rc<Session>,
    mut edge: Box<H1Edge>,
    client_id: u64,
) -> Option<(Rc<Session>, Box<H1Edge>)> {
    entry.count(worker, Counter::H1Sessions);
    let deadline = Deadline::new();
    let mut client = Client { worker, entry, session, client_id, deadline };
    loop {
        let idle = client.idle(&mut edge).await;
        match idle {
            Idle::Arrived => {}
            Idle::Closed => return None,
            Idle::Timeout => {
                Box::pin(client.refuse(edge, b'c', 408, now_ms())).await;
                return None;
            }
        }
        match ClockHeld(Box::pin(client.next(edge))).await {
            Next::Kept(kept) => edge = kept,
            Next::H2(edge) => return Some((client.session, edge)),
            Next::Ended => return None,
        }
    }
}

/// A client that speaks HTTP/1, apart from its edge.
struct Client<'a> {
    worker: &'a Rc<Worker>,
    entry: &'a Rc<Entry>,
    session: Rc<Session>,
    client_id: u64,
    /// Of the wait for a head; an exchange has its own.
    deadline: Deadline,
}

/// How the wait for a request's first byte ended.
enum Idle {
    Arrived,
    /// Nothing came, and nobody is told.
    Closed,
    /// Not even the first request came.
    Timeout,
}

/// What a request leaves behind.
enum Next {
    /// The connection, for another one.
    Kept(Box<H1Edge>),
    /// It was none: the client opens an HTTP/2 connection.
    H2(Box<H1Edge>),
    Ended,
}

/// What the wait for a request's head ended with.
enum Head {
    Request,
    /// The client opens an HTTP/2 connection instead.
    H2,
    /// Nothing more comes.
    Closed,
    /// The head never got complete.
    Timeout,
    /// The client closed in the middle of a head.
    Aborted,
    Malformed(ParseError),
}

impl Client<'_> {
    fn is_new(&self) -> bool {
        self.session.requests.get() == 0
    }

    /// The time for a head.
    fn head_time(&self) -> Option<Duration> {
        let timeouts = &self.worker.proxy(self.entry.front).timeouts;
        timeouts.http_request.or(timeouts.client)
    }

    fn arm(&self, time: Option<Duration>) {
        self.deadline.arm(time);
    }

    /// Waits for a request's first byte.
    async fn idle(&mut self, edge: &mut H1Edge) -> Idle {
        if !edge.input.is_empty() {
            return Idle::Arrived;
        }
        let keep_alive = self.worker.proxy(self.entry.front).timeouts.http_keep_alive;
        let is_new = self.is_new();
        self.arm(keep_alive.filter(|_| !is_new).or_else(|| self.head_time()));
        let mut stop_seen = false;
        poll_fn(|cx| {
            if let Poll::Ready(ready) = edge.poll_idle(cx) {
                return Poll::Ready(if ready.is_ok() { Idle::Arrived } else { Idle::Closed });
            }
            if self.worker.is_closing(self.client_id) && !is_new {
                if !stop_seen {
                    stop_seen = true;
                    self.deadline.set_after(STOP_GRACE);
                }
            } else if !stop_seen {
                self.worker.on_stop(self.client_id, cx.waker());
            }
            if self.deadline.poll_expired(cx).is_ready() {
                let quiet = !is_new || stop_seen;
                return Poll::Ready(if quiet { Idle::Closed } else { Idle::Timeout });
            }
            Poll::Pending
        })
        .await
    }

    /// Receives a request that has begun and serves it.
    async fn next(&mut self, mut edge: Box<H1Edge>) -> Next {
        let started_ms = now_ms();
        let fields = self.worker.fields.borrow_mut().take();
        let mut request = Request { fields, ..Request::default() };
        let head = self.head(&mut edge, &mut request).await;
        let (cause, status) = match head {
            Head::Request => {
                let x = self.exchange(edge, request, started_ms);
                let finished = exchange::run(x).await;
                return self.after(finished).await;
            }
            Head::H2 => return Next::H2(edge),
            Head::Closed => return Next::Ended,
            Head::Timeout => (b'c', 408),
            Head::Aborted => (b'C', 400),
            Head::Malformed(error) => (b'P', error.status()),
        };
        self.refuse(edge, cause, status, started_ms).await;
        Next::Ended
    }

    /// Waits for the rest of a request's head.
    async fn head(&mut self, edge: &mut H1Edge, request: &mut Request) -> Head {
        self.arm(self.head_time());
        let may_upgrade = self.is_new()
            && self.entry.bind.proto != Some(Proto::H1)
            && !self.worker.proxy(self.entry.front).options.disable_h2_upgrade;
        poll_fn(|cx| {
            loop {
                if !edge.input.is_empty() {
                    let input = edge.input.unread();
                    if may_upgrade && is_h2_preface(input) {
                        if input.len() >= H2_PREFACE.len() {
                            return Poll::Ready(Head::H2);
                        }
                    } else {
                        match edge.parse_request(request, &self.entry.parse) {
                            Ok(Some(_)) => return Poll::Ready(Head::Request),
                            Ok(None) => {}
                            Err(error) => return Poll::Ready(Head::Malformed(error)),
                        }
                    }
                }
                if self.deadline.poll_expired(cx).is_ready() {
                    return Poll::Ready(Head::Timeout);
                }
                match ready!(edge.poll_fill(cx)) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) if edge.input.is_empty() => return Poll::Ready(Head::Closed),
                    Ok(0) | Err(_) => return Poll::Ready(Head::Aborted),
                }
            }
        })
        .await
    }

    fn exchange(&self, edge: Box<H1Edge>, request: Request, started_ms: u64) -> Box<Exchange> {
        Exchange::new(self.worker, &self.session, Edge::H1(edge), request, self.client_id, started_ms)
    }

    /// Answers what is not a request.  What was read of it is nothing that may be logged or looked at.
    async fn refuse(&mut self, edge: Box<H1Edge>, cause: u8, status: u16, started_ms: u64) {
        let x = self.exchange(edge, Request::default(), started_ms);
        let finished = refused(x, cause, status).await;
        self.after(finished).await;
    }

    /// Keeps the connection for the next request, or closes it.
    async fn after(&mut self, finished: exchange::Finished) -> Next {
        self.worker.fields.borrow_mut().give(finished.request.fields);
        let Edge::H1(edge) = finished.client else { return Next::Ended };
        if finished.keep {
            return Next::Kept(edge);
        }
        let quick = self.worker.proxy(self.entry.front).options.nolinger;
        Box::pin(close(edge, &mut self.deadline, finished.silent, quick)).await;
        Next::Ended
    }
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

fn is_h2_preface(input: &[u8]) -> bool {
    let length = input.len().min(H2_PREFACE.len());
    input[..length] == H2_PREFACE[..length]
}

/// Closes a client's connection so that the last answer is not lost: says that nothing follows and reads
/// what the client still sends, for a while.
async fn close(mut edge: Box<H1Edge>, deadline: &mut Deadline, silent: bool, quick: bool) {
    if silent {
        // `silent-drop`: the client is left waiting.
        edge.stream.vanish();
        return;
    }
    deadline.set_after(LINGER);
    poll_fn(|cx| {
        // Errors mean that nobody listens any more.
        if deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        // A body that was cut short must not look whole: over TLS an end that is said would say so.
        if ready!(edge.poll_flush(cx)).is_err() || !edge.is_body_sent() {
            return Poll::Ready(());
        }
        edge.stream.poll_shutdown_write(cx).map(|_| ())
    })
    .await;
    if quick {
        // `option nolinger`
        edge.stream.set_no_linger();
        return;
    }
    if edge.read_closed || !edge.is_body_sent() || (edge.is_body_received() && edge.input.is_empty()) {
        return;
    }
    let mut dropped = 0;
    poll_fn(|cx| {
        loop {
            edge.input.consume(edge.input.len());
            if dropped > LINGER_MAX_BYTES || deadline.poll_expired(cx).is_ready() {
                return Poll::Ready(());
            }
            match ready!(edge.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(n) => dropped += n,
            }
        }
    })
    .await;
}

/// HTTP/2: the connection's driver; each request becomes an exchange of its own.
async fn h2(worker: &Rc<Worker>, entry: &Rc<Entry>, session: Rc<Session>, edge: Box<H1Edge>, client_id: u64) {
    let session = match session.http_major {
        2 => session,
        _ => Rc::new(upgraded(&session)),
    };
    let shared = H2Shared::new(h2_settings::server(worker.config()));
    h2_streams(worker, entry, session, shared, edge.into_parts(), client_id).await;
}

/// The requests of an HTTP/2 connection, until it is over.
async fn h2_streams(
    worker: &Rc<Worker>,
    entry: &Rc<Entry>,
    session: Rc<Session>,
    shared: Rc<H2Shared>,
    socket: (Stream, Buffer),
    client_id: u64,
) {
    // An upgraded session has taken over what the first one tracked.
    let _tracking = SessionEnd(Rc::clone(worker), Rc::clone(&session));
    entry.count(worker, Counter::H2Sessions);
    let (mut stream, mut input) = socket;
    let timeouts = &worker.proxy(entry.front).timeouts;
    let idle_time = timeouts.http_keep_alive.or(timeouts.client);
    let mut deadline = Deadline::new();
    let mut armed = false;
    let mut told_stop = false;
    let result: Result<(), EdgeError> = poll_fn(|cx| {
        let mut on_request = |cx: &mut std::task::Context<'_>, incoming: Incoming| {
            start_stream(worker, &session, &shared, client_id, incoming, cx);
        };
        loop {
            let driven = shared.poll_drive(cx, &mut stream, &mut input, worker, &mut on_request);
            if driven.is_ready() {
                return driven;
            }
            note_glitches(worker, &session, shared.core.borrow().glitches());
            if worker.is_closing(client_id) && !told_stop {
                told_stop = true;
                shared.core.borrow_mut().go_away(true);
                continue;
            }
            break;
        }
        if !told_stop {
            worker.on_stop(client_id, cx.waker());
        }
        let idle = shared.core.borrow().is_idle();
        match (idle, armed, idle_time) {
            (true, false, Some(time)) => deadline.set_after(time),
            (false, true, _) => deadline.clear(),
            _ => {}
        }
        armed = idle;
        if idle && deadline.poll_expired(cx).is_ready() {
            if !shared.core.borrow().is_closing() {
                shared.core.borrow_mut().go_away(false);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    })
    .await;
    shared.die();
    // Requests may outlive the connection, whose number is another's then.
    session.socket.set(None);
    if result.is_ok() {
        // The peer may not have read the last frames yet: an abrupt close could take them away from it.
        deadline.set_after(LINGER);
        let _told = with_deadline(&mut deadline, stream.shutdown_write()).await;
    }
}

/// Passes protocol errors that the connection survived on to the rules and the tracked entries.
fn note_glitches(worker: &Worker, session: &Session, glitches: u32) {
    let new = glitches - session.glitches.replace(glitches);
    if new > 0 {
        stick_track::glitches(&worker.shared, session, u64::from(new));
    }
}

/// The session of a connection that began as HTTP/1.
fn upgraded(session: &Session) -> Session {
    let mut upgraded = placeholder(session);
    upgraded.src.set(session.src.get());
    upgraded.dst.set(session.dst.get());
    upgraded.session_src.set(session.session_src.get());
    upgraded.session_dst.set(session.session_dst.get());
    upgraded.listener_id = session.listener_id;
    upgraded.tls.clone_from(&session.tls);
    upgraded.proxy_tlvs.clone_from(&session.proxy_tlvs);
    upgraded.proxy_header = session.proxy_header;
    upgraded.socket.set(session.socket.get());
    upgraded.accept_us = session.accept_us;
    upgraded.vars = RefCell::new(session.vars.take());
    upgraded.tracked = RefCell::new(session.tracked.take());
    upgraded.log_level.set(session.log_level.get());
    upgraded.http_major = 2;
    upgraded
}

/// Runs an exchange as far as it goes at once; the rest becomes a task.
fn start_stream(
    worker: &Rc<Worker>,
    session: &Rc<Session>,
    shared: &Rc<H2Shared>,
    client_id: u64,
    incoming: Incoming,
    cx: &mut std::task::Context<'_>,
) {
    let Incoming { stream, request, end, refuse } = incoming;
    let mut edge = shared.open(Some(stream), end);
    edge.answers_head(request.method == Method::Head);
    edge.asks_for_upgrade(!request.protocol.is_empty());
    if !end {
        let length = request.fields.first(weir_http::FieldName::ContentLength);
        edge.set_body_length(length.and_then(|l| std::str::from_utf8(l).ok()?.parse().ok()));
    }
    let x = Exchange::new(worker, session, Edge::H2(edge), request, client_id, now_ms());
    let mut running = ClockHeld(Box::pin(async move {
        match refuse {
            None => exchange::run(x).await,
            Some(status) => refused(x, b'P', status).await,
        }
    }));
    if let Poll::Ready(finished) = Pin::new(&mut running).poll(cx) {
        shared.core.borrow_mut().recycle_request(finished.request);
        return;
    }
    tokio::task::spawn_local(running);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl Fn(Rc<Worker>, Rc<Entry>, Box<Accepted>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_waits_for_a_request_is_small() {
        // With what the runtime adds it has to fit into 512 bytes: there is one for each idle client.
        assert!(size_of_future(serve) <= 400, "{}", size_of_future(serve));
    }
}
