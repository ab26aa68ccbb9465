//! A finished check: kept for the statistics, counted, logged, and handed to the server's state machine.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::{CheckResult, Health, Server as Machine};

use super::standing::{Cause, full_name, push_report};
use super::status::{Outcome, result_number};
use crate::counters::Counter;
use crate::log::level;
use crate::state::{CheckReport, ServerState, Shared};

/// A health check is over.
pub(super) fn check(shared: &Shared, server: &Arc<ServerState>, outcome: Outcome, duration_ms: u64) {
    let Some(result) = outcome.status.result() else { return };
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
    if options.log_health_checks && (moved || status_before != report.status) {
        let text = sentence(shared, server, of_agent, &report, after);
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
