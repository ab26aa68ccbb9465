//! What an idle connection costs in memory: the growth of the resident set over many of them.

use super::configurations;
use super::subject::{Place, Running, Subject};
use crate::debian;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Each makes one request and stays open.
pub(super) const CONNECTIONS: usize = 3000;

/// The client waits 8 s until all connections are open and asks over 3 s.
const LIMIT: Duration = Duration::from_secs(40);

/// One measurement of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) setup: &'static str,
    tls: bool,
    /// Bytes that weir may grow by for each connection.
    pub(super) bar: u64,
}

pub(super) const ROWS: &[Row] = &[
    Row { name: "memory-h1", setup: "h1", tls: false, bar: 2_000 },
    Row { name: "memory-tls", setup: "tls", tls: true, bar: 15_000 },
];

/// Bytes that each idle connection adds.
pub(super) fn measure(place: &Place, subject: &Subject, row: &Row, origin: u16) -> Result<u64, String> {
    let running = subject.start(place, row.setup, origin)?;
    let scheme = if row.tls { "https" } else { "http" };
    let address = format!("{scheme}://127.0.0.1:{}/small.html", running.port);
    // What the first connections allocate once and for all is not counted.
    hold(place, &running, &address, 10)?;
    sleep(Duration::from_millis(200));
    let before = running.resident_bytes();
    let files = running.open_files();
    let client = open(place, &address, CONNECTIONS)?;
    let done = wait(place, &client);
    let grown = running.resident_bytes().saturating_sub(before);
    let held = running.open_files().saturating_sub(files);
    done?;
    if held < CONNECTIONS {
        return Err(format!("only {held} of {CONNECTIONS} connections are open after their requests"));
    }
    Ok(grown / CONNECTIONS as u64)
}

/// Opens some connections, waits for their answers, and lets them go.
fn hold(place: &Place, running: &Running, address: &str, connections: usize) -> Result<(), String> {
    let client = open(place, address, connections)?;
    let outcome = wait(place, &client);
    drop(client);
    let closed = Instant::now();
    let settled = running.open_files();
    while running.open_files() >= settled && closed.elapsed() < Duration::from_secs(1) {
        sleep(Duration::from_millis(20));
    }
    outcome
}

/// The client process; dropping it closes its connections.
struct Idle(Child);

impl Drop for Idle {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn open(place: &Place, address: &str, connections: usize) -> Result<Idle, String> {
    let done = place.scratch.path().join("answered");
    if done.exists() {
        fs::remove_file(&done).map_err(|error| format!("{}: {error}", done.display()))?;
    }
    let wrk = debian::need("wrk", "wrk")?;
    // wrk needs a file for each connection, and an ordinary limit is 1024.
    let mut command = place.on_client_core(Path::new("prlimit"));
    command.arg(format!("--nofile={}", connections + 100)).arg(wrk);
    command.args(["-t1", "-c", &connections.to_string(), "-d", "60s", "--timeout", "60s", "-s"]);
    command.arg(configurations().join("clients/idle.lua")).arg(address);
    command.env("CONNECTIONS", connections.to_string()).env("DONE", done);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(Idle).map_err(|error| format!("wrk: {error}"))
}

/// Waits until the last connection has its answer.
fn wait(place: &Place, _held: &Idle) -> Result<(), String> {
    let done = place.scratch.path().join("answered");
    let started = Instant::now();
    while !done.exists() {
        if started.elapsed() > LIMIT {
            return Err(format!("not all connections had their answer after {} s", LIMIT.as_secs()));
        }
        sleep(Duration::from_millis(50));
    }
    sleep(Duration::from_millis(500));
    Ok(())
}
