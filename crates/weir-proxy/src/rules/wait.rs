//! What rules wait for, in whatever phase they run: the one place that carries it out.

use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use weir_config::model::{Proxy, Tune};
use weir_net::timers::{Deadline, now_ms};
use weir_rules::{Value, WaitFor};

use crate::edge::{Body, Edge, EdgeError};
use crate::exchange::{Exchange, Stop};
use crate::state::counters::Counter;

/// Whose body rules look at.
pub(crate) enum Looked<'a> {
    /// The client's.
    Request,
    /// This server's.
    Response(&'a mut Edge),
    /// One that is here already: a response out of a cache.
    Whole,
}

/// `inspect-delay`: how long rules may wait for more bytes, whatever else they wait for meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct InspectDelay {
    ends_ms: Option<u64>,
}

impl InspectDelay {
    /// It begins now.
    pub(crate) fn new(delay: Option<Duration>) -> Self {
        Self { ends_ms: delay.map(|delay| now_ms().saturating_add(delay.as_millis() as u64)) }
    }

    /// Sets the deadline to its end.
    pub(crate) fn arm(self, deadline: &Deadline) {
        deadline.arm(self.ends_ms.map(|end| Duration::from_millis(end.saturating_sub(now_ms()))));
    }
}

/// Waits as a rule asks for it.
pub(crate) async fn wait(
    x: &mut Exchange,
    proxy: &Proxy,
    what: WaitFor,
    looked: Looked<'_>,
) -> Result<(), Stop> {
    match what {
        WaitFor::Body { time_ms, at_least, large } => {
            let limit = body_limit(&x.worker.config().global.tune, large);
            match looked {
                Looked::Request => {
                    let time = Duration::from_millis(u64::from(time_ms));
                    let enough = if at_least == 0 { usize::MAX } else { at_least };
                    receive_body(x, Some(time), enough, limit).await
                }
                Looked::Response(server) => {
                    receive_response_body(x, server, time_ms, at_least.min(limit)).await
                }
                Looked::Whole => Ok(()),
            }
        }
        WaitFor::Pause { time_ms } => {
            pause(x, Duration::from_millis(u64::from(time_ms))).await;
            Ok(())
        }
        WaitFor::MoreData => match looked {
            Looked::Request => wait_for_body(x, proxy.tcp_request_inspect_delay, 1).await,
            // Rules on HTTP's responses see a head; what inspects bytes waits for more of them itself.
            Looked::Response(_) | Looked::Whole => Ok(()),
        },
        WaitFor::Handshake => handshake(x, proxy).await,
        WaitFor::Resolve { var, resolvers, host, family } => {
            let host = String::from_utf8_lossy(&host);
            let section = x.worker.shared.dns.section(&resolvers).cloned();
            let address = match section {
                Some(section) => section.resolve(&host, family != 4).await,
                None => None,
            };
            var.set(&mut x.txn, address.map(Value::Ip));
            Ok(())
        }
    }
}

/// `wait-for-handshake`: a request in early data waits until its client has proved that it is there.
async fn handshake(x: &mut Exchange, proxy: &Proxy) -> Result<(), Stop> {
    let Some(tls) = x.txn.session.tls.clone().filter(|tls| tls.has_early()) else { return Ok(()) };
    x.deadline.arm(proxy.timeouts.client_hs.or(proxy.timeouts.client));
    let complete = poll_fn(|cx| {
        if let Poll::Ready(complete) = tls.poll_complete(cx) {
            return Poll::Ready(complete);
        }
        if x.deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(false);
        }
        match &mut x.client {
            Edge::H1(edge) => edge.stream.poll_handshake(cx).map(|complete| complete.is_ok()),
            // The connection's own task goes on with it.
            Edge::H2(_) | Edge::Fcgi(_) => Poll::Pending,
        }
    })
    .await;
    x.deadline.arm(None);
    if complete {
        return Ok(());
    }
    x.terminated(b'C', b'R');
    x.count_front(Counter::ClientAborts, 1);
    x.close_client = true;
    Err(Stop::Client)
}

/// Waits, or until the client's connection fails.  That it has said all it has does not shorten its time: a tarpit would
/// hold nobody who does so.
pub(crate) async fn pause(x: &mut Exchange, time: Duration) {
    x.deadline.set_after(time);
    poll_fn(|cx| {
        if x.deadline.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        x.client.poll_failed(cx)
    })
    .await;
}

/// What is kept of a body that rules wait for.
pub(crate) fn body_limit(tune: &Tune, large: bool) -> usize {
    tune.bufsize_large.filter(|_| large).map_or(tune.bufsize, |size| size.max(tune.bufsize))
}

/// Receives body bytes into the transaction until it is complete, `at_least` bytes are there, a buffer is
/// full, or the time is over.
pub(crate) async fn wait_for_body(
    x: &mut Exchange,
    time: Option<Duration>,
    at_least: usize,
) -> Result<(), Stop> {
    let limit = body_limit(&x.worker.config().global.tune, false);
    receive_body(x, time, at_least, limit).await
}

/// The same with a buffer of this size.
async fn receive_body(
    x: &mut Exchange,
    time: Option<Duration>,
    at_least: usize,
    limit: usize,
) -> Result<(), Stop> {
    if x.tunnel {
        return Ok(());
    }
    x.deadline.arm(time);
    x.client.ask_for_body();
    let outcome = poll_fn(|cx| {
        loop {
            if x.txn.request_body.len() >= at_least.min(limit) {
                return Poll::Ready(Ok(true));
            }
            if x.deadline.poll_expired(cx).is_ready() {
                return Poll::Ready(Ok(false));
            }
            match ready!(x.client.poll_body(cx)) {
                Ok(Body::Data) => {
                    let body = &mut x.txn.request_body;
                    x.client.with_data(|data| {
                        let taken = data.len().min(limit.saturating_sub(body.len()));
                        body.extend_from_slice(&data[..taken]);
                        (taken, ())
                    });
                }
                Ok(Body::End) => {
                    x.txn.request_body_complete = true;
                    return Poll::Ready(Ok(true));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await;
    match outcome {
        Ok(true) => Ok(()),
        Ok(false) => {
            x.terminated(b'c', b'R');
            x.count_front(Counter::RequestErrors, 1);
            x.close_client = true;
            Err(x.error(408))
        }
        Err(EdgeError::Protocol(error)) => {
            x.terminated(b'P', b'R');
            x.count_front(Counter::RequestErrors, 1);
            x.close_client = true;
            Err(x.error(error.status()))
        }
        Err(_) => {
            // Rules may still look at what came; the request goes to no server any more.
            x.body_aborted = true;
            x.close_client = true;
            Ok(())
        }
    }
}

/// `http-response wait-for-body`: so many bytes of the server's body, or all of it, into the transaction.
async fn receive_response_body(
    x: &mut Exchange,
    server: &mut Edge,
    time_ms: u32,
    enough: usize,
) -> Result<(), Stop> {
    x.deadline.set_after(Duration::from_millis(u64::from(time_ms)));
    let failed = poll_fn(|cx| {
        while x.txn.response_body.len() < enough {
            if x.deadline.poll_expired(cx).is_ready() {
                return Poll::Ready(Some(false));
            }
            match ready!(server.poll_body(cx)) {
                Ok(Body::Data) => {
                    let body = &mut x.txn.response_body;
                    server.with_data(|data| {
                        let taken = data.len().min(enough - body.len());
                        body.extend_from_slice(&data[..taken]);
                        (taken, ())
                    });
                }
                Ok(Body::End) => {
                    x.txn.response_body_complete = true;
                    break;
                }
                Err(_) => return Poll::Ready(Some(true)),
            }
        }
        Poll::Ready(None)
    })
    .await;
    match failed {
        None => Ok(()),
        Some(server_failed) => {
            x.terminated(if server_failed { b'S' } else { b's' }, b'D');
            x.count_back(Counter::ResponseErrors, 1);
            Err(x.error(if server_failed { 502 } else { 504 }))
        }
    }
}
