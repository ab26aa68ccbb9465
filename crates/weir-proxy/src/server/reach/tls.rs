//! TLS on both sides: settings from the configuration, and handshakes. What rules may know of them is `tls_facts`'.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::{self, Config, Global, SslBind, SslServer, TlsVersion, TlsWords, Tune};
use weir_net::Stream;
use weir_net::tls::algorithms::{Algorithms, Version};
use weir_net::tls::certificate::{Certificate, CertificateStore, ExtraFiles, NamedFiles, load_files};
use weir_net::tls::client::{ClientOptions, TlsClient};
use weir_net::tls::crt_list::CrtListLine;
use weir_net::tls::encrypted_key::AskPassphrase;
use weir_net::tls::server::{CertificateSource, LineOptions, ServerOptions, Tickets, TlsServer};
use weir_net::tls::tickets::TicketKeys;
use weir_net::tls::verify::{IgnoreErrors, Leniency, Verify};
use weir_rules::Pos;
use weir_rules::facts::TlsFacts;

use crate::edge::tls_facts::Facts;
use crate::log::early::EarlyError;
use crate::process::loading;
use crate::state::problem::Problem;
use crate::state::{ServerState, Shared};

/// The longest passphrase, as in OpenSSL (PEM_BUFSIZE).
const LONGEST_PASSPHRASE_BYTES: usize = 1024;

/// TLS of a bind line.
pub(crate) struct Acceptor {
    server: Arc<TlsServer>,
    /// `tune.ssl.capture-buffer-size`
    capture: usize,
}

impl Acceptor {
    /// Reads the files of a bind line.
    pub(crate) fn new(config: &Config, ssl: &SslBind, store: &CertificateStore) -> Result<Self, String> {
        let options = server_options(config, ssl)?;
        let (server, _not_supported) = TlsServer::new(&options, store).map_err(|error| error.to_string())?;
        Ok(Self { server, capture: config.global.tune.ssl_capture_buffer_size })
    }

    /// What it serves with.
    pub(crate) fn server(&self) -> &Arc<TlsServer> {
        &self.server
    }

    /// Shakes hands with a client of which `received` was read already.
    ///
    /// With `early` the first early data is enough: the handshake goes on while the connection is used.
    pub(crate) async fn accept(
        &self,
        stream: &mut Stream,
        received: &[u8],
        early: bool,
    ) -> io::Result<Rc<dyn TlsFacts>> {
        stream.start_server_tls(&self.server, received);
        match early {
            true => stream.handshake_or_early().await?,
            false => stream.handshake().await?,
        }
        let info = stream.tls().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Rc::new(Facts::new(info, self.capture)))
    }
}

fn server_options(config: &Config, ssl: &SslBind) -> Result<ServerOptions, String> {
    let mut certificates = Vec::new();
    certificates.extend(ssl.default_crt.iter().cloned().map(CertificateSource::DefaultCrt));
    certificates.extend(ssl.crt.iter().cloned().map(CertificateSource::Crt));
    certificates.extend(ssl.crt_list.iter().cloned().map(CertificateSource::CrtList));
    if let Some(list) = &ssl.frontend_list {
        let lines = (1..).zip(&list.lines).filter_map(|(number, words)| {
            let (file, options) = words.split_first()?;
            Some(CrtListLine { number, file: file.into(), options: options.to_vec(), filters: Vec::new() })
        });
        certificates.push(CertificateSource::Lines(PathBuf::from(&list.name), lines.collect()));
    }
    let tickets = match &ssl.tls_ticket_keys {
        _ if ssl.words.no_tls_tickets => Tickets::Off,
        Some(path) => Tickets::Keys(Arc::new(ticket_keys(path)?)),
        None => Tickets::Internal,
    };
    let alpn = match &ssl.alpn {
        _ if ssl.no_alpn => Vec::new(),
        Some(protocols) => protocols.clone(),
        None => Vec::new(),
    };
    let tune = &config.global.tune;
    Ok(ServerOptions {
        certificates,
        extra_files: extra_files(&config.global),
        certificate_base: config.global.crt_base.clone(),
        authority_base: config.global.ca_base.clone(),
        line: LineOptions {
            algorithms: algorithms(&ssl.words),
            alpn,
            verify: match ssl.verify {
                Some(model::Verify::Required) => Verify::Required,
                Some(model::Verify::Optional) => Verify::Optional,
                Some(model::Verify::None) | None => Verify::None,
            },
            ca_file: ssl.words.ca_file.clone(),
            ca_verify_file: ssl.ca_verify_file.clone(),
            crl_file: ssl.words.crl_file.clone(),
            leniency: Leniency {
                certificate: ignored("crt-ignore-err", ssl.crt_ignore_err.as_deref())?,
                authorities: ignored("ca-ignore-err", ssl.ca_ignore_err.as_deref())?,
            },
            no_ca_names: ssl.no_ca_names,
            allow_early_data: ssl.allow_0rtt,
        },
        strict_sni: ssl.strict_sni,
        prefer_client_ciphers: ssl.prefer_client_ciphers,
        tickets,
        session_lifetime_s: u32::try_from(tune.ssl_lifetime.as_secs()).ok(),
        cached_sessions: Some(tune.ssl_cachesize),
        max_record_bytes: max_record(tune),
        early_record: Some((tune.ssl_maxrecord, tune.idletimer.as_millis() as u64))
            .filter(|(bytes, _)| *bytes > 0),
        generate_with: signing_authority(ssl)?,
        // As much as a request's head may have.
        max_early_data_bytes: u32::try_from(tune.bufsize.saturating_sub(tune.maxrewrite)).unwrap_or(u32::MAX),
        generate_pass: ssl.ca_sign_pass.clone(),
        generated_kept: Some(tune.ssl_ctx_cache_size),
        ocsp_update: ssl.ocsp_update.unwrap_or(config.global.ocsp_update.mode),
        keep_hello: config.tls_wanted.hello || tune.ssl_capture_buffer_size > 0,
        keep_secrets: config.tls_wanted.secrets || tune.ssl_keylog,
    })
}

/// `generate-certificates` and `ca-sign-file`
fn signing_authority(ssl: &SslBind) -> Result<Option<PathBuf>, String> {
    match (ssl.generate_certificates, &ssl.ca_sign_file) {
        (false, _) => Ok(None),
        (true, Some(file)) => Ok(Some(file.clone())),
        (true, None) => Err("'generate-certificates' needs a 'ca-sign-file'".to_owned()),
    }
}

/// `tune.ssl.hard-maxrecord`
fn max_record(tune: &Tune) -> Option<usize> {
    Some(tune.ssl_hard_maxrecord).filter(|bytes| *bytes > 0)
}

/// `ssl-load-extra-files` and `ssl-load-extra-del-ext`
fn extra_files(global: &Global) -> ExtraFiles {
    let model::ExtraFiles { bundle, key, ocsp, issuer } = global.ssl_load_extra_files;
    ExtraFiles {
        bundle,
        key,
        ocsp,
        issuer,
        replace_extension: global.ssl_load_extra_del_ext,
        skip_self_issued: global.ssl_skip_self_issued_ca,
    }
}

/// The list of `crt-ignore-err` or `ca-ignore-err`: `all`, or numbers and OpenSSL's names between commas.
fn ignored(keyword: &str, list: Option<&str>) -> Result<IgnoreErrors, String> {
    let Some(list) = list else { return Ok(IgnoreErrors::Nothing) };
    if list == "all" {
        return Ok(IgnoreErrors::All);
    }
    let number = |word: &str| {
        let known = word.parse().ok().or_else(|| weir_rules::verify_error_number(word));
        known.ok_or_else(|| format!("{keyword}: '{word}' is no error of verification: expected a number or a name such as X509_V_ERR_CERT_HAS_EXPIRED"))
    };
    list.split(',').map(number).collect::<Result<_, _>>().map(IgnoreErrors::These)
}

/// Adds the certificates that crt-store sections describe, under the names by which lines refer to them.  Returns those
/// that cannot be used.
fn describe(config: &Config, store: &CertificateStore) -> Vec<Problem> {
    let mut found = Vec::new();
    if let [program, arguments @ ..] = config.global.ssl_passphrase_cmd.as_slice() {
        store.passphrases.ask_with(passphrase_by(program.clone(), arguments.to_vec()));
    }
    if let Some(folder) = &config.global.issuers_chain_path
        && let Err(error) = store.load_chains(folder)
    {
        found.push(Problem::error(Pos::default(), error.to_string()));
    }
    for section in &config.crt_stores {
        for load in &section.loads {
            let named =
                NamedFiles { key: load.key.clone(), ocsp: load.ocsp.clone(), issuer: load.issuer.clone() };
            let loaded = match load_files(&load.crt, extra_files(&config.global), &named, store) {
                Ok(loaded) => loaded,
                Err(error) => {
                    found.push(Problem::error(load.pos, error.to_string()).about_file(&load.crt));
                    continue;
                }
            };
            let name = if section.name.is_empty() && load.alias.is_none() {
                load.crt.to_string_lossy().into_owned()
            } else {
                load.reference(section)
            };
            let certificate = store.insert(name, loaded);
            load.ocsp_update.into_iter().for_each(|on| certificate.declare_ocsp_update(on));
        }
    }
    found
}

/// `ssl-passphrase-cmd`: the program is told the file and says the passphrase on its standard output.
fn passphrase_by(program: String, arguments: Vec<String>) -> AskPassphrase {
    Box::new(move |file| {
        let at = |reason: String| format!("ssl-passphrase-cmd '{program}': {reason}");
        let mut child = Command::new(&program)
            .arg(file)
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| at(error.to_string()))?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let longest = LONGEST_PASSPHRASE_BYTES as u64 + 3;
            stdout.take(longest).read_to_end(&mut output).map_err(|error| at(error.to_string()))?;
        }
        let status = child.wait().map_err(|error| at(error.to_string()))?;
        if !status.success() {
            return Err(at(format!("it failed ({status})")));
        }
        let passphrase = output.strip_suffix(b"\n").unwrap_or(&output);
        let passphrase = passphrase.strip_suffix(b"\r").unwrap_or(passphrase);
        match passphrase.len() {
            0 => Err(at("it said nothing".to_owned())),
            1..=LONGEST_PASSPHRASE_BYTES => Ok(passphrase.to_vec()),
            _ => Err(at(format!("the passphrase is longer than {LONGEST_PASSPHRASE_BYTES} bytes"))),
        }
    })
}

fn ticket_keys(path: &Path) -> Result<TicketKeys, String> {
    let at = |error: String| format!("tls-ticket-keys {}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    TicketKeys::from_text(&text).map_err(at)
}

/// Versions, cipher suites, groups and signatures as written.
fn algorithms(words: &TlsWords) -> Algorithms {
    let version = |named: Option<TlsVersion>| match named {
        None => Version::Unset,
        Some(TlsVersion::Ssl3) => Version::Ssl3,
        Some(TlsVersion::Tls10) => Version::Tls10,
        Some(TlsVersion::Tls11) => Version::Tls11,
        Some(TlsVersion::Tls12) => Version::Tls12,
        Some(TlsVersion::Tls13) => Version::Tls13,
    };
    Algorithms {
        ciphers: words.ciphers.clone(),
        ciphersuites: words.ciphersuites.clone(),
        curves: words.curves.clone(),
        sigalgs: words.sigalgs.clone(),
        client_sigalgs: words.client_sigalgs.clone(),
        min_version: version(words.min_ver),
        max_version: version(words.max_ver),
        without: Vec::new(),
    }
}

/// Prepares TLS for every server that has it.  Returns the files that cannot be used.
pub(crate) fn prepare_servers(shared: &Shared) -> Vec<Problem> {
    let store = &shared.certificates.store;
    let mut found = describe(&shared.config, store);
    each_server(shared, |ssl, server| {
        match client(ssl, server, store, &shared.config) {
            Ok(made) => server.tls.store(Some(made)),
            Err(error) => found.extend(server_problems(shared, ssl, server, &error)),
        }
        Ok(())
    });
    found
}

/// What is wrong with a server whose TLS cannot be set up.
fn server_problems(shared: &Shared, ssl: &SslServer, server: &ServerState, error: &str) -> Vec<Problem> {
    let files = [("ca-file", &ssl.words.ca_file), ("crl-file", &ssl.words.crl_file)];
    let files: Vec<_> = files.into_iter().filter_map(|(word, file)| Some((word, file.as_ref()?))).collect();
    let mut certificates = Vec::new();
    if let Some(file) = &ssl.crt
        && let Err(error) = certificate(&shared.config, &shared.certificates.store, file)
    {
        certificates.push((file, error));
    }
    loading::explain(server.config.pos, error, &files, &certificates)
}

/// The first certificate of a file, if it can be used.
pub(crate) fn certificate(
    config: &Config,
    store: &CertificateStore,
    file: &Path,
) -> Result<Option<Arc<Certificate>>, String> {
    let loaded = store.load(file, extra_files(&config.global)).map_err(|error| error.to_string())?;
    Ok(loaded.into_iter().next())
}

/// Does something with every server that has TLS; returns a sentence for each that it failed with.
fn each_server(
    shared: &Shared,
    mut act: impl FnMut(&SslServer, &ServerState) -> Result<(), String>,
) -> Vec<String> {
    let mut errors = Vec::new();
    for (proxy, config) in shared.proxies.iter().zip(&shared.config.proxies) {
        for server in proxy.servers.load().iter() {
            let Some(ssl) = settings_of(server, shared.config.checks(config, &server.config)) else {
                continue;
            };
            if let Err(error) = act(ssl, server) {
                errors.push(format!("server '{}/{}': {error}", config.name, server.config.name));
            }
        }
    }
    for remotes in &shared.peers {
        for peer in &remotes.peers {
            let Some(ssl) = &peer.config.ssl else { continue };
            if let Err(error) = act(ssl, peer) {
                errors.push(format!("peer '{}/{}': {error}", remotes.section, peer.config.name));
            }
        }
    }
    for (name, ring) in shared.logs.rings() {
        for server in &ring.servers {
            let Some(ssl) = &server.config.ssl else { continue };
            if let Err(error) = act(ssl, server) {
                errors.push(format!("ring '{name}', server '{}': {error}", server.config.name));
            }
        }
    }
    errors
}

impl Shared {
    /// Whether a server has TLS settings like this.
    pub(crate) fn any_server_tls(&self, fits: impl Fn(&SslServer) -> bool) -> bool {
        let mut found = false;
        each_server(self, |ssl, _| {
            found |= fits(ssl);
            Ok(())
        });
        found
    }

    /// Prepares TLS anew for servers whose files changed: their connections from now on are others.
    pub(crate) fn renew_servers(&self, concerned: impl Fn(&SslServer) -> bool) -> Result<(), String> {
        let errors = each_server(self, |ssl, server| {
            if !concerned(ssl) || server.tls.load().is_none() {
                return Ok(());
            }
            let made = client(ssl, server, &self.certificates.store, &self.config)?;
            server.tls.store(Some(made));
            server.generation.fetch_add(1, Relaxed);
            Ok(())
        });
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    /// Whether a bind or server line uses a certificate.
    #[must_use]
    pub fn uses_certificate(&self, certificate: &Arc<Certificate>) -> bool {
        let names =
            |ssl: &SslServer| ssl.crt.as_ref().is_some_and(|crt| crt.as_os_str() == certificate.name());
        self.certificates.is_used(certificate) || self.any_server_tls(names)
    }

    /// `commit ssl cert`: the next handshakes of clients and with servers use the new content.
    ///
    /// # Errors
    /// Nothing is prepared for it, or what is prepared does not fit together; it stays prepared then.
    pub fn commit_certificate(&self, name: &str) -> Result<(), String> {
        self.certificates.commit(name)?;
        self.renew_servers(|ssl| ssl.crt.as_ref().is_some_and(|crt| crt.as_os_str() == name))
    }

    /// `del ssl cert`
    ///
    /// # Errors
    /// It does not exist or is in use.
    pub fn delete_certificate(&self, name: &str) -> Result<(), String> {
        if self.any_server_tls(|ssl| ssl.crt.as_ref().is_some_and(|crt| crt.as_os_str() == name)) {
            return Err(format!(
                "Can't remove the certificate: certificate '{name}' in use, can't be deleted!"
            ));
        }
        self.certificates.delete(name)
    }
}

impl Shared {
    /// Prepares TLS for a server that was added at run time, if it has it.
    ///
    /// # Errors
    /// Why its files cannot be used.
    pub fn prepare_tls(&self, server: &ServerState) -> Result<(), String> {
        let checks = self.config.checks(&self.config.proxies[server.proxy], &server.config);
        let Some(ssl) = settings_of(server, checks) else { return Ok(()) };
        server.tls.store(Some(client(ssl, server, &self.certificates.store, &self.config)?));
        Ok(())
    }
}

impl Shared {
    /// Turns TLS to a server on or off (`set server ssl`).
    ///
    /// # Errors
    /// Why its files cannot be used.
    pub fn set_tls(&self, server: &ServerState, on: bool) -> Result<(), String> {
        if on && server.tls.load().is_none() {
            let ssl = server.config.ssl.as_ref().unwrap_or(&server.config.ssl_settings);
            server.tls.store(Some(client(ssl, server, &self.certificates.store, &self.config)?));
        }
        server.tls_switch.store(i8::from(on), Relaxed);
        server.generation.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// The TLS words of a server's line, when its traffic or its checks need them.
fn settings_of<'a>(server: &'a ServerState, checks: &model::Checks) -> Option<&'a SslServer> {
    let config = &server.config;
    let by_script = |steps: &[model::TcpCheckStep]| {
        steps.iter().any(|step| matches!(step, model::TcpCheckStep::Connect(connect) if connect.ssl))
    };
    let scripted = || {
        let http = checks.httpchk.as_ref().is_some_and(|check| by_script(&check.steps));
        http || checks.tcpchk.as_deref().is_some_and(by_script)
    };
    let checked = config.check.as_ref().is_some_and(|check| check.ssl == Some(true) || scripted());
    config.ssl.as_ref().or_else(|| checked.then_some(&config.ssl_settings))
}

fn client(
    ssl: &SslServer,
    server: &ServerState,
    store: &CertificateStore,
    config: &Config,
) -> Result<Arc<TlsClient>, String> {
    let global = &config.global;
    let certificate = ssl.crt.as_ref().map(|file| certificate(config, store, file)).transpose()?.flatten();
    let options = ClientOptions {
        algorithms: algorithms(&ssl.words),
        verify: ssl.verify != Some(model::Verify::None),
        ca_file: ssl.words.ca_file.clone(),
        crl_file: ssl.words.crl_file.clone(),
        verify_host: ssl.verifyhost.clone(),
        certificate,
        alpn: server.config.alpn.clone().unwrap_or_default(),
        no_resumption: ssl.no_ssl_reuse,
        no_tickets: ssl.words.no_tls_tickets,
        max_record_bytes: max_record(&global.tune),
        keep_hello: config.tls_wanted.hello,
        keep_secrets: config.tls_wanted.secrets || global.tune.ssl_keylog,
    };
    TlsClient::with_store(&options, store)
        .map(|(client, _not_supported)| client)
        .map_err(|error| error.to_string())
}

/// Shakes hands with a server.
pub(crate) async fn connect(
    stream: &mut Stream,
    server: &ServerState,
    sni: Option<&[u8]>,
    alpn: Option<&[Vec<u8>]>,
) -> io::Result<Rc<dyn TlsFacts>> {
    let Some(client) = server.tls.load_full() else { return Err(io::ErrorKind::Unsupported.into()) };
    let name = sni.and_then(|name| std::str::from_utf8(name).ok());
    stream.start_client_tls(&client, name, alpn)?;
    stream.handshake().await?;
    facts(stream)
}

/// What rules may know of a stream's handshake.
pub(crate) fn facts(stream: &Stream) -> io::Result<Rc<dyn TlsFacts>> {
    let info = stream.tls().ok_or(io::ErrorKind::NotConnected)?;
    Ok(Rc::new(Facts::new(info, 0)))
}

/// The same of one that failed, for logs; none when TLS was not begun.
pub(crate) fn facts_of_failed(stream: &Stream) -> Option<Rc<dyn TlsFacts>> {
    stream.handshake_info().map(|info| Rc::new(Facts::new(info, 0)) as Rc<dyn TlsFacts>)
}

/// Why a handshake with a server failed: number, name and text as `bc_err` and its like give them.
pub(crate) fn server_error(stream: &Stream, error: &io::Error, by_name: bool) -> EarlyError {
    match stream.handshake_info() {
        Some(info) if info.is_other_host() && by_name => EarlyError::TlsOtherHost,
        Some(info) if info.is_other_host() => EarlyError::TlsOtherCertificate,
        _ => EarlyError::of_tls(Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_tell_passphrases() {
        let check = |script: &str, expected: Result<&str, &str>| {
            let ask = passphrase_by("/bin/sh".to_owned(), vec!["key.pem".to_owned()]);
            // The file is the first argument, so that here it is the script.
            let file = std::env::temp_dir().join(format!("weir-passphrase-{}", std::process::id()));
            std::fs::write(&file, script).unwrap();
            let told = ask(&file).map(|passphrase| String::from_utf8(passphrase).unwrap());
            std::fs::remove_file(&file).unwrap();
            match expected {
                Ok(passphrase) => assert_eq!(told.as_deref(), Ok(passphrase), "{script}"),
                Err(reason) => assert!(told.unwrap_err().contains(reason), "{script}"),
            }
        };
        check("echo \"for $1\"", Ok("for key.pem"));
        check("printf 'a\\n\\n'", Ok("a\n"));
        check("printf 'a\\r\\n'", Ok("a"));
        check("echo", Err("it said nothing"));
        check("echo x; exit 3", Err("it failed"));
        check("head -c 1025 /dev/zero", Err("longer than 1024 bytes"));
        let missing = passphrase_by("/nonexistent".to_owned(), Vec::new());
        assert!(missing(Path::new("x")).unwrap_err().contains("/nonexistent"));
    }
}
