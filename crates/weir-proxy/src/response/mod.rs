//! Rules on the response: the backend's, then the frontend's; then its head goes to the client.

pub(crate) mod inspection;

use std::rc::Rc;

use weir_config::model::Proxy;
use weir_http::{FieldName, Method, Response};
use weir_rules::facts::LogOrigin;
use weir_rules::{Flow, Phase, Rule, action};

use crate::edge::{BodyLength, Edge};
use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::filter::Direction;
use crate::filter::cache;
use crate::plan::Work;
use crate::request::rules;
use crate::rules::wait::{Looked, wait};
use crate::server::choose::cookie;
use crate::server::choose::stick;
use crate::server::reach::ServerConnection;
use crate::state::ServerState;
use crate::state::counters::{Counter, Counters};
use crate::state::stick_track;
use crate::thread::worker::LocalProxy;

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
    x.txn.response = Some(response);
    let work = front.work.and(back.work);
    if work.has(Work::RESPONSE) {
        Box::pin(ruled(x, server, &front, &back)).await?;
    }
    let mut body = length_of(x, &server.edge);
    if x.txn.cache_use.is_some() {
        cache::response(x, body);
    }
    if x.plan.is_some() {
        let until_close = matches!(&server.edge, Edge::H1(edge) if edge.is_until_close());
        filter::response(x, &mut body, until_close);
    }
    if work.has(Work::AFTER) {
        if !work.has(Work::RESPONSE) {
            limit_rewriting(x, length_here(&server.edge));
        }
        after_response(x);
    }
    send_head(x, server, body)?;
    if work.has(Work::EARLY_LOG) {
        crate::log::as_soon_as_possible(x);
        crate::log::step(x, LogOrigin::Response);
    }
    Ok(())
}

/// Everything that rules, captures and cookies have to do with a response.
async fn ruled(
    x: &mut Exchange,
    server: &mut ServerConnection,
    front: &LocalProxy,
    back: &LocalProxy,
) -> Result<(), Stop> {
    limit_rewriting(x, length_here(&server.edge));
    inspection::inspect(x, &mut server.edge).await?;
    stick(x, &server.held.server, back);
    run_both(x, Some(&mut server.edge), front, back).await?;
    // The rules are about what the server said; the cookie that names it comes afterwards.
    if let Some(mut response) = x.txn.response.take() {
        if let Some((name, limit)) = &front.captures.cookie {
            x.txn.cookie_captures[1] = cookie::capture(&response.fields, name, *limit, true);
        }
        cookie::write(x, back, &server.held.server, &mut response);
        x.txn.response = Some(response);
    }
    if cache::check(x, back) {
        x.terminated(b'P', b'H');
        x.count_back(Counter::DeniedResponses, 1);
        return Err(x.error(502));
    }
    Ok(())
}

/// Bytes of the body that a buffer holds beside the head.
fn length_here(server: &Edge) -> usize {
    match server.body_length() {
        BodyLength::Exact(length) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => 0,
    }
}

/// Rewriting may make a response's head as large as a buffer that holds its body, too.
pub(crate) fn limit_rewriting(x: &mut Exchange, body: usize) {
    let Some(response) = &x.txn.response else { return };
    let room = rules::room(&x.worker.config().global.tune, &response.fields, body);
    x.txn.limit_rewriting(room);
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
                let looked = match server.as_deref_mut() {
                    Some(server) => Looked::Response(server),
                    None => Looked::Whole,
                };
                Box::pin(wait(x, proxy, what, looked)).await?;
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
