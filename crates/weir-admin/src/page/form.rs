//! The page's form: an action on servers of one backend.

use std::sync::Arc;

use weir_proxy::Shared;
use weir_proxy::exchange::running::End;
use weir_proxy::state::ServerState;
use weir_rules::Txn;

use super::query::decode;
use crate::change::{self, Wish};

/// Largest form read, as HAProxy's buffer.
const MAX_FORM_BYTES: usize = 16_384;

/// What became of a change; the page that the browser is sent to shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Nothing,
    Partly,
    Error,
    TooLarge,
    Denied,
}

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Done, Self::Nothing, Self::Partly, Self::Error, Self::TooLarge, Self::Denied];

    /// Its word in addresses.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Done => "DONE",
            Self::Nothing => "NONE",
            Self::Partly => "PART",
            Self::Error => "ERRP",
            Self::TooLarge => "EXCD",
            Self::Denied => "DENY",
        }
    }

    pub(crate) fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Done => "The change was made.",
            Self::Nothing => "Nothing was changed.",
            Self::Partly => "The change was made for some of the servers only.",
            Self::Error => "The request could not be understood; nothing was changed.",
            Self::TooLarge => "The request was too large; choose fewer servers at once.",
            Self::Denied => "Changes are not allowed here.",
        }
    }
}

/// The actions: word, text.
pub(crate) const ACTIONS: [(&str, &str); 13] = [
    ("ready", "Set state to READY"),
    ("drain", "Set state to DRAIN"),
    ("maint", "Set state to MAINT"),
    ("dhlth", "Health: disable checks"),
    ("ehlth", "Health: enable checks"),
    ("hrunn", "Health: force UP"),
    ("hnolb", "Health: force NOLB"),
    ("hdown", "Health: force DOWN"),
    ("dagent", "Agent: disable checks"),
    ("eagent", "Agent: enable checks"),
    ("arunn", "Agent: force UP"),
    ("adown", "Agent: force DOWN"),
    ("shutdown", "Kill sessions"),
];

/// Does what the form in a request says.
pub(crate) fn apply(shared: &Shared, scope: &[String], txn: &Txn) -> Outcome {
    if is_own_page(txn) { apply_form(shared, scope, &txn.request_body) } else { Outcome::Denied }
}

fn apply_form(shared: &Shared, scope: &[String], form: &[u8]) -> Outcome {
    if form.len() > MAX_FORM_BYTES {
        return Outcome::TooLarge;
    }
    let (mut backend, mut action, mut servers) = (None, None, Vec::new());
    for pair in form.split(|byte| *byte == b'&') {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        let value = String::from_utf8_lossy(&decode(&pair[equals + 1..])).into_owned();
        match &pair[..equals] {
            b"b" => backend = Some(value),
            b"action" => action = Some(value),
            b"s" => servers.push(value),
            _ => {}
        }
    }
    let (Some(backend), Some(action)) = (backend, action) else { return Outcome::Nothing };
    if servers.is_empty() || action.is_empty() {
        return Outcome::Nothing;
    }
    let index = shared.config.proxies.iter().position(|p| {
        let named = match backend.strip_prefix('#') {
            Some(number) => number.parse() == Ok(p.id),
            None => *p.name == *backend,
        };
        named && p.backend
    });
    let Some(index) = index else { return Outcome::Error };
    if !scope.is_empty() && !scope.iter().any(|name| **name == *shared.config.proxies[index].name) {
        return Outcome::Denied;
    }
    let done = servers.iter().filter(|name| {
        let server = shared.proxies[index].server(name);
        server.is_some_and(|server| act(shared, &server, &action))
    });
    match done.count() {
        0 => Outcome::Error,
        all if all == servers.len() => Outcome::Done,
        _ => Outcome::Partly,
    }
}

/// A form that another site's page sends is refused: the page's own says the same host.
fn is_own_page(txn: &Txn) -> bool {
    let fields = &txn.request.fields;
    let host = fields.get(b"host").or_else(|| txn.request.uri_authority());
    is_same_site(fields.get(b"origin").or_else(|| fields.get(b"referer")), host)
}

/// Whether the page a form came from is of this host; clients that say nothing are no browsers.
fn is_same_site(from: Option<&[u8]>, host: Option<&[u8]>) -> bool {
    match (from, host) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(from), Some(host)) => {
            let authority = from.split(|byte| *byte == b'/').nth(2).unwrap_or_default();
            authority.eq_ignore_ascii_case(host)
        }
    }
}

/// Does an action on a server; false when it does not apply.
fn act(shared: &Shared, server: &Arc<ServerState>, action: &str) -> bool {
    let checked = server.config.check.is_some();
    let agent = server.config.agent_check.is_some();
    match action {
        "ready" | "enable" => change::wish(shared, server, Wish::Ready),
        "drain" => change::wish(shared, server, Wish::Drain),
        "maint" | "disable" => change::wish(shared, server, Wish::Maintenance),
        "dhlth" if checked => shared.enable_check(server, false),
        "ehlth" if checked => shared.enable_check(server, true),
        "hrunn" if server.config.track.is_none() => shared.force_health(server, Some(true)),
        "hnolb" if server.config.track.is_none() => shared.force_health(server, None),
        "hdown" if server.config.track.is_none() => shared.force_health(server, Some(false)),
        "dagent" if agent => shared.enable_agent(server, false),
        "eagent" if agent => shared.enable_agent(server, true),
        "arunn" if agent => shared.force_agent(server, true),
        "adown" if agent => shared.force_agent(server, false),
        "shutdown" => shared.end_sessions_on(server, End::Killed),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::shared;

    #[test]
    fn what_forms_do() {
        let shared = shared();
        let check = |form: &str, scope: &[&str], expected: Outcome| {
            let scope: Vec<String> = scope.iter().map(ToString::to_string).collect();
            assert_eq!(apply_form(&shared, &scope, form.as_bytes()), expected, "{form}");
        };
        check("s=s1&action=maint&b=%233", &[], Outcome::Done);
        check("s=s1&action=ready&b=be", &["be"], Outcome::Done);
        check("s=s1&action=ready&b=be", &["fe"], Outcome::Denied);
        check("s=zz&action=ready&b=be", &[], Outcome::Error);
        check("s=s1&action=foo&b=be", &[], Outcome::Error);
        check("s=s1&action=ready&b=zz", &[], Outcome::Error);
        check("s=s2&s=zz&action=drain&b=be", &[], Outcome::Partly);
        check("s=s2&action=dhlth&b=be", &[], Outcome::Error);
        check("s=s1&s=s2&action=ready", &[], Outcome::Nothing);
        check("s=s1&action=&b=be", &[], Outcome::Nothing);
        check("x", &[], Outcome::Nothing);
        check(&"s=s1&".repeat(MAX_FORM_BYTES), &[], Outcome::TooLarge);
        let be = shared.proxy_index("be", true).unwrap();
        assert!(!shared.proxies[be].server("s1").unwrap().in_maintenance());
        assert!(shared.proxies[be].server("s2").unwrap().draining());
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let check = |from: Option<&str>, expected| {
            assert_eq!(is_same_site(from.map(str::as_bytes), Some(b"lb.example:8080")), expected, "{from:?}");
        };
        check(None, true);
        check(Some("http://lb.example:8080"), true);
        check(Some("https://LB.example:8080/stats;up"), true);
        check(Some("http://evil.example"), false);
        check(Some("null"), false);
        check(Some("http://lb.example:8080.evil.example"), false);
    }
}
