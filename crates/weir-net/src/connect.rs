//! Opening connections to servers.
//!
//! Owns the socket's options before and while connecting. How long to wait, which address to try and when to
//! try again is left to the caller: dropping the future gives the attempt up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::kernel;
use crate::kernel_buffers::KernelBuffers;
use crate::namespace::{Namespace, new_socket};
use crate::source_ports::SourcePorts;
use crate::stream::{self, Stream};

/// How to open a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectOptions {
    /// Source address; port 0 lets the system choose one per destination.
    pub source: Option<SocketAddr>,
    /// Ports of the source address, in turn.
    pub source_ports: Option<Arc<SourcePorts>>,
    /// The source address is not this machine's (`usesrc`).
    pub transparent: bool,
    /// Only through this network interface.
    pub interface: Option<String>,
    /// In this network namespace.
    pub namespace: Option<Namespace>,
    /// Key of TCP MD5 signatures (`tcp-md5sig`).
    pub md5_key: Option<String>,
    /// TCP Fast Open: the first write travels with the SYN packet (`tfo`).
    pub fast_open: bool,
    /// TCP user timeout (`tcp-ut`).
    pub user_timeout: Option<Duration>,
    /// Congestion control algorithm (`cc`).
    pub congestion: Option<String>,
    /// Sizes of the kernel's buffers.
    pub buffers: KernelBuffers,
    /// Netfilter mark (`set-bc-mark`); without the right to set it, the connection goes unmarked.
    pub mark: Option<u32>,
    /// Type of service or traffic class byte (`set-bc-tos`).
    pub tos: Option<u32>,
    /// Keep-alive probes (`option srvtcpka`).
    pub keepalive: Option<KeepAlive>,
    /// Closing resets the connection (`option nolinger`).
    pub no_linger: bool,
}

/// Keep-alive probes; what is not given stays as the system has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepAlive {
    /// Silence before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Probes without an answer before the connection is given up.
    pub count: Option<u32>,
}

/// Opens a connection. Dropping the future closes the socket.
pub async fn connect(to: &Address, options: &ConnectOptions) -> io::Result<Stream> {
    match to {
        Address::Ip(ip) => connect_tcp(*ip, options).await,
        Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => connect_unix(to, options).await,
    }
}

async fn connect_tcp(to: SocketAddr, options: &ConnectOptions) -> io::Result<Stream> {
    let (Some(source), Some(ports)) = (options.source, &options.source_ports) else {
        return connect_tcp_from(options.source, to, options).await;
    };
    let mut taken = io::ErrorKind::AddrNotAvailable.into();
    for port in ports.tries() {
        match connect_tcp_from(Some(SocketAddr::new(source.ip(), port)), to, options).await {
            Err(error) if SourcePorts::is_taken(&error) => taken = error,
            connected => return connected,
        }
    }
    Err(taken)
}

async fn connect_tcp_from(
    source: Option<SocketAddr>,
    to: SocketAddr,
    options: &ConnectOptions,
) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = new_socket(options.namespace.as_ref(), Domain::for_address(to), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    configure(&socket, to, options)?;
    if let Some(source) = source {
        bind_source(&socket, source, options.transparent)?;
    }
    let in_progress = start(socket.connect(&to.into()))?;
    let tcp = TcpStream::from_std(socket.into())?;
    if in_progress {
        tcp.writable().await?;
        if let Some(error) = tcp.take_error()? {
            return Err(error);
        }
    }
    Ok(Stream::new(stream::Socket::Tcp(tcp)))
}

async fn connect_unix(to: &Address, options: &ConnectOptions) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = new_socket(options.namespace.as_ref(), Domain::UNIX, kind, None)?;
    // A unix socket never connects in the background: a full queue is an error to report at once.
    socket.connect(&to.to_os()?)?;
    Ok(Stream::new(stream::Socket::Unix(UnixStream::from_std(socket.into())?)))
}

/// Whether the attempt goes on in the background.
fn start(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(true),
        Err(error) => Err(error),
    }
}

fn configure(socket: &Socket, to: SocketAddr, options: &ConnectOptions) -> io::Result<()> {
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(mark) = options.mark {
        // Needs CAP_NET_ADMIN: traffic that goes unmarked is better than none.
        let _marked = socket.set_mark(mark);
    }
    if let Some(tos) = options.tos {
        set_tos(socket, to.ip(), tos)?;
    }
    if let Some(timeout) = options.user_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if let Some(algorithm) = &options.congestion {
        socket.set_tcp_congestion(algorithm.as_bytes())?;
    }
    if let Some(key) = &options.md5_key {
        kernel::set_md5_key(socket.as_fd(), to.ip(), key.as_bytes())?;
    }
    options.buffers.set(socket)?;
    if options.fast_open {
        kernel::set_fast_open_connect(socket.as_fd())?;
    }
    if let Some(keepalive) = options.keepalive {
        set_keepalive(socket, keepalive)?;
    }
    if options.no_linger {
        socket.set_linger(Some(Duration::ZERO))?;
    }
    Ok(())
}

fn bind_source(socket: &Socket, source: SocketAddr, transparent: bool) -> io::Result<()> {
    if transparent {
        match source {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
    }
    if source.port() == 0 {
        kernel::set_bind_address_no_port(socket.as_fd())?;
    } else {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&source.into())
}

/// Sets the type of service (IPv4) or traffic class (IPv6) of what is sent from now on.
pub fn set_tos(socket: &impl AsFd, family: IpAddr, tos: u32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match family {
        IpAddr::V4(_) => socket.set_tos_v4(tos),
        IpAddr::V6(_) => socket.set_tclass_v6(tos),
    }
}

/// Sets the netfilter mark of what is sent from now on.
pub fn set_mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    SockRef::from(socket).set_mark(mark)
}

/// Turns on keep-alive probes.
pub fn set_keepalive(socket: &impl AsFd, probes: KeepAlive) -> io::Result<()> {
    let mut keepalive = socket2::TcpKeepalive::new();
    if let Some(idle) = probes.idle {
        keepalive = keepalive.with_time(idle);
    }
    if let Some(interval) = probes.interval {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(count) = probes.count {
        keepalive = keepalive.with_retries(count);
    }
    let socket = SockRef::from(socket);
    socket.set_keepalive(true)?;
    if probes == KeepAlive::default() { Ok(()) } else { socket.set_tcp_keepalive(&keepalive) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = {
            let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            other.local_addr().unwrap()
        };
        let check = |to: Address, options: ConnectOptions, expected: Result<(), io::ErrorKind>| {
            let result = runtime.block_on(connect(&to, &options));
            assert_eq!(result.as_ref().map(|_| ()).map_err(io::Error::kind), expected, "{to}");
            if let (Ok(stream), Some(source)) = (&result, options.source) {
                assert_eq!(stream.local_addr().unwrap().ip(), Some(source.ip()));
            }
        };
        check(Address::Ip(open), ConnectOptions::default(), Ok(()));
        check(Address::Ip(closed), ConnectOptions::default(), Err(io::ErrorKind::ConnectionRefused));
        let source = ConnectOptions {
            source: Some("127.0.0.2:0".parse().unwrap()),
            user_timeout: Some(Duration::from_secs(3)),
            tos: Some(0x10),
            keepalive: Some(KeepAlive { count: Some(3), ..KeepAlive::default() }),
            no_linger: true,
            ..ConnectOptions::default()
        };
        check(Address::Ip(open), source, Ok(()));
        check(
            Address::Unix("/nonexistent/socket".into()),
            ConnectOptions::default(),
            Err(io::ErrorKind::NotFound),
        );
        let nobody = Address::Abstract(b"weir-nobody-listens".to_vec());
        check(nobody, ConnectOptions::default(), Err(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_port_is_taken_once_for_a_destination() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Address::Ip(listener.local_addr().unwrap());
        // Two ports that nobody has.
        let first = (20_000..60_000_u16)
            .step_by(2)
            .find(|port| {
                [*port, port + 1].iter().all(|port| std::net::TcpListener::bind(("127.0.0.3", *port)).is_ok())
            })
            .unwrap();
        let options = ConnectOptions {
            source: Some("127.0.0.3:0".parse().unwrap()),
            source_ports: Some(Arc::new(SourcePorts::new(first, first + 1))),
            ..ConnectOptions::default()
        };
        runtime.block_on(async {
            let mut opened = Vec::new();
            for port in [first, first + 1] {
                let stream = connect(&to, &options).await.unwrap();
                assert_eq!(stream.local_addr().unwrap().socket_addr().unwrap().port(), port);
                opened.push(stream);
            }
            let kind = connect(&to, &options).await.map(drop).map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::AddrNotAvailable));
        });
    }
}
