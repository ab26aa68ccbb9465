//! Whether imports inside a crate go downwards.
//!
//! Each crate below has its modules in layers; one may name its own layer's modules and those further down, never those
//! further up.  What does so today stands in a list that only gets shorter: an entry that nothing needs any more fails.

use crate::imports::Imports;
use std::collections::BTreeSet;

/// Imports that still go upwards, one a line: the file inside of `crates/`, `->`, the module.
pub(crate) const LIST: &str = "xtask/layers.txt";

struct Layers {
    /// The folder of the crate.
    package: &'static str,
    /// From the bottom up.  The longest name that fits a path counts, so that a file can stand apart from its folder.
    layers: &'static [&'static [&'static str]],
}

const CRATES: &[Layers] = &[
    Layers {
        package: "weir-proxy",
        layers: &[
            &["state", "plan"],
            &["log"],
            &["edge"],
            &["thread"],
            &["exchange"],
            &["filter"],
            &["rules"],
            &["finish"],
            &["response"],
            &["server"],
            &["forward"],
            &["request"],
            &["exchange::life"],
            &["client"],
            &["accept"],
            &["control"],
            &["process"],
        ],
    },
    Layers {
        package: "weir-rules",
        layers: &[
            &["words"],
            &["value"],
            &["data"],
            &["facts"],
            &["expr"],
            &["reply"],
            &["fetch"],
            &["convert"],
            &["action"],
            &["table"],
        ],
    },
    Layers {
        package: "weir-config",
        layers: &[
            &["language", "status_set"],
            &["model"],
            &["sections"],
            &["keyword"],
            &["tls"],
            &["server"],
            &["bind"],
            &["proxy"],
            &["tune"],
            &["global"],
            &["small_sections", "fcgi"],
            &["table"],
            &["check"],
            &["load"],
        ],
    },
];

/// What is wrong, one line each.
pub(crate) fn check(imports: &Imports, list: &str, wrong: &mut Vec<String>) {
    let mut upwards = BTreeSet::new();
    for file in imports.files() {
        let Some(place) = of(&file.package) else { continue };
        let Some((from, _)) = place.layer(&file.module) else {
            wrong.push(format!("{}:1: is in no layer of xtask/src/layers.rs", file.name));
            continue;
        };
        let ways = imports.of(file).into_iter().filter_map(|path| place.layer(path));
        let ways = ways.filter(|(layer, _)| *layer > from);
        upwards.extend(ways.map(|(_, to)| format!("{} -> {to}", file.name.trim_start_matches("crates/"))));
    }
    let listed = list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    for way in upwards.difference(&listed) {
        wrong.push(format!("{way}: an import goes upwards (layers: xtask/src/layers.rs)"));
    }
    for way in listed.difference(&upwards) {
        wrong.push(format!("{LIST}: no import goes '{way}' any more: take the line out"));
    }
}

/// The name that a path stands under in a crate with layers.
pub(crate) fn part(package: &str, path: &str) -> Option<&'static str> {
    of(package)?.layer(path).map(|(_, name)| name)
}

/// Whether an import of a crate with layers goes upwards.
pub(crate) fn is_upwards(package: &str, from: &str, to: &str) -> bool {
    let layer = |path| of(package).and_then(|place| place.layer(path));
    layer(from).zip(layer(to)).is_some_and(|((from, _), (to, _))| to > from)
}

fn of(package: &str) -> Option<&'static Layers> {
    CRATES.iter().find(|place| place.package == package)
}

impl Layers {
    /// The layer of a module path (`server::reach`), and the name that it stands under.
    fn layer(&self, path: &str) -> Option<(usize, &'static str)> {
        let names =
            self.layers.iter().enumerate().flat_map(|(at, names)| names.iter().map(move |name| (at, *name)));
        names.filter(|(_, name)| is_within(path, name)).max_by_key(|(_, name)| name.len())
    }
}

fn is_within(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, code: &str, list: &str) -> Vec<String> {
        let (mut imports, mut wrong) = (Imports::default(), Vec::new());
        imports.see(name, code);
        check(&imports, list, &mut wrong);
        wrong
    }

    #[test]
    fn an_import_upwards_is_wrong_unless_it_is_listed() {
        let state = "crates/weir-proxy/src/state/mod.rs";
        assert_eq!(found(state, "use crate::state::farm;\n", ""), [""; 0]);
        assert_eq!(found(state, "use crate::log::{self, hub};\n", "").len(), 1);
        assert_eq!(found(state, "use crate::log::hub;\n", "weir-proxy/src/state/mod.rs -> log\n"), [""; 0]);
        assert_eq!(found(state, "", "weir-proxy/src/state/mod.rs -> log\n").len(), 1);
        assert_eq!(found("crates/weir-proxy/src/log/mod.rs", "use crate::state::Shared;\n", ""), [""; 0]);
        assert_eq!(found("crates/weir-proxy/src/somewhere.rs", "", "").len(), 1);
    }

    #[test]
    fn a_file_can_stand_apart_from_its_folder() {
        assert_eq!(
            found("crates/weir-proxy/src/exchange/life.rs", "use crate::request::rules;\n", ""),
            [""; 0]
        );
        assert_eq!(
            found("crates/weir-proxy/src/exchange/mod.rs", "use crate::request::rules;\n", "").len(),
            1
        );
    }
}
