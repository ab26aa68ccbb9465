//! Summaries in the shape of the tools by whose names the program can be called, for scripts that read them.
//!
//! A figure that a tool takes in another way than Weir is the nearest one that Weir takes; docs/load.md lists them.

mod ab;
mod h2load;
mod wrk;

use super::{table, warning};
use crate::histogram::Histogram;
use crate::result::{Personality, Plan, RunResult};

/// What a tool prints when it begins.
#[must_use]
pub fn opening(personality: Personality, plan: &Plan) -> String {
    match personality {
        Personality::Weir => String::new(),
        Personality::Wrk | Personality::Wrk2 => wrk::opening(plan),
        Personality::H2load => "starting benchmark...\n".to_owned(),
        Personality::Ab => ab::opening(plan),
    }
}

/// What options ask of a summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    /// wrk and wrk2: the distribution of latencies.
    pub latency: bool,
    /// wrk2: the distribution of uncorrected latencies too.
    pub uncorrected: bool,
    /// ab: answers may be of any length; otherwise those that differ from the first one have failed.
    pub any_length: bool,
    /// ab: without the table of percentages.
    pub no_percentages: bool,
    /// ab: without deviations and medians.
    pub no_deviations: bool,
}

/// What a tool prints at the end.
#[must_use]
pub fn summary(personality: Personality, result: &RunResult, details: Details) -> String {
    let text = match personality {
        Personality::Weir => return table(result),
        Personality::Wrk => wrk::wrk(result, details),
        Personality::Wrk2 => wrk::wrk2(result, details),
        Personality::H2load => h2load::h2load(result),
        Personality::Ab => ab::ab(result, details),
    };
    match warning(result) {
        Some(warning) => format!("{text}WARNING: {warning}\n"),
        None => text,
    }
}

/// What tools print of a distribution, in one unit.
struct Spread {
    min: f64,
    mean: f64,
    deviation: f64,
    max: f64,
    /// The share within one deviation of the mean, 0 to 1.
    within: f64,
}

impl Spread {
    /// Of times, in seconds.
    fn of_times(times: &Histogram) -> Self {
        Self {
            min: times.min().as_secs_f64(),
            mean: times.mean_ns() / 1e9,
            deviation: times.deviation_ns() / 1e9 * of_sample(times.count()),
            max: times.max().as_secs_f64(),
            within: times.within_deviation(),
        }
    }

    /// Of a list of figures.
    fn of(figures: &[f64]) -> Self {
        let count = figures.len().max(1) as f64;
        let mean = figures.iter().sum::<f64>() / count;
        let deviation = (figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>() / count).sqrt()
            * of_sample(figures.len() as u64);
        let within = figures.iter().filter(|figure| (*figure - mean).abs() <= deviation).count();
        Self {
            min: figures.iter().copied().reduce(f64::min).unwrap_or(0.0),
            mean,
            deviation,
            max: figures.iter().copied().fold(0.0, f64::max),
            within: within as f64 / count,
        }
    }
}

/// What makes the deviation of all that of a sample, as tools print it.
fn of_sample(count: u64) -> f64 {
    if count > 1 { (count as f64 / (count - 1) as f64).sqrt() } else { 0.0 }
}

/// `number / seconds`, and 0 for no time.
fn per_second(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}

/// Two digits behind the point and a unit: the first in which the number is below the next one's step.
fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let mut number = number;
    let mut unit = 0;
    while number >= step && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    format!("{number:.2}{}", units[unit])
}
