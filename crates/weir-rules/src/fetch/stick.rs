//! Fetches of stick-table counters: `sc_*` of tracked entries, `src_*` of the client's address.

use std::rc::Rc;

use crate::Txn;
use crate::expr::Cursor;
use crate::expr::args::{Arg, ArgKind as K, ArgSpec, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::facts::{StickTable, Tracked};
use crate::value::{Type, Value};

const TABLE: ArgSpec = args(0, &[K::Table]);

const COUNTER: ArgSpec = args(1, &[K::Int, K::Table]);

const INDEXED: ArgSpec = args(2, &[K::Int, K::Int, K::Table]);

const SRC_INDEXED: ArgSpec = args(1, &[K::Int, K::Table]);

macro_rules! counters {
    ($($key:literal => $doc:literal),* $(,)?) => { &[$(
        fetch(concat!("sc_", $key), COUNTER, Type::Int, N::Client, concat!($doc, " of the tracked entry."), tracked),
        fetch(concat!("sc0_", $key), TABLE, Type::Int, N::Client, concat!($doc, " of the first tracked entry."), tracked),
        fetch(concat!("sc1_", $key), TABLE, Type::Int, N::Client, concat!($doc, " of the second tracked entry."), tracked),
        fetch(concat!("sc2_", $key), TABLE, Type::Int, N::Client, concat!($doc, " of the third tracked entry."), tracked),
        fetch(concat!("src_", $key), TABLE, Type::Int, N::Client, concat!($doc, " of the client's address."), by_src),
    )*] };
}

pub(crate) static FETCHES: &[Fetch] = counters! {
    "bytes_in_rate" => "Rate of bytes received",
    "bytes_out_rate" => "Rate of bytes sent",
    "clr_gpc0" => "General purpose counter 0, which is cleared,",
    "clr_gpc1" => "General purpose counter 1, which is cleared,",
    "conn_cnt" => "Connections",
    "conn_cur" => "Concurrent connections",
    "conn_rate" => "Connection rate",
    "get_gpc0" => "General purpose counter 0",
    "get_gpc1" => "General purpose counter 1",
    "get_gpt0" => "General purpose tag 0",
    "glitch_cnt" => "Protocol irregularities",
    "glitch_rate" => "Rate of protocol irregularities",
    "gpc0_rate" => "Rate of general purpose counter 0",
    "gpc1_rate" => "Rate of general purpose counter 1",
    "http_err_cnt" => "HTTP errors",
    "http_err_rate" => "HTTP error rate",
    "http_fail_cnt" => "HTTP failures",
    "http_fail_rate" => "HTTP failure rate",
    "http_req_cnt" => "HTTP requests",
    "http_req_rate" => "HTTP request rate",
    "inc_gpc0" => "General purpose counter 0, which is incremented,",
    "inc_gpc1" => "General purpose counter 1, which is incremented,",
    "kbytes_in" => "Kilobytes received",
    "kbytes_out" => "Kilobytes sent",
    "sess_cnt" => "Sessions",
    "sess_rate" => "Session rate",
};

macro_rules! per_slot {
    ($($key:literal, $spec0:expr, $specn:expr, $type:expr, $doc:literal, $code:expr);* $(;)?) => { &[$(
        fetch(concat!("sc_", $key), $specn, $type, N::Client, $doc, $code),
        fetch(concat!("sc0_", $key), $spec0, $type, N::Client, $doc, $code),
        fetch(concat!("sc1_", $key), $spec0, $type, N::Client, $doc, $code),
        fetch(concat!("sc2_", $key), $spec0, $type, N::Client, $doc, $code),
    )*
        fetch("sc_clr_gpc", INDEXED, Type::Int, N::Client, "A general purpose counter by index, which is cleared.", tracked),
        fetch("sc_get_gpc", INDEXED, Type::Int, N::Client, "A general purpose counter by index.", tracked),
        fetch("sc_get_gpt", INDEXED, Type::Int, N::Client, "A general purpose tag by index.", tracked),
        fetch("sc_gpc_rate", INDEXED, Type::Int, N::Client, "Rate of a general purpose counter by index.", tracked),
        fetch("sc_inc_gpc", INDEXED, Type::Int, N::Client, "A general purpose counter by index, which is incremented.", tracked),
        fetch("src_clr_gpc", SRC_INDEXED, Type::Int, N::Client, "A general purpose counter of the client's address, which is cleared.", by_src),
        fetch("src_get_gpc", SRC_INDEXED, Type::Int, N::Client, "A general purpose counter of the client's address.", by_src),
        fetch("src_get_gpt", SRC_INDEXED, Type::Int, N::Client, "A general purpose tag of the client's address.", by_src),
        fetch("src_gpc_rate", SRC_INDEXED, Type::Int, N::Client, "Rate of a general purpose counter of the client's address.", by_src),
        fetch("src_inc_gpc", SRC_INDEXED, Type::Int, N::Client, "A general purpose counter of the client's address, which is incremented.", by_src),
        fetch("src_updt_conn_cnt", TABLE, Type::Int, N::Client, "Connections of the client's address, with this one counted.", by_src),
    ] };
}

pub(crate) static SRC_FETCHES: &[Fetch] = per_slot! {
    "tracked", TABLE, COUNTER, Type::Bool, "Whether a counter is being tracked.", is_tracked;
    "trackers", TABLE, COUNTER, Type::Int, "Connections that track the entry at the moment.", tracked;
    "key", NONE, args(1, &[K::Int]), Type::Any, "Key of the tracked entry.", key;
};

/// Number and table of a proxy.
pub(crate) fn table(txn: &Txn, name: &str) -> Option<(usize, Rc<dyn StickTable>)> {
    let index = txn.env.table_index(name)?;
    Some((index, txn.env.table(index)?))
}

/// What a keyword does to an entry's data.
enum Access {
    Read,
    Increment,
    Clear,
}

/// Splits `inc_gpc0` and its like into what to do and to which data; an index makes `gpc` `gpc(3)`.
fn access(keyword: &str, index: Option<i64>) -> (Access, String) {
    let (how, data) = match keyword {
        k if k.starts_with("inc_") => (Access::Increment, &k[4..]),
        k if k.starts_with("clr_") => (Access::Clear, &k[4..]),
        k if k.starts_with("get_") => (Access::Read, &k[4..]),
        "updt_conn_cnt" => (Access::Increment, "conn_cnt"),
        k => (Access::Read, k),
    };
    let data = match (data, index) {
        ("kbytes_in", _) => "bytes_in_cnt".to_owned(),
        ("kbytes_out", _) => "bytes_out_cnt".to_owned(),
        (data, Some(index)) => format!("{data}({index})"),
        (data, None) => data.to_owned(),
    };
    (how, data)
}

/// Reads or changes one figure of an entry, which is made for a change; an entry that is not there counts 0, a figure that
/// the table does not store is none.
pub(crate) fn run(table: &dyn StickTable, key: &[u8], keyword: &str, index: Option<i64>) -> Option<i64> {
    let (how, data) = access(keyword, index);
    let read = || table.read(key, &data).or_else(|| (!table.contains(key)).then_some(0));
    let n = match how {
        Access::Read => read()?,
        Access::Increment => table.add(key, &data, 1).unwrap_or(0),
        Access::Clear => {
            let old = read();
            table.set(key, &data, 0);
            old?
        }
    };
    Some(if keyword.starts_with("kbytes") { n >> 10 } else { n })
}

/// Slot, index and table of a call: `sc0_x(table)`, `sc_x(slot,table)`, `sc_x(index,slot,table)`.
fn call(args: &Args) -> Option<(usize, Option<i64>, Option<&str>)> {
    let keyword = args.variant;
    if let Some(slot) = keyword.strip_prefix("sc").and_then(|k| k.chars().next()?.to_digit(10)) {
        return Some((slot as usize, None, args.name(0)));
    }
    let slot = |at| usize::try_from(args.int(at)?).ok();
    match args.list.get(1) {
        Some(Arg::Int(_)) => Some((slot(1)?, args.int(0), args.name(2))),
        _ => Some((slot(0)?, None, args.name(1))),
    }
}

/// The entry tracked in a slot: the request's, else the session's.
pub(crate) fn tracked_entry(txn: &Txn, slot: usize) -> Option<Tracked> {
    let own = txn.tracked.get(slot).and_then(Option::as_ref).cloned();
    own.or_else(|| txn.session.tracked.borrow().get(slot).and_then(Clone::clone))
}

/// The tracked entry in the table asked for: with a table named, the entry of the same key there.
fn entry(txn: &Txn, args: &Args) -> Option<(Rc<dyn StickTable>, Tracked, Option<i64>)> {
    let (slot, index, name) = call(args)?;
    let mut entry = tracked_entry(txn, slot)?;
    if let Some(name) = name {
        entry.table = txn.env.table_index(name)?;
    }
    let table = txn.env.table(entry.table)?;
    Some((table, entry, index))
}

/// The keyword without `sc_`, `sc0_` or `src_`.
fn data_word(keyword: &str) -> &str {
    keyword.split_once('_').map_or(keyword, |(_, rest)| rest)
}

fn tracked<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (table, entry, index) = entry(txn, args)?;
    // In another table than the tracked one nothing is made for the key.
    if !table.contains(&entry.key) {
        return Some(Value::Int(0));
    }
    run(&*table, &entry.key, data_word(args.variant), index).map(Value::Int)
}

fn is_tracked<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(entry(txn, args).is_some()))
}

fn key<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (table, entry, _) = entry(txn, args)?;
    Some(table.key_type().value(&entry.key))
}

fn by_src<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let name = args.name(0).or_else(|| args.name(1)).unwrap_or(&args.proxy);
    let (_, table) = table(txn, name)?;
    let key = table.key_type().key(Value::Ip(txn.src()?.ip().to_canonical()))?;
    run(&*table, &key, data_word(args.variant), args.int(0)).map(Value::Int)
}
