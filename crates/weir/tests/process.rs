//! The program as a process: exit codes, signals, reloads, and what a client sees meanwhile.
//!
//! Every wait has a limit, and every process that a test starts ends with it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

mod place;

use std::fs;
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use place::{Daemon, LIMIT, Place, Running, ask, eventually, origin};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn checking_has_exit_codes() {
    let place = Place::new("check");
    let check = |config: &str, options: &[&str], code: i32, said: &str| {
        place.write(config);
        let output = place.output(options);
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{options:?} {config:?}: {text}");
        assert!(text.contains(said), "{options:?} {config:?}: {text}");
    };
    let good = "frontend f\n mode http\n bind 127.0.0.1:0\n timeout client 5s\n";
    check(good, &["-c"], 0, "");
    check(good, &["-c", "-V"], 0, "Configuration file is valid");
    check("frontend f\n bnid :80\n", &["-c"], 1, "bnid");
    check("frontend f\n bnid :80\n", &["-d"], 1, "bnid");
    check("frontend f\n bnid :80\n", &["-D"], 1, "bnid");
    check("frontend f\n bnid :80\n", &["-W"], 1, "bnid");
    check("frontend f\n mode http\n bind 127.0.0.1:0 ssl crt /nowhere.pem\n", &["-c"], 1, "/nowhere.pem");
    fs::remove_file(place.path("cfg")).unwrap();
    assert_eq!(place.output(&["-c"]).status.code(), Some(1));
}

#[test]
fn conditions_have_exit_codes() {
    let place = Place::new("condition");
    let check = |condition: &str, code: i32| {
        let output = Command::new(place.path("haproxy")).args(["-cc", condition]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{condition}");
    };
    check("defined(PATH)", 0);
    check("defined(NO_SUCH_VARIABLE)", 1);
    check("feature(THREAD)", 0);
    check("feature(LUA)", 1);
    check("version_atleast(2.5-dev0)", 0);
    check("!streq(\"$PATH\",a) && 1", 0);
    check("frobnicate(", 2);
}

#[test]
fn a_process_in_the_foreground_ends_with_zero() {
    let place = Place::new("foreground");
    place.answers("one");
    for signal in [Signal::INT, Signal::TERM, Signal::USR1] {
        let mut running = place.start(&["-d"]);
        place.wait_for("one");
        // Signals that mean something to a master only.
        running.signal(Signal::USR2);
        running.signal(Signal::HUP);
        assert!(ask(place.address()).is_some());
        running.signal(signal);
        assert_eq!(running.code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_soft_stop_waits_for_the_request_it_serves() {
    let place = Place::new("soft-stop");
    place.answers("one");
    let mut running = place.start(&["-d"]);
    place.wait_for("one");
    let mut client = TcpStream::connect(place.address()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").unwrap();
    // A complete exchange on another connection shows that this one was accepted before the signal.
    assert!(ask(place.address()).is_some());
    running.signal(Signal::USR1);
    eventually("the closed port", || TcpStream::connect(place.address()).is_err());
    assert_eq!(running.0.try_wait().unwrap(), None);
    client.write_all(b"\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("one"), "{answer}");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_daemon_is_ready_when_its_parent_ends_and_can_be_replaced() {
    let place = Place::new("daemon");
    place.answers("one");
    assert_eq!(place.command(&["-D", "-p", "pid"]).status().unwrap().code(), Some(0));
    let old = Daemon(place.pid().unwrap());
    assert!(ask(place.address()).unwrap().ends_with("one"));
    place.answers("two");
    let replace = old.0.to_string();
    assert_eq!(place.command(&["-D", "-p", "pid", "-sf", &replace]).status().unwrap().code(), Some(0));
    let new = Daemon(place.pid().unwrap());
    assert_ne!(old.0, new.0);
    old.wait_until_gone();
    assert!(ask(place.address()).unwrap().ends_with("two"));
    kill_process(new.pid(), Signal::TERM).unwrap();
    new.wait_until_gone();
}

/// Only root may change the root of the file system; for others there is nothing to see.
#[test]
fn a_daemon_leaves_its_terminal_in_an_empty_chroot() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new("daemon-chroot");
    place.answers("one");
    let jail = place.path("jail");
    fs::create_dir_all(&jail).unwrap();
    let config = fs::read_to_string(place.path("cfg")).unwrap();
    place.write(&format!("global\n chroot {}\n daemon\n{config}", jail.display()));
    assert_eq!(place.command(&["-p", "pid"]).status().unwrap().code(), Some(0));
    let daemon = Daemon(place.pid().unwrap());
    assert!(ask(place.address()).unwrap().ends_with("one"));
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    daemon.wait_until_gone();
}

#[test]
fn a_daemon_that_cannot_start_says_so_to_its_parent() {
    let place = Place::new("daemon-fails");
    // Without address reuse on the other side, the port is taken.
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, place.port)).unwrap();
    place.answers("one");
    let output = place.output(&["-D", "-p", "pid"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[ALERT]"));
}

#[test]
fn an_inherited_socket_is_used() {
    let place = Place::new("inherited");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, place.port)).unwrap();
    place.configure("bind \"fd@${www}\"", "inherited");
    for options in [&["-d"][..], &["-d", "-W"]] {
        rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
        let mut command = place.command(options);
        let mut running = Running(command.env("www", listener.as_raw_fd().to_string()).spawn().unwrap());
        rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC).unwrap();
        place.wait_for("inherited");
        running.signal(Signal::TERM);
        assert_eq!(running.code(), Some(0));
    }
}

#[test]
fn a_master_passes_on_how_it_was_told_to_end() {
    let place = Place::new("master-ends");
    place.answers("one");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0), (Signal::USR1, 0)] {
        let mut running = place.start(&["-W", "-p", "pid"]);
        place.wait_for("one");
        eventually("the pid file", || place.pid() == i32::try_from(running.0.id()).ok());
        running.signal(signal);
        assert_eq!(running.code(), Some(code), "{signal:?}");
        assert!(TcpStream::connect(place.address()).is_err());
    }
}

#[test]
fn a_lost_worker_takes_the_master_with_it() {
    let place = Place::new("master-loses");
    place.answers("one");
    let mut running = place.start(&["-W", "-p", "pid", "-S", "unix@master.sock"]);
    eventually("the end of the start", || place.pid().is_some());
    let processes = place.master("show proc");
    let worker = processes.lines().find(|line| line.contains(" worker ")).unwrap();
    let worker: i32 = worker.split_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    assert_eq!(running.code(), Some(128 + 9));
}

/// Asks all the time, each time on a new connection, until it is told to stop.
struct Visitor {
    stop: Arc<AtomicBool>,
    failures: Arc<AtomicU32>,
    thread: Option<std::thread::JoinHandle<u32>>,
}

impl Visitor {
    fn of(address: SocketAddr) -> Self {
        let (stop, failures) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (until, failed) = (Arc::clone(&stop), Arc::clone(&failures));
        let thread = std::thread::spawn(move || {
            let mut visits = 0;
            while !until.load(Ordering::Relaxed) {
                visits += 1;
                failed.fetch_add(u32::from(ask(address).is_none()), Ordering::Relaxed);
            }
            visits
        });
        Self { stop, failures, thread: Some(thread) }
    }

    /// How many visits there were, and how many failed.
    fn result(mut self) -> (u32, u32) {
        self.stop.store(true, Ordering::Relaxed);
        let visits = self.thread.take().unwrap().join().unwrap();
        (visits, self.failures.load(Ordering::Relaxed))
    }
}

#[test]
fn reloads_refuse_nobody() {
    let place = Place::new("reload");
    place.answers("first");
    let mut running = place.start(&["-W", "-p", "pid", "-S", "unix@master.sock"]);
    place.wait_for("first");
    let visitor = Visitor::of(place.address());
    for round in 0..5 {
        let text = format!("round-{round}");
        place.answers(&text);
        if round % 2 == 0 {
            running.signal(Signal::USR2);
        } else {
            let answer = place.master("reload");
            assert!(answer.starts_with("Success=1\n--\n"), "{answer}");
        }
        place.wait_for(&text);
    }
    let (visits, failures) = visitor.result();
    assert!(visits > 5);
    assert_eq!(failures, 0, "of {visits}");
    eventually("the end of the old workers", || !place.master("show proc").contains("# old workers"));
    assert!(place.master("show proc").contains("5 [failed: 0]"), "{}", place.master("show proc"));
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_successor_takes_the_sockets_over() {
    let place = Place::new("successor");
    let configure = |text: &str| {
        place.answers(text);
        let config = fs::read_to_string(place.path("cfg")).unwrap();
        let socket = place.path("stats.sock");
        place.write(&format!(
            "global\n stats socket {} level admin expose-fd listeners\n{config}",
            socket.display()
        ));
    };
    configure("round-0");
    let mut old = place.start(&["-d"]);
    place.wait_for("round-0");
    let visitor = Visitor::of(place.address());
    for round in 1..4 {
        let text = format!("round-{round}");
        configure(&text);
        let new = place.start(&["-d", "-x", "stats.sock", "-sf", &old.0.id().to_string()]);
        assert_eq!(old.code(), Some(0));
        place.wait_for(&text);
        old = new;
    }
    let (visits, failures) = visitor.result();
    assert!(visits > 3);
    assert_eq!(failures, 0, "of {visits}");
    // Nobody is there to take over from.
    let output = place.output(&["-d", "-x", "nowhere.sock"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_failed_reload_changes_nothing() {
    let place = Place::new("bad-reload");
    place.answers("good");
    let mut running = place.start(&["-W", "-S", "unix@master.sock"]);
    place.wait_for("good");
    let check = |why: &str| {
        let answer = place.master("reload");
        assert!(answer.starts_with("Success=0\n--\n") && answer.contains(why), "{why}: {answer}");
        assert!(ask(place.address()).unwrap().ends_with("good"), "{why}");
    };
    place.write("frontend f\n bnid :80\n");
    check("bnid");
    place.configure("bind 192.0.2.1:80", "elsewhere");
    check("192.0.2.1");
    place.configure(&format!("bind 127.0.0.1:{} ssl crt /nowhere.pem", place.port), "tls");
    check("nowhere");
    assert!(place.master("show proc").contains("0 [failed: 3]"));
    place.answers("better");
    assert!(place.master("reload").starts_with("Success=1"));
    // The old worker may take a last connection before it learns that it is replaced.
    place.wait_for("better");
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0));
}

#[test]
fn the_service_manager_is_told_first_that_all_is_ready() {
    let place = Place::new("notify");
    place.answers("one");
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut running =
        Running(place.command(&["-Ws"]).env("NOTIFY_SOCKET", place.path("notify")).spawn().unwrap());
    let next = || {
        let mut datagram = [0; 512];
        let length = manager.recv(&mut datagram).unwrap();
        String::from_utf8_lossy(&datagram[..length]).into_owned()
    };
    assert!(next().contains("READY=1"));
    // Ready means served.
    assert!(ask(place.address()).is_some());
    running.signal(Signal::USR2);
    assert!(next().contains("RELOADING=1"));
    assert!(next().contains("READY=1"));
    running.signal(Signal::TERM);
    assert!(next().contains("STOPPING=1"));
    assert_eq!(running.code(), Some(0));
}

#[test]
fn the_demo_serves_its_site_and_cleans_up() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"));
    let mut demo = Running(child.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut printed = std::io::BufReader::new(demo.0.stdout.take().unwrap());
    let mut next = |label: &str| loop {
        let mut line = String::new();
        assert!(printed.read_line(&mut line).unwrap() > 0, "{label} is not printed");
        if let Some(value) = line.trim().strip_prefix(label) {
            break value.trim().to_owned();
        }
    };
    let place = |url: String| -> SocketAddr {
        url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    };
    let address = place(next("pages"));
    let statistics = place(next("statistics"));
    let configuration = PathBuf::from(next("read from"));
    assert!(configuration.exists());
    eventually("the demo's page", || {
        ask(address).is_some_and(|page| page.contains("Three origins behind one Weir"))
    });
    assert!(ask(statistics).is_some_and(|page| page.contains("coral")));
    demo.signal(Signal::INT);
    assert_eq!(demo.code(), Some(0));
    assert!(!configuration.exists());
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let place = Place::new("unread");
    // More than a pipe holds, in a few lines.
    let line = "x".repeat(1000);
    place.write(&format!(
        "global\n log stdout format raw local0\n log stderr format raw local0\ndefaults\n mode http\n log global\n \
         log-format \"{line}\"\n timeout client 10s\nlisten www\n bind 127.0.0.1:{}\n http-request return status 200 \
         content-type text/plain string there\n",
        place.port
    ));
    let mut command = place.command(&["-db"]);
    let _running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    place.wait_for("there");
    for number in 0..200 {
        assert!(ask(place.address()).is_some(), "request {number}");
    }
}

#[test]
fn filters_see_what_the_one_before_made() {
    let place = Place::new("filters");
    let origin = origin(&"plain text ".repeat(20));
    place.write(&format!(
        "defaults\n mode http\n timeout client 10s\n timeout connect 10s\n timeout server 10s\n\
         listen www\n bind 127.0.0.1:{}\n compression algo gzip\n compression offload\n\
         filter trace name before\n filter compression\n filter trace name after hexdump\n server s {origin}\n",
        place.port
    ));
    let said = place.path("said");
    let running = place.command(&["-db"]).stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    let running = Running(running);
    eventually("a compressed answer", || {
        let Ok(mut client) = TcpStream::connect(place.address()) else { return false };
        let request = b"GET /x HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n";
        let mut answer = Vec::new();
        client.write_all(request).is_ok() && client.read_to_end(&mut answer).is_ok() && !answer.is_empty()
    });
    drop(running);
    let said = fs::read_to_string(said).unwrap();
    let by = |name: &str| -> String {
        said.lines()
            .filter(|line| line.contains(&format!("[{name:<20}]")))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let (before, after) = (by("before/www"), by("after/www"));
    for (lines, has, has_not) in [
        (&before, "GET /x HTTP/1.1", "content-encoding"),
        (&before, "accept-encoding: gzip", "vary"),
        (&before, "len=220 - forward=220", "chunked"),
        (&after, "content-encoding: gzip", "accept-encoding: gzip"),
        (&after, "vary: Accept-Encoding", "len=220 - forward=220"),
        (&after, "trace_http_end", "content-length"),
    ] {
        assert!(lines.contains(has), "{has}\n{said}");
        assert!(!lines.contains(has_not), "{has_not}\n{said}");
    }
    assert!(said.contains("\t0x000000: 1f 8b 08"), "{said}");
}
