//! Times, sizes and other numbers as the manual writes them (sections 2.5 and 2.6).

use std::time::Duration;

/// Unit of a time without a suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Milliseconds, the usual one.
    Millis,
    /// Seconds (`max-age`, `cookie maxidle`, `stats refresh`).
    Seconds,
}

/// Longest time that is accepted: HAProxy's own limit of 2^31-1 milliseconds, some 24.8 days, for timers.
const LONGEST_MS: u64 = 0x7fff_ffff;

/// A time: an integer and one of us, ms, s, m, h, d.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn time(text: &str, unit: Unit) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("'{text}' is not a time: a number with one of us, ms, s, m, h, d was expected"));
    }
    let number: u64 = number.parse().map_err(|_| format!("the time '{text}' is too long"))?;
    let micros = match (suffix, unit) {
        ("us", _) => Some(number),
        ("ms", _) | ("", Unit::Millis) => number.checked_mul(1_000),
        ("s", _) | ("", Unit::Seconds) => number.checked_mul(1_000_000),
        ("m", _) => number.checked_mul(60_000_000),
        ("h", _) => number.checked_mul(3_600_000_000),
        ("d", _) => number.checked_mul(86_400_000_000),
        _ => {
            return Err(format!(
                "unknown unit '{suffix}' of the time '{text}': one of us, ms, s, m, h, d was expected"
            ));
        }
    };
    match micros {
        Some(micros) if unit == Unit::Seconds || micros / 1000 <= LONGEST_MS => {
            Ok(Duration::from_micros(micros))
        }
        _ => Err(format!("the time '{text}' is too long: at most {LONGEST_MS} ms (24 days)")),
    }
}

/// A size in bytes: an integer and none or one of k, m, g (of either case).
///
/// # Errors
/// A sentence that says what is wrong.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => {
            return Err(format!("unknown unit '{suffix}' of the size '{text}': one of k, m, g was expected"));
        }
    };
    if number.is_empty() {
        return Err(format!("'{text}' is not a size: a number with none or one of k, m, g was expected"));
    }
    let number: u64 = number.parse().map_err(|_| format!("the size '{text}' is too large"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("the size '{text}' is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, micros: Option<u64>| {
            assert_eq!(time(text, Unit::Millis).ok(), micros.map(Duration::from_micros), "{text}");
        };
        check("0", Some(0));
        check("15", Some(15_000));
        check("15us", Some(15));
        check("15ms", Some(15_000));
        check("5s", Some(5_000_000));
        check("2m", Some(120_000_000));
        check("1h", Some(3_600_000_000));
        check("1d", Some(86_400_000_000));
        check("25d", None);
        check("1.5s", None);
        check("s", None);
        check("-1", None);
        check("5 s", None);
        check("99999999999999999999", None);
        assert_eq!(time("90", Unit::Seconds), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn sizes() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(size(text).ok(), bytes, "{text}");
        check("0", Some(0));
        check("16384", Some(16384));
        check("16k", Some(16384));
        check("1M", Some(1 << 20));
        check("2g", Some(2 << 30));
        check("2t", None);
        check("k", None);
        check("99999999999g", None);
    }
}
