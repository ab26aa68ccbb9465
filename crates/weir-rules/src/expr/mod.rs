//! Sample expressions: a fetch and the converters behind it, as in `hdr(host),lower,map(file)`.

pub mod acl;
pub mod args;
pub mod condition;
pub(crate) mod entry;
mod log_alias;
mod log_encoding;
pub mod log_format;
pub mod log_style;
pub(crate) mod rule_words;
pub mod scope;

use std::fmt;
use std::sync::Arc;

use crate::expr::args::Args;
use crate::expr::entry::{Converter, Fetch, Needs};
use crate::expr::scope::Place;
use crate::value::{Type, Value};
use crate::words::call::{self, Call};
use crate::words::manual;
use crate::{Diagnostic, Phase, Scope, Txn, Word};

/// Most converters behind one fetch.
const MAX_CONVERTERS: usize = 64;

/// Where a fetch with several values stands.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cursor {
    /// Field line (or the like) to look at next.
    pub(crate) line: usize,
    /// Byte in it to go on from.
    pub(crate) offset: usize,
    single: bool,
}

impl Cursor {
    /// Asks for the one value a sample has, not for all in turn.
    pub(crate) const SINGLE: Self = Self { line: 0, offset: 0, single: true };

    /// Only one value is wanted: fetches with several choose (often the last).
    pub(crate) fn is_single(&self) -> bool {
        self.single
    }
}

/// A parsed expression.
pub struct Expr {
    fetch: &'static Fetch,
    args: Args,
    converters: Box<[(&'static Converter, Args)]>,
    output: Type,
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let converters: Vec<_> = self.converters.iter().map(|(c, args)| (c.name, &args.list)).collect();
        f.debug_struct("Expr")
            .field("fetch", &self.fetch.name)
            .field("args", &self.args.list)
            .field("converters", &converters)
            .finish_non_exhaustive()
    }
}

impl Expr {
    /// Parses the expression that starts at `words[0]`; returns it and the number of words used.
    ///
    /// Converters may also follow as words of their own.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(words: &[Word], scope: &mut Scope<'_>) -> Result<(Self, usize), Vec<Diagnostic>> {
        let Some(first) = words.first() else {
            return Err(vec![Diagnostic::error(crate::Pos::default(), "an expression is missing")]);
        };
        let mut expr = Self::parse_word(first, scope)?;
        let mut used = 1;
        while let Some(word) = words.get(used) {
            let (call, _) = call::cut_call(word, 0).map_err(|e| vec![e])?;
            if (scope.shared.vocabulary.converter)(&call.name.text).is_none() {
                break;
            }
            expr.parse_converters(word, 0, scope)?;
            used += 1;
        }
        expr.check_place(first, scope)?;
        Ok((expr, used))
    }

    /// Parses an expression that is one word.
    pub(crate) fn parse_word(word: &Word, scope: &mut Scope<'_>) -> Result<Self, Vec<Diagnostic>> {
        let (call, end) = call::cut_call(word, 0).map_err(|e| vec![e])?;
        let Some(fetch) = (scope.shared.vocabulary.fetch)(&call.name.text) else {
            return Err(vec![unknown_fetch(&call.name)]);
        };
        let fetch = directed(fetch, scope);
        Self::with_fetch(fetch, &call, word, end, scope)
    }

    /// Parses the rest of an expression whose fetch is known.
    pub(crate) fn with_fetch(
        fetch: &'static Fetch,
        call: &Call,
        word: &Word,
        end: usize,
        scope: &mut Scope<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let list = match fetch.prepare {
            Some(prepare) => prepare(call, scope, fetch.variant)?,
            None => args::typed(call, fetch.args, scope)?,
        };
        let args = Args { list, variant: fetch.variant, proxy: scope.proxy.as_str().into() };
        let mut expr = Self { fetch, args, converters: Box::default(), output: fetch.output };
        expr.parse_converters(word, end, scope)?;
        Ok(expr)
    }

    /// Parses `,converter,converter` from `at` on.
    fn parse_converters(
        &mut self,
        word: &Word,
        mut at: usize,
        scope: &mut Scope<'_>,
    ) -> Result<(), Vec<Diagnostic>> {
        let mut list = std::mem::take(&mut self.converters).into_vec();
        while at < word.text.len() {
            if word.text[at] == b',' {
                at += 1;
                continue;
            }
            let before = word.text[..at].last();
            if at > 0 && before != Some(&b',') {
                let rest = call::sub_word(word, at, word.text.len());
                let message = format!("unexpected '{}' after the expression", rest.as_str());
                return Err(vec![
                    Diagnostic::error(rest.pos, message).hint("converters follow after a comma"),
                ]);
            }
            let (call, end) = call::cut_call(word, at).map_err(|e| vec![e])?;
            let Some(entry) = (scope.shared.vocabulary.converter)(&call.name.text) else {
                return Err(vec![unknown_converter(&call.name)]);
            };
            if list.len() == MAX_CONVERTERS {
                let message = format!("more than {MAX_CONVERTERS} converters in one expression");
                return Err(vec![Diagnostic::error(call.name.pos, message)]);
            }
            if !self.output.converts_to(entry.input) {
                let (from, to) = (self.output.name(), entry.input.name());
                let message = format!("'{}' takes {to}, not {from}", entry.name);
                return Err(vec![Diagnostic::error(call.name.pos, message)]);
            }
            let typed = match entry.prepare {
                Some(prepare) => prepare(&call, scope, entry.variant)?,
                None => args::typed(&call, entry.args, scope)?,
            };
            let args = Args { list: typed, variant: entry.variant, proxy: Arc::clone(&self.args.proxy) };
            // "Any" out of "any" keeps the type; out of a certain type it is not known before it runs.
            if entry.output != Type::Any || entry.input != Type::Any {
                self.output = entry.output;
            }
            list.push((entry, args));
            at = end;
        }
        self.converters = list.into_boxed_slice();
        Ok(())
    }

    /// Refuses what cannot have a value where the expression stands.
    fn check_place(&self, word: &Word, scope: &Scope<'_>) -> Result<(), Vec<Diagnostic>> {
        if is_available(self.fetch.needs, scope) {
            return Ok(());
        }
        let message = format!(
            "'{}' needs {}, which is not there yet or any more",
            self.fetch.name,
            self.fetch.needs.name()
        );
        let hint = match scope.place {
            Place::Rule(Phase::HttpResponse | Phase::HttpAfterResponse) => {
                "keep it in a variable with 'http-request set-var(txn.x)' and use var(txn.x) here"
            }
            _ => "use it in a rule set that runs later",
        };
        Err(vec![Diagnostic::error(word.pos, message).hint(hint)])
    }

    /// Warns about what cannot have a value where the condition stands, as it then never matches.
    pub(crate) fn warn_place(&self, word: &Word, scope: &mut Scope<'_>) {
        if !is_available(self.fetch.needs, scope) {
            let needs = self.fetch.needs.name();
            scope.warn(word.pos, format!("'{}' never matches here: it needs {needs}", self.fetch.name));
        } else if scope.http && matches!(self.fetch.needs, Needs::RequestBuffer | Needs::ResponseBuffer) {
            let name = self.fetch.name;
            let message = format!(
                "'{name}' is for TCP mode: in an HTTP proxy it sees a body that was waited for at most"
            );
            scope.warn(word.pos, message);
        }
    }

    /// Type of the value.
    #[must_use]
    pub fn output(&self) -> Type {
        self.output
    }

    /// The fetch it starts with.
    pub(crate) fn fetch(&self) -> &'static Fetch {
        self.fetch
    }

    /// The value, when there is one.
    #[must_use]
    pub fn eval<'a>(&'a self, txn: &'a Txn) -> Option<Value<'a>> {
        let value = (self.fetch.eval)(txn, &self.args, &mut Cursor::SINGLE.clone())?;
        self.convert(value, txn)
    }

    fn convert<'a>(&'a self, mut value: Value<'a>, txn: &'a Txn) -> Option<Value<'a>> {
        for (converter, args) in &self.converters {
            value = (converter.eval)(value.cast(converter.input)?, args, txn)?;
        }
        Some(value)
    }

    /// Tries the values in turn until `found` holds; `None` when there was no value at all.
    pub(crate) fn any<'a>(&'a self, txn: &'a Txn, mut found: impl FnMut(&Value<'a>) -> bool) -> Option<bool> {
        if !self.fetch.multi {
            return self.eval(txn).map(|v| found(&v));
        }
        let mut cursor = Cursor::default();
        let mut seen = None;
        while let Some(value) = (self.fetch.eval)(txn, &self.args, &mut cursor) {
            let Some(value) = self.convert(value, txn) else { continue };
            if found(&value) {
                return Some(true);
            }
            seen = Some(false);
        }
        seen
    }

    /// The value may change or come while more bytes of the connection arrive.
    pub(crate) fn may_change(&self, txn: &Txn, found: bool) -> bool {
        txn.inspecting
            && match self.fetch.needs {
                Needs::RequestBuffer | Needs::ResponseBuffer => !found || self.grows(),
                Needs::RequestHead | Needs::ResponseHead | Needs::RequestBody | Needs::ResponseBody => !found,
                _ => self.fetch.name == "wait_end",
            }
    }

    /// Its value grows with the bytes received.
    fn grows(&self) -> bool {
        // These give a value only when more bytes cannot change it.
        let decided = |converter: &Converter| matches!(converter.name, "fix_is_valid" | "mqtt_is_valid");
        if self.converters.iter().any(|(converter, _)| decided(converter)) {
            return false;
        }
        match self.fetch.name {
            "req.len" | "req_len" | "res.len" => true,
            "payload" | "req.payload" | "res.payload" => self.args.int(1) == Some(0),
            _ => false,
        }
    }
}

/// Old names without a direction are about the message at hand.
fn directed(fetch: &'static Fetch, scope: &Scope<'_>) -> &'static Fetch {
    let response = match scope.place {
        Place::Rule(phase) => phase.is_response(),
        Place::BackendResponse | Place::Check => true,
        _ => false,
    };
    let name: &[u8] = match fetch.name {
        _ if !response => return fetch,
        "hdr" => b"res.hdr",
        "hdr_cnt" => b"res.hdr_cnt",
        "hdr_ip" => b"res.hdr_ip",
        "hdr_val" => b"res.hdr_val",
        "cookie" => b"res.cook",
        "payload" => b"res.payload",
        "payload_lv" => b"res.payload_lv",
        _ => return fetch,
    };
    (scope.shared.vocabulary.fetch)(name).unwrap_or(fetch)
}

/// Whether what a fetch needs is there at a place.
fn is_available(needs: Needs, scope: &Scope<'_>) -> bool {
    let place = scope.place;
    use Needs as N;
    let request = matches!(needs, N::RequestBuffer | N::RequestHead | N::RequestBody);
    let response = matches!(needs, N::ResponseBuffer | N::ResponseHead | N::ResponseBody | N::ResponseKept);
    match place {
        Place::Any | Place::Log => true,
        Place::Check => !request && needs != N::RequestKept,
        Place::Start => matches!(needs, N::Nothing),
        Place::Rule(Phase::TcpRequestConnection | Phase::TcpRequestSession) => {
            matches!(needs, N::Nothing | N::Client)
        }
        Place::Rule(Phase::TcpRequestContent | Phase::HttpRequest)
        | Place::FrontendRequest
        | Place::BackendRequest => match needs {
            N::Server => place == Place::BackendRequest,
            N::Backend => scope.backend,
            _ => !response,
        },
        Place::Rule(Phase::TcpResponseContent | Phase::HttpResponse | Phase::HttpAfterResponse)
        | Place::BackendResponse => !request,
    }
}

/// An unknown fetch, or one that is not implemented.
pub(crate) fn unknown_fetch(name: &Word) -> Diagnostic {
    let text = name.as_str();
    if manual::FETCHES.contains(&&*text) {
        return Diagnostic::error(name.pos, format!("fetch '{text}' is not implemented yet"));
    }
    let found = Diagnostic::unknown("fetch", name, manual::FETCHES.iter().copied());
    if text.starts_with('!') {
        return found.hint("negate where the test is used: 'if !NAME'");
    }
    match &*text {
        "if" | "unless" => found.hint("a criterion stands alone, conditions follow rules"),
        _ if text.starts_with('/') => found.hint("is the name in front of it missing?"),
        _ if manual::CONVERTERS.contains(&&*text) => {
            found.hint(format!("it is a converter: write it behind a fetch, as in 'FETCH,{text}'"))
        }
        _ => found,
    }
}

fn unknown_converter(name: &Word) -> Diagnostic {
    let text = name.as_str();
    if manual::CONVERTERS.contains(&&*text) {
        return Diagnostic::error(name.pos, format!("converter '{text}' is not implemented yet"));
    }
    Diagnostic::unknown("converter", name, manual::CONVERTERS.iter().copied())
}
