//! A line that is said once a minute at most, however often there is a reason for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const INTERVAL_MS: u64 = 60_000;

/// When it was said last, milliseconds; 0 before.
#[derive(Debug, Default)]
pub(crate) struct Reminder(AtomicU64);

impl Reminder {
    /// Whether it is to be said now; the others who ask within the next minute are told no.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let before = self.0.load(Relaxed);
        let is_due = before == 0 || now_ms.saturating_sub(before) >= INTERVAL_MS;
        is_due && self.0.compare_exchange(before, now_ms.max(1), Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_once_a_minute() {
        let reminder = Reminder::default();
        let said = [0, 1, 59_000, 59_999, 60_001, 60_002].map(|now_ms| reminder.is_due(now_ms));
        assert_eq!(said, [true, false, false, false, true, false]);
    }
}
