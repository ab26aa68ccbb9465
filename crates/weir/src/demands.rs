//! What a configuration demands of the system that it is to run on, beside what the data plane loads: users and groups,
//! names to listen on, and something to listen on at all.
//!
//! A check and a start ask the same questions here, so that a configuration that is called valid can be served.

use std::collections::HashMap;
use std::sync::Arc;

use weir_config::model::{Bind, Config, Global};
use weir_net::listen::BindAddress;
use weir_proxy::Process;
use weir_proxy::accept::listeners::{Role, binds, find_address};
use weir_proxy::state::problem::{Problem, are_harmless};
use weir_rules::Pos;

use crate::privileges;

/// Everything that is wrong, the data plane's part included.
pub(crate) fn check(config: &Arc<Config>) -> Vec<Problem> {
    let mut found = unmet(config);
    found.extend(Process::check(config));
    found
}

/// The same for a start, which leaves the data plane's part to the process that serves: only when something is wrong it
/// is looked at here, so that all is said at once.
pub(crate) fn check_start(config: Config) -> Result<Config, Vec<Problem>> {
    if are_harmless(&unmet(&config)) { Ok(config) } else { Err(check(&Arc::new(config))) }
}

/// What of this program's own part is not there.
fn unmet(config: &Config) -> Vec<Problem> {
    let mut found = accounts(&config.global);
    let mut places = Vec::new();
    for bind in in_order(config) {
        found.extend(owner(bind));
        match find_address(bind) {
            Ok(address) => places.extend(address.map(|address| (bind, address))),
            Err(problem) => found.push(problem),
        }
    }
    found.extend(clashes(places, config.global.reuseport));
    found
}

/// Whether anybody could ever connect; where nobody can, HAProxy does not start.
pub(crate) fn has_listener(config: &Config) -> bool {
    let datagrams = config.log_forwards.iter().any(|section| !section.dgram_binds.is_empty());
    datagrams || binds(config).next().is_some()
}

/// Every line that listens, those of `global` first: of two that clash the later one is at fault.
fn in_order(config: &Config) -> impl Iterator<Item = &Bind> {
    let sockets = config.global.stats_sockets.iter();
    sockets.chain(binds(config).filter(|(role, _)| *role != Role::Admin).map(|(_, bind)| bind))
}

/// `user` and `group`
fn accounts(global: &Global) -> Vec<Problem> {
    let user = unknown(global.user.as_ref(), global.user_pos, privileges::user);
    let group = unknown(global.group.as_ref(), global.group_pos, privileges::group);
    user.into_iter().chain(group).collect()
}

/// `user` and `group` of a unix socket.
pub(crate) fn owner(bind: &Bind) -> Vec<Problem> {
    let user = unknown(bind.unix.user.as_ref(), bind.pos, privileges::user);
    let group = unknown(bind.unix.group.as_ref(), bind.pos, privileges::group);
    user.into_iter().chain(group).collect()
}

/// A name that is said and that the system does not know.
fn unknown(name: Option<&String>, pos: Pos, find: fn(&str) -> Result<u32, String>) -> Option<Problem> {
    let name = name?;
    Some(Problem::error(pos, find(name).err()?).about(name))
}

/// A socket as far as others get in its way: its port or its abstract name, interface and network namespace.
type Place<'a> = (String, Option<&'a str>, Option<&'a str>);

/// Lines that name the same place.  The kernel shares an address out among sockets that allow it, which two frontends
/// hardly mean; what cannot be shared is an error.
fn clashes(places: Vec<(&Bind, BindAddress)>, reuseport: bool) -> Vec<Problem> {
    let mut known: HashMap<Place<'_>, Vec<(BindAddress, Pos)>> = HashMap::new();
    let mut found = Vec::new();
    for (bind, address) in places {
        let name = match &address {
            BindAddress::Ip(ip) if ip.port() == 0 => continue,
            BindAddress::Ip(ip) => ip.port().to_string(),
            BindAddress::Abstract { .. } => address.to_string(),
            // A path is given to the last one, a descriptor to everybody.
            BindAddress::Unix(_) | BindAddress::Inherited(_) => continue,
        };
        let known = known.entry((name, bind.interface.as_deref(), bind.namespace.as_deref())).or_default();
        let is_shared = matches!(address, BindAddress::Ip(_)) && reuseport;
        if let Some((_, other)) = known.iter().find(|(other, _)| get_in_the_way(other, &address, is_shared)) {
            let what = format!("line {} listens there as well", other.line);
            found.push(match is_shared {
                true => Problem::notice(bind.pos, format!("{what}: connections are shared out")),
                false => Problem::error(bind.pos, what),
            });
        }
        known.push((address, bind.pos));
    }
    found
}

/// Whether two addresses with the same port or name are one; without `SO_REUSEPORT` a wildcard takes them all.
fn get_in_the_way(one: &BindAddress, other: &BindAddress, is_shared: bool) -> bool {
    match (one, other) {
        (BindAddress::Ip(one), BindAddress::Ip(other)) if !is_shared && one.is_ipv4() == other.is_ipv4() => {
            one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified()
        }
        _ => one == other,
    }
}
