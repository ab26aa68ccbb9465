//! An answer that the proxy gives itself.

use std::sync::Arc;

use weir_http::Response;

/// What is sent instead of going on: by deny, return, redirect, auth, errors.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Head of the answer, without framing fields.
    pub response: Response,
    /// Its body.
    pub body: Arc<[u8]>,
    /// The status that logs and counters have: that of the error an `errorfile` or `errorloc` stands for.
    pub logged_status: u16,
}

impl Reply {
    /// An answer that stands for itself.
    #[must_use]
    pub fn new(response: Response, body: impl Into<Arc<[u8]>>) -> Self {
        Self { logged_status: response.status, response, body: body.into() }
    }
}
