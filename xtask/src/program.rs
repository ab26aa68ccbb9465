//! Runs other programs.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Folders where Debian keeps servers; an ordinary user's PATH lacks them.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Where `name` is, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Runs a command with its output on this terminal; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status =
        command.stdin(Stdio::null()).status().map_err(|error| format!("{}: {error}", name_of(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name_of(command))) }
}

/// Runs a command and keeps its output; anything but success is an error that ends with what it said.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", name_of(command)))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    Err(format!("{}: {status}\n{}", name_of(command), said.trim_end()))
}

/// Runs cargo in the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(crate::place::repository());
    command
}

/// Builds the binary `weir` in a profile and says where it is.
pub(crate) fn build_weir(profile: &str) -> Result<PathBuf, String> {
    let target = crate::place::target()?;
    run(cargo(&["build", "--quiet", "--package", "weir", "--profile", profile])
        .arg("--target-dir")
        .arg(&target))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target.join(folder).join("weir");
    if program.is_file() { Ok(program) } else { Err(format!("{} was not built", program.display())) }
}

fn name_of(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
