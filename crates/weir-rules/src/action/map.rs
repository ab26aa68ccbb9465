//! Actions that change maps and ACL files.

use std::sync::Arc;

use super::phases::{HTTP, REQUEST, RESPONSE};
use super::{Action, ActionEntry, Phase, Step, Words, action};
use crate::data::pattern::PatternFile;
use crate::expr::log_style::Style;
use crate::{Diagnostic, LogFormat, Scope, Txn};

pub(super) static ACTIONS: &[ActionEntry] = &[
    action(
        "add-acl",
        REQUEST | RESPONSE,
        "add-acl(FILE) FMT",
        "Adds a pattern to an ACL file in memory.",
        parse,
    ),
    action(
        "del-acl",
        REQUEST | RESPONSE,
        "del-acl(FILE) FMT",
        "Removes a pattern from an ACL file in memory.",
        parse,
    ),
    action("del-map", HTTP, "del-map(FILE) FMT", "Removes a key from a map in memory.", parse),
    action("set-map", HTTP, "set-map(FILE) KEY-FMT VALUE-FMT", "Sets a key of a map in memory.", parse),
];

#[derive(Debug)]
struct Change {
    file: Arc<PatternFile>,
    key: LogFormat,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Add,
    Delete,
    Set(LogFormat),
}

impl Action for Change {
    fn run(&self, txn: &mut Txn, _: Phase) -> Step {
        let key = self.key.to_vec(txn);
        // A key or value that does not fit the file's use changes nothing, as on the runtime socket.
        match &self.kind {
            Kind::Add => drop(self.file.add_once(&key)),
            Kind::Delete => drop(self.file.remove(|e| *e.key == *key)),
            Kind::Set(value) => drop(self.file.upsert(&key, &value.to_vec(txn))),
        }
        Step::Next
    }
}

fn parse(words: &mut Words<'_>, scope: &mut Scope<'_>) -> Result<Box<dyn Action>, Vec<Diagnostic>> {
    let keyword = words.call.name.text.clone();
    let is_map = keyword.ends_with(b"map");
    let file = scope.pattern_file(words.arg(0, "a file")?, is_map)?;
    let key = words.format(Style::Raw, scope)?;
    let kind = match keyword.as_slice() {
        b"add-acl" => Kind::Add,
        b"set-map" => Kind::Set(words.format(Style::Raw, scope)?),
        _ => Kind::Delete,
    };
    Ok(Box::new(Change { file, key, kind }))
}
