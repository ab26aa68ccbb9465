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

/// Different pages of a size, made by `bench/pages.py`: `FOLDER/0.html` and so on.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) folder: &'static str,
    pub(super) bytes: u32,
    pub(super) count: u32,
}

/// So many that no processor foretells the branches of an encoder that has seen them all before.
const PAGES_9K: &Pages = &Pages { folder: "pages-9k", bytes: 9000, count: 200 };
const PAGES_76K: &Pages = &Pages { folder: "pages-76k", bytes: 76_800, count: 50 };

/// What the client asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// One file again and again.
    File(&'static str),
    /// The pages of a folder in turn.
    Each(&'static Pages),
}

impl Asked {
    /// What the client's URL ends with.
    pub(super) fn path(self) -> String {
        match self {
            Self::File(name) => format!("/{name}"),
            Self::Each(pages) => format!("/{}/", pages.folder),
        }
    }
}

/// One kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The configuration's file name without its end.
    pub(super) setup: &'static str,
    pub(super) tls: bool,
    pub(super) asked: Asked,
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
        asked: Asked::File("small.html"),
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.65), ("nginx", 0.85)],
    },
    Row {
        name: "h1-9k",
        setup: "h1",
        tls: false,
        asked: Asked::File("page.html"),
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.70), ("nginx", 0.90)],
    },
    Row {
        name: "tls-9k",
        setup: "tls",
        tls: true,
        asked: Asked::File("page.html"),
        gzip: false,
        client: KEPT,
        bars: &[("haproxy", 0.65), ("nginx", 0.65)],
    },
    Row {
        name: "tls-handshake",
        setup: "tls",
        tls: true,
        asked: Asked::File("small.html"),
        gzip: false,
        client: Client::WrkClosing { connections: 48 },
        bars: &[("haproxy", 0.50), ("nginx", 0.50)],
    },
    Row {
        name: "h2-return",
        setup: "h2-return",
        tls: false,
        asked: Asked::File("short.txt"),
        gzip: false,
        client: Client::H2load { connections: 8, streams: 100 },
        bars: &[("haproxy", 0.12), ("nginx", 0.15), ("h2o", 0.9)],
    },
    Row {
        name: "h2-tls-h1",
        setup: "h2-tls",
        tls: true,
        asked: Asked::File("small.html"),
        gzip: false,
        client: Client::H2load { connections: 8, streams: 10 },
        bars: &[("haproxy", 0.40), ("nginx", 0.35)],
    },
    Row {
        name: "comp-9k",
        setup: "comp",
        tls: false,
        asked: Asked::File("page-9k.html"),
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.60), ("nginx", 0.40)],
    },
    Row {
        name: "comp-76k",
        setup: "comp",
        tls: false,
        asked: Asked::File("page-76k.html"),
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.50), ("nginx", 0.22)],
    },
    Row {
        name: "comp-new-9k",
        setup: "comp",
        tls: false,
        asked: Asked::Each(PAGES_9K),
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.60), ("nginx", 0.40)],
    },
    Row {
        name: "comp-new-76k",
        setup: "comp",
        tls: false,
        asked: Asked::Each(PAGES_76K),
        gzip: true,
        client: KEPT,
        bars: &[("haproxy", 0.50), ("nginx", 0.22)],
    },
];
