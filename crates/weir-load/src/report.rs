//! What is shown of a run: on the terminal, as files, as a page.
//!
//! Everything here is a function from the figures of [`crate::result`] to text; nothing is measured and nothing is
//! written to a file here.

pub mod plot;

mod hgrm;
mod json;
mod live;
mod page;
mod samples;
mod summary;
mod table;
pub mod units;

pub use hgrm::hgrm;
pub use json::{MAX_FILE_BYTES, read, write};
pub use live::Live;
pub use page::{MAX_RUNS, by_rate, figure, figures, page, percentile_picture, percentiles, sheet};
pub use samples::{gnuplot, percentages, request_log};
pub use summary::{Details, opening, summary};
pub use table::table;

use crate::result::{Bottleneck, Load, Plan, Protocol, Reuse, RunResult};

/// The percentiles of every table.
pub(crate) const PERCENTILES: [(&str, f64); 7] = [
    ("50 %", 50.0),
    ("75 %", 75.0),
    ("90 %", 90.0),
    ("99 %", 99.0),
    ("99.9 %", 99.9),
    ("99.99 %", 99.99),
    ("99.999 %", 99.999),
];

/// What limited the run, in a sentence, when it was the generator.
pub(crate) fn warning(result: &RunResult) -> Option<String> {
    match result.generator.bottleneck {
        Bottleneck::None => None,
        Bottleneck::Cpu { share } => Some(format!(
            "The generator was the bottleneck: its busiest thread used {} of a core. Give it more threads or cores, or \
             lower the load.",
            units::percent(share)
        )),
        Bottleneck::Starved { share, mean_seconds } => Some(format!(
            "The generator was the bottleneck: a thread of it waited for a core in {} of the time, {} at a time. Give it \
             cores of its own, or lower the load.",
            units::percent(share),
            units::time(mean_seconds)
        )),
        Bottleneck::Lag { p99_seconds } => Some(format!(
            "The generator was the bottleneck: 1 % of the requests left {} or more behind their time although a \
             connection was free. Give it more threads or cores, or lower the load.",
            units::time(p99_seconds)
        )),
    }
}

/// The plan in a sentence without its targets.
pub(crate) fn plan(plan: &Plan) -> String {
    let protocol = match plan.protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
    };
    let mut text = format!(
        "{protocol}, {}, {}",
        units::counted(u64::from(plan.threads), "thread"),
        units::counted(u64::from(plan.connections), "connection")
    );
    if plan.streams > 1 {
        text.push_str(&format!(" with {} requests at once on each", plan.streams));
    }
    text.push_str(match plan.reuse {
        Reuse::KeepAlive => "",
        Reuse::NewResumed => ", a new one for every request (TLS resumed)",
        Reuse::NewFull => ", a new one for every request",
    });
    text.push_str(&match plan.load {
        Load::Closed => ", as fast as responses come".to_owned(),
        Load::Rate { per_second } => format!(", {} requests/s", units::rate(per_second)),
        Load::Ramp { from, to, step_seconds } => format!(
            ", {} to {} requests/s by steps of {}",
            units::rate(from),
            units::rate(to),
            units::short_time(step_seconds)
        ),
        Load::Replay { speed: 1.0 } => ", at the times of a log".to_owned(),
        Load::Replay { speed } => format!(", at {} times the speed of a log", units::short(speed)),
    });
    // A ramp lasts as long as its steps do.
    if let Some(seconds) = plan.duration_seconds
        && !matches!(plan.load, Load::Ramp { .. })
    {
        text.push_str(&format!(", for {}", units::short_time(seconds)));
    }
    if let Some(requests) = plan.requests {
        text.push_str(&format!(", {} in all", units::counted(requests, "request")));
    }
    if plan.warm_up_seconds > 0.0 {
        text.push_str(&format!(" after {} of warm-up", units::short_time(plan.warm_up_seconds)));
    }
    text
}

#[cfg(test)]
mod fixture;
