//! Listening sockets: from a bind address and its options to accepted streams.
//!
//! Owns opening (or taking over) a listening socket and accepting from it on each thread. One socket per
//! address is shared by all threads, each of which registers a duplicate with its own event loop, so that
//! nothing waiting in the queue is lost when a thread stops or a successor takes the socket over. Which
//! addresses there are and what happens to a connection is left to the caller.

use std::fmt;
use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, Sleep};

use crate::address::Address;
use crate::handover::{self, Inheritance};
use crate::kernel;
use crate::kernel_buffers::KernelBuffers;
use crate::namespace::{Namespace, new_socket};
use crate::stream::{self, Stream};

/// Connections the kernel queues for a listener whose options name no number.
const DEFAULT_BACKLOG: u32 = 1024;

/// Pause after the process or the system ran out of descriptors or memory; connections wait in the kernel's
/// queue meanwhile, where trying again at once would only burn the processor.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Time until it is said again that descriptors or memory ran out.
const EXHAUSTED_REMINDER: Duration = Duration::from_secs(60);

/// Seconds a connection may stay silent before a deferred accept reports it anyway.
const DEFER_ACCEPT_SECONDS: i32 = 1;

/// Pending connections with data in their SYN packet when the options name no backlog.
const FAST_OPEN_QUEUE: i32 = 1024;

/// Consecutive connections that were gone before they could be accepted, after which others get their turn.
const MAX_ABORTED_IN_A_ROW: u32 = 64;

/// The length of a zero-padded abstract name: a unix address's path less its leading zero byte.
const ABSTRACT_NAME_BYTES: usize = 107;

/// One address of a bind line, after port ranges and lists were expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAddress {
    /// An IP address and port; the unspecified address stands for all of that family.
    Ip(SocketAddr),
    /// A unix socket's path.
    Unix(PathBuf),
    /// `abns@name` (padded with zeros to the full length) or `abnsz@name` (not padded).
    Abstract {
        /// The name as written.
        name: Vec<u8>,
        /// Whether it is padded.
        padded: bool,
    },
    /// `fd@number`: a bound descriptor the parent process left open.
    Inherited(RawFd),
}

impl BindAddress {
    /// All addresses of a range of ports, both ends included.
    pub fn range(ip: IpAddr, ports: std::ops::RangeInclusive<u16>) -> impl Iterator<Item = Self> {
        ports.map(move |port| Self::Ip(SocketAddr::new(ip, port)))
    }

    /// The socket's address; none when only the inherited descriptor knows it.
    pub fn address(&self) -> Option<Address> {
        match self {
            Self::Ip(ip) => Some(Address::Ip(*ip)),
            Self::Unix(path) => Some(Address::Unix(path.clone())),
            Self::Abstract { name, padded } => Some(Address::Abstract(abstract_name(name, *padded))),
            Self::Inherited(_) => None,
        }
    }
}

/// An abstract name in full length.
pub(crate) fn abstract_name(name: &[u8], padded: bool) -> Vec<u8> {
    let mut full = name.to_vec();
    if padded && full.len() < ABSTRACT_NAME_BYTES {
        full.resize(ABSTRACT_NAME_BYTES, 0);
    }
    full
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Abstract { name, padded: true } => write!(f, "abns@{}", name.escape_ascii()),
            Self::Abstract { name, padded: false } => write!(f, "abnsz@{}", name.escape_ascii()),
            Self::Inherited(number) => write!(f, "fd@{number}"),
        }
    }
}

/// Whether a socket bound to `::` also takes IPv4 connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ipv6Scope {
    /// As the system is set.
    #[default]
    System,
    /// Both families (`v4v6`).
    Both,
    /// IPv6 alone (`v6only`).
    Ipv6Only,
}

/// The options of a bind line that concern the socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenOptions {
    /// Connections the kernel queues; the default when none.
    pub backlog: Option<u32>,
    /// Only this network interface.
    pub interface: Option<String>,
    /// In this network namespace.
    pub namespace: Option<Namespace>,
    /// Key of TCP MD5 signatures (`tcp-md5sig`).
    pub md5_key: Option<String>,
    /// Bind addresses that are not this machine's (`transparent`).
    pub transparent: bool,
    /// TCP Fast Open (`tfo`).
    pub fast_open: bool,
    /// Accept once data arrived (`defer-accept`).
    pub defer_accept: bool,
    /// `v4v6` and `v6only`.
    pub ipv6: Ipv6Scope,
    /// Maximum segment size; negative ones lower the peer's (`mss`).
    pub max_segment: Option<i32>,
    /// TCP user timeout (`tcp-ut`).
    pub user_timeout: Option<Duration>,
    /// Congestion control algorithm (`cc`).
    pub congestion: Option<String>,
    /// Keep SYN packets for inspection (`tcp-ss`), 1 or 2.
    pub save_syn: Option<i32>,
    /// Sizes of the kernel's buffers of its connections.
    pub buffers: KernelBuffers,
    /// Whether other processes may bind the same address too (all but `noreuseport`).
    pub no_reuse_port: bool,
    /// Access permissions of a unix socket.
    pub mode: Option<u32>,
    /// Owner of a unix socket.
    pub uid: Option<u32>,
    /// Group of a unix socket.
    pub gid: Option<u32>,
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    /// The address of the bind line.
    pub address: BindAddress,
    /// What was being done.
    pub step: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} for [{}]: {}", self.step, self.address, self.source)
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A listening socket, shared by all threads.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
    interface: Option<String>,
}

impl Listener {
    /// Opens a listening socket, or takes over the one of a predecessor with the same address and interface.
    pub fn bind(
        bind: &BindAddress,
        options: &ListenOptions,
        inheritance: &mut Inheritance,
    ) -> Result<Self, ListenError> {
        let fail = |step| move |source| ListenError { address: bind.clone(), step, source };
        let interface = options.interface.clone();
        let socket = match bind.address() {
            None => adopt(bind).map_err(fail("use the inherited socket"))?,
            Some(address) => {
                match inheritance.take(&address, interface.as_deref(), options.namespace.as_ref()) {
                    Some(socket) => Socket::from(socket),
                    None => return Self::open(bind, address, options),
                }
            }
        };
        // The queue's length may have changed in the configuration: listening again adjusts it.
        configure(&socket, options).map_err(fail("set the socket options"))?;
        listen(&socket, options).map_err(fail("listen"))?;
        socket.set_nonblocking(true).map_err(fail("set non-blocking mode"))?;
        let os = socket.local_addr().map_err(fail("read the address"))?;
        Ok(Self { socket, address: handover::final_name(Address::from_os(&os)), interface })
    }

    fn open(bind: &BindAddress, address: Address, options: &ListenOptions) -> Result<Self, ListenError> {
        let fail = |step| move |source| ListenError { address: bind.clone(), step, source };
        let (domain, protocol) = match &address {
            Address::Ip(ip) => (Domain::for_address(*ip), Some(Protocol::TCP)),
            Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => (Domain::UNIX, None),
        };
        let kind = Type::STREAM.cloexec().nonblocking();
        let socket = new_socket(options.namespace.as_ref(), domain, kind, protocol)
            .map_err(fail("create a socket"))?;
        let address = match address {
            Address::Ip(ip) => {
                configure_before_bind(&socket, ip, options).map_err(fail("set the socket options"))?;
                socket.bind(&ip.into()).map_err(fail("bind a socket"))?;
                configure(&socket, options).map_err(fail("set the socket options"))?;
                listen(&socket, options).map_err(fail("listen"))?;
                let os = socket.local_addr().map_err(fail("read the address"))?;
                Address::from_os(&os)
            }
            Address::Unix(path) => {
                listen_unix(&socket, &path, options).map_err(fail("bind a unix socket"))?;
                Address::Unix(path)
            }
            address @ (Address::Abstract(_) | Address::Unnamed) => {
                let os = address.to_os().map_err(fail("use the name"))?;
                socket.bind(&os).map_err(fail("bind a unix socket"))?;
                listen(&socket, options).map_err(fail("listen"))?;
                address
            }
        };
        Ok(Self { socket, address, interface: options.interface.clone() })
    }

    /// The address listened on, with the port the system chose when the bind line said 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The network interface the socket is restricted to.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Registers a duplicate of the socket with the calling thread's event loop.
    pub fn acceptor(&self) -> io::Result<Acceptor> {
        let socket = OwnedFd::from(self.socket.try_clone()?);
        let socket = match self.address {
            Address::Ip(_) => ListeningSocket::Tcp(TcpListener::from_std(socket.into())?),
            Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => {
                ListeningSocket::Unix(UnixListener::from_std(socket.into())?)
            }
        };
        Ok(Acceptor { socket, pause: None, told: None })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn adopt(bind: &BindAddress) -> io::Result<Socket> {
    let BindAddress::Inherited(number) = bind else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a descriptor number"));
    };
    let socket = Socket::from(kernel::adopt_inherited(*number)?);
    if socket.r#type()? != Type::STREAM {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a stream socket"));
    }
    Ok(socket)
}

fn configure_before_bind(socket: &Socket, ip: SocketAddr, options: &ListenOptions) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    if !options.no_reuse_port {
        socket.set_reuse_port(true)?;
    }
    if ip.is_ipv6() {
        match options.ipv6 {
            Ipv6Scope::System => {}
            Ipv6Scope::Both => socket.set_only_v6(false)?,
            Ipv6Scope::Ipv6Only => socket.set_only_v6(true)?,
        }
    }
    if options.transparent {
        match ip {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
    }
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    Ok(())
}

/// Sets what may change over the socket's life. Accepted connections inherit no-delay from the listener,
/// which saves a system call for each of them.
fn configure(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    if socket.domain()? == Domain::UNIX {
        return Ok(());
    }
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.max_segment {
        kernel::set_max_segment(socket.as_fd(), bytes)?;
    }
    if let Some(timeout) = options.user_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if let Some(algorithm) = &options.congestion {
        socket.set_tcp_congestion(algorithm.as_bytes())?;
    }
    if let Some(mode) = options.save_syn {
        kernel::set_save_syn(socket.as_fd(), mode)?;
    }
    if let Some(key) = &options.md5_key {
        kernel::set_md5_key_of_all(socket.as_fd(), socket.domain()? == Domain::IPV6, key.as_bytes())?;
    }
    options.buffers.set(socket)?;
    if options.fast_open {
        let queue =
            options.backlog.map_or(FAST_OPEN_QUEUE, |backlog| i32::try_from(backlog).unwrap_or(i32::MAX));
        kernel::set_fast_open(socket.as_fd(), queue)?;
    }
    if options.defer_accept {
        kernel::set_defer_accept(socket.as_fd(), DEFER_ACCEPT_SECONDS)?;
    }
    Ok(())
}

fn listen(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    let backlog = options.backlog.filter(|backlog| *backlog > 0).unwrap_or(DEFAULT_BACKLOG);
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))
}

/// Listens under a temporary name first and renames it, so that there is never a moment without a socket
/// that accepts under the final name, nor one with the wrong owner.
fn listen_unix(socket: &Socket, path: &Path, options: &ListenOptions) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    if let Ok(existing) = std::fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt;
        if !existing.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"));
        }
    }
    std::fs::remove_file(&temporary).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    socket.bind(&socket2::SockAddr::unix(&temporary)?)?;
    let finished = (|| {
        if options.uid.is_some() || options.gid.is_some() {
            std::os::unix::fs::chown(&temporary, options.uid, options.gid)?;
        }
        if let Some(mode) = options.mode {
            std::fs::set_permissions(&temporary, Permissions::from_mode(mode))?;
        }
        listen(socket, options)?;
        std::fs::rename(&temporary, path)
    })();
    if finished.is_err() {
        // The error that is reported matters more than a left-over file.
        std::fs::remove_file(&temporary).ok();
    }
    finished
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection and who opened it.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The peer's address.
    pub peer: Address,
}

/// Accepting has to pause: the process or the system has no descriptor or memory left.
///
/// Reported once until a connection is accepted again, for a message in the log; accepting resumes by itself.
#[derive(Debug)]
pub struct AcceptError(pub io::Error);

impl fmt::Display for AcceptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.0.raw_os_error() {
            Some(libc::EMFILE) => {
                "this process has no file descriptor left: raise its limit or lower maxconn"
            }
            Some(libc::ENFILE) => "the system has no file descriptor left",
            _ => "the system has no memory left for connections",
        };
        write!(f, "new connections have to wait: {reason} ({})", self.0)
    }
}

impl std::error::Error for AcceptError {}

/// One thread's end of a listening socket. Dropping it leaves waiting connections to the other threads.
pub struct Acceptor {
    socket: ListeningSocket,
    pause: Option<Pin<Box<Sleep>>>,
    /// When it was last said that something is exhausted.
    told: Option<Instant>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("paused", &self.pause.is_some()).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// The next connection, with no-delay set.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Accepted, AcceptError>> {
        for _ in 0..MAX_ABORTED_IN_A_ROW {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let error = match ready!(self.socket.poll_accept(cx)) {
                Ok(accepted) => return Poll::Ready(Ok(accepted)),
                Err(error) => error,
            };
            if !is_exhaustion(&error) {
                // The connection was gone before it was accepted (accept(2) lists these errors); the next
                // one may be fine.
                continue;
            }
            self.pause = Some(Box::pin(tokio::time::sleep(EXHAUSTED_PAUSE)));
            // At the limit each connection that ends makes room for one, and the next is too many again.
            let now = Instant::now();
            if self.told.is_none_or(|told| now - told >= EXHAUSTED_REMINDER) {
                self.told = Some(now);
                return Poll::Ready(Err(AcceptError(error)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next connection.
    pub async fn accept(&mut self) -> Result<Accepted, AcceptError> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Waits for a connection and appends it and those behind it to `out`, at most `max`, so that a burst
    /// of connections leaves room for the connections there are already. What is in `out` counts after an
    /// error too.
    pub async fn accept_batch(&mut self, out: &mut Vec<Accepted>, max: usize) -> Result<(), AcceptError> {
        out.push(self.accept().await?);
        for _ in 1..max {
            let next = std::future::poll_fn(|cx| Poll::Ready(self.poll_accept(cx))).await;
            match next {
                Poll::Ready(Ok(accepted)) => out.push(accepted),
                // The pause is set and its error will not be repeated: hand out what there is first.
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(())
    }
}

impl ListeningSocket {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        Poll::Ready(Ok(match self {
            Self::Tcp(listener) => {
                let (socket, peer) = ready!(listener.poll_accept(cx))?;
                Accepted { stream: Stream::new(stream::Socket::Tcp(socket)), peer: Address::Ip(peer) }
            }
            Self::Unix(listener) => {
                let (socket, peer) = ready!(listener.poll_accept(cx))?;
                let peer = peer.as_pathname().map_or(Address::Unnamed, |path| Address::Unix(path.into()));
                Accepted { stream: Stream::new(stream::Socket::Unix(socket)), peer }
            }
        }))
    }
}

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListeningSocket::Tcp(listener) => listener.as_fd(),
            ListeningSocket::Unix(listener) => listener.as_fd(),
        }
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Whether a descriptor is a socket in the listening state.
pub(crate) fn is_listening(socket: BorrowedFd<'_>) -> bool {
    SockRef::from(&socket).is_listener().unwrap_or(false)
}

/// A datagram socket; a process that goes and its successor may both have the address.
pub fn bind_datagrams(
    address: SocketAddr,
    interface: Option<&str>,
    namespace: Option<&Namespace>,
    buffers: &KernelBuffers,
) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.cloexec().nonblocking();
    let socket = new_socket(namespace, Domain::for_address(address), kind, None)?;
    socket.set_reuse_port(true)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    buffers.set_on_datagrams(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-net-{}-{name}", std::process::id()))
    }

    fn open(bind: &BindAddress, options: &ListenOptions) -> Listener {
        Listener::bind(bind, options, &mut Inheritance::default()).unwrap()
    }

    #[test]
    fn every_kind_of_address_accepts() {
        let path = scratch("every.sock");
        let check = |bind: BindAddress, options: ListenOptions| {
            let runtime = runtime();
            let _guard = runtime.enter();
            let listener = open(&bind, &options);
            let address = match listener.address() {
                Address::Ip(ip) if ip.ip().is_unspecified() && ip.is_ipv6() => {
                    Address::Ip(SocketAddr::new("::1".parse().unwrap(), ip.port()))
                }
                address => address.clone(),
            };
            let mut acceptor = listener.acceptor().unwrap();
            runtime.block_on(async {
                let options = crate::connect::ConnectOptions::default();
                let mut client = crate::connect::connect(&address, &options).await.unwrap();
                let mut server = acceptor.accept().await.unwrap();
                assert_eq!(server.peer.ip(), client.local_addr().unwrap().ip());
                server.stream.write_all(b"hello").await.unwrap();
                server.stream.shutdown_write().await.unwrap();
                let mut buf = Vec::new();
                while client.read(&mut buf, 4096).await.unwrap() > 0 {}
                assert_eq!(buf, b"hello");
                if let Address::Ip(_) = address {
                    assert!(SockRef::from(&server.stream).tcp_nodelay().unwrap(), "inherited");
                }
            });
        };
        check(BindAddress::Ip("127.0.0.1:0".parse().unwrap()), ListenOptions::default());
        let all = ListenOptions {
            backlog: Some(16),
            fast_open: true,
            max_segment: Some(1300),
            user_timeout: Some(Duration::from_secs(5)),
            save_syn: Some(1),
            buffers: KernelBuffers { receive: Some(65_536), send: Some(65_536), unsent: Some(16_384) },
            ..ListenOptions::default()
        };
        check(BindAddress::Ip("127.0.0.1:0".parse().unwrap()), all);
        let v6 = ListenOptions { ipv6: Ipv6Scope::Ipv6Only, ..ListenOptions::default() };
        check(BindAddress::Ip("[::]:0".parse().unwrap()), v6);
        let mode = ListenOptions { mode: Some(0o600), ..ListenOptions::default() };
        check(BindAddress::Unix(path.clone()), mode);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        check(BindAddress::Unix(path.clone()), ListenOptions::default());
        let name = format!("weir-{}", std::process::id()).into_bytes();
        check(BindAddress::Abstract { name: name.clone(), padded: true }, ListenOptions::default());
        check(BindAddress::Abstract { name, padded: false }, ListenOptions::default());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_not_replaced() {
        let path = scratch("file");
        std::fs::write(&path, "precious").unwrap();
        let bind = BindAddress::Unix(path.clone());
        let error =
            Listener::bind(&bind, &ListenOptions::default(), &mut Inheritance::default()).unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_batch_is_bounded_and_nothing_is_lost_between_threads_ends() {
        let runtime = runtime();
        let _guard = runtime.enter();
        let listener = open(&BindAddress::Ip("127.0.0.1:0".parse().unwrap()), &ListenOptions::default());
        let mut one = listener.acceptor().unwrap();
        let mut other = listener.acceptor().unwrap();
        let Address::Ip(ip) = *listener.address() else { unreachable!() };
        let clients: Vec<_> = (0..5).map(|_| std::net::TcpStream::connect(ip).unwrap()).collect();
        runtime.block_on(async {
            let mut batch = Vec::new();
            one.accept_batch(&mut batch, 3).await.unwrap();
            assert_eq!(batch.len(), 3);
            drop(one);
            other.accept_batch(&mut batch, 3).await.unwrap();
            assert_eq!(batch.len(), clients.len());
        });
    }

    #[test]
    fn a_port_range_is_one_address_each() {
        let ports: Vec<_> = BindAddress::range("127.0.0.1".parse().unwrap(), 2000..=2002).collect();
        assert_eq!(ports.len(), 3);
        assert_eq!(ports[2].to_string(), "127.0.0.1:2002");
    }
}
