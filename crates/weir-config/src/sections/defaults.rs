//! Defaults sections, and which of them a section starts from.

use std::collections::HashMap;

use weir_rules::words::diagnostic::nearest;
use weir_rules::{Diagnostic, Word};

use crate::language::tree::{Line, Section, SectionKind};

/// Longest chain of defaults sections.
const LONGEST_CHAIN: usize = 64;

/// The defaults sections that a section starts from, the farthest first.
pub(crate) struct Chain<'a> {
    pub(crate) sections: Vec<&'a Section>,
}

impl<'a> Chain<'a> {
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a Line> + '_ {
        self.sections.iter().flat_map(|section| section.lines.iter())
    }
}

/// Defaults sections seen so far.
#[derive(Default)]
pub(crate) struct Defaults<'a> {
    named: HashMap<&'a str, &'a Section>,
    /// The last one: proxies without `from` start from it.
    last: Option<&'a Section>,
    /// Proxies by the rule-bearing defaults section they start from.
    users: Vec<(&'a Section, &'a Section)>,
}

impl<'a> Defaults<'a> {
    /// Adds a section; returns what it starts from itself.
    pub(crate) fn add(&mut self, section: &'a Section, found: &mut Vec<Diagnostic>) -> Chain<'a> {
        let chain = match &section.from {
            Some(from) => self.find(from, found),
            None => Chain { sections: Vec::new() },
        };
        if let Some(parent) = chain.sections.iter().find(|parent| has_rules(parent)) {
            let from = section.from.as_ref().map_or(section.pos, |from| from.pos);
            let message = format!(
                "defaults section '{}' has TCP/HTTP rules, so no other defaults section can start from it",
                parent.name
            );
            found.push(Diagnostic::error(from, message));
        }
        if section.name.is_empty()
            && let Some(line) = section.lines.iter().find(|line| is_rule(line) || line.words[0] == "acl")
        {
            let message =
                format!("'{}' is not allowed in a 'defaults' section without a name", line.words[0].as_str());
            found.push(Diagnostic::error(line.words[0].pos, message).hint("give the section a name"));
        }
        if !section.name.is_empty()
            && let Some(other) = self.named.insert(&section.name, section)
        {
            let message = format!(
                "defaults section '{}' was already declared at line {}",
                section.name, other.pos.line
            );
            found.push(Diagnostic::warning(section.pos, message));
        }
        self.last = Some(section);
        chain
    }

    /// What a proxy starts from.
    pub(crate) fn of(&mut self, section: &'a Section, found: &mut Vec<Diagnostic>) -> Chain<'a> {
        let chain = match (&section.from, self.last) {
            (Some(from), _) => self.find(from, found),
            (None, Some(last)) => self.chain(last, found),
            (None, None) => Chain { sections: Vec::new() },
        };
        if let Some(last) = chain.sections.last().filter(|defaults| has_rules(defaults)) {
            self.users.push((last, section));
        }
        chain
    }

    pub(crate) fn find(&self, from: &Word, found: &mut Vec<Diagnostic>) -> Chain<'a> {
        let name = from.as_str();
        if let Some(section) = self.named.get(&*name) {
            return self.chain(section, found);
        }
        let near = nearest(&name, self.named.keys().copied());
        let error = Diagnostic::error(from.pos, format!("defaults section '{name}' was not found"));
        found.push(Diagnostic { hint: near.map(|near| format!("did you mean '{near}'?")), ..error });
        Chain { sections: Vec::new() }
    }

    pub(crate) fn chain(&self, section: &'a Section, found: &mut Vec<Diagnostic>) -> Chain<'a> {
        let mut sections = vec![section];
        let mut current = section;
        while let Some(parent) = current.from.as_ref().and_then(|from| self.named.get(&*from.as_str())) {
            if sections.len() >= LONGEST_CHAIN || std::ptr::eq(*parent, current) {
                let message = format!("the chain of defaults sections is longer than {LONGEST_CHAIN}");
                found.push(Diagnostic::error(section.pos, message));
                break;
            }
            sections.push(parent);
            current = parent;
        }
        sections.reverse();
        Chain { sections }
    }

    /// Rules of a defaults section must make sense for each section that starts from it.
    pub(crate) fn check_users(&self, found: &mut Vec<Diagnostic>) {
        let mut kinds: HashMap<&str, SectionKind> = HashMap::new();
        for (defaults, user) in &self.users {
            let name = &defaults.name;
            let mut refuse = |message: String| found.push(Diagnostic::error(user.pos, message));
            let first = *kinds.entry(name).or_insert(user.kind);
            if user.kind == SectionKind::Listen {
                refuse(format!(
                    "defaults section '{name}' has TCP/HTTP rules, so a listen section cannot start from it"
                ));
            } else if first != user.kind {
                refuse(format!(
                    "defaults section '{name}' has TCP/HTTP rules, so not both frontends and backends can start from it"
                ));
            }
            let has = |first: &str, seconds: &[&str]| {
                defaults.lines.iter().any(|line| {
                    line.words[0] == first
                        && line.words.get(1).is_some_and(|second| seconds.contains(&&*second.as_str()))
                })
            };
            if user.kind == SectionKind::Backend && has("tcp-request", &["connection", "session"]) {
                refuse(format!(
                    "defaults section '{name}' has 'tcp-request connection' or 'session' rules, so a backend cannot start from it"
                ));
            }
            if user.kind == SectionKind::Frontend && has("tcp-response", &["content"]) {
                refuse(format!(
                    "defaults section '{name}' has 'tcp-response content' rules, so a frontend cannot start from it"
                ));
            }
        }
    }
}

fn has_rules(section: &Section) -> bool {
    section.lines.iter().any(is_rule)
}

/// A line of a rule set, for the limits of defaults sections.
fn is_rule(line: &Line) -> bool {
    let rules = [
        "http-request",
        "http-response",
        "http-after-response",
        "tcp-request",
        "tcp-response",
        "quic-initial",
    ];
    rules.iter().any(|rule| line.words[0] == *rule)
}
