//! `cargo xtask dist`: the packaged binary, optimised by what it does under load, as a tarball and a Debian package.
//!
//! docs/packaging.md describes both. What cannot be had on a machine is left out with the reason: without LLVM's tools
//! the binary is not optimised by profile.

mod bolt;
mod build;
mod debian_package;
mod files;
mod profile;
mod training;

use crate::arguments::Arguments;
use crate::{debian, place, program};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What is packaged, and where.
struct Dist {
    /// In cargo's target folder.
    folder: PathBuf,
    version: &'static str,
    /// When the packaged commit was made, in seconds: two packages of it are the same.
    made_at: String,
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments = Arguments::read(given, &["program"], &["bolt"])?;
    if let Some(word) = arguments.words.first() {
        return Err(format!("unknown option '{word}'"));
    }
    let dist = Dist::new()?;
    let built = match arguments.text("program") {
        Some(path) => PathBuf::from(path),
        None => optimised(&dist.folder, arguments.has("bolt"))?,
    };
    let program = dist.without_symbols(&built)?;
    let tarball = dist.tarball()?;
    let package = debian_package::build(&dist, &program)?;
    for file in [&built, &dist.symbols(), &tarball, &package] {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the binary in two steps where LLVM's tools are there: one that counts what it does, and one that knows.
fn optimised(folder: &Path, bolt: bool) -> Result<PathBuf, String> {
    let flags = match profile::llvm_profdata() {
        Ok(merge) => vec![format!("-Cprofile-use={}", profile::record(&merge, folder)?.display())],
        Err(reason) => {
            println!("the binary is not optimised by profile: {reason}");
            Vec::new()
        }
    };
    if !bolt {
        return build::weir(&flags);
    }
    let tools = bolt::Tools::find()?;
    let built = build::weir(&[flags, vec![bolt::KEEP_RELOCATIONS.to_owned()]].concat())?;
    tools.optimise(&built, folder)
}

impl Dist {
    fn new() -> Result<Self, String> {
        let folder = place::target()?.join("dist");
        place::create(&folder)?;
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(place::repository());
        let made_at = program::output(&mut git)?.trim().to_owned();
        Ok(Self { folder, version: env!("CARGO_PKG_VERSION"), made_at })
    }

    /// A name such as `weir-0.1.0-x86_64`.
    fn name(&self) -> String {
        format!("weir-{}-{}", self.version, std::env::consts::ARCH)
    }

    /// The folder that the tarball holds. Cargo's own binary of the profile may stand beside it.
    fn top(&self) -> PathBuf {
        self.folder.join(self.name())
    }

    fn symbols(&self) -> PathBuf {
        self.folder.join("weir.debug")
    }

    /// Copies the binary without its symbols, which go to a file of their own; the binary names that file, so that
    /// debuggers and its own backtraces find it beside the binary or under `/usr/lib/debug`.
    fn without_symbols(&self, built: &Path) -> Result<PathBuf, String> {
        let objcopy = objcopy()?;
        let program = self.top().join("weir");
        files::empty(&self.top())?;
        let mut apart = Command::new(&objcopy);
        apart.args(["--only-keep-debug", "--compress-debug-sections"]).arg(built).arg(self.symbols());
        program::output(&mut apart)?;
        let mut strip = Command::new(&objcopy);
        strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", self.symbols().display()));
        program::output(strip.arg(built).arg(&program))?;
        program::output(Command::new(&program).arg("-v"))?;
        Ok(program)
    }

    /// Everything in one folder, for machines without Debian's tools; the binary stands there already.
    fn tarball(&self) -> Result<PathBuf, String> {
        let top = self.top();
        files::documentation(&top)?;
        for licence in files::LICENCES {
            files::copy(&place::repository().join(licence), &top.join(licence))?;
        }
        let tarball = self.folder.join(format!("{}.tar.gz", self.name()));
        self.pack(&tarball, &self.folder, &self.name())?;
        Ok(tarball)
    }

    /// Packs what stands in a folder; the same files are the same octets.
    fn pack(&self, archive: &Path, folder: &Path, what: &str) -> Result<(), String> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
        tar.arg(format!("--mtime=@{}", self.made_at)).arg("--create").arg("--gzip");
        tar.arg("--file").arg(archive).arg("--directory").arg(folder).arg(what);
        program::output(&mut tar).map(drop)
    }
}

/// LLVM's own where it is: GNU's leaves a binary that BOLT has laid out unable to run.
fn objcopy() -> Result<PathBuf, String> {
    let of_llvm = program::find(&format!("llvm-objcopy-{}", build::llvm()?));
    of_llvm.map_or_else(|| debian::need("objcopy", "binutils"), Ok)
}
