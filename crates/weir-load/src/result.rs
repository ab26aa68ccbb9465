//! What a run found: plain data, written to and read from JSON.
//!
//! Owns the names and units of all figures.  Who takes them is `run`; what is made of them is `report`.
//! Times are seconds in fields that end in `_seconds`, nanoseconds in histograms.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::sample::Sample;

/// One run, or one ramp of several steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// What made the file, with its version: `weir 0.1.0`.
    pub tool: String,
    /// How the run is named where several are drawn together.
    pub label: String,
    /// When the measured part began, in seconds since 1970.
    pub started_unix_seconds: f64,
    /// What was asked for.
    pub plan: Plan,
    /// How long requests were sent and measured, the warm-up not counted.
    pub elapsed_seconds: f64,
    /// Everything that was counted in that time.
    pub totals: Totals,
    /// What was counted in the warm-up, for tools that count it with the rest.
    #[serde(default)]
    pub warm_up: Totals,
    /// Times of requests and connections in that time.
    pub times: Times,
    /// The generator itself.
    pub generator: Generator,
    /// What the servers said of themselves with the first answer.
    pub server: Option<ServerSeen>,
    /// The same figures for each interval, in order.
    pub intervals: Vec<Interval>,
    /// The steps of a ramp; none without one.
    pub steps: Vec<Step>,
    /// The highest rate of a step that held the goal, in requests a second.
    pub best_rate: Option<f64>,
    /// Each request, where they were kept; they are not in the file.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl RunResult {
    /// Requests that took longer than allowed, whether they were given up or waited for.
    #[must_use]
    pub fn late(&self) -> u64 {
        let allowed_ns = self.plan.timeout_seconds * 1e9;
        let late = self.times.uncorrected.buckets().filter(|(ns, _)| *ns as f64 > allowed_ns);
        self.totals.errors.timeout.max(late.map(|(_, count)| count).sum())
    }
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where requests go, at least one.
    pub targets: Vec<Target>,
    /// The version of HTTP.
    pub protocol: Protocol,
    /// Threads that send.
    pub threads: u32,
    /// Connections of all threads together.
    pub connections: u32,
    /// Requests in progress on one connection (`-m`).
    pub streams: u32,
    /// When requests are sent.
    pub load: Load,
    /// How long; none when requests are counted instead.
    pub duration_seconds: Option<f64>,
    /// How many requests; none when time is counted instead.
    pub requests: Option<u64>,
    /// How long the load ran before the measuring began.
    pub warm_up_seconds: f64,
    /// When connections are opened.
    pub reuse: Reuse,
    /// How long an answer may take.
    pub timeout_seconds: f64,
    /// The start of everything that is drawn by lot.
    pub seed: u64,
    /// The goal, as it was written: `p99<5ms`.
    pub goal: Option<String>,
}

/// One URL or one list of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The URL; of a list, the server that it was sent to.
    pub url: String,
    /// The method; of a list, the file's name.
    pub method: String,
    /// How many requests it gets compared with the others.
    pub weight: u32,
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1
    Http1,
    /// HTTP/2
    Http2,
}

/// When requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Load {
    /// The next one when an answer has come, on every connection (as wrk): latency is not corrected.
    Closed,
    /// At a constant rate, whatever the answers do (as wrk2).
    Rate {
        /// Requests a second.
        per_second: f64,
    },
    /// At a rate that rises by steps.
    Ramp {
        /// The first step's requests a second.
        from: f64,
        /// The last step's, if all steps before it hold the goal.
        to: f64,
        /// How long a step lasts.
        step_seconds: f64,
    },
    /// When a log says.
    Replay {
        /// How much faster than the log: 1 for its own timing.
        speed: f64,
    },
}

impl Load {
    /// True where requests are due at a time, so that latency is counted from that time.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        !matches!(self, Self::Closed)
    }
}

/// When connections are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// Connections stay open.
    KeepAlive,
    /// Every request has its own connection; TLS sessions are resumed.
    NewResumed,
    /// Every request has its own connection, every TLS handshake is a full one.
    NewFull,
}

/// Everything that is counted.  A request that was begun ends in exactly one of `answers`, an error, or
/// `waiting`; one that was due and not begun is `unsent`.  Errors of connections that had no request are
/// counted as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that were sent, also in part.
    pub requests: u64,
    /// Answers that were complete, whatever their status.
    pub answers: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Requests that waited for their answer when the run ended; their time so far is in the latencies.
    pub waiting: u64,
    /// Requests that were due and not sent when the run ended; their time so far is in the corrected latency.
    pub unsent: u64,
    /// Answers by the first digit of their status: 1xx to 5xx; interim answers (1xx) are not answers.
    pub statuses: [u64; 5],
    /// Bytes read, of TLS its plaintext.
    pub received_bytes: u64,
    /// Bytes written, of TLS its plaintext.
    pub sent_bytes: u64,
    /// Bytes of the bodies read.
    pub body_bytes: u64,
    /// Bytes of the heads read, as fields and not as they were compressed for the wire.
    pub head_bytes: u64,
    /// Connections that were established.
    pub connections: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
}

impl Totals {
    /// Answers with a status that the goal counts as good: 2xx and 3xx.
    #[must_use]
    pub fn good(&self) -> u64 {
        self.statuses[1] + self.statuses[2]
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.answers += other.answers;
        self.errors.add(&other.errors);
        self.waiting += other.waiting;
        self.unsent += other.unsent;
        for (sum, more) in self.statuses.iter_mut().zip(other.statuses) {
            *sum += more;
        }
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.body_bytes += other.body_bytes;
        self.head_bytes += other.head_bytes;
        self.connections += other.connections;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
    }
}

/// What went wrong, each told apart.  All but `bad_status` are requests or connections without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The connection could not be opened.
    pub connect: u64,
    /// The TLS handshake failed.
    pub tls: u64,
    /// No answer within the time allowed; the time is in the latencies.
    pub timeout: u64,
    /// The connection or the stream was reset or closed before the answer was complete.
    pub reset: u64,
    /// What came was no HTTP.
    pub protocol: u64,
    /// Answers with a status of 400 and above; they are in `answers` too.
    pub bad_status: u64,
    /// The first error of each kind in words, without repetition.
    pub examples: Vec<String>,
}

impl Errors {
    /// Most examples that are kept.
    pub const MAX_EXAMPLES: usize = 8;

    /// Each kind by name, and how often it came.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, u64); 6] {
        [
            ("connect", self.connect),
            ("TLS", self.tls),
            ("timeout", self.timeout),
            ("reset", self.reset),
            ("protocol", self.protocol),
            ("bad status", self.bad_status),
        ]
    }

    /// Requests or connections that got no answer.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.connect + self.tls + self.timeout + self.reset + self.protocol
    }

    /// Keeps an example, unless it is known or there are enough.
    pub fn example(&mut self, text: String) {
        if self.examples.len() < Self::MAX_EXAMPLES && !self.examples.contains(&text) {
            self.examples.push(text);
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.tls += other.tls;
        self.timeout += other.timeout;
        self.reset += other.reset;
        self.protocol += other.protocol;
        self.bad_status += other.bad_status;
        for text in &other.examples {
            self.example(text.clone());
        }
    }
}

/// Times of requests and connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From the moment a request was due until its answer was complete; empty for a closed loop.
    pub corrected: Histogram,
    /// From the moment a request was sent until its answer was complete.
    pub uncorrected: Histogram,
    /// From the moment a request was sent until the first byte of its answer.
    pub first_byte: Histogram,
    /// Opening a connection, without TLS.
    pub connect: Histogram,
    /// The TLS handshake.
    pub handshake: Histogram,
}

impl Times {
    /// What the report is about: corrected where there is a rate.
    #[must_use]
    pub fn latency(&self) -> &Histogram {
        if self.corrected.is_empty() { &self.uncorrected } else { &self.corrected }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.corrected.add(&other.corrected);
        self.uncorrected.add(&other.uncorrected);
        self.first_byte.add(&other.first_byte);
        self.connect.add(&other.connect);
        self.handshake.add(&other.handshake);
    }
}

/// The generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time in user mode.
    pub user_seconds: f64,
    /// CPU time in the kernel.
    pub system_seconds: f64,
    /// Each thread.
    pub threads: Vec<ThreadLoad>,
    /// How late requests were sent although a connection was free for them.
    pub lag: Histogram,
    /// Whether the figures are the generator's own rather than the server's.
    pub bottleneck: Bottleneck,
}

/// One thread of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadLoad {
    /// CPU time of the thread over the time that passed, 0 to 1.
    pub cpu_share: f64,
    /// The time in which the thread could run and waited for a core, over the time that passed, 0 to 1.
    #[serde(default)]
    pub queued_share: f64,
    /// How long it waited for a core each time that it could run, on average.
    #[serde(default)]
    pub queued_mean_seconds: f64,
    /// Requests that it sent.
    pub requests: u64,
    /// Its connections.
    pub connections: u32,
}

/// Whether the generator was what limited the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Bottleneck {
    /// It was not.
    #[default]
    None,
    /// A thread had no CPU time left.
    Cpu {
        /// Of the busiest thread, 0 to 1.
        share: f64,
    },
    /// A thread that could run waited for a core, so that requests left late and answers were read late.
    Starved {
        /// The part of the time that the thread waited for a core, 0 to 1.
        share: f64,
        /// How long it waited each time, on average.
        mean_seconds: f64,
    },
    /// Requests were sent late although a connection was free.
    Lag {
        /// The 99th percentile of how late.
        p99_seconds: f64,
    },
}

/// What a server said with the first answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// The field `server`.
    pub software: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Version and cipher suite, as `TLSv1.3` and `TLS_AES_128_GCM_SHA256`.
    pub tls: Option<TlsSeen>,
}

/// A TLS connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TlsSeen {
    /// As `TLSv1.3`.
    pub version: String,
    /// As `TLS_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// The protocol that was agreed on, as `h2`.
    pub alpn: Option<String>,
}

/// A part of the run, usually a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, from the beginning of the measured part.
    pub at_seconds: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// Answers that were complete.
    pub answers: u64,
    /// Requests and connections without an answer.
    pub failed: u64,
    /// Answers with a status of 400 and above.
    pub bad_status: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// The rate that was asked for.
    pub asked_rate: Option<f64>,
    /// Latency, corrected where there is a rate; none where nothing was answered.
    pub p50_seconds: Option<f64>,
    /// The 99th percentile.
    pub p99_seconds: Option<f64>,
    /// The longest.
    pub max_seconds: Option<f64>,
}

impl Interval {
    /// Answers a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.answers as f64 / self.seconds } else { 0.0 }
    }
}

/// One step of a ramp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The rate that was asked for, in requests a second.
    pub rate: f64,
    /// When it began, from the beginning of the measured part.
    pub at_seconds: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// Everything that was counted in it.
    pub totals: Totals,
    /// Its times.
    pub times: Times,
    /// Whether it held the goal.
    pub held: bool,
    /// Why it did not.
    pub reason: Option<String>,
}

/// What is told while a run goes on, once an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What the run does at the moment.
    pub phase: Phase,
    /// The interval that has just ended.
    pub interval: Interval,
    /// Everything since the beginning of the measured part; of the warm-up while that lasts.
    pub totals: Totals,
    /// How much of the run is over, 0 to 1, where that is known.
    pub done: Option<f64>,
}

/// What a run does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Load without measuring.
    WarmUp,
    /// The measured part.
    Measuring,
    /// A step of a ramp, at so many requests a second, its beginning included.
    Step {
        /// Requests a second.
        rate: f64,
    },
}

/// Whose summary is printed at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Personality {
    /// The program's own table.
    #[default]
    Weir,
    /// That of wrk.
    Wrk,
    /// That of wrk2.
    Wrk2,
    /// That of h2load.
    H2load,
    /// That of ab.
    Ab,
}
