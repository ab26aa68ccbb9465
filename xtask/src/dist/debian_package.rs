//! A Debian package, made by `tar` and `ar`: an archive of the format's version, what the package is, and its files
//! (deb(5)).

use super::{Dist, files};
use crate::{debian, place, program};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCUMENTATION: &str = "usr/share/doc/weir";

/// Where the binary stands: it does not take the place of an installed haproxy.
const PROGRAM: &str = "usr/sbin/weir";

/// What is said of the package (deb-control(5)).
struct Control {
    version: String,
    architecture: String,
    maintainer: String,
    installed_kilobytes: u64,
    /// The newest version of the C library that the binary asks for.
    libc: String,
}

impl Control {
    fn text(&self) -> String {
        format!(
            "Package: weir\n\
             Version: {}\n\
             Architecture: {}\n\
             Maintainer: {}\n\
             Installed-Size: {}\n\
             Depends: libc6 (>= {}), libgcc-s1\n\
             Section: net\n\
             Priority: optional\n\
             Description: load balancer that reads HAProxy's configuration\n \
             Weir proxies and balances HTTP/1.1, HTTP/2, FastCGI and TCP, with TLS, health\n \
             checks, a cache and compression. It reads HAProxy's configuration language and\n \
             answers its command line, signals and runtime commands.\n",
            self.version, self.architecture, self.maintainer, self.installed_kilobytes, self.libc
        )
    }
}

/// Makes the package of a binary; the file.
pub(super) fn build(dist: &Dist, program: &Path) -> Result<PathBuf, String> {
    let folder = dist.folder.join("deb");
    let (root, about) = (folder.join("root"), folder.join("about"));
    files::empty(&root)?;
    files::empty(&about)?;
    files::copy(program, &root.join(PROGRAM))?;
    files::documentation(&root.join(DOCUMENTATION))?;
    files::copy(
        &place::repository().join("packaging/copyright"),
        &root.join(DOCUMENTATION).join("copyright"),
    )?;
    let control = Control {
        version: dist.version.to_owned(),
        architecture: architecture()?,
        maintainer: git(&["log", "-1", "--format=%cn <%ce>"])?,
        installed_kilobytes: bytes(&root)?.div_ceil(1024),
        libc: libc(program)?,
    };
    place::write(&about.join("control"), &control.text())?;
    place::write(&about.join("md5sums"), &sums(&root)?)?;
    place::write(&folder.join("debian-binary"), "2.0\n")?;
    dist.pack(&folder.join("control.tar.gz"), &about, ".")?;
    dist.pack(&folder.join("data.tar.gz"), &root, ".")?;
    let package = dist.folder.join(format!("weir_{}_{}.deb", control.version, control.architecture));
    archive(&folder, &package)?;
    Ok(package)
}

/// `ar` adds to an archive that is there; its members' order is part of the format.
fn archive(folder: &Path, package: &Path) -> Result<(), String> {
    if package.exists() {
        fs::remove_file(package).map_err(|error| format!("{}: {error}", package.display()))?;
    }
    let mut ar = Command::new(debian::need("ar", "binutils")?);
    ar.arg("rcD").arg(package).args(["debian-binary", "control.tar.gz", "data.tar.gz"]);
    program::output(ar.current_dir(folder)).map(drop)
}

/// Debian's name for this machine's architecture.
fn architecture() -> Result<String, String> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64".to_owned()),
        "aarch64" => Ok("arm64".to_owned()),
        other => Err(format!("no name of Debian's is known for {other}")),
    }
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let said = program::output(Command::new("git").args(arguments).current_dir(place::repository()))?;
    Ok(said.trim().to_owned())
}

/// What the files below a folder hold.
fn bytes(folder: &Path) -> Result<u64, String> {
    let sizes = below(folder)?.into_iter().filter_map(|file| fs::metadata(file).ok());
    Ok(sizes.map(|file| file.len()).sum())
}

fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in files::listed(folder)? {
        if entry.is_dir() {
            found.extend(below(&entry)?);
        } else {
            found.push(entry);
        }
    }
    Ok(found)
}

/// The checksums by which `dpkg --verify` knows the files.
fn sums(root: &Path) -> Result<String, String> {
    let mut text = String::new();
    for file in below(root)? {
        let name = file.strip_prefix(root).map_err(|error| error.to_string())?.display().to_string();
        let said = program::output(Command::new("md5sum").arg(&file))?;
        let sum = said.split(' ').next().unwrap_or_default();
        let _written = writeln!(text, "{sum}  {name}");
    }
    Ok(text)
}

fn libc(program: &Path) -> Result<String, String> {
    let objdump = debian::need("objdump", "binutils")?;
    let symbols = program::output(Command::new(objdump).arg("-T").arg(program))?;
    newest_libc(&symbols).ok_or_else(|| format!("{} asks for no C library", program.display()))
}

/// The newest of the versions that stand in parentheses before a symbol: `(GLIBC_2.34) write`.
fn newest_libc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let numbers =
        |version: &str| -> Option<Vec<u32>> { version.split('.').map(|part| part.parse().ok()).collect() };
    versions
        .filter_map(|version| Some((numbers(version)?, version)))
        .max()
        .map(|(_, version)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_not_the_last_by_letters() {
        let symbols = "0 DF *UND*  0 (GLIBC_2.34) write\n0 DF *UND*  0 (GLIBC_2.9) pipe2\n\
                       0 DF *UND*  0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_PRIVATE) x\n";
        assert_eq!(newest_libc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_libc(""), None);
    }

    #[test]
    fn every_line_of_the_description_is_indented() {
        let control = Control {
            version: "0.1.0".to_owned(),
            architecture: "amd64".to_owned(),
            maintainer: "A <a@b.test>".to_owned(),
            installed_kilobytes: 7,
            libc: "2.34".to_owned(),
        };
        let text = control.text();
        assert!(text.contains("\nDepends: libc6 (>= 2.34), libgcc-s1\n"), "{text}");
        assert!(!text.contains("Conflicts") && !text.contains("haproxy"), "{text}");
        let (_, description) = text.split_once("Description: ").unwrap();
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{text}");
        assert!(text.ends_with('\n'));
    }
}
