//! Whether what the configuration model holds is obeyed: a keyword whose field nothing reads pretends to work.
//!
//! Reads the source as text.  A field counts as read when a crate other than the parser's names it after a dot,
//! outside of tests and not to assign it; a name that several types share counts for all of them.

use std::collections::BTreeSet;

/// The types that the parser fills in.
const MODEL: &str = "crates/weir-config/src/model.rs";

/// The parser: what it reads is not obeyed by that alone.
const PARSER: &str = "crates/weir-config/";

/// Fields that have done their work when the configuration is checked, and what that is.
const CHECKED: &[(&str, &str)] = &[
    ("Global.environment", "expanded into words; addresses given at run time"),
    ("Global.ssl_default_bind", "what each bind line starts from"),
    ("Global.ssl_default_server", "what each server line starts from"),
    ("Global.unix_bind", "what each bind line starts from"),
    ("Global.localpeer", "decides which peer is this process"),
    ("Global.key_base", "stands before the names of crt-store lines"),
    ("Global.thread_groups", "names the threads of cpu-map"),
    ("Tune.http_cookielen", "cuts what capture cookie lines keep"),
    ("Config.healthchecks", "found by Config::checks"),
    ("Server.healthcheck", "names what Config::checks finds"),
    ("Tune.stick_counters", "bounds the slots of rules that track"),
    ("Global.expose_experimental_directives", "allows keywords"),
    ("Global.external_check", "allows keywords"),
];

/// Fields of keywords that are accepted and not obeyed yet: this list only gets shorter.
const PRETENDING: &[&str] = &[];

/// The sources seen so far.
#[derive(Default)]
pub(crate) struct ModelFields {
    fields: Vec<Field>,
    /// Names after a dot in the other crates.
    read: BTreeSet<String>,
}

/// A field of the model.
struct Field {
    /// `Type.field`
    name: String,
    line: usize,
}

impl ModelFields {
    /// Takes note of a file, without its tests and comments.
    pub(crate) fn see(&mut self, name: &str, code: &str) {
        if name == MODEL {
            self.fields = fields(code);
        } else if name.starts_with("crates/") && !name.starts_with(PARSER) {
            self.read.extend(names_read(code).map(str::to_owned));
        }
    }

    /// What is wrong, one line each.
    pub(crate) fn finish(&self, wrong: &mut Vec<String>) {
        self.judge(CHECKED, PRETENDING, wrong);
    }

    fn judge(&self, checked: &[(&str, &str)], pretending: &[&str], wrong: &mut Vec<String>) {
        let excepted =
            |name: &str| pretending.contains(&name) || checked.iter().any(|(checked, _)| *checked == name);
        for Field { name, line } in &self.fields {
            let field = name.split_once('.').map_or(name.as_str(), |(_, field)| field);
            match (self.read.contains(field), excepted(name)) {
                (false, false) => wrong.push(format!(
                    "{MODEL}:{line}: nothing reads {name}: obey the keyword, or refuse it with \"not implemented yet\""
                )),
                (true, true) => wrong.push(format!(
                    "{MODEL}:{line}: {name} is read now: take it off the list in xtask/src/model_fields.rs"
                )),
                _ => {}
            }
        }
        let known = |name: &&str| self.fields.iter().any(|field| field.name == **name);
        let listed = pretending.iter().copied().chain(checked.iter().map(|(name, _)| *name));
        for name in listed.filter(|name| !known(name)) {
            wrong.push(format!("{MODEL}:1: has no {name}, which xtask/src/model_fields.rs lists"));
        }
    }
}

/// Public fields of public structs.
fn fields(model: &str) -> Vec<Field> {
    let mut found = Vec::new();
    let mut owner = None;
    for (number, line) in model.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            owner = rest.split(|c: char| !is_part(c)).next().filter(|_| line.ends_with('{'));
        } else if line.starts_with('}') {
            owner = None;
        } else if let (Some(owner), Some(rest)) = (owner, line.trim_start().strip_prefix("pub "))
            && let Some((field, _)) = rest.split_once(':')
        {
            let field = field.trim_start_matches("r#");
            found.push(Field { name: format!("{owner}.{field}"), line: number + 1 });
        }
    }
    found
}

/// Words that stand after a dot and are neither called nor assigned.
fn names_read(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices('.').filter_map(move |(at, _)| {
        let rest = &code[at + 1..];
        let rest = rest.strip_prefix("r#").unwrap_or(rest);
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let after = after.trim_start();
        let assigned = after.starts_with('=') && !after.starts_with("==") && !after.starts_with("=>");
        let read = !word.is_empty() && !after.starts_with('(') && !after.starts_with("::") && !assigned;
        read.then_some(word)
    })
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "pub struct Bind {\n    /// Its rank.\n    pub nice: i32,\n    pub r#for: u8,\n}\n\
                          pub enum Level {\n    User,\n}\n";

    #[test]
    fn fields_of_structs_are_found() {
        let found = fields(SAMPLE);
        let names: Vec<&str> = found.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["Bind.nice", "Bind.for"]);
    }

    #[test]
    fn reading_is_told_from_calling_and_assigning() {
        let check = |code: &str, expected: &[&str]| {
            assert_eq!(names_read(code).collect::<Vec<_>>(), expected, "{code}");
        };
        check("a.nice + 1", &["nice"]);
        check("a\n    .nice\n    .max(1)", &["nice"]);
        check("a.nice()", &[]);
        check("a.nice = 3;", &[]);
        check("a.nice == 3", &["nice"]);
        check("_ if a.nice => 3", &["nice"]);
        check("a.r#for", &["for"]);
        check("0..=9", &[]);
    }

    #[test]
    fn a_field_that_nothing_reads_is_reported() {
        let check = |code: &str, checked: &[(&str, &str)], pretending: &[&str], expected: usize| {
            let mut model = ModelFields::default();
            model.see(MODEL, SAMPLE);
            model.see("crates/weir-net/src/listen.rs", code);
            model.see("crates/weir-config/src/bind.rs", "bind.nice + bind.r#for");
            let mut wrong = Vec::new();
            model.judge(checked, pretending, &mut wrong);
            assert_eq!(wrong.len(), expected, "{code}: {wrong:?}");
        };
        check("bind.nice + bind.r#for", &[], &[], 0);
        check("bind.nice", &[], &[], 1);
        check("bind.nice", &[("Bind.for", "why")], &[], 0);
        check("bind.nice", &[], &["Bind.for"], 0);
        check("bind.nice + bind.r#for", &[], &["Bind.for"], 1);
        check("bind.nice + bind.r#for", &[], &["Bind.gone"], 1);
    }
}
