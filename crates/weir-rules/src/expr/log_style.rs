//! How the values of a log format are printed: its use, the flags in force, quotes and escapes.

use crate::expr::log_encoding::Encoding;

/// What the result is for; decides which characters are safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
    /// A log line: missing values print `-`, spaces are merged.
    Log,
    /// A header field or body: control characters are percent-encoded.
    #[default]
    Http,
    /// Bytes as they are (`set-var-fmt`).
    Raw,
}

/// Flags in force for an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the manual, set and cleared on its own")]
pub(crate) struct Options {
    pub(crate) style: Style,
    pub(crate) quote: bool,
    pub(crate) hex: bool,
    pub(crate) escape: bool,
    pub(crate) encoding: Option<Encoding>,
    /// Blocks of bytes are printed whole, zeros included.
    pub(crate) binary: bool,
}

/// Prints text with the flags' quotes and escapes; empty text is missing.
pub(crate) fn print_text(text: &[u8], options: Options, out: &mut Vec<u8>) {
    if text.is_empty() {
        return print_missing(options, out);
    }
    if options.quote {
        out.push(b'"');
    }
    if options.escape {
        for b in text {
            if matches!(b, b'"' | b'\\' | b']') {
                out.push(b'\\');
            }
            out.push(*b);
        }
    } else {
        out.extend_from_slice(text);
    }
    if options.quote {
        out.push(b'"');
    }
}

/// Prints what stands for nothing: `-` in logs, `""` where quotes are asked for.
pub(crate) fn print_missing(options: Options, out: &mut Vec<u8>) {
    if options.quote && options.style != Style::Http {
        out.extend_from_slice(b"\"\"");
    } else if options.style == Style::Log {
        out.push(b'-');
    }
}
