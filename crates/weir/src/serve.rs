//! The process that serves: opens what the configuration names, gives up its privileges, runs the data plane
//! and follows signals.
//!
//! Owns the order of a start and of an end; the traffic is `weir-proxy`'s.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::task::LocalSet;
use tokio::time::Instant;
use weir_config::model::{AdminLevel, Config};
use weir_net::handover::Inheritance;
use weir_net::stream::Stream;
use weir_proxy::accept::listeners::{Listening, bind_all};
use weir_proxy::process::Prepared;
use weir_proxy::state::problem::Problem;
use weir_proxy::thread::panics;
use weir_proxy::{Process, Services, StartError};

use crate::administration::Administration;
use crate::channel::{self, Parent, Received, Word};
use crate::command_line::{Options, Verbosity};
use crate::configuration::{self, Loaded};
use crate::console::{self, Console, Level};
use crate::daemon::{self, Silence};
use crate::pid_file::PidFile;
use crate::privileges::{self, Identity};
use crate::signals::{self, Signals};
use crate::{EXIT_INVALID, listeners};

/// What a serving process starts with.
pub(crate) struct Setup {
    pub options: Options,
    pub console: Console,
    pub loaded: Loaded,
    pub inheritance: Inheritance,
    pub pid_file: Option<PidFile>,
    /// Who waits for the process to be ready.
    pub parent: Option<Parent>,
    /// The parent is a master, which goes on talking.
    pub worker: bool,
    /// The terminal is closed when the process is ready.
    pub background: bool,
}

impl Setup {
    /// Whether the process says how it goes: somebody started it in the foreground and did not ask it to be quiet.
    fn speaks(&self) -> bool {
        !self.background && self.console.verbosity() != Verbosity::Quiet
    }
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

/// Why a process does not get to serve.
#[derive(Debug)]
enum Failure {
    Message(String),
    /// What the configuration names and what cannot be used.
    Configuration(Vec<Problem>),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Configuration(found) => Self::Configuration(found),
            StartError::System(_) => Self::Message(error.to_string()),
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

/// Says why the process does not get to serve, to its master too; returns the last word about it.
fn explain(failure: Failure, setup: &mut Setup) -> String {
    let console = Console::new(setup.console.verbosity());
    let last = match failure {
        Failure::Message(message) => message,
        Failure::Configuration(found) => {
            configuration::say_found(&found, &setup.loaded.sources, &console);
            configuration::FATAL.to_owned()
        }
    };
    if let Some(parent) = &mut setup.parent {
        parent.say_all(console.startup_logs().lines().chain(Level::Alert.line(&last).lines()));
    }
    last
}

fn serve(mut setup: Setup) -> Result<u8, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the event loop: {error}"))?;
    // Before anybody can see that the process serves, it answers to signals.
    let signals = {
        let _guard = runtime.enter();
        Signals::new().map_err(|error| format!("cannot receive signals: {error}"))?
    };
    panics::watch(|text| console::complain(&Level::Alert.line(text)));
    let silence = setup.background.then(Silence::open).transpose();
    let silence = silence.map_err(|error| format!("cannot detach: {error}"))?;
    let plane = prepare(&mut setup).map_err(|failure| explain(failure, &mut setup))?;
    let worker = setup.worker;
    // Clients that come through the master are served on this thread.
    LocalSet::new().block_on(&runtime, follow(setup, signals, plane, silence)).map(|end| end.code(worker))
}

/// Everything that needs rights or may fail, in its order.
fn prepare(setup: &mut Setup) -> Result<Plane, Failure> {
    let before = privileges::priority()?;
    let global = &setup.loaded.config.global;
    privileges::set_priority(global.renice_startup)?;
    let renice = global.renice_runtime.or_else(|| global.renice_startup.map(|_| before));
    let identity = Identity::of(global)?;
    let open = bind_all(&setup.loaded.config, &mut setup.inheritance).map_err(Failure::Configuration)?;
    if let Some(warning) = privileges::limit_descriptors(&mut setup.loaded.config.global, open.len())? {
        setup.console.warning(&warning);
    }
    privileges::use_small_pages();
    let config = Arc::new(std::mem::take(&mut setup.loaded.config));
    let places = listeners::told(&config, &open);
    let plane = Plane::load(Arc::clone(&config), open, setup.speaks())?;
    configuration::say_found(plane.prepared.remarks(), &setup.loaded.sources, &setup.console);
    if let Some(pid_file) = setup.pid_file.take() {
        pid_file.write().map_err(|error| format!("cannot write the pid file: {error}"))?;
    }
    identity.assume(&config.global)?;
    privileges::set_priority(renice)?;
    let plane = plane.start()?;
    if setup.speaks() {
        places.iter().for_each(|place| setup.console.notice(place));
    }
    Ok(plane)
}

/// A data plane inside a process that does other things too.
pub(crate) fn start_plane(config: Config, inheritance: &mut Inheritance) -> Result<Plane, String> {
    let mut start = |config: Config| -> Result<Plane, StartError> {
        let open = bind_all(&config, inheritance).map_err(StartError::Configuration)?;
        Plane::load(Arc::new(config), open, false)?.start()
    };
    start(config).map_err(|error| error.to_string())
}

/// Says that it is ready, then follows signals and the master until the end.
async fn follow(
    mut setup: Setup,
    mut signals: Signals,
    plane: Plane,
    silence: Option<Silence>,
) -> Result<End, String> {
    daemon::say_farewell(&mut setup.options.replaced, setup.options.farewell);
    let mut master = None;
    if let Some(mut parent) = setup.parent.take() {
        parent.say(&Word::Ready).map_err(|error| format!("the parent process is gone: {error}"))?;
        if setup.worker {
            master = Some(Master::new(parent.into_socket())?);
        }
    }
    if let Some(silence) = silence {
        silence.close_terminal().map_err(|error| format!("cannot detach: {error}"))?;
    }
    let mut leaving = false;
    let mut grace = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                signals::Event::Finish if !leaving => {
                    leaving = true;
                    grace.as_mut().reset(Instant::now() + plane.grace());
                }
                signals::Event::Finish => {}
                signals::Event::Terminate | signals::Event::Interrupt => return Ok(End::Stopped(signal)),
                signals::Event::Reload | signals::Event::HangUp | signals::Event::Child | signals::Event::Ignored => {}
            },
            () = &mut grace, if leaving && !plane.is_stopping() => plane.soft_stop(),
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

/// How often a process that is told to finish looks whether it has.
const FINISH_INTERVAL: Duration = Duration::from_millis(5);

/// The data plane, loaded.
struct Ready {
    prepared: Prepared,
    services: Arc<Administration>,
}

/// The data plane, running.
pub(crate) struct Plane {
    process: Process,
    services: Arc<Administration>,
}

impl Plane {
    fn load(config: Arc<Config>, listening: Vec<Listening>, aloud: bool) -> Result<Ready, StartError> {
        let sockets = listening.iter().map(|one| Arc::clone(&one.listener)).collect();
        let services = Arc::new(Administration::new(sockets, aloud));
        let shared: Arc<dyn Services> = Arc::<Administration>::clone(&services);
        Ok(Ready { prepared: Process::prepare(config, listening, shared)?, services })
    }

    fn soft_stop(&self) {
        self.services.forget_listeners();
        self.process.soft_stop();
    }

    /// `grace`: how long it goes on as if nothing had happened before a soft stop.
    fn grace(&self) -> Duration {
        self.process.shared.config.global.grace.unwrap_or_default()
    }

    fn is_stopping(&self) -> bool {
        self.process.shared.is_stopping()
    }

    /// Ready when a soft stop is over.
    pub(crate) async fn finished(&self) {
        self.process.shared.stopped().await;
        while !self.process.is_finished() {
            tokio::time::sleep(FINISH_INTERVAL).await;
        }
    }

    /// Serves a client of the command interface that came through the master; needs a local set.
    fn command_client(&self, client: UnixStream, level: AdminLevel) {
        // A client that cannot be served sees its connection closed.
        let Ok(stream) = client.set_nonblocking(true).and_then(|()| Stream::from_unix(client)) else {
            return;
        };
        tokio::task::spawn_local(self.services.administer(
            Arc::clone(&self.process.shared),
            stream,
            level.into(),
        ));
    }
}

impl Ready {
    fn start(self) -> Result<Plane, StartError> {
        Ok(Plane { process: self.prepared.start()?, services: self.services })
    }
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
