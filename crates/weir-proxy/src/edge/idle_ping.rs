//! `idle-ping`: asks the peer of an idle HTTP/2 connection whether it is still there.
//!
//! Owns when to ask and what to make of the silence; asking is the core's, ending the connection its driver's.

use std::task::Context;
use std::time::Duration;

use weir_http::h2::Connection;
use weir_net::timers::Deadline;

/// The probe of a connection.
pub(crate) struct IdlePing {
    delay: Duration,
    next: Deadline,
    state: State,
    /// An answer came that nobody has asked about.
    answered: bool,
}

/// ```text
///  Busy <----> Idle --delay--> Asked --delay--> the peer is gone
///                ^----answer-----'
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Requests are on the connection: they have timeouts of their own.
    Busy,
    Idle,
    Asked,
}

/// What the connection's driver has to do.
#[derive(PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// There is a PING to send.
    Ping,
    /// The peer did not answer in time.
    End,
}

impl IdlePing {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, next: Deadline::new(), state: State::Busy, answered: false }
    }

    /// To be asked whenever the connection was driven.
    pub(crate) fn poll(&mut self, core: &mut Connection, cx: &mut Context<'_>) -> Due {
        if core.take_ping_answer() {
            self.answered = true;
            if self.state == State::Asked {
                self.state = State::Idle;
            }
        }
        if !core.is_idle() {
            self.next.clear();
            self.state = State::Busy;
            return Due::Nothing;
        }
        if self.state == State::Busy {
            self.next.set_after(self.delay);
            self.state = State::Idle;
        }
        if self.next.poll_expired(cx).is_pending() {
            return Due::Nothing;
        }
        if self.state == State::Asked {
            return Due::End;
        }
        core.send_ping();
        self.state = State::Asked;
        self.next.set_after(self.delay);
        // The driver asks again when it has sent the PING, which also makes the new deadline wake it.
        Due::Ping
    }

    /// The peer has answered since this was asked last.
    pub(crate) fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}
