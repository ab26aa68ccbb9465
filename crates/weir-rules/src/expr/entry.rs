//! Entries of the vocabulary: what a fetch or a converter is called, takes, gives and does.
//!
//! Owns their shape; the entries stand in the file of their family, and the lists of families in `table`.

use crate::expr::Cursor;
use crate::expr::args::{Arg, ArgSpec, Args};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

/// Code of a fetch.
pub(crate) type FetchFn = for<'a> fn(&'a Txn, &'a Args, &mut Cursor) -> Option<Value<'a>>;

/// Code of a converter.
pub(crate) type ConvertFn = for<'a> fn(Value<'a>, &'a Args, &'a Txn) -> Option<Value<'a>>;

/// Parses arguments that are more than a list of typed words.
pub(crate) type PrepareFn = fn(&Call, &mut Scope<'_>, &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>>;

/// An expression and what it renders to for the example request; `None` when it finds nothing.
pub type Example = (&'static str, Option<&'static str>);

/// What a fetch reads; decides where it may stand and whether a missing value may still come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing of the transaction.
    Nothing,
    /// The client's connection.
    Client,
    /// Bytes of the request in TCP mode.
    RequestBuffer,
    /// The request's head.
    RequestHead,
    /// The request's body.
    RequestBody,
    /// Facts of the request that are kept until the end (captures, method, URI for logs).
    RequestKept,
    /// The backend: in the rules of one.
    Backend,
    /// The server and the connection to it.
    Server,
    /// Bytes of the response in TCP mode.
    ResponseBuffer,
    /// The response's head.
    ResponseHead,
    /// The response's body.
    ResponseBody,
    /// Facts of the response that are kept until the end.
    ResponseKept,
}

impl Needs {
    /// What it needs, in words for diagnostics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Client => "the client's connection",
            Self::RequestBuffer => "request bytes",
            Self::RequestHead => "the request's headers",
            Self::RequestBody => "the request's body",
            Self::RequestKept => "the request",
            Self::Backend => "a backend",
            Self::Server => "the server's connection",
            Self::ResponseBuffer => "response bytes",
            Self::ResponseHead => "the response's headers",
            Self::ResponseBody => "the response's body",
            Self::ResponseKept => "the response",
        }
    }
}

/// A sample fetch.
pub struct Fetch {
    /// Keyword.
    pub name: &'static str,
    /// Arguments.
    pub args: ArgSpec,
    /// Type of its values.
    pub output: Type,
    /// What it reads.
    pub needs: Needs,
    /// What it returns, one line.
    pub doc: &'static str,
    /// Expressions with their results.
    pub examples: &'static [Example],
    /// May return several values, each tried by ACLs.
    pub(crate) multi: bool,
    pub(crate) variant: &'static str,
    pub(crate) prepare: Option<PrepareFn>,
    pub(crate) eval: FetchFn,
}

/// An entry for a fetch.
pub(crate) const fn fetch(
    name: &'static str,
    args: ArgSpec,
    output: Type,
    needs: Needs,
    doc: &'static str,
    eval: FetchFn,
) -> Fetch {
    Fetch { name, args, output, needs, doc, examples: &[], multi: false, variant: name, prepare: None, eval }
}

impl Fetch {
    pub(crate) const fn multi(mut self) -> Self {
        self.multi = true;
        self
    }

    pub(crate) const fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    pub(crate) const fn prepare(mut self, prepare: PrepareFn) -> Self {
        self.prepare = Some(prepare);
        self
    }

    pub(crate) const fn examples(mut self, examples: &'static [Example]) -> Self {
        self.examples = examples;
        self
    }
}

/// A converter.
pub struct Converter {
    /// Keyword.
    pub name: &'static str,
    /// Arguments.
    pub args: ArgSpec,
    /// Type it takes; others are converted to it first.
    pub input: Type,
    /// Type it returns; [`Type::Any`] keeps the input's.
    pub output: Type,
    /// What it does, one line.
    pub doc: &'static str,
    /// Expressions with their results.
    pub examples: &'static [Example],
    pub(crate) variant: &'static str,
    pub(crate) prepare: Option<PrepareFn>,
    pub(crate) eval: ConvertFn,
}

/// An entry for a converter.
pub(crate) const fn converter(
    name: &'static str,
    args: ArgSpec,
    input: Type,
    output: Type,
    doc: &'static str,
    eval: ConvertFn,
) -> Converter {
    Converter { name, args, input, output, doc, examples: &[], variant: name, prepare: None, eval }
}

impl Converter {
    pub(crate) const fn prepare(mut self, prepare: PrepareFn) -> Self {
        self.prepare = Some(prepare);
        self
    }

    pub(crate) const fn examples(mut self, examples: &'static [Example]) -> Self {
        self.examples = examples;
        self
    }
}

/// How a keyword becomes an entry.  The parser gets this with its scope instead of naming the lists: entries parse
/// expressions themselves.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary {
    pub(crate) fetch: fn(&[u8]) -> Option<&'static Fetch>,
    pub(crate) converter: fn(&[u8]) -> Option<&'static Converter>,
}
