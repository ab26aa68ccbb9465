//! The summary of ab, the ApacheBench.

use super::{Details, per_second};
use crate::report::samples::{answered, whole_ms};
use crate::report::table::printable;
use crate::result::{Plan, Reuse, RunResult};
use crate::sample::Sample;
use crate::url::Url;

/// The line before the run; the summary ends it.
pub(super) fn opening(plan: &Plan) -> String {
    format!("Benchmarking {} (be patient).....", target(plan).0)
}

/// Host, port and path of the first target.
fn target(plan: &Plan) -> (String, String, String) {
    let text = plan.targets.first().map_or("", |target| target.url.as_str());
    match Url::parse(text) {
        Ok(url) => (printable(&url.origin.host), url.origin.port.to_string(), printable(&url.path)),
        Err(_) => (printable(text), String::new(), String::new()),
    }
}

/// The whole summary.
pub(super) fn ab(result: &RunResult, details: Details) -> String {
    let mut text = "done\n\n\n".to_owned();
    for (name, value) in server(result) {
        field(&mut text, name, &value);
    }
    text.push('\n');
    for (name, value) in document(result) {
        field(&mut text, name, &value);
    }
    text.push('\n');
    counts(&mut text, result, details);
    rates(&mut text, result);
    let samples = answered(result);
    if !samples.is_empty() {
        connection_times(&mut text, &samples, details);
        if !details.no_percentages {
            percentages(&mut text, &samples);
        }
    }
    text
}

fn field(text: &mut String, name: &str, value: &str) {
    text.push_str(format!("{name:<24}{value}").trim_end());
    text.push('\n');
}

fn server(result: &RunResult) -> Vec<(&'static str, String)> {
    let (host, port, _) = target(&result.plan);
    let software = result.server.as_ref().map(|server| printable(&server.software)).unwrap_or_default();
    let mut rows = vec![("Server Software:", software), ("Server Hostname:", host), ("Server Port:", port)];
    if let Some(tls) = result.server.as_ref().and_then(|server| server.tls.as_ref()) {
        rows.push(("SSL/TLS Protocol:", format!("{},{}", printable(&tls.version), printable(&tls.cipher))));
    }
    rows
}

fn document(result: &RunResult) -> [(&'static str, String); 2] {
    let length = result.server.as_ref().map_or(0, |server| server.body_bytes);
    [("Document Path:", target(&result.plan).2), ("Document Length:", format!("{length} bytes"))]
}

fn counts(text: &mut String, result: &RunResult, details: Details) {
    let (totals, errors) = (&result.totals, &result.totals.errors);
    field(text, "Concurrency Level:", &result.plan.connections.to_string());
    field(text, "Time taken for tests:", &format!("{:.3} seconds", result.elapsed_seconds));
    field(text, "Complete requests:", &totals.answers.to_string());
    let lengths = if details.any_length { 0 } else { other_lengths(result) };
    field(text, "Failed requests:", &(errors.failed() + lengths).to_string());
    if errors.failed() + lengths > 0 {
        text.push_str(&format!(
            "   (Connect: {}, Receive: {}, Length: {lengths}, Exceptions: {})\n",
            errors.connect + errors.tls,
            errors.reset + errors.protocol,
            errors.timeout
        ));
    }
    if totals.answers > totals.statuses[1] {
        field(text, "Non-2xx responses:", &(totals.answers - totals.statuses[1]).to_string());
    }
    if result.plan.reuse == Reuse::KeepAlive {
        let kept = result.samples.iter().filter(|sample| sample.keep_alive).count();
        field(text, "Keep-Alive requests:", &kept.to_string());
    }
    field(text, "Total transferred:", &format!("{} bytes", totals.received_bytes));
    if sends_bodies(&result.plan) {
        field(text, "Total body sent:", &totals.sent_bytes.to_string());
    }
    field(text, "HTML transferred:", &format!("{} bytes", totals.body_bytes));
}

fn rates(text: &mut String, result: &RunResult) {
    let (totals, seconds) = (&result.totals, result.elapsed_seconds);
    let each_ms = if totals.answers > 0 { seconds * 1000.0 / totals.answers as f64 } else { 0.0 };
    let at_once_ms = each_ms * f64::from(result.plan.connections);
    let kilobytes = per_second(totals.received_bytes, seconds) / 1024.0;
    field(
        text,
        "Requests per second:",
        &format!("{:.2} [#/sec] (mean)", per_second(totals.answers, seconds)),
    );
    field(text, "Time per request:", &format!("{at_once_ms:.3} [ms] (mean)"));
    field(text, "Time per request:", &format!("{each_ms:.3} [ms] (mean, across all concurrent requests)"));
    field(text, "Transfer rate:", &format!("{kilobytes:.2} [Kbytes/sec] received"));
    if sends_bodies(&result.plan) {
        let sent = per_second(totals.sent_bytes, seconds) / 1024.0;
        field(text, "", &format!("{sent:.2} kb/s sent"));
        field(text, "", &format!("{:.2} kb/s total", sent + kilobytes));
    }
}

fn sends_bodies(plan: &Plan) -> bool {
    plan.targets.iter().any(|target| matches!(target.method.as_str(), "POST" | "PUT"))
}

/// Answers whose length is not that of the first one: failures, for ab.
fn other_lengths(result: &RunResult) -> u64 {
    let expected = result.server.as_ref().map_or(0, |server| server.body_bytes);
    let other = |sample: &&Sample| sample.status.is_some() && sample.body_bytes != expected;
    result.samples.iter().filter(other).count() as u64
}

/// One line of the table, in milliseconds: min, mean, deviation, median, max.
fn row(samples: &[Sample], figure: impl Fn(&Sample) -> u64, details: Details) -> String {
    let mut all: Vec<u64> = samples.iter().map(figure).collect();
    all.sort_unstable();
    let count = all.len().max(1) as f64;
    let mean = all.iter().map(|ns| *ns as f64).sum::<f64>() / count;
    let squares: f64 = all.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
    let deviation = if all.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let at = |place: usize| whole_ms(all.get(place).copied().unwrap_or(0));
    let (min, mean, max) = (at(0), whole_ms(mean as u64), at(all.len().saturating_sub(1)));
    if details.no_deviations {
        return format!("{min:5} {mean:5}{max:5}");
    }
    format!("{min:5} {mean:4} {:5.1} {:6} {max:7}", deviation / 1e6, at(all.len() / 2))
}

fn connection_times(text: &mut String, samples: &[Sample], details: Details) {
    let columns = if details.no_deviations { "  avg   max" } else { " mean[+/-sd] median   max" };
    text.push_str(&format!("\nConnection Times (ms)\n              min {columns}\n"));
    for (name, row) in [
        ("Connect:", row(samples, |sample| sample.connect_ns, details)),
        ("Processing:", row(samples, |sample| sample.answer_ns, details)),
        ("Waiting:", row(samples, |sample| sample.first_byte_ns, details)),
        ("Total:", row(samples, Sample::total_ns, details)),
    ] {
        text.push_str(&format!("{name:<12}{row}\n"));
    }
}

/// `samples` are sorted by their total time.
fn percentages(text: &mut String, samples: &[Sample]) {
    text.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    let total = |place: usize| samples.get(place).map_or(0, |sample| whole_ms(sample.total_ns()));
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        text.push_str(&format!(" {percent:3}%  {:5}\n", total(samples.len() * percent / 100)));
    }
    text.push_str(&format!(" 100%  {:5} (longest request)\n", total(samples.len().saturating_sub(1))));
}

#[cfg(test)]
mod tests {
    use crate::report::{Details, fixture, opening, summary};
    use crate::result::{Personality, Reuse};
    use crate::sample::Sample;

    #[test]
    fn ab_as_it_is() {
        let expected = "\
Benchmarking 127.0.0.1 (be patient).....done


Server Software:        weir-origin
Server Hostname:        127.0.0.1
Server Port:            8000

Document Path:          /bytes/60
Document Length:        60 bytes

Concurrency Level:      10
Time taken for tests:   10.000 seconds
Complete requests:      10000
Failed requests:        0
Keep-Alive requests:    100
Total transferred:      2600000 bytes
HTML transferred:       600000 bytes
Requests per second:    1000.00 [#/sec] (mean)
Time per request:       10.000 [ms] (mean)
Time per request:       1.000 [ms] (mean, across all concurrent requests)
Transfer rate:          253.91 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.0      0       0
Processing:     1   51  29.0     51     100
Waiting:        1    1   0.0      1       1
Total:          1   51  29.0     51     100

Percentage of the requests served within a certain time (ms)
  50%     51
  66%     67
  75%     76
  80%     81
  90%     91
  95%     96
  98%     99
  99%    100
 100%    100 (longest request)
";
        let mut result = fixture::closed();
        result.samples = samples(100, 60);
        let text =
            opening(Personality::Ab, &result.plan) + &summary(Personality::Ab, &result, Details::default());
        assert_eq!(text, expected);
    }

    /// Times of 1 to `count` milliseconds.
    fn samples(count: u64, body_bytes: u64) -> Vec<Sample> {
        let sample = |number: u64| Sample {
            first_byte_ns: 1_000_000,
            answer_ns: number * 1_000_000,
            status: Some(200),
            body_bytes,
            keep_alive: true,
            ..Sample::default()
        };
        (1..=count).map(sample).collect()
    }

    #[test]
    fn failures_and_new_connections() {
        let mut result = fixture::paced();
        result.plan.reuse = Reuse::NewFull;
        result.samples = samples(4, 60);
        result.samples.extend(samples(1, 61));
        result.samples.iter_mut().for_each(|sample| sample.connect_ns = 2_000_000);
        let check = |details: Details, parts: &[&str]| {
            let text = summary(Personality::Ab, &result, details);
            for part in parts {
                assert!(text.contains(part), "{part:?} is missing in\n{text}");
            }
            assert!(!text.contains("Keep-Alive"));
        };
        check(
            Details::default(),
            &[
                "SSL/TLS Protocol:       TLSv1.3,TLS_AES_128_GCM_SHA256\n",
                "Failed requests:        16\n   (Connect: 3, Receive: 9, Length: 1, Exceptions: 3)\n",
                "Non-2xx responses:      100\n",
                "Connect:        2    2   0.0      2       2\n",
            ],
        );
        let any = Details { any_length: true, no_deviations: true, ..Details::default() };
        check(
            any,
            &[
                "Failed requests:        15\n",
                "              min   avg   max\nConnect:        2     2    2\n",
            ],
        );
        let short = Details { no_percentages: true, ..Details::default() };
        assert!(summary(Personality::Ab, &result, short).trim_end().ends_with(char::is_numeric));
    }

    #[test]
    fn bodies_sent() {
        let mut result = fixture::closed();
        result.plan.targets[0].method = "POST".to_owned();
        let text = summary(Personality::Ab, &result, Details::default());
        let expected = "\
Total transferred:      2600000 bytes
Total body sent:        900000
HTML transferred:       600000 bytes
Requests per second:    1000.00 [#/sec] (mean)
Time per request:       10.000 [ms] (mean)
Time per request:       1.000 [ms] (mean, across all concurrent requests)
Transfer rate:          253.91 [Kbytes/sec] received
                        87.89 kb/s sent
                        341.80 kb/s total
";
        assert!(text.ends_with(expected), "{text}");
    }
}
