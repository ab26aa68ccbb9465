//! `stats` keywords of proxies: the statistics page.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Phase, Place, Rule, Word};

use crate::keyword::{How, Keyword, Places, keyword};
use crate::language::args::{self, Args, Parsed, fail, fail_hint};
use crate::language::units::Unit;
use crate::model::Stats;
use crate::sections::ProxyDraft;

/// Where the page is unless `stats uri` says otherwise.
const DEFAULT_URI: &[u8] = b"/haproxy?stats";

/// Its realm unless `stats realm` says otherwise.
const DEFAULT_REALM: &[u8] = b"HAProxy Statistics";

/// Stores the page in the proxy.
pub(crate) fn finish(d: &mut ProxyDraft<'_>) {
    let draft = std::mem::take(&mut d.stats);
    if !draft.on {
        return;
    }
    let mut stats = draft.stats;
    if stats.uri.is_empty() {
        stats.uri = DEFAULT_URI.to_vec();
    }
    if stats.realm.is_empty() {
        stats.realm = DEFAULT_REALM.to_vec();
    }
    stats.admin = Arc::new(draft.admin);
    stats.rules = Arc::new(draft.rules);
    d.proxy.stats = Some(stats);
}

fn set(d: &mut ProxyDraft<'_>, a: &mut Args<'_>, read: fn(&mut Stats, &mut Args<'_>) -> Parsed) -> Parsed {
    d.stats.on = true;
    read(&mut d.stats.stats, a)?;
    a.end()
}

fn auth(stats: &mut Stats, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a user and a password, as in admin:secret")?;
    let Some(colon) = word.text.iter().position(|b| *b == b':') else {
        return fail_hint(word.pos, "the password is missing", "write user:password");
    };
    stats.auth.push((word.text[..colon].to_vec(), word.text[colon + 1..].to_vec()));
    Ok(())
}

fn refresh(stats: &mut Stats, a: &mut Args<'_>) -> Parsed {
    let time = args::time(a.need("a time in seconds")?, Unit::Seconds)?;
    stats.refresh = Some(time).filter(|time| *time > Duration::ZERO);
    Ok(())
}

fn rest(a: &mut Args<'_>) -> String {
    args::joined(a.rest())
}

fn admin(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.stats.on = true;
    match d.condition(a, Place::Rule(Phase::HttpRequest))? {
        Some(condition) => d.stats.admin.push(condition),
        None => return fail(a.pos(), "'stats admin' requires a condition: 'if' or 'unless'"),
    }
    Ok(())
}

fn http_request(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let action: &Word = a.need("allow, deny or auth")?;
    if !["allow", "deny", "auth"].contains(&&*action.as_str()) {
        return fail_hint(
            action.pos,
            format!("unknown action '{}'", action.as_str()),
            "one of allow, deny, auth",
        );
    }
    let rule = Rule::parse(Phase::HttpRequest, a.words, &mut d.scope)?;
    d.stats.on = true;
    d.stats.rules.push(rule);
    Ok(())
}

const fn entry(name: &'static str, arguments: &'static str, doc: &'static str, how: How) -> Keyword {
    keyword(name, Places::PROXIES, arguments, doc, how)
}

/// Keywords of the statistics page.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry("stats admin", "<if|unless> <condition>", "Who may change servers on the page", How::Proxy(admin))
        .example("stats admin if LOCALHOST"),
    entry("stats auth", "<user>:<password>", "Who may see the page", How::Proxy(|d, a| set(d, a, auth)))
        .example("stats auth admin:secret"),
    entry("stats enable", "", "Serves the statistics page", How::Proxy(|d, a| set(d, a, |_, _| Ok(()))))
        .example("stats enable"),
    entry(
        "stats hide-version",
        "",
        "Hides the version",
        How::Proxy(|d, a| {
            set(d, a, |s, _| {
                s.hide_version = true;
                Ok(())
            })
        }),
    )
    .example("stats hide-version"),
    entry(
        "stats show-version",
        "",
        "Undoes stats hide-version",
        How::Proxy(|d, a| {
            set(d, a, |s, _| {
                s.hide_version = false;
                Ok(())
            })
        }),
    ),
    entry(
        "stats http-request",
        "<allow|deny|auth [realm <realm>]> [<if|unless> <condition>]",
        "A rule for requests of the page",
        How::Proxy(http_request),
    )
    .example("stats http-request auth unless LOCALHOST"),
    entry(
        "stats realm",
        "<realm>",
        "Realm of the page",
        How::Proxy(|d, a| {
            set(d, a, |s, a| {
                s.realm = a.need("a realm")?.text.clone();
                Ok(())
            })
        }),
    )
    .example("stats realm Statistics"),
    entry(
        "stats refresh",
        "<time>",
        "Time after which browsers load the page again",
        How::Proxy(|d, a| set(d, a, refresh)),
    )
    .example("stats refresh 10s"),
    entry(
        "stats scope",
        "<name|.>",
        "Proxies that are shown",
        How::Proxy(|d, a| {
            set(d, a, |s, a| {
                s.scope.push(a.text("a proxy's name")?);
                Ok(())
            })
        }),
    )
    .example("stats scope ."),
    entry(
        "stats show-desc",
        "[<text>]",
        "Shows a description",
        How::Proxy(|d, a| {
            set(d, a, |s, a| {
                s.show_desc = Some(rest(a));
                Ok(())
            })
        }),
    )
    .example("stats show-desc main site"),
    entry(
        "stats show-legends",
        "",
        "Shows more facts",
        How::Proxy(|d, a| {
            set(d, a, |s, _| {
                s.show_legends = true;
                Ok(())
            })
        }),
    )
    .example("stats show-legends"),
    entry(
        "stats show-modules",
        "",
        "Shows statistics of modules",
        How::Proxy(|d, a| {
            set(d, a, |s, _| {
                s.show_modules = true;
                Ok(())
            })
        }),
    )
    .example("stats show-modules"),
    entry(
        "stats show-node",
        "[<name>]",
        "Shows the node's name",
        How::Proxy(|d, a| {
            set(d, a, |s, a| {
                s.show_node = Some(rest(a));
                Ok(())
            })
        }),
    )
    .example("stats show-node"),
    entry(
        "stats uri",
        "<prefix>",
        "Where the page is",
        How::Proxy(|d, a| {
            set(d, a, |s, a| {
                s.uri = a.need("a path")?.text.clone();
                Ok(())
            })
        }),
    )
    .default("/haproxy?stats")
    .example("stats uri /status"),
];
