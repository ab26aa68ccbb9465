//! From `bind` lines to listening sockets.
//!
//! Owns which lines a socket is opened for and who else may have opened it already; the socket itself is
//! [`weir_net::listen`]'s.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_config::model::{Bind, BindAddr, Config};
use weir_net::handover::Inheritance;
use weir_net::listen::{BindAddress, Ipv6Scope, ListenOptions, Listener};

use crate::privileges;

/// How long a predecessor may take to answer, so that a dead one does not hold up the start.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(5);

/// The runtime command that hands listening sockets over.
pub(crate) const HAND_OVER: &str = "_getsocks";

/// The lines that listen, those of the command sockets included.
pub(crate) fn binds(config: &Config) -> impl Iterator<Item = &Bind> {
    let proxies = config.proxies.iter().filter(|proxy| !proxy.disabled);
    config
        .global
        .stats_sockets
        .iter()
        .chain(proxies.flat_map(|proxy| &proxy.binds))
        .filter(|bind| !bind.disabled)
}

/// The address to listen on; none for lines whose connections come in another way.
pub(crate) fn address(bind: &Bind) -> Option<BindAddress> {
    match &bind.addr {
        BindAddr::Inet(ip) => Some(BindAddress::Ip(*ip)),
        BindAddr::Unix(path) => Some(BindAddress::Unix(path.clone())),
        BindAddr::Abstract(name) => Some(BindAddress::Abstract { name: name.clone(), padded: true }),
        BindAddr::Fd(number) => Some(BindAddress::Inherited(*number)),
        BindAddr::Sockpair(_) | BindAddr::Reverse(_) => None,
    }
}

/// The socket's options.
pub(crate) fn options(bind: &Bind) -> Result<ListenOptions, String> {
    let unix = &bind.unix;
    Ok(ListenOptions {
        backlog: bind.backlog,
        interface: bind.interface.clone(),
        transparent: bind.transparent,
        fast_open: bind.tfo,
        defer_accept: bind.defer_accept,
        ipv6: match (bind.v6only, bind.v4v6) {
            (true, _) => Ipv6Scope::Ipv6Only,
            (false, true) => Ipv6Scope::Both,
            (false, false) => Ipv6Scope::System,
        },
        max_segment: bind.mss,
        user_timeout: bind.tcp_ut,
        mode: unix.mode,
        uid: unix.user.as_deref().map(privileges::user).transpose()?.or(unix.uid),
        gid: unix.group.as_deref().map(privileges::group).transpose()?.or(unix.gid),
        ..ListenOptions::default()
    })
}

/// A listening socket that a master keeps for its workers.
#[derive(Debug)]
pub(crate) struct Held {
    address: BindAddress,
    interface: Option<String>,
    pub(crate) listener: Listener,
}

/// Opens what a configuration listens on, except what `held` has already.
///
/// Numbered descriptors (`fd@N`) are not opened here: workers inherit them as they are.
pub(crate) fn open_for_workers(
    config: &Config,
    held: &[Rc<Held>],
    inheritance: &mut Inheritance,
) -> Result<Vec<Rc<Held>>, String> {
    let mut open: Vec<Rc<Held>> = Vec::new();
    for bind in binds(config) {
        let Some(address) = address(bind) else { continue };
        if matches!(address, BindAddress::Inherited(_)) {
            continue;
        }
        let same = |old: &&Rc<Held>| old.address == address && old.interface == bind.interface;
        if let Some(old) = held.iter().find(same) {
            open.push(Rc::clone(old));
            continue;
        }
        let listener =
            Listener::bind(&address, &options(bind)?, inheritance).map_err(|error| error.to_string())?;
        open.push(Rc::new(Held { address, interface: bind.interface.clone(), listener }));
    }
    Ok(open)
}

/// Fetches the listening sockets of a running predecessor from its command socket (`-x`).
pub(crate) fn from_predecessor(path: Option<&Path>) -> Result<Inheritance, String> {
    // `-x /dev/null` is how scripts say "none".
    let Some(path) = path.filter(|path| *path != Path::new("/dev/null")) else {
        return Ok(Inheritance::default());
    };
    let fetch = || -> io::Result<Inheritance> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PREDECESSOR_LIMIT))?;
        socket.set_write_timeout(Some(PREDECESSOR_LIMIT))?;
        writeln!(socket, "{HAND_OVER}")?;
        Inheritance::receive(&socket)
    };
    fetch().map_err(|error| {
        format!("cannot take over the listening sockets through {}: {error}", path.display())
    })
}
