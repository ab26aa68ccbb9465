//! HTTP/2 from a client: the connection's driver; each request becomes an exchange of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use weir_config::model::Timeouts;
use weir_http::Method;
use weir_net::Stream;
use weir_net::timers::{ClockHeld, now_us};

use super::glitches::{self, Glitches};
use super::{Client, LINGER, STOP_GRACE, refused, upgraded, with_deadline};
use crate::edge::backlog::Backlog;
use crate::edge::buffer::Buffer;
use crate::edge::h2::{EndOfAll, H2Shared, Incoming};
use crate::edge::h2_settings;
use crate::edge::{Edge, EdgeError, H1Edge};
use crate::exchange::life;
use crate::state::counters::Counter;
use crate::thread::scarcity::Newcomer;

/// Longest time that a client may take nothing of its answers in a soft stop, when the frontend has no `timeout client`:
/// the process waits for it.
const STOP_OUTPUT: Duration = Duration::from_secs(60);

/// Serves a connection that speaks HTTP/2 from its first byte, or from one that followed HTTP/1's handshakes.
pub(super) async fn serve(client: &mut Client<'_>, edge: Box<H1Edge>) {
    if client.session.http_major != 2 {
        client.session = Rc::new(upgraded(&client.session, 2));
    }
    let shared = H2Shared::new(h2_settings::server(client.worker.config()));
    streams(client, shared, edge.into_parts()).await;
}

/// The requests of a connection, until it is over.
pub(super) async fn streams(client: &mut Client<'_>, shared: Rc<H2Shared>, socket: (Stream, Buffer)) {
    let (worker, entry) = (client.worker, client.entry);
    entry.count(worker, Counter::H2Sessions);
    let end = EndOfAll(Rc::clone(&shared));
    shared.ping_when_idle(entry.bind.idle_ping);
    let most_running = shared.core.borrow().max_concurrent_streams();
    let head_limit = h2_settings::request_limit(worker.config());
    shared.set_backlog(Backlog::new(most_running, head_limit, Rc::clone(&worker.heads)));
    let (mut stream, mut input) = socket;
    let timeouts = &worker.proxy(entry.front).timeouts;
    // Armed for the wait for a request until now.
    client.deadline.clear();
    let mut waiting = Waiting::Answers;
    let mut told_stop = false;
    let tune = &worker.config().global.tune;
    // How busy the thread is is nothing that the core knows.
    let judged_here = tune.glitches_kill_cpu_usage > 0;
    let result: Result<(), EdgeError> = poll_fn(|cx| {
        let mut on_request = |cx: &mut std::task::Context<'_>, incoming: Incoming| {
            start_stream(client, &shared, incoming, cx);
        };
        loop {
            let driven = shared.poll_drive(cx, &mut stream, &mut input, worker, &mut on_request);
            if driven.is_ready() {
                return driven;
            }
            let count = shared.core.borrow().glitches();
            glitches::note(worker, &client.session, count);
            if judged_here {
                let found = Glitches { count, threshold: tune.h2_fe_glitches_threshold };
                if found.are_too_many(worker) {
                    return Poll::Ready(Err(EdgeError::Closed));
                }
                if found.are_many() && !shared.core.borrow().is_closing() {
                    shared.core.borrow_mut().go_away(true);
                    continue;
                }
            }
            if worker.is_closing(client.client_id) && !told_stop {
                told_stop = true;
                shared.core.borrow_mut().go_away(true);
                continue;
            }
            break;
        }
        if !told_stop {
            worker.on_stop(client.client_id, cx.waker());
        }
        let before = std::mem::replace(&mut waiting, Waiting::of(&shared, told_stop));
        // Manual, bind keyword `idle-ping`: an answer is a sign of life for `timeout client` and no other.
        let answered = shared.take_answered() && timeouts.http_keep_alive.is_none();
        if waiting != before || answered && waiting == (Waiting::Request { stopping: false }) {
            client.deadline.arm(waiting.time(timeouts));
        }
        if client.deadline.poll_expired(cx).is_pending() {
            return Poll::Pending;
        }
        if let Waiting::Reader { .. } = waiting {
            shared.is_late();
            return Poll::Ready(Err(EdgeError::Closed));
        }
        if !shared.core.borrow().is_closing() {
            shared.core.borrow_mut().go_away(false);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    })
    .await;
    drop(end);
    // Requests may outlive the connection, whose number is another's then.
    client.session.socket.set(None);
    if result.is_ok() {
        // The peer may not have read the last frames yet: an abrupt close could take them away from it.
        client.deadline.set_after(LINGER);
        let _told = with_deadline(&mut client.deadline, stream.shutdown_write()).await;
    }
}

/// What a connection waits for, which decides for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// The next request; in a soft stop only one that was on its way.
    Request { stopping: bool },
    /// The client, which has taken so many bytes, to take some of those that wait.
    Reader { taken: u64, stopping: bool },
    /// The answers to requests, which have times of their own.
    Answers,
}

impl Waiting {
    fn of(shared: &H2Shared, stopping: bool) -> Self {
        match shared.blocked_after() {
            Some(taken) => Self::Reader { taken, stopping },
            None if shared.core.borrow().is_idle() => Self::Request { stopping },
            None => Self::Answers,
        }
    }

    fn time(self, timeouts: &Timeouts) -> Option<Duration> {
        let idle = timeouts.http_keep_alive.or(timeouts.client);
        match self {
            Self::Request { stopping: false } => idle,
            Self::Request { stopping: true } => Some(idle.map_or(STOP_GRACE, |idle| idle.min(STOP_GRACE))),
            Self::Reader { stopping: false, .. } => timeouts.client,
            Self::Reader { stopping: true, .. } => Some(timeouts.client.unwrap_or(STOP_OUTPUT)),
            Self::Answers => None,
        }
    }
}

/// Runs an exchange as far as it goes at once; the rest becomes a task.
fn start_stream(
    client: &Client<'_>,
    shared: &Rc<H2Shared>,
    incoming: Incoming,
    cx: &mut std::task::Context<'_>,
) {
    let Incoming { stream, request, end, refuse } = incoming;
    let lacks_memory = || client.worker.shared.lacks_memory(client.entry.front, Newcomer::Request);
    let refuse = refuse.map(|status| (b'P', status)).or_else(|| lacks_memory().then_some((b'R', 503)));
    let mut edge = shared.accept(stream, end, request.fields.memory_bytes());
    edge.answers_head(request.method == Method::Head);
    // What follows a CONNECT is no body either (RFC 9113 section 8.5).
    edge.asks_for_upgrade(!request.protocol.is_empty() || request.method == Method::Connect);
    if !end {
        edge.set_body_length(&request.fields);
    }
    let x = client.exchange(Edge::H2(edge), request, now_us());
    let mut running = ClockHeld(Box::pin(async move {
        match refuse {
            None => life::run(x).await,
            Some((cause, status)) => refused(x, cause, status).await,
        }
    }));
    if let Poll::Ready(finished) = Pin::new(&mut running).poll(cx) {
        shared.core.borrow_mut().recycle_request(finished.request);
        return;
    }
    tokio::task::spawn_local(running);
}
