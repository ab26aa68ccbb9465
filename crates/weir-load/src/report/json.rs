//! A run as a file, and back.

use crate::result::RunResult;

/// The longest file that is read, in bytes: a day of intervals fits.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The figures as JSON, on one line.
///
/// # Panics
/// Never: figures have no keys that JSON could not write.
#[must_use]
pub fn write(result: &RunResult) -> String {
    let mut text = serde_json::to_string(result).expect("plain data has no keys but strings");
    text.push('\n');
    text
}

/// Reads what [`write`] wrote.
///
/// # Errors
/// What is wrong with the text, and where.
pub fn read(text: &str) -> Result<RunResult, String> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("longer than {} MiB", MAX_FILE_BYTES >> 20));
    }
    serde_json::from_str(text).map_err(|error| format!("not a file of `weir load --json`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn what_is_written_is_read() {
        for result in [fixture::paced(), fixture::closed(), fixture::ramp()] {
            assert_eq!(read(&write(&result)), Ok(result));
        }
    }

    #[test]
    fn other_files_are_refused() {
        let check = |text: &str| assert!(read(text).unwrap_err().contains("not a file of"), "{text}");
        check("");
        check("[]");
        check("{\"tool\":\"weir 0.1.0\"}");
    }
}
