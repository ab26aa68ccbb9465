//! `balance`: which server a request goes to.
//!
//! A [`Picker`] is built from a snapshot of the servers whenever their weights or states change, and is
//! shared as it is: a pick changes nothing.  What changes from pick to pick comes as arguments.

use crate::algorithm::Algorithm;
use crate::hash::{HashMethod, HashType, avalanche};
use crate::ring::Ring;
use crate::schedule;

/// Effective weights count sixteenths of a configured weight, for slow starts to have steps.
pub const WEIGHT_SCALE: u32 = 16;

/// Largest configured weight.
const MAX_WEIGHT: u32 = 256;

/// Most servers whose load `leastconn` reads for one pick; in larger farms the range moves on each time, so that each
/// server is looked at as often as any other.
///
/// The least loaded of all would take an order of the servers that is kept while requests begin and end: every thread
/// would write its top with each request, twice, where now they only read.  The least loaded of 256 is within the 256th
/// part of the least loaded of all, and what differs evens out with the next picks.
const LEASTCONN_WINDOW: usize = 256;

/// Most turns that are skipped before looking for any server with a free slot.
const MAX_SKIPPED_TURNS: usize = 64;

/// Most draws of `random`.
const MAX_DRAWS: u32 = 64;

/// `hash-preserve-affinity`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Affinity {
    /// The hash decides alone.
    #[default]
    Always,
    /// Servers at their `maxconn` are skipped.
    MaxConn,
    /// Servers whose queue is full are skipped.
    MaxQueue,
}

/// What the configuration says about balancing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `balance`
    pub algorithm: Algorithm,
    /// `hash-type`
    pub hash_type: HashType,
    /// `hash-balance-factor` in percent; 0 is off.
    pub balance_factor: u32,
    /// `hash-preserve-affinity`
    pub affinity: Affinity,
    /// `option allbackups`
    pub all_backups: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Random { draws: 2 },
            hash_type: HashType::default(),
            balance_factor: 0,
            affinity: Affinity::Always,
            all_backups: false,
        }
    }
}

/// A server as balancing sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerView {
    /// `id`: the order of `first`, and the place on the ring.
    pub id: u32,
    /// Configured or commanded weight, 0 to 256.
    pub weight: u32,
    /// Sixteenths of the weight that apply now (slow start); 16 is all of it.
    pub ramp: u32,
    /// Up, and in neither maintenance nor drain.
    pub usable: bool,
    /// `backup`
    pub backup: bool,
    /// `hash-key` other than `id`: the place on the ring, from what else identifies the server.
    pub ring_key: Option<u32>,
}

impl ServerView {
    /// A usable server with a weight.
    #[must_use]
    pub fn new(id: u32, weight: u32) -> Self {
        Self { id, weight, ramp: WEIGHT_SCALE, usable: true, backup: false, ring_key: None }
    }

    fn effective_weight(&self) -> u32 {
        self.weight.min(MAX_WEIGHT) * self.ramp.clamp(1, WEIGHT_SCALE)
    }
}

/// A server's load at the moment of a pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Requests or connections it is serving.
    pub served: u32,
    /// Requests that wait for it alone.
    pub queued: u32,
    /// It has reached its `maxconn`, or others wait for it already.
    pub full: bool,
    /// Its queue has reached `maxqueue`.
    pub queue_full: bool,
    /// Requests in the last second; breaks ties of `random`.
    pub rate: u32,
}

/// What differs from pick to pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pick {
    /// A counter that all threads increment once for each pick of this farm.
    pub turn: u64,
    /// Hash of the key; `None` without a key: turns are taken then.
    pub hash: Option<u32>,
    /// Random bits, for `random`.
    pub random: u64,
    /// The server that just failed this request; taken only when there is no other.
    pub avoid: Option<usize>,
    /// Requests that the whole farm is serving, for `hash-balance-factor`.
    pub farm_served: u32,
}

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// This one, by its position in the snapshot.
    Server(usize),
    /// There are servers, but all that may be chosen are full: the request waits for any of them.
    AllFull,
    /// No server is usable.
    NoServer,
}

/// A farm ready to be picked from.
#[derive(Clone, Debug)]
pub struct Picker {
    settings: Settings,
    /// Usable servers in configuration order, or in the order of their ids for `first`.
    candidates: Vec<Candidate>,
    /// Positions of servers in the snapshot, turn by turn.
    round: Vec<u32>,
    ring: Option<Ring>,
    total_weight: u64,
    /// Position in `candidates` by position in the snapshot.
    position: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    server: usize,
    weight: u32,
    /// Sum of the weights before it.
    weight_before: u64,
}

const ABSENT: u32 = u32::MAX;

impl Picker {
    /// Lays a farm out.
    #[must_use]
    pub fn new(settings: &Settings, servers: &[ServerView]) -> Self {
        let mut chosen = usable(servers, settings.all_backups);
        let is_static = settings.is_static();
        let weight_of = |server: usize| match is_static {
            true => servers[server].weight.min(MAX_WEIGHT) * WEIGHT_SCALE,
            false => servers[server].effective_weight(),
        };
        let round = match settings.algorithm {
            Algorithm::First | Algorithm::Sticky | Algorithm::LeastConn | Algorithm::Random { .. } => {
                Vec::new()
            }
            _ if is_static => {
                let weights: Vec<u32> = (0..servers.len()).map(weight_of).collect();
                let mut usable = vec![false; servers.len()];
                chosen.iter().for_each(|&server| usable[server] = true);
                schedule::static_map(&weights, |server| usable[server])
            }
            _ => {
                let mut weights = vec![0; servers.len()];
                chosen.iter().for_each(|&server| weights[server] = weight_of(server));
                schedule::round_robin(&weights)
            }
        };
        let ring = settings.needs_ring().then(|| {
            let key = |view: &ServerView| view.ring_key.unwrap_or_else(|| avalanche(view.id));
            let nodes: Vec<_> = chosen.iter().map(|&at| (at, key(&servers[at]), weight_of(at))).collect();
            Ring::new(&nodes)
        });
        if matches!(settings.algorithm, Algorithm::First | Algorithm::Sticky) {
            chosen.sort_by_key(|&server| servers[server].id);
        }
        let mut position = vec![ABSENT; servers.len()];
        let mut total_weight = 0;
        let candidates = chosen.iter().enumerate().map(|(at, &server)| {
            position[server] = at as u32;
            let candidate = Candidate { server, weight: weight_of(server), weight_before: total_weight };
            total_weight += u64::from(candidate.weight);
            candidate
        });
        let candidates = candidates.collect();
        Self { settings: *settings, candidates, round, ring, total_weight, position }
    }

    /// Number of servers that can be chosen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// True when no server can be chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Positions in the snapshot of the servers that can be chosen.
    pub fn servers(&self) -> impl Iterator<Item = usize> + '_ {
        self.candidates.iter().map(|candidate| candidate.server)
    }

    /// Sum of the effective weights, in sixteenths.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// Picks a server.  `load` is asked only about the servers that come into question.
    pub fn pick(&self, pick: &Pick, load: impl Fn(usize) -> Load) -> Choice {
        if self.candidates.is_empty() {
            return Choice::NoServer;
        }
        match self.settings.algorithm {
            Algorithm::RoundRobin | Algorithm::StaticRr => self.by_turn(pick, &load),
            Algorithm::LeastConn => self.least_loaded(pick, &load),
            Algorithm::First | Algorithm::Sticky => self.first(pick, &load),
            Algorithm::Random { draws } => self.random(pick, draws, &load),
            Algorithm::Hash
            | Algorithm::Source
            | Algorithm::Uri
            | Algorithm::UrlParam
            | Algorithm::Hdr
            | Algorithm::RdpCookie
            | Algorithm::LogHash => match pick.hash {
                Some(hash) => self.by_hash(pick, hash, &load),
                None => self.by_turn(pick, &load),
            },
        }
    }

    /// The one whose turn it is, or the next with a free slot.
    fn by_turn(&self, pick: &Pick, load: &impl Fn(usize) -> Load) -> Choice {
        let len = self.round.len().max(1);
        let start = (pick.turn % len as u64) as usize;
        let mut fallback = Choice::AllFull;
        for step in 0..len.min(MAX_SKIPPED_TURNS) {
            let Some(&server) = self.round.get((start + step) % len) else { break };
            let server = server as usize;
            if pick.avoid == Some(server) {
                if !load(server).full {
                    fallback = Choice::Server(server);
                }
            } else if !load(server).full {
                return Choice::Server(server);
            }
        }
        let others = (0..self.candidates.len()).map(|step| {
            let at = (pick.turn as usize).wrapping_add(step) % self.candidates.len();
            self.candidates[at].server
        });
        let free = others.into_iter().find(|&server| pick.avoid != Some(server) && !load(server).full);
        free.map_or(fallback, Choice::Server)
    }

    /// `leastconn`: the lowest load for its weight; among equals, turns are taken.
    fn least_loaded(&self, pick: &Pick, load: &impl Fn(usize) -> Load) -> Choice {
        let count = self.candidates.len();
        let window = count.min(LEASTCONN_WINDOW);
        let stride = if count > window { window as u64 } else { 1 };
        let start = (pick.turn.wrapping_mul(stride) % count as u64) as usize;
        let mut best: Option<(bool, u64, usize)> = None;
        for step in 0..window {
            let candidate = self.candidates[(start + step) % count];
            let now = load(candidate.server);
            if now.full {
                continue;
            }
            let key =
                (pick.avoid == Some(candidate.server), load_key(now, candidate.weight), candidate.server);
            if best.is_none_or(|best| (key.0, key.1) < (best.0, best.1)) {
                best = Some(key);
            }
        }
        best.map_or(Choice::AllFull, |(_, _, server)| Choice::Server(server))
    }

    /// `first`: the lowest id with a free slot.
    fn first(&self, pick: &Pick, load: &impl Fn(usize) -> Load) -> Choice {
        let mut free = self.servers().filter(|&server| !load(server).full);
        let first = free.next();
        let choice = if first == pick.avoid { free.next().or(first) } else { first };
        choice.map_or(Choice::AllFull, Choice::Server)
    }

    /// `random`: the least loaded of some servers drawn from the ring.
    fn random(&self, pick: &Pick, draws: u32, load: &impl Fn(usize) -> Load) -> Choice {
        let Some(ring) = &self.ring else { return Choice::NoServer };
        let mut best: Option<(usize, Load)> = None;
        let mut bits = pick.random;
        for _ in 0..draws.clamp(1, MAX_DRAWS) {
            bits = mixed(bits);
            let drawn = ring.pick(bits as u32, |server| self.is_eligible(server, pick, load));
            let Some(server) = drawn else { continue };
            let now = load(server);
            let better = |&(other, known): &(usize, Load)| {
                let ours = u64::from(now.served + now.queued + 1) * u64::from(self.weight(other));
                let theirs = u64::from(known.served + known.queued + 1) * u64::from(self.weight(server));
                (pick.avoid == Some(other), theirs, known.rate) > (pick.avoid == Some(server), ours, now.rate)
            };
            if best.as_ref().is_none_or(better) {
                best = Some((server, now));
            }
        }
        match best {
            Some((_, now)) if now.full => Choice::AllFull,
            Some((server, _)) => Choice::Server(server),
            None => Choice::NoServer,
        }
    }

    /// The server that a key belongs to.
    fn by_hash(&self, pick: &Pick, hash: u32, load: &impl Fn(usize) -> Load) -> Choice {
        let server = match &self.ring {
            Some(ring) => ring.pick(hash, |server| self.is_eligible(server, pick, load)),
            None => self.map_pick(pick, hash, load),
        };
        match server {
            // A hash would find the failed server again and again.
            Some(server) if pick.avoid == Some(server) => self.by_turn(pick, load),
            Some(server) => Choice::Server(server),
            None => Choice::NoServer,
        }
    }

    fn map_pick(&self, pick: &Pick, hash: u32, load: &impl Fn(usize) -> Load) -> Option<usize> {
        let len = self.round.len();
        let start = hash as usize % len.max(1);
        let at = |step: usize| self.round.get((start + step) % len.max(1)).map(|&server| server as usize);
        if self.settings.affinity == Affinity::Always {
            return at(0);
        }
        let reach = 0..len.min(MAX_SKIPPED_TURNS);
        reach.filter_map(at).find(|&server| self.is_eligible(server, pick, load)).or_else(|| at(0))
    }

    /// May take another request by `hash-balance-factor` and `hash-preserve-affinity`.
    fn is_eligible(&self, server: usize, pick: &Pick, load: &impl Fn(usize) -> Load) -> bool {
        if pick.avoid == Some(server) && self.candidates.len() > 1 {
            return false;
        }
        let skip_full = match self.settings.affinity {
            Affinity::Always => false,
            Affinity::MaxConn => load(server).full,
            Affinity::MaxQueue => load(server).queue_full,
        };
        let bounded = self.settings.balance_factor != 0 && self.ring.is_some();
        !skip_full && (!bounded || load(server).served < self.slots(server, pick.farm_served))
    }

    /// Bounded load: a server's share of the farm's load including this request, times the factor.  The
    /// remainder of the division goes by cumulated weight, so that the shares add up; none gets less than one.
    fn slots(&self, server: usize, farm_served: u32) -> u32 {
        let load = (u64::from(farm_served) + 1) * u64::from(self.settings.balance_factor);
        let slots = load.div_ceil(100);
        let Some(candidate) = self.candidate(server) else { return 0 };
        let total = self.total_weight.max(1);
        let upto = |weight: u64| slots * weight / total;
        let share =
            upto(candidate.weight_before + u64::from(candidate.weight)) - upto(candidate.weight_before);
        u32::try_from(share.max(1)).unwrap_or(u32::MAX)
    }

    fn candidate(&self, server: usize) -> Option<&Candidate> {
        self.candidates.get(*self.position.get(server)? as usize)
    }

    fn weight(&self, server: usize) -> u32 {
        self.candidate(server).map_or(1, |candidate| candidate.weight)
    }
}

impl Settings {
    /// Weight changes and slow starts have no effect (`static-rr` and map-based hashing).
    #[must_use]
    pub fn is_static(&self) -> bool {
        let by_map = self.algorithm.hashes() && self.hash_type.method == HashMethod::MapBased;
        self.algorithm == Algorithm::StaticRr || by_map
    }

    fn needs_ring(&self) -> bool {
        let on_ring = self.algorithm.hashes() && self.hash_type.method == HashMethod::Consistent;
        self.algorithm.needs_random() || on_ring
    }
}

/// Positions of the servers that take part: the active ones, or else the first backup, or all of them.
fn usable(servers: &[ServerView], all_backups: bool) -> Vec<usize> {
    let of = |backup: bool| {
        let servers = servers.iter().enumerate();
        servers.filter(move |(_, server)| server.usable && server.weight > 0 && server.backup == backup)
    };
    let active: Vec<usize> = of(false).map(|(at, _)| at).collect();
    if !active.is_empty() {
        return active;
    }
    of(true).map(|(at, _)| at).take(if all_backups { servers.len() } else { 1 }).collect()
}

/// Orders servers by load for their weight; an idle server is idle whatever its weight.
fn load_key(load: Load, weight: u32) -> u64 {
    match u64::from(load.served) + u64::from(load.queued) {
        0 => 0,
        in_flight => (in_flight + 1) * 4096 / u64::from(weight.max(1)),
    }
}

/// The next number of a splitmix64 sequence.
fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashFunction, UriKey};
    use proptest::prelude::*;

    fn farm(weights: &[u32]) -> Vec<ServerView> {
        weights.iter().enumerate().map(|(at, &weight)| ServerView::new(at as u32 + 1, weight)).collect()
    }

    fn settings(algorithm: Algorithm) -> Settings {
        Settings { algorithm, ..Settings::default() }
    }

    fn turn(turn: u64) -> Pick {
        Pick { turn, random: turn, ..Pick::default() }
    }

    fn shown(choice: Choice) -> String {
        match choice {
            Choice::Server(server) => server.to_string(),
            Choice::AllFull => "full".into(),
            Choice::NoServer => "none".into(),
        }
    }

    /// The servers of the first picks of an idle farm.
    fn sequence(settings: &Settings, servers: &[ServerView], picks: u64) -> String {
        let picker = Picker::new(settings, servers);
        (0..picks).map(|at| shown(picker.pick(&turn(at), |_| Load::default()))).collect()
    }

    #[test]
    fn turns_of_an_idle_farm() {
        let check = |algorithm, weights: &[u32], expected: &str| {
            assert_eq!(sequence(&settings(algorithm), &farm(weights), expected.len() as u64), expected);
        };
        check(Algorithm::RoundRobin, &[1, 1, 1, 1], "01230");
        check(Algorithm::RoundRobin, &[3, 2, 1], "010201010201");
        check(Algorithm::StaticRr, &[3, 2, 1], "001012001012");
        check(Algorithm::LeastConn, &[1, 1, 2], "012012");
        check(Algorithm::First, &[1, 1, 2], "000");
        // A hash without a key takes turns.
        check(Algorithm::Hash, &[1, 1, 1], "012012");
    }

    #[test]
    fn uris_go_where_the_peer_sends_them() {
        let check = |weights: &[u32], hash_type: HashType, whole: bool, expected: &str| {
            let picker = Picker::new(&Settings { hash_type, ..settings(Algorithm::Hash) }, &farm(weights));
            let key = UriKey { whole, ..UriKey::default() };
            let pick = |at: usize| {
                let hash = Some(hash_type.hash(key.key(format!("/p{at}").as_bytes())));
                shown(picker.pick(&Pick { hash, ..Pick::default() }, |_| Load::default()))
            };
            assert_eq!((0..expected.len()).map(pick).collect::<String>(), expected);
        };
        let djb2 = HashType { function: HashFunction::Djb2, avalanche: true, ..HashType::default() };
        check(&[3, 2, 1], HashType::default(), false, "01012001011012001012012001");
        check(&[2, 4, 6], djb2, true, "22010120200202210112222200");
        check(&[1, 1, 1], HashType::CONSISTENT, false, "21111002221002220221022010");
        // The cases of the regression suite: /url1 to /url4 on four servers.
        let picker = Picker::new(&settings(Algorithm::Hash), &farm(&[1, 1, 1, 1]));
        for (at, expected) in ["1", "2", "3", "0"].into_iter().enumerate() {
            let hash = Some(HashType::default().hash(format!("/url{}", at + 1).as_bytes()));
            assert_eq!(shown(picker.pick(&Pick { hash, ..Pick::default() }, |_| Load::default())), expected);
        }
    }

    #[test]
    fn backups_serve_when_nobody_else_can() {
        let check = |change: &dyn Fn(&mut [ServerView]), all_backups: bool, expected: &str| {
            let mut servers = farm(&[1, 1, 1, 1]);
            servers[2].backup = true;
            servers[3].backup = true;
            change(&mut servers);
            let settings = Settings { all_backups, ..settings(Algorithm::RoundRobin) };
            assert_eq!(sequence(&settings, &servers, 4), expected);
        };
        check(&|_| {}, false, "0101");
        check(&|servers| servers[0].usable = false, false, "1111");
        let actives_down =
            |servers: &mut [ServerView]| servers[..2].iter_mut().for_each(|server| server.usable = false);
        check(&actives_down, false, "2222");
        check(&actives_down, true, "2323");
        check(&|servers| servers[..3].iter_mut().for_each(|server| server.weight = 0), false, "3333");
        check(
            &|servers| servers.iter_mut().for_each(|server| server.usable = false),
            true,
            "nonenonenonenone",
        );
    }

    #[test]
    fn full_servers_are_passed_over() {
        let check = |algorithm, full: &[usize], expected: &str| {
            let picker = Picker::new(&settings(algorithm), &farm(&[1, 1, 1]));
            let load = |server: usize| Load { full: full.contains(&server), ..Load::default() };
            let picks = (0..3).map(|at| shown(picker.pick(&turn(at), load)));
            assert_eq!(picks.collect::<Vec<_>>().join(" "), expected, "{algorithm:?} {full:?}");
        };
        for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRr, Algorithm::LeastConn] {
            check(algorithm, &[1], "0 2 2");
            check(algorithm, &[0, 1, 2], "full full full");
        }
        check(Algorithm::First, &[0], "1 1 1");
        check(Algorithm::First, &[0, 1, 2], "full full full");
        check(Algorithm::Random { draws: 2 }, &[0, 1, 2], "full full full");
    }

    #[test]
    fn the_failed_server_is_avoided() {
        for algorithm in [
            Algorithm::RoundRobin,
            Algorithm::StaticRr,
            Algorithm::LeastConn,
            Algorithm::First,
            Algorithm::Random { draws: 2 },
            Algorithm::Hash,
        ] {
            for hash_type in [HashType::default(), HashType::CONSISTENT] {
                for at in 0..50 {
                    let picker = Picker::new(&Settings { hash_type, ..settings(algorithm) }, &farm(&[5, 1]));
                    let pick = Pick { avoid: Some(0), hash: Some(at * 77_777_777), ..turn(u64::from(at)) };
                    assert_eq!(picker.pick(&pick, |_| Load::default()), Choice::Server(1), "{algorithm:?}");
                    let alone = Picker::new(&Settings { hash_type, ..settings(algorithm) }, &farm(&[1]));
                    assert_eq!(alone.pick(&pick, |_| Load::default()), Choice::Server(0), "{algorithm:?}");
                }
            }
        }
    }

    #[test]
    fn leastconn_weighs_loads() {
        let check = |weights: &[u32], served: &[u32], expected: usize| {
            let picker = Picker::new(&settings(Algorithm::LeastConn), &farm(weights));
            let load = |server: usize| Load { served: served[server], ..Load::default() };
            assert_eq!(picker.pick(&turn(0), load), Choice::Server(expected), "{weights:?} {served:?}");
        };
        check(&[1, 1], &[2, 1], 1);
        check(&[1, 2], &[1, 2], 1);
        check(&[1, 4], &[1, 8], 0);
        check(&[1, 256], &[0, 0], 0);
    }

    #[test]
    fn leastconn_reaches_every_server_of_a_large_farm() {
        let picker = Picker::new(&settings(Algorithm::LeastConn), &farm(&[1; 700]));
        let load = |server: usize| Load { served: u32::from(server != 699), ..Load::default() };
        let found = (0..3).filter(|&at| picker.pick(&turn(at), load) == Choice::Server(699)).count();
        assert!(found >= 1);
    }

    #[test]
    fn bounded_load_spills_over() {
        let settings =
            Settings { hash_type: HashType::CONSISTENT, balance_factor: 150, ..settings(Algorithm::Hash) };
        let picker = Picker::new(&settings, &farm(&[1, 1, 1]));
        let mut served = [0u32; 3];
        for farm_served in 0..30 {
            let pick = Pick { hash: Some(7), farm_served, ..Pick::default() };
            let choice = picker.pick(&pick, |server| Load { served: served[server], ..Load::default() });
            let Choice::Server(server) = choice else { panic!("an idle farm has a server") };
            served[server] += 1;
            let most = (f64::from(farm_served + 1) * 1.5 / 3.0).ceil() as u32;
            assert!(served[server] <= most.max(1), "{served:?}");
        }
    }

    #[test]
    fn slow_start_gives_part_of_the_weight() {
        let mut servers = farm(&[1, 1]);
        servers[1].ramp = 4;
        assert_eq!(sequence(&settings(Algorithm::RoundRobin), &servers, 10), "0000100001");
        assert_eq!(sequence(&settings(Algorithm::StaticRr), &servers, 4), "0101");
    }

    #[test]
    fn random_follows_weights() {
        let picker = Picker::new(&settings(Algorithm::Random { draws: 1 }), &farm(&[1, 3]));
        let second =
            (0..4000).filter(|&at| picker.pick(&turn(at), |_| Load::default()) == Choice::Server(1)).count();
        assert!((2600..3400).contains(&second), "{second}");
    }

    proptest! {
        #[test]
        fn a_pick_is_always_a_usable_server(
            servers in prop::collection::vec((0u32..20, any::<bool>(), any::<bool>(), 0u32..20), 0..12),
            kind in 0usize..6, consistent: bool, factor in 0u32..200, hash: Option<u32>, turn: u64, random: u64,
            served in 0u32..5, full_mask: u16, all_backups: bool,
        ) {
            let views: Vec<_> = servers.iter().enumerate().map(|(at, &(weight, usable, backup, ramp))| {
                ServerView { usable, backup, ramp, ..ServerView::new(at as u32 + 1, weight) }
            }).collect();
            let algorithm = [
                Algorithm::RoundRobin, Algorithm::StaticRr, Algorithm::LeastConn, Algorithm::First,
                Algorithm::Random { draws: 3 }, Algorithm::Hash,
            ][kind];
            let hash_type = if consistent { HashType::CONSISTENT } else { HashType::default() };
            let settings = Settings { algorithm, hash_type, balance_factor: factor, all_backups, affinity: Affinity::MaxConn };
            let picker = Picker::new(&settings, &views);
            let pick = Pick { turn, hash, random, avoid: None, farm_served: served * 3 };
            let load = |server: usize| Load { served, full: full_mask >> server & 1 == 1, ..Load::default() };
            match picker.pick(&pick, load) {
                Choice::Server(server) => prop_assert!(views[server].usable && views[server].weight > 0),
                Choice::AllFull => prop_assert!(full_mask != 0),
                Choice::NoServer => prop_assert!(picker.is_empty()),
            }
        }
    }
}
