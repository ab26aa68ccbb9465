//! A proxy being read: a frontend, backend, listen or defaults section.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use weir_rules::expr::scope::{ErrorMessage, Reference};
use weir_rules::{Condition, Diagnostic, LogFormat, Place, Pos, Scope, Shared, Word};

use crate::language::args::{Args, Parsed, fail_hint};
use crate::language::tree::{Section, SectionKind};
use crate::model::{Global, Mode, Proxy, RetryOn};
use crate::sections::ServerDraft;
use crate::sections::checks::ChecksDraft;
use crate::sections::stats::StatsDraft;

/// What sections may look at while they are read.
pub(crate) struct World<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) global: &'a Global,
    /// Backends (and listens) by name: index into the list of proxies.
    pub(crate) backends: HashMap<&'a str, usize>,
    pub(crate) rings: HashSet<String>,
    pub(crate) peers: HashSet<String>,
    /// Error files already parsed: each proxy of a defaults section names the same ones.
    pub(crate) messages: RefCell<HashMap<Vec<u8>, ErrorMessage>>,
}

/// A proxy being read.
pub(crate) struct ProxyDraft<'a> {
    pub(crate) proxy: Proxy,
    pub(crate) kind: SectionKind,
    pub(crate) world: &'a World<'a>,
    pub(crate) scope: Scope<'a>,
    /// The line comes from a defaults section.
    pub(crate) inherited: bool,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Lines of this section that set a timeout, by its name.
    pub(crate) timeout_lines: HashMap<String, u32>,
    /// Start of each server line (`default-server`).
    pub(crate) default_server: ServerDraft,
    /// Servers by name, for duplicates and `use-server`.
    pub(crate) server_names: HashMap<String, usize>,
    pub(crate) use_servers: Vec<(Word, Option<Condition>)>,
    /// The last line's counts.
    pub(crate) default_backend: Option<Word>,
    /// Words of each `ssl-f-use` line, the file first.
    pub(crate) certificates: Vec<Vec<String>>,
    /// Place of the last rule in the order that rule sets run in.
    pub(crate) last_stage: usize,
    pub(crate) stats: StatsDraft,
    pub(crate) checks: ChecksDraft,
    /// A `healthcheck` section has its `type`.
    pub(crate) typed: bool,
    /// Where the last `filter-sequence` line has its list.
    pub(crate) filter_sequence_pos: Pos,
}

/// A proxy that was read, and what must still be checked.
pub(crate) struct Finished {
    pub(crate) proxy: Proxy,
    pub(crate) references: Vec<Reference>,
    pub(crate) found: Vec<Diagnostic>,
}

/// Name of the pseudo proxy that rules of a defaults section see: references to it name no proxy at all.
pub(crate) const NO_PROXY: &str = "<defaults>";

impl<'a> ProxyDraft<'a> {
    pub(crate) fn new(section: &Section, world: &'a World<'a>, mode: Mode) -> Self {
        let kind = section.kind;
        let name = if kind == SectionKind::Defaults { NO_PROXY } else { section.name.as_str() };
        let mut scope = Scope::new(world.shared, name);
        scope.frontend = kind != SectionKind::Backend;
        scope.backend = kind != SectionKind::Frontend;
        scope.http = mode == Mode::Http;
        let proxy = Proxy {
            name: section.name.as_str().into(),
            pos: section.pos,
            frontend: matches!(kind, SectionKind::Frontend | SectionKind::Listen),
            backend: matches!(kind, SectionKind::Backend | SectionKind::Listen),
            mode,
            retries: 3,
            max_keep_alive_queue: -1,
            retry_on: RetryOn { conn_failure: true, ..RetryOn::default() },
            ..Proxy::default()
        };
        Self {
            proxy,
            kind,
            world,
            scope,
            inherited: false,
            warnings: Vec::new(),
            timeout_lines: HashMap::new(),
            default_server: ServerDraft::new(world.global),
            server_names: HashMap::new(),
            certificates: Vec::new(),
            use_servers: Vec::new(),
            default_backend: None,
            last_stage: 0,
            stats: StatsDraft::default(),
            checks: ChecksDraft::default(),
            typed: false,
            filter_sequence_pos: Pos::default(),
        }
    }

    /// `frontend 'web'`, for messages.
    pub(crate) fn section(&self) -> String {
        match &*self.proxy.name {
            "" => format!("'{}' section", self.kind.word()),
            name => format!("{} '{name}'", self.kind.word()),
        }
    }

    /// `if ...` or `unless ...` at the end of a line, when there is one.
    pub(crate) fn condition(&mut self, args: &mut Args<'_>, place: Place) -> Parsed<Option<Condition>> {
        let words = args.rest();
        let Some(first) = words.first() else { return Ok(None) };
        if *first != "if" && *first != "unless" {
            return fail_hint(
                first.pos,
                format!("unexpected '{}'", first.as_str()),
                "a condition starts with 'if' or 'unless'",
            );
        }
        self.at(place, |draft| Condition::parse(words, &mut draft.scope)).map(Some)
    }

    /// Reads something with the scope's place set.
    pub(crate) fn at<T>(&mut self, place: Place, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.scope.place, place);
        let value = read(self);
        self.scope.place = outer;
        value
    }

    pub(crate) fn format(&mut self, word: &Word, place: Place) -> Parsed<LogFormat> {
        self.at(place, |draft| LogFormat::parse(word, &mut draft.scope))
    }
}
