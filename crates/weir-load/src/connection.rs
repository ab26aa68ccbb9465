//! One connection: opens it, sends what the lane has for it, reads the answers, and begins anew.
//!
//! The shell around `client`: all waiting for a socket is here.

use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};
use weir_net::connect::{ConnectOptions, connect};
use weir_net::{Address, Stream};

use crate::client::{Client, Ticket, Told};
use crate::figures::Failure;
use crate::h1::Http1;
use crate::h2::Http2;
use crate::lane::Lane;
use crate::result::{ServerSeen, TlsSeen};
use crate::script::ThreadScript;
use crate::setup::Http;

/// Most bytes that are read at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// The pause after the first failure to connect; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Keeps one connection going, until it has sent its part of all requests: mostly for ever.
pub(crate) async fn run(lane: Rc<Lane>, number: u32) {
    let mut pause = FIRST_PAUSE;
    let number_among_all = lane.number_among_all(number);
    let mut left = lane.setup.part_of_count(number_among_all);
    if let Some(opening) = lane.setup.opening {
        sleep(opening.after(number_among_all)).await;
    }
    if left == 0 {
        lane.tried();
    }
    while left > 0 {
        let first = if lane.setup.is_single_use() { Some(next(&lane, number).await) } else { None };
        lane.leave(number);
        let opened = open(&lane, number).await;
        lane.tried();
        match opened {
            Ok((stream, client)) => {
                pause = FIRST_PAUSE;
                left = serve(&lane, number, (stream, client), first, left).await;
                lane.leave(number);
            }
            Err((failure, why)) if lane.setup.is_divided() => {
                lane.abandon(left, failure, &why);
                return;
            }
            Err((failure, why)) => {
                match first {
                    Some((ticket, _)) => lane.failed(ticket, failure, &why, lane.clock.now_ns()),
                    None => lane.could_not_open(failure, &why),
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Waits for a request that a connection is to be opened for.
async fn next(lane: &Lane, number: u32) -> (Ticket, u32) {
    poll_fn(|cx| {
        lane.register(number, cx.waker());
        let now_ns = lane.clock.now_ns();
        match lane.take(number, now_ns) {
            Some(taken) => Poll::Ready(taken),
            None => {
                lane.wait(number, now_ns);
                Poll::Pending
            }
        }
    })
    .await
}

/// Opens a connection as far as requests can be sent.
async fn open(lane: &Lane, number: u32) -> Result<(Stream, Client), (Failure, String)> {
    let limit = lane.setup.timeout;
    // The semaphores are never closed.
    let _permit = lane.opening.acquire().await;
    let turn = if lane.tls.is_some() { lane.starting.acquire().await.ok() } else { None };
    let begun_ns = lane.clock.now_ns();
    let address = Address::Ip(lane.address);
    let mut stream = match timeout(limit, connect(&address, &ConnectOptions::default())).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err((Failure::Connect, error.to_string())),
        Err(_) => return Err((Failure::Connect, format!("not established within {limit:?}"))),
    };
    let connected_ns = lane.clock.now_ns();
    lane.connected(connected_ns - begun_ns);
    if let Some(tls) = &lane.tls {
        let shaking = async {
            stream.start_client_tls(tls, Some(&lane.plan.origin.host), None)?;
            stream.handshake().await
        };
        match timeout(limit, one_after_another(shaking, turn)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err((Failure::Tls, error.to_string())),
            Err(_) => return Err((Failure::Tls, format!("not complete within {limit:?}"))),
        }
        let resumed = stream.tls().is_some_and(|tls| tls.is_resumed());
        lane.shook_hands(lane.clock.now_ns() - connected_ns, resumed);
    }
    lane.opened(number, lane.clock.now_ns() - begun_ns);
    let client = client(lane, &stream)?;
    lane.http2.set(Some(client.is_http2()));
    Ok((stream, client))
}

/// Begins a handshake and lets the next one begin when the thread has done all else that is ready: begun all at once,
/// each would have the computing of all others in its time.
async fn one_after_another<T>(shaking: impl Future<Output = T>, turn: Option<SemaphorePermit<'_>>) -> T {
    let mut shaking = pin!(shaking);
    let begun = poll_fn(|cx| Poll::Ready(shaking.as_mut().poll(cx))).await;
    yield_now().await;
    drop(turn);
    match begun {
        Poll::Ready(done) => done,
        Poll::Pending => shaking.await,
    }
}

/// The version that was agreed on, or that is known in advance in clear.
fn client(lane: &Lane, stream: &Stream) -> Result<Client, (Failure, String)> {
    let streams = lane.setup.streams as usize;
    let agreed = stream.tls().and_then(|tls| tls.alpn());
    let http2 = match (lane.setup.http, stream.is_tls()) {
        (Http::One | Http::OneDotZero, _) => false,
        (Http::Two | Http::Negotiated, false) => true,
        (Http::Two, true) if agreed != Some(b"h2") => {
            return Err((Failure::Tls, "the server did not agree on h2".to_owned()));
        }
        (Http::Two, true) => true,
        (Http::Negotiated, true) => agreed == Some(b"h2"),
    };
    Ok(if http2 {
        Client::Http2(Box::new(Http2::new(streams)))
    } else {
        let keeps_answers = lane.script.as_ref().is_some_and(|script| script.wants_answers());
        Client::Http1(Box::new(Http1::new(streams, keeps_answers)))
    })
}

/// How the use of a connection ended.
enum Ended {
    /// As both sides meant it.
    Over,
    Failed(Failure, String),
}

/// Uses a connection that may send `left` requests; returns how many its successor may send.
async fn serve(
    lane: &Lane,
    number: u32,
    (stream, client): (Stream, Client),
    first: Option<(Ticket, u32)>,
    left: u64,
) -> u64 {
    let single = first.is_some();
    let life = lane.setup.connection_life.map(|length| Box::pin(sleep(length)));
    let mut serving = Serving {
        lane,
        number,
        stream,
        client,
        rest: Vec::new(),
        told: Vec::new(),
        single,
        pause: None,
        left,
        life,
        expired: false,
    };
    if let Some((ticket, request)) = first {
        serving.send(ticket, request, lane.clock.now_ns());
    }
    let ended = poll_fn(|cx| serving.poll(cx)).await;
    let (failure, why) = match ended {
        Ended::Over => (Failure::Reset, "closed by the server before the response".to_owned()),
        Ended::Failed(failure, why) => (failure, why),
    };
    let now_ns = lane.clock.now_ns();
    let open = serving.client.open();
    // What is no HTTP is wrong on an idle connection too, where no request fails with it.
    if open.is_empty() && failure == Failure::Protocol {
        lane.failed_idle(failure, &why);
    }
    for ticket in open {
        lane.failed(ticket, failure, &why, now_ns);
    }
    if single {
        // A port that waits for late segments cannot be used again for a minute, and there are few of them.
        serving.stream.abort();
    }
    let gives_up = serving.expired || (lane.setup.is_divided() && failure == Failure::Timeout);
    if gives_up && serving.left > 0 {
        if lane.setup.is_divided() {
            lane.abandon(serving.left, Failure::Reset, "given up together with its connection");
        }
        return 0;
    }
    serving.left
}

/// A connection in use.
struct Serving<'a> {
    lane: &'a Lane,
    number: u32,
    stream: Stream,
    client: Client,
    /// What was read and is not complete.
    rest: Vec<u8>,
    told: Vec<Told>,
    /// For one request only.
    single: bool,
    /// What a script waits for before the next request.
    pause: Option<Pin<Box<Sleep>>>,
    /// How many requests it may still send.
    left: u64,
    /// When it is closed, whatever happens.
    life: Option<Pin<Box<Sleep>>>,
    /// That time has come.
    expired: bool,
}

impl Serving<'_> {
    fn send(&mut self, ticket: Ticket, request: u32, now_ns: u64) {
        if let Some(script) = self.lane.script.clone() {
            return self.send_scripted(&script, ticket, now_ns);
        }
        let sent = self.lane.request(request).is_some_and(|request| self.client.send(ticket, request));
        if !sent {
            self.lane.failed(ticket, Failure::Protocol, "a request that cannot be sent", now_ns);
        }
    }

    /// Sends what the script says, which may be several requests.
    fn send_scripted(&mut self, script: &ThreadScript, ticket: Ticket, now_ns: u64) {
        let batch = match script.request() {
            Ok(batch) => batch,
            Err(why) => return self.lane.break_off(why),
        };
        // `Setup::check` refuses scripts over HTTP/2.
        let Some(client) = self.client.http1() else { return };
        client.send_text(batch.text());
        for (number, method) in batch.methods().iter().enumerate() {
            let ticket = if number == 0 { Some(ticket) } else { self.lane.take_along(ticket, now_ns) };
            if let Some(ticket) = ticket {
                client.expect(ticket, *method);
            }
        }
        if script.is_stopped() {
            self.lane.stop();
        }
    }

    /// Whether a script wants to wait before the next request; asked once for each.
    fn is_paused(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(script) = &self.lane.script else { return false };
        let pause = match &mut self.pause {
            Some(pause) => pause,
            None => match script.delay() {
                Ok(None) => return false,
                Ok(Some(length)) => self.pause.insert(Box::pin(sleep(length))),
                Err(why) => {
                    self.lane.break_off(why);
                    return true;
                }
            },
        };
        pause.as_mut().poll(cx).is_pending()
    }

    /// Goes on until nothing moves: one write for all that is to be sent, one read for all that has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.lane.register(self.number, cx.waker());
        let mut now_ns = self.lane.clock.now_ns();
        loop {
            if let Some(ended) = self.give_up_overdue(now_ns) {
                return Poll::Ready(ended);
            }
            if self.life.as_mut().is_some_and(|life| life.as_mut().poll(cx).is_ready()) {
                self.expired = true;
                return Poll::Ready(Ended::Failed(
                    Failure::Timeout,
                    "its connection was open too long".into(),
                ));
            }
            self.take(cx, now_ns);
            if let Err(error) = self.write(cx) {
                return Poll::Ready(Ended::Failed(Failure::Reset, error.to_string()));
            }
            match self.read(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(false)) => {
                    now_ns = self.lane.clock.now_ns();
                    self.client.end_of_input(&mut self.told);
                    self.tell(now_ns);
                    return Poll::Ready(Ended::Over);
                }
                Poll::Ready(Ok(true)) => now_ns = self.lane.clock.now_ns(),
                Poll::Ready(Err((failure, why))) => {
                    self.tell(self.lane.clock.now_ns());
                    return Poll::Ready(Ended::Failed(failure, why));
                }
            }
            let ended = self.tell(now_ns);
            // A script may have sent several requests at once.
            let at_end = self.left == 0 || (self.single && ended);
            if self.client.is_over() || (at_end && self.client.open().is_empty()) {
                return Poll::Ready(Ended::Over);
            }
        }
    }

    /// How many more requests it takes now.
    fn room(&self) -> usize {
        if self.left == 0 { 0 } else { self.client.room() }
    }

    /// Takes requests as long as there are some and the connection has room.
    fn take(&mut self, cx: &mut Context<'_>, now_ns: u64) {
        if self.single {
            return;
        }
        let mut room = self.room();
        while room > 0 {
            if self.is_paused(cx) {
                return self.lane.leave(self.number);
            }
            let Some((ticket, request)) = self.lane.take(self.number, now_ns) else { break };
            self.pause = None;
            self.left -= 1;
            self.send(ticket, request, now_ns);
            room = self.room();
            if self.lane.others_are_free() {
                break;
            }
        }
        if room > 0 {
            self.lane.wait(self.number, now_ns);
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.client.output().is_empty() {
            match self.stream.poll_write(cx, self.client.output()) {
                Poll::Ready(written) => {
                    let written = written?;
                    self.client.advance_output(written);
                    self.lane.wrote(written);
                }
                Poll::Pending => return Ok(()),
            }
        }
        match self.stream.poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }

    /// Reads once and hands it to the client; false at the end.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, (Failure, String)>> {
        let mut scratch = self.lane.scratch.borrow_mut();
        scratch.clear();
        scratch.extend_from_slice(&self.rest);
        let count = match self.stream.poll_read(cx, &mut scratch, READ_BYTES) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err((Failure::Reset, error.to_string()))),
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(false)),
            Poll::Ready(Ok(count)) => count,
        };
        self.lane.received(count);
        match self.client.receive(&scratch, &mut self.told) {
            Ok(taken) => {
                self.rest.clear();
                self.rest.extend_from_slice(scratch.get(taken..).unwrap_or_default());
                Poll::Ready(Ok(true))
            }
            Err(why) => Poll::Ready(Err((Failure::Protocol, why))),
        }
    }

    /// Tells the lane what has happened; whether a request has ended.
    fn tell(&mut self, now_ns: u64) -> bool {
        let mut ended = false;
        let mut all = std::mem::take(&mut self.told);
        for told in all.drain(..) {
            match told {
                Told::Begun(ticket) => self.lane.begun(ticket, now_ns),
                Told::Answered(answer) => {
                    ended = true;
                    if self.lane.seen.borrow().is_none() {
                        self.look(answer.status, answer.body_bytes);
                    }
                    self.lane.answered(answer, now_ns);
                    self.tell_script();
                }
                Told::Reset(ticket) => {
                    ended = true;
                    self.lane.failed(ticket, Failure::Reset, "the stream was reset", now_ns);
                }
            }
        }
        self.told = all;
        ended
    }

    /// Hands the script an answer.
    fn tell_script(&mut self) {
        let Some(script) = &self.lane.script else { return };
        let Some(answered) = self.client.http1().and_then(Http1::take_answer) else { return };
        if let Err(why) = script.answered(&answered) {
            self.lane.break_off(why);
        } else if script.is_stopped() {
            self.lane.stop();
        }
    }

    /// Notes what the server says of itself.
    fn look(&self, status: u16, body_bytes: u64) {
        let tls = self.stream.tls().map(|tls| TlsSeen {
            version: tls.version().to_owned(),
            cipher: tls.cipher().to_owned(),
            alpn: tls.alpn().map(|alpn| String::from_utf8_lossy(alpn).into_owned()),
        });
        let software = self.client.software();
        *self.lane.seen.borrow_mut() = Some(ServerSeen { software, status, body_bytes, tls });
    }

    fn give_up_overdue(&mut self, now_ns: u64) -> Option<Ended> {
        for ticket in self.lane.take_overdue(self.number) {
            let why = format!("no response within {:?}", self.lane.setup.timeout);
            // What the client gives up it does not know as open any more: first whether the connection goes.
            if self.single || self.lane.setup.is_divided() || !self.client.give_up(ticket) {
                return Some(Ended::Failed(Failure::Timeout, why));
            }
            self.lane.failed(ticket, Failure::Timeout, &why, now_ns);
        }
        None
    }
}
