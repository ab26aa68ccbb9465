//! The compression filter: decides at the heads, encodes the bodies, counts.
//!
//! What is compressed, and how, is weir-compress's; this file asks it with the exchange's facts and does what it says.

use std::sync::atomic::Ordering::Relaxed;

use weir_compress::{Algorithm, BodyEncoder, BodyFraming, Content, Direction, Ending, EtagEdit, HeadEdits};
use weir_compress::{Limits, Refusal, RequestFacts, RequestOffer, ResponseFacts, Rules, Settings};
use weir_config::model;
use weir_http::{FieldName, Fields, Method, Version};

use super::Owner;
use crate::edge::BodyLength;
use crate::exchange::Exchange;
use crate::state::Shared;
use crate::state::counters::Counter;
use crate::thread::worker::Worker;

/// What the request allows for its response, and what its own body becomes.
#[derive(Debug)]
pub(crate) struct Offer {
    response: RequestOffer,
    /// How the request's own body is compressed.
    request: Option<(Algorithm, Content)>,
    /// The response would have been compressed, but for the limits.
    bypassed: bool,
}

/// A body that is being compressed.
#[derive(Debug)]
pub(super) struct Body(BodyEncoder);

impl Body {
    pub(super) fn encode(&mut self, owner: Owner<'_>, piece: &[u8], ending: Ending, out: &mut Vec<u8>) {
        let Owner { worker, front, back } = owner;
        let before = out.len();
        self.0.set_level(worker.throttle.borrow().during());
        let mut scratch = worker.compression_scratch.borrow_mut();
        self.0.encode(piece, ending, out, &mut scratch);
        let (taken, given) = (piece.len() as u64, (out.len() - before) as u64);
        worker.shared.load.compressed(taken, given);
        worker.shared.load.reused(worker.thread, scratch.take_reused());
        for (counter, by) in [(Counter::CompressedIn, taken), (Counter::CompressedOut, given)] {
            worker.count_front(front, counter, by);
            worker.count_back(back, counter, by);
        }
    }
}

/// The limits in force; the rate can be changed at run time.
pub(crate) fn limits(shared: &Shared) -> Limits {
    let global = &shared.config.global;
    let kb_per_second = shared.limits.compression_kb_per_second.load(Relaxed);
    Limits {
        rate_bytes_per_second: kb_per_second.or_zero() as u64 * 1024,
        cpu_percent: global.maxcompcpuusage_percent,
        max_level: global.tune.comp_maxlevel,
    }
}

/// What applies between a frontend and a backend.
pub(super) fn settings(front: &model::Proxy, back: &model::Proxy) -> Settings {
    let of =
        |proxy: &model::Proxy| proxy.compression.as_ref().map(|c| from_config(c, proxy)).unwrap_or_default();
    Settings::merged(&of(back), &of(front))
}

fn from_config(config: &model::Compression, proxy: &model::Proxy) -> Settings {
    let text = |types: &[Vec<u8>]| types.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect();
    let has = |filter| proxy.filters.contains(&filter);
    // Manual, section 9.2: a filter of one direction says it itself.
    let direction = match (has(model::Filter::CompressRequests), has(model::Filter::CompressResponses)) {
        (true, true) => Direction::Both,
        (true, false) => Direction::Request,
        (false, true) => Direction::Response,
        (false, false) => match (config.direction_request, config.direction_response) {
            (true, true) => Direction::Both,
            (true, false) => Direction::Request,
            _ => Direction::Response,
        },
    };
    Settings {
        request: Rules {
            algorithms: config.algo_req.into_iter().collect(),
            types: text(&config.types_req),
            min_size: config.minsize_req as u64,
        },
        response: Rules {
            algorithms: config.algo_res.clone(),
            types: text(&config.types_res),
            min_size: config.minsize_res as u64,
        },
        direction,
        offload: config.offload,
    }
}

/// Notes what the request accepts.
pub(super) fn offer(x: &mut Exchange, settings: &Settings) {
    let facts = RequestFacts {
        is_head: x.txn.request.method == Method::Head,
        at_least_http_11: x.txn.request.version >= Version::Http11,
    };
    let fields = &x.txn.request.fields;
    let response = settings.offer(facts, |name| fields.get_all(name.as_bytes()));
    x.compression = Some(Offer { response, request: None, bypassed: false });
}

/// Hides from the server what the client accepts, where it would be compressed here.
pub(super) fn offload(x: &mut Exchange) {
    if x.compression.as_ref().is_some_and(|offer| offer.response.remove_accept_encoding) {
        x.txn.request.fields.remove(FieldName::AcceptEncoding);
    }
}

/// Decides about the request's own body and changes its head accordingly.
pub(super) fn request(x: &mut Exchange, settings: &Settings) {
    let Some(offer) = &mut x.compression else { return };
    if !x.txn.request.protocol.is_empty() || x.txn.request.method == Method::Connect {
        return;
    }
    let framing = match x.upload.length() {
        BodyLength::Exact(n) => BodyFraming::Length(n),
        BodyLength::Unknown => BodyFraming::Streamed,
        BodyLength::None | BodyLength::Tunnel => return,
    };
    let request = &mut x.txn.request;
    let fields = &request.fields;
    let decision = settings
        .decide_request(request.version >= Version::Http11, framing, |name| fields.get_all(name.as_bytes()));
    let Ok(edits) = decision else { return };
    let Ok(edits) = under_throttle(&x.worker, edits, None) else { return };
    apply(&mut request.fields, &edits);
    x.upload.changes_length();
    offer.request = Some((edits.algorithm, edits.content));
}

/// The encoder of the request's body, when it is to be compressed.
pub(super) fn request_body(x: &Exchange) -> Option<Body> {
    let (algorithm, content) = x.compression.as_ref()?.request?;
    Some(Body(encoder(&x.worker, algorithm, content)))
}

fn encoder(worker: &Worker, algorithm: Algorithm, content: Content) -> BodyEncoder {
    let level = worker.throttle.borrow().during();
    BodyEncoder::new(algorithm, level, content, &worker.compression_scratch.borrow())
}

/// What the limits leave of a decision.
fn under_throttle(
    worker: &Worker,
    edits: HeadEdits,
    fallback: Option<Algorithm>,
) -> Result<HeadEdits, Refusal> {
    let step = worker.compression_step();
    let has_room = worker.compression_scratch.borrow().has_room();
    edits.under(step, has_room, fallback)
}

/// Decides about a response's body and changes its head accordingly.
pub(super) fn response(
    x: &mut Exchange,
    settings: &Settings,
    body: &mut BodyLength,
    until_close: bool,
) -> Option<Body> {
    let offer = x.compression.as_mut()?;
    let response = x.txn.response.as_mut()?;
    let framing = match *body {
        BodyLength::Exact(n) => BodyFraming::Length(n),
        BodyLength::Unknown if until_close => BodyFraming::UntilClose,
        BodyLength::Unknown => BodyFraming::Streamed,
        BodyLength::None | BodyLength::Tunnel => return None,
    };
    let facts = ResponseFacts {
        status: response.status,
        at_least_http_11: response.version >= Version::Http11,
        framing,
    };
    let fields = &response.fields;
    let decision = settings.decide(offer.response, facts, |name| fields.get_all(name.as_bytes()));
    let edits = decision.and_then(|edits| under_throttle(&x.worker, edits, offer.response.fallback));
    let may_be_kept = x.worker.compression_scratch.borrow().has_reuse_memory()
        && weir_compress::may_be_kept(
            |name| x.txn.request.fields.get_all(name.as_bytes()),
            |name| fields.get_all(name.as_bytes()),
        );
    let edits = match edits {
        Ok(edits) => edits,
        Err(refusal) => {
            offer.bypassed = matches!(refusal, Refusal::Throttled | Refusal::NoRoom);
            return None;
        }
    };
    apply(&mut response.fields, &edits);
    x.txn.compression = edits.content_encoding;
    *body = BodyLength::Unknown;
    x.count_front(Counter::CompressedResponses, 1);
    x.count_back(Counter::CompressedResponses, 1);
    let encoder = encoder(&x.worker, edits.algorithm, edits.content);
    let scratch = x.worker.compression_scratch.borrow();
    Some(Body(if may_be_kept { encoder.with_reuse(&scratch) } else { encoder }))
}

/// Counts the bytes of a response that the limits kept from being compressed.
pub(crate) fn count_bypassed(x: &Exchange, bytes: u64) {
    if x.compression.as_ref().is_some_and(|offer| offer.bypassed) {
        x.count_front(Counter::CompressionBypassed, bytes);
        x.count_back(Counter::CompressionBypassed, bytes);
    }
}

fn apply(fields: &mut Fields, edits: &HeadEdits) {
    fields.remove(FieldName::ContentLength);
    if let Some(coding) = edits.content_encoding {
        fields.push(b"content-encoding", coding.as_bytes());
    }
    if edits.etag == EtagEdit::Weaken
        && let Some(at) = fields.list().iter().position(|f| f.id == FieldName::Etag)
    {
        let weak = [&b"W/"[..], fields.value(at)].concat();
        fields.set_value(at, &weak);
    }
    if edits.add_vary {
        // Into the last Vary line where there is one: clients and caches often look at one line only.
        let last = fields.list().iter().rposition(|f| f.id == FieldName::Vary);
        match last.map(|at| (at, fields.value(at).trim_ascii())) {
            Some((at, names)) if !names.is_empty() => {
                let names = [names, b",Accept-Encoding"].concat();
                fields.set_value(at, &names);
            }
            Some((at, _)) => fields.set_value(at, b"Accept-Encoding"),
            None => fields.push(b"vary", b"Accept-Encoding"),
        }
    }
}
