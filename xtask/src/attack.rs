//! `cargo xtask attack`: what hostile clients and origins cost weir beside HAProxy and nginx, and whether a well-behaved
//! client is still served meanwhile.
//!
//! docs/attack.md describes the method. The attacks are entries of the table in `attack/rows.rs`; each runs against a
//! fresh process of each subject, on the loopback interface, bounded in connections, octets and seconds.

mod rows;

mod bombs;
mod compression;
mod faults;
mod floods;
mod idle;
mod origins;
mod resets;
mod slow;
mod smuggling;
mod stalls;
mod tls;

mod arena;
pub(crate) mod frames;
mod http2;
mod lenient;
mod origin;
mod probe;
mod verdict;
mod wire;

use crate::arguments::Arguments;
use crate::bench::subject::{Place, Running, Subject};
use crate::bench::table::Table;
use crate::bench::{machine, subjects, usage};
use arena::{Arena, Ports, descriptors};
use origin::Origin;
use probe::Speaks;
use rows::{Outcome, Probes, Row};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use verdict::{Figures, PROBES, differences, missed};

const DEFAULT_SUBJECTS: &str = "weir,haproxy,haproxy-3.0,nginx";

/// How long a subject may take until its descriptors have gone back.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// A row's figures by subject.
type Measured = Vec<(&'static str, Result<Figures, String>)>;

struct Attacks {
    place: Place,
    subjects: Vec<Subject>,
    seconds: u64,
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["row", "subjects", "seconds", "program", "profile"], &["list"])?;
    if let Some(word) = arguments.words.first() {
        return Err(format!("'{word}': a row is named by --row"));
    }
    let rows = wanted(arguments.text("row"))?;
    if arguments.has("list") {
        rows.iter().for_each(|row| println!("{:26} {}", row.name, row.does));
        return Ok(ExitCode::SUCCESS);
    }
    let attacks = Attacks {
        place: Place::new()?,
        subjects: subjects(&arguments, DEFAULT_SUBJECTS)?,
        seconds: arguments.number("seconds", 3_u64)?.clamp(1, 60),
    };
    allow_descriptors();
    machine::describe(&attacks.subjects).iter().for_each(|fact| println!("{fact}"));
    Ok(attacks.run(&rows))
}

/// The rows whose names contain a word.
fn wanted(only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut rows = rows::all();
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    rows.retain(|row| only.is_none_or(|only| only.split(',').any(|only| row.name.contains(only))));
    if rows.is_empty() {
        Err(format!("there is no such row; the rows are {}", names.join(", ")))
    } else {
        Ok(rows)
    }
}

/// Thousands of connections, and the origin's ends of them, are held by this process.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused an attack has fewer connections, which its row then shows.
    let _raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl Attacks {
    /// Prints the table row by row; whether weir held in all.
    fn run(&self, rows: &[Row]) -> ExitCode {
        let names: Vec<&str> = self.subjects.iter().map(|subject| subject.name).collect();
        println!("\n| attack | {} | verdict |\n|---|{}---|", names.join(" | "), "--:|".repeat(names.len()));
        let mut failed = 0;
        let mut remarks = Vec::new();
        for row in rows {
            let measured: Measured =
                self.subjects.iter().map(|subject| (subject.name, self.measure(row, subject))).collect();
            let verdict = verdict(row, &measured);
            failed += usize::from(verdict.as_ref().is_some_and(|missed| !missed.is_empty()));
            println!("{}", line(row, &measured, verdict.as_deref()));
            remarks.extend(remark(row, &measured));
        }
        println!("\n{}", details(&remarks));
        println!("{failed} of {} rows missed", rows.len());
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn measure(&self, row: &Row, subject: &Subject) -> Result<Figures, String> {
        let origin = Origin::start(row.origin)?;
        let (running, ports) = arena::start(&self.place, subject, &row.needs, origin.port)?;
        let speaks = match row.probes {
            Probes::During(speaks) | Probes::After(speaks) => speaks,
        };
        // What a first request allocates once and for all is not the attack's.
        probe::probe(speaks, &ports);
        let rest = Figures {
            rest_bytes: running.resident_bytes(),
            rest_descriptors: descriptors(&running),
            ..Figures::default()
        };
        usage::forget_peak(running.id());
        let (before, requests) = (running.cpu_time(), origin.requests());
        let seconds = Duration::from_secs(row.seconds.unwrap_or(self.seconds));
        let (outcome, during, peak) = fight(row, subject, &running, ports, &origin, seconds, &rest);
        let cpu_seconds = running.cpu_time().since(before).total().as_secs_f64();
        let peak_bytes = usage::peak_bytes(running.id());
        let reached = origin.requests() - requests;
        let left_descriptors = settle(&running, rest.rest_descriptors);
        let alive = (0..3).any(|_| probe::probe(speaks, &ports));
        let probes = match row.probes {
            Probes::During(_) => during,
            Probes::After(_) => (0..PROBES).map(|_| u32::from(probe::probe(speaks, &ports))).sum(),
        };
        Ok(Figures {
            cpu_seconds,
            peak_bytes,
            peak_descriptors: peak,
            left_descriptors,
            requests: reached.saturating_sub(u64::from(during)),
            goaways: outcome.goaways,
            probes,
            alive,
            count: outcome.count,
            answered: outcome.answered,
            answers: outcome.answers,
            notes: outcome.notes,
            ..rest
        })
    }
}

/// The attack beside the well-behaved client: what it found, how many of that client's requests were answered, and the
/// most descriptors that were open.
fn fight(
    row: &Row,
    subject: &Subject,
    running: &Running,
    ports: Ports,
    origin: &Origin,
    time: Duration,
    rest: &Figures,
) -> (Outcome, u32, usize) {
    let (probed, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let arena = Arena {
        ports,
        origin,
        running,
        name: subject.name,
        until: Instant::now() + time,
        timeout: Duration::from_secs(row.needs.timeout_seconds.into()),
        rest_descriptors: rest.rest_descriptors,
        probed: &probed,
    };
    scope(|scope| {
        let watch = scope.spawn(|| arena::watch(running, &over));
        let probes = scope.spawn(|| {
            let good = match row.probes {
                Probes::During(speaks) => probes(speaks, &ports, time),
                Probes::After(_) => 0,
            };
            probed.store(true, Ordering::Relaxed);
            good
        });
        let outcome = (row.run)(&arena);
        let good = probes.join().unwrap_or(0);
        over.store(true, Ordering::Relaxed);
        (outcome, good, watch.join().unwrap_or(0))
    })
}

/// Asks ten times in the time of an attack; how often there was a good answer.
fn probes(speaks: Speaks, ports: &Ports, time: Duration) -> u32 {
    let ask = |_| {
        sleep(time / (PROBES + 1));
        u32::from(probe::probe(speaks, ports))
    };
    (0..PROBES).map(ask).sum()
}

/// Waits until the descriptors have gone back; how many there are then.
fn settle(running: &Running, rest: usize) -> usize {
    let until = Instant::now() + SETTLE_LIMIT;
    loop {
        let open = descriptors(running);
        if open <= rest + 2 || Instant::now() > until {
            return open;
        }
        sleep(Duration::from_millis(50));
    }
}

/// What weir missed in a row; nothing where it was not measured.
fn verdict(row: &Row, measured: &Measured) -> Option<Vec<String>> {
    let figures = |wanted: bool| {
        measured.iter().filter(move |(name, _)| (*name == "weir") == wanted).map(|(_, figures)| figures)
    };
    let peers: Vec<&Figures> = figures(false).flatten().collect();
    match figures(true).next()? {
        Ok(weir) => Some(missed(weir, &peers, row.count)),
        Err(reason) => Some(vec![reason.clone()]),
    }
}

fn line(row: &Row, measured: &Measured, verdict: Option<&[String]>) -> String {
    let cell = |(_, figures): &(&str, Result<Figures, String>)| match figures {
        Ok(figures) => figures.cell(row.count),
        Err(_) => "-".to_owned(),
    };
    let verdict = match verdict {
        None => String::new(),
        Some([]) => "met".to_owned(),
        Some(missed) => format!("**missed**: {}", missed.join("; ")),
    };
    let cells: Vec<String> = measured.iter().map(cell).collect();
    format!("| {} | {} | {} |", row.name, cells.join(" | "), verdict.replace(['|', '\n'], " "))
}

/// What the cells have no room for: row, subject, what there is to say.
fn remark(row: &Row, measured: &Measured) -> Vec<[String; 3]> {
    let mut remarks = Vec::new();
    let weir =
        measured.iter().find(|(name, _)| *name == "weir").and_then(|(_, figures)| figures.as_ref().ok());
    for (name, figures) in measured {
        let mut said = match figures {
            Ok(figures) => figures.notes.clone(),
            Err(reason) => vec![reason.trim().replace('\n', " ")],
        };
        if let (Ok(peer), Some(weir)) = (figures, weir.filter(|_| *name != "weir")) {
            let differing = differences(weir, peer);
            if !differing.is_empty() {
                said.push(format!("answered otherwise by weir: {}", differing.join("; ")));
            }
        }
        remarks.extend(said.into_iter().map(|said| [row.name.to_owned(), (*name).to_owned(), said]));
    }
    remarks
}

fn details(remarks: &[[String; 3]]) -> String {
    let mut table = Table::new(&["attack", "subject", "remark"]);
    for [row, subject, said] in remarks {
        table.row(row, vec![subject.clone(), said.clone()]);
    }
    table.markdown()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_attack_has_a_name_of_its_own_and_stands_in_the_manual() {
        let manual = crate::place::read(&crate::place::repository().join("docs/attack.md")).unwrap();
        let rows = rows::all();
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        for row in &rows {
            let line = format!("| {} | {} |", row.name, row.does);
            assert!(manual.contains(&line), "docs/attack.md lacks '{line}'");
        }
    }

    #[test]
    fn rows_are_found_by_parts_of_their_names() {
        assert!(wanted(Some("bomb,slow")).unwrap().len() > 4);
        assert!(wanted(Some("nothing like this")).is_err());
    }

    #[test]
    fn a_line_has_a_cell_for_each_subject() {
        let row = &rows::all()[0];
        let good = Figures { probes: PROBES, alive: true, ..Figures::default() };
        let measured: Measured = vec![("weir", Ok(good)), ("nginx", Err("not there".to_owned()))];
        let verdict = verdict(row, &measured);
        assert_eq!(verdict, Some(Vec::new()));
        let expected = format!("| {} | 0.00 s, 0 MB (+0), 0 fd, 0 rq, 10/10 | - | met |", row.name);
        assert_eq!(line(row, &measured, verdict.as_deref()), expected);
        assert_eq!(remark(row, &measured).len(), 1);
    }
}
