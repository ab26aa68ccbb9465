//! `stick-table` and `stick` keywords (section 11.1 of the manual).

use std::time::Duration;

use weir_balance::DataType;
use weir_rules::expr::scope::{Reference, Target};
use weir_rules::{Diagnostic, Expr, Place, Pos, Word};

use crate::keyword::{self, How, Keyword, Places, keyword};
use crate::language::args::{self, Args, Parsed, choice, fail, fail_hint};
use crate::language::units::Unit;
use crate::model::{KeyType, StickRule, StickTable};
use crate::sections::ProxyDraft;

/// Longest key of a table, bytes.
const LONGEST_KEY: usize = 16384;

/// Most elements of an array data type.
const MOST_ELEMENTS: usize = 100;

/// Parameters of a data type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Plain,
    Period,
    Array,
    ArrayPeriod,
}

/// Data types of tables.
const DATA: &[(DataType, Data)] = &[
    (DataType::ServerId, Data::Plain),
    (DataType::ServerKey, Data::Plain),
    (DataType::Gpt0, Data::Plain),
    (DataType::Gpt, Data::Array),
    (DataType::Gpc, Data::Array),
    (DataType::GpcRate, Data::ArrayPeriod),
    (DataType::Gpc0, Data::Plain),
    (DataType::Gpc0Rate, Data::Period),
    (DataType::Gpc1, Data::Plain),
    (DataType::Gpc1Rate, Data::Period),
    (DataType::ConnCnt, Data::Plain),
    (DataType::ConnCur, Data::Plain),
    (DataType::ConnRate, Data::Period),
    (DataType::SessCnt, Data::Plain),
    (DataType::SessRate, Data::Period),
    (DataType::HttpReqCnt, Data::Plain),
    (DataType::HttpReqRate, Data::Period),
    (DataType::HttpErrCnt, Data::Plain),
    (DataType::HttpErrRate, Data::Period),
    (DataType::HttpFailCnt, Data::Plain),
    (DataType::HttpFailRate, Data::Period),
    (DataType::BytesInCnt, Data::Plain),
    (DataType::BytesInRate, Data::Period),
    (DataType::BytesOutCnt, Data::Plain),
    (DataType::BytesOutRate, Data::Period),
    (DataType::GlitchCnt, Data::Plain),
    (DataType::GlitchRate, Data::Period),
];

/// The words of a table after its name.
pub(crate) fn table(name: &str, pos: Pos, a: &mut Args<'_>) -> Parsed<StickTable> {
    let mut table = StickTable {
        name: name.to_owned(),
        key: KeyType::Ip,
        size: 0,
        expire: None,
        nopurge: false,
        store: Vec::new(),
        peers: None,
        srvkey_addr: false,
        brates_factor: 1,
        pos,
    };
    let mut typed = false;
    while let Some(word) = a.next() {
        match word.text.as_slice() {
            b"type" => {
                table.key = key_type(word, a)?;
                typed = true;
            }
            b"size" => table.size = args::size(a.value_of(word, "a number of entries such as 100k")?)?,
            b"expire" => {
                table.expire =
                    Some(args::time(a.value_of(word, "a time")?, Unit::Millis)?).filter(|t| !t.is_zero());
            }
            b"nopurge" => table.nopurge = true,
            b"recv-only" | b"write-to" => {
                return Err(keyword::not_yet(word, &format!("stick-table ... {}", word.as_str())));
            }
            b"peers" => {
                table.peers = Some(a.value_of(word, "the name of a peers section")?.as_str().into_owned());
            }
            b"brates-factor" => table.brates_factor = args::number(a.value_of(word, "a number")?, 1..=1024)?,
            b"srvkey" => {
                let value = a.value_of(word, "name or addr")?;
                table.srvkey_addr = choice(value, "server key", &[("name", false), ("addr", true)])?;
            }
            b"store" => store(&mut table, a.value_of(word, "one or more data types")?)?,
            _ => {
                let known = [
                    "type",
                    "size",
                    "expire",
                    "nopurge",
                    "peers",
                    "srvkey",
                    "store",
                    "write-to",
                    "recv-only",
                    "brates-factor",
                ];
                return Err(vec![Diagnostic::unknown("word", word, known)]);
            }
        }
    }
    if !typed {
        return fail_hint(a.keyword_pos, "the table has no key type", "add for instance 'type ip'");
    }
    if table.size == 0 {
        return fail_hint(a.keyword_pos, "the table has no size", "add for instance 'size 100k'");
    }
    Ok(table)
}

fn key_type(word: &Word, a: &mut Args<'_>) -> Parsed<KeyType> {
    let kind = a.value_of(word, "ip, ipv6, integer, string or binary")?;
    let known = [
        ("ip", KeyType::Ip),
        ("ipv4", KeyType::Ip),
        ("ipv6", KeyType::Ipv6),
        ("integer", KeyType::Integer),
        // 32 with the end of the text, which peers count.
        ("string", KeyType::String(31)),
        ("binary", KeyType::Binary(32)),
    ];
    let mut key = choice(kind, "key type", &known)?;
    if let KeyType::String(len) | KeyType::Binary(len) = &mut key
        && a.take("len")
    {
        *len = a.number(1..=LONGEST_KEY)?;
    }
    Ok(key)
}

/// `store gpc0,conn_rate(10s),gpc(3),gpc_rate(2,10s)`
fn store(table: &mut StickTable, word: &Word) -> Parsed {
    for item in split_items(&word.as_str()) {
        let (name, inside) = match item.split_once('(') {
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(inside) => (name, Some(inside)),
                None => return fail(word.pos, format!("missing ')' after '{item}'")),
            },
            None => (item.as_str(), None),
        };
        let Some((data, takes)) = DATA.iter().find(|(known, _)| known.name() == name) else {
            let named = Word { text: name.into(), pos: word.pos };
            let known = DATA.iter().map(|(known, _)| known.name());
            return Err(vec![Diagnostic::unknown("data type", &named, known)]);
        };
        let (elements, period) = parameters(word, name, *takes, inside)?;
        if table.store.iter().any(|(stored, ..)| stored == data) {
            return fail(word.pos, format!("data type '{name}' is stored twice"));
        }
        table.store.push((*data, period, elements));
    }
    Ok(())
}

/// Splits at commas outside of parentheses.
fn split_items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth <= 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = items.last_mut() {
            last.push(c);
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn parameters(
    word: &Word,
    name: &str,
    data: Data,
    inside: Option<&str>,
) -> Parsed<(usize, Option<Duration>)> {
    let part = |text: &str| Word { text: text.trim().into(), pos: word.pos };
    match (data, inside) {
        (Data::Plain, None) => Ok((1, None)),
        (Data::Plain, Some(_)) => fail(word.pos, format!("data type '{name}' takes no argument")),
        (Data::Period, Some(period)) => Ok((1, Some(period_of(&part(period))?))),
        (Data::Period, None) => fail_hint(
            word.pos,
            format!("data type '{name}' needs a period"),
            format!("write for instance {name}(10s)"),
        ),
        (Data::Array, Some(count)) => Ok((args::number(&part(count), 1..=MOST_ELEMENTS)?, None)),
        (Data::Array, None) => fail_hint(
            word.pos,
            format!("data type '{name}' needs a number of elements"),
            format!("write for instance {name}(2)"),
        ),
        (Data::ArrayPeriod, inside) => match inside.and_then(|inside| inside.split_once(',')) {
            Some((count, period)) => {
                Ok((args::number(&part(count), 1..=MOST_ELEMENTS)?, Some(period_of(&part(period))?)))
            }
            None => fail_hint(
                word.pos,
                format!("data type '{name}' needs a number and a period"),
                format!("write for instance {name}(2,10s)"),
            ),
        },
    }
}

fn period_of(word: &Word) -> Parsed<Duration> {
    let period = args::time(word, Unit::Millis)?;
    if period.is_zero() { fail(word.pos, "the period must not be zero") } else { Ok(period) }
}

fn stick_table(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = d.proxy.name.to_string();
    let table = table(&name, a.keyword_pos, a)?;
    if let Some(peers) = &table.peers
        && !d.world.peers.contains(peers.as_str())
    {
        let near = weir_rules::words::diagnostic::nearest(peers, d.world.peers.iter().map(String::as_str));
        let error = Diagnostic::error(a.keyword_pos, format!("unable to find sync peers '{peers}'"));
        return Err(vec![Diagnostic { hint: near.map(|near| format!("did you mean '{near}'?")), ..error }]);
    }
    if d.proxy.stick_table.is_some() {
        return fail(a.keyword_pos, "stick-table already defined in this section");
    }
    d.proxy.stick_table = Some(table);
    Ok(())
}

/// `stick on|match|store-request|store-response EXPR [table T] [if ...]`
fn stick(d: &mut ProxyDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let (matches, store, response) = match a.keyword {
        "stick on" => (true, true, false),
        "stick match" => (true, false, false),
        "stick store-request" => (false, true, false),
        _ => (false, true, true),
    };
    let place = if response { Place::BackendResponse } else { Place::BackendRequest };
    if a.peek().is_none() {
        a.need("an expression")?;
    }
    let (expr, used) = d.at(place, |d| Expr::parse(a.ahead(), &mut d.scope))?;
    a.skip(used);
    let mut table = None;
    if a.take("table") {
        let name = a.need("the name of a table")?;
        table = Some(name.as_str().into_owned());
        let target = Target::Table { name: name.as_str().into_owned(), data: None };
        d.scope.references.push(Reference { target, pos: name.pos });
    } else {
        let target = Target::Table { name: d.scope.proxy.clone(), data: None };
        d.scope.references.push(Reference { target, pos: a.keyword_pos });
    }
    let condition = d.condition(a, place)?;
    d.proxy.stick_rules.push(StickRule { matches, store, response, expr, table, condition });
    Ok(())
}

const SERVING: Places = Places::LISTEN.or(Places::BACKEND);

/// Keywords of stick tables.
pub(crate) const KEYWORDS: &[Keyword] = &[
    keyword(
        "stick match",
        SERVING,
        "<expr> [table <table>] [<if|unless> <condition>]",
        "Chooses the server that a table has for a key",
        How::Proxy(stick),
    )
    .example("stick-table type ip size 100k expire 30m\nstick match src"),
    keyword(
        "stick on",
        SERVING,
        "<expr> [table <table>] [<if|unless> <condition>]",
        "Keeps clients on their server by a table",
        How::Proxy(stick),
    )
    .example("stick-table type ip size 100k expire 30m\nstick on src"),
    keyword(
        "stick store-request",
        SERVING,
        "<expr> [table <table>] [<if|unless> <condition>]",
        "Stores the server under a key of the request",
        How::Proxy(stick),
    )
    .example("stick-table type ip size 100k expire 30m\nstick store-request src"),
    keyword(
        "stick store-response",
        SERVING,
        "<expr> [table <table>] [<if|unless> <condition>]",
        "Stores the server under a key of the response",
        How::Proxy(stick),
    )
    .example("stick-table type string len 32 size 100k expire 30m\nstick store-response res.cook(id)"),
    keyword(
        "stick-table",
        Places::NAMED,
        "type <type> size <size> [expire <time>] [store <data>,...] ...",
        "A table of counters and servers",
        How::Proxy(stick_table),
    )
    .example("stick-table type ip size 1m expire 10m store http_req_rate(10s)"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::args::Prefix;

    fn read(line: &str) -> Result<StickTable, String> {
        let words: Vec<Word> = line.split(' ').map(|w| Word { text: w.into(), ..Word::default() }).collect();
        let mut args = Args::new(&words, "stick-table", 0, Prefix::None);
        table("t", Pos::default(), &mut args).map_err(|found| found[0].message.clone())
    }

    #[test]
    fn tables() {
        let found = read(
            "type string len 64 size 100k expire 30s store gpc0,conn_rate(10s) store gpc(3),gpc_rate(2,1s)",
        )
        .unwrap();
        assert_eq!(
            (found.key, found.size, found.expire),
            (KeyType::String(64), 102_400, Some(Duration::from_secs(30)))
        );
        let second = Duration::from_secs(1);
        let expected = [
            ("gpc0", None, 1),
            ("conn_rate", Some(10 * second), 1),
            ("gpc", None, 3),
            ("gpc_rate", Some(second), 2),
        ];
        let stored: Vec<_> = found.store.iter().map(|(data, p, e)| (data.name(), *p, *e)).collect();
        assert_eq!(stored, expected);
        assert!(read("type ip size 1m srvkey addr nopurge").unwrap().srvkey_addr);
    }

    #[test]
    fn tables_that_are_none() {
        let check = |line: &str, expected: &str| {
            let message = read(line).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        };
        check("size 1k", "no key type");
        check("type ip", "no size");
        check("type ipx size 1k", "unknown key type");
        check("type ip size 1k store conn_rate", "needs a period");
        check("type ip size 1k store gpc0(1)", "takes no argument");
        check("type ip size 1k store gpc0,gpc0", "stored twice");
        check("type ip size 1k store connrate(1s)", "unknown data type");
        check("type ip size 1k store conn_rate(0)", "must not be zero");
    }
}
