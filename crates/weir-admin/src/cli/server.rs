//! Commands about a server: its state, weight, address, checks, sessions.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::Admin;
use weir_net::Address;
use weir_proxy::Shared;
use weir_proxy::control::check::Target;
use weir_proxy::state::{ServerState, ServerTarget};

use super::{Answer, Request, Session, Severity};
use crate::change::{self, Wish};

/// The words after `set server <b>/<s>`.
const SETTINGS: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | \
     check-addr | check-port | fqdn | health | ssl | state | weight";

/// The server that a word names: `backend/server`, each by name or `#number`.
pub(crate) fn named(shared: &Shared, word: &str) -> Result<Arc<ServerState>, Answer> {
    let Some((backend, server)) = word.split_once('/') else {
        return Err(Answer::error("Require 'backend/server'."));
    };
    let index = backend_named(shared, backend).ok_or_else(|| Answer::error("No such backend."))?;
    let servers = shared.proxies[index].servers.load();
    let found = servers.iter().find(|s| match server.strip_prefix('#') {
        Some(number) => number.parse() == Ok(s.config.id),
        None => *s.config.name == *server,
    });
    found.cloned().ok_or_else(|| Answer::error("No such server."))
}

/// The backend of a name or `#number`.
pub(crate) fn backend_named(shared: &Shared, word: &str) -> Option<usize> {
    match word.strip_prefix('#') {
        Some(number) => {
            let number: u32 = number.parse().ok()?;
            shared.config.proxies.iter().position(|p| p.backend && p.id == number)
        }
        None => shared.proxy_index(word, true),
    }
}

type Outcome = Result<Answer, Answer>;

fn either(outcome: Outcome) -> Answer {
    outcome.unwrap_or_else(|refused| refused)
}

/// `set server <b>/<s> ...`
pub(crate) fn set(session: &mut Session, request: &Request) -> Answer {
    either(try_set(session, request))
}

fn try_set(session: &Session, request: &Request) -> Outcome {
    let shared = &session.shared;
    let server = named(shared, request.word(2))?;
    let value = request.word(4);
    match request.word(3) {
        "weight" if value.is_empty() => Err(Answer::error("Require <weight> or <weight%>.")),
        "weight" => weigh(shared, &server, value),
        "state" => state(shared, &server, value),
        "health" => health(shared, &server, value),
        "addr" => address(&server, request),
        "agent" | "agent-send" if server.config.agent_check.is_none() => {
            Err(Answer::error("agent checks are not enabled on this server."))
        }
        "agent" => agent(shared, &server, value),
        "agent-addr" | "agent-port" if server.config.agent_check.is_none() => {
            Err(Answer::error("agent checks are not enabled on this server"))
        }
        "agent-send" => {
            server.standing.set_agent_send(value.as_bytes().to_vec());
            Ok(Answer::Done)
        }
        "agent-addr" | "agent-port" => agent_target(&server, request),
        "check-addr" | "check-port" if server.config.check.is_none() => {
            Err(Answer::error("health checks are not enabled on this server"))
        }
        "check-addr" if value.is_empty() => {
            Err(Answer::error("set server <b>/<s> check-addr requires an address."))
        }
        "check-port" if value.is_empty() => {
            Err(Answer::error("set server <b>/<s> check-port requires a port."))
        }
        "check-addr" | "check-port" => check_target(&server, request),
        "fqdn" if value.is_empty() => Err(Answer::error("set server <b>/<s> fqdn requires a FQDN.")),
        "fqdn" if server.config.resolvers.is_none() => {
            Err(Answer::error("set server <b>/<s> fqdn failed because no resolution is configured."))
        }
        "ssl" if !server.config.ssl_possible => Err(Answer::error(
            "'set server <srv> ssl' cannot be set.  default-server should define ssl settings",
        )),
        "ssl" => tls(shared, &server, value),
        "fqdn" if server.config.is_service() => {
            Err(Answer::error("set server <b>/<s> fqdn failed because SRV resolution is configured."))
        }
        "fqdn" => rename(shared, &server, value),
        "name" => Err(Answer::missing(request.word(3))),
        _ => Err(Answer::error(SETTINGS)),
    }
}

fn weigh(shared: &Shared, server: &Arc<ServerState>, written: &str) -> Outcome {
    change::set_weight(shared, server, written).map_err(Answer::error)?;
    Ok(Answer::Done)
}

fn state(shared: &Shared, server: &Arc<ServerState>, wanted: &str) -> Outcome {
    let wish = match wanted {
        "ready" => Wish::Ready,
        "drain" => Wish::Drain,
        "maint" => Wish::Maintenance,
        _ => return Err(Answer::error("'set server <srv> state' expects 'ready', 'drain' and 'maint'.")),
    };
    change::wish(shared, server, wish);
    Ok(Answer::Done)
}

fn health(shared: &Shared, server: &Arc<ServerState>, wanted: &str) -> Outcome {
    if server.config.track.is_some() {
        return Err(Answer::error("cannot change health on a tracking server."));
    }
    let up = match wanted {
        "up" => Some(true),
        "stopping" => None,
        "down" => Some(false),
        _ => {
            return Err(Answer::error("'set server <srv> health' expects 'up', 'stopping', or 'down'."));
        }
    };
    shared.force_health(server, up);
    Ok(Answer::Done)
}

fn agent(shared: &Shared, server: &Arc<ServerState>, wanted: &str) -> Outcome {
    let up = match wanted {
        "up" => true,
        "down" => false,
        _ => return Err(Answer::error("'set server <srv> agent' expects 'up' or 'down'.")),
    };
    shared.force_agent(server, up);
    Ok(Answer::Done)
}

/// `check-addr <ip> [port <port>]`, `check-port <port>`
fn check_target(server: &ServerState, request: &Request) -> Outcome {
    server.standing.set_check_target(target(server.standing.check_target(), request)?);
    Ok(Answer::Done)
}

/// `agent-addr <ip> [port <port>]`, `agent-port <port>`
fn agent_target(server: &ServerState, request: &Request) -> Outcome {
    server.standing.set_agent_target(target(server.standing.agent_target(), request)?);
    Ok(Answer::Done)
}

/// Where checks go after this request.
fn target(mut target: Target, request: &Request) -> Result<Target, Answer> {
    let value = request.word(4);
    let port = |word: &str| match word.parse::<u16>() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(Answer::error(format!("Invalid port '{word}' by 'stats socket command'"))),
    };
    if request.word(3).ends_with("-port") {
        target.port = port(value)?;
        return Ok(target);
    }
    let addr =
        value.parse().map_err(|_| Answer::error(format!("Invalid addr '{value}' by 'stats socket command'")));
    target.addr = Some(addr?);
    if request.word(5) == "port" {
        target.port = port(request.word(6))?;
    }
    Ok(target)
}

/// `addr <ip> [port <port>]`: the new address is used by the next connection.
fn address(server: &Arc<ServerState>, request: &Request) -> Outcome {
    let refuse = |text: String| Err(Answer::error(text));
    let (written, port) = (request.word(4), request.word(6));
    if written.is_empty() || (request.words.len() > 5 && (request.word(5) != "port" || port.is_empty())) {
        return refuse("set server <b>/<s> addr requires an address and optionally a port.".to_owned());
    }
    let Ok(ip) = written.parse::<IpAddr>() else {
        return refuse(format!("Invalid addr '{written}' by 'stats socket command'"));
    };
    if port.starts_with(['+', '-']) {
        return Err(Answer::missing("changing the port mapping"));
    }
    let current = server.addr.load();
    let old = current.ip();
    let old_port = old.map_or(0, |old| old.port());
    let new_port = match port {
        "" => old_port,
        written => match written.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return refuse(format!("Invalid port '{written}' by 'stats socket command'")),
        },
    };
    let mut said = Vec::new();
    match old {
        Some(old) if old.ip() == ip => said.push("no need to change the addr".to_owned()),
        Some(old) => said.push(format!("IP changed from '{}' to '{ip}'", old.ip())),
        None => said.push(format!("IP changed from '(none)' to '{ip}'")),
    }
    match port {
        "" => {}
        _ if new_port == old_port => said.push("no need to change the port".to_owned()),
        _ => said.push(format!("port changed from '{old_port}' to '{new_port}'")),
    }
    let new = SocketAddr::new(ip, new_port);
    if old != Some(new) {
        let name = current.name.clone();
        server.set_target(ServerTarget { address: Some(Address::Ip(new)), name });
    }
    Ok(Answer::Message(Severity::Warning, format!("{} by 'stats socket command'", said.join(", "))))
}

/// `ssl on|off`
fn tls(shared: &Shared, server: &ServerState, wanted: &str) -> Outcome {
    let on = match wanted {
        "on" => true,
        "off" => false,
        _ => return Err(Answer::error("'set server <srv> ssl' expects 'on' or 'off'.")),
    };
    shared.set_tls(server, on).map_err(Answer::error)?;
    Ok(Answer::Message(Severity::Warning, "server ssl setting updated.".to_owned()))
}

/// `fqdn <name>`: the section's name servers are asked for it from now on; until they answer, the address stays.
fn rename(shared: &Shared, server: &Arc<ServerState>, name: &str) -> Outcome {
    let by =
        |text: String| Ok(Answer::Message(Severity::Warning, format!("{text} by 'stats socket command'")));
    let current = server.addr.load_full();
    if current.name.as_deref().is_some_and(|old| old.eq_ignore_ascii_case(name)) {
        return by("no need to change the FDQN".to_owned());
    }
    let old = current.name.as_deref().unwrap_or("(null)");
    let backend = &shared.config.proxies[server.proxy].name;
    let text = format!("{backend}/{} changed its FQDN from {old} to {name}", server.config.name);
    server.set_target(ServerTarget { address: current.address.clone(), name: Some(name.to_owned()) });
    shared.dns.follow(server);
    by(text)
}

/// `get weight <b>/<s>`
pub(crate) fn get_weight(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).map(|server| {
        let (now, initial) = (server.weight.load(Relaxed), server.config.weight);
        Answer::info(format!("{now} (initial {initial})"))
    }))
}

/// `set weight <b>/<s> <weight>`
pub(crate) fn set_weight(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).and_then(|server| match request.word(3) {
        "" => Err(Answer::error("Require <weight> or <weight%>.")),
        written => weigh(&session.shared, &server, written),
    }))
}

/// `enable server <b>/<s>`: out of maintenance; a drain stays.
pub(crate) fn enable(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).map(|server| {
        session.shared.set_admin(&server, Admin::FORCED_MAINT, false);
        Answer::Done
    }))
}

/// `disable server <b>/<s>`
pub(crate) fn disable(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).map(|server| {
        change::wish(&session.shared, &server, Wish::Maintenance);
        Answer::Done
    }))
}

/// `enable health <b>/<s>`
pub(crate) fn enable_health(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).and_then(|server| match server.config.check {
        Some(_) => {
            session.shared.enable_check(&server, true);
            Ok(Answer::Done)
        }
        None => Err(Answer::error("Health check was not configured on this server, cannot enable.")),
    }))
}

/// `disable health <b>/<s>`
pub(crate) fn disable_health(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).map(|server| {
        session.shared.enable_check(&server, false);
        Answer::Done
    }))
}

/// `enable agent <b>/<s>`
pub(crate) fn enable_agent(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).and_then(|server| match server.config.agent_check {
        Some(_) => {
            session.shared.enable_agent(&server, true);
            Ok(Answer::Done)
        }
        None => Err(Answer::error("Agent was not configured on this server, cannot enable.")),
    }))
}

/// `disable agent <b>/<s>`
pub(crate) fn disable_agent(session: &mut Session, request: &Request) -> Answer {
    either(named(&session.shared, request.word(2)).map(|server| {
        session.shared.enable_agent(&server, false);
        Answer::Done
    }))
}
