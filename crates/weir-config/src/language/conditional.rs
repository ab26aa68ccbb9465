//! Conditions of `.if` lines and of `-cc` (section 2.4 of the manual).

use weir_rules::Diagnostic;

use crate::language::environment::{
    ABSENT_FEATURES, AWSLC_API, ENABLED, Environment, FEATURES, HAPROXY_VERSION, OPENSSL_VERSION, SSL_LIBRARY,
};
use crate::language::lexer::{self, LineContext};

/// Deepest nesting of parentheses.
const DEEPEST: u32 = 64;

/// Most arguments of a predicate.
const MOST_ARGUMENTS: usize = 8;

/// Why a condition cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError(pub String);

/// Truth of a condition as given to `-cc`: quotes and variables are resolved first, as on a line.
///
/// # Errors
/// The condition cannot be read.
pub fn eval_command_line(text: &str, env: &Environment) -> Result<bool, ConditionError> {
    let context = LineContext { env, file: 0, line: 1, file_name: "-cc", section: "" };
    let words = lexer::split(text.as_bytes(), &context).map_err(|d| ConditionError(d.message))?;
    let texts: Vec<&[u8]> = words.iter().map(|w| w.text.as_slice()).collect();
    eval_condition(&String::from_utf8_lossy(&texts.join(&b' ')), env)
}

/// Truth of a condition whose quotes and variables are already resolved.
///
/// # Errors
/// The condition cannot be read.
pub fn eval_condition(text: &str, env: &Environment) -> Result<bool, ConditionError> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, env };
    reader.spaces();
    if reader.at == reader.text.len() {
        return Ok(false);
    }
    let value = reader.any_of(true, 0)?;
    reader.spaces();
    if reader.at < reader.text.len() {
        return Err(reader.unexpected());
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    env: &'a Environment,
}

impl Reader<'_> {
    fn spaces(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.text[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn unexpected(&self) -> ConditionError {
        let rest = String::from_utf8_lossy(&self.text[self.at..]);
        if rest.is_empty() {
            return ConditionError("the condition ends too early".into());
        }
        ConditionError(format!("unexpected '{rest}' at character {} of the condition", self.at + 1))
    }

    /// `A || B`; with `live` false the text is read and not asked (short circuit).
    fn any_of(&mut self, live: bool, depth: u32) -> Result<bool, ConditionError> {
        let mut value = self.all_of(live, depth)?;
        loop {
            self.spaces();
            if !self.take("||") {
                return Ok(value);
            }
            value |= self.all_of(live && !value, depth)?;
        }
    }

    fn all_of(&mut self, live: bool, depth: u32) -> Result<bool, ConditionError> {
        let mut value = self.term(live, depth)?;
        loop {
            self.spaces();
            if !self.take("&&") {
                return Ok(value);
            }
            value &= self.term(live && value, depth)?;
        }
    }

    fn term(&mut self, live: bool, depth: u32) -> Result<bool, ConditionError> {
        if depth > DEEPEST {
            return Err(ConditionError("the condition is nested too deeply".into()));
        }
        self.spaces();
        if self.take("!") {
            return Ok(!self.term(live, depth + 1)?);
        }
        if self.take("(") {
            let value = self.any_of(live, depth + 1)?;
            self.spaces();
            return if self.take(")") { Ok(value) } else { Err(self.unexpected()) };
        }
        match self.text.get(self.at) {
            Some(b'0'..=b'9' | b'-' | b'+') => self.integer(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.predicate(live),
            _ => Err(self.unexpected()),
        }
    }

    fn integer(&mut self) -> Result<bool, ConditionError> {
        let start = self.at;
        if matches!(self.text[self.at], b'-' | b'+') {
            self.at += 1;
        }
        let digits = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if digits == self.at {
            self.at = start;
            return Err(self.unexpected());
        }
        let value = self.text[digits..self.at].iter().any(|d| *d != b'0');
        let ends = !matches!(self.text.get(self.at), Some(b) if b.is_ascii_alphanumeric() || *b == b'_');
        if ends { Ok(value) } else { Err(self.unexpected()) }
    }

    fn predicate(&mut self, live: bool) -> Result<bool, ConditionError> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            self.at += 1;
        }
        let name = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let arguments = if self.take("(") { self.arguments()? } else { Vec::new() };
        let Some((_, count, ask)) = PREDICATES.iter().find(|(known, ..)| *known == name) else {
            let near =
                weir_rules::words::diagnostic::nearest(&name, PREDICATES.iter().map(|(known, ..)| *known));
            let hint = near.map_or_else(String::new, |near| format!(", did you mean '{near}'?"));
            return Err(ConditionError(format!("unknown predicate '{name}'{hint}")));
        };
        if arguments.len() != *count {
            let got = arguments.len();
            return Err(ConditionError(format!("predicate '{name}' needs {count} arguments, not {got}")));
        }
        if !live {
            return Ok(false);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ask(self.env, &arguments).ok_or_else(|| ConditionError(format!("bad argument of predicate '{name}'")))
    }

    /// Arguments up to the closing parenthesis; they may be quoted again.
    fn arguments(&mut self) -> Result<Vec<String>, ConditionError> {
        let mut arguments = vec![Vec::new()];
        let mut quote = None;
        loop {
            let Some(byte) = self.text.get(self.at).copied() else {
                return Err(ConditionError("missing ')' or closing quote after the arguments".into()));
            };
            self.at += 1;
            if arguments.len() > MOST_ARGUMENTS {
                return Err(ConditionError("too many arguments".into()));
            }
            let current = arguments.len() - 1;
            match (byte, quote) {
                (b')', None) => break,
                (b',', None) => arguments.push(Vec::new()),
                (b'"' | b'\'', None) => quote = Some(byte),
                (_, Some(open)) if open == byte => quote = None,
                (b'\\', None | Some(b'"')) if self.at < self.text.len() => {
                    arguments[current].push(self.text[self.at]);
                    self.at += 1;
                }
                _ => arguments[current].push(byte),
            }
        }
        Ok(arguments.into_iter().map(|a| String::from_utf8_lossy(&a).into_owned()).collect())
    }
}

type Ask = fn(&Environment, &[&str]) -> Option<bool>;

/// Name, number of arguments, answer.
const PREDICATES: &[(&str, usize, Ask)] = &[
    ("awslc_api_atleast", 1, |_, a| Some(AWSLC_API >= a[0].parse().ok()?)),
    ("awslc_api_before", 1, |_, a| Some(AWSLC_API < a[0].parse().ok()?)),
    ("defined", 1, |env, a| Some(env.get(a[0].as_bytes()).is_some())),
    ("enabled", 1, |_, a| Some(ENABLED.contains(&a[0]))),
    ("feature", 1, |_, a| Some(FEATURES.contains(&a[0]))),
    ("fips_mode", 0, |_, _| Some(false)),
    ("openssl_version_atleast", 1, |_, a| Some(version(OPENSSL_VERSION)? >= version(a[0])?)),
    ("openssl_version_before", 1, |_, a| Some(version(OPENSSL_VERSION)? < version(a[0])?)),
    ("ssllib_name_startswith", 1, |_, a| Some(SSL_LIBRARY.starts_with(a[0]))),
    ("streq", 2, |_, a| Some(a[0] == a[1])),
    ("strneq", 2, |_, a| Some(a[0] != a[1])),
    ("strstr", 2, |_, a| Some(a[0].contains(a[1]))),
    ("version_atleast", 1, |_, a| Some(version(HAPROXY_VERSION)? >= version(a[0])?)),
    ("version_before", 1, |_, a| Some(version(HAPROXY_VERSION)? < version(a[0])?)),
];

/// `MAJOR.MINOR[.PATCH][-devN]` as numbers; a development version comes before its release.
fn version(text: &str) -> Option<[u32; 5]> {
    let (numbers, suffix) = text.split_once('-').unwrap_or((text, ""));
    // OpenSSL's letter after the patch level (1.1.1w) counts like another number.
    let letters = numbers.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let numbers = &numbers[..numbers.len() - letters.len()];
    let letter =
        letters.bytes().next().map_or(0, |b| u32::from(b.to_ascii_lowercase().saturating_sub(b'a')) + 1);
    let mut parts = [0; 5];
    for (i, part) in numbers.split('.').enumerate() {
        *parts.get_mut(i).filter(|_| i < 3)? = part.parse().ok()?;
    }
    parts[3] = letter;
    /// A release, above every development number.
    const RELEASE: u32 = u32::MAX;
    let development = suffix.strip_prefix("dev").or_else(|| suffix.strip_prefix("rc"));
    parts[4] = match development {
        Some(number) => number.split('-').next()?.parse().ok()?,
        None => RELEASE,
    };
    Some(parts)
}

/// Names that `feature()` knows and how they stand, for `-vv`.
pub fn features() -> impl Iterator<Item = (&'static str, bool)> {
    let present = FEATURES.iter().map(|name| (*name, true));
    present.chain(ABSENT_FEATURES.iter().map(|name| (*name, false)))
}

/// A condition's error as a finding at a place.
pub(crate) fn finding(pos: weir_rules::Pos, error: ConditionError) -> Diagnostic {
    Diagnostic::error(pos, error.0)
        .hint("a condition is made of predicates, integers, '!', '&&', '||' and parentheses")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env() -> Environment {
        Environment::from_variables([(b"TESTVAR".to_vec(), b"1".to_vec())], "here")
    }

    #[test]
    fn command_line_conditions() {
        let check = |text: &str, expected: Option<bool>| {
            assert_eq!(eval_command_line(text, &env()).ok(), expected, "{text}");
        };
        check("version_atleast(2.4)", Some(true));
        check("version_atleast(2.5-dev0)", Some(true));
        check("version_atleast(3.0.11)", Some(true));
        check("version_atleast(3.0.12)", Some(false));
        check("version_before(3.1-dev3)", Some(true));
        check("version_atleast(1024)", Some(false));
        check("streq(foo,'foo')", Some(true));
        check("streq(\"foo bar\",'foo bar')", Some(true));
        check("streq(foo,bar)", Some(false));
        check("defined(TESTVAR) && streq(\"$TESTVAR\",\"1\")", Some(true));
        check("feature(OPENSSL) || !feature(OPENSSL)", Some(true));
        check("feature(QUIC)", Some(false));
        check("feature(LUA)", Some(false));
        check("feature(THREAD)", Some(true));
        check("1&&!0&&!((streq(a,b)||!streq(a,a)&&1)||strneq(a,a))", Some(true));
        check("1   &&!   0&&    !((streq(a,b)||!streq(a,a)&&1)||strneq(a,a))", Some(true));
        check("1 && !0 && !((streq(a,b) || !streq(a,a) && 1) || strneq(a,b))", Some(false));
        check("1 && !0 && !((streq(a,a) || !streq(a,a) && 1) || strneq(a,a))", Some(false));
        check("", Some(false));
        check("-1000 && 200", Some(true));
        check("200rrr", None);
        check("!(0))", None);
        check("streq(a,\"a)", None);
        check("nosuch(1)", None);
        check("streq(a)", None);
        check("openssl_version_atleast(1.1.1)", Some(true));
        check("openssl_version_before(1.1.1w)", Some(true));
        check("ssllib_name_startswith(AWS)", Some(true));
        check("enabled(POLL)", Some(true));
        check("0 && version_atleast(x)", Some(false));
        check("strstr(abc,b)", Some(true));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[!&|()a-z0-9,\"' ]{0,40}") {
            let first = eval_condition(&text, &env());
            prop_assert_eq!(first, eval_condition(&text, &env()));
        }
    }
}
