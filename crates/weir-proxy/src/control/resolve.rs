//! Names of servers, resolved at start as `init-addr` says; other names in the background.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use weir_balance::Admin;
use weir_config::model::{InitAddr, IpFamily, Proxy, ServerAddr};
use weir_net::Address;
use weir_rules::Pos;

use crate::control::saved_state::SavedStates;
use crate::state::problem::Problem;
use crate::state::{ServerState, ServerTarget, Shared};

/// Resolves every server that is given by name.  Returns those without an address: errors, unless `init-addr none` (or
/// `-dr`) lets them start without.
pub(crate) fn at_start(shared: &Shared, saved: &SavedStates) -> Vec<Problem> {
    let mut known = HashMap::new();
    let mut found = Vec::new();
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
            let methods = &server.config.init_addr;
            let last = saved.of(&proxy.name, &server.config.name).and_then(|saved| saved.addr);
            let ipv6 = server.config.resolve_prefer == Some(IpFamily::V6);
            let mut look = |name: &str| {
                *known.entry((name.to_owned(), ipv6)).or_insert_with(|| prefer(name, 0, ipv6).map(|a| a.ip()))
            };
            let address = match first_address(methods, last, || look(name)) {
                Found::Nothing if shared.config.global.ignore_unresolved => Found::Later,
                address => address,
            };
            match address {
                Found::Address(ip) => server.addr.store(Arc::new(ServerTarget {
                    address: Some(Address::Ip(SocketAddr::new(ip, *port))),
                    name: Some(name.clone()),
                })),
                Found::Later => {
                    without_address(server);
                    if methods.first() != Some(&InitAddr::None) {
                        found.push(unresolved(proxy, server, name, Problem::notice, ", disabling server"));
                    }
                }
                Found::Nothing => {
                    let way_out = " ('init-addr last,libc,none' starts without it)";
                    found.push(unresolved(proxy, server, name, Problem::error, way_out));
                }
            }
        }
    }
    found
}

fn unresolved(
    proxy: &Proxy,
    server: &ServerState,
    name: &str,
    problem: fn(Pos, String) -> Problem,
    consequence: &str,
) -> Problem {
    let of = format!("server '{}/{}'", proxy.name, server.config.name);
    problem(server.config.pos, format!("{of}: could not resolve address '{name}'{consequence}")).about(name)
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
fn first_address(
    methods: &[InitAddr],
    last: Option<IpAddr>,
    mut libc: impl FnMut() -> Option<IpAddr>,
) -> Found {
    for method in methods {
        let found = match method {
            InitAddr::Last => last,
            InitAddr::Libc => libc(),
            InitAddr::Ip(ip) => Some(*ip),
            InitAddr::None => return Found::Later,
        };
        if let Some(ip) = found {
            return Found::Address(ip);
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
        use InitAddr::{Ip, Last, Libc, None};
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let check = |methods: &[InitAddr], libc: Option<&str>, expected: Found| {
            assert_eq!(first_address(methods, Option::None, || libc.map(ip)), expected, "{methods:?}");
        };
        check(&[Last, Libc], Some("10.0.0.1"), Found::Address(ip("10.0.0.1")));
        check(&[Last, Libc], Option::None, Found::Nothing);
        check(&[Libc, None], Option::None, Found::Later);
        check(&[Last, Ip(ip("192.0.2.1")), Libc], Some("10.0.0.1"), Found::Address(ip("192.0.2.1")));
        check(&[None, Libc], Some("10.0.0.1"), Found::Later);
        let known = Some(ip("10.0.0.9"));
        assert_eq!(first_address(&[Last, Libc], known, || Option::None), Found::Address(ip("10.0.0.9")));
    }
}
