//! Commands about what goes on: listing sessions and ending them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use weir_proxy::Shared;
use weir_proxy::exchange::running::{End, Going};

use super::{Answer, Request, Session, server as servers};

/// `show sess [<id>|all]`
pub(crate) fn show(session: &mut Session, request: &Request) -> Answer {
    let asked = match request.word(2) {
        "" | "all" => None,
        word => match number(word) {
            Some(number) => Some(number),
            None => return Answer::error("Session pointer expected (use 'show sess')."),
        },
    };
    let shared = Arc::clone(&session.shared);
    Answer::later(async move {
        let mut all = shared.sessions().await;
        all.retain(|going| asked.is_none_or(|asked| asked == going.number));
        all.sort_by_key(|going| std::cmp::Reverse(going.age_ms));
        let mut text = String::new();
        for going in &all {
            line(&shared, going, &mut text);
        }
        Answer::Data(text)
    })
}

fn line(shared: &Shared, going: &Going, text: &mut String) {
    let proxies = &shared.config.proxies;
    let name = |index: usize| proxies.get(index).map_or("<NONE>", |proxy| &*proxy.name);
    let (protocol, client) = match going.client {
        Some(ip) if ip.is_ipv4() => ("tcpv4", ip.to_string()),
        Some(ip) => ("tcpv6", ip.to_string()),
        None => ("unix_stream", "unix:1".to_owned()),
    };
    let server = going.back.zip(going.server).and_then(|(back, id)| {
        let servers = shared.proxies.get(back)?.servers.load();
        servers.iter().find(|server| server.config.id == id).map(|server| server.config.name.to_string())
    });
    // Writing to memory cannot fail.
    writeln!(
        text,
        "{:#x}: proto={protocol} src={client} fe={} be={} srv={} http={} age={} reqs={}",
        going.number,
        name(going.front),
        going.back.map_or("<NONE>", name),
        server.as_deref().unwrap_or("<none>"),
        going.http_major,
        age(Duration::from_millis(going.age_ms)),
        going.requests,
    )
    .unwrap_or_default();
}

/// `1d2h`, `3m4s`, `5s`: the two largest units.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok().filter(|number| *number > 0)
}

/// `shutdown session <id>`
pub(crate) fn shutdown(session: &mut Session, request: &Request) -> Answer {
    let Some(number) = number(request.word(2)) else {
        return Answer::error("Session pointer expected (use 'show sess').");
    };
    let shared = Arc::clone(&session.shared);
    Answer::later(async move {
        match shared.end_session(number).await {
            true => Answer::Done,
            false => Answer::error("No such session (use 'show sess')."),
        }
    })
}

/// `shutdown sessions server <b>/<s>`
pub(crate) fn shutdown_on_server(session: &mut Session, request: &Request) -> Answer {
    match servers::named(&session.shared, request.word(3)) {
        Ok(server) => {
            session.shared.end_sessions_on(&server, End::Killed);
            Answer::Done
        }
        Err(refused) => refused,
    }
}
