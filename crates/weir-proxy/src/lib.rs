//! The data plane.  A request's way is the list of folders below, in this order:
//!
//! ```text
//! client bytes > accept > client > exchange > request > server > forward > server bytes
//! client bytes < client < finish < filter < forward < response < server bytes
//! ```
//!
//! One thread runs one event loop; a connection stays on the thread that it was given to when it was accepted.  What
//! threads share ([`state`]) is read without locks.

// The comments keep the folders in the order of the request.

pub mod accept;

mod client;

mod plan;

pub mod exchange;

mod rules;

mod request;

mod server;

mod forward;

mod response;

pub mod filter;

mod finish;

// Both edges and what they stand on.

mod edge;

// What threads share, and what a line of the log says of it.

pub mod state;

pub mod log;

// The threads, and their start.

pub mod thread;

pub mod process;

// Beside the traffic.

pub mod control;

pub use process::{Process, Services, StartError, Terms};
pub use state::Shared;
pub use thread::panics;
