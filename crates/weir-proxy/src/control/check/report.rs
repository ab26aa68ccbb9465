//! A finished check: kept for the statistics, counted, logged, and handed to the server's state machine.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::{CheckResult, Health, Server as Machine};

use super::sentence::{Cause, full_name, push_report};
use super::status::{Outcome, Status, result_number};
use crate::log::level;
use crate::state::counters::Counter;
use crate::state::{CheckReport, ServerState, Shared};

/// A health check is over.
pub(super) fn check(shared: &Shared, server: &Arc<ServerState>, outcome: Outcome, duration_ms: u64) {
    let Some(result) = outcome.status.result() else { return };
    // Manual, section 5.3.1: perhaps it is somewhere else now.
    if let (Status::L4Timeout, Some(resolve_soon)) = (outcome.status, server.resolve_soon.get()) {
        resolve_soon.notify_one();
    }
    if result != CheckResult::Failed {
        server.observed_errors.store(0, Relaxed);
    }
    conclude(shared, server, Cause::Check, outcome, Some(duration_ms), |machine, now| {
        machine.report_check(result, now);
    });
}

/// An agent check is over; `result` is neutral when the agent said nothing of the server's health, or could
/// not be asked.
pub(super) fn agent(
    shared: &Shared,
    server: &Arc<ServerState>,
    outcome: Outcome,
    result: CheckResult,
    duration_ms: u64,
) {
    conclude(shared, server, Cause::Agent, outcome, Some(duration_ms), |machine, now| {
        machine.report_agent(result, now);
    });
}

/// Keeps the outcome, changes the machine, and tells: first of the check, then of the server.
pub(super) fn conclude(
    shared: &Shared,
    server: &Arc<ServerState>,
    cause: Cause,
    outcome: Outcome,
    duration_ms: Option<u64>,
    change: impl FnOnce(&mut Machine, u64),
) {
    let step = shared.step(server, cause, change);
    let of_agent = cause == Cause::Agent;
    let pick = |machine: &Machine| if of_agent { machine.agent } else { machine.health };
    let (before, after) = (pick(&step.before), pick(&step.after));
    let moved = before.map(|health| health.counter()) != after.map(|health| health.counter());
    let result = outcome.status.result();
    if moved && result == Some(CheckResult::Failed) {
        // Checks of a server follow one another: there is one writer at a time.
        server.counters.add(0, Counter::FailedChecks, 1);
    }
    let kept = if of_agent { &server.agent } else { &server.check };
    let mut report = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let status_before = report.status;
    *report = CheckReport {
        status: outcome.status,
        code: outcome.code,
        duration_ms,
        description: outcome.description,
        result: result_number(result),
    };
    let options = &shared.config.proxies[server.proxy].options;
    let says_something = result != Some(CheckResult::Neutral);
    if options.log_health_checks && says_something && (moved || status_before != report.status) {
        let text = sentence(shared, server, of_agent, &report, after);
        // Manual, `email-alert level`: mails of single checks are for those who want everything.
        shared.mail(server, level::INFO, text.trim_end_matches('.'));
        shared.checks.log(server.proxy, level::NOTICE, text);
    }
    drop(report);
    shared.take_effect(server, &step, 0);
}

/// `Health check for server be/srv failed, reason: ..., status: 0/2 DOWN.`
fn sentence(
    shared: &Shared,
    server: &ServerState,
    of_agent: bool,
    report: &CheckReport,
    health: Option<Health>,
) -> String {
    let kind = if of_agent { "Agent" } else { "Health" };
    let backup = if server.config.backup { "backup " } else { "" };
    let name = full_name(&shared.config, server);
    let ended = match report.status.result() {
        Some(CheckResult::Passed) => "succeeded",
        Some(CheckResult::ConditionallyPassed) => "conditionally succeeded",
        _ => "failed",
    };
    let mut text = format!("{kind} check for {backup}server {name} {ended}");
    push_report(&mut text, report);
    if let Some(health) = health {
        let (have, want) = health.progress();
        let state = match (health.is_up(), server.weight.load(Relaxed)) {
            (false, _) => "DOWN",
            (true, 0) => "DRAIN",
            (true, _) => "UP",
        };
        // Writing to memory cannot fail.
        let _written = write!(text, ", status: {have}/{want} {state}");
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::check::{Notice, take};
    use weir_config::model::{CheckStatus, Config};

    const FARM: &str = "
backend be
 option httpchk
 server a 192.0.2.1:80 check fall 2
 server b 192.0.2.2:80 backup
backend told
 option log-health-checks
 server a 192.0.2.1:80 check rise 1 fall 1
listen follower
 server t 192.0.2.3:80 track be/a
";

    /// Does what a line of words says and tells what was logged, level first.
    fn logged(config: &str, acts: &str) -> String {
        let config: Config = weir_config::load_str("test", config).unwrap().config;
        let shared = Shared::new(Arc::new(config), 1, "host".into());
        assert!(crate::control::check::prepare(&shared).is_empty());
        for act in acts.split_whitespace() {
            let (name, act) = act.split_once('=').unwrap();
            let (proxy, server) = name.split_once('/').unwrap();
            let at = shared.proxy_index(proxy, true).unwrap();
            let server = shared.proxies[at].server(server).unwrap();
            match act {
                "maint" => shared.set_maint(&server),
                "drain" => shared.set_drain(&server),
                "ready" => shared.set_ready(&server),
                "down" => shared.force_health(&server, Some(false)),
                status => {
                    let (_, status) = CheckStatus::NAMES.iter().find(|(name, _)| *name == status).unwrap();
                    let outcome = Outcome::new(Status::from(*status), "why").with_code(503);
                    check(&shared, &server, outcome, 7);
                }
            }
        }
        let mut notices = take(&shared.checks.notices_end).unwrap();
        let mut lines = String::new();
        while let Ok(Notice { level, text, .. }) = notices.try_recv() {
            lines += &format!("{level} {text}\n");
        }
        lines
    }

    fn test(acts: &str, expected: &[&str]) {
        assert_eq!(logged(FARM, acts).trim_end().split('\n').collect::<Vec<_>>(), expected, "{acts}");
    }

    #[test]
    fn checks_take_servers_down_and_up() {
        test(
            "be/a=L7OK be/a=L7STS be/a=L7STS",
            &[
                "1 Server be/a is DOWN, reason: Layer7 wrong status, code: 503, info: \"why\", check duration: \
                 7ms. 0 active and 1 backup servers left. Running on backup. 0 sessions active, 0 requeued, \
                 0 remaining in queue.",
                "1 Server follower/t is DOWN via be/a. 0 active and 0 backup servers left. 0 sessions active, \
                 0 requeued, 0 remaining in queue.",
                "0 proxy follower has no server available!",
            ],
        );
        test(
            "told/a=L4CON told/a=L4CON told/a=L4OK",
            &[
                "5 Health check for server told/a failed, reason: Layer4 connection problem, info: \"why\", check \
                 duration: 7ms, status: 0/1 DOWN.",
                "1 Server told/a is DOWN. 0 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 \
                 remaining in queue.",
                "0 backend told has no server available!",
                "5 Health check for server told/a succeeded, reason: Layer4 check passed, info: \"why\", check \
                 duration: 7ms, status: 1/1 UP.",
                "5 Server told/a is UP. 1 active and 0 backup servers online. 0 sessions requeued, 0 total in \
                 queue.",
            ],
        );
        test(
            "be/a=L7OK be/a=L7OKC",
            &[
                "5 Server be/a is stopping, reason: Layer7 check conditionally passed, code: 503, info: \"why\", \
                 check duration: 7ms. 0 active and 1 backup servers online. Running on backup. 0 sessions \
                 requeued, 0 total in queue.",
                "5 Server follower/t is stopping via be/a. 0 active and 0 backup servers online. 0 sessions \
                 requeued, 0 total in queue.",
                "0 proxy follower has no server available!",
            ],
        );
    }

    #[test]
    fn administrators_take_servers_out() {
        test(
            "told/a=maint told/a=ready",
            &[
                "1 Server told/a is going DOWN for maintenance. 0 active and 0 backup servers left. 0 sessions \
                 active, 0 requeued, 0 remaining in queue.",
                "0 backend told has no server available!",
                "5 Server told/a is UP/READY (leaving forced maintenance).",
            ],
        );
        test(
            "told/a=drain told/a=ready",
            &[
                "5 Server told/a enters drain state. 0 active and 0 backup servers online. 0 sessions requeued, \
                 0 total in queue.",
                "0 backend told has no server available!",
                "5 Server told/a is UP (leaving forced drain).",
            ],
        );
        test(
            "be/b=maint be/b=drain",
            &[
                "1 Backup Server be/b is going DOWN for maintenance. 1 active and 0 backup servers left. 0 \
                 sessions active, 0 requeued, 0 remaining in queue.",
                "5 Backup Server be/b is UP/DRAIN (leaving forced maintenance).",
            ],
        );
    }

    #[test]
    fn the_first_failure_takes_down_and_is_counted_once() {
        let config: Config = weir_config::load_str("test", FARM).unwrap().config;
        let shared = Shared::new(Arc::new(config), 1, "host".into());
        let server = shared.proxies[0].server("a").unwrap();
        for _ in 0..3 {
            check(&shared, &server, Outcome::new(Status::L4Timeout, ""), 1);
        }
        assert_eq!(server.counters.sum(Counter::FailedChecks), 1);
        assert_eq!(server.counters.sum(Counter::DownTransitions), 1);
        assert_eq!(server.check.lock().unwrap().status.name(), "L4TOUT");
        assert_eq!(server.standing().status().to_string(), "DOWN");
    }
}
