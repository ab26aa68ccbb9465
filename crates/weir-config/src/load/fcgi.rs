//! The lines of an `fcgi-app` section, one after another.

use weir_rules::expr::scope::Reference;
use weir_rules::{Diagnostic, Place, Scope, Shared, Word};

use crate::keyword::{Found, How, Places};
use crate::language::args::{self, Args, Parsed, Prefix, fail};
use crate::language::tree::Section;
use crate::model::FcgiApp;
use crate::sections::FcgiDraft;
use crate::table;

/// An application that was read, and the names in it that must exist.
pub(crate) struct Finished {
    pub(crate) app: FcgiApp,
    pub(crate) references: Vec<Reference>,
}

/// Reads a section.
pub(crate) fn read(section: &Section, shared: &Shared<'_>, found: &mut Vec<Diagnostic>) -> Finished {
    let mut scope = Scope::new(shared, &section.name);
    scope.place = Place::BackendRequest;
    let app = FcgiApp { pos: section.pos, keep_conn: true, ..FcgiApp::default() };
    let mut draft = FcgiDraft { app, scope, found: Vec::new() };
    // A name may be completed behind a condition that uses it.
    for line in section.lines.iter().filter(|line| line.words[0] == "acl") {
        if let Err(problems) = draft.scope.define_acl(&line.words[1..]) {
            draft.found.extend(problems);
        }
    }
    for line in &section.lines {
        if let Err(problems) = draft.line(&line.words) {
            draft.found.extend(problems);
        }
    }
    if draft.app.docroot.is_empty() {
        let message = format!("fcgi-app '{}': no docroot configured", section.name);
        draft.found.push(Diagnostic::error(section.pos, message).hint("add 'docroot PATH'"));
    }
    found.append(&mut draft.found);
    found.append(&mut draft.scope.warnings);
    Finished { app: draft.app, references: draft.scope.references }
}

impl FcgiDraft<'_> {
    fn line(&mut self, words: &[Word]) -> Parsed {
        let (prefix, words) = args::prefix(words)?;
        let Found::Here(keyword, count) = table::find(words, Places::FCGI_APP) else {
            return Err(vec![table::unknown(words, Places::FCGI_APP, "'fcgi-app' section")]);
        };
        if prefix != Prefix::None && !keyword.negatable {
            return fail(words[0].pos, format!("'no' is not possible before '{}'", keyword.name));
        }
        let mut args = Args::new(words, keyword.name, count, prefix);
        match keyword.how {
            How::Fcgi(parse) => parse(self, &mut args),
            How::NoEffect(_) => Ok(()),
            _ => keyword.refused(args.keyword_pos),
        }
    }
}
