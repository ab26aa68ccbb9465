//! From bind lines to listening sockets, new or taken over from a predecessor.

use std::sync::Arc;

use weir_config::model::{Bind, BindAddr, Config, Global, SocketBuffers};
use weir_net::handover::Inheritance;
use weir_net::kernel_buffers::KernelBuffers;
use weir_net::listen::{BindAddress, Ipv6Scope, ListenOptions, Listener};
use weir_net::namespace::Namespace;

use crate::accept::queue::AcceptQueues;
use crate::control::resolve;
use crate::state::problem::Problem;

/// A listening socket and the bind line it belongs to.
#[derive(Clone, Debug)]
pub struct Listening {
    /// What it is for.
    pub role: Role,
    /// The bind line.
    pub bind: Bind,
    /// The socket.
    pub listener: Arc<Listener>,
    /// How its connections are shared out among threads.
    pub queues: Arc<AcceptQueues>,
}

/// What connections on a socket are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Traffic of the frontend with this index.
    Frontend(usize),
    /// Runtime commands (`stats socket`).
    Admin,
    /// Peers of the section with this index.
    Peers(usize),
    /// Messages for the `log-forward` section with this index.
    LogForward(usize),
}

/// Opens every listening socket of a configuration.
///
/// # Errors
/// All addresses that cannot be listened on.
pub fn bind_all(config: &Config, inheritance: &mut Inheritance) -> Result<Vec<Listening>, Vec<Problem>> {
    let mut listening = Vec::new();
    let mut errors = Vec::new();
    for (role, bind) in binds(config) {
        let address = match find_address(bind) {
            Ok(Some(address)) => address,
            Ok(None) => continue,
            Err(problem) => {
                errors.push(problem);
                continue;
            }
        };
        match Listener::bind(&address, &options_of(bind, &config.global), inheritance) {
            Ok(listener) => {
                listening.push(Listening {
                    role,
                    bind: bind.clone(),
                    listener: Arc::new(listener),
                    queues: Arc::default(),
                });
            }
            Err(error) => errors.push(Problem::error(bind.pos, error.to_string())),
        }
    }
    if errors.is_empty() { Ok(listening) } else { Err(errors) }
}

/// Every line that listens for connections, and what for.
pub fn binds(config: &Config) -> impl Iterator<Item = (Role, &Bind)> {
    let frontends = config.proxies.iter().enumerate().filter(|(_, proxy)| proxy.frontend && !proxy.disabled);
    let frontends = frontends.map(|(at, proxy)| (Role::Frontend(at), &proxy.binds));
    let admin = std::iter::once((Role::Admin, &config.global.stats_sockets));
    let peers = config.peers.values().enumerate().filter(|(_, section)| !section.disabled);
    let peers = peers.map(|(at, section)| (Role::Peers(at), &section.binds));
    let forwards = config.log_forwards.iter().enumerate();
    let forwards = forwards.map(|(at, section)| (Role::LogForward(at), &section.binds));
    let sections = frontends.chain(admin).chain(peers).chain(forwards);
    sections.flat_map(|(role, binds)| binds.iter().map(move |bind| (role, bind)))
}

/// The address a bind line listens on, like [`address_of`].
///
/// # Errors
/// A name that cannot be resolved.
pub fn find_address(bind: &Bind) -> Result<Option<BindAddress>, Problem> {
    match (address_of(&bind.addr), &bind.addr) {
        (None, BindAddr::Name(host, _)) => {
            let message = format!("'bind': could not resolve address '{host}'");
            Err(Problem::error(bind.pos, message).about(host))
        }
        (address, _) => Ok(address),
    }
}

/// The address a bind line listens on; none when its connections come in another way.
#[must_use]
pub fn address_of(addr: &BindAddr) -> Option<BindAddress> {
    match addr {
        BindAddr::Inet(address) => Some(BindAddress::Ip(*address)),
        BindAddr::Unix(path) => Some(BindAddress::Unix(path.clone())),
        BindAddr::Abstract(name) => Some(abstract_name(name)),
        BindAddr::Fd(number) => Some(BindAddress::Inherited(*number)),
        BindAddr::Name(host, port) => resolve::lookup(host, *port).map(BindAddress::Ip),
        BindAddr::Reverse(_) => None,
    }
}

/// An abstract name as it is written: padded to the full length (`abns@`), unless a zero byte ends it (`abnsz@`).
pub(crate) fn abstract_name(written: &[u8]) -> BindAddress {
    match written.strip_suffix(b"\0") {
        Some(name) => BindAddress::Abstract { name: name.to_vec(), padded: false },
        None => BindAddress::Abstract { name: written.to_vec(), padded: true },
    }
}

/// The sizes that `tune.rcvbuf`, `tune.sndbuf` and `tune.notsent-lowat` say.
pub(crate) fn kernel_buffers(sizes: SocketBuffers) -> KernelBuffers {
    KernelBuffers { receive: sizes.receive, send: sizes.send, unsent: sizes.unsent }
}

/// The options of a bind line's socket.
#[must_use]
pub fn options_of(bind: &Bind, global: &Global) -> ListenOptions {
    ListenOptions {
        backlog: bind.backlog,
        interface: bind.interface.clone(),
        md5_key: bind.md5_key.clone(),
        namespace: bind.namespace.as_deref().map(Namespace::named),
        transparent: bind.transparent,
        fast_open: bind.tfo,
        defer_accept: bind.defer_accept,
        ipv6: match (bind.v4v6, bind.v6only) {
            (true, _) => Ipv6Scope::Both,
            (_, true) => Ipv6Scope::Ipv6Only,
            _ => Ipv6Scope::System,
        },
        max_segment: bind.mss,
        user_timeout: bind.tcp_ut,
        congestion: bind.congestion.clone(),
        save_syn: bind.save_syn,
        buffers: kernel_buffers(global.tune.client_sockets),
        no_reuse_port: !global.reuseport,
        mode: bind.unix.mode,
        uid: bind.unix.uid,
        gid: bind.unix.gid,
    }
}
