//! Commands that change limits: `set maxconn`, `set rate-limit`.

use std::sync::atomic::Ordering::Relaxed;

use weir_balance::Limit;

use super::{Answer, Request, Session, frontend as frontends, server as servers};

/// What `set rate-limit` may be about.
const RATES: &str = "'set rate-limit' only supports :
   - 'connections global' to set the per-process maximum connection rate
   - 'sessions global' to set the per-process maximum session rate
   - 'ssl-sessions global' to set the per-process maximum SSL session rate
   - 'http-compression global' to set the per-process maximum compression speed in kB/s";

/// `set maxconn frontend <frontend> <value>`
pub(crate) fn frontend(session: &mut Session, request: &Request) -> Answer {
    let index = match frontends::named(&session.shared, request.word(3)) {
        Ok(index) => index,
        Err(refused) => return refused,
    };
    let Some(value) = integer(request.word(4)) else { return Answer::error("Integer value expected.") };
    // 0 is no limit of its own: the process's remains.
    let value = if value == 0 { session.shared.max_connections.load(Relaxed) } else { value };
    session.shared.proxies[index].front_limit.store(value, Relaxed);
    session.shared.freed.notify_waiters();
    Answer::Done
}

/// `set maxconn server <b>/<s> <value>`
pub(crate) fn server(session: &mut Session, request: &Request) -> Answer {
    let server = match servers::named(&session.shared, request.word(3)) {
        Ok(server) => server,
        Err(refused) => return refused,
    };
    let written = request.word(4);
    if written.is_empty() {
        return Answer::error("Require <maxconn>.");
    }
    if !written.starts_with(|c: char| c.is_ascii_digit()) {
        return Answer::error("maxconn string empty or preceded by garbage");
    }
    let Some(value) = integer(written) else { return Answer::error("Trailing garbage in maxconn string") };
    server.maxconn.store(Limit::new(value), Relaxed);
    server.changed();
    Answer::Done
}

/// `set maxconn global <value>`
pub(crate) fn global(session: &mut Session, request: &Request) -> Answer {
    let Some(value) = integer(request.word(3)) else { return Answer::error("Expects an integer value.") };
    let most = session.shared.max_connections_at_start;
    if value > most {
        return Answer::error("Value out of range.");
    }
    let value = if value == 0 { most } else { value };
    session.shared.max_connections.store(value, Relaxed);
    session.shared.freed.notify_waiters();
    Answer::Done
}

/// `set rate-limit <setting> global <value>`
pub(crate) fn rate(session: &mut Session, request: &Request) -> Answer {
    let limits = &session.shared.limits;
    let limit = match (request.word(2), request.word(3)) {
        ("connections", "global") => &limits.connections_per_second,
        ("sessions", "global") => &limits.sessions_per_second,
        ("ssl-sessions", "global") => &limits.tls_per_second,
        ("http-compression", "global") => &limits.compression_kb_per_second,
        _ => return Answer::error(RATES),
    };
    let Some(value) = integer(request.word(4)) else { return Answer::error("Expects an integer value.") };
    limit.store(Limit::new(value), Relaxed);
    Answer::Done
}

fn integer(word: &str) -> Option<usize> {
    word.parse::<u32>().ok().map(|number| number as usize)
}
