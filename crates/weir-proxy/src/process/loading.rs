//! Everything that a start reads and looks up before it serves: names, files, certificates.
//!
//! A check of a configuration is the same and nothing else, without a socket.  All that is wrong is collected, so that
//! one look shows it.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::model::{Bind, Config, LogAddress, SslBind};
use weir_rules::Pos;

use crate::accept::listeners::{Role, binds};
use crate::control::check;
use crate::control::resolve;
use crate::control::saved_state::SavedStates;
use crate::server::reach::tls::{self, Acceptor};
use crate::state::Shared;
use crate::state::problem::{self, Problem};

/// The state of a process that has everything but its sockets and its threads.
pub(crate) struct Loaded {
    pub(crate) shared: Arc<Shared>,
    pub(crate) acceptors: Acceptors,
    /// What could not be used and is not needed.
    pub(crate) remarks: Vec<Problem>,
}

/// Loads a configuration for so many threads.
///
/// # Errors
/// All that is wrong, and what is worth knowing beside it.
pub(crate) fn load(config: &Arc<Config>, threads: usize) -> Result<Loaded, Vec<Problem>> {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let shared = Shared::new(Arc::clone(config), threads, hostname);
    let saved = SavedStates::read(&shared);
    let mut found = log_servers(config);
    found.extend(namespaces(&shared));
    found.extend(resolve::at_start(&shared, &saved));
    saved.apply(&shared);
    found.extend(check::prepare(&shared));
    found.extend(tls::prepare_servers(&shared));
    let mut acceptors = Acceptors::default();
    let may_have_tls = binds(config).filter(|(role, _)| *role != Role::Admin);
    may_have_tls.for_each(|(_, bind)| found.extend(acceptors.load(&shared, bind)));
    let remark = |text| Problem::warning(Pos::default(), text);
    found.extend(shared.certificates.remarks().into_iter().map(remark));
    if problem::are_harmless(&found) { Ok(Loaded { shared, acceptors, remarks: found }) } else { Err(found) }
}

/// Log servers whose names cannot be resolved: their lines would be lost without a word.
fn log_servers(config: &Config) -> Vec<Problem> {
    let logs = config.proxies.iter().flat_map(|proxy| &proxy.logs).chain(&config.global.logs);
    let names = logs.filter_map(|target| match &target.address {
        LogAddress::Name(host, port, _) => Some((host, *port)),
        _ => None,
    });
    let names: BTreeSet<_> = names.collect();
    let lost = names.into_iter().filter(|(host, port)| resolve::lookup(host, *port).is_none());
    lost.map(|(host, _)| Problem::error(Pos::default(), format!("'log': could not resolve address '{host}'")))
        .collect()
}

/// Network namespaces that servers name and that are not there.
fn namespaces(shared: &Shared) -> Vec<Problem> {
    let servers = shared.proxies.iter().flat_map(|proxy| proxy.servers.load_full().to_vec());
    let missing = servers.filter_map(|server| {
        let namespace = server.namespace.as_ref().filter(|namespace| !namespace.is_open())?;
        let message =
            format!("server '{}': cannot open namespace '{}'", server.config.name, namespace.name());
        Some(Problem::error(server.config.pos, message).about(namespace.name()))
    });
    missing.collect()
}

/// TLS of the bind lines; lines with the same settings (a range of ports) share one.
#[derive(Default)]
pub(crate) struct Acceptors {
    known: HashMap<String, Arc<Acceptor>>,
}

impl Acceptors {
    /// What a bind line was loaded with.
    pub(crate) fn of(&self, ssl: &SslBind) -> Option<&Arc<Acceptor>> {
        self.known.get(&key(ssl))
    }

    fn load(&mut self, shared: &Shared, bind: &Bind) -> Vec<Problem> {
        let Some(ssl) = bind.ssl.as_ref().filter(|ssl| !self.known.contains_key(&key(ssl))) else {
            return Vec::new();
        };
        let certificates = &shared.certificates;
        let made = Acceptor::new(&shared.config, ssl, &certificates.store);
        match made.and_then(|made| certificates.register(made.server()).map(|()| made)) {
            Ok(made) => {
                self.known.insert(key(ssl), Arc::new(made));
                Vec::new()
            }
            Err(error) => explain(bind.pos, &error, &files(ssl), &certificate_errors(shared, ssl)),
        }
    }
}

fn key(ssl: &SslBind) -> String {
    format!("{ssl:?}")
}

/// A file that a line names, and the word before it.
pub(crate) type NamedFile<'a> = (&'static str, &'a PathBuf);

fn files(ssl: &SslBind) -> Vec<NamedFile<'_>> {
    let one = [
        ("tls-ticket-keys", &ssl.tls_ticket_keys),
        ("ca-sign-file", &ssl.ca_sign_file),
        ("ca-file", &ssl.words.ca_file),
        ("ca-verify-file", &ssl.ca_verify_file),
        ("crl-file", &ssl.words.crl_file),
    ];
    let one = one.into_iter().filter_map(|(word, file)| Some((word, file.as_ref()?)));
    ssl.crt_list.iter().map(|list| ("crt-list", list)).chain(one).collect()
}

/// Certificates of a bind line that cannot be used, each with the reason.
fn certificate_errors<'a>(shared: &Shared, ssl: &'a SslBind) -> Vec<(&'a PathBuf, String)> {
    let load = |file: &'a PathBuf| {
        tls::certificate(&shared.config, &shared.certificates.store, file).err().map(|error| (file, error))
    };
    ssl.default_crt.iter().chain(&ssl.crt).filter_map(load).collect()
}

/// What is wrong with a line whose TLS cannot be set up: every file that cannot be used, or else what went wrong first.
pub(crate) fn explain(
    pos: Pos,
    first: &str,
    files: &[NamedFile<'_>],
    certificates: &[(&PathBuf, String)],
) -> Vec<Problem> {
    let mut found: Vec<Problem> =
        certificates.iter().map(|(file, error)| Problem::error(pos, error).about_file(file)).collect();
    for (word, file) in files.iter().filter(|(_, file)| !is_built_in(file)) {
        if let Err(error) = File::open(file) {
            let message = format!("'{word}': cannot open '{}': {error}", file.display());
            found.push(Problem::error(pos, message).about_file(file));
        }
    }
    if found.is_empty() {
        found.push(Problem::error(pos, first).about("ssl"));
    }
    found
}

/// `@system-ca`
fn is_built_in(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().starts_with(b"@")
}
