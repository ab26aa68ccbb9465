//! Whole runs with scripts against a server in this process: what is sent, what scripts see, what stops a run.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use weir_load::request::RequestText;
use weir_load::result::RunResult;
use weir_load::script::Script;
use weir_load::setup::{Http, Setup, Weighted};
use weir_load::url::Url;

/// Requests as they came: the request line, the field X, the body.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that answers everything with 201, a field and a body.
fn serve() -> (u16, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let all = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let all = Arc::clone(&all);
            thread::spawn(move || answer(stream, &all));
        }
    });
    (port, seen)
}

fn answer(stream: TcpStream, seen: &Seen) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut text, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end().split_once(": ") {
                None if line == "\r\n" => break,
                None => text.push_str(line.trim_end().trim_end_matches(" HTTP/1.1")),
                Some(("Content-Length", value)) => length = value.parse().unwrap_or(0),
                Some(("X", value)) => text.push_str(&format!(" X={value}")),
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        text.push_str(&format!(" {}", String::from_utf8_lossy(&body)));
        seen.lock().unwrap().push(text.trim_end().to_owned());
        writer.write_all(b"HTTP/1.1 201 Made\r\nX-Token: abc\r\nContent-Length: 5\r\n\r\nhello")?;
    }
}

fn run(source: &str, port: u16, threads: u32) -> Result<(RunResult, Arc<Script>), String> {
    let url = Url::parse(&format!("http://127.0.0.1:{port}/p?q")).unwrap();
    let request = RequestText { method: "GET".into(), url, headers: Vec::new(), body: Vec::new() };
    let arguments = vec!["one".to_owned()];
    let script = Arc::new(Script::load("s.lua", source.into(), request.clone(), arguments)?);
    script.start(threads, &[])?;
    let setup = Setup {
        requests: vec![Weighted { request, weight: 1 }],
        threads,
        connections: threads,
        duration: Some(Duration::from_secs(60)),
        script: Some(Arc::clone(&script)),
        ..Setup::default()
    };
    let result = weir_load::run(setup, &mut |_| {}, &AtomicBool::new(false))?;
    script.done(&result)?;
    Ok((result, script))
}

/// Ends a run after so many answers.
const STOP_AFTER: &str = "local left = 3
    function response() left = left - 1; if left == 0 then wrk.thread:stop() end end\n";

#[test]
fn what_is_sent() {
    let check = |source: &str, expected: &[&str]| {
        let (port, seen) = serve();
        let (result, _) = run(&format!("{STOP_AFTER}{source}"), port, 1).unwrap();
        assert_eq!(*seen.lock().unwrap(), expected, "{source}");
        assert_eq!((result.totals.answers, result.totals.statuses[1]), (3, 3), "{source}");
    };
    check("", &["GET /p?q"; 3]);
    check("wrk.method, wrk.body, wrk.headers.X = 'POST', 'ab', 5", &["POST /p?q X=5 ab"; 3]);
    check("function init(args) wrk.path = '/' .. args[1] end", &["GET /one"; 3]);
    let counter = "local n = 0
        function request() n = n + 1; return wrk.format(nil, '/' .. n, { X = n }) end";
    // The first one was looked at before the run.
    check(counter, &["GET /2 X=2", "GET /3 X=3", "GET /4 X=4"]);
    let pipeline = "function request()
            return wrk.format(nil, '/a') .. wrk.format('PUT', '/b', nil, 'x') .. wrk.format('HEAD', '/c', { X = 1 })
        end function response(status) wrk.thread:stop() end";
    let (port, seen) = serve();
    // The answer to HEAD has a body that it may not have: it ends the connection as what it is.
    run(pipeline, port, 1).unwrap();
    assert_eq!(seen.lock().unwrap()[..3], ["GET /a", "PUT /b x", "HEAD /c X=1"]);
    check("function delay() return 1 end", &["GET /p?q"; 3]);
}

#[test]
fn what_a_script_sees() {
    let source = "local threads = {}
        function setup(thread)
            thread:set('id', #threads + 1)
            thread:set('given', { 'a', { b = true } })
            threads[#threads + 1] = thread
            assert(tostring(thread.addr):find('^127.0.0.1:%d+$'))
        end
        function init(args) assert(args[0]:find('^http://') and args[1] == 'one' and given[2].b) end
        function response(status, headers, body)
            seen = { status, headers['X-Token'], body }
            assert(wrk.thread:get('id') == id)
            wrk.thread:stop()
        end
        function done(summary, latency, requests)
            for number, thread in ipairs(threads) do
                local seen = thread:get('seen')
                assert(thread:get('id') == number and thread:get('nothing') == nil)
                assert(seen[1] == 201 and seen[2] == 'abc' and seen[3] == 'hello')
            end
            assert(#threads == 2 and summary.requests == 2 and summary.duration > 0 and summary.bytes > 0)
            for _, name in ipairs { 'connect', 'read', 'write', 'status', 'timeout' } do
                assert(summary.errors[name] == 0)
            end
            assert(latency.min > 0 and latency.max >= latency.mean and latency.stdev >= 0)
            assert(latency:percentile(100) == latency.max and latency:percentile(0) == latency.min)
            local value, count = latency(1)
            assert(value == latency.min and count >= 1 and latency(#latency + 1) == nil)
            assert(requests.max >= requests.min)
        end";
    let (port, _) = serve();
    let (result, _) = run(source, port, 2).unwrap();
    assert_eq!(result.totals.answers, 2);
}

#[test]
fn what_stops_a_run() {
    let (port, _) = serve();
    let check = |source: &str, why: &str| {
        let error = run(source, port, 1).map(|(result, _)| result).unwrap_err();
        assert!(error.contains(why), "{source}: {error}");
    };
    check("x =", "s.lua:1: unexpected symbol");
    check("nosuch.x = 1", "s.lua:1: attempt to index global 'nosuch'");
    check("function setup() error('in setup') end", "s.lua:1: in setup");
    check("function init() error('in init') end", "s.lua:1: in init");
    check("function request() return nosuch.x end", "request: s.lua:1: attempt to index");
    check("function request() return {} end", "request: ");
    check("function request() return 'hello' end", "no request");
    check(
        "n = 0 function request() n = n + 1 if n > 1 then error('later') end return wrk.format() end",
        "s.lua:1: later",
    );
    check("function delay() error('in delay') end", "delay: s.lua:1: in delay");
    check("function response() error('in response') end", "response: s.lua:1: in response");
    check("function response() wrk.thread:stop() end function done() error('in done') end", "in done");
    check("function setup(thread) thread:set('x', print) end", "cannot transfer 'function'");
    check("function setup(thread) local t = {} t.t = t thread:set('t', t) end", "too many tables");
    check("function setup(thread) thread.addr = 'here' end", "addr");
}

#[test]
fn only_http1() {
    let url = Url::parse("http://127.0.0.1:1/").unwrap();
    let request = RequestText { method: "GET".into(), url, headers: Vec::new(), body: Vec::new() };
    let script = Script::load("s.lua", Vec::new(), request.clone(), Vec::new()).unwrap();
    let requests = vec![Weighted { request, weight: 1 }];
    let setup = Setup { requests, http: Http::Two, script: Some(Arc::new(script)), ..Setup::default() };
    assert!(setup.check().unwrap_err().contains("HTTP/1.1"));
}
