//! Rules on the response: the backend's, then the frontend's; then its head goes to the client.

pub(crate) mod inspection;

use std::rc::Rc;

use weir_config::model::Proxy;
use weir_http::{FieldName, Method, Response};
use weir_rules::txn::LogOrigin;
use weir_rules::{Flow, Phase, Rule, WaitFor, action};

use crate::edge::{Body, BodyLength, Edge};
use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::filter::Direction;
use crate::filter::cache;
use crate::request::rules;
use crate::server::choose::cookie;
use crate::server::choose::stick;
use crate::server::reach::ServerConnection;
use crate::state::ServerState;
use crate::state::counters::{Counter, Counters};
use crate::state::stick_track;

/// Applies the rules and sends the head.
pub(crate) async fn apply(
    x: &mut Exchange,
    server: &mut ServerConnection,
    response: Response,
) -> Result<(), Stop> {
    let front = Rc::clone(x.worker.proxy(x.front));
    let back = Rc::clone(x.worker.proxy(x.back));
    received(x, server, &response, &front);
    if response.status == 101 || (x.txn.request.method == Method::Connect && response.status / 100 == 2) {
        x.tunnel = true;
    }
    let body = match server.edge.body_length() {
        BodyLength::Exact(length) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => 0,
    };
    let room = rules::room(&x.worker.config().global.tune, &response.fields, body);
    x.txn.response = Some(response);
    inspection::inspect(x, &mut server.edge).await?;
    x.txn.limit_rewriting(room);
    stick(x, &server.held.server, &back);
    run_both(x, Some(&mut server.edge), &front, &back).await?;
    // The rules are about what the server said; the cookie that names it comes afterwards.
    if let Some(mut response) = x.txn.response.take() {
        if let Some((name, limit)) = &front.captures.cookie {
            x.txn.cookie_captures[1] = cookie::capture(&response.fields, name, *limit, true);
        }
        cookie::write(x, &back, &server.held.server, &mut response);
        x.txn.response = Some(response);
    }
    if cache::check(x, &back) {
        x.terminated(b'P', b'H');
        x.count_back(Counter::DeniedResponses, 1);
        return Err(x.error(502));
    }
    let mut body = length_of(x, &server.edge);
    let until_close = matches!(&server.edge, Edge::H1(edge) if edge.is_until_close());
    cache::response(x, body);
    filter::response(x, &mut body, until_close);
    after_response(x);
    send_head(x, server, body)?;
    crate::log::as_soon_as_possible(x);
    crate::log::step(x, LogOrigin::Response);
    Ok(())
}

/// Keys that are stuck to the server from now on.
pub(crate) fn stick(x: &mut Exchange, server: &ServerState, proxy: &Proxy) {
    if proxy.stick_rules.is_empty() {
        return;
    }
    stick::response(&x.worker.shared, proxy, x.back, &x.txn, &mut x.stick, server);
}

/// What the log and the statistics want to know of a response that arrived.
fn received(x: &mut Exchange, server: &ServerConnection, response: &Response, front: &Proxy) {
    let thread = x.worker.thread;
    let waited = [x.txn.timers.request_ms, x.txn.timers.queue_ms, x.txn.timers.connect_ms];
    let before: u32 = waited.iter().map(|t| t.unwrap_or(0)).sum();
    x.txn.timers.response_ms = Some(x.elapsed_ms().saturating_sub(before));
    x.txn.server_status = response.status;
    x.txn.status = response.status;
    server.held.server.count(thread, Counters::of_status(response.status), 1);
    server.held.server.count(thread, Counter::Requests, 1);
    stick_track::server_status(&x.worker.shared, &x.txn, response.status);
    for (slot, (name, limit)) in front.captures.response.iter().enumerate() {
        if !name.is_empty()
            && let Some(value) = response.fields.get_all(name).next_back()
        {
            x.txn.response_captures[slot] = Some(value[..value.len().min(*limit)].into());
        }
    }
}

/// The same rules on a response out of a cache.
pub(crate) async fn on_cached(x: &mut Exchange) -> Result<(), Stop> {
    let front = Rc::clone(x.worker.proxy(x.front));
    let back = Rc::clone(x.worker.proxy(x.back));
    run_both(x, None, &front, &back).await
}

/// The backend's rules, then the frontend's; without a server the body is here already.
async fn run_both(
    x: &mut Exchange,
    mut server: Option<&mut Edge>,
    front: &Proxy,
    back: &Proxy,
) -> Result<(), Stop> {
    run_rules(x, server.as_deref_mut(), back, &back.http_response).await?;
    if x.back != x.front {
        run_rules(x, server, front, &front.http_response).await?;
    }
    Ok(())
}

async fn run_rules(
    x: &mut Exchange,
    mut server: Option<&mut Edge>,
    proxy: &Proxy,
    rules: &[Rule],
) -> Result<(), Stop> {
    let mut from = 0;
    while !rules.is_empty() {
        match action::run(rules, from, &mut x.txn) {
            Flow::Done | Flow::Allow => break,
            Flow::Wait { next, what } => {
                if let (WaitFor::Body { time_ms, at_least, large }, Some(server)) =
                    (what, server.as_deref_mut())
                {
                    let limit = rules::body_limit(&x.worker.config().global.tune, large);
                    wait_for_body(x, server, time_ms, at_least.min(limit)).await?;
                }
                from = next;
            }
            flow => {
                x.count_back(Counter::DeniedResponses, 1);
                return Err(rules::stopped(x, proxy, flow, Phase::HttpResponse).await);
            }
        }
    }
    Ok(())
}

/// `http-response wait-for-body`: so many bytes of the server's body, or all of it, into the transaction.
async fn wait_for_body(x: &mut Exchange, server: &mut Edge, time_ms: u32, enough: usize) -> Result<(), Stop> {
    use std::task::{Poll, ready};
    x.deadline.set_after(std::time::Duration::from_millis(u64::from(time_ms)));
    let failed = std::future::poll_fn(|cx| {
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

/// How the response's body is delimited towards the client.
fn length_of(x: &Exchange, server: &Edge) -> BodyLength {
    let Some(response) = &x.txn.response else { return BodyLength::None };
    if x.tunnel {
        return BodyLength::Tunnel;
    }
    if x.txn.request.method == Method::Head || matches!(response.status, 204 | 304) {
        return BodyLength::None;
    }
    match server.body_length() {
        // Ends with the server's connection: nobody knows the length.
        BodyLength::Tunnel => BodyLength::Unknown,
        length => length,
    }
}

/// `http-after-response`: on every response, those made here included.
pub(crate) fn after_response(x: &mut Exchange) {
    let front = Rc::clone(x.worker.proxy(x.front));
    let back = Rc::clone(x.worker.proxy(x.back));
    if x.back != x.front {
        run_after(x, &back.http_after_response);
    }
    run_after(x, &front.http_after_response);
}

fn run_after(x: &mut Exchange, rules: &[Rule]) {
    if !rules.is_empty() {
        // These rules cannot end anything but their own set.
        let _done = action::run(rules, 0, &mut x.txn);
    }
}

fn send_head(x: &mut Exchange, server: &mut ServerConnection, body: BodyLength) -> Result<(), Stop> {
    let stopping = x.worker.is_closing(x.client_id);
    x.close_client |= matches!(&server.edge, Edge::H1(edge) if edge.insecure_framing);
    let Some(response) = &x.txn.response else { return Ok(()) };
    if let Edge::H1(client) = &mut x.client {
        client.keep_alive &= !x.close_client && !stopping;
        // The server's unknown end is the client's too: as HAProxy, close rather than chunk.
        if body == BodyLength::Unknown
            && matches!(&server.edge, Edge::H1(s) if s.is_until_close())
            && !response.fields.has(FieldName::TransferEncoding)
        {
            client.end_by_closing();
        }
    }
    x.txn.bytes_out += head_size(response);
    x.answered = true;
    let status = Counters::of_status(response.status);
    x.count_front(status, 1);
    x.count_back(status, 1);
    if x.client.send_response(response, body).is_err() {
        x.terminated(b'C', b'H');
        return Err(Stop::Client);
    }
    if x.tunnel {
        if let Edge::H1(client) = &mut x.client {
            client.start_tunnel();
        }
        if let Edge::H1(server) = &mut server.edge {
            server.start_tunnel();
        }
        x.upload.start_tunnel();
        x.upload.filters = filter::tunnel(x, Direction::Request);
    }
    Ok(())
}

/// Bytes a head has on the wire of HTTP/1, for `%B`.
pub(crate) fn head_size(response: &Response) -> u64 {
    let fields = response.fields.wire_len();
    (b"HTTP/1.1 200 ".len() + response.reason.len() + 2 + fields + 2) as u64
}
