//! The lines of a smaller section, one after another, and what must be there when all were read.

use weir_rules::{Diagnostic, Word};

use crate::keyword::{Found, How, Places};
use crate::language::args::{self, Args, Parsed, Prefix, fail, fail_hint};
use crate::language::tree::{Section, SectionKind};
use crate::model::{Bind, Cache};
use crate::sections::SectionDraft;
use crate::table;

impl SectionDraft<'_> {
    /// Reads all lines.
    pub(crate) fn run(&mut self, section: &Section, found: &mut Vec<Diagnostic>) {
        for line in &section.lines {
            if let Err(problems) = self.line(section.kind, &line.words) {
                found.extend(problems);
            }
        }
        if let Err(problems) = self.complete(section) {
            found.extend(problems);
        }
        found.append(&mut self.scope.warnings);
        found.append(&mut self.warnings);
    }

    fn line(&mut self, kind: SectionKind, words: &[Word]) -> Parsed {
        let (prefix, words) = args::prefix(words)?;
        let place = Places::of(kind);
        let Found::Here(keyword, count) = table::find(words, place) else {
            return Err(vec![table::unknown(words, place, &format!("'{}' section", kind.word()))]);
        };
        if prefix != Prefix::None && !keyword.negatable {
            return fail(words[0].pos, format!("'no' is not possible before '{}'", keyword.name));
        }
        let mut args = Args::new(words, keyword.name, count, prefix);
        match keyword.how {
            How::Section(parse) => parse(self, &mut args)?,
            How::NoEffect(_) => {}
            _ => keyword.refused(args.keyword_pos)?,
        }
        self.warnings.extend(args.ignored());
        Ok(())
    }

    /// What must be there when all lines were read.
    fn complete(&mut self, section: &Section) -> Parsed {
        match section.kind {
            SectionKind::Cache => complete_cache(&mut self.cache),
            SectionKind::Peers => {
                if self.peers.local.is_none() && !self.peers.remotes.is_empty() && !self.peers.disabled {
                    let message = format!(
                        "peers section '{}' has no entry for the local peer '{}'",
                        self.name, self.local_peer
                    );
                    self.warnings.push(
                        Diagnostic::warning(section.pos, message).hint("name it with -L or 'localpeer'"),
                    );
                }
                if let Some(default) = self.default_bind.take() {
                    for bind in &mut self.peers.binds {
                        let addr = bind.addr.clone();
                        *bind = Bind {
                            addr,
                            ssl: bind.ssl.clone().or_else(|| default.ssl.clone()),
                            ..default.clone()
                        };
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn complete_cache(cache: &mut Cache) -> Parsed {
    if cache.total_max_size_mb == 0 {
        return fail_hint(
            cache.pos,
            format!("cache '{}' has no size", cache.name),
            "add for instance 'total-max-size 4'",
        );
    }
    let total = cache.total_max_size_mb << 20;
    if cache.max_object_size == 0 {
        cache.max_object_size = total / 256;
    }
    if cache.max_object_size > total / 2 {
        return fail(cache.pos, "\"max-object-size\" is limited to an half of \"total-max-size\"");
    }
    Ok(())
}
