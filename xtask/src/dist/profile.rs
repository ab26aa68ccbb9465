//! Profile-guided optimisation: a build that counts what runs, and its counts under load.

use super::{build, files, training};
use crate::{debian, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds, trains and merges; the merged profile.
pub(super) fn record(merge: &Path, folder: &Path) -> Result<PathBuf, String> {
    let profiles = folder.join("profiles");
    let counting = build::weir(&[format!("-Cprofile-generate={}", profiles.display())])?;
    files::empty(&profiles)?;
    training::run(&counting)?;
    let merged = folder.join("weir.profdata");
    let recorded = files::listed(&profiles)?;
    println!("merging {} profiles", recorded.len());
    program::output(Command::new(merge).args(["merge", "--output"]).arg(&merged).args(&recorded))?;
    Ok(merged)
}

/// `llvm-profdata` of the compiler's version: an older one cannot read what it writes.
pub(super) fn llvm_profdata() -> Result<PathBuf, String> {
    let wanted = build::llvm()?;
    let of_rustup = || {
        let mut rustc = Command::new("rustc");
        let folder = program::output(rustc.args(["--print", "target-libdir"])).ok()?;
        Some(Path::new(folder.trim()).parent()?.join("bin/llvm-profdata"))
    };
    let named = format!("llvm-profdata-{wanted}");
    let here = [program::find(&named), program::find("llvm-profdata"), of_rustup()];
    match here.into_iter().flatten().find(|tool| version(tool).is_some_and(|version| version >= wanted)) {
        Some(tool) => Ok(tool),
        None => debian::need(&named, &format!("llvm-{wanted}")),
    }
}

fn version(tool: &Path) -> Option<u32> {
    read_version(&program::output(Command::new(tool).args(["merge", "--version"])).ok()?)
}

/// Reads `LLVM version 22.1.8` with words before it.
fn read_version(said: &str) -> Option<u32> {
    said.split_once("LLVM version ")?.1.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(read_version("Debian LLVM version 22.1.8\n  Optimized build.\n"), Some(22));
        assert_eq!(read_version("llvm-profdata: Unknown command!"), None);
    }
}
