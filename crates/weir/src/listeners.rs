//! From `bind` lines to listening sockets.
//!
//! Owns which lines a socket is opened for and who else may have opened it already; the socket itself is
//! [`weir_net::listen`]'s.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_config::model::Config;
use weir_net::handover::Inheritance;
use weir_net::listen::{BindAddress, Listener};
use weir_proxy::accept::listeners::{Listening, Role, address_of, binds, options_of};

/// How long a predecessor may take to answer, so that a dead one does not hold up the start.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(5);

/// The runtime command that hands listening sockets over.
pub(crate) const HAND_OVER: &str = "_getsocks";

/// A listening socket that a master keeps for its workers.
#[derive(Debug)]
pub(crate) struct Held {
    address: BindAddress,
    interface: Option<String>,
    pub(crate) listener: Listener,
}

/// Opens what a configuration listens on, except what `held` has already.
///
/// Numbered descriptors (`fd@N`) are not opened here: workers inherit them as they are.  What peers and log-forward
/// sections listen on is each worker's own.
pub(crate) fn open_for_workers(
    config: &Config,
    held: &[Rc<Held>],
    inheritance: &mut Inheritance,
) -> Result<Vec<Rc<Held>>, String> {
    let mut open: Vec<Rc<Held>> = Vec::new();
    let kept = binds(config).filter(|(role, _)| matches!(role, Role::Frontend(_) | Role::Admin));
    for (_, bind) in kept {
        let Some(address) = address_of(&bind.addr) else { continue };
        if matches!(address, BindAddress::Inherited(_)) {
            continue;
        }
        let same = |old: &&Rc<Held>| old.address == address && old.interface == bind.interface;
        if let Some(old) = held.iter().find(same) {
            open.push(Rc::clone(old));
            continue;
        }
        let listener = Listener::bind(&address, &options_of(bind, &config.global), inheritance)
            .map_err(|error| error.to_string())?;
        open.push(Rc::new(Held { address, interface: bind.interface.clone(), listener }));
    }
    Ok(open)
}

/// Addresses that one line of [`told`] has; a range of ports has thousands.
const MAX_TOLD: usize = 8;

/// What is said of the sockets of a start: a line for each section that has any.
pub(crate) fn told(config: &Config, open: &[Listening]) -> Vec<String> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for one in open {
        let name = section(config, one.role);
        let tls = if one.bind.ssl.is_some() { " (TLS)" } else { "" };
        let address = format!("{}{tls}", one.listener.address());
        match sections.iter_mut().find(|(known, _)| *known == name) {
            Some((_, addresses)) => addresses.push(address),
            None => sections.push((name, vec![address])),
        }
    }
    let line = |(name, addresses): (String, Vec<String>)| {
        let more = addresses.len().saturating_sub(MAX_TOLD);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let first: Vec<_> = addresses.into_iter().take(MAX_TOLD).collect();
        format!("{name} listens on {}{rest}.", first.join(", "))
    };
    sections.into_iter().map(line).collect()
}

fn section(config: &Config, role: Role) -> String {
    match role {
        Role::Frontend(at) => config.proxies.get(at).map_or_else(String::new, |proxy| {
            let kind = if proxy.backend { "Proxy" } else { "Frontend" };
            format!("{kind} {}", proxy.name)
        }),
        Role::Admin => "Stats socket".to_owned(),
        Role::Peers(at) => {
            format!("Peers {}", config.peers.values().nth(at).map_or("", |section| &section.name))
        }
        Role::LogForward(at) => {
            format!("Log-forward {}", config.log_forwards.get(at).map_or("", |section| &section.name))
        }
    }
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
        // In one piece: the other side looks for the whole word.
        socket.write_all(format!("{HAND_OVER}\n").as_bytes())?;
        Inheritance::receive(&socket)
    };
    fetch().map_err(|error| {
        format!("cannot take over the listening sockets through {}: {error}", path.display())
    })
}
