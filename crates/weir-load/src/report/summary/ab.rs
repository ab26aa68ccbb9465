//! The summary of ab, the ApacheBench.

use super::{Spread, per_second};
use crate::histogram::Histogram;
use crate::report::table::printable;
use crate::result::{Plan, Reuse, RunResult};
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
pub(super) fn ab(result: &RunResult) -> String {
    let mut text = "done\n\n\n".to_owned();
    for (name, value) in server(result) {
        field(&mut text, name, &value);
    }
    text.push('\n');
    for (name, value) in document(result) {
        field(&mut text, name, &value);
    }
    text.push('\n');
    counts(&mut text, result);
    rates(&mut text, result);
    connection_times(&mut text, result);
    percentages(&mut text, result);
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

fn counts(text: &mut String, result: &RunResult) {
    let (totals, errors) = (&result.totals, &result.totals.errors);
    field(text, "Concurrency Level:", &result.plan.connections.to_string());
    field(text, "Time taken for tests:", &format!("{:.3} seconds", result.elapsed_seconds));
    field(text, "Complete requests:", &totals.answers.to_string());
    field(text, "Failed requests:", &errors.failed().to_string());
    if errors.failed() > 0 {
        text.push_str(&format!(
            "   (Connect: {}, Receive: {}, Length: 0, Exceptions: {})\n",
            errors.connect + errors.tls,
            errors.reset + errors.protocol,
            errors.timeout
        ));
    }
    if totals.answers > totals.statuses[1] {
        field(text, "Non-2xx responses:", &(totals.answers - totals.statuses[1]).to_string());
    }
    if result.plan.reuse == Reuse::KeepAlive {
        field(text, "Keep-Alive requests:", &totals.answers.to_string());
    }
    field(text, "Total transferred:", &format!("{} bytes", totals.received_bytes));
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
}

/// What opening a connection adds to every request, in milliseconds at a percentile; nothing where they are kept.
fn opening_ms(result: &RunResult, figure: impl Fn(&Histogram) -> f64) -> f64 {
    match result.plan.reuse {
        Reuse::KeepAlive => 0.0,
        Reuse::NewResumed | Reuse::NewFull => figure(&result.times.connect) + figure(&result.times.handshake),
    }
}

fn ms_at(times: &Histogram, percent: f64) -> f64 {
    times.percentile(percent).as_secs_f64() * 1000.0
}

/// One line of the table: min, mean, deviation, median, max, in milliseconds.
#[derive(Clone, Copy)]
struct Row([f64; 5]);

impl Row {
    fn of(times: &Histogram) -> Self {
        let spread = Spread::of_times(times);
        let median = ms_at(times, 50.0) / 1000.0;
        Self([spread.min, spread.mean, spread.deviation, median, spread.max].map(|seconds| seconds * 1000.0))
    }

    /// Times one after the other.
    fn and(self, other: Self) -> Self {
        let mut sum = self;
        for (at, (figure, more)) in sum.0.iter_mut().zip(other.0).enumerate() {
            // Deviations of independent times add up as squares.
            *figure = if at == 2 { figure.hypot(more) } else { *figure + more };
        }
        sum
    }

    fn text(self) -> String {
        let [min, mean, deviation, median, max] = self.0;
        format!("{min:5.0} {mean:4.0} {deviation:5.1} {median:6.0} {max:7.0}")
    }
}

fn connection_times(text: &mut String, result: &RunResult) {
    let times = &result.times;
    let connect = match result.plan.reuse {
        Reuse::KeepAlive => Row([0.0; 5]),
        Reuse::NewResumed | Reuse::NewFull => Row::of(&times.connect).and(Row::of(&times.handshake)),
    };
    let processing = Row::of(&times.uncorrected);
    text.push_str("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
    for (name, row) in [
        ("Connect:", connect),
        ("Processing:", processing),
        ("Waiting:", Row::of(&times.first_byte)),
        ("Total:", connect.and(processing)),
    ] {
        text.push_str(&format!("{name:<12}{}\n", row.text()));
    }
}

fn percentages(text: &mut String, result: &RunResult) {
    text.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    let total = |percent: f64| {
        ms_at(&result.times.uncorrected, percent) + opening_ms(result, |times| ms_at(times, percent))
    };
    for percent in [50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0] {
        text.push_str(&format!(" {percent:3.0}%  {:5.0}\n", total(percent)));
    }
    text.push_str(&format!(" 100%  {:5.0} (longest request)\n", total(100.0)));
}

#[cfg(test)]
mod tests {
    use crate::report::{fixture, opening, summary};
    use crate::result::{Personality, Reuse};

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
Keep-Alive requests:    10000
Total transferred:      2600000 bytes
HTML transferred:       600000 bytes
Requests per second:    1000.00 [#/sec] (mean)
Time per request:       10.000 [ms] (mean)
Time per request:       1.000 [ms] (mean, across all concurrent requests)
Transfer rate:          253.91 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.0      0       0
Processing:     1    1   1.3      1     101
Waiting:        1    1   1.2      1      91
Total:          1    1   1.3      1     101

Percentage of the requests served within a certain time (ms)
  50%      1
  66%      1
  75%      1
  80%      1
  90%      1
  95%      1
  98%      1
  99%      2
 100%    101 (longest request)
";
        let result = fixture::closed();
        let text = opening(Personality::Ab, &result.plan) + &summary(Personality::Ab, &result, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn failures_and_new_connections() {
        let mut result = fixture::paced();
        result.plan.reuse = Reuse::NewFull;
        let text = summary(Personality::Ab, &result, false);
        for part in [
            "SSL/TLS Protocol:       TLSv1.3,TLS_AES_128_GCM_SHA256\n",
            "Failed requests:        15\n   (Connect: 3, Receive: 9, Length: 0, Exceptions: 3)\n",
            "Non-2xx responses:      100\n",
            "Connect:        2    2   0.1      2       2\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(!text.contains("Keep-Alive"));
    }
}
