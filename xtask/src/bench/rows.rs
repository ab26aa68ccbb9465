//! What is measured: one row for each kind of work, and the bars weir is held to.

/// The client that asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Client {
    /// `wrk` with this many connections.
    Wrk { connections: u32 },
    /// `wrk` with a connection for each request.
    WrkClosing { connections: u32 },
    /// `h2load` with this many connections and streams on each.
    H2load { connections: u32, streams: u32 },
}

/// One kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The configuration's file name without its end.
    pub(super) setup: &'static str,
    pub(super) tls: bool,
    pub(super) path: &'static str,
    /// The client accepts gzip, and the proxy's configuration compresses.
    pub(super) gzip: bool,
    pub(super) client: Client,
    /// Weir's cost may be at most this share of the peer's.
    pub(super) bars: &'static [(&'static str, f64)],
}

/// Enough connections that the proxy's core never waits for the client's.
const KEPT: Client = Client::Wrk { connections: 48 };

/// Every row, in the order of the table.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "h1-small",
        setup: "h1",
        tls: false,
        path: "/small.html",
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.65), ("nginx", 0.85)],
    },
    Row {
        name: "h1-9k",
        setup: "h1",
        tls: false,
        path: "/page.html",
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.70), ("nginx", 0.90)],
    },
    Row {
        name: "tls-9k",
        setup: "tls",
        tls: true,
        path: "/page.html",
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.65), ("nginx", 0.65)],
    },
    Row {
        name: "tls-handshake",
        setup: "tls",
        tls: true,
        path: "/small.html",
        gzip: false,
        client: Client::WrkClosing { connections: 48 },
        bars: &[("haproxy", 0.50), ("nginx", 0.50)],
    },
    Row {
        name: "h2-return",
        setup: "h2-return",
        tls: false,
        path: "/short.txt",
        gzip: false,
        client: Client::H2load { connections: 8, streams: 100 },
        bars: &[("haproxy", 0.12), ("nginx", 0.15), ("h2o", 0.9)],
    },
    Row {
        name: "h2-tls-h1",
        setup: "h2-tls",
        tls: true,
        path: "/small.html",
        gzip: false,
        client: Client::H2load { connections: 8, streams: 10 },
        bars: &[("haproxy", 0.40), ("nginx", 0.35)],
    },
    Row {
        name: "comp-9k",
        setup: "comp",
        tls: false,
        path: "/page-9k.html",
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.60), ("nginx", 0.35)],
    },
    Row {
        name: "comp-76k",
        setup: "comp",
        tls: false,
        path: "/page-76k.html",
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.55), ("nginx", 0.25)],
    },
];
