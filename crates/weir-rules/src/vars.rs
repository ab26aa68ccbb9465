//! Variables: `proc.x`, `sess.x`, `txn.x`, `req.x`, `res.x`.
//!
//! Owns their names and where each scope is stored.  Converters may set variables while an expression borrows
//! the transaction: such writes wait in [`Effects`] until the rule is done, and reads look there first.

use std::cell::RefCell;

use crate::txn::Vars;
use crate::{Diagnostic, Txn, Value, Word};

/// Most variables of one scope that a transaction keeps.
const MAX_VARS: usize = 256;

/// Scope of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the scope of the same name")]
pub enum VarScope {
    Proc,
    Sess,
    Txn,
    Req,
    Res,
    Check,
}

/// A variable's name with its scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VarName {
    /// Scope.
    pub scope: VarScope,
    /// Name behind the dot.
    pub name: Box<[u8]>,
}

impl VarName {
    /// Parses `scope.name`.
    ///
    /// # Errors
    /// Unknown scopes and names with other characters than letters, digits, `_` and `.`.
    pub fn parse(word: &Word) -> Result<Self, Diagnostic> {
        let text = &word.text;
        let dot = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
        let scope = match &text[..dot] {
            b"proc" => VarScope::Proc,
            b"sess" => VarScope::Sess,
            b"txn" => VarScope::Txn,
            b"req" => VarScope::Req,
            b"res" => VarScope::Res,
            b"check" => VarScope::Check,
            _ => {
                let message = format!("invalid variable name '{}'", word.as_str());
                let hint =
                    "a name starts with its scope: 'proc.', 'sess.', 'txn.', 'req.', 'res.' or 'check.'";
                return Err(Diagnostic::error(word.pos, message).hint(hint));
            }
        };
        let name = text.get(dot + 1..).unwrap_or_default();
        if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')) {
            let message = format!("invalid variable name '{}'", word.as_str());
            return Err(Diagnostic::error(word.pos, message).hint("letters, digits, '_' and '.' are allowed"));
        }
        Ok(Self { scope, name: name.into() })
    }

    /// Reads the variable.
    #[must_use]
    pub fn get<'a>(&self, txn: &'a Txn) -> Option<Value<'a>> {
        if let Some(written) = txn.effects.pending(self) {
            return written;
        }
        match self.scope {
            VarScope::Proc => txn.env.proc_var(&self.name),
            VarScope::Sess | VarScope::Check => find(&txn.session.vars.borrow(), &self.name).cloned(),
            VarScope::Txn => find(&txn.vars, &self.name).map(borrowed),
            VarScope::Req => find(&txn.req_vars, &self.name).map(borrowed),
            VarScope::Res => find(&txn.res_vars, &self.name).map(borrowed),
        }
    }

    /// Sets the variable, or unsets it with `None`.
    pub fn set(&self, txn: &mut Txn, value: Option<Value<'static>>) {
        match self.scope {
            VarScope::Proc => txn.env.set_proc_var(&self.name, value),
            VarScope::Sess | VarScope::Check => store(&mut txn.session.vars.borrow_mut(), &self.name, value),
            VarScope::Txn => store(&mut txn.vars, &self.name, value),
            VarScope::Req => store(&mut txn.req_vars, &self.name, value),
            VarScope::Res => store(&mut txn.res_vars, &self.name, value),
        }
    }
}

/// The same value without copying its bytes.
pub(crate) fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    use std::borrow::Cow::Borrowed;
    match value {
        Value::Bool(b) => Value::Bool(*b),
        Value::Int(n) => Value::Int(*n),
        Value::Ip(ip) => Value::Ip(*ip),
        Value::Str(b) => Value::Str(Borrowed(b)),
        Value::Bin(b) => Value::Bin(Borrowed(b)),
        Value::Method(b) => Value::Method(Borrowed(b)),
    }
}

fn find<'a>(vars: &'a Vars, name: &[u8]) -> Option<&'a Value<'static>> {
    vars.iter().find(|(n, _)| **n == *name).map(|(_, v)| v)
}

fn store(vars: &mut Vars, name: &[u8], value: Option<Value<'static>>) {
    let at = vars.iter().position(|(n, _)| **n == *name);
    match (at, value) {
        (Some(at), Some(value)) => vars[at].1 = value,
        (Some(at), None) => {
            vars.swap_remove(at);
        }
        (None, Some(value)) if vars.len() < MAX_VARS => vars.push((name.into(), value)),
        (None, _) => {}
    }
}

/// A captured value: response or request, slot, bytes.
type Captured = (bool, usize, Box<[u8]>);

/// What expressions changed while they borrowed the transaction; applied by [`Effects::apply`].
#[derive(Default, Debug)]
pub struct Effects {
    vars: RefCell<Vec<(VarName, Option<Value<'static>>)>>,
    captures: RefCell<Vec<Captured>>,
}

impl Effects {
    /// Value of a variable written but not applied yet; `Some(None)` when it was unset.
    fn pending(&self, name: &VarName) -> Option<Option<Value<'static>>> {
        let vars = self.vars.borrow();
        if vars.is_empty() {
            return None;
        }
        vars.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    /// Notes a variable's new value.
    pub(crate) fn set_var(&self, name: &VarName, value: Option<Value<'static>>) {
        let mut vars = self.vars.borrow_mut();
        if vars.len() < MAX_VARS {
            vars.push((name.clone(), value));
        }
    }

    /// Notes a captured value: request or response, slot, bytes.
    pub(crate) fn capture(&self, response: bool, slot: usize, bytes: &[u8]) {
        let mut captures = self.captures.borrow_mut();
        if captures.len() < MAX_VARS {
            captures.push((response, slot, bytes.into()));
        }
    }

    /// Applies what was noted to the transaction.
    pub fn apply(txn: &mut Txn) {
        if txn.effects.vars.borrow().is_empty() && txn.effects.captures.borrow().is_empty() {
            return;
        }
        for (name, value) in txn.effects.vars.take() {
            name.set(txn, value);
        }
        for (response, slot, bytes) in txn.effects.captures.take() {
            store_capture(txn, response, slot, &bytes);
        }
    }
}

/// Stores a captured value in a slot that exists.
pub(crate) fn store_capture(txn: &mut Txn, response: bool, slot: usize, bytes: &[u8]) {
    let slots = if response { &mut txn.response_captures } else { &mut txn.request_captures };
    if let Some(place) = slots.get_mut(slot) {
        *place = Some(bytes.into());
    }
}

/// A condition of `set-var(name,cond)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetCondition {
    Exists,
    NotExists,
    Empty,
    NotEmpty,
    Set,
    NotSet,
    Greater,
    Less,
}

impl SetCondition {
    /// The words of all conditions, in the order of the variants.
    pub(crate) const WORDS: [&'static str; 8] =
        ["ifexists", "ifnotexists", "ifempty", "ifnotempty", "ifset", "ifnotset", "ifgt", "iflt"];

    /// The condition with this place in [`Self::WORDS`].
    pub(crate) fn from_index(at: u8) -> Self {
        match at {
            0 => Self::Exists,
            1 => Self::NotExists,
            2 => Self::Empty,
            3 => Self::NotEmpty,
            4 => Self::Set,
            5 => Self::NotSet,
            6 => Self::Greater,
            _ => Self::Less,
        }
    }

    /// Parses the words after the variable's name.
    pub(crate) fn parse_all(words: &[Word]) -> Result<Vec<Self>, Diagnostic> {
        let one = |word: &Word| {
            let at = Self::WORDS.iter().position(|w| w.as_bytes() == word.text);
            let at = at.ok_or_else(|| Diagnostic::unknown("condition", word, Self::WORDS))?;
            Ok(Self::from_index(at as u8))
        };
        words.iter().map(one).collect()
    }

    /// Whether the variable may be set to this value.
    pub(crate) fn holds(self, name: &VarName, value: &Value<'_>, txn: &Txn) -> bool {
        // Process variables are made when the configuration is read: they always exist.
        let old = name.get(txn);
        match self {
            Self::Exists => old.is_some() || name.scope == VarScope::Proc,
            Self::NotExists => old.is_none() && name.scope != VarScope::Proc,
            Self::Empty => value.is_empty(),
            Self::NotEmpty => !value.is_empty(),
            Self::Set => old.is_some(),
            Self::NotSet => old.is_none(),
            Self::Greater => match (old, value) {
                (Some(Value::Int(old)), Value::Int(new)) => old > *new,
                _ => true,
            },
            Self::Less => match (old, value) {
                (Some(Value::Int(old)), Value::Int(new)) => old < *new,
                _ => true,
            },
        }
    }
}
