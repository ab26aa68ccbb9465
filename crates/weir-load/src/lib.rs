//! A load generator that tells the latency a user would have seen.
//!
//! Owns the client that sends requests, the figures it takes, and the reports about them.  The command line
//! is the binary's.
//!
//! ```text
//!  setup -> run -> thread -> lane -> connection -> client (h1, h2) -> server
//!                     |        |
//!                     |    schedule: which request is due, and when
//!  result <- run <- figures
//! ```

pub mod setup;

pub mod run;

mod thread;

mod lane;

mod pending;

mod schedule;

mod connection;

mod client;

mod h1;

mod h2;

mod figures;

mod bottleneck;

mod clock;

pub mod ramp;

pub mod goal;

pub mod url;

pub mod request;

pub mod script;

pub mod replay;

pub mod result;

pub mod sample;

pub mod histogram;

pub mod report;

pub use run::run;

pub use setup::Setup;
