//! Whether everything that is used again is listed in ARCHITECTURE.md with the test that nothing of it changes an output.
//!
//! Reads the source as text: what belongs to a thread, stocks of free memory, scratch buffers. The tools' own (load
//! generator, test server) are not looked at: they serve nobody.

use std::collections::BTreeSet;

/// Where the list stands: rows of memory, file, bound, test.
pub(crate) const LIST: &str = "ARCHITECTURE.md";

const HEADING: &str = "## Memory that is used again";

/// Crates that serve nobody.
const TOOLS: &[&str] = &["crates/weir-load/", "crates/weir-origin/", "crates/weir/"];

/// The sources seen so far.
#[derive(Default)]
pub(crate) struct ReusedMemory {
    /// Files with memory that is used again, and where in them.
    marked: Vec<(String, usize)>,
    files: BTreeSet<String>,
    tests: BTreeSet<String>,
    list: Vec<Row>,
}

/// A row of the list.
struct Row {
    line: usize,
    file: String,
    test: String,
}

impl ReusedMemory {
    /// Takes note of a source file; `code` is it without its tests and comments.
    pub(crate) fn see(&mut self, name: &str, text: &str, code: &str) {
        self.files.insert(name.to_owned());
        self.tests.extend(text.lines().filter_map(function).map(str::to_owned));
        let inside = name.starts_with("crates/") && name.contains("/src/");
        if !inside || TOOLS.iter().any(|tool| name.starts_with(tool)) {
            return;
        }
        let place = code.lines().position(is_mark);
        self.marked.extend(place.map(|at| (name.to_owned(), at + 1)));
    }

    /// Takes note of the list.
    pub(crate) fn see_list(&mut self, text: &str) {
        let start = text.lines().position(|line| line == HEADING).unwrap_or(usize::MAX);
        let section = text.lines().enumerate().skip(start.saturating_add(1));
        self.list = section.take_while(|(_, line)| !line.starts_with("## ")).filter_map(row).collect();
    }

    /// What is wrong, one line each.
    pub(crate) fn finish(&self, wrong: &mut Vec<String>) {
        for (name, line) in &self.marked {
            if !self.list.iter().any(|row| row.file == *name) {
                wrong.push(format!(
                    "{name}:{line}: used again, and not in {LIST} with a test that nothing of it changes an output"
                ));
            }
        }
        for Row { line, file, test } in &self.list {
            if !self.files.contains(file) {
                wrong.push(format!("{LIST}:{line}: there is no {file}"));
            }
            if !self.tests.contains(test) {
                wrong.push(format!("{LIST}:{line}: there is no test {test}"));
            }
        }
    }
}

/// A declaration of something that is used again.
fn is_mark(line: &str) -> bool {
    let field = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    let is_field = ["free: ", "scratch: "].iter().any(|name| field.starts_with(name));
    line.contains("thread_local!") || is_field && field.ends_with(',') && field.contains('<')
}

fn function(line: &str) -> Option<&str> {
    line.trim().strip_prefix("fn ")?.split(['(', '<']).next()
}

/// `| memory | file | bound | test |`, of which file and test are code.
fn row((at, line): (usize, &str)) -> Option<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    match cells[..] {
        [_, file, _, test] => Some(Row { line: at + 1, file: code(file)?, test: code(test)? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "struct Stock {\n    free: Vec<Vec<u8>>,\n}\n";
    const TEST: &str = "    fn nothing_remains() {\n";

    fn found(name: &str, code: &str, list: &str) -> Vec<String> {
        let (mut sources, mut wrong) = (ReusedMemory::default(), Vec::new());
        sources.see(name, &format!("{code}{TEST}"), code);
        sources.see_list(list);
        sources.finish(&mut wrong);
        wrong
    }

    #[test]
    fn what_is_used_again_is_listed_with_its_test() {
        let file = "crates/weir-net/src/stock.rs";
        let list = |file: &str, test: &str| {
            format!("{HEADING}\n\n| a | b | c | d |\n|---|---|---|---|\n| x | `{file}` | 9 | `{test}` |\n")
        };
        let good = list(file, "nothing_remains");
        assert_eq!(found(file, STOCK, &good), Vec::<String>::new());
        assert_eq!(found(file, "thread_local! {\n}\n", "").len(), 1);
        assert_eq!(
            found(file, STOCK, ""),
            [format!(
                "{file}:2: used again, and not in {LIST} with a test that nothing of it changes an output"
            )]
        );
        assert_eq!(
            found(file, STOCK, &list(file, "another")),
            [format!("{LIST}:5: there is no test another")]
        );
        assert_eq!(
            found(file, "", &list("gone.rs", "nothing_remains")),
            [format!("{LIST}:5: there is no gone.rs")]
        );
        assert_eq!(found("crates/weir-load/src/lane.rs", STOCK, ""), Vec::<String>::new());
        assert_eq!(found(file, "fn f(\n    scratch: &mut Scratch,\n) {}\n", ""), Vec::<String>::new());
    }
}
