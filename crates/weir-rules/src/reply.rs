//! Answers the proxy makes itself: built-in errors, error files, templates.

use std::sync::Arc;

use weir_http::Response;

/// Reads an `errorfile`: a whole HTTP/1 response.
///
/// # Errors
/// Why it is none.
pub fn parse_error_file(_bytes: &[u8]) -> Result<(Response, Arc<[u8]>), String> {
    Err("error files are not implemented yet".to_owned())
}

/// The built-in answer for a status.
pub fn default_error(status: u16) -> crate::Reply {
    crate::Reply { response: Response::new(status, ""), body: Arc::new([]) }
}
