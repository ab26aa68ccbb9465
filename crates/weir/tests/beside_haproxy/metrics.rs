//! What Prometheus gets: the same names, types and labels as from HAProxy, and what `promtool` accepts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::programs::{Answer, Client, Program, free_ports, ours, real};

const CONFIG: &str = "global\n maxconn 500\n\
    defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n\
    frontend f\n bind 127.0.0.1:PORT\n option socket-stats\n \
    http-request use-service prometheus-exporter if { path /metrics }\n \
    stick-table type ip size 100 store gpc0,http_req_rate(10s)\n compression algo gzip\n \
    compression type text/plain text/html\n default_backend b\n\
    backend b\n option httpchk\n server s1 127.0.0.1:PORT1 check inter 100ms\n \
    server s2 127.0.0.1:PORT1 disabled\n server s3 127.0.0.1:PORT1 maxconn 10 backup weight 20\n\
    listen l\n bind 127.0.0.1:PORT2\n stats enable\n stats uri /\n\
    frontend o\n bind 127.0.0.1:PORT1\n http-request return status 200\n";

fn metrics(program: &Path, fields: &str) -> Answer {
    let running = Program::start(program, "metrics", &free_ports(3), CONFIG);
    let mut client = Client::connect(running.address());
    // Until the first check has told something.
    let start = std::time::Instant::now();
    loop {
        client.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
        let answer = client.answer().unwrap();
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if text.contains("state=\"L7OK\"} 1\n") {
            break;
        }
        assert!(start.elapsed() < crate::programs::LIMIT, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    client.send(&format!("GET /metrics HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    client.answer().unwrap()
}

fn text(program: &Path) -> String {
    String::from_utf8(metrics(program, "").body).unwrap()
}

/// For each metric its type, and the labels of its samples.
fn shapes(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut shapes: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with("# HELP")) {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            shapes.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if let Some((sample, _)) = line.rsplit_once(' ') {
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            // The version is each program's own.
            let labels = if name.ends_with("build_info") { "" } else { labels };
            shapes.entry(name.to_owned()).or_default().1.insert(labels.to_owned());
        }
    }
    shapes
}

#[test]
fn metrics_have_haproxys_names_types_and_labels() {
    let Some(real) = real() else { return };
    let (expected, found) = (shapes(&text(&real)), shapes(&text(&ours())));
    let mut differ = Vec::new();
    for (name, (kind, labels)) in &expected {
        match found.get(name) {
            None => differ.push(format!("{name} is missing")),
            Some((found, _)) if found != kind && name != "haproxy_process_failed_resolutions" => {
                differ.push(format!("{name} is {found}, not {kind}"));
            }
            Some((_, found)) if found != labels => {
                let differences: Vec<_> = found.symmetric_difference(labels).collect();
                differ.push(format!("{name}: {differences:?}"));
            }
            Some(_) => {}
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn promtool_accepts_the_metrics() {
    let promtool = std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let command = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut command) = command else {
        return eprintln!("skipped: no promtool (Debian's package prometheus); PROMTOOL=<path> names one");
    };
    command.stdin.take().unwrap().write_all(text(&ours()).as_bytes()).unwrap();
    let output = command.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[test]
fn metrics_are_compressed_for_those_who_ask() {
    let plain = metrics(&ours(), "").body.len();
    let answer = metrics(&ours(), "accept-encoding: gzip\r\n");
    assert_eq!(answer.field("content-encoding"), "gzip");
    let mut inflated = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&answer.body[..]), &mut inflated).unwrap();
    assert!(inflated.starts_with(b"# HELP ") && answer.body.len() < plain / 3, "{}", answer.body.len());
}
