//! The ports that connections to a server come from (manual, server keyword `source` with a range of ports).
//!
//! Threads share a range. Which of its ports are free for a destination the kernel knows: the next one in turn is tried.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most ports that are tried for one connection.
const MOST_TRIES: u32 = 256;

/// A range of ports, used in turn.
#[derive(Debug)]
pub struct SourcePorts {
    first: u16,
    count: u32,
    next: AtomicU32,
}

impl PartialEq for SourcePorts {
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.count) == (other.first, other.count)
    }
}

impl Eq for SourcePorts {}

impl SourcePorts {
    /// The ports from `first` to `last`.
    #[must_use]
    pub fn new(first: u16, last: u16) -> Self {
        Self { first, count: u32::from(last.saturating_sub(first)) + 1, next: AtomicU32::new(0) }
    }

    /// The ports to try for a connection.
    pub(crate) fn tries(&self) -> impl Iterator<Item = u16> {
        (0..self.count.min(MOST_TRIES)).map(|_| {
            let place = self.next.fetch_add(1, Relaxed) % self.count;
            // The last one is a port, too.
            self.first + place as u16
        })
    }

    /// The port has a connection to that destination already.
    pub(crate) fn is_taken(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns() {
        let check = |first, last, expected: &[u16]| {
            let ports = SourcePorts::new(first, last);
            let tried: Vec<u16> = ports.tries().take(1).chain(ports.tries()).collect();
            assert_eq!(tried, expected, "{first}-{last}");
        };
        check(10, 12, &[10, 11, 12, 10]);
        check(65_535, 65_535, &[65_535, 65_535]);
        check(7, 3, &[7, 7]);
        assert_eq!(SourcePorts::new(1, 65_535).tries().count(), 256);
    }
}
