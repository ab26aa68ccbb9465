//! How a server stands: its state machine, and every change of it with what follows from it.
//!
//! Owns the order of effects (publish, count, log, end sessions, tell those who track); leaves the decisions
//! to `weir-balance` and what a change means for requests to [`ServerState::changed`].

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use weir_balance::{Admin, CheckSettings, InitState, OpState, Server as Machine};
use weir_config::model::{self, OnMarkedDown, OnMarkedUp};

use super::Notice;
use super::sentence::{Cause, Step, full_name, push_what_is_left};
use crate::exchange::running::End;
use crate::log::level;
use crate::state::counters::Counter;
use crate::state::{Health, ServerState, Shared};

/// Longest chain of servers that track each other.
const MAX_TRACK_DEPTH: usize = 64;

/// What the health side keeps of a server.
pub struct Standing {
    machine: Mutex<Machine>,
    /// Servers that follow this one (`track`).
    followers: Mutex<Vec<Weak<ServerState>>>,
    /// The server this one follows.
    followed: Mutex<Option<Weak<ServerState>>>,
    /// Bits of [`RUNNING_CHECK`] and [`RUNNING_AGENT`].
    pub(super) running: AtomicU8,
    /// The next check is due sooner than planned.
    pub(super) hurry: Notify,
    check_target: Mutex<Target>,
    agent_target: Mutex<Target>,
    agent_send: Mutex<Vec<u8>>,
    /// Tasks that check this server were started.
    pub(super) watched: AtomicBool,
    /// The server was removed: its tasks end.
    pub(crate) removed: AtomicBool,
}

/// Where a check goes when not to the server's own address or port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// `addr`, `agent-addr`
    pub addr: Option<IpAddr>,
    /// `port`, `agent-port`
    pub port: Option<u16>,
}

/// A health check is under way.
pub(super) const RUNNING_CHECK: u8 = 1;
/// An agent check is under way.
pub(super) const RUNNING_AGENT: u8 = 2;

/// Bits of `srv_check_state` and `srv_agent_state` in `show servers state`.
mod state_bits {
    pub(super) const IN_PROGRESS: u8 = 1;
    pub(super) const CONFIGURED: u8 = 2;
    pub(super) const ENABLED: u8 = 4;
    pub(super) const PAUSED: u8 = 8;
    pub(super) const AGENT: u8 = 16;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Standing {
    /// As the configuration starts it.
    pub(crate) fn new(config: &model::Server) -> Self {
        let check = config.check.as_ref().map(|check| check_settings(check, config.init_state));
        let agent = config.agent_check.as_ref().map(|agent| CheckSettings::agent(ms(agent.inter)));
        let mut machine = Machine::new(check, agent, ms(config.slowstart), 0);
        if config.disabled {
            machine.set_admin(Admin(Admin::FORCED_MAINT.0 | Admin::CONFIG_MAINT.0), true, 0);
        }
        Self {
            machine: Mutex::new(machine),
            followers: Mutex::default(),
            followed: Mutex::default(),
            check_target: Mutex::new(
                config.check.as_ref().map_or_else(Target::default, |c| Target { addr: c.addr, port: c.port }),
            ),
            agent_target: Mutex::new(config.agent_check.as_ref().map_or_else(Target::default, agent_target)),
            agent_send: Mutex::new(config.agent_check.as_ref().map_or_else(Vec::new, |a| a.send.clone())),
            running: AtomicU8::new(0),
            hurry: Notify::new(),
            watched: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        }
    }

    /// What the machine says to data plane.
    pub(crate) fn health(&self) -> Health {
        health_of(&locked(&self.machine))
    }

    /// Sets an administrative flag before anybody looks.
    pub(crate) fn start_with(&self, server: &ServerState, flags: Admin) {
        self.with(|machine| {
            machine.set_admin(flags, true, 0);
            server.publish(machine);
        });
        server.recount();
    }

    /// Starts out as a predecessor left it that somebody had enabled although its line says `disabled`.
    pub(crate) fn start_enabled(&self, server: &ServerState) {
        self.with(|machine| {
            machine.set_admin(Admin::FORCED_MAINT, false, 0);
            server.publish(machine);
        });
        server.recount();
    }

    /// Starts out down, as a predecessor left it.
    pub(crate) fn start_down(&self, server: &ServerState) {
        self.with(|machine| {
            machine.force_health(Some(false), 0);
            server.publish(machine);
        });
        server.recount();
    }

    /// Where checks go (`set server ... check-addr`).
    pub fn check_target(&self) -> Target {
        *locked(&self.check_target)
    }

    /// Where the agent is asked (`set server ... agent-addr`).
    pub fn agent_target(&self) -> Target {
        *locked(&self.agent_target)
    }

    /// Changes where checks go.
    pub fn set_check_target(&self, target: Target) {
        *locked(&self.check_target) = target;
    }

    /// Changes where the agent is asked.
    pub fn set_agent_target(&self, target: Target) {
        *locked(&self.agent_target) = target;
    }

    /// What the agent is sent.
    pub fn agent_send(&self) -> Vec<u8> {
        locked(&self.agent_send).clone()
    }

    /// `set server ... agent-send`
    pub fn set_agent_send(&self, text: Vec<u8>) {
        *locked(&self.agent_send) = text;
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Machine) -> T) -> T {
        change(&mut locked(&self.machine))
    }
}

fn health_of(machine: &Machine) -> Health {
    match machine.op() {
        OpState::Stopped => Health::Down,
        OpState::Stopping => Health::Stopping,
        OpState::Starting | OpState::Running => Health::Up,
    }
}

pub(super) fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A name is resolved once: the agent's address does not move.
fn agent_target(agent: &model::AgentCheck) -> Target {
    let addr = agent.addr.as_deref().and_then(|name| {
        name.parse()
            .ok()
            .or_else(|| crate::control::resolve::lookup(name, agent.port).map(|found| found.ip()))
    });
    Target { addr, port: Some(agent.port) }
}

fn check_settings(check: &model::Check, init: InitState) -> CheckSettings {
    CheckSettings {
        rise: check.rise,
        fall: check.fall,
        inter_ms: ms(check.inter),
        fastinter_ms: check.fastinter.map(ms),
        downinter_ms: check.downinter.map(ms),
        init,
    }
}

impl ServerState {
    /// A copy of the server's state machine, for statistics.
    #[must_use]
    pub fn standing(&self) -> Machine {
        self.standing.with(|machine| *machine)
    }

    /// The server this one tracks.
    #[must_use]
    pub fn tracked(&self) -> Option<Arc<Self>> {
        locked(&self.standing.followed).as_ref().and_then(Weak::upgrade)
    }

    /// `srv_check_state` of `show servers state`.
    #[must_use]
    pub fn check_state(&self) -> u8 {
        use state_bits::{CONFIGURED, ENABLED};
        let configured = if self.config.check.is_some() { CONFIGURED } else { 0 };
        let enabled = if self.check_enabled.load(Relaxed) { ENABLED } else { 0 };
        // As HAProxy shows it: a server that was disabled by its line and has no checks is paused for ever.
        let is_paused = if enabled != 0 { self.in_maintenance() } else { self.config.disabled };
        let paused = if is_paused { state_bits::PAUSED } else { 0 };
        configured | paused | self.activity(enabled, RUNNING_CHECK)
    }

    /// `srv_agent_state` of `show servers state`.
    #[must_use]
    pub fn agent_state(&self) -> u8 {
        use state_bits::{AGENT, CONFIGURED, ENABLED};
        let configured = if self.config.agent_check.is_some() { CONFIGURED | AGENT } else { 0 };
        let enabled = if self.agent_enabled.load(Relaxed) { ENABLED } else { 0 };
        configured | self.activity(enabled, RUNNING_AGENT)
    }

    fn activity(&self, enabled: u8, running: u8) -> u8 {
        let busy =
            if self.standing.running.load(Relaxed) & running != 0 { state_bits::IN_PROGRESS } else { 0 };
        enabled | busy
    }

    /// Follows another server's state from now on.
    pub(super) fn follow(self: &Arc<Self>, tracked: &Arc<Self>) {
        *locked(&self.standing.followed) = Some(Arc::downgrade(tracked));
        let mut followers = locked(&tracked.standing.followers);
        followers.retain(|other| other.strong_count() > 0);
        // As in HAProxy, the last one to follow hears first.
        followers.insert(0, Arc::downgrade(self));
    }

    fn followers(&self) -> Vec<Arc<Self>> {
        locked(&self.standing.followers).iter().filter_map(Weak::upgrade).collect()
    }

    /// Shows the data plane what the machine says.
    pub(super) fn publish(&self, machine: &Machine) {
        self.admin.store(machine.admin().0, Relaxed);
        self.set_health(health_of(machine));
    }
}

impl Shared {
    /// `disable server`, `set server ... state maint`.
    pub fn set_maint(&self, server: &Arc<ServerState>) {
        self.change(server, Cause::Admin, |machine, now| {
            machine.set_admin(Admin::FORCED_MAINT, true, now);
            machine.set_admin(Admin::FORCED_DRAIN, false, now);
        });
    }

    /// `set server ... state drain`.
    pub fn set_drain(&self, server: &Arc<ServerState>) {
        self.change(server, Cause::Admin, |machine, now| {
            machine.set_admin(Admin::FORCED_DRAIN, true, now);
            machine.set_admin(Admin::FORCED_MAINT, false, now);
        });
    }

    /// `enable server`, `set server ... state ready`.
    pub fn set_ready(&self, server: &Arc<ServerState>) {
        self.change(server, Cause::Admin, |machine, now| {
            machine.set_admin(Admin::FORCED_DRAIN, false, now);
            machine.set_admin(Admin::FORCED_MAINT, false, now);
        });
    }

    /// Sets or clears administrative flags.
    pub fn set_admin(&self, server: &Arc<ServerState>, flags: Admin, on: bool) {
        self.change(server, Cause::Admin, |machine, now| {
            machine.set_admin(flags, on, now);
        });
    }

    /// The server has no address, for a reason in the log's words: in maintenance until it has one.
    pub(crate) fn does_not_resolve(&self, server: &Arc<ServerState>, why: &'static str) {
        self.change(server, Cause::Resolution(why), |machine, now| {
            machine.set_admin(Admin::RESOLUTION_MAINT, true, now);
        });
    }

    /// The server has an address; true when it had none before.
    pub(crate) fn resolves_again(&self, server: &Arc<ServerState>) -> bool {
        let waits = server.standing().admin().has(Admin::RESOLUTION_MAINT);
        if waits {
            self.set_admin(server, Admin::RESOLUTION_MAINT, false);
        }
        waits
    }

    /// `backend/server`
    pub(crate) fn full_name(&self, server: &ServerState) -> String {
        full_name(&self.config, server)
    }

    /// Sends a mail about a server, where its backend wants one.
    pub(super) fn mail(&self, server: &ServerState, level: u8, text: &str) {
        let alert = &self.config.proxies[server.proxy].email_alert;
        self.mailers.tell(alert, &self.hostname, level, text);
    }

    /// Writes to the log of a server's backend, from any thread.
    pub(crate) fn log_of(&self, server: &ServerState, level: u8, text: String) {
        self.checks.log(server.proxy, level, text);
    }

    /// `set server ... health up|stopping|down`: `None` is stopping.
    pub fn force_health(&self, server: &Arc<ServerState>, up: Option<bool>) {
        self.change(server, Cause::Forced, |machine, now| {
            machine.force_health(up, now);
        });
    }

    /// `set server ... agent up|down`.
    pub fn force_agent(&self, server: &Arc<ServerState>, up: bool) {
        self.change(server, Cause::Forced, |machine, now| {
            if let Some(agent) = &mut machine.agent {
                agent.force(up);
            }
            machine.report_agent(weir_balance::CheckResult::Neutral, now);
        });
    }

    /// Changes a server's state, with everything that follows from it.
    fn change(&self, server: &Arc<ServerState>, cause: Cause, change: impl FnOnce(&mut Machine, u64)) {
        let step = self.step(server, cause, change);
        self.take_effect(server, &step, 0);
    }

    /// Changes a server's state; nothing follows yet.
    pub(super) fn step(
        &self,
        server: &Arc<ServerState>,
        cause: Cause,
        change: impl FnOnce(&mut Machine, u64),
    ) -> Step {
        let now = self.now_ms();
        server.standing.with(|machine| {
            let before = *machine;
            change(machine, now);
            server.publish(machine);
            Step { before, after: *machine, cause }
        })
    }

    /// What follows from a change; `depth` counts servers that track each other.
    pub(super) fn take_effect(&self, server: &Arc<ServerState>, step: &Step, depth: usize) {
        if !step.is_visible() {
            return;
        }
        let farm = &server.farm;
        let usable_before = farm.usable();
        let queued = server.queue.len();
        server.changed();
        let requeued = queued.saturating_sub(server.queue.len());
        if step.before.op() != step.after.op() {
            self.note_change(server, step);
        }
        if let Some((level, mut text)) = step.sentence(&self.config, server) {
            if step.tells_what_is_left() {
                push_what_is_left(&mut text, server, step, requeued);
            }
            self.mail(server, level, &text);
            self.checks.log(server.proxy, level, text + ".");
        }
        self.note_farm(server, usable_before);
        self.end_sessions(server, step);
        if depth < MAX_TRACK_DEPTH {
            for follower in server.followers() {
                self.follow_on(server, &follower, depth);
            }
        }
    }

    /// Takes a tracked server's state over.
    fn follow_on(&self, tracked: &Arc<ServerState>, follower: &Arc<ServerState>, depth: usize) {
        let model = tracked.standing();
        let step = self.step(follower, Cause::Tracked, |machine, now| {
            machine.follow(&model, now);
        });
        self.take_effect(follower, &step, depth + 1);
    }

    /// Takes a tracked server's state over at the start: there is nobody to tell.
    pub(super) fn adopt(&self, tracked: &ServerState, follower: &Arc<ServerState>) {
        let model = tracked.standing();
        self.step(follower, Cause::Tracked, |machine, now| {
            machine.follow(&model, now);
        });
        follower.changed();
    }

    /// Times and counters of a server's change of state.
    fn note_change(&self, server: &ServerState, step: &Step) {
        let now = self.now_ms();
        let since = server.last_change_ms.swap(now, Relaxed);
        if step.went_down() {
            // Only ever counted here, with one writer at a time by the nature of a state's change.
            server.counters.add(0, Counter::DownTransitions, 1);
        } else if step.before.op() == OpState::Stopped {
            server.down_time_s.fetch_add(now.saturating_sub(since) / 1000, Relaxed);
        }
    }

    /// The backend's own state after one of its servers changed.
    fn note_farm(&self, server: &ServerState, usable_before: usize) {
        let state = &self.proxies[server.proxy];
        let config = &self.config.proxies[server.proxy];
        let usable = server.farm.usable();
        match (usable_before, usable) {
            (1.., 0) => {
                state.up.store(false, Relaxed);
                state.down_transitions.fetch_add(1, Relaxed);
                state.last_change_ms.store(self.now_ms(), Relaxed);
                let kind = if config.frontend { "proxy" } else { "backend" };
                self.checks.notify(Notice {
                    proxy: server.proxy,
                    level: level::EMERG,
                    text: format!("{kind} {} has no server available!", config.name),
                    aloud: Some(format!("{kind} '{}' has no server available!", config.name)),
                });
            }
            (0, 1..) => {
                state.up.store(true, Relaxed);
                state.last_change_ms.store(self.now_ms(), Relaxed);
            }
            _ => {}
        }
    }

    /// `on-marked-down`, `on-marked-up`.
    fn end_sessions(&self, server: &Arc<ServerState>, step: &Step) {
        let config = &server.config;
        if step.went_down() && config.on_marked_down == Some(OnMarkedDown::ShutdownSessions) {
            self.end_sessions_on(server, End::ServerDown);
        }
        let wanted = config.on_marked_up == Some(OnMarkedUp::ShutdownBackupSessions);
        if wanted && step.came_up() && !config.backup && server.weight.load(Relaxed) > 0 {
            for backup in self.proxies[server.proxy].servers.load().iter().filter(|s| s.config.backup) {
                self.end_sessions_on(backup, End::ServerUp);
            }
        }
    }
}
