//! Compression of response bodies as a filter between server and client.

use std::rc::Rc;

use weir_compress::{Algorithm, BodyEncoder, BodyFraming, Direction, EtagEdit, HeadEdits, Level};
use weir_compress::{RequestFacts, RequestOffer, ResponseFacts, Rules, Settings};
use weir_config::model;
use weir_http::{FieldName, Method, Response, Version};

use crate::counters::Counter;
use crate::edge::{BodyLength, Edge, EdgeError};
use crate::exchange::Exchange;
use crate::worker::Worker;

/// What the request allows.
pub(crate) type Offer = RequestOffer;

/// Compressed bytes that wait for the client above which no more input is taken.
const OUTPUT_HIGH_WATER_BYTES: usize = 64 * 1024;

/// Input gathered before it is encoded, when it arrives fast enough: larger pieces compress better.
const GATHER_BYTES: usize = 64 * 1024;

/// A body on its way through the encoder.
pub(crate) struct Filter {
    encoder: BodyEncoder,
    input: Vec<u8>,
    output: Vec<u8>,
    taken: usize,
    finished: bool,
    bytes_in: u64,
    bytes_out: u64,
}

impl Filter {
    fn new(encoder: BodyEncoder) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self { encoder, input, output, taken: 0, finished: false, bytes_in: 0, bytes_out: 0 }
    }

    /// Takes `data`, all of it unless enough output waits.
    pub(crate) fn push(&mut self, worker: &Worker, data: &[u8]) -> usize {
        if self.output.len() - self.taken >= OUTPUT_HIGH_WATER_BYTES {
            return 0;
        }
        let take = data.len().min(GATHER_BYTES - self.input.len());
        self.input.extend_from_slice(&data[..take]);
        self.bytes_in += take as u64;
        if self.input.len() == GATHER_BYTES {
            self.encoder.push(&self.input, &mut self.output, &mut worker.compression_scratch.borrow_mut());
            self.input.clear();
        }
        take
    }

    /// The source pauses: what it gave must reach the client; true when there is output now.
    pub(crate) fn flush(&mut self, worker: &Worker) -> bool {
        if self.input.is_empty() {
            return false;
        }
        let scratch = &mut worker.compression_scratch.borrow_mut();
        self.encoder.push(&self.input, &mut self.output, scratch);
        self.encoder.flush(&mut self.output, scratch);
        self.input = Vec::new();
        self.has_output()
    }

    /// The body ended; true the first time, when the last output is there to be drained.
    pub(crate) fn finish(&mut self, worker: &Worker) -> bool {
        if std::mem::replace(&mut self.finished, true) {
            return false;
        }
        let scratch = &mut worker.compression_scratch.borrow_mut();
        self.encoder.push_and_finish(&self.input, &mut self.output, scratch);
        self.input = Vec::new();
        self.has_output()
    }

    /// Compressed bytes wait.
    pub(crate) fn has_output(&self) -> bool {
        self.taken < self.output.len()
    }

    /// Hands compressed bytes to the client; returns how many it took.
    pub(crate) fn drain(&mut self, client: &mut Edge) -> Result<usize, EdgeError> {
        let sent = client.send_data(&self.output[self.taken..])?;
        self.taken += sent;
        self.bytes_out += sent as u64;
        if self.taken == self.output.len() {
            self.output.clear();
            self.taken = 0;
        }
        Ok(sent)
    }

    /// Encodes a whole body that is there already.
    pub(crate) fn encode(mut self, worker: &Worker, body: &[u8]) -> Vec<u8> {
        let scratch = &mut worker.compression_scratch.borrow_mut();
        self.encoder.push_and_finish(body, &mut self.output, scratch);
        self.output
    }

    /// Adds to the statistics.
    pub(crate) fn count(&self, x: &Exchange) {
        for add in [Exchange::count_front, Exchange::count_back] {
            add(x, Counter::CompressedIn, self.bytes_in);
            add(x, Counter::CompressedOut, self.bytes_out);
        }
    }
}

/// What applies between a frontend and a backend; `None` where nothing is ever compressed.
pub(crate) fn settings(front: &model::Proxy, back: &model::Proxy) -> Option<Rc<Settings>> {
    if front.compression.is_none() && back.compression.is_none() {
        return None;
    }
    let of = |proxy: &model::Proxy| proxy.compression.as_ref().map(from_config).unwrap_or_default();
    let merged = Settings::merged(&of(back), &of(front));
    merged.is_enabled().then(|| Rc::new(merged))
}

fn from_config(config: &model::Compression) -> Settings {
    let text = |types: &[Vec<u8>]| types.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect();
    let algorithms = |names: &mut dyn Iterator<Item = &String>| -> Vec<Algorithm> {
        names.filter_map(|name| name.parse().ok()).collect()
    };
    let direction = match (config.direction_request, config.direction_response) {
        (true, true) => Direction::Both,
        (true, false) => Direction::Request,
        _ => Direction::Response,
    };
    Settings {
        request: Rules {
            algorithms: algorithms(&mut config.algo_req.iter()),
            types: text(&config.types_req),
            min_size: config.minsize_req as u64,
        },
        response: Rules {
            algorithms: algorithms(&mut config.algo_res.iter()),
            types: text(&config.types_res),
            min_size: config.minsize_res as u64,
        },
        direction,
        offload: config.offload,
    }
}

/// Notes what the request accepts, and hides it from the server when compression is offloaded.
pub(crate) fn request(x: &mut Exchange) {
    let Some(settings) = x.worker.compression(x.front, x.back) else { return };
    let facts = RequestFacts {
        is_head: x.txn.request.method == Method::Head,
        at_least_http_11: x.txn.request.version >= Version::Http11,
    };
    let fields = &x.txn.request.fields;
    let offer = settings.offer(facts, |name| fields.get_all(name.as_bytes()));
    if offer.remove_accept_encoding {
        x.txn.request.fields.remove(FieldName::AcceptEncoding);
    }
    x.compression = Some(offer);
}

/// Decides about a response's body and changes its head accordingly.
pub(crate) fn response(x: &mut Exchange, body: &mut BodyLength, until_close: bool) {
    let Some(offer) = x.compression else { return };
    let Some(settings) = x.worker.compression(x.front, x.back) else { return };
    let Some(response) = &mut x.txn.response else { return };
    let framing = match *body {
        BodyLength::Exact(n) => BodyFraming::Length(n),
        BodyLength::Unknown if until_close => BodyFraming::UntilClose,
        BodyLength::Unknown => BodyFraming::Streamed,
        BodyLength::None | BodyLength::Tunnel => return,
    };
    let facts = ResponseFacts {
        status: response.status,
        at_least_http_11: response.version >= Version::Http11,
        framing,
        has_room: x.worker.compression_scratch.borrow().has_room(),
    };
    let fields = &response.fields;
    let decision = settings.decide(offer, facts, |name| fields.get_all(name.as_bytes()));
    let Ok(edits) = decision else { return };
    let Some(level) = x.worker.compression_level() else { return };
    apply(response, &edits);
    x.txn.compression = edits.content_encoding;
    *body = BodyLength::Unknown;
    let scratch = x.worker.compression_scratch.borrow();
    let encoder = BodyEncoder::new(edits.algorithm, level, edits.content, &scratch);
    drop(scratch);
    x.filter = Some(Box::new(Filter::new(encoder)));
    x.count_front(Counter::CompressedResponses, 1);
    x.count_back(Counter::CompressedResponses, 1);
}

fn apply(response: &mut Response, edits: &HeadEdits) {
    let fields = &mut response.fields;
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

/// The level at which a stream starts under the process's limits.
pub(crate) fn level(limits: weir_compress::Limits, load: weir_compress::Load) -> Option<Level> {
    weir_compress::Throttle::new(limits).at_start(load)
}
