//! Debian's packages: installs a missing program, and fetches a source package without touching the
//! machine's own package lists.

use crate::{place, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes sure that `program` is there, installing `package` where root or sudo allows it.
pub(crate) fn need(program: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(found) = program::find(program) {
        return Ok(found);
    }
    install(package).map_err(|why| format!("{program} is missing and {package} was not installed: {why}"))?;
    program::find(program).ok_or_else(|| format!("{program} is missing although {package} is installed"))
}

/// Makes sure that a file of `package` is there.
pub(crate) fn need_file(path: &str, package: &str) -> Result<(), String> {
    if Path::new(path).is_file() {
        return Ok(());
    }
    install(package).map_err(|why| format!("{path} is missing and {package} was not installed: {why}"))
}

fn install(package: &str) -> Result<(), String> {
    if program::find("apt-get").is_none() {
        return Err("no apt-get on this machine".to_owned());
    }
    println!("installing {package}");
    // A failing update may still leave a usable list.
    if update().is_err() {
        println!("apt-get update failed; trying with the lists that are here");
    }
    let mut command = administrator()?;
    // RUNLEVEL=1 keeps the package from starting its service on ports that nobody asked for.
    command.args(["RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "install", "-y"]);
    program::output(command.args(["--no-install-recommends", package])).map(drop)
}

/// Brings the lists of packages up to date: an outdated list names some that are gone.
pub(crate) fn update() -> Result<(), String> {
    program::output(administrator()?.args(["apt-get", "-qq", "update"])).map(drop)
}

/// `env`, run as root.
fn administrator() -> Result<Command, String> {
    if rustix::process::geteuid().is_root() {
        return Ok(Command::new("env"));
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).output();
    if !sudo.is_ok_and(|output| output.status.success()) {
        return Err("neither root nor sudo without a password".to_owned());
    }
    let mut command = Command::new("sudo");
    command.args(["-n", "env"]);
    Ok(command)
}

/// A place that packages come from, as the machine's own apt sources name it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    address: String,
    signed_by: Option<String>,
}

/// Downloads the files of the newest `name` source package whose version starts with `version`, as
/// Debian's `suite` has it, into `folder`. Returns the version.
pub(crate) fn fetch_source(name: &str, version: &str, suite: &str, folder: &Path) -> Result<String, String> {
    if program::find("apt-get").is_none() {
        return Err("no apt-get on this machine".to_owned());
    }
    let mut why = "the machine's apt sources name no Debian archive".to_owned();
    for origin in origins()? {
        match fetch_from(&origin, name, version, suite, folder) {
            Ok(version) => return Ok(version),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn fetch_from(
    origin: &Origin,
    name: &str,
    version: &str,
    suite: &str,
    folder: &Path,
) -> Result<String, String> {
    let private = folder.join("apt");
    let (lists, cache) = (private.join("lists"), private.join("cache"));
    place::create(&lists.join("partial"))?;
    place::create(&cache.join("archives/partial"))?;
    let sources = private.join("sources.list");
    let signed_by = origin.signed_by.as_ref().map(|key| format!("[signed-by={key}] ")).unwrap_or_default();
    place::write(&sources, &format!("deb-src {signed_by}{} {suite} main\n", origin.address))?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder).arg("-o").arg(format!("Dir::Etc::sourcelist={}", sources.display()));
        command.args(["-o", "Dir::Etc::sourceparts=-", "-o", "APT::Sandbox::User=", "-q"]);
        command.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
        command.arg("-o").arg(format!("Dir::Cache={}", cache.display()));
        command
    };
    program::output(apt("apt-get").arg("update"))?;
    let known = program::output(apt("apt-cache").args(["showsrc", name]))?;
    let newest = newest_version(&known, version)
        .ok_or_else(|| format!("{suite} has no {name} {version}, only: {}", versions(&known).join(", ")))?;
    program::output(apt("apt-get").args(["source", "--download-only", &format!("{name}={newest}")]))?;
    Ok(newest)
}

/// The versions that `apt-cache showsrc` lists.
fn versions(listing: &str) -> Vec<&str> {
    listing.lines().filter_map(|line| line.strip_prefix("Version: ")).map(str::trim).collect()
}

fn newest_version(listing: &str, start: &str) -> Option<String> {
    let numbers = |version: &str| -> Vec<u64> {
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    versions(listing)
        .into_iter()
        .filter(|version| version.starts_with(start))
        .max_by_key(|version| numbers(version))
        .map(str::to_owned)
}

/// The Debian archives among the machine's apt sources, first named first.
fn origins() -> Result<Vec<Origin>, String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut more: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        more.sort();
        files.extend(more);
    }
    let mut origins = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let named = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => stanzas(&text),
            Some("list") => lines(&text),
            _ => continue,
        };
        for origin in named {
            // Security updates live beside the archive, not in it.
            let archive = origin.address.trim_end_matches('/').ends_with("/debian");
            if archive && !origins.contains(&origin) {
                origins.push(origin);
            }
        }
    }
    Ok(origins)
}

/// Sources in the one-line form: `deb [options] address suite component...`.
fn lines(text: &str) -> Vec<Origin> {
    let mut origins = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("deb ") else { continue };
        let (options, rest) = match rest.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        if let Some(address) = rest.split_whitespace().next() {
            origins.push(Origin { address: address.to_owned(), signed_by: signed_by.map(str::to_owned) });
        }
    }
    origins
}

/// Sources in the stanza form: `Types:`, `URIs:`, `Suites:`, `Signed-By:`.
fn stanzas(text: &str) -> Vec<Origin> {
    let mut origins = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if field("Enabled:") == Some("no") || !field("Types:").is_some_and(|types| types.contains("deb")) {
            continue;
        }
        // A key that stands in the stanza itself has no file name; apt then uses its trusted keys.
        let signed_by = field("Signed-By:").filter(|key| key.starts_with('/'));
        for address in field("URIs:").unwrap_or_default().split_whitespace() {
            origins.push(Origin { address: address.to_owned(), signed_by: signed_by.map(str::to_owned) });
        }
    }
    origins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_in_both_forms() {
        let wanted =
            Origin { address: "http://archive.test/debian".to_owned(), signed_by: Some("/k.gpg".to_owned()) };
        let line = "# a comment\ndeb [arch=amd64 signed-by=/k.gpg] http://archive.test/debian stable main\n";
        assert_eq!(lines(line), std::slice::from_ref(&wanted));
        let stanza = "Types: deb\nURIs: http://archive.test/debian\nSuites: stable\nSigned-By: /k.gpg\n";
        assert_eq!(stanzas(stanza), [wanted]);
        assert_eq!(stanzas("Types: deb\nEnabled: no\nURIs: http://archive.test/debian\n"), []);
    }

    #[test]
    fn the_newest_version_is_taken() {
        let listing = "Package: p\nVersion: 3.0.9-1\n\nPackage: p\nVersion: 3.0.11-1\n\nVersion: 3.2.1-1\n";
        assert_eq!(newest_version(listing, "3.0."), Some("3.0.11-1".to_owned()));
        assert_eq!(newest_version(listing, "2."), None);
    }
}
