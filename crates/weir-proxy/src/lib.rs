//! The data plane.  A request's way is the list of files below, in this order:
//!
//! ```text
//! client bytes > accept > connection > exchange > request_rules > route > pick > connect > forward > server bytes
//! client bytes < connection < finish < filter < forward < response_rules < server bytes
//! ```
//!
//! One thread runs one event loop; a connection stays on the thread that it was given to when it was accepted.  What
//! threads share ([`state`]) is read without locks.

// The comments keep the stages in the order of the request.

pub mod process;

pub mod listeners;

pub mod problem;

mod loading;

mod accept;

pub mod accept_queue;

mod connection;

mod exchange;

mod request_rules;

mod route;

mod services;

pub mod cache;

mod request_head;

mod fastcgi;

mod pick;

mod balance_key;

mod cookie;

mod connect;

mod socks4;

mod forward;

mod websocket;

mod response_inspection;
mod response_rules;

mod filter;

mod finish;

mod errors;

pub mod log;

mod tcp;

// Both edges and what they stand on.

mod edge;

mod buffer;

mod fields_pool;

mod number_hash;

mod h2_settings;

mod proxy_header;

mod forwarded;

mod pool;

pub mod need;

mod takeover;

mod own;

mod reverse;

mod server_tls;

mod tls_facts;

pub mod certificates;

pub mod ocsp;

mod transaction;

pub mod trust;

// State.

pub mod counters;

pub mod sessions;

pub mod state;

mod farm;

mod queue;

pub mod stick_table;

mod stick_track;

pub mod peers;

mod stick_rules;

pub mod load;

mod worker;

mod task;

pub mod panics;

pub mod scarcity;

pub mod memory_pools;

mod closing;

mod cpus;

mod environment;

// Beside the traffic.

pub mod check;

pub mod process_vars;

mod resolve;

pub mod dns;

mod mail;

mod saved_state;

pub mod stats_file;

pub use process::{Process, Services, StartError, Terms};
pub use state::Shared;
