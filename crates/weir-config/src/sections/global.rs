//! The `global` sections being read.

use std::time::Duration;

use weir_rules::{Place, Scope, Shared};

use crate::model::Global;

/// Idle time of a bind's defaults, kept here so that all who make binds agree.
pub(crate) const DEFAULT_STATS_TIMEOUT: Duration = Duration::from_secs(10);

/// The `global` sections being read.
pub(crate) struct GlobalDraft<'a> {
    pub(crate) global: Global,
    pub(crate) scope: Scope<'a>,
}

impl<'a> GlobalDraft<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        let mut scope = Scope::new(shared, "global");
        scope.place = Place::Start;
        let global = Global {
            stats_maxconn: 10,
            stats_timeout: Some(DEFAULT_STATS_TIMEOUT),
            strict_limits: true,
            reuseport: true,
            thread_groups: 1,
            maxcompcpuusage_percent: 100,
            ..Global::default()
        };
        Self { global, scope }
    }
}
