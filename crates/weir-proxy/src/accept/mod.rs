//! Accepting: within the limits of the process, the frontend and the bind line.  Which thread serves a connection is
//! `accept_queue`'s.

pub mod listeners;
pub mod queue;

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use weir_balance::Limit;
use weir_config::model::Config;
use weir_net::listen::{Accepted, Acceptor};
use weir_net::timers::now_ms;

use crate::accept::queue::{Arrival, Passed};
use crate::client::{self, Entry};
use crate::state::counters::Rate;
use crate::thread::scarcity::{self, Newcomer, Shortage};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Pause while a rate limit holds new sessions back.
const RATE_PAUSE: Duration = Duration::from_millis(10);

/// Ports below need rights to be used.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Accepts connections on one thread's end of a listening socket until the soft stop, and takes those that other threads
/// accepted for it.
pub(crate) async fn run(worker: Rc<Worker>, entry: Rc<Entry>, acceptor: Acceptor) {
    let queue = entry.queues.open(worker.thread, worker.shared.threads);
    if worker.shared.threads > 1 {
        spawn_vital(receive(Rc::clone(&worker), Rc::clone(&entry), queue));
    }
    accept(worker, entry, acceptor).await;
}

async fn accept(worker: Rc<Worker>, entry: Rc<Entry>, mut acceptor: Acceptor) {
    let mut stop = worker.shared.stop_signal.subscribe();
    let mut batch = Vec::new();
    let most = worker.config().global.tune.maxaccept.max(1);
    loop {
        wait_for_room(&worker, &entry).await;
        let free = room(&worker, &entry).clamp(1, most);
        let accepted = tokio::select! {
            biased;
            // The sender lives in the shared state: it cannot be gone.
            _ = stop.wait_for(|stopping| *stopping) => return,
            accepted = acceptor.accept_batch(&mut batch, free) => accepted,
        };
        if let Err(error) = accepted {
            worker.shared.tell_shortage(entry.front, Shortage::Descriptors, || scarcity::words(&error.0));
        }
        for accepted in batch.drain(..) {
            let shared = &worker.shared;
            if is_refused(worker.config(), accepted.peer.port())
                || shared.lacks_memory(entry.front, Newcomer::Connection)
            {
                continue;
            }
            shared.connections.fetch_add(1, Relaxed);
            shared.total_connections.fetch_add(1, Relaxed);
            shared.connection_rate.hit(now_ms());
            share_out(&worker, &entry, accepted);
        }
    }
}

/// Serves a connection here, or passes it to a thread that has less to do.
fn share_out(worker: &Rc<Worker>, entry: &Rc<Entry>, accepted: Accepted) {
    let thread = entry.queues.choose(worker.thread);
    if thread == worker.thread {
        serve(worker, entry, accepted);
        return;
    }
    let arrival = Arrival::new(&worker.shared, entry, thread);
    // What cannot be taken off this event loop is lost, and its place is free again.
    let Ok(stream) = accepted.stream.detach() else { return };
    if let Err(back) = entry.queues.pass(thread, Passed { stream, peer: accepted.peer, arrival }) {
        take(worker, entry, back);
    }
}

/// Takes connections that other threads accepted.  At the soft stop those on their way are still served.
async fn receive(worker: Rc<Worker>, entry: Rc<Entry>, mut queue: mpsc::UnboundedReceiver<Passed>) {
    let mut stop = worker.shared.stop_signal.subscribe();
    loop {
        let passed = tokio::select! {
            biased;
            passed = queue.recv() => passed,
            _ = stop.wait_for(|stopping| *stopping) => break,
        };
        let Some(passed) = passed else { return };
        take(&worker, &entry, passed);
    }
    queue.close();
    while let Some(passed) = queue.recv().await {
        take(&worker, &entry, passed);
    }
}

fn take(worker: &Rc<Worker>, entry: &Rc<Entry>, passed: Passed) {
    let Passed { stream, peer, arrival } = passed;
    if let Ok(stream) = stream.attach() {
        // Counted on its own before the place that was held for it is given back.
        worker.shared.connections.fetch_add(1, Relaxed);
        serve(worker, entry, Accepted { stream, peer });
    }
    drop(arrival);
}

fn serve(worker: &Rc<Worker>, entry: &Rc<Entry>, accepted: Accepted) {
    let (worker, entry) = (Rc::clone(worker), Rc::clone(entry));
    tokio::task::spawn_local(client::serve(worker, entry, Box::new(accepted)));
}

/// Connections that may be accepted now.
fn room(worker: &Worker, entry: &Entry) -> usize {
    let shared = &worker.shared;
    let state = worker.state(entry.front);
    let process = shared.max_connections.load(Relaxed).saturating_sub(shared.connections.load(Relaxed));
    let frontend = state.front_limit.load(Relaxed).saturating_sub(state.front_current.count());
    let bind = entry.bind.maxconn.room(entry.state.current.count());
    let tls = match &entry.tls {
        Some(_) => worker.config().global.maxsslconn.room(shared.tls_connections.load(Relaxed)),
        None => usize::MAX,
    };
    process.min(frontend).min(bind).min(tls)
}

/// `harden.reject-privileged-ports.tcp`: clients from ports that services have, as in attacks by reflection.
fn is_refused(config: &Config, port: Option<u16>) -> bool {
    config.global.reject_privileged_ports_tcp && port.is_some_and(|port| port < FIRST_UNPRIVILEGED_PORT)
}

/// Whether a limit a second is reached: the frontend's, or one of the process.
fn is_too_fast(worker: &Worker, entry: &Entry) -> bool {
    let (shared, limits) = (&worker.shared, &worker.shared.limits);
    // Without a limit there is no need to know the rate.
    let reached =
        |limit: Limit, rate: &Rate| limit.most().is_some_and(|most| rate.per_second(now_ms()) >= most as u64);
    let of_frontend = worker.proxy(entry.front).rate_limit_sessions;
    reached(of_frontend, &worker.state(entry.front).session_rate)
        || reached(limits.connections_per_second.load(Relaxed), &shared.connection_rate)
        || reached(limits.sessions_per_second.load(Relaxed), &shared.session_rate)
        || (entry.tls.is_some() && reached(limits.tls_per_second.load(Relaxed), &shared.tls_rate))
}

/// Waits until the limits allow another connection; those that wait stay in the kernel's queue.
async fn wait_for_room(worker: &Worker, entry: &Entry) {
    loop {
        if is_too_fast(worker, entry) || worker.state(entry.front).disabled.load(Relaxed) {
            tokio::time::sleep(RATE_PAUSE).await;
            continue;
        }
        let freed = worker.shared.freed.notified();
        if room(worker, entry) > 0 {
            return;
        }
        freed.await;
    }
}
