//! Reason phrases and the texts of built-in error messages.

/// Statuses that have a built-in message and may be replaced by `errorfile`.
pub const HANDLED: [u16; 21] =
    [200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504];

/// The usual reason phrase of a status; its class where there is none.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        210 => "Content Different",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        310 => "Too many Redirects",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Time-out",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Requested range unsatisfiable",
        417 => "Expectation failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Method failure",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        449 => "Retry With",
        450 => "Blocked by Windows Parental Controls",
        451 => "Unavailable For Legal Reasons",
        456 => "Unrecoverable Error",
        499 => "client has closed connection",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway or Proxy Error",
        503 => "Service Unavailable",
        504 => "Gateway Time-out",
        505 => "HTTP Version not supported",
        506 => "Variant also negotiate",
        507 => "Insufficient storage",
        508 => "Loop detected",
        509 => "Bandwidth Limit Exceeded",
        510 => "Not extended",
        511 => "Network authentication required",
        520 => "Web server is returning an unknown error",
        _ => class(status),
    }
}

/// The class of a status.
fn class(status: u16) -> &'static str {
    match status / 100 {
        1 => "Informational",
        2 => "Success",
        3 => "Redirection",
        4 => "Client Error",
        5 => "Server Error",
        _ => "Other",
    }
}

/// Heading and sentence of a status's built-in message.
pub(crate) fn message(status: u16) -> Option<(&'static str, &'static str)> {
    Some(match status {
        200 => ("200 OK", "Service ready."),
        400 => ("400 Bad request", "Your browser sent an invalid request."),
        401 => ("401 Unauthorized", "You need a valid user and password to access this content."),
        403 => ("403 Forbidden", "Request forbidden by administrative rules."),
        404 => ("404 Not Found", "The resource could not be found."),
        405 => (
            "405 Method Not Allowed",
            "A request was made of a resource using a request method not supported by that resource",
        ),
        407 => ("407 Unauthorized", "You need a valid user and password to access this content."),
        408 => ("408 Request Time-out", "Your browser didn't send a complete request in time."),
        410 => ("410 Gone", "The resource is no longer available and will not be available again."),
        413 => ("413 Payload Too Large", "The request entity exceeds the maximum allowed."),
        414 => ("414 URI Too Long", "The requested URL is too long for this server."),
        421 => ("421 Misdirected Request", "Request sent to a non-authoritative server."),
        422 => ("422 Unprocessable Content", "The server cannot process the contained instructions."),
        425 => ("425 Too Early", "Your browser sent early data."),
        429 => ("429 Too Many Requests", "You have sent too many requests in a given amount of time."),
        431 => (
            "431 Request Header Fields Too Large",
            "The request header fields are too large for this server.",
        ),
        500 => ("500 Internal Server Error", "An internal server error occurred."),
        501 => (
            "501 Not Implemented",
            ".The server does not support the functionality required to fulfill the request.",
        ),
        502 => ("502 Bad Gateway", "The server returned an invalid or incomplete response."),
        503 => ("503 Service Unavailable", "No server is available to handle this request."),
        504 => ("504 Gateway Time-out", "The server didn't respond in time."),
        _ => return None,
    })
}
