//! HTTP messages and their wire forms, without sockets, clocks or threads.
//!
//! A message has no version between the two edges of the proxy: [`Request`] and
//! [`Response`] are flat (one byte arena plus spans), and each protocol converts to
//! and from them.  Bytes go in, events and bytes come out.

mod authority;
pub mod fcgi;
pub mod h1;
pub mod h2;
mod message;
pub mod netscaler;
pub mod proxy_protocol;
mod token;
mod trailers;

pub use message::{Field, FieldName, Fields, Method, Request, Response, Span, Version};
