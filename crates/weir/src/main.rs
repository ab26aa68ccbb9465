//! Weir, an edge load balancer that reads HAProxy's configuration language.
//!
//! Owns the choice of a personality: under the name `haproxy`, or with single-dash options, the command line
//! is HAProxy's; otherwise it is sub-commands.  The files behind it stand in the order of a start: command
//! line, configuration, privileges, serving, supervision.

mod allocator;
mod command_line;
mod subcommand;

mod start;

mod configuration;

mod demands;

mod listeners;

mod privileges;

mod serve;

mod administration;

mod master;

mod fleet;

mod master_cli;

mod daemon;

mod respawn;

mod channel;

mod demo;
mod load;
mod manual;
mod origin;

mod condition;
mod console;
mod pid_file;
mod service_manager;
mod signals;
mod version;
mod zenc;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use command_line::{Refusal, Request};
use console::Console;

/// A configuration or a command line that cannot be used.
pub(crate) const EXIT_INVALID: u8 = 1;
/// A configuration without an error that listens nowhere.
pub(crate) const EXIT_NO_LISTENER: u8 = 2;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let base = base_name(&name);
    take_name(base);
    if let Some(code) = load::run_as(base, &words) {
        return code;
    }
    if base == b"zenc" {
        zenc::run(&words)
    } else if speaks_haproxy(base, words.first().map(OsString::as_os_str)) {
        compatible(words)
    } else {
        subcommand::run(words)
    }
}

/// Names the process as it was called.  The system names it after the file that is run, which is another one where the
/// name is a link and this program starts itself: `killall -0 haproxy` and `pidof haproxy` are to find all processes.
fn take_name(base: &[u8]) {
    if let Ok(name) = CString::new(base) {
        // A process with another name serves as well.
        let _named = rustix::thread::set_name(&name);
    }
}

/// What the program was called, without the folder.
fn base_name(name: &OsStr) -> &[u8] {
    name.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether the command line is HAProxy's.
fn speaks_haproxy(base: &[u8], first: Option<&OsStr>) -> bool {
    let first = first.map(OsStr::as_bytes).unwrap_or_default();
    let dashed = first.starts_with(b"-") && !matches!(first, b"-h" | b"--help" | b"-V" | b"--version");
    base == b"haproxy" || dashed
}

/// The command line of HAProxy.
fn compatible(words: Vec<OsString>) -> ExitCode {
    match command_line::parse(words) {
        Ok(Request::Version) => console::print(&version::short()),
        Ok(Request::LongVersion) => console::print(&version::long()),
        Ok(Request::Help) => {
            console::print(&version::short());
            console::print(command_line::USAGE);
        }
        Ok(Request::Condition(text)) => return condition::evaluate(&text),
        Ok(Request::Run(options)) => return start::start(*options),
        Err(refusal) => {
            let console = Console::default();
            match refusal {
                Refusal::Usage(_) => {
                    console::complain(&version::short());
                    console.alert(&refusal.to_string());
                    console::complain(command_line::USAGE);
                }
                Refusal::Value(..) | Refusal::NotImplemented(_) => console.alert(&refusal.to_string()),
            }
            return ExitCode::from(EXIT_INVALID);
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personality() {
        let check = |name: &str, first: Option<&str>, expected| {
            assert_eq!(
                speaks_haproxy(base_name(OsStr::new(name)), first.map(OsStr::new)),
                expected,
                "{name} {first:?}"
            );
        };
        check("haproxy", None, true);
        check("/usr/sbin/haproxy", Some("run"), true);
        check("weir", None, false);
        check("weir", Some("demo"), false);
        check("weir", Some("--help"), false);
        check("weir", Some("-vv"), true);
        check("./weir", Some("-f"), true);
    }
}
