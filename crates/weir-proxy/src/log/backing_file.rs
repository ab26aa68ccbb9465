//! The file that keeps a ring's last lines for after the process (`backing-file`).
//!
//! The file has the ring's size and is written round and round, a line after the other; a zero byte stands behind the
//! newest one. What a process before left is kept under the name with `.bak`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A file that is written round and round.
#[derive(Debug)]
pub(super) struct BackingFile {
    file: File,
    size: usize,
    at: usize,
}

impl BackingFile {
    /// Makes the file; one that is there already and not empty is renamed.
    ///
    /// # Errors
    /// The system's. Failing to rename is none: the file is written over then.
    pub(super) fn create(path: &Path, size: usize) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            let mut kept = path.as_os_str().to_owned();
            kept.push(".bak");
            // Manual, `backing-file`: a folder without the right to write is a way to have no second file.
            let _rotated = fs::rename(path, kept);
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.set_len(u64::try_from(size).unwrap_or(u64::MAX))?;
        Ok(Self { file, size, at: 0 })
    }

    /// Writes a line over the oldest ones.
    pub(super) fn push(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(self.size.saturating_sub(2))];
        let end: &[u8] = if line.ends_with(b"\n") { b"\0" } else { b"\n\0" };
        let bytes = [line, end].concat();
        let first = bytes.len().min(self.size - self.at);
        // A full disk must not stop what logs.
        let _written = self.file.write_all_at(&bytes[..first], self.at as u64);
        let _written = self.file.write_all_at(&bytes[first..], 0);
        // The next line begins where the zero byte is.
        self.at = (self.at + bytes.len() - 1) % self.size.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_stay_and_an_older_file_is_kept() {
        let path = std::env::temp_dir().join(format!("weir-ring-{}", std::process::id()));
        let kept = path.with_extension("bak");
        let check = |lines: &[&str], expected: &[u8]| {
            let mut file = BackingFile::create(&path, 12).unwrap();
            lines.iter().for_each(|line| file.push(line.as_bytes()));
            assert_eq!(fs::read(&path).unwrap(), expected, "{lines:?}");
        };
        check(&["one"], b"one\n\0\0\0\0\0\0\0\0");
        check(&["one\n", "two", "three"], b"e\n\0\ntwo\nthre");
        assert_eq!(fs::read(&kept).unwrap(), b"one\n\0\0\0\0\0\0\0\0");
        check(&["a line that is too long"], b"a line tha\n\0");
        fs::remove_file(path).unwrap();
        fs::remove_file(kept).unwrap();
    }
}
