//! Commands about the connection itself: its rights, its prompt, its time limit.

use std::fmt::Write as _;
use std::time::Duration;

use weir_config::model::{AdminLevel, BindAddr};

use super::{Answer, Mode, Request, Session, command};

/// Longest time a connection may ask for: a day.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// `operator`
pub(crate) fn operator(session: &mut Session, _: &Request) -> Answer {
    lower(session, AdminLevel::Operator)
}

/// `user`
pub(crate) fn user(session: &mut Session, _: &Request) -> Answer {
    lower(session, AdminLevel::User)
}

fn lower(session: &mut Session, level: AdminLevel) -> Answer {
    session.level = level;
    session.expert = false;
    session.experimental = false;
    Answer::Done
}

/// `show cli level`
pub(crate) fn show_level(session: &mut Session, _: &Request) -> Answer {
    Answer::info(level_name(session.level))
}

fn level_name(level: AdminLevel) -> &'static str {
    match level {
        AdminLevel::User => "user",
        AdminLevel::Operator => "operator",
        AdminLevel::Admin => "admin",
    }
}

/// `show cli sockets`
pub(crate) fn show_sockets(session: &mut Session, _: &Request) -> Answer {
    let mut text = "# socket lvl processes\n".to_owned();
    for bind in &session.shared.config.global.stats_sockets {
        let address = match &bind.addr {
            BindAddr::Unix(path) => format!("unix@{}", path.display()),
            BindAddr::Abstract(name) => format!("abns@{}", String::from_utf8_lossy(name)),
            BindAddr::Inet(ip) if ip.is_ipv4() => format!("ipv4@{ip}"),
            BindAddr::Inet(ip) => format!("ipv6@{ip}"),
            BindAddr::Fd(number) => format!("fd@{number}"),
            BindAddr::Name(name, port) => format!("{name}:{port}"),
            BindAddr::Reverse(_) => continue,
        };
        // Writing to memory cannot fail.
        writeln!(text, "{address} {} all", level_name(bind.level)).unwrap_or_default();
    }
    Answer::Data(text)
}

/// `prompt`
pub(crate) fn prompt(session: &mut Session, request: &Request) -> Answer {
    if request.words.len() == 1 {
        session.mode = if session.mode == Mode::Prompt { Mode::Single } else { Mode::Prompt };
        return Answer::Done;
    }
    for word in &request.words[1..] {
        match word.as_str() {
            "n" => session.mode = Mode::Single,
            "i" => session.mode = Mode::Interactive,
            "p" => session.mode = Mode::Prompt,
            "timed" => {
                session.timed = !session.timed;
                session.mode = Mode::Prompt;
            }
            _ => return Answer::info("Usage: prompt [help | n | i | p | timed]*"),
        }
    }
    Answer::Done
}

/// `quit`
pub(crate) fn quit(_: &mut Session, _: &Request) -> Answer {
    Answer::Quit
}

/// `set timeout cli <delay>`
pub(crate) fn timeout(session: &mut Session, request: &Request) -> Answer {
    if request.word(2) != "cli" {
        return Answer::error("'set timeout' only supports 'cli'.");
    }
    if request.word(3).is_empty() {
        return Answer::error("Expects an integer value.");
    }
    match request.word(3).trim_end_matches('s').parse::<u64>() {
        Ok(seconds) if (1..=MAX_TIMEOUT_SECONDS).contains(&seconds) => {
            session.timeout = Duration::from_secs(seconds);
            Answer::Done
        }
        _ => Answer::error("Invalid timeout value."),
    }
}

/// `set severity-output`
pub(crate) fn severity_output(session: &mut Session, request: &Request) -> Answer {
    match command::severity_named(request.word(2)) {
        Some(output) => {
            session.severity = output;
            Answer::Done
        }
        None => Answer::error("one of 'none', 'number', 'string' is a required argument"),
    }
}

/// `expert-mode`
pub(crate) fn expert_mode(session: &mut Session, request: &Request) -> Answer {
    switch("expert-mode", &mut session.expert, request)
}

/// `experimental-mode`
pub(crate) fn experimental_mode(session: &mut Session, request: &Request) -> Answer {
    switch("experimental-mode", &mut session.experimental, request)
}

fn switch(name: &str, on: &mut bool, request: &Request) -> Answer {
    if request.word(1).is_empty() {
        return Answer::info(format!("{name} is {}", if *on { "ON" } else { "OFF" }));
    }
    *on = request.word(1) == "on";
    Answer::Done
}
