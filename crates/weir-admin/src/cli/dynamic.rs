//! Commands that add and remove servers, and the wait for a server to be removable.

use std::time::Duration;

use super::{Answer, Request, Session};

/// Longest wait.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// `add server <b>/<s> <addr> ...`
pub(crate) fn add_server(_: &mut Session, _: &Request) -> Answer {
    Answer::missing("add server")
}

/// `del server <b>/<s>`
pub(crate) fn delete_server(_: &mut Session, _: &Request) -> Answer {
    Answer::missing("del server")
}

/// `wait <delay>`
pub(crate) fn wait(_: &mut Session, request: &Request) -> Answer {
    let Some(delay) = delay(request.word(1)).filter(|delay| *delay <= MAX_WAIT) else {
        return Answer::error("Usage: wait { -h | <delay> } [srv-removable <backend>/<server>]");
    };
    match request.word(2) {
        "" => Answer::Wait(delay),
        _ => Answer::missing("waiting for a condition"),
    }
}

/// A time with its unit; milliseconds without.
fn delay(written: &str) -> Option<Duration> {
    let split = written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len());
    let number: u64 = written[..split].parse().ok()?;
    let unit_us = match &written[split..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(number.checked_mul(unit_us)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let check = |written: &str, expected: Option<u64>| {
            assert_eq!(delay(written), expected.map(Duration::from_millis), "{written}");
        };
        check("100", Some(100));
        check("2s", Some(2_000));
        check("1m", Some(60_000));
        check("", None);
        check("x", None);
        check("1y", None);
        check("99999999999999999999", None);
    }
}
