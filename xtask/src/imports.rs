//! Which modules of its own crate a source file names.
//!
//! Paths are read as text, those that start with `crate::` or `super::`; a type that is used only through a method is
//! not seen.  What the crate's root hands on (`pub use a::b::C`) counts as the module that it comes from.

use std::collections::{BTreeMap, BTreeSet};

/// The source files seen so far.
#[derive(Default)]
pub(crate) struct Imports {
    files: Vec<File>,
    /// By crate: names that its root hands on, with the paths behind them.
    handed_on: BTreeMap<String, BTreeMap<String, String>>,
}

/// A source file that is a module.
pub(crate) struct File {
    /// Its path in the repository.
    pub(crate) name: String,
    /// The folder of its crate (`weir-http`).
    pub(crate) package: String,
    /// Its module path (`server::reach`).
    pub(crate) module: String,
    /// Paths that it names.
    paths: Vec<String>,
}

impl Imports {
    /// Takes note of a source file without its tests and comments.
    pub(crate) fn see(&mut self, name: &str, code: &str) {
        let Some((package, inside)) =
            name.strip_prefix("crates/").and_then(|inside| inside.split_once("/src/"))
        else {
            return;
        };
        match module_of(inside) {
            None => {
                self.handed_on.insert(package.to_owned(), handed_on(code));
            }
            Some(module) => {
                let paths = paths(code, &module);
                let (name, package) = (name.to_owned(), package.to_owned());
                self.files.push(File { name, package, module, paths });
            }
        }
    }

    /// The files that are modules.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The paths of modules that a file names.
    pub(crate) fn of<'a>(&'a self, file: &'a File) -> BTreeSet<&'a str> {
        let handed_on = self.handed_on.get(&file.package);
        let origin = |path: &'a String| {
            let first = path.split("::").next().unwrap_or_default();
            handed_on.and_then(|names| names.get(first)).unwrap_or(path).as_str()
        };
        file.paths.iter().map(origin).collect()
    }
}

/// `server/reach/mod.rs` is `server::reach`; the root of a crate is no module.
fn module_of(inside: &str) -> Option<String> {
    let path = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    (!matches!(path, "lib" | "main")).then(|| path.replace('/', "::"))
}

/// What a root's `use` lines name, with the paths they name it by.
fn handed_on(code: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in code.split(';') {
        let Some((_, path)) = line.rsplit_once("use ") else { continue };
        for path in group(path.trim()) {
            let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
            let last = path.rsplit("::").next().unwrap_or_default();
            let name = if name.is_empty() { last } else { name };
            names.insert(name.trim().to_owned(), path.trim_start_matches("crate::").to_owned());
        }
    }
    names
}

/// Paths behind `crate::` and `super::`, those of a group each by itself.
fn paths(code: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        found.extend(group(&code[at + prefix.len()..]));
    }
    for (at, prefix) in code.match_indices("super::") {
        // One more of them is one folder up, which the first of a chain has counted.
        if code[..at].ends_with(prefix) {
            continue;
        }
        let (mut folder, mut rest) = (module, &code[at..]);
        while let Some(next) = rest.strip_prefix(prefix) {
            folder = folder.rsplit_once("::").map_or("", |(folder, _)| folder);
            rest = next;
        }
        let join = |path: String| if folder.is_empty() { path } else { format!("{folder}::{path}") };
        found.extend(group(rest).into_iter().map(join));
    }
    found
}

/// The path that a text starts with, or each of a group's.
fn group(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')).unwrap_or(text.len());
    let path = text[..end].trim_end_matches(':');
    match text[end..].strip_prefix('{').and_then(|group| group.split_once('}')) {
        Some((group, _)) if !path.is_empty() => {
            group.split(',').map(|name| format!("{path}::{}", name.trim())).collect()
        }
        Some((group, _)) => group.split(',').map(|name| name.trim().to_owned()).collect(),
        None => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_name_by_name() {
        assert_eq!(paths("use crate::{a, b::C};\nx(crate::d::E::f());", "m"), ["a", "b::C", "d::E::f"]);
        assert_eq!(paths("use crate::a::{self, b};", "m"), ["a::self", "a::b"]);
    }

    #[test]
    fn super_is_the_folder_above() {
        assert_eq!(paths("use super::{b, C};", "a::m"), ["a::b", "a::C"]);
        assert_eq!(paths("use super::super::d;", "a::m"), ["d"]);
        assert_eq!(paths("use super::d;", "m"), ["d"]);
    }

    #[test]
    fn what_the_root_hands_on_comes_from_its_module() {
        let mut imports = Imports::default();
        imports.see("crates/weir-x/src/lib.rs", "mod a;\n\npub use a::b::{C, D as E};\npub use f::G;\n");
        imports.see("crates/weir-x/src/m.rs", "use crate::{C, G};\nfn f(e: crate::E) {}\n");
        let file = imports.files().next().expect("one was seen");
        assert_eq!(imports.of(file).into_iter().collect::<Vec<_>>(), ["a::b::C", "a::b::D", "f::G"]);
    }
}
