//! Commands about the process: its version, environment, threads, memory, counters.

use std::fmt::Write as _;

use jiff::Zoned;
use weir_proxy::state::process_vars::{self, Written};
use weir_rules::Value;

use super::{Answer, Request, Session};

/// `show version`
pub(crate) fn version(session: &mut Session, _: &Request) -> Answer {
    Answer::info(session.version.to_string())
}

/// `show env [<var>]`
pub(crate) fn env(_: &mut Session, request: &Request) -> Answer {
    let asked = request.word(2);
    let mut text = String::new();
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if asked.is_empty() || *name == *asked {
            // Writing to memory cannot fail.
            writeln!(text, "{name}={}", value.to_string_lossy()).unwrap_or_default();
        }
    }
    if text.is_empty() && !asked.is_empty() {
        Answer::error("Variable not found")
    } else {
        Answer::Data(text)
    }
}

/// `show cache`: HAProxy's lines, in which the first word is only a name for what follows.
pub(crate) fn cache(session: &mut Session, _: &Request) -> Answer {
    /// Unit of the manual's figures.
    const BLOCK_BYTES: usize = 1024;
    let mut text = String::new();
    for (index, (name, contents)) in session.shared.caches.contents().enumerate() {
        let free = contents.free_bytes / BLOCK_BYTES;
        // Writing to memory cannot fail.
        writeln!(text, "{index:#x}: {name} (shctx:{index:#x}, available blocks:{free})").unwrap_or_default();
        for object in contents.objects {
            writeln!(
                text,
                "{:#x} hash:{} vary:0x{:016x} size:{} ({} blocks), refcount:{}, expire:{}",
                object.number,
                object.number >> 32,
                object.variant,
                object.bytes,
                object.bytes.div_ceil(BLOCK_BYTES),
                object.users,
                object.expires_s
            )
            .unwrap_or_default();
        }
    }
    Answer::Data(text)
}

/// `show errors`: invalid messages are refused, but not kept.
pub(crate) fn errors(_: &mut Session, _: &Request) -> Answer {
    let now = Zoned::now();
    Answer::Data(format!("Total events captured on [{}] : 0\n", now.strftime("%d/%b/%Y:%H:%M:%S.%3f")))
}

/// `get var <name>`
pub(crate) fn get_var(session: &mut Session, request: &Request) -> Answer {
    let name = request.word(2);
    if name.is_empty() {
        return Answer::error("Missing process-wide variable identifier.");
    }
    match process_vars::get(&session.shared, name) {
        Some(value) => Answer::info(format!("{name}: {}", described(&value))),
        None => Answer::error("Variable not found."),
    }
}

/// Type and contents of a value; binary ones in hexadecimal digits.
fn described(value: &Value<'static>) -> String {
    let kind = match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "sint",
        Value::Ip(ip) if ip.is_ipv4() => "ipv4",
        Value::Ip(_) => "ipv6",
        Value::Str(_) => "str",
        Value::Bin(_) => "bin",
        Value::Method(_) => "meth",
    };
    let text: String = match value {
        Value::Bin(bytes) => bytes.iter().map(|b| format!("{b:02X}")).collect(),
        other => String::from_utf8_lossy(&other.clone().into_bytes()).into_owned(),
    };
    format!("type={kind} value=<{text}>")
}

/// `set var <name> [expr] <expression>`, `set var <name> fmt <format>`
pub(crate) fn set_var(session: &mut Session, request: &Request) -> Answer {
    if !session.experimental {
        return Answer::error("This command is restricted to experimental mode only.");
    }
    let words = request.words.get(3..).unwrap_or_default();
    let written = match (request.word(3), words) {
        ("", _) => return Answer::error("Missing process-wide variable identifier or expression."),
        ("fmt", [_, format]) => Written::Format(format),
        ("fmt", _) => return Answer::error("'fmt' takes one format."),
        ("expr", [_, expr @ ..]) => Written::Expr(expr),
        (_, expr) => Written::Expr(expr),
    };
    match process_vars::set(&session.shared, request.word(2), written) {
        Ok(()) => Answer::Done,
        Err(why) => Answer::error(why),
    }
}

/// Level of a line that is written on demand.
const LOG_INFO: u8 = 6;

/// `debug dev log <text>`
pub(crate) fn debug_log(session: &mut Session, request: &Request) -> Answer {
    if !session.expert {
        return Answer::error("This command is restricted to expert mode only.");
    }
    session.shared.log(LOG_INFO, &request.words[3..].join(" "));
    Answer::Done
}

/// `clear counters [all]`
pub(crate) fn clear_counters(session: &mut Session, request: &Request) -> Answer {
    let all = request.word(2) == "all";
    if all && session.level < weir_config::model::AdminLevel::Admin {
        return Answer::error("Permission denied");
    }
    let shared = &session.shared;
    for proxy in &shared.proxies {
        for level in [&proxy.front_current, &proxy.back_current] {
            level.clear_max();
        }
        for rate in [&proxy.session_rate, &proxy.connection_rate, &proxy.request_rate, &proxy.backend_rate] {
            rate.clear_max();
        }
        proxy.times.clear_max();
        for listener in &proxy.listeners {
            listener.current.clear_max();
            if let Some(counters) = listener.counters.as_ref().filter(|_| all) {
                counters.clear();
            }
        }
        if all {
            proxy.front.clear();
            proxy.back.clear();
        }
        for server in proxy.servers.load().iter() {
            server.served.clear_max();
            server.rate.clear_max();
            server.times.clear_max();
            if all {
                server.counters.clear();
            }
        }
    }
    for rate in [&shared.connection_rate, &shared.session_rate, &shared.tls_rate, &shared.tls_key_rate] {
        rate.clear_max();
    }
    Answer::Done
}

/// `show threads`
pub(crate) fn threads(session: &mut Session, _: &Request) -> Answer {
    let mut text = String::new();
    for thread in 0..session.shared.threads {
        let busy = session.shared.load.busy_percent(thread);
        // Writing to memory cannot fail.
        writeln!(text, "  Thread {} : name=worker-{thread} cpu={busy}%", thread + 1).unwrap_or_default();
    }
    Answer::Data(text)
}

/// `show activity`
pub(crate) fn activity(session: &mut Session, _: &Request) -> Answer {
    use std::sync::atomic::Ordering::Relaxed;
    let shared = &session.shared;
    let busy: Vec<u32> = (0..shared.threads).map(|t| u32::from(shared.load.busy_percent(t))).collect();
    let columns: Vec<String> = busy.iter().map(ToString::to_string).collect();
    let average = busy.iter().sum::<u32>() / u32::try_from(busy.len().max(1)).unwrap_or(1);
    let now = jiff::Timestamp::now();
    Answer::Data(format!(
        "thread_id: 1 (1..{})\ndate_now: {}.{:06}\ncpu_pct: {average} [ {} ]\naccepted: {}\nrequests: {}\n",
        shared.threads,
        now.as_second(),
        now.subsec_microsecond() + now.subsec_millisecond() * 1000,
        columns.join(" "),
        shared.total_connections.load(Relaxed),
        shared.total_requests.load(Relaxed),
    ))
}

/// `show pools`: what threads keep for the next user.  What is in use is the allocator's and belongs to no pool.
pub(crate) fn pools(session: &mut Session, _: &Request) -> Answer {
    let kept = session.shared.memory_pools.kept();
    let mut text = "Dumping pools usage: what threads keep for the next user.\n".to_owned();
    for pool in kept {
        let size = pool.bytes.checked_div(pool.count).unwrap_or(0);
        // Writing to memory cannot fail.
        writeln!(
            text,
            "  - Pool {} ({size} bytes) : {} allocated ({} bytes), 0 used",
            pool.name, pool.count, pool.bytes
        )
        .unwrap_or_default();
    }
    let all = session.shared.scarcity.private_bytes();
    let used = session.shared.used_bytes();
    writeln!(text, "Total: {} pools, {all} bytes allocated by the process, {used} used.", kept.len())
        .unwrap_or_default();
    Answer::Data(text)
}

/// Most descriptors listed.
const MAX_LISTED_DESCRIPTORS: usize = 10_000;

/// `show fd [<num>]`, as the kernel names them.
pub(crate) fn descriptors(_: &mut Session, request: &Request) -> Answer {
    let asked = request.word(2).parse::<u32>().ok();
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Answer::error("The system does not list file descriptors.");
    };
    let mut found: Vec<(u32, String)> = entries
        .take(MAX_LISTED_DESCRIPTORS)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            let what = std::fs::read_link(entry.path()).ok()?;
            Some((number, what.display().to_string()))
        })
        .filter(|(number, _)| asked.is_none_or(|asked| asked == *number))
        .collect();
    found.sort();
    let mut text = String::new();
    for (number, what) in found {
        // Writing to memory cannot fail.
        writeln!(text, "{number:>7} : {what}").unwrap_or_default();
    }
    Answer::Data(text)
}

/// `set ssl cert` and the like.
pub(crate) fn tls_missing(_: &mut Session, _: &Request) -> Answer {
    Answer::missing("changing certificates at run time")
}

/// Lists that are always empty, because there is nothing of the kind.
pub(crate) fn nothing(_: &mut Session, _: &Request) -> Answer {
    Answer::Done
}
