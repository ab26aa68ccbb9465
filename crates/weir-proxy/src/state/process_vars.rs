//! `proc.` variables outside of traffic: set at start by the `global` section, read and set by runtime commands.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use weir_config::model::StartValue;
use weir_rules::facts::ProxyName;
use weir_rules::facts::vars::{VarName, VarScope};
use weir_rules::{Diagnostic, Expr, LogFormat, Place, Scope, Session, Txn, Value, Word};

use crate::state::Shared;
use crate::thread::environment::WorkerEnvironment;

/// Most `proc.` variables: each is looked for in a list.
pub(crate) const MAX_PROC_VARS: usize = 256;

/// Evaluates the `set-var` and `set-var-fmt` lines of the `global` section, in their order.
pub(crate) fn set_at_start(shared: &Arc<Shared>) {
    for (name, value) in &shared.config.global.set_vars {
        let word = Word { text: name.clone(), ..Word::default() };
        if let Ok(name) = VarName::parse(&word) {
            assign(shared, &name, value);
        }
    }
}

fn assign(shared: &Arc<Shared>, name: &VarName, value: &StartValue) {
    let mut txn = no_transaction(shared);
    let value = match value {
        Ok(expr) => expr.eval(&txn).map(Value::into_owned),
        Err(format) => Some(Value::Str(format.to_vec(&txn).into())),
    };
    name.set(&mut txn, value);
}

/// What a runtime command may set a variable to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written<'a> {
    /// The words of an expression.
    Expr(&'a [String]),
    /// A log format.
    Format(&'a str),
}

/// Sets the variable to the result of an expression or format.
///
/// # Errors
/// Why it cannot be.
pub fn set(shared: &Arc<Shared>, name: &str, written: Written<'_>) -> Result<(), String> {
    let word = |text: &str| Word { text: text.as_bytes().to_vec(), ..Word::default() };
    let first = |found: Vec<Diagnostic>| found.into_iter().next().map_or_else(String::new, |d| d.message);
    let name = VarName::parse(&word(name)).map_err(|found| found.message)?;
    if name.scope != VarScope::Proc {
        return Err("only 'proc.' variables can be set here".to_owned());
    }
    // Commands name no files of their own.
    let read = |_: &Path| Err(std::io::ErrorKind::PermissionDenied.into());
    let parsing = weir_rules::Shared::new(&read);
    let mut scope = Scope::new(&parsing, "");
    scope.place = Place::Start;
    let value = match written {
        Written::Expr(words) => {
            let words: Vec<Word> = words.iter().map(|text| word(text)).collect();
            let (expr, used) = Expr::parse(&words, &mut scope).map_err(first)?;
            if let Some(extra) = words.get(used) {
                return Err(format!("unexpected '{}' behind the expression", extra.as_str()));
            }
            Ok(Arc::new(expr))
        }
        Written::Format(text) => Err(Arc::new(LogFormat::parse(&word(text), &mut scope).map_err(first)?)),
    };
    assign(shared, &name, &value);
    Ok(())
}

/// The variable's value.
#[must_use]
pub fn get(shared: &Shared, name: &str) -> Option<Value<'static>> {
    let name = name.strip_prefix("proc.")?.as_bytes();
    let vars = shared.proc_vars.lock().unwrap_or_else(PoisonError::into_inner);
    vars.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone())
}

/// A transaction of nobody, for expressions that need none.
fn no_transaction(shared: &Arc<Shared>) -> Txn {
    let session = Session::new(ProxyName { name: "".into(), id: 0, index: 0 }, "".into());
    Txn::new(Rc::new(session), Rc::new(WorkerEnvironment::new(shared, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::farm::tests::shared;

    #[test]
    fn variables_are_set_at_start_and_by_command() {
        let shared = shared(
            "global\n set-var proc.twelve int(12)\n set-var proc.five var(proc.none,60),div(proc.twelve)\n \
             set-var-fmt proc.text \"%[var(proc.five)] ok\"\n",
        );
        set_at_start(&shared);
        let check = |name: &str, expected: Option<Value<'static>>| assert_eq!(get(&shared, name), expected);
        check("proc.five", Some(Value::Int(5)));
        check("proc.text", Some(Value::Str(b"5 ok".as_slice().into())));
        check("proc.none", None);
        check("txn.five", None);
        set(&shared, "proc.five", Written::Expr(&["int(6)".to_owned()])).unwrap();
        set(&shared, "proc.text", Written::Format("%[var(proc.five)]!")).unwrap();
        check("proc.five", Some(Value::Int(6)));
        check("proc.text", Some(Value::Str(b"6!".as_slice().into())));
        assert!(set(&shared, "txn.five", Written::Expr(&["int(6)".to_owned()])).is_err());
        assert!(set(&shared, "proc.five", Written::Expr(&["int(6)".to_owned(), "x".to_owned()])).is_err());
        assert!(set(&shared, "proc.five", Written::Expr(&["path".to_owned()])).is_err());
    }
}
