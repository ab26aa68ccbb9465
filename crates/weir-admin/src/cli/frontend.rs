//! Commands about frontends and backends as a whole.

use std::sync::atomic::Ordering::Relaxed;

use weir_proxy::Shared;

use super::{Answer, Request, Session};

/// The frontend that a word names, by name or `#number`.
pub(crate) fn named(shared: &Shared, word: &str) -> Result<usize, Answer> {
    if word.is_empty() {
        return Err(Answer::error("A frontend name is expected."));
    }
    let found = match word.strip_prefix('#') {
        Some(number) => {
            let number = number.parse::<u32>().ok();
            shared.config.proxies.iter().position(|p| p.frontend && Some(p.id) == number)
        }
        None => shared.proxy_index(word, false),
    };
    found.ok_or_else(|| Answer::error("No such frontend."))
}

/// `disable frontend <frontend>`
pub(crate) fn disable(session: &mut Session, request: &Request) -> Answer {
    let index = match named(&session.shared, request.word(2)) {
        Ok(index) => index,
        Err(refused) => return refused,
    };
    if session.shared.proxies[index].disabled.swap(true, Relaxed) {
        return Answer::error("All sockets are already disabled.");
    }
    tell(&session.shared, index, "Paused");
    Answer::Done
}

/// `Paused frontend www.`
fn tell(shared: &Shared, index: usize, what: &str) {
    let config = &shared.config.proxies[index];
    let kind = if config.backend { "proxy" } else { "frontend" };
    shared.warn(index, format!("{what} {kind} {}.", config.name));
}

/// `enable frontend <frontend>`
pub(crate) fn enable(session: &mut Session, request: &Request) -> Answer {
    let index = match named(&session.shared, request.word(2)) {
        Ok(index) => index,
        Err(refused) => return refused,
    };
    if !session.shared.proxies[index].disabled.swap(false, Relaxed) {
        return Answer::error("All sockets are already enabled.");
    }
    tell(&session.shared, index, "Resumed");
    Answer::Done
}

/// `shutdown frontend <frontend>`: the listening sockets would have to be closed for good.
pub(crate) fn shutdown(session: &mut Session, request: &Request) -> Answer {
    match named(&session.shared, request.word(2)) {
        Ok(_) => Answer::missing("shutdown frontend"),
        Err(refused) => refused,
    }
}

/// `publish backend <backend>`
pub(crate) fn publish(session: &mut Session, request: &Request) -> Answer {
    set_published(&session.shared, request.word(2), true)
}

/// `unpublish backend <backend>`
pub(crate) fn unpublish(session: &mut Session, request: &Request) -> Answer {
    set_published(&session.shared, request.word(2), false)
}

fn set_published(shared: &Shared, name: &str, published: bool) -> Answer {
    if name.is_empty() {
        return Answer::error("A backend name is expected.");
    }
    let Some(index) = shared.proxy_index(name, true) else { return Answer::error("No such backend.") };
    shared.proxies[index].published.store(published, Relaxed);
    Answer::Done
}

/// `enable|disable dynamic-cookie`, `set dynamic-cookie-key`
pub(crate) fn dynamic_cookie_missing(_: &mut Session, _: &Request) -> Answer {
    Answer::missing("dynamic cookies")
}
