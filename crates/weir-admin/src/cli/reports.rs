//! Commands that report: figures, statistics, lists of servers.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::OpState;
use weir_config::model::{AdminLevel, Proxy, ServerAddr};
use weir_proxy::Shared;
use weir_proxy::state::ServerState;

use super::{Answer, Request, Session, resolvers, server};
use crate::info::About;
use crate::object::{self, Filter, Now};
use crate::report::{self, Layout, Style};

/// The words of a report's style; others are left to the command.
fn style(words: &[String]) -> Style {
    let mut style = Style::default();
    for word in words {
        match word.as_str() {
            "typed" => style.layout = Layout::Typed,
            "json" => style.layout = Layout::Json,
            "desc" => style.describe = true,
            _ => {}
        }
    }
    style
}

/// `show info`
pub(crate) fn info(session: &mut Session, request: &Request) -> Answer {
    let shared = &session.shared;
    let about = About { shared, version: &session.version, now: Now::of(shared) };
    Answer::Data(report::process(&about, style(&request.words)))
}

/// `dump stats-file`
pub(crate) fn stats_file(session: &mut Session, _: &Request) -> Answer {
    Answer::Data(weir_proxy::control::stats_file::dump(&session.shared))
}

/// `show stat [domain proxy] [<iid>|<proxy> <type> <sid>] [words]`
pub(crate) fn statistics(session: &mut Session, request: &Request) -> Answer {
    let mut words = &request.words[2..];
    if words.first().is_some_and(|word| word == "domain") {
        match words.get(1).map(String::as_str) {
            Some("proxy") => words = &words[2..],
            Some("resolvers") if words.iter().any(|word| word == "typed" || word == "json") => {
                return Answer::missing("this layout of the statistics of resolvers");
            }
            Some("resolvers") => return resolvers::statistics(session),
            _ => return Answer::error("Invalid statistics domain."),
        }
    }
    let mut filter = Filter::default();
    if let [proxy, kinds, part, ..] = words
        && let (Ok(kinds), Ok(part)) = (kinds.parse::<i64>(), part.parse::<i64>())
    {
        let named = session.shared.config.proxies.iter().find(|p| *p.name == **proxy);
        // HAProxy reads a word that is no number as 0, which is no proxy's.
        let number = named.map_or_else(|| proxy.parse().unwrap_or(0), |p| i64::from(p.id));
        filter.proxy = Some(number).filter(|number| *number != -1);
        filter.kinds = Some(kinds).filter(|kinds| *kinds != -1);
        filter.part = Some(part).filter(|part| *part != -1);
    }
    filter.up = words.iter().any(|word| word == "up");
    filter.no_maint = words.iter().any(|word| word == "no-maint");
    let legends = session.level >= AdminLevel::Operator;
    Answer::Data(report::statistics(&object::objects(&session.shared, &filter, legends), style(words)))
}

/// `show schema json`
pub(crate) fn schema(_: &mut Session, _: &Request) -> Answer {
    Answer::Data(report::SCHEMA.to_owned())
}

/// `show backend`
pub(crate) fn backends(session: &mut Session, _: &Request) -> Answer {
    let mut text = "# name\n".to_owned();
    for proxy in session.shared.config.proxies.iter().filter(|p| p.backend) {
        text.push_str(&proxy.name);
        text.push('\n');
    }
    Answer::Data(text)
}

/// The backends that a word names: one, or all without a word.
fn chosen(shared: &Shared, word: &str) -> Result<Vec<usize>, Answer> {
    if word.is_empty() {
        let all = shared.config.proxies.iter().enumerate().filter(|(_, p)| p.backend);
        return Ok(all.map(|(index, _)| index).collect());
    }
    let found = server::backend_named(shared, word);
    found.map(|index| vec![index]).ok_or_else(|| Answer::error("Can't find backend."))
}

/// Columns of `show servers state`, version 1 of its layout.
const STATE_COLUMNS: &str = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight \
     srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
     srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port \
     srv_check_addr srv_agent_addr srv_agent_port";

/// `show servers state [<backend>]`
pub(crate) fn server_states(session: &mut Session, request: &Request) -> Answer {
    let shared = &session.shared;
    let chosen = match chosen(shared, request.word(3)) {
        Ok(chosen) => chosen,
        Err(refused) => return refused,
    };
    let now = Now::of(shared);
    let mut text = format!("1\n{STATE_COLUMNS}\n");
    for index in chosen {
        let proxy = &shared.config.proxies[index];
        for server in shared.proxies[index].servers.load().iter() {
            server_state(proxy, server, now, &mut text);
        }
    }
    Answer::Data(text)
}

fn server_state(proxy: &Proxy, server: &ServerState, now: Now, text: &mut String) {
    let target = server.addr.load();
    let (address, port) = match target.ip() {
        Some(ip) => (ip.ip().to_string(), ip.port()),
        None => match &server.config.addr {
            ServerAddr::Name(_, port) => ("-".to_owned(), *port),
            _ => ("-".to_owned(), 0),
        },
    };
    let label = match (&server.config.resolvers, &server.config.addr) {
        (Some(_), ServerAddr::Name(name, _)) if name.starts_with('_') => Some(name.as_str()),
        _ => None,
    };
    let agent = server.standing.agent_target();
    let report = server.check.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let machine = server.standing();
    let unchecked = u32::from(machine.op() != OpState::Stopped);
    let health = machine.health.map_or(unchecked, |health| health.counter());
    let shown = |addr: Option<IpAddr>| addr.map_or_else(|| "-".to_owned(), |addr| addr.to_string());
    let check = server.standing.check_target();
    // Writing to memory cannot fail.
    writeln!(
        text,
        "{} {} {} {} {address} {} {} {} {} {} {} {} {} {} {} 0 0 {} {port} {} {} {} {} {} {}",
        proxy.id,
        proxy.name,
        server.config.id,
        server.config.name,
        machine.op() as u8,
        machine.admin().0,
        server.weight.load(Relaxed),
        server.config.weight,
        now.seconds_since(server.last_change_ms.load(Relaxed)),
        report.status as u8,
        report.result,
        if machine.admin().is_maint() { 0 } else { health },
        server.check_state(),
        server.agent_state(),
        target.name.as_deref().unwrap_or("-"),
        label.unwrap_or("-"),
        server.tls_switch(),
        check.port.unwrap_or(0),
        shown(check.addr),
        shown(agent.addr),
        agent.port.unwrap_or(0),
    )
    .unwrap_or_default();
}

/// `show servers conn [<backend>]`
pub(crate) fn server_connections(session: &mut Session, request: &Request) -> Answer {
    let shared = &session.shared;
    let chosen = match chosen(shared, request.word(3)) {
        Ok(chosen) => chosen,
        Err(refused) => return refused,
    };
    let mut text = "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max need_est \
         idle_sess unsafe_nb safe_nb idle_lim idle_cur\n"
        .to_owned();
    for index in chosen {
        let proxy = &shared.config.proxies[index];
        for server in shared.proxies[index].servers.load().iter() {
            let (address, port) = match server.addr.load().ip() {
                Some(ip) => (ip.ip().to_string(), ip.port()),
                None => ("-".to_owned(), 0),
            };
            let (used, idle) = (server.served.now().max(0), server.idle.load(Relaxed));
            let limit =
                server.config.pool_max_conn.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
            // Writing to memory cannot fail.
            writeln!(
                text,
                "{}/{} {}/{} {address} {port} - {} {} {used} {} {used} 0 {idle} 0 {limit} {idle}",
                proxy.name,
                server.config.name,
                proxy.id,
                server.config.id,
                server.config.pool_purge_delay.as_millis(),
                server.served.now().max(0),
                server.served.max(),
            )
            .unwrap_or_default();
        }
    }
    Answer::Data(text)
}
