//! Look-ups in stick tables by the sample: `table_*`, `in_table`.

use crate::Txn;
use crate::expr::args::{Arg, ArgKind as K, ArgSpec, Args, args};
use crate::expr::entry::{Converter, converter};
use crate::fetch::stick::{run, table};
use crate::value::{Type, Value};

const TABLE: ArgSpec = args(0, &[K::Table]);
const INDEXED: ArgSpec = args(1, &[K::Int, K::Table]);
const DEFAULT: ArgSpec = args(0, &[K::Table, K::Int]);

macro_rules! tables {
    ($($key:literal, $spec:expr, $doc:literal);* $(;)?) => { &[
        converter("in_table", TABLE, Type::Any, Type::Bool, "Whether the sample is a key of the table.", in_table),
        $(converter(concat!("table_", $key), $spec, Type::Any, Type::Int, concat!($doc, " of the entry with the sample as key, 0 without."), figure),)*
    ] };
}

pub(crate) static CONVERTERS: &[Converter] = tables! {
    "bytes_in_rate", TABLE, "Rate of bytes received";
    "bytes_out_rate", TABLE, "Rate of bytes sent";
    "clr_gpc", INDEXED, "General purpose counter by index, which is cleared,";
    "clr_gpc0", TABLE, "General purpose counter 0, which is cleared,";
    "clr_gpc1", TABLE, "General purpose counter 1, which is cleared,";
    "conn_cnt", TABLE, "Connections";
    "conn_cur", TABLE, "Concurrent connections";
    "conn_rate", TABLE, "Connection rate";
    "expire", DEFAULT, "Milliseconds until expiry";
    "glitch_cnt", TABLE, "Protocol irregularities";
    "glitch_rate", TABLE, "Rate of protocol irregularities";
    "gpc", INDEXED, "General purpose counter by index";
    "gpc0", TABLE, "General purpose counter 0";
    "gpc0_rate", TABLE, "Rate of general purpose counter 0";
    "gpc1", TABLE, "General purpose counter 1";
    "gpc1_rate", TABLE, "Rate of general purpose counter 1";
    "gpc_rate", INDEXED, "Rate of a general purpose counter by index";
    "gpt", INDEXED, "General purpose tag by index";
    "gpt0", TABLE, "General purpose tag 0";
    "http_err_cnt", TABLE, "HTTP errors";
    "http_err_rate", TABLE, "HTTP error rate";
    "http_fail_cnt", TABLE, "HTTP failures";
    "http_fail_rate", TABLE, "HTTP failure rate";
    "http_req_cnt", TABLE, "HTTP requests";
    "http_req_rate", TABLE, "HTTP request rate";
    "idle", DEFAULT, "Milliseconds since the last use";
    "inc_gpc", INDEXED, "General purpose counter by index, which is incremented,";
    "inc_gpc0", TABLE, "General purpose counter 0, which is incremented,";
    "inc_gpc1", TABLE, "General purpose counter 1, which is incremented,";
    "kbytes_in", TABLE, "Kilobytes received";
    "kbytes_out", TABLE, "Kilobytes sent";
    "server_id", TABLE, "Number of the server";
    "sess_cnt", TABLE, "Sessions";
    "sess_rate", TABLE, "Session rate";
    "trackers", TABLE, "Connections that track at the moment";
};

/// Name of the table: the argument, or the proxy's own.
fn name(args: &Args) -> &str {
    args.name(0).or_else(|| args.name(1)).unwrap_or(&args.proxy)
}

fn in_table<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let (_, table) = table(txn, name(args))?;
    let found = table.key_type().key(value).is_some_and(|key| table.contains(&key));
    Some(Value::Bool(found))
}

fn figure<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let (_, table) = table(txn, name(args))?;
    let data = args.variant.strip_prefix("table_").unwrap_or(args.variant);
    let key = table.key_type().key(value)?;
    if matches!(data, "expire" | "idle") {
        let default = if let Some(Arg::Int(n)) = args.list.get(1) { Some(*n) } else { None };
        return table.read(&key, data).or(default).map(Value::Int);
    }
    let index = if let Some(Arg::Int(n)) = args.list.first() { Some(*n) } else { None };
    run(&*table, &key, data, index).map(Value::Int)
}
