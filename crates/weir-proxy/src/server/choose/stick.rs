//! `stick`: which server a key was sent to before, and remembering it for the next time.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_balance::{DataType, Key};
use weir_config::model::Proxy;
use weir_rules::Txn;

use crate::state::farm::Members;
use crate::state::{ServerState, Shared};

/// Most keys that one transaction stores.
const MAX_STORES: usize = 8;

/// Keys to be stored once the server has answered: the table's index and the key.
pub(crate) type Stores = SmallVec<[(usize, Key); 1]>;

/// Runs the rules on the request: the server that a key is stuck to, and the keys to store.
///
/// `wanted` says whether a server may be chosen; `fits` whether a server can be reached.
pub(crate) fn request(
    shared: &Shared,
    proxy: &Proxy,
    index: usize,
    txn: &Txn,
    members: &Members,
    fits: impl Fn(&ServerState) -> bool,
) -> (Option<Arc<ServerState>>, Stores) {
    let mut found = None;
    let mut stores = Stores::new();
    for (at, rule) in proxy.stick_rules.iter().enumerate().filter(|(_, rule)| !rule.response) {
        let Some(table) = shared.tables.of_rule(index, at) else { continue };
        // Only the first key of each table is stored, so that rules can go from precise to coarse.
        if rule.store && stores.iter().any(|(other, _)| *other == table) {
            continue;
        }
        let Some(key) = key_of(shared, table, &rule.condition, &rule.expr, txn) else { continue };
        if rule.matches {
            let server = look_up(shared, table, &key, members);
            found = found.or_else(|| server.filter(|server| fits(server)));
        }
        if rule.store && stores.len() < MAX_STORES {
            stores.push((table, key));
        }
    }
    (found, stores)
}

/// Runs the rules on the response, and stores the server for all keys.
pub(crate) fn response(
    shared: &Shared,
    proxy: &Proxy,
    index: usize,
    txn: &Txn,
    stores: &mut Stores,
    server: &ServerState,
) {
    let requested = stores.len();
    for (at, rule) in proxy.stick_rules.iter().enumerate().filter(|(_, rule)| rule.response) {
        let Some(table) = shared.tables.of_rule(index, at) else { continue };
        let stored = stores.iter().skip(requested).any(|(other, _)| *other == table);
        if stored || stores.len() >= MAX_STORES {
            continue;
        }
        if let Some(key) = key_of(shared, table, &rule.condition, &rule.expr, txn) {
            stores.push((table, key));
        }
    }
    if server.config.non_stick {
        stores.clear();
    }
    for (table, key) in stores.drain(..) {
        let Some(table) = shared.tables.at(table) else { continue };
        let name = match table.by_address {
            true => server.addr.load().ip().map(|addr| addr.to_string()).unwrap_or_default(),
            false => server.config.name.to_string(),
        };
        table.with_made(&key, |table, id, now| {
            table.set(id, DataType::ServerId, 0, server.config.id.into(), now);
            table.set_text(id, DataType::ServerKey, name.as_bytes());
        });
    }
}

fn key_of(
    shared: &Shared,
    table: usize,
    condition: &Option<weir_rules::Condition>,
    expr: &weir_rules::Expr,
    txn: &Txn,
) -> Option<Key> {
    if condition.as_ref().is_some_and(|condition| !condition.holds(txn)) {
        return None;
    }
    let table = shared.tables.at(table)?;
    table.key_from(expr.eval(txn)?)
}

/// The server stored for a key, by its name or address where that is known, by its number otherwise.
fn look_up(shared: &Shared, table: usize, key: &Key, members: &Members) -> Option<Arc<ServerState>> {
    let table = shared.tables.at(table)?;
    let (name, id) = table.with(key, |table, id, now| {
        table.touch(id, now);
        let name = table.text(id, DataType::ServerKey).map(|name| String::from_utf8_lossy(name).into_owned());
        (name.filter(|name| !name.is_empty()), table.value(id, DataType::ServerId, 0, now))
    })?;
    let by_name = |name: &String| match table.by_address {
        true => {
            let addr = name.parse().ok();
            members.servers.iter().find(|server| addr.is_some() && server.addr.load().ip() == addr)
        }
        false => members.named(name),
    };
    let by_id = || members.numbered(u32::try_from(id?).ok()?);
    name.as_ref().and_then(by_name).or_else(by_id).cloned()
}
