//! Log lines: when one is due, in which format, and how it gets to its targets.

mod backing_file;
pub(crate) mod early;
pub(crate) mod forwarder;
pub mod hub;
mod message;
pub(crate) mod reminder;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};
use tokio::sync::mpsc;
use weir_config::model::{Config, LogAddress, LogForward, LogProfile, LogTarget, LogWire, Proxy};
use weir_net::Address;
use weir_net::kernel_buffers::KernelBuffers;
use weir_rules::facts::{Environment, LogOrigin};
use weir_rules::table::log_formats;
use weir_rules::{LogFormat, Txn};

use crate::accept::listeners::kernel_buffers;
use crate::exchange::Exchange;
use crate::state::{ServerState, Shared};
use crate::thread::task::spawn_vital;
use hub::{Chooser, LogHub};
use message::{Message, Received};

/// Syslog levels by the names of the `log` keyword.
pub(crate) mod level {
    pub(crate) const EMERG: u8 = 0;
    pub(crate) const ALERT: u8 = 1;
    pub(crate) const ERR: u8 = 3;
    pub(crate) const WARNING: u8 = 4;
    pub(crate) const NOTICE: u8 = 5;
    pub(crate) const INFO: u8 = 6;
    /// `set-log-level silent`
    pub(crate) const SILENT: u8 = 8;
}

/// No structured data (RFC 5424 section 6.3).
const NO_DATA: &[u8] = b"-";

/// Lines that wait for a slow TCP log server; further ones are dropped, as with UDP.
const MAX_QUEUED_LINES: usize = 1024;

/// Writes log lines for one thread.
pub(crate) struct Logger {
    tag: String,
    hostname: Option<String>,
    pid: u32,
    datagrams: RefCell<Datagrams>,
    hub: Arc<LogHub>,
    /// Chooses servers of log backends; only on a worker's own thread.
    chooser: OnceCell<Chooser>,
    tcp: RefCell<HashMap<LogAddress, mpsc::Sender<Vec<u8>>>>,
    /// Standard output and error never wait for their reader.
    unblocked: RefCell<[bool; 2]>,
    /// Formatted time of the second it belongs to.
    second: Cell<i64>,
    stamp: RefCell<String>,
    line: RefCell<Vec<u8>>,
    /// Log servers given by name, resolved at start.
    names: HashMap<LogAddress, Option<LogAddress>>,
    samples: RefCell<HashMap<usize, u32>>,
}

impl Logger {
    pub(crate) fn new(shared: &Shared) -> Self {
        let global = &shared.config.global;
        let program = std::env::args().next().unwrap_or_default();
        let base = program.rsplit('/').next().unwrap_or("weir").to_owned();
        Self {
            tag: global.log_tag.clone().unwrap_or(base),
            hostname: global.log_send_hostname.clone(),
            pid: shared.pid,
            datagrams: RefCell::new(Datagrams::new(&shared.config)),
            hub: Arc::clone(&shared.logs),
            chooser: OnceCell::new(),
            tcp: RefCell::default(),
            unblocked: RefCell::default(),
            second: Cell::new(i64::MIN),
            stamp: RefCell::default(),
            line: RefCell::default(),
            names: resolve_names(&shared.config),
            samples: RefCell::default(),
        }
    }

    /// Lets it choose servers of log backends by itself.
    pub(crate) fn attach(&self, shared: &Arc<Shared>, env: &Rc<dyn Environment>) {
        let chooser = Chooser { shared: Arc::clone(shared), env: Rc::clone(env) };
        // Attached once, by its worker.
        let _attached = self.chooser.set(chooser);
    }

    /// Sends a message to every target that wants its level.
    pub(crate) fn send(&self, targets: &[LogTarget], level: u8, tag: Option<&str>, message: &[u8]) {
        self.send_with(targets, level, tag, NO_DATA, message);
    }

    /// The same with structured data, for targets in the format of RFC 5424.
    fn send_with(&self, targets: &[LogTarget], level: u8, tag: Option<&str>, data: &[u8], message: &[u8]) {
        for target in targets {
            if level > target.level || !self.is_sampled(target) {
                continue;
            }
            let level = level.max(target.min_level);
            let mut line = self.line.borrow_mut();
            line.clear();
            self.header(target, level, tag.unwrap_or(&self.tag), &mut line);
            if target.format == LogWire::Rfc5424 {
                line.extend_from_slice(data);
                line.push(b' ');
            }
            line.extend_from_slice(message);
            self.finish(target, &mut line);
        }
    }

    /// Sends a message of another program on; what its header said is kept.
    pub(crate) fn relay(&self, forward: &LogForward, message: &Message<'_>, from: Option<IpAddr>) {
        /// Level of messages that have none (`notice`).
        const DEFAULT_LEVEL: u8 = level::NOTICE;
        for target in &forward.logs {
            let level = message.priority.map_or(DEFAULT_LEVEL, |priority| priority & 7);
            if level > target.level || !self.is_sampled(target) {
                continue;
            }
            // Manual, section 12.6: the target's facility is for messages without one.
            let facility = message.priority.map_or(target.facility, |priority| priority >> 3);
            let priority = u16::from(facility) * 8 + u16::from(level.max(target.min_level));
            let format = if target.own_format { target.format } else { message.format };
            let mut line = self.line.borrow_mut();
            line.clear();
            let received = Received { bsd: self.bsd_time(), iso: iso_time(), from, host: forward.host };
            message.write_header(format, priority, &received, &mut line);
            line.extend_from_slice(message.text);
            self.finish(target, &mut line);
        }
    }

    /// Cuts a line to its target's length, ends it and sends it.
    fn finish(&self, target: &LogTarget, line: &mut Vec<u8>) {
        line.truncate(target.max_len.saturating_sub(1));
        while line.last() == Some(&b'\n') {
            line.pop();
        }
        line.push(b'\n');
        self.deliver(&target.address, line);
    }

    /// `sample RANGES:SIZE`: whether this line's turn is in the ranges.
    fn is_sampled(&self, target: &LogTarget) -> bool {
        let Some((ranges, size)) = &target.sample else { return true };
        let mut samples = self.samples.borrow_mut();
        // Targets stay where they are for as long as the configuration is in force.
        let turn = samples.entry(std::ptr::from_ref(target) as usize).or_default();
        *turn = *turn % size + 1;
        ranges.iter().any(|(low, high)| (*low..=*high).contains(turn))
    }

    /// What stands before the message in each wire format.
    fn header(&self, target: &LogTarget, level: u8, tag: &str, out: &mut Vec<u8>) {
        let priority = u16::from(target.facility) * 8 + u16::from(level);
        let hostname = self.hostname.as_deref();
        let pid = self.pid;
        // Writing to memory cannot fail.
        let _written = match target.format {
            LogWire::Local => write!(out, "<{priority}>{} {tag}[{pid}]: ", self.bsd_time()),
            LogWire::Rfc3164 => match hostname {
                Some(name) => write!(out, "<{priority}>{} {name} {tag}[{pid}]: ", self.bsd_time()),
                None => write!(out, "<{priority}>{} {tag}[{pid}]: ", self.bsd_time()),
            },
            LogWire::Rfc5424 => {
                let name = hostname.unwrap_or("-");
                write!(out, "<{priority}>1 {} {name} {tag} {pid} - ", iso_time())
            }
            LogWire::Priority => write!(out, "<{priority}>"),
            LogWire::Short => write!(out, "<{level}>"),
            LogWire::Timed => write!(out, "<{level}>{} ", iso_time()),
            LogWire::Iso => write!(out, "{} ", iso_time()),
            LogWire::Raw => Ok(()),
        };
    }

    /// `Nov 21 22:00:00`, formatted once a second.
    fn bsd_time(&self) -> String {
        let now = Timestamp::now();
        if self.second.replace(now.as_second()) != now.as_second() {
            let local = now.to_zoned(TimeZone::system());
            *self.stamp.borrow_mut() = local.strftime("%b %e %H:%M:%S").to_string();
        }
        self.stamp.borrow().clone()
    }

    fn deliver(&self, address: &LogAddress, line: &[u8]) {
        // A log server that is away must not disturb traffic: a line that cannot be sent is lost, as over UDP.
        let _sent = match address {
            LogAddress::Udp(to) => {
                self.datagrams.borrow_mut().send(&Address::Ip(*to), line);
                None
            }
            LogAddress::Unix(path) => {
                self.datagrams.borrow_mut().send(&Address::Unix(path.clone()), line);
                None
            }
            LogAddress::Ring(name) => {
                self.hub.to_ring(name, line);
                None
            }
            LogAddress::Backend(name) => {
                self.deliver_to_backend(name, line);
                None
            }
            LogAddress::Stdout | LogAddress::Fd(1) => {
                Some(self.write_stream(0, rustix::stdio::stdout(), line))
            }
            LogAddress::Stderr | LogAddress::Fd(2) => {
                Some(self.write_stream(1, rustix::stdio::stderr(), line))
            }
            LogAddress::Tcp(_) => {
                self.deliver_tcp(address, line);
                None
            }
            LogAddress::Name(..) => {
                if let Some(Some(resolved)) = self.names.get(address) {
                    self.deliver(resolved, line);
                }
                None
            }
            LogAddress::Fd(_) => None,
        };
    }

    fn deliver_to_backend(&self, name: &str, line: &[u8]) {
        let (Some(chooser), Some(index)) = (self.chooser.get(), self.hub.backend(name)) else {
            return self.hub.to_backend(name, line);
        };
        match chooser.choose(index, line) {
            Some(server) if server.config.datagram => self.datagrams.borrow_mut().send_to(&server, line),
            Some(server) => self.hub.to_server(server, line),
            None => {}
        }
    }

    /// One write for one line. Whoever reads the other end of a pipe may have stopped: traffic does not wait.
    fn write_stream(&self, index: usize, stream: BorrowedFd<'_>, line: &[u8]) -> std::io::Result<usize> {
        if !self.unblocked.borrow_mut()[index] && !rustix::termios::isatty(stream) {
            let flags = rustix::fs::fcntl_getfl(stream)?;
            rustix::fs::fcntl_setfl(stream, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        self.unblocked.borrow_mut()[index] = true;
        Ok(rustix::io::write(stream, line)?)
    }

    /// Lines to a TCP server go through a task that reconnects; a full queue drops them.
    fn deliver_tcp(&self, address: &LogAddress, line: &[u8]) {
        let mut senders = self.tcp.borrow_mut();
        let sender = senders.entry(address.clone()).or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED_LINES);
            if let LogAddress::Tcp(to) = address {
                spawn_vital(write_tcp(*to, receiver));
            }
            sender
        });
        let _queued_or_dropped = sender.try_send(line.to_vec());
    }
}

/// Sockets that datagrams are sent from, opened when there is something to send.
struct Datagrams {
    /// `tune.sndbuf.backend`, `tune.rcvbuf.backend`
    buffers: KernelBuffers,
    udp: [Option<UdpSocket>; 2],
    unix: Option<UnixDatagram>,
}

impl Datagrams {
    fn new(config: &Config) -> Self {
        let buffers = kernel_buffers(config.global.tune.backend_datagrams);
        Self { buffers, udp: [None, None], unix: None }
    }

    fn send_to(&mut self, server: &ServerState, bytes: &[u8]) {
        if let Some(address) = &server.addr.load().address {
            self.send(address, bytes);
        }
    }

    /// Sends a datagram; one that the system does not take now is lost.
    fn send(&mut self, to: &Address, bytes: &[u8]) {
        let _sent = match to {
            Address::Ip(to) => {
                let socket = &mut self.udp[usize::from(to.is_ipv6())];
                if socket.is_none() {
                    *socket = bind_udp(to.is_ipv6(), &self.buffers).ok();
                }
                socket.as_ref().map(|socket| socket.send_to(bytes, to))
            }
            Address::Unix(path) => {
                if self.unix.is_none() {
                    self.unix = unbound(&self.buffers).ok();
                }
                self.unix.as_ref().map(|socket| socket.send_to(bytes, path))
            }
            Address::Abstract(_) | Address::Unnamed => None,
        };
    }
}

/// Resolves the log servers that are given by name.
fn resolve_names(config: &Config) -> HashMap<LogAddress, Option<LogAddress>> {
    let of_apps = config.fcgi_apps.values().flat_map(|app| &app.logs);
    let of_proxies = config.proxies.iter().flat_map(|proxy| &proxy.logs);
    let targets = of_proxies.chain(of_apps).chain(&config.global.logs);
    let mut names = HashMap::new();
    for target in targets {
        if let LogAddress::Name(host, port, tcp) = &target.address {
            names.entry(target.address.clone()).or_insert_with(|| {
                let found = crate::control::resolve::lookup(host, *port)?;
                Some(if *tcp { LogAddress::Tcp(found) } else { LogAddress::Udp(found) })
            });
        }
    }
    names
}

impl Shared {
    /// Writes a line to the process's own log targets (`log` in `global`) at once.
    pub fn log(&self, level: u8, text: &str) {
        Logger::new(self).send(&self.config.global.logs, level, None, text.as_bytes());
    }
}

/// Sends lines over a connection that is opened when there is something to send.
async fn write_tcp(to: std::net::SocketAddr, mut lines: mpsc::Receiver<Vec<u8>>) {
    let options = weir_net::connect::ConnectOptions::default();
    let mut stream = None;
    while let Some(line) = lines.recv().await {
        if stream.is_none() {
            stream = weir_net::connect::connect(&weir_net::Address::Ip(to), &options).await.ok();
        }
        if let Some(open) = &mut stream
            && open.write_all(&line).await.is_err()
        {
            stream = None;
        }
    }
}

fn bind_udp(ipv6: bool, buffers: &KernelBuffers) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(if ipv6 { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.set_nonblocking(true)?;
    buffers.set_on_datagrams(&socket)?;
    Ok(socket)
}

fn unbound(buffers: &KernelBuffers) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    buffers.set_on_datagrams(&socket)?;
    Ok(socket)
}

fn iso_time() -> String {
    Timestamp::now().to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string()
}

/// Logs an exchange that is over.
pub(crate) fn exchange(x: &mut Exchange) {
    if x.logged {
        return;
    }
    let front = Rc::clone(x.worker.proxy(x.front));
    if x.txn.status == 0 && x.txn.termination == *b"----" && x.txn.bytes_out == 0 && front.options.dontlognull
    {
        return;
    }
    if front.log_steps.is_default() || front.log_steps.has(LogOrigin::Close) {
        transaction(&x.worker.logger, &front, &x.txn, LogOrigin::Close);
    }
}

/// A step of an exchange at which `log-steps` may want a line.
pub(crate) fn step(x: &Exchange, origin: LogOrigin) {
    let front = x.worker.proxy(x.front);
    if front.log_steps.has(origin) {
        transaction(&x.worker.logger, front, &x.txn, origin);
    }
}

/// Logs a transaction of a frontend, if its options want it.
fn transaction(logger: &Logger, front: &Proxy, txn: &Txn, origin: LogOrigin) {
    transaction_by(None, logger, front, txn, origin);
}

/// The same, by another profile than those of the targets.
pub(crate) fn transaction_by(
    other: Option<&LogProfile>,
    logger: &Logger,
    front: &Proxy,
    txn: &Txn,
    origin: LogOrigin,
) {
    if front.logs.is_empty() {
        return;
    }
    let failed = !matches!(txn.termination[0], b'-' | b'L') || txn.retries > 0;
    let bad_status = front.mode == weir_config::model::Mode::Http && txn.status >= 500;
    if front.options.dontlog_normal && !failed && !bad_status {
        return;
    }
    let error = failed && front.options.log_separate_errors;
    let level = match txn.log_level.or_else(|| txn.session.log_level.get()) {
        Some(level::SILENT) => return,
        Some(level) => level,
        None if error => level::ERR,
        None => level::INFO,
    };
    txn.log_origin.set(origin);
    let message = OnceCell::new();
    let data = OnceCell::new();
    let message = || message.get_or_init(|| message_of(front, txn, failed));
    let data = || data.get_or_init(|| rendered(front.log_format_sd.as_ref(), txn).unwrap_or_default());
    for target in &front.logs {
        let profile = other.or_else(|| target.profile.as_ref().map(|named| &*named.profile));
        let line = profile.and_then(|profile| profile.line(origin, failed));
        if line.is_some_and(|line| line.drop) {
            continue;
        }
        let own = rendered(line.and_then(|line| line.format.as_ref()), txn);
        let own_data = rendered(line.and_then(|line| line.data.as_ref()), txn);
        let tag = profile.and_then(|profile| profile.tag.as_deref()).or(front.log_tag.as_deref());
        let data = own_data.as_deref().unwrap_or_else(|| data());
        let data = if data.is_empty() { NO_DATA } else { data };
        let message = own.as_deref().unwrap_or_else(|| message());
        logger.send_with(std::slice::from_ref(target), level, tag, data, message);
    }
}

fn rendered(format: Option<&LogFormat>, txn: &Txn) -> Option<Vec<u8>> {
    format.map(|format| format.to_vec(txn))
}

/// The line in the frontend's own format.
fn message_of(front: &Proxy, txn: &Txn, failed: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(256);
    let error_format = front.error_log_format.as_ref().filter(|_| failed);
    match error_format.or(front.log_format.as_ref()).or_else(|| built_in(front)) {
        Some(format) => format.render(txn, &mut message),
        None => plain(front, txn, &mut message),
    }
    message
}

/// `option logasap`: the line is written when the server has answered; what only the end shows is marked with `+`.
pub(crate) fn as_soon_as_possible(x: &mut Exchange) {
    let front = Rc::clone(x.worker.proxy(x.front));
    if !front.options.logasap || x.logged {
        return;
    }
    x.logged = true;
    x.txn.log_asap = true;
    x.note_total();
    transaction(&x.worker.logger, &front, &x.txn, LogOrigin::Response);
}

/// The format chosen by `option httplog` and its like.
fn built_in(front: &Proxy) -> Option<&'static LogFormat> {
    let options = &front.options;
    if options.httplog_clf {
        return Some(log_formats::clflog());
    }
    if options.httpslog {
        return Some(log_formats::httpslog());
    }
    if options.httplog {
        return Some(log_formats::httplog());
    }
    if options.tcplog_clf {
        return Some(log_formats::tcpclf());
    }
    options.tcplog.then(log_formats::tcplog)
}

/// The line without any format (manual, 8.2.1).
fn plain(front: &Proxy, txn: &Txn, out: &mut Vec<u8>) {
    let text = |address: Option<std::net::SocketAddr>| match address {
        Some(address) => format!("{}:{}", address.ip().to_canonical(), address.port()),
        None => "unix:1".to_owned(),
    };
    let mode = if front.mode == weir_config::model::Mode::Http { "HTTP" } else { "TCP" };
    // Writing to memory cannot fail.
    let _written =
        write!(out, "Connect from {} to {} ({}/{mode})", text(txn.src()), text(txn.dst()), front.name);
}
