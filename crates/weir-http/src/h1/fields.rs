//! Field lines (RFC 9112 section 5): of a head, and of a trailer section.

use super::ParseOptions;
use super::error::{ParseErrorKind as Kind, Stop};
use super::scan;
use crate::message::{Field, FieldName, Fields, Span};

/// Longest name of a field: as HAProxy's, and far above what is in use.
pub(crate) const MAX_NAME: usize = 255;

/// What the lines were like, beyond what they said.
#[derive(Clone, Copy, Default)]
pub(super) struct Section {
    /// Offset behind the empty line.
    pub(super) end: usize,
    /// Some value was folded over several lines.
    pub(super) folded: bool,
    /// The first violation that was tolerated.
    pub(super) tolerated: Option<(Kind, usize)>,
}

/// Reads field lines from `start` up to and with the empty line.
///
/// The spans that are pushed count from `base`; the caller copies the bytes from there on.
pub(super) fn parse_fields(
    bytes: &[u8],
    start: usize,
    base: usize,
    options: &ParseOptions,
    fields: &mut Fields,
) -> Result<Section, Stop> {
    let mut section = Section::default();
    let mut at = start;
    loop {
        if let Some(end) = line_end(bytes, at)? {
            section.end = end;
            return Ok(section);
        }
        if fields.len() + 1 >= options.max_fields {
            return Err(Stop::Refused(Kind::TooManyFields, at));
        }
        let name_start = at;
        let (colon, valid) = name_end(bytes, at, options.accept_unsafe)?;
        if colon - name_start > MAX_NAME {
            return Err(Stop::Refused(Kind::FieldName, name_start + MAX_NAME));
        }
        if !valid {
            section.tolerated.get_or_insert((Kind::FieldName, at));
        }
        let value_start = scan::blank_end(bytes, colon + 1);
        let value = parse_value(bytes, value_start, options, &mut section)?;
        at = value.next_line;
        if valid {
            fields.push_field(Field::new(
                Span::new(name_start - base, colon - base),
                Span::new(value.start - base, value.end - base),
                FieldName::Other,
            ));
        }
    }
}

/// Behind the line break at `at`, when there is one.  A lone LF counts: RFC 9112 section 2.2 allows
/// it, and it cannot be mistaken where only line ends may stand.
#[inline]
pub(super) fn line_end(bytes: &[u8], at: usize) -> Result<Option<usize>, Stop> {
    match bytes.get(at) {
        None => Err(Stop::NeedMore),
        Some(b'\n') => Ok(Some(at + 1)),
        Some(b'\r') => match bytes.get(at + 1) {
            None => Err(Stop::NeedMore),
            Some(b'\n') => Ok(Some(at + 2)),
            Some(_) => Err(Stop::Refused(Kind::BareCr, at + 1)),
        },
        Some(_) => Ok(None),
    }
}

/// Position of the colon behind a name, and whether the name is a token.
///
/// RFC 9112 section 5.1: white space before the colon is refused, as is an empty name.
#[inline]
fn name_end(bytes: &[u8], start: usize, accept_unsafe: bool) -> Result<(usize, bool), Stop> {
    let end = scan::token_end(bytes, start);
    match bytes.get(end) {
        None => Err(Stop::NeedMore),
        Some(b':') if end > start => Ok((end, true)),
        Some(b'\r' | b'\n') => Err(Stop::Refused(Kind::FieldName, end)),
        Some(_) if accept_unsafe && end > start => {
            let rest = &bytes[end..];
            match rest.iter().position(|b| matches!(b, b':' | b'\r' | b'\n')) {
                None => Err(Stop::NeedMore),
                Some(more) if rest[more] == b':' => Ok((end + more, false)),
                Some(more) => Err(Stop::Refused(Kind::FieldName, end + more)),
            }
        }
        Some(_) => Err(Stop::Refused(Kind::FieldName, end)),
    }
}

struct Value {
    start: usize,
    end: usize,
    next_line: usize,
}

/// Reads a value with the lines folded into it (RFC 9112 section 5.2).
#[inline]
fn parse_value(
    bytes: &[u8],
    start: usize,
    options: &ParseOptions,
    section: &mut Section,
) -> Result<Value, Stop> {
    let mut start = start;
    let mut at = start;
    loop {
        at = scan::value_end(bytes, at);
        if bytes.get(at) == Some(&0) {
            if !options.accept_unsafe {
                return Err(Stop::Refused(Kind::FieldValue, at));
            }
            section.tolerated.get_or_insert((Kind::FieldValue, at));
            at += 1;
            continue;
        }
        let Some(next_line) = line_end(bytes, at)? else { return Err(Stop::NeedMore) };
        match bytes.get(next_line) {
            None => return Err(Stop::NeedMore),
            Some(b' ' | b'\t') => {
                section.folded = true;
                let text = scan::blank_end(bytes, next_line);
                if start == at {
                    // Nothing but white space so far: the value starts on this line.
                    start = text;
                }
                at = text;
            }
            Some(_) => {
                let mut end = at;
                while end > start && matches!(bytes[end - 1], b' ' | b'\t' | b'\r' | b'\n') {
                    end -= 1;
                }
                return Ok(Value { start, end, next_line });
            }
        }
    }
}
