//! One request and what belongs to it on its way; the way itself is [`life`]'s.

pub(crate) mod life;
pub mod running;

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use weir_http::Request;
use weir_net::timers::{Deadline, now_us};
use weir_rules::{Reply, Session, Txn};

use crate::edge::Edge;
use crate::exchange::running::{End, Entered, Sessions};
use crate::filter::{self, cache};
use crate::forward::Upload;
use crate::plan::Work;
use crate::server::choose::{cookie, stick};
use crate::state::counters::Counter;
use crate::thread::worker::Worker;

/// One request on its way.
pub(crate) struct Exchange {
    pub(crate) worker: Rc<Worker>,
    pub(crate) txn: Txn,
    /// The client's edge.
    pub(crate) client: Edge,
    /// Index of the frontend.
    pub(crate) front: usize,
    /// Index of the backend once one was chosen; the frontend's before.
    pub(crate) back: usize,
    /// The request was counted in the backend.
    pub(crate) in_backend: bool,
    pub(crate) deadline: Deadline,
    /// Number of the client's connection.
    pub(crate) client_id: u64,
    /// First request of the client's connection.
    pub(crate) first_request: bool,
    /// When the request's first byte came, microseconds of the thread's clock.
    pub(crate) started_us: u64,
    /// The body on its way to the server.
    pub(crate) upload: Upload,
    /// The client's connection ends with this exchange.
    pub(crate) close_client: bool,
    /// A response head went to the client: errors can only cut it short now.
    pub(crate) answered: bool,
    /// What cookie persistence found out, for pick and response.
    pub(crate) cookie: cookie::Found,
    /// Keys to be stuck to the server once it has answered.
    pub(crate) stick: stick::Stores,
    /// The filters between its frontend and its backend, when there are some.
    pub(crate) plan: Option<Rc<filter::Plan>>,
    /// What compression may do, decided from the request.
    pub(crate) compression: Option<filter::Offer>,
    /// The filters on the response body's way, when there are some.
    pub(crate) filters: Option<Box<filter::Chain>>,
    /// Its place in the thread's list.
    pub(crate) place: Entered,
    /// Bytes both ways without framing, after 101 or CONNECT.
    pub(crate) tunnel: bool,
    /// Its connection was in TCP mode, and `tcp-request content` rules have run on its bytes.
    pub(crate) inspected: bool,
    /// There is no request, only what could not be read as one.
    pub(crate) unread: bool,
    /// The client closed while its body was awaited here.
    pub(crate) body_aborted: bool,
    /// The cache's copy of the response on its way to the client.
    pub(crate) storing: Option<Box<cache::Storing>>,
    /// Its log line was written before its end (`option logasap`).
    pub(crate) logged: bool,
    /// Bytes in and out that the statistics have already (`option contstats`).
    pub(crate) counted: [u64; 2],
}

/// Why an exchange does not go on through its stages.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Answer the client with this.
    Reply(Box<Reply>),
    /// Close without an answer.
    Drop {
        /// Not even a FIN or RST.
        silent: bool,
    },
    /// The client is gone, or stopped in the middle.
    Client,
    /// The server failed after the head went out: the client's answer is cut short.
    Truncated,
}

/// What is left of an exchange: the client's edge, if it can serve another one.
pub(crate) struct Finished {
    pub(crate) client: Edge,
    /// Wait for another request.
    pub(crate) keep: bool,
    /// Drop the connection without telling the client.
    pub(crate) silent: bool,
    /// The request's memory, for the next one.
    pub(crate) request: Request,
}

/// Whole milliseconds between two readings of the clock.
pub(crate) fn ms_between(start_us: u64, end_us: u64) -> u32 {
    u32::try_from(end_us.saturating_sub(start_us) / 1000).unwrap_or(u32::MAX)
}

impl Exchange {
    /// An exchange that has its request's head.
    pub(crate) fn new(
        worker: &Rc<Worker>,
        session: &Rc<Session>,
        client: Edge,
        request: Request,
        client_id: u64,
        started_us: u64,
    ) -> Box<Self> {
        let front = session.frontend.index;
        let first_request = session.requests.get() == 0;
        session.requests.set(session.requests.get() + 1);
        // Made where it stays: it is large, and every stage would move it.
        let mut x = Box::write(
            Box::new_uninit(),
            Self {
                upload: Upload::new(client.body_length()),
                place: Sessions::enter(worker, session, started_us / 1000),
                worker: Rc::clone(worker),
                txn: Txn::new(Rc::clone(session), Rc::clone(&worker.env)),
                client,
                front,
                back: front,
                in_backend: false,
                deadline: Deadline::new(),
                client_id,
                first_request,
                started_us,
                close_client: false,
                answered: false,
                cookie: cookie::Found::default(),
                stick: stick::Stores::new(),
                plan: None,
                compression: None,
                filters: None,
                tunnel: false,
                inspected: false,
                unread: false,
                body_aborted: false,
                storing: None,
                logged: false,
                counted: [0; 2],
            },
        );
        x.txn.request = request;
        x.txn.timers.start_us = worker.env.wall_us();
        // Manual, section 8.4: the handshake is reported once, and idle is what came before the first byte. Where requests
        // share a connection, the next one's begins here.
        x.txn.timers.handshake_ms = Some(session.handshake_ms.take());
        x.txn.timers.idle_ms = Some(ms_between(session.idle_since_us.replace(started_us), started_us));
        x.txn.request_counter = worker.shared.total_requests.fetch_add(1, Relaxed) as u32;
        x.txn.request_body_len = x.client.body_length().announced();
        x
    }

    /// The stages in which one of its proxies has work.
    pub(crate) fn work(&self, proxy: usize) -> Work {
        self.worker.proxy(proxy).work
    }

    /// The stages in which its frontend or its backend has work.
    pub(crate) fn work_of_both(&self) -> Work {
        self.work(self.front).and(self.work(self.back))
    }

    /// Bytes both ways without framing from now on.
    pub(crate) fn start_tunnel(&mut self) {
        self.tunnel = true;
        self.upload.start_tunnel();
    }

    /// The client's bytes turned out to be a request, whose head has been read.
    pub(crate) fn end_tunnel(&mut self) {
        let length = self.client.body_length();
        self.tunnel = false;
        self.inspected = true;
        self.upload = Upload::new(length);
        self.txn.request_body_len = length.announced();
        self.txn.request_body_complete = false;
        self.txn.request_body.clear();
    }

    /// Milliseconds since the request's first byte.
    pub(crate) fn elapsed_ms(&self) -> u32 {
        ms_between(self.started_us, now_us())
    }

    /// Notes how long it has taken so far, without and with what came before its first byte.
    pub(crate) fn note_total(&mut self) {
        let active = self.elapsed_ms();
        let timers = &mut self.txn.timers;
        timers.active_ms = Some(active);
        let before = [timers.handshake_ms, timers.idle_ms];
        let total = before.into_iter().flatten().fold(active, u32::saturating_add);
        timers.total_ms = Some(total);
    }

    /// Sets cause and stage of the termination state, unless an earlier failure has.
    pub(crate) fn terminated(&mut self, cause: u8, stage: u8) {
        if self.txn.termination[0] == b'-' {
            self.txn.termination[0] = cause;
            self.txn.termination[1] = stage;
        }
    }

    /// Somebody ended it from outside.
    pub(crate) fn ended(&mut self, end: End) -> Stop {
        if end.is_clients() {
            return self.given_up(end);
        }
        self.terminated(end.letter(), if self.answered { b'D' } else { b'H' });
        self.close_client = true;
        if self.answered { Stop::Truncated } else { self.error(503) }
    }

    /// The client does not wait for it any more.
    fn given_up(&mut self, end: End) -> Stop {
        self.terminated(end.letter(), self.stage());
        self.close_client = true;
        if !self.in_backend {
            self.count_front(Counter::ClientAborts, 1);
            return Stop::Client;
        }
        self.count_back(Counter::ClientAborts, 1);
        let server = self.txn.server.as_ref().and_then(|name| self.worker.state(self.back).server(name));
        if let Some(server) = server {
            server.count(self.worker.thread, Counter::ClientAborts, 1);
        }
        Stop::Client
    }

    /// How far it has come, as the log's termination state says: request, queue, connection, headers, data.
    fn stage(&self) -> u8 {
        match () {
            () if self.answered => b'D',
            () if self.txn.timers.connect_ms.is_some() && !self.upload.is_done() => b'D',
            () if self.txn.timers.connect_ms.is_some() => b'H',
            () if self.txn.server.is_some() => b'C',
            () if self.in_backend => b'Q',
            () => b'R',
        }
    }

    /// Counts for the backend (or frontend where there is none).
    pub(crate) fn count_back(&self, counter: Counter, by: u64) {
        self.worker.count_back(self.back, counter, by);
    }

    /// Counts for the frontend, and the listener where they are counted one by one.
    pub(crate) fn count_front(&self, counter: Counter, by: u64) {
        self.worker.count_front(self.front, counter, by);
        if self.worker.proxy(self.front).options.socket_stats
            && let Some(listener) = self.worker.state(self.front).listener(self.txn.session.listener_id)
        {
            listener.count(self.worker.thread, counter, by);
        }
    }
}
