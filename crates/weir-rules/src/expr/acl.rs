//! Named tests: `acl NAME CRITERION [flags] [values]`, and the anonymous ones between braces.
//!
//! Owns the criterion's syntax; leaves comparing to [`crate::data::matcher`] and combining to
//! [`crate::expr::condition`].

use std::sync::Arc;

use crate::data::matcher::{Method, Operator, Patterns, Rules, Source};
use crate::data::pattern::PatternView;
use crate::expr::Expr;
use crate::value::Type;
use crate::words::call;
use crate::{Diagnostic, Pos, Scope, Txn, Word};

/// What a test says; "perhaps" while bytes that may change it can still come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Truth {
    No,
    Perhaps,
    Yes,
}

/// A named test: true when one of its lines is.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    /// Where its first line stands.
    pub pos: Pos,
    tests: Vec<Arc<Test>>,
}

/// One criterion.
#[derive(Debug)]
pub(crate) struct Test {
    expr: Expr,
    method: Method,
    patterns: Option<Patterns>,
    files: Vec<Arc<PatternView>>,
    word: Word,
}

/// Names that are defined without being declared: (name, criterion).
const PREDEFINED: &[(&str, &[&str])] = &[
    ("FALSE", &["always_false"]),
    ("HTTP", &["req.proto_http"]),
    ("HTTP_1.0", &["req.ver", "1.0"]),
    ("HTTP_1.1", &["req.ver", "1.1"]),
    ("HTTP_2.0", &["req.ver", "2.0"]),
    ("HTTP_3.0", &["req.ver", "3.0"]),
    ("HTTP_CONTENT", &["req.hdr_val(content-length)", "gt", "0"]),
    ("HTTP_URL_ABS", &["url_reg", "^[^/:]*://"]),
    ("HTTP_URL_SLASH", &["url_beg", "/"]),
    ("HTTP_URL_STAR", &["url", "*"]),
    ("LOCALHOST", &["src", "127.0.0.1/8", "::1"]),
    ("METH_CONNECT", &["method", "CONNECT"]),
    ("METH_DELETE", &["method", "DELETE"]),
    ("METH_GET", &["method", "GET", "HEAD"]),
    ("METH_HEAD", &["method", "HEAD"]),
    ("METH_OPTIONS", &["method", "OPTIONS"]),
    ("METH_POST", &["method", "POST"]),
    ("METH_PUT", &["method", "PUT"]),
    ("METH_TRACE", &["method", "TRACE"]),
    ("RDP_COOKIE", &["req.rdp_cookie_cnt", "gt", "0"]),
    ("REQ_CONTENT", &["req.len", "gt", "0"]),
    ("TRUE", &["always_true"]),
    ("WAIT_END", &["wait_end"]),
];

/// `Scope::define_acl`.
pub(crate) fn define(words: &[Word], scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
    let Some((name, criterion)) = words.split_first() else {
        return Err(vec![Diagnostic::error(Pos::default(), "an ACL needs a name and a criterion")]);
    };
    let text = name.as_str().into_owned();
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    if !name.text.iter().all(allowed) {
        let message = format!("'{text}' is no name for an ACL");
        return Err(vec![
            Diagnostic::error(name.pos, message).hint("use letters, digits, '-', '_', '.' and ':'"),
        ]);
    }
    if name.text.eq_ignore_ascii_case(b"or") || matches!(name.text.as_slice(), b"if" | b"unless") {
        return Err(vec![Diagnostic::error(name.pos, format!("'{text}' cannot be the name of an ACL"))]);
    }
    let test = Test::parse(criterion, name.pos, scope)?;
    let mut acl =
        scope.acls.get(&text).map_or_else(|| Acl { pos: name.pos, tests: vec![] }, |acl| (**acl).clone());
    acl.tests.push(Arc::new(test));
    scope.acls.insert(text, Arc::new(acl));
    Ok(())
}

impl Acl {
    /// A test without a name.
    pub(crate) fn anonymous(
        words: &[Word],
        pos: Pos,
        scope: &mut Scope<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let test = Test::parse(words, pos, scope)?;
        test.warn_place(scope);
        Ok(Self { pos, tests: vec![Arc::new(test)] })
    }

    /// The test with this name: a declared one or a predefined one.
    pub(crate) fn find(name: &Word, scope: &mut Scope<'_>) -> Result<Arc<Self>, Diagnostic> {
        let text = name.as_str();
        if let Some(acl) = scope.acls.get(&*text).cloned() {
            if acl.pos > name.pos {
                let message = format!("ACL '{text}' is used before it is defined");
                return Err(Diagnostic::error(name.pos, message).hint("move its 'acl' line up"));
            }
            for test in &acl.tests {
                test.warn_place(scope);
            }
            return Ok(acl);
        }
        if let Some((_, criterion)) = PREDEFINED.iter().find(|(n, _)| *n == text) {
            let word = |w: &&str| Word { text: w.as_bytes().to_vec(), pos: name.pos };
            let criterion: Vec<_> = criterion.iter().map(word).collect();
            return Self::anonymous(&criterion, name.pos, scope).map(Arc::new).map_err(|mut e| e.remove(0));
        }
        let known = scope.acls.keys().map(String::as_str).chain(PREDEFINED.iter().map(|(n, _)| *n));
        Err(Diagnostic::unknown("ACL", name, known))
    }

    /// What it says now.
    pub(crate) fn test(&self, txn: &Txn) -> Truth {
        let mut result = Truth::No;
        for test in &self.tests {
            result = result.max(test.run(txn));
            if result == Truth::Yes {
                break;
            }
        }
        result
    }
}

impl Test {
    fn parse(words: &[Word], pos: Pos, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let Some((first, mut rest)) = words.split_first() else {
            return Err(vec![Diagnostic::error(pos, "a criterion is missing")]);
        };
        let (expr, implied) = parse_criterion(first, scope)?;
        let mut flags = Flags::default();
        rest = flags.parse(rest, first)?;
        let method = flags.method.or(implied).or_else(|| Method::of_type(expr.output()));
        let Some(method) = method else {
            let kind = expr.output().name();
            let message = format!("'{}' returns {kind}, which needs a matching method", first.as_str());
            return Err(vec![
                Diagnostic::error(first.pos, message).hint("add '-m str', '-m bin' or another"),
            ]);
        };
        if !method.accepts(expr.output()) {
            let message = format!("'-m {}' cannot match {}", method.name(), expr.output().name());
            return Err(vec![Diagnostic::error(first.pos, message)]);
        }
        let dotted = method == Method::Int && expr.fetch().name.ends_with("ssl_ver");
        let rules = Rules { method, ignore_case: flags.ignore_case, dotted };
        let values = !rest.is_empty() || !flags.files.is_empty() || flags.ended;
        if !values && !matches!(method, Method::Found | Method::Bool) {
            let message = format!("'{}' never matches: there is no value to compare with", first.as_str());
            let found = Diagnostic::warning(first.pos, message);
            scope.warnings.push(found.hint("add values, or '-m found' to ask whether it is there at all"));
        }
        let mut files = Vec::new();
        for (word, is_map) in &flags.files {
            let file = scope.pattern_file(word, *is_map)?;
            files.push(file.view(rules, Type::Any, word).map_err(|e| vec![e])?);
        }
        let patterns = Self::parse_patterns(rest, rules, !files.is_empty())?;
        Ok(Self { expr, method, patterns, files, word: first.clone() })
    }

    fn parse_patterns(
        words: &[Word],
        rules: Rules,
        has_files: bool,
    ) -> Result<Option<Patterns>, Vec<Diagnostic>> {
        if words.is_empty() && has_files {
            return Ok(None);
        }
        let mut operator = Operator::Eq;
        let (mut sources, mut places) = (Vec::new(), Vec::new());
        for word in words {
            let numeric = matches!(rules.method, Method::Int | Method::Len);
            if let Some(found) = Operator::parse(&word.text).filter(|_| numeric) {
                operator = found;
                continue;
            }
            sources.push(Source { text: word.text.as_slice().into(), operator });
            places.push(word.pos);
        }
        match Patterns::compile(rules, &sources) {
            Ok(patterns) => Ok(Some(patterns)),
            Err((at, message)) => Err(vec![Diagnostic::error(places[at], message)]),
        }
    }

    fn warn_place(&self, scope: &mut Scope<'_>) {
        self.expr.warn_place(&self.word, scope);
    }

    fn run(&self, txn: &Txn) -> Truth {
        let found = self.expr.any(txn, |value| {
            self.patterns.as_ref().is_some_and(|p| p.matches(value))
                || self.files.iter().any(|f| f.matches(value))
        });
        match found {
            // `-m found` and booleans need no patterns; without a value nothing matches.
            Some(true) => Truth::Yes,
            _ if self.expr.may_change(txn, found.is_some()) => Truth::Perhaps,
            _ => Truth::No,
        }
    }

    /// The matching method in force.
    #[allow(dead_code, reason = "read by tests and by the manual's listing of a configuration's tests")]
    pub(crate) fn method(&self) -> Method {
        self.method
    }
}

/// A fetch with its converters, or a derivative such as `path_beg`: the suffix names the matching method.
fn parse_criterion(word: &Word, scope: &mut Scope<'_>) -> Result<(Expr, Option<Method>), Vec<Diagnostic>> {
    const SUFFIXES: [&str; 8] = ["_beg", "_dir", "_dom", "_end", "_len", "_reg", "_sub", "_str"];
    let (call, end) = call::cut_call(word, 0).map_err(|e| vec![e])?;
    if let Some(fetch) = (scope.shared.vocabulary.fetch)(&call.name.text) {
        return Expr::with_fetch(fetch, &call, word, end, scope).map(|expr| (expr, None));
    }
    let derived = SUFFIXES.iter().find_map(|suffix| {
        let base = call.name.text.strip_suffix(suffix.as_bytes())?;
        let fetch =
            (scope.shared.vocabulary.fetch)(base).filter(|f| matches!(f.output, Type::Str | Type::Bin))?;
        Some((fetch, Method::parse(&suffix.as_bytes()[1..])))
    });
    match derived {
        Some((fetch, method)) => Expr::with_fetch(fetch, &call, word, end, scope).map(|expr| (expr, method)),
        None => Err(vec![crate::expr::unknown_fetch(&call.name)]),
    }
}

/// The flags before the values.
#[derive(Default)]
struct Flags {
    ignore_case: bool,
    method: Option<Method>,
    files: Vec<(Word, bool)>,
    /// `--` was there: whoever writes it means what follows, even when that is nothing.
    ended: bool,
}

impl Flags {
    fn parse<'w>(&mut self, mut words: &'w [Word], criterion: &Word) -> Result<&'w [Word], Vec<Diagnostic>> {
        let mut as_map = false;
        while let Some((word, rest)) = words.split_first() {
            let needs_value = |what: &str| {
                let message = format!("'{}' needs {what}", word.as_str());
                rest.first().ok_or_else(|| vec![Diagnostic::error(word.pos, message)])
            };
            match word.text.as_slice() {
                b"-i" => self.ignore_case = true,
                b"-n" => {}
                b"-M" => as_map = true,
                b"-f" => {
                    self.files.push((needs_value("a file")?.clone(), as_map));
                    words = &rest[1..];
                    continue;
                }
                b"-u" => {
                    let id = needs_value("a number")?;
                    if call::number(&id.text).is_none() {
                        return Err(vec![Diagnostic::error(
                            id.pos,
                            format!("'{}' is no number", id.as_str()),
                        )]);
                    }
                    words = &rest[1..];
                    continue;
                }
                b"-m" => {
                    let name = needs_value("a matching method")?;
                    let known = crate::data::matcher::METHODS.iter().map(|m| m.name);
                    let method = Method::parse(&name.text);
                    self.method = Some(
                        method.ok_or_else(|| vec![Diagnostic::unknown("matching method", name, known)])?,
                    );
                    words = &rest[1..];
                    continue;
                }
                b"--" => {
                    self.ended = true;
                    return Ok(rest);
                }
                [b'-', letter] if letter.is_ascii_alphabetic() => {
                    let message = format!("unknown flag '{}' of '{}'", word.as_str(), criterion.as_str());
                    return Err(vec![
                        Diagnostic::error(word.pos, message)
                            .hint("use '--' before values that start with '-'"),
                    ]);
                }
                _ => break,
            }
            words = rest;
        }
        Ok(words)
    }
}
