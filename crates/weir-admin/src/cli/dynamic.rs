//! Commands that add and remove servers, and the wait for a server to be removable.

use std::sync::Arc;
use std::time::Duration;

use weir_balance::Admin;
use weir_config::model::{Mode, Proto, Server};
use weir_proxy::Shared;
use weir_proxy::state::ServerState;
use weir_rules::{Pos, Word};

use super::{Answer, Request, Session, server as servers};
use crate::change;

/// Longest wait.
const MAX_WAIT: Duration = Duration::from_secs(86_400);
/// How often a server is looked at that somebody wants to remove.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Most servers of a backend, those of the configuration included.
const MAX_SERVERS: usize = 65_536;

type Outcome = Result<Answer, Answer>;

fn either(outcome: Outcome) -> Answer {
    outcome.unwrap_or_else(|refused| refused)
}

/// `add server <b>/<s> <addr> ...`: it starts in maintenance, unchecked.
pub(crate) fn add_server(session: &mut Session, request: &Request) -> Answer {
    either(try_add(&session.shared, request))
}

fn try_add(shared: &Shared, request: &Request) -> Outcome {
    let Some((backend, name)) = request.word(2).split_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Err(Answer::error("Require 'backend/server'."));
    };
    let index = servers::backend_named(shared, backend).ok_or_else(|| Answer::error("No such backend."))?;
    let (proxy, state) = (&shared.config.proxies[index], &shared.proxies[index]);
    if change::is_static(shared, index) {
        return Err(Answer::error("Backend must use a dynamic load balancing to support dynamic servers."));
    }
    if request.words.len() < 4 {
        return Err(Answer::error("'server' expects <name> and <addr>[:<port>] as arguments."));
    }
    let existing = state.servers.load_full();
    if existing.iter().any(|other| *other.config.name == *name) {
        return Err(Answer::error("Already exists a server with the same name in backend."));
    }
    if existing.len() >= MAX_SERVERS {
        return Err(Answer::error(format!("The backend has {MAX_SERVERS} servers already.")));
    }
    let word = |text: &str| Word { text: text.as_bytes().to_vec(), pos: Pos::default() };
    let words: Vec<Word> =
        std::iter::once(name).chain(request.words[3..].iter().map(String::as_str)).map(word).collect();
    let mut config = weir_config::parse_server(&words, &shared.config.global).map_err(|problems| {
        let text: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        Answer::error(text.join("\n"))
    })?;
    let http_only = matches!(config.proto, Some(Proto::H1 | Proto::H2 | Proto::Fcgi));
    if proxy.mode != Mode::Http && http_only {
        return Err(Answer::error("MUX protocol is not usable for server."));
    }
    if config.proto == Some(Proto::Fcgi) && proxy.use_fcgi_app.is_none() {
        return Err(Answer::error("Backend has no FastCGI application for the server."));
    }
    if let Some(section) =
        config.resolvers.as_ref().filter(|name| !shared.config.resolvers.contains_key(*name))
        && section != "default"
    {
        return Err(Answer::error(format!("unable to find resolvers '{section}'.")));
    }
    check_track(shared, index, &config)?;
    number(&existing, &mut config)?;
    let server = state.add_server(&config);
    shared.enable_check(&server, false);
    shared.enable_agent(&server, false);
    if let Err(error) = shared.prepare_tls(&server) {
        state.remove_server(&server);
        return Err(Answer::error(format!("server '{backend}/{name}': {error}")));
    }
    shared.watch(&server);
    Ok(Answer::info("New server registered."))
}

/// The number it asked for, or the lowest that is free.
fn number(existing: &[Arc<ServerState>], config: &mut Server) -> Result<(), Answer> {
    let taken = |id: u32| existing.iter().find(|other| other.config.id == id);
    if config.id != 0 {
        return match taken(config.id) {
            Some(other) => Err(Answer::error(format!(
                "custom id {} is already used by '{}'.",
                config.id, other.config.name
            ))),
            None => Ok(()),
        };
    }
    config.id = (1..=u32::MAX).find(|id| taken(*id).is_none()).unwrap_or(u32::MAX);
    Ok(())
}

/// Only servers of the configuration that are checked can be followed.
fn check_track(shared: &Shared, index: usize, config: &Server) -> Result<(), Answer> {
    let Some(track) = &config.track else { return Ok(()) };
    let full = match track.contains('/') {
        true => track.clone(),
        false => format!("{}/{track}", shared.config.proxies[index].name),
    };
    let refuse = |why: &str| Err(Answer::error(format!("unable to use {full} for tracking as it {why}.")));
    let Ok(tracked) = servers::named(shared, &full) else { return refuse("does not exist") };
    if tracked.dynamic {
        return refuse("is a dynamic server");
    }
    let checked = tracked.config.check.is_some() || tracked.config.agent_check.is_some();
    if !checked && tracked.config.track.is_none() {
        return refuse("does not have any check nor agent enabled");
    }
    Ok(())
}

/// `del server <b>/<s>`
pub(crate) fn delete_server(session: &mut Session, request: &Request) -> Answer {
    either(try_delete(&session.shared, request))
}

fn try_delete(shared: &Shared, request: &Request) -> Outcome {
    let server = servers::named(shared, request.word(2))?;
    removable(shared, &server).map_err(|obstacle| Answer::error(obstacle.text()))?;
    if !shared.proxies[server.proxy].remove_server(&server) {
        return Err(Answer::error("No such server."));
    }
    Ok(Answer::info("Server deleted."))
}

/// Why a server cannot be removed now.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    Named,
    Running,
    Busy,
}

impl Obstacle {
    fn text(&self) -> &'static str {
        match self {
            Self::Named => {
                "This server cannot be removed at runtime due to other configuration elements pointing to it."
            }
            Self::Running => "Only servers in maintenance mode can be deleted.",
            Self::Busy => "Server still has connections attached to it, cannot remove it.",
        }
    }
}

fn removable(shared: &Shared, server: &Arc<ServerState>) -> Result<(), Obstacle> {
    let is_tracked = shared.proxies.iter().any(|proxy| {
        proxy.servers.load().iter().any(|other| other.tracked().is_some_and(|t| Arc::ptr_eq(&t, server)))
    });
    if server.config.named_by_rules || is_tracked {
        return Err(Obstacle::Named);
    }
    if server.standing().admin().0 & Admin::FORCED_MAINT.0 == 0 && !server.in_maintenance() {
        return Err(Obstacle::Running);
    }
    if server.served.now() > 0 {
        return Err(Obstacle::Busy);
    }
    Ok(())
}

/// `wait <delay> [srv-removable <b>/<s>]`
pub(crate) fn wait(session: &mut Session, request: &Request) -> Answer {
    let usage = || Answer::error("Usage: wait { -h | <delay> } [srv-removable <backend>/<server>]");
    let Some(delay) = delay(request.word(1)).filter(|delay| *delay <= MAX_WAIT) else { return usage() };
    match request.word(2) {
        "" => Answer::later(async move {
            tokio::time::sleep(delay).await;
            Answer::Done
        }),
        "srv-removable" => match servers::named(&session.shared, request.word(3)) {
            Ok(_) => {
                let work = removal(Arc::clone(&session.shared), delay, request.word(3).to_owned());
                Answer::later(work)
            }
            Err(refused) => refused,
        },
        "be-removable" => Answer::missing("waiting for a backend"),
        _ => usage(),
    }
}

/// Waits until a server can be removed, or is gone.
async fn removal(shared: Arc<Shared>, delay: Duration, name: String) -> Answer {
    let end = tokio::time::Instant::now() + delay;
    loop {
        let Ok(server) = servers::named(&shared, &name) else { return Answer::Done };
        match removable(&shared, &server) {
            Ok(()) => return Answer::Done,
            Err(Obstacle::Busy) if tokio::time::Instant::now() < end => {}
            Err(Obstacle::Busy) => return Answer::error("Wait delay expired."),
            Err(obstacle) => return Answer::error(obstacle.text()),
        }
        tokio::time::sleep_until(end.min(tokio::time::Instant::now() + LOOK_INTERVAL)).await;
    }
}

/// A time with its unit; milliseconds without.
fn delay(written: &str) -> Option<Duration> {
    let split = written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len());
    let number: u64 = written[..split].parse().ok()?;
    let unit_us = match &written[split..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(number.checked_mul(unit_us)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let check = |written: &str, expected: Option<u64>| {
            assert_eq!(delay(written), expected.map(Duration::from_millis), "{written}");
        };
        check("100", Some(100));
        check("2s", Some(2_000));
        check("1m", Some(60_000));
        check("", None);
        check("x", None);
        check("1y", None);
        check("99999999999999999999", None);
    }
}
