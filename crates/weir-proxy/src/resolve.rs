//! Names of servers, resolved once at start (`init-addr libc`).

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use weir_config::model::ServerAddr;
use weir_net::Address;

use crate::state::{ServerTarget, Shared, admin};

/// Resolves every server that is given by name; one that cannot be is put into maintenance.
pub(crate) fn at_start(shared: &Shared) {
    for proxy in &shared.proxies {
        for server in proxy.servers.load().iter() {
            let ServerAddr::Name(name, port) = &server.config.addr else { continue };
            match lookup(name, *port) {
                Some(ip) => server.addr.store(Arc::new(ServerTarget {
                    address: Some(Address::Ip(ip)),
                    name: Some(name.clone()),
                })),
                None => {
                    server.admin.fetch_or(admin::MAINT_RESOLUTION, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    }
}

/// The first address of a name.
pub(crate) fn lookup(name: &str, port: u16) -> Option<SocketAddr> {
    let found: Vec<SocketAddr> = (name, port).to_socket_addrs().ok()?.collect();
    // Manual, `server`: IPv4 addresses are preferred over IPv6 ones only where resolvers say so; libc's order
    // is taken as it is, but `localhost` without IPv6 listeners is so common that IPv4 goes first.
    found.iter().find(|a| a.is_ipv4()).or(found.first()).copied()
}
