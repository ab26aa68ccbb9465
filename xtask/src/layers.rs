//! Whether imports inside a crate go downwards.
//!
//! Each crate below has its modules in layers; one may name its own layer's modules and those further down, never those
//! further up.  What does so today stands in a list that only gets shorter: an entry that nothing needs any more fails.
//! Paths are read as text: a type that is used only through a method is not seen.

use std::collections::BTreeSet;

/// Imports that still go upwards, one a line: the file inside of `crates/`, `->`, the module.
pub(crate) const LIST: &str = "xtask/layers.txt";

struct Layers {
    /// The folder of the crate's sources.
    sources: &'static str,
    /// From the bottom up.  The longest name that fits a path counts, so that a file can stand apart from its folder.
    layers: &'static [&'static [&'static str]],
}

const CRATES: &[Layers] = &[Layers {
    sources: "crates/weir-proxy/src/",
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
}];

/// The imports seen so far.
#[derive(Default)]
pub(crate) struct Imports {
    upwards: BTreeSet<String>,
    unplaced: Vec<String>,
    listed: BTreeSet<String>,
}

impl Imports {
    /// Takes note of a source file without its tests and comments.
    pub(crate) fn see(&mut self, name: &str, code: &str) {
        let Some((place, inside)) =
            CRATES.iter().find_map(|place| Some((place, name.strip_prefix(place.sources)?)))
        else {
            return;
        };
        let module = module_of(inside);
        if module.is_empty() {
            return;
        }
        let Some((from, _)) = place.layer(&module) else {
            self.unplaced.push(format!("{name}:1: is in no layer of xtask/src/layers.rs"));
            return;
        };
        let ways = imports(code).into_iter().filter_map(|path| place.layer(&path));
        let upwards = ways.filter(|(layer, _)| *layer > from);
        self.upwards.extend(upwards.map(|(_, to)| format!("{} -> {to}", name.trim_start_matches("crates/"))));
    }

    /// Takes note of the list.
    pub(crate) fn see_list(&mut self, text: &str) {
        self.listed = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    }

    /// What is wrong, one line each.
    pub(crate) fn finish(mut self, wrong: &mut Vec<String>) {
        wrong.append(&mut self.unplaced);
        for way in self.upwards.difference(&self.listed) {
            wrong.push(format!("{way}: an import goes upwards (layers: xtask/src/layers.rs)"));
        }
        for way in self.listed.difference(&self.upwards) {
            wrong.push(format!("{LIST}: no import goes '{way}' any more: take the line out"));
        }
    }
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

/// `server/reach/mod.rs` is `server::reach`, `lib.rs` nothing.
fn module_of(inside: &str) -> String {
    let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" { String::new() } else { path.replace('/', "::") }
}

/// Paths behind `crate::`, those of a group each by itself.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(':');
        match rest[end..].strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, _)) if !path.is_empty() => {
                found.extend(group.split(',').map(|name| format!("{path}::{}", name.trim())));
            }
            Some((group, _)) => found.extend(group.split(',').map(|name| name.trim().to_owned())),
            None => found.push(path.to_owned()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, code: &str, list: &str) -> Vec<String> {
        let (mut imports, mut wrong) = (Imports::default(), Vec::new());
        imports.see(name, code);
        imports.see_list(list);
        imports.finish(&mut wrong);
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

    #[test]
    fn groups_are_read_name_by_name() {
        assert_eq!(imports("use crate::{a, b::C};\nx(crate::d::E::f());"), ["a", "b::C", "d::E::f"]);
        assert_eq!(imports("use crate::a::{self, b};"), ["a::self", "a::b"]);
    }
}
