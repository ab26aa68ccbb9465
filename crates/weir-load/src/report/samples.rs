//! Files with requests one by one, as ab and h2load write them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::result::RunResult;
use crate::sample::Sample;

/// Those with an answer, the fastest first.
pub(super) fn answered(result: &RunResult) -> Vec<Sample> {
    let mut answered: Vec<Sample> =
        result.samples.iter().filter(|sample| sample.status.is_some()).copied().collect();
    answered.sort_by_key(Sample::total_ns);
    answered
}

/// Milliseconds as ab rounds them.
pub(super) fn whole_ms(ns: u64) -> u64 {
    (ns + 500_000) / 1_000_000
}

/// The lines of ab's `-g`: beginning, connecting, processing, total and waiting, the fastest first.
#[must_use]
pub fn gnuplot(result: &RunResult) -> String {
    gnuplot_in(result, &TimeZone::system())
}

fn gnuplot_in(result: &RunResult, zone: &TimeZone) -> String {
    let mut text = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    for sample in answered(result) {
        let seconds = i64::try_from(sample.began_unix_ns / 1_000_000_000).unwrap_or(0);
        let began = Timestamp::from_second(seconds).unwrap_or_default().to_zoned(zone.clone());
        text.push_str(&format!(
            "{}\t{seconds}\t{}\t{}\t{}\t{}\n",
            began.strftime("%a %b %d %H:%M:%S %Y"),
            whole_ms(sample.connect_ns),
            whole_ms(sample.answer_ns),
            whole_ms(sample.total_ns()),
            whole_ms(sample.first_byte_ns)
        ));
    }
    text
}

/// The lines of ab's `-e`: within which time so many percent were served.
#[must_use]
pub fn percentages(result: &RunResult) -> String {
    let answered = answered(result);
    let mut text = "Percentage served,Time in ms\n".to_owned();
    for percent in 0..=100 {
        let total_ns = at_percent(&answered, percent).map_or(0, |sample| sample.total_ns());
        text.push_str(&format!("{percent},{:.3}\n", total_ns as f64 / 1e6));
    }
    text
}

/// The sample that so many percent of a sorted list do not exceed, as ab counts them.
fn at_percent(sorted: &[Sample], percent: usize) -> Option<&Sample> {
    let at = (sorted.len() * percent + 50) / 100;
    sorted.get(at.min(sorted.len().saturating_sub(1)))
}

/// The lines of h2load's `--log-file`: beginning in microseconds since 1970, status or -1, microseconds.
#[must_use]
pub fn request_log(result: &RunResult) -> String {
    let mut text = String::new();
    for sample in &result.samples {
        let status = sample.status.map_or(-1, i32::from);
        let (began_us, us) = (sample.began_unix_ns / 1000, (sample.answer_ns + 500) / 1000);
        text.push_str(&format!("{began_us}\t{status}\t{us}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn result() -> RunResult {
        let sample = |number: u64| Sample {
            connection: 0,
            began_unix_ns: 1_700_000_000_000_000_000 + number * 1_000_000_000,
            connect_ns: 1_400_000 * (number % 2),
            first_byte_ns: 600_000,
            answer_ns: (5 - number) * 1_000_000,
            status: (number != 3).then_some(200),
            body_bytes: 60,
            keep_alive: true,
        };
        let mut result = fixture::closed();
        result.samples = (0..4).map(sample).collect();
        result
    }

    #[test]
    fn lines_of_each_request() {
        let expected = "\
starttime\tseconds\tctime\tdtime\tttime\twait
Tue Nov 14 22:13:22 2023\t1700000002\t0\t3\t3\t1
Tue Nov 14 22:13:20 2023\t1700000000\t0\t5\t5\t1
Tue Nov 14 22:13:21 2023\t1700000001\t1\t4\t5\t1
";
        assert_eq!(gnuplot_in(&result(), &TimeZone::UTC), expected);
        let expected = "\
1700000000000000\t200\t5000
1700000001000000\t200\t4000
1700000002000000\t200\t3000
1700000003000000\t-1\t2000
";
        assert_eq!(request_log(&result()), expected);
    }

    #[test]
    fn percentages_of_a_few() {
        let text = percentages(&result());
        let lines: Vec<&str> = text.lines().collect();
        let expected = ["Percentage served,Time in ms", "0,3.000"];
        assert_eq!(lines[..2], expected);
        assert_eq!((lines[51], lines[101], lines.len()), ("50,5.400", "100,5.400", 102));
        assert_eq!(percentages(&fixture::closed()).lines().last(), Some("100,0.000"));
    }
}
