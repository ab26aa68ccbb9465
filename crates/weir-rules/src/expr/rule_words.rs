//! The words of a rule (or of a template in one), read from left to right.

use crate::expr::Expr;
use crate::expr::log_format::LogFormat;
use crate::expr::log_style::Style;
use crate::words::call::Call;
use crate::{Diagnostic, Phase, Pos, Scope, Word};

/// The words of an action, read from left to right.
pub(crate) struct Words<'w> {
    list: &'w [Word],
    /// Arguments in the parentheses of the keyword.
    pub(crate) call: Call,
    /// Where the rule stands.
    pub(crate) pos: Pos,
    /// Rule set.
    pub(crate) phase: Phase,
}

impl<'w> Words<'w> {
    pub(crate) fn new(list: &'w [Word], pos: Pos) -> Self {
        let call = Call { name: Word { text: Vec::new(), pos }, args: None };
        Self { list, call, pos, phase: Phase::HttpRequest }
    }

    /// Those of a rule, behind the keyword of its action.
    pub(crate) fn of_rule(list: &'w [Word], call: Call, pos: Pos, phase: Phase) -> Self {
        Self { list, call, pos, phase }
    }

    /// The next word, left where it is.
    pub(crate) fn peek(&self) -> Option<&'w Word> {
        self.list.first()
    }

    /// Takes the next word.
    pub(crate) fn next(&mut self) -> Option<&'w Word> {
        let (first, rest) = self.list.split_first()?;
        self.list = rest;
        Some(first)
    }

    /// Takes the next word when it is this one.
    pub(crate) fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|w| w.text == keyword.as_bytes());
        if found {
            self.next();
        }
        found
    }

    /// Takes the next word, which must be there.
    pub(crate) fn expect(&mut self, what: &str) -> Result<&'w Word, Vec<Diagnostic>> {
        let keyword = self.call.name.as_str().into_owned();
        let missing = match keyword.is_empty() {
            true => format!("{what} is missing"),
            false => format!("'{keyword}' needs {what}"),
        };
        let pos = self.list.first().map_or(self.pos, |w| w.pos);
        self.next().ok_or_else(|| vec![Diagnostic::error(pos, missing)])
    }

    /// Takes an expression.
    pub(crate) fn expr(&mut self, scope: &mut Scope<'_>) -> Result<Expr, Vec<Diagnostic>> {
        if self.list.is_empty() {
            self.expect("an expression")?;
        }
        let (expr, used) = Expr::parse(self.list, scope)?;
        self.list = &self.list[used..];
        Ok(expr)
    }

    /// Takes a log format.
    pub(crate) fn format(
        &mut self,
        style: Style,
        scope: &mut Scope<'_>,
    ) -> Result<LogFormat, Vec<Diagnostic>> {
        let word = self.expect("a value")?;
        LogFormat::parse_styled(word, style, scope)
    }

    /// Argument `at` of the keyword's parentheses, which must be there.
    pub(crate) fn arg(&self, at: usize, what: &str) -> Result<&Word, Vec<Diagnostic>> {
        let missing = || {
            vec![Diagnostic::error(
                self.call.name.pos,
                format!("'{}' needs {what} in parentheses", self.call.name.as_str()),
            )]
        };
        self.call.args().get(at).filter(|w| !w.text.is_empty()).ok_or_else(missing)
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self) -> Result<(), Vec<Diagnostic>> {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                let message = format!("unexpected '{}'", word.as_str());
                Err(vec![
                    Diagnostic::error(word.pos, message)
                        .hint("a rule may end with 'if' or 'unless' and a condition"),
                ])
            }
        }
    }
}
