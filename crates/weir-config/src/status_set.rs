//! Sets of response statuses: `http-err-codes`, `http-fail-codes`.

use std::ops::RangeInclusive;

/// Statuses of HTTP.
const STATUSES: RangeInclusive<u16> = 100..=599;

/// A set of statuses from 100 to 599.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusSet {
    bits: [u64; 8],
}

impl StatusSet {
    /// No status.
    pub const EMPTY: Self = Self { bits: [0; 8] };

    /// 400 to 499.
    pub const ERRORS: Self = Self::EMPTY.changed(400, 499, true);

    /// 500 to 599, less 501 and 505, which clients can cause.
    pub const FAILURES: Self =
        Self::EMPTY.changed(500, 599, true).changed(501, 501, false).changed(505, 505, false);

    /// A status is in the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        STATUSES.contains(&status)
            && self.bits[usize::from(status - 100) / 64] >> ((status - 100) % 64) & 1 == 1
    }

    /// The set with the statuses from `low` to `high`, which are from 100 to 599, put in or taken out.
    const fn changed(mut self, low: u16, high: u16, on: bool) -> Self {
        let mut status = low;
        while status <= high {
            let (word, bit) = ((status - 100) as usize / 64, 1 << ((status - 100) % 64));
            if on {
                self.bits[word] |= bit;
            } else {
                self.bits[word] &= !bit;
            }
            status += 1;
        }
        self
    }

    /// Applies one argument: `[+-]RANGE[,RANGE...]`; without a sign it replaces the set.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn apply(&mut self, text: &str) -> Result<(), String> {
        let (sign, ranges) = match text.as_bytes().first() {
            Some(b'+') => (Some(true), &text[1..]),
            Some(b'-') => (Some(false), &text[1..]),
            _ => (None, text),
        };
        let mut set = if sign.is_none() { Self::EMPTY } else { *self };
        for range in ranges.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            match (low.parse::<u16>(), high.parse::<u16>()) {
                (Ok(low), Ok(high)) if STATUSES.contains(&low) && low <= high && STATUSES.contains(&high) => {
                    set = set.changed(low, high, sign.unwrap_or(true));
                }
                _ => {
                    return Err(format!(
                        "'{range}' is neither a status from 100 to 599 nor a range such as 400-499"
                    ));
                }
            }
        }
        *self = set;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let check = |line: &str, inside: &[u16], outside: &[u16]| {
            let mut set = StatusSet::ERRORS;
            line.split(' ').for_each(|part| set.apply(part).unwrap());
            inside.iter().for_each(|s| assert!(set.contains(*s), "{line}: {s}"));
            outside.iter().for_each(|s| assert!(!set.contains(*s), "{line}: {s}"));
        };
        check("220 +300-499 -300-399", &[220, 400, 499], &[200, 300, 399, 500]);
        check("400,402-444,490", &[400, 402, 444, 490], &[401, 445, 499]);
        check("+501,505", &[400, 501, 505], &[502, 399]);
        check("-450-459", &[449, 460], &[450, 459]);
        assert!(StatusSet::FAILURES.contains(500) && !StatusSet::FAILURES.contains(501));
        assert!(!StatusSet::ERRORS.contains(99) && !StatusSet::ERRORS.contains(u16::MAX));
        for bad in ["", "99", "600", "400-300", "4x", "+"] {
            assert!(StatusSet::EMPTY.clone().apply(bad).is_err(), "{bad}");
        }
    }
}
