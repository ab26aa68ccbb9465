//! Maps: a value looked up in a file of keys and values.

use crate::data::matcher::{Method, Rules};
use crate::data::pattern::PatternView;
use crate::expr::args::{Arg, ArgKind as K, ArgSpec, Args, args};
use crate::expr::entry::{Converter, converter};
use crate::value::{Type, Value, parse_ip, strict_int};
use crate::words::call::Call;
use crate::{Diagnostic, Scope, Txn};

const MAP: ArgSpec = args(1, &[K::Str, K::Str]);

macro_rules! maps {
    ($($name:literal, $input:ident, $output:ident, $doc:literal);* $(;)?) => { &[$(
        converter($name, MAP, Type::$input, Type::$output, $doc, lookup).prepare(prepare),
    )*] };
}

pub(crate) static CONVERTERS: &[Converter] = maps! {
    "map", Str, Str, "The value of the key that equals the string.";
    "map_str", Str, Str, "The value of the key that equals the string.";
    "map_str_str", Str, Str, "The value of the key that equals the string.";
    "map_str_int", Str, Int, "The number of the key that equals the string.";
    "map_str_ip", Str, Ip, "The address of the key that equals the string.";
    "map_beg", Str, Str, "The value of the longest key the string begins with.";
    "map_beg_str", Str, Str, "The value of the longest key the string begins with.";
    "map_beg_int", Str, Int, "The number of the longest key the string begins with.";
    "map_beg_ip", Str, Ip, "The address of the longest key the string begins with.";
    "map_sub", Str, Str, "The value of the first key the string contains.";
    "map_sub_str", Str, Str, "The value of the first key the string contains.";
    "map_sub_int", Str, Int, "The number of the first key the string contains.";
    "map_sub_ip", Str, Ip, "The address of the first key the string contains.";
    "map_dir", Str, Str, "The value of the first key the string contains between slashes.";
    "map_dir_str", Str, Str, "The value of the first key the string contains between slashes.";
    "map_dir_int", Str, Int, "The number of the first key the string contains between slashes.";
    "map_dir_ip", Str, Ip, "The address of the first key the string contains between slashes.";
    "map_dom", Str, Str, "The value of the first key the string contains between dots.";
    "map_dom_str", Str, Str, "The value of the first key the string contains between dots.";
    "map_dom_int", Str, Int, "The number of the first key the string contains between dots.";
    "map_dom_ip", Str, Ip, "The address of the first key the string contains between dots.";
    "map_end", Str, Str, "The value of the longest key the string ends with.";
    "map_end_str", Str, Str, "The value of the longest key the string ends with.";
    "map_end_int", Str, Int, "The number of the longest key the string ends with.";
    "map_end_ip", Str, Ip, "The address of the longest key the string ends with.";
    "map_reg", Str, Str, "The value of the first regular expression that matches.";
    "map_reg_str", Str, Str, "The value of the first regular expression that matches.";
    "map_reg_int", Str, Int, "The number of the first regular expression that matches.";
    "map_reg_ip", Str, Ip, "The address of the first regular expression that matches.";
    "map_regm", Str, Str, "The value of the first regular expression that matches, with back-references.";
    "map_int", Int, Str, "The value of the key or range with the number.";
    "map_int_str", Int, Str, "The value of the key or range with the number.";
    "map_int_int", Int, Int, "The number of the key or range with the number.";
    "map_int_ip", Int, Ip, "The address of the key or range with the number.";
    "map_ip", Ip, Str, "The value of the longest network with the address.";
    "map_ip_str", Ip, Str, "The value of the longest network with the address.";
    "map_ip_int", Ip, Int, "The number of the longest network with the address.";
    "map_ip_ip", Ip, Ip, "The address of the longest network with the address.";
};

/// Matching method and type of values by keyword: `map_MATCH_OUTPUT`.
fn meaning(keyword: &str) -> (Method, Type) {
    let mut parts = keyword.split('_').skip(1);
    let method = parts.next().map_or(Method::Str, |word| match word {
        "regm" => Method::Reg,
        other => Method::parse(other.as_bytes()).unwrap_or(Method::Str),
    });
    let output = match parts.next() {
        Some("int") => Type::Int,
        Some("ip") => Type::Ip,
        _ => Type::Str,
    };
    (method, output)
}

fn prepare(call: &Call, scope: &mut Scope<'_>, keyword: &'static str) -> Result<Vec<Arg>, Vec<Diagnostic>> {
    let [name, default @ ..] = call.args() else {
        return Err(vec![Diagnostic::error(call.name.pos, format!("'{keyword}' needs the name of a map"))]);
    };
    if default.len() > 1 {
        return Err(vec![Diagnostic::error(
            default[1].pos,
            format!("'{keyword}' takes at most 2 arguments"),
        )]);
    }
    let (method, output) = meaning(keyword);
    let file = scope.pattern_file(name, true)?;
    let rules = Rules { method, ignore_case: false, dotted: false };
    let mut list = vec![Arg::Map(file.view(rules, output, name).map_err(|e| vec![e])?)];
    if let Some(word) = default.first() {
        let wrong =
            || vec![Diagnostic::error(word.pos, format!("'{}' is no {}", word.as_str(), output.name()))];
        list.push(match output {
            Type::Int => Arg::Int(strict_int(&word.text).ok_or_else(wrong)?),
            Type::Ip => Arg::Ip(parse_ip(&word.text).ok_or_else(wrong)?),
            _ => Arg::Str(word.text.as_slice().into()),
        });
    }
    Ok(list)
}

fn lookup<'a>(value: Value<'a>, args: &'a Args, _: &'a Txn) -> Option<Value<'a>> {
    let Some(Arg::Map(view)) = args.get(0) else { return None };
    let found =
        if args.variant == "map_regm" { view.expand(&value) } else { PatternView::lookup(view, &value) };
    found.or_else(|| match args.list.get(1) {
        Some(Arg::Str(text)) => Some(Value::text(text)),
        Some(Arg::Int(n)) => Some(Value::Int(*n)),
        Some(Arg::Ip(ip)) => Some(Value::Ip(*ip)),
        _ => None,
    })
}
