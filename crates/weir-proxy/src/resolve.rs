//! Names of servers, resolved once at start (`init-addr libc`).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
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
    found.iter().find(|a| a.is_ipv4()).or_else(|| found.first()).copied()
}

/// Looks a name up without holding the thread's event loop (`do-resolve`).
pub(crate) async fn in_background(host: String, family: u8) -> Option<IpAddr> {
    let lookup = move || -> Option<IpAddr> {
        let found: Vec<SocketAddr> = (host.as_str(), 0).to_socket_addrs().ok()?.collect();
        let wanted = |a: &&SocketAddr| if family == 6 { a.is_ipv6() } else { a.is_ipv4() };
        found.iter().find(wanted).or_else(|| found.first()).map(SocketAddr::ip)
    };
    tokio::task::spawn_blocking(lookup).await.ok().flatten()
}
