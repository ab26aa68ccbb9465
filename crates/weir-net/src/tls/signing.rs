//! Keys that make only some of the signatures they could (`sigalgs`, `client-sigalgs`).

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// The schemes of the first list that are in the second too.
pub(crate) fn both(own: &[SignatureScheme], offered: &[SignatureScheme]) -> Vec<SignatureScheme> {
    own.iter().copied().filter(|scheme| offered.contains(scheme)).collect()
}

/// The same certificate with a key that signs by these schemes only.
pub(crate) fn restricted(certified: &CertifiedKey, schemes: &[SignatureScheme]) -> Arc<CertifiedKey> {
    let key = Restricted { key: Arc::clone(&certified.key), schemes: schemes.to_vec() };
    let mut with = CertifiedKey::new(certified.cert.clone(), Arc::new(key));
    with.ocsp.clone_from(&certified.ocsp);
    Arc::new(with)
}

#[derive(Debug)]
struct Restricted {
    key: Arc<dyn SigningKey>,
    schemes: Vec<SignatureScheme>,
}

impl SigningKey for Restricted {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.key.choose_scheme(&both(&self.schemes, offered))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}
