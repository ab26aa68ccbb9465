//! Going to the background (`-D`) without a fork, and the farewell to those who are replaced.
//!
//! The first process starts the program again and waits: the child starts a session of its own, gets ready,
//! says so, and only then closes the terminal.  An error still reaches the terminal and the exit code.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use rustix::process::{Pid, Signal, kill_process};

use crate::EXIT_INVALID;
use crate::channel::{self, Parent, Word};
use crate::command_line::{Farewell, Role};
use crate::console::Console;
use crate::respawn::Invocation;

/// Starts the daemon and waits until it serves.
pub(crate) fn launch(console: &Console) -> ExitCode {
    let (mut child, channel) = match Invocation::current().start(Role::Daemon) {
        Ok(started) => started,
        Err(error) => {
            console.alert(&format!("cannot start in the background: {error}"));
            return ExitCode::from(EXIT_INVALID);
        }
    };
    if channel::wait_until_ready(&channel, |_| {}) {
        return ExitCode::SUCCESS;
    }
    let code =
        child.wait().ok().map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    // A child that ended without a word has not started, whatever it ended with.
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    ExitCode::from(code.unwrap_or(EXIT_INVALID))
}

/// The child's first step: away from the terminal's session and its signals.
pub(crate) fn become_daemon() -> io::Result<Parent> {
    let parent = Parent::from_stdin()?;
    rustix::process::setsid()?;
    Ok(parent)
}

/// The child's last step: says that it serves and closes the terminal.
pub(crate) fn detach(mut parent: Parent) -> io::Result<()> {
    parent.say(&Word::Ready)?;
    Silence::open()?.close_terminal()
}

/// What takes the place of the terminal: it is opened while the process still sees the whole file system.
pub(crate) struct Silence(File);

impl Silence {
    pub(crate) fn open() -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open("/dev/null").map(Self)
    }

    /// Leaves nothing of the standard streams.
    pub(crate) fn close_terminal(self) -> io::Result<()> {
        rustix::stdio::dup2_stdout(&self.0)?;
        rustix::stdio::dup2_stderr(&self.0)?;
        Ok(())
    }
}

/// Tells the processes of `-sf` or `-st` that somebody else serves now; once.
pub(crate) fn say_farewell(replaced: &mut Vec<u32>, farewell: Option<Farewell>) {
    let signal = match farewell {
        Some(Farewell::Finish) => Signal::USR1,
        Some(Farewell::Terminate) => Signal::TERM,
        None => return,
    };
    for number in replaced.drain(..) {
        if let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) {
            // Whoever is gone already needs no signal.
            kill_process(pid, signal).ok();
        }
    }
}
