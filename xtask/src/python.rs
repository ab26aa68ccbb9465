//! Python packages that bring a program: installed into an environment of their own in the target folder.

use crate::{place, program};
use std::path::PathBuf;
use std::process::Command;

/// The environment's folder in cargo's target folder.
const ENVIRONMENT: &str = "bench/python";

/// Makes sure that `program` is there, installing the Python package `package` where Python is.
pub(crate) fn need(program: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(found) = program::find(program) {
        return Ok(found);
    }
    let environment = place::target()?.join(ENVIRONMENT);
    let found = environment.join("bin").join(program);
    if found.is_file() {
        return Ok(found);
    }
    let missing = |why: String| format!("{program} is missing and {package} was not installed: {why}");
    let python = program::find("python3").ok_or_else(|| missing("no python3 on this machine".to_owned()))?;
    if !environment.join("bin/pip").is_file() {
        program::output(Command::new(python).args(["-m", "venv"]).arg(&environment)).map_err(missing)?;
    }
    println!("installing {package}");
    let pip = environment.join("bin/pip");
    program::output(Command::new(pip).args(["install", "--quiet", package])).map_err(missing)?;
    if found.is_file() { Ok(found) } else { Err(missing(format!("it brings no {program}"))) }
}
