//! Counters that outlive the process (`stats-file`): written by a command, read at start.
//!
//! Objects are known by their `guid`; those without one start from zero. A table for each kind of object, in the form of
//! the statistics: a line of titles, then a line for each object. What is not understood changes nothing.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use crate::log::level;
use crate::state::Shared;
use crate::state::counters::{ALL, Counters};

/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Kinds of objects, as their tables are called.
const KINDS: [&str; 4] = ["fe", "be", "li", "srv"];

/// The text of a file with the counters as they are.
#[must_use]
pub fn dump(shared: &Shared) -> String {
    let titles: Vec<String> = ALL.iter().map(|counter| format!("{counter:?}")).collect();
    let mut text = String::new();
    for kind in KINDS {
        // Writing to memory cannot fail.
        writeln!(text, "#{kind} guid,{}", titles.join(",")).unwrap_or_default();
        each(shared, kind, &mut |guid, counters| {
            let values: Vec<String> = ALL.iter().map(|counter| counters.sum(*counter).to_string()).collect();
            writeln!(text, "{guid},{}", values.join(",")).unwrap_or_default();
        });
    }
    text
}

/// Every object of a kind that has a GUID.
fn each(shared: &Shared, kind: &str, with: &mut impl FnMut(&str, &Counters)) {
    for (state, proxy) in shared.proxies.iter().zip(&shared.config.proxies) {
        match (kind, &proxy.guid) {
            ("fe", Some(guid)) if proxy.frontend => with(guid, &state.front),
            ("be", Some(guid)) if proxy.backend => with(guid, &state.back),
            ("li", _) => {
                for (listener, bind) in state.listeners.iter().zip(&proxy.binds) {
                    if let (Some(guid), Some(counters)) = (&bind.guid, &listener.counters) {
                        with(guid, counters);
                    }
                }
            }
            ("srv", _) => {
                for server in state.servers.load().iter() {
                    if let Some(guid) = &server.config.guid {
                        with(guid, &server.counters);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Starts with the counters of the file that the configuration names.
pub(crate) fn load(shared: &Shared) {
    let Some(path) = &shared.config.global.stats_file else { return };
    match read(path) {
        Ok(text) => apply(shared, &text),
        Err(error) => {
            shared.log(level::NOTICE, &format!("cannot read the stats-file '{}': {error}", path.display()));
        }
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn apply(shared: &Shared, text: &str) {
    let saved = tables(text);
    for kind in KINDS {
        each(shared, kind, &mut |guid, counters| {
            let Some((titles, values)) = saved.get(&(kind, guid)) else { return };
            for (title, value) in titles.iter().zip(values.split(',')) {
                let counter = ALL.iter().find(|counter| format!("{counter:?}") == *title);
                if let (Some(counter), Ok(value)) = (counter, value.parse()) {
                    counters.preload(*counter, value);
                }
            }
        });
    }
}

/// Titles and values by kind and GUID.
fn tables(text: &str) -> HashMap<(&'static str, &str), (Vec<&str>, &str)> {
    let mut found = HashMap::new();
    let mut table: Option<(&'static str, Vec<&str>)> = None;
    for line in text.lines() {
        if let Some(titles) = line.strip_prefix('#') {
            table = titles.split_once(" guid,").and_then(|(name, titles)| {
                let kind = KINDS.iter().find(|kind| **kind == name)?;
                Some((*kind, titles.split(',').collect()))
            });
        } else if let (Some((kind, titles)), Some((guid, values))) = (&table, line.split_once(',')) {
            found.insert((*kind, guid), (titles.clone(), values));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::counters::Counter;

    const CONFIG: &str = "frontend fe\n guid F\n option socket-stats\n bind 127.0.0.1:1,127.0.0.1:2 guid-prefix L\n \
                          default_backend be\nbackend be\n guid B\n server a 127.0.0.1:3 guid S\n server b 127.0.0.1:4\n";

    fn shared() -> Arc<Shared> {
        let loaded =
            weir_config::load_str("t", CONFIG).unwrap_or_else(|found| panic!("{}", found.render(false)));
        Shared::new(Arc::new(loaded.config), 2, "node".to_owned())
    }

    /// Requests of the frontend, the backend, the second listener, and both servers.
    fn requests(shared: &Shared) -> [u64; 5] {
        let (fe, be) = (&shared.proxies[0], &shared.proxies[1]);
        let servers = be.servers.load();
        let listener = fe.listeners[1].counters.as_ref().unwrap();
        [&fe.front, &be.back, listener, &servers[0].counters, &servers[1].counters]
            .map(|counters| counters.sum(Counter::Requests))
    }

    #[test]
    fn counters_come_back() {
        let old = shared();
        let (fe, be) = (&old.proxies[0], &old.proxies[1]);
        fe.front.add(0, Counter::Requests, 1);
        be.back.add(1, Counter::Requests, 2);
        fe.listeners[1].counters.as_ref().unwrap().add(0, Counter::Requests, 3);
        for server in be.servers.load().iter() {
            server.counters.add(1, Counter::Requests, 4);
        }
        let text = dump(&old);
        let new = shared();
        apply(&new, &text);
        // The server without a GUID starts anew.
        assert_eq!(requests(&new), [1, 2, 3, 4, 0]);
        assert_eq!(dump(&new), text);
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let check = |text: &str, expected: [u64; 5]| {
            let shared = shared();
            apply(&shared, text);
            assert_eq!(requests(&shared), expected, "{text}");
        };
        check("", [0; 5]);
        check("F,1\n#fe guid,Nonsense,Requests\nF,7,5\nX,1,1\nF\n", [5, 0, 0, 0, 0]);
        check(
            "#fe guid,Requests\nF,x\n#nosuch guid,Requests\nF,5\n#be guid,Requests,BytesIn\nB,6",
            [0, 6, 0, 0, 0],
        );
    }
}
