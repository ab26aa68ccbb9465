//! Moving bodies: the request's while its response is awaited, then the response's, both at once.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_compress::Ending;
use weir_config::model::{Mode, Proxy};
use weir_http::h1::{self, ParseError, ParseErrorKind};
use weir_http::{FieldName, Request, Response};
use weir_net::timers::now_ms;

use crate::edge::{Body, BodyLength, Edge, EdgeError};
use crate::exchange::{Exchange, Stop};
use crate::filter;
use crate::filter::cache;
use crate::filter::{Chain, GATHER_BYTES, Owner};
use crate::finish;
use crate::server::reach::{self, ServerConnection};
use crate::state::ServerState;
use crate::state::counters::Counter;

/// The request body's way to the server.
#[derive(Debug)]
pub(crate) struct Upload {
    /// What the client announced.
    announced: BodyLength,
    /// Bytes of `Txn::request_body` that this try has sent.
    sent_kept: usize,
    /// Bytes are kept in `Txn::request_body` as they go, so that another try can send them again.
    keep: bool,
    /// Bytes went that were not kept: there can be no other try.
    lost: bool,
    /// All of it was handed to the server's edge.
    done: bool,
    /// A filter changes it on its way.
    changed: bool,
    /// The filters on its way, made anew for each try.
    pub(crate) filters: Option<Box<Chain>>,
}

/// How often a long transfer is counted with `option contstats`, milliseconds.
const COUNT_INTERVAL_MS: u64 = 5000;

/// Whose failure ended the wait for a response.
#[derive(Debug)]
pub(crate) enum Fault {
    Server(EdgeError),
    ServerTimeout,
    Client(EdgeError),
    ClientTimeout,
    /// The client went away while its answer was awaited (`option abortonclose`).
    Aborted,
}

impl Upload {
    /// A body of which nothing was sent.
    pub(crate) fn new(announced: BodyLength) -> Self {
        // Without a body there is nothing to wait for.
        let done = announced == BodyLength::None;
        Self { announced, sent_kept: 0, keep: false, lost: false, done, changed: false, filters: None }
    }

    /// Starts again on another connection.
    pub(crate) fn restart(&mut self, keep: bool) {
        self.sent_kept = 0;
        self.keep = keep;
        self.done = self.announced == BodyLength::None;
    }

    /// A filter changes it: where it ends is told in its framing.
    pub(crate) fn changes_length(&mut self) {
        self.announced = BodyLength::Unknown;
        self.changed = true;
    }

    /// Another try can send the same body.
    pub(crate) fn is_replayable(&self) -> bool {
        !self.lost
    }

    /// All of the body was handed over.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// A limit holds it back.
    fn is_held_back(&self) -> bool {
        self.filters.as_ref().is_some_and(|filters| filters.is_held_back())
    }

    /// A number that changes when body bytes move.
    fn progress(&self, txn: &weir_rules::Txn) -> (u64, usize) {
        (txn.bytes_in, self.sent_kept)
    }

    /// What follows are plain bytes until the client closes.
    pub(crate) fn start_tunnel(&mut self) {
        self.announced = BodyLength::Tunnel;
        self.done = false;
        self.keep = false;
        self.lost = true;
        self.filters = None;
    }

    /// Bytes that the server will get, where that is certain before the first one.
    pub(crate) fn known_length(&self, txn: &weir_rules::Txn) -> Option<u64> {
        match self.length() {
            BodyLength::Unknown if txn.request_body_complete && !self.changed => {
                Some(txn.request_body.len() as u64)
            }
            length => length.announced(),
        }
    }

    /// The length the server is told.
    pub(crate) fn length(&self) -> BodyLength {
        match self.announced {
            // A body that was waited for and is complete has a known length, but stays as the client framed it.
            BodyLength::Tunnel => BodyLength::None,
            announced => announced,
        }
    }
}

/// Manual, `option abortonclose`: the default in HTTP backends. Whoever closes over HTTP/1 has given up, or only has
/// nothing more to say; over HTTP/2 both look different, and nobody has to ask.
pub(crate) fn aborts_on_close(proxy: &Proxy) -> bool {
    proxy.options.abortonclose.unwrap_or(proxy.mode == Mode::Http)
}

/// Hands body bytes from the client (and those kept) to the server until there are none for now.
pub(crate) fn poll_upload(
    x: &mut Exchange,
    server: &mut Edge,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Fault>> {
    if let Some(mut filters) = x.upload.filters.take() {
        let sent = poll_filtered_upload(x, server, &mut filters, cx);
        x.upload.filters = Some(filters);
        return sent;
    }
    while !x.upload.done {
        ready!(server.poll_writable(cx)).map_err(Fault::Server)?;
        if let Some(kept) = x.txn.request_body.get(x.upload.sent_kept..).filter(|kept| !kept.is_empty()) {
            x.upload.sent_kept += server.send_data(kept).map_err(Fault::Server)?;
            continue;
        }
        if x.txn.request_body_complete {
            finish_upload(x, server, None)?;
            break;
        }
        match x.client.poll_body(cx) {
            Poll::Ready(Ok(Body::Data)) => upload_data(x, server)?,
            Poll::Ready(Ok(Body::End)) => {
                let trailers = x.client.take_trailers();
                finish_upload(x, server, trailers)?;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::Client(error))),
            Poll::Pending => {
                let _sent_later = server.poll_flush(cx).map_err(Fault::Server)?;
                return Poll::Pending;
            }
        }
    }
    server.poll_flush(cx).map_err(Fault::Server)
}

/// The same with filters on the way.
fn poll_filtered_upload(
    x: &mut Exchange,
    server: &mut Edge,
    filters: &mut Chain,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Fault>> {
    while !x.upload.done {
        let room = ready!(filters.poll_room(Owner::of(x), server, cx)).map_err(Fault::Server)?;
        let Some(room) = room else {
            let trailers = x.client.take_trailers();
            finish_upload(x, server, trailers)?;
            break;
        };
        let mut piece = x.worker.pieces.take();
        let gathered = gather_upload(x, &mut piece, room, cx);
        let passed = match gathered {
            Ok(Ending::Flush) if piece.is_empty() => Ok(false),
            Ok(ending) => {
                filters.pass(Owner::of(x), &piece, ending, server).map(|()| true).map_err(Fault::Server)
            }
            Err(fault) => Err(fault),
        };
        x.worker.pieces.give(piece);
        if !passed? {
            let _sent_later = server.poll_flush(cx).map_err(Fault::Server)?;
            return Poll::Pending;
        }
    }
    server.poll_flush(cx).map_err(Fault::Server)
}

/// Gathers what there is of the request's body into `piece`, at most so many bytes.
fn gather_upload(
    x: &mut Exchange,
    piece: &mut Vec<u8>,
    most: usize,
    cx: &mut Context<'_>,
) -> Result<Ending, Fault> {
    let limit = x.worker.config().global.tune.bufsize;
    loop {
        let room = most - piece.len();
        if room == 0 {
            return Ok(ending_of_full(most));
        }
        let (upload, txn) = (&mut x.upload, &mut x.txn);
        if let Some(kept) = txn.request_body.get(upload.sent_kept..).filter(|kept| !kept.is_empty()) {
            let kept = &kept[..kept.len().min(room)];
            piece.extend_from_slice(kept);
            upload.sent_kept += kept.len();
            continue;
        }
        if txn.request_body_complete {
            return Ok(Ending::Finish);
        }
        match x.client.poll_gather(cx, piece, room).map_err(Fault::Client)? {
            Poll::Ready(0) => return Ok(Ending::Finish),
            Poll::Ready(taken) => {
                txn.bytes_in += taken as u64;
                let data = &piece[piece.len() - taken..];
                if upload.keep && !upload.lost && txn.request_body.len() + data.len() <= limit {
                    txn.request_body.extend_from_slice(data);
                    upload.sent_kept += data.len();
                } else {
                    upload.lost = true;
                }
            }
            Poll::Pending => return Ok(Ending::Flush),
        }
    }
}

/// What follows a piece that is as long as it may be: more at once, or only after a while where a limit made it short.
fn ending_of_full(most: usize) -> Ending {
    if most == GATHER_BYTES { Ending::Open } else { Ending::Flush }
}

/// Moves the bytes the client's edge has.
fn upload_data(x: &mut Exchange, server: &mut Edge) -> Result<(), Fault> {
    let limit = x.worker.config().global.tune.bufsize;
    let (upload, txn) = (&mut x.upload, &mut x.txn);
    let before = txn.bytes_in;
    let result = x.client.with_data(|data| {
        if upload.keep && !upload.lost && txn.request_body.len() + data.len() <= limit {
            txn.request_body.extend_from_slice(data);
            return (data.len(), Ok(data.len()));
        }
        match server.send_data(data) {
            Ok(sent) => {
                upload.lost = true;
                (sent, Ok(sent))
            }
            Err(error) => (0, Err(Fault::Server(error))),
        }
    });
    x.txn.bytes_in = before + result? as u64;
    Ok(())
}

fn finish_upload(
    x: &mut Exchange,
    server: &mut Edge,
    trailers: Option<weir_http::Fields>,
) -> Result<(), Fault> {
    x.upload.done = true;
    let drop = x.worker.proxy(x.back).options.http_drop_request_trailers;
    let trailers = trailers.filter(|_| !drop);
    server.finish(trailers.as_ref()).map_err(Fault::Server)
}

/// Sends the request's body and receives the response's head; interim responses pass on the way.
pub(crate) async fn until_response(x: &mut Exchange, server: &mut Edge) -> Result<Response, Fault> {
    let abort = aborts_on_close(x.worker.proxy(x.back));
    let mut response = Response::default();
    arm_for_upload(x);
    let mut moved_ms = now_ms();
    let mut informed = false;
    let mut interims = false;
    let mut client_full = false;
    loop {
        poll_fn(|cx| {
            let before = x.upload.progress(&x.txn);
            // A server that informs a client that does not listen has to wait, too.
            let was_full = client_full;
            client_full = interims && x.client.poll_takes_head(cx).map_err(Fault::Client)?.is_pending();
            if client_full && !was_full {
                x.deadline.arm(patience(x, false)[0]);
            } else if was_full && !client_full {
                arm_for_upload(x);
            }
            let was_done = x.upload.done;
            let upload_pending = match poll_upload(x, server, cx) {
                Poll::Ready(Ok(())) => false,
                // The server may have answered and closed before it took everything: look first.
                Poll::Ready(Err(Fault::Server(_))) if client_full => true,
                Poll::Ready(Err(Fault::Server(error))) => {
                    return match server.poll_response(cx, &mut response) {
                        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                        _ => Poll::Ready(Err(Fault::Server(error))),
                    };
                }
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => true,
            };
            if x.upload.done && !was_done {
                arm_for_response(x);
            } else if x.upload.progress(&x.txn) != before || x.upload.is_held_back() {
                // Patience is with a client that sends nothing, not with a long body.
                moved_ms = now_ms();
                arm_for_upload(x);
            }
            if !client_full && let Poll::Ready(received) = server.poll_response(cx, &mut response) {
                return Poll::Ready(received.map_err(Fault::Server));
            }
            // Those that came together leave together. The client may wait for one: with 100, before it sends the body that
            // this waits for.
            if informed && x.client.poll_flush(cx).map_err(Fault::Client)?.is_ready() {
                informed = false;
            }
            if abort && !upload_pending && x.client.poll_gone(cx).is_ready() {
                return Poll::Ready(Err(Fault::Aborted));
            }
            while x.deadline.poll_expired(cx).is_ready() {
                let uploading = upload_pending && !x.upload.done && server.poll_writable(cx).is_ready();
                if client_full || uploading {
                    return Poll::Ready(Err(Fault::ClientTimeout));
                }
                // The deadline may have been the client's, and it is the server that takes nothing.
                match server_time_left(x, moved_ms) {
                    Some(left) => x.deadline.arm(left),
                    None => return Poll::Ready(Err(Fault::ServerTimeout)),
                }
            }
            Poll::Pending
        })
        .await?;
        if response.status == 101 && !is_switch_asked_for(&x.txn.request, &response) {
            return Err(Fault::Server(EdgeError::Protocol(UNASKED_SWITCH)));
        }
        if response.status >= 200 || response.status == 101 {
            return Ok(response);
        }
        interim(x, &response).map_err(Fault::Client)?;
        (informed, interims) = (true, true);
    }
}

/// A 101 that would open a tunnel for nobody who asked for one, past the rules on what follows.
const UNASKED_SWITCH: ParseError =
    ParseError { kind: ParseErrorKind::Upgrade, position: 0, fault: h1::Fault::Server };

/// RFC 9110 section 7.8: a server switches to protocols that the request named, and says to which.
fn is_switch_asked_for(request: &Request, response: &Response) -> bool {
    let is_asked = |protocol: &[u8]| {
        let mut asked = request.fields.elements(FieldName::Upgrade);
        asked.any(|one| one.eq_ignore_ascii_case(protocol))
    };
    let mut options = response.fields.elements(FieldName::Connection);
    !request.protocol.is_empty()
        && options.any(|option| option.eq_ignore_ascii_case(b"upgrade"))
        && response.fields.has(FieldName::Upgrade)
        && response.fields.elements(FieldName::Upgrade).all(is_asked)
}

/// Passes a 1xx response on.
fn interim(x: &mut Exchange, response: &Response) -> Result<(), EdgeError> {
    x.client.send_informational(response)
}

fn arm_for_upload(x: &Exchange) {
    match patience(x, false)[0] {
        Some(time) if !x.upload.done => x.deadline.set_after(time),
        _ => arm_for_response(x),
    }
}

/// What is left of the server's time while it takes nothing of a body, nothing moved since `moved_ms`; `None` when it is
/// over.
fn server_time_left(x: &Exchange, moved_ms: u64) -> Option<Option<Duration>> {
    if x.upload.done {
        return None;
    }
    let Some(time) = patience(x, false)[1] else { return Some(None) };
    let left = time.saturating_sub(Duration::from_millis(now_ms().saturating_sub(moved_ms)));
    (!left.is_zero()).then_some(Some(left))
}

fn arm_for_response(x: &Exchange) {
    x.deadline.arm(patience(x, false)[1]);
}

/// The response's head has been decided: sends it, then everything that follows, both ways.
pub(crate) async fn answer(x: &mut Exchange, mut server: ServerConnection) -> Result<(), Stop> {
    let state = Arc::clone(&server.held.server);
    let mut outcome = both_ways(x, &mut server.edge, &state).await;
    if outcome.is_ok() {
        // The server is done with it: who comes next need not wait until the client has taken the rest.
        reach::done(x, server);
        outcome = flushed(x).await;
    }
    x.txn.timers.data_ms = Some(
        x.elapsed_ms()
            .saturating_sub(x.txn.timers.request_ms.unwrap_or(0))
            .saturating_sub(x.txn.timers.queue_ms.unwrap_or(0))
            .saturating_sub(x.txn.timers.connect_ms.unwrap_or(0))
            .saturating_sub(x.txn.timers.response_ms.unwrap_or(0)),
    );
    finish::count_on_server(x, &state);
    match outcome {
        Ok(()) => {
            if !x.upload.is_done() {
                // The server answered without reading all of the request: what is left cannot be told from
                // the next request's bytes.
                x.close_client = true;
            }
            Ok(())
        }
        Err(fault) => {
            x.close_client = true;
            let (cause, counter) = match fault {
                Fault::Server(_) => (b'S', Counter::ServerAborts),
                Fault::ServerTimeout => (b's', Counter::ServerAborts),
                Fault::Client(_) | Fault::Aborted => (b'C', Counter::ClientAborts),
                Fault::ClientTimeout => (b'c', Counter::ClientAborts),
            };
            x.terminated(cause, b'D');
            x.count_back(counter, 1);
            state.count(x.worker.thread, counter, 1);
            Err(if cause.eq_ignore_ascii_case(&b'S') { Stop::Truncated } else { Stop::Client })
        }
    }
}

/// Waits until the client has taken what its edge holds.
async fn flushed(x: &mut Exchange) -> Result<(), Fault> {
    let mut waiting = usize::MAX;
    poll_fn(|cx| {
        if let Poll::Ready(flushed) = x.client.poll_flush(cx) {
            return Poll::Ready(flushed.map_err(Fault::Client));
        }
        // The time is for a client that takes nothing.
        let before = std::mem::replace(&mut waiting, x.client.unsent());
        if waiting < before {
            let [client_time, _] = patience(x, false);
            x.deadline.arm(client_time);
        }
        x.deadline.poll_expired(cx).map(|()| Err(Fault::ClientTimeout))
    })
    .await
}

/// Forwards the rest of the request and the response until the client's edge has all of it, or a tunnel closed.
async fn both_ways(x: &mut Exchange, server: &mut Edge, state: &ServerState) -> Result<(), Fault> {
    let tunnel = x.tunnel;
    let continuously = x.worker.proxy(x.front).options.contstats;
    let mut counted_ms = now_ms();
    let mut filters = x.filters.take();
    let mut download = Download::default();
    let mut activity = Activity::new(x);
    // Many responses are there whole: nothing is waited for.
    let mut waits = false;
    let outcome = poll_fn(|cx| {
        let before = (download.moved, x.txn.bytes_in);
        let mut upload = if x.upload.done { Poll::Ready(Ok(())) } else { poll_upload(x, server, cx) };
        if !tunnel && matches!(upload, Poll::Ready(Err(Fault::Server(_)))) {
            // The server does not want the rest; its answer still counts.
            upload = Poll::Ready(Ok(()));
        }
        if let Poll::Ready(Err(fault)) = upload {
            return Poll::Ready(Err(fault));
        }
        let download_done = match &mut filters {
            Some(filters) => download.poll_filtered(x, server, filters, cx)?,
            None => download.poll(x, server, cx)?,
        };
        if download_done.is_ready() && (!tunnel || x.upload.done) {
            return Poll::Ready(Ok(()));
        }
        if !std::mem::replace(&mut waits, true) {
            arm_for_download(x, &download);
        }
        let held_back =
            x.upload.is_held_back() || filters.as_ref().is_some_and(|filters| filters.is_held_back());
        if before != (download.moved, x.txn.bytes_in) || held_back {
            let now = now_ms();
            let (up, down) = (before.1 != x.txn.bytes_in, before.0 != download.moved);
            if activity.note(up || held_back, down || held_back, now) {
                arm_for_download(x, &download);
            }
            if continuously && now.saturating_sub(counted_ms) >= COUNT_INTERVAL_MS {
                counted_ms = now;
                finish::count_on_the_way(x, state);
            }
        }
        if let Some(fault) = late(x, &download, &activity, cx) {
            return Poll::Ready(Err(fault));
        }
        Poll::Pending
    })
    .await;
    filter::count_bypassed(x, download.moved);
    outcome
}

/// Whose time is over when the deadline has passed.  The deadline is the shorter time of both sides; when the side
/// that is awaited has more, it is set again.
fn late(x: &mut Exchange, download: &Download, activity: &Activity, cx: &mut Context<'_>) -> Option<Fault> {
    while x.deadline.poll_expired(cx).is_ready() {
        if x.tunnel && activity.independent != [false; 2] {
            let (left, client_late) = activity.least_left(tunnel_patience(x, download), now_ms())?;
            if left.is_zero() {
                return Some(if client_late { Fault::ClientTimeout } else { Fault::ServerTimeout });
            }
            x.deadline.set_after(left);
            continue;
        }
        let client_awaited = x.client.poll_writable(cx).is_pending() || download.ended;
        let [client_time, server_time] = patience(x, is_half_closed(x, download));
        let client_late = match x.tunnel {
            // Both are awaited: the one with less time is late.
            true => client_awaited || client_time.is_some_and(|c| server_time.is_none_or(|s| c <= s)),
            false => client_awaited,
        };
        let waited = activity.waited(client_late, now_ms());
        match if client_late { client_time } else { server_time } {
            Some(time) if !x.tunnel && time > waited => x.deadline.set_after(time - waited),
            None if !x.tunnel => x.deadline.clear(),
            _ if client_late => return Some(Fault::ClientTimeout),
            _ => return Some(Fault::ServerTimeout),
        }
    }
    None
}

/// When the sides were last active. A side is active when it sends and when it is sent something, or, with
/// `option independent-streams`, only when it sends.
struct Activity {
    client_ms: u64,
    server_ms: u64,
    /// Of the frontend and of the backend.
    independent: [bool; 2],
}

impl Activity {
    /// Both sides are active now.
    fn new(x: &Exchange) -> Self {
        let independent = [x.front, x.back].map(|proxy| x.worker.proxy(proxy).options.independent_streams);
        Self { client_ms: now_ms(), server_ms: now_ms(), independent }
    }

    /// Notes which ways data moved; true when both sides were active.
    fn note(&mut self, up: bool, down: bool, now: u64) -> bool {
        let client = up || (down && !self.independent[0]);
        let server = down || (up && !self.independent[1]);
        if client {
            self.client_ms = now;
        }
        if server {
            self.server_ms = now;
        }
        client && server
    }

    /// How long a side has been inactive.
    fn waited(&self, client: bool, now: u64) -> Duration {
        Duration::from_millis(now.saturating_sub(if client { self.client_ms } else { self.server_ms }))
    }

    /// What is left of the time of the side that has the least left, and whether it is the client.
    fn least_left(&self, limits: [Option<Duration>; 2], now: u64) -> Option<(Duration, bool)> {
        let left = |client: bool, limit: Option<Duration>| {
            Some((limit?.saturating_sub(self.waited(client, now)), client))
        };
        left(true, limits[0]).into_iter().chain(left(false, limits[1])).min_by_key(|(left, _)| *left)
    }
}

/// One side of a tunnel closed, the other goes on.
fn is_half_closed(x: &Exchange, download: &Download) -> bool {
    x.tunnel && (download.ended || x.upload.done)
}

/// How long the client and the server may be silent: set by a rule, or their `timeout`; a half-closed tunnel has
/// times of its own (`timeout client-fin`, `timeout server-fin`).
fn patience(x: &Exchange, half_closed: bool) -> [Option<Duration>; 2] {
    let set = |slot: usize| x.txn.set_timeouts[slot].map(|ms| Duration::from_millis(u64::from(ms)));
    let (front, back) = (&x.worker.proxy(x.front).timeouts, &x.worker.proxy(x.back).timeouts);
    let fin = |time: Option<Duration>| time.filter(|_| half_closed);
    [
        fin(front.client_fin).or_else(|| set(2)).or(front.client),
        fin(back.server_fin).or_else(|| set(0)).or(back.server),
    ]
}

fn arm_for_download(x: &Exchange, download: &Download) {
    let times = match x.tunnel {
        true => tunnel_patience(x, download),
        false => patience(x, false),
    };
    x.deadline.arm(times.into_iter().flatten().min());
}

/// The same in a tunnel: `timeout tunnel` is both sides', unless a half-closed one has times of its own.
fn tunnel_patience(x: &Exchange, download: &Download) -> [Option<Duration>; 2] {
    let set = x.txn.set_timeouts[1].map(|ms| Duration::from_millis(u64::from(ms)));
    let half_closed = is_half_closed(x, download);
    let (front, back) = (&x.worker.proxy(x.front).timeouts, &x.worker.proxy(x.back).timeouts);
    let plain = patience(x, half_closed);
    if half_closed && (front.client_fin.is_some() || back.server_fin.is_some()) {
        return plain;
    }
    let tunnel = set.or(back.tunnel);
    if tunnel.is_some() { [tunnel; 2] } else { plain }
}

/// The response body's way to the client.
#[derive(Default)]
struct Download {
    /// Bytes of `Txn::response_body` that were sent.
    sent_kept: usize,
    /// The server's edge has given everything, and it was handed to the client's.
    ended: bool,
    /// The server's edge failed behind what was gathered: the client gets that first.
    cut: Option<EdgeError>,
    /// Bytes moved, to see progress.
    moved: u64,
}

impl Download {
    /// Hands bytes from the server to the client until there are none for now; ready when the client's edge has all,
    /// or in a tunnel when all have left.
    fn poll(&mut self, x: &mut Exchange, server: &mut Edge, cx: &mut Context<'_>) -> Result<Poll<()>, Fault> {
        while !self.ended {
            if x.client.poll_writable(cx).map_err(Fault::Client)?.is_pending() {
                return Ok(Poll::Pending);
            }
            if self.send_kept(x)? {
                continue;
            }
            match server.poll_body(cx).map_err(Fault::Server)? {
                Poll::Ready(Body::Data) => self.send(x, server)?,
                Poll::Ready(Body::End) => self.end(x, server)?,
                Poll::Pending => {
                    let _sent_later = x.client.poll_flush(cx).map_err(Fault::Client)?;
                    return Ok(Poll::Pending);
                }
            }
        }
        last_flush(x, cx)
    }

    /// The same with filters on the way. Nothing waits in front of them when this returns: what is gathered is
    /// passed at once, and only while the client takes what comes out.
    fn poll_filtered(
        &mut self,
        x: &mut Exchange,
        server: &mut Edge,
        filters: &mut Chain,
        cx: &mut Context<'_>,
    ) -> Result<Poll<()>, Fault> {
        while !self.ended {
            let owner = Owner { worker: &x.worker, front: x.front, back: x.back };
            let Poll::Ready(room) = filters.poll_room(owner, &mut x.client, cx).map_err(Fault::Client)?
            else {
                return Ok(Poll::Pending);
            };
            let Some(room) = room else {
                self.end(x, server)?;
                break;
            };
            let mut piece = x.worker.pieces.take();
            let gathered = self.gather(x, server, &mut piece, room, cx);
            cache::body(&mut x.storing, &piece);
            let passed = match gathered {
                Ok(Ending::Flush) if piece.is_empty() => Ok(false),
                Ok(ending) => {
                    let owner = Owner { worker: &x.worker, front: x.front, back: x.back };
                    filters.pass(owner, &piece, ending, &mut x.client).map(|()| true).map_err(Fault::Client)
                }
                Err(fault) => Err(fault),
            };
            x.worker.pieces.give(piece);
            if !passed? {
                let _sent_later = x.client.poll_flush(cx).map_err(Fault::Client)?;
                return Ok(Poll::Pending);
            }
        }
        last_flush(x, cx)
    }

    /// Gathers what there is of the response's body into `piece`, at most so many bytes.
    fn gather(
        &mut self,
        x: &mut Exchange,
        server: &mut Edge,
        piece: &mut Vec<u8>,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Result<Ending, Fault> {
        if let Some(error) = self.cut.take() {
            return Err(Fault::Server(error));
        }
        loop {
            let room = most - piece.len();
            if room == 0 {
                return Ok(ending_of_full(most));
            }
            if let Some(kept) = x.txn.response_body.get(self.sent_kept..).filter(|kept| !kept.is_empty()) {
                let kept = &kept[..kept.len().min(room)];
                piece.extend_from_slice(kept);
                self.sent_kept += kept.len();
                self.moved += kept.len() as u64;
                continue;
            }
            match server.poll_gather(cx, piece, room) {
                Poll::Ready(Ok(0)) => return Ok(Ending::Finish),
                Poll::Ready(Ok(taken)) => {
                    self.moved += taken as u64;
                    x.txn.bytes_out += taken as u64;
                }
                Poll::Ready(Err(error)) if piece.is_empty() => return Err(Fault::Server(error)),
                Poll::Ready(Err(error)) => {
                    self.cut = Some(error);
                    return Ok(Ending::Flush);
                }
                Poll::Pending => return Ok(Ending::Flush),
            }
        }
    }

    /// Bytes that response rules had waited for go first.
    fn send_kept(&mut self, x: &mut Exchange) -> Result<bool, Fault> {
        let Some(kept) = x.txn.response_body.get(self.sent_kept..).filter(|kept| !kept.is_empty()) else {
            return Ok(false);
        };
        let sent = x.client.send_data(kept).map_err(Fault::Client)?;
        cache::body(&mut x.storing, &kept[..sent]);
        self.sent_kept += sent;
        self.moved += sent as u64;
        Ok(true)
    }

    fn send(&mut self, x: &mut Exchange, server: &mut Edge) -> Result<(), Fault> {
        let (client, storing) = (&mut x.client, &mut x.storing);
        let sent = server.with_data(|data| match client.send_data(data) {
            Ok(taken) => {
                cache::body(storing, &data[..taken]);
                (taken, Ok(taken))
            }
            Err(error) => (0, Err(Fault::Client(error))),
        })?;
        self.moved += sent as u64;
        x.txn.bytes_out += sent as u64;
        Ok(())
    }

    fn end(&mut self, x: &mut Exchange, server: &mut Edge) -> Result<(), Fault> {
        let drop = x.worker.proxy(x.back).options.http_drop_response_trailers;
        let trailers = server.take_trailers().filter(|_| !drop);
        x.client.finish(trailers.as_ref()).map_err(Fault::Client)?;
        if let Some(storing) = x.storing.take() {
            storing.finish(x);
        }
        self.ended = true;
        Ok(())
    }
}

/// What is left in the client's edge: a tunnel sends it while the other way goes on, an answer when the server's
/// connection is free.
fn last_flush(x: &mut Exchange, cx: &mut Context<'_>) -> Result<Poll<()>, Fault> {
    if x.tunnel { Ok(x.client.poll_flush(cx).map_err(Fault::Client)?) } else { Ok(Poll::Ready(())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_streams_wait_for_what_they_are_sent() {
        let check = |independent, moves: &[(bool, bool, u64)], waited: [u64; 2]| {
            let mut activity = Activity { client_ms: 0, server_ms: 0, independent };
            for (up, down, now) in moves {
                activity.note(*up, *down, *now);
            }
            let found = [true, false].map(|client| activity.waited(client, 100).as_millis() as u64);
            assert_eq!(found, waited, "{independent:?} {moves:?}");
        };
        let (up, down) = ((true, false, 60), (false, true, 30));
        check([false, false], &[up], [40, 40]);
        check([false, true], &[up], [40, 100]);
        check([false, true], &[down, up], [40, 70]);
        check([true, false], &[down], [100, 70]);
        check([true, true], &[down, up], [40, 70]);
        let activity = Activity { client_ms: 10, server_ms: 40, independent: [true; 2] };
        let limit = |ms| Some(Duration::from_millis(ms));
        assert_eq!(
            activity.least_left([limit(100), limit(100)], 60),
            Some((Duration::from_millis(50), true))
        );
        assert_eq!(activity.least_left([limit(100), limit(20)], 60), Some((Duration::ZERO, false)));
        assert_eq!(activity.least_left([None, limit(100)], 60), Some((Duration::from_millis(80), false)));
        assert_eq!(activity.least_left([None, None], 60), None);
    }
}
