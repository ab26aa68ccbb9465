//! Changes to servers at run time: what the commands and the statistics page's form have in common.
//!
//! Owns which bits a wish sets and what follows for servers that track the changed one; balancing and queues
//! follow by themselves.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use weir_config::model::Balance;
use weir_proxy::Shared;
use weir_proxy::state::{Health, ServerState, admin};

/// Longest chain of tracking servers that is followed; the configuration refuses circles.
const MAX_TRACKING_DEPTH: usize = 32;

/// What an administrator wants of a server (`set server state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Ready,
    Drain,
    Maintenance,
}

/// Changes the administrative state.
pub(crate) fn wish(shared: &Shared, server: &Arc<ServerState>, wish: Wish) {
    let (clear, set) = match wish {
        Wish::Ready => (admin::MAINT | admin::MAINT_CONFIG | admin::DRAIN, 0),
        Wish::Drain => (admin::MAINT | admin::MAINT_CONFIG, admin::DRAIN),
        Wish::Maintenance => (0, admin::MAINT),
    };
    administer(shared, server, clear, set, 0);
}

fn administer(shared: &Shared, server: &Arc<ServerState>, clear: u8, set: u8, depth: usize) {
    let before = server.admin.load(Relaxed);
    let after = (before & !clear) | set;
    if before == after {
        return;
    }
    let was_maintained = server.in_maintenance();
    server.admin.store(after, Relaxed);
    if was_maintained && !server.in_maintenance() && server.config.check.is_none() {
        // Nothing else will find out that it is up.
        server.set_health(Health::Up);
    }
    changed(server);
    if was_maintained != server.in_maintenance() && depth < MAX_TRACKING_DEPTH {
        for follower in followers(shared, server) {
            let (clear, set) =
                if server.in_maintenance() { (0, admin::MAINT_TRACKED) } else { (admin::MAINT_TRACKED, 0) };
            administer(shared, &follower, clear, set, depth + 1);
        }
    }
}

/// The servers that track this one.
pub(crate) fn followers(shared: &Shared, server: &ServerState) -> Vec<Arc<ServerState>> {
    let backend = &shared.config.proxies[server.proxy].name;
    let full = format!("{backend}/{}", server.config.name);
    let mut found = Vec::new();
    for (index, proxy) in shared.proxies.iter().enumerate() {
        for other in proxy.servers.load().iter() {
            let Some(tracked) = &other.config.track else { continue };
            if *tracked == full || (index == server.proxy && **tracked == *server.config.name) {
                found.push(Arc::clone(other));
            }
        }
    }
    found
}

/// Forces what the health checks say (`set server health`); tracking servers follow.
pub(crate) fn force_health(shared: &Shared, server: &Arc<ServerState>, health: Health) {
    let up = match health {
        Health::Up => Some(true),
        Health::Down => Some(false),
        Health::Stopping => None,
    };
    shared.force_health(server, up);
}

/// Highest weight.
const MAX_WEIGHT: u32 = 256;

/// A weight as written: absolute, or relative to the configured one.
pub(crate) fn set_weight(
    shared: &Shared,
    server: &Arc<ServerState>,
    written: &str,
) -> Result<(), &'static str> {
    let (digits, relative) = match written.strip_suffix('%') {
        Some(digits) => (digits, true),
        None => (written, false),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return Err("Empty weight string empty or preceded by garbage");
    }
    if digits.starts_with('-') {
        return Err("Relative weight must be positive.");
    }
    let number: u64 = digits.parse().map_err(|_| "Trailing garbage in weight string")?;
    let initial = server.config.weight;
    let weight = match relative {
        true => u32::try_from((u64::from(initial)).saturating_mul(number) / 100).unwrap_or(MAX_WEIGHT),
        false => u32::try_from(number).unwrap_or(u32::MAX),
    };
    let weight = match weight > MAX_WEIGHT {
        true if relative => MAX_WEIGHT,
        true => return Err("Absolute weight can only be between 0 and 256 inclusive."),
        false => weight,
    };
    let balance = &shared.config.proxies[server.proxy].balance;
    let fixed = weight != 0 && weight != initial;
    if fixed && is_static(shared, server.proxy) && !matches!(balance, Balance::First) {
        return Err("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.");
    }
    server.weight.store(weight, Relaxed);
    changed(server);
    Ok(())
}

/// Whether a backend's algorithm places servers once and for all.
pub(crate) fn is_static(shared: &Shared, backend: usize) -> bool {
    let proxy = &shared.config.proxies[backend];
    match proxy.balance {
        Balance::StaticRr => true,
        Balance::Source
        | Balance::Uri { .. }
        | Balance::UrlParam { .. }
        | Balance::Hdr { .. }
        | Balance::RdpCookie { .. }
        | Balance::Hash(_)
        | Balance::LogHash(_) => !proxy.hash.consistent,
        Balance::RoundRobin
        | Balance::LeastConn
        | Balance::First
        | Balance::Random { .. }
        | Balance::Sticky => false,
    }
}

/// Tells the data plane that a server is not what it was.
pub(crate) fn changed(server: &Arc<ServerState>) {
    server.changed();
}

/// Ends maintenance and nothing else (`enable server`).
pub(crate) fn end_maintenance(shared: &Shared, server: &Arc<ServerState>) {
    administer(shared, server, admin::MAINT | admin::MAINT_CONFIG, 0, 0);
}

/// The address is another one: idle connections to the old one are of no use.
pub(crate) fn address_changed(server: &Arc<ServerState>) {
    server.changed();
}

/// Ends what is going on with a server.
pub(crate) fn end_sessions(server: &ServerState) {
    server.shutdown_epoch.fetch_add(1, Relaxed);
}
