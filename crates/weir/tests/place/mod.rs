//! A folder of its own for each test, the program in it under the name `haproxy`, and what is asked of it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How long anything may take; far above what it takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// How often a condition is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A test's folder, with the program under the name `haproxy`.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), folder.join("haproxy")).unwrap();
        // The port is free a moment later too: the system gives numbers out in turn.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        Self { folder, port }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A configuration that answers every request with a text.
    pub(crate) fn answers(&self, text: &str) {
        self.configure(&format!("bind 127.0.0.1:{}", self.port), text);
    }

    pub(crate) fn configure(&self, bind: &str, text: &str) {
        let origin = origin(text);
        let config = format!(
            "defaults\n mode http\n timeout client 10s\n timeout connect 10s\n timeout server 10s\n\
             listen www\n {bind}\n server {text} {origin}\n"
        );
        self.write(&config);
    }

    pub(crate) fn write(&self, config: &str) {
        fs::write(self.path("cfg"), config).unwrap();
    }

    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(self.path("haproxy"));
        command.args(options).arg("-f").arg(self.path("cfg")).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    pub(crate) fn start(&self, options: &[&str]) -> Running {
        Running(self.command(options).spawn().unwrap())
    }

    pub(crate) fn output(&self, options: &[&str]) -> Output {
        self.command(options).output().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Waits until the port answers with a text.
    pub(crate) fn wait_for(&self, text: &str) {
        eventually(&format!("an answer {text}"), || {
            ask(self.address()).is_some_and(|answer| answer.ends_with(text))
        });
    }

    pub(crate) fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.path("pid")).ok()?.trim().parse().ok()
    }

    /// The answer of the master's command socket.
    pub(crate) fn master(&self, command: &str) -> String {
        talk(&self.path("master.sock"), command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A server that answers every request with a text, for as long as the test runs.
pub(crate) fn origin(text: &str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            // A client that goes away in between is another test's way to end.
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|length| length == 1) {
                head.push(byte[0]);
            }
            client.write_all(answer.as_bytes()).ok();
        }
    });
    address
}

/// A process that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// The exit code; none when a signal ended it.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("an exit code", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A daemon, known by its number alone.
pub(crate) struct Daemon(pub(crate) i32);

impl Daemon {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0).unwrap()
    }

    pub(crate) fn wait_until_gone(&self) {
        // Nobody may be there to take the exit code of an orphan: a zombie is gone too.
        eventually("the end of a daemon", || {
            let status = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
            test_kill_process(self.pid()).is_err() || status.contains(") Z ")
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        kill_process(self.pid(), Signal::KILL).ok();
    }
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited too long for {what}");
        std::thread::sleep(LOOK);
    }
}

/// One request on one connection; none when anything goes wrong.
pub(crate) fn ask(to: SocketAddr) -> Option<String> {
    let mut client = TcpStream::connect(to).ok()?;
    client.set_read_timeout(Some(LIMIT)).ok()?;
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

/// One command on a unix socket.
pub(crate) fn talk(path: &Path, command: &str) -> String {
    let mut client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(command.as_bytes()).unwrap();
    client.write_all(b"\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}
