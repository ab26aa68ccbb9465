//! A TCP connection of somebody who keeps no rules: sends what it is told to, reads only where that is asked for, and
//! waits for nothing longer than it was told.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// What is kept of what was received and not looked at: a flood of answers must not fill the attacker's memory.
const KEPT_BYTES: usize = 4 << 20;

/// The other side has closed, or takes nothing until the time is up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Closed,
    TimedOut,
}

/// What a connection does with answers while it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Always,
    /// Answers stay in the kernel's buffers until they are full.
    Never,
}

/// One connection.
pub(super) struct Wire {
    stream: TcpStream,
    reading: Reading,
    /// What came and was not taken yet.
    pub(super) received: Vec<u8>,
    pub(super) closed: bool,
    /// It carried a request before.
    pub(super) used: bool,
}

impl Wire {
    pub(super) fn open(port: u16, reading: Reading) -> Result<Self, Gone> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|_| Gone::Closed)?;
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
        prepared.map_err(|_| Gone::Closed)?;
        Ok(Self { stream, reading, received: Vec::new(), closed: false, used: false })
    }

    /// A connection whose kernel takes as little as it can for an application that does not read.
    pub(super) fn open_narrow(port: u16) -> Result<Self, Gone> {
        let wire = Self::open(port, Reading::Never)?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&wire.stream, 4096).map_err(|_| Gone::Closed)?;
        Ok(wire)
    }

    /// Sends everything, reading meanwhile where this connection reads.
    pub(super) fn send(&mut self, mut bytes: &[u8], until: Instant) -> Result<(), Gone> {
        if self.closed {
            return Err(Gone::Closed);
        }
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, until)?;
                    self.read_some();
                }
                Err(_) => return Err(self.gone()),
            }
        }
        // Somebody may have answered and closed already: that is seen by the next one to send or to read.
        self.read_some();
        Ok(())
    }

    /// Waits until something more is there.
    pub(super) fn more(&mut self, until: Instant) -> Result<(), Gone> {
        let had = self.received.len();
        loop {
            self.read_now();
            if self.received.len() > had {
                return Ok(());
            }
            if self.closed {
                return Err(Gone::Closed);
            }
            self.wait(PollFlags::IN, until)?;
        }
    }

    /// Reads until the other side closes or the time is up; whether it has closed.
    pub(super) fn drain(&mut self, until: Instant) -> bool {
        while !self.closed && self.more(until).is_ok() {
            self.bound();
        }
        self.closed
    }

    /// Looks at what is there without waiting.
    pub(super) fn read_now(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while !self.closed && self.received.len() < KEPT_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }

    /// Says that no more comes from here.
    pub(super) fn finish(&self) {
        // The other side may have closed already, which is noticed by reading.
        drop(self.stream.shutdown(std::net::Shutdown::Write));
    }

    fn read_some(&mut self) {
        if self.reading == Reading::Always {
            self.read_now();
            self.bound();
        }
    }

    fn bound(&mut self) {
        if self.received.len() >= KEPT_BYTES {
            self.received.clear();
        }
    }

    fn gone(&mut self) -> Gone {
        // What was said before closing is still there.
        self.read_now();
        self.closed = true;
        Gone::Closed
    }

    fn wait(&self, wanted: PollFlags, until: Instant) -> Result<(), Gone> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Gone::TimedOut);
        }
        let wanted = if self.reading == Reading::Always { wanted | PollFlags::IN } else { wanted };
        let mut fds = [PollFd::new(&self.stream, wanted)];
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&left)) {
            Ok(0) => Err(Gone::TimedOut),
            _ => Ok(()),
        }
    }
}

/// The time so far ahead.
pub(super) fn within(time: Duration) -> Instant {
    Instant::now() + time
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(reading: Reading) -> (Wire, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wire = Wire::open(listener.local_addr().unwrap().port(), reading).unwrap();
        (wire, listener.accept().unwrap().0)
    }

    #[test]
    fn sending_to_somebody_who_does_not_read_ends_in_time() {
        let (mut wire, _far) = pair(Reading::Never);
        let flood = vec![0; 64 << 20];
        assert_eq!(wire.send(&flood, within(Duration::from_millis(50))), Err(Gone::TimedOut));
    }

    #[test]
    fn what_was_said_before_closing_is_read() {
        let (mut wire, mut far) = pair(Reading::Always);
        far.write_all(b"bye").unwrap();
        drop(far);
        assert!(wire.drain(within(Duration::from_secs(5))));
        assert_eq!(wire.received, b"bye");
        assert_eq!(wire.send(b"more", within(Duration::ZERO)), Err(Gone::Closed));
    }
}
