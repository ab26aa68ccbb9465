//! `mode tcp`: rules on the first bytes, then bytes both ways until both sides closed.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use weir_config::model::Mode;
use weir_http::h2::Opening;
use weir_http::{Request, h1};
use weir_net::timers::now_us;
use weir_rules::facts::LogOrigin;
use weir_rules::{Flow, WaitFor, action};

use crate::client::Client;
use crate::edge::{Edge, H1Edge};
use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::filter::Direction;
use crate::finish;
use crate::forward;
use crate::log;
use crate::request::route;
use crate::response;
use crate::response::inspection;
use crate::rules::wait::{InspectDelay, Looked, wait};
use crate::server::reach;

/// A connection that goes on in HTTP, with the exchange that has looked at its first bytes.
pub(crate) struct Switch {
    pub(crate) exchange: Box<Exchange>,
    /// Major version; `None` as the client's bytes say.
    pub(crate) version: Option<u8>,
}

/// What rules or the choice of a backend found.
enum Verdict {
    Tcp,
    Http { version: Option<u8> },
}

/// Serves a connection in TCP mode, to its end or until it turns out to be HTTP's (manual, section 4, "Proxies").
pub(crate) async fn serve(client: &Client<'_>, mut edge: Box<H1Edge>) -> Option<Switch> {
    edge.start_tunnel();
    let mut x = client.exchange(Edge::H1(edge), Request::default(), now_us());
    x.start_tunnel();
    let session = Rc::clone(&x.txn.session);
    let watch = x.place.watch(&x.client);
    let outcome = watch.unless_ended(Box::pin(stages(&mut x)).as_mut()).await;
    let stop = match outcome {
        Ok(Ok(Verdict::Http { version })) => return Some(Switch { exchange: x, version }),
        Ok(Ok(Verdict::Tcp)) => None,
        Ok(Err(stop)) => Some(stop),
        Err(end) => Some(x.ended(end)),
    };
    // There is no language to tell a TCP client anything in.
    let stop = stop.map(|_| Stop::Drop { silent: false });
    let finished = Box::pin(finish::finish(x, stop)).await;
    if finished.silent
        && let Edge::H1(edge) = &finished.client
    {
        edge.stream.vanish(session.reset_ttl.get());
    }
    None
}

async fn stages(x: &mut Exchange) -> Result<Verdict, Stop> {
    let front = Rc::clone(x.worker.proxy(x.front));
    x.txn.request_captures.resize(front.captures.request.len(), None);
    x.txn.response_captures.resize(front.captures.response.len(), None);
    log::step(x, LogOrigin::Accept);
    if let switch @ Verdict::Http { .. } = inspect(x, x.front).await? {
        return Ok(switch);
    }
    route::choose_backend(x)?;
    if x.worker.proxy(x.back).mode == Mode::Http {
        return Ok(Verdict::Http { version: None });
    }
    if x.back != x.front {
        inspect(x, x.back).await?;
    }
    let mut server = reach::tunnel(x).await?;
    // What rules looked at is still in the edge's buffer: it must not go to the server twice.
    x.txn.request_body.clear();
    x.txn.request_body_complete = false;
    x.upload.filters = filter::tunnel(x, Direction::Request);
    inspection::inspect(x, &mut server.edge).await?;
    filter::limit_tunnel(x);
    let back = Rc::clone(x.worker.proxy(x.back));
    response::stick(x, &server.held.server, &back);
    x.answered = true;
    crate::log::as_soon_as_possible(x);
    forward::answer(x, server).await?;
    Ok(Verdict::Tcp)
}

/// `tcp-request content` rules, again whenever more bytes arrived, until they decide or the delay is over.
async fn inspect(x: &mut Exchange, index: usize) -> Result<Verdict, Stop> {
    let proxy = Rc::clone(x.worker.proxy(index));
    let rules = &proxy.tcp_request_content;
    if rules.is_empty() {
        return Ok(Verdict::Tcp);
    }
    let delay = InspectDelay::new(proxy.tcp_request_inspect_delay);
    delay.arm(&x.deadline);
    let limit = x.worker.config().global.tune.bufsize;
    let mut from = 0;
    loop {
        look(x);
        x.txn.inspecting = proxy.tcp_request_inspect_delay.is_some() && !x.txn.request_body_complete;
        match action::run(rules, from, &mut x.txn) {
            Flow::Done | Flow::Allow => return Ok(Verdict::Tcp),
            Flow::Switch(version) => return Ok(Verdict::Http { version }),
            // From the start: rules without a condition before this one see what came, too.
            Flow::Wait { what: WaitFor::MoreData, .. } => from = 0,
            Flow::Wait { next, what } => {
                Box::pin(wait(x, &proxy, what, Looked::Request)).await?;
                delay.arm(&x.deadline);
                from = next;
                continue;
            }
            Flow::Drop { silent } => {
                x.terminated(b'P', b'R');
                return Err(Stop::Drop { silent });
            }
            Flow::Reply { .. } | Flow::Tarpit(_) | Flow::Service(_) | Flow::CloseServer => {
                x.terminated(b'P', b'R');
                return Err(Stop::Drop { silent: false });
            }
        }
        let full = x.txn.request_body.len() >= limit;
        if proxy.tcp_request_inspect_delay.is_none() || full || x.txn.request_body_complete {
            x.txn.request_body_complete = true;
        } else {
            wait_for_more(x).await;
        }
    }
}

/// Shows the bytes received so far to the rules, without taking them: as they are, and as the head of an HTTP
/// request when they are one.
fn look(x: &mut Exchange) {
    let Edge::H1(edge) = &x.client else { return };
    let bytes = edge.input.unread();
    x.txn.request_body.clear();
    x.txn.request_body.extend_from_slice(bytes);
    let options = x.worker.request_options(x.worker.proxy(x.front));
    let read = h1::parse_request(bytes, &mut x.txn.request, &options);
    if !matches!(read, Ok(Some(_))) {
        x.txn.request.clear();
    }
    // What an HTTP/2 connection begins with looks like a request, and nothing of its requests can be seen here.
    let opening = Opening::of(bytes);
    if opening == Opening::Preface {
        x.txn.request.set_method(b"PRI");
    }
    x.txn.not_http = read.is_err() && opening == Opening::Other;
}

async fn wait_for_more(x: &mut Exchange) {
    let Edge::H1(edge) = &mut x.client else { return };
    let deadline = &mut x.deadline;
    let complete = poll_fn(|cx| {
        if let Poll::Ready(read) = edge.poll_fill(cx) {
            return Poll::Ready(!matches!(read, Ok(1..)));
        }
        deadline.poll_expired(cx).map(|()| true)
    })
    .await;
    x.txn.request_body_complete |= complete;
}
