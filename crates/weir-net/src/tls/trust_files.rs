//! Files of authorities and of revocation lists by name: each is read once, and replaceable at run time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use super::certificate::CertificateError;
use super::verify;

/// What stands in such a file.
pub trait TrustItem: Sized + Clone {
    /// What it is called.
    const NAME: &'static str;

    /// Everything of the kind in PEM text.
    fn read_text(pem: &[u8]) -> Result<Vec<Self>, String>;

    /// Everything of the kind in a file or folder.
    fn read(path: &Path) -> Result<Vec<Self>, CertificateError>;
}

impl TrustItem for CertificateDer<'static> {
    const NAME: &'static str = "certificate";

    fn read_text(pem: &[u8]) -> Result<Vec<Self>, String> {
        super::certificate::read_certificates(pem)
    }

    fn read(path: &Path) -> Result<Vec<Self>, CertificateError> {
        verify::read_authorities(path)
    }
}

impl TrustItem for CertificateRevocationListDer<'static> {
    const NAME: &'static str = "revocation list";

    fn read_text(pem: &[u8]) -> Result<Vec<Self>, String> {
        Self::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("a revocation list cannot be read: {error}"))
    }

    fn read(path: &Path) -> Result<Vec<Self>, CertificateError> {
        verify::read_revocations(path)
    }
}

/// The files of one kind.
#[derive(Debug)]
pub struct TrustFiles<T>(Mutex<BTreeMap<String, Arc<Vec<T>>>>);

impl<T> Default for TrustFiles<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: TrustItem> TrustFiles<T> {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Vec<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a file of the configuration holds.
    pub(crate) fn load(&self, path: &Path) -> Result<Arc<Vec<T>>, CertificateError> {
        let name = path.to_string_lossy();
        if let Some(known) = self.find(&name) {
            return Ok(known);
        }
        let read = Arc::new(T::read(path)?);
        self.files().insert(name.into_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// What is known under a name.
    pub fn find(&self, name: &str) -> Option<Arc<Vec<T>>> {
        self.files().get(name).cloned()
    }

    /// Replaces what is known under a name, and returns what it was.
    pub fn set(&self, name: &str, items: Vec<T>) -> Option<Arc<Vec<T>>> {
        self.files().insert(name.to_owned(), Arc::new(items))
    }

    /// Forgets a name.
    pub fn remove(&self, name: &str) {
        self.files().remove(name);
    }

    /// All names with what they stand for.
    pub fn all(&self) -> Vec<(String, Arc<Vec<T>>)> {
        self.files().iter().map(|(name, items)| (name.clone(), Arc::clone(items))).collect()
    }
}
