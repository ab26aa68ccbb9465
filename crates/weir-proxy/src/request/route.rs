//! Which backend: `use_backend` rules in order, then `default_backend`.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::{BackendTarget, KeepAlive, Mode, Proxy};
use weir_net::timers::now_ms;
use weir_rules::Txn;
use weir_rules::facts::ProxyName;

use crate::exchange::{Exchange, Stop};
use crate::state::counters::Counter;
use crate::thread::worker::Worker;

/// The backend for a transaction of this frontend; `None` without any that fits.
pub(crate) fn backend_of(worker: &Worker, proxy: &Proxy, front: usize, txn: &Txn) -> Option<usize> {
    // A proxy's own servers are for its own clients, published or not.
    let open = |back: &usize| *back == front || may_choose(worker, proxy, *back, txn);
    for rule in &proxy.use_backend {
        if rule.condition.as_ref().is_some_and(|condition| !condition.holds(txn)) {
            continue;
        }
        match &rule.target {
            BackendTarget::Known(index) if open(index) => return Some(*index),
            BackendTarget::Known(_) => {}
            BackendTarget::Dynamic(format) => {
                let mut name = Vec::new();
                format.render(txn, &mut name);
                match worker.shared.proxy_index(&String::from_utf8_lossy(&name), true) {
                    Some(found) if open(&found) => return Some(found),
                    Some(_) => {}
                    // HAProxy goes on with the default backend when the name is unknown, not with the next rule.
                    None => break,
                }
            }
        }
    }
    proxy.default_backend.filter(open).or_else(|| proxy.backend.then_some(front))
}

/// Backends that are unpublished or disabled are chosen only where `force-be-switch` says so.
fn may_choose(worker: &Worker, proxy: &Proxy, back: usize, txn: &Txn) -> bool {
    let open = worker.state(back).published.load(Relaxed) && !worker.proxy(back).disabled;
    open || proxy.force_be_switch.iter().any(|condition| condition.holds(txn))
}

/// Chooses the backend and enters it.
pub(crate) fn choose_backend(x: &mut Exchange) -> Result<(), Stop> {
    let proxy = Rc::clone(x.worker.proxy(x.front));
    let Some(back) = backend_of(&x.worker, &proxy, x.front, &x.txn) else {
        x.terminated(b'S', b'C');
        x.count_front(Counter::RequestErrors, 1);
        return Err(x.error(503));
    };
    enter(x, back);
    if !x.tunnel && x.worker.proxy(back).mode != Mode::Http {
        // A frontend in TCP mode whose connection went on in HTTP: manual, action `switch-mode`.
        x.terminated(b'I', b'R');
        return Err(x.error(500));
    }
    Ok(())
}

/// Counts the request into its backend.
fn enter(x: &mut Exchange, back: usize) {
    x.back = back;
    x.in_backend = true;
    x.place.in_backend(back);
    let proxy = x.worker.proxy(back);
    x.close_client |= proxy.options.keep_alive == KeepAlive::Close;
    x.txn.backend = Some(ProxyName { name: Arc::clone(&proxy.name), id: proxy.id, index: back });
    let state = x.worker.state(back);
    state.back_current.enter();
    state.backend_rate.hit(now_ms());
    state.last_session_ms.store(now_ms(), Relaxed);
    state.back.add(x.worker.thread, Counter::Sessions, 1);
    state.back.add(x.worker.thread, Counter::Requests, 1);
}
