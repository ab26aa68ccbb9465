//! One check, from connecting to its outcome: drives a script over a socket, within its time.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{Check, CheckConnect, FcgiApp, OtherCheck, Proto, Proxy, SendProxy};
use weir_http::proxy_protocol::{self as wire, Addresses, Command, V2Options};
use weir_net::connect::{ConnectOptions, connect};
use weir_net::timers::{Deadline, now_ms};
use weir_net::{Address, Stream};
use weir_rules::facts::ProxyName;
use weir_rules::{Environment, Session, Txn, Value};

use super::external;
use super::http::Wire;
use super::script::{Layer, Next, Run, Script};
use super::standing::ms;
use super::status::{Outcome, Status};
use crate::server::reach::socket_options;
use crate::server::reach::socks4;
use crate::server::reach::tls;
use crate::state::ServerState;
use crate::thread::worker::Worker;

/// Most bytes of an agent's answer that are looked at for the end of its line.
const MAX_AGENT_LINE: usize = 4096;

/// Runs the health check of a server.
pub(crate) async fn check(worker: &Rc<Worker>, server: &Arc<ServerState>) -> Outcome {
    let proxy = Rc::clone(worker.proxy(server.proxy));
    let Some(check) = &server.config.check else { return Outcome::default() };
    let checks = worker.config().checks(&proxy, &server.config);
    let scripted = checks.httpchk.is_some() || checks.tcpchk.is_some();
    if checks.other_check == Some(OtherCheck::External) && !scripted {
        let limit = proxy.timeouts.check.unwrap_or(check.inter);
        return external::run(&worker.config().global, &proxy, server, limit).await;
    }
    let script = Script::of(checks);
    let state = script.sends_state().then(|| state_header(worker, server));
    let is_up = server.health() != crate::state::Health::Down;
    let txn = transaction(worker, server, &proxy);
    let mut run = Run::new(&script, worker.config(), txn, state, is_up);
    let layer = Cell::new(Layer::Connecting);
    let mut time = Time::new(&proxy, check.inter);
    let mut line: Option<Line> = None;
    let mut buffer = Vec::new();
    loop {
        let worked = match (run.next(), &mut line) {
            (Next::Done(outcome), _) => return outcome,
            (Next::Connect(connect), line) => {
                *line = None;
                let plan = Plan::new(worker, server, connect, check, &script, run.txn());
                let opened = match plan {
                    Err(outcome) => return outcome,
                    Ok(plan) => time.connecting(plan.open(&layer)).await,
                };
                opened.map(|opened| {
                    run.connected(opened.stream.is_tls(), opened.wire);
                    *line = Some(Line { stream: opened.stream, linger: connect.linger });
                })
            }
            (_, None) => Err(Failure::Error(io::ErrorKind::NotConnected.into())),
            (Next::Write(bytes), Some(line)) => time.bound(line.write(&bytes)).await,
            (Next::Read, Some(line)) => read(&mut run, line, &mut time, &mut buffer).await,
        };
        match worked {
            Ok(()) => {}
            Err(Failure::Time) => return run.timed_out(layer.get()),
            Err(Failure::Error(error)) => {
                return run.failed(layer.get(), &describe(&error, layer.get()));
            }
        }
    }
}

/// Takes what the server says, or that it says no more, into the script.
async fn read(
    run: &mut Run<'_>,
    line: &mut Line,
    time: &mut Time,
    buffer: &mut Vec<u8>,
) -> Result<(), Failure> {
    buffer.clear();
    let room = run.room().max(1);
    match time.bound(line.stream.read(buffer, room)).await {
        Ok(0) => run.ended(),
        Ok(_) => run.received(buffer),
        // A server that closes without having read everything ends with RST: an end all the same.
        Err(Failure::Error(error)) if error.kind() == io::ErrorKind::ConnectionReset => run.ended(),
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// Asks a server's agent; its line, or how asking failed.
pub(crate) async fn ask_agent(worker: &Rc<Worker>, server: &Arc<ServerState>) -> Result<Vec<u8>, Outcome> {
    let proxy = Rc::clone(worker.proxy(server.proxy));
    let Some(agent) = &server.config.agent_check else { return Err(Outcome::default()) };
    let layer = Cell::new(Layer::Connecting);
    let mut time = Time::new(&proxy, agent.inter);
    let settings = server.standing.agent_target();
    let mut address = server.addr.load().address.clone();
    match (&mut address, settings.addr) {
        (address, Some(ip)) => *address = Some(Address::Ip(SocketAddr::new(ip, settings.port.unwrap_or(0)))),
        (Some(Address::Ip(known)), None) => known.set_port(settings.port.unwrap_or_else(|| known.port())),
        _ => {}
    }
    let Some(address) = address else { return Err(Outcome::new(Status::SocketError, "")) };
    let options = check_options(worker, server);
    let asked = async {
        let stream = connect(&address, &options).await?;
        layer.set(Layer::Established);
        let mut line = Line { stream, linger: false };
        line.write(&server.standing.agent_send()).await?;
        let mut answer = Vec::new();
        while answer.len() < MAX_AGENT_LINE && !answer.iter().any(|b| matches!(b, b'\r' | b'\n')) {
            if line.stream.read(&mut answer, MAX_AGENT_LINE).await? == 0 {
                break;
            }
        }
        io::Result::Ok(answer)
    };
    let failure = match time.bound(asked).await {
        Ok(answer) => return Ok(answer),
        Err(failure) => failure,
    };
    Err(match (layer.get(), failure) {
        (Layer::Connecting, Failure::Time) => Outcome::new(Status::L4Timeout, ""),
        (_, Failure::Time) => Outcome::new(Status::L7Timeout, ""),
        (Layer::Connecting, Failure::Error(error)) => {
            Outcome::new(Status::L4Connection, describe(&error, Layer::Connecting))
        }
        (layer, Failure::Error(error)) => Outcome::new(Status::SocketError, describe(&error, layer)),
    })
}

/// An open connection; closed with RST so that thousands of checks leave no sockets in TIME-WAIT.
struct Line {
    stream: Stream,
    linger: bool,
}

impl Line {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.linger {
            self.stream.set_no_linger();
        }
    }
}

/// Why a part of a check was not done.
enum Failure {
    Time,
    Error(io::Error),
}

/// The time a check has.
struct Time {
    deadline: Deadline,
    until_ms: u64,
    connect: Option<Duration>,
    check: Option<Duration>,
}

/// When so much time has passed for certain.
fn after(time: Duration) -> u64 {
    // The millisecond that has begun does not count.
    now_ms().saturating_add(ms(time)).saturating_add(1)
}

impl Time {
    /// Manual, `timeout check`: without it the interval is the limit of the whole check.
    fn new(proxy: &Proxy, inter: Duration) -> Self {
        Self {
            deadline: Deadline::new(),
            until_ms: after(inter),
            connect: proxy.timeouts.connect,
            check: proxy.timeouts.check,
        }
    }

    async fn bound<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> Result<T, Failure> {
        self.deadline.set(self.until_ms);
        tokio::select! {
            biased;
            done = work => done.map_err(Failure::Error),
            () = self.deadline.expired() => Err(Failure::Time),
        }
    }

    /// Connecting has `timeout connect` or the interval, whichever is shorter; `timeout check` begins when the
    /// connection is there.
    async fn connecting<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> Result<T, Failure> {
        let whole_until_ms = self.until_ms;
        if let (Some(_), Some(connect)) = (self.check, self.connect) {
            self.until_ms = self.until_ms.min(after(connect));
        }
        let done = self.bound(work).await?;
        self.until_ms = match self.check {
            Some(check) => after(check),
            None => whole_until_ms,
        };
        Ok(done)
    }
}

/// Where and how to connect.
struct Plan<'a> {
    server: &'a Arc<ServerState>,
    address: Address,
    options: ConnectOptions,
    socks4: Option<SocketAddr>,
    send_proxy: Option<SendProxy>,
    tls: bool,
    sni: Option<Vec<u8>>,
    alpn: Option<&'a [Vec<u8>]>,
    proto: Option<Proto>,
    /// Of the backend.
    app: Option<&'a FcgiApp>,
    /// `pp2-never-send-local`
    never_local: bool,
}

/// A connection that is ready for the script.
struct Opened<'a> {
    stream: Stream,
    wire: Wire<'a>,
}

impl<'a> Plan<'a> {
    fn new(
        worker: &'a Worker,
        server: &'a Arc<ServerState>,
        step: &'a CheckConnect,
        check: &'a Check,
        script: &Script<'a>,
        txn: &Txn,
    ) -> Result<Self, Outcome> {
        let config = &server.config;
        // Manual, `check`: on another address or port the service's own encapsulation does not apply; servers
        // added at run time say everything themselves.
        let elsewhere = check.addr.is_some() || check.port.is_some() || server.dynamic;
        let of_line = |own: bool, of_line: bool| own || (step.default && of_line);
        let tls = check.ssl.unwrap_or_else(|| config.ssl.is_some() && !elsewhere);
        let proxied = check.send_proxy || (config.send_proxy.is_some() && !elsewhere);
        let send_proxy = of_line(step.send_proxy, proxied);
        let socks4 = of_line(step.via_socks4, check.via_socks4);
        let tls = of_line(step.ssl, tls);
        let address = address(server, step, txn).ok_or_else(|| Outcome::new(Status::SocketError, ""))?;
        let sni = step.sni.as_deref().or_else(|| check.sni.as_deref().filter(|_| step.default));
        Ok(Self {
            server,
            address,
            options: check_options(worker, server),
            socks4: config.socks4.filter(|_| socks4),
            send_proxy: send_proxy.then(|| config.send_proxy.clone().unwrap_or_default()),
            tls,
            sni: sni
                .map(|name| name.as_bytes().to_vec())
                .or_else(|| if check.no_sni_auto { None } else { script.host(step, txn) }),
            alpn: step.alpn.as_deref().or_else(|| check.alpn.as_deref().filter(|_| step.default)),
            proto: step.proto.or(check.proto).or(config.proto),
            app: worker.config().fcgi_app(worker.proxy(server.proxy)),
            never_local: worker.config().global.pp2_never_send_local,
        })
    }

    async fn open(self, layer: &Cell<Layer>) -> io::Result<Opened<'a>> {
        layer.set(Layer::Connecting);
        let mut stream = socks4::connect_by(self.socks4, &self.address, &self.options).await?;
        layer.set(Layer::Handshake);
        if let Some(send) = &self.send_proxy {
            stream.write_all(&proxy_header(send, &stream, &self.address, self.never_local)).await?;
        }
        let mut spoken = match (self.proto, self.app) {
            (Some(Proto::H2), _) => Wire::H2,
            (Some(Proto::Fcgi), Some(app)) => Wire::Fcgi(app),
            _ => Wire::H1,
        };
        if self.tls {
            let facts = tls::connect(&mut stream, self.server, self.sni.as_deref(), self.alpn).await?;
            // Nothing may follow: the end of the handshake has to go out by itself.
            stream.flush().await?;
            if self.proto.is_none() && facts.alpn() == Some(b"h2") {
                spoken = Wire::H2;
            }
        }
        layer.set(Layer::Established);
        Ok(Opened { stream, wire: spoken })
    }
}

/// A check's socket: lingering is the script's to say, and the first write is not worth a cookie.
fn check_options(worker: &Worker, server: &ServerState) -> ConnectOptions {
    ConnectOptions { no_linger: false, fast_open: false, ..socket_options(worker, server) }
}

/// The step's address and port, else the check's, else the server's.
fn address(server: &ServerState, step: &CheckConnect, txn: &Txn) -> Option<Address> {
    let target = server.standing.check_target();
    let known = server.addr.load().address.clone();
    let ip = step.addr.map(|addr| addr.ip()).or(target.addr);
    let known_port = known.as_ref().and_then(Address::port);
    let address = match (ip, known?) {
        (Some(ip), _) => SocketAddr::new(ip, 0),
        (None, Address::Ip(known)) => known,
        (None, other) => return Some(other),
    };
    let by_expression = || match step.port_expr.as_ref()?.eval(txn)? {
        Value::Int(port) => u16::try_from(port).ok(),
        value => std::str::from_utf8(&value.into_bytes()).ok()?.parse().ok(),
    };
    let port = step
        .port
        .or_else(by_expression)
        .or_else(|| step.addr.map(|addr| addr.port()).filter(|port| *port != 0))
        .or(target.port)
        .or(known_port)?;
    Some(Address::Ip(SocketAddr::new(address.ip(), port)))
}

/// A check is nobody's connection: version 2 says so, version 1 can only tell our own addresses.
fn proxy_header(send: &SendProxy, stream: &Stream, to: &Address, never_local: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if send.v2 && !never_local {
        // Without extensions the header always fits.
        let _fits = wire::write_v2(Command::Local, &Addresses::Unspecified, &V2Options::default(), &mut out);
        return out;
    }
    let local = stream.local_addr().ok().and_then(|address| address.socket_addr());
    let addresses = match (local, to) {
        (Some(source), Address::Ip(destination)) => Addresses::Tcp { source, destination: *destination },
        _ => Addresses::Unspecified,
    };
    if send.v2 {
        let _fits = wire::write_v2(Command::Proxy, &addresses, &V2Options::default(), &mut out);
    } else {
        wire::write_v1(&addresses, &mut out);
    }
    out
}

/// An error in the words of the system, and whether it was one of this machine.
fn describe(error: &io::Error, layer: Layer) -> String {
    if layer == Layer::Handshake {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "Connection closed during SSL handshake".to_owned(),
            io::ErrorKind::ConnectionReset => {
                "Connection error during SSL handshake (Connection reset by peer)".to_owned()
            }
            _ => "SSL handshake failure".to_owned(),
        };
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let of_the_peer = matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Other
    );
    match of_the_peer || layer == Layer::Established {
        true => text.to_owned(),
        false => format!("General socket error ({text})"),
    }
}

/// What expressions of a check may look at: the backend, the server, and variables.
fn transaction(worker: &Worker, server: &ServerState, proxy: &Proxy) -> Txn {
    let mut txn = nobodys_transaction(&worker.env, proxy, server.proxy);
    txn.server = Some(Arc::clone(&server.config.name));
    txn.server_id = server.config.id;
    txn.server_addr = server.addr.load().ip();
    txn
}

/// A transaction of no client, in a backend.
fn nobodys_transaction(env: &Rc<dyn Environment>, proxy: &Proxy, index: usize) -> Txn {
    let name = ProxyName { name: Arc::clone(&proxy.name), id: proxy.id, index };
    let session = Session { accept_us: env.wall_us(), ..Session::new(name.clone(), "".into()) };
    let mut txn = Txn::new(Rc::new(session), Rc::clone(env));
    txn.backend = Some(name);
    txn
}

#[cfg(test)]
pub(super) fn transaction_for_tests(shared: &Arc<crate::state::Shared>, proxy: &Proxy) -> Txn {
    let env = crate::thread::environment::WorkerEnvironment::new(shared, 0);
    let env: Rc<dyn Environment> = Rc::new(env);
    nobodys_transaction(&env, proxy, 0)
}

/// `http-check send-state`
fn state_header(worker: &Worker, server: &ServerState) -> String {
    use std::sync::atomic::Ordering::Relaxed;
    let (address, port) = match server.addr.load().address.clone() {
        Some(Address::Ip(ip)) => (ip.ip().to_string(), ip.port().to_string()),
        _ => ("unix".to_owned(), "unix".to_owned()),
    };
    let shared = &worker.shared;
    let state = &shared.proxies[server.proxy];
    let node = worker.config().global.node.as_deref().unwrap_or(&shared.hostname);
    let total: u32 =
        state.servers.load().iter().filter(|s| s.is_usable()).map(|s| s.weight.load(Relaxed)).sum();
    format!(
        "{}; address={address}; port={port}; name={}/{}; node={node}; weight={}/{total}; scur={}/{}; qcur={}",
        server.standing().status(),
        worker.proxy(server.proxy).name,
        server.config.name,
        server.weight.load(Relaxed),
        server.served.now(),
        state.back_current.now(),
        server.queue.len(),
    )
}
