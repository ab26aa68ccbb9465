//! Named tests: `acl NAME CRITERION [flags] [values]`.

use crate::{Diagnostic, Pos, Scope, Word};

/// A named test: true when one of its lines is.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    /// Where its first line stands.
    pub pos: Pos,
}

/// `Scope::define_acl`.
pub(crate) fn define(words: &[Word], _scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
    let pos = words.first().map_or_else(Pos::default, |w| w.pos);
    Err(vec![Diagnostic::error(pos, "acl is not implemented yet")])
}
