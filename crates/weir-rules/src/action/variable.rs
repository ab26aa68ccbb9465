//! Actions on variables.

use super::phases::ALL;
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::expr::Expr;
use crate::expr::log_style::Style;
use crate::facts::vars::{SetCondition, VarName, VarScope};
use crate::value::Value;
use crate::{Diagnostic, LogFormat, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[
    action("set-var", ALL, "set-var(NAME[,CONDITION...]) EXPR", "Sets a variable to a sample.", parse_set),
    action(
        "set-var-fmt",
        ALL,
        "set-var-fmt(NAME[,CONDITION...]) FMT",
        "Sets a variable to a string.",
        parse_set,
    ),
    action("unset-var", ALL, "unset-var(NAME)", "Unsets a variable.", parse_unset),
];

#[derive(Debug)]
struct Set {
    name: VarName,
    conditions: Vec<SetCondition>,
    value: Result<Expr, LogFormat>,
}

impl Action for Set {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let value = match &self.value {
            Ok(expr) => expr.eval(txn),
            Err(format) => Some(Value::owned(format.to_vec(txn))),
        };
        let Some(value) = value else { return Step::Next };
        if !self.conditions.iter().all(|c| c.holds(&self.name, &value, txn)) {
            return Step::Next;
        }
        let value = value.into_owned();
        self.name.set(txn, Some(value));
        Step::Next
    }
}

/// The variable in the keyword's parentheses; in connection rules there is no request yet that could have one.
fn variable(words: &Words<'_>, scope: &mut Scope<'_>) -> Result<VarName, Vec<Diagnostic>> {
    let word = words.arg(0, "a variable")?;
    let name = VarName::parse(word).map_err(|e| vec![e])?;
    let early = matches!(words.phase, Phase::TcpRequestConnection | Phase::TcpRequestSession);
    if early && !matches!(name.scope, VarScope::Proc | VarScope::Sess) {
        let message = format!(
            "'{}' is lost after '{}' rules: use a 'sess.' variable",
            word.as_str(),
            words.phase.name()
        );
        scope.warn(word.pos, message);
    }
    Ok(name)
}

fn parse_set(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let name = variable(words, scope)?;
    let conditions = SetCondition::parse_all(&words.call.args()[1..]).map_err(|e| vec![e])?;
    let value = match words.call.name.text.as_slice() {
        b"set-var-fmt" => Err(words.format(Style::Raw, scope)?),
        _ => Ok(words.expr(scope)?),
    };
    Ok(Box::new(Set { name, conditions, value }))
}

#[derive(Debug)]
struct Unset(VarName);

impl Action for Unset {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        self.0.set(txn, None);
        Step::Next
    }
}

fn parse_unset(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    Ok(Box::new(Unset(variable(words, scope)?)))
}
