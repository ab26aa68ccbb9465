//! Certificates with their keys: from PEM files, folders and bundles into memory, replaceable at run time.
//!
//! Owns HAProxy's rules for which files belong together. Which certificate a client gets is left to `sni`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::encrypted_key::{Passphrases, pem_of};
use super::ocsp::{self, CertificateId, Response};
use super::path;
use super::trust_files::TrustFiles;

/// Suffixes of the files of a bundle, one for each type of key.
const BUNDLE_SUFFIXES: [&str; 3] = ["rsa", "ecdsa", "dsa"];

/// Files in a folder that are no certificates by themselves.
const RESERVED_EXTENSIONS: [&str; 4] = ["key", "issuer", "ocsp", "sctl"];

/// The largest file that is read as a certificate, key or list of authorities.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The most certificates taken from one folder.
const MAX_FOLDER_FILES: usize = 1_000_000;

/// Which files beside the named one are looked for (`ssl-load-extra-files`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraFiles {
    /// `name.rsa` and `name.ecdsa` when there is no `name`.
    pub bundle: bool,
    /// `name.key` when `name` holds no key.
    pub key: bool,
    /// `name.ocsp`.
    pub ocsp: bool,
    /// `name.issuer`.
    pub issuer: bool,
    /// `name.key` instead of `name.crt.key` for `name.crt` (`ssl-load-extra-del-ext`).
    pub replace_extension: bool,
    /// An authority that issued itself is not sent along (`ssl-skip-self-issued-ca`).
    pub skip_self_issued: bool,
}

impl ExtraFiles {
    /// `ssl-load-extra-files all`, the default.
    pub const ALL: Self = Self {
        bundle: true,
        key: true,
        ocsp: true,
        issuer: true,
        replace_extension: false,
        skip_self_issued: false,
    };
    /// `ssl-load-extra-files none`.
    pub const NONE: Self = Self { bundle: false, key: false, ocsp: false, issuer: false, ..Self::ALL };

    /// The name of a file that belongs to a certificate's.
    fn beside(&self, path: &Path, suffix: &str) -> PathBuf {
        match path.extension() {
            Some(extension) if self.replace_extension && extension == "crt" => path.with_extension(suffix),
            _ => with_suffix(path, suffix),
        }
    }
}

impl Default for ExtraFiles {
    fn default() -> Self {
        Self::ALL
    }
}

/// Files named explicitly for a certificate, in a crt-list line or a crt-store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedFiles {
    /// The private key.
    pub key: Option<PathBuf>,
    /// The OCSP response to staple.
    pub ocsp: Option<PathBuf>,
    /// The issuer's certificate, which the OCSP response is recognised by.
    pub issuer: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug)]
pub struct CertificateError {
    /// The file or folder concerned.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl CertificateError {
    pub(crate) fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self { path: path.to_path_buf(), reason: reason.to_string() }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for CertificateError {}

/// A named certificate whose content can be replaced while connections use it.
pub struct Certificate {
    name: String,
    pub(crate) current: ArcSwap<Loaded>,
    ocsp_update: OnceLock<bool>,
}

impl Certificate {
    pub(crate) fn new(name: String, loaded: Loaded) -> Self {
        Self { name, current: ArcSwap::from_pointee(loaded), ocsp_update: OnceLock::new() }
    }

    /// Says whether its OCSP response is fetched, for lines that do not say it (`load ... ocsp-update`). Only the
    /// first word on it counts.
    pub fn declare_ocsp_update(&self, on: bool) {
        self.ocsp_update.get_or_init(|| on);
    }

    /// What was declared.
    pub fn declared_ocsp_update(&self) -> Option<bool> {
        self.ocsp_update.get().copied()
    }

    /// The file's name as written in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The content in use.
    pub fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// Uses other content from the next handshake on. Servers that chose by its old names have to be told
    /// with `TlsServer::refresh`.
    pub fn replace(&self, loaded: Loaded) {
        self.current.store(Arc::new(loaded));
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A certificate chain with its key, ready to use.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Without an OCSP response.
    key: Arc<CertifiedKey>,
    /// The key as it was read; none when it is not a file's.
    written: Option<Arc<PrivateKeyDer<'static>>>,
    names: Vec<String>,
    /// The certificate of the issuer, when it is known.
    issuer: Option<CertificateDer<'static>>,
    ocsp: Ocsp,
    /// What could not be used and is not needed.
    remark: Option<String>,
}

/// What is known of a certificate's OCSP response.
#[derive(Debug, Clone)]
enum Ocsp {
    /// Nobody asked for one.
    Unused,
    /// It is to be stapled when there will be one (an empty `.ocsp` file).
    Awaited,
    /// The key with the response, and when that expires, in seconds since 1970.
    Stapled(Arc<CertifiedKey>, Option<i64>),
}

/// The contents of the files of one certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'a> {
    /// The certificate, those above it, and often its key (PEM).
    pub pem: &'a [u8],
    /// The key, when it is in a file of its own (PEM).
    pub key: Option<&'a [u8]>,
    /// The OCSP response (DER); empty when one is expected later.
    pub ocsp: Option<&'a [u8]>,
    /// The issuer's certificate (PEM).
    pub issuer: Option<&'a [u8]>,
}

impl Loaded {
    /// Reads certificate chain and private key from PEM text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        Self::new(&Parts { pem, ..Parts::default() }, &[])
    }

    /// Reads the files of a certificate. Where no issuer is sent along, `chains` may have one
    /// (`issuers-chain-path`).
    ///
    /// The first certificate is the one for the key, as in HAProxy; those behind it are sent along.
    pub fn new(parts: &Parts<'_>, chains: &[IssuerChain]) -> Result<Self, String> {
        let chain = read_certificates(parts.pem)?;
        if chain.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let (key, written) = read_key(parts.key.unwrap_or(parts.pem))?;
        let issuers = parts.issuer.map(read_certificates).transpose()?.unwrap_or_default();
        Self { written: Some(written), ..Self::assemble(chain, key, &issuers, chains)? }
            .with_ocsp_file(parts.ocsp)
    }

    /// The same with some parts replaced; empty ones stay as they are (`set ssl cert`).
    pub fn replaced(&self, parts: &Parts<'_>, chains: &[IssuerChain]) -> Result<Self, String> {
        let chain = match parts.pem {
            [] => self.chain().to_vec(),
            pem => read_certificates(pem)?,
        };
        let (key, written) = match parts.key.or_else(|| Some(parts.pem).filter(|pem| contains_key(pem))) {
            Some(pem) => read_key(pem).map(|(key, written)| (key, Some(written)))?,
            None => (Arc::clone(&self.key.key), self.written.clone()),
        };
        let issuers = match parts.issuer {
            Some(pem) => read_certificates(pem)?,
            None => self.issuer.iter().cloned().collect(),
        };
        let new = Self { written, ..Self::assemble(chain, key, &issuers, chains)? };
        if parts.ocsp.is_some() || !self.uses_ocsp() {
            return new.with_ocsp_file(parts.ocsp);
        }
        // The response in use stays, if it is about the certificate still.
        let stays = self.ocsp_response().and_then(|response| new.with_ocsp(response).ok());
        Ok(stays.unwrap_or(Self { ocsp: Ocsp::Awaited, ..new }))
    }

    /// A chain with its key; the issuer may be beside it or in `chains`.
    pub(crate) fn assemble(
        mut chain: Vec<CertificateDer<'static>>,
        key: Arc<dyn SigningKey>,
        issuers: &[CertificateDer<'static>],
        chains: &[IssuerChain],
    ) -> Result<Self, String> {
        let Some(first) = chain.first() else { return Err("there is no certificate in it".to_owned()) };
        let names = names_of(first)?;
        let is_above = |issuer: &&CertificateDer<'static>| path::names_issuer(first, issuer);
        let above = chains.iter().find(|above| above.first().is_some_and(|first| is_above(&first)));
        let issuer =
            chain.iter().skip(1).chain(issuers).chain(above.into_iter().flatten()).find(is_above).cloned();
        if let (1, Some(above)) = (chain.len(), above) {
            chain.extend_from_slice(above);
        }
        let certified = CertifiedKey::new(chain, key);
        // Not by `CertifiedKey::keys_match`, which does not read certificates of version 1.
        let public_key = certified.key.public_key();
        let own_key = certified.cert.first().and_then(|first| path::public_key(first));
        if public_key.is_some_and(|key| Some(key.as_ref()) != own_key) {
            return Err("the private key does not belong to the certificate".to_owned());
        }
        Ok(Self { key: Arc::new(certified), written: None, names, issuer, ocsp: Ocsp::Unused, remark: None })
    }

    /// With what is in a `.ocsp` file, if there is one.
    fn with_ocsp_file(self, content: Option<&[u8]>) -> Result<Self, String> {
        match content {
            None => Ok(self),
            Some(_) if self.issuer.is_none() => {
                Err("there is an OCSP response for it, but not the issuer's certificate".to_owned())
            }
            Some([]) => Ok(Self { ocsp: Ocsp::Awaited, ..self }),
            Some(response) => Ok(self.with_ocsp(response).unwrap_or_else(|reason| Self {
                remark: Some(format!("its OCSP response is ignored: {reason}")),
                ocsp: Ocsp::Awaited,
                ..self
            })),
        }
    }

    /// The same with another OCSP response, which has to be usable now; nobody looks at its signature here.
    pub fn with_ocsp(&self, response: &[u8]) -> Result<Self, String> {
        let id = self.ocsp_id().ok_or("the certificate's issuer is not known")?;
        let parsed = Response::parse(response).ok_or("it is malformed or too long")?;
        let answer = parsed.answer(&id, UnixTime::now())?;
        let mut certified = CertifiedKey::new(self.key.cert.clone(), Arc::clone(&self.key.key));
        certified.ocsp = Some(response.to_vec());
        let ocsp = Ocsp::Stapled(Arc::new(certified), answer.next_update);
        Ok(Self { ocsp, remark: None, ..self.clone() })
    }

    /// The OCSP response, if there is one.
    pub fn ocsp_response(&self) -> Option<&[u8]> {
        match &self.ocsp {
            Ocsp::Stapled(key, _) => key.ocsp.as_deref(),
            Ocsp::Unused | Ocsp::Awaited => None,
        }
    }

    /// Whether responses are to be stapled.
    pub fn uses_ocsp(&self) -> bool {
        !matches!(self.ocsp, Ocsp::Unused)
    }

    /// What identifies it to a responder, when its issuer is known.
    pub fn ocsp_id(&self) -> Option<CertificateId> {
        CertificateId::new(self.certificate(), self.issuer()?)
    }

    /// Where its responder is.
    pub fn ocsp_uri(&self) -> Option<String> {
        ocsp::responder_uri(self.certificate())
    }

    /// The certificate of its issuer in DER, when it is known.
    pub fn issuer(&self) -> Option<&[u8]> {
        self.issuer.as_deref()
    }

    /// What could not be used and is not needed.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The same without an authority that issued itself, where it is all that is sent along: clients that trust
    /// it have it.
    fn without_self_issued(mut self) -> Self {
        let shorten = |key: &Arc<CertifiedKey>| {
            let mut certified = CertifiedKey::new(key.cert[..1].to_vec(), Arc::clone(&key.key));
            certified.ocsp.clone_from(&key.ocsp);
            Arc::new(certified)
        };
        if let [_, authority] = self.chain()
            && path::is_self_issued(authority)
        {
            self.key = shorten(&self.key);
            if let Ocsp::Stapled(key, _) = &mut self.ocsp {
                *key = shorten(key);
            }
        }
        self
    }

    /// The certificate itself, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], AsRef::as_ref)
    }

    /// The certificates sent to clients, the own one first, in DER.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// The private key, the certificate and those behind it as PEM text; none when the key is nobody's to see.
    pub fn to_pem(&self) -> Option<String> {
        let key = self.written.as_deref()?;
        let label = match key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let chain = self.chain().iter().map(|der| pem_of("CERTIFICATE", der));
        Some(std::iter::once(pem_of(label, key.secret_der())).chain(chain).collect())
    }

    /// The host names in the certificate (alternative names and common name), in lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The chain and key in rustls' form, for a client's certificate.
    pub(crate) fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// The chain and key in rustls' form, with the OCSP response as long as that is valid.
    pub(crate) fn stapled_key(&self) -> &Arc<CertifiedKey> {
        match &self.ocsp {
            Ocsp::Stapled(key, None) => key,
            Ocsp::Stapled(key, Some(expires)) if is_in_future(*expires) => key,
            Ocsp::Stapled(..) | Ocsp::Unused | Ocsp::Awaited => &self.key,
        }
    }

    /// Whether its key is one of RSA.
    pub fn is_rsa(&self) -> bool {
        self.key.key.algorithm() == SignatureAlgorithm::RSA
    }

    /// Whether a client that understands these signatures can use it.
    pub(crate) fn suits(&self, schemes: &[SignatureScheme]) -> bool {
        self.key.key.choose_scheme(schemes).is_some()
    }
}

fn is_in_future(seconds: i64) -> bool {
    i64::try_from(UnixTime::now().as_secs()).is_ok_and(|now| now < seconds)
}

/// Reads a private key from PEM text: ready to sign, and as it is written.
pub(crate) fn read_key(pem: &[u8]) -> Result<(Arc<dyn SigningKey>, Arc<PrivateKeyDer<'static>>), String> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound if is_encrypted(pem) => {
            "the private key is encrypted: here it has to be unencrypted".to_owned()
        }
        rustls::pki_types::pem::Error::NoItemsFound => NO_KEY.to_owned(),
        other => format!("the private key cannot be read: {other}"),
    })?;
    let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| format!("the private key cannot be used: {error}"))?;
    Ok((signing, Arc::new(key)))
}

const NO_KEY: &str = "there is no private key in it";

fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// All certificates in PEM text.
pub(crate) fn read_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a certificate cannot be read: {error}"))
}

fn names_of(certificate: &[u8]) -> Result<Vec<String>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("the certificate is malformed: {error}"))?;
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        let name = name.to_ascii_lowercase();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    };
    if let Ok(Some(alternatives)) = parsed.subject_alternative_name() {
        for name in &alternatives.value.general_names {
            if let GeneralName::DNSName(name) = name {
                add(name);
            }
        }
    }
    for name in parsed.subject().iter_common_name() {
        name.as_str().ok().into_iter().for_each(&mut add);
    }
    Ok(names)
}

/// Reads a file of bounded size.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let fail = |error: io::Error| CertificateError::new(path, format_args!("cannot be read: {error}"));
    let length = std::fs::metadata(path).map_err(fail)?.len();
    if length > MAX_FILE_BYTES {
        return Err(CertificateError::new(path, "the file is too large for a certificate"));
    }
    std::fs::read(path).map_err(fail)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// All certificates of the process by name: a file is read once, however many lines name it.
#[derive(Debug, Default)]
pub struct CertificateStore {
    certificates: Mutex<BTreeMap<String, Arc<Certificate>>>,
    chains: OnceLock<Vec<IssuerChain>>,
    /// What opens encrypted keys.
    pub passphrases: Passphrases,
    /// Files of authorities.
    pub authorities: TrustFiles<CertificateDer<'static>>,
    /// Files of revocation lists.
    pub revocations: TrustFiles<CertificateRevocationListDer<'static>>,
}

/// The certificates above some certificate, the issuer of that one first; never empty.
pub type IssuerChain = Vec<CertificateDer<'static>>;

impl CertificateStore {
    /// Reads the chains of a folder (`issuers-chain-path`), for certificates loaded from now on.
    pub fn load_chains(&self, folder: &Path) -> Result<(), CertificateError> {
        let mut chains = Vec::new();
        for file in files_of(folder)? {
            let chain = read_certificates(&read_file(&file)?)
                .map_err(|reason| CertificateError::new(&file, reason))?;
            if !chain.is_empty() {
                chains.push(chain);
            }
        }
        self.chains.get_or_init(|| chains);
        Ok(())
    }

    /// The chains that were read.
    pub fn chains(&self) -> &[IssuerChain] {
        self.chains.get().map_or(&[], Vec::as_slice)
    }

    /// What a `crt` argument names: a file, all files of a folder in alphabetical order, or a bundle.
    pub fn load(&self, path: &Path, extra: ExtraFiles) -> Result<Vec<Arc<Certificate>>, CertificateError> {
        if let Some(known) = self.find(&path.to_string_lossy()) {
            return Ok(vec![known]);
        }
        if path.is_dir() {
            return files_of(path)?
                .iter()
                .map(|file| self.load_file(file, extra, &NamedFiles::default()))
                .collect();
        }
        if !path.exists() && extra.bundle {
            let bundle: Vec<_> = BUNDLE_SUFFIXES
                .iter()
                .map(|suffix| with_suffix(path, suffix))
                .filter(|file| file.exists())
                .collect();
            if !bundle.is_empty() {
                return bundle
                    .iter()
                    .map(|file| self.load_file(file, extra, &NamedFiles::default()))
                    .collect();
            }
        }
        Ok(vec![self.load_file(path, extra, &NamedFiles::default())?])
    }

    /// One file, with the files that belong to it.
    pub fn load_file(
        &self,
        path: &Path,
        extra: ExtraFiles,
        named: &NamedFiles,
    ) -> Result<Arc<Certificate>, CertificateError> {
        let name = path.to_string_lossy().into_owned();
        if let Some(known) = self.find(&name) {
            return Ok(known);
        }
        let loaded = load_files(path, extra, named, self)?;
        Ok(self.insert(name, loaded))
    }

    /// Adds a certificate, or replaces the one of that name.
    pub fn insert(&self, name: String, loaded: Loaded) -> Arc<Certificate> {
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = certificates.get(&name) {
            known.replace(loaded);
            return Arc::clone(known);
        }
        let certificate = Arc::new(Certificate::new(name.clone(), loaded));
        certificates.insert(name, Arc::clone(&certificate));
        certificate
    }

    /// The certificate of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Certificate>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone)
    }

    /// Forgets a certificate; connections and servers that use it keep it.
    pub fn remove(&self, name: &str) -> Option<Arc<Certificate>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// All certificates in the order of their names.
    pub fn all(&self) -> Vec<Arc<Certificate>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }
}

/// Reads a certificate and the files beside it.
pub fn load_files(
    path: &Path,
    extra: ExtraFiles,
    named: &NamedFiles,
    store: &CertificateStore,
) -> Result<Loaded, CertificateError> {
    let pem = read_file(path)?;
    let beside = |named: &Option<PathBuf>, wanted: bool, suffix: &str| {
        let found = || Some(extra.beside(path, suffix)).filter(|file| wanted && file.exists());
        named.clone().or_else(found).as_deref().map(read_file).transpose()
    };
    let mut key = beside(&named.key, extra.key && !contains_key(&pem), "key")?;
    let opened = store.passphrases.open(path, key.as_deref().unwrap_or(&pem));
    if let Cow::Owned(opened) = opened.map_err(|reason| CertificateError::new(path, reason))? {
        key = Some(opened);
    }
    let ocsp = beside(&named.ocsp, extra.ocsp, "ocsp")?;
    let issuer = beside(&named.issuer, extra.issuer, "issuer")?;
    let parts = Parts { pem: &pem, key: key.as_deref(), ocsp: ocsp.as_deref(), issuer: issuer.as_deref() };
    let loaded = Loaded::new(&parts, store.chains());
    let sent = |loaded: Loaded| if extra.skip_self_issued { loaded.without_self_issued() } else { loaded };
    loaded.map(sent).map_err(|reason| {
        if reason == NO_KEY && extra.key && named.key.is_none() {
            let beside = extra.beside(path, "key");
            return CertificateError::new(
                path,
                format_args!("{reason}, nor is there a '{}'", beside.display()),
            );
        }
        CertificateError::new(path, reason)
    })
}

fn contains_key(pem: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(pem).is_ok() || is_encrypted(pem)
}

/// The certificates of a folder in alphabetical order.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, CertificateError> {
    let fail = |error: io::Error| CertificateError::new(folder, format_args!("cannot be read: {error}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        let reserved = extension.is_some_and(|extension| RESERVED_EXTENSIONS.contains(&extension.as_str()));
        if hidden || reserved || !path.is_file() {
            continue;
        }
        if files.len() >= MAX_FOLDER_FILES {
            return Err(CertificateError::new(folder, "there are too many files in it"));
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};

    /// A folder of its own for a test, removed at the end.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weir-net-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    /// A self-signed certificate and its key as PEM.
    pub(crate) fn self_signed(names: &[&str], rsa: bool) -> (String, String) {
        let algorithm = if rsa { &PKCS_RSA_SHA256 } else { &PKCS_ECDSA_P256_SHA256 };
        let key = KeyPair::generate_for(algorithm).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn responses_are_stapled_while_they_are_valid() {
        use super::super::ocsp::tests::{GOOD, World, single};
        let world = World::new(true);
        let id = world.id();
        let response =
            |next: Option<&[u8]>| world.response(&[single(&id, GOOD, b"20230601000000Z", next)], true);
        let (valid, expired) = (response(Some(b"29990101000000Z")), response(Some(b"20230602000000Z")));
        let own = world.own.pem() + &world.own_key.serialize_pem();
        let issuer = world.authority.pem();
        let load = |ocsp: Option<&[u8]>, issuer: Option<&str>| {
            let issuer = issuer.map(str::as_bytes);
            Loaded::new(&Parts { pem: own.as_bytes(), key: None, ocsp, issuer }, &[])
        };
        let check = |ocsp: Option<&[u8]>, stapled: bool, used: bool, remark: bool| {
            let loaded = load(ocsp, Some(&issuer)).unwrap();
            assert_eq!(loaded.stapled_key().ocsp.is_some(), stapled);
            assert_eq!((loaded.uses_ocsp(), loaded.remark().is_some()), (used, remark));
            assert_eq!(loaded.ocsp_id().as_ref(), Some(&id));
        };
        check(None, false, false, false);
        check(Some(&valid), true, true, false);
        check(Some(&response(None)), true, true, false);
        check(Some(&[]), false, true, false);
        check(Some(&expired), false, true, true);
        check(Some(b"nonsense"), false, true, true);
        assert!(load(Some(&valid), None).unwrap_err().contains("issuer"));
        let mut loaded = load(Some(&valid), Some(&issuer)).unwrap();
        assert!(loaded.with_ocsp(&expired).is_err());
        // What expires later is not given out any more.
        if let Ocsp::Stapled(_, expires) = &mut loaded.ocsp {
            *expires = Some(1);
        }
        assert!(loaded.stapled_key().ocsp.is_none());
    }

    #[test]
    fn certificates_are_written_as_they_were_read() {
        let (one, key) = self_signed(&["one.example"], false);
        let (one, key) = (one.replace("\r\n", "\n"), key.replace("\r\n", "\n"));
        let loaded = Loaded::from_pem(format!("{one}{key}").as_bytes()).unwrap();
        assert_eq!(loaded.to_pem().unwrap(), format!("{key}{one}"));
        let same = loaded.replaced(&Parts { pem: one.as_bytes(), ..Parts::default() }, &[]).unwrap();
        assert_eq!(same.to_pem(), loaded.to_pem());
    }

    #[test]
    fn a_change_starts_from_what_is_in_use() {
        let (one, key) = self_signed(&["one.example"], false);
        let loaded = Loaded::from_pem(format!("{one}{key}").as_bytes()).unwrap();
        let with = |pem: &str| loaded.replaced(&Parts { pem: pem.as_bytes(), ..Parts::default() }, &[]);
        assert_eq!(with("").unwrap().names(), loaded.names());
        assert!(with(&one).is_ok(), "the key stays");
        let (other, other_key) = self_signed(&["two.example"], false);
        assert!(with(&other).unwrap_err().contains("does not belong"));
        assert_eq!(with(&(other + &other_key)).unwrap().names()[0], "two.example");
    }

    #[test]
    fn chains_are_completed_by_their_issuer() {
        use super::super::ocsp::tests::World;
        let (world, other) = (World::new(true), self_signed(&["x"], false).0);
        let own = world.own.pem() + &world.own_key.serialize_pem();
        let folder = Folder::new("chains");
        folder.write("other.pem", &other);
        folder.write("issuer.pem", &world.authority.pem());
        let file = folder.write("own.crt", &own);
        let store = CertificateStore::default();
        store.load_chains(&folder.0).unwrap();
        let loaded = store.load(&file, ExtraFiles::ALL).unwrap()[0].current();
        assert_eq!(loaded.chain().len(), 2);
        assert_eq!(loaded.issuer(), Some(world.authority.der().as_ref()));
    }

    #[test]
    fn names_of_files_beside() {
        let check = |path: &str, replace_extension: bool, expected: &str| {
            let extra = ExtraFiles { replace_extension, ..ExtraFiles::ALL };
            assert_eq!(extra.beside(Path::new(path), "key"), Path::new(expected), "{path}");
        };
        check("a/b.crt", false, "a/b.crt.key");
        check("a/b.crt", true, "a/b.key");
        check("a/b.pem", true, "a/b.pem.key");
    }

    #[test]
    fn files_folders_and_bundles() {
        let folder = Folder::new("certificates");
        let (certificate, key) = self_signed(&["one.example", "*.one.example"], false);
        let (rsa, rsa_key) = self_signed(&["two.example"], true);
        let whole = folder.write("b.pem", &format!("{key}{certificate}"));
        folder.write("a.pem", &certificate);
        folder.write("a.pem.key", &key);
        folder.write("c.pem.rsa", &format!("{rsa}{rsa_key}"));
        folder.write("c.pem.ecdsa", &format!("{certificate}{key}"));
        folder.write(".hidden", "nothing");
        folder.write("b.pem.sctl", "nothing");
        let store = CertificateStore::default();
        let check = |path: &Path, expected: &[&str]| {
            let loaded = store.load(path, ExtraFiles::ALL).unwrap();
            let names: Vec<_> =
                loaded.iter().map(|found| found.name().rsplit('/').next().unwrap().to_owned()).collect();
            assert_eq!(names, expected, "{}", path.display());
        };
        check(&whole, &["b.pem"]);
        check(&folder.0.join("c.pem"), &["c.pem.rsa", "c.pem.ecdsa"]);
        check(&folder.0, &["a.pem", "b.pem", "c.pem.ecdsa", "c.pem.rsa"]);
        assert_eq!(store.all().len(), 4, "each file is held once");
        let found = store.find(&whole.to_string_lossy()).unwrap();
        assert_eq!(found.current().names(), ["one.example", "*.one.example", "rcgen self signed cert"]);
        assert!(!found.current().is_rsa());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = Folder::new("wrong-certificates");
        let (certificate, key) = self_signed(&["one.example"], false);
        let (_, other) = self_signed(&["two.example"], false);
        let check = |content: &str, expected: &str| {
            let path = folder.write("x.pem", content);
            let store = CertificateStore::default();
            let error = store.load(&path, ExtraFiles::ALL).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "there is no certificate in it");
        check(&key, "there is no certificate in it");
        check(&certificate, "there is no private key in it, nor is there a '");
        check(&format!("{certificate}{other}"), "does not belong to the certificate");
        check(&certificate.replace('M', "!"), "cannot be read");
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        check(&format!("{certificate}{encrypted}"), "malformed");
        check(&format!("{certificate}Proc-Type: 4,ENCRYPTED"), "old form");
        let missing = CertificateStore::default().load(&folder.0.join("missing"), ExtraFiles::ALL);
        assert!(missing.unwrap_err().to_string().contains("cannot be read"));
    }
}
