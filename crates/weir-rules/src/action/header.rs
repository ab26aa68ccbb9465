//! Actions on fields: add, set, delete, replace, capture, status.

use regex::bytes::Regex;
use weir_http::Fields;

use super::phases::{AFTER, CONTENT, HTTP, RESPONSE};
use super::uri::{host_changed, set_captured};
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::data::pcre;
use crate::expr::Expr;
use crate::expr::log_style::Style;
use crate::expr::scope::AwaitedCapture;
use crate::fetch::http::{next_value, read_varint};
use crate::reply::field_name;
use crate::reply::status;
use crate::words::call::number;
use crate::{Diagnostic, LogFormat, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[
    action("add-header", HTTP, "add-header NAME FMT", "Adds a field.", parse_header),
    action(
        "add-headers-bin",
        HTTP,
        "add-headers-bin EXPR [prefix TEXT]",
        "Adds fields given in binary form.",
        parse_bin,
    ),
    action(
        "capture",
        CONTENT | HTTP,
        "capture EXPR { len LENGTH | id SLOT }",
        "Keeps a value for the log.",
        parse_capture,
    ),
    action(
        "del-header",
        HTTP,
        "del-header NAME [-m str|beg|end|sub|reg]",
        "Removes fields by name.",
        parse_del,
    ),
    action(
        "del-headers-bin",
        HTTP,
        "del-headers-bin EXPR [-m str|beg|end|sub]",
        "Removes fields named in binary form.",
        parse_bin,
    ),
    action(
        "replace-header",
        HTTP,
        "replace-header NAME REGEX FMT",
        "Replaces whole field lines that match.",
        parse_replace,
    ),
    action(
        "replace-value",
        HTTP,
        "replace-value NAME REGEX FMT",
        "Replaces comma-separated values that match.",
        parse_replace,
    ),
    action(
        "set-header",
        HTTP,
        "set-header NAME FMT",
        "Sets a field, removing those of the same name.",
        parse_header,
    ),
    action(
        "set-headers-bin",
        HTTP,
        "set-headers-bin EXPR [prefix TEXT]",
        "Sets fields given in binary form.",
        parse_bin,
    ),
    action(
        "set-status",
        RESPONSE | AFTER,
        "set-status CODE [reason TEXT]",
        "Sets the response's status.",
        parse_status,
    ),
];

type Parsed = Result<Box<dyn Action>, Vec<Diagnostic>>;

/// Most fields of one message (`tune.http.maxhdr` bounds what is received; this bounds what rules make of it).
const MAX_FIELDS: usize = 4096;

/// Fields of the message a rule set works on.
fn fields(txn: &mut Txn, phase: Phase) -> Option<&mut Fields> {
    match phase.is_response() {
        true => txn.response.as_mut().map(|r| &mut r.fields),
        false => Some(&mut txn.request.fields),
    }
}

/// Whether `more` bytes of fields still fit.
fn fits(fields: &Fields, more: usize, max_head: usize) -> bool {
    fields.len() < MAX_FIELDS && (max_head == 0 || fields.wire_len() + more <= max_head)
}

/// Renders into the transaction's buffer, hands it to `f`, and keeps the buffer.
fn with_rendered(format: &LogFormat, txn: &mut Txn, f: impl FnOnce(&mut Txn, &[u8]) -> Step) -> Step {
    let mut buffer = std::mem::take(&mut txn.scratch);
    buffer.clear();
    format.render(txn, &mut buffer);
    let step = f(txn, &buffer);
    txn.scratch = buffer;
    step
}

#[derive(Debug)]
struct SetField {
    name: Box<[u8]>,
    value: LogFormat,
    add: bool,
}

impl Action for SetField {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        with_rendered(&self.value, txn, |txn, value| {
            let max_head = txn.max_head;
            let Some(fields) = fields(txn, phase) else { return Step::Next };
            if !self.add {
                fields.remove_named(&self.name);
            }
            if !fits(fields, self.name.len() + value.len() + 4, max_head) {
                return Step::Failed;
            }
            fields.push(&self.name, value);
            if !phase.is_response() && *self.name == *b"host" {
                host_changed(txn);
            }
            Step::Next
        })
    }
}

fn parse_header(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let add = words.call.name.text == b"add-header";
    let name = field_name(words.expect("a field's name")?, scope)?;
    let value = words.format(Style::Http, scope)?;
    Ok(Box::new(SetField { name, value, add }))
}

/// How names are compared.
#[derive(Debug)]
enum NameMatch {
    Exact,
    Begin,
    End,
    Sub,
    Regex(Regex),
}

impl NameMatch {
    fn matches(&self, name: &[u8], wanted: &[u8]) -> bool {
        match self {
            Self::Exact => name.eq_ignore_ascii_case(wanted),
            Self::Begin => name.len() >= wanted.len() && name[..wanted.len()].eq_ignore_ascii_case(wanted),
            Self::End => {
                name.len() >= wanted.len() && name[name.len() - wanted.len()..].eq_ignore_ascii_case(wanted)
            }
            Self::Sub => {
                wanted.is_empty() || name.windows(wanted.len()).any(|w| w.eq_ignore_ascii_case(wanted))
            }
            Self::Regex(regex) => regex.is_match(&name.to_ascii_lowercase()),
        }
    }

    /// `[-m method]`
    fn parse(
        words: &mut Words<'_>,
        pattern: Option<&crate::Word>,
        scope: &Scope<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        if !words.accept("-m") {
            return Ok(Self::Exact);
        }
        let method = words.expect("a matching method")?;
        match (method.text.as_slice(), pattern) {
            (b"str", _) => Ok(Self::Exact),
            (b"beg", _) => Ok(Self::Begin),
            (b"end", _) => Ok(Self::End),
            (b"sub", _) => Ok(Self::Sub),
            (b"reg", Some(pattern)) => scope.regex(pattern, true).map(Self::Regex).map_err(|e| vec![e]),
            _ => {
                Err(vec![Diagnostic::unknown("matching method", method, ["str", "beg", "end", "sub", "reg"])])
            }
        }
    }
}

#[derive(Debug)]
struct DelField {
    name: Box<[u8]>,
    matching: NameMatch,
}

impl Action for DelField {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        if let Some(fields) = fields(txn, phase) {
            fields.retain(|name, _| !self.matching.matches(name, &self.name));
        }
        Step::Next
    }
}

fn parse_del(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let name = words.expect("a field's name")?;
    let matching = NameMatch::parse(words, Some(name), scope)?;
    Ok(Box::new(DelField { name: name.text.as_slice().into(), matching }))
}

#[derive(Debug)]
struct Replace {
    name: Box<[u8]>,
    regex: Regex,
    replacement: LogFormat,
    whole: bool,
}

impl Replace {
    /// The new value of a field line, when something in it matches.
    fn replaced(&self, line: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(line.len());
        if self.whole {
            pcre::expand(replacement, &self.regex.captures(line)?, &mut out);
            return Some(out);
        }
        let (mut at, mut changed) = (0, false);
        while let Some((value, next)) = next_value(line, at) {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            match self.regex.captures(value) {
                Some(groups) => {
                    pcre::expand(replacement, &groups, &mut out);
                    changed = true;
                }
                None => out.extend_from_slice(value),
            }
            at = next;
        }
        changed.then_some(out)
    }
}

impl Action for Replace {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        let named = |fields: &mut Fields| {
            (0..fields.len()).find(|at| fields.name(*at).eq_ignore_ascii_case(&self.name))
        };
        let Some(first) = fields(txn, phase).and_then(named) else { return Step::Next };
        with_rendered(&self.replacement, txn, |txn, replacement| {
            let max_head = txn.max_head;
            let Some(fields) = fields(txn, phase) else { return Step::Next };
            for at in first..fields.len() {
                if !fields.name(at).eq_ignore_ascii_case(&self.name) {
                    continue;
                }
                if let Some(new) = self.replaced(fields.value(at), replacement) {
                    if !fits(fields, new.len(), max_head) {
                        return Step::Failed;
                    }
                    fields.set_value(at, &new);
                }
            }
            if !phase.is_response() && *self.name == *b"host" {
                host_changed(txn);
            }
            Step::Next
        })
    }
}

fn parse_replace(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let whole = words.call.name.text == b"replace-header";
    let name = field_name(words.expect("a field's name")?, scope)?;
    let regex = scope.regex(words.expect("a regular expression")?, false).map_err(|e| vec![e])?;
    let replacement = words.format(Style::Http, scope)?;
    Ok(Box::new(Replace { name, regex, replacement, whole }))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BinaryKind {
    Add,
    Set,
    Del,
}

#[derive(Debug)]
struct Binary {
    expr: Expr,
    kind: BinaryKind,
    prefix: Box<[u8]>,
    matching: NameMatch,
}

/// Takes one string of the binary form.
fn take_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, used) = read_varint(bytes)?;
    let (text, rest) = bytes.get(used..)?.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(text)
}

/// Names and values (names alone without `values`) of the binary form; it ends with an empty name.
fn strings(mut bytes: &[u8], values: bool) -> Option<Vec<(&[u8], &[u8])>> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let name = take_string(&mut bytes)?;
        let value = if values { take_string(&mut bytes)? } else { b"" };
        if name.is_empty() {
            break;
        }
        let value_is_safe = !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
        if list.len() == MAX_FIELDS || !name.iter().all(|b| crate::reply::is_token(*b)) || !value_is_safe {
            return None;
        }
        list.push((name, value));
    }
    Some(list)
}

impl Action for Binary {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        let Some(bytes) = self.expr.eval(txn).map(|v| v.into_binary().into_owned()) else {
            return Step::Next;
        };
        let Some(list) = strings(&bytes, self.kind != BinaryKind::Del) else { return Step::Failed };
        let max_head = txn.max_head;
        let Some(fields) = fields(txn, phase) else { return Step::Next };
        let wanted: Vec<_> = list.iter().filter(|(name, _)| name.starts_with(&self.prefix)).collect();
        for (name, _) in &wanted {
            match self.kind {
                BinaryKind::Add => {}
                BinaryKind::Set => drop(fields.remove_named(name)),
                BinaryKind::Del => drop(fields.retain(|n, _| !self.matching.matches(n, name))),
            }
        }
        if self.kind != BinaryKind::Del {
            for (name, value) in wanted {
                if !fits(fields, name.len() + value.len() + 4, max_head) {
                    return Step::Failed;
                }
                fields.push(&name.to_ascii_lowercase(), value);
            }
            if !phase.is_response() {
                host_changed(txn);
            }
        }
        Step::Next
    }
}

fn parse_bin(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let kind = match words.call.name.text.as_slice() {
        b"add-headers-bin" => BinaryKind::Add,
        b"set-headers-bin" => BinaryKind::Set,
        _ => BinaryKind::Del,
    };
    let expr = words.expr(scope)?;
    let prefix = match kind != BinaryKind::Del && words.accept("prefix") {
        true => words.expect("a prefix")?.text.as_slice().into(),
        false => Box::default(),
    };
    let matching = match kind {
        BinaryKind::Del => NameMatch::parse(words, None, scope)?,
        _ => NameMatch::Exact,
    };
    Ok(Box::new(Binary { expr, kind, prefix, matching }))
}

#[derive(Debug)]
struct Capture {
    expr: Expr,
    slot: usize,
    len: usize,
}

impl Action for Capture {
    fn run(&self, txn: &mut Txn, phase: Phase) -> Step {
        let Some(value) = self.expr.eval(txn) else { return Step::Next };
        let value = value.into_bytes().into_owned();
        set_captured(txn, phase.is_response(), self.slot, &value[..value.len().min(self.len)]);
        Step::Next
    }
}

fn parse_capture(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Parsed {
    let expr = words.expr(scope)?;
    let keyword = words.expect("'len' or 'id'")?;
    let value = words.expect("a number")?;
    let n = number(&value.text).and_then(|n| usize::try_from(n).ok());
    let n =
        n.ok_or_else(|| vec![Diagnostic::error(value.pos, format!("'{}' is no number", value.as_str()))])?;
    let response = words.phase.is_response();
    let slots = if response { &mut scope.response_captures } else { &mut scope.request_captures };
    let (slot, len) = match keyword.text.as_slice() {
        b"len" if response => {
            let message = "responses can only be captured into a declared slot";
            return Err(vec![
                Diagnostic::error(keyword.pos, message)
                    .hint("use 'declare capture response len N' and 'id 0'"),
            ]);
        }
        b"len" if !scope.frontend => {
            let message = "a backend cannot declare a capture slot";
            return Err(vec![
                Diagnostic::error(keyword.pos, message)
                    .hint("use 'declare capture request len N' in the frontend and 'id 0' here"),
            ]);
        }
        b"len" => {
            slots.push((Vec::new(), n));
            (slots.len() - 1, n)
        }
        b"id" => match slots.get(n) {
            Some((_, len)) => (n, *len),
            // A later line may declare the slot; a backend's is the frontend's, which shows at run time.
            None => {
                scope.awaited_captures.push(AwaitedCapture { response, slot: n, pos: value.pos });
                (n, usize::MAX)
            }
        },
        _ => return Err(vec![Diagnostic::unknown("word of 'capture'", keyword, ["len", "id"])]),
    };
    Ok(Box::new(Capture { expr, slot, len }))
}

#[derive(Debug)]
struct SetStatus {
    code: u16,
    reason: Box<[u8]>,
}

impl Action for SetStatus {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        if let Some(response) = txn.response.as_mut() {
            response.set_status(self.code, &self.reason);
            txn.status = self.code;
        }
        Step::Next
    }
}

fn parse_status(words: &mut Words<'_>, _: &mut Scope<'_>) -> Parsed {
    let word = words.expect("a status")?;
    let code = number(&word.text).filter(|c| (100..=999).contains(c));
    let code = code.ok_or_else(|| {
        vec![Diagnostic::error(word.pos, format!("'{}' is no status from 100 to 999", word.as_str()))]
    })?;
    let reason: Box<[u8]> = match words.accept("reason") {
        true => words.expect("a reason")?.text.as_slice().into(),
        false => status::reason(code as u16).as_bytes().into(),
    };
    Ok(Box::new(SetStatus { code: code as u16, reason }))
}
