//! The master: keeps the listening sockets, starts workers and does what [`crate::fleet`] decides.
//!
//! Owns one thread, its event loop and everything that outlives a worker; never touches traffic.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid as SystemPid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use weir_config::model::{AdminLevel, Bind, Config, Global};
use weir_net::handover::{self, Inheritance};
use weir_net::listen::Listener;
use weir_proxy::accept::listeners::{address_of, options_of};

use crate::channel::{self, LONGEST_LINE, Parent, Word};
use crate::command_line::{Options, Role};
use crate::configuration::{self, Loaded, Unusable};
use crate::console::Console;
use crate::fleet::{Action, Event, Fleet, Order, Pid, Stage, Stop};
use crate::listeners::{self, Held};
use crate::master_cli::{self, Ask, Target};
use crate::pid_file::PidFile;
use crate::respawn::Invocation;
use crate::service_manager::ServiceManager;
use crate::signals::{self, Signals};
use crate::{EXIT_INVALID, daemon, version};

/// How long a worker may take from its start to serving; large maps and many certificates take a while.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Things that happened and wait for the loop.
const MAX_WAITING: usize = 1_024;
/// Clients of the command socket at once.
const MAX_CLIENTS: usize = 64;

/// What a master starts with.
pub(crate) struct Setup {
    pub options: Options,
    pub console: Console,
    /// The configuration of the first worker.
    pub loaded: Loaded,
    pub pid_file: Option<PidFile>,
    /// Who waits for the master to be ready, when it was started in the background.
    pub parent: Option<Parent>,
    pub service_manager: ServiceManager,
}

/// Something that a task tells the loop.
enum Note {
    Event(Event),
    Said(String),
    /// A worker has nothing more to say.
    Silent(Pid),
    Ask(Ask),
}

/// A worker's process.
struct Process {
    child: Child,
    channel: UnixStream,
    since: Instant,
    /// How it ended, and whether everything that it said was heard: only both together are its end, so that
    /// its last words are not lost.
    code: Option<u8>,
    silent: bool,
}

impl Process {
    fn pid(&self) -> Pid {
        self.child.id()
    }
}

struct Master {
    invocation: Invocation,
    options: Options,
    console: Console,
    fleet: Fleet,
    processes: Vec<Process>,
    /// The sockets of the workers that serve.
    held: Vec<Rc<Held>>,
    /// Those of the worker that starts.
    fresh: Vec<Rc<Held>>,
    first: Option<(Config, Inheritance)>,
    pid_file: Option<PidFile>,
    parent: Option<Parent>,
    service_manager: ServiceManager,
    since: Instant,
    notes: mpsc::Sender<Note>,
    /// Clients that wait for the start under way, and those whose reload comes after it.
    reload_answers: Vec<oneshot::Sender<String>>,
    later_answers: Vec<oneshot::Sender<String>>,
}

/// Supervises workers until it is told to end.
pub(crate) fn run(setup: Setup) -> ExitCode {
    let console = Console::new(setup.console.verbosity());
    let served = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the event loop: {error}"))
        .and_then(|runtime| runtime.block_on(supervise(setup)));
    match served {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            console.alert(&message);
            ExitCode::from(EXIT_INVALID)
        }
    }
}

async fn supervise(setup: Setup) -> Result<u8, String> {
    let mut signals = Signals::new().map_err(|error| format!("cannot receive signals: {error}"))?;
    let inheritance = listeners::from_predecessor(setup.options.predecessor_socket.as_deref())?;
    let (sender, mut notes) = mpsc::channel(MAX_WAITING);
    open_command_sockets(&setup.options, &sender)?;
    let mut master = Master {
        invocation: Invocation::current(),
        options: setup.options,
        console: setup.console,
        fleet: Fleet::new(),
        processes: Vec::new(),
        held: Vec::new(),
        fresh: Vec::new(),
        first: Some((setup.loaded.config, inheritance)),
        pid_file: setup.pid_file,
        parent: setup.parent,
        service_manager: setup.service_manager,
        since: Instant::now(),
        notes: sender,
        reload_answers: Vec::new(),
        later_answers: Vec::new(),
    };
    let mut left = master.happened(Event::Reload { hard: false });
    loop {
        if let Some(code) = left {
            return Ok(code);
        }
        left = tokio::select! {
            signal = signals.next() => master.signal(signal),
            Some(note) = notes.recv() => master.note(note),
        };
    }
}

/// Opens the sockets of `-S` and serves their clients.
fn open_command_sockets(options: &Options, notes: &mpsc::Sender<Note>) -> Result<(), String> {
    let (asks, mut asked) = mpsc::channel(MAX_WAITING);
    let forward = notes.clone();
    tokio::spawn(async move {
        while let Some(ask) = asked.recv().await {
            if forward.send(Note::Ask(ask)).await.is_err() {
                break;
            }
        }
    });
    for written in &options.master_sockets {
        let bind = configuration::command_socket(written)
            .map_err(|error| format!("option -S {written}: {error}"))?;
        accept_clients(&bind, &asks)
            .map_err(|error| format!("cannot open the master's socket {written}: {error}"))?;
    }
    Ok(())
}

fn accept_clients(bind: &Bind, asks: &mpsc::Sender<Ask>) -> Result<(), String> {
    let address = address_of(&bind.addr).ok_or("not an address to listen on")?;
    let listener =
        Listener::bind(&address, &options_of(bind, &Global::default()), &mut Inheritance::default())
            .map_err(|error| error.to_string())?;
    // A numbered descriptor is open for children, and this one is not for workers.
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC).map_err(|error| error.to_string())?;
    let mut acceptor = listener.acceptor().map_err(|error| error.to_string())?;
    let (level, asks) = (bind.level, asks.clone());
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_CLIENTS));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = std::sync::Arc::clone(&room).acquire_owned().await else { return };
            let Ok(accepted) = acceptor.accept().await else { continue };
            let asks = asks.clone();
            tokio::spawn(async move {
                // A client that goes away early is its own affair.
                master_cli::serve(accepted.stream, level, asks).await.ok();
                drop(permit);
            });
        }
    });
    Ok(())
}

impl Master {
    fn signal(&mut self, signal: signals::Event) -> Option<u8> {
        match signal {
            signals::Event::Finish => self.stop(Stop::Finish),
            signals::Event::Terminate => self.stop(Stop::Terminate),
            signals::Event::Interrupt => self.stop(Stop::Interrupt),
            signals::Event::Reload | signals::Event::HangUp => self.happened(Event::Reload { hard: false }),
            signals::Event::Child => self.reap(),
            signals::Event::Ignored => None,
        }
    }

    fn stop(&mut self, stop: Stop) -> Option<u8> {
        self.service_manager.stopping();
        self.console.notice(&format!("Exiting Master process ({stop:?})..."));
        self.happened(Event::Stop(stop))
    }

    fn note(&mut self, note: Note) -> Option<u8> {
        match note {
            Note::Event(event) => return self.happened(event),
            Note::Said(line) => self.console.keep(&line),
            Note::Silent(pid) => {
                self.processes
                    .iter_mut()
                    .filter(|process| process.pid() == pid)
                    .for_each(|process| process.silent = true);
                return self.bury();
            }
            Note::Ask(ask) => return self.answer(ask),
        }
        None
    }

    /// Takes the exit codes of the children that ended.
    fn reap(&mut self) -> Option<u8> {
        for process in &mut self.processes {
            if let Ok(Some(status)) = process.child.try_wait() {
                // A process ends with a code or by a signal; signals are numbered from 1.
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                process.code = Some(u8::try_from(code).unwrap_or(u8::MAX));
            }
        }
        self.bury()
    }

    /// Follows the end of the workers that ended and were heard to the end.
    fn bury(&mut self) -> Option<u8> {
        let mut left = None;
        while let Some(at) =
            self.processes.iter().position(|process| process.silent && process.code.is_some())
        {
            let process = self.processes.swap_remove(at);
            let (pid, code) = (process.pid(), process.code.unwrap_or(u8::MAX));
            if code != 0 {
                self.console.notice(&format!("worker ({pid}) exited with code {code}"));
            }
            left = self.happened(Event::Exited(pid, code)).or(left);
        }
        left
    }

    /// Does what follows from an event; a code when the master is to leave.
    fn happened(&mut self, event: Event) -> Option<u8> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.fleet.handle(event) {
                match action {
                    Action::Start => events.push_back(self.start()),
                    Action::Order(pid, order) => self.order(pid, order),
                    Action::Succeeded => self.succeeded(),
                    Action::Failed => self.failed(),
                    Action::Lost(pid, code) => {
                        self.console.alert(&format!("Current worker ({pid}) exited with code {code}"));
                    }
                    Action::Leave(code) => {
                        self.reload_answers.append(&mut self.later_answers);
                        self.answer_reloads(false);
                        self.console.notice(&format!("All workers exited. Exiting... ({code})"));
                        return Some(code);
                    }
                }
            }
        }
        None
    }

    fn start(&mut self) -> Event {
        self.reload_answers.append(&mut self.later_answers);
        if self.first.is_none() {
            self.console.forget();
            self.service_manager.reloading();
            self.console.notice("Reloading the configuration");
        }
        match self.start_worker() {
            Ok(pid) => {
                self.console.notice(&format!("New worker ({pid}) forked"));
                Event::Started(pid)
            }
            Err(message) => {
                // The configuration's findings were said when they were found.
                if !message.is_empty() {
                    self.console.alert(&message);
                }
                self.fresh.clear();
                Event::NotStarted
            }
        }
    }

    fn start_worker(&mut self) -> Result<Pid, String> {
        let (config, mut inheritance) = match self.first.take() {
            Some(first) => first,
            None => {
                let loaded = configuration::load(&self.options, Role::First, &self.console);
                let loaded = loaded.and_then(|loaded| configuration::demand(loaded, &self.console));
                (loaded.map_err(|Unusable| String::new())?.config, Inheritance::default())
            }
        };
        self.fleet.set_policy(configuration::policy(&config));
        self.fresh = listeners::open_for_workers(&config, &self.held, &mut inheritance)?;
        let start = || -> io::Result<Process> {
            let (child, channel) = self.invocation.start(Role::Worker)?;
            let process = Process { child, channel, since: Instant::now(), code: None, silent: false };
            handover::send_listeners(&process.channel, self.fresh.iter().map(|held| &held.listener))?;
            process.channel.set_nonblocking(true)?;
            Ok(process)
        };
        let process = start().map_err(|error| format!("cannot start a worker: {error}"))?;
        let pid = process.pid();
        let listening = process.channel.try_clone().and_then(tokio::net::UnixStream::from_std);
        let listening = listening.map_err(|error| format!("cannot hear the worker: {error}"))?;
        tokio::spawn(listen(pid, listening, self.notes.clone()));
        let notes = self.notes.clone();
        tokio::spawn(async move {
            tokio::time::sleep(START_LIMIT).await;
            // The loop only goes away when the process does.
            notes.send(Note::Event(Event::Overdue(pid))).await.ok();
        });
        self.processes.push(process);
        Ok(pid)
    }

    fn order(&self, pid: Pid, order: Order) {
        let signal = match order {
            Order::Finish => Signal::USR1,
            Order::Terminate => Signal::TERM,
            Order::Interrupt => Signal::INT,
            Order::Kill => Signal::KILL,
        };
        // A child that was waited for has no number any more: it may be another process's by now.
        let alive = self.processes.iter().find(|process| process.pid() == pid && process.code.is_none());
        if let Some(process) = alive {
            kill_process(SystemPid::from_child(&process.child), signal).ok();
        }
    }

    fn succeeded(&mut self) {
        self.console.notice("Loading success.");
        self.held = std::mem::take(&mut self.fresh);
        if let Some(pid_file) = self.pid_file.take()
            && let Err(error) = pid_file.write()
        {
            self.console.warning(&format!("cannot write the pid file: {error}"));
        }
        daemon::say_farewell(&mut self.options.replaced, self.options.farewell);
        self.service_manager.ready();
        if let Some(parent) = self.parent.take()
            && let Err(error) = daemon::detach(parent)
        {
            self.console.warning(&format!("cannot detach: {error}"));
        }
        self.answer_reloads(true);
    }

    fn failed(&mut self) {
        self.console.warning("Loading failure! The old worker goes on.");
        self.fresh.clear();
        self.service_manager.reload_failed();
        self.answer_reloads(false);
    }

    fn answer_reloads(&mut self, success: bool) {
        let text = format!("Success={}\n--\n{}", u8::from(success), self.console.startup_logs());
        for answer in self.reload_answers.drain(..) {
            answer.send(text.clone()).ok();
        }
    }

    fn answer(&mut self, ask: Ask) -> Option<u8> {
        match ask {
            Ask::ShowProcesses(answer) => {
                answer.send(self.processes_text()).ok();
            }
            Ask::StartupLogs(answer) => {
                answer.send(self.console.startup_logs()).ok();
            }
            Ask::Reload { hard, answer } => {
                self.later_answers.push(answer);
                return self.happened(Event::Reload { hard });
            }
            Ask::Connect(target, level, answer) => {
                answer.send(self.connect(target, level)).ok();
            }
        }
        None
    }

    /// Opens a connection to a worker's command interface: one end goes to it, the other to the client.
    fn connect(&self, target: Target, level: AdminLevel) -> Result<UnixStream, String> {
        let pid = match target {
            Target::Number(1) => self.fleet.current(),
            Target::Process(pid) => Some(pid),
            Target::Master | Target::Number(_) => None,
        };
        let process = self.processes.iter().find(|process| Some(process.pid()) == pid);
        let process = process.ok_or("Can't find the target CLI!")?;
        let open = || -> io::Result<UnixStream> {
            let (ours, theirs) = UnixStream::pair()?;
            channel::send_connection(process.channel.as_fd(), theirs.into(), level)?;
            Ok(ours)
        };
        open().map_err(|error| format!("Can't connect to the target CLI: {error}"))
    }

    /// `show proc`
    fn processes_text(&self) -> String {
        let mut text =
            format!("{:<16}{:<16}{:<16}{:<16}{}\n", "#<PID>", "<type>", "<reloads>", "<uptime>", "<version>");
        let reloads = format!("{} [failed: {}]", self.fleet.reloads, self.fleet.failed_reloads);
        row(&mut text, std::process::id(), "master", &reloads, self.since.elapsed());
        for (title, old) in [("# workers\n", false), ("# old workers\n", true)] {
            let leaving = |stage| matches!(stage, Stage::Leaving) == old;
            let mut workers = self.fleet.workers().iter().filter(|worker| leaving(worker.stage)).peekable();
            if workers.peek().is_some() || !old {
                text.push_str(title);
            }
            for worker in workers {
                let process = self.processes.iter().find(|process| process.pid() == worker.pid);
                let uptime = process.map_or(Duration::ZERO, |process| process.since.elapsed());
                row(&mut text, worker.pid, "worker", &worker.reloads.to_string(), uptime);
            }
        }
        text.push_str("# programs\n");
        text
    }
}

fn row(text: &mut String, pid: Pid, kind: &str, reloads: &str, uptime: Duration) {
    let seconds = uptime.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let uptime = format!("{days}d{hours:02}h{minutes:02}m{:02}s", seconds % 60);
    // Writing to a string cannot fail.
    writeln!(text, "{pid:<16}{kind:<16}{reloads:<16}{uptime:<16}{}", version::full()).ok();
}

/// Hands on what a worker says until it has nothing more to say.
async fn listen(pid: Pid, channel: tokio::net::UnixStream, notes: mpsc::Sender<Note>) {
    let mut lines = BufReader::new(channel);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
        let note = match Word::parse(&String::from_utf8_lossy(&line)) {
            Some(Word::Ready) => Some(Note::Event(Event::Ready(pid))),
            Some(Word::Said(text)) => Some(Note::Said(text)),
            None => None,
        };
        line.clear();
        if let Some(note) = note {
            // The loop only goes away when the process does.
            notes.send(note).await.ok();
        }
    }
    notes.send(Note::Silent(pid)).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_show_proc() {
        let mut text = String::new();
        row(&mut text, 1271, "worker", "1", Duration::from_secs(86_400 + 3_600 + 127));
        assert_eq!(text, "1271            worker          1               1d01h02m07s     3.0.11-weir\n");
    }
}
