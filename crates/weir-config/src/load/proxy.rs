//! The lines of a proxy, one after another, and what follows when all were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_rules::words::diagnostic::nearest;
use weir_rules::{Diagnostic, Place, Pos, Word};

use crate::keyword::{Found, How, Keyword, Places};
use crate::language::args::{self, Args, Parsed, Prefix, fail, fail_hint};
use crate::language::tree::{Line, SectionKind};
use crate::model::{FrontendList, Proxy, UseServer};
use crate::proxy::{self, checks, content, stats};
use crate::sections::{Finished, ProxyDraft};
use crate::table;

/// Rule sets in the order they run in.
const RULE_ORDER: &[&str] = &[
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "monitor fail",
    "http-request",
    "redirect",
    "use_backend",
    "use-server",
];

impl ProxyDraft<'_> {
    /// Runs lines: those of a defaults section, or the proxy's own.
    pub(crate) fn run(&mut self, lines: &[Line], inherited: bool, found: &mut Vec<Diagnostic>) {
        self.inherited = inherited;
        self.timeout_lines.clear();
        self.checks.start(inherited);
        self.scope.acls.clear();
        for line in lines.iter().filter(|line| line.words[0] == "acl") {
            if let Err(problems) = self.scope.define_acl(&line.words[1..]) {
                found.extend(problems);
            }
        }
        for line in lines {
            if let Err(problems) = self.line(&line.words) {
                found.extend(problems);
            }
        }
    }

    fn line(&mut self, words: &[Word]) -> Parsed {
        let (prefix, words) = args::prefix(words)?;
        let place = Places::of(self.kind);
        let section = self.section();
        let (keyword, count) = match table::find(words, place) {
            Found::Here(keyword, count) => (keyword, count),
            Found::Elsewhere(keyword) if self.inherited && keyword.places.meets(Places::DEFAULTS) => {
                return Ok(());
            }
            Found::Elsewhere(keyword) if keyword.places.meets(Places::PROXIES) => {
                return self.misplaced(keyword, &words[0]);
            }
            // Said once, for the defaults section itself.
            _ if self.inherited => return Ok(()),
            _ => return Err(vec![table::unknown(words, place, &section)]),
        };
        if prefix != Prefix::None && !keyword.negatable {
            let word = if prefix == Prefix::No { "no" } else { "default" };
            return fail(words[0].pos, format!("'{word}' is not possible before '{}'", keyword.name));
        }
        let mut args = Args::new(words, keyword.name, count, prefix);
        self.order(keyword.name, &args);
        match keyword.how {
            How::Proxy(parse) => parse(self, &mut args)?,
            How::NoEffect(_) => {}
            _ => keyword.refused(args.keyword_pos)?,
        }
        self.warnings.extend(args.ignored());
        Ok(())
    }

    /// Rule sets run in a fixed order; a line that stands after a later set's lines is probably misunderstood.
    fn order(&mut self, keyword: &str, args: &Args<'_>) {
        let Some(stage) = RULE_ORDER.iter().position(|name| *name == keyword) else { return };
        if self.inherited {
            return;
        }
        if stage < self.last_stage {
            let later = RULE_ORDER[self.last_stage];
            let message =
                format!("a '{keyword}' rule placed after a '{later}' rule will still be processed before");
            self.warnings.push(Diagnostic::warning(args.keyword_pos, message));
        } else {
            self.last_stage = stage;
        }
    }

    /// A keyword of the other half of a proxy: HAProxy ignores it with a warning.
    fn misplaced(&mut self, keyword: &Keyword, word: &Word) -> Parsed {
        let places = keyword.places.names().join(", ");
        let front = Places::FRONTEND.or(Places::LISTEN);
        let back = Places::BACKEND.or(Places::LISTEN);
        if self.kind == SectionKind::Frontend && keyword.name.starts_with("server") {
            let message = format!(
                "'{}' not allowed because {} has no backend capability",
                keyword.name,
                self.section()
            );
            return fail_hint(word.pos, message, "use a listen section, or a backend of its own");
        }
        let half = match self.kind {
            SectionKind::Backend if keyword.places.meets(front) => "frontend",
            SectionKind::Frontend if keyword.places.meets(back) => "backend",
            _ => {
                return fail_hint(
                    word.pos,
                    format!("'{}' is not allowed in {}", keyword.name, self.section()),
                    format!("it may stand in: {places}"),
                );
            }
        };
        let message =
            format!("'{}' ignored because {} has no {half} capability", keyword.name, self.section());
        self.warnings.push(Diagnostic::warning(word.pos, message).hint(format!("it may stand in: {places}")));
        Ok(())
    }

    /// What follows when all lines were read.
    pub(crate) fn finish(mut self) -> Finished {
        let mut found = Vec::new();
        if !self.certificates.is_empty() {
            let list = FrontendList {
                name: format!("@{}", self.proxy.name),
                lines: std::mem::take(&mut self.certificates),
            };
            let list = Arc::new(list);
            for ssl in self.proxy.binds.iter_mut().filter_map(|bind| bind.ssl.as_mut()) {
                ssl.frontend_list = Some(Arc::clone(&list));
            }
        }
        self.resolve_use_servers(&mut found);
        self.resolve_default_backend(&mut found);
        assign_ids(&mut self.proxy, &mut found);
        stats::finish(&mut self);
        checks::finish(&mut self);
        content::finish(&mut self, &mut found);
        found.extend(self.missing_captures());
        self.proxy.captures.request = std::mem::take(&mut self.scope.request_captures);
        self.proxy.captures.response = std::mem::take(&mut self.scope.response_captures);
        found.append(&mut self.scope.warnings);
        found.append(&mut self.warnings);
        Finished { proxy: self.proxy, references: self.scope.references, found }
    }

    fn resolve_default_backend(&mut self, found: &mut Vec<Diagnostic>) {
        let Some(word) = self.default_backend.take() else { return };
        // A defaults section may name a backend that none of its proxies needs; it is looked up where it counts.
        if self.kind == SectionKind::Defaults {
            return;
        }
        match proxy::backend(self, &word, "default_backend") {
            Ok(index) => self.proxy.default_backend = Some(index),
            Err(problems) => found.extend(problems),
        }
    }

    /// Capture slots of a frontend are all its own: none of them can come from elsewhere.
    fn missing_captures(&self) -> Vec<Diagnostic> {
        if self.kind != SectionKind::Frontend {
            return Vec::new();
        }
        let slots = |response| match response {
            true => self.scope.response_captures.len(),
            false => self.scope.request_captures.len(),
        };
        let awaited = self.scope.awaited_captures.iter();
        let missing = awaited.filter(|capture| capture.slot >= slots(capture.response));
        missing
            .map(|capture| {
                let message = format!("there is no capture slot {}", capture.slot);
                let way = if capture.response { "response" } else { "request" };
                Diagnostic::error(capture.pos, message)
                    .hint(format!("declare it: 'declare capture {way} len N'"))
            })
            .collect()
    }

    fn resolve_use_servers(&mut self, found: &mut Vec<Diagnostic>) {
        for (word, condition) in std::mem::take(&mut self.use_servers) {
            let name = word.as_str();
            let target = if name.contains("%[") {
                match self.format(&word, Place::BackendRequest) {
                    Ok(format) => Err(format),
                    Err(problems) => {
                        found.extend(problems);
                        continue;
                    }
                }
            } else if let Some(index) = self.server_names.get(&*name) {
                Ok(*index)
            } else {
                let message = format!(
                    "unable to find server '{name}' referenced in a 'use-server' rule of {}",
                    self.section()
                );
                let known = self.server_names.keys().map(String::as_str);
                let near = nearest(&name, known).map(|near| format!("did you mean '{near}'?"));
                let error = Diagnostic::error(word.pos, message);
                found.push(Diagnostic { hint: near, ..error });
                continue;
            };
            self.proxy.use_server.push(UseServer { target, condition });
        }
    }
}

/// Numbers of binds and servers: given ones stay, the others get the next free ones from 1.
fn assign_ids(proxy: &mut Proxy, found: &mut Vec<Diagnostic>) {
    let mut used: BTreeMap<u32, Pos> = BTreeMap::new();
    for server in proxy.servers.iter().filter(|server| server.id != 0) {
        if let Some(other) = used.insert(server.id, server.pos) {
            let message = format!(
                "server '{}' has the id {} of the one at line {}",
                server.name, server.id, other.line
            );
            found.push(Diagnostic::error(server.pos, message));
        }
    }
    let mut next = 1;
    for server in proxy.servers.iter_mut().filter(|server| server.id == 0) {
        server.id = free_id(&mut next, &used);
    }
    let used: BTreeMap<u32, Pos> = proxy.binds.iter().filter(|b| b.id != 0).map(|b| (b.id, b.pos)).collect();
    let mut next = 1;
    for bind in proxy.binds.iter_mut().filter(|bind| bind.id == 0) {
        bind.id = free_id(&mut next, &used);
    }
}

fn free_id(next: &mut u32, used: &BTreeMap<u32, Pos>) -> u32 {
    while used.contains_key(next) {
        *next += 1;
    }
    *next += 1;
    *next - 1
}
