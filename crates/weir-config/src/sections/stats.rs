//! Lines about the statistics page being read.

use weir_rules::{Condition, Rule};

use crate::model::Stats;

/// The page being described; any `stats` keyword turns it on.
#[derive(Default)]
pub(crate) struct StatsDraft {
    pub(crate) on: bool,
    pub(crate) stats: Stats,
    pub(crate) admin: Vec<Condition>,
    pub(crate) rules: Vec<Rule>,
}
