//! HAProxy's source, as Debian's source package has it, kept under the target folder: its regression cases, and the
//! program itself for comparisons.
//!
//! Nothing of it is committed.

use crate::{debian, place, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suite that the committed list of cases was made with.
const WANTED: &str = "3.0.11";

/// What does when Debian has moved on: the newest of the branch.
const NEWEST: &str = "3.0.";

/// The name of the program built from it, among other programs.
pub(crate) const PROGRAM: &str = "haproxy-3.0";

/// Debian's release that has it.
const RELEASE: &str = "trixie";

/// The folder above `reg-tests`, fetched when it is not there yet.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let unpacked = place::target()?.join("regtests/suite");
    if unpacked.join("reg-tests").is_dir() {
        return Ok(unpacked);
    }
    println!("fetching the regression cases");
    let archive = archive()?;
    unpack(&archive, "*/reg-tests", &unpacked, |_| Ok(()))?;
    println!("regression cases of {}", archive.display());
    Ok(unpacked)
}

/// The program, built as its makefile does by itself, with TLS and metrics; built when it is not there yet.
pub(crate) fn program() -> Result<PathBuf, String> {
    let unpacked = place::target()?.join("bench").join(PROGRAM);
    let program = unpacked.join("haproxy");
    if program.is_file() {
        return Ok(program);
    }
    let make = debian::need("make", "make")?;
    debian::need("cc", "gcc")?;
    debian::need_file("/usr/include/openssl/ssl.h", "libssl-dev")?;
    println!("building {PROGRAM}");
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    unpack(&archive()?, "*", &unpacked, |source| {
        let mut command = Command::new(&make);
        command.arg("-C").arg(source).arg(format!("-j{jobs}"));
        program::output(command.args(["TARGET=linux-glibc", "USE_OPENSSL=1", "USE_PROMEX=1"])).map(drop)
    })?;
    Ok(program)
}

/// The folder of the sources, unpacked for the encoder that is in them.
pub(crate) fn encoder() -> Result<PathBuf, String> {
    let unpacked = place::target()?.join("bench/slz");
    if !unpacked.join("src/slz.c").is_file() {
        unpack(&archive()?, "*/slz*", &unpacked, |_| Ok(()))?;
    }
    Ok(unpacked)
}

/// The source's archive, fetched when it is not there yet.
fn archive() -> Result<PathBuf, String> {
    let downloads = place::target()?.join("regtests/download");
    place::create(&downloads)?;
    if let Ok(archive) = original(&downloads, WANTED) {
        return Ok(archive);
    }
    let fetch = |version: &str| debian::fetch_source("haproxy", version, RELEASE, &downloads);
    let version = fetch(WANTED).or_else(|_| fetch(NEWEST))?;
    original(&downloads, version.split('-').next().unwrap_or(&version))
}

fn original(downloads: &Path, upstream: &str) -> Result<PathBuf, String> {
    ["gz", "xz", "bz2"]
        .iter()
        .map(|end| downloads.join(format!("haproxy_{upstream}.orig.tar.{end}")))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("the source package of haproxy {upstream} has no tar archive"))
}

/// Unpacks what matches, finishes it beside its final place and then renames, so that half of it is never used.
fn unpack(
    archive: &Path,
    matching: &str,
    folder: &Path,
    finish: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)
            .map_err(|error| format!("cannot remove {}: {error}", partial.display()))?;
    }
    place::create(&partial)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(&partial);
    program::output(tar.args(["--strip-components=1", "--wildcards", matching]))?;
    finish(&partial)?;
    std::fs::rename(&partial, folder).map_err(|error| format!("cannot name {}: {error}", folder.display()))
}
