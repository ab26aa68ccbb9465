//! Health checks: `option httpchk` and its like, `http-check` and `tcp-check` scripts.

use weir_rules::{Diagnostic, Expr, LogFormat, Place, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{self, Args, Parsed, Prefix, choice, fail, fail_hint, parse_address};
use crate::language::tree::SectionKind;
use crate::model::{
    CheckConnect, CheckPayload, CheckStatus, Expect, HttpCheck, OtherCheck, StringMatch, TcpCheckStep,
};
use crate::proxy::parenthesised;
use crate::sections::ProxyDraft;
use crate::server::protocol;

use crate::sections::checks::{CheckKind, ChecksDraft, HttpSend, Script, Step};

/// Most steps of a script.
const MOST_STEPS: usize = 1024;

impl HttpSend {
    fn or(self, other: Self) -> Self {
        Self {
            method: self.method.or(other.method),
            uri: self.uri.or(other.uri),
            version: self.version.or(other.version),
            headers: if self.headers.is_empty() { other.headers } else { self.headers },
            body: self.body.or(other.body),
            comment: self.comment.or(other.comment),
        }
    }

    fn finish(self) -> TcpCheckStep {
        TcpCheckStep::HttpSend {
            method: self.method.unwrap_or_else(|| b"OPTIONS".to_vec()),
            uri: self.uri.unwrap_or_else(|| CheckPayload::Plain(b"/".to_vec())),
            version: self.version.unwrap_or_else(|| b"HTTP/1.0".to_vec()),
            headers: self.headers,
            body: self.body,
            comment: self.comment,
        }
    }
}

impl ChecksDraft {
    /// The following lines are the defaults section's, or the proxy's own.
    pub(crate) fn start(&mut self, inherited: bool) {
        if !inherited {
            self.http.inherited = true;
            self.tcp.inherited = true;
        }
    }
}

impl Script {
    fn push(&mut self, step: Step, pos: weir_rules::Pos) -> Parsed {
        if self.steps.len() >= MOST_STEPS {
            return fail(pos, format!("more than {MOST_STEPS} steps of a check"));
        }
        self.steps.push(step);
        Ok(())
    }

    /// Own lines replace those of the defaults section; true when they did.
    fn touch(&mut self) -> bool {
        let first = std::mem::take(&mut self.inherited);
        if first {
            self.steps.clear();
        }
        first
    }

    /// Where steps start after variables were set.
    fn first(&self) -> usize {
        let sets = |step: &Step| {
            matches!(step, Step::Done(TcpCheckStep::SetVar { .. } | TcpCheckStep::UnsetVar { .. }))
        };
        self.steps.iter().take_while(|step| sets(step)).count()
    }

    fn starts_with_connect(&self) -> bool {
        matches!(self.steps.get(self.first()), Some(Step::Done(TcpCheckStep::Connect(_))))
    }

    /// The answer to what was sent before must have been read.
    fn may_connect(&self) -> bool {
        let variable = |step: &&Step| {
            !matches!(step, Step::Done(TcpCheckStep::SetVar { .. } | TcpCheckStep::UnsetVar { .. }))
        };
        let last = self.steps.iter().rev().find(variable);
        matches!(last, None | Some(Step::Done(TcpCheckStep::Expect { .. })))
    }

    fn finish(self) -> Vec<TcpCheckStep> {
        let done = |step| match step {
            Step::Done(step) => step,
            Step::HttpSend(send) => send.finish(),
        };
        self.steps.into_iter().map(done).collect()
    }
}

/// Completes the scripts and stores what the proxy's checks are.
pub(crate) fn finish(d: &mut ProxyDraft<'_>) {
    let draft = std::mem::take(&mut d.checks);
    let (mut http, mut tcp) = (draft.http, draft.tcp);
    let own_steps = !tcp.inherited && !tcp.steps.is_empty();
    if own_steps && !matches!(draft.kind, CheckKind::Tcp) && d.kind != SectionKind::Defaults {
        let message = format!("'tcp-check' rules ignored for {} without 'option tcp-check'", d.section());
        d.warnings.push(Diagnostic::warning(d.proxy.pos, message));
    }
    let own_http = !http.inherited && !http.steps.is_empty();
    if own_http && !matches!(draft.kind, CheckKind::Http) && d.kind != SectionKind::Defaults {
        let message = format!("'http-check' rules ignored for {} without 'option httpchk'", d.section());
        d.warnings.push(Diagnostic::warning(d.proxy.pos, message));
    }
    if d.proxy.external_check_command.is_some()
        && !matches!(draft.kind, CheckKind::Other(OtherCheck::External))
    {
        let message = format!("'external-check command' is ignored in {}", d.section());
        let found = Diagnostic::warning(d.proxy.pos, message);
        d.warnings.push(found.hint("it goes with 'option external-check'"));
    }
    match draft.kind {
        CheckKind::Connect => {}
        CheckKind::Other(check) => d.proxy.checks.other_check = Some(check),
        CheckKind::Tcp => {
            if !tcp.steps.is_empty() && !tcp.starts_with_connect() {
                tcp.steps.insert(tcp.first(), Step::Done(TcpCheckStep::Connect(CheckConnect::IMPLICIT)));
            }
            d.proxy.checks.tcpchk = Some(tcp.finish());
        }
        CheckKind::Http => {
            if !http.starts_with_connect() {
                http.steps.insert(http.first(), Step::Done(TcpCheckStep::Connect(CheckConnect::IMPLICIT)));
            }
            merge_implicit(&mut http, draft.implicit);
            if matches!(http.steps.last(), Some(Step::HttpSend(_))) {
                http.steps.push(Step::Done(expect_step(Expect::Status(vec![(200, 399)]), false)));
            }
            let (disable_on_404, send_state) = (draft.disable_on_404, draft.send_state);
            d.proxy.checks.httpchk = Some(HttpCheck { steps: http.finish(), disable_on_404, send_state });
        }
    }
}

/// The request of `option httpchk` completes the first request of the script, or is sent before anything else.
fn merge_implicit(http: &mut Script, implicit: HttpSend) {
    let first = http.steps.iter_mut().find_map(|step| match step {
        Step::HttpSend(send) => Some(send),
        Step::Done(_) => None,
    });
    match first {
        Some(send) => *send = std::mem::take(send).or(implicit),
        None => http.steps.insert((http.first() + 1).min(http.steps.len()), Step::HttpSend(implicit)),
    }
}

fn expect_step(what: Expect, negate: bool) -> TcpCheckStep {
    TcpCheckStep::Expect {
        negate,
        what,
        min_recv: None,
        comment: None,
        ok_status: None,
        error_status: None,
        tout_status: None,
        on_success: None,
        on_error: None,
        status_code: None,
    }
}

/// `option httpchk [URI | METHOD URI [VERSION [HOST]]]`
fn httpchk(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix != Prefix::None {
        d.checks.kind = CheckKind::Connect;
        return a.end();
    }
    d.checks.kind = CheckKind::Http;
    d.checks.http.touch();
    let mut send = HttpSend::default();
    let words = a.rest();
    match words {
        [] => {}
        [uri] => send.uri = Some(CheckPayload::Plain(uri.text.clone())),
        [method, uri, rest @ ..] => {
            send.method = Some(method.text.clone());
            send.uri = Some(CheckPayload::Plain(uri.text.clone()));
            if let Some(version) = rest.first() {
                // Fields used to be smuggled in after the version: "HTTP/1.1\r\nHost: x".
                if version.text.contains(&b'\n') {
                    let message = "'option httpchk': fields after the version are an old form";
                    let hint = "write them as 'http-check send hdr <name> <value>'";
                    d.warnings.push(Diagnostic::warning(version.pos, message).hint(hint));
                }
                let mut lines =
                    version.text.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
                send.version = lines.next().map(<[u8]>::to_vec);
                for line in lines.filter(|line| !line.is_empty()) {
                    let Some(colon) = line.iter().position(|b| *b == b':') else {
                        return fail(version.pos, "a field after the version has no colon");
                    };
                    send.headers
                        .push((line[..colon].to_vec(), literal(d, line[colon + 1..].trim_ascii(), version)?));
                }
            }
            if let Some(host) = rest.get(1) {
                send.headers.push((b"Host".to_vec(), check_format(d, host)?));
            }
            if let Some(extra) = rest.get(2) {
                return fail(
                    extra.pos,
                    format!(
                        "'option httpchk' takes at most four arguments, but '{}' follows",
                        extra.as_str()
                    ),
                );
            }
        }
    }
    d.checks.implicit = send;
    Ok(())
}

/// A log format that renders the text as it is.
fn literal(d: &mut ProxyDraft<'_>, text: &[u8], word: &Word) -> Parsed<LogFormat> {
    let escaped = text.iter().flat_map(|b| if *b == b'%' { vec![b'%', b'%'] } else { vec![*b] }).collect();
    check_format(d, &Word { text: escaped, pos: word.pos })
}

fn check_format(d: &mut ProxyDraft<'_>, word: &Word) -> Parsed<LogFormat> {
    d.format(word, Place::Check)
}

fn tcp_check(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.checks.kind = if a.prefix == Prefix::None { CheckKind::Tcp } else { CheckKind::Connect };
    a.end()
}

fn other(d: &mut ProxyDraft<'_>, a: &Args<'_>, check: OtherCheck) -> Parsed {
    d.checks.kind = if a.prefix == Prefix::None { CheckKind::Other(check) } else { CheckKind::Connect };
    a.end()
}

fn mysql(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let (mut user, mut pre_41) = (None, false);
    if let Some(word) = a.next() {
        choice(word, "word", &[("user", ())])?;
        user = Some(a.text("a user's name")?);
        if let Some(version) = a.next() {
            pre_41 =
                choice(version, "protocol", &[("post-41", false), ("pre-41", true), ("post-80", false)])?;
        }
    }
    other(d, a, OtherCheck::Mysql { user, pre_41 })
}

fn pgsql(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("'user' and a name")?;
    choice(word, "word", &[("user", ())])?;
    let user = a.text("a user's name")?;
    other(d, a, OtherCheck::Pgsql { user })
}

fn smtp(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let (mut hello, mut domain) = ("HELO".to_owned(), "localhost".to_owned());
    if let Some(word) = a.next() {
        let given = word.as_str();
        // Without a domain, or with another greeting, the default one is sent.
        if let Some(name) = a.next()
            && (given == "EHLO" || given == "HELO")
        {
            (hello, domain) = (given.into_owned(), name.as_str().into_owned());
        }
    }
    other(d, a, OtherCheck::Smtp { hello, domain })
}

/// The script that a line belongs to, without what the defaults section had.
fn script<'d>(d: &'d mut ProxyDraft<'_>, a: &Args<'_>) -> &'d mut Script {
    if !a.keyword.starts_with("http-check") {
        d.checks.tcp.touch();
        return &mut d.checks.tcp;
    }
    if d.checks.http.touch() {
        d.checks.implicit = HttpSend::default();
    }
    &mut d.checks.http
}

fn push(d: &mut ProxyDraft<'_>, a: &Args<'_>, step: Step) -> Parsed {
    a.end()?;
    script(d, a).push(step, a.keyword_pos)
}

fn take_comment(d: &mut ProxyDraft<'_>, a: &Args<'_>, own: Option<String>) -> Option<String> {
    let pending = script(d, a).comment.take();
    own.or(pending)
}

fn comment(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let text = a.text("a text")?;
    script(d, a).comment = Some(text);
    a.end()
}

/// `connect [default] [port P] [addr A] [send-proxy] [via-socks4] [ssl] [sni S] [alpn A] [linger] [proto P] [comment C]`
fn connect(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut connect = CheckConnect::PLAIN;
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"default" => connect.default = true,
            b"send-proxy" => connect.send_proxy = true,
            b"via-socks4" => connect.via_socks4 = true,
            b"ssl" => connect.ssl = true,
            b"linger" => connect.linger = true,
            b"sni" => connect.sni = Some(a.value_of(word, "a server name")?.as_str().into_owned()),
            b"alpn" => connect.alpn = Some(args::list(a.value_of(word, "protocol names")?)),
            b"proto" => connect.proto = Some(protocol(a.value_of(word, "a protocol")?)?),
            b"comment" => connect.comment = Some(a.value_of(word, "a text")?.as_str().into_owned()),
            b"addr" => {
                let value = a.value_of(word, "an address")?;
                connect.addr = Some(crate::language::args::socket_address(value, 0)?);
                parse_address(value)?;
            }
            b"port" => {
                let value = a.value_of(word, "a port or an expression")?;
                if value.text.iter().all(u8::is_ascii_digit) {
                    connect.port = Some(args::number(value, 1..=65535)?);
                } else {
                    let (expr, used) =
                        d.at(Place::Check, |d| Expr::parse(std::slice::from_ref(value), &mut d.scope))?;
                    a.skip(used.saturating_sub(1));
                    connect.port_expr = Some(expr);
                }
            }
            _ => {
                let known = [
                    "default",
                    "port",
                    "addr",
                    "send-proxy",
                    "via-socks4",
                    "ssl",
                    "sni",
                    "alpn",
                    "linger",
                    "proto",
                    "comment",
                ];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    if a.keyword.starts_with("http-check") && !d.checks.http.inherited && !d.checks.http.may_connect() {
        return fail_hint(
            a.keyword_pos,
            "'http-check connect' must come first or follow an expectation",
            "add an 'http-check expect' line before it",
        );
    }
    connect.comment = take_comment(d, a, connect.comment);
    push(d, a, Step::Done(TcpCheckStep::Connect(connect)))
}

/// `http-check send [meth M] [uri U | uri-lf F] [ver V] [hdr NAME FMT]* [body B | body-lf F] [comment C]`
fn http_send(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let mut send = HttpSend::default();
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"meth" => send.method = Some(a.value_of(word, "a method")?.text.clone()),
            b"ver" => send.version = Some(a.value_of(word, "a version")?.text.clone()),
            b"uri" => send.uri = Some(CheckPayload::Plain(a.value_of(word, "a URI")?.text.clone())),
            b"body" => send.body = Some(CheckPayload::Plain(a.value_of(word, "a text")?.text.clone())),
            b"uri-lf" => {
                send.uri = Some(CheckPayload::Format(check_format(d, a.value_of(word, "a log format")?)?));
            }
            b"body-lf" => {
                send.body = Some(CheckPayload::Format(check_format(d, a.value_of(word, "a log format")?)?));
            }
            b"comment" => send.comment = Some(a.value_of(word, "a text")?.as_str().into_owned()),
            b"hdr" => {
                let name = a.value_of(word, "a name and a log format")?;
                let value = a.value_of(word, "a log format after the name")?;
                // The length and the encoding are the proxy's to know (RFC 9112 section 6).
                let framing = [&b"content-length"[..], b"transfer-encoding"];
                if framing.iter().any(|known| name.text.eq_ignore_ascii_case(known)) {
                    continue;
                }
                send.headers.push((name.text.clone(), check_format(d, value)?));
            }
            _ => {
                return Err(vec![Diagnostic::unknown(
                    "word",
                    word,
                    ["meth", "uri", "uri-lf", "ver", "hdr", "body", "body-lf", "comment"],
                )]);
            }
        }
    }
    if matches!(d.checks.http.steps.last(), Some(Step::HttpSend(_))) && !d.checks.http.inherited {
        return fail(a.keyword_pos, "'http-check send' cannot follow another 'http-check send'");
    }
    send.comment = take_comment(d, a, send.comment.take());
    push(d, a, Step::HttpSend(send))
}

/// `tcp-check send|send-lf|send-binary|send-binary-lf DATA [comment C]`
fn tcp_send(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("data to send")?;
    let data = match a.keyword {
        "tcp-check send" => CheckPayload::Plain(word.text.clone()),
        "tcp-check send-binary" => CheckPayload::Plain(hexadecimal(word)?),
        "tcp-check send-lf" => CheckPayload::Format(check_format(d, word)?),
        _ => CheckPayload::HexFormat(check_format(d, word)?),
    };
    let own = if a.take("comment") { Some(a.text("a text")?) } else { None };
    let comment = take_comment(d, a, own);
    push(d, a, Step::Done(TcpCheckStep::Send { data, comment }))
}

fn hexadecimal(word: &Word) -> Parsed<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = word.text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?));
    pairs
        .collect::<Option<Vec<u8>>>()
        .map_or_else(|| fail(word.pos, "pairs of hexadecimal digits were expected"), Ok)
}

pub(crate) fn regex(word: &Word) -> Parsed<regex::bytes::Regex> {
    regex_of(word, false)
}

fn regex_of(word: &Word, ignore_case: bool) -> Parsed<regex::bytes::Regex> {
    let text = word.as_str();
    let mut builder = regex::bytes::RegexBuilder::new(&text);
    let built = builder.size_limit(1 << 20).unicode(false).case_insensitive(ignore_case).build();
    built.or_else(|error| fail(word.pos, format!("'{text}' is not a regular expression: {error}")))
}

fn check_status(word: &Word, a: &mut Args<'_>) -> Parsed<Option<CheckStatus>> {
    let value = a.value_of(word, "a check status such as L7OK")?;
    choice(value, "check status", CheckStatus::NAMES).map(Some)
}

fn expect(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let http = a.keyword.starts_with("http-check");
    let (mut min_recv, mut own, mut status_code) = (None, None, None);
    let (mut ok_status, mut error_status, mut tout_status) = (None, None, None);
    let (mut on_success, mut on_error) = (None, None);
    let mut negate = false;
    let what = loop {
        let word = a.need("what to match: 'string', 'rstring', 'status' and others")?;
        match word.text.as_slice() {
            b"min-recv" => {
                min_recv =
                    usize::try_from(args::number(a.value_of(word, "a number")?, -1..=i64::from(i32::MAX))?)
                        .ok();
            }
            b"comment" => own = Some(a.value_of(word, "a text")?.as_str().into_owned()),
            b"ok-status" => ok_status = check_status(word, a)?,
            b"error-status" => error_status = check_status(word, a)?,
            b"tout-status" => tout_status = check_status(word, a)?,
            b"on-success" => on_success = Some(check_format(d, a.value_of(word, "a log format")?)?),
            b"on-error" => on_error = Some(check_format(d, a.value_of(word, "a log format")?)?),
            b"status-code" => {
                a.peek().map_or_else(|| fail(word.pos, "'status-code' expects an expression"), |_| Ok(()))?;
                let (expr, used) = d.at(Place::Check, |d| Expr::parse(a.ahead(), &mut d.scope))?;
                a.skip(used);
                status_code = Some(expr);
            }
            b"!" => negate = !negate,
            _ => {
                let (text, not) =
                    word.text.strip_prefix(b"!").map_or((&word.text[..], false), |rest| (rest, true));
                negate ^= not;
                break pattern(d, a, &Word { text: text.to_vec(), pos: word.pos }, http)?;
            }
        }
    };
    if a.take("comment") {
        own = Some(a.text("a text")?);
    }
    let comment = take_comment(d, a, own);
    let step = TcpCheckStep::Expect {
        negate,
        what,
        min_recv,
        comment,
        ok_status,
        error_status,
        tout_status,
        on_success,
        on_error,
        status_code,
    };
    push(d, a, Step::Done(step))
}

fn pattern(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, word: &Word, http: bool) -> Parsed<Expect> {
    let known: &[&str] = if http {
        &["status", "rstatus", "hdr", "fhdr", "string", "rstring", "string-lf"]
    } else {
        &["string", "rstring", "string-lf", "binary", "rbinary", "binary-lf"]
    };
    let name = word.as_str().into_owned();
    if !known.contains(&name.as_str()) {
        return Err(vec![Diagnostic::unknown("match", word, known.iter().copied())]);
    }
    if name == "hdr" || name == "fhdr" {
        return header_pattern(d, a, name == "fhdr");
    }
    let value = a.value_of(word, "a pattern")?;
    match name.as_str() {
        "status" => Ok(Expect::Status(statuses(value)?)),
        "rstatus" => Ok(Expect::StatusRegex(regex(value)?)),
        "string" => Ok(Expect::String(value.text.clone())),
        "rstring" => Ok(Expect::Regex(regex(value)?)),
        "string-lf" => Ok(Expect::StringFormat(check_format(d, value)?)),
        "binary" => Ok(Expect::Binary(hexadecimal(value)?)),
        "rbinary" => Ok(Expect::BinaryRegex(regex(value)?)),
        _ => Ok(Expect::BinaryFormat(check_format(d, value)?)),
    }
}

/// `200-399,500`
fn statuses(word: &Word) -> Parsed<Vec<(u16, u16)>> {
    let mut found = Vec::new();
    for part in word.as_str().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (low.trim().parse::<u16>(), high.trim().parse::<u16>()) {
            (Ok(low), Ok(high)) if low <= high && (100..=999).contains(&low) && high <= 999 => {
                found.push((low, high));
            }
            _ => return fail(word.pos, format!("'{part}' is neither a status nor a range such as 200-399")),
        }
    }
    Ok(found)
}

/// `hdr {name | name-lf} [-m METHOD] NAME [{value | value-lf} [-m METHOD] VALUE]`
fn header_pattern(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, full: bool) -> Parsed<Expect> {
    let word = a.need("'name' or 'name-lf'")?;
    let formatted = choice(word, "word", &[("name", false), ("name-lf", true)])?;
    let (name, name_match) = matched(d, a, formatted, true)?;
    let mut value = None;
    if let Some(word) = a.peek().filter(|word| **word == "value" || **word == "value-lf") {
        a.skip(1);
        value = Some(matched(d, a, *word == "value-lf", false)?);
    }
    Ok(Expect::Header { name, name_match, value, full })
}

/// A pattern with its method; names of fields ignore case.
fn matched(
    d: &mut ProxyDraft<'_>,
    a: &mut Args<'_>,
    formatted: bool,
    is_name: bool,
) -> Parsed<(CheckPayload, StringMatch)> {
    let mut method = "str";
    if let Some(flag) = a.peek().filter(|word| **word == "-m") {
        a.skip(1);
        let word = a.value_of(flag, "str, beg, end, sub or reg")?;
        method =
            choice(word, "matching method", &["str", "beg", "end", "sub", "reg"].map(|name| (name, name)))?;
        if formatted && method == "reg" {
            return fail_hint(
                word.pos,
                "a log format cannot be a regular expression",
                "use str, beg, end or sub",
            );
        }
    }
    let text = a.need("a pattern")?;
    let how = match method {
        "beg" => StringMatch::Begin,
        "end" => StringMatch::End,
        "sub" => StringMatch::Sub,
        "reg" => StringMatch::Regex(regex_of(text, is_name)?),
        _ => StringMatch::Exact,
    };
    let payload = if formatted {
        CheckPayload::Format(check_format(d, text)?)
    } else {
        CheckPayload::Plain(text.text.clone())
    };
    Ok((payload, how))
}

/// `set-var(check.NAME) EXPR`, `set-var-fmt(check.NAME) FMT`, `unset-var(check.NAME)`
fn variable(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = &a.line[1];
    let Some(name) = parenthesised(word) else {
        return fail_hint(
            word.pos,
            "the variable's name is missing",
            "write for instance set-var(check.name)",
        );
    };
    // `set-var(name,condition)` has conditions after the name.
    let name = name.split(|b| *b == b',').next().unwrap_or_default().to_vec();
    if a.keyword.ends_with("unset-var") {
        return push(d, a, Step::Done(TcpCheckStep::UnsetVar { name }));
    }
    let value = if a.keyword.ends_with("-fmt") {
        Err(check_format(d, a.need("a log format")?)?)
    } else {
        if a.peek().is_none() {
            a.need("an expression")?;
        }
        let (expr, used) = d.at(Place::Check, |d| Expr::parse(a.ahead(), &mut d.scope))?;
        a.skip(used);
        Ok(expr)
    };
    push(d, a, Step::Done(TcpCheckStep::SetVar { name, value }))
}

fn external(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix == Prefix::None && !d.world.global.external_check {
        return fail_hint(
            a.keyword_pos,
            "'option external-check' is not allowed",
            "add 'external-check' to the global section",
        );
    }
    other(d, a, OtherCheck::External)
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::BACK, arguments, doc, how)
}

/// A step of a script, which may stand in a `healthcheck` section too.
const fn step(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::BACK.or(Places::HEALTHCHECK), arguments, doc, how)
}

/// Checks that `type` can name.
const TYPES: &[&str] = &[
    "tcp-check",
    "httpchk",
    "ssl-hello-chk",
    "smtpchk",
    "pgsql-check",
    "redis-check",
    "mysql-check",
    "ldap-check",
    "spop-check",
];

/// `type TYPE ...` stands for the option of the same name.
fn section_type(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a type such as httpchk")?;
    let Some(name) = TYPES.iter().find(|name| *word == **name) else {
        return Err(vec![Diagnostic::unknown("type", word, TYPES.iter().copied())]);
    };
    let name = format!("option {name}");
    let keyword =
        KEYWORDS.iter().find(|keyword| keyword.name == name && keyword.places.meets(Places::BACKEND));
    let words: Vec<Word> = std::iter::once(word).chain(a.rest()).cloned().collect();
    match keyword.map(|keyword| (keyword, &keyword.how)) {
        Some((keyword, How::Proxy(parse))) => {
            d.typed = true;
            parse(d, &mut Args::new(&words, keyword.name, 1, Prefix::None))
        }
        Some((keyword, _)) => keyword.refused(word.pos),
        None => fail(word.pos, format!("'{name}' is not implemented yet")),
    }
}

/// Keywords of health checks.
pub(crate) const KEYWORDS: &[Keyword] = &[
    keyword("type", Places::HEALTHCHECK, "<type> [<word>...]", "Kind of check", How::Proxy(section_type))
        .example("type httpchk"),
    entry(
        "external-check command",
        "<command>",
        "Program that checks servers",
        How::Proxy(|d, a| {
            d.proxy.external_check_command = Some(a.text("a program")?);
            a.end()
        }),
    )
    .example("option external-check\nexternal-check command /usr/bin/true"),
    entry(
        "external-check path",
        "<path>",
        "Search path of the checking program",
        How::Proxy(|d, a| {
            d.proxy.external_check_path = Some(a.text("a path")?);
            a.end()
        }),
    )
    .example("external-check path /usr/bin:/bin"),
    step("http-check comment", "<text>", "Describes the next step", How::Proxy(comment))
        .example("option httpchk\nhttp-check comment \"is it there\""),
    step(
        "http-check connect",
        "[default] [port <port>] [addr <ip>] [ssl] ...",
        "A step: connects",
        How::Proxy(connect),
    )
    .example("option httpchk\nhttp-check connect port 8080"),
    step(
        "http-check disable-on-404",
        "",
        "A 404 drains the server",
        How::Proxy(|d, a| {
            d.checks.disable_on_404 = true;
            a.end()
        }),
    )
    .example("option httpchk\nhttp-check disable-on-404"),
    step(
        "http-check expect",
        "[!] <match> <pattern> ...",
        "A step: what the response must be",
        How::Proxy(expect),
    )
    .example("option httpchk\nhttp-check expect status 200-399"),
    step(
        "http-check send",
        "[meth <m>] [uri <u>] [ver <v>] [hdr <name> <fmt>]... [body <b>]",
        "A step: sends a request",
        How::Proxy(http_send),
    )
    .example("option httpchk\nhttp-check send meth GET uri /health hdr host example.org"),
    step(
        "http-check send-state",
        "",
        "Tells the server its state",
        How::Proxy(|d, a| {
            d.checks.send_state = true;
            a.end()
        }),
    )
    .example("option httpchk\nhttp-check send-state"),
    step(
        "http-check set-var",
        "<expr>",
        "A step: sets a variable: set-var(<name>) <expr>",
        How::Proxy(variable),
    )
    .example("option httpchk\nhttp-check set-var(check.port) int(8080)"),
    step(
        "http-check set-var-fmt",
        "<fmt>",
        "A step: sets a variable: set-var-fmt(<name>) <fmt>",
        How::Proxy(variable),
    )
    .example("option httpchk\nhttp-check set-var-fmt(check.name) \"%H\""),
    step("http-check unset-var", "", "A step: removes a variable: unset-var(<name>)", How::Proxy(variable))
        .example("option httpchk\nhttp-check unset-var(check.port)"),
    entry("option external-check", "", "Checks by an external program", How::Proxy(external))
        .example("option external-check\nexternal-check command /usr/bin/true")
        .negatable(),
    entry(
        "option httpchk",
        "[<uri> | <method> <uri> [<version> [<host>]]]",
        "Checks by HTTP requests",
        How::Proxy(httpchk),
    )
    .example("option httpchk GET /health")
    .negatable(),
    entry("option ldap-check", "", "Checks LDAP servers", How::Proxy(|d, a| other(d, a, OtherCheck::Ldap)))
        .example("option ldap-check")
        .negatable(),
    entry("option mysql-check", "[user <user> [post-41|pre-41]]", "Checks MySQL servers", How::Proxy(mysql))
        .example("option mysql-check user haproxy")
        .negatable(),
    entry("option pgsql-check", "user <user>", "Checks PostgreSQL servers", How::Proxy(pgsql))
        .example("option pgsql-check user haproxy")
        .negatable(),
    entry(
        "option redis-check",
        "",
        "Checks Redis servers",
        How::Proxy(|d, a| other(d, a, OtherCheck::Redis)),
    )
    .example("option redis-check")
    .negatable(),
    entry("option smtpchk", "[<hello> <domain>]", "Checks SMTP servers", How::Proxy(smtp))
        .example("option smtpchk EHLO example.org")
        .negatable(),
    entry("option spop-check", "", "Checks agents of stream processing", How::NotYet).negatable(),
    entry(
        "option ssl-hello-chk",
        "",
        "Checks by an old TLS hello",
        How::Proxy(|d, a| other(d, a, OtherCheck::SslHello)),
    )
    .example("option ssl-hello-chk")
    .negatable(),
    entry("option tcp-check", "", "Checks by a script", How::Proxy(tcp_check))
        .example("option tcp-check")
        .negatable(),
    step("tcp-check comment", "<text>", "Describes the next step", How::Proxy(comment))
        .example("option tcp-check\ntcp-check comment \"greeting\""),
    step(
        "tcp-check connect",
        "[default] [port <port>] [addr <ip>] [ssl] ...",
        "A step: connects",
        How::Proxy(connect),
    )
    .example("option tcp-check\ntcp-check connect port 8080"),
    step(
        "tcp-check expect",
        "[!] <match> <pattern> ...",
        "A step: what the response must be",
        How::Proxy(expect),
    )
    .example("option tcp-check\ntcp-check expect string OK"),
    step("tcp-check send", "<data> [comment <text>]", "A step: sends a text", How::Proxy(tcp_send))
        .example("option tcp-check\ntcp-check send PING\\r\\n"),
    step("tcp-check send-lf", "<fmt> [comment <text>]", "A step: sends a log format", How::Proxy(tcp_send))
        .example("option tcp-check\ntcp-check send-lf \"HELLO %H\\r\\n\""),
    step("tcp-check send-binary", "<hex> [comment <text>]", "A step: sends bytes", How::Proxy(tcp_send))
        .example("option tcp-check\ntcp-check send-binary 50494e47"),
    step(
        "tcp-check send-binary-lf",
        "<fmt> [comment <text>]",
        "A step: sends bytes from a log format",
        How::Proxy(tcp_send),
    )
    .example("option tcp-check\ntcp-check send-binary-lf 50494e47"),
    step(
        "tcp-check set-var",
        "<expr>",
        "A step: sets a variable: set-var(<name>) <expr>",
        How::Proxy(variable),
    )
    .example("option tcp-check\ntcp-check set-var(check.port) int(8080)"),
    step(
        "tcp-check set-var-fmt",
        "<fmt>",
        "A step: sets a variable: set-var-fmt(<name>) <fmt>",
        How::Proxy(variable),
    )
    .example("option tcp-check\ntcp-check set-var-fmt(check.name) \"%H\""),
    step("tcp-check unset-var", "", "A step: removes a variable: unset-var(<name>)", How::Proxy(variable))
        .example("option tcp-check\ntcp-check unset-var(check.port)"),
];
