//! HTTP/2: all streams of a connection in one task, their answers gathered into few writes.

use std::collections::{BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};
use weir_http::h2::{Connection, ErrorCode, Event, Settings, StreamId};
use weir_http::{Method, Request, Response};
use weir_net::Stream;

use crate::answer::Site;
use crate::delivery::{Delivery, Step};
use crate::url::Break;

/// Bytes read at once: more than a whole frame.
const READ_BYTES: usize = 32 * 1024;

/// Streams that a client may have open at once; benchmarks use a hundred.
const MAX_STREAMS: u32 = 1000;

/// A client's connection.
struct Client<'a> {
    core: Connection,
    site: &'a Site,
    /// Requests whose bodies are still on their way, with the bytes so far, by number.
    requests: HashMap<u32, (Request, u64)>,
    /// Answers that could not be sent at once.
    deliveries: HashMap<u32, Waiting>,
    /// When answers go on.
    due: BTreeSet<(Instant, u32)>,
    alarm: Pin<Box<Sleep>>,
}

/// An answer that waits for time or for room.
struct Waiting {
    stream: StreamId,
    delivery: Delivery,
    until: Option<Instant>,
}

/// Serves a connection of which `input` has been read, until it ends.
pub(crate) async fn serve(mut stream: Stream, site: &Site, mut input: Vec<u8>) -> io::Result<()> {
    let settings = Settings { max_concurrent_streams: MAX_STREAMS, ..Settings::default() };
    let mut client = Client {
        core: Connection::server(settings),
        site,
        requests: HashMap::new(),
        deliveries: HashMap::new(),
        due: BTreeSet::new(),
        alarm: Box::pin(tokio::time::sleep_until(Instant::now())),
    };
    poll_fn(|cx| client.poll(cx, &mut stream, &mut input)).await
}

impl Client<'_> {
    /// Moves bytes both ways until the connection is over.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        loop {
            // After an error the core has a GOAWAY to send, and takes nothing more.
            let held = !self.core.is_receiving();
            let taken = self.core.receive(input).unwrap_or(input.len());
            input.drain(..taken);
            self.handle_events();
            self.run_due(cx);
            let blocked = self.send(cx, stream)?;
            if !blocked && self.core.is_finished() {
                return Poll::Ready(Ok(()));
            }
            if !self.core.is_receiving() {
                return Poll::Pending;
            }
            // What was held up by answers that had no room may have room now.
            if (held || taken > 0) && !input.is_empty() {
                continue;
            }
            input.reserve(READ_BYTES.saturating_sub(input.len()));
            match stream.poll_read(cx, input, READ_BYTES) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(read) => drop(read?),
                Poll::Pending if input.is_empty() => {
                    *input = Vec::new();
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Writes what there is; true when the socket takes no more.
    fn send(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> io::Result<bool> {
        loop {
            while !self.core.output().is_empty() {
                match stream.poll_write(cx, self.core.output()) {
                    Poll::Ready(sent) => self.core.advance_output(sent?),
                    Poll::Pending => return Ok(true),
                }
            }
            // Room that has become free may be taken at once. The alarm is set last: any event may ask for one.
            self.handle_events();
            self.run_due(cx);
            if self.core.output().is_empty() {
                break;
            }
        }
        match stream.poll_flush(cx) {
            Poll::Ready(done) => done.map(|()| false),
            Poll::Pending => Ok(true),
        }
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Request { stream, request, end: true } => self.answer(stream, request, 0),
                Event::Request { stream, request, end: false } => {
                    self.requests.insert(stream.number(), (request, 0));
                }
                Event::Invalid { stream, request, status } => {
                    self.core.recycle_request(request);
                    if self.core.send_response(stream, &Response::new(status, ""), true).is_ok() {
                        self.core.release(stream);
                    }
                }
                Event::Data { stream } => {
                    let bytes = self.core.received(stream).len();
                    self.core.consume(stream, bytes);
                    if let Some((_, received)) = self.requests.get_mut(&stream.number()) {
                        *received += bytes as u64;
                    }
                }
                Event::End { stream } => {
                    if let Some((request, received)) = self.requests.remove(&stream.number()) {
                        self.answer(stream, request, received);
                    }
                }
                Event::Writable { stream } => self.go_on(stream.number()),
                Event::Reset { stream, .. } => {
                    self.requests.remove(&stream.number());
                    self.take(stream.number());
                }
                Event::Response { .. }
                | Event::Informational { .. }
                | Event::Trailers { .. }
                | Event::GoAway { .. } => {}
            }
        }
    }

    fn answer(&mut self, stream: StreamId, request: Request, received: u64) {
        let answer = (self.site)(&request, received);
        let head_only = request.method == Method::Head;
        self.core.recycle_request(request);
        if answer.close {
            self.core.go_away(true);
        }
        self.deliver(stream, Delivery::new(answer, head_only));
    }

    fn go_on(&mut self, number: u32) {
        if let Some(Waiting { stream, delivery, .. }) = self.take(number) {
            self.deliver(stream, delivery);
        }
    }

    fn take(&mut self, number: u32) -> Option<Waiting> {
        let waiting = self.deliveries.remove(&number)?;
        if let Some(until) = waiting.until {
            self.due.remove(&(until, number));
        }
        Some(waiting)
    }

    /// Sends as much of an answer as can be sent now. A stream that is gone takes its answer with it.
    fn deliver(&mut self, stream: StreamId, mut delivery: Delivery) {
        let mut until = None;
        loop {
            match delivery.step() {
                Step::Wait(time) => {
                    until = Some(Instant::now() + time);
                    // When it is due, the waiting is done.
                    delivery.done(0);
                    break;
                }
                Step::Head => {
                    let end = delivery.ends_with_head();
                    if self.core.send_response(stream, &delivery.answer.head, end).is_err() || end {
                        return;
                    }
                    delivery.done(0);
                }
                Step::Data(data) => {
                    let (len, end) = (data.len(), delivery.ends_after(data.len()));
                    match self.core.send_data(stream, data, end) {
                        Ok(sent) if sent == len && end => return,
                        Ok(sent) => {
                            if sent > 0 {
                                delivery.done(sent);
                            }
                            if sent < len {
                                break;
                            }
                        }
                        Err(_) => return,
                    }
                }
                Step::Break(Break::Stall) => break,
                Step::Break(Break::Reset | Break::Cut) => {
                    return self.core.reset(stream, ErrorCode::INTERNAL_ERROR);
                }
                Step::End => {
                    // The stream may be gone, and then so is the end.
                    self.core.send_data(stream, &[], true).ok();
                    return;
                }
            }
        }
        let number = stream.number();
        self.deliveries.insert(number, Waiting { stream, delivery, until });
        self.due.extend(until.map(|until| (until, number)));
    }

    /// Goes on with the answers whose time has come, and sets the alarm for the next.
    fn run_due(&mut self, cx: &mut Context<'_>) {
        while let Some(&(until, number)) = self.due.first() {
            self.alarm.as_mut().reset(until);
            if self.alarm.as_mut().poll(cx).is_pending() {
                return;
            }
            self.go_on(number);
        }
    }
}
