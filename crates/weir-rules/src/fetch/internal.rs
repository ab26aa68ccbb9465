//! Fetches from internal states (section 7.3.2): constants, variables, figures of proxies and servers.

use crate::expr::Cursor;
use crate::expr::acl::{Acl, Truth};
use crate::expr::args::{Arg, ArgKind as K, Args, NONE, args};
use crate::expr::entry::{Fetch, Needs as N, fetch};
use crate::facts::Figure;
use crate::facts::vars::VarName;
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

const UNIT: K = K::OneOf(&["s", "ms", "us"]);

pub(crate) static FETCHES: &[Fetch] = &[
    fetch("acl", args(1, &[K::Str]), Type::Bool, N::Nothing, "True when all the named ACLs match.", acl)
        .prepare(prepare_acl),
    fetch("act_conn", NONE, Type::Int, N::Nothing, "Concurrent connections of the process.", act_conn),
    fetch("always_false", NONE, Type::Bool, N::Nothing, "Never true.", always_false)
        .examples(&[("always_false", Some("0"))]),
    fetch("always_true", NONE, Type::Bool, N::Nothing, "Always true.", always_true)
        .examples(&[("always_true", Some("1"))]),
    fetch(
        "avg_queue",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Queued requests of a backend per usable server.",
        backend_figure,
    ),
    fetch(
        "be_conn",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Concurrent connections of a backend.",
        backend_figure,
    ),
    fetch(
        "be_conn_free",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Connections a backend's servers still take.",
        backend_figure,
    ),
    fetch(
        "be_sess_rate",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "New sessions a second of a backend.",
        backend_figure,
    ),
    fetch(
        "be_req_rate",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Requests a second of a backend.",
        backend_figure,
    ),
    fetch("bin", args(1, &[K::Str]), Type::Bin, N::Nothing, "The bytes written in hexadecimal.", bin)
        .prepare(prepare_bin)
        .examples(&[("bin(4142)", Some("AB"))]),
    fetch(
        "bool",
        args(1, &[K::Str]),
        Type::Bool,
        N::Nothing,
        "The constant true, false, yes, no, 1 or 0.",
        constant_bool,
    )
    .prepare(prepare_bool)
    .examples(&[("bool(true)", Some("1")), ("bool(no)", Some("0"))]),
    fetch(
        "connslots",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Connections and queue places a backend's servers still take.",
        backend_figure,
    ),
    fetch(
        "date",
        args(0, &[K::Int, UNIT]),
        Type::Int,
        N::Nothing,
        "The current date with an offset, in s, ms or us since 1970.",
        date,
    )
    .examples(&[
        ("date", Some("1700000000")),
        ("date(-60)", Some("1699999940")),
        ("date(0,ms)", Some("1700000000123")),
    ]),
    fetch("date_us", NONE, Type::Int, N::Nothing, "The microseconds part of the current date.", date_us)
        .examples(&[("date_us", Some("123456"))]),
    fetch(
        "env",
        args(1, &[K::Str]),
        Type::Str,
        N::Nothing,
        "An environment variable as it was when the configuration was read.",
        constant_str,
    )
    .prepare(prepare_env),
    fetch(
        "fe_conn",
        args(0, &[K::Frontend]),
        Type::Int,
        N::Nothing,
        "Concurrent connections of a frontend.",
        frontend_figure,
    ),
    fetch(
        "fe_req_rate",
        args(0, &[K::Frontend]),
        Type::Int,
        N::Nothing,
        "Requests a second of a frontend.",
        frontend_figure,
    ),
    fetch(
        "fe_sess_rate",
        args(0, &[K::Frontend]),
        Type::Int,
        N::Nothing,
        "New sessions a second of a frontend.",
        frontend_figure,
    ),
    fetch("hostname", NONE, Type::Str, N::Nothing, "Name of this machine.", hostname)
        .examples(&[("hostname", Some("edge1"))]),
    fetch("int", args(1, &[K::Int]), Type::Int, N::Nothing, "A constant number.", constant_int)
        .examples(&[("int(-5)", Some("-5"))]),
    fetch("ipv4", args(1, &[K::Ipv4]), Type::Ip, N::Nothing, "A constant IPv4 address.", constant_ip)
        .examples(&[("ipv4(1.2.3.4)", Some("1.2.3.4"))]),
    fetch("ipv6", args(1, &[K::Ipv6]), Type::Ip, N::Nothing, "A constant IPv6 address.", constant_ip)
        .examples(&[("ipv6(2001:db8::1)", Some("2001:db8::1"))]),
    fetch("last_entity", NONE, Type::Str, N::Nothing, "File and line of the last final rule.", last_entity),
    fetch("last_rule_file", NONE, Type::Str, N::Nothing, "File of the last final rule.", last_rule_file),
    fetch("last_rule_line", NONE, Type::Int, N::Nothing, "Line of the last final rule.", last_rule_line),
    fetch("meth", args(1, &[K::Str]), Type::Method, N::Nothing, "A constant method.", constant_method)
        .examples(&[("meth(PUT)", Some("PUT"))]),
    fetch("nbproc", NONE, Type::Int, N::Nothing, "Number of processes: 1.", one)
        .examples(&[("nbproc", Some("1"))]),
    fetch(
        "nbsrv",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Usable servers of a backend.",
        backend_figure,
    ),
    fetch("pid", NONE, Type::Int, N::Nothing, "Number of this process.", pid),
    fetch(
        "prio_class",
        NONE,
        Type::Int,
        N::Nothing,
        "Queue priority class set by set-priority-class.",
        prio_class,
    ),
    fetch(
        "prio_offset",
        NONE,
        Type::Int,
        N::Nothing,
        "Queue priority offset set by set-priority-offset.",
        prio_offset,
    ),
    fetch("proc", NONE, Type::Int, N::Nothing, "Position of this process: 1.", one)
        .examples(&[("proc", Some("1"))]),
    fetch(
        "queue",
        args(0, &[K::Backend]),
        Type::Int,
        N::Nothing,
        "Queued requests of a backend and its servers.",
        backend_figure,
    ),
    fetch(
        "quic_enabled",
        NONE,
        Type::Bool,
        N::Nothing,
        "Whether QUIC listeners run: not in this version.",
        always_false,
    ),
    fetch(
        "rand",
        args(0, &[K::Int]),
        Type::Int,
        N::Nothing,
        "A random number below the range, 2^32 by default.",
        rand,
    )
    .examples(&[("rand(1)", Some("0"))]),
    fetch(
        "srv_conn",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "Concurrent connections of a server.",
        server_figure,
    ),
    fetch(
        "srv_conn_free",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "Connections a server still takes.",
        server_figure,
    ),
    fetch(
        "srv_is_up",
        args(1, &[K::Server]),
        Type::Bool,
        N::Nothing,
        "Whether a server is up.",
        server_figure,
    ),
    fetch(
        "srv_iweight",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "Initial weight of a server.",
        server_figure,
    ),
    fetch(
        "srv_queue",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "Queued requests of a server.",
        server_figure,
    ),
    fetch(
        "srv_sess_rate",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "New sessions a second of a server.",
        server_figure,
    ),
    fetch(
        "srv_uweight",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "User-visible weight of a server.",
        server_figure,
    ),
    fetch(
        "srv_weight",
        args(1, &[K::Server]),
        Type::Int,
        N::Nothing,
        "Current weight of a server.",
        server_figure,
    ),
    fetch("stopping", NONE, Type::Bool, N::Nothing, "Whether the process is stopping.", stopping),
    fetch("str", args(1, &[K::Str]), Type::Str, N::Nothing, "A constant string.", constant_str)
        .prepare(prepare_str)
        .examples(&[("str(abc)", Some("abc")), ("str(\"a,b\")", Some("a,b"))]),
    fetch(
        "table_avl",
        args(0, &[K::Table]),
        Type::Int,
        N::Nothing,
        "Free entries of a stick table.",
        table_usage,
    ),
    fetch(
        "table_cnt",
        args(0, &[K::Table]),
        Type::Int,
        N::Nothing,
        "Entries in use of a stick table.",
        table_usage,
    ),
    fetch("thread", NONE, Type::Int, N::Nothing, "Number of the thread, from 0.", thread),
    fetch("txn.id32", NONE, Type::Int, N::Nothing, "Number of the request since the start, 32 bits.", id32),
    fetch(
        "txn.sess_term_state",
        NONE,
        Type::Str,
        N::Nothing,
        "Termination state as %ts logs it.",
        term_state,
    ),
    fetch("uptime", NONE, Type::Int, N::Nothing, "Seconds since the process started.", uptime),
    fetch(
        "uuid",
        args(0, &[K::Int]),
        Type::Str,
        N::Nothing,
        "A UUID of version 4 (random) or 7 (time).",
        uuid,
    ),
    fetch(
        "var",
        args(1, &[K::Var, K::Str]),
        Type::Any,
        N::Nothing,
        "A variable, or the default when it is not set.",
        var,
    )
    .examples(&[
        ("var(txn.greeting)", Some("hello")),
        ("var(txn.none)", None),
        ("var(txn.none,dflt)", Some("dflt")),
    ]),
    fetch(
        "wait_end",
        NONE,
        Type::Bool,
        N::Nothing,
        "True once the inspection of contents is over.",
        wait_end,
    ),
];

fn one<'a>(_: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(1))
}

fn act_conn<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.env.process().0)))
}

fn always_false<'a>(_: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(false))
}

fn always_true<'a>(_: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(true))
}

fn prepare_acl(call: &Call, scope: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let mut list = Vec::new();
    for word in call.args() {
        let negated = word.text.starts_with(b"!");
        let name = crate::words::call::sub_word(word, usize::from(negated), word.text.len());
        list.push((negated, Acl::find(&name, scope).map_err(|e| vec![e])?));
    }
    if list.is_empty() {
        return Err(vec![Diagnostic::error(call.name.pos, "'acl' needs the name of an ACL")]);
    }
    Ok(vec![Arg::Acls(list)])
}

fn acl<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let Some(Arg::Acls(list)) = args.get(0) else { return None };
    Some(Value::Bool(list.iter().all(|(negated, acl)| (acl.test(txn) == Truth::Yes) != *negated)))
}

fn prepare_bin(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let word = call.args().first().cloned().unwrap_or_default();
    match crate::value::codec::decode_hex(&word.text) {
        Some(bytes) => Ok(vec![Arg::Str(bytes.into())]),
        None => {
            let message = format!("'{}' is no hexadecimal block", word.as_str());
            Err(vec![Diagnostic::error(word.pos, message)])
        }
    }
}

fn bin<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    args.str(0).map(|b| Value::Bin(b.into()))
}

fn prepare_bool(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let word = call.args().first().cloned().unwrap_or_default();
    match word.text.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"1" | b"on" => Ok(vec![Arg::Int(1)]),
        b"false" | b"no" | b"0" | b"off" => Ok(vec![Arg::Int(0)]),
        _ => {
            let message = format!("'{}' is no boolean", word.as_str());
            Err(vec![Diagnostic::error(call.name.pos, message).hint("use true or false")])
        }
    }
}

fn constant_bool<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    args.int(0).map(|n| Value::Bool(n != 0))
}

fn prepare_str(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    match call.args() {
        [] => Err(vec![
            Diagnostic::error(call.name.pos, "'str' needs an argument").hint("str() is the empty string"),
        ]),
        [only] => Ok(vec![Arg::Str(only.text.as_slice().into())]),
        [_, extra, ..] => {
            let hint = "quote a string that contains commas";
            Err(vec![Diagnostic::error(extra.pos, "'str' takes one argument").hint(hint)])
        }
    }
}

fn constant_str<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    args.str(0).map(Value::text)
}

fn constant_method<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    args.str(0).map(|m| Value::Method(m.into()))
}

fn constant_int<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    args.int(0).map(Value::Int)
}

fn constant_ip<'a>(_: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    match args.get(0) {
        Some(Arg::Ip(ip)) => Some(Value::Ip(*ip)),
        _ => None,
    }
}

fn prepare_env(call: &Call, scope: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let Some(word) = call.args().first() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'env' needs a name")]);
    };
    let value = scope.shared.env.get(&*word.as_str());
    Ok(vec![value.map_or(Arg::None, |v| Arg::Str(v.as_bytes().into()))])
}

/// Moves a date in microseconds by `offset` units and returns it in that unit: argument `at` names it.
pub(crate) fn in_unit(us: i64, offset: i64, unit: Option<&Arg>) -> i64 {
    let divisor = match unit {
        Some(Arg::Choice(1)) => 1000,
        Some(Arg::Choice(2)) => 1,
        _ => 1_000_000,
    };
    (us / divisor).saturating_add(offset)
}

fn date<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(in_unit(txn.env.wall_us() as i64, args.int(0).unwrap_or(0), args.get(1))))
}

fn date_us<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int((txn.env.wall_us() % 1_000_000) as i64))
}

fn hostname<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(txn.env.hostname().as_bytes()))
}

fn last_entity<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let rule = txn.last_rule?;
    let file = txn.env.source_file(rule.file)?;
    Some(Value::Str(format!("{file}:{}", rule.line).into_bytes().into()))
}

fn last_rule_file<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.env.source_file(txn.last_rule?.file).map(|name| Value::text(name.as_bytes()))
}

fn last_rule_line<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    txn.last_rule.map(|pos| Value::Int(i64::from(pos.line)))
}

/// The figure a keyword reads.
fn figure(keyword: &str) -> Figure {
    match keyword {
        "avg_queue" => Figure::AverageQueue,
        "be_conn" | "fe_conn" | "srv_conn" => Figure::Connections,
        "be_conn_free" | "srv_conn_free" => Figure::FreeConnections,
        "be_sess_rate" | "fe_sess_rate" | "srv_sess_rate" => Figure::SessionRate,
        "be_req_rate" | "fe_req_rate" => Figure::RequestRate,
        "connslots" => Figure::FreeSlots,
        "queue" | "srv_queue" => Figure::Queued,
        "srv_is_up" => Figure::IsUp,
        "srv_iweight" => Figure::InitialWeight,
        "srv_uweight" => Figure::UserWeight,
        "srv_weight" => Figure::Weight,
        _ => Figure::UsableServers,
    }
}

fn backend_figure<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let name = args.name(0).unwrap_or(&args.proxy);
    txn.env.proxy_figure(name, figure(args.variant)).map(Value::Int)
}

fn frontend_figure<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let name = args.name(0).unwrap_or(&txn.session.frontend.name);
    txn.env.frontend_figure(name, figure(args.variant)).map(Value::Int)
}

fn server_figure<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let Some(Arg::Server(backend, server)) = args.get(0) else { return None };
    let n = txn.env.server_figure(backend, server, figure(args.variant))?;
    Some(if args.variant == "srv_is_up" { Value::Bool(n != 0) } else { Value::Int(n) })
}

fn pid<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.env.pid())))
}

fn prio_class<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.priority_class)))
}

fn prio_offset<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.priority_offset)))
}

fn rand<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let random = txn.env.random() & 0xffff_ffff;
    // Scaling keeps all values of the range equally likely.
    let n = args.int(0).map_or(random, |range| (random * range.clamp(0, 1 << 32) as u64) >> 32);
    Some(Value::Int(n as i64))
}

fn stopping<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Bool(txn.env.process().2))
}

fn table_usage<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let table = super::stick::table(txn, args.name(0).unwrap_or(&args.proxy))?.1;
    let (used, free) = table.usage();
    Some(Value::Int(if args.variant == "table_cnt" { used } else { free } as i64))
}

fn thread<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.env.thread())))
}

fn id32<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(i64::from(txn.request_counter)))
}

fn term_state<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::text(&txn.termination[..2]))
}

fn uptime<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    Some(Value::Int(txn.env.uptime() as i64))
}

fn uuid<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let (mut high, mut low) = (txn.env.random(), txn.env.random());
    let version = args.int(0).unwrap_or(4);
    // RFC 9562 section 5.7: version 7 starts with 48 bits of milliseconds since 1970.
    if version == 7 {
        high = (txn.env.wall_us() / 1000) << 16 | (high & 0xfff);
    }
    high = (high & !0xf000) | (version as u64 & 0xf) << 12;
    low = (low & (u64::MAX >> 2)) | 1 << 63;
    let text = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    Some(Value::owned(text.into_bytes()))
}

fn var<'a>(txn: &'a Txn, args: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    let found = args.var(0).and_then(|name: &VarName| name.get(txn));
    found.or_else(|| args.str(1).map(Value::text))
}

fn wait_end<'a>(txn: &'a Txn, _: &'a Args, _: &mut Cursor) -> Option<Value<'a>> {
    (!txn.inspecting).then_some(Value::Bool(true))
}
