//! `cargo xtask fuzz`: feeds mutated input to the parsers, guided by the code it reaches.
//!
//! The targets are the crate in `fuzz/`, a workspace of its own because it is compiled with the counters
//! that libFuzzer reads. The flags are those of a stable compiler; there is no address sanitizer, as the
//! parsers have no unsafe code.

use crate::arguments::Arguments;
use crate::{debian, place, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// How long a target runs when nothing else is said.
const SECONDS: u64 = 60;

/// Inputs longer than this find little that shorter ones do not.
const INPUT_BYTES: &str = "16384";

/// One input may take this long.
const INPUT_SECONDS: &str = "10";

const COUNTERS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["seconds"], &[])?;
    let seconds = arguments.number("seconds", SECONDS)?;
    let known = targets()?;
    let wanted: Vec<&String> = match arguments.words.first() {
        None => known.iter().collect(),
        Some(word) => known.iter().filter(|name| *name == word).collect(),
    };
    if wanted.is_empty() {
        return Err(format!("there is no such target; the targets are {}", known.join(", ")));
    }
    // libFuzzer is C++ and is compiled here.
    debian::need("c++", "g++")?;
    let folder = build()?;
    let mut failed = 0;
    for name in &wanted {
        println!("== {name}, {seconds} s");
        if let Err(error) = fuzz(&folder.join(name), name, seconds) {
            println!("{error}");
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed, 0 skipped", wanted.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of the files in `fuzz/targets`.
fn targets() -> Result<Vec<String>, String> {
    let folder = place::repository().join("fuzz/targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Compiles the targets with counters and says in which folder they are.
fn build() -> Result<PathBuf, String> {
    let target = place::target()?.join("fuzz");
    let host = host()?;
    // Naming the platform keeps the flags away from build scripts, which have nothing to count.
    program::run(
        program::cargo(&["build", "--release", "--features", "libfuzzer", "--target", &host])
            .args(["--manifest-path", "fuzz/Cargo.toml", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", COUNTERS),
    )?;
    Ok(target.join(host).join("release"))
}

fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    program::output(Command::new(rustc).arg("-vV"))?
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "rustc does not say which platform it is for".to_owned())
}

fn fuzz(program: &Path, name: &str, seconds: u64) -> Result<(), String> {
    let work = place::target()?.join("fuzz");
    let (found, crashes) = (work.join("corpus").join(name), work.join("crashes"));
    let committed = place::repository().join("fuzz/corpus").join(name);
    for folder in [&found, &crashes, &committed] {
        place::create(folder)?;
    }
    let dictionary = place::repository().join("fuzz/dictionaries").join(format!("{name}.dict"));
    let mut command = Command::new(program);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES}"));
    command.arg(format!("-timeout={INPUT_SECONDS}")).arg("-print_final_stats=1").arg("-verbosity=0");
    command.arg(format!("-artifact_prefix={}/{name}-", crashes.display()));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // New inputs go to the first folder; the committed ones are only read.
    command.arg(found).arg(committed);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", program.display()))?;
    // libFuzzer reports on stderr, mostly in words of a dictionary that nobody asked for.
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        said.lines().filter(|line| line.starts_with("stat::")).for_each(|line| println!("{line}"));
        return Ok(());
    }
    Err(format!("{}\n{}; the input is in {}", said.trim_end(), output.status, crashes.display()))
}
