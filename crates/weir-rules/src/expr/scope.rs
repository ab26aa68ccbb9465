//! What parsing may refer to: the section a line stands in and what the whole configuration shares.
//!
//! Owns names (ACLs, user lists, error sections, capture slots) and what parsing leaves behind (warnings,
//! references to proxies and tables); leaves filling them in section order to the configuration crate.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use regex::bytes::Regex;
use weir_http::Response;

use crate::data::auth::UserList;
use crate::data::pattern::{PatternFile, PatternFiles};
use crate::data::pcre;
use crate::expr::acl::Acl;
use crate::expr::entry::Vocabulary;
use crate::facts::MAX_TRACKED;
use crate::{Diagnostic, Phase, Pos, Word};

/// Reads a whole file: the only way parsing reaches the file system.
pub type ReadFile<'a> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'a;

/// What all sections of a configuration share.  User lists and error sections are filled in before rules are parsed.
pub struct Shared<'a> {
    /// Reads maps, ACL files, `lf-file` and error files.
    pub read: &'a ReadFile<'a>,
    /// `userlist` sections by name.
    pub user_lists: BTreeMap<String, Arc<UserList>>,
    /// `http-errors` sections by name: messages by status.
    pub http_errors: BTreeMap<String, BTreeMap<u16, ErrorMessage>>,
    /// Maps and ACL files by name: read once, shared by all who name them, changed at run time.
    pub files: Arc<PatternFiles>,
    /// `global: strict-limits`-like switches are not here; environment variables are (`env`, `%[env(X)]`).
    pub env: BTreeMap<String, String>,
    /// Slots that `track-sc` may use (`tune.stick-counters`).
    pub tracked_slots: usize,
    /// Where keywords are looked up.
    pub(crate) vocabulary: Vocabulary,
    /// Named regular expressions already compiled, so that the same text is compiled once.
    pub(crate) regexes: RefCell<BTreeMap<(Vec<u8>, bool), Regex>>,
}

impl<'a> Shared<'a> {
    /// Nothing shared yet but a vocabulary.
    pub(crate) fn with(vocabulary: Vocabulary, read: &'a ReadFile<'a>) -> Self {
        Self {
            read,
            vocabulary,
            user_lists: BTreeMap::new(),
            http_errors: BTreeMap::new(),
            files: Arc::default(),
            env: BTreeMap::new(),
            tracked_slots: MAX_TRACKED,
            regexes: RefCell::default(),
        }
    }
}

/// A message of an `http-errors` section (`errorfile 404 path`).
#[derive(Clone, Debug)]
pub enum ErrorMessage {
    /// The parsed HTTP/1 response and its body.
    Message(Arc<(Response, Arc<[u8]>)>),
    /// `/dev/null`: close without an answer.
    Silent,
}

/// Where an expression stands when it is no rule; decides which fetches have something to fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Nothing is known: everything is allowed.
    #[default]
    Any,
    /// In a rule set; set by [`crate::Rule::parse`] itself.
    Rule(Phase),
    /// In a frontend's routing: `use_backend`, `unique-id-format`, `monitor fail`.
    FrontendRequest,
    /// In a backend's routing: `use-server`, `balance`, `stick on`, `sni`.
    BackendRequest,
    /// `stick store-response`.
    BackendResponse,
    /// In a log line.
    Log,
    /// In a health check.
    Check,
    /// At start: `global: set-var`.
    Start,
}

/// A name that must exist elsewhere in the configuration; found while parsing, checked by the configuration crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// What is named.
    pub target: Target,
    /// Where the name stands.
    pub pos: Pos,
}

/// What a [`Reference`] names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A proxy with a frontend's half.
    Frontend(String),
    /// A proxy with a backend's half.
    Backend(String),
    /// A server of a backend.
    Server {
        /// Backend.
        backend: String,
        /// Server.
        server: String,
    },
    /// A server of a backend that has no address of its own (`rhttp@`).
    ReverseServer {
        /// Backend.
        backend: String,
        /// Server.
        server: String,
    },
    /// A stick table (proxy or `peers` table); with the data types it has to store.
    Table {
        /// Proxy with the table.
        name: String,
        /// Data type that is read or written (`gpc0`, `http_req_rate`), when one is.
        data: Option<String>,
    },
    /// A `cache` section.
    Cache(String),
    /// An `fcgi-app` section.
    FcgiApp(String),
    /// A `log-profile` section.
    LogProfile(String),
    /// A `resolvers` section.
    Resolvers(String),
    /// A bandwidth limitation filter.
    BandwidthFilter {
        /// The proxy it stands in.
        proxy: String,
        /// Its name.
        name: String,
        /// The rule has a limit or a period of its own.
        changed: bool,
    },
}

/// A capture slot that a rule names before a line declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AwaitedCapture {
    /// It is one of responses.
    pub response: bool,
    /// Its number.
    pub slot: usize,
    /// Where the rule names it.
    pub pos: Pos,
}

/// What the rules of one section may refer to, and what parsing them found.
pub struct Scope<'a> {
    /// What all sections share.
    pub shared: &'a Shared<'a>,
    /// Name of the proxy; default of fetches and tables that name none.
    pub proxy: String,
    /// The section has a frontend's half.
    pub frontend: bool,
    /// The section has a backend's half.
    pub backend: bool,
    /// The section is in `mode http`.
    pub http: bool,
    /// Where the expression stands; set by the caller for all but rules.
    pub place: Place,
    /// Named ACLs of this section (start with a clone of the defaults section's).
    pub acls: BTreeMap<String, Arc<Acl>>,
    /// Request capture slots: (header name or empty, longest kept).  `http-request capture ... len N` adds one.
    pub request_captures: Vec<(Vec<u8>, usize)>,
    /// Response capture slots.
    pub response_captures: Vec<(Vec<u8>, usize)>,
    /// Slots that rules name and no line before them declares.
    pub awaited_captures: Vec<AwaitedCapture>,
    /// Findings that do not stop parsing.
    pub warnings: Vec<Diagnostic>,
    /// Names that must exist.
    pub references: Vec<Reference>,
}

impl<'a> Scope<'a> {
    /// A section without ACLs and captures, in `mode http`, with both halves.
    #[must_use]
    pub fn new(shared: &'a Shared<'a>, proxy: &str) -> Self {
        Self {
            shared,
            proxy: proxy.to_owned(),
            frontend: true,
            backend: true,
            http: true,
            place: Place::Any,
            acls: BTreeMap::new(),
            request_captures: Vec::new(),
            response_captures: Vec::new(),
            awaited_captures: Vec::new(),
            warnings: Vec::new(),
            references: Vec::new(),
        }
    }

    /// `acl NAME CRITERION [flags] [values]`: the words after `acl`.  A name defined again means either of both.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn define_acl(&mut self, words: &[Word]) -> Result<(), Vec<Diagnostic>> {
        crate::expr::acl::define(words, self)
    }

    /// Reads a file for the word that names it.
    pub(crate) fn read(&self, word: &Word) -> Result<Vec<u8>, Vec<Diagnostic>> {
        let path = word.as_str();
        (self.shared.read)(Path::new(path.as_ref()))
            .map_err(|e| vec![Diagnostic::error(word.pos, format!("cannot read '{path}': {e}"))])
    }

    /// The map or ACL file that a word names, read when it is new.
    pub(crate) fn pattern_file(
        &self,
        word: &Word,
        is_map: bool,
    ) -> Result<Arc<PatternFile>, Vec<Diagnostic>> {
        self.shared.files.open(word, is_map, |path| self.read(path))
    }

    /// The regular expression of a word, compiled once per text.
    pub(crate) fn regex(&self, word: &Word, ignore_case: bool) -> Result<Regex, Diagnostic> {
        let key = (word.text.clone(), ignore_case);
        if let Some(known) = self.shared.regexes.borrow().get(&key) {
            return Ok(known.clone());
        }
        let regex =
            pcre::compile_bytes(&word.text, ignore_case).map_err(|e| Diagnostic::error(word.pos, e))?;
        self.shared.regexes.borrow_mut().insert(key, regex.clone());
        Ok(regex)
    }

    /// Notes a name that must exist.
    pub(crate) fn refer(&mut self, target: Target, pos: Pos) {
        let reference = Reference { target, pos };
        if !self.references.contains(&reference) {
            self.references.push(reference);
        }
    }

    /// Notes something that is probably a mistake.
    pub(crate) fn warn(&mut self, pos: Pos, message: impl Into<String>) {
        self.warnings.push(Diagnostic::warning(pos, message));
    }
}
