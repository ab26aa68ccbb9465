//! Rules on the request: the frontend's, then the backend's; captures and waiting for the body.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use weir_config::model::{Proxy, RestrictNames, Tune};
use weir_http::{Fields, Request, Response};
use weir_rules::{Flow, Phase, Rule, Value, WaitFor, action, reply};

use crate::edge::{Body, Edge, EdgeError};
use crate::exchange::{Exchange, Stop};
use crate::state::counters::Counter;

/// Everything a frontend does with a request before a backend is chosen.
pub(crate) async fn frontend(x: &mut Exchange) -> Result<(), Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.front));
    if let Some(uri) = &proxy.monitor_uri
        && is_monitored(&x.txn.request, uri)
    {
        return Err(monitor(x, &proxy));
    }
    restrict_names(x, &proxy)?;
    capture(x, &proxy);
    if proxy.options.http_buffer_request {
        let time = proxy.timeouts.http_request.or(proxy.timeouts.client);
        wait_for_body(x, time, usize::MAX).await?;
    }
    limit_rewriting(x);
    if !x.inspected {
        apply(x, &proxy, &proxy.tcp_request_content, Phase::TcpRequestContent).await?;
    }
    crate::state::stick_track::content_tracked(&x.worker.shared, &x.txn);
    apply(x, &proxy, &proxy.http_request, Phase::HttpRequest).await?;
    apply(x, &proxy, &proxy.redirect, Phase::HttpRequest).await?;
    early_hints(x)
}

/// Rewriting may make a request's head as large as a buffer that holds its body, too.
fn limit_rewriting(x: &mut Exchange) {
    let received = x.txn.request_body.len();
    let body =
        x.txn.request_body_len.map_or(received, |length| usize::try_from(length).unwrap_or(usize::MAX));
    let room = room(&x.worker.config().global.tune, &x.txn.request.fields, body);
    x.txn.limit_rewriting(room);
}

/// Bytes that rules may add to a head of these fields with such a body: what a buffer has left beside them, and
/// always `tune.maxrewrite`.
pub(crate) fn room(tune: &Tune, fields: &Fields, body: usize) -> usize {
    tune.bufsize.saturating_sub(fields.wire_len()).saturating_sub(body).max(tune.maxrewrite)
}

/// `http-request early-hint`: 103 to the client, before anything else.
fn early_hints(x: &mut Exchange) -> Result<(), Stop> {
    if x.txn.early_hints.is_empty() {
        return Ok(());
    }
    let mut response = Response::new(103, "Early Hints");
    for (name, value) in std::mem::take(&mut x.txn.early_hints) {
        response.fields.push(&name, &value);
    }
    x.client.send_informational(&response).map_err(|_| Stop::Client)
}

/// What the backend adds, when it is not the frontend's own other half.
pub(crate) async fn backend(x: &mut Exchange) -> Result<(), Stop> {
    if x.back == x.front {
        return Ok(());
    }
    let proxy = Rc::clone(x.worker.proxy(x.back));
    if proxy.options.http_buffer_request && !x.txn.request_body_complete {
        let time = proxy.timeouts.http_request.or(proxy.timeouts.client);
        wait_for_body(x, time, usize::MAX).await?;
    }
    restrict_names(x, &proxy)?;
    apply(x, &proxy, &proxy.tcp_request_content, Phase::TcpRequestContent).await?;
    apply(x, &proxy, &proxy.http_request, Phase::HttpRequest).await?;
    apply(x, &proxy, &proxy.redirect, Phase::HttpRequest).await?;
    early_hints(x)
}

/// `monitor-uri` is an absolute URI, or a path that also matches the path of an absolute one.
fn is_monitored(request: &Request, uri: &[u8]) -> bool {
    request.uri_bytes() == uri || (uri.starts_with(b"/") && request.path_and_query() == uri)
}

/// `monitor-uri`: answered at once, neither logged nor counted as a request.
fn monitor(x: &mut Exchange, proxy: &Proxy) -> Stop {
    x.count_front(Counter::Intercepted, 1);
    x.txn.log_level = Some(SILENT);
    x.terminated(b'L', b'R');
    let failed = proxy.monitor_fail.iter().any(|condition| condition.holds(&x.txn));
    let reply = if failed { reply::default_error(503) } else { reply::default_error(200) };
    Stop::Reply(Box::new(reply))
}

/// `set-log-level silent`.
const SILENT: u8 = 8;

/// `option http-restrict-req-hdr-names`: names of other characters than letters, digits and hyphens.
fn restrict_names(x: &mut Exchange, proxy: &Proxy) -> Result<(), Stop> {
    let plain = |name: &[u8]| name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
    // Manual: FastCGI makes parameters of the names, where different ones could become the same.
    let for_fcgi = proxy.use_fcgi_app.is_some().then_some(RestrictNames::Delete);
    match proxy.options.http_restrict_req_hdr_names.or(for_fcgi) {
        None | Some(RestrictNames::Preserve) => Ok(()),
        Some(RestrictNames::Delete) => {
            x.txn.request.fields.retain(|name, _| plain(name));
            Ok(())
        }
        Some(RestrictNames::Reject) if x.txn.request.fields.iter().all(|(name, _)| plain(name)) => Ok(()),
        Some(RestrictNames::Reject) => {
            x.count_front(Counter::DeniedRequests, 1);
            x.terminated(b'P', b'R');
            Err(x.error(403))
        }
    }
}

/// `capture request header`, `capture cookie`.
fn capture(x: &mut Exchange, proxy: &Proxy) {
    let captures = &proxy.captures;
    x.txn.request_captures.resize(captures.request.len(), None);
    x.txn.response_captures.resize(captures.response.len(), None);
    for (slot, (name, limit)) in captures.request.iter().enumerate() {
        if !name.is_empty()
            && let Some(value) = x.txn.request.fields.get_all(name).next_back()
        {
            x.txn.request_captures[slot] = Some(value[..value.len().min(*limit)].into());
        }
    }
    if let Some((name, limit)) = &captures.cookie {
        x.txn.cookie_captures[0] =
            crate::server::choose::cookie::capture(&x.txn.request.fields, name, *limit, false);
    }
}

/// Runs a rule set, waiting where a rule asks for it.
pub(crate) async fn apply(x: &mut Exchange, proxy: &Proxy, rules: &[Rule], phase: Phase) -> Result<(), Stop> {
    let mut from = 0;
    while !rules.is_empty() {
        match action::run(rules, from, &mut x.txn) {
            // What is HTTP already needs no switch.
            Flow::Done | Flow::Allow | Flow::Switch(_) => break,
            Flow::Wait { next, what } => {
                Box::pin(wait(x, proxy, what)).await?;
                from = next;
            }
            flow => return Err(stopped(x, proxy, flow, phase).await),
        }
    }
    Ok(())
}

/// A rule ended the exchange.
pub(crate) async fn stopped(x: &mut Exchange, proxy: &Proxy, flow: Flow, phase: Phase) -> Stop {
    let request = matches!(phase, Phase::HttpRequest | Phase::TcpRequestContent);
    let stage = if request { b'R' } else { b'H' };
    match flow {
        Flow::Reply { reply, denied, close } => {
            x.close_client |= close;
            x.terminated(if denied { b'P' } else { b'L' }, stage);
            let counter = match (denied, request) {
                (true, true) => Counter::DeniedRequests,
                (true, false) => Counter::DeniedResponses,
                (false, _) => Counter::Intercepted,
            };
            x.count_front(counter, 1);
            Stop::Reply(reply)
        }
        Flow::Tarpit(reply) => {
            x.count_front(Counter::DeniedRequests, 1);
            x.terminated(b'P', b'T');
            let set = x.txn.set_other_timeouts[2].map(|ms| Duration::from_millis(u64::from(ms)));
            let time = set.or(proxy.timeouts.tarpit).or(proxy.timeouts.connect);
            pause(x, time.unwrap_or_default()).await;
            x.close_client = true;
            Stop::Reply(reply)
        }
        Flow::Drop { silent } => {
            x.count_front(Counter::DeniedRequests, 1);
            x.terminated(b'P', stage);
            Stop::Drop { silent }
        }
        Flow::Service(_) => {
            // The rules know one service: prometheus-exporter.
            x.txn.server = Some(std::sync::Arc::from("<PROMEX>"));
            x.terminated(b'L', stage);
            x.count_front(Counter::Intercepted, 1);
            let services = std::sync::Arc::clone(&x.worker.services);
            let reply = services.metrics(&x.worker.shared, &x.txn);
            Stop::Reply(Box::new(crate::filter::reply(x, reply)))
        }
        Flow::Done | Flow::Allow | Flow::Wait { .. } | Flow::CloseServer | Flow::Switch(_) => {
            Stop::Drop { silent: false }
        }
    }
}

async fn wait(x: &mut Exchange, proxy: &Proxy, what: WaitFor) -> Result<(), Stop> {
    match what {
        WaitFor::Body { time_ms, at_least, large } => {
            let time = Duration::from_millis(u64::from(time_ms));
            let enough = if at_least == 0 { usize::MAX } else { at_least };
            let limit = body_limit(&x.worker.config().global.tune, large);
            receive_body(x, Some(time), enough, limit).await
        }
        WaitFor::Pause { time_ms } => {
            pause(x, Duration::from_millis(u64::from(time_ms))).await;
            Ok(())
        }
        WaitFor::MoreData => wait_for_body(x, proxy.tcp_request_inspect_delay, 1).await,
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
async fn pause(x: &mut Exchange, time: Duration) {
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
