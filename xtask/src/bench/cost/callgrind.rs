//! A subject under callgrind: when it counts, and what it counted.

use super::dump::Dump;
use crate::bench::rows::Row;
use crate::bench::subject::{Place, Running, Subject};
use crate::{debian, place, program};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A first-level instruction cache as most processors have it, and data caches that are not looked at. Names and
/// positions are written out, so that the dump can be read line by line. Collection begins when it is asked for.
const OPTIONS: [&str; 10] = [
    "--tool=callgrind",
    "--instr-atstart=no",
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=8388608,16,64",
    "--dump-instr=yes",
    "--compress-strings=no",
    "--compress-pos=no",
    "--trace-syscalls=yes",
];

/// A program starts many times slower than usual.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long valgrind may take to do what it is told, in seconds.
const COMMAND_LIMIT: &str = "60";

/// Clocks are read without a system call where the kernel's vDSO is, which valgrind takes away.
const READS_A_CLOCK: [&str; 2] = ["clock_gettime", "gettimeofday"];

pub(super) struct Watched {
    pub(super) running: Running,
    /// Valgrind's log, which has a line for each system call, and how much of it was read.
    log: PathBuf,
    log_read: usize,
    /// Where dumps are written, a number behind it.
    dumps: PathBuf,
    dumped: u32,
}

impl Watched {
    pub(super) fn start(place: &Place, subject: &Subject, row: &Row, origin: u16) -> Result<Self, String> {
        let valgrind = debian::need("valgrind", "valgrind")?;
        let file = |end: &str| place.scratch.path().join(format!("{}-{}.{end}", subject.name, row.name));
        let (log, dumps) = (file("log"), file("callgrind"));
        let mut under = place.on_proxy_core(&valgrind);
        under.args(OPTIONS);
        under.arg(format!("--log-file={}", log.display()));
        under.arg(format!("--callgrind-out-file={}", dumps.display()));
        let running = subject.start_under(place, row.setup, origin, under, START_LIMIT)?;
        Ok(Self { running, log, log_read: 0, dumps, dumped: 0 })
    }

    /// Counts from now on; caches are empty at first.
    pub(super) fn collect(&self) -> Result<(), String> {
        self.tell(&["instrumentation", "on"])
    }

    /// What was counted since the last time, and how many system calls there were.
    pub(super) fn dump(&mut self) -> Result<(Dump, u64), String> {
        self.tell(&["dump"])?;
        self.dumped += 1;
        let dump = place::read(&self.dumps.with_extension(format!("callgrind.{}", self.dumped)))?;
        let log = place::read(&self.log)?;
        let calls = system_calls(log.get(self.log_read..).unwrap_or_default());
        self.log_read = log.len();
        Ok((Dump::read(&dump)?, calls))
    }

    fn tell(&self, words: &[&str]) -> Result<(), String> {
        let vgdb = debian::need("vgdb", "valgrind")?;
        let mut command = Command::new("timeout");
        command.arg(COMMAND_LIMIT).arg(vgdb).arg(format!("--pid={}", self.running.id()));
        program::output(command.args(words)).map(drop)
    }
}

/// Counts the lines in which a system call begins.
fn system_calls(log: &str) -> u64 {
    log.lines().filter_map(begun).filter(|name| !READS_A_CLOCK.contains(name)).count() as u64
}

/// The name in `SYSCALL[PROCESS,THREAD](NUMBER) sys_NAME ( ...`; the line in which a call ends has none.
fn begun(line: &str) -> Option<&str> {
    line.strip_prefix("SYSCALL[")?.split_once(") sys_")?.1.split([' ', '(']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_that_waits_is_one() {
        let log = "==7== Callgrind\n\
            SYSCALL[7,1](232) sys_epoll_wait ( 3, 0x1, 64, 9 ) --> [async] ... \n\
            SYSCALL[7,1](232) ... [async] --> Success(0x1) \n\
            SYSCALL[7,1](228) sys_clock_gettime( 6, 0x1 )[sync] --> Success(0x0) \n\
            SYSCALL[7,1](228) sys_clock_gettime ( 6, 0x1 )[sync] --> Success(0x0) \n\
            SYSCALL[7,2](45) sys_recvfrom ( 9, 0x4, 16384, 0, 0x0, 0x0 )[sync] --> Success(0x2c) \n";
        assert_eq!(system_calls(log), 2);
    }
}
