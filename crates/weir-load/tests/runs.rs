//! Whole runs against servers in this process: what is counted, and what a stall does to latency.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weir_http::Response;
use weir_http::h2::{Connection, Event, Settings};
use weir_load::request::RequestText;
use weir_load::result::{Load, Protocol, Reuse, RunResult};
use weir_load::setup::{Discipline, Http, Opening, Order, Setup, Weighted};
use weir_load::url::Url;

/// What the server does with a request, by its number and path.
type Answer = dyn Fn(&Server, u64, &str) -> Option<Vec<u8>> + Send + Sync;

/// A server with a thread for each connection, whose answers a test chooses.
struct Server {
    port: u16,
    requests: AtomicU64,
    frozen_at: Mutex<Option<Instant>>,
    frozen: Mutex<bool>,
    thawed: Condvar,
    answer: Box<Answer>,
}

impl Server {
    fn start(answer: impl Fn(&Self, u64, &str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Arc<Self> {
        Self::start_with(answer, serve_h1)
    }

    fn start_with(
        answer: impl Fn(&Self, u64, &str) -> Option<Vec<u8>> + Send + Sync + 'static,
        serve: fn(&Self, TcpStream) -> std::io::Result<()>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            requests: AtomicU64::new(0),
            frozen_at: Mutex::new(None),
            frozen: Mutex::new(false),
            thawed: Condvar::new(),
            answer: Box::new(answer),
        });
        let own = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                thread::spawn(move || serve(&own, stream));
            }
        });
        server
    }

    /// Nothing is answered any more, by any connection.
    fn freeze(&self) {
        self.frozen_at.lock().unwrap().get_or_insert_with(Instant::now);
        *self.frozen.lock().unwrap() = true;
    }

    fn thaw(&self) {
        *self.frozen.lock().unwrap() = false;
        self.thawed.notify_all();
    }

    fn answer(&self, path: &str) -> Option<Vec<u8>> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = (self.answer)(self, number, path);
        let frozen = self.frozen.lock().unwrap();
        drop(self.thawed.wait_while(frozen, |frozen| *frozen).unwrap());
        answer
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }
}

/// Answers requests without bodies.
fn serve_h1(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            received.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default();
            match server.answer(path) {
                Some(answer) => stream.write_all(&answer)?,
                None => return Ok(()),
            }
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => received.extend_from_slice(&piece[..count]),
        }
    }
}

fn serve_h2(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let mut connection = Connection::server(Settings::default());
    let (mut received, mut piece) = (Vec::new(), [0; 65_536]);
    loop {
        let taken = connection.receive(&received).unwrap();
        received.drain(..taken);
        while let Some(event) = connection.poll_event() {
            if let Event::Request { stream, request, .. } = event {
                let path = String::from_utf8_lossy(request.path()).into_owned();
                match server.answer(&path) {
                    Some(body) => {
                        connection.send_response(stream, &Response::new(200, ""), false).unwrap();
                        connection.send_data(stream, &body, true).unwrap();
                    }
                    None => connection.release(stream),
                }
            }
        }
        stream.write_all(connection.output())?;
        connection.advance_output(connection.output().len());
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => received.extend_from_slice(&piece[..count]),
        }
    }
}

fn ok() -> Option<Vec<u8>> {
    Some(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
}

fn get(url: Url, weight: u32) -> Weighted {
    let request = RequestText { method: "GET".into(), url, headers: Vec::new(), body: Vec::new() };
    Weighted { request, weight }
}

fn counted(server: &Server, count: u64) -> Setup {
    Setup {
        requests: vec![get(server.url("/"), 1)],
        connections: 4,
        threads: 2,
        count: Some(count),
        duration: None,
        ..Setup::default()
    }
}

fn run(setup: Setup) -> RunResult {
    weir_load::run(setup, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

/// Every request that was begun has one end, and every end is in the series too.
fn check_sums(result: &RunResult) {
    let totals = &result.totals;
    let request_errors = totals.errors.timeout + totals.errors.reset + totals.errors.protocol;
    assert_eq!(totals.requests, totals.answers + request_errors + totals.waiting, "{totals:?}");
    assert_eq!(result.intervals.iter().map(|interval| interval.answers).sum::<u64>(), totals.answers);
    assert_eq!(totals.statuses.iter().sum::<u64>(), totals.answers);
    let counted = totals.answers + totals.errors.timeout + totals.waiting;
    assert_eq!(result.times.uncorrected.count(), counted);
}

#[test]
fn requests_are_counted() {
    let server = Server::start(|_, _, _| ok());
    let result = run(counted(&server, 500));
    check_sums(&result);
    let totals = &result.totals;
    assert_eq!((totals.requests, totals.answers, totals.statuses), (500, 500, [0, 500, 0, 0, 0]));
    assert_eq!((totals.body_bytes, totals.connections, totals.waiting), (1000, 4, 0));
    assert_eq!(server.requests.load(Ordering::Relaxed), 500);
    assert!(result.times.corrected.is_empty());
    assert_eq!(result.server.unwrap().status, 200);
}

#[test]
fn requests_are_counted_over_http2() {
    let server = Server::start_with(|_, number, _| (number % 10 != 3).then(|| b"hello".to_vec()), serve_h2);
    let result = run(Setup { http: Http::Two, streams: 8, ..counted(&server, 500) });
    check_sums(&result);
    let totals = &result.totals;
    assert_eq!((totals.requests, totals.answers, totals.errors.reset), (500, 450, 50));
    assert_eq!((totals.body_bytes, result.plan.protocol), (450 * 5, Protocol::Http2));
}

#[test]
fn errors_are_told_apart() {
    let server = Server::start(|_, _, path| match path {
        "/ok" => ok(),
        "/503" => Some(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        "/close" => None,
        "/never" => Some(Vec::new()),
        _ => Some(b"what is this\r\n\r\n".to_vec()),
    });
    let paths = ["/ok", "/503", "/close", "/never", "/nonsense"];
    let requests = paths.iter().map(|path| get(server.url(path), 1)).collect();
    let timeout = Duration::from_millis(300);
    let setup = Setup { requests, order: Order::Turn, threads: 1, timeout, ..counted(&server, 50) };
    let result = run(setup);
    check_sums(&result);
    let errors = &result.totals.errors;
    assert_eq!(
        (errors.bad_status, errors.timeout, errors.protocol, errors.connect),
        (10, 10, 10, 0),
        "{errors:?}"
    );
    assert_eq!((errors.reset, result.totals.answers), (10, 20));
    assert!(result.times.uncorrected.max() >= timeout);
}

#[test]
fn each_request_on_its_own_connection() {
    let server = Server::start(|_, _, _| ok());
    let result = run(Setup { reuse: Reuse::NewFull, ..counted(&server, 100) });
    check_sums(&result);
    assert_eq!((result.totals.answers, result.totals.connections), (100, 100));
}

#[test]
fn requests_are_divided_among_connections() {
    let server = Server::start(|_, _, _| ok());
    let opening = Some(Opening { connections: 2, period: Duration::from_millis(5) });
    let setup =
        Setup { discipline: Discipline::Divided, opening, keep_samples: true, ..counted(&server, 11) };
    let result = run(setup);
    check_sums(&result);
    assert_eq!((result.totals.answers, result.totals.connections, result.samples.len()), (11, 4, 11));
    for sample in &result.samples {
        assert_eq!((sample.status, sample.body_bytes), (Some(200), 2));
        assert!(sample.first_byte_ns <= sample.answer_ns && sample.answer_ns <= sample.total_ns());
    }
    let fewer = run(Setup { discipline: Discipline::Divided, ..counted(&server, 3) });
    assert_eq!((fewer.totals.answers, fewer.totals.connections), (3, 3));
    // The first request of each connection has the time of opening it.
    assert_eq!(result.samples.iter().filter(|sample| sample.connect_ns > 0).count(), 4);
}

#[test]
fn the_part_of_a_connection_that_fails_is_counted() {
    let timeout = Duration::from_millis(100);
    let never = |http| {
        let server = Server::start_with(
            |_, _, _| Some(Vec::new()),
            |_, mut stream| stream.read_to_end(&mut Vec::new()).map(drop),
        );
        run(Setup { http, discipline: Discipline::Divided, timeout, ..counted(&server, 20) }).totals
    };
    for http in [Http::One, Http::Two] {
        let totals = never(http);
        assert_eq!((totals.requests, totals.errors.timeout, totals.errors.reset), (4, 4, 16), "{http:?}");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let setup = Setup {
        requests: vec![get(url, 1)],
        connections: 3,
        count: Some(20),
        duration: None,
        discipline: Discipline::Divided,
        ..Setup::default()
    };
    let totals = run(setup).totals;
    assert_eq!((totals.requests, totals.errors.connect), (0, 20));
}

#[test]
fn a_connection_that_was_open_too_long() {
    let server = Server::start(|_, number, _| if number < 1 { ok() } else { Some(Vec::new()) });
    let connection_life = Some(Duration::from_millis(100));
    let totals =
        run(Setup { discipline: Discipline::Divided, connection_life, ..counted(&server, 12) }).totals;
    assert_eq!(totals.answers + totals.errors.failed(), 12, "{totals:?}");
    assert_eq!((totals.errors.timeout, totals.errors.reset), (4, 7));
}

#[test]
fn a_stream_that_is_reset_on_a_connection_of_its_own() {
    let server = Server::start_with(|_, number, _| (number % 2 == 0).then(|| b"hello".to_vec()), serve_h2);
    let setup =
        Setup { http: Http::Two, reuse: Reuse::NewFull, connections: 1, threads: 1, ..counted(&server, 8) };
    let result = run(setup);
    check_sums(&result);
    assert_eq!((result.totals.answers, result.totals.errors.reset, result.totals.connections), (4, 4, 8));
}

#[test]
fn a_late_answer_on_a_connection_of_its_own() {
    let server = Server::start_with(
        |_, _, _| Some(Vec::new()),
        |_, mut stream| stream.read_to_end(&mut Vec::new()).map(drop),
    );
    let timeout = Duration::from_millis(50);
    for http in [Http::One, Http::Two] {
        let setup = Setup { http, reuse: Reuse::NewFull, timeout, ..counted(&server, 8) };
        let result = run(setup);
        check_sums(&result);
        assert_eq!(result.totals.errors.timeout, 8, "{http:?}");
    }
}

#[test]
fn a_server_that_is_not_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let setup =
        || Setup { requests: vec![get(url.clone(), 1)], count: Some(3), duration: None, ..Setup::default() };
    let error = weir_load::run(setup(), &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(error.contains("no connection to http://127.0.0.1") && error.contains("refused"), "{error}");
    let result = run(Setup { reuse: Reuse::NewResumed, ..setup() });
    assert_eq!((result.totals.errors.connect, result.totals.answers), (3, 0));
}

#[test]
fn weights_are_kept() {
    let heavy = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&heavy);
    let server = Server::start(move |_, _, path| {
        seen.fetch_add(u64::from(path == "/heavy"), Ordering::Relaxed);
        ok()
    });
    let requests = vec![get(server.url("/heavy"), 3), get(server.url("/light"), 1)];
    run(Setup { requests, ..counted(&server, 1000) });
    let heavy = heavy.load(Ordering::Relaxed);
    assert!((680..820).contains(&heavy), "{heavy} of 1000");
}

#[test]
fn a_log_is_replayed() {
    let server = Server::start(|_, _, _| ok());
    let requests = vec![get(server.url("/a"), 1), get(server.url("/b"), 1)];
    let list: Vec<(u32, u64)> = (0..100).map(|n| (n % 2, u64::from(n) * 100_000_000)).collect();
    let load = Load::Replay { speed: 100.0 };
    let setup = Setup { requests, order: Order::Replay(list), load, count: None, ..counted(&server, 1) };
    let result = run(setup);
    check_sums(&result);
    assert_eq!((result.totals.answers, result.times.corrected.count()), (100, 100));
    assert!(result.elapsed_seconds >= 0.099, "{}", result.elapsed_seconds);
}

#[test]
fn a_warm_up_is_not_measured_but_its_connections_are() {
    let server = Server::start(|_, _, _| ok());
    let setup = paced(&server, 500.0, Duration::from_millis(400));
    let result = run(Setup { warm_up: Duration::from_millis(300), ..setup });
    check_sums(&result);
    let totals = &result.totals;
    assert_eq!(totals.connections, 4);
    assert!(totals.answers + totals.waiting <= 200 + 4, "{totals:?}");
    assert!(server.requests.load(Ordering::Relaxed) > 300);
}

fn paced(server: &Server, per_second: f64, duration: Duration) -> Setup {
    Setup { load: Load::Rate { per_second }, duration: Some(duration), count: None, ..counted(server, 1) }
}

/// The users of a server that stands still for 300 ms of 1.5 s wait, also those whose requests a generator that
/// waits for answers would not have sent.
#[test]
fn a_stall_is_seen_by_all_who_came_meanwhile() {
    let server = Server::start(|server, number, _| {
        if number == 500 {
            server.freeze();
        }
        ok()
    });
    let own = Arc::clone(&server);
    let thawing = thread::spawn(move || {
        while own.frozen_at.lock().unwrap().is_none() {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(300));
        own.thaw();
    });
    let result = run(paced(&server, 1000.0, Duration::from_millis(1500)));
    thawing.join().unwrap();
    check_sums(&result);
    let percentile = |percent| result.times.corrected.percentile(percent);
    assert!(percentile(90.0) > Duration::from_millis(90), "{:?}", percentile(90.0));
    assert!(result.times.uncorrected.percentile(90.0) < Duration::from_millis(50));
    assert_eq!(result.totals.answers + result.totals.waiting + result.totals.unsent, 1500);
}

#[test]
fn a_freeze_to_the_end_is_seen_in_full() {
    let server = Server::start(|server, number, _| {
        if number == 200 {
            server.freeze();
        }
        ok()
    });
    let length = Duration::from_secs(1);
    let begun = Instant::now();
    let result = run(paced(&server, 1000.0, length));
    let frozen_at = server.frozen_at.lock().unwrap().expect("the 200th request came");
    server.thaw();
    check_sums(&result);
    let frozen = (begun + length).saturating_duration_since(frozen_at);
    for times in [&result.times.corrected, &result.times.uncorrected] {
        assert!(times.max() >= frozen, "{:?} of {frozen:?}", times.max());
    }
    let totals = &result.totals;
    assert!(totals.waiting > 0 && totals.unsent > 0, "{totals:?}");
    assert_eq!(totals.answers + totals.waiting + totals.unsent, 1000);
}

#[test]
fn a_ramp_finds_what_a_server_can_do() {
    let server = Server::start(|_, _, _| ok());
    let load = Load::Ramp { from: 100.0, to: 400.0, step_seconds: 0.3 };
    let goal = Some(weir_load::goal::Goal::parse("p50<10s").unwrap());
    let setup = Setup { load, rise: 1.0, goal, duration: None, count: None, ..counted(&server, 1) };
    let result = run(setup);
    let rates: Vec<f64> = result.steps.iter().map(|step| step.rate).collect();
    assert_eq!(rates.first(), Some(&100.0));
    assert!(result.steps.iter().all(|step| step.held == step.reason.is_none()));
    assert_eq!(result.totals.answers, result.steps.iter().map(|step| step.totals.answers).sum::<u64>());
}

#[test]
fn late_answers_may_be_waited_for() {
    let server = Server::start(|_, _, _| ok());
    let timeout = Duration::from_millis(1);
    let setup =
        Setup { discipline: Discipline::Patient, timeout, connections: 1, threads: 1, ..counted(&server, 3) };
    server.freeze();
    let thawing = Arc::clone(&server);
    let mut tell = |_: &_| thawing.thaw();
    let setup = Setup { interval: Duration::from_millis(20), ..setup };
    let result = weir_load::run(setup, &mut tell, &AtomicBool::new(false)).unwrap();
    check_sums(&result);
    assert_eq!((result.totals.answers, result.totals.errors.timeout), (3, 0));
    assert!(result.late() >= 1);
}

/// Bytes behind the end of a response, with it or a while later, are an error and not the next response.
#[test]
fn bytes_behind_the_end_of_a_response_are_a_protocol_error() {
    let excess = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more";
    let server = Server::start(move |_, _, _| Some(excess.as_bytes().to_vec()));
    let result = run(counted(&server, 12));
    check_sums(&result);
    assert_eq!((result.totals.answers, result.totals.errors.protocol), (0, 12), "{:?}", result.totals);
    // On connections that have no request there is none to fail with them.
    let server = Server::start_with(
        |_, _, _| ok(),
        |_, mut stream| {
            stream.write_all(b"HTTP/1.1 408 Too late\r\n\r\n")?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        },
    );
    let setup =
        Setup { interval: Duration::from_millis(50), ..paced(&server, 1.0, Duration::from_millis(200)) };
    let totals = run(setup).totals;
    assert!(totals.errors.protocol >= 1 && totals.answers == 0, "{totals:?}");
}

/// Seconds in which nothing is answered have no latency, instead of one of 0.
#[test]
fn an_interval_without_a_response_has_no_latency() {
    let server = Server::start(|server, number, _| {
        if number == 20 {
            server.freeze();
        }
        ok()
    });
    let interval = Duration::from_millis(100);
    let result = run(Setup { interval, ..paced(&server, 200.0, Duration::from_millis(700)) });
    server.thaw();
    let silent: Vec<_> = result.intervals.iter().filter(|interval| interval.answers == 0).collect();
    assert!(!silent.is_empty(), "{:?}", result.intervals);
    for interval in silent {
        assert_eq!((interval.p50_seconds, interval.p99_seconds, interval.max_seconds), (None, None, None));
    }
    assert!(result.intervals.iter().any(|interval| interval.p50_seconds.is_some()));
}

/// One handshake begins after the other, but none waits for the end of another.
#[test]
fn handshakes_do_not_wait_for_each_other() {
    let waiting = Arc::new((Mutex::new(0), Condvar::new()));
    let count = Arc::clone(&waiting);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                stream.read_exact(&mut [0; 5]).unwrap();
                let (hellos, changed) = &*count;
                *hellos.lock().unwrap() += 1;
                changed.notify_all();
                drop(changed.wait_while(hellos.lock().unwrap(), |hellos| *hellos < 8).unwrap());
            });
        }
    });
    let url = Url::parse(&format!("https://127.0.0.1:{port}/")).unwrap();
    let setup = Setup {
        requests: vec![get(url, 1)],
        connections: 8,
        count: Some(8),
        duration: None,
        timeout: Duration::from_secs(20),
        discipline: Discipline::Divided,
        ..Setup::default()
    };
    let totals = run(setup).totals;
    assert_eq!((totals.errors.tls, totals.connections), (8, 8), "{totals:?}");
    assert_eq!(*waiting.0.lock().unwrap(), 8);
}

/// Behaves by the path of a connection's first request, until the client has had enough.
fn serve_oddly(_: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = [0; 4096];
    let count = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(&head[..count]).into_owned();
    let ok = "HTTP/1.1 200 OK\r\n";
    match head.split(' ').nth(1).unwrap_or_default() {
        "/half" => stream.write_all(format!("{ok}Content-Length: 9\r\n\r\nhalf").as_bytes()),
        "/chunk" => stream.write_all(format!("{ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\n").as_bytes()),
        "/garbage" => stream.write_all(&[0x16, 0xff, 0, 7, b'\r', b'\n', b'\r', b'\n']),
        "/interim" => loop {
            stream.write_all(b"HTTP/1.1 103 Wait\r\nLink: </a>\r\n\r\n")?;
        },
        "/endless" => {
            stream.write_all(ok.as_bytes())?;
            loop {
                stream.write_all(b"X-Name: value of a field\r\n")?;
            }
        }
        "/slow" => {
            stream.write_all(b"HTTP/1.1 2")?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
        _ => Ok(()),
    }
}

/// Whatever a server does, each request ends, with an error that says what was wrong.
#[test]
fn odd_servers_end_a_run_with_errors() {
    let server = Server::start_with(|_, _, _| None, serve_oddly);
    let check = |path: &str, kind: &str| {
        let requests = vec![get(server.url(path), 1)];
        let timeout = Duration::from_millis(300);
        let result = run(Setup { requests, timeout, connections: 2, ..counted(&server, 6) });
        check_sums(&result);
        let errors = &result.totals.errors;
        let found = errors.kinds().into_iter().find(|(_, count)| *count > 0);
        assert_eq!((result.totals.answers, found), (0, Some((kind, 6))), "{path}: {errors:?}");
        assert!(errors.examples.iter().all(|example| example.starts_with(kind)), "{path}: {errors:?}");
    };
    check("/close", "reset");
    check("/half", "reset");
    check("/chunk", "protocol");
    check("/garbage", "protocol");
    check("/interim", "timeout");
    check("/endless", "protocol");
    check("/slow", "timeout");
}
