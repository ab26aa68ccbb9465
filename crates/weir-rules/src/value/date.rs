//! Dates from and to text.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Offset of the system's time zone from UTC at a moment, seconds.
#[must_use]
pub(crate) fn system_utc_offset(at_s: i64) -> i32 {
    use std::sync::LazyLock;
    static ZONE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);
    Timestamp::from_second(at_s).map_or(0, |t| ZONE.to_offset(t).seconds())
}

/// Date and time of day at an offset from UTC; `None` outside the years of the calendar.
fn civil(at_s: i64, offset_s: i32) -> Option<DateTime> {
    let shifted = Timestamp::from_second(at_s.checked_add(i64::from(offset_s))?).ok()?;
    Some(TimeZone::UTC.to_datetime(shifted))
}

/// Appends a date as log lines have it: `06/Feb/2009:12:14:14`.
pub(crate) fn push_log_date(at_s: i64, out: &mut Vec<u8>) {
    let (days, second) = (at_s.div_euclid(86_400), at_s.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let two =
        |n: i64, out: &mut Vec<u8>| out.extend_from_slice(&[b'0' + (n / 10) as u8, b'0' + (n % 10) as u8]);
    two(day, out);
    out.push(b'/');
    out.extend_from_slice(&MONTHS[month as usize - 1].as_bytes()[..3]);
    out.push(b'/');
    two(year / 100, out);
    two(year % 100, out);
    for part in [second / 3600, second / 60 % 60, second % 60] {
        out.push(b':');
        two(part, out);
    }
}

/// Year, month and day of a number of days since 1970 (the proleptic Gregorian calendar in eras of 400 years).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Years that start in March have their leap day last.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    ((era * 400 + year + i64::from(month <= 2)).clamp(0, 9999), month, day)
}

/// Formats by strftime: a date in seconds, the nanoseconds behind it, the format, the offset from UTC.
pub(crate) fn format(at_s: i64, nanos: u32, format: &[u8], offset_s: i32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    if let Some(when) = civil(at_s, offset_s) {
        format_into(when, at_s, nanos, format, offset_s, &mut out);
    }
    out
}

fn format_into(when: DateTime, at_s: i64, nanos: u32, format: &[u8], offset_s: i32, out: &mut Vec<u8>) {
    use std::io::Write;
    let mut at = 0;
    while let Some(&b) = format.get(at) {
        at += 1;
        if b != b'%' {
            out.push(b);
            continue;
        }
        let width = format.get(at).filter(|d| d.is_ascii_digit()).map(|d| usize::from(d - b'0'));
        at += usize::from(width.is_some());
        // Modifiers of other calendars and padding have no meaning here.
        at += format[at.min(format.len())..]
            .iter()
            .take_while(|b| matches!(b, b'E' | b'O' | b'-' | b'_'))
            .count();
        let Some(&letter) = format.get(at) else { return };
        at += 1;
        let day = when.weekday().to_sunday_zero_offset() as usize;
        let month = when.month() as usize - 1;
        let hour12 = match when.hour() % 12 {
            0 => 12,
            h => h,
        };
        // Writing to a Vec cannot fail.
        drop(match letter {
            b'%' => write!(out, "%"),
            b'n' => writeln!(out),
            b't' => write!(out, "\t"),
            b'a' => write!(out, "{}", &DAYS[day][..3]),
            b'A' => write!(out, "{}", DAYS[day]),
            b'b' | b'h' => write!(out, "{}", &MONTHS[month][..3]),
            b'B' => write!(out, "{}", MONTHS[month]),
            b'C' => write!(out, "{:02}", when.year() / 100),
            b'd' => write!(out, "{:02}", when.day()),
            b'e' => write!(out, "{:2}", when.day()),
            b'H' => write!(out, "{:02}", when.hour()),
            b'I' => write!(out, "{hour12:02}"),
            b'j' => write!(out, "{:03}", when.date().day_of_year()),
            b'k' => write!(out, "{:2}", when.hour()),
            b'l' => write!(out, "{hour12:2}"),
            b'm' => write!(out, "{:02}", when.month()),
            b'M' => write!(out, "{:02}", when.minute()),
            b'N' => write!(out, "{}", &format!("{nanos:09}")[..width.unwrap_or(9).clamp(1, 9)]),
            b'p' => write!(out, "{}", if when.hour() < 12 { "AM" } else { "PM" }),
            b'P' => write!(out, "{}", if when.hour() < 12 { "am" } else { "pm" }),
            b's' => write!(out, "{at_s}"),
            b'S' => write!(out, "{:02}", when.second()),
            b'u' => write!(out, "{}", when.weekday().to_monday_one_offset()),
            b'w' => write!(out, "{day}"),
            b'G' => write!(out, "{:04}", when.date().iso_week_date().year()),
            b'g' => write!(out, "{:02}", when.date().iso_week_date().year() % 100),
            b'V' => write!(out, "{:02}", when.date().iso_week_date().week()),
            b'U' => write!(out, "{:02}", (when.date().day_of_year() as usize + 6 - day) / 7),
            b'W' => write!(out, "{:02}", (when.date().day_of_year() as usize + 6 - (day + 6) % 7) / 7),
            b'y' => write!(out, "{:02}", when.year() % 100),
            b'Y' => write!(out, "{:04}", when.year()),
            b'z' => {
                let sign = if offset_s < 0 { '-' } else { '+' };
                let minutes = offset_s.unsigned_abs() / 60;
                write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            b'Z' if offset_s == 0 => write!(out, "GMT"),
            b'D' => return_to(when, at_s, nanos, b"%m/%d/%y", offset_s, out),
            b'F' => return_to(when, at_s, nanos, b"%Y-%m-%d", offset_s, out),
            b'T' | b'X' => return_to(when, at_s, nanos, b"%H:%M:%S", offset_s, out),
            b'R' => return_to(when, at_s, nanos, b"%H:%M", offset_s, out),
            b'r' => return_to(when, at_s, nanos, b"%I:%M:%S %p", offset_s, out),
            b'x' => return_to(when, at_s, nanos, b"%m/%d/%y", offset_s, out),
            b'c' => return_to(when, at_s, nanos, b"%a %b %e %H:%M:%S %Y", offset_s, out),
            other => write!(out, "%{}", char::from(other)),
        });
    }
}

/// A letter that stands for a longer format.
fn return_to(
    when: DateTime,
    at_s: i64,
    nanos: u32,
    longer: &[u8],
    offset_s: i32,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    format_into(when, at_s, nanos, longer, offset_s, out);
    Ok(())
}

/// The three forms of RFC 9110 section 5.6.7.
pub(crate) fn parse_http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', '-', ',']).filter(|w| !w.is_empty()).collect();
    let (day, month, year, time) = match words.as_slice() {
        [_, day, month, year, time, "GMT"] => (*day, *month, *year, *time),
        [_, month, day, time, year] => (*day, *month, *year, *time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|m| m[..3] == *month)? as i8 + 1;
    let mut year: i16 = year.parse().ok()?;
    if year < 100 {
        // RFC 9110 section 5.6.7: two digits that would be far in the future are of the last century.
        year += if year < 70 { 2000 } else { 1900 };
    }
    let clock: Vec<i8> = time.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = clock.as_slice() else { return None };
    let date = Date::new(year, month, day.parse().ok()?).ok()?;
    let when = date.to_datetime(jiff::civil::Time::new(*hour, *minute, (*second).min(59), 0).ok()?);
    Some(TimeZone::UTC.to_timestamp(when).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_dates_are_the_slow_ones() {
        for at_s in [0, 1, 86_399, 951_782_400, 951_868_800, 1_700_000_000, 4_107_542_400, -1, -2_208_988_800]
            .into_iter()
            .chain((0..200).map(|n| n * 86_400 * 97 + n))
        {
            let mut fast = Vec::new();
            push_log_date(at_s, &mut fast);
            assert_eq!(fast, format(at_s, 0, b"%d/%b/%Y:%H:%M:%S", 0), "{at_s}");
        }
    }
}
