//! Cookie persistence: which server a request's cookie names, and what the response tells the client.

use std::sync::Arc;

use weir_config::model::{CookiePersistence, Proxy};
use weir_http::{FieldName, Fields, Response};

use crate::exchange::Exchange;
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
    let mut value = None;
    for line in x.txn.request.fields.all(FieldName::Cookie) {
        if let Some((_, found)) = pairs(line).find(|(name, _)| *name == cookie.name) {
            value = Some(found.to_vec());
            break;
        }
    }
    let Some(value) = value else {
        x.cookie.absent = true;
        x.txn.termination[2] = b'N';
        return;
    };
    let named = if cookie.prefix {
        value.split(|b| *b == b'~').next().unwrap_or_default()
    } else {
        value.split(|b| *b == b'|').next().unwrap_or_default()
    };
    let found = {
        let layout = x.worker.state(x.back).layout();
        let mut named = layout.members.with_cookie(named);
        let first = named.next();
        // Of several with the same value, one that is up; else the first of them.
        first
            .filter(|server| server.is_running())
            .or_else(|| named.find(|s| s.is_running()))
            .or(first)
            .cloned()
    };
    x.txn.termination[2] = match &found {
        Some(server) if server.is_running() => b'V',
        Some(_) => b'D',
        None => b'I',
    };
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

/// Tells the client its server: inserts, rewrites or prefixes the cookie.
pub(crate) fn write(x: &mut Exchange, proxy: &Proxy, server: &ServerState, response: &mut Response) {
    let Some(cookie) = &proxy.cookie else { return };
    let Some(value) = &server.config.cookie else { return };
    let set_by_server = response.fields.list().iter().position(|f| {
        f.id == FieldName::SetCookie && starts_with_cookie(response.fields.bytes(f.value), cookie)
    });
    if let Some(at) = set_by_server {
        let old = response.fields.value(at).to_vec();
        x.txn.termination[3] = b'P';
        if cookie.rewrite || (cookie.insert && !cookie.preserve) {
            x.txn.termination[3] = b'R';
            let rest = old.iter().position(|b| *b == b';').map_or(&b""[..], |semicolon| &old[semicolon..]);
            let new = [&cookie.name[..], b"=", value, rest].concat();
            response.fields.set_value(at, &new);
        } else if cookie.prefix {
            x.txn.termination[3] = b'R';
            let eq = cookie.name.len() + 1;
            let new = [&old[..eq], value, b"~", &old[eq..]].concat();
            response.fields.set_value(at, &new);
        }
        return;
    }
    x.txn.termination[3] = b'N';
    let kept = x.cookie.server.as_ref().is_some_and(|s| s.config.id == server.config.id);
    if !cookie.insert || (kept && cookie.maxidle.is_none()) {
        return;
    }
    if cookie.postonly && x.txn.request.method != weir_http::Method::Post {
        return;
    }
    x.txn.termination[3] = b'I';
    response.fields.push(b"set-cookie", &set_cookie(cookie, value));
    if cookie.nocache {
        response.fields.push(b"cache-control", b"private");
    }
}

fn starts_with_cookie(value: &[u8], cookie: &CookiePersistence) -> bool {
    value.starts_with(&cookie.name) && value.get(cookie.name.len()) == Some(&b'=')
}

/// The Set-Cookie value for a server.
fn set_cookie(cookie: &CookiePersistence, value: &[u8]) -> Vec<u8> {
    let mut out = [&cookie.name[..], b"=", value, b"; path=/"].concat();
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
