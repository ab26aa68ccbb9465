//! What the log says of a server that changed, in HAProxy's words.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_balance::{Admin, OpState, Server as Machine};
use weir_config::model::Config;

use super::status::push_quoted;
use crate::log::level;
use crate::state::{CheckReport, ServerState};

/// Why a server's state changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Check,
    Agent,
    /// A server that it tracks changed.
    Tracked,
    /// An administrator, or the configuration.
    Admin,
    /// Forced health.
    Forced,
    /// Its name has no address, and why.
    Resolution(&'static str),
}

/// A change of a server's state.
pub(super) struct Step {
    pub(super) before: Machine,
    pub(super) after: Machine,
    pub(super) cause: Cause,
}

impl Step {
    pub(super) fn is_visible(&self) -> bool {
        self.before.op() != self.after.op() || self.before.admin() != self.after.admin()
    }

    pub(super) fn went_down(&self) -> bool {
        self.before.op() != OpState::Stopped && self.after.op() == OpState::Stopped
    }

    pub(super) fn came_up(&self) -> bool {
        matches!(self.after.op(), OpState::Running | OpState::Starting)
            && !matches!(self.before.op(), OpState::Running | OpState::Starting)
    }

    fn enters_maint(&self) -> bool {
        !self.before.admin().is_maint() && self.after.admin().is_maint()
    }

    fn leaves_maint(&self) -> bool {
        self.before.admin().is_maint() && !self.after.admin().is_maint()
    }

    fn leaves_drain(&self) -> bool {
        self.before.admin().is_drain() && !self.after.admin().is_drain()
    }

    /// "left" and "online" follow on what touched the traffic, not on the end of a maintenance.
    pub(super) fn tells_what_is_left(&self) -> bool {
        if self.enters_maint() {
            return self.before.op() != OpState::Stopped;
        }
        !self.leaves_maint() && !self.leaves_drain()
    }

    /// The log's sentence without its end, and its level.
    pub(super) fn sentence(&self, config: &Config, server: &ServerState) -> Option<(u8, String)> {
        let backup = if server.config.backup { "Backup " } else { "" };
        let (level, said) = self.predicate(config, server)?;
        let resolved = self.leaves_maint() && self.before.admin().has(Admin::RESOLUTION_MAINT);
        let target = server.addr.load();
        let host = target.name.as_deref().filter(|_| resolved);
        let host = host.map_or_else(String::new, |host| format!(" ('{host}')"));
        Some((level, format!("{backup}Server {}{host} {said}", full_name(config, server))))
    }

    /// Administrative changes speak first: what they do to the operation is their doing.
    fn predicate(&self, config: &Config, server: &ServerState) -> Option<(u8, String)> {
        let (before, after) = (self.before.admin(), self.after.admin());
        let via = |flag| if after.has(flag) { via_tracked(config, server) } else { String::new() };
        if self.enters_maint() {
            let via = match self.cause {
                Cause::Resolution(why) => format!(" ({why})"),
                _ => via(Admin::INHERITED_MAINT),
            };
            return Some(match self.before.op() {
                OpState::Stopped => (level::NOTICE, format!("was DOWN and now enters maintenance{via}")),
                _ => (self.alert(), format!("is going DOWN for maintenance{via}")),
            });
        }
        if self.leaves_maint() {
            let ready = if after.is_drain() { "DRAIN" } else { "READY" };
            return Some((level::NOTICE, format!("is {}/{ready} ({})", self.up_or_down(), left(before))));
        }
        if after.is_maint() {
            return (before != after).then(|| (level::NOTICE, "remains in forced maintenance".to_owned()));
        }
        if before.is_drain() != after.is_drain() {
            return Some(match after.is_drain() {
                true => (level::NOTICE, format!("enters drain state{}", via(Admin::INHERITED_DRAIN))),
                false => (level::NOTICE, format!("is {} (leaving forced drain)", self.up_or_down())),
            });
        }
        let (level, word) = match (self.before.op(), self.after.op()) {
            (_, OpState::Stopped) => (self.alert(), "DOWN"),
            (_, OpState::Stopping) => (level::NOTICE, "stopping"),
            // The end of a slow start is nobody's news.
            (OpState::Starting | OpState::Running, OpState::Starting | OpState::Running) => return None,
            (_, OpState::Starting | OpState::Running) => (level::NOTICE, "UP"),
        };
        let mut text = format!("is {word}");
        self.push_cause(&mut text, config, server);
        Some((level, text))
    }

    fn up_or_down(&self) -> &'static str {
        if self.after.op() == OpState::Stopped { "DOWN" } else { "UP" }
    }

    /// The end of a server that had asked for no new sessions is no surprise.
    fn alert(&self) -> u8 {
        if self.before.op() == OpState::Stopping { level::NOTICE } else { level::ALERT }
    }

    fn push_cause(&self, text: &mut String, config: &Config, server: &ServerState) {
        // With `log-health-checks` the check's own line has told the reason.
        let told = config.proxies[server.proxy].options.log_health_checks;
        match self.cause {
            Cause::Tracked => text.push_str(&via_tracked(config, server)),
            Cause::Check if !told => push_report(text, &report(&server.check)),
            Cause::Agent if !told => push_report(text, &report(&server.agent)),
            Cause::Forced => text.push_str(", changed from CLI"),
            Cause::Check | Cause::Agent | Cause::Admin | Cause::Resolution(_) => {}
        }
    }
}

/// Which maintenance it was.
fn left(before: Admin) -> &'static str {
    if before.has(Admin::RESOLUTION_MAINT) {
        return "resolves again";
    }
    if before.has(Admin::INHERITED_MAINT) { "leaving maintenance" } else { "leaving forced maintenance" }
}

/// `backend/server`
pub(super) fn full_name(config: &Config, server: &ServerState) -> String {
    format!("{}/{}", config.proxies[server.proxy].name, server.config.name)
}

/// ` via backend/server` of a server that tracks another one.
fn via_tracked(config: &Config, server: &ServerState) -> String {
    server.tracked().map_or_else(String::new, |tracked| format!(" via {}", full_name(config, &tracked)))
}

fn report(kept: &Mutex<CheckReport>) -> MutexGuard<'_, CheckReport> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `, reason: Layer7 wrong status, code: 503, info: "...", check duration: 1ms`
pub(super) fn push_report(text: &mut String, report: &CheckReport) {
    // Writing to memory cannot fail.
    let _written = write!(text, ", reason: {}", report.status.description());
    if report.status.has_code() {
        let _written = write!(text, ", code: {}", report.code);
    }
    if !report.description.is_empty() {
        text.push_str(", info: \"");
        push_quoted(text, &report.description);
        text.push('"');
    }
    if let Some(duration_ms) = report.duration_ms {
        let _written = write!(text, ", check duration: {duration_ms}ms");
    }
}

/// What the change leaves to the backend.
pub(super) fn push_what_is_left(text: &mut String, server: &ServerState, step: &Step, requeued: usize) {
    let farm = &server.farm;
    let (active, backups) = (farm.active.load(Relaxed), farm.backups.load(Relaxed));
    let running_on_backup = if active == 0 && backups > 0 { " Running on backup." } else { "" };
    let queued = server.queue.len();
    let _written = match step.after.op() {
        OpState::Stopped => write!(
            text,
            ". {active} active and {backups} backup servers left.{running_on_backup} {} sessions active, \
             {requeued} requeued, {queued} remaining in queue",
            server.served.now()
        ),
        _ => write!(
            text,
            ". {active} active and {backups} backup servers online.{running_on_backup} {requeued} sessions \
             requeued, {queued} total in queue"
        ),
    };
}
