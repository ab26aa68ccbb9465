//! A figure with its type and its tags: what `typed` and JSON output say about every value.
//!
//! Owns the words of management.txt section 9.2; which figures there are stands in [`crate::stat`] and
//! [`crate::info`].

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    U32(u32),
    S32(i32),
    U64(u64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// A count that never comes near the limit of its type; it stays at the limit if it does.
    pub(crate) fn count(number: usize) -> Self {
        Self::U32(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// A current number, which rounding between threads may show below zero for a moment.
    pub(crate) fn level(number: i64) -> Self {
        Self::U32(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    }

    /// Something per second.
    pub(crate) fn rate(number: u64) -> Self {
        Self::U32(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::U32(_) => "u32",
            Self::S32(_) => "s32",
            Self::U64(_) => "u64",
            Self::Text(_) => "str",
        }
    }

    /// As JSON.
    pub(crate) fn write_json(&self, out: &mut String) {
        match self {
            Self::Text(text) => write_json_string(text, out),
            // Writing to memory cannot fail.
            number => write!(out, "{number}").unwrap_or_default(),
        }
    }

    /// As a field of CSV: quoted only when it would be ambiguous otherwise.
    pub(crate) fn write_csv(&self, out: &mut String) {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                out.push('"');
                for character in text.chars() {
                    match character {
                        '"' => out.push_str("\"\""),
                        '\n' | '\r' => out.push(' '),
                        other => out.push(other),
                    }
                }
                out.push('"');
            }
            // Writing to memory cannot fail.
            plain => write!(out, "{plain}").unwrap_or_default(),
        }
    }

    /// The number, when it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::U32(number) => Some(f64::from(*number)),
            Self::S32(number) => Some(f64::from(*number)),
            Self::U64(number) => Some(*number as f64),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U32(number) => number.fmt(f),
            Self::S32(number) => number.fmt(f),
            Self::U64(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A string literal of JSON (RFC 8259 section 7).
pub(crate) fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                // Writing to memory cannot fail.
                write!(out, "\\u{:04x}", u32::from(control)).unwrap_or_default();
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Metric,
    Status,
    Key,
    Config,
    Product,
}

/// How figures of several processes are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Gauge,
    Limit,
    Max,
    Rate,
    Counter,
    Duration,
    Age,
    Name,
    Output,
    Average,
}

/// What a figure is valid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Process,
    Service,
}

/// Origin, nature and scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tags(pub(crate) Origin, pub(crate) Nature, pub(crate) Scope);

impl Tags {
    /// The three letters of typed output.
    pub(crate) fn letters(self) -> String {
        let origin = match self.0 {
            Origin::Metric => 'M',
            Origin::Status => 'S',
            Origin::Key => 'K',
            Origin::Config => 'C',
            Origin::Product => 'P',
        };
        let nature = match self.1 {
            Nature::Gauge => 'G',
            Nature::Limit => 'L',
            Nature::Max => 'M',
            Nature::Rate => 'R',
            Nature::Counter => 'C',
            Nature::Duration => 'D',
            Nature::Age => 'A',
            Nature::Name => 'N',
            Nature::Output => 'O',
            Nature::Average => 'a',
        };
        let scope = match self.2 {
            Scope::Process => 'P',
            Scope::Service => 'S',
        };
        [origin, nature, scope].iter().collect()
    }

    /// The object of JSON output.
    pub(crate) fn write_json(self, out: &mut String) {
        let nature = match self.1 {
            Nature::Average => "Avg".to_owned(),
            nature => format!("{nature:?}"),
        };
        // Writing to memory cannot fail.
        write!(
            out,
            "\"tags\":{{\"origin\":\"{:?}\",\"nature\":\"{nature}\",\"scope\":\"{:?}\"}}",
            self.0, self.2
        )
        .unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_only_what_is_ambiguous() {
        let check = |text: &str, expected: &str| {
            let mut out = String::new();
            Value::text(text).write_csv(&mut out);
            assert_eq!(out, expected);
        };
        check("UP 1/3", "UP 1/3");
        check("a,b", "\"a,b\"");
        check("say \"a\"", "\"say \"\"a\"\"\"");
        check("a\nb", "\"a b\"");
    }

    #[test]
    fn json_strings() {
        let check = |text: &str, expected: &str| {
            let mut out = String::new();
            write_json_string(text, &mut out);
            assert_eq!(out, expected);
        };
        check("plain é", "\"plain é\"");
        check("a\"b\\c\n\u{1}", "\"a\\\"b\\\\c\\n\\u0001\"");
    }
}
