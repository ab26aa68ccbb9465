//! The `global` section (section 3 of the manual), less `tune.` keywords.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Diagnostic, Expr, LogFormat, Word};

use crate::bind;
use crate::keyword::{self, How, Keyword, Places, keyword};
use crate::language::address::{self, Host, Port};
use crate::language::args::{self, Args, MOST_A_SECOND, Parsed, Prefix, choice, fail, fail_hint};
use crate::language::units::Unit;
use crate::model::{
    AcceptFamily, CloseSpread, CpuAffinity, CpuKind, CpuNumbers, CpuPolicy, Cpus, ExtraFiles, Global,
    SslBind, TlsWords, UnixBind, Verify,
};
use crate::proxy::logging;
use crate::sections::GlobalDraft;
use crate::status_set::StatusSet;
use crate::tls;
use crate::tune::ocsp_delay;

/// Most threads.
const MOST_THREADS: usize = 4096;

/// Most CPUs a set may name.
const MOST_CPUS: usize = 4096;

fn path(args: &mut Args<'_>) -> Parsed<Option<PathBuf>> {
    let word = args.need("a path")?;
    args.end()?;
    Ok(Some(PathBuf::from(word.as_str().as_ref())))
}

fn text(args: &mut Args<'_>) -> Parsed<Option<String>> {
    let text = args.text("an argument")?;
    args.end()?;
    Ok(Some(text))
}

/// The address of an HTTP proxy, with port 80 unless it says another.
fn http_proxy(word: &Word) -> Parsed<(String, u16)> {
    let parsed =
        address::parse(&word.as_str()).map_err(|message| vec![Diagnostic::error(word.pos, message)])?;
    let port = match parsed.port {
        Port::Fixed(port) => port,
        Port::Absent => 80,
        Port::Offset(_) | Port::Range(..) => return fail(word.pos, "one port is expected"),
    };
    match &parsed.host {
        Host::Ip(ip) => Ok((ip.to_string(), port)),
        Host::Name(name) => Ok((name.clone(), port)),
        _ => fail(word.pos, "the address or name of an HTTP proxy is expected"),
    }
}

fn last<T>(value: T, args: &Args<'_>) -> Parsed<T> {
    args.end()?;
    Ok(value)
}

/// True, or false after `no`.
fn flag(args: &Args<'_>) -> Parsed<bool> {
    last(args.prefix == Prefix::None, args)
}

/// Threads of a group, and groups: a machine word of them, as in HAProxy.
const WORD: usize = 64;

/// `dns-accept-family ipv4|ipv6|auto[,...]`
fn dns_accept_family(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let word = args.need("ipv4, ipv6 or auto")?;
    let mut family = None;
    for name in args::list(word) {
        family = Some(match (name.as_slice(), family) {
            (b"auto", _) => AcceptFamily::Auto,
            (b"ipv4", None | Some(AcceptFamily::V4)) => AcceptFamily::V4,
            (b"ipv6", None | Some(AcceptFamily::V6)) => AcceptFamily::V6,
            (b"ipv4" | b"ipv6", _) => AcceptFamily::Both,
            _ => return Err(vec![Diagnostic::unknown("family", word, ["ipv4", "ipv6", "auto"])]),
        });
    }
    draft.global.dns_accept_family = family.unwrap_or_default();
    args.end()
}

/// `cpu-map [auto:]GROUPS[/THREADS] CPUS...`
fn cpu_map(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let target = args.need("threads, as in auto:1/1-4")?;
    let text = target.as_str();
    let (auto, target_text) = text.strip_prefix("auto:").map_or((false, &*text), |rest| (true, rest));
    let (groups, threads) = target_text.split_once('/').unwrap_or((target_text, "all"));
    let (Some(groups), Some(threads)) = (number_set(groups, 1, WORD), number_set(threads, 1, WORD)) else {
        return fail_hint(
            target.pos,
            format!("'{text}' is not a set of threads"),
            "write for instance 1/all, 1/1-4 or auto:1/1-4",
        );
    };
    args.need("CPU numbers, as in 0-3")?;
    let mut cpus = BTreeSet::new();
    for word in &args.words[1..] {
        for part in word.as_str().split(',') {
            let Some(set) = number_set(part, 0, MOST_CPUS - 1) else {
                return fail(word.pos, format!("'{part}' is not a set of CPUs such as 0-3"));
            };
            // An open range counts as many CPUs as there may be threads.
            let open = part.ends_with('-');
            cpus.extend(set.into_iter().take(if open { WORD } else { MOST_CPUS }));
        }
    }
    let places: Vec<(usize, usize)> = groups.iter().flat_map(|g| threads.iter().map(|t| (*g, *t))).collect();
    if auto && places.len() != cpus.len() {
        let (threads, cpus) = (places.len(), cpus.len());
        return fail(target.pos, format!("'auto:' needs as many CPUs as threads, not {cpus} for {threads}"));
    }
    let cpus: Vec<usize> = cpus.into_iter().collect();
    for (index, (group, thread)) in places.into_iter().enumerate() {
        let set = if auto { vec![cpus[index]] } else { cpus.clone() };
        map_thread(&mut draft.global, group, thread, set);
    }
    Ok(())
}

/// `cpu-set [reset] [only-KIND SET | drop-KIND SET]...`
fn cpu_set(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let kinds = [
        ("cpu", CpuKind::Cpu),
        ("node", CpuKind::Node),
        ("cluster", CpuKind::Cluster),
        ("core", CpuKind::Core),
        ("thread", CpuKind::Thread),
    ];
    args.peek()
        .map_or_else(|| fail(args.pos(), "a directive such as 'only-cpu 0-3' was expected"), |_| Ok(()))?;
    while let Some(word) = args.next() {
        let text = word.as_str();
        if text == "reset" {
            draft.global.cpus = Cpus { reset: true, sets: Vec::new(), ..draft.global.cpus.clone() };
            continue;
        }
        let parts = text.split_once('-').filter(|(verb, _)| matches!(*verb, "only" | "drop"));
        let kind = parts.and_then(|(_, name)| kinds.iter().find(|(known, _)| *known == name));
        let (Some((verb, _)), Some((_, kind))) = (parts, kind) else {
            let known = kinds.iter().flat_map(|(kind, _)| [format!("only-{kind}"), format!("drop-{kind}")]);
            let known: Vec<String> = known.collect();
            return Err(vec![Diagnostic::unknown("directive", word, known.iter().map(String::as_str))]);
        };
        let set = args.value_of(word, "numbers such as 0-3")?;
        let mut numbers = Vec::new();
        for part in set.as_str().split(',') {
            match number_set(part, 0, MOST_CPUS - 1) {
                Some(range) => numbers.extend(range),
                None => return fail(set.pos, format!("'{part}' is not a set such as 0-3")),
            }
        }
        draft.global.cpus.sets.push(CpuNumbers { kind: *kind, only: verb == "only", numbers });
    }
    Ok(())
}

/// `cpu-policy POLICY [threads-per-core 1|auto]`
fn cpu_policy(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let known = [
        ("none", CpuPolicy::None),
        ("efficiency", CpuPolicy::Efficiency),
        ("first-usable-node", CpuPolicy::FirstUsableNode),
        ("group-by-ccx", CpuPolicy::GroupByCcx(1)),
        ("group-by-2-ccx", CpuPolicy::GroupByCcx(2)),
        ("group-by-3-ccx", CpuPolicy::GroupByCcx(3)),
        ("group-by-4-ccx", CpuPolicy::GroupByCcx(4)),
        ("group-by-cluster", CpuPolicy::GroupByCluster(1)),
        ("group-by-2-clusters", CpuPolicy::GroupByCluster(2)),
        ("group-by-3-clusters", CpuPolicy::GroupByCluster(3)),
        ("group-by-4-clusters", CpuPolicy::GroupByCluster(4)),
        ("performance", CpuPolicy::Performance),
        ("resource", CpuPolicy::Resource),
    ];
    draft.global.cpus.policy = Some(choice(args.need("a policy such as performance")?, "policy", &known)?);
    if let Some(word) = args.next() {
        choice(word, "word", &[("threads-per-core", ())])?;
        draft.global.cpus.one_thread_per_core =
            choice(args.value_of(word, "1 or auto")?, "value", &[("1", true), ("auto", false)])?;
    }
    args.end()
}

/// `cpu-affinity AFFINITY`
fn cpu_affinity(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let known = [
        ("auto", CpuAffinity::Auto),
        ("per-ccx", CpuAffinity::PerCcx),
        ("per-core", CpuAffinity::PerCore),
        ("per-group", CpuAffinity::PerGroup),
        ("per-thread", CpuAffinity::PerThread),
    ];
    let affinity = choice(args.need("an affinity such as per-core")?, "affinity", &known)?;
    draft.global.cpus.affinity = affinity;
    if let Some(word) = args.next().filter(|_| affinity == CpuAffinity::PerGroup) {
        // Groups are not split: their threads share all of their CPUs, which is both.
        choice(word, "value", &[("auto", ()), ("loose", ())])?;
    }
    args.end()
}

/// Stores the CPUs of a thread; groups and threads that do not exist are ignored.
fn map_thread(global: &mut Global, group: usize, thread: usize, cpus: Vec<usize>) {
    let groups = global.thread_groups as usize;
    let in_group = global.nbthread.map_or(WORD, |threads| threads.div_ceil(groups));
    if group > groups || thread > in_group {
        return;
    }
    let index = (group - 1) * in_group + thread - 1;
    let map = &mut global.cpu_map;
    if map.len() <= index {
        map.resize(index + 1, Vec::new());
    }
    map[index] = cpus;
}

/// `all`, `odd`, `even`, `3`, `1-4` or `1-` as numbers.
fn number_set(text: &str, first: usize, last: usize) -> Option<Vec<usize>> {
    match text {
        "all" => return Some((first..=last).collect()),
        "odd" => return Some((first..=last).filter(|n| n % 2 == 1).collect()),
        "even" => return Some((first..=last).filter(|n| n % 2 == 0).collect()),
        _ => {}
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let low: usize = low.parse().ok()?;
    let high = if high.is_empty() { last } else { high.parse().ok()? };
    (first <= low && low <= high && high <= last).then(|| (low..=high).collect())
}

fn set_var(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let name = variable(args)?;
    let (expr, used) = Expr::parse(args.ahead(), &mut draft.scope)?;
    args.skip(used);
    draft.global.set_vars.push((name, Ok(Arc::new(expr))));
    args.end()
}

fn set_var_fmt(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let name = variable(args)?;
    let format = LogFormat::parse(args.need("a log format")?, &mut draft.scope)?;
    draft.global.set_vars.push((name, Err(Arc::new(format))));
    args.end()
}

fn variable(args: &mut Args<'_>) -> Parsed<Vec<u8>> {
    let word = args.need("a variable such as proc.name")?;
    if !word.text.starts_with(b"proc.") {
        return fail(word.pos, format!("only 'proc.' variables can be set here, not '{}'", word.as_str()));
    }
    args.ahead().first().map_or_else(
        || fail(args.pos(), "a value was expected after the variable"),
        |_| Ok(word.text.clone()),
    )
}

/// `unix-bind [prefix P] [mode M] [user U] [uid N] [group G] [gid N]`
fn unix_bind(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let unix: &mut UnixBind = &mut draft.global.unix_bind;
    while let Some(word) = args.next() {
        match word.text.as_slice() {
            b"prefix" => unix.prefix = Some(args.text("a path")?),
            b"user" => unix.user = Some(args.text("a user's name")?),
            b"group" => unix.group = Some(args.text("a group's name")?),
            b"uid" => unix.uid = Some(args.number(0..=u32::MAX)?),
            b"gid" => unix.gid = Some(args.number(0..=u32::MAX)?),
            b"mode" => {
                let mode = args.need("a mode such as 660")?;
                unix.mode = Some(
                    u32::from_str_radix(&mode.as_str(), 8)
                        .or_else(|_| fail(mode.pos, "an octal mode was expected"))?,
                );
            }
            _ => return unknown_word(word, &["prefix", "mode", "user", "uid", "group", "gid"]),
        }
    }
    Ok(())
}

fn unknown_word<T>(word: &Word, known: &[&str]) -> Parsed<T> {
    Err(vec![
        Diagnostic::unknown("word", word, known.iter().copied()).hint(format!("one of {}", known.join(", "))),
    ])
}

/// `ssl-default-bind-ciphers` and its like: a word of all bind lines.
fn ssl_default_bind(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    ssl_default(&mut draft.global.ssl_default_bind.words, args, "ssl-default-bind-")
}

fn ssl_default_server(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    ssl_default(&mut draft.global.ssl_default_server.words, args, "ssl-default-server-")
}

fn ssl_default(words: &mut TlsWords, args: &mut Args<'_>, prefix: &str) -> Parsed {
    let word = args.keyword.strip_prefix(prefix).unwrap_or_default();
    tls::read(words, word, None, &mut |_| args.need("an argument"))?;
    args.end()
}

/// `ssl-default-bind-options`: the words of bind lines that make sense for all of them.
fn ssl_bind_options(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let ssl: &mut SslBind = &mut draft.global.ssl_default_bind;
    while let Some(word) = args.next() {
        let text = word.as_str();
        match &*text {
            "prefer-client-ciphers" => ssl.prefer_client_ciphers = true,
            "strict-sni" => ssl.strict_sni = true,
            "no-strict-sni" => ssl.strict_sni = false,
            "no-ca-names" => ssl.no_ca_names = true,
            "no-alpn" => ssl.no_alpn = true,
            "no-sslv3" => {}
            _ if tls::read_option(&mut ssl.words, &text, &mut |what| args.need(what))? => {}
            _ => {
                return unknown_word(
                    word,
                    &[
                        "ssl-min-ver",
                        "ssl-max-ver",
                        "no-tls-tickets",
                        "prefer-client-ciphers",
                        "no-ca-names",
                        "strict-sni",
                        "no-tlsv10",
                    ],
                );
            }
        }
    }
    Ok(())
}

fn ssl_server_options(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let ssl = &mut draft.global.ssl_default_server;
    while let Some(word) = args.next() {
        let text = word.as_str();
        match &*text {
            "no-ssl-reuse" => ssl.no_ssl_reuse = true,
            "no-sslv3" | "no-renegotiate" => {}
            _ if tls::read_option(&mut ssl.words, &text, &mut |what| args.need(what))? => {}
            _ => {
                return unknown_word(
                    word,
                    &["ssl-min-ver", "ssl-max-ver", "no-tls-tickets", "no-ssl-reuse", "no-tlsv10"],
                );
            }
        }
    }
    Ok(())
}

/// `h1-case-adjust FROM TO`: the same name in another case.
fn case_adjust(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let from = args.need("a field name in lower case")?;
    let to = args.need("the same name as it is to be sent")?;
    if !from.text.eq_ignore_ascii_case(&to.text) {
        return fail(to.pos, format!("'{}' and '{}' differ in more than case", from.as_str(), to.as_str()));
    }
    draft.global.h1_case_adjust.insert(from.text.to_ascii_lowercase(), to.text.clone());
    args.end()
}

fn case_adjust_file(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let word = args.need("a file name")?;
    let bytes = crate::language::files::read(std::path::Path::new(word.as_str().as_ref()))
        .or_else(|error| fail(word.pos, format!("cannot read '{}': {error}", word.as_str())))?;
    for line in bytes.split(|b| *b == b'\n') {
        let line = line.split(|b| *b == b'#').next().unwrap_or_default();
        let mut parts = line.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
        let Some(from) = parts.next() else { continue };
        let Some(to) = parts.next().filter(|to| to.eq_ignore_ascii_case(from)) else {
            let from = String::from_utf8_lossy(from).into_owned();
            return fail(
                word.pos,
                format!("the file's line for '{from}' does not give the same name in another case"),
            );
        };
        draft.global.h1_case_adjust.insert(from.to_ascii_lowercase(), to.to_vec());
    }
    args.end()
}

fn ssl_server_verify(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let word = args.need("none or required")?;
    let verify = choice(word, "verification", &[("none", Verify::None), ("required", Verify::Required)])?;
    draft.global.ssl_server_verify_none = verify == Verify::None;
    args.end()
}

/// `ssl-load-extra-files all|none|KIND...`
fn load_extra_files(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    args.need("'all', 'none' or kinds of files")?;
    let known = ["bundle", "sctl", "ocsp", "issuer", "key", "all", "none"].map(|kind| (kind, kind));
    let kinds = args.words.iter().map(|word| choice(word, "kind of files", &known));
    let kinds = kinds.collect::<Parsed<Vec<&str>>>()?;
    let has = |kind| kinds.contains(&"all") || kinds.contains(&kind);
    draft.global.ssl_load_extra_files = match kinds.last() {
        Some(&"none") => ExtraFiles::NONE,
        _ => ExtraFiles { bundle: has("bundle"), key: has("key"), ocsp: has("ocsp"), issuer: has("issuer") },
    };
    Ok(())
}

fn statuses(mut set: StatusSet, args: &mut Args<'_>) -> Parsed<StatusSet> {
    args.need("statuses such as 400-499")?;
    for word in args.words {
        set.apply(&word.as_str()).or_else(|message| fail(word.pos, message))?;
    }
    Ok(set)
}

fn no_reuseport(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    draft.global.reuseport = args.prefix != Prefix::None;
    args.end()
}

fn stats_socket(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let binds = bind::parse(args, &draft.global)?;
    draft.global.stats_sockets.extend(binds);
    Ok(())
}

fn global_log(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    if args.prefix == Prefix::No {
        draft.global.logs.clear();
        return args.end();
    }
    if let Some(word) = args.peek().filter(|word| **word == "global") {
        return fail_hint(
            word.pos,
            "'log global' makes no sense here",
            "name a target, as in 'log 127.0.0.1:514 local0'",
        );
    }
    draft.global.logs.push(logging::target(args)?);
    Ok(())
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::GLOBAL, arguments, doc, how)
}

const NO_DETECTION: &str = "the vendor's library is not part of this program; a map can tell devices apart";

const NO_LUA: &str = "there is no Lua";

const NO_OPENSSL: &str = "TLS is not OpenSSL's: there are no engines and no providers";

/// Also for `acme` sections.
pub(crate) const NO_ACME: &str =
    "certificates come from files and the command 'set ssl cert': run an ACME client beside this program";

const ENVIRONMENT: &str = "Changes the environment variables that the following lines see";

/// Keywords of `global`.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry("51degrees-allow-unmatched", "<on|off>", "Device detection by 51Degrees", How::Never(NO_DETECTION)),
    entry("51degrees-cache-size", "<number>", "Device detection by 51Degrees", How::Never(NO_DETECTION)),
    entry("51degrees-data-file", "<file>", "Device detection by 51Degrees", How::Never(NO_DETECTION)),
    entry("51degrees-difference", "<number>", "Device detection by 51Degrees", How::Never(NO_DETECTION)),
    entry("51degrees-drift", "<number>", "Device detection by 51Degrees", How::Never(NO_DETECTION)),
    entry(
        "51degrees-property-name-list",
        "<names>",
        "Device detection by 51Degrees",
        How::Never(NO_DETECTION),
    ),
    entry(
        "51degrees-property-separator",
        "<char>",
        "Device detection by 51Degrees",
        How::Never(NO_DETECTION),
    ),
    entry(
        "51degrees-use-performance-graph",
        "<on|off>",
        "Device detection by 51Degrees",
        How::Never(NO_DETECTION),
    ),
    entry(
        "51degrees-use-predictive-graph",
        "<on|off>",
        "Device detection by 51Degrees",
        How::Never(NO_DETECTION),
    ),
    entry(
        "ca-base",
        "<dir>",
        "Folder of relative ca-file and crl-file names",
        How::Global(|d, a| {
            d.global.ca_base = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "chroot",
        "<dir>",
        "Changes the root folder after start",
        How::Global(|d, a| {
            d.global.chroot = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "close-spread-time",
        "<time|infinite>",
        "Time over which a soft stop spreads the closing of connections",
        How::Global(|d, a| {
            let word = a.need("a time, or 'infinite'")?;
            d.global.close_spread_time = match word.text.as_slice() {
                b"infinite" => CloseSpread::Never,
                _ => CloseSpread::Over(crate::language::args::time(word, Unit::Millis)?),
            };
            a.end()
        }),
    ),
    entry(
        "cluster-secret",
        "<secret>",
        "Secret that nodes share",
        How::NoEffect("only QUIC derives keys from it, and there is no QUIC"),
    ),
    entry(
        "cpu-affinity",
        "<affinity>",
        "How threads are placed in a group's CPUs",
        How::Global(cpu_affinity),
    ),
    entry("cpu-map", "[auto:]<threads> <cpus>...", "CPUs that threads run on", How::Global(cpu_map)),
    entry(
        "cpu-policy",
        "<policy> [threads-per-core <1|auto>]",
        "How CPUs are chosen",
        How::Global(cpu_policy),
    ),
    entry("cpu-set", "<directive>...", "CPUs that may be chosen", How::Global(cpu_set)),
    entry(
        "crt-base",
        "<dir>",
        "Folder of relative crt names",
        How::Global(|d, a| {
            d.global.crt_base = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "daemon",
        "",
        "Runs in the background",
        How::Global(|d, a| {
            d.global.daemon = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "default-path",
        "<origin>",
        "What relative file names are relative to",
        How::Global(|_, a| {
            let word = a.need("current, config, parent or origin")?;
            if *word == "current" {
                a.end()
            } else {
                Err(keyword::not_yet(word, &format!("default-path {}", word.as_str())))
            }
        }),
    ),
    entry(
        "description",
        "<text>",
        "Describes this instance on the statistics page",
        How::Global(|d, a| {
            d.global.description = Some(crate::language::args::joined(a.rest()));
            Ok(())
        }),
    ),
    entry("deviceatlas-json-file", "<file>", "Device detection by DeviceAtlas", How::Never(NO_DETECTION)),
    entry("deviceatlas-log-level", "<level>", "Device detection by DeviceAtlas", How::Never(NO_DETECTION)),
    entry(
        "deviceatlas-properties-cookie",
        "<name>",
        "Device detection by DeviceAtlas",
        How::Never(NO_DETECTION),
    ),
    entry("deviceatlas-separator", "<char>", "Device detection by DeviceAtlas", How::Never(NO_DETECTION)),
    entry(
        "dns-accept-family",
        "<family>[,<family>]",
        "Address families accepted from name servers",
        How::Global(dns_accept_family),
    ),
    entry(
        "expose-deprecated-directives",
        "",
        "Allows deprecated keywords",
        How::NoEffect("no keyword that is there needs permission"),
    )
    .negatable(),
    entry(
        "expose-experimental-directives",
        "",
        "Allows experimental keywords",
        How::Global(|d, a| {
            d.global.expose_experimental_directives = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "external-check",
        "[preserve-env]",
        "Allows checks by external programs",
        How::Global(|d, a| {
            d.global.external_check = true;
            d.global.external_check_preserve_env = a.take("preserve-env");
            a.end()
        }),
    ),
    entry(
        "fd-hard-limit",
        "<number>",
        "Most file descriptors",
        How::Global(|d, a| {
            d.global.fd_hard_limit = Some(a.number(1..=u64::MAX)?);
            a.end()
        }),
    ),
    entry(
        "gid",
        "<number>",
        "Group to run as, by number",
        How::Global(|d, a| {
            d.global.gid = Some(a.number(0..=u32::MAX)?);
            a.end()
        }),
    ),
    entry(
        "grace",
        "<time>",
        "Time after SIGUSR1 during which it still listens",
        How::Global(|d, a| {
            d.global.grace = Some(a.time()?);
            a.end()
        }),
    ),
    entry(
        "group",
        "<name>",
        "Group to run as",
        How::Global(|d, a| {
            d.global.group_pos = a.pos();
            d.global.group = text(a)?;
            Ok(())
        }),
    ),
    entry(
        "h1-accept-payload-with-any-method",
        "",
        "Accepts bodies of GET, HEAD and DELETE over HTTP/1.0",
        How::Global(|d, a| {
            d.global.h1_accept_payload_with_any_method = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "h1-case-adjust",
        "<from> <to>",
        "Case of a field name for old clients and servers",
        How::Global(case_adjust),
    ),
    entry("h1-case-adjust-file", "<file>", "Case of field names, from a file", How::Global(case_adjust_file)),
    entry(
        "h1-do-not-close-on-insecure-transfer-encoding",
        "",
        "Keeps connections with an ambiguous length",
        How::Removed("an ambiguous length always closes the connection"),
    ),
    entry(
        "h2-workaround-bogus-websocket-clients",
        "",
        "Does not announce WebSockets over HTTP/2",
        How::Global(|d, a| {
            d.global.no_h2_websockets = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "hard-stop-after",
        "<time>",
        "Longest time a soft stop may take",
        How::Global(|d, a| {
            d.global.hard_stop_after = Some(a.time()?).filter(|time| !time.is_zero());
            a.end()
        }),
    ),
    entry(
        "harden.reject-privileged-ports.tcp",
        "<on|off>",
        "Refuses clients from ports below 1024",
        How::Global(|d, a| {
            d.global.reject_privileged_ports_tcp = a.switch()?;
            a.end()
        }),
    ),
    entry(
        "harden.reject-privileged-ports.quic",
        "<on|off>",
        "Refuses QUIC clients from ports below 1024",
        How::NoEffect("there is no QUIC"),
    ),
    entry(
        "insecure-fork-wanted",
        "",
        "Allows new processes",
        How::NoEffect("the process that serves starts no other one"),
    )
    .negatable(),
    entry(
        "insecure-setuid-wanted",
        "",
        "Allows programs that change their user",
        How::Global(|d, a| {
            d.global.insecure_setuid_wanted = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "issuers-chain-path",
        "<dir>",
        "Folder of certificates of authorities",
        How::Global(|d, a| {
            d.global.issuers_chain_path = Some(a.text("a folder")?.into());
            a.end()
        }),
    ),
    entry("jwt.decrypt_alg_list", "<algs>", "Key algorithms allowed for encrypted tokens", How::NotYet),
    entry("jwt.decrypt_enc_list", "<algs>", "Content algorithms allowed for encrypted tokens", How::NotYet),
    entry(
        "key-base",
        "<dir>",
        "Folder of relative key names",
        How::Global(|d, a| {
            d.global.key_base = path(a)?;
            Ok(())
        }),
    ),
    entry("limited-quic", "", "QUIC without its newest parts", How::NoEffect("there is no QUIC")),
    entry(
        "localpeer",
        "<name>",
        "Name of this process among peers",
        How::Global(|d, a| {
            d.global.localpeer = text(a)?;
            Ok(())
        }),
    ),
    entry(
        "log",
        "<target> [len <n>] [format <f>] [sample <s>] <facility> [<level> [<minlevel>]]",
        "Where log lines go",
        How::Global(global_log),
    )
    .negatable(),
    entry(
        "log-send-hostname",
        "[<string>]",
        "Puts a host name into syslog headers",
        How::Global(|d, a| {
            d.global.log_send_hostname =
                Some(a.next().map_or_else(String::new, |word| word.as_str().into_owned()));
            a.end()
        }),
    ),
    entry(
        "log-tag",
        "<string>",
        "Program name in syslog headers",
        How::Global(|d, a| {
            d.global.log_tag = text(a)?;
            Ok(())
        }),
    ),
    entry("lua-load", "<file>", "Loads a Lua script", How::Never(NO_LUA)),
    entry("lua-load-per-thread", "<file>", "Loads a Lua script in each thread", How::Never(NO_LUA)),
    entry("lua-prepend-path", "<path>", "Where Lua modules are found", How::Never(NO_LUA)),
    entry(
        "master-worker",
        "[no-exit-on-failure]",
        "Runs a worker under a master process",
        How::Global(|d, a| {
            d.global.no_exit_on_failure = a.take("no-exit-on-failure");
            d.global.master_worker = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry("max-threads-per-group", "<number>", "Threads of a group", How::NoEffect("threads have no groups")),
    entry(
        "mworker-max-reloads",
        "<number>",
        "Reloads an old worker survives",
        How::Global(|d, a| {
            d.global.mworker_max_reloads = Some(a.number(0..=i32::MAX as u32)?);
            a.end()
        }),
    ),
    entry(
        "nbthread",
        "<number>",
        "Number of worker threads",
        How::Global(|d, a| {
            d.global.nbthread = Some(a.number(1..=MOST_THREADS)?);
            a.end()
        }),
    ),
    entry("nbproc", "<number>", "Number of processes", How::Removed("use nbthread")),
    entry(
        "thread-groups",
        "<number>",
        "Number of thread groups",
        How::Global(|d, a| {
            d.global.thread_groups = a.number(1..=64)?;
            a.end()
        }),
    ),
    entry("thread-group", "<group> <threads>", "Threads of a group", How::NoEffect("threads have no groups")),
    entry(
        "node",
        "<name>",
        "Name of this node",
        How::Global(|d, a| {
            d.global.node = text(a)?;
            Ok(())
        }),
    ),
    entry(
        "numa-cpu-mapping",
        "",
        "Binds to one NUMA node by itself",
        How::NoEffect("threads run where cpu-map or the kernel puts them"),
    )
    .negatable(),
    entry(
        "ocsp-update.disable",
        "<on|off>",
        "Turns OCSP updates off",
        How::Global(|d, a| {
            d.global.ocsp_update.disable = a.switch()?;
            a.end()
        }),
    ),
    entry(
        "ocsp-update.httpproxy",
        "<addr>",
        "Proxy for OCSP updates",
        How::Global(|d, a| {
            d.global.ocsp_update.httpproxy = Some(http_proxy(a.need("an address")?)?);
            a.end()
        }),
    ),
    entry(
        "ocsp-update.maxdelay",
        "<number>",
        "Longest time between OCSP updates, seconds",
        How::Global(|d, a| ocsp_delay(a, &mut d.global.ocsp_update.maxdelay)),
    ),
    entry(
        "ocsp-update.mindelay",
        "<number>",
        "Shortest time between OCSP updates, seconds",
        How::Global(|d, a| ocsp_delay(a, &mut d.global.ocsp_update.mindelay)),
    ),
    entry(
        "ocsp-update.mode",
        "<on|off>",
        "Default of ocsp-update",
        How::Global(|d, a| {
            d.global.ocsp_update.mode = a.switch()?;
            a.end()
        }),
    ),
    entry(
        "pidfile",
        "<file>",
        "Where the process number is written",
        How::Global(|d, a| {
            d.global.pidfile = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "pp2-never-send-local",
        "",
        "Never sends the PROXY protocol's LOCAL command",
        How::Global(|d, a| {
            d.global.pp2_never_send_local = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "prealloc-fd",
        "",
        "Reserves file descriptors at start",
        How::NoEffect("descriptors are made when they are needed"),
    ),
    entry("presetenv", "<name> <value>", ENVIRONMENT, How::Tree),
    entry("resetenv", "[<name>...]", ENVIRONMENT, How::Tree),
    entry("setenv", "<name> <value>", ENVIRONMENT, How::Tree),
    entry("unsetenv", "<name>...", ENVIRONMENT, How::Tree),
    entry(
        "set-dumpable",
        "",
        "Allows core dumps",
        How::Global(|d, a| {
            d.global.set_dumpable = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry("set-var", "<name> <expr>", "Sets a proc. variable from an expression", How::Global(set_var)),
    entry("set-var-fmt", "<name> <fmt>", "Sets a proc. variable from a log format", How::Global(set_var_fmt)),
    entry("shm-stats-file", "<file>", "Statistics in a shared file", How::NotYet),
    entry(
        "ssl-default-bind-ciphers",
        "<ciphers>",
        "Cipher suites of bind lines up to TLS 1.2",
        How::Global(ssl_default_bind),
    ),
    entry(
        "ssl-default-bind-ciphersuites",
        "<suites>",
        "Cipher suites of bind lines with TLS 1.3",
        How::Global(ssl_default_bind),
    ),
    entry(
        "ssl-default-bind-client-sigalgs",
        "<sigalgs>",
        "Signature algorithms of client certificates",
        How::Global(ssl_default_bind),
    ),
    entry(
        "ssl-default-bind-curves",
        "<curves>",
        "Key exchange groups of bind lines",
        How::Global(ssl_default_bind),
    ),
    entry(
        "ssl-default-bind-options",
        "<options>...",
        "TLS options of bind lines",
        How::Global(ssl_bind_options),
    ),
    entry(
        "ssl-default-bind-sigalgs",
        "<sigalgs>",
        "Signature algorithms of bind lines",
        How::Global(ssl_default_bind),
    ),
    entry(
        "ssl-default-server-ciphers",
        "<ciphers>",
        "Cipher suites of server lines up to TLS 1.2",
        How::Global(ssl_default_server),
    ),
    entry(
        "ssl-default-server-ciphersuites",
        "<suites>",
        "Cipher suites of server lines with TLS 1.3",
        How::Global(ssl_default_server),
    ),
    entry(
        "ssl-default-server-client-sigalgs",
        "<sigalgs>",
        "Signature algorithms for our certificates",
        How::Global(ssl_default_server),
    ),
    entry(
        "ssl-default-server-curves",
        "<curves>",
        "Key exchange groups of server lines",
        How::Global(ssl_default_server),
    ),
    entry(
        "ssl-default-server-options",
        "<options>...",
        "TLS options of server lines",
        How::Global(ssl_server_options),
    ),
    entry(
        "ssl-default-server-sigalgs",
        "<sigalgs>",
        "Signature algorithms of server lines",
        How::Global(ssl_default_server),
    ),
    entry(
        "ssl-dh-param-file",
        "<file>",
        "Diffie-Hellman parameters",
        How::NoEffect("finite-field Diffie-Hellman is not used"),
    ),
    entry("ssl-engine", "<name> [algo <algs>]", "OpenSSL engine", How::Never(NO_OPENSSL)),
    entry(
        "ssl-load-extra-del-ext",
        "",
        "Looks for extra files by replacing the extension",
        How::Global(|d, a| {
            d.global.ssl_load_extra_del_ext = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "ssl-load-extra-files",
        "<kind>...",
        "Kinds of extra files read beside certificates",
        How::Global(load_extra_files),
    ),
    entry("ssl-mode-async", "", "Asynchronous OpenSSL engines", How::NoEffect("there are no engines")),
    entry("ssl-propquery", "<query>", "OpenSSL provider query", How::Never(NO_OPENSSL)),
    entry("ssl-provider", "<name>", "OpenSSL provider", How::Never(NO_OPENSSL)),
    entry("ssl-provider-path", "<path>", "Where OpenSSL providers are found", How::Never(NO_OPENSSL)),
    entry(
        "ssl-security-level",
        "<number>",
        "OpenSSL security level",
        How::NoEffect("weak algorithms are never used"),
    ),
    entry(
        "ssl-server-verify",
        "<none|required>",
        "Default of verify on server lines",
        How::Global(ssl_server_verify),
    ),
    entry(
        "ssl-skip-self-issued-ca",
        "",
        "Does not send self-issued authorities",
        How::Global(|d, a| {
            d.global.ssl_skip_self_issued_ca = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry("stats socket", "<addr> [<word>...]", "Socket for runtime commands", How::Global(stats_socket)),
    entry(
        "stats timeout",
        "<time>",
        "Longest wait for a client of a stats socket",
        How::Global(|d, a| {
            d.global.stats_timeout = Some(a.time()?).filter(|time| *time > Duration::ZERO);
            a.end()
        }),
    ),
    entry(
        "stats maxconn",
        "<number>",
        "Most clients of stats sockets",
        How::Global(|d, a| {
            d.global.stats_maxconn = a.number(1..=usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "stats bind-process",
        "<set>",
        "Processes that serve stats sockets",
        How::Removed("there is one process"),
    ),
    entry(
        "stats-file",
        "<file>",
        "Counters to start with",
        How::Global(|d, a| {
            d.global.stats_file = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "strict-limits",
        "",
        "Refuses to start when limits cannot be raised",
        How::Global(|d, a| {
            d.global.strict_limits = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "uid",
        "<number>",
        "User to run as, by number",
        How::Global(|d, a| {
            d.global.uid = Some(a.number(0..=u32::MAX)?);
            a.end()
        }),
    ),
    entry(
        "ulimit-n",
        "<number>",
        "File descriptors to ask the system for",
        How::Global(|d, a| {
            d.global.ulimit_n = Some(a.number(1..=u64::MAX)?);
            a.end()
        }),
    ),
    entry(
        "unix-bind",
        "[prefix <p>] [mode <m>] [user <u>] [uid <n>] [group <g>] [gid <n>]",
        "Defaults of unix sockets",
        How::Global(unix_bind),
    ),
    entry(
        "user",
        "<name>",
        "User to run as",
        How::Global(|d, a| {
            d.global.user_pos = a.pos();
            d.global.user = text(a)?;
            Ok(())
        }),
    ),
    entry("wurfl-cache-size", "<size>", "Device detection by WURFL", How::Never(NO_DETECTION)),
    entry("wurfl-data-file", "<file>", "Device detection by WURFL", How::Never(NO_DETECTION)),
    entry("wurfl-engine-mode", "<mode>", "Device detection by WURFL", How::Never(NO_DETECTION)),
    entry("wurfl-information-list", "<names>", "Device detection by WURFL", How::Never(NO_DETECTION)),
    entry(
        "wurfl-information-list-separator",
        "<char>",
        "Device detection by WURFL",
        How::Never(NO_DETECTION),
    ),
    entry("wurfl-patch-file", "<file>", "Device detection by WURFL", How::Never(NO_DETECTION)),
    // Performance.
    entry(
        "busy-polling",
        "",
        "Polls without sleeping",
        How::Global(|d, a| {
            d.global.busy_polling = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "max-spread-checks",
        "<time>",
        "Longest time over which checks are spread at start",
        How::Global(|d, a| {
            d.global.max_spread_checks = Some(a.time()?);
            a.end()
        }),
    ),
    entry(
        "maxcompcpuusage",
        "<number>",
        "CPU usage in percent above which compression stops",
        How::Global(|d, a| {
            d.global.maxcompcpuusage_percent = a.number(0..=100)?;
            a.end()
        }),
    ),
    entry(
        "maxcomprate",
        "<number>",
        "Most data compressed, kilobytes a second",
        How::Global(|d, a| {
            d.global.maxcomprate_kbps = a.limit(MOST_A_SECOND)?;
            a.end()
        }),
    ),
    entry(
        "maxconn",
        "<number>",
        "Most client connections at a time",
        How::Global(|d, a| {
            d.global.maxconn = a.limit(usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "maxconnrate",
        "<number>",
        "Most new connections a second",
        How::Global(|d, a| {
            d.global.maxconnrate = a.limit(MOST_A_SECOND)?;
            a.end()
        }),
    ),
    entry(
        "maxpipes",
        "<number>",
        "Most pipes for splicing",
        How::NoEffect("data is not spliced through pipes"),
    ),
    entry(
        "maxsessrate",
        "<number>",
        "Most new sessions a second",
        How::Global(|d, a| {
            d.global.maxsessrate = a.limit(MOST_A_SECOND)?;
            a.end()
        }),
    ),
    entry(
        "maxsslconn",
        "<number>",
        "Most TLS connections at a time",
        How::Global(|d, a| {
            d.global.maxsslconn = a.limit(u32::MAX as usize)?;
            a.end()
        }),
    ),
    entry(
        "maxsslrate",
        "<number>",
        "Most TLS handshakes a second",
        How::Global(|d, a| {
            d.global.maxsslrate = a.limit(MOST_A_SECOND)?;
            a.end()
        }),
    ),
    entry(
        "maxzlibmem",
        "<number>",
        "Most memory of zlib, megabytes",
        How::NoEffect("the compressor's memory is bounded by the connections"),
    ),
    entry("no-memory-trimming", "", "Keeps freed memory", How::NoEffect("the allocator decides")),
    entry("noepoll", "", "Does not use epoll", How::NoEffect("epoll is the only poller")),
    entry("noevports", "", "Does not use event ports", How::NoEffect("epoll is the only poller")),
    entry(
        "nogetaddrinfo",
        "",
        "Does not resolve names by the system's library",
        How::NoEffect("names are always resolved the same way"),
    ),
    entry("nokqueue", "", "Does not use kqueue", How::NoEffect("epoll is the only poller")),
    entry("noktls", "", "No TLS in the kernel", How::NoEffect("TLS records are always made in the process")),
    entry("nopoll", "", "Does not use poll", How::NoEffect("epoll is the only poller")),
    entry("noreuseport", "", "Does not share ports between sockets", How::Global(no_reuseport)).negatable(),
    entry("nosplice", "", "Does not splice", How::NoEffect("data is not spliced through pipes")).negatable(),
    entry(
        "profiling.memory",
        "<on|off>",
        "Counts memory allocations by caller",
        How::NoEffect("there is no built-in profiler"),
    ),
    entry(
        "profiling.tasks",
        "<on|auto|off>",
        "Measures the CPU time of tasks",
        How::NoEffect("there is no built-in profiler"),
    ),
    entry(
        "server-state-base",
        "<dir>",
        "Folder of server state files",
        How::Global(|d, a| {
            d.global.server_state_base = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "server-state-file",
        "<file>",
        "File with the states of all servers",
        How::Global(|d, a| {
            d.global.server_state_file = path(a)?;
            Ok(())
        }),
    ),
    entry(
        "spread-checks",
        "<percent>",
        "Random part of the time between checks",
        How::Global(|d, a| {
            d.global.spread_checks_percent = a.number(0..=50)?;
            a.end()
        }),
    ),
    // Debugging.
    entry("anonkey", "<number>", "Key that names are hidden with", How::NotYet),
    entry(
        "debug.counters",
        "<on|off>",
        "Counts events inside the process",
        How::NoEffect("there are no debugging counters"),
    ),
    entry("force-cfg-parser-pause", "<time>", "Waits while the configuration is read", How::NotYet),
    entry(
        "quiet",
        "",
        "Says nothing at start",
        How::Global(|d, a| {
            d.global.quiet = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    entry(
        "warn-blocked-traffic-after",
        "<time>",
        "Warns of tasks that keep a thread busy",
        How::NoEffect("threads are not watched"),
    ),
    entry(
        "zero-warning",
        "",
        "Makes warnings about the configuration fatal",
        How::Global(|d, a| {
            d.global.zero_warning = flag(a)?;
            Ok(())
        }),
    )
    .negatable(),
    // HTTP client.
    entry(
        "httpclient.resolvers.disabled",
        "<on|off>",
        "Name servers of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.resolvers.id",
        "<name>",
        "Name servers of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.resolvers.prefer",
        "<family>",
        "Address family of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.retries",
        "<number>",
        "Retries of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.ssl.ca-file",
        "<file>",
        "Authorities of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.ssl.verify",
        "<none|required>",
        "Verification by the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "httpclient.timeout.connect",
        "<time>",
        "Connect timeout of the internal HTTP client",
        How::NoEffect("there is no internal HTTP client"),
    ),
    entry(
        "http-err-codes",
        "[+-]<range>[,...]...",
        "Statuses that count as errors of clients",
        How::Global(|d, a| {
            d.global.http_err_codes =
                Some(statuses(d.global.http_err_codes.unwrap_or(StatusSet::ERRORS), a)?);
            Ok(())
        }),
    ),
    entry(
        "http-fail-codes",
        "[+-]<range>[,...]...",
        "Statuses that count as failures of servers",
        How::Global(|d, a| {
            d.global.http_fail_codes =
                Some(statuses(d.global.http_fail_codes.unwrap_or(StatusSet::FAILURES), a)?);
            Ok(())
        }),
    ),
    entry(
        "setcap",
        "<name>[,...]",
        "Capabilities kept after the user was changed",
        How::Global(|d, a| {
            let word = a.need("capabilities such as cap_net_bind_service")?;
            let known = ["cap_net_admin", "cap_net_raw", "cap_net_bind_service", "cap_sys_admin"];
            for name in crate::language::args::list(word) {
                let name = String::from_utf8_lossy(&name).into_owned();
                if !known.contains(&name.as_str()) {
                    return fail_hint(
                        word.pos,
                        format!("unsupported capability '{name}'"),
                        format!("one of {}", known.join(", ")),
                    );
                }
                d.global.setcap.push(name);
            }
            a.end()
        }),
    ),
    entry("shm-stats-file-max-objects", "<number>", "Size of the shared statistics file", How::NotYet),
    entry(
        "ssl-passphrase-cmd",
        "<cmd> <args>...",
        "Program that tells passphrases of keys",
        How::Global(|d, a| {
            a.need("a program")?;
            d.global.ssl_passphrase_cmd = a.words.iter().map(|word| word.as_str().into_owned()).collect();
            Ok(())
        }),
    ),
    entry(
        "stats calculate-max-counters",
        "[on|off]",
        "Keeps maxima in statistics",
        How::NoEffect("maxima are always kept"),
    ),
    entry(
        "stress-level",
        "<level>",
        "Makes rare paths common, for tests",
        How::NoEffect("there are no such paths"),
    ),
    entry(
        "thread-hard-limit",
        "<number>",
        "Most threads, whatever nbthread says",
        How::Global(|d, a| {
            d.global.thread_hard_limit = Some(a.number(1..=MOST_THREADS)?);
            a.end()
        }),
    ),
    entry(
        "quick-exit",
        "",
        "Ends without giving memory back",
        How::NoEffect("the system takes the memory back"),
    ),
    entry("no-quic", "", "No QUIC listeners", How::NoEffect("there is no QUIC")),
    entry("acme.scheduler", "<auto|off>", "When certificates are issued", How::Never(NO_ACME)),
];
