//! TLS on a bind line: from its options to the configuration of each connection.
//!
//! Owns which certificate, algorithms and verification a client gets, and changing certificates at run time.
//! The handshake itself is left to rustls and `session`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
    WebPkiClientVerifier,
};

use super::algorithms::{Algorithms, Version};
use super::certificate::{Certificate, CertificateStore, ExtraFiles, NamedFiles, read_file};
use super::crt_list::{self, CrtListLine, SniFilter};
use super::generate::Generator;
use super::hello;
use super::info::KeepSecrets;
use super::session::ShortRecords;
pub use super::sni::NameUse;
use super::sni::{self, Entry, ListLine, Resolver, SniTable};
use super::tickets::{TicketKeys, Ticketer};
use super::verify::{self, Leniency, Terms, Verify};

/// Tickets sent after a TLS 1.3 handshake, as OpenSSL does.
const TICKETS_A_HANDSHAKE: usize = 2;

/// How long a session can be resumed when nothing else is said (`tune.ssl.lifetime`), in seconds.
const DEFAULT_LIFETIME_S: u32 = 300;

/// Sessions kept for clients without tickets when nothing else is said (`tune.ssl.cachesize`).
const DEFAULT_CACHED_SESSIONS: usize = 20_000;

/// Generated certificates kept when nothing else is said (`tune.ssl.ssl-ctx-cache-size`).
const DEFAULT_GENERATED_KEPT: usize = 1000;

/// Where certificates come from, in the order of the bind line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// `crt`: a file, a folder or a bundle.
    Crt(PathBuf),
    /// `default-crt`.
    DefaultCrt(PathBuf),
    /// `crt-list`.
    CrtList(PathBuf),
    /// A list that is no file (`ssl-f-use`): its name and its lines.
    Lines(PathBuf, Vec<CrtListLine>),
}

/// How sessions are resumed.
#[derive(Debug, Clone, Default)]
pub enum Tickets {
    /// Tickets with random keys of this process that change by themselves.
    #[default]
    Internal,
    /// Tickets with keys from a file.
    Keys(Arc<TicketKeys>),
    /// No tickets (`no-tls-tickets`): sessions are kept here.
    Off,
}

/// The options of a bind line that concern TLS.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Certificates.
    pub certificates: Vec<CertificateSource>,
    /// Which files beside a certificate's are looked for.
    pub extra_files: ExtraFiles,
    /// Folder that a crt-list's relative names of certificates start from (`crt-base`).
    pub certificate_base: Option<PathBuf>,
    /// Folder that a crt-list's relative names of authorities start from (`ca-base`).
    pub authority_base: Option<PathBuf>,
    /// What differs from line to line of a crt-list.
    pub line: LineOptions,
    /// Refuse clients that name no host of ours (`strict-sni`).
    pub strict_sni: bool,
    /// The client's order of cipher suites counts (`prefer-client-ciphers`).
    pub prefer_client_ciphers: bool,
    /// How sessions are resumed.
    pub tickets: Tickets,
    /// How long, in seconds; the default when none.
    pub session_lifetime_s: Option<u32>,
    /// Sessions kept for clients without tickets; the default when none.
    pub cached_sessions: Option<usize>,
    /// The longest record's plaintext in bytes (`tune.ssl.hard-maxrecord`).
    pub max_record_bytes: Option<usize>,
    /// The same while a connection is young or after it was idle for so many milliseconds (`tune.ssl.maxrecord`).
    pub early_record: Option<(usize, u64)>,
    /// The authority that signs certificates for names that there is none for (`generate-certificates`).
    pub generate_with: Option<PathBuf>,
    /// What opens that one's key, when it is encrypted (`ca-sign-pass`).
    pub generate_pass: Option<String>,
    /// How many of those are kept; the default when none.
    pub generated_kept: Option<usize>,
    /// Fetch OCSP responses of certificates whose line does not say it (`ocsp-update.mode`).
    pub ocsp_update: bool,
    /// Most early data of a connection, where a line allows any.
    pub max_early_data_bytes: u32,
    /// Keep the hello messages with the connection's facts (`tune.ssl.capture-buffer-size`, randoms, session id).
    pub keep_hello: bool,
    /// Keep the secrets with the connection's facts (`tune.ssl.keylog`).
    pub keep_secrets: bool,
}

/// Options that a crt-list line may have of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineOptions {
    /// Versions, cipher suites and groups.
    pub algorithms: Algorithms,
    /// Protocols for ALPN, the preferred first.
    pub alpn: Vec<Vec<u8>>,
    /// What is asked of clients.
    pub verify: Verify,
    /// Authorities for clients' certificates, whose names are sent to clients.
    pub ca_file: Option<PathBuf>,
    /// More authorities, whose names are not sent.
    pub ca_verify_file: Option<PathBuf>,
    /// Revocation lists.
    pub crl_file: Option<PathBuf>,
    /// Objections to let pass.
    pub leniency: Leniency,
    /// Send no names of authorities (`no-ca-names`).
    pub no_ca_names: bool,
    /// Take data before the end of the handshake (`allow-0rtt`).
    pub allow_early_data: bool,
}

impl LineOptions {
    fn names(&self, file: &Path) -> bool {
        let files = [&self.ca_file, &self.ca_verify_file, &self.crl_file];
        files.into_iter().flatten().any(|own| own == file)
    }

    /// Commands read no files: what a line names in addition to its bind line has to be known (`new ssl ca-file`).
    fn require_known(&self, bind: &Self, store: &CertificateStore) -> Result<(), String> {
        let refuse = |file: &Path| Err(format!("unable to load {}", file.display()));
        for (own, known) in [(&self.ca_file, &bind.ca_file), (&self.ca_verify_file, &bind.ca_verify_file)] {
            match own {
                Some(file) if own != known && store.authorities.find(&file.to_string_lossy()).is_none() => {
                    return refuse(file);
                }
                _ => {}
            }
        }
        match &self.crl_file {
            Some(file)
                if self.crl_file != bind.crl_file
                    && store.revocations.find(&file.to_string_lossy()).is_none() =>
            {
                refuse(file)
            }
            _ => Ok(()),
        }
    }
}

/// Why a bind line's TLS cannot be set up.
#[derive(Debug)]
pub struct TlsConfigError(pub String);

impl fmt::Display for TlsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsConfigError {}

impl From<String> for TlsConfigError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<super::certificate::CertificateError> for TlsConfigError {
    fn from(error: super::certificate::CertificateError) -> Self {
        Self(error.to_string())
    }
}

/// TLS of one bind line, shared by all threads.
#[derive(Debug)]
pub struct TlsServer {
    table: Arc<ArcSwap<SniTable>>,
    /// The bind line's own first, then those of crt-list lines with options; never empty.
    configurations: ArcSwap<Vec<Configuration>>,
    options: ServerOptions,
    generator: Option<Arc<Generator>>,
    /// Held while certificates are added or removed.
    writer: Mutex<()>,
}

/// What a configuration is made of beside its line's options.
struct Surroundings<'a> {
    options: &'a ServerOptions,
    table: &'a Arc<ArcSwap<SniTable>>,
    generator: Option<&'a Arc<Generator>>,
    store: &'a CertificateStore,
}

/// One way to talk to a client.
#[derive(Debug, Clone)]
struct Configuration {
    line: LineOptions,
    config: Arc<ServerConfig>,
    /// For clients that offer other protocols only: they go on without ALPN.
    without_alpn: Arc<ServerConfig>,
}

impl TlsServer {
    /// Reads all files of a bind line. Returns what was asked for in vain too.
    pub fn new(
        options: &ServerOptions,
        store: &CertificateStore,
    ) -> Result<(Arc<Self>, Vec<String>), TlsConfigError> {
        let mut warnings = Vec::new();
        let mut lines = vec![options.line.clone()];
        let mut entries = Vec::new();
        for source in &options.certificates {
            let path = match source {
                CertificateSource::Crt(path) | CertificateSource::DefaultCrt(path) => path,
                CertificateSource::CrtList(path) | CertificateSource::Lines(path, _) => {
                    let list = source_lines(source)?;
                    use_lines(path, &list, options, store, &mut lines, &mut entries)?;
                    continue;
                }
            };
            let is_default = matches!(source, CertificateSource::DefaultCrt(_));
            for certificate in store.load(path, options.extra_files)? {
                entries.push(Entry {
                    ocsp_update: options.updates_ocsp(&certificate, None),
                    certificate,
                    filters: Vec::new(),
                    is_default,
                    configuration: 0,
                    line: None,
                });
            }
        }
        for entry in &entries {
            let current = entry.certificate.current();
            warnings
                .extend(current.remark().map(|remark| format!("'{}': {remark}", entry.certificate.name())));
        }
        if entries.is_empty() && !options.strict_sni && options.generate_with.is_none() {
            return Err(TlsConfigError("no certificate is given: add 'crt' (or 'strict-sni')".to_owned()));
        }
        let table = Arc::new(ArcSwap::from_pointee(SniTable::new(entries, options.strict_sni)));
        let kept = options.generated_kept.unwrap_or(DEFAULT_GENERATED_KEPT);
        let generate =
            |file: &PathBuf| Generator::load(file, options.generate_pass.as_deref(), kept).map(Arc::new);
        let generator = options.generate_with.as_ref().map(generate).transpose()?;
        let configurations = lines
            .iter()
            .map(|line| {
                Configuration::new(
                    line,
                    &Surroundings { options, table: &table, generator: generator.as_ref(), store },
                    &mut warnings,
                )
            })
            .collect::<Result<Vec<_>, _>>()?;
        let server = Self {
            table,
            configurations: ArcSwap::from_pointee(configurations),
            options: options.clone(),
            generator,
            writer: Mutex::new(()),
        };
        Ok((Arc::new(server), warnings))
    }

    /// The configuration for a client's hello.
    pub(crate) fn config_for(&self, client_hello: &[u8]) -> Arc<ServerConfig> {
        // The table first: a line that is in it has its configuration.
        let table = self.table.load();
        let configurations = self.configurations.load();
        let mut index = 0;
        if configurations.len() > 1 {
            let name = hello::server_name(client_hello);
            index = table.choose(name.as_deref(), |_| true).map_or(0, |entry| entry.configuration);
        }
        let configuration = configurations.get(index).unwrap_or(&configurations[0]);
        if !configuration.line.alpn.is_empty()
            && hello::offers_only_other_protocols(client_hello, &configuration.line.alpn)
        {
            return Arc::clone(&configuration.without_alpn);
        }
        Arc::clone(&configuration.config)
    }

    pub(crate) fn max_record_bytes(&self) -> usize {
        self.options.max_record_bytes.unwrap_or(super::record::MAX_PLAINTEXT_BYTES)
    }

    pub(crate) fn short_records(&self) -> Option<ShortRecords> {
        self.options.early_record.map(|(bytes, idle_ms)| ShortRecords::new(bytes, idle_ms))
    }

    pub(crate) fn keeps_details(&self) -> bool {
        self.options.keep_hello
    }

    /// Reads the names of all certificates again, after one was replaced.
    pub fn refresh(&self) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.table.load().entries().to_vec();
        self.table.store(Arc::new(SniTable::new(entries, self.options.strict_sni)));
    }

    /// The crt-lists of the bind line.
    pub fn lists(&self) -> impl Iterator<Item = &Path> {
        self.options.certificates.iter().filter_map(|source| match source {
            CertificateSource::CrtList(path) | CertificateSource::Lines(path, _) => Some(path.as_path()),
            CertificateSource::Crt(_) | CertificateSource::DefaultCrt(_) => None,
        })
    }

    /// The lines of a crt-list of the bind line as they are in its file, each with its certificate's name.
    pub fn list_lines(&self, list: &Path) -> Result<Vec<(CrtListLine, String)>, TlsConfigError> {
        let is_list = |source: &&CertificateSource| match source {
            CertificateSource::CrtList(path) | CertificateSource::Lines(path, _) => path == list,
            CertificateSource::Crt(_) | CertificateSource::DefaultCrt(_) => false,
        };
        let source = self.options.certificates.iter().find(is_list);
        let lines = source.map(source_lines).transpose()?.unwrap_or_default();
        Ok(lines.into_iter().map(|line| (line.clone(), self.certificate_name(&line))).collect())
    }

    /// The name of the certificate of a crt-list's line.
    pub fn certificate_name(&self, line: &CrtListLine) -> String {
        from_base(self.options.certificate_base.as_deref(), &line.file).to_string_lossy().into_owned()
    }

    /// Uses one more line of a crt-list.
    pub fn add_line(
        &self,
        list: &Path,
        line: &CrtListLine,
        certificate: Arc<Certificate>,
        store: &CertificateStore,
    ) -> Result<(), TlsConfigError> {
        let words = line_options(line, &self.options)?;
        if let Some(own) = &words.own {
            own.require_known(&self.options.line, store)?;
        }
        let place = ListLine { list: list.to_path_buf(), number: line.number };
        let entry = Entry {
            ocsp_update: self.options.updates_ocsp(&certificate, words.ocsp_update),
            certificate,
            filters: line.filters.clone(),
            is_default: false,
            configuration: 0,
            line: Some(place),
        };
        self.add_entry(entry, words.own.as_ref(), store)
    }

    /// Whether a line of a crt-list would have the OCSP response of a certificate fetched.
    pub fn would_update_ocsp(&self, line: &CrtListLine, certificate: &Certificate) -> Result<bool, String> {
        let words = line_options(line, &self.options)?;
        Ok(self.options.updates_ocsp(certificate, words.ocsp_update))
    }

    /// The certificates in use, each with whether its OCSP response is to be fetched.
    pub fn ocsp_updates(&self) -> Vec<(Arc<Certificate>, bool)> {
        let table = self.table.load();
        table.entries().iter().map(|entry| (Arc::clone(&entry.certificate), entry.ocsp_update)).collect()
    }

    /// Whether clients that name no known host get this line's certificate.
    pub fn is_default_line(&self, list: &Path, number: usize) -> bool {
        let table = self.table.load();
        let first = table.entries().first().and_then(|entry| entry.line.as_ref());
        !self.options.strict_sni && first.is_some_and(|line| line.list == list && line.number == number)
    }

    /// Stops using a line of a crt-list.
    pub fn remove_line(&self, list: &Path, number: usize) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.table.load().entries().to_vec();
        entries.retain(|entry| {
            entry.line.as_ref().is_none_or(|line| line.list != list || line.number != number)
        });
        self.table.store(Arc::new(SniTable::new(entries, self.options.strict_sni)));
    }

    /// Uses one more certificate, as a crt-list line would; options of the line are its own.
    pub fn add(
        &self,
        certificate: Arc<Certificate>,
        line: Option<&LineOptions>,
        filters: Vec<SniFilter>,
        store: &CertificateStore,
    ) -> Result<(), TlsConfigError> {
        let ocsp_update = self.options.updates_ocsp(&certificate, None);
        let entry =
            Entry { certificate, filters, is_default: false, configuration: 0, line: None, ocsp_update };
        self.add_entry(entry, line, store)
    }

    fn surroundings<'a>(&'a self, store: &'a CertificateStore) -> Surroundings<'a> {
        Surroundings { options: &self.options, table: &self.table, generator: self.generator.as_ref(), store }
    }

    /// Whether clients' certificates are verified with a file of authorities or revocation lists.
    pub fn trusts_by(&self, file: &Path) -> bool {
        let configurations = self.configurations.load();
        configurations
            .iter()
            .enumerate()
            .any(|(index, known)| self.is_in_use(index) && known.line.names(file))
    }

    /// Whether a configuration is the bind line's own or that of a line which is still there.
    fn is_in_use(&self, configuration: usize) -> bool {
        let table = self.table.load();
        configuration == 0 || table.entries().iter().any(|entry| entry.configuration == configuration)
    }

    /// Reads files of authorities and revocation lists again, after one was replaced. New connections need new
    /// handshakes.
    pub fn rebuild(&self, file: &Path, store: &CertificateStore) -> Result<(), TlsConfigError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut configurations = self.configurations.load().to_vec();
        for (index, known) in configurations.iter_mut().enumerate() {
            if self.is_in_use(index) && known.line.names(file) {
                *known = Configuration::new(&known.line, &self.surroundings(store), &mut Vec::new())?;
            }
        }
        self.configurations.store(Arc::new(configurations));
        Ok(())
    }

    fn add_entry(
        &self,
        entry: Entry,
        line: Option<&LineOptions>,
        store: &CertificateStore,
    ) -> Result<(), TlsConfigError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let configuration = match line {
            None => 0,
            Some(line) => {
                let mut configurations = self.configurations.load().to_vec();
                configurations.push(Configuration::new(line, &self.surroundings(store), &mut Vec::new())?);
                let index = configurations.len() - 1;
                self.configurations.store(Arc::new(configurations));
                index
            }
        };
        let mut entries = self.table.load().entries().to_vec();
        entries.push(Entry { configuration, ..entry });
        self.table.store(Arc::new(SniTable::new(entries, self.options.strict_sni)));
        Ok(())
    }

    /// Stops using a certificate; says whether it was used.
    pub fn remove(&self, name: &str) -> bool {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.table.load().entries().to_vec();
        let before = entries.len();
        entries.retain(|entry| entry.certificate.name() != name);
        let removed = entries.len() != before;
        self.table.store(Arc::new(SniTable::new(entries, self.options.strict_sni)));
        removed
    }

    /// Each name (`*` for the default) and the certificate it leads to, for display.
    pub fn names(&self) -> Vec<NameUse> {
        self.table.load().names()
    }

    /// The certificates in use, in the order of the bind line.
    pub fn certificates(&self) -> Vec<Arc<Certificate>> {
        self.table.load().entries().iter().map(|entry| Arc::clone(&entry.certificate)).collect()
    }
}

/// Names that begin with `@` (`@system-ca`, `@store/name`) are no files.
fn from_base(base: Option<&Path>, path: &Path) -> PathBuf {
    let is_file = !path.to_string_lossy().starts_with('@');
    base.filter(|_| is_file && path.is_relative()).map_or_else(|| path.to_path_buf(), |base| base.join(path))
}

/// The lines of a crt-list.
fn source_lines(source: &CertificateSource) -> Result<Vec<CrtListLine>, TlsConfigError> {
    match source {
        CertificateSource::CrtList(path) => {
            let lines = crt_list::parse(&String::from_utf8_lossy(&read_file(path)?));
            lines.map_err(|reason| TlsConfigError(format!("'{}': {reason}", path.display())))
        }
        CertificateSource::Lines(_, lines) => Ok(lines.clone()),
        CertificateSource::Crt(_) | CertificateSource::DefaultCrt(_) => Ok(Vec::new()),
    }
}

fn use_lines(
    path: &Path,
    list: &[CrtListLine],
    options: &ServerOptions,
    store: &CertificateStore,
    lines: &mut Vec<LineOptions>,
    entries: &mut Vec<Entry>,
) -> Result<(), TlsConfigError> {
    for line in list {
        let fail =
            |reason: String| TlsConfigError(format!("'{}' line {}: {reason}", path.display(), line.number));
        let words = line_options(line, options).map_err(fail)?;
        let configuration = match words.own {
            None => 0,
            Some(own) => match lines.iter().position(|known| *known == own) {
                Some(known) => known,
                None => {
                    lines.push(own);
                    lines.len() - 1
                }
            },
        };
        let file = from_base(options.certificate_base.as_deref(), &line.file);
        let certificates = if words.files == NamedFiles::default() {
            store.load(&file, options.extra_files)
        } else {
            store.load_file(&file, options.extra_files, &words.files).map(|certificate| vec![certificate])
        };
        for certificate in certificates.map_err(|error| fail(error.to_string()))? {
            entries.push(Entry {
                ocsp_update: options.updates_ocsp(&certificate, words.ocsp_update),
                certificate,
                filters: line.filters.clone(),
                is_default: false,
                configuration,
                line: Some(ListLine { list: path.to_path_buf(), number: line.number }),
            });
        }
    }
    Ok(())
}

/// What the words of a crt-list line say.
#[derive(Debug, Default)]
struct LineWords {
    /// Its options on top of the bind line's; none when it has no options about TLS.
    own: Option<LineOptions>,
    files: NamedFiles,
    ocsp_update: Option<bool>,
}

fn line_options(line: &CrtListLine, bind: &ServerOptions) -> Result<LineWords, String> {
    let authority = |file: &str| from_base(bind.authority_base.as_deref(), Path::new(file));
    let certificate = |file: &str| from_base(bind.certificate_base.as_deref(), Path::new(file));
    let mut own = bind.line.clone();
    let mut found = LineWords::default();
    let mut changed = false;
    let mut words = line.options.iter().map(String::as_str);
    while let Some(keyword) = words.next() {
        let mut argument = || words.next().ok_or_else(|| format!("'{keyword}' needs a value"));
        changed |= !matches!(keyword, "key" | "ocsp" | "issuer" | "sctl" | "ocsp-update" | "crt");
        match keyword {
            "alpn" => own.alpn = parse_alpn(argument()?),
            "no-alpn" => own.alpn = Vec::new(),
            "ca-file" => own.ca_file = Some(authority(argument()?)),
            "ca-verify-file" => own.ca_verify_file = Some(authority(argument()?)),
            "crl-file" => own.crl_file = Some(authority(argument()?)),
            "ciphers" => own.algorithms.ciphers = Some(argument()?.to_owned()),
            "ciphersuites" => own.algorithms.ciphersuites = Some(argument()?.to_owned()),
            "curves" => own.algorithms.curves = Some(argument()?.to_owned()),
            "ecdhe" => {
                let curve = argument()?.to_owned();
                own.algorithms.curves.get_or_insert(curve);
            }
            "sigalgs" => own.algorithms.sigalgs = Some(argument()?.to_owned()),
            "client-sigalgs" => own.algorithms.client_sigalgs = Some(argument()?.to_owned()),
            "no-ca-names" => own.no_ca_names = true,
            "ssl-min-ver" => own.algorithms.min_version = parse_version(argument()?)?,
            "ssl-max-ver" => own.algorithms.max_version = parse_version(argument()?)?,
            "verify" => {
                own.verify = match argument()? {
                    "none" => Verify::None,
                    "optional" => Verify::Optional,
                    "required" => Verify::Required,
                    other => return Err(format!("'verify {other}': expected none, optional or required")),
                }
            }
            "key" => found.files.key = Some(certificate(argument()?)),
            "ocsp" => found.files.ocsp = Some(certificate(argument()?)),
            "issuer" => found.files.issuer = Some(certificate(argument()?)),
            // NPN is long gone: accepted without effect, as are lists of certificate transparency.
            "npn" | "sctl" | "crt" => {
                argument()?;
            }
            "ocsp-update" => match argument()? {
                "on" => found.ocsp_update = Some(true),
                "off" => found.ocsp_update = Some(false),
                other => return Err(format!("'ocsp-update {other}': expected on or off")),
            },
            "allow-0rtt" => own.allow_early_data = true,
            other => return Err(format!("'{other}' is not an option of a crt-list line")),
        }
    }
    found.own = changed.then_some(own);
    Ok(found)
}

impl ServerOptions {
    /// Whether the OCSP response of a certificate is fetched: its line says it, or its crt-store, or `global`.
    fn updates_ocsp(&self, certificate: &Certificate, line: Option<bool>) -> bool {
        line.or_else(|| certificate.declared_ocsp_update()).unwrap_or(self.ocsp_update)
    }
}

fn parse_version(name: &str) -> Result<Version, String> {
    Version::parse(name).ok_or_else(|| format!("'{name}' is no version: expected TLSv1.2 or TLSv1.3"))
}

/// Reads a comma-separated list of protocols.
pub fn parse_alpn(list: &str) -> Vec<Vec<u8>> {
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

impl Configuration {
    fn new(
        line: &LineOptions,
        around: &Surroundings<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, TlsConfigError> {
        let Surroundings { options, table, generator, store } = around;
        let provider = Arc::new(line.algorithms.provider(warnings)?);
        let ecdsa_suites = sni::ecdsa_suites(&provider.cipher_suites);
        let versions = line.algorithms.versions(warnings)?;
        let own_schemes = line.algorithms.schemes(warnings)?;
        let client_schemes = line.algorithms.client_schemes(warnings)?.or_else(|| own_schemes.clone());
        let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        let verifier = match line.verify {
            Verify::None => WebPkiClientVerifier::no_client_auth(),
            Verify::Optional | Verify::Required => {
                let file = line.ca_file.as_ref().or(line.ca_verify_file.as_ref());
                let file = file.ok_or_else(|| "'verify' needs a 'ca-file'".to_owned())?;
                let mut authorities = verify::load_authorities(file, &store.authorities)?;
                let names_sent = match &line.ca_file {
                    Some(_) if !line.no_ca_names => authorities.subjects(),
                    _ => Vec::new(),
                };
                if let (Some(_), Some(more)) = (&line.ca_file, &line.ca_verify_file) {
                    authorities.extend(verify::load_authorities(more, &store.authorities)?.roots);
                }
                let revocations = match &line.crl_file {
                    Some(file) => store.revocations.load(file)?.to_vec(),
                    None => Vec::new(),
                };
                context.update(format!("{:?}", line.verify).as_bytes());
                for root in &authorities.roots {
                    context.update(root.subject_public_key_info.as_ref());
                }
                revocations.iter().for_each(|list| context.update(list.as_ref()));
                let chosen = line.algorithms.curves.is_some();
                let groups = || provider.kx_groups.iter().map(|group| group.name()).collect();
                let terms = Terms {
                    leniency: line.leniency.clone(),
                    names_sent,
                    schemes: client_schemes,
                    groups: chosen.then(groups),
                };
                verify::client_verifier(
                    &provider,
                    line.verify == Verify::Required,
                    authorities,
                    revocations,
                    terms,
                )?
            }
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Resolver {
                table: Arc::clone(table),
                ecdsa_suites,
                schemes: own_schemes,
                generator: generator.cloned(),
            }));
        config.ignore_client_order = !options.prefer_client_ciphers;
        config.alpn_protocols = line.alpn.clone();
        // A resumed session does not know which objections were let pass (`ssl_c_verify`), so that these clients
        // are verified each time.
        if line.verify != Verify::None && line.leniency != Leniency::default() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.ticketer = Arc::new(NoTickets);
            config.send_tls13_tickets = 0;
        } else {
            config.session_storage = sessions(options);
            config.ticketer = ticketer(options, context.finish().as_ref())?;
            config.send_tls13_tickets = TICKETS_A_HANDSHAKE;
            if line.allow_early_data {
                // RFC 8446 section 8.1: a session that is kept here is used once, so that early data cannot come
                // again. A ticket that holds the session itself could.
                config.ticketer = Arc::new(NoTickets);
                config.max_early_data_size = options.max_early_data_bytes;
            }
        }
        // The record layer of this crate takes the keys over after the handshake.
        config.enable_secret_extraction = true;
        if options.keep_secrets {
            config.key_log = Arc::new(KeepSecrets);
        }
        let mut without_alpn = config.clone();
        without_alpn.alpn_protocols = Vec::new();
        Ok(Self { line: line.clone(), config: Arc::new(config), without_alpn: Arc::new(without_alpn) })
    }
}

fn sessions(options: &ServerOptions) -> Arc<dyn StoresServerSessions> {
    match options.cached_sessions.unwrap_or(DEFAULT_CACHED_SESSIONS) {
        0 => Arc::new(NoServerSessionStorage {}),
        count => ServerSessionMemoryCache::new(count),
    }
}

fn ticketer(options: &ServerOptions, context: &[u8]) -> Result<Arc<dyn ProducesTickets>, TlsConfigError> {
    Ok(match &options.tickets {
        Tickets::Internal => rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?,
        Tickets::Keys(keys) => Arc::new(Ticketer {
            keys: Arc::clone(keys),
            context: context.try_into().unwrap_or_default(),
            lifetime_s: options.session_lifetime_s.unwrap_or(DEFAULT_LIFETIME_S),
        }),
        Tickets::Off => Arc::new(NoTickets),
    })
}

/// Stateless tickets are switched off.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _ticket: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
