//! FastCGI 1.0 towards a Responder application: records from bytes, and back to bytes.
//!
//! Owns the records, the encoding of parameters and their bounds. Leaves to the caller: sockets, which parameters a
//! request has, and what the application writes, which begins with a head ([`crate::h1::parse_cgi_response`]).
//! A connection carries one request at a time here, so that each has the same number.

mod params;
mod record;

pub use params::{MAX_PARAMS, Params};
pub use record::{
    Decoded, Event, MAX_CONTENT, Receiver, Refusal, write_begin, write_end_of_stdin, write_get_values,
    write_params, write_stdin,
};
