//! The programs that are measured: how each is started, on which core, and stopped again.

use super::rows::Pages;
use super::{configurations, fill, pump, usage};
use crate::{debian, place, program, suite};
use rustix::process::Signal;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A program that does not answer after this did not start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long a program may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Where the measurements run: a scratch folder and the two cores.
pub(crate) struct Place {
    pub(crate) scratch: place::Scratch,
    proxy_core: usize,
    client_core: usize,
    real_time: bool,
    /// Nice values below 0 are permitted.
    raised: bool,
}

/// Cores of a subject that has two threads, and those of the generator and the origin beside it.
struct Apart {
    subject: Vec<usize>,
    others: Vec<usize>,
}

impl Apart {
    /// Two cores for the subject where that leaves as many; else the last one, and all others for what measures it.
    /// On a machine with one core everybody is on it.
    fn of(cores: usize) -> Self {
        let subject = if cores >= 4 { 2 } else { 1 };
        let first = cores - subject;
        Self { subject: (first..cores).collect(), others: (0..first.max(1)).collect() }
    }

    /// A list as `taskset -c` reads it.
    fn list(cores: &[usize]) -> String {
        cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

/// The priority of everything in a comparison of latencies: what else the machine does would show in its tail.
const RAISED: &str = "-20";

impl Place {
    pub(crate) fn new() -> Result<Self, String> {
        let scratch = place::Scratch::new("b")?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let real_time = program::output(Command::new("chrt").args(["-r", "1", "true"])).is_ok();
        // It runs the command at the old value where it may not change it.
        let said = program::output(Command::new("nice").args(["-n", RAISED, "nice"]));
        let raised = said.is_ok_and(|said| said.trim() == RAISED);
        let (proxy_core, client_core) = (cores - 1, cores.saturating_sub(2));
        let place = Self { scratch, proxy_core, client_core, real_time, raised };
        place.certificate()?;
        place.fixtures()?;
        Ok(place)
    }

    pub(super) fn describe(&self) -> String {
        let priority = if self.real_time {
            "at real-time priority"
        } else {
            "at ordinary priority, as chrt is not permitted here: read the table with care"
        };
        let shared =
            if self.proxy_core == self.client_core { "; there is only one core: ratios only" } else { "" };
        format!(
            "Proxy on core {}; client and origin on core {} {priority}{shared}.",
            self.proxy_core, self.client_core
        )
    }

    /// Where everything is in a comparison of latencies.
    pub(super) fn describe_apart(&self) -> String {
        let Apart { subject, others } = Self::apart();
        let mut priority = if self.raised { format!(", all at nice {RAISED}") } else { String::new() };
        if self.real_time {
            priority += ", the generator at real-time priority";
        }
        format!(
            "The subject on core(s) {}; the generator and the origin on core(s) {}{priority}.",
            Apart::list(&subject),
            Apart::list(&others)
        )
    }

    fn apart() -> Apart {
        Apart::of(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }

    fn certificate(&self) -> Result<(), String> {
        let openssl = debian::need("openssl", "openssl")?;
        let folder = self.scratch.path();
        let (key, certificate) = (folder.join("key.pem"), folder.join("certificate.pem"));
        program::output(
            Command::new(openssl)
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
                .args(["-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
                .arg("-keyout")
                .arg(&key)
                .arg("-out")
                .arg(&certificate),
        )?;
        let both = place::read(&certificate)? + &place::read(&key)?;
        place::write(&folder.join("site.pem"), &both)
    }

    /// Copies the fixtures to where a server that has given up root's rights can read them.
    fn fixtures(&self) -> Result<(), String> {
        let www = self.www();
        place::create(&www)?;
        for name in ["small.html", "page.html", "short.txt", "page-9k.html", "page-76k.html"] {
            let from = configurations().join("fixtures").join(name);
            fs::copy(&from, www.join(name)).map_err(|error| format!("{}: {error}", from.display()))?;
        }
        Ok(())
    }

    /// Makes different pages, unless they are there.
    pub(super) fn different_pages(&self, pages: &Pages) -> Result<(), String> {
        let folder = self.www().join(pages.folder);
        if folder.join(format!("{}.html", pages.count - 1)).is_file() {
            return Ok(());
        }
        let mut command = Command::new(debian::need("python3", "python3")?);
        place::create(&folder)?;
        command.arg(configurations().join("pages.py")).arg(folder);
        program::output(command.args([pages.bytes.to_string(), pages.count.to_string()])).map(drop)
    }

    /// Writes pages of these sizes, the beginnings of the largest fixture: `comp-SIZE.html`.
    pub(super) fn pages(&self, sizes: &[usize]) -> Result<(), String> {
        let text = place::read(&configurations().join("fixtures/page-76k.html"))?;
        for size in sizes {
            let page = text.get(..*size).ok_or_else(|| format!("there is no page of {size} bytes"))?;
            place::write(&self.www().join(format!("comp-{size}.html")), page)?;
        }
        Ok(())
    }

    fn www(&self) -> PathBuf {
        self.scratch.path().join("www")
    }

    /// A command that runs on the proxy's core.
    pub(crate) fn on_proxy_core(&self, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.proxy_core.to_string()]).arg(program);
        command
    }

    /// A command that runs beside the client, before everything else there.
    pub(super) fn on_client_core(&self, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.client_core.to_string()]);
        if self.real_time {
            command.args(["chrt", "-r", "1"]);
        }
        command.arg(program);
        command
    }

    /// A command that runs on these cores, before what else the machine does.
    fn on_cores(&self, cores: &[usize], program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &Apart::list(cores)]);
        if self.raised {
            command.args(["nice", "-n", RAISED]);
        }
        command.arg(program);
        command
    }

    /// The generator, apart from a subject of two threads: before the origin there, or requests would leave late.
    pub(super) fn generator(&self, program: &Path) -> Command {
        let cores = Self::apart().others;
        if !self.real_time {
            return self.on_cores(&cores, program);
        }
        let mut command = self.on_cores(&cores, Path::new("chrt"));
        command.args(["-r", "1"]).arg(program);
        command
    }

    pub(crate) fn configure(
        &self,
        template: &Path,
        name: &str,
        ports: [u16; 2],
        more: &[(&str, String)],
    ) -> Result<PathBuf, String> {
        let [port, origin] = ports;
        let mut values = vec![
            ("PORT", port.to_string()),
            ("ORIGIN", origin.to_string()),
            ("NAME", name.to_owned()),
            ("FOLDER", self.scratch.path().display().to_string()),
            ("FIXTURES", self.www().display().to_string()),
        ];
        values.extend(more.iter().cloned());
        let text = fill(&place::read(template)?, &values);
        let end = template.extension().and_then(|end| end.to_str()).unwrap_or("conf");
        let file = self.scratch.path().join(format!("{name}.{end}"));
        place::write(&file, &text)?;
        Ok(file)
    }

    /// Starts the origin that all subjects forward to.
    pub(super) fn origin(&self) -> Result<Running, String> {
        let nginx = debian::need("nginx", "nginx")?;
        let port = free_port()?;
        let file = self.configure(&configurations().join("origin/nginx.conf"), "origin", [port, 0], &[])?;
        let mut command = self.on_client_core(&nginx);
        command.arg("-p").arg(self.scratch.path()).arg("-c").arg(file);
        Running::start(command, "origin", port, self.scratch.path())
    }

    /// Starts `weir origin` apart from a subject of two threads.
    pub(crate) fn weir_origin(&self, weir: &Path, threads: u32) -> Result<Running, String> {
        let port = free_port()?;
        let mut command = self.on_cores(&Self::apart().others, weir);
        command.args(["origin", "-q", "-t", &threads.to_string(), "--listen"]);
        command.arg(format!("127.0.0.1:{port}"));
        Running::start(command, "origin", port, self.scratch.path())
    }
}

/// How a subject is started, its configuration's name apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) cores: Cores,
    /// What stands in the configuration for more names between `@`.
    pub(super) values: &'a [(&'a str, String)],
}

/// Where a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// Alone on the proxy's core.
    One,
    /// Two where there are enough, apart from client and origin.
    Apart,
}

/// One core, nothing more to fill in.
const PLAIN: Start<'static> = Start { cores: Cores::One, values: &[] };

/// Every program that may be a subject.
pub(super) const NAMES: [&str; 8] =
    ["weir", "haproxy", suite::PROGRAM, "nginx", "h2o", "envoy", "caddy", pump::NAME];

/// A program that is measured.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    program: PathBuf,
}

impl Subject {
    pub(crate) fn new(name: &str, program: PathBuf) -> Result<Self, String> {
        let name = NAMES
            .into_iter()
            .find(|known| *known == name)
            .ok_or_else(|| format!("there is no subject '{name}'"))?;
        let program =
            fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { name, program })
    }

    /// Whether it reads HAProxy's configuration language.
    pub(crate) fn reads_haproxy(&self) -> bool {
        matches!(self.name, "weir" | "haproxy" | suite::PROGRAM)
    }

    /// What the program says of its version.
    pub(super) fn version(&self) -> String {
        let option = match self.name {
            "envoy" => "--version",
            "caddy" => "version",
            _ => "-v",
        };
        let said = Command::new(&self.program).arg(option).output();
        said.map_or_else(|error| error.to_string(), |said| version_in(self.name, &said.stdout, &said.stderr))
    }

    pub(crate) fn template(&self, setup: &str) -> PathBuf {
        let (folder, end) = match self.name {
            "nginx" => ("nginx", "conf"),
            "h2o" => ("h2o", "conf"),
            "envoy" => ("envoy", "yaml"),
            "caddy" => ("caddy", "caddyfile"),
            _ => ("haproxy", "cfg"),
        };
        configurations().join(folder).join(format!("{setup}.{end}"))
    }

    /// Whether there is a configuration of that name for it.
    pub(super) fn plays(&self, setup: &str) -> bool {
        if self.name == pump::NAME { setup == pump::SETUP } else { self.template(setup).is_file() }
    }

    /// Starts it with one of its configurations.
    pub(crate) fn start(&self, place: &Place, setup: &str, origin: u16) -> Result<Running, String> {
        self.start_as(place, setup, origin, PLAIN)
    }

    /// Starts it with one of its configurations, in a way of its own.
    pub(super) fn start_as(
        &self,
        place: &Place,
        setup: &str,
        origin: u16,
        start: Start<'_>,
    ) -> Result<Running, String> {
        let port = free_port()?;
        if self.name == pump::NAME {
            let mut command = place.on_proxy_core(&self.program);
            command.args(["bench", pump::NAME, &port.to_string(), &origin.to_string()]);
            return Running::start(command, self.name, port, place.scratch.path());
        }
        let file = place.configure(&self.template(setup), self.name, [port, origin], start.values)?;
        self.launch(place, &file, port, start.cores)
    }

    /// Starts it with a configuration file.
    pub(crate) fn start_with(&self, place: &Place, file: &Path, port: u16) -> Result<Running, String> {
        self.launch(place, file, port, Cores::One)
    }

    fn launch(&self, place: &Place, file: &Path, port: u16, cores: Cores) -> Result<Running, String> {
        let program = self.called(place)?;
        let mut command = match cores {
            Cores::One => place.on_proxy_core(&program),
            Cores::Apart => place.on_cores(&Place::apart().subject, &program),
        };
        self.read_configuration(&mut command, place, file);
        Running::start(command, self.name, port, place.scratch.path())
    }

    /// Starts it with one of its configurations under another program, whose command `under` begins; that program makes
    /// it slow, so it has `limit` to answer.
    pub(super) fn start_under(
        &self,
        place: &Place,
        setup: &str,
        origin: u16,
        mut under: Command,
        limit: Duration,
    ) -> Result<Running, String> {
        let port = free_port()?;
        let file = place.configure(&self.template(setup), self.name, [port, origin], &[])?;
        under.arg(self.called(place)?);
        self.read_configuration(&mut under, place, &file);
        Running::start_within(under, self.name, port, place.scratch.path(), limit)
    }

    /// Adds the options with which it stays in the foreground and reads a configuration.
    fn read_configuration(&self, command: &mut Command, place: &Place, file: &Path) {
        match self.name {
            "nginx" => command.arg("-p").arg(place.scratch.path()).arg("-c").arg(file),
            "h2o" => command.arg("-c").arg(file),
            "envoy" => command
                .args(["--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error", "-c"])
                .arg(file),
            // It keeps certificates and settings of its own at home.
            "caddy" => command
                .env("HOME", place.scratch.path())
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(file),
            _ => command.arg("-db").arg("-f").arg(file),
        };
    }

    /// The program's path; weir is called by the name whose command line it then understands.
    pub(crate) fn called(&self, place: &Place) -> Result<PathBuf, String> {
        if self.name != "weir" {
            return Ok(self.program.clone());
        }
        let link = place.scratch.path().join("haproxy");
        if !link.exists() {
            std::os::unix::fs::symlink(&self.program, &link)
                .map_err(|error| format!("{}: {error}", link.display()))?;
        }
        Ok(link)
    }
}

/// A started program; dropping it stops it.
pub(crate) struct Running {
    child: Child,
    pub(crate) port: u16,
    /// From the start of the program to its first accepted connection.
    pub(super) ready_after: Duration,
}

impl Running {
    pub(crate) fn start(command: Command, name: &str, port: u16, folder: &Path) -> Result<Self, String> {
        Self::start_within(command, name, port, folder, START_LIMIT)
    }

    /// Starts a program that may take so long until it answers.
    fn start_within(
        mut command: Command,
        name: &str,
        port: u16,
        folder: &Path,
        limit: Duration,
    ) -> Result<Self, String> {
        let log = folder.join(format!("{name}.log"));
        let written = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let copy = written.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(written).stderr(copy);
        let started = Instant::now();
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let mut running = Self { child, port, ready_after: Duration::ZERO };
        loop {
            if TcpStream::connect_timeout(&address(port), limit).is_ok() {
                running.ready_after = started.elapsed();
                return Ok(running);
            }
            let ended = running.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                let said = place::read(&log).unwrap_or_default();
                return Err(format!("{name} did not start: {status}\n{}", said.trim()));
            }
            if started.elapsed() > limit {
                return Err(format!("{name} did not answer within {} s", limit.as_secs()));
            }
            sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn cpu_time(&self) -> usage::CpuTime {
        usage::cpu_time(self.child.id())
    }

    /// The process that was started.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        usage::resident_bytes(self.child.id())
    }

    pub(crate) fn open_files(&self) -> usize {
        usage::open_files(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let asked_to_stop = rustix::process::Pid::from_raw(self.child.id().cast_signed())
            .is_some_and(|process| rustix::process::kill_process(process, Signal::TERM).is_ok());
        let asked = Instant::now();
        while asked_to_stop && asked.elapsed() < STOP_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The version in what a program says, on either stream: of the line that begins with its name, or the first with a digit.
fn version_in(name: &str, stdout: &[u8], stderr: &[u8]) -> String {
    let said = [String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr)].join("\n");
    let named = said.lines().find(|line| line.to_lowercase().starts_with(name));
    let line = named.or_else(|| said.lines().find(|line| line.contains(|char: char| char.is_ascii_digit())));
    let version = line.map(|line| line.split_once("version").map_or(line, |(_, version)| version));
    let words = version.unwrap_or_default().split([' ', ':']);
    let word = words.into_iter().find(|word| !word.is_empty()).unwrap_or("of an unknown version");
    // Envoy: commit/version/state/build/library.
    word.split('/').find(|part| part.contains('.')).unwrap_or(word).to_owned()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A port that nobody uses now.
pub(crate) fn free_port() -> Result<u16, String> {
    TcpListener::bind(address(0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("there is no free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_has_cores_of_its_own() {
        let check = |cores: usize, subject: &str, others: &str| {
            let apart = Apart::of(cores);
            assert_eq!(
                (Apart::list(&apart.subject), Apart::list(&apart.others)),
                (subject.into(), others.into())
            );
        };
        check(1, "0", "0");
        check(2, "1", "0");
        check(3, "2", "0,1");
        check(4, "2,3", "0,1");
        check(8, "6,7", "0,1,2,3,4,5");
    }

    #[test]
    fn versions_are_found_on_either_stream() {
        let check = |name: &str, stdout: &str, stderr: &str, expected: &str| {
            assert_eq!(version_in(name, stdout.as_bytes(), stderr.as_bytes()), expected);
        };
        check("haproxy", "HAProxy version 2.6.12-1 2026/10/17\nStatus: fine\n", "", "2.6.12-1");
        check("weir", "HAProxy version 3.0.11-weir compatible\nWeir version 0.1.0\n", "", "0.1.0");
        check("nginx", "", "nginx version: nginx/1.22.1\n", "1.22.1");
        check("envoy", "\n\n/bin/envoy  version: 9e55/1.40.0/Clean\n", "", "1.40.0");
        check("caddy", "v2.11.7 h1:abc\n", "", "v2.11.7");
        check("caddy", "", "", "of an unknown version");
    }
}
