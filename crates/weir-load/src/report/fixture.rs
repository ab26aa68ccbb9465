//! Runs with figures made up, for the tests of the reports.

use crate::histogram::Histogram;
use crate::result::{
    Bottleneck, Errors, Generator, Interval, Load, Plan, Protocol, Reuse, RunResult, ServerSeen, Step,
    Target, ThreadLoad, Times, TlsSeen, Totals,
};

/// Times that grow as `1 / (1 - p)` does.
fn histogram(count: u64, base_ns: u64) -> Histogram {
    let mut histogram = Histogram::new();
    for number in 0..count {
        histogram.record_ns(base_ns + base_ns * count / (count - number) / 100);
    }
    histogram
}

/// A closed loop without errors, as wrk makes one.
pub(crate) fn closed() -> RunResult {
    let intervals = (0..10u32).map(|second| Interval {
        at_seconds: f64::from(second),
        seconds: 1.0,
        answers: 1000 + u64::from(second % 3) * 10,
        received_bytes: 260_000,
        p50_seconds: Some(0.001),
        p99_seconds: Some(0.002),
        max_seconds: Some(0.004),
        ..Interval::default()
    });
    RunResult {
        tool: "weir 0.1.0".to_owned(),
        label: "first".to_owned(),
        started_unix_seconds: 1_700_000_000.0,
        plan: Plan {
            targets: vec![Target {
                url: "http://127.0.0.1:8000/bytes/60".to_owned(),
                method: "GET".to_owned(),
                weight: 1,
            }],
            protocol: Protocol::Http1,
            threads: 2,
            connections: 10,
            streams: 1,
            load: Load::Closed,
            duration_seconds: Some(10.0),
            requests: None,
            warm_up_seconds: 0.0,
            reuse: Reuse::KeepAlive,
            timeout_seconds: 2.0,
            seed: 1,
            goal: None,
        },
        elapsed_seconds: 10.0,
        totals: Totals {
            requests: 10_000,
            answers: 10_000,
            statuses: [0, 10_000, 0, 0, 0],
            received_bytes: 2_600_000,
            sent_bytes: 900_000,
            body_bytes: 600_000,
            head_bytes: 2_000_000,
            connections: 10,
            ..Totals::default()
        },
        warm_up: Totals::default(),
        times: Times {
            uncorrected: histogram(10_000, 1_000_000),
            first_byte: histogram(10_000, 900_000),
            connect: histogram(10, 100_000),
            ..Times::default()
        },
        generator: Generator {
            user_seconds: 0.5,
            system_seconds: 1.5,
            threads: vec![
                ThreadLoad { cpu_share: 0.1, requests: 4000, connections: 5, ..ThreadLoad::default() },
                ThreadLoad { cpu_share: 0.25, requests: 6000, connections: 5, ..ThreadLoad::default() },
            ],
            ..Generator::default()
        },
        server: Some(ServerSeen {
            software: "weir-origin".to_owned(),
            status: 200,
            body_bytes: 60,
            tls: None,
        }),
        intervals: intervals.collect(),
        steps: Vec::new(),
        best_rate: None,
        samples: Vec::new(),
    }
}

/// A constant rate over TLS with every kind of error.
pub(crate) fn paced() -> RunResult {
    let mut result = closed();
    result.label = "second".to_owned();
    result.plan.load = Load::Rate { per_second: 1000.0 };
    result.plan.protocol = Protocol::Http2;
    result.plan.streams = 10;
    result.plan.warm_up_seconds = 2.0;
    result.plan.goal = Some("p99<5ms".to_owned());
    result.times.corrected = histogram(10_000, 1_200_000);
    result.times.handshake = histogram(10, 2_000_000);
    result.generator.lag = histogram(10_000, 20_000);
    result.totals.handshakes = 10;
    result.totals.resumed = 4;
    result.totals.statuses = [0, 9_900, 20, 30, 50];
    result.totals.waiting = 3;
    result.totals.unsent = 5;
    result.totals.errors = Errors {
        connect: 1,
        tls: 2,
        timeout: 3,
        reset: 4,
        protocol: 5,
        bad_status: 80,
        examples: vec!["connect: refused".to_owned(), "bad status: 503".to_owned()],
    };
    result.server = Some(ServerSeen {
        software: "nginx/1.22".to_owned(),
        status: 200,
        body_bytes: 60,
        tls: Some(TlsSeen {
            version: "TLSv1.3".to_owned(),
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            alpn: Some("h2".to_owned()),
        }),
    });
    for interval in &mut result.intervals {
        interval.asked_rate = Some(1000.0);
        interval.bad_status = 8;
    }
    result
}

/// A rate that rose until the goal was missed.
pub(crate) fn ramp() -> RunResult {
    let mut result = paced();
    result.plan.load = Load::Ramp { from: 1000.0, to: 3000.0, step_seconds: 5.0 };
    result.best_rate = Some(1000.0);
    let step = |rate: f64, held: bool| Step {
        rate,
        at_seconds: (rate / 1000.0 - 1.0) * 5.0,
        seconds: 5.0,
        totals: Totals { answers: (rate * 5.0) as u64, ..Totals::default() },
        times: Times { corrected: histogram(5000, (rate * 1000.0) as u64), ..Times::default() },
        held,
        reason: (!held).then(|| "p99 6.1 ms, goal 5 ms".to_owned()),
    };
    result.steps = vec![step(1000.0, true), step(2000.0, false)];
    result
}

/// A run in which the generator had no CPU time left.
pub(crate) fn starved() -> RunResult {
    let mut result = paced();
    result.generator.bottleneck = Bottleneck::Cpu { share: 0.99 };
    result
}
