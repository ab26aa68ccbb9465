//! What the fuzzer calls: one function a parser, each in its own file. A function returns or panics; what
//! it asserts holds for every input.

mod h1;
mod message;
mod proxy_protocol;

pub use h1::{h1_body, h1_request, h1_response};
pub use message::message;
pub use proxy_protocol::proxy_protocol;

/// A function that takes any input.
pub type Target = fn(&[u8]);

/// Every target by name; `targets/` has a file for each.
pub const TARGETS: &[(&str, Target)] = &[
    ("h1_body", h1_body),
    ("h1_request", h1_request),
    ("h1_response", h1_response),
    ("message", message),
    ("proxy_protocol", proxy_protocol),
];
