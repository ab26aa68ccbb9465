//! The tables of figures as text: CSV, typed and JSON.
//!
//! Owns the layout of management.txt sections 9.1 and 9.2, for `show info`, `show stat` and the statistics page.

use std::fmt::Write as _;

use crate::info::{self, About};
use crate::object::{Kind, Object};
use crate::stat;
use crate::value::{Tags, Value, write_json_string};

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// CSV, or `name: value` lines for `show info`.
    #[default]
    Plain,
    Typed,
    Json,
}

/// A report and whether each figure is explained.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    pub(crate) layout: Layout,
    pub(crate) describe: bool,
}

/// The statistics.
pub(crate) fn statistics(objects: &[Object<'_>], style: Style) -> String {
    let mut out = String::new();
    match style.layout {
        Layout::Plain => csv(objects, &mut out),
        Layout::Typed => typed(objects, style.describe, &mut out),
        Layout::Json => json(objects, &mut out),
    }
    out
}

fn csv(objects: &[Object<'_>], out: &mut String) {
    out.push_str("# ");
    for field in stat::FIELDS {
        out.push_str(field.name);
        out.push(',');
    }
    out.push('\n');
    for object in objects {
        for field in stat::FIELDS {
            if let Some(value) = (field.read)(object) {
                value.write_csv(out);
            }
            out.push(',');
        }
        out.push('\n');
    }
}

/// The figures of an object with their numbers, without the one that only ends the CSV's columns.
fn figures<'a>(
    object: &'a Object<'_>,
) -> impl Iterator<Item = (usize, &'static stat::Field, Value<'static>)> + 'a {
    let numbered = stat::FIELDS.iter().enumerate().filter(|(_, field)| field.name != "-");
    numbered.filter_map(|(number, field)| Some((number, field, (field.read)(object)?)))
}

fn typed(objects: &[Object<'_>], describe: bool, out: &mut String) {
    for object in objects {
        let (letter, proxy, part) = (object.kind().letter(), object.proxy.id, object.number());
        for (number, field, value) in figures(object) {
            // Writing to memory cannot fail.
            write!(out, "{letter}.{proxy}.{part}.{number}.").unwrap_or_default();
            typed_value(field.name, field.tags, &value, describe.then_some(field.description), out);
        }
    }
}

fn typed_value(name: &str, tags: Tags, value: &Value<'_>, description: Option<&str>, out: &mut String) {
    // Writing to memory cannot fail.
    write!(out, "{name}.1:{}:{}:{value}", tags.letters(), value.type_name()).unwrap_or_default();
    if let Some(description) = description {
        write!(out, ":\"{description}\"").unwrap_or_default();
    }
    out.push('\n');
}

fn json(objects: &[Object<'_>], out: &mut String) {
    out.push('[');
    for (at, object) in objects.iter().enumerate() {
        out.push_str(if at == 0 { "[" } else { ",[" });
        let kind = match object.kind() {
            Kind::Frontend => "Frontend",
            Kind::Backend => "Backend",
            Kind::Server => "Server",
            Kind::Listener => "Listener",
        };
        let mut first = true;
        for (number, field, value) in figures(object) {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            // Writing to memory cannot fail.
            write!(
                out,
                "{comma}{{\"objType\":\"{kind}\",\"proxyId\":{},\"id\":{},",
                object.proxy.id,
                object.number()
            )
            .unwrap_or_default();
            json_value(number, field.name, field.tags, &value, out);
        }
        out.push(']');
    }
    out.push_str("]\n");
}

/// The rest of a figure's object.
fn json_value(number: usize, name: &str, tags: Tags, value: &Value<'_>, out: &mut String) {
    // Writing to memory cannot fail.
    write!(out, "\"field\":{{\"pos\":{number},\"name\":").unwrap_or_default();
    write_json_string(name, out);
    out.push_str("},\"processNum\":1,");
    tags.write_json(out);
    write!(out, ",\"value\":{{\"type\":\"{}\",\"value\":", value.type_name()).unwrap_or_default();
    value.write_json(out);
    out.push_str("}}");
}

/// The figures of the process.
pub(crate) fn process(about: &About<'_>, style: Style) -> String {
    let mut out = String::new();
    let figures = info::FIELDS.iter().enumerate();
    let figures = figures.filter_map(|(number, field)| Some((number, field, (field.read)(about)?)));
    let mut first = true;
    for (number, field, value) in figures {
        let description = style.describe.then_some(field.description);
        match style.layout {
            Layout::Plain => {
                // Writing to memory cannot fail.
                write!(out, "{}: {value}", field.name).unwrap_or_default();
                if let Some(description) = description {
                    write!(out, ":\"{description}\"").unwrap_or_default();
                }
                out.push('\n');
            }
            Layout::Typed => {
                write!(out, "{number}.").unwrap_or_default();
                typed_value(field.name, field.tags, &value, description, &mut out);
            }
            Layout::Json => {
                out.push_str(if std::mem::take(&mut first) { "[{" } else { ",{" });
                json_value(number, field.name, field.tags, &value, &mut out);
            }
        }
    }
    if style.layout == Layout::Json {
        out.push_str("]\n");
    }
    out
}

/// What the JSON of both reports looks like (`show schema json`).
pub(crate) const SCHEMA: &str = include_str!("schema.json");
