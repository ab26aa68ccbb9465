//! Numbers for readers: three digits that matter, and a unit.

/// A time in seconds: `0`, `64 ns`, `12.3 µs`, `1.23 ms`, `4.56 s`.
#[must_use]
pub fn time(seconds: f64) -> String {
    let (number, unit) = in_unit(seconds);
    if seconds <= 0.0 { "0".to_owned() } else { format!("{} {unit}", digits(number)) }
}

/// The same without the zeros at the end: for round values.
#[must_use]
pub fn short_time(seconds: f64) -> String {
    let (number, unit) = in_unit(seconds);
    if seconds <= 0.0 { "0".to_owned() } else { format!("{} {unit}", short(number)) }
}

fn in_unit(seconds: f64) -> (f64, &'static str) {
    // What would be rounded to a thousand is one of the next unit.
    let below = |limit: f64| seconds < limit * 0.999_5;
    if below(1e-6) {
        (seconds * 1e9, "ns")
    } else if below(1e-3) {
        (seconds * 1e6, "\u{b5}s")
    } else if below(1.0) {
        (seconds * 1e3, "ms")
    } else {
        (seconds, "s")
    }
}

/// Three digits that matter: `1.23`, `12.3`, `123`, `1234`.
fn digits(number: f64) -> String {
    let decimals = if number < 9.995 {
        2
    } else if number < 99.95 {
        1
    } else {
        0
    };
    format!("{number:.decimals$}")
}

/// Three digits that matter, without zeros behind the point.
#[must_use]
pub fn short(number: f64) -> String {
    let text = digits(number);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number of things, with thousands set apart.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 thread`, `2,000 threads`.
#[must_use]
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Things a second: whole ones from a hundred on.
#[must_use]
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 { short(per_second.max(0.0)) } else { count(per_second.round() as u64) }
}

/// Bytes in binary units.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes.max(0.0);
    let mut unit = 0;
    while number >= 1023.5 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short(number), UNITS[unit])
}

/// A share of 1 in percent.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", short((share * 100.0).max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |seconds: f64, expected: &str, round: &str| {
            assert_eq!(
                (time(seconds).as_str(), short_time(seconds).as_str()),
                (expected, round),
                "{seconds}"
            );
        };
        check(0.0, "0", "0");
        check(0.000_000_064, "64.0 ns", "64 ns");
        check(0.000_012_345, "12.3 \u{b5}s", "12.3 \u{b5}s");
        check(0.000_999_4, "999 \u{b5}s", "999 \u{b5}s");
        check(0.000_999_9, "1.00 ms", "1 ms");
        check(0.001_234, "1.23 ms", "1.23 ms");
        check(0.009_996, "10.0 ms", "10 ms");
        check(0.1, "100 ms", "100 ms");
        check(2.0, "2.00 s", "2 s");
        check(3600.0, "3600 s", "3600 s");
    }

    #[test]
    fn numbers() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(1000), "1,000");
        check(count(1_234_567), "1,234,567");
        check(counted(1, "thread"), "1 thread");
        check(counted(2, "thread"), "2 threads");
        check(rate(0.0), "0");
        check(rate(12.34), "12.3");
        check(rate(99.99), "100");
        check(rate(12_345.6), "12,346");
        check(bytes(0.0), "0 B");
        check(bytes(1023.0), "1023 B");
        check(bytes(1536.0), "1.5 KiB");
        check(bytes(9.0e9), "8.38 GiB");
        check(percent(0.985), "98.5 %");
        check(percent(1.0), "100 %");
    }
}
