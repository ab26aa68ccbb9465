//! Two programs with one configuration, and a client that asks both.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take; far above what it takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The oldest release that the tests are written for.
const OLDEST: (u32, u32) = (3, 0);

/// The real program; none, with the reason said, where there is none that fits.
pub(crate) fn real() -> Option<PathBuf> {
    let named = std::env::var_os("HAPROXY").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), "/usr/local/sbin".into()]);
    let found = named.into_iter().chain(folders.map(|folder| folder.join("haproxy")));
    let fits = found.filter(|program| program.is_file()).find(|program| version(program) >= Some(OLDEST));
    if fits.is_none() {
        eprintln!("skipped: no HAProxy {}.{} or later; HAPROXY=<path> names one", OLDEST.0, OLDEST.1);
    }
    fits
}

/// `HAProxy version 3.0.11 ...`
fn version(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.strip_prefix("HAProxy version ")?.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The program of this workspace.
pub(crate) fn ours() -> PathBuf {
    env!("CARGO_BIN_EXE_weir").into()
}

/// A process that ends with the test, in a folder of its own.
pub(crate) struct Program {
    process: Child,
    folder: PathBuf,
    port: u16,
    has_socket: bool,
}

impl Program {
    /// Starts a program; in the configuration `PORT`, `PORT1` ... are ports, `SOCKET` is its command socket and
    /// `FOLDER/long` a file of 10 kB.
    pub(crate) fn start(program: &Path, name: &str, ports: &[u16], config: &str) -> Self {
        let kind = if program == ours() { "weir" } else { "real" };
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("beside-{name}-{kind}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let link = folder.join("haproxy");
        std::os::unix::fs::symlink(program, &link).unwrap();
        fs::write(folder.join("long"), "long ".repeat(2000)).unwrap();
        let mut text = config.replace("SOCKET", &folder.join("socket").to_string_lossy());
        text = text.replace("FOLDER", &folder.to_string_lossy());
        for (at, port) in ports.iter().enumerate().rev() {
            let word = if at == 0 { "PORT".to_owned() } else { format!("PORT{at}") };
            text = text.replace(&word, &port.to_string());
        }
        fs::write(folder.join("cfg"), text).unwrap();
        let mut command = Command::new(&link);
        command.arg("-f").arg(folder.join("cfg")).stdin(Stdio::null());
        let log = fs::File::create(folder.join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut this = Self {
            process: command.spawn().unwrap(),
            folder,
            port: ports[0],
            has_socket: config.contains("SOCKET"),
        };
        this.wait_until_it_listens();
        this
    }

    fn wait_until_it_listens(&mut self) {
        let start = Instant::now();
        // Its command socket, where it has one: a connection to the other would be counted.
        let socket = self.folder.join("socket");
        while UnixStream::connect(&socket).is_err()
            && (self.has_socket || TcpStream::connect(self.address()).is_err())
        {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < LIMIT, "{}", self.log());
            std::thread::sleep(LOOK);
        }
    }

    /// What it said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Where `PORT` is.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Waits until it has no client but its command socket's.
    pub(crate) fn wait_until_idle(&self) {
        let start = Instant::now();
        let idle = |info: String| info.contains("CurrConns: 1\n") || info.contains("CurrConns: 0\n");
        while !idle(self.command("show info")) {
            assert!(start.elapsed() < LIMIT, "connections are never closed");
            std::thread::sleep(LOOK);
        }
    }

    /// The answer to a command on its socket.
    pub(crate) fn command(&self, command: &str) -> String {
        let client = UnixStream::connect(self.folder.join("socket"));
        let mut client = client.unwrap_or_else(|error| panic!("{command}: {error}; {}", self.log()));
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(format!("{command}\n").as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        read.unwrap_or_else(|error| panic!("{command}: {error}; {}", self.log()));
        answer
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Free a moment later too: the system gives numbers out in turn.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// A connection that requests are sent on one after the other, or many at once.
pub(crate) struct Client(BufReader<TcpStream>);

/// An answer as it came.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field; empty without it.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(BufReader::new(stream))
    }

    /// A server that closed already shows in the missing answer.
    pub(crate) fn send(&mut self, requests: &str) {
        self.0.get_mut().write_all(requests.as_bytes()).ok();
    }

    /// One line without its end; none at the end of the connection.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    }

    /// The next answer; none when the connection ends instead.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let start = self.line()?;
        let status = start.split(' ').nth(1)?.parse().ok()?;
        let mut answer = Answer { status, ..Answer::default() };
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            answer.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if answer.field("transfer-encoding") == "chunked" {
            answer.body = self.chunks()?;
        } else {
            answer.body = self.bytes(answer.field("content-length").parse().unwrap_or(0))?;
        }
        Some(answer)
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).ok()?;
            body.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Some(body);
            }
        }
    }

    fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// The words that differ, each with what is expected and what was found.
pub(crate) fn difference(expected: &str, found: &str) -> String {
    let step = expected.lines().next().unwrap_or_default();
    let (e, f): (Vec<&str>, Vec<&str>) =
        (expected.split([' ', '\n']).collect(), found.split([' ', '\n']).collect());
    if e.len() != f.len() {
        return format!("{step}\n  {expected:?}\n  {found:?}");
    }
    let words = e.iter().zip(&f).filter(|(e, f)| e != f).map(|(e, f)| format!("\n    {e}  found {f}"));
    format!("{step}{}", words.collect::<String>())
}
