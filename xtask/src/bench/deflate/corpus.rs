//! The corpus of the encoder's benchmark: bodies out of packages, gathered into the target folder.
//!
//! `bench/deflate/corpus.txt` says which; a package that cannot be had is left out with the reason.

use crate::{debian, place, program};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Smaller bodies are measured elsewhere; of larger ones the first part is taken.
const LEAST_BODY: u64 = 3 * 1024;
const MOST_BODY: usize = 1024 * 1024;

/// A line of the list.
struct Line<'a> {
    part: &'a str,
    class: &'a str,
    content: &'a str,
    source: &'a str,
    package: &'a str,
    most: usize,
    paths: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().ok_or_else(|| format!("'{line}' lacks a word"));
        let (part, class, content, source, package) = (word()?, word()?, word()?, word()?, word()?);
        let most = word()?.parse().map_err(|_| format!("'{line}' has no number of files"))?;
        Ok(Self { part, class, content, source, package, most, paths: words.collect() })
    }
}

/// The list's lines.
fn lines(text: &str) -> Result<Vec<Line<'_>>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(Line::read).collect()
}

/// Gathers one part of the corpus: a folder for each class and what its type says. Returns the folder.
pub(super) fn gather(part: &str) -> Result<PathBuf, String> {
    let root = place::target()?.join("bench/deflate-corpus");
    let text = place::read(&place::repository().join("bench/deflate/corpus.txt"))?;
    let lines = lines(&text)?;
    let folder = root.join(part);
    drop(fs::remove_dir_all(&folder));
    let mut left_out = BTreeSet::new();
    for line in lines.iter().filter(|line| line.part == part) {
        let taken = unpacked(&root, line).and_then(|package| take(&package, line, &folder));
        if let Err(reason) = taken
            && left_out.insert(line.package)
        {
            println!("{} is left out: {reason}", line.package);
        }
    }
    if folder.is_dir() { Ok(folder) } else { Err(format!("nothing of the part '{part}' could be had")) }
}

/// Copies what the line asks for, from all over the range of sizes.
fn take(package: &Path, line: &Line<'_>, folder: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    files(package, &mut found)?;
    found.retain(|(length, path)| {
        let name = path.to_string_lossy();
        *length >= LEAST_BODY && line.paths.iter().any(|pattern| matches(pattern, &name))
    });
    found.sort();
    if found.is_empty() {
        return Err(format!("it has no {}", line.paths.join(", ")));
    }
    let folder = folder.join(format!("{}.{}", line.class, line.content));
    place::create(&folder)?;
    let wanted = line.most.min(found.len());
    for i in 0..wanted {
        // The middle of each of as many ranges of sizes.
        let (_, path) = &found[(2 * i + 1) * found.len() / (2 * wanted)];
        let mut body = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        body.truncate(MOST_BODY);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = folder.join(format!("{}-{i:02}-{name}", line.package.replace(['/', '@'], "")));
        fs::write(&file, body).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

/// All files below a folder, with their lengths.
fn files(folder: &Path, found: &mut Vec<(u64, PathBuf)>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        // Links are left alone: what they name is found by itself.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            files(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push((entry.metadata().map_or(0, |data| data.len()), entry.path()));
        }
    }
    Ok(())
}

/// Whether a path has a pattern's parts in their order: `*` stands for anything.
fn matches(pattern: &str, path: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return path == pattern };
    let Some(mut path) = path.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return path.ends_with(part);
        }
        let Some(at) = path.find(part) else { return false };
        path = &path[at + part.len()..];
    }
    true
}

/// The package's files, fetched when they are not there yet.
fn unpacked(root: &Path, line: &Line<'_>) -> Result<PathBuf, String> {
    let name = format!("{}-{}", line.source, line.package.replace(['/', '@', '='], "_"));
    let folder = root.join("packages").join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let (download, partial) = (root.join("download").join(&name), root.join("packages").join(name + ".part"));
    for folder in [&download, &partial] {
        drop(fs::remove_dir_all(folder));
        place::create(folder)?;
    }
    println!("fetching {} ({})", line.package, line.source);
    match line.source {
        "apt" => debian_package(line.package, &download, &partial)?,
        "npm" => npm_package(line.package, &download, &partial)?,
        "pip" => python_package(line.package, &download, &partial)?,
        "rustdoc" => documentation(line.package, &download, &partial)?,
        "made" => made(line.package, &partial)?,
        other => return Err(format!("there is no source '{other}'")),
    }
    inflate(&partial)?;
    drop(fs::remove_dir_all(download));
    fs::rename(&partial, &folder).map_err(|error| format!("cannot name {}: {error}", folder.display()))?;
    Ok(folder)
}

/// The one file of a folder.
fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut found = Vec::new();
    files(folder, &mut found)?;
    found.pop().map(|(_, path)| path).ok_or_else(|| "nothing was downloaded".to_owned())
}

fn debian_package(name: &str, download: &Path, folder: &Path) -> Result<(), String> {
    let apt = program::find("apt-get").ok_or("no apt-get on this machine")?;
    let fetch = || {
        let mut command = Command::new(&apt);
        command.current_dir(download).args(["-qq", "-o", "APT::Sandbox::User=", "download", name]);
        program::output(&mut command).map(drop)
    };
    if fetch().is_err() {
        debian::update()?;
        fetch()?;
    }
    let archive = only_file(download)?;
    program::output(Command::new("dpkg-deb").arg("-x").arg(archive).arg(folder)).map(drop)
}

fn npm_package(name: &str, download: &Path, folder: &Path) -> Result<(), String> {
    let npm = debian::need("npm", "npm")?;
    program::output(Command::new(npm).current_dir(download).args(["pack", "--silent", name]))?;
    let archive = only_file(download)?;
    program::output(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder)).map(drop)
}

fn python_package(name: &str, download: &Path, folder: &Path) -> Result<(), String> {
    let python = debian::need("python3", "python3")?;
    let mut pip = Command::new(&python);
    pip.current_dir(download).args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]);
    program::output(pip.arg(name))?;
    let archive = only_file(download)?;
    program::output(Command::new(python).args(["-m", "zipfile", "-e"]).arg(archive).arg(folder)).map(drop)
}

/// What rustdoc makes of a crate that this project depends on.
fn documentation(name: &str, download: &Path, folder: &Path) -> Result<(), String> {
    program::output(
        program::cargo(&["doc", "--quiet", "--no-deps", "-p", name, "--target-dir"]).arg(download),
    )?;
    fs::rename(download.join("doc"), folder.join("doc")).map_err(|error| format!("cannot move: {error}"))
}

/// Packages hold some of their files as gzip.
fn inflate(folder: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    files(folder, &mut found)?;
    for (_, path) in found.iter().filter(|(_, path)| path.extension().is_some_and(|end| end == "gz")) {
        program::output(Command::new("gzip").arg("-dfq").arg(path))?;
    }
    Ok(())
}

/// Logs hold names of real machines, so that no package has them: these are made, the same each time.
fn made(name: &str, folder: &Path) -> Result<(), String> {
    let line = if name == "access-log" { access_line } else { event_line };
    for (i, kilobytes) in [6, 40, 200, 1000].into_iter().enumerate() {
        let (mut dice, mut log) = (Dice(i as u64 + 1), String::new());
        while log.len() < kilobytes * 1024 {
            line(&mut dice, &mut log);
        }
        place::write(&folder.join(format!("{name}.{i}")), &log)?;
    }
    Ok(())
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    /// Below `end`; small ones come more often.
    fn skewed(&mut self, end: usize) -> usize {
        let (a, b) = (self.throw(end), self.throw(end));
        a * b / end
    }

    fn throw(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

const INFALLIBLE: &str = "writing to a string cannot fail";

/// As web servers write it.
fn access_line(dice: &mut Dice, log: &mut String) {
    const PATHS: [&str; 12] = [
        "/",
        "/index.html",
        "/static/js/app.js",
        "/static/css/site.css",
        "/api/v1/items",
        "/images/logo.svg",
        "/login",
        "/search?q=",
        "/blog/2025/",
        "/favicon.ico",
        "/cart/",
        "/robots.txt",
    ];
    const AGENTS: [&str; 5] = [
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
        "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "curl/8.14.1",
    ];
    let second = log.len() / 60;
    writeln!(
        log,
        "{}.{}.{}.{} - - [21/Nov/2025:{:02}:{:02}:{:02} +0000] \"GET {}{} HTTP/1.1\" {} {} \"-\" \"{}\"",
        dice.throw(223) + 1,
        dice.throw(256),
        dice.throw(256),
        dice.throw(256),
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        PATHS[dice.skewed(PATHS.len())],
        dice.skewed(9000),
        [200, 200, 200, 304, 404][dice.throw(5)],
        dice.skewed(90_000),
        AGENTS[dice.skewed(AGENTS.len())],
    )
    .expect(INFALLIBLE);
}

/// As services write it, an object a line.
fn event_line(dice: &mut Dice, log: &mut String) {
    const SERVICES: [&str; 6] = ["checkout", "inventory", "gateway", "mailer", "sessions", "reports"];
    const EVENTS: [&str; 8] = [
        "request completed",
        "cache miss, reading from the store",
        "connection to database refreshed",
        "retrying after timeout",
        "order accepted",
        "user signed in",
        "slow query",
        "job finished",
    ];
    let millis = log.len() * 7;
    writeln!(
        log,
        "{{\"time\":\"2025-11-21T{:02}:{:02}:{:02}.{:03}Z\",\"level\":\"{}\",\"service\":\"{}\",\"trace\":\"{:08x}{:08x}\",\"duration_ms\":{},\"msg\":\"{}\"}}",
        millis / 3_600_000 % 24,
        millis / 60_000 % 60,
        millis / 1000 % 60,
        millis % 1000,
        ["info", "info", "info", "debug", "warn"][dice.throw(5)],
        SERVICES[dice.skewed(SERVICES.len())],
        dice.throw(1 << 31),
        dice.throw(1 << 31),
        dice.skewed(4000),
        EVENTS[dice.skewed(EVENTS.len())],
    )
    .expect(INFALLIBLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_their_patterns() {
        let check =
            |pattern, path, expected| assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        check("*.html", "a/b.html", true);
        check("*.html", "a/b.html.en", false);
        check("*/ja/*", "usr/share/man/ja/man1/ls.1", true);
        check("*lib/*.js", "x/lib/core.js", true);
        check("*lib/*.js", "x/es/core.js", false);
        check("*", "anything", true);
    }

    #[test]
    fn no_package_is_both_tuned_on_and_measured() {
        let text = place::read(&place::repository().join("bench/deflate/corpus.txt")).unwrap();
        let lines = lines(&text).unwrap();
        let of = |part| -> BTreeSet<&str> {
            lines.iter().filter(|line| line.part == part).map(|line| line.package).collect()
        };
        assert_eq!(of("tune").intersection(&of("test")).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert_eq!(lines.iter().filter(|line| !["tune", "test"].contains(&line.part)).count(), 0);
        for part in ["tune", "test"] {
            let classes: BTreeSet<&str> =
                lines.iter().filter(|line| line.part == part).map(|line| line.class).collect();
            assert!(classes.len() >= 12, "{part}: {classes:?}");
        }
    }
}
