//! Filters: what heads and bodies pass through between the two edges, one filter after the other, in the order
//! configured.
//!
//! Owns that order and the chain a body runs through. What one filter does is its own file's; a new kind of filter is
//! such a file, a variant of [`Step`] (it is configured) and one of [`Filter`] (it works on a body).

pub mod cache;

mod compress;
mod limit;
mod trace;

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;
use weir_compress::Ending;
use weir_config::model;
use weir_rules::Reply;

use crate::edge::{BodyLength, Edge, EdgeError};
use crate::exchange::Exchange;
use crate::thread::worker::Worker;

pub(crate) use compress::{Offer, count_bypassed, limits};

/// Input gathered before it is filtered, when it arrives fast enough: larger pieces compress better.
pub(crate) const GATHER_BYTES: usize = 64 * 1024;

/// The two ways of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Request,
    Response,
}

/// The filters between a frontend and a backend; computed once for each pair.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    request: Vec<Step>,
    response: Vec<Step>,
    /// What is compressed between the two.
    compression: weir_compress::Settings,
}

/// A configured filter.
#[derive(Clone, Debug)]
enum Step {
    Compress,
    /// Where the filter that compresses responses stands on the request's way: it hides from the server what the
    /// client accepts.
    Offload,
    Trace(Rc<trace::Settings>),
    Limit(Rc<limit::Settings>),
}

/// A filter at work on one body.
#[derive(Debug)]
enum Filter {
    Compress(compress::Body),
    Trace(Box<trace::Body>),
    Limit(Box<limit::Body>),
}

impl Plan {
    /// The frontend's filters, then the backend's; `None` where there are none.
    pub(crate) fn between(front: &model::Proxy, back: &model::Proxy) -> Option<Rc<Self>> {
        let same = front.name == back.name && front.backend;
        let proxies = if same { vec![front] } else { vec![front, back] };
        let settings = compress::settings(front, back);
        let chain = |direction| {
            let mut steps: Vec<Step> = proxies.iter().flat_map(|proxy| steps(proxy, direction)).collect();
            steps.retain(|step| step.has_work(direction, &settings));
            // What one compressed, the next one leaves as it is.
            let mut seen = false;
            steps.retain(|step| !matches!(step, Step::Compress) || !std::mem::replace(&mut seen, true));
            steps
        };
        let (request, response) = (chain(Direction::Request), chain(Direction::Response));
        let empty = request.is_empty() && response.is_empty();
        (!empty).then(|| Rc::new(Self { request, response, compression: settings }))
    }
}

impl Step {
    fn has_work(&self, direction: Direction, settings: &weir_compress::Settings) -> bool {
        match (self, direction) {
            (Self::Compress, Direction::Request) => settings.compresses_requests(),
            (Self::Compress, Direction::Response) => settings.compresses_responses(),
            (Self::Offload, _) => settings.offload && settings.compresses_responses(),
            (Self::Trace(_), _) => true,
            (Self::Limit(settings), direction) => settings.limits(direction),
        }
    }
}

/// A proxy's filters in the order of one direction.
fn steps(proxy: &model::Proxy, direction: Direction) -> Vec<Step> {
    let both = match direction {
        Direction::Request => vec![Step::Offload, Step::Compress],
        Direction::Response => vec![Step::Compress],
    };
    let step = |filter: &model::Filter| match (filter, direction) {
        (model::Filter::Compression, _) => both.clone(),
        (model::Filter::CompressRequests, Direction::Request) => vec![Step::Compress],
        (model::Filter::CompressResponses, Direction::Request) => vec![Step::Offload],
        (model::Filter::CompressResponses, Direction::Response) => vec![Step::Compress],
        (model::Filter::Trace(trace), _) => vec![Step::Trace(Rc::new(trace::Settings::new(trace, proxy)))],
        (model::Filter::Bandwidth(filter), _) => {
            vec![Step::Limit(Rc::new(limit::Settings::new(filter, proxy)))]
        }
        (model::Filter::CompressRequests | model::Filter::Cache(_) | model::Filter::FcgiApp, _) => Vec::new(),
    };
    match &proxy.filter_sequence[direction as usize] {
        Some(names) => {
            let named = |name| proxy.filters.iter().filter(move |filter| filter.name() == name);
            names.iter().flat_map(|name| named(name.as_str())).flat_map(step).collect()
        }
        // Manual, section 9.2: without other filters the `compression` lines are enough.
        None if proxy.compression.is_some() && !proxy.filters.iter().any(model::Filter::compresses) => both,
        None => proxy.filters.iter().flat_map(step).collect(),
    }
}

/// Passes the request's head through the filters.
pub(crate) fn request(x: &mut Exchange) {
    let Some(plan) = x.worker.filters(x.front, x.back) else { return };
    x.plan = Some(Rc::clone(&plan));
    if plan.compression.is_enabled() {
        compress::offer(x, &plan.compression);
    }
    for step in &plan.request {
        match step {
            Step::Offload => compress::offload(x),
            Step::Compress => compress::request(x, &plan.compression),
            Step::Trace(settings) => trace::head(x, settings, Direction::Request),
            Step::Limit(_) => {}
        }
    }
}

/// The filters of the request's body, for one try to send it.
pub(crate) fn request_body(x: &Exchange) -> Option<Box<Chain>> {
    let plan = x.plan.as_ref()?;
    if x.upload.length() == BodyLength::None {
        return None;
    }
    let mut filters = SmallVec::new();
    for step in &plan.request {
        match step {
            Step::Offload => {}
            Step::Compress => filters.extend(compress::request_body(x).map(Filter::Compress)),
            Step::Trace(settings) => {
                filters.push(Filter::Trace(trace::Body::new(x, settings, Direction::Request)));
            }
            Step::Limit(settings) => filters.push(Filter::Limit(limit::Body::new(x, settings))),
        }
    }
    Chain::of(filters)
}

/// Passes the response's head through the filters, which then wait for its body. `until_close`: the body ends with
/// the server's connection.
pub(crate) fn response(x: &mut Exchange, body: &mut BodyLength, until_close: bool) {
    let Some(plan) = x.plan.clone() else { return };
    let mut filters = SmallVec::new();
    for step in &plan.response {
        match step {
            Step::Offload => {}
            Step::Compress => {
                let compressed = compress::response(x, &plan.compression, body, until_close);
                filters.extend(compressed.map(Filter::Compress));
            }
            Step::Trace(settings) => {
                trace::head(x, settings, Direction::Response);
                filters.push(Filter::Trace(trace::Body::new(x, settings, Direction::Response)));
            }
            Step::Limit(settings) => filters.push(Filter::Limit(limit::Body::new(x, settings))),
        }
    }
    if *body == BodyLength::Tunnel {
        filters.retain(|filter| matches!(filter, Filter::Limit(_)));
    }
    if *body != BodyLength::None {
        x.filters = Chain::of(filters);
    }
    limit_upload(x);
}

/// Passes a whole answer that is made here through the filters, as if a server had sent it.
pub(crate) fn reply(x: &mut Exchange, reply: Reply) -> Reply {
    let Reply { response: head, mut body, logged_status } = reply;
    let mut length = BodyLength::Exact(body.len() as u64);
    x.txn.response = Some(head);
    request(x);
    response(x, &mut length, false);
    if let Some(filters) = x.filters.take() {
        let (made, limits) = filters.whole(Owner::of(x), &body);
        body = made.into();
        x.filters = limits;
    }
    Reply { response: x.txn.response.take().unwrap_or_default(), body, logged_status }
}

/// Rules on the response may limit what is left of the request's body.
fn limit_upload(x: &mut Exchange) {
    if x.txn.bandwidth_limits.is_empty() || x.upload.is_done() {
        return;
    }
    x.upload.filters = match x.upload.filters.take() {
        None if x.tunnel => tunnel(x, Direction::Request),
        None => request_body(x),
        Some(mut chain) => {
            chain.limits().for_each(|limit| limit.follow_rules(x));
            Some(chain)
        }
    };
}

/// Limits both ways of a connection in TCP mode.
pub(crate) fn limit_tunnel(x: &mut Exchange) {
    x.filters = tunnel(x, Direction::Response);
    limit_upload(x);
}

/// The limits of bytes without heads: of a connection in TCP mode, or after the protocol has changed.
pub(crate) fn tunnel(x: &Exchange, direction: Direction) -> Option<Box<Chain>> {
    if x.txn.bandwidth_limits.is_empty() {
        return None;
    }
    let plan = match &x.plan {
        Some(plan) => Rc::clone(plan),
        None => x.worker.filters(x.front, x.back)?,
    };
    let steps = match direction {
        Direction::Request => &plan.request,
        Direction::Response => &plan.response,
    };
    let limit = |step: &Step| match step {
        Step::Limit(settings) => Some(Filter::Limit(limit::Body::new(x, settings))),
        _ => None,
    };
    Chain::of(steps.iter().filter_map(limit).collect())
}

/// Whose traffic it is, for the counters.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) front: usize,
    pub(crate) back: usize,
}

impl<'a> Owner<'a> {
    pub(crate) fn of(x: &'a Exchange) -> Self {
        Self { worker: &x.worker, front: x.front, back: x.back }
    }
}

/// The filters of one body, and what they gave that the edge has not taken.
#[derive(Debug)]
pub(crate) struct Chain {
    filters: SmallVec<[Filter; 1]>,
    waiting: Vec<u8>,
    finished: bool,
}

/// What a chain can do now.
enum Ready {
    /// Take as many bytes.
    Room(usize),
    /// Pass on what it held back.
    Release,
}

impl Chain {
    /// Nothing where no filter has anything to do.
    fn of(filters: SmallVec<[Filter; 1]>) -> Option<Box<Self>> {
        let idle = |filter: &Filter| matches!(filter, Filter::Limit(limit) if !limit.is_on());
        let needed = !filters.iter().all(idle);
        needed.then(|| Box::new(Self { filters, waiting: Vec::new(), finished: false }))
    }

    fn limits(&mut self) -> impl DoubleEndedIterator<Item = &mut limit::Body> {
        self.filters.iter_mut().filter_map(|filter| match filter {
            Filter::Limit(limit) => Some(&mut **limit),
            _ => None,
        })
    }

    /// Ready when more of the body may come: at most so many bytes, or none when its last piece has passed. Until then
    /// what waits here goes to the edge.
    pub(crate) fn poll_room(
        &mut self,
        owner: Owner<'_>,
        to: &mut Edge,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<usize>, EdgeError>> {
        loop {
            ready!(to.poll_writable(cx))?;
            if self.send_waiting(to)? {
                continue;
            }
            if self.is_finished() {
                return Poll::Ready(Ok(None));
            }
            match self.poll_ready(cx) {
                Poll::Ready(Ready::Room(room)) => return Poll::Ready(Ok(Some(room))),
                Poll::Ready(Ready::Release) => self.release(owner, to)?,
                Poll::Pending => {
                    let _sent_later = to.poll_flush(cx)?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Ready when it can take or give something: limits make it wait.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Ready> {
        if let Some(holder) = self.limits().rfind(|limit| limit.holds()) {
            ready!(holder.poll_turn(cx));
            return Poll::Ready(Ready::Release);
        }
        let mut room = GATHER_BYTES;
        for filter in &mut self.filters {
            // What stands behind another filter cannot tell how much of its input may pass.
            let Filter::Limit(limit) = filter else { break };
            room = room.min(ready!(limit.poll_room(cx)));
        }
        Poll::Ready(Ready::Room(room))
    }

    /// A limit holds bytes back: nobody is late.
    pub(crate) fn is_held_back(&self) -> bool {
        self.filters.iter().any(|filter| matches!(filter, Filter::Limit(limit) if limit.waits()))
    }

    /// Passes a piece through all filters and hands the result to the edge.
    pub(crate) fn pass(
        &mut self,
        owner: Owner<'_>,
        piece: &[u8],
        ending: Ending,
        to: &mut Edge,
    ) -> Result<(), EdgeError> {
        self.finished = ending == Ending::Finish;
        self.give(owner, to, |filters, out| pass(filters, owner, piece, ending, out))
    }

    /// Passes on what the last limit that holds something lets go.
    fn release(&mut self, owner: Owner<'_>, to: &mut Edge) -> Result<(), EdgeError> {
        let holds = |filter: &Filter| matches!(filter, Filter::Limit(limit) if limit.holds());
        let Some(at) = self.filters.iter().rposition(holds) else { return Ok(()) };
        self.give(owner, to, |filters, out| {
            let (before, rest) = filters.split_at_mut(at + 1);
            if let Some(Filter::Limit(limit)) = before.last_mut() {
                limit.release(|part, ending| pass(rest, owner, part, ending, out));
            }
        })
    }

    /// Hands to the edge what `make` makes of the filters; what it does not take waits.
    fn give(
        &mut self,
        owner: Owner<'_>,
        to: &mut Edge,
        make: impl FnOnce(&mut [Filter], &mut Vec<u8>),
    ) -> Result<(), EdgeError> {
        let mut out = owner.worker.pieces.take();
        make(&mut self.filters, &mut out);
        let sent = if out.is_empty() { 0 } else { to.send_data(&out)? };
        self.waiting.extend_from_slice(&out[sent..]);
        owner.worker.pieces.give(out);
        Ok(())
    }

    /// Passes a whole body that is there already: what it becomes, and the limits that it has to keep to on its way.
    pub(crate) fn whole(self, owner: Owner<'_>, body: &[u8]) -> (Vec<u8>, Option<Box<Self>>) {
        let (limits, mut others): (SmallVec<_>, SmallVec<[Filter; 1]>) =
            self.filters.into_iter().partition(|filter| matches!(filter, Filter::Limit(_)));
        let mut out = Vec::new();
        pass(&mut others, owner, body, Ending::Finish, &mut out);
        (out, Self::of(limits))
    }

    /// Hands to the edge what waits; false where nothing does.
    fn send_waiting(&mut self, to: &mut Edge) -> Result<bool, EdgeError> {
        if self.waiting.is_empty() {
            return Ok(false);
        }
        let sent = to.send_data(&self.waiting)?;
        self.waiting.drain(..sent);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        Ok(true)
    }

    /// The last piece has passed.
    fn is_finished(&self) -> bool {
        self.finished && !self.filters.iter().any(|filter| matches!(filter, Filter::Limit(l) if l.holds()))
    }
}

/// Each filter's output is the next one's input; the last one's is appended to `out`.
fn pass(filters: &mut [Filter], owner: Owner<'_>, piece: &[u8], ending: Ending, out: &mut Vec<u8>) {
    let Some((first, rest)) = filters.split_first_mut() else {
        out.extend_from_slice(piece);
        return;
    };
    match first {
        Filter::Compress(body) if rest.is_empty() => body.encode(owner, piece, ending, out),
        Filter::Compress(body) => {
            let mut encoded = owner.worker.pieces.take();
            body.encode(owner, piece, ending, &mut encoded);
            pass(rest, owner, &encoded, ending, out);
            owner.worker.pieces.give(encoded);
        }
        Filter::Trace(body) => {
            body.forward(piece, ending, |part, ending| pass(rest, owner, part, ending, out));
        }
        Filter::Limit(body) => {
            body.forward(piece, ending, |part, ending| pass(rest, owner, part, ending, out));
        }
    }
}

/// Buffers of a thread for bodies on their way through filters: nobody keeps one while waiting.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    free: std::cell::RefCell<Vec<Vec<u8>>>,
}

impl Pieces {
    /// Kept for the next use: one that is gathered, one that is sent, and one between two filters.
    const MOST_KEPT: usize = 3;
    /// A larger one is freed: one odd body would keep its memory for ever.
    const LARGEST_KEPT: usize = 4 * GATHER_BYTES;

    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(GATHER_BYTES))
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, mut piece: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if free.len() < Self::MOST_KEPT && piece.capacity() <= Self::LARGEST_KEPT {
            piece.clear();
            free.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(front: &str, back: &str) -> Option<Rc<Plan>> {
        let text = format!(
            "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n\
             frontend f\n bind 127.0.0.1:1\n default_backend b\n{front}\
             backend b\n server s 127.0.0.1:2\n{back}"
        );
        let config = weir_config::load_str("test", &text).unwrap_or_else(|e| panic!("{e:?}")).config;
        Plan::between(&config.proxies[0], &config.proxies[1])
    }

    fn names(steps: &[Step]) -> Vec<&str> {
        steps
            .iter()
            .map(|step| match step {
                Step::Compress => "compress",
                Step::Offload => "offload",
                Step::Trace(settings) => settings.label(),
                Step::Limit(settings) => settings.name(),
            })
            .collect()
    }

    #[test]
    fn filters_stand_in_the_order_configured() {
        let check = |front: &str, back: &str, request: &[&str], response: &[&str]| {
            let plan = plan(front, back).unwrap_or_default();
            let found = (names(&plan.request), names(&plan.response));
            assert_eq!(found, (request.to_vec(), response.to_vec()), "{front}{back}");
        };
        let gzip = " compression algo gzip\n";
        check("", "", &[], &[]);
        check(" filter compression\n", "", &[], &[]);
        check(gzip, "", &[], &["compress"]);
        let offload = format!("{gzip} compression offload\n");
        check(&offload, "", &["offload"], &["compress"]);
        check(
            &format!("{offload} filter trace name a\n filter comp-res\n"),
            "",
            &["a/f", "offload"],
            &["a/f", "compress"],
        );
        check("", gzip, &[], &["compress"]);
        check(gzip, gzip, &[], &["compress"]);
        let around = " filter trace name a\n filter compression\n filter trace name z\n";
        check(&format!("{gzip}{around}"), "", &["a/f", "z/f"], &["a/f", "compress", "z/f"]);
        check(gzip, " filter trace name b\n", &["b/b"], &["compress", "b/b"]);
        check(" filter trace\n", gzip, &["TRACE/f"], &["TRACE/f", "compress"]);
        let both = format!("{gzip} compression algo-req gzip\n compression direction both\n");
        check(&both, "", &["compress"], &["compress"]);
        check(&format!("{both}{around}"), "", &["a/f", "compress", "z/f"], &["a/f", "compress", "z/f"]);
        let apart = format!("{gzip} compression algo-req gzip\n filter comp-req\n filter trace\n");
        check(&apart, "", &["compress", "TRACE/f"], &["TRACE/f"]);
        check(&format!("{apart} filter comp-res\n"), "", &["compress", "TRACE/f"], &["TRACE/f", "compress"]);
        let limits = " filter bwlim-in i default-limit 1 default-period 1\n filter compression\n \
                      filter bwlim-out o default-limit 1 default-period 1\n";
        check(&format!("{gzip}{limits}"), "", &["i"], &["compress", "o"]);
        let turned = format!("{gzip}{around} filter-sequence response compression,trace\n");
        check(&turned, "", &["a/f", "z/f"], &["compress", "a/f", "z/f"]);
        check(
            &format!("{gzip}{around} filter-sequence response trace\n"),
            "",
            &["a/f", "z/f"],
            &["a/f", "z/f"],
        );
    }

    #[test]
    fn a_chain_is_small() {
        assert!(size_of::<Chain>() <= 64, "{}", size_of::<Chain>());
    }

    #[test]
    fn pieces_are_used_again() {
        let pieces = Pieces::default();
        let mut piece = pieces.take();
        piece.push(1);
        pieces.give(piece);
        assert!(pieces.take().is_empty());
        pieces.give(Vec::with_capacity(Pieces::LARGEST_KEPT + 1));
        assert_eq!(pieces.free.borrow().len(), 0);
    }

    proptest::proptest! {
        #[test]
        fn a_piece_that_another_body_had_is_empty(
            before in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100),
            more in 0..3 * GATHER_BYTES,
        ) {
            let pieces = Pieces::default();
            let mut piece = pieces.take();
            piece.extend_from_slice(&before);
            piece.resize(piece.len() + more, 1);
            pieces.give(piece);
            proptest::prop_assert!(pieces.take().is_empty());
        }
    }
}
