//! The statistics page: who may see it, in which layout, and what its form changes.

mod form;

mod html;

mod query;

use std::sync::Arc;

use weir_config::model::{Proxy, Stats};
use weir_http::{Method, Response};
use weir_proxy::Shared;
use weir_rules::{Reply, Txn, reply};

use crate::object::{self, Filter};
use crate::report::{self, Layout, Style};
use query::{Query, Wanted};

/// Realm of a password prompt unless configured (`stats realm`).
const DEFAULT_REALM: &[u8] = b"HAProxy Statistics";

/// Answers a request below `stats uri`.
pub(crate) fn answer(shared: &Arc<Shared>, version: &str, index: usize, txn: &Txn) -> Reply {
    let proxy = &shared.config.proxies[index];
    let Some(stats) = &proxy.stats else { return reply::default_error(404) };
    if !is_authorized(stats, txn) {
        return unauthorized(stats);
    }
    let path = txn.request.path_and_query();
    let query = Query::parse(path.get(stats.uri.len()..).unwrap_or_default());
    let may_change = stats.admin.iter().any(|condition| condition.holds(txn));
    if txn.request.method == Method::Post {
        let outcome = match may_change {
            true => form::apply(shared, &scope_of(proxy, stats), txn),
            false => form::Outcome::Denied,
        };
        return see_other(&query.location(&stats.uri, outcome));
    }
    report(&View { shared, version, proxy, stats, query: &query, may_change })
}

/// What a page is made of.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) version: &'a str,
    /// The proxy whose page it is.
    pub(crate) proxy: &'a Proxy,
    pub(crate) stats: &'a Stats,
    pub(crate) query: &'a Query,
    /// The reader may change servers.
    pub(crate) may_change: bool,
}

fn report(view: &View<'_>) -> Reply {
    let filter = Filter {
        up: view.query.up,
        no_maint: view.query.no_maint,
        name_part: view.query.scope.clone(),
        scope: scope_of(view.proxy, view.stats),
        ..Filter::default()
    };
    let objects = object::objects(view.shared, &filter, view.stats.show_legends);
    let plain = |layout| report::statistics(&objects, Style { layout, describe: false });
    let (kind, body) = match view.query.wanted {
        Wanted::Page => ("text/html; charset=utf-8", html::render(view, &objects)),
        Wanted::Csv => ("text/plain", plain(Layout::Plain)),
        Wanted::Typed => ("text/plain", plain(Layout::Typed)),
        Wanted::Json => ("application/json", plain(Layout::Json)),
        Wanted::Schema => ("application/json", report::SCHEMA.to_owned()),
    };
    let mut response = Response::new(200, "OK");
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"content-type", kind.as_bytes());
    if view.query.wanted == Wanted::Page {
        // Nothing but the page's own style: what servers and checks say can do no harm.
        response.fields.push(
            b"content-security-policy",
            b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'",
        );
    }
    if let Some(refresh) = view.stats.refresh.filter(|_| !view.query.no_refresh) {
        response.fields.push(b"refresh", refresh.as_secs().max(1).to_string().as_bytes());
    }
    Reply::new(response, body.as_bytes())
}

/// The proxies that `stats scope` names; `.` is the one it stands in.
fn scope_of(proxy: &Proxy, stats: &Stats) -> Vec<String> {
    let named = |name: &String| if name == "." { proxy.name.to_string() } else { name.clone() };
    stats.scope.iter().map(named).collect()
}

/// `stats auth`: nobody needs a password without any.
fn is_authorized(stats: &Stats, txn: &Txn) -> bool {
    if stats.auth.is_empty() {
        return true;
    }
    let given = txn.request.fields.get(b"authorization").and_then(basic_credentials);
    let Some(given) = given else { return false };
    let mut found = false;
    // All are compared, so that the time tells nothing about which user exists.
    for (user, password) in &stats.auth {
        let expected = [user.as_slice(), b":", password].concat();
        found |= is_same(&expected, &given);
    }
    found
}

/// Compares in a time that depends on the lengths alone.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// `user:password` of a Basic authorization (RFC 7617 section 2).
fn basic_credentials(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut out = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in rest.trim_ascii() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

fn unauthorized(stats: &Stats) -> Reply {
    let realm = if stats.realm.is_empty() { DEFAULT_REALM } else { &stats.realm };
    let mut reply = reply::default_error(401);
    let escaped = String::from_utf8_lossy(realm).replace('\\', "\\\\").replace('"', "\\\"");
    reply.response.fields.set(b"www-authenticate", format!("Basic realm=\"{escaped}\"").as_bytes());
    reply
}

/// Back to the page, which says what happened.
fn see_other(location: &str) -> Reply {
    let mut response = Response::new(303, "See Other");
    response.fields.push(b"cache-control", b"no-cache");
    response.fields.push(b"content-type", b"text/plain");
    response.fields.push(b"location", location.as_bytes());
    Reply::new(response, [])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials() {
        let check = |value: &str, expected: Option<&str>| {
            assert_eq!(
                basic_credentials(value.as_bytes()).as_deref(),
                expected.map(str::as_bytes),
                "{value}"
            );
        };
        check("Basic YWRtaW46QWRNaU4xMjM=", Some("admin:AdMiN123"));
        check("basic YTpi", Some("a:b"));
        check("Basic YTpi=", Some("a:b"));
        check("Bearer YTpi", None);
        check("Basic !!!!", None);
        check("Basic", None);
    }
}
