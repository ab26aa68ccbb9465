//! One request's life, from its head to its log line: the stages in order.

use std::pin::pin;

use weir_config::model::KeepAlive;
use weir_http::{Request, Version};
use weir_net::timers::now_ms;
use weir_rules::facts::LogOrigin;

use crate::exchange::{Exchange, Finished, Stop};
use crate::filter::cache;
use crate::plan::Work;
use crate::request::{route, rules, services};
use crate::server::reach;
use crate::state::counters::Counter;
use crate::state::stick_track;
use crate::{finish, forward, log, response};

/// Runs an exchange to its log line.
pub(crate) async fn run(mut exchange: Box<Exchange>) -> Finished {
    let watch = exchange.place.watch(&exchange.client);
    let outcome = watch.unless_ended(pin!(stages(&mut exchange))).await;
    let stop = match outcome {
        Ok(outcome) => outcome.err(),
        Err(end) => Some(exchange.ended(end)),
    };
    finish::finish(exchange, stop).await
}

/// The request's way.  What few requests meet is on the heap: the others have no room for it in their future, nor its code
/// in their way.
async fn stages(x: &mut Exchange) -> Result<(), Stop> {
    begin(x);
    // In TCP mode a backend may have been chosen that goes on in HTTP.
    if !x.in_backend {
        let work = x.work(x.front);
        if work.has(Work::REQUEST) || x.inspected {
            Box::pin(rules::frontend(x)).await?;
        }
        if work.has(Work::STATS) {
            Box::pin(services::answer(x, x.front)).await?;
        }
        route::choose_backend(x)?;
    }
    let work = x.work(x.back);
    if work.has(Work::REQUEST) && x.back != x.front {
        Box::pin(rules::backend(x)).await?;
    }
    if work.has(Work::STATS) {
        Box::pin(services::answer(x, x.back)).await?;
    }
    if x.txn.cache_use.is_some() {
        Box::pin(cache::answer(x)).await?;
    }
    let (mut server, response) = reach::serve(x).await?;
    response::apply(x, &mut server, response).await?;
    forward::answer(x, server).await
}

fn begin(x: &mut Exchange) {
    x.txn.bytes_in += head_size(&x.txn.request);
    x.close_client |= x.worker.proxy(x.front).options.keep_alive == KeepAlive::Close;
    x.txn.timers.request_ms = Some(x.elapsed_ms());
    let state = x.worker.state(x.front);
    state.request_rate.hit(now_ms());
    x.count_front(Counter::Requests, 1);
    let version = match x.txn.request.version {
        Version::Http2 => Counter::H2Requests,
        _ => Counter::H1Requests,
    };
    x.count_front(version, 1);
    stick_track::request_begins(&x.worker.shared, &x.txn);
    if x.work(x.front).has(Work::EARLY_LOG) {
        log::step(x, LogOrigin::Accept);
        log::step(x, LogOrigin::Request);
    }
}

/// Bytes of the request's head as the client sent it, on the wire of HTTP/1: rules change it later.
fn head_size(request: &Request) -> u64 {
    let fields = request.fields.wire_len();
    (request.method_name.len() + request.uri.len() + b"  HTTP/1.1\r\n\r\n".len() + fields) as u64
}
