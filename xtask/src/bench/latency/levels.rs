//! Which rates the subjects are compared at.

/// Percent of the slowest subject's highest rate.
const OF_SLOWEST: [u32; 3] = [50, 70, 90];

/// The subject whose highest rate the others are measured by, too.
const REFERENCE: &str = "haproxy";

/// Percent of the reference's highest rate.
const OF_REFERENCE: [u32; 2] = [70, 90];

/// Rates that differ by less are one level.
const SAME: f64 = 0.03;

/// A rate at which subjects are compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level {
    /// Requests a second.
    pub(super) rate: f64,
    /// What it is a part of, in words.
    pub(super) name: String,
}

/// The levels for subjects with these highest rates, from the lowest up.
pub(super) fn levels(highest: &[(&str, f64)]) -> Vec<Level> {
    let Some(slowest) = highest.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Vec::new() };
    let reference = highest.iter().find(|(name, _)| *name == REFERENCE && *name != slowest.0);
    let parts = |of: &(&str, f64), percents: &[u32]| -> Vec<Level> {
        let level = |percent: &u32| Level {
            // Whole tens: a rate that is easy to read and to repeat.
            rate: (of.1 * f64::from(*percent) / 1000.0).floor() * 10.0,
            name: format!("{percent} % of {}'s highest", of.0),
        };
        percents.iter().map(level).collect()
    };
    let mut levels = parts(slowest, &OF_SLOWEST);
    levels.extend(reference.map(|reference| parts(reference, &OF_REFERENCE)).unwrap_or_default());
    levels.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    levels.dedup_by(|next, level| {
        let same = next.rate <= level.rate * (1.0 + SAME);
        if same {
            level.name = format!("{}, {}", level.name, next.name);
        }
        same
    });
    levels
}

/// The middle of the rates that the rounds found.
pub(super) fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_parts_of_the_slowest_and_of_the_reference() {
        let check = |highest: &[(&str, f64)], expected: &[(f64, &str)]| {
            let found = levels(highest);
            let found: Vec<(f64, &str)> =
                found.iter().map(|level| (level.rate, level.name.as_str())).collect();
            assert_eq!(found, expected, "{highest:?}");
        };
        check(&[], &[]);
        check(
            &[("weir", 20_000.0), ("haproxy", 10_000.0)],
            &[
                (5_000.0, "50 % of haproxy's highest"),
                (7_000.0, "70 % of haproxy's highest"),
                (9_000.0, "90 % of haproxy's highest"),
            ],
        );
        check(
            &[("weir", 20_000.0), ("haproxy", 10_000.0), ("caddy", 4_000.0)],
            &[
                (2_000.0, "50 % of caddy's highest"),
                (2_800.0, "70 % of caddy's highest"),
                (3_600.0, "90 % of caddy's highest"),
                (7_000.0, "70 % of haproxy's highest"),
                (9_000.0, "90 % of haproxy's highest"),
            ],
        );
        check(
            &[("nginx", 10_000.0), ("haproxy", 10_109.0)],
            &[
                (5_000.0, "50 % of nginx's highest"),
                (7_000.0, "70 % of nginx's highest, 70 % of haproxy's highest"),
                (9_000.0, "90 % of nginx's highest, 90 % of haproxy's highest"),
            ],
        );
    }

    #[test]
    fn the_median_is_the_lower_middle() {
        let check = |rates: &[f64], expected: Option<f64>| assert_eq!(median(rates.to_vec()), expected);
        check(&[], None);
        check(&[3.0], Some(3.0));
        check(&[3.0, 1.0], Some(1.0));
        check(&[3.0, 1.0, 2.0], Some(2.0));
    }
}
