//! Sample expressions: a fetch and the converters behind it.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::{Diagnostic, Scope, Txn, Word};

/// A typed value on its way through an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// `bool`
    Bool(bool),
    /// `sint`
    Int(i64),
    /// `ipv4`, `ipv6`
    Ip(IpAddr),
    /// `str`
    Str(Cow<'a, [u8]>),
    /// `bin`
    Bin(Cow<'a, [u8]>),
    /// `meth`
    Method(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// As bytes.
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(b"")
    }
}

/// A parsed expression, as in `hdr(host),lower,map(file)`.
#[derive(Debug)]
pub struct Expr;

impl Expr {
    /// Parses the expression that starts at `words[0]`; returns it and the number of words used.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(_words: &[Word], _scope: &mut Scope<'_>) -> Result<(Self, usize), Vec<Diagnostic>> {
        Err(vec![])
    }

    /// The value, when there is one.
    #[must_use]
    pub fn eval<'a>(&self, _txn: &'a Txn) -> Option<Value<'a>> {
        None
    }
}
