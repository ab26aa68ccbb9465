//! Sizes and times in URLs, with the units that HAProxy's configuration has.

use std::time::Duration;

/// The largest body, in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 30;

/// The longest delay or pause.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(300);

/// Reads a number of bytes: `9000`, `64k`, `1g`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let expected = || format!("'{text}' is no size: expected a number of bytes, as in 9000, 64k or 1g");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(expected()),
    };
    match number.checked_mul(factor) {
        Some(bytes) if bytes <= MAX_BYTES => Ok(bytes),
        _ => Err(format!("{text} bytes are too many: at most 1g")),
    }
}

/// Reads a time: `50ms`, `2s`, `100us`, `1m`; without a unit in milliseconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let expected = || format!("'{text}' is no time: expected one as in 50ms, 100us, 2s or 1m");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let time = match unit {
        "us" => Duration::from_micros(number),
        "" | "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        _ => return Err(expected()),
    };
    if time > MAX_TIME {
        return Err(format!("{text} is too long: at most {} seconds", MAX_TIME.as_secs()));
    }
    Ok(time)
}

/// A number, and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bytes(text).ok(), expected, "{text}");
        check("0", Some(0));
        check("9000", Some(9000));
        check("64k", Some(65_536));
        check("1M", Some(1 << 20));
        check("1g", Some(1 << 30));
        check("2g", None);
        check("1073741825", None);
        check("99999999999999999999", None);
        check("17179869184g", None);
        check("", None);
        check("k", None);
        check("-1", None);
        check("1kb", None);
        check("1\u{e9}", None);
    }

    #[test]
    fn times() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(time(text).ok(), expected.map(Duration::from_micros), "{text}");
        };
        check("50ms", Some(50_000));
        check("50", Some(50_000));
        check("250us", Some(250));
        check("2s", Some(2_000_000));
        check("5m", Some(300_000_000));
        check("6m", None);
        check("301s", None);
        check("18446744073709551615m", None);
        check("1h", None);
        check("", None);
        check("ms", None);
    }
}
