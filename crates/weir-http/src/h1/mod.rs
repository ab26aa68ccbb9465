//! HTTP/1.0 and HTTP/1.1 (RFC 9112): heads and bodies from bytes, and back to bytes.
//!
//! Owns the syntax, the framing of bodies and the refusal of everything ambiguous.  Leaves to the
//! caller: sockets, time, which connection lives on, and what the fields mean beyond framing.
//! Whatever was received, what is written is framed anew from a [`Framing`], so a message that
//! two readers could delimit differently never leaves this module.

mod body;
mod cgi;
mod error;
mod fields;
mod framing;
mod head;
mod scan;
mod target;
mod write;

pub use body::{BodyDecoder, BodyEvent, Decoded, MAX_CHUNK_EXTENSION, MAX_CHUNK_SIZE};
pub use cgi::{CgiHead, parse_cgi_response};
pub use error::{Fault, ParseError, ParseErrorKind};
pub(crate) use fields::MAX_NAME;
pub use framing::Framing;
pub use head::{RequestHead, ResponseHead, parse_request, parse_response};
pub use write::{
    CaseMap, Connection, WriteOptions, write_chunk, write_chunk_size, write_last_chunk, write_request,
    write_response,
};

/// Default bound of a head in bytes: a buffer of 16384 less 1024 kept for rewriting.
pub const DEFAULT_MAX_HEAD: usize = 15_360;

/// Default of `tune.http.maxhdr`; the start line counts as one, so 100 fields fit.
pub const DEFAULT_MAX_FIELDS: usize = 101;

/// Limits and tolerances of a parser.
#[derive(Clone, Copy, Debug)]
pub struct ParseOptions {
    /// Most bytes of a head or of a trailer section, empty lines before it included.
    pub max_head: usize,
    /// `tune.http.maxhdr`: field lines and the start line together.
    pub max_fields: usize,
    /// `option accept-unsafe-violations-in-http-request` (or `-response`).
    pub accept_unsafe: bool,
    /// `h1-accept-payload-with-any-method`.
    pub accept_payload_with_any_method: bool,
    /// `h1-do-not-close-on-insecure-transfer-encoding`.
    pub keep_insecure_transfer_encoding: bool,
    /// `option http-use-proxy-header`: Proxy-Connection stands for Connection in requests whose target begins with
    /// neither '/' nor '*', and in the responses to them.
    pub use_proxy_connection: bool,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            max_head: DEFAULT_MAX_HEAD,
            max_fields: DEFAULT_MAX_FIELDS,
            accept_unsafe: false,
            accept_payload_with_any_method: false,
            keep_insecure_transfer_encoding: false,
            use_proxy_connection: false,
        }
    }
}
