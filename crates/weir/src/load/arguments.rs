//! The command line of `weir load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use weir_load::goal::{Goal, duration};
use weir_load::replay;
use weir_load::report::Details;
use weir_load::request::{self, MAX_BODY_BYTES, RequestText};
use weir_load::result::{Load, Personality, Reuse};
use weir_load::setup::{Http, Order, Setup, Weighted};
use weir_load::url::{ConnectTo, Url};

use super::{Outputs, Task};

/// The most bytes of a file with requests.
const MAX_LIST_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// A load generator whose latencies are those that users would have seen.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to send requests; `3*URL` gets three times as many as the others.
    #[arg(required_unless_present = "compare", value_name = "URL")]
    urls: Vec<String>,
    /// Threads [default: one per core].
    #[arg(short, long, value_name = "N")]
    threads: Option<u32>,
    /// Connections of all threads together.
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = count)]
    connections: u64,
    /// How long to measure [default: 10s, without -n].
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// How many requests to send.
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    requests: Option<u64>,
    /// Requests a second, however late responses come; `1000..50000` rises step by step.
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// How long each step of a rising rate lasts.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, requires = "rate")]
    step: Duration,
    /// How much higher each step is than the last.
    #[arg(long, value_name = "PERCENT", default_value = "25%", value_parser = percent, requires = "rate")]
    rise: f64,
    /// What has to hold, as `p99<5ms,errors<0.1%`; with a rising rate, the highest that holds it is found.
    #[arg(long, value_name = "GOAL", value_parser = Goal::parse)]
    slo: Option<Goal>,
    /// Requests at once on one connection: streams of HTTP/2, pipelined ones of HTTP/1.1.
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1)]
    streams: u32,
    /// HTTP/2: over TLS by ALPN, in plaintext by prior knowledge.
    #[arg(long)]
    h2: bool,
    /// The method [default: GET, POST with a body].
    #[arg(short = 'X', long, value_name = "METHOD", value_parser = request::method)]
    method: Option<String>,
    /// A header field, as `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = request::header)]
    headers: Vec<(String, String)>,
    /// The body; `@FILE` reads it from a file.
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Send the requests of a file in turn: a URL or path on each line, a method before it if need be.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    input: Option<PathBuf>,
    /// Send the requests of an access log when they were sent then (common, combined, HAProxy's httplog).
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    replay: Option<PathBuf>,
    /// How much faster than the log.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay")]
    speed: f64,
    /// Let a script with wrk's interface decide what is sent (HTTP/1.1).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "replay", "h2"])]
    script: Option<PathBuf>,
    /// What the script's `init` is called with; may be repeated.
    #[arg(long, value_name = "TEXT", requires = "script")]
    argument: Vec<String>,
    /// A new connection for each request; TLS sessions are resumed.
    #[arg(long)]
    new_connections: bool,
    /// With new connections, every TLS handshake is a full one.
    #[arg(long, requires = "new_connections")]
    no_resumption: bool,
    /// Connect elsewhere for a server, as curl does; may be repeated.
    #[arg(long, value_name = "HOST:PORT:HOST2:PORT2", value_parser = ConnectTo::parse)]
    connect_to: Vec<ConnectTo>,
    /// Take any certificate.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Authorities for certificates, instead of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// How long a response, and opening a connection, may take.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// How long the load runs before the measuring begins.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    warm_up: Duration,
    /// Which of the possible runs: the same number draws the same URLs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often to tell how it goes.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// The run's name in reports [default: the first URL].
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    outputs: OutputArguments,
    /// Draw earlier runs together instead of running one.
    #[arg(long, value_name = "JSON", num_args = 1.., conflicts_with_all = ["urls", "json", "hdr"], requires = "html")]
    compare: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct OutputArguments {
    /// Print all percentiles.
    #[arg(long)]
    latency: bool,
    /// Write all figures as JSON; `-` for the standard output, instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the percentiles as HdrHistogram's text.
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Write a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Say nothing while it goes on.
    #[arg(short, long)]
    quiet: bool,
}

/// What is asked for with `--rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Constant(f64),
    Rising(f64, f64),
}

impl Arguments {
    /// The task that the command line describes.
    pub(super) fn task(self) -> Result<Task, String> {
        if !self.compare.is_empty() {
            let html = self.outputs.html.ok_or("--compare needs --html FILE")?;
            return Ok(Task::Compare { files: self.compare, html });
        }
        let (requests, order) = self.requests()?;
        let connections = u32::try_from(self.connections).unwrap_or(u32::MAX);
        let load = match (self.rate, &order) {
            (_, Order::Replay(_)) => Load::Replay { speed: self.speed },
            (None, _) => Load::Closed,
            (Some(Rate::Constant(per_second)), _) => Load::Rate { per_second },
            (Some(Rate::Rising(from, to)), _) => {
                Load::Ramp { from, to, step_seconds: self.step.as_secs_f64() }
            }
        };
        let bounded = self.requests.is_some() || matches!(load, Load::Replay { .. } | Load::Ramp { .. });
        let duration = self.duration.or_else(|| (!bounded).then_some(Duration::from_secs(10)));
        let reuse = match (self.new_connections, self.no_resumption) {
            (false, _) => Reuse::KeepAlive,
            (true, false) => Reuse::NewResumed,
            (true, true) => Reuse::NewFull,
        };
        let first = requests.first().map(|weighted| weighted.request.url.to_string());
        let script = match (&self.script, requests.as_slice()) {
            (None, _) => None,
            (Some(file), [only]) => {
                Some(Arc::new(super::wrk::script(file, only.request.clone(), self.argument)?))
            }
            (Some(_), _) => return Err("a script's requests go to one URL".into()),
        };
        let setup = Setup {
            label: self.label.or(first).unwrap_or_default(),
            requests,
            order,
            http: if self.h2 { Http::Two } else { Http::One },
            threads: self.threads.unwrap_or_else(|| super::cores().min(connections.max(1))),
            connections,
            streams: self.streams,
            load,
            rise: self.rise,
            duration,
            count: self.requests,
            warm_up: self.warm_up,
            reuse,
            timeout: self.timeout,
            seed: self.seed,
            goal: self.slo,
            connect_to: self.connect_to,
            insecure: self.insecure,
            ca_file: self.cacert,
            interval: self.interval,
            script,
            ..Setup::default()
        };
        let OutputArguments { latency, json, hdr, html, quiet } = self.outputs;
        let details = Details { latency, ..Details::default() };
        let outputs =
            Outputs { personality: Personality::Weir, details, json, hdr, html, quiet, ..Outputs::default() };
        Ok(Task::Run { setup: Box::new(setup), outputs })
    }

    /// What to send, and in which order.
    fn requests(&self) -> Result<(Vec<Weighted>, Order), String> {
        let body = self.body.as_deref().map_or(Ok(Vec::new()), read_body)?;
        let method =
            self.method.clone().unwrap_or_else(|| if body.is_empty() { "GET" } else { "POST" }.into());
        let mut requests = Vec::new();
        for text in &self.urls {
            let (weight, url) = weighted(text)?;
            let url = Url::parse(url)?;
            let request = RequestText {
                method: method.clone(),
                url,
                headers: self.headers.clone(),
                body: body.clone(),
            };
            requests.push(Weighted { request, weight });
        }
        if let Some(file) = &self.input {
            let base = requests.first().map(|weighted| weighted.request.clone()).ok_or("no URL")?;
            return Ok((listed(&read_text(file)?, &base)?, Order::Turn));
        }
        if let Some(file) = &self.replay {
            let base = requests.first().map(|weighted| weighted.request.clone()).ok_or("no URL")?;
            return logged(&read_text(file)?, &base).map_err(|why| format!("{}: {why}", file.display()));
        }
        Ok((requests, Order::Lot))
    }
}

/// Splits `3*URL`.
fn weighted(text: &str) -> Result<(u32, &str), String> {
    match text.split_once('*') {
        Some((weight, url)) if weight.bytes().all(|byte| byte.is_ascii_digit()) => {
            let weight = weight.parse().map_err(|_| format!("'{text}': '{weight}' is no weight"))?;
            Ok((weight, url))
        }
        _ => Ok((1, text)),
    }
}

/// The lines of `--input`.
pub(super) fn listed(text: &str, base: &RequestText) -> Result<Vec<Weighted>, String> {
    let mut requests = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: String| format!("line {}: {why}", number + 1);
        let (method, target) = line.split_once(' ').unwrap_or(("", line));
        let mut request = base.clone();
        if !method.is_empty() {
            request.method = request::method(method).map_err(wrong)?;
        }
        let target = target.trim();
        request.url = match target.strip_prefix('/') {
            Some(_) => Url::parse(&format!("{}{target}", base.url.origin)).map_err(wrong)?,
            None => Url::parse(target).map_err(wrong)?,
        };
        requests.push(Weighted { request, weight: 1 });
    }
    Ok(requests)
}

/// The requests of a log, equal ones once.
fn logged(text: &str, base: &RequestText) -> Result<(Vec<Weighted>, Order), String> {
    let log = replay::read(text)?;
    if log.skipped > 0 {
        crate::console::complain(&format!("{} lines without a request are left out\n", log.skipped));
    }
    let mut known = std::collections::HashMap::new();
    let (mut requests, mut list) = (Vec::new(), Vec::with_capacity(log.requests.len()));
    for logged in log.requests {
        let number = match known.get(&(logged.method.clone(), logged.path.clone())) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(requests.len()).map_err(|_| "too many different requests")?;
                let url = Url { origin: base.url.origin.clone(), path: logged.path.clone() };
                let body = if logged.method == "GET" || logged.method == "HEAD" {
                    Vec::new()
                } else {
                    base.body.clone()
                };
                let request =
                    RequestText { method: logged.method.clone(), url, headers: base.headers.clone(), body };
                requests.push(Weighted { request, weight: 1 });
                known.insert((logged.method, logged.path), number);
                number
            }
        };
        list.push((number, logged.after_ns));
    }
    Ok((requests, Order::Replay(list)))
}

/// Reads a body: the text itself, or `@FILE`.
fn read_body(text: &str) -> Result<Vec<u8>, String> {
    let body = match text.strip_prefix('@') {
        Some(file) => read_bytes(Path::new(file), MAX_BODY_BYTES as u64)?,
        None => text.as_bytes().to_vec(),
    };
    if body.len() > MAX_BODY_BYTES {
        return Err(format!("a body of more than {MAX_BODY_BYTES} bytes"));
    }
    Ok(body)
}

/// Reads a file that is not larger than allowed.
pub(super) fn read_bytes(file: &Path, most: u64) -> Result<Vec<u8>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    let length = std::fs::metadata(file).map_err(said)?.len();
    if length > most {
        return Err(format!("{}: {length} bytes are more than {most}", file.display()));
    }
    std::fs::read(file).map_err(said)
}

/// Reads a file of requests.
pub(super) fn read_text(file: &Path) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&read_bytes(file, MAX_LIST_BYTES)?).into_owned())
}

/// A number with an optional k, M or G, as wrk takes them.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let value = decimal(text)?;
    if value < 1.0 || value.fract() != 0.0 || value > 1e15 {
        return Err(format!("'{text}' is no number of things"));
    }
    Ok(value as u64)
}

fn decimal(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| format!("'{text}' is no number"))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { Ok(number * factor) } else { Err(format!("'{text}' is no number")) }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.split_once("..") {
        Some((from, to)) => Ok(Rate::Rising(decimal(from)?, decimal(to)?)),
        None => decimal(text).map(Rate::Constant),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = decimal(text.strip_suffix('%').unwrap_or(text))?;
    if number > 0.0 { Ok(number / 100.0) } else { Err(format!("'{text}': a rise is above 0")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn task(line: &str) -> Result<Task, String> {
        let words = std::iter::once("load").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.arguments.task()
    }

    fn setup(line: &str) -> Setup {
        match task(line) {
            Ok(Task::Run { setup, .. }) => *setup,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_to_run() {
        let closed = setup("http://a/ -t2 -c1k -d 30s");
        assert_eq!((closed.threads, closed.connections, closed.load), (2, 1000, Load::Closed));
        assert_eq!(closed.duration, Some(Duration::from_secs(30)));
        let rate = setup("http://a/ -R 2k -n 100");
        assert_eq!(
            (rate.load, rate.duration, rate.count),
            (Load::Rate { per_second: 2000.0 }, None, Some(100))
        );
        let ramp = setup("http://a/ --rate 1000..50000 --step 5s --slo p99<5ms --rise 10%");
        assert_eq!(ramp.load, Load::Ramp { from: 1000.0, to: 50_000.0, step_seconds: 5.0 });
        assert_eq!((ramp.rise, ramp.goal.unwrap().to_string()), (0.1, "p99<5ms".into()));
        let urls = setup("3*http://a/x http://b/y*z --body hello -H A:b");
        let found: Vec<u32> = urls.requests.iter().map(|weighted| weighted.weight).collect();
        assert_eq!((found, urls.requests[1].request.method.as_str()), (vec![3, 1], "POST"));
        assert_eq!(urls.requests[1].request.url.path, "/y*z");
        assert_eq!(setup("http://a/ --new-connections --no-resumption").reuse, Reuse::NewFull);
        assert!(matches!(task("--compare a.json b.json --html c.html"), Ok(Task::Compare { .. })));
    }

    #[test]
    fn what_is_refused() {
        let check = |line: &str, why: &str| {
            let error = task(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        };
        check("", "required");
        check("a", "expected http://");
        check("http://a/ -c 0", "no number of things");
        check("http://a/ -c x", "no number");
        check("http://a/ -R nan", "no number");
        check("http://a/ -d 1w", "no unit");
        check("http://a/ --slo q<1", "expected p50");
        check("http://a/ -H x", "Name: value");
        check("http://a/ --speed 2", "--replay");
        check("http://a/ --body @/does/not/exist", "No such file");
        check("http://a/ --script /does/not/exist", "No such file");
        check("http://a/ http://b/ --script x", "one URL");
        check("http://a/ --script x --h2", "--h2");
        check("--compare a.json", "--html");
    }

    #[test]
    fn lines_of_a_list() {
        let base = setup("http://h:81/").requests.remove(0).request;
        let found = listed("# some\n/a\nPOST /b?c\n\nhttps://x/d\n", &base).unwrap();
        let found: Vec<String> = found
            .iter()
            .map(|weighted| format!("{} {}", weighted.request.method, weighted.request.url))
            .collect();
        assert_eq!(found, ["GET http://h:81/a", "POST http://h:81/b?c", "GET https://x/d"]);
        assert!(listed("GET  a b", &base).unwrap_err().starts_with("line 1:"));
    }
}
