//! `tcp-response content` rules: on what the server sends, again whenever more of it arrived, until they decide or the
//! delay is over.
//!
//! Owns the waiting. What the rules saw stays in the transaction, from where it is forwarded.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use weir_rules::{Flow, WaitFor, action};

use crate::edge::{Body, Edge};
use crate::exchange::{Exchange, Stop};
use crate::forward;
use crate::rules::wait::{InspectDelay, Looked, wait};
use crate::state::counters::Counter;

/// Runs the backend's rules; in a tunnel the client's bytes go on to the server meanwhile.
pub(crate) async fn inspect(x: &mut Exchange, server: &mut Edge) -> Result<(), Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.back));
    let rules = &proxy.tcp_response_content;
    if rules.is_empty() {
        return Ok(());
    }
    let delay = InspectDelay::new(proxy.tcp_response_inspect_delay);
    delay.arm(&x.deadline);
    let mut over = proxy.tcp_response_inspect_delay.is_none();
    let mut from = 0;
    loop {
        x.txn.inspecting = !over && !x.txn.response_body_complete;
        match action::run(rules, from, &mut x.txn) {
            Flow::Wait { next, what: WaitFor::MoreData } if x.txn.inspecting => {
                from = next;
                over = wait_for_more(x, server).await;
            }
            Flow::Wait { what: WaitFor::MoreData, .. } | Flow::Done | Flow::Allow => break,
            Flow::Wait { next, what } => {
                Box::pin(wait(x, &proxy, what, Looked::Response(server))).await?;
                delay.arm(&x.deadline);
                from = next;
            }
            flow => {
                x.txn.inspecting = false;
                return Err(refused(x, flow));
            }
        }
    }
    x.txn.inspecting = false;
    Ok(())
}

fn refused(x: &mut Exchange, flow: Flow) -> Stop {
    x.terminated(b'P', b'D');
    x.count_back(Counter::DeniedResponses, 1);
    x.close_client = true;
    Stop::Drop { silent: matches!(flow, Flow::Drop { silent: true }) }
}

/// Takes more of the server's bytes into the transaction; true when there is nothing more to wait for.
async fn wait_for_more(x: &mut Exchange, server: &mut Edge) -> bool {
    let limit = x.worker.config().global.tune.bufsize;
    poll_fn(|cx| {
        if x.tunnel
            && !x.upload.is_done()
            && matches!(forward::poll_upload(x, server, cx), Poll::Ready(Err(_)))
        {
            return Poll::Ready(true);
        }
        match server.poll_body(cx) {
            Poll::Ready(Ok(Body::Data)) => {
                let body = &mut x.txn.response_body;
                server.with_data(|data| {
                    let taken = data.len().min(limit.saturating_sub(body.len()));
                    body.extend_from_slice(&data[..taken]);
                    (taken, ())
                });
                return Poll::Ready(body.len() >= limit);
            }
            Poll::Ready(Ok(Body::End)) => {
                x.txn.response_body_complete = true;
                return Poll::Ready(true);
            }
            // Whoever forwards the response meets the error again.
            Poll::Ready(Err(_)) => return Poll::Ready(true),
            Poll::Pending => {}
        }
        x.deadline.poll_expired(cx).map(|()| true)
    })
    .await
}
