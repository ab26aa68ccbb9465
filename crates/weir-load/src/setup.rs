//! What a run is to do, as the command line says it, and how it is divided among threads and servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::goal::Goal;
use crate::request::{Prepared, RequestText};
use crate::result::{Load, Plan, Protocol, Reuse, Target};
use crate::sample::MAX_SAMPLES;
use crate::schedule::Listed;
use crate::script::Script;
use crate::url::{ConnectTo, Origin};

/// Threads of the generator.
pub const MAX_THREADS: u32 = 1024;

/// Connections of all threads: as many as a machine has ports for one server, with room for several.
pub const MAX_CONNECTIONS: u32 = 1_000_000;

/// Requests at once on one connection.
pub const MAX_STREAMS: u32 = 16_384;

/// Requests a second.
pub const MAX_RATE: f64 = 100_000_000.0;

/// Different requests.
pub const MAX_REQUESTS: usize = 1_000_000;

/// Everything a run needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the run is named in reports.
    pub label: String,
    /// The requests, at least one.
    pub requests: Vec<Weighted>,
    /// Which one is next.
    pub order: Order,
    /// The version of HTTP.
    pub http: Http,
    /// Threads.
    pub threads: u32,
    /// Connections of all threads together.
    pub connections: u32,
    /// Requests at once on one connection.
    pub streams: u32,
    /// When requests are sent.
    pub load: Load,
    /// By how much a ramp's next rate is higher than the last: 0.25 for a quarter.
    pub rise: f64,
    /// How long to measure; until the requests are done without it.
    pub duration: Option<Duration>,
    /// How many requests to send; until the time is over without it.
    pub count: Option<u64>,
    /// How long the load runs before the measuring begins.
    pub warm_up: Duration,
    /// When connections are opened.
    pub reuse: Reuse,
    /// How long an answer, and opening a connection, may take.
    pub timeout: Duration,
    /// How connections come by requests, and what they do about late answers.
    pub discipline: Discipline,
    /// The start of everything that is drawn by lot.
    pub seed: u64,
    /// What a step of a ramp has to hold, and the run as a whole.
    pub goal: Option<Goal>,
    /// Where to connect to instead.
    pub connect_to: Vec<ConnectTo>,
    /// Take any certificate.
    pub insecure: bool,
    /// Authorities for the server's certificate; the system's without it.
    pub ca_file: Option<PathBuf>,
    /// The length of an interval.
    pub interval: Duration,
    /// Connections are opened little by little; all at once without it.
    pub opening: Option<Opening>,
    /// Each request is kept, for the files that list them.
    pub keep_samples: bool,
    /// How long a connection stays open at most; it is not opened again.
    pub connection_life: Option<Duration>,
    /// What decides on requests instead of `requests` (HTTP/1.1 only).
    pub script: Option<Arc<Script>>,
}

/// How connections come by requests, and what they do about late answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Whichever is free sends the next one, and gives up what takes too long.
    #[default]
    Shared,
    /// The same, but late answers are waited for, as wrk does.
    Patient,
    /// Each connection to the only server has its part of `count` from the beginning, as in h2load. It is closed after
    /// that, or gives up all that is left with the first late answer.
    Divided,
}

/// How fast connections are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// So many in each period.
    pub connections: u32,
    /// Its length.
    pub period: Duration,
}

impl Opening {
    /// When a connection is opened after the beginning.
    pub(crate) fn after(self, connection: u32) -> Duration {
        self.period.saturating_mul(connection / self.connections.max(1))
    }
}

/// One request, and how often it is sent compared with the others.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// The request.
    pub request: RequestText,
    /// Its weight.
    pub weight: u32,
}

/// Which request is next.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// By lot and weight.
    Lot,
    /// One after the other.
    Turn,
    /// As a log says: which request, and how many nanoseconds after the first one.
    Replay(Vec<(u32, u64)>),
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1
    One,
    /// HTTP/1.0, whose connections are kept where both sides say so.
    OneDotZero,
    /// HTTP/2, over TLS agreed on, in clear known in advance.
    Two,
    /// Over TLS what the server prefers; HTTP/2 in clear.
    Negotiated,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            label: String::new(),
            requests: Vec::new(),
            order: Order::Lot,
            http: Http::One,
            threads: 1,
            connections: 1,
            streams: 1,
            load: Load::Closed,
            rise: crate::ramp::DEFAULT_RISE,
            duration: Some(Duration::from_secs(10)),
            count: None,
            warm_up: Duration::ZERO,
            reuse: Reuse::KeepAlive,
            timeout: Duration::from_secs(30),
            discipline: Discipline::Shared,
            seed: 1,
            goal: None,
            connect_to: Vec::new(),
            insecure: false,
            ca_file: None,
            interval: Duration::from_secs(1),
            opening: None,
            keep_samples: false,
            connection_life: None,
            script: None,
        }
    }
}

impl Setup {
    /// Whether every request has a connection of its own.
    pub(crate) fn is_single_use(&self) -> bool {
        self.reuse != Reuse::KeepAlive
    }

    /// Whether each connection has requests of its own.
    pub(crate) fn is_divided(&self) -> bool {
        self.discipline == Discipline::Divided
    }

    /// How many requests one of the connections sends.
    pub(crate) fn part_of_count(&self, connection: u32) -> u64 {
        match self.count {
            Some(count) if self.is_divided() => {
                let connections = u64::from(self.connections.max(1));
                count / connections + u64::from(u64::from(connection) < count % connections)
            }
            _ => u64::MAX,
        }
    }

    /// Checks what does not depend on a single option.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub fn check(&self) -> Result<(), String> {
        let range = |what: &str, value: u32, most: u32| match value {
            _ if (1..=most).contains(&value) => Ok(()),
            _ => Err(format!("{what}: {value} is not between 1 and {most}")),
        };
        range("threads", self.threads, MAX_THREADS)?;
        range("connections", self.connections, MAX_CONNECTIONS)?;
        range("streams", self.streams, MAX_STREAMS)?;
        if self.requests.is_empty() {
            return Err("no URL".into());
        }
        if self.requests.len() > MAX_REQUESTS {
            return Err(format!("more than {MAX_REQUESTS} different requests"));
        }
        if self.requests.iter().all(|weighted| weighted.weight == 0) {
            return Err("all weights are 0".into());
        }
        if self.threads > self.connections {
            let (threads, connections) = (self.threads, self.connections);
            return Err(format!("{connections} connections cannot be divided among {threads} threads"));
        }
        if self.script.is_some() && self.http != Http::One {
            return Err("a script's requests are HTTP/1.1".into());
        }
        if self.keep_samples && self.count.is_none_or(|count| count > MAX_SAMPLES) {
            return Err(format!(
                "only up to {MAX_SAMPLES} requests are listed one by one: say how many (-n)"
            ));
        }
        self.check_load()
    }

    fn check_load(&self) -> Result<(), String> {
        let rates: &[f64] = match &self.load {
            Load::Closed => &[],
            Load::Rate { per_second } => &[*per_second],
            Load::Ramp { from, to, .. } => &[*from, *to],
            Load::Replay { speed } => &[*speed],
        };
        if let Some(wrong) = rates.iter().find(|rate| !(**rate > 0.0 && **rate <= MAX_RATE)) {
            return Err(format!("rate: {wrong} is not above 0 and up to {MAX_RATE}"));
        }
        match &self.load {
            Load::Ramp { from, to, .. } if from > to => {
                Err(format!("a ramp rises: {from} is more than {to}"))
            }
            Load::Ramp { .. } if self.count.is_some() => {
                Err("a ramp's steps last a time and not a number of requests".into())
            }
            _ if self.count.is_some() && !self.warm_up.is_zero() => {
                Err("a warm-up takes a time, and a number of requests would be used up by it".into())
            }
            Load::Closed | Load::Rate { .. } if self.duration.is_none() && self.count.is_none() => {
                Err("neither a duration nor a number of requests".into())
            }
            _ => Ok(()),
        }
    }

    /// What is asked for, before it is known which version of HTTP a server agrees on.
    #[must_use]
    pub fn expected_plan(&self) -> Plan {
        self.plan(expected(self.http))
    }

    /// What was asked for, for the result.
    pub(crate) fn plan(&self, protocol: Protocol) -> Plan {
        /// A log has too many different requests to list them.
        const MAX_LISTED: usize = 100;
        let target = |weighted: &Weighted| Target {
            url: weighted.request.url.to_string(),
            method: weighted.request.method.clone(),
            weight: weighted.weight,
        };
        Plan {
            targets: self.requests.iter().take(MAX_LISTED).map(target).collect(),
            protocol,
            threads: self.threads,
            connections: self.connections,
            streams: self.streams,
            load: self.load.clone(),
            duration_seconds: self.duration.map(|duration| duration.as_secs_f64()),
            requests: self.count,
            warm_up_seconds: self.warm_up.as_secs_f64(),
            reuse: self.reuse,
            timeout_seconds: self.timeout.as_secs_f64(),
            seed: self.seed,
            goal: self.goal.as_ref().map(Goal::to_string),
        }
    }

    /// Divides the run: what each server gets, and of that each thread.
    ///
    /// # Errors
    /// There are fewer connections than servers.
    pub(crate) fn divide(&self) -> Result<Vec<LanePlan>, String> {
        let mut lanes: Vec<LanePlan> = Vec::new();
        let mut places = Vec::with_capacity(self.requests.len());
        for weighted in &self.requests {
            let origin = &weighted.request.url.origin;
            let at = lanes.iter().position(|lane| lane.origin == *origin).unwrap_or_else(|| {
                lanes.push(LanePlan::new(origin.clone()));
                lanes.len() - 1
            });
            if let Some(lane) = lanes.get_mut(at) {
                places.push((at, lane.requests.len() as u32));
                lane.requests.push(Prepared::new(
                    &weighted.request,
                    self.http == Http::OneDotZero,
                    self.is_single_use(),
                ));
                lane.weights.push(weighted.weight);
            }
        }
        if let Order::Replay(list) = &self.order {
            for (request, after_ns) in list {
                let place = places.get(*request as usize).copied();
                if let Some((lane, request)) = place.and_then(|(at, r)| Some((lanes.get_mut(at)?, r))) {
                    lane.list.push(Listed { request, after_ns: *after_ns });
                }
            }
        }
        if lanes.len() > self.connections as usize {
            return Err(format!("{} connections are too few for {} servers", self.connections, lanes.len()));
        }
        self.share(&mut lanes);
        Ok(lanes)
    }

    /// Gives each server its part of the connections and of the rate by weight, each thread an equal one.
    fn share(&self, lanes: &mut [LanePlan]) {
        let total: f64 = lanes.iter().map(LanePlan::weight).sum();
        let spare = self.connections - lanes.len() as u32;
        let mut left = spare;
        let mut turn = 0;
        let count = lanes.len();
        for (number, lane) in lanes.iter_mut().enumerate() {
            lane.part = if total > 0.0 { lane.weight() / total } else { 1.0 / count as f64 };
            let more = (f64::from(spare) * lane.part).round() as u32;
            let more = if number + 1 == count { left } else { more.min(left) };
            left -= more;
            lane.connections = vec![0; self.threads as usize];
            // In turn across the servers, so that no thread gets all of the small ones.
            for _ in 0..=more {
                if let Some(connections) = lane.connections.get_mut(turn % self.threads as usize) {
                    *connections += 1;
                }
                turn += 1;
            }
        }
    }
}

/// What one server gets.
#[derive(Debug)]
pub(crate) struct LanePlan {
    pub(crate) origin: Origin,
    pub(crate) requests: Vec<Prepared>,
    pub(crate) weights: Vec<u32>,
    /// The part of a log.
    pub(crate) list: Vec<Listed>,
    /// The part of the rate, 0 to 1.
    pub(crate) part: f64,
    /// The connections of each thread.
    pub(crate) connections: Vec<u32>,
}

impl LanePlan {
    fn new(origin: Origin) -> Self {
        let (requests, weights, list, connections) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { origin, requests, weights, list, part: 1.0, connections }
    }

    fn weight(&self) -> f64 {
        self.weights.iter().map(|weight| f64::from(*weight)).sum()
    }

    /// The part of the rate that a thread sends.
    pub(crate) fn part_of(&self, thread: usize) -> f64 {
        let all: u32 = self.connections.iter().sum();
        let own = self.connections.get(thread).copied().unwrap_or(0);
        self.part * f64::from(own) / f64::from(all.max(1))
    }

    /// The part of the log that a thread sends: of those with connections, each takes every n-th request.
    pub(crate) fn list_of(&self, thread: usize) -> Arc<[Listed]> {
        let mut active = self.connections.iter().enumerate().filter(|(_, own)| **own > 0);
        let Some(place) = active.position(|(number, _)| number == thread) else { return Arc::new([]) };
        let count = self.connections.iter().filter(|own| **own > 0).count();
        self.list.iter().skip(place).step_by(count.max(1)).copied().collect()
    }
}

/// The version that a run will use; over TLS it may turn out otherwise.
pub(crate) fn expected(http: Http) -> Protocol {
    match http {
        Http::One | Http::OneDotZero => Protocol::Http1,
        Http::Two | Http::Negotiated => Protocol::Http2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    fn weighted(url: &str, weight: u32) -> Weighted {
        let url = Url::parse(url).unwrap();
        let request = RequestText { method: "GET".into(), url, headers: Vec::new(), body: Vec::new() };
        Weighted { request, weight }
    }

    #[test]
    fn connections_are_shared() {
        let check = |urls: &[(&str, u32)], threads, connections, expected: &[&[u32]]| {
            let requests = urls.iter().map(|(url, weight)| weighted(url, *weight)).collect();
            let setup = Setup { requests, threads, connections, ..Setup::default() };
            let lanes = setup.divide().unwrap();
            let found: Vec<&[u32]> = lanes.iter().map(|lane| lane.connections.as_slice()).collect();
            assert_eq!(found, expected, "{urls:?}");
            let parts: f64 =
                lanes.iter().flat_map(|lane| (0..threads).map(|t| lane.part_of(t as usize))).sum();
            assert!((parts - 1.0).abs() < 1e-9);
        };
        check(&[("http://a/x", 1), ("http://a/y", 1)], 2, 5, &[&[3, 2]]);
        check(&[("http://a/", 3), ("http://b/", 1)], 2, 10, &[&[4, 3], &[1, 2]]);
        check(&[("http://a/", 1), ("http://b/", 1)], 2, 2, &[&[1, 0], &[0, 1]]);
        let two =
            Setup { requests: vec![weighted("http://a/", 1), weighted("http://b/", 1)], ..Setup::default() };
        assert!(two.divide().is_err());
    }

    #[test]
    fn a_count_is_divided() {
        let check = |count, discipline, expected: &[u64]| {
            let setup = Setup { count, discipline, connections: 4, ..Setup::default() };
            let found: Vec<u64> = (0..4).map(|connection| setup.part_of_count(connection)).collect();
            assert_eq!(found, expected, "{count:?}");
        };
        check(Some(8), Discipline::Divided, &[2, 2, 2, 2]);
        check(Some(11), Discipline::Divided, &[3, 3, 3, 2]);
        check(Some(1), Discipline::Divided, &[1, 0, 0, 0]);
        check(Some(11), Discipline::Shared, &[u64::MAX; 4]);
        check(None, Discipline::Divided, &[u64::MAX; 4]);
    }

    #[test]
    fn connections_are_opened_little_by_little() {
        let opening = Opening { connections: 2, period: Duration::from_millis(100) };
        let found: Vec<u128> = (0..5).map(|connection| opening.after(connection).as_millis()).collect();
        assert_eq!(found, [0, 0, 100, 100, 200]);
    }

    #[test]
    fn a_log_is_shared() {
        let requests = vec![weighted("http://a/0", 1), weighted("http://b/1", 1), weighted("http://a/2", 1)];
        let order = Order::Replay(vec![(0, 0), (1, 5), (2, 10), (0, 20)]);
        let setup = Setup { requests, order, threads: 2, connections: 4, ..Setup::default() };
        let lanes = setup.divide().unwrap();
        let found = |lane: usize, thread| {
            lanes[lane].list_of(thread).iter().map(|l| (l.request, l.after_ns)).collect::<Vec<_>>()
        };
        assert_eq!((found(0, 0), found(0, 1)), (vec![(0, 0), (0, 20)], vec![(1, 10)]));
        assert_eq!((found(1, 0), found(1, 1)), (vec![(0, 5)], vec![]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |change: fn(&mut Setup), why: &str| {
            let mut setup = Setup { requests: vec![weighted("http://a/", 1)], ..Setup::default() };
            assert_eq!(setup.check(), Ok(()));
            change(&mut setup);
            let error = setup.check().unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        check(|setup| setup.threads = 0, "threads");
        check(|setup| setup.threads = 2, "cannot be divided");
        check(|setup| setup.connections = MAX_CONNECTIONS + 1, "connections");
        check(|setup| setup.streams = 0, "streams");
        check(|setup| setup.requests.clear(), "no URL");
        check(|setup| setup.requests[0].weight = 0, "weights");
        check(|setup| setup.duration = None, "neither");
        check(|setup| (setup.count, setup.warm_up) = (Some(1), Duration::from_secs(1)), "warm-up");
        check(|setup| setup.load = Load::Rate { per_second: 0.0 }, "rate");
        check(|setup| setup.load = Load::Rate { per_second: f64::NAN }, "rate");
        check(|setup| setup.load = Load::Ramp { from: 2.0, to: 1.0, step_seconds: 1.0 }, "rises");
    }
}
