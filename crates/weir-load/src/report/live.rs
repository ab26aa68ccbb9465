//! How a run goes while it goes: one line, rewritten on a terminal, or plain lines.

use std::collections::VecDeque;

use super::units;
use crate::result::{Phase, Progress};

/// Intervals that the curve shows.
const CURVE: usize = 24;

/// Eighths of a line, from nothing to all.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Where a line starts on a terminal: at the margin, with what was there gone.
const REWRITE: &str = "\r\x1b[K";

/// Columns of a terminal that does not tell how many it has.
const DEFAULT_COLUMNS: usize = 80;

/// The progress of one run.
#[derive(Debug)]
pub struct Live {
    /// Columns of the terminal; none for plain lines.
    columns: Option<usize>,
    rates: VecDeque<f64>,
    seconds: f64,
}

impl Live {
    /// For a terminal with so many columns.
    #[must_use]
    pub fn on_terminal(columns: Option<usize>) -> Self {
        let columns = columns.filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS);
        Self { columns: Some(columns), rates: VecDeque::new(), seconds: 0.0 }
    }

    /// For a file or a pipe.
    #[must_use]
    pub fn plain() -> Self {
        Self { columns: None, rates: VecDeque::new(), seconds: 0.0 }
    }

    /// What to print for an interval that has ended.
    pub fn update(&mut self, progress: &Progress) -> String {
        let interval = &progress.interval;
        self.rates.push_back(interval.rate());
        if self.rates.len() > CURVE {
            self.rates.pop_front();
        }
        self.seconds = interval.at_seconds + interval.seconds;
        let line = self.line(progress);
        let Some(columns) = self.columns else { return format!("{line}\n") };
        // The last column stays empty: a terminal may begin a new line behind it.
        let mut shown: String = line.chars().take(columns.saturating_sub(1)).collect();
        let left = columns.saturating_sub(shown.chars().count() + 3);
        if left >= 4 {
            shown.push_str("  ");
            shown.push_str(&self.curve(left));
        }
        format!("{REWRITE}{shown}")
    }

    /// What to print when the run is over.
    #[must_use]
    pub fn finish(&self) -> &'static str {
        if self.columns.is_some() { REWRITE } else { "" }
    }

    fn line(&self, progress: &Progress) -> String {
        let interval = &progress.interval;
        let mut line = format!("{:>5.0} s", self.seconds);
        if let Some(done) = progress.done {
            line.push_str(&format!(" {:>3.0} %", (done * 100.0).clamp(0.0, 100.0)));
        }
        line.push_str(&match progress.phase {
            Phase::WarmUp => "  warm-up".to_owned(),
            Phase::Measuring => String::new(),
            Phase::Step { rate } => format!("  step {}/s", units::rate(rate)),
        });
        let errors = progress.totals.errors.failed() + progress.totals.errors.bad_status;
        line.push_str(&format!(
            "  {}/s  errors {}  p50 {}  p99 {}",
            units::rate(interval.rate()),
            units::count(errors),
            latency(interval.p50_seconds),
            latency(interval.p99_seconds)
        ));
        line
    }

    /// The rates of the last intervals as bars, the highest as high as a line.
    fn curve(&self, columns: usize) -> String {
        let skipped = self.rates.len().saturating_sub(columns);
        let highest = self.rates.iter().copied().fold(0.0, f64::max);
        let bar = |rate: &f64| {
            let eighths = if highest > 0.0 { (rate / highest * 7.0).round() as usize } else { 0 };
            BARS[eighths.min(BARS.len() - 1)]
        };
        self.rates.iter().skip(skipped).map(bar).collect()
    }
}

/// A second without an answer has no latency, and above all not a short one.
fn latency(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), units::time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Interval, Totals};

    fn progress(second: u64, answers: u64, phase: Phase) -> Progress {
        let interval = Interval {
            at_seconds: second as f64,
            seconds: 1.0,
            answers,
            p50_seconds: (answers > 0).then_some(0.001_2),
            p99_seconds: (answers > 0).then_some(0.015),
            ..Interval::default()
        };
        let mut totals = Totals::default();
        totals.errors.reset = 3;
        totals.errors.bad_status = 4;
        Progress { phase, interval, totals, done: Some((second + 1) as f64 / 10.0) }
    }

    #[test]
    fn plain_lines() {
        let mut live = Live::plain();
        let mut check = |progress: &Progress, expected: &str| assert_eq!(live.update(progress), expected);
        check(
            &progress(0, 12_345, Phase::Measuring),
            "    1 s  10 %  12,345/s  errors 7  p50 1.20 ms  p99 15.0 ms\n",
        );
        check(
            &progress(1, 5, Phase::WarmUp),
            "    2 s  20 %  warm-up  5/s  errors 7  p50 1.20 ms  p99 15.0 ms\n",
        );
        check(
            &progress(2, 0, Phase::Step { rate: 2000.0 }),
            "    3 s  30 %  step 2,000/s  0/s  errors 7  p50 -  p99 -\n",
        );
        assert_eq!(live.finish(), "");
    }

    #[test]
    fn a_terminal_shows_a_curve_where_there_is_room() {
        let mut live = Live::on_terminal(Some(70));
        live.update(&progress(0, 0, Phase::Measuring));
        live.update(&progress(1, 50, Phase::Measuring));
        let shown = live.update(&progress(2, 100, Phase::Measuring));
        assert_eq!(shown, "\r\x1b[K    3 s  30 %  100/s  errors 7  p50 1.20 ms  p99 15.0 ms  ▁▅█");
        let mut narrow = Live::on_terminal(Some(20));
        assert_eq!(narrow.update(&progress(0, 1, Phase::Measuring)), "\r\x1b[K    1 s  10 %  1/s ");
        assert_eq!(narrow.finish(), "\r\x1b[K");
    }

    #[test]
    fn the_curve_is_bounded() {
        let mut live = Live::on_terminal(None);
        for second in 0..1000 {
            live.update(&progress(second, second, Phase::Measuring));
        }
        assert_eq!(live.rates.len(), CURVE);
    }
}
