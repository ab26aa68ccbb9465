//! The file with the process's number (`-p`, `pidfile`).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A pid file that can be written; it is opened before the root folder and the user change.
#[derive(Debug)]
pub(crate) struct PidFile {
    file: File,
}

impl PidFile {
    /// Opens and empties the file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o644).open(path)?;
        Ok(Self { file })
    }

    /// Writes this process's number.
    pub(crate) fn write(mut self) -> io::Result<()> {
        writeln!(self.file, "{}", std::process::id())
    }
}

/// Opens the file that the command line names, or else the configuration.
pub(crate) fn open(
    option: Option<&PathBuf>,
    configured: Option<&PathBuf>,
) -> Result<Option<PidFile>, String> {
    let Some(path) = option.or(configured) else { return Ok(None) };
    PidFile::open(path)
        .map(Some)
        .map_err(|error| format!("cannot create pid file {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_and_nothing_left_of_a_longer_one() {
        let path = std::env::temp_dir().join(format!("weir-{}.pid", std::process::id()));
        std::fs::write(&path, "123456789012345\n").unwrap();
        PidFile::open(&path).unwrap().write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        std::fs::remove_file(path).unwrap();
    }
}
