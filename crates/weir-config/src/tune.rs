//! `tune.` keywords of `global` (section 3.2 of the manual).

use std::time::Duration;

use weir_rules::{Diagnostic, Level};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{Args, Parsed};
use crate::model::Tune;
use crate::sections::GlobalDraft;

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::GLOBAL, arguments, doc, how)
}

/// Smallest buffer: a request line and some fields must fit beside the reserve for rewriting.
const SMALLEST_BUFFER: usize = 1024;

/// RFC 9113 section 6.9.2: a window above 2^31-1 is an error.
const MOST_WINDOW: u32 = 0x7fff_ffff;

/// Streams have odd numbers below 2^31 on the client's side.
const MOST_STREAMS: u32 = i32::MAX as u32;

/// Slots that a connection can track counters in.
const MOST_STICK_COUNTERS: usize = 12;

const NO_LUA: &str = "there is no Lua";
/// The longest hello that is kept is not longer.
const MOST_CAPTURED: usize = 16384;

const NO_QUIC: &str = "there is no QUIC";
const MEMORY: &str = "memory is bounded per connection instead";
const SCHEDULER: &str = "the scheduler decides";

/// Most generated certificates that can be kept: each takes some kilobytes.
const MOST_GENERATED: usize = 1_000_000;

/// A delay between OCSP updates in seconds.
pub(crate) fn ocsp_delay(args: &mut Args<'_>, field: &mut Duration) -> Parsed {
    *field = Duration::from_secs(u64::from(args.number(1..=u32::MAX)?));
    args.end()
}

/// Reads a size and stores it.
/// `tune.ssl.capture-buffer-size`
fn capture_buffer(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    let size: usize = args.number(0..=i32::MAX as usize)?;
    draft.global.tune.ssl_capture_buffer_size = size.min(MOST_CAPTURED);
    args.end()
}

fn size(
    draft: &mut GlobalDraft<'_>,
    args: &mut Args<'_>,
    field: fn(&mut Tune) -> &mut usize,
    least: usize,
) -> Parsed {
    let word = args.peek();
    let value = args.size()?;
    if let Some(word) = word.filter(|_| value < least) {
        return crate::language::args::fail(word.pos, format!("'{}' must be at least {least}", args.keyword));
    }
    *field(&mut draft.global.tune) = value;
    args.end()
}

fn number(
    draft: &mut GlobalDraft<'_>,
    args: &mut Args<'_>,
    field: fn(&mut Tune) -> &mut u32,
    range: std::ops::RangeInclusive<u32>,
) -> Parsed {
    *field(&mut draft.global.tune) = args.number(range)?;
    args.end()
}

fn glitches(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>, field: fn(&mut Tune) -> &mut u32) -> Parsed {
    number(draft, args, field, 0..=u32::MAX)
}

fn window(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    number(draft, args, |t| &mut t.h2_initial_window_size, 0..=MOST_WINDOW)
}

fn streams(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>) -> Parsed {
    number(draft, args, |t| &mut t.h2_max_concurrent_streams, 0..=MOST_STREAMS)
}

/// There is no zlib: its settings are read and have no effect, which is said.
fn zlib(draft: &mut GlobalDraft<'_>, args: &mut Args<'_>, range: std::ops::RangeInclusive<u8>) -> Parsed {
    args.number(range)?;
    let message =
        format!("'{}' has no effect: the encoder keeps no memory of its own for a stream", args.keyword);
    let notice = Diagnostic { level: Level::Notice, ..Diagnostic::warning(args.keyword_pos, message) };
    draft.scope.warnings.push(notice);
    args.end()
}

/// A setting of one side of HTTP/2 connections.
fn side(
    draft: &mut GlobalDraft<'_>,
    args: &mut Args<'_>,
    field: fn(&mut Tune) -> &mut Option<u32>,
    most: u32,
) -> Parsed {
    *field(&mut draft.global.tune) = Some(args.number(0..=most)?);
    args.end()
}

/// A size that the kernel or a peer is told.
fn bytes(
    draft: &mut GlobalDraft<'_>,
    args: &mut Args<'_>,
    field: fn(&mut Tune) -> &mut Option<u32>,
) -> Parsed {
    let word = args.peek();
    let value = args.size()?;
    match u32::try_from(value) {
        Ok(value) if value <= MOST_WINDOW => *field(&mut draft.global.tune) = Some(value),
        _ => {
            let pos = word.map_or(args.keyword_pos, |word| word.pos);
            return crate::language::args::fail(
                pos,
                format!("'{}' must be at most {MOST_WINDOW}", args.keyword),
            );
        }
    }
    args.end()
}

/// Keywords of `global` that start with `tune.`.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry(
        "tune.applet.zero-copy-forwarding",
        "<on|off>",
        "Forwards data of internal services without copies",
        How::NoEffect(SCHEDULER),
    ),
    entry("tune.buffers.limit", "<number>", "Most buffers", How::NoEffect(MEMORY)),
    entry("tune.buffers.reserve", "<number>", "Buffers kept back", How::NoEffect(MEMORY)),
    entry(
        "tune.bufsize",
        "<size>",
        "Size of a buffer: the longest request head",
        How::Global(|d, a| size(d, a, |t| &mut t.bufsize, SMALLEST_BUFFER)),
    ),
    entry(
        "tune.bufsize.large",
        "<size>",
        "Size of a large buffer",
        How::Global(|d, a| {
            d.global.tune.bufsize_large = Some(a.size()?);
            a.end()
        }),
    ),
    entry(
        "tune.bufsize.small",
        "<size>",
        "Size of a small buffer",
        How::NoEffect("buffers grow with what they hold"),
    ),
    entry(
        "tune.cli.max-payload-size",
        "<size>",
        "Longest payload of a runtime command",
        How::Global(|d, a| {
            d.global.tune.cli_max_payload_size = Some(a.size()?);
            a.end()
        }),
    ),
    entry(
        "tune.comp.maxlevel",
        "<number>",
        "Highest compression level",
        How::Global(|d, a| {
            d.global.tune.comp_maxlevel = a.number(1..=9)?;
            a.end()
        }),
    ),
    entry(
        "tune.comp.reuse-memory",
        "<size>",
        "Memory for what compression made of bodies that all clients get, not encoded again; tells by time what was sent; 0 for none",
        How::Global(|d, a| size(d, a, |t| &mut t.comp_reuse_memory, 0)),
    ),
    entry(
        "tune.comp.window-memory",
        "<size>",
        "Memory in which gzip remembers earlier pieces of a response: smaller streams, but open to BREACH; 0 for none",
        How::Global(|d, a| size(d, a, |t| &mut t.comp_window_memory, 0)),
    ),
    entry(
        "tune.defaults.purge",
        "",
        "Forgets defaults sections after start",
        How::NoEffect("they are always forgotten"),
    ),
    entry("tune.disable-fast-forward", "", "Copies all data through buffers", How::NoEffect(SCHEDULER)),
    entry(
        "tune.disable-zero-copy-forwarding",
        "",
        "Copies all data through buffers",
        How::NoEffect(SCHEDULER),
    ),
    entry("tune.epoll.mask-events", "<events>", "Events that are not asked for", How::NoEffect(SCHEDULER)),
    entry("tune.events.max-events-at-once", "<number>", "Events handled in one go", How::NoEffect(SCHEDULER)),
    entry("tune.fail-alloc", "<percent>", "Makes memory allocations fail, for tests", How::NotYet),
    entry(
        "tune.fd.edge-triggered",
        "<on|off>",
        "Edge-triggered polling",
        How::NoEffect("polling is always edge-triggered"),
    ),
    entry("tune.fd.tables", "<mode>", "Tables of descriptors", How::NoEffect(SCHEDULER)),
    entry(
        "tune.h1.be.glitches-threshold",
        "<number>",
        "Protocol errors after which a server's connection is closed",
        How::Global(|d, a| glitches(d, a, |t| &mut t.h1_be_glitches_threshold)),
    ),
    entry(
        "tune.h1.fe.glitches-threshold",
        "<number>",
        "Protocol errors after which a client's connection is closed",
        How::Global(|d, a| glitches(d, a, |t| &mut t.h1_fe_glitches_threshold)),
    ),
    entry("tune.h1.zero-copy-fwd-recv", "<on|off>", "Receives without copies", How::NoEffect(SCHEDULER)),
    entry("tune.h1.zero-copy-fwd-send", "<on|off>", "Sends without copies", How::NoEffect(SCHEDULER)),
    entry(
        "tune.h2.be.glitches-threshold",
        "<number>",
        "Protocol errors after which a server's connection is closed",
        How::Global(|d, a| glitches(d, a, |t| &mut t.h2_be_glitches_threshold)),
    ),
    entry(
        "tune.h2.be.initial-window-size",
        "<size>",
        "Window of each stream from servers",
        How::Global(|d, a| side(d, a, |t| &mut t.h2_be.initial_window_size, MOST_WINDOW)),
    ),
    entry(
        "tune.h2.be.max-concurrent-streams",
        "<number>",
        "Streams at a time on a server's connection",
        How::Global(|d, a| side(d, a, |t| &mut t.h2_be.max_concurrent_streams, MOST_STREAMS)),
    ),
    entry("tune.h2.be.max-frames-at-once", "<number>", "Frames handled in one go", How::NoEffect(SCHEDULER)),
    entry(
        "tune.h2.be.rxbuf",
        "<size>",
        "Receive buffers of a server's connection",
        How::Global(|d, a| bytes(d, a, |t| &mut t.h2_be.rxbuf)),
    ),
    entry(
        "tune.h2.fe.glitches-threshold",
        "<number>",
        "Protocol errors after which a client's connection is closed",
        How::Global(|d, a| glitches(d, a, |t| &mut t.h2_fe_glitches_threshold)),
    ),
    entry(
        "tune.h2.fe.initial-window-size",
        "<size>",
        "Window of each stream from clients",
        How::Global(|d, a| side(d, a, |t| &mut t.h2_fe.initial_window_size, MOST_WINDOW)),
    ),
    entry(
        "tune.h2.fe.max-concurrent-streams",
        "<number>",
        "Streams at a time on a client's connection",
        How::Global(|d, a| side(d, a, |t| &mut t.h2_fe.max_concurrent_streams, MOST_STREAMS)),
    ),
    entry("tune.h2.fe.max-frames-at-once", "<number>", "Frames handled in one go", How::NoEffect(SCHEDULER)),
    entry("tune.h2.fe.max-rst-at-once", "<number>", "Resets handled in one go", How::NoEffect(SCHEDULER)),
    entry(
        "tune.h2.fe.max-total-streams",
        "<number>",
        "Streams after which a client's connection is closed",
        How::Global(|d, a| {
            d.global.tune.h2_fe_max_total_streams = a.number(0..=u64::MAX)?;
            a.end()
        }),
    ),
    entry(
        "tune.h2.fe.rxbuf",
        "<size>",
        "Receive buffers of a client's connection",
        How::Global(|d, a| bytes(d, a, |t| &mut t.h2_fe.rxbuf)),
    ),
    entry(
        "tune.h2.header-table-size",
        "<size>",
        "Size of the HPACK table",
        How::Global(|d, a| number(d, a, |t| &mut t.h2_header_table_size, 4096..=65536)),
    ),
    entry("tune.h2.initial-window-size", "<size>", "Window of each stream", How::Global(window)),
    entry(
        "tune.h2.max-concurrent-streams",
        "<number>",
        "Streams at a time on a connection",
        How::Global(streams),
    ),
    entry(
        "tune.h2.max-frame-size",
        "<size>",
        "Longest frame",
        How::Global(|d, a| {
            // RFC 9113 section 4.2: from 2^14 to 2^24-1.
            number(d, a, |t| &mut t.h2_max_frame_size, 16384..=16_777_215)
        }),
    ),
    entry("tune.h2.zero-copy-fwd-send", "<on|off>", "Sends without copies", How::NoEffect(SCHEDULER)),
    entry(
        "tune.http.cookielen",
        "<size>",
        "Longest captured cookie",
        How::Global(|d, a| size(d, a, |t| &mut t.http_cookielen, 1)),
    ),
    entry(
        "tune.http.logurilen",
        "<size>",
        "Longest URI in log lines",
        How::Global(|d, a| size(d, a, |t| &mut t.http_logurilen, 1)),
    ),
    entry(
        "tune.http.maxhdr",
        "<number>",
        "Most fields of a message",
        How::Global(|d, a| {
            d.global.tune.http_maxhdr = a.number(1..=32767)?;
            a.end()
        }),
    ),
    entry(
        "tune.idle-pool.shared",
        "<auto|on|off>",
        "Threads use each other's idle connections",
        How::Global(|d, a| {
            let word = a.need("'auto', 'on' or 'off'")?;
            let known = [("auto", true), ("on", true), ("full", true), ("off", false)];
            d.global.tune.idle_pool_shared = crate::language::args::choice(word, "value", &known)?;
            a.end()
        }),
    ),
    entry(
        "tune.idletimer",
        "<time>",
        "Time after which a stream counts as idle",
        How::Global(|d, a| {
            d.global.tune.idletimer = a.time()?;
            a.end()
        }),
    ),
    entry("tune.lua.bool-sample-conversion", "<mode>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.burst-timeout", "<time>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.forced-yield", "<number>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.log.loggers", "<on|off>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.log.stderr", "<mode>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.maxmem", "<number>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.openlibs", "<libs>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.service-timeout", "<time>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.session-timeout", "<time>", "Lua", How::NoEffect(NO_LUA)),
    entry("tune.lua.task-timeout", "<time>", "Lua", How::NoEffect(NO_LUA)),
    entry(
        "tune.max-checks-per-thread",
        "<number>",
        "Most checks at a time in a thread",
        How::Global(|d, a| {
            d.global.tune.max_checks_per_thread = a.limit(usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "tune.maxaccept",
        "<number>",
        "Connections accepted in one go",
        How::Global(|d, a| {
            d.global.tune.maxaccept =
                usize::try_from(a.number(-1..=i64::from(i32::MAX))?).unwrap_or(usize::MAX);
            a.end()
        }),
    ),
    entry(
        "tune.maxpollevents",
        "<number>",
        "Events taken from the kernel in one go",
        How::NoEffect(SCHEDULER),
    ),
    entry(
        "tune.maxrewrite",
        "<size>",
        "Room in a buffer for rewriting",
        How::Global(|d, a| size(d, a, |t| &mut t.maxrewrite, 0)),
    ),
    entry("tune.max-rules-at-once", "<number>", "Rules run in one go", How::NoEffect(SCHEDULER)),
    entry(
        "tune.memory.hot-size",
        "<size>",
        "Memory kept by each thread",
        How::NoEffect("the allocator decides"),
    ),
    entry(
        "tune.pattern.cache-size",
        "<number>",
        "Cache of pattern lookups",
        How::NoEffect("lookups need no cache"),
    ),
    entry(
        "tune.peers.max-updates-at-once",
        "<number>",
        "Updates sent to a peer in one go",
        How::NoEffect(SCHEDULER),
    ),
    entry("tune.pipesize", "<size>", "Size of pipes for splicing", How::NoEffect(SCHEDULER)),
    entry(
        "tune.pool-high-fd-ratio",
        "<percent>",
        "Descriptors in use above which idle connections are closed",
        How::Global(|d, a| {
            d.global.tune.pool_high_fd_ratio = u32::try_from(a.number(0..=100)?).unwrap_or(100);
            a.end()
        }),
    ),
    entry(
        "tune.pool-low-fd-ratio",
        "<percent>",
        "Descriptors in use above which idle connections are not kept",
        How::Global(|d, a| {
            d.global.tune.pool_low_fd_ratio = u32::try_from(a.number(0..=100)?).unwrap_or(100);
            a.end()
        }),
    ),
    entry(
        "tune.pt.zero-copy-forwarding",
        "<on|off>",
        "Forwards raw data without copies",
        How::NoEffect(SCHEDULER),
    ),
    entry("tune.quic.be.cc.cubic-min-losses", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.cc.hystart", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.cc.max-frame-loss", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.cc.max-win-size", "<size>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.cc.reorder-ratio", "<percent>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.max-idle-timeout", "<time>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.sec.glitches-threshold", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.stream.data-ratio", "<percent>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.stream.max-concurrent", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.stream.rxbuf", "<size>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.tx.pacing", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.be.tx.udp-gso", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.cc.cubic-min-losses", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.cc.hystart", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.cc.max-frame-loss", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.cc.max-win-size", "<size>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.cc.reorder-ratio", "<percent>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.max-idle-timeout", "<time>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.sec.glitches-threshold", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.sec.retry-threshold", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.sock-per-conn", "<mode>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.stream.data-ratio", "<percent>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.stream.max-concurrent", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.stream.max-total", "<number>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.stream.rxbuf", "<size>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.tx.pacing", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.fe.tx.udp-gso", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.listen", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.mem.tx-max", "<size>", "QUIC", How::NoEffect(NO_QUIC)),
    entry("tune.quic.zero-copy-fwd-send", "<on|off>", "QUIC", How::NoEffect(NO_QUIC)),
    entry(
        "tune.renice.runtime",
        "<number>",
        "Priority of the process while it runs",
        How::Global(|d, a| {
            d.global.renice_runtime = Some(a.number(-20..=19)?);
            a.end()
        }),
    ),
    entry(
        "tune.renice.startup",
        "<number>",
        "Priority of the process while it starts",
        How::Global(|d, a| {
            d.global.renice_startup = Some(a.number(-20..=19)?);
            a.end()
        }),
    ),
    entry(
        "tune.rcvbuf.backend",
        "<size>",
        "Kernel's receive buffer of log and name server sockets",
        How::Global(|d, a| bytes(d, a, |t| &mut t.backend_datagrams.receive)),
    ),
    entry(
        "tune.rcvbuf.client",
        "<size>",
        "Kernel's receive buffer of client connections",
        How::Global(|d, a| bytes(d, a, |t| &mut t.client_sockets.receive)),
    ),
    entry(
        "tune.rcvbuf.frontend",
        "<size>",
        "Kernel's receive buffer of datagram listeners",
        How::Global(|d, a| bytes(d, a, |t| &mut t.frontend_datagrams.receive)),
    ),
    entry(
        "tune.rcvbuf.server",
        "<size>",
        "Kernel's receive buffer of server connections",
        How::Global(|d, a| bytes(d, a, |t| &mut t.server_sockets.receive)),
    ),
    entry("tune.recv_enough", "<size>", "Data after which reading pauses", How::NoEffect(SCHEDULER)),
    entry("tune.ring.queues", "<number>", "Queues before a ring", How::NoEffect(SCHEDULER)),
    entry("tune.runqueue-depth", "<number>", "Tasks run in one go", How::NoEffect(SCHEDULER)),
    entry("tune.sched.low-latency", "<on|off>", "Runs short tasks first", How::NoEffect(SCHEDULER)),
    entry(
        "tune.sndbuf.backend",
        "<size>",
        "Kernel's send buffer of log and name server sockets",
        How::Global(|d, a| bytes(d, a, |t| &mut t.backend_datagrams.send)),
    ),
    entry(
        "tune.sndbuf.client",
        "<size>",
        "Kernel's send buffer of client connections",
        How::Global(|d, a| bytes(d, a, |t| &mut t.client_sockets.send)),
    ),
    entry(
        "tune.sndbuf.frontend",
        "<size>",
        "Kernel's send buffer of datagram listeners",
        How::Global(|d, a| bytes(d, a, |t| &mut t.frontend_datagrams.send)),
    ),
    entry(
        "tune.sndbuf.server",
        "<size>",
        "Kernel's send buffer of server connections",
        How::Global(|d, a| bytes(d, a, |t| &mut t.server_sockets.send)),
    ),
    entry(
        "tune.streams-elasticity",
        "<percent>",
        "How much streams shrink under load",
        How::NoEffect(SCHEDULER),
    ),
    entry(
        "tune.stick-counters",
        "<number>",
        "Tracked counters of a connection",
        How::Global(|d, a| {
            d.global.tune.stick_counters = a.number(0..=MOST_STICK_COUNTERS)?;
            a.end()
        }),
    ),
    entry(
        "tune.ssl.cachesize",
        "<number>",
        "TLS sessions kept",
        How::Global(|d, a| {
            d.global.tune.ssl_cachesize = a.number(0..=usize::MAX)?;
            a.end()
        }),
    ),
    entry(
        "tune.ssl.capture-buffer-size",
        "<size>",
        "Bytes of the client hello kept for fetches",
        How::Global(capture_buffer),
    ),
    entry(
        "tune.ssl.capture-cipherlist-size",
        "<size>",
        "Bytes of the client hello kept for fetches (old name)",
        How::Global(capture_buffer),
    ),
    entry(
        "tune.ssl.certificate-compression",
        "<on|off>",
        "Compresses certificates in handshakes",
        How::NoEffect("the TLS library decides"),
    ),
    entry(
        "tune.ssl.default-dh-param",
        "<number>",
        "Bits of Diffie-Hellman parameters",
        How::NoEffect("finite-field Diffie-Hellman is not used"),
    ),
    entry(
        "tune.ssl.force-private-cache",
        "",
        "A TLS session cache for each process",
        How::NoEffect("there is one process"),
    ),
    entry(
        "tune.ssl.hard-maxrecord",
        "<number>",
        "Longest TLS record always",
        How::Global(|d, a| size(d, a, |t| &mut t.ssl_hard_maxrecord, 0)),
    ),
    entry(
        "tune.ssl.keylog",
        "<on|off>",
        "Keeps the keys of TLS connections for fetches",
        How::Global(|d, a| {
            let word = a.need("on or off")?;
            d.global.tune.ssl_keylog =
                crate::language::args::choice(word, "value", &[("on", true), ("off", false)])?;
            a.end()
        }),
    ),
    entry(
        "tune.ssl.keyupdate-rate-limit",
        "<number>",
        "Key updates a connection may ask for",
        How::NoEffect("the TLS library bounds key updates"),
    ),
    entry(
        "tune.ssl.lifetime",
        "<time>",
        "How long a TLS session can be resumed, seconds",
        How::Global(|d, a| {
            let word = a.need("a time in seconds")?;
            d.global.tune.ssl_lifetime =
                crate::language::args::time(word, crate::language::units::Unit::Seconds)?
                    .max(Duration::from_secs(1));
            a.end()
        }),
    ),
    entry(
        "tune.ssl.maxrecord",
        "<number>",
        "Longest TLS record while a connection is young",
        How::Global(|d, a| size(d, a, |t| &mut t.ssl_maxrecord, 0)),
    ),
    entry(
        "tune.ssl.ocsp-update.maxdelay",
        "<number>",
        "Longest time between OCSP updates, seconds",
        How::Global(|d, a| ocsp_delay(a, &mut d.global.ocsp_update.maxdelay)),
    ),
    entry(
        "tune.ssl.ocsp-update.mindelay",
        "<number>",
        "Shortest time between OCSP updates, seconds",
        How::Global(|d, a| ocsp_delay(a, &mut d.global.ocsp_update.mindelay)),
    ),
    entry(
        "tune.ssl.ssl-ctx-cache-size",
        "<number>",
        "Generated certificates kept",
        How::Global(|d, a| {
            d.global.tune.ssl_ctx_cache_size = a.number(0..=MOST_GENERATED)?;
            a.end()
        }),
    ),
    entry(
        "tune.takeover-other-tg-connections",
        "<mode>",
        "Takes idle connections of other thread groups",
        How::NoEffect("threads have no groups"),
    ),
    entry(
        "tune.vars.global-max-size",
        "<size>",
        "Most memory of all variables",
        How::Global(|d, a| size(d, a, |t| &mut t.vars.global, 0)),
    ),
    entry(
        "tune.vars.proc-max-size",
        "<size>",
        "Most memory of proc. variables",
        How::Global(|d, a| size(d, a, |t| &mut t.vars.proc, 0)),
    ),
    entry(
        "tune.vars.reqres-max-size",
        "<size>",
        "Most memory of req. and res. variables",
        How::Global(|d, a| size(d, a, |t| &mut t.vars.reqres, 0)),
    ),
    entry(
        "tune.vars.sess-max-size",
        "<size>",
        "Most memory of sess. variables",
        How::Global(|d, a| size(d, a, |t| &mut t.vars.sess, 0)),
    ),
    entry(
        "tune.vars.txn-max-size",
        "<size>",
        "Most memory of txn. variables",
        How::Global(|d, a| size(d, a, |t| &mut t.vars.txn, 0)),
    ),
    entry(
        "tune.glitches.kill.cpu-usage",
        "<percent>",
        "CPU usage from which connections with protocol errors are closed",
        How::Global(|d, a| number(d, a, |t| &mut t.glitches_kill_cpu_usage, 0..=100)),
    ),
    entry("tune.h2.log-errors", "<none|connection|stream>", "Protocol errors that are logged", How::NotYet),
    entry(
        "tune.listener.default-shards",
        "<by-process|by-thread|by-group>",
        "Sockets that share an address",
        How::NoEffect("all threads take connections from one socket"),
    ),
    entry(
        "tune.listener.multi-queue",
        "<on|fair|off>",
        "How connections are spread over threads",
        How::NoEffect("a connection goes to the thread with the fewest clients, as with \"on\""),
    ),
    entry(
        "tune.notsent-lowat.client",
        "<size>",
        "Unsent data the kernel holds for clients",
        How::Global(|d, a| bytes(d, a, |t| &mut t.client_sockets.unsent)),
    ),
    entry(
        "tune.notsent-lowat.server",
        "<size>",
        "Unsent data the kernel holds for servers",
        How::Global(|d, a| bytes(d, a, |t| &mut t.server_sockets.unsent)),
    ),
    entry("tune.chksize", "<size>", "Size of check buffers", How::NoEffect("checks use ordinary buffers")),
    entry("tune.quic.cc-hystart", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.cc.cubic.min-losses", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.disable-tx-pacing", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.disable-udp-gso", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.conn-tx-buffers.limit", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.default-max-window-size", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.glitches-threshold", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.max-data-size", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.max-idle-timeout", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.max-streams-bidi", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.max-tx-mem", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.frontend.stream-data-ratio", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.backend.max-idle-timeout", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.max-frame-loss", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.reorder-ratio", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.retry-threshold", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.quic.socket-owner", "<value>", "QUIC (old name)", How::NoEffect(NO_QUIC)),
    entry("tune.zlib.memlevel", "<number>", "Memory of zlib", How::Global(|d, a| zlib(d, a, 1..=9))),
    entry("tune.zlib.windowsize", "<number>", "Window of zlib", How::Global(|d, a| zlib(d, a, 8..=15))),
];
