//! Counters of tracked entries: what the data plane counts, and the rules' view of a table.
//!
//! An entry is tracked by a session (`tcp-request connection|session track-sc*`) until its connection ends,
//! or by a transaction (content and HTTP rules) until it is over.  Tracking begins in the rules' action,
//! through [`Handle`]; it ends here.

use std::rc::Rc;
use std::sync::Arc;

use weir_balance::{DataType, EntryId, Table};
use weir_config::status_set::StatusSet;
use weir_rules::facts::{self, Tracked};
use weir_rules::{Session, Txn};

use crate::state::Shared;
use crate::state::stick_table::{StickTable, StickTables, data_name};

/// A table for the rules.
pub(crate) struct Handle(Arc<StickTable>);

/// Handles of all tables, by index.
pub(crate) fn handles(tables: &StickTables) -> Vec<Rc<dyn facts::StickTable>> {
    tables.iter().map(|table| Rc::new(Handle(Arc::clone(table))) as Rc<dyn facts::StickTable>).collect()
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl facts::StickTable for Handle {
    fn read(&self, key: &[u8], data: &str) -> Option<i64> {
        let key = self.0.key_of(key)?;
        let lives_ms = self.0.settings().expire_ms;
        let read = |table: &mut Table, id: EntryId, now: u64| {
            let entry = table.entry(id)?;
            match data {
                "trackers" => Some(i64::from(entry.holders())),
                "expire" => lives_ms.map(|_| to_i64(entry.expire_ms().saturating_sub(now))),
                "idle" => lives_ms.map(|lives_ms| to_i64((now + lives_ms).saturating_sub(entry.expire_ms()))),
                _ => {
                    let (kind, element) = data_name(data)?;
                    table.value(id, kind, element, now).map(to_i64)
                }
            }
        };
        self.0.with(&key, read)?
    }

    fn add(&self, key: &[u8], data: &str, by: i64) -> Option<i64> {
        let key = self.0.key_of(key)?;
        let (kind, element) = data_name(data)?;
        let add = |table: &mut Table, id: EntryId, now: u64| {
            let rate = kind.rate_of_increments();
            match by {
                0.. => {
                    table.add(id, kind, element, by.unsigned_abs(), now);
                    // False where the table does not store it.
                    rate.is_some_and(|rate| table.add(id, rate, element, by.unsigned_abs(), now))
                }
                _ => table.subtract(id, kind, element, by.unsigned_abs()),
            };
            let value = table.value(id, kind, element, now);
            // A table may count the rate alone.
            value.or_else(|| table.value(id, rate?, element, now)).map(to_i64)
        };
        self.0.with_made(&key, add)?
    }

    fn set(&self, key: &[u8], data: &str, to: i64) {
        if let (Some(key), Some((kind, element))) = (self.0.key_of(key), data_name(data)) {
            self.0.set(&key, kind, element, u64::try_from(to).unwrap_or(0));
        }
    }

    fn touch(&self, key: &[u8]) -> bool {
        self.0.key_of(key).is_some_and(|key| self.0.make(&key))
    }

    fn key_type(&self) -> facts::KeyType {
        self.0.sample_type()
    }

    fn usage(&self) -> (usize, usize) {
        let used = self.0.used();
        (used, self.0.settings().size.saturating_sub(used))
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.key_of(key).is_some_and(|key| self.0.with(&key, |_, _, _| ()).is_some())
    }

    fn track(&self, key: &[u8], request: bool) -> bool {
        let Some(key) = self.0.key_of(key) else { return false };
        let begin = |table: &mut Table, id: EntryId, now: u64| {
            table.hold(id);
            for kind in [DataType::ConnCnt, DataType::ConnCur, DataType::ConnRate] {
                table.add(id, kind, 0, 1, now);
            }
            if request {
                count_all(table, id, REQUEST, 1, now);
            }
        };
        self.0.with_made(&key, begin).is_some()
    }
}

/// What one event adds to.
type Event = &'static [DataType];

const SESSION: Event = &[DataType::SessCnt, DataType::SessRate];
const REQUEST: Event = &[DataType::HttpReqCnt, DataType::HttpReqRate];
const GLITCH: Event = &[DataType::GlitchCnt, DataType::GlitchRate];
const ERROR: Event = &[DataType::HttpErrCnt, DataType::HttpErrRate];
const FAILURE: Event = &[DataType::HttpFailCnt, DataType::HttpFailRate];
const BYTES_IN: Event = &[DataType::BytesInCnt, DataType::BytesInRate];
const BYTES_OUT: Event = &[DataType::BytesOutCnt, DataType::BytesOutRate];

fn count_all(table: &mut Table, id: EntryId, event: Event, by: u64, now: u64) {
    for &kind in event {
        // False where the table does not store it.
        table.add(id, kind, 0, by, now);
    }
}

fn count(shared: &Shared, tracked: &Tracked, event: Event, by: u64) {
    let Some(table) = shared.tables.at(tracked.table) else { return };
    if by == 0 || !event.iter().any(|&kind| table.settings().stores(kind)) {
        return;
    }
    if let Some(key) = table.key_of(&tracked.key) {
        table.with_changed(&key, |table, id, now| count_all(table, id, event, by, now));
    }
}

fn count_session(shared: &Shared, session: &Session, event: Event, by: u64) {
    session.tracked.borrow().iter().flatten().for_each(|tracked| count(shared, tracked, event, by));
}

/// Protocol errors that a session's connection survived.
pub(crate) fn glitches(shared: &Shared, session: &Session, by: u64) {
    count_session(shared, session, GLITCH, by);
}

/// Counts for what a transaction tracks: its own entries, and its session's in other slots.
fn count_txn(shared: &Shared, txn: &Txn, event: Event, by: u64) {
    txn.tracked.iter().flatten().for_each(|tracked| count(shared, tracked, event, by));
    for (slot, tracked) in txn.session.tracked.borrow().iter().enumerate() {
        if let Some(tracked) = tracked
            && !matches!(txn.tracked.get(slot), Some(Some(_)))
        {
            count(shared, tracked, event, by);
        }
    }
}

/// A connection has passed the rules on sessions.
pub(crate) fn session_begins(shared: &Shared, session: &Session) {
    count_session(shared, session, SESSION, 1);
}

/// A connection is over.
pub(crate) fn session_ends(shared: &Shared, session: &Session) {
    release(shared, session.tracked.take());
}

/// A request's head has come: what rules on the connection track counts it.
pub(crate) fn request_begins(shared: &Shared, txn: &Txn) {
    count_session(shared, &txn.session, REQUEST, 1);
}

/// `tcp-request content` rules of the frontend have run on a request.
pub(crate) fn content_tracked(shared: &Shared, txn: &Txn) {
    txn.tracked.iter().flatten().for_each(|tracked| count(shared, tracked, REQUEST, 1));
}

/// The server sent a response.
pub(crate) fn server_status(shared: &Shared, txn: &Txn, status: u16) {
    let global = &shared.config.global;
    if global.http_err_codes.unwrap_or(StatusSet::ERRORS).contains(status) {
        count_txn(shared, txn, ERROR, 1);
    }
    if global.http_fail_codes.unwrap_or(StatusSet::FAILURES).contains(status) {
        count_txn(shared, txn, FAILURE, 1);
    }
}

/// How a transaction went, before an answer that is made here tells of it.
pub(crate) fn count_outcome(shared: &Shared, txn: &Txn) {
    if txn.tracked.is_empty() && txn.session.tracked.borrow().is_empty() {
        return;
    }
    let http = txn.session.http_major != 0;
    match txn.termination {
        // Malformed, late, aborted or denied.
        [b'C' | b'c' | b'P', b'R' | b'T', ..] if http => count_txn(shared, txn, ERROR, 1),
        // No answer, or none that could be understood.
        [b'S' | b's' | b'P', b'H', ..] if http && txn.server_status == 0 => {
            count_txn(shared, txn, FAILURE, 1);
        }
        _ => {}
    }
}

/// What a transaction took, before its log line is written.
pub(crate) fn count_bytes(shared: &Shared, txn: &Txn) {
    count_txn(shared, txn, BYTES_IN, txn.bytes_in);
    count_txn(shared, txn, BYTES_OUT, txn.bytes_out);
}

/// A transaction is over.
pub(crate) fn transaction_ends(shared: &Shared, txn: &mut Txn) {
    release(shared, std::mem::take(&mut txn.tracked));
}

fn release(shared: &Shared, tracked: Vec<Option<Tracked>>) {
    for tracked in tracked.into_iter().flatten() {
        let Some(table) = shared.tables.at(tracked.table) else { continue };
        let Some(key) = table.key_of(&tracked.key) else { continue };
        table.with(&key, |table, id, now| {
            table.subtract(id, DataType::ConnCur, 0, 1);
            table.release(id, now);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::shared;
    use weir_rules::facts::StickTable as _;

    const STORED: &str = "conn_cnt,conn_cur,conn_rate(10s),sess_cnt,http_req_cnt,http_req_rate(10s),\
                          http_err_cnt,http_fail_cnt,bytes_in_cnt,bytes_out_rate(10s),gpc(2),gpt0,server_id";

    fn state() -> Arc<Shared> {
        shared(&format!("backend b\n stick-table type string size 10 expire 1m store {STORED}"))
    }

    fn handle(shared: &Shared) -> Handle {
        Handle(Arc::clone(shared.tables.at(0).unwrap()))
    }

    fn tracked(key: &[u8]) -> Vec<Option<Tracked>> {
        vec![None, Some(Tracked { table: 0, key: key.into() })]
    }

    #[test]
    fn rules_read_and_write() {
        let shared = state();
        let table = handle(&shared);
        assert_eq!((table.read(b"a", "gpc(0)"), table.read(b"a", "trackers")), (None, None));
        assert_eq!(table.add(b"a", "gpc(1)", 5), Some(5));
        assert_eq!(table.add(b"a", "gpc1", -2), Some(3));
        assert_eq!(table.add(b"a", "gpc(2)", 1), None);
        table.set(b"a", "gpt0", 7);
        table.set(b"a", "nonsense", 7);
        let check =
            |data: &str, expected: Option<i64>| assert_eq!(table.read(b"a", data), expected, "{data}");
        check("gpt0", Some(7));
        check("gpc1", Some(3));
        check("gpc(1)", Some(3));
        check("gpc0", Some(0));
        check("sess_rate", None);
        check("nonsense", None);
        check("trackers", Some(0));
        // Time goes on meanwhile.
        for data in ["idle", "expire"] {
            assert!(table.read(b"a", data).is_some_and(|ms| (0..=60_000).contains(&ms)), "{data}");
        }
        assert!(table.touch(b"b"));
        assert_eq!(table.read(b"b", "gpt0"), Some(0));
        assert_eq!((table.contains(b"b"), table.contains(b"c"), table.usage()), (true, false, (2, 8)));
    }

    #[test]
    fn rates_move_with_the_counters_they_belong_to() {
        let check = |stored: &str, added: &str, read: &[(&str, Option<i64>)]| {
            let shared = shared(&format!("backend b\n stick-table type string size 10 store {stored}"));
            let table = handle(&shared);
            table.add(b"a", added, 3);
            for (data, expected) in read {
                assert_eq!(table.read(b"a", data), *expected, "{stored}: {data} after {added}");
            }
        };
        check("gpc0,gpc0_rate(1h)", "gpc0", &[("gpc0", Some(3)), ("gpc0_rate", Some(3))]);
        check(
            "gpc1,gpc1_rate(1h)",
            "gpc1",
            &[("gpc1", Some(3)), ("gpc1_rate", Some(3)), ("gpc0_rate", None)],
        );
        let elements =
            [("gpc(1)", Some(3)), ("gpc_rate(1)", Some(3)), ("gpc_rate(0)", Some(0)), ("gpc1_rate", Some(3))];
        check("gpc(2),gpc_rate(2,1h)", "gpc(1)", &elements);
        check("gpc(2),gpc_rate(2,1h)", "gpc1", &elements);
        check("gpc0_rate(1h)", "gpc0", &[("gpc0", None), ("gpc0_rate", Some(3))]);
    }

    #[test]
    fn what_is_tracked_is_counted_until_its_end() {
        let shared = state();
        let table = handle(&shared);
        assert!(table.track(b"k", true));
        assert!(table.track(b"k", false));
        let read = |data: &str| table.read(b"k", data).unwrap();
        let values =
            || ["conn_cnt", "conn_cur", "conn_rate", "http_req_cnt", "http_req_rate", "trackers"].map(read);
        assert_eq!(values(), [2, 2, 2, 1, 1, 2]);
        count(&shared, tracked(b"k")[1].as_ref().unwrap(), ERROR, 1);
        count(&shared, tracked(b"k")[1].as_ref().unwrap(), BYTES_IN, 1000);
        count(&shared, tracked(b"k")[1].as_ref().unwrap(), BYTES_OUT, 500);
        assert_eq!(["http_err_cnt", "bytes_in_cnt", "bytes_out_rate"].map(read), [1, 1000, 500]);
        release(&shared, tracked(b"k"));
        assert_eq!(values(), [2, 1, 2, 1, 1, 1]);
        release(&shared, tracked(b"k"));
        assert_eq!(values(), [2, 0, 2, 1, 1, 0]);
    }

    #[test]
    fn a_full_table_tracks_no_more() {
        let shared = state();
        let table = handle(&shared);
        for key in 0..10u8 {
            assert!(table.track(&[key], false));
        }
        assert!(!table.track(b"more", false));
        release(&shared, tracked(&[3]));
        assert!(table.track(b"more", false));
    }

    #[test]
    fn threads_count_together() {
        let shared = state();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let table = handle(&shared);
                    for _ in 0..500 {
                        assert!(table.track(b"k", true));
                        release(&shared, tracked(b"k"));
                    }
                });
            }
        });
        let table = handle(&shared);
        let values = ["conn_cnt", "conn_cur", "http_req_cnt", "trackers"].map(|data| table.read(b"k", data));
        assert_eq!(values, [2000, 0, 2000, 0].map(Some));
    }
}
