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
    #[must_use]
    pub fn errors() -> Self {
        let mut set = Self::EMPTY;
        set.change(400..=499, true);
        set
    }

    /// 500 to 599, less 501 and 505, which clients can cause.
    #[must_use]
    pub fn failures() -> Self {
        let mut set = Self::EMPTY;
        set.change(500..=599, true);
        set.change(501..=501, false);
        set.change(505..=505, false);
        set
    }

    /// A status is in the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        STATUSES.contains(&status)
            && self.bits[usize::from(status - 100) / 64] >> ((status - 100) % 64) & 1 == 1
    }

    fn change(&mut self, range: RangeInclusive<u16>, on: bool) {
        for status in range.filter(|status| STATUSES.contains(status)) {
            let (word, bit) = (usize::from(status - 100) / 64, 1 << ((status - 100) % 64));
            if on { self.bits[word] |= bit } else { self.bits[word] &= !bit }
        }
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
                    set.change(low..=high, sign.unwrap_or(true));
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
            let mut set = StatusSet::errors();
            line.split(' ').for_each(|part| set.apply(part).unwrap());
            inside.iter().for_each(|s| assert!(set.contains(*s), "{line}: {s}"));
            outside.iter().for_each(|s| assert!(!set.contains(*s), "{line}: {s}"));
        };
        check("220 +300-499 -300-399", &[220, 400, 499], &[200, 300, 399, 500]);
        check("400,402-444,490", &[400, 402, 444, 490], &[401, 445, 499]);
        check("+501,505", &[400, 501, 505], &[502, 399]);
        check("-450-459", &[449, 460], &[450, 459]);
        assert!(StatusSet::failures().contains(500) && !StatusSet::failures().contains(501));
        assert!(!StatusSet::errors().contains(99) && !StatusSet::errors().contains(u16::MAX));
        for bad in ["", "99", "600", "400-300", "4x", "+"] {
            assert!(StatusSet::EMPTY.clone().apply(bad).is_err(), "{bad}");
        }
    }
}
