//! A load generator that tells the latency a user would have seen.
//!
//! Owns the client that sends requests, the figures it takes, and the reports about them.  The command line
//! is the binary's.

pub mod result;

pub mod histogram;

pub mod url;

pub mod request;

pub mod replay;

pub mod goal;

pub mod ramp;

mod client;

mod h1;

mod h2;

mod schedule;

mod bottleneck;
