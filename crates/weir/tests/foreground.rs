//! What a process in the foreground says without a log line, and what a check says before anything is started.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

mod place;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output};

use place::{Place, Running, eventually, talk};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn servers_that_come_and_go_are_said_on_the_terminal() {
    let place = Place::new("said");
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = server.local_addr().unwrap();
    place.write(&format!(
        "global\n stats socket {}/sock level admin\ndefaults\n mode tcp\n timeout client 5s\n timeout connect 5s\n \
         timeout server 5s\nfrontend www\n bind 127.0.0.1:{}\n default_backend be\nbackend be\n \
         server s {address} check inter 20ms fall 1 rise 1\nlisten both\n bind 127.0.0.1:0\n server t 127.0.0.1:9\n",
        place.folder.display(),
        place.port
    ));
    let errors = place.path("said");
    let mut command = place.command(&["-db"]);
    let running = Running(command.stderr(fs::File::create(&errors).unwrap()).spawn().unwrap());
    let pid = running.0.id();
    let said = || fs::read_to_string(&errors).unwrap();
    let waits_for = |line: &str| {
        eventually(line, || said().lines().any(|found| found.starts_with(line)));
    };
    waits_for(&format!("[NOTICE]   ({pid}) : Frontend www listens on 127.0.0.1:{}.", place.port));
    waits_for(&format!("[NOTICE]   ({pid}) : Stats socket listens on unix@{}/sock.", place.folder.display()));
    waits_for(&format!("[NOTICE]   ({pid}) : Proxy both listens on 127.0.0.1:"));
    drop(server);
    waits_for(&format!(
        "[WARNING]  ({pid}) : Server be/s is DOWN, reason: Layer4 connection problem, info: "
    ));
    waits_for(&format!("[ALERT]    ({pid}) : backend 'be' has no server available!"));
    let _server = TcpListener::bind(address).unwrap();
    waits_for(&format!(
        "[WARNING]  ({pid}) : Server be/s is UP, reason: Layer4 check passed, check duration: "
    ));
    // What administrators do is said as well.
    talk(&place.path("sock"), "set server both/t state maint");
    waits_for(&format!("[WARNING]  ({pid}) : Server both/t is going DOWN for maintenance."));
    waits_for(&format!("[ALERT]    ({pid}) : proxy 'both' has no server available!"));
    talk(&place.path("sock"), "set server both/t state ready");
    waits_for(&format!("[WARNING]  ({pid}) : Server both/t is UP/READY (leaving forced maintenance)."));
    talk(&place.path("sock"), "disable frontend www");
    waits_for(&format!("[WARNING]  ({pid}) : Paused frontend www."));
}

#[test]
fn help_and_versions_are_no_mistakes() {
    let place = Place::new("help");
    let check = |name: &str, words: &[&str], said: &[&str]| {
        let output = Command::new(place.path(name)).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name} {words:?}");
        for part in said {
            assert!(
                String::from_utf8_lossy(&output.stdout).contains(part),
                "{name} {words:?}: {}",
                text(&output)
            );
        }
    };
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), place.path("weir")).unwrap();
    let version = concat!("Weir version ", env!("CARGO_PKG_VERSION"));
    check("haproxy", &["-h"], &["HAProxy version 3.", version, "Usage : haproxy [-f", "-dr ignores"]);
    check("haproxy", &["-v"], &["HAProxy version 3.", version]);
    check("weir", &["version"], &["HAProxy version 3.", version]);
    check("weir", &["--version"], &[concat!("weir ", env!("CARGO_PKG_VERSION"))]);
    check("weir", &["-h"], &["Serve configurations in the foreground"]);
}

#[test]
fn a_quiet_process_says_nothing() {
    let place = Place::new("quiet");
    place.answers("one");
    let errors = place.path("said");
    let mut command = place.command(&["-db", "-q"]);
    let _running = Running(command.stderr(fs::File::create(&errors).unwrap()).spawn().unwrap());
    place.wait_for("one");
    assert_eq!(fs::read_to_string(&errors).unwrap(), "");
}

/// A configuration that HAProxy refuses or that cannot be served, and what is said about it: by a check, under both
/// command lines, and by a start.
#[test]
fn what_a_start_refuses_is_refused_by_a_check() {
    const PROXY: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n";
    let place = Place::new("refused");
    let check = |config: &str, said: &[&str]| {
        place.write(&config.replace("PROXY", PROXY));
        for options in [&["-c"][..], &["-db"], &["-W"]] {
            let output = place.output(options);
            let text = text(&output);
            assert_eq!(output.status.code(), Some(1), "{options:?} {config}: {text}");
            for part in said {
                assert!(text.contains(part), "{options:?} {config}: {part} is not in {text}");
            }
        }
    };
    check(
        "global\n user nobodyhere\n group nogroup-here\nPROXYfrontend f\n bind 127.0.0.1:0\n",
        &[
            "cfg:2] : cannot find user 'nobodyhere'",
            "     2 |  user nobodyhere\n       |       ^^^^^^^^^^\n",
            "cfg:3] : cannot find group 'nogroup-here'",
        ],
    );
    check(
        "PROXYlisten f\n bind 127.0.0.1:0\n server a a.invalid:80\n server b b.invalid:80\n",
        &["cfg:8] : server 'f/a': could not resolve address 'a.invalid'", "cfg:9] : server 'f/b'"],
    );
    check(
        "PROXYfrontend f\n bind f.invalid:80\n",
        &["cfg:7] : 'bind': could not resolve address 'f.invalid'"],
    );
    check(
        "PROXYlisten f\n bind 127.0.0.1:0 ssl crt /no/1.pem crt /no/2.pem ca-file /no/ca.pem verify required\n \
         bind 127.0.0.1:0 ssl crt-list /no/list\n server s 127.0.0.1:1 ssl ca-file /no/sca.pem\n",
        &[
            "cfg:7] : '/no/1.pem'",
            "cfg:7] : '/no/2.pem'",
            "                                   ^^^^^^^^^\n",
            "cfg:7] : 'ca-file': cannot open '/no/ca.pem'",
            "cfg:8] : 'crt-list': cannot open '/no/list'",
            "cfg:9] : 'ca-file': cannot open '/no/sca.pem'",
        ],
    );
    let port = place.port;
    check(
        &format!(
            "global\n noreuseport\nPROXYfrontend f\n bind :{port}\nfrontend g\n bind 127.0.0.1:{port}\n"
        ),
        &["cfg:11] : line 9 listens there as well"],
    );
    check("PROXYfrontend f\n bind abns@w\n bind abns@w\n", &["cfg:8] : line 7 listens there as well"]);
    check(
        "global\n stats socket unix@s.sock user nobodyhere\nPROXYfrontend f\n bind 127.0.0.1:0\n",
        &["cfg:2] : cannot find user 'nobodyhere'"],
    );
    check(
        "global\n log l.invalid local0\nPROXYfrontend f\n bind 127.0.0.1:0\n",
        &["'log': could not resolve"],
    );
}

#[test]
fn nobody_can_connect_to_a_configuration_without_a_listener() {
    let place = Place::new("no-listener");
    for config in ["backend b\n server s 127.0.0.1:1\n", "", "frontend f\n disabled\n bind 127.0.0.1:0\n"] {
        place.write(config);
        let output = place.output(&["-c"]);
        assert_eq!(output.status.code(), Some(2), "{config}");
        assert!(text(&output).contains("will not start (no listener) => exit(2)"), "{config}");
        for options in [&["-db"][..], &["-W"]] {
            let output = place.output(options);
            assert_eq!(output.status.code(), Some(1), "{config}");
            assert!(text(&output).contains("No enabled listener found"), "{config}");
        }
    }
    for config in [
        "global\n stats socket unix@s.sock\n",
        "log-forward l\n dgram-bind 127.0.0.1:0\n log 127.0.0.1:9 local0\n",
    ] {
        place.write(config);
        assert_eq!(place.output(&["-c"]).status.code(), Some(0), "{config}");
    }
}

#[test]
fn servers_without_an_address_start_in_maintenance_when_resolution_is_not_to_matter() {
    let place = Place::new("dr");
    let config = |init: &str| {
        place.write(&format!(
            "global\n stats socket {}/sock level admin\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
             timeout connect 5s\nlisten f\n bind 127.0.0.1:{}\n server a a.invalid:80 {init}\n",
            place.folder.display(),
            place.port
        ));
    };
    for (init, option) in [("", "-dr"), ("init-addr last,libc,none", "-db")] {
        config(init);
        let output = place.output(&[option, "-c"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output).contains("server 'f/a': could not resolve address 'a.invalid', disabling server"),
            "{}",
            text(&output)
        );
        let _running = place.start(&["-db", option]);
        let state = || {
            let connected = std::os::unix::net::UnixStream::connect(place.path("sock"));
            connected.map(|_| talk(&place.path("sock"), "show servers state f")).unwrap_or_default()
        };
        // In maintenance because of its name: 32 (management guide, "show servers state").
        eventually("a server in maintenance", || {
            let line = state().lines().find(|line| line.contains(" a ")).map(str::to_owned);
            line.is_some_and(|line| line.split(' ').nth(6) == Some("32"))
        });
    }
}
