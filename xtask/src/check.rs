//! `cargo xtask check`: what has to hold before a merge.
//!
//! Every step runs even when one before it failed; the last line counts all of them.

use crate::bench::cost::{self, Change};
use crate::{guards, h2spec, peers, place, program, regtests};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

/// Cases are played side by side; most of their time is waiting.
const JOBS: usize = 4;

/// How many checks ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

const PASSED: Count = Count { passed: 1, failed: 0, skipped: 0 };
const FAILED: Count = Count { passed: 0, failed: 1, skipped: 0 };
const SKIPPED: Count = Count { passed: 0, failed: 0, skipped: 1 };

impl Count {
    fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

/// The steps so far.
#[derive(Default)]
struct Report {
    total: Count,
    lines: Vec<String>,
}

impl Report {
    fn step(&mut self, name: &str, run: impl FnOnce() -> Result<Count, String>) {
        println!("== {name}");
        let started = Instant::now();
        let count = run().unwrap_or_else(|error| {
            println!("{error}");
            FAILED
        });
        self.total.add(count);
        self.lines.push(format!(
            "{name:<22} {:>5} passed {:>3} failed {:>3} skipped {:>5.0} s",
            count.passed,
            count.failed,
            count.skipped,
            started.elapsed().as_secs_f64()
        ));
    }
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    if let Some(word) = given.first() {
        return Err(format!("unknown option '{word}'"));
    }
    let mut report = Report::default();
    report.step("guards", guards);
    report.step("format", || cargo(&["fmt", "--all", "--", "--check", "-l"]));
    report.step("lints", || {
        cargo(&["clippy", "--quiet", "--keep-going", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    report.step("deflate without std", || {
        cargo(&["check", "--quiet", "--package", "weir-deflate", "--no-default-features"])
    });
    report.step("tests", || {
        tests(&["test", "--workspace", "--no-fail-fast", "--quiet"], &peers::environment())
    });
    report
        .step("fuzz format", || cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--", "--check", "-l"]));
    report.step("fuzz corpus", || tests(&["test", "--manifest-path", "fuzz/Cargo.toml", "--quiet"], &[]));
    let mut weir = None;
    report.step("build", || {
        weir = Some(program::build_weir("dev")?);
        Ok(PASSED)
    });
    if let Some(weir) = weir {
        let passing = regtests::passing()?;
        report.step("regression cases", || cases(&weir, passing.clone()));
        report.step("h2spec", || conformance(&weir, passing.is_empty()));
    }
    report.step("cost", cost);
    println!();
    report.lines.iter().for_each(|line| println!("{line}"));
    let Count { passed, failed, skipped } = report.total;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn guards() -> Result<Count, String> {
    let wrong = guards::run()?;
    wrong.iter().for_each(|line| println!("{line}"));
    Ok(if wrong.is_empty() { PASSED } else { FAILED })
}

fn cargo(arguments: &[&str]) -> Result<Count, String> {
    program::run(&mut program::cargo(arguments)).map(|()| PASSED)
}

/// Runs cargo's tests, their output on this terminal, and adds up what the test programs report.
fn tests(arguments: &[&str], environment: &[(&str, OsString)]) -> Result<Count, String> {
    let mut child = program::cargo(arguments)
        .env("CARGO_TARGET_DIR", place::target()?)
        .envs(environment.iter().map(|(name, value)| (*name, value.as_os_str())))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo: {error}"))?;
    let mut count = Count::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count.add(read_result(&line));
        }
    }
    let status = child.wait().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() && count.failed == 0 {
        // Something did not compile, or a test program died.
        count.failed = 1;
    }
    Ok(count)
}

/// Reads `test result: ok. N passed; N failed; N ignored; ...`.
fn read_result(line: &str) -> Count {
    let Some((_, counts)) = line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". "))
    else {
        return Count::default();
    };
    let count = |label: &str| {
        counts.split(';').find_map(|part| part.trim().strip_suffix(label)?.trim().parse().ok()).unwrap_or(0)
    };
    Count { passed: count("passed"), failed: count("failed"), skipped: count("ignored") }
}

fn cases(weir: &Path, passing: Vec<String>) -> Result<Count, String> {
    if passing.is_empty() {
        println!("no case is listed as passing yet");
        return Ok(SKIPPED);
    }
    let plan = regtests::Plan { program: weir.to_path_buf(), cases: passing, jobs: JOBS, keep_logs: false };
    let outcomes = regtests::play(&plan)?;
    regtests::report(&outcomes);
    let tally = regtests::total(&outcomes);
    Ok(Count { passed: tally.passed, failed: tally.failed, skipped: tally.skipped })
}

/// Compares what a request costs with what was accepted.
fn cost() -> Result<Count, String> {
    let comparison = match cost::Comparison::new() {
        Ok(comparison) => comparison,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(SKIPPED);
        }
    };
    let changes = comparison.run()?;
    for Change::Higher(text) | Change::Lower(text) in &changes {
        println!("{text}");
    }
    Ok(if changes.iter().any(|change| matches!(change, Change::Higher(_))) { FAILED } else { PASSED })
}

fn conformance(weir: &Path, too_early: bool) -> Result<Count, String> {
    if too_early {
        println!("skipped until a regression case passes");
        return Ok(SKIPPED);
    }
    let h2spec = match h2spec::install() {
        Ok(h2spec) => h2spec,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(SKIPPED);
        }
    };
    let found = h2spec::conformance(&h2spec, "weir", weir)?;
    Ok(Count { passed: found.passed, failed: found.failed, skipped: found.skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_totals_are_read() {
        let line =
            "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0s";
        assert_eq!(read_result(line), Count { passed: 5, failed: 2, skipped: 1 });
        assert_eq!(read_result("test a ... ok"), Count::default());
    }
}
