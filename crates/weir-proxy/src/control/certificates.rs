//! The certificates of the process, and their replacement at run time (`set ssl cert` and its like).
//!
//! Owns which certificates there are, who serves with them, and the one change in preparation.  Reading PEM text and
//! choosing a certificate for a client are `weir-net`'s; the words of the commands are `weir-admin`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use weir_config::model::OcspUpdate;
use weir_net::tls::certificate::{Certificate, CertificateStore, Loaded, Parts};
use weir_net::tls::crt_list::{self, CrtListLine};
use weir_net::tls::ocsp::{CertificateId, Response};
use weir_net::tls::server::TlsServer;

use crate::control::ocsp::Updates;
use crate::control::transaction::Transaction;
use crate::control::trust::TrustChange;

/// Most certificates made at run time and not filled yet.
const MAX_EMPTY: usize = 1024;

/// Most lines of a crt-list that lines are added to at run time.
const MAX_LINES: usize = 100_000;

/// Files that belong to a certificate and are changed by their own names.
const KEY: &str = ".key";
const OCSP: &str = ".ocsp";
const ISSUER: &str = ".issuer";

/// Certificates in use and in preparation.
#[derive(Default)]
pub struct Certificates {
    /// All that were loaded, by the names of their files.
    pub store: CertificateStore,
    /// The bind lines with TLS.
    servers: Mutex<Vec<Arc<TlsServer>>>,
    /// The same with what each bind line is called; lines with the same settings share a server.
    lines: Mutex<Vec<(BindLine, Arc<TlsServer>)>>,
    change: Mutex<Change>,
    lists: Mutex<BTreeMap<PathBuf, Vec<ListEntry>>>,
    /// When OCSP responses are fetched.
    pub updates: Updates,
    /// The change of a file of authorities.
    pub authorities: TrustChange,
    /// The change of a file of revocation lists.
    pub revocations: TrustChange,
    /// `ocsp-update.*`
    ocsp_times: OcspUpdate,
}

/// A bind line with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindLine {
    /// Whose it is.
    pub frontend: String,
    /// Where it stands: file and line.
    pub place: String,
}

/// A line of a crt-list in use.
#[derive(Clone, Debug)]
pub struct ListEntry {
    /// The line.
    pub line: CrtListLine,
    /// The name of its certificate.
    pub certificate: String,
}

/// What is prepared.
#[derive(Default)]
struct Change {
    /// Names made by `new ssl cert` that have no content yet.
    empty: BTreeSet<String>,
    /// At most one change at a time, as in HAProxy.
    current: Transaction<Pending>,
}

/// The parts of a certificate that are to be replaced.
#[derive(Clone, Default)]
struct Pending {
    pem: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    ocsp: Option<Vec<u8>>,
    issuer: Option<Vec<u8>>,
}

impl Pending {
    /// What it would become; the certificate's text may hold the key too.
    fn load(&self, name: &str, store: &CertificateStore) -> Result<Loaded, String> {
        let parts = Parts {
            pem: self.pem.as_deref().unwrap_or_default(),
            key: self.key.as_deref(),
            ocsp: self.ocsp.as_deref(),
            issuer: self.issuer.as_deref(),
        };
        match store.find(name) {
            Some(known) => known.current().replaced(&parts, store.chains()),
            None if self.pem.is_none() => Err("no certificate was given".to_owned()),
            None => Loaded::new(&parts, store.chains()),
        }
    }
}

/// Why two lines cannot have the same certificate.
const DIFFERENT_UPDATE: &str = "is used with a different parameter 'ocsp-update' elsewhere";

/// Whether a change was begun or went on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// It is new.
    Created,
    /// There was one for the same certificate.
    Updated,
}

impl Certificates {
    pub(crate) fn new(ocsp_times: &OcspUpdate) -> Self {
        Self { ocsp_times: ocsp_times.clone(), ..Self::default() }
    }

    /// A bind line serves with certificates of the store.
    ///
    /// # Errors
    /// A certificate would have its OCSP response fetched by one line and not by another.
    pub(crate) fn register(&self, server: &Arc<TlsServer>) -> Result<(), String> {
        let own = server.ocsp_updates();
        let mut servers = locked(&self.servers);
        for (certificate, on) in servers.iter().flat_map(|known| known.ocsp_updates()).chain(own.clone()) {
            if own.iter().any(|(other, update)| Arc::ptr_eq(&certificate, other) && *update != on) {
                return Err(format!("certificate '{}' {DIFFERENT_UPDATE}", certificate.name()));
            }
        }
        if !servers.iter().any(|known| Arc::ptr_eq(known, server)) {
            servers.push(Arc::clone(server));
        }
        let mut lists = locked(&self.lists);
        for list in server.lists() {
            // The file was read a moment ago: what cannot be read again cannot be changed either.
            let Ok(lines) = server.list_lines(list) else { continue };
            let entries = lines.into_iter().map(|(line, certificate)| ListEntry { line, certificate });
            lists.entry(list.to_path_buf()).or_insert_with(|| entries.collect());
        }
        Ok(())
    }

    /// Remembers what a bind line is called.
    pub(crate) fn name_line(&self, line: BindLine, server: &Arc<TlsServer>) {
        let mut lines = locked(&self.lines);
        if !lines.iter().any(|(known, _)| *known == line) {
            lines.push((line, Arc::clone(server)));
        }
    }

    /// The bind lines with TLS and what they serve with.
    #[must_use]
    pub fn lines(&self) -> Vec<(BindLine, Arc<TlsServer>)> {
        locked(&self.lines).clone()
    }

    /// What could not be used of files and is not needed, a sentence for each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let remark = |certificate: Arc<Certificate>| {
            let current = certificate.current();
            current.remark().map(|remark| format!("certificate '{}': {remark}", certificate.name()))
        };
        self.store.all().into_iter().filter_map(remark).collect()
    }

    /// Looks again which OCSP responses are to be fetched.
    pub(crate) fn plan_updates(&self) {
        let used = locked(&self.servers).iter().flat_map(|server| server.ocsp_updates()).collect::<Vec<_>>();
        let wanted: Vec<_> =
            used.into_iter().filter(|(_, on)| *on).map(|(certificate, _)| certificate).collect();
        self.updates.plan(&wanted, &self.ocsp_times);
    }

    /// Certificates with an OCSP response or the prospect of one, each response once.
    #[must_use]
    pub fn with_ocsp(&self) -> BTreeMap<CertificateId, Arc<Certificate>> {
        let mut found = BTreeMap::new();
        for certificate in self.store.all() {
            let loaded = certificate.current();
            if let Some(id) = loaded.ocsp_id()
                && (loaded.uses_ocsp() || self.updates.is_planned(&id))
            {
                found.entry(id).or_insert(certificate);
            }
        }
        found
    }

    /// `set ssl ocsp-response`: the certificates it is about use it from the next handshake on.
    ///
    /// # Errors
    /// It cannot be used, or is about no certificate that has a response.
    pub fn set_ocsp(&self, der: &[u8]) -> Result<(), String> {
        let response = Response::parse(der).ok_or("the OCSP response is malformed or too long")?;
        let single = response.basic.as_ref().and_then(|basic| basic.singles.first());
        let id = single.and_then(|single| single.id.as_ref()).ok_or("there is no answer in it")?;
        if !self.with_ocsp().contains_key(id) {
            return Err("OCSP single response: certificate ID does not match any certificate".to_owned());
        }
        self.set_ocsp_of(id, der)
    }

    /// Uses a response for all certificates that it is about.
    pub(crate) fn set_ocsp_of(&self, id: &CertificateId, der: &[u8]) -> Result<(), String> {
        // No certificate may be replaced between reading and writing it.
        let _change = locked(&self.change);
        for certificate in self.store.all() {
            let loaded = certificate.current();
            if loaded.ocsp_id().as_ref() == Some(id) {
                certificate.replace(loaded.with_ocsp(der)?);
            }
        }
        Ok(())
    }

    /// What the change in preparation would make of a certificate.
    ///
    /// # Errors
    /// There is none, or its parts do not fit together yet.
    pub fn prepared(&self, name: &str) -> Result<Loaded, String> {
        let change = locked(&self.change);
        let pending = change.current.current().filter(|(changing, _)| *changing == name);
        pending.ok_or("No ongoing transaction!")?.1.load(name, &self.store)
    }

    /// The crt-lists with their lines.
    #[must_use]
    pub fn lists(&self) -> BTreeMap<PathBuf, Vec<ListEntry>> {
        locked(&self.lists).clone()
    }

    /// `add ssl crt-list`: one line more for every bind line that uses the list.
    ///
    /// # Errors
    /// The list or the certificate is not known, or the line's options cannot be used.
    pub fn add_line(&self, list: &str, text: &str) -> Result<String, String> {
        let fail = |reason: String| format!("Can't edit the crt-list: {reason}");
        let mut lists = locked(&self.lists);
        let path = Path::new(list);
        let entries =
            lists.get_mut(path).ok_or_else(|| fail(format!("crt-list '{list}' does not exist!")))?;
        let parsed = crt_list::parse(text).map_err(fail)?;
        let [line] = parsed.as_slice() else { return Err(fail("exactly one line is expected".to_owned())) };
        if entries.len() >= MAX_LINES {
            return Err(fail(format!("'{list}' has {MAX_LINES} lines already")));
        }
        let number = entries.iter().map(|entry| entry.line.number).max().unwrap_or(0) + 1;
        let line = CrtListLine { number, ..line.clone() };
        let written = line.file.to_string_lossy().into_owned();
        let name = self.serving(path).first().map_or(written, |server| server.certificate_name(&line));
        let certificate = self.store.find(&name);
        let certificate = certificate.ok_or_else(|| fail(format!("certificate '{name}' does not exist!")))?;
        self.check_update(path, &line, &certificate).map_err(fail)?;
        for server in self.serving(path) {
            if let Err(error) = server.add_line(path, &line, Arc::clone(&certificate), &self.store) {
                self.serving(path).iter().for_each(|server| server.remove_line(path, number));
                return Err(fail(error.to_string()));
            }
        }
        entries.push(ListEntry { line, certificate: name.clone() });
        self.plan_updates();
        Ok(name)
    }

    /// Whether a new line agrees with all others about fetching a certificate's OCSP response.
    fn check_update(
        &self,
        list: &Path,
        line: &CrtListLine,
        certificate: &Arc<Certificate>,
    ) -> Result<(), String> {
        let used: Vec<_> = locked(&self.servers).iter().flat_map(|server| server.ocsp_updates()).collect();
        for server in self.serving(list) {
            let on = server.would_update_ocsp(line, certificate)?;
            if used.iter().any(|(other, update)| Arc::ptr_eq(certificate, other) && *update != on) {
                return Err(format!("certificate '{}' {DIFFERENT_UPDATE}", certificate.name()));
            }
        }
        Ok(())
    }

    /// `del ssl crt-list`: takes a certificate's line away; its number says which when there are several.
    ///
    /// # Errors
    /// There is no such line, or a bind line needs it as its default.
    pub fn delete_line(&self, list: &str, certificate: &str) -> Result<String, String> {
        let fail = |reason: String| format!("Can't delete the entry: {reason}");
        let mut lists = locked(&self.lists);
        let path = Path::new(list);
        let entries =
            lists.get_mut(path).ok_or_else(|| fail(format!("crt-list '{list}' does not exist!")))?;
        let numbered =
            certificate.rsplit_once(':').and_then(|(name, n)| Some((name, Some(n.parse::<usize>().ok()?))));
        let (name, number) = numbered.unwrap_or((certificate, None));
        let fits =
            |entry: &&ListEntry| entry.certificate == name && number.is_none_or(|n| n == entry.line.number);
        let found: Vec<usize> = entries.iter().filter(fits).map(|entry| entry.line.number).collect();
        let number = match found.as_slice() {
            [] => return Err(fail(format!("entry '{certificate}' is not in the crt-list '{list}'!"))),
            [one] => *one,
            _ => {
                return Err(fail(format!(
                    "certificate '{name}' is used several times in '{list}': give its line number"
                )));
            }
        };
        if self.serving(path).iter().any(|server| server.is_default_line(path, number)) {
            return Err(fail(format!(
                "certificate '{name}' cannot be deleted, it is used as default certificate by the following frontends:"
            )));
        }
        self.serving(path).iter().for_each(|server| server.remove_line(path, number));
        entries.retain(|entry| entry.line.number != number);
        self.plan_updates();
        Ok(name.to_owned())
    }

    /// The bind lines that use a list.
    fn serving(&self, list: &Path) -> Vec<Arc<TlsServer>> {
        locked(&self.servers).iter().filter(|server| server.lists().any(|own| own == list)).cloned().collect()
    }

    /// Whether a bind line verifies clients with a file.
    pub(crate) fn trusts_by(&self, file: &Path) -> bool {
        locked(&self.servers).iter().any(|server| server.trusts_by(file))
    }

    /// A file of authorities or revocation lists is another one.
    pub(crate) fn rebuild(&self, file: &Path) -> Result<(), String> {
        let servers = locked(&self.servers).clone();
        servers
            .iter()
            .try_for_each(|server| server.rebuild(file, &self.store))
            .map_err(|error| error.to_string())
    }

    /// Whether a bind line serves with it.
    #[must_use]
    pub fn is_used(&self, certificate: &Arc<Certificate>) -> bool {
        let of = |server: &Arc<TlsServer>| server.certificates();
        locked(&self.servers).iter().flat_map(of).any(|used| Arc::ptr_eq(&used, certificate))
    }

    /// Names without content.
    #[must_use]
    pub fn empty(&self) -> Vec<String> {
        locked(&self.change).empty.iter().cloned().collect()
    }

    /// The certificate being changed.
    #[must_use]
    pub fn changing(&self) -> Option<String> {
        locked(&self.change).current.current().map(|(name, _)| name.to_owned())
    }

    /// `new ssl cert`
    ///
    /// # Errors
    /// It is there already, or there are too many.
    pub fn create(&self, name: &str) -> Result<(), String> {
        let mut change = locked(&self.change);
        if self.store.find(name).is_some() || change.empty.contains(name) {
            return Err(format!("Certificate '{name}' already exists!"));
        }
        if change.empty.len() >= MAX_EMPTY {
            return Err(format!("There are already {MAX_EMPTY} empty certificates."));
        }
        change.empty.insert(name.to_owned());
        Ok(())
    }

    /// `set ssl cert`: prepares a change of a certificate, or of its key or OCSP response by their own names.
    ///
    /// # Errors
    /// Another certificate is being changed, there is none of that name, or the text cannot be used.
    pub fn prepare(&self, file: &str, content: Vec<u8>) -> Result<(String, Prepared), String> {
        let mut change = locked(&self.change);
        let is_known = |name: &str| self.store.find(name).is_some() || change.empty.contains(name);
        let part = [KEY, OCSP, ISSUER].into_iter().find(|suffix| file.ends_with(suffix) && !is_known(file));
        let stem = part.and_then(|suffix| file.strip_suffix(suffix)).unwrap_or(file);
        // `ssl-load-extra-del-ext`: the files of `name.crt` may have another ending instead of one more.
        let replaced = format!("{stem}.crt");
        let name = if part.is_some() && !is_known(stem) && is_known(&replaced) { &replaced } else { stem };
        if !is_known(name) {
            return Err(format!(
                "Can't replace a certificate which is not referenced by the configuration!\nCan't update {file}!"
            ));
        }
        let current = change.current.find("set", name)?;
        let prepared = if current.is_some() { Prepared::Updated } else { Prepared::Created };
        // What cannot be used leaves what was prepared before as it is.
        let mut pending = current.cloned().unwrap_or_default();
        match part.unwrap_or_default() {
            KEY => pending.key = Some(content),
            OCSP => pending.ocsp = Some(from_base64(&content)?),
            ISSUER => pending.issuer = Some(content),
            _ => pending.pem = Some(content),
        }
        // A certificate and its key may come one after the other; what is no PEM at all is refused at once.
        let refused = match (&pending.pem, &pending.key) {
            (Some(pem), _) if !contains(pem, b"-----BEGIN CERTIFICATE-----") => {
                Some("there is no certificate in it")
            }
            _ if pending
                .issuer
                .as_ref()
                .is_some_and(|issuer| !contains(issuer, b"-----BEGIN CERTIFICATE-----")) =>
            {
                Some("there is no certificate of an issuer in it")
            }
            (_, Some(key)) if !contains(key, b"PRIVATE KEY-----") => Some("there is no private key in it"),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(format!(
                "unable to load certificate from file '{file}': {reason}.\nCan't update {file}!"
            ));
        }
        change.current.set(name, pending);
        Ok((name.to_owned(), prepared))
    }

    /// `commit ssl cert`: the next handshakes use the new content.
    ///
    /// # Errors
    /// Nothing is prepared for it, or what is prepared does not fit together; it stays prepared then.
    pub fn commit(&self, name: &str) -> Result<(), String> {
        let mut change = locked(&self.change);
        let pending = change.current.ongoing("commit", name)?;
        let loaded = pending
            .load(name, &self.store)
            .map_err(|reason| format!("inconsistencies between private key and certificate: {reason}"))?;
        self.store.insert(name.to_owned(), loaded);
        change.empty.remove(name);
        change.current.end();
        // Names may have changed with the content.
        locked(&self.servers).iter().for_each(|server| server.refresh());
        drop(change);
        self.plan_updates();
        Ok(())
    }

    /// `abort ssl cert`
    ///
    /// # Errors
    /// Nothing is prepared for it.
    pub fn abort(&self, name: &str) -> Result<(), String> {
        locked(&self.change).current.abort(name)
    }

    /// `del ssl cert`
    ///
    /// # Errors
    /// It does not exist or is in use.
    pub fn delete(&self, name: &str) -> Result<(), String> {
        let fail = |reason: String| Err(format!("Can't remove the certificate: {reason}"));
        let mut change = locked(&self.change);
        if change.current.is_about(name) {
            return fail(format!("certificate '{name}' is being changed, can't be deleted!"));
        }
        if change.empty.remove(name) {
            return Ok(());
        }
        match self.store.find(name) {
            None => fail(format!("certificate '{name}' doesn't exist!")),
            Some(used) if self.is_used(&used) => {
                fail(format!("certificate '{name}' in use, can't be deleted!"))
            }
            Some(_) => {
                self.store.remove(name);
                Ok(())
            }
        }
    }
}

/// Bytes from base64, which may have line breaks.
///
/// # Errors
/// It is none.
pub fn from_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    decoded.map_err(|error| format!("the OCSP response is no base64: {error}"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
