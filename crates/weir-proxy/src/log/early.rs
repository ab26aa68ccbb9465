//! Lines about connections that end before their first request (manual, 8.2.5).

use std::io::{self, ErrorKind, Write};
use std::rc::Rc;

use weir_config::model::Proxy;
use weir_rules::txn::{Environment, Session};
use weir_rules::{Txn, log_format};

use super::{Logger, NO_DATA, level};

/// What went wrong before the first request: number, name and text as `fc_err` and its like give them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EarlyError {
    ProxyHeaderMissing,
    ProxyHeaderLate,
    ProxyHeaderWrong,
    TlsClosed,
    TlsBroken,
    TlsLate,
    TlsRefused,
}

impl EarlyError {
    /// How a TLS handshake ended; `None` is the end of the time it had.
    pub(crate) fn of_tls(error: Option<&io::Error>) -> Self {
        match error.map(io::Error::kind) {
            None => Self::TlsLate,
            Some(ErrorKind::UnexpectedEof) => Self::TlsClosed,
            Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => Self::TlsBroken,
            Some(_) => Self::TlsRefused,
        }
    }

    /// The client only looked whether somebody listens (`option dontlognull`).
    fn is_probe(self) -> bool {
        matches!(self, Self::ProxyHeaderMissing | Self::TlsClosed | Self::TlsBroken)
    }

    fn parts(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::ProxyHeaderMissing => {
                (11, "PRX_EMPTY", "Connection closed while waiting for PROXY protocol header")
            }
            Self::ProxyHeaderLate => (13, "PRX_TIMEOUT", "Timeout while waiting for PROXY protocol header"),
            Self::ProxyHeaderWrong => {
                (15, "PRX_NOT_HDR", "Received something which does not look like a PROXY protocol header")
            }
            Self::TlsClosed => (24, "SSL_EMPTY", "Connection closed during SSL handshake"),
            Self::TlsBroken => (25, "SSL_ABORT", "Connection error during SSL handshake"),
            Self::TlsLate => (26, "SSL_TIMEOUT", "Timeout during SSL handshake"),
            Self::TlsRefused => (34, "SSL_HANDSHAKE", "SSL handshake failure"),
        }
    }
}

/// Logs a connection that never got to a request.
pub(crate) fn connection(
    logger: &Logger,
    front: &Proxy,
    session: Session,
    env: Rc<dyn Environment>,
    error: EarlyError,
) {
    if front.logs.is_empty() || (front.options.dontlognull && error.is_probe()) {
        return;
    }
    let mut txn = Txn::new(Rc::new(session), env);
    txn.client_error = error.parts();
    let mut message = Vec::with_capacity(128);
    if let Some(format) = &front.error_log_format {
        format.render(&txn, &mut message);
    } else {
        log_format::connection_error().render(&txn, &mut message);
        let session = &txn.session;
        // Writing to memory cannot fail.
        let _written = match &*session.listener_name {
            "" => write!(message, "{}: {}", session.listener_id, txn.client_error.2),
            name => write!(message, "{name}: {}", txn.client_error.2),
        };
    }
    let level = if front.options.log_separate_errors { level::ERR } else { level::INFO };
    logger.send_with(&front.logs, level, front.log_tag.as_deref(), NO_DATA, &message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_handshakes() {
        let check = |kind: Option<ErrorKind>, text: &str, probe: bool| {
            let error = EarlyError::of_tls(kind.map(io::Error::from).as_ref());
            assert_eq!((error.parts().2, error.is_probe()), (text, probe), "{kind:?}");
        };
        check(Some(ErrorKind::UnexpectedEof), "Connection closed during SSL handshake", true);
        check(Some(ErrorKind::ConnectionReset), "Connection error during SSL handshake", true);
        check(Some(ErrorKind::InvalidData), "SSL handshake failure", false);
        check(None, "Timeout during SSL handshake", false);
    }
}
