//! Key exchange on P-521, which the TLS library leaves out: slow and rarely of use, but named in configurations.

use aws_lc_rs::agreement::{ECDH_P521, EphemeralPrivateKey, PublicKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// A point begins so when both of its coordinates follow.
const UNCOMPRESSED: u8 = 4;

/// The group, only for lines that name it.
pub(crate) static SECP521R1: &dyn SupportedKxGroup = &P521;

#[derive(Debug)]
struct P521;

impl SupportedKxGroup for P521 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let own =
            EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new()).map_err(|_| GetRandomFailed)?;
        let shown = own.compute_public_key().map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Exchange { own, shown }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Exchange {
    own: EphemeralPrivateKey,
    shown: PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        // RFC 8446 section 4.2.8.2, RFC 8422 section 5.4.1: other forms of a point are not negotiated.
        if peer.first() != Some(&UNCOMPRESSED) {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        let wrong = PeerMisbehaved::InvalidKeyShare.into();
        agree_ephemeral(self.own, peer, wrong, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.shown.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree() {
        let (a, b) = (SECP521R1.start().unwrap(), SECP521R1.start().unwrap());
        let (shown_a, shown_b) = (a.pub_key().to_vec(), b.pub_key().to_vec());
        let (a, b) = (a.complete(&shown_b).unwrap(), b.complete(&shown_a).unwrap());
        assert_eq!(a.secret_bytes(), b.secret_bytes());
        // Leading zeros stay (RFC 8446 section 7.4.2).
        assert_eq!(a.secret_bytes().len(), 66);
        for wrong in [&[][..], &[2; 67], &[4; 133], &shown_a[..132]] {
            assert!(SECP521R1.start().unwrap().complete(wrong).is_err());
        }
    }
}
