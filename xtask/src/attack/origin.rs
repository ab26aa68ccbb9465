//! The server behind the subjects: answers `/probe`, `/wait` and `/big` as an honest one does, plays a row's script of
//! bytes where the row has one for a path, counts connections and requests, and keeps what it was sent where asked.
//!
//! It reads requests as leniently as an old server does: what is smuggled to it, it takes.

use super::lenient::{self, Scan};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How long `/wait` waits.
const WAIT: Duration = Duration::from_secs(1);

/// Octets of `/big`, which leaves in pieces: a thousand of them are asked for at once.
const BIG_BYTES: usize = 4 << 20;
const PIECE: usize = 16 << 10;

/// A request that is longer is not read on.
const LONGEST_REQUEST: usize = 64 << 20;

/// What is kept of one connection's requests.
const RECORDED_BYTES: usize = 256 * 1024;

/// What an evil origin does, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send(Vec<u8>),
    /// The bytes so many times.
    Repeat(Vec<u8>, u64),
    Pause(Duration),
    Close,
}

/// A row's answer to a request for a path; none is the honest one.
pub(super) type Script = fn(&str) -> Option<Vec<Step>>;

/// An honest server.
pub(super) fn honest(_: &str) -> Option<Vec<Step>> {
    None
}

/// What the origin has seen.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) requests: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) open: AtomicU64,
    recording: AtomicBool,
    /// By connection.
    recorded: Mutex<BTreeMap<u64, Vec<u8>>>,
    killed: Notify,
    stopped: Notify,
}

impl Ledger {
    /// Begins a new record of what arrives.
    pub(super) fn record(&self) {
        self.recording.store(true, Ordering::Relaxed);
        self.recorded().clear();
    }

    /// What arrived since, by connection.
    pub(super) fn records(&self) -> Vec<Vec<u8>> {
        self.recorded().values().cloned().collect()
    }

    fn recorded(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, connection: u64, bytes: &[u8]) {
        if self.recording.load(Ordering::Relaxed) {
            let mut recorded = self.recorded();
            let kept = recorded.entry(connection).or_default();
            if kept.len() < RECORDED_BYTES {
                kept.extend_from_slice(bytes);
            }
        }
    }
}

/// A running origin; it stops when it is dropped.
pub(super) struct Origin {
    pub(super) port: u16,
    pub(super) ledger: Arc<Ledger>,
}

impl Origin {
    pub(super) fn start(script: Script) -> Result<Self, String> {
        let ledger = Arc::new(Ledger::default());
        let say = |error: std::io::Error| format!("the origin did not start: {error}");
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(say)?;
        listener.set_nonblocking(true).map_err(say)?;
        rustix::net::listen(&listener, 4096).map_err(|error| say(error.into()))?;
        let port = listener.local_addr().map_err(say)?.port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(say)?;
        let shared = Arc::clone(&ledger);
        std::thread::spawn(move || runtime.block_on(serve(listener, script, shared)));
        Ok(Self { port, ledger })
    }

    pub(super) fn requests(&self) -> u64 {
        self.ledger.requests.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> u64 {
        self.ledger.open.load(Ordering::Relaxed)
    }

    /// Resets every connection at once, as a killed process does.
    pub(super) fn kill_connections(&self) {
        self.ledger.killed.notify_waiters();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.ledger.killed.notify_waiters();
        self.ledger.stopped.notify_one();
    }
}

async fn serve(listener: std::net::TcpListener, script: Script, ledger: Arc<Ledger>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of descriptors: the next one may have more luck.
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                tokio::spawn(connection(stream, script, Arc::clone(&ledger)));
            }
            () = ledger.stopped.notified() => return,
        }
    }
}

async fn connection(stream: TcpStream, script: Script, ledger: Arc<Ledger>) {
    let number = ledger.opened.fetch_add(1, Ordering::Relaxed);
    ledger.open.fetch_add(1, Ordering::Relaxed);
    let mut connection = Connection { stream, number, script, ledger: &ledger, input: Vec::new() };
    let killed = tokio::select! {
        _ended = connection.answer_all() => false,
        () = ledger.killed.notified() => true,
    };
    if killed {
        // A linger time of 0 closes with a reset.
        let _set = sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO));
    }
    ledger.open.fetch_sub(1, Ordering::Relaxed);
}

struct Connection<'a> {
    stream: TcpStream,
    number: u64,
    script: Script,
    ledger: &'a Ledger,
    input: Vec<u8>,
}

/// The connection is over.
struct Over;

impl Connection<'_> {
    /// Requests one after the other, until either side has enough.
    async fn answer_all(&mut self) -> Result<(), Over> {
        drop(self.stream.set_nodelay(true));
        loop {
            let path = self.request().await?;
            self.answer(&path).await?;
        }
    }

    /// Waits for a request with its whole body; it counts from its head on.
    async fn request(&mut self) -> Result<String, Over> {
        let mut counted = false;
        loop {
            if let Scan::Request { path, whole_bytes } = lenient::scan(&self.input) {
                self.ledger.requests.fetch_add(u64::from(!counted), Ordering::Relaxed);
                counted = true;
                if let Some(whole) = whole_bytes {
                    self.input.drain(..whole.min(self.input.len()));
                    return Ok(path);
                }
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), Over> {
        let had = self.input.len();
        let count = self.stream.read_buf(&mut self.input).await.map_err(|_| Over)?;
        self.ledger.keep(self.number, &self.input[had..]);
        if count == 0 || self.input.len() > LONGEST_REQUEST { Err(Over) } else { Ok(()) }
    }

    async fn answer(&mut self, path: &str) -> Result<(), Over> {
        for step in (self.script)(path).unwrap_or_else(|| ordinary(path)) {
            match step {
                Step::Send(bytes) => self.send(&bytes).await?,
                Step::Repeat(bytes, times) => {
                    for _ in 0..times {
                        self.send(&bytes).await?;
                    }
                }
                Step::Pause(time) => self.pause(time).await?,
                Step::Close => return Err(Over),
            }
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Over> {
        self.stream.write_all(bytes).await.map_err(|_| Over)
    }

    /// Waits, unless the proxy closes the connection meanwhile.
    async fn pause(&mut self, time: Duration) -> Result<(), Over> {
        let mut one = [0];
        let closed = async {
            while !matches!(self.stream.peek(&mut one).await, Ok(0) | Err(_)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = closed => Err(Over),
        }
    }
}

/// What an honest server answers.
fn ordinary(path: &str) -> Vec<Step> {
    match path {
        "/wait" => vec![Step::Pause(WAIT), Step::Send(page(b"late"))],
        "/big" => {
            vec![Step::Send(head(BIG_BYTES)), Step::Repeat(vec![b'x'; PIECE], (BIG_BYTES / PIECE) as u64)]
        }
        _ => vec![Step::Send(page(b"ok"))],
    }
}

/// A whole response.
pub(super) fn page(body: &[u8]) -> Vec<u8> {
    [head(body.len()).as_slice(), body].concat()
}

fn head(bytes: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\n\r\n").into_bytes()
}
