//! TLS for clients and to servers.
//!
//! Configuration: `server` and `client` with `algorithms`, `certificate`, `crt_list`, `sni`, `verify`, `ocsp`,
//! `generate`,
//! `trust_files` and `tickets`. Connections: `hello`, `session` and `record`. What is known afterwards: `info` and `facts`.

pub mod server;

pub mod client;

pub mod algorithms;

pub mod certificate;

pub mod crt_list;

pub mod ocsp;

mod generate;

mod signing;

mod sni;

pub mod verify;

pub mod trust_files;

pub mod tickets;

mod hello;

pub(crate) mod session;

mod record;

pub mod info;
mod path;

pub mod facts;
