//! The bandwidth limitation filters: hold back what may not pass yet. Manual, section 9.7.
//!
//! How much may pass when is weir-balance's; this file counts what did, for the stream or in the entry of a stick
//! table that several streams share, keeps what waits, and wakes the stream.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_balance::{Bandwidth, DataType, Key, Passage, RateCounter};
use weir_compress::Ending;
use weir_config::model::{self, BandwidthFilter, BandwidthScope};
use weir_net::timers::{Deadline, now_ms};
use weir_rules::facts::BandwidthLimit;

use super::{Direction, GATHER_BYTES};
use crate::exchange::Exchange;
use crate::state::stick_table::StickTable;

/// A `filter bwlim-in` or `filter bwlim-out` line.
#[derive(Debug)]
pub(super) struct Settings {
    filter: Arc<BandwidthFilter>,
    proxy: Arc<str>,
}

impl Settings {
    pub(super) fn new(filter: &Arc<BandwidthFilter>, proxy: &model::Proxy) -> Self {
        Self { filter: Arc::clone(filter), proxy: Arc::from(&*proxy.name) }
    }

    pub(super) fn limits(&self, direction: Direction) -> bool {
        self.filter.upload == (direction == Direction::Request)
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> &str {
        &self.filter.name
    }

    /// What rules said about this filter.
    fn rule<'x>(&self, x: &'x Exchange) -> Option<&'x BandwidthLimit> {
        x.txn.bandwidth_limits.iter().find(|l| *l.filter == *self.filter.name && l.proxy == self.proxy)
    }
}

/// A body that passes the filter.
#[derive(Debug)]
pub(super) struct Body {
    settings: Rc<Settings>,
    /// Nothing before a rule turns the filter on.
    limit: Option<Limit>,
    /// What waits, at most what the filters before it made of one piece.
    held: Vec<u8>,
    /// What follows `held`.
    ending: Ending,
    /// Armed while more may not pass.
    turn: Deadline,
    waits: bool,
}

#[derive(Debug)]
struct Limit {
    rule: BandwidthLimit,
    bandwidth: Bandwidth,
    past: Past,
}

/// Where what passed is counted.
#[derive(Debug)]
enum Past {
    Own(RateCounter),
    Shared(Share),
}

/// A share of an entry of a stick table; held until it is dropped.
struct Share {
    table: Arc<StickTable>,
    key: Key,
    rate: DataType,
}

impl Body {
    pub(super) fn new(x: &Exchange, settings: &Rc<Settings>) -> Box<Self> {
        let mut body = Box::new(Self {
            settings: Rc::clone(settings),
            limit: None,
            held: Vec::new(),
            ending: Ending::Open,
            turn: Deadline::new(),
            waits: false,
        });
        body.follow_rules(x);
        body
    }

    /// Turns the filter on, or changes its limit, as the rules say by now.
    pub(super) fn follow_rules(&mut self, x: &Exchange) {
        let rule = self.settings.rule(x);
        if rule != self.limit.as_ref().map(|limit| &limit.rule) {
            self.limit = rule.and_then(|rule| Limit::new(x, &self.settings.filter, rule));
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.limit.is_some()
    }

    /// It keeps back what came to it.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Nothing may pass before its time.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Ready when something may pass: as many bytes.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            ready!(self.poll_turn(cx));
            let Some(limit) = &mut self.limit else { return Poll::Ready(GATHER_BYTES) };
            match limit.passage(GATHER_BYTES) {
                Passage::Now(bytes) => return Poll::Ready(usize::try_from(bytes).unwrap_or(GATHER_BYTES)),
                Passage::After(ms) => self.wait(ms),
            }
        }
    }

    /// Ready when it is worth asking again.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waits {
            ready!(self.turn.poll_expired(cx));
            self.waits = false;
        }
        Poll::Ready(())
    }

    fn wait(&mut self, ms: u64) {
        self.turn.set_after(Duration::from_millis(ms));
        self.waits = true;
    }

    /// Passes a piece on, or as much of it as may pass.
    pub(super) fn forward(&mut self, piece: &[u8], ending: Ending, next: impl FnOnce(&[u8], Ending)) {
        self.ending = ending;
        if self.holds() {
            self.held.extend_from_slice(piece);
            return;
        }
        let passing = self.spend(piece.len());
        match passing == piece.len() {
            true => next(piece, ending),
            false => {
                self.held.extend_from_slice(&piece[passing..]);
                if passing > 0 {
                    next(&piece[..passing], Ending::Flush);
                }
            }
        }
    }

    /// Passes on what was held and may pass now.
    pub(super) fn release(&mut self, next: impl FnOnce(&[u8], Ending)) {
        let passing = self.spend(self.held.len());
        if passing == self.held.len() {
            next(&std::mem::take(&mut self.held), self.ending);
        } else if passing > 0 {
            next(&self.held[..passing], Ending::Flush);
            self.held.drain(..passing);
        }
    }

    /// How many of these bytes pass; they count from now on.
    fn spend(&mut self, offered: usize) -> usize {
        let Some(limit) = &mut self.limit else { return offered };
        if offered == 0 || self.waits {
            return 0;
        }
        match limit.passage(offered) {
            Passage::Now(bytes) => {
                let pause_ms = limit.count(bytes);
                if pause_ms > 0 {
                    self.wait(pause_ms);
                }
                usize::try_from(bytes).unwrap_or(offered)
            }
            Passage::After(ms) => {
                self.wait(ms);
                0
            }
        }
    }
}

impl Limit {
    /// Nothing where the key has no value, or the table is full: such a stream is not limited.
    fn new(x: &Exchange, filter: &BandwidthFilter, rule: &BandwidthLimit) -> Option<Self> {
        let min_bytes = filter.min_bytes;
        let (bandwidth, past) = match &filter.scope {
            BandwidthScope::Stream { bytes, period } => {
                let limit_bytes = rule.limit_bytes.unwrap_or(*bytes);
                let period_ms = rule.period_ms.unwrap_or(period.as_millis() as u64);
                (Bandwidth { limit_bytes, period_ms, min_bytes }, Past::Own(RateCounter::default()))
            }
            BandwidthScope::Shared { bytes, key, table } => {
                let table = Arc::clone(x.worker.shared.tables.named(table)?);
                let key = table.key_from(key.eval(&x.txn)?)?;
                let rate = if filter.upload { DataType::BytesInRate } else { DataType::BytesOutRate };
                let period_ms = table.settings().period_ms(rate)?;
                let bandwidth = Bandwidth { limit_bytes: *bytes, period_ms, min_bytes };
                (bandwidth, Past::Shared(Share::take(table, key, rate)?))
            }
        };
        Some(Self { rule: rule.clone(), bandwidth, past })
    }

    fn passage(&self, offered: usize) -> Passage {
        let now = now_ms();
        let (counter, users) = match &self.past {
            Past::Own(counter) => (*counter, 1),
            // An entry that was cleared at run time limits nobody until it is made again.
            Past::Shared(share) => share.read().unwrap_or_default(),
        };
        self.bandwidth.passage(&counter, users, offered as u64, now)
    }

    /// Counts what passes; returns how long others come first, milliseconds.
    fn count(&mut self, bytes: u64) -> u64 {
        match &mut self.past {
            Past::Own(counter) => {
                self.bandwidth.count(counter, bytes, now_ms());
                0
            }
            Past::Shared(share) => {
                let users = share.count(&self.bandwidth, bytes);
                self.bandwidth.turn_ms(bytes, users)
            }
        }
    }
}

impl Share {
    fn take(table: Arc<StickTable>, key: Key, rate: DataType) -> Option<Self> {
        table.with_made(&key, |table, id, _| table.hold(id))?;
        Some(Self { table, key, rate })
    }

    /// What passed for all, and how many they are.
    fn read(&self) -> Option<(RateCounter, u32)> {
        self.table.with(&self.key, |table, id, _| {
            Some((table.rate(id, self.rate, 0)?.0, table.entry(id)?.holders()))
        })?
    }

    /// Counts what passes; returns how many share the limit.
    fn count(&self, bandwidth: &Bandwidth, bytes: u64) -> u32 {
        let users = self.table.with_changed(&self.key, |table, id, now| {
            let (mut counter, _) = table.rate(id, self.rate, 0)?;
            bandwidth.count(&mut counter, bytes, now);
            table.set_rate(id, self.rate, 0, counter);
            Some(table.entry(id)?.holders())
        });
        users.flatten().unwrap_or(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.table.with(&self.key, |table, id, now| table.release(id, now));
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
