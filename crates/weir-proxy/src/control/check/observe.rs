//! Real traffic as a health check: `observe layer4|layer7`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::{CheckResult, OnError};
use weir_config::model::ObservedLayer;

use super::report;
use super::sentence::Cause;
use super::status::{Outcome, Status};
use crate::state::{ServerState, Shared};

/// How real traffic went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Connected,
    ConnectFailed,
    Response(u16),
    BadHead,
    ReadError,
    ReadTimeout,
    BrokenPipe,
}

impl Seen {
    /// Good or bad on a layer; nothing when it says nothing about it.
    fn is_good(self, layer: ObservedLayer) -> Option<bool> {
        let layer7 = layer == ObservedLayer::Layer7;
        match self {
            Self::Connected => (!layer7).then_some(true),
            Self::ConnectFailed => Some(false),
            _ if !layer7 => None,
            // Manual, `observe`: 100 to 499, 501 and 505 are valid.
            Self::Response(status) => Some(matches!(status, 100..=499 | 501 | 505)),
            Self::BadHead | Self::ReadError | Self::ReadTimeout | Self::BrokenPipe => Some(false),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Connected => "L4 successful connection",
            Self::ConnectFailed => "L4 unsuccessful connection",
            Self::Response(100..=499 | 501 | 505) => "Correct http response",
            Self::Response(_) => "Wrong http response",
            Self::BadHead => "Invalid http response (headers)",
            Self::ReadError => "Read error (http)",
            Self::ReadTimeout => "Read timeout (http)",
            Self::BrokenPipe => "Close from server (http)",
        }
    }
}

/// Reports how a request or connection to a server went.
pub(crate) fn observe(shared: &Shared, server: &Arc<ServerState>, seen: Seen) {
    let (Some(layer), true) = (server.config.observe, server.check_enabled.load(Relaxed)) else { return };
    match seen.is_good(layer) {
        None => {}
        Some(true) => server.observed_errors.store(0, Relaxed),
        Some(false) => count_error(shared, server, seen),
    }
}

fn count_error(shared: &Shared, server: &Arc<ServerState>, seen: Seen) {
    let errors = server.observed_errors.fetch_add(1, Relaxed) + 1;
    if errors < server.config.error_limit.max(1) {
        return;
    }
    server.observed_errors.store(0, Relaxed);
    let action = server.config.on_error;
    if action != OnError::FastInter {
        let text = format!("Detected {errors} consecutive errors, last one was: {}", seen.description());
        let outcome = Outcome::new(Status::HealthAnalyze, text);
        report::conclude(shared, server, Cause::Check, outcome, None, |machine, now| {
            if let Some(health) = &mut machine.health {
                health.observe_limit_reached(action);
            }
            machine.report_check(CheckResult::Neutral, now);
        });
    }
    server.standing.hurry.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers() {
        let check = |seen: Seen, layer4, layer7| {
            assert_eq!(
                (seen.is_good(ObservedLayer::Layer4), seen.is_good(ObservedLayer::Layer7)),
                (layer4, layer7),
                "{seen:?}"
            );
        };
        check(Seen::Connected, Some(true), None);
        check(Seen::ConnectFailed, Some(false), Some(false));
        check(Seen::Response(404), None, Some(true));
        check(Seen::Response(501), None, Some(true));
        check(Seen::Response(503), None, Some(false));
        check(Seen::ReadTimeout, None, Some(false));
    }
}
