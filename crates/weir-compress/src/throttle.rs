//! The throttle: how much work compression may cause at the moment.
//!
//! HAProxy switches compression off and on at thresholds. Here a dial turns between nothing and everything configured,
//! through steps that each cost less than the one above. Between two steps it sets the share of responses that get the
//! upper one, so that the processor's time is used up to the limit and not beyond. Values in, values out: the time and
//! what was measured are arguments.

pub use weir_deflate::Level;

/// The configured limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `maxcomprate`: input bytes a second of the whole process; 0 for no limit.
    pub rate_bytes_per_second: u64,
    /// `maxcompcpuusage`: percent of the processor time; 100 for no limit.
    pub cpu_percent: u8,
    /// `tune.comp.maxlevel`: 1 to 9.
    pub max_level: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rate_bytes_per_second: 0, cpu_percent: 100, max_level: 1 }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Input bytes compressed in the last second by the whole process.
    pub rate_bytes_per_second: u64,
    /// The part of the time since the last measurement that this worker was busy, in thousandths.
    pub busy_thousandths: u16,
}

/// How much work a response may cause, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It is not compressed.
    Off,
    /// A deflate format at level `fast`.
    Fast,
    /// A deflate format at level `default`.
    Default,
    /// A deflate format at level `high`.
    High,
    /// The best algorithm that client and configuration have in common: Brotli and Zstandard too.
    #[default]
    Best,
}

impl Step {
    /// All of them, the least work first.
    pub const ALL: [Self; 5] = [Self::Off, Self::Fast, Self::Default, Self::High, Self::Best];

    /// Its name in the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fast => "fast",
            Self::Default => "default",
            Self::High => "high",
            Self::Best => "best",
        }
    }
}

/// Why the step in force is not a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nothing holds it back but `tune.comp.maxlevel`.
    #[default]
    Free,
    /// `maxcompcpuusage`
    Cpu,
    /// `maxcomprate`
    Rate,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Free, Self::Cpu, Self::Rate];

    /// Its name in the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Cpu => "cpu",
            Self::Rate => "rate",
        }
    }
}

/// What a throttle is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// The highest step that responses get.
    pub step: Step,
    /// How many of them, in percent; the others get the step below.
    pub share_percent: u8,
    /// Why it is not a higher one.
    pub reason: Reason,
}

/// The throttle of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    limits: Limits,
    /// From 0, at which nothing is compressed, in units of which [`UNITS`] make a step.
    dial: u32,
    /// Parts of responses that were owed the upper step.
    owed: u32,
    /// When the dial was turned last, in milliseconds.
    turned_ms: Option<u64>,
    /// The rate reached its limit and has not fallen clearly below it since.
    over_rate: bool,
}

/// Units of the dial between two steps.
const UNITS: u32 = 256;

/// How long the load is measured before the dial is turned: some hundreds of responses.
pub const WINDOW_MS: u64 = 100;

/// Windows that count where nothing was measured for longer.
const MAX_WINDOWS: u64 = 10;

/// Units for each thousandth of load beyond the limit, in 1/16, down and up. Down is faster: what is late is noticed.
const DOWN_SIXTEENTHS: u64 = 8;
const UP_SIXTEENTHS: u64 = 3;

/// The dial stays while the load is at most so many thousandths below the limit: without it, the dial would never rest.
const REST_THOUSANDTHS: u16 = 25;

/// The dial aims at this much below the limit, as the load is never even.
const MARGIN_THOUSANDTHS: u16 = 10;

/// From which `tune.comp.maxlevel` on the level is `default`, and `high`; below it is `fast`, as zlib's 1.
const DEFAULT_LEVEL: u8 = 2;
const HIGH_LEVEL: u8 = 5;

impl Throttle {
    /// A throttle with these limits, fully open.
    pub const fn new(limits: Limits) -> Self {
        let mut throttle = Self { limits, dial: 0, owed: 0, turned_ms: None, over_rate: false };
        throttle.dial = throttle.top();
        throttle
    }

    /// Changes the limits, as an administrator may.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        if limits.cpu_percent >= 100 || self.dial > self.top() {
            self.dial = self.top();
        }
    }

    /// The steps there are: the better levels only where `tune.comp.maxlevel` asks for them.
    const fn ladder(&self) -> &'static [Step] {
        match self.limits.max_level {
            0 => &[Step::Off],
            1..DEFAULT_LEVEL => &[Step::Off, Step::Fast, Step::Best],
            DEFAULT_LEVEL..HIGH_LEVEL => &[Step::Off, Step::Fast, Step::Default, Step::Best],
            HIGH_LEVEL.. => &Step::ALL,
        }
    }

    const fn top(&self) -> u32 {
        (self.ladder().len() as u32 - 1) * UNITS
    }

    /// The level of a response at a step; none where it is not compressed.
    pub const fn level(&self, step: Step) -> Option<Level> {
        match step {
            Step::Off => None,
            Step::Fast => Some(Level::Fast),
            Step::Default => Some(Level::Default),
            Step::High => Some(Level::High),
            Step::Best => match self.limits.max_level {
                0 => None,
                1..DEFAULT_LEVEL => Some(Level::Fast),
                DEFAULT_LEVEL..HIGH_LEVEL => Some(Level::Default),
                HIGH_LEVEL.. => Some(Level::High),
            },
        }
    }

    /// Whether the load should be measured: it was not for [`WINDOW_MS`].
    pub const fn is_due(&self, now_ms: u64) -> bool {
        match self.turned_ms {
            None => true,
            Some(turned) => now_ms >= turned + WINDOW_MS,
        }
    }

    /// Turns the dial by what was measured since the last time.
    pub fn observe(&mut self, load: Load, now_ms: u64) {
        let elapsed_ms = self.turned_ms.map_or(WINDOW_MS, |turned| now_ms.saturating_sub(turned));
        self.turned_ms = Some(now_ms);
        self.observe_rate(load.rate_bytes_per_second);
        if self.limits.cpu_percent >= 100 {
            return;
        }
        let goal = (u16::from(self.limits.cpu_percent) * 10).saturating_sub(MARGIN_THOUSANDTHS);
        let windows = (elapsed_ms / WINDOW_MS).clamp(1, MAX_WINDOWS);
        let turn = |thousandths: u16, sixteenths: u64| {
            u32::try_from(u64::from(thousandths) * sixteenths * windows / 16).unwrap_or(u32::MAX)
        };
        let busy = load.busy_thousandths;
        if busy > goal {
            self.dial = self.dial.saturating_sub(turn(busy - goal, DOWN_SIXTEENTHS));
        } else if busy + REST_THOUSANDTHS < goal {
            let up = turn(goal - REST_THOUSANDTHS - busy, UP_SIXTEENTHS).max(1);
            self.dial = self.dial.saturating_add(up).min(self.top());
        }
    }

    fn observe_rate(&mut self, rate: u64) {
        let limit = self.limits.rate_bytes_per_second;
        self.over_rate = match limit {
            0 => false,
            _ if rate >= limit => true,
            _ => self.over_rate && rate >= limit - limit / 16,
        };
    }

    /// The step of a response that starts now, and what holds it back. `rate` is the process's at this moment: a
    /// limit of bytes is kept from one response to the next.
    pub fn next(&mut self, rate_bytes_per_second: u64) -> (Step, Reason) {
        self.observe_rate(rate_bytes_per_second);
        if self.over_rate {
            return (Step::Off, Reason::Rate);
        }
        let (lower, share) = ((self.dial / UNITS) as usize, self.dial % UNITS);
        self.owed += share;
        let upper = self.owed >= UNITS;
        if upper {
            self.owed -= UNITS;
        }
        let ladder = self.ladder();
        let at = (lower + usize::from(upper)).min(ladder.len() - 1);
        (ladder[at], self.reason())
    }

    /// The level for the next piece of a response that is being compressed.
    pub fn during(&self) -> Level {
        self.level(self.in_force().step).unwrap_or(Level::Fast)
    }

    /// What is in force; for the statistics and for responses in progress.
    pub fn in_force(&self) -> InForce {
        if self.over_rate {
            return InForce { step: Step::Off, share_percent: 100, reason: Reason::Rate };
        }
        let ladder = self.ladder();
        let at = self.dial.div_ceil(UNITS) as usize;
        let share = match self.dial % UNITS {
            0 => 100,
            part => (part * 100 / UNITS) as u8,
        };
        InForce { step: ladder[at.min(ladder.len() - 1)], share_percent: share, reason: self.reason() }
    }

    const fn reason(&self) -> Reason {
        if self.dial < self.top() { Reason::Cpu } else { Reason::Free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: Limits = Limits { rate_bytes_per_second: 0, cpu_percent: 85, max_level: 9 };

    fn busy(busy_thousandths: u16) -> Load {
        Load { busy_thousandths, ..Load::default() }
    }

    /// A worker that spends `base` thousandths on everything else and, on the responses of each step, what it costs
    /// there; run for `seconds`, returns the mean load and the mean of each step's share over the second half.
    fn run(limits: Limits, base: u16, cost: impl Fn(Step) -> u16, seconds: u64) -> (u16, Vec<(Step, u32)>) {
        const RESPONSES: u32 = 200;
        let mut throttle = Throttle::new(limits);
        let (mut loads, mut windows) = (0_u64, 0_u64);
        let mut shares: Vec<(Step, u32)> = Step::ALL.iter().map(|step| (*step, 0)).collect();
        for window in 0..seconds * 1000 / WINDOW_MS {
            let mut load = u32::from(base) * RESPONSES;
            let settled = window >= seconds * 500 / WINDOW_MS;
            for _ in 0..RESPONSES {
                let (step, _) = throttle.next(0);
                load += u32::from(cost(step));
                shares[step as usize].1 += u32::from(settled);
            }
            let load = (load / RESPONSES).min(1000) as u16;
            if settled {
                loads += u64::from(load);
                windows += 1;
            }
            throttle.observe(busy(load), window * WINDOW_MS);
        }
        (u16::try_from(loads / windows).unwrap(), shares)
    }

    #[test]
    fn the_limit_is_kept_and_used() {
        let cost = |scale: u16| {
            move |step: Step| match step {
                Step::Off => 0,
                Step::Fast => 4 * scale,
                Step::Default => 5 * scale,
                Step::High => 7 * scale,
                Step::Best => 10 * scale,
            }
        };
        let check = |cpu_percent: u8, base: u16, scale: u16, expected: std::ops::RangeInclusive<u16>| {
            let (load, shares) = run(Limits { cpu_percent, ..TOP }, base, cost(scale), 60);
            assert!(expected.contains(&load), "{cpu_percent} % {base} {scale}: {load} {shares:?}");
        };
        // Everything fits.
        check(85, 100, 20, 300..=300);
        // Part of it fits: the limit is used and not passed.
        check(85, 300, 70, 800..=850);
        check(85, 300, 100, 800..=850);
        check(85, 300, 200, 790..=850);
        check(85, 500, 300, 780..=850);
        check(50, 100, 100, 450..=500);
        // The rest alone is too much: nothing is compressed.
        check(85, 900, 50, 900..=900);
        // No limit.
        check(100, 900, 50, 1000..=1000);
    }

    #[test]
    fn nothing_is_compressed_where_nothing_fits() {
        let (_, shares) = run(TOP, 950, |_| 0, 30);
        assert_eq!(
            shares.iter().map(|(_, n)| *n > 0).collect::<Vec<_>>(),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn steps_follow_the_load() {
        // Ten windows at each load: the step in force after them.
        let check = |limits: Limits, loads: &[u16], expected: &[Step]| {
            let mut throttle = Throttle::new(limits);
            let mut now_ms = 0;
            let steps: Vec<Step> = loads
                .iter()
                .map(|load| {
                    for _ in 0..10 {
                        now_ms += WINDOW_MS;
                        throttle.observe(busy(*load), now_ms);
                    }
                    throttle.in_force().step
                })
                .collect();
            assert_eq!(steps, expected, "{loads:?}");
        };
        use Step::*;
        check(TOP, &[0, 500, 840], &[Best, Best, Best]);
        check(TOP, &[870; 7], &[Best, High, High, Default, Default, Fast, Off]);
        check(TOP, &[900; 4], &[High, Default, Fast, Off]);
        check(TOP, &[1000; 2], &[Fast, Off]);
        // Back again, slower than down, and not while the load is near the limit.
        check(TOP, &[1000, 1000, 830, 820, 700, 400, 300], &[Fast, Off, Off, Off, Fast, Best, Best]);
        let middle = Limits { max_level: 2, ..TOP };
        check(middle, &[0, 900, 900, 900, 900], &[Best, Default, Fast, Off, Off]);
        let low = Limits { max_level: 1, ..TOP };
        check(low, &[0, 900, 900, 900, 900], &[Best, Fast, Off, Off, Off]);
        check(Limits { max_level: 0, ..TOP }, &[0], &[Off]);
        check(Limits { cpu_percent: 100, ..TOP }, &[1000], &[Best]);
    }

    #[test]
    fn a_pause_counts_as_several_windows() {
        let mut throttle = Throttle::new(TOP);
        throttle.observe(busy(900), 0);
        let after_one = throttle.dial;
        let mut other = Throttle::new(TOP);
        other.turned_ms = Some(0);
        other.observe(busy(900), 5 * WINDOW_MS);
        assert!(other.dial < after_one);
        assert!(!throttle.is_due(WINDOW_MS - 1));
        assert!(throttle.is_due(WINDOW_MS));
    }

    #[test]
    fn the_rate_of_the_process_is_kept() {
        let mut throttle = Throttle::new(Limits { rate_bytes_per_second: 1600, ..Limits::default() });
        let mut check = |rate, expected| assert_eq!(throttle.next(rate).0, expected, "{rate}");
        check(0, Step::Best);
        check(1599, Step::Best);
        check(1600, Step::Off);
        // Not before it is clearly below the limit.
        check(1550, Step::Off);
        check(1499, Step::Best);
        check(1550, Step::Best);
        assert_eq!(throttle.next(2000), (Step::Off, Reason::Rate));
        assert_eq!(throttle.during(), Level::Fast);
    }

    #[test]
    fn shares_are_even() {
        let mut throttle = Throttle::new(TOP);
        throttle.dial = UNITS + UNITS / 4;
        let steps: Vec<Step> = (0..8).map(|_| throttle.next(0).0).collect();
        use Step::*;
        assert_eq!(steps, [Fast, Fast, Fast, Default, Fast, Fast, Fast, Default]);
        assert_eq!(throttle.in_force(), InForce { step: Default, share_percent: 25, reason: Reason::Cpu });
    }

    #[test]
    fn levels_of_steps() {
        let check = |max_level, step, expected| {
            assert_eq!(
                Throttle::new(Limits { max_level, ..TOP }).level(step),
                expected,
                "{max_level} {step:?}"
            );
        };
        check(1, Step::Best, Some(Level::Fast));
        check(2, Step::Best, Some(Level::Default));
        check(4, Step::Best, Some(Level::Default));
        check(5, Step::Best, Some(Level::High));
        check(9, Step::High, Some(Level::High));
        check(9, Step::Fast, Some(Level::Fast));
        check(9, Step::Off, None);
    }

    #[test]
    fn limits_change_at_run_time() {
        let mut throttle = Throttle::new(TOP);
        throttle.dial = 3;
        throttle.set_limits(Limits { cpu_percent: 100, ..TOP });
        assert_eq!(
            throttle.in_force(),
            InForce { step: Step::Best, share_percent: 100, reason: Reason::Free }
        );
    }
}
