//! Conditions made of ACLs: `if a b || !{ path /x }`, `unless c`.

use std::sync::Arc;

use crate::expr::acl::{Acl, Truth};
use crate::{Diagnostic, Pos, Scope, Txn, Word};

/// Most ACLs in one condition.
const MAX_TERMS: usize = 1024;

/// A parsed condition: any of the groups, each of which means all of its terms.
#[derive(Debug)]
pub struct Condition {
    unless: bool,
    any: Vec<Vec<Term>>,
}

#[derive(Debug)]
struct Term {
    negated: bool,
    acl: Arc<Acl>,
}

impl Condition {
    /// Parses `if ...` or `unless ...`, all the words.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(words: &[Word], scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let Some((first, rest)) = words.split_first() else {
            return Err(vec![Diagnostic::error(Pos::default(), "'if' or 'unless' is missing")]);
        };
        let unless = match first.text.as_slice() {
            b"if" => false,
            b"unless" => true,
            _ => {
                let message = format!("expected 'if' or 'unless', not '{}'", first.as_str());
                return Err(vec![Diagnostic::error(first.pos, message)]);
            }
        };
        if rest.is_empty() {
            return Err(vec![Diagnostic::error(
                first.pos,
                format!("no condition after '{}'", first.as_str()),
            )]);
        }
        let mut parser = Parser { any: vec![vec![]], negated: false, count: 0, errors: vec![] };
        parser.run(rest, scope);
        match parser.errors.is_empty() {
            true => Ok(Self { unless, any: parser.any }),
            false => Err(parser.errors),
        }
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, txn: &Txn) -> bool {
        self.evaluate(txn) == Truth::Yes
    }

    /// Whether it holds, or may hold when more bytes come.
    pub(crate) fn evaluate(&self, txn: &Txn) -> Truth {
        let mut result = Truth::No;
        for group in &self.any {
            let mut all = Truth::Yes;
            for term in group {
                all = all.min(invert(term.negated, term.acl.test(txn)));
                if all == Truth::No {
                    break;
                }
            }
            result = result.max(all);
            if result == Truth::Yes {
                break;
            }
        }
        invert(self.unless, result)
    }
}

fn invert(negated: bool, truth: Truth) -> Truth {
    match truth {
        Truth::Yes if negated => Truth::No,
        Truth::No if negated => Truth::Yes,
        other => other,
    }
}

struct Parser {
    any: Vec<Vec<Term>>,
    negated: bool,
    count: usize,
    errors: Vec<Diagnostic>,
}

impl Parser {
    fn run(&mut self, words: &[Word], scope: &mut Scope<'_>) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let mut name = word.clone();
            while name.text.first() == Some(&b'!') {
                self.negated = !self.negated;
                let len = name.text.len();
                name = crate::words::call::sub_word(&name, 1, len);
            }
            match name.text.as_slice() {
                b"" => {}
                text if text == b"||" || text.eq_ignore_ascii_case(b"or") => {
                    if self.any.last().is_none_or(Vec::is_empty) || at == words.len() || self.negated {
                        self.fail(word.pos, format!("'{}' needs a test on both sides", name.as_str()));
                    }
                    self.any.push(vec![]);
                }
                b"{" => {
                    let Some(len) = words[at..].iter().position(|w| *w == "}") else {
                        self.fail(word.pos, "missing '}' after '{'");
                        return;
                    };
                    let acl = Acl::anonymous(&words[at..at + len], word.pos, scope);
                    self.add(acl.map(Arc::new));
                    at += len + 1;
                }
                _ => {
                    let acl = Acl::find(&name, scope).map_err(|e| vec![e]);
                    self.add(acl);
                }
            }
        }
        if self.negated {
            let pos = words.last().map_or_else(Pos::default, |w| w.pos);
            self.fail(pos, "'!' without a test");
        }
    }

    fn add(&mut self, acl: Result<Arc<Acl>, Vec<Diagnostic>>) {
        let negated = std::mem::take(&mut self.negated);
        self.count += 1;
        match acl {
            Ok(acl) if self.count > MAX_TERMS => {
                self.fail(acl.pos, format!("more than {MAX_TERMS} tests in one condition"));
            }
            Ok(acl) => {
                if let Some(group) = self.any.last_mut() {
                    group.push(Term { negated, acl });
                }
            }
            Err(errors) => {
                self.errors.extend(errors);
                // A test all the same: what joins it to others is not wrong as well.
                if let Some(group) = self.any.last_mut() {
                    group.push(Term { negated, acl: Arc::default() });
                }
            }
        }
    }

    fn fail(&mut self, pos: Pos, message: impl Into<String>) {
        self.errors.push(Diagnostic::error(pos, message));
    }
}

/// Position of the word that starts the condition behind a rule's own words; braces are skipped.
pub(crate) fn find_start(words: &[Word]) -> usize {
    words.iter().position(|w| *w == "if" || *w == "unless").unwrap_or(words.len())
}
