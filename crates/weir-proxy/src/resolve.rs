//! Names of servers, resolved at start as `init-addr` says; other names in the background.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use weir_balance::Admin;
use weir_config::model::ServerAddr;
use weir_net::Address;

use crate::saved_state::SavedStates;
use crate::state::{ServerState, ServerTarget, Shared};

/// `init-addr` where the line has none.
const DEFAULT_METHODS: &str = "last,libc";

/// Resolves every server that is given by name.
///
/// # Errors
/// A sentence for each server without an address, unless `init-addr none` lets it start without.
pub(crate) fn at_start(shared: &Shared, saved: &SavedStates) -> Result<(), Vec<String>> {
    let mut known = HashMap::new();
    let mut errors = Vec::new();
    for (state, proxy) in shared.proxies.iter().zip(&shared.config.proxies) {
        // Dynamic cookies are made of addresses.
        state.farm.outdate();
        for server in state.servers.load().iter() {
            let ServerAddr::Name(name, port) = &server.config.addr else { continue };
            if server.config.resolvers.is_some() && name.starts_with('_') {
                // An SRV label: its hosts are found at run time.
                server.addr.store(Arc::new(ServerTarget { address: None, name: None }));
                without_address(server);
                continue;
            }
            let methods = server.config.init_addr.as_deref().unwrap_or(DEFAULT_METHODS);
            let last = saved.of(&proxy.name, &server.config.name).and_then(|saved| saved.addr);
            let ipv6 = server.config.resolve_prefer.as_deref() == Some("ipv6");
            let mut look = |name: &str| {
                *known.entry((name.to_owned(), ipv6)).or_insert_with(|| prefer(name, 0, ipv6).map(|a| a.ip()))
            };
            match first_address(methods, last, || look(name)) {
                Found::Address(ip) => server.addr.store(Arc::new(ServerTarget {
                    address: Some(Address::Ip(SocketAddr::new(ip, *port))),
                    name: Some(name.clone()),
                })),
                Found::Later => without_address(server),
                Found::Nothing => errors.push(format!(
                    "server '{}/{}': could not resolve address '{name}' ('init-addr ...,none' starts without it)",
                    proxy.name, server.config.name
                )),
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// In maintenance until it has an address; at start, where there is nobody to tell yet.
fn without_address(server: &ServerState) {
    server.standing.start_with(server, Admin::RESOLUTION_MAINT);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Address(IpAddr),
    /// `none`: it may come later.
    Later,
    Nothing,
}

/// The first method that works (manual, `init-addr`).
fn first_address(methods: &str, last: Option<IpAddr>, mut libc: impl FnMut() -> Option<IpAddr>) -> Found {
    for method in methods.split(',').map(str::trim) {
        match method {
            "last" => {
                if let Some(last) = last {
                    return Found::Address(last);
                }
            }
            "none" => return Found::Later,
            "libc" => {
                if let Some(ip) = libc() {
                    return Found::Address(ip);
                }
            }
            address => {
                if let Ok(ip) = address.parse() {
                    return Found::Address(ip);
                }
            }
        }
    }
    Found::Nothing
}

/// The first address of a name.
///
/// `localhost` without IPv6 listeners is so common that IPv4 goes first, unless `resolve-prefer` says otherwise.
pub(crate) fn lookup(name: &str, port: u16) -> Option<SocketAddr> {
    prefer(name, port, false)
}

fn prefer(name: &str, port: u16, ipv6: bool) -> Option<SocketAddr> {
    let found: Vec<SocketAddr> = (name, port).to_socket_addrs().ok()?.collect();
    found.iter().find(|a| a.is_ipv6() == ipv6).or_else(|| found.first()).copied()
}

/// Looks a name up as the system does, IPv4 first, without holding the thread's event loop.
pub(crate) async fn in_background(host: String) -> Option<IpAddr> {
    tokio::task::spawn_blocking(move || prefer(&host, 0, false)).await.ok().flatten().map(|found| found.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_in_turn() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let check = |methods: &str, libc: Option<&str>, expected: Found| {
            assert_eq!(first_address(methods, None, || libc.map(ip)), expected, "{methods}");
        };
        check("last,libc", Some("10.0.0.1"), Found::Address(ip("10.0.0.1")));
        check("last,libc", None, Found::Nothing);
        check("libc,none", None, Found::Later);
        check("last,192.0.2.1,libc", Some("10.0.0.1"), Found::Address(ip("192.0.2.1")));
        check("none,libc", Some("10.0.0.1"), Found::Later);
        assert_eq!(first_address("last,libc", Some(ip("10.0.0.9")), || None), Found::Address(ip("10.0.0.9")));
    }
}
