//! The table of attacks: an entry is a name, what it does, what it needs of the configuration, and its code.

use super::arena::Arena;
use super::origin::{Script, honest};
use super::probe::Speaks;
use super::{bombs, compression, faults, floods, idle, origins, resets, slow, smuggling, stalls, tls};
use std::collections::BTreeMap;

/// What a row asks of a subject's configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The timeout for clients: the whole head, the time between reads and between requests.
    pub(super) timeout_seconds: u32,
    pub(super) maxconn: u32,
    /// Lines of the frontend for the programs that read HAProxy's language.
    pub(super) haproxy: &'static str,
    /// Lines of nginx's server.
    pub(super) nginx: &'static str,
    /// A master process with a worker.
    pub(super) master: bool,
    /// The limit of descriptors.
    pub(super) descriptors: Option<u32>,
}

/// Nothing out of the ordinary.
pub(super) const PLAIN: Needs =
    Needs { timeout_seconds: 10, maxconn: 8000, haproxy: "", nginx: "", master: false, descriptors: None };

/// Timeouts that expire while the attack runs.
const SHORT: Needs = Needs { timeout_seconds: 2, ..PLAIN };

/// When the well-behaved client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probes {
    During(Speaks),
    /// The attack looks at every request that arrives, or takes all that there is.
    After(Speaks),
}

/// A number that is compared beside CPU time and memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) of: &'static str,
    /// How much more than the better peer's counts as the same.
    pub(super) slack: u64,
}

/// What an attack found out.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) goaways: u64,
    pub(super) count: Option<u64>,
    /// Requests that were answered, where clients ask again as soon as they have an answer: the faster a program is, the
    /// more it has to do.
    pub(super) answered: Option<u64>,
    /// What was answered to each of a set of requests.
    pub(super) answers: BTreeMap<String, String>,
    pub(super) notes: Vec<String>,
}

/// One attack.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    pub(super) probes: Probes,
    pub(super) needs: Needs,
    pub(super) origin: Script,
    /// Seconds that it needs, where the usual ones do not suffice.
    pub(super) seconds: Option<u64>,
    pub(super) count: Option<Count>,
    pub(super) run: fn(&Arena<'_>) -> Outcome,
}

const HTTP1: Probes = Probes::During(Speaks::Http1);
const HTTP2: Probes = Probes::During(Speaks::Http2);
const TLS: Probes = Probes::During(Speaks::Tls);

const fn row(name: &'static str, does: &'static str, probes: Probes, run: fn(&Arena<'_>) -> Outcome) -> Row {
    Row { name, does, probes, needs: PLAIN, origin: honest, seconds: None, count: None, run }
}

/// Every attack, in the order of the table.
pub(super) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(http2());
    rows.extend(http1());
    rows.extend(tls());
    rows.extend(origins::rows());
    rows.extend(faults());
    rows
}

fn http2() -> Vec<Row> {
    let mut rows: Vec<Row> =
        resets::TRIGGERS.iter().map(|trigger| row(trigger.name, trigger.does, HTTP2, trigger.run)).collect();
    rows.extend(floods::FLOODS.iter().map(|flood| row(flood.name, flood.does, HTTP2, flood.run)));
    rows.extend(bombs::BOMBS.iter().map(|bomb| row(bomb.name, bomb.does, HTTP2, bomb.run)));
    let held = Some(Count { of: "descriptors held after the timeout", slack: 16 });
    rows.extend([
        Row {
            needs: SHORT,
            seconds: Some(8),
            count: held,
            ..row(
                "h2-zero-window",
                "40 connections with a window of 0 ask for 10 pages of 4 MB each",
                HTTP2,
                stalls::zero_window,
            )
        },
        Row {
            needs: SHORT,
            seconds: Some(8),
            count: held,
            ..row(
                "h2-unread",
                "40 connections ask for 10 pages of 4 MB each and read nothing",
                HTTP2,
                stalls::unread,
            )
        },
        Row {
            needs: SHORT,
            seconds: Some(8),
            count: held,
            ..row(
                "h2-unread-pings",
                "50 connections send PING and SETTINGS and read none of the answers",
                HTTP2,
                stalls::unread_pings,
            )
        },
        row(
            "h2-slow-read",
            "50 connections ask for 4 pages of 4 MB and open the window octet by octet",
            HTTP2,
            stalls::slow_read,
        ),
        Row {
            origin: origins::endless_interim,
            ..row(
                "h2-unread-1xx",
                "the origin sends interim responses for ever, 20 HTTP/2 clients read nothing",
                HTTP2,
                stalls::unread_interim,
            )
        },
    ]);
    rows
}

fn http1() -> Vec<Row> {
    let malformed = Some(Count { of: "malformed or split at the origin", slack: 0 });
    let sets = smuggling::SETS.iter().map(|set| Row {
        count: malformed,
        seconds: Some(1),
        ..row(set.name, set.does, Probes::After(Speaks::Http1), set.run)
    });
    let mut rows = vec![
        Row {
            needs: SHORT,
            seconds: Some(4),
            ..row("slow-heads", "5,000 connections send a head octet by octet", HTTP1, slow::heads)
        },
        row("slow-bodies", "1,000 connections send a body octet by octet", HTTP1, slow::bodies),
        row("slow-readers", "200 clients ask for 4 MB and read nothing", HTTP1, slow::readers),
        Row {
            origin: origins::endless_interim,
            ..row(
                "h1-unread-1xx",
                "the origin sends interim responses for ever, 20 clients read nothing",
                HTTP1,
                slow::unread_interim,
            )
        },
        row(
            "send-and-close",
            "1,500 clients ask for what takes a second and close",
            HTTP1,
            slow::send_and_close,
        ),
        Row {
            count: Some(Count { of: "half-closed clients without an answer", slack: 0 }),
            ..row("half-closed", "300 clients ask and close their sending side", HTTP1, slow::half_closed)
        },
        row("pipelining", "20 connections send 2,000 requests each without reading", HTTP1, slow::pipelining),
        Row {
            count: Some(Count { of: "connections to the origin left", slack: 8 }),
            seconds: Some(8),
            ..row(
                "idle-one",
                "3,000 requests one after another, each on a new connection",
                HTTP1,
                idle::one_after_another,
            )
        },
        Row {
            count: Some(Count { of: "connections to the origin left", slack: 8 }),
            seconds: Some(8),
            ..row(
                "idle-kept",
                "3,000 requests one after another by clients that stay: 50 connections",
                HTTP1,
                idle::kept,
            )
        },
        Row {
            count: Some(Count { of: "connections to the origin left", slack: 8 }),
            seconds: Some(8),
            ..row("idle-fifty", "50 clients without keep-alive, 4,000 requests", HTTP1, idle::fifty)
        },
    ];
    rows.extend(sets);
    rows
}

fn tls() -> Vec<Row> {
    tls::ATTACKS
        .iter()
        .map(|attack| Row {
            needs: Needs { timeout_seconds: 5, ..PLAIN },
            ..row(attack.name, attack.does, TLS, attack.run)
        })
        .collect()
}

fn faults() -> Vec<Row> {
    let lost = Some(Count { of: "requests lost", slack: 0 });
    vec![
        Row {
            count: lost,
            ..row(
                "origin-killed",
                "the origin resets all connections ten times under load",
                HTTP1,
                faults::origin_killed,
            )
        },
        Row {
            count: lost,
            needs: Needs { master: true, ..PLAIN },
            ..row("reload", "three reloads under load", HTTP1, faults::reload)
        },
        Row {
            needs: Needs { descriptors: Some(300), maxconn: 80, timeout_seconds: 2, ..PLAIN },
            ..row(
                "descriptors",
                "1,000 clients at a limit of 300 descriptors",
                Probes::After(Speaks::Http1),
                faults::descriptors,
            )
        },
        Row {
            count: Some(Count { of: "sizes that depend on another's secret", slack: 0 }),
            needs: origins::COMPRESSES,
            origin: compression::pages,
            ..row(
                "gzip-secrets",
                "a page of 40 kB compressed right after another's with a secret",
                HTTP1,
                compression::secrets,
            )
        },
    ]
}
