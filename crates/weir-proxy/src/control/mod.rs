//! Beside the traffic: no request walks through these files.
//!
//! Health checks, name resolution, peers, mails, certificates, and files that outlive the process.

pub mod certificates;
pub mod check;
pub mod dns;
pub(crate) mod mail;
pub mod ocsp;
pub mod peers;
pub(crate) mod resolve;
pub(crate) mod saved_state;
pub mod stats_file;
pub(crate) mod transaction;
pub mod trust;
