//! From files to a checked configuration: the order in which sections are read.

mod fcgi;
mod proxy;
mod section;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_rules::expr::scope::Reference;
use weir_rules::{Diagnostic, Shared, Word};

use crate::check::Checker;
use crate::global::NO_ACME;
use crate::keyword::{Found, How, Places};
use crate::language::args::{self, Args, Parsed, Prefix, fail, fail_hint};
use crate::language::diagnostics::Diagnostics;
use crate::language::environment::Environment;
use crate::language::files;
use crate::language::source::Sources;
use crate::language::tree::{self, Section, SectionKind};
use crate::model::{Checks, Config, Global, Mode, Proxy, Server, TlsWanted};
use crate::proxy::{dynamic_server, mode_of};
use crate::sections::defaults::{Chain, Defaults};
use crate::sections::{Finished, GlobalDraft, ProxyDraft, SectionDraft, World};
use crate::small_sections::NO_PROGRAMS;
use crate::table;

/// A configuration that can be run.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notices.
    pub diagnostics: Diagnostics,
    /// The environment as the configuration left it.
    pub environment: Environment,
}

/// Reads, parses and checks files; folders stand for their `*.cfg` files.
///
/// # Errors
/// Everything that is wrong, warnings included.
pub fn load(paths: &[PathBuf], env: &Environment) -> Result<Loaded, Box<Diagnostics>> {
    match Sources::read(paths) {
        Ok(sources) => load_sources(sources, env),
        Err(problems) => {
            let mut diagnostics = Diagnostics::default();
            diagnostics
                .extend(problems.into_iter().map(|message| Diagnostic::error(Default::default(), message)));
            Err(Box::new(diagnostics))
        }
    }
}

/// Parses and checks one text with an empty environment.
///
/// # Errors
/// Everything that is wrong, warnings included.
pub fn load_str(name: &str, text: &str) -> Result<Loaded, Box<Diagnostics>> {
    load_sources(Sources::from_text(name, text), &Environment::from_variables([], "localhost"))
}

/// Parses and checks texts.
///
/// # Errors
/// Everything that is wrong, warnings included.
pub fn load_sources(sources: Sources, env: &Environment) -> Result<Loaded, Box<Diagnostics>> {
    let mut diagnostics = Diagnostics::new(sources.clone());
    let mut env = env.clone();
    let names: Vec<&str> = sources.files().iter().map(|file| &*file.name).collect();
    env.set(b"HAPROXY_CFGFILES", names.join(";").as_bytes());
    let sections = tree::parse(&sources, &mut env, &mut diagnostics);
    let mut config = build(&sections, &env, &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(Box::new(diagnostics));
    }
    config.sources = sources.files().iter().map(|file| Arc::clone(&file.name)).collect();
    Ok(Loaded { config, diagnostics, environment: env })
}

/// Parses a server line for `add server`: `NAME ADDRESS [words]` after the keyword.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_server(words: &[Word], global: &Global) -> Result<Server, Vec<Diagnostic>> {
    let read = |path: &Path| files::read(path);
    let shared = Shared::new(&read);
    dynamic_server(words, global, &shared)
}

fn build(sections: &[Section], env: &Environment, diagnostics: &mut Diagnostics) -> Config {
    let read = |path: &Path| files::read(path);
    let mut shared = Shared::new(&read);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    shared.env = env.variables().map(|(name, value)| (text(name), text(value))).collect();
    let mut found = Vec::new();
    let mut global = global(sections, &shared, &mut found);
    global.environment = shared.env.clone();
    shared.tracked_slots = global.tune.stick_counters;
    // As HAProxy: at least half of a buffer is for what is received.
    global.tune.maxrewrite = global.tune.maxrewrite.min(global.tune.bufsize / 2);
    global.ssl_server_verify_none |= env.server_verify_none;
    let local_peer = global.localpeer.clone().unwrap_or_else(|| env.local_peer.clone());
    let mut config = Config::default();
    small_sections(sections, &global, &mut shared, &local_peer, &mut config, &mut found);
    config.patterns = Arc::clone(&shared.files);
    let mut references = fcgi_apps(sections, &shared, &mut config, &mut found);
    config.tls_wanted = tls_wanted(sections);
    let world = World {
        shared: &shared,
        global: &global,
        backends: backends(sections),
        rings: config.rings.keys().cloned().collect(),
        peers: config.peers.keys().cloned().collect(),
        messages: Default::default(),
    };
    let (mut proxies, of_proxies) = proxies(sections, &world, &mut found);
    references.extend(of_proxies);
    let healthchecks = healthchecks(sections, &world, &mut found);
    drop(world);
    config.healthchecks = healthchecks;
    config.global = global;
    let mut checker = Checker { proxies: &mut proxies, config: &mut config, found };
    checker.run(&references);
    diagnostics.extend(checker.found);
    config.proxies = proxies.into_iter().map(Arc::new).collect();
    config
}

/// Looks for fetches of TLS handshakes in all words: they may stand in any expression, log format or environment
/// variable. Finding one where there is none costs memory only.
fn tls_wanted(sections: &[Section]) -> TlsWanted {
    let words = || sections.iter().flat_map(|section| &section.lines).flat_map(|line| &line.words);
    let any = |names: &[&str]| {
        words()
            .any(|word| names.iter().any(|name| memchr::memmem::find(&word.text, name.as_bytes()).is_some()))
    };
    TlsWanted {
        hello: any(&["c_client_random", "c_server_random", "c_session_id"]),
        secrets: any(&["c_session_key"]),
    }
}

fn global(sections: &[Section], shared: &Shared<'_>, found: &mut Vec<Diagnostic>) -> Global {
    let mut draft = GlobalDraft::new(shared);
    for section in sections.iter().filter(|section| section.kind == SectionKind::Global) {
        for line in &section.lines {
            if let Err(problems) = global_line(&mut draft, &line.words) {
                found.extend(problems);
            }
        }
    }
    found.append(&mut draft.scope.warnings);
    draft.global
}

fn global_line(draft: &mut GlobalDraft<'_>, words: &[Word]) -> Parsed {
    let (prefix, words) = args::prefix(words)?;
    let (keyword, count) = match table::find(words, Places::GLOBAL) {
        Found::Here(keyword, count) => (keyword, count),
        Found::Elsewhere(keyword) if keyword.places.meets(Places::PROXIES) => {
            let message = format!("'{}' is not allowed in the 'global' section", keyword.name);
            return fail_hint(
                words[0].pos,
                message,
                format!("it may stand in: {}", keyword.places.names().join(", ")),
            );
        }
        _ => return Err(vec![table::unknown(words, Places::GLOBAL, "'global' section")]),
    };
    if prefix != Prefix::None && !keyword.negatable {
        return fail(words[0].pos, format!("'no' is not possible before '{}'", keyword.name));
    }
    let mut args = Args::new(words, keyword.name, count, prefix);
    match keyword.how {
        How::Global(parse) => parse(draft, &mut args)?,
        How::NoEffect(_) | How::Tree => {}
        _ => keyword.refused(args.keyword_pos)?,
    }
    draft.scope.warnings.extend(args.ignored());
    Ok(())
}

/// Sections that proxies refer to; user lists and error sections go where rules look for them.
fn small_sections(
    sections: &[Section],
    global: &Global,
    shared: &mut Shared<'_>,
    local_peer: &str,
    config: &mut Config,
    found: &mut Vec<Diagnostic>,
) {
    let mut userlists = BTreeMap::new();
    let mut http_errors = BTreeMap::new();
    let mut seen: HashSet<(SectionKind, &str)> = HashSet::new();
    for section in sections {
        let kind = section.kind;
        if kind.is_proxy() || matches!(kind, SectionKind::Global | SectionKind::Defaults) {
            continue;
        }
        if let Some(refused) = refused(section) {
            found.push(refused);
            continue;
        }
        if !seen.insert((kind, &section.name)) && kind != SectionKind::Traces {
            let message = format!("'{}' section '{}' is declared twice", kind.word(), section.name);
            found.push(Diagnostic::error(section.pos, message).hint("use distinct names"));
        }
        if matches!(kind, SectionKind::Healthcheck | SectionKind::FcgiApp) {
            // Read later, for what they may refer to.
            continue;
        }
        let mut draft = SectionDraft::new(section, global, shared, local_peer);
        draft.run(section, found);
        let name = section.name.clone();
        match kind {
            SectionKind::Userlist => {
                userlists.insert(name, Arc::new(draft.userlist));
            }
            SectionKind::HttpErrors => {
                http_errors.insert(name, draft.errors);
            }
            SectionKind::Cache => {
                config.caches.insert(name, draft.cache);
            }
            SectionKind::Peers => {
                config.peers.insert(name, draft.peers);
            }
            SectionKind::Resolvers => {
                config.resolvers.insert(name, draft.resolvers);
            }
            SectionKind::Ring => {
                config.rings.insert(name, draft.ring);
            }
            SectionKind::LogForward => config.log_forwards.push(draft.log_forward),
            SectionKind::LogProfile => {
                config.log_profiles.insert(name, Arc::new(draft.log_profile));
            }
            SectionKind::Mailers => {
                config.mailers.insert(name, draft.mailers);
            }
            SectionKind::CrtStore => config.crt_stores.push(draft.crt_store),
            _ => {}
        }
    }
    shared.user_lists = userlists;
    shared.http_errors = http_errors;
}

/// The error for a section that is known and not obeyed.
fn refused(section: &Section) -> Option<Diagnostic> {
    let (what, reason) = match section.kind {
        SectionKind::Program => ("supported", Some(NO_PROGRAMS)),
        SectionKind::Acme => ("supported", Some(NO_ACME)),
        _ => return None,
    };
    let message = format!("'{}' sections are not {what}", section.kind.word());
    let error = Diagnostic::error(section.pos, message);
    Some(match reason {
        Some(reason) => error.hint(reason),
        None => error,
    })
}

/// Reads the `fcgi-app` sections; the names in them that must exist.
fn fcgi_apps(
    sections: &[Section],
    shared: &Shared<'_>,
    config: &mut Config,
    found: &mut Vec<Diagnostic>,
) -> Vec<Reference> {
    let mut references = Vec::new();
    for section in sections.iter().filter(|section| section.kind == SectionKind::FcgiApp) {
        let finished = fcgi::read(section, shared, found);
        references.extend(finished.references);
        config.fcgi_apps.insert(section.name.clone(), finished.app);
    }
    references
}

/// Index of each proxy with a backend's half.
fn backends(sections: &[Section]) -> HashMap<&str, usize> {
    let proxies = sections.iter().filter(|section| section.kind.is_proxy()).enumerate();
    let backends = proxies.filter(|(_, section)| section.kind != SectionKind::Frontend);
    backends.map(|(index, section)| (section.name.as_str(), index)).collect()
}

fn proxies(
    sections: &[Section],
    world: &World<'_>,
    found: &mut Vec<Diagnostic>,
) -> (Vec<Proxy>, Vec<Reference>) {
    let mut proxies = Vec::new();
    let mut references = Vec::new();
    let mut defaults = Defaults::default();
    for section in sections {
        if section.kind == SectionKind::Defaults {
            let chain = defaults.add(section, found);
            references.extend(check_defaults(section, &chain, world, found));
        } else if section.kind.is_proxy() {
            let chain = defaults.of(section, found);
            let finished = read_proxy(section, &chain, world, found);
            found.extend(finished.found);
            references.extend(finished.references);
            proxies.push(finished.proxy);
        }
    }
    defaults.check_users(found);
    (proxies, references)
}

/// A `healthcheck` section is read as the lines of a backend that are about checks.
fn healthchecks(
    sections: &[Section],
    world: &World<'_>,
    found: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Checks> {
    let mut all = BTreeMap::new();
    for section in sections.iter().filter(|section| section.kind == SectionKind::Healthcheck) {
        let mut draft = ProxyDraft::new(section, world, Mode::Http);
        draft.run(&section.lines, false, found);
        if !draft.typed {
            found.push(Diagnostic::error(section.pos, "a 'healthcheck' section needs a 'type'"));
        }
        let finished = draft.finish();
        found.extend(finished.found);
        all.insert(section.name.clone(), finished.proxy.checks);
    }
    all
}

fn read_proxy(
    section: &Section,
    chain: &Chain<'_>,
    world: &World<'_>,
    found: &mut Vec<Diagnostic>,
) -> Finished {
    let mode = mode_of(chain.lines().chain(&section.lines));
    let mut draft = ProxyDraft::new(section, world, mode);
    for defaults in &chain.sections {
        draft.run(&defaults.lines, true, found);
        draft.proxy.defaults.clone_from(&defaults.name);
    }
    draft.run(&section.lines, false, found);
    draft.finish()
}

/// A defaults section is read once by itself: what is wrong with it is wrong without any proxy too.
fn check_defaults(
    section: &Section,
    chain: &Chain<'_>,
    world: &World<'_>,
    found: &mut Vec<Diagnostic>,
) -> Vec<Reference> {
    let mode = mode_of(chain.lines().chain(&section.lines));
    let mut draft = ProxyDraft::new(section, world, mode);
    for defaults in &chain.sections {
        draft.run(&defaults.lines, true, found);
    }
    draft.run(&section.lines, false, found);
    let finished = draft.finish();
    found.extend(finished.found);
    finished.references
}
