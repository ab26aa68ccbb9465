//! `weir doc`: what a keyword does, and how far the language is there.
//!
//! Reads the tables that the parser reads; nothing is written twice.

use std::fmt::Write as _;
use std::process::ExitCode;

use weir_config::table::{self, Keyword, Status};
use weir_rules::words::diagnostic::nearest;

use crate::EXIT_INVALID;
use crate::console::{self, Console};

/// Prints a keyword's entries, or all keywords in a line each.
pub(crate) fn print(name: Option<&str>) -> ExitCode {
    let Some(name) = name else {
        let lines: String = table::all().map(line).collect();
        console::print(&lines);
        return ExitCode::SUCCESS;
    };
    let found = table::named(name);
    if found.is_empty() {
        let near = nearest(name, table::all().map(|keyword| keyword.name));
        let hint = near.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
        Console::default().alert(&format!("there is no keyword '{name}'{hint}"));
        return ExitCode::from(EXIT_INVALID);
    }
    let entries: Vec<_> = found.iter().map(|keyword| entry(keyword)).collect();
    console::print(&entries.join("\n"));
    ExitCode::SUCCESS
}

/// Prints what is there and what is not, with the count of each.
pub(crate) fn print_status() -> ExitCode {
    let mut text = String::new();
    let mut counts = [
        ("implemented", 0),
        ("no effect here", 0),
        ("not implemented yet", 0),
        ("removed", 0),
        ("not supported", 0),
    ];
    for (keyword, status) in table::status() {
        counts[rank(status)].1 += 1;
        let reason = match status {
            Status::NoEffect(reason) | Status::Removed(reason) | Status::Never(reason) => {
                format!(": {reason}")
            }
            Status::Implemented | Status::NotYet => String::new(),
        };
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{:<20} {:<44} {}{reason}",
            counts[rank(status)].0,
            keyword.name,
            keyword.places.names().join(", ")
        )
        .ok();
    }
    text.push('\n');
    for (what, count) in counts {
        writeln!(text, "{count:>5} {what}").ok();
    }
    console::print(&text);
    ExitCode::SUCCESS
}

fn rank(status: Status) -> usize {
    match status {
        Status::Implemented => 0,
        Status::NoEffect(_) => 1,
        Status::NotYet => 2,
        Status::Removed(_) => 3,
        Status::Never(_) => 4,
    }
}

fn line(keyword: &Keyword) -> String {
    format!("{:<44} {}\n", keyword.name, keyword.doc)
}

fn entry(keyword: &Keyword) -> String {
    let negatable = if keyword.negatable { "[no] " } else { "" };
    let status = match keyword.status() {
        Status::Implemented => String::new(),
        Status::NoEffect(reason) => format!("  Accepted without effect: {reason}.\n"),
        Status::NotYet => "  Not implemented yet.\n".to_owned(),
        Status::Removed(reason) => format!("  Removed: {reason}.\n"),
        Status::Never(reason) => format!("  Not supported: {reason}.\n"),
    };
    let default = keyword.default.map(|written| format!("  Default: {written}\n")).unwrap_or_default();
    let example =
        keyword.example.map(|lines| format!("  Example:\n{}\n", indented(lines))).unwrap_or_default();
    format!(
        "{negatable}{} {}\n  {}.\n  In: {}\n{default}{status}{example}",
        keyword.name,
        keyword.arguments,
        keyword.doc.trim_end_matches('.'),
        keyword.places.names().join(", ")
    )
}

fn indented(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
