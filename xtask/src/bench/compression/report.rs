//! The comparison of compression as Markdown and as a page with plots.

use super::variants::FAMILIES;
use super::{Figures, Measured, SIZES};
use crate::bench::table::Table;
use weir_load::report::plot::{Axis, Line, Plot, Unit, escape};
use weir_load::report::{figure, sheet, units};

/// Sizes whose plots of cost against size tell something.
const PLOTTED_FROM: usize = 3_000;

/// A proxy that used less of its core waited for the client, or had neighbours on its core.
const FULL: f64 = 0.85;

/// A table for each size, as Markdown with its title.
pub(super) fn tables(measured: &[Measured]) -> Vec<String> {
    (0..SIZES.len()).map(|at| format!("### {}\n\n{}", title(at), table(measured, at).markdown())).collect()
}

fn title(at: usize) -> String {
    format!("{} bytes", units::count(SIZES[at] as u64))
}

fn table(measured: &[Measured], at: usize) -> Table {
    let mut table = Table::new(&["", "requests/s", "CPU a request", "size", "of the page", "core used"]);
    for Measured { variant, cells } in measured {
        table.row(variant.name, cells_of(&cells[at], SIZES[at]));
    }
    table
}

fn cells_of(cell: &Result<Figures, String>, size: usize) -> Vec<String> {
    match cell {
        Ok(figures) => {
            // What the client could not take, or neighbours took, is not the proxy's limit.
            let least = if figures.busy < FULL { "at least " } else { "" };
            vec![
                format!("{least}{}", units::rate(figures.per_second)),
                units::time(figures.cpu_us / 1e6),
                units::count(figures.answer_bytes.round() as u64),
                units::percent(figures.answer_bytes / size as f64),
                units::percent(figures.busy),
            ]
        }
        Err(reason) => {
            let mut cells = vec!["-".to_owned(); 4];
            cells.push(reason.trim().replace('\n', ", "));
            cells
        }
    }
}

/// Everything, as a page.
pub(super) fn page(facts: &[String], measured: &[Measured]) -> String {
    let mut html = String::new();
    for fact in facts {
        html.push_str(&format!("<p class=\"soft\">{}</p>\n", escape(fact)));
    }
    html.push_str(&by_size(measured));
    for (at, size) in SIZES.iter().enumerate() {
        if *size >= PLOTTED_FROM {
            html.push_str(&cost_and_size(measured, at));
        } else {
            html.push_str(&format!("<h2>{}</h2>\n", escape(&title(at))));
        }
        table(measured, at).html(&mut html);
    }
    sheet("Compression by reverse proxies over HTTPS", &html)
}

/// Requests a second by size of the page, a line for each variant.
fn by_size(measured: &[Measured]) -> String {
    let line = |Measured { variant, cells }: &Measured| Line {
        name: variant.name.to_owned(),
        color: variant.family,
        dashed: variant.coding.is_none(),
        // The cheapest level of each is shown; a button shows the others.
        off: variant.level > 1 || variant.coding == Some("deflate"),
        marked: true,
        points: SIZES
            .iter()
            .zip(cells)
            .filter_map(|(size, cell)| Some((*size as f64, cell.as_ref().ok()?.per_second)))
            .collect(),
    };
    let lines: Vec<Line> = measured.iter().map(line).collect();
    let plot = Plot {
        description: "Requests a second by size".to_owned(),
        x: Axis::log("Bytes of the page", Unit::Number, SIZES[0] as f64, SIZES[SIZES.len() - 1] as f64),
        y: Axis::log("Requests a second", Unit::Rate, lowest(&lines), highest(&lines)),
        lines,
    };
    figure(
        "Requests a second by size of the page",
        "One thread on one core; where the table says \u{201c}at least\u{201d}, the proxy's core had time left or was shared with other programs.",
        &plot,
    )
}

/// CPU time against the size of the answer: lower and further to the left is better.
fn cost_and_size(measured: &[Measured], at: usize) -> String {
    let lines: Vec<Line> = FAMILIES
        .iter()
        .enumerate()
        .map(|(family, name)| {
            let members = measured.iter().filter(|measured| measured.variant.family == family);
            let figures = members.filter_map(|measured| measured.cells[at].as_ref().ok());
            let mut points: Vec<_> =
                figures.map(|figures| (figures.answer_bytes, figures.cpu_us / 1e6)).collect();
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            Line { name: (*name).to_owned(), color: family, dashed: false, off: false, marked: true, points }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let plot = Plot {
        description: format!("CPU time against size, {}", title(at)),
        x: Axis::linear("Bytes of the answer's body", Unit::Number, SIZES[at] as f64, 8),
        y: Axis::linear("CPU time a request", Unit::Time, highest(&lines), 6),
        lines,
    };
    figure(
        &title(at),
        "Each mark is a level: lower costs less, further left is smaller. The mark on the right is the page as it is.",
        &plot,
    )
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(0.0, f64::max)
}

fn lowest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compression::variants::VARIANTS;

    #[test]
    fn cells_say_what_they_are() {
        let check = |cell: Result<Figures, String>, expected: [&str; 5]| {
            assert_eq!(cells_of(&cell, 9_000), expected);
        };
        let figures = Figures { per_second: 12_345.0, cpu_us: 80.25, busy: 0.99, answer_bytes: 2_250.4 };
        check(Ok(figures), ["12,345", "80.2 \u{b5}s", "2,250", "25 %", "99 %"]);
        check(
            Ok(Figures { busy: 0.6, ..figures }),
            ["at least 12,345", "80.2 \u{b5}s", "2,250", "25 %", "60 %"],
        );
        check(Err("not\ncompressed".to_owned()), ["-", "-", "-", "-", "not, compressed"]);
    }

    #[test]
    fn the_page_has_a_plot_for_each_size_that_tells_something() {
        let cell = Figures { per_second: 1e4, cpu_us: 50.0, busy: 1.0, answer_bytes: 1e3 };
        let measured: Vec<Measured> = VARIANTS
            .iter()
            .map(|variant| Measured { variant: *variant, cells: vec![Ok(cell); SIZES.len()] })
            .collect();
        let html = page(&["<machine>".to_owned()], &measured);
        assert!(html.contains("&lt;machine&gt;"));
        // Each is drawn for a desk and for a phone.
        assert_eq!(html.matches("data-frame").count() - html.matches("svg[data-frame]").count(), 2 * 5);
        assert_eq!(tables(&measured).len(), SIZES.len());
    }
}
