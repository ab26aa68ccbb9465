//! What a rule may look at and change: the transaction.
//!
//! Owns the facts of one request and of the connection it came on; the data plane fills them in and
//! acts on what the rules changed.  Leaves the process (other proxies, counters, tables) to [`Environment`].

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::{Request, Response};

use crate::Phase;
use crate::expr::Value;
use crate::vars::{Effects, VarAccount, Vars};

/// Facts of the TLS layer of a connection, read by the `ssl_fc_*`, `ssl_c_*`, `ssl_bc_*` fetches.
pub trait TlsFacts {
    /// `TLSv1.3`, `TLSv1.2`.
    fn version(&self) -> &'static str;
    /// Cipher suite under OpenSSL's name.
    fn cipher(&self) -> &str;
    /// Server name the client asked for.
    fn sni(&self) -> Option<&str>;
    /// Negotiated application protocol.
    fn alpn(&self) -> Option<&[u8]>;
    /// Resumed from a session or ticket.
    fn resumed(&self) -> bool;
    /// Certificate of the peer in DER.
    fn peer_certificate(&self) -> Option<&[u8]>;
    /// What the peer presented behind its certificate, each in DER.
    fn peer_intermediates(&self) -> &[Box<[u8]>];
    /// Certificate we presented in DER.
    fn own_certificate(&self) -> Option<&[u8]>;
    /// Name of the key exchange group.
    fn group(&self) -> Option<&str>;
    /// Verification error of the client's certificate (0 = none), as `ssl_c_verify`.
    fn verify_error(&self) -> u32;
    /// What was objected to in the peer's certificates, let pass or not.
    fn objections(&self) -> TlsObjections;
    /// What the TLS layer found wrong, if anything: the handshake failed then.
    fn failure(&self) -> Option<TlsFailure>;
    /// Early data came, and the client has not completed the handshake yet (`ssl_fc_has_early`).
    fn has_early(&self) -> bool;
    /// Early data came, however long ago (`ssl_fc_early_rcvd`).
    fn received_early(&self) -> bool;
    /// Ready at the end of a handshake that early data came with: false when it failed.
    fn poll_complete(&self, cx: &mut Context<'_>) -> Poll<bool>;
    /// Name of the certificate we presented, as `show ssl cert` has it.
    fn own_certificate_name(&self) -> Option<&str>;
    /// A part of the hello messages, where it was kept.
    fn hello(&self, part: HelloPart) -> Option<Cow<'_, [u8]>>;
    /// A secret by its label in key logs (`CLIENT_TRAFFIC_SECRET_0`), where it was kept.
    fn secret(&self, label: &str) -> Option<&[u8]>;
}

/// Parts of the hello messages.  All but the random bytes and the session's identifier are the client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of the messages, RFC 8446 sections 4.1 and 4.2")]
pub enum HelloPart {
    ClientRandom,
    ServerRandom,
    SessionId,
    Version,
    /// As much of the list as `tune.ssl.capture-buffer-size` keeps, like those below.
    Ciphers,
    /// The whole list.
    AllCiphers,
    Extensions,
    Groups,
    PointFormats,
    SupportedVersions,
    SignatureAlgorithms,
}

/// First objections to the peer's certificates, as OpenSSL numbers them; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlsObjections {
    /// About its own (`ssl_c_err`).
    pub certificate: u32,
    /// About those above it (`ssl_c_ca_err`).
    pub authorities: u32,
    /// Where that one stands, 1 for the issuer of its own (`ssl_c_ca_err_depth`).
    pub depth: u32,
}

/// Why a handshake failed, as OpenSSL has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsFailure {
    /// The packed error (`ssl_fc_err`).
    pub number: u32,
    /// Its reason, as in `error:0A000086:SSL routines::certificate verify failed` (`ssl_fc_err_str`).
    pub reason: &'static str,
}

/// The client's connection: shared by all requests that come on it.
pub struct Session {
    /// Address of the client (the PROXY protocol's when one was received); `None` on unix sockets.
    pub src: Cell<Option<SocketAddr>>,
    /// Address the client connected to.
    pub dst: Cell<Option<SocketAddr>>,
    /// Addresses set by `tcp-request session` rules: over the connection's, under the transaction's.  There is a
    /// session for each idle client, and few have any.
    pub overrides: RefCell<Option<Box<Overrides>>>,
    /// Name and number of the frontend.
    pub frontend: ProxyName,
    /// Name of the bind line (`name`), empty without.
    pub listener_name: Arc<str>,
    /// Number of the bind line in its frontend (`so_id`).
    pub listener_id: u32,
    /// TLS facts when the client came over TLS.
    pub tls: Option<Rc<dyn TlsFacts>>,
    /// TLVs of the PROXY protocol v2 header, (type, value).
    pub proxy_tlvs: Box<[(u8, Box<[u8]>)]>,
    /// A PROXY protocol header was received.
    pub proxy_header: bool,
    /// Major HTTP version of the client's edge: 1, 2; 0 in TCP mode.
    pub http_major: u8,
    /// Raw socket of the client, for `fc_rtt` and friends.
    pub socket: Cell<Option<i32>>,
    /// Wall clock at accept, microseconds since 1970.
    pub accept_us: u64,
    /// How long the handshakes took, until a request has told it.
    pub handshake_ms: Cell<u32>,
    /// When the wait for the next request began, in microseconds of a clock that only goes forward.
    pub idle_since_us: Cell<u64>,
    /// Protocol errors the client's edge survived (`fc_glitches`).
    pub glitches: Cell<u32>,
    /// `sess.` variables.
    pub vars: RefCell<Vars>,
    /// Entries tracked for the whole session (`tcp-request connection|session track-sc`), by slot.
    pub tracked: RefCell<Vec<Option<Tracked>>>,
    /// Requests started on this connection.
    pub requests: Cell<u64>,
    /// Backend and number of the server that the last request went to (`option prefer-last-server`).
    pub last_server: Cell<Option<(u32, u32)>>,
    /// The server this connection is given to instead of being served (`attach-srv`).
    pub attach: RefCell<Option<Box<AttachServer>>>,
    /// Headers that rules on the connection expect before the first data (`expect-proxy`, `expect-netscaler-cip`).
    pub expects: Cell<ExpectedHeaders>,
    /// How far the reset goes that a dropped client is not to see (`silent-drop rst-ttl`), in routers;
    /// `None` where there is to be none.
    pub reset_ttl: Cell<Option<u8>>,
    /// Log level override, nice, mark and tos set by rules are stored by the action's module.
    pub log_level: Cell<Option<u8>>,
}

impl Session {
    /// A session of nobody yet: no addresses, no socket, nothing counted.
    #[must_use]
    pub fn new(frontend: ProxyName, listener_name: Arc<str>) -> Self {
        Self {
            src: Cell::new(None),
            dst: Cell::new(None),
            overrides: RefCell::default(),
            frontend,
            listener_name,
            listener_id: 0,
            tls: None,
            proxy_tlvs: Box::default(),
            proxy_header: false,
            http_major: 0,
            socket: Cell::new(None),
            accept_us: 0,
            handshake_ms: Cell::new(0),
            idle_since_us: Cell::new(0),
            glitches: Cell::new(0),
            vars: RefCell::default(),
            tracked: RefCell::default(),
            requests: Cell::new(0),
            last_server: Cell::new(None),
            attach: RefCell::default(),
            expects: Cell::default(),
            reset_ttl: Cell::new(None),
            log_level: Cell::new(None),
        }
    }
}

/// Headers before the first data of a connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ExpectedHeaders {
    /// That of the PROXY protocol.
    pub proxy: bool,
    /// NetScaler's client IP insertion.
    pub netscaler_cip: bool,
}

/// Addresses that stand in for the connection's.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Overrides {
    /// The client's.
    pub src: Option<SocketAddr>,
    /// The one it connected to.
    pub dst: Option<SocketAddr>,
}

impl Session {
    /// The addresses that stand in for the connection's.
    #[must_use]
    pub fn overridden(&self) -> Overrides {
        self.overrides.borrow().as_deref().copied().unwrap_or_default()
    }

    /// Sets addresses that stand in for the connection's; `None` leaves what was set.
    pub fn override_with(&self, src: Option<SocketAddr>, dst: Option<SocketAddr>) {
        let old = self.overridden();
        self.overrides.replace(Some(Box::new(Overrides { src: src.or(old.src), dst: dst.or(old.dst) })));
    }
}

/// What `attach-srv` says: the client's connection becomes one to a server, and requests go over it to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachServer {
    /// Name of the backend.
    pub backend: Arc<str>,
    /// Name of the server in it.
    pub server: Arc<str>,
    /// Only requests with this name (`sni`, `pool-conn-name`) may use the connection.
    pub name: Option<Box<[u8]>>,
}

/// Name and value of a field.
pub type NameValue = (Box<[u8]>, Box<[u8]>);

/// Name and number of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyName {
    /// Its name.
    pub name: Arc<str>,
    /// Its number (`id`, as in statistics).
    pub id: u32,
    /// Index into the configuration's list of proxies.
    pub index: usize,
}

/// An entry of a stick table that counters of this transaction go to.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Index of the table.
    pub table: usize,
    /// Key of the entry, in the table's key format.
    pub key: Box<[u8]>,
}

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

/// Times of a transaction in milliseconds; `None` where the stage was not reached (logged as -1).
#[derive(Clone, Copy, Default, Debug)]
pub struct Timers {
    /// Wall clock at the first byte of the request (or accept in TCP mode), microseconds since 1970.
    pub start_us: u64,
    /// `%Th`: connection handshakes (PROXY, TLS).
    pub handshake_ms: Option<u32>,
    /// `%Ti`: idle time before the request.
    pub idle_ms: Option<u32>,
    /// `%TR`: time to receive the full request head.
    pub request_ms: Option<u32>,
    /// `%Tw`: time in queues.
    pub queue_ms: Option<u32>,
    /// `%Tc`: time to connect to the server.
    pub connect_ms: Option<u32>,
    /// `%Tr`: time until the response's head.
    pub response_ms: Option<u32>,
    /// `%Td`: data transfer.
    pub data_ms: Option<u32>,
    /// `%Ta`: active time of the request.
    pub active_ms: Option<u32>,
    /// `%Tt`: total.
    pub total_ms: Option<u32>,
}

impl Timers {
    /// `%Tu`: the total without the idle time.
    pub(crate) fn user_ms(&self) -> Option<u32> {
        self.total_ms.map(|total| total.saturating_sub(self.idle_ms.unwrap_or(0)))
    }
}

/// The step of a transaction at which a log line is made (`%OG`, `log-steps`, `on` of log profiles).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the step of the same name in the manual")]
pub enum LogOrigin {
    #[default]
    Unspecified,
    Accept,
    Request,
    Connect,
    Response,
    Close,
    TcpRequestConnection,
    TcpRequestSession,
    TcpRequestContent,
    TcpResponseContent,
    HttpRequest,
    HttpResponse,
    HttpAfterResponse,
}

impl LogOrigin {
    /// The steps by their names.
    pub const STEPS: [(&'static str, Self); 5] = [
        ("accept", Self::Accept),
        ("request", Self::Request),
        ("connect", Self::Connect),
        ("response", Self::Response),
        ("close", Self::Close),
    ];

    /// Rule sets whose `do-log` makes a line.
    pub const RULES: [(&'static str, Self); 7] = [
        ("tcp-req-conn", Self::TcpRequestConnection),
        ("tcp-req-sess", Self::TcpRequestSession),
        ("tcp-req-cont", Self::TcpRequestContent),
        ("tcp-res-cont", Self::TcpResponseContent),
        ("http-req", Self::HttpRequest),
        ("http-res", Self::HttpResponse),
        ("http-after-res", Self::HttpAfterResponse),
    ];

    /// Of a rule.
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::TcpRequestConnection => Self::TcpRequestConnection,
            Phase::TcpRequestSession => Self::TcpRequestSession,
            Phase::TcpRequestContent => Self::TcpRequestContent,
            Phase::TcpResponseContent => Self::TcpResponseContent,
            Phase::HttpRequest => Self::HttpRequest,
            Phase::HttpResponse => Self::HttpResponse,
            Phase::HttpAfterResponse => Self::HttpAfterResponse,
        }
    }

    /// What `%OG` prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspec",
            Self::Accept => "txn_accept",
            Self::Request => "txn_request",
            Self::Connect => "txn_connect",
            Self::Response => "txn_response",
            Self::Close => "txn_close",
            rule => Self::RULES.iter().find(|(_, origin)| *origin == rule).map_or("unspec", |(name, _)| name),
        }
    }
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

/// A number about a proxy or server, for `nbsrv`, `be_conn`, `srv_is_up` and the like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the figure of the same name in the statistics")]
pub enum Figure {
    UsableServers,
    Connections,
    ConnectionRate,
    SessionRate,
    RequestRate,
    Queued,
    FreeSlots,
    AverageQueue,
    IdleConnections,
    UsedConnections,
    TotalWeight,
    IsUp,
    Weight,
    InitialWeight,
    UserWeight,
    MaxConnections,
    FreeConnections,
    ServerTimeout,
    TunnelTimeout,
    ConnectTimeout,
    QueueTimeout,
    ClientTimeout,
    TarpitTimeout,
    Retries,
    Id,
}

/// The process around a transaction: what rules may ask that is not the transaction's own.
pub trait Environment {
    /// Figure of a backend by name, or of a frontend where no backend is called so.
    fn proxy_figure(&self, proxy: &str, figure: Figure) -> Option<i64>;
    /// Figure of a frontend by name, whatever else is called so.
    fn frontend_figure(&self, frontend: &str, figure: Figure) -> Option<i64> {
        self.proxy_figure(frontend, figure)
    }
    /// Figure of a server.
    fn server_figure(&self, backend: &str, server: &str, figure: Figure) -> Option<i64>;
    /// Milliseconds on a clock that never goes back.
    fn now_ms(&self) -> u64;
    /// Wall clock, microseconds since 1970.
    fn wall_us(&self) -> u64;
    /// A random number.
    fn random(&self) -> u64;
    /// Host name (`global: hostname`).
    fn hostname(&self) -> &str;
    /// Longest request line in the log (`tune.http.logurilen`), in bytes.
    fn log_uri_bytes(&self) -> usize {
        1024
    }
    /// Process number in the log (`%pid`).
    fn pid(&self) -> u32;
    /// Number of worker threads.
    fn threads(&self) -> u32;
    /// Number of the thread this runs on, from 0.
    fn thread(&self) -> u32 {
        0
    }
    /// Figures of the process: (connections now, connection rate, stopping).
    fn process(&self) -> (u32, u32, bool);
    /// Reads a `proc.` variable.
    fn proc_var(&self, name: &[u8]) -> Option<Value<'static>>;
    /// Writes or unsets a `proc.` variable.
    fn set_proc_var(&self, name: &[u8], value: Option<Value<'static>>);
    /// What the variables of the process take, where it is limited (`tune.vars.*`).
    fn var_account(&self) -> Option<&Arc<VarAccount>> {
        None
    }
    /// The stick tables, by index.
    fn table(&self, index: usize) -> Option<Rc<dyn StickTable>>;
    /// Index of the table of a proxy or table section.
    fn table_index(&self, name: &str) -> Option<usize>;
    /// Makes what the frontend's `unique-id-format` says of a transaction as it is now.
    fn unique_id(&self, _txn: &Txn) -> Option<Box<[u8]>> {
        None
    }
    /// What the configuration answers with this status (`errorfile`, `http-error`): the backend's, then the frontend's.
    fn error_page(&self, _txn: &Txn, _status: u16) -> ErrorPage {
        ErrorPage::Default
    }
    /// Whether an address is one of this machine's.
    fn is_local(&self, _ip: std::net::IpAddr) -> Option<bool> {
        None
    }
    /// Facts of the kernel about the client's connection (or the server's): figures of `TCP_INFO`.
    fn tcp_figure(&self, _txn: &Txn, _server: bool, _figure: TcpFigure) -> Option<i64> {
        None
    }
    /// The first packet of the client's connection, which the kernel keeps where `tcp-ss` says so, until it is asked for.
    fn saved_syn(&self, _session: &Session) -> Option<Vec<u8>> {
        None
    }
    /// Makes a line of the transaction as it is now (`do-log`), by a profile other than those of the log targets if one is named.
    fn log(&self, _txn: &Txn, _origin: LogOrigin, _profile: Option<&str>) {}
    /// Marks what goes to the client from now on (`set-fc-mark`, `set-fc-tos`).
    fn mark_client(&self, _session: &Session, _marking: Marking) {}
    /// Seconds since the process started.
    fn uptime(&self) -> u64 {
        0
    }
    /// Name of the frontend's default backend (`fe_defbe`).
    fn default_backend(&self, _frontend: &str) -> Option<Arc<str>> {
        None
    }
    /// Name of a source file by its number in [`crate::Pos`] (`last_rule_file`).
    fn source_file(&self, _file: u32) -> Option<&str> {
        None
    }
    /// Number for the next log line of a proxy (`%lc`).
    fn log_counter(&self, _proxy: usize) -> u32 {
        0
    }
    /// Offset of local time from UTC in seconds at a moment in seconds since 1970.
    fn utc_offset(&self, at_s: i64) -> i32 {
        crate::convert::date::system_utc_offset(at_s)
    }
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

/// A mark on the packets of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// Netfilter's mark.
    Mark(u32),
    /// Type of service (IPv4) or traffic class (IPv6).
    Tos(u8),
}

/// What the configuration has for a status.
#[derive(Debug)]
pub enum ErrorPage {
    /// Nothing: the built-in message.
    Default,
    /// `/dev/null`: close without an answer.
    Silent,
    /// This.
    Reply(Box<crate::Reply>),
}

/// A figure of a TCP connection, for `fc_rtt` and the like; times in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the fetch of the same name")]
pub enum TcpFigure {
    Rtt,
    RttVar,
    Unacked,
    Sacked,
    Lost,
    Retrans,
    Fackets,
    Reordering,
}

/// A stick table as rules see it (`weir-balance` has the data structure behind it).
pub trait StickTable {
    /// Reads a counter or rate of an entry (`gpc0`, `conn_cur`, `http_req_rate`, ...).
    fn read(&self, key: &[u8], data: &str) -> Option<i64>;
    /// Adds to a counter of an entry, creating the entry; returns the new value.
    fn add(&self, key: &[u8], data: &str, by: i64) -> Option<i64>;
    /// Sets a counter of an entry, creating the entry.
    fn set(&self, key: &[u8], data: &str, to: i64);
    /// Refreshes (creating it) an entry; false when the table is full.
    fn touch(&self, key: &[u8]) -> bool;
    /// The table's key type.
    fn key_type(&self) -> KeyType {
        KeyType::String(32)
    }
    /// Entries in use and places free.
    fn usage(&self) -> (usize, usize) {
        (0, 0)
    }
    /// Whether the entry exists.
    fn contains(&self, _key: &[u8]) -> bool {
        false
    }
    /// Starts tracking an entry, creating it: counts a connection, and a request when an `http-request` rule
    /// does it.  The data plane ends it with the transaction or the session.
    fn track(&self, key: &[u8], _request: bool) -> bool {
        self.touch(key)
    }
}

/// Key type of a stick table; says how a sample becomes a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// 4 bytes.
    Ip,
    /// 16 bytes.
    Ipv6,
    /// 4 bytes, big end first.
    Integer,
    /// Text up to this length.
    String(usize),
    /// Bytes of exactly this length (cut or filled with zeros).
    Binary(usize),
}

impl KeyType {
    /// The key a sample makes; `None` when it cannot be one.
    #[must_use]
    pub fn key(self, value: Value<'_>) -> Option<Box<[u8]>> {
        use std::net::IpAddr;
        Some(match self {
            Self::Ip => match value.to_ip()? {
                IpAddr::V4(ip) => Box::new(ip.octets()),
                IpAddr::V6(ip) => Box::new(crate::value::embedded_v4(ip)?.octets()),
            },
            Self::Ipv6 => match value.to_ip()? {
                IpAddr::V4(ip) => Box::new(ip.to_ipv6_mapped().octets()),
                IpAddr::V6(ip) => Box::new(ip.octets()),
            },
            Self::Integer => Box::new((value.to_int()? as u32).to_be_bytes()),
            Self::String(most) => {
                let bytes = value.into_bytes();
                bytes[..bytes.len().min(most)].into()
            }
            Self::Binary(len) => {
                let mut bytes = value.into_binary().into_owned();
                bytes.resize(len, 0);
                bytes.into()
            }
        })
    }

    /// A key as the value it was made of.
    #[must_use]
    pub fn value(self, key: &[u8]) -> Value<'static> {
        let four = || <[u8; 4]>::try_from(key).unwrap_or_default();
        match self {
            Self::Ip => Value::Ip(four().into()),
            Self::Ipv6 => Value::Ip(<[u8; 16]>::try_from(key).unwrap_or_default().into()),
            Self::Integer => Value::Int(i64::from(u32::from_be_bytes(four()))),
            Self::String(_) => Value::owned(key.to_vec()),
            Self::Binary(_) => Value::Bin(key.to_vec().into()),
        }
    }
}
