//! The command lines of wrk and wrk2.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use weir_load::Setup;
use weir_load::goal::duration;
use weir_load::report::Details;
use weir_load::request::{self, RequestText};
use weir_load::result::{Load, Personality};
use weir_load::script::{MAX_SCRIPT_BYTES, Script};
use weir_load::setup::{Discipline, Weighted};
use weir_load::url::Url;

use super::arguments::{count, read_bytes};
use super::{Outputs, Refused, Task};

/// How long wrk2 runs before it counts latencies; a shorter run is measured from the beginning.
const CALIBRATION: Duration = Duration::from_secs(10);

/// How often the rate of a thread is taken.
const RECORD_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
#[command(name = "wrk", disable_version_flag = true)]
struct Options {
    /// Connections to keep open.
    #[arg(short, long, default_value = "10", value_parser = count)]
    connections: u64,
    /// Duration of test.
    #[arg(short, long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Number of threads to use.
    #[arg(short, long, default_value = "2", value_parser = count)]
    threads: u64,
    /// Load Lua script file.
    #[arg(short, long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Add header to request.
    #[arg(short = 'H', long = "header", value_parser = request::header)]
    headers: Vec<(String, String)>,
    /// Print latency statistics.
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print uncorrected latency statistics (wrk2).
    #[arg(short = 'U', long = "u_latency")]
    u_latency: bool,
    /// Work rate: requests a second of all threads (wrk2).
    #[arg(short = 'R', long, value_parser = count)]
    rate: Option<u64>,
    /// Socket/request timeout.
    #[arg(long, default_value = "2s", value_parser = duration)]
    timeout: Duration,
    /// Print version details.
    #[arg(short, long)]
    version: bool,
    /// The URL, and behind it what the script's `init` is called with.
    words: Vec<String>,
}

/// The task that a command line of wrk or wrk2 describes.
pub(super) fn task(personality: Personality, words: impl Iterator<Item = OsString>) -> Result<Task, Refused> {
    let words = std::iter::once(OsString::from("wrk")).chain(words);
    let options = Options::try_parse_from(words)?;
    if options.version {
        return Err(Refused::Version("wrk"));
    }
    let mut words = options.words.into_iter();
    let url = Url::parse(&words.next().ok_or_else(|| "a URL is missing".to_owned())?)?;
    let load = match (personality, options.rate) {
        (Personality::Wrk2, None) => {
            return Err(Refused::Value("Throughput MUST be specified with the --rate or -R option".into()));
        }
        (Personality::Wrk2, Some(rate)) => Load::Rate { per_second: rate as f64 },
        (_, Some(_)) => return Err(Refused::Value("--rate is an option of wrk2".into())),
        (_, None) => Load::Closed,
    };
    let warm_up = match load {
        Load::Rate { .. } if options.duration > CALIBRATION => CALIBRATION,
        _ => Duration::ZERO,
    };
    let label = url.to_string();
    let request = RequestText { method: "GET".into(), url, headers: options.headers, body: Vec::new() };
    let script = match &options.script {
        Some(file) => Some(Arc::new(script(file, request.clone(), words.collect())?)),
        None => None,
    };
    let setup = Setup {
        label,
        requests: vec![Weighted { request, weight: 1 }],
        threads: u32::try_from(options.threads).unwrap_or(u32::MAX),
        connections: u32::try_from(options.connections).unwrap_or(u32::MAX),
        load,
        duration: Some(options.duration - warm_up),
        warm_up,
        timeout: options.timeout,
        discipline: Discipline::Patient,
        interval: RECORD_INTERVAL,
        // Neither of them looks at certificates.
        insecure: true,
        script,
        ..Setup::default()
    };
    let details = Details {
        latency: options.latency || options.u_latency,
        uncorrected: options.u_latency,
        ..Details::default()
    };
    let outputs = Outputs { personality, details, quiet: true, ..Outputs::default() };
    Ok(Task::Run { setup: Box::new(setup), outputs })
}

/// Reads a script.
pub(super) fn script(file: &Path, request: RequestText, arguments: Vec<String>) -> Result<Script, String> {
    let source = read_bytes(file, MAX_SCRIPT_BYTES)?;
    Script::load(&file.display().to_string(), source, request, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(personality: Personality, line: &str) -> Result<Setup, String> {
        crate::load::setup_of(task(personality, line.split(' ').map(OsString::from)))
    }

    #[test]
    fn translated() {
        let wrk = setup(Personality::Wrk, "-t4 -c 1k -d 2m -H a:b --latency http://h/").unwrap();
        assert_eq!((wrk.threads, wrk.connections, wrk.load), (4, 1000, Load::Closed));
        assert_eq!((wrk.duration, wrk.timeout), (Some(Duration::from_secs(120)), Duration::from_secs(2)));
        let wrk2 = setup(Personality::Wrk2, "-d15 -R 2k http://h/").unwrap();
        assert_eq!((wrk2.warm_up, wrk2.duration), (CALIBRATION, Some(Duration::from_secs(5))));
        assert_eq!(wrk2.load, Load::Rate { per_second: 2000.0 });
        assert_eq!(setup(Personality::Wrk2, "-d10s -R 2k http://h/").unwrap().warm_up, Duration::ZERO);
    }

    #[test]
    fn refused() {
        let check = |personality, line, why: &str| {
            let error = setup(personality, line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        };
        check(Personality::Wrk, "-s /does/not/exist http://h/", "No such file");
        check(Personality::Wrk, "-R 5 http://h/", "wrk2");
        check(Personality::Wrk2, "http://h/", "MUST be specified");
        check(Personality::Wrk, "--nonsense", "unexpected argument");
        check(Personality::Wrk, "-c1", "URL is missing");
    }
}
