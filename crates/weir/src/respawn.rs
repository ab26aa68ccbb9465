//! Starting this program again in another role.
//!
//! Owns which file is run, with which words and which name; leaves what is said to the child to
//! [`crate::channel`].

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::command_line::Role;

/// How this process was started, to start another one like it.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    program: PathBuf,
    name: OsString,
    words: Vec<OsString>,
}

/// The running program under every circumstance, even when its file was removed.
const THIS_PROGRAM: &str = "/proc/self/exe";

impl Invocation {
    /// Of this process.
    pub(crate) fn current() -> Self {
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_default();
        let words = words.filter(|word| !Role::is_option(word)).collect();
        Self { program: std::env::current_exe().unwrap_or_else(|_| THIS_PROGRAM.into()), name, words }
    }

    /// Starts a child in a role, with one end of a new unix socket as its standard input.
    ///
    /// The program's file is run as it is on disk now, so that a reload also starts a newer version.
    pub(crate) fn start(&self, role: Role) -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let program = if self.program.exists() { &self.program } else { Path::new(THIS_PROGRAM) };
        let child = Command::new(program)
            .arg0(&self.name)
            .args(role.as_option())
            .args(&self.words)
            .stdin(OwnedFd::from(theirs))
            .spawn()?;
        Ok((child, ours))
    }
}
