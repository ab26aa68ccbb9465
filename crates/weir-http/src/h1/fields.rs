//! Field lines (RFC 9112 section 5): of a head, and of a trailer section.

use super::ParseOptions;
use super::error::{ParseErrorKind as Kind, Stop};
use super::framing::Signals;
use super::scan;
use crate::message::{Field, FieldName, Fields, Span};

/// Longest name of a field: as HAProxy's, and far above what is in use.
pub(crate) const MAX_NAME: usize = 255;

/// What the lines were like, beyond what they said.
#[derive(Default)]
pub(super) struct Section {
    /// Offset behind the empty line.
    pub(super) end: usize,
    /// Some value was folded over several lines.
    pub(super) folded: bool,
    /// The first violation that was tolerated.
    pub(super) tolerated: Option<(Kind, usize)>,
    /// What the lines say about framing and connection.
    pub(super) signals: Signals,
}

/// Reads field lines from `start` up to and with the empty line, into `fields` and a new `section`.
///
/// The spans that are pushed are those of `bytes`, which the caller copies.
#[inline(never)]
pub(super) fn parse_fields(
    bytes: &[u8],
    start: usize,
    options: &ParseOptions,
    fields: &mut Fields,
    section: &mut Section,
) -> Result<(), Stop> {
    let mut at = start;
    fields.reserve_lines();
    loop {
        if let Some(end) = line_end(bytes, at)? {
            section.end = end;
            return Ok(());
        }
        if fields.len() + 1 >= options.max_fields {
            return Err(Stop::Refused(Kind::TooManyFields, at));
        }
        at = match usual_line(bytes, at, options, fields, &mut section.signals) {
            Some(next) => next,
            None => any_line(bytes, at, options, fields, section)?,
        };
    }
}

/// Takes a line as nearly all are: a token and a colon, a value in one line that ends in CR LF, and the start of the
/// next line.
#[inline(always)]
fn usual_line(
    bytes: &[u8],
    start: usize,
    options: &ParseOptions,
    fields: &mut Fields,
    signals: &mut Signals,
) -> Option<usize> {
    let name_end = scan::colon(bytes, start);
    let name = &bytes[start..name_end];
    let id = FieldName::from_bytes(name);
    if id == FieldName::Other && !is_name(name) {
        return None;
    }
    let value = scan::blank_end(bytes, name_end + 1);
    let end = scan::value_end(bytes, value);
    let [b'\r', b'\n', next] = bytes.get(end..)?.first_chunk()? else { return None };
    if matches!(next, b' ' | b'\t') {
        return None;
    }
    let value_end = value_trimmed(bytes, value, end);
    signals.glance(id, fields.len(), &bytes[value..value_end], options);
    fields.push_field(Field::new(Span::new(start, name_end), Span::new(value, value_end), id));
    Some(end + 2)
}

/// Names that are told apart need not be looked at: they are tokens.
fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.iter().all(|&byte| scan::is_token(byte))
}

/// Takes any line, or says why it is none.  One whose name is no token is tolerated, but left out.
#[cold]
#[inline(never)]
fn any_line(
    bytes: &[u8],
    at: usize,
    options: &ParseOptions,
    fields: &mut Fields,
    section: &mut Section,
) -> Result<usize, Stop> {
    let (name_end, valid) = name_end(bytes, at, options.accept_unsafe)?;
    if name_end - at > MAX_NAME {
        return Err(Stop::Refused(Kind::FieldName, at + MAX_NAME));
    }
    if !valid {
        section.tolerated.get_or_insert((Kind::FieldName, at));
    }
    let value_start = scan::blank_end(bytes, name_end + 1);
    let (value, next) = any_value(bytes, value_start, options, section)?;
    if valid {
        let id = FieldName::from_bytes(&bytes[at..name_end]);
        // The value may have line breaks as yet.
        section.signals.unread = true;
        fields.push_field(Field::new(Span::new(at, name_end), value, id));
    }
    Ok(next)
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

/// A value with the lines folded into it (RFC 9112 section 5.2), and where the next line starts.
fn any_value(
    bytes: &[u8],
    mut start: usize,
    options: &ParseOptions,
    section: &mut Section,
) -> Result<(Span, usize), Stop> {
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
            Some(_) => return Ok((Span::new(start, value_trimmed(bytes, start, at)), next_line)),
        }
    }
}

/// The end of a value without the white space before it, line breaks of folded lines included.
#[inline]
fn value_trimmed(bytes: &[u8], start: usize, mut end: usize) -> usize {
    while end > start && matches!(bytes[end - 1], b' ' | b'\t' | b'\r' | b'\n') {
        end -= 1;
    }
    end
}
