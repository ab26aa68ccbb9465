//! One request and its answer: what rules may look at and change.
//!
//! The data plane fills in the facts and acts on what the rules changed.

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use weir_http::{Request, Response};

use crate::facts::vars::{Effects, Vars};
use crate::facts::{Environment, LogOrigin, ProxyName, Session, Timers, TlsFacts, Tracked};

/// Name and value of a field.
pub type NameValue = (Box<[u8]>, Box<[u8]>);

/// What `set-bandwidth-limit` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BandwidthLimit {
    /// The proxy whose filter it is.
    pub proxy: Arc<str>,
    /// The filter's name.
    pub filter: Arc<str>,
    /// Bytes in a period, where it is not the filter's own limit.
    pub limit_bytes: Option<u64>,
    /// The period, where it is not the filter's own.
    pub period_ms: Option<u64>,
}

/// One request and its answer, from the first byte to the log line.
pub struct Txn {
    /// The connection it came on.
    pub session: Rc<Session>,
    /// The request's head; in TCP mode empty.
    pub request: Request,
    /// Body bytes received so far and kept for inspection (`option http-buffer-request`, wait-for-body);
    /// in TCP mode the bytes in the request buffer.
    pub request_body: Vec<u8>,
    /// All of the body is in `request_body`.
    pub request_body_complete: bool,
    /// Body length announced by the client, when it was.
    pub request_body_len: Option<u64>,
    /// The response's head, once there is one.
    pub response: Option<Response>,
    /// Body bytes of the response kept for inspection; in TCP mode the bytes in the response buffer.
    pub response_body: Vec<u8>,
    /// All of the response body is in `response_body`.
    pub response_body_complete: bool,
    /// `txn.` variables.
    pub vars: Vars,
    /// `req.` variables (also during the request phases only).
    pub req_vars: Vars,
    /// `res.` variables.
    pub res_vars: Vars,
    /// The backend chosen, once one is.
    pub backend: Option<ProxyName>,
    /// Name of the server chosen, `<NOSRV>` in logs without; `<STATS>`-like names for services.
    pub server: Option<Arc<str>>,
    /// Number of the server in its backend (`srv_id`).
    pub server_id: u32,
    /// Address of the server connected to, and our own address on that connection.
    pub server_addr: Option<SocketAddr>,
    /// Our address on the server's connection.
    pub server_local: Option<SocketAddr>,
    /// TLS facts of the server's connection.
    pub server_tls: Option<Rc<dyn TlsFacts>>,
    /// Major HTTP version on the server's side; 0 before.
    pub server_http_major: u8,
    /// The connection to the server was reused.
    pub server_reused: bool,
    /// Stage times.
    pub timers: Timers,
    /// Status sent to the client; 0 before.
    pub status: u16,
    /// Status received from the server; 0 before.
    pub server_status: u16,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Termination state as logged by `%tsc`: cause, stage, cookie's two characters.
    pub termination: [u8; 4],
    /// Connection attempts after the first.
    pub retries: u32,
    /// A redispatch took place (`+` in the log).
    pub redispatched: bool,
    /// Places in the server's and the backend's queue when the request entered them.
    pub server_queue: u32,
    /// Place in the backend's queue.
    pub backend_queue: u32,
    /// Captured request header values, by slot (`capture request header`, `http-request capture`).
    pub request_captures: Vec<Option<Box<[u8]>>>,
    /// Captured response header values, by slot.
    pub response_captures: Vec<Option<Box<[u8]>>>,
    /// Captured cookies, request then response (`capture cookie`).
    pub cookie_captures: [Option<Box<[u8]>>; 2],
    unique_id: UniqueId,
    /// Entries tracked for this request by slot (`http-request track-sc`); falls back to the session's.
    pub tracked: Vec<Option<Tracked>>,
    /// Timeouts set by `http-request set-timeout`, milliseconds: server, tunnel, client.
    pub set_timeouts: [Option<u32>; 3],
    /// Log level: `None` = as configured, `Some(8)` = silent.
    pub log_level: Option<u8>,
    /// Source address override for this request (`http-request set-src`).
    pub src: Option<SocketAddr>,
    /// Destination override (`http-request set-dst`).
    pub dst: Option<SocketAddr>,
    /// Number of this request since the process started (`%rt`).
    pub request_counter: u32,
    /// File and line of the last rule that was final (`last_rule_file`, `last_rule_line`).
    pub last_rule: Option<crate::Pos>,
    /// Compression algorithm applied to the response, for `res.comp_algo`.
    pub compression: Option<&'static str>,
    /// Method and URI as received, kept when a rule first changes one of them (logs show these).
    pub received: Option<Box<(Vec<u8>, Vec<u8>)>>,
    /// The log line is written before the end (`option logasap`): totals get a `+`.
    pub log_asap: bool,
    /// Why the line that is being made is made (`%OG`).
    pub log_origin: Cell<LogOrigin>,
    /// More bytes may come while content rules run (`tcp-request inspect-delay`): a test without a value waits.
    /// Set by the data plane in the content phases, cleared when the delay is over or the buffer is full.
    pub inspecting: bool,
    /// The bytes that content rules see in TCP mode begin no HTTP request, whatever may follow them.
    pub not_http: bool,
    /// Rewrites that fail end in an error instead of being left out (`strict-mode`).
    pub strict_rewriting: bool,
    /// A rewrite failed in strict mode: the answer is 500 (502 for responses).
    pub rewrite_failed: bool,
    /// Largest head in bytes that rewriting may produce (`tune.bufsize` less `tune.maxrewrite`); 0 is no limit.
    pub max_head: usize,
    /// `disable-l7-retry`.
    pub no_l7_retry: bool,
    /// `set-retries`.
    pub set_retries: Option<u32>,
    /// More timeouts set by `set-timeout`, milliseconds: connect, queue, tarpit.
    pub set_other_timeouts: [Option<u32>; 3],
    /// `set-priority-class`.
    pub priority_class: i32,
    /// `set-priority-offset`, milliseconds.
    pub priority_offset: i32,
    /// Raw socket of the server's connection while there is one, for `bc_rtt` and friends.
    pub server_socket: Option<i32>,
    /// `set-bc-mark`: to be set on the server's socket before it connects.
    pub server_mark: Option<u32>,
    /// `set-bc-tos`.
    pub server_tos: Option<u8>,
    /// Fields of 103 responses to send before going on (`early-hint`), in order.
    pub early_hints: Vec<NameValue>,
    /// Filters that limit this stream's bandwidth (`set-bandwidth-limit`), each once.
    pub bandwidth_limits: Vec<BandwidthLimit>,
    /// Cache to look in (`cache-use`).
    pub cache_use: Option<Box<CacheUse>>,
    /// Cache to store in (`cache-store`).
    pub cache_store: Option<Box<CacheStore>>,
    /// The response came out of this cache.
    pub cache_hit: Option<Arc<str>>,
    /// Errors of the client's connection: (number, name, text) for `fc_err*`.
    pub client_error: (u8, &'static str, &'static str),
    /// Errors of the server's connection for `bc_err*`.
    pub server_error: (u8, &'static str, &'static str),
    /// Buffer that rules render into; empty between them.
    pub(crate) scratch: Vec<u8>,
    /// What expressions changed while they borrowed the transaction.
    pub effects: Effects,
    /// The process around the transaction.
    pub env: Rc<dyn Environment>,
}

impl Txn {
    /// A transaction that has seen nothing yet.
    // In place where it is needed: it is large.
    #[inline(always)]
    #[must_use]
    pub fn new(session: Rc<Session>, env: Rc<dyn Environment>) -> Self {
        Self {
            session,
            env,
            request: Request::default(),
            request_body: Vec::new(),
            request_body_complete: false,
            request_body_len: None,
            response: None,
            response_body: Vec::new(),
            response_body_complete: false,
            vars: Vars::default(),
            req_vars: Vars::default(),
            res_vars: Vars::default(),
            backend: None,
            server: None,
            server_id: 0,
            server_addr: None,
            server_local: None,
            server_tls: None,
            server_http_major: 0,
            server_reused: false,
            timers: Timers::default(),
            status: 0,
            server_status: 0,
            bytes_in: 0,
            bytes_out: 0,
            termination: *b"----",
            retries: 0,
            redispatched: false,
            server_queue: 0,
            backend_queue: 0,
            request_captures: Vec::new(),
            response_captures: Vec::new(),
            cookie_captures: [None, None],
            unique_id: UniqueId::default(),
            tracked: Vec::new(),
            set_timeouts: [None; 3],
            log_level: None,
            src: None,
            dst: None,
            request_counter: 0,
            last_rule: None,
            server_socket: None,
            compression: None,
            received: None,
            log_asap: false,
            log_origin: Cell::default(),
            inspecting: false,
            not_http: false,
            strict_rewriting: true,
            rewrite_failed: false,
            max_head: 0,
            no_l7_retry: false,
            set_retries: None,
            set_other_timeouts: [None; 3],
            priority_class: 0,
            priority_offset: 0,
            server_mark: None,
            server_tos: None,
            early_hints: Vec::new(),
            bandwidth_limits: Vec::new(),
            cache_use: None,
            cache_store: None,
            cache_hit: None,
            client_error: (0, "NONE", "Success"),
            server_error: (0, "NONE", "Success"),
            scratch: Vec::new(),
            effects: Effects::default(),
        }
    }

    /// The client's address as rules see it: set-src first, then the connection's.
    #[must_use]
    pub fn src(&self) -> Option<SocketAddr> {
        self.src.or_else(|| self.session.overridden().src).or_else(|| self.session.src.get())
    }

    /// The unique id (`unique-id-format`): made when it is first asked for, the same from then on.
    #[must_use]
    pub fn unique_id(&self) -> Option<&[u8]> {
        let id = &self.unique_id;
        if id.made.get().is_none() {
            // A format that asks for the id that it makes gets nothing.
            if id.being_made.replace(true) {
                return None;
            }
            // Nobody else makes one meanwhile.
            let _first = id.made.set(self.env.unique_id(self));
            id.being_made.set(false);
        }
        id.made.get()?.as_deref()
    }

    /// The method as received.
    #[must_use]
    pub fn original_method(&self) -> &[u8] {
        self.received.as_ref().map_or_else(|| self.request.method_bytes(), |r| &r.0)
    }

    /// The URI as received.
    #[must_use]
    pub fn original_uri(&self) -> &[u8] {
        self.received.as_ref().map_or_else(|| self.request.uri_bytes(), |r| &r.1)
    }

    /// Keeps method and URI before the first change of one of them.
    pub fn keep_received(&mut self) {
        if self.received.is_none() {
            let received = (self.request.method_bytes().to_vec(), self.request.uri_bytes().to_vec());
            self.received = Some(Box::new(received));
        }
    }

    /// Lets rules add at most `room` bytes of fields to the request, and to the response when there is one:
    /// what the buffer has left beside head and body (`tune.maxrewrite` when it is full).
    pub fn limit_rewriting(&mut self, room: usize) {
        let fields = self.response.as_ref().map_or(&self.request.fields, |r| &r.fields);
        self.max_head = fields.wire_len() + room;
    }

    /// The address the client asked for: set-dst first, then the connection's.
    #[must_use]
    pub fn dst(&self) -> Option<SocketAddr> {
        self.dst.or_else(|| self.session.overridden().dst).or_else(|| self.session.dst.get())
    }
}

/// The unique id of a transaction, once something asked for it.
#[derive(Debug, Default)]
struct UniqueId {
    made: OnceCell<Option<Box<[u8]>>>,
    being_made: Cell<bool>,
}

/// What `cache-use` wants: computed when the rule runs, whatever later rules change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheUse {
    /// Name of the cache.
    pub cache: Arc<str>,
    /// Scheme, host and path of the request.
    pub key: Box<[u8]>,
}

/// What `cache-store` wants.
#[derive(Clone, Debug)]
pub struct CacheStore {
    /// Name of the cache.
    pub cache: Arc<str>,
    /// The response's head as it was when the rule ran.
    pub head: Response,
}
