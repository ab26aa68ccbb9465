//! `cargo xtask bench cost`: what one request costs weir in counts that are the same on a busy machine: user
//! instructions, misses of an instruction cache, allocations, atomic instructions, system calls.
//!
//! The subject runs under callgrind and is asked a fixed number of times over kept connections, after a warm-up that
//! is not counted. docs/benchmarks.md describes the method.

mod accepted;
mod callgrind;
mod client;
mod dump;
mod locked;
mod origin;

use super::rows::{Asked, ROWS, Row};
use super::table::Table;
use super::{Place, Subject, configurations, subjects};
use crate::arguments::Arguments;
use crate::{debian, place, program};
pub(crate) use accepted::Change;
use accepted::{Accepted, Counts};
use callgrind::Watched;
use client::Clients;
use dump::Dump;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The rows that are counted, out of the bench's own.
const COUNTED: [&str; 4] = ["h1-small", "h1-9k", "h2-return", "tls-9k"];

/// Those that the check counts: a proxied request and one that the proxy answers, half a minute together.
const CHECKED: [&str; 2] = ["h1-small", "h2-return"];

/// What the check builds. After a change in the proxy it takes 1.4 minutes of CPU time, `bench-dev` 3.6 (from nothing 7
/// and 8). Without optimisation across crates all counts are higher, and a change shows in both.
const CHECKED_PROFILE: &str = "cost";

const DEFAULT_SUBJECTS: &str = "weir,haproxy,nginx";

/// Requests that fill connections, buffers and the simulated cache, and are not counted.
const WARM_UP: u32 = 1000;

/// Requests that are counted.
const REQUESTS: u32 = 4000;

/// How the head of a message ends (RFC 9112 section 2.1).
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

pub(super) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["row", "subjects", "program", "profile"], &["accept"])?;
    if arguments.has("accept") {
        if given.len() > 1 {
            return Err("--accept stands alone: it counts what the check counts".to_owned());
        }
        return accept();
    }
    let only = arguments.text("row").unwrap_or_default();
    let rows: Vec<&Row> = rows(&COUNTED).filter(|row| row.name.contains(only)).collect();
    if rows.is_empty() {
        return Err(format!("there is no such row; the rows are {}", COUNTED.join(", ")));
    }
    let place = Place::new()?;
    let subjects = subjects(&arguments, DEFAULT_SUBJECTS)?;
    println!("Counts a request, over {REQUESTS} requests ({}):\n", with()?);
    let columns = ["row", "subject", "instructions", "L1i misses", "allocations", "atomics", "system calls"];
    let mut table = Table::new(&columns);
    let mut reasons = Vec::new();
    for row in rows {
        for subject in subjects.iter().filter(|subject| subject.plays(row.setup)) {
            match count(&place, subject, row) {
                Ok(counted) => table.row(row.name, counted.cells(subject, &mut reasons)),
                Err(reason) => reasons.push(format!("{} {}: {reason}", subject.name, row.name)),
            }
        }
    }
    println!("{}", table.markdown());
    reasons.iter().for_each(|reason| println!("{reason}"));
    Ok(ExitCode::SUCCESS)
}

fn rows(names: &[&str]) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| names.contains(&row.name))
}

/// What was counted over so many requests.
struct Counted {
    requests: u32,
    dump: Dump,
    system_calls: u64,
}

/// Counts one row of one subject.
fn count(place: &Place, subject: &Subject, row: &Row) -> Result<Counted, String> {
    let failed = |error: std::io::Error| error.to_string();
    let origin = origin::start(&body(row)?).map_err(failed)?;
    let mut watched = Watched::start(place, subject, row, origin)?;
    let mut clients = Clients::open(row, watched.running.port).map_err(failed)?;
    watched.collect()?;
    clients.run(WARM_UP).map_err(failed)?;
    watched.dump()?;
    let requests = clients.run(REQUESTS).map_err(failed)?;
    let (dump, system_calls) = watched.dump()?;
    Ok(Counted { requests, dump, system_calls })
}

/// What the origin answers with: the page that the row asks for.
fn body(row: &Row) -> Result<Vec<u8>, String> {
    let Asked::File(name) = row.asked else { return Err(format!("{} asks for many pages", row.name)) };
    let file = configurations().join("fixtures").join(name);
    place::read(&file).map(String::into_bytes)
}

impl Counted {
    fn each(&self, count: u64) -> f64 {
        count as f64 / f64::from(self.requests)
    }

    fn counts(&self) -> Counts {
        let rounded = |count: u64| self.each(count).round() as u64;
        Counts { instructions: rounded(self.dump.instructions), l1i_misses: rounded(self.dump.l1i_misses) }
    }

    /// A line's cells. Allocators and ways to the kernel of other programs are not compared.
    fn cells(&self, subject: &Subject, reasons: &mut Vec<String>) -> Vec<String> {
        let Counts { instructions, l1i_misses } = self.counts();
        let mut cells = vec![subject.name.to_owned(), instructions.to_string(), l1i_misses.to_string()];
        if subject.name != "weir" {
            return [cells, vec!["-".to_owned(); 3]].concat();
        }
        for count in [self.dump.allocations(), locked::count(&self.dump.ran), Ok(self.system_calls)] {
            cells.push(count.map_or_else(
                |reason| {
                    reasons.push(reason);
                    "-".to_owned()
                },
                |count| format!("{:.2}", self.each(count)),
            ));
        }
        cells
    }
}

/// What counts depend on besides the source: the compiler, the C library's functions, and the instructions that both
/// find in the processor (valgrind has none above AVX2).
fn with() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let rustc = program::output(Command::new(rustc).arg("--version"))?;
    let library = program::output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let processor = place::read("/proc/cpuinfo".as_ref())?;
    let avx2 = if processor.contains(" avx2 ") { "with AVX2" } else { "without AVX2" };
    Ok(format!("{}, {}, {} {avx2}", rustc.trim(), library.trim(), std::env::consts::ARCH))
}

fn file() -> PathBuf {
    configurations().join("cost.txt")
}

/// Counts what the check counts.
fn checked() -> Result<Vec<(String, Counts)>, String> {
    let weir = Subject::new("weir", program::build_weir(CHECKED_PROFILE)?)?;
    let place = Place::new()?;
    let counts = |row: &Row| Ok((row.name.to_owned(), count(&place, &weir, row)?.counts()));
    rows(&CHECKED).map(counts).collect()
}

fn accept() -> Result<ExitCode, String> {
    let accepted = Accepted { with: with()?, rows: checked()? };
    place::write(&file(), &accepted.text())?;
    print!("{}", accepted.text());
    Ok(ExitCode::SUCCESS)
}

/// The counts that the check compares with, or why it cannot.
pub(crate) struct Comparison(Accepted);

impl Comparison {
    pub(crate) fn new() -> Result<Self, String> {
        let accepted = Accepted::read(&place::read(&file())?)?;
        let with = with()?;
        if accepted.with != with {
            return Err(format!("counts were taken with {}, and here is {with}", accepted.with));
        }
        debian::need("valgrind", "valgrind")?;
        Ok(Self(accepted))
    }

    /// Builds and counts, and says what has changed.
    pub(crate) fn run(&self) -> Result<Vec<Change>, String> {
        let found = checked()?;
        let mut changes = Vec::new();
        for (row, accepted) in &self.0.rows {
            let found = found.iter().find(|(name, _)| name == row);
            let (_, found) = found.ok_or_else(|| format!("the check does not count '{row}'"))?;
            changes.extend(accepted::changes(row, *accepted, *found));
        }
        Ok(changes)
    }
}
