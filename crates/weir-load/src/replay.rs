//! Requests out of a log: which ones, and when.
//!
//! Reads the common and the combined log format of web servers and HAProxy's `option httplog`.  All have the
//! time in brackets and the request line in quotes behind it, and that is what is looked for.

/// Requests that a list may have.
const MAX_REQUESTS: usize = 10_000_000;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// One request of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// When, after the first one.
    pub after_ns: u64,
}

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The requests in the order of their times.
    pub requests: Vec<Logged>,
    /// Lines that hold no request with a time.
    pub skipped: u64,
}

/// Reads a log.  Requests of a format that only knows seconds are spread evenly over theirs.
///
/// # Errors
/// The log has no request at all, or too many.
pub fn read(text: &str) -> Result<Log, String> {
    let mut log = Log::default();
    let mut found: Vec<(Time, Logged)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parse(line) {
            Some(_) if found.len() == MAX_REQUESTS => {
                return Err(format!("more than {MAX_REQUESTS} requests"));
            }
            Some(entry) => found.push(entry),
            None => log.skipped += 1,
        }
    }
    if found.is_empty() {
        return Err("no request: expected the common, the combined or HAProxy's httplog format".into());
    }
    found.sort_by_key(|(time, _)| time.ns);
    spread(&mut found);
    let start_ns = found.first().map_or(0, |(time, _)| time.ns);
    log.requests =
        found.into_iter().map(|(time, logged)| Logged { after_ns: time.ns - start_ns, ..logged }).collect();
    Ok(log)
}

/// A time since 1970, and whether it only knows the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    ns: u64,
    coarse: bool,
}

/// Gives the requests of one second of a coarse log an equal part of it each.
fn spread(found: &mut [(Time, Logged)]) {
    for second in found.chunk_by_mut(|a, b| a.0 == b.0 && a.0.coarse) {
        let gap_ns = SECOND_NS / second.len() as u64;
        for (number, (time, _)) in second.iter_mut().enumerate().filter(|(_, (time, _))| time.coarse) {
            time.ns += gap_ns * number as u64;
        }
    }
}

fn parse(line: &str) -> Option<(Time, Logged)> {
    let mut rest = line;
    loop {
        let (_, after) = rest.split_once('[')?;
        let (inside, behind) = after.split_once(']')?;
        if let Some(time) = time(inside) {
            return Some((time, request(behind)?));
        }
        // HAProxy's line has the process number in brackets before the time.
        rest = after;
    }
}

/// `10/Oct/2000:13:55:36 -0700` or `06/Feb/2009:12:14:14.655`.
fn time(text: &str) -> Option<Time> {
    let (stamp, zone) = text.split_once(' ').map_or((text, None), |(stamp, zone)| (stamp, Some(zone)));
    let mut parts = stamp.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let month = month(parts.next()?)?;
    let year: i64 = parts.next()?.parse().ok()?;
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let last = parts.next()?;
    let (second, fraction) = last.split_once('.').map_or((last, None), |(second, f)| (second, Some(f)));
    let second: i64 = second.parse().ok()?;
    let in_range = parts.next().is_none()
        && (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = seconds - zone.map_or(Some(0), zone_seconds)?;
    let fraction_ns = fraction.map_or(Some(0), fraction_ns)?;
    let ns = u64::try_from(seconds).ok()?.checked_mul(SECOND_NS)?.checked_add(fraction_ns)?;
    Some(Time { ns, coarse: fraction.is_none() })
}

fn month(name: &str) -> Option<i64> {
    const NAMES: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    NAMES.iter().position(|known| *known == name).map(|at| at as i64 + 1)
}

/// Days from 1970-01-01 in the Gregorian calendar; years are counted from March, so that leap days are last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

fn fraction_ns(digits: &str) -> Option<u64> {
    let power = u32::try_from(digits.len()).ok().filter(|length| *length <= 9)?;
    Some(digits.parse::<u64>().ok()? * 10u64.pow(9 - power))
}

/// The first quoted text that is a request line: `"GET /path HTTP/1.1"`.
fn request(text: &str) -> Option<Logged> {
    let (_, quoted) = text.split_once('"')?;
    let (line, _) = quoted.split_once('"').unwrap_or((quoted, ""));
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let known = method.bytes().all(|byte| byte.is_ascii_uppercase()) && !method.is_empty();
    // A target in absolute form is sent to the server that is tested, whatever it was sent to then.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    let sendable = path.starts_with('/') && path.bytes().all(|byte| byte > b' ' && byte != 127);
    (known && method != "CONNECT" && sendable).then(|| Logged {
        method: method.into(),
        path: path.into(),
        after_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str = concat!(
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "#,
        r#""http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#
    );
    const HAPROXY: &str = concat!(
        "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in ",
        r#"static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "POST /index.html?x HTTP/1.1""#
    );

    #[test]
    fn lines() {
        let check = |line: &str, expected: Option<(&str, &str, u64, bool)>| {
            let found = parse(line);
            let found = found.as_ref().map(|(time, logged)| {
                (logged.method.as_str(), logged.path.as_str(), time.ns / 1_000_000, time.coarse)
            });
            assert_eq!(found, expected, "{line}");
        };
        check(COMBINED, Some(("GET", "/apache_pb.gif", 971_211_336_000, true)));
        check(HAPROXY, Some(("POST", "/index.html?x", 1_233_922_454_655, false)));
        check(r#"x [01/Jan/1970:00:00:00 +0000] "GET http://h/p HTTP/1.1""#, Some(("GET", "/p", 0, true)));
        check(
            r#"x [29/Feb/2024:00:00:00 +0000] "GET / HTTP/1.1""#,
            Some(("GET", "/", 1_709_164_800_000, true)),
        );
        check(r#"x [06/Feb/2009:12:14:14.655] "<BADREQ>""#, None);
        check(r#"x [06/Feb/2009:12:14:14.655] "CONNECT a:1 HTTP/1.1""#, None);
        check(r#"x [06/Foo/2009:12:14:14.655] "GET / HTTP/1.1""#, None);
        check(r#"x [01/Jan/1970:00:00:00 +0100] "GET / HTTP/1.1""#, None);
        check(r#"x [06/Feb/2009:12:14:14.6551234567] "GET / HTTP/1.1""#, None);
        check("", None);
        check("[[[]", None);
    }

    #[test]
    fn requests_of_a_second_are_spread() {
        let line = |second: &str, path: &str| {
            format!("h - - [10/Oct/2000:13:55:{second} +0000] \"GET {path} HTTP/1.0\" 200 1\n")
        };
        let text = [line("38", "/d"), line("36", "/a"), line("36", "/b"), "nonsense\n".into()].concat();
        let log = read(&text).unwrap();
        let found: Vec<(&str, u64)> =
            log.requests.iter().map(|logged| (logged.path.as_str(), logged.after_ns)).collect();
        assert_eq!(found, [("/a", 0), ("/b", 500_000_000), ("/d", 2_000_000_000)]);
        assert_eq!(log.skipped, 1);
        assert!(read("nothing").is_err());
    }
}
