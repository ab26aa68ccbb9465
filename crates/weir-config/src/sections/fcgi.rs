//! An `fcgi-app` section being read.

use weir_rules::{Diagnostic, Scope};

use crate::model::FcgiApp;

/// A section being read.
pub(crate) struct FcgiDraft<'a> {
    pub(crate) app: FcgiApp,
    pub(crate) scope: Scope<'a>,
    pub(crate) found: Vec<Diagnostic>,
}
