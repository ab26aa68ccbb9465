//! A table of names and cells, as Markdown and as HTML.

use weir_load::report;

/// Rows of as many cells as there are columns.
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// The first column is that of the rows' names.
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: &str, cells: Vec<String>) {
        self.rows.push((name.to_owned(), cells));
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("| {} |\n|---|", self.columns.join(" | "));
        text.push_str(&"--:|".repeat(self.columns.len().saturating_sub(1)));
        text.push('\n');
        for (name, cells) in &self.rows {
            let cells = cells.iter().map(|cell| cell.replace('|', "/"));
            text.push_str(&format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | ")));
        }
        text
    }

    pub(crate) fn html(&self, html: &mut String) {
        report::figures(html, self.columns.get(1..).unwrap_or_default(), &self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_every_cell() {
        let mut table = Table::new(&["", "a", "b"]);
        table.row("weir", vec!["1".to_owned(), "x|y".to_owned()]);
        assert_eq!(table.markdown(), "|  | a | b |\n|---|--:|--:|\n| weir | 1 | x/y |\n");
        let mut html = String::new();
        table.html(&mut html);
        assert!(html.contains("<th>weir</th><td>1</td><td>x|y</td>"), "{html}");
    }
}
