//! The run's clock, and an alarm that is precise to some microseconds.
//!
//! The runtime's own timers count in milliseconds, which is the latency of many requests.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Counts nanoseconds from one moment on, the same one on all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn instant(self, at_ns: u64) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.0 + Duration::from_nanos(at_ns))
    }
}

/// Rings once after a time.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[allow(
        deprecated,
        reason = "what is wrong with it is about descriptors that are closed elsewhere; this one is owned"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Rings `delay_ns` from now, instead of when it was set to.
    pub(crate) fn set(&self, delay_ns: u64) -> io::Result<()> {
        // Nothing at all would turn it off.
        let delay_ns = delay_ns.max(1);
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let value = Timespec { tv_sec: time(delay_ns / SECOND_NS), tv_nsec: time(delay_ns % SECOND_NS) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Waits until it rings.
    pub(crate) async fn rings(&self) -> io::Result<()> {
        // Setting it again makes it silent: the count of expirations does not have to be read.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
