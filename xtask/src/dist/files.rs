//! Which files a package has besides the binary.

use crate::place;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the repository and their names in a package's documentation.
const DOCUMENTS: [(&str, &str); 3] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("packaging/example.cfg", "examples/weir.cfg"),
];

pub(super) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Copies the documentation into a folder, with what it links to below `docs`.
pub(super) fn documentation(folder: &Path) -> Result<(), String> {
    for (file, name) in DOCUMENTS {
        copy(&place::repository().join(file), &folder.join(name))?;
    }
    for file in listed(&place::repository().join("docs"))? {
        if let Some(name) = file.file_name() {
            copy(&file, &folder.join("docs").join(name))?;
        }
    }
    Ok(())
}

/// Copies a file, making the folders above it.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(above) = to.parent() {
        place::create(above)?;
    }
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// An empty folder of that name.
pub(super) fn empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    place::create(folder)
}

/// What a folder holds, by name.
pub(super) fn listed(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_package_is_in_the_repository() {
        let named = DOCUMENTS.iter().map(|(file, _)| *file).chain(LICENCES).chain(["packaging/copyright"]);
        for file in named {
            assert!(place::repository().join(file).is_file(), "{file}");
        }
    }
}
