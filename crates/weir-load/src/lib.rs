//! A load generator that tells the latency a user would have seen.
//!
//! Owns the client that sends requests, the figures it takes, and the reports about them.  The command line
//! is the binary's.

pub mod histogram;

pub mod result;
