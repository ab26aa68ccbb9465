//! The percentile distribution as HdrHistogram's tools read it (`.hgrm`), in milliseconds.

use crate::histogram::Histogram;

/// Steps before the distance to 100 % is halved, as in wrk2.
const TICKS: u32 = 5;

/// Buckets of a histogram from 64 ns to an hour with three digits, and their parts.
const BUCKETS: u32 = 26;
const SUB_BUCKETS: u32 = 2048;

/// The whole file.
#[must_use]
pub fn hgrm(histogram: &Histogram) -> String {
    let mut text =
        format!("{:>12} {:>12} {:>12} {:>12}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    text.push_str(&spectrum(histogram));
    text
}

/// The rows and the closing lines.
pub(crate) fn spectrum(histogram: &Histogram) -> String {
    let ms = |ns: f64| ns / 1e6;
    let mut text = String::new();
    let mut total = 0;
    for step in histogram.halving(TICKS) {
        total += step.count_since_last_iteration();
        let value = ms(step.value_iterated_to() as f64);
        let quantile = step.quantile_iterated_to();
        text.push_str(&match quantile < 1.0 {
            true => format!("{value:12.3} {quantile:12.6} {total:12} {:12.2}\n", 1.0 / (1.0 - quantile)),
            false => format!("{value:12.3} {quantile:12.6} {total:12}          inf\n"),
        });
    }
    text.push_str(&format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {BUCKETS:12}, SubBuckets     = {SUB_BUCKETS:12}]\n",
        ms(histogram.mean_ns()),
        ms(histogram.deviation_ns()),
        ms(histogram.max().as_nanos() as f64),
        histogram.count()
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_trailer() {
        let mut histogram = Histogram::new();
        for ms in 1..=20 {
            histogram.record_ns(ms * 1_000_000);
        }
        let text = hgrm(&histogram);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value   Percentile   TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "       1.000     0.000000            1         1.00");
        assert_eq!(lines[3], "       2.001     0.100000            2         1.11");
        assert!(lines.iter().any(|line| line.ends_with(" 0.500000           10         2.00")), "{text}");
        let last = &lines[lines.len() - 4..];
        assert!(last[0].ends_with(" 1.000000           20          inf"), "{text}");
        assert!(
            last[1].starts_with("#[Mean    =       10.499") && last[1].contains("StdDeviation   ="),
            "{text}"
        );
        assert!(last[2].ends_with("Total count    =           20]"), "{text}");
        assert_eq!(last[3], "#[Buckets =           26, SubBuckets     =         2048]");
    }

    #[test]
    fn nothing_counted() {
        assert!(hgrm(&Histogram::new()).contains("Total count    =            0]"));
    }

    /// The counts add up whatever was recorded, and no row goes back.
    #[test]
    fn rows_only_rise() {
        let mut histogram = Histogram::new();
        let mut state = 7u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            histogram.record_ns((state >> 33) % 900_000_000);
        }
        let (mut value, mut total) = (0.0, 0);
        for line in hgrm(&histogram).lines().skip(2).filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (next, count) = (words[0].parse::<f64>().unwrap(), words[2].parse::<u64>().unwrap());
            assert!(next >= value && count >= total, "{line}");
            (value, total) = (next, count);
        }
        assert_eq!(total, 10_000);
    }
}
