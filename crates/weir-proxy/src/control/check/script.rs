//! A check as a script of steps: connect, send, expect.
//!
//! ```text
//! next() -> Connect  then connected() or the end
//!        -> Write    then next() again
//!        -> Read     then received() or ended()
//!        -> Done
//! ```
//! Pure: bytes in, bytes out; the sockets and the time are [`super::attempt`]'s.

use weir_config::model::{CheckConnect, CheckPayload, Checks, Config, TcpCheckStep};
use weir_rules::{Expr, LogFormat, Txn, Value};

use super::expect::{Expectation, Verdict, rendered, text};
use super::http::{Codec, HttpSend, Reply, Wire};
use super::protocols::{self, Answer, Judgement};
use super::status::{Outcome, Status};

/// The connection of a script that has none of its own.
static IMPLICIT: CheckConnect = CheckConnect::IMPLICIT;

/// A step.
pub(crate) enum Step<'a> {
    Connect(&'a CheckConnect),
    Send(&'a CheckPayload),
    Bytes(Vec<u8>),
    HttpSend(HttpSend<'a>),
    Expect(Expectation<'a>),
    /// The answer of a built-in protocol.
    Protocol(Answer),
    SetVar {
        name: &'a [u8],
        value: Result<&'a Expr, &'a LogFormat>,
    },
    UnsetVar {
        name: &'a [u8],
    },
}

/// A step with what is told of it.
struct Line<'a> {
    step: Step<'a>,
    comment: Option<&'a str>,
    /// Its number among the lines of the configuration.
    number: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Connect,
    Tcp,
    Http,
    Protocol,
}

/// The script of a backend.
pub(crate) struct Script<'a> {
    kind: Kind,
    lines: Vec<Line<'a>>,
    disable_on_404: bool,
    send_state: bool,
}

impl<'a> Script<'a> {
    /// What the backend's options ask for, or those of a `healthcheck` section.
    pub(crate) fn of(checks: &'a Checks) -> Self {
        if let Some(check) = &checks.httpchk {
            let mut script = Self::new(Kind::Http, steps(&check.steps));
            script.disable_on_404 = check.disable_on_404;
            script.send_state = check.send_state;
            return script;
        }
        if let Some(steps_of_lines) = &checks.tcpchk {
            return Self::new(Kind::Tcp, steps(steps_of_lines));
        }
        match &checks.other_check {
            Some(check) => {
                let steps = protocols::steps(check).into_iter().map(|step| (step, None)).collect();
                Self::new(Kind::Protocol, steps)
            }
            None => Self::new(Kind::Connect, Vec::new()),
        }
    }

    fn new(kind: Kind, mut steps: Vec<(Step<'a>, Option<&'a str>)>) -> Self {
        let first =
            steps.iter().position(|(step, _)| !matches!(step, Step::SetVar { .. } | Step::UnsetVar { .. }));
        let starts = first.is_some_and(|at| matches!(steps[at].0, Step::Connect(_)));
        if !starts {
            steps.insert(first.unwrap_or(steps.len()), (Step::Connect(&IMPLICIT), None));
        }
        let mut number = 0;
        let lines = steps.into_iter().map(|(step, comment)| {
            let implicit = matches!(&step, Step::Connect(connect) if connect.implicit);
            number += usize::from(!implicit);
            Line { step, comment, number: number.max(1) }
        });
        Self { kind, lines: lines.collect(), disable_on_404: false, send_state: false }
    }

    /// The Host of the first request, the server name for TLS where the script has no connection of its own
    /// (manual, `check-sni-auto`).
    pub(crate) fn host(&self, connect: &CheckConnect, txn: &Txn) -> Option<Vec<u8>> {
        let send = self.lines.iter().find_map(|line| match &line.step {
            Step::HttpSend(send) => Some(send),
            _ => None,
        });
        send.filter(|_| connect.implicit)?.host(txn)
    }

    /// Requests tell the server its state.
    pub(crate) fn sends_state(&self) -> bool {
        self.send_state
    }
}

fn steps(lines: &[TcpCheckStep]) -> Vec<(Step<'_>, Option<&str>)> {
    lines.iter().map(|line| (step(line), comment(line).map(String::as_str))).collect()
}

fn step(line: &TcpCheckStep) -> Step<'_> {
    match line {
        TcpCheckStep::Connect(connect) => Step::Connect(connect),
        TcpCheckStep::Send { data, .. } => Step::Send(data),
        TcpCheckStep::HttpSend { .. } | TcpCheckStep::Expect { .. } => {
            match (HttpSend::of(line), Expectation::of(line)) {
                (Some(send), _) => Step::HttpSend(send),
                (None, Some(expectation)) => Step::Expect(expectation),
                (None, None) => Step::Bytes(Vec::new()),
            }
        }
        TcpCheckStep::SetVar { name, value } => Step::SetVar { name, value: value.as_ref() },
        TcpCheckStep::UnsetVar { name } => Step::UnsetVar { name },
    }
}

fn comment(line: &TcpCheckStep) -> Option<&String> {
    match line {
        TcpCheckStep::Connect(CheckConnect { comment, .. })
        | TcpCheckStep::Send { comment, .. }
        | TcpCheckStep::HttpSend { comment, .. }
        | TcpCheckStep::Expect { comment, .. } => comment.as_ref(),
        TcpCheckStep::SetVar { .. } | TcpCheckStep::UnsetVar { .. } => None,
    }
}

/// How far a connection had come when it failed or its time was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layer {
    Connecting,
    Handshake,
    Established,
}

/// What the driver has to do.
pub(crate) enum Next<'a> {
    Connect(&'a CheckConnect),
    Write(Vec<u8>),
    Read,
    Done(Outcome),
}

/// One run of a script.
pub(crate) struct Run<'a> {
    script: &'a Script<'a>,
    config: &'a Config,
    at: usize,
    txn: Txn,
    /// Bytes since the last request; in HTTP only their number counts.
    input: Vec<u8>,
    ended: bool,
    must_read: bool,
    tls: bool,
    codec: Option<Codec<'a>>,
    reply: Reply,
    /// For `send-state`.
    state: Option<String>,
    /// 404 stops instead of failing.
    may_stop: bool,
    code: u16,
    /// What the last good answer of a protocol said.
    info: Vec<u8>,
}

impl<'a> Run<'a> {
    /// `state` is told with `send-state`; `is_up` lets a 404 stop the server (`disable-on-404`).
    pub(crate) fn new(
        script: &'a Script<'a>,
        config: &'a Config,
        txn: Txn,
        state: Option<String>,
        is_up: bool,
    ) -> Self {
        Self {
            may_stop: script.disable_on_404 && is_up,
            script,
            config,
            at: 0,
            txn,
            input: Vec::new(),
            ended: false,
            must_read: false,
            tls: false,
            codec: None,
            reply: Reply::default(),
            state,
            code: 0,
            info: Vec::new(),
        }
    }

    /// The transaction that expressions look at.
    pub(crate) fn txn(&self) -> &Txn {
        &self.txn
    }

    /// Runs until something has to be done.
    pub(crate) fn next(&mut self) -> Next<'a> {
        loop {
            let script = self.script;
            let Some(line) = script.lines.get(self.at) else { return Next::Done(self.success()) };
            match &line.step {
                Step::Connect(connect) => return Next::Connect(connect),
                Step::Send(payload) => {
                    let bytes = text(payload, &self.txn);
                    self.sent();
                    return Next::Write(bytes);
                }
                Step::Bytes(bytes) => {
                    self.sent();
                    return Next::Write(bytes.clone());
                }
                Step::HttpSend(send) => match self.request(send) {
                    Some(bytes) => return Next::Write(bytes),
                    None => return Next::Done(Outcome::new(Status::L7Response, "")),
                },
                Step::SetVar { name, value } => {
                    let value = match value {
                        Ok(expr) => expr.eval(&self.txn).map(owned),
                        Err(format) => Some(Value::Str(rendered(format, &self.txn).into())),
                    };
                    set_var(&mut self.txn, name, value);
                    self.at += 1;
                }
                Step::UnsetVar { name } => {
                    set_var(&mut self.txn, name, None);
                    self.at += 1;
                }
                Step::Expect(_) | Step::Protocol(_) => {
                    if let Some(output) = self.codec.as_mut().and_then(Codec::output) {
                        return Next::Write(output);
                    }
                    if self.must_read {
                        return Next::Read;
                    }
                    if let Some(outcome) = self.judge(line) {
                        return Next::Done(outcome);
                    }
                }
            }
        }
    }

    fn sent(&mut self) {
        self.input.clear();
        self.txn.response_body.clear();
        self.must_read = true;
        self.at += 1;
    }

    fn request(&mut self, send: &HttpSend<'a>) -> Option<Vec<u8>> {
        self.reply = Reply::default();
        self.txn.response = None;
        let bytes = self.codec.as_mut()?.send(send, &self.txn, self.state.as_deref())?;
        self.sent();
        Some(bytes)
    }

    /// The connection is there.
    pub(crate) fn connected(&mut self, tls: bool, wire: Wire<'a>) {
        self.tls = tls;
        self.ended = false;
        self.input.clear();
        self.txn.response_body.clear();
        self.must_read = true;
        if self.script.kind == Kind::Http {
            self.codec = Some(Codec::new(wire, self.config));
        }
        self.at += 1;
    }

    /// Bytes that may still be received.
    pub(crate) fn room(&self) -> usize {
        let limit = self.config.global.tune.bufsize;
        limit.saturating_sub(self.input.len().max(self.txn.response_body.len()))
    }

    /// Takes received bytes in.
    pub(crate) fn received(&mut self, bytes: &[u8]) {
        self.must_read = false;
        match &mut self.codec {
            Some(codec) => codec.receive(bytes, &mut self.reply, &mut self.txn),
            None => {
                self.input.extend_from_slice(bytes);
                self.txn.response_body.extend_from_slice(bytes);
            }
        }
    }

    /// The server sends no more.
    pub(crate) fn ended(&mut self) {
        self.must_read = false;
        self.ended = true;
        if let Some(codec) = &mut self.codec {
            codec.end(&mut self.reply);
        }
    }

    /// Judges an answer: on with the next step, back to reading, or the end.
    fn judge(&mut self, line: &Line<'a>) -> Option<Outcome> {
        let verdict = match &line.step {
            Step::Protocol(answer) => return self.judge_protocol(*answer, line),
            Step::Expect(expectation) if self.codec.is_some() => self.judge_http(expectation, line),
            Step::Expect(expectation) => self.judge_bytes(expectation, line),
            _ => Ok(Verdict::Met),
        };
        match verdict {
            Err(outcome) => Some(outcome),
            Ok(Verdict::Met) => {
                self.at += 1;
                None
            }
            Ok(Verdict::Wait) => {
                self.wait();
                None
            }
            Ok(Verdict::Missed { status, info }) => {
                let Step::Expect(expectation) = &line.step else { return None };
                Some(self.missed(expectation, line, status, info))
            }
        }
    }

    /// More bytes are needed.  What must not come is looked for again in all of them.
    fn wait(&mut self) {
        let lines = &self.script.lines[..self.at];
        let passive = |line: &&Line<'_>| {
            matches!(line.step, Step::Expect(_) | Step::SetVar { .. } | Step::UnsetVar { .. })
        };
        let negated = |line: &Line<'_>| matches!(&line.step, Step::Expect(expect) if expect.negate);
        let chain = lines.iter().rev().take_while(passive);
        let back = chain.enumerate().filter(|(_, line)| negated(line)).last();
        if let Some((steps_back, _)) = back {
            self.at -= steps_back + 1;
        }
        self.must_read = true;
    }

    fn is_last(&self) -> bool {
        self.ended || self.room() == 0
    }

    fn judge_bytes(&self, expectation: &Expectation<'_>, line: &Line<'_>) -> Result<Verdict, Outcome> {
        if self.input.is_empty() && self.is_last() {
            let status = expectation.error_status.unwrap_or(Status::L7Response);
            return Err(self.empty(status, line));
        }
        Ok(expectation.judge_bytes(&self.input, self.is_last(), &self.txn))
    }

    fn empty(&self, status: Status, line: &Line<'_>) -> Outcome {
        let mut text = format!("TCPCHK got an empty response at step {}", line.number);
        if let Some(comment) = line.comment {
            text += &format!(" comment: '{comment}'");
        }
        Outcome::new(status, text)
    }

    fn judge_http(&mut self, expectation: &Expectation<'_>, line: &Line<'_>) -> Result<Verdict, Outcome> {
        let last = self.is_last() || self.reply.complete;
        let (false, Some(response)) = (self.reply.broken, &self.txn.response) else {
            if !self.reply.broken && !last {
                return Ok(Verdict::Wait);
            }
            return Err(self.missed(expectation, line, Status::L7Response, None));
        };
        self.code = response.status;
        if self.may_stop && response.status == 404 {
            return Ok(Verdict::Met);
        }
        Ok(expectation.judge_response(response, &self.txn.response_body, last, &self.txn))
    }

    fn judge_protocol(&mut self, answer: Answer, line: &Line<'_>) -> Option<Outcome> {
        if self.input.is_empty() && self.is_last() {
            return Some(self.empty(answer.empty_status(), line));
        }
        match answer.judge(&self.input, self.is_last()) {
            Judgement::Wait => {
                self.must_read = true;
                None
            }
            Judgement::Passed { code, info } => {
                self.code = code;
                if !info.is_empty() {
                    self.info = info;
                }
                self.at += 1;
                None
            }
            Judgement::Failed { status, code, info } => Some(Outcome::new(status, info).with_code(code)),
        }
    }

    /// An expectation was not met.
    fn missed(
        &self,
        expectation: &Expectation<'_>,
        line: &Line<'_>,
        status: Status,
        info: Option<Vec<u8>>,
    ) -> Outcome {
        let mut text = match (expectation.on_error, info) {
            (Some(format), _) => rendered(format, &self.txn),
            (None, Some(info)) => info,
            (None, None) if self.script.kind == Kind::Tcp => expectation.miss_text(line.number),
            (None, None) => Vec::new(),
        };
        if let Some(comment) = line.comment {
            text.extend_from_slice(b" comment: ");
            text.extend_from_slice(comment.as_bytes());
        }
        Outcome::new(status, text).with_code(self.status_code(expectation))
    }

    fn status_code(&self, expectation: &Expectation<'_>) -> u16 {
        let Some(expr) = expectation.status_code else { return self.code };
        let value = match expr.eval(&self.txn) {
            Some(Value::Int(number)) => u16::try_from(number).ok(),
            Some(value) => std::str::from_utf8(&value.into_bytes()).ok().and_then(|text| text.parse().ok()),
            None => None,
        };
        value.unwrap_or(self.code)
    }

    /// Every step was gone through.
    fn success(&self) -> Outcome {
        let last = self.script.lines.last().map(|line| &line.step);
        match last {
            Some(Step::Expect(expectation)) => {
                if self.may_stop && self.code == 404 {
                    return Outcome::new(Status::L7OkConditional, "").with_code(404);
                }
                let text = match expectation.on_success {
                    Some(format) => rendered(format, &self.txn),
                    None if self.script.kind == Kind::Tcp => b"(tcp-check)".to_vec(),
                    None => Vec::new(),
                };
                let status = expectation.ok_status.unwrap_or(Status::L7Ok);
                Outcome::new(status, text).with_code(self.status_code(expectation))
            }
            Some(Step::Protocol(answer)) => {
                Outcome::new(answer.ok_status(), self.info.clone()).with_code(self.code)
            }
            Some(Step::Connect(connect)) => {
                let text = if connect.implicit { "" } else { "(tcp-check)" };
                Outcome::new(if self.tls { Status::L6Ok } else { Status::L4Ok }, text)
            }
            _ => Outcome::new(Status::L7Ok, "(tcp-check)"),
        }
    }

    /// The connection failed; `error` is what is known of it.
    pub(crate) fn failed(&self, layer: Layer, error: &str) -> Outcome {
        let status = match layer {
            Layer::Connecting => Status::L4Connection,
            Layer::Handshake => Status::L6Response,
            Layer::Established => Status::SocketError,
        };
        Outcome::new(status, self.placed(error))
    }

    /// The time is over.
    pub(crate) fn timed_out(&self, layer: Layer) -> Outcome {
        let status = match (layer, self.script.lines.get(self.at).map(|line| &line.step)) {
            (Layer::Connecting, _) => Status::L4Timeout,
            (Layer::Handshake, _) => Status::L6Timeout,
            (Layer::Established, Some(Step::Expect(expectation))) => {
                expectation.timeout_status.unwrap_or(Status::L7Timeout)
            }
            (Layer::Established, Some(Step::Protocol(answer))) => answer.timeout_status(),
            (Layer::Established, _) => Status::L7Timeout,
        };
        Outcome::new(status, self.placed(""))
    }

    /// The text of a failure with the step of a `tcp-check` script it happened at.
    fn placed(&self, error: &str) -> Vec<u8> {
        let mut text = error.as_bytes().to_vec();
        let line = self.script.lines.get(self.at).filter(|_| self.script.kind == Kind::Tcp);
        let Some(line) = line else { return text };
        text.extend_from_slice(format!(" at step {} of tcp-check", line.number).as_bytes());
        match &line.step {
            Step::Connect(CheckConnect { port: Some(port), .. }) => {
                text.extend_from_slice(format!(" (connect port {port})").as_bytes());
            }
            Step::Connect(_) => text.extend_from_slice(b" (connect)"),
            Step::Expect(expectation) => text.extend_from_slice(&expectation.wait_text()),
            Step::Send(_) => text.extend_from_slice(b" (send)"),
            _ => {}
        }
        if let Some(comment) = line.comment {
            text.extend_from_slice(format!(" comment: '{comment}'").as_bytes());
        }
        text
    }
}

/// Sets or unsets a variable of the check.
fn set_var(txn: &mut Txn, name: &[u8], value: Option<Value<'static>>) {
    let (scope, name) = match name.iter().position(|b| *b == b'.') {
        Some(dot) => (&name[..dot], &name[dot + 1..]),
        None => (&b"check"[..], name),
    };
    if scope == b"proc" {
        txn.env.set_proc_var(name, value);
        return;
    }
    // A check has a session of its own: its variables and the check's are the same.
    txn.session.vars.borrow_mut().set(name, value, None);
}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Bool(b) => Value::Bool(b),
        Value::Int(n) => Value::Int(n),
        Value::Ip(ip) => Value::Ip(ip),
        Value::Str(text) => Value::Str(text.into_owned().into()),
        Value::Bin(bytes) => Value::Bin(bytes.into_owned().into()),
        Value::Method(name) => Value::Method(name.into_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::check::attempt;
    use crate::state::Shared;

    /// Plays a backend's check against a server that says these things, one after each question or wait,
    /// and then closes; tells what was done and how it ended.
    fn play(lines: &str, says: &[&str]) -> String {
        let text = format!("backend b\n {}\n server s 192.0.2.1:80 check\n", lines.replace('\n', "\n "));
        let loaded = weir_config::load_str("test", &text).map_err(|found| found.render(false));
        let config = Arc::new(loaded.unwrap().config);
        let shared = Shared::new(Arc::clone(&config), 1, "host".into());
        let proxy = &config.proxies[0];
        let script = Script::of(&proxy.checks);
        let txn = attempt::transaction_for_tests(&shared, proxy);
        let state = script.sends_state().then(|| "UP".to_owned());
        let mut run = Run::new(&script, &config, txn, state, true);
        let mut says = says.iter();
        let mut done = String::new();
        loop {
            match run.next() {
                Next::Connect(_) => {
                    done.push_str("connect ");
                    run.connected(false, Wire::H1);
                }
                Next::Write(bytes) => done += &format!(">{} ", bytes.escape_ascii()),
                Next::Read => match says.next() {
                    Some(&"timeout") => return done + &told(&run.timed_out(Layer::Established)),
                    Some(said) => run.received(said.as_bytes()),
                    None => run.ended(),
                },
                Next::Done(outcome) => return done + &told(&outcome),
            }
        }
    }

    fn told(outcome: &Outcome) -> String {
        let text = outcome.description.escape_ascii();
        format!("{} {} {text}", outcome.status.name(), outcome.code)
    }

    fn check(lines: &str, says: &[&str], expected: &str) {
        assert_eq!(play(lines, says), expected, "{lines}");
    }

    #[test]
    fn connections() {
        check("", &[], "connect L4OK 0 ");
        check("option tcp-check", &[], "connect L4OK 0 ");
        check("option tcp-check\ntcp-check connect", &[], "connect L4OK 0 (tcp-check)");
        check("option tcp-check\ntcp-check connect\ntcp-check send x", &[], "connect >x L7OK 0 (tcp-check)");
    }

    #[test]
    fn tcp_expectations() {
        let tcp = |lines: &str, says: &[&str], expected: &str| {
            check(
                &format!("option tcp-check\ntcp-check connect\n{lines}"),
                says,
                &format!("connect {expected}"),
            );
        };
        tcp("tcp-check expect string hello", &["he", "llo"], "L7OK 0 (tcp-check)");
        tcp("tcp-check expect string hello", &[], "L7RSP 0 TCPCHK got an empty response at step 2");
        tcp(
            "tcp-check expect string hello comment greeting",
            &["bye"],
            "L7RSP 0 TCPCHK did not match content \\'hello\\' at step 2 comment: greeting",
        );
        tcp(
            "tcp-check expect ! string err",
            &["an err"],
            "L7RSP 0 TCPCHK matched unwanted content \\'err\\' at step 2",
        );
        tcp(
            "tcp-check expect min-recv 3 rstring ^x",
            &["ab", "c"],
            "L7RSP 0 TCPCHK did not match content (regex) at step 2",
        );
        tcp(
            "tcp-check expect rstring y comment re",
            &["x", "timeout"],
            "L7TOUT 0  at step 2 of tcp-check (expect regex) comment: \\'re\\'",
        );
        tcp("tcp-check expect binary 6869", &["ahi"], "L7OK 0 (tcp-check)");
        tcp("tcp-check expect rbinary 6[89]", &["hi"], "L7OK 0 (tcp-check)");
        tcp(
            "tcp-check expect error-status L4CON string a",
            &["b"],
            "L4CON 0 TCPCHK did not match content \\'a\\' at step 2",
        );
        tcp("tcp-check expect ok-status L6OK string a", &["a"], "L6OK 0 (tcp-check)");
        tcp("tcp-check expect on-success good string a", &["a"], "L7OK 0 good");
        tcp("tcp-check expect on-error bad string a", &["b"], "L7RSP 0 bad");
        // What must not come is looked for in all that came until the next expectation is met.
        tcp(
            "tcp-check expect min-recv 1 ! string err\ntcp-check expect string end",
            &["er", "r end"],
            "L7RSP 0 TCPCHK matched unwanted content \\'err\\' at step 2",
        );
        tcp(
            "tcp-check expect string a\ntcp-check send-binary 6869\ntcp-check expect string b",
            &["a", "b"],
            ">hi L7OK 0 (tcp-check)",
        );
    }

    #[test]
    fn http_requests() {
        let http = |lines: &str, expected: &str| {
            let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            check(&format!("mode http\n{lines}"), &[ok], &format!("connect {expected} L7OK 200 "));
        };
        http("option httpchk", ">OPTIONS / HTTP/1.0\\r\\n\\r\\n");
        http("option httpchk /x", ">OPTIONS /x HTTP/1.0\\r\\n\\r\\n");
        http("option httpchk GET /x HTTP/1.1", ">GET /x HTTP/1.1\\r\\nconnection: close\\r\\n\\r\\n");
        http(
            "option httpchk\nhttp-check send meth POST uri /y ver HTTP/1.1 hdr Host h body abc",
            ">POST /y HTTP/1.1\\r\\nconnection: close\\r\\nhost: h\\r\\ncontent-length: 3\\r\\n\\r\\nabc",
        );
        http(
            "option httpchk\nhttp-check send-state\nhttp-check send hdr connection upgrade ver HTTP/1.1",
            ">OPTIONS / HTTP/1.1\\r\\nconnection: upgrade\\r\\nx-haproxy-server-state: UP\\r\\n\\r\\n",
        );
        http(
            "option httpchk\nhttp-check connect\nhttp-check set-var(check.p) str(/v)\nhttp-check send meth GET uri-lf %[var(check.p)]",
            ">GET /v HTTP/1.0\\r\\n\\r\\n",
        );
        http(
            "option httpchk\nhttp-check unset-var(check.p)\nhttp-check send meth GET uri-lf %[var(check.p)]",
            ">GET / HTTP/1.0\\r\\n\\r\\n",
        );
    }

    #[test]
    fn interim_responses_are_bounded() {
        let after = |interim: usize, expected: &str| {
            let said = format!("{}HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 103 E\r\n\r\n".repeat(interim));
            let told = play("mode http\noption httpchk", &[&said]);
            assert!(told.contains(expected), "{interim}: {told}");
        };
        after(16, " L7OK 200 ");
        after(17, " L7RSP 0 ");
        after(10_000, " L7RSP 0 ");
    }

    #[test]
    fn http_expectations() {
        let http = |lines: &str, says: &[&str], expected: &str| {
            let lines = format!("mode http\noption httpchk\n{lines}");
            check(&lines, says, &format!("connect >OPTIONS / HTTP/1.0\\r\\n\\r\\n {expected}"));
        };
        let with_body = "HTTP/1.1 200 Fine\r\ncontent-length: 5\r\nx-list: one, \"two, three\"\r\n\r\nhello";
        http("", &["HTTP/1.1 503 Oh No\r\n\r\n"], "L7STS 503 Oh No");
        http("", &["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n"], "L7OK 204 ");
        http("", &["junk\r\n\r\n"], "L7RSP 0 ");
        http("", &[], "L7RSP 0 ");
        http("http-check expect status 200,201", &[with_body], "L7OK 200 ");
        http("http-check expect ! rstatus ^2", &[with_body], "L7STS 200 Fine");
        http("http-check expect string ell", &[with_body], "L7OK 200 ");
        http("http-check expect string xyz", &[with_body], "L7RSP 200 HTTP content check did not match");
        http(
            "http-check expect ! rstring ^he",
            &[with_body],
            "L7RSP 200 HTTP check matched unwanted content",
        );
        http("http-check expect hdr name x-list value one", &[with_body], "L7OK 200 ");
        http("http-check expect hdr name X-LIST value -m end three\\\"", &[with_body], "L7OK 200 ");
        http("http-check expect fhdr name x-list value one", &[with_body], "L7STS 200 Fine");
        http("http-check expect ! hdr name -m beg x-", &[with_body], "L7STS 200 Fine");
        http(
            "http-check expect string a",
            &["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"],
            "L7RSP 200 HTTP content check could not find a response body",
        );
        http("http-check disable-on-404", &["HTTP/1.1 404 No\r\n\r\n"], "L7OKC 404 ");
        http("", &["HTTP/1.1 404 No\r\n\r\n"], "L7STS 404 No");
        // Chunked, in pieces.
        let pieces =
            ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel", "\r\n2\r\nlo\r\n0\r\n\r\n"];
        http("http-check expect string hello", &pieces, "L7OK 200 ");
    }

    #[test]
    fn other_protocols() {
        check(
            "option smtpchk",
            &["220 ready\r\n", "250 hi\r\n", "221 bye\r\n"],
            "connect >HELO localhost\\r\\n >QUIT\\r\\n L7OK 221 bye",
        );
        check("option redis-check", &["-ERR\r\n"], "connect >*1\\r\\n$4\\r\\nPING\\r\\n L7STS 0 -ERR");
        check("option mysql-check", &["\u{6}\0\0\0\u{a}8.0.\0"], "connect L7OK 0 8.0.");
    }

    #[test]
    fn failures_tell_the_step() {
        let text = "backend b\n option tcp-check\n tcp-check connect port 1\n server s 192.0.2.1:80 check\n";
        let config = Arc::new(weir_config::load_str("test", text).unwrap().config);
        let shared = Shared::new(Arc::clone(&config), 1, "host".into());
        let script = Script::of(&config.proxies[0].checks);
        let txn = attempt::transaction_for_tests(&shared, &config.proxies[0]);
        let run = Run::new(&script, &config, txn, None, true);
        assert_eq!(
            told(&run.failed(Layer::Connecting, "Connection refused")),
            "L4CON 0 Connection refused at step 1 of tcp-check (connect port 1)"
        );
    }
}
