//! The summaries of wrk 4 and wrk2.

use super::{Details, Spread, per_second, scaled};
use crate::histogram::Histogram;
use crate::report::hgrm::spectrum;
use crate::report::table::printable;
use crate::result::{Plan, RunResult};

/// The lines before the run.
pub(super) fn opening(plan: &Plan) -> String {
    let url = plan.targets.first().map_or("", |target| target.url.as_str());
    // A warm-up is part of the duration that was asked for.
    let seconds = plan.duration_seconds.map(|seconds| seconds + plan.warm_up_seconds);
    let length = match (seconds, plan.requests) {
        (Some(seconds), _) if seconds >= 3600.0 => format!("{:.0}h test", seconds / 3600.0),
        (Some(seconds), _) if seconds >= 60.0 => format!("{:.0}m test", seconds / 60.0),
        (Some(seconds), _) => format!("{seconds:.0}s test"),
        (None, Some(requests)) => format!("test of {requests} requests"),
        (None, None) => "test".to_owned(),
    };
    let (threads, connections) = (plan.threads, plan.connections);
    format!("Running {length} @ {}\n  {threads} threads and {connections} connections\n", printable(url))
}

/// The summary of wrk.
pub(super) fn wrk(result: &RunResult, details: Details) -> String {
    let times = &result.times.uncorrected;
    let mut text = thread_stats(result, times);
    if details.latency {
        text.push_str("  Latency Distribution\n");
        for percent in [50.0, 75.0, 90.0, 99.0] {
            text.push_str(&format!(
                "{percent:>7.0}%{}\n",
                column(&time(times.percentile(percent).as_secs_f64()), 10)
            ));
        }
    }
    totals(&mut text, result);
    text
}

/// The summary of wrk2.
pub(super) fn wrk2(result: &RunResult, details: Details) -> String {
    let mut text = thread_stats(result, result.times.latency());
    if details.latency {
        let uncorrected = "Uncorrected Latency (measured without taking delayed starts into account)";
        distribution(&mut text, "Recorded Latency", result.times.latency());
        if details.uncorrected && !result.times.corrected.is_empty() {
            distribution(&mut text, uncorrected, &result.times.uncorrected);
        }
    }
    totals(&mut text, result);
    text
}

fn distribution(text: &mut String, name: &str, times: &Histogram) {
    text.push_str(&format!("  Latency Distribution (HdrHistogram - {name})\n"));
    for percent in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let time = time(times.percentile(percent).as_secs_f64());
        text.push_str(&format!("{percent:7.3}%{}\n", column(&time, 10)));
    }
    text.push_str(
        "\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
    );
    text.push_str(&spectrum(times));
    text.push_str("----------------------------------------------------------\n");
}

fn thread_stats(result: &RunResult, times: &Histogram) -> String {
    let threads = f64::from(result.plan.threads.max(1));
    let rates: Vec<f64> = result.intervals.iter().map(|interval| interval.rate() / threads).collect();
    let metric = |number: f64| scaled(number, 1000.0, &["", "k", "M", "G"]);
    format!(
        "  Thread Stats{:>6}{:>11}{:>8}{:>12}\n{}{}",
        "Avg",
        "Stdev",
        "Max",
        "+/- Stdev",
        stats("Latency", &Spread::of_times(times), time),
        stats("Req/Sec", &Spread::of(&rates), metric)
    )
}

fn stats(name: &str, spread: &Spread, format: impl Fn(f64) -> String) -> String {
    format!(
        "    {name:<10}{}{}{}{:8.2}%\n",
        column(&format(spread.mean), 8),
        column(&format(spread.deviation), 10),
        column(&format(spread.max), 9),
        spread.within * 100.0
    )
}

/// Right-aligned so that digits stand under digits: a unit of fewer than two letters is followed by spaces.
fn column(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let behind = 2 - letters;
    format!("{text:>before$}{:behind$}", "", before = width.saturating_sub(behind))
}

fn time(seconds: f64) -> String {
    if seconds >= 60.0 {
        return scaled(seconds / 60.0, 60.0, &["m", "h"]);
    }
    scaled(seconds * 1e6, 1000.0, &["us", "ms", "s"])
}

fn bytes(number: f64) -> String {
    format!("{}B", scaled(number, 1024.0, &["", "K", "M", "G", "T", "P"]))
}

fn totals(text: &mut String, result: &RunResult) {
    // Requests are counted from the beginning, latencies after the warm-up.
    let mut totals = result.warm_up.clone();
    totals.add(&result.totals);
    let (errors, seconds) = (&totals.errors, result.elapsed_seconds + result.plan.warm_up_seconds);
    text.push_str(&format!(
        "  {} requests in {}, {} read\n",
        totals.answers,
        time(seconds),
        bytes(totals.received_bytes as f64)
    ));
    let late = result.late();
    if errors.failed() + late > 0 {
        text.push_str(&format!(
            "  Socket errors: connect {}, read {}, write 0, timeout {}\n",
            errors.connect + errors.tls,
            errors.reset + errors.protocol,
            late
        ));
    }
    if totals.answers > totals.good() {
        text.push_str(&format!("  Non-2xx or 3xx responses: {}\n", totals.answers - totals.good()));
    }
    text.push_str(&format!(
        "Requests/sec: {:9.2}\nTransfer/sec: {:>11}\n",
        per_second(totals.answers, seconds),
        bytes(per_second(totals.received_bytes, seconds))
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::{opening, summary};
    use crate::result::Personality;

    #[test]
    fn wrk_as_it_is() {
        let mut result = fixture::closed();
        let expected = "\
Running 10s test @ http://127.0.0.1:8000/bytes/60
  2 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms    1.28ms 101.06ms   99.28%
    Req/Sec   504.50      4.38   510.00     30.00%
  10000 requests in 10.00s, 2.48MB read
Requests/sec:   1000.00
Transfer/sec:    253.91KB
";
        let text =
            opening(Personality::Wrk, &result.plan) + &summary(Personality::Wrk, &result, Details::default());
        assert_eq!(text, expected);
        result.totals.errors.timeout = 2;
        result.totals.errors.tls = 1;
        result.totals.statuses = [0, 9990, 0, 0, 10];
        let expected = "\
  Latency Distribution
     50%    1.02ms
     75%    1.04ms
     90%    1.10ms
     99%    1.99ms
  10000 requests in 10.00s, 2.48MB read
  Socket errors: connect 1, read 0, write 0, timeout 2
  Non-2xx or 3xx responses: 10
Requests/sec:   1000.00
Transfer/sec:    253.91KB
";
        let text = summary(Personality::Wrk, &result, Details { latency: true, ..Details::default() });
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn wrk2_as_it_is() {
        let mut warmed_up = fixture::paced();
        warmed_up.warm_up.answers = 2000;
        warmed_up.warm_up.received_bytes = 520_000;
        assert!(opening(Personality::Wrk2, &warmed_up.plan).starts_with("Running 12s test"));
        let both = Details { latency: true, uncorrected: true, ..Details::default() };
        let text = summary(Personality::Wrk2, &warmed_up, both);
        let parts = [
            "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    1.22ms\n 75.000%    1.25ms\n",
            "\n100.000%  121.24ms\n\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
            "#[Buckets =           26, SubBuckets     =         2048]\n----------------------------------------------------------\n",
            "  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))\n",
            "  12000 requests in 12.00s, 2.98MB read\n  Socket errors: connect 3, read 9, write 0, timeout 3\n",
            "Requests/sec:   1000.00\n",
        ];
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        let recorded = Details { latency: true, ..Details::default() };
        assert!(!summary(Personality::Wrk2, &fixture::paced(), recorded).contains("Uncorrected"));
        assert!(
            summary(Personality::Wrk2, &fixture::starved(), Details::default())
                .ends_with("or lower the load.\n")
        );
    }

    #[test]
    fn columns_and_units() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(column("5.72ms", 8), "  5.72ms");
        check(column("5.15k", 8), "  5.15k ");
        check(column("12.00", 8), " 12.00  ");
        check(time(0.000_193), "193.00us");
        check(time(2.11), "2.11s");
        check(time(90.0), "1.50m");
        check(time(7200.0), "2.00h");
        check(bytes(6_333_399.0), "6.04MB");
        check(bytes(12.0), "12.00B");
    }
}
