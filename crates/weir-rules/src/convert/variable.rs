//! Converters that read, set or join variables and captures, or pass values on under a condition.

use crate::expr::acl::{Acl, Truth};
use crate::expr::args::{Arg, ArgKind as K, Args, args};
use crate::expr::entry::{Converter, converter};
use crate::facts::vars::{SetCondition, VarName};
use crate::value::{Type, Value};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

pub(crate) static CONVERTERS: &[Converter] = &[
    converter(
        "add_item",
        args(1, &[K::Str, K::Var, K::Str]),
        Type::Str,
        Type::Str,
        "Appends a delimiter, a variable and a suffix where there is something to append.",
        add_item,
    )
    .prepare(prepare_add_item)
    .examples(&[
        ("str(a),add_item(\",\",txn.greeting)", Some("a,hello")),
        ("str(),add_item(\",\",txn.greeting)", Some("hello")),
        ("str(a),add_item(\",\",txn.none)", Some("a")),
        ("str(a),add_item(\",\",,x)", Some("a,x")),
    ]),
    converter(
        "capture-req",
        args(1, &[K::Int]),
        Type::Str,
        Type::Str,
        "Stores the string in a request capture slot.",
        capture,
    ),
    converter(
        "capture-res",
        args(1, &[K::Int]),
        Type::Str,
        Type::Str,
        "Stores the string in a response capture slot.",
        capture,
    ),
    converter(
        "concat",
        args(0, &[K::Str, K::Var, K::Str]),
        Type::Str,
        Type::Str,
        "Appends a string, a variable and a string.",
        concat,
    )
    .examples(&[
        ("str(a),concat(<,txn.greeting,>)", Some("a<hello>")),
        ("str(a),concat(x,txn.none,y)", Some("axy")),
        ("str(a),concat", Some("a")),
    ]),
    converter(
        "debug",
        args(0, &[K::Str, K::Str]),
        Type::Any,
        Type::Any,
        "Passes the value on; nothing is printed.",
        pass,
    ),
    converter(
        "set-var",
        args(1, &[K::Var]),
        Type::Any,
        Type::Any,
        "Sets a variable under conditions and passes the value on.",
        set_var,
    )
    .prepare(prepare_set_var),
    converter(
        "unset-var",
        args(1, &[K::Var]),
        Type::Any,
        Type::Any,
        "Unsets a variable and passes the value on.",
        unset_var,
    ),
    converter(
        "when",
        args(1, &[K::Str, K::Str]),
        Type::Any,
        Type::Any,
        "Passes the value on under a condition.",
        when,
    )
    .prepare(prepare_when),
];

/// Text of argument `at` or nothing.
fn text(args: &Args, at: usize) -> &[u8] {
    args.str(at).unwrap_or_default()
}

fn concat<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let mut out = value.into_bytes().into_owned();
    out.extend_from_slice(text(args, 0));
    if let Some(value) = args.var(1).and_then(|name| name.get(txn)) {
        value.append_to(&mut out);
    }
    out.extend_from_slice(text(args, 2));
    Some(Value::owned(out))
}

fn prepare_add_item(
    call: &Call,
    scope: &mut Scope<'_>,
    _: &'static str,
) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let list = crate::expr::args::typed(call, args(1, &[K::Str, K::Var, K::Str]), scope)?;
    let given = |at: usize| list.get(at).is_some_and(|a| !matches!(a, Arg::None));
    match given(1) || given(2) {
        true => Ok(list),
        false => {
            let message = "'add_item' needs a variable or a suffix";
            Err(vec![Diagnostic::error(call.name.pos, message)])
        }
    }
}

fn add_item<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let mut out = value.into_bytes().into_owned();
    let item = args.var(1).and_then(|name| name.get(txn));
    let suffix = text(args, 2);
    if !out.is_empty() && (item.is_some() || !suffix.is_empty()) {
        out.extend_from_slice(text(args, 0));
    }
    if let Some(item) = item {
        item.append_to(&mut out);
    }
    out.extend_from_slice(suffix);
    Some(Value::owned(out))
}

fn capture<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let slot = usize::try_from(args.int(0)?).ok()?;
    let bytes = value.into_bytes();
    txn.effects.capture(args.variant == "capture-res", slot, &bytes);
    Some(Value::Str(bytes))
}

fn pass<'a>(value: Value<'a>, _: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    Some(value)
}

fn prepare_set_var(call: &Call, _: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let Some((name, conditions)) = call.args().split_first() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'set-var' needs the name of a variable")]);
    };
    let name = VarName::parse(name).map_err(|e| vec![e])?;
    let conditions = SetCondition::parse_all(conditions).map_err(|e| vec![e])?;
    let mut list = vec![Arg::Var(name)];
    list.extend(conditions.iter().map(|c| Arg::Choice(*c as u8)));
    Ok(list)
}

fn set_var<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let name = args.var(0)?;
    let holds = args.list[1..].iter().all(|arg| match arg {
        Arg::Choice(at) => SetCondition::from_index(*at).holds(name, &value, txn),
        _ => true,
    });
    if holds {
        txn.effects.set_var(name, Some(value.clone().into_owned()));
    }
    Some(value)
}

fn unset_var<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    txn.effects.set_var(args.var(0)?, None);
    Some(value)
}

const CONDITIONS: [&str; 7] = ["error", "forwarded", "normal", "processed", "stopping", "toapplet", "acl"];

/// Arguments: negation, the condition's place, the ACL.
fn prepare_when(call: &Call, scope: &mut Scope<'_>, _: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let Some(word) = call.args().first() else {
        return Err(vec![Diagnostic::error(call.name.pos, "'when' needs a condition")]);
    };
    let negated = word.text.starts_with(b"!");
    let name = crate::words::call::sub_word(word, usize::from(negated), word.text.len());
    let at = CONDITIONS.iter().position(|c| c.as_bytes() == name.text);
    let at = at.ok_or_else(|| vec![Diagnostic::unknown("condition", &name, CONDITIONS)])?;
    let mut list = vec![Arg::Int(i64::from(negated)), Arg::Choice(at as u8)];
    if CONDITIONS[at] == "acl" {
        let Some(acl) = call.args().get(1) else {
            return Err(vec![Diagnostic::error(name.pos, "'when(acl)' needs the name of an ACL")]);
        };
        list.push(Arg::Acls(vec![(false, Acl::find(acl, scope).map_err(|e| vec![e])?)]));
    }
    Ok(list)
}

fn when<'a>(value: Value<'a>, args: &'a Args, txn: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Choice(at)) = args.get(1) else { return None };
    let failed = txn.termination[0] != b'-' || txn.redispatched || txn.retries > 0 || txn.status >= 500;
    let forwarded = txn.server_addr.is_some();
    let applet = txn.server.as_deref().is_some_and(|s| s.starts_with('<'));
    let holds = match CONDITIONS[usize::from(*at)] {
        "error" => failed,
        "normal" => !failed,
        "forwarded" => forwarded,
        "processed" => forwarded || applet,
        "toapplet" => applet,
        "stopping" => txn.env.process().2,
        _ => {
            matches!(args.get(2), Some(Arg::Acls(list)) if list.iter().all(|(_, a)| a.test(txn) == Truth::Yes))
        }
    };
    (holds != (args.int(0) == Some(1))).then_some(value)
}
