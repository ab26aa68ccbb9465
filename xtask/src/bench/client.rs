//! The clients, `wrk` and `h2load`: runs one against a subject and divides the subject's CPU time by the
//! requests that the client reports.

use super::configurations;
use super::rows::{Asked, Client, Row};
use super::subject::{Place, Subject};
use crate::{debian, program};
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

/// CPU time a request, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) total: f64,
    pub(super) user: f64,
    /// The share of its core's time that the proxy used: well below 1, the client was the slower one.
    pub(super) busy: f64,
    /// Bytes of a compressed answer's body; none where nothing is compressed.
    pub(super) answer_bytes: Option<u64>,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.total < 10.0 { 2 } else { 1 };
        write!(f, "{:.digits$} ({:.digits$}, {:.0} %)", self.total, self.user, self.busy * 100.0)?;
        match self.answer_bytes {
            Some(bytes) => write!(f, " {bytes} B"),
            None => Ok(()),
        }
    }
}

/// The middle of the costs, by their total.
pub(super) fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|a, b| a.total.total_cmp(&b.total));
    let nothing = Cost { total: f64::NAN, user: f64::NAN, busy: f64::NAN, answer_bytes: None };
    costs.get(costs.len() / 2).copied().unwrap_or(nothing)
}

/// Measures one subject once.
pub(super) fn measure(
    place: &Place,
    subject: &Subject,
    row: &Row,
    origin: u16,
    seconds: u64,
) -> Result<Cost, String> {
    if let Asked::Each(pages) = row.asked {
        place.different_pages(pages)?;
    }
    let running = subject.start(place, row.setup, origin)?;
    let scheme = if row.tls { "https" } else { "http" };
    let address = format!("{scheme}://127.0.0.1:{}{}", running.port, row.asked.path());
    // The first run opens the origin's connections and fills caches; it is not counted.
    ask(place, row, &address, 1)?;
    let answer_bytes = row.gzip.then(|| compressed_size(&address, row.asked)).transpose()?;
    let before = running.cpu_time();
    let started = Instant::now();
    let answers = ask(place, row, &address, seconds)?;
    let used = running.cpu_time().since(before);
    let busy = used.total().as_secs_f64() / started.elapsed().as_secs_f64();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / answers as f64;
    Ok(Cost { total: each(used.total()), user: each(used.user), busy, answer_bytes })
}

/// What the client of a row that compresses sends.
const ACCEPTS: &str = "Accept-Encoding: gzip";

/// The mean size of an answer's body as it is sent.
fn compressed_size(address: &str, asked: Asked) -> Result<u64, String> {
    let addresses = match asked {
        Asked::File(_) => address.to_owned(),
        // curl's own pattern, for one process and one connection.
        Asked::Each(pages) => format!("{address}[0-{}].html", pages.count - 1),
    };
    let mut command = Command::new(debian::need("curl", "curl")?);
    command.args(["-s", "-H", ACCEPTS, "-o", "/dev/null"]);
    command.args(["-w", "%header{content-encoding} %{size_download}\\n"]);
    let said = program::output(command.arg(addresses))?;
    let size = |line: &str| line.strip_prefix("gzip ").and_then(|size| size.parse::<u64>().ok());
    let sizes: Option<Vec<u64>> = said.lines().map(size).collect();
    let sizes = sizes.filter(|sizes| !sizes.is_empty());
    let sizes = sizes.ok_or_else(|| format!("an answer was not compressed: {said}"))?;
    Ok(sizes.iter().sum::<u64>() / sizes.len() as u64)
}

/// Runs the client and returns how many good answers it got; any other answer is an error.
fn ask(place: &Place, row: &Row, address: &str, seconds: u64) -> Result<u64, String> {
    let duration = format!("{seconds}s");
    match row.client {
        Client::Wrk { connections } | Client::WrkClosing { connections } => {
            let mut command = place.on_client_core(&debian::need("wrk", "wrk")?);
            command.args(["-t1", "-c", &connections.to_string(), "-d", &duration]);
            if row.gzip {
                command.args(["-H", ACCEPTS]);
            }
            if matches!(row.client, Client::WrkClosing { .. }) {
                command.args(["-H", "Connection: close"]);
            }
            if let Asked::Each(pages) = row.asked {
                command.arg("-s").arg(configurations().join("clients/pages.lua"));
                command.env("COUNT", pages.count.to_string());
            }
            read_wrk(&program::output(command.arg(address))?)
        }
        Client::H2load { connections, streams } => {
            let mut command = place.on_client_core(&debian::need("h2load", "nghttp2-client")?);
            command.args(["-t1", "-c", &connections.to_string(), "-m", &streams.to_string()]);
            read_h2load(&program::output(command.args(["-D", &seconds.to_string(), address]))?)
        }
    }
}

/// Reads wrk's `N requests in S, B read`.
fn read_wrk(report: &str) -> Result<u64, String> {
    let bad = |line: &&str| line.contains("Non-2xx") || line.contains("Socket errors");
    if let Some(line) = report.lines().find(bad) {
        return Err(format!("wrk: {}", line.trim()));
    }
    report
        .lines()
        .find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok())
        .filter(|answers| *answers > 0)
        .ok_or_else(|| format!("wrk got no answer:\n{report}"))
}

/// Reads h2load's `requests: ... N done, N succeeded, N failed, ...` and `status codes: N 2xx, ...`.
fn read_h2load(report: &str) -> Result<u64, String> {
    let count = |line: &str, label: &str| -> Option<u64> {
        let line = report.lines().find_map(|found| found.strip_prefix(line))?;
        line.split(',').find_map(|part| part.trim().strip_suffix(label)?.trim().parse().ok())
    };
    let done = count("requests:", "done").unwrap_or(0);
    let good = count("status codes:", "2xx").unwrap_or(0);
    let failed = count("requests:", "failed").unwrap_or(0);
    // An answer's status can arrive just before the run ends and its body after: `good` may be ahead.
    if done == 0 || good < done || failed > 0 {
        return Err(format!("h2load: {done} answers, {good} of them good, {failed} failed"));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let wrk = "  Latency 1ms\n  1142 requests in 1.03s, 165.05KB read\nRequests/sec: 1108.44\n";
        assert_eq!(read_wrk(wrk), Ok(1142));
        assert!(read_wrk("  1142 requests in 1s\n  Non-2xx or 3xx responses: 3\n").is_err());
        let h2load = "requests: 18 total, 20 started, 18 done, 18 succeeded, 0 failed, 0 errored, 0 timeout\n\
                      status codes: 18 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(read_h2load(h2load), Ok(18));
        assert!(read_h2load(&h2load.replace("codes: 18", "codes: 0")).is_err());
    }

    #[test]
    fn the_median_is_the_middle() {
        let costs = [9.0, 1.0, 4.0].map(|total| Cost { total, user: 0.0, busy: 1.0, answer_bytes: None });
        assert_eq!(median(costs.to_vec()).total, 4.0);
    }
}
