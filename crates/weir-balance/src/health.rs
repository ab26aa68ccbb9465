//! Health checks' results counted: `rise`, `fall`, the intervals between checks, and `observe`.
//!
//! ```text
//!      0 .. 1 .. rise-1 | rise .. rise+fall-2 .. rise+fall-1
//!    down   going up    | going down             up
//! ```
//! A success counts up and jumps to the top once it reaches `rise`; a failure counts down and drops
//! to 0 once it falls below.

/// What one check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckResult {
    /// A valid check that says nothing.
    Neutral,
    /// The server does not work.
    Failed,
    /// The server works.
    Passed,
    /// The server works but wants no new sessions (`http-check disable-on-404`).
    ConditionallyPassed,
}

/// `init-state`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the keyword of the same name")]
pub enum InitState {
    /// Up, and the first failure takes it down; the same as `Up`.
    #[default]
    None,
    FullyUp,
    Up,
    Down,
    FullyDown,
}

/// How a server is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckSettings {
    /// Successes in a row until up; at least 1.
    pub rise: u32,
    /// Failures in a row until down; at least 1.
    pub fall: u32,
    /// Time between checks in milliseconds.
    pub inter_ms: u64,
    /// The same while going up or down, or unchecked.
    pub fastinter_ms: Option<u64>,
    /// The same while down.
    pub downinter_ms: Option<u64>,
    /// Where it starts.
    pub init: InitState,
}

impl Default for CheckSettings {
    fn default() -> Self {
        Self {
            rise: 2,
            fall: 3,
            inter_ms: 2000,
            fastinter_ms: None,
            downinter_ms: None,
            init: InitState::None,
        }
    }
}

impl CheckSettings {
    /// An agent check believes every answer.
    #[must_use]
    pub fn agent(inter_ms: u64) -> Self {
        Self { rise: 1, fall: 1, inter_ms, init: InitState::FullyUp, ..Self::default() }
    }
}

/// One kind of check's view of one server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    settings: CheckSettings,
    counter: u32,
    checked: bool,
    hurry: bool,
    last: Option<CheckResult>,
}

impl Health {
    /// Unchecked, in its initial state.
    #[must_use]
    pub fn new(settings: CheckSettings) -> Self {
        let settings = CheckSettings { rise: settings.rise.max(1), fall: settings.fall.max(1), ..settings };
        let mut health = Self { settings, counter: 0, checked: false, hurry: false, last: None };
        health.restart();
        health
    }

    /// Back to the initial state, as after maintenance.
    pub fn restart(&mut self) {
        self.counter = match self.settings.init {
            InitState::None | InitState::Up => self.settings.rise,
            InitState::FullyUp => self.top(),
            InitState::Down => self.settings.rise - 1,
            InitState::FullyDown => 0,
        };
        self.checked = false;
        self.hurry = false;
        self.last = None;
    }

    fn top(&self) -> u32 {
        self.settings.rise.saturating_add(self.settings.fall - 1)
    }

    /// Counts a result; true when it turned up into down or down into up.
    pub fn report(&mut self, result: CheckResult) -> bool {
        let before = self.is_up();
        self.checked = true;
        self.hurry = false;
        self.last = Some(result);
        match result {
            CheckResult::Neutral => {}
            CheckResult::Passed | CheckResult::ConditionallyPassed => {
                self.counter = self.counter.saturating_add(1);
                if self.counter >= self.settings.rise {
                    self.counter = self.top();
                }
            }
            CheckResult::Failed => {
                self.counter = self.counter.saturating_sub(1);
                if self.counter < self.settings.rise {
                    // A server that was going up starts over, too.
                    self.counter = 0;
                }
            }
        }
        before != self.is_up()
    }

    /// True when the server works as far as this check knows.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.counter >= self.settings.rise
    }

    /// Neither going up nor down.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.counter == 0 || self.counter == self.top()
    }

    /// The last check's result.
    #[must_use]
    pub fn last(&self) -> Option<CheckResult> {
        self.last
    }

    /// The counter itself, `srv_check_health` of the state file.
    #[must_use]
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// As shown in status: `2/3` is two of three failures left while up, two of three successes while down.
    #[must_use]
    pub fn progress(&self) -> (u32, u32) {
        match self.is_up() {
            true => (self.counter - self.settings.rise + 1, self.settings.fall),
            false => (self.counter, self.settings.rise),
        }
    }

    /// `set server ... health up|down`.
    pub fn force(&mut self, up: bool) {
        self.counter = if up { self.top() } else { 0 };
    }

    /// Milliseconds until the next check.
    #[must_use]
    pub fn next_interval_ms(&self) -> u64 {
        let settings = &self.settings;
        let chosen = match (self.is_settled(), self.is_up()) {
            _ if !self.checked || self.hurry => settings.fastinter_ms,
            (false, _) => settings.fastinter_ms,
            (true, true) => None,
            (true, false) => settings.downinter_ms,
        };
        chosen.unwrap_or(settings.inter_ms)
    }

    /// What enough errors of real traffic do; true when they took the server down.
    pub fn observe_limit_reached(&mut self, action: OnError) -> bool {
        let before = self.is_up();
        match action {
            OnError::FastInter => {}
            OnError::FailCheck => {
                self.report(CheckResult::Failed);
            }
            OnError::SuddenDeath => {
                self.counter = self.counter.min(self.settings.rise.saturating_add(1));
                self.report(CheckResult::Failed);
            }
            OnError::MarkDown => {
                self.counter = self.counter.min(self.settings.rise);
                self.report(CheckResult::Failed);
            }
        }
        self.hurry = true;
        before != self.is_up()
    }
}

/// `on-error`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the keyword of the same name")]
pub enum OnError {
    FastInter,
    #[default]
    FailCheck,
    SuddenDeath,
    MarkDown,
}

/// `observe`: errors of real traffic in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observer {
    /// `error-limit`
    pub limit: u32,
    /// `on-error`
    pub on_error: OnError,
    errors: u32,
}

impl Observer {
    /// Nothing observed yet.
    #[must_use]
    pub fn new(limit: u32, on_error: OnError) -> Self {
        Self { limit: limit.max(1), on_error, errors: 0 }
    }

    /// One request's outcome; the action when it was one error too many.
    pub fn report(&mut self, ok: bool) -> Option<OnError> {
        self.errors = if ok { 0 } else { self.errors + 1 };
        if self.errors < self.limit {
            return None;
        }
        self.errors = 0;
        Some(self.on_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Progress after each of a row of results: `+` passed, `-` failed, `?` neutral.
    fn course(settings: CheckSettings, results: &str) -> String {
        let mut health = Health::new(settings);
        let steps = results.chars().map(|result| {
            let changed = health.report(match result {
                '+' => CheckResult::Passed,
                '-' => CheckResult::Failed,
                _ => CheckResult::Neutral,
            });
            let (have, want) = health.progress();
            let state = if health.is_up() { "U" } else { "D" };
            format!("{state}{have}/{want}{}", if changed { "!" } else { "" })
        });
        steps.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rise_and_fall() {
        let check = |init, results: &str, expected: &str| {
            let settings = CheckSettings { init, ..CheckSettings::default() };
            assert_eq!(course(settings, results), expected, "{results}");
        };
        // At start, one failure is enough.
        check(InitState::None, "-", "D0/2!");
        check(InitState::None, "+---++", "U3/3 U2/3 U1/3 D0/2! D1/2 U3/3!");
        check(InitState::None, "+--+", "U3/3 U2/3 U1/3 U3/3");
        check(InitState::FullyUp, "--?-", "U2/3 U1/3 U1/3 D0/2!");
        check(InitState::Down, "+", "U3/3!");
        check(InitState::FullyDown, "+-++", "D1/2 D0/2 D1/2 U3/3!");
    }

    #[test]
    fn intervals() {
        let settings =
            CheckSettings { fastinter_ms: Some(1), downinter_ms: Some(3), ..CheckSettings::default() };
        let check = |settings, results: &str, expected: u64| {
            let mut health = Health::new(settings);
            for result in results.chars() {
                health.report(if result == '+' { CheckResult::Passed } else { CheckResult::Failed });
            }
            assert_eq!(health.next_interval_ms(), expected, "{results}");
        };
        check(settings, "", 1);
        check(settings, "+", 2000);
        check(settings, "+-", 1);
        check(settings, "-", 3);
        check(settings, "-+", 1);
        check(CheckSettings::default(), "-+", 2000);
    }

    #[test]
    fn errors_of_traffic() {
        let mut observer = Observer::new(2, OnError::MarkDown);
        assert_eq!(
            [false, true, false, false, false].map(|ok| observer.report(ok).is_some()),
            [false, false, false, true, false]
        );
        let check = |action, times: usize, up: bool| {
            let mut health =
                Health::new(CheckSettings { init: InitState::FullyUp, ..CheckSettings::default() });
            for _ in 0..times {
                health.observe_limit_reached(action);
            }
            assert_eq!(health.is_up(), up, "{action:?}");
        };
        check(OnError::FastInter, 9, true);
        check(OnError::FailCheck, 2, true);
        check(OnError::FailCheck, 3, false);
        check(OnError::SuddenDeath, 1, true);
        check(OnError::SuddenDeath, 2, false);
        check(OnError::MarkDown, 1, false);
    }
}
