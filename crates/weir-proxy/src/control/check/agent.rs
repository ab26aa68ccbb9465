//! What an agent says of its server (`agent-check`): its line, and what follows from it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_balance::{CheckResult, Limit};

use super::status::{Outcome, Status};
use crate::state::{ServerState, Shared};

/// An agent's line, understood.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Orders {
    weight: Option<Weight>,
    maxconn: Option<Limit>,
    admin: Option<Admin>,
    /// Up or not, with the word and the text after it.
    health: Option<(bool, Vec<u8>)>,
    /// A word that means nothing.
    unknown: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    /// Of the configured weight.
    Percent(u32),
    Absolute(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admin {
    Ready,
    Drain,
    Maint,
}

/// Heaviest a server can be.
const MAX_WEIGHT: u32 = 256;

/// Reads an agent's line.
pub(crate) fn parse(answer: &[u8]) -> Orders {
    let end = answer.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(answer.len());
    let mut orders = Orders::default();
    let mut rest = &answer[..end];
    loop {
        let start = rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b',')).unwrap_or(rest.len());
        rest = &rest[start..];
        if rest.is_empty() {
            return orders;
        }
        if let Some(description) = rest.strip_prefix(b"#") {
            // The rest of the line describes the state.
            orders.describe(description.trim_ascii());
            return orders;
        }
        let len = rest.iter().position(|b| matches!(b, b' ' | b'\t' | b',' | b'#')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        orders.take(word);
        rest = after;
    }
}

impl Orders {
    fn describe(&mut self, description: &[u8]) {
        if let Some((false, text)) = &mut self.health
            && !description.is_empty()
        {
            for part in [&b" ("[..], description, b")"] {
                text.extend_from_slice(part);
            }
        }
    }

    fn take(&mut self, word: &[u8]) {
        let lower = word.to_ascii_lowercase();
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
        match lower.as_slice() {
            b"ready" => self.admin = Some(Admin::Ready),
            b"drain" => self.admin = Some(Admin::Drain),
            b"maint" => self.admin = Some(Admin::Maint),
            b"up" => self.health = Some((true, lower)),
            b"down" | b"fail" | b"stopped" => self.health = Some((false, lower)),
            _ => {
                let weight = lower.strip_prefix(b"weight:").unwrap_or(&lower);
                let absolute = weight.len() < lower.len();
                let percent = weight.strip_suffix(b"%").and_then(number).map(Weight::Percent);
                let weight = percent.or_else(|| number(weight).filter(|_| absolute).map(Weight::Absolute));
                let maxconn = lower.strip_prefix(b"maxconn:").and_then(number);
                match (weight, maxconn) {
                    (Some(weight), _) => self.weight = Some(weight),
                    (None, Some(maxconn)) => self.maxconn = Some(Limit::new(maxconn as usize)),
                    (None, None) => self.unknown = Some(word.to_vec()),
                }
            }
        }
    }

    /// What the check's report says, and its part in the server's health.
    pub(crate) fn outcome(&self) -> (Outcome, CheckResult) {
        let (status, result) = match &self.health {
            Some((true, _)) => (Status::L7Ok, CheckResult::Passed),
            Some((false, _)) => (Status::L7Status, CheckResult::Failed),
            None => (Status::Checked, CheckResult::Neutral),
        };
        let mut text = Vec::new();
        if let Some((_, said)) = &self.health {
            text.extend_from_slice(b"via agent : ");
            text.extend_from_slice(said);
        } else if let Some(word) = &self.unknown {
            text.extend_from_slice(b"agent warns : unknown feedback: ");
            text.extend_from_slice(word);
        }
        (Outcome::new(status, text), result)
    }

    /// Does what the agent wants of weight, limit and administrative state.
    pub(crate) fn carry_out(&self, shared: &Shared, server: &Arc<ServerState>) {
        match self.admin {
            Some(Admin::Ready) => shared.set_ready(server),
            Some(Admin::Drain) => shared.set_drain(server),
            Some(Admin::Maint) => shared.set_maint(server),
            None => {}
        }
        let mut changed = false;
        if let Some(weight) = self.weight {
            let weight = match weight {
                Weight::Percent(percent) => (u64::from(server.config.weight) * u64::from(percent) / 100)
                    .min(u64::from(MAX_WEIGHT)) as u32,
                Weight::Absolute(weight) => weight.min(MAX_WEIGHT),
            };
            let is_static = shared.proxies[server.proxy].picker.settings().is_static();
            // Manual, `agent-check`: with a static algorithm a server has its own weight or none.
            if !is_static || weight == 0 || weight == server.config.weight {
                changed |= server.weight.swap(weight, Relaxed) != weight;
            }
        }
        if let Some(maxconn) = self.maxconn {
            changed |= server.maxconn.swap(maxconn, Relaxed) != maxconn;
        }
        if changed {
            server.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, expected: Orders| assert_eq!(parse(line.as_bytes()), expected, "{line}");
        let none = Orders::default;
        check("", none());
        check("75%\n", Orders { weight: Some(Weight::Percent(75)), ..none() });
        check("weight:10\r\nrest", Orders { weight: Some(Weight::Absolute(10)), ..none() });
        check("weight:50%", Orders { weight: Some(Weight::Percent(50)), ..none() });
        check(
            "75%,maxconn:30,maint,down\n",
            Orders {
                weight: Some(Weight::Percent(75)),
                maxconn: Some(Limit::new(30)),
                admin: Some(Admin::Maint),
                health: Some((false, b"down".to_vec())),
                ..none()
            },
        );
        check(
            "UP READY",
            Orders { admin: Some(Admin::Ready), health: Some((true, b"up".to_vec())), ..none() },
        );
        check(
            "drain fail#disk full\n",
            Orders {
                admin: Some(Admin::Drain),
                health: Some((false, b"fail (disk full)".to_vec())),
                ..none()
            },
        );
        check("stopped #x", Orders { health: Some((false, b"stopped (x)".to_vec())), ..none() });
        check("up #fine", Orders { health: Some((true, b"up".to_vec())), ..none() });
        check("30", Orders { unknown: Some(b"30".to_vec()), ..none() });
    }
}
