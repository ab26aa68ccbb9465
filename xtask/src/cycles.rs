//! Whether the modules of a crate can be read one after the other: no module names one that names it, however far round.
//!
//! Looks at the folders and files at the top of each crate; where a crate has layers, at what these name, and leaves
//! imports that go upwards to their list.  What still goes round a circle stands in a list that only gets shorter: an
//! entry without which there would be no circle either fails.

use crate::imports::Imports;
use crate::layers;
use std::collections::{BTreeMap, BTreeSet};

/// Imports that are not followed, one a line: the crate, the module, `->`, the module that it names.
pub(crate) const LIST: &str = "xtask/cycles.txt";

/// The modules of a crate, and those that each names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// What is wrong, one line each.
pub(crate) fn check(imports: &Imports, list: &str, wrong: &mut Vec<String>) {
    let mut crates = graphs(imports);
    let listed: Vec<_> = list.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect();
    for (package, from, to) in &listed {
        let ways = crates.get_mut(*package).and_then(|graph| graph.get_mut(*from));
        if !ways.is_some_and(|ways| ways.remove(*to)) {
            wrong.push(format!("{LIST}: {package} has no import {from} -> {to} any more: take the line out"));
        }
    }
    for (package, graph) in &crates {
        if let Some(circle) = circle(graph) {
            wrong.push(format!(
                "crates/{package}: modules name each other in a circle: {}",
                circle.join(" > ")
            ));
        }
    }
    for (package, from, to) in &listed {
        if crates.get(*package).is_some_and(|graph| way(graph, to, from).is_none()) {
            wrong.push(format!(
                "{LIST}: {package} {from} -> {to} closes no circle any more: take the line out"
            ));
        }
    }
}

/// `weir-x a -> b`
fn entry(line: &str) -> Option<(&str, &str, &str)> {
    let (package, way) = line.split_once(' ')?;
    let (from, to) = way.split_once(" -> ")?;
    Some((package, from, to))
}

fn graphs(imports: &Imports) -> BTreeMap<String, Graph> {
    let mut crates: BTreeMap<String, Graph> = BTreeMap::new();
    for file in imports.files() {
        let graph = crates.entry(file.package.clone()).or_default();
        graph.entry(part(&file.package, &file.module).to_owned()).or_default();
    }
    for file in imports.files() {
        let Some(graph) = crates.get_mut(&file.package) else { continue };
        let from = part(&file.package, &file.module);
        for path in imports.of(file) {
            let to = part(&file.package, path);
            if to != from && graph.contains_key(to) && !layers::is_upwards(&file.package, from, to) {
                graph.entry(from.to_owned()).or_default().insert(to.to_owned());
            }
        }
    }
    crates
}

/// The module at the top of a crate that a path leads into.
fn part<'a>(package: &str, path: &'a str) -> &'a str {
    layers::part(package, path).or_else(|| path.split("::").next()).unwrap_or(path)
}

/// A circle, if there is one: its modules, the first again at the end.
fn circle(graph: &Graph) -> Option<Vec<&str>> {
    graph.iter().find_map(|(from, ways)| {
        let back = ways.iter().find_map(|to| way(graph, to, from))?;
        Some([vec![from.as_str()], back].concat())
    })
}

/// The shortest way from a module to another, both included.
fn way<'a>(graph: &'a Graph, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while !ways.is_empty() {
        if let Some(found) = ways.iter().find(|way| way.last() == Some(&to)) {
            return Some(found.clone());
        }
        let mut longer = Vec::new();
        for way in ways {
            let next = way.last().and_then(|last| graph.get(*last)).into_iter().flatten();
            longer.extend(
                next.filter(|next| seen.insert(next)).map(|next| [way.clone(), vec![next.as_str()]].concat()),
            );
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)], list: &str) -> Vec<String> {
        let (mut imports, mut wrong) = (Imports::default(), Vec::new());
        for (name, code) in sources {
            imports.see(&format!("crates/weir-x/src/{name}.rs"), code);
        }
        check(&imports, list, &mut wrong);
        wrong
    }

    #[test]
    fn a_circle_is_wrong_unless_it_is_listed() {
        let ladder: &[_] = &[("a", "use crate::b;\n"), ("b/mod", "use crate::c::D;\n"), ("c", "")];
        assert_eq!(found(ladder, ""), [""; 0]);
        let circle: &[_] =
            &[("a", "use crate::b;\n"), ("b/d", "use super::super::c::D;\n"), ("c", "use crate::a;\n")];
        assert_eq!(found(circle, ""), ["crates/weir-x: modules name each other in a circle: a > b > c > a"]);
        assert_eq!(found(circle, "weir-x c -> a\n"), [""; 0]);
        assert_eq!(found(ladder, "weir-x c -> a\n").len(), 1);
        assert_eq!(found(ladder, "weir-x a -> b\n").len(), 1);
    }
}
