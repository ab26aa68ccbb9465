//! Builds what is packaged.

use crate::{place, program};
use std::path::PathBuf;
use std::process::Command;

/// Optimised across all crates: see `Cargo.toml`.
const PROFILE: &str = "dist";

/// Builds the binary in its profile, with more flags of the compiler. The machine is named as the target, or the flags
/// would go to build scripts and macros too: instrumented, those would write profiles of their own.
pub(super) fn weir(flags: &[String]) -> Result<PathBuf, String> {
    let (target, host) = (place::target()?, said("host: ")?);
    println!("building in profile {PROFILE} {}", flags.join(" "));
    let mut cargo = program::cargo(&["build", "--quiet", "--package", "weir", "--profile", PROFILE]);
    cargo.args(["--target", &host]).arg("--target-dir").arg(&target);
    // Flags with a separator of their own: a path may hold spaces.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    program::run(&mut cargo)?;
    Ok(target.join(host).join(PROFILE).join("weir"))
}

/// The number of LLVM's version in the compiler.
pub(super) fn llvm() -> Result<u32, String> {
    let version = said("LLVM version: ")?;
    let major = version.split('.').next().and_then(|major| major.parse().ok());
    major.ok_or_else(|| format!("rustc names no version of LLVM: {version}"))
}

/// A line of what the compiler says of itself.
fn said(start: &str) -> Result<String, String> {
    let text = program::output(Command::new("rustc").arg("-vV").current_dir(place::repository()))?;
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    line.map(str::to_owned).ok_or_else(|| format!("rustc -vV has no line '{start}'"))
}
