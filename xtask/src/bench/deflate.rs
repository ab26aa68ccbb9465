//! `cargo xtask bench deflate`: size and speed of the deflate encoder beside others, over bodies out of packages, in the
//! pieces in which the proxy gives them to it.
//!
//! What compares is `bench/deflate`, a workspace of its own: most of what it compares with is C.

mod corpus;

use crate::arguments::Arguments;
use crate::{debian, place, program, suite};
use std::process::{Command, ExitCode};

pub(super) const NAME: &str = "deflate";

/// Programs that building the other encoders needs, and the packages that have them.
const TOOLS: [(&str, &str); 6] = [
    ("cc", "gcc"),
    ("cmake", "cmake"),
    ("autoconf", "autoconf"),
    ("automake", "automake"),
    ("libtoolize", "libtool"),
    ("nasm", "nasm"),
];

pub(super) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["part", "rounds", "piece-kb"], &["gather"])?;
    let part = arguments.text("part").unwrap_or("test");
    let rounds = arguments.number("rounds", 9_usize)?.max(1);
    let piece = arguments.number("piece-kb", 64_usize)?.max(1);
    let corpus = corpus::gather(part)?;
    if arguments.has("gather") {
        println!("{}", corpus.display());
        return Ok(ExitCode::SUCCESS);
    }
    for (tool, package) in TOOLS {
        debian::need(tool, package)?;
    }
    let target = place::target()?.join("bench/deflate");
    let mut build = program::cargo(&["build", "--quiet", "--release", "--manifest-path"]);
    build.arg("bench/deflate/Cargo.toml").arg("--target-dir").arg(&target);
    match suite::encoder() {
        Ok(source) => drop(build.env("SLZ_SOURCE", source)),
        Err(reason) => println!("slz is left out: {reason}"),
    }
    program::run(&mut build)?;
    let mut bench = Command::new(target.join("release/deflate-bench"));
    program::run(bench.arg("proxy").arg(corpus).args([rounds.to_string(), piece.to_string()]))?;
    Ok(ExitCode::SUCCESS)
}
