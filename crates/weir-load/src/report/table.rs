//! The table at the end of a run.

use super::{PERCENTILES, plan, units, warning};
use crate::histogram::Histogram;
use crate::result::{Load, RunResult, Step, Totals};

/// Columns before the figures.
const LABEL: usize = 13;

/// Characters of an example of an error, or of a URL, that are shown.
const MAX_SHOWN: usize = 200;

/// The whole table.
#[must_use]
pub fn table(result: &RunResult) -> String {
    let mut text = String::new();
    for target in &result.plan.targets {
        text.push_str(&format!("{} {}\n", printable(&target.method), printable(&target.url)));
    }
    text.push_str(&format!("  {}\n\n", plan(&result.plan)));
    rates(&mut text, result);
    latencies(&mut text, result);
    steps(&mut text, result);
    counts(&mut text, result);
    errors(&mut text, result);
    connections(&mut text, result);
    generator(&mut text, result);
    text
}

fn row(text: &mut String, label: &str, figures: &str) {
    text.push_str(format!("  {label:<LABEL$}{figures}").trim_end());
    text.push('\n');
}

fn rates(text: &mut String, result: &RunResult) {
    let seconds = result.elapsed_seconds;
    let per_second = |number: u64| if seconds > 0.0 { number as f64 / seconds } else { 0.0 };
    let asked = match result.plan.load {
        Load::Rate { per_second } => format!(" of {} asked for", units::rate(per_second)),
        Load::Closed | Load::Ramp { .. } | Load::Replay { .. } => String::new(),
    };
    let totals = &result.totals;
    row(text, "rate", &format!("{} responses/s{asked}", units::rate(per_second(totals.answers))));
    let (received, sent) = (totals.received_bytes, totals.sent_bytes);
    let each = |bytes: u64| format!("{}/s", units::bytes(per_second(bytes)));
    row(
        text,
        "bytes",
        &format!(
            "{} received ({}), {} sent ({})",
            units::bytes(received as f64),
            each(received),
            units::bytes(sent as f64),
            each(sent)
        ),
    );
    match result.best_rate {
        Some(best) => row(text, "best rate", &format!("{} requests/s held the goal", units::rate(best))),
        None if !result.steps.is_empty() => row(text, "best rate", "none held the goal"),
        None => {}
    }
    text.push('\n');
}

fn latencies(text: &mut String, result: &RunResult) {
    // Shown all the same: who knows the reason can tell what the figures are worth.
    if let Some(warning) = warning(result) {
        row(text, "doubtful", "A part of these latencies is the generator's own.");
        row(text, "", &warning);
    }
    let times = &result.times;
    // A closed loop has nothing to correct.
    let corrected = (!times.corrected.is_empty()).then_some(&times.corrected);
    let columns: Vec<(&str, &Histogram)> = match corrected {
        Some(corrected) => vec![("corrected", corrected), ("uncorrected", &times.uncorrected)],
        None => vec![("uncorrected", &times.uncorrected)],
    };
    let columns = columns.into_iter().chain([("first byte", &times.first_byte)]);
    let columns: Vec<_> = columns.filter(|(_, times)| !times.is_empty()).collect();
    let cells = |cell: &dyn Fn(&Histogram) -> f64| {
        columns.iter().map(|(_, times)| format!("{:>13}", units::time(cell(times)))).collect::<String>()
    };
    row(text, "latency", &columns.iter().map(|(name, _)| format!("{name:>13}")).collect::<String>());
    for (name, percent) in PERCENTILES {
        row(text, &format!("{name:>10}"), &cells(&|times| times.percentile(percent).as_secs_f64()));
    }
    row(text, &format!("{:>10}", "max"), &cells(&|times| times.max().as_secs_f64()));
    row(text, &format!("{:>10}", "mean"), &cells(&|times| times.mean_ns() / 1e9));
    text.push('\n');
}

fn steps(text: &mut String, result: &RunResult) {
    if result.steps.is_empty() {
        return;
    }
    row(text, "steps", &format!("{:>13}{:>13}{:>13}{:>13}", "asked/s", "answered/s", "p99", "max"));
    for step in &result.steps {
        let times = step.times.latency();
        let line = format!(
            "{:>13}{:>13}{:>13}{:>13}  {}",
            units::rate(step.rate),
            units::rate(answered(step)),
            units::time(times.percentile(99.0).as_secs_f64()),
            units::time(times.max().as_secs_f64()),
            match (&step.reason, step.held) {
                (_, true) => "held".to_owned(),
                (Some(reason), false) => printable(reason),
                (None, false) => "not held".to_owned(),
            }
        );
        row(text, "", &line);
    }
    text.push('\n');
}

/// Answers a second of a step.
pub(super) fn answered(step: &Step) -> f64 {
    if step.seconds > 0.0 { step.totals.answers as f64 / step.seconds } else { 0.0 }
}

fn counts(text: &mut String, result: &RunResult) {
    let totals = &result.totals;
    row(text, "requests", &units::count(totals.requests));
    row(text, "responses", &answers(totals));
}

/// All answers, and those of each class of statuses that came.
pub(super) fn answers(totals: &Totals) -> String {
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(totals.statuses);
    let classes = counted(classes.filter(|(_, count)| *count > 0));
    let all = units::count(totals.answers);
    if classes.is_empty() { all } else { format!("{all}: {classes}") }
}

/// `timeout 3, reset 1`
pub(super) fn counted(kinds: impl Iterator<Item = (&'static str, u64)>) -> String {
    kinds.map(|(kind, count)| format!("{kind} {}", units::count(count))).collect::<Vec<_>>().join(", ")
}

fn errors(text: &mut String, result: &RunResult) {
    let (totals, errors) = (&result.totals, &result.totals.errors);
    let kinds = counted(errors.kinds().into_iter().filter(|(_, count)| *count > 0));
    row(text, "errors", if kinds.is_empty() { "none" } else { &kinds });
    for example in &errors.examples {
        row(text, "", &format!("such as: {}", printable(example)));
    }
    if totals.waiting + totals.unsent > 0 {
        let (waiting, unsent) = (units::count(totals.waiting), units::count(totals.unsent));
        row(
            text,
            "at the end",
            &format!("{waiting} waited for their response, {unsent} were due and not sent"),
        );
    }
}

fn connections(text: &mut String, result: &RunResult) {
    let (totals, times) = (&result.totals, &result.times);
    let spread = |name: &str, times: &Histogram| match times.is_empty() {
        true => String::new(),
        false => format!(
            ", {name} p50 {} p99 {} max {}",
            units::time(times.percentile(50.0).as_secs_f64()),
            units::time(times.percentile(99.0).as_secs_f64()),
            units::time(times.max().as_secs_f64())
        ),
    };
    let opened = format!("{} opened{}", units::count(totals.connections), spread("connect", &times.connect));
    row(text, "connections", &opened);
    if totals.handshakes > 0 {
        let (all, resumed) = (units::count(totals.handshakes), units::count(totals.resumed));
        row(text, "TLS", &format!("{all} handshakes, {resumed} resumed{}", spread("time", &times.handshake)));
    }
    if let Some(server) = &result.server {
        let tls = server
            .tls
            .as_ref()
            .map(|tls| format!(", {}, {}", printable(&tls.version), printable(&tls.cipher)));
        let software = if server.software.is_empty() { "unnamed" } else { &server.software };
        row(text, "server", &format!("{}{}", printable(software), tls.unwrap_or_default()));
    }
}

fn generator(text: &mut String, result: &RunResult) {
    let generator = &result.generator;
    let busiest = generator.threads.iter().map(|thread| thread.cpu_share).fold(0.0, f64::max);
    let lag = match generator.lag.is_empty() {
        true => String::new(),
        false => format!(", p99 of its lag {}", units::time(generator.lag.percentile(99.0).as_secs_f64())),
    };
    let used = generator.user_seconds + generator.system_seconds;
    let each = match result.totals.answers {
        0 => String::new(),
        answers => format!(" ({} a response)", units::time(used / answers as f64)),
    };
    let cpu = units::time(used);
    row(
        text,
        "generator",
        &format!("{cpu} of CPU time{each}, busiest thread {}{lag}", units::percent(busiest)),
    );
    if warning(result).is_none() {
        row(text, "", "The generator was not the bottleneck: the figures are the server's.");
    }
}

/// Text of others on a terminal: no control characters, not too much of it.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(MAX_SHOWN).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::result::Bottleneck;

    fn check(result: &RunResult, there: &[&str], missing: &[&str]) {
        let text = table(result);
        for part in there {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        for part in missing {
            assert!(!text.contains(part), "{part:?} is in\n{text}");
        }
    }

    #[test]
    fn a_closed_loop() {
        check(
            &fixture::closed(),
            &[
                "GET http://127.0.0.1:8000/bytes/60\n  HTTP/1.1, 2 threads, 10 connections, as fast as responses come, for 10 s\n\n",
                "  rate         1,000 responses/s\n",
                "  bytes        2.48 MiB received (254 KiB/s), 879 KiB sent (87.9 KiB/s)\n",
                "  latency        uncorrected   first byte\n        50 %         1.02 ms       918 \u{b5}s\n",
                "  responses    10,000: 2xx 10,000\n  errors       none\n  connections  10 opened, connect p50",
                "  server       weir-origin\n",
                "busiest thread 25 %\n               The generator was not the bottleneck",
            ],
            &["  corrected", "best rate", "steps", "TLS", "at the end", "warm-up"],
        );
    }

    #[test]
    fn a_rate_with_errors() {
        check(
            &fixture::paced(),
            &[
                "HTTP/2, 2 threads, 10 connections with 10 requests at once on each, 1,000 requests/s, for 10 s after 2 s of warm-up\n",
                "  rate         1,000 responses/s of 1,000 asked for\n",
                "  latency          corrected  uncorrected   first byte\n",
                "         max          121 ms       101 ms      91.0 ms\n",
                "  responses    10,000: 2xx 9,900, 3xx 20, 4xx 30, 5xx 50\n",
                "  errors       connect 1, TLS 2, timeout 3, reset 4, protocol 5, bad status 80\n               such as: connect: refused\n",
                "  at the end   3 waited for their response, 5 were due and not sent\n",
                "  TLS          10 handshakes, 4 resumed, time p50",
                "  server       nginx/1.22, TLSv1.3, TLS_AES_128_GCM_SHA256\n",
                ", p99 of its lag ",
            ],
            &["best rate"],
        );
    }

    #[test]
    fn a_ramp() {
        let mut result = fixture::ramp();
        let step = "       2,000        2,000      3.96 ms       102 ms  p99 6.1 ms, goal 5 ms\n";
        let plan = "1,000 to 3,000 requests/s by steps of 5 s after 2 s of warm-up\n";
        check(&result, &[plan, "  best rate    1,000 requests/s held the goal\n", step, "  held\n"], &[]);
        result.best_rate = None;
        check(&result, &["  best rate    none held the goal\n"], &[]);
    }

    #[test]
    fn a_late_generator_marks_its_latencies_and_shows_them() {
        let mut result = fixture::starved();
        let doubtful = "  doubtful     A part of these latencies is the generator's own.\n";
        let shown = [doubtful, "  latency          corrected", "      99.9 %"];
        let missing = ["was not the bottleneck"];
        check(&result, &[&shown[..], &["used 99 % of a core"]].concat(), &missing);
        result.generator.bottleneck = Bottleneck::Starved { share: 0.3, mean_seconds: 0.002 };
        let reason = "a thread of it waited for a core in 30 % of the time, 2.00 ms at a time";
        check(&result, &[&shown[..], &[reason]].concat(), &missing);
        result.generator.bottleneck = Bottleneck::Lag { p99_seconds: 0.004 };
        check(
            &result,
            &[&shown[..], &["1 % of the requests left 4.00 ms or more behind"]].concat(),
            &missing,
        );
    }

    #[test]
    fn text_of_servers_moves_no_cursor() {
        let mut result = fixture::paced();
        result.totals.errors.examples = vec!["bad \u{1b}[2J\r\n status".to_owned()];
        check(&result, &["such as: bad \u{fffd}[2J\u{fffd}\u{fffd} status\n"], &["\u{1b}", "\r"]);
    }
}
