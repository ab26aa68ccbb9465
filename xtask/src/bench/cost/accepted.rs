//! The counts that were accepted: a committed file, and how far other counts are from it.

use std::fmt::Write;

/// Instructions of the same program differ by less from run to run, and what a change costs is seen above it.
const INSTRUCTIONS_PERCENT: u64 = 2;

/// Misses change by more when code that a change does not touch comes to lie elsewhere.
const MISSES_PERCENT: u64 = 10;

/// What is compared, for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    pub(super) l1i_misses: u64,
}

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// What else the counts depend on.
    pub(super) with: String,
    pub(super) rows: Vec<(String, Counts)>,
}

const HEAD: &str = "\
# User instructions and misses of a simulated instruction cache of 32 kB, a request. `cargo xtask check` compares
# with them; `cargo xtask bench cost --accept` writes them.
";

impl Accepted {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut read = Self { with: String::new(), rows: Vec::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(with) = line.strip_prefix("with ") {
                with.clone_into(&mut read.with);
                continue;
            }
            read.rows.push(row(line).ok_or_else(|| format!("'{line}' is not a row and two counts"))?);
        }
        Ok(read)
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}with {}\n", self.with);
        for (row, counts) in &self.rows {
            let _written = writeln!(text, "{row} {} {}", counts.instructions, counts.l1i_misses);
        }
        text
    }
}

fn row(line: &str) -> Option<(String, Counts)> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[row, instructions, misses] = words.as_slice() else { return None };
    let counts = Counts { instructions: instructions.parse().ok()?, l1i_misses: misses.parse().ok()? };
    Some((row.to_owned(), counts))
}

/// How a count left its tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Higher(String),
    Lower(String),
}

/// What of a row's counts is no longer as it was accepted.
pub(super) fn changes(row: &str, accepted: Counts, found: Counts) -> Vec<Change> {
    let both = [
        ("instructions", INSTRUCTIONS_PERCENT, accepted.instructions, found.instructions),
        ("L1i misses", MISSES_PERCENT, accepted.l1i_misses, found.l1i_misses),
    ];
    both.into_iter().filter_map(|(what, percent, from, to)| change(row, what, percent, from, to)).collect()
}

fn change(row: &str, what: &str, tolerated_percent: u64, from: u64, to: u64) -> Option<Change> {
    if from.abs_diff(to) * 100 <= from * tolerated_percent {
        return None;
    }
    let percent = (to as f64 / from.max(1) as f64 - 1.0) * 100.0;
    let moved = format!("from {from} to {to} ({percent:+.1} %)");
    let accept = "`cargo xtask bench cost --accept`";
    Some(if to > from {
        Change::Higher(format!("{row}: {what} a request rose {moved}; where that is wanted, {accept}"))
    } else {
        Change::Lower(format!("{row}: {what} a request fell {moved}; {accept} makes that the new limit"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let counts = Counts { instructions: 16_830, l1i_misses: 1451 };
        let accepted = Accepted {
            with: "rustc 1.95.0, glibc 2.36".to_owned(),
            rows: vec![("h1-small".to_owned(), counts)],
        };
        assert_eq!(Accepted::read(&accepted.text()), Ok(accepted));
        assert!(Accepted::read("h1-small 1\n").is_err());
        assert!(Accepted::read("h1-small 1 many\n").is_err());
    }

    #[test]
    fn two_in_a_hundred_are_no_change() {
        let check = |from: u64, to: u64, expected: Option<bool>| {
            let counts = |instructions| Counts { instructions, l1i_misses: 7 };
            let found = changes("h1-small", counts(from), counts(to));
            let higher = found.first().map(|change| matches!(change, Change::Higher(_)));
            assert_eq!((higher, found.len()), (expected, usize::from(expected.is_some())), "{from} {to}");
        };
        check(1000, 1020, None);
        check(1000, 980, None);
        check(1000, 1021, Some(true));
        check(1000, 979, Some(false));
        check(0, 0, None);
        check(0, 1, Some(true));
        let misses = |l1i_misses| Counts { instructions: 7, l1i_misses };
        assert_eq!(changes("h1-small", misses(1000), misses(1100)), []);
        assert_eq!(changes("h1-small", misses(1000), misses(1101)).len(), 1);
    }

    #[test]
    fn a_change_says_what_to_do() {
        let higher = Change::Higher(
            "h1-small: instructions a request rose from 1000 to 1100 (+10.0 %); where that is wanted, \
             `cargo xtask bench cost --accept`"
                .to_owned(),
        );
        assert_eq!(change("h1-small", "instructions", INSTRUCTIONS_PERCENT, 1000, 1100), Some(higher));
    }
}
