//! Variables: `proc.x`, `sess.x`, `txn.x`, `req.x`, `res.x`.
//!
//! Owns their names and where each scope is stored.  Converters may set variables while an expression borrows
//! the transaction: such writes wait in [`Effects`] until the rule is done, and reads look there first.

use std::cell::RefCell;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
            VarScope::Sess | VarScope::Check => txn.session.vars.borrow().get(&self.name).cloned(),
            VarScope::Txn => txn.vars.get(&self.name).map(borrowed),
            VarScope::Req => txn.req_vars.get(&self.name).map(borrowed),
            VarScope::Res => txn.res_vars.get(&self.name).map(borrowed),
        }
    }

    /// Sets the variable, or unsets it with `None`; a value for which there is no room unsets it.
    pub fn set(&self, txn: &mut Txn, value: Option<Value<'static>>) {
        let account = txn.env.var_account().cloned();
        let value = match &account {
            Some(account) => value.filter(|value| self.has_room(txn, account, value)),
            None => value,
        };
        let account = account.as_ref();
        match self.scope {
            VarScope::Proc => txn.env.set_proc_var(&self.name, value),
            VarScope::Sess | VarScope::Check => {
                txn.session.vars.borrow_mut().set(&self.name, value, account);
            }
            VarScope::Txn => txn.vars.set(&self.name, value, account),
            VarScope::Req => txn.req_vars.set(&self.name, value, account),
            VarScope::Res => txn.res_vars.set(&self.name, value, account),
        }
    }

    /// Each limit includes the scopes that live shorter: those of a session its transactions', and so on.
    fn has_room(&self, txn: &Txn, account: &VarAccount, value: &Value<'static>) -> bool {
        let old = self.get(txn).map_or(0, |old| bytes_of(&old));
        let (request, response) = (txn.req_vars.bytes(), txn.res_vars.bytes());
        let transaction = txn.vars.bytes() + request + response;
        let session = txn.session.vars.borrow().bytes() + transaction;
        let process = account.bytes.load(Relaxed);
        let limits = &account.limits;
        let levels = [
            (limits.reqres, if self.scope == VarScope::Req { request } else { response }),
            (limits.txn, transaction),
            (limits.sess, session),
            (limits.proc, process),
            (limits.global, process),
        ];
        let first = match self.scope {
            VarScope::Req | VarScope::Res => 0,
            VarScope::Txn => 1,
            VarScope::Sess | VarScope::Check => 2,
            VarScope::Proc => 3,
        };
        let needed = bytes_of(value);
        levels[first..].iter().all(|(limit, used)| *limit == 0 || used.saturating_sub(old) + needed <= *limit)
    }
}

/// `tune.vars.*-max-size`: most bytes of the values of variables; 0 for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each field is the keyword of the same name")]
pub struct VarLimits {
    pub global: usize,
    pub proc: usize,
    pub sess: usize,
    pub txn: usize,
    pub reqres: usize,
}

/// What the variables of a process take; there is one only where something limits them.
#[derive(Debug, Default)]
pub struct VarAccount {
    limits: VarLimits,
    bytes: AtomicUsize,
}

impl VarAccount {
    /// Nothing taken yet; none when there is no limit.
    #[must_use]
    pub fn new(limits: VarLimits) -> Option<Arc<Self>> {
        (limits != VarLimits::default()).then(|| Arc::new(Self { limits, bytes: AtomicUsize::new(0) }))
    }

    /// Values of so many bytes are now of so many.
    pub fn change(&self, from: usize, to: usize) {
        self.bytes.fetch_add(to, Relaxed);
        self.bytes.fetch_sub(from, Relaxed);
    }
}

/// What a value counts for a limit.
#[must_use]
pub fn bytes_of(value: &Value<'_>) -> usize {
    match value {
        Value::Bool(_) => size_of::<bool>(),
        Value::Int(_) => size_of::<i64>(),
        Value::Ip(ip) => {
            if ip.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => bytes.len(),
    }
}

/// Variables of one scope.
#[derive(Debug, Default)]
pub struct Vars {
    list: Vec<(Box<[u8]>, Value<'static>)>,
    /// Bytes of the values, where something limits them, and where they are counted until this is dropped.
    counted: Option<Box<(usize, Arc<VarAccount>)>>,
}

impl Vars {
    /// A variable's value.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Value<'static>> {
        self.list.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Sets a variable, or unsets it with `None`.
    pub fn set(&mut self, name: &[u8], value: Option<Value<'static>>, account: Option<&Arc<VarAccount>>) {
        let at = self.list.iter().position(|(known, _)| **known == *name);
        let old = at.map_or(0, |at| bytes_of(&self.list[at].1));
        let new = value.as_ref().map_or(0, bytes_of);
        match (at, value) {
            (Some(at), Some(value)) => self.list[at].1 = value,
            (Some(at), None) => {
                self.list.swap_remove(at);
            }
            (None, Some(value)) if self.list.len() < MAX_VARS => self.list.push((name.into(), value)),
            (None, _) => return,
        }
        if let Some(account) = account {
            account.change(old, new);
            let counted = self.counted.get_or_insert_with(|| Box::new((0, Arc::clone(account))));
            counted.0 = counted.0 - old + new;
        }
    }

    /// Bytes of the values, as far as they are counted.
    fn bytes(&self) -> usize {
        self.counted.as_ref().map_or(0, |counted| counted.0)
    }
}

impl Drop for Vars {
    fn drop(&mut self) {
        if let Some(counted) = &self.counted {
            counted.1.change(counted.0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_what_lives() {
        let account = VarAccount::new(VarLimits { global: 100, ..VarLimits::default() }).unwrap();
        let text = |length: usize| Some(Value::owned(vec![b'x'; length]));
        let bytes = || account.bytes.load(Relaxed);
        let (mut session, mut request) = (Vars::default(), Vars::default());
        session.set(b"a", text(10), Some(&account));
        request.set(b"a", text(5), Some(&account));
        request.set(b"b", Some(Value::Int(1)), Some(&account));
        assert_eq!(bytes(), 23);
        request.set(b"a", text(1), Some(&account));
        request.set(b"b", None, Some(&account));
        assert_eq!(bytes(), 11);
        drop(request);
        assert_eq!(bytes(), 10);
        let moved = std::mem::take(&mut session);
        drop(session);
        assert_eq!((bytes(), moved.get(b"a").is_some()), (10, true));
        drop(moved);
        assert_eq!(bytes(), 0);
    }
}
