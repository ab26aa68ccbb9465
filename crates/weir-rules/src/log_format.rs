//! Log-format strings: text, `%variables` and `%[expressions]`.

use crate::{Diagnostic, Scope, Txn, Word};

/// A parsed log-format string.
#[derive(Debug)]
pub struct LogFormat;

impl LogFormat {
    /// Parses one word.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(_word: &Word, _scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        Err(vec![])
    }

    /// Appends the rendered text.
    pub fn render(&self, _txn: &Txn, _out: &mut Vec<u8>) {}
}

/// `option httplog`
pub fn httplog() -> &'static LogFormat {
    &LogFormat
}

/// `option httpslog`
pub fn httpslog() -> &'static LogFormat {
    &LogFormat
}

/// `option clflog`
pub fn clflog() -> &'static LogFormat {
    &LogFormat
}

/// `option tcplog`
pub fn tcplog() -> &'static LogFormat {
    &LogFormat
}

/// `option tcpclf`
pub fn tcpclf() -> &'static LogFormat {
    &LogFormat
}
