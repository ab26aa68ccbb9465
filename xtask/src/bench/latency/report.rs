//! The comparison as Markdown and as a page with plots.

use super::{Compared, Ramp, Turn, tail};
use crate::bench::generator::Seen;
use crate::bench::table::Table;
use weir_load::histogram::Histogram;
use weir_load::report::units;
use weir_load::report::{MAX_RUNS, by_rate, percentile_picture, percentiles, plot, sheet};
use weir_load::result::{RunResult, Times};

const PERCENTILES: [(&str, f64); 7] = [
    ("50 %", 50.0),
    ("90 %", 90.0),
    ("99 %", 99.0),
    ("99.9 %", 99.9),
    ("99.99 %", 99.99),
    ("99.999 %", 99.999),
    ("99.9999 %", 99.9999),
];

/// In the place of a figure that there is none of.
const NONE: &str = "-";

/// The highest rates, as Markdown.
pub(super) fn ramps(ramps: &[Ramp]) -> String {
    format!("### Highest rate\n\n{}", ramp_table(ramps).markdown())
}

fn ramp_table(ramps: &[Ramp]) -> Table {
    let mut table = Table::new(&["", "requests/s", "the next step"]);
    for ramp in ramps {
        let end = missed(&ramp.seen.result).unwrap_or_else(|| NONE.to_owned());
        table.row(ramp.name, vec![units::rate(ramp.highest), end]);
    }
    table
}

/// Why the lowest rate above the highest that was held was not; a step below it was taken again.
fn missed(result: &RunResult) -> Option<String> {
    let held = result.best_rate.unwrap_or(0.0);
    let missed = result.steps.iter().filter(|step| !step.held && step.rate > held);
    let lowest = missed.min_by(|a, b| a.rate.total_cmp(&b.rate))?;
    let reason = lowest.reason.as_deref().unwrap_or("missed");
    Some(format!("{}: {reason}", units::rate(lowest.rate)))
}

/// One rate, as Markdown.
pub(super) fn level(compared: &Compared) -> String {
    format!("### {}\n\n{}", title(compared), level_table(&compared.turns).markdown())
}

fn title(compared: &Compared) -> String {
    format!("{} requests/s: {}", units::rate(compared.level.rate), compared.level.name)
}

fn level_table(turns: &[Turn]) -> Table {
    let mut columns = vec![""];
    columns.extend(PERCENTILES.iter().map(|(name, _)| *name));
    columns.extend(["longest", "CPU a request", "memory", "errors", "remark"]);
    let mut table = Table::new(&columns);
    for turn in turns {
        let cells = turn.middle().map(|seen| measured(seen, &turn.rounds)).unwrap_or_else(|| {
            let mut cells = vec![NONE.to_owned(); columns.len() - 2];
            cells.push(turn.missing.trim().replace('\n', ", "));
            cells
        });
        table.row(turn.name, cells);
    }
    table
}

fn measured(seen: &Seen, rounds: &[Seen]) -> Vec<String> {
    let latency = seen.result.times.latency();
    let mut cells: Vec<String> = PERCENTILES.iter().map(|(_, percent)| at(latency, *percent)).collect();
    cells.push(units::time(latency.max().as_secs_f64()));
    cells.push(units::time(seen.cpu_us / 1e6));
    cells.push(units::bytes(seen.resident_bytes as f64));
    let errors = &seen.result.totals.errors;
    cells.push(units::count(errors.failed() + errors.bad_status));
    let lag = seen.result.generator.lag.percentile(99.0).as_secs_f64();
    let late = format!("generator late by {} (99 %)", units::time(lag));
    cells.push(match rounds {
        [first, .., last] => {
            let [from, to] = [first, last].map(|round| units::time(tail(round).as_secs_f64()));
            format!("middle of {}, 99.9 % from {from} to {to}; {late}", rounds.len())
        }
        _ => late,
    });
    cells
}

/// A percentile, where there are enough samples to tell it.
fn at(latency: &Histogram, percent: f64) -> String {
    let beyond = latency.count() as f64 * (1.0 - percent / 100.0);
    // A little less than one for what floating point makes of 1 - 0.999999.
    if beyond < 0.999 {
        return NONE.to_owned();
    }
    units::time(latency.percentile(percent).as_secs_f64())
}

/// Everything, as a page.
pub(super) fn page(facts: &[String], ramps: &[Ramp], compared: &[Compared]) -> String {
    let mut html = String::new();
    for fact in facts {
        html.push_str(&format!("<p class=\"soft\">{}</p>\n", plot::escape(fact)));
    }
    html.push_str("<h2>Highest rate</h2>\n");
    ramp_table(ramps).html(&mut html);
    let runs: Vec<RunResult> = ramps.iter().map(|ramp| ramp.seen.result.clone()).take(MAX_RUNS).collect();
    html.push_str(&by_rate(&runs));
    for level in compared {
        html.push_str(&percentiles(&title(level), &runs_of(level, ramps)));
        level_table(&level.turns).html(&mut html);
    }
    sheet("Latency of reverse proxies over HTTPS", &html)
}

/// A level's percentiles as a picture for documents.
pub(super) fn picture(level: &Compared, ramps: &[Ramp]) -> String {
    percentile_picture(&title(level), &runs_of(level, ramps))
}

/// A run for each subject, an empty one where there are no figures: a subject has its colour in all plots.
fn runs_of(level: &Compared, ramps: &[Ramp]) -> Vec<RunResult> {
    let run = |(turn, ramp): (&Turn, &Ramp)| {
        let none = || RunResult { times: Times::default(), ..ramp.seen.result.clone() };
        turn.middle().map_or_else(none, |seen| seen.result.clone())
    };
    level.turns.iter().zip(ramps).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_that_samples_cannot_tell_are_left_out() {
        let check = |samples: u64, percent: f64, expected: &str| {
            let mut latency = Histogram::new();
            latency.record_many_ns(Duration::from_millis(2).as_nanos() as u64, samples);
            assert_eq!(at(&latency, percent), expected, "{samples} {percent}");
        };
        check(0, 50.0, "-");
        check(1, 50.0, "-");
        check(2, 50.0, "2.00 ms");
        check(999, 99.9, "-");
        check(1_000, 99.9, "2.00 ms");
        check(1_000_000, 99.9999, "2.00 ms");
    }

    #[test]
    fn a_turn_without_figures_says_why() {
        let turn = Turn { name: "caddy", rounds: Vec::new(), missing: "above its\nhighest rate".to_owned() };
        let table = level_table(&[turn]).markdown();
        assert!(table.contains("| caddy | - | "), "{table}");
        assert!(table.ends_with("| above its, highest rate |\n"), "{table}");
    }
}
