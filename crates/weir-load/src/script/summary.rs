//! What `done` is called with.

use mlua::{Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods};

use crate::histogram::Histogram;
use crate::result::RunResult;

/// The summary, the latencies in microseconds, and the requests a second of a thread.
pub(super) fn arguments(lua: &Lua, result: &RunResult) -> mlua::Result<(Table, Distribution, Distribution)> {
    let (totals, errors) = (&result.totals, &result.totals.errors);
    let found = lua.create_table()?;
    found.set("connect", errors.connect + errors.tls)?;
    found.set("read", errors.reset + errors.protocol)?;
    found.set("write", 0)?;
    found.set("status", errors.bad_status)?;
    found.set("timeout", result.late())?;
    let summary = lua.create_table()?;
    summary.set("duration", (result.elapsed_seconds * 1e6).round())?;
    summary.set("requests", totals.answers)?;
    summary.set("bytes", totals.received_bytes)?;
    summary.set("errors", found)?;
    let threads = f64::from(result.plan.threads.max(1));
    let rates = result.intervals.iter().map(|interval| ((interval.rate() / threads).round() as u64, 1));
    Ok((summary, Distribution::of_times(result.times.latency()), Distribution::new(rates)))
}

/// Values and how often each was seen, the smallest first.
pub(super) struct Distribution(Vec<(u64, u64)>);

impl Distribution {
    fn new(values: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<(u64, u64)> = values.collect();
        sorted.sort_unstable();
        sorted.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
            }
            same
        });
        Self(sorted)
    }

    /// In microseconds.
    fn of_times(times: &Histogram) -> Self {
        Self::new(times.buckets().map(|(ns, count)| ((ns + 500) / 1000, count)))
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
        sum / self.count().max(1) as f64
    }

    /// Of a sample, as wrk has it.
    fn deviation(&self) -> f64 {
        let (mean, count) = (self.mean(), self.count());
        let square = |(value, count): &(u64, u64)| (*value as f64 - mean).powi(2) * *count as f64;
        let sum: f64 = self.0.iter().map(square).sum();
        if count < 2 { 0.0 } else { (sum / (count - 1) as f64).sqrt() }
    }

    /// The value that so many percent do not exceed.
    fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.or_else(|| self.0.last()).map_or(0, |(value, _)| *value)
    }
}

impl UserData for Distribution {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, all| Ok(all.0.first().map_or(0, |(value, _)| *value)));
        fields.add_field_method_get("max", |_, all| Ok(all.0.last().map_or(0, |(value, _)| *value)));
        fields.add_field_method_get("mean", |_, all| Ok(all.mean()));
        fields.add_field_method_get("stdev", |_, all| Ok(all.deviation()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, all, percent: f64| Ok(all.percentile(percent)));
        // `latency(3)` is the third smallest value and its count, `#latency` how many different ones there are.
        methods.add_meta_method(MetaMethod::Len, |_, all, ()| Ok(all.0.len()));
        methods.add_meta_method(MetaMethod::Call, |_, all, number: usize| {
            Ok(number.checked_sub(1).and_then(|at| all.0.get(at)).copied().unzip())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let all = Distribution::new([(5, 1), (1, 2), (9, 6), (5, 1)].into_iter());
        assert_eq!(all.0, [(1, 2), (5, 2), (9, 6)]);
        let check = |percent, expected| assert_eq!(all.percentile(percent), expected, "{percent}");
        check(0.0, 1);
        check(20.0, 1);
        check(20.1, 5);
        check(40.0, 5);
        check(50.0, 9);
        check(100.0, 9);
        assert!((all.mean() - 6.6).abs() < 1e-9 && (all.deviation() - 3.373).abs() < 1e-3);
        let none = Distribution::new(std::iter::empty());
        assert_eq!((none.percentile(50.0), none.mean(), none.deviation()), (0, 0.0, 0.0));
    }
}
