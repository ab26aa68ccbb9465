//! What a client does that is allowed or harmless each time, and telling in numbers (`tune.*.glitches-threshold`).

use weir_rules::Session;

use crate::state::stick_track;
use crate::thread::worker::Worker;

/// Part of a threshold from which a connection is let go when its requests are done, as HAProxy does.
const GRACEFUL_PERCENT: u64 = 75;

/// How many there were on a connection, and how many there may be; 0 for no limit.
#[derive(Clone, Copy)]
pub(crate) struct Glitches {
    pub(crate) count: u32,
    pub(crate) threshold: u32,
}

impl Glitches {
    /// The connection should end with what is under way.
    pub(crate) fn are_many(self) -> bool {
        self.threshold > 0 && u64::from(self.count) * 100 >= u64::from(self.threshold) * GRACEFUL_PERCENT
    }

    /// The connection is to be closed at once, unless the thread has time enough for it
    /// (`tune.glitches.kill.cpu-usage`).
    pub(super) fn are_too_many(self, worker: &Worker) -> bool {
        let busy_percent = u32::from(worker.shared.load.busy_percent(worker.thread));
        self.threshold > 0
            && self.count >= self.threshold
            && busy_percent >= worker.config().global.tune.glitches_kill_cpu_usage
    }
}

/// Passes the number of a connection on to the rules and the tracked entries.
pub(super) fn note(worker: &Worker, session: &Session, count: u32) {
    let new = count - session.glitches.replace(count);
    if new > 0 {
        stick_track::glitches(&worker.shared, session, u64::from(new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_are_many() {
        let check = |count, threshold, expected| {
            assert_eq!(Glitches { count, threshold }.are_many(), expected, "{count} of {threshold}");
        };
        check(0, 0, false);
        check(u32::MAX, 0, false);
        check(74, 100, false);
        check(75, 100, true);
        check(1, 1, true);
        check(0, 1, false);
        check(u32::MAX, u32::MAX, true);
    }
}
