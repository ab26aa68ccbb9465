//! The only place of this crate that touches the file system, and it only reads.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest file that is read into memory, bytes: far above any sensible map or configuration.
const LONGEST_FILE: u64 = 1 << 30;

/// Reads a file the configuration names.
///
/// # Errors
/// The system's, and one for files longer than [`LONGEST_FILE`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("the file is too long"));
    }
    Ok(bytes)
}

/// The `*.cfg` files of a folder in the order of their names; hidden ones are left out.
///
/// # Errors
/// The folder cannot be listed.
pub(crate) fn configurations_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|ext| ext == "cfg") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
