//! The command line of h2load.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use weir_load::Setup;
use weir_load::goal::duration;
use weir_load::request::{self, MAX_BODY_BYTES, RequestText};
use weir_load::result::{Load, Personality};
use weir_load::sample::MAX_SAMPLES;
use weir_load::setup::{Discipline, Http, Opening, Order, Weighted};
use weir_load::url::{ConnectTo, Url};

use super::arguments::{count, listed, read_bytes, read_text};
use super::{Lists, Outputs, Refused, Task};

/// Where h2load does not limit an answer's time, a day does.
const PATIENT: Duration = Duration::from_secs(86_400);

#[derive(Debug, Parser)]
#[command(name = "h2load", disable_version_flag = true)]
struct Options {
    /// Number of requests across all clients.
    #[arg(short = 'n', long, default_value = "1", value_parser = count)]
    requests: u64,
    /// Number of concurrent clients.
    #[arg(short, long, default_value = "1", value_parser = count)]
    clients: u64,
    /// Number of native threads.
    #[arg(short, long, default_value = "1", value_parser = count)]
    threads: u64,
    /// Max concurrent streams to issue per session.
    #[arg(short = 'm', long, default_value = "1", value_parser = count)]
    max_concurrent_streams: u64,
    /// The main duration for the measurements in case of timing-based benchmarking.
    #[arg(short = 'D', long, value_parser = duration)]
    duration: Option<Duration>,
    /// The time before the measuring begins.
    #[arg(long, default_value = "0", value_parser = duration)]
    warm_up_time: Duration,
    /// Requests a second of each client.
    #[arg(long)]
    rps: Option<f64>,
    /// Add or override a header to the requests; also :method, :authority and :path.
    #[arg(short = 'H', long = "header", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Post FILE to server.
    #[arg(short = 'd', long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// A file with a URI on each line.
    #[arg(short = 'i', long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// Force HTTP/1.1.
    #[arg(long)]
    h1: bool,
    /// ALPN protocols: of h2 and http/1.1 the first one.
    #[arg(long = "alpn-list", alias = "npn-list", value_name = "LIST")]
    alpn_list: Option<String>,
    /// The protocol of clear connections: h2c or http/1.1.
    #[arg(short = 'p', long, value_name = "PROTOCOL")]
    no_tls_proto: Option<String>,
    /// How long a connection may wait for an answer.
    #[arg(short = 'N', long, value_parser = duration)]
    connection_inactivity_timeout: Option<Duration>,
    /// Host and port to connect to instead.
    #[arg(long, value_name = "HOST[:PORT]")]
    connect_to: Option<String>,
    /// Window sizes, which are large anyway.
    #[arg(short, long, value_name = "N", hide = true)]
    window_bits: Option<u32>,
    #[arg(short = 'W', long, value_name = "N", hide = true)]
    connection_window_bits: Option<u32>,
    /// The largest frame and the tables of header fields, which are of the usual size.
    #[arg(short = 'f', long, value_name = "N", hide = true)]
    max_frame_size: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    header_table_size: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    encoder_header_table_size: Option<String>,
    /// How long a connection may be open.
    #[arg(short = 'T', long, value_parser = duration)]
    connection_active_timeout: Option<Duration>,
    /// How many connections are opened in each period.
    #[arg(short = 'r', long, value_name = "N", value_parser = count)]
    rate: Option<u64>,
    /// How long such a period is.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    rate_period: Duration,
    /// Where URIs of the file without a scheme and a host go.
    #[arg(short = 'B', long, value_name = "URI")]
    base_uri: Option<String>,
    /// Write a line for each request: when, status, microseconds.
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    #[arg(short, long)]
    verbose: bool,
    /// Print the version.
    #[arg(long)]
    version: bool,
    urls: Vec<String>,
}

/// The task that a command line of h2load describes.
pub(super) fn task(words: impl Iterator<Item = OsString>) -> Result<Task, Refused> {
    let words = std::iter::once(OsString::from("h2load")).chain(words);
    let options = Options::try_parse_from(words)?;
    if options.version {
        return Err(Refused::Version("h2load"));
    }
    check(&options)?;
    let requests = requests(&options)?;
    let origin = &requests.first().ok_or_else(|| "a URI is missing".to_owned())?.request.url.origin;
    let load = match options.rps {
        Some(rps) => Load::Rate { per_second: rps * options.clients as f64 },
        None => Load::Closed,
    };
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let setup = Setup {
        label: origin.to_string(),
        http: http(&options, origin.https)?,
        connect_to: options.connect_to.as_deref().map(connect_to).transpose()?.into_iter().collect(),
        requests,
        order: Order::Turn,
        threads: narrow(options.threads),
        connections: narrow(options.clients),
        streams: narrow(options.max_concurrent_streams),
        load,
        duration: options.duration,
        count: options.duration.is_none().then_some(options.requests),
        // Each of its clients has its part of the requests from the beginning.
        discipline: if options.duration.is_none() { Discipline::Divided } else { Discipline::Shared },
        opening: options.rate.map(|rate| Opening { connections: narrow(rate), period: options.rate_period }),
        connection_life: options.connection_active_timeout,
        // The figures of each client are taken from them.
        keep_samples: options.log_file.is_some()
            || (options.duration.is_none() && options.requests <= MAX_SAMPLES),
        warm_up: options.warm_up_time,
        timeout: options.connection_inactivity_timeout.unwrap_or(PATIENT),
        insecure: true,
        ..Setup::default()
    };
    let lists = Lists { request_log: options.log_file, ..Lists::default() };
    let outputs = Outputs { personality: Personality::H2load, lists, quiet: true, ..Outputs::default() };
    Ok(Task::Run { setup: Box::new(setup), outputs })
}

/// What does not fit together, in h2load's words.
fn check(options: &Options) -> Result<(), String> {
    let wrong = [
        (
            options.duration.is_none() && options.requests < options.clients,
            "-n, -c: the number of requests must be greater than or equal to the clients.",
        ),
        (
            options.clients < options.threads,
            "-c, -t: the number of clients must be greater than or equal to the number of threads.",
        ),
        (options.rate.is_some() && options.duration.is_some(), "-r, -D: they are mutually exclusive."),
        (
            options.rate.is_some_and(|rate| rate > options.clients),
            "-r, -c: the connection rate must be smaller than or equal to the number of clients.",
        ),
        (options.rate_period.is_zero(), "--rate-period: the period must be positive."),
    ];
    wrong.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
}

fn http(options: &Options, https: bool) -> Result<Http, String> {
    let named = |name: &str| match name {
        "h2" | "h2c" => Ok(Http::Two),
        "http/1.1" => Ok(Http::One),
        _ => Err(format!("'{name}': expected h2, h2c or http/1.1")),
    };
    if options.h1 {
        return Ok(Http::One);
    }
    if !https {
        return options.no_tls_proto.as_deref().map_or(Ok(Http::Two), named);
    }
    match options.alpn_list.as_deref() {
        None | Some("h2,http/1.1") => Ok(Http::Negotiated),
        Some(list) => named(list.split(',').next().unwrap_or_default()),
    }
}

/// All URIs go to the server of the first one.
fn requests(options: &Options) -> Result<Vec<Weighted>, String> {
    let body = match &options.data {
        Some(file) => read_bytes(file, MAX_BODY_BYTES as u64)?,
        None => Vec::new(),
    };
    let method = if options.data.is_some() { "POST" } else { "GET" };
    let text = match &options.input_file {
        Some(file) => read_text(file)?,
        None => options.urls.join("\n"),
    };
    let first = options.base_uri.as_deref().or_else(|| options.urls.first().map(String::as_str));
    let first = first.or_else(|| text.lines().next());
    let url = Url::parse(first.ok_or("a URI is missing")?)?;
    let (pseudo, headers) = options.headers.iter().cloned().partition(|(name, _)| name.starts_with(':'));
    let base = RequestText { method: method.into(), url, headers, body };
    let mut requests = listed(&text, &base)?;
    for weighted in &mut requests {
        weighted.request.url.origin = base.url.origin.clone();
        overridden(&mut weighted.request, &pseudo)?;
    }
    Ok(requests)
}

/// Puts the values of pseudo-fields in their places.
fn overridden(request: &mut RequestText, pseudo: &[(String, String)]) -> Result<(), String> {
    for (name, value) in pseudo {
        match name.as_str() {
            ":method" => request.method = request::method(value)?,
            ":path" if value.starts_with('/') => request.url.path.clone_from(value),
            ":authority" => request.headers.push(("Host".into(), value.clone())),
            _ => return Err(format!("'{name}: {value}': expected :method, :authority or a :path from /")),
        }
    }
    Ok(())
}

/// Reads `Name: value`, where the name may begin with a colon.
fn header(text: &str) -> Result<(String, String), String> {
    match text.strip_prefix(':') {
        Some(rest) => request::header(rest).map(|(name, value)| (format!(":{name}"), value)),
        None => request::header(text),
    }
}

fn connect_to(text: &str) -> Result<ConnectTo, String> {
    let port = text.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    ConnectTo::parse(&if port { format!("::{text}") } else { format!("::{text}:") })
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
        let clear = setup("-n100 -c10 -m32 -t2 http://h:81/a http://other/b").unwrap();
        assert_eq!((clear.count, clear.connections, clear.streams, clear.threads), (Some(100), 10, 32, 2));
        assert_eq!(
            (clear.http, clear.requests[1].request.url.to_string()),
            (Http::Two, "http://h:81/b".into())
        );
        assert_eq!(setup("https://h/").unwrap().http, Http::Negotiated);
        assert_eq!(setup("--h1 https://h/").unwrap().http, Http::One);
        assert_eq!(setup("--alpn-list h2 https://h/").unwrap().http, Http::Two);
        assert!(
            clear.discipline == Discipline::Divided
                && clear.opening.is_none()
                && clear.connection_life.is_none()
        );
        let slow = setup("-n9 -c4 -r 2 --rate-period=300ms -T 5 -B http://b:82/ --log-file l /x").unwrap();
        assert_eq!(slow.opening, Some(Opening { connections: 2, period: Duration::from_millis(300) }));
        assert_eq!((slow.connection_life, slow.keep_samples), (Some(Duration::from_secs(5)), true));
        assert_eq!(slow.requests[0].request.url.to_string(), "http://b:82/x");
        let other = setup("-H :method:PUT -H :path:/q -H :authority:a -H b:c -f 16K http://h/").unwrap();
        let request = &other.requests[0].request;
        assert_eq!((request.method.as_str(), request.url.to_string()), ("PUT", "http://h/q".into()));
        assert_eq!(request.headers, [("b", "c"), ("Host", "a")].map(|(n, v)| (n.into(), v.into())));
        let timed = setup("-D 5 --warm-up-time=1s --rps 10 -c4 http://h/").unwrap();
        assert_eq!((timed.count, timed.duration), (None, Some(Duration::from_secs(5))));
        assert_eq!((timed.load, timed.warm_up), (Load::Rate { per_second: 40.0 }, Duration::from_secs(1)));
    }

    #[test]
    fn refused() {
        let check = |line, why: &str| {
            let error = setup(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        };
        check("-n 4 -c 5 http://h/", "-n, -c:");
        check("-n 4 -c 2 -t 3 http://h/", "-c, -t:");
        check("-D 1 -c 2 -r 1 http://h/", "-r, -D:");
        check("-n 4 -c 2 -r 3 http://h/", "-r, -c:");
        check("-n 4 -c 2 -r 0 http://h/", "no number of things");
        check("-n 4 -c 2 -r 1 --rate-period 0 http://h/", "--rate-period:");
        check("-D 1 --log-file l http://h/", "one by one");
        check("-n 5", "missing");
        check("-H :scheme:ftp http://h/", "expected :method");
        check("-H :path:x http://h/", "expected :method");
        check("-p spdy http://h/", "expected h2");
        check("-i /does/not/exist", "No such file");
    }
}
