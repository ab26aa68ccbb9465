//! Cookie persistence: which server a request's cookie names, and what the response tells the client.

use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{CookiePersistence, Proxy};
use weir_http::{FieldName, Fields, Response};

use crate::exchange::Exchange;
use crate::filter::cache;
use crate::state::ServerState;

/// What the request's persistence cookie said.
#[derive(Default)]
pub(crate) struct Found {
    /// The server it named.
    pub(crate) server: Option<Arc<ServerState>>,
    /// There was a cookie, with a value no server has.
    pub(crate) invalid: bool,
    /// There was none.
    pub(crate) absent: bool,
    /// When the client was seen last, and first, as the cookie says; seconds since 1970.
    last_seen_s: Option<u64>,
    first_seen_s: Option<u64>,
}

/// Stands between the server and the dates in a cookie's value: `server|last|first`.
const DATE_DELIMITER: u8 = b'|';

/// Dates count in steps of so many seconds.
const DATE_STEP_S: u64 = 4;

/// A date so far ahead is a clock that was set wrong rather than a difference between two clocks, seconds.
const MAX_AHEAD_S: u64 = 86_400;

/// Digits of a date: 30 bits, six in each, the highest first.
const DATE_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes a date in seconds since 1970, rounded up.
fn write_date(seconds: u64, out: &mut Vec<u8>) {
    let steps = seconds.div_ceil(DATE_STEP_S);
    out.extend((0..5).rev().map(|digit| DATE_DIGITS[(steps >> (6 * digit)) as usize & 63]));
}

/// Reads the date a part of a cookie's value starts with.
fn read_date(part: &[u8]) -> Option<u64> {
    let digits = part.get(..5)?.iter().map(|byte| DATE_DIGITS.iter().position(|digit| digit == byte));
    let steps = digits.into_iter().try_fold(0, |steps, digit| Some((steps << 6) | digit? as u64))?;
    Some(steps * DATE_STEP_S).filter(|seconds| *seconds > 0)
}

/// A date that is further back than the limit, or impossibly far ahead.
fn is_over(date_s: Option<u64>, limit: Option<Duration>, now_s: u64) -> bool {
    let (Some(date_s), Some(limit)) = (date_s, limit) else { return false };
    now_s.saturating_sub(date_s) > limit.as_secs() || date_s.saturating_sub(now_s) > MAX_AHEAD_S
}

/// What is wrong with the dates of a cookie (manual, `cookie`: `maxlife`, `maxidle`), as its letter in the log.
fn outdated(cookie: &CookiePersistence, last_s: Option<u64>, first_s: Option<u64>, now_s: u64) -> Option<u8> {
    if is_over(first_s, cookie.maxlife, now_s) {
        return Some(b'O');
    }
    is_over(last_s, cookie.maxidle, now_s).then_some(b'E')
}

/// `name=value` pairs of Cookie field values.
fn pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|b| *b == b';').map(|pair| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|b| *b == b'=') {
            Some(at) => (pair[..at].trim_ascii_end(), pair[at + 1..].trim_ascii_start()),
            None => (pair, &b""[..]),
        }
    })
}

/// `capture cookie`: name and value of the first cookie whose name starts with `name`.
pub(crate) fn capture(fields: &Fields, name: &[u8], limit: usize, response: bool) -> Option<Box<[u8]>> {
    let field = if response { FieldName::SetCookie } else { FieldName::Cookie };
    for value in fields.all(field) {
        for pair in value.split(|b| *b == b';').take(if response { 1 } else { usize::MAX }) {
            let pair = pair.trim_ascii();
            if pair.starts_with(name) {
                return Some(pair[..pair.len().min(limit)].into());
            }
        }
    }
    None
}

/// Reads the persistence cookie of the request; removes it in `indirect` and unprefixes it in `prefix` mode.
pub(crate) fn read(x: &mut Exchange, proxy: &Proxy) {
    let Some(cookie) = &proxy.cookie else { return };
    // As long as no server's response says more.
    mark(x, cookie, 3, b'N');
    let mut value = None;
    for line in x.txn.request.fields.all(FieldName::Cookie) {
        if let Some((_, found)) = pairs(line).find(|(name, _)| *name == cookie.name) {
            value = Some(found.to_vec());
            break;
        }
    }
    let Some(value) = value else {
        x.cookie.absent = true;
        mark(x, cookie, 2, b'N');
        return;
    };
    let delimiter = if cookie.prefix { b'~' } else { DATE_DELIMITER };
    let mut parts = value.split(|b| *b == delimiter);
    let named = parts.next().unwrap_or_default();
    let mut over = None;
    if !cookie.prefix && (cookie.maxidle.is_some() || cookie.maxlife.is_some()) {
        let (last_s, first_s) = (parts.next().and_then(read_date), parts.next().and_then(read_date));
        over = outdated(cookie, last_s, first_s, x.worker.env.wall_us() / 1_000_000);
        if over.is_none() {
            (x.cookie.last_seen_s, x.cookie.first_seen_s) = (last_s, first_s);
        }
    }
    let found = {
        let layout = x.worker.state(x.back).layout();
        // A cookie that is too old names nobody.
        let named = if over.is_some() { b"" } else { named };
        let mut named = layout.members.with_cookie(named);
        let first = named.next();
        // Of several with the same value, one that is up; else the first of them.
        first
            .filter(|server| server.is_running())
            .or_else(|| named.find(|s| s.is_running()))
            .or(first)
            .cloned()
    };
    let flag = match &found {
        _ if over.is_some() => over.unwrap_or(b'E'),
        Some(server) if server.is_running() => b'V',
        Some(_) => b'D',
        None => b'I',
    };
    mark(x, cookie, 2, flag);
    x.cookie.invalid = found.is_none();
    x.cookie.server = found;
    if cookie.indirect && cookie.insert {
        remove_from_request(&mut x.txn.request.fields, &cookie.name);
    } else if cookie.prefix && value.contains(&b'~') {
        let rest = value[named.len() + 1..].to_vec();
        replace_in_request(&mut x.txn.request.fields, &cookie.name, &rest);
    }
}

/// Takes one cookie out of the Cookie lines; a line that becomes empty goes.
fn remove_from_request(fields: &mut Fields, name: &[u8]) {
    rewrite_cookies(fields, |n, v| (n != name).then(|| join(n, v)));
}

fn replace_in_request(fields: &mut Fields, name: &[u8], value: &[u8]) {
    rewrite_cookies(fields, |n, v| Some(join(n, if n == name { value } else { v })));
}

fn join(name: &[u8], value: &[u8]) -> Vec<u8> {
    [name, b"=", value].concat()
}

fn rewrite_cookies(fields: &mut Fields, map: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>) {
    for at in (0..fields.len()).rev() {
        if fields.list()[at].id != FieldName::Cookie {
            continue;
        }
        let kept: Vec<_> = pairs(fields.value(at)).filter_map(|(n, v)| map(n, v)).collect();
        if kept.is_empty() {
            fields.remove_at(at);
        } else {
            let joined = kept.join(&b"; "[..]);
            fields.set_value(at, &joined);
        }
    }
}

/// Notes in the log's state what became of the cookie; one that is only read leaves no trace there.
fn mark(x: &mut Exchange, cookie: &CookiePersistence, at: usize, flag: u8) {
    if cookie.rewrite || cookie.insert || cookie.prefix {
        x.txn.termination[at] = flag;
    }
}

/// Tells the client its server: inserts, rewrites or prefixes the cookie.
pub(crate) fn write(x: &mut Exchange, proxy: &Proxy, server: &ServerState, response: &mut Response) {
    let Some(cookie) = &proxy.cookie else { return };
    let value = server.cookie();
    let value = value.as_deref();
    let set_by_server = response.fields.list().iter().position(|f| {
        f.id == FieldName::SetCookie && starts_with_cookie(response.fields.bytes(f.value), cookie)
    });
    if set_by_server.is_some() && cookie.insert && !cookie.preserve && !cookie.rewrite && value.is_some() {
        // Manual, `cookie insert`: the server's own is removed before anything else is done.
        response.fields.retain(|name, value| name != b"set-cookie" || !starts_with_cookie(value, cookie));
        mark(x, cookie, 3, b'D');
    } else if let Some(at) = set_by_server {
        let old = response.fields.value(at).to_vec();
        mark(x, cookie, 3, b'P');
        let Some(value) = value else { return };
        if cookie.rewrite {
            mark(x, cookie, 3, b'R');
            let rest = old.iter().position(|b| *b == b';').map_or(&b""[..], |semicolon| &old[semicolon..]);
            let new = [&cookie.name[..], b"=", value, rest].concat();
            response.fields.set_value(at, &new);
        } else if cookie.prefix {
            mark(x, cookie, 3, b'R');
            let eq = cookie.name.len() + 1;
            let new = [&old[..eq], value, b"~", &old[eq..]].concat();
            response.fields.set_value(at, &new);
        }
        return;
    }
    let now_s = x.worker.env.wall_us() / 1_000_000;
    let kept = x.cookie.server.as_ref().is_some_and(|s| s.config.id == server.config.id);
    if !cookie.insert || (kept && !is_due(cookie, &x.cookie, now_s)) {
        return;
    }
    if cookie.postonly && x.txn.request.method != weir_http::Method::Post {
        return;
    }
    mark(x, cookie, 3, if kept { b'U' } else { b'I' });
    let first_s = x.cookie.first_seen_s.unwrap_or(now_s);
    let dated = value.map(|value| dated(cookie, value, now_s, first_s));
    // What no cache would store needs no word about it.
    let cacheable = cookie.nocache && cache::is_cacheable(x.txn.request.method, response);
    response.fields.push(b"set-cookie", &set_cookie(cookie, dated.as_deref()));
    if cacheable {
        response.fields.push(b"cache-control", b"private");
    }
}

fn starts_with_cookie(value: &[u8], cookie: &CookiePersistence) -> bool {
    value.starts_with(&cookie.name) && value.get(cookie.name.len()) == Some(&b'=')
}

/// A client that has its server already is told again: to note when it was seen, or to forget such notes.
fn is_due(cookie: &CookiePersistence, found: &Found, now_s: u64) -> bool {
    let idle = cookie.maxidle.is_some() || found.last_seen_s.is_some();
    let seen_before = found.last_seen_s.is_none_or(|last| last < now_s);
    (idle && seen_before) || (cookie.maxlife.is_some() != found.first_seen_s.is_some())
}

/// The value with the dates that the next request is judged by.
fn dated(cookie: &CookiePersistence, value: &[u8], now_s: u64, first_s: u64) -> Vec<u8> {
    let mut out = value.to_vec();
    if cookie.maxidle.is_some() || cookie.maxlife.is_some() {
        out.push(DATE_DELIMITER);
        write_date(now_s, &mut out);
    }
    if cookie.maxlife.is_some() {
        out.push(DATE_DELIMITER);
        write_date(first_s, &mut out);
    }
    out
}

/// The Set-Cookie value for a server; one without a cookie of its own takes the client's away.
fn set_cookie(cookie: &CookiePersistence, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = [&cookie.name[..], b"=", value.unwrap_or_default()].concat();
    if value.is_none() {
        out.extend_from_slice(b"; Expires=Thu, 01-Jan-1970 00:00:01 GMT");
    }
    out.extend_from_slice(b"; path=/");
    for domain in &cookie.domains {
        out.extend_from_slice(b"; domain=");
        out.extend_from_slice(domain);
    }
    if cookie.httponly {
        out.extend_from_slice(b"; HttpOnly");
    }
    if cookie.secure {
        out.extend_from_slice(b"; Secure");
    }
    for attr in &cookie.attrs {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(attr);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| {
            let mut out = Vec::new();
            write_date(seconds, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{seconds}");
            assert_eq!(read_date(&out), Some(seconds.next_multiple_of(4)), "{seconds}");
        };
        check(4, "AAAAB");
        check(1_700_000_001, "ZVPxB");
        assert_eq!(read_date(b"AAAAA"), None);
        assert_eq!(read_date(b"AAA"), None);
        assert_eq!(read_date(b"A*AAA"), None);
    }

    #[test]
    fn cookies_grow_old() {
        let seconds = |s: Option<u64>| s.map(Duration::from_secs);
        // maxidle, maxlife; last and first seen; the letter at second 1,000,000.
        let check = |limits: (Option<u64>, Option<u64>), last: Option<u64>, first: Option<u64>, expected| {
            let (maxidle, maxlife) = (seconds(limits.0), seconds(limits.1));
            let cookie = CookiePersistence { maxidle, maxlife, ..CookiePersistence::default() };
            assert_eq!(outdated(&cookie, last, first, 1_000_000), expected, "{limits:?} {last:?} {first:?}");
        };
        check((None, None), Some(1), Some(1), None);
        check((Some(60), None), Some(999_940), None, None);
        check((Some(60), None), Some(999_939), None, Some(b'E'));
        check((Some(60), Some(100)), Some(999_990), Some(999_899), Some(b'O'));
        check((Some(60), Some(100)), None, None, None);
        // Clocks that differ a little, and one that is wrong.
        check((Some(60), None), Some(1_000_300), None, None);
        check((Some(60), None), Some(1_100_000), None, Some(b'E'));
    }

    #[test]
    fn cookies_are_taken_out() {
        let check = |line: &str, expected: Option<&str>| {
            let mut fields = Fields::default();
            fields.push(b"Cookie", line.as_bytes());
            remove_from_request(&mut fields, b"SRV");
            let left = fields.first(FieldName::Cookie).map(|v| String::from_utf8_lossy(v).into_owned());
            assert_eq!(left.as_deref(), expected, "{line}");
        };
        check("SRV=a", None);
        check("x=1; SRV=a; y=2", Some("x=1; y=2"));
        check("SRVX=1", Some("SRVX=1"));
    }
}
