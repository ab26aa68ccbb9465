//! From a command line to a running process: check, daemon, master, worker, or serving by itself.
//!
//! Owns which of these it becomes; each of them is a file of its own.

use std::process::ExitCode;
use std::sync::Arc;

use weir_config::model::Config;
use weir_net::handover::Inheritance;
use weir_proxy::state::problem::{Problem, are_harmless};
use weir_rules::Level;

use crate::channel::Parent;
use crate::command_line::{Background, Options, Role, Supervision, Verbosity};
use crate::configuration::{self, Loaded, Unusable};
use crate::console::{self, Console};
use crate::service_manager::ServiceManager;
use crate::{EXIT_INVALID, EXIT_NO_LISTENER, daemon, demands, listeners, master, pid_file, serve};

/// Checks or serves a configuration.
pub(crate) fn start(options: Options) -> ExitCode {
    let console = Console::new(options.verbosity);
    let started = match options.role {
        Role::First => first(options, console),
        Role::Daemon => background(options, console),
        Role::Worker => worker(options, console),
    };
    started.unwrap_or_else(|Failed| ExitCode::from(EXIT_INVALID))
}

/// The start failed and the reason has been said.
struct Failed;

impl From<Unusable> for Failed {
    fn from(_: Unusable) -> Self {
        Self
    }
}

/// Says why the start fails.
fn failed(console: &Console) -> impl FnOnce(String) -> Failed {
    |message| {
        console.alert(&message);
        Failed
    }
}

/// A process that a user or a service manager started.
fn first(options: Options, console: Console) -> Result<ExitCode, Failed> {
    if let Some(directory) = &options.directory {
        std::env::set_current_dir(directory)
            .map_err(|error| format!("cannot change to folder {}: {error}", directory.display()))
            .map_err(failed(&console))?;
    }
    let loaded = configuration::load(&options, Role::First, &console)?;
    if options.check {
        return check(&options, loaded, &console);
    }
    let console = Console::new(configuration::verbosity(&options, &loaded.config));
    let loaded = configuration::demand(loaded, &console)?;
    let config = &loaded.config;
    if goes_to_background(&options, config) {
        return Ok(daemon::launch(&console));
    }
    if config.global.daemon && options.background == Background::AsConfigured {
        console.notice("config : 'daemon' is ignored under a service manager ('-Ws').");
    }
    become_server(options, console, loaded, None)
}

/// `-c`
fn check(options: &Options, loaded: Loaded, console: &Console) -> Result<ExitCode, Failed> {
    let Loaded { config, sources } = loaded;
    let config = Arc::new(config);
    let found = demands::check(&config);
    configuration::say_found(&found, &sources, console);
    if !are_harmless(&found) {
        console.alert(configuration::FATAL);
        return Err(Failed);
    }
    configuration::refuse_warnings(options, &config, found.iter().any(is_warning), console)?;
    if !demands::has_listener(&config) {
        console::print("Configuration file has no error but will not start (no listener) => exit(2).\n");
        return Ok(ExitCode::from(EXIT_NO_LISTENER));
    }
    if options.verbosity == Verbosity::Verbose {
        console::print("Configuration file is valid\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn is_warning(problem: &Problem) -> bool {
    problem.level == Level::Warning
}

/// The detached process of `-D`.
fn background(options: Options, console: Console) -> Result<ExitCode, Failed> {
    let parent = daemon::become_daemon()
        .map_err(|error| format!("cannot start in the background: {error}"))
        .map_err(failed(&console))?;
    let loaded = configuration::load(&options, Role::Daemon, &console)?;
    let console = Console::new(configuration::verbosity(&options, &loaded.config));
    become_server(options, console, loaded, Some(parent))
}

/// A master, or a process that serves by itself.
fn become_server(
    options: Options,
    console: Console,
    loaded: Loaded,
    parent: Option<Parent>,
) -> Result<ExitCode, Failed> {
    let config = &loaded.config;
    let background = parent.is_some();
    let supervised = configuration::supervised(&options, config);
    // A process in the foreground is not to overwrite the file of the one that runs.
    let pid_file = if background || supervised {
        pid_file::open(options.pid_file.as_ref(), config.global.pidfile.as_ref()).map_err(failed(&console))?
    } else {
        None
    };
    if supervised {
        let service_manager = match told_to_service_manager(&options) {
            true => ServiceManager::from_environment(),
            false => ServiceManager::default(),
        };
        return Ok(master::run(master::Setup {
            options,
            console,
            loaded,
            pid_file,
            parent,
            service_manager,
        }));
    }
    let inheritance =
        listeners::from_predecessor(options.predecessor_socket.as_deref()).map_err(failed(&console))?;
    Ok(serve::run(serve::Setup {
        options,
        console,
        loaded,
        inheritance,
        pid_file,
        parent,
        worker: false,
        background,
    }))
}

/// The worker of a master.
fn worker(mut options: Options, console: Console) -> Result<ExitCode, Failed> {
    // Whom the program replaces concerns the master.
    options.replaced.clear();
    let no_channel = |error: std::io::Error| format!("cannot take over from the master: {error}");
    let mut parent = Parent::from_stdin().map_err(no_channel).map_err(failed(&console))?;
    let inheritance = Inheritance::receive(parent.socket()).map_err(no_channel).map_err(failed(&console))?;
    let loaded = match configuration::load(&options, Role::Worker, &console) {
        Ok(loaded) => loaded,
        Err(unusable) => {
            parent.say_all(console.startup_logs().lines());
            return Err(unusable.into());
        }
    };
    let console = Console::new(configuration::verbosity(&options, &loaded.config));
    let background = goes_to_background(&options, &loaded.config);
    Ok(serve::run(serve::Setup {
        options,
        console,
        loaded,
        inheritance,
        pid_file: None,
        parent: Some(parent),
        worker: true,
        background,
    }))
}

/// A service manager that waits to be told (`-Ws`) takes a process that goes to the background for one that ended: there
/// `daemon` has no effect (manual, "daemon"); `-D` says it for this very start and counts.
fn goes_to_background(options: &Options, config: &Config) -> bool {
    match options.background {
        Background::Daemon => true,
        Background::Never => false,
        Background::AsConfigured => config.global.daemon && !told_to_service_manager(options),
    }
}

fn told_to_service_manager(options: &Options) -> bool {
    options.supervision == Supervision::MasterWithNotify
}
