//! Fetches HAProxy's regression cases: Debian's source package, kept under the target folder.
//!
//! Nothing of the suite is committed.

use crate::{debian, place, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suite that the committed list of cases was made with.
const WANTED: &str = "3.0.11";

/// What does when Debian has moved on: the newest of the branch.
const NEWEST: &str = "3.0.";

/// Debian's release that has it.
const RELEASE: &str = "trixie";

/// The folder above `reg-tests`, fetched when it is not there yet.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let cache = place::target()?.join("regtests");
    let unpacked = cache.join("suite");
    if unpacked.join("reg-tests").is_dir() {
        return Ok(unpacked);
    }
    println!("fetching the regression cases");
    let downloads = cache.join("download");
    place::create(&downloads)?;
    let fetch = |version: &str| debian::fetch_source("haproxy", version, RELEASE, &downloads);
    let version = fetch(WANTED).or_else(|_| fetch(NEWEST))?;
    let upstream = version.split('-').next().unwrap_or(&version);
    unpack(&original(&downloads, upstream)?, &unpacked)?;
    println!("regression cases of haproxy {version}");
    Ok(unpacked)
}

fn original(downloads: &Path, upstream: &str) -> Result<PathBuf, String> {
    ["gz", "xz", "bz2"]
        .iter()
        .map(|end| downloads.join(format!("haproxy_{upstream}.orig.tar.{end}")))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("the source package of haproxy {upstream} has no tar archive"))
}

/// Unpacks the cases beside their final place and then renames, so that half a suite is never used.
fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)
            .map_err(|error| format!("cannot remove {}: {error}", partial.display()))?;
    }
    place::create(&partial)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(&partial);
    program::output(tar.args(["--strip-components=1", "--wildcards", "*/reg-tests"]))?;
    std::fs::rename(&partial, folder).map_err(|error| format!("cannot name {}: {error}", folder.display()))
}
