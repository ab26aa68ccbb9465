//! The limits on the work: `maxcomprate`, `maxcompcpuusage`, `tune.comp.maxlevel`.

pub use weir_deflate::Level;

/// The configured limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `maxcomprate`: input bytes a second of the whole process; 0 for no limit.
    pub rate_bytes_per_second: u64,
    /// `maxcompcpuusage`: percent of the processor time; 100 for no limit.
    pub cpu_percent: u8,
    /// `tune.comp.maxlevel`: 0 to 9.
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
    /// Processor use of this worker, in percent.
    pub cpu_percent: u8,
}

/// Which level a stream works at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    limits: Limits,
}

/// The configured levels from here on ask for the best ratio; those below are the default.
const HIGH_LEVEL: u8 = 4;

impl Throttle {
    /// A throttle with these limits.
    pub const fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// The level without any load: none where `tune.comp.maxlevel` is 0.
    pub const fn max_level(&self) -> Option<Level> {
        match self.limits.max_level {
            0 => None,
            1..HIGH_LEVEL => Some(Level::Default),
            _ => Some(Level::High),
        }
    }

    /// The level of a stream that begins; none means not to compress it.
    pub const fn at_start(&self, load: Load) -> Option<Level> {
        match self.pressure(load) {
            Pressure::Free => self.max_level(),
            Pressure::Near if self.limits.max_level == 0 => None,
            Pressure::Near => Some(Level::Fast),
            Pressure::Over => None,
        }
    }

    /// The level for a stream's next piece: a step down while over a limit, a step up while free.
    pub fn during(&self, level: Level, load: Load) -> Level {
        match self.pressure(load) {
            Pressure::Free => above(level).min(self.max_level().unwrap_or(Level::Fast)),
            Pressure::Near => level,
            Pressure::Over => below(level),
        }
    }

    const fn pressure(&self, load: Load) -> Pressure {
        let rate_limit = match self.limits.rate_bytes_per_second {
            0 => None,
            limit => Some(limit),
        };
        let cpu_limit = match self.limits.cpu_percent {
            100.. => None,
            limit => Some(limit as u64),
        };
        let rate = pressure(load.rate_bytes_per_second, rate_limit);
        let cpu = pressure(load.cpu_percent as u64, cpu_limit);
        match (rate, cpu) {
            (Pressure::Over, _) | (_, Pressure::Over) => Pressure::Over,
            (Pressure::Near, _) | (_, Pressure::Near) => Pressure::Near,
            (Pressure::Free, Pressure::Free) => Pressure::Free,
        }
    }
}

#[derive(Clone, Copy)]
enum Pressure {
    /// Below seven eighths of every limit.
    Free,
    /// Between: the level stays, so that it does not swing.
    Near,
    /// At a limit.
    Over,
}

const fn pressure(measured: u64, limit: Option<u64>) -> Pressure {
    let Some(limit) = limit else { return Pressure::Free };
    if measured >= limit {
        Pressure::Over
    } else if measured >= limit - limit / 8 {
        Pressure::Near
    } else {
        Pressure::Free
    }
}

const fn below(level: Level) -> Level {
    match level {
        Level::Fast | Level::Default => Level::Fast,
        Level::High => Level::Default,
    }
}

const fn above(level: Level) -> Level {
    match level {
        Level::Fast => Level::Default,
        Level::Default | Level::High => Level::High,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(rate_bytes_per_second: u64, cpu_percent: u8) -> Load {
        Load { rate_bytes_per_second, cpu_percent }
    }

    #[test]
    fn streams_begin_at_a_level_or_not_at_all() {
        let check =
            |limits, load, expected| assert_eq!(Throttle::new(limits).at_start(load), expected, "{load:?}");
        let none = Limits::default();
        check(none, load(u64::MAX, 100), Some(Level::Default));
        check(Limits { max_level: 0, ..none }, load(0, 0), None);
        check(Limits { max_level: 9, ..none }, load(0, 0), Some(Level::High));
        let both = Limits { rate_bytes_per_second: 1_000_000, cpu_percent: 85, max_level: 1 };
        check(both, load(0, 0), Some(Level::Default));
        check(both, load(900_000, 0), Some(Level::Fast));
        check(both, load(1_000_000, 0), None);
        check(both, load(0, 80), Some(Level::Fast));
        check(both, load(0, 85), None);
    }

    #[test]
    fn streams_step_down_and_up() {
        let limits = Limits { rate_bytes_per_second: 1000, cpu_percent: 100, max_level: 9 };
        let check = |level, rate, expected| {
            assert_eq!(Throttle::new(limits).during(level, load(rate, 100)), expected, "{level:?} {rate}");
        };
        check(Level::High, 1000, Level::Default);
        check(Level::Default, 1000, Level::Fast);
        check(Level::Fast, 1000, Level::Fast);
        check(Level::Fast, 900, Level::Fast);
        check(Level::Fast, 0, Level::Default);
        check(Level::Default, 0, Level::High);
        check(Level::High, 0, Level::High);
    }
}
