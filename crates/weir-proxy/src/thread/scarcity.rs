//! What runs out: descriptors, and memory where it is limited (`-m`).
//!
//! The limit on memory is held by refusing: new connections first, requests of the connections that exist a little later.
//! What the system counts is read from the kernel; a limit of the system itself would end the process instead.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;
use weir_net::timers::now_ms;

use crate::log::level;
use crate::log::reminder::Reminder;
use crate::state::Shared;

/// How often the kernel is asked at most: it takes two microseconds.
const LOOK_MS: u64 = 1;

/// Part of the limit that new connections leave to those that exist: an eighth, and at most so many bytes.
const MOST_RESERVED_BYTES: u64 = 32 * 1024 * 1024;

/// A piece of memory that the allocator takes from the system and gives back by itself.
const LARGE_PIECE_BYTES: usize = 8 * 1024 * 1024;

/// What runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    Descriptors,
    Memory,
}

/// What asks for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Newcomer {
    Connection,
    Request,
}

/// The limits of the process and what was said of them.
#[derive(Debug, Default)]
pub struct Scarcity {
    /// `-m` in bytes; 0 without.
    limit_bytes: u64,
    /// The kernel's account of this process, open before the root folder changes.
    account: Option<File>,
    used_bytes: AtomicU64,
    looked_ms: AtomicU64,
    refused: AtomicU64,
    reminders: [Reminder; 2],
}

impl Scarcity {
    pub(crate) fn new(limit_mib: Option<u64>) -> Self {
        let limit_bytes = limit_mib.unwrap_or(0).saturating_mul(1024 * 1024);
        Self { limit_bytes, account: File::open("/proc/self/statm").ok(), ..Self::default() }
    }

    /// `-m` in bytes; 0 without.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Memory that is the process's alone; 0 where the kernel does not tell.
    #[must_use]
    pub fn private_bytes(&self) -> u64 {
        self.account.as_ref().and_then(private_bytes).unwrap_or(0)
    }

    /// Connections and requests that were refused for want of memory.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Makes the allocator look for pages that have been free for a while, and give them back to the system: it does so
    /// when a large piece is freed, and who is refused frees none.
    pub(crate) fn give_back(&self) {
        if self.limit_bytes > 0 {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_PIECE_BYTES)));
        }
    }

    /// Whether somebody has to be refused, who is counted then.
    pub(crate) fn refuses(&self, newcomer: Newcomer) -> bool {
        if self.limit_bytes == 0 || self.used(now_ms()) < most_for(newcomer, self.limit_bytes) {
            return false;
        }
        self.refused.fetch_add(1, Relaxed);
        true
    }

    fn used(&self, now_ms: u64) -> u64 {
        let looked_ms = self.looked_ms.load(Relaxed);
        if now_ms.saturating_sub(looked_ms) >= LOOK_MS
            && self.looked_ms.compare_exchange(looked_ms, now_ms, Relaxed, Relaxed).is_ok()
            && let Some(used) = self.account.as_ref().and_then(private_bytes)
        {
            self.used_bytes.store(used, Relaxed);
        }
        self.used_bytes.load(Relaxed)
    }

    fn reminder(&self, what: Shortage) -> &Reminder {
        &self.reminders[what as usize]
    }
}

/// What may be in use when somebody is let in.
fn most_for(newcomer: Newcomer, limit_bytes: u64) -> u64 {
    let reserve = (limit_bytes / 8).min(MOST_RESERVED_BYTES);
    match newcomer {
        Newcomer::Connection => limit_bytes - reserve,
        Newcomer::Request => limit_bytes - reserve / 2,
    }
}

/// Memory that is the process's alone (proc_pid_statm(5): resident without shared pages).
fn private_bytes(account: &File) -> Option<u64> {
    let mut text = [0; 128];
    let length = account.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let mut pages = text.split(' ').skip(1).map_while(|number| number.parse::<u64>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// What the system refuses to a new connection, in HAProxy's words.
pub(crate) fn words(error: &io::Error) -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            format!("reached process FD limit (maxsock={limit}). Please check 'ulimit-n' and restart.")
        }
        Some(Errno::NFILE) => {
            format!("reached system FD limit (maxsock={limit}). Please check system tunables.")
        }
        _ => format!("reached system memory limit (maxsock={limit}). Please check system tunables."),
    }
}

impl Shared {
    /// Memory of the process without what threads keep for the next user.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.scarcity.private_bytes().saturating_sub(self.memory_pools.kept_bytes() as u64)
    }

    /// Whether somebody who comes to a proxy has to be refused for want of memory; says so once a minute.
    pub(crate) fn lacks_memory(&self, proxy: usize, newcomer: Newcomer) -> bool {
        let refuses = self.scarcity.refuses(newcomer);
        if refuses {
            let mib = self.scarcity.limit_bytes / (1024 * 1024);
            self.tell_shortage(proxy, Shortage::Memory, || {
                format!("reached the memory limit (-m {mib}): connections and requests are refused.")
            });
        }
        refuses
    }

    /// Says that something has run out, once a minute in the whole process.
    pub(crate) fn tell_shortage(&self, proxy: usize, what: Shortage, text: impl FnOnce() -> String) {
        if self.scarcity.reminder(what).is_due(now_ms()) {
            let text = format!("Proxy {} {}", self.config.proxies[proxy].name, text());
            self.tell(proxy, level::EMERG, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_refused_before_requests_and_both_before_the_limit() {
        let check = |mib: u64, connection: u64, request: u64| {
            let most = |newcomer| most_for(newcomer, mib << 20) >> 20;
            assert_eq!((most(Newcomer::Connection), most(Newcomer::Request)), (connection, request), "{mib}");
        };
        check(32, 28, 30);
        check(1024, 992, 1008);
        check(0, 0, 0);
    }

    #[test]
    fn memory_in_use_is_counted_and_counts_again_when_it_is_given_back() {
        let scarcity = Scarcity::new(Some(1));
        // A test's process alone is larger than a megabyte.
        assert!(scarcity.refuses(Newcomer::Request) && scarcity.refused() == 1);
        assert!(!Scarcity::new(None).refuses(Newcomer::Connection));
        assert!(!Scarcity::new(Some(1 << 20)).refuses(Newcomer::Connection));
    }

    #[test]
    fn a_shortage_is_said_once_a_minute() {
        let scarcity = Scarcity::default();
        let check = |now_ms, expected| {
            assert_eq!(scarcity.reminder(Shortage::Memory).is_due(now_ms), expected, "{now_ms}");
        };
        check(0, true);
        check(59_000, false);
        assert!(scarcity.reminder(Shortage::Descriptors).is_due(59_000));
        check(60_001, true);
        check(60_002, false);
    }
}
