//! One stream of an HTTP/2 connection as an edge, and the task that moves the connection's bytes.
//!
//! The core holds all protocol state; streams and the driver share it on one thread.  Streams wait in
//! `slots`, the driver wakes them by the core's events; streams that queue output wake the driver, so
//! that the answers of one batch of input leave in one write.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_http::h2::{Connection, ErrorCode, Event, StreamId};
use weir_http::{FieldName, Fields, Request, Response};
use weir_net::Stream;
use weir_net::timers::Deadline;

use super::backlog::{Backlog, Running};
use super::idle_ping::{Due, IdlePing};
use super::{Body, BodyLength, EdgeError};
use crate::edge::buffer::Buffer;
use crate::exchange::running::End;
use crate::state::number_hash::NumberMap;
use crate::thread::worker::Worker;

/// How long a connection is idle before it gives its memory back.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Interim responses of one stream that may wait for their reader; a server that says more before its answer is broken.
const MAX_WAITING_HEADS: usize = 16;

/// An HTTP/2 connection shared by its driver and its streams.
pub(crate) struct H2Shared {
    pub(crate) core: RefCell<Connection>,
    slots: RefCell<NumberMap<StreamId, Slot>>,
    driver: Cell<Option<Waker>>,
    /// Those who wait for the peer's settings.
    waiting: RefCell<Vec<Waker>>,
    /// The driver is running and will look at the output itself.
    driving: Cell<bool>,
    /// The connection is over: every stream on it fails.
    pub(crate) dead: Cell<bool>,
    /// Because its peer did not take what was sent to it in time.
    late: Cell<bool>,
    /// The socket took only a part of the output.
    blocked: Cell<bool>,
    /// Bytes of output that it took.
    taken: Cell<u64>,
    /// Streams wait for the output to get shorter.
    room_wanted: Cell<bool>,
    /// What the peer's requests hold, on connections of clients.
    backlog: OnceCell<Rc<Backlog>>,
    /// When the memory of an idle connection is given back.
    rest: RefCell<Deadline>,
    /// Nothing happened since that was done.
    resting: Cell<bool>,
    /// The socket and what was read from it, on connections to servers; they can be taken over by another thread.
    socket: RefCell<Option<(Stream, Buffer)>>,
    /// Probes the peer while the connection is idle.
    idle_ping: RefCell<Option<Box<IdlePing>>>,
}

/// A request that arrived on a connection.
pub(crate) struct Incoming {
    pub(crate) stream: StreamId,
    pub(crate) request: Request,
    /// It has no body.
    pub(crate) end: bool,
    /// It is malformed: the status to refuse it with.
    pub(crate) refuse: Option<u16>,
}

/// Takes the requests of a connection.
pub(crate) type OnRequest<'a> = dyn FnMut(&mut Context<'_>, Incoming) + 'a;

/// What a stream waits for and what arrived for it.
#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    /// It waits for the output to get shorter.
    wants_room: bool,
    /// Heads in the order they came: interim ones, then the final one.
    heads: VecDeque<Response>,
    trailers: Option<Fields>,
    ended: bool,
    reset: Option<bool>,
}

impl H2Shared {
    /// Shares a core.
    pub(crate) fn new(core: Connection) -> Rc<Self> {
        Rc::new(Self {
            core: RefCell::new(core),
            slots: RefCell::default(),
            driver: Cell::new(None),
            waiting: RefCell::default(),
            driving: Cell::new(false),
            dead: Cell::new(false),
            late: Cell::new(false),
            blocked: Cell::new(false),
            taken: Cell::new(0),
            room_wanted: Cell::new(false),
            backlog: OnceCell::new(),
            rest: RefCell::default(),
            resting: Cell::new(false),
            socket: RefCell::default(),
            idle_ping: RefCell::default(),
        })
    }

    /// Bounds what the requests of a client hold; before its first one.
    pub(crate) fn set_backlog(&self, backlog: Rc<Backlog>) {
        // Nobody sets it twice: a connection is served by one driver.
        let _set = self.backlog.set(backlog);
    }

    /// The client's requests hold all they may: it is not read from.
    fn is_full(&self) -> bool {
        self.backlog.get().is_some_and(|backlog| backlog.is_full())
    }

    /// Bytes of output that the peer took so far, when it lets some wait now.
    pub(crate) fn blocked_after(&self) -> Option<u64> {
        self.blocked.get().then(|| self.taken.get())
    }

    /// The peer took nothing of the output for too long.
    pub(crate) fn is_late(&self) {
        self.late.set(true);
    }

    /// Probes the peer whenever the connection was idle for so long.
    pub(crate) fn ping_when_idle(&self, delay: Option<Duration>) {
        self.idle_ping.replace(delay.map(|delay| Box::new(IdlePing::new(delay))));
    }

    /// The peer has answered a probe since this was asked last.
    pub(crate) fn take_answered(&self) -> bool {
        self.idle_ping.borrow_mut().as_mut().is_some_and(|probe| probe.take_answered())
    }

    /// What the probe of an idle peer asks for.
    fn poll_idle_ping(&self, cx: &mut Context<'_>) -> Due {
        match &mut *self.idle_ping.borrow_mut() {
            Some(probe) => probe.poll(&mut self.core.borrow_mut(), cx),
            None => Due::Nothing,
        }
    }

    /// Gives the connection its socket, for [`Self::poll_drive_own`].
    pub(crate) fn set_socket(&self, stream: Stream, input: Buffer) {
        self.socket.replace(Some((stream, input)));
    }

    /// Takes socket and protocol state off this thread; `None` while requests are on the connection.  Whoever
    /// calls has made sure that nobody is about to open a stream.
    pub(crate) fn take_away(&self) -> Option<(Stream, Connection)> {
        let movable = {
            let core = self.core.borrow();
            !self.dead.get() && core.is_idle() && !core.is_closing()
        };
        let (stream, _) = self.socket.borrow_mut().take_if(|(_, input)| movable && input.is_empty())?;
        self.dead.set(true);
        // Nobody looks at this one's protocol state again.
        let core = self.core.replace(Connection::client(weir_http::h2::Settings::default()));
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
        Some((stream, core))
    }

    /// Moves bytes between the connection's own socket and its core; ready when it is over or was taken away.
    pub(crate) fn poll_drive_own(&self, cx: &mut Context<'_>, worker: &Worker) -> Poll<()> {
        match &mut *self.socket.borrow_mut() {
            // The end of the connection is the streams' to report; there is nobody else to tell.
            Some((stream, input)) => self.poll_drive(cx, stream, input, worker, &mut |_, _| {}).map(|_| ()),
            None => Poll::Ready(()),
        }
    }

    /// Tells the driver that there is output, unless it will see by itself.
    fn output_queued(&self) {
        if !self.driving.get()
            && let Some(driver) = self.driver.take()
        {
            driver.wake();
        }
    }

    /// Passes an event on to the stream it belongs to; heads of requests are the caller's.
    fn dispatch(&self, event: Event) {
        let mut slots = self.slots.borrow_mut();
        let mut wake = |stream: StreamId, change: &mut dyn FnMut(&mut Slot)| {
            if let Some(slot) = slots.get_mut(&stream) {
                change(slot);
                if let Some(waker) = slot.waker.take() {
                    waker.wake();
                }
            }
        };
        match event {
            Event::Data { stream } | Event::Writable { stream } => wake(stream, &mut |_| {}),
            Event::Trailers { stream, fields } => {
                let mut fields = Some(fields);
                wake(stream, &mut |slot| slot.trailers = fields.take());
            }
            Event::End { stream } => wake(stream, &mut |slot| slot.ended = true),
            Event::Reset { stream, code, .. } => {
                let unprocessed = code == ErrorCode::REFUSED_STREAM;
                wake(stream, &mut |slot| slot.reset = Some(unprocessed));
            }
            Event::Response { stream, response, end } => {
                let mut response = Some(response);
                wake(stream, &mut |slot| {
                    slot.heads.extend(response.take());
                    slot.ended |= end;
                });
            }
            Event::Informational { stream, response } => {
                let mut response = Some(response);
                wake(stream, &mut |slot| match slot.heads.len() {
                    ..MAX_WAITING_HEADS => slot.heads.extend(response.take()),
                    // The stream ends with its exchange, which finds this.
                    _ => slot.reset = Some(false),
                });
            }
            Event::Request { .. } | Event::Invalid { .. } | Event::GoAway { .. } => {}
        }
    }

    /// Ready when the peer's settings have arrived (or the connection is over): only then is it known whether it
    /// takes an extended CONNECT (RFC 8441 section 3).
    pub(crate) fn poll_established(&self, cx: &Context<'_>) -> Poll<()> {
        if self.dead.get() || self.core.borrow().is_established() {
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    fn wake_waiting(&self) {
        if self.dead.get() || self.core.borrow().is_established() {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Ends every stream: the connection is gone.
    fn die(&self) {
        self.dead.set(true);
        self.wake_waiting();
        // Every stream is told the same thing: their order does not matter.
        self.slots.borrow_mut().values_mut().for_each(|slot| {
            slot.reset.get_or_insert(false);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        });
    }

    /// Wakes who has more to say than the output had room for.
    fn wake_for_room(&self) {
        if !self.room_wanted.get() || self.core.borrow().is_output_high() {
            return;
        }
        self.room_wanted.set(false);
        self.slots.borrow_mut().values_mut().filter(|slot| slot.wants_room).for_each(|slot| {
            slot.wants_room = false;
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        });
    }

    fn expect(&self, stream: StreamId) -> bool {
        self.slots.borrow_mut().insert(stream, Slot::default());
        true
    }

    /// A stream with a request of the client's, whose head takes so many bytes of memory.
    pub(crate) fn accept(self: &Rc<Self>, stream: StreamId, received_end: bool, head: usize) -> H2Edge {
        let mut edge = self.open(Some(stream), received_end);
        edge.running = self.backlog.get().map(|backlog| backlog.enter(head));
        edge
    }

    /// A stream opened by the peer, or by us in the client's role.
    pub(crate) fn open(self: &Rc<Self>, stream: Option<StreamId>, received_end: bool) -> H2Edge {
        // What arrives of a body before anybody asks for it must find its place, the end above all.
        let in_slots = !received_end && stream.is_some_and(|stream| self.expect(stream));
        H2Edge {
            shared: Rc::clone(self),
            stream,
            received_end,
            sent_end: false,
            in_slots,
            running: None,
            length: None,
            head: false,
            upgrade: false,
        }
    }

    /// Moves bytes between socket and core once: sends what waits, reads, hands requests to `on_request`.
    ///
    /// Ready when the connection is over.
    pub(crate) fn poll_drive(
        &self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        input: &mut Buffer,
        worker: &Worker,
        on_request: &mut OnRequest<'_>,
    ) -> Poll<Result<(), EdgeError>> {
        self.driving.set(true);
        let mut result = self.drive(cx, stream, input, worker, on_request);
        while result.is_pending() {
            result = match self.poll_idle_ping(cx) {
                Due::Nothing => break,
                Due::Ping => self.drive(cx, stream, input, worker, on_request),
                Due::End => Poll::Ready(Err(EdgeError::Closed)),
            };
        }
        self.driving.set(false);
        self.wake_waiting();
        self.wake_for_room();
        if result.is_pending() {
            self.driver.set(Some(cx.waker().clone()));
        }
        result
    }

    fn drive(
        &self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        input: &mut Buffer,
        worker: &Worker,
        on_request: &mut OnRequest<'_>,
    ) -> Poll<Result<(), EdgeError>> {
        // What came with the preface, which was read elsewhere, may be all that the peer has to say for now.
        if !input.is_empty() {
            self.receive(input, cx, on_request)?;
        }
        loop {
            self.handle_events(cx, on_request);
            let blocked = self.send(cx, stream)?;
            self.handle_events(cx, on_request);
            if !blocked && self.core.borrow().is_finished() {
                return Poll::Ready(Ok(()));
            }
            // A peer that does not take its answers, or gives requests up faster than they end, is not read from.
            if !self.core.borrow().is_receiving() || self.is_full() {
                return Poll::Pending;
            }
            if input.is_empty() {
                match stream.poll_read_ready(cx) {
                    Poll::Pending => {
                        input.release(&mut worker.buffers.borrow_mut());
                        stream.release_buffers();
                        self.rest(cx);
                        return Poll::Pending;
                    }
                    Poll::Ready(ready) => ready?,
                }
            }
            let size = {
                let mut pool = worker.buffers.borrow_mut();
                input.claim(&mut pool);
                pool.size()
            };
            match stream.poll_read(cx, input.tail(), size) {
                Poll::Pending if self.core.borrow().output().is_empty() || blocked => return Poll::Pending,
                Poll::Pending => continue,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(EdgeError::Closed)),
                Poll::Ready(Ok(_)) => self.resting.set(false),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            }
            self.receive(input, cx, on_request)?;
        }
    }

    /// Gives back what an idle connection does not need: not at once, for the next burst of requests would only
    /// allocate it again.
    fn rest(&self, cx: &mut Context<'_>) {
        let mut core = self.core.borrow_mut();
        let mut deadline = self.rest.borrow_mut();
        if self.resting.get() {
            return;
        }
        if !core.is_idle() {
            deadline.clear();
        } else if deadline.poll_expired(cx).is_ready() {
            core.release_buffers();
            deadline.clear();
            self.resting.set(true);
        } else {
            deadline.set_after(REST_AFTER);
        }
    }

    /// Feeds what was read to the core, event by event.
    fn receive(
        &self,
        input: &mut Buffer,
        cx: &mut Context<'_>,
        on_request: &mut OnRequest<'_>,
    ) -> Result<(), EdgeError> {
        while !input.is_empty() && !self.is_full() {
            let taken = {
                let mut core = self.core.borrow_mut();
                if let Some(backlog) = self.backlog.get() {
                    core.allow_heads(backlog.room());
                }
                core.receive(input.unread())
            };
            self.handle_events(cx, on_request);
            match taken {
                Ok(0) => break,
                Ok(n) => input.consume(n),
                Err(_) => {
                    // The core has queued the GOAWAY that says why; it leaves with the next send.
                    input.consume(input.len());
                }
            }
        }
        Ok(())
    }

    fn handle_events(&self, cx: &mut Context<'_>, on_request: &mut OnRequest<'_>) {
        while !self.is_full() {
            let event = self.core.borrow_mut().poll_event();
            match event {
                None => break,
                Some(Event::Request { stream, request, end }) => {
                    on_request(cx, Incoming { stream, request, end, refuse: None });
                }
                Some(Event::Invalid { stream, request, status }) => {
                    on_request(cx, Incoming { stream, request, end: true, refuse: Some(status) });
                }
                Some(event) => self.dispatch(event),
            }
        }
    }

    /// Writes the core's output to the socket; true when the socket took only part of it.
    fn send(&self, cx: &mut Context<'_>, stream: &mut Stream) -> Result<bool, EdgeError> {
        let mut core = self.core.borrow_mut();
        self.blocked.set(true);
        while !core.output().is_empty() {
            match stream.poll_write(cx, core.output()) {
                Poll::Ready(n) => {
                    let n = n?;
                    core.advance_output(n);
                    self.taken.set(self.taken.get() + n as u64);
                }
                Poll::Pending => return Ok(true),
            }
        }
        match stream.poll_flush(cx) {
            Poll::Ready(done) => {
                self.blocked.set(false);
                done.map(|()| false).map_err(Into::into)
            }
            Poll::Pending => Ok(true),
        }
    }
}

/// One stream.
pub(crate) struct H2Edge {
    pub(crate) shared: Rc<H2Shared>,
    stream: Option<StreamId>,
    received_end: bool,
    sent_end: bool,
    in_slots: bool,
    /// The request of a client counts as long as this is here.
    running: Option<Running>,
    length: Option<u64>,
    /// The request was HEAD: its response has no body, whatever the server sent.
    head: bool,
    /// The request asks for another protocol: what follows it is no body (RFC 8441).
    upgrade: bool,
}

impl H2Edge {
    /// What happened to the stream since the last look; registers for the next event when `cx` is given.
    fn slot<R>(&mut self, cx: Option<&Context<'_>>, look: impl FnOnce(&mut Slot) -> R) -> R {
        let mut slots = self.shared.slots.borrow_mut();
        let Some(stream) = self.stream else { return look(&mut Slot::default()) };
        let slot = slots.entry(stream).or_default();
        self.in_slots = true;
        if let Some(cx) = cx {
            slot.waker = Some(cx.waker().clone());
        }
        look(slot)
    }

    /// What tells that the client gave this request up.
    pub(super) fn abandonment(&self) -> Option<Abandonment> {
        let stream = self.stream.filter(|_| self.running.is_some())?;
        Some(Abandonment { shared: Rc::clone(&self.shared), stream })
    }

    fn has_data(&self) -> bool {
        self.stream.is_some_and(|stream| !self.shared.core.borrow().received(stream).is_empty())
    }

    /// The stream, which a request opens.
    fn id(&self) -> Result<StreamId, EdgeError> {
        self.stream.ok_or(EdgeError::NoStream)
    }

    fn failure(&mut self) -> Option<EdgeError> {
        if self.in_slots
            && let Some(unprocessed) = self.slot(None, |slot| slot.reset)
        {
            return Some(EdgeError::Reset { unprocessed });
        }
        self.shared.dead.get().then_some(EdgeError::Closed)
    }

    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Body, EdgeError>> {
        if self.has_data() {
            return Poll::Ready(Ok(Body::Data));
        }
        if self.received_end {
            return Poll::Ready(Ok(Body::End));
        }
        if self.slot(Some(cx), |slot| slot.ended) {
            self.received_end = true;
            return Poll::Ready(Ok(Body::End));
        }
        match self.failure() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    pub(super) fn with_data<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        let Some(stream) = self.stream else { return take(&[]).1 };
        let mut core = self.shared.core.borrow_mut();
        let (taken, result) = take(core.received(stream));
        core.consume(stream, taken);
        drop(core);
        // Giving window back may have queued a WINDOW_UPDATE.
        self.shared.output_queued();
        result
    }

    pub(super) fn take_trailers(&mut self) -> Option<Fields> {
        if self.in_slots { self.slot(None, |slot| slot.trailers.take()) } else { None }
    }

    /// Notes that the request was HEAD.
    pub(crate) fn answers_head(&mut self, head: bool) {
        self.head = head;
    }

    /// Notes that the request asks for another protocol.
    pub(crate) fn asks_for_upgrade(&mut self, upgrade: bool) {
        self.upgrade = upgrade;
    }

    /// Announces the length of the body that comes, from `content-length`, which the core holds it to.
    pub(crate) fn set_body_length(&mut self, fields: &Fields) {
        let length = fields.first(FieldName::ContentLength);
        self.length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    }

    pub(super) fn body_length(&self) -> BodyLength {
        match (self.received_end, self.length) {
            _ if self.upgrade => BodyLength::None,
            (true, _) if !self.has_data() => BodyLength::None,
            (_, Some(length)) => BodyLength::Exact(length),
            _ => BodyLength::Unknown,
        }
    }

    pub(super) fn send_response(&mut self, response: &Response, body: BodyLength) -> Result<(), EdgeError> {
        // The answer to HEAD is over when the server's is, which may have a body where a rule changed the method:
        // the client's next request finds the server's connection free.
        let end = body == BodyLength::None || body == BodyLength::Exact(0);
        self.sent_end = end;
        let sent = self.shared.core.borrow_mut().send_response(self.id()?, response, end);
        self.shared.output_queued();
        sent.map_err(|_| EdgeError::Reset { unprocessed: false })
    }

    pub(super) fn send_informational(&mut self, response: &Response) -> Result<(), EdgeError> {
        let sent = self.shared.core.borrow_mut().send_response(self.id()?, response, false);
        self.shared.output_queued();
        sent.map_err(|_| EdgeError::Reset { unprocessed: false })
    }

    pub(super) fn send_request(&mut self, request: &Request, body: BodyLength) -> Result<(), EdgeError> {
        let bodyless = body == BodyLength::None || body == BodyLength::Exact(0);
        let end = bodyless && request.protocol.is_empty();
        self.sent_end = end;
        let opened = self.shared.core.borrow_mut().send_request(request, end);
        self.stream = Some(opened.map_err(|_| EdgeError::Reset { unprocessed: true })?);
        self.slot(None, |_| {});
        self.shared.output_queued();
        Ok(())
    }

    pub(super) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), EdgeError>> {
        if let Some(head) = self.slot(Some(cx), |slot| slot.heads.pop_front()) {
            self.received_end = self.slot(None, |slot| slot.ended) && !self.has_data();
            self.set_body_length(&head.fields);
            *response = head;
            return Poll::Ready(Ok(()));
        }
        match self.failure() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    pub(super) fn send_data(&mut self, data: &[u8]) -> Result<usize, EdgeError> {
        if self.sent_end || self.head {
            return Ok(data.len());
        }
        let stream = self.id()?;
        let sent = self.shared.core.borrow_mut().send_data(stream, data, false);
        self.shared.output_queued();
        sent.map_err(|_| EdgeError::Reset { unprocessed: false })
    }

    pub(super) fn finish(&mut self, trailers: Option<&Fields>) -> Result<(), EdgeError> {
        if std::mem::replace(&mut self.sent_end, true) {
            return Ok(());
        }
        let stream = self.id()?;
        let mut core = self.shared.core.borrow_mut();
        let sent = match trailers {
            Some(fields) if !fields.is_empty() && !self.head => core.send_trailers(stream, fields),
            _ => core.send_data(stream, &[], true).map(|_| ()),
        };
        drop(core);
        self.shared.output_queued();
        sent.map_err(|_| EdgeError::Reset { unprocessed: false })
    }

    /// Sending is the driver's; a stream is done once the core has its bytes.
    pub(super) fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        if self.sent_end
            || self.head
            || self.stream.is_none_or(|stream| self.shared.core.borrow_mut().can_send(stream))
        {
            return Poll::Ready(Ok(()));
        }
        self.slot(Some(cx), |_| {});
        match self.failure() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    pub(super) fn poll_takes_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        if !self.shared.core.borrow().is_output_high() {
            return Poll::Ready(Ok(()));
        }
        self.slot(Some(cx), |slot| slot.wants_room = true);
        self.shared.room_wanted.set(true);
        match self.failure() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.slot(Some(cx), |_| {});
        if self.failure().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Whether a client has given a request up: its stream was reset, or its connection is gone.
pub(crate) struct Abandonment {
    shared: Rc<H2Shared>,
    stream: StreamId,
}

impl Abandonment {
    /// How the request ended, if it has.
    pub(crate) fn found(&self) -> Option<End> {
        if self.shared.dead.get() {
            return Some(if self.shared.late.get() { End::ClientLate } else { End::ClientGone });
        }
        let reset = self.shared.slots.borrow().get(&self.stream).is_some_and(|slot| slot.reset.is_some());
        reset.then_some(End::ClientGone)
    }

    /// Wakes the request when it has.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut slots = self.shared.slots.borrow_mut();
        let slot = slots.entry(self.stream).or_default();
        if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            slot.waker = Some(cx.waker().clone());
        }
    }
}

/// A connection whose driver ends, in whatever way: its streams learn that it is gone.
pub(crate) struct EndOfAll(pub(crate) Rc<H2Shared>);

impl Drop for EndOfAll {
    fn drop(&mut self) {
        self.0.die();
    }
}

impl Drop for H2Edge {
    fn drop(&mut self) {
        let Some(stream) = self.stream else { return };
        if self.in_slots || self.running.is_some() {
            self.shared.slots.borrow_mut().remove(&stream);
        }
        if self.shared.dead.get() {
            return;
        }
        let mut core = self.shared.core.borrow_mut();
        if !self.sent_end {
            // The answer (or request) is cut short: the peer must not take it for complete.
            core.reset(stream, ErrorCode::CANCEL);
        }
        core.release(stream);
        drop(core);
        self.shared.output_queued();
    }
}
