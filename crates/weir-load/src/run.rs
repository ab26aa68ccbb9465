//! A run from its setup to its result: threads, parts, steps of a ramp.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::bottleneck::judge;
use crate::clock::Clock;
use crate::figures::Figures;
use crate::ramp::Ramp;
use crate::result::{
    Bottleneck, Generator, Interval, Load, Phase, Progress, Protocol, RunResult, ServerSeen, Step,
    ThreadLoad, Totals,
};
use crate::setup::{LanePlan, Setup, expected};
use crate::thread::{self, Command, IntervalReport, Part, PartReport, Report, Share};
use crate::url::{ConnectTo, Origin};

/// How long one address of several is tried before the next one.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Descriptors beside connections: the runtime's, standard streams, reports.
const SPARE_DESCRIPTORS: u64 = 64;

/// How long before its beginning threads are told of a part, so that they begin together.
const LEAD: Duration = Duration::from_millis(5);

/// How often a request to stop is looked for.
const STOP_POLL: Duration = Duration::from_millis(50);

/// The part of a ramp's step in which the new rate settles.
const SETTLE_PART: f64 = 0.1;

/// The longest time in which it settles.
const LONGEST_SETTLE: Duration = Duration::from_secs(1);

/// Runs it.  `stop` ends it early; what was found until then is the result.
///
/// # Errors
/// Nothing could be measured, and why.
pub fn run(
    setup: Setup,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<RunResult, String> {
    setup.check()?;
    allow_descriptors(&setup)?;
    let mut runner = Runner::start(setup)?;
    runner.wait_until_ready(stop)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock_began_ns = u64::try_from(started.as_nanos()).unwrap_or(0).saturating_sub(runner.clock.now_ns());
    let mut run = Run { progress, stop, began_ns: runner.clock.now_ns() };
    let mut result = match runner.setup.load {
        Load::Ramp { from, to, step_seconds } => {
            let step = Duration::from_secs_f64(step_seconds);
            runner.ramp(Ramp::new(from, to, runner.setup.rise), step, &mut run)?
        }
        _ => runner.single(&mut run)?,
    };
    result.started_unix_seconds = started.as_secs_f64();
    for sample in &mut result.samples {
        sample.began_unix_ns += clock_began_ns;
    }
    if let Some(script) = &runner.setup.script {
        script.flush();
    }
    runner.finish();
    Ok(result)
}

/// What goes with a run.
struct Run<'a> {
    progress: &'a mut dyn FnMut(&Progress),
    stop: &'a AtomicBool,
    began_ns: u64,
}

/// The threads.
struct Runner {
    setup: Arc<Setup>,
    clock: Clock,
    commands: Vec<UnboundedSender<Command>>,
    reports: Receiver<Report>,
    threads: Vec<JoinHandle<()>>,
}

impl Runner {
    fn start(setup: Setup) -> Result<Self, String> {
        let mut lanes = Vec::new();
        for plan in setup.divide()? {
            let address = address(&setup, &plan.origin)?;
            lanes.push((Arc::new(plan), address));
        }
        let setup = Arc::new(setup);
        let (sender, reports) = mpsc::channel();
        let clock = Clock::start();
        let budget = setup.count.map(|count| Arc::new(AtomicU64::new(count)));
        let (mut commands, mut threads) = (Vec::new(), Vec::new());
        for number in 0..setup.threads as usize {
            let lanes: Vec<(Arc<LanePlan>, SocketAddr)> = lanes.clone();
            let share = Share { number, setup: Arc::clone(&setup), lanes, clock, budget: budget.clone() };
            let (command, receiver) = unbounded_channel();
            let sender = sender.clone();
            let thread = std::thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn(move || thread::run(&share, receiver, &sender))
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            commands.push(command);
            threads.push(thread);
        }
        Ok(Self { setup, clock, commands, reports, threads })
    }

    /// Waits until the connections are open, so that opening them is not measured as latency.
    fn wait_until_ready(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let (mut left, mut established, mut problem) = (self.threads.len(), 0, None);
        while left > 0 {
            match self.receive(stop)? {
                Some(Report::Ready(ready)) => {
                    left -= 1;
                    established += ready.established;
                    problem = problem.or(ready.problem);
                }
                Some(_) => {}
                None => return Err("stopped before the connections were open".into()),
            }
        }
        match problem {
            Some(problem) if established == 0 && !self.setup.is_single_use() && !self.setup.is_divided() => {
                let names: Vec<String> = self.servers();
                Err(format!("no connection to {}: {problem}", names.join(", ")))
            }
            _ => Ok(()),
        }
    }

    fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.setup.requests.iter().map(|weighted| weighted.request.url.origin.to_string()).collect();
        names.dedup();
        names.truncate(3);
        names
    }

    /// The next report; nothing when the run is to stop.
    fn receive(&self, stop: &AtomicBool) -> Result<Option<Report>, String> {
        loop {
            match self.reports.recv_timeout(STOP_POLL) {
                Ok(Report::Broken(problem)) => return Err(problem),
                Ok(report) => return Ok(Some(report)),
                Err(RecvTimeoutError::Disconnected) => return Err("a thread of the generator ended".into()),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn tell(&self, command: Command) {
        for sender in &self.commands {
            // A thread that has ended has said so with its report.
            sender.send(command).ok();
        }
    }

    /// Runs one part on all threads and gathers what they found.
    fn part(&self, part: Part, run: &mut Run<'_>) -> Result<Gathered, String> {
        self.tell(Command::Run(part));
        let mut gathered = Gathered::new(self.threads.len(), &self.setup, part);
        let mut stopped = false;
        while gathered.ended < self.threads.len() {
            // Once it is told to stop, the threads' last reports are waited for.
            let stop = if stopped { &AtomicBool::new(false) } else { run.stop };
            match self.receive(stop)? {
                Some(Report::Interval(report)) => gathered.interval(*report, run),
                Some(Report::Ended(report)) => gathered.ended(*report, run),
                Some(Report::Ready(_) | Report::Broken(_)) => {}
                None => {
                    stopped = true;
                    self.tell(Command::Stop);
                }
            }
        }
        gathered.flush(run);
        // Connections are mostly opened before the measuring begins, and belong to it.
        let warm_up = std::mem::take(&mut gathered.warm_up);
        gathered.warm_up_totals = warm_up.totals.clone();
        let warm_up = warm_up.connections_only();
        gathered.figures.add(&warm_up);
        Ok(gathered)
    }

    fn begin_ns(&self) -> u64 {
        self.clock.now_ns() + LEAD.as_nanos() as u64
    }

    fn single(&self, run: &mut Run<'_>) -> Result<RunResult, String> {
        let rate = match self.setup.load {
            Load::Rate { per_second } => Some(per_second),
            Load::Closed | Load::Ramp { .. } | Load::Replay { .. } => None,
        };
        let begin_ns = self.begin_ns();
        run.began_ns = begin_ns + self.setup.warm_up.as_nanos() as u64;
        let (warm_up, measure) = (self.setup.warm_up, self.setup.duration);
        let gathered = self.part(Part { begin_ns, warm_up, measure, rate }, run)?;
        Ok(gathered.result(&self.setup))
    }

    fn ramp(&self, mut ramp: Ramp, length: Duration, run: &mut Run<'_>) -> Result<RunResult, String> {
        let settle = length.mul_f64(SETTLE_PART).min(LONGEST_SETTLE);
        let mut whole: Option<Gathered> = None;
        let mut steps = Vec::new();
        let mut repeated = false;
        loop {
            let begin_ns = self.begin_ns();
            // The first step has the run's own warm-up.
            let warm_up = if steps.is_empty() { self.setup.warm_up.max(settle) } else { settle };
            if steps.is_empty() {
                run.began_ns = begin_ns + warm_up.as_nanos() as u64;
            }
            let measure = Some(length.saturating_sub(settle));
            let rate = ramp.rate();
            let gathered = self.part(Part { begin_ns, warm_up, measure, rate: Some(rate) }, run)?;
            let reason = gathered.missed(&self.setup);
            let held = reason.is_none();
            // What the generator spoiled says nothing about the server: the step is taken again, once.
            let again = gathered.bottleneck() != Bottleneck::None && !repeated;
            repeated = again;
            steps.push(gathered.step(rate, reason, run.began_ns));
            match &mut whole {
                Some(whole) => whole.add(gathered),
                None => whole = Some(gathered),
            }
            if run.stop.load(Ordering::Relaxed) || !(again || ramp.step_ended(held)) {
                break;
            }
        }
        let mut result = whole.map(|whole| whole.result(&self.setup)).ok_or("a ramp without a step")?;
        result.steps = steps;
        result.best_rate = ramp.best();
        Ok(result)
    }

    fn finish(self) {
        drop(self.commands);
        for thread in self.threads {
            // A panic has been printed where it happened; the figures are complete without the thread.
            thread.join().ok();
        }
    }
}

/// What the threads found in a part.
struct Gathered {
    threads: usize,
    part: Part,
    /// The rate of a ramp's step.
    step_rate: Option<f64>,
    interval_seconds: f64,
    open: BTreeMap<(bool, usize), (usize, IntervalReport)>,
    intervals: Vec<Interval>,
    figures: Figures,
    /// Of the warm-up, while the part lasts.
    warm_up: Figures,
    warm_up_totals: Totals,
    ended: usize,
    seconds: f64,
    user_seconds: f64,
    system_seconds: f64,
    thread_loads: Vec<ThreadLoad>,
    seen: Option<ServerSeen>,
    http2: Option<bool>,
}

impl Gathered {
    fn new(threads: usize, setup: &Setup, part: Part) -> Self {
        Self {
            threads,
            part,
            step_rate: part.rate.filter(|_| matches!(setup.load, Load::Ramp { .. })),
            interval_seconds: setup.interval.as_secs_f64(),
            open: BTreeMap::new(),
            intervals: Vec::new(),
            figures: Figures::default(),
            warm_up: Figures::default(),
            warm_up_totals: Totals::default(),
            ended: 0,
            seconds: 0.0,
            user_seconds: 0.0,
            system_seconds: 0.0,
            thread_loads: Vec::new(),
            seen: None,
            http2: None,
        }
    }

    fn interval(&mut self, report: IntervalReport, run: &mut Run<'_>) {
        let key = (!report.warm_up, report.number);
        let threads = self.threads;
        let complete = match self.open.get_mut(&key) {
            Some((count, sum)) => {
                *count += 1;
                sum.figures.add(&report.figures);
                sum.seconds = sum.seconds.max(report.seconds);
                *count == threads
            }
            None => {
                self.open.insert(key, (1, report));
                threads == 1
            }
        };
        if complete && let Some((_, report)) = self.open.remove(&key) {
            self.close(report, run);
        }
    }

    fn ended(&mut self, report: PartReport, run: &mut Run<'_>) {
        self.ended += 1;
        self.seconds = self.seconds.max(report.seconds);
        self.user_seconds += report.used.user;
        self.system_seconds += report.used.system;
        self.figures.add(&report.waiting);
        let share = |seconds: f64| if report.seconds > 0.0 { seconds / report.seconds } else { 0.0 };
        self.thread_loads.push(ThreadLoad {
            cpu_share: share(report.used.total),
            queued_share: share(report.used.queued),
            queued_mean_seconds: report.used.queued / (report.used.runs as f64).max(1.0),
            requests: report.requests,
            connections: report.connections,
        });
        self.seen = self.seen.take().or(report.seen);
        self.http2 = self.http2.or(report.http2);
        if let Some(last) = report.last {
            self.interval(last, run);
        }
    }

    /// Closes intervals that only some of the threads reached.
    fn flush(&mut self, run: &mut Run<'_>) {
        while let Some((_, (_, report))) = self.open.pop_first() {
            self.close(report, run);
        }
    }

    fn close(&mut self, report: IntervalReport, run: &mut Run<'_>) {
        let sum = if report.warm_up { &mut self.warm_up } else { &mut self.figures };
        sum.add(&report.figures);
        if report.warm_up && self.part.warm_up.is_zero() {
            return;
        }
        let totals = sum.totals.clone();
        let offset_seconds = (self.part.begin_ns as f64 - run.began_ns as f64) / 1e9
            + if report.warm_up { 0.0 } else { self.part.warm_up.as_secs_f64() };
        let latency = Some(report.figures.times.latency()).filter(|latency| !latency.is_empty());
        let found = &report.figures.totals;
        let interval = Interval {
            at_seconds: offset_seconds + report.number as f64 * self.interval_seconds,
            seconds: report.seconds,
            answers: found.answers,
            failed: found.errors.failed(),
            bad_status: found.errors.bad_status,
            received_bytes: found.received_bytes,
            asked_rate: self.part.rate,
            p50_seconds: latency.map(|latency| latency.percentile(50.0).as_secs_f64()),
            p99_seconds: latency.map(|latency| latency.percentile(99.0).as_secs_f64()),
            max_seconds: latency.map(|latency| latency.max().as_secs_f64()),
        };
        let phase = match self.step_rate {
            Some(rate) => Phase::Step { rate },
            None if report.warm_up => Phase::WarmUp,
            None => Phase::Measuring,
        };
        let done = self.part.measure.filter(|_| !report.warm_up).map(|length| {
            ((report.number as f64 * self.interval_seconds + report.seconds) / length.as_secs_f64()).min(1.0)
        });
        (run.progress)(&Progress { phase, interval: interval.clone(), totals, done });
        if !report.warm_up {
            self.intervals.push(interval);
        }
    }

    fn bottleneck(&self) -> Bottleneck {
        judge(self.seconds, &self.thread_loads, &self.figures.lag, &self.figures.times)
    }

    /// Why a step did not hold; nothing when it did.
    fn missed(&self, setup: &Setup) -> Option<String> {
        if self.bottleneck() != Bottleneck::None {
            return Some("the generator itself was the bottleneck".into());
        }
        let goal = setup.goal.clone().unwrap_or_default();
        goal.missed(self.figures.times.latency(), &self.figures.totals)
            .or_else(|| self.too_slow(self.part.rate?))
    }

    /// A server that answers less than is asked falls behind for ever, however patient the goal is.
    fn too_slow(&self, rate: f64) -> Option<String> {
        /// The part of the rate that has to be answered within the step.
        const ANSWERED_PART: f64 = 0.97;
        let answered = self.figures.totals.answers as f64 / self.seconds.max(f64::MIN_POSITIVE);
        // Of few requests one more or less is no failure.
        let expected = rate * ANSWERED_PART - 1.0 / self.seconds.max(f64::MIN_POSITIVE);
        (answered < expected).then(|| format!("answered {answered:.0}/s of {rate:.0}/s"))
    }

    fn step(&self, rate: f64, reason: Option<String>, began_ns: u64) -> Step {
        let measured_ns = self.part.begin_ns as f64 + self.part.warm_up.as_nanos() as f64;
        Step {
            rate,
            at_seconds: (measured_ns - began_ns as f64) / 1e9,
            seconds: self.seconds,
            totals: self.figures.totals.clone(),
            times: self.figures.times.clone(),
            held: reason.is_none(),
            reason,
        }
    }

    fn add(&mut self, later: Self) {
        self.intervals.extend(later.intervals);
        self.figures.add(&later.figures);
        self.seconds += later.seconds;
        self.user_seconds += later.user_seconds;
        self.system_seconds += later.system_seconds;
        for (sum, more) in self.thread_loads.iter_mut().zip(later.thread_loads) {
            sum.cpu_share = sum.cpu_share.max(more.cpu_share);
            sum.queued_share = sum.queued_share.max(more.queued_share);
            sum.queued_mean_seconds = sum.queued_mean_seconds.max(more.queued_mean_seconds);
            sum.requests += more.requests;
        }
    }

    fn result(self, setup: &Setup) -> RunResult {
        let protocol = match self.http2 {
            Some(true) => Protocol::Http2,
            Some(false) => Protocol::Http1,
            None => expected(setup.http),
        };
        let bottleneck = self.bottleneck();
        RunResult {
            tool: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            label: setup.label.clone(),
            started_unix_seconds: 0.0,
            plan: setup.plan(protocol),
            elapsed_seconds: self.seconds,
            totals: self.figures.totals,
            warm_up: self.warm_up_totals,
            times: self.figures.times,
            generator: Generator {
                user_seconds: self.user_seconds,
                system_seconds: self.system_seconds,
                threads: self.thread_loads,
                lag: self.figures.lag,
                bottleneck,
            },
            server: self.seen,
            intervals: self.intervals,
            steps: Vec::new(),
            best_rate: None,
            samples: self.figures.samples,
        }
    }
}

/// Where a server is; of several addresses the first that takes a connection.
fn address(setup: &Setup, origin: &Origin) -> Result<SocketAddr, String> {
    let (host, port) = ConnectTo::apply(&setup.connect_to, origin);
    let found = (host.as_str(), port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found.map_err(|error| format!("{host}: {error}"))?.collect();
    match addresses.as_slice() {
        [] => Err(format!("{host}: no address")),
        [only] => Ok(*only),
        [first, ..] => {
            let reached = |to: &&SocketAddr| TcpStream::connect_timeout(to, ADDRESS_TIMEOUT).is_ok();
            Ok(*addresses.iter().find(reached).unwrap_or(first))
        }
    }
}

/// Asks the system for as many descriptors as the connections need.
fn allow_descriptors(setup: &Setup) -> Result<(), String> {
    let needed = u64::from(setup.connections) + u64::from(setup.threads) * 8 + SPARE_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|maximum| *maximum < needed) {
        let connections = setup.connections;
        return Err(format!("{connections} connections need {needed} descriptors, the limit is {maximum}"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| format!("cannot have {needed} descriptors: {error}"))
}
