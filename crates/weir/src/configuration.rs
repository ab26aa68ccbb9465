//! Reading the configuration for a process, and saying what is wrong with it.
//!
//! Owns what the process tells the configuration (options, variables) and what the command line changes in
//! it; the language is `weir-config`'s.

use std::io::IsTerminal;
use std::sync::Arc;

use weir_config::model::{Bind, Config};
use weir_config::source::Sources;
use weir_config::{Diagnostics, Environment};

use crate::command_line::{Options, Role, Supervision, Verbosity};
use crate::console::{self, Console};
use crate::fleet::Policy;
use crate::privileges;

/// The configuration cannot be used; everything about it has been said.
#[derive(Debug)]
pub(crate) struct Unusable;

/// Reads the configuration that the command line names.
pub(crate) fn load(options: &Options, role: Role, console: &Console) -> Result<Config, Unusable> {
    let loaded = weir_config::load(&options.files, &environment(options, role));
    let (config, diagnostics) = match loaded {
        Ok(loaded) => (Some(loaded.config), loaded.diagnostics),
        Err(diagnostics) => (None, *diagnostics),
    };
    // A process that another one started has nothing to add to what its parent has said, but for errors.
    if role == Role::First || config.is_none() {
        say(&diagnostics, console);
    }
    let Some(mut config) = config else {
        console.alert("config : Fatal errors found in configuration.");
        return Err(Unusable);
    };
    if (options.zero_warning || config.global.zero_warning) && diagnostics.has_warnings() {
        console.alert("config : Some warnings were found and 'zero-warning' is set. Aborting.");
        return Err(Unusable);
    }
    adjust(&mut config, options).map_err(|message| {
        console.alert(&message);
        Unusable
    })?;
    Ok(config)
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

/// What the command line says goes before what the files say.
fn adjust(config: &mut Config, options: &Options) -> Result<(), String> {
    if let Some(limit) = options.max_connections {
        config.global.maxconn = Some(limit);
    }
    config.global.ssl_server_verify_none |= options.no_server_verify;
    for bind in &mut config.global.stats_sockets {
        name_owner(bind)?;
    }
    for proxy in &mut config.proxies {
        let Some(proxy) = Arc::get_mut(proxy) else { continue };
        if proxy.frontend && proxy.maxconn.is_none() {
            proxy.maxconn = options.max_proxy_connections;
        }
        for bind in &mut proxy.binds {
            name_owner(bind)?;
        }
    }
    Ok(())
}

/// Turns the names of a unix socket's owner into numbers while the tables of names can be read.
fn name_owner(bind: &mut Bind) -> Result<(), String> {
    if let Some(user) = &bind.unix.user {
        bind.unix.uid = Some(privileges::user(user)?);
    }
    if let Some(group) = &bind.unix.group {
        bind.unix.gid = Some(privileges::group(group)?);
    }
    Ok(())
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
    name_owner(&mut bind)?;
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
    use weir_config::model::{AdminLevel, BindAddr};

    use super::*;

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
