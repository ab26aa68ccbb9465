//! Counts that may only fall: what the data plane knows in too many places.
//!
//! Versions of HTTP are known to the folders of [`AT_HOME`]; every line elsewhere that names one is counted, file by file.
//! Functions that take the whole exchange to change it are counted together. The source is read as text, without tests
//! and comments.

use std::collections::BTreeMap;

/// The counts that stand: what is counted, where, how often.
pub(crate) const LIST: &str = "xtask/counts.txt";

/// Lines that name a version of HTTP.
const VERSIONS: &str = "versions";
/// Functions that take `x: &mut Exchange`.
const EXCHANGES: &str = "exchanges";

/// Where versions of HTTP are known.
const AT_HOME: &[&str] = &["crates/weir-proxy/src/edge/", "crates/weir-proxy/src/client/"];

/// Whose functions are counted.
const DATA_PLANE: &str = "crates/weir-proxy/src/";

/// What is counted, and where: a file or a folder inside of `crates/`.
type Place = (String, String);

/// The counts seen so far.
#[derive(Default)]
pub(crate) struct Counts {
    found: BTreeMap<Place, usize>,
    listed: BTreeMap<Place, usize>,
}

impl Counts {
    /// Takes note of a source file without its tests and comments.
    pub(crate) fn see(&mut self, name: &str, code: &str) {
        let Some(place) = name.strip_prefix("crates/") else { return };
        if !AT_HOME.iter().any(|home| name.starts_with(home)) {
            self.add(VERSIONS, place, code.lines().filter(|line| names_a_version(line)).count());
        }
        if name.starts_with(DATA_PLANE) {
            let folder = DATA_PLANE.trim_start_matches("crates/").trim_end_matches('/');
            self.add(EXCHANGES, folder, exchanges_taken(code));
        }
    }

    fn add(&mut self, what: &str, place: &str, count: usize) {
        if count > 0 {
            *self.found.entry((what.to_owned(), place.to_owned())).or_default() += count;
        }
    }

    /// Takes note of the list.
    pub(crate) fn see_list(&mut self, text: &str) {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        self.listed = lines.filter_map(entry).collect();
    }

    /// What is wrong, one line each.
    pub(crate) fn finish(&self, wrong: &mut Vec<String>) {
        for (place, &found) in &self.found {
            let listed = self.listed.get(place).copied().unwrap_or(0);
            if found > listed {
                let (what, place) = (&place.0, &place.1);
                wrong.push(format!("{place}: {found} {}, and {listed} are in {LIST}", meaning(what)));
            }
        }
        for (place, &listed) in &self.listed {
            let found = self.found.get(place).copied().unwrap_or(0);
            if found < listed {
                let (what, place) = (&place.0, &place.1);
                let then = if found == 0 { "take the line out" } else { "write that" };
                wrong.push(format!("{LIST}: '{what} {place} {listed}' is {found} now: {then}"));
            }
        }
    }
}

/// What is counted, in words.
fn meaning(what: &str) -> &'static str {
    match what {
        VERSIONS => "lines name a version of HTTP, which is for edge and client",
        _ => "functions take the whole exchange",
    }
}

/// `versions weir-proxy/src/finish/mod.rs 6`
fn entry(line: &str) -> Option<(Place, usize)> {
    let mut words = line.split_whitespace();
    let (what, place, count) = (words.next()?, words.next()?, words.next()?);
    Some(((what.to_owned(), place.to_owned()), count.parse().ok()?))
}

/// Whether a line says `Edge::H1` or its like, or takes such names in.
fn names_a_version(line: &str) -> bool {
    line.match_indices("Edge::").any(|(at, path)| {
        let is_whole = !line[..at].ends_with(is_part_of_a_name);
        let name = &line[at + path.len()..];
        is_whole && ["H1", "H2", "H3", "Fcgi", "{", "*"].iter().any(|version| name.starts_with(version))
    })
}

/// How often a parameter is `&mut Exchange`.
fn exchanges_taken(code: &str) -> usize {
    let taken = |(at, name): (usize, &str)| {
        let reference = code[..at].rsplit(": ").next().unwrap_or_default();
        let is_reference = reference == "&" || reference.starts_with("&'") && !reference.contains(',');
        is_reference && !code[at + name.len()..].starts_with(is_part_of_a_name)
    };
    code.match_indices("mut Exchange").filter(|found| taken(*found)).count()
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, code: &str, list: &str) -> Vec<String> {
        let (mut counts, mut wrong) = (Counts::default(), Vec::new());
        counts.see(name, code);
        counts.see_list(list);
        counts.finish(&mut wrong);
        wrong
    }

    #[test]
    fn versions_outside_of_their_folders_are_counted() {
        let file = "crates/weir-proxy/src/finish/mod.rs";
        let two = "if let Edge::H1(client) = x {}\nmatches!(x, Edge::H2(_) | Edge::Fcgi(_))\n";
        let listed = |count| format!("# comment\nversions weir-proxy/src/finish/mod.rs {count}\n");
        assert_eq!(found(file, two, &listed(2)), [""; 0]);
        assert_eq!(found(file, two, &listed(1)).len(), 1);
        assert_eq!(found(file, two, "").len(), 1);
        // Fewer than there were: the list has to say so.
        assert_eq!(found(file, two, &listed(3)).len(), 1);
        assert_eq!(found(file, "", &listed(1)).len(), 1);
        assert_eq!(found("crates/weir-proxy/src/edge/h1.rs", two, ""), [""; 0]);
        assert_eq!(found("crates/weir-proxy/src/client/h1.rs", two, ""), [""; 0]);
    }

    #[test]
    fn a_version_is_named_in_a_path_or_an_import() {
        assert!(names_a_version("Edge::H1(edge) => edge,"));
        assert!(names_a_version("use crate::edge::Edge::{H1, H2};"));
        assert!(!names_a_version("H1Edge::new(stream)"));
        assert!(!names_a_version("FcgiEdge::H1"));
        assert!(!names_a_version("Edge::poll_body(cx)"));
    }

    #[test]
    fn functions_that_take_the_exchange_are_counted_together() {
        let code = "fn a(x: &mut Exchange) {}\nfn b(\n    x: &mut Exchange,\n    y: u8,\n) {}\n\
                    fn c<'a>(x: &'a mut Exchange) {}\n\
                    fn d(x: &Exchange, y: &mut Exchanges, mut z: Box<Exchange>) {}\n";
        let list = "exchanges weir-proxy/src 3\n";
        assert_eq!(found("crates/weir-proxy/src/forward/mod.rs", code, list), [""; 0]);
        let two = &code[code.find("fn b").unwrap()..];
        assert_eq!(found("crates/weir-proxy/src/forward/mod.rs", two, list).len(), 1);
        assert_eq!(found("crates/weir-load/src/h2.rs", code, ""), [""; 0]);
    }
}
