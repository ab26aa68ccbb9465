//! Why a handshake failed, by the number and the text that OpenSSL has for it (`ssl_fc_err`, `ssl_fc_err_str`).
//!
//! Owns the table from the library's errors to OpenSSL's. Logs and rules that were written for those numbers go on
//! to work; what has no counterpart there is an internal error.

use rustls::{Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

use super::verify::WrongCurve;

/// OpenSSL's number of its TLS part, where it stands in a packed error (ERR_LIB_SSL).
const LIBRARY: u32 = 20 << 23;

/// Alerts that were received: their number on top of this (SSL_AD_REASON_OFFSET).
const ALERTS: u32 = 1000;

/// OpenSSL's reason for the end of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure(u32);

impl Failure {
    pub(crate) const HTTPS_PROXY_REQUEST: Self = Self(155);
    pub(crate) const HTTP_REQUEST: Self = Self(156);
    pub(crate) const WRONG_VERSION_NUMBER: Self = Self(267);
    const INAPPLICABLE_NAME: Self = Self(234);
    const NO_SHARED_CIPHER: Self = Self(193);
    const INTERNAL: Self = Self(0xC_0103);

    /// Of an error of the library.
    pub(crate) fn of(error: &Error, is_tls13: bool, name_is_unknown: bool) -> Self {
        match error {
            Error::AlertReceived(alert) => Self(ALERTS + u32::from(u8::from(*alert))),
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => Self(134),
            Error::NoCertificatesPresented => Self(199),
            Error::PeerIncompatible(what) => Self::of_incompatible(what, is_tls13),
            Error::NoApplicationProtocol => Self(235),
            Error::DecryptError => Self(281),
            Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => Self(244),
            Error::InvalidMessage(
                InvalidMessage::UnknownProtocolVersion | InvalidMessage::InvalidContentType,
            ) => Self::WRONG_VERSION_NUMBER,
            Error::InvalidMessage(_) => Self(159),
            Error::PeerSentOversizedRecord => Self(198),
            Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme) => Self(370),
            Error::Other(other) if other.0.is::<WrongCurve>() => Self(378),
            // The library's word for having no certificate to show, whatever the reason.
            Error::General(_) if name_is_unknown => Self::INAPPLICABLE_NAME,
            Error::General(text) if text.contains("certificate") => Self::no_signature(is_tls13),
            _ => Self::INTERNAL,
        }
    }

    fn of_incompatible(what: &PeerIncompatible, is_tls13: bool) -> Self {
        match what {
            PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::KeyShareExtensionRequired
                if is_tls13 =>
            {
                Self(101)
            }
            PeerIncompatible::NoCipherSuitesInCommon | PeerIncompatible::NoKxGroupsInCommon => {
                Self::NO_SHARED_CIPHER
            }
            PeerIncompatible::NoSignatureSchemesInCommon => Self::no_signature(is_tls13),
            PeerIncompatible::SignatureAlgorithmsExtensionRequired => Self(112),
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => Self(258),
            _ => Self::INTERNAL,
        }
    }

    /// TLS 1.2 chooses signatures with the suite.
    fn no_signature(is_tls13: bool) -> Self {
        if is_tls13 { Self(118) } else { Self::NO_SHARED_CIPHER }
    }

    /// The number as OpenSSL packs it.
    pub fn number(self) -> u32 {
        LIBRARY | self.0
    }

    /// What OpenSSL says of it.
    pub fn reason(self) -> &'static str {
        TEXTS.iter().find(|(number, _)| *number == self.0).map_or("unknown alert", |(_, text)| text)
    }
}

/// OpenSSL's texts (`openssl errstr`).
const TEXTS: &[(u32, &str)] = &[
    (101, "no suitable key share"),
    (112, "missing sigalgs extension"),
    (118, "no suitable signature algorithm"),
    (134, "certificate verify failed"),
    (155, "https proxy request"),
    (156, "http request"),
    (159, "length mismatch"),
    (193, "no shared cipher"),
    (198, "packet length too long"),
    (199, "peer did not return a certificate"),
    (234, "callback failed"),
    (235, "no application protocol"),
    (244, "unexpected message"),
    (258, "unsupported protocol"),
    (267, "wrong version number"),
    (281, "decryption failed or bad record mac"),
    (370, "wrong signature type"),
    (378, "wrong curve"),
    (ALERTS + 10, "sslv3 alert unexpected message"),
    (ALERTS + 20, "sslv3 alert bad record mac"),
    (ALERTS + 21, "tlsv1 alert decryption failed"),
    (ALERTS + 22, "tlsv1 alert record overflow"),
    (ALERTS + 40, "sslv3 alert handshake failure"),
    (ALERTS + 42, "sslv3 alert bad certificate"),
    (ALERTS + 43, "sslv3 alert unsupported certificate"),
    (ALERTS + 44, "sslv3 alert certificate revoked"),
    (ALERTS + 45, "sslv3 alert certificate expired"),
    (ALERTS + 46, "sslv3 alert certificate unknown"),
    (ALERTS + 47, "sslv3 alert illegal parameter"),
    (ALERTS + 48, "tlsv1 alert unknown ca"),
    (ALERTS + 49, "tlsv1 alert access denied"),
    (ALERTS + 50, "tlsv1 alert decode error"),
    (ALERTS + 51, "tlsv1 alert decrypt error"),
    (ALERTS + 60, "tlsv1 alert export restriction"),
    (ALERTS + 70, "tlsv1 alert protocol version"),
    (ALERTS + 71, "tlsv1 alert insufficient security"),
    (ALERTS + 80, "tlsv1 alert internal error"),
    (ALERTS + 86, "tlsv1 alert inappropriate fallback"),
    (ALERTS + 90, "tlsv1 alert user cancelled"),
    (ALERTS + 100, "tlsv1 alert no renegotiation"),
    (ALERTS + 109, "tlsv13 alert missing extension"),
    (ALERTS + 110, "tlsv1 unsupported extension"),
    (ALERTS + 111, "tlsv1 certificate unobtainable"),
    (ALERTS + 112, "tlsv1 unrecognized name"),
    (ALERTS + 113, "tlsv1 bad certificate status response"),
    (ALERTS + 114, "tlsv1 bad certificate hash value"),
    (ALERTS + 115, "tlsv1 alert unknown psk identity"),
    (ALERTS + 116, "tlsv13 alert certificate required"),
    (ALERTS + 120, "tlsv1 alert no application protocol"),
    (0xC_0103, "internal error"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, CertificateError};

    #[test]
    fn numbers_and_texts_are_those_of_openssl() {
        let check = |error: Error, is_tls13: bool, number: u32, text: &str| {
            let failure = Failure::of(&error, is_tls13, false);
            assert_eq!((failure.number(), failure.reason()), (number, text), "{error:?}");
        };
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        check(expired, false, 0x0A00_0086, "certificate verify failed");
        check(Error::AlertReceived(AlertDescription::UnknownCA), true, 0x0A00_0418, "tlsv1 alert unknown ca");
        check(Error::AlertReceived(AlertDescription::Unknown(99)), true, 0x0A00_044B, "unknown alert");
        let groups = || Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon);
        check(groups(), true, 0x0A00_0065, "no suitable key share");
        check(groups(), false, 0x0A00_00C1, "no shared cipher");
        check(Error::FailedToGetRandomBytes, true, 0x0A0C_0103, "internal error");
        let no_certificate = Error::General("no server certificate chain resolved".to_owned());
        check(no_certificate.clone(), true, 0x0A00_0076, "no suitable signature algorithm");
        assert_eq!(Failure::of(&no_certificate, true, true).reason(), "callback failed");
    }
}
