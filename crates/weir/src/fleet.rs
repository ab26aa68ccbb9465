//! What a master does: from what happens to what it does about it, without doing it.
//!
//! ```text
//!            Reload                Ready                 Ready of a newer one       Exited
//!  (nothing) ------> Starting --------------> Serving ---------------------> Leaving ------> (gone)
//!                       | Exited, Overdue        | Exited
//!                       v                        v
//!              the old one goes on       the others end, the master leaves
//! ```
//!
//! Owns the stages of the workers and the master's exit code; leaves processes, sockets and clocks to
//! [`crate::master`].

/// Number of a process.
pub(crate) type Pid = u32;

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It reads its configuration; whatever served before still does.
    Starting,
    /// It accepts connections.
    Serving,
    /// It finishes the connections that it has.
    Leaving,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worker {
    pub pid: Pid,
    pub stage: Stage,
    /// Reloads that it has lived through.
    pub reloads: u32,
}

/// How the master was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGUSR1: when the last connection has ended.
    Finish,
    /// SIGTERM
    Terminate,
    /// SIGINT
    Interrupt,
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A start was asked for: the first one, or a reload.
    Reload {
        /// The old worker is not to finish what it serves.
        hard: bool,
    },
    /// A worker was started.
    Started(Pid),
    /// None could be: the configuration is wrong, or a socket cannot be opened.
    NotStarted,
    /// A worker serves.
    Ready(Pid),
    /// A worker takes too long to get ready.
    Overdue(Pid),
    /// A worker is gone, with its exit code (128 + N after signal N).
    Exited(Pid, u8),
    /// The master is told to end.
    Stop(Stop),
}

/// A signal for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Finish,
    Terminate,
    Interrupt,
    Kill,
}

/// Something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read the configuration and start a worker; answered by `Started` or `NotStarted`.
    Start,
    /// Send a signal.
    Order(Pid, Order),
    /// The start or reload succeeded.
    Succeeded,
    /// The reload failed: the old worker goes on.
    Failed,
    /// The current worker ended by itself with this code.
    Lost(Pid, u8),
    /// End the master with this exit code.
    Leave(u8),
}

/// The workers of a master.
#[derive(Debug)]
pub(crate) struct Fleet {
    workers: Vec<Worker>,
    policy: Policy,
    /// The start under way: its kind, and whether another one was asked for meanwhile.
    starting: Option<Starting>,
    leaving: Option<u8>,
    /// Reloads that succeeded, and those that failed since the last one that did.
    pub reloads: u32,
    pub failed_reloads: u32,
    started_once: bool,
}

#[derive(Debug, Clone, Copy)]
struct Starting {
    hard: bool,
    again: Option<bool>,
}

/// What the configuration says about workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// The master ends when a worker fails (all but `master-worker no-exit-on-failure`).
    pub exit_on_failure: bool,
    /// `mworker-max-reloads`
    pub max_reloads: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { exit_on_failure: true, max_reloads: 50 }
    }
}

/// The exit code of a first start that failed.
const NEVER_STARTED: u8 = 1;
/// 128 + SIGINT
const INTERRUPTED: u8 = 130;
/// 128 + SIGTERM
const TERMINATED: u8 = 143;

impl Fleet {
    /// No worker yet.
    pub(crate) fn new() -> Self {
        Self {
            workers: Vec::new(),
            policy: Policy::default(),
            starting: None,
            leaving: None,
            reloads: 0,
            failed_reloads: 0,
            started_once: false,
        }
    }

    /// The workers, oldest first.
    pub(crate) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// The worker that accepts connections.
    pub(crate) fn current(&self) -> Option<Pid> {
        self.workers.iter().find(|worker| worker.stage == Stage::Serving).map(|worker| worker.pid)
    }

    /// Follows the newest configuration.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// What to do about an event.
    pub(crate) fn handle(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Reload { hard } => self.reload(hard),
            Event::Started(pid) => {
                self.workers.push(Worker { pid, stage: Stage::Starting, reloads: 0 });
                Vec::new()
            }
            Event::NotStarted => self.not_started(),
            Event::Ready(pid) => self.ready(pid),
            Event::Overdue(pid) => match self.stage(pid) {
                Some(Stage::Starting) => vec![Action::Order(pid, Order::Kill)],
                Some(Stage::Serving | Stage::Leaving) | None => Vec::new(),
            },
            Event::Exited(pid, code) => self.exited(pid, code),
            Event::Stop(stop) => self.stop(stop),
        }
    }

    fn stage(&self, pid: Pid) -> Option<Stage> {
        self.workers.iter().find(|worker| worker.pid == pid).map(|worker| worker.stage)
    }

    fn reload(&mut self, hard: bool) -> Vec<Action> {
        if self.leaving.is_some() {
            return Vec::new();
        }
        if let Some(starting) = &mut self.starting {
            starting.again = Some(hard || starting.again == Some(true));
            return Vec::new();
        }
        self.starting = Some(Starting { hard, again: None });
        vec![Action::Start]
    }

    fn not_started(&mut self) -> Vec<Action> {
        let Some(starting) = self.starting.take() else { return Vec::new() };
        if self.leaving.is_some() {
            return self.leave_when_empty();
        }
        if !self.started_once || self.workers.is_empty() {
            self.leaving = Some(NEVER_STARTED);
            return self.end_all(Order::Terminate);
        }
        self.failed_reloads += 1;
        let mut actions = vec![Action::Failed];
        if let Some(hard) = starting.again {
            actions.extend(self.reload(hard));
        }
        actions
    }

    fn ready(&mut self, pid: Pid) -> Vec<Action> {
        if self.stage(pid) != Some(Stage::Starting) || self.leaving.is_some() {
            return Vec::new();
        }
        let Some(starting) = self.starting.take() else { return Vec::new() };
        let mut actions = vec![Action::Succeeded];
        for worker in &mut self.workers {
            if worker.pid == pid {
                worker.stage = Stage::Serving;
                continue;
            }
            worker.reloads += 1;
            let farewell = if starting.hard { Order::Terminate } else { Order::Finish };
            if worker.stage == Stage::Serving {
                worker.stage = Stage::Leaving;
                actions.push(Action::Order(worker.pid, farewell));
            } else if worker.reloads > self.policy.max_reloads || starting.hard {
                actions.push(Action::Order(worker.pid, Order::Terminate));
            }
        }
        if self.started_once {
            self.reloads += 1;
            self.failed_reloads = 0;
        }
        self.started_once = true;
        if let Some(hard) = starting.again {
            actions.extend(self.reload(hard));
        }
        actions
    }

    fn exited(&mut self, pid: Pid, code: u8) -> Vec<Action> {
        let Some(stage) = self.stage(pid) else { return Vec::new() };
        self.workers.retain(|worker| worker.pid != pid);
        if self.leaving.is_some() {
            return self.leave_when_empty();
        }
        match stage {
            Stage::Starting => self.not_started(),
            Stage::Leaving => {
                if self.workers.is_empty() && self.starting.is_none() {
                    // The current worker went before this one and the master stayed for it.
                    return vec![Action::Leave(code)];
                }
                Vec::new()
            }
            Stage::Serving => self.lost(pid, code),
        }
    }

    fn lost(&mut self, pid: Pid, code: u8) -> Vec<Action> {
        let mut actions = vec![Action::Lost(pid, code)];
        let failed = !matches!(code, 0 | INTERRUPTED | TERMINATED);
        if failed && self.policy.exit_on_failure {
            self.leaving = Some(code);
            actions.extend(self.end_all(Order::Terminate));
        } else if self.workers.is_empty() && self.starting.is_none() {
            actions.push(Action::Leave(code));
        }
        actions
    }

    fn stop(&mut self, stop: Stop) -> Vec<Action> {
        let (code, order) = match stop {
            Stop::Finish => (0, Order::Finish),
            Stop::Terminate => (0, Order::Terminate),
            Stop::Interrupt => (INTERRUPTED, Order::Interrupt),
        };
        self.leaving = Some(code);
        self.end_all(order)
    }

    fn end_all(&self, order: Order) -> Vec<Action> {
        let mut actions: Vec<_> =
            self.workers.iter().map(|worker| Action::Order(worker.pid, order)).collect();
        actions.extend(self.leave_when_empty());
        actions
    }

    fn leave_when_empty(&self) -> Vec<Action> {
        let leave = self.leaving.filter(|_| self.workers.is_empty());
        leave.map(Action::Leave).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Failed, Leave, Lost, Start, Succeeded};
    use Event::{Exited, NotStarted, Overdue, Ready, Started};

    const RELOAD: Event = Event::Reload { hard: false };
    const HARD: Event = Event::Reload { hard: true };

    fn order(pid: Pid, order: Order) -> Action {
        Action::Order(pid, order)
    }

    /// Plays events and compares what is done about the last one.
    fn play(policy: Policy, events: &[Event], expected: &[Action]) {
        let mut fleet = Fleet::new();
        fleet.set_policy(policy);
        let mut actions = Vec::new();
        for event in events {
            actions = fleet.handle(*event);
        }
        assert_eq!(actions, expected, "{events:?}");
    }

    fn check(events: &[Event], expected: &[Action]) {
        play(Policy::default(), events, expected);
    }

    #[test]
    fn starting() {
        check(&[RELOAD], &[Start]);
        check(&[RELOAD, Started(1)], &[]);
        check(&[RELOAD, Started(1), Ready(1)], &[Succeeded]);
        check(&[RELOAD, NotStarted], &[Leave(1)]);
        check(&[RELOAD, Started(1), Exited(1, 1)], &[Leave(1)]);
        check(&[RELOAD, Started(1), Exited(1, 139)], &[Leave(1)]);
        check(&[RELOAD, Started(1), Overdue(1)], &[order(1, Order::Kill)]);
        check(&[RELOAD, Started(1), Ready(1), Overdue(1)], &[]);
    }

    #[test]
    fn reloading() {
        let up = [RELOAD, Started(1), Ready(1)];
        let with = |more: &[Event]| [&up[..], more].concat();
        check(&with(&[RELOAD]), &[Start]);
        check(&with(&[RELOAD, Started(2)]), &[]);
        check(&with(&[RELOAD, Started(2), Ready(2)]), &[Succeeded, order(1, Order::Finish)]);
        check(&with(&[HARD, Started(2), Ready(2)]), &[Succeeded, order(1, Order::Terminate)]);
        check(&with(&[RELOAD, Started(2), Ready(2), Exited(1, 0)]), &[]);
        check(&with(&[RELOAD, Started(2), Ready(2), Ready(2)]), &[]);
    }

    #[test]
    fn a_failed_reload_leaves_the_old_worker_in_place() {
        let up = [RELOAD, Started(1), Ready(1), RELOAD];
        let with = |more: &[Event]| [&up[..], more].concat();
        check(&with(&[NotStarted]), &[Failed]);
        check(&with(&[Started(2), Exited(2, 1)]), &[Failed]);
        check(
            &with(&[Started(2), Exited(2, 1), RELOAD, Started(3), Ready(3)]),
            &[Succeeded, order(1, Order::Finish)],
        );
        // The old one dies while the new one starts: the new one is what is left.
        let actions = [Lost(1, 0)];
        check(&with(&[Started(2), Exited(1, 0)]), &actions);
        check(&with(&[Started(2), Exited(1, 0), Ready(2)]), &[Succeeded]);
        check(&with(&[Started(2), Exited(1, 0), Exited(2, 1)]), &[Leave(1)]);
    }

    #[test]
    fn a_reload_during_a_start_runs_once_after_it() {
        let busy = [RELOAD, Started(1), Ready(1), RELOAD, RELOAD, RELOAD];
        let with = |more: &[Event]| [&busy[..], more].concat();
        check(&busy, &[]);
        check(&with(&[NotStarted]), &[Failed, Start]);
        check(&with(&[Started(2), Ready(2)]), &[Succeeded, order(1, Order::Finish), Start]);
        check(&with(&[Started(2), Ready(2), Started(3), Ready(3)]), &[Succeeded, order(2, Order::Finish)]);
    }

    #[test]
    fn workers_that_stay_too_long_are_ended() {
        let policy = Policy { max_reloads: 1, ..Policy::default() };
        let twice =
            [RELOAD, Started(1), Ready(1), RELOAD, Started(2), Ready(2), RELOAD, Started(3), Ready(3)];
        play(policy, &twice, &[Succeeded, order(1, Order::Terminate), order(2, Order::Finish)]);
    }

    #[test]
    fn a_lost_worker_takes_the_master_with_it() {
        let up = [RELOAD, Started(1), Ready(1)];
        let two = [RELOAD, Started(1), Ready(1), RELOAD, Started(2), Ready(2)];
        let lost = |up: &[Event], code| [up, &[Exited(up.len() as u32 / 3, code)]].concat();
        check(&lost(&up, 139), &[Lost(1, 139), Leave(139)]);
        check(&lost(&up, 143), &[Lost(1, 143), Leave(143)]);
        check(&lost(&two, 139), &[Lost(2, 139), order(1, Order::Terminate)]);
        let last = [&lost(&two, 139)[..], &[Exited(1, 143)]].concat();
        check(&last, &[Leave(139)]);
        let stay = Policy { exit_on_failure: false, ..Policy::default() };
        play(stay, &lost(&two, 139), &[Lost(2, 139)]);
        play(stay, &last, &[Leave(143)]);
    }

    #[test]
    fn stopping() {
        let two = [RELOAD, Started(1), Ready(1), RELOAD, Started(2), Ready(2)];
        let with = |more: &[Event]| [&two[..], more].concat();
        let stop = |stop| Event::Stop(stop);
        let both = |to| [order(1, to), order(2, to)];
        check(&with(&[stop(Stop::Finish)]), &both(Order::Finish));
        check(&with(&[stop(Stop::Terminate)]), &both(Order::Terminate));
        check(&with(&[stop(Stop::Interrupt)]), &both(Order::Interrupt));
        check(&with(&[stop(Stop::Finish), Exited(1, 0), Exited(2, 0)]), &[Leave(0)]);
        check(&with(&[stop(Stop::Terminate), Exited(1, 143), Exited(2, 143)]), &[Leave(0)]);
        check(&with(&[stop(Stop::Interrupt), Exited(1, 130), Exited(2, 130)]), &[Leave(130)]);
        check(
            &with(&[stop(Stop::Finish), Exited(1, 0), stop(Stop::Terminate)]),
            &[order(2, Order::Terminate)],
        );
        check(&with(&[stop(Stop::Terminate), RELOAD]), &[]);
        check(&[RELOAD, stop(Stop::Terminate)], &[Leave(0)]);
        check(&[RELOAD, Started(1), stop(Stop::Terminate), Ready(1)], &[]);
        check(&[RELOAD, Started(1), stop(Stop::Terminate), Exited(1, 143)], &[Leave(0)]);
    }
}
