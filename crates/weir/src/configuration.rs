//! Reading the configuration for a process, and saying what is wrong with it.
//!
//! Owns what the process tells the configuration (options, variables) and what the command line changes in
//! it; the language is `weir-config`'s.

use std::io::IsTerminal;
use std::sync::Arc;

use weir_config::language::source::Sources;
use weir_config::model::{Bind, Config};
use weir_config::{Diagnostics, Environment};
use weir_proxy::state::problem::Problem;
use weir_rules::Diagnostic;

use crate::command_line::{Options, Role, Supervision, Verbosity};
use crate::console::{self, Console};
use crate::demands;
use crate::fleet::Policy;
use crate::privileges;

/// The configuration cannot be used; everything about it has been said.
#[derive(Debug)]
pub(crate) struct Unusable;

/// The last word about a configuration that cannot be used.
pub(crate) const FATAL: &str = "config : Fatal errors found in configuration.";

/// A configuration and the texts that it was read from, for what is found about it later.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub config: Config,
    pub sources: Sources,
}

/// Reads the configuration that the command line names.
pub(crate) fn load(options: &Options, role: Role, console: &Console) -> Result<Loaded, Unusable> {
    let loaded = weir_config::load(&options.files, &environment(options, role));
    let (config, diagnostics) = match loaded {
        Ok(loaded) => (Some(loaded.config), loaded.diagnostics),
        Err(diagnostics) => (None, *diagnostics),
    };
    // A process that another one started has nothing to add to what its parent has said, but for errors.
    if role == Role::First || config.is_none() {
        say(&diagnostics, console);
    }
    let sources = diagnostics.sources.clone();
    let Some(mut config) = config else {
        console.alert(FATAL);
        return Err(Unusable);
    };
    refuse_warnings(options, &config, diagnostics.has_warnings(), console)?;
    adjust(&mut config, options);
    Ok(Loaded { config, sources })
}

/// `-dW` and `zero-warning`
pub(crate) fn refuse_warnings(
    options: &Options,
    config: &Config,
    warned: bool,
    console: &Console,
) -> Result<(), Unusable> {
    if warned && (options.zero_warning || config.global.zero_warning) {
        console.alert("config : Some warnings were found and 'zero-warning' is set. Aborting.");
        return Err(Unusable);
    }
    Ok(())
}

/// Asks of the system what the configuration demands of it, before anything is opened.
pub(crate) fn demand(loaded: Loaded, console: &Console) -> Result<Loaded, Unusable> {
    let Loaded { config, sources } = loaded;
    let config = demands::check_start(config).map_err(|found| {
        say_found(&found, &sources, console);
        console.alert(FATAL);
        Unusable
    })?;
    if !demands::has_listener(&config) {
        console.alert("No enabled listener found (check for 'bind' directives) ! Exiting.");
        return Err(Unusable);
    }
    Ok(Loaded { config, sources })
}

/// What the configuration may ask about the process.
pub(crate) fn environment(options: &Options, role: Role) -> Environment {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut environment = Environment::from_process(options.local_peer.as_deref().unwrap_or(&host));
    if role == Role::Worker || options.supervision != Supervision::AsConfigured {
        environment.set(b"HAPROXY_MWORKER", b"1");
    }
    environment
}

fn say(diagnostics: &Diagnostics, console: &Console) {
    if diagnostics.list.is_empty() || (console.verbosity() == Verbosity::Quiet && !diagnostics.has_errors()) {
        return;
    }
    console::complain(&diagnostics.render(std::io::stderr().is_terminal()));
    for line in diagnostics.render(false).lines() {
        console.keep(line);
    }
}

/// Says what was found about a configuration after it was read.
pub(crate) fn say_found(found: &[Problem], sources: &Sources, console: &Console) {
    let mut diagnostics = Diagnostics::new(sources.clone());
    diagnostics.extend(found.iter().map(|problem| Diagnostic {
        level: problem.level,
        pos: sources.locate(problem.pos, problem.word.as_deref().unwrap_or_default()),
        message: problem.message.clone(),
        hint: None,
    }));
    say(&diagnostics, console);
}

/// What the command line says goes before what the files say.
fn adjust(config: &mut Config, options: &Options) {
    if options.max_connections.is_set() {
        config.global.maxconn = options.max_connections;
    }
    config.global.ssl_server_verify_none |= options.no_server_verify;
    config.global.ignore_unresolved |= options.ignore_unresolved;
    config.global.max_memory_mib = options.max_memory_mib;
    config.global.stats_sockets.iter_mut().for_each(name_owner);
    for proxy in &mut config.proxies {
        let Some(proxy) = Arc::get_mut(proxy) else { continue };
        if proxy.frontend && !proxy.maxconn.is_set() {
            proxy.maxconn = options.max_proxy_connections;
        }
        proxy.binds.iter_mut().for_each(name_owner);
    }
}

/// Turns the names of a unix socket's owner into numbers while the tables of names can be read; a name that is not there
/// is for [`demands::unmet`] to say.
fn name_owner(bind: &mut Bind) {
    let unix = &mut bind.unix;
    unix.uid = unix.user.as_deref().and_then(|user| privileges::user(user).ok()).or(unix.uid);
    unix.gid = unix.group.as_deref().and_then(|group| privileges::group(group).ok()).or(unix.gid);
}

/// The address of `-S`, read as a `stats socket` line.  Who reaches the master administers it, unless the
/// address says otherwise.
pub(crate) fn command_socket(written: &str) -> Result<Bind, String> {
    let words = written.replace(',', " ");
    let level = if words.split(' ').any(|word| word == "level") { "" } else { " level admin" };
    let line = format!("global\n stats socket {words}{level}\n");
    let environment = Environment::from_process("");
    let loaded = weir_config::load_sources(Sources::from_text("-S", line), &environment);
    let first =
        |found: Box<Diagnostics>| found.list.first().map(|first| first.message.clone()).unwrap_or_default();
    let config = loaded.map_err(first)?.config;
    let mut bind = config.global.stats_sockets.into_iter().next().ok_or("no address")?;
    match demands::owner(&bind).into_iter().next() {
        Some(problem) => return Err(problem.message),
        None => name_owner(&mut bind),
    }
    Ok(bind)
}

/// What the configuration says about workers.
pub(crate) fn policy(config: &Config) -> Policy {
    Policy {
        exit_on_failure: !config.global.no_exit_on_failure,
        max_reloads: config.global.mworker_max_reloads.unwrap_or_else(|| Policy::default().max_reloads),
    }
}

/// Whether there is a master.
pub(crate) fn supervised(options: &Options, config: &Config) -> bool {
    options.supervision != Supervision::AsConfigured || config.global.master_worker
}

/// How much is said.
pub(crate) fn verbosity(options: &Options, config: &Config) -> Verbosity {
    match options.verbosity {
        Verbosity::Normal if config.global.quiet => Verbosity::Quiet,
        verbosity => verbosity,
    }
}

#[cfg(test)]
mod tests {
    use weir_balance::Limit;
    use weir_config::model::{AdminLevel, BindAddr};

    use super::*;

    #[test]
    fn a_limit_of_0_on_the_command_line_leaves_the_files_limit() {
        let adjusted = |process: usize, proxy: usize| {
            let lines = "global\n maxconn 77\nfrontend a\n bind :1\nfrontend b\n bind :2\n maxconn 5\n";
            let sources = Sources::from_text("limits", lines.to_owned());
            let mut config =
                weir_config::load_sources(sources, &Environment::from_process("")).unwrap().config;
            let (max_connections, max_proxy_connections) = (Limit::new(process), Limit::new(proxy));
            adjust(&mut config, &Options { max_connections, max_proxy_connections, ..Options::default() });
            let proxies = config.proxies.iter().map(|proxy| proxy.maxconn.or_zero());
            (config.global.maxconn.or_zero(), proxies.collect::<Vec<_>>())
        };
        assert_eq!(adjusted(0, 0), (77, vec![0, 5]));
        assert_eq!(adjusted(6, 7), (6, vec![7, 5]));
    }

    #[test]
    fn command_sockets() {
        let check = |written: &str, addr: BindAddr, level: AdminLevel, mode: Option<u32>| {
            let bind = command_socket(written).unwrap();
            assert_eq!((bind.addr, bind.level, bind.unix.mode), (addr, level, mode), "{written}");
        };
        let ip = |text: &str| BindAddr::Inet(text.parse().unwrap());
        check("127.0.0.1:1234", ip("127.0.0.1:1234"), AdminLevel::Admin, None);
        check("/run/m.sock,mode,600", BindAddr::Unix("/run/m.sock".into()), AdminLevel::Admin, Some(0o600));
        check("/run/m.sock,level,user", BindAddr::Unix("/run/m.sock".into()), AdminLevel::User, None);
        check("fd@7", BindAddr::Fd(7), AdminLevel::Admin, None);
        assert!(command_socket("/run/m.sock,frobnicate").is_err());
        assert!(command_socket("nowhere").is_err());
    }
}
