//! Servers whose names are resolved again and again: a task for each name, and what its answers change.
//!
//! Owns timers, what is held how long, and the log's words; leaves who gets which address to [`super::slots`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use weir_config::model::{IpFamily, ServerAddr};
use weir_net::Address;

use super::ask::{self, Told};
use super::message::{Fault, Service};
use super::slots::{self, Slot};
use super::{Count, Section};
use crate::log::level;
use crate::state::{ServerState, ServerTarget, Shared};
use crate::thread::task::spawn_vital;
use crate::thread::worker::Worker;

/// Shortest time between two resolutions of a name, whatever the configuration says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Hosts of services that are asked for because their addresses were not brought along.
const MAX_HOSTS: usize = 1024;

/// Who gave an address, for the log.
const BY_CACHE: &str = "DNS cache";
const BY_ADDITIONAL: &str = "DNS additional record";

/// Servers of the same name in one section.
struct Group {
    section: Arc<Section>,
    name: String,
    ipv6: bool,
    /// By backend, in the order of the configuration; those added at run time follow.
    backends: RefCell<BTreeMap<usize, Vec<Arc<ServerState>>>>,
    hurry: Arc<Notify>,
    /// All its servers were removed, and its task has ended.
    over: Cell<bool>,
}

/// The groups by section, name and preferred family.
#[derive(Default)]
struct Groups(HashMap<(String, String, bool), Rc<Group>>);

impl Groups {
    /// Puts a server beside those of the same name; its group, and whether that is a new one.
    fn add(&mut self, shared: &Shared, server: Arc<ServerState>) -> Option<(Rc<Group>, bool)> {
        let section = server.config.resolvers.as_ref()?;
        let name = followed_name(&server)?;
        // A section that is not there is the one of a system without name servers.
        let section = shared.dns.section(section)?;
        let ipv6 = prefers_ipv6(&server);
        self.0.retain(|_, group| !group.over.get());
        let mut new = false;
        let group = self.0.entry((section.name().to_owned(), name.clone(), ipv6)).or_insert_with(|| {
            let group = Rc::new(Group {
                section: Arc::clone(section),
                name,
                ipv6,
                backends: RefCell::default(),
                hurry: Arc::default(),
                over: Cell::new(false),
            });
            new = true;
            group
        });
        let group = Rc::clone(group);
        // Set once, here: one whose name is changed later does not hurry.
        let _set = server.resolve_soon.set(Arc::clone(&group.hurry));
        let mut backends = group.backends.borrow_mut();
        let members = backends.entry(server.proxy).or_default();
        members.retain(|member| !member.standing.removed.load(Relaxed) && !Arc::ptr_eq(member, &server));
        members.push(server);
        drop(backends);
        Some((group, new))
    }
}

/// The name that is asked for: an SRV label, or the host that was said last (`set server fqdn`).
fn followed_name(server: &ServerState) -> Option<String> {
    let of_line = match &server.config.addr {
        ServerAddr::Name(name, _) => Some(name.clone()),
        _ => None,
    };
    let said = server.addr.load().name.clone().filter(|_| !server.config.is_service());
    let name = said.or(of_line)?;
    Some(name.trim_end_matches('.').to_ascii_lowercase())
}

/// Starts a task for each name, and one for servers that are added later; only the first thread does.
pub(crate) fn start(worker: &Rc<Worker>) {
    let shared = &worker.shared;
    let mut groups = Groups::default();
    let servers = shared.proxies.iter().flat_map(|state| state.servers.load().to_vec());
    let added: Vec<_> = servers.filter_map(|server| groups.add(shared, server)).collect();
    for (group, _) in added.into_iter().filter(|(_, new)| *new) {
        spawn_vital(watch(Arc::clone(shared), group));
    }
    spawn_vital(admit(Arc::clone(shared), groups));
}

/// Takes in servers that are added at run time, or get another name.
async fn admit(shared: Arc<Shared>, mut groups: Groups) {
    let Some(mut added) = shared.dns.take_added() else { return };
    while let Some(server) = added.recv().await {
        match groups.add(&shared, server) {
            Some((group, true)) => spawn_vital(watch(Arc::clone(&shared), group)),
            Some((group, false)) => group.hurry.notify_one(),
            None => {}
        }
    }
}

async fn watch(shared: Arc<Shared>, group: Rc<Group>) {
    let mut memory = Memory::new(Instant::now());
    let pause = group.section.config.timeout_resolve.max(SHORTEST_PAUSE);
    while !group.is_deserted() {
        match group.is_service() {
            true => services(&shared, &group, &mut memory).await,
            false => addresses(&shared, &group, &mut memory).await,
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = group.hurry.notified() => {}
        }
    }
    group.over.set(true);
}

impl Group {
    /// Manual, section 5.3.1: what starts with an underscore is an SRV label.
    fn is_service(&self) -> bool {
        self.name.starts_with('_')
    }

    /// All its servers were removed, or have another name.
    fn is_deserted(&self) -> bool {
        self.backends.borrow().values().all(|servers| self.members(servers).is_empty())
    }

    /// Its servers that were not removed, and whose name was not changed at run time.
    fn members<'a>(&self, servers: &'a [Arc<ServerState>]) -> Vec<&'a Arc<ServerState>> {
        let keeps_name = |server: &&Arc<ServerState>| {
            let same = |name: &str| name.trim_end_matches('.').eq_ignore_ascii_case(&self.name);
            self.is_service() || server.addr.load().name.as_deref().is_none_or(same)
        };
        let stays = |server: &&Arc<ServerState>| !server.standing.removed.load(Relaxed);
        servers.iter().filter(stays).filter(keeps_name).collect()
    }

    /// `section/server`, as the log names who said something.
    fn name_server(&self, at: usize) -> String {
        format!("{}/{}", self.section.name(), self.section.servers[at].name)
    }
}

/// What was valid, and when.
struct Memory {
    last_valid: Instant,
    seen: Vec<(IpAddr, Instant)>,
    services: Vec<(Service, Instant)>,
    /// When the hosts of services last had addresses.
    hosts: HashMap<String, Instant>,
}

impl Memory {
    fn new(now: Instant) -> Self {
        Self { last_valid: now, seen: Vec::new(), services: Vec::new(), hosts: HashMap::new() }
    }

    /// Takes an answer in; all addresses that count now, the new ones first.
    fn addresses(&mut self, found: Vec<IpAddr>, now: Instant, obsolete: Duration) -> Vec<IpAddr> {
        self.last_valid = now;
        self.seen.retain(|(ip, at)| !found.contains(ip) && now.duration_since(*at) < obsolete);
        self.seen.splice(0..0, found.into_iter().map(|ip| (ip, now)));
        self.seen.iter().map(|(ip, _)| *ip).collect()
    }

    /// The same for services.
    fn services(&mut self, found: Vec<Service>, now: Instant, obsolete: Duration) -> Vec<Service> {
        self.last_valid = now;
        let same = |a: &Service, b: &Service| a.host == b.host && a.port == b.port;
        self.services.retain(|(known, at)| {
            !found.iter().any(|new| same(new, known)) && now.duration_since(*at) < obsolete
        });
        self.services.splice(0..0, found.into_iter().map(|service| (service, now)));
        self.services.iter().map(|(service, _)| service.clone()).collect()
    }
}

/// Why a name does not resolve any more, once a fault outweighs the last valid answer.
fn outweighing(section: &Section, fault: Fault, last_valid: Instant, now: Instant) -> Option<&'static str> {
    let (hold, reason) = ask::hold(section, fault);
    (now.duration_since(last_valid) >= hold).then_some(reason)
}

/// Manual, `resolve-prefer`: IPv6 unless it says otherwise.
fn prefers_ipv6(server: &ServerState) -> bool {
    server.config.resolve_prefer != Some(IpFamily::V4)
}

const NO_ADDRESS: &str = "No IP for server ";
const NO_SERVICE: &str = "entry removed from SRV record";

/// One resolution of a name to addresses.
async fn addresses(shared: &Shared, group: &Group, memory: &mut Memory) {
    let section = &group.section;
    match ask::addresses(section, &group.name, group.ipv6).await {
        Ok(Told { what, by }) => {
            let found = memory.addresses(what, Instant::now(), section.config.hold_obsolete);
            let mut said_by = group.name_server(by);
            for servers in group.backends.borrow().values() {
                let members = group.members(servers);
                let given = slots::share_out(&found, &slots_of(&members));
                for (server, ip) in members.into_iter().zip(given) {
                    if let Some(ip) = ip {
                        let port = port_of(server);
                        if settle(shared, server, None, SocketAddr::new(ip, port), &said_by) {
                            section.count(by, Count::Update);
                        }
                        // The others have it from the first one's question.
                        BY_CACHE.clone_into(&mut said_by);
                    } else {
                        unsettle(shared, server, NO_ADDRESS);
                    }
                }
            }
        }
        Err(fault) => {
            let Some(reason) = outweighing(section, fault, memory.last_valid, Instant::now()) else { return };
            memory.seen.clear();
            let backends = group.backends.borrow();
            for server in backends.values().flat_map(|servers| group.members(servers)) {
                unsettle(shared, server, reason);
            }
        }
    }
}

fn slots_of<'a>(members: &[&'a Arc<ServerState>]) -> Vec<Slot<'a>> {
    let slot = |server: &&'a Arc<ServerState>| Slot {
        current: server.addr.load().ip().map(|addr| addr.ip()),
        ipv6: prefers_ipv6(server),
        networks: &server.config.resolve_net,
        allow_dup_ip: server.config.resolve_allow_dup_ip,
    };
    members.iter().map(slot).collect()
}

/// The port it has, or that of its line while it has no address.
fn port_of(server: &ServerState) -> u16 {
    let of_line = match &server.config.addr {
        ServerAddr::Name(_, port) => *port,
        _ => 0,
    };
    server.addr.load().ip().map_or(of_line, |addr| addr.port())
}

/// One resolution of an SRV label, and of the hosts whose addresses it does not bring along.
async fn services(shared: &Shared, group: &Group, memory: &mut Memory) {
    let section = &group.section;
    let (found, by) = match ask::services(section, &group.name).await {
        Ok(Told { what, by }) => {
            (memory.services(what, Instant::now(), section.config.hold_obsolete), Some(by))
        }
        Err(fault) => {
            if outweighing(section, fault, memory.last_valid, Instant::now()).is_none() {
                return;
            }
            memory.services.clear();
            (Vec::new(), None)
        }
    };
    let hosts = hosts(group, &found, memory).await;
    for servers in group.backends.borrow().values() {
        let members = group.members(servers);
        let held: Vec<_> = members.iter().map(|server| server.addr.load_full()).collect();
        let current: Vec<_> =
            held.iter().map(|target| Some((target.name.as_deref()?, target.ip()?.port()))).collect();
        for (server, at) in members.iter().zip(slots::assign(&found, &current)) {
            let Some(service) = at.and_then(|at| found.get(at)) else {
                unsettle(shared, server, NO_SERVICE);
                continue;
            };
            match place(group, server, service, &hosts) {
                Ok((ip, said_by)) => {
                    if !server.config.resolve_ignore_weight {
                        weigh(server, slots::weight(service.weight));
                    }
                    let to = SocketAddr::new(ip, service.port);
                    let moved = settle(shared, server, Some(&service.host), to, &said_by);
                    if let (true, Some(by)) = (moved, by) {
                        section.count(by, Count::Update);
                    }
                }
                // A host that is not known for the moment keeps the address that it had.
                Err(None) if current_host(server).as_deref() == Some(&service.host) => {}
                Err(why) => unsettle(shared, server, why.unwrap_or(NO_ADDRESS)),
            }
        }
    }
}

/// What name servers said of a host: its addresses, or why it has none, once that counts.
type Host = Result<Told<Vec<IpAddr>>, Option<&'static str>>;

/// Asks for the hosts whose addresses were not brought along, all at once.
async fn hosts(group: &Group, found: &[Service], memory: &mut Memory) -> HashMap<String, Host> {
    let section = &group.section;
    let without = found.iter().filter(|service| service.addresses.is_empty());
    let names: BTreeSet<&String> = without.map(|service| &service.host).collect();
    let mut asked = JoinSet::new();
    for host in names.into_iter().take(MAX_HOSTS) {
        let (section, host, ipv6) = (Arc::clone(section), host.clone(), group.ipv6);
        asked.spawn_local(async move {
            let told = ask::addresses(&section, &host, ipv6).await;
            (host, told)
        });
    }
    let mut hosts = HashMap::new();
    let mut valid = HashMap::new();
    while let Some(done) = asked.join_next().await {
        let Ok((host, told)) = done else { continue };
        let now = Instant::now();
        let last_valid = memory.hosts.get(&host).copied().filter(|_| told.is_err()).unwrap_or(now);
        valid.insert(host.clone(), last_valid);
        let told = told.map_err(|fault| outweighing(section, fault, last_valid, now));
        hosts.insert(host, told);
    }
    memory.hosts = valid;
    hosts
}

/// Where a service is, as a server wants it, and who says so.
fn place(
    group: &Group,
    server: &Arc<ServerState>,
    service: &Service,
    hosts: &HashMap<String, Host>,
) -> Result<(IpAddr, String), Option<&'static str>> {
    let families = &group.section.families;
    let slot = slots_of(&[server]);
    let best = |addresses: &[IpAddr]| {
        let accepted: Vec<IpAddr> =
            addresses.iter().copied().filter(|ip| families.accepts(ip.is_ipv6())).collect();
        slots::share_out(&accepted, &slot).into_iter().flatten().next().ok_or(None)
    };
    if !service.addresses.is_empty() {
        return best(&service.addresses).map(|ip| (ip, BY_ADDITIONAL.to_owned()));
    }
    match hosts.get(&service.host) {
        Some(Ok(told)) => best(&told.what).map(|ip| (ip, group.name_server(told.by))),
        Some(Err(why)) => Err(*why),
        None => Err(None),
    }
}

fn current_host(server: &ServerState) -> Option<String> {
    server.addr.load().name.clone()
}

fn weigh(server: &Arc<ServerState>, weight: u32) {
    if server.weight.swap(weight, Relaxed) != weight {
        server.changed();
    }
}

/// Gives a server its address; true when it is another one than before.
fn settle(shared: &Shared, server: &Arc<ServerState>, host: Option<&str>, to: SocketAddr, by: &str) -> bool {
    let before = server.addr.load_full();
    let name = host.map_or_else(|| before.name.clone(), |host| Some(host.to_owned()));
    let moved = before.ip() != Some(to);
    if moved || name != before.name {
        server.set_target(ServerTarget { address: Some(Address::Ip(to)), name: name.clone() });
    }
    let full_name = shared.full_name(server);
    if before.ip().map(|old| old.ip()) != Some(to.ip()) {
        let old = before.ip().map_or_else(|| "(none)".to_owned(), |old| old.ip().to_string());
        let text = format!("{full_name} changed its IP from {old} to {} by {by}.", to.ip());
        shared.log_of(server, level::NOTICE, text);
    }
    if let Some(host) = host
        && before.name.as_deref() != Some(host)
    {
        let old = before.name.as_deref().unwrap_or("(null)");
        let text = format!("{full_name} changed its FQDN from {old} to {host} by 'SRV record'");
        shared.log_of(server, level::NOTICE, text);
    }
    if shared.resolves_again(server) && by != BY_ADDITIONAL {
        let text = format!("Server {full_name} administratively READY thanks to valid DNS answer.");
        shared.log_of(server, level::NOTICE, text);
    }
    moved
}

/// Takes a server's address away: it is in maintenance until there is one again.
fn unsettle(shared: &Shared, server: &Arc<ServerState>, why: &'static str) {
    let before = server.addr.load_full();
    shared.does_not_resolve(server, why);
    if before.address.is_some() {
        // The name of an SRV record's host goes with its entry.
        let name = before.name.clone().filter(|_| why != NO_SERVICE);
        server.set_target(ServerTarget { address: None, name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_gone_count_for_a_while() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let obsolete = Duration::from_secs(10);
        let mut memory = Memory::new(start);
        let mut check = |seconds, found: &[&str], expected: &[&str]| {
            let ips = |list: &[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
            assert_eq!(memory.addresses(ips(found), at(seconds), obsolete), ips(expected));
        };
        check(0, &["10.0.0.1", "10.0.0.2"], &["10.0.0.1", "10.0.0.2"]);
        check(5, &["10.0.0.2"], &["10.0.0.2", "10.0.0.1"]);
        check(9, &["10.0.0.3"], &["10.0.0.3", "10.0.0.2", "10.0.0.1"]);
        check(10, &["10.0.0.3"], &["10.0.0.3", "10.0.0.2"]);
        check(20, &["10.0.0.3"], &["10.0.0.3"]);
    }
}
