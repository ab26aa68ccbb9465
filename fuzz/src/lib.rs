//! What the fuzzer calls: one function a parser, each in its own file. A function returns or panics; what
//! it asserts holds for every input.

mod configuration;
mod deflate;
mod deflate_isolation;
mod dns_answer;
mod fcgi;
mod h1;
mod h2;
mod message;
mod pattern_file;
mod peers_wire;
mod proxy_protocol;
mod runtime_commands;
mod tls;

pub use configuration::configuration;
pub use deflate::deflate;
pub use deflate_isolation::deflate_isolation;
pub use dns_answer::dns_answer;
pub use fcgi::fcgi;
pub use h1::{h1_body, h1_request, h1_response};
pub use h2::{h2_client, h2_pair, h2_server};
pub use message::message;
pub use pattern_file::pattern_file;
pub use peers_wire::peers_wire;
pub use proxy_protocol::proxy_protocol;
pub use runtime_commands::runtime_commands;
pub use tls::{tls_hello, tls_records};

/// A function that takes any input.
pub type Target = fn(&[u8]);

/// Every target by name; `targets/` has a file for each.
pub const TARGETS: &[(&str, Target)] = &[
    ("configuration", configuration),
    ("deflate", deflate),
    ("deflate_isolation", deflate_isolation),
    ("dns_answer", dns_answer),
    ("fcgi", fcgi),
    ("h1_body", h1_body),
    ("h1_request", h1_request),
    ("h1_response", h1_response),
    ("h2_client", h2_client),
    ("h2_pair", h2_pair),
    ("h2_server", h2_server),
    ("message", message),
    ("pattern_file", pattern_file),
    ("peers_wire", peers_wire),
    ("proxy_protocol", proxy_protocol),
    ("runtime_commands", runtime_commands),
    ("tls_hello", tls_hello),
    ("tls_records", tls_records),
];
