//! Times of a run, counted with three digits from 64 nanoseconds to an hour.
//!
//! Owns the range and the form in which counts are written to a file; how counts are kept is the crate
//! `hdrhistogram`'s.

use std::time::Duration;

use hdrhistogram::iterators::{HistogramIterator, quantile, recorded};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The shortest time told apart from nothing, in nanoseconds; counts below 131 µs have this step's precision.
const STEP_NS: u64 = 64;

/// The longest time that is counted as it is, in nanoseconds: longer ones count as this.
const MAX_NS: u64 = 3_600_000_000_000;

/// Decimal digits that hold.
const DIGITS: u8 = 3;

/// The least number of buckets between nothing and a value: `DIGITS` hold.
const BUCKETS_OF_A_VALUE: f64 = 1000.0;

/// Most counts of a histogram that is read from a file; one of this range has fewer.
const MAX_BUCKETS: usize = 65_536;

/// How often each time was seen.  All histograms have the same range and can be added.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(STEP_NS, MAX_NS, DIGITS);
        Self(counts.expect("the bounds are constants that the crate accepts"))
    }

    /// Counts one time.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.record_ns(u64::try_from(time.as_nanos()).unwrap_or(MAX_NS));
    }

    /// Counts one time in nanoseconds.
    #[inline]
    pub fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns.min(MAX_NS));
    }

    /// Counts one time in nanoseconds `count` times.
    pub fn record_many_ns(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns.min(MAX_NS), count);
    }

    /// Adds all counts of another.
    pub fn add(&mut self, other: &Self) {
        if !other.is_empty() {
            self.0.add(&other.0).expect("all histograms have the same range");
        }
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time that this share (0 to 1) of all counted times does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// The time that so many percent of all counted times do not exceed.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        self.quantile(percent / 100.0)
    }

    /// The shortest time counted.
    #[must_use]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.0.min())
    }

    /// The longest time counted.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation in nanoseconds.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// The share (0 to 1) of times at most one standard deviation from the mean, as wrk and h2load print it.
    #[must_use]
    pub fn within_deviation(&self) -> f64 {
        let mean = self.mean_ns();
        // A single time is counted as another one of its bucket, and is nevertheless its own mean.
        let deviation = self.deviation_ns() + mean / BUCKETS_OF_A_VALUE + STEP_NS as f64;
        let near = |ns: u64| (ns as f64 - mean).abs() <= deviation;
        let count: u64 = self.buckets().filter(|(ns, _)| near(*ns)).map(|(_, count)| count).sum();
        if self.is_empty() { 0.0 } else { count as f64 / self.count() as f64 }
    }

    /// The values that were counted, each with its count, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Steps that halve the distance to 100 % after every `ticks` steps, as a `.hgrm` file has them.
    pub fn halving(&self, ticks: u32) -> HistogramIterator<'_, u64, quantile::Iter<'_, u64>> {
        self.0.iter_quantiles(ticks)
    }

    /// Every value that was counted, with its percentile.
    pub fn recorded(&self) -> HistogramIterator<'_, u64, recorded::Iter> {
        self.0.iter_recorded()
    }
}

/// What is written to a file: `[nanoseconds, count]` for every value that was counted.
#[derive(Serialize, Deserialize)]
struct Written {
    unit: String,
    count: u64,
    buckets: Vec<(u64, u64)>,
}

/// The only unit that is written and read.
const UNIT: &str = "ns";

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buckets = self.buckets().collect();
        Written { unit: UNIT.to_owned(), count: self.count(), buckets }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        if written.unit != UNIT {
            return Err(D::Error::custom(format!("times in '{}', expected '{UNIT}'", written.unit)));
        }
        if written.buckets.len() > MAX_BUCKETS {
            return Err(D::Error::custom(format!("more than {MAX_BUCKETS} buckets")));
        }
        let mut histogram = Self::new();
        for (ns, count) in written.buckets {
            histogram.record_many_ns(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_agree_with_a_sorted_list(
            mut times in proptest::collection::vec(0u64..20_000_000_000, 1..400),
            percent in 0.0f64..100.0,
        ) {
            let mut histogram = Histogram::new();
            times.iter().for_each(|ns| histogram.record_ns(*ns));
            times.sort_unstable();
            let rank = (percent / 100.0 * times.len() as f64).ceil().max(1.0) as usize;
            let naive = times[rank - 1] as f64;
            let counted = histogram.percentile(percent).as_nanos() as f64;
            let step = (STEP_NS as f64).max(naive / 1000.0);
            prop_assert!((counted - naive).abs() <= step, "p{percent}: {counted}, sorted {naive}");
            prop_assert_eq!(histogram.count(), times.len() as u64);
        }

        #[test]
        fn what_is_written_is_read(times in proptest::collection::vec(0u64..5_000_000_000_000, 0..100)) {
            let mut histogram = Histogram::new();
            times.iter().for_each(|ns| histogram.record_ns(*ns));
            let text = serde_json::to_string(&histogram).unwrap();
            let read: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, histogram);
        }
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let check = |text: &str| assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        check("{}");
        check(r#"{"unit":"ms","count":0,"buckets":[]}"#);
        check(r#"{"unit":"ns","count":0,"buckets":[[1]]}"#);
        check(r#"{"unit":"ns","count":0,"buckets":[[-1,1]]}"#);
    }

    #[test]
    fn share_near_the_mean() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.within_deviation(), 0.0);
        histogram.record_many_ns(1_000_000, 98);
        histogram.record_many_ns(100_000_000, 2);
        assert_eq!(histogram.within_deviation(), 0.98);
    }

    #[test]
    fn times_within_a_deviation() {
        let check = |times: &[u64], expected: f64| {
            let mut histogram = Histogram::new();
            times.iter().for_each(|ns| histogram.record_ns(*ns));
            assert!((histogram.within_deviation() - expected).abs() < 1e-9, "{times:?}");
        };
        check(&[], 0.0);
        check(&[123_457], 1.0);
        check(&[3_444_321; 5], 1.0);
        check(&[1_000_000, 1_000_000, 1_000_000, 9_000_000], 0.75);
    }
}
