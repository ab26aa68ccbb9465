//! `log` lines and log formats, of proxies and everything else that logs (section 8 of the manual).

use std::net::SocketAddr;
use std::sync::Arc;

use weir_rules::facts::LogOrigin;
use weir_rules::{Diagnostic, LogFormat, Place, Word};

use crate::keyword::{How, Keyword, Places, keyword as entry};
use crate::language::address::{Address, Host, Port, Transport};
use crate::language::args::{self, Args, Parsed, Prefix, choice, fail, fail_hint, parse_address};
use crate::language::tree::SectionKind;
use crate::model::{LogAddress, LogSteps, LogTarget, LogWire, Options, ProfileName};
use crate::sections::ProxyDraft;

/// Port of syslog.
const SYSLOG_PORT: u16 = 514;

/// Longest log line unless `len` says otherwise, bytes.
const DEFAULT_LENGTH: usize = 1024;

/// Facilities in the order of their numbers.
const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp", "ntp",
    "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// Levels in the order of their numbers.
const LEVELS: &[&str] = &["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// `log TARGET [len N] [format F] [sample R:S] FACILITY [LEVEL [MINLEVEL]]`, or `log global`.
pub(crate) fn target(a: &mut Args<'_>) -> Parsed<LogTarget> {
    let first = a.need("a target such as 127.0.0.1:514 or stdout, and a facility")?;
    let mut target = LogTarget {
        address: LogAddress::Stdout,
        format: LogWire::default(),
        own_format: false,
        max_len: DEFAULT_LENGTH,
        facility: 16,
        level: 7,
        min_level: 0,
        sample: None,
        profile: None,
        global: *first == "global",
    };
    if target.global {
        a.end()?;
        return Ok(target);
    }
    target.address = address(first)?;
    if matches!(target.address, LogAddress::Stdout | LogAddress::Stderr | LogAddress::Fd(_)) {
        target.format = LogWire::Raw;
    }
    while let Some(word) = a.peek() {
        match word.text.as_slice() {
            b"len" => {
                a.skip(1);
                target.max_len = a.number(80..=65535)?;
            }
            b"format" => {
                a.skip(1);
                target.format = wire(a.need("a format such as rfc5424")?)?;
                target.own_format = true;
            }
            b"sample" => {
                a.skip(1);
                target.sample = Some(sample(a.need("ranges and a size, as in 1:4")?)?);
            }
            b"profile" => {
                a.skip(1);
                let word = a.need("the name of a log-profile section")?;
                let profile = Arc::default();
                target.profile =
                    Some(ProfileName { name: word.as_str().into_owned(), pos: word.pos, profile });
            }
            _ => break,
        }
    }
    target.facility = position(a.need("a facility such as local0")?, "facility", FACILITIES)?;
    if let Some(level) = a.next() {
        target.level = position(level, "level", LEVELS)?;
    }
    if let Some(level) = a.next() {
        target.min_level = position(level, "level", LEVELS)?;
    }
    a.end()?;
    Ok(target)
}

/// A syslog level by its name.
pub(crate) fn level(word: &Word) -> Parsed<u8> {
    position(word, "level", LEVELS)
}

fn position(word: &Word, what: &str, names: &[&str]) -> Parsed<u8> {
    let known: Vec<(&str, usize)> = names.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    Ok(choice(word, what, &known)? as u8)
}

/// Framing of log lines.
pub(crate) fn wire(word: &Word) -> Parsed<LogWire> {
    let known = [
        ("local", LogWire::Local),
        ("rfc3164", LogWire::Rfc3164),
        ("rfc5424", LogWire::Rfc5424),
        ("priority", LogWire::Priority),
        ("short", LogWire::Short),
        ("timed", LogWire::Timed),
        ("iso", LogWire::Iso),
        ("raw", LogWire::Raw),
    ];
    choice(word, "log format", &known)
}

/// `RANGES:SIZE`, for instance `1-2,4:5`.
fn sample(word: &Word) -> Parsed<(Vec<(u32, u32)>, u32)> {
    let text = word.as_str();
    let wrong = || fail(word.pos, format!("'{text}' is not a sample such as 1:4 or 1-2,4:5"));
    let Some((ranges, size)) = text.rsplit_once(':') else { return wrong() };
    let Some(size) = size.parse::<u32>().ok().filter(|size| *size >= 1) else { return wrong() };
    let mut found: Vec<(u32, u32)> = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        match (low.parse(), high.parse()) {
            (Ok(low), Ok(high)) if low >= 1 && low <= high && high <= size => found.push((low, high)),
            _ => return wrong(),
        }
    }
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
        return fail(word.pos, format!("the ranges of '{text}' overlap"));
    }
    Ok((found, size))
}

fn address(word: &Word) -> Parsed<LogAddress> {
    let text = word.as_str();
    match &*text {
        "stdout" => return Ok(LogAddress::Stdout),
        "stderr" => return Ok(LogAddress::Stderr),
        _ => {}
    }
    if let Some(name) = text.strip_prefix("ring@") {
        return Ok(LogAddress::Ring(name.to_owned()));
    }
    if let Some(name) = text.strip_prefix("backend@") {
        return Ok(LogAddress::Backend(name.to_owned()));
    }
    let address = parse_address(word)?;
    network(word, &address)
}

fn network(word: &Word, address: &Address) -> Parsed<LogAddress> {
    let tcp = address.transport == Some(Transport::Stream);
    let port = match address.port {
        Port::Absent => SYSLOG_PORT,
        Port::Fixed(port) => port,
        Port::Range(..) | Port::Offset(_) => return fail(word.pos, "a single port was expected"),
    };
    if let Some(ip) = address.ip() {
        let socket = SocketAddr::new(ip, port);
        return Ok(if tcp { LogAddress::Tcp(socket) } else { LogAddress::Udp(socket) });
    }
    match &address.host {
        Host::Unix(path) => Ok(LogAddress::Unix(path.clone())),
        Host::Fd(1) => Ok(LogAddress::Stdout),
        Host::Fd(2) => Ok(LogAddress::Stderr),
        Host::Fd(fd) => Ok(LogAddress::Fd(*fd)),
        Host::Name(name) => Ok(LogAddress::Name(name.clone(), port, tcp)),
        _ => fail(word.pos, format!("log lines cannot go to '{}'", word.as_str())),
    }
}

fn proxy_log(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    if a.prefix != Prefix::None {
        d.proxy.logs.clear();
        return a.end();
    }
    let target = target(a)?;
    match &target.address {
        LogAddress::Ring(name) if !d.world.rings.contains(name.as_str()) => {
            let pos = a.words[0].pos;
            fail_hint(pos, format!("unable to find ring '{name}'"), "declare it in a 'ring' section")
        }
        LogAddress::Backend(name) if !d.world.backends.contains_key(name.as_str()) => {
            fail(a.words[0].pos, format!("unable to find log backend '{name}'"))
        }
        _ => {
            // The same global list twice would log each line twice.
            if !(target.global && d.proxy.logs.iter().any(|log| log.global)) {
                d.proxy.logs.push(target);
            }
            Ok(())
        }
    }
}

/// A predefined format replaces every other one.
fn predefined(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, set: fn(&mut Options, bool)) -> Parsed {
    if a.prefix != Prefix::None {
        clear(&mut d.proxy.options);
        return a.end();
    }
    let clf = a.take("clf");
    a.end()?;
    overrides(d, a);
    clear(&mut d.proxy.options);
    d.proxy.log_format = None;
    set(&mut d.proxy.options, clf);
    Ok(())
}

/// Two formats in one defaults section: whoever wrote the first one does not get it.
fn overrides(d: &mut ProxyDraft<'_>, a: &Args<'_>) {
    let options = &d.proxy.options;
    let set = [
        ("option httplog", options.httplog || options.httplog_clf),
        ("option httpslog", options.httpslog),
        ("option tcplog", options.tcplog || options.tcplog_clf),
        ("log-format", d.proxy.log_format.is_some()),
    ];
    let before = set.iter().find(|(keyword, set)| *set && *keyword != a.keyword);
    if let Some((keyword, _)) = before.filter(|_| d.kind == SectionKind::Defaults && !d.inherited) {
        let message = format!("'{}' overrides the '{keyword}' of this section", a.keyword);
        d.warnings.push(Diagnostic::warning(a.keyword_pos, message));
    }
}

fn clear(options: &mut Options) {
    options.httplog = false;
    options.httplog_clf = false;
    options.httpslog = false;
    options.tcplog = false;
    options.tcplog_clf = false;
}

fn log_format(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a log format in quotes")?;
    if let Some(extra) = a.peek() {
        return fail_hint(
            extra.pos,
            format!("'{}' takes one argument, but '{}' follows", a.keyword, extra.as_str()),
            "put the format into quotes or escape its spaces",
        );
    }
    let format = d.format(word, Place::Log)?;
    match a.keyword {
        "error-log-format" => d.proxy.error_log_format = Some(format),
        "log-format-sd" => d.proxy.log_format_sd = Some(format),
        _ => {
            overrides(d, a);
            clear(&mut d.proxy.options);
            d.proxy.log_format = Some(format);
        }
    }
    Ok(())
}

fn unique_id_format(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a log format")?;
    let format = d.at(Place::FrontendRequest, |d| LogFormat::parse_unique_id(word, &mut d.scope))?;
    d.proxy.unique_id_format = Some(format);
    a.end()
}

fn unique_id_header(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.proxy.unique_id_header = Some(a.need("a field name")?.text.clone());
    a.end()
}

fn log_tag(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.proxy.log_tag = Some(a.text("a tag")?);
    a.end()
}

/// `log-steps STEP,...|all`
fn log_steps(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("steps between commas, or 'all'")?;
    d.proxy.log_steps = LogSteps::default();
    for name in args::list(word) {
        let found = LogOrigin::STEPS.iter().filter(|(step, _)| *name == *b"all" || name == step.as_bytes());
        let steps: Vec<LogOrigin> = found.map(|(_, step)| *step).collect();
        if steps.is_empty() {
            let known = LogOrigin::STEPS.iter().map(|(name, _)| *name).chain(["all"]);
            let word = Word { text: name, pos: word.pos };
            return Err(vec![Diagnostic::unknown("step", &word, known)]);
        }
        steps.into_iter().for_each(|step| d.proxy.log_steps.add(step));
    }
    a.end()
}

fn flag(d: &mut ProxyDraft<'_>, a: &Args<'_>, field: fn(&mut Options) -> &mut bool) -> Parsed {
    *field(&mut d.proxy.options) = a.prefix == Prefix::None;
    a.end()
}

/// Keywords about logs.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "log",
        Places::PROXIES,
        "global | <target> [len <n>] [format <f>] [sample <s>] <facility> [<level> [<minlevel>]]",
        "Where log lines go",
        How::Proxy(proxy_log),
    )
    .example("log stdout format raw local0")
    .negatable(),
    entry("log-format", Places::PROXIES, "<format>", "Format of log lines", How::Proxy(log_format))
        .example("log stdout format raw local0\nlog-format \"%ci:%cp %ft %b/%s %ST %B\""),
    entry(
        "log-format-sd",
        Places::PROXIES,
        "<format>",
        "Structured data of RFC 5424 log lines",
        How::Proxy(log_format),
    )
    .example("log stdout format raw local0\nlog-format-sd \"[example@1 client=\\\"%ci\\\"]\""),
    entry(
        "error-log-format",
        Places::PROXIES,
        "<format>",
        "Format of log lines about failed connections",
        How::Proxy(log_format),
    )
    .example("error-log-format \"%ci %[fc_err_str]\""),
    entry("log-steps", Places::FRONT, "<steps>", "Stages at which lines are logged", How::Proxy(log_steps))
        .example("log-steps accept,close"),
    entry("log-tag", Places::PROXIES, "<string>", "Program name in syslog headers", How::Proxy(log_tag))
        .example("log-tag shop"),
    entry(
        "unique-id-format",
        Places::PROXIES,
        "<format>",
        "Format of the identifier of each request",
        How::Proxy(unique_id_format),
    )
    .example("unique-id-format %{+X}o%ci-%rt"),
    entry(
        "unique-id-header",
        Places::PROXIES,
        "<name>",
        "Field that carries the identifier to servers",
        How::Proxy(unique_id_header),
    )
    .example("unique-id-format %rt\nunique-id-header x-request-id"),
    entry(
        "option dontlog-normal",
        Places::FRONT,
        "",
        "Logs only what went wrong",
        How::Proxy(|d, a| flag(d, a, |o| &mut o.dontlog_normal)),
    )
    .example("option dontlog-normal")
    .negatable(),
    entry(
        "option dontlognull",
        Places::FRONT,
        "",
        "Does not log connections without data",
        How::Proxy(|d, a| flag(d, a, |o| &mut o.dontlognull)),
    )
    .example("option dontlognull")
    .negatable(),
    entry(
        "option httplog",
        Places::PROXIES,
        "[clf]",
        "Logs requests",
        How::Proxy(|d, a| {
            predefined(d, a, |o, clf| if clf { o.httplog_clf = true } else { o.httplog = true })
        }),
    )
    .example("log stdout format raw local0\noption httplog")
    .negatable(),
    entry(
        "option httpslog",
        Places::PROXIES,
        "",
        "Logs requests with facts about TLS",
        How::Proxy(|d, a| predefined(d, a, |o, _| o.httpslog = true)),
    )
    .example("log stdout format raw local0\noption httpslog")
    .negatable(),
    entry(
        "option tcplog",
        Places::PROXIES,
        "[clf]",
        "Logs connections",
        How::Proxy(|d, a| predefined(d, a, |o, clf| if clf { o.tcplog_clf = true } else { o.tcplog = true })),
    )
    .example("mode tcp\nlog stdout format raw local0\noption tcplog")
    .negatable(),
    entry(
        "option log-health-checks",
        Places::BACK,
        "",
        "Logs each check that changes something",
        How::Proxy(|d, a| flag(d, a, |o| &mut o.log_health_checks)),
    )
    .example("option log-health-checks")
    .negatable(),
    entry(
        "option log-separate-errors",
        Places::FRONT,
        "",
        "Raises the level of failures",
        How::Proxy(|d, a| flag(d, a, |o| &mut o.log_separate_errors)),
    )
    .example("option log-separate-errors")
    .negatable(),
    entry(
        "option logasap",
        Places::FRONT,
        "",
        "Logs when the response's head is there",
        How::Proxy(|d, a| flag(d, a, |o| &mut o.logasap)),
    )
    .example("option logasap")
    .negatable(),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<LogTarget, String> {
        let words: Vec<Word> = line.split(' ').map(|w| Word { text: w.into(), ..Word::default() }).collect();
        let mut args = Args::new(&words, "log", 0, Prefix::None);
        target(&mut args).map_err(|found| found[0].message.clone())
    }

    #[test]
    fn targets() {
        let check = |line: &str, address: LogAddress, facility: u8, level: u8, min: u8| {
            let found = parse(line).unwrap();
            assert_eq!(
                (found.address, found.facility, found.level, found.min_level),
                (address, facility, level, min),
                "{line}"
            );
        };
        let udp = |text: &str| LogAddress::Udp(text.parse().unwrap());
        check("127.0.0.1:5514 local0", udp("127.0.0.1:5514"), 16, 7, 0);
        check("127.0.0.1 local1 notice", udp("127.0.0.1:514"), 17, 5, 0);
        check("127.0.0.1 len 200 format rfc5424 daemon info err", udp("127.0.0.1:514"), 3, 6, 3);
        check("tcp@[::1]:1 user", LogAddress::Tcp("[::1]:1".parse().unwrap()), 1, 7, 0);
        check("stdout format raw local0", LogAddress::Stdout, 16, 7, 0);
        check("fd@2 local0", LogAddress::Stderr, 16, 7, 0);
        check("/dev/log local0", LogAddress::Unix("/dev/log".into()), 16, 7, 0);
        check("ring@r local0", LogAddress::Ring("r".into()), 16, 7, 0);
        check("logs.example local0", LogAddress::Name("logs.example".into(), 514, false), 16, 7, 0);
        assert_eq!(parse("127.0.0.1 sample 1-2,4:5 local0").unwrap().sample, Some((vec![(1, 2), (4, 4)], 5)));
        assert!(parse("global").unwrap().global);
    }

    #[test]
    fn targets_that_are_none() {
        let check = |line: &str, expected: &str| {
            let message = parse(line).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        };
        check("127.0.0.1", "expects a facility");
        check("127.0.0.1 loca0", "unknown facility 'loca0'");
        check("127.0.0.1 local0 loud", "unknown level");
        check("127.0.0.1 sample 3-1:4 local0", "not a sample");
        check("127.0.0.1 sample 1-2,2:4 local0", "overlap");
        check("127.0.0.1 format xml local0", "unknown log format");
        check("global local0", "no more arguments");
    }
}
