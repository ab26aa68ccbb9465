//! The client's connection, which all requests on it share.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::facts::vars::Vars;
use crate::facts::{TlsFacts, Tracked};

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
