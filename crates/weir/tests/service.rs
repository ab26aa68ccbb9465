//! The program as a service: under a service manager, and as tools find its processes.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it has to be")]

mod place;

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use place::{Daemon, LIMIT, Place, Running, ask, eventually, talk};
use rustix::process::{Pid, Signal, kill_process};

/// Where Debian's package puts the unit; elsewhere its two command lines stand in for it.
const UNIT: &str = "/lib/systemd/system/haproxy.service";
const DEBIAN_LINES: &str = "\
Environment=\"CONFIG=/etc/haproxy/haproxy.cfg\" \"PIDFILE=/run/haproxy.pid\" \"EXTRAOPTS=-S /run/haproxy-master.sock\"
ExecStart=/usr/sbin/haproxy -Ws -f $CONFIG -p $PIDFILE $EXTRAOPTS
ExecReload=/usr/sbin/haproxy -Ws -f $CONFIG -c -q $EXTRAOPTS
ExecReload=/bin/kill -USR2 $MAINPID
Type=notify
";

/// The command lines of a unit's setting that run the program, without its name.
fn lines(unit: &str, setting: &str, place: &Place) -> Vec<Vec<String>> {
    let folder = place.folder.display();
    let meant = |line: &str| {
        let line =
            line.replace("$CONFIG", &format!("{folder}/cfg")).replace("$PIDFILE", &format!("{folder}/pid"));
        line.replace("$EXTRAOPTS", &format!("-S {folder}/master.sock"))
    };
    let commands = unit.lines().filter_map(|line| line.trim().strip_prefix(setting)?.strip_prefix('='));
    let own = commands.filter_map(|line| line.strip_prefix("/usr/sbin/haproxy "));
    own.map(|line| meant(line).split_whitespace().map(str::to_owned).collect()).collect()
}

/// What a service manager hears, as it reads it: datagrams of lines.
struct Manager(UnixDatagram);

impl Manager {
    fn of(place: &Place) -> Self {
        let socket = UnixDatagram::bind(place.path("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self(socket)
    }

    fn next(&self) -> String {
        let mut datagram = [0; 512];
        let length = self.0.recv(&mut datagram).unwrap();
        String::from_utf8_lossy(&datagram[..length]).into_owned()
    }
}

#[test]
fn a_unit_of_type_notify_starts_reloads_and_stops_although_the_configuration_says_daemon() {
    let place = Place::new("unit");
    place.answers("one");
    let with_daemon = || {
        let config = fs::read_to_string(place.path("cfg")).unwrap();
        place.write(&format!("global\n daemon\n{config}"));
    };
    with_daemon();
    let unit = fs::read_to_string(UNIT).unwrap_or_else(|_| DEBIAN_LINES.to_owned());
    assert!(unit.contains("Type=notify"), "{unit}");
    let [start] = lines(&unit, "ExecStart", &place).try_into().unwrap();
    let [check] = lines(&unit, "ExecReload", &place).try_into().unwrap();
    let manager = Manager::of(&place);
    let command = |words: &[String]| {
        let mut command = Command::new(place.path("haproxy"));
        command.args(words).env("NOTIFY_SOCKET", place.path("notify")).current_dir(&place.folder);
        command
    };
    let said = place.path("said");
    let mut service = Running(command(&start).stderr(fs::File::create(&said).unwrap()).spawn().unwrap());
    let ready = manager.next();
    // The process that was started is the service: it has not gone away, and it is the one that speaks.
    assert!(ready.contains("READY=1") && ready.contains(&format!("MAINPID={}\n", service.0.id())), "{ready}");
    assert_eq!(service.0.try_wait().unwrap(), None);
    assert_eq!(place.pid(), i32::try_from(service.0.id()).ok());
    assert!(ask(place.address()).unwrap().ends_with("one"));
    assert!(fs::read_to_string(&said).unwrap().contains("'daemon' is ignored"));
    place.answers("two");
    with_daemon();
    assert_eq!(command(&check).status().unwrap().code(), Some(0));
    service.signal(Signal::USR2);
    assert!(manager.next().contains("RELOADING=1"));
    assert!(manager.next().contains("READY=1"));
    place.wait_for("two");
    service.signal(Signal::TERM);
    assert!(manager.next().contains("STOPPING=1"));
    assert_eq!(service.code(), Some(0));
}

#[test]
fn a_master_goes_to_the_background_by_the_configuration_and_by_the_option() {
    // What HAProxy does: `daemon` counts without a service manager, and `-D` says it for this very start.
    for (options, of_config) in [(&["-W"][..], true), (&["-W", "-D"], false), (&["-Ws", "-D"], false)] {
        let place = Place::new("master-daemon");
        place.answers("one");
        if of_config {
            let config = fs::read_to_string(place.path("cfg")).unwrap();
            place.write(&format!("global\n daemon\n{config}"));
        }
        let status = place.command(options).args(["-p", "pid"]).status().unwrap();
        assert_eq!(status.code(), Some(0), "{options:?}");
        let master = Daemon(place.pid().unwrap());
        assert!(ask(place.address()).unwrap().ends_with("one"), "{options:?}");
        kill_process(master.pid(), Signal::TERM).unwrap();
        master.wait_until_gone();
    }
}

/// A process and all that it started: number, name, first word of the command line.
fn family(of: u32) -> Vec<(u32, String, String)> {
    let read = |pid: u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let called = read(pid, "cmdline").split('\0').next().unwrap_or_default().to_owned();
        found.push((pid, read(pid, "comm").trim().to_owned(), called));
        let children = read(pid, &format!("task/{pid}/children"));
        next.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    found
}

#[test]
fn all_processes_of_a_program_called_haproxy_are_called_haproxy() {
    let place = Place::new("names");
    place.answers("one");
    let check = |first: u32, least: usize| {
        let family = family(first);
        assert!(family.len() >= least, "{family:?}");
        for (pid, name, called) in &family {
            // `killall -0 haproxy` and `pidof haproxy` go by these two.
            assert_eq!((name.as_str(), called.ends_with("/haproxy")), ("haproxy", true), "{pid}: {family:?}");
        }
    };
    for (options, least) in [(&["-db"][..], 1), (&["-db", "-W"], 2)] {
        let running = place.start(options);
        place.wait_for("one");
        check(running.0.id(), least);
    }
    assert_eq!(place.command(&["-W", "-D", "-p", "pid"]).status().unwrap().code(), Some(0));
    let daemon = Daemon(place.pid().unwrap());
    place.wait_for("one");
    check(daemon.0.cast_unsigned(), 2);
    kill_process(Pid::from_raw(daemon.0).unwrap(), Signal::TERM).unwrap();
    daemon.wait_until_gone();
    eventually("the closed port", || ask(place.address()).is_none());
}

/// A figure of a running process, in bytes (proc_pid_status(5)).
fn memory(of: &Running, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", of.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_limit_on_memory_is_held_by_refusing_and_nobody_else_is_harmed() {
    const LIMIT_MIB: u64 = 48;
    // What each of them makes the process hold: the beginning of a head that never ends.
    let begun = [&b"GET / HTTP/1.1\r\nx: "[..], &[b'x'; 110_000]].concat();
    let place = Place::new("memory");
    place.write(&format!(
        "global\n nbthread 1\n tune.bufsize 131072\n stats socket {}/sock level admin\ndefaults\n mode http\n \
         timeout client 60s\nfrontend www\n bind 127.0.0.1:{}\n http-request return status 200 content-type \
         text/plain string here\n",
        place.folder.display(),
        place.port
    ));
    let said = place.path("said");
    let mut command = place.command(&["-db", "-m", &LIMIT_MIB.to_string()]);
    let mut running = Running(command.stderr(fs::File::create(&said).unwrap()).spawn().unwrap());
    place.wait_for("here");
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..800 {
        let Ok(mut client) = TcpStream::connect(place.address()) else { continue };
        client.set_nonblocking(true).unwrap();
        // As much of it as goes; the rest follows while the others come.
        let sent = client.write(&begun).unwrap_or(0);
        held.push((client, sent));
        refused = 0;
        for (client, sent) in &mut held {
            *sent += client.write(&begun[*sent..]).unwrap_or(0);
            refused += u32::from(
                !matches!(client.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock),
            );
        }
        assert_eq!(running.0.try_wait().unwrap(), None, "the process has ended");
        assert!(memory(&running, "RssAnon") <= LIMIT_MIB << 20, "{} bytes", memory(&running, "RssAnon"));
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 20, "{refused} of {} are refused", held.len());
    eventually("a word about it", || {
        fs::read_to_string(&said).unwrap().contains("Proxy www reached the memory limit (-m 48)")
    });
    let info = talk(&place.path("sock"), "show info");
    assert!(info.contains("Memmax_MB: 48\n") && !info.contains("PoolFailed: 0\n"), "{info}");
    assert!(info.contains("PoolAlloc_MB: 4") && info.contains("Panics: 0\n"), "{info}");
    let pools = talk(&place.path("sock"), "show pools");
    assert!(pools.contains("  - Pool buffer (") && pools.contains("Total: 4 pools, "), "{pools}");
    drop(held);
    // Memory that is free again serves others.
    place.wait_for("here");
    assert_eq!(fs::read_to_string(&said).unwrap().matches("memory limit").count(), 1);
}

#[test]
fn a_process_without_descriptors_says_so_once() {
    let place = Place::new("descriptors");
    place.write(&format!(
        "global\n nbthread 1\n ulimit-n 80\n no strict-limits\n maxconn 1000\ndefaults\n mode http\n timeout client 60s\n\
         frontend www\n bind 127.0.0.1:{}\n http-request return status 200 content-type text/plain string here\n",
        place.port
    ));
    let said = place.path("said");
    let mut command = place.command(&["-db"]);
    let mut running = Running(command.stderr(fs::File::create(&said).unwrap()).spawn().unwrap());
    place.wait_for("here");
    let held: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(place.address()).unwrap()).collect();
    let heard = || fs::read_to_string(&said).unwrap();
    eventually("a word about it", || {
        heard().contains("[ALERT]    (")
            && heard().contains("Proxy www reached process FD limit (maxsock=80). Please ")
    });
    assert_eq!(running.0.try_wait().unwrap(), None);
    drop(held);
    place.wait_for("here");
    assert_eq!(heard().matches("FD limit").count(), 1, "{}", heard());
}
