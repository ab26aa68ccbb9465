//! `cargo xtask bench compression`: pages of several sizes over HTTPS, as they are and with every algorithm and level:
//! requests a second, CPU time a request, size of the answer.
//!
//! Owns the order of the measurements.  What is compared is `compression/variants.rs`, what is printed
//! `compression/report.rs`.

mod report;
mod variants;

use super::generator::{self, Seen};
use super::subject::{Cores, Place, Running, Start, Subject};
use super::{machine, subjects, weir, write_page};
use crate::arguments::Arguments;
use crate::{debian, program};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use variants::{VARIANTS, Variant};

/// The configurations' name.
const SETUP: &str = "compression";

const SUBJECTS: &str = "weir,haproxy,nginx";

/// Bytes of the pages: the beginning of `bench/fixtures/page-76k.html`.
pub(super) const SIZES: [usize; 5] = [140, 3_000, 6_000, 9_000, 76_800];

/// Enough that the proxy's core never waits for the client's.
const CONNECTIONS: &str = "48";

/// Load before the measuring: connections are open, caches are full.
const WARM_UP: &str = "300ms";

/// What the command was asked for, and where it works.
struct Comparison {
    place: Place,
    weir: PathBuf,
    subjects: Vec<Subject>,
    origin: Running,
    rounds: usize,
    milliseconds: u64,
}

/// What was measured of a variant at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    per_second: f64,
    cpu_us: f64,
    /// The share of its core's time that the proxy used.
    busy: f64,
    answer_bytes: f64,
}

/// A variant with its figures at each of [`SIZES`]: a reason where there are none.
struct Measured {
    variant: Variant,
    cells: Vec<Result<Figures, String>>,
}

pub(super) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["seconds", "rounds", "subjects", "program", "profile"], &[])?;
    let place = Place::new()?;
    place.pages(&SIZES)?;
    let seconds: f64 = arguments.number("seconds", 0.6)?;
    let comparison = Comparison {
        origin: place.origin()?,
        weir: weir(&arguments)?,
        subjects: subjects(&arguments, SUBJECTS)?,
        rounds: arguments.number("rounds", 3_usize)?.max(1),
        milliseconds: (seconds.clamp(0.1, 3600.0) * 1000.0) as u64,
        place,
    };
    let mut facts = machine::describe(&comparison.subjects);
    facts.push(comparison.describe());
    facts.iter().for_each(|fact| println!("{fact}"));
    let measured = comparison.measure();
    for table in report::tables(&measured) {
        println!("\n{table}");
    }
    let page = write_page("compression.html", &report::page(&facts, &measured))?;
    println!("Plots: {}", page.display());
    Ok(ExitCode::SUCCESS)
}

impl Comparison {
    fn describe(&self) -> String {
        format!(
            "HTTPS (TLS 1.3, HTTP/1.1), closed loop of `weir load`, {CONNECTIONS} connections, nginx as the origin in clear; \
             one thread a subject; {} round(s) of {:.1} s, of which the median counts. {}",
            self.rounds,
            self.milliseconds as f64 / 1000.0,
            self.place.describe()
        )
    }

    fn measure(&self) -> Vec<Measured> {
        let known = |variant: &&Variant| self.subjects.iter().any(|subject| subject.name == variant.subject);
        let variants: Vec<&Variant> = VARIANTS.iter().filter(known).collect();
        let mut rounds: Vec<Vec<Vec<Result<Figures, String>>>> = vec![Vec::new(); variants.len()];
        for _ in 0..self.rounds {
            for (variant, rounds) in variants.iter().zip(&mut rounds) {
                eprintln!("{}", variant.name);
                rounds.push(self.round(variant));
            }
        }
        let median = |rounds: &[Vec<Result<Figures, String>>]| {
            (0..SIZES.len()).map(|size| median(rounds.iter().filter_map(|round| round.get(size)))).collect()
        };
        let measured = variants.iter().zip(&rounds);
        measured.map(|(variant, rounds)| Measured { variant: **variant, cells: median(rounds) }).collect()
    }

    /// One variant at all sizes.
    fn round(&self, variant: &Variant) -> Vec<Result<Figures, String>> {
        let values = variant.values();
        let start = Start { cores: Cores::One, values: &values };
        let subject = self.subjects.iter().find(|subject| subject.name == variant.subject);
        let running = subject
            .ok_or_else(|| "not among the subjects".to_owned())
            .and_then(|subject| subject.start_as(&self.place, SETUP, self.origin.port, start));
        SIZES.iter().map(|size| self.cell(variant, running.as_ref().map_err(String::clone)?, *size)).collect()
    }

    fn cell(&self, variant: &Variant, running: &Running, size: usize) -> Result<Figures, String> {
        let url = format!("https://127.0.0.1:{}/comp-{size}.html", running.port);
        let sent = coding_of(&url, variant.coding)?;
        if sent != variant.coding.unwrap_or_default() {
            return Err(if sent.is_empty() {
                "not compressed".to_owned()
            } else {
                format!("sent as {sent}")
            });
        }
        let mut command = self.place.on_client_core(&self.weir);
        let duration = format!("{}ms", self.milliseconds);
        command.args(["load", "-k", "-t", "1", "-c", CONNECTIONS, "-d", &duration, "--warm-up", WARM_UP]);
        if let Some(coding) = variant.coding {
            command.args(["-H", &format!("Accept-Encoding: {coding}")]);
        }
        command.arg(url);
        figures(&generator::run(command, self.place.scratch.path(), running)?)
    }
}

fn figures(seen: &Seen) -> Result<Figures, String> {
    let totals = &seen.result.totals;
    let failed = totals.errors.failed() + totals.errors.bad_status;
    if failed > 0 {
        return Err(format!("{failed} errors: {}", totals.errors.examples.join(", ")));
    }
    Ok(Figures {
        per_second: totals.answers as f64 / seen.result.elapsed_seconds,
        cpu_us: seen.cpu_us,
        busy: seen.busy,
        answer_bytes: totals.body_bytes as f64 / totals.answers as f64,
    })
}

/// The Content-Encoding of an answer to somebody who accepts `coding`.
fn coding_of(url: &str, coding: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(debian::need("curl", "curl")?);
    command.args(["-s", "-k", "-o", "/dev/null", "-w", "%header{content-encoding}"]);
    if let Some(coding) = coding {
        command.args(["-H", &format!("Accept-Encoding: {coding}")]);
    }
    program::output(command.arg(url)).map(|coding| coding.trim().to_owned())
}

/// The round in the middle by CPU time; the first reason where there are no figures.
fn median<'a>(rounds: impl Iterator<Item = &'a Result<Figures, String>> + Clone) -> Result<Figures, String> {
    let mut good: Vec<Figures> = rounds.clone().filter_map(|round| round.as_ref().ok().copied()).collect();
    good.sort_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
    let reason = || rounds.into_iter().find_map(|round| round.clone().err());
    good.get(good.len() / 2).copied().ok_or_else(|| reason().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_by_cpu_time_and_failures_do_not_count() {
        let round = |cpu_us: f64| Ok(Figures { per_second: 1.0, cpu_us, busy: 1.0, answer_bytes: 1.0 });
        let check = |rounds: &[Result<Figures, String>], expected: Result<f64, String>| {
            assert_eq!(median(rounds.iter()).map(|figures| figures.cpu_us), expected);
        };
        check(&[round(3.0), round(1.0), round(2.0)], Ok(2.0));
        check(&[Err("lost".to_owned()), round(4.0)], Ok(4.0));
        check(&[Err("lost".to_owned())], Err("lost".to_owned()));
        check(&[], Err(String::new()));
    }
}
