//! `cargo xtask bench latency`: a reverse proxy over HTTPS with kept connections on both sides.  The rate is raised
//! step by step until each subject saturates; then all run at parts of what the slowest of them, and HAProxy, reached.
//!
//! Owns the order of the measurements.  Which rates is `latency/levels.rs`, what is printed `latency/report.rs`.

mod levels;
mod report;

use super::generator::{self, Seen};
use super::subject::{Cores, Place, Running, Start, Subject};
use super::{machine, subject, subjects, weir, write_page};
use crate::arguments::Arguments;
use levels::{Level, levels};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use weir_load::result::Step;

/// The configurations' name.
const SETUP: &str = "latency";

/// Threads of every subject.
const THREADS: u32 = 2;

/// Threads of the generator and of the origin.
const OTHER_THREADS: u32 = 1;

/// What a step of the rising rate has to hold besides answering 97 % of the rate: a proxy that has fallen this far
/// behind falls further.
const GOAL: &str = "p99<50ms";

/// How often the rate is raised at most.
const CLIMBS: usize = 3;

/// More than any subject reaches on the machines this is run on.
const HIGHEST_RATE: u32 = 1_000_000;

/// Load before the measuring: connections are open, caches are full.
const WARM_UP: &str = "1s";

/// What the command was asked for, and where it works.
struct Comparison {
    place: Place,
    weir: PathBuf,
    subjects: Vec<Subject>,
    origin: Running,
    rounds: usize,
    seconds: u64,
    step_seconds: u64,
    from: u32,
    connections: u32,
    path: String,
}

/// What a subject reached while the rate rose.
struct Ramp {
    name: &'static str,
    seen: Seen,
    highest: f64,
}

/// What a subject did at one rate.
struct Turn {
    name: &'static str,
    /// The rounds that the generator could follow, the one with the lowest 99.9 % first.
    rounds: Vec<Seen>,
    /// Why there are none.
    missing: String,
}

/// A rate and what each subject did at it.
struct Compared {
    level: Level,
    turns: Vec<Turn>,
}

const OPTIONS: &[&str] =
    &["seconds", "rounds", "subjects", "step", "from", "connections", "path", "program", "profile"];

pub(super) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, OPTIONS, &[])?;
    let weir = weir(&arguments)?;
    let place = Place::new()?;
    let comparison = Comparison {
        origin: place.weir_origin(&weir, OTHER_THREADS)?,
        subjects: subjects(&arguments, &subject::NAMES.join(","))?,
        rounds: arguments.number("rounds", 1_usize)?.max(1),
        seconds: arguments.number("seconds", 4_u64)?.max(1),
        step_seconds: arguments.number("step", 1_u64)?.max(1),
        from: arguments.number("from", 2000_u32)?.clamp(1, HIGHEST_RATE),
        connections: arguments.number("connections", 50_u32)?.max(1),
        path: arguments.text("path").unwrap_or("/bytes/1000").to_owned(),
        place,
        weir,
    };
    let mut facts = machine::describe(&comparison.subjects);
    facts.push(comparison.describe());
    facts.iter().for_each(|fact| println!("{fact}"));
    let ramps = comparison.ramps();
    println!("\n{}", report::ramps(&ramps));
    let highest: Vec<(&str, f64)> = ramps.iter().map(|ramp| (ramp.name, ramp.highest)).collect();
    let mut compared = Vec::new();
    for level in levels(&highest) {
        let turns = comparison.turns(&level, &highest);
        let level = Compared { level, turns };
        println!("{}", report::level(&level));
        compared.push(level);
    }
    let page = write_page("latency.html", &report::page(&facts, &ramps, &compared))?;
    println!("Plots: {}", page.display());
    for (number, level) in (1..).zip(&compared) {
        write_page(&format!("latency-{number}.svg"), &report::picture(level, &ramps))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Comparison {
    fn describe(&self) -> String {
        format!(
            "HTTPS (TLS 1.3, HTTP/1.1), {} connections, `{}` from `weir origin` in clear over kept connections; {THREADS} \
             threads or processes a subject; {} round(s) of {} s, steps of {} s. {}",
            self.connections,
            self.path,
            self.rounds,
            self.seconds,
            self.step_seconds,
            self.place.describe_apart()
        )
    }

    /// Raises the rate for each subject in turn, in every round; of a subject's rounds the best counts: what neighbours
    /// on the machine take can only lower it.
    fn ramps(&self) -> Vec<Ramp> {
        let mut found: Vec<Vec<Seen>> = self.subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.rounds {
            for (subject, seen) in self.subjects.iter().zip(&mut found) {
                eprintln!("{}: raising the rate", subject.name);
                match self.ramp(subject) {
                    Ok(ramp) => seen.push(ramp),
                    Err(reason) => eprintln!("{}: {reason}", subject.name),
                }
            }
        }
        let ramps = self.subjects.iter().zip(found);
        ramps.filter_map(|(subject, seen)| best_ramp(subject.name, seen)).collect()
    }

    /// Raises the rate until the subject saturates, and again from there: a moment in which the machine was busy with
    /// something else does not end the search.
    fn ramp(&self, subject: &Subject) -> Result<Seen, String> {
        let mut best = self.climb(subject, f64::from(self.from))?;
        for _ in 1..CLIMBS {
            let held = best.result.best_rate;
            let mut next = self.climb(subject, held.unwrap_or_else(|| f64::from(self.from)))?;
            let gained = next.result.best_rate > held;
            if gained {
                std::mem::swap(&mut best, &mut next);
            }
            best.result.steps = merged(best.result.steps, next.result.steps);
            if held.is_some() && !gained {
                break;
            }
        }
        Ok(best)
    }

    fn climb(&self, subject: &Subject, from: f64) -> Result<Seen, String> {
        let rate = format!("{from}..{HIGHEST_RATE}");
        let step = format!("{}s", self.step_seconds);
        let ramp = ["-R", &rate, "--step", &step, "--slo", GOAL, "--timeout", "5s", "--warm-up", WARM_UP];
        self.load(subject, &ramp)
    }

    /// All subjects at one rate, in turn, in every round.
    fn turns(&self, level: &Level, highest: &[(&'static str, f64)]) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        for &(name, most) in highest {
            let missing = if most < level.rate { "above its highest rate" } else { "not measured" };
            turns.push(Turn { name, rounds: Vec::new(), missing: missing.to_owned() });
        }
        for _ in 0..self.rounds {
            for (turn, (_, most)) in turns.iter_mut().zip(highest) {
                let subject = self.subjects.iter().find(|subject| subject.name == turn.name);
                if let Some(subject) = subject.filter(|_| *most >= level.rate) {
                    eprintln!("{}: {} requests/s", turn.name, level.rate);
                    turn.take(self.steady(subject, level.rate));
                }
            }
        }
        turns
    }

    fn steady(&self, subject: &Subject, rate: f64) -> Result<Seen, String> {
        let (rate, duration) = (rate.to_string(), format!("{}s", self.seconds));
        self.load(subject, &["-R", &rate, "-d", &duration, "--warm-up", WARM_UP])
    }

    fn load(&self, subject: &Subject, options: &[&str]) -> Result<Seen, String> {
        let start = Start { cores: Cores::Apart, values: &[] };
        let running = subject.start_as(&self.place, SETUP, self.origin.port, start)?;
        let mut command: Command = self.place.generator(&self.weir);
        command.args(["load", "-k", "-t", &OTHER_THREADS.to_string(), "-c", &self.connections.to_string()]);
        command.args(["--label", subject.name]).args(options);
        command.arg(format!("https://127.0.0.1:{}{}", running.port, self.path));
        generator::run(command, self.place.scratch.path(), &running)
    }
}

fn best_ramp(name: &'static str, seen: Vec<Seen>) -> Option<Ramp> {
    let rated = seen.into_iter().filter_map(|seen| Some((seen.result.best_rate?, seen)));
    let Some((highest, seen)) = rated.max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
        eprintln!("{name} held no rate and is left out");
        return None;
    };
    Some(Ramp { name, seen, highest })
}

/// The steps of two ramps from the lowest rate up; of two at the same rate the one that held.
fn merged(mut steps: Vec<Step>, more: Vec<Step>) -> Vec<Step> {
    steps.extend(more);
    steps.sort_by(|a, b| a.rate.total_cmp(&b.rate).then(b.held.cmp(&a.held)));
    steps.dedup_by(|next, step| next.rate.total_cmp(&step.rate).is_eq());
    steps
}

impl Turn {
    /// Adds a round.
    fn take(&mut self, round: Result<Seen, String>) {
        let followed = round.and_then(|round| match generator::verdict(&round.result.generator.bottleneck) {
            None => Ok(round),
            Some(verdict) => Err(verdict),
        });
        match followed {
            Ok(round) => {
                let at = self.rounds.partition_point(|known| tail(known) <= tail(&round));
                self.rounds.insert(at, round);
            }
            Err(reason) => self.missing = reason,
        }
    }

    /// The round that counts, the one in the middle: a moment in which the machine stood still is in one round and not
    /// in the others. Of an even number the worse one.
    fn middle(&self) -> Option<&Seen> {
        self.rounds.get(self.rounds.len() / 2)
    }
}

/// What rounds are put in order by.
fn tail(seen: &Seen) -> Duration {
    seen.result.times.latency().percentile(99.9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_steps_at_a_rate_the_one_that_held_stays() {
        let step = |&(rate, held): &(f64, bool)| Step {
            rate,
            held,
            at_seconds: 0.0,
            seconds: 1.0,
            totals: weir_load::result::Totals::default(),
            times: weir_load::result::Times::default(),
            reason: None,
        };
        let check = |first: &[(f64, bool)], second: &[(f64, bool)], expected: &[(f64, bool)]| {
            let found = merged(first.iter().map(step).collect(), second.iter().map(step).collect());
            let found: Vec<(f64, bool)> = found.iter().map(|step| (step.rate, step.held)).collect();
            assert_eq!(found, expected);
        };
        check(&[(10.0, false)], &[(10.0, true), (12.0, false)], &[(10.0, true), (12.0, false)]);
        check(&[(10.0, true), (12.0, false)], &[(10.0, false)], &[(10.0, true), (12.0, false)]);
        check(&[(10.0, true)], &[], &[(10.0, true)]);
    }
}
