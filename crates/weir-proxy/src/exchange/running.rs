//! What goes on on each thread: the list behind `show sess`, and ending what is in it.
//!
//! A thread's list is its own: requests enter and leave it without locks or atomics.  Others ask the thread,
//! which answers between two events.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{mpsc, oneshot};
use weir_net::timers::now_ms;
use weir_rules::Session;

use crate::edge::{Abandonment, Edge};
use crate::state::{ServerState, Shared};
use crate::thread::worker::Worker;

/// Questions that may wait for a thread.
const MAX_ASKS: usize = 1024;

/// Place of a thread's number in a session's number.
const THREAD_SHIFT: u32 = 48;

/// A request or TCP session that is going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Going {
    /// Its number, unique in the process.
    pub number: u64,
    /// Address of the client; `None` on unix sockets.
    pub client: Option<SocketAddr>,
    /// Index of the frontend.
    pub front: usize,
    /// Index of the backend, once there is one.
    pub back: Option<usize>,
    /// Number of the server in the backend (`id`), once there is one.
    pub server: Option<u32>,
    /// Milliseconds since its first byte.
    pub age_ms: u64,
    /// Major HTTP version of the client's side; 0 in TCP mode.
    pub http_major: u8,
    /// Requests on its connection so far.
    pub requests: u64,
}

/// Why something is ended, as the log's termination state says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// An administrator said so (`K`).
    Killed,
    /// Its server went down (`D`, `on-marked-down shutdown-sessions`).
    ServerDown,
    /// A better server came up (`U`, `on-marked-up shutdown-backup-sessions`).
    ServerUp,
    /// Its client gave it up (`C`): reset its stream, or closed the connection.
    ClientGone,
    /// Its client took nothing of what was sent to it for too long (`c`).
    ClientLate,
}

impl End {
    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::Killed => b'K',
            Self::ServerDown => b'D',
            Self::ServerUp => b'U',
            Self::ClientGone => b'C',
            Self::ClientLate => b'c',
        }
    }

    /// The client is not there to be told anything.
    pub(crate) fn is_clients(self) -> bool {
        matches!(self, Self::ClientGone | Self::ClientLate)
    }
}

struct Slot {
    /// 0 when nobody is here.
    number: u64,
    front: usize,
    back: Option<usize>,
    server: u32,
    started_ms: u64,
    session: Option<Rc<Session>>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// A thread's list.
#[derive(Default)]
pub(crate) struct Sessions {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    last: Cell<u64>,
}

/// A place in the list, left when dropped.
pub(crate) struct Entered {
    worker: Rc<Worker>,
    at: usize,
}

impl Sessions {
    /// Enters the list.
    pub(crate) fn enter(worker: &Rc<Worker>, session: &Rc<Session>, started_ms: u64) -> Entered {
        let sessions = &worker.sessions;
        let count = sessions.last.get() + 1;
        sessions.last.set(count);
        let slot = Slot {
            number: (worker.thread as u64 + 1) << THREAD_SHIFT | count,
            front: session.frontend.index,
            back: None,
            server: 0,
            started_ms,
            session: Some(Rc::clone(session)),
            end: None,
            waker: None,
        };
        let mut slots = sessions.slots.borrow_mut();
        let at = match sessions.free.borrow_mut().pop() {
            Some(at) => {
                slots[at] = slot;
                at
            }
            None => {
                slots.push(slot);
                slots.len() - 1
            }
        };
        Entered { worker: Rc::clone(worker), at }
    }

    fn list(&self) -> Vec<Going> {
        let now = now_ms();
        let slots = self.slots.borrow();
        let going = slots.iter().filter_map(|slot| {
            let session = slot.session.as_ref()?;
            Some(Going {
                number: slot.number,
                client: session.src.get(),
                front: slot.front,
                back: slot.back,
                server: (slot.server != 0).then_some(slot.server),
                age_ms: now.saturating_sub(slot.started_ms),
                http_major: session.http_major,
                requests: session.requests.get(),
            })
        });
        going.collect()
    }

    /// Ends what fits; returns how many.
    fn end(&self, end: End, fits: impl Fn(&Slot) -> bool) -> usize {
        let mut wakers = Vec::new();
        for slot in self.slots.borrow_mut().iter_mut().filter(|slot| slot.number != 0 && fits(slot)) {
            slot.end = Some(end);
            wakers.push(slot.waker.take());
        }
        let count = wakers.len();
        wakers.into_iter().flatten().for_each(Waker::wake);
        count
    }
}

impl Entered {
    /// The backend was chosen.
    pub(crate) fn in_backend(&self, index: usize) {
        self.worker.sessions.slots.borrow_mut()[self.at].back = Some(index);
    }

    /// The server was chosen.
    pub(crate) fn on_server(&self, id: u32) {
        self.worker.sessions.slots.borrow_mut()[self.at].server = id;
    }

    /// Looks whether it is ended, from outside or by its client.
    pub(crate) fn watch(&self, client: &Edge) -> Watch {
        Watch { worker: Rc::clone(&self.worker), at: self.at, client: client.abandonment() }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let sessions = &self.worker.sessions;
        let slot = &mut sessions.slots.borrow_mut()[self.at];
        slot.number = 0;
        let (session, waker) = (slot.session.take(), slot.waker.take());
        sessions.free.borrow_mut().push(self.at);
        drop((session, waker));
    }
}

/// Looks whether a place in the list was ended.
pub(crate) struct Watch {
    worker: Rc<Worker>,
    at: usize,
    client: Option<Abandonment>,
}

impl Watch {
    /// Runs something until it is over, or until its place is ended.
    pub(crate) async fn unless_ended<T>(
        self,
        mut stages: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, End> {
        poll_fn(|cx| match self.poll_ended(cx) {
            Poll::Ready(end) => Poll::Ready(Err(end)),
            Poll::Pending => {
                let done = stages.as_mut().poll(cx);
                if done.is_pending()
                    && let Some(client) = &self.client
                {
                    client.register(cx);
                }
                done.map(Ok)
            }
        })
        .await
    }

    /// Ready when it was ended.
    fn poll_ended(&self, cx: &Context<'_>) -> Poll<End> {
        if let Some(end) = self.client.as_ref().and_then(Abandonment::found) {
            return Poll::Ready(end);
        }
        let slot = &mut self.worker.sessions.slots.borrow_mut()[self.at];
        if let Some(end) = slot.end.take() {
            return Poll::Ready(end);
        }
        if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// A question to a thread.
enum Ask {
    List(oneshot::Sender<Vec<Going>>),
    End { number: u64, answer: oneshot::Sender<usize> },
    EndOn { backend: usize, server: u32, end: End },
}

/// The ways to the threads.
pub(crate) struct Asks {
    ways: Vec<mpsc::Sender<Ask>>,
    ends: Vec<Mutex<Option<mpsc::Receiver<Ask>>>>,
}

impl Asks {
    pub(crate) fn new(threads: usize) -> Self {
        let (ways, ends) = (0..threads).map(|_| mpsc::channel(MAX_ASKS)).unzip::<_, _, Vec<_>, Vec<_>>();
        Self { ways, ends: ends.into_iter().map(|end| Mutex::new(Some(end))).collect() }
    }
}

impl Shared {
    /// What goes on now, on all threads.
    pub async fn sessions(&self) -> Vec<Going> {
        let mut all = Vec::new();
        for way in &self.asks.ways {
            let (answer, answered) = oneshot::channel();
            // A thread that has ended has no sessions.
            if way.send(Ask::List(answer)).await.is_ok() {
                all.extend(answered.await.unwrap_or_default());
            }
        }
        all
    }

    /// Ends a session by its number; false when there is none.
    pub async fn end_session(&self, number: u64) -> bool {
        let Some(thread) = ((number >> THREAD_SHIFT) as usize).checked_sub(1) else { return false };
        let Some(way) = self.asks.ways.get(thread) else { return false };
        let (answer, answered) = oneshot::channel();
        way.send(Ask::End { number, answer }).await.is_ok() && answered.await.unwrap_or(0) > 0
    }

    /// Ends the sessions on a server.
    pub fn end_sessions_on(&self, server: &Arc<ServerState>, end: End) {
        for way in &self.asks.ways {
            // With this many questions waiting the thread is in trouble of its own.
            let _asked = way.try_send(Ask::EndOn { backend: server.proxy, server: server.config.id, end });
        }
    }
}

/// Answers what other threads ask this one.
pub(crate) async fn serve(worker: Rc<Worker>) {
    let end = &worker.shared.asks.ends[worker.thread];
    let Some(mut asks) = end.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    while let Some(ask) = asks.recv().await {
        let sessions = &worker.sessions;
        match ask {
            // Whoever asked may be gone.
            Ask::List(answer) => {
                let _heard = answer.send(sessions.list());
            }
            Ask::End { number, answer } => {
                let _heard = answer.send(sessions.end(End::Killed, |slot| slot.number == number));
            }
            Ask::EndOn { backend, server, end } => {
                sessions.end(end, |slot| slot.back == Some(backend) && slot.server == server);
            }
        }
    }
}
