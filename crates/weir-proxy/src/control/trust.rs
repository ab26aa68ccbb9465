//! Replacing files of authorities and of revocation lists at run time (`set ssl ca-file`, `set ssl crl-file`).
//!
//! Owns the one change of each kind in preparation and who has to know when it is put in force. The words of the
//! commands are `weir-admin`'s.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use weir_net::tls::trust_files::{TrustFiles, TrustItem};

use crate::control::certificates::{Prepared, locked};
use crate::control::transaction::Transaction;
use crate::state::Shared;

/// Most files made at run time and not filled yet.
const MAX_EMPTY: usize = 1024;

/// Most bytes of certificates or lists that one file can be given at run time.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The change of one kind of files.
#[derive(Default)]
pub struct TrustChange(Mutex<Change>);

#[derive(Default)]
struct Change {
    /// Names made by `new ssl ca-file` that have no content yet.
    empty: BTreeSet<String>,
    /// The file being changed and its new text.
    current: Transaction<Vec<u8>>,
}

impl TrustChange {
    /// Names without content.
    #[must_use]
    pub fn empty(&self) -> Vec<String> {
        locked(&self.0).empty.iter().cloned().collect()
    }

    /// The file being changed and what it will hold.
    #[must_use]
    pub fn current<T: TrustItem>(&self) -> Option<(String, Vec<T>)> {
        let change = locked(&self.0);
        let (name, text) = change.current.current()?;
        Some((name.to_owned(), T::read_text(text).ok()?))
    }

    /// `new ssl ca-file`
    ///
    /// # Errors
    /// It is there already, or there are too many.
    pub fn create<T: TrustItem>(&self, files: &TrustFiles<T>, name: &str) -> Result<(), String> {
        let mut change = locked(&self.0);
        if files.find(name).is_some() || change.empty.contains(name) {
            return Err(format!("'{name}' already exists!"));
        }
        if change.empty.len() >= MAX_EMPTY {
            return Err(format!("There are already {MAX_EMPTY} empty files."));
        }
        change.empty.insert(name.to_owned());
        Ok(())
    }

    /// `set ssl ca-file`, or `add ssl ca-file` when the text is `added` to what is prepared or in force.
    ///
    /// # Errors
    /// Another file is being changed, there is none of that name, or the text cannot be used.
    pub fn prepare<T: TrustItem>(
        &self,
        files: &TrustFiles<T>,
        name: &str,
        text: &[u8],
        added: bool,
    ) -> Result<Prepared, String> {
        let mut change = locked(&self.0);
        if files.find(name).is_none() && !change.empty.contains(name) {
            return Err(format!(
                "Can't replace a file which is not referenced by the configuration!\nCan't update {name}!"
            ));
        }
        let current = change.current.find("set", name)?;
        let read = T::read_text(text).map_err(|reason| format!("{reason}\nCan't update {name}!"))?;
        if read.is_empty() {
            return Err(format!("there is no {} in it\nCan't update {name}!", T::NAME));
        }
        let prepared = if current.is_some() { Prepared::Updated } else { Prepared::Created };
        let before = current.filter(|_| added).map_or(&[][..], Vec::as_slice);
        let whole = [before, text, b"\n"].concat();
        if whole.len() > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes\nCan't update {name}!"));
        }
        change.current.set(name, whole);
        Ok(prepared)
    }

    /// `abort ssl ca-file`
    ///
    /// # Errors
    /// Nothing is prepared for it.
    pub fn abort(&self, name: &str) -> Result<(), String> {
        locked(&self.0).current.abort(name)
    }

    /// `commit ssl ca-file`: from the next handshake on the new content counts; when it cannot be used, all stays
    /// as it was.
    ///
    /// # Errors
    /// Nothing is prepared for it, or it cannot be used.
    pub fn commit<T: TrustItem>(
        &self,
        shared: &Shared,
        files: &TrustFiles<T>,
        name: &str,
    ) -> Result<(), String> {
        let mut change = locked(&self.0);
        let text = change.current.ongoing("commit", name)?;
        let before = files.set(name, T::read_text(text)?);
        if let Err(reason) = shared.trust_changed(Path::new(name)) {
            match before {
                Some(before) => drop(files.set(name, before.to_vec())),
                None => files.remove(name),
            }
            // They were in use a moment ago.
            drop(shared.trust_changed(Path::new(name)));
            return Err(reason);
        }
        change.empty.remove(name);
        change.current.end();
        Ok(())
    }

    /// `del ssl ca-file`
    ///
    /// # Errors
    /// It does not exist or is in use.
    pub fn delete<T: TrustItem>(
        &self,
        shared: &Shared,
        files: &TrustFiles<T>,
        name: &str,
    ) -> Result<(), String> {
        let mut change = locked(&self.0);
        if change.current.is_about(name) {
            return Err(format!("'{name}' is being changed, can't be deleted!"));
        }
        if change.empty.remove(name) {
            return Ok(());
        }
        if files.find(name).is_none() {
            return Err(format!("'{name}' doesn't exist!"));
        }
        if shared.trusts_by(Path::new(name)) {
            return Err(format!("'{name}' in use, can't be deleted!"));
        }
        files.remove(name);
        Ok(())
    }
}

impl Shared {
    /// Whether a bind or server line verifies with a file.
    #[must_use]
    pub fn trusts_by(&self, file: &Path) -> bool {
        self.certificates.trusts_by(file) || self.any_server_tls(|ssl| names(ssl, file))
    }

    fn trust_changed(&self, file: &Path) -> Result<(), String> {
        self.certificates.rebuild(file)?;
        self.renew_servers(|ssl| names(ssl, file))
    }
}

fn names(ssl: &weir_config::model::SslServer, file: &Path) -> bool {
    [&ssl.words.ca_file, &ssl.words.crl_file].into_iter().flatten().any(|own| own == file)
}
