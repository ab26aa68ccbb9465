//! Reading the configuration for a process, and saying what is wrong with it.
//!
//! Owns what the process tells the configuration (options, variables) and what the command line changes in
//! it; the language is `weir-config`'s.

use weir_config::model::{Bind, Config};

use crate::command_line::{Options, Role, Supervision, Verbosity};
use crate::console::Console;
use crate::fleet::Policy;

/// The configuration cannot be used; everything about it has been said.
#[derive(Debug)]
pub(crate) struct Unusable;

/// Reads the configuration that the command line names.
pub(crate) fn load(options: &Options, _role: Role, console: &Console) -> Result<Config, Unusable> {
    console.alert(&format!("reading {:?} is not implemented yet", options.files));
    Err(Unusable)
}

/// The address of `-S`, read as a `stats socket` line.
pub(crate) fn command_socket(written: &str) -> Result<Bind, String> {
    Err(format!("-S {written} is not implemented yet"))
}

/// What the configuration says about workers.
pub(crate) fn policy(_config: &Config) -> Policy {
    Policy::default()
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
