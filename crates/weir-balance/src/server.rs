//! A server's state: what checks found, what the administrator wants, and what both together mean.

use std::fmt;

use crate::health::{CheckResult, CheckSettings, Health};
use crate::limit::Limit;
use crate::pick::WEIGHT_SCALE;

/// Administrative state, a mask with the values of `show servers state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Admin(pub u8);

impl Admin {
    /// Forced into maintenance.
    pub const FORCED_MAINT: Self = Self(0x01);
    /// Maintenance inherited from a tracked server.
    pub const INHERITED_MAINT: Self = Self(0x02);
    /// Started in maintenance because of the configuration; no restriction by itself, and never cleared.
    pub const CONFIG_MAINT: Self = Self(0x04);
    /// Forced into drain.
    pub const FORCED_DRAIN: Self = Self(0x08);
    /// Drain inherited from a tracked server.
    pub const INHERITED_DRAIN: Self = Self(0x10);
    /// In maintenance because its name does not resolve.
    pub const RESOLUTION_MAINT: Self = Self(0x20);

    /// In maintenance for any reason.
    #[must_use]
    pub fn is_maint(self) -> bool {
        self.0 & 0x23 != 0
    }

    /// In drain for any reason.
    #[must_use]
    pub fn is_drain(self) -> bool {
        self.0 & 0x18 != 0
    }

    /// True when all of `flags` are set.
    #[must_use]
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Operational state, with the values of `show servers state`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum OpState {
    /// Down.
    Stopped = 0,
    /// Up, warming up.
    Starting = 1,
    /// Up.
    Running = 2,
    /// Up, but wants no new sessions.
    Stopping = 3,
}

/// A change to be logged and acted upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Before.
    pub from: OpState,
    /// After.
    pub to: OpState,
}

impl Transition {
    /// The server went down.
    #[must_use]
    pub fn is_down(self) -> bool {
        self.to == OpState::Stopped
    }

    /// The server came up.
    #[must_use]
    pub fn is_up(self) -> bool {
        self.from == OpState::Stopped
    }
}

/// The word that statistics and logs show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// `MAINT`
    Maint,
    /// `MAINT (via ...)`: inherited; the caller knows from whom.
    MaintVia,
    /// `MAINT (resolution)`
    MaintResolution,
    /// `DRAIN`
    Drain,
    /// `no check`
    NoCheck,
    /// `UP`, with failures left of `fall` while going down.
    Up(Option<(u32, u32)>),
    /// `NOLB`, with failures left of `fall` while going down.
    NoLb(Option<(u32, u32)>),
    /// `DOWN`, with successes of `rise` while going up.
    Down(Option<(u32, u32)>),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, progress) = match self {
            Self::Maint => ("MAINT", None),
            Self::MaintVia => ("MAINT (via)", None),
            Self::MaintResolution => ("MAINT (resolution)", None),
            Self::Drain => ("DRAIN", None),
            Self::NoCheck => ("no check", None),
            Self::Up(progress) => ("UP", *progress),
            Self::NoLb(progress) => ("NOLB", *progress),
            Self::Down(progress) => ("DOWN", *progress),
        };
        match progress {
            Some((have, want)) => write!(f, "{word} {have}/{want}"),
            None => f.write_str(word),
        }
    }
}

/// One server's state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    op: OpState,
    admin: Admin,
    changed_ms: u64,
    slowstart_ms: u64,
    /// What the health check found, with `check`.
    pub health: Option<Health>,
    /// What the agent found, with `agent-check`.
    pub agent: Option<Health>,
    /// The last health check asked for no new sessions.
    stopping: bool,
}

impl Server {
    /// A server as the configuration starts it; a start is never slow.
    #[must_use]
    pub fn new(
        check: Option<CheckSettings>,
        agent: Option<CheckSettings>,
        slowstart_ms: u64,
        now_ms: u64,
    ) -> Self {
        let mut server = Self {
            op: OpState::Running,
            admin: Admin::default(),
            changed_ms: now_ms,
            slowstart_ms,
            health: check.map(Health::new),
            agent: agent.map(Health::new),
            stopping: false,
        };
        if !server.is_healthy() {
            server.op = OpState::Stopped;
        }
        server
    }

    /// Operational state.
    #[must_use]
    pub fn op(&self) -> OpState {
        self.op
    }

    /// Administrative state.
    #[must_use]
    pub fn admin(&self) -> Admin {
        self.admin
    }

    /// When the operational state last changed, in milliseconds.
    #[must_use]
    pub fn changed_ms(&self) -> u64 {
        self.changed_ms
    }

    /// Takes connections when balancing chooses it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self.op, OpState::Starting | OpState::Running)
            && !self.admin.is_maint()
            && !self.admin.is_drain()
    }

    fn is_healthy(&self) -> bool {
        let up = |check: &Option<Health>| check.is_none_or(|check| check.is_up());
        up(&self.health) && up(&self.agent)
    }

    /// A health check's result.
    pub fn report_check(&mut self, result: CheckResult, now_ms: u64) -> Option<Transition> {
        self.health.as_mut()?.report(result);
        match result {
            CheckResult::ConditionallyPassed => self.stopping = true,
            CheckResult::Passed | CheckResult::Failed => self.stopping = false,
            CheckResult::Neutral => {}
        }
        self.settle(now_ms)
    }

    /// An agent's up or down.
    pub fn report_agent(&mut self, result: CheckResult, now_ms: u64) -> Option<Transition> {
        self.agent.as_mut()?.report(result);
        self.settle(now_ms)
    }

    /// The tracked server came up or went down, or its check asks for no new sessions.
    pub fn follow(&mut self, tracked: &Self, now_ms: u64) -> Option<Transition> {
        let inherited = Admin::INHERITED_MAINT.0 | Admin::INHERITED_DRAIN.0;
        let mut admin = self.admin.0 & !inherited;
        if tracked.admin.is_maint() {
            admin |= Admin::INHERITED_MAINT.0;
        }
        if tracked.admin.is_drain() {
            admin |= Admin::INHERITED_DRAIN.0;
        }
        self.admin = Admin(admin);
        let wanted = match tracked.op {
            _ if self.admin.is_maint() => OpState::Stopped,
            OpState::Running | OpState::Starting => self.up_state(),
            other => other,
        };
        self.change(wanted, now_ms)
    }

    /// Sets or clears administrative flags.
    pub fn set_admin(&mut self, flags: Admin, on: bool, now_ms: u64) -> Option<Transition> {
        let before = self.admin;
        self.admin = Admin(if on { before.0 | flags.0 } else { before.0 & !flags.0 });
        if before.is_maint() && !self.admin.is_maint() {
            // Checks were paused: what they knew is old.
            self.stopping = false;
            if let Some(health) = &mut self.health {
                health.restart();
            }
        }
        self.settle(now_ms)
    }

    /// `set server ... health up|stopping|down`: `None` is stopping.
    pub fn force_health(&mut self, up: Option<bool>, now_ms: u64) -> Option<Transition> {
        self.stopping = up.is_none();
        if let Some(health) = &mut self.health {
            health.force(up != Some(false));
        }
        match up {
            Some(false) => self.change(OpState::Stopped, now_ms),
            _ => self.settle(now_ms),
        }
    }

    /// Time passed: ends a slow start that is over.
    pub fn tick(&mut self, now_ms: u64) -> Option<Transition> {
        let over = now_ms.saturating_sub(self.changed_ms) >= self.slowstart_ms;
        if self.op != OpState::Starting || !over {
            return None;
        }
        self.op = OpState::Running;
        Some(Transition { from: OpState::Starting, to: OpState::Running })
    }

    /// Sixteenths of the weight that apply now.
    #[must_use]
    pub fn ramp(&self, now_ms: u64) -> u32 {
        if self.op != OpState::Starting || self.slowstart_ms == 0 {
            return WEIGHT_SCALE;
        }
        let elapsed_ms = now_ms.saturating_sub(self.changed_ms).min(self.slowstart_ms);
        let scale = u64::from(WEIGHT_SCALE);
        let sixteenths = (scale * elapsed_ms).saturating_add(self.slowstart_ms) / self.slowstart_ms;
        sixteenths.clamp(1, scale) as u32
    }

    /// What to show.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.admin.is_maint() {
            return match self.admin {
                admin if admin.has(Admin::RESOLUTION_MAINT) => Status::MaintResolution,
                admin if admin.has(Admin::INHERITED_MAINT) => Status::MaintVia,
                _ => Status::Maint,
            };
        }
        let progress = self.health.filter(|health| !health.is_settled()).map(|health| health.progress());
        match self.op {
            OpState::Stopped => Status::Down(progress),
            _ if self.admin.is_drain() => Status::Drain,
            _ if self.health.is_none() && self.agent.is_none() => Status::NoCheck,
            OpState::Stopping => Status::NoLb(progress),
            OpState::Starting | OpState::Running => Status::Up(progress),
        }
    }

    /// What checks and administrator together mean.
    fn settle(&mut self, now_ms: u64) -> Option<Transition> {
        let wanted = match self.is_healthy() && !self.admin.is_maint() {
            false => OpState::Stopped,
            true if self.stopping => OpState::Stopping,
            true => self.up_state(),
        };
        self.change(wanted, now_ms)
    }

    /// Up as it is, or started slowly when it was down.
    fn up_state(&self) -> OpState {
        match self.op {
            OpState::Stopped if self.slowstart_ms > 0 => OpState::Starting,
            OpState::Stopped | OpState::Running | OpState::Stopping => OpState::Running,
            OpState::Starting => OpState::Starting,
        }
    }

    fn change(&mut self, to: OpState, now_ms: u64) -> Option<Transition> {
        let from = std::mem::replace(&mut self.op, to);
        if from == to {
            return None;
        }
        self.changed_ms = now_ms;
        Some(Transition { from, to })
    }
}

/// How many connections a server may have now: between `minconn` and `maxconn` by the farm's load up to
/// `fullconn`, and less while it starts slowly.
#[must_use]
pub fn dynamic_maxconn(
    minconn: usize,
    maxconn: Limit,
    fullconn: usize,
    farm_served: usize,
    ramp: u32,
) -> Limit {
    let Some(maxconn) = maxconn.most() else { return Limit::NONE };
    let share = |whole: usize, part: usize, of: usize| whole.saturating_mul(part) / of;
    let limit = match farm_served {
        _ if minconn == 0 || minconn >= maxconn || fullconn == 0 => maxconn,
        served if served >= fullconn => maxconn,
        served => share(maxconn, served, fullconn).max(minconn),
    };
    Limit::new(share(limit, ramp.min(WEIGHT_SCALE) as usize, WEIGHT_SCALE as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(slowstart_ms: u64) -> Server {
        Server::new(Some(CheckSettings::default()), None, slowstart_ms, 0)
    }

    #[test]
    fn statuses() {
        let check = |results: &str, expected: &str| {
            let mut server = server(0);
            for result in results.chars() {
                server.report_check(
                    match result {
                        '+' => CheckResult::Passed,
                        '4' => CheckResult::ConditionallyPassed,
                        _ => CheckResult::Failed,
                    },
                    1,
                );
            }
            assert_eq!(server.status().to_string(), expected, "{results}");
        };
        check("", "UP 1/3");
        check("+", "UP");
        check("+-", "UP 2/3");
        check("-", "DOWN");
        check("-+", "DOWN 1/2");
        check("-++", "UP");
        check("+4", "NOLB");
        check("+4+", "UP");
        check("+4-", "UP 2/3");
        check("-4", "DOWN 1/2");
        assert_eq!(Server::new(None, None, 0, 0).status().to_string(), "no check");
    }

    #[test]
    fn maintenance_and_drain() {
        let mut server = server(0);
        server.report_check(CheckResult::Passed, 1);
        let down = server.set_admin(Admin::FORCED_MAINT, true, 2);
        assert!(down.is_some_and(Transition::is_down));
        assert_eq!(server.status().to_string(), "MAINT");
        assert!(!server.is_usable());
        server.set_admin(Admin::RESOLUTION_MAINT, true, 3);
        assert_eq!(server.set_admin(Admin::FORCED_MAINT, false, 4), None);
        assert_eq!(server.status().to_string(), "MAINT (resolution)");
        let up = server.set_admin(Admin::RESOLUTION_MAINT, false, 5);
        assert!(up.is_some_and(Transition::is_up));
        // Out of maintenance, one failure is enough.
        assert_eq!(server.status().to_string(), "UP 1/3");

        assert_eq!(server.set_admin(Admin::FORCED_DRAIN, true, 6), None);
        assert_eq!(server.status().to_string(), "DRAIN");
        assert!(!server.is_usable());
    }

    #[test]
    fn slow_start_comes_after_a_failure_only() {
        let mut server = server(1000);
        assert_eq!((server.op(), server.ramp(0)), (OpState::Running, 16));
        server.report_check(CheckResult::Failed, 10);
        server.report_check(CheckResult::Passed, 20);
        server.report_check(CheckResult::Passed, 100);
        assert_eq!(server.op(), OpState::Starting);
        assert_eq!([100, 163, 600, 1100].map(|now_ms| server.ramp(now_ms)), [1, 2, 9, 16]);
        assert_eq!(server.tick(1099), None);
        assert!(server.tick(1100).is_some());
        assert_eq!(server.op(), OpState::Running);
    }

    #[test]
    fn an_agent_can_take_a_server_down() {
        let mut server = Server::new(Some(CheckSettings::default()), Some(CheckSettings::agent(1000)), 0, 0);
        assert!(server.report_agent(CheckResult::Failed, 1).is_some_and(Transition::is_down));
        assert_eq!(server.report_check(CheckResult::Passed, 2), None);
        assert!(server.report_agent(CheckResult::Passed, 3).is_some_and(Transition::is_up));
    }

    #[test]
    fn tracking() {
        let mut tracked = server(0);
        let mut follower = Server::new(None, None, 0, 0);
        tracked.report_check(CheckResult::Failed, 1);
        assert!(follower.follow(&tracked, 1).is_some_and(Transition::is_down));
        tracked.report_check(CheckResult::Passed, 2);
        tracked.report_check(CheckResult::Passed, 2);
        tracked.set_admin(Admin::FORCED_DRAIN, true, 3);
        assert!(follower.follow(&tracked, 3).is_some_and(Transition::is_up));
        assert_eq!(follower.admin(), Admin::INHERITED_DRAIN);
        tracked.set_admin(Admin::FORCED_MAINT, true, 4);
        follower.follow(&tracked, 4);
        assert_eq!(follower.status(), Status::MaintVia);
    }

    #[test]
    fn connections_allowed() {
        let check = |minconn, maxconn, fullconn, served, ramp, expected| {
            let found = dynamic_maxconn(minconn, Limit::new(maxconn), fullconn, served, ramp);
            assert_eq!(found, Limit::new(expected));
        };
        check(0, 0, 100, 50, 16, 0);
        check(0, 100, 1000, 0, 16, 100);
        check(10, 100, 1000, 0, 16, 10);
        check(10, 100, 1000, 500, 16, 50);
        check(10, 100, 1000, 2000, 16, 100);
        check(0, 100, 0, 0, 8, 50);
        check(0, 3, 0, 0, 1, 1);
    }

    proptest! {
        #[test]
        fn checks_never_raise_a_server_in_maintenance(results in prop::collection::vec(0u8..4, 0..30)) {
            let mut server = server(100);
            server.set_admin(Admin::FORCED_MAINT, true, 0);
            for (at, result) in results.iter().enumerate() {
                let result = [CheckResult::Neutral, CheckResult::Failed, CheckResult::Passed, CheckResult::ConditionallyPassed][usize::from(*result)];
                server.report_check(result, at as u64);
                prop_assert_eq!(server.op(), OpState::Stopped);
            }
        }
    }
}
