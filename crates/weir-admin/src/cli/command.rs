//! The table of commands: their words, who may run them, what they do.
//!
//! Owns finding the command that was meant, and the help made of the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_config::model::AdminLevel::{self, Admin, Operator, User};

use super::{
    Answer, Mode, Request, Session, SeverityOutput, certificates, dynamic, frontend, limits, ocsp, patterns,
};
use super::{process, reports, resolvers, server, session, sessions, tables, trust};

/// One command.
pub(crate) struct Command {
    /// The words it begins with.
    pub(crate) words: &'static [&'static str],
    /// The words that follow, for the help.
    pub(crate) arguments: &'static str,
    /// What it does, for the help.
    pub(crate) description: &'static str,
    /// The least level that may run it.
    pub(crate) level: AdminLevel,
    pub(crate) run: fn(&mut Session, &Request) -> Answer,
}

const fn command(
    words: &'static [&'static str],
    arguments: &'static str,
    level: AdminLevel,
    run: fn(&mut Session, &Request) -> Answer,
    description: &'static str,
) -> Command {
    Command { words, arguments, description, level, run }
}

/// What follows a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Next,
    Quit,
}

/// All commands, in the order of the help.
#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    command(&["abort", "ssl", "ca-file"], "<cafile>", Admin, trust::abort_ca, "give the change of a file of authorities up"),
    command(&["abort", "ssl", "crl-file"], "<crlfile>", Admin, trust::abort_crl, "give the change of a file of revocation lists up"),
    command(&["abort", "ssl", "cert"], "<certfile>", Admin, certificates::abort, "give the change of a certificate up"),
    command(&["add", "acl"], "<acl> <pattern>", User, patterns::add_acl, "add a pattern to an ACL file"),
    command(&["add", "map"], "<map> <key> <value>", User, patterns::add_map, "add an entry to a map (or many, as payload)"),
    command(&["add", "server"], "<bk>/<srv> <addr> [args]*", Admin, dynamic::add_server, "create a server"),
    command(&["add", "ssl", "ca-file"], "<cafile> <payload>", Admin, trust::add_ca, "add authorities to a file being changed"),
    command(&["add", "ssl", "crt-list"], "<list> <cert>|<payload>", Admin, certificates::add_line, "add a line to a crt-list"),
    command(&["clear", "acl"], "<acl>", User, patterns::clear_acl, "remove all patterns of an ACL file"),
    command(&["clear", "counters"], "[all]", Operator, process::clear_counters, "set the highest values, or all counters, back to zero"),
    command(&["clear", "map"], "<map>", User, patterns::clear_map, "remove all entries of a map"),
    command(&["clear", "table"], "<table> [<filter>]*", User, tables::clear, "remove entries of a stick table"),
    command(&["commit", "acl"], "@<ver> <acl>", User, patterns::commit_acl, "put a prepared version of an ACL file in force"),
    command(&["commit", "map"], "@<ver> <map>", User, patterns::commit_map, "put a prepared version of a map in force"),
    command(&["commit", "ssl", "ca-file"], "<cafile>", Admin, trust::commit_ca, "put a changed file of authorities in force"),
    command(&["commit", "ssl", "crl-file"], "<crlfile>", Admin, trust::commit_crl, "put a changed file of revocation lists in force"),
    command(&["commit", "ssl", "cert"], "<certfile>", Admin, certificates::commit, "put a changed certificate in force"),
    command(&["del", "acl"], "<acl> [<key>|#<ref>]", User, patterns::delete_acl, "remove patterns of an ACL file"),
    command(&["del", "map"], "<map> [<key>|#<ref>]", User, patterns::delete_map, "remove entries of a map"),
    command(&["del", "server"], "<bk>/<srv>", Admin, dynamic::delete_server, "remove a server in maintenance"),
    command(&["del", "ssl", "ca-file"], "<cafile>", Admin, trust::delete_ca, "delete an unused file of authorities"),
    command(&["del", "ssl", "crl-file"], "<crlfile>", Admin, trust::delete_crl, "delete an unused file of revocation lists"),
    command(&["del", "ssl", "cert"], "<certfile>", Admin, certificates::delete, "forget an unused certificate"),
    command(&["del", "ssl", "crt-list"], "<list> <cert[:line]>", Admin, certificates::delete_line, "remove a line of a crt-list"),
    command(&["disable", "agent"], "<bk>/<srv>", Admin, server::disable_agent, "stop a server's agent checks"),
    command(&["disable", "dynamic-cookie", "backend"], "<bk>", Admin, frontend::dynamic_cookie_missing, "stop dynamic cookies of a backend"),
    command(&["disable", "frontend"], "<frontend>", Admin, frontend::disable, "accept no connections for a while"),
    command(&["disable", "health"], "<bk>/<srv>", Admin, server::disable_health, "stop a server's health checks"),
    command(&["disable", "server"], "<bk>/<srv>", Admin, server::disable, "put a server into maintenance"),
    command(&["dump", "ssl", "cert"], "<certfile>", Admin, certificates::dump, "show a certificate with its key as PEM text"),
    command(&["dump", "stats-file"], "", User, reports::stats_file, "show the counters as a stats-file"),
    command(&["enable", "agent"], "<bk>/<srv>", Admin, server::enable_agent, "resume a server's agent checks"),
    command(&["enable", "dynamic-cookie", "backend"], "<bk>", Admin, frontend::dynamic_cookie_missing, "use dynamic cookies in a backend"),
    command(&["enable", "frontend"], "<frontend>", Admin, frontend::enable, "accept connections again"),
    command(&["enable", "health"], "<bk>/<srv>", Admin, server::enable_health, "resume a server's health checks"),
    command(&["enable", "server"], "<bk>/<srv>", Admin, server::enable, "take a server out of maintenance"),
    command(&["get", "acl"], "<acl> <value>", User, patterns::get_acl, "show which pattern matches a value"),
    command(&["get", "map"], "<map> <value>", User, patterns::get_map, "show which entry a value finds"),
    command(&["get", "var"], "<name>", Operator, process::get_var, "show a variable of the process"),
    command(&["get", "weight"], "<bk>/<srv>", User, server::get_weight, "show a server's weight"),
    command(&["new", "ssl", "ca-file"], "<cafile>", Admin, trust::new_ca, "create an empty file of authorities"),
    command(&["new", "ssl", "crl-file"], "<crlfile>", Admin, trust::new_crl, "create an empty file of revocation lists"),
    command(&["new", "ssl", "cert"], "<certfile>", Admin, certificates::create, "create an empty certificate"),
    command(&["operator"], "", Operator, session::operator, "lower the rights of this connection to operator"),
    command(&["prepare", "acl"], "<acl>", User, patterns::prepare_acl, "begin a new version of an ACL file"),
    command(&["prepare", "map"], "<map>", User, patterns::prepare_map, "begin a new version of a map"),
    command(&["publish", "backend"], "<bk>", Operator, frontend::publish, "let rules choose a backend"),
    command(&["set", "map"], "<map> [<key>|#<ref>] <value>", User, patterns::set_map, "change entries of a map"),
    command(&["set", "maxconn", "frontend"], "<frontend> <value>", Admin, limits::frontend, "change a frontend's maxconn"),
    command(&["set", "maxconn", "global"], "<value>", Admin, limits::global, "change the process's maxconn"),
    command(&["set", "maxconn", "server"], "<bk>/<srv> <value>", Admin, limits::server, "change a server's maxconn"),
    command(&["set", "rate-limit"], "<setting> <value>", Admin, limits::rate, "change a limit per second"),
    command(&["set", "server"], "<bk>/<srv> [opts]", Admin, server::set, "change a server's state, weight or address"),
    command(&["set", "severity-output"], "[none|number|string]", User, session::severity_output, "show the severity of messages"),
    command(&["set", "ssl", "ca-file"], "<cafile> <payload>", Admin, trust::set_ca, "change a file of authorities"),
    command(&["set", "ssl", "crl-file"], "<crlfile> <payload>", Admin, trust::set_crl, "change a file of revocation lists"),
    command(&["set", "ssl", "cert"], "<certfile> <payload>", Admin, certificates::set, "change a certificate"),
    command(&["set", "ssl", "ocsp-response"], "<response|payload>", Admin, ocsp::set, "change an OCSP response"),
    command(&["set", "table"], "<table> key <k> [data.* <v>]*", User, tables::set, "create or change an entry of a stick table"),
    command(&["set", "timeout"], "[cli] <delay>", User, session::timeout, "change how long this connection may be silent"),
    command(&["set", "var"], "<name> [expr|fmt] <value>", Operator, process::set_var, "set a variable of the process"),
    command(&["set", "weight"], "<bk>/<srv> <weight>", Admin, server::set_weight, "change a server's weight"),
    command(&["show", "acl"], "[<acl>]", User, patterns::show_acl, "list the ACL files, or the patterns of one"),
    command(&["show", "activity"], "", Operator, process::activity, "show how busy the threads are"),
    command(&["show", "backend"], "", User, reports::backends, "list the backends"),
    command(&["show", "cache"], "", User, process::cache, "show the caches and what they hold"),
    command(&["show", "cli", "level"], "", User, session::show_level, "show the rights of this connection"),
    command(&["show", "cli", "sockets"], "", User, session::show_sockets, "list the sockets for commands"),
    command(&["show", "env"], "[<var>]", Operator, process::env, "show environment variables"),
    command(&["show", "errors"], "[<px>] [request|response]", Operator, process::errors, "show the last invalid messages"),
    command(&["show", "fd"], "[<num>]", Operator, process::descriptors, "list open file descriptors"),
    command(&["show", "info"], "[desc|json|typed|float]*", User, reports::info, "show figures of the process"),
    command(&["show", "map"], "[<map>]", User, patterns::show_map, "list the maps, or the entries of one"),
    command(&["show", "peers"], "[<section>]", User, process::nothing, "show the peers"),
    command(&["show", "pools"], "", Operator, process::pools, "show the memory in use"),
    command(&["show", "resolvers"], "[<id>]", User, resolvers::show, "show the name servers"),
    command(&["show", "schema", "json"], "", User, reports::schema, "show the schema of JSON output"),
    command(&["show", "servers", "conn"], "[<backend>]", User, reports::server_connections, "show the servers' connections"),
    command(&["show", "servers", "state"], "[<backend>]", User, reports::server_states, "show the servers' states"),
    command(&["show", "sess"], "[<id>]", Operator, sessions::show, "list the sessions"),
    command(&["show", "ssl", "ca-file"], "[<cafile>[:<index>]]", Operator, trust::show_ca, "list the files of authorities, or show one"),
    command(&["show", "ssl", "crl-file"], "[<crlfile>[:<index>]]", Operator, trust::show_crl, "list the files of revocation lists, or show one"),
    command(&["show", "ssl", "cert"], "[<certfile>]", Operator, certificates::show, "list the certificates, or show one"),
    command(&["show", "ssl", "ocsp-response"], "[[text|base64] <id|certfile>]", Operator, ocsp::show, "list the OCSP responses, or show one"),
    command(&["show", "ssl", "ocsp-updates"], "", Operator, ocsp::show_updates, "show when OCSP responses are fetched"),
    command(&["show", "ssl", "crt-list"], "[-n] [<list>]", Operator, certificates::show_lists, "list the crt-lists, or the lines of one"),
    command(&["show", "ssl", "sni"], "[-f <frontend>] [-A] [-t <offset>]", Operator, certificates::show_names, "list the names that clients can ask for"),
    command(&["show", "startup-logs"], "", User, process::nothing, "show what was said at start"),
    command(&["show", "stat"], "[desc|json|no-maint|typed|up]*", User, reports::statistics, "show the statistics"),
    command(&["show", "table"], "<table> [<filter>]*", User, tables::show, "list the stick tables"),
    command(&["show", "threads"], "", Operator, process::threads, "list the threads"),
    command(&["show", "version"], "", User, process::version, "show the version"),
    command(&["shutdown", "frontend"], "<frontend>", Admin, frontend::shutdown, "stop a frontend for good"),
    command(&["shutdown", "session"], "<id>", Admin, sessions::shutdown, "end a session"),
    command(&["shutdown", "sessions", "server"], "<bk>/<srv>", Admin, sessions::shutdown_on_server, "end the sessions on a server"),
    command(&["unpublish", "backend"], "<bk>", Operator, frontend::unpublish, "let no rule of another proxy choose a backend"),
    command(&["update", "ssl", "ocsp-response"], "<certfile>", Admin, ocsp::update, "fetch an OCSP response now"),
    command(&["user"], "", User, session::user, "lower the rights of this connection to user"),
    command(&["wait"], "<delay> [<condition>]", User, dynamic::wait, "wait, or until a condition holds"),
    command(&["help"], "[<command>]", User, help, "list the commands, or some of them"),
    command(&["prompt"], "[help | n | i | p | timed]*", User, session::prompt, "accept more than one line"),
    command(&["quit"], "", User, session::quit, "close the connection"),
];

/// Commands that the help does not show.
const HIDDEN: &[Command] = &[
    command(&["abort", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["add", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["commit", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["del", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["new", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["set", "ssl"], "", Admin, process::tls_missing, ""),
    command(&["show", "ssl"], "", Operator, process::tls_missing, ""),
    command(&["show", "tls-keys"], "", Operator, process::tls_missing, ""),
    command(&["debug", "dev", "log"], "<text>", Admin, process::debug_log, ""),
    command(&["expert-mode"], "[on|off]", Admin, session::expert_mode, ""),
    command(&["experimental-mode"], "[on|off]", Admin, session::experimental_mode, ""),
];

/// Words of an unknown command that are repeated.
const MAX_WORDS_SHOWN: usize = 4;

/// Runs what was asked.
pub(crate) fn run(session: &mut Session, request: &Request) -> Answer {
    match find(request) {
        Some(command) if session.level < command.level => Answer::error("Permission denied"),
        Some(command) => (command.run)(session, request),
        None => unknown(session, request),
    }
}

/// The command whose words the request begins with.
fn find(request: &Request) -> Option<&'static Command> {
    let fits =
        |command: &&Command| command.words.iter().enumerate().all(|(at, word)| request.word(at) == *word);
    COMMANDS.iter().chain(HIDDEN).filter(fits).max_by_key(|command| command.words.len())
}

/// One line about what is no command: who mistypes a word is not to lose what was on the screen.
fn unknown(session: &Session, request: &Request) -> Answer {
    if request.words.is_empty() && session.mode != Mode::Single {
        return Answer::Done;
    }
    let allowed = || COMMANDS.iter().filter(|command| command.level <= session.level);
    let following: BTreeSet<&str> = allowed().filter_map(|command| next_word(command, request)).collect();
    let asked = request.words.iter().take(MAX_WORDS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    let advice = if !request.words.is_empty() && !following.is_empty() {
        format!("one of these follows: {}.", following.into_iter().collect::<Vec<_>>().join(", "))
    } else if let Some(near) = nearest(allowed(), request) {
        format!("did you mean '{}'? 'help' lists all commands.", near.words.join(" "))
    } else {
        "'help' lists all commands.".to_owned()
    };
    Answer::info(format!("Unknown command: '{asked}'; {advice}\n"))
}

/// The word that is missing of a command that begins as the request does.
fn next_word(command: &Command, request: &Request) -> Option<&'static str> {
    let begins = request.words.iter().zip(command.words).all(|(asked, word)| asked == word);
    if begins { command.words.get(request.words.len()).copied() } else { None }
}

/// The command that is most like the request, when it is near enough to be meant.
fn nearest(commands: impl Iterator<Item = &'static Command>, request: &Request) -> Option<&'static Command> {
    let away = |command: &'static Command| {
        let asked = request.words.iter().take(command.words.len()).map(String::as_str).collect::<Vec<_>>();
        let asked = asked.join(" ");
        let far = distance(&command.words.join(" "), &asked);
        (far <= asked.len() / 3 + 1 && far < asked.len()).then_some((far, command))
    };
    commands.filter_map(away).min_by_key(|(far, _)| *far).map(|(_, command)| command)
}

fn always() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|c| matches!(c.words, ["help" | "prompt" | "quit"]))
}

/// Letters to insert, remove or replace until the words are the same.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().take(32).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// `help`
fn help(session: &mut Session, request: &Request) -> Answer {
    let asked = &request.words[1..];
    let fits = |command: &&Command| {
        command.level <= session.level
            && asked.iter().zip(command.words).all(|(asked, word)| word.starts_with(asked.as_str()))
            && asked.len() <= command.words.len()
    };
    let mut text = "The following commands are valid at this level:\n".to_owned();
    let found: Vec<_> = COMMANDS.iter().filter(fits).collect();
    match (asked.is_empty(), found.is_empty()) {
        (true, _) => list(found.into_iter(), &mut text),
        (false, true) => list(COMMANDS.iter().filter(|c| c.level <= session.level), &mut text),
        (false, false) => list(found.into_iter().chain(always()), &mut text),
    }
    Answer::info(text)
}

fn list<'a>(commands: impl Iterator<Item = &'a Command>, text: &mut String) {
    for command in commands {
        let usage = format!("{} {}", command.words.join(" "), command.arguments);
        // Writing to memory cannot fail.
        writeln!(text, "  {:<40}: {}", usage.trim_end(), command.description).unwrap_or_default();
    }
}

/// The severity keyword, for `set severity-output`.
pub(crate) fn severity_named(word: &str) -> Option<SeverityOutput> {
    SeverityOutput::NAMES.iter().find(|(name, _)| *name == word).map(|(_, output)| *output)
}
