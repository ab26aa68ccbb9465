//! Rules on the request: the frontend's, then the backend's; captures and waiting for the body.

use std::rc::Rc;
use std::time::Duration;

use weir_config::model::{Proxy, RestrictNames, Tune};
use weir_http::{Fields, Request, Response};
use weir_rules::{Flow, Phase, Rule, action, reply};

use crate::exchange::{Exchange, Stop};
use crate::plan::Work;
use crate::rules::wait::{Looked, pause, wait, wait_for_body};
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

/// What a backend adds that is not the frontend's own other half.
pub(crate) async fn backend(x: &mut Exchange) -> Result<(), Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    if !x.work(x.front).has(Work::REQUEST) {
        limit_rewriting(x);
    }
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
                Box::pin(wait(x, proxy, what, Looked::Request)).await?;
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
