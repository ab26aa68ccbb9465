//! Changes to servers at run time: what the commands and the statistics page's form have in common.
//!
//! Owns how a weight is written and which algorithms allow which changes; what follows from a change is
//! `weir-proxy`'s.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_proxy::Shared;
use weir_proxy::state::ServerState;

/// What an administrator wants of a server (`set server state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Ready,
    Drain,
    Maintenance,
}

/// Changes the administrative state.
pub(crate) fn wish(shared: &Shared, server: &Arc<ServerState>, wish: Wish) {
    match wish {
        Wish::Ready => shared.set_ready(server),
        Wish::Drain => shared.set_drain(server),
        Wish::Maintenance => shared.set_maint(server),
    }
}

/// Highest weight.
const MAX_WEIGHT: u32 = 256;

/// A weight as written: absolute, or relative to the configured one.
pub(crate) fn set_weight(
    shared: &Shared,
    server: &Arc<ServerState>,
    written: &str,
) -> Result<(), &'static str> {
    let weight = weight(server.config.weight, written)?;
    if weight != 0 && weight != server.config.weight && is_static(shared, server.proxy) {
        return Err("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.");
    }
    server.weight.store(weight, Relaxed);
    server.changed();
    Ok(())
}

fn weight(initial: u32, written: &str) -> Result<u32, &'static str> {
    let (digits, relative) = match written.strip_suffix('%') {
        Some(digits) => (digits, true),
        None => (written, false),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return Err("Empty weight string empty or preceded by garbage");
    }
    let number: i64 = digits.parse().map_err(|_| "Trailing garbage in weight string")?;
    if relative {
        let percent = u64::try_from(number).map_err(|_| "Relative weight must be positive.")?;
        let weight = u64::from(initial).saturating_mul(percent) / 100;
        return Ok(u32::try_from(weight).unwrap_or(MAX_WEIGHT).min(MAX_WEIGHT));
    }
    let weight = u32::try_from(number).ok().filter(|weight| *weight <= MAX_WEIGHT);
    weight.ok_or("Absolute weight can only be between 0 and 256 inclusive.")
}

/// Whether a backend's algorithm places servers once and for all.
pub(crate) fn is_static(shared: &Shared, backend: usize) -> bool {
    shared.proxies[backend].picker.settings().is_static()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_as_written() {
        let check = |written: &str, expected: Result<u32, &str>| {
            assert_eq!(weight(10, written), expected, "{written}");
        };
        check("5", Ok(5));
        check("0", Ok(0));
        check("256", Ok(256));
        check("257", Err("Absolute weight can only be between 0 and 256 inclusive."));
        check("-1", Err("Absolute weight can only be between 0 and 256 inclusive."));
        check("50%", Ok(5));
        check("99999999999999%", Ok(256));
        check("-5%", Err("Relative weight must be positive."));
        check("x", Err("Empty weight string empty or preceded by garbage"));
        check("", Err("Empty weight string empty or preceded by garbage"));
        check("5x", Err("Trailing garbage in weight string"));
        check("999999999999999999999", Err("Trailing garbage in weight string"));
    }
}
