//! fcgi-app sections (section 10 of the manual): what a FastCGI application is told of a request.

use weir_rules::{Condition, Diagnostic, LogFormat};

use crate::keyword::{How, Keyword, Places, keyword as entry};
use crate::language::args::{Args, Parsed, Prefix, fail, fail_hint};
use crate::model::{FcgiApp, FcgiRule};
use crate::proxy::logging;
use crate::sections::FcgiDraft;

/// Most `set-param` and `pass-header` lines of an application: each is looked at for every request.
const MOST_RULES: usize = 1024;

impl FcgiDraft<'_> {
    /// `if ...` or `unless ...` at the end of a line, when there is one.
    fn condition(&mut self, a: &mut Args<'_>) -> Parsed<Option<Condition>> {
        match a.rest() {
            [] => Ok(None),
            words => Condition::parse(words, &mut self.scope).map(Some),
        }
    }

    fn add(&mut self, a: &Args<'_>, rule: FcgiRule) -> Parsed {
        if self.app.rules.len() >= MOST_RULES {
            return fail(
                a.keyword_pos,
                format!("more than {MOST_RULES} 'set-param' and 'pass-header' lines"),
            );
        }
        self.app.rules.push(rule);
        Ok(())
    }
}

fn set_param(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a name and a format")?.text.clone();
    let format = LogFormat::parse(a.need("a format after the name")?, &mut d.scope)?;
    let condition = d.condition(a)?;
    d.add(a, FcgiRule::SetParam { name, format, condition })
}

fn pass_header(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let name = a.need("a field name")?.text.to_ascii_lowercase();
    let condition = d.condition(a)?;
    d.add(a, FcgiRule::PassHeader { name, condition })
}

fn path_info(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a regular expression")?;
    let regex = weir_rules::data::pcre::compile_bytes(&word.text, false)
        .map_err(|message| vec![Diagnostic::error(word.pos, message)])?;
    if regex.captures_len() < 2 {
        let message = "the expression captures no script's name, so the whole path stays one";
        d.found.push(Diagnostic::warning(word.pos, message).hint("write for instance '^(/.+\\.php)(/.*)?$'"));
    }
    d.app.path_info = Some(regex);
    a.end()
}

fn log_stderr(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.app.logs.push(logging::target(a)?);
    Ok(())
}

fn index(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    d.app.index.clone_from(&a.need("a script's name")?.text);
    a.end()
}

fn docroot(d: &mut FcgiDraft<'_>, a: &mut Args<'_>) -> Parsed {
    let word = a.need("a path")?;
    if word.text.is_empty() {
        return fail_hint(word.pos, "'docroot' expects a path", "write for instance 'docroot /var/www/app'");
    }
    d.app.docroot.clone_from(&word.text);
    a.end()
}

fn option(d: &mut FcgiDraft<'_>, a: &Args<'_>, field: fn(&mut FcgiApp) -> &mut bool) -> Parsed {
    *field(&mut d.app) = a.prefix == Prefix::None;
    a.end()
}

const APP: Places = Places::FCGI_APP;

const ONE_AT_A_TIME: How =
    How::NoEffect("a connection carries one request at a time, which every application accepts");

/// Keywords of fcgi-app sections.
pub(crate) const KEYWORDS: &[Keyword] = &[
    entry("acl", APP, "<name> <criterion> [<values>...]", "Names a condition", How::Fcgi(|_, _| Ok(()))),
    entry("docroot", APP, "<path>", "Folder of the scripts", How::Fcgi(docroot)),
    entry("index", APP, "<script>", "Script for URIs that end in a slash", How::Fcgi(index)),
    entry(
        "log-stderr",
        APP,
        "global | <target>",
        "Where the application's errors are logged",
        How::Fcgi(log_stderr),
    ),
    entry(
        "option get-values",
        APP,
        "",
        "Asks for the application's limits",
        How::Fcgi(|d, a| option(d, a, |app| &mut app.get_values)),
    )
    .negatable(),
    entry(
        "option keep-conn",
        APP,
        "",
        "Keeps connections",
        How::Fcgi(|d, a| option(d, a, |app| &mut app.keep_conn)),
    )
    .negatable(),
    entry("option max-reqs", APP, "<number>", "Most requests on a connection", ONE_AT_A_TIME),
    entry("option mpxs-conns", APP, "", "Several requests at a time on a connection", ONE_AT_A_TIME)
        .negatable(),
    entry("pass-header", APP, "<name> [<if|unless> <condition>]", "Field passed on", How::Fcgi(pass_header)),
    entry("path-info", APP, "<regex>", "How the path is split", How::Fcgi(path_info)),
    entry(
        "set-param",
        APP,
        "<name> <fmt> [<if|unless> <condition>]",
        "Parameter of the application",
        How::Fcgi(set_param),
    ),
];
