//! The process around a transaction: other proxies, clocks, counters, tables, the log.
//!
//! Owns the questions; the data plane answers them.

use std::rc::Rc;
use std::sync::Arc;

use crate::Txn;
use crate::facts::vars::VarAccount;
use crate::facts::{LogOrigin, Reply, Session, StickTable};
use crate::value::Value;

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
        crate::value::date::system_utc_offset(at_s)
    }
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
    Reply(Box<Reply>),
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
