//! Lines about connections that end before their first request (manual, 8.2.5).

use std::io::{self, ErrorKind, Write};
use std::rc::Rc;

use weir_config::model::Proxy;
use weir_rules::Txn;
use weir_rules::facts::{Environment, Session, TlsFacts, TlsObjections};
use weir_rules::table::log_formats;

use super::{Logger, NO_DATA, level};

/// What went wrong before the first request, or in a handshake with a server: number, name and text as `fc_err` and its like give them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EarlyError {
    ProxyHeaderMissing,
    ProxyHeaderLate,
    ProxyHeaderWrong,
    TlsClosed,
    TlsBroken,
    TlsLate,
    /// The certificate of an authority above the client's.
    TlsAuthority,
    /// The client's certificate.
    TlsCertificate,
    /// The server's certificate is not for the host of the line (`verifyhost`).
    TlsOtherCertificate,
    /// The server's certificate is not for the name asked for.
    TlsOtherHost,
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

    /// The same of a client that may have been refused for its certificates.
    pub(crate) fn of_client(error: Option<&io::Error>, facts: Option<&dyn TlsFacts>) -> Self {
        let objections = facts.filter(|facts| facts.failure().is_some()).map(TlsFacts::objections);
        match objections.unwrap_or_default() {
            TlsObjections { authorities: 1.., .. } => Self::TlsAuthority,
            TlsObjections { certificate: 1.., .. } => Self::TlsCertificate,
            _ => Self::of_tls(error),
        }
    }

    /// The client only looked whether somebody listens (`option dontlognull`).
    fn is_probe(self) -> bool {
        matches!(self, Self::ProxyHeaderMissing | Self::TlsClosed | Self::TlsBroken)
    }

    /// Number, name and text.
    pub(crate) fn parts(self) -> (u8, &'static str, &'static str) {
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
            Self::TlsAuthority => (30, "SSL_CA_FAIL", "SSL client CA chain cannot be verified"),
            Self::TlsCertificate => (31, "SSL_CRT_FAIL", "SSL client certificate not trusted"),
            Self::TlsOtherCertificate => {
                (32, "SSL_MISMATCH", "Server presented an SSL certificate different from the configured one")
            }
            Self::TlsOtherHost => (
                33,
                "SSL_MISMATCH_SNI",
                "Server presented an SSL certificate different from the expected one",
            ),
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
        log_formats::connection_error().render(&txn, &mut message);
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
