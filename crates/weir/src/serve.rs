//! The process that serves: opens what the configuration names, gives up its privileges, runs the data plane
//! and follows signals.
//!
//! Owns the order of a start and of an end; the traffic is `weir-proxy`'s.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::Interest;
use weir_config::model::{AdminLevel, Config};
use weir_net::handover::Inheritance;
use weir_net::listen::Listener;

use crate::channel::{self, Parent, Received, Word};
use crate::command_line::Options;
use crate::console::Console;
use crate::pid_file::PidFile;
use crate::privileges::{self, Identity};
use crate::signals::{self, Signals};
use crate::{EXIT_INVALID, daemon, listeners};

/// What a serving process starts with.
pub(crate) struct Setup {
    pub options: Options,
    pub console: Console,
    pub config: Config,
    pub inheritance: Inheritance,
    pub pid_file: Option<PidFile>,
    /// Who waits for the process to be ready.
    pub parent: Option<Parent>,
    /// The parent is a master, which goes on talking.
    pub worker: bool,
    /// The terminal is closed when the process is ready.
    pub background: bool,
}

/// Why a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All connections have ended.
    Finished,
    /// It was told to end at once.
    Stopped(signals::Event),
    /// The master is gone.
    Orphaned,
}

impl End {
    /// A worker says by its code what ended it; a process by itself has done what it was told.
    fn code(self, worker: bool) -> u8 {
        match self {
            Self::Stopped(signals::Event::Interrupt) if worker => 130,
            Self::Stopped(_) if worker => 143,
            Self::Finished | Self::Stopped(_) => 0,
            Self::Orphaned => 1,
        }
    }
}

/// Serves until it is told to end.
pub(crate) fn run(setup: Setup) -> ExitCode {
    let console = Console::new(setup.console.verbosity());
    match serve(setup) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            console.alert(&message);
            ExitCode::from(EXIT_INVALID)
        }
    }
}

fn serve(mut setup: Setup) -> Result<u8, String> {
    let outcome = prepare(&mut setup);
    let plane = match outcome {
        Ok(plane) => plane,
        Err(message) => {
            if let Some(parent) = &mut setup.parent {
                parent.say(&Word::Said(message.clone())).ok();
            }
            return Err(message);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the event loop: {error}"))?;
    let worker = setup.worker;
    runtime.block_on(follow(setup, plane)).map(|end| end.code(worker))
}

/// Everything that needs rights or may fail, in its order.
fn prepare(setup: &mut Setup) -> Result<Plane, String> {
    let identity = Identity::of(&setup.config.global)?;
    let open = open(&setup.config, &mut setup.inheritance)?;
    privileges::limit_descriptors(&setup.config.global, open.len())?;
    if let Some(mib) = setup.options.max_memory_mib {
        privileges::limit_memory(mib)?;
    }
    let config = Arc::new(std::mem::take(&mut setup.config));
    let plane = Plane::prepare(Arc::clone(&config), open)?;
    if let Some(pid_file) = setup.pid_file.take() {
        pid_file.write().map_err(|error| format!("cannot write the pid file: {error}"))?;
    }
    identity.assume(config.global.chroot.as_deref())?;
    plane.start()
}

/// A data plane inside a process that does other things too.
pub(crate) fn start_plane(config: Config, inheritance: &mut Inheritance) -> Result<Plane, String> {
    let open = open(&config, inheritance)?;
    Plane::prepare(Arc::new(config), open)?.start()
}

fn open(config: &Config, inheritance: &mut Inheritance) -> Result<Vec<Listener>, String> {
    let mut open = Vec::new();
    for bind in listeners::binds(config) {
        let Some(address) = listeners::address(bind) else { continue };
        let listener = Listener::bind(&address, &listeners::options(bind)?, inheritance);
        open.push(listener.map_err(|error| error.to_string())?);
    }
    Ok(open)
}

/// Says that it is ready, then follows signals and the master until the end.
async fn follow(mut setup: Setup, plane: Plane) -> Result<End, String> {
    let mut signals = Signals::new().map_err(|error| format!("cannot receive signals: {error}"))?;
    daemon::say_farewell(&mut setup.options.replaced, setup.options.farewell);
    let mut master = None;
    if let Some(mut parent) = setup.parent.take() {
        parent.say(&Word::Ready).map_err(|error| format!("the parent process is gone: {error}"))?;
        if setup.worker {
            master = Some(Master::new(parent.into_socket())?);
        }
    }
    if setup.background {
        daemon::close_terminal().map_err(|error| format!("cannot detach: {error}"))?;
    }
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                signals::Event::Finish => plane.soft_stop(),
                signals::Event::Terminate | signals::Event::Interrupt => return Ok(End::Stopped(signal)),
                signals::Event::Reload | signals::Event::HangUp | signals::Event::Child | signals::Event::Ignored => {}
            },
            () = plane.finished() => return Ok(End::Finished),
            received = next_from(&mut master) => match received {
                Received::Connection(client, level) => plane.command_client(client, level),
                Received::End => return Ok(End::Orphaned),
            },
        }
    }
}

/// The master's end of the conversation, while the worker serves.
struct Master {
    socket: tokio::net::UnixStream,
}

impl Master {
    fn new(socket: UnixStream) -> Result<Self, String> {
        let socket = socket.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(socket));
        Ok(Self { socket: socket.map_err(|error| format!("cannot hear the master: {error}"))? })
    }

    async fn next(&mut self) -> Received {
        loop {
            let read =
                self.socket.async_io(Interest::READABLE, || channel::receive(self.socket.as_fd())).await;
            match read {
                Ok(received) => return received,
                // A message that carries no connection (or none that could be taken) concerns nobody else.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {}
                Err(_) => return Received::End,
            }
        }
    }
}

async fn next_from(master: &mut Option<Master>) -> Received {
    match master {
        Some(master) => master.next().await,
        None => std::future::pending().await,
    }
}

/// The data plane.
pub(crate) struct Plane {}

impl Plane {
    fn prepare(_config: Arc<Config>, _listeners: Vec<Listener>) -> Result<Self, String> {
        Err("serving is not implemented yet".into())
    }

    fn start(self) -> Result<Self, String> {
        Ok(self)
    }

    fn soft_stop(&self) {}

    pub(crate) async fn finished(&self) {
        std::future::pending::<()>().await;
    }

    fn command_client(&self, _client: UnixStream, _level: AdminLevel) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        let check = |end: End, alone, worker| {
            assert_eq!((end.code(false), end.code(true)), (alone, worker), "{end:?}");
        };
        check(End::Finished, 0, 0);
        check(End::Stopped(signals::Event::Terminate), 0, 143);
        check(End::Stopped(signals::Event::Interrupt), 0, 130);
        check(End::Orphaned, 1, 1);
    }
}
