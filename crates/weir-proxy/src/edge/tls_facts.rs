//! What rules may know of a TLS handshake, as long as its connection lives.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_net::tls::certificate::{Certificate, Loaded};
use weir_net::tls::early::EarlyHandshake;
use weir_net::tls::info::{Details, Objections, TlsInfo, VERIFY_OK};
use weir_rules::facts::{HelloPart, TlsFacts, TlsFailure, TlsObjections};

/// What stays known of a handshake.
pub(crate) struct Facts {
    version: &'static str,
    cipher: &'static str,
    group: Option<&'static str>,
    sni: Option<Box<str>>,
    alpn: Option<Box<[u8]>>,
    resumed: bool,
    /// The peer's certificate and those behind it.
    peer: Box<[Box<[u8]>]>,
    own: Option<Arc<Loaded>>,
    own_name: Option<Arc<Certificate>>,
    rare: Option<Box<Rare>>,
}

/// What is there to know of few handshakes: those that failed or nearly did, those with early data, and those that the
/// configuration keeps more of.
struct Rare {
    verify_error: u32,
    objections: TlsObjections,
    failure: Option<TlsFailure>,
    early: Option<Arc<EarlyHandshake>>,
    details: Option<Details>,
    /// Bytes of the lists in the client's hello that may be seen (`tune.ssl.capture-buffer-size`).
    capture: usize,
}

/// What OpenSSL calls the cipher of a handshake that has none.
const NO_CIPHER: &str = "(NONE)";

impl Facts {
    pub(crate) fn new(info: &TlsInfo, capture: usize) -> Self {
        Self {
            version: info.version(),
            cipher: Some(info.cipher()).filter(|name| !name.is_empty()).unwrap_or(NO_CIPHER),
            group: info.group(),
            sni: info.server_name().map(Into::into),
            alpn: info.alpn().map(Into::into),
            resumed: info.is_resumed(),
            peer: info.peer_certificates().iter().map(|der| der.as_ref().into()).collect(),
            own: info.local_certificate().map(|certificate| certificate.current()),
            own_name: info.local_certificate().cloned(),
            rare: Rare::new(info, capture).map(Box::new),
        }
    }

    /// The handshake, when data came before its end.
    fn early(&self) -> Option<&EarlyHandshake> {
        self.rare.as_ref()?.early.as_deref()
    }
}

impl Rare {
    fn new(info: &TlsInfo, capture: usize) -> Option<Self> {
        let objections = info.objections();
        let is_ordinary = info.verify_error() == VERIFY_OK
            && objections == Objections::default()
            && info.failure().is_none()
            && info.early().is_none()
            && info.details().is_none();
        if is_ordinary {
            return None;
        }
        let Objections { certificate, authorities, depth } = objections;
        Some(Self {
            verify_error: info.verify_error(),
            objections: TlsObjections { certificate, authorities, depth },
            failure: info
                .failure()
                .map(|failure| TlsFailure { number: failure.number(), reason: failure.reason() }),
            early: info.early().cloned(),
            details: info.details().cloned(),
            capture,
        })
    }

    fn hello(&self, part: HelloPart, is_tls13: bool) -> Option<Cow<'_, [u8]>> {
        let details = self.details.as_ref()?;
        let captures = self.capture > 0;
        match part {
            HelloPart::ClientRandom => details.client_random().map(Cow::Borrowed),
            HelloPart::ServerRandom => Some(details.server_random[..].into()),
            // In TLS 1.3 it is an echo of what the client made up.
            HelloPart::SessionId if is_tls13 => None,
            HelloPart::SessionId => Some((&*details.session_id).into()),
            HelloPart::Version => details.version().filter(|_| captures).map(Cow::Borrowed),
            HelloPart::AllCiphers => captures.then(|| details.cipher_suites().into()),
            HelloPart::Ciphers => self.captured(0),
            HelloPart::Extensions => self.captured(1),
            HelloPart::Groups => self.captured(2),
            HelloPart::PointFormats => self.captured(3),
            HelloPart::SupportedVersions => self.captured(4),
            HelloPart::SignatureAlgorithms => self.captured(5),
        }
    }

    /// One of the lists in the client's hello, as much of it as the buffer holds behind those before it.
    fn captured(&self, index: usize) -> Option<Cow<'_, [u8]>> {
        let details = self.details.as_ref()?;
        let lists = [
            Cow::Borrowed(details.cipher_suites()),
            details.extension_types().into(),
            details.groups().into(),
            details.point_formats().into(),
            details.supported_versions().into(),
            details.signature_algorithms().into(),
        ];
        let before: usize = lists.iter().take(index).map(|list| list.len()).sum();
        let room = self.capture.saturating_sub(before);
        Some(match lists.into_iter().nth(index)? {
            Cow::Borrowed(list) => list[..list.len().min(room)].into(),
            Cow::Owned(mut list) => {
                list.truncate(room);
                list.into()
            }
        })
    }
}

impl TlsFacts for Facts {
    fn version(&self) -> &'static str {
        self.version
    }

    fn cipher(&self) -> &str {
        self.cipher
    }

    fn sni(&self) -> Option<&str> {
        self.sni.as_deref()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    fn resumed(&self) -> bool {
        self.resumed
    }

    fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer.first().map(AsRef::as_ref)
    }

    fn peer_intermediates(&self) -> &[Box<[u8]>] {
        self.peer.get(1..).unwrap_or_default()
    }

    fn own_certificate(&self) -> Option<&[u8]> {
        self.own.as_deref().map(|loaded| loaded.certificate())
    }

    fn group(&self) -> Option<&str> {
        self.group
    }

    fn verify_error(&self) -> u32 {
        self.rare.as_ref().map_or(VERIFY_OK, |rare| rare.verify_error)
    }

    fn objections(&self) -> TlsObjections {
        self.rare.as_ref().map(|rare| rare.objections).unwrap_or_default()
    }

    fn failure(&self) -> Option<TlsFailure> {
        self.rare.as_ref()?.failure
    }

    fn has_early(&self) -> bool {
        self.early().is_some_and(|early| early.is_pending())
    }

    fn received_early(&self) -> bool {
        self.early().is_some()
    }

    fn poll_complete(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.early().map_or(Poll::Ready(true), |early| early.poll_complete(cx))
    }

    fn own_certificate_name(&self) -> Option<&str> {
        self.own_name.as_ref().map(|certificate| certificate.name())
    }

    fn hello(&self, part: HelloPart) -> Option<Cow<'_, [u8]>> {
        self.rare.as_ref()?.hello(part, self.version == "TLSv1.3")
    }

    fn secret(&self, label: &str) -> Option<&[u8]> {
        self.rare.as_ref()?.details.as_ref()?.secret(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_an_ordinary_handshake_are_small() {
        assert!(size_of::<Facts>() <= 128);
        assert!(Facts::new(&TlsInfo::default(), 1000).rare.is_none());
    }
}
