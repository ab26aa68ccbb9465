//! Whether the figures of a run are the server's or the generator's own.

use crate::histogram::Histogram;
use crate::result::{Bottleneck, ThreadLoad};
use std::time::Duration;

/// A thread that used this part of its time had none left when it mattered: the rest are the pauses that the
/// system's scheduler makes.
const FULL_CPU_SHARE: f64 = 0.92;

/// Lag below this is that of timers and of waking up.
const USUAL_LAG: Duration = Duration::from_millis(1);

/// The part of a latency that may be the generator's own lag.
const LAG_PART: f64 = 0.25;

/// In a shorter run, beginning and ending take a part of the CPU time that says nothing.
const SHORTEST: Duration = Duration::from_millis(100);

/// Judges a run of a length: `lag` is how late requests were sent although a connection was free, `latency` what was
/// measured of them.
#[must_use]
pub(crate) fn judge(
    seconds: f64,
    threads: &[ThreadLoad],
    lag: &Histogram,
    latency: &Histogram,
) -> Bottleneck {
    let share = threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max);
    if share >= FULL_CPU_SHARE && seconds >= SHORTEST.as_secs_f64() {
        return Bottleneck::Cpu { share };
    }
    let p99 = lag.percentile(99.0);
    let telling = latency.percentile(99.0).mul_f64(LAG_PART);
    if p99 > USUAL_LAG && p99 > telling {
        return Bottleneck::Lag { p99_seconds: p99.as_secs_f64() };
    }
    Bottleneck::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let check = |seconds: f64, cpu: f64, lag_us: u64, latency_us: u64, expected: &str| {
            let threads = [
                ThreadLoad { cpu_share: 0.1, ..ThreadLoad::default() },
                ThreadLoad { cpu_share: cpu, ..ThreadLoad::default() },
            ];
            let (mut lag, mut latency) = (Histogram::new(), Histogram::new());
            lag.record_many_ns(lag_us * 1000, 100);
            latency.record_many_ns(latency_us * 1000, 100);
            let found = format!("{:?}", judge(seconds, &threads, &lag, &latency));
            assert!(found.starts_with(expected), "{found}, expected {expected}");
        };
        check(10.0, 0.5, 50, 200, "None");
        check(10.0, 0.99, 50, 200, "Cpu");
        check(10.0, 0.5, 5_000, 6_000, "Lag");
        // A server that slow is not made slower by what the generator adds.
        check(10.0, 0.5, 5_000, 600_000, "None");
        check(0.02, 2.5, 50, 200, "None");
    }
}
