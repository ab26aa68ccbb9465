//! Rules about the source that no compiler checks: what a crate may name, where unsafe code may stand,
//! what no file may say.

use crate::counts::{self, Counts};
use crate::documents::Documents;
use crate::imports::Imports;
use crate::model_fields::ModelFields;
use crate::reused_memory::{self, ReusedMemory};
use crate::{cycles, layers, place, program};
use std::path::Path;
use std::process::Command;

/// A crate may name none of `words` outside its tests, except in the files of `except`.
struct Purity {
    crates: &'static [&'static str],
    words: &'static [&'static str],
    except: &'static [&'static str],
}

const PURITY: &[Purity] = &[
    // Bytes are machines and decisions are pure functions: no runtime, socket, clock or thread.
    Purity {
        crates: &["weir-http", "weir-deflate", "weir-balance", "weir-rules"],
        words: &[
            "tokio",
            "rustls",
            "rustix",
            "socket2",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
            "std::thread",
            "thread::spawn",
            "Instant::now",
            "SystemTime::now",
        ],
        except: &[],
    },
    Purity {
        crates: &["weir-compress", "weir-config"],
        words: &["tokio", "rustls", "TcpStream", "TcpListener", "UdpSocket", "std::thread", "thread::spawn"],
        except: &[],
    },
    // Reading a configuration reads files in one place, so that everything else is a function of text.
    Purity {
        crates: &["weir-http", "weir-deflate", "weir-balance", "weir-compress", "weir-rules", "weir-config"],
        words: &["std::fs", "fs::read", "File::open"],
        except: &["crates/weir-config/src/language/files.rs"],
    },
];

/// Files that may hold unsafe code.
const UNSAFE: &[&str] = &[
    // Descriptors handed over by number, and socket options that no crate wraps.
    "crates/weir-net/src/kernel.rs",
    // The allocator's trait.
    "crates/weir/src/allocator.rs",
];

/// What no committed file says; each is written in two parts so that this file does not say it either.
const UNSAID: &[(&str, &str, &str)] = &[
    ("crates", ".io", "name packages, not the registry"),
    ("pypi", ".org", "name packages, not the registry"),
    ("npmjs", ".", "name packages, not the registry"),
    ("proxy.golang", ".org", "name packages, not the registry"),
    ("deb.debian", ".org", "the machine's own apt sources know it"),
    ("/work", "/", "a path of one machine"),
    ("/tmp/", "w/", "a path of one machine"),
];

/// Cargo writes the registry's index into its lock files.
const WRITTEN_BY_CARGO: &str = "Cargo.lock";

/// Names that say nothing about what a file owns.
const VAGUE: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "manager"];

/// Checks every file that is or could be committed; returns what is wrong, one line each.
pub(crate) fn run() -> Result<Vec<String>, String> {
    let root = place::repository();
    let listed = program::output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(&root),
    )?;
    let mut wrong = Vec::new();
    let mut model = ModelFields::default();
    let mut reused = ReusedMemory::default();
    let mut imports = Imports::default();
    let mut counts = Counts::default();
    let mut documents = Documents::default();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // A file that is deleted but not yet committed is listed too; one that is not text is skipped.
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        check(name, &text, &mut wrong);
        if name == reused_memory::LIST {
            reused.see_list(&text);
        }
        if name == counts::LIST {
            counts.see_list(&text);
        }
        documents.see(name, &text);
        if name.ends_with(".rs") {
            let code = if is_test_file(name) { String::new() } else { without_tests(&text) };
            reused.see(name, &text, &code);
            imports.see(name, &code);
            model.see(name, &code);
            counts.see(name, &code);
        }
    }
    model.finish(&mut wrong);
    reused.finish(&mut wrong);
    counts.finish(&mut wrong);
    documents.finish(&mut wrong);
    let list = |name: &str| {
        std::fs::read_to_string(root.join(name)).map_err(|error| format!("cannot read {name}: {error}"))
    };
    layers::check(&imports, &list(layers::LIST)?, &mut wrong);
    cycles::check(&imports, &list(cycles::LIST)?, &mut wrong);
    Ok(wrong)
}

fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    unsaid(name, text, wrong);
    if name.starts_with("crates/") {
        purity(name, text, wrong);
    }
    if name.ends_with(".rs") {
        unsafe_code(name, text, wrong);
        shape(name, text, wrong);
    }
}

fn unsaid(name: &str, text: &str, wrong: &mut Vec<String>) {
    if name.ends_with(WRITTEN_BY_CARGO) {
        return;
    }
    for (start, end, why) in UNSAID {
        let word = format!("{start}{end}");
        for (number, line) in lines(text).filter(|(_, line)| line.contains(&word)) {
            // A path is one only at its start: /workers/ and a/work/b are none.
            let path = word.starts_with('/');
            if !path || starts_a_path(line, &word) {
                wrong.push(format!("{name}:{number}: says '{word}': {why}"));
            }
        }
    }
}

fn starts_a_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric() && !matches!(before, '.' | '_' | '-' | '}'))
    })
}

fn purity(name: &str, text: &str, wrong: &mut Vec<String>) {
    let mut parts = name.splitn(3, '/').skip(1);
    let (Some(owner), Some(inside)) = (parts.next(), parts.next()) else { return };
    let code = match inside {
        "Cargo.toml" => dependencies(text),
        _ if inside.starts_with("src/") && inside.ends_with(".rs") && !is_test_file(inside) => {
            without_tests(text)
        }
        _ => return,
    };
    for rule in PURITY.iter().filter(|rule| rule.crates.contains(&owner) && !rule.except.contains(&name)) {
        for (number, line) in lines(&code) {
            for word in rule.words.iter().filter(|word| line.contains(*word)) {
                wrong.push(format!("{name}:{number}: {owner} may not name '{word}'"));
            }
        }
    }
}

fn is_test_file(inside: &str) -> bool {
    inside.ends_with("tests.rs") || inside.contains("/tests/")
}

/// The lines of a manifest that are not about tests, the others blank so that numbers stay.
fn dependencies(manifest: &str) -> String {
    let mut for_tests = false;
    blank(manifest, |line| {
        if line.starts_with('[') {
            for_tests = line.contains("dev-dependencies");
        }
        for_tests || line.starts_with('#') || line.starts_with("description")
    })
}

/// The lines of a source file before its tests, comments blank.
fn without_tests(source: &str) -> String {
    let (mut marked, mut tests) = (false, false);
    blank(source, |line| {
        // Tests in a file of their own (`mod tests;`) end nothing here.
        let elsewhere = marked && line.ends_with(';');
        tests |= marked && !elsewhere;
        // At the margin: a test-only item inside an `impl` does not end the code.
        marked = line == "#[cfg(test)]";
        marked || elsewhere || tests || line.trim_start().starts_with("//")
    })
}

fn blank(text: &str, mut remove: impl FnMut(&str) -> bool) -> String {
    text.lines().map(|line| if remove(line) { "" } else { line }).collect::<Vec<_>>().join("\n")
}

fn unsafe_code(name: &str, text: &str, wrong: &mut Vec<String>) {
    if UNSAFE.contains(&name) {
        return;
    }
    let word = concat!("allow(", "unsafe_code");
    for (number, _) in lines(text).filter(|(_, line)| line.contains(word)) {
        wrong.push(format!(
            "{name}:{number}: unsafe code in a file that is not listed in xtask/src/guards.rs"
        ));
    }
}

fn shape(name: &str, text: &str, wrong: &mut Vec<String>) {
    if !text.starts_with("//!") {
        wrong.push(format!("{name}:1: does not open with `//!`: what it owns, what it leaves to whom"));
    }
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if VAGUE.contains(&stem) {
        wrong.push(format!("{name}:1: '{stem}' does not say what the file owns"));
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(number, line)| (number + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        check(name, text, &mut wrong);
        wrong
    }

    #[test]
    fn the_sources_keep_the_rules() {
        assert_eq!(run().expect("git lists the files"), Vec::<String>::new());
    }

    #[test]
    fn a_core_names_no_socket() {
        let core = "crates/weir-http/src/h1.rs";
        assert_eq!(found(core, "//! H1.\nuse std::net::IpAddr;\n"), Vec::<String>::new());
        assert_eq!(
            found(core, "//! H1.\nuse tokio::net;\n"),
            ["crates/weir-http/src/h1.rs:2: weir-http may not name 'tokio'"]
        );
        assert_eq!(found(core, "//! H1.\n// tokio drives it\n"), Vec::<String>::new());
        assert_eq!(
            found(core, "//! H1.\n#[cfg(test)]\nmod tests {\n    use tokio;\n}\n"),
            Vec::<String>::new()
        );
        assert_eq!(found(core, "//! H1.\n#[cfg(test)]\nmod tests;\nuse tokio::net;\n").len(), 1);
        assert_eq!(found("crates/weir-net/src/tcp.rs", "//! TCP.\nuse tokio::net;\n"), Vec::<String>::new());
    }

    #[test]
    fn a_core_depends_on_no_socket() {
        let manifest = "crates/weir-http/Cargo.toml";
        assert_eq!(found(manifest, "[dependencies]\ntokio = \"1\"\n").len(), 1);
        assert_eq!(found(manifest, "[dev-dependencies]\ntokio = \"1\"\n"), Vec::<String>::new());
    }

    #[test]
    fn files_are_read_in_one_place() {
        assert_eq!(
            found("crates/weir-config/src/language/files.rs", "//! Files.\nuse std::fs;\n"),
            Vec::<String>::new()
        );
        assert_eq!(found("crates/weir-config/src/language/lexer.rs", "//! Words.\nuse std::fs;\n").len(), 1);
    }

    #[test]
    fn paths_of_one_machine_are_found_where_they_start() {
        let path = format!("{}{}", "/work", "/");
        assert_eq!(found("a.md", &format!("see {path}main\n")).len(), 1);
        assert_eq!(found("a.md", &format!("see target{path}main\n")), Vec::<String>::new());
    }

    #[test]
    fn a_file_says_what_it_owns() {
        assert_eq!(found("crates/weir/src/a.rs", "fn a() {}\n").len(), 1);
        assert_eq!(found("crates/weir/src/util.rs", "//! Many things.\n").len(), 1);
    }
}
