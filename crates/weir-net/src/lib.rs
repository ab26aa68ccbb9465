//! Sockets, TLS and timers for one thread of the data plane.
//!
//! Every thread runs its own current-thread runtime and a connection never leaves the thread that accepted
//! it. This crate owns how bytes get in and out of the process: listening, connecting, TLS records, handing
//! listening sockets over to a successor, and deadlines. What the bytes mean is left to the protocol crates.

pub mod address;

pub mod listen;

pub mod handover;

pub mod connect;

pub mod source_ports;

pub mod stream;

pub mod tls;

mod pool;

pub mod timers;

pub mod kernel;

pub mod kernel_buffers;

pub mod namespace;

pub use address::Address;

pub use pool::kept_pieces;

pub use stream::Stream;
