//! One thread of the generator: its lanes, and what it reports when.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};
use weir_net::timers::thread_cpu_ns;
use weir_net::tls::client::{ClientOptions, TlsClient};

use crate::clock::Clock;
use crate::connection;
use crate::figures::Figures;
use crate::lane::{Lane, Parts};
use crate::result::{Load, Reuse, ServerSeen};
use crate::schedule::{self, Pace, Pacer, Picker, Schedule};
use crate::setup::{Discipline, Http, LanePlan, Order, Setup};

/// How often requests are looked through for those that have waited too long.
const SWEEP: Duration = Duration::from_millis(50);

/// What a thread is made of.
pub(crate) struct Share {
    pub(crate) number: usize,
    pub(crate) setup: Arc<Setup>,
    pub(crate) lanes: Vec<(Arc<LanePlan>, SocketAddr)>,
    pub(crate) clock: Clock,
    pub(crate) budget: Option<Arc<AtomicU64>>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// When it begins.
    pub(crate) begin_ns: u64,
    /// How long nothing is measured.
    pub(crate) warm_up: Duration,
    /// How long is measured; until all is done without it.
    pub(crate) measure: Option<Duration>,
    /// Requests a second of all threads, where there is a rate.
    pub(crate) rate: Option<f64>,
}

/// What a thread is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Run(Part),
    /// End the part that runs.
    Stop,
}

/// What a thread tells.
pub(crate) enum Report {
    /// Every connection has been tried; what they counted is still to come.
    Ready(Ready),
    /// An interval is over.
    Interval(Box<IntervalReport>),
    /// The part is over.
    Ended(Box<PartReport>),
    /// The thread cannot work.
    Broken(String),
}

/// The state before the first part.
pub(crate) struct Ready {
    pub(crate) established: u64,
    pub(crate) problem: Option<String>,
}

/// One thread's figures of an interval.
pub(crate) struct IntervalReport {
    pub(crate) warm_up: bool,
    pub(crate) number: usize,
    pub(crate) seconds: f64,
    pub(crate) figures: Figures,
}

/// One thread's figures at the end of a part.
pub(crate) struct PartReport {
    /// The last interval, which may be shorter than the others.
    pub(crate) last: Option<IntervalReport>,
    /// Requests that still waited.
    pub(crate) waiting: Figures,
    pub(crate) seconds: f64,
    pub(crate) used: Cpu,
    pub(crate) requests: u64,
    pub(crate) connections: u32,
    pub(crate) seen: Option<ServerSeen>,
    pub(crate) http2: Option<bool>,
}

/// Runs a thread until its commands end.
pub(crate) fn run(share: &Share, commands: UnboundedReceiver<Command>, reports: &Sender<Report>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(31).build();
    let ended = match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, work(share, commands, reports)),
        Err(error) => Err(error.to_string()),
    };
    if let Err(problem) = ended {
        reports.send(Report::Broken(problem)).ok();
    }
}

async fn work(
    share: &Share,
    mut commands: UnboundedReceiver<Command>,
    reports: &Sender<Report>,
) -> Result<(), String> {
    let thread = Thread::open(share)?;
    thread.spawn();
    reports.send(Report::Ready(thread.ready().await)).ok();
    while let Some(command) = commands.recv().await {
        if let Command::Run(part) = command {
            let report = thread.part(part, &mut commands, reports).await;
            if let Some(why) = thread.broken() {
                return Err(why);
            }
            reports.send(Report::Ended(Box::new(report))).ok();
        }
    }
    Ok(())
}

struct Thread<'a> {
    share: &'a Share,
    lanes: Vec<Rc<Lane>>,
    changed: Rc<Notify>,
}

impl<'a> Thread<'a> {
    fn open(share: &'a Share) -> Result<Self, String> {
        let changed = Rc::new(Notify::new());
        let mut lanes = Vec::new();
        let script = share.setup.script.as_ref().map(|script| script.thread(share.number)).transpose()?;
        // Else it would be a part of the first handshake's time, and of opening all connections.
        if share.lanes.iter().any(|(plan, _)| plan.origin.https) {
            weir_net::tls::seed_thread();
        }
        let (script, chosen) = script.map(|(script, address)| (Rc::new(script), address)).unzip();
        for (plan, address) in &share.lanes {
            let connections = plan.connections.get(share.number).copied().unwrap_or(0);
            if connections == 0 {
                continue;
            }
            let parts = Parts {
                thread: u32::try_from(share.number).unwrap_or(u32::MAX),
                setup: Arc::clone(&share.setup),
                plan: Arc::clone(plan),
                clock: share.clock,
                address: chosen.unwrap_or(*address),
                tls: tls(&share.setup, plan)?,
                connections,
                changed: Rc::clone(&changed),
                schedule: share.schedule(plan, Pace::Stopped, 0),
                script: script.clone(),
            };
            let lane = Lane::new(parts).map_err(|error| error.to_string())?;
            lanes.push(Rc::new(lane));
        }
        Ok(Self { share, lanes, changed })
    }

    fn spawn(&self) {
        for lane in &self.lanes {
            spawn_local(Rc::clone(lane).pace());
            for number in 0..lane.untried.get() {
                spawn_local(connection::run(Rc::clone(lane), number));
            }
        }
    }

    /// Waits until every connection has been tried, where connections stay open.
    async fn ready(&self) -> Ready {
        if !self.share.setup.is_single_use() && self.share.setup.opening.is_none() {
            while self.lanes.iter().any(|lane| lane.untried.get() > 0) {
                self.changed.notified().await;
            }
        }
        let mut ready = Ready { established: 0, problem: None };
        for lane in &self.lanes {
            lane.look_at(|figures| {
                ready.established += figures.totals.connections - figures.totals.errors.tls;
                ready.problem =
                    ready.problem.take().or_else(|| figures.totals.errors.examples.first().cloned());
            });
        }
        ready
    }

    fn now_ns(&self) -> u64 {
        self.share.clock.now_ns()
    }

    async fn part(
        &self,
        part: Part,
        commands: &mut UnboundedReceiver<Command>,
        reports: &Sender<Report>,
    ) -> PartReport {
        tokio::time::sleep_until(self.share.clock.instant(part.begin_ns)).await;
        let mut times = Timetable::new(&part, self.share.setup.interval);
        for lane in &self.lanes {
            let pace = self.share.pace(&lane.plan, &part);
            lane.begin(self.share.schedule(&lane.plan, pace, times.end_ns));
        }
        let mut cpu = Cpu::now();
        // Requests are due from the moment that all threads were told, however late this one has got to it.
        let mut begun_ns = part.begin_ns;
        let mut interval_ns = begun_ns;
        let (mut warm_up, mut number) = (true, 0);
        loop {
            let now_ns = self.now_ns();
            let event = times.next(now_ns);
            match event {
                Event::Sweep => {
                    if self.share.setup.discipline != Discipline::Patient {
                        self.lanes.iter().for_each(|lane| lane.sweep(now_ns));
                    }
                    // Another thread may have sent the last request.
                    if !warm_up && self.is_done() {
                        break;
                    }
                }
                Event::WarmedUp => {
                    let mut figures = Figures::default();
                    for lane in &self.lanes {
                        figures.add(&lane.end_warm_up());
                    }
                    let length_ns = now_ns.saturating_sub(interval_ns);
                    reports.send(interval(true, number, length_ns, figures)).ok();
                    (warm_up, number) = (false, 0);
                    begun_ns = part.begin_ns + u64::try_from(part.warm_up.as_nanos()).unwrap_or(0);
                    (interval_ns, cpu) = (begun_ns, Cpu::now());
                }
                Event::Interval => {
                    let figures = self.take_figures();
                    reports.send(interval(warm_up, number, now_ns.saturating_sub(interval_ns), figures)).ok();
                    (interval_ns, number) = (now_ns, number + 1);
                }
                Event::End => break,
                Event::Wait(until_ns) => {
                    let stopped = tokio::select! {
                        () = tokio::time::sleep_until(self.share.clock.instant(until_ns)) => false,
                        () = self.changed.notified() => (!warm_up && self.is_done()) || self.broken().is_some(),
                        _ = commands.recv() => true,
                    };
                    if stopped {
                        break;
                    }
                }
            }
        }
        self.end(begun_ns, cpu, (warm_up, number, interval_ns))
    }

    /// Why the thread cannot go on, if so.
    fn broken(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| lane.broken())
    }

    fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_done())
    }

    fn end(&self, begun_ns: u64, cpu: Cpu, open: (bool, usize, u64)) -> PartReport {
        let last_ns = self.lanes.iter().map(|lane| lane.last_ns()).max();
        // Where all is done, waiting for other threads is no part of it.
        let now_ns = last_ns.filter(|_| self.is_done()).unwrap_or_else(|| self.now_ns());
        let (warm_up, number, interval_ns) = open;
        let figures = self.take_figures();
        let seconds = now_ns.saturating_sub(interval_ns) as f64 / 1e9;
        let mut waiting = Figures::default();
        for lane in &self.lanes {
            waiting.add(&lane.end(now_ns));
        }
        PartReport {
            last: Some(IntervalReport { warm_up, number, seconds, figures }),
            waiting,
            seconds: now_ns.saturating_sub(begun_ns) as f64 / 1e9,
            used: Cpu::now().since(&cpu),
            requests: self.lanes.iter().map(|lane| lane.sent()).sum(),
            connections: self.lanes.iter().map(|lane| lane.size()).sum(),
            seen: self.lanes.iter().find_map(|lane| lane.seen.borrow().clone()),
            http2: self.lanes.iter().find_map(|lane| lane.http2.get()),
        }
    }

    fn take_figures(&self) -> Figures {
        let mut figures = Figures::default();
        for lane in &self.lanes {
            figures.add(&lane.take_figures());
        }
        figures
    }
}

fn interval(warm_up: bool, number: usize, length_ns: u64, figures: Figures) -> Report {
    let seconds = length_ns as f64 / 1e9;
    Report::Interval(Box::new(IntervalReport { warm_up, number, seconds, figures }))
}

fn tls(setup: &Setup, plan: &LanePlan) -> Result<Option<Arc<TlsClient>>, String> {
    if !plan.origin.https {
        return Ok(None);
    }
    let alpn: &[&[u8]] = match setup.http {
        Http::One | Http::OneDotZero => &[b"http/1.1"],
        Http::Two => &[b"h2"],
        Http::Negotiated => &[b"h2", b"http/1.1"],
    };
    let options = ClientOptions {
        verify: !setup.insecure,
        ca_file: setup.ca_file.clone(),
        alpn: alpn.iter().map(|name| name.to_vec()).collect(),
        // Connections that are kept stand for as many clients, who know nothing of each other's sessions.
        no_resumption: setup.reuse != Reuse::NewResumed,
        ..ClientOptions::default()
    };
    let (client, _warnings) = TlsClient::new(&options).map_err(|error| error.to_string())?;
    Ok(Some(client))
}

impl Share {
    fn schedule(&self, plan: &LanePlan, pace: Pace, end_ns: u64) -> Schedule {
        let order = match &self.setup.order {
            // Threads draw differently, and the same in each run.
            Order::Lot => schedule::Order::Lot(self.setup.seed ^ ((self.number as u64) << 32)),
            Order::Turn | Order::Replay(_) => {
                schedule::Order::Turn((self.number % plan.weights.len().max(1)) as u32)
            }
        };
        let picker = Picker::new(&plan.weights, order);
        Schedule { pace, picker, budget: self.budget.clone(), end_ns }
    }

    fn pace(&self, plan: &LanePlan, part: &Part) -> Pace {
        match (&self.setup.load, part.rate) {
            (Load::Replay { speed }, _) => Pace::List {
                start_ns: part.begin_ns,
                speed: *speed,
                list: plan.list_of(self.number),
                taken: 0,
            },
            (_, Some(rate)) => {
                let part_of_gap = self.number as f64 / f64::from(self.setup.threads);
                Pace::Rate(Pacer::new(part.begin_ns, rate * plan.part_of(self.number), part_of_gap))
            }
            (_, None) => Pace::Closed,
        }
    }
}

/// What happens next in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Sweep,
    WarmedUp,
    Interval,
    End,
    Wait(u64),
}

/// When what happens in a part.
#[derive(Debug)]
struct Timetable {
    interval_ns: u64,
    /// None once it is over.
    warm_up_ns: Option<u64>,
    next_sweep_ns: u64,
    next_interval_ns: u64,
    end_ns: u64,
}

impl Timetable {
    fn new(part: &Part, interval: Duration) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let measured_ns = part.begin_ns.saturating_add(ns(part.warm_up));
        Self {
            interval_ns: ns(interval).max(1),
            warm_up_ns: Some(measured_ns),
            next_sweep_ns: part.begin_ns + ns(SWEEP),
            next_interval_ns: part.begin_ns + ns(interval).max(1),
            end_ns: part.measure.map_or(u64::MAX, |length| measured_ns.saturating_add(ns(length))),
        }
    }

    /// What is to be done now, the most important first.
    fn next(&mut self, now_ns: u64) -> Event {
        if now_ns >= self.end_ns {
            return Event::End;
        }
        if let Some(at_ns) = self.warm_up_ns.filter(|at_ns| now_ns >= *at_ns) {
            self.warm_up_ns = None;
            self.next_interval_ns = at_ns + self.interval_ns;
            return Event::WarmedUp;
        }
        if now_ns >= self.next_interval_ns {
            while self.next_interval_ns <= now_ns {
                self.next_interval_ns += self.interval_ns;
            }
            return Event::Interval;
        }
        if now_ns >= self.next_sweep_ns {
            self.next_sweep_ns = now_ns + SWEEP.as_nanos() as u64;
            return Event::Sweep;
        }
        let soonest_ns = self.next_sweep_ns.min(self.next_interval_ns).min(self.end_ns);
        Event::Wait(self.warm_up_ns.map_or(soonest_ns, |at_ns| soonest_ns.min(at_ns)))
    }
}

/// CPU time of this thread, and the time that it waited for a core, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) total: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// It could run and stood in the queue of a core; 0 where the kernel does not count it.
    pub(crate) queued: f64,
    /// How often it got a core.
    pub(crate) runs: u64,
}

/// Ticks a second in which the kernel says user and system time apart.
const TICKS: f64 = 100.0;

impl Cpu {
    fn now() -> Self {
        let total = thread_cpu_ns() as f64 / 1e9;
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let (user, system) = stat_ticks(&text).unwrap_or_default();
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let (queued_ns, runs) = run_queue(&text).unwrap_or_default();
        Self { total, user: user / TICKS, system: system / TICKS, queued: queued_ns as f64 / 1e9, runs }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            total: self.total - earlier.total,
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            queued: self.queued - earlier.queued,
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }
}

/// User and system time of a line of `/proc/PID/stat`: fields 14 and 15, counted behind the name in brackets.
fn stat_ticks(line: &str) -> Option<(f64, f64)> {
    let (_, fields) = line.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Nanoseconds in the run queue and how often the thread was run: the second and third field of
/// `/proc/PID/schedstat`.
fn run_queue(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[test]
    fn a_part_in_steps_of_time() {
        let ms = |count: u64| count * 1_000_000;
        let part = Part {
            begin_ns: ms(10),
            warm_up: Duration::from_millis(150),
            measure: Some(Duration::from_millis(230)),
            rate: None,
        };
        let mut times = Timetable::new(&part, Duration::from_millis(100));
        let mut now = ms(10);
        let mut found = Vec::new();
        loop {
            match times.next(now) {
                Event::Wait(until) => now = until,
                Event::Sweep => {}
                event => {
                    found.push((now / 1_000_000, event));
                    if event == Event::End {
                        break;
                    }
                }
            }
        }
        let expected = [
            (110, Event::Interval),
            (160, Event::WarmedUp),
            (260, Event::Interval),
            (360, Event::Interval),
            (390, Event::End),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn times_of_a_thread() {
        let line = "77 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0";
        assert_eq!(stat_ticks(line), Some((150.0, 25.0)));
        assert_eq!(stat_ticks("nothing"), None);
        assert_eq!(run_queue("40210388 911027 57\n"), Some((911_027, 57)));
        assert_eq!((run_queue(""), run_queue("1 x 3")), (None, None));
    }

    /// More threads than cores: this one has to wait for one now and then, and knows it.
    #[test]
    fn waiting_for_a_core_is_seen() {
        if run_queue(&std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default()).is_none() {
            return;
        }
        let stop = AtomicBool::new(false);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (begun, begin) = (Instant::now(), Cpu::now());
        let mut used = Cpu::default();
        std::thread::scope(|scope| {
            for _ in 0..=cores {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            while used.queued == 0.0 && begun.elapsed() < Duration::from_secs(20) {
                used = Cpu::now().since(&begin);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(used.queued > 0.0 && used.runs > 0, "{used:?}");
    }
}
