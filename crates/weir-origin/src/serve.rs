//! Listening sockets, threads, and the choice of a protocol on each connection.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use weir_http::h2::Opening;
use weir_net::handover::Inheritance;
use weir_net::listen::{BindAddress, ListenOptions, Listener};
use weir_net::tls::certificate::{CertificateStore, Loaded};
use weir_net::tls::server::{CertificateSource, LineOptions, ServerOptions, TlsServer};
use weir_net::{Address, Stream};

use crate::answer::{Site, standard};
use crate::{h1, h2};

/// Connections on each thread.
const MAX_CONNECTIONS: usize = 50_000;

/// Connections that are accepted in a row before those that are there get their turn; few, so that all threads get some.
const ACCEPTED_AT_ONCE: usize = 4;

/// Bytes read to tell the versions apart.
const FIRST_BYTES: usize = 16 * 1024;

/// Where and how to serve.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Addresses in clear.
    pub listen: Vec<BindAddress>,
    /// Addresses with TLS.
    pub listen_tls: Vec<BindAddress>,
    /// A file with certificate and key; without one, a certificate is made on the spot.
    pub certificate: Option<PathBuf>,
    /// Threads; as many as there are processors when none.
    pub threads: Option<usize>,
}

/// Why it cannot start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    /// Where it listens in clear, with the ports the system chose.
    pub addresses: Vec<Address>,
    /// Where it listens with TLS.
    pub tls_addresses: Vec<Address>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed why.
            thread.join().ok();
        }
    }
}

/// An open socket and what is spoken on it.
#[derive(Clone)]
struct Entry {
    listener: Arc<Listener>,
    tls: Option<Arc<TlsServer>>,
}

/// Opens the sockets and starts the threads.
///
/// # Errors
/// When an address cannot be listened on, the certificate cannot be used, or the system refuses threads.
pub fn start(options: &Options) -> Result<Running, StartError> {
    let tls = match options.listen_tls.is_empty() {
        true => None,
        false => Some(tls_server(options.certificate.as_deref())?),
    };
    let clear = options.listen.iter().map(|address| open(address, None)).collect::<Result<Vec<_>, _>>()?;
    let secure = options.listen_tls.iter().map(|address| open(address, tls.clone()));
    let secure = secure.collect::<Result<Vec<_>, _>>()?;
    let addresses =
        |entries: &[Entry]| entries.iter().map(|entry| entry.listener.address().clone()).collect();
    let (stop, stopped) = watch::channel(false);
    let mut running = Running {
        addresses: addresses(&clear),
        tls_addresses: addresses(&secure),
        stop,
        threads: Vec::new(),
    };
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for number in 0..options.threads.unwrap_or(available).max(1) {
        let entries = [clear.as_slice(), &secure].concat();
        let stopped = stopped.clone();
        let thread = std::thread::Builder::new().name(format!("origin-{number}"));
        let thread = thread.spawn(move || run_thread(&entries, stopped));
        running.threads.push(thread.map_err(|error| StartError(format!("cannot start a thread: {error}")))?);
    }
    Ok(running)
}

fn open(address: &BindAddress, tls: Option<Arc<TlsServer>>) -> Result<Entry, StartError> {
    let listener = Listener::bind(address, &ListenOptions::default(), &mut Inheritance::default());
    let listener = Arc::new(listener.map_err(|error| StartError(error.to_string()))?);
    Ok(Entry { listener, tls })
}

/// TLS with HTTP/2 and HTTP/1.1, with the certificate of a file or one for this machine.
fn tls_server(certificate: Option<&Path>) -> Result<Arc<TlsServer>, StartError> {
    let store = CertificateStore::default();
    let name = certificate.unwrap_or_else(|| Path::new("made on the spot"));
    if certificate.is_none() {
        let loaded =
            self_signed().map_err(|error| StartError(format!("cannot make a certificate: {error}")))?;
        store.insert(name.to_string_lossy().into_owned(), loaded);
    }
    let options = ServerOptions {
        certificates: vec![CertificateSource::Crt(name.to_owned())],
        line: LineOptions { alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()], ..LineOptions::default() },
        ..ServerOptions::default()
    };
    let (server, _) = TlsServer::new(&options, &store).map_err(|error| StartError(error.to_string()))?;
    Ok(server)
}

fn self_signed() -> Result<Loaded, String> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    Loaded::from_pem(pem.as_bytes())
}

fn run_thread(entries: &[Entry], mut stopped: watch::Receiver<bool>) {
    // A thread without an event loop serves nothing; the others do.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    LocalSet::new().block_on(&runtime, async {
        let connections = Rc::new(Cell::new(0));
        let site = standard();
        for entry in entries {
            spawn_local(accept(entry.clone(), Rc::clone(&site), Rc::clone(&connections)));
        }
        // The sender stays until the server stops; without it there is nothing to wait for either.
        stopped.wait_for(|stopped| *stopped).await.ok();
    });
}

async fn accept(entry: Entry, site: Rc<Site>, connections: Rc<Cell<usize>>) {
    let Ok(mut acceptor) = entry.listener.acceptor() else { return };
    let mut batch = Vec::new();
    loop {
        // Accepting pauses by itself after an error, and goes on.
        acceptor.accept_batch(&mut batch, ACCEPTED_AT_ONCE).await.ok();
        for mut accepted in batch.drain(..) {
            if connections.get() >= MAX_CONNECTIONS {
                continue;
            }
            let presence = Presence::new(&connections);
            if let Some(tls) = &entry.tls {
                accepted.stream.start_server_tls(tls, &[]);
            }
            let site = Rc::clone(&site);
            spawn_local(async move {
                // A client that goes away early is its own affair.
                converse(accepted.stream, &*site).await.ok();
                drop(presence);
            });
        }
        tokio::task::yield_now().await;
    }
}

/// Counts a connection in and out.
struct Presence(Rc<Cell<usize>>);

impl Presence {
    fn new(connections: &Rc<Cell<usize>>) -> Self {
        connections.set(connections.get() + 1);
        Self(Rc::clone(connections))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Serves a connection until it ends: HTTP/2 where the client's first bytes or the TLS handshake say so.
///
/// # Errors
/// What the connection ended with, if not in order.
pub async fn converse(mut stream: Stream, site: &Site) -> io::Result<()> {
    let mut input = Vec::new();
    if stream.is_tls() {
        stream.handshake().await?;
        if stream.tls().is_some_and(|info| info.alpn() == Some(b"h2")) {
            return h2::serve(stream, site, input).await;
        }
        return h1::serve(stream, site, input).await;
    }
    input.reserve(FIRST_BYTES);
    while stream.read(&mut input, FIRST_BYTES).await? > 0 {
        match Opening::of(&input) {
            // Boxed: the state of an HTTP/1 connection is far smaller.
            Opening::Preface => return Box::pin(h2::serve(stream, site, input)).await,
            Opening::PrefaceSoFar => {}
            Opening::Other => return h1::serve(stream, site, input).await,
        }
    }
    Ok(())
}
