//! HTTP/2 from a client: the connection's driver; each request becomes an exchange of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use weir_http::Method;
use weir_net::Stream;
use weir_net::timers::{ClockHeld, now_ms};

use super::glitches::{self, Glitches};
use super::{Client, LINGER, refused, upgraded, with_deadline};
use crate::buffer::Buffer;
use crate::counters::Counter;
use crate::edge::h2::{H2Shared, Incoming};
use crate::edge::{Edge, EdgeError, H1Edge};
use crate::{exchange, h2_settings};

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
    shared.ping_when_idle(entry.bind.idle_ping);
    let (mut stream, mut input) = socket;
    let timeouts = &worker.proxy(entry.front).timeouts;
    let idle_time = timeouts.http_keep_alive.or(timeouts.client);
    // Armed for the wait for a request until now.
    client.deadline.clear();
    let mut armed = false;
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
        let idle = shared.core.borrow().is_idle();
        match (idle, armed, idle_time) {
            (true, false, Some(time)) => client.deadline.set_after(time),
            // Manual, bind keyword `idle-ping`: an answer is a sign of life for `timeout client` and no other.
            (true, true, Some(time)) if shared.take_answered() && timeouts.http_keep_alive.is_none() => {
                client.deadline.set_after(time);
            }
            (false, true, _) => client.deadline.clear(),
            _ => {}
        }
        armed = idle;
        if idle && client.deadline.poll_expired(cx).is_ready() {
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
    client.session.socket.set(None);
    if result.is_ok() {
        // The peer may not have read the last frames yet: an abrupt close could take them away from it.
        client.deadline.set_after(LINGER);
        let _told = with_deadline(&mut client.deadline, stream.shutdown_write()).await;
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
    let mut edge = shared.open(Some(stream), end);
    edge.answers_head(request.method == Method::Head);
    edge.asks_for_upgrade(!request.protocol.is_empty());
    if !end {
        edge.set_body_length(&request.fields);
    }
    let x = client.exchange(Edge::H2(edge), request, now_ms());
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
