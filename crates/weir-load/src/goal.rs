//! What a run has to hold: `p99<5ms,errors<0.1%`.
//!
//! Owns the grammar of a goal and whether figures hold it.  Who asks is `ramp` by way of `run`.

use std::fmt;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::result::Totals;

/// Conditions that a goal may have: more than anybody reads.
const MAX_CONDITIONS: usize = 16;

/// The share of requests that may fail where the goal does not say it.
const DEFAULT_ERRORS: f64 = 0.01;

/// All conditions, each of which has to hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    text: String,
    conditions: Vec<Condition>,
    errors: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    what: What,
    below: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Percentile(f64),
    Mean,
    Max,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percent) => write!(f, "p{percent}"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Goal {
    /// Reads conditions with commas between them.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut goal = Self { text: text.to_owned(), ..Self::default() };
        for condition in text.split(',') {
            let (what, limit) = condition
                .split_once('<')
                .ok_or_else(|| format!("'{condition}': expected for example p99<5ms or errors<1%"))?;
            let limit = limit.strip_prefix('=').unwrap_or(limit).trim();
            match what.trim() {
                "errors" => goal.errors = Some(share(limit)?),
                "mean" => goal.push(What::Mean, limit)?,
                "max" => goal.push(What::Max, limit)?,
                name => goal.push(What::Percentile(percentile(name)?), limit)?,
            }
        }
        Ok(goal)
    }

    fn push(&mut self, what: What, limit: &str) -> Result<(), String> {
        if self.conditions.len() == MAX_CONDITIONS {
            return Err(format!("more than {MAX_CONDITIONS} conditions"));
        }
        self.conditions.push(Condition { what, below: duration(limit)? });
        Ok(())
    }

    /// Why the figures do not hold the goal; nothing when they do.
    #[must_use]
    pub fn missed(&self, latency: &Histogram, totals: &Totals) -> Option<String> {
        let failed = totals.errors.failed() + totals.errors.bad_status;
        let tried = (totals.answers + totals.errors.failed()).max(1);
        let (errors, allowed) = (failed as f64 / tried as f64, self.errors.unwrap_or(DEFAULT_ERRORS));
        if errors > allowed {
            return Some(format!("errors {:.2}% > {:.2}%", errors * 100.0, allowed * 100.0));
        }
        if latency.is_empty() {
            return Some("no response".into());
        }
        self.conditions.iter().find_map(|condition| condition.missed(latency))
    }
}

impl Condition {
    fn missed(&self, latency: &Histogram) -> Option<String> {
        let found = match self.what {
            What::Percentile(percent) => latency.percentile(percent),
            What::Mean => Duration::from_nanos(latency.mean_ns() as u64),
            What::Max => latency.max(),
        };
        (found >= self.below).then(|| format!("{} {found:.2?} >= {:.2?}", self.what, self.below))
    }
}

fn percentile(name: &str) -> Result<f64, String> {
    let percent = name.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{name}': expected p50, p99.9, mean, max or errors"))
}

fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("'{text}': expected for example 0.1%"))
}

/// The longest time that an option takes: a month.
const MAX_DURATION_SECONDS: f64 = 31.0 * 86_400.0;

/// Reads `10`, `10s`, `1.5s`, `100ms`, `50us`, `2m`, `1h`; a bare number is seconds.
///
/// # Errors
/// What is wrong with it, in words.
pub fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}': '{unit}' is no unit; expected us, ms, s, m or h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("'{text}' is no time; expected for example 10s"))?;
    let seconds = number * factor;
    if seconds > MAX_DURATION_SECONDS {
        return Err(format!("'{text}' is more than 31 days"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check =
            |text: &str, ns: u64| assert_eq!(duration(text).unwrap(), Duration::from_nanos(ns), "{text}");
        check("10", 10_000_000_000);
        check("1.5s", 1_500_000_000);
        check("100ms", 100_000_000);
        check("50us", 50_000);
        check("2m", 120_000_000_000);
        check("1h", 3_600_000_000_000);
        for wrong in ["", "s", "1d", "-1", "1..2", "1e3", "1000h", "ms1"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn goals() {
        let mut latency = Histogram::new();
        latency.record_many_ns(1_000_000, 980);
        latency.record_many_ns(20_000_000, 20);
        let mut totals = Totals { answers: 1000, ..Totals::default() };
        totals.errors.bad_status = 5;
        let check = |goal: &str, missed: Option<&str>| {
            let found = Goal::parse(goal).unwrap().missed(&latency, &totals);
            assert_eq!(
                found.as_deref().map(|text| text.split(' ').next().unwrap()),
                missed,
                "{goal}: {found:?}"
            );
        };
        check("p50<5ms", None);
        check("p98<=5ms", None);
        check("p99<5ms", Some("p99"));
        check("p50<5ms,p99.9<30ms", None);
        check("mean<1ms", Some("mean"));
        check("max<20ms", Some("max"));
        check("max<21ms", None);
        check("p50<5ms,errors<0.1%", Some("errors"));
        check("errors<0.5%", None);
        assert!(Goal::default().missed(&Histogram::new(), &Totals::default()).is_some());
    }

    #[test]
    fn what_is_no_goal_is_refused() {
        for wrong in ["", "p99", "p99>5ms", "p101<1s", "q<1s", "errors<1", "p99<5", "p99<x", "p99<5ms,"] {
            let refused = Goal::parse(wrong).is_err();
            assert_eq!(refused, wrong != "p99<5", "{wrong}");
        }
        assert!(Goal::parse(&vec!["p1<1s"; MAX_CONDITIONS + 1].join(",")).is_err());
    }
}
