//! Python packages that bring a program: installed into an environment of their own in the target folder.

use crate::{place, program};
use std::path::{Path, PathBuf};
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
    install(&environment, &[package]).map_err(missing)?;
    if found.is_file() { Ok(found) } else { Err(missing("it brings no such program".to_owned())) }
}

/// Makes sure that the environment has these packages. Returns the folder with its `python3`.
pub(crate) fn packages(names: &[&str]) -> Result<PathBuf, String> {
    let environment = place::target()?.join(ENVIRONMENT);
    let programs = environment.join("bin");
    let imports = names.iter().map(|name| format!("import {name};")).collect::<String>();
    let imported = Command::new(programs.join("python3")).args(["-c", &imports]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        let missing = |why| format!("the Python packages {} were not installed: {why}", names.join(", "));
        install(&environment, names).map_err(missing)?;
    }
    Ok(programs)
}

fn install(environment: &Path, packages: &[&str]) -> Result<(), String> {
    let python = program::find("python3").ok_or("no python3 on this machine")?;
    if !environment.join("bin/pip").is_file() {
        program::output(Command::new(python).args(["-m", "venv"]).arg(environment))?;
    }
    println!("installing {}", packages.join(", "));
    let pip = environment.join("bin/pip");
    program::output(Command::new(pip).args(["install", "--quiet"]).args(packages)).map(drop)
}
