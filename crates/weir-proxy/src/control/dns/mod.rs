//! Names resolved while running: `resolvers` sections, the servers that use them, and `do-resolve`.
//!
//! ```text
//! watch (one task a name) > ask (sockets) > message (bytes)
//!                         > slots (who gets what) > the server's target, state and log
//! ```
//! Owns the sections with their counters and what `do-resolve` remembers; the first thread runs the tasks.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustls::crypto::SecureRandom;
use tokio::sync::{Semaphore, mpsc};
use weir_config::model::{AcceptFamily, Config, Resolvers};

use message::{Answer, Fault, Kind};

use crate::control::certificates::locked;
use crate::state::ServerState;

mod ask;
pub mod message;
mod slots;
mod watch;

pub(crate) use watch::start;

/// The system's list of name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Longest `/etc/resolv.conf` that is read.
const MAX_RESOLV_CONF_BYTES: u64 = 64 * 1024;

/// Port of DNS.
const DNS_PORT: u16 = 53;

/// Name of the section that is always there.
const DEFAULT_SECTION: &str = "default";

/// Questions of a section that are open at once; further ones wait.
const MAX_OPEN_QUESTIONS: usize = 512;

/// Names that `do-resolve` remembers for a section; further ones are asked for each time.
const MAX_REMEMBERED_NAMES: usize = 4096;

/// Longest name (RFC 1035 section 2.3.4), in text.
const MAX_NAME_BYTES: usize = 253;

/// How long the look for a route to IPv6 addresses counts (manual, `dns-accept-family`).
const ROUTE_PERIOD: Duration = Duration::from_secs(30);

/// Servers added at run time that wait to be resolved at once; with more, the last ones keep no address.
const MAX_ADDED: usize = 1024;

/// The `resolvers` sections, and the way to them for servers that are added at run time.
pub struct Directory {
    sections: Vec<Arc<Section>>,
    add: mpsc::Sender<Arc<ServerState>>,
    /// Taken by the first thread when it starts.
    added: Mutex<Option<mpsc::Receiver<Arc<ServerState>>>>,
}

/// A `resolvers` section.
pub struct Section {
    pub(crate) config: Resolvers,
    /// Its name servers, those of the system included.
    pub servers: Vec<NameServer>,
    families: Families,
    slots: Semaphore,
    remembered: Mutex<HashMap<(String, bool), Remembered>>,
}

/// A name server.
pub struct NameServer {
    /// Its name.
    pub name: String,
    addr: SocketAddr,
    tcp: bool,
    counts: [AtomicU64; COUNTS.len()],
}

/// What is counted for a name server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
enum Count {
    Sent,
    SendError,
    Valid,
    Update,
    Cname,
    CnameError,
    AnyError,
    Nx,
    Timeout,
    Refused,
    Other,
    Invalid,
    TooBig,
    Truncated,
}

/// Names of the counters, as `show resolvers` and the statistics tell them: they differ in one.
///
/// A question's socket is closed with its first valid answer, so that nothing is ever seen to be outdated.
pub const COUNTS: [(&str, &str); 15] = [
    ("sent", "sent"),
    ("snd_error", "send_error"),
    ("valid", "valid"),
    ("update", "update"),
    ("cname", "cname"),
    ("cname_error", "cname_error"),
    ("any_err", "any_err"),
    ("nx", "nx"),
    ("timeout", "timeout"),
    ("refused", "refused"),
    ("other", "other"),
    ("invalid", "invalid"),
    ("too_big", "too_big"),
    ("truncated", "truncated"),
    ("outdated", "outdated"),
];

impl NameServer {
    fn new(name: String, addr: SocketAddr, tcp: bool) -> Self {
        Self { name, addr, tcp, counts: Default::default() }
    }

    /// Its counters, in the order of [`COUNTS`].
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.iter().map(|count| count.load(Relaxed))
    }
}

impl Directory {
    /// The sections of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let families = config.global.dns_accept_family;
        let mut sections: Vec<_> =
            config.resolvers.values().map(|section| Section::new(section.clone(), families)).collect();
        if !config.resolvers.contains_key(DEFAULT_SECTION) {
            // Manual, section 5.3.2: no error when there is nothing to make it of.
            let section = Section::new(Resolvers::of_system(DEFAULT_SECTION), families);
            sections.extend((!section.servers.is_empty()).then_some(section));
        }
        let (add, added) = mpsc::channel(MAX_ADDED);
        let sections = sections.into_iter().map(Arc::new).collect();
        Self { sections, add, added: Mutex::new(Some(added)) }
    }

    /// Resolves the name of a server that was added or renamed at run time, if it has one, from now on.
    pub fn follow(&self, server: &Arc<ServerState>) {
        if server.config.resolvers.is_some() {
            let _queued = self.add.try_send(Arc::clone(server));
        }
    }

    fn take_added(&self) -> Option<mpsc::Receiver<Arc<ServerState>>> {
        locked(&self.added).take()
    }

    /// The section of a name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Arc<Section>> {
        self.sections.iter().find(|section| section.name() == name)
    }

    /// All sections.
    pub fn sections(&self) -> impl Iterator<Item = &Arc<Section>> {
        self.sections.iter()
    }
}

impl Section {
    fn new(config: Resolvers, families: AcceptFamily) -> Self {
        let listed = config.nameservers.iter();
        let mut servers: Vec<NameServer> =
            listed.map(|server| NameServer::new(server.name.clone(), server.addr, server.tcp)).collect();
        if config.parse_resolv_conf {
            for ip in of_system(&read_resolv_conf()) {
                if servers.iter().all(|server| server.addr.ip() != ip) {
                    servers.push(NameServer::new(ip.to_string(), SocketAddr::new(ip, DNS_PORT), false));
                }
            }
        }
        Self {
            config,
            servers,
            families: Families(families),
            slots: Semaphore::new(MAX_OPEN_QUESTIONS),
            remembered: Mutex::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    fn count(&self, at: usize, what: Count) {
        self.servers[at].counts[what as usize].fetch_add(1, Relaxed);
    }

    fn count_outcome(&self, at: usize, outcome: &Result<Answer, Fault>) {
        let what = match outcome {
            Ok(Answer::Addresses { alias: true, .. }) => {
                self.count(at, Count::Cname);
                Count::Valid
            }
            Ok(_) => Count::Valid,
            Err(Fault::NotOurs | Fault::Invalid) => Count::Invalid,
            Err(Fault::TooBig) => Count::TooBig,
            Err(Fault::Truncated) => Count::Truncated,
            Err(Fault::Nx) => Count::Nx,
            Err(Fault::Refused) => Count::Refused,
            Err(Fault::Empty) => Count::AnyError,
            Err(Fault::Alias) => Count::CnameError,
            Err(Fault::Other) => Count::Other,
            Err(Fault::Timeout) => Count::Timeout,
            Err(Fault::Unreachable) => Count::SendError,
        };
        self.count(at, what);
    }

    /// An address of a name for `do-resolve`, remembered for `hold valid`.
    pub(crate) async fn resolve(self: &Arc<Self>, name: &str, ipv6: bool) -> Option<IpAddr> {
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        let key = (name.trim_end_matches('.').to_ascii_lowercase(), ipv6);
        if let Some(known) = self.remembered().get(&key).filter(|known| known.is_fresh()) {
            return known.next();
        }
        let found = ask::addresses(self, &key.0, ipv6).await.ok()?.what;
        let known =
            Remembered { found, until: Instant::now() + self.config.hold_valid, turn: AtomicUsize::new(0) };
        let first = known.next();
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED_NAMES {
            remembered.retain(|_, known| known.is_fresh());
        }
        if remembered.len() < MAX_REMEMBERED_NAMES {
            remembered.insert(key, known);
        }
        first
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<(String, bool), Remembered>> {
        locked(&self.remembered)
    }
}

/// What `do-resolve` was told of a name.
struct Remembered {
    found: Vec<IpAddr>,
    until: Instant,
    turn: AtomicUsize,
}

impl Remembered {
    fn is_fresh(&self) -> bool {
        Instant::now() < self.until
    }

    /// Its addresses in turn.
    fn next(&self) -> Option<IpAddr> {
        let turn = self.turn.fetch_add(1, Relaxed);
        self.found.get(turn % self.found.len().max(1)).copied()
    }
}

/// Families that are asked for.
struct Families(AcceptFamily);

impl Families {
    /// Kinds of questions, the preferred one first.
    fn kinds(&self, ipv6: bool) -> impl Iterator<Item = Kind> + '_ {
        let order = if ipv6 { [Kind::Aaaa, Kind::A] } else { [Kind::A, Kind::Aaaa] };
        order.into_iter().filter(|kind| self.accepts(*kind == Kind::Aaaa))
    }

    fn accepts(&self, ipv6: bool) -> bool {
        match self.0 {
            AcceptFamily::V4 => !ipv6,
            AcceptFamily::V6 => ipv6,
            AcceptFamily::Both => true,
            AcceptFamily::Auto => !ipv6 || has_ipv6_route(),
        }
    }
}

/// Whether the system would know where to send packets to IPv6 addresses; nothing is sent.
fn has_ipv6_route() -> bool {
    static LAST: Mutex<Option<(Instant, bool)>> = Mutex::new(None);
    let mut last = locked(&LAST);
    if let Some((at, found)) = *last
        && at.elapsed() < ROUTE_PERIOD
    {
        return found;
    }
    // RFC 3849: an address of documentation is as far away as any.
    let route = UdpSocket::bind("[::]:0").and_then(|socket| socket.connect("[2001:db8::1]:53"));
    *last = Some((Instant::now(), route.is_ok()));
    route.is_ok()
}

/// A number that nobody can guess (RFC 5452 section 4.3).
fn random_id() -> u16 {
    static RANDOM: LazyLock<&dyn SecureRandom> =
        LazyLock::new(|| rustls::crypto::aws_lc_rs::default_provider().secure_random);
    let mut id = [0; 2];
    // The system's generator does not fail once it runs; the port is a secret too.
    let _filled = RANDOM.fill(&mut id);
    u16::from_be_bytes(id)
}

fn read_resolv_conf() -> String {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(RESOLV_CONF);
    // Without it the system has no name servers.
    let _read = file.and_then(|file| file.take(MAX_RESOLV_CONF_BYTES).read_to_string(&mut text));
    text
}

/// The name servers of a `/etc/resolv.conf`.
fn of_system(text: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("nameserver"));
    let words = lines.filter_map(|rest| rest.split_whitespace().next());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_name_servers_are_read() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = of_system(text).iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected);
        };
        check("search test\nnameserver 10.0.0.1\nnameserver\t::1 # mine\noptions x\n", &["10.0.0.1", "::1"]);
        check("#nameserver 10.0.0.1\nnameserver\nnameserver fe80::1%eth0\n", &[]);
    }

    #[test]
    fn families_are_asked_for_in_order() {
        let check = |accepted, ipv6, expected: &[Kind]| {
            assert_eq!(Families(accepted).kinds(ipv6).collect::<Vec<_>>(), expected);
        };
        check(AcceptFamily::Both, true, &[Kind::Aaaa, Kind::A]);
        check(AcceptFamily::Both, false, &[Kind::A, Kind::Aaaa]);
        check(AcceptFamily::V4, true, &[Kind::A]);
        check(AcceptFamily::V6, false, &[Kind::Aaaa]);
    }

    #[test]
    fn every_counter_has_its_name() {
        assert_eq!(COUNTS[Count::Sent as usize].0, "sent");
        assert_eq!(COUNTS[Count::Nx as usize].0, "nx");
        assert_eq!(COUNTS[Count::Truncated as usize].0, "truncated");
    }
}
