//! When a client's connection closes in a soft stop: all at once, or spread over a time (`close-spread-time`).

use std::time::Duration;

use weir_config::model::CloseSpread;

/// How often the connections are looked for whose turn has come.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Whether a client's turn to be closed has come, so long after the stop began.
pub(crate) fn is_due(spread: CloseSpread, client_id: u64, stopping: Duration) -> bool {
    match spread {
        CloseSpread::AtOnce => true,
        CloseSpread::Never => false,
        CloseSpread::Over(window) => turn(client_id, window) <= stopping,
    }
}

/// The moment in the window when a client's turn comes: neighbours are far apart, and asking again says the same.
fn turn(client_id: u64, window: Duration) -> Duration {
    /// 2^64 divided by the golden ratio: multiples of it fill a circle evenly.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = client_id.wrapping_mul(GOLDEN);
    let nanos = (u128::from(place) * window.as_nanos()) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_fill_the_window_evenly() {
        let window = Duration::from_secs(10);
        let due = |after| (1..=1000).filter(|id| is_due(CloseSpread::Over(window), *id, after)).count();
        assert_eq!(due(window), 1000);
        for tenths in 1..10 {
            let closed = due(window * tenths / 10);
            assert!(closed.abs_diff(tenths as usize * 100) < 5, "{closed} after {tenths} tenths");
        }
        assert!(is_due(CloseSpread::AtOnce, 7, Duration::ZERO));
        assert!(!is_due(CloseSpread::Never, 7, Duration::MAX));
    }
}
