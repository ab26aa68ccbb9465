//! The server's side of an exchange: a connection, the request on it, the response's head, and retries.

pub(crate) mod own;
pub(crate) mod pool;
pub(crate) mod proxy_header;
pub(crate) mod socks4;
pub(crate) mod takeover;
pub(crate) mod tls;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use weir_config::model::{ForeignSource, HttpReuse, KeepAlive, Proto, Proxy, ServerAddr, WebSocketVersion};
use weir_http::{FieldName, Method, Response};
use weir_net::connect::{self as net, ConnectOptions};
use weir_net::timers::{now_ms, now_us};
use weir_net::{Address, Stream};
use weir_rules::facts::{LogOrigin, TlsFacts};
use weir_rules::{Reply, Txn};

use crate::accept::listeners;
use crate::control::check::observe::{Seen, observe};
use crate::edge::buffer::Buffer;
use crate::edge::h2::{EndOfAll, H2Shared};
use crate::edge::{Edge, EdgeError, FcgiEdge, H1Edge};
use crate::exchange::{Exchange, Stop, ms_between};
use crate::filter;
use crate::forward::{self, Fault};
use crate::log;
use crate::log::early::EarlyError;
use crate::plan::Work;
use crate::request::fastcgi;
use crate::request::head;
use crate::request::websocket;
use crate::server::choose::{self, Held};
use crate::server::reach::pool::{Asker, ConnectionFacts, IdleH1, OpenPlace, PoolKey, SharedH2};
use crate::server::reach::takeover::Found;
use crate::state::ServerState;
use crate::state::counters::Counter;
use crate::thread::scarcity::Shortage;
use crate::thread::worker::Worker;

/// A connection to a server that carries this exchange's request.
pub(crate) struct ServerConnection {
    pub(crate) edge: Edge,
    pub(crate) facts: Box<ConnectionFacts>,
    pub(crate) tls: Option<Rc<dyn TlsFacts>>,
    /// It came from the pool.
    pub(crate) reused: bool,
    /// The place on the server, given on when the exchange is over.
    pub(crate) held: Held,
}

/// Why no connection could be had.
pub(crate) enum ConnectError {
    Refused,
    Timeout,
    /// The TLS handshake or the server's certificate.
    Tls(Box<FailedHandshake>),
    /// No address is known.
    Unresolved,
    ClientGone,
    /// Descriptors or ports ran out.
    Resources,
    /// The request came through this process too often already.
    Circle,
}

/// What is known of a handshake with a server that failed.
pub(crate) struct FailedHandshake {
    facts: Option<Rc<dyn TlsFacts>>,
    error: EarlyError,
}

/// Most idle connections that one request closes for its own; others may take the place each time.
const MAX_CLOSED_FOR_PLACE: usize = 4;

/// Sends the request to a server and receives the response's head, trying again as the backend says.
pub(crate) async fn serve(x: &mut Exchange) -> Result<(ServerConnection, Response), Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    if x.body_aborted {
        x.terminated(b'C', b'R');
        x.count_front(Counter::ClientAborts, 1);
        x.close_client = true;
        return Err(x.error(400));
    }
    let work = x.work_of_both();
    if work.has(Work::HEAD) || head::is_early(x) {
        head::prepare(x);
    }
    if work.has(Work::FASTCGI) {
        Box::pin(fastcgi::prepare(x, &proxy)).await?;
    }
    let mut held = choose::assign(x, None).await?;
    if let Some(prefix) = redirects(x, &held) {
        return Err(Stop::Reply(Box::new(elsewhere(&prefix, x.txn.request.uri_bytes()))));
    }
    let mut fresh = false;
    loop {
        let attempt = Attempt::of(&held);
        let failure = match obtain(x, &proxy, held, fresh).await {
            Err(error) => Failure::Connect(error),
            Ok(connection) => match ask(x, &proxy, connection).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            },
        };
        // A server that closed one idle connection has closed the others as well.
        fresh = matches!(failure, Failure::Response { reused: true, .. });
        held = Box::pin(failed(x, &proxy, &attempt, failure)).await?;
    }
}

/// Manual, server keyword `redir`: clients fetch from the server themselves.
fn redirects(x: &Exchange, held: &Held) -> Option<Vec<u8>> {
    let fetches = matches!(x.txn.request.method, Method::Get | Method::Head);
    held.server.config.redir.clone().filter(|_| fetches)
}

/// A redirection to the same path under another prefix.
fn elsewhere(prefix: &[u8], uri: &[u8]) -> Reply {
    let authority = memchr::memmem::find(uri, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &uri[authority..]).map_or(&b"/"[..], |at| &uri[authority + at..]);
    let mut response = Response::new(302, "Found");
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"location", &[prefix, path].concat());
    Reply::new(response, [])
}

/// What a failed try says of the server's health (`observe`).
fn seen(failure: &Failure) -> Option<Seen> {
    match failure {
        Failure::Connect(ConnectError::Refused | ConnectError::Timeout | ConnectError::Tls(_)) => {
            Some(Seen::ConnectFailed)
        }
        Failure::Connect(_) | Failure::Status | Failure::Unsayable(_) => None,
        Failure::Response { fault, .. } => match fault {
            Fault::Server(EdgeError::Protocol(_) | EdgeError::Handshake) => Some(Seen::BadHead),
            Fault::Server(EdgeError::Closed) => Some(Seen::BrokenPipe),
            Fault::Server(_) => Some(Seen::ReadError),
            Fault::ServerTimeout => Some(Seen::ReadTimeout),
            Fault::Client(_) | Fault::ClientTimeout | Fault::Aborted => None,
        },
    }
}

/// Why a try failed.
enum Failure {
    Connect(ConnectError),
    /// After the request was sent, at least in part.
    Response {
        fault: Fault,
        reused: bool,
    },
    /// A status that `retry-on` names; the answer is there, in case no try is left.
    Status,
    /// The request cannot be told to such a server; the client gets this status.
    Unsayable(u16),
}

/// Sends the request and waits for the head of the answer.
async fn ask(
    x: &mut Exchange,
    proxy: &Proxy,
    mut connection: ServerConnection,
) -> Result<(ServerConnection, Response), Failure> {
    let reused = connection.reused;
    x.upload.restart(retries_responses(proxy) || reused);
    x.upload.filters = filter::request_body(x);
    let length = x.upload.length();
    let fail = |fault| Failure::Response { fault, reused };
    if !x.txn.request.protocol.is_empty() {
        // A connection that was there may not have said yet whether it can.
        x.deadline.arm(proxy.timeouts.connect);
        let in_time = std::future::poll_fn(|cx| match connection.edge.poll_upgradable(cx) {
            std::task::Poll::Ready(()) => std::task::Poll::Ready(true),
            std::task::Poll::Pending => x.deadline.poll_expired(cx).map(|()| false),
        })
        .await;
        if !in_time {
            return Err(fail(Fault::ServerTimeout));
        }
    }
    if let Some(name) = &proxy.http_send_name_header {
        // Anew with each try: another server has another name.
        x.txn.request.fields.remove_named(name);
        x.txn.request.fields.push(name, connection.held.server.config.name.as_bytes());
    }
    if let Edge::Fcgi(edge) = &mut connection.edge {
        edge.set_params(fastcgi::params(x).map_err(Failure::Unsayable)?);
        // No application answers 100.
        x.client.ask_for_body();
    }
    websocket::ask(x, &connection.edge);
    connection.edge.send_request(&x.txn.request, length).map_err(|e| fail(Fault::Server(e)))?;
    let mut response = forward::until_response(x, &mut connection.edge).await.map_err(fail)?;
    websocket::answered(x, &connection.edge, &mut response).map_err(|e| fail(Fault::Server(e)))?;
    observe(&x.worker.shared, &connection.held.server, Seen::Response(response.status));
    if proxy.retry_on.statuses.contains(&response.status) && may_retry(x, proxy, &Failure::Status) {
        return Err(Failure::Status);
    }
    Ok((connection, response))
}

/// `retry-on` names something that happens after the request was sent: its body has to be kept.
fn retries_responses(proxy: &Proxy) -> bool {
    let on = &proxy.retry_on;
    on.empty_response || on.junk_response || on.response_timeout || !on.statuses.is_empty()
}

/// In TCP mode: a connection, with nothing sent on it.
pub(crate) async fn tunnel(x: &mut Exchange) -> Result<ServerConnection, Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    let mut held = choose::assign(x, None).await?;
    loop {
        let attempt = Attempt::of(&held);
        match obtain(x, &proxy, held, false).await {
            Ok(mut connection) => {
                if let Edge::H1(edge) = &mut connection.edge {
                    edge.start_tunnel();
                }
                return Ok(connection);
            }
            Err(error) => held = failed(x, &proxy, &attempt, Failure::Connect(error)).await?,
        }
    }
}

/// What follows a try that failed: the place for the next one, or the end.
async fn failed(x: &mut Exchange, proxy: &Proxy, attempt: &Attempt, failure: Failure) -> Result<Held, Stop> {
    if let Some(seen) = seen(&failure) {
        observe(&x.worker.shared, &attempt.server, seen);
    }
    if !may_retry(x, proxy, &failure) {
        return Err(give_up(x, &attempt.server, failure));
    }
    next_try(x, proxy, attempt, &failure).await
}

/// Whether another try is allowed: by its number, by `retry-on`, and because nothing was lost.
fn may_retry(x: &Exchange, proxy: &Proxy, failure: &Failure) -> bool {
    let on = &proxy.retry_on;
    let replayable = x.upload.is_replayable();
    if let Failure::Response { fault: Fault::Server(error), reused: true } = failure {
        // A connection that idled may have been closed by the server meanwhile: nothing was processed, or
        // doing it twice is safe (RFC 9110 section 9.2.2).
        let closed = matches!(error, EdgeError::Closed | EdgeError::Io);
        if closed
            && replayable
            && x.txn.request.method.is_idempotent()
            && x.txn.retries < proxy.retries.max(1)
        {
            return true;
        }
    }
    if x.txn.retries >= x.txn.set_retries.unwrap_or(proxy.retries) {
        return false;
    }
    match failure {
        Failure::Connect(
            ConnectError::Resources
            | ConnectError::Unresolved
            | ConnectError::ClientGone
            | ConnectError::Circle,
        ) => false,
        Failure::Unsayable(_) => false,
        Failure::Connect(_) => on.conn_failure,
        Failure::Status => replayable && !x.txn.no_l7_retry,
        Failure::Response { fault, .. } => {
            replayable
                && !x.txn.no_l7_retry
                && match fault {
                    Fault::Server(EdgeError::Protocol(_) | EdgeError::Handshake | EdgeError::NoStream) => {
                        on.junk_response
                    }
                    Fault::Server(EdgeError::Reset { unprocessed: true }) => true,
                    Fault::Server(_) => on.empty_response,
                    Fault::ServerTimeout => on.response_timeout,
                    Fault::Client(_) | Fault::ClientTimeout | Fault::Aborted => false,
                }
        }
    }
}

/// The place for the next try: the same server after a pause, or another one.
async fn next_try(
    x: &mut Exchange,
    proxy: &Proxy,
    failed: &Attempt,
    failure: &Failure,
) -> Result<Held, Stop> {
    let Attempt { server, direct } = failed;
    x.txn.retries += 1;
    let active = x.worker.state(x.back).usable_servers();
    let left = x.txn.set_retries.unwrap_or(proxy.retries).saturating_sub(x.txn.retries);
    let elsewhere = redispatches(proxy, x.txn.retries, left, *direct, active);
    // Manual, `retries`: a turn-around before the same server, or the only one there is, is tried again.
    let refused = matches!(failure, Failure::Connect(ConnectError::Refused | ConnectError::Tls(_)));
    let pauses = refused && (!elsewhere || !proxy.balance.goes_round() || active <= 1);
    if pauses && turn_around(x, proxy).await {
        return Err(give_up(x, server, Failure::Connect(ConnectError::ClientGone)));
    }
    let held = match elsewhere {
        true => choose::assign(x, Some(server)).await?,
        false => choose::assign_again(x, server, *direct).await?,
    };
    let moved = !Arc::ptr_eq(&held.server, server);
    let counter = if moved { Counter::Redispatches } else { Counter::Retries };
    x.txn.redispatched |= moved;
    x.count_back(counter, 1);
    server.count(x.worker.thread, counter, 1);
    Ok(held)
}

/// A try that failed.
struct Attempt {
    server: Arc<ServerState>,
    /// Persistence had chosen it.
    direct: bool,
}

impl Attempt {
    fn of(held: &Held) -> Self {
        Self { server: Arc::clone(&held.server), direct: held.direct }
    }
}

/// Whether try number `retries` (from 1), with so many `left` after it, may go to another server.
///
/// Manual, `option redispatch`: on every so many retries, or so many before the last one; at once where
/// nothing ties the request to the server and there are others.
fn redispatches(proxy: &Proxy, retries: u32, left: u32, direct: bool, active: usize) -> bool {
    match proxy.options.redispatch {
        None | Some(0) => false,
        Some(_) if !direct && active > 1 && proxy.balance.goes_round() => true,
        Some(every) if every > 0 => retries.is_multiple_of(every.unsigned_abs()),
        Some(before_last) => left == before_last.unsigned_abs() - 1,
    }
}

/// Waits for `timeout connect`, at most a second; true when the client went away meanwhile.
async fn turn_around(x: &mut Exchange, proxy: &Proxy) -> bool {
    let second = Duration::from_secs(1);
    x.deadline.set_after(proxy.timeouts.connect.map_or(second, |connect| connect.min(second)));
    let abort = forward::aborts_on_close(proxy);
    std::future::poll_fn(|cx| {
        if x.deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(false);
        }
        if abort { x.client.poll_gone(cx).map(|()| true) } else { Poll::Pending }
    })
    .await
}

/// No try is left: what the client is told.
fn give_up(x: &mut Exchange, server: &Arc<ServerState>, failure: Failure) -> Stop {
    let thread = x.worker.thread;
    let (cause, stage, status, counter) = match failure {
        Failure::Connect(ConnectError::ClientGone) => {
            x.terminated(b'C', b'C');
            x.count_back(Counter::ClientAborts, 1);
            return Stop::Client;
        }
        Failure::Connect(ConnectError::Timeout) => (b's', b'C', 503, Counter::ConnectErrors),
        Failure::Connect(ConnectError::Resources) => (b'R', b'C', 503, Counter::ConnectErrors),
        Failure::Connect(ConnectError::Circle) => (b'P', b'C', 503, Counter::ConnectErrors),
        Failure::Connect(_) => (b'S', b'C', 503, Counter::ConnectErrors),
        Failure::Status => (b'S', b'H', 502, Counter::ResponseErrors),
        Failure::Unsayable(status) => (b'P', b'H', status, Counter::RequestErrors),
        Failure::Response { fault: Fault::ServerTimeout, .. } => (b's', b'H', 504, Counter::ResponseErrors),
        Failure::Response { fault: Fault::ClientTimeout, .. } => {
            x.close_client = true;
            (b'c', b'D', 408, Counter::RequestErrors)
        }
        Failure::Response { fault: Fault::Aborted, .. } => {
            x.close_client = true;
            (b'C', b'H', 400, Counter::ClientAborts)
        }
        Failure::Response { fault: Fault::Client(error), .. } => {
            x.terminated(if matches!(error, EdgeError::Protocol(_)) { b'P' } else { b'C' }, b'D');
            x.count_back(Counter::ClientAborts, 1);
            server.count(thread, Counter::ClientAborts, 1);
            x.close_client = true;
            return if matches!(error, EdgeError::Protocol(_)) { x.error(400) } else { Stop::Client };
        }
        Failure::Response { fault: Fault::Server(error), .. } => match error {
            EdgeError::Protocol(_) | EdgeError::Handshake | EdgeError::NoStream => {
                (b'P', b'H', 502, Counter::ResponseErrors)
            }
            _ => (b'S', b'H', 502, Counter::ResponseErrors),
        },
    };
    x.terminated(cause, stage);
    x.count_back(counter, 1);
    server.count(thread, counter, 1);
    x.error(status)
}

/// A connection for the request: an idle one where the rules of reuse allow it, or a new one; only a new one where it has to
/// be `fresh`.
async fn obtain(
    x: &mut Exchange,
    proxy: &Proxy,
    held: Held,
    fresh: bool,
) -> Result<ServerConnection, ConnectError> {
    let started = now_us();
    let wanted = Wanted::by(x, proxy, &held.server, fresh);
    if wanted.may_be_idle
        && let Some((edge, facts, tls)) = idle(x, &held.server, &wanted)
    {
        return established(x, edge, facts, tls, held, true, started);
    }
    // On the heap: a request that finds an idle connection needs none of its state.
    Box::pin(connect(x, proxy, held, wanted, started)).await
}

/// A connection as the rules of reuse see it.
struct Wanted {
    identity: Identity,
    key: PoolKey,
    asker: Asker,
    /// One that others had will do.
    may_be_idle: bool,
}

impl Wanted {
    fn by(x: &Exchange, proxy: &Proxy, server: &ServerState, fresh: bool) -> Self {
        let identity = Identity::of(x, server);
        let generation = server.generation.load(Relaxed);
        let key = PoolKey { server: (x.back, server.index), generation, identity: identity.hash() };
        // A server without an address has no connections but those that were given to it.
        let given = server.config.addr == ServerAddr::Reverse;
        let reuse = if given { HttpReuse::Always } else { proxy.http_reuse };
        let asker = Asker { client: x.client_id, first_request: x.first_request, reuse };
        let keeps = proxy.options.keep_alive == KeepAlive::KeepAlive && !fresh;
        let may_be_idle = (given || keeps) && !x.tunnel;
        Self { identity, key, asker, may_be_idle }
    }
}

/// A connection and what is known of it.
type Known = (Edge, Box<ConnectionFacts>, Option<Rc<dyn TlsFacts>>);

/// An idle connection of this thread.
fn idle(x: &Exchange, server: &ServerState, wanted: &Wanted) -> Option<Known> {
    let Wanted { key, asker, .. } = wanted;
    if let Some(idle) = x.worker.pool.take_h1(key, *asker, x.worker.thread) {
        return Some(reopen(x, server, idle));
    }
    let shared = x.worker.pool.take_h2(key, *asker, x.worker.thread)?;
    Some((Edge::H2(shared.shared.open(None, false)), shared.facts, shared.tls))
}

/// A connection of another thread, or a new one.
async fn connect(
    x: &mut Exchange,
    proxy: &Proxy,
    held: Held,
    wanted: Wanted,
    started: u64,
) -> Result<ServerConnection, ConnectError> {
    let server = Arc::clone(&held.server);
    let Wanted { identity, key, asker, may_be_idle } = wanted;
    if may_be_idle && let Some(found) = takeover::take(&x.worker, &server, &key, asker).await {
        let (edge, facts, tls) = match found {
            Found::H1(idle) => reopen(x, &server, idle),
            Found::H2(shared) => (Edge::H2(shared.shared.open(None, false)), shared.facts, shared.tls),
        };
        return established(x, edge, facts, tls, held, true, started);
    }
    if server.config.proto == Some(Proto::Fcgi) && server.idle.load(Relaxed) > 0 {
        // A process of an application serves one connection: an idle one that does not fit keeps it from the new one.
        close_idle(&x.worker, &server).await;
    }
    let open_place = match server.config.strict_maxconn {
        true => Some(place(&x.worker, &server).await.ok_or(ConnectError::Resources)?),
        false => None,
    };
    server.count(x.worker.thread, Counter::ConnectAttempts, 1);
    x.worker.make_room();
    let opened = open_in_time(x, proxy, &server, &identity).await;
    if let Err(ConnectError::Tls(failed)) = &opened {
        x.txn.server_tls.clone_from(&failed.facts);
        x.txn.server_error = failed.error.parts();
    }
    if matches!(opened, Err(ConnectError::Resources)) {
        const TEXT: &str =
            "cannot connect: no file descriptor or port is left. Please check 'ulimit-n' and restart.";
        x.worker.shared.tell_shortage(x.back, Shortage::Descriptors, || TEXT.to_owned());
    }
    let opened = opened?;
    observe(&x.worker.shared, &server, Seen::Connected);
    let facts = Box::new(ConnectionFacts {
        server: Arc::clone(&server),
        requests: 0,
        owner: x.client_id,
        proven: false,
        idle_since_ms: 0,
        local: opened.local,
        remote: opened.remote,
        key,
        place: open_place,
        own: x.worker.shared.own.note(opened.local, opened.remote),
    });
    // In TCP mode whatever was negotiated is spoken by the ends.
    let edge = match opened.h2 && !x.tunnel {
        true => start_h2(x, opened.stream, &facts, opened.tls.clone()),
        false => {
            let mut edge = H1Edge::new(opened.stream, Rc::clone(&x.worker));
            edge.adjust_case = proxy.options.h1_case_adjust_bogus_server;
            edge.accept_unsafe = proxy.options.accept_unsafe_violations_in_http_response;
            alone(x, &server, Box::new(edge), true)
        }
    };
    established(x, edge, facts, opened.tls, held, false, started)
}

/// Opens a connection within `timeout connect`, for as long as the client waits.
async fn open_in_time(
    x: &mut Exchange,
    proxy: &Proxy,
    server: &Arc<ServerState>,
    identity: &Identity,
) -> Result<Opened, ConnectError> {
    let set = x.txn.set_other_timeouts[0].map(|ms| Duration::from_millis(u64::from(ms)));
    x.deadline.arm(set.or(proxy.timeouts.connect));
    let options = socket_options(&x.worker, server);
    let mut opening = pin!(open(x.txn.dst(), server, identity, options));
    let (deadline, client) = (&mut x.deadline, &mut x.client);
    let abort = forward::aborts_on_close(proxy);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
            return Poll::Ready(opened);
        }
        if deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(Err(ConnectError::Timeout));
        }
        if abort && client.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(ConnectError::ClientGone));
        }
        Poll::Pending
    })
    .await
}

/// The edge of a connection that carries one request at a time; `fresh` before its first one.
fn alone(x: &Exchange, server: &ServerState, wire: Box<H1Edge>, fresh: bool) -> Edge {
    match server.config.proto {
        Some(Proto::Fcgi) => Edge::Fcgi(Box::new(FcgiEdge::new(wire, &x.worker, x.back, fresh))),
        _ => Edge::H1(wire),
    }
}

/// The edge of a pooled connection, ready for a request.
fn reopen(x: &Exchange, server: &ServerState, idle: IdleH1) -> Known {
    (alone(x, server, idle.edge, false), idle.facts, idle.tls)
}

/// Manual, server keyword `strict-maxconn`: the place of one more connection to the server, which an idle one that does
/// not fit may have to make.
async fn place(worker: &Worker, server: &Arc<ServerState>) -> Option<Arc<OpenPlace>> {
    for _ in 0..MAX_CLOSED_FOR_PLACE {
        if let Some(place) = OpenPlace::take(server) {
            return Some(place);
        }
        if !close_idle(worker, server).await {
            break;
        }
    }
    OpenPlace::take(server)
}

/// Closes an idle connection to the server, of this thread or another; false when there is none.
async fn close_idle(worker: &Worker, server: &Arc<ServerState>) -> bool {
    worker.pool.close_idle_of(server, worker.thread) || takeover::close_one(worker, server).await
}

/// Notes the connection in the transaction; an error when it would lead the request round in a circle.
fn established(
    x: &mut Exchange,
    mut edge: Edge,
    facts: Box<ConnectionFacts>,
    tls: Option<Rc<dyn TlsFacts>>,
    held: Held,
    reused: bool,
    started_us: u64,
) -> Result<ServerConnection, ConnectError> {
    own::pass(x, &facts)?;
    let server = &held.server;
    let thread = x.worker.thread;
    if reused {
        server.count(thread, Counter::ConnectionReuses, 1);
        x.count_back(Counter::ConnectionReuses, 1);
    }
    if x.txn.timers.connect_ms.is_none() || !reused {
        x.txn.timers.connect_ms = Some(ms_between(started_us, now_us()));
    }
    x.txn.server_addr = facts.remote;
    x.txn.server_local = facts.local;
    x.txn.server_tls.clone_from(&tls);
    x.txn.server_error = (0, "NONE", "Success");
    x.txn.server_http_major = edge.http_major();
    x.txn.server_reused = reused;
    x.txn.server_socket = None;
    let wire = match &mut edge {
        Edge::H1(edge) => Some(&mut **edge),
        Edge::Fcgi(edge) => Some(&mut *edge.wire),
        // The connection is shared and belongs to its own task.
        Edge::H2(_) => None,
    };
    if let Some(wire) = wire {
        let options = &x.worker.proxy(x.back).options;
        x.txn.server_socket = Some(wire.stream.as_fd().as_raw_fd());
        // A server that finds another end of this request than we do must not see a second one behind it.
        let insecure = matches!(&x.client, Edge::H1(client) if client.insecure_framing);
        wire.keep_alive = options.keep_alive == KeepAlive::KeepAlive && !insecure;
        wire.pretend_keep_alive = options.http_pretend_keepalive;
    }
    x.txn.session.last_server.set(u32::try_from(x.back).ok().map(|back| (back, server.config.id)));
    server.count(thread, Counter::Sessions, 1);
    server.rate.hit(now_ms());
    server.need.note(u64::try_from(server.served.now()).unwrap_or(0));
    server.last_session_ms.store(now_ms(), Relaxed);
    if x.work(x.front).has(Work::EARLY_LOG) {
        log::step(x, LogOrigin::Connect);
    }
    Ok(ServerConnection { edge, facts, tls, reused, held })
}

/// What distinguishes connections to one server from each other.
#[derive(Default)]
pub(crate) struct Identity {
    pub(crate) sni: Option<Vec<u8>>,
    pub(crate) proxy_header: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    port: u16,
    /// Where it comes from, if that is not to be an address of this machine (`usesrc`).
    source: Option<SocketAddr>,
    /// Netfilter mark and type of service that rules set.
    marks: (Option<u32>, Option<u8>),
    /// Protocol a WebSocket has to travel over (`ws`); `None` for other requests.
    websocket: Option<Proto>,
}

impl Identity {
    fn of(x: &Exchange, server: &ServerState) -> Self {
        let config = &server.config;
        let bytes = |value: weir_rules::Value<'_>| value.into_bytes().into_owned();
        let sni = server.tls_settings().and_then(|ssl| match &ssl.sni {
            Some(expr) => expr.eval(&x.txn).map(bytes),
            // Manual, `sni-auto`: the host that the request is for, without its port.
            None if ssl.no_sni_auto || x.tunnel => None,
            None => x.txn.request.fields.first(FieldName::Host).and_then(without_port),
        });
        let port = match server.maps_ports() {
            Some(by) => {
                let port = i32::from(x.txn.dst().map_or(0, |d| d.port())) + by;
                u16::try_from(port).unwrap_or(0)
            }
            None => 0,
        };
        Self {
            sni,
            proxy_header: config.send_proxy.as_ref().map(|send| proxy_header::build(send, &x.txn)),
            name: config.pool_conn_name.as_ref().and_then(|expr| expr.eval(&x.txn).map(bytes)),
            port,
            source: foreign_source(x, server),
            marks: (x.txn.server_mark, x.txn.server_tos),
            websocket: websocket_proto(x, config),
        }
    }

    /// Of a connection that was given to a server under a name.
    pub(crate) fn named(name: Option<&[u8]>) -> Self {
        Self { name: name.map(<[u8]>::to_vec), ..Self::default() }
    }

    /// Of a connection that no request asked for: `txn` has nothing but facts of this process.
    pub(crate) fn without_client(txn: &Txn, server: &ServerState) -> Self {
        let config = &server.config;
        let sni = server.tls_settings().and_then(|ssl| ssl.sni.as_ref());
        Self {
            sni: sni.and_then(|expr| expr.eval(txn)).map(|name| name.into_bytes().into_owned()),
            proxy_header: config.send_proxy.as_ref().map(|send| proxy_header::build(send, txn)),
            ..Self::default()
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        let plain = self.sni.is_none() && self.proxy_header.is_none() && self.name.is_none();
        let usual = self.port == 0 && self.source.is_none() && self.marks == (None, None);
        if plain && usual && self.websocket.is_none() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        // Manual, `http-reuse`: the name is what `pool-conn-name` says, and the TLS name only without it.
        let name = self.name.as_ref().or(self.sni.as_ref());
        (name, &self.proxy_header, self.port, self.source, self.marks).hash(&mut hasher);
        (self.websocket == Some(Proto::H2), self.websocket.is_some()).hash(&mut hasher);
        hasher.finish()
    }
}

/// The address that `usesrc` says for this request; `None` leaves it to `source` and the system.
fn foreign_source(x: &Exchange, server: &ServerState) -> Option<SocketAddr> {
    let of_backend = || x.worker.proxy(server.proxy).source.foreign.as_ref();
    match server.config.source.foreign.as_ref().or_else(of_backend)? {
        ForeignSource::Address(address) => Some(*address),
        ForeignSource::Client => x.txn.src(),
        ForeignSource::ClientIp => x.txn.src().map(|client| SocketAddr::new(client.ip(), 0)),
        ForeignSource::Field(expr) => Some(SocketAddr::new(expr.eval(&x.txn)?.to_ip()?, 0)),
    }
}

/// `example.org` of `example.org:8443`; an address in brackets is no name.
fn without_port(host: &[u8]) -> Option<Vec<u8>> {
    let name = host.split(|b| *b == b':').next()?;
    (!name.is_empty() && !name.starts_with(b"[")).then(|| name.to_vec())
}

/// Manual, server keyword `ws`: `auto` keeps to HTTP/1 unless the server line leaves nothing but HTTP/2.
fn websocket_proto(x: &Exchange, config: &weir_config::model::Server) -> Option<Proto> {
    let request = &x.txn.request;
    if !request.fields.bytes(request.protocol).eq_ignore_ascii_case(b"websocket") {
        return None;
    }
    let only_h2 = config.proto == Some(Proto::H2)
        || config.alpn.as_ref().is_some_and(|alpn| !alpn.is_empty() && alpn.iter().all(|p| p == b"h2"));
    Some(match config.ws {
        WebSocketVersion::H1 => Proto::H1,
        WebSocketVersion::H2 => Proto::H2,
        WebSocketVersion::Auto if only_h2 => Proto::H2,
        WebSocketVersion::Auto => Proto::H1,
    })
}

/// A connection that is ready for its first request.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) tls: Option<Rc<dyn TlsFacts>>,
    pub(crate) h2: bool,
    pub(crate) local: Option<std::net::SocketAddr>,
    pub(crate) remote: Option<std::net::SocketAddr>,
}

/// How sockets towards a server are opened, by its line and its backend's.
pub(crate) fn socket_options(worker: &Worker, server: &ServerState) -> ConnectOptions {
    let proxy = worker.proxy(server.proxy);
    let config = &server.config;
    let probes = &proxy.srvtcpka;
    let probes = net::KeepAlive { idle: probes.idle, interval: probes.interval, count: probes.count };
    let interface = config.source.interface.as_ref().or(proxy.source.interface.as_ref());
    ConnectOptions {
        source: config.source.address.or(proxy.source.address),
        source_ports: server.source_ports.clone(),
        interface: interface.cloned(),
        namespace: server.namespace.clone(),
        md5_key: config.md5_key.clone(),
        fast_open: config.tfo,
        user_timeout: config.tcp_ut,
        congestion: config.congestion.clone(),
        buffers: listeners::kernel_buffers(worker.config().global.tune.server_sockets),
        keepalive: proxy.options.srvtcpka.then_some(probes),
        no_linger: proxy.options.nolinger,
        ..ConnectOptions::default()
    }
}

/// Connects, sends the PROXY header, shakes hands.
pub(crate) async fn open(
    client_dst: Option<SocketAddr>,
    server: &Arc<ServerState>,
    identity: &Identity,
    options: ConnectOptions,
) -> Result<Opened, ConnectError> {
    let target = server.addr.load_full();
    let mut address = target.address.clone().ok_or(ConnectError::Unresolved)?;
    if let Address::Ip(ip) = &mut address {
        if identity.port != 0 {
            ip.set_port(identity.port);
        }
        if ip.ip().is_unspecified()
            && let Some(dst) = client_dst
        {
            // Manual, `server`: 0.0.0.0 forwards to the address the client connected to.
            ip.set_ip(dst.ip());
        }
    }
    let (mark, tos) = identity.marks;
    let mut options = ConnectOptions { mark, tos: tos.map(u32::from), ..options };
    if identity.source.is_some() {
        options =
            ConnectOptions { source: identity.source, source_ports: None, transparent: true, ..options };
    }
    let opened = socks4::connect_by(server.config.socks4, &address, &options).await;
    let mut stream = opened.map_err(|error| classify(&error))?;
    let local = stream.local_addr().ok().and_then(|a| a.socket_addr());
    if let Some(header) = &identity.proxy_header {
        stream.write_all(header).await.map_err(|error| classify(&error))?;
    }
    let mut h2 = identity.websocket.or(server.config.proto) == Some(Proto::H2);
    let mut tls = None;
    if server.tls_settings().is_some() {
        let alpn = identity.websocket.map(|proto| match proto {
            Proto::H2 => vec![b"h2".to_vec()],
            Proto::H1 | Proto::Fcgi | Proto::None => vec![b"http/1.1".to_vec()],
        });
        let sni = identity.sni.as_deref();
        let facts = match tls::connect(&mut stream, server, sni, alpn.as_deref()).await {
            Ok(facts) => facts,
            Err(error) => {
                let error = tls::server_error(&stream, &error, sni.is_some());
                let facts = tls::facts_of_failed(&stream);
                return Err(ConnectError::Tls(Box::new(FailedHandshake { facts, error })));
            }
        };
        h2 |= facts.alpn() == Some(b"h2") && server.config.proto.is_none();
        tls = Some(facts);
    }
    Ok(Opened { stream, tls, h2, local, remote: address.socket_addr() })
}

fn classify(error: &std::io::Error) -> ConnectError {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::TimedOut => ConnectError::Timeout,
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory => {
            ConnectError::Resources
        }
        // EMFILE and ENFILE have no kind of their own.
        _ if matches!(error.raw_os_error(), Some(23 | 24)) => ConnectError::Resources,
        _ => ConnectError::Refused,
    }
}

/// Puts a new HTTP/2 connection to work.
fn start_h2(x: &Exchange, stream: Stream, facts: &ConnectionFacts, tls: Option<Rc<dyn TlsFacts>>) -> Edge {
    let worker = &x.worker;
    let shared = H2Shared::new(crate::edge::h2_settings::client(worker.config()));
    let edge = shared.open(None, false);
    let reusable = worker.proxy(x.back).options.keep_alive == KeepAlive::KeepAlive;
    multiplex(
        worker,
        SharedH2 { shared, tls, facts: Box::new(facts.clone()) },
        stream,
        Buffer::default(),
        reusable,
    );
    Edge::H2(edge)
}

/// Starts the driver of an HTTP/2 connection, which runs until it ends or another thread takes it over; its streams
/// are exchanges.
pub(crate) fn multiplex(
    worker: &Rc<Worker>,
    connection: SharedH2,
    stream: Stream,
    input: Buffer,
    reusable: bool,
) {
    let shared = Rc::clone(&connection.shared);
    shared.set_socket(stream, input);
    shared.ping_when_idle(connection.facts.server.config.idle_ping);
    if reusable {
        worker.pool.share_h2(connection, worker.thread);
    }
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let end = EndOfAll(shared);
        std::future::poll_fn(|cx| end.0.poll_drive_own(cx, &worker)).await;
    });
}

/// After the exchange: keeps the connection for the next request, or closes it.
pub(crate) fn done(x: &Exchange, connection: ServerConnection) {
    let ServerConnection { edge, facts, tls, held, reused } = connection;
    keep(x, edge, facts, tls, reused);
    // Now: who comes next finds the connection idle or closed.
    drop(held);
}

/// Keeps a connection for the next request, if it can have one.
fn keep(
    x: &Exchange,
    edge: Edge,
    mut facts: Box<ConnectionFacts>,
    tls: Option<Rc<dyn TlsFacts>>,
    reused: bool,
) {
    facts.requests += 1;
    facts.proven |= reused;
    let config = &facts.server.config;
    let spent = config.max_reuse.is_some_and(|max| facts.requests > max);
    let free = match edge {
        Edge::H1(edge) => is_free(&edge).then_some(edge),
        Edge::Fcgi(edge) => edge.into_idle(),
        Edge::H2(_) => None,
    };
    let Some(edge) = free else { return };
    if !spent && x.txn.request.method != Method::Connect && x.worker.keeps_idle() {
        x.worker.pool.give_h1(
            IdleH1 { edge, tls, facts },
            now_ms(),
            x.worker.thread,
            x.worker.proxy(x.back).http_reuse,
        );
    }
}

/// Both messages are over, and nothing else came.
fn is_free(edge: &H1Edge) -> bool {
    edge.keep_alive
        && edge.is_body_received()
        && edge.is_body_sent()
        && edge.input.is_empty()
        && edge.output.is_empty()
        && !edge.read_closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_to_servers() {
        let check = |uri: &str, expected: &str| {
            let reply = elsewhere(b"http://img.example.org", uri.as_bytes());
            assert_eq!(reply.response.fields.first(FieldName::Location), Some(expected.as_bytes()), "{uri}");
        };
        check("/a?b", "http://img.example.org/a?b");
        check("http://example.org/a", "http://img.example.org/a");
        check("http://example.org", "http://img.example.org/");
    }

    #[test]
    fn hosts_as_server_names() {
        let check = |host: &str, expected: Option<&str>| {
            let expected = expected.map(|name| name.as_bytes().to_vec());
            assert_eq!(without_port(host.as_bytes()), expected, "{host}");
        };
        check("example.org", Some("example.org"));
        check("example.org:8443", Some("example.org"));
        check("[::1]:8443", None);
        check("", None);
    }

    #[test]
    fn which_tries_go_elsewhere() {
        // For the three retries of a request: stays or moves.
        let check = |lines: &str, direct: bool, active: usize, expected: &str| {
            let shared =
                crate::state::farm::tests::backend(&format!(" retries 3\n{lines} server a 127.0.0.1:1"));
            let proxy = &shared.config.proxies[0];
            let goes = |retry: u32| redispatches(proxy, retry, 3 - retry, direct, active);
            let moves: String = (1..=3).map(|retry| if goes(retry) { 'm' } else { 's' }).collect();
            assert_eq!(moves, expected, "{lines} {direct} {active}");
        };
        check("", true, 2, "sss");
        check("", false, 2, "sss");
        check(" option redispatch\n", true, 2, "ssm");
        check(" option redispatch 1\n", true, 2, "mmm");
        check(" option redispatch 2\n", true, 2, "sms");
        check(" option redispatch -2\n", true, 2, "sms");
        // Nothing ties the request to the server.
        check(" option redispatch\n balance roundrobin\n", false, 2, "mmm");
        check(" option redispatch\n balance roundrobin\n", false, 1, "ssm");
        check(" option redispatch\n balance leastconn\n", false, 2, "ssm");
        check(" option redispatch\n balance source\n", false, 2, "ssm");
    }
}
