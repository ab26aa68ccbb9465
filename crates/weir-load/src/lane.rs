//! One thread's connections to one server: which of them sends the next request, and what became of each.
//!
//! Owns the queue of free connections and what is counted when.  When requests are due is `schedule`'s, how they
//! travel `connection`'s.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::{Notify, Semaphore};
use weir_net::tls::client::TlsClient;

use crate::client::{Answer, Ticket};
use crate::clock::{Alarm, Clock};
use crate::figures::{Failure, Figures};
use crate::pending::{Pending, PendingRequests};
use crate::request::Prepared;
use crate::result::ServerSeen;
use crate::sample::Sample;
use crate::schedule::{Due, Pace, Schedule};
use crate::script::ThreadScript;
use crate::setup::{LanePlan, Setup};

/// Connections of a lane that are being opened at once: more only fill the server's queue.
const MAX_OPENING: usize = 128;

/// Requests that were never sent and that are counted one by one; of more, one stands for several.
const MAX_UNSENT_RECORDED: u64 = 1_000_000;

/// The alarm is not set.
const NEVER_NS: u64 = u64::MAX;

/// One thread's part of one server.
pub(crate) struct Lane {
    /// Which thread.
    thread: u32,
    pub(crate) setup: Arc<Setup>,
    pub(crate) plan: Arc<LanePlan>,
    pub(crate) clock: Clock,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<TlsClient>>,
    pub(crate) opening: Semaphore,
    /// The one that begins a TLS handshake.
    pub(crate) starting: Semaphore,
    /// What is read, of all connections in turn.
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// Something that the thread waits for has happened: a first attempt to connect, the last answer.
    pub(crate) changed: Rc<Notify>,
    /// Connections that have not been tried yet.
    pub(crate) untried: Cell<u32>,
    pub(crate) seen: RefCell<Option<ServerSeen>>,
    pub(crate) http2: Cell<Option<bool>>,
    /// What decides on the requests; without one, the plan has them.
    pub(crate) script: Option<Rc<ThreadScript>>,
    /// Why the run cannot go on.
    broken: RefCell<Option<String>>,
    alarm: Alarm,
    state: RefCell<State>,
}

struct State {
    schedule: Schedule,
    /// Counts what is measured; nothing between two parts of a run.
    measuring: bool,
    /// Requests of an earlier part are not counted again.
    part: u32,
    pending: PendingRequests,
    /// Requests of this part in progress.
    in_progress: u32,
    /// Connections with room, the one that has waited longest first; some may have taken a request meanwhile.
    free: VecDeque<u32>,
    /// How many really have room.
    free_count: u32,
    connections: Vec<Connection>,
    alarm_ns: u64,
    figures: Box<Figures>,
    sent: u64,
    /// When the last request of this part ended.
    last_ns: u64,
}

/// What the lane knows of a connection.
#[derive(Debug, Default)]
struct Connection {
    waker: Option<Waker>,
    /// Since when it waits for something to send.
    free_since_ns: Option<u64>,
    /// It stands in the queue.
    queued: bool,
    /// One of its requests has waited too long.
    overdue: bool,
    /// How long opening it took, until a sample has it.
    opening_ns: u64,
}

/// What a lane is made of.
pub(crate) struct Parts {
    pub(crate) thread: u32,
    pub(crate) setup: Arc<Setup>,
    pub(crate) plan: Arc<LanePlan>,
    pub(crate) clock: Clock,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<TlsClient>>,
    pub(crate) connections: u32,
    pub(crate) changed: Rc<Notify>,
    pub(crate) schedule: Schedule,
    pub(crate) script: Option<Rc<ThreadScript>>,
}

impl Lane {
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let state = State {
            schedule: parts.schedule,
            measuring: false,
            part: 0,
            pending: PendingRequests::default(),
            in_progress: 0,
            free: VecDeque::new(),
            free_count: 0,
            connections: (0..parts.connections).map(|_| Connection::default()).collect(),
            alarm_ns: NEVER_NS,
            figures: Box::default(),
            sent: 0,
            last_ns: 0,
        };
        Ok(Self {
            thread: parts.thread,
            setup: parts.setup,
            plan: parts.plan,
            clock: parts.clock,
            address: parts.address,
            tls: parts.tls,
            opening: Semaphore::new(MAX_OPENING),
            starting: Semaphore::new(1),
            scratch: RefCell::new(Vec::with_capacity(crate::connection::READ_BYTES)),
            changed: parts.changed,
            untried: Cell::new(parts.connections),
            seen: RefCell::new(None),
            http2: Cell::new(None),
            script: parts.script,
            broken: RefCell::new(None),
            alarm: Alarm::new()?,
            state: RefCell::new(state),
        })
    }

    /// The number of a connection among those of all threads, which have them in turn.
    pub(crate) fn number_among_all(&self, connection: u32) -> u32 {
        connection.saturating_mul(self.setup.threads).saturating_add(self.thread)
    }

    /// A request as it is sent.
    pub(crate) fn request(&self, number: u32) -> Option<&Prepared> {
        self.plan.requests.get(number as usize)
    }

    /// Begins a part of the run: what is due from now on, and whether it is measured.
    pub(crate) fn begin(&self, schedule: Schedule) {
        let state = &mut *self.state.borrow_mut();
        state.schedule = schedule;
        state.part += 1;
        state.in_progress = 0;
        state.measuring = true;
        state.sent = 0;
        state.last_ns = 0;
        *state.figures = std::mem::take(&mut *state.figures).connections_only();
        self.set_alarm(state, 0, 0);
    }

    /// The warm-up is over: what is in progress goes on.
    pub(crate) fn end_warm_up(&self) -> Figures {
        let state = &mut *self.state.borrow_mut();
        let warm_up = std::mem::take(&mut *state.figures);
        state.figures.totals.requests = u64::from(state.in_progress);
        state.sent = 0;
        warm_up
    }

    /// Takes what was counted since the last time.
    pub(crate) fn take_figures(&self) -> Figures {
        std::mem::take(&mut *self.state.borrow_mut().figures)
    }

    /// Ends the part: nothing is due any more, and what still waits is counted with the time it has waited.
    pub(crate) fn end(&self, now_ns: u64) -> Figures {
        let state = &mut *self.state.borrow_mut();
        let mut waiting = Figures::default();
        let paced = state.schedule.is_paced();
        for pending in state.pending.of_part(state.part) {
            waiting.totals.waiting += 1;
            waiting.time(pending, paced, now_ns);
        }
        let unsent = state.schedule.backlog(now_ns);
        waiting.totals.unsent = unsent;
        let stride = unsent.div_ceil(MAX_UNSENT_RECORDED).max(1);
        for n in (0..unsent).step_by(usize::try_from(stride).unwrap_or(1)) {
            let waited_ns = now_ns.saturating_sub(state.schedule.backlog_at_ns(n));
            waiting.times.corrected.record_many_ns(waited_ns, stride.min(unsent - n));
        }
        state.schedule.pace = Pace::Stopped;
        state.measuring = false;
        waiting
    }

    /// Shows what has been counted so far.
    pub(crate) fn look_at(&self, look: impl FnOnce(&Figures)) {
        look(&self.state.borrow().figures);
    }

    /// How many connections it has.
    pub(crate) fn size(&self) -> u32 {
        self.state.borrow().connections.len() as u32
    }

    /// Requests sent in this part.
    pub(crate) fn sent(&self) -> u64 {
        self.state.borrow().sent
    }

    /// When the last request of this part ended.
    pub(crate) fn last_ns(&self) -> u64 {
        self.state.borrow().last_ns
    }

    /// Whether nothing will be sent and nothing is awaited any more.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.state.borrow();
        state.schedule.is_exhausted() && state.in_progress == 0
    }

    /// Remembers how to wake a connection's task.
    #[inline]
    pub(crate) fn register(&self, connection: u32, waker: &Waker) {
        let state = &mut *self.state.borrow_mut();
        if let Some(known) = state.connections.get_mut(connection as usize) {
            match &mut known.waker {
                Some(old) => old.clone_from(waker),
                None => known.waker = Some(waker.clone()),
            }
        }
    }

    /// The next request for a connection, if one is due.
    #[inline]
    pub(crate) fn take(&self, connection: u32, now_ns: u64) -> Option<(Ticket, u32)> {
        let state = &mut *self.state.borrow_mut();
        let due = state.schedule.take(now_ns)?;
        let free_ns = state.leave(connection).unwrap_or(now_ns);
        if state.schedule.is_paced() {
            // Late by the server's fault it is as long as no connection was free.
            state.figures.lag.record_ns(now_ns.saturating_sub(free_ns.max(due.at_ns)));
        }
        Some((state.open(connection, due, now_ns), due.request))
    }

    /// One more request that leaves together with another: it was due when that one was.
    pub(crate) fn take_along(&self, first: Ticket, now_ns: u64) -> Option<Ticket> {
        let state = &mut *self.state.borrow_mut();
        let Pending { connection, due_ns, .. } = *state.pending.get(first)?;
        state.schedule.skip();
        Some(state.open(connection, Due { request: 0, at_ns: due_ns }, now_ns))
    }

    /// Nothing more is sent: the script has said so.
    pub(crate) fn stop(&self) {
        let state = &mut *self.state.borrow_mut();
        state.schedule.exhaust();
        if state.in_progress == 0 {
            self.changed.notify_one();
        }
    }

    /// The run cannot go on.
    pub(crate) fn break_off(&self, why: String) {
        self.state.borrow_mut().schedule.exhaust();
        self.broken.borrow_mut().get_or_insert(why);
        self.changed.notify_one();
    }

    /// Why the run cannot go on, if so.
    pub(crate) fn broken(&self) -> Option<String> {
        self.broken.borrow().clone()
    }

    /// Whether other connections are free too, so that one should not take all there is.
    pub(crate) fn others_are_free(&self) -> bool {
        let state = self.state.borrow();
        state.schedule.is_paced() && state.free_count > 0
    }

    /// Puts a connection with room at the end of the queue.
    #[inline]
    pub(crate) fn wait(&self, connection: u32, now_ns: u64) {
        let state = &mut *self.state.borrow_mut();
        let Some(known) = state.connections.get_mut(connection as usize) else { return };
        if known.free_since_ns.is_none() {
            known.free_since_ns = Some(now_ns);
            state.free_count += 1;
        }
        if !std::mem::replace(&mut known.queued, true) {
            state.free.push_back(connection);
        }
        if state.schedule.is_paced()
            && let Some(next_ns) = state.schedule.next_ns()
        {
            self.set_alarm(state, next_ns, now_ns);
        }
    }

    /// A connection cannot send for the time being.
    pub(crate) fn leave(&self, connection: u32) {
        self.state.borrow_mut().leave(connection);
    }

    fn set_alarm(&self, state: &mut State, at_ns: u64, now_ns: u64) {
        if at_ns < state.alarm_ns {
            state.alarm_ns = at_ns;
            // The only errors are those of a wrong argument.
            self.alarm.set(at_ns.saturating_sub(now_ns)).ok();
        }
    }

    /// Wakes free connections when requests are due, for ever.
    pub(crate) async fn pace(self: Rc<Self>) {
        while self.alarm.rings().await.is_ok() {
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let now_ns = self.clock.now_ns();
        let state = &mut *self.state.borrow_mut();
        state.alarm_ns = NEVER_NS;
        let paced = state.schedule.is_paced();
        let due = if paced { state.schedule.backlog(now_ns) } else { u64::MAX };
        let mut woken = 0;
        while woken < due
            && let Some(connection) = state.free.pop_front()
        {
            let Some(known) = state.connections.get_mut(connection as usize) else { continue };
            known.queued = false;
            if known.free_since_ns.is_some()
                && let Some(waker) = &known.waker
            {
                waker.wake_by_ref();
                woken += 1;
            }
        }
        if paced && !state.free.is_empty() && state.schedule.next_ns().is_some() {
            let next_ns = state.schedule.backlog_at_ns(woken);
            self.set_alarm(state, next_ns, now_ns);
        }
    }

    /// The first byte of an answer has come.
    #[inline]
    pub(crate) fn begun(&self, ticket: Ticket, now_ns: u64) {
        self.state.borrow_mut().pending.begun(ticket, now_ns);
    }

    /// An answer is complete.
    #[inline]
    pub(crate) fn answered(&self, answer: Answer, now_ns: u64) {
        let state = &mut *self.state.borrow_mut();
        let Some(pending) = state.close(answer.ticket) else { return };
        let paced = state.schedule.is_paced();
        state.figures.answered(&answer);
        state.figures.times.first_byte.record_ns(pending.begun_ns.saturating_sub(pending.sent_ns));
        state.figures.time(&pending, paced, now_ns);
        if self.setup.keep_samples {
            self.sample(state, &pending, Some(answer), now_ns);
        }
        self.notice_end(state, now_ns);
    }

    /// Keeps a request that has ended.
    fn sample(&self, state: &mut State, pending: &Pending, answer: Option<Answer>, now_ns: u64) {
        let known = state.connections.get_mut(pending.connection as usize);
        let connect_ns = known.map_or(0, |known| std::mem::take(&mut known.opening_ns));
        // A request that its connection is opened for begins with that.
        let (began_ns, connected_ns) = if self.setup.is_single_use() {
            (pending.sent_ns, pending.sent_ns + connect_ns)
        } else {
            (pending.sent_ns.saturating_sub(connect_ns), pending.sent_ns)
        };
        state.figures.samples.push(Sample {
            connection: self.number_among_all(pending.connection),
            began_unix_ns: began_ns,
            connect_ns,
            first_byte_ns: pending.begun_ns.saturating_sub(connected_ns),
            answer_ns: now_ns.saturating_sub(connected_ns),
            status: answer.map(|answer| answer.status),
            body_bytes: answer.map_or(0, |answer| answer.body_bytes),
            keep_alive: answer.is_some_and(|answer| answer.keep_alive),
        });
    }

    /// A request will get no answer.
    pub(crate) fn failed(&self, ticket: Ticket, failure: Failure, why: &str, now_ns: u64) {
        let state = &mut *self.state.borrow_mut();
        let Some(pending) = state.close(ticket) else { return };
        let paced = state.schedule.is_paced();
        state.figures.failed(1, failure, why);
        if failure == Failure::Timeout {
            state.figures.time(&pending, paced, now_ns);
        }
        if self.setup.keep_samples {
            self.sample(state, &pending, None, now_ns);
        }
        self.notice_end(state, now_ns);
    }

    /// A connection failed while it had no request.
    pub(crate) fn failed_idle(&self, failure: Failure, why: &str) {
        let state = &mut *self.state.borrow_mut();
        if state.measuring {
            state.figures.failed(1, failure, why);
        }
    }

    /// A connection failed that was not opened for a certain request.  Where requests are counted it stands
    /// for one: a server that is gone ends the run.
    pub(crate) fn could_not_open(&self, failure: Failure, why: &str) {
        let state = &mut *self.state.borrow_mut();
        state.figures.failed(1, failure, why);
        if state.measuring && !state.schedule.spend() {
            self.changed.notify_one();
        }
        self.notice_end(state, self.clock.now_ns());
    }

    /// Requests that a connection will not send any more.
    pub(crate) fn abandon(&self, requests: u64, failure: Failure, why: &str) {
        let state = &mut *self.state.borrow_mut();
        state.schedule.spend_many(requests);
        state.figures.failed(requests, failure, why);
        self.notice_end(state, self.clock.now_ns());
    }

    fn notice_end(&self, state: &mut State, now_ns: u64) {
        state.last_ns = now_ns;
        if state.in_progress == 0 && state.schedule.is_exhausted() {
            self.changed.notify_one();
        }
    }

    /// Marks requests that have waited longer than allowed and wakes their connections.
    pub(crate) fn sweep(&self, now_ns: u64) {
        let timeout_ns = u64::try_from(self.setup.timeout.as_nanos()).unwrap_or(u64::MAX);
        let State { pending, connections, .. } = &mut *self.state.borrow_mut();
        pending.mark_overdue(timeout_ns, now_ns, |connection| {
            if let Some(known) = connections.get_mut(connection as usize) {
                known.overdue = true;
                known.waker.iter().for_each(Waker::wake_by_ref);
            }
        });
    }

    /// The requests of a connection that have waited too long, once.
    #[inline]
    pub(crate) fn take_overdue(&self, connection: u32) -> Vec<Ticket> {
        let state = &mut *self.state.borrow_mut();
        match state.connections.get_mut(connection as usize) {
            Some(known) if known.overdue => known.overdue = false,
            _ => return Vec::new(),
        }
        state.pending.overdue_of(connection)
    }

    /// Bytes have been read.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        let state = &mut *self.state.borrow_mut();
        state.figures.totals.received_bytes += bytes as u64;
    }

    /// Bytes have been written.
    #[inline]
    pub(crate) fn wrote(&self, bytes: usize) {
        let state = &mut *self.state.borrow_mut();
        state.figures.totals.sent_bytes += bytes as u64;
    }

    /// An attempt to open a connection has ended, or is not needed: the first ones are waited for.
    pub(crate) fn tried(&self) {
        if self.untried.get() > 0 {
            self.untried.set(self.untried.get() - 1);
            self.changed.notify_one();
        }
    }

    /// A connection can be used, after so long.
    pub(crate) fn opened(&self, connection: u32, time_ns: u64) {
        if let Some(known) = self.state.borrow_mut().connections.get_mut(connection as usize) {
            known.opening_ns = time_ns;
        }
    }

    /// A connection is there.
    pub(crate) fn connected(&self, time_ns: u64) {
        let state = &mut *self.state.borrow_mut();
        state.figures.totals.connections += 1;
        state.figures.times.connect.record_ns(time_ns);
    }

    /// A TLS handshake is complete.
    pub(crate) fn shook_hands(&self, time_ns: u64, resumed: bool) {
        let state = &mut *self.state.borrow_mut();
        state.figures.totals.handshakes += 1;
        state.figures.totals.resumed += u64::from(resumed);
        state.figures.times.handshake.record_ns(time_ns);
    }
}

impl State {
    /// A connection has no room any more; since when it had.
    fn leave(&mut self, connection: u32) -> Option<u64> {
        let since_ns = self.connections.get_mut(connection as usize)?.free_since_ns.take()?;
        self.free_count -= 1;
        Some(since_ns)
    }

    fn open(&mut self, connection: u32, due: Due, now_ns: u64) -> Ticket {
        self.in_progress += 1;
        self.sent += 1;
        self.figures.totals.requests += 1;
        self.pending.open(Pending {
            connection,
            part: self.part,
            due_ns: due.at_ns,
            sent_ns: now_ns,
            begun_ns: 0,
        })
    }

    /// Ends a request; nothing for one that is not to be counted.
    fn close(&mut self, ticket: Ticket) -> Option<Pending> {
        let pending = self.pending.close(ticket)?;
        if pending.part != self.part || !self.measuring {
            return None;
        }
        self.in_progress -= 1;
        Some(pending)
    }
}
