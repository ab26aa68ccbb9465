//! Where things are: the repository, the build folder, and short-lived folders.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Cargo's target folder: the one this program was built into.
pub(crate) fn target() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    // target/debug/xtask
    let folder = program.ancestors().nth(2).ok_or("this program is not in a target folder")?;
    Ok(folder.to_path_buf())
}

/// Creates a folder and those above it.
pub(crate) fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))
}

/// Reads a text file.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Writes a text file.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// A folder with a short name (a Unix socket's path has at most 107 bytes), removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(label: &str) -> Result<Self, String> {
        let folder = Path::new("/tmp").join(format!("wx{}{label}", std::process::id()));
        create(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind in the temporary folder harms nobody.
        drop(fs::remove_dir_all(&self.0));
    }
}
