//! What a rule may look at and change: the transaction, the connection it came on, the process around it.
//!
//! Owns the facts of one request and of its session, one subject a file; the data plane fills them in and acts on
//! what the rules changed.  Leaves the process (other proxies, counters, tables) to [`Environment`].

mod environment;
mod log_origin;
mod reply;
mod session;
mod stick_table;
mod times;
mod tls;
mod transaction;
pub mod vars;

pub use environment::{Environment, ErrorPage, Figure, Marking, TcpFigure};
pub use log_origin::LogOrigin;
pub use reply::Reply;
pub use session::{AttachServer, ExpectedHeaders, Overrides, ProxyName, Session};
pub(crate) use stick_table::MAX_TRACKED;
pub use stick_table::{KeyType, StickTable, Tracked};
pub use times::Timers;
pub use tls::{HelloPart, TlsFacts, TlsFailure, TlsObjections};
pub use transaction::{BandwidthLimit, CacheStore, CacheUse, NameValue, Txn};
