//! Signals as events.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGUSR1
    Finish,
    /// SIGTERM
    Terminate,
    /// SIGINT
    Interrupt,
    /// SIGUSR2
    Reload,
    /// SIGHUP
    HangUp,
    /// SIGCHLD: a child ended.
    Child,
    /// Signals that HAProxy gives a meaning (pause, resume, dump) and that must not end or stop the process.
    Ignored,
}

/// The signals of this process; from here on none of them has its default effect.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Event, Signal)>,
}

// Numbers that tokio has no name for.
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;

impl Signals {
    /// Takes all signals over; needs a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let kinds = [
            (Event::Child, SignalKind::child()),
            (Event::Terminate, SignalKind::terminate()),
            (Event::Interrupt, SignalKind::interrupt()),
            (Event::Finish, SignalKind::user_defined1()),
            (Event::Reload, SignalKind::user_defined2()),
            (Event::HangUp, SignalKind::hangup()),
            (Event::Ignored, SignalKind::quit()),
            (Event::Ignored, SignalKind::pipe()),
            (Event::Ignored, SignalKind::from_raw(SIGTTIN)),
            (Event::Ignored, SignalKind::from_raw(SIGTTOU)),
        ];
        let streams = kinds.into_iter().map(|(event, kind)| Ok((event, signal(kind)?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Event {
        std::future::poll_fn(|cx| {
            for (event, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*event);
                }
            }
            Poll::Pending
        })
        .await
    }
}
