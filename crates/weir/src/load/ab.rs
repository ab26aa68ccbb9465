//! The command line of ab.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use weir_load::Setup;
use weir_load::report::Details;
use weir_load::request::{self, MAX_BODY_BYTES, RequestText};
use weir_load::result::{Personality, Reuse};
use weir_load::setup::{Http, Weighted};
use weir_load::url::Url;

use super::arguments::{count, read_bytes};
use super::{Lists, Outputs, Refused, Task};

/// What `-t` implies.
const TIMED_REQUESTS: u64 = 50_000;

#[derive(Debug, Parser)]
#[command(name = "ab", disable_version_flag = true)]
struct Options {
    /// Number of requests to perform.
    #[arg(short = 'n', default_value = "1", value_parser = count)]
    requests: u64,
    /// Number of multiple requests to make at a time.
    #[arg(short = 'c', default_value = "1", value_parser = count)]
    concurrency: u64,
    /// Seconds to max. to spend on benchmarking.
    #[arg(short = 't', value_parser = count)]
    timelimit: Option<u64>,
    /// Seconds to max. wait for each response.
    #[arg(short = 's', default_value = "30", value_parser = count)]
    timeout: u64,
    /// Use HTTP KeepAlive feature.
    #[arg(short = 'k')]
    keep_alive: bool,
    /// File containing data to POST.
    #[arg(short = 'p')]
    postfile: Option<PathBuf>,
    /// File containing data to PUT.
    #[arg(short = 'u')]
    putfile: Option<PathBuf>,
    /// Content-type header to use for POST/PUT data.
    #[arg(short = 'T')]
    content_type: Option<String>,
    /// Use HEAD instead of GET.
    #[arg(short = 'i')]
    head: bool,
    /// Method name.
    #[arg(short = 'm', value_parser = request::method)]
    method: Option<String>,
    /// Add Arbitrary header line.
    #[arg(short = 'H', value_parser = request::header)]
    headers: Vec<(String, String)>,
    /// Add cookie, as 'Apache=1234'.
    #[arg(short = 'C')]
    cookies: Vec<String>,
    /// Do not show progress.
    #[arg(short = 'q')]
    quiet: bool,
    /// Accept variable document length.
    #[arg(short = 'l')]
    variable: bool,
    /// Requests without an answer are no failure of the run.
    #[arg(short = 'r')]
    robust: bool,
    /// Do not show percentiles served table.
    #[arg(short = 'd')]
    no_percentiles: bool,
    /// Do not show confidence estimators.
    #[arg(short = 'S')]
    no_estimators: bool,
    /// Add Basic WWW Authentication: name and password with a colon between.
    #[arg(short = 'A', value_name = "NAME:PASSWORD")]
    authentication: Option<String>,
    /// Add Basic Proxy Authentication.
    #[arg(short = 'P', value_name = "NAME:PASSWORD")]
    proxy_authentication: Option<String>,
    /// Output collected data to gnuplot format file.
    #[arg(short = 'g', value_name = "FILE")]
    gnuplot: Option<PathBuf>,
    /// Output CSV file with percentages served.
    #[arg(short = 'e', value_name = "FILE")]
    percentages: Option<PathBuf>,
    /// Print version number and exit.
    #[arg(short = 'V')]
    version: bool,
    #[arg(short = 'v', hide = true)]
    verbosity: Option<u32>,
    url: Option<String>,
}

/// The task that a command line of ab describes.
pub(super) fn task(words: impl Iterator<Item = OsString>) -> Result<Task, Refused> {
    let words = std::iter::once(OsString::from("ab")).chain(words);
    let options = Options::try_parse_from(words)?;
    if options.version {
        return Err(Refused::Version("ab"));
    }
    let url = options.url.as_deref().ok_or_else(|| "a URL is missing".to_owned())?;
    let scheme = if url.contains("://") { "" } else { "http://" };
    let url = Url::parse(&format!("{scheme}{url}"))?;
    let (sent, file) = match (&options.postfile, &options.putfile) {
        (Some(_), Some(_)) => return Err(Refused::Value("Cannot mix POST and PUT".into())),
        (Some(file), None) => ("POST", Some(file)),
        (None, Some(file)) => ("PUT", Some(file)),
        (None, None) => (if options.head { "HEAD" } else { "GET" }, None),
    };
    let body = file.map_or(Ok(Vec::new()), |file| read_bytes(file, MAX_BODY_BYTES as u64))?;
    let mut headers = options.headers;
    if file.is_some() {
        headers.push(("Content-Type".into(), options.content_type.unwrap_or_else(|| "text/plain".into())));
    }
    if !options.cookies.is_empty() {
        headers.push(("Cookie".into(), options.cookies.join("; ")));
    }
    let basic = |text: &String| format!("Basic {}", STANDARD.encode(text));
    headers.extend(options.authentication.iter().map(|text| ("Authorization".into(), basic(text))));
    headers
        .extend(options.proxy_authentication.iter().map(|text| ("Proxy-Authorization".into(), basic(text))));
    let label = url.to_string();
    let method = options.method.unwrap_or_else(|| sent.into());
    let requests = vec![Weighted { request: RequestText { method, url, headers, body }, weight: 1 }];
    let count = options.timelimit.map_or(options.requests, |_| options.requests.max(TIMED_REQUESTS));
    if options.concurrency > count {
        return Err(Refused::Value(
            "Cannot use concurrency level greater than total number of requests".into(),
        ));
    }
    let setup = Setup {
        label,
        http: Http::OneDotZero,
        keep_samples: true,
        requests,
        connections: u32::try_from(options.concurrency).unwrap_or(u32::MAX),
        duration: options.timelimit.map(Duration::from_secs),
        count: Some(count),
        // It has no memory of TLS sessions.
        reuse: if options.keep_alive { Reuse::KeepAlive } else { Reuse::NewFull },
        timeout: Duration::from_secs(options.timeout),
        insecure: true,
        ..Setup::default()
    };
    let details = Details {
        any_length: options.variable,
        no_percentages: options.no_percentiles,
        no_deviations: options.no_estimators,
        ..Details::default()
    };
    let lists = Lists { gnuplot: options.gnuplot, percentages: options.percentages, ..Lists::default() };
    let outputs = Outputs {
        personality: Personality::Ab,
        details,
        lists,
        quiet: true,
        all_answered: !options.robust,
        ..Outputs::default()
    };
    Ok(Task::Run { setup: Box::new(setup), outputs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(line: &str) -> Result<Setup, String> {
        let setup = crate::load::setup_of(task(line.split(' ').map(OsString::from)))?;
        setup.check().map(|()| setup)
    }

    #[test]
    fn translated() {
        let single = setup("-n 100 -c 5 -q -C a=1 -C b=2 h:81/p").unwrap();
        assert_eq!((single.count, single.connections, single.reuse), (Some(100), 5, Reuse::NewFull));
        let request = &single.requests[0].request;
        assert_eq!((request.url.to_string(), request.method.as_str()), ("http://h:81/p".into(), "GET"));
        assert_eq!(request.headers, [("Cookie".into(), "a=1; b=2".into())]);
        let known = setup("-A a:b -P c:d -g g.tsv -e e.csv http://h/").unwrap();
        let expected = [("Authorization", "Basic YTpi"), ("Proxy-Authorization", "Basic Yzpk")];
        assert_eq!(
            known.requests[0].request.headers,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
        let timed = setup("-k -t 3 -i https://h/").unwrap();
        assert_eq!((timed.duration, timed.count), (Some(Duration::from_secs(3)), Some(TIMED_REQUESTS)));
        assert_eq!((timed.reuse, timed.requests[0].request.method.as_str()), (Reuse::KeepAlive, "HEAD"));
    }

    #[test]
    fn refused() {
        let check = |line, why: &str| {
            let error = setup(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        };
        check("-n 0 http://h/", "no number of things");
        check("-p a -u b http://h/", "Cannot mix");
        check("-w http://h/", "unexpected argument");
        check("-n 5 -c 6 http://h/", "concurrency level");
        check("-n 30M http://h/", "one by one");
        check("-V", "version");
        check("-n 1", "URL is missing");
    }
}
