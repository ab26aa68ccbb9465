//! One subject under attack: started with what the row needs of its configuration, watched while the attack runs.

use super::origin::Origin;
use super::rows::{Needs, Outcome};
use crate::bench::subject::{Place, Running, Subject, free_port};
use crate::bench::usage;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Where a subject listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) http: u16,
    pub(super) http2: u16,
    pub(super) tls: u16,
}

/// What an attack finds.
pub(super) struct Arena<'a> {
    pub(super) ports: Ports,
    pub(super) origin: &'a Origin,
    pub(super) running: &'a Running,
    /// The subject's name.
    pub(super) name: &'static str,
    /// The attack ends then.
    pub(super) until: Instant,
    /// The timeout for clients in the configuration.
    pub(super) timeout: Duration,
    /// Descriptors that were open before.
    pub(super) rest_descriptors: usize,
    /// The well-behaved client has what it wants.
    pub(super) probed: &'a AtomicBool,
}

impl Arena<'_> {
    /// Whether the attack goes on.
    pub(super) fn going(&self) -> bool {
        Instant::now() < self.until
    }

    /// Waits for the end.
    pub(super) fn hold(&self) {
        while self.going() || !self.probed.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(10));
        }
    }

    /// Keeps what is open until the end.
    pub(super) fn keep<T>(&self, open: T) -> Outcome {
        self.hold();
        drop(open);
        Outcome::default()
    }

    /// Runs something so many times at once.
    pub(super) fn at_once<T: Send>(&self, clients: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let work = &work;
        scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || work(client))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }
}

/// Starts a subject for a row.
pub(super) fn start(
    place: &Place,
    subject: &Subject,
    needs: &Needs,
    origin: u16,
) -> Result<(Running, Ports), String> {
    let ports = Ports { http: free_port()?, http2: free_port()?, tls: free_port()? };
    let lines = if subject.reads_haproxy() { needs.haproxy } else { needs.nginx };
    let values = [
        ("H2", ports.http2.to_string()),
        ("TLS", ports.tls.to_string()),
        ("TIMEOUT", needs.timeout_seconds.to_string()),
        ("MAXCONN", needs.maxconn.to_string()),
        ("MASTER", if needs.master { "on" } else { "off" }.to_owned()),
        ("FRONTEND", lines.to_owned()),
    ];
    let file = place.configure(&subject.template("attack"), subject.name, [ports.http, origin], &values)?;
    let command = command(place, subject, needs, &file)?;
    let running = Running::start(command, subject.name, ports.http, place.scratch.path())?;
    wait_for_ports(&ports)?;
    Ok((running, ports))
}

fn command(place: &Place, subject: &Subject, needs: &Needs, file: &Path) -> Result<Command, String> {
    let program = subject.called(place)?;
    let mut command = match needs.descriptors {
        Some(most) => {
            let mut command = place.on_proxy_core(Path::new("prlimit"));
            command.arg(format!("--nofile={most}:{most}")).arg(program);
            command
        }
        None => place.on_proxy_core(&program),
    };
    if subject.reads_haproxy() {
        command.args(if needs.master { ["-W", "-db"].as_slice() } else { &["-db"] }).arg("-f").arg(file);
    } else {
        command.arg("-p").arg(place.scratch.path()).arg("-c").arg(file);
    }
    Ok(command)
}

/// The listeners may be opened one after the other.
fn wait_for_ports(ports: &Ports) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(5);
    for port in [ports.http2, ports.tls] {
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                return Err(format!("nobody listens on port {port}"));
            }
            sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// How often descriptors are counted during an attack.
const WATCH_EVERY: Duration = Duration::from_millis(10);

/// The most descriptors that were open until `done`.
pub(super) fn watch(running: &Running, done: &AtomicBool) -> usize {
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        most = most.max(descriptors(running));
        sleep(WATCH_EVERY);
    }
    most
}

/// Open descriptors, as newer kernels say them without a list.
pub(super) fn descriptors(running: &Running) -> usize {
    let folder = format!("/proc/{}/fd", running.id());
    let counted = fs::metadata(folder).map_or(0, |folder| folder.len() as usize);
    if counted > 0 && usage::is_alone(running.id()) { counted } else { running.open_files() }
}
