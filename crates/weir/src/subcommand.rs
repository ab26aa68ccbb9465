//! The program's own sub-commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command_line::{Options, Verbosity};
use crate::console;
use crate::{EXIT_INVALID, demo, load, manual, origin, start, version, zenc};

/// An edge load balancer that reads HAProxy's configuration language.
///
/// Under the name `haproxy`, or with single-dash options, it takes HAProxy's command line instead
/// (`weir -f haproxy.cfg`, `weir -vv`).
#[derive(Debug, Parser)]
#[command(name = "weir", version = version::WEIR_VERSION, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve configurations in the foreground.
    Run {
        /// Files, or folders with *.cfg files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Check configurations and say everything that is wrong with them.
    Check {
        /// Take warnings for errors.
        #[arg(long)]
        strict: bool,
        /// Files, or folders with *.cfg files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Three origins behind Weir on this machine: plain, TLS, statistics.
    Demo {
        /// Print the configuration instead of running it.
        #[arg(long)]
        print_config: bool,
    },
    /// A test server whose URLs describe the responses: /bytes/9000, /status/503?delay=50ms, /live.
    Origin(origin::Arguments),
    /// Compress a file, or the standard input, to the standard output.
    #[command(disable_help_flag = true)]
    Zenc {
        /// As under the name `zenc`: -h lists the options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Measure a server under load: latency as users would have seen it.
    ///
    /// Under the names `wrk`, `wrk2`, `h2load` and `ab` the program takes their command lines instead.
    Load(Box<load::Arguments>),
    /// This program's version, and HAProxy's whose language it reads; -vv says what is built in.
    Version,
    /// What a keyword of the configuration does; without one, all of them.
    Doc {
        /// How far each keyword is supported.
        #[arg(long)]
        status: bool,
        /// Up to four words, as in "stats socket".
        keyword: Vec<String>,
    },
}

/// Runs a sub-command.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let words = std::iter::once(OsString::from("weir")).chain(words);
    match Arguments::try_parse_from(words) {
        Ok(Arguments { command }) => execute(command),
        Err(error) if error.use_stderr() => {
            console::complain(&error.render().to_string());
            ExitCode::from(EXIT_INVALID)
        }
        Err(help) => {
            console::print(&help.render().to_string());
            ExitCode::SUCCESS
        }
    }
}

fn execute(command: Command) -> ExitCode {
    match command {
        Command::Run { files } => start::start(Options { files, ..Options::default() }),
        Command::Check { strict, files } => start::start(Options {
            files,
            check: true,
            zero_warning: strict,
            verbosity: Verbosity::Verbose,
            ..Options::default()
        }),
        Command::Origin(arguments) => origin::run(arguments),
        Command::Load(arguments) => load::run(*arguments),
        Command::Doc { status: true, .. } => manual::print_status(),
        Command::Doc { status: false, keyword } if keyword.is_empty() => manual::print(None),
        Command::Doc { status: false, keyword } => manual::print(Some(&keyword.join(" "))),
        Command::Version => {
            console::print(&version::short());
            ExitCode::SUCCESS
        }
        Command::Zenc { words } => zenc::run(&words),
        Command::Demo { print_config: true } => demo::print_config(),
        Command::Demo { print_config: false } => demo::run(),
    }
}
