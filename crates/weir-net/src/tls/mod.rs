//! TLS for clients and to servers.
//!
//! Configuration: `server` and `client` with `algorithms`, `certificate`, `crt_list`, `sni`, `verify`, `ocsp`,
//! `encrypted_key`, `generate`, `p521`, `trust_files` and `tickets`. Connections: `hello`, `session`, `early` and `record`. What is known afterwards:
//! `info`, `facts` and `failure`.

pub mod server;

pub mod client;

pub mod algorithms;

pub mod certificate;

pub mod crt_list;

pub mod ocsp;

pub mod encrypted_key;

mod generate;

mod p521;

mod signing;

mod sni;

pub mod verify;

pub mod trust_files;

pub mod tickets;

mod hello;

pub(crate) mod session;

pub mod early;

mod record;

pub mod info;

mod path;

pub mod failure;

/// Draws the first random byte of this thread.
///
/// The library seeds a thread's generator with the jitter of the CPU when something random is wanted first, which takes
/// some ten milliseconds without a pause, and the first thread of a process twice as long.  At its start a thread has
/// that time; in its first handshake all of its connections would wait.
pub fn seed_thread() {
    // Without entropy the handshake fails, which has words for it.
    aws_lc_rs::rand::fill(&mut [0]).ok();
}
