//! ACLs and the conditions made of them: `if a b || !{ path /x }`, `unless c`.

use crate::{Diagnostic, Scope, Txn, Word};

/// A parsed condition.
#[derive(Debug)]
pub struct Condition;

impl Condition {
    /// Parses `if ...` or `unless ...`, all the words.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(_words: &[Word], _scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        Err(vec![])
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, _txn: &Txn) -> bool {
        false
    }
}
