//! HTTP/1 from a client: the wait for a request, its head, and what becomes of the connection after it.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_config::model::Proto;
use weir_http::Request;
use weir_http::h1::ParseError;
use weir_http::h2::Opening;
use weir_net::timers::{ClockHeld, Deadline, now_us};

use super::glitches::{self, Glitches};
use super::{Client, LINGER, STOP_GRACE, refused};
use crate::edge::{Edge, EdgeError, H1Edge};
use crate::exchange::life;
use crate::exchange::{self, Exchange};
use crate::state::counters::Counter;
use crate::thread::scarcity::Newcomer;

/// Most bytes that are read of what a client still sends while it is being closed.
const LINGER_MAX_BYTES: usize = 1024 * 1024;

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
    /// It never got complete, or is none: the termination state's cause, and the answer.
    Wrong {
        cause: u8,
        status: u16,
    },
}

impl Head {
    const TIMEOUT: Self = Self::Wrong { cause: b'c', status: 408 };
    /// The client closed in the middle of a head.
    const ABORTED: Self = Self::Wrong { cause: b'C', status: 400 };

    fn malformed(error: &ParseError) -> Self {
        Self::Wrong { cause: b'P', status: error.status() }
    }
}

impl Client<'_> {
    /// HTTP/1 requests one after another; gives the edge back when the client turns out to speak HTTP/2.
    pub(super) async fn h1(&mut self, mut edge: Box<H1Edge>) -> Option<Box<H1Edge>> {
        self.entry.count(self.worker, Counter::H1Sessions);
        loop {
            match self.idle(&mut edge).await {
                Idle::Arrived => {}
                Idle::Closed if self.is_new() && self.logs_null() => {
                    Box::pin(self.refuse(edge, b'C', 400, now_us())).await;
                    return None;
                }
                Idle::Closed => return None,
                Idle::Timeout => {
                    Box::pin(self.refuse(edge, b'c', 408, now_us())).await;
                    return None;
                }
            }
            if self.worker.shared.lacks_memory(self.entry.front, Newcomer::Request) {
                Box::pin(self.refuse(edge, b'R', 503, now_us())).await;
                return None;
            }
            match ClockHeld(Box::pin(self.next(edge))).await {
                Next::Kept(kept) => edge = kept,
                Next::H2(edge) => return Some(edge),
                Next::Ended => return None,
            }
        }
    }

    /// A connection without a request is worth a line.
    fn logs_null(&self) -> bool {
        let front = self.worker.proxy(self.entry.front);
        !front.logs.is_empty() && !front.options.dontlognull && !front.options.http_ignore_probes
    }

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
            if let Poll::Ready(arrived) = poll_arrival(edge, cx) {
                return Poll::Ready(if arrived.is_ok() { Idle::Arrived } else { Idle::Closed });
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
        let started_us = now_us();
        let fields = self.worker.fields.borrow_mut().take();
        let mut request = Request { fields, ..Request::default() };
        let head = self.head(&mut edge, &mut request).await;
        match head {
            Head::Request => {
                let x = self.exchange(Edge::H1(edge), request, started_us);
                let finished = life::run(x).await;
                return self.after(finished).await;
            }
            Head::H2 => return Next::H2(edge),
            Head::Closed if self.is_new() && self.logs_null() => {
                self.refuse(edge, b'C', 400, started_us).await;
            }
            Head::Closed => {}
            Head::Wrong { cause, status } => self.refuse(edge, cause, status, started_us).await,
        }
        Next::Ended
    }

    /// Goes on with what rules of TCP mode have looked at: a request begins with its first byte.
    pub(super) async fn h1_switched(&mut self, mut x: Box<Exchange>) -> Option<Box<H1Edge>> {
        x.txn.request.clear();
        let Edge::H1(edge) = &mut x.client else { return None };
        let finished = match self.head(edge, &mut x.txn.request).await {
            Head::Request => {
                x.end_tunnel();
                life::run(x).await
            }
            Head::Wrong { cause, status } => refused(x, cause, status).await,
            Head::H2 | Head::Closed => refused(x, b'C', 400).await,
        };
        match self.after(finished).await {
            Next::Kept(edge) => self.h1(edge).await,
            Next::H2(_) | Next::Ended => None,
        }
    }

    /// The major version that the client's first bytes speak.
    pub(super) async fn version(&mut self, edge: &mut H1Edge) -> u8 {
        self.arm(self.head_time());
        poll_fn(|cx| {
            loop {
                match Opening::of(edge.input.unread()) {
                    Opening::Preface => return Poll::Ready(2),
                    Opening::PrefaceSoFar => {}
                    Opening::Other => return Poll::Ready(1),
                }
                // Whatever comes of it is said when the head is read.
                if self.deadline.poll_expired(cx).is_ready() || !matches!(ready!(edge.poll_fill(cx)), Ok(1..))
                {
                    return Poll::Ready(1);
                }
            }
        })
        .await
    }

    /// Waits for the rest of a request's head.
    async fn head(&mut self, edge: &mut H1Edge, request: &mut Request) -> Head {
        let may_upgrade = self.is_new()
            && self.entry.bind.proto != Some(Proto::H1)
            && !self.worker.proxy(self.entry.front).options.disable_h2_upgrade;
        // Most heads come whole: nothing is waited for.
        let mut waits = false;
        poll_fn(|cx| {
            loop {
                if !edge.input.is_empty() {
                    let opening = if may_upgrade { Opening::of(edge.input.unread()) } else { Opening::Other };
                    match opening {
                        Opening::Preface => return Poll::Ready(Head::H2),
                        Opening::PrefaceSoFar => {}
                        Opening::Other => match edge.parse_request(request, &self.entry.parse) {
                            Ok(Some(head)) => {
                                if head.tolerated.is_some() && self.glitch(edge) {
                                    return Poll::Ready(Head::Closed);
                                }
                                let body = edge.check_first_chunks();
                                return Poll::Ready(
                                    body.map_or_else(|e| Head::malformed(&e), |()| Head::Request),
                                );
                            }
                            Ok(None) => {}
                            Err(error) => return Poll::Ready(Head::malformed(&error)),
                        },
                    }
                }
                if !std::mem::replace(&mut waits, true) {
                    self.arm(self.head_time());
                }
                if self.deadline.poll_expired(cx).is_ready() {
                    return Poll::Ready(Head::TIMEOUT);
                }
                match ready!(edge.poll_fill(cx)) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) if edge.input.is_empty() => return Poll::Ready(Head::Closed),
                    Ok(0) | Err(_) => return Poll::Ready(Head::ABORTED),
                }
            }
        })
        .await
    }

    /// Counts a violation that was tolerated; true when the connection is to be closed for it.
    fn glitch(&self, edge: &mut H1Edge) -> bool {
        let count = self.session.glitches.get().saturating_add(1);
        glitches::note(self.worker, &self.session, count);
        let threshold = self.worker.config().global.tune.h1_fe_glitches_threshold;
        let found = Glitches { count, threshold };
        edge.keep_alive &= !found.are_many();
        found.are_too_many(self.worker)
    }

    /// Answers what is not a request.  What was read of it is nothing that may be logged or looked at.
    async fn refuse(&mut self, edge: Box<H1Edge>, cause: u8, status: u16, started_us: u64) {
        let x = self.exchange(Edge::H1(edge), Request::default(), started_us);
        let finished = refused(x, cause, status).await;
        self.after(finished).await;
    }

    /// Keeps the connection for the next request, or closes it.
    async fn after(&mut self, finished: exchange::Finished) -> Next {
        self.worker.fields.borrow_mut().give(finished.request.fields);
        let Edge::H1(edge) = finished.client else { return Next::Ended };
        self.session.idle_since_us.set(now_us());
        if finished.keep {
            return Next::Kept(edge);
        }
        let quick = self.worker.proxy(self.entry.front).options.nolinger;
        let silent = finished.silent.then(|| self.session.reset_ttl.get());
        Box::pin(close(edge, &mut self.deadline, silent, quick)).await;
        Next::Ended
    }
}

/// Waits for the first byte or the end. A new socket counts as readable before anything has come, so it is read: the
/// request's time begins with its first byte.
fn poll_arrival(edge: &mut H1Edge, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
    ready!(edge.poll_idle(cx))?;
    if !edge.input.is_empty() {
        return Poll::Ready(Ok(()));
    }
    match edge.poll_fill(cx) {
        Poll::Ready(read) => Poll::Ready(read.map(|_| ())),
        Poll::Pending => edge.poll_idle(cx),
    }
}

/// Closes a client's connection so that the last answer is not lost: says that nothing follows and reads
/// what the client still sends, for a while.
async fn close(mut edge: Box<H1Edge>, deadline: &mut Deadline, silent: Option<Option<u8>>, quick: bool) {
    if let Some(reset_ttl) = silent {
        // `silent-drop`: the client is left waiting.
        edge.stream.vanish(reset_ttl);
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
