//! Whether the figures of a run are the server's or the generator's own.

use crate::histogram::Histogram;
use crate::result::{Bottleneck, ThreadLoad, Times};
use std::time::Duration;

/// A thread that used this part of its time, or waited for a core in it, had none left when it mattered: the rest
/// are the pauses that the system's scheduler makes.
const FULL_CPU_SHARE: f64 = 0.92;

/// Waiting for a core below this part of the time is that of waking up on a machine that has other things to do.
const USUAL_QUEUED_SHARE: f64 = 0.05;

/// Lag below this is that of timers and of waking up.
const USUAL_LAG: Duration = Duration::from_millis(1);

/// The part of a latency that may be the generator's own lag.
const LAG_PART: f64 = 0.25;

/// In a shorter run, beginning and ending take a part of the CPU time that says nothing.
const SHORTEST: Duration = Duration::from_millis(100);

/// Judges a run of a length: `lag` is how late requests were sent although a connection was free, `times` what was
/// measured of them.
#[must_use]
pub(crate) fn judge(seconds: f64, threads: &[ThreadLoad], lag: &Histogram, times: &Times) -> Bottleneck {
    if seconds >= SHORTEST.as_secs_f64() {
        let share = threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max);
        if share >= FULL_CPU_SHARE {
            return Bottleneck::Cpu { share };
        }
        if let Some(starved) = starved(threads, &times.uncorrected) {
            return starved;
        }
    }
    let p99 = lag.percentile(99.0);
    let telling = times.latency().percentile(99.0).mul_f64(LAG_PART);
    if p99 > USUAL_LAG && p99 > telling {
        return Bottleneck::Lag { p99_seconds: p99.as_secs_f64() };
    }
    Bottleneck::None
}

/// The thread that waited longest for a core, if the waiting is in the figures: it never had to wait for the server,
/// or each of its waits is a good part of what a response takes once its request was sent.  A closed loop has no lag that
/// would tell.
fn starved(threads: &[ThreadLoad], uncorrected: &Histogram) -> Option<Bottleneck> {
    let telling_seconds = uncorrected.percentile(50.0).as_secs_f64() * LAG_PART;
    let is_starved = |thread: &&ThreadLoad| {
        let never_idle = thread.cpu_share + thread.queued_share >= FULL_CPU_SHARE;
        thread.queued_share >= USUAL_QUEUED_SHARE
            && (never_idle || (telling_seconds > 0.0 && thread.queued_mean_seconds > telling_seconds))
    };
    let starved = threads.iter().filter(is_starved);
    let worst = starved.max_by(|a, b| a.queued_share.total_cmp(&b.queued_share))?;
    Some(Bottleneck::Starved { share: worst.queued_share, mean_seconds: worst.queued_mean_seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: f64, thread: ThreadLoad, lag_us: u64, latency_us: u64, expected: &str) {
        let threads = [ThreadLoad { cpu_share: 0.1, ..ThreadLoad::default() }, thread];
        let (mut lag, mut times) = (Histogram::new(), Times::default());
        lag.record_many_ns(lag_us * 1000, 100);
        let answered = if latency_us > 0 { 100 } else { 0 };
        times.uncorrected.record_many_ns(latency_us * 1000, answered);
        let found = format!("{:?}", judge(seconds, &threads, &lag, &times));
        assert!(found.starts_with(expected), "{found}, expected {expected}");
    }

    #[test]
    fn verdicts() {
        let check = |seconds: f64, cpu_share: f64, lag_us: u64, latency_us: u64, expected: &str| {
            let thread = ThreadLoad { cpu_share, ..ThreadLoad::default() };
            check(seconds, thread, lag_us, latency_us, expected);
        };
        check(10.0, 0.5, 50, 200, "None");
        check(10.0, 0.99, 50, 200, "Cpu");
        check(10.0, 0.5, 5_000, 6_000, "Lag");
        // A server that slow is not made slower by what the generator adds.
        check(10.0, 0.5, 5_000, 600_000, "None");
        check(0.02, 2.5, 50, 200, "None");
    }

    #[test]
    fn a_starved_generator_in_a_closed_loop_is_not_innocent() {
        // Shares of CPU time and of the queue in percent, mean wait and latency in microseconds.
        let check = |cpu: u32, queued: u32, wait_us: u32, latency_us: u64, expected: &str| {
            let thread = ThreadLoad {
                cpu_share: f64::from(cpu) / 100.0,
                queued_share: f64::from(queued) / 100.0,
                queued_mean_seconds: f64::from(wait_us) / 1e6,
                ..ThreadLoad::default()
            };
            check(10.0, thread, 0, latency_us, expected);
        };
        // Another program has the other half of the core: the thread never waits for the server.
        check(50, 49, 3_000, 8_000, "Starved");
        check(50, 49, 3_000, 100_000, "Starved");
        // It has little to do, and waits for a core each time.
        check(10, 30, 400, 1_000, "Starved");
        check(10, 30, 400, 100_000, "None");
        // What waking up takes on a machine that is not busy.
        check(30, 2, 20, 60, "None");
        check(95, 30, 400, 1_000, "Cpu");
        // Nothing was answered: there is nothing that could be doubtful.
        check(10, 30, 400, 0, "None");
    }
}
