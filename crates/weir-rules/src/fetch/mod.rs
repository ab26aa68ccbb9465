//! Sample fetches, one file per family.

pub(crate) mod connection;
pub(crate) mod distcc;
pub(crate) mod http;
pub(crate) mod internal;
pub(crate) mod payload;
pub(crate) mod stick;
pub(crate) mod tls;
pub(crate) mod tls_hello;

use crate::expr::entry::Fetch;

/// The entries of all families.
pub(crate) fn families() -> [&'static [Fetch]; 10] {
    [
        internal::FETCHES,
        connection::FETCHES,
        tls::FETCHES,
        tls_hello::FETCHES,
        payload::FETCHES,
        distcc::FETCHES,
        http::HEADERS,
        http::FETCHES,
        stick::FETCHES,
        stick::SRC_FETCHES,
    ]
}
