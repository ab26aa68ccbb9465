//! The summary of h2load.

use std::collections::BTreeMap;

use super::{Spread, per_second, scaled};
use crate::report::table::printable;
use crate::result::{Protocol, RunResult, ThreadLoad};
use crate::sample::Sample;

/// The whole summary.
pub(super) fn h2load(result: &RunResult) -> String {
    let (totals, seconds) = (&result.totals, result.elapsed_seconds);
    let errors = &totals.errors;
    let mut text = protocol(result);
    text.push_str(&format!(
        "\nfinished in {}, {:.2} req/s, {}/s\n",
        time(seconds),
        per_second(totals.answers, seconds),
        bytes(per_second(totals.received_bytes, seconds))
    ));
    // What never reached a server is not done.
    let done = totals.answers + errors.reset + errors.protocol;
    let failed = totals.answers.saturating_sub(totals.good()) + errors.failed();
    text.push_str(&format!(
        "requests: {} total, {} started, {done} done, {} succeeded, {} failed, {} errored, {} timeout\n",
        result.plan.requests.unwrap_or(totals.requests),
        totals.requests,
        totals.good(),
        failed,
        errors.failed(),
        errors.timeout
    ));
    let [_, ok, moved, client, server] = totals.statuses;
    text.push_str(&format!("status codes: {ok} 2xx, {moved} 3xx, {client} 4xx, {server} 5xx\n"));
    text.push_str(&traffic(result));
    text.push_str(&times(result));
    text
}

fn protocol(result: &RunResult) -> String {
    let mut text = String::new();
    let tls = result.server.as_ref().and_then(|server| server.tls.as_ref());
    if let Some(tls) = tls {
        let (version, cipher) = (printable(&tls.version), printable(&tls.cipher));
        text.push_str(&format!("TLS Protocol: {version}\nCipher: {cipher}\n"));
    }
    let name = match (result.plan.protocol, tls) {
        (Protocol::Http1, _) => "http/1.1",
        (Protocol::Http2, Some(_)) => "h2",
        (Protocol::Http2, None) => "h2c",
    };
    text.push_str(&format!("Application protocol: {name}\n"));
    text
}

fn traffic(result: &RunResult) -> String {
    let totals = &result.totals;
    // What was neither body nor frame nor, as far as it was compressed away, head.
    let others = totals.body_bytes + frame_heads(result);
    let head_on_wire = totals.received_bytes.saturating_sub(others).min(totals.head_bytes);
    let saved = match totals.head_bytes {
        0 => 0.0,
        head => 1.0 - head_on_wire as f64 / head as f64,
    };
    let both = |number: u64| format!("{} ({number})", bytes(number as f64));
    format!(
        "traffic: {} total, {} headers (space savings {:.2}%), {} data\n",
        both(totals.received_bytes),
        both(head_on_wire),
        saved * 100.0,
        both(totals.body_bytes)
    )
}

/// The heads of the frames of all answers: HEADERS, and DATA of usual size (RFC 9113 sections 4.1 and 4.2).
fn frame_heads(result: &RunResult) -> u64 {
    const FRAME_HEAD_BYTES: u64 = 9;
    const FRAME_BYTES: u64 = 16_384;
    let totals = &result.totals;
    match result.plan.protocol {
        Protocol::Http1 => 0,
        Protocol::Http2 => {
            let body_bytes = totals.body_bytes / totals.answers.max(1);
            totals.answers * FRAME_HEAD_BYTES * (1 + body_bytes.div_ceil(FRAME_BYTES))
        }
    }
}

fn times(result: &RunResult) -> String {
    let times = &result.times;
    let connect = if times.handshake.is_empty() { &times.connect } else { &times.handshake };
    let row = |name: &str, spread: Spread, format: fn(f64) -> String| {
        format!(
            "{name:<16}: {:>10}  {:>10}  {:>10}  {:>10} {:>9}\n",
            format(spread.min),
            format(spread.max),
            format(spread.mean),
            format(spread.deviation),
            format!("{:.2}%", spread.within * 100.0)
        )
    };
    let (first_bytes, rates) = clients(result);
    let first_byte =
        if first_bytes.is_empty() { Spread::of_times(&times.first_byte) } else { Spread::of(&first_bytes) };
    let mut text = format!("{:>24}{:>12}{:>13}{:>11}{:>14}\n", "min", "max", "mean", "sd", "+/- sd");
    text.push_str(&row("time for request", Spread::of_times(times.latency()), time));
    text.push_str(&row("time for connect", Spread::of_times(connect), time));
    text.push_str(&row("time to 1st byte", first_byte, time));
    text.push_str(&row("req/s", Spread::of(&rates), |rate| format!("{rate:.2}")));
    text
}

/// Of each client, how long after it began its first byte came, in seconds, and its requests a second; where requests
/// were not kept, only the mean rate of each thread's clients.
fn clients(result: &RunResult) -> (Vec<f64>, Vec<f64>) {
    let mut clients: BTreeMap<u32, (Sample, u64, u64)> = BTreeMap::new();
    for sample in result.samples.iter().filter(|sample| sample.status.is_some()) {
        let end_ns = sample.began_unix_ns + sample.total_ns();
        let (_, last_ns, count) = clients.entry(sample.connection).or_insert((*sample, end_ns, 0));
        *last_ns = end_ns.max(*last_ns);
        *count += 1;
    }
    if clients.is_empty() {
        let threads = result.generator.threads.iter().filter(|thread| thread.connections > 0);
        let mean = |thread: &ThreadLoad| {
            per_second(thread.requests, result.elapsed_seconds) / f64::from(thread.connections)
        };
        return (Vec::new(), threads.map(mean).collect());
    }
    let figures = |(first, last_ns, count): (Sample, u64, u64)| {
        let seconds = last_ns.saturating_sub(first.began_unix_ns) as f64 / 1e9;
        ((first.connect_ns + first.first_byte_ns) as f64 / 1e9, per_second(count, seconds))
    };
    clients.into_values().map(figures).unzip()
}

fn time(seconds: f64) -> String {
    let us = (seconds * 1e6).round();
    if us < 1000.0 { format!("{us:.0}us") } else { scaled(us / 1000.0, 1000.0, &["ms", "s"]) }
}

/// Below a kilobyte without decimals.
fn bytes(number: f64) -> String {
    if number < 1024.0 {
        format!("{number:.0}B")
    } else {
        scaled(number / 1024.0, 1024.0, &["KB", "MB", "GB"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Details, fixture, summary};
    use crate::result::Personality;

    #[test]
    fn h2load_as_it_is() {
        let expected = "\
TLS Protocol: TLSv1.3
Cipher: TLS_AES_128_GCM_SHA256
Application protocol: h2

finished in 10.00s, 1000.00 req/s, 253.91KB/s
requests: 10000 total, 10000 started, 10009 done, 9920 succeeded, 95 failed, 15 errored, 3 timeout
status codes: 9900 2xx, 20 3xx, 30 4xx, 50 5xx
traffic: 2.48MB (2600000) total, 1.74MB (1820000) headers (space savings 9.00%), 585.94KB (600000) data
                     min         max         mean         sd        +/- sd
";
        let text = summary(Personality::H2load, &fixture::paced(), Details::default());
        for (line, wanted) in text.lines().zip(expected.lines()) {
            assert_eq!(line, wanted);
        }
        assert!(
            text.ends_with("req/s           :      80.00      120.00      100.00       28.28   100.00%\n"),
            "{text}"
        );
        let mut compressed = fixture::paced();
        compressed.server = None;
        compressed.totals.received_bytes = 1_780_000;
        let text = summary(Personality::H2load, &compressed, Details::default());
        assert!(text.contains("976.56KB (1000000) headers (space savings 50.00%)"), "{text}");
        assert!(text.starts_with("Application protocol: h2c\n\nfinished in"), "{text}");
    }

    #[test]
    fn columns_stand_as_in_the_tool() {
        let text = times(&fixture::closed());
        let ends = |line: &str| -> Vec<usize> {
            let all: Vec<char> = line.chars().collect();
            let is_end = |at: usize| all[at] != ' ' && all.get(at + 1).is_none_or(|next| *next == ' ');
            (18..all.len()).filter(|at| is_end(*at)).collect()
        };
        for line in text.lines().skip(1) {
            assert_eq!(ends(line), [27, 39, 51, 63, 73], "{line:?}");
        }
    }

    #[test]
    fn each_client() {
        let mut result = fixture::closed();
        assert_eq!(clients(&result), (Vec::new(), vec![80.0, 120.0]));
        let sample = |connection: u32, began_ms: u64, connect_ms: u64, status| Sample {
            connection,
            began_unix_ns: began_ms * 1_000_000,
            connect_ns: connect_ms * 1_000_000,
            first_byte_ns: 50_000_000,
            answer_ns: 100_000_000,
            status,
            ..Sample::default()
        };
        let done = Some(200);
        result.samples = vec![
            sample(1, 0, 20, done),
            sample(0, 0, 0, done),
            sample(1, 120, 0, done),
            sample(1, 400, 0, done),
            sample(0, 100, 0, None),
        ];
        assert_eq!(clients(&result), (vec![0.05, 0.07], vec![10.0, 6.0]));
    }

    #[test]
    fn units() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(time(0.000_217), "217us");
        check(time(0.000_999_8), "1.00ms");
        check(time(0.046_89), "46.89ms");
        check(time(2.01), "2.01s");
        check(bytes(512.0), "512B");
        check(bytes(1_646_000.0), "1.57MB");
    }
}
