//! The end of an exchange: an answer made here when one is owed, counters, the log line.

pub(crate) mod errors;

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_compress::Ending;
use weir_http::Method;
use weir_net::timers::now_ms;
use weir_rules::Reply;

use crate::edge::{BodyLength, Edge, EdgeError};
use crate::exchange::{Exchange, Finished, Stop};
use crate::filter::{Chain, Owner};
use crate::plan::Work;
use crate::response;
use crate::state::ServerState;
use crate::state::counters::{Counter, Counters};
use crate::state::stick_track;

/// Longest time an answer made here may take to leave, when the frontend has no `timeout client`.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

impl Exchange {
    /// The answer for a status: the proxy's own page, or the built-in one.
    pub(crate) fn error(&self, status: u16) -> Stop {
        match errors::reply(self, status) {
            Some(reply) => Stop::Reply(Box::new(reply)),
            None => Stop::Drop { silent: false },
        }
    }
}

/// Ends an exchange.
pub(crate) async fn finish(mut x: Box<Exchange>, stop: Option<Stop>) -> Finished {
    let mut silent = false;
    // The connection went back to the pool or was closed, and its number may be another's now.
    x.txn.server_socket = None;
    stick_track::count_outcome(&x.worker.shared, &x.txn);
    match stop {
        None => {}
        Some(Stop::Reply(reply)) if !x.answered => answer(&mut x, *reply).await,
        Some(Stop::Drop { silent: quiet }) => {
            silent = quiet;
            x.close_client = true;
        }
        Some(Stop::Reply(_) | Stop::Client | Stop::Truncated) => x.close_client = true,
    }
    leave_backend(&mut x);
    stick_track::count_bytes(&x.worker.shared, &x.txn);
    crate::log::exchange(&mut x);
    stick_track::transaction_ends(&x.worker.shared, &mut x.txn);
    if let Some(response) = x.txn.response.take() {
        x.worker.fields.borrow_mut().give(response.fields);
    }
    let keep = !x.close_client && !silent && client_can_go_on(&x);
    Finished { keep, silent, client: x.client, request: x.txn.request }
}

/// Ends an exchange that was none, as if it had never been; its edge goes on.
pub(crate) fn dissolve(mut x: Box<Exchange>) -> Edge {
    if x.in_backend {
        x.worker.state(x.back).back_current.leave();
    }
    stick_track::transaction_ends(&x.worker.shared, &mut x.txn);
    x.client
}

/// Sends an answer made here.
async fn answer(x: &mut Exchange, reply: Reply) {
    let Reply { response, body, logged_status } = reply;
    let status = response.status;
    let head_only = x.txn.request.method == Method::Head;
    x.txn.status = response.status;
    x.txn.response = Some(response);
    if !x.unread && x.work_of_both().has(Work::AFTER) {
        response::limit_rewriting(x, body.len());
        response::after_response(x);
    }
    let Some(mut response) = x.txn.response.take() else { return };
    if let Edge::H2(_) = x.client {
        // HTTP/1 frames by its length anyway; here it only informs, and clients like to know.
        response.fields.push(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes());
    }
    // A rule may have changed the status.
    x.txn.status = if response.status == status { logged_status } else { response.status };
    let counter = Counters::of_status(x.txn.status);
    x.count_front(counter, 1);
    if x.in_backend {
        x.count_back(counter, 1);
    }
    let stopping = x.worker.is_closing(x.client_id);
    if let Edge::H1(client) = &mut x.client {
        x.txn.bytes_in += client.discard_body();
        // A body nobody will read cannot be told from the next request: close, unless it was there already.
        let body_left = !x.upload.is_done() && !client.is_body_received();
        client.keep_alive &= !x.close_client && !stopping && !body_left;
    }
    x.answered = true;
    x.txn.bytes_out += response::head_size(&response) + body.len() as u64;
    let length = match x.client {
        // HTTP/1 says how long the body would be by its framing.
        Edge::H2(_) if head_only => BodyLength::None,
        _ => BodyLength::Exact(body.len() as u64),
    };
    let sent = x.client.send_response(&response, length);
    x.txn.response = Some(response);
    if sent.is_err() {
        return;
    }
    let body = if head_only { &[][..] } else { &body[..] };
    let done = send_body(x, body).await;
    if !done {
        x.terminated(b'C', b'D');
        x.close_client = true;
    }
}

/// Sends a body that is here, as its client takes it and the limits of bandwidth let it pass; false when it cannot.
async fn send_body(x: &mut Exchange, mut left: &[u8]) -> bool {
    let time = x.worker.proxy(x.front).timeouts.client.unwrap_or(REPLY_TIMEOUT);
    let mut limits = x.filters.take().filter(|_| !left.is_empty());
    x.deadline.set_after(time);
    let mut waiting = usize::MAX;
    poll_fn(|cx| {
        if let Poll::Ready(sent) = poll_send_body(x, &mut left, limits.as_deref_mut(), cx) {
            return Poll::Ready(sent.is_ok());
        }
        // The time is for a client that takes nothing, not for a long body.
        let before = std::mem::replace(&mut waiting, left.len() + x.client.unsent());
        if waiting < before || limits.as_ref().is_some_and(|limits| limits.is_held_back()) {
            x.deadline.set_after(time);
        }
        x.deadline.poll_expired(cx).map(|()| false)
    })
    .await
}

fn poll_send_body(
    x: &mut Exchange,
    left: &mut &[u8],
    limits: Option<&mut Chain>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), EdgeError>> {
    if let Some(limits) = limits {
        let owner = Owner { worker: &x.worker, front: x.front, back: x.back };
        while let Some(room) = ready!(limits.poll_room(owner, &mut x.client, cx))? {
            let (piece, rest) = left.split_at(left.len().min(room));
            *left = rest;
            let ending = if rest.is_empty() { Ending::Finish } else { Ending::Flush };
            limits.pass(owner, piece, ending, &mut x.client)?;
        }
    }
    while !left.is_empty() {
        ready!(x.client.poll_writable(cx))?;
        match x.client.send_data(left)? {
            0 => return Poll::Pending,
            sent => *left = &left[sent..],
        }
    }
    x.client.finish(None)?;
    x.client.poll_flush(cx)
}

fn client_can_go_on(x: &Exchange) -> bool {
    match &x.client {
        Edge::H1(client) => {
            client.keep_alive
                && client.is_body_received()
                && client.is_body_sent()
                && (!client.read_closed || !client.input.is_empty())
        }
        Edge::H2(_) => true,
        // It is spoken to servers only.
        Edge::Fcgi(_) => false,
    }
}

fn leave_backend(x: &mut Exchange) {
    x.note_total();
    let [counted_in, counted_out] = x.counted;
    let (bytes_in, bytes_out) = (x.txn.bytes_in - counted_in, x.txn.bytes_out - counted_out);
    x.count_front(Counter::BytesIn, bytes_in);
    x.count_front(Counter::BytesOut, bytes_out);
    if !x.in_backend {
        return;
    }
    let state = x.worker.state(x.back);
    state.back_current.leave();
    state.last_session_ms.store(now_ms(), Relaxed);
    x.count_back(Counter::BytesIn, bytes_in);
    x.count_back(Counter::BytesOut, bytes_out);
    state.times.add(&x.txn.timers);
}

/// `option contstats`: a long transfer is counted while it goes on.
pub(crate) fn count_on_the_way(x: &mut Exchange, server: &ServerState) {
    let now = [x.txn.bytes_in, x.txn.bytes_out];
    let before = std::mem::replace(&mut x.counted, now);
    for (counter, by) in
        [Counter::BytesIn, Counter::BytesOut].into_iter().zip([0, 1].map(|at| now[at] - before[at]))
    {
        x.count_front(counter, by);
        x.count_back(counter, by);
        server.count(x.worker.thread, counter, by);
    }
}

/// Bytes and times for the server that answered.
pub(crate) fn count_on_server(x: &mut Exchange, server: &ServerState) {
    x.note_total();
    let [counted_in, counted_out] = x.counted;
    server.count(x.worker.thread, Counter::BytesIn, x.txn.bytes_in - counted_in);
    server.count(x.worker.thread, Counter::BytesOut, x.txn.bytes_out - counted_out);
    server.times.add(&x.txn.timers);
}
